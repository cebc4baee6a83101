// SPDX-License-Identifier: Apache-2.0
// Resolution of names, dims and element types. Private to this folder and those in it: call/ (calls
// of defs), meant/ (what other languages mean, for hints) and warn/ (warnings of einsums and dims).
//
// A Resolver checks one program; a Scope checks one def. Expressions are resolved from the leaves
// up; only the dims of an assignment's target travel down (Wanted), because einsum, slice and
// concat have no dims of their own. Poison: an expression with ok == false has been told of already
// (or depends on one that has), and nobody who meets it says anything more.
#ifndef ATTC_RESOLVE_H
#define ATTC_RESOLVE_H

#include "ast/ast.h"

// ---- names.c: lists of dims, hints -------------------------------------------------------------
void dimlist_add(Arena *arena, NameList *list, Name dim); // at the end, unless there
bool dimlist_equal(const NameList *a, const NameList *b); // as sets; neither repeats a dim
bool dimlist_same(const NameList *a, const NameList *b);  // in the same order
bool dimlist_within(const NameList *part, const NameList *whole);
bool dimlist_meets(const NameList *a, const NameList *b); // do they have a dim in common?
NameList dimlist_minus(Arena *arena, const NameList *a, const NameList *b);
// Dims of a broadcast: those of the one that has all of them, otherwise in order of first mention.
NameList dimlist_union(Arena *arena, const NameList *a, const NameList *b);
NameList dimlist_replaced(Arena *arena, const NameList *list, Name from, Name to);
NameList dimlist_of(Arena *arena, const IdentList *idents);
const Ident *idents_find(const IdentList *idents, Name name);
const char *dimlist_text(Arena *arena, const NameList *list); // "[n, d]"
const char *cycle_text(Arena *arena, const NameList *list);   // "n -> d -> h -> n"

void near_offer_list(Near *near, const NameList *list);

// ---- the state of a check -----------------------------------------------------------------------
typedef struct {
    Def *def;
    Span call;               // where the one before it in the list calls it
    VEC(const Expr *) calls; // of defs, in its body
    uint32_t n_seen;         // of its calls
} OpenDef;

typedef struct {
    Session *session;
    Arena *arena;
    Diags *diags;
    Program *program;
    NameList named;       // every dim that the user's defs, params and declarations name
    NameList counted;     // names that stand for the extents that -D gives
    NameList used_params; // top-level params that some def reads
    NameList disagreed;   // dims whose extents were found not to fit together
    Map *globals;         // top-level params: Name -> Tensor, the last of a name
    VEC(OpenDef) open;    // order.c: each calls the next
    bool garbled;         // syntax errors lost parts of the text: what they used is unknown
} Resolver;

typedef enum {
    SYMBOL_ARGUMENT, // parameter of the def
    SYMBOL_LOCAL,
    SYMBOL_TRAINED, // `param` in the def
    SYMBOL_GLOBAL,  // `param` of the file
    SYMBOL_LOOP,    // variable of a for: a number
    SYMBOL_STEP,    // variable of a scan: a position
} SymbolKind;

typedef struct {
    SymbolKind kind;
    Ident name;                // where it was first assigned or declared
    const IdentList *brackets; // where its dims are written: at name, or at its first use; or NULL
    NameList dims;
    Elem elem;
    bool ok;       // dims are known
    bool doubtful; // its dims were complained about: another use of it is no new mistake
    bool used;
    uint32_t depth;    // of loops around the first assignment; UINT32_MAX after that loop's end
    const Expr *value; // LOCAL: what was assigned last
    const Stmt *scan;  // whose body has the first assignment, or NULL
    StepList writing;  // LOCAL: the open scans at whose positions it is written, outermost first
} Symbol;

typedef struct {
    Stmt *stmt;
    uint32_t depth; // of loops, with it
} OpenScan;

typedef struct {
    Resolver *resolver;
    Def *def; // NULL for top-level initialisers
    VEC(Symbol *) symbols;
    const NameList *stated; // the dims that the present assignment is to have, where known
    bool doubt;             // the dims that the present assignment states were complained about
    uint32_t depth;         // of loops here
    VEC(OpenScan) scans;
    NameList unknown; // names that were told of once
} Scope;

// What the place of an expression says about its dims.
typedef struct {
    NameList dims;
    const IdentList *brackets; // where they are written; NULL for a carried value without brackets
    Span span;                 // of the assigned name or the brackets
    bool in_sum;               // the expression is one term of several
    const Expr *beside; // it is multiplied by this tensor, so that its own dims may be fewer;
                        // or added to it, where nothing says the dims of the sum
    bool silent;        // unknown because of a mistake told of already
} Wanted;

