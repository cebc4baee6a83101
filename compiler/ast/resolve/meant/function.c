// SPDX-License-Identifier: Apache-2.0
// The meaning of functions and methods of other languages; see meant.h.
//
//     X.sum(dim=-1, keepdim=True)      sum(X, reduced_dim=d)
//     torch.cat([A, B], dim=1)         concat(A, B, dim=d_all -> [n, d_all])
//     masked_fill(S, mask, -inf)       where(mask, -inf, S)
#include "ast/resolve/meant/meant.h"

#include <string.h>

typedef enum {
    IS_HINT,      // nothing to write, only something to say
    IS_ARGUMENT,  // the first argument as it is
    IS_SPREAD,    // that, with a place of one position more
    IS_REPEATED,  // that, with as many places as there are arguments, or as the argument has
    IS_TRANSPOSE, // that, with its dims in another order
    IS_CALL,      // a built-in of another name
    IS_MODULE,    // likewise, made and called at once
    IS_OPERATOR,  // of two
    IS_PRODUCT,   // of matrices
    IS_OUTER,     // of vectors
    IS_LINEAR,    // of an input with a matrix [out, in], and a bias
    IS_CONCAT,
    IS_TO, // to the type that is the argument
    IS_CLIP,
    IS_FILL,
    IS_RANGE, // index(n)
    IS_MASK,  // of the last two dims, `name`: the comparison
    IS_SIZE,
    IS_VIEW,
    IS_FLAT,    // several dims as one
    IS_UNFLAT,  // one as several
    IS_PATTERN, // of einops
    IS_REDUCED, // likewise
    IS_CONSTANT,
    IS_LIKE, // a constant over the dims of the argument
    IS_GATHER,
    IS_DIAGONAL, // of a matrix, or its sum
    IS_EYE,
    IS_PART,  // of a pair of values, `name`: the first or the second
    IS_MOVED, // along a dim, and what leaves it at one end comes in at the other
} Kind;

typedef struct {
    const char *names; // all that it is called
    Kind kind;
    const char *name;
    Oper oper;
} Function;

static const char regrouped[] =
    "split(x, d -> h k) takes one dim as several, merge(x, h k -> d) several as one";
static const char repeated[] =
    "full(x -> [n, d, r]) repeats it over a dim 'r', concat(x, x, dim=m) one behind the other";
static const char gathered[] = "gather(x, ids, dim=n) takes the positions of 'n' that 'ids' says";
static const char diagonal[] =
    "sum(where(index(n) == index(m), x, 0), reduced_dim=m) is the diagonal of x[n, m]";
static const char moved[] =
    "gather(x, n - 1 - index(n), dim=n) is 'x' from its end, gather(x, (index(n) - by) % n, dim=n) "
    "goes round";
static const char inverse[] = "there are no inverses of sin, cos and tan";
static const char drawn[] =
    "a tensor that is drawn is a parameter, which '--seed' draws; random(seed, stream, i) is "
    "number 'i' of a stream";
static const char dropped[] =
    "dropout(x, rate=0.1, seed=s) drops by the seed 's', a whole number that is an argument of the "
    "entry; without 'seed=' nothing is dropped (language 5.7)";
static const char joined[] =
    "concat(x, y, dim=t -> [t, d]) joins x[n, d] and y[m, d] along a new dim 't'";
static const char padded[] =
    "shift(x, n, 1) moves zeros in at the begin; concat(zeros[more, d], x, dim=t -> [t, d]) puts "
    "them before it, with 'dim more = 1' at the top of the file";
static const char likelihood[] =
    "of log-probabilities x[n, v] it is '-mean(gather(x, label, dim=v), reduced_dim=n)', of logits "
    "'mean(cross_entropy(logits, label), reduced_dim=n)'";
static const char stacked[] = "tensors of one form are one tensor with a dim more: declare it so";

