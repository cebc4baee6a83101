// SPDX-License-Identifier: Apache-2.0
// Formulas of extents: trees over dims that are known once the inputs are there.
//
//     dim t = p + n                          t computes p + n
//     concat(M[p, d], X[n, d], dim=t)        t is p + n
//     slice(X, n, 1, n) over r               r computes n - 1, n reaches n, 1 begins in n
//
// A graph has a list of rules. Those that compute come first, each after the ones that it needs, so
// that one walk over the list gives all extents and checks them. runtime/formula.c does the same
// for what is compiled; build/extents.c makes the rules.
#include "graph/graph.h"

// ---- construction -------------------------------------------------------------------------------

const Formula *formula_number(Arena *arena, int64_t number) {
    Formula *made = arena_new_of(arena, Formula);
    made->number = number;
    return made;
}

const Formula *formula_copy(Arena *arena, const Formula *formula) {
    Formula *copy = formula ? arena_copy(arena, formula, sizeof *formula) : NULL;
    if (!copy)
        return NULL;
    copy->a = formula_copy(arena, formula->a);
    copy->b = formula_copy(arena, formula->b);
    return copy;
}

const Formula *formula_dim(const Graph *graph, DimId dim) {
    const Dim *root = &graph->dims.at[graph->dims.at[dim].like];
    if (root->extent != EXTENT_DYNAMIC)
        return formula_number(graph->arena, root->extent);
    Formula *made = arena_new_of(graph->arena, Formula);
    made->op = FORMULA_DIM;
    made->dim = root->like;
    return made;
}

static bool is_number(const Formula *formula, int64_t number) {
    return formula->op == FORMULA_NUMBER && formula->number == number;
}

bool formula_same(const Formula *a, const Formula *b) {
    if (a == b || a->op != b->op)
        return a == b;
    if (a->op == FORMULA_NUMBER)
        return a->number == b->number;
    if (a->op == FORMULA_DIM)
        return a->dim == b->dim;
    return formula_same(a->a, b->a) && formula_same(a->b, b->b);
}

// Those who are added or multiplied, in any depth; in a sum some are taken off.
typedef struct {
    const Formula *formula;
    bool off;
} Part;
typedef VEC(Part) Parts;

static FormulaOp chain_of(const Formula *formula) {
    return formula->op == FORMULA_SUB ? FORMULA_ADD : formula->op;
}

static void add_parts(Arena *arena, Parts *parts, FormulaOp chain, const Formula *formula,
                      bool off) {
    if (chain_of(formula) != chain || formula->op == FORMULA_NUMBER || formula->op == FORMULA_DIM) {
        vec_push(arena, parts, (Part){formula, off});
        return;
    }
    add_parts(arena, parts, chain, formula->a, off);
    add_parts(arena, parts, chain, formula->b, off != (formula->op == FORMULA_SUB));
}

static bool take_part(Arena *arena, Parts *parts, const Part *part) {
    for (uint32_t i = 0; i < parts->count; i++)
        if (parts->at[i].off == part->off &&
            formula_alike(arena, parts->at[i].formula, part->formula)) {
            parts->at[i] = parts->at[--parts->count];
            return true;
        }
    return false;
}

bool formula_alike(Arena *arena, const Formula *a, const Formula *b) {
    FormulaOp chain = chain_of(a);
    if (formula_same(a, b) || chain != chain_of(b))
        return formula_same(a, b);
    if (chain == FORMULA_NUMBER || chain == FORMULA_DIM)
        return false;
    if (chain != FORMULA_ADD && chain != FORMULA_MUL && chain != FORMULA_MIN &&
        chain != FORMULA_MAX)
        return formula_alike(arena, a->a, b->a) && formula_alike(arena, a->b, b->b);
    Parts of_a = {0}, of_b = {0};
    add_parts(arena, &of_a, chain, a, false);
    add_parts(arena, &of_b, chain, b, false);
    for (uint32_t i = 0; i < of_a.count; i++)
        if (!take_part(arena, &of_b, &of_a.at[i]))
            return false;
    return of_b.count == 0;
}

// What is left of a simple sum or product: x + 0, x - x, (x + y) - x, 1 * x, x / 1. NULL: all of
// it.
static const Formula *simpler(Arena *arena, FormulaOp op, const Formula *a, const Formula *b) {
    if ((op == FORMULA_ADD || op == FORMULA_SUB) && is_number(b, 0))
        return a;
    if (op == FORMULA_ADD && is_number(a, 0))
        return b;
    if (op == FORMULA_MUL && is_number(a, 1))
        return b;
    if ((op == FORMULA_MUL || op == FORMULA_DIV || op == FORMULA_FLOORDIV) && is_number(b, 1))
        return a;
    if (op == FORMULA_SUB && formula_same(a, b))
        return formula_number(arena, 0);
    if (op == FORMULA_SUB && a->op == FORMULA_ADD && formula_same(a->a, b))
        return a->b;
    if (op == FORMULA_SUB && a->op == FORMULA_ADD && formula_same(a->b, b))
        return a->a;
    return NULL;
}

