// SPDX-License-Identifier: Apache-2.0
// Level graph: an entry as a DAG of named-dimension tensor values.
//
// Values are hash-consed (XXH3): building the same thing twice gives the same pointer. A value's
// dims are a *set* as far as meaning, hashing and equality go; the order in `dims` is the order in
// which it was first built and serves printing and as a first idea of a layout. Only INPUT leaves
// and the graph's outputs have a memory order, the one the user declared.
//
// Path: graph_build, graph_simplify, graph_contract, graph_expand, graph_fuse, graph_layout,
// graph_plan. Each pass returns a new graph or a structure on top of one and leaves its argument
// alone.
#ifndef ATTC_GRAPH_H
#define ATTC_GRAPH_H

#include "ast/ast.h"
#include "base/machine.h"

typedef enum {
#define OP(NAME, name, kind, arity, cycles, cycles_avx2, traits, formula) OP_##NAME,
#include "graph/ops.def"
#undef OP
    N_OP
} Op;
typedef enum {
    KIND_LEAF,
    KIND_MAP,
    KIND_REDUCE,
    KIND_CONTRACT,
    KIND_ROW,
    KIND_MOVE,
    KIND_SCAN
} OpKind;
enum { TRAIT_COMMUTES = 1, TRAIT_DIVIDES = 2 };
const char *op_name(Op op);
OpKind op_kind(Op op);
int op_arity(Op op);
bool op_commutes(Op op);
bool op_is_immediate(Op op); // CONST INDEX EXTENT: no memory behind it
bool op_is_reading(Op op);   // RENAME TAKE: only another way to read what is in memory
bool op_regroups(Op op);     // SPLIT MERGE: a view where memory allows, see fuse/view.c
bool op_may_be_view(Op op);  // is reading or regroups
// What an op costs: cycles of a core with two vector units for one vector of f32 when its arguments
// are in registers. Of an INPUT it is a load; of what reduces, for a vector of its argument.
double op_weight(Op op);
// On this machine: of a vector of its own, of one f32.
double op_cycles(Op op, const Machine *machine);
double op_cycles_of_one(Op op, const Machine *machine);
// What a pointwise op makes of floats, in double, for constant folding and the tile interpreter;
// NaN for what is none of one or two floats (the oracle has arithmetic of its own).
double op_apply1(Op op, double a);
double op_apply2(Op op, double a, double b);

// ---- dims --------------------------------------------------------------------------------------
enum { DIMS_MAX = 16, DIM_NONE = 0xFFFF, EXTENT_DYNAMIC = -1 };
typedef uint16_t DimId; // index into graph->dims
typedef struct {
    Name name;
    int64_t extent;  // EXTENT_DYNAMIC: a run-time symbol
    uint64_t hash;   // of name and extent
    int64_t planned; // what a dynamic dim is optimised for; 0: 512, or computed from others
    DimId like;      // dims of one class share this (itself when alone); they have one extent
    bool scan;       // the steps of a scan; values after it are over another dim that is alike
    bool reversed;   // of a scan: from the last position to the first
    bool made;       // by a pass: nothing that callers see is over it
    bool reswept;    // made by graph_recompute: over it, values over the dim it is like once more
    bool table;      // a softmax goes along it where the whole graph is seen, see fuse_table_dims
} Dim;
typedef struct {
    uint8_t count;
    DimId at[DIMS_MAX];
} DimList;
bool dims_has(const DimList *dims, DimId dim);
bool dims_equal(const DimList *a, const DimList *b);         // as sets
bool dims_subset(const DimList *part, const DimList *whole); // as sets
bool dims_same_order(const DimList *a, const DimList *b);    // as lists
void dims_add(DimList *dims, DimId dim);                     // at the end, unless there
DimList dims_union(const DimList *a, const DimList *b);
DimList dims_minus(const DimList *a, const DimList *b);
DimList dims_intersect(const DimList *a, const DimList *b);
// The dims of one einsum by bits, in the order in which they come.
enum { DIM_BITS = 64 };
typedef uint64_t DimBits;
typedef struct {
    DimId at[DIM_BITS];
    uint32_t count;
} DimTable;
// Those of a list, of which new ones are added; false: there are more than DIM_BITS.
bool dims_bits(DimTable *table, const DimList *dims, DimBits *bits);
int64_t dims_volume(const DimList *dims, const int64_t *extents); // extents: by DimId
// Other names for dims: from[i] is called to[i], all of them at once.
typedef struct {
    uint8_t count;
    DimId from[DIMS_MAX], to[DIMS_MAX];
} DimMap;
DimId dimmap_get(const DimMap *map, DimId dim); // the dim itself when it has no other name
void dimmap_add(DimMap *map, DimId from, DimId to);
DimList dims_renamed(const DimList *dims, const DimMap *map); // each in its place

