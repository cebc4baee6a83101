// SPDX-License-Identifier: Apache-2.0
// Level ast: the program as written, then with its names and dimensions resolved.
//
// The parser (grammar/) builds nodes through the constructors below and gives them no meaning.
// ast_resolve then checks every def on its own and fills the fields marked "resolved:". Inside one
// def a dimension *is* its name: two uses of `n` are one dim with one extent (language.md 2.1). A
// primed name, n', is a dim like n without a declaration.
// A node that could not be resolved is poisoned (ok == false) and never causes a second message.
#ifndef ATTC_AST_H
#define ATTC_AST_H

#include "base/base.h"

typedef struct {
    Name name;
    Span span;
} Ident; // a name where it was written

typedef VEC(Ident) IdentList;

typedef enum {
    EXPR_NUMBER, // number; is_integer tells 2 from 2.0; also inf and pi
    EXPR_NAME,   // name: a bare tensor, dim or loop variable
    EXPR_REF,    // name[dims], where numbers args... stand in some places: name[0, d]
    EXPR_UNARY,  // op args[0]
    EXPR_BINARY, // args[0] op args[1]
    EXPR_CALL,   // name(args..., keys...) or name(args -> [dims]); `as` label
    EXPR_ARRAY,  // [args...] -> [dims]: numbers, or arrays that have no arrow themselves
    EXPR_TUPLE,  // (args...) with a comma, as in reduced_dim=(n, m)
    EXPR_RESULT, // one of the n_results of `call`, as in `Y, S = Step(X, S)`: that many assignments
                 // in a row. args[0] is the call in the first alone, so that a walk meets it once.
    EXPR_ERROR,  // could not be parsed and was reported: resolves to poison without a message
    EXPR_FOREIGN, // of another language, and reported: kept for the hint alone
} ExprKind;

// Forms of other languages.
typedef enum {
    FOREIGN_MATMUL,  // args[0] @ args[1]
    FOREIGN_MEMBER,  // args[0].name
    FOREIGN_METHOD,  // args[0].name(args[1], ..., keys...)
    FOREIGN_ITEMS,   // args[0][args[1], ...], where slices are among them
    FOREIGN_SLICE,   // args[0] : args[1], NOTHING for one that is not written
    FOREIGN_STEP,    // args[0] : step, where args[0] is a SLICE
    FOREIGN_NOTHING, // where something may be left out
    FOREIGN_DOTS,    // `...` in the place of dims
    FOREIGN_CHOICE,  // args[0] ? args[1] : args[2]
    FOREIGN_STRING,  // name: what is between the quotes
    FOREIGN_LIST,    // [args...]
    FOREIGN_UPDATE,  // += args[0], name: the operator without '='
} Foreign;

typedef enum {
    OPER_NEG,
    OPER_NOT,
    OPER_ADD,
    OPER_SUB,
    OPER_MUL,
    OPER_DIV,
    OPER_FLOORDIV,
    OPER_MOD,
    OPER_POW,
    OPER_EQ,
    OPER_NE,
    OPER_LT,
    OPER_LE,
    OPER_GT,
    OPER_GE,
    OPER_AND,
    OPER_OR,
    N_OPER
} Oper;

// Built-in functions, from builtins.def: einsum, softmax, where, exp, gather, ...
typedef enum {
#define BUILTIN(NAME, name, shape, min_args, max_args, keys) BUILTIN_##NAME,
#include "ast/builtins.def"
#undef BUILTIN
    N_BUILTIN,
    BUILTIN_NONE = N_BUILTIN
} Builtin;

// How the dims of the result follow, see builtins.def.
typedef enum {
    SHAPE_MAP,
    SHAPE_EINSUM,
    SHAPE_REDUCE,
    SHAPE_KEEP,
    SHAPE_MOVE,
    SHAPE_ORDER
} BuiltinShape;
typedef struct {
    const char *name;
    BuiltinShape shape;
    uint32_t min_args, max_args;
    const char *keys; // words
} BuiltinInfo;

// What a bare or bracketed name turned out to be.
typedef enum {
    NAME_UNKNOWN,
    NAME_TENSOR, // a parameter, local or trained tensor of the def, or a global param
    NAME_EXTENT, // a dim used as a number
    NAME_LOOP,   // the variable of a for, used as a number
    NAME_STEP,   // the variable of a scan: a position that is known at run time
    NAME_SAME,   // zeros or ones: one number, `number`, over the dims in the brackets
} NameKind;

enum { AST_MAX_DEPTH = 500 };

