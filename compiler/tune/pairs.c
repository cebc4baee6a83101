// SPDX-License-Identifier: Apache-2.0
// How many pairs of runs a round has: of a candidate, and of the default beside it.
//
// A round of the search has a few, and is given up after two where no trial comes near to the best
// so far. A last round has many, as far as there is time. What then looks faster without being
// surely so goes on to the most, and is looked at once more: to look after each pair, and to end
// when it happens to look sure, would make chance win.
#include <math.h>

#include "tune/tune.h"

// All of these are chosen: a round of the search is to take little more than compiling the next
// candidate does, which is 0.1 to 0.3 s, and a last one is to be sure of 1% on a busy machine.
enum { PAIRS_LEAST = 3, PAIRS_LAST = 15 };                         // of a search; usual last ones
static const double SECONDS_OF_ROUND = 0.1, SECONDS_OF_LAST = 0.5; // for short programs
enum { RUNS_MOST = 100 };                                          // in a row, of the shortest
static const double HOPELESS = 1.2;                                // times of the best so far

TunePairs tune_pairs(const TuneSearch *search, const TuneRound *round, uint32_t sites,
                     Arena *arena) {
    return (TunePairs){.search = search,
                       .round = round,
                       .sites = sites,
                       .ratios = arena_array(arena, double, ATT_PAIRS_MOST *sites + 1),
                       .until = 1};
}

const double *tune_pairs_ratios(const TunePairs *pairs, uint32_t site) {
    return pairs->ratios + site * ATT_PAIRS_MOST;
}

void tune_pairs_add(TunePairs *pairs, const double *ours, const double *theirs) {
    for (uint32_t i = 0; i < pairs->sites; i++) // two times of 0 do not tell which is faster
        pairs->ratios[i * ATT_PAIRS_MOST + pairs->count] = theirs[i] > 0 ? ours[i] / theirs[i] : 1;
    pairs->count++;
}

uint32_t tune_pairs_runs(const TunePairs *pairs, double seconds_of_pair) {
    double seconds = pairs->round->last ? SECONDS_OF_LAST : SECONDS_OF_ROUND;
    return (uint32_t)clamp((int64_t)fmin(seconds / ATT_PAIRS_MOST / seconds_of_pair, RUNS_MOST), 1,
                           RUNS_MOST);
}

void tune_pairs_plan(TunePairs *pairs, double seconds_of_pair, double seconds_left) {
    double least = PAIRS_LEAST, most = ATT_PAIRS_MOST;
    double usual = fmin(SECONDS_OF_ROUND / seconds_of_pair, most);
    if (pairs->round->last) {
        least = (double)att_values_wanted(tune_search_last(pairs->search));
        most = fmin(seconds_left / seconds_of_pair, most);
        usual = fmin(fmax(SECONDS_OF_LAST / seconds_of_pair, PAIRS_LAST), most);
    }
    pairs->usual = (uint32_t)fmax(usual, least);
    pairs->most = pairs->round->last ? (uint32_t)fmax(most, least) : pairs->usual;
    pairs->until = pairs->usual > pairs->count ? pairs->usual : pairs->count;
}

// Has no trial of a round of the search come near to the best?
static bool is_hopeless(const TunePairs *pairs) {
    for (uint32_t i = 0; i < pairs->sites; i++) {
        const TuneSite *site = tune_search_site(pairs->search, i);
        double best = site->trials.at[site->best].ratio;
        for (uint32_t p = 0; p < pairs->count && pairs->round->trials[i] != TUNE_NO_TRIAL; p++)
            if (tune_pairs_ratios(pairs, i)[p] < HOPELESS * best)
                return false;
    }
    return !pairs->round->last;
}

// Does a trial of a last round look faster than the default, without being surely so?
static bool is_open(const TunePairs *pairs) {
    double sure = att_confidence_wanted(tune_search_last(pairs->search));
    for (uint32_t i = 0; i < pairs->sites && pairs->round->last; i++) {
        const double *ratios = tune_pairs_ratios(pairs, i);
        if (pairs->round->trials[i] != TUNE_NO_TRIAL &&
            att_confidence(ratios, pairs->count, ATT_WORTH) < sure &&
            tune_median(ratios, pairs->count) <= ATT_WORTH)
            return true;
    }
    return false;
}

bool tune_pairs_go_on(TunePairs *pairs) {
    if (pairs->count == ATT_PAIRS_HOPELESS && is_hopeless(pairs))
        return false;
    if (pairs->count == pairs->until && pairs->until == pairs->usual && is_open(pairs))
        pairs->until = pairs->most;
    return pairs->count < pairs->until;
}
