// SPDX-License-Identifier: Apache-2.0
// attc check: names, dims and types. Prints nothing when all is well.
#include "driver/driver.h"

int command_check(Options *options) {
    return pipeline_front(options->session, options->file) ? EXIT_FINE : EXIT_PROBLEM;
}
