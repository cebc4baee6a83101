// SPDX-License-Identifier: Apache-2.0
// Warning joint-sum: one index where nearly everyone means two.
//
//     einsum(X[n, d], P_q[d, k, h], X[m, d], P_k[d, k, h] -> [n, m, h])
//        d is one index: the sum over k of P_q * P_k is a weight of each d. Two projections are
//        einsum(X[n, d], P_q[d, k, h], X[m, d'], P_k[d', k, h] -> [n, m, h])
//     einsum(X[n, d], A[d, r], B[r, d] -> [n, d])
//        the same with a dim of the result: X is scaled, not mapped there and back
//
// Each projection is of something: a part is a tensor A that is projected and a matrix P that it is
// projected with. What is looked for, in the operands that have the dim d, are two such parts, A P
// and B Q, which make sense as they are written only if each has an index of its own:
//
//   d is summed      A and B, each with a dim that none of the other three has, and P and Q with a
//                    dim r beside d that A and B lack. Tensors of data are multiplied like this on
//                    purpose (linear attention without a softmax), so r is summed, A and B are one
//                    tensor, or P and Q are trained. Of one tensor A under renamed dims it is
//                    enough that P and Q each have some dim that A lacks; and of A twice over the
//                    same dims, which may be a square, where P and Q are trained or another sum
//                    over d is joint, and P and Q do not meet.
//                    Where A or B meets one of the others over a summed dim besides d, d is what
//                    these products are for each of (heads, experts)
//   d is kept        A, with a dim that P and Q lack; r is summed, P and Q have no dims but what
//                    they share, and are trained, or are two and A is mixed in the same einsum
//                    (its own dim is summed, as the memory of an attention). Trained matrices in a
//                    row from d to d, over summed dims of their own, are as two. Between trained
//                    ones there may be scales g[r] and gates z[n, r], over no dims but r, those of
//                    A and those of the result
//
// A position that a scan has come to, X[t, d], is a dim of its own beside X[n, d].
// Scales and masks (vectors over d), batch dims and products of vectors have no such r.
//
// For the hint the operands with d are split into the two parts, and each of these again, until no
// part is one index where two are meant: the einsum of the hint has no joint sum over d. A scale
// goes to the part that has its other dims, and where none or several have, to the one that it is
// written beside. Of a kept dim the part of the result keeps the name. An einsum with more than
// HOLDERS_MAX operands over the dim is judged by the first of them, and its hint has no text.
#include "ast/resolve/resolve.h"

enum { HOLDERS_MAX = 16 }; // operands with one dim that are looked at: every four of them

typedef struct {
    Scope *scope;
    const Expr *einsum;
    Name dim;
    bool told; // one joint sum over the dim is found: what else is one?
} Joint;

// Operands that have one index, in order.
typedef struct {
    const Expr *at[HOLDERS_MAX];
    uint32_t count;
    bool kept; // the result has it
} Part;

typedef struct {
    const Expr *a, *p, *b, *q; // b: NULL when the dim is kept
} JointPair;

static bool has(const Expr *operand, Name dim) {
    return namelist_has(&operand->result, dim);
}

static bool is_trained(const Joint *j, const Expr *operand) {
    const Symbol *symbol =
        expr_is_tensor(operand) ? scope_find(j->scope, operand->name.name) : NULL;
    if (!symbol || symbol->kind != SYMBOL_ARGUMENT)
        return symbol && (symbol->kind == SYMBOL_TRAINED || symbol->kind == SYMBOL_GLOBAL);
    const TensorList *params = &j->scope->def->params;
    for (uint32_t i = 0; i < params->count; i++)
        if (params->at[i].name.name == operand->name.name)
            return params->at[i].is_param;
    return false;
}

// A dim of the operand that none of the three others has (each may be NULL).
static Name own_dim(const Expr *operand, const Expr *x, const Expr *y, const Expr *z) {
    for (uint32_t i = 0; i < operand->result.count; i++) {
        Name dim = operand->result.at[i];
        if (!(x && has(x, dim)) && !(y && has(y, dim)) && !(z && has(z, dim)))
            return dim;
    }
    return NULL;
}

static bool is_same_tensor(const Expr *x, const Expr *y) {
    return expr_is_tensor(x) && expr_is_tensor(y) && x->name.name == y->name.name;
}

// The same tensor over the same dims.
static bool is_repeated(const Expr *x, const Expr *y) {
    return is_same_tensor(x, y) && x->steps.count == y->steps.count &&
           dimlist_equal(&x->result, &y->result);
}

