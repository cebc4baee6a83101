// SPDX-License-Identifier: Apache-2.0
// One table of options for all commands, and which of them go together.
//
// What attc is asked for is one use of a table of uses: a command, or a command in one of the ways
// that it takes other options in. An option that means nothing there is an error, since whoever
// gave it expects something of it.
#include "driver/options.h"

#include <string.h>

#include "arguments.h"

typedef enum {
    USE_CHECK,
    USE_COST,
    USE_EMIT_AST,        // the text as it was parsed
    USE_EMIT_GRAPH,      // before any machine counts
    USE_EMIT_CONTRACTED, // before anything is planned
    USE_EMIT_KERNELS,
    USE_RUN,
    USE_RUN_ORACLE,
    USE_RUN_INTERPRET,
    USE_VERIFY,
    USE_VERIFY_INTERPRET,
    USE_BUILD,
    USE_BENCH,
    USE_MACHINE,
    USE_TUNE,
    USE_TUNE_CALIBRATE,
    USE_FMT,
    USE_DB, // and its actions from here on, in the order of DbAction
} Use;

// Sets of uses.
enum {
    CHECK = 1 << USE_CHECK,
    COST = 1 << USE_COST,
    EMIT_AST = 1 << USE_EMIT_AST,
    EMIT_GRAPH = 1 << USE_EMIT_GRAPH,
    EMIT_CONTRACTED = 1 << USE_EMIT_CONTRACTED,
    EMIT_KERNELS = 1 << USE_EMIT_KERNELS,
    EMIT = EMIT_AST | EMIT_GRAPH | EMIT_CONTRACTED | EMIT_KERNELS,
    RUN_ORACLE = 1 << USE_RUN_ORACLE,
    RUN_INTERPRET = 1 << USE_RUN_INTERPRET,
    RUN = 1 << USE_RUN | RUN_ORACLE | RUN_INTERPRET,
    VERIFY_INTERPRET = 1 << USE_VERIFY_INTERPRET,
    VERIFY = 1 << USE_VERIFY | VERIFY_INTERPRET,
    BUILD = 1 << USE_BUILD,
    BENCH = 1 << USE_BENCH,
    MACHINE = 1 << USE_MACHINE,
    TUNE = 1 << USE_TUNE,
    CALIBRATE = 1 << USE_TUNE_CALIBRATE,
    FMT = 1 << USE_FMT,
    DB_TABLES = 1 << (USE_DB + DB_LIST) | 1 << (USE_DB + DB_SHOW),
    DB_TEXT = 1 << (USE_DB + DB_EXPORT),
    DB_PRUNED = 1 << (USE_DB + DB_PRUNE),
    DB = ((1 << N_DB_ACTIONS) - 1) << USE_DB,
    KERNELS = COST | EMIT_KERNELS | (RUN & ~RUN_ORACLE) | VERIFY | BUILD | BENCH | TUNE,
    FOR_MACHINE = KERNELS | EMIT_CONTRACTED,
    THREADED = FOR_MACHINE & ~(RUN_INTERPRET | VERIFY_INTERPRET),
    PASSES = FOR_MACHINE | EMIT_GRAPH | RUN_ORACLE,
    ENTRY = PASSES | CHECK,
    SOURCE = ENTRY | EMIT_AST,
    OF_THIS_MACHINE = FOR_MACHINE | MACHINE | CALIBRATE,
    ANY = SOURCE | MACHINE | CALIBRATE | FMT | DB,
};

static const char *const command_names[N_COMMANDS] = {
    [COMMAND_CHECK] = "check", [COMMAND_COST] = "cost",       [COMMAND_EMIT] = "emit",
    [COMMAND_RUN] = "run",     [COMMAND_VERIFY] = "verify",   [COMMAND_BUILD] = "build",
    [COMMAND_BENCH] = "bench", [COMMAND_MACHINE] = "machine", [COMMAND_TUNE] = "tune",
    [COMMAND_FMT] = "fmt",     [COMMAND_DB] = "db",
};