static const Function functions[] = {
    {"reshape view", IS_VIEW, regrouped, 0},
    {"shape", IS_HINT, "the name of a dim, as a number, is its extent", 0},
    {"dtype", IS_HINT, "an element type stands behind a ':' where a tensor is declared", 0},
    {"rearrange", IS_PATTERN, regrouped, 0},
    {"flatten ravel", IS_FLAT, regrouped, 0},
    {"unflatten", IS_UNFLAT, regrouped, 0},
    {"chunk", IS_HINT, "slice(x, d, from, to) takes the positions of a part", 0},
    {"zeros ones", IS_CONSTANT, NULL, 0},
    {"zeros_like", IS_LIKE, "zeros", 0},
    {"ones_like", IS_LIKE, "ones", 0},
    {"stack", IS_HINT, stacked, 0},
    {"embedding", IS_HINT, "gather(E, ids, dim=v) takes those rows of E[v, d] that 'ids' says", 0},
    {"Embedding", IS_HINT, "declare the table by 'param E[v, d]': gather(E, ids, dim=v)", 0},
    {"Linear", IS_HINT, "declare the matrix by 'param W[d, k]' and write einsum", 0},
    {"Dropout", IS_HINT, dropped, 0},
    {"asin acos atan atan2 arcsin arccos arctan arctan2", IS_HINT, inverse, 0},
    {"contiguous clone copy cpu cuda squeeze", IS_ARGUMENT, NULL, 0},
    {"unsqueeze expand_dims", IS_SPREAD, NULL, 0},
    {"expand expand_as broadcast_to", IS_REPEATED, NULL, 0},
    {"repeat tile repeat_interleave", IS_HINT, repeated, 0},
    {"index_select take take_along_dim take_along_axis", IS_GATHER, gathered, 0},
    {"diag diagonal trace", IS_DIAGONAL, diagonal, 0},
    {"eye", IS_EYE, "where(index(n) == index(m), 1.0, 0.0) is one where 'n' and 'm' meet", 0},
    {"roll flip", IS_MOVED, moved, 0},
    {"cross_entropy", IS_HINT,
     "mean(cross_entropy(logits, label), reduced_dim=n) is the mean of what each position loses",
     0},
    {"randn rand normal", IS_HINT, drawn, 0},
    {"scaled_dot_product_attention", IS_HINT,
     "softmax(einsum(Q[n, k], K[m, k] -> [n, m]) / sqrt(k), reduced_dim=m) has the weights, an "
     "einsum of them with V[m, k] the result",
     0},
    {"transpose permute swapaxes T mT t", IS_TRANSPOSE, NULL, 0},
    {"detach", IS_CALL, "stop_gradient", 0},
    {"maximum clamp_min fmax", IS_CALL, "max", 0},
    {"clamp_max minimum fmin", IS_CALL, "min", 0},
    {"swish", IS_CALL, "silu", 0},
    {"ReLU", IS_MODULE, "relu", 0},
    {"GELU", IS_MODULE, "gelu", 0},
    {"SiLU", IS_MODULE, "silu", 0},
    {"Sigmoid", IS_MODULE, "sigmoid", 0},
    {"Tanh", IS_MODULE, "tanh", 0},
    {"Softplus", IS_MODULE, "softplus", 0},
    {"Softmax", IS_MODULE, "softmax", 0},
    {"LogSoftmax", IS_MODULE, "log_softmax", 0},
    {"reduce", IS_REDUCED, "sum(x, reduced_dim=d), and mean, max, min and prod alike", 0},
    {"add", IS_OPERATOR, NULL, OPER_ADD},
    {"sub subtract", IS_OPERATOR, NULL, OPER_SUB},
    {"mul multiply", IS_OPERATOR, NULL, OPER_MUL},
    {"div divide true_divide", IS_OPERATOR, NULL, OPER_DIV},
    {"outer", IS_OUTER, "'x[n] * y[m]' has every pair of positions", 0},
    {"pow power", IS_OPERATOR, NULL, OPER_POW},
    {"logical_and", IS_OPERATOR, NULL, OPER_AND},
    {"logical_or", IS_OPERATOR, NULL, OPER_OR},
    {"mod remainder", IS_OPERATOR, NULL, OPER_MOD},
    {"floor_divide", IS_OPERATOR, NULL, OPER_FLOORDIV},
    {"eq equal", IS_OPERATOR, NULL, OPER_EQ},
    {"ne not_equal", IS_OPERATOR, NULL, OPER_NE},
    {"lt less", IS_OPERATOR, NULL, OPER_LT},
    {"le less_equal", IS_OPERATOR, NULL, OPER_LE},
    {"gt greater", IS_OPERATOR, NULL, OPER_GT},
    {"ge greater_equal", IS_OPERATOR, NULL, OPER_GE},
    {"matmul mm bmm mv dot", IS_PRODUCT, NULL, 0},
    {"linear", IS_LINEAR, NULL, 0},
    {"cat concatenate concat", IS_CONCAT, joined, 0},
    {"pad", IS_HINT, padded, 0},
    {"nll_loss", IS_HINT, likelihood, 0},
    {"to astype type", IS_TO, NULL, 0},
    {"clip clamp", IS_CLIP, NULL, 0},
    {"masked_fill", IS_FILL, NULL, 0},
    {"arange range", IS_RANGE, NULL, 0},
    {"tril", IS_MASK, "<=", 0},
    {"triu", IS_MASK, ">=", 0},
    {"values", IS_PART, "first", 0},
    {"indices", IS_PART, "second", 0},
    {"len size", IS_SIZE, NULL, 0},
};

