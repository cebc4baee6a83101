// SPDX-License-Identifier: Apache-2.0
// Level base: memory, names, hashes, text, places and what diagnostics look like.
#include "support.h"

#include "base/base.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- memory

static void arena_gives_zeroed_aligned_memory(void **state) {
    (void)state;
    Arena *arena = arena_new();
    char *last = NULL;
    for (size_t bytes = 0; bytes < 3000; bytes += 7) {
        char *at = arena_alloc(arena, bytes);
        assert_non_null(at);
        assert_int_equal((uintptr_t)at % 16, 0);
        assert_ptr_not_equal(at, last);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(at[i], 0);
        memset(at, 0xFF, bytes);
        last = at;
    }
    char *large = arena_alloc(arena, 5 << 20);
    assert_int_equal(large[(5 << 20) - 1], 0);
    assert_string_equal(arena_printf(arena, "%d-%s", 7, "x"), "7-x");
    assert_string_equal(arena_strndup(arena, "abcdef", 3), "abc");
    arena_free(arena);
    arena_free(NULL);
}

static void arena_refuses_impossible_sizes(void **state) {
    (void)state;
    Arena *arena = arena_new();
    expect_ice("request for", arena_alloc(arena, SIZE_MAX - 3));
    arena_free(arena);
}

static void vec_grows(void **state) {
    (void)state;
    Arena *arena = arena_new();
    VEC(int) list = {0};
    for (int i = 0; i < 1000; i++)
        vec_push(arena, &list, i * i);
    assert_int_equal(list.count, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(list.at[i], i * i);
    arena_free(arena);
}

static void map_keeps_any_key(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Map *map = map_new(arena);
    int values[4];
    assert_null(map_get(map, 0));
    map_put(map, 0, &values[0]);
    map_put(map, UINT64_MAX, &values[1]);
    assert_ptr_equal(map_get(map, 0), &values[0]);
    assert_ptr_equal(map_get(map, UINT64_MAX), &values[1]);
    map_put(map, 0, &values[2]);
    assert_ptr_equal(map_get(map, 0), &values[2]);
    for (uint64_t k = 1; k <= 5000; k++)
        map_put(map, k << 20, (void *)(uintptr_t)k);
    for (uint64_t k = 1; k <= 5000; k++)
        assert_int_equal((uintptr_t)map_get(map, k << 20), k);
    assert_null(map_get(map, (uint64_t)5001 << 20));
    arena_free(arena);
}

static void sets_are_called_by_their_least_number(void **state) {
    (void)state;
    Arena *arena = arena_new();
    uint32_t *sets = sets_new(arena, 100);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(sets_find(sets, i), i);
    for (uint32_t i = 99; i >= 2; i--)
        assert_int_equal(sets_join(sets, i, i - 2), i - 2);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(sets_find(sets, i), i % 2);
    assert_int_equal(sets_join(sets, 40, 60), 0);
    assert_int_equal(sets_join(sets, 61, 98), 0);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(sets_find(sets, i), 0);
    arena_free(arena);
}

// ---- names and hashes

// s -> a -> c -> t and s -> b -> c: in the order of the nodes s a b c t.
static const bool *cut_of(Arena *arena, double a, double b, double c) {
    Network *network = network_new(arena, 5);
    network_edge(network, 0, 1, a);
    network_edge(network, 0, 2, b);
    network_edge(network, 1, 3, INFINITY);
    network_edge(network, 2, 3, INFINITY);
    network_edge(network, 3, 4, c);
    return network_cut(network, 0, 4);
}

static void cuts_are_the_smallest_and_near_the_sink(void **state) {
    (void)state;
    Arena *arena = arena_new();
    const bool *two = cut_of(arena, 2, 3, 6), *one = cut_of(arena, 2, 3, 4),
               *same = cut_of(arena, 2, 3, 5), *none = cut_of(arena, 2, 0, INFINITY);
    const bool after[] = {false, true, true, true, true},
               last[] = {false, false, false, false, true};
    assert_memory_equal(two, after, sizeof after);
    assert_memory_equal(one, last, sizeof last);
    assert_memory_equal(same, last, sizeof last);
    assert_memory_equal(none, after, sizeof after);
    assert_null(cut_of(arena, INFINITY, 1, INFINITY));
    arena_free(arena);
}

// The shortest way fills edges that the largest flow has to give back: 0 -> 1 -> 4 -> 5 here.
static void a_flow_is_led_another_way(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Network *network = network_new(arena, 8);
    static const uint32_t edges[][2] = {{0, 1}, {1, 4}, {4, 5}, {0, 2}, {2, 3},
                                        {3, 4}, {1, 6}, {6, 7}, {7, 5}};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        network_edge(network, edges[i][0], edges[i][1], 1);
    const bool *side = network_cut(network, 0, 5);
    double cut = 0;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        cut += !side[edges[i][0]] && side[edges[i][1]];
    assert_true(cut == 2);
    arena_free(arena);
}

static void names_are_pointers(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Names *names = names_new(arena);
    Name n = names_find(names, "n");
    assert_ptr_equal(n, names_intern(names, "n, m", 1));
    assert_ptr_not_equal(n, names_find(names, "m"));
    char text[16];
    for (int i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, "dim_%d", i);
        names_find(names, text);
    }
    assert_ptr_equal(n, names_find(names, "n"));
    Name late = names_find(names, "dim_2999");
    assert_ptr_equal(late, names_find(names, "dim_2999"));
    assert_string_equal(late, "dim_2999");
    arena_free(arena);
}

