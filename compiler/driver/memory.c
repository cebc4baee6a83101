// SPDX-License-Identifier: Apache-2.0
// --memory-limit: how much of what gradients keep has to be computed again for the workspace to
// fit.
//
// For a choice of seams the savings are numbered: the steps of the price of a byte, each for one
// stretch of the forward pass, for two, .., for all (graph.h). More saving takes more time and, as
// a rule, less memory: the least number that fits is looked for by halves. The judge is the memory
// planner. Those seams are taken with which the last number fits, the first of them if several do;
// where there are none the rounds of loops are tried as checkpoints, of the outermost loops first.
// After that nothing tells where to look: with the first seams whole steps are tried from the last
// down.
//
// A forward pass keeps nothing for another and is judged alone: it has no saving or the last, with
// which no logits are stored for later sweeps (fuse/stored.c).
//
// Where nothing fits, the smallest is tried with tasks that make their own copies of what they read
// past (fuse/pack.c), and if that is smaller, all of the above is.
#include "driver/driver.h"

#include <stdlib.h>

enum { TRIALS_MOST = 20, LARGEST_SHOWN = 3, FUNCTIONS_MAX = 3 };

typedef struct {
    Options *options;
    const Target *const *targets;
    uint32_t n_targets;
    Compilation *once;            // of each target, up to there; NULL: parts are judged
    const GradientGraphs *graphs; // with parts
    StretchCounts stretches;      // of the forward pass; empty: it is all there is
    uint32_t loops;               // within each other
    bool copies_each;             // what is tried now
    uint32_t before;              // trials without that
    MemoryTrials *trials;
} Search;

// Of one function, for all targets, with the extents of each. They share their slots.
typedef struct {
    VEC(const Plan *) at;
    VEC(const int64_t *) extents;
    int64_t saved; // bytes that lie beside the workspace: what one function leaves to another
} Plans;

// What is planned with one saving, in a session of its own.
typedef struct {
    Session *session;
    Plans of[FUNCTIONS_MAX]; // the entry; or forward, backward and both in one call
} Planned;

// ---- one trial ---------------------------------------------------------------------------------

static PipelineOptions passes_of(const Search *s, uint32_t target, PipelineStop stop,
                                 Saving saving) {
    PipelineOptions passes = driver_passes(s->options, s->targets[target], stop);
    passes.saving = saving;
    passes.no_materialize = passes.time_passes = false;
    return passes;
}

static void add_plan(Arena *arena, Plans *plans, const Compilation *compiled) {
    vec_push(arena, &plans->at, compiled->plan);
    vec_push(arena, &plans->extents, compiled->typical);
}

static bool plan_entry(const Search *s, Saving saving, Planned *planned) {
    for (uint32_t t = 0; t < s->n_targets; t++) {
        Compilation compiled = s->once[t];
        PipelineOptions passes = passes_of(s, t, AFTER_PLANNED, saving);
        if (!pipeline_lower(planned->session, &passes, &compiled))
            return false;
        add_plan(planned->session->arena, &planned->of[0], &compiled);
    }
    return true;
}

// What is saved lies beside the workspace of either part.
static int64_t saved_bytes(const GradientGraphs *graphs) {
    int64_t total = 0, bytes;
    for (uint32_t i = 0; i < graphs->forward->outputs.count; i++) {
        const Output *output = &graphs->forward->outputs.at[i];
        if (output->use != USE_SAVED)
            continue;
        int64_t volume = dims_volume(&output->value->dims, graphs->whole.typical);
        bool fits = mul_i64(volume, (int64_t)elem_bytes(output->value->elem), &bytes);
        total = report_sum(total, fits ? bytes : -1);
    }
    return total;
}

static bool plan_parts(const Search *s, Saving saving, Planned *planned) {
    GradientGraphs graphs = *s->graphs;
    PipelineOptions passes = passes_of(s, 0, AFTER_PLANNED, saving);
    if (!pipeline_divide(planned->session, &passes, &graphs))
        return false;
    const Graph *parts[FUNCTIONS_MAX] = {graphs.forward, graphs.backward, graphs.both};
    for (uint32_t i = 0; i < FUNCTIONS_MAX && parts[i]; i++) {
        planned->of[i].saved = parts[i] == graphs.both ? 0 : saved_bytes(&graphs);
        for (uint32_t t = 0; t < s->n_targets; t++) {
            Compilation compiled;
            passes = passes_of(s, t, AFTER_PLANNED, saving);
            if (!pipeline_lower_part(planned->session, &graphs, parts[i], &passes, &compiled))
                return false;
            add_plan(planned->session->arena, &planned->of[i], &compiled);
        }
    }
    return true;
}

