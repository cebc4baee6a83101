// SPDX-License-Identifier: Apache-2.0
// Between the files that build a graph from the ast only.
//
// A Frame is one inlined run of a def. It maps the def's names to the graph: dims to DimIds,
// tensors to values. Values may have more dims than the def knows of, those that a call mapped it
// over (`hidden`); they ride along, since everything broadcasts by name.
#ifndef ATTC_GRAPH_BUILD_H
#define ATTC_GRAPH_BUILD_H

#include "graph/graph.h"

// How deep expressions and calls may nest together, and how many statements and calls may be
// inlined.
enum { BUILD_DEPTH = 2000, BUILD_STEPS = 20000 };

typedef struct Frame Frame;
typedef struct Claim Claim;
struct Claim {
    ExtentRule rule;
    bool checked;  // by another claim: this one says how to compute the dim
    Frame *frame;  // where it was made
    Claim *before; // of those with one hash in a map
};
typedef VEC(Claim *) ClaimList;

// A dim that a def names, that no call binds there, and that the file computes from others.
typedef struct {
    Name name;
    DimId dim; // the first of its class
    Frame *frame;
} ComputedUse;
typedef struct {
    Session *session;
    Arena *arena;
    const Program *program;
    Graph *graph;
    Map *inputs; // name -> the input that has it; of trained tensors path and declared name
    VEC(const Tensor *) misfits; // those whose first value was told of
    Frame *top;                  // a frame without a def: the names of the file
    VEC(Frame *) first_frames;   // by DimId: where it was first needed
    ClaimList declared, claims;  // about extents: of declarations; of slices, concats, shifts
    Map *claimed;                // claims by the hash of their rule
    VEC(ClaimList) of_dim;       // by DimId of a class: the claims that it is so large
    Map *said;                   // such claims by dim and place of the source: the last of each
    Map *classes;                // program_like_root of a dim -> number of the first Dim with it
    uint32_t n_classed;          // of the graph's dims: in `classes`
    VEC(ComputedUse) computed;   // once for every frame
    uint32_t depth, steps, n_dropouts;
    const EntryOptions *options;
    bool *checkpointed; // by place in options->checkpoints: a loop runs over it
    bool open_extents;  // of EntryOptions
    bool stopped;       // a limit was hit and told of, or an extent is open: unwind
} Build;

typedef struct {
    Name name;
    DimId id;
} DimSlot;

struct Frame {
    Build *build;
    const Def *def;
    Frame *caller;     // NULL at the top
    const Expr *call;  // NULL at the top and for the entry
    VEC(DimSlot) dims; // those that the call binds
    DimList hidden;
    Map *locals;          // name -> Value
    VEC(LoopValue) loops; // variables of the loops around
    VEC(DimSlot) steps;   // variables of the scans around
    NameList computed;    // its ComputedUses
    Map *computable;      // declarations whose extents frame_can_compute found to be so
    const char *path;     // what names of trained tensors begin with here: `layer.0.`
    const char *place;    // all calls and loops that led here, for the names of values
    ValueList results;
    ValueList called; // what the last call for several names returned
};

// ---- dims.c ------------------------------------------------------------------------------------
Frame *frame_new(Build *build, const Def *def, Frame *caller);
// Shows the calls that led here: what is wrong may be so in this call only.
void frame_note_calls(const Frame *frame, Diag *diag);
int64_t frame_extent(const Frame *frame, Name dim);    // EXTENT_DYNAMIC when unknown
bool frame_extent_given(const Frame *frame, Name dim); // by -D, also what it is computed from
DimId frame_dim(Frame *frame, Name dim);
void frame_note_counted(Frame *frame, Name dim); // its extent is used as a number
// As frame_dim, but a dim that nothing else says the extent of gets this one (slices, concats).
DimId frame_dim_sized(Frame *frame, Name dim, int64_t extent);
bool frame_is_given(const Frame *frame, Name dim); // a call that led here binds it
bool frame_has_dim(const Frame *frame, Name dim);  // the graph has it already
// The class of the graph's dim that a name stands for, or NULL while the graph has none.
const Dim *frame_class(const Frame *frame, Name dim);
// Does the call of this frame bind a dim to one of the class?
bool frame_binds(const Frame *frame, DimId class);
// Whether values of so many dims of the def fit beside the hidden ones; else a diagnostic.
bool frame_has_room(const Frame *frame, uint32_t count, Span at);
DimList frame_dims(Frame *frame, const NameList *names, Span at); // none without room
void frame_bind(Frame *frame, Name dim, DimId actual);
// Reads a value over other dims; a diagnostic (and the value itself) where two are not alike.
Value *frame_rename(Frame *frame, Value *value, const DimMap *names, Span at);

