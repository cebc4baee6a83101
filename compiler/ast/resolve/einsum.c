// SPDX-License-Identifier: Apache-2.0
// einsum: every dim of the result is in an operand; dims of operands that the result lacks are
// summed.
//
//     Y[n, d] = einsum(W[n, m, h], M[m, d_M], P_v[d_M, d_v, h], P_o[d_Y, d_v, h])
//        error at d: no operand has it; d_Y of P_o is summed over in P_o alone: did you mean d_Y?
//     L[n, m, h] = einsum(J[n, m, h], P_l[h_k, h])
//        warning lost-head: P_l mixes nothing, J was to be over h_k (warn/joint.c has another)
#include "ast/resolve/resolve.h"

#include <string.h>

// A dim that is summed over in one operand only.
typedef struct {
    Name dim;
    const Expr *operand;
} Single;
typedef VEC(Single) SingleList;

static uint32_t count_operands_with(const Expr *einsum, Name dim) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < einsum->args.count; i++)
        n += namelist_has(&einsum->args.at[i]->result, dim);
    return n;
}

static SingleList find_singles(Arena *arena, const Expr *einsum, const NameList *result) {
    SingleList singles = {0};
    for (uint32_t i = 0; i < einsum->args.count; i++) {
        const Expr *operand = einsum->args.at[i];
        for (uint32_t k = 0; k < operand->result.count; k++) {
            Name dim = operand->result.at[k];
            if (!namelist_has(result, dim) && count_operands_with(einsum, dim) == 1)
                vec_push(arena, &singles, (Single){dim, operand});
        }
    }
    return singles;
}

static const char *operand_text(Scope *scope, const Expr *operand) {
    bool named = operand->kind == EXPR_NAME || operand->kind == EXPR_REF;
    return named ? arena_printf(scope->resolver->arena, "'%s'", operand->name.name)
                 : "this operand";
}

// ---- a result dim that no operand has -----------------------------------------------------------

static const Single *guess_meant(Name missing, const SingleList *singles) {
    if (singles->count == 1)
        return &singles->at[0];
    Near near = near_to(missing);
    const Single *meant = NULL;
    for (uint32_t i = 0; i < singles->count; i++) {
        near_offer(&near, singles->at[i].dim);
        if (near.best == singles->at[i].dim && (!meant || meant->dim != near.best))
            meant = &singles->at[i];
    }
    return meant;
}

// Where to point: at the dim in the brackets that state the result.
static Span wanted_place(const Wanted *wanted, Name dim) {
    const Ident *ident = idents_find(wanted->brackets, dim);
    return ident ? ident->span : wanted->span;
}

static void report_missing(Scope *scope, const Expr *einsum, const Wanted *wanted, Name missing,
                           const SingleList *singles) {
    Resolver *r = scope->resolver;
    Diag *diag = diag_error(r->diags, wanted_place(wanted, missing),
                            "no operand of the einsum has '%s'", missing);
    const Single *meant = guess_meant(missing, singles);
    for (uint32_t i = 0; i < singles->count; i++)
        if (meant ? meant == &singles->at[i] : i < 3)
            diag_note(diag, expr_dim_place(singles->at[i].operand, singles->at[i].dim),
                      "'%s' is in %s alone and would be summed over", singles->at[i].dim,
                      operand_text(scope, singles->at[i].operand));
    if (wanted->in_sum) {
        diag_note(diag, einsum->span, "this einsum is one term of the value");
        diag_hint(diag, "a term with fewer dims writes them inside it: 'einsum(... -> [...])'");
    } else if (meant) {
        diag_hint(diag, "the result lacks '%s', which %s has: did you mean '%s' in place of '%s'?",
                  meant->dim, operand_text(scope, meant->operand), meant->dim, missing);
    } else {
        diag_hint(diag, "leave out '%s', or give it to an operand", missing);
    }
}

static bool check_result_dims(Scope *scope, const Expr *einsum, const Wanted *wanted) {
    bool fine = true;
    SingleList singles = find_singles(scope->resolver->arena, einsum, &wanted->dims);
    for (uint32_t i = 0; i < wanted->dims.count; i++) {
        if (count_operands_with(einsum, wanted->dims.at[i]))
            continue;
        report_missing(scope, einsum, wanted, wanted->dims.at[i], &singles);
        scope->doubt = scope->doubt || !einsum->has_arrow;
        fine = false;
    }
    return fine;
}

// ---- a dim summed over in one operand only ------------------------------------------------------

// Dims of one kind have one stem: h, h_k and h_v.
static bool same_stem(Name a, Name b) {
    size_t stem = strcspn(a, "_");
    return stem == strcspn(b, "_") && strncmp(a, b, stem) == 0;
}