static bool plan_with(const Search *s, Saving saving, Planned *planned) {
    *planned = (Planned){.session = session_fork(s->options->session)};
    return s->once ? plan_entry(s, saving, planned) : plan_parts(s, saving, planned);
}

static int64_t workspace_of_plans(const Plans *plans) {
    return report_sum(plans->saved,
                      plans_workspace(plans->at.at, plans->extents.at, plans->at.count));
}

// -1, too many bytes, is the most.
static const Plans *hungriest(const Planned *planned) {
    const Plans *most = &planned->of[0];
    for (uint32_t i = 1; i < FUNCTIONS_MAX; i++)
        if ((uint64_t)workspace_of_plans(&planned->of[i]) > (uint64_t)workspace_of_plans(most))
            most = &planned->of[i];
    return most;
}

static int64_t workspace_of(const Planned *planned) {
    return workspace_of_plans(hungriest(planned));
}

static bool fits(const Search *s, int64_t workspace) {
    return workspace >= 0 && workspace <= s->options->memory_limit;
}

static bool is_before(Saving a, Saving b) {
    if (a.copies_each != b.copies_each)
        return b.copies_each;
    if (a.rounds != b.rounds)
        return a.rounds < b.rounds;
    if (a.seams != b.seams)
        return a.seams < b.seams;
    return a.step != b.step ? a.step < b.step : a.stretches < b.stretches;
}

// NULL: it was not tried.
static const MemoryTrial *trial_of(const Search *s, Saving saving) {
    for (uint32_t i = 0; i < s->trials->count; i++)
        if (saving_same(s->trials->at[i].saving, saving))
            return &s->trials->at[i];
    return NULL;
}

// Does it fit? Trials stay in order.
static bool try_saving(const Search *s, Saving saving) {
    saving.copies_each = s->copies_each;
    const MemoryTrial *known = trial_of(s, saving);
    if (known)
        return fits(s, known->workspace);
    MemoryTrial trial = {.saving = saving, .workspace = -1};
    if (s->stretches.count)
        trial.stretches = s->stretches.at[saving.seams];
    Planned planned;
    if (plan_with(s, saving, &planned))
        trial.workspace = workspace_of(&planned);
    session_free(planned.session);
    MemoryTrials *trials = s->trials;
    vec_push(s->options->session->arena, trials, trial);
    uint32_t at = trials->count - 1;
    for (; at > 0 && is_before(saving, trials->at[at - 1].saving); at--)
        trials->at[at] = trials->at[at - 1];
    trials->at[at] = trial;
    return fits(s, trial.workspace);
}

// ---- which of them -----------------------------------------------------------------------------

static bool try_number(const Search *s, uint32_t seams, uint32_t number) {
    return try_saving(s, saving_numbered(seams, s->stretches.at[seams], number));
}

static bool may_try(const Search *s) {
    return s->trials->count - s->before < TRIALS_MOST;
}

// One number fits, one before it does not.
static void look_between(const Search *s, uint32_t seams, uint32_t below, uint32_t above) {
    while (above - below > 1 && may_try(s)) {
        uint32_t middle = below + (above - below) / 2;
        if (try_number(s, seams, middle))
            above = middle;
        else
            below = middle;
    }
}

static void look_for_least(const Search *s) {
    if (try_saving(s, (Saving){0}))
        return;
    if (!s->stretches.count)
        try_saving(s, (Saving){.step = SAVING_STEPS, .stretches = 1});
    for (uint32_t seams = 0; seams < s->stretches.count; seams++) {
        uint32_t last = saving_last(s->stretches.at[seams]);
        if (try_number(s, seams, last)) {
            look_between(s, seams, 0, last);
            return;
        }
    }
    for (uint32_t depth = 1; depth <= s->loops; depth++)
        if (try_saving(s, (Saving){.rounds = depth}))
            return;
    uint32_t step = s->stretches.count ? s->stretches.at[0] : 0;
    for (uint32_t above = saving_last(step); above > step && may_try(s);) {
        above -= step;
        if (try_number(s, 0, above)) {
            look_between(s, 0, above - step, above);
            return;
        }
    }
}