static void names_may_have_primes(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Names *names = names_new(arena);
    Name n = names_find(names, "n"), second = names_find(names, "n''");
    assert_int_equal(name_primes(n), 0);
    assert_int_equal(name_primes(second), 2);
    assert_ptr_equal(name_unprimed(names, second), n);
    assert_ptr_equal(name_unprimed(names, n), n);
    assert_ptr_equal(name_primed(names, n, 2), second);
    assert_ptr_equal(name_primed(names, name_primed(names, n, 1), 1), second);
    arena_free(arena);
}

// Primes are no letters: n' is near n and no nearer to m' than n to m.
static void near_names_without_their_primes(void **state) {
    (void)state;
    Near near = near_to("n'");
    near_offer(&near, "m'");
    assert_null(near.best);
    near_offer(&near, "n");
    assert_string_equal(near.best, "n");
    near = near_to("heads''");
    near_offer(&near, "head");
    assert_string_equal(near.best, "head");
}

static void name_distance_counts_slips(void **state) {
    (void)state;
    assert_int_equal(name_distance("d_k", "d_k"), 0);
    assert_int_equal(name_distance("d_k", "d_v"), 1);
    assert_int_equal(name_distance("d_k", "dk"), 1);
    assert_int_equal(name_distance("d_k", "k_d"), 2);
    assert_int_equal(name_distance("slef", "self"), 1); // neighbours swapped
    assert_int_equal(name_distance("softmx", "softmax"), 1);
    assert_int_equal(name_distance("kitten", "sitting"), 3);
    assert_int_equal(name_distance("", "abc"), 3);
    char longer[101] = {0};
    memset(longer, 'x', 100);
    assert_int_equal(name_distance(longer, longer), 0);
    assert_int_equal(name_distance(longer, "x"), 101);
}

static void hashes_depend_on_all_they_are_given(void **state) {
    (void)state;
    assert_int_equal(hash_text(1, "abc"), hash_bytes(1, "abc", 3));
    assert_int_not_equal(hash_text(1, "abc"), hash_text(2, "abc"));
    assert_int_not_equal(hash_text(1, "abc"), hash_text(1, "abd"));
    assert_int_not_equal(hash_u64(1, 2), hash_u64(2, 1));
    assert_int_equal(hash_text(3, NULL), hash_text(3, ""));
    // XXH3_64bits_withSeed of these bytes by the reference implementation.
    assert_int_equal(hash_bytes(0, "", 0), 0x2d06800538d394c2u);
}

