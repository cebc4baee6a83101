// SPDX-License-Identifier: Apache-2.0
// What a training program is told of its heads: masks, what is removed with a head, and the source
// as pieces between which extents are written.
//
//     dim h = 8, d_k = d / h        "dim h = ", h, ", d_k = ", 32, "\ndef F(...)..."
//
// A text with fewer heads has another extent of h. Dims that are computed from it would follow, and
// what -D gave would be lost: these are written as the numbers that they were.
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const Options *options;
    const Program *program;
    ProductHeads *heads;
    Arena *arena;
} Describer;

// The group whose dim is alike; NULL: there is none.
static const HeadGroup *group_of(const Describer *d, Name dim) {
    for (uint32_t i = 0; i < d->heads->groups.count; i++)
        if (program_dims_alike(d->program, d->heads->groups.at[i].name, dim))
            return &d->heads->groups.at[i];
    return NULL;
}

static bool mentions_heads(const Describer *d, const Expr *expr) {
    if (expr->kind == EXPR_NAME && group_of(d, expr->name.name))
        return true;
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (mentions_heads(d, expr->args.at[i]))
            return true;
    return false;
}

// What is written in the place of a declaration's extent; false: what is there.
static bool hole_of(const Describer *d, const DimDecl *dim, AttSourcePiece *out) {
    const Session *session = d->options->session;
    Name name = dim->name.name;
    const HeadGroup *group = group_of(d, name);
    out->dim = group ? group->name : NULL;
    out->value = program_extent(session, d->program, name);
    return out->value >= 0 && (group || mentions_heads(d, dim->extent) ||
                               program_given(d->program, &session->overrides, name));
}

static int by_place(const void *a, const void *b) {
    const DimDecl *x = *(DimDecl *const *)a, *y = *(DimDecl *const *)b;
    return (x->extent->span.begin > y->extent->span.begin) -
           (x->extent->span.begin < y->extent->span.begin);
}

// Declarations of the file that give an extent, in order.
static uint32_t declarations(const Describer *d, uint32_t file, DimDecl **out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->program->dims.count; i++) {
        DimDecl *dim = d->program->dims.at[i];
        if (dim->extent && dim->extent->span.file == file)
            out[count++] = dim;
    }
    qsort(out, count, sizeof(DimDecl *), by_place);
    return count;
}

static void add_piece(Describer *d, const char *before, size_t length, AttSourcePiece piece) {
    piece.before = arena_strndup(d->arena, before, length);
    vec_push(d->arena, &d->heads->source, piece);
}

// Dims that -D alone gives an extent are declared behind the text.
static const char *add_given(Describer *d, const char *rest) {
    const DimExtents *given = &d->options->session->overrides;
    for (uint32_t i = 0; i < given->count; i++) {
        Name name = given->at[i].dim;
        const HeadGroup *group = group_of(d, name);
        if (program_find_dim(d->program, name) ||
            program_made_dynamic(d->options->session, d->program, name))
            continue;
        const char *before = arena_printf(d->arena, "%s\ndim %s = ", rest, name);
        add_piece(
            d, before, strlen(before),
            (AttSourcePiece){.dim = group ? group->name : NULL, .value = given->at[i].extent});
        rest = "\n";
    }
    return rest;
}

static void cut_source(Describer *d) {
    uint32_t file = d->program->files.at[0];
    const Source *source = sources_get(d->options->session->sources, file);
    DimDecl **dims = arena_array(d->arena, DimDecl *, d->program->dims.count + 1);
    uint32_t count = declarations(d, file, dims), done = 0;
    for (uint32_t i = 0; i < count; i++) {
        AttSourcePiece piece;
        Span at = dims[i]->extent->span;
        if (!hole_of(d, dims[i], &piece))
            continue;
        add_piece(d, source->text + done, at.begin - done, piece);
        done = at.end;
    }
    const char *rest = add_given(d, source->text + done);
    add_piece(d, rest, strlen(rest), (AttSourcePiece){.value = -1});
}

// The first file that the source imports; NULL: it is one text.
static const char *first_import(const Describer *d) {
    for (uint32_t i = 1; i < d->program->files.count; i++) {
        const char *path = sources_get(d->options->session->sources, d->program->files.at[i])->path;
        if (strcmp(path, "<prelude>") != 0)
            return path;
    }
    return NULL;
}

// The masks are the last inputs, gradients by them the last results.
ProductHeads *driver_heads(const Options *options, const Program *program,
                           const Compilation *gradient) {
    Arena *arena = options->session->arena;
    const HeadMasks *masks = &gradient->heads;
    ProductHeads *heads = arena_new_of(arena, ProductHeads);
    for (uint32_t i = 0; i < masks->masks.count; i++)
        vec_push(arena, &heads->masks, masks->masks.at[i].of);
    heads->first = masks->graph->inputs.count - masks->masks.count;
    heads->first_slope = gradient->built->inputs.count + masks->graph->outputs.count;
    heads->groups = graph_head_groups(masks, arena);
    Describer d = {options, program, heads, arena};
    heads->import = first_import(&d);
    cut_source(&d);
    return heads;
}