// ---- resolve.c: program, defs, statements ------------------------------------------------------
// What a call means in a def: the prelude's own go first in the prelude.
Def *program_find_callee(const Program *program, const Def *caller, Name name);
// Requires: what it calls is resolved, but for recursions.
void resolve_def(Resolver *resolver, Def *def);

// ---- order.c: defs after those that they call ---------------------------------------------------
void resolve_defs(Resolver *resolver);

// ---- collect.c: which dims are named at all ----------------------------------------------------
void collect_def_dims(Arena *arena, const Def *def, NameList *out); // those of its tensors
void collect_program_dims(Arena *arena, const Program *program,
                          NameList *out); // of all but the prelude

// ---- assign.c ----------------------------------------------------------------------------------
void resolve_assign(Scope *scope, Stmt *stmt);

// ---- scan.c ------------------------------------------------------------------------------------
// Finds the scans' variables in all brackets. A `for` that is meant to be a scan is told of and
// becomes one.
void scan_mark_steps(Resolver *r);
Step *steps_find(const StepList *steps, Name variable); // the first; NULL if it is none
NameList steps_left(Arena *arena, const IdentList *idents, const StepList *steps); // without them
// The scanned dims in their places.
IdentList steps_whole(Arena *arena, const IdentList *idents, const StepList *steps);
// With the variables of open scans in the places of those of the dims that they run over.
NameList scan_positions(const Scope *scope, const NameList *dims, const NameList *which);
// Reports steps of what is over no dim like theirs; false then.
bool scan_check_over(Scope *scope, const Expr *ref, const Symbol *symbol);
// Reports reading of what an open scan writes, but at the present position; false then.
// steps: of the reference, or NULL.
bool scan_check_whole(Scope *scope, const Expr *expr, const Symbol *symbol, const StepList *steps);
bool scan_check_steps(Scope *scope, Expr *ref, const Symbol *symbol); // requires: own of the steps
// A new symbol that the target, which has steps, declares. false after a diagnostic.
bool scan_write(Scope *scope, Symbol *symbol, const Tensor *target);
void scan_carry(Scope *scope, const Symbol *symbol); // assigned here: scans that it is outside of
void scan_open(Scope *scope, Stmt *stmt);
void scan_close(Scope *scope);

// ---- paths.c: names of calls and loops in those of trained tensors ------------------------------
void resolve_paths(Resolver *resolver, const Def *def); // after its statements

// ---- scope.c: symbols of a def -----------------------------------------------------------------
Symbol *scope_find(Scope *scope, Name name);            // visible here, else NULL
Symbol *scope_find_past(const Scope *scope, Name name); // of a loop that has ended
bool scope_in_scan(const Scope *scope);                 // the innermost loop here is one
typedef bool ExprTest(const Expr *expr, const void *of);
// Is it so of the expression, a part of it, or what it was computed from by assignments?
bool scope_made_of(Scope *scope, const Expr *expr, ExprTest *is, const void *of);
Symbol *scope_add(Scope *scope, SymbolKind kind, Ident name);
// NULL after reporting an unknown name, once in a def; a bare one may also be meant to be a dim.
Symbol *scope_use(Scope *scope, Ident name, bool bare);
bool scope_in_prelude(const Scope *scope);
bool scope_incomplete(const Scope *scope); // parts were lost to syntax errors
void scope_end_loop(Scope *scope);
void scope_warn_unused(Scope *scope);
bool scope_knows_dim(const Scope *scope, Name dim);
void scope_offer_symbols(const Scope *scope, Near *near); // those visible here
void scope_offer_dims(const Scope *scope, Near *near);
// Repeats, but of the steps (or NULL) among them; false if any.
bool scope_check_brackets(Scope *scope, const IdentList *dims, const StepList *steps);
// The name, with a number behind it where something here has it or it is in the list.
Name scope_free_name(Scope *scope, const char *name, const NameList *taken);
void scope_add_dims(Scope *scope, const NameList *dims);
void scope_note_dims(Scope *scope, Diag *diag, const Symbol *symbol); // a note: which it has
// A dim that is named for its extent alone: like another, it follows that one in a call.
void scope_add_alike(Scope *scope, Name dim);
void scope_add_counted(Scope *scope, Name dim); // one that stands for its extent, in the program