static const char *apply(FormulaOp op, int64_t a, int64_t b, Arena *arena, int64_t *out);

const Formula *formula_of(Arena *arena, FormulaOp op, const Formula *a, const Formula *b) {
    int64_t number;
    bool numbers = a->op == FORMULA_NUMBER && b->op == FORMULA_NUMBER;
    if (numbers && !apply(op, a->number, b->number, arena, &number))
        return formula_number(arena, number);
    const Formula *left = simpler(arena, op, a, b);
    if (left)
        return left;
    Formula *made = arena_new_of(arena, Formula);
    *made = (Formula){.op = op, .a = a, .b = b};
    return made;
}

// ---- text ---------------------------------------------------------------------------------------

// How tightly an operator binds, as in the language; what is no operator binds most.
static int binding(FormulaOp op) {
    static const int of[N_FORMULA] = {
        [FORMULA_NUMBER] = 4, [FORMULA_DIM] = 4, [FORMULA_ADD] = 1,      [FORMULA_SUB] = 1,
        [FORMULA_MUL] = 2,    [FORMULA_DIV] = 2, [FORMULA_FLOORDIV] = 2, [FORMULA_MOD] = 2,
        [FORMULA_POW] = 3,    [FORMULA_MIN] = 4, [FORMULA_MAX] = 4,
    };
    return of[op];
}

static void add_text(const Graph *graph, const Formula *formula, int around, Text *text) {
    static const char *const signs[N_FORMULA] = {
        [FORMULA_ADD] = " + ",       [FORMULA_SUB] = " - ", [FORMULA_MUL] = " * ",
        [FORMULA_DIV] = " / ",       [FORMULA_MOD] = " % ", [FORMULA_POW] = " ** ",
        [FORMULA_FLOORDIV] = " // ", [FORMULA_MIN] = ", ",  [FORMULA_MAX] = ", ",
    };
    int own = binding(formula->op);
    bool function = formula->op == FORMULA_MIN || formula->op == FORMULA_MAX;
    if (formula->op == FORMULA_NUMBER) {
        text_printf(text, formula->number < 0 ? "(%lld)" : "%lld", (long long)formula->number);
        return;
    }
    if (formula->op == FORMULA_DIM) {
        text_add(text, graph->dims.at[formula->dim].name);
        return;
    }
    text_add(text, formula->op == FORMULA_MIN   ? "min("
                   : formula->op == FORMULA_MAX ? "max("
                   : own < around               ? "("
                                                : "");
    add_text(graph, formula->a, function ? 0 : own + (formula->op == FORMULA_POW), text);
    text_add(text, signs[formula->op]);
    add_text(graph, formula->b, function ? 0 : own + 1, text);
    text_add(text, function || own < around ? ")" : "");
}

const char *formula_text(const Graph *graph, const Formula *formula, Arena *arena) {
    Text text = {.arena = arena};
    add_text(graph, formula, 0, &text);
    return text.at;
}

// ---- meaning ------------------------------------------------------------------------------------

// NULL, or what is wrong.
static const char *apply(FormulaOp op, int64_t a, int64_t b, Arena *arena, int64_t *out) {
    bool divides = op == FORMULA_DIV || op == FORMULA_FLOORDIV || op == FORMULA_MOD;
    bool fits = !(divides && a == INT64_MIN && b == -1);
    if (divides && b == 0)
        return "a division by zero";
    if (op == FORMULA_POW && b < 0)
        return "a negative power";
    if (op == FORMULA_DIV && fits && a % b)
        return arena_printf(arena, "%lld is not divisible by %lld", (long long)a, (long long)b);
    if (op == FORMULA_ADD)
        fits = add_i64(a, b, out);
    else if (op == FORMULA_SUB)
        fits = !__builtin_sub_overflow(a, b, out);
    else if (op == FORMULA_MUL)
        fits = mul_i64(a, b, out);
    else if (op == FORMULA_POW)
        fits = power_i64(a, b, out);
    else if (op == FORMULA_MIN)
        *out = a < b ? a : b;
    else if (op == FORMULA_MAX)
        *out = a > b ? a : b;
    else if (fits)
        *out = op == FORMULA_MOD ? a - b * floor_div_i64(a, b) : floor_div_i64(a, b);
    return fits ? NULL : "a number that does not fit in 63 bits";
}

