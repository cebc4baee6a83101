// SPDX-License-Identifier: Apache-2.0
// Between the files of attc tune: candidates (candidate.c), signals (interrupts.c), times
// (measure.c), what the cost model counted of them (counts.c), one search (search.c), of programs
// before their kernels (programs.c), of several shapes (shapes.c); what is checked (check.c) and
// kept (keep.c), told (report.c) and drawn (picture.c); rates (calibrate.c), and the command
// (tune.c).
#ifndef ATTC_DRIVER_TUNE_H
#define ATTC_DRIVER_TUNE_H

#include <sched.h>

#include "driver/driver.h"
#include "signals.h"

typedef struct {
    cpu_set_t all, measure, make;
    bool apart; // else none is set
} CoreSets;

// The programs of all calls with one schedule for each site, loaded. Of a search for programs sites
// are calls.
typedef struct {
    Session *session; // of all of it
    TileProgram *programs[CALLS_MAX];
    uint32_t *sites[CALLS_MAX]; // by launch: its site
    LoadedCalls loaded;
    bool made; // and can run; else the session has been told why
} Candidate;

typedef struct {
    double seconds; // since the search began
    double speed;   // the default's time over that of the best so far, all sites together
} TunePoint;

// A trial of a site whose counts are known.
typedef struct {
    uint32_t trial;
    const char *counts;
} CountedTrial;

// What became of a site.
typedef struct {
    uint32_t winner;   // trial; TUNE_DEFAULT: the default stays
    Schedule schedule; // as it was lowered: of a trial blocks that do not fit are others
    // Of one launch, in the runs that confirm the winners: the default's median, and that times
    // the median ratio.
    double seconds, of_default;
    double confidence; // of the last trials
    // A trial that had won, but is no faster beside the other winners or computes something else;
    // TUNE_DEFAULT: none.
    uint32_t refuted;
    bool by_oracle; // its kind of kernel was compared with the oracle
    bool kept;
} TuneResult;

typedef struct Tuner {
    Options *options;
    const Target *target;
    Machine machine;              // with the threads that are planned for
    bool of_programs;             // what is searched are choices for programs, before their kernels
    const struct Tuner *programs; // that search; NULL: there was none
    Calls calls;
    TuneSpaces spaces;
    TuneSearch *search;
    TuneDb *db;
    const char *path;            // of the database
    Candidate reference;         // with default schedules
    VEC(double) * of_default;    // by site: times of the default
    VEC(CountedTrial) * counted; // by site
    uint32_t *launches;          // by site, in a run of all calls
    VEC(double) peaks;           // flops per second, measured in between
    VEC(TunePoint) points;
    TuneResult *results; // by site
    CoreSets cores;
    AttHeldSignals held;
    double begun, told;
    double budget;          // seconds since then; 0: as long as it takes
    uint32_t tried, failed; // candidates that were measured, and that could not be
    const char *failure;    // why the first of these; NULL: none could not be compiled or loaded
    double speed;           // the default's time over that of all winners together, measured
    uint32_t signals;       // that came: the first ends the search, the second everything
    bool line_open;
    json_t *found; // with --json: a list that what came of it goes to the end of
} Tuner;

// ---- candidate.c ----
// picks: by site. To be freed whatever comes of it.
void candidate_open(const Tuner *tuner, const Schedule *const *picks, Candidate *out);
void candidate_free(Candidate *candidate);
// With the session of the candidate: what is wrong with it is nobody else's error.
Options candidate_options(const Tuner *tuner, const Candidate *candidate);
// Runs all calls once. seconds: by site, set to the time of all of its launches.
bool candidate_run(const Tuner *tuner, const Candidate *candidate, double *seconds);
const Schedule **picks_default(const Tuner *tuner, Arena *arena); // by site
// Opens one: compiles it in another thread, on other cores than this one, where one thread is
// planned for, while entries run here; else in maker_finish. Nothing of the tuner is changed, and
// meanwhile nothing else may be lowered: it reads the plans of the calls.
typedef struct Maker Maker;
Maker *maker_start(Arena *arena, const Tuner *tuner, const Schedule *const *picks, Candidate *out);
void maker_finish(Maker *maker);
// By DimId of the graph that launches of a call are of.
int64_t *tuner_extents(const Tuner *tuner, uint32_t call, Arena *arena);
// Keeps this thread on one core from now on, where one thread is planned for.
void tuner_pin(Tuner *tuner);
void tuner_unpin(const Tuner *tuner);

