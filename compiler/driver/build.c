// SPDX-License-Identifier: Apache-2.0
// attc build: libraries, objects and programs, with code for every level of the architecture.
//
// A product is a list of functions, each made from a graph once for every level: the entry; of a
// library with gradients its parts; of a program that trains (language.md 14.1) results and
// gradients in one call, and what updates tensors.
#include "driver/driver.h"
#include "graph/model.h"

#include <math.h>
#include <string.h>

enum { LEVELS_MAX = 8 };

// The levels a product holds: the one asked for, or all that share the host's triple. 0 after a
// message.
static uint32_t product_targets(Options *options, const Target **out, uint32_t room) {
    const Target *first = driver_target(options);
    if (!first || options->target) {
        out[0] = first;
        return first != NULL;
    }
    uint32_t n = 0;
    for (const Target *const *t = targets_all(); *t && n < room; t++) {
        if (strcmp((*t)->triple, first->triple) != 0)
            continue;
        out[n] = driver_with_machine(options, *t);
        if (!out[n++])
            return 0;
    }
    return n;
}

// ---- what is built ----

// A function of the product: what it is made from, for every level.
typedef struct {
    const char *suffix; // of its name, after the entry's
    Compilation built;
    const GradientGraphs *graphs; // NULL: it is made from `built`, else from a part of these
    const Graph *part;
    Saving saving;
    bool accumulate;
    bool only_first;       // code for the first level, which all machines run
    uint32_t alternatives; // schedules that kernels have besides their own
} Function;

// A function for one level.
typedef struct {
    Session *session; // a fork
    PipelineOptions passes;
    const Function *function;
    Compilation compiled;
    bool skipped; // the function has no code for the level
    bool ok;
} Lowering;

typedef struct {
    Options *options;
    const Program *program;
    uint32_t n_targets;
    const Target *targets[LEVELS_MAX];
    VEC(Function) functions; // the entry first
    SizeChoices sizes;       // of the entry
    VEC(Function) others;    // the entry for other sizes than the first
    Lowering *lowerings;     // of the first function for all levels, of the second, .., of others
    ProductTrainer *trainer; // NULL: it is no program that trains
} Build;

// Returns its number.
static uint32_t add_function(Build *build, Function function) {
    vec_push(build->options->session->arena, &build->functions, function);
    return build->functions.count - 1;
}

static uint32_t count_lowerings(const Build *build) {
    return (build->functions.count + build->others.count) * build->n_targets;
}

static Function *function_at(const Build *build, uint32_t i) {
    uint32_t n = build->functions.count;
    return i < n ? &build->functions.at[i] : &build->others.at[i - n];
}

// ---- functions ----

static bool add_entry(Build *build, Session *early, const PipelineOptions *passes) {
    Function entry = {.suffix = ""};
    bool ok = pipeline_build(early, build->program, passes, &entry.built);
    if (ok)
        add_function(build, entry);
    return ok;
}

static bool add_sizes(Build *build, Session *early, const PipelineOptions *passes) {
    Arena *arena = build->options->session->arena;
    const Graph *graph = build->functions.at[0].built.built;
    Session *with_all = arena_copy(early->arena, early, sizeof *early);
    with_all->sizes = build->options->session->sizes;
    if (!driver_sizes(with_all, build->program, graph, arena, &build->sizes))
        return false;
    for (uint32_t i = 1; i < build->sizes.count; i++) {
        Function other = {.suffix = ""};
        if (!pipeline_build(build->sizes.at[i].session, build->program, passes, &other.built))
            return false;
        vec_push(arena, &build->others, other);
    }
    for (uint32_t i = 0; i < build->sizes.count; i++)
        build->sizes.at[i].session = NULL; // ends with the early one
    return true;
}

static bool fit(Build *build, Function *function) {
    MemoryTrials trials = {0};
    return memory_fit(build->options, &function->built, build->targets, build->n_targets,
                      &function->saving, &trials);
}

