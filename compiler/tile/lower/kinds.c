// SPDX-License-Identifier: Apache-2.0
// Which lowering a group takes, and whether its kernel asks for anything ahead.
#include "tile/lower/lower.h"

// false: better lowered as rows.
static bool lower_as_contraction(Lowering *lower) {
    ContractSchedule schedule;
    return lower_contracting(lower, &schedule) && lower_contract(lower, &schedule);
}

static bool stage_asks(const Kernel *kernel, const Stage *stage) {
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_LOAD &&
            stage_crosses(kernel, stage, &stage->terms.at[i].load))
            return true;
    return stage_has_microkernel(stage);
}

// May a target ask for anything before it is read: in microkernels, and for copies across lanes?
static bool nodes_ask(const Kernel *kernel, const NodeList *body) {
    bool ask = false;
    for (uint32_t i = 0; i < body->count && !ask; i++)
        ask = body->at[i]->kind == NODE_STAGE ? stage_asks(kernel, body->at[i]->stage)
                                              : nodes_ask(kernel, &body->at[i]->body);
    return ask;
}

static bool lower_group(Lowering *lower) {
    const Group *group = lower->group;
    if (group->kind == GROUP_STREAM) {
        StreamSchedule schedule = lower_streaming(lower);
        return lower_stream(lower, &schedule);
    }
    if (group->kind == GROUP_SCAN)
        lower_scan(lower);
    else if (group->kind == GROUP_ORDER)
        lower_argsort(lower);
    else if (group->kind == GROUP_SCATTER)
        lower_scatter(lower);
    else if (group->kind != GROUP_ROWS && !group->contraction)
        lower_map(lower);
    else if (!group->contraction || !lower_as_contraction(lower))
        lower_rows_by_cost(lower);
    return true;
}

bool lower_kind(Lowering *lower) {
    if (!lower_group(lower))
        return false;
    Kernel *kernel = lower->kernel;
    if (lower->wanted && nodes_ask(kernel, &kernel->body))
        kernel->schedule.prefetch = lower->wanted->prefetch;
    return true;
}
