// SPDX-License-Identifier: Apache-2.0
// The meaning of functions that are formulas of what the language has; see meant.h.
//
//     log2(X + 1)       log(X + 1) / log(2)
//     X.var(dim=0)      mean((X - mean(X, reduced_dim=n)) ** 2, reduced_dim=n)
#include "ast/resolve/meant/meant.h"

#include <string.h>

typedef struct {
    const char *names; // all that it is called
    uint32_t n_args;   // at least
    // $1, $2, $3: an argument, in parentheses where it needs some; @1: as it is, where nothing
    // stands beside it; #: the dims that it is reduced over.
    const char *text;
    Holds holds;
    bool by_key;        // the dims; the second argument is something else
    const char *remark; // what it is, where other languages have something else
} Formula;

static const char population[] = "of the population: it divides by the number of positions";

static const Formula formulas[] = {
    {"log2", 1, "log(@1) / log(2)", HOLDS_PRODUCT, false, NULL},
    {"log10", 1, "log(@1) / log(10)", HOLDS_PRODUCT, false, NULL},
    {"log1p", 1, "log(1 + $1)", HOLDS_ALL, false, NULL},
    {"expm1", 1, "exp(@1) - 1", HOLDS_SUM, false, NULL},
    {"exp10", 1, "10 ** $1", HOLDS_POWER, false, NULL},
    {"logit", 1, "log($1 / (1 - $1))", HOLDS_ALL, false, NULL},
    {"sinh", 1, "(exp(@1) - exp(-$1)) / 2", HOLDS_PRODUCT, false, NULL},
    {"cosh", 1, "(exp(@1) + exp(-$1)) / 2", HOLDS_PRODUCT, false, NULL},
    {"asinh arcsinh", 1, "log($1 + sqrt($1 ** 2 + 1))", HOLDS_ALL, false, NULL},
    {"acosh arccosh", 1, "log($1 + sqrt($1 ** 2 - 1))", HOLDS_ALL, false, NULL},
    {"atanh arctanh", 1, "log((1 + $1) / (1 - $1)) / 2", HOLDS_PRODUCT, false, NULL},
    {"tan", 1, "sin(@1) / cos(@1)", HOLDS_PRODUCT, false, NULL},
    {"radians deg2rad", 1, "$1 * pi / 180", HOLDS_PRODUCT, false, NULL},
    {"degrees rad2deg", 1, "$1 * 180 / pi", HOLDS_PRODUCT, false, NULL},
    {"sign sgn", 1, "f32($1 > 0) - f32($1 < 0)", HOLDS_SUM, false, NULL},
    {"ceil", 1, "-floor(-$1)", HOLDS_SIGN, false, NULL},
    {"round rint", 1, "floor($1 + 0.5)", HOLDS_ALL, false, "halves go up"},
    {"trunc fix", 1, "where($1 < 0, -floor(-$1), floor(@1))", HOLDS_ALL, false, NULL},
    {"frac", 1, "$1 - where($1 < 0, -floor(-$1), floor(@1))", HOLDS_SUM, false, NULL},
    {"absolute fabs", 1, "abs(@1)", HOLDS_ALL, false, NULL},
    {"neg negative", 1, "-$1", HOLDS_SIGN, false, NULL},
    {"square", 1, "$1 ** 2", HOLDS_POWER, false, NULL},
    {"cbrt", 1, "where($1 < 0, -1, 1) * abs(@1) ** (1 / 3)", HOLDS_PRODUCT, false, NULL},
    {"reciprocal", 1, "1 / $1", HOLDS_PRODUCT, false, NULL},
    {"erfc", 1, "1 - erf(@1)", HOLDS_SUM, false, NULL},
    {"logsigmoid log_sigmoid", 1, "-softplus(-$1)", HOLDS_SIGN, false, NULL},
    {"mish", 1, "$1 * tanh(softplus(@1))", HOLDS_PRODUCT, false, NULL},
    {"softsign", 1, "$1 / (1 + abs(@1))", HOLDS_PRODUCT, false, NULL},
    {"tanhshrink", 1, "$1 - tanh(@1)", HOLDS_SUM, false, NULL},
    {"relu6", 1, "min(max(@1, 0), 6)", HOLDS_ALL, false, NULL},
    {"hardtanh", 1, "min(max(@1, -1), 1)", HOLDS_ALL, false, NULL},
    {"hardsigmoid", 1, "min(max($1 / 6 + 0.5, 0), 1)", HOLDS_ALL, false, NULL},
    {"hardswish", 1, "$1 * min(max($1 / 6 + 0.5, 0), 1)", HOLDS_PRODUCT, false, NULL},
    {"logical_not", 1, "not $1", HOLDS_NOT, false, NULL},
    {"isnan", 1, "$1 != $1", HOLDS_COMPARISON, false, NULL},
    {"isinf", 1, "abs(@1) == inf", HOLDS_COMPARISON, false, NULL},
    {"isfinite", 1, "abs(@1) < inf", HOLDS_COMPARISON, false, NULL},
    {"fmod", 2, "where($1 < 0, -1, 1) * (abs(@1) % abs(@2))", HOLDS_PRODUCT, false, NULL},
    {"hypot", 2, "sqrt($1 ** 2 + $2 ** 2)", HOLDS_ALL, false, NULL},
    {"logaddexp", 2, "max(@1, @2) + log(1 + exp(-abs($1 - $2)))", HOLDS_SUM, false, NULL},
    {"xlogy", 2, "where($1 == 0, 0, $1 * log(@2))", HOLDS_ALL, false, NULL},
    {"heaviside", 2, "where($1 == 0, @2, f32($1 > 0))", HOLDS_ALL, false, NULL},
    {"lerp", 3, "$1 + $3 * ($2 - $1)", HOLDS_SUM, false, NULL},
    {"amax nanmax", 1, "max(@1, reduced_dim=#)", HOLDS_ALL, false, NULL},
    {"amin", 1, "min(@1, reduced_dim=#)", HOLDS_ALL, false, NULL},
    {"argmin", 1, "argmax(-$1, reduced_dim=#)", HOLDS_ALL, false, NULL},
    {"average", 1, "mean(@1, reduced_dim=#)", HOLDS_ALL, false, NULL},
    {"var", 1, "mean(($1 - mean(@1, reduced_dim=#)) ** 2, reduced_dim=#)", HOLDS_ALL, false,
     population},
    {"std", 1, "sqrt(mean(($1 - mean(@1, reduced_dim=#)) ** 2, reduced_dim=#))", HOLDS_ALL, false,
     population},
    {"norm", 1, "sqrt(sum($1 ** 2, reduced_dim=#))", HOLDS_ALL, true, NULL},
    {"any", 1, "sum(i32(@1), reduced_dim=#) > 0", HOLDS_COMPARISON, false, NULL},
    {"all", 1, "sum(i32(not $1), reduced_dim=#) == 0", HOLDS_COMPARISON, false, NULL},
    {"count_nonzero", 1, "sum(i32(bool(@1)), reduced_dim=#)", HOLDS_ALL, false, NULL},
};

