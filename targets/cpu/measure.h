// SPDX-License-Identifier: Apache-2.0
// Measuring a machine, shared by the files that do.
#ifndef ATTC_CPU_MEASURE_H
#define ATTC_CPU_MEASURE_H

#include "cpu/cpu.h"

// ---- caches.c ----
enum { MEASURE_RATES_MOST = 1200 }; // that are ranked
// Of range number i, of those that cpu_set_caches gets the rates of.
size_t measure_range_bytes(int i);
// Of the rates [from, to) the one that `share` of them are below, and the one that half are.
double measure_ranked(const double *rates, int from, int to, double share);
double measure_median(const double *rates, int from, int to);

#endif
