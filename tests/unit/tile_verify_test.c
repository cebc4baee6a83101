// SPDX-License-Identifier: Apache-2.0
// What the tile verifier refuses in fused kernels: one sound kernel, spoiled in one way per case.
#include "support.h"

#include <math.h>
#include <string.h>

#include "hand_fixture.h"

static Stage *store(Kernel *k, NodeList *into, TileDimList dims, SinkMode mode, uint16_t to,
                    uint16_t from) {
    return hand_store(k, into, dims, TILE_DIM_NONE, mode, to, from);
}

typedef struct {
    Kernel *k;
    TileDimId n, m, v, w;
    uint16_t x, values, ends, y, top, o, s, u;
    Node *task, *range, *loop;
    Stage *copy, *most, *sum, *mix, *end;
} Fused;

static void expect_fine(const Kernel *kernel) {
    Text why = {.arena = kernel->arena};
    if (!kernel_check(kernel, &why))
        fail_msg("%s", why.at);
}

static void expect_refused(const Kernel *kernel, const char *says) {
    Text why = {.arena = kernel->arena};
    if (kernel_check(kernel, &why))
        fail_msg("nothing found where \"%s\" was expected", says);
    if (!strstr(why.at, says))
        fail_msg("\"%s\" was expected, not \"%s\"", says, why.at);
}

// y = mixed softmax numerators of a ragged, causal row, without the rescaling.
static Fused fused_new(Arena *arena) {
    Fused f = {.k = kernel_new(arena, "fused")};
    Kernel *k = f.k;
    f.n = kernel_add_dim(k, "n", EXTENT_DYNAMIC);
    f.m = kernel_add_dim(k, "m", EXTENT_DYNAMIC);
    f.v = kernel_add_dim(k, "v", 8);
    f.w = kernel_add_dim(k, "w", 8);
    f.x = kernel_add_argument_panel(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(f.n, f.m), f.m, 16);
    f.values = kernel_add_argument(k, "values", ELEM_F32, PLACE_IN, TILE_DIMS(f.m, f.v));
    f.ends = kernel_add_argument(k, "ends", ELEM_I64, PLACE_IN, TILE_DIMS(f.n));
    f.y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(f.n, f.w));
    f.task = node_loop(k, &k->body, LOOP_PARALLEL, f.n, 4);
    NodeList *into = &f.task->body;
    f.top = node_scratch(k, into, "top", ELEM_F32, TILE_DIMS(f.n));
    buffer_begin_with(k, f.top, -INFINITY);
    f.o = node_scratch(k, into, "o", ELEM_F32, TILE_DIMS(f.n, f.v));
    buffer_begin_with(k, f.o, 0);
    f.range = node_range(k, into, f.m);
    f.range->hi = range_bound(k, f.range, (Bound){.kind = BOUND_HI, .dim = f.n});
    f.loop = node_loop(k, &f.range->body, LOOP_SEQUENTIAL, f.m, 16);
    f.s = node_scratch_panel(k, &f.loop->body, "s", ELEM_F32, TILE_DIMS(f.n, f.m), f.n, 4);
    f.copy = store(k, &f.loop->body, TILE_DIMS(f.n, f.m), SINK_SET, f.s, f.x);
    f.most = store(k, &f.loop->body, TILE_DIMS(f.n, f.m), SINK_MAX, f.top, f.s);
    f.sum = node_contract(k, &f.loop->body, TILE_DIMS(f.n, f.v, f.m), access_plain(k, f.o),
                          access_plain(k, f.s), access_plain(k, f.values));
    f.sum->rows = f.n;
    f.sum->lanes = f.v;
    f.sum->row_block = 4;
    f.sum->lane_block = 8;
    TileBuffer like = scratch_plain("u", ELEM_F32, TILE_DIMS(f.n, f.w));
    like.takes = f.o;
    f.u = node_scratch_with(k, into, like);
    f.mix = node_compute(k, into, TILE_DIMS(f.n, f.w), f.w);
    stage_sink(k, f.mix, SINK_SET, access_plain(k, f.u), hand_load(k, f.mix, f.top));
    f.end = store(k, into, TILE_DIMS(f.n, f.w), SINK_SET, f.y, f.u);
    return f;
}

