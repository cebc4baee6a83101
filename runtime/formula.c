// SPDX-License-Identifier: Apache-2.0
// Extents that follow from others: `t = p + n`, computed when a call begins, and rules that the
// extents of a call must keep.
//
// A formula is a list of words for a machine with a stack: p + n is DIM p, DIM n, ADD.

#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

static int64_t floor_divide(int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

static bool power(int64_t base, int64_t exponent, int64_t *out) {
    int64_t value = 1;
    bool small = base >= -1 && base <= 1;
    if (small && exponent > 2) // the powers of -1, 0 and 1 come again
        exponent = 2 - exponent % 2;
    for (int64_t i = 0; i < exponent; i++)
        if (__builtin_mul_overflow(value, base, &value))
            return false;
    *out = value;
    return true;
}

typedef struct {
    int64_t value;
    const char *why; // NULL: nothing is wrong with it
    bool remainder;  // a divided by b leaves one
    bool any;        // 0 / 0: whatever times nothing is nothing, so any extent will do
    int64_t a, b;
} Result;

static Result apply(int64_t op, int64_t a, int64_t b) {
    Result result = {.a = a, .b = b};
    int64_t *out = &result.value;
    bool divides = op == ATT_FORMULA_DIV || op == ATT_FORMULA_FLOORDIV || op == ATT_FORMULA_MOD;
    bool fits = !(divides && a == INT64_MIN && b == -1);
    if (divides && b == 0)
        result.why = "a division by zero";
    else if (op == ATT_FORMULA_POW && b < 0)
        result.why = "a negative power";
    else if (op == ATT_FORMULA_DIV && fits && a % b)
        result.why = "a remainder", result.remainder = true;
    else if (op == ATT_FORMULA_ADD)
        fits = !__builtin_add_overflow(a, b, out);
    else if (op == ATT_FORMULA_SUB)
        fits = !__builtin_sub_overflow(a, b, out);
    else if (op == ATT_FORMULA_MUL)
        fits = !__builtin_mul_overflow(a, b, out);
    else if (op == ATT_FORMULA_POW)
        fits = power(a, b, out);
    else if (op == ATT_FORMULA_MIN)
        *out = a < b ? a : b;
    else if (op == ATT_FORMULA_MAX)
        *out = a > b ? a : b;
    else if (fits)
        *out = op == ATT_FORMULA_MOD ? a - b * floor_divide(a, b) : floor_divide(a, b);
    if (!fits)
        result.why = "a number that does not fit in 63 bits";
    return result;
}

// stack: room for as many numbers as the formula has words.
static Result evaluate(const AttFormula *formula, const int64_t *extents, int64_t *stack) {
    Result result = {0};
    int64_t depth = 0;
    for (int64_t i = 0; i < formula->n_words && !result.why; i++) {
        int64_t op = formula->words[i];
        if (op == ATT_FORMULA_NUMBER || op == ATT_FORMULA_DIM) {
            int64_t operand = formula->words[++i];
            stack[depth++] = op == ATT_FORMULA_DIM ? extents[operand] : operand;
            continue;
        }
        result = apply(op, stack[depth - 2], stack[depth - 1]);
        result.any = op == ATT_FORMULA_DIV && !result.a && !result.b && i == formula->n_words - 1;
        stack[--depth - 1] = result.value;
    }
    result.value = stack[0];
    return result;
}

// The place among the words after which the next dim is named, from `at` on; -1: there is none.
static int64_t next_dim(const AttFormula *formula, int64_t at) {
    for (; at < formula->n_words; at++) {
        if (formula->words[at] == ATT_FORMULA_DIM)
            return at + 1;
        at += formula->words[at] == ATT_FORMULA_NUMBER;
    }
    return -1;
}

static bool is_open(const AttFormula *formula, const int64_t *extents) {
    for (int64_t at = next_dim(formula, 0); at >= 0; at = next_dim(formula, at + 1))
        if (extents[formula->words[at]] == ATT_EXTENT_UNKNOWN)
            return true;
    return false;
}

static bool is_named_before(const AttFormula *formula, int64_t place) {
    int64_t at = next_dim(formula, 0);
    while (formula->words[at] != formula->words[place])
        at = next_dim(formula, at + 1);
    return at < place;
}

// " with n = 2, p = 5": the dims of a formula, each once, and what they are; as many as fit.
static void write_values(const AttModule *module, const AttFormula *formula, const int64_t *extents,
                         char *text, size_t size) {
    size_t length = 0;
    text[0] = 0;
    for (int64_t at = next_dim(formula, 0); at >= 0; at = next_dim(formula, at + 1)) {
        int64_t dim = formula->words[at];
        if (is_named_before(formula, at))
            continue;
        int added = snprintf(text + length, size - length, "%s %s = %lld", length ? "," : " with",
                             module->dims[dim].name, (long long)extents[dim]);
        if (added < 0 || (size_t)added >= size - length) {
            text[length] = 0;
            return;
        }
        length += (size_t)added;
    }
}

static AttStatus fail_value(AttContext *ctx, const AttModule *module, const AttRule *rule,
                            const Result *result) {
    const char *name = module->dims[rule->dim].name;
    if (result->remainder)
        return att_fail(ctx, ATT_ARGUMENT, "%s = %s: %lld is not divisible by %lld", name,
                        rule->formula.text, (long long)result->a, (long long)result->b);
    return att_fail(ctx, ATT_ARGUMENT, "%s = %s: %s", name, rule->formula.text, result->why);
}

static AttStatus fail_extent(AttContext *ctx, const AttModule *module, const AttRule *rule,
                             int64_t value, const int64_t *extents) {
    char values[256];
    write_values(module, &rule->formula, extents, values, sizeof values);
    return att_fail(ctx, ATT_ARGUMENT, "%s = %s is %lld%s; extents are from 0 to %lld",
                    module->dims[rule->dim].name, rule->formula.text, (long long)value, values,
                    (long long)ATT_EXTENT_MOST);
}

// extent: of the rule's dim, or the value where it is not known.
static AttStatus check_rule(AttContext *ctx, const AttModule *module, const AttRule *rule,
                            int64_t value, int64_t extent, const int64_t *extents) {
    const char *name = module->dims[rule->dim].name, *text = rule->formula.text;
    long long found = (long long)value, known = (long long)extent;
    bool number = rule->formula.words[0] == ATT_FORMULA_NUMBER && rule->formula.n_words == 2;
    if (rule->kind == ATT_RULE_CHOOSES && value > extent)
        return att_fail(ctx, ATT_ARGUMENT, "argmax over %s has nothing to choose from: %s is %lld",
                        name, name, known);
    if (rule->kind == ATT_RULE_BEGINS && value < 0)
        return att_fail(ctx, ATT_ARGUMENT, "a slice of %s begins at %s, which is %lld", name, text,
                        found);
    if (rule->kind == ATT_RULE_HOLDS && value > extent)
        return att_fail(ctx, ATT_ARGUMENT, "%s must be at most %s: they are %lld and %lld", text,
                        name, (long long)value, (long long)extent);
    if (rule->kind == ATT_RULE_REACHES && value > extent && number)
        return att_fail(ctx, ATT_ARGUMENT, "a slice of %s ends at %lld, but %s is %lld", name,
                        found, name, known);
    bool equal = rule->kind == ATT_RULE_COMPUTES || rule->kind == ATT_RULE_IS;
    bool wrong = equal && value != extent;
    bool computes = rule->kind == ATT_RULE_COMPUTES || (equal && !wrong);
    if (wrong && number)
        return att_fail(ctx, ATT_ARGUMENT, "%s is %lld, but must be %lld", name, known, found);
    if (rule->kind == ATT_RULE_REACHES && value > extent)
        return att_fail(ctx, ATT_ARGUMENT,
                        "a slice of %s ends at %s, which is %lld, but %s is %lld", name, text,
                        found, name, known);
    if (computes && (value < 0 || value > ATT_EXTENT_MOST))
        return fail_extent(ctx, module, rule, value, extents);
    if (wrong)
        return att_fail(ctx, ATT_ARGUMENT, "%s is %lld, but %s is %lld", name, known, text, found);
    return ATT_OK;
}

// computed: NULL, or extents again, for what they lack. settles: what any extent will do for has no
// positions; otherwise it waits for another rule.
static AttStatus apply_rule(AttContext *ctx, const AttModule *module, const AttRule *rule,
                            int64_t *stack, const int64_t *extents, int64_t *computed,
                            bool settles) {
    bool equal = rule->kind == ATT_RULE_COMPUTES || rule->kind == ATT_RULE_IS;
    if (is_open(&rule->formula, extents))
        return ATT_OK;
    Result result = evaluate(&rule->formula, extents, stack);
    int64_t extent = extents[rule->dim], like = module->dims[rule->dim].like;
    if (result.any && (extent != ATT_EXTENT_UNKNOWN || !settles))
        return ATT_OK;
    if (result.any)
        result = (Result){0};
    if (result.why)
        return fail_value(ctx, module, rule, &result);
    if (extent == ATT_EXTENT_UNKNOWN && !equal)
        return ATT_OK;
    extent = extent == ATT_EXTENT_UNKNOWN ? result.value : extent;
    AttStatus status = check_rule(ctx, module, rule, result.value, extent, extents);
    for (int64_t d = 0; computed && !status && d < module->n_dims; d++)
        if (equal && module->dims[d].like == like)
            computed[d] = result.value;
    return status;
}

static AttStatus apply_rules(AttContext *ctx, const AttModule *module, const int64_t *extents,
                             int64_t *computed, bool settles) {
    AttStatus status = ATT_OK;
    int64_t most = 0;
    for (int64_t i = 0; i < module->n_rules; i++)
        most = module->rules[i].formula.n_words > most ? module->rules[i].formula.n_words : most;
    int64_t *stack = most ? calloc((size_t)most, sizeof *stack) : NULL;
    if (most && !stack)
        return att_no_memory(ctx);
    for (int64_t i = 0; i < module->n_rules && !status; i++)
        status = apply_rule(ctx, module, &module->rules[i], stack, extents, computed, settles);
    free(stack);
    return status;
}

static int64_t count_unknown(const AttModule *module, const int64_t *extents) {
    int64_t count = 0;
    for (int64_t d = 0; d < module->n_dims; d++)
        count += extents[d] == ATT_EXTENT_UNKNOWN;
    return count;
}

// Once is enough where all is known that callers tell; a program may know the parts of a whole.
AttStatus att_module_compute(AttContext *ctx, const AttModule *module, int64_t *extents) {
    int64_t before, left = count_unknown(module, extents);
    AttStatus status;
    bool settles = false;
    do {
        before = left;
        status = apply_rules(ctx, module, extents, extents, settles);
        left = count_unknown(module, extents);
        settles = left == before && !settles;
    } while (!status && left && (left < before || settles));
    return status;
}

AttStatus att_module_check_rules(AttContext *ctx, const AttModule *module, const int64_t *extents) {
    return apply_rules(ctx, module, extents, NULL, false);
}

bool att_formula_value(const AttFormula *formula, const int64_t *extents, int64_t *value) {
    int64_t *stack = formula->n_words ? calloc((size_t)formula->n_words, sizeof *stack) : NULL;
    if (!stack || is_open(formula, extents)) {
        free(stack);
        return false;
    }
    Result result = evaluate(formula, extents, stack);
    free(stack);
    *value = result.value;
    return !result.why;
}
