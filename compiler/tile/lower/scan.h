// SPDX-License-Identifier: Apache-2.0
// Between scan.c and scan_tasks.c: what was chosen for a recurrence before its loop is written.
#ifndef ATTC_TILE_LOWER_SCAN_H
#define ATTC_TILE_LOWER_SCAN_H

#include "tile/lower/lower.h"

typedef struct {
    Lowering *lower;
    TileDimList order; // of dims in scratch and boxes
    TileDimId lanes;
    DimSet tasks; // dims that are cut
} ScanLowering;

DimSet scan_dims(const Lowering *lower);
ScanLowering scan_choose(Lowering *lower);
// Opens the parallel loops: one position of a dim for each task as long as enough is left for a
// step or threads would have nothing to do, and pieces of the lanes where these are all there is.
NodeList *scan_open_tasks(const ScanLowering *s);

#endif
