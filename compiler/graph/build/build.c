// SPDX-License-Identifier: Apache-2.0
// From the resolved program to the graph of one entry: calls are inlined, loops unrolled.
//
//     def Twice(X[n]):              def F(X[b, n]):              t[b, n] = X[b, n] + X[b, n]
//         return X[n] + X[n]            return Twice(X)          (Twice is mapped over b)
//
// Requires: ast_resolve found no error, so that names, dims and elems fit. What only shows once
// extents and dims of a call are known (loop counts, slices, dims that are not alike) is diagnosed
// here.
#include <string.h>

#include "graph/build/build.h"
#include "graph/model.h"

bool build_step(Build *build, Span at) {
    if (build->stopped)
        return false;
    if (++build->steps <= BUILD_STEPS)
        return true;
    build->stopped = true;
    Diag *diag =
        diag_error(build->session->diags, at,
                   "the program has more than %d statements and calls once inlined", BUILD_STEPS);
    diag_hint(diag, "loops are unrolled: are their extents as intended?");
    return false;
}

// ---- statements --------------------------------------------------------------------------------

void build_name_value(const Frame *frame, Value *value, Name name, Span origin) {
    if (value->hint)
        return;
    value->hint = name;
    value->path = frame->place;
    value->origin = origin;
}

static void build_assign(Frame *frame, const Stmt *stmt) {
    const Tensor *target = &stmt->target;
    Elem elem = target->has_elem ? target->elem : stmt->value->elem;
    Value *value = build_expr_as(frame, stmt->value, elem);
    build_name_value(frame, value, target->name.name, stmt->span);
    frame_assign(frame, target->name.name, value);
}

const CodeBlock *build_open_block(Build *build, uint32_t rounds, bool checkpointed) {
    const CodeBlock *around = build->graph->made_for.block;
    CodeBlock block = {around, (around ? around->depth : 0) + rounds, checkpointed};
    build->graph->made_for.block = arena_copy(build->graph->arena, &block, sizeof block);
    return around;
}

// Does --checkpoint name the dim of the loop?
static bool is_checkpointed(Build *build, const Stmt *loop) {
    const NameList *names = &build->options->checkpoints;
    for (uint32_t i = 0; i < names->count; i++)
        if (names->at[i] == loop->loop_dim.name)
            return build->checkpointed[i] = true;
    return false;
}

static void build_iteration(Frame *frame, const Stmt *loop, int64_t number) {
    Build *build = frame->build;
    const CodeBlock *around = build_open_block(build, 1, is_checkpointed(build, loop));
    const char *outside = frame->path, *place = frame->place, *own = loop->path;
    frame->place = arena_printf(build->arena, "%s%s.%lld.", place, own ? own : loop->loop_var.name,
                                (long long)number);
    if (own)
        frame->path = loop->shared ? arena_printf(build->arena, "%s%s.", outside, own)
                                   : arena_printf(build->arena, "%s%s.%lld.", outside, own,
                                                  (long long)number);
    vec_push(build->arena, &frame->loops, (LoopValue){loop->loop_var.name, number});
    build_body(frame, &loop->body);
    build->graph->made_for.block = around;
    frame->loops.count--;
    frame->path = outside;
    frame->place = place;
}

static bool is_given_zero(const Session *session, const Program *program, Name dim) {
    const DimExtent *given = program_given(program, &session->overrides, dim);
    return given && given->extent == 0;
}