static const Function *find_function(Name name) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (words_have(functions[i].names, name))
            return &functions[i];
    return NULL;
}

// ---- arguments

Expr *given_key(const Given *given, const char *key) {
    for (uint32_t i = 0; i < given->keys->count; i++)
        if (!strcmp(given->keys->at[i].key.name, key))
            return given->keys->at[i].value;
    return NULL;
}

bool key_says_dim(Name key) {
    return words_have("reduced_dim dim dims axis axes", key);
}

Expr *given_where(const Given *given) {
    for (uint32_t i = 0; i < given->keys->count; i++)
        if (key_says_dim(given->keys->at[i].key.name))
            return given->keys->at[i].value;
    return NULL;
}

bool given_list(const Expr *expr) {
    return expr->kind == EXPR_TUPLE || (expr->kind == EXPR_ARRAY && !expr->has_arrow) ||
           (expr_is_foreign(expr, FOREIGN_LIST));
}

Name dim_at(const Meant *of, const Expr *place) {
    NameList places;
    int64_t at;
    if (!expr_whole(place, &at) || !meant_places(of, &places))
        return NULL;
    at += at < 0 ? places.count : 0;
    return at >= 0 && at < places.count ? places.at[at] : NULL;
}

bool names_dim(const Meaning *m, const Expr *expr) {
    return expr->kind == EXPR_NAME && scope_knows_dim(m->scope, expr->name.name);
}

Name dim_given(const Meant *of, const Expr *expr) {
    if (expr->kind != EXPR_NAME)
        return dim_at(of, expr);
    return namelist_has(&of->dims, expr->name.name) ? expr->name.name : NULL;
}

static bool dims_given(Meaning *m, const Meant *of, const Expr *expr, NameList *out) {
    uint32_t n = given_list(expr) ? expr->args.count : 1;
    for (uint32_t i = 0; i < n; i++) {
        Name dim = dim_given(of, given_list(expr) ? expr->args.at[i] : expr);
        if (!dim || namelist_has(out, dim))
            return false;
        vec_push(m->arena, out, dim);
    }
    return n > 0;
}

// ---- reductions and rows

