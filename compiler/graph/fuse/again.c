// SPDX-License-Identifier: Apache-2.0
// graph_again: what the backward pass needs and fuse_keep does not keep is computed once more, when
// it is needed.
//
//     before  H = gelu(A), A = einsum(X, W);  Y = einsum(H, V)
//             dV = einsum(H, dY);  dA = einsum(V, dY) * gelu'(A)               returned: Y, dV, dA
//     after   the same, with H' = gelu(A) for dV in turn 1: H lives until Y is there, A is kept
//
// The backward pass is built value by value in the order of the gradient's sweep, from the last
// block to the first. Where one of its values reads something that is not there, a new turn begins
// with the copies that this takes. A value's turn is part of what it is, so that no pass makes the
// copy and the original one value again, and groups run turn by turn (order.c): what the earlier
// blocks have to compute again waits until the later ones are done with theirs.
//
// Values over pairs of positions and what is cheaper than a load are no copies of their own: they
// are what their arguments make of them.
//
// Sums that are computed again may be other ones in their last bits, where blocks are others. What
// is compared with its own extremum needs that of the same bits, or nothing equals it:
//
//     before  top = max(L, m);  at = min of (L == top ? m : last)    top is kept, L computed again
//     after   top' = max(L', m);  at = min of (L' == top' ? m : last)
//
// Requires: graph_expand. Ensures: the same values.
#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

#include <stdlib.h>

typedef struct {
    const Kept *kept;
    Graph *to;
    Value **now; // by id in the old graph: as the backward pass reads it, NULL: not there
    const bool *light;
    const bool *other; // by id: computed again of sums, which may be other ones in their last bits
    uint32_t *met;     // by id: the last search that met it, from 1
    uint32_t searches, turn;
    Arena *arena;
} Again;

Value *fuse_copy_value(Graph *to, const Value *value, Value *const *now, MadeFor made_for,
                       Arena *arena) {
    Value **args = arena_array(arena, Value *, value->n_args + 1);
    for (uint32_t k = 0; k < value->n_args; k++)
        args[k] = now[value->args[k]->id];
    to->made_for = made_for;
    Value *copy = graph_rebuild(to, value, args);
    to->made_for = (MadeFor){0};
    if (!copy->hint && value->hint) {
        copy->hint = value->hint;
        copy->path = value->path;
    }
    if (!copy->origin.file)
        copy->origin = value->origin;
    return copy;
}

MadeFor fuse_made_forward(const Kept *kept, const Value *value) {
    MadeFor made_for = value->made_for;
    made_for.twice = kept->needed[value->id] && !kept->kept[value->id];
    return made_for;
}

static bool has_own_turn(const Again *a, const Value *value) {
    return !a->kept->again[value->id] && !a->light[value->id] && !op_is_reading(value->op);
}

static int compare_ids(const void *a, const void *b) {
    uint32_t x = (*(Value *const *)a)->id, y = (*(Value *const *)b)->id;
    return (x > y) - (x < y);
}

void fuse_sort_values(ValueList *values) {
    if (values->count)
        qsort(values->at, values->count, sizeof *values->at, compare_ids);
}

static void add_if_missing(Again *a, Value *value, ValueList *missing) {
    if (a->now[value->id] || a->met[value->id] == a->searches)
        return;
    a->met[value->id] = a->searches;
    vec_push(a->arena, missing, value);
}

// Adds what is not there of the forward pass, down to what is.
static void find_missing(Again *a, Value *value, ValueList *missing) {
    uint32_t first = missing->count;
    add_if_missing(a, value, missing);
    for (uint32_t i = first; i < missing->count; i++)
        for (uint32_t k = 0; k < missing->at[i]->n_args; k++)
            add_if_missing(a, missing->at[i]->args[k], missing);
}

// ---- what is compared with its own extremum ----------------------------------------------------

static const bool *find_other(const Kept *kept, Arena *arena) {
    bool *other = arena_array(arena, bool, kept->graph->values.count + 1);
    for (uint32_t i = 0; i < kept->graph->values.count; i++) {
        const Value *value = kept->graph->values.at[i];
        bool again = !kept->kept[i] && !kept->after[i];
        other[i] = again && value_is_reduction(value);
        for (uint32_t k = 0; again && k < value->n_args; k++)
            other[i] = other[i] || other[value->args[k]->id];
    }
    return other;
}

static bool is_extremum_of(const Value *value, const Value *x) {
    bool extremum =
        value->op == OP_REDUCE_MAX || value->op == OP_REDUCE_MIN || value->op == OP_REDUCE_TOP;
    return extremum && value->args[0] == x;
}

