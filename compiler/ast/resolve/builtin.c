// SPDX-License-Identifier: Apache-2.0
// Built-in functions: their arguments and keywords, reductions, whole-row and pointwise functions.
// einsum, and the functions that move positions, have files of their own.
#include "ast/resolve/resolve.h"

#include <string.h>

static bool is_reduction(const Expr *call, Builtin builtin) {
    bool extremum = builtin == BUILTIN_MIN || builtin == BUILTIN_MAX;
    return builtins[builtin].shape == SHAPE_REDUCE || (extremum && call_key(call, "reduced_dim"));
}

bool call_passes_wanted(const Expr *call) {
    Builtin builtin = builtin_find(call->name.name);
    if (builtin == BUILTIN_NONE || is_reduction(call, builtin))
        return false;
    return builtins[builtin].shape == SHAPE_MAP || builtins[builtin].shape == SHAPE_KEEP ||
           builtin == BUILTIN_SWAP;
}

bool call_is_pointwise(const Expr *call) {
    Builtin builtin = builtin_find(call->name.name);
    return builtin != BUILTIN_NONE && builtins[builtin].shape == SHAPE_MAP &&
           !is_reduction(call, builtin);
}

// ---- the form of a call -------------------------------------------------------------------------

bool builtin_takes(Builtin builtin, uint32_t n_args, const KeyList *keys) {
    const BuiltinInfo *info = &builtins[builtin];
    bool fine = n_args >= info->min_args && n_args <= info->max_args;
    for (uint32_t i = 0; i < keys->count; i++)
        fine = fine && words_have(info->keys, keys->at[i].key.name);
    return fine;
}

// Other languages say the dims of these by place, or in other words.
static bool over_dims(const Expr *call) {
    BuiltinShape shape = builtins[call->builtin].shape;
    return shape != SHAPE_MAP || call->builtin == BUILTIN_MIN || call->builtin == BUILTIN_MAX ||
           call->builtin == BUILTIN_DROPOUT;
}

// `where(n = 3, a, b)`: a comparison of what is no keyword.
static void hint_key(Scope *scope, Diag *diag, const Expr *call, const BuiltinInfo *info,
                     const Ident *key) {
    const char *meant = over_dims(call) ? foreign_call_hint(scope, call) : NULL;
    if (meant)
        diag_hint(diag, "%s", meant);
    else if (scope_find(scope, key->name) || scope_knows_dim(scope, key->name))
        diag_hint(diag, "'==' compares: '%s == ...'", key->name);
    else if (info->keys[0])
        diag_hint(diag, "did you mean '%s='?",
                  arena_strndup(scope->resolver->arena, info->keys, strcspn(info->keys, " ")));
}

static bool check_keys(Scope *scope, const Expr *call, const BuiltinInfo *info) {
    bool fine = true;
    for (uint32_t i = 0; i < call->keys.count; i++) {
        const Ident *key = &call->keys.at[i].key;
        if (!words_have(info->keys, key->name)) {
            Diag *diag = diag_error(scope->resolver->diags, key->span, "'%s' takes no '%s='",
                                    info->name, key->name);
            hint_key(scope, diag, call, info, key);
            return false;
        } else if (call_key(call, key->name) != &call->keys.at[i]) {
            diag_error(scope->resolver->diags, key->span, "'%s=' is given twice", key->name);
            fine = false;
        }
    }
    return fine;
}

static bool check_count(Scope *scope, const Expr *call, const BuiltinInfo *info) {
    uint32_t n = call->args.count;
    if (n >= info->min_args && n <= info->max_args)
        return true;
    bool few = n < info->min_args;
    uint32_t limit = few ? info->min_args : info->max_args;
    const char *bound = info->min_args == info->max_args ? "" : few ? "at least " : "at most ";
    Diag *diag =
        diag_error(scope->resolver->diags, call->span, "'%s' takes %s%u argument%s, not %u",
                   info->name, bound, limit, limit == 1 ? "" : "s", n);
    bool said = over_dims(call) || call->builtin == BUILTIN_WHERE;
    const char *meant = said ? foreign_call_hint(scope, call) : NULL;
    if (meant)
        diag_hint(diag, "%s", meant);
    return false;
}

