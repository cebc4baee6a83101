// SPDX-License-Identifier: Apache-2.0
// Functions that name positions or move them: index, one_hot, gather, scatter_add, shift, swap,
// slice, concat.
//
// slice and concat make a dim with an extent of its own. Its name comes from the assigned tensor or
// from `->`, like the dims of an einsum:
//
//     A[n, d_rot] = slice(X, d, 0, d_rot)            X[n, d]; keeps [n], d becomes d_rot
//     Y[n, d] = concat(A, B, dim=d)                  A[n, d_a], B[n, d_b]: one own dim each
#include "ast/resolve/resolve.h"

#include <math.h>

// ---- shared -------------------------------------------------------------------------------------

// The dim given as an argument must be one of the tensor's.
static const Ident *dim_of(Scope *scope, const Expr *call, Expr *value, const Expr *tensor,
                           const char *what) {
    Resolver *r = scope->resolver;
    const Ident *dim = call_as_dim(scope, call, value, what);
    if (!dim || !tensor->ok || namelist_has(&tensor->result, dim->name))
        return dim;
    Diag *diag = diag_error(r->diags, dim->span, "the argument of '%s' has no dim '%s'",
                            call->name.name, dim->name);
    diag_note(diag, tensor->span, "it is over %s", dimlist_text(r->arena, &tensor->result));
    Near near = near_to(dim->name);
    near_offer_list(&near, &tensor->result);
    if (near.best)
        diag_hint(diag, "did you mean '%s'?", near.best);
    return NULL;
}

static Diag *tell_no_dim(Scope *scope, const Expr *call) {
    return diag_error(scope->resolver->diags, call->span, "'%s' needs 'dim='", call->name.name);
}

const Ident *call_dim_key(Scope *scope, const Expr *call, const Expr *tensor) {
    KeyArg *key = call_key(call, "dim");
    if (key && tensor)
        return dim_of(scope, call, key->value, tensor, "'dim='");
    if (key)
        return call_as_dim(scope, call, key->value, "'dim='");
    Diag *diag = tell_no_dim(scope, call);
    if (tensor && tensor->ok && tensor->result.count)
        diag_hint(diag, "such as dim=%s", tensor->result.at[0]);
    return NULL;
}

const Wanted *call_wanted(Scope *scope, const Expr *call, const Wanted *wanted, Wanted *arrow,
                          const char *readings) {
    Resolver *r = scope->resolver;
    if (call->has_arrow) {
        *arrow = (Wanted){.brackets = &call->dims, .span = call->span};
        if (call->dims.count)
            arrow->span =
                span_join(call->dims.at[0].span, call->dims.at[call->dims.count - 1].span);
        arrow->dims = dimlist_of(r->arena, &call->dims);
        scope_add_dims(scope, &arrow->dims);
        arrow->silent = !scope_check_brackets(scope, &call->dims, NULL);
        return arrow;
    }
    if (wanted && (wanted->silent || !wanted->beside))
        return wanted;
    bool array = call->kind == EXPR_ARRAY;
    const char *name = array ? "an array" : arena_printf(r->arena, "'%s'", call->name.name);
    Diag *diag =
        diag_error(r->diags, call->span, "%s does not know here which dims its result has", name);
    if (wanted)
        diag_note(diag, wanted->beside->span, "the other %s brings %s",
                  wanted->in_sum ? "term" : "factor",
                  quoted_text(r->arena, &wanted->beside->result));
    diag_hint(diag, "write them %s it: %s (language 4.4)", array ? "behind" : "inside", readings);
    return NULL;
}

static bool evaluate(const Scope *scope, const Expr *expr, double *value) {
    return expr_evaluate(scope->resolver->session, scope->resolver->program, expr, NULL, 0, value);
}

// A number that counts positions: whole, wherever its value is known already.
static bool resolve_count(Scope *scope, Expr *expr, const char *what) {
    double value;
    resolve_number(scope, expr, what);
    if (!expr->ok || scope_in_prelude(scope) || !evaluate(scope, expr, &value) ||
        value == floor(value))
        return expr->ok;
    Diag *diag = diag_error(scope->resolver->diags, expr->span, "%s is a whole number, this is %g",
                            what, value);
    diag_hint(diag, "'//' divides and rounds down");
    return false;
}