static TileBuffer *buffer(Fused *f, uint16_t at) {
    return &f->k->buffers.at[at];
}
static Bound *bound(Fused *f) {
    return &f->range->bounds.at[f->range->hi];
}
static void set_bound(Fused *f, Bound of) {
    f->range->hi = range_bound(f->k, f->range, of);
}
static void swap(NodeList *body, uint32_t a, uint32_t b) {
    Node *node = body->at[a];
    body->at[a] = body->at[b];
    body->at[b] = node;
}

static void spoil_backwards(Fused *f) {
    f->loop->loop = LOOP_BACKWARD;
    buffer(f, f->o)->has_initial = false;
    f->range->kind = NODE_LOOP;
    f->range->loop = LOOP_SEQUENTIAL;
    f->range->step = 64;
}
static void spoil_range_dim(Fused *f) {
    f->range->dim = 9;
}
static void spoil_align(Fused *f) {
    f->range->align = 0;
}
static void spoil_bound_dim(Fused *f) {
    bound(f)->dim = TILE_DIM_NONE;
}
static void spoil_end(Fused *f) {
    f->range->lo = 1;
}
static void spoil_bound_order(Fused *f) {
    set_bound(f, (Bound){.kind = BOUND_MIN, .args = {0, 1}});
}
static void spoil_bound_round(Fused *f) {
    set_bound(f, (Bound){.kind = BOUND_ROUND, .args = {0}});
}
static void spoil_bound_float(Fused *f) {
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = access_plain(f->k, f->top)});
}
static void spoil_bound_output(Fused *f) {
    buffer(f, f->y)->elem = ELEM_I64;
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = access_plain(f->k, f->y)});
}
static void spoil_bound_scope(Fused *f) {
    buffer(f, f->s)->elem = ELEM_I64;
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = access_plain(f->k, f->s)});
}
static void spoil_bound_unfilled(Fused *f) {
    uint16_t last = node_scratch(f->k, &f->task->body, "last", ELEM_I64, TILE_DIMS(f->n));
    swap(&f->task->body, 2, f->task->body.count - 1);
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = access_plain(f->k, last)});
    vec_push(f->k->arena, &f->task->body, f->range);
}
static void spoil_bound_access(Fused *f) {
    Access load = access_plain(f->k, f->ends);
    load.checked = true;
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = load});
}
static void spoil_bound_empty(Fused *f) {
    Node *inner = node_range(f->k, &f->range->body, f->n);
    Access load = access_at(f->ends, TILE_DIMS(f->m));
    inner->hi = range_bound(f->k, inner, (Bound){.kind = BOUND_LOAD, .load = load});
}
static void spoil_parallel_in_range(Fused *f) {
    f->range->body = f->k->body;
    f->k->body = (NodeList){0};
    vec_push(f->k->arena, &f->k->body, f->range);
    bound(f)->dim = f->m;
}
static void spoil_no_initial(Fused *f) {
    buffer(f, f->o)->has_initial = false;
}
static void spoil_moving_range(Fused *f) { // which elements are reached depends on the turn
    Kernel *k = f->k;
    Node *rows = node_loop(k, &f->task->body, LOOP_SEQUENTIAL, f->n, 1);
    Node *range = node_range(k, &rows->body, f->v);
    range->hi = range_bound(k, range, (Bound){.kind = BOUND_HI, .dim = f->n});
    uint16_t t = node_scratch(k, &f->task->body, "t", ELEM_F32, TILE_DIMS(f->v));
    swap(&f->task->body, f->task->body.count - 2, f->task->body.count - 1);
    store(k, &range->body, TILE_DIMS(f->n, f->v), SINK_SUM, t, f->top);
}
static void spoil_may_be_empty(Fused *f) {
    uint16_t t = node_scratch(f->k, &f->range->body, "t", ELEM_F32, TILE_DIMS(f->n));
    store(f->k, &f->range->body, TILE_DIMS(f->n, f->m), SINK_SUM, t, f->x);
}
static void spoil_two_places(Fused *f) {
    uint16_t t = node_scratch(f->k, &f->task->body, "t", ELEM_F32, TILE_DIMS(f->n));
    store(f->k, &f->task->body, TILE_DIMS(f->n, f->m), SINK_SUM, t, f->x);
    store(f->k, &f->task->body, TILE_DIMS(f->n, f->m), SINK_SUM, t, f->x);
}
static void spoil_stored_first(Fused *f) {
    uint16_t t = node_scratch(f->k, &f->task->body, "t", ELEM_F32, TILE_DIMS(f->n));
    store(f->k, &f->task->body, TILE_DIMS(f->n), SINK_SET, t, f->top);
    store(f->k, &f->task->body, TILE_DIMS(f->n, f->m), SINK_SUM, t, f->x);
}
static void spoil_read_first(Fused *f) {
    swap(&f->loop->body, 1, 2);
}
static void spoil_factor_unfilled(Fused *f) {
    swap(&f->loop->body, 1, 3);
}
static void spoil_given_initial(Fused *f) {
    buffer_begin_with(f->k, f->x, 0);
}
static void spoil_initial_meets(Fused *f) {
    buffer_begin_with(f->k, f->y, 0);
    f->task->dim = f->m;
    f->range->dim = f->n;
}
static void spoil_gap(Fused *f) {
    buffer(f, f->s)->gap = 16;
}
static void spoil_takes_initial(Fused *f) {
    buffer_begin_with(f->k, f->u, 0);
}
static void spoil_takes_body(Fused *f) {
    buffer(f, f->u)->takes = f->s;
}
static void spoil_takes_elem(Fused *f) {
    buffer(f, f->o)->elem = ELEM_F64;
    f->sum->sinks.count = 0;
    f->range->body.count = 0;
}
static void spoil_takes_extent(Fused *f) {
    f->k->dims.at[f->w].extent = 9;
}
static void spoil_takes_cut(Fused *f) {
    Node *loop = node_loop(f->k, &f->k->body, LOOP_SEQUENTIAL, f->w, 4);
    loop->body = f->task->body;
    f->task->body = (NodeList){0};
    f->k->body.count = 1;
    vec_push(f->k->arena, &f->task->body, loop);
}
static void spoil_takes_and_reads(Fused *f) { // another point of what lies there
    f->mix->n_dims = 3;
    f->mix->dims[2] = f->v;
    stage_load(f->k, f->mix, access_plain(f->k, f->o));
}
static void spoil_takes_and_sums(Fused *f) {
    Stage *s =
        node_contract(f->k, &f->task->body, TILE_DIMS(f->n, f->w, f->v), access_plain(f->k, f->u),
                      access_plain(f->k, f->o), access_at(f->values, TILE_DIMS(f->v, f->w)));
    s->lanes = f->w;
    s->row_block = 1;
    s->lane_block = 8;
}
static void spoil_takes_and_stores(Fused *f) {
    stage_sink(f->k, f->mix, SINK_SET, access_at(f->o, TILE_DIMS(f->n, f->w)), 0);
    buffer(f, f->o)->dims[1] = f->w;
    f->range->body.count = 0;
}
static void spoil_panel_index(Fused *f) {
    Access *at = &f->copy->terms.at[0].load;
    at->index[1].offset = 1;
    at->checked = true;
}
static void spoil_panel_blocks(Fused *f) {
    f->sum->row_block = 3;
}
static void spoil_panel_pieces(Fused *f) {
    Node *rows = node_loop(f->k, &f->loop->body, LOOP_SEQUENTIAL, f->n, 6);
    vec_push(f->k->arena, &rows->body, f->loop->body.at[3]);
    f->loop->body.at[3] = rows;
    f->loop->body.count--;
}
static void spoil_repeated_product(Fused *f) {
    Stage *s = node_compute(f->k, &f->task->body, TILE_DIMS(f->n, f->v), f->v);
    int32_t top = hand_load(f->k, s, f->top);
    stage_sink(f->k, s, SINK_SET, access_plain(f->k, f->top),
               stage_op(f->k, s, OP_MUL, ELEM_F32, top, top, -1));
}

