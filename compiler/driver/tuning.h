// SPDX-License-Identifier: Apache-2.0
// Between the files of attc tune: candidates (tune_candidate.c), their times (tune_measure.c), what
// is checked and kept (tune_keep.c), what is told (tune_report.c), and the command (tune.c).
#ifndef ATTC_DRIVER_TUNING_H
#define ATTC_DRIVER_TUNING_H

#include <sched.h>

#include "driver/driver.h"
#include "signals.h"

typedef struct {
    cpu_set_t all, measure, make;
    bool apart; // else none is set
} CoreSets;

// The programs of all calls with one schedule for each site, loaded.
typedef struct {
    Session *session; // of all of it
    TileProgram *programs[CALLS_MAX];
    uint32_t *sites[CALLS_MAX]; // by launch: its site
    LoadedCalls loaded;
    bool made; // compiled; else why it is not
    const char *why;
} Candidate;

typedef struct {
    double seconds; // since the search began
    double gain;    // the default's time over that of the best so far, all sites together
} TunePoint;

// A trial of a site whose counts are known.
typedef struct {
    uint32_t trial;
    const char *counts;
} CountedTrial;

// What became of a site.
typedef struct {
    uint32_t winner;            // trial; TUNE_DEFAULT: the default stays
    double seconds, of_default; // medians
    double confidence;
    bool kept;
} TuneResult;

typedef struct {
    Options *options;
    const Target *target;
    Machine machine; // with the threads that are planned for
    Calls calls;
    TuneSpaces spaces;
    TuneSearch *search;
    TuneDb *db;
    const char *path;            // of the database
    Candidate reference;         // with default schedules
    VEC(double) * of_default;    // by site: times of the default
    VEC(CountedTrial) * counted; // by site
    VEC(double) peaks;           // flops per second, measured in between
    VEC(TunePoint) points;
    TuneResult *results; // by site
    CoreSets cores;
    AttHeldSignals held;
    double begun, told;
    uint32_t tried; // candidates that were measured
    bool interrupted, failed, line_open;
} Tuner;

// ---- tune_candidate.c ----
// picks: by site. Another thread may do it, while entries run: nothing of the tuner is changed.
void candidate_make(const Tuner *tuner, const Schedule *const *picks, Candidate *out);
// For this thread to run. false: it cannot be; why says why.
bool candidate_bind(const Tuner *tuner, Candidate *candidate);
void candidate_free(Candidate *candidate);
// Runs all calls once. seconds: by site, set to the time of all of its launches.
bool candidate_run(const Tuner *tuner, const Candidate *candidate, double *seconds);
const Schedule **picks_default(const Tuner *tuner, Arena *arena); // by site
// Makes one in another thread, on other cores than this one where one thread is planned for.
typedef struct Maker Maker;
Maker *maker_start(Arena *arena, const Tuner *tuner, const Schedule *const *picks, Candidate *out);
void maker_finish(Maker *maker);
// Keeps this thread on one core from now on, where one thread is planned for.
void tuner_pin(Tuner *tuner);
void tuner_unpin(const Tuner *tuner);

// ---- tune_measure.c ----
// Compares the candidate with the reference, and tells the search what came of it.
void tuner_measure(Tuner *tuner, const Candidate *candidate, const TuneRound *round);
bool tuner_measure_default(Tuner *tuner); // some runs of the reference alone
double tuner_seconds(const Tuner *tuner); // since the search began

// ---- tune_keep.c ----
bool tuner_open_db(Tuner *tuner); // false after a message
// Winners that compute what the default does, at these extents, and what the oracle does, at small
// ones, are put into the database. false after diagnostics.
bool tuner_keep(Tuner *tuner);

const char *tuner_date(Arena *arena); // now

// ---- tune_counts.c ----
// Keeps what the cost model counts of the trials that a candidate has, of those with the default
// blocks. round: NULL, where it has the default schedules.
void tuner_count(Tuner *tuner, const Candidate *candidate, const TuneRound *round);
// All of these that were measured go into the database. false after a message.
bool tuner_keep_measurements(Tuner *tuner);

// ---- calibrate.c ----
int tune_calibrate(Options *options); // an exit status

// ---- tune_report.c ----
void tuner_progress(Tuner *tuner); // a line on standard error, now and then
void tuner_end_progress(Tuner *tuner);
void tuner_print(const Tuner *tuner);
json_t *tuner_json(const Tuner *tuner);

// ---- tune_picture.c ----
// Best so far over time, and predicted against measured times. false after a message.
bool tuner_picture(const Tuner *tuner, const char *path);

#endif
