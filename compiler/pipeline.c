// SPDX-License-Identifier: Apache-2.0
// The passes in their order. A pass is one line of pipeline_build or pipeline_lower; what stands
// between two passes (verifier, clock, whose memory it is) is in graph_done.
#include "pipeline.h"

#include <math.h>
#include <time.h>

typedef struct {
    Session *session;
    const PipelineOptions *options;
    double begun;          // the pass that is running
    Arena *behind, *ahead; // of the last graph and the next, where each has an arena of its own
} Passes;

double pipeline_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void pipeline_print_time(const char *pass, double begun, bool changed) {
    fprintf(stderr, "%-10s %8.3f ms%s\n", pass, 1e3 * (pipeline_seconds() - begun),
            changed ? "" : "  (unchanged)");
}

static void pass_done(Passes *p, const char *pass, bool changed) {
    if (p->options->time_passes)
        pipeline_print_time(pass, p->begun, changed);
    p->begun = pipeline_seconds();
}

// ---- memory of graphs ----

// Where tile programs alone are wanted, each graph lives in an arena of its own, until the next is
// there.
static bool frees_graphs(const Passes *p) {
    return p->options->only_tile && !p->options->no_materialize;
}

// The graph as a pass reads it: what is made of it belongs to this session, and lies in the arena.
static Graph *read_into(const Passes *p, const Graph *graph, Arena *arena) {
    Graph *read = arena_copy(p->session->arena, graph, sizeof *graph);
    read->session = p->session;
    read->arena = arena;
    return read;
}

static Graph *read_graph(Passes *p, const Graph *graph) {
    p->ahead = frees_graphs(p) ? arena_new() : NULL;
    return read_into(p, graph, p->ahead ? p->ahead : p->session->arena);
}

// After a pass that made `next` of a graph: next, or the graph where there was nothing to do.
static Graph *graph_done(Passes *p, const char *pass, Graph *next, Graph *graph) {
    if (p->options->verify && next)
        graph_verify(next, pass);
    bool timed = p->options->time_passes;
    pass_done(p, pass, next && (!timed || !graph || graph_hash(next) != graph_hash(graph)));
    arena_free(next ? p->behind : p->ahead);
    p->behind = next ? p->ahead : p->behind;
    return next ? next : graph;
}

Program *pipeline_front(Session *session, const char *path) {
    const char *why = NULL;
    uint32_t file = sources_read(session->sources, path, &why);
    if (!file) {
        diag_error(session->diags, (Span){0}, "%s", why);
        return NULL;
    }
    Program *program = program_new(session->arena);
    ast_parse(session, program, file);
    ast_add_prelude(session, program);
    bool resolved = ast_resolve(session, program);
    return resolved && !diags_errors(session->diags) ? program : NULL;
}

// ---- the passes ----

// The built graph as the step along the dim that is named. false after a diagnostic.
static bool build_step(Session *session, Name name, Compilation *out) {
    DimId dim = graph_find_dim(out->built, name);
    if (dim == DIM_NONE) {
        diag_error(session->diags, (Span){0}, "decode: %s has no dim %s", out->built->entry, name);
        return false;
    }
    Decoding *decoding = arena_new_of(session->arena, Decoding);
    *decoding = graph_decode(out->built, dim);
    out->decoding = decoding;
    out->built = decoding->graph;
    if (!decoding->graph)
        diag_error(session->diags, decoding->origin, "decode: %s", decoding->why);
    return decoding->graph != NULL;
}

// By the masks alone.
static GradientOptions by_masks(const Passes *p, const HeadMasks *heads) {
    GradientOptions options = *p->options->gradient;
    options.wrt = (NameList){0};
    for (uint32_t i = 0; i < heads->masks.count; i++)
        vec_push(p->session->arena, &options.wrt, heads->masks.at[i].input->name);
    return options;
}

static void add_masks(Passes *p, Compilation *out) {
    out->heads = graph_head_masks(out->built);
    graph_done(p, "heads", out->heads.graph, out->built);
    out->built = out->heads.graph;
}