// A loop over a dim whose extent is not known when compiling, or is 0, which is the same.
static void tell_loop_extent(Frame *frame, const Stmt *loop) {
    const Session *session = frame->build->session;
    const Program *program = frame->build->program;
    Name dim = loop->loop_dim.name, plain = name_unprimed(session->names, dim);
    Span at = loop->loop_dim.span;
    Diag *diag;
    if (program_made_dynamic(session, program, dim)) {
        diag = diag_error(session->diags, at,
                          "the rounds of a loop are written out when compiling, '%s' is --dynamic",
                          dim);
        diag_hint(diag, "leave out '--dynamic %s'; 'scan %s in %s:' runs over any extent", plain,
                  loop->loop_var.name, dim);
    } else if (is_given_zero(session, program, dim)) {
        diag =
            diag_error(session->diags, at, "a loop has one round or more, '%s' is 0 from -D", dim);
    } else {
        diag = diag_error(session->diags, at,
                          "a loop runs over a dim of known extent, '%s' has none", dim);
        diag_hint(diag,
                  "write 'dim %s = ...' or give -D %s=...; 'scan %s in %s:' runs over any extent",
                  plain, plain, loop->loop_var.name, dim);
    }
    frame_note_calls(frame, diag);
}

static void build_loop(Frame *frame, const Stmt *loop) {
    Build *build = frame->build;
    int64_t extent = frame_extent(frame, loop->loop_dim.name);
    if (extent == EXTENT_DYNAMIC && build->open_extents)
        return; // what the loop carries keeps its dims and type
    if (extent == EXTENT_DYNAMIC) {
        tell_loop_extent(frame, loop);
        return;
    }
    frame_note_counted(frame, loop->loop_dim.name);
    for (int64_t i = 0; i < extent && build_step(build, loop->span); i++)
        build_iteration(frame, loop, i);
}

static void build_return(Frame *frame, const Stmt *stmt) {
    for (uint32_t i = 0; i < stmt->results.count; i++) {
        Value *value = build_expr(frame, stmt->results.at[i]);
        vec_push(frame->build->arena, &frame->results, value);
    }
}

void build_body(Frame *frame, const StmtList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Stmt *stmt = body->at[i];
        if (!build_step(frame->build, stmt->span))
            return;
        switch (stmt->kind) {
        case STMT_ASSIGN:
            build_assign(frame, stmt);
            break;
        case STMT_PARAM:
            frame_assign(frame, stmt->target.name.name, build_trained(frame, &stmt->target));
            break;
        case STMT_FOR:
            build_loop(frame, stmt);
            break;
        case STMT_SCAN:
            build_scan(frame, stmt);
            break;
        case STMT_RETURN:
            build_return(frame, stmt);
            break;
        }
    }
}

// ---- the entry ---------------------------------------------------------------------------------

static bool names_have(const NameList *names, Name name) {
    for (uint32_t i = 0; i < names->count; i++)
        if (names->at[i] == name)
            return true;
    return false;
}

static const Tensor *def_param(const Def *def, Name name) {
    for (uint32_t i = 0; i < def->params.count; i++)
        if (def->params.at[i].name.name == name)
            return &def->params.at[i];
    return NULL;
}

// The nearest name, or all that there are.
static void hint_names(Diag *diag, const Near *near, const char *what, const Text *names) {
    if (near->best)
        diag_hint(diag, "did you mean '%s'?", near->best);
    else if (names->at)
        diag_hint(diag, "%s: %s", what, names->at);
}

static void offer(Near *near, Text *names, uint32_t *count, Name name) {
    near_offer(near, name);
    text_list(names, (*count)++, name);
}

// Reports names that are no argument of the entry; `what` is the option that has them.
static void check_arguments(Build *build, const Def *def, const Name *names, uint32_t n,
                            const char *what) {
    for (uint32_t i = 0; i < n; i++) {
        if (def_param(def, names[i]))
            continue;
        Diag *diag = diag_error(build->session->diags, def->name.span,
                                "%s names '%s', which is no argument of '%s'", what, names[i],
                                def->name.name);
        Near near = near_to(names[i]);
        Text all = {.arena = build->session->arena};
        uint32_t count = 0;
        for (uint32_t k = 0; k < def->params.count; k++)
            offer(&near, &all, &count, def->params.at[k].name.name);
        hint_names(diag, &near, "its arguments", &all);
    }
}