// ---- formula.c: extents that follow from others ------------------------------------------------
typedef enum {
    FORMULA_NUMBER,
    FORMULA_DIM,
    FORMULA_ADD,
    FORMULA_SUB,
    FORMULA_MUL,
    FORMULA_DIV, // without a remainder
    FORMULA_FLOORDIV,
    FORMULA_MOD,
    FORMULA_POW,
    FORMULA_MIN,
    FORMULA_MAX,
    N_FORMULA
} FormulaOp;
typedef struct Formula Formula;
struct Formula {
    FormulaOp op;
    int64_t number; // NUMBER
    DimId dim;      // DIM
    const Formula *a, *b;
};
typedef enum {
    RULE_COMPUTES,  // the extent of the dim is the formula's value, nothing else tells it
    RULE_IS,        // the dim is known and must be as large as the formula says
    RULE_REACHES,   // it must be at least as large
    RULE_BEGINS,    // the formula, where a slice of the dim begins, is at least 0
    RULE_EVALUATES, // the formula, a distance along the dim, has a value
    RULE_HOLDS,     // the dim has as many positions as are kept of its order, or more
    RULE_CHOOSES,   // an argmax over the dim has so many positions to choose from, at least
} RuleKind;
// dim, and the dims of the formula: the first of their classes.
typedef struct {
    RuleKind kind;
    DimId dim;
    const Formula *formula;
    Span origin; // the declaration or the function that says so
} ExtentRule;
// What is wrong with the extents of a run, and the place of the rule; `why` is NULL where nothing
// is.
typedef struct {
    const char *why;
    Span origin;
} ExtentProblem;

// ---- values ------------------------------------------------------------------------------------
typedef enum { ROLE_DATA, ROLE_PARAM } InputRole;
// What an input or output is to callers; that of an input is no part of its meaning.
typedef enum {
    USE_PLAIN,     // an argument or a result of the entry
    USE_COTANGENT, // input: of a result
    USE_GRADIENT,  // output: by an argument
    USE_SAVED,     // output of the forward part, input of the backward part
    USE_RESULT,    // input of the backward part: a result of the forward part
    USE_BEFORE,    // input: what a gradient is added to, in the memory of that
    USE_FLAG,      // input: whether it is added
    USE_REPLACED,  // input: in the memory of a result, which takes its place
} TensorUse;
bool use_is_in_result(TensorUse use); // an input in the memory of a result
// Some arguments of an einsum whose product had a name before it was flattened.
typedef struct {
    Name hint;
    const char *path; // of hint
    Span origin;
    uint64_t args; // one bit each
} NamedPart;

// A part of the program that can be computed again by itself: the round of a loop, or what stands
// in a checkpoint.
typedef struct CodeBlock CodeBlock;
struct CodeBlock {
    const CodeBlock *around; // NULL: none
    uint32_t depth;          // of rounds: itself and those around it
    bool checkpointed;
};

// What a value was made for. What takes a value's place is made for the same.
typedef struct {
    bool backward;          // gradients alone
    bool twice;             // and computed more than once: with sums in order, for the same bits
    const CodeBlock *block; // the innermost; NULL: none
    uint32_t turn; // in which it is computed, see fuse/again.c; not before those of its arguments.
                   // Alone part of the meaning: values of two turns are two values. 0: leaves
} MadeFor;