bool pipeline_build(Session *session, const Program *program, const PipelineOptions *options,
                    Compilation *out) {
    Passes p = {.session = session, .options = options, .begun = pipeline_seconds()};
    *out = (Compilation){.program = program};
    out->built = graph_build(session, program, &options->entry);
    if (!out->built || diags_errors(session->diags))
        return false;
    graph_done(&p, "build", out->built, NULL);
    if (options->decode && !build_step(session, options->decode, out))
        return false;
    if (options->decode)
        graph_done(&p, "decode", out->built, NULL);
    if (options->heads)
        add_masks(&p, out);
    if (options->logits)
        out->built = graph_done(&p, "logits", graph_head_logits(out->built), out->built);
    if (!options->gradient || (options->heads && !out->heads.masks.count))
        return true;
    out->plain = out->built;
    GradientOptions masks = options->heads ? by_masks(&p, &out->heads) : (GradientOptions){0};
    out->of_first = options->gradient->of_first;
    out->built = graph_gradient(out->plain, options->heads ? &masks : options->gradient);
    if (!out->built)
        return false;
    graph_done(&p, "gradient", out->built, out->plain);
    return true;
}

// ---- optimizers ----

bool pipeline_build_optimizer(Session *session, const Program *program, const Def *optimizer,
                              const PipelineOptions *options, Compilation *out) {
    Passes p = {.session = session, .options = options, .begun = pipeline_seconds()};
    *out = (Compilation){.program = program};
    const uint32_t *replaced;
    Graph *graph = graph_build_update(session, program, optimizer, &replaced);
    if (!graph)
        return false;
    graph_done(&p, "build", graph, NULL);
    out->built = graph_in_place(graph, 1, replaced);
    graph_done(&p, "in_place", out->built, graph);
    return true;
}

bool pipeline_build_squares(Session *session, const Program *program,
                            const PipelineOptions *options, Compilation *out) {
    Passes p = {.session = session, .options = options, .begun = pipeline_seconds()};
    *out = (Compilation){.program = program};
    out->built = graph_build_squares(session, program);
    if (out->built)
        graph_done(&p, "build", out->built, NULL);
    return out->built;
}

// Passes may add dims that stand in for others (aliases of summed dims).
static void note_extents(const Passes *p, const Graph *graph, Compilation *out) {
    out->typical = graph_typical_extents(graph, p->session->arena);
}

// What the fused graph is made of belongs to the session.
static Graph *read_last(const Passes *p, const Graph *graph) {
    Graph *last = read_into(p, graph, p->session->arena);
    for (uint32_t i = 0; i < last->rules.count && frees_graphs(p); i++)
        last->rules.at[i].formula = formula_copy(last->arena, last->rules.at[i].formula);
    return last;
}

// To pairwise einsums and reductions. NULL: it stops before that.
static Graph *run_einsum_passes(Passes *p, Compilation *out) {
    const PipelineOptions *options = p->options;
    const Machine *machine = options->machine;
    note_extents(p, out->built, out);
    if (options->stop == AFTER_GRAPH)
        return NULL;

    Graph *graph = out->built;
    graph = graph_done(p, "simplify", graph_simplify(read_graph(p, graph), out->typical, machine),
                       graph);
    out->simplified = graph;
    note_extents(p, graph, out);
    if (options->stop == AFTER_SIMPLIFIED)
        return NULL;

    graph = graph_done(p, "contract", graph_contract(read_graph(p, graph), out->typical, machine),
                       graph);
    graph = graph_done(p, "unify", graph_unify(read_graph(p, graph)), graph);
    graph =
        graph_done(p, "totals", graph_totals(read_graph(p, graph), out->typical, machine), graph);
    out->contracted = graph;
    out->multiplies = graph_multiplies_formula(graph, p->session->arena);
    note_extents(p, graph, out);
    out->planned_multiplies = graph_multiplies(graph, out->typical);
    if (options->stop == AFTER_CONTRACTED)
        return NULL;

    return graph_done(p, "expand", graph_expand(read_graph(p, graph), out->typical), graph);
}

// ---- what is chosen for the whole ----

bool pipeline_may_choose(const PipelineOptions *options, const Schedule *known) {
    const ProgramSchedule *program = &known->program;
    bool stores = program->plan == PLAN_UNFUSED || program->wide == WIDE_STORED;
    return known->kind == SCHEDULE_PROGRAM && !(options->no_materialize && stores);
}

