// SPDX-License-Identifier: Apache-2.0
// Which loops over the streamed dim a group needs, and what is computed in each.
//
//     top = max L;  e = exp(L - top);  z = sum e;  O = sum (e / z) V        over m
//
// A reduction runs in the first loop in which everything its elements are made of is known: top in
// loop 1, z in loop 2, O in loop 3. Online softmax (Milakov and Gimelshein 2018) needs fewer: when
// a reduction is linear in powers base**(x - shift) and the shift is known at the end of loop l
// only, the reduction may run in loop l, too, if it is rescaled whenever the shift has moved. That
// holds as long as nothing on the way sums over a dim of the shift (heads that are mixed after the
// softmax have maxima of their own and need a second loop), and where the shift is the bounded
// maximum of what it is taken from; see graph_expand.
//
// Requires: a streamed group. Ensures: by value id, see StreamLoops.
#include "tile/lower/stream.h"

// ---- linear in a power -------------------------------------------------------------------------

static bool is_member(const Lowering *lower, const Value *value) {
    return lower->is_member[value->id];
}

static bool is_wide(const StreamLoops *s, const Value *value) {
    return dims_has(&value->dims, s->streamed);
}

// The loop before which a value is known, whatever plays a part in it; powers relative to `shift`
// excepted.
static uint32_t known_without(const StreamLoops *s, const Value *value, const Value *power) {
    if (!is_member(s->lower, value) || value == power)
        return 0;
    return is_wide(s, value) ? s->first[value->id] - 1 : s->done[value->id];
}

static bool sums_over(const Value *contraction, const DimList *dims) {
    DimList kept = dims_intersect(dims, &contraction->dims);
    return kept.count < dims->count;
}

static Linear linear_of(const StreamLoops *s, const Value *value) {
    return is_member(s->lower, value) && is_wide(s, value) ? s->linear[value->id] : (Linear){0};
}

// Requires: done for the members with smaller ids, which have their loops.
static Linear find_linear(const StreamLoops *s, const Value *value) {
    bool shifts = (value->op == OP_EXP || value->op == OP_EXP2) && value->args[0]->op == OP_SUB;
    if (shifts && !is_wide(s, value->args[0]->args[1]))
        return (Linear){value, known_without(s, value->args[0]->args[0], NULL)};
    bool linear = value->op == OP_MUL || value->op == OP_CONTRACT || value->op == OP_NEG ||
                  value->op == OP_CAST || value->op == OP_COPY;
    if (value->op == OP_SELECT && (value_is_zero(value->args[1]) || value_is_zero(value->args[2])))
        linear = true;
    for (uint32_t k = 0; linear && k < value->n_args; k++) {
        Linear found = linear_of(s, value->args[k]);
        if (!found.power ||
            (value->op == OP_CONTRACT && sums_over(value, &found.power->args[0]->args[1]->dims)))
            continue;
        for (uint32_t i = 0; i < value->n_args; i++) {
            uint32_t known = i == k ? 0 : known_without(s, value->args[i], NULL);
            found.others = known > found.others ? known : found.others;
        }
        return found;
    }
    return (Linear){0};
}

const Value *stream_mixes(const StreamLoops *s, DimList *mixed) {
    for (uint32_t i = 0; i < s->lower->group->members.count; i++) {
        const Value *value = s->lower->group->members.at[i];
        for (uint32_t k = 0; value->op == OP_CONTRACT && k < value->n_args; k++) {
            const Value *power = linear_of(s, value->args[k]).power;
            if (!power || !sums_over(value, &power->args[0]->args[1]->dims))
                continue;
            *mixed = dims_minus(&power->args[0]->args[1]->dims, &value->dims);
            return value;
        }
    }
    return NULL;
}

static const Value *reduction_power(const StreamLoops *s, const Value *reduction,
                                    uint32_t *others) {
    if (reduction->op != OP_SUM && reduction->op != OP_CONTRACT)
        return NULL;
    for (uint32_t k = 0; k < reduction->n_args; k++) {
        Linear found = linear_of(s, reduction->args[k]);
        const Value *power = found.power;
        *others = found.others;
        for (uint32_t i = 0; power && i < reduction->n_args; i++) {
            uint32_t known = i == k ? 0 : known_without(s, reduction->args[i], NULL);
            *others = known > *others ? known : *others;
        }
        if (power && dims_subset(&power->args[0]->args[1]->dims, &reduction->dims))
            return power;
    }
    return NULL;
}

// ---- loops -------------------------------------------------------------------------------------

static bool streams_away(const StreamLoops *s, const Value *value) {
    for (uint32_t k = 0; k < value->n_args; k++)
        if (value_reduces(value) && !is_wide(s, value) && is_wide(s, value->args[k]))
            return true;
    return false;
}

static uint32_t latest_known(const StreamLoops *s, const Value *value) {
    uint32_t latest = 0;
    for (uint32_t k = 0; k < value->n_args; k++) {
        uint32_t known = known_without(s, value->args[k], NULL);
        latest = known > latest ? known : latest;
    }
    return latest;
}

// The bounded largest of its elements: a finite number, whatever part of them it has seen, and none
// of them is far above it.
static bool bounds_elements(const Value *power) {
    const Value *by = power->args[0];
    return value_made_finite(by->args[1]) && value_as_largest(by->args[1], by->args[0]);
}

static void place_reduction(StreamLoops *s, const Value *value) {
    uint32_t loop = latest_known(s, value) + 1, others = 0;
    const Value *power = s->rescales ? reduction_power(s, value, &others) : NULL;
    if (power) {
        const Value *shift = power->args[0]->args[1];
        uint32_t running = known_without(s, shift, NULL);
        if (bounds_elements(power) && running && others < running && running < loop) {
            s->power[value->id] = power;
            loop = running;
        }
    }
    s->done[value->id] = loop;
    s->n_loops = loop > s->n_loops ? loop : s->n_loops;
}

StreamLoops *stream_loops(const Lowering *lower, bool rescales) {
    StreamLoops *s = arena_new_of(lower->arena, StreamLoops);
    uint32_t count = lower->graph->values.count;
    s->lower = lower;
    s->streamed = lower->group->reduced.at[0];
    s->rescales = rescales;
    s->first = arena_array(lower->arena, uint32_t, count + 1);
    s->done = arena_array(lower->arena, uint32_t, count + 1);
    s->linear = arena_array(lower->arena, Linear, count + 1);
    s->power = arena_array(lower->arena, const Value *, count + 1);
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *value = lower->group->members.at[i];
        uint32_t known = latest_known(s, value);
        if (is_wide(s, value)) {
            s->first[value->id] = known + 1;
            s->linear[value->id] = find_linear(s, value);
        } else if (streams_away(s, value)) {
            place_reduction(s, value);
        } else {
            s->done[value->id] = known;
        }
    }
    for (uint32_t i = 0; i < lower->group->outputs.count; i++) {
        const Value *output = lower->group->outputs.at[i];
        if (is_wide(s, output) && s->first[output->id] > s->n_loops)
            s->n_loops = s->first[output->id];
    }
    return s;
}

bool stream_reduces_in(const StreamLoops *s, const Value *value, uint32_t loop) {
    return streams_away(s, value) && s->done[value->id] == loop;
}