typedef struct Value Value;
typedef VEC(Value *) ValueList;
struct Value {
    uint32_t id; // order of creation; an argument's id is smaller than its user's
    Op op;
    Elem elem;
    DimList dims;
    Value **args; // of a commuting op: in the order first built, which means nothing
    uint32_t n_args;
    uint64_t hash; // of meaning: op, elem, dim names, attributes, arguments
    // attributes, by op; cons.c hashes and compares them, tile/lower/repeat.c as well:
    double number; // CONST: the number; CONTRACT: factor (1 when none)
    // INDEX EXTENT SOFTMAX LOG_SOFTMAX CUMSUM ARGMAX GATHER SCATTER_ADD TAKE SLICE CONCAT SHIFT
    // ORDER SPLIT MERGE and of scans
    // REDUCE and CONTRACT in parts: `dim` is cut into as many parts as dim2 has positions, and the
    // value's position along dim2 is its part: that of position i of dim is i * parts // extent.
    // SUM and CONTRACT in turn: `dim` is that of the tasks, dim2 is none.
    DimId dim, dim2;
    const DimList *digits; // SPLIT MERGE: the parts of dim, the first the slowest
    const DimMap *renames; // RENAME: dims of its argument, in their order
    // TAKE SLICE SHIFT; ORDER: 1 when the largest is first; CARRY: its number among those of the
    // scan; COPY: which one
    int64_t offset;
    DimId *cats;               // CONCAT: per argument
    Name name;                 // INPUT: its name (the checkpoint name of a trained tensor)
    Name written;              // INPUT: its name in source text, that of no other input
    InputRole role;            // INPUT
    TensorUse use;             // INPUT: not part of the meaning
    const Tensor *declaration; // INPUT: for initialisers; may be NULL
    double first[2];           // INPUT: what the numbers of its initialiser come to
    // not part of the meaning:
    uint32_t output;  // INPUT: which it is of the part before (SAVED RESULT) or its own (BEFORE
                      // REPLACED)
    Name hint;        // the name the user gave this value, or NULL
    const char *path; // of hint: calls and loops on the way to it, `layer.0.attend.`; or NULL
    Span origin;      // where it was written
    MadeFor made_for;
    const NamedPart *parts; // CONTRACT, by graph_simplify for graph_contract
    uint32_t n_parts;
};
// What kernels and manifests call it: as the source does, or "t12" after its number.
const char *value_label(Arena *arena, const Value *value);

typedef struct {
    Name name;
    Value *value;
    DimList order; // memory order, as declared in the return; none: graph_layout chooses
    TensorUse use;
} Output;

typedef struct {
    Session *session;
    Arena *arena;
    Name entry;
    VEC(Dim) dims;
    VEC(ExtentRule) rules; // those that compute first, each after those that it needs
    ValueList values;      // by id
    ValueList inputs;      // in the order of the entry's parameters, trained tensors last
    VEC(Output) outputs;
    NameList counted; // dims whose extents the source uses as numbers, without primes
    MadeFor made_for; // of the values that are added
    Map *cons;        // hash -> value
    Map *written;     // name -> the input that is written so
    Map *named;       // name -> 1 + DimId
    Map *numbers;     // the first name that graph_new_dim tried -> the number that it tries next
} Graph;

