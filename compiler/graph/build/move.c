// SPDX-License-Identifier: Apache-2.0
// Functions that move positions: gather, one_hot, slice, concat, shift, swap.
#include <math.h>

#include "graph/build/build.h"

// A whole number that has to be known when compiling; a diagnostic otherwise.
static bool known_count(Frame *frame, const Expr *expr, int64_t *count) {
    Diags *diags = frame->build->session->diags;
    double number;
    if (!build_number(frame, expr, &number)) {
        if (frame->build->open_extents) {
            frame->build->stopped = true;
            return false;
        }
        Diag *diag = diag_error(diags, expr->span, "this number has to be known when compiling");
        diag_hint(diag, "give the dims in it an extent, with 'dim' or -D");
        frame_note_calls(frame, diag);
        return false;
    }
    if (number != trunc(number) || fabs(number) > 0x1p53) {
        Diag *diag =
            diag_error(diags, expr->span, "a position is a whole number, this is %g", number);
        frame_note_calls(frame, diag);
        return false;
    }
    *count = (int64_t)number;
    return true;
}

// ---- slice -------------------------------------------------------------------------------------

static bool slice_fits(Frame *frame, const Expr *call, int64_t from, int64_t length) {
    Diags *diags = frame->build->session->diags;
    Name dim = call->reduced.at[0], made = call->reduced.at[1];
    int64_t whole = frame_extent(frame, dim), part = frame_extent(frame, made);
    if (from < 0 || length < 1 || (whole != EXTENT_DYNAMIC && from + length > whole)) {
        Diag *diag =
            diag_error(diags, call->span, "positions %lld up to %lld of '%s', which has %lld",
                       (long long)from, (long long)(from + length), dim, (long long)whole);
        frame_note_calls(frame, diag);
        return false;
    }
    if (part == length || part == EXTENT_DYNAMIC)
        return true;
    Diag *diag = diag_error(diags, call->span, "the slice has %lld positions, '%s' has %lld",
                            (long long)length, made, (long long)part);
    frame_note_calls(frame, diag);
    return false;
}

// An end like `1 + m` where the new dim m has no known extent: gives the 1.
static bool end_beyond_extent(Frame *frame, const Expr *end, Name made, int64_t *beyond) {
    double number;
    *beyond = 0;
    if (end->kind == EXPR_NAME)
        return end->name.name == made;
    if (end->kind != EXPR_BINARY || end->oper != OPER_ADD)
        return false;
    const Expr *a = end->args.at[0], *b = end->args.at[1];
    const Expr *rest = a->kind == EXPR_NAME && a->name.name == made ? b : a;
    const Expr *name = rest == a ? b : a;
    if (name->kind != EXPR_NAME || name->name.name != made || !build_number(frame, rest, &number))
        return false;
    *beyond = (int64_t)number;
    return true;
}

static Value *build_slice(Frame *frame, const Expr *call) {
    Value *x = build_expr_as(frame, call->args.at[0], call->elem);
    const Expr *first = call->args.at[2], *end = call->args.at[3];
    Name dim = call->reduced.at[0], made = call->reduced.at[1];
    int64_t from, to, beyond, length = EXTENT_DYNAMIC;
    if (!known_count(frame, first, &from))
        return x;
    bool as_long_as_made = from >= 0 && frame_extent(frame, made) == EXTENT_DYNAMIC &&
                           end_beyond_extent(frame, end, made, &beyond) && beyond == from;
    if (!as_long_as_made) {
        if (!known_count(frame, end, &to) || !slice_fits(frame, call, from, to - from))
            return x;
        length = to - from;
    }
    DimId to_dim = frame_dim_sized(frame, made, length);
    return graph_slice(frame->build->graph, x, frame_dim(frame, dim), to_dim, from);
}

// ---- concat ------------------------------------------------------------------------------------

// The positions of all parts together, EXTENT_DYNAMIC when one is not known.
static int64_t concat_extent(const Frame *frame, const Expr *call) {
    int64_t sum = 0;
    for (uint32_t i = 1; i < call->reduced.count; i++) {
        int64_t part = frame_extent(frame, call->reduced.at[i]);
        if (part == EXTENT_DYNAMIC || !add_i64(sum, part, &sum))
            return EXTENT_DYNAMIC;
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
    int64_t sum = concat_extent(frame, call), extent = frame_extent(frame, whole);
    if (sum != EXTENT_DYNAMIC && extent != EXTENT_DYNAMIC && sum != extent) {
        Diag *diag = diag_error(build->session->diags, call->span,
                                "the parts have %lld positions, '%s' has %lld", (long long)sum,
                                whole, (long long)extent);
        frame_note_calls(frame, diag);
        return args[0];
    }
    return graph_concat(build->graph, args, cats, n, frame_dim_sized(frame, whole, sum));
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
        diag = diag_error(diags, expr->span, "position %g of '%s', which has %lld", number, dim,
                          (long long)extent);
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

static Value *build_one_hot(Frame *frame, const Expr *call) {
    Graph *graph = frame->build->graph;
    Value *ids = build_expr(frame, call->args.at[0]);
    Value *position = graph_index(graph, frame_dim(frame, call->reduced.at[0]));
    Value *hit = graph_map2(graph, OP_EQ, graph_cast(graph, ids, ELEM_I64), position);
    return graph_cast(graph, hit, call->elem);
}

static Value *build_shift(Frame *frame, const Expr *call) {
    Value *x = build_expr_as(frame, call->args.at[0], call->elem);
    int64_t by;
    if (!known_count(frame, call->args.at[2], &by))
        return x;
    return graph_shift(frame->build->graph, x, frame_dim(frame, call->reduced.at[0]), by);
}

static Value *build_swap(Frame *frame, const Expr *call) {
    Value *x = build_expr_as(frame, call->args.at[0], call->elem);
    DimId a = frame_dim(frame, call->reduced.at[0]), b = frame_dim(frame, call->reduced.at[1]);
    return graph_rename_all(frame->build->graph, x, &(DimMap){2, {a, b}, {b, a}});
}

Value *build_move(Frame *frame, const Expr *call) {
    switch (call->builtin) {
    case BUILTIN_GATHER:
        return build_gather(frame, call);
    case BUILTIN_ONE_HOT:
        return build_one_hot(frame, call);
    case BUILTIN_SLICE:
        return build_slice(frame, call);
    case BUILTIN_CONCAT:
        return build_concat(frame, call);
    case BUILTIN_SWAP:
        return build_swap(frame, call);
    default:
        return build_shift(frame, call);
    }
}
