// SPDX-License-Identifier: Apache-2.0
// Functions that move positions: gather, scatter_add, one_hot, slice, concat, shift, swap, topk,
// sort, argsort.
#include <math.h>

#include "graph/build/build.h"

// The number of positions that an expression says, a formula where run time tells it. NULL after a
// diagnostic.
static const Formula *position_formula(Frame *frame, const Expr *expr) {
    Diags *diags = frame->build->session->diags;
    double number;
    if (!build_number(frame, expr, &number)) {
        const Formula *formula = build_formula(frame, expr);
        if (formula && build_formula_value(frame->build->graph, formula))
            return formula;
        if (frame->build->open_extents) {
            frame->build->stopped = true;
            return NULL;
        }
        Diag *diag = diag_error(diags, expr->span, "this number has to be known when compiling");
        diag_hint(diag, "give the dims in it an extent, with 'dim' or -D");
        frame_note_calls(frame, diag);
        return NULL;
    }
    if (number != trunc(number) || fabs(number) > 0x1p53) {
        Diag *diag =
            diag_error(diags, expr->span, "a position is a whole number, this is %g", number);
        frame_note_calls(frame, diag);
        return NULL;
    }
    return formula_number(frame->build->arena, (int64_t)number);
}

static bool is_number(const Formula *formula) {
    return formula->op == FORMULA_NUMBER;
}

// ---- slice -------------------------------------------------------------------------------------

// Is a number made of an extent that -D gives?
static bool is_of_given(const Frame *frame, const Expr *expr) {
    if (expr->kind == EXPR_NAME)
        return expr->name_kind == NAME_EXTENT && frame_extent_given(frame, expr->name.name);
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (is_of_given(frame, expr->args.at[i]))
            return true;
    return false;
}

// `, which has 5`: of a dim in a message.
static const char *extent_told(const Frame *frame, int64_t extent) {
    if (extent == EXTENT_DYNAMIC)
        return ", whose extent is not known here";
    return arena_printf(frame->build->arena, ", which has %lld", (long long)extent);
}

// What is known already of the positions from .. to of a dim.
static bool slice_fits(Frame *frame, const Expr *call, const Formula *from, const Formula *to,
                       const Formula *length) {
    Diags *diags = frame->build->session->diags;
    Name dim = call->reduced.at[0], made = call->reduced.at[1];
    int64_t whole = frame_extent(frame, dim), part = frame_extent(frame, made);
    Diag *diag = NULL;
    bool may_be_empty =
        is_of_given(frame, call->args.at[2]) || is_of_given(frame, call->args.at[3]);
    if ((is_number(from) && from->number < 0) ||
        (is_number(length) && length->number < (may_be_empty ? 0 : 1)) ||
        (is_number(to) && whole != EXTENT_DYNAMIC && to->number > whole))
        diag = diag_error(diags, call->span, "positions %s up to %s of '%s'%s",
                          formula_text(frame->build->graph, from, frame->build->arena),
                          formula_text(frame->build->graph, to, frame->build->arena), dim,
                          extent_told(frame, whole));
    else if (is_number(length) && part != EXTENT_DYNAMIC && part != length->number)
        diag = diag_error(diags, call->span, "the slice has %lld positions, '%s' has %lld",
                          (long long)length->number, made, (long long)part);
    if (diag)
        frame_note_calls(frame, diag);
    return !diag;
}

static Value *build_slice(Frame *frame, const Expr *call) {
    Build *build = frame->build;
    Value *x = build_expr_as(frame, call->args.at[0], call->elem);
    const Formula *from = position_formula(frame, call->args.at[2]);
    const Formula *to = from ? position_formula(frame, call->args.at[3]) : NULL;
    if (!to)
        return x;
    const Formula *length = formula_of(build->arena, FORMULA_SUB, to, from);
    if (!slice_fits(frame, call, from, to, length))
        return x;
    DimId dim = frame_dim(frame, call->reduced.at[0]);
    int64_t known = is_number(length) && length->number ? length->number : EXTENT_DYNAMIC;
    DimId made = frame_dim_sized(frame, call->reduced.at[1], known);
    build_claim(frame, RULE_IS, made, length, call->span);
    build_claim(frame, RULE_REACHES, dim, to, call->span);
    build_claim(frame, RULE_BEGINS, dim, from, call->span);
    if (is_number(from))
        return graph_slice(build->graph, x, dim, made, from->number);
    Value *begin = build_formula_value(build->graph, from);
    Value *position = graph_map2(build->graph, OP_ADD, graph_index(build->graph, made), begin);
    return graph_gather(build->graph, x, position, dim);
}

// ---- concat ------------------------------------------------------------------------------------

