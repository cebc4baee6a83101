// SPDX-License-Identifier: Apache-2.0
// Why a plan cannot work off a streamed group, in the words of someone who reads the source.
//
//     U[n, m, h_v] = einsum(W[n, m, h], P_w[h, h_v])       # --plan stream
//     -> "h is mixed after the softmax: one pass over m is not enough"
#include "tile/lower/stream.h"

static bool is_wide(const Lowering *lower, const Value *value) {
    return dims_has(&value->dims, lower->group->reduced.at[0]);
}

static const char *streamed_name(const Lowering *lower) {
    return lower->graph->dims.at[lower->group->reduced.at[0]].name;
}

// Of a group with more than one loop, which is what one pass is not enough for.
static PlanMisfit more_than_one(const Lowering *lower, const StreamLoops *loops) {
    Arena *arena = lower->kernel->arena;
    const Group *group = lower->group;
    DimList mixed;
    const Value *mix = stream_mixes(loops, &mixed);
    if (mix) {
        Text text = {.arena = arena};
        for (uint32_t i = 0; i < mixed.count; i++)
            text_printf(&text, "%s%s", i ? ", " : "", lower->graph->dims.at[mixed.at[i]].name);
        text_printf(&text, " %s mixed after the softmax: one pass over %s is not enough",
                    mixed.count > 1 ? "are" : "is", streamed_name(lower));
        return (PlanMisfit){.why = text.at, .by = mix};
    }
    for (uint32_t i = 0; i < group->members.count; i++) {
        const Value *value = group->members.at[i];
        bool wide = is_wide(lower, value);
        if ((wide ? loops->first[value->id] : loops->done[value->id]) <= 1)
            continue;
        const char *why = wide ? "values over %s need the result of a reduction over it: one pass "
                                 "is not enough"
                               : "a reduction over %s needs the result of another: one pass is not "
                                 "enough";
        return (PlanMisfit){.why = arena_printf(arena, why, streamed_name(lower)), .by = value};
    }
    ice("misfit: one loop is enough");
}

PlanMisfit lower_misfit(const Lowering *lower, PlanKind plan) {
    Arena *arena = lower->kernel->arena;
    const StreamLoops *loops = stream_loops(lower, plan != PLAN_SPILL);
    switch (plan) {
    case PLAN_STREAM:
        if (loops->n_loops > 1)
            return more_than_one(lower, loops);
        return (PlanMisfit){.why = "nothing is reduced in its pass"};
    case PLAN_TWO_PASS:
        return (PlanMisfit){
            .why = arena_printf(arena, "one pass over %s is enough", streamed_name(lower))};
    case PLAN_SPILL:
        return (PlanMisfit){.why =
                                arena_printf(arena, "nothing is needed again after a pass over %s",
                                             streamed_name(lower))};
    default:
        ice("misfit: plan %s can do every group", plan_names[plan]);
    }
}
