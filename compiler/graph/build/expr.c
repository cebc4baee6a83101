// SPDX-License-Identifier: Apache-2.0
// Expressions of an inlined def: names, numbers, operators, einsum.
//
// Numbers made of literals, extents and loop variables are folded here when all extents are known:
// `/ sqrt(d_k)` is a division by a constant. `number * einsum(...)` is one contraction with a
// factor.
#include <math.h>

#include "graph/build/build.h"

// ---- numbers -----------------------------------------------------------------------------------

typedef VEC(LoopValue) LoopValues;

// Collects what the names in a literal stand for in this frame; false when an extent is not known.
static bool collect_names(Frame *frame, const Expr *expr, LoopValues *known) {
    if (expr->kind == EXPR_NAME && expr->name_kind == NAME_EXTENT) {
        LoopValue extent = {expr->name.name, frame_extent(frame, expr->name.name)};
        if (extent.value == EXTENT_DYNAMIC)
            return false;
        vec_push(frame->build->arena, known, extent);
    }
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (!collect_names(frame, expr->args.at[i], known))
            return false;
    return true;
}

// extents: those that it was computed from.
static bool evaluate(Frame *frame, const Expr *expr, LoopValues *extents, double *number) {
    if (!expr->is_literal || !collect_names(frame, expr, extents))
        return false;
    LoopValues known = {0};
    for (uint32_t i = 0; i < extents->count; i++)
        vec_push(frame->build->arena, &known, extents->at[i]);
    for (uint32_t i = frame->loops.count; i-- > 0;) // inner loops first
        vec_push(frame->build->arena, &known, frame->loops.at[i]);
    return expr_evaluate(frame->build->session, frame->build->program, expr, known.at, known.count,
                         number);
}

bool build_number(Frame *frame, const Expr *expr, double *number) {
    LoopValues extents = {0};
    if (!evaluate(frame, expr, &extents, number))
        return false;
    for (uint32_t i = 0; i < extents.count; i++)
        frame_note_counted(frame, extents.at[i].name);
    return true;
}

bool build_first_value(Frame *frame, const Expr *expr, double *number) {
    return evaluate(frame, expr, &(LoopValues){0}, number);
}

// ---- names -------------------------------------------------------------------------------------

// A tensor at the positions of scans around. One that depends on the position itself, or is read at
// it twice, is gathered from.
static Value *build_steps(Frame *frame, const Expr *ref, Value *value) {
    Graph *graph = frame->build->graph;
    for (uint32_t i = 0; i < ref->steps.count; i++) {
        const Step *step = &ref->steps.at[i];
        if (step->now)
            continue;
        DimId dim = frame_step(frame, step->variable), from = frame_dim(frame, step->own);
        DimMap names = {0};
        dimmap_add(&names, from, dim);
        value = dims_has(&value->dims, dim)
                    ? graph_gather(graph, value, graph_index(graph, dim), from)
                    : frame_rename(frame, value, &names, ref->span);
    }
    return value;
}

static Value *build_name(Frame *frame, const Expr *expr) {
    if (expr->name_kind == NAME_EXTENT) {
        frame_note_counted(frame, expr->name.name);
        return graph_extent(frame->build->graph, frame_dim(frame, expr->name.name));
    }
    if (expr->name_kind == NAME_STEP)
        return graph_index(frame->build->graph, frame_step(frame, expr->name.name));
    Value *value = frame_find(frame, expr->name);
    if (expr->kind == EXPR_REF)
        value = build_positions(frame, expr, value);
    value = build_steps(frame, expr, value);
    DimMap names = {0};
    for (uint32_t i = 0; i < expr->binding.count; i++)
        dimmap_add(&names, frame_dim(frame, expr->binding.at[i].formal),
                   frame_dim(frame, expr->binding.at[i].actual));
    return frame_rename(frame, value, &names, expr->span);
}

// ---- operators ---------------------------------------------------------------------------------

typedef struct {
    Op op;
    bool swapped; // a > b is b < a
} OperOp;

static const OperOp binary_ops[N_OPER] = {
    [OPER_ADD] = {OP_ADD, false},
    [OPER_SUB] = {OP_SUB, false},
    [OPER_MUL] = {OP_MUL, false},
    [OPER_DIV] = {OP_DIV, false},
    [OPER_FLOORDIV] = {OP_FLOORDIV, false},
    [OPER_MOD] = {OP_MOD, false},
    [OPER_POW] = {OP_POW, false},
    [OPER_EQ] = {OP_EQ, false},
    [OPER_NE] = {OP_NE, false},
    [OPER_LT] = {OP_LT, false},
    [OPER_LE] = {OP_LE, false},
    [OPER_GT] = {OP_LT, true},
    [OPER_GE] = {OP_LE, true},
    [OPER_AND] = {OP_AND, false},
    [OPER_OR] = {OP_OR, false},
};

static bool is_einsum(const Expr *expr) {
    return expr->kind == EXPR_CALL && expr->builtin == BUILTIN_EINSUM && !expr->callee;
}

