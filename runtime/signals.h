// SPDX-License-Identifier: Apache-2.0
// Holding back the signals that end a process while files are about that must not stay behind.
#ifndef ATT_SIGNALS_H
#define ATT_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

// For main: a file that outgrows the limit of the process is an error of who writes it, as on a
// full disk, and does not end the process.
void att_signals_let_writing_fail(void);

typedef struct {
    sigset_t before; // the mask to go back to
    sigset_t ending; // what is held: interrupt, terminate and their like that nobody handles
} AttHeldSignals;

// Holds them back in the calling thread. Other threads must not let them in either: those of the
// pool do not, and nothing else runs where this is used.
void att_signals_hold(AttHeldSignals *held);
// One has come in: time to give up and clean up.
bool att_signals_came(const AttHeldSignals *held);
// What has come in ends the process here.
void att_signals_release(const AttHeldSignals *held);

#endif
