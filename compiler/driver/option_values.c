// SPDX-License-Identifier: Apache-2.0
// What stands after an option: extents, names, counts, plans.
#include "driver/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"

_Static_assert(EXTENT_MAX == ATT_EXTENT_MOST, "one bound of extents");

int usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("attc: error: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n  hint: 'attc --help' lists commands and options\n", stderr);
    va_end(args);
    return EXIT_USAGE;
}

// ---- files ----

int option_input(Options *options, const char *text) {
    Session *session = options->session;
    size_t length = att_argument_input(text);
    if (!length)
        return usage_error("'%s': expected NAME=FILE.npy after the source file", text);
    NamedPath input = {names_intern(session->names, text, length), text + length + 1};
    bool is_stdin = !strcmp(input.path, "-");
    if (is_stdin && !strcmp(options->file, "-"))
        return usage_error("%s and the source are both read from standard input", input.name);
    for (uint32_t i = 0; i < options->inputs.count; i++) {
        const NamedPath *other = &options->inputs.at[i];
        if (other->name == input.name)
            return usage_error("%s is given twice", input.name);
        if (is_stdin && !strcmp(other->path, "-"))
            return usage_error("%s and %s are both read from standard input", other->name,
                               input.name);
    }
    vec_push(session->arena, &options->inputs, input);
    return EXIT_FINE;
}

int option_output(Options *options, const char *text) {
    AttOutputArgument output = att_argument_output(text);
    if (!*output.path)
        return usage_error("-o%s%s: expected the name of a file", *text ? " " : "", text);
    for (uint32_t i = 0; i < options->outputs.count; i++) {
        AttOutputArgument other = att_argument_output(options->outputs.at[i]);
        if (att_argument_same_file(other.path, output.path))
            return usage_error("-o %s and -o %s are one file", options->outputs.at[i], text);
    }
    vec_push(options->session->arena, &options->outputs, text);
    return EXIT_FINE;
}

// ---- names, extents, plans ----

// n' has the extent of n, whatever it is. text: from the primed name on, whose value follows it.
static int refuse_primed(Options *options, const char *option, const char *text, int length) {
    Names *names = options->session->names;
    int name_length = (int)strcspn(text, "=,");
    Name name = names_intern(names, text, (size_t)name_length);
    Name plain = name_unprimed(names, name);
    return usage_error("%s %.*s: %s has the extent of %s: write %s %s%.*s", option, length, text,
                       name, plain, option, plain, length - name_length, text + name_length);
}

// given: what the option was given, for the message
static int add_name(Options *options, const char *option, const char *given, Name name,
                    NameList *out) {
    for (uint32_t i = 0; i < out->count; i++)
        if (out->at[i] == name)
            return usage_error("%s %s: %s is given twice", option, given, name);
    vec_push(options->session->arena, out, name);
    return EXIT_FINE;
}

// "a,b,c" -> names. plain: of letters, digits and underscores, as dims and arguments have.
static int add_names(Options *options, const char *option, const char *text, bool plain,
                     NameList *out) {
    for (const char *item = text;; item++) {
        size_t length = strcspn(item, ",");
        if (!length)
            return usage_error("%s '%s': expected names with commas between", option, text);
        if (plain && !att_argument_is_name(item, length))
            return usage_error("%s: '%.*s' is not a name", option, (int)length, item);
        Name name = names_intern(options->session->names, item, length);
        int status = add_name(options, option, text, name, out);
        item += length;
        if (!*item || status != EXIT_FINE)
            return status;
    }
}

int option_names(Options *options, const char *option, const char *text, NameList *out) {
    return add_names(options, option, text, true, out);
}

// Names of checkpoints, `layer.0.W`, among them; what they name is known when the entry is built.
int option_wrt(Options *options, const char *text) {
    return add_names(options, "--wrt", text, false, &options->gradient.wrt);
}

static int add_extent(Options *options, const char *option, const AttDimArgument *item,
                      DimExtents *out) {
    Session *session = options->session;
    if (item->problem)
        return usage_error("%s %.*s: %s", option, item->length, item->text, item->problem);
    if (item->plain_length < item->name_length)
        return refuse_primed(options, option, item->text, item->length);
    DimExtent extent = {names_intern(session->names, item->text, (size_t)item->name_length),
                        item->extent};
    for (uint32_t i = 0; i < out->count; i++)
        if (out->at[i].dim == extent.dim)
            return usage_error("%s %.*s: %s is given twice", option, item->length, item->text,
                               extent.dim);
    vec_push(session->arena, out, extent);
    return EXIT_FINE;
}

int option_extents(Options *options, const char *option, const char *text, DimExtents *out) {
    int status = EXIT_FINE;
    AttDimArgument item;
    while (status == EXIT_FINE && att_argument_dim(&text, &item))
        status = add_extent(options, option, &item, out);
    return status;
}

