// SPDX-License-Identifier: Apache-2.0
// A graph's rules about extents as a table of the runtime: trees of dims become lists of words.
//
//     t = p + n        { ATT_RULE_COMPUTES, t, "p + n", { DIM, p, DIM, n, ADD } }
#include "product/product.h"

static const int64_t ops[N_FORMULA] = {
    [FORMULA_NUMBER] = ATT_FORMULA_NUMBER, [FORMULA_DIM] = ATT_FORMULA_DIM,
    [FORMULA_ADD] = ATT_FORMULA_ADD,       [FORMULA_SUB] = ATT_FORMULA_SUB,
    [FORMULA_MUL] = ATT_FORMULA_MUL,       [FORMULA_DIV] = ATT_FORMULA_DIV,
    [FORMULA_MOD] = ATT_FORMULA_MOD,       [FORMULA_FLOORDIV] = ATT_FORMULA_FLOORDIV,
    [FORMULA_POW] = ATT_FORMULA_POW,       [FORMULA_MIN] = ATT_FORMULA_MIN,
    [FORMULA_MAX] = ATT_FORMULA_MAX,
};
static const int64_t kinds[] = {
    [RULE_COMPUTES] = ATT_RULE_COMPUTES,   [RULE_IS] = ATT_RULE_IS,
    [RULE_REACHES] = ATT_RULE_REACHES,     [RULE_BEGINS] = ATT_RULE_BEGINS,
    [RULE_EVALUATES] = ATT_RULE_EVALUATES, [RULE_HOLDS] = ATT_RULE_HOLDS,
    [RULE_CHOOSES] = ATT_RULE_CHOOSES,
};

typedef VEC(int64_t) Words;

// dims: module dims by DimId.
static void add_words(Arena *arena, const Formula *formula, const int64_t *dims, Words *words) {
    if (formula->a) {
        add_words(arena, formula->a, dims, words);
        add_words(arena, formula->b, dims, words);
    }
    vec_push(arena, words, ops[formula->op]);
    if (formula->op == FORMULA_NUMBER)
        vec_push(arena, words, formula->number);
    if (formula->op == FORMULA_DIM)
        vec_push(arena, words, dims[formula->dim]);
}

void product_formula_dims(const Formula *formula, bool *needed) {
    if (formula->op == FORMULA_DIM)
        needed[formula->dim] = true;
    if (formula->a) {
        product_formula_dims(formula->a, needed);
        product_formula_dims(formula->b, needed);
    }
}

AttFormula product_formula(Arena *arena, const Graph *graph, const Formula *formula,
                           const int64_t *dims) {
    Words words = {0};
    add_words(arena, formula, dims, &words);
    return (AttFormula){formula_text(graph, formula, arena), words.count, words.at};
}

AttRule *product_rules(Arena *arena, const Graph *graph, const int64_t *dims) {
    AttRule *rules = arena_array(arena, AttRule, graph->rules.count + 1);
    for (uint32_t i = 0; i < graph->rules.count; i++) {
        const ExtentRule *rule = &graph->rules.at[i];
        rules[i] = (AttRule){kinds[rule->kind], dims[rule->dim],
                             product_formula(arena, graph, rule->formula, dims)};
    }
    return rules;
}
