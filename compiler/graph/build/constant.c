// SPDX-License-Identifier: Apache-2.0
// Constants over dims. None of them is a tensor in memory.
//
//     zeros[n, h]            0, repeated over n and h: graph_simplify drops the repeats where
//                            what it meets has the dims, and counts them in sums
//     [1, 4, 4, 2] -> [t]    where(index(t) < 1, 1, where(index(t) < 3, 4, 2))
//
// A choice among k numbers takes log2 k steps, and none where the position is known: w[i] of a
// loop's number i is that number.
#include "graph/build/build.h"

// ---- arrays ------------------------------------------------------------------------------------

typedef struct {
    Value *value;
    uint32_t begin; // its first position; it goes on to the next run
} Run;

typedef struct {
    Graph *graph;
    Value *index;
    VEC(Run) runs;
} Choice;

// The runs from first up to, not including, end.
static Value *choose(const Choice *choice, uint32_t first, uint32_t end) {
    if (end - first == 1)
        return choice->runs.at[first].value;
    uint32_t middle = first + (end - first) / 2;
    Value *below = choose(choice, first, middle), *above = choose(choice, middle, end);
    Value *begin = graph_const(choice->graph, choice->runs.at[middle].begin, ELEM_I64);
    Value *is_below = graph_map2(choice->graph, OP_LT, choice->index, begin);
    return graph_select(choice->graph, is_below, below, above);
}

// What stands at dims->at[level] of an array; equal rows that follow each other are one.
static Value *array_value(Frame *frame, const Expr *item, const DimList *dims, uint32_t level,
                          Elem elem) {
    if (item->kind != EXPR_ARRAY)
        return build_expr_as(frame, item, elem);
    Graph *graph = frame->build->graph;
    Choice choice = {.graph = graph, .index = graph_index(graph, dims->at[level])};
    for (uint32_t i = 0; i < item->args.count; i++) {
        Value *value = array_value(frame, item->args.at[i], dims, level + 1, elem);
        if (!i || choice.runs.at[choice.runs.count - 1].value != value)
            vec_push(frame->build->arena, &choice.runs, (Run){value, i});
    }
    return choose(&choice, 0, choice.runs.count);
}

static void report_extent(Frame *frame, const Expr *row, Name dim, int64_t extent) {
    Diags *diags = frame->build->session->diags;
    uint32_t n = row->args.count;
    const char *s = n == 1 ? "" : "s";
    Diag *diag;
    if (extent == EXTENT_DYNAMIC) {
        diag = diag_error(diags, row->span, "this array has %u position%s, '%s' no known extent", n,
                          s, dim);
        diag_hint(diag, "give what it is here an extent, with 'dim' or -D");
    } else {
        diag = diag_error(diags, row->span, "this array has %u position%s, '%s' has %lld", n, s,
                          dim, (long long)extent);
    }
    frame_note_calls(frame, diag);
}

// A call may bind a dim of the array to one of another extent.
static bool extents_fit(Frame *frame, const Expr *array) {
    const Expr *row = array;
    for (uint32_t i = 0; i < array->result.count; i++, row = row->args.at[0]) {
        int64_t extent = frame_extent(frame, array->result.at[i]);
        if (extent == row->args.count)
            continue;
        frame->build->stopped = extent == EXTENT_DYNAMIC && frame->build->open_extents;
        if (!frame->build->stopped)
            report_extent(frame, row, array->result.at[i], extent);
        return false;
    }
    return true;
}

// ---- all of them -------------------------------------------------------------------------------

bool expr_is_constant(const Expr *expr) {
    return expr->kind == EXPR_ARRAY || (expr->kind == EXPR_REF && expr->name_kind == NAME_SAME) ||
           (expr->kind == EXPR_CALL && !expr->callee && expr->builtin == BUILTIN_FULL);
}

Value *build_constant(Frame *frame, const Expr *expr, Elem elem) {
    Graph *graph = frame->build->graph;
    DimList dims = frame_dims(frame, &expr->result, expr->span);
    if (expr->kind == EXPR_REF)
        return graph_over(graph, graph_const(graph, expr->number, elem), &dims);
    if (expr->kind == EXPR_CALL)
        return graph_over(graph, build_expr_as(frame, expr->args.at[0], elem), &dims);
    Value *value = extents_fit(frame, expr) ? array_value(frame, expr, &dims, 0, elem)
                                            : graph_const(graph, 0, elem);
    return graph_over(graph, value, &dims);
}
