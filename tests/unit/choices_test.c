// SPDX-License-Identifier: Apache-2.0
// Choices for whole programs: as text, and what each is for.
#include "passes_fixture.h"

#include <string.h>

#include "tile/schedule/schedule.h"

// ---- text ------------------------------------------------------------------------------------

static void test_choices_are_read_as_they_are_written(void **state) {
    (void)state;
    Arena *arena = arena_new();
    ScheduleList all = schedule_enumerate_programs(arena, NULL);
    assert_true(all.count > 1);
    assert_string_equal(schedule_program_text(arena, &all.at[0].program), "by cost");
    for (uint32_t i = 0; i < all.count; i++) {
        const char *text = schedule_to_json(arena, &all.at[i]), *why;
        Schedule read;
        assert_true(schedule_from_json(arena, text, &read, &why));
        assert_string_equal(schedule_to_json(arena, &read), text);
        for (uint32_t k = 0; k < all.count; k++)
            assert_int_equal(schedule_same(&read, &all.at[k]), i == k);
    }
    ProgramSchedule two = {.plan = PLAN_UNFUSED, .layout = LAYOUT_PLAIN};
    assert_string_equal(schedule_program_text(arena, &two), "plan unfused, layout plain");
    assert_string_equal(
        schedule_to_json(arena, &(Schedule){.kind = SCHEDULE_PROGRAM, .program = two}),
        "{\"kind\": \"program\", \"plan\": \"unfused\", \"wide\": \"cost\", \"kept\": \"cost\", "
        "\"layout\": \"plain\", \"copies\": \"size\", \"plain\": 0}");
    arena_free(arena);
}

static void assert_there_once(const ScheduleList *all, ProgramSchedule wanted) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->count; i++)
        count += schedule_same_program(&all->at[i].program, &wanted);
    assert_int_equal(count, 1);
}

// What is known is where a search goes on: what differs from it in one decision is there as well.
static void test_what_is_known_has_neighbours(void **state) {
    (void)state;
    Arena *arena = arena_new();
    ProgramSchedule known = {.copies = COPIES_EACH, .plain = 2};
    ScheduleList all = schedule_enumerate_programs(arena, &known);
    assert_string_equal(schedule_program_text(arena, &all.at[0].program), "by cost");
    assert_string_equal(schedule_program_text(arena, &all.at[1].program), "copies each, plain 2");
    for (uint32_t i = 0; i < all.count; i++)
        assert_there_once(&all, all.at[i].program);
    assert_there_once(&all, (ProgramSchedule){.plain = 2});
    assert_there_once(&all, (ProgramSchedule){.copies = COPIES_EACH});
    assert_there_once(&all, (ProgramSchedule){.copies = COPIES_EACH, .plain = 3});
    assert_there_once(&all,
                      (ProgramSchedule){.wide = WIDE_AGAIN, .copies = COPIES_EACH, .plain = 2});
    arena_free(arena);
}

static void test_all_words_are_there(void **state) {
    (void)state;
    for (ScheduleKind kind = SCHEDULE_NONE; kind <= SCHEDULE_PROGRAM; kind++) {
        ScheduleFields fields = schedule_fields(kind);
        assert_true(fields.count > 0);
        for (int i = 0; i < fields.count; i++)
            for (int64_t w = fields.at[i].least; fields.at[i].words && w <= fields.at[i].most; w++)
                assert_non_null(fields.at[i].words[w]);
    }
}

static void test_what_is_no_choice_is_refused(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"{\"kind\": \"program\"}", "\"plan\" is missing"},
        {"{\"kind\": \"program\", \"plan\": \"any\", \"wide\": \"cost\", \"kept\": \"cost\", "
         "\"layout\": \"cost\", \"plain\": 0}",
         "\"copies\" is missing"},
        {"{\"kind\": \"program\", \"plan\": \"any\", \"wide\": \"cost\", \"kept\": \"cost\", "
         "\"layout\": \"cost\", \"copies\": \"size\", \"plain\": 0, \"blocks\": []}",
         "there is no key \"blocks\" in it"},
        {"{\"kind\": \"program\", \"plan\": \"any\", \"wide\": \"cost\", \"kept\": \"cost\", "
         "\"layout\": \"cost\", \"copies\": \"size\", \"prefetch\": \"none\", \"plain\": 0}",
         "there is no key \"prefetch\" in it"},
        {"{\"kind\": \"program\", \"plan\": \"stream\", \"wide\": \"cost\", \"kept\": \"cost\", "
         "\"layout\": \"cost\", \"copies\": \"size\", \"plain\": 0}",
         "\"plan\" has to be any or unfused"},
        {"{\"kind\": \"program\", \"plan\": \"any\", \"wide\": 1, \"kept\": \"cost\", "
         "\"layout\": \"cost\", \"copies\": \"size\", \"plain\": 0}",
         "\"wide\" has to be cost or again or stored"},
        {"{\"kind\": \"program\", \"plan\": \"any\", \"wide\": \"cost\", \"kept\": \"some\", "
         "\"layout\": \"cost\", \"copies\": \"size\", \"plain\": 0}",
         "\"kept\" has to be cost or all"},
        {"{\"kind\": \"program\", \"plan\": \"any\", \"wide\": \"cost\", \"kept\": \"all\", "
         "\"more\": \"plain\"}",
         "\"layout\" is missing"},
    };
    Arena *arena = arena_new();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Schedule schedule;
        const char *why = NULL;
        assert_false(schedule_from_json(arena, texts[i][0], &schedule, &why));
        assert_string_equal(why, texts[i][1]);
    }
    arena_free(arena);
}

