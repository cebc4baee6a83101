// SPDX-License-Identifier: Apache-2.0
// Signals while attc tune works: the first ends the search, the second everything. They are held
// back, and looked for between runs.
#include <math.h>
#include <time.h>

#include "driver/tune/tuning.h"

// For the last comparison once the search is interrupted, which takes longer where its least number
// of runs does.
static const double SECONDS_TO_END = 10;

static void end_search(Tuner *tuner) {
    double until = pipeline_seconds() - tuner->begun + SECONDS_TO_END;
    tuner->budget = tuner->budget ? fmin(tuner->budget, until) : until;
}

// Interrupts are heeded and end here; other signals that end processes do so when all is kept, and
// count as one however often they are seen.
void tuner_look_at_signals(Tuner *tuner) {
    static const struct timespec at_once = {0};
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    sigaddset(&interrupts, SIGTERM);
    sigandset(&interrupts, &interrupts, &tuner->held.ending);
    if (!att_signals_came(&tuner->held))
        return;
    bool is_interrupt = sigtimedwait(&interrupts, NULL, &at_once) > 0;
    if (!tuner->signals)
        end_search(tuner);
    tuner->signals += is_interrupt || !tuner->signals;
}

bool tuner_is_ended(Tuner *tuner) {
    tuner_look_at_signals(tuner);
    return tuner->signals > 1;
}
