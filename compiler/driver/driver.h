// SPDX-License-Identifier: Apache-2.0
// Level driver: the subcommands of attc. Everything here is about the command line: options, files
// in and out, reports. The work is done below.
#ifndef ATTC_DRIVER_H
#define ATTC_DRIVER_H

#include <jansson.h>

#include "pipeline.h"
#include "product/product.h"
#include "tune/tune.h"

typedef struct {
    Name name;
    const char *path;
} NamedPath; // X=x.npy

typedef VEC(NamedPath) NamedPathList;

typedef struct KnownSchedules KnownSchedules;

typedef enum {
    COMMAND_CHECK,
    COMMAND_COST,
    COMMAND_EMIT,
    COMMAND_RUN,
    COMMAND_VERIFY,
    COMMAND_BUILD,
    COMMAND_BENCH,
    COMMAND_MACHINE,
    COMMAND_TUNE,
    COMMAND_FMT,
    COMMAND_DB,
    N_COMMANDS
} CommandKind;

typedef enum {
    STAGE_NONE,
    STAGE_AST,
    STAGE_GRAPH,
    STAGE_SIMPLIFIED,
    STAGE_CONTRACTED,
    STAGE_FUSED,
    STAGE_TILE,
    STAGE_LLVM,
    STAGE_ASM,
    STAGE_OBJ,
    N_STAGES
} EmitStage;
#define STAGE_NAMES "ast, graph, simplified, contracted, fused, tile, llvm, asm or obj"

// What attc db does.
typedef enum {
    DB_LIST,
    DB_SHOW,
    DB_EXPORT,
    DB_IMPORT,
    DB_MERGE,
    DB_PRUNE,
    DB_CHECK,
    N_DB_ACTIONS // it was not said
} DbAction;

typedef struct {
    Session *session;
    const char *command;
    CommandKind kind;        // of the command
    const char *file;        // of db: what stands after the action
    VEC(const char *) files; // of fmt
    EntryOptions entry;
    NamedPathList inputs;      // X=x.npy after the file
    VEC(const char *) outputs; // -o, as given
    EmitStage stage;
    uint64_t seed;
    int threads;              // 0: one per core
    bool grad;                // --grad
    GradientOptions gradient; // of --grad
    Name decode;              // --decode, NULL: it was not given
    bool oracle, interpret, json, verify_passes, time_passes, colour, no_materialize, check, space;
    DiagFormat diagnostics;
    PlanKind plan;                 // PLAN_ANY: the cheapest
    int64_t rows, piece;           // --plan's numbers, 0: the cheapest
    int64_t memory_limit;          // bytes of workspace, 0: none was given
    const Target *target;          // --target, NULL: the best of this machine
    const char *machine;           // --machine
    const char *weights;           // --weights
    bool no_db;                    // --no-db
    const char *schedules;         // --schedules, NULL: those of the database
    const KnownSchedules *known;   // of these, once they were read; NULL: none
    ScheduleWish wish;             // of a command itself, in their place
    const ProgramSchedule *choice; // likewise, of whole programs; NULL: what is known of them
    NameList kernels;              // --kernels of tune; empty: all
    const char *shapes;            // --shapes of tune
    TuneEffort effort;             // of tune
    double budget;                 // seconds of tune; 0: as long as it takes
    bool calibrate;                // of tune
    TuneRatesList rates;           // of the database, once it was read
    const Target *chosen;          // driver_target, once it was asked for
    const Machine *measured;       // this machine, likewise
    CacheOptions cache;
    ProductKind product;
    int64_t alternatives; // --alternatives, 0: none
    DbAction db_action;
    const char *db;     // --db, NULL: where tune_db_path says
    int64_t older_than; // days, 0: entries of any age stay
} Options;

// ---- sizes.c: --dynamic n=1+512 ----
// One size for each dim that has several.
typedef struct {
    Session *session; // that says so
    ExtentRanges ranges;
} SizeChoice;
typedef VEC(SizeChoice) SizeChoices;
// All of them, in the arena, the one of the largest sizes first; one without ranges where no dim of
// the graph has several. Sessions are in that of the session. false after a message: there are too
// many.
bool driver_sizes(Session *session, const Program *program, const Graph *graph, Arena *arena,
                  SizeChoices *out);