static InputRole argument_role(const Build *build, const Tensor *param) {
    const Session *session = build->session;
    if (param->is_param)
        return ROLE_PARAM;
    for (uint32_t i = 0; i < session->data.count; i++)
        if (session->data.at[i] == param->name.name)
            return ROLE_DATA;
    return session->data.count ? ROLE_PARAM : ROLE_DATA;
}

static void build_arguments(Frame *frame, const EntryOptions *options) {
    for (uint32_t i = 0; i < frame->def->params.count; i++) {
        const Tensor *param = &frame->def->params.at[i];
        DimList own = frame_dims(frame, &param->result, param->span), order = {0};
        for (uint32_t k = 0; k < options->maps.count; k++)
            if (names_have(&options->maps.at[k].args, param->name.name))
                dims_add(&order, frame->hidden.at[k]);
        order = dims_union(&order, &own);
        Value *value = names_input(frame->build, param, param->name.name, order,
                                   argument_role(frame->build, param));
        frame_assign(frame, param->name.name, value);
    }
}

static void build_outputs(Frame *frame) {
    Build *build = frame->build;
    const Def *def = frame->def;
    for (uint32_t i = 0; i < frame->results.count && i < def->result_dims.count; i++) {
        Value *value = graph_over(build->graph, frame->results.at[i], &frame->hidden);
        DimList own = frame_dims(frame, &def->result_dims.at[i], def->span);
        DimList order = frame->hidden; // of --map: they come first
        graph_output(build->graph, def->result_names.at[i], value, dims_union(&order, &own));
    }
}

static bool map_entry(Frame *frame, const EntryMap *map) {
    Build *build = frame->build;
    check_arguments(build, frame->def, map->args.at, map->args.count, "--map");
    if (names_have(&frame->def->dims, map->dim)) {
        diag_error(build->session->diags, frame->def->name.span,
                   "--map needs a dim that '%s' does not have, '%s' is one of its own",
                   frame->def->name.name, map->dim);
        return false;
    }
    if (!frame_has_room(frame, 1, frame->def->name.span))
        return false;
    dims_add(&frame->hidden, frame_dim(build->top, map->dim));
    return true;
}

// Names of --checkpoint over which no loop runs.
static void check_checkpoints(Build *build, const Def *def) {
    const NameList *names = &build->options->checkpoints;
    for (uint32_t i = 0; i < names->count; i++) {
        if (build->checkpointed[i])
            continue;
        Diag *diag = diag_error(build->session->diags, def->name.span,
                                "--checkpoint names '%s', over which '%s' has no loop",
                                names->at[i], def->name.name);
        diag_hint(diag,
                  "'for layer in %s:' is such a loop; of an expression, write "
                  "'checkpoint(...)' around it",
                  names->at[i]);
    }
}

static bool build_entry(Build *build, const Def *def, const EntryOptions *options) {
    const Diags *diags = build->session->diags;
    uint32_t errors = diags_errors(diags);
    Frame *frame = frame_new(build, def, build->top);
    check_arguments(build, def, build->session->data.at, build->session->data.count, "--data");
    for (uint32_t i = 0; i < options->maps.count; i++)
        if (!map_entry(frame, &options->maps.at[i]))
            return false;
    build_arguments(frame, options);
    if (diags_errors(diags) > errors)
        return false;
    build_body(frame, &def->body);
    build_check_computed(build);
    if (diags_errors(diags) == errors && !build->stopped && !build->open_extents)
        check_checkpoints(build, def);
    if (diags_errors(diags) > errors || build->stopped)
        return false;
    build_outputs(frame);
    if (!build->open_extents)
        build_rules(build, def->name.span);
    return diags_errors(diags) == errors;
}

// ---- choosing the entry ------------------------------------------------------------------------