// ---- text

static void check_double(double value, const char *expected) {
    Arena *arena = arena_new();
    Text text = {.arena = arena};
    text_double(&text, value);
    assert_string_equal(text.at, expected);
    if (!isnan(value))
        assert_true(strtod(text.at, NULL) == value);
    arena_free(arena);
}

static void doubles_are_printed_shortest(void **state) {
    (void)state;
    check_double(0, "0");
    check_double(-0.0, "-0");
    check_double(2, "2");
    check_double(0.1, "0.1");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(0.1 + 0.2, "0.30000000000000004");
    check_double(5e-324, "5e-324");
    check_double(1.7976931348623157e308, "1.7976931348623157e+308");
    check_double(INFINITY, "inf");
    check_double(-INFINITY, "-inf");
    check_double(NAN, "nan");
}

static void text_grows(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Text text = {.arena = arena};
    for (int i = 0; i < 500; i++)
        text_printf(&text, "%d,", i % 10);
    assert_int_equal(text.length, 1000);
    assert_int_equal(strlen(text.at), 1000);
    assert_memory_equal(text.at + 990, "5,6,7,8,9,", 10);
    text_addn(&text, "\0x", 2);
    assert_int_equal(text.length, 1002);
    arena_free(arena);
}

static void words_are_whole(void **state) {
    (void)state;
    const char *words = "into in max_number max";
    assert_true(words_have(words, "into") && words_have(words, "in") && words_have(words, "max"));
    assert_true(words_have(words, "max_number"));
    assert_false(words_have(words, "int") || words_have(words, "number"));
    assert_false(words_have(words, "maximum") || words_have(words, "") || words_have("", "in"));
}

static void elements_have_names(void **state) {
    (void)state;
    for (Elem e = 0; e < N_ELEM; e++) {
        Elem found;
        assert_true(elem_from_name(elem_name(e), &found));
        assert_int_equal(found, e);
        assert_in_range(elem_bytes(e), 1, 8);
        assert_false(elem_is_float(e) && elem_is_int(e));
    }
    Elem unused;
    assert_false(elem_from_name("float", &unused));
    assert_true(elem_is_float(ELEM_BF16));
    assert_true(elem_is_int(ELEM_I64));
    assert_false(elem_is_int(ELEM_BOOL) || elem_is_float(ELEM_BOOL));
}

// ---- places

static void check_place(const Sources *sources, uint32_t at, uint32_t line, uint32_t column) {
    uint32_t l, c;
    span_locate(sources, (Span){1, at, at}, &l, &c);
    assert_int_equal(l, line);
    assert_int_equal(c, column);
}

static void places_are_lines_and_columns(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Sources *sources = sources_new(arena);
    assert_int_equal(sources_add(sources, "a", "ab\n\nc\r\nd", 8), 1);
    assert_int_equal(sources_add(sources, "b", "", 0), 2);
    assert_int_equal(sources_count(sources), 2);
    assert_null(sources_get(sources, 0));
    assert_null(sources_get(sources, 3));
    assert_int_equal(sources_get(sources, 1)->n_lines, 4);
    check_place(sources, 0, 1, 1);
    check_place(sources, 2, 1, 3);
    check_place(sources, 3, 2, 1);
    check_place(sources, 4, 3, 1);
    check_place(sources, 7, 4, 1);
    check_place(sources, 8, 4, 2);
    Span joined = span_join((Span){1, 4, 5}, (Span){1, 1, 3});
    assert_int_equal(joined.begin, 1);
    assert_int_equal(joined.end, 5);
    assert_int_equal(span_join((Span){0}, (Span){2, 1, 1}).file, 2);
    assert_int_equal(span_join((Span){1, 4, 5}, (Span){2, 1, 1}).end, 5);
    arena_free(arena);
}

