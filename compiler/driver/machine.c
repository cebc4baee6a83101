// SPDX-License-Identifier: Apache-2.0
// attc machine: the facts of the machine that code is planned for, as a machine file.
#include "driver/driver.h"

int command_machine(Options *options) {
    const Target *target = driver_target(options);
    if (!target)
        return EXIT_PROBLEM;
    Machine machine = driver_machine(options, target);
    report_print_json(machine_to_json(&machine));
    return EXIT_FINE;
}
