// SPDX-License-Identifier: Apache-2.0
// How many pairs of runs a round has, on a clock that is made up.
#include "search_fixture.h"

#include <math.h>

enum { SITE = 0 };
typedef struct {
    SearchWorld world;
    TuneSearch *search;
    TuneRound round;
    TunePairs pairs;
} Round;

// The best of the site has the default's time.
static void open_round(Round *r, bool last) {
    *r = (Round){.world = search_world()};
    Arena *arena = r->world.session->arena;
    TuneSearchOptions options = {
        .effort = EFFORT_QUICK, .blocks = search_blocks, .self = &r->world};
    r->search = tune_search_new(arena, &r->world.spaces, &options);
    assert_true(tune_search_next(r->search, &r->round));
    for (uint32_t i = 0; i < r->world.spaces.at.count; i++)
        r->round.trials[i] = i == SITE ? 1 : TUNE_NO_TRIAL;
    r->round.last = last;
}

// How many pairs there are where each takes so many seconds and the trial so many times the
// default's time.
static uint32_t pairs_of(Round *r, double seconds, double left, double ratio) {
    uint32_t sites = r->world.spaces.at.count;
    double ours[8], theirs[8];
    assert_true(sites <= 8);
    for (uint32_t i = 0; i < sites; i++) {
        theirs[i] = 2;
        ours[i] = i == SITE ? 2 * ratio : 9; // what is not tried decides nothing
    }
    r->pairs = tune_pairs(r->search, &r->round, sites, r->world.session->arena);
    while (tune_pairs_go_on(&r->pairs)) {
        tune_pairs_add(&r->pairs, ours, theirs);
        if (r->pairs.count == 1)
            tune_pairs_plan(&r->pairs, seconds, left);
        assert_true(r->pairs.count <= ATT_PAIRS_MOST);
        assert_true(tune_pairs_ratios(&r->pairs, SITE)[r->pairs.count - 1] == ratio);
    }
    return r->pairs.count;
}

static void close_round(Round *r) {
    session_free(r->world.session);
}

static void test_rounds_of_the_search_are_short(void **state) {
    (void)state;
    Round r;
    open_round(&r, false);
    assert_int_equal(pairs_of(&r, 10, INFINITY, 1), 3);
    assert_int_equal(pairs_of(&r, 0.01, INFINITY, 1), 10);
    assert_int_equal(pairs_of(&r, 1e-9, INFINITY, 1), ATT_PAIRS_MOST);
    assert_int_equal(pairs_of(&r, 0.01, 0, 1), 10); // a budget ends no round that has begun
    close_round(&r);
}

static void test_what_is_far_slower_is_given_up(void **state) {
    (void)state;
    Round r;
    open_round(&r, false);
    assert_int_equal(pairs_of(&r, 0.01, INFINITY, 1.19), 10);
    assert_int_equal(pairs_of(&r, 0.01, INFINITY, 1.21), 2);
    close_round(&r);
    open_round(&r, true);
    assert_int_equal(pairs_of(&r, 1, INFINITY, 1.21), 15); // judged all the same
    close_round(&r);
}

static void test_last_rounds_have_many(void **state) {
    (void)state;
    Round r;
    open_round(&r, true);
    assert_int_equal(pairs_of(&r, 1, INFINITY, 0.9), 15);
    assert_int_equal(pairs_of(&r, 0.02, INFINITY, 0.9), 25);
    assert_int_equal(pairs_of(&r, 1e-9, INFINITY, 0.9), ATT_PAIRS_MOST);
    close_round(&r);
}

// Faster in nine of 15 pairs, in the others slower: nobody can tell, so there are more.
static void test_what_is_open_goes_on(void **state) {
    (void)state;
    Round r;
    open_round(&r, true);
    const double one = 1, fast = 0.9, slow = 1.1;
    for (int mostly_fast = 0; mostly_fast < 2; mostly_fast++) {
        r.pairs = tune_pairs(r.search, &r.round, 1, r.world.session->arena);
        while (tune_pairs_go_on(&r.pairs)) {
            bool is_fast = (r.pairs.count % 5 < 3) == mostly_fast;
            tune_pairs_add(&r.pairs, is_fast ? &fast : &slow, &one);
            if (r.pairs.count == 1)
                tune_pairs_plan(&r.pairs, 1, INFINITY);
        }
        assert_int_equal(r.pairs.count, mostly_fast ? ATT_PAIRS_MOST : 15);
    }
    close_round(&r);
}

// At least as many as make it sure where all of them are fast.
static void test_a_budget_leaves_fewer(void **state) {
    (void)state;
    Round r;
    open_round(&r, true);
    uint32_t least = (uint32_t)att_values_wanted(tune_search_last(r.search));
    assert_true(least > 1 && least < 9);
    assert_int_equal(pairs_of(&r, 1, 9, 0.9), 9);
    assert_int_equal(pairs_of(&r, 1, 0, 0.9), least);
    assert_int_equal(pairs_of(&r, 1, 12, 0.995), 12); // looks faster by less than counts
    // An interrupt on the way: what there is by then is enough.
    r.pairs = tune_pairs(r.search, &r.round, 1, r.world.session->arena);
    const double one = 1, fast = 0.9;
    while (tune_pairs_go_on(&r.pairs)) {
        tune_pairs_add(&r.pairs, &fast, &one);
        if (r.pairs.count == 1 || r.pairs.count == 11)
            tune_pairs_plan(&r.pairs, 1, r.pairs.count == 1 ? INFINITY : 2);
    }
    assert_int_equal(r.pairs.count, 11);
    close_round(&r);
}

static void test_runs_in_a_row(void **state) {
    (void)state;
    for (int last = 0; last < 2; last++) {
        Round r;
        open_round(&r, last);
        TunePairs pairs = tune_pairs(r.search, &r.round, 1, r.world.session->arena);
        assert_int_equal(tune_pairs_runs(&pairs, 1), 1);
        assert_int_equal(tune_pairs_runs(&pairs, 1e-3), last ? 12 : 2);
        assert_int_equal(tune_pairs_runs(&pairs, 1e-9), 100);
        close_round(&r);
    }
}

// A clock may tell that nothing took any time.
static void test_no_time_is_no_ratio(void **state) {
    (void)state;
    Round r;
    open_round(&r, false);
    TunePairs pairs = tune_pairs(r.search, &r.round, 1, r.world.session->arena);
    const double none = 0, some = 1;
    tune_pairs_add(&pairs, &none, &none);
    tune_pairs_add(&pairs, &some, &none);
    for (int i = 0; i < 2; i++)
        assert_true(tune_pairs_ratios(&pairs, 0)[i] == 1);
    close_round(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds_of_the_search_are_short),
        cmocka_unit_test(test_what_is_far_slower_is_given_up),
        cmocka_unit_test(test_last_rounds_have_many),
        cmocka_unit_test(test_what_is_open_goes_on),
        cmocka_unit_test(test_a_budget_leaves_fewer),
        cmocka_unit_test(test_runs_in_a_row),
        cmocka_unit_test(test_no_time_is_no_ratio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