// A variable of a scan that stands in the place of a dim: x[t, d] for x[n, d].
typedef struct {
    Name dim, variable; // the dim that the scan runs over
    Name own;           // resolved: of a REF: the tensor's dim, dim or one that is like it
    bool now;           // resolved: what is written at this position; otherwise one of many is read
} Step;
typedef VEC(Step) StepList;

typedef struct Expr Expr;
typedef struct Def Def;
typedef VEC(Expr *) ExprList;

typedef struct {
    Ident key;
    Expr *value;
} KeyArg; // reduced_dim=m
typedef VEC(KeyArg) KeyList;

// resolved: formal dim of the callee -> dim of the caller.
typedef struct {
    Name formal, actual;
} DimBinding;

struct Expr {
    ExprKind kind;
    Span span;
    Ident name; // NAME, REF, CALL
    double number;
    bool is_integer;
    Oper oper;
    Foreign foreign;
    ExprList args;
    KeyList keys;
    IdentList from, into; // CALL of split or merge: the dims around its arrow
    IdentList dims;       // REF: the names in the brackets; CALL, ARRAY: after ->
    VEC(uint32_t) places; // REF: where each of args stands in the brackets, counted from 0
    StepList steps;       // REF: resolved: one for each of dims that is a variable of a scan
    bool has_arrow;
    uint16_t depth;            // levels of nodes below it, at most AST_MAX_DEPTH: recursion is safe
    Ident label;               // `as label`, name NULL if none
    Expr *call;                // RESULT
    uint32_t which, n_results; // RESULT

    // resolved:
    bool ok;
    Elem elem;
    // Made of numbers, extents and loop variables only: its elem adapts. With dims: zeros, ones, or
    // a full or an array of such numbers.
    bool is_literal;
    bool is_whole;   // literal of an f32: whole numbers all the same (zeros, ones)
    NameList result; // dims of the value; order as written or as first met
    NameKind name_kind;
    Builtin builtin; // CALL of a built-in
    Def *callee;     // CALL of a def
    // binding: CALL of a def: every dim of the callee that has another meaning than its name here.
    // REF: dims read over a `like` name, all at once: formal = the tensor's own dim, actual = the
    // one written.
    VEC(DimBinding) binding;
    VEC(NameList) results; // CALL: dims of each value, where several are asked for
    VEC(Elem) elems;       // likewise
    NameList mapped;       // CALL of a def: dims of the caller that the callee is run for each of
    Name path;             // CALL of a def with trained tensors: its part of their names, "ffn_1"
    // reduced: the dims an operation is about. sum, mean, softmax, ...: reduced_dim; index,
    // one_hot, gather, shift: [dim]; scatter_add: [reduced_dim ..., dim]; swap: both; split, merge:
    // [the whole, its parts ...]; slice: [dim, new dim]; concat: [dim, own dim of args[0], ...];
    // topk, sort, argsort: [dim, the dim in its place]; REF: the tensor's dims of which args say a
    // position, in their order
    NameList reduced;
    bool descending; // topk, sort, argsort: the largest first
};

// How far resolution has come with what may be made of others: meeting an open one is a cycle.
typedef enum { VISIT_NEW, VISIT_OPEN, VISIT_DONE } Visit;

typedef enum {
    INIT_NONE,
    INIT_VALUE,            // = number expression
    INIT_NORMAL,           // ~ normal(std=)
    INIT_UNIFORM,          // ~ uniform(a, b)
    INIT_GLOROT,           // ~ glorot
    INIT_TRUNCATED_NORMAL, // ~ truncated_normal(std=)
} InitKind;

// A tensor where it is declared: def parameter, trained tensor, or assignment target.
typedef struct {
    Ident name;
    bool has_dims;  // brackets were written
    IdentList dims; // in memory order
    StepList steps; // resolved: of an assignment: one for each of dims that is a scan's variable
    bool has_elem;
    Elem elem;
    bool is_param; // marked `param`
    InitKind init; // of a parameter: VALUE if it has a default
    Expr *init_args[2];
    Span span;
    bool garbled; // syntax errors are in it: its dims and type are unknown
    // resolved:
    bool ok;
    NameList result; // its dims, also when the brackets were left out
} Tensor;

typedef VEC(Tensor) TensorList;

