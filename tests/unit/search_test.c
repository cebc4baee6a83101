// SPDX-License-Identifier: Apache-2.0
// The search for schedules on a machine that is made up: what it asks for, what it finds, and that
// it depends on nothing but what it is told.
#include "passes_fixture.h"

#include <math.h>
#include <string.h>

#include "tune/tune.h"

// ---- a machine that is made up ------------------------------------------------------------------

typedef struct {
    const char *text;
    Session *session;
    Plan *plan;
    int64_t *extents;
    TuneSpaces spaces;
    const Schedule *fastest; // of the last site: others are slower the farther they are from it
    double noise;
    uint64_t seed; // of the noise
} World;

static const char *const source_text =
    "dim n = 192, m = 192, d = 32, h = 4\n"
    "def F(X[n, d], P[d, h, d'], K[m, h, d'], V[m, h, d']):\n"
    "    Q[n, h, d'] = einsum(X[n, d], P[d, h, d'])\n"
    "    W[n, m, h] = softmax(einsum(Q[n, h, d'], K[m, h, d'] -> [n, m, h]), reduced_dim=m)\n"
    "    return einsum(W[n, m, h], V[m, h, d'] -> [n, h, d'])\n";

static World world_open(void) {
    World w = {.text = source_text, .session = session_new()};
    w.plan = passes_plan(w.session, w.text);
    w.extents = graph_typical_extents(w.plan->fusion->graph, w.session->arena);
    w.spaces.arena = w.session->arena;
    tune_spaces_add(&w.spaces, w.plan, &passes_machine, w.extents);
    return w;
}

static void blocks_of(void *of_world, const Schedule *const *picks, ScheduleList *lists,
                      Arena *arena) {
    World *w = of_world;
    tune_spaces_blocks(&w->spaces, w->plan, &passes_machine, w->extents, picks, lists, arena);
}

static double time_of(const World *w, uint32_t site, const Schedule *schedule, uint64_t run) {
    uint64_t draw =
        hash_u64(hash_u64(site + 100 * w->seed, run), (uint64_t)(schedule->seconds * 1e12));
    double noise = 1 + w->noise * ((double)(draw >> 11) * 0x1p-53 - 0.5);
    double blocks = 0;
    for (uint32_t i = 0; i < schedule->blocks.count; i++)
        blocks += 0.01 * (schedule->blocks.at[i].rows % 5);
    if (site + 1 != w->spaces.at.count || !w->fastest)
        return noise;
    return (1 + 0.1 * schedule_distance(schedule, w->fastest) + blocks) * noise;
}

// The whole search. Returns how many trials were measured; *trace: a number for all of them.
static uint32_t search_all(World *w, TuneSearch *search, uint64_t *trace, uint32_t hurry_after) {
    uint32_t count = 0;
    TuneRound round;
    while (tune_search_next(search, &round)) {
        for (uint32_t i = 0; i < w->spaces.at.count; i++) {
            uint32_t trial = round.trials[i];
            if (trial == TUNE_NO_TRIAL)
                continue;
            double ratios[9];
            uint32_t pairs = round.last ? 9 : 5;
            const TuneSite *site = tune_search_site(search, i);
            for (uint32_t p = 0; p < pairs; p++)
                ratios[p] = time_of(w, i, &site->trials.at[trial].schedule, count * 20 + p) /
                            time_of(w, i, &site->trials.at[0].schedule, count * 20 + p + 10);
            tune_search_note(search, i, trial, ratios, pairs);
            *trace = hash_u64(hash_u64(*trace, i), trial);
            count++;
        }
        if (count > hurry_after)
            tune_search_hurry(search);
    }
    return count;
}

static TuneSearch *search_of(World *w, TuneEffort effort, uint64_t seed) {
    TuneSearchOptions options = {.effort = effort, .seed = seed, .blocks = blocks_of, .self = w};
    return tune_search_new(w->session->arena, &w->spaces, &options);
}

static const TuneSpace *last_space(const World *w) {
    return &w->spaces.at.at[w->spaces.at.count - 1];
}

// ---- spaces -------------------------------------------------------------------------------------