// The dim that a matrix was to map the lost one to or from: kept, of the same stem, and in an
// operand that the matrix should have mixed. NULL when the operand is no such matrix.
static Name mixed_dim(const Expr *einsum, const Single *single, const Expr **other) {
    const NameList *dims = &single->operand->result;
    for (uint32_t k = 0; k < dims->count; k++) {
        Name dim = dims->at[k];
        if (dim == single->dim || !namelist_has(&einsum->result, dim) ||
            !same_stem(dim, single->dim))
            continue;
        for (uint32_t i = 0; i < einsum->args.count; i++) {
            *other = einsum->args.at[i];
            if (*other != single->operand && namelist_has(&(*other)->result, dim))
                return dim;
        }
    }
    return NULL;
}

// The one dim of the operand that is alike; NULL: there is none, or more than one.
static Name only_alike(const Program *program, const Expr *operand, Name dim) {
    Name found = NULL;
    for (uint32_t i = 0; i < operand->result.count; i++) {
        Name other = operand->result.at[i];
        if (!program_dims_alike(program, other, dim))
            continue;
        if (found)
            return NULL;
        found = other;
    }
    return found;
}

// Has the result all of its dims without this operand's?
static bool is_spared(const Expr *einsum, const Expr *operand, Name dim) {
    return !namelist_has(&einsum->result, dim) ||
           count_operands_with(einsum, dim) > namelist_has(&operand->result, dim);
}

// einsum(W[n, n'], X[n, d] -> [n, d]): `'X[n', d]'`, the tensors that can be read over the dim that
// W alone has. NULL: there are none.
static const char *read_over(Scope *scope, const Expr *einsum, const Single *single) {
    Resolver *r = scope->resolver;
    Text text = {.arena = r->arena};
    for (uint32_t i = 0; i < einsum->args.count; i++) {
        const Expr *operand = einsum->args.at[i];
        Name alike = only_alike(r->program, operand, single->dim);
        if (operand == single->operand || !alike || !expr_is_tensor(operand) ||
            operand->steps.count || !is_spared(einsum, operand, alike))
            continue;
        NameList over = dimlist_replaced(r->arena, &operand->result, alike, single->dim);
        text_printf(&text, "%s'%s%s'", text.at ? " or " : "", operand->name.name,
                    dimlist_text(r->arena, &over));
    }
    return text.at;
}

static void warn_single(Scope *scope, const Expr *einsum, const Single *single) {
    Resolver *r = scope->resolver;
    Span place = expr_dim_place(single->operand, single->dim);
    const Expr *other = NULL;
    Name kept = mixed_dim(einsum, single, &other);
    if (kept) {
        Diag *diag =
            diag_warning(r->diags, "lost-head", place,
                         "%s does not mix '%s' into '%s': '%s' is summed over in it alone",
                         operand_text(scope, single->operand), single->dim, kept, single->dim);
        diag_note(diag, expr_dim_place(other, kept), "%s is over '%s' here",
                  operand_text(scope, other), kept);
        diag_hint(diag,
                  "heads before and after the mixing need two names: '%s' in %s or in the "
                  "result was meant to be '%s'",
                  kept, operand_text(scope, other), single->dim);
        return;
    }
    Diag *diag =
        diag_warning(r->diags, "summed-dim", place, "'%s' is in %s alone and is summed over",
                     single->dim, operand_text(scope, single->operand));
    const char *readings = read_over(scope, einsum, single);
    if (readings)
        diag_hint(diag,
                  "read %s to sum both over '%s'; if the sum of %s alone is meant, 'sum(..., "
                  "reduced_dim=%s)' says so",
                  readings, single->dim, operand_text(scope, single->operand), single->dim);
    else
        diag_hint(diag,
                  "if that is meant, 'sum(..., reduced_dim=%s)' says so; otherwise add '%s' to the "
                  "result or to another operand",
                  single->dim, single->dim);
}

// Of one operand it is a plain sum.
static void warn_singles(Scope *scope, const Expr *einsum) {
    if (scope_in_prelude(scope) || einsum->args.count == 1)
        return;
    SingleList singles = find_singles(scope->resolver->arena, einsum, &einsum->result);
    for (uint32_t i = 0; i < singles.count; i++)
        warn_single(scope, einsum, &singles.at[i]);
}

// ---- the whole ----------------------------------------------------------------------------------

// What is wanted around it, or the dims that stand in one operand only, after those of the
// assignment: Y[n, m, h] = causal(einsum(Q[n, h, k], K[m, h, k])) keeps its heads.
static NameList likely_result(Scope *scope, const Expr *einsum, const Wanted *wanted) {
    NameList none = {0}, likely = {0};
    bool known = wanted && wanted->dims.count;
    const NameList *around = known ? &wanted->dims : scope->stated ? scope->stated : &none;
    for (uint32_t i = 0; i < around->count; i++)
        if (count_operands_with(einsum, around->at[i]))
            dimlist_add(scope->resolver->arena, &likely, around->at[i]);
    if (known && likely.count)
        return likely;
    SingleList singles = find_singles(scope->resolver->arena, einsum, &none);
    for (uint32_t i = 0; i < singles.count; i++)
        dimlist_add(scope->resolver->arena, &likely, singles.at[i].dim);
    return likely;
}