typedef enum { STMT_ASSIGN, STMT_PARAM, STMT_FOR, STMT_SCAN, STMT_RETURN } StmtKind;
typedef struct Stmt Stmt;
typedef VEC(Stmt *) StmtList;
struct Stmt {
    StmtKind kind;
    Span span;
    bool garbled;             // a syntax error is in it (of a FOR: in its head): it is not judged
    Diag *foreign;            // that error, if it is of a form of another language
    Tensor target;            // ASSIGN: name, optional dims and elem; PARAM: the declaration
    Expr *value;              // ASSIGN
    Ident loop_var, loop_dim; // FOR loop_var in loop_dim [shared]:, SCAN loop_var in loop_dim
                              // [reversed]:
    bool shared;              // always of a SCAN
    bool reversed;            // of a SCAN: from the last position to the first
    StmtList body;            // FOR, SCAN
    ExprList results;         // RETURN: one or more
    // resolved:
    Name path; // FOR, SCAN around trained tensors: its part of their names
    // SCAN: names from outside that are assigned in it, and names that it writes at each position
    NameList carried, stacked;
};

struct Def {
    Ident name;
    Span span;
    TensorList params;
    StmtList body;
    bool from_prelude;
    bool is_optimizer;
    bool incomplete; // syntax errors lost parts of it: names unknown in it, a missing return and
                     // the arguments of its calls give no message
    bool garbled;    // syntax errors lost expressions of it: what they used is unknown
    // resolved:
    bool ok;
    Visit visit;               // OPEN: what it calls is resolved first
    NameList dims;             // every dim named in it, in order of first appearance
    VEC(NameList) result_dims; // of each returned value; none when one of them is poisoned
    VEC(Elem) result_elems;
    // A result whose brackets order memory alone, S[m, n] of S[n, m], and the value that they might
    // be taken for, swap(S, n, m).
    const Expr *reordered;
    const char *exchanged;
    bool owns_params;      // has trained tensors, its own or of a def that it calls
    NameList result_names; // Y for `return Y[n, d]`; "result", "result_1", ... otherwise
};

typedef struct {
    Ident name;
    Expr *extent; // `= expr`, or NULL
    Ident like;   // `like other`, name NULL if none
    // resolved:
    int64_t value;  // -1: dynamic, or wrong
    bool wrong;     // its extent was told of
    bool given;     // its extent is computed from one that -D gives
    Visit visit;    // OPEN: its extent is made of others that are under way
    Name like_root; // the dim at the end of the `like` chain (itself if none)
} DimDecl;

typedef struct {
    Names *names; // of the session
    VEC(DimDecl *) dims;
    Map *dims_by_name; // resolved: the first declaration of each name
    VEC(Def *) defs;
    VEC(Tensor *) params; // top-level `param`
    VEC(uint32_t) files;  // parsed or imported so far, by file number
    bool incomplete;      // an item or an import was lost: unknown functions give no message
    NameList lost;        // names in lost items, which may have declared them
} Program;

// ---- node.c: constructors, each one call of a grammar action --------------------------------
Program *program_new(Arena *arena);
Expr *expr_number(Arena *arena, Span span, double value, bool is_integer);
Expr *expr_name(Arena *arena, Ident name);
// items: bare names are dims (or loop variables, which resolution tells), the others positions.
Expr *expr_ref(Arena *arena, Span span, Ident name, ExprList items);
Expr *expr_unary(Arena *arena, Span span, Oper oper, Expr *a);
Expr *expr_binary(Arena *arena, Span span, Oper oper, Expr *a, Expr *b);
Expr *expr_call(Arena *arena, Span span, Ident name);
Expr *expr_tuple(Arena *arena, Span span, ExprList items);
Expr *expr_array(Arena *arena, Span span, ExprList items);
void expr_set_args(Expr *call, ExprList args, KeyList keys);
Expr *expr_result(Arena *arena, Expr *call, uint32_t which, uint32_t n_results);
Expr *expr_error(Arena *arena, Span span);
Expr *expr_foreign(Arena *arena, Span span, Foreign foreign, ExprList args);
ExprList expr_list(Arena *arena, Expr *only);
bool expr_is_foreign(const Expr *expr, Foreign form);
const Expr *expr_unsigned(const Expr *expr); // what a minus stands before, or the expression
// The whole number that it is, also behind a minus; false: none, or none that arithmetic is safe
// on.
bool expr_whole(const Expr *expr, int64_t *out);
bool expr_is_count(const Expr *expr); // 1, 2, ..
const char *oper_text(Oper oper);
KeyArg *call_key(const Expr *call, const char *key); // NULL when not given

// ---- builtins.c
extern const BuiltinInfo builtins[N_BUILTIN];
Builtin builtin_find(const char *name); // BUILTIN_NONE: there is none
const char *builtin_name(Builtin builtin);