// Whether a reduction here has words for all keywords.
static bool keys_are_known(const Given *given) {
    bool known = true;
    for (uint32_t i = 0; i < given->keys->count; i++) {
        Name key = given->keys->at[i].key.name;
        known = known && (key_says_dim(key) || words_have("keepdims keepdim", key));
    }
    return known;
}

static bool reduced_dims(Meaning *m, const Given *given, const Meant *of, bool row, NameList *out) {
    const Expr *dims = given_where(given);
    if (dims && !dims_given(m, of, dims, out))
        return false;
    for (uint32_t i = 1; i < given->args->count; i++) // reduced_dim=n, d
        if (!dims_given(m, of, given->args->at[i], out))
            return false;
    if (out->count)
        return true;
    if (!row)
        *out = of->dims;
    return !row && of->dims.count > 0;
}

// result: what is reduced; of a row the dims stay.
static const char *reduce(Meaning *m, const Given *given, bool row, Meant *result) {
    NameList dims = {0};
    bool fine = result->has_dims && keys_are_known(given);
    if (!fine || !reduced_dims(m, given, result, row, &dims))
        return NULL;
    const Expr *kept =
        given_key(given, "keepdim") ? given_key(given, "keepdim") : given_key(given, "keepdims");
    if (!row)
        meant_without(m, result, &dims, kept);
    const char *all = dimlist_text(m->arena, &dims);
    return dims.count > 1 ? arena_printf(m->arena, "(%.*s)", (int)strlen(all) - 2, all + 1)
                          : dims.at[0];
}

bool meant_reduced(Meaning *m, const Given *given, Meant *result, const char **dims) {
    *dims = reduce(m, given, false, result);
    return *dims != NULL;
}

static bool is_no_tensor(const Meaning *m, const Expr *expr) {
    return names_dim(m, expr) && !scope_find(m->scope, expr->name.name);
}

// sum(m, X): the dim comes first.
static bool dim_is_first(const Meaning *m, const Given *given) {
    return given->args->count == 2 && is_no_tensor(m, given->args->at[0]) &&
           !is_no_tensor(m, given->args->at[1]);
}

static Meant meant_reduction(Meaning *m, Builtin builtin, const Given *given, bool row) {
    if (dim_is_first(m, given)) {
        ExprList turned = {0};
        vec_push(m->arena, &turned, given->args->at[1]);
        vec_push(m->arena, &turned, given->args->at[0]);
        return meant_reduction(m, builtin, &(Given){&turned, given->keys}, row);
    }
    Meant of = meant(m, given->args->at[0]);
    const char *dims = of.text ? reduce(m, given, row, &of) : NULL;
    if (!dims)
        return (Meant){0};
    const char *key = builtin == BUILTIN_CUMSUM ? "dim" : "reduced_dim";
    return meant_placed_as(
        arena_printf(m->arena, "%s(%s, %s=%s)", builtin_name(builtin), of.text, key, dims),
        HOLDS_ALL, &of);
}

// ---- calls that stay calls

static Meant meant_call(Meaning *m, const char *name, const Given *given) {
    Text text = {.arena = m->arena};
    Meant all = {.has_dims = true};
    Expr call = {.kind = EXPR_CALL, .name.name = name, .keys = *given->keys};
    bool pointwise = call_is_pointwise(&call);
    text_printf(&text, "%s(", name);
    for (uint32_t i = 0; i < given->args->count; i++) {
        Meant arg = meant(m, given->args->at[i]);
        if (!arg.text || (pointwise && !meant_meet(m, &all, &arg)))
            return (Meant){0};
        text_printf(&text, "%s%s", i ? ", " : "", arg.text);
    }
    all.has_dims = all.has_dims && pointwise;
    for (uint32_t i = 0; i < given->keys->count; i++) {
        Meant value = meant(m, given->keys->at[i].value);
        if (!value.text)
            return value;
        text_printf(&text, "%s%s=%s", i || given->args->count ? ", " : "",
                    given->keys->at[i].key.name, value.text);
    }
    text_add(&text, ")");
    return meant_placed_as(text.at, HOLDS_ALL, &all);
}

