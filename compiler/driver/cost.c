// SPDX-License-Identifier: Apache-2.0
// attc cost: what an entry costs at given extents, before anything runs.
#include "driver/driver.h"

static const char *count_digits(int64_t count, Arena *arena) {
    return arena_printf(arena, "%lld", (long long)count);
}

static const char *count_text(int64_t count, Arena *arena) {
    if (count < 0)
        return "more than 9.2e18";
    if (count < 10000000)
        return count_digits(count, arena);
    return arena_printf(arena, "%lld (%.4g)", (long long)count, (double)count);
}

static void print_kernels(const CostFigures *f, Arena *arena) {
    Table table = table_open(arena, "lllrrrr");
    static const char *const heads[] = {"kernel",  "kind",      "over",     "multiplies",
                                        "scratch", "recompute", "predicted"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t i = 0; i < f->kernels.count; i++) {
        const KernelFigure *k = &f->kernels.at[i];
        table_cell(&table, "%s", k->name);
        table_cell(&table, "%s", k->kind);
        table_cell(&table, "%s", dims_text(f->graph, &k->dims, arena));
        table_cell(&table, "%s",
                   k->multiplies < 0 ? "too many" : count_digits(k->multiplies, arena));
        table_cell(&table, "%s", bytes_text(k->scratch, arena));
        table_cell(&table, "%.2f", k->recompute);
        table_seconds(&table, k->seconds);
    }
    printf("\n");
    table_print(&table);
}

static void print_gradient(const CostFigures *f, Arena *arena) {
    const GradientFigures *g = f->gradient;
    printf("peak        %s: arguments %s, results %s, workspace %s\n"
           "saved       %s by the forward pass for the backward pass\n"
           "recomputed  %s flops beyond those of each value once\n",
           bytes_text(f->peak, arena), bytes_text(f->arguments, arena),
           bytes_text(f->results, arena), bytes_text(f->workspace, arena),
           bytes_text(g->saved_bytes, arena), count_text(g->recomputed_flops, arena));
}

// ---- what was tried for --memory-limit ---------------------------------------------------------

typedef struct {
    MemoryTrial trial;
    int64_t workspace, saved, recomputed; // at the extents asked for
    double seconds;
    bool taken;
} Choice;
typedef VEC(Choice) Choices;

static double predicted_seconds(const CostFigures *f) {
    double seconds = 0;
    for (uint32_t i = 0; i < f->kernels.count; i++)
        seconds += f->kernels.at[i].seconds;
    return seconds;
}

static bool add_choice(Options *options, const Compilation *built, const MemoryTrial *trial,
                       Saving taken, const Tensors *tensors, Choices *out) {
    const Target *target = driver_target(options);
    Session *session = session_fork(options->session);
    Compilation compiled = *built;
    PipelineOptions passes = driver_passes(options, target, AFTER_TILE);
    passes.saving = trial->saving;
    passes.time_passes = passes.no_materialize = false;
    bool ok = pipeline_lower(session, &passes, &compiled);
    if (ok) {
        int64_t *extents = tensors_extents(tensors, compiled.fusion->graph, session->arena);
        CostFigures f = report_figures(&compiled, passes.machine, passes.machine->threads, extents,
                                       session->arena);
        const GradientFigures *g = report_gradient(&compiled, &f, extents, session->arena);
        vec_push(options->session->arena, out,
                 (Choice){*trial, f.workspace, g->saved_bytes, g->recomputed_flops,
                          predicted_seconds(&f), saving_same(trial->saving, taken)});
    }
    if (!ok)
        session_join(options->session, session);
    session_free(session);
    return ok;
}

static const char *what_saves(const MemoryTrial *trial, Arena *arena) {
    Saving saving = trial->saving;
    const char *copies = saving.copies_each ? ", copies" : "";
    return saving.rounds
               ? arena_printf(arena, "rounds %u%s", saving.rounds, copies)
               : arena_printf(arena, "%u of %u%s", saving.stretches, trial->stretches, copies);
}

