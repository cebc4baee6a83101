// SPDX-License-Identifier: Apache-2.0
// What kernels, and steps of training, are judged by. Not in libraries: its loops are of the higher
// levels of instructions.
#ifndef ATT_PEAK_H
#define ATT_PEAK_H

#include "attc.h"

// f32 floating-point operations per second (a fused multiply-add counts two) that the context's
// threads reach together on registers alone, with vectors of 32 or 64 bytes. About a millisecond.
// 0: it is not known how, or memory is lacking.
ATT_API double att_peak_flops(AttContext *ctx, int vector_bytes);

#endif