// All uses of a command.
static const unsigned command_uses[N_COMMANDS] = {
    [COMMAND_CHECK] = CHECK, [COMMAND_COST] = COST,       [COMMAND_EMIT] = EMIT,
    [COMMAND_RUN] = RUN,     [COMMAND_VERIFY] = VERIFY,   [COMMAND_BUILD] = BUILD,
    [COMMAND_BENCH] = BENCH, [COMMAND_MACHINE] = MACHINE, [COMMAND_TUNE] = TUNE | CALIBRATE,
    [COMMAND_FMT] = FMT,     [COMMAND_DB] = DB,
};

static const Option table[] = {
    {"entry", KEY_ENTRY, "DEF", 1, ENTRY, KEY_ENTRY,
     "the def to compile (default: the file's only or last one)"},
    {NULL, 'D', "DIM=N[,DIM=N]", 1, ENTRY, 0,
     "extents of dims, over the file's defaults; may repeat"},
    {"data", KEY_DATA, "X,M", 1, ENTRY, 0,
     "arguments that are data; all others count as parameters"},
    {"map", KEY_MAP, "B=X,M", 1, ENTRY, 0,
     "run the entry for each position b of these arguments; may repeat, outermost first"},
    {"dynamic", KEY_DYNAMIC, "N[=SIZE],M", 1, ENTRY, 0,
     "dims whose -D is a run-time extent, not compiled in; SIZE: what the code is planned for; of "
     "several, N=1+512, each has code of its own"},
    {"grad", KEY_GRAD, NULL, 1, PASSES, KEY_GRAD,
     "gradients as well: the argument dY of each result Y, the result dX of each argument X"},
    {"wrt", KEY_WRT, "X,P", 1, PASSES, 0,
     "for --grad: the arguments to differentiate by (default: all of floats)"},
    {"checkpoint", KEY_CHECKPOINT, "LAYERS,M", 1, KERNELS, KEY_CHECKPOINT,
     "for --grad, and for --exe of what trains: of each round of the loops over these dims only "
     "what it reads is kept for the backward pass, all else is computed again"},
    {"decode", KEY_DECODE, "N", 1, PASSES, KEY_GRAD,
     "the step at one position along this dim, from what caches hold of earlier ones"},
    {"output", 'o', "OUT", 2, EMIT | RUN | BUILD | TUNE | DB_TEXT, 0,
     "output file, - for standard output; for run also NAME=FILE.npy; for tune a picture, "
     "FILE.svg"},
    {"stage", KEY_STAGE, "STAGE", 2, EMIT, KEY_STAGE,
     "for emit: ast, graph, simplified, contracted, fused, tile, llvm, asm or obj"},
    {"check", KEY_CHECK, NULL, 2, FMT, 0,
     "for fmt: change nothing, tell the names of files in another layout; status 1 if any"},
    {"json", KEY_JSON, NULL, 2, COST | VERIFY | BENCH | MACHINE | TUNE | CALIBRATE | DB_TABLES, 0,
     "one JSON object instead of a table"},
    {"space", KEY_SPACE, NULL, 2, COST, 0,
     "for cost: how many schedules each kernel has to choose from"},
    {"older-than", KEY_OLDER_THAN, "DAYS", 2, DB_PRUNED, KEY_OLDER_THAN,
     "for db prune: entries that were measured earlier go as well"},
    {"shared", KEY_SHARED, NULL, 3, BUILD, KEY_SHARED, "build a shared library (default)"},
    {"static", KEY_STATIC, NULL, 3, BUILD, KEY_SHARED, "build a static library"},
    {"object", KEY_OBJECT, NULL, 3, BUILD, KEY_SHARED, "build a relocatable object"},
    {"exe", KEY_EXE, NULL, 3, BUILD | TUNE, KEY_SHARED,
     "for tune: what such a program does most; build a program that reads and writes .npy files"},
    {"alternatives", KEY_ALTERNATIVES, "N", 3, BUILD, KEY_ALTERNATIVES,
     "for --exe, of a program that trains: so many other schedules of each kernel that takes a "
     "share of its time, which train --tune chooses among"},
    {"plan", KEY_PLAN, "PLAN[:ROWS[:PIECE]]", 3, KERNELS & ~TUNE, KEY_PLAN,
     "how attention is fused where that fits: resident, stream, two-pass, spill or unfused, and "
     "the rows of a task and the piece of the streamed dim (default: the cheapest)"},
    {"memory-limit", KEY_MEMORY_LIMIT, "BYTES", 3, KERNELS, KEY_MEMORY_LIMIT,
     "bytes of workspace (200000, 64M, 1GiB) that are not exceeded where each dim whose extent is "
     "known at run time only is as planned for, longer ones take more: for --grad more is computed "
     "again, and tasks copy what they read past, as far as it has to be; what does not fit is an "
     "error"},
    {"no-materialize", KEY_NO_MATERIALIZE, NULL, 3, KERNELS, 0,
     "fail when a value over pairs of positions would be stored"},
    {"target", KEY_TARGET, "NAME", 3, OF_THIS_MACHINE, KEY_TARGET,
     "compile for this machine level (see --print-targets)"},
    {"machine", KEY_MACHINE, "FILE", 3, FOR_MACHINE | MACHINE, KEY_MACHINE,
     "plan for the machine in this file, not for this one (see attc machine)"},
    {"print-targets", KEY_PRINT_TARGETS, NULL, 3, ANY, 0, "list the targets"},
    {"weights", KEY_WEIGHTS, "FILE", 4, RUN | VERIFY | BENCH | TUNE, KEY_WEIGHTS,
     "take the trained tensors that are not given from this safetensors file, by their names"},
    {"seed", KEY_SEED, "S", 4, RUN | VERIFY | BENCH | TUNE, KEY_SEED,
     "seed of the inputs that are not given, and of tune's search (default 0)"},
    {"threads", KEY_THREADS, "T", 4, THREADED | MACHINE | CALIBRATE, KEY_THREADS,
     "threads (default: one per core); build, bench, cost and emit plan for so many"},
    {"oracle", KEY_ORACLE, NULL, 4, RUN, KEY_ORACLE, "for run: the double-precision interpreter"},
    {"interpret", KEY_INTERPRET, NULL, 4, RUN | VERIFY, KEY_ORACLE,
     "for run and verify: the tile programs in plain loops"},
    {"no-cache", KEY_NO_CACHE, NULL, 4, OF_THIS_MACHINE, KEY_CACHE, "compile afresh, keep nothing"},
    {"cache", KEY_CACHE, "DIR", 4, OF_THIS_MACHINE, KEY_CACHE, "where compiled kernels are kept"},
    {"db", KEY_DB, "FILE", 4, KERNELS | MACHINE | CALIBRATE | DB, KEY_DB,
     "the database of schedules (default: $ATTC_DB, else attc/schedules.db in the user's data)"},
    {"no-db", KEY_NO_DB, NULL, 4, (KERNELS & ~TUNE) | MACHINE, KEY_DB,
     "predicted schedules alone, none of the database, nor its rates of this machine"},
    {"schedules", KEY_SCHEDULES, "FILE", 4, KERNELS & ~TUNE, KEY_DB,
     "schedules from this text (see attc db export), none of the database"},
    {"effort", KEY_EFFORT, "quick|normal|exhaustive", 4, TUNE, KEY_EFFORT,
     "for tune: how many schedules are tried (default normal)"},
    {"budget", KEY_BUDGET, "TIME", 4, TUNE, KEY_BUDGET,
     "for tune: seconds to spend (60s, 5m), about"},
    {"kernels", KEY_KERNELS, "NAME,...", 4, TUNE, 0,
     "for tune: these kernels alone, by the names that attc tune and cost --space give them"},
    {"shapes", KEY_SHAPES, "FILE", 4, TUNE, KEY_SHAPES,
     "for tune: a file with extents, n=512,m=512, a line for each shape to tune"},
    {"calibrate", KEY_CALIBRATE, NULL, 4, CALIBRATE, 0,
     "for tune, in the place of FILE: fit the machine's rates to what tune has measured so far"},
    {NULL, 'W', "WARNING", 5, SOURCE, 0, "-Wname, -Wno-name, -Werror"},
    {NULL, 'w', NULL, 5, SOURCE, 0, "no warnings"},
    {"diagnostics", KEY_DIAGNOSTICS, "text|json", 5, ANY, 0, "form of messages on standard error"},
    {"color", KEY_COLOUR, "auto|always|never", 5, ANY, 0, "colour in messages"},
    {"time-passes", KEY_TIME_PASSES, NULL, 6, PASSES, 0, "a line per pass on standard error"},
    {"verify-passes", KEY_VERIFY_PASSES, NULL, 6, PASSES, 0,
     "run every level's verifier after each pass"},
};