// ---- what a choice is for --------------------------------------------------------------------

static ScheduleSite site_of(const char *text, Arena *arena) {
    Session *session = session_new();
    Graph *graph = passes_expand(session, text);
    ScheduleSite site =
        schedule_program_site(arena, graph, graph_typical_extents(graph, session->arena));
    session_free(session);
    return site;
}

static const char attention[] =
    "dim d = 16, h = 2\n"
    "def F(X[n, d], P[d, h, e], K[m, h, e], V[m, h, e]):\n"
    "    Q[n, h, e] = einsum(X[n, d], P[d, h, e])\n"
    "    W[n, m, h] = softmax(einsum(Q[n, h, e], K[m, h, e] -> [n, m, h]), reduced_dim=m)\n"
    "    return einsum(W[n, m, h], V[m, h, e] -> [n, h, e])\n";

// Nor in which order arguments are declared, or what is around a value that is inlined.
static void test_a_program_is_known_by_no_names(void **state) {
    (void)state;
    static const char other[] =
        "dim size = 16, head = 2\n"
        "def Weigh(A[row, head, k], B[column, head, k]):\n"
        "    return softmax(einsum(A[row, head, k], B[column, head, k] -> [row, column, head]),\n"
        "                   reduced_dim=column)\n"
        "def Layer(B[column, head, k], V[column, head, k], X[row, size], P[size, head, k]):\n"
        "    A[row, head, k] = einsum(X[row, size], P[size, head, k])\n"
        "    weights[row, column, head] = Weigh(A, B)\n"
        "    return einsum(weights[row, column, head], V[column, head, k] -> [row, head, k])\n";
    Arena *arena = arena_new();
    ScheduleSite a = site_of(attention, arena), b = site_of(other, arena);
    assert_true(a.group == b.group);
    assert_string_equal(a.extents, b.extents);
    assert_non_null(strstr(a.extents, "~")); // n is of run time
    arena_free(arena);
}

static void test_a_program_is_known_by_what_it_computes(void **state) {
    (void)state;
    static const char *const others[] = {
        "dim d = 16, h = 2\n"
        "def F(X[n, d], P[d, h, e], K[m, h, e], V[m, h, e]):\n"
        "    Q[n, h, e] = einsum(X[n, d], P[d, h, e])\n"
        "    W[n, m, h] = softmax(einsum(Q[n, h, e], K[m, h, e] -> [n, m, h]), reduced_dim=m)\n"
        "    return exp(einsum(W[n, m, h], V[m, h, e] -> [n, h, e]))\n",
        "dim d = 16, h = 2\n"
        "def F(X[n, d], P[d, h, e], K[m, h, e], V[m, h, e]):\n"
        "    Q[n, h, e] = einsum(X[n, d], P[d, h, e])\n"
        "    W[n, m, h] = softmax(einsum(Q[n, h, e], K[m, h, e] -> [n, m, h]), reduced_dim=m)\n"
        "    return einsum(W[n, m, h], K[m, h, e] -> [n, h, e])\n"};
    Arena *arena = arena_new();
    ScheduleSite site = site_of(attention, arena);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(site_of(others[i], arena).group != site.group);
    const char *wider = arena_printf(arena, "dim d = 24, h = 2\n%s", strchr(attention, '\n') + 1);
    ScheduleSite of_wider = site_of(wider, arena);
    assert_true(of_wider.group == site.group);
    assert_string_not_equal(of_wider.extents, site.extents);
    // Databases hold this: where it changes, SCHEDULE_VERSION has to be raised.
    assert_int_equal(SCHEDULE_VERSION, 4);
    assert_true(site.group == 0x8f7b615761a0b7c0);
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices_are_read_as_they_are_written),
        cmocka_unit_test(test_what_is_known_has_neighbours),
        cmocka_unit_test(test_all_words_are_there),
        cmocka_unit_test(test_what_is_no_choice_is_refused),
        cmocka_unit_test(test_a_program_is_known_by_no_names),
        cmocka_unit_test(test_a_program_is_known_by_what_it_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