// ---- graph.c: construction (hash-consing) ------------------------------------------------------
Graph *graph_new(Session *session, Name entry);
// Empty, with the same dims (same DimIds) and entry, and room for as many values.
Graph *graph_new_like(const Graph *graph, Arena *arena);
DimId graph_find_dim(const Graph *graph, Name name);         // DIM_NONE: there is none
DimId graph_dim(Graph *graph, Name name, int64_t extent);    // finds or adds
bool graph_dims_alike(const Graph *graph, DimId a, DimId b); // of one `like` class
// The source uses the extent of a dim of this name as a number.
void graph_note_counted(Graph *graph, Name dim);
bool graph_is_counted(const Graph *graph, DimId dim); // that of one of its class
// A name as it can be written in the language: the dots of `layer.0.W` become `layer__0__W`.
Name graph_source_name(const Graph *graph, Name name);
// The name under which an output stands beside all inputs and other outputs: with `_out` where an
// input that it is not has its own.
Name graph_output_source_name(const Graph *graph, uint32_t output);
Value *graph_find_input(const Graph *graph, Name name); // NULL: there is none
// The name, or with a `_` after the other, as no input and no output has it.
Name graph_new_name(const Graph *graph, const char *name);
// Requires: no other input has the name.
Value *graph_input(Graph *graph, Name name, Elem elem, DimList order, InputRole role);
Value *graph_const(Graph *graph, double number, Elem elem);
Value *graph_number(Graph *graph, double number, const Value *like); // with its elem
Value *graph_index(Graph *graph, DimId dim);
Value *graph_extent(Graph *graph, DimId dim);
Value *graph_map(Graph *graph, Op op, Elem elem, Value **args, uint32_t n_args); // dims: the union
Value *graph_map1(Graph *graph, Op op, Value *a);           // elem of a (bool for NOT)
Value *graph_map2(Graph *graph, Op op, Value *a, Value *b); // elem of a (bool for comparisons)
Value *graph_select(Graph *graph, Value *condition, Value *a, Value *b); // elem of a
Value *graph_or_zero(Graph *graph, Value *condition, Value *a);          // where it is not so, 0
Value *graph_copy(Graph *graph, Value *a, uint32_t which); // another one for each number
Value *graph_cast(Graph *graph, Value *a, Elem elem);      // a itself when it has that elem
Value *graph_over(Graph *graph, Value *a,
                  const DimList *dims);       // repeated along those that it lacks
