// SPDX-License-Identifier: Apache-2.0
// A machine as a record of facts plus a few hooks. Plain C, no llvm-c: the tile level reads the
// facts.
#ifndef ATTC_TARGET_H
#define ATTC_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct EmitModule;
struct Kernel;

typedef struct Target Target;
struct Target {
    const char *name;   // "x86-64-v4": as given to --target
    const char *triple; // LLVM triple
    const char *cpu; // LLVM cpu name; functions carry it, so that one module holds several levels
    const char *features; // LLVM feature string, may be ""
    int level; // ATT_LEVEL_* of runtime/module.h: what the loader must find on the machine
    // registers
    int vector_bytes; // width of the vectors that kernels use
    int vector_registers;
    bool has_masks; // masked loads and stores cost the same as plain ones
    // microkernel: largest clean shape with the operand of the rows unpacked or packed (FACTS.md
    // section 2)
    int rows_unpacked, vectors_unpacked;
    int rows_packed, vectors_packed;
    // memory
    int64_t l1_bytes, l2_bytes, l3_bytes;
    // rates of one core, for the cost model
    double flops_per_second; // f32, fused multiply-add counts two
    double l1_bytes_per_second, l2_bytes_per_second, l3_bytes_per_second, memory_bytes_per_second;
    double exp_per_second; // f32 elements of a vector exp
    // hooks
    // Emits `symbol` and `symbol`_scratch for a kernel (calling convention in emit/emit.h).
    void (*emit_kernel)(struct EmitModule *module, const struct Kernel *kernel,
                        const Target *target, const char *symbol);
};

// ---- fact tables: cpu/x86_64.c ----
extern const Target x86_64_v3, x86_64_v4;

// ---- targets.c ----
// Every target, NULL-terminated. A CPU library is built for all levels of one architecture.
const Target *const *targets_all(void);
const Target *target_find(const char *name); // NULL: unknown
// Best level this machine can run; NULL when it has none of them (then why says what is missing).
const Target *target_host(const char **why);

#endif