// After the parts of a gradient, which take more and tell of it.
static bool fit_entry(Build *build) {
    bool ok = fit(build, &build->functions.at[0]);
    for (uint32_t i = 0; i < build->others.count && ok; i++)
        ok = fit(build, &build->others.at[i]);
    return ok;
}

// Of a library with gradients.
static bool add_parts(Build *build, Session *early, GradientGraphs *graphs) {
    Options *options = build->options;
    PipelineOptions passes = driver_passes(options, build->targets[0], AFTER_TILE);
    if (!driver_partition(options, early, build->program, build->targets, build->n_targets, &passes,
                          graphs))
        return false;
    Function part = {.graphs = graphs, .saving = passes.saving};
    const Graph *of[] = {graphs->forward, graphs->backward, graphs->both};
    static const char *const suffixes[] = {"_forward", "_backward", "_gradient"};
    for (uint32_t i = 0; i < sizeof of / sizeof of[0] && of[i]; i++) {
        part.part = of[i];
        part.suffix = suffixes[i];
        add_function(build, part);
    }
    return true;
}

// ---- a program that trains ----

static int64_t init_of(InitKind kind) {
    static const int64_t inits[] = {
        [INIT_VALUE] = ATT_INIT_VALUE,
        [INIT_NORMAL] = ATT_INIT_NORMAL,
        [INIT_UNIFORM] = ATT_INIT_UNIFORM,
        [INIT_TRUNCATED_NORMAL] = ATT_INIT_TRUNCATED_NORMAL,
    };
    return inits[kind];
}

static void note_arguments(Build *build, const Graph *plain) {
    Arena *arena = build->options->session->arena;
    for (uint32_t i = 0; i < plain->inputs.count; i++) {
        const Value *input = plain->inputs.at[i];
        if (input->role != ROLE_PARAM) {
            AttField field = {.name = input->name, .below = graph_ids_below(plain, input)};
            vec_push(arena, &build->trainer->fields, field);
            continue;
        }
        FirstValue first = graph_first_value(plain, input);
        AttParam param = {
            .name = input->name, .init = init_of(first.kind), .a = first.a, .b = first.b};
        vec_push(arena, &build->trainer->params, param);
    }
}

// Results and gradients by all that is trained, in one call.
static bool add_gradient(Build *build, Session *early, const GradientOptions *wrt) {
    Options *options = build->options;
    PipelineOptions passes = driver_passes(options, build->targets[0], AFTER_TILE);
    Function gradient = {
        .suffix = "_gradient", .accumulate = true, .alternatives = (uint32_t)options->alternatives};
    MemoryTrials trials = {0};
    passes.gradient = wrt;
    if (!pipeline_build(early, build->program, &passes, &gradient.built) ||
        !memory_fit(options, &gradient.built, build->targets, build->n_targets, &gradient.saving,
                    &trials))
        return false;
    build->trainer->gradient = add_function(build, gradient);
    return true;
}

static bool add_optimizer(Build *build, Session *early, const Def *def) {
    Arena *arena = build->options->session->arena;
    PipelineOptions passes = driver_passes(build->options, build->targets[0], AFTER_TILE);
    Function update = {.suffix = arena_printf(arena, "_%s", def->name.name)};
    if (!pipeline_build_optimizer(early, build->program, def, &passes, &update.built))
        return false;
    OptimizerFacts facts = def_optimizer_facts(arena, def);
    AttSetting *settings = arena_array(arena, AttSetting, facts.settings.count);
    for (uint32_t i = 0; i < facts.settings.count; i++)
        settings[i] = (AttSetting){facts.settings.at[i].name, facts.settings.at[i].value};
    AttOptimizer optimizer = {.name = def->name.name,
                              .rank = facts.rank,
                              .n_states = facts.n_states,
                              .n_settings = facts.settings.count,
                              .settings = settings};
    ProductOptimizer made = {optimizer, add_function(build, update)};
    vec_push(arena, &build->trainer->optimizers, made);
    return true;
}

