// SPDX-License-Identifier: Apache-2.0
// The time.

#include <time.h>

#include "internal.h"

double att_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