static bool check_extras(Scope *scope, const Expr *call, const BuiltinInfo *info) {
    bool fine = true, regroups = call->builtin == BUILTIN_SPLIT || call->builtin == BUILTIN_MERGE;
    bool arrow = call->builtin == BUILTIN_EINSUM || call->builtin == BUILTIN_SLICE ||
                 call->builtin == BUILTIN_CONCAT || call->builtin == BUILTIN_FULL || regroups ||
                 info->shape == SHAPE_ORDER;
    if (call->has_arrow && !arrow) {
        Diag *diag =
            diag_error(scope->resolver->diags, call->span, "'%s' takes no '->'", info->name);
        diag_hint(diag,
                  "its dims follow from its arguments; '->' is for einsum, slice, concat and full");
        fine = false;
    }
    if (!regroups)
        fine = check_no_regroup(scope, call) && fine;
    if (call->label.name) {
        Diag *diag = diag_error(scope->resolver->diags, call->label.span,
                                "'as' names the parameters of a def, '%s' has none", info->name);
        diag_hint(diag, "leave out 'as %s'", call->label.name);
        fine = false;
    }
    return fine;
}

// ---- dims as arguments --------------------------------------------------------------------------

const Ident *expr_as_dim(Scope *scope, Expr *expr, const char *what) {
    if (expr->kind == EXPR_NAME) {
        expr->name_kind = NAME_EXTENT;
        expr->is_literal = true;
        expr_set(expr, (NameList){0}, ELEM_I64);
        return &expr->name;
    }
    diag_error(scope->resolver->diags, expr->span, "%s is the name of a dim", what);
    return NULL;
}

const Ident *call_as_dim(Scope *scope, const Expr *call, Expr *value, const char *what) {
    if (value->kind == EXPR_NAME)
        return expr_as_dim(scope, value, what);
    Diag *diag = diag_error(scope->resolver->diags, value->span, "%s is the name of a dim", what);
    const char *meant = over_dims(call) ? foreign_call_hint(scope, call) : NULL;
    if (meant)
        diag_hint(diag, "%s", meant);
    return NULL;
}

static bool add_reduced(Scope *scope, Expr *call, Expr *value, const char *what) {
    Resolver *r = scope->resolver;
    const Ident *dim = call_as_dim(scope, call, value, what);
    if (!dim)
        return false;
    if (namelist_has(&call->reduced, dim->name)) {
        diag_error(r->diags, dim->span, "dim '%s' stands here twice", dim->name);
        return false;
    }
    bool known = true;
    NameList over = {0};
    Span span = call->args.at[0]->span;
    for (uint32_t i = 0; i < call->args.count; i++) {
        const Expr *arg = call->args.at[i];
        known = known && arg->ok;
        over = dimlist_union(r->arena, &over, &arg->result);
        span = span_join(span, arg->span);
    }
    if (known && !namelist_has(&over, dim->name)) {
        Diag *diag = diag_error(r->diags, dim->span, "the argument of '%s' has no dim '%s'",
                                builtins[call->builtin].name, dim->name);
        diag_note(diag, span, "it is over %s", dimlist_text(r->arena, &over));
        Near near = near_to(dim->name);
        near_offer_list(&near, &over);
        if (near.best)
            diag_hint(diag, "did you mean '%s'?", near.best);
        return false;
    }
    vec_push(r->arena, &call->reduced, dim->name);
    return true;
}

static bool reduces_several(Builtin builtin) {
    bool extremum = builtin == BUILTIN_MIN || builtin == BUILTIN_MAX;
    return extremum || (builtins[builtin].shape == SHAPE_REDUCE && builtin != BUILTIN_ARGMAX);
}

// Each of the dims, and all of them where that is one reduction.
static const char *choices_text(Arena *arena, const NameList *dims, const char *key, bool several) {
    Text text = {.arena = arena};
    several = several && dims->count > 1;
    for (uint32_t i = 0; i < dims->count; i++) {
        bool last = i + 1 == dims->count && !several;
        text_printf(&text, "%s%s=%s", !i ? "" : last ? " or " : ", ", key, dims->at[i]);
    }
    const char *all = dimlist_text(arena, dims);
    if (several)
        text_printf(&text, " or %s=(%.*s)", key, (int)strlen(all) - 2, all + 1);
    return text.at;
}

