// SPDX-License-Identifier: Apache-2.0
// What an interrupt leaves of a search's time.
#include "support.h"

#include <signal.h>

#include "driver/tune/tuning.h"

// Seconds that an interrupt after `spent` of them leaves of a budget.
static double budget_after_interrupts(double budget, double spent, int interrupts) {
    Tuner tuner = {.budget = budget, .begun = pipeline_seconds() - spent};
    signal(SIGINT, SIG_DFL);
    att_signals_hold(&tuner.held);
    for (int i = 0; i < interrupts; i++) {
        tuner.begun -= i * spent;
        raise(SIGINT);
        tuner_look_at_signals(&tuner);
    }
    assert_int_equal(tuner.signals, interrupts);
    att_signals_release(&tuner.held);
    return tuner.budget;
}

// Ten more, where there are none or more; the next one adds nothing.
static void an_interrupt_leaves_seconds_for_the_last_comparison(void **state) {
    (void)state;
    double after = budget_after_interrupts(0, 100, 1);
    assert_true(after >= 110 && after < 115);
    after = budget_after_interrupts(1000, 100, 2);
    assert_true(after >= 110 && after < 115);
    assert_true(budget_after_interrupts(105, 100, 1) == 105);
    assert_true(budget_after_interrupts(105, 100, 0) == 105);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupt_leaves_seconds_for_the_last_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
