// SPDX-License-Identifier: Apache-2.0
// Signals while attc tune works: the first ends the search, the second everything. They are held
// back, and looked for between runs.
#include <time.h>

#include "driver/tune/tuning.h"

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
    tuner->signals += is_interrupt || !tuner->signals;
}

bool tuner_is_ended(Tuner *tuner) {
    tuner_look_at_signals(tuner);
    return tuner->signals > 1;
}
