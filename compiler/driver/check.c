// SPDX-License-Identifier: Apache-2.0
// attc check: names, dims and types of all defs, then what shows only once the entry is put
// together, as far as the extents that are known tell. Prints nothing when all is well.
#include "driver/driver.h"

int command_check(Options *options) {
    const Program *program = pipeline_front(options->session, options->file);
    if (!program)
        return EXIT_PROBLEM;
    EntryOptions entry = options->entry;
    entry.open_extents = true;
    graph_build(options->session, program, &entry);
    return EXIT_FINE; // unless it reported something
}