uint32_t options_count(void) {
    return sizeof table / sizeof *table;
}

const Option *options_get(uint32_t i) {
    return &table[i];
}

const Option *option_find(int key) {
    for (uint32_t i = 0; i < options_count(); i++)
        if (table[i].key == key)
            return &table[i];
    return NULL;
}

const char *option_text(const Options *options, const Option *option) {
    if (option->key < KEY_ENTRY)
        return arena_printf(options->session->arena, "-%c", option->key);
    return arena_printf(options->session->arena, "--%s", option->name);
}

CommandKind command_find(const char *name) {
    int kind = 0;
    while (kind < N_COMMANDS && strcmp(name, command_names[kind]) != 0)
        kind++;
    return kind;
}

const char *command_list(Arena *arena) {
    Text names = {.arena = arena};
    for (int kind = 0; kind < N_COMMANDS; kind++)
        text_list(&names, kind, command_names[kind]);
    return names.at;
}

// ---- which go together ----

int options_note(const Options *options, OptionList *given, const Option *option) {
    const char *text = option_text(options, option);
    for (uint32_t i = 0; i < given->count && option->choice; i++) {
        const Option *before = given->at[i];
        if (before == option)
            return usage_error("%s is given twice", text);
        if (before->choice == option->choice)
            return usage_error("%s and %s exclude each other", option_text(options, before), text);
    }
    vec_push(options->session->arena, given, option);
    return EXIT_FINE;
}

