// SPDX-License-Identifier: Apache-2.0
// Masks as ranges: which positions of the streamed dim can matter to a task.
//
//     L[n, m, h] = where(index(m) <= index(n) and index(m) < len[b], S[n, m, h], -inf)
//
//     parallel b:1 n:24
//       range m < min(end(n), len[b])            # the select stays and settles each element
//         ...
//
// A condition counts when every reduction over the streamed dim gets the neutral element where it
// does not hold: -inf into a maximum, 0 into a sum. Conditions are taken apart over and, or, not;
// comparisons of positions, numbers and small tensors of integers give bounds for the task's whole
// box by interval arithmetic. What has other forms (equal document numbers) is searched: a stage
// finds the first and the last position where the condition holds for any row of the task.
#include <limits.h>
#include <math.h>

#include "tile/lower/stream.h"

// ---- what a condition makes neutral ------------------------------------------------------------

typedef enum { WHEN_ANY, WHEN_LOWEST, WHEN_ZERO } When; // of a value where the condition is false

typedef struct {
    const Lowering *lower;
    DimId streamed;
    bool *false_too; // by value id: false wherever the condition is
    When *known;     // by value id, of wide members
} MaskCheck;

static When when_const(const Value *value) {
    if (value->op != OP_CONST)
        return WHEN_ANY;
    return value->number == 0 ? WHEN_ZERO : value->number == -INFINITY ? WHEN_LOWEST : WHEN_ANY;
}

static When when_of(const MaskCheck *check, const Value *value);

static When when_select(const MaskCheck *check, const Value *value) {
    When other =
        when_const(value->args[2]) ? when_const(value->args[2]) : when_of(check, value->args[2]);
    if (check->false_too[value->args[0]->id])
        return other;
    When then =
        when_const(value->args[1]) ? when_const(value->args[1]) : when_of(check, value->args[1]);
    return then == other ? then : WHEN_ANY;
}

static bool is_positive(const Value *value) {
    return value->op == OP_CONST && value->number > 0 && isfinite(value->number);
}

static When when_computed(const MaskCheck *check, const Value *value) {
    When first = when_of(check, value->args[0]);
    When second = value->n_args > 1 ? when_of(check, value->args[1]) : WHEN_ANY;
    switch (value->op) {
    case OP_SELECT:
        return when_select(check, value);
    case OP_NEG:
        return first == WHEN_ZERO ? WHEN_ZERO : WHEN_ANY;
    case OP_DIV:
        return is_positive(value->args[1]) ? first : WHEN_ANY;
    case OP_MUL:
        if (is_positive(value->args[1]))
            return first;
        return first == WHEN_ZERO || second == WHEN_ZERO ? WHEN_ZERO : WHEN_ANY;
    case OP_CONTRACT:
        return first == WHEN_ZERO || second == WHEN_ZERO ? WHEN_ZERO : WHEN_ANY;
    case OP_ADD:
        return first == WHEN_LOWEST || second == WHEN_LOWEST ? WHEN_LOWEST : WHEN_ANY;
    case OP_SUB:
        return first == WHEN_LOWEST ? WHEN_LOWEST : WHEN_ANY;
    case OP_EXP:
    case OP_EXP2:
        return first == WHEN_LOWEST ? WHEN_ZERO : WHEN_ANY;
    case OP_CAST:
    case OP_COPY:
        return first;
    default:
        return WHEN_ANY;
    }
}

static When when_of(const MaskCheck *check, const Value *value) {
    return check->known[value->id];
}

// Members in order of id, so that what is asked for is known.
static MaskCheck check_open(const Lowering *lower, const Value *condition) {
    uint32_t count = lower->graph->values.count;
    MaskCheck check = {.lower = lower, .streamed = lower->group->reduced.at[0]};
    check.false_too = arena_array(lower->arena, bool, count + 1);
    check.known = arena_array(lower->arena, When, count + 1);
    check.false_too[condition->id] = true;
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *value = lower->group->members.at[i];
        if (value->op == OP_AND &&
            (check.false_too[value->args[0]->id] || check.false_too[value->args[1]->id]))
            check.false_too[value->id] = true;
        if (dims_has(&value->dims, check.streamed) && value->n_args)
            check.known[value->id] = when_computed(&check, value);
    }
    return check;
}