// One of the sizes in "n=1+512", from `size` on to the next plus.
static int read_size(Options *options, const char *item, const char *size, DimExtents *out) {
    Arena *arena = options->session->arena;
    int name = (int)strcspn(item, "="), length = (int)strcspn(size, "+");
    int64_t number;
    *out = (DimExtents){0};
    if (!att_argument_count(arena_strndup(arena, size, (size_t)length), 0, INT64_MAX, &number))
        return usage_error("--dynamic %s: '%.*s' is no size: write them as in n=1+512", item,
                           length, size);
    return option_extents(options, "--dynamic",
                          arena_printf(arena, "%.*s=%.*s", name, item, length, size), out);
}

// Takes the sizes but the last from "n=1+512", which leaves "n=512".
static int take_sizes(Options *options, const char **item) {
    Session *session = options->session;
    const char *size = strchr(*item, '='), *next = size ? strchr(size, '+') : NULL;
    int64_t before = 0;
    if (!next)
        return EXIT_FINE;
    DimExtents one;
    for (size++; next; next = strchr(size, '+')) {
        int status = read_size(options, *item, size, &one);
        if (status != EXIT_FINE)
            return status;
        vec_push(session->arena, &session->sizes, one.at[0]);
        if (one.at[0].extent <= before)
            break;
        before = one.at[0].extent;
        size = next + 1;
    }
    int status = read_size(options, *item, size, &one);
    if (status == EXIT_FINE && one.at[0].extent <= before)
        return usage_error("--dynamic %s: sizes go from the smallest, at least 1, to the largest",
                           *item);
    *item = arena_printf(session->arena, "%.*s=%s", (int)strcspn(*item, "="), *item, size);
    return status;
}

// "n", "n=512" or "n=1+512"
static int add_dynamic(Options *options, const char *item) {
    Session *session = options->session;
    int taken = take_sizes(options, &item);
    if (taken != EXIT_FINE)
        return taken;
    size_t length = strlen(item), plain = att_argument_plain(item, length);
    if (!strchr(item, '='))
        return plain && plain < length
                   ? refuse_primed(options, "--dynamic", item, (int)length)
                   : option_names(options, "--dynamic", item, &session->dynamic);
    int status = option_extents(options, "--dynamic", item, &session->planned);
    if (status != EXIT_FINE)
        return status;
    Name dim = session->planned.at[session->planned.count - 1].dim;
    return add_name(options, "--dynamic", item, dim, &session->dynamic);
}

// "n,m=512": names, some with sizes.
int option_dynamic(Options *options, const char *text) {
    int status = EXIT_FINE;
    while (*text && status == EXIT_FINE) {
        size_t length = strcspn(text, ",");
        status = add_dynamic(options, arena_strndup(options->session->arena, text, length));
        text += length + (text[length] == ',');
    }
    return status;
}

int option_map(Options *options, const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals || !att_argument_is_name(text, (size_t)(equals - text)) || !equals[1])
        return usage_error("--map %s: expected DIM=ARG,ARG, such as --map b=X,M", text);
    Session *session = options->session;
    EntryMap map = {names_intern(session->names, text, (size_t)(equals - text)), {0}};
    for (uint32_t i = 0; i < session->map_dims.count; i++)
        if (session->map_dims.at[i] == map.dim)
            return usage_error("--map %s: %s is given twice", text, map.dim);
    int status = option_names(options, "--map", equals + 1, &map.args);
    vec_push(session->arena, &session->map_dims, map.dim);
    vec_push(session->arena, &options->entry.maps, map);
    return status;
}

const char *stage_name(EmitStage stage) {
    static const char *const names[N_STAGES] = {
        [STAGE_NONE] = "",
        [STAGE_AST] = "ast",
        [STAGE_GRAPH] = "graph",
        [STAGE_SIMPLIFIED] = "simplified",
        [STAGE_CONTRACTED] = "contracted",
        [STAGE_FUSED] = "fused",
        [STAGE_TILE] = "tile",
        [STAGE_LLVM] = "llvm",
        [STAGE_ASM] = "asm",
        [STAGE_OBJ] = "obj",
    };
    return names[stage];
}

int option_stage(Options *options, const char *text) {
    options->stage = STAGE_NONE + 1;
    while (options->stage < N_STAGES && strcmp(text, stage_name(options->stage)) != 0)
        options->stage++;
    return options->stage < N_STAGES
               ? EXIT_FINE
               : usage_error("--stage: there is no stage '%s': " STAGE_NAMES, text);
}