static void test_verifier_refuses(void **state) {
    (void)state;
    static const struct {
        void (*spoil)(Fused *f);
        const char *says;
    } cases[] = {
        {spoil_range_dim, "a range of no dim"},
        {spoil_align, "range m has align 0"},
        {spoil_bound_dim, "a bound of no dim"},
        {spoil_end, "range m ends at no bound"},
        {spoil_bound_order, "argument 1 of a bound is no earlier one"},
        {spoil_bound_round, "to no multiple"},
        {spoil_bound_float, "top, which is no integers"},
        {spoil_bound_output, "y, which is no integers that are given"},
        {spoil_bound_scope, "loads s outside its scope"},
        {spoil_bound_unfilled, "last is read before anything is stored"},
        {spoil_bound_access, "ends by an access of another kind"},
        {spoil_bound_empty, "loads ends where dim m may be empty"},
        {spoil_parallel_in_range, "inside another loop or a range"},
        {spoil_no_initial, "o is combined in a range of m"},
        {spoil_backwards, "o is combined backwards over m"},
        {spoil_moving_range, "t is combined in a range of v"},
        {spoil_may_be_empty, "t is combined over m, which may be empty"},
        {spoil_two_places, "t is combined in two places"},
        {spoil_stored_first, "t is stored to before it is combined"},
        {spoil_read_first, "s is read before anything is stored"},
        {spoil_factor_unfilled, "s is read before anything is stored"},
        {spoil_given_initial, "x is given and has an initial value"},
        {spoil_initial_meets, "tasks along m would meet in y"},
        {spoil_gap, "s: a gap needs plain scratch"},
        {spoil_takes_initial, "u takes memory and has an initial value"},
        {spoil_takes_body, "not made before it in the same body"},
        {spoil_takes_elem, "the memory of o, which lies differently"},
        {spoil_takes_extent, "the memory of o, which lies differently"},
        {spoil_takes_cut, "the memory of o, which lies differently"},
        {spoil_takes_and_reads, "o is loaded where u takes its memory"},
        {spoil_takes_and_sums, "o is read and stored to"},
        {spoil_takes_and_stores, "a stage stores to o and to its memory"},
        {spoil_panel_index, "an index along the panels of x is no plain dim"},
        {spoil_panel_blocks, "panels of s are not of whole blocks along n"},
        {spoil_panel_pieces, "pieces of n begin inside blocks of the panels of s"},
        {spoil_repeated_product, "points along v write one element of top"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Arena *arena = arena_new();
        Fused f = fused_new(arena);
        expect_fine(f.k);
        cases[i].spoil(&f);
        expect_refused(f.k, cases[i].says);
        arena_free(arena);
    }
}

// ---- sums of which the last part stands apart ---------------------------------------------------

typedef struct {
    Kernel *k;
    TileDimId n, d;
    uint16_t x, sums;
    Node *before, *behind;
} Halves;

static Bound at_number(int64_t number) {
    return (Bound){.kind = BOUND_NUMBER, .number = number};
}

// y[n] = the sum of x[n d] over d, its first 6 positions and then the others, once more y = y.
static Halves halves_new(Arena *arena) {
    Halves h = {.k = kernel_new(arena, "halves")};
    Kernel *k = h.k;
    h.n = kernel_add_dim(k, "n", EXTENT_DYNAMIC);
    h.d = kernel_add_dim(k, "d", 8);
    h.x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(h.n, h.d));
    h.sums = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(h.n));
    h.before = node_range(k, &k->body, h.d);
    h.before->hi = range_bound(k, h.before, at_number(6));
    Node *loop = node_loop(k, &h.before->body, LOOP_SEQUENTIAL, h.d, 2);
    store(k, &loop->body, TILE_DIMS(h.n, h.d), SINK_SUM, h.sums, h.x);
    h.behind = node_range(k, &k->body, h.d);
    h.behind->lo = range_bound(k, h.behind, at_number(6));
    loop = node_loop(k, &h.behind->body, LOOP_SEQUENTIAL, h.n, 4);
    store(k, &loop->body, TILE_DIMS(h.n, h.d), SINK_SUM, h.sums, h.x);
    store(k, &loop->body, TILE_DIMS(h.n), SINK_SET, h.sums, h.sums);
    return h;
}

