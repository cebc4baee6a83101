// SPDX-License-Identifier: Apache-2.0
// -Wrank, the low-rank bottleneck: with d_k < m the logits of one head have rank at most d_k, so
// that not every attention matrix can be expressed ("Low-Rank Bottleneck in Multi-head Attention
// Models", Bhojanapalli et al. 2020).
//
// The logits are an einsum over m and over row positions. Every split of its operands into a side
// with m and a side with the rows bounds the rank by the product of the summed dims that cross it.
#include "ast/resolve/resolve.h"

enum { OPERANDS_MAX = 12 };

typedef struct {
    Scope *scope;
    const Expr *einsum;
    Name memory; // the softmax's dim
    NameList rows;
    double best;       // smallest bound
    NameList crossing; // the dims that give it
} RankBound;

// The einsum behind the argument of a softmax: through names, and products with scalars.
static const Expr *logits_einsum(Scope *scope, const Expr *expr) {
    for (uint32_t steps = 0; steps < 16; steps++) {
        if (expr->kind == EXPR_CALL)
            return expr->builtin == BUILTIN_EINSUM && expr->callee == NULL ? expr : NULL;
        if (expr_is_tensor(expr)) {
            const Symbol *symbol = scope_find(scope, expr->name.name);
            if (!symbol || symbol->kind != SYMBOL_LOCAL || !symbol->value || expr->binding.count)
                return NULL;
            expr = symbol->value;
        } else if (expr->kind == EXPR_BINARY &&
                   (expr->oper == OPER_MUL || expr->oper == OPER_DIV)) {
            bool left = expr->args.at[1]->result.count == 0;
            expr = expr->args.at[left ? 0 : 1];
        } else {
            return NULL;
        }
    }
    return NULL;
}

// Result dims other than m that one operand has, and not the one with m: the rows. Dims of several
// operands are fixed, as heads are. false: m shares an operand with a row, so nothing splits them.
static bool find_rows(RankBound *bound) {
    const Expr *einsum = bound->einsum;
    for (uint32_t i = 0; i < einsum->result.count; i++) {
        Name dim = einsum->result.at[i];
        bool shared = dim == bound->memory;
        for (uint32_t k = 0; k < einsum->args.count; k++)
            shared = shared || (namelist_has(&einsum->args.at[k]->result, dim) &&
                                namelist_has(&einsum->args.at[k]->result, bound->memory));
        uint32_t holders = 0;
        for (uint32_t k = 0; k < einsum->args.count; k++)
            holders += namelist_has(&einsum->args.at[k]->result, dim);
        if (shared && holders == 1 && dim != bound->memory)
            return false;
        if (!shared && holders == 1)
            vec_push(bound->scope->resolver->arena, &bound->rows, dim);
    }
    return bound->rows.count > 0;
}

// Rank bound of the split whose m-side is the operands in `side`; unknown extents bound nothing.
static void try_split(RankBound *bound, uint32_t side) {
    Resolver *r = bound->scope->resolver;
    const Expr *einsum = bound->einsum;
    NameList crossing = {0};
    double rank = 1;
    for (uint32_t i = 0; i < einsum->args.count; i++) {
        const Expr *operand = einsum->args.at[i];
        bool in_side = side >> i & 1;
        if ((namelist_has(&operand->result, bound->memory) && !in_side) ||
            (dimlist_meets(&bound->rows, &operand->result) && in_side))
            return;
        for (uint32_t k = 0; in_side && k < operand->result.count; k++) {
            Name dim = operand->result.at[k];
            bool crosses = false;
            for (uint32_t j = 0; j < einsum->args.count; j++)
                crosses =
                    crosses || (!(side >> j & 1) && namelist_has(&einsum->args.at[j]->result, dim));
            if (!crosses || namelist_has(&einsum->result, dim) || namelist_has(&crossing, dim))
                continue;
            int64_t extent = program_extent(r->session, r->program, dim);
            if (extent < 1)
                return;
            rank *= (double)extent;
            vec_push(r->arena, &crossing, dim);
        }
    }
    if (crossing.count && (!bound->crossing.count || rank < bound->best)) {
        bound->best = rank;
        bound->crossing = crossing;
    }
}

void resolve_warn_rank(Scope *scope, const Expr *softmax) {
    Resolver *r = scope->resolver;
    int64_t positions = program_extent(r->session, r->program, softmax->reduced.at[0]);
    const Expr *einsum = logits_einsum(scope, softmax->args.at[0]);
    if (positions < 1 || !einsum || !einsum->ok || einsum->args.count > OPERANDS_MAX ||
        scope_in_prelude(scope))
        return;
    RankBound bound = {.scope = scope, .einsum = einsum, .memory = softmax->reduced.at[0]};
    if (!find_rows(&bound))
        return;
    for (uint32_t side = 1; side < 1u << einsum->args.count; side++)
        try_split(&bound, side);
    if (!bound.crossing.count || bound.best >= (double)positions)
        return;
    Diag *diag =
        diag_warning(r->diags, "rank", softmax->span,
                     "the logits of one head have rank at most %g, for %lld positions '%s'",
                     bound.best, (long long)positions, bound.memory);
    diag_note(diag, einsum->span, "the bound is the extent of %s here",
              quoted_text(r->arena, &bound.crossing));
    diag_hint(diag, "heads of at least %lld can express every attention pattern",
              (long long)positions);
}
