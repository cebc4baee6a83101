// SPDX-License-Identifier: Apache-2.0
// Calls of defs: the callee's dims are bound to the caller's, from the right.
//
//     def Attend(X[n, d], M[m, d], P[d, h]):  ...  return Y[n, h]
//     Attend(A[b, t, e], B[b, s, e], P[e, h])       n = t, d = e, m = s, h = h; mapped over [b]
//     Attend(A[b, t, e], B[s, e], P[e, h])          the same B for every b
//
// Dims of the callee that no parameter has keep their names. One that is declared like a bound dim
// follows it: bound to t, `dim m like n` inside the callee becomes m_t, like t.
#include "ast/resolve/resolve.h"

typedef struct {
    Name formal, actual;
    Span place; // where the actual was written
    uint32_t param;
} Bound;

typedef struct {
    Scope *scope;
    Resolver *resolver;
    Expr *call;
    const Def *callee;
    VEC(Bound) bound;
    uint32_t mapped_by; // the argument with the most extra dims
    bool fine;
} Binder;

static Name param_name(const Binder *b, uint32_t param) {
    return b->callee->params.at[param].name.name;
}

static Name callee_name(const Binder *b) {
    return b->callee->name.name;
}

static Diag *binder_error(Binder *b, Span at, const char *message) {
    b->fine = false;
    return diag_error(b->resolver->diags, at, "%s", message);
}