static void spoil_first_half_empty(Halves *h) {
    h->before->bounds.at[h->before->hi].number = 0;
}
static void spoil_first_half_too_long(Halves *h) {
    h->before->bounds.at[h->before->hi].number = 9;
}
static void spoil_first_half_of_rows(Halves *h) {
    h->before->hi = range_bound(h->k, h->before, (Bound){.kind = BOUND_EXTENT, .dim = h->n});
}
static void spoil_first_half_later(Halves *h) {
    h->before->lo = range_bound(h->k, h->before, at_number(1));
}
static void spoil_second_half_again(Halves *h) {
    h->behind->lo = -1;
}
static void spoil_second_half_with_gap(Halves *h) {
    h->behind->bounds.at[h->behind->lo].number = 7;
}
static void spoil_second_half_too_early(Halves *h) {
    h->behind->bounds.at[h->behind->lo].number = 4;
}
static void spoil_second_half_otherwise(Halves *h) {
    h->behind->body.at[0]->body.at[0]->stage->sinks.at[0].mode = SINK_MAX;
}
static void spoil_first_half_of_some_rows(Halves *h) {
    Node *some = node_range(h->k, &h->k->body, h->n);
    some->hi = range_bound(h->k, some, at_number(4));
    some->body = h->before->body;
    h->before->body = (NodeList){0};
    vec_push(h->k->arena, &h->before->body, some);
    h->k->body.count--;
}
static void spoil_second_half_alone(Halves *h) {
    h->k->body.at[0] = h->k->body.at[1];
    h->k->body.count = 1;
}
static void spoil_second_half_rounded(Halves *h) {
    h->behind->align = 2;
}
static void spoil_unknown_extent(Halves *h) {
    h->k->dims.at[h->d].extent = EXTENT_DYNAMIC;
}