static const Formula *sum_of_parts(Frame *frame, const Expr *call) {
    Build *build = frame->build;
    const Formula *sum = formula_number(build->arena, 0);
    for (uint32_t i = 1; i < call->reduced.count; i++) {
        DimId part = frame_dim(frame, call->reduced.at[i]);
        sum = formula_of(build->arena, FORMULA_ADD, sum, formula_dim(build->graph, part));
    }
    return sum;
}

static Value *build_concat(Frame *frame, const Expr *call) {
    Build *build = frame->build;
    uint32_t n = call->args.count;
    Value **args = arena_array(build->arena, Value *, n);
    DimId *cats = arena_array(build->arena, DimId, n);
    for (uint32_t i = 0; i < n; i++) {
        args[i] = build_expr_as(frame, call->args.at[i], call->elem);
        cats[i] = frame_dim(frame, call->reduced.at[i + 1]);
    }
    Name whole = call->reduced.at[0];
    const Formula *sum = sum_of_parts(frame, call);
    int64_t known = is_number(sum) ? sum->number : EXTENT_DYNAMIC;
    int64_t extent = frame_extent(frame, whole);
    if (is_number(sum) && extent != EXTENT_DYNAMIC && known != extent) {
        Diag *diag = diag_error(build->session->diags, call->span,
                                "the parts have %lld positions, '%s' has %lld", (long long)known,
                                whole, (long long)extent);
        frame_note_calls(frame, diag);
        return args[0];
    }
    DimId made = frame_dim_sized(frame, whole, known);
    build_claim(frame, RULE_IS, made, sum, call->span);
    return graph_concat(build->graph, args, cats, n, made);
}

// ---- one position ------------------------------------------------------------------------------

static bool position_fits(Frame *frame, const Expr *expr, Name dim, double number) {
    int64_t extent = frame_extent(frame, dim);
    Diags *diags = frame->build->session->diags;
    Diag *diag;
    if (number != trunc(number))
        diag = diag_error(diags, expr->span, "a position is a whole number, this is %g", number);
    else if (number < 0)
        diag = diag_error(diags, expr->span, "positions count from 0, this is %g", number);
    else if (number > 0x1p53 || (extent != EXTENT_DYNAMIC && number >= (double)extent))
        diag = diag_error(diags, expr->span, "position %g of '%s'%s", number, dim,
                          extent_told(frame, extent));
    else
        return true;
    frame_note_calls(frame, diag);
    return false;
}

// A position that only run time tells is looked up as gather does it.
static Value *take_position(Frame *frame, Value *tensor, Name dim, const Expr *expr) {
    Graph *graph = frame->build->graph;
    DimId id = frame_dim(frame, dim);
    double number;
    if (!build_number(frame, expr, &number)) {
        if (!elem_is_int(expr->elem)) {
            Diag *diag =
                diag_error(frame->build->session->diags, expr->span,
                           "a position is a whole number, this is %s", elem_name(expr->elem));
            diag_hint(diag, "'//' divides and rounds down");
            frame_note_calls(frame, diag);
            return tensor;
        }
        return graph_gather(graph, tensor, build_expr_as(frame, expr, ELEM_I64), id);
    }
    if (!position_fits(frame, expr, dim, number))
        return tensor;
    return graph_take(graph, tensor, id, (int64_t)number);
}

Value *build_positions(Frame *frame, const Expr *ref, Value *tensor) {
    for (uint32_t i = 0; i < ref->args.count; i++)
        tensor = take_position(frame, tensor, ref->reduced.at[i], ref->args.at[i]);
    return tensor;
}

// ---- the others --------------------------------------------------------------------------------

static Value *build_gather(Frame *frame, const Expr *call) {
    Value *table = build_expr_as(frame, call->args.at[0], call->elem);
    Value *ids = build_expr(frame, call->args.at[1]);
    return graph_gather(frame->build->graph, table, ids, frame_dim(frame, call->reduced.at[0]));
}

static Value *build_scatter(Frame *frame, const Expr *call) {
    Value *x = build_expr_as(frame, call->args.at[0], call->elem);
    Value *ids = build_expr(frame, call->args.at[1]);
    DimList kept = dims_union(&ids->dims, &x->dims), summed = {0};
    uint32_t n_summed = call->reduced.count - 1;
    for (uint32_t i = 0; i < n_summed; i++)
        dims_add(&summed, frame_dim(frame, call->reduced.at[i]));
    kept = dims_minus(&kept, &summed);
    DimId dim = frame_dim(frame, call->reduced.at[n_summed]);
    return graph_scatter_add(frame->build->graph, x, ids, dim, kept);
}