// Has it a dim that none of the others has, or is it the other one at a position of a scan?
static bool stands_apart(const Expr *operand, const Expr *other, const Expr *p, const Expr *q) {
    return own_dim(operand, other, p, q) ||
           (is_same_tensor(operand, other) && operand->steps.count && !other->steps.count);
}

typedef struct {
    bool any;
    bool summed; // one of them, and no other operand has it
    bool gated;  // the same but for gates
} Shared;

static uint32_t count_with(const Expr *einsum, Name dim) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < einsum->args.count; i++)
        count += has(einsum->args.at[i], dim);
    return count;
}

// g[r] and z[n, r] between A[d, r] and B[r, d]: a scale or a gate of what A makes of a.
static bool is_gate(const Joint *j, const Expr *operand, Name dim, const Expr *a) {
    bool gate = has(operand, dim) && !has(operand, j->dim);
    for (uint32_t i = 0; i < operand->result.count; i++) {
        Name other = operand->result.at[i];
        gate = gate && (other == dim || has(a, other) || has(j->einsum, other));
    }
    return gate;
}

// Is the dim summed over two operands, and gates of what one of them makes of a?
static bool is_summed_over_two(const Joint *j, Name dim, const Expr *a) {
    uint32_t count = count_with(j->einsum, dim);
    for (uint32_t i = 0; i < j->einsum->args.count; i++)
        count -= is_gate(j, j->einsum->args.at[i], dim, a);
    return count == 2 && !has(j->einsum, dim);
}

// The dims beside d that two matrices share and what they are applied to (b may be NULL) lacks.
static Shared shared_dims(const Joint *j, const JointPair *pair) {
    Shared shared = {0};
    for (uint32_t i = 0; i < pair->p->result.count; i++) {
        Name dim = pair->p->result.at[i];
        if (dim == j->dim || !has(pair->q, dim) || has(pair->a, dim) ||
            (pair->b && has(pair->b, dim)))
            continue;
        shared.any = true;
        shared.summed = shared.summed || (!has(j->einsum, dim) && count_with(j->einsum, dim) == 2);
        shared.gated = shared.gated || is_summed_over_two(j, dim, pair->a);
    }
    return shared;
}

// Are the two multiplied over a summed dim besides d?
static bool is_multiplied(const Joint *j, const Expr *x, const Expr *y) {
    for (uint32_t i = 0; i < x->result.count; i++) {
        Name dim = x->result.at[i];
        if (dim != j->dim && has(y, dim) && !has(j->einsum, dim))
            return true;
    }
    return false;
}

// Is what is applied to one tensor twice something else, with dims of its own?
static bool are_projections(const Joint *j, const JointPair *pair) {
    const Expr *a = pair->a, *p = pair->p, *q = pair->q;
    return !is_trained(j, a) && !is_same_tensor(a, p) && !is_same_tensor(a, q) &&
           own_dim(p, a, pair->b, NULL) && own_dim(q, a, pair->b, NULL);
}

static bool is_joint_square(const Joint *j, const JointPair *pair) {
    const Expr *a = pair->a, *p = pair->p, *q = pair->q;
    bool trained = is_trained(j, p) && is_trained(j, q);
    return (j->told || trained) && (own_dim(a, p, q, NULL) || a->steps.count) &&
           are_projections(j, pair) && !is_same_tensor(p, q) && !shared_dims(j, pair).summed;
}

static bool is_joint_sum(const Joint *j, const JointPair *pair) {
    const Expr *a = pair->a, *b = pair->b, *p = pair->p, *q = pair->q;
    if (is_multiplied(j, a, p) || is_multiplied(j, a, q) || is_multiplied(j, b, p) ||
        is_multiplied(j, b, q))
        return false;
    bool same = is_same_tensor(a, b);
    if (is_repeated(a, b))
        return is_joint_square(j, pair);
    if (!stands_apart(a, b, p, q) || !stands_apart(b, a, p, q) || is_multiplied(j, a, b))
        return false;
    Shared shared = shared_dims(j, pair);
    bool trained = is_trained(j, p) && is_trained(j, q);
    return shared.summed || (shared.any && (same || trained)) ||
           (same && are_projections(j, pair) && (trained || !is_same_tensor(p, q)));
}