static void test_last_part_apart(void **state) {
    (void)state;
    static const struct {
        void (*spoil)(Halves *);
        const char *says;
    } cases[] = {
        {spoil_first_half_empty, "y is combined in a range of d"},
        {spoil_first_half_too_long, "y is combined in a range of d"},
        {spoil_first_half_of_rows, "y is combined in a range of d"},
        {spoil_first_half_later, "y is combined in a range of d"},
        {spoil_second_half_again, "y is combined in two places"},
        {spoil_second_half_with_gap, "y is combined in two places"},
        {spoil_second_half_too_early, "y is combined in two places"},
        {spoil_second_half_otherwise, "y is combined in two places"},
        {spoil_first_half_of_some_rows, "y is combined in a range of d"},
        {spoil_second_half_alone, "y is combined in a range of d"},
        {spoil_second_half_rounded, "y is combined in two places"},
        {spoil_unknown_extent, "y is combined in a range of d"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Arena *arena = arena_new();
        Halves h = halves_new(arena);
        expect_fine(h.k);
        cases[i].spoil(&h);
        expect_refused(h.k, cases[i].says);
        arena_free(arena);
    }
}

// ---- tasks of one part each ---------------------------------------------------------------------

typedef struct {
    Kernel *k;
    TileDimId n, part;
    uint16_t y;
    Node *task, *range;
} Parts;

// y = x, a task for the rows of each of four parts.
static Parts parts_new(Arena *arena) {
    Parts p = {.k = kernel_new(arena, "parts")};
    p.n = kernel_add_dim(p.k, "n", EXTENT_DYNAMIC);
    p.part = kernel_add_dim(p.k, "part", 4);
    uint16_t x = kernel_add_argument(p.k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(p.n));
    p.y = kernel_add_argument(p.k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(p.n));
    p.task = node_loop(p.k, &p.k->body, LOOP_PARALLEL, p.part, 1);
    p.range = node_range(p.k, &p.task->body, p.n);
    Bound bound = {.kind = BOUND_PART, .dim = p.part};
    p.range->lo = range_bound(p.k, p.range, bound);
    bound.number = 1;
    p.range->hi = range_bound(p.k, p.range, bound);
    store(p.k, &p.range->body, TILE_DIMS(p.n), SINK_SET, p.y, x);
    return p;
}

static void spoil_task_of_two(Parts *p) {
    p->task->step = 2;
}
static void spoil_two_parts(Parts *p) {
    p->range->bounds.at[p->range->hi].number = 2;
}
static void spoil_all_after(Parts *p) {
    p->range->hi = -1;
}
static void spoil_aligned(Parts *p) {
    p->range->align = 16;
}
static void spoil_all_begins(Parts *p) {
    buffer_begin_with(p->k, p->y, 0);
}

static void test_parts(void **state) {
    (void)state;
    void (*const spoils[])(Parts *) = {spoil_task_of_two, spoil_two_parts, spoil_all_after,
                                       spoil_aligned, spoil_all_begins};
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        Arena *arena = arena_new();
        Parts p = parts_new(arena);
        Text why = {.arena = arena};
        assert_true(kernel_check(p.k, &why));
        spoils[i](&p);
        assert_false(kernel_check(p.k, &why));
        assert_non_null(strstr(why.at, "tasks along part would meet in y"));
        arena_free(arena);
    }
}

