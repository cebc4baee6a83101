// SPDX-License-Identifier: Apache-2.0
// attc build: libraries, objects and programs, with code for every level of the architecture.
#include "driver/driver.h"

#include <string.h>

// The levels a product holds: the one asked for, or all that share the host's triple.
static uint32_t product_targets(Options *options, const Target **out, uint32_t room) {
    if (options->target_given) {
        out[0] = options->target;
        return 1;
    }
    const Target *host = driver_target(options);
    uint32_t n = 0;
    for (const Target *const *t = targets_all(); host && *t && n < room; t++)
        if (!strcmp((*t)->triple, host->triple))
            out[n++] = *t;
    return n;
}

int command_build(Options *options) {
    if (options->outputs.count != 1)
        return usage_error("%s: give one -o OUT", options->command);
    enum { LEVELS_MAX = 8 };
    const Target *targets[LEVELS_MAX];
    TileProgram *programs[LEVELS_MAX];
    uint32_t n = product_targets(options, targets, LEVELS_MAX);
    if (!n)
        return EXIT_PROBLEM;
    Program *program = pipeline_front(options->session, options->file);
    if (!program || !driver_may_write(options, options->outputs.at[0]))
        return EXIT_PROBLEM;
    for (uint32_t i = 0; i < n; i++) {
        PipelineOptions passes = driver_passes(options, targets[i], AFTER_TILE);
        Compilation compiled;
        if (!pipeline_run(options->session, program, &passes, &compiled))
            return EXIT_PROBLEM;
        programs[i] = compiled.tile;
    }
    ProductOptions product = {
        .kind = options->product,
        .output = options->outputs.at[0],
        .runtime_archive = ATTC_RUNTIME_ARCHIVE,
        .source = options->file,
    };
    const char *why = NULL;
    if (!product_write(options->session, programs, targets, n, &options->cache, &product, &why))
        return problem(options, "%s", why);
    return EXIT_FINE;
}
