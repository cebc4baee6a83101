// SPDX-License-Identifier: Apache-2.0
// A small entry made by hand for tests of emit and product, with targets whose kernels are lines of
// LLVM, so that nothing of graph passes, lowering or the real targets takes part:
//
//     def Scale(X[n, d], U[m], gain[d]):        dim d = 5, dim m like n
//         T[n, d] = 2 * X[n, d]
//         Y[n, d] = 3 * T[n, d]
#ifndef ATTC_TESTS_EMIT_FIXTURE_H
#define ATTC_TESTS_EMIT_FIXTURE_H

#include "product/product.h"

extern const Target fixture_v3, fixture_v4;

// A kernel y = factor * x over one dim, in tasks of `step`.
Kernel *fixture_kernel(Session *session, const char *name, double factor, int64_t step);
// The entry's program; the v4 one has other kernels and an intermediate of its own.
TileProgram *fixture_program(Session *session, const Target *target, const char *entry);
// Objects of one program's kernels.
bool fixture_emit(Session *session, TileProgram *program, const Target *target,
                  const CacheOptions *cache, KernelObject *out, const char **why);

#endif