static Diag *ask_for_reduced(Scope *scope, const Expr *call, const char *key) {
    Resolver *r = scope->resolver;
    const Expr *arg = call->args.at[0];
    Diag *diag =
        diag_error(r->diags, call->span, "'%s' does not say over which dim: '%s=' is missing",
                   builtins[call->builtin].name, key);
    if (arg->ok && arg->result.count)
        diag_hint(diag, "its argument is over %s: write %s", dimlist_text(r->arena, &arg->result),
                  choices_text(r->arena, &arg->result, key, reduces_several(call->builtin)));
    return diag;
}

// What to write in place of a softmax over several dims, which logsumexp takes, or of an argmax.
static void hint_several(Arena *arena, Diag *diag, const Expr *call, const Expr *dims) {
    const char *names = "", *words = "";
    for (uint32_t i = 0; i < dims->args.count; i++) {
        const Expr *dim = dims->args.at[i];
        Name name = dim->kind == EXPR_NAME ? dim->name.name : "..";
        names = arena_printf(arena, "%s%s%s", names, i ? ", " : "", name);
        words = arena_printf(arena, "%s%s%s", words, i ? " " : "", name);
    }
    if (call->builtin == BUILTIN_ARGMAX)
        diag_hint(diag, "of all of them: 'argmax(merge(x, %s -> all), reduced_dim=all)'", words);
    bool log = call->builtin == BUILTIN_LOG_SOFTMAX;
    if (!log && call->builtin != BUILTIN_SOFTMAX)
        return;
    diag_hint(diag, "over all of them: '%sx - logsumexp(x, reduced_dim=(%s))%s'", log ? "" : "exp(",
              names, log ? "" : ")");
}

bool call_reduced_key(Scope *scope, Expr *call, const char *key, bool one) {
    KeyArg *arg = call_key(call, key);
    if (!arg) {
        ask_for_reduced(scope, call, key);
        return false;
    }
    const char *what = arena_printf(scope->resolver->arena, "'%s='", key);
    if (arg->value->kind != EXPR_TUPLE)
        return add_reduced(scope, call, arg->value, what);
    if (one && arg->value->args.count != 1) {
        Diag *diag = diag_error(scope->resolver->diags, arg->value->span,
                                "'%s' works over one dim at a time", builtins[call->builtin].name);
        hint_several(scope->resolver->arena, diag, call, arg->value);
        return false;
    }
    bool fine = true;
    for (uint32_t i = 0; i < arg->value->args.count; i++) {
        Expr *dim = arg->value->args.at[i];
        fine = add_reduced(scope, call, dim, what) && fine;
        if (dim->kind != EXPR_NAME) // which the hint has told for all
            return false;
    }
    return fine;
}

// ---- reductions and whole rows ------------------------------------------------------------------

static void resolve_reduction(Scope *scope, Expr *call) {
    Expr *arg = call->args.at[0];
    const char *where = arena_printf(scope->resolver->arena, "'%s'", builtins[call->builtin].name);
    if (call->args.count > 1) { // min and max only
        diag_error(scope->resolver->diags, call->args.at[1]->span,
                   "%s with 'reduced_dim=' takes one argument", where);
        return;
    }
    resolve_expr(scope, arg, NULL);
    bool fine = resolve_expect_number(scope, arg, where);
    if (!call_reduced_key(scope, call, "reduced_dim", call->builtin == BUILTIN_ARGMAX) || !fine)
        return;
    Elem elem = arg->elem;
    if (call->builtin == BUILTIN_ARGMAX)
        elem = ELEM_I32;
    else if (call->builtin == BUILTIN_MEAN || call->builtin == BUILTIN_LOGSUMEXP ||
             call->builtin == BUILTIN_MAX_NUMBER)
        elem = elem_of_float_function(arg);
    expr_set(call, dimlist_minus(scope->resolver->arena, &arg->result, &call->reduced), elem);
}

static void resolve_row(Scope *scope, Expr *call, const Wanted *wanted) {
    Expr *arg = call->args.at[0];
    const char *where = arena_printf(scope->resolver->arena, "'%s'", builtins[call->builtin].name);
    resolve_expr(scope, arg, wanted);
    bool fine = resolve_expect_number(scope, arg, where);
    bool cumsum = call->builtin == BUILTIN_CUMSUM;
    const char *key = cumsum && !call_key(call, "reduced_dim") ? "dim" : "reduced_dim";
    if (!call_reduced_key(scope, call, key, true) || !fine)
        return;
    expr_set(call, arg->result, cumsum ? arg->elem : elem_of_float_function(arg));
    if (!cumsum)
        resolve_warn_rank(scope, call);
}