// What there is to say of a built-in that is called in the manner of other languages.
static const char *builtin_form(Builtin builtin) {
    static const char *const forms[N_BUILTIN] = {
        [BUILTIN_SPLIT] = "split(x, d -> h k) takes one dim as several, slice(x, d, from, to) "
                          "the positions of a part",
        [BUILTIN_MERGE] = "merge(x, h k -> d) takes several dims as one",
        [BUILTIN_GATHER] = gathered,
        [BUILTIN_SHIFT] = "shift(x, n, 1) moves it along 'n' by one position",
        [BUILTIN_SLICE] = "slice(x, d, from, to) takes the positions of a part",
        [BUILTIN_SWAP] = "swap(x, n, m) exchanges dims that are alike",
        [BUILTIN_ONE_HOT] = "one_hot(ids, v) is over a dim 'v' more than 'ids'",
        [BUILTIN_DROPOUT] = dropped,
        [BUILTIN_FULL] = "full(x -> [n, d]) is 'x' over [n, d]",
        [BUILTIN_WHERE] = "where(condition, a, b) is 'a' where the condition holds, else 'b'",
    };
    return forms[builtin];
}

// Whether the arguments that are dims here are the names of some.
static bool dims_are_named(const Meaning *m, Builtin builtin, const Given *given) {
    static const uint8_t places[N_BUILTIN] = {
        [BUILTIN_INDEX] = 1, [BUILTIN_ONE_HOT] = 2,  [BUILTIN_SHIFT] = 2,
        [BUILTIN_SLICE] = 2, [BUILTIN_SWAP] = 2 | 4,
    };
    for (uint32_t i = 0; i < given->args->count && i < 3; i++) {
        const Expr *arg = given->args->at[i];
        if (places[builtin] >> i & 1 && !names_dim(m, arg))
            return false;
    }
    return true;
}

// The second argument of max and min is another tensor, or what other languages say a dim by.
static bool says_dim(const Meaning *m, const Expr *expr) {
    int64_t number;
    return is_no_tensor(m, expr) || given_list(expr) || expr_whole(expr, &number);
}

// own: the call is one of this language, not a method or a function of a module.
static Meant meant_builtin(Meaning *m, Builtin builtin, const Given *given, bool own) {
    static const bool reduces[N_BUILTIN] = {
        [BUILTIN_SUM] = true,    [BUILTIN_MEAN] = true,      [BUILTIN_PROD] = true,
        [BUILTIN_ARGMAX] = true, [BUILTIN_LOGSUMEXP] = true, [BUILTIN_MAX_NUMBER] = true,
        [BUILTIN_MIN] = true,    [BUILTIN_MAX] = true,
    };
    bool row =
        builtin == BUILTIN_SOFTMAX || builtin == BUILTIN_LOG_SOFTMAX || builtin == BUILTIN_CUMSUM;
    bool extremum = builtin == BUILTIN_MIN || builtin == BUILTIN_MAX;
    own = own && builtin_takes(builtin, given->args->count, given->keys);
    bool pointwise =
        extremum && given->args->count > 1 && (own || !says_dim(m, given->args->at[1]));
    if (given->args->count && (row || (reduces[builtin] && !pointwise)))
        return meant_reduction(m, builtin, given, row);
    if (builtin == BUILTIN_TOPK || builtin == BUILTIN_SORT || builtin == BUILTIN_ARGSORT)
        return meant_order(m, builtin, given);
    if (builtin == BUILTIN_EINSUM)
        return meant_letters(m, given->args);
    if (builtin == BUILTIN_GATHER)
        return meant_gather(m, builtin_name(builtin), given);
    if (builtin == BUILTIN_ONE_HOT)
        return meant_one_hot(m, given);
    if (builtin == BUILTIN_FULL)
        return meant_full(m, given);
    if (builtin == BUILTIN_DROPOUT &&
        !(given_key(given, "rate") && builtin_takes(builtin, given->args->count, given->keys)))
        return meant_dropout(m, given);
    bool regroups = builtin == BUILTIN_SPLIT || builtin == BUILTIN_MERGE;
    if (regroups || !builtin_takes(builtin, given->args->count, given->keys) ||
        !dims_are_named(m, builtin, given))
        return (Meant){0};
    return meant_call(m, builtin_name(builtin), given);
}