// What to write behind `->`. One dim that several operands have is what the product is over; of
// more than one nothing says which are heads or batches:
//
//     einsum(Q[n, h, k], K[m, h, k])     [n, m] with h, with k or with neither
static const char *readings_text(Scope *scope, const Expr *einsum, const Wanted *wanted) {
    Arena *arena = scope->resolver->arena;
    NameList likely = likely_result(scope, einsum, wanted), open = {0};
    for (uint32_t i = 0; i < einsum->args.count; i++) {
        NameList left = dimlist_minus(arena, &einsum->args.at[i]->result, &likely);
        for (uint32_t k = 0; k < left.count; k++)
            if (count_operands_with(einsum, left.at[k]) > 1)
                dimlist_add(arena, &open, left.at[k]);
    }
    const char *dims = dimlist_text(arena, &likely), *all = quoted_text(arena, &open);
    int inner = (int)strlen(dims) - 2; // without the brackets
    const char *comma = inner ? ", " : "";
    if (open.count < 2)
        return arena_printf(arena, "'-> %s'", dims);
    if (open.count > 2)
        return arena_printf(arena, "'-> [%.*s%s...]' with those of %s that are not summed over",
                            inner, dims + 1, comma, all);
    Name a = open.at[0], b = open.at[1];
    return arena_printf(arena,
                        "'-> [%.*s%s%s]' sums over '%s' alone, '-> [%.*s%s%s]' over '%s' alone, "
                        "'-> %s' over %s",
                        inner, dims + 1, comma, a, b, inner, dims + 1, comma, b, a, dims, all);
}

static bool is_in_operands(const Expr *einsum, Name dim) {
    for (uint32_t i = 0; i + 1 < einsum->args.count; i++)
        if (namelist_has(&einsum->args.at[i]->result, dim))
            return true;
    return false;
}

// Does what stands behind an array, the last operand, name its dims? An array of arrays has as many
// as it is deep, each as long as its rows; those that no other operand has may not be declared yet.
static bool is_arrow_of(const Resolver *r, const Expr *einsum, const Expr *array) {
    const Expr *row = array;
    for (uint32_t i = 0; i < array->dims.count; i++) {
        Name dim = array->dims.at[i].name;
        int64_t extent = program_extent(r->session, r->program, dim);
        if (!row || row->kind != EXPR_ARRAY ||
            (extent != row->args.count && is_in_operands(einsum, dim)))
            return false;
        row = row->args.count ? row->args.at[0] : NULL;
    }
    return array->dims.count && (!row || row->kind != EXPR_ARRAY);
}

// The dim of another operand that a row of numbers fits.
static Name dim_of_row(const Resolver *r, const Expr *einsum, const Expr *row) {
    if (!row->args.count || row->args.at[0]->kind == EXPR_ARRAY)
        return NULL;
    for (uint32_t i = 0; i + 1 < einsum->args.count; i++) {
        const NameList *dims = &einsum->args.at[i]->result;
        for (uint32_t k = 0; k < dims->count; k++)
            if (program_extent(r->session, r->program, dims->at[k]) == row->args.count &&
                !idents_find(&row->dims, dims->at[k]))
                return dims->at[k];
    }
    return NULL;
}

// einsum(X[n, taps], [0.25, 0.5, 0.25] -> [n]): the arrow is the array's. Is it meant to be that of
// the einsum? Then the array does not fit it. Requires: the operands before it are resolved.
static bool takes_arrow(Scope *scope, const Expr *einsum) {
    Resolver *r = scope->resolver;
    const Expr *array = einsum->args.at[einsum->args.count - 1];
    if (einsum->has_arrow || array->kind != EXPR_ARRAY || !array->has_arrow ||
        is_arrow_of(r, einsum, array))
        return false;
    Name own = dim_of_row(r, einsum, array);
    NameList dims = dimlist_of(r->arena, &array->dims);
    Diag *diag =
        diag_error(r->diags, array->span, "the '->' is that of the array, not of 'einsum'");
    if (own)
        diag_hint(diag, "write both: '[...] -> [%s] -> %s'", own, dimlist_text(r->arena, &dims));
    else
        diag_hint(diag, "write both: '[...] -> [dims of the array] -> %s'",
                  dimlist_text(r->arena, &dims));
    return true;
}

void resolve_einsum(Scope *scope, Expr *call, const Wanted *wanted) {
    Wanted arrow;
    for (uint32_t i = 0; i < call->args.count; i++) {
        Expr *operand = call->args.at[i];
        if (i + 1 == call->args.count && takes_arrow(scope, call))
            return;
        resolve_expr(scope, operand, NULL);
        if (operand->ok)
            elem_meet(call, operand, i == 0);
    }
    bool fine = resolve_expect_numbers(scope, &call->args, "'einsum'");
    call->is_literal = false;
    const char *readings = fine ? readings_text(scope, call, wanted) : "'-> [...]'";
    wanted = call_wanted(scope, call, wanted, &arrow, readings);
    if (!wanted || wanted->silent || !fine || !check_result_dims(scope, call, wanted))
        return;
    expr_set(call, wanted->dims, call->elem);
    warn_singles(scope, call);
    resolve_warn_joint(scope, call);
}
