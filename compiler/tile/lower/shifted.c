// SPDX-License-Identifier: Apache-2.0
// Sums of what lies shifted (see ShiftedSum), for a few rows at a time:
//
//     G[r h] = sum over n, m of where(index(m) == index(r) + rest[n], X, 0)
//
//     loop n:1
//       scratch back[n]
//       compute back = -rest  over n
//       range r from lo(m) + back to hi(m) + back
//         compute G += X[m = r + rest]  over h n r  lanes=r
//
// Both sides are read and stored in vectors, and each element of X is added once.
#include "tile/lower/nest.h"

static uint16_t store_back(const Nest *nest, const ShiftedSum *sum, TileDimList rows,
                           NodeList *into) {
    Lowering *lower = nest->lower;
    Kernel *kernel = lower->kernel;
    uint16_t back = node_scratch(kernel, into, "back", ELEM_I64, rows);
    Stage *stage = node_compute(kernel, into, rows, TILE_DIM_NONE);
    TermBuilder terms = terms_open(lower, stage);
    int32_t rest = terms_value(&terms, sum->rest);
    terms_store(&terms, SINK_SET, back, stage_op(kernel, stage, OP_NEG, ELEM_I64, rest, -1, -1));
    return back;
}

// Where the range of `to` begins or ends.
static int32_t moved_bound(Kernel *kernel, Node *range, BoundKind end, TileDimId from,
                           uint16_t back) {
    Bound load = {.kind = BOUND_LOAD, .load = access_plain(kernel, back)};
    int32_t by = range_bound(kernel, range, load);
    int32_t at = range_bound(kernel, range, (Bound){.kind = end, .dim = from});
    return range_bound(kernel, range, (Bound){.kind = BOUND_ADD, .args = {at, by}});
}

void shifted_emit(const Nest *nest, const Member *m, uint16_t buffer, NodeList *into) {
    Lowering *lower = nest->lower;
    Kernel *kernel = lower->kernel;
    const ShiftedSum *sum = m->shifted;
    TileDimId from = lower->dim_of[sum->from], to = lower->dim_of[sum->to];
    TileDimList rows = lower_order(lower_dim_set(lower, &sum->rest->dims), &nest->order);
    for (int i = 0; i < rows.count; i++)
        into = &node_loop(kernel, into, LOOP_SEQUENTIAL, rows.at[i], 1)->body;
    uint16_t back = store_back(nest, sum, rows, into);
    Node *range = node_range(kernel, into, to);
    range->lo = moved_bound(kernel, range, BOUND_LO, from, back);
    range->hi = moved_bound(kernel, range, BOUND_HI, from, back);
    TileDimList dims = lower_order(m->box & ~set_of(from) & ~set_of(to), &nest->order);
    dims.at[dims.count++] = to;
    Stage *stage = node_compute(kernel, &range->body, dims, to);
    TermBuilder terms = terms_open(lower, stage);
    Access of;
    if (!terms_plain_access(lower, sum->of, &of))
        ice("lower: value %u, a sum of what is shifted is of none in memory", m->value->id);
    int32_t rest = terms_value(&terms, sum->rest);
    for (int i = 0; i < of.rank; i++)
        if (of.index[i].dim == from)
            of.index[i] = (Index){.dim = to, .term = rest};
    terms_store(&terms, SINK_SUM, buffer, stage_load(kernel, stage, of));
}