// ---- option_values.c ----
// Prints "attc: error: ..." and returns EXIT_USAGE.
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *stage_name(EmitStage stage);     // "graph"
const char *db_action_name(DbAction action); // "list"

// ---- options.c ----
// Parses argv[1] on. Returns EXIT_FINE to go on, EXIT_USAGE after a message; *stop when --help or
// --version was answered.
int options_parse(Options *options, int argc, char **argv, bool *stop);
// Reports a problem that has no place in the source, through the diagnostics.
int problem(Options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- the commands: each returns an exit status ----
int command_check(Options *options);
int command_cost(Options *options);
int command_emit(Options *options);
int command_run(Options *options);
int command_verify(Options *options);
int command_build(Options *options);
int command_bench(Options *options);
int command_machine(Options *options);
int command_tune(Options *options);
int command_fmt(Options *options);
int command_db(Options *options);

// ---- compile.c: what several commands start with ----
// The target asked for or the host's, with the machine to plan for. NULL after a message.
const Target *driver_target(Options *options);
// How the command line wants the passes to run. target: NULL for what is not compiled.
PipelineOptions driver_passes(const Options *options, const Target *target, PipelineStop stop);
// Parses and resolves the file. NULL after diagnostics.
Program *driver_front(Options *options);
// Tells which def is the entry, when the command line does not and the file has several.
void driver_tell_entry(Options *options, const Compilation *compiled);
// Is `path` none of the source files read? false after a message: it would be overwritten.
bool driver_may_write(Options *options, const char *path);

// ---- database.c: the database of schedules, and texts that were exported from one ----
const char *database_path(Options *options); // --db, or where it is without; NULL after a message
// EXIT_PROBLEM after a message. why: of tune_db_open and the like; NULL: there is nothing.
int database_problem(Options *options, const char *path, const char *why);
// NULL after a message. To read, one that has nothing in it yet is none.
TuneDb *database_open(Options *options, const char *path, TuneDbMode mode);
// To add to it: nothing is added to one that is damaged.
TuneDb *database_open_whole(Options *options, const char *path);
// Of a text, "-" for standard input. false after a message.
bool database_read_text(Options *options, const char *path, TuneEntries *out);

// ---- schedules.c: what is known of schedules ----
// Reads --schedules or the database, unless --no-db. false after a message: --schedules cannot be
// read. A database that cannot be is warned of, and nothing is known.
// The rates of machines that a database has are read as well, and for tune alone.
bool schedules_read(Options *options);
// What is known for a target whose code is planned for the machine.
ScheduleSource schedules_source(const Options *options, const Target *target,
                                const Machine *machine);
void schedules_tell(const Options *options); // that --schedules has nothing for what was compiled,
                                             // and what did not fit that
TuneKey schedules_key(Arena *arena, const ScheduleSite *site, const Target *target,
                      const Machine *machine);

// ---- heads.c ----
// What a training program is told of its heads; gradient: built with PipelineOptions.heads and
// gradient. It lives as long as the session.
ProductHeads *driver_heads(const Options *options, const Program *program,
                           const Compilation *gradient);

// ---- memory.c: --memory-limit ----
typedef struct {
    Saving saving;
    uint32_t stretches; // in all, with these seams; 0: it is a forward pass alone
    int64_t workspace;  // bytes; -1: too many, or there is no plan
} MemoryTrial;
typedef VEC(MemoryTrial) MemoryTrials; // by copies, then by choice of seams, then by price
// The least saving found with which the workspace of an entry fits, for all of the targets, whose
// code shares it. built: with its gradient, if any. trials: what was tried, added. false after
// diagnostics.
bool memory_fit(Options *options, const Compilation *built, const Target *const *targets,
                uint32_t n_targets, Saving *saving, MemoryTrials *trials);
// An entry with its gradient in two parts, in a session that has the diagnostics of the options'.
// passes: how they are made and are to be lowered, for the first of the targets. Filled in: the
// gradient, with all of its cotangents as arguments; the least saving found with which the
// workspace of either part fits, beside what the first saves for the second. false after
// diagnostics.
bool driver_partition(Options *options, Session *session, const Program *program,
                      const Target *const *targets, uint32_t n_targets, PipelineOptions *passes,
                      GradientGraphs *graphs);
// Reads the file, as driver_front does, and runs the passes up to `stop`, so that the workspace
// fits. false after diagnostics.
bool driver_compile(Options *options, const Target *target, PipelineStop stop, Compilation *out);
// From a built entry to the stop of the passes, likewise. trials: NULL, or what was tried for it.
bool driver_lower(Options *options, const Target *target, PipelineOptions *passes,
                  Compilation *compiled, MemoryTrials *trials);

// ---- replace.c ----
// Puts a text in a file's place at one stroke. false: errno says why.
bool file_replace(Arena *arena, const char *path, const Text *text);

// ---- machine_choice.c, machine_file.c: the machine that code is planned for ----
// A target with the machine to plan for: the one asked for, this one as it was measured, with the
// rates of options->rates if these are for it, or the target's own. NULL after a message.
const Target *driver_with_machine(Options *options, const Target *target);
// Of such a target, with the threads that are planned for.
Machine driver_machine(const Options *options, const Target *target);
json_t *machine_to_json(const Machine *machine);
// Puts the facts that are there in place of those in *machine. NULL, or what is wrong: then nothing
// was changed.
const char *machine_from_file(Arena *arena, const char *path, Machine *machine);
const char *machine_from_text(Arena *arena, const char *text, Machine *machine);

// ---- other_defs.c ----
// Of the error that the entry lacks an argument, or a result: which other defs of its file have it.
// false: there are none.
bool driver_hint_entry(Options *options, const Compilation *compiled, Name lacking, bool result,
                       Diag *diag);

// ---- weights.c: --weights ----
// By index of an input in graph->inputs: the tensors of the file that it gives, copied, in their
// declared elements; others are left. Those are all trained tensors that no NAME=FILE gives. Which
// were taken is noted. false after diagnostics.
bool weights_read(Options *options, AttContext *context, const Graph *graph, AttTensorData *inputs,
                  bool *taken);

// ---- tensors.c: tensors of an entry at known extents ----
// The graph is the one that holds the entry's inputs and outputs; extents are by its DimId.
typedef struct {
    const Graph *graph;
    int64_t *extents;
    AttTensorData *inputs;  // by index in graph->inputs, in their declared elements
    AttTensorData *outputs; // by index in graph->outputs
    AttContext *context;
} Tensors;
// Of the graph as it was built. Reads the files given and settles every extent (constants, files,
// -D of --dynamic dims). need_all: a dim that nothing settles is an error; otherwise it gets
// a small extent. false after diagnostics.
bool tensors_open(Options *options, const Compilation *compiled, bool need_all, Tensors *out);
// Draws the inputs that no file gave from the seed, and makes the outputs. false after diagnostics.
bool tensors_fill(Options *options, Tensors *tensors);
void tensors_close(Tensors *tensors);
// Extents for another graph over the same dims, with dims that a pass added (by `like`).
int64_t *tensors_extents(const Tensors *tensors, const Graph *graph, Arena *arena);
// Every element as a double, arena memory, and back (rounded to the tensor's elements).
double *tensor_to_doubles(const AttTensorData *tensor, Arena *arena);
void tensor_from_doubles(AttTensorData *tensor, const double *from);
int64_t tensor_count(const AttTensorData *tensor);
// Moves every element of the f32 and f64 inputs to one of its two neighbours, at random.
void tensors_nudge(const Tensors *tensors, uint64_t seed);
const char *dims_text(const Graph *graph, const DimList *dims, Arena *arena); // "n, d_k, h"

// ---- oracle.c ----
// The oracle on the tensors' inputs: one array of doubles per output.
double **oracle_run(const Tensors *tensors, EvalMode mode, Arena *arena);
enum { NAIVE_DRAWS = 24 }; // of inputs, at most, when naive errors tell too little
// Says on standard error what the oracle will take, when that is long or much. compared: NULL, or
// whose results and gradients it judges: then it is run as exactly and as naively, and along
// directions. false after a message: it cannot have the memory. The extents must be settled, no
// tensor needs to be there.
bool oracle_fits(Options *options, const Tensors *tensors, const Compilation *compared);
double oracle_seconds(const Tensors *tensors, const Compilation *compared); // at most, about

// ---- execute.c ----
// A compiled entry in this process, in one part or in several that are run one after the other.
enum { PARTS_MAX = 2 };
typedef struct {
    LoadedProduct *product;
    AttModule parts[PARTS_MAX]; // the module with the launches of one part
    int64_t *extents;           // by module dim
    void **pointers;            // by module tensor: inputs, then outputs
    AttTensorData workspace;    // of several parts: with what one saves for the next
} Loaded;
bool execute_load(Options *options, TileProgram *const *parts, uint32_t n_parts,
                  const Target *target, const Tensors *tensors, Loaded *out);
// The two halves of it. The first may run in another thread than what runs entries; session: its
// own. NULL with *why.
LoadedProduct *execute_compile(Session *session, const Options *options, TileProgram *const *parts,
                               uint32_t n_parts, const Target *target, const char **why);
// Owns the product from then on, whatever it returns.
bool execute_bind(Options *options, LoadedProduct *product, TileProgram *const *parts,
                  uint32_t n_parts, const Target *target, const Tensors *tensors, Loaded *out);
void execute_unload(Loaded *loaded);
// The entry's results into the tensors' outputs: compiled, or with --interpret in plain loops.
bool execute_compiled(Options *options, const Compilation *compiled, const Tensors *tensors);
// Runs a part of a loaded entry once. seconds: NULL or one accumulator per launch of it.
bool execute_run(Options *options, const Loaded *loaded, uint32_t part, const Tensors *tensors,
                 double *seconds);

// ---- calls.c: what is timed, by bench and tune ----
enum { CALLS_MAX = 3 };
typedef struct {
    const char *name; // "forward"; NULL: it is the entry alone
    Compilation compiled;
    int64_t multiplies; // of the graph, each value once
    int64_t masked;     // of them, those that masks by positions let a kernel leave out
    // What it was lowered with, and from: a part of these graphs, or NULL and what was built.
    PipelineOptions passes;
    const GradientGraphs *graphs;
    const Graph *part;
} Call;
typedef struct {
    const Target *target;
    Call at[CALLS_MAX]; // in the order in which they can run; the last is the whole
    uint32_t count;
    GradientGraphs graphs;
    Tensors tensors; // of the whole
} Calls;
// Its multiplies, without those that are masked: the work that shares of the peak are of.
int64_t calls_seen(const Call *call);
// Reads the file and compiles the last of the calls. false after diagnostics.
bool calls_compile_whole(Options *options, const Target *target, Compilation *out);
// Reads the file, compiles all of them and fills tensors. false after diagnostics; to be closed all
// the same.
bool calls_open(Options *options, const Target *target, Calls *calls);
void calls_close(Calls *calls);
// Lowers a call once more, with a choice for its program, in a fork of the session that it was
// lowered in. Only reads the call. false after diagnostics.
bool call_lower(Session *session, const Call *call, const ProgramSchedule *choice,
                Compilation *out);
// The choices for a call's program that make other kernels than those before them, with their
// predicted times at the extents of the tensors; the default comes first. Left out are those that
// cannot be lowered or need far more memory. known: see schedule_enumerate_programs.
ScheduleList call_space(const Options *options, const Call *call, const Tensors *tensors,
                        const ProgramSchedule *known);
typedef struct {
    Loaded whole, parts;
} LoadedCalls;
// With the programs that the calls were compiled to. false after diagnostics; to be unloaded all
// the same.
bool calls_load(Options *options, const Calls *calls, LoadedCalls *out);
// The two halves of it, with other programs of the same plans, by call: see execute_compile.
bool calls_compile(Session *session, const Options *options, const Calls *calls,
                   TileProgram *const *programs, LoadedCalls *out, const char **why);
bool calls_bind(Options *options, const Calls *calls, TileProgram *const *programs,
                LoadedCalls *out);
void calls_unload(LoadedCalls *loaded);
// seconds: NULL or one accumulator per launch of the call. false after diagnostics.
bool calls_run(Options *options, const Calls *calls, const LoadedCalls *loaded, uint32_t call,
               double *seconds);

// ---- verify.c ----
// A compiled entry against the oracle, on inputs that are drawn; NONE: after diagnostics.
typedef enum { VERDICT_FINE, VERDICT_WRONG, VERDICT_NONE } Verdict;
Verdict verify_entry(Options *options, const Compilation *compiled);
// Without a word. NONE: the oracle would take more than `most` seconds, or after diagnostics.
Verdict verify_quickly(Options *options, const Compilation *compiled, double most);

// ---- directional.c ------------------------------------------------------------------------------
// Random directions that gradients are judged along, and draws of nudged inputs, of which the
// largest noise counts; both chosen.
enum { N_DIRECTIONS = 3, NOISE_DRAWS = 8 };
typedef struct {
    double value, size; // size: of the absolute terms
} DirectionalSum;
typedef struct {
    const Graph *plain;        // before its gradient
    bool of_first;             // which is of the first result of floats alone
    const Tensors *tensors;    // of the gradient
    double **inputs;           // of the gradient, as they were when the directions were drawn
    double **at[N_DIRECTIONS]; // by plain input: NULL where it is not differentiated by
    DirectionalSum forward[N_DIRECTIONS];
    double noise[N_DIRECTIONS]; // what terms change by with the last digit of inputs, if found
} Directions;
// Random directions of all inputs that are differentiated by, and the oracle's derivatives along
// them. Requires: inputs are filled.
// compiled: with its gradient.
Directions directions_open(const Options *options, const Compilation *compiled,
                           const Tensors *tensors);
// gradients: by output, the oracle's.
void directions_find_noise(Directions *directions, const double *const *gradients, uint64_t seed);
typedef struct {
    double error, limit;
    int judged; // directions: not where derivatives or compiled gradients are NaN or infinite
} DirectionalError;
// The worst of the directions. The oracle's gradients are finite where its derivatives along a
// direction are; those of compiled code are judged one by one besides. gradients: by output.
// limits: likewise, of single elements; NULL: the oracle's own.
DirectionalError directions_judge(const Directions *directions, const double *const *gradients,
                                  const double *limits, Arena *arena);

// ---- tolerance.c: the one table ----
typedef struct {
    double largest, rms; // rms: root of the mean of the squares
} RowError;
// What naive evaluations in the element type make of an output; arena memory.
typedef struct {
    const double *reference; // the oracle's
    int64_t count;           // elements,
    int64_t rows, row;       // rows, and elements of one: of the last dims, enough for a mean
    bool *skipped;           // elements where a naive evaluation overflows, which nothing is
    int64_t n_skipped;       // held to
    double largest;          // error of all evaluations so far
    RowError *of_row;        // likewise
} NaiveErrors;
NaiveErrors tolerance_open(const AttTensorData *output, const double *reference, Arena *arena);
void tolerance_add_naive(NaiveErrors *naive, const double *plain); // of one evaluation more
// How many errors as large as the largest have the root mean square that all of them have.
double tolerance_telling(const NaiveErrors *naive);
typedef struct {
    double largest;    // of the reference, finite values
    double error;      // largest |compiled - reference|; inf where a NaN or infinity differs
    double naive;      // the same of a naive evaluation in the element type
    double limit;      // what the error may be
    int64_t n_skipped; // elements that were not judged,
    int64_t n_wild;    // and that are NaN or infinite in the oracle, and have to be here
    int64_t row;       // first element of the row nearest to its limit, -1: none has an error,
    double row_error, row_limit; // its largest or its mean error
    bool row_fine, fine;         // the row, and all of it
} OutputError;
typedef struct {
    Elem elem; // what is computed with
    bool cut;  // to whole numbers
} ErrorUnit;
Elem tolerance_coarser(Elem a, Elem b); // of the floats among them that with the larger unit
double tolerance_least(Elem elem);      // sums of numbers up to this count as zero
OutputError tolerance_judge(ErrorUnit unit, const NaiveErrors *naive, const double *actual);
// Are results of one program those of before, but for the rounding of sums in another order?
// of_all: the largest of all results that are floats.
bool tolerance_alike(Elem elem, const double *before, const double *now, int64_t count,
                     double of_all);
double tolerance_largest(const double *values, int64_t count); // of finite ones

// ---- decode.c ----
// The step that a program generates with. NULL where there is none: after a remark, if the file has
// a def Logits. `function` of the result is left to the caller.
ProductDecode *driver_decode(Options *options, Session *early, const Program *program,
                             const Graph *entry, const ProductTrainer *trainer, Compilation *built);

// ---- table.c ----
// columns: one letter each, 'l' for cells at the left, 'r' at the right. Cells come row by row.
typedef struct {
    Arena *arena;
    const char *columns;
    uint32_t n_columns;
    VEC(const char *) cells;
} Table;
Table table_open(Arena *arena, const char *columns);
void table_cell(Table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_seconds(Table *table, double seconds); // of a measurement or prediction
void table_print(const Table *table);

// ---- value_names.c ----
// By value id: names of the values that have buffers, no two alike.
const char **report_value_names(const Plan *plan, Arena *arena);
// A name for a kernel that a person recognises: the stored values of its group.
const char *report_group_name(const Group *group, const char *const *names, Arena *arena);

// ---- report.c, saved.c: figures of a compilation ----
// One buffer of the plan, or one scratch buffer of a kernel.
typedef struct {
    const char *name;
    DimList dims;          // in memory order
    int64_t bytes;         // -1: more than 2^63
    const char *placement; // "input", "parameter", "output", "workspace" or "scratch"
} BufferFigure;
typedef VEC(BufferFigure) BufferFigureList;
typedef struct {
    const char *name, *kind; // group's values; "contract", "rows", "map" or a streamed group's plan
    DimList dims;            // of the contraction, with the summed ones; or of the rows
    int64_t multiplies, flops;
    const Kernel *kernel;
    uint32_t launch;             // index into the program's launches
    const char *plan;            // of a streamed group, else NULL
    const char *misfit;          // why it is not the forced one, else NULL
    double seconds;              // predicted
    TileCost cost;               // the model's figures for that
    int64_t scratch;             // bytes of a task
    double recompute;            // multiplies done over multiplies needed
    double seen;                 // the part of the multiplies that masks by positions leave
    BufferFigureList in_scratch; // of a streamed group: what a task keeps there
} KernelFigure;
// What gradients keep in memory and compute again.
typedef struct {
    BufferFigureList saved; // of the forward pass, read by the backward pass
    int64_t saved_bytes;
    int64_t recomputed_flops; // beyond those with every value computed once
} GradientFigures;
typedef struct {
    const Graph *graph;                    // that has the dims of the figures
    int64_t parameters, multiplies, flops; // -1: more than 2^63
    int64_t masked;                        // of the multiplies, see report_masked
    int64_t workspace;                     // bytes, slots shared
    int64_t arguments, results, peak;      // bytes; peak: of these and the workspace
    BufferFigureList buffers;
    VEC(KernelFigure) kernels;
    const GradientFigures *gradient; // by report_gradient; NULL: there is none
} CostFigures;
// Predictions are for this many threads.
CostFigures report_figures(const Compilation *compiled, const Machine *machine, int threads,
                           const int64_t *extents, Arena *arena);
// Multiplies that masks by positions let the kernels of a program leave out, each value once.
int64_t report_masked(const Compilation *compiled, const int64_t *extents);
// Requires: figures with all but this.
const GradientFigures *report_gradient(const Compilation *compiled, const CostFigures *figures,
                                       const int64_t *extents, Arena *arena);
// ---- space.c: --space ----
typedef struct {
    TuneSpaces spaces;
    ScheduleList *blocks;  // by space: those that differ from the default in blocks alone
    ScheduleList programs; // see call_space
    ScheduleSite site;     // of these
} SpaceFigures;
SpaceFigures report_spaces(const Options *options, const Call *call, const Tensors *tensors);
void report_print_spaces(const SpaceFigures *figures, Arena *arena);
json_t *report_spaces_json(const SpaceFigures *figures, Arena *arena); // of kernels
json_t *report_programs_json(const SpaceFigures *figures, Arena *arena);

int64_t report_sum(int64_t a, int64_t b);                           // -1 when one is, or too large
json_t *report_number(double value);                                // null when not finite
json_t *report_dim_names(const Graph *graph, const DimList *dims);  // ["n", "d"]
json_t *report_extents(const Graph *graph, const int64_t *extents); // {"n": 512, ...}
void report_print_json(json_t *object); // on standard output; takes the reference

#endif
