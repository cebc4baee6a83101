// SPDX-License-Identifier: Apache-2.0
// The spaces of programs: what there is for which site, and what is known of it.
#include "search_fixture.h"

#include <string.h>

// Of a text with one kernel; belongs to the session.
static const TuneSpace *only_space(Session *session, const char *text) {
    Plan *plan = passes_plan(session, text);
    TuneSpaces spaces = {.arena = session->arena};
    tune_spaces_add(&spaces, plan, &passes_machine,
                    graph_typical_extents(plan->fusion->graph, session->arena));
    assert_int_equal(spaces.at.count, 1);
    return &spaces.at.at[0];
}

static void test_spaces_are_by_site_and_predicted(void **state) {
    (void)state;
    SearchWorld w = search_world();
    assert_true(w.spaces.at.count >= 2);
    for (uint32_t i = 0; i < w.spaces.at.count; i++) {
        const TuneSpace *space = &w.spaces.at.at[i];
        assert_non_null(space->name);
        assert_int_equal(tune_spaces_find(&w.spaces, &space->site), i);
        for (uint32_t k = 0; k < space->numbers.count; k++) {
            assert_true(space->numbers.at[k].seconds > 0);
            for (uint32_t j = 0; j < k; j++)
                assert_false(schedule_same(&space->numbers.at[k], &space->numbers.at[j]));
        }
    }
    assert_true(search_last_space(&w)->numbers.count > 10);
    uint32_t before = w.spaces.at.count;
    tune_spaces_add(&w.spaces, w.plan, &passes_machine, w.extents);
    assert_int_equal(w.spaces.at.count, before);
    session_free(w.session);
}

// Of sizes of a run-time extent that have one kernel there is one space, that of the kernel.
static void test_sizes_with_one_kernel_are_one_space(void **state) {
    (void)state;
    static const char text[] =
        "dim n = 80, d = 16, h = 4\n"
        "def F(Q[n, h, d], K[m, h, d], V[m, h, d]):\n"
        "    W[n, m, h] = softmax(einsum(Q[n, h, d], K[m, h, d] -> [n, m, h]), reduced_dim=m)\n"
        "    return einsum(W[n, m, h], V[m, h, d] -> [n, h, d])\n";
    Session *session = session_new();
    TuneSpaces spaces = {.arena = session->arena};
    Plan *plan = passes_plan(session, text);
    int64_t *extents = graph_typical_extents(plan->fusion->graph, session->arena);
    Machine narrow = passes_machine; // short vectors, few of them
    narrow.has_masks = false;
    narrow.threads = 1;
    narrow.vector_bytes = 32;
    narrow.vector_registers = 16;
    narrow.rows_unpacked = narrow.rows_packed = 6;
    for (int again = 0; again < 2; again++)
        tune_spaces_add(&spaces, plan, &narrow, extents);
    ScheduleWish wish = {0};
    TileProgram *program = tile_lower(plan, &narrow, extents, &wish);
    uint32_t sizes = 0;
    assert_int_equal(spaces.at.count, program->launches.count);
    for (uint32_t i = 0; i < spaces.at.count; i++) {
        const TuneSpace *space = &spaces.at.at[i];
        assert_int_equal(tune_spaces_find(&spaces, &program->launches.at[i].site), i);
        assert_non_null(space->name);
        for (uint32_t k = 0; k < space->others.count; k++)
            assert_int_equal(tune_spaces_find(&spaces, &space->others.at[k]), i);
        sizes += 1 + space->others.count;
    }
    assert_true(spaces.at.count < sizes);
    session_free(session);
}