bool resolve_disagreed(Resolver *r, const NameList *dims) {
    bool told = dimlist_within(dims, &r->disagreed);
    for (uint32_t i = 0; i < dims->count; i++)
        dimlist_add(r->arena, &r->disagreed, dims->at[i]);
    return told;
}

static NameList one_dim(Arena *arena, Name dim) {
    NameList dims = {0};
    vec_push(arena, &dims, dim);
    return dims;
}

// ---- index, one_hot, gather, scatter_add, shift, swap -------------------------------------------

void resolve_index(Scope *scope, Expr *call) {
    Arena *arena = scope->resolver->arena;
    const Ident *dim = expr_as_dim(scope, call->args.at[0], "the argument of 'index'");
    if (!dim || !scope_check_dim(scope, *dim))
        return;
    call->reduced = one_dim(arena, dim->name);
    scope_add_dims(scope, &call->reduced);
    expr_set(call, call->reduced, ELEM_I64);
}

// The dim that a function gives its result is none of an argument.
static bool adds_dim(Scope *scope, const Expr *call, const Expr *arg, const Ident *dim) {
    if (!namelist_has(&arg->result, dim->name))
        return true;
    Diag *diag = diag_error(scope->resolver->diags, dim->span,
                            "'%s' adds dim '%s', but an argument has it already", call->name.name,
                            dim->name);
    diag_note(diag, expr_dim_place(arg, dim->name), "'%s' is here", dim->name);
    return false;
}

void resolve_one_hot(Scope *scope, Expr *call) {
    Arena *arena = scope->resolver->arena;
    Expr *ids = call->args.at[0];
    resolve_expr(scope, ids, NULL);
    bool fine = resolve_expect_int(scope, ids, "'one_hot'");
    const Ident *dim =
        call_as_dim(scope, call, call->args.at[1], "the second argument of 'one_hot'");
    if (!dim || !scope_check_dim(scope, *dim) || !fine)
        return;
    call->reduced = one_dim(arena, dim->name);
    scope_add_dims(scope, &call->reduced);
    if (!adds_dim(scope, call, ids, dim))
        return;
    NameList dims = {0};
    for (uint32_t i = 0; i < ids->result.count; i++)
        vec_push(arena, &dims, ids->result.at[i]);
    vec_push(arena, &dims, dim->name);
    expr_set(call, dims, ELEM_F32);
}

void resolve_gather(Scope *scope, Expr *call) {
    Arena *arena = scope->resolver->arena;
    Expr *table = call->args.at[0], *ids = call->args.at[1];
    resolve_expr(scope, table, NULL);
    resolve_expr(scope, ids, NULL);
    const Ident *dim = call_dim_key(scope, call, table);
    bool fine = resolve_expect_int(scope, ids, "the second argument of 'gather'");
    if (!dim || !table->ok || !fine)
        return;
    call->reduced = one_dim(arena, dim->name);
    NameList kept = dimlist_minus(arena, &table->result, &call->reduced), dims = {0};
    for (uint32_t i = 0; i < ids->result.count; i++)
        vec_push(arena, &dims, ids->result.at[i]);
    for (uint32_t i = 0; i < kept.count; i++)
        dimlist_add(arena, &dims, kept.at[i]);
    expr_set(call, dims, table->elem);
}

void resolve_scatter(Scope *scope, Expr *call) {
    Arena *arena = scope->resolver->arena;
    Expr *x = call->args.at[0], *ids = call->args.at[1];
    resolve_expr(scope, x, NULL);
    resolve_expr(scope, ids, NULL);
    bool fine = resolve_expect_number(scope, x, "'scatter_add'");
    fine = resolve_expect_int(scope, ids, "the second argument of 'scatter_add'") && fine;
    const Ident *dim = call_dim_key(scope, call, NULL);
    if (!call_reduced_key(scope, call, "reduced_dim", false) || !dim || !fine ||
        !scope_check_dim(scope, *dim) || !adds_dim(scope, call, x, dim) ||
        !adds_dim(scope, call, ids, dim))
        return;
    NameList all = dimlist_union(arena, &ids->result, &x->result), dims = one_dim(arena, dim->name);
    scope_add_dims(scope, &dims);
    NameList kept = dimlist_minus(arena, &all, &call->reduced);
    for (uint32_t i = 0; i < kept.count; i++)
        vec_push(arena, &dims, kept.at[i]);
    vec_push(arena, &call->reduced, dim->name);
    expr_set(call, dims, x->elem);
}