Value *graph_finite(Graph *graph, Value *a);  // of floats: the largest number in place of infinity
Value *value_made_finite(const Value *value); // what it was made of by that; NULL: it was not
// The maximum of x that it is, bounded or not; NULL: it is none.
Value *value_as_largest(Value *value, const Value *x);
Value *graph_reduce(Graph *graph, Op op, Value *a, DimList kept);
// `dim` in parts along `parts`; DIM_NONE: a sum in turn, see below.
Value *graph_reduce_parts(Graph *graph, Op op, Value *a, DimList kept, DimId dim, DimId parts);
bool value_in_parts(const Value *value);
// A sum over `dim`, and perhaps more, for the tasks of a streamed group whose rows are that dim:
// they add to it in turn. Anywhere else it is a sum as any other.
Value *graph_sum_in_turn(Graph *graph, Value *a, DimList kept, DimId dim);
bool value_in_turn(const Value *value);
bool value_adds_rows(const Value *value); // in parts or in turn
// Where a part of a dim begins that is cut into so many.
static inline int64_t part_begin(int64_t part, int64_t parts, int64_t extent) {
    return ceil_div(part * extent, parts);
}
bool value_is_repeat(const Value *value);    // where(t, a, a), which graph_over() makes
bool value_is_zero(const Value *value);      // the constant
bool value_is_reduction(const Value *value); // a contraction or reduction that is not in parts
// May arguments of a contraction be multiplied by its factor, and not the sum? What is computed
// twice has its bits by then, unless rounding does not see a factor: a power of two.
bool value_factor_moves(const Value *value);
// Two positions that a value is over.
typedef struct {
    DimId x, y; // DIM_NONE: it has no pair
} DimPair;
extern const DimPair dim_pair_none;
// The pair of argument `arg` as the value calls it, if it still has both.
DimPair value_kept_pair(const Value *value, uint32_t arg, DimPair pair);
// What a move (RENAME SLICE CONCAT) calls the dim of its argument; of others the dim itself.
DimId value_moved_dim(const Value *value, uint32_t arg, DimId dim);
// What a RENAME gives other names to; of any other value itself.
Value *value_unrenamed(const Value *value);
// The dims of its arguments, each once; false: more than a list holds, and these are the first.
bool value_args_dims(const Value *value, DimList *dims);
Value *graph_einsum(Graph *graph, double factor, Value **args, uint32_t n_args, DimList result);
// Of two operands, which both have `dim`: summed in parts of it along `parts`, DIM_NONE: in turn.
Value *graph_einsum_parts(Graph *graph, Value **args, DimList kept, DimId dim, DimId parts);
Value *graph_einsum_in_turn(Graph *graph, Value **args, DimList kept, DimId dim);
// The reduction or contraction of other arguments, keeping `dims`. Requires: value_is_reduction.
Value *graph_reduce_like(Graph *graph, const Value *value, Value **args, DimList dims);
Value *graph_row(Graph *graph, Op op, Value *a, DimId dim); // SOFTMAX LOG_SOFTMAX CUMSUM ARGMAX
// A rename of a rename is one of its argument, so that there are no chains of them.
Value *graph_rename(Graph *graph, Value *a, DimId from, DimId to);
Value *graph_rename_all(Graph *graph, Value *a, const DimMap *map); // dims that it lacks: nothing
Value *graph_gather(Graph *graph, Value *table, Value *ids, DimId dim);
// Over dim and those of `kept` that an argument has; summed over the others, in a fixed order.
Value *graph_scatter_add(Graph *graph, Value *a, Value *ids, DimId dim, DimList kept);
Value *graph_take(Graph *graph, Value *a, DimId dim, int64_t position); // a number for a position
Value *graph_slice(Graph *graph, Value *a, DimId from, DimId to, int64_t offset);
Value *graph_concat(Graph *graph, Value **args, const DimId *cats, uint32_t n_args, DimId dim);
Value *graph_shift(Graph *graph, Value *a, DimId dim, int64_t offset);
// A recurrence along a scan's dim (scan.c). dims of a carry and its update have it, of the first
// value not.
typedef struct {
    Value *carry, *first, *update;
} ScanCarry;
typedef VEC(ScanCarry) ScanCarries;
// One whose name is new: base with this number or a later one behind it.
DimId graph_new_dim(Graph *graph, const char *base, uint32_t number, int64_t extent);
DimId graph_new_dim_like(Graph *graph, const char *base, uint32_t number, DimId like);
// A new one, like `over`.
DimId graph_scan_dim(Graph *graph, Name variable, DimId over, bool reversed);
Value *graph_carry(Graph *graph, uint32_t number, Elem elem, DimList dims, DimId dim);
// A value over dim at all of its positions, with `to` in its place.
Value *graph_stack(Graph *graph, Value *value, DimId dim, DimId to, const ScanCarries *carries);
Value *graph_last(Graph *graph, uint32_t which, DimId dim, const ScanCarries *carries);
// The positions along `dim` of the smallest or largest, as many as `kept` has; dim itself: all.
Value *graph_order(Graph *graph, Value *a, DimId dim, DimId kept, bool descending);
// dim as parts, the last the fastest, and the other way round.
Value *graph_split(Graph *graph, Value *a, DimId dim, const DimList *parts);
Value *graph_merge(Graph *graph, Value *a, const DimList *parts, DimId dim);
void graph_output(Graph *graph, Name name, Value *value, DimList order);
void graph_output_like(Graph *graph, const Output *like, Value *value); // all but the value
bool graph_returns(const Graph *graph, const Value *value);             // is it an output's?
// The same value in another graph with the same dims: op and attributes of `like`, other arguments.
Value *graph_rebuild(Graph *graph, const Value *like, Value **args);
ScanCarry graph_scan_carry(const Value *end, uint32_t i); // of a STACK or LAST
uint32_t graph_scan_carries(const Value *end);
uint64_t graph_hash(const Graph *graph); // of its outputs; independent of order of creation
int64_t dim_planned(const Dim *dim);     // its extent where that is constant
// Constant, what a dynamic dim is planned for, or computed from those.
int64_t *graph_typical_extents(const Graph *graph, Arena *arena);
// Dynamic dims are planned for these extents, rounded up to powers of two so that near lengths have
// the same kernels. By DimId; those below 1 are unknown, and those of a
// dim that is alike; what is planned already stays.
void graph_plan_for(Graph *graph, const int64_t *extents);
uint32_t *graph_count_uses(const Graph *graph, Arena *arena); // by id, outputs count too
bool *graph_live(const Graph *graph, Arena *arena);           // by id: reachable from the outputs
bool *graph_backward(const Graph *graph, Arena *arena);       // by id: see backward.c
// Marks, by id, what is made of what is marked, through what scans carry, too.
void graph_spread(const Graph *graph, bool *marked);