// The other dim of a trained matrix that has the dim, if it is summed with one other operand alone,
// but for gates; NULL: it is none.
static Name way_on(const Joint *j, const Expr *matrix, Name dim, const Expr *a) {
    if (matrix->result.count != 2 || !is_trained(j, matrix))
        return NULL;
    Name other = matrix->result.at[matrix->result.at[0] == dim];
    return is_summed_over_two(j, other, a) ? other : NULL;
}

// The operand beside the matrix that is summed with it over the dim, and is no gate.
static const Expr *next_matrix(const Joint *j, const Expr *matrix, Name dim, const Expr *a) {
    const ExprList *operands = &j->einsum->args;
    for (uint32_t i = 0; i < operands->count; i++)
        if (operands->at[i] != matrix && has(operands->at[i], dim) &&
            !is_gate(j, operands->at[i], dim, a))
            return operands->at[i];
    return NULL;
}

// Do trained matrices lead from p to q in a row, over dims that are summed?
static bool leads_to(const Joint *j, const JointPair *pair) {
    const Expr *at = pair->p;
    Name dim = way_on(j, at, j->dim, pair->a);
    for (uint32_t steps = 0; dim && at != pair->q && steps < j->einsum->args.count; steps++) {
        at = next_matrix(j, at, dim, pair->a);
        if (at != pair->q)
            dim = way_on(j, at, dim, pair->a);
    }
    return dim && at == pair->q && way_on(j, pair->q, j->dim, pair->a);
}

static bool is_joint_result(const Joint *j, const JointPair *pair) {
    const Expr *a = pair->a, *p = pair->p, *q = pair->q;
    Name own = own_dim(a, p, q, NULL);
    if (own && !is_trained(j, a) && leads_to(j, pair))
        return true;
    bool alone = dimlist_within(&p->result, &q->result) || dimlist_within(&q->result, &p->result);
    if (!own || !alone || is_trained(j, a))
        return false;
    Shared shared = shared_dims(j, pair);
    return (shared.gated && is_trained(j, p) && is_trained(j, q)) ||
           (shared.summed && !has(j->einsum, own) && !is_repeated(p, q));
}

// ---- which operands -----------------------------------------------------------------------------

// With matrices P and Q that are repeated or not.
static bool find_sum_of(const Joint *j, const Part *part, bool repeated, JointPair *pair) {
    for (uint32_t p = 0; p < part->count; p++)
        for (uint32_t q = p + 1; q < part->count; q++)
            for (uint32_t a = 0; a < part->count; a++)
                for (uint32_t b = a + 1; b < part->count; b++) {
                    *pair = (JointPair){part->at[a], part->at[p], part->at[b], part->at[q]};
                    if (a != p && a != q && b != p && b != q &&
                        is_repeated(pair->p, pair->q) == repeated && is_joint_sum(j, pair))
                        return true;
                }
    return false;
}

// What is repeated is more often what is projected than what it is projected with.
static bool find_sum(const Joint *j, const Part *part, JointPair *pair) {
    Joint untold = *j;
    untold.told = false;
    return find_sum_of(&untold, part, false, pair) || find_sum_of(&untold, part, true, pair) ||
           (j->told && find_sum_of(j, part, false, pair));
}

static bool find_result(const Joint *j, const Part *part, JointPair *pair) {
    for (uint32_t p = 0; p < part->count; p++)
        for (uint32_t q = p + 1; q < part->count; q++)
            for (uint32_t a = 0; a < part->count; a++) {
                *pair = (JointPair){part->at[a], part->at[p], NULL, part->at[q]};
                if (a != p && a != q && is_joint_result(j, pair))
                    return true;
            }
    return false;
}

static bool find_pair(const Joint *j, const Part *part, JointPair *pair) {
    return part->kept ? find_result(j, part, pair) : find_sum(j, part, pair);
}

// ---- parts --------------------------------------------------------------------------------------

enum { PARTS_MAX = HOLDERS_MAX / 2 + 1, SPLIT_MAX = 3, NO_PART = SPLIT_MAX };

typedef struct {
    Part at[PARTS_MAX];
    uint32_t count;
} Parts;

// A part that is split into up to three: the two products, and what makes the result of a kept dim.
typedef struct {
    const Joint *joint;
    const Part *whole;
    JointPair pair;
    uint32_t kept;            // the part that has the result's dims, NO_PART of a sum
    uint32_t to[HOLDERS_MAX]; // which part each operand goes to
} Split;

