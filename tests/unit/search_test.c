// SPDX-License-Identifier: Apache-2.0
// The search for schedules on a machine that is made up: what it asks for, what it finds, and that
// it depends on nothing but what it is told.
#include "search_fixture.h"

#include <math.h>

// ---- a machine that is made up ------------------------------------------------------------------

static double time_of(const SearchWorld *w, uint32_t site, const Schedule *schedule, uint64_t run) {
    uint64_t draw =
        hash_u64(hash_u64(site + 100 * w->seed, run), (uint64_t)(schedule->seconds * 1e12));
    double noise = 1 + w->noise * ((double)(draw >> 11) * 0x1p-53 - 0.5);
    double blocks = 0;
    for (uint32_t i = 0; i < schedule->blocks.count; i++)
        blocks += 0.01 * (schedule->blocks.at[i].rows % 5);
    if (site + 1 != w->spaces.at.count || !w->fastest)
        return noise;
    double far = schedule_distance(schedule, w->fastest);
    far += schedule->prefetch != w->fastest->prefetch;
    return (1 + 0.1 * far + blocks) * noise;
}

// The whole search. Returns how many trials were measured; *trace: a number for all of them.
static uint32_t search_all(SearchWorld *w, TuneSearch *search, uint64_t *trace,
                           uint32_t hurry_after) {
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

static TuneSearch *search_of(SearchWorld *w, TuneEffort effort, uint64_t seed) {
    TuneSearchOptions options = {
        .effort = effort, .seed = seed, .blocks = search_blocks, .self = w};
    return tune_search_new(w->session->arena, &w->spaces, &options);
}

// ---- the search ---------------------------------------------------------------------------------

static void test_the_same_measurements_ask_for_the_same(void **state) {
    (void)state;
    static const uint64_t seeds[] = {3, 3, 4};
    enum { N_SEEDS = sizeof seeds / sizeof *seeds };
    uint64_t traces[N_SEEDS] = {0};
    for (int i = 0; i < N_SEEDS; i++) {
        SearchWorld w = search_world();
        w.noise = 0.1;
        w.fastest = &search_last_space(&w)->numbers.at[search_last_space(&w)->numbers.count / 2];
        search_all(&w, search_of(&w, EFFORT_NORMAL, seeds[i]), &traces[i], UINT32_MAX);
        session_free(w.session);
    }
    assert_true(traces[0] == traces[1]);
    assert_true(traces[0] != traces[2]); // the seed draws moves
}

static void test_all_are_tried_with_all_effort(void **state) {
    (void)state;
    SearchWorld w = search_world();
    w.fastest = &search_last_space(&w)->numbers.at[search_last_space(&w)->numbers.count - 1];
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
    SearchWorld w = search_world();
    w.fastest = &search_last_space(&w)->numbers.at[0];
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
    SearchWorld w = search_world();
    uint32_t last = w.spaces.at.count - 1;
    Schedule fastest = schedule_copy(w.session->arena, &search_last_space(&w)->numbers.at[0]);
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
    SearchWorld w = search_world();
    const ScheduleList *all = &search_last_space(&w)->numbers;
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
    SearchWorld w = search_world();
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
static uint32_t search_ahead(SearchWorld *w, TuneSearch *search, uint32_t hurry_after) {
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
    SearchWorld w = search_world();
    uint32_t all = search_ahead(&w, search_of(&w, EFFORT_EXHAUSTIVE, 0), UINT32_MAX);
    uint32_t few = search_ahead(&w, search_of(&w, EFFORT_EXHAUSTIVE, 0), 10);
    assert_true(few < all / 2 && few <= 10 + 6 * w.spaces.at.count);
    session_free(w.session);
}

// What was found by then is compared once more, and wins.
static void test_a_hurry_keeps_what_was_found(void **state) {
    (void)state;
    SearchWorld w = search_world();
    uint32_t last = w.spaces.at.count - 1;
    w.fastest = &search_last_space(&w)->numbers.at[1];
    for (uint32_t i = 2; i < search_last_space(&w)->numbers.count; i++)
        if (search_last_space(&w)->numbers.at[i].seconds < w.fastest->seconds)
            w.fastest = &search_last_space(&w)->numbers.at[i];
    TuneSearch *search = search_of(&w, EFFORT_EXHAUSTIVE, 0);
    uint64_t trace = 0;
    search_all(&w, search, &trace, 10);
    const TuneTrial *won =
        &tune_search_site(search, last)->trials.at[tune_search_winner(search, last)];
    assert_true(won->last && schedule_same(&won->schedule, w.fastest));
    session_free(w.session);
}

// What is no faster so far is not compared once more: two rounds are on their way.
static void test_a_hurry_compares_nothing_that_is_slower(void **state) {
    (void)state;
    SearchWorld w = search_world();
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
    SearchWorld w = search_world();
    const ScheduleList *numbers = &search_last_space(&w)->numbers;
    uint32_t last = w.spaces.at.count - 1, compared = 0;
    TuneSearchOptions options = {
        .effort = EFFORT_EXHAUSTIVE, .only_faster = true, .blocks = search_blocks, .self = &w};
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
    SearchWorld w = search_world();
    uint32_t last = w.spaces.at.count - 1;
    const ScheduleList *numbers = &search_last_space(&w)->numbers;
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

static void test_suggestions_come_in_order(void **state) {
    (void)state;
    SearchWorld w = search_world();
    uint32_t last = w.spaces.at.count - 1;
    const ScheduleList *numbers = &search_last_space(&w)->numbers;
    const Schedule *known[] = {&numbers->at[numbers->count - 1], &numbers->at[numbers->count - 2]};
    Schedule without_blocks = *known[0];
    without_blocks.blocks = (StageBlocksList){0};
    TuneSearch *search = search_of(&w, EFFORT_QUICK, 0);
    tune_search_suggest(search, last, &without_blocks); // none of the space
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < 2; i++)
            tune_search_suggest(search, last, known[i]);
    const TuneSite *site = tune_search_site(search, last);
    for (int i = 0; i < 2; i++) {
        TuneRound round;
        assert_true(tune_search_next(search, &round));
        assert_true(schedule_same(&site->trials.at[round.trials[last]].schedule, known[i]));
    }
    session_free(w.session);
}

// All but what is suggested is a tenth faster, in all pairs. pairs: 0 for as many as it takes.
static uint32_t winner_beside(uint32_t suggested, uint32_t pairs) {
    enum { PAIRS_MOST = 41 };
    SearchWorld w = search_world();
    const ScheduleList *numbers = &search_last_space(&w)->numbers;
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
    SearchWorld w = search_world();
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

// Never fewer than come with normal effort, one fewer with each; none at the end.
static void test_what_is_left_is_known(void **state) {
    (void)state;
    SearchWorld w = search_world();
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
        cmocka_unit_test(test_the_same_measurements_ask_for_the_same),
        cmocka_unit_test(test_all_are_tried_with_all_effort),
        cmocka_unit_test(test_blocks_of_the_best_numbers_are_tried),
        cmocka_unit_test(test_prefetch_is_chosen_with_blocks),
        cmocka_unit_test(test_moves_come_near),
        cmocka_unit_test(test_what_is_left_is_known),
        cmocka_unit_test(test_noise_alone_wins_nothing),
        cmocka_unit_test(test_a_hurry_ends_with_the_best_so_far),
        cmocka_unit_test(test_a_hurry_keeps_what_was_found),
        cmocka_unit_test(test_a_hurry_compares_nothing_that_is_slower),
        cmocka_unit_test(test_what_is_slower_is_not_compared_once_more),
        cmocka_unit_test(test_suggestions_come_first),
        cmocka_unit_test(test_suggestions_come_in_order),
        cmocka_unit_test(test_the_best_of_more_has_to_be_surer),
        cmocka_unit_test(test_a_skipped_site_keeps_its_default),
        cmocka_unit_test(test_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