static void test_spaces_are_by_site_and_predicted(void **state) {
    (void)state;
    World w = world_open();
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
    assert_true(last_space(&w)->numbers.count > 10);
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
        Plan *plan = passes_plan(session, texts[i]);
        TuneSpaces spaces = {.arena = session->arena};
        tune_spaces_add(&spaces, plan, &passes_machine,
                        graph_typical_extents(plan->fusion->graph, session->arena));
        assert_int_equal(spaces.at.count, 1);
        sites[i] = spaces.at.at[0].site;
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
    World w = world_open();
    uint32_t n = w.spaces.at.count;
    const Schedule **picks = arena_array(w.session->arena, const Schedule *, n + 1);
    const ScheduleList *numbers = &last_space(&w)->numbers;
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

// ---- the search ---------------------------------------------------------------------------------

static void test_the_same_measurements_ask_for_the_same(void **state) {
    (void)state;
    static const uint64_t seeds[] = {3, 3, 4};
    enum { N_SEEDS = sizeof seeds / sizeof *seeds };
    uint64_t traces[N_SEEDS] = {0};
    for (int i = 0; i < N_SEEDS; i++) {
        World w = world_open();
        w.noise = 0.1;
        w.fastest = &last_space(&w)->numbers.at[last_space(&w)->numbers.count / 2];
        search_all(&w, search_of(&w, EFFORT_NORMAL, seeds[i]), &traces[i], UINT32_MAX);
        session_free(w.session);
    }
    assert_true(traces[0] == traces[1]);
    assert_true(traces[0] != traces[2]); // the seed draws moves
}

static void test_all_are_tried_with_all_effort(void **state) {
    (void)state;
    World w = world_open();
    w.fastest = &last_space(&w)->numbers.at[last_space(&w)->numbers.count - 1];
    TuneSearch *search = search_of(&w, EFFORT_EXHAUSTIVE, 0);
    uint64_t trace = 0;
    search_all(&w, search, &trace, UINT32_MAX);
    for (uint32_t i = 0; i < w.spaces.at.count; i++) {
        const TuneSite *site = tune_search_site(search, i);
        const ScheduleList *all = &w.spaces.at.at[i].numbers;
        for (uint32_t k = 0; k < all->count; k++) {
            uint32_t t = 0;
            while (t < site->trials.count &&
                   !schedule_same(&site->trials.at[t].schedule, &all->at[k]))
                t++;
            assert_true(t < site->trials.count);
        }
    }
    uint32_t winner = tune_search_winner(search, w.spaces.at.count - 1);
    const Schedule *found =
        &tune_search_site(search, w.spaces.at.count - 1)->trials.at[winner].schedule;
    assert_true(schedule_distance(found, w.fastest) == 0);
    session_free(w.session);
}

// The default leads: then its blocks are tried, and those of the next best numbers.
static void test_blocks_of_the_best_numbers_are_tried(void **state) {
    (void)state;
    World w = world_open();
    w.fastest = &last_space(&w)->numbers.at[0];
    TuneSearch *search = search_of(&w, EFFORT_EXHAUSTIVE, 0);
    uint64_t trace = 0;
    search_all(&w, search, &trace, UINT32_MAX);
    const TuneSite *site = tune_search_site(search, w.spaces.at.count - 1);
    uint32_t second = 1;
    for (uint32_t i = 1; i < site->trials.count; i++)
        if (site->trials.at[i].default_blocks &&
            tune_trial_median(&site->trials.at[i]) < tune_trial_median(&site->trials.at[second]))
            second = i;
    bool tried = false;
    for (uint32_t i = 1; i < site->trials.count; i++)
        tried |=
            !site->trials.at[i].default_blocks &&
            schedule_same_numbers(&site->trials.at[i].schedule, &site->trials.at[second].schedule);
    assert_true(tried);
    session_free(w.session);
}

// Nothing is asked for ahead: one schedule beside the other blocks, and what is faster than the
// default goes together with these.
static void test_prefetch_is_chosen_with_blocks(void **state) {
    (void)state;
    World w = world_open();
    uint32_t last = w.spaces.at.count - 1;
    Schedule fastest = schedule_copy(w.session->arena, &last_space(&w)->numbers.at[0]);
    fastest.prefetch = PREFETCH_NONE;
    w.fastest = &fastest;
    TuneSearch *search = search_of(&w, EFFORT_EXHAUSTIVE, 0);
    uint64_t trace = 0;
    search_all(&w, search, &trace, UINT32_MAX);
    const TuneSite *site = tune_search_site(search, last);
    uint32_t alone = 0, together = 0;
    for (uint32_t i = 1; i < site->trials.count; i++) {
        Schedule tried = site->trials.at[i].schedule;
        bool none = tried.prefetch == PREFETCH_NONE && schedule_same_numbers(&tried, &fastest);
        alone += none && schedule_same(&tried, &fastest);
        together += none && !schedule_same(&tried, &fastest);
        assert_true(tried.prefetch == PREFETCH_BY_RULE || !site->trials.at[i].default_blocks);
    }
    assert_int_equal(alone, 1);
    assert_int_equal(together, 1);
    uint32_t winner = tune_search_winner(search, last);
    assert_int_equal(site->trials.at[winner].schedule.prefetch, PREFETCH_NONE);
    session_free(w.session);
}

// Moves lead from the fastest of those that were predicted to be to what nobody predicted.
static void test_moves_come_near(void **state) {
    (void)state;
    World w = world_open();
    const ScheduleList *all = &last_space(&w)->numbers;
    double before = 0, after = 0;
    for (uint32_t k = 0; k < all->count; k += 7) {
        w.fastest = &all->at[k];
        TuneSearch *search = search_of(&w, EFFORT_NORMAL, k);
        uint64_t trace = 0;
        search_all(&w, search, &trace, UINT32_MAX);
        const TuneSite *site = tune_search_site(search, w.spaces.at.count - 1);
        before += schedule_distance(&all->at[0], w.fastest);
        after += schedule_distance(&site->trials.at[site->best].schedule, w.fastest);
    }
    assert_true(after < 0.25 * before);
    session_free(w.session);
}

// 10% of noise around the default's time, in many worlds: hardly one trial is taken to be faster.
static void test_noise_alone_wins_nothing(void **state) {
    (void)state;
    World w = world_open();
    uint32_t won = 0, searched = 0;
    w.noise = 0.1;
    for (w.seed = 0; w.seed < 60; w.seed++) {
        TuneSearch *search = search_of(&w, EFFORT_NORMAL, w.seed);
        uint64_t trace = 0;
        search_all(&w, search, &trace, UINT32_MAX);
        for (uint32_t i = 0; i < w.spaces.at.count; i++, searched++)
            won += tune_search_winner(search, i) != TUNE_DEFAULT;
    }
    assert_true(won <= searched / 20);
    session_free(w.session);
}

// As attc tune does it: the next round is asked for before what the last one gave is noted.
static uint32_t search_ahead(World *w, TuneSearch *search, uint32_t hurry_after) {
    TuneRound rounds[2];
    bool there[2] = {tune_search_next(search, &rounds[0]), false};
    uint32_t count = 0;
    for (int at = 0; there[at]; at = !at) {
        there[!at] = tune_search_next(search, &rounds[!at]);
        for (uint32_t i = 0; i < w->spaces.at.count; i++)
            if (rounds[at].trials[i] != TUNE_NO_TRIAL) {
                double ratios[] = {1.1, 1.1, 1.1, 1.1, 1.1};
                tune_search_note(search, i, rounds[at].trials[i], ratios, 5);
                count++;
            }
        if (count > hurry_after)
            tune_search_hurry(search);
        if (!there[!at])
            there[!at] = tune_search_next(search, &rounds[!at]);
    }
    return count;
}

static void test_a_hurry_ends_with_the_best_so_far(void **state) {
    (void)state;
    World w = world_open();
    uint32_t all = search_ahead(&w, search_of(&w, EFFORT_EXHAUSTIVE, 0), UINT32_MAX);
    uint32_t few = search_ahead(&w, search_of(&w, EFFORT_EXHAUSTIVE, 0), 10);
    assert_true(few < all / 2 && few <= 10 + 6 * w.spaces.at.count);
    session_free(w.session);
}

// What is no faster so far is not compared once more: two rounds are on their way.
static void test_a_hurry_compares_nothing_that_is_slower(void **state) {
    (void)state;
    World w = world_open();
    TuneSearch *search = search_of(&w, EFFORT_EXHAUSTIVE, 0);
    assert_true(search_ahead(&w, search, 0) <= 2 * w.spaces.at.count);
    for (uint32_t i = 0; i < w.spaces.at.count; i++)
        for (uint32_t t = 0; t < tune_search_site(search, i)->trials.count; t++)
            assert_false(tune_search_site(search, i)->trials.at[t].last);
    session_free(w.session);
}

// Nor where only what looks faster is wanted, but for what was suggested.
static void test_what_is_slower_is_not_compared_once_more(void **state) {
    (void)state;
    World w = world_open();
    const ScheduleList *numbers = &last_space(&w)->numbers;
    uint32_t last = w.spaces.at.count - 1, compared = 0;
    TuneSearchOptions options = {
        .effort = EFFORT_EXHAUSTIVE, .only_faster = true, .blocks = blocks_of, .self = &w};
    TuneSearch *search = tune_search_new(w.session->arena, &w.spaces, &options);
    tune_search_suggest(search, last, &numbers->at[numbers->count - 1]);
    search_ahead(&w, search, UINT32_MAX);
    for (uint32_t i = 0; i < w.spaces.at.count; i++)
        for (uint32_t t = 0; t < tune_search_site(search, i)->trials.count; t++) {
            const TuneTrial *trial = &tune_search_site(search, i)->trials.at[t];
            assert_int_equal(trial->last, trial->suggested);
            compared += trial->last;
        }
    assert_int_equal(compared, 1);
    session_free(w.session);
}

// Of the space they are the first trial, with their own blocks or the default ones; others are
// none.
static void test_suggestions_come_first(void **state) {
    (void)state;
    World w = world_open();
    uint32_t last = w.spaces.at.count - 1;
    const ScheduleList *numbers = &last_space(&w)->numbers;
    Schedule wanted = numbers->at[numbers->count - 1], foreign = wanted;
    foreign.stream.rows += 5;
    TuneSearch *search = search_of(&w, EFFORT_QUICK, 0);
    tune_search_suggest(search, last, &foreign);
    tune_search_suggest(search, last, &numbers->at[0]); // the default needs no trial
    tune_search_suggest(search, last, &wanted);
    TuneRound round;
    assert_true(tune_search_next(search, &round));
    const TuneSite *site = tune_search_site(search, last);
    assert_true(schedule_same(&site->trials.at[round.trials[last]].schedule, &wanted));
    uint64_t trace = 0;
    for (uint32_t i = 0; i <= last; i++)
        if (round.trials[i] != TUNE_NO_TRIAL)
            tune_search_note(search, i, round.trials[i], (double[]){1}, 1);
    search_all(&w, search, &trace, UINT32_MAX);
    uint32_t times = 0;
    for (uint32_t t = 0; t < site->trials.count; t++)
        times += schedule_same(&site->trials.at[t].schedule, &wanted);
    assert_int_equal(times, 1);
    session_free(w.session);
}

// All but what is suggested is a tenth faster, in all pairs. pairs: 0 for as many as it takes.
static uint32_t winner_beside(uint32_t suggested, uint32_t pairs) {
    enum { PAIRS_MOST = 41 };
    World w = world_open();
    const ScheduleList *numbers = &last_space(&w)->numbers;
    TuneSearch *search = search_of(&w, EFFORT_QUICK, 1);
    uint32_t last = w.spaces.at.count - 1;
    TuneRound round;
    for (uint32_t i = 0; i < suggested; i++)
        tune_search_suggest(search, last, &numbers->at[numbers->count - 1 - i]);
    while (tune_search_next(search, &round))
        for (uint32_t i = 0; i < w.spaces.at.count; i++) {
            double ratios[PAIRS_MOST];
            uint32_t trial = round.trials[i],
                     count = pairs ? pairs : (uint32_t)att_values_wanted(tune_search_last(search));
            if (trial == TUNE_NO_TRIAL)
                continue;
            for (uint32_t p = 0; p < count; p++)
                ratios[p] = tune_search_site(search, i)->trials.at[trial].suggested ? 1.1 : 0.9;
            tune_search_note(search, i, trial, ratios, count);
        }
    assert_true(tune_search_last(search) <= TUNE_LAST + TUNE_SUGGESTED);
    uint32_t winner = tune_search_winner(search, last);
    session_free(w.session);
    return winner;
}

static void test_the_best_of_more_has_to_be_surer(void **state) {
    (void)state;
    assert_int_not_equal(winner_beside(0, 6), TUNE_DEFAULT);
    assert_int_equal(winner_beside(4, 6), TUNE_DEFAULT);
    for (uint32_t suggested = 0; suggested < 2 * TUNE_SUGGESTED; suggested++)
        assert_int_not_equal(winner_beside(suggested, 0), TUNE_DEFAULT);
}

static void test_a_skipped_site_keeps_its_default(void **state) {
    (void)state;
    World w = world_open();
    TuneSearch *search = search_of(&w, EFFORT_QUICK, 0);
    for (uint32_t i = 0; i < w.spaces.at.count; i++)
        tune_search_skip(search, i);
    TuneRound round;
    assert_false(tune_search_next(search, &round));
    assert_int_equal(tune_search_winner(search, 0), TUNE_DEFAULT);
    session_free(w.session);
}

// ---- statistics and text ------------------------------------------------------------------------

static void test_statistics(void **state) {
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    assert_true(tune_median(odd, 3) == 2 && tune_median(even, 4) == 2.5);
    double faster[] = {0.9, 0.8, 0.9, 0.7, 0.95}, mixed[] = {0.9, 1.1, 0.9, 1.2};
    assert_true(fabs(att_confidence(faster, 5, 1) - (1 - 1.0 / 32)) < 1e-12);
    assert_true(fabs(att_confidence(mixed, 4, 1) - (1 - 11.0 / 16)) < 1e-12);
    assert_true(att_confidence(NULL, 0, 1) == 0);
    assert_true(att_confidence(faster, 5, 0.85) < 0.6); // two of five
    assert_true(tune_quantile(even, 4, 0.75) == 3.25 && tune_quantile(odd, 1, 0.75) == 3);
    double a[] = {1, 2, 3, 4}, up[] = {10, 20, 30, 50}, down[] = {4, 3, 2, 1},
           flat[] = {1, 1, 1, 1};
    double ties[] = {1, 1, 2, 2};
    assert_true(tune_rank_correlation(a, up, 4) == 1);
    assert_true(tune_rank_correlation(a, down, 4) == -1);
    assert_true(isnan(tune_rank_correlation(a, flat, 4)));
    assert_true(fabs(tune_rank_correlation(a, ties, 4) - 0.8944271909999159) < 1e-12);
}

static void test_schedules_are_read_as_they_are_written(void **state) {
    (void)state;
    World w = world_open();
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

// Never fewer than come with normal effort, one fewer with each; none at the end.
static void test_what_is_left_is_known(void **state) {
    (void)state;
    World w = world_open();
    TuneSearch *search = search_of(&w, EFFORT_NORMAL, 1);
    uint32_t left = tune_search_left(search), rounds = 0;
    TuneRound round;
    for (; tune_search_next(search, &round); rounds++) {
        uint32_t now = tune_search_left(search);
        assert_true(now < left);
        left = now;
        for (uint32_t i = 0; i < w.spaces.at.count; i++) {
            double ratios[] = {1.1, 1.1, 1.1};
            if (round.trials[i] != TUNE_NO_TRIAL)
                tune_search_note(search, i, round.trials[i], ratios, 3);
        }
    }
    assert_true(rounds > 0);
    assert_int_equal(tune_search_left(search), 0);
    session_free(w.session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spaces_are_by_site_and_predicted),
        cmocka_unit_test(test_sizes_with_one_kernel_are_one_space),
        cmocka_unit_test(test_sites_know_no_names),
        cmocka_unit_test(test_what_is_known_is_used),
        cmocka_unit_test(test_the_same_measurements_ask_for_the_same),
        cmocka_unit_test(test_all_are_tried_with_all_effort),
        cmocka_unit_test(test_blocks_of_the_best_numbers_are_tried),
        cmocka_unit_test(test_prefetch_is_chosen_with_blocks),
        cmocka_unit_test(test_moves_come_near),
        cmocka_unit_test(test_sums_of_a_turn_are_a_place),
        cmocka_unit_test(test_what_is_left_is_known),
        cmocka_unit_test(test_noise_alone_wins_nothing),
        cmocka_unit_test(test_a_hurry_ends_with_the_best_so_far),
        cmocka_unit_test(test_a_hurry_compares_nothing_that_is_slower),
        cmocka_unit_test(test_what_is_slower_is_not_compared_once_more),
        cmocka_unit_test(test_suggestions_come_first),
        cmocka_unit_test(test_the_best_of_more_has_to_be_surer),
        cmocka_unit_test(test_a_skipped_site_keeps_its_default),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_schedules_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