// ---- pointwise ----------------------------------------------------------------------------------

static Elem map_elem(const Expr *call, Elem met) {
    switch (call->builtin) {
    case BUILTIN_MIN:
    case BUILTIN_MAX:
    case BUILTIN_ABS:
    case BUILTIN_RELU:
    case BUILTIN_FLOOR:
    case BUILTIN_WHERE:
    case BUILTIN_STOP_GRADIENT:
    case BUILTIN_CHECKPOINT:
        return met;
    default:
        break;
    }
    Elem cast;
    if (elem_from_name(builtins[call->builtin].name, &cast))
        return cast;
    if (call->builtin == BUILTIN_RANDOM)
        return ELEM_F32;
    return elem_made_float(met);
}

static bool is_cast(Builtin builtin) {
    Elem elem;
    return elem_from_name(builtins[builtin].name, &elem);
}

static bool check_map_args(Scope *scope, Expr *call) {
    const char *where = arena_printf(scope->resolver->arena, "'%s'", builtins[call->builtin].name);
    if (is_cast(call->builtin))
        return call->args.at[0]->ok;
    bool fine = true;
    for (uint32_t i = 0; call->builtin == BUILTIN_RANDOM && i < call->args.count; i++)
        fine = resolve_expect_int(scope, call->args.at[i], where) && fine;
    if (call->builtin == BUILTIN_RANDOM)
        return fine;
    if (call->builtin != BUILTIN_WHERE)
        return resolve_expect_numbers(scope, &call->args, where);
    fine = resolve_expect_bool(scope, call->args.at[0], "the condition of 'where'");
    if (!fine || !call->args.at[1]->ok || !call->args.at[2]->ok)
        return false;
    const Expr *a = call->args.at[1], *b = call->args.at[2];
    if (!elem_is_mixed(a, b))
        return true;
    Diag *diag =
        diag_error(scope->resolver->diags, b->span, "the branches of 'where' are %s and %s",
                   elem_name(a->elem), elem_name(b->elem));
    diag_note(diag, a->span, "this is %s", elem_name(a->elem));
    return false;
}

const char *dropout_rate_problem(double rate) {
    return rate >= 0 && rate < 1 ? NULL : "a rate is from 0 up to, not including, 1";
}

static bool check_rate(Scope *scope, const Expr *call) {
    const KeyArg *rate = call_key(call, "rate");
    if (!rate) {
        Diag *diag = diag_error(scope->resolver->diags, call->span, "'dropout' needs 'rate='");
        diag_hint(diag, "such as rate=0.1");
        return false;
    }
    resolve_number(scope, rate->value, "'rate='");
    double value;
    if (!rate->value->ok || !expr_evaluate(scope->resolver->session, scope->resolver->program,
                                           rate->value, NULL, 0, &value))
        return rate->value->ok;
    const char *problem = dropout_rate_problem(value);
    if (problem)
        diag_error(scope->resolver->diags, rate->value->span, "%s", problem);
    return !problem;
}

// What is drawn for a position depends on the seed, so that this is one for all of them.
static bool check_seed(Scope *scope, const Expr *call) {
    const KeyArg *key = call_key(call, "seed");
    if (!key)
        return true;
    resolve_expr(scope, key->value, NULL);
    if (!resolve_expect_int(scope, key->value, "'seed='") || !key->value->result.count)
        return key->value->ok && elem_is_int(key->value->elem);
    diag_error(scope->resolver->diags, key->value->span, "'seed=' is one number, this is over %s",
               dimlist_text(scope->resolver->arena, &key->value->result));
    return false;
}

static bool check_dropout(Scope *scope, const Expr *call) {
    bool rate = check_rate(scope, call), seed = check_seed(scope, call);
    return rate && seed;
}

// Those of the argument that has all, the first such from `from` on around, else as they are met.
static NameList dims_of_broadcast(Arena *arena, const ExprList *args, uint32_t from) {
    NameList all = {0};
    for (uint32_t i = 0; i < args->count; i++)
        all = dimlist_union(arena, &all, &args->at[(i + from) % args->count]->result);
    for (uint32_t i = 0; i < args->count; i++) {
        const NameList *dims = &args->at[(i + from) % args->count]->result;
        if (dimlist_within(&all, dims))
            return *dims;
    }
    return all;
}

