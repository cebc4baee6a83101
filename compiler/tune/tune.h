// SPDX-License-Identifier: Apache-2.0
// Level tune: schedules found by measurement, and the database that keeps them.
#ifndef ATTC_TUNE_H
#define ATTC_TUNE_H

#include <time.h>

#include "statistics.h"
#include "tile/tile.h"

// ---- spaces.c: what can be chosen in programs ---------------------------------------------------
// One site with its schedules, whatever the kernels that it stands for are called.
typedef struct {
    ScheduleSite site;
    // Other sizes of run-time extents that have the same kernel by default: one launch serves all
    // of them, and what is chosen for the site is for these, too.
    VEC(ScheduleSite) others;
    const char *name; // of what the first of its kernels makes
    // The default first, with predicted times; blocks and prefetch are the default ones.
    ScheduleList numbers;
    bool asks; // of kernels: there is something to ask for ahead
} TuneSpace;
typedef struct {
    Arena *arena;
    VEC(TuneSpace) at; // in order of their first kernels
} TuneSpaces;
// Adds the sites of a program that are new.
void tune_spaces_add(TuneSpaces *spaces, const Plan *plan, const Machine *machine,
                     const int64_t *extents);
// The one that a site, or one of the others, is of; count: not there.
uint32_t tune_spaces_find(const TuneSpaces *spaces, const ScheduleSite *site);
// The schedules that differ from one in the blocks of one place or in prefetch, in the arena; those
// of a program's sites that have some. picks: by site; NULL: leave it out.
void tune_spaces_blocks(const TuneSpaces *spaces, const Plan *plan, const Machine *machine,
                        const int64_t *extents, const Schedule *const *picks, ScheduleList *lists,
                        Arena *arena);
// Of the schedules by site, as lowering asks for it.
typedef struct {
    const TuneSpaces *spaces;
    const Schedule *const *picks; // by site; NULL: the default
} TunePicks;
ScheduleSource tune_picks_source(const TunePicks *picks);

// ---- alternatives.c: programs that are tuned where they run -------------------------------------
// Gives launches of a program, which was lowered with the wish, up to `most` alternatives each,
// with other schedules than their own: of groups that are predicted to take a share of its time,
// those whose times are predicted to be the shortest.
void tune_add_alternatives(TileProgram *program, const Machine *machine, const int64_t *extents,
                           const ScheduleWish *wish, uint32_t most);

// ---- statistics.c -------------------------------------------------------------------------------
double tune_median(const double *values, uint32_t count); // NAN: of none
// share: 0.75 for the upper quartile.
double tune_quantile(const double *values, uint32_t count, double share);
// Spearman, "The proof and measurement of association between two things" (1904), ties at their
// mean rank. NAN where all of one are equal.
double tune_rank_correlation(const double *a, const double *b, uint32_t count);

// ---- nearest.c ----------------------------------------------------------------------------------
uint32_t tune_nearest(const ScheduleList *space, const Schedule *wanted); // its index

// ---- search.c: which schedules to measure next, whoever measures them ---------------------------
// A schedule of a site. Ratios are its times over those of the default schedule, each of two runs
// next to each other.
typedef struct {
    Schedule schedule;
    VEC(double) ratios;
    // What it is ranked by: their upper quartile, so that a lucky run does not make it the best;
    // of the last trials the median of the last ratios. INFINITY: there are none yet.
    double ratio;
    bool default_blocks;
    bool suggested;
    // One of the last trials: the ratios before this one chose it, and do not judge it.
    bool last;
    uint32_t judged_from;
} TuneTrial;
typedef struct {
    const TuneSpace *space;
    VEC(TuneTrial) trials; // the default first
    uint32_t best;         // so far
} TuneSite;
typedef enum { EFFORT_QUICK, EFFORT_NORMAL, EFFORT_EXHAUSTIVE, N_EFFORTS } TuneEffort;
// Fills in lists, by site: schedules that differ from the pick in the blocks of one place or in
// prefetch, or, of programs, in one decision.
typedef void TuneBlocks(void *self, const Schedule *const *picks, ScheduleList *lists,
                        Arena *arena);