// ---- tasks that take turns ----------------------------------------------------------------------

typedef struct {
    Kernel *k;
    TileDimId n, m;
    uint16_t x, y, keep;
    Node *task, *loop;
    Stage *sum;
} Turns;

// y[m] = sum of x[n, m] over n, added to by tasks of four rows.
static Turns turns_new(Arena *arena) {
    Turns t = {.k = kernel_new(arena, "turns")};
    t.n = kernel_add_dim(t.k, "n", EXTENT_DYNAMIC);
    t.m = kernel_add_dim(t.k, "m", EXTENT_DYNAMIC);
    t.x = kernel_add_argument(t.k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(t.n, t.m));
    t.keep = kernel_add_argument(t.k, "keep", ELEM_I64, PLACE_IN, (TileDimList){0});
    t.y = kernel_add_argument(t.k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(t.m));
    buffer_begin_with(t.k, t.y, 0);
    t.k->buffers.at[t.y].kept_by = t.keep;
    t.task = node_loop(t.k, &t.k->body, LOOP_PARALLEL, t.n, 4);
    t.loop = node_loop(t.k, &t.task->body, LOOP_ORDERED, t.m, 16);
    t.sum = store(t.k, &t.loop->body, TILE_DIMS(t.n, t.m), SINK_SUM, t.y, t.x);
    return t;
}