// ---- interrupts.c ----
void tuner_look_at_signals(Tuner *tuner); // counts those that came
bool tuner_is_ended(Tuner *tuner);        // looks: has a second one come?

// ---- measure.c ----
// Compares the candidate with the reference, and tells the search what came of it. false: it has no
// code or cannot run; why is in its session.
bool tuner_measure(Tuner *tuner, const Candidate *candidate, const TuneRound *round);
bool tuner_measure_default(Tuner *tuner); // some runs of the reference alone
// All winners together against the default: their times, and which of them hold up. false after
// diagnostics: that cannot be measured, and the default stays everywhere; so it does after a remark
// where all is ended.
bool tuner_confirm(Tuner *tuner);
double tuner_seconds(const Tuner *tuner); // since the search began

// ---- check.c ----
const Schedule **picks_of_winners(const Tuner *tuner, Arena *arena, uint32_t *count); // by site
void tuner_drop(Tuner *tuner, uint32_t site); // its winner: the default stays; refuted is kept
// Drops winners that do not compute what the default does, at these extents, or what the oracle
// does, at small ones, or that cannot be compiled or run, after a message. Looks at none any more
// where all is ended: then tuner_confirm drops them.
void tuner_check(Tuner *tuner);

// ---- keep.c ----
bool tuner_open_db(Tuner *tuner); // false after a message
// Winners go into the database, and what was measured to be none goes out of it. false after
// diagnostics.
bool tuner_keep(Tuner *tuner);

// ---- counts.c ----
// Keeps what the cost model counts of the trials that a candidate has, of those with the default
// blocks. round: NULL, where it has the default schedules.
void tuner_count(Tuner *tuner, const Candidate *candidate, const TuneRound *round);
// All of these that were measured go into the database. false after a message.
bool tuner_keep_measurements(Tuner *tuner);

// ---- shapes.c ----
typedef struct {
    const char *text;
    uint32_t line;      // of the file
    DimExtents extents; // with those of -D of other dims
} TuneShape;
typedef VEC(TuneShape) TuneShapes;
// Those of --shapes, or the one of -D. false after a message.
bool tune_shapes_read(Options *options, TuneShapes *out);

// ---- calibrate.c ----
int tune_calibrate(Options *options); // an exit status

// ---- search.c ----
// Requires: options, target, machine, calls and spaces. Times the default and opens the database.
// false after diagnostics. What it made is to be ended all the same.
bool tuner_begin(Tuner *tuner);
void tuner_end(Tuner *tuner);
// Searches; checks, confirms and keeps what wins. false after diagnostics.
bool tuner_find(Tuner *tuner);

// ---- programs.c ----
// Searches the programs of the calls, and takes for each what the database has then. false after
// diagnostics.
bool tuner_choose_programs(Tuner *tuner);

// ---- tune.c ----
// Compiles, chooses programs, finds what can be chosen of their kernels, and begins the search for
// these: tuner->search, NULL after a remark where all is ended. Requires: options, target, machine,
// begun and budget. false after diagnostics. What it made is to be freed all the same.
bool tuner_open(Tuner *tuner);
void tuner_close(Tuner *tuner);

// ---- report.c ----
void tuner_progress(Tuner *tuner); // a line on standard error, now and then
void tuner_end_progress(Tuner *tuner);
void tuner_print(const Tuner *tuner);
json_t *tuner_json(const Tuner *tuner);

// ---- picture.c ----
// Best so far over time, and predicted against measured times. false after a message.
bool tuner_picture(const Tuner *tuner, const char *path);

#endif
