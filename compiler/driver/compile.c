// SPDX-License-Identifier: Apache-2.0
// What several commands start with: a target, and the passes up to some stage.
#include "driver/driver.h"

const Target *driver_target(Options *options) {
    if (options->target)
        return options->target;
    const char *why = NULL;
    options->target = target_host(&why);
    if (!options->target)
        problem(options, "no target fits this machine: %s", why);
    return options->target;
}

bool driver_compile(Options *options, const Target *target, PipelineStop stop, Compilation *out) {
    double begun = pipeline_seconds();
    Program *program = pipeline_front(options->session, options->file);
    if (!program)
        return false;
    if (options->time_passes)
        pipeline_print_time("front", begun, true);
    PipelineOptions passes = {
        .entry = options->entry,
        .target = target,
        .stop = stop,
        .verify = options->verify_passes,
        .time_passes = options->time_passes,
    };
    return pipeline_run(options->session, program, &passes, out);
}