static void files_that_cannot_be_read_say_why(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Sources *sources = sources_new(arena);
    const char *why = NULL;
    assert_int_equal(sources_read(sources, "/nonexistent/x.attn", &why), 0);
    assert_string_equal(why, "cannot read '/nonexistent/x.attn': No such file or directory");
    assert_int_equal(sources_read(sources, "/", &why), 0);
    assert_string_equal(why, "cannot read '/': Is a directory");
    char path[] = "/tmp/attc-base-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "x\0y\n", 4) == 4);
    close(fd);
    uint32_t file = sources_read(sources, path, &why);
    assert_int_equal(file, 1);
    assert_int_equal(sources_get(sources, file)->length, 4);
    assert_memory_equal(sources_get(sources, file)->text, "x\0y\n", 5);
    unlink(path);
    arena_free(arena);
}

// ---- diagnostics

// A session over one text, and what it prints.
typedef struct {
    Session *session;
    char *printed;
} Fixture;

static Fixture fixture_over(const char *text) {
    Fixture f = {.session = session_new()};
    sources_add(f.session->sources, "x.attn", text, strlen(text));
    return f;
}

static void fixture_check(Fixture *f, DiagFormat format, bool colour, const char *expected) {
    size_t length = 0;
    FILE *out = open_memstream(&f->printed, &length);
    diags_print(f->session->diags, out, format, colour);
    fclose(out);
    assert_string_equal(f->printed, expected);
    free(f->printed);
}

static void fixture_end(Fixture *f) {
    session_free(f->session);
}

static Span at(uint32_t begin, uint32_t end) {
    return (Span){1, begin, end};
}

static void a_diagnostic_shows_place_note_and_hint(void **state) {
    (void)state;
    Fixture f = fixture_over("X[n, d]\nY[n, e] = X[n, e]\n");
    Diag *diag = diag_error(f.session->diags, at(18, 25), "no dim '%s'", "e");
    diag_note(diag, at(0, 7), "X is defined here");
    diag_hint(diag, "did you mean '%s'?", "d");
    fixture_check(&f, DIAGS_TEXT, false,
                  "x.attn:2:11: error: no dim 'e'\n"
                  "    Y[n, e] = X[n, e]\n"
                  "              ^~~~~~~\n"
                  "x.attn:1:1: note: X is defined here\n"
                  "    X[n, d]\n"
                  "    ^~~~~~~\n"
                  "  hint: did you mean 'd'?\n");
    fixture_check(
        &f, DIAGS_JSON, false,
        "{\"severity\":\"error\",\"group\":null,\"file\":\"x.attn\",\"line\":2,\"column\":11,"
        "\"end_line\":2,\"end_column\":18,\"message\":\"no dim 'e'\",\"notes\":[{"
        "\"file\":\"x.attn\",\"line\":1,\"column\":1,\"end_line\":1,\"end_column\":8,"
        "\"message\":\"X is defined here\"}],\"hint\":\"did you mean 'd'?\"}\n");
    assert_int_equal(diags_errors(f.session->diags), 1);
    fixture_end(&f);
}

static void diagnostics_are_sorted_and_told_once(void **state) {
    (void)state;
    Fixture f = fixture_over("a\nb\n");
    diag_error(f.session->diags, at(2, 3), "second");
    diag_error(f.session->diags, at(0, 1), "first");
    diag_error(f.session->diags, at(0, 1), "other");
    diag_error(f.session->diags, at(0, 1), "first");
    diag_error(f.session->diags, (Span){0}, "no place");
    fixture_check(&f, DIAGS_TEXT, false,
                  "attc: error: no place\n"
                  "x.attn:1:1: error: first\n    a\n    ^\n"
                  "x.attn:1:1: error: other\n    a\n    ^\n"
                  "x.attn:2:1: error: second\n    b\n    ^\n");
    fixture_end(&f);
}

