// SPDX-License-Identifier: Apache-2.0
// attc build: libraries, objects and programs, with code for every level of the architecture.
#include "driver/driver.h"

#include <string.h>

// The levels a product holds: the one asked for, or all that share the host's triple. 0 after a
// message.
static uint32_t product_targets(Options *options, const Target **out, uint32_t room) {
    const Target *first = driver_target(options);
    if (!first || options->target) {
        out[0] = first;
        return first != NULL;
    }
    uint32_t n = 0;
    for (const Target *const *t = targets_all(); *t && n < room; t++) {
        if (strcmp((*t)->triple, first->triple) != 0)
            continue;
        out[n] = driver_planned(options, *t);
        if (!out[n++])
            return 0;
    }
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
        passes.only_tile = true;
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