static const char *value_of(const Formula *formula, const int64_t *extents, Arena *arena,
                            int64_t *value) {
    int64_t a, b;
    *value = formula->op == FORMULA_NUMBER ? formula->number : extents[formula->dim];
    if (formula->op == FORMULA_NUMBER || formula->op == FORMULA_DIM)
        return NULL;
    const char *why = value_of(formula->a, extents, arena, &a);
    why = why ? why : value_of(formula->b, extents, arena, &b);
    return why ? why : apply(formula->op, a, b, arena, value);
}

// ---- rules --------------------------------------------------------------------------------------

static void set_class(const Graph *graph, DimId root, int64_t extent, int64_t *extents) {
    for (uint32_t d = 0; d < graph->dims.count; d++)
        if (graph->dims.at[d].like == root)
            extents[d] = extent;
}

static void collect_dims(const Formula *formula, DimList *dims) {
    if (formula->op == FORMULA_DIM)
        dims_add(dims, formula->dim);
    if (formula->a) {
        collect_dims(formula->a, dims);
        collect_dims(formula->b, dims);
    }
}

// " with n = 2, p = 5": the dims of a formula, and what they are.
static const char *values_text(const Graph *graph, const Formula *formula, const int64_t *extents,
                               Arena *arena) {
    Text text = {.arena = arena};
    DimList dims = {0};
    collect_dims(formula, &dims);
    text_add(&text, "");
    for (uint32_t i = 0; i < dims.count; i++)
        text_printf(&text, "%s %s = %lld", i ? "," : " with", graph->dims.at[dims.at[i]].name,
                    (long long)extents[dims.at[i]]);
    return text.at;
}

// What is wrong with a formula's value, beside the extent that the dim has if it is known.
static const char *check_rule(const Graph *graph, const ExtentRule *rule, int64_t value,
                              const int64_t *extents, Arena *arena) {
    int64_t known = extents[rule->dim];
    Name name = graph->dims.at[rule->dim].name;
    const char *text = formula_text(graph, rule->formula, arena);
    bool number = rule->formula->op == FORMULA_NUMBER, computes = rule->kind == RULE_COMPUTES;
    bool equal = (computes && known != EXTENT_DYNAMIC) || rule->kind == RULE_IS;
    long long found = (long long)value, extent = (long long)known;
    if (rule->kind == RULE_CHOOSES && value > extent)
        return arena_printf(arena, "argmax over %s has nothing to choose from: %s is %lld", name,
                            name, extent);
    if (rule->kind == RULE_BEGINS && value < 0)
        return arena_printf(arena, "a slice of %s begins at %s, which is %lld", name, text, found);
    if (rule->kind == RULE_HOLDS && value > extent)
        return arena_printf(arena, "%s must be at most %s: they are %lld and %lld", text, name,
                            found, extent);
    if (rule->kind == RULE_REACHES && value > extent)
        return number
                   ? arena_printf(arena, "a slice of %s ends at %s, but %s is %lld", name, text,
                                  name, extent)
                   : arena_printf(arena, "a slice of %s ends at %s, which is %lld, but %s is %lld",
                                  name, text, found, name, extent);
    if (computes && (value < 0 || value > EXTENT_MAX))
        return arena_printf(arena, "%s = %s is %lld%s; extents are from 0 to %lld", name, text,
                            found, values_text(graph, rule->formula, extents, arena),
                            (long long)EXTENT_MAX);
    if (equal && value != extent)
        return number
                   ? arena_printf(arena, "%s is %lld, but must be %s", name, extent, text)
                   : arena_printf(arena, "%s is %lld, but %s is %lld", name, extent, text, found);
    return NULL;
}

// d / h of 0 and 0: whatever times nothing is nothing, so any extent will do, and where no other
// rule says one it is 0.
static bool is_any(const Formula *formula, const int64_t *extents, Arena *arena) {
    int64_t a, b;
    return formula->op == FORMULA_DIV && !value_of(formula->a, extents, arena, &a) &&
           !value_of(formula->b, extents, arena, &b) && !a && !b;
}

uint32_t formula_lacks(const Formula *formula, const int64_t *extents, DimId *last) {
    if (formula->op == FORMULA_NUMBER)
        return 0;
    if (formula->op != FORMULA_DIM)
        return formula_lacks(formula->a, extents, last) + formula_lacks(formula->b, extents, last);
    if (extents[formula->dim] != EXTENT_DYNAMIC)
        return 0;
    *last = formula->dim;
    return 1;
}

static bool is_known(const Formula *formula, const int64_t *extents) {
    DimId lacking;
    return !formula_lacks(formula, extents, &lacking);
}

static bool is_equal(const ExtentRule *rule) {
    return rule->kind == RULE_COMPUTES || rule->kind == RULE_IS;
}