static const Formula *find_formula(Name name) {
    for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; i++)
        if (words_have(formulas[i].names, name))
            return &formulas[i];
    return NULL;
}

bool meant_is_formula(Name name) {
    return find_formula(name) != NULL;
}

// The formula with texts in the place of its arguments and dims.
static const char *filled(Arena *arena, const Formula *formula, const char *const *beside,
                          const char *const *alone, const char *dims) {
    Text text = {.arena = arena};
    for (const char *at = formula->text; *at; at++) {
        const char *const *args = *at == '$' ? beside : *at == '@' ? alone : NULL;
        if (args)
            text_add(&text, args[*++at - '1']);
        else if (*at == '#')
            text_add(&text, dims);
        else
            text_addn(&text, at, 1);
    }
    return text.at;
}

static const char *hint_of(Arena *arena, const Formula *formula, Name name) {
    static const char *const letters[] = {"x", "y", "z"};
    const char *args = formula->n_args == 1 ? "x" : formula->n_args == 2 ? "x, y" : "x, y, z";
    return arena_printf(arena, "%s(%s) is '%s'", name, args,
                        filled(arena, formula, letters, letters, "d"));
}

Meant meant_formula(Meaning *m, Name name, const Given *given, const char **hint) {
    const Formula *formula = find_formula(name);
    Meant result = {0};
    if (!formula)
        return result;
    *hint = hint_of(m->arena, formula, name);
    bool reduces = strchr(formula->text, '#') != NULL;
    if (given->args->count < formula->n_args ||
        (formula->by_key && given->args->count > formula->n_args) ||
        (!reduces && (given->args->count > formula->n_args || given->keys->count)))
        return result;
    const char *beside[3], *alone[3], *reduced = NULL;
    Meant all = {.has_dims = true};
    for (uint32_t i = 0; i < formula->n_args; i++) {
        Meant arg = meant(m, given->args->at[i]);
        if (!arg.text || !meant_meet(m, &all, &arg))
            return (Meant){0};
        beside[i] = meant_within(m, &arg, HOLDS_ALL);
        alone[i] = arg.text;
    }
    if (reduces && !meant_reduced(m, given, &all, &reduced))
        return (Meant){0};
    result =
        meant_placed_as(filled(m->arena, formula, beside, alone, reduced), formula->holds, &all);
    if (formula->remark)
        meant_remark(m, formula->remark);
    return result;
}
