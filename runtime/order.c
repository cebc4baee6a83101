// SPDX-License-Identifier: Apache-2.0
// Positions of a row in the order of its values.
//
// An element becomes an item: a key of 32 bits that is smaller the earlier the element comes, and
// below it the position. So one order of numbers serves all types, both directions and ties:
//
//     f32    the sign is set, or where it was set all bits are flipped     NaN: the largest
//     largest first: all bits of that are flipped
//
// Where all or many of a row are kept, all items are sorted by bytes, the lowest first (Knuth,
// volume 3, 5.2.5). Else items that come before the worst of the kept are collected, and when there
// are some times as many as are kept, they are cut to those (Hoare's selection); most blocks of a
// row have no such item. Elements of 64 bits have two keys: all are sorted by the lower one, and
// then by the upper one.
#include <stdbool.h>
#include <string.h>

#include "internal.h"

enum { BLOCK = 16, INSERTED = 64, DIGITS = 256, COLLECTED = 4, ROUNDS = 40 };

// Where the items are: in order->work[side].
typedef struct {
    const AttOrder *order;
    int side;
    int64_t count;
} Items;

static inline uint64_t *items_at(const Items *items) {
    return (uint64_t *)items->order->work[items->side];
}

// ---- keys --------------------------------------------------------------------------------------

// Of the bits of a float; infinity: its bits; normal: those of the smallest that is no zero.
static inline uint32_t float_key(uint32_t bits, uint32_t sign, uint32_t infinity, uint32_t normal) {
    uint32_t size = bits & (sign - 1), all = sign | (sign - 1);
    uint32_t key = bits & sign ? ~bits & all : bits | sign;
    key = size < normal ? sign : key;
    return size > infinity ? all : key;
}

// The same with two halves of 32 bits.
static inline uint64_t double_key(uint64_t bits) {
    const uint64_t sign = (uint64_t)1 << 63, infinity = UINT64_C(0x7FF) << 52;
    uint64_t size = bits & (sign - 1);
    if (size > infinity)
        return UINT64_MAX;
    return size < (uint64_t)1 << 52 ? sign : bits & sign ? ~bits : bits | sign;
}

// `elem` is a constant where this is called. half: of elements of 64 bits, 1 the upper.
static inline __attribute__((always_inline)) uint32_t key_of(AttElem elem, const void *row,
                                                             int64_t at, int half) {
    uint32_t word;
    uint64_t wide;
    switch (elem) {
    case ATT_F32:
        memcpy(&word, (const char *)row + 4 * at, sizeof word);
        return float_key(word, 0x80000000, 0x7F800000, 0x00800000);
    case ATT_F16:
        return float_key(((const uint16_t *)row)[at], 0x8000, 0x7C00, 1);
    case ATT_BF16:
        return float_key(((const uint16_t *)row)[at], 0x8000, 0x7F80, 1);
    case ATT_I32:
        return (uint32_t)((const int32_t *)row)[at] ^ 0x80000000;
    case ATT_F64:
        memcpy(&wide, (const char *)row + 8 * at, sizeof wide);
        return (uint32_t)(double_key(wide) >> 32 * half);
    default:
        wide = (uint64_t)((const int64_t *)row)[at] ^ (uint64_t)1 << 63;
        return (uint32_t)(wide >> 32 * half);
    }
}

static inline uint64_t item_of(uint32_t key, int64_t at) {
    return (uint64_t)key << 32 | (uint32_t)at;
}

static inline int64_t position_of(uint64_t item) {
    return (int64_t)(item & UINT32_MAX);
}

// ---- sorting -----------------------------------------------------------------------------------

static void insert_all(uint64_t *item, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        uint64_t own = item[i];
        int64_t at = i;
        for (; at > 0 && item[at - 1] > own; at--)
            item[at] = item[at - 1];
        item[at] = own;
    }
}

// Moves all to the other side, by one byte. count: of each value of the byte.
static void sort_by_byte(Items *items, int byte, const uint32_t *count) {
    const uint64_t *item = items_at(items);
    uint32_t place[DIGITS], sum = 0;
    for (int d = 0; d < DIGITS; d++) {
        place[d] = sum;
        sum += count[d];
    }
    items->side = 1 - items->side;
    uint64_t *to = items_at(items);
    for (int64_t i = 0; i < items->count; i++)
        to[place[item[i] >> 8 * byte & (DIGITS - 1)]++] = item[i];
}

// from: the lowest byte that counts. Items that are equal from there on keep their order.
static void sort_items(Items *items, int from) {
    uint32_t count[8][DIGITS];
    const uint64_t *item = items_at(items), any = items->count ? item[0] : 0;
    memset(count, 0, sizeof count);
    for (int64_t i = 0; i < items->count; i++)
        for (int byte = from; byte < 8; byte++)
            count[byte][item[i] >> 8 * byte & (DIGITS - 1)]++;
    for (int byte = from; byte < 8; byte++) // one that all share sorts nothing
        if (count[byte][any >> 8 * byte & (DIGITS - 1)] != items->count)
            sort_by_byte(items, byte, count[byte]);
}

// ---- the first of a row ------------------------------------------------------------------------