static const Schedule *find_program(const Passes *p, const ScheduleSite *site) {
    const ScheduleSource *source = &p->options->wish.source;
    const Schedule *known =
        source->find ? source->find(source->known, site, p->session->arena) : NULL;
    if (!known || pipeline_may_choose(p->options, known))
        return known;
    if (source->refuse && known->kind != SCHEDULE_PROGRAM) // else an option leaves it alone
        source->refuse(source->known, site);
    return NULL;
}

// Whatever is known: by cost, but for a plan that is forced and a limit that is kept to.
static Schedule program_by_default(const PipelineOptions *options) {
    Schedule program = {.kind = SCHEDULE_PROGRAM};
    program.program.plan = options->plan == PLAN_UNFUSED ? PLAN_UNFUSED : PLAN_ANY;
    if (options->saving.copies_each) {
        program.program.copies = COPIES_EACH;
        program.found = "memory limit";
    }
    return program;
}

// For the graph that groups are made of.
static void choose_program(Passes *p, const Graph *graph, Compilation *out) {
    const PipelineOptions *options = p->options;
    note_extents(p, graph, out);
    out->site = schedule_program_site(p->session->arena, graph, out->typical);
    out->choice = program_by_default(options);
    if (options->plan != PLAN_ANY || options->saving.copies_each) // with a limit none is looked up
        return;
    const Schedule *known = options->choice ? NULL : find_program(p, &out->site);
    if (options->choice)
        out->choice.program = *options->choice;
    else if (known)
        out->choice = *known;
}

// Of storing a byte of what is over pairs of positions and could be computed again.
static double wide_price(const PipelineOptions *options, WideChoice wide) {
    if (options->no_materialize || wide == WIDE_AGAIN)
        return INFINITY;
    return wide == WIDE_STORED ? 0 : 1 + saving_price(options->saving.step);
}

// From those to groups, as was chosen.
static bool run_group_passes(Passes *p, Graph *graph, Compilation *out) {
    const PipelineOptions *options = p->options;
    bool streams = out->choice.program.plan != PLAN_UNFUSED;
    double price = wide_price(options, out->choice.program.wide);
    if (streams) {
        graph = graph_done(p, "pick",
                           graph_pick(read_graph(p, graph), out->typical, options->machine, price),
                           graph);
        note_extents(p, graph, out);
        graph = graph_done(p, "recompute",
                           graph_recompute(read_graph(p, graph), out->typical, options->machine,
                                           price, saving_any(options->saving)),
                           graph);
        note_extents(p, graph, out);
    }
    graph = graph_done(p, "cut", graph_cut(read_graph(p, graph), out->typical), graph);
    out->expanded = graph;
    note_extents(p, graph, out);
    out->fusion =
        graph_fuse(read_last(p, graph), out->typical, streams, out->choice.program.copies);
    if (options->verify)
        fusion_verify(out->fusion, "fuse");
    pass_done(p, "fuse", true);
    return !options->no_materialize || fusion_check_quadratic(out->fusion, out->contracted);
}

// false after an error.
static bool check_in_place(const Passes *p, const Compilation *out) {
    const Value *lost = tile_in_place_problem(out->tile);
    if (!lost)
        return true;
    const Def *def = program_find_def(out->program, out->built->entry);
    Diag *diag = diag_error(p->session->diags, def ? def->name.span : (Span){0},
                            "'%s' cannot take its new values in place: the old ones are needed "
                            "after these are there",
                            lost->name);
    diag_hint(diag, "a state can keep what is needed of them");
    return false;
}

ScheduleWish pipeline_wish(const PipelineOptions *options) {
    ScheduleWish wish = options->wish;
    wish.forced =
        (StreamSchedule){.plan = options->plan, .rows = options->rows, .piece = options->piece};
    return wish;
}

static bool run_tile_passes(Passes *p, Compilation *out) {
    const PipelineOptions *options = p->options;
    if (options->stop < AFTER_PLANNED)
        return true;
    MemoryOrder *orders =
        graph_layout(out->fusion, out->typical, options->machine, &out->choice.program);
    pass_done(p, "layout", true);
    out->plan = graph_plan(out->fusion, orders);
    if (options->verify)
        plan_verify(out->plan);
    pass_done(p, "plan", true);
    if (options->stop < AFTER_TILE)
        return true;
    ScheduleWish wish = pipeline_wish(options);
    out->tile = tile_lower(out->plan, options->machine, out->typical, &wish);
    if (!out->tile)
        return false;
    out->tile->choice = out->choice;
    pass_done(p, "lower", true);
    return check_in_place(p, out);
}