static bool has_beside(const Joint *j, const Expr *x, const Expr *y, const Expr *operand) {
    for (uint32_t i = 0; i < operand->result.count; i++) {
        Name dim = operand->result.at[i];
        if (dim != j->dim && !(x && has(x, dim)) && !(y && has(y, dim)))
            return false;
    }
    return true;
}

static bool is_over(const Split *s, uint32_t part, const Expr *operand) {
    const JointPair *pair = &s->pair;
    if (part == 0)
        return has_beside(s->joint, pair->a, pair->p, operand);
    if (part == 1 && pair->b)
        return has_beside(s->joint, pair->b, pair->q, operand);
    return has_beside(s->joint, s->joint->einsum, NULL, operand);
}

static bool is_scale(const Split *s, const Expr *operand) {
    const JointPair *pair = &s->pair;
    if (is_same_tensor(operand, pair->a) || (pair->b && is_same_tensor(operand, pair->b)))
        return false;
    return is_over(s, 0, operand) || (pair->b && is_over(s, 1, operand));
}

// The only part with the operand's dims; NO_PART where none or several have them.
static uint32_t part_over(const Split *s, uint32_t n, const Expr *operand) {
    uint32_t found = NO_PART, count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_over(s, i, operand)) {
            found = i;
            count++;
        }
    return count == 1 ? found : NO_PART;
}

static uint32_t seed_part(const Split *s, const Expr *operand) {
    const JointPair *pair = &s->pair;
    if (operand == pair->a || operand == pair->p)
        return 0;
    return operand == pair->b || operand == pair->q ? 1 : NO_PART;
}

// Operands without a part go to that of the one before them, the first ones to that behind.
static void join_beside(Split *s) {
    for (uint32_t i = 1; i < s->whole->count; i++)
        if (s->to[i] == NO_PART)
            s->to[i] = s->to[i - 1];
    for (uint32_t i = s->whole->count - 1; i > 0; i--)
        if (s->to[i - 1] == NO_PART)
            s->to[i - 1] = s->to[i];
}

// The number of parts.
static uint32_t divide(Split *s) {
    bool rest = false; // something else makes the result
    for (uint32_t i = 0; s->whole->kept && s->pair.b && i < s->whole->count; i++)
        rest = rest || (seed_part(s, s->whole->at[i]) == NO_PART && !is_scale(s, s->whole->at[i]));
    uint32_t n = rest ? 3 : 2;
    s->kept = s->whole->kept ? n - 1 : NO_PART;
    for (uint32_t i = 0; i < s->whole->count; i++) {
        const Expr *operand = s->whole->at[i];
        s->to[i] = seed_part(s, operand);
        if (s->to[i] == NO_PART && !is_scale(s, operand))
            s->to[i] = s->kept;
        else if (s->to[i] == NO_PART)
            s->to[i] = part_over(s, n, operand);
    }
    join_beside(s);
    return n;
}

static void split(const Joint *j, const Part *whole, Parts *out) {
    Split s = {.joint = j, .whole = whole};
    JointPair sum;
    if (!find_pair(j, whole, &s.pair)) {
        out->at[out->count++] = *whole;
        return;
    }
    if (whole->kept && find_sum(j, whole, &sum))
        s.pair = sum;
    uint32_t n = divide(&s);
    for (uint32_t k = 0; k < n; k++) {
        Part part = {.kept = k == s.kept};
        for (uint32_t i = 0; i < whole->count; i++)
            if (s.to[i] == k)
                part.at[part.count++] = whole->at[i];
        split(j, &part, out);
    }
}

// ---- the message --------------------------------------------------------------------------------

static bool is_in(const Part *part, const Expr *operand) {
    for (uint32_t i = 0; i < part->count; i++)
        if (part->at[i] == operand)
            return true;
    return false;
}

// The next name for an index: with the first number of primes that the einsum does not have.
static Name next_name(const Joint *j, Name name) {
    for (bool taken = true; taken;) {
        name = name_primed(j->scope->resolver->session->names, name, 1);
        taken = count_with(j->einsum, name) > 0;
    }
    return name;
}

// Names of the parts' indices: the kept one has the old name, or else the first.
static void name_parts(const Joint *j, const Parts *parts, Name *names) {
    bool kept = has(j->einsum, j->dim);
    Name last = j->dim;
    for (uint32_t i = 0; i < parts->count; i++)
        if (parts->at[i].kept || (!kept && i == 0))
            names[i] = j->dim;
        else
            names[i] = last = next_name(j, last);
}