// Those of the file, then those of the prelude; one of the same name takes another's place.
static bool add_optimizers(Build *build, Session *early) {
    const Program *program = build->program;
    bool ok = true;
    for (uint32_t i = 0; i < program->defs.count && ok; i++) {
        const Def *def = program->defs.at[i];
        if (def->is_optimizer && program_find_def(program, def->name.name) == def)
            ok = add_optimizer(build, early, def);
    }
    return ok;
}

static bool add_squares(Build *build, Session *early) {
    PipelineOptions passes = driver_passes(build->options, build->targets[0], AFTER_TILE);
    Function squares = {.suffix = "_squares"};
    if (!pipeline_build_squares(early, build->program, &passes, &squares.built))
        return false;
    build->trainer->squares = add_function(build, squares);
    return true;
}

static void add_decode(Build *build, Session *early, const Graph *plain) {
    Function step = {.suffix = "_decode"};
    ProductDecode *decode =
        driver_decode(build->options, early, build->program, plain, build->trainer, &step.built);
    if (decode)
        decode->function = add_function(build, step);
    build->trainer->decode = decode;
}

// What softmaxes of attention are of; 0: there are none.
static bool add_logits(Build *build, Session *early, uint32_t *number) {
    PipelineOptions passes = driver_passes(build->options, build->targets[0], AFTER_TILE);
    Function logits = {.suffix = "_logits", .only_first = true};
    passes.logits = true;
    if (!pipeline_build(early, build->program, &passes, &logits.built))
        return false;
    *number = logits.built.built->outputs.count ? add_function(build, logits) : 0;
    return true;
}

// Results, and results with gradients by the masks of heads; nothing where there are no heads. They
// are run once for a model, where training is run for long, so one level is enough of them.
static bool add_heads(Build *build, Session *early) {
    Options *options = build->options;
    PipelineOptions passes = driver_passes(options, build->targets[0], AFTER_TILE);
    GradientOptions by_masks = {.of_first = true};
    Function masked = {.suffix = "_masked", .only_first = true};
    Function gradient = {.suffix = "_heads", .only_first = true};
    MemoryTrials trials = {0};
    passes.heads = true;
    if (!pipeline_build(early, build->program, &passes, &masked.built))
        return false;
    if (!masked.built.heads.masks.count)
        return true;
    passes.gradient = &by_masks;
    if (!pipeline_build(early, build->program, &passes, &gradient.built) ||
        !memory_fit(options, &masked.built, build->targets, build->n_targets, &masked.saving,
                    &trials) ||
        !memory_fit(options, &gradient.built, build->targets, build->n_targets, &gradient.saving,
                    &trials))
        return false;
    ProductHeads *heads = driver_heads(options, build->program, &gradient.built);
    heads->masked = add_function(build, masked);
    heads->gradient = add_function(build, gradient);
    build->trainer->heads = heads;
    return add_logits(build, early, &heads->logits);
}

static bool add_training(Build *build, Session *early) {
    Options *options = build->options;
    const Graph *plain = build->functions.at[0].built.built;
    Trains trains = graph_trains(plain);
    GradientOptions wrt = {.of_first = true};
    if (trains.kind == TRAINS_BUT) {
        Diag *diag = diag_remark(options->session->diags, trains.at,
                                 "the program does not train: %s", trains.why);
        if (trains.hint)
            diag_hint(diag, "%s", trains.hint);
    }
    if (trains.kind != TRAINS && options->alternatives)
        diag_remark(options->session->diags, (Span){0},
                    "--alternatives: the program does not train, and has none");
    if (trains.kind != TRAINS && options->entry.checkpoints.count)
        diag_remark(options->session->diags, (Span){0},
                    "--checkpoint: the program does not train, and computes nothing again");
    if (trains.kind != TRAINS)
        return true;
    build->trainer = arena_new_of(options->session->arena, ProductTrainer);
    note_arguments(build, plain);
    wrt.wrt = graph_trained(plain, options->session->arena);
    add_decode(build, early, plain);
    return add_gradient(build, early, &wrt) && add_optimizers(build, early) &&
           add_squares(build, early) && add_heads(build, early);
}

