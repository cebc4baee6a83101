// SPDX-License-Identifier: Apache-2.0
// Warning joint-sum: one index where nearly everyone means two.
//
//     einsum(X[n, d], P_q[d, k, h], X[m, d], P_k[d, k, h] -> [n, m, h])
//        d is one index: the sum over k of P_q * P_k is a weight of each d. Two projections are
//        einsum(X[n, d], P_q[d, k, h], X[m, d'], P_k[d', k, h] -> [n, m, h])
//     einsum(X[n, d], A[d, r], B[r, d] -> [n, d])
//        the same with a dim of the result: X is scaled, not mapped there and back
//
// What is looked for, in the operands that have the dim d:
//
//   matrices P, Q    both have a dim r beside d that the operands below lack, so that their product
//                    makes sense only when each is applied to something of its own
//   d is summed      A and B, each with a dim that none of the other three has: two products
//                    A P and B Q are meant. Tensors of data are multiplied like this on purpose
//                    (linear attention without a softmax), so r is summed, A and B are one tensor,
//                    or P and Q are trained. Where A or B meets one of the others over a summed dim
//                    besides d, d is what these products are for each of (heads, experts)
//   d is kept        A, with a dim that P and Q lack; r is summed, P and Q have no dims but what
//                    they share, and are trained, or A is mixed in the same einsum (its own dim
//                    is summed, as the memory of an attention). Trained matrices in a row from d
//                    to d, over summed dims of their own, are as two
//
// A position that a scan has come to, X[t, d], is a dim of its own beside X[n, d].
//
// Scales and masks (vectors over d), batch dims and products of vectors have no such r.
#include "ast/resolve/resolve.h"

enum { HOLDERS_MAX = 16 }; // operands with one dim that are looked at

typedef struct {
    Scope *scope;
    const Expr *einsum;
    Name dim;
    const Expr *holders[HOLDERS_MAX]; // operands that have the dim
    uint32_t count;
} Joint;

typedef struct {
    const Expr *a, *p, *b, *q; // b: NULL when the dim is kept
} JointParts;

static bool has(const Expr *operand, Name dim) {
    return dimlist_has(&operand->result, dim);
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

// Has it a dim that none of the others has, or is it the other one at a position of a scan?
static bool stands_apart(const Expr *operand, const Expr *other, const Expr *p, const Expr *q) {
    bool same =
        expr_is_tensor(operand) && expr_is_tensor(other) && operand->name.name == other->name.name;
    return own_dim(operand, other, p, q) || (same && operand->steps.count && !other->steps.count);
}

typedef struct {
    bool any;
    bool summed; // one of them, and no other operand has it
} Shared;

static uint32_t count_with(const Expr *einsum, Name dim) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < einsum->args.count; i++)
        count += has(einsum->args.at[i], dim);
    return count;
}