void resolve_shift(Scope *scope, Expr *call) {
    Expr *arg = call->args.at[0];
    resolve_expr(scope, arg, NULL);
    bool fine = resolve_expect_number(scope, arg, "'shift'");
    const Ident *dim = dim_of(scope, call, call->args.at[1], arg, "the second argument of 'shift'");
    if (!resolve_count(scope, call->args.at[2], "the distance of 'shift'") || !dim || !fine)
        return;
    call->reduced = one_dim(scope->resolver->arena, dim->name);
    expr_set(call, arg->result, arg->elem);
}

void resolve_swap(Scope *scope, Expr *call, const Wanted *wanted) {
    Resolver *r = scope->resolver;
    Expr *arg = call->args.at[0];
    resolve_expr(scope, arg, wanted);
    const Ident *a = dim_of(scope, call, call->args.at[1], arg, "the second argument of 'swap'");
    const Ident *b = dim_of(scope, call, call->args.at[2], arg, "the third argument of 'swap'");
    if (!a || !b || !arg->ok)
        return;
    if (a->name == b->name) {
        Diag *diag =
            diag_error(r->diags, b->span, "'swap' exchanges two dims, both are '%s'", a->name);
        diag_note(diag, arg->span, "the argument is over %s", dimlist_text(r->arena, &arg->result));
        return;
    }
    if (!program_dims_alike(r->program, a->name, b->name)) {
        Diag *diag = diag_error(r->diags, span_join(a->span, b->span),
                                "'swap' exchanges dims that are alike, '%s' and '%s' are not",
                                a->name, b->name);
        diag_hint(
            diag,
            "leave it out: dims are read by name, in any order, and that in memory is that of the "
            "brackets in 'return'; 'dim %s like %s' makes them alike",
            name_unprimed(r->session->names, b->name), name_unprimed(r->session->names, a->name));
        return;
    }
    call->reduced = one_dim(r->arena, a->name);
    vec_push(r->arena, &call->reduced, b->name);
    expr_set(call, arg->result, arg->elem);
}

// ---- slice --------------------------------------------------------------------------------------

// Is a number made of an extent that -D gives?
static bool is_of_given(const Resolver *r, const Expr *expr) {
    if (expr->kind == EXPR_NAME)
        return expr->name_kind == NAME_EXTENT &&
               program_extent_given(r->session, r->program, expr->name.name);
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (is_of_given(r, expr->args.at[i]))
            return true;
    return false;
}

static bool check_slice_bounds(Scope *scope, const Expr *call, Name dim) {
    Resolver *r = scope->resolver;
    double from = 0, to = 0;
    const Expr *first = call->args.at[2], *end = call->args.at[3];
    bool from_known = evaluate(scope, first, &from), to_known = evaluate(scope, end, &to);
    if (scope_in_prelude(scope))
        return true;
    if (from_known && from < 0) {
        diag_error(r->diags, first->span, "a slice begins at 0 or later, not at %g", from);
        return false;
    }
    int64_t extent = program_extent(r->session, r->program, dim);
    if (to_known && extent > 0 && to > (double)extent) {
        Diag *diag = diag_error(r->diags, end->span, "the slice ends at %g, beyond the end of '%s'",
                                to, dim);
        resolve_note_extent(r, diag, dim);
        return false;
    }
    bool may_be_empty = is_of_given(r, first) || is_of_given(r, end);
    if (!from_known || !to_known || from < to || (from == to && may_be_empty))
        return true;
    Diag *diag = diag_error(r->diags, end->span,
                            "the slice is empty: it ends at %g and begins at %g", to, from);
    diag_note(diag, first->span, "it begins here");
    return false;
}

static void add_dims_of(Arena *arena, const Expr *number, NameList *dims) {
    if (number->kind == EXPR_NAME && number->name_kind == NAME_EXTENT)
        dimlist_add(arena, dims, number->name.name);
    for (uint32_t i = 0; i < number->args.count; i++)
        add_dims_of(arena, number->args.at[i], dims);
}