// ---- lowering ----

static void lower_one(void *lowerings, uint32_t i) {
    Lowering *l = (Lowering *)lowerings + i;
    const Function *f = l->function;
    l->ok = true;
    if (l->skipped)
        return;
    l->ok = f->graphs
                ? pipeline_lower_part(l->session, f->graphs, f->part, &l->passes, &l->compiled)
                : pipeline_lower(l->session, &l->passes, &l->compiled);
    if (!l->ok || !f->alternatives)
        return;
    ScheduleWish wish = pipeline_wish(&l->passes);
    tune_add_alternatives(l->compiled.tile, l->passes.machine, l->compiled.typical, &wish,
                          f->alternatives);
}

static Lowering open_lowering(const Build *build, const Function *function, const Target *target) {
    Lowering lowering = {
        .session = session_fork(build->options->session),
        .passes = driver_passes(build->options, target, AFTER_TILE),
        .function = function,
        .compiled = function->built,
        .skipped = function->only_first && target != build->targets[0],
    };
    lowering.passes.only_tile = true;
    lowering.passes.saving = function->saving;
    lowering.passes.accumulate = function->accumulate;
    return lowering;
}

// From the built graphs on programs have nothing in common. With --time-passes they do not run
// beside each other.
static bool lower_functions(Build *build) {
    Options *options = build->options;
    uint32_t count = count_lowerings(build);
    build->lowerings = arena_array(options->session->arena, Lowering, count);
    for (uint32_t i = 0; i < count; i++)
        build->lowerings[i] = open_lowering(build, function_at(build, i / build->n_targets),
                                            build->targets[i % build->n_targets]);
    if (options->time_passes)
        for (uint32_t i = 0; i < count; i++)
            lower_one(build->lowerings, i);
    else
        jobs_run(count, lower_one, build->lowerings);
    bool ok = true;
    for (uint32_t i = 0; i < count; i++) {
        session_join(options->session, build->lowerings[i].session);
        ok = ok && build->lowerings[i].ok;
    }
    return ok;
}

// Programs of all functions for each target. The graphs that they are made from are freed. What
// --exe --grad makes computes all in one call.
static bool lower_all(Build *build) {
    Options *options = build->options;
    Session early = *options->session;
    early.arena = arena_new();
    early.sizes = (DimExtents){0}; // functions are for the largest, but for the entry
    bool parts = options->grad && options->product != PRODUCT_EXE;
    bool may_train = !options->grad && options->product == PRODUCT_EXE;
    PipelineOptions passes = driver_passes(options, build->targets[0], AFTER_TILE);
    GradientGraphs graphs = {0};
    if (parts)
        passes.gradient = NULL;
    bool ok = add_entry(build, &early, &passes) && add_sizes(build, &early, &passes) &&
              (!parts || add_parts(build, &early, &graphs)) && fit_entry(build) &&
              (!may_train || add_training(build, &early)) && lower_functions(build);
    arena_free(early.arena);
    return ok;
}

// ---- the product ----

// Of each level, those of all sizes.
static void set_sizes(const Build *build, ProductFunction *entry) {
    Arena *arena = build->options->session->arena;
    uint32_t n = build->sizes.count;
    TileProgram **programs = arena_array(arena, TileProgram *, n * build->n_targets);
    ExtentRanges *ranges = arena_array(arena, ExtentRanges, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = i ? build->functions.count + i - 1 : 0;
        for (uint32_t t = 0; t < build->n_targets; t++)
            programs[t * n + i] = build->lowerings[from * build->n_targets + t].compiled.tile;
        ranges[i] = build->sizes.at[i].ranges;
    }
    entry->programs = programs;
    entry->ranges = ranges;
    entry->n_ranges = n;
}

