// SPDX-License-Identifier: Apache-2.0
// Signals that end training after a step. The first one does nothing but take away its handler,
// which is how it is noticed after the step; so a second one ends the process, at once. Whoever
// ignores them is not asked.

#include <signal.h>

#include "train/loop/loop.h"

static const int ending[] = {SIGINT, SIGTERM};
enum { N_ENDING = sizeof ending / sizeof ending[0] };

static void handle(int number) {
    (void)number;
}

void att_ending_await(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART | SA_RESETHAND}, old;
    for (int i = 0; i < N_ENDING; i++)
        if (!sigaction(ending[i], NULL, &old) && old.sa_handler == SIG_DFL)
            sigaction(ending[i], &action, NULL);
}

bool att_ending_came(AttEnding *e) {
    struct sigaction now;
    for (int i = 0; i < N_ENDING && !e->came; i++)
        e->came = !sigaction(ending[i], NULL, &now) && now.sa_handler == SIG_DFL;
    for (int i = 0; i < N_ENDING && e->came; i++)
        if (!sigaction(ending[i], NULL, &now) && now.sa_handler == handle)
            signal(ending[i], SIG_DFL);
    return e->came;
}