static bool reduction_ignores(const MaskCheck *check, const Value *value) {
    When first = when_of(check, value->args[0]);
    When second = value->n_args > 1 ? when_of(check, value->args[1]) : WHEN_ANY;
    if (value->op == OP_REDUCE_MAX || value->op == OP_REDUCE_TOP)
        return first == WHEN_LOWEST;
    return (value->op == OP_SUM || value->op == OP_CONTRACT) &&
           (first == WHEN_ZERO || second == WHEN_ZERO);
}

// May the positions where the condition is false for all rows be left out?
static bool can_be_skipped(const Lowering *lower, const Value *condition) {
    MaskCheck check = check_open(lower, condition);
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *value = lower->group->members.at[i];
        bool reduces = false;
        for (uint32_t k = 0; k < value->n_args && value_reduces(value); k++)
            reduces =
                reduces || (dims_has(&value->args[k]->dims, check.streamed) &&
                            (!dims_has(&value->dims, check.streamed) || value_adds_rows(value)));
        if (reduces && !reduction_ignores(&check, value))
            return false;
    }
    for (uint32_t i = 0; i < lower->group->outputs.count; i++) {
        const Value *output = lower->group->outputs.at[i];
        if (dims_has(&output->dims, check.streamed) && !value_adds_rows(output))
            return false; // every element is wanted
    }
    return true;
}

// ---- bounds ------------------------------------------------------------------------------------

typedef struct {
    Lowering *lower;
    const Nest *nest;
    Node *range;
    TileDimId streamed;
    int steps; // values looked at so far, see is_too_long
} Bounder;

typedef struct {
    int32_t lo, hi; // of range->bounds; -1: none
} Interval;

// Conditions that a person writes are short; of endless ones the rest gives no bounds.
static bool is_too_long(Bounder *b) {
    enum { STEPS_MAX = 300 };
    return ++b->steps > STEPS_MAX;
}

static int32_t add_bound(Bounder *b, Bound bound) {
    return range_bound(b->lower->kernel, b->range, bound);
}

static int32_t join_bounds(Bounder *b, BoundKind kind, int32_t x, int32_t y) {
    return add_bound(b, (Bound){.kind = kind, .args = {x, y}});
}

// Both hold, or (either) one of them.
static Interval join_intervals(Bounder *b, Interval x, Interval y, bool either) {
    Interval out = {-1, -1};
    if (x.lo >= 0 && y.lo >= 0)
        out.lo = join_bounds(b, either ? BOUND_MIN : BOUND_MAX, x.lo, y.lo);
    else if (!either)
        out.lo = x.lo >= 0 ? x.lo : y.lo;
    if (x.hi >= 0 && y.hi >= 0)
        out.hi = join_bounds(b, either ? BOUND_MAX : BOUND_MIN, x.hi, y.hi);
    else if (!either)
        out.hi = x.hi >= 0 ? x.hi : y.hi;
    return out;
}

// A sum of positions, extents, numbers and loads: what is left of the streamed dim's position, as a
// bound for the whole box. Only terms with a plus sign have one.
typedef struct {
    Bounder *b;
    bool upper;   // the largest value in the box, or the smallest
    int streamed; // how often the streamed position was met, with its sign
    int64_t number;
    Bound first; // of the terms; the sum so far when there are several
    int terms;
    bool fits;
} LinearSum;

static void add_to_sum(LinearSum *l, Bound bound) {
    if (l->terms++)
        l->first =
            (Bound){.kind = BOUND_ADD, .args = {add_bound(l->b, l->first), add_bound(l->b, bound)}};
    else
        l->first = bound;
}

// The sum with a number.
static int32_t finish_sum(LinearSum *l, int64_t number) {
    Bound constant = {.kind = BOUND_NUMBER, .number = number};
    if (l->terms == 1)
        l->first.number += number;
    else if (l->terms && number)
        add_to_sum(l, constant);
    return add_bound(l->b, l->terms ? l->first : constant);
}

static void add_position(LinearSum *l, TileDimId dim, int sign) {
    if (dim == l->b->streamed) {
        l->streamed += sign;
        return;
    }
    l->fits = l->fits && sign > 0;
    add_to_sum(
        l,
        (Bound){.kind = l->upper ? BOUND_HI : BOUND_LO, .dim = dim, .number = l->upper ? -1 : 0});
}