// Moves the items that are smaller than item[last] before it; returns where it is then.
static int64_t split_items(uint64_t *item, int64_t first, int64_t last) {
    uint64_t pivot = item[last];
    int64_t end = first;
    for (int64_t i = first; i < last; i++) { // without a branch that cannot be foretold
        uint64_t own = item[i];
        item[i] = item[end];
        item[end] = own;
        end += own < pivot;
    }
    item[last] = item[end];
    item[end] = pivot;
    return end;
}

// Puts the median of three at the end, where split_items looks for it.
static void choose_pivot(uint64_t *item, int64_t first, int64_t last) {
    int64_t middle = first + (last - first) / 2;
    uint64_t a = item[first], b = item[middle], c = item[last];
    int64_t at = (a < b) == (b < c) ? middle : (b < a) == (a < c) ? first : last;
    uint64_t median = item[at];
    item[at] = c;
    item[last] = median;
}

// Leaves the `kept` smallest, the largest of them last.
static void cut_items(Items *items, int64_t kept) {
    uint64_t *item = items_at(items);
    int64_t first = 0, last = items->count - 1, at = -1;
    for (int round = 0; at != kept - 1 && round < ROUNDS; round++) {
        choose_pivot(item, first, last);
        at = split_items(item, first, last);
        if (at < kept - 1)
            first = at + 1;
        else
            last = at - 1;
    }
    if (at != kept - 1)
        sort_items(items, 0);
    items->count = kept;
}

// May an element of the block come before those that are kept? Not knowing costs time alone.
static inline __attribute__((always_inline)) bool
block_may_enter(const AttOrder *order, AttElem elem, int64_t at, uint64_t worst) {
    if (elem != ATT_F32)
        return true;
    const float *row = order->row, last = row[position_of(worst)];
    int enters = 0;
    if (order->descending)
        for (int i = 0; i < BLOCK; i++)
            enters |= !(row[at + i] <= last);
    else
        for (int i = 0; i < BLOCK; i++)
            enters |= !(row[at + i] >= last);
    return enters;
}

// Adds the block's items that are smaller than `worst`: all are written, as many count.
static inline __attribute__((always_inline)) void add_block(Items *items, AttElem elem, int64_t at,
                                                            int n, uint32_t flip, uint64_t worst) {
    uint64_t *to = items_at(items);
    uint32_t key[BLOCK];
    for (int i = 0; i < n; i++)
        key[i] = key_of(elem, items->order->row, at + i, 0) ^ flip;
    for (int i = 0; i < n; i++) {
        uint64_t own = item_of(key[i], at + i);
        to[items->count] = own;
        items->count += own < worst;
    }
}

static inline __attribute__((always_inline)) void keep_first(Items *items, AttElem elem,
                                                             uint32_t flip) {
    const AttOrder *order = items->order;
    int64_t kept = order->kept, room = COLLECTED * kept < 8 * BLOCK ? 8 * BLOCK : COLLECTED * kept;
    bool all = room > order->length;
    uint64_t worst = UINT64_MAX;
    for (int64_t at = 0; at < order->length; at += BLOCK) {
        int n = order->length - at < BLOCK ? (int)(order->length - at) : BLOCK;
        if (n < BLOCK) {
            add_block(items, elem, at, n, flip, worst);
        } else if (worst == UINT64_MAX || block_may_enter(order, elem, at, worst)) {
            add_block(items, elem, at, BLOCK, flip, worst);
            if (items->count + BLOCK > room && !all) {
                cut_items(items, kept);
                worst = items_at(items)[kept - 1];
            }
        }
    }
    if (!all)
        cut_items(items, kept);
    if (items->count <= INSERTED)
        insert_all(items_at(items), items->count);
    else
        sort_items(items, all ? 4 : 0);
}

// ---- elements of 64 bits -----------------------------------------------------------------------

static inline __attribute__((always_inline)) void sort_wide(Items *items, AttElem elem,
                                                            uint32_t flip) {
    const AttOrder *order = items->order;
    items->count = order->length;
    for (int64_t i = 0; i < items->count; i++)
        items_at(items)[i] = item_of(key_of(elem, order->row, i, 0) ^ flip, i);
    sort_items(items, 4);
    uint64_t *item = items_at(items);
    for (int64_t i = 0; i < items->count; i++) {
        int64_t at = position_of(item[i]);
        item[i] = item_of(key_of(elem, order->row, at, 1) ^ flip, at);
    }
    sort_items(items, 4);
}

void att_order(const AttOrder *order) {
    Items items = {.order = order};
    uint32_t flip = order->descending ? UINT32_MAX : 0;
    switch ((AttElem)order->elem) {
    case ATT_F32:
        keep_first(&items, ATT_F32, flip);
        break;
    case ATT_F16:
        keep_first(&items, ATT_F16, flip);
        break;
    case ATT_BF16:
        keep_first(&items, ATT_BF16, flip);
        break;
    case ATT_I32:
        keep_first(&items, ATT_I32, flip);
        break;
    case ATT_F64:
        sort_wide(&items, ATT_F64, flip);
        break;
    default:
        sort_wide(&items, ATT_I64, flip);
        break;
    }
    const uint64_t *item = items_at(&items);
    for (int64_t i = 0; i < order->kept; i++)
        order->out[i * order->stride] = (int32_t)position_of(item[i]);
}
