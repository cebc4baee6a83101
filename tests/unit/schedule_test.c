// SPDX-License-Identifier: Apache-2.0
// Schedules: which ones there are, how far they are from each other, and what is none.
#include "passes_fixture.h"

#include <string.h>

#include "tile/schedule/schedule.h"
#include "tune/tune.h"

// The default has the block of rows that takes least of all with its tasks.
static void test_rows_are_chosen_by_cost(void **state) {
    (void)state;
    Session *session = session_new();
    Plan *plan = passes_plan(session, "dim n = 512, d = 768\n"
                                      "def F(X[n, d], gain[d]):\n"
                                      "    return standardize(X[n, d]) * gain[d]\n");
    int64_t *extents = graph_typical_extents(plan->fusion->graph, session->arena);
    TuneSpaces spaces = {.arena = session->arena};
    tune_spaces_add(&spaces, plan, &passes_machine, extents);
    assert_int_equal(spaces.at.count, 1);
    const ScheduleList *numbers = &spaces.at.at[0].numbers;
    uint32_t others = 0;
    for (uint32_t i = 1; i < numbers->count; i++) {
        assert_int_equal(numbers->at[i].kind, SCHEDULE_TASKS);
        if (numbers->at[i].tasks.tasks != numbers->at[0].tasks.tasks)
            continue;
        others++;
        assert_true(numbers->at[i].seconds >= numbers->at[0].seconds);
    }
    assert_true(others >= 4);
    session_free(session);
}

// Whatever the default of a machine's rates is; but no others.
static void test_tasks_that_a_nest_may_have(void **state) {
    (void)state;
    TaskShape rows = {.seconds = 1e-4, .rows = {.kept = 7, .least = 1, .most = 16}};
    TaskShape vectors = {.rows = {.kept = 32, .least = 16, .most = 64}}, steps = {.steps = true};
    const struct {
        const TaskShape *shape;
        TaskSchedule tasks;
        bool fits;
    } tried[] = {{&rows, {5, 0, 7}, true},     {&rows, {1, 0, 16}, true},
                 {&rows, {0, 0, 7}, false},    {&rows, {65, 0, 7}, false},
                 {&rows, {5, 0, 0}, false},    {&rows, {5, 0, 17}, false},
                 {&rows, {5, 512, 7}, false},  {&vectors, {4, 0, 48}, true},
                 {&vectors, {4, 0, 8}, false}, {&vectors, {4, 0, 40}, false},
                 {&steps, {8, 512, 0}, true},  {&steps, {8, INT64_MAX, 0}, true},
                 {&steps, {8, 0, 0}, false},   {&steps, {8, 512, 4}, false}};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++)
        assert_true(schedule_fits_tasks(tried[i].shape, &tried[i].tasks) == tried[i].fits);
    Machine many = passes_machine;
    many.threads = 128;
    TaskSchedule of_many = schedule_tasks(&steps, &many);
    assert_true(schedule_fits_tasks(&steps, &of_many));
    Arena *arena = arena_new();
    const TaskShape *shapes[] = {&rows, &vectors, &steps};
    for (int s = 0; s < 3; s++) {
        ScheduleList list = {0};
        schedule_enumerate_tasks(arena, shapes[s], &passes_machine, &list);
        assert_true(list.count >= 7);
        for (uint32_t i = 0; i < list.count; i++)
            assert_true(schedule_fits_tasks(shapes[s], &list.at[i].tasks));
    }
    arena_free(arena);
}

static void test_each_number_is_a_step_of_a_distance(void **state) {
    (void)state;
    Schedule one = {.kind = SCHEDULE_CONTRACT,
                    .contract = {.task_batch = 1,
                                 .task_rows = 2,
                                 .task_lanes = 2,
                                 .block_k = 2,
                                 .block_rows = 2,
                                 .row_block = 2,
                                 .lane_block = 2}};
    Schedule others[] = {one, one, one, one, one, one, one, one, one, one, one};
    enum { N_OTHERS = sizeof others / sizeof *others };
    int other = 0;
    others[other++].contract.task_batch = 2;
    others[other++].contract.task_rows = 4;
    others[other++].contract.task_lanes = 1;
    others[other++].contract.block_k = 4;
    others[other++].contract.block_rows = 4;
    others[other++].contract.row_block = 1;
    others[other++].contract.lane_block = 4;
    others[other++].contract.pack_a = true;
    others[other++].contract.pack_b = true;
    others[other++].contract.axes.transposed = true;
    others[other++].contract.axes.contiguous_rows = true;
    assert_int_equal(other, N_OTHERS);
    for (int i = 0; i < N_OTHERS; i++) {
        assert_true(schedule_distance(&one, &others[i]) == 1);
        assert_false(schedule_same(&one, &others[i]));
    }
    assert_true(schedule_distance(&one, &one) == 0);
    Schedule silent = one;
    silent.prefetch = PREFETCH_NONE;
    assert_true(schedule_distance(&one, &silent) == 0 && schedule_same_numbers(&one, &silent));
    assert_false(schedule_same(&one, &silent));
    Schedule tasks = {.kind = SCHEDULE_TASKS, .tasks = {4, 512, 2}}, more = tasks, steps = tasks;
    Schedule rows = tasks;
    more.tasks.tasks = 8, steps.tasks.step_points = INT64_MAX, rows.tasks.rows = 4;
    assert_true(schedule_distance(&tasks, &more) == 1 && schedule_distance(&tasks, &steps) == 1);
    assert_true(schedule_distance(&tasks, &rows) == 1 && !schedule_same(&tasks, &rows));
    Schedule stream = {.kind = SCHEDULE_STREAM, .stream = {PLAN_STREAM, 8, 64, 0}}, plan = stream;
    plan.stream.plan = PLAN_SPILL;
    assert_true(schedule_distance(&stream, &plan) == 2);
    Schedule program = {.kind = SCHEDULE_PROGRAM}, other_program = program;
    other_program.program.copies = COPIES_EACH, other_program.program.layout = LAYOUT_PLAIN;
    assert_true(schedule_distance(&program, &other_program) == 2);
}