// The kept extremum that a value compares what is computed again with; NULL: none.
static const Value *own_extremum(const Again *a, const Value *value) {
    bool compares =
        value->op == OP_EQ || value->op == OP_NE || value->op == OP_LT || value->op == OP_LE;
    for (uint32_t k = 0; compares && k < 2; k++) {
        const Value *top = value->args[k], *x = value->args[1 - k];
        if (is_extremum_of(top, x) && a->kept->kept[top->id] && a->other[x->id])
            return top;
    }
    return NULL;
}

// The value in the backward pass, where its arguments are there.
static Value *copy_again(Again *a, const Value *value, MadeFor made_for) {
    const Value *top = own_extremum(a, value);
    if (!top)
        return fuse_copy_value(a->to, value, a->now, made_for, a->arena);
    Value *kept = a->now[top->id];
    MadeFor own = top->made_for;
    a->turn += !a->turn;
    own.twice = true;
    own.turn = a->turn;
    a->now[top->id] = fuse_copy_value(a->to, top, a->now, own, a->arena);
    Value *copy = fuse_copy_value(a->to, value, a->now, made_for, a->arena);
    a->now[top->id] = kept;
    return copy;
}

// ---- the backward pass -------------------------------------------------------------------------

static void build_missing(Again *a, ValueList *missing) {
    bool own = false;
    fuse_sort_values(missing);
    for (uint32_t i = 0; i < missing->count; i++)
        own = own || has_own_turn(a, missing->at[i]);
    a->turn += own;
    for (uint32_t i = 0; i < missing->count; i++) {
        Value *value = missing->at[i];
        MadeFor made_for = value->made_for;
        made_for.twice = true;
        made_for.turn = has_own_turn(a, value) ? a->turn : 0;
        a->now[value->id] = copy_again(a, value, made_for);
    }
}

uint32_t fuse_build_backward(const Kept *kept, Graph *to, Value **now, Arena *arena) {
    const Graph *graph = kept->graph;
    uint32_t count = graph->values.count;
    Again a = {.kept = kept, .to = to, .now = now, .arena = arena};
    a.light = fuse_find_light(graph, arena);
    a.other = find_other(kept, arena);
    a.met = arena_array(arena, uint32_t, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        Value *value = graph->values.at[i];
        ValueList missing = {0};
        bool reads = kept->needed[i] && kept->after[i] && !now[i];
        a.searches++;
        for (uint32_t k = 0; reads && k < value->n_args; k++)
            find_missing(&a, value->args[k], &missing);
        build_missing(&a, &missing);
        MadeFor made_for = value->made_for;
        made_for.turn = a.turn;
        if (reads)
            now[i] = copy_again(&a, value, made_for);
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        ValueList missing = {0};
        a.searches++;
        if (graph->outputs.at[i].use == USE_GRADIENT)
            find_missing(&a, graph->outputs.at[i].value, &missing);
        build_missing(&a, &missing);
    }
    return a.turn;
}

bool *fuse_find_forward(const Kept *kept, Arena *arena) {
    const Graph *graph = kept->graph;
    bool *forward = fuse_find_outputs(graph, USE_PLAIN, arena);
    for (uint32_t i = graph->values.count; i-- > 0;) {
        forward[i] = forward[i] || kept->kept[i];
        for (uint32_t k = 0; forward[i] && k < graph->values.at[i]->n_args; k++)
            forward[graph->values.at[i]->args[k]->id] = true;
    }
    return forward;
}

Graph *graph_again(const Graph *graph, const int64_t *extents, const Machine *machine,
                   Saving saving) {
    Arena *arena = arena_new();
    Kept kept = fuse_keep(graph, extents, machine, saving);
    Rewrite rewrite = rewrite_begin("again", graph, graph->arena, arena);
    Value **now = arena_array(arena, Value *, graph->values.count + 1);
    const bool *forward = fuse_find_forward(&kept, arena);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (forward[i] && !rewrite.now[i])
            rewrite.now[i] = fuse_copy_value(rewrite.to, value, rewrite.now,
                                             fuse_made_forward(&kept, value), arena);
        if (kept.kept[i] || value->op == OP_INPUT)
            now[i] = rewrite.now[i];
    }
    bool any = fuse_build_backward(&kept, rewrite.to, now, arena) > 0;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        Value **of = output->use == USE_GRADIENT ? now : rewrite.now;
        graph_output_like(rewrite.to, output, of[output->value->id]);
    }
    arena_free(arena);
    return any ? rewrite.to : NULL;
}