// An operand, read over another index in the place of the dim. NULL: it is none that is read.
static const char *operand_text(const Joint *j, const Expr *operand, Name index) {
    Resolver *r = j->scope->resolver;
    if (!expr_is_tensor(operand))
        return index == j->dim ? span_text(r->session->sources, operand->span, r->arena) : NULL;
    return arena_printf(r->arena, "%s%s", operand->name.name,
                        expr_dims_over(r->arena, operand, j->dim, index));
}

// The einsum with an index for each part; NULL where an operand can not be written over it.
static const char *apart_text(const Joint *j, const Parts *parts, const Name *names) {
    Text text = {.arena = j->scope->resolver->arena};
    for (uint32_t i = 0; i < j->einsum->args.count; i++) {
        const Expr *operand = j->einsum->args.at[i];
        Name index = j->dim;
        for (uint32_t k = 0; k < parts->count; k++)
            index = is_in(&parts->at[k], operand) ? names[k] : index;
        const char *read = operand_text(j, operand, index);
        if (!read)
            return NULL;
        text_printf(&text, "%s%s", i ? ", " : "", read);
    }
    if (j->einsum->has_arrow)
        text_printf(&text, " -> %s", dimlist_text(text.arena, &j->einsum->result));
    return text.at;
}

static void hint_apart(const Joint *j, Diag *diag, const Part *whole) {
    Arena *arena = j->scope->resolver->arena;
    if (count_with(j->einsum, j->dim) > whole->count) {
        diag_hint(diag, "where several sums are meant, each is over a dim of its own");
        return;
    }
    Parts parts = {0};
    Name names[PARTS_MAX];
    split(j, whole, &parts);
    name_parts(j, &parts, names);
    const char *count = parts.count == 2 ? "two" : arena_printf(arena, "%u", parts.count);
    const char *text = apart_text(j, &parts, names);
    if (text) {
        diag_hint(diag, "where %s sums are meant, write 'einsum(%s)'", count, text);
        return;
    }
    NameList others = {0};
    for (uint32_t i = 0; i < parts.count; i++)
        if (names[i] != j->dim)
            vec_push(arena, &others, names[i]);
    if (others.count == 1)
        diag_hint(diag, "where two sums are meant, the second is over a dim of its own: '%s'",
                  others.at[0]);
    else
        diag_hint(diag, "where %s sums are meant, the others are over dims of their own: %s", count,
                  quoted_text(arena, &others));
}

static void warn_joint(const Joint *j, const Part *whole, const JointPair *pair) {
    Resolver *r = j->scope->resolver;
    const Expr *last = pair->b ? pair->b : pair->q;
    Diag *diag = diag_warning(r->diags, "joint-sum", expr_dim_place(last, j->dim),
                              "'%s' is one index of %u operands: they are multiplied position by "
                              "position",
                              j->dim, count_with(j->einsum, j->dim));
    const Expr *others[] = {pair->a, pair->p, pair->b ? pair->q : NULL};
    for (int i = 0; i < 3; i++)
        if (others[i])
            diag_note(diag, expr_dim_place(others[i], j->dim), "it is the same index here");
    hint_apart(j, diag, whole);
}

// ---- all dims -----------------------------------------------------------------------------------

static void check_dim(Joint *j) {
    JointPair pair;
    Part whole = {.kept = has(j->einsum, j->dim)};
    for (uint32_t i = 0; i < j->einsum->args.count && whole.count < HOLDERS_MAX; i++)
        if (has(j->einsum->args.at[i], j->dim))
            whole.at[whole.count++] = j->einsum->args.at[i];
    if (!find_pair(j, &whole, &pair))
        return;
    j->told = true;
    warn_joint(j, &whole, &pair);
}

// Requires: dims of the einsum's result are known.
void resolve_warn_joint(Scope *scope, const Expr *einsum) {
    NameList dims = {0};
    if (scope_in_prelude(scope) || einsum->args.count < 3)
        return;
    for (uint32_t i = 0; i < einsum->args.count; i++)
        for (uint32_t k = 0; k < einsum->args.at[i]->result.count; k++)
            dimlist_add(scope->resolver->arena, &dims, einsum->args.at[i]->result.at[k]);
    for (uint32_t i = 0; i < dims.count; i++) {
        Joint joint = {.scope = scope, .einsum = einsum, .dim = dims.at[i]};
        check_dim(&joint);
    }
}