static const MemoryTrial *first_that_fits(const Search *s) {
    for (uint32_t i = 0; i < s->trials->count; i++)
        if (fits(s, s->trials->at[i].workspace))
            return &s->trials->at[i];
    return NULL;
}

// The first of those with the smallest workspace.
static const MemoryTrial *smallest(const Search *s) {
    const MemoryTrial *least = &s->trials->at[0];
    for (uint32_t i = 1; i < s->trials->count; i++)
        if (s->trials->at[i].workspace >= 0 &&
            (least->workspace < 0 || s->trials->at[i].workspace < least->workspace))
            least = &s->trials->at[i];
    return least;
}

// ---- none --------------------------------------------------------------------------------------

static const Buffer **alive_at(const Plan *plan, uint32_t group, uint32_t *count, Arena *arena) {
    const Buffer **alive = arena_array(arena, const Buffer *, plan->buffers.count + 1);
    *count = 0;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *b = &plan->buffers.at[i];
        if (b->role == BUFFER_WORK && b->first_group <= group && group <= b->last_group)
            alive[(*count)++] = b;
    }
    return alive;
}

static double bytes_of(const Buffer *buffer, const int64_t *extents) {
    return (double)buffer_elements(buffer, extents) * (double)elem_bytes(buffer->value->elem);
}

// What is largest of what is alive at the fullest moment of a plan: "layer.0.H (6.0 MiB), ...".
static const char *largest_in(const Plan *plan, const int64_t *extents, Arena *arena) {
    double most = -1;
    uint32_t fullest = 0, count;
    for (uint32_t g = 0; g < plan->fusion->groups.count; g++) {
        double bytes = 0;
        const Buffer **alive = alive_at(plan, g, &count, arena);
        for (uint32_t i = 0; i < count; i++)
            bytes += bytes_of(alive[i], extents);
        fullest = bytes > most ? g : fullest;
        most = bytes > most ? bytes : most;
    }
    const Buffer **alive = alive_at(plan, fullest, &count, arena);
    const char **names = report_value_names(plan, arena);
    Text text = {.arena = arena};
    for (uint32_t shown = 0; shown < LARGEST_SHOWN && shown < count; shown++) {
        uint32_t best = shown;
        for (uint32_t i = shown; i < count; i++)
            best = bytes_of(alive[i], extents) > bytes_of(alive[best], extents) ? i : best;
        const Buffer *buffer = alive[best];
        alive[best] = alive[shown];
        alive[shown] = buffer;
        text_printf(&text, "%s%s (%s)", shown ? ", " : "", names[buffer->value->id],
                    bytes_text((int64_t)bytes_of(buffer, extents), arena));
    }
    return text.at ? text.at : "nothing";
}

// The plan that takes most on its own; -1, too many bytes, is the most.
static uint32_t largest_plan(const Plans *plans) {
    uint32_t largest = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < plans->at.count; i++) {
        uint64_t bytes = (uint64_t)plans_workspace(&plans->at.at[i], &plans->extents.at[i], 1);
        largest = bytes > most ? i : largest;
        most = bytes > most ? bytes : most;
    }
    return largest;
}

// "20.0 KiB (20480 bytes)"
static const char *exact_bytes(int64_t bytes, Arena *arena) {
    const char *text = bytes_text(bytes, arena);
    return bytes < 0 ? text : arena_printf(arena, "%s (%lld bytes)", text, (long long)bytes);
}

static void refuse(const Search *s) {
    const Options *options = s->options;
    int64_t limit = options->memory_limit;
    const MemoryTrial *least = smallest(s);
    Planned planned;
    if (plan_with(s, least->saving, &planned)) {
        Arena *arena = planned.session->arena;
        const Plans *plans = hungriest(&planned);
        uint32_t largest = largest_plan(plans);
        const char *saved =
            arena_printf(arena, "what is saved (%s), ", bytes_text(plans->saved, arena));
        Diag *diag = diag_error(options->session->diags, (Span){0},
                                "--memory-limit %s: the workspace %stakes %s%s",
                                limit < 1024 ? bytes_text(limit, arena) : exact_bytes(limit, arena),
                                s->graphs ? "of the forward and backward parts " : "",
                                s->stretches.count ? "more, the least found is " : "",
                                exact_bytes(least->workspace, arena));
        diag_hint(diag, "largest at its fullest moment: %s%s; smaller extents take less",
                  plans->saved ? saved : "",
                  largest_in(plans->at.at[largest], plans->extents.at[largest], arena));
    }
    session_join(options->session, planned.session);
    session_free(planned.session);
}