static int64_t said_by_others(const Graph *graph, DimId dim, const int64_t *extents, Arena *arena) {
    int64_t value;
    for (uint32_t i = 0; i < graph->rules.count; i++) {
        const ExtentRule *rule = &graph->rules.at[i];
        if (rule->dim == dim && is_equal(rule) && is_known(rule->formula, extents) &&
            !value_of(rule->formula, extents, arena, &value) && value >= 0)
            return value;
    }
    return 0;
}

static const char *apply_rule(const Graph *graph, const ExtentRule *rule, int64_t *extents,
                              Arena *arena) {
    int64_t value;
    if (is_any(rule->formula, extents, arena)) {
        if (extents[rule->dim] == EXTENT_DYNAMIC)
            set_class(graph, rule->dim, said_by_others(graph, rule->dim, extents, arena), extents);
        return NULL;
    }
    const char *why = value_of(rule->formula, extents, arena, &value);
    if (why)
        return arena_printf(arena, "%s = %s: %s", graph->dims.at[rule->dim].name,
                            formula_text(graph, rule->formula, arena), why);
    why = check_rule(graph, rule, value, extents, arena);
    if (!why && rule->kind == RULE_COMPUTES)
        set_class(graph, rule->dim, value, extents);
    return why;
}

ExtentProblem graph_apply_rules(const Graph *graph, int64_t *extents, Arena *arena) {
    ExtentProblem found = {0};
    for (uint32_t i = 0; i < graph->rules.count && !found.why; i++) {
        const ExtentRule *rule = &graph->rules.at[i];
        found = (ExtentProblem){apply_rule(graph, rule, extents, arena), rule->origin};
    }
    return found;
}

// The first rule that tells an extent that is not known yet; last those for which any will do.
static const ExtentRule *next_told(const Graph *graph, const int64_t *extents, Arena *arena) {
    const ExtentRule *any = NULL;
    for (uint32_t i = 0; i < graph->rules.count; i++) {
        const ExtentRule *rule = &graph->rules.at[i];
        if (!is_equal(rule) || extents[rule->dim] != EXTENT_DYNAMIC ||
            !is_known(rule->formula, extents))
            continue;
        if (!is_any(rule->formula, extents, arena))
            return rule;
        any = any ? any : rule;
    }
    return any;
}

ExtentProblem graph_deduce_extents(const Graph *graph, int64_t *extents, Arena *arena) {
    ExtentProblem found = {0};
    const ExtentRule *told;
    while (!found.why && (told = next_told(graph, extents, arena))) {
        ExtentRule rule = *told;
        rule.kind = RULE_COMPUTES;
        found = (ExtentProblem){apply_rule(graph, &rule, extents, arena), rule.origin};
    }
    return found;
}

bool graph_is_computed(const Graph *graph, DimId dim) {
    for (uint32_t i = 0; i < graph->rules.count; i++)
        if (graph->rules.at[i].kind == RULE_COMPUTES &&
            graph->rules.at[i].dim == graph->dims.at[dim].like)
            return true;
    return false;
}

// What is told of a dim, or of another that is alike: of the dim that a scan goes through.
static int64_t extent_of_class(const Graph *graph, const int64_t *extents, uint32_t dim) {
    int64_t extent = extents[dim];
    for (uint32_t i = 0; i < graph->dims.count && extent < 1; i++)
        if (graph_dims_alike(graph, (DimId)i, (DimId)dim))
            extent = extents[i];
    return extent;
}

void graph_plan_for(Graph *graph, const int64_t *extents) {
    for (uint32_t i = 0; i < graph->dims.count; i++) {
        Dim *dim = &graph->dims.at[i];
        int64_t extent = dim->planned ? 0 : extent_of_class(graph, extents, i);
        if (extent < 1)
            continue;
        for (dim->planned = 1; dim->planned < extent;)
            dim->planned *= 2;
    }
}

int64_t dim_planned(const Dim *dim) {
    enum { UNKNOWN = 512 };
    if (dim->extent != EXTENT_DYNAMIC)
        return dim->extent;
    return dim->planned ? dim->planned : UNKNOWN;
}

int64_t *graph_typical_extents(const Graph *graph, Arena *arena) {
    int64_t *extents = arena_array(arena, int64_t, graph->dims.count + 1);
    for (uint32_t i = 0; i < graph->dims.count; i++) {
        const Dim *dim = &graph->dims.at[i];
        bool computed = dim->extent == EXTENT_DYNAMIC && graph_is_computed(graph, (DimId)i);
        extents[i] = computed ? EXTENT_DYNAMIC : dim_planned(dim);
    }
    graph_apply_rules(graph, extents, arena);
    for (uint32_t i = 0; i < graph->dims.count; i++) // where a rule fails for that, or gives 0
        extents[i] = extents[i] < 1 ? dim_planned(&graph->dims.at[i]) : extents[i];
    return extents;
}