// The file that the command named: the first one that is not the prelude.
static uint32_t main_file(const Session *session) {
    for (uint32_t file = 1; file <= sources_count(session->sources); file++)
        if (strcmp(sources_get(session->sources, file)->path, "<prelude>") != 0)
            return file;
    return 0;
}

static const Def *default_entry(const Session *session, const Program *program) {
    const Def *last = NULL, *last_of_main = NULL;
    uint32_t file = main_file(session);
    for (uint32_t i = 0; i < program->defs.count; i++) {
        const Def *def = program->defs.at[i];
        if (def->from_prelude || def->is_optimizer)
            continue;
        last = def;
        if (def->span.file == file)
            last_of_main = def;
    }
    return last_of_main ? last_of_main : last;
}

static void report_unknown_entry(Session *session, const Program *program, Name entry) {
    Diag *diag = diag_error(session->diags, (Span){0}, "there is no def '%s'", entry);
    Near near = near_to(entry);
    Text all = {.arena = session->arena};
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->defs.count; i++)
        if (!program->defs.at[i]->from_prelude)
            offer(&near, &all, &count, program->defs.at[i]->name.name);
    hint_names(diag, &near, "the defs", &all);
}

static const Def *find_entry(Session *session, const Program *program,
                             const EntryOptions *options) {
    Name entry = options->entry;
    if (options->def)
        return options->def;
    const Def *def = entry ? program_find_def(program, entry) : default_entry(session, program);
    if (!def && entry)
        report_unknown_entry(session, program, entry);
    else if (!def && options->open_extents) // dims and trained tensors, for others to import
        diag_remark(session->diags, (Span){0}, "the file has no def");
    else if (!def)
        diag_error(session->diags, (Span){0}, "the file has no def");
    return def;
}

// What a dynamic dim is planned for: what --dynamic tells, of several sizes the nearest to -D, or
// else -D. 0: neither.
static int64_t extent_to_plan_for(const Build *build, Name dim) {
    const Session *session = build->session;
    const DimExtent *planned = program_given(build->program, &session->planned, dim);
    const DimExtent *own = program_given(build->program, &session->overrides, dim);
    DimExtents sizes = program_sizes(session, build->program, dim, build->arena);
    if (sizes.count && own)
        return sizes_nearest(&sizes, own->extent);
    return planned ? planned->extent : own ? own->extent : 0;
}

// A batch of sequences that nobody tells of is planned for as a small one. What is planned for more
// leaves threads without a task where there are fewer (examples/lm.attn, planned for 512, runs with
// 8, two threads: 1.5x as long); what is planned for 8 is as fast with 1 and with 64 as what is
// planned for these (within a few percent, batches of 256 positions, two threads).
static void plan_for_given(const Build *build) {
    enum { SEQUENCES = 8 };
    Graph *graph = build->graph;
    DimId batch = graph_batch(graph);
    int64_t *extents = arena_array(build->arena, int64_t, graph->dims.count + 1);
    for (uint32_t d = 0; d < graph->dims.count; d++) {
        extents[d] = extent_to_plan_for(build, graph->dims.at[d].name);
        if (!extents[d] && d == batch)
            extents[d] = SEQUENCES;
    }
    graph_plan_for(graph, extents);
}

Graph *graph_build(Session *session, const Program *program, const EntryOptions *options) {
    const Def *def = find_entry(session, program, options);
    if (!def)
        return NULL;
    Build build = {.session = session,
                   .arena = session->arena,
                   .program = program,
                   .graph = graph_new(session, def->name.name),
                   .inputs = map_new(session->arena),
                   .claimed = map_new(session->arena),
                   .said = map_new(session->arena),
                   .classes = map_new(session->arena),
                   .options = options,
                   .open_extents = options->open_extents};
    build.checkpointed = arena_array(session->arena, bool, options->checkpoints.count + 1);
    build.top = frame_new(&build, NULL, NULL);
    if (!build_entry(&build, def, options))
        return NULL;
    plan_for_given(&build);
    return build.graph;
}