// BYTES, or a number of K, M or G, which may be written out and have decimals: 512KiB, 1.5G. What
// is less than a byte is left out.
static bool read_bytes(Arena *arena, const char *text, int64_t *bytes) {
    static const char units[] = "KMG", decimal[] = "0123456789";
    size_t whole = strspn(text, decimal);
    size_t part = text[whole] == '.' ? 1 + strspn(text + whole + 1, decimal) : 0;
    const char *end = text + whole + part, *unit = *end ? strchr(units, *end) : NULL;
    int64_t number, scale = 1;
    for (const char *u = units; unit && u <= unit; u++)
        scale *= 1024;
    end += unit != NULL;
    end += unit && !strcmp(end, "iB") ? 2 : 0;
    if (*end || part == 1 || (part && !unit) ||
        !att_argument_count(arena_strndup(arena, text, whole), 0, INT64_MAX, &number) ||
        !mul_i64(number, scale, bytes))
        return false;
    double fraction = part ? strtod(arena_strndup(arena, text + whole, part), NULL) : 0;
    return add_i64(*bytes, (int64_t)(fraction * (double)scale), bytes) && *bytes > 0;
}

int option_memory_limit(Options *options, const char *text) {
    if (!read_bytes(options->session->arena, text, &options->memory_limit))
        return usage_error("--memory-limit %s: expected bytes, such as 200000, 64M or 1.5GiB, from "
                           "1 to %lld",
                           text, (long long)INT64_MAX);
    return EXIT_FINE;
}

// NAME[:ROWS[:PIECE]]
int option_plan(Options *options, const char *text) {
    enum { ROWS, PIECE, N_NUMBERS };
    static const char *const takes[] = {"no numbers", "rows alone", "rows and a piece"};
    int64_t numbers[N_NUMBERS] = {0};
    char *words = arena_strndup(options->session->arena, text, strlen(text)), *rest = words;
    options->plan = plan_find(strsep(&rest, ":"));
    if (options->plan == N_PLANS || options->plan == PLAN_ANY)
        return usage_error("--plan %s: expected resident, stream, two-pass, spill or unfused",
                           words);
    int most = options->plan == PLAN_UNFUSED ? 0 : options->plan == PLAN_RESIDENT ? 1 : N_NUMBERS;
    for (int i = 0; rest; i++) {
        const char *number = strsep(&rest, ":");
        if (i == most)
            return usage_error("--plan %s: plan %s has %s", text, words, takes[most]);
        if (!att_argument_count(number, 1, EXTENT_MAX, &numbers[i]))
            return usage_error("--plan %s: expected a whole number from 1 to %lld after %s:", text,
                               (long long)EXTENT_MAX, words);
    }
    options->rows = numbers[ROWS];
    options->piece = numbers[PIECE];
    return EXIT_FINE;
}

int option_effort(Options *options, const char *text) {
    static const char *const names[N_EFFORTS] = {
        [EFFORT_QUICK] = "quick", [EFFORT_NORMAL] = "normal", [EFFORT_EXHAUSTIVE] = "exhaustive"};
    for (TuneEffort effort = 0; effort < N_EFFORTS; effort++)
        if (!strcmp(text, names[effort])) {
            options->effort = effort;
            return EXIT_FINE;
        }
    return usage_error("--effort %s: expected quick, normal or exhaustive", text);
}

int option_budget(Options *options, const char *text) {
    if (!att_argument_seconds(text, &options->budget))
        return usage_error("--budget %s: expected " ATT_SECONDS_EXPECTED, text);
    return EXIT_FINE;
}

int option_alternatives(Options *options, const char *text) {
    enum { MOST = 8 };
    return att_argument_count(text, 1, MOST, &options->alternatives)
               ? EXIT_FINE
               : usage_error("--alternatives %s: expected a whole number from 1 to %d", text, MOST);
}

int option_older_than(Options *options, const char *text) {
    enum { DAYS_MOST = 36500 };
    return att_argument_count(text, 1, DAYS_MOST, &options->older_than)
               ? EXIT_FINE
               : usage_error("--older-than %s: expected a whole number of days from 1 to %d", text,
                             DAYS_MOST);
}

const char *db_action_name(DbAction action) {
    static const char *const names[N_DB_ACTIONS] = {
        [DB_LIST] = "list",   [DB_SHOW] = "show",   [DB_EXPORT] = "export", [DB_IMPORT] = "import",
        [DB_MERGE] = "merge", [DB_PRUNE] = "prune", [DB_CHECK] = "check",
    };
    return names[action];
}

int option_db_word(Options *options, const char *text) {
    if (options->db_action == N_DB_ACTIONS) {
        options->db_action = 0;
        while (options->db_action < N_DB_ACTIONS &&
               strcmp(text, db_action_name(options->db_action)) != 0)
            options->db_action++;
        return options->db_action < N_DB_ACTIONS
                   ? EXIT_FINE
                   : usage_error(
                         "db: '%s' is not list, show, export, import, merge, prune or check", text);
    }
    if (options->file)
        return usage_error("db %s: takes no '%s'", db_action_name(options->db_action), text);
    options->file = text;
    return EXIT_FINE;
}