static Use emit_use(EmitStage stage) {
    switch (stage) {
    case STAGE_AST:
        return USE_EMIT_AST;
    case STAGE_GRAPH:
        return USE_EMIT_GRAPH;
    case STAGE_SIMPLIFIED:
    case STAGE_CONTRACTED:
        return USE_EMIT_CONTRACTED;
    default:
        return USE_EMIT_KERNELS;
    }
}

// What attc is asked for; *words: as it is written.
static Use use_of(const Options *options, const char **words) {
    const char *command = command_names[options->kind];
    const char *way = options->oracle      ? " --oracle"
                      : options->interpret ? " --interpret"
                      : options->calibrate ? " --calibrate"
                                           : "";
    if (options->kind == COMMAND_EMIT && options->stage != STAGE_NONE)
        way = arena_printf(options->session->arena, " --stage=%s", stage_name(options->stage));
    if (options->kind == COMMAND_DB)
        way = arena_printf(options->session->arena, " %s", db_action_name(options->db_action));
    *words = arena_printf(options->session->arena, "%s%s", command, way);
    switch (options->kind) {
    case COMMAND_CHECK:
        return USE_CHECK;
    case COMMAND_COST:
        return USE_COST;
    case COMMAND_EMIT:
        return emit_use(options->stage);
    case COMMAND_RUN:
        return options->oracle ? USE_RUN_ORACLE : options->interpret ? USE_RUN_INTERPRET : USE_RUN;
    case COMMAND_VERIFY:
        return options->interpret ? USE_VERIFY_INTERPRET : USE_VERIFY;
    case COMMAND_BUILD:
        return USE_BUILD;
    case COMMAND_BENCH:
        return USE_BENCH;
    case COMMAND_MACHINE:
        return USE_MACHINE;
    case COMMAND_TUNE:
        return options->calibrate ? USE_TUNE_CALIBRATE : USE_TUNE;
    case COMMAND_FMT:
        return USE_FMT;
    case COMMAND_DB:
        return USE_DB + options->db_action;
    case N_COMMANDS:
        break;
    }
    ice("options: command %d", (int)options->kind);
}