// The dims beside d that two matrices share and what they are applied to (b may be NULL) lacks.
static Shared shared_dims(const Joint *j, const JointParts *parts) {
    Shared shared = {0};
    for (uint32_t i = 0; i < parts->p->result.count; i++) {
        Name dim = parts->p->result.at[i];
        if (dim == j->dim || !has(parts->q, dim) || has(parts->a, dim) ||
            (parts->b && has(parts->b, dim)))
            continue;
        shared.any = true;
        shared.summed = shared.summed || (!has(j->einsum, dim) && count_with(j->einsum, dim) == 2);
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

static bool is_joint_sum(const Joint *j, const JointParts *parts) {
    const Expr *a = parts->a, *b = parts->b, *p = parts->p, *q = parts->q;
    if (!stands_apart(a, b, p, q) || !stands_apart(b, a, p, q))
        return false;
    if (is_multiplied(j, a, b) || is_multiplied(j, a, p) || is_multiplied(j, a, q) ||
        is_multiplied(j, b, p) || is_multiplied(j, b, q))
        return false;
    Shared shared = shared_dims(j, parts);
    bool same = expr_is_tensor(a) && expr_is_tensor(b) && a->name.name == b->name.name;
    return shared.summed || (shared.any && (same || (is_trained(j, p) && is_trained(j, q))));
}

// The other dim of a trained matrix that has the dim, if it is summed with one other operand alone;
// NULL: it is none.
static Name way_on(const Joint *j, const Expr *matrix, Name dim) {
    if (matrix->result.count != 2 || !is_trained(j, matrix))
        return NULL;
    Name other = matrix->result.at[matrix->result.at[0] == dim];
    return !has(j->einsum, other) && count_with(j->einsum, other) == 2 ? other : NULL;
}

// Do trained matrices lead from p to q in a row, over dims that are summed?
static bool leads_to(const Joint *j, const Expr *p, const Expr *q) {
    const ExprList *operands = &j->einsum->args;
    const Expr *at = p;
    Name dim = way_on(j, p, j->dim);
    for (uint32_t steps = 0; dim && at != q && steps < operands->count; steps++) {
        const Expr *next = NULL;
        for (uint32_t i = 0; i < operands->count; i++)
            if (operands->at[i] != at && has(operands->at[i], dim))
                next = operands->at[i];
        at = next;
        if (at != q)
            dim = way_on(j, at, dim);
    }
    return dim && at == q && way_on(j, q, j->dim);
}

static bool is_joint_result(const Joint *j, const JointParts *parts) {
    const Expr *a = parts->a, *p = parts->p, *q = parts->q;
    Name own = own_dim(a, p, q, NULL);
    if (own && !is_trained(j, a) && leads_to(j, p, q))
        return true;
    bool alone = dimlist_within(&p->result, &q->result) || dimlist_within(&q->result, &p->result);
    if (!own || !alone || !shared_dims(j, parts).summed || is_trained(j, a))
        return false;
    return (is_trained(j, p) && is_trained(j, q)) || !has(j->einsum, own);
}

// ---- which operands -----------------------------------------------------------------------------

static bool find_sum(const Joint *j, JointParts *parts) {
    for (uint32_t p = 0; p < j->count; p++)
        for (uint32_t q = p + 1; q < j->count; q++)
            for (uint32_t a = 0; a < j->count; a++)
                for (uint32_t b = a + 1; b < j->count; b++) {
                    *parts =
                        (JointParts){j->holders[a], j->holders[p], j->holders[b], j->holders[q]};
                    if (a != p && a != q && b != p && b != q && is_joint_sum(j, parts))
                        return true;
                }
    return false;
}

static bool find_result(const Joint *j, JointParts *parts) {
    for (uint32_t p = 0; p < j->count; p++)
        for (uint32_t q = p + 1; q < j->count; q++)
            for (uint32_t a = 0; a < j->count; a++) {
                *parts = (JointParts){j->holders[a], j->holders[p], NULL, j->holders[q]};
                if (a != p && a != q && is_joint_result(j, parts))
                    return true;
            }
    return false;
}

// ---- the message --------------------------------------------------------------------------------

// The name for the second index: with the first number of primes that the einsum does not have.
static Name second_name(const Joint *j) {
    Name name = j->dim;
    for (bool taken = true; taken;) {
        taken = false;
        name = name_primed(j->scope->resolver->session->names, name, 1);
        for (uint32_t i = 0; i < j->einsum->args.count; i++)
            taken = taken || has(j->einsum->args.at[i], name);
    }
    return name;
}

// An operand, read over the second index if it is one of two.
static const char *operand_text(const Joint *j, const Expr *operand, const Expr *x, const Expr *y,
                                Name second) {
    Arena *arena = j->scope->resolver->arena;
    if (!expr_is_tensor(operand))
        return "...";
    NameList dims = operand->steps.count ? dimlist_of(arena, &operand->dims) : operand->result;
    if (operand == x || operand == y)
        dims = dimlist_replaced(arena, &dims, j->dim, second);
    return arena_printf(arena, "%s%s", operand->name.name, dimlist_text(arena, &dims));
}

// Two operands get the second index: those that are summed over it in the one case, the second
// product in the other.
static void hint_two(const Joint *j, Diag *diag, const JointParts *parts) {
    Arena *arena = j->scope->resolver->arena;
    const Expr *x = parts->b ? parts->b : parts->a, *y = parts->b ? parts->q : parts->p;
    Name second = second_name(j);
    if (!expr_is_tensor(x) || !expr_is_tensor(y)) {
        diag_hint(diag, "where two sums are meant, the second is over a dim of its own: '%s'",
                  second);
        return;
    }
    Text text = {.arena = arena};
    for (uint32_t i = 0; i < j->einsum->args.count; i++)
        text_printf(&text, "%s%s", i ? ", " : "",
                    operand_text(j, j->einsum->args.at[i], x, y, second));
    if (j->einsum->has_arrow)
        text_printf(&text, " -> %s", dimlist_text(arena, &j->einsum->result));
    diag_hint(diag, "where two sums are meant, write 'einsum(%s)'", text.at);
}

static void warn_joint(const Joint *j, const JointParts *parts) {
    Resolver *r = j->scope->resolver;
    const Expr *last = parts->b ? parts->b : parts->q;
    Diag *diag = diag_warning(r->diags, "joint-sum", expr_dim_place(last, j->dim),
                              "'%s' is one index of %u operands: they are multiplied position by "
                              "position",
                              j->dim, j->count);
    const Expr *others[] = {parts->a, parts->p, parts->b ? parts->q : NULL};
    for (int i = 0; i < 3; i++)
        if (others[i])
            diag_note(diag, expr_dim_place(others[i], j->dim), "it is the same index here");
    hint_two(j, diag, parts);
}

// ---- all dims -----------------------------------------------------------------------------------

static void check_dim(Joint *j) {
    JointParts parts;
    j->count = 0;
    for (uint32_t i = 0; i < j->einsum->args.count && j->count < HOLDERS_MAX; i++)
        if (has(j->einsum->args.at[i], j->dim))
            j->holders[j->count++] = j->einsum->args.at[i];
    bool kept = has(j->einsum, j->dim);
    if (kept ? find_result(j, &parts) : find_sum(j, &parts))
        warn_joint(j, &parts);
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