static Value *build_one_hot(Frame *frame, const Expr *call) {
    Graph *graph = frame->build->graph;
    Value *ids = build_expr(frame, call->args.at[0]);
    Value *position = graph_index(graph, frame_dim(frame, call->reduced.at[0]));
    Value *hit = graph_map2(graph, OP_EQ, graph_cast(graph, ids, ELEM_I64), position);
    return graph_cast(graph, hit, call->elem);
}

// Of a distance that run time tells: where(0 <= d - by and d - by < extent, x[d - by], 0).
static Value *shift_by(Graph *graph, Value *x, DimId dim, const Formula *by) {
    Value *distance = build_formula_value(graph, by);
    Value *from = graph_map2(graph, OP_SUB, graph_index(graph, dim), distance);
    Value *begun = graph_map2(graph, OP_LE, graph_const(graph, 0, ELEM_I64), from);
    Value *inside =
        graph_map2(graph, OP_AND, begun, graph_map2(graph, OP_LT, from, graph_extent(graph, dim)));
    return graph_or_zero(graph, inside, graph_gather(graph, x, from, dim));
}

static Value *build_shift(Frame *frame, const Expr *call) {
    Value *x = build_expr_as(frame, call->args.at[0], call->elem);
    const Formula *by = position_formula(frame, call->args.at[2]);
    DimId dim = frame_dim(frame, call->reduced.at[0]);
    if (!by)
        return x;
    if (is_number(by))
        return graph_shift(frame->build->graph, x, dim, by->number);
    build_claim(frame, RULE_EVALUATES, dim, by, call->span);
    return shift_by(frame->build->graph, x, dim, by);
}

static Value *build_swap(Frame *frame, const Expr *call) {
    Value *x = build_expr_as(frame, call->args.at[0], call->elem);
    DimId a = frame_dim(frame, call->reduced.at[0]), b = frame_dim(frame, call->reduced.at[1]);
    return graph_rename_all(frame->build->graph, x, &(DimMap){2, {a, b}, {b, a}});
}

// ---- order -------------------------------------------------------------------------------------

static bool kept_fits(Frame *frame, const Expr *call) {
    Name dim = call->reduced.at[0], kept = call->reduced.at[1];
    int64_t all = frame_extent(frame, dim), part = frame_extent(frame, kept);
    if (all == EXTENT_DYNAMIC || part <= all)
        return true;
    Diag *diag = diag_error(frame->build->session->diags, call->span,
                            "the first %lld (of '%s') of '%s', which has %lld", (long long)part,
                            kept, dim, (long long)all);
    frame_note_calls(frame, diag);
    return false;
}

// Also of a dim whose extent is known: messages name it.
static const Formula *extent_by_name(const Graph *graph, DimId dim) {
    Formula *extent = arena_new_of(graph->arena, Formula);
    *extent = (Formula){.op = FORMULA_DIM, .dim = graph->dims.at[dim].like};
    return extent;
}

// Values are looked up at their positions.
static ValueList order_results(Frame *frame, const Expr *call) {
    Graph *graph = frame->build->graph;
    ValueList results = {0};
    Value *x = build_expr_as(frame, call->args.at[0], call->args.at[0]->elem);
    if (!kept_fits(frame, call))
        return results;
    DimId dim = frame_dim(frame, call->reduced.at[0]), kept = frame_dim(frame, call->reduced.at[1]);
    if (dim != kept && graph->dims.at[dim].extent == EXTENT_DYNAMIC)
        build_claim(frame, RULE_HOLDS, dim, extent_by_name(graph, kept), call->span);
    Value *positions = graph_order(graph, x, dim, kept, call->descending);
    if (call->builtin != BUILTIN_ARGSORT)
        vec_push(frame->build->arena, &results, graph_gather(graph, x, positions, dim));
    if (call->builtin != BUILTIN_SORT)
        vec_push(frame->build->arena, &results, positions);
    return results;
}

static Value *build_order(Frame *frame, const Expr *call) {
    ValueList results = order_results(frame, call);
    return results.count ? results.at[0] : graph_const(frame->build->graph, 0, call->elem);
}

ValueList build_results(Frame *frame, const Expr *call) {
    return order_results(frame, call);
}

Value *build_move(Frame *frame, const Expr *call) {
    switch (call->builtin) {
    case BUILTIN_GATHER:
        return build_gather(frame, call);
    case BUILTIN_SCATTER_ADD:
        return build_scatter(frame, call);
    case BUILTIN_ONE_HOT:
        return build_one_hot(frame, call);
    case BUILTIN_SLICE:
        return build_slice(frame, call);
    case BUILTIN_CONCAT:
        return build_concat(frame, call);
    case BUILTIN_SWAP:
        return build_swap(frame, call);
    case BUILTIN_SORT:
    case BUILTIN_ARGSORT:
        return build_order(frame, call);
    default:
        return build_shift(frame, call);
    }
}