static void resolve_map(Scope *scope, Expr *call, const Wanted *wanted) {
    bool several = call->args.count > 1;
    bool extremum = call->builtin == BUILTIN_MIN || call->builtin == BUILTIN_MAX;
    Wanted part = wanted ? *wanted : (Wanted){0};
    part.in_sum = part.in_sum || several;
    for (uint32_t i = 0; i < call->args.count; i++)
        resolve_expr(scope, call->args.at[i], wanted ? &part : NULL);
    if (extremum && !several) {
        ask_for_reduced(scope, call, "reduced_dim");
        return;
    }
    bool fine = call->builtin != BUILTIN_DROPOUT || check_dropout(scope, call);
    if (!check_map_args(scope, call) || !fine)
        return;
    uint32_t condition = call->builtin == BUILTIN_WHERE; // counts last for the order of dims
    NameList dims = dims_of_broadcast(scope->resolver->arena, &call->args, condition);
    bool literal = true;
    for (uint32_t i = 0; i < call->args.count; i++) {
        const Expr *arg = call->args.at[(i + condition) % call->args.count];
        literal = literal && arg->is_literal && !arg->result.count;
        if (i + condition < call->args.count)
            elem_meet(call, arg, i == 0);
    }
    call->is_literal = literal && !is_cast(call->builtin) && call->builtin != BUILTIN_RANDOM;
    expr_set(call, dims, map_elem(call, call->elem));
    resolve_warn_extent(scope, call);
}

// ---- dispatch -----------------------------------------------------------------------------------

static void resolve_move(Scope *scope, Expr *call, const Wanted *wanted) {
    switch (call->builtin) {
    case BUILTIN_INDEX:
        resolve_index(scope, call);
        break;
    case BUILTIN_ONE_HOT:
        resolve_one_hot(scope, call);
        break;
    case BUILTIN_GATHER:
        resolve_gather(scope, call);
        break;
    case BUILTIN_SCATTER_ADD:
        resolve_scatter(scope, call);
        break;
    case BUILTIN_SHIFT:
        resolve_shift(scope, call);
        break;
    case BUILTIN_SWAP:
        resolve_swap(scope, call, wanted);
        break;
    case BUILTIN_SLICE:
        resolve_slice(scope, call, wanted);
        break;
    case BUILTIN_SPLIT:
    case BUILTIN_MERGE:
        resolve_regroup(scope, call);
        break;
    case BUILTIN_FULL:
        resolve_full(scope, call, wanted);
        break;
    case BUILTIN_CONCAT:
        resolve_concat(scope, call, wanted);
        break;
    default:
        ice("no rule for the dims of '%s'", builtins[call->builtin].name);
    }
}

// n_wanted: the values that are asked for.
static void resolve_shaped(Scope *scope, Expr *call, const Wanted *wanted, uint32_t n_wanted) {
    call->builtin = builtin_find(call->name.name);
    const BuiltinInfo *info = &builtins[call->builtin];
    expr_poison(call);
    if (!check_keys(scope, call, info) || !check_count(scope, call, info) ||
        !check_extras(scope, call, info))
        return;
    switch (is_reduction(call, call->builtin) ? SHAPE_REDUCE : info->shape) {
    case SHAPE_EINSUM:
        resolve_einsum(scope, call, wanted);
        break;
    case SHAPE_REDUCE:
        resolve_reduction(scope, call);
        break;
    case SHAPE_KEEP:
        resolve_row(scope, call, wanted);
        break;
    case SHAPE_MAP:
        resolve_map(scope, call, wanted);
        break;
    case SHAPE_MOVE:
        resolve_move(scope, call, wanted);
        break;
    case SHAPE_ORDER:
        resolve_order(scope, call, n_wanted);
        break;
    }
}

// Requires: the call names a built-in.
void resolve_builtin(Scope *scope, Expr *call, const Wanted *wanted) {
    resolve_shaped(scope, call, wanted, 1);
}

bool builtin_gives_several(Builtin builtin) {
    return builtin == BUILTIN_TOPK;
}

void resolve_builtin_for(Scope *scope, Expr *call, uint32_t n_wanted) {
    resolve_shaped(scope, call, NULL, n_wanted);
}
