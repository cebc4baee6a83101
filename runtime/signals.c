// SPDX-License-Identifier: Apache-2.0
// A process that is interrupted leaves no temporary files. There is no handler: signals wait while
// there is something to remove, work looks now and then whether one waits, and once all is removed
// it takes its course. A signal that the program handles itself or ignores is left alone.

#include "signals.h"

#include <stddef.h>

void att_signals_let_writing_fail(void) {
    signal(SIGXFSZ, SIG_IGN);
}

void att_signals_hold(AttHeldSignals *held) {
    // All that end a process, but those of a fault in it.
    static const int signals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,   SIGXCPU, SIGXFSZ, SIGPIPE,
                                  SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGPOLL};
    sigemptyset(&held->ending);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction action;
        bool handled = sigaction(signals[i], NULL, &action) != 0 ||
                       (action.sa_flags & SA_SIGINFO) || action.sa_handler != SIG_DFL;
        if (!handled)
            sigaddset(&held->ending, signals[i]);
    }
    pthread_sigmask(SIG_BLOCK, &held->ending, &held->before);
}

bool att_signals_came(const AttHeldSignals *held) {
    sigset_t came;
    sigemptyset(&came);
    sigpending(&came);
    sigandset(&came, &came, &held->ending);
    return !sigisemptyset(&came);
}

void att_signals_release(const AttHeldSignals *held) {
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}