// ---- words.c: of other languages
bool word_is_module(const char *word);         // torch, np
bool word_is_numeric_module(const char *word); // in which split(x, 3) is in three, not by three
const char *word_constant(const char *word);   // the text to write, "bool(1)" for True; or NULL
bool word_says(const char *word, bool value);  // whether it is true, or false

// ---- ../grammar/parse.y: text -> nodes ------------------------------------------------------
// Adds a file's items to the program. Reports syntax errors and goes on; imports are read (once
// each) relative to the importing file.
void ast_parse(Session *session, Program *program, uint32_t file);

// ---- format/: the canonical layout ----------------------------------------------------------
// Adds the text of a file in its layout. false after syntax errors. Imports are not read.
bool ast_format(Session *session, uint32_t file, Text *out);

// ---- read/prelude.c: definitions written in the language itself (norm, gelu helpers, rotary, ...)
void ast_add_prelude(Session *session, Program *program);

// ---- resolve/: names, dims, element types ----------------------------------------------------
// Checks the whole program (grammar/language.md) and fills the resolved fields, with the
// session's -D overrides applied to dims. Returns false if any error was reported.
bool ast_resolve(Session *session, Program *program);
Def *program_find_def(const Program *program, Name name);
DimDecl *program_find_dim(const Program *program, Name name); // NULL: never declared (dynamic)
// Extent of a dim after defaults, `like` and overrides; -1 when known at run time only.
int64_t program_extent(const Session *session, const Program *program, Name dim);
// The declaration whose `= expr` gives a dim its extent, known or not; NULL when nothing does.
const DimDecl *program_extent_origin(const Session *session, const Program *program, Name dim);
// Does -D give the dim its extent, or one that it is computed from? Then it may be 0, which is
// known at run time only.
bool program_extent_given(const Session *session, const Program *program, Name dim);
// Was a mistake in what computes the extent told of?
bool program_extent_wrong(const Program *program, Name dim);
// Of -D or --dynamic: what tells a dim, its own, its class's root's or any other member's; or NULL.
const DimExtent *program_given(const Program *program, const DimExtents *given, Name dim);
// The session without --data, and without what -D and --dynamic tell of these dims and those that
// are alike.
Session *program_untold(const Session *session, const Program *program, const NameList *dims);
// The sizes that the dim, or one that is alike, is planned for, each with the dim, the smallest
// first; none where it has not several (sizes.c).
DimExtents program_sizes(const Session *session, const Program *program, Name dim, Arena *arena);
int64_t sizes_begin(const DimExtents *sizes, uint32_t i); // of the extents that are planned for it
int64_t sizes_end(const DimExtents *sizes, uint32_t i);   // INT64_MAX: they do not end
int64_t sizes_nearest(const DimExtents *sizes, int64_t extent);
// The session with this as the only size of the dim and those that are alike.
Session *program_with_size(const Session *session, const Program *program, DimExtent size);
// --dynamic of the dim, or of one that is alike.
bool program_made_dynamic(const Session *session, const Program *program, Name dim);
Name program_like_root(const Program *program, Name dim);        // the same for all alike
bool program_dims_alike(const Program *program, Name a, Name b); // same `like` class
// The type that two operands meet in: the wider of one kind; with a float, the float; f16 and bf16
// meet in f32. expr_common_elem is the same for two resolved operands, where literals adapt.
Elem elem_promote(Elem a, Elem b);
Elem expr_common_elem(const Expr *a, const Expr *b);
// Value of a resolved number expression of extents. `loop` (may be NULL) gives loop variables, and
// also extents of dims that mean something else where the expression is used (inlined calls).
typedef struct {
    Name name;
    int64_t value;
} LoopValue;
bool expr_evaluate(const Session *session, const Program *program, const Expr *expr,
                   const LoopValue *loop, uint32_t n_loop, double *value);
// What an optimizer takes besides the tensor and its gradient.
typedef struct {
    Name name;
    double value; // its default
} OptimizerSetting;
typedef struct {
    uint32_t rank; // of the tensor: 1 or 2
    uint32_t n_states;
    VEC(OptimizerSetting) settings; // numbers but step and learning_rate, in order
} OptimizerFacts;
OptimizerFacts def_optimizer_facts(Arena *arena, const Def *optimizer); // of a resolved one
// What cannot be about the first value of a tensor whose init_args have these values, and where;
// NULL when nothing is.
const char *tensor_init_problem(Arena *arena, const Tensor *tensor, const double *numbers,
                                Span *at);
const char *dropout_rate_problem(double rate); // NULL: none

// ---- print.c --------------------------------------------------------------------------------
// Source text that parses back to the same program.
void ast_print(const Program *program, Text *out);

#endif
