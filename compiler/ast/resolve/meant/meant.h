// SPDX-License-Identifier: Apache-2.0
// What expressions in the manner of other languages mean here: the text to write instead, and the
// dims that it has. Only hints are made of it, so it says nothing and gives up where it does not
// know.
//
//     meant.c            forms and operators      X.T, c ? a : b
//     items.c            brackets                 X[:, 0:3], X[::2], X[ids]
//     einsum.c           products of matrices     X @ W, einsum("nd,dk->nk", X, W)
//     function.c         functions and methods    cat([X, Y], dim=1), X.sum(-1), masked_fill(..)
//     arguments.c        other arguments          masked_fill(S, mask, -inf), dropout(X, 0.1)
//     formula.c          formulas                 log2(X), X.var(dim=0)
//     order.c            orders                   topk(X, k=3, dim=-1)
//     several.c          several values           A, B = X.chunk(2, dim=-1)
//     shape.c            positions regrouped      X.view(n, h, k), zeros(n, d)
//     places.c           places of dims          X[:, None] - X[None, :], X.unsqueeze(0)
//     positions.c        positions taken          X.index_select(0, ids), flip(X, 0), trace(S)
//     foreign.c          the hints (resolve.h); the messages are told where the text is read or
//                        resolved
#ifndef ATTC_MEANT_H
#define ATTC_MEANT_H

#include "ast/resolve/resolve.h"

// Of characters; a text that is longer is given up where it arises, since others may have it
// several times.
enum { LONGEST_HINT = 240 };

// How tightly a text holds together, as in the grammar.
typedef enum {
    HOLDS_ANY,
    HOLDS_OR,
    HOLDS_AND,
    HOLDS_NOT,
    HOLDS_COMPARISON,
    HOLDS_SUM,
    HOLDS_PRODUCT,
    HOLDS_SIGN,
    HOLDS_POWER,
    HOLDS_ALL,
} Holds;

typedef struct {
    const char *text; // NULL: unknown
    const char *open; // einsum, slice, concat: without `-> [..]`, which the target may say
    Name fresh;       // the dim of the text that it made a name for, or NULL
    Holds holds;
    bool has_dims;        // known
    bool moved;           // their places are not those that a number of the other language means
    NameList places;      // of what is moved, NULL where no dim is; none: they are not known
    bool turned;          // the text may have its dims in another order
    bool paired;          // a dim of it has a prime for another position
    bool pair;            // the text gives two values, which an expression has no place for
    bool product;         // of matrices: a dim of it may be another one of those alike
    bool swapped;         // a transpose of `tensor`, whose last two dims are the other way round
    NameList dims;        // in the order of the other language
    Name tensor;          // the text is this tensor, with or without brackets
    const char *operands; // of an einsum, as text, and what it sums over
    NameList summed;
} Meant;

// A dim that the text made a name for: `of` and a suffix.
typedef struct {
    Name dim, of;
    const char *suffix, *extent;
    const char *shared; // the extent where another one has to be the same, NULL: none is
    int64_t known;      // the extent, 0: not known
    bool beside;        // the file is to have it: `dim m_top = 3`
} Made;

typedef struct {
    Scope *scope;
    Arena *arena;
    Program *program;
    uint32_t depth;     // of the recursion
    uint32_t steps;     // expressions read, some more than once
    const char *remark; // what the text is, where other languages have something else, or NULL
    VEC(Made) made;
    bool apart; // what is read is put one behind the other: its dims need not have one extent
} Meaning;

// ---- meant.c
Meaning meaning_in(Scope *scope);
void meant_remark(Meaning *m, const char *remark); // to be told once
Meant meant(Meaning *m, const Expr *expr);
bool meant_is_module(const Meaning *m, const Expr *expr); // torch, torch.nn
Meant meant_with_dims(const char *text, Holds holds, NameList dims);
const char *meant_within(const Meaning *m, const Meant *part, Holds outer); // with parentheses
Meant meant_where(Meaning *m, const Meant *condition, const Meant *a, const Meant *b);
Meant meant_binary(Meaning *m, Oper oper, const Meant *a, const Meant *b);
// A name that is free here: OF_SUFFIX, or with a number behind it; suffix: NULL for a number alone.
Name meant_fresh(const Meaning *m, Name of, const char *suffix);
// As the file says it: what -D says is not for a line of the file. 0: not known.
int64_t meant_extent(const Meaning *m, Name dim);
void meant_declare(Meaning *m, Name dim, const char *extent); // the text wants `dim`
// A dim called after another one: that of before, where the extent is or may be the same. NULL:
// there is no text for an extent that two have.
Name meant_made(Meaning *m, const Made *made);
// A position, counted from the end if a minus stands before it; value: what it means without that.
const char *meant_position(const Meaning *m, const Expr *position, const Meant *value, Name dim);
const char *meant_number(Meaning *m, const Expr *position, Name dim); // likewise
Meant meant_name(Meaning *m, const Expr *expr);
// The tensor over other dims, or the text as it is; NULL where only brackets could tell the dims.
const char *meant_over(const Meaning *m, const Meant *of, const NameList *dims);

// ---- items.c
Meant meant_items(Meaning *m, const Expr *expr);
Meant meant_reference(Meaning *m, const Expr *ref); // X[n, d], X[-1], X[ids]
// Positions of a dim, which are called after it and the suffix; known: how many, or 0.
Meant meant_part(Meaning *m, const Meant *of, Name dim, const char *from, const char *to,
                 const char *suffix, int64_t known);
