// SPDX-License-Identifier: Apache-2.0
// attc tune --shapes FILE: extents as after -D, a line for each shape, in the place of those of -D
// of the same dims. Empty lines and those that begin with # are left out. All lines are read before
// anything is searched for.
#include <string.h>

#include "arguments.h"
#include "driver/tune/tuning.h"

static bool extents_have(const DimExtents *extents, Name dim) {
    for (uint32_t i = 0; i < extents->count; i++)
        if (extents->at[i].dim == dim)
            return true;
    return false;
}

static void add_given(const Session *session, TuneShape *shape) {
    for (uint32_t i = 0; i < session->overrides.count; i++)
        if (!extents_have(&shape->extents, session->overrides.at[i].dim))
            vec_push(session->arena, &shape->extents, session->overrides.at[i]);
}

// What is wrong with it; NULL: nothing.
static const char *read_shape(Session *session, TuneShape *shape) {
    const char *at = shape->text;
    AttDimArgument item;
    while (att_argument_dim(&at, &item)) {
        if (item.problem)
            return arena_printf(session->arena, "%.*s: %s", item.length, item.text, item.problem);
        if (item.plain_length < item.name_length)
            return arena_printf(session->arena, "%.*s: it has the extent of the dim without primes",
                                item.length, item.text);
        Name dim = names_intern(session->names, item.text, (size_t)item.name_length);
        if (extents_have(&shape->extents, dim))
            return arena_printf(session->arena, "%s is given twice", dim);
        vec_push(session->arena, &shape->extents, (DimExtent){dim, item.extent});
    }
    add_given(session, shape);
    return NULL;
}

static bool read_lines(Options *options, const char *at, TuneShapes *out) {
    Session *session = options->session;
    for (uint32_t line = 1; *at; line++) {
        size_t length = strcspn(at, "\n"), blanks = strspn(at, " \t\r");
        const char *end = at + length, *begin = at + (blanks < length ? blanks : length);
        size_t used = (size_t)(end - begin);
        while (used && strchr(" \t\r", begin[used - 1]))
            used--;
        TuneShape shape = {.text = arena_strndup(session->arena, begin, used), .line = line};
        const char *why = used && *begin != '#' ? read_shape(session, &shape) : NULL;
        if (why) {
            problem(options, "%s:%u: %s", options->shapes, line, why);
            return false;
        }
        if (used && *begin != '#')
            vec_push(session->arena, out, shape);
        at = end + (*end == '\n');
    }
    if (!out->count)
        problem(options, "%s: it has no shapes: write one as n=512,m=512", options->shapes);
    return out->count;
}

bool tune_shapes_read(Options *options, TuneShapes *out) {
    Session *session = options->session;
    if (!options->shapes) {
        vec_push(session->arena, out, (TuneShape){"", 0, session->overrides});
        return true;
    }
    Sources *sources = sources_new(session->arena);
    const char *why = NULL;
    uint32_t file = sources_read(sources, options->shapes, &why);
    if (!file) {
        problem(options, "%s", why);
        return false;
    }
    const Source *source = sources_get(sources, file);
    if (strlen(source->text) == source->length)
        return read_lines(options, source->text, out);
    uint32_t line = 1;
    for (const char *at = source->text; *at; at++)
        line += *at == '\n';
    problem(options, "%s:%u: a NUL byte: this is no text", options->shapes, line);
    return false;
}