// number * einsum(...), either way round.
static Value *build_scaled_einsum(Frame *frame, const Expr *expr) {
    const Expr *a = expr->args.at[0], *b = expr->args.at[1];
    const Expr *number = a->is_literal ? a : b, *einsum = a->is_literal ? b : a;
    double factor;
    if (expr->oper != OPER_MUL || !is_einsum(einsum) || einsum->elem != expr->elem ||
        !build_number(frame, number, &factor))
        return NULL;
    return build_einsum(frame, einsum, factor);
}

static Value *build_binary(Frame *frame, const Expr *expr) {
    const Expr *a = expr->args.at[0], *b = expr->args.at[1];
    Value *scaled = build_scaled_einsum(frame, expr);
    if (scaled)
        return scaled;
    bool compares = expr->oper >= OPER_EQ && expr->oper <= OPER_GE;
    Elem elem = compares ? expr_common_elem(a, b) : expr->elem;
    Value *left = build_expr_as(frame, a, elem), *right = build_expr_as(frame, b, elem);
    OperOp op = binary_ops[expr->oper];
    if (op.swapped)
        return graph_map2(frame->build->graph, op.op, right, left);
    return graph_map2(frame->build->graph, op.op, left, right);
}

static Value *build_unary(Frame *frame, const Expr *expr) {
    Value *a = build_expr_as(frame, expr->args.at[0], expr->elem);
    return graph_map1(frame->build->graph, expr->oper == OPER_NOT ? OP_NOT : OP_NEG, a);
}

// ---- dispatch ----------------------------------------------------------------------------------

// Floats that are too large are infinite, as numbers of the source are; whole numbers wrap nowhere.
static Value *number_as(Frame *frame, const Expr *expr, double number, Elem elem) {
    // The largest i64 is no double: as one it is the number behind it, which does not fit.
    bool fits = !elem_is_int(elem) || !isfinite(number) ||
                (fabs(number) <= fabs((double)elem_whole(elem, number)) && number < 0x1p63);
    if (!fits) {
        const char *text = arena_printf(frame->build->arena, "%.17g", number);
        Diag *diag = diag_error(frame->build->session->diags, expr->span, "%s does not fit in %s",
                                text, elem_name(elem));
        if (elem == ELEM_I32)
            diag_hint(diag, "write 'i64(...)' around what it meets");
        frame_note_calls(frame, diag);
    }
    return graph_const(frame->build->graph, fits ? number : 0, elem);
}

static Value *build_callee(Frame *frame, const Expr *call) {
    if (call->callee)
        return build_call(frame, call);
    if (call->builtin == BUILTIN_EINSUM)
        return build_einsum(frame, call, 1);
    return build_builtin(frame, call);
}

static Value *build_node(Frame *frame, const Expr *expr) {
    double number;
    if (build_number(frame, expr, &number))
        return number_as(frame, expr, number, expr->elem);
    switch (expr->kind) {
    case EXPR_NAME:
    case EXPR_REF:
        return build_name(frame, expr);
    case EXPR_UNARY:
        return build_unary(frame, expr);
    case EXPR_BINARY:
        return build_binary(frame, expr);
    case EXPR_CALL:
        return build_callee(frame, expr);
    case EXPR_RESULT:
        return build_result(frame, expr);
    default:
        ice("build: an expression of kind %d stands for no value", expr->kind);
    }
}

static bool too_deep(Build *build, const Expr *expr) {
    if (build->depth < BUILD_DEPTH)
        return false;
    if (!build->stopped)
        diag_error(build->session->diags, expr->span,
                   "expressions and calls nest deeper than %d levels", BUILD_DEPTH);
    build->stopped = true;
    return true;
}

// elem: that of the expression, or for constants any that they go into.
static Value *build_typed(Frame *frame, const Expr *expr, Elem elem) {
    Build *build = frame->build;
    if (build->stopped || too_deep(build, expr) ||
        !frame_has_room(frame, expr->result.count, expr->span))
        return graph_const(build->graph, 0, elem);
    uint32_t first_new = build->graph->values.count;
    build->depth++;
    Value *value = expr_is_constant(expr) ? build_constant(frame, expr, elem)
                                          : graph_cast(build->graph, build_node(frame, expr), elem);
    build->depth--;
    for (uint32_t v = first_new; v < build->graph->values.count; v++)
        if (!build->graph->values.at[v]->origin.file)
            build->graph->values.at[v]->origin = expr->span;
    return value;
}

Value *build_expr(Frame *frame, const Expr *expr) {
    return build_typed(frame, expr, expr->elem);
}

Value *build_expr_as(Frame *frame, const Expr *expr, Elem elem) {
    double number;
    if (build_number(frame, expr, &number))
        return number_as(frame, expr, number, elem);
    if (expr_is_constant(expr) && expr->is_literal)
        return build_typed(frame, expr, elem);
    return graph_cast(frame->build->graph, build_expr(frame, expr), elem);
}
