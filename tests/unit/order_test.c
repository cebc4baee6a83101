// SPDX-License-Identifier: Apache-2.0
// Orders: what the tile verifier refuses, and the runtime's routine against a plain one.
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"
#include "tile/tile.h"

// ---- tile ----

typedef struct {
    Kernel *k;
    TileDimId n, m, t;
    uint16_t x, y;
    Node *task;
    Stage *stage;
} Ordered;

static Ordered ordered_new(Arena *arena) {
    Ordered o = {.k = kernel_new(arena, "ordered")};
    o.n = kernel_add_dim(o.k, "n", EXTENT_DYNAMIC);
    o.m = kernel_add_dim(o.k, "m", EXTENT_DYNAMIC);
    o.t = kernel_add_dim(o.k, "t", 3);
    o.x = kernel_add_argument(o.k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(o.n, o.m));
    o.y = kernel_add_argument(o.k, "y", ELEM_I32, PLACE_OUT, TILE_DIMS(o.n, o.t));
    o.task = node_loop(o.k, &o.k->body, LOOP_PARALLEL, o.n, 2);
    o.stage =
        node_order(o.k, &o.task->body, access_plain(o.k, o.y), access_plain(o.k, o.x), o.m, o.t);
    return o;
}

static void spoil_order_in_memory(Ordered *o) {
    TileBuffer *x = &o->k->buffers.at[o->x];
    x->dims[0] = o->stage->a.index[0].dim = o->m;
    x->dims[1] = o->stage->a.index[1].dim = o->n;
}
static void spoil_places(Ordered *o) {
    o->stage->places = o->m;
}
static void spoil_cut(Ordered *o) {
    o->task->dim = o->m;
}
static void spoil_elem(Ordered *o) {
    o->k->buffers.at[o->y].elem = ELEM_I64;
}
static void spoil_bool(Ordered *o) {
    o->k->buffers.at[o->x].elem = ELEM_BOOL;
}
static void spoil_index(Ordered *o) {
    o->stage->a.index[0].offset = 1;
}
static void spoil_work(Ordered *o) {
    o->k->buffers.at[o->stage->work[1]].elem = ELEM_I32;
}
static void spoil_work_twice(Ordered *o) {
    o->stage->work[1] = o->stage->work[0];
}
static void spoil_dims(Ordered *o) {
    o->stage->dims[2] = kernel_add_dim(o->k, "w", 4);
}
static void spoil_target(Ordered *o) {
    o->k->buffers.at[o->y].place = PLACE_IN;
}

static void test_verifier_refuses(void **state) {
    (void)state;
    static const struct {
        void (*spoil)(Ordered *o);
        const char *says;
    } cases[] = {
        {spoil_order_in_memory, "order: x is not contiguous along m"},
        {spoil_places, "order: t is no dim of argument and result"},
        {spoil_cut, "order: m is cut by what is around"},
        {spoil_elem, "order: y cannot hold positions"},
        {spoil_bool, "order: y cannot hold positions"},
        {spoil_index, "order: an index of x is no plain dim"},
        {spoil_work, "order: work 1 is no scratch of its form"},
        {spoil_work_twice, "order: items is there twice"},
        {spoil_dims, "the stage lacks dim m"},
        {spoil_target, "y is an input and stored to"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *arena = arena_new();
        Ordered o = ordered_new(arena);
        Text why = {.arena = arena};
        if (!kernel_check(o.k, &why))
            fail_msg("%s", why.at);
        cases[i].spoil(&o);
        if (kernel_check(o.k, &why))
            fail_msg("nothing found where \"%s\" was expected", cases[i].says);
        if (!strstr(why.at, cases[i].says))
            fail_msg("\"%s\" was expected, not \"%s\"", cases[i].says, why.at);
        arena_free(arena);
    }
}

static void test_interpreter(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Ordered o = ordered_new(arena);
    float x[] = {2, 5, 2, 5, NAN, 7, -INFINITY, 7};
    int32_t y[6];
    int64_t extents[] = {2, 4, 3};
    kernel_interpret(o.k, extents, (void *[]){x, y});
    int32_t rising[] = {0, 2, 1, 2, 1, 3};
    assert_memory_equal(y, rising, sizeof y);
    o.stage->descending = true;
    kernel_interpret(o.k, extents, (void *[]){x, y});
    int32_t falling[] = {1, 3, 0, 0, 1, 3};
    assert_memory_equal(y, falling, sizeof y);
    arena_free(arena);
}

// ---- runtime ----

static uint64_t random_word(uint64_t *state) { // xorshift
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

typedef struct {
    float value;
    int32_t at;
    bool descending;
} Element;

static int compare(const void *x, const void *y) {
    const Element *a = x, *b = y;
    float p = a->descending ? b->value : a->value, q = a->descending ? a->value : b->value;
    bool p_nan = isnan(p), q_nan = isnan(q);
    if (p_nan != q_nan || (!p_nan && p != q))
        return q_nan || (!p_nan && p < q) ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

static void check_row(const float *row, int64_t length, int64_t kept, bool descending) {
    Element *element = test_calloc((size_t)length, sizeof *element);
    int32_t *out = test_calloc((size_t)kept * 3, sizeof *out);
    int64_t *work[2];
    for (int i = 0; i < 2; i++)
        work[i] = test_calloc((size_t)length, sizeof **work);
    for (int64_t i = 0; i < length; i++)
        element[i] = (Element){row[i], (int32_t)i, descending};
    qsort(element, (size_t)length, sizeof *element, compare);
    att_order(&(AttOrder){.row = row,
                          .elem = ATT_F32,
                          .length = length,
                          .kept = kept,
                          .descending = descending,
                          .out = out,
                          .stride = 3,
                          .work = {work[0], work[1]}});
    for (int64_t i = 0; i < kept; i++)
        if (out[3 * i] != element[i].at)
            fail_msg("place %ld of %ld of %ld: %d, not %d", (long)i, (long)kept, (long)length,
                     out[3 * i], element[i].at);
    for (int i = 0; i < 2; i++)
        test_free(work[i]);
    test_free(out);
    test_free(element);
}

// Rows that are in order, that are not, and that make the choice of a pivot a bad one.
static float made_up(int kind, int64_t i, int64_t length, uint64_t *state) {
    switch (kind) {
    case 0:
        return (float)(int64_t)(random_word(state) % 1000003) / 7 - 70000;
    case 1:
        return (float)(random_word(state) % 5) - 2;
    case 2:
        return (float)i;
    case 3:
        return (float)-i;
    case 4:
        return (float)(i < length / 2 ? i : length - i);
    case 5:
        return random_word(state) % 3 ? NAN : (float)(random_word(state) % 9);
    default:
        return i % 2 ? 0.0f : -0.0f;
    }
}

static void test_runtime(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 20000};
    static const int64_t counts[] = {1, 2, 31, 33, 64, 100, 5000};
    uint64_t seed = 88172645463325252u;
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int kind = 0; kind < 7; kind++) {
            int64_t length = lengths[l];
            float *row = test_calloc((size_t)length, sizeof *row);
            for (int64_t i = 0; i < length; i++)
                row[i] = made_up(kind, i, length, &seed);
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                if (counts[c] < length)
                    check_row(row, length, counts[c], c % 2);
            check_row(row, length, length, kind % 2);
            test_free(row);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verifier_refuses),
        cmocka_unit_test(test_interpreter),
        cmocka_unit_test(test_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