// Other names, the same site; other extents, another text of extents and the same group.
static void test_sites_know_no_names(void **state) {
    (void)state;
    static const char *const texts[] = {"dim n = 64, d = 32\ndef F(X[n, d], P[d, e]):\n    return "
                                        "einsum(X[n, d], P[d, e] -> [n, e])\n",
                                        "dim row = 64, c = 32\ndef G(A[row, c], B[c, k]):\n    "
                                        "return einsum(A[row, c], B[c, k] -> [row, k])\n",
                                        "dim n = 96, d = 32\ndef F(X[n, d], P[d, e]):\n    return "
                                        "einsum(X[n, d], P[d, e] -> [n, e])\n",
                                        "dim n = 64, d = 32\ndef F(X[n, d], P[d, e]):\n    return "
                                        "exp(einsum(X[n, d], P[d, e] -> [n, e]))\n"};
    ScheduleSite sites[4];
    Arena *arena = arena_new();
    for (int i = 0; i < 4; i++) {
        Session *session = session_new();
        const TuneSpace *space = only_space(session, texts[i]);
        sites[i] = space->site;
        sites[i].extents = arena_printf(arena, "%s", sites[i].extents);
        session_free(session);
    }
    assert_true(sites[0].group == sites[1].group && sites[0].group == sites[2].group);
    assert_true(sites[0].group != sites[3].group);
    assert_string_equal(sites[0].extents, sites[1].extents);
    assert_string_not_equal(sites[0].extents, sites[2].extents);
    assert_non_null(strstr(sites[0].extents, "~")); // e is of run time
    // Databases hold these: where they change, SCHEDULE_VERSION has to be raised.
    assert_int_equal(SCHEDULE_VERSION, 4);
    assert_true(sites[0].group == 0x05c05452a14be355 && sites[3].group == 0xff68ff07e37ccd3d);
    arena_free(arena);
}

// What is known is used if it is of the space, and left alone if it is not.
static void test_what_is_known_is_used(void **state) {
    (void)state;
    SearchWorld w = search_world();
    uint32_t n = w.spaces.at.count;
    const Schedule **picks = arena_array(w.session->arena, const Schedule *, n + 1);
    const ScheduleList *numbers = &search_last_space(&w)->numbers;
    Schedule known = numbers->at[numbers->count - 1];
    known.found = "here";
    TunePicks chosen = {&w.spaces, picks};
    ScheduleWish wish = {.source = tune_picks_source(&chosen)};
    for (int foreign = 0; foreign < 2; foreign++) {
        if (foreign)
            known.stream.rows += 5;
        picks[n - 1] = &known;
        Arena *arena = arena_new();
        TileProgram *program =
            tile_lower(plan_in_arena(w.plan, arena), &passes_machine, w.extents, &wish);
        const Launch *launch = &program->launches.at[program->launches.count - 1];
        const Schedule *taken = &program->kernels.at[launch->kernel]->schedule;
        assert_int_equal(schedule_same_numbers(taken, &known), !foreign);
        assert_int_equal(taken->found != NULL, !foreign);
        assert_true(foreign ? schedule_same_numbers(taken, &numbers->at[0]) : true);
        arena_free(arena);
    }
    session_free(w.session);
}

// Of a schedule that names none of its places, as texts may, all have the default.
static void test_missing_blocks_are_the_default_ones(void **state) {
    (void)state;
    SearchWorld w = search_world();
    uint32_t last = w.spaces.at.count - 1;
    Arena *arena = w.session->arena;
    Schedule by_default = search_last_space(&w)->numbers.at[0], bare = by_default;
    bare.blocks = (StageBlocksList){0};
    const Schedule **picks = arena_array(arena, const Schedule *, last + 2);
    ScheduleList *all = arena_array(arena, ScheduleList, last + 1);
    ScheduleList *same = arena_array(arena, ScheduleList, last + 1);
    picks[last] = &by_default;
    search_blocks(&w, picks, all, arena);
    picks[last] = &bare;
    search_blocks(&w, picks, same, arena);
    assert_true(all[last].count > 0 && all[last].count == same[last].count);
    for (uint32_t i = 0; i < all[last].count; i++)
        assert_true(schedule_same(&all[last].at[i], &same[last].at[i]));
    for (uint32_t i = 0; i < last; i++)
        assert_int_equal(all[i].count, 0);
    session_free(w.session);
}