typedef struct {
    TuneEffort effort;
    uint64_t seed;
    // What did not look faster is none of the last trials, which take time, unless it was
    // suggested, and no other blocks of it are tried.
    bool only_faster;
    TuneBlocks *blocks;
    void *self;
} TuneSearchOptions;
// Last trials of a site, at most: the best, and of those that were suggested the first ones.
// Chosen: a last trial takes as long as ten of the others.
enum { TUNE_LAST = 3, TUNE_SUGGESTED = 5 };
typedef struct TuneSearch TuneSearch;
TuneSearch *tune_search_new(Arena *arena, const TuneSpaces *spaces,
                            const TuneSearchOptions *options);
void tune_search_skip(TuneSearch *search, uint32_t site); // the default stays
// The schedule is tried before others, after those that were suggested so far, if its numbers are
// of the space and it has as many blocks, and is one of the last trials, in a hurry if it looks
// faster; before the first round. Of more than TUNE_SUGGESTED the later ones are left out.
void tune_search_suggest(TuneSearch *search, uint32_t site, const Schedule *schedule);
const TuneSite *tune_search_site(const TuneSearch *search, uint32_t site);
enum { TUNE_NO_TRIAL = UINT32_MAX };
// One trial of each site, to be measured in one program; sites that have none now: TUNE_NO_TRIAL.
typedef struct {
    uint32_t *trials; // by site
    bool last;        // of the last trials, which wants the most pairs of runs
} TuneRound;
// The next round, in the arena of the search. false: there is none before results of earlier rounds
// are noted, or at all. What is asked for depends on nothing but options and what was noted.
bool tune_search_next(TuneSearch *search, TuneRound *round);
// Rounds that are still to come, as far as that is known: later phases may ask for fewer, and for
// more where all blocks are tried.
uint32_t tune_search_left(const TuneSearch *search);
// No more than the last trials of each site, the best so far, from now on: of what is asked for
// already the results are waited for.
void tune_search_hurry(TuneSearch *search);
// count 0: it could not be measured.
void tune_search_note(TuneSearch *search, uint32_t site, uint32_t trial, const double *ratios,
                      uint32_t count);
// The best trial, if it is faster than the default beyond doubt; 0: the default.
enum { TUNE_DEFAULT = 0 };
uint32_t tune_search_winner(const TuneSearch *search, uint32_t site);
// The most last trials that a site has, or TUNE_LAST.
uint32_t tune_search_last(const TuneSearch *search);
double tune_trial_confidence(const TuneTrial *trial); // that it is faster than the default
// Of all of its ratios, the default's is 1: what it takes, while `ratio` is what it is ranked by.
// INFINITY: there are none.
double tune_trial_median(const TuneTrial *trial);
bool tune_site_is_measured(const TuneSite *site); // a trial beside the default has ratios
// Of predicted and measured times of all trials with default blocks.
double tune_search_correlation(const TuneSearch *search, uint32_t site);

// ---- pairs.c: how many pairs of runs a round has ------------------------------------------------
typedef struct {
    const TuneSearch *search;
    const TuneRound *round;
    uint32_t sites;
    double *ratios;              // by site and pair (tune_pairs_ratios)
    uint32_t count;              // of the pairs so far
    uint32_t usual, most, until; // pairs that are wanted; until: as it looks now
} TunePairs;
// Before the first pair, which tells how long one takes. The ratios lie in the arena.
TunePairs tune_pairs(const TuneSearch *search, const TuneRound *round, uint32_t sites,
                     Arena *arena);
const double *tune_pairs_ratios(const TunePairs *pairs, uint32_t site);
// Times of the candidate and of the default, by site.
void tune_pairs_add(TunePairs *pairs, const double *ours, const double *theirs);
// How many runs in a row are to count as one, where two single ones take so long: the most pairs of
// short programs fill a round's time.
uint32_t tune_pairs_runs(const TunePairs *pairs, double seconds_of_pair);
// As many as there is time for: after the first pair, and when less time is left. seconds_of_pair:
// more than 0. seconds_left: for this round; INFINITY: there is no budget.
void tune_pairs_plan(TunePairs *pairs, double seconds_of_pair, double seconds_left);
bool tune_pairs_go_on(TunePairs *pairs); // is another wanted?