// ---- unknown.c: names without a meaning --------------------------------------------------------
// False if it was told of in this def, or may be what a syntax error has lost.
bool scope_is_news(Scope *scope, Name name);
void report_unknown(Scope *scope, Ident name, bool bare);
void report_unknown_def(Scope *scope, const Expr *call);
// Reports a dim that no tensor of the def names and no `dim` declares; false then.
bool scope_check_dim(Scope *scope, Ident dim);

// ---- infer.c: parameters without brackets ------------------------------------------------------
void scope_infer_arguments(Scope *scope);

// ---- optimizer.c -------------------------------------------------------------------------------
void resolve_optimizer(Scope *scope); // of a def that is one, after its statements
void report_called_optimizer(Scope *scope, const Expr *call, const Def *optimizer);

// ---- expr.c ------------------------------------------------------------------------------------
void resolve_expr(Scope *scope, Expr *expr, const Wanted *wanted); // wanted may be NULL
void resolve_number(Scope *scope, Expr *expr, const char *what);   // of numbers and extents only
// Only these may stand in a number expression; the rest is not even looked at.
bool expr_may_be_number(const Expr *expr);
bool expr_is_tensor(const Expr *expr); // a name, perhaps with all of its dims
bool call_passes_wanted(const Expr *call); // a built-in whose arguments have its result's dims
void expr_poison(Expr *expr);
void expr_set(Expr *expr, NameList dims, Elem elem); // ok

bool call_is_pointwise(const Expr *call);
bool oper_compares(Oper oper);

// ---- reference.c -------------------------------------------------------------------------------
// returned: the whole of a result, whose brackets are an order in memory.
void resolve_reference(Scope *scope, Expr *ref, bool returned);

// ---- take.c: references with numbers in the brackets, X[0, d]
// Loop variables among the names that are no dims of the tensor become positions.
void take_loop_numbers(Scope *scope, Expr *ref, const Symbol *tensor);
// Checks the positions and finds the dims that they take (reduced). false after a diagnostic.
bool take_positions(Scope *scope, Expr *ref, const Symbol *tensor);

// ---- constant.c: zeros, ones, full, arrays ------------------------------------------------------
bool name_is_same(Name name); // zeros or ones: one number over the dims in its brackets
void resolve_same(Scope *scope, Expr *ref);
void resolve_full(Scope *scope, Expr *call, const Wanted *wanted);
void resolve_array(Scope *scope, Expr *array, const Wanted *wanted);

// ---- regroup.c: split and merge ---------------------------------------------------------------
void resolve_regroup(Scope *scope, Expr *call);
// `d -> h k` in a call of something else; false after a diagnostic.
bool check_no_regroup(Scope *scope, const Expr *call);

// ---- elem.c: element types ---------------------------------------------------------------------
// Of a name whose value was lost to a mistake: it goes everywhere without another message.
static const Elem ELEM_LOST = N_ELEM;
bool elem_is_mixed(const Expr *a, const Expr *b); // one is bool, the other is not
Elem elem_made_float(Elem elem);
bool elem_accepts(Elem to, const Expr *from); // without a cast: equal, literal, or wider
bool resolve_expect_bool(Scope *scope, const Expr *expr, const char *where);
bool resolve_expect_number(Scope *scope, const Expr *expr, const char *where); // not bool
// Of all of them; one message.
bool resolve_expect_bools(Scope *scope, const ExprList *list, const char *where);
bool resolve_expect_numbers(Scope *scope, const ExprList *list, const char *where);
bool resolve_expect_int(Scope *scope, const Expr *expr, const char *where);
Elem elem_of_float_function(const Expr *arg);
// Type and literalness of several operands that meet; bool only with bool.
void elem_meet(Expr *result, const Expr *operand, bool first);

