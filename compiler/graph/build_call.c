// SPDX-License-Identifier: Apache-2.0
// Inlining of a call.
//
//     def Attend(X[n, d], M[m, d])        Attend(A[b, t, e], B[b, s, e]):  n = t, m = s, d = e, and
//     all
//                                         of it runs for each b, which the def never hears of
#include "graph/build.h"

// What a dim of the callee is called at the call.
static Name name_at_call(const Expr *call, Name formal) {
    for (uint32_t i = 0; i < call->binding.count; i++)
        if (call->binding.at[i].formal == formal)
            return call->binding.at[i].actual;
    return formal;
}

// Dims of the callee's frame: mapped ones first, since bound ones must keep clear of them.
static void bind_dims(Frame *caller, Frame *callee, const Expr *call) {
    callee->hidden = caller->hidden;
    DimList mapped = frame_dims(caller, &call->mapped, call->span);
    callee->hidden = dims_union(&callee->hidden, &mapped);
    for (uint32_t i = 0; i < callee->def->params.count; i++) {
        const NameList *formals = &callee->def->params.at[i].result;
        for (uint32_t k = 0; k < formals->count; k++)
            frame_bind(callee, formals->at[k],
                       frame_dim(caller, name_at_call(call, formals->at[k])));
    }
    for (uint32_t i = 0; i < call->binding.count; i++)
        frame_bind(callee, call->binding.at[i].formal,
                   frame_dim(caller, call->binding.at[i].actual));
}

// The value with the dims named in `formals` passing from one frame's ids to the other's.
static Value *carry_over(Frame *caller, Frame *callee, const Expr *call, const NameList *formals,
                         Value *value, bool inwards) {
    for (uint32_t i = 0; i < formals->count; i++) {
        DimId inside = frame_dim(callee, formals->at[i]);
        DimId outside = frame_dim(caller, name_at_call(call, formals->at[i]));
        value = inwards ? frame_rename(caller, value, outside, inside, call->span)
                        : frame_rename(caller, value, inside, outside, call->span);
    }
    return value;
}

static void bind_arguments(Frame *caller, Frame *callee, const Expr *call) {
    for (uint32_t i = 0; i < callee->def->params.count && i < call->args.count; i++) {
        const Tensor *param = &callee->def->params.at[i];
        Value *value = build_expr_as(caller, call->args.at[i], param->elem);
        value = carry_over(caller, callee, call, &param->result, value, true);
        frame_assign(callee, param->name.name, value);
    }
}

Value *build_call(Frame *frame, const Expr *call) {
    Build *build = frame->build;
    const Def *def = call->callee;
    Frame *callee = frame_new(build, def);
    Value *nothing = graph_const(build->graph, 0, call->elem); // after a diagnostic
    if (!build_step(build, call->span))
        return nothing;
    bind_dims(frame, callee, call);
    bind_arguments(frame, callee, call);
    Name label = call->label.name ? call->label.name : def->name.name;
    callee->names = names_scope(build, names_call_path(build, frame->names, label));
    build_body(callee, &def->body);
    if (!callee->results.count || build->stopped)
        return nothing;
    return carry_over(frame, callee, call, &def->result_dims.at[0], callee->results.at[0], false);
}