// ---- entry.c: schedules that were measured ------------------------------------------------------
bool tune_is_worth(double seconds, double of_default); // a schedule of its own
// What a schedule is for. All of it has to be equal for an entry to be used, and the version of
// schedules besides (SCHEDULE_VERSION).
typedef struct {
    const char *group;   // 16 hex digits: what is computed, whatever it is called; without extents
    const char *extents; // "512 64 12": of the group's dims; "~1024": of run time, planned for that
    const char *target;  // "x86-64-v4"
    const char *machine; // model of the processor
    int threads;         // that it is planned for
} TuneKey;
typedef struct {
    TuneKey key;
    const char *name;       // of the kernel that it was found for: for people alone
    const char *schedule;   // of schedule_to_json
    double seconds;         // the default's times the median ratio of runs next to each other
    double default_seconds; // median of the default schedule in the same run
    double confidence;      // that it is the faster of both, from 0 to 1
    const char *date;       // "2026-11-24T19:00:00Z"
} TuneEntry;
typedef VEC(TuneEntry) TuneEntries;

const char *tune_date(Arena *arena, time_t at);           // of an entry
int tune_key_compare(const TuneKey *a, const TuneKey *b); // their order in lists and texts
double tune_gain(const TuneEntry *entry);                 // 0.25: a quarter more calls in a second
// What is wrong with it, "threads: expected ..."; NULL: nothing. Names and the like are texts of
// one line.
const char *tune_entry_problem(Arena *arena, const TuneEntry *entry);
// A schedule that was tried, with what the cost model counted of it: what its rates are fitted to.
typedef struct {
    TuneKey key;
    const char *name;     // of the kernel: for people alone
    const char *schedule; // of schedule_to_json
    const char *counts;   // of tune_counts_to_text
    double seconds;       // of one launch
    const char *date;
} TuneMeasurement;
typedef VEC(TuneMeasurement) TuneMeasurements;
const char *tune_measurement_problem(Arena *arena, const TuneMeasurement *measurement);
// Rates of one core of a machine while so many threads work, as code of a target gets them.
typedef struct {
    const char *target, *machine;
    int threads;
    double at[N_FROM]; // flops in a second in place of FROM_L1, bytes in a second from the others
    const char *date;
} TuneRates;
typedef VEC(TuneRates) TuneRatesList;
const char *tune_rates_problem(Arena *arena, const TuneRates *rates);

// ---- counts.c: what the cost model counted, as a line of JSON -----------------------------------
// Of a kernel, what its parallel seconds are made of (tile_cost_rated), in digits that are enough
// for that.
char *tune_counts_to_text(Arena *arena, const TileCost *counted);
// Without stages' places in a kernel. false with *why: it is none.
bool tune_counts_from_text(Arena *arena, const char *text, TileCost *out, const char **why);

// ---- fit.c: the rates of a machine from measurements --------------------------------------------
enum { TUNE_FIT_LEAST = 16, TUNE_RANKED_LEAST = 5 }; // measurements: in all, of a kernel
// How well a machine's rates predict.
typedef struct {
    double error;  // mean of |predicted / measured - 1|
    double ranks;  // mean of the rank correlations of kernels; NAN: none has enough measurements
    double of_all; // rank correlation of all measurements
} TuneFitness;
typedef struct {
    Machine machine; // the one in use with the fitted rates
    uint32_t measurements, kernels, ranked;
    TuneFitness before, after;
    bool better; // a smaller error, and correlations that are as good
} TuneFit;
double *tune_rate(Machine *machine, TrafficLevel level); // of arithmetic for FROM_L1
// measured: the machine that rates are kept near to where measurements do not tell; used: the one
// that predicts now; they differ in rates alone. false: there are too few measurements.
bool tune_fit(const TuneMeasurements *measurements, const Machine *measured, const Machine *used,
              TuneFit *out);

