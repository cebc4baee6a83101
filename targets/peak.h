// SPDX-License-Identifier: Apache-2.0
// Measuring what a kernel is judged by.
#ifndef ATTC_CPU_PEAK_H
#define ATTC_CPU_PEAK_H

#include "attc.h"

// f32 floating-point operations per second (a fused multiply-add counts two) that the context's
// threads reach together on registers alone, with vectors of 32 or 64 bytes. About a millisecond.
double cpu_peak_flops(AttContext *context, int vector_bytes);

#endif