// What there is to choose from is told of where there is nothing.
static void tell_alternatives(const Build *build) {
    const Options *options = build->options;
    bool any = !options->alternatives || !build->trainer;
    for (uint32_t i = 0; i < count_lowerings(build) && !any; i++)
        any = build->lowerings[i].compiled.tile &&
              build->lowerings[i].compiled.tile->alternatives.count;
    if (!any)
        diag_remark(options->session->diags, (Span){0},
                    "--alternatives: no kernel has another schedule that is predicted to be nearly "
                    "as fast");
}

// Of a million multiplies, at the extents that the program is planned for.
static int64_t masked_millionths(const Compilation *compiled) {
    double masked = (double)report_masked(compiled, compiled->typical);
    int64_t all = compiled->planned_multiplies;
    return all > 0 ? llround(1e6 * masked / (double)all) : 0;
}

static ProductEntry product_of(const Build *build) {
    Arena *arena = build->options->session->arena;
    ProductFunction *functions = arena_array(arena, ProductFunction, build->functions.count);
    for (uint32_t f = 0; f < build->functions.count; f++) {
        TileProgram **programs = arena_array(arena, TileProgram *, build->n_targets);
        const Formula **multiplies = arena_array(arena, const Formula *, build->n_targets);
        int64_t *masked = arena_array(arena, int64_t, build->n_targets);
        bool counts = build->trainer && build->trainer->gradient == f;
        for (uint32_t t = 0; t < build->n_targets; t++) {
            const Compilation *compiled = &build->lowerings[f * build->n_targets + t].compiled;
            programs[t] = compiled->tile;
            multiplies[t] = compiled->multiplies;
            masked[t] = counts ? masked_millionths(compiled) : 0;
        }
        const Function *function = &build->functions.at[f];
        functions[f] = (ProductFunction){.suffix = function->suffix,
                                         .programs = programs,
                                         .n_parts = 1,
                                         .n_levels = function->only_first ? 1 : 0};
        if (!counts)
            continue;
        functions[f].multiplies = multiplies;
        functions[f].masked = masked;
    }
    if (build->sizes.count > 1)
        set_sizes(build, &functions[0]);
    return (ProductEntry){functions, build->functions.count, build->targets, build->n_targets,
                          build->trainer};
}

static void free_lowerings(Build *build) {
    for (uint32_t i = 0; build->lowerings && i < count_lowerings(build); i++)
        session_free(build->lowerings[i].session);
}

int command_build(Options *options) {
    if (options->outputs.count != 1)
        return usage_error("%s: give one -o OUT", options->command);
    Build *build = arena_new_of(options->session->arena, Build);
    build->options = options;
    build->n_targets = product_targets(options, build->targets, LEVELS_MAX);
    if (!build->n_targets)
        return EXIT_PROBLEM;
    build->program = pipeline_front(options->session, options->file);
    if (!build->program || !driver_may_write(options, options->outputs.at[0]))
        return EXIT_PROBLEM;
    ProductOptions about = {
        .kind = options->product,
        .output = options->outputs.at[0],
        .runtime_archive = ATTC_RUNTIME_ARCHIVE,
        .train_archive = ATTC_TRAIN_ARCHIVE,
        .source = options->file,
    };
    const char *why = NULL;
    Product *product = NULL;
    bool lowered = lower_all(build);
    if (lowered) {
        tell_alternatives(build);
        ProductEntry entry = product_of(build);
        product = product_compile(options->session, &entry, &options->cache, &about, &why);
    }
    free_lowerings(build); // they take more memory than what is left to do
    if (!lowered)
        return EXIT_PROBLEM;
    if (!product || !product_write(product, &why))
        return problem(options, "%s", why);
    return EXIT_FINE;
}