// How much of the sums a turn of the first kernel has, by default and otherwise. The text has them
// over d.
static uint32_t sums_of(const char *text, int64_t sums[3]) {
    Session *session = session_new();
    Plan *plan = passes_plan(session, text);
    TuneSpaces spaces = {.arena = session->arena};
    int64_t *extents = graph_typical_extents(plan->fusion->graph, session->arena);
    tune_spaces_add(&spaces, plan, &passes_machine, extents);
    const Schedule *picks[] = {&spaces.at.at[0].numbers.at[0]};
    ScheduleList lists[1] = {{0}};
    tune_spaces_blocks(&spaces, plan, &passes_machine, extents, picks, lists, session->arena);
    assert_int_equal(spaces.at.count, 1);
    assert_int_equal(picks[0]->kind, SCHEDULE_CONTRACT);
    sums[0] = picks[0]->contract.block_k;
    uint32_t count = 0;
    for (uint32_t i = 0; i < lists[0].count && count < 2; i++) {
        assert_true(schedule_same_numbers(&lists[0].at[i], picks[0]));
        if (lists[0].at[i].prefetch == picks[0]->prefetch)
            sums[++count] = lists[0].at[i].blocks.at[0].sum;
    }
    session_free(session);
    return count;
}

// Half and twice of them, as far as there are so many.
static void test_sums_of_a_turn_are_a_place(void **state) {
    (void)state;
    int64_t sums[3];
    assert_int_equal(sums_of("dim n = 192, d = 32, k = 64\n"
                             "def F(X[n, d], P[d, k]):\n"
                             "    return einsum(X[n, d], P[d, k] -> [n, k])\n",
                             sums),
                     1);
    assert_true(sums[0] == 32 && sums[1] == 16);
    assert_int_equal(sums_of("dim n = 192, d = 4096, k = 64\n"
                             "def F(X[n, d], P[d, k]):\n"
                             "    return einsum(X[n, d], P[d, k] -> [n, k])\n",
                             sums),
                     2);
    assert_true(sums[0] < 4096 && 2 * sums[1] >= sums[0] && 2 * sums[1] < sums[0] + 16);
    assert_int_equal(sums[2], 2 * sums[0]);
}

static void test_schedules_are_read_as_they_are_written(void **state) {
    (void)state;
    SearchWorld w = search_world();
    Arena *arena = w.session->arena;
    for (uint32_t i = 0; i < w.spaces.at.count; i++)
        for (uint32_t k = 0; k < w.spaces.at.at[i].numbers.count; k++) {
            const Schedule *schedule = &w.spaces.at.at[i].numbers.at[k];
            const char *text = schedule_to_json(arena, schedule), *why;
            Schedule read;
            assert_true(schedule_from_json(arena, text, &read, &why));
            assert_true(schedule_same(schedule, &read));
            assert_string_equal(schedule_to_json(arena, &read), text);
        }
    session_free(w.session);
}

// Products ask for what comes next; what is read as it lies does not.
static void test_some_kernels_ask_ahead(void **state) {
    (void)state;
    static const char *const texts[] = {
        "dim n = 64, d = 32\ndef F(X[n, d], P[d, e]):\n    return "
        "einsum(X[n, d], P[d, e] -> [n, e])\n",
        "dim n = 64, d = 32\ndef F(X[n, d]):\n    return exp(X) + 1\n"};
    for (int i = 0; i < 2; i++) {
        Session *session = session_new();
        const TuneSpace *space = only_space(session, texts[i]);
        assert_int_equal(space->asks, i == 0);
        session_free(session);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spaces_are_by_site_and_predicted),
        cmocka_unit_test(test_sizes_with_one_kernel_are_one_space),
        cmocka_unit_test(test_sites_know_no_names),
        cmocka_unit_test(test_what_is_known_is_used),
        cmocka_unit_test(test_missing_blocks_are_the_default_ones),
        cmocka_unit_test(test_sums_of_a_turn_are_a_place),
        cmocka_unit_test(test_some_kernels_ask_ahead),
        cmocka_unit_test(test_schedules_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