// Graphs that belong to nobody else, and what leads on from them.
static void close_graphs(Passes *p, Compilation *out) {
    if (!frees_graphs(p))
        return;
    arena_free(p->behind);
    out->simplified = out->contracted = out->once = out->expanded = NULL;
}

bool pipeline_lower(Session *session, const PipelineOptions *options, Compilation *out) {
    Passes p = {.session = session, .options = options, .begun = pipeline_seconds()};
    Graph *graph = out->once ? out->once : run_einsum_passes(&p, out);
    out->once = graph;
    if (!graph || options->stop < AFTER_FUSED)
        return true;
    choose_program(&p, graph, out);
    Saving saving = options->saving;
    saving.keep_all = out->choice.program.kept == KEPT_ALL;
    if (out->plain)
        graph = graph_done(
            &p, "again", graph_again(read_graph(&p, graph), out->typical, options->machine, saving),
            graph);
    if (options->accumulate)
        graph = graph_done(&p, "accumulate", graph_accumulate(read_graph(&p, graph)), graph);
    bool ok = run_group_passes(&p, graph, out);
    close_graphs(&p, out);
    return ok && run_tile_passes(&p, out);
}

// ---- the gradient in two parts ----

// The saved tensors lie as one function that does both would have them.
static bool order_saved(Passes *p, const Compilation *whole, Graph *joined, Graph *forward) {
    Compilation both = *whole;
    note_extents(p, joined, &both);
    both.choice = program_by_default(p->options); // whatever is chosen for either
    if (!run_group_passes(p, joined, &both))
        return false;
    MemoryOrder *orders = graph_layout(both.fusion, both.typical, p->options->machine, NULL);
    pass_done(p, "layout", true);
    for (uint32_t i = 0; i < forward->outputs.count; i++)
        forward->outputs.at[i].order = orders[both.fusion->graph->outputs.at[i].value->id].order;
    return true;
}

// Results that take a cotangent have no dims.
static bool is_scalar(const Graph *plain) {
    for (uint32_t i = 0; i < plain->outputs.count; i++)
        if (elem_is_float(plain->outputs.at[i].value->elem) && plain->outputs.at[i].order.count)
            return false;
    return true;
}

// What fuses across the end of the forward pass is computed once.
static const Graph *join(Passes *p, const Compilation *whole, Graph *once) {
    const PipelineOptions *options = p->options;
    Graph *again = graph_done(
        p, "again", graph_again(once, whole->typical, options->machine, options->saving), once);
    return graph_done(p, "accumulate", graph_accumulate(again), again);
}

bool pipeline_divide(Session *session, const PipelineOptions *options, GradientGraphs *graphs) {
    Passes p = {.session = session, .options = options, .begun = pipeline_seconds()};
    const Compilation *whole = &graphs->whole;
    Graph *once = read_graph(&p, whole->once);
    const Partition *partition =
        graph_partition(once, whole->typical, options->machine, options->saving);
    Graph *joined = graph_done(&p, "joined", partition_joined(partition), once);
    Graph *forward = graph_done(&p, "forward", partition_forward(partition), once);
    if (!order_saved(&p, whole, joined, forward))
        return false;
    Graph *backward = graph_done(&p, "backward", partition_backward(partition, forward), once);
    graphs->forward = forward;
    graphs->backward = graph_done(&p, "accumulate", graph_accumulate(backward), backward);
    graphs->both = is_scalar(whole->plain) ? join(&p, whole, once) : NULL;
    return true;
}

bool pipeline_partition(Session *session, const Program *program, const PipelineOptions *options,
                        GradientGraphs *out) {
    Passes p = {.session = session, .options = options, .begun = pipeline_seconds()};
    if (!pipeline_build(session, program, options, &out->whole))
        return false;
    out->whole.once = run_einsum_passes(&p, &out->whole);
    return pipeline_divide(session, options, out);
}

bool pipeline_lower_part(Session *session, const GradientGraphs *graphs, const Graph *part,
                         const PipelineOptions *options, Compilation *out) {
    Passes p = {.session = session, .options = options, .begun = pipeline_seconds()};
    *out = graphs->whole;
    choose_program(&p, part, out);
    bool ok = run_group_passes(&p, (Graph *)part, out);
    close_graphs(&p, out);
    return ok && run_tile_passes(&p, out);
}
