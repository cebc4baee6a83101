// SPDX-License-Identifier: Apache-2.0
// A target: names for LLVM, a few hooks, and the machine that code is planned for. Plain C, no
// llvm-c.
#ifndef ATTC_TARGET_H
#define ATTC_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/machine.h"

struct EmitModule;
struct Kernel;

typedef struct Target Target;
struct Target {
    const char *name;   // "x86-64-v4": as given to --target
    const char *triple; // LLVM triple
    const char *cpu; // LLVM cpu name; functions carry it, so that one module holds several levels
    const char *features; // LLVM feature string, may be ""
    int level;       // ATT_LEVEL_* of runtime/module.h: what the loader must find on the machine
    Machine machine; // facts of a common machine that runs it
    // hooks
    // Fills in caches, rates and threads of the machine that this runs on, which must be able to
    // run the target. false: it could not be done, nothing was changed.
    bool (*measure)(Machine *machine);
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