static const char *say(const Binder *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static const char *say(const Binder *b, const char *format, ...) {
    Text text = {.arena = b->resolver->arena};
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    return text.at;
}

static void note_param(const Binder *b, Diag *diag, uint32_t param) {
    const Tensor *tensor = &b->callee->params.at[param];
    diag_note(diag, tensor->name.span, "parameter '%s' of '%s' is over %s", tensor->name.name,
              callee_name(b), dimlist_text(b->resolver->arena, &tensor->result));
}

// ---- one dim ------------------------------------------------------------------------------------

static const Bound *find_formal(const Binder *b, Name formal) {
    for (uint32_t i = 0; i < b->bound.count; i++)
        if (b->bound.at[i].formal == formal)
            return &b->bound.at[i];
    return NULL;
}

static const Bound *find_actual(const Binder *b, Name actual) {
    for (uint32_t i = 0; i < b->bound.count; i++)
        if (b->bound.at[i].actual == actual)
            return &b->bound.at[i];
    return NULL;
}

static Span actual_place(const Expr *arg, Name dim) {
    return arg->kind == EXPR_REF ? expr_dim_place(arg, dim) : arg->span;
}

// The argument with its dims in the order that fits what is bound already, if that is another one.
static const char *reordered(const Binder *b, uint32_t param) {
    Arena *arena = b->resolver->arena;
    const Expr *arg = b->call->args.at[param];
    const NameList *formals = &b->callee->params.at[param].result;
    bool named = arg->kind == EXPR_REF || arg->kind == EXPR_NAME;
    if (!named || arg->result.count != formals->count)
        return NULL;
    NameList known = {0}, order = {0};
    for (uint32_t i = 0; i < formals->count; i++) {
        const Bound *bound = find_formal(b, formals->at[i]);
        if (bound && !dimlist_has(&arg->result, bound->actual))
            return NULL;
        if (bound)
            dimlist_add(arena, &known, bound->actual);
    }
    NameList rest = dimlist_minus(arena, &arg->result, &known);
    for (uint32_t i = 0, next = 0; i < formals->count; i++) {
        const Bound *bound = find_formal(b, formals->at[i]);
        vec_push(arena, &order, bound ? bound->actual : rest.at[next++]);
    }
    return say(b, "%s%s", arg->name.name, dimlist_text(arena, &order));
}

static void report_two_actuals(Binder *b, const Bound *first, Name actual, uint32_t param) {
    Diag *diag = binder_error(b, actual_place(b->call->args.at[param], actual),
                              say(b, "dim '%s' of '%s' is '%s' by '%s', but '%s' by '%s'",
                                  first->formal, callee_name(b), actual, param_name(b, param),
                                  first->actual, param_name(b, first->param)));
    diag_note(diag, first->place, "it is '%s' from here", first->actual);
    note_param(b, diag, param);
    const char *order = reordered(b, param);
    if (order)
        diag_hint(diag, "dims match from the right (language 7.1): did you mean '%s'?", order);
    else if (program_dims_alike(b->resolver->program, actual, first->actual))
        diag_hint(diag, "read it over '%s'", first->actual);
}

// A name for what the caller should pass as `formal`: the formal's own, unless that is something
// else.
static Name own_name(const Binder *b, Name formal, Name actual) {
    bool taken = scope_knows_dim(b->scope, formal) &&
                 !program_dims_alike(b->resolver->program, formal, actual);
    return taken || formal == actual ? say(b, "%s_%s", actual, formal) : formal;
}

// Two dims of the callee cannot be one dim of the caller: each pair needs a `like` dim.
static void report_two_formals(Binder *b, uint32_t param) {
    Arena *arena = b->resolver->arena;
    const Expr *arg = b->call->args.at[param];
    const NameList *formals = &b->callee->params.at[param].result;
    uint32_t extra = arg->result.count - formals->count;
    NameList over = arg->result;
    Text declare = {.arena = arena};
    Diag *diag = NULL;
    for (uint32_t i = 0; i < formals->count; i++) {
        Name formal = formals->at[i], actual = arg->result.at[extra + i];
        const Bound *first = find_actual(b, actual);
        if (!first || first->formal == formal)
            continue;
        if (!diag)
            diag = binder_error(b, actual_place(arg, actual),
                                say(b, "dims '%s' and '%s' of '%s' would both be '%s'",
                                    first->formal, formal, callee_name(b), actual));
        diag_note(diag, first->place, "'%s' is '%s' from here", first->formal, actual);
        Name own = own_name(b, formal, actual);
        if (!program_dims_alike(b->resolver->program, own, actual))
            text_printf(&declare, "%s%s like %s", declare.length ? ", " : "declare 'dim ", own,
                        actual);
        over = dimlist_replaced(arena, &over, actual, own);
    }
    const char *dims = dimlist_text(arena, &over);
    const char *before = declare.length ? say(b, "%s' and ", declare.at) : "";
    if (arg->kind == EXPR_REF || arg->kind == EXPR_NAME)
        diag_hint(diag, "%spass '%s%s'", before, arg->name.name, dims);
    else
        diag_hint(diag, "%spass it over %s", before, dims);
}

// Binds the dims of one argument, from the right. One message tells all that is wrong with it.
static void bind_dims(Binder *b, uint32_t param) {
    const Expr *arg = b->call->args.at[param];
    const NameList *formals = &b->callee->params.at[param].result;
    uint32_t extra = arg->result.count - formals->count;
    bool clash = false;
    for (uint32_t i = formals->count; i-- > 0;) {
        const Bound *bound = find_formal(b, formals->at[i]);
        Name actual = arg->result.at[extra + i];
        if (bound && bound->actual != actual) {
            report_two_actuals(b, bound, actual, param);
            return;
        }
        clash = clash || (!bound && find_actual(b, actual));
    }
    if (clash) {
        report_two_formals(b, param);
        return;
    }
    for (uint32_t i = 0; i < formals->count; i++) {
        Name actual = arg->result.at[extra + i];
        if (!find_formal(b, formals->at[i]))
            vec_push(b->resolver->arena, &b->bound,
                     (Bound){formals->at[i], actual, actual_place(arg, actual), param});
    }
}

// ---- one argument -------------------------------------------------------------------------------

static void check_elem(Binder *b, uint32_t param) {
    const Tensor *tensor = &b->callee->params.at[param];
    const Expr *arg = b->call->args.at[param];
    if (elem_accepts(tensor->elem, arg))
        return;
    Diag *diag = binder_error(b, arg->span,
                              say(b, "'%s' of '%s' takes %s, this is %s", tensor->name.name,
                                  callee_name(b), elem_name(tensor->elem), elem_name(arg->elem)));
    note_param(b, diag, param);
    diag_hint(diag, "write '%s(...)' around it", elem_name(tensor->elem));
}

static uint32_t n_extra(const Binder *b, uint32_t param) {
    return b->call->args.at[param]->result.count - b->callee->params.at[param].result.count;
}

static void bind_argument(Binder *b, uint32_t param) {
    const Expr *arg = b->call->args.at[param];
    const NameList *formals = &b->callee->params.at[param].result;
    const NameList *actuals = &arg->result;
    check_elem(b, param);
    if (actuals->count < formals->count) {
        const char *have = dimlist_text(b->resolver->arena, actuals);
        Diag *diag = binder_error(b, arg->span,
                                  say(b, "'%s' of '%s' is over %s, this has fewer dims: %s",
                                      param_name(b, param), callee_name(b),
                                      dimlist_text(b->resolver->arena, formals), have));
        note_param(b, diag, param);
        return;
    }
    bind_dims(b, param);
    if (n_extra(b, param) > n_extra(b, b->mapped_by))
        b->mapped_by = param;
}

// ---- mapped dims --------------------------------------------------------------------------------

static NameList extra_dims(const Binder *b, uint32_t param) {
    NameList extra = {0};
    for (uint32_t i = 0; i < n_extra(b, param); i++)
        vec_push(b->resolver->arena, &extra, b->call->args.at[param]->result.at[i]);
    return extra;
}

// Every argument's extra dims are among those of the argument with the most, and none is bound.
static void bind_mapped(Binder *b) {
    Arena *arena = b->resolver->arena;
    NameList mapped = extra_dims(b, b->mapped_by);
    for (uint32_t param = 0; param < b->callee->params.count; param++) {
        NameList extra = extra_dims(b, param);
        if (dimlist_within(&extra, &mapped))
            continue;
        NameList foreign = dimlist_minus(arena, &extra, &mapped);
        const Expr *arg = b->call->args.at[param];
        Diag *diag =
            binder_error(b, actual_place(arg, foreign.at[0]),
                         say(b, "'%s' maps '%s' over %s, but '%s' maps it over %s",
                             param_name(b, param), callee_name(b), dimlist_text(arena, &extra),
                             param_name(b, b->mapped_by), dimlist_text(arena, &mapped)));
        diag_note(diag, b->call->args.at[b->mapped_by]->span, "this one");
        note_param(b, diag, param);
        diag_hint(
            diag,
            "the dims to the left of a parameter's own are mapped and must agree (language 7.2)");
    }
    for (uint32_t i = 0; i < mapped.count; i++) {
        const Bound *bound = find_actual(b, mapped.at[i]);
        if (!bound)
            continue;
        Diag *diag = binder_error(b, bound->place,
                                  say(b, "'%s' is '%s' of '%s' here, but '%s' is mapped over '%s'",
                                      bound->actual, bound->formal, callee_name(b),
                                      param_name(b, b->mapped_by), bound->actual));
        diag_note(diag, actual_place(b->call->args.at[b->mapped_by], bound->actual),
                  "mapped over here");
        note_param(b, diag, bound->param);
        if (b->call->args.at[bound->param]->result.count ==
            b->callee->params.at[bound->param].result.count)
            diag_hint(diag, "does '%s' lack a dim for '%s'?", param_name(b, bound->param),
                      bound->formal);
    }
    b->call->mapped = mapped;
}

// ---- dims of the callee's own -------------------------------------------------------------------

static void check_alike(Binder *b) {
    const Program *program = b->resolver->program;
    for (uint32_t i = 0; i < b->bound.count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const Bound *first = &b->bound.at[k], *second = &b->bound.at[i];
            if (!program_dims_alike(program, first->formal, second->formal) ||
                program_dims_alike(program, first->actual, second->actual))
                continue;
            Diag *diag = binder_error(b, second->place,
                                      say(b,
                                          "'%s' and '%s' of '%s' have one extent, '%s' and '%s' "
                                          "need not",
                                          first->formal, second->formal, callee_name(b),
                                          first->actual, second->actual));
            diag_note(diag, first->place, "'%s' is '%s' from here", first->formal, first->actual);
            diag_hint(diag, "declare 'dim %s like %s'", second->actual, first->actual);
        }
}

// A dim of the caller for `own`, which the callee declares like a dim that is bound to `actual`.
static Name like_dim(Binder *b, Name own, Name actual) {
    Resolver *r = b->resolver;
    Text text = {.arena = r->arena};
    text_printf(&text, "%s_%s", own, actual);
    for (;; text_add(&text, "_")) {
        Name name = names_find(r->session->names, text.at);
        const DimDecl *known = program_find_dim(r->program, name);
        if (known && program_dims_alike(r->program, name, actual))
            return name;
        if (known)
            continue;
        DimDecl *decl = arena_new_of(r->arena, DimDecl);
        decl->name.name = name;
        decl->like.name = actual;
        decl->like_root = program_like_root(r->program, actual);
        decl->value = program_extent(r->session, r->program, actual);
        program_add_dim(r, decl);
        return name;
    }
}

static void report_collision(Binder *b, Name own, Span place, const char *as) {
    Diag *diag = binder_error(b, place,
                              say(b,
                                  "'%s' has a dim '%s' of its own, which is not the '%s' that it "
                                  "is given as %s",
                                  callee_name(b), own, own, as));
    diag_note(diag, b->callee->name.span, "'%s' is here", callee_name(b));
    diag_hint(diag, "rename one of the two (language 7.3)");
}

static void bind_own_dims(Binder *b) {
    Arena *arena = b->resolver->arena;
    const Program *program = b->resolver->program;
    uint32_t n_bound = b->bound.count;
    for (uint32_t i = 0; i < b->callee->dims.count; i++) {
        Name own = b->callee->dims.at[i], here = own;
        if (find_formal(b, own))
            continue;
        for (uint32_t k = 0; k < n_bound && here == own; k++)
            if (program_dims_alike(program, own, b->bound.at[k].formal) &&
                !program_dims_alike(program, own, b->bound.at[k].actual))
                here = like_dim(b, own, b->bound.at[k].actual);
        const Bound *taken = find_actual(b, here);
        if (taken)
            report_collision(b, own, taken->place, say(b, "'%s'", taken->formal));
        else if (dimlist_has(&b->call->mapped, here))
            report_collision(b, own, actual_place(b->call->args.at[b->mapped_by], here),
                             "a mapped dim");
        else if (here != own)
            vec_push(arena, &b->bound, (Bound){own, here, b->call->span, 0});
        NameList one = {0};
        vec_push(arena, &one, here);
        scope_add_dims(b->scope, &one);
    }
}

// ---- the form of a call -------------------------------------------------------------------------

static void report_unknown_def(Scope *scope, const Expr *call) {
    Resolver *r = scope->resolver;
    Name name = call->name.name;
    if (r->program->incomplete)
        return;
    const Symbol *symbol = scope_find(scope, name);
    if (symbol) {
        Diag *diag =
            diag_error(r->diags, call->name.span, "'%s' is a tensor, not a function", name);
        diag_note(diag, symbol->name.span, "declared here");
        diag_hint(diag, "dims are written in brackets: '%s[...]'", name);
        return;
    }
    Diag *diag =
        diag_error(r->diags, call->name.span, "no def or built-in function is named '%s'", name);
    Near near = near_to(name);
    for (uint32_t i = 0; i < r->program->defs.count; i++)
        near_offer(&near, r->program->defs.at[i]->name.name);
    for (int i = 0; i < N_BUILTIN; i++)
        near_offer(&near, names_find(r->session->names, builtin_name((Builtin)i)));
    if (near.best)
        diag_hint(diag, "did you mean '%s'?", near.best);
}

static void check_form(Binder *b) {
    const Expr *call = b->call;
    if (call->keys.count) {
        Diag *diag = binder_error(
            b, call->keys.at[0].key.span,
            say(b, "'%s' takes its arguments by position, not by name", callee_name(b)));
        diag_hint(diag, "leave out '%s='", call->keys.at[0].key.name);
    }
    if (call->has_arrow) {
        Diag *diag = binder_error(b, call->span, say(b, "'%s' takes no '->'", callee_name(b)));
        diag_hint(diag, "its dims are those of what it returns");
    }
    uint32_t have = call->args.count, want = b->callee->params.count;
    if (have == want || !b->fine)
        return;
    Span at = have > want ? call->args.at[want]->span : call->span;
    Diag *diag = binder_error(b, at,
                              say(b, "'%s' takes %u argument%s, not %u", callee_name(b), want,
                                  want == 1 ? "" : "s", have));
    NameList missing = {0};
    for (uint32_t i = have; i < want; i++)
        vec_push(b->resolver->arena, &missing, param_name(b, i));
    diag_note(diag, b->callee->name.span, "'%s' is here", callee_name(b));
    if (missing.count)
        diag_hint(diag, "%s %s missing", quoted_text(b->resolver->arena, &missing),
                  missing.count == 1 ? "is" : "are");
}

static void report_recursion(Scope *scope, const Expr *call, const Def *callee) {
    Resolver *r = scope->resolver;
    uint32_t from = 0;
    while (from < r->stack.count && r->stack.at[from].def != callee)
        from++;
    Text path = {.arena = r->arena};
    for (uint32_t i = from; i < r->stack.count; i++)
        text_printf(&path, "%s -> ", r->stack.at[i].def->name.name);
    Diag *diag = diag_error(r->diags, call->name.span, "'%s' calls itself: %s%s", callee->name.name,
                            path.at, callee->name.name);
    for (uint32_t i = from + 1; i < r->stack.count; i++)
        diag_note(diag, r->stack.at[i].call, "'%s' is called here", r->stack.at[i].def->name.name);
    diag_hint(diag, "calls are put in place of what they call; repeat with 'for'");
}

// ---- the whole ----------------------------------------------------------------------------------

static void bind_arguments(Binder *b) {
    for (uint32_t i = 0; i < b->callee->params.count; i++)
        b->fine = b->fine && b->callee->params.at[i].ok && b->call->args.at[i]->ok;
    for (uint32_t i = 0; b->fine && i < b->callee->params.count; i++)
        bind_argument(b, i);
    if (!b->fine)
        return;
    if (b->callee->params.count)
        bind_mapped(b);
    check_alike(b);
    bind_own_dims(b);
}

static Name actual_of(const Binder *b, Name dim) {
    const Bound *bound = find_formal(b, dim);
    return bound ? bound->actual : dim;
}

static void set_result(Binder *b) {
    Arena *arena = b->resolver->arena;
    if (b->callee->result_dims.count == 0)
        return;
    if (b->callee->result_dims.count > 1) {
        Diag *diag = binder_error(b, b->call->span,
                                  say(b, "'%s' returns %u values, an expression is one",
                                      callee_name(b), b->callee->result_dims.count));
        diag_note(diag, b->callee->name.span, "'%s' is here", callee_name(b));
        return;
    }
    NameList dims = {0};
    for (uint32_t i = 0; i < b->call->mapped.count; i++)
        vec_push(arena, &dims, b->call->mapped.at[i]);
    const NameList *result = &b->callee->result_dims.at[0];
    for (uint32_t i = 0; i < result->count; i++)
        vec_push(arena, &dims, actual_of(b, result->at[i]));
    for (uint32_t i = 0; i < b->bound.count; i++)
        vec_push(arena, &b->call->binding,
                 (DimBinding){b->bound.at[i].formal, b->bound.at[i].actual});
    expr_set(b->call, dims, b->callee->result_elems.at[0]);
}

void resolve_call(Scope *scope, Expr *call) {
    expr_poison(call);
    call->builtin = BUILTIN_NONE;
    for (uint32_t i = 0; i < call->args.count; i++)
        resolve_expr(scope, call->args.at[i], NULL);
    Def *callee = scope_find_def(scope, call->name.name);
    if (!callee) {
        report_unknown_def(scope, call);
        return;
    }
    if (!resolve_def(scope->resolver, callee, call->span)) {
        report_recursion(scope, call, callee);
        return;
    }
    call->callee = callee;
    if (callee->incomplete)
        return;
    if (scope->def && callee->owns_params)
        scope->def->owns_params = true;
    Binder binder = {
        .scope = scope, .resolver = scope->resolver, .call = call, .callee = callee, .fine = true};
    check_form(&binder);
    if (binder.fine)
        bind_arguments(&binder);
    if (binder.fine)
        set_result(&binder);
}