// What stands after the command; NULL: nothing.
static const char *operand_of(unsigned use) {
    if (use & (SOURCE | FMT))
        return "a source file";
    if (use & (1 << (USE_DB + DB_SHOW)))
        return "the name of a kernel, or how the group of an entry begins";
    if (use & (1 << (USE_DB + DB_IMPORT)))
        return "a file of exported schedules";
    if (use & (1 << (USE_DB + DB_MERGE)))
        return "another database, or a file of exported schedules";
    return NULL;
}

static int check_operand(const Options *options, unsigned use, const char *words) {
    const char *operand = operand_of(use);
    if (operand && !options->file)
        return usage_error("%s: expected %s", words, operand);
    if (!operand && options->file)
        return usage_error(use & DB ? "%s: takes no file" : "%s: takes no source file", words);
    return EXIT_FINE;
}

// What is read is not overwritten; sources and the database where it is without --db are looked at
// where they are read.
static int check_outputs(const Options *options) {
    const struct {
        const char *path, *what;
    } read[] = {{options->weights, "weights"},
                {options->schedules, "schedules"},
                {options->db, "database"}};
    for (uint32_t i = 0; i < options->outputs.count; i++)
        for (size_t k = 0; k < sizeof read / sizeof *read; k++)
            if (read[k].path && att_argument_same_file(
                                    att_argument_output(options->outputs.at[i]).path, read[k].path))
                return usage_error("-o %s would overwrite the %s", options->outputs.at[i],
                                   read[k].what);
    return EXIT_FINE;
}

int options_check(const Options *options, const OptionList *given) {
    const char *words, *name = command_names[options->kind];
    if (options->kind == COMMAND_DB && options->db_action == N_DB_ACTIONS)
        return usage_error("db: expected list, show, export, import, merge, prune or check");
    unsigned bit = 1u << use_of(options, &words);
    if (check_operand(options, bit, bit & (DB | CALIBRATE) ? words : name) != EXIT_FINE)
        return EXIT_USAGE;
    for (uint32_t k = 0; k < given->count; k++) {
        const Option *option = given->at[k];
        if (!(option->uses & bit))
            return usage_error("%s: takes no %s",
                               option->uses & command_uses[options->kind] ? words : name,
                               option_text(options, option));
    }
    if (options->gradient.wrt.count && !options->grad)
        return usage_error("%s: --wrt says what --grad differentiates by; add --grad", name);
    if (options->entry.checkpoints.count && !options->grad && options->product != PRODUCT_EXE)
        return usage_error(
            "%s: --checkpoint says what gradients compute again; add --grad, or --exe "
            "for a program that trains",
            name);
    if (options->alternatives && (options->product != PRODUCT_EXE || options->grad))
        return usage_error("%s: --alternatives is for programs that train; %s", name,
                           options->grad ? "leave out --grad" : "add --exe");
    if (check_outputs(options) != EXIT_FINE)
        return EXIT_USAGE;
    if (options->inputs.count && !(bit & (RUN | VERIFY | BENCH | TUNE)))
        return usage_error("%s: takes no %s=%s", name, options->inputs.at[0].name,
                           options->inputs.at[0].path);
    return EXIT_FINE;
}