// ---- formula.c: construction (numbers are folded), text, meaning -------------------------------
const Formula *formula_number(Arena *arena, int64_t number);
const Formula *formula_copy(Arena *arena, const Formula *formula);
const Formula *formula_dim(const Graph *graph, DimId dim); // its extent, if it has a constant one
// op: of two arguments.
const Formula *formula_of(Arena *arena, FormulaOp op, const Formula *a, const Formula *b);
// How many dims of it have no extent yet, counted where they stand; *last: the last of them.
uint32_t formula_lacks(const Formula *formula, const int64_t *extents, DimId *last);
bool formula_same(const Formula *a, const Formula *b); // as written
// The same, with sums, products, minima and maxima in any order.
bool formula_alike(Arena *arena, const Formula *a, const Formula *b);
const char *formula_text(const Graph *graph, const Formula *formula, Arena *arena); // "2 * n - 1"
// Computes the extents that follow from others, of whole classes, and checks the rest.
ExtentProblem graph_apply_rules(const Graph *graph, int64_t *extents, Arena *arena);
// Computes those that are EXTENT_DYNAMIC as far as the others tell them: also d of d = h * k where
// h and k are known, whichever of them rules compute in general.
ExtentProblem graph_deduce_extents(const Graph *graph, int64_t *extents, Arena *arena);
bool graph_is_computed(const Graph *graph, DimId dim); // of one class with a dim that is

// ---- build/: resolved ast -> graph -------------------------------------------------------------
// --map b=X,M: the entry runs for each b of these arguments.
typedef struct {
    Name dim;
    NameList args;
} EntryMap;
typedef struct {
    const Def *def;       // NULL: by its name
    Name entry;           // NULL: the only def of the main file, or its last
    VEC(EntryMap) maps;   // outermost first; no two have one dim
    NameList checkpoints; // dims: rounds of the loops over them are checkpointed
    // Extents may still be given: no message asks for one, and what needs it is passed over.
    bool open_extents;
} EntryOptions;
// Inlines all calls and unrolls loops. NULL after diagnostics (unknown entry, extents missing where
// the text needs one, and the like), or when open extents leave no graph.
Graph *graph_build(Session *session, const Program *program, const EntryOptions *options);

// ---- rewrite/grad.c -----------------------------------------------------------------------------
typedef struct {
    NameList wrt;   // inputs to differentiate by; none: all of floats
    NameList given; // cotangents `dY` of results without dims that are arguments and not 1
    bool all_given; // all of them are
    bool of_first;  // the first result of floats is a loss, and the others have no part in it
} GradientOptions;
// The same results, then `dX` for each input X asked for: the gradient of the sum of results times
// cotangents. `dY` are new inputs, one for each result Y of floats with dims. Requires: what
// graph_build makes. NULL after diagnostics.
Graph *graph_gradient(const Graph *graph, const GradientOptions *options);
// `dX` of X: what a gradient or a cotangent is called. arena: of no use afterwards.
Name gradient_name(const Graph *graph, Name name, Arena *arena);

// ---- verify.c, print.c -------------------------------------------------------------------------
// ice() naming the pass when a rule of the level is broken.
void graph_verify(const Graph *graph, const char *after_pass);
// Source text of the language that builds to a graph with the same graph_hash.
void graph_print(const Graph *graph, Text *out);
// The same with the values in another order (arguments first) and comments before some of them.
typedef struct {
    const Value *const *values; // every live one; leaves may be missing
    const char *const *notes;   // by place in values: a comment line, or NULL; NULL: none at all
    uint32_t count;
} GraphListing;
void graph_print_listing(const Graph *graph, const GraphListing *listing, Text *out);