// Is there less to store where tasks make their own copies?
static bool copies_take_memory(Search *s) {
    MemoryTrial least = *smallest(s);
    s->copies_each = true;
    s->before = s->trials->count;
    try_saving(s, least.saving);
    return smallest(s)->saving.copies_each;
}

static bool choose(Search *s, Saving *saving) {
    look_for_least(s);
    const MemoryTrial *trial = first_that_fits(s);
    if (!trial && copies_take_memory(s)) {
        look_for_least(s);
        trial = first_that_fits(s);
    }
    if (trial)
        *saving = trial->saving;
    else
        refuse(s);
    return trial != NULL;
}

static void find_savings(Search *s, const Graph *graph, const int64_t *extents,
                         const Machine *machine) {
    s->stretches = graph_stretches(graph, extents, machine, s->options->session->arena);
    s->loops = graph_loop_depth(graph);
}

bool memory_fit(Options *options, const Compilation *built, const Target *const *targets,
                uint32_t n_targets, Saving *saving, MemoryTrials *trials) {
    *saving = (Saving){0};
    if (!options->memory_limit)
        return true;
    Session *session = session_fork(options->session);
    Compilation *once = arena_array(session->arena, Compilation, n_targets);
    Search s = {options, targets, n_targets, once, NULL, .trials = trials};
    bool ok = true;
    for (uint32_t t = 0; t < n_targets && ok; t++) {
        PipelineOptions passes = passes_of(&s, t, AFTER_EXPANDED, (Saving){0});
        once[t] = *built;
        ok = pipeline_lower(session, &passes, &once[t]);
        if (ok && built->plain && !t)
            find_savings(&s, once[t].once, once[t].typical, passes.machine);
    }
    ok = ok && choose(&s, saving);
    session_join(options->session, session);
    session_free(session);
    return ok;
}

static bool fit_parts(Options *options, const GradientGraphs *graphs, const Target *const *targets,
                      uint32_t n_targets, Saving *saving) {
    *saving = (Saving){0};
    if (!options->memory_limit)
        return true;
    MemoryTrials trials = {0};
    Search s = {options, targets, n_targets, NULL, graphs, .trials = &trials};
    PipelineOptions passes = passes_of(&s, 0, AFTER_EXPANDED, (Saving){0});
    find_savings(&s, graphs->whole.once, graphs->whole.typical, passes.machine);
    return choose(&s, saving);
}

// ---- compiling so that it fits ------------------------------------------------------------------

bool driver_lower(Options *options, const Target *target, PipelineOptions *passes,
                  Compilation *compiled, MemoryTrials *trials) {
    MemoryTrials unused = {0};
    return memory_fit(options, compiled, &target, 1, &passes->saving, trials ? trials : &unused) &&
           pipeline_lower(options->session, passes, compiled);
}

bool driver_partition(Options *options, Session *session, const Program *program,
                      const Target *const *targets, uint32_t n_targets, PipelineOptions *passes,
                      GradientGraphs *graphs) {
    GradientOptions *gradient = arena_new_of(session->arena, GradientOptions);
    *gradient = options->gradient;
    gradient->all_given = true;
    passes->gradient = gradient;
    return pipeline_partition(session, program, passes, graphs) &&
           fit_parts(options, graphs, targets, n_targets, &passes->saving) &&
           (!saving_any(passes->saving) || pipeline_divide(session, passes, graphs));
}

// `emit` shows an optimizer as training has it.
static bool build_entry(Options *options, const Program *program, const PipelineOptions *passes,
                        Compilation *out) {
    Session *session = options->session;
    Name entry = options->entry.entry;
    const Def *def = entry ? program_find_def(program, entry) : NULL;
    if (def && def->is_optimizer && options->kind == COMMAND_EMIT && !passes->gradient)
        return pipeline_build_optimizer(session, program, def, passes, out);
    return pipeline_build(session, program, passes, out);
}

bool driver_compile(Options *options, const Target *target, PipelineStop stop, Compilation *out) {
    Program *program = driver_front(options);
    PipelineOptions passes = driver_passes(options, target, stop);
    return program && build_entry(options, program, &passes, out) &&
           driver_lower(options, target, &passes, out, NULL);
}