// ---- builtin.c, move.c, topk.c, einsum.c, warn/, call/call.c ------------------------------------
// Of dims whose extents do not fit together: was that told of? They count as told from now on.
bool resolve_disagreed(Resolver *resolver, const NameList *dims);
void resolve_builtin(Scope *scope, Expr *call, const Wanted *wanted);
bool builtin_gives_several(Builtin builtin);
// Whether it may be called with so many arguments and these keywords.
bool builtin_takes(Builtin builtin, uint32_t n_args, const KeyList *keys);
// A call on the right of n names: of a built-in that gives several values.
void resolve_builtin_for(Scope *scope, Expr *call, uint32_t n_wanted);
void resolve_index(Scope *scope, Expr *call);
void resolve_one_hot(Scope *scope, Expr *call);
void resolve_gather(Scope *scope, Expr *call);
void resolve_scatter(Scope *scope, Expr *call);
void resolve_shift(Scope *scope, Expr *call);
void resolve_swap(Scope *scope, Expr *call, const Wanted *wanted);
void resolve_slice(Scope *scope, Expr *call, const Wanted *wanted);
void resolve_concat(Scope *scope, Expr *call, const Wanted *wanted);
void resolve_order(Scope *scope, Expr *call, uint32_t n_wanted); // topk sort argsort
void resolve_einsum(Scope *scope, Expr *call, const Wanted *wanted);
void resolve_warn_rank(Scope *scope, const Expr *softmax);
void resolve_warn_outer(Scope *scope, const Expr *binary);
void resolve_warn_extent(Scope *scope, const Expr *call);
void resolve_warn_difference(Scope *scope, const Expr *binary);
void resolve_warn_numbers(Scope *scope, const Expr *value); // the whole of a statement
void resolve_warn_joint(Scope *scope, const Expr *einsum);
void resolve_call(Scope *scope, Expr *call);
void resolve_result(Scope *scope, Expr *result); // one of several of a call
// A dim given as an argument; NULL after a diagnostic. `what` names it in the message.
const Ident *expr_as_dim(Scope *scope, Expr *expr, const char *what);
// The same of an argument of a built-in, which other languages count by places.
const Ident *call_as_dim(Scope *scope, const Expr *call, Expr *value, const char *what);
// The dim that `dim=` gives, one of the tensor's (NULL: any); NULL after a diagnostic.
const Ident *call_dim_key(Scope *scope, const Expr *call, const Expr *tensor);
// Fills call->reduced from `reduced_dim=` or another key, with dims of the arguments; `one`: a
// single dim only. false after a diagnostic.
bool call_reduced_key(Scope *scope, Expr *call, const char *key, bool one);
// The dims that the `-> [..]` of a call or an array, or the target, gives; NULL after asking.
// readings: what may be written, with quotes; NULL where it has its dims.
const Wanted *call_wanted(Scope *scope, const Expr *call, const Wanted *wanted, Wanted *arrow,
                          const char *readings);
// Where in an expression a dim comes from: a reference over it, or the expression itself.
Span expr_dim_place(const Expr *expr, Name dim);
// The dims of an expression, steps of a scan among those of a reference, with another for one.
const char *expr_dims_over(Arena *arena, const Expr *expr, Name from, Name to);

// ---- call/bind.c: which dims of an argument stand for those of a parameter ----------------------
typedef struct {
    Name formal;
    Ident actual;
} HandDim; // `d=k` in a call
typedef VEC(HandDim) HandDims;
typedef enum {
    BIND_FINE,
    BIND_FEW,          // the argument has fewer dims than the parameter
    BIND_HAND_ABSENT,  // it lacks the dim that `formal` is by hand
    BIND_SEVERAL,      // more dims are left than the parameter has, and no brackets say which count
    BIND_TWO_READINGS, // names and places disagree
} BindProblem;
typedef struct {
    BindProblem problem;
    uint32_t formal;   // of HAND_ABSENT
    uint32_t n_named;  // bound by name or kind
    NameList actuals;  // by formal: the dim that it is
    NameList placed;   // by formal: the dim that it were if names said nothing
    NameList open;     // formals that are bound by place
    NameList left;     // dims that neither hand, name nor kind took
    bool last_of_more; // all but hands by place: the last of more dims than they are
    NameList extra;    // dims that no formal took, in order: the call is mapped over them
} ArgumentDims;
// `brackets`: the order of the argument's dims is written at the call. Requires: hands that name
// different dims.
ArgumentDims bind_argument(Arena *arena, const Program *program, const NameList *formals,
                           const NameList *actuals, bool brackets, const HandDims *hands);
// Are the argument's dims written at the call, in an order of the caller's choice?
bool expr_has_brackets(const Expr *arg);

// ---- meant/foreign.c: hints for the manner of other languages ---------------------------------
void foreign_hint_statement(Scope *scope, const Stmt *stmt);
// What to write in place of a call that is not known, or not so; NULL: nothing.
const char *foreign_call_hint(Scope *scope, const Expr *call);
const char *foreign_text(Scope *scope, const Expr *expr); // as it is written here; NULL: unknown
// A number in brackets, counted from the end of the dim if a minus stands before it; or NULL.
const char *foreign_position(Scope *scope, const Expr *position, Name dim);

// ---- dims.c: extents ---------------------------------------------------------------------------
void resolve_dims(Resolver *resolver);
void resolve_warn_given(Resolver *resolver); // -D and --dynamic of what the program has not
void program_add_dim(Resolver *resolver, DimDecl *decl);
void resolve_note_extent(Resolver *resolver, Diag *diag, Name dim); // where it has it from

#endif
