// SPDX-License-Identifier: Apache-2.0
// The order in which stages walk through their points, as lowering and the search agree on it.
#include "tile/schedule/schedule.h"

TileDimList schedule_copy_order(const TileDimList *source, TileDimId lanes) {
    TileDimId last = source->count ? source->at[source->count - 1] : TILE_DIM_NONE;
    if (last == lanes)
        return *source;
    TileDimList order = {0};
    for (int i = 0; i < source->count - 1; i++)
        if (source->at[i] != lanes)
            order.at[order.count++] = source->at[i];
    order.at[order.count++] = last;
    order.at[order.count++] = lanes;
    return order;
}