static void check_slice_extent(Scope *scope, const Expr *call, Name made) {
    Resolver *r = scope->resolver;
    double from, to;
    int64_t extent = program_extent(r->session, r->program, made);
    if (scope_in_prelude(scope) || extent < 1 || !evaluate(scope, call->args.at[2], &from) ||
        !evaluate(scope, call->args.at[3], &to) || to - from == (double)extent)
        return;
    NameList dims = one_dim(r->arena, made);
    add_dims_of(r->arena, call->args.at[2], &dims);
    add_dims_of(r->arena, call->args.at[3], &dims);
    if (dims.count > 1 && resolve_disagreed(r, &dims))
        return;
    Diag *diag = diag_error(r->diags, call->span, "the slice has %g positions, '%s' has %lld",
                            to - from, made, (long long)extent);
    resolve_note_extent(r, diag, made);
}

// The one dim of the result that the sliced tensor does not keep; NULL after a diagnostic.
static Name slice_made_dim(Scope *scope, const Expr *call, const NameList *kept, Name dim,
                           const Wanted *wanted) {
    Resolver *r = scope->resolver;
    NameList made = dimlist_minus(r->arena, &wanted->dims, kept);
    if (made.count == 1 && made.at[0] != dim && dimlist_within(kept, &wanted->dims))
        return made.at[0];
    Diag *diag =
        diag_error(r->diags, call->span, "this slice is over %s and one new dim in place of '%s'",
                   dimlist_text(r->arena, kept), dim);
    diag_note(diag, wanted->span, "its result is to be over %s",
              dimlist_text(r->arena, &wanted->dims));
    scope->doubt = scope->doubt || !call->has_arrow;
    if (namelist_has(&made, dim))
        diag_hint(diag, "the part has another extent than '%s': give it a name of its own", dim);
    else if (wanted->in_sum)
        diag_hint(diag, "write its dims inside it: '-> [...]'");
    return NULL;
}

// The one dim that the list has beside those that the sliced tensor keeps: what the part is called
// there, if it may have that extent; or NULL.
static Name slice_dim_of(const Scope *scope, const Expr *call, Name dim, const NameList *list) {
    Resolver *r = scope->resolver;
    NameList made = dimlist_minus(r->arena, list, &call->args.at[0]->result);
    int64_t extent = made.count == 1 ? program_extent(r->session, r->program, made.at[0]) : 0;
    double from, to;
    bool differs = extent > 0 && evaluate(scope, call->args.at[2], &from) &&
                   evaluate(scope, call->args.at[3], &to) && to - from != (double)extent;
    return made.count == 1 && !namelist_has(list, dim) && !differs ? made.at[0] : NULL;
}

static const char *slice_example(Scope *scope, const Expr *call, const Ident *dim,
                                 const Wanted *wanted) {
    Arena *arena = scope->resolver->arena;
    const Expr *arg = call->args.at[0];
    if (!dim || !arg->ok)
        return "'-> [...]'";
    Name part = scope->stated ? slice_dim_of(scope, call, dim->name, scope->stated) : NULL;
    if (!part && wanted && wanted->beside)
        part = slice_dim_of(scope, call, dim->name, &wanted->beside->result);
    if (!part) {
        Name plain = name_unprimed(scope->resolver->session->names, dim->name);
        part = scope_free_name(scope, arena_printf(arena, "%s_part", plain), &(NameList){0});
    }
    NameList dims = dimlist_replaced(arena, &arg->result, dim->name, part);
    return arena_printf(arena, "'-> %s'", dimlist_text(arena, &dims));
}