// What to say of X[:, i] where nothing is named `i`, and of X[:, None]; NULL: it is no such form.
const char *meant_unknown_place(Meaning *m, const Expr *expr);

// ---- einsum.c
Meant meant_product(Meaning *m, const Meant *a, const Meant *b);
Meant meant_outer(Meaning *m, const Meant *a, const Meant *b);
Meant meant_letters(Meaning *m, const ExprList *args); // einsum with a string among them
// The dim, or a prime of it that is in neither list.
Name meant_primed(const Meaning *m, Name dim, const NameList *a, const NameList *b);

typedef struct {
    const ExprList *args;
    const KeyList *keys;
} Given; // in a call

// ---- function.c
// expr: a call, a method or an attribute; args: its own, and before them the tensor whose method it
// is. Unknown functions give nothing, and a hint in *hint where there is something to say in any
// case.
Meant meant_function(Meaning *m, const Expr *expr, const ExprList *args, const char **hint);

Expr *given_key(const Given *given, const char *key); // or NULL
bool key_says_dim(Name key);                          // dim, axis, ..
Expr *given_where(const Given *given);                // what such a keyword says, or NULL
bool given_list(const Expr *expr);                    // (a, b) or [a, b]
// A dim of the tensor: by name, or by place, from the end if it is negative; or NULL.
Name dim_given(const Meant *of, const Expr *expr);
Name dim_at(const Meant *of, const Expr *place);    // by place alone
bool names_dim(const Meaning *m, const Expr *expr); // is it the name of a dim?
// What a call reduces, as a text: `d`, `(n, d)`; the result loses these dims. Arguments behind the
// first and keywords are those of a reduction. false: it cannot be told.
bool meant_reduced(Meaning *m, const Given *given, Meant *result, const char **dims);

// Whether there is a built-in, a def or another meaning of the name.
bool meant_knows(const Meaning *m, Name function);

// ---- arguments.c
Meant meant_dropout(Meaning *m, const Given *given);
// A condition, of which other languages may make one of a number.
Meant meant_condition(Meaning *m, const Expr *expr);
Meant meant_fill(Meaning *m, const Given *given);
Meant meant_clip(Meaning *m, const Given *given);
Meant meant_size(Meaning *m, const Given *given);

// ---- formula.c; *hint: what there is to say of the function if nothing comes back
Meant meant_formula(Meaning *m, Name name, const Given *given, const char **hint);
bool meant_is_formula(Name name);

// ---- order.c
Meant meant_order(Meaning *m, Builtin builtin, const Given *given);

// ---- several.c
// One of so many values of a call: of max, min and sort over a dim the values and where they are,
// of chunk, split and unbind a piece.
Meant meant_of_several(Meaning *m, const Expr *call, uint32_t which, uint32_t count);

// ---- shape.c; args: those behind the tensor
Meant meant_view(Meaning *m, const Expr *x, const Expr *const *args, uint32_t n);
Meant meant_flatten(Meaning *m, const Given *given);
Meant meant_unflatten(Meaning *m, const Given *given);
Meant meant_rearrange(Meaning *m, const Expr *x, const char *pattern, const KeyList *sizes);
Meant meant_pattern_reduced(Meaning *m, const Given *given); // "n d -> n", "mean"
Meant meant_concat(Meaning *m, const Given *given);
Meant meant_constant(Meaning *m, const char *name, const Expr *const *args, uint32_t n);
Meant meant_full(Meaning *m, const Given *given);
Meant meant_constant_like(Meaning *m, const char *name, const Expr *x);

// ---- places.c
// Another text with the dims of `as`, at its places; what else is known of that is not so of it.
Meant meant_placed_as(const char *text, Holds holds, const Meant *as);
// The dims at the places of the other language, NULL where one has no dim; false: not known.
bool meant_places(const Meant *of, NameList *out);
void meant_spread(Meaning *m, Meant *of, const NameList *places); // its dims where there are names
// Reduced over `dims`; kept: whether their places stay, or NULL.
void meant_without(Meaning *m, Meant *of, const NameList *dims, const Expr *kept);
// Puts another operand beside those in *all, with primes where its dims are at other places. false:
// it cannot be said.
bool meant_meet(Meaning *m, Meant *all, Meant *part);
Meant meant_argument(Meaning *m, const Given *given, bool squeezed);
Meant meant_unsqueezed(Meaning *m, const Given *given);
Meant meant_repeated(Meaning *m, const Given *given);
// All dims of the tensor in this order: the tensor itself where their names tell them apart, a swap
// of two that are alike.
Meant meant_reordered(Meaning *m, Meant of, const NameList *order);
// The dims in another order, which means nothing where their names say what is what.
Meant meant_transpose(Meaning *m, const Given *given, bool last);

// ---- positions.c; name: as the other language has it
Meant meant_gather(Meaning *m, const char *name, const Given *given);
Meant meant_diagonal(Meaning *m, const char *name, const Given *given);
Meant meant_eye(Meaning *m, const Given *given);
Meant meant_moved(Meaning *m, const char *name, const Given *given);
Meant meant_gathered(const Meant *of, Name dim, Meant result); // whose text is a gather
Meant meant_turned(Meaning *m, const Meant *of, Name dim); // from the last position to the first
Meant meant_mask(Meaning *m, const Given *given, const char *comparison);
Meant meant_one_hot(Meaning *m, const Given *given);
Meant meant_range(Meaning *m, const Given *given);

#endif
