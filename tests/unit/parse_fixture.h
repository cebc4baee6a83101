// SPDX-License-Identifier: Apache-2.0
// What the tests of parsing share: a text parsed, printed, and its mistakes in short.
#ifndef ATTC_TESTS_PARSE_FIXTURE_H
#define ATTC_TESTS_PARSE_FIXTURE_H

#include "support.h"

#include "ast/ast.h"

typedef struct {
    Session *session;
    Program *program;
    char *printed; // the program as source text
    char *errors;  // "line:column message | hint\n" for each
} Parsed;

Parsed parse_bytes(const char *text, size_t length);
void parsed_free(Parsed *p);
// The text has no mistakes, prints as expected, and what is printed prints the same.
void check_prints(const char *text, const char *expected);
void check_errors(const char *text, const char *expected);
void count_lines(const char *text, uint32_t expected);

#endif