// ---- extents.c: extents that follow from others ------------------------------------------------
// A number of literals, loop variables and extents that run time may tell; NULL: it is no formula.
const Formula *build_formula(Frame *frame, const Expr *expr);
// The same as a value, i64; a quotient is rounded down. NULL for powers of a high or unknown
// degree.
Value *build_formula_value(Graph *graph, const Formula *formula);
void build_claim(Frame *frame, RuleKind kind, DimId dim, const Formula *formula, Span origin);
// One way to compute an extent, as k = d / h where d = h * k; another claim says whether it holds.
void build_claim_way(Frame *frame, DimId dim, const Formula *formula, Span origin);
// Has the graph all that an extent of the file is computed from, for the names of a frame?
bool frame_can_compute(Frame *frame, const Expr *extent);
// The graph's rules, and an error for every dim whose extent nothing tells. Requires: outputs.
void build_rules(Build *build, Span entry);

// ---- one_extent.c: a computed dim is one dim for all calls --------------------------------------
// Whether a claim says what its place of the source said last, which it takes the place of. False
// after a diagnostic; true also where no call is to blame, and run time decides.
bool build_claim_repeats(Build *build, const Claim *claim);
// The same for the claims before (of_dim), to which build_claim adds it.
bool build_claim_agrees(Build *build, const Claim *claim);
// Of all computed dims that were used; a diagnostic for the first that is not.
void build_check_computed(Build *build);

// ---- names.c: tensors by name ------------------------------------------------------------------
Value *frame_find(Frame *frame, Ident name); // local, argument, trained or top-level tensor
void frame_assign(Frame *frame, Name name, Value *value);
Value *build_trained(Frame *frame, const Tensor *declaration);
// A new input of the graph. NULL after a diagnostic, when another has its name.
Value *names_input(Build *build, const Tensor *declaration, Name name, DimList order,
                   InputRole role);

// ---- build.c: statements -----------------------------------------------------------------------
bool build_step(Build *build, Span at); // counts; false once a limit is hit
void build_body(Frame *frame, const StmtList *body);
// What is built next belongs to a new block, rounds: one more than around it. Returns that around.
const CodeBlock *build_open_block(Build *build, uint32_t rounds, bool checkpointed);
// The name in the source, where the value has none.
void build_name_value(const Frame *frame, Value *value, Name name, Span origin);

// ---- scan.c ------------------------------------------------------------------------------------
void build_scan(Frame *frame, const Stmt *stmt);
DimId frame_step(const Frame *frame, Name variable); // of a scan around

// ---- expr.c ------------------------------------------------------------------------------------
Value *build_expr(Frame *frame, const Expr *expr); // of expr->elem
Value *build_expr_as(Frame *frame, const Expr *expr, Elem elem);
// A number of literals, extents and loop variables that is known now.
bool build_number(Frame *frame, const Expr *expr, double *number);
// The same of what a tensor begins with, which no result is made of.
bool build_first_value(Frame *frame, const Expr *expr, double *number);

// ---- constant.c --------------------------------------------------------------------------------
bool expr_is_constant(const Expr *expr); // zeros, ones, full or an array
Value *build_constant(Frame *frame, const Expr *expr, Elem elem);

// ---- call.c, builtin.c, move.c, einsum.c --------------------------------------------------------
Value *build_call(Frame *frame, const Expr *call);
Value *build_result(Frame *frame, const Expr *result); // one of several of a call
Value *build_einsum(Frame *frame, const Expr *call, double factor);
Value *build_builtin(Frame *frame, const Expr *call);
// gather one_hot concat slice shift swap sort argsort
Value *build_move(Frame *frame, const Expr *call);
ValueList build_results(Frame *frame, const Expr *call); // topk; nothing after a diagnostic
Value *build_regroup(Frame *frame, const Expr *call);    // regroup.c: split merge
// The tensor of a reference X[0, d] at its positions.
Value *build_positions(Frame *frame, const Expr *ref, Value *tensor);

#endif