static void carets_follow_tabs_and_wide_characters(void **state) {
    (void)state;
    Fixture f = fixture_over("\t\xC3\xA9 \xE4\xB8\xAD x\r\nab\ncd");
    diag_error(f.session->diags, at(4, 7), "wide");        // the CJK character
    diag_error(f.session->diags, at(8, 9), "after");       // x
    diag_error(f.session->diags, at(11, 15), "two lines"); // "ab\nc": cut at the line's end
    diag_error(f.session->diags, at(16, 16), "end");       // end of the file
    fixture_check(&f, DIAGS_TEXT, false,
                  "x.attn:1:5: error: wide\n"
                  "    \t\xC3\xA9 \xE4\xB8\xAD x\n    \t  ^~\n"
                  "x.attn:1:9: error: after\n"
                  "    \t\xC3\xA9 \xE4\xB8\xAD x\n    \t     ^\n"
                  "x.attn:2:1: error: two lines\n    ab\n    ^~\n"
                  "x.attn:3:3: error: end\n    cd\n      ^\n");
    fixture_end(&f);
}

static void what_is_no_text_is_replaced(void **state) {
    (void)state;
    Fixture f = fixture_over("a\033\xFF\xC3(b");
    diag_error(f.session->diags, at(5, 6), "odd \033[0m '%s'", "\xFF");
    fixture_check(&f, DIAGS_TEXT, false,
                  "x.attn:1:6: error: odd \xEF\xBF\xBD[0m '\xEF\xBF\xBD'\n"
                  "    a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD(b\n"
                  "         ^\n");
    fixture_check(
        &f, DIAGS_JSON, false,
        "{\"severity\":\"error\",\"group\":null,\"file\":\"x.attn\",\"line\":1,\"column\":6,"
        "\"end_line\":1,\"end_column\":7,\"message\":\"odd \xEF\xBF\xBD[0m '\xEF\xBF\xBD'\","
        "\"notes\":[],\"hint\":null}\n");
    fixture_end(&f);
}

static void long_lines_are_cut_to_a_window(void **state) {
    (void)state;
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = '\0';
    text[500] = '!';
    Fixture f = fixture_over(text);
    diag_error(f.session->diags, at(500, 501), "here");
    char expected[600];
    snprintf(expected, sizeof expected,
             "x.attn:1:501: error: here\n    ...%.60s!%.99s...\n    %63s^\n", text, text, "");
    fixture_check(&f, DIAGS_TEXT, false, expected);
    fixture_end(&f);
}

static void colour_only_when_asked_for(void **state) {
    (void)state;
    Fixture f = fixture_over("a");
    diag_error(f.session->diags, at(0, 1), "bad");
    fixture_check(&f, DIAGS_TEXT, true,
                  "\033[1mx.attn:1:1: \033[31merror: \033[0m\033[1mbad\033[0m\n"
                  "    a\n    \033[1;32m^\033[0m\n");
    fixture_end(&f);
}

static void warnings_have_groups(void **state) {
    (void)state;
    Fixture f = fixture_over("a");
    Diags *diags = f.session->diags;
    diag_hint(diag_warning(diags, "rank", at(0, 1), "off by default"), "not shown");
    diag_warning(diags, "unused", at(0, 1), "on");
    assert_true(diags_warning_option(diags, "no-unused"));
    diag_note(diag_warning(diags, "unused", at(0, 1), "now off"), at(0, 1), "not shown");
    assert_true(diags_warning_option(diags, "rank"));
    assert_true(diags_warning_option(diags, "error"));
    diag_warning(diags, "rank", at(0, 1), "now an error");
    assert_true(diags_warning_option(diags, "w"));
    diag_warning(diags, "rank", at(0, 1), "all off");
    assert_false(diags_warning_option(diags, "no-such-group"));
    assert_int_equal(diags_errors(diags), 1);
    fixture_check(&f, DIAGS_TEXT, false,
                  "x.attn:1:1: warning: on [-Wunused]\n    a\n    ^\n"
                  "x.attn:1:1: error: now an error [-Werror=rank]\n    a\n    ^\n");
    expect_ice("no warning group 'nonsense'", diag_warning(diags, "nonsense", at(0, 1), "x"));
    fixture_end(&f);
}