// An element of a small tensor that is the same for the whole box.
static void add_load(LinearSum *l, const Value *value, int sign) {
    const Lowering *lower = l->b->lower;
    Access access;
    bool fits = sign > 0 && terms_plain_access(lower, value, &access) &&
                elem_is_int(lower->kernel->buffers.at[access.buffer].elem);
    for (int i = 0; fits && i < access.rank; i++)
        fits = set_has(l->b->nest->rows, access.index[i].dim) &&
               access.index[i].dim != lower_chain_dim(lower) && // which may be empty
               l->b->nest->steps[access.index[i].dim] == 1;
    l->fits = l->fits && fits;
    if (fits)
        add_to_sum(l, (Bound){.kind = BOUND_LOAD, .load = access});
}

static void add_linear(LinearSum *l, const Value *value, int sign) {
    l->fits = l->fits && !is_too_long(l->b);
    if (!l->fits)
        return;
    // What another group stores is known by its type and place alone: this group may stand for
    // others, which read other positions there (repeat.c).
    if (!op_is_immediate(value->op) && !l->b->lower->is_member[value->id]) {
        add_load(l, value, sign);
        return;
    }
    switch (value->op) {
    case OP_CONST:
        l->fits = l->fits && value->number == floor(value->number) && fabs(value->number) < 1e15;
        l->number += l->fits ? sign * (int64_t)value->number : 0;
        break;
    case OP_INDEX:
        add_position(l, l->b->lower->dim_of[value->dim], sign);
        break;
    case OP_EXTENT:
        l->fits = l->fits && sign > 0;
        add_to_sum(l, (Bound){.kind = BOUND_EXTENT, .dim = l->b->lower->dim_of[value->dim]});
        break;
    case OP_ADD:
    case OP_SUB:
        add_linear(l, value->args[0], sign);
        add_linear(l, value->args[1], value->op == OP_ADD ? sign : -sign);
        break;
    case OP_NEG:
        add_linear(l, value->args[0], -sign);
        break;
    case OP_CAST:
        l->fits = l->fits && elem_is_int(value->elem) && elem_is_int(value->args[0]->elem);
        add_linear(l, value->args[0], sign);
        break;
    default:
        add_load(l, value, sign);
    }
}

// Where a <= b + slack may hold: the streamed position is on one side with the factor 1.
static Interval at_most(Bounder *b, const Value *small, const Value *large, int64_t slack) {
    Interval out = {-1, -1};
    if (!elem_is_int(small->elem))
        return out;
    for (int upper = 0; upper < 2; upper++) {
        LinearSum l = {.b = b, .upper = upper, .fits = true};
        add_linear(&l, upper ? large : small, 1);
        add_linear(&l, upper ? small : large, -1);
        if (!l.fits || l.streamed != -1)
            continue;
        int64_t number = l.number + (upper ? slack + 1 : -slack);
        int32_t bound = finish_sum(&l, number);
        *(upper ? &out.hi : &out.lo) = bound;
    }
    return out;
}

static Interval interval_of(Bounder *b, const Value *condition, bool holds) {
    Interval none = {-1, -1};
    if (!b->lower->is_member[condition->id] || !condition->n_args || is_too_long(b))
        return none;
    const Value *x = condition->args[0], *y = condition->n_args > 1 ? condition->args[1] : NULL;
    switch (condition->op) {
    case OP_AND:
    case OP_OR:
        return join_intervals(b, interval_of(b, x, holds), interval_of(b, y, holds),
                              (condition->op == OP_OR) == holds);
    case OP_NOT:
        return interval_of(b, x, !holds);
    case OP_LE:
        return holds ? at_most(b, x, y, 0) : at_most(b, y, x, -1);
    case OP_LT:
        return holds ? at_most(b, x, y, -1) : at_most(b, y, x, 0);
    case OP_EQ:
    case OP_NE:
        if ((condition->op == OP_EQ) != holds)
            return none;
        return join_intervals(b, at_most(b, x, y, 0), at_most(b, y, x, 0), false);
    default:
        return none;
    }
}

// ---- searching ---------------------------------------------------------------------------------