// ---- oracle/: naive evaluation -----------------------------------------------------------------
// Naive nested loops, shares nothing with the passes below. An einsum is worked off pairwise from
// the left: the running product meets the first operand left that shares a dim with it, and a dim
// is summed as soon as neither an operand left nor the result has it. EVAL_F32 rounds every
// operation and every partial sum to the value's element type: the error of a naive evaluation, for
// tolerances. EVAL_F32_BACKWARD is as naive: it adds up from the last element to the first, running
// sums excepted, so that what two sums of the same numbers have in common does not hide their
// errors.
typedef enum { EVAL_F64, EVAL_F32, EVAL_F32_BACKWARD } EvalMode;
typedef struct {
    const int64_t *extents; // by DimId, all known
    double **inputs;        // by index in graph->inputs, in declared order (row-major)
    double **outputs; // filled: by index in graph->outputs, arena memory, in the output's order
    // Derivatives along a direction, by forward mode, where `direction` is not NULL: likewise of
    // the inputs, NULL for what stays as it is, and filled for the outputs. Requires EVAL_F64.
    double **direction, **slopes;
} EvalRun;
void graph_eval(const Graph *graph, EvalMode mode, EvalRun *run, Arena *arena);
// What that takes: memory beside the inputs, and about how long.
typedef struct {
    double bytes, seconds;
} EvalNeeds;
EvalNeeds graph_eval_needs(const Graph *graph, EvalMode mode, const int64_t *extents);
EvalNeeds graph_slope_needs(const Graph *graph, const int64_t *extents); // along a direction

// ---- rewrite/simplify.c ------------------------------------------------------------------------
// Constant folding, dead values, einsum-of-einsum flattening, products and scale factors as
// operands of one n-ary einsum, common operands factored out of sums of einsums. extents gives
// representative sizes for dynamic dims where a choice needs them (by DimId; see
// graph_typical_extents). The result may have more dims than the argument: aliases of summed dims,
// each `like` one that was there.
Graph *graph_simplify(const Graph *graph, const int64_t *extents, const Machine *machine);

// ---- rewrite/contract.c: order of contraction --------------------------------------------------
// Ensures: every CONTRACT has two arguments and sums at least one dim, which both have. What sums
// nothing became MUL, what has one argument SUM (and a factor).
Graph *graph_contract(const Graph *graph, const int64_t *extents, const Machine *machine);

// ---- count.c: exact counts, -1 on overflow -----------------------------------------------------
// Scalar multiplies: the product of all dims of each CONTRACT.
int64_t graph_multiplies(const Graph *graph, const int64_t *extents);
// The same of any extents of run time; NULL: numbers in it do not fit.
const Formula *graph_multiplies_formula(const Graph *graph, Arena *arena);
// 2 per multiply, 1 per element of a map or of a reduction's argument.
int64_t graph_flops(const Graph *graph, const int64_t *extents);
int64_t value_flops(const Value *value, const int64_t *extents);
int64_t value_multiplies(const Value *value, const int64_t *extents);
// By value id, of its meaning: the same for a value and for what computes it again.
uint64_t *graph_hashes_once(const Graph *graph, Arena *arena);
int64_t graph_parameters(const Graph *graph, const int64_t *extents); // elements of ROLE_PARAM

// ---- shifted.c ---------------------------------------------------------------------------------
// Is it index(dim) + rest, of i64, with rest not over dim?
bool value_is_moved_index(const Value *value, DimId *dim, const Value **rest);

// A sum over `from`, and perhaps more, of where(index(from) == index(to) + rest, of, 0): what lies
// side by side in `of` does so in the sum.
typedef struct {
    const Value *of;   // over `from` and not `to`
    const Value *rest; // i64, over neither
    DimId from, to;
} ShiftedSum;
bool value_is_shifted_sum(const Value *value, ShiftedSum *shifted);
bool value_is_shift(const Value *value); // the comparison or the choice in one, which cost nothing

// ---- rewrite/: unify.c, totals.c, expand.c; they require graph_contract ------------------------
// What is equal but for the names of dims is computed once.
Graph *graph_unify(const Graph *graph);
// Contractions that are sums of others as such. NULL: there are none.
Graph *graph_totals(const Graph *graph, const int64_t *extents, const Machine *machine);
// SOFTMAX, LOG_SOFTMAX and ARGMAX as pointwise values and reductions; row factors of an einsum's
// operand at its result or its other operand.
Graph *graph_expand(const Graph *graph, const int64_t *extents);

