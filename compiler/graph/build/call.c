// SPDX-License-Identifier: Apache-2.0
// Inlining of a call.
//
//     def Attend(X[n, d], M[m, d])
//     Attend(A[b, t, e], B[b, s, e])      n = t, m = s, d = e, and all of it runs for each b, which
//                                         the def never hears of
#include "graph/build/build.h"

static void bind_dims(Frame *callee, const Expr *call) {
    Frame *caller = callee->caller;
    for (uint32_t i = 0; i < call->binding.count; i++)
        frame_bind(callee, call->binding.at[i].formal,
                   frame_dim(caller, call->binding.at[i].actual));
    DimList mapped = frame_dims(caller, &call->mapped, call->span);
    callee->hidden = dims_union(&caller->hidden, &mapped);
}

static void bind_arguments(Frame *callee, const Expr *call) {
    for (uint32_t i = 0; i < callee->def->params.count; i++) {
        const Tensor *param = &callee->def->params.at[i];
        Value *value = build_expr_as(callee->caller, call->args.at[i], param->elem);
        frame_assign(callee, param->name.name, value);
    }
}

// All that the callee returns; nothing when something was reported below.
static ValueList call_results(Frame *frame, const Expr *call) {
    Build *build = frame->build;
    const Def *def = call->callee;
    Frame *callee = frame_new(build, def, frame);
    callee->call = call;
    if (build_step(build, call->span)) {
        bind_dims(callee, call);
        bind_arguments(callee, call);
        if (call->path)
            callee->path = arena_printf(build->arena, "%s%s.", frame->path, call->path);
        Name label = call->path ? call->path : call->label.name ? call->label.name : def->name.name;
        callee->place = arena_printf(build->arena, "%s%s.", frame->place, label);
        build_body(callee, &def->body);
    }
    DimList mapped = frame_dims(frame, &call->mapped, call->span);
    for (uint32_t i = 0; i < callee->results.count; i++)
        callee->results.at[i] = graph_over(build->graph, callee->results.at[i], &mapped);
    return callee->results;
}

Value *build_call(Frame *frame, const Expr *call) {
    ValueList results = call_results(frame, call);
    return results.count ? results.at[0] : graph_const(frame->build->graph, 0, call->elem);
}

Value *build_result(Frame *frame, const Expr *result) {
    if (result->which == 0)
        frame->called = result->call->callee ? call_results(frame, result->call)
                                             : build_results(frame, result->call);
    if (result->which < frame->called.count)
        return frame->called.at[result->which];
    return graph_const(frame->build->graph, 0, result->elem);
}