// Is it computed point by point from what is in memory, and not from what the group sums?
static bool is_pointwise(const Lowering *lower, const Value *condition) {
    const ValueList *members = &lower->group->members;
    bool *sums = arena_array(lower->arena, bool, lower->graph->values.count + 1);
    for (uint32_t i = 0; i < members->count; i++) {
        const Value *value = members->at[i];
        sums[value->id] = value_reduces(value);
        for (uint32_t k = 0; k < value->n_args; k++)
            sums[value->id] = sums[value->id] || sums[value->args[k]->id];
    }
    return !sums[condition->id];
}

// Does the condition vary along the streamed dim and the rows only, and not along heads?
static bool can_be_searched(const Nest *nest, const Value *condition) {
    DimSet dims = lower_dim_set(nest->lower, &condition->dims);
    return !(dims & ~(nest->rows | nest->streamed)) && (dims & nest->streamed) &&
           is_pointwise(nest->lower, condition);
}

// The first position where the condition holds for a row of the task, and one past the last.
static Interval search_interval(Bounder *b, const Value *condition, NodeList *into) {
    Lowering *lower = b->lower;
    Kernel *kernel = lower->kernel;
    TileBuffer first = scratch_plain("first", ELEM_I32, (TileDimList){0});
    first.has_initial = true;
    first.initial = INT_MAX;
    TileBuffer end = scratch_plain("end", ELEM_I32, (TileDimList){0});
    end.has_initial = true;
    uint16_t first_at = node_scratch_with(kernel, into, first);
    uint16_t end_at = node_scratch_with(kernel, into, end);
    DimSet box = lower_dim_set(lower, &condition->dims) | set_of(b->streamed);
    TileDimList dims = lower_order(box, &b->nest->order);
    Stage *stage = node_compute(kernel, into, dims, b->streamed);
    TermBuilder terms = terms_open(lower, stage);
    int32_t holds = terms_value(&terms, condition);
    int32_t at = terms_cast(&terms, stage_index(kernel, stage, b->streamed), ELEM_I32);
    int32_t one = stage_const(kernel, stage, 1, ELEM_I32);
    int32_t next = stage_op(kernel, stage, OP_ADD, ELEM_I32, at, one, -1);
    int32_t none = stage_const(kernel, stage, INT_MAX, ELEM_I32);
    int32_t zero = stage_const(kernel, stage, 0, ELEM_I32);
    stage_sink(kernel, stage, SINK_MIN, access_plain(kernel, first_at),
               stage_op(kernel, stage, OP_SELECT, ELEM_I32, holds, at, none));
    stage_sink(kernel, stage, SINK_MAX, access_plain(kernel, end_at),
               stage_op(kernel, stage, OP_SELECT, ELEM_I32, holds, next, zero));
    return (Interval){
        add_bound(b, (Bound){.kind = BOUND_LOAD, .load = access_plain(kernel, first_at)}),
        add_bound(b, (Bound){.kind = BOUND_LOAD, .load = access_plain(kernel, end_at)})};
}

// ---- the range ---------------------------------------------------------------------------------

static void add_condition(Bounder *b, const Value *condition, NodeList *into, Interval *all) {
    if (is_too_long(b))
        return;
    if (condition->op == OP_AND && b->lower->is_member[condition->id]) {
        add_condition(b, condition->args[0], into, all);
        add_condition(b, condition->args[1], into, all);
        return;
    }
    if (!can_be_skipped(b->lower, condition))
        return;
    Interval interval = interval_of(b, condition, true);
    bool unknown = interval.lo < 0 && interval.hi < 0;
    if (unknown && b->lower->is_member[condition->id] && can_be_searched(b->nest, condition))
        interval = search_interval(b, condition, into);
    *all = join_intervals(b, *all, interval, false);
}

NodeList *stream_open_range(Lowering *lower, const Nest *nest, TileDimId streamed, NodeList *into) {
    // Made apart, so that what searches comes before it.
    NodeList apart = {0};
    Node *range = node_range(lower->kernel, &apart, streamed);
    Bounder b = {lower, nest, range, streamed, 0};
    Interval all = {-1, -1};
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *value = lower->group->members.at[i];
        if (value->op == OP_SELECT && dims_has(&value->args[0]->dims, lower->group->reduced.at[0]))
            add_condition(&b, value->args[0], into, &all);
    }
    if (all.lo < 0 && all.hi < 0)
        return into;
    range->lo = all.lo;
    range->hi = all.hi;
    range->align = machine_panel_lanes(lower->machine, sizeof(float));
    vec_push(lower->kernel->arena, into, range);
    return &range->body;
}