// ---- functions of other names

// X.float(), np.float32(X), float("-inf")
static Meant meant_cast(Meaning *m, const Given *given, Elem elem) {
    const Expr *arg = given->args->at[0];
    if (expr_is_foreign(arg, FOREIGN_STRING)) {
        bool negative = arg->name.name[0] == '-';
        bool is_inf = !strncmp(arg->name.name + negative, "inf", 3);
        return is_inf ? meant_with_dims(negative ? "-inf" : "inf", HOLDS_SIGN, (NameList){0})
                      : (Meant){0};
    }
    return meant_call(m, elem_name(elem), given);
}

static Meant meant_to(Meaning *m, const Given *given) {
    const Expr *to = given->args->count == 2 ? given->args->at[1] : NULL;
    bool named = to && (to->kind == EXPR_NAME || (expr_is_foreign(to, FOREIGN_MEMBER)));
    if (!named)
        return (Meant){0};
    Elem elem;
    if (!elem_from_foreign(to->name.name, &elem))
        return (Meant){0};
    ExprList first = {.at = given->args->at, .count = 1};
    return meant_call(m, elem_name(elem), &(Given){&first, given->keys});
}

// Softmax(dim=-1)(x)
static Meant meant_module(Meaning *m, const char *name, const Given *given) {
    Builtin builtin = builtin_find(name);
    if (builtin == BUILTIN_SOFTMAX || builtin == BUILTIN_LOG_SOFTMAX)
        return meant_reduction(m, builtin, given, true);
    bool alone = given->args->count == 1 && !given->keys->count;
    return alone ? meant_call(m, name, given) : (Meant){0};
}

static Meant meant_linear(Meaning *m, const Given *given) {
    uint32_t n = given->args->count;
    if (n < 2 || n > 3 || given->keys->count)
        return (Meant){0};
    ExprList matrix = {.at = given->args->at + 1, .count = 1};
    Meant x = meant(m, given->args->at[0]),
          w = meant_transpose(m, &(Given){&matrix, given->keys}, false);
    Meant product = meant_product(m, &x, &w);
    if (n == 2)
        return product;
    Meant bias = meant(m, given->args->at[2]);
    return meant_binary(m, OPER_ADD, &product, &bias);
}

static Meant meant_shape(Meaning *m, Name name, Kind kind, const Given *given) {
    const Expr *const *args = (const Expr *const *)given->args->at;
    uint32_t n = given->args->count;
    bool string = n == 2 && expr_is_foreign(args[1], FOREIGN_STRING);
    if (kind == IS_PATTERN)
        return string ? meant_rearrange(m, args[0], args[1]->name.name, given->keys) : (Meant){0};
    if (given->keys->count)
        return (Meant){0};
    if (kind == IS_CONSTANT)
        return meant_constant(m, name, args, n);
    return n > 1 ? meant_view(m, args[0], args + 1, n - 1) : (Meant){0};
}