// ---- forks and jobs ---------------------------------------------------------------------------

static void a_fork_knows_what_its_session_knew(void **state) {
    (void)state;
    Fixture f = fixture_over("abc");
    Name old = names_find(f.session->names, "old");
    Session *forks[] = {session_fork(f.session), session_fork(f.session)};
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(names_find(forks[i]->names, "old"), old);
        Name own = names_find(forks[i]->names, "own");
        assert_ptr_equal(names_find(forks[i]->names, "own"), own);
        assert_ptr_not_equal(names_find(f.session->names, "own"), own);
        Diag *diag = diag_warning(forks[i]->diags, "unused", at(0, 1), "of %s", own);
        diag_note(diag, at(1, 2), "100%% noted");
        diag_hint(diag, "mend it");
        diag_error(forks[i]->diags, at(2, 3), "fork %d", i);
        assert_int_equal(diags_errors(f.session->diags), i);
        session_join(f.session, forks[i]);
        session_free(forks[i]);
    }
    fixture_check(&f, DIAGS_TEXT, false,
                  "x.attn:1:1: warning: of own [-Wunused]\n    abc\n    ^\n"
                  "x.attn:1:2: note: 100% noted\n    abc\n     ^\n  hint: mend it\n"
                  "x.attn:1:3: error: fork 0\n    abc\n      ^\n"
                  "x.attn:1:3: error: fork 1\n    abc\n      ^\n");
    fixture_end(&f);
}

static void count_run(void *runs, uint32_t i) {
    ((uint32_t *)runs)[i]++;
}

static void each_job_runs_once(void **state) {
    (void)state;
    for (uint32_t count = 0; count < 100; count += 11) {
        uint32_t runs[100] = {0};
        jobs_run(count, count_run, runs);
        for (uint32_t i = 0; i < 100; i++)
            assert_int_equal(runs[i], i < count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(arena_refuses_impossible_sizes),
        cmocka_unit_test(vec_grows),
        cmocka_unit_test(map_keeps_any_key),
        cmocka_unit_test(sets_are_called_by_their_least_number),
        cmocka_unit_test(cuts_are_the_smallest_and_near_the_sink),
        cmocka_unit_test(a_flow_is_led_another_way),
        cmocka_unit_test(names_are_pointers),
        cmocka_unit_test(names_may_have_primes),
        cmocka_unit_test(near_names_without_their_primes),
        cmocka_unit_test(name_distance_counts_slips),
        cmocka_unit_test(hashes_depend_on_all_they_are_given),
        cmocka_unit_test(doubles_are_printed_shortest),
        cmocka_unit_test(text_grows),
        cmocka_unit_test(words_are_whole),
        cmocka_unit_test(elements_have_names),
        cmocka_unit_test(places_are_lines_and_columns),
        cmocka_unit_test(files_that_cannot_be_read_say_why),
        cmocka_unit_test(a_diagnostic_shows_place_note_and_hint),
        cmocka_unit_test(diagnostics_are_sorted_and_told_once),
        cmocka_unit_test(carets_follow_tabs_and_wide_characters),
        cmocka_unit_test(what_is_no_text_is_replaced),
        cmocka_unit_test(long_lines_are_cut_to_a_window),
        cmocka_unit_test(colour_only_when_asked_for),
        cmocka_unit_test(warnings_have_groups),
        cmocka_unit_test(a_fork_knows_what_its_session_knew),
        cmocka_unit_test(each_job_runs_once),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