static void print_choices(const Options *options, const Choices *choices, Arena *arena) {
    static const char *const heads[] = {"price",      "stretches", "saved", "workspace",
                                        "recomputed", "predicted", ""};
    if (!choices->count)
        return;
    printf("\nmemory limit %s; tried, with the price of a byte that is kept:\n",
           bytes_text(options->memory_limit, arena));
    Table table = table_open(arena, "rrrrrrl");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t i = 0; i < choices->count; i++) {
        const Choice *c = &choices->at[i];
        table_cell(&table, "%g", saving_price(c->trial.saving.step));
        table_cell(&table, "%s", what_saves(&c->trial, arena));
        table_cell(&table, "%s", bytes_text(c->saved, arena));
        table_cell(&table, "%s", bytes_text(c->workspace, arena));
        table_cell(&table, "%s",
                   c->recomputed < 0 ? "too many"
                                     : arena_printf(arena, "%.4g", (double)c->recomputed));
        table_seconds(&table, c->seconds);
        table_cell(&table, "%s", c->taken ? "taken" : "");
    }
    table_print(&table);
}

static json_t *choices_json(const Choices *choices) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < choices->count; i++) {
        const Choice *c = &choices->at[i];
        json_array_append_new(
            list, json_pack("{s:o, s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:o, s:b}", "price",
                            report_number(saving_price(c->trial.saving.step)), "stretches",
                            (int)c->trial.saving.stretches, "stretches_in_all",
                            (int)c->trial.stretches, "rounds", (int)c->trial.saving.rounds,
                            "copies_each", c->trial.saving.copies_each, "saved_bytes",
                            (json_int_t)c->saved, "workspace_bytes", (json_int_t)c->workspace,
                            "recomputed_flops", (json_int_t)c->recomputed, "predicted_seconds",
                            report_number(c->seconds), "taken", c->taken));
    }
    return list;
}

// ---- buffers and kernels -----------------------------------------------------------------------

static void add_buffer(const CostFigures *f, const BufferFigure *b, const char *of, Table *table) {
    table_cell(table, "%s", b->name);
    table_cell(table, "%s", dims_text(f->graph, &b->dims, table->arena));
    table_cell(table, "%s", bytes_text(b->bytes, table->arena));
    table_cell(table, "%s%s", b->placement, of);
}

static void print_buffers(const CostFigures *f, const char *head, const BufferFigureList *buffers,
                          bool scratch, Arena *arena) {
    if (!buffers->count)
        return;
    Table table = table_open(arena, "llrl");
    const char *const heads[] = {head, "dims", "size", "placement"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t i = 0; i < buffers->count; i++)
        add_buffer(f, &buffers->at[i], "", &table);
    for (uint32_t i = 0; scratch && i < f->kernels.count; i++) {
        const KernelFigure *k = &f->kernels.at[i];
        for (uint32_t b = 0; b < k->in_scratch.count; b++)
            add_buffer(f, &k->in_scratch.at[b], arena_printf(arena, " of a task of %s", k->name),
                       &table);
    }
    printf("\n");
    table_print(&table);
}

static void print_text(const Options *options, const Compilation *compiled, const CostFigures *f,
                       const Choices *choices, const int64_t *extents) {
    const Graph *graph = compiled->built;
    Arena *arena = options->session->arena;
    printf("entry       %s\ndims       ", graph->entry);
    for (uint32_t d = 0; d < graph->dims.count; d++)
        if (!graph->dims.at[d].scan)
            printf(" %s=%lld", graph->dims.at[d].name, (long long)extents[d]);
    printf(
        "\nparameters  %s\nmultiplies  %s in einsums (pointwise products count as flops alone)\n",
        count_text(f->parameters, arena), count_text(f->multiplies, arena));
    if (f->masked && f->multiplies > 0)
        printf("masked      %s of them (%.1f%%), which masks let kernels leave out\n",
               count_text(f->masked, arena), 100 * (double)f->masked / (double)f->multiplies);
    printf("flops       %s\nworkspace   %s\n", count_text(f->flops, arena),
           bytes_text(f->workspace, arena));
    if (compiled->choice.found)
        printf("program     %s (%s)\n", schedule_program_text(arena, &compiled->choice.program),
               compiled->choice.found);
    if (f->gradient)
        print_gradient(f, arena);
    print_choices(options, choices, arena);
    print_kernels(f, arena);
    if (f->gradient)
        print_buffers(f, "saved", &f->gradient->saved, false, arena);
    print_buffers(f, "buffer", &f->buffers, true, arena);
    for (uint32_t i = 0; i < f->kernels.count; i++)
        if (f->kernels.at[i].misfit)
            printf("\nnote: %s is %s, %s\n", f->kernels.at[i].name, f->kernels.at[i].plan,
                   f->kernels.at[i].misfit);
}