// ---- db*.c: the entries in one SQLite file ------------------------------------------------------
// One thread at a time uses a TuneDb; any number of processes, and of TuneDbs, may use one file.
typedef struct TuneDb TuneDb;
// Where it is without --db: $ATTC_DB, else $XDG_DATA_HOME/attc/schedules.db, else
// ~/.local/share/attc/schedules.db. NULL: there is no home.
char *tune_db_path(Arena *arena);
typedef enum { TUNE_DB_READ, TUNE_DB_WRITE } TuneDbMode;
// To write, a file (and its folders) that is not there is made. To read, one that is not there, or
// has nothing in it yet, is NULL without *why. NULL with *why, the end of a sentence that begins
// with the path: it is no database of schedules, damaged, of another version, not readable.
TuneDb *tune_db_open(Arena *arena, const char *path, TuneDbMode mode, const char **why);
void tune_db_close(TuneDb *db); // may be NULL
// All of these return false with *why, the end of such a sentence, where the file cannot be read or
// written: then nothing of what was asked for is done. What was put is there whatever happens to
// the process afterwards.
//
// *found: there is such an entry; out lies in the arena. Where there is one that is damaged it is
// not found, and *why says what is wrong with it; otherwise *why is NULL.
bool tune_db_find(TuneDb *db, Arena *arena, const TuneKey *key, TuneEntry *out, bool *found,
                  const char **why);
// The entries take the places of others of their keys. One with a problem is not put.
bool tune_db_put_all(TuneDb *db, const TuneEntries *entries, const char **why);
// The same but for those whose place has one that is at least as fast. *kept: how many were put.
bool tune_db_merge(TuneDb *db, const TuneEntries *entries, uint32_t *kept, const char **why);
// Entries that are in the file and are never found.
typedef struct {
    uint32_t other_versions, damaged; // damaged: of this version
} TuneLeftOut;
// All that can be found, by key. left_out: NULL, or how many others there are.
bool tune_db_list(TuneDb *db, Arena *arena, TuneEntries *out, TuneLeftOut *left_out,
                  const char **why);
// Unless the entry of the key has another schedule by now: somebody else put one.
bool tune_db_remove(TuneDb *db, const TuneKey *key, const char *schedule, const char **why);
// Measurements take the places of others of their keys and schedules; of a key the newest
// TUNE_MEASURED_MOST stay (chosen), the last of the list being the newest. Those of a key lie
// together.
enum { TUNE_MEASURED_MOST = 48 };
bool tune_db_put_measurements(TuneDb *db, const TuneMeasurements *measurements, const char **why);
// Of all machines, the oldest of a key first. Those that are left out are not told of.
bool tune_db_list_measurements(TuneDb *db, Arena *arena, TuneMeasurements *out, const char **why);
bool tune_db_put_rates(TuneDb *db, const TuneRates *rates, const char **why); // likewise
bool tune_db_list_rates(TuneDb *db, Arena *arena, TuneRatesList *out, uint32_t *damaged,
                        const char **why); // damaged: how many are left out for that
typedef struct {
    uint32_t removed, left;
} TuneRows;
typedef struct {
    TuneLeftOut unusable; // schedules that are removed, each for the first reason that there is
    uint32_t slow, old;
    uint32_t left; // that stay
    TuneRows measurements, rates;
} TunePruned;
// Removes schedules that are worth none, schedules and measurements from before `oldest` (NULL: no
// date is too early), and what is never found; indexes are made anew. Fitted rates stay however old
// they are: new ones take their place.
bool tune_db_prune(TuneDb *db, const char *oldest, TunePruned *out, const char **why);
bool tune_db_is_whole(TuneDb *db, const char **why); // pages and indexes, whatever rows hold
// Everything that is wrong with the file and its entries, a line each; NULL: nothing.
char *tune_db_check(TuneDb *db, Arena *arena);

// ---- exchange.c: entries as text ----------------------------------------------------------------
// One JSON object a line, sorted by key, after a first line that says what the file is.
char *tune_entries_to_text(Arena *arena, const TuneEntries *entries);
// false with *why and *line: nothing of a text that has a mistake is taken.
bool tune_entries_from_text(Arena *arena, const char *text, size_t length, TuneEntries *out,
                            uint32_t *line, const char **why);
char *tune_entry_to_text(Arena *arena, const TuneEntry *entry); // such an object

#endif