void resolve_slice(Scope *scope, Expr *call, const Wanted *wanted) {
    Arena *arena = scope->resolver->arena;
    Expr *arg = call->args.at[0];
    Wanted arrow;
    resolve_expr(scope, arg, NULL);
    const Ident *dim = dim_of(scope, call, call->args.at[1], arg, "the second argument of 'slice'");
    bool fine = resolve_count(scope, call->args.at[2], "the begin of a slice");
    fine = resolve_count(scope, call->args.at[3], "the end of a slice") && fine;
    wanted = call_wanted(scope, call, wanted, &arrow, slice_example(scope, call, dim, wanted));
    if (!dim || !arg->ok || !fine || !wanted || wanted->silent)
        return;
    NameList sliced = one_dim(arena, dim->name);
    NameList kept = dimlist_minus(arena, &arg->result, &sliced);
    Name made = slice_made_dim(scope, call, &kept, dim->name, wanted);
    // The bounds that make a dim are mostly those of its declaration.
    bool told = made && program_extent_wrong(scope->resolver->program, made);
    if ((!told && !check_slice_bounds(scope, call, dim->name)) || !made)
        return;
    check_slice_extent(scope, call, made);
    call->reduced = sliced;
    vec_push(arena, &call->reduced, made);
    expr_set(call, wanted->dims, arg->elem);
}

// ---- concat -------------------------------------------------------------------------------------

// The dims that every part keeps: known from the result, otherwise those that all parts have.
static NameList concat_kept(Scope *scope, const Expr *call, Name dim, const Wanted *wanted) {
    Arena *arena = scope->resolver->arena;
    NameList joined = one_dim(arena, dim);
    if (wanted && namelist_has(&wanted->dims, dim) && !wanted->in_sum && !wanted->beside)
        return dimlist_minus(arena, &wanted->dims, &joined);
    NameList kept = call->args.at[0]->result;
    for (uint32_t i = 1; i < call->args.count; i++) {
        NameList foreign = dimlist_minus(arena, &kept, &call->args.at[i]->result);
        kept = dimlist_minus(arena, &kept, &foreign);
    }
    return kept;
}

// All parts are over the same dims and nothing says which of them is joined.
static bool ask_for_concat(Scope *scope, const Expr *call, const Ident *dim, const NameList *kept) {
    Resolver *r = scope->resolver;
    for (uint32_t i = 0; i < call->args.count; i++)
        if (!dimlist_equal(&call->args.at[i]->result, kept))
            return false;
    Diag *diag = diag_error(r->diags, call->span, "'concat' does not know which dim '%s' replaces",
                            dim->name);
    diag_note(diag, call->args.at[0]->span, "the parts are over %s", dimlist_text(r->arena, kept));
    const char *with_dims = namelist_has(kept, dim->name) ? foreign_call_hint(scope, call) : NULL;
    if (with_dims) {
        diag_hint(diag, "the whole is over a dim of another name: %s", with_dims);
        return true;
    }
    NameList result = {0};
    if (kept->count)
        result = dimlist_replaced(r->arena, kept, kept->at[kept->count - 1], dim->name);
    else
        vec_push(r->arena, &result, dim->name);
    diag_hint(diag, "write the dims of the result inside it, as in '-> %s' (language 5.4)",
              dimlist_text(r->arena, &result));
    return true;
}

// The dim is the one that the result alone has, where that is known, or else what other languages
// mean.
static void tell_no_concat_dim(Scope *scope, const Expr *call, const Wanted *wanted) {
    Diag *diag = tell_no_dim(scope, call);
    NameList whole = {0};
    if (wanted && !wanted->in_sum && !wanted->beside)
        whole = dimlist_minus(scope->resolver->arena, &wanted->dims, &call->args.at[0]->result);
    const char *meant = whole.count ? NULL : foreign_call_hint(scope, call);
    if (whole.count == 1)
        diag_hint(diag, "such as dim=%s", whole.at[0]);
    else if (meant)
        diag_hint(diag, "%s", meant);
}

// The dim of a part that the joined dim replaces; NULL after a diagnostic.
// told: of another part that lacks the same dims, which is one mistake, or NULL.
static Name concat_own_dim(Scope *scope, const Expr *call, const Expr *part, const NameList *kept,
                           const Ident *dim, Diag **told) {
    Resolver *r = scope->resolver;
    NameList own = dimlist_minus(r->arena, &part->result, kept);
    if (namelist_has(&part->result, dim->name)) {
        Diag *diag = diag_error(r->diags, part->span, "this part of '%s' is over '%s' itself",
                                call->name.name, dim->name);
        diag_note(diag, dim->span, "'%s' is the dim of the whole", dim->name);
        diag_hint(diag, "a part has another extent: give it a dim of its own");
        return NULL;
    }
    if (own.count == 1 && dimlist_within(kept, &part->result))
        return own.at[0];
    const char *over = dimlist_text(r->arena, &part->result);
    if (*told) {
        diag_note(*told, part->span, "and this is over %s", over);
        return NULL;
    }
    Diag *diag = diag_error(r->diags, part->span,
                            "this part is over %s; it should be over %s and one dim of its own",
                            over, dimlist_text(r->arena, kept));
    diag_note(diag, dim->span, "the parts are joined along '%s'", dim->name);
    if (!dimlist_within(kept, &part->result))
        *told = diag;
    return NULL;
}

