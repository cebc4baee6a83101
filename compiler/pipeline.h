// SPDX-License-Identifier: Apache-2.0
// The list of passes from source text to tile programs, with dumps, verification and timing
// between.
#ifndef ATTC_PIPELINE_H
#define ATTC_PIPELINE_H

#include "graph/model.h"
#include "tile/tile.h"

typedef enum {
    AFTER_GRAPH,      // built: calls inlined, loops unrolled
    AFTER_SIMPLIFIED, // n-ary einsums
    AFTER_CONTRACTED, // pairwise einsums in their order
    AFTER_EXPANDED,   // what is fused, before anything is computed again
    AFTER_FUSED,      // groups
    AFTER_PLANNED,    // buffers
    AFTER_TILE,       // everything
} PipelineStop;

typedef struct {
    EntryOptions entry;
    const Machine *machine;
    PipelineStop stop;
    const GradientOptions *gradient; // NULL: results alone
    Name decode;                     // the step along this dim; NULL: the whole
    bool heads;  // with a mask for each head of each attention, and gradients by these alone
    bool logits; // those of each attention in the place of the results
    // Of streamed groups; PLAN_ANY and 0: the cheapest.
    PlanKind plan;
    int64_t rows, piece;
    ScheduleWish wish; // of all groups, but for the forced plan, which the above is
    // Of the whole; NULL: what the source of the wish knows for it, or else by cost. A forced plan
    // is taken in its place.
    const ProgramSchedule *choice;
    Saving saving;   // of memory for gradients
    bool accumulate; // gradients can be added to what is there
    // What can be computed again over pairs of positions is not stored, and quadratic values that
    // are stored all the same are errors; seen from AFTER_FUSED on.
    bool no_materialize;
    bool verify;      // run every level's verifier between passes
    bool time_passes; // a line per pass on stderr
    bool only_tile;   // graphs between the built and the fused one are freed, and not in the result
} PipelineOptions;

// Everything that one entry went through; fields after the stop are NULL.
typedef struct {
    const Program *program;
    HeadMasks heads;          // none without PipelineOptions.heads, and where there is no attention
    Graph *plain;             // before its gradient; NULL: there is none
    bool of_first;            // that is of the first result of floats alone
    const Decoding *decoding; // what `built` is the step of; NULL: it is none
    Graph *built, *simplified, *contracted, *expanded;
    Graph *once;            // as expanded, before anything is computed again
    const int64_t *typical; // by DimId
    // Of the contracted graph, over dims that all graphs after it have; NULL: they do not fit.
    const Formula *multiplies;
    int64_t planned_multiplies; // of that graph at typical extents; -1: more than 2^63
    ScheduleSite site; // of the whole, for choices of the program; none before AFTER_FUSED
    Schedule choice;   // that was made
    Fusion *fusion;
    Plan *plan;
    TileProgram *tile;
} Compilation;

// A line of --time-passes: what was done since `begun` (of pipeline_seconds).
void pipeline_print_time(const char *pass, double begun, bool changed);
double pipeline_seconds(void); // of a clock that only goes forward

// Reads, parses and resolves a file with the prelude. NULL after diagnostics.
Program *pipeline_front(Session *session, const char *path);
// The entry as a graph with its gradient, which is the same for every machine. false after
// diagnostics.
bool pipeline_build(Session *session, const Program *program, const PipelineOptions *options,
                    Compilation *out);
// The same of an optimizer (language.md 8.5) as the graph of its update in place, whose dims are of
// run time, whatever the file and the command line say. Arguments: the gradient, the optimizer's
// numbers, and a number that the gradient is multiplied with. Results, which are also read: the
// tensor and its states. Neither options->entry nor ->gradient is looked at.
bool pipeline_build_optimizer(Session *session, const Program *program, const Def *optimizer,
                              const PipelineOptions *options, Compilation *out);
// The same of the sum of the squares, an f64, of x[i].
bool pipeline_build_squares(Session *session, const Program *program,
                            const PipelineOptions *options, Compilation *out);
// Does nothing on the command line forbid a choice that is known for a program?
bool pipeline_may_choose(const PipelineOptions *options, const Schedule *known);
// From there, or from `once` where that is there, to the stop, in the session that built it or a
// fork of that; graphs that are there are only read.
bool pipeline_lower(Session *session, const PipelineOptions *options, Compilation *out);

ScheduleWish pipeline_wish(const PipelineOptions *options); // what programs are lowered with

// ---- an entry with its gradient in two parts ---------------------------------------------------
// The graphs are made once, for options->machine: what is saved is the same for every target.
typedef struct {
    Compilation whole; // up to `once`
    const Graph *forward, *backward;
    const Graph *both; // in one call; NULL: there are cotangents to wait for, of results with dims
} GradientGraphs;
// options->gradient must be there, and graphs be kept. false after diagnostics.
bool pipeline_partition(Session *session, const Program *program, const PipelineOptions *options,
                        GradientGraphs *out);
// The parts of the whole that is there, once more, with another saving. false after diagnostics.
bool pipeline_divide(Session *session, const PipelineOptions *options, GradientGraphs *graphs);
// One of the graphs, to the stop after its groups are made, in the session that made it or a fork
// of that. false after diagnostics.
bool pipeline_lower_part(Session *session, const GradientGraphs *graphs, const Graph *part,
                         const PipelineOptions *options, Compilation *out);

#endif