static void spoil_order(Turns *t) {
    t->loop->loop = LOOP_SEQUENTIAL;
}
static void spoil_other_dim(Turns *t) {
    t->loop->dim = t->n;
}
static void spoil_no_tasks(Turns *t) {
    t->task->loop = LOOP_SEQUENTIAL;
}
static void spoil_inside_loop(Turns *t) {
    Node *outer = node_loop(t->k, &t->task->body, LOOP_SEQUENTIAL, t->m, 64);
    t->task->body = (NodeList){0};
    vec_push(t->k->arena, &t->task->body, outer);
    vec_push(t->k->arena, &outer->body, t->loop);
}
static void spoil_outside(Turns *t) {
    store(t->k, &t->task->body, TILE_DIMS(t->n, t->m), SINK_SUM, t->y, t->x);
}
static void spoil_second_loop(Turns *t) {
    Node *loop = node_loop(t->k, &t->task->body, LOOP_ORDERED, t->m, 16);
    store(t->k, &loop->body, TILE_DIMS(t->n, t->m), SINK_SUM, t->y, t->x);
}
static void spoil_many_loops(Turns *t) {
    for (int i = 0; i < ORDERED_MAX; i++)
        node_loop(t->k, &t->task->body, LOOP_ORDERED, t->m, 16);
}
static void spoil_initial(Turns *t) {
    t->k->buffers.at[t->y].has_initial = false;
    t->k->buffers.at[t->y].kept_by = -1;
}
static void spoil_all_elements(Turns *t) {
    t->sum->sinks.at[0].to.index[0] = (Index){.dim = TILE_DIM_NONE, .term = -1};
}
static void spoil_unused(Turns *t) {
    t->loop->loop = LOOP_SEQUENTIAL;
    t->loop->body = (NodeList){0};
}
static void spoil_read(Turns *t) {
    uint16_t s = node_scratch(t->k, &t->task->body, "s", ELEM_F32, TILE_DIMS(t->m));
    store(t->k, &t->task->body, TILE_DIMS(t->m), SINK_SET, s, t->y);
}
static void spoil_counts_on_rows(Turns *t) {
    uint16_t s = node_scratch(t->k, &t->task->body, "s", ELEM_F32, TILE_DIMS(t->m));
    store(t->k, &t->task->body, TILE_DIMS(t->n, t->m), SINK_SUM, s, t->x);
}
static void spoil_keep_elem(Turns *t) {
    t->k->buffers.at[t->keep].elem = ELEM_I32;
}
static void spoil_keep_itself(Turns *t) {
    t->k->buffers.at[t->y].kept_by = t->y;
}
static void spoil_keep_scratch(Turns *t) {
    t->k->buffers.at[t->y].kept_by = 7;
}
static void spoil_keep_nothing(Turns *t) {
    t->k->buffers.at[t->y].has_initial = false;
}

static void test_turns(void **state) {
    (void)state;
    static const struct {
        void (*spoil)(Turns *t);
        const char *says;
    } cases[] = {
        {spoil_order, "tasks along n would meet in y"},
        {spoil_other_dim, "ordered n over the dim of the tasks"},
        {spoil_no_tasks, "ordered m without tasks"},
        {spoil_inside_loop, "ordered m inside another loop"},
        {spoil_outside, "tasks along n would meet in y"},
        {spoil_second_loop, "tasks along n would meet in y"},
        {spoil_many_loops, "more than 8 ordered loops"},
        {spoil_initial, "y is added to in turn and has no initial value"},
        {spoil_all_elements, "tasks along n would meet in y"},
        {spoil_unused, "tasks along n would meet in y"},
        {spoil_read, "tasks along n would meet in y"},
        {spoil_counts_on_rows, "may have no positions of n"},
        {spoil_keep_elem, "y is kept by keep, which is no number of i64"},
        {spoil_keep_itself, "y is kept by y, which is no number of i64"},
        {spoil_keep_scratch, "y is kept by no argument"},
        {spoil_keep_nothing, "y is kept and has no initial value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *arena = arena_new();
        Turns t = turns_new(arena);
        expect_fine(t.k);
        cases[i].spoil(&t);
        expect_refused(t.k, cases[i].says);
        arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verifier_refuses),
        cmocka_unit_test(test_last_part_apart),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
