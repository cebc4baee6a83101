// SPDX-License-Identifier: Apache-2.0
// Which lowering a group takes, and whether its kernel asks for anything ahead.
#include "tile/lower/lower.h"

// false: better lowered as rows.
static bool lower_as_contraction(Lowering *lower) {
    ContractSchedule schedule;
    return lower_contracting(lower, &schedule) && lower_contract(lower, &schedule);
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
    if (lower->wanted && kernel_asks_ahead(kernel))
        kernel->schedule.prefetch = lower->wanted->prefetch;
    return true;
}