// With what is wrong, where that is not the JSON itself.
static void test_what_is_no_schedule_is_refused(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"", ""},
        {"[]", "expected an object"},
        {"{", ""},
        {"{}", "\"kind\" has to be none, tasks, contract, stream or program"},
        {"{\"kind\": \"none\", \"prefetch\": \"rule\"}", "\"blocks\" is missing"},
        {"{\"kind\": \"none\", \"blocks\": []}", "\"prefetch\" is missing"},
        {"{\"kind\": \"none\", \"prefetch\": \"some\", \"blocks\": []}",
         "\"prefetch\" has to be rule or none"},
        {"{\"kind\": \"none\", \"prefetch\": 1, \"blocks\": []}",
         "\"prefetch\" has to be rule or none"},
        {"{\"kind\": 3, \"prefetch\": \"rule\", \"blocks\": []}",
         "\"kind\" has to be none, tasks, contract, stream or program"},
        {"{\"kind\": \"tasks\", \"tasks\": 0, \"step_points\": 0, \"rows\": 0, \"prefetch\": "
         "\"rule\", \"blocks\": []}",
         "\"tasks\" has to be a whole number from 1 to 1048576"},
        {"{\"kind\": \"tasks\", \"tasks\": 1.5, \"step_points\": 0, \"rows\": 0, \"prefetch\": "
         "\"rule\", \"blocks\": []}",
         "\"tasks\" has to be a whole number from 1 to 1048576"},
        {"{\"kind\": \"tasks\", \"tasks\": 4, \"step_points\": 0, \"rows\": 0, \"prefetch\": "
         "\"rule\", \"blocks\": {}}",
         "\"blocks\" has to be a list of at most 256 objects"},
        {"{\"kind\": \"tasks\", \"tasks\": 4, \"step_points\": 0, \"rows\": -1, \"prefetch\": "
         "\"rule\", \"blocks\": []}",
         "\"rows\" has to be a whole number from 0 to 1024"},
        {"{\"kind\": \"tasks\", \"tasks\": 4, \"step_points\": 0, \"rows\": 1025, \"prefetch\": "
         "\"rule\", \"blocks\": []}",
         "\"rows\" has to be a whole number from 0 to 1024"},
        {"{\"kind\": \"tasks\", \"tasks\": 4, \"step_points\": 0, \"prefetch\": \"rule\", "
         "\"blocks\": []}",
         "\"rows\" is missing"},
        {"{\"kind\": \"tasks\", \"tasks\": 4, \"step_points\": 0, \"rows\": 0, \"more\": 1, "
         "\"prefetch\": \"rule\", \"blocks\": []}",
         "there is no key \"more\" in it"},
        {"{\"kind\": \"stream\", \"plan\": \"any\", \"rows\": 1, \"piece\": 1, \"prefetch\": "
         "\"rule\", \"blocks\": []}",
         "\"plan\" has to be resident or stream or two-pass or spill"},
        {"{\"kind\": \"stream\", \"plan\": \"spill\", \"rows\": -1, \"piece\": 1, \"prefetch\": "
         "\"rule\", \"blocks\": []}",
         "\"rows\" has to be a whole number from 1 to"},
        {"{\"kind\": \"stream\", \"plan\": \"spill\", \"rows\": 1, \"piece\": 1, \"prefetch\": "
         "\"rule\", \"blocks\": [1]}",
         "block 1: expected an object with the keys \"rows\", \"cols\", \"lanes\" and \"sum\""},
        {"{\"kind\": \"none\", \"kind\": \"none\", \"prefetch\": \"rule\", \"blocks\": []}", ""},
        {"{\"kind\": \"none\", \"prefetch\": \"rule\", \"blocks\": [{\"rows\": 1, \"cols\": 0, "
         "\"lanes\": 0}]}",
         "block 1: \"sum\" is missing"},
    };
    Arena *arena = arena_new();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Schedule schedule;
        const char *why = NULL;
        assert_false(schedule_from_json(arena, texts[i][0], &schedule, &why));
        assert_non_null(why);
        if (!strstr(why, texts[i][1]))
            fail_msg("%s: %s", texts[i][0], why);
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_chosen_by_cost),
        cmocka_unit_test(test_tasks_that_a_nest_may_have),
        cmocka_unit_test(test_each_number_is_a_step_of_a_distance),
        cmocka_unit_test(test_what_is_no_schedule_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