static Meant meant_known(Meaning *m, Name name, const Function *function, const Given *given) {
    Meant a = {0}, b = {0};
    if (function->kind == IS_OPERATOR || function->kind == IS_PRODUCT ||
        function->kind == IS_OUTER) {
        if (given->args->count != 2 || given->keys->count)
            return a;
        a = meant(m, given->args->at[0]);
        b = meant(m, given->args->at[1]);
    }
    switch (function->kind) {
    case IS_ARGUMENT:
        return meant_argument(m, given, !strcmp(name, "squeeze"));
    case IS_SPREAD:
        return meant_unsqueezed(m, given);
    case IS_REPEATED:
        return meant_repeated(m, given);
    case IS_TRANSPOSE:
        return meant_transpose(m, given, !strcmp(name, "mT"));
    case IS_CALL:
        return meant_call(m, function->name, given);
    case IS_MODULE:
        return meant_module(m, function->name, given);
    case IS_REDUCED:
        return meant_pattern_reduced(m, given);
    case IS_OPERATOR:
        return meant_binary(m, function->oper, &a, &b);
    case IS_PRODUCT:
        return meant_product(m, &a, &b);
    case IS_OUTER:
        return meant_outer(m, &a, &b);
    case IS_LINEAR:
        return meant_linear(m, given);
    case IS_CONCAT:
        return meant_concat(m, given);
    case IS_TO:
        return meant_to(m, given);
    case IS_CLIP:
        return meant_clip(m, given);
    case IS_FILL:
        return meant_fill(m, given);
    case IS_RANGE:
        return meant_range(m, given);
    case IS_MASK:
        return meant_mask(m, given, function->name);
    case IS_SIZE:
        return meant_size(m, given);
    case IS_FLAT:
        return meant_flatten(m, given);
    case IS_UNFLAT:
        return meant_unflatten(m, given);
    case IS_VIEW:
    case IS_PATTERN:
    case IS_CONSTANT:
        return meant_shape(m, name, function->kind, given);
    case IS_LIKE:
        return meant_constant_like(m, function->name, given->args->at[0]);
    case IS_GATHER:
        return meant_gather(m, name, given);
    case IS_DIAGONAL:
        return meant_diagonal(m, name, given);
    case IS_EYE:
        return meant_eye(m, given);
    case IS_PART:
        return meant_of_several(m, given->args->at[0], strcmp(function->name, "second") == 0, 2);
    case IS_MOVED:
        return meant_moved(m, name, given);
    case IS_HINT:
        break;
    }
    return (Meant){0};
}

// ---- the whole

bool meant_knows(const Meaning *m, Name function) {
    Elem elem;
    return builtin_find(function) != BUILTIN_NONE || find_function(function) ||
           meant_is_formula(function) || elem_from_foreign(function, &elem) ||
           program_find_def(m->program, function);
}

Meant meant_function(Meaning *m, const Expr *expr, const ExprList *args, const char **hint) {
    Given given = {args, &expr->keys};
    Name name = expr->name.name;
    const Function *function = find_function(name);
    Builtin builtin = builtin_find(name);
    const Def *def = program_find_def(m->program, name);
    *hint = NULL;
    if (builtin != BUILTIN_NONE && builtin != BUILTIN_CONCAT) {
        Meant found = meant_builtin(m, builtin, &given, expr->kind == EXPR_CALL);
        *hint = found.text ? NULL : builtin_form(builtin);
        return found;
    }
    bool own = def && expr->kind == EXPR_CALL; // not a method of another language
    Elem elem;
    if (!def && elem_from_foreign(name, &elem))
        return args->count ? meant_cast(m, &given, elem) : (Meant){0};
    Meant formula = function || own ? (Meant){0} : meant_formula(m, name, &given, hint);
    if (formula.text)
        *hint = NULL;
    if (*hint || formula.text)
        return formula;
    if (!function || own) {
        bool fits = own || (def && def->params.count == args->count);
        return fits ? meant_call(m, name, &given) : (Meant){0};
    }
    Meant known = args->count ? meant_known(m, name, function, &given) : (Meant){0};
    bool says = function->kind != IS_CALL && function->kind != IS_MODULE &&
                function->kind != IS_LIKE && function->kind != IS_MASK && function->kind != IS_PART;
    if (says && !known.text)
        *hint = function->name;
    return known;
}
