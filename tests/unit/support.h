// SPDX-License-Identifier: Apache-2.0
// What unit tests share: an ice() that a test can expect.
#ifndef ATTC_TESTS_SUPPORT_H
#define ATTC_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Runs the statement and fails the test unless it ends in ice() with a message containing `part`.
#define expect_ice(part, ...)                                                                      \
    do {                                                                                           \
        if (setjmp(*ice_arm()) == 0) {                                                             \
            __VA_ARGS__;                                                                           \
            ice_disarm();                                                                          \
            fail_msg("no ice() where \"%s\" was expected", (part));                                \
        }                                                                                          \
        ice_check(part);                                                                           \
    } while (0)
jmp_buf *ice_arm(void);
void ice_disarm(void);
void ice_check(const char *part); // disarms; fails the test unless the message has this part

// Long sweeps over combinations of what is tested one by one take each SWEEP_STEP-th of them: their
// values are for other builds to check where each access to memory is checked.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define INSTRUMENTED 1
#endif
#endif
#ifndef INSTRUMENTED
#define INSTRUMENTED 0
#endif
#define SWEEP_STEP (INSTRUMENTED ? 7 : 1)

#endif