// ---- fuse/keep.c -------------------------------------------------------------------------------
// How much time is given for memory when it is decided what gradients keep, see fuse/keep.c. The
// first stretches of the forward pass have the price of a byte of this step, the others that of the
// step before. Where the stretches begin may be chosen, from 0. rounds: those of loops at this
// depth, from 1, are checkpointed. All zero: time alone decides.
typedef struct {
    uint32_t rounds, seams, step, stretches;
    bool keep_all;    // what may be kept is, as if that took no time
    bool copies_each; // tasks make their own copies, see ProgramSchedule
} Saving;
bool saving_any(Saving saving); // is something computed again?
bool saving_same(Saving a, Saving b);
enum { SAVING_STEPS = 14 };         // the last: nothing is kept but at the seams
double saving_price(uint32_t step); // of a byte that is kept, in the time of moving it; INFINITY
// By choice of seams, how many stretches the forward pass has, from 1. What is likely to take least
// memory in the end comes first. Requires: graph_expand.
typedef VEC(uint32_t) StretchCounts;
StretchCounts graph_stretches(const Graph *graph, const int64_t *extents, const Machine *machine,
                              Arena *arena);
uint32_t graph_loop_depth(const Graph *graph); // the most loops that a value is in
// Savings with one choice of seams, the less memory the larger: from 1 up to the last.
uint32_t saving_last(uint32_t stretches);
Saving saving_numbered(uint32_t seams, uint32_t stretches, uint32_t number);

// ---- fuse/again.c ------------------------------------------------------------------------------
// The same graph where the backward pass computes again what it does not pay to keep for it. NULL:
// all is kept. Requires: graph_expand.
Graph *graph_again(const Graph *graph, const int64_t *extents, const Machine *machine,
                   Saving saving);

// ---- fuse/pick.c -------------------------------------------------------------------------------
// One position of a dim that is streamed as a sum over all of them, and sums at computed positions
// as such where that is cheaper than storing what they are of. wide_price: see graph_recompute.
// NULL: there is nothing of the kind. Requires: graph_expand.
Graph *graph_pick(const Graph *graph, const int64_t *extents, const Machine *machine,
                  double wide_price);

// ---- fuse/recompute.c --------------------------------------------------------------------------
// What is summed over both dims of a pair (weights, in the backward pass of attention) for each of
// them, in one sweep or in several, so that it is never stored, unless several sweeps need what
// takes longer to compute again than to move. wide_price: of a byte that is, with that of moving it
// as the unit. saves: sums over rows are added up in turn, which needs no memory for parts of them.
// NULL: there is nothing of the kind. Requires: graph_expand.
Graph *graph_recompute(const Graph *graph, const int64_t *extents, const Machine *machine,
                       double wide_price, bool saves);

// ---- fuse/partition.c --------------------------------------------------------------------------
// A graph with its gradient as two. forward: the entry's arguments -> its results and what backward
// reads besides (USE_SAVED), of which the memory order is open. backward: those of the arguments,
// results and saved tensors that it reads, and the cotangents -> the gradients. Requires:
// graph_expand; for backward, that forward has its memory orders.
typedef struct Partition Partition;
const Partition *graph_partition(const Graph *graph, const int64_t *extents, const Machine *machine,
                                 Saving saving);
Graph *partition_forward(const Partition *partition);
Graph *partition_backward(const Partition *partition, const Graph *forward);
Graph *partition_joined(const Partition *partition); // outputs of forward, then gradients

// ---- rewrite/accumulate.c ----------------------------------------------------------------------
// The same graph whose gradients dX are added to what is in their memory where the new argument
// accumulate_dX is not 0.
Graph *graph_accumulate(const Graph *graph);
// What it makes of a gradient: where(flag != 0, before + sum, sum).
typedef struct {
    const Value *sum, *before, *flag;
} Accumulated;
bool value_is_accumulated(const Value *value, Accumulated *out); // false: it is none

// ---- rewrite/cut.c -----------------------------------------------------------------------------
// Reductions of much to little in parts: so many tasks, a number chosen whatever the machine, as
// results depend on it. Requires: graph_expand.
enum { REDUCTION_PARTS = 32 };
Graph *graph_cut(const Graph *graph, const int64_t *extents);

#endif
