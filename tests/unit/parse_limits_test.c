// SPDX-License-Identifier: Apache-2.0
// Parsing: inputs made to hurt.
#include "parse_fixture.h"

#include <string.h>
#include <time.h>

static char *repeated(Arena *arena, const char *before, const char *middle, size_t times,
                      const char *after) {
    Text text = {.arena = arena};
    text_add(&text, before);
    for (size_t i = 0; i < times; i++)
        text_add(&text, middle);
    text_add(&text, after);
    return text.at;
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    Arena *arena = arena_new();
    struct {
        const char *before, *middle, *after, *expected;
    } cases[] = {
        {"def F(X):\n  Y = ", "(", "\n  return X\n", "2:207 brackets nested more than 200 deep\n"},
        {"def F(X):\n  Y = ", "f(", "\n  return X\n", "brackets nested more than 200 deep"},
        {"def F(X):\n  Y = X", "[", "\n  return X\n", "2:8 '[' is never closed | add ']'\n"},
        {"def F(X):\n  Y = ", "-", "X\n  return X\n",
         "2:207 operators nested more than 200 deep\n"},
        {"def F(X):\n  Y = ", "not ", "X\n  return X\n", "operators nested more than 200 deep\n"},
        {"def F(X):\n  Y = X", " ** X", "\n  return X\n", "operators nested more than 200 deep\n"},
        {"def F(X):\n  Y = X", " + X", "\n  return X\n",
         "2:7 expression nested more than 500 deep | give parts of it names of their own\n"},
        {"def F(X):\n  Y = X", " + not X", "\n  return X\n", "nested more than"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = repeated(arena, cases[i].before, cases[i].middle, 20000, cases[i].after);
        Parsed p = parse_bytes(text, strlen(text));
        if (!strstr(p.errors, cases[i].expected))
            fail_msg("\"%s\" lacks \"%s\"", p.errors, cases[i].expected);
        assert_non_null(strstr(p.printed, "return X"));
        parsed_free(&p);
    }
    arena_free(arena);
}

static void a_tower_of_operators_is_told_once(void **state) {
    (void)state;
    Arena *arena = arena_new();
    check_errors(repeated(arena, "def F(X):\n  Y = ", "-", 1000, "X - -X\n  return X\n"),
                 "2:207 operators nested more than 200 deep\n");
    arena_free(arena);
}

// Each of these once took time that grew with the square of the length.
static void long_inputs_take_linear_time(void **state) {
    (void)state;
    Arena *arena = arena_new();
    static const struct {
        const char *before, *middle, *after;
    } cases[] = {
        {"", "\x01\xFF", ""},
        {"def F(X):\n  Y = ", ")]", ""},
        {"def F(X):\n  Y = ", "([)]", ""},
        {"def F(X):\n  Y = X[", "+ ", "])"},
        {"", "x = 3\n", ""},
        {"def F(", "X[n d]\n", ""},
        {"def F(X[", "d ", "]):\n  return X\n"},
        {"def F(X):\n  return X[", "d ", "]\n"},
        {"def F(X):\n  a", ", a", " = = F()\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = repeated(arena, cases[i].before, cases[i].middle, 200000, cases[i].after);
        size_t length = strlen(text);
        for (size_t k = 0; i == 0 && k < length; k += 2)
            text[k] = '\0';
        clock_t start = clock();
        Parsed p = parse_bytes(text, length);
        assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
        assert_true(strlen(p.errors) > 0);
        parsed_free(&p);
    }
    arena_free(arena);
}

static void limits_are_allowed(void **state) {
    (void)state;
    Arena *arena = arena_new();
    const char *open = repeated(arena, "def F(X):\n  Y = ", "(", 200, "X");
    check_errors(repeated(arena, open, ")", 200, "\n  return X\n"), "");
    check_errors(repeated(arena, "def F(X):\n  Y = ", "-", 200, "X\n  return X\n"), "");
    check_errors(repeated(arena, "def F(X):\n  Y = X", " + X", 500, "\n  return X\n"), "");
    check_errors(repeated(arena, "def F(X):\n  Y = f(a", ", a", 100000, ")\n  return X\n"), "");
    check_errors(repeated(arena, "dim ", "x", 255, "\n"), "");
    check_errors(repeated(arena, "dim ", "x", 256, "\n"),
                 "1:5 a name of 256 characters; at most 255 are allowed\n");
    arena_free(arena);
}

static void blocks_have_a_limit(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Text text = {.arena = arena};
    text_add(&text, "def F(X):\n");
    for (int i = 1; i < 150; i++)
        text_printf(&text, "%*sfor a in b:\n", i, "");
    text_printf(&text, "%*sX = X\n return X\n", 150, "");
    Parsed p = parse_bytes(text.at, text.length);
    assert_non_null(strstr(p.errors, "102:102 blocks nested more than 100 deep\n"));
    parsed_free(&p);
    arena_free(arena);
}

static void errors_stop_being_told(void **state) {
    (void)state;
    Arena *arena = arena_new();
    const char *text = repeated(arena, "def F(X):\n", "  Y = X X\n", 5000, "");
    Parsed p = parse_bytes(text, strlen(text));
    count_lines(p.errors, 101);
    assert_non_null(strstr(p.errors, "too many errors; the rest of this file is not reported\n"));
    parsed_free(&p);
    arena_free(arena);
}

static void any_bytes_are_handled(void **state) {
    (void)state;
    check_errors("\x01\x02", "1:1 unexpected byte 0x01\n");
    Parsed p = parse_bytes("dim n\0m\n", 8);
    assert_string_equal(p.errors, "1:6 unexpected byte 0x00\n");
    parsed_free(&p);
    p = parse_bytes("import \"a\0b\"\n", 13);
    assert_string_equal(p.errors, "1:8 a zero byte in a string\n");
    parsed_free(&p);
    Arena *arena = arena_new();
    char *line = repeated(arena, "def F(X):\n  Y = \"", "x", 1 << 20, "");
    p = parse_bytes(line, strlen(line));
    assert_string_equal(p.errors, "2:7 string is not closed on its line\n");
    parsed_free(&p);
    uint64_t seed = 1;
    for (int round = 0; round < 200; round++) {
        char bytes[300];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 56);
        p = parse_bytes(bytes, sizeof bytes);
        assert_true(strlen(p.errors) > 0);
        parsed_free(&p);
    }
    arena_free(arena);
}

// Every beginning of a program, as an editor sees it.
static void every_prefix_parses(void **state) {
    (void)state;
    const char *text = "dim n = 2\ndef F(X[n, d], param W[d]: f32):\n  for a in b shared:\n"
                       "    X[n] = f(X[n, d], k=(1, 2)) as l\n  return X ** -3, \"s\"\n";
    uint32_t n_fine = 0;
    for (size_t length = 0; length <= strlen(text); length++) {
        Parsed p = parse_bytes(text, length);
        if (!p.errors[0])
            check_prints(p.printed, p.printed);
        n_fine += !p.errors[0];
        parsed_free(&p);
    }
    assert_true(n_fine > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_tower_of_operators_is_told_once),
        cmocka_unit_test(long_inputs_take_linear_time),
        cmocka_unit_test(limits_are_allowed),
        cmocka_unit_test(blocks_have_a_limit),
        cmocka_unit_test(errors_stop_being_told),
        cmocka_unit_test(any_bytes_are_handled),
        cmocka_unit_test(every_prefix_parses),
    };
    return cmocka_run_group_tests_name("parse_limits", tests, NULL, NULL);
}