static void check_concat_extent(Scope *scope, const Expr *call) {
    Resolver *r = scope->resolver;
    int64_t whole = program_extent(r->session, r->program, call->reduced.at[0]), sum = 0;
    for (uint32_t i = 1; i < call->reduced.count; i++) {
        int64_t part = program_extent(r->session, r->program, call->reduced.at[i]);
        if (part < 1 || !add_i64(sum, part, &sum))
            return;
    }
    if (whole < 1 || whole == sum || scope_in_prelude(scope) ||
        resolve_disagreed(r, &call->reduced))
        return;
    Diag *diag = diag_error(r->diags, call->span, "the parts have %lld positions, '%s' has %lld",
                            (long long)sum, call->reduced.at[0], (long long)whole);
    for (uint32_t i = 0; i < call->reduced.count; i++)
        resolve_note_extent(r, diag, call->reduced.at[i]);
}

static bool concat_elem(Scope *scope, Expr *call) {
    for (uint32_t i = 0; i < call->args.count; i++) {
        const Expr *part = call->args.at[i];
        if (i && elem_is_mixed(part, call->args.at[0])) {
            Diag *diag = diag_error(scope->resolver->diags, part->span,
                                    "the parts of 'concat' are %s and %s",
                                    elem_name(call->args.at[0]->elem), elem_name(part->elem));
            diag_note(diag, call->args.at[0]->span, "this is %s",
                      elem_name(call->args.at[0]->elem));
            return false;
        }
        elem_meet(call, part, i == 0);
    }
    call->is_literal = false;
    return true;
}

// concat((X, Y), dim=t)
static void report_parts(Scope *scope, const Expr *call) {
    Diag *diag = diag_error(scope->resolver->diags, call->args.at[0]->span,
                            "a list does not stand for a value");
    const char *meant = foreign_call_hint(scope, call);
    diag_hint(diag, "%s",
              meant ? meant : "the parts are arguments of their own: concat(A, B, ...)");
}

void resolve_concat(Scope *scope, Expr *call, const Wanted *wanted) {
    Arena *arena = scope->resolver->arena;
    Wanted arrow;
    bool fine = true;
    if (call->args.at[0]->kind == EXPR_TUPLE) {
        report_parts(scope, call);
        return;
    }
    for (uint32_t i = 0; i < call->args.count; i++) {
        resolve_expr(scope, call->args.at[i], NULL);
        fine = call->args.at[i]->ok && fine;
    }
    if (call->has_arrow)
        wanted = call_wanted(scope, call, NULL, &arrow, NULL);
    if (fine && !call_key(call, "dim")) {
        tell_no_concat_dim(scope, call, wanted);
        return;
    }
    const Ident *dim = call_dim_key(scope, call, NULL);
    if (!dim || !fine || !concat_elem(scope, call) || (wanted && wanted->silent))
        return;
    NameList kept = concat_kept(scope, call, dim->name, wanted);
    if (call->args.count > 1 && ask_for_concat(scope, call, dim, &kept))
        return;
    vec_push(arena, &call->reduced, dim->name);
    Diag *told = NULL;
    for (uint32_t i = 0; i < call->args.count; i++) {
        Name own = concat_own_dim(scope, call, call->args.at[i], &kept, dim, &told);
        vec_push(arena, &call->reduced, own);
        fine = own && fine;
    }
    if (!fine)
        return;
    check_concat_extent(scope, call);
    NameList dims = {0};
    const NameList *first = &call->args.at[0]->result;
    for (uint32_t i = 0; i < first->count; i++)
        vec_push(arena, &dims, first->at[i] == call->reduced.at[1] ? dim->name : first->at[i]);
    scope_add_dims(scope, &dims);
    expr_set(call, dims, call->elem);
}