static json_t *buffers_json(const CostFigures *f, const BufferFigureList *buffers) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < buffers->count; i++) {
        const BufferFigure *b = &buffers->at[i];
        json_array_append_new(list, json_pack("{s:s, s:o, s:I, s:s}", "name", b->name, "dims",
                                              report_dim_names(f->graph, &b->dims), "bytes",
                                              (json_int_t)b->bytes, "placement", b->placement));
    }
    return list;
}

static const char *kind_of_stage(const Stage *stage) {
    static const char *const names[] = {
        [STAGE_CONTRACT] = "contract", [STAGE_COMPUTE] = "compute", [STAGE_ORDER] = "order"};
    return names[stage->kind];
}

// What the time of a kernel is made of: one object for each stage.
static json_t *stages_json(const KernelFigure *figure) {
    json_t *stages = json_array();
    for (uint32_t i = 0; i < figure->cost.stages.count; i++) {
        const StageCost *cost = &figure->cost.stages.at[i];
        json_t *over = json_array();
        for (int d = 0; d < cost->stage->n_dims; d++)
            json_array_append_new(over,
                                  json_string(figure->kernel->dims.at[cost->stage->dims[d]].name));
        json_t *bytes = json_pack("{s:o, s:o, s:o}", "l2", report_number(cost->bytes[FROM_L2]),
                                  "l3", report_number(cost->bytes[FROM_L3]), "memory",
                                  report_number(cost->bytes[FROM_MEMORY]));
        json_array_append_new(stages, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "kind",
                                                kind_of_stage(cost->stage), "over", over, "times",
                                                report_number(cost->times), "cycles",
                                                report_number(cost->cycles), "bytes", bytes,
                                                "seconds", report_number(cost->seconds)));
    }
    return stages;
}

// Two fields: what it is, and where it is from.
static void add_schedule(json_t *object, const char *name, const Schedule *schedule, Arena *arena) {
    json_object_set_new(object, name, json_loads(schedule_to_json(arena, schedule), 0, NULL));
    json_object_set_new(object, arena_printf(arena, "%s_from", name),
                        json_string(schedule->found ? schedule->found : "predicted"));
}

static json_t *kernel_json(const CostFigures *f, const KernelFigure *k, Arena *arena) {
    json_t *object =
        json_pack("{s:s, s:s, s:s?, s:o, s:I, s:I, s:I, s:o, s:o}", "name", k->name, "kind",
                  k->kind, "plan", k->plan, "dims", report_dim_names(f->graph, &k->dims),
                  "multiplies", (json_int_t)k->multiplies, "flops", (json_int_t)k->flops,
                  "scratch_bytes", (json_int_t)k->scratch, "recompute", report_number(k->recompute),
                  "predicted_seconds", report_number(k->seconds));
    json_object_set_new(object, "seen", report_number(k->seen));
    json_object_set_new(object, "scratch", buffers_json(f, &k->in_scratch));
    json_object_set_new(object, "stages", stages_json(k));
    add_schedule(object, "schedule", &k->kernel->schedule, arena);
    if (k->misfit)
        json_object_set_new(object, "misfit", json_string(k->misfit));
    return object;
}

