// SPDX-License-Identifier: Apache-2.0
// Schedules of every kind of kernel: any of the space computes what the default does, the default
// comes first, and thousands can be tried in one process.
#include "lower_fixture.h"

#include <malloc.h>

enum { ROUNDS = 12, N_KINDS = SCHEDULE_STREAM + 1 };

// What a choice has seen.
typedef struct {
    uint64_t seed;
    uint32_t groups[N_KINDS], schedules[N_KINDS]; // by kind: with a space, and all in them
    uint32_t blocks;                              // schedules that differ in blocks alone
    bool first;                                   // takes the default
} Chooser;

static uint32_t choose_any(void *self, const ScheduleSite *site, const ScheduleList *space) {
    Chooser *chooser = self;
    assert_true(site->group && site->extents);
    ScheduleKind kind = space->at[0].kind;
    for (uint32_t i = 0; i < space->count; i++)
        assert_int_equal(space->at[i].kind, kind);
    if (space->count > 1 && schedule_same_numbers(&space->at[0], &space->at[1])) {
        chooser->blocks += space->count;
    } else {
        chooser->groups[kind]++;
        chooser->schedules[kind] += space->count;
    }
    chooser->seed = chooser->seed * 6364136223846793005u + 1442695040888963407u;
    return chooser->first ? 0 : (uint32_t)(chooser->seed >> 33) % space->count;
}

static const struct {
    const char *text;
    ScheduleKind kind; // of which one kernel has several schedules
} programs[] = {
    {"def F(X[n, d], P[d, e]):\n"
     "    return max(einsum(X[n, d], P[d, e] -> [n, e]), 0)\n",
     SCHEDULE_CONTRACT},
    {"def F(X[b, n, d], P[h, d, e]):\n"
     "    return einsum(X[b, n, d], P[h, d, e] -> [b, h, e, n])\n",
     SCHEDULE_CONTRACT},
    {"def F(A[a, b, c]):\n"
     "    T[a, b, c] = tanh(A[a, b, c]) + 1\n"
     "    return T[c, a, b]\n",
     SCHEDULE_TASKS},
    {"def F(X[n, m, d]):\n"
     "    return softmax(X[n, m, d], reduced_dim=d)\n",
     SCHEDULE_TASKS},
    {"def F(X[n, m, d]):\n"
     "    return argsort(X[n, m, d], dim=d)\n",
     SCHEDULE_TASKS},
    {"def F(X[n, h, d], g[n, h]):\n"
     "    S = zeros[h, d]\n"
     "    scan t in n:\n"
     "        S = S * g[t, h] + X[t, h, d]\n"
     "    return S[h, d]\n",
     SCHEDULE_TASKS},
    {"dim d = 16\n"
     "def F(Q[n, h, d], K[m, h, d], V[m, h, d]):\n"
     "    W[n, m, h] = softmax(einsum(Q[n, h, d], K[m, h, d] -> [n, m, h]), reduced_dim=m)\n"
     "    return einsum(W[n, m, h], V[m, h, d] -> [n, h, d])\n",
     SCHEDULE_STREAM},
    {"dim d = 16, h = 4, k = 4\n"
     "def F(Q[n, k, d], K[m, k, d], V[m, h, d], P[k, h]):\n"
     "    J[n, m, k] = where(index(n) >= index(m), einsum(Q[n, k, d], K[m, k, d] -> [n, m, k]), "
     "-inf)\n"
     "    W[n, m, h] = softmax(einsum(J[n, m, k], P[k, h] -> [n, m, h]), reduced_dim=m)\n"
     "    return einsum(W[n, m, h], V[m, h, d] -> [n, h, d])\n",
     SCHEDULE_STREAM},
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static void test_any_schedule_computes_the_same(void **state) {
    (void)state;
    for (uint32_t p = 0; p < N_PROGRAMS; p++) {
        Chooser chooser = {.seed = p};
        for (int round = 0; round < ROUNDS; round++) {
            Session *session = session_new();
            LowerCheck check = {.machine = round % 2 ? &lower_large : &lower_small,
                                .typical = round % 3 ? 24 : 300,
                                .dynamic = {1, 19},
                                .choose = choose_any,
                                .self = &chooser};
            assert_true(lower_check(passes_build(session, programs[p].text), &check));
            session_free(session);
        }
        ScheduleKind kind = programs[p].kind;
        assert_true(chooser.schedules[kind] > 2 * chooser.groups[kind]);
        assert_true(kind != SCHEDULE_STREAM || chooser.blocks > 20 * ROUNDS);
    }
}

// The tile program; NULL: the forced plan does not fit.
static const char *lowered(const char *text, const ScheduleWish *wish, Arena *arena) {
    Session *session = session_new();
    Plan *plan = passes_plan(session, text);
    int64_t *extents = graph_typical_extents(plan->fusion->graph, session->arena);
    Text print = {.arena = arena};
    TileProgram *program = tile_lower(plan, &lower_large, extents, wish);
    if (program)
        tile_print(program, &print);
    session_free(session);
    return print.at;
}

static void test_the_default_comes_first(void **state) {
    (void)state;
    Arena *arena = arena_new();
    for (uint32_t p = 0; p < N_PROGRAMS; p++) {
        Chooser chooser = {.first = true};
        ScheduleWish wish = {.choose = choose_any, .self = &chooser};
        const char *text = programs[p].text;
        assert_string_equal(lowered(text, &wish, arena), lowered(text, &(ScheduleWish){0}, arena));
    }
    arena_free(arena);
}

static void test_a_forced_plan_leaves_its_own_schedules(void **state) {
    (void)state;
    Arena *arena = arena_new();
    const char *text = programs[N_PROGRAMS - 1].text;
    uint32_t all = 0, schedules = 0;
    for (PlanKind plan = PLAN_ANY; plan < N_PLANS; plan++) {
        if (plan == PLAN_UNFUSED)
            continue;
        Chooser chooser = {.first = true};
        ScheduleWish wish = {.forced.plan = plan, .choose = choose_any, .self = &chooser};
        bool fits = lowered(text, &wish, arena) != NULL;
        assert_true(fits == (plan != PLAN_TWO_PASS)); // one pass will do
        if (fits)
            *(plan == PLAN_ANY ? &all : &schedules) += chooser.schedules[SCHEDULE_STREAM];
    }
    assert_int_equal(all, schedules);
    arena_free(arena);
}

static void test_thousands_are_tried_in_one_process(void **state) {
    (void)state;
    const char *text = "dim n = 512, d = 768, e = 768\n"
                       "def F(X[n, d], P[d, e]):\n"
                       "    return einsum(X[n, d], P[d, e] -> [n, e])\n";
    Arena *arena = arena_new();
    size_t before = 0;
    Chooser chooser = {.seed = 1};
    ScheduleWish wish = {.choose = choose_any, .self = &chooser};
    while (chooser.schedules[SCHEDULE_CONTRACT] < 5000) {
        lowered(text, &wish, arena);
        if (!before)
            before = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks < before + (1 << 20));
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_schedule_computes_the_same),
        cmocka_unit_test(test_the_default_comes_first),
        cmocka_unit_test(test_a_forced_plan_leaves_its_own_schedules),
        cmocka_unit_test(test_thousands_are_tried_in_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