static void print_json(const Options *options, const Compilation *compiled, const CostFigures *f,
                       const Choices *choices, const SpaceFigures *spaces, const int64_t *extents,
                       int threads) {
    Arena *arena = options->session->arena;
    json_t *kernels = json_array();
    for (uint32_t i = 0; i < f->kernels.count; i++)
        json_array_append_new(kernels, kernel_json(f, &f->kernels.at[i], arena));
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o}", "entry", compiled->built->entry,
                  "parameters", (json_int_t)f->parameters, "multiplies", (json_int_t)f->multiplies,
                  "flops", (json_int_t)f->flops, "workspace_bytes", (json_int_t)f->workspace,
                  "threads", threads, "dims", report_extents(compiled->built, extents), "buffers",
                  buffers_json(f, &f->buffers), "kernels", kernels);
    json_object_set_new(object, "masked_multiplies", json_integer(f->masked));
    if (f->gradient)
        json_object_update_new(
            object, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "saved",
                              buffers_json(f, &f->gradient->saved), "saved_bytes",
                              (json_int_t)f->gradient->saved_bytes, "peak_bytes",
                              (json_int_t)f->peak, "argument_bytes", (json_int_t)f->arguments,
                              "result_bytes", (json_int_t)f->results, "recomputed_flops",
                              (json_int_t)f->gradient->recomputed_flops));
    add_schedule(object, "program", &compiled->choice, arena);
    if (options->memory_limit)
        json_object_update_new(
            object, json_pack("{s:I}", "memory_limit", (json_int_t)options->memory_limit));
    if (choices->count)
        json_object_set_new(object, "choices", choices_json(choices));
    if (spaces) {
        json_object_set_new(object, "spaces", report_spaces_json(spaces, arena));
        json_object_set_new(object, "programs", report_programs_json(spaces, arena));
    }
    report_print_json(object);
}

// The choices that were tried and whose workspace is known, if there was one to make.
static bool find_choices(Options *options, const Compilation *built, const MemoryTrials *trials,
                         Saving taken, const Tensors *tensors, Choices *out) {
    bool ok = true;
    for (uint32_t i = 0; i < trials->count && built->plain && ok; i++)
        if (trials->at[i].workspace >= 0)
            ok = add_choice(options, built, &trials->at[i], taken, tensors, out);
    return ok;
}

int command_cost(Options *options) {
    const Target *target = driver_target(options);
    const Program *program = target ? driver_front(options) : NULL;
    PipelineOptions passes = driver_passes(options, target, AFTER_TILE);
    Compilation built, compiled;
    MemoryTrials trials = {0};
    if (!program || !pipeline_build(options->session, program, &passes, &built))
        return EXIT_PROBLEM;
    compiled = built;
    if (!driver_lower(options, target, &passes, &compiled, &trials))
        return EXIT_PROBLEM;
    Arena *arena = options->session->arena;
    Tensors tensors;
    Choices choices = {0};
    bool fine = tensors_open(options, &compiled, true, &tensors) &&
                find_choices(options, &built, &trials, passes.saving, &tensors, &choices);
    if (fine) {
        int threads = passes.machine->threads;
        int64_t *extents = tensors_extents(&tensors, compiled.fusion->graph, arena);
        CostFigures figures = report_figures(&compiled, passes.machine, threads, extents, arena);
        if (compiled.plain)
            figures.gradient = report_gradient(&compiled, &figures, extents, arena);
        SpaceFigures spaces;
        if (options->space)
            spaces =
                report_spaces(options, &(Call){.compiled = compiled, .passes = passes}, &tensors);
        if (options->json)
            print_json(options, &compiled, &figures, &choices, options->space ? &spaces : NULL,
                       extents, threads);
        else
            print_text(options, &compiled, &figures, &choices, extents);
        if (options->space && !options->json)
            report_print_spaces(&spaces, arena);
    }
    tensors_close(&tensors);
    return fine ? EXIT_FINE : EXIT_PROBLEM;
}
