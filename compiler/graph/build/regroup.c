// SPDX-License-Identifier: Apache-2.0
// split and merge. The extents of the parts make that of the whole:
//
//     split(x, d -> h k)      d = h * k is checked; where k is told by nothing else, k = d / h
//     merge(x, h k -> d)      d = h * k
//     split(merge(x, h k -> d), d -> g k)      g = h, also of no positions along k
#include "graph/build/build.h"

// The product of all parts but `without`.
static const Formula *product_of(Graph *graph, Arena *arena, const DimList *parts, int without) {
    const Formula *product = NULL;
    for (int i = 0; i < parts->count; i++) {
        const Formula *part = formula_dim(graph, parts->at[i]);
        if (i != without)
            product = product ? formula_of(arena, FORMULA_MUL, product, part) : part;
    }
    return product ? product : formula_number(arena, 1);
}

static bool is_number(const Formula *formula) {
    return formula->op == FORMULA_NUMBER;
}

static bool report(Frame *frame, const Expr *call, Name dim, int64_t extent, const char *what,
                   int64_t product) {
    Diag *diag =
        diag_error(frame->build->session->diags, call->span, "'%s' has %lld positions, %s %lld",
                   dim, (long long)extent, what, (long long)product);
    frame_note_calls(frame, diag);
    return false;
}

// The extent of a part that nothing else tells; EXTENT_DYNAMIC where run time tells it.
static bool part_extent(Frame *frame, const Expr *call, uint32_t part, int64_t *extent) {
    int64_t whole = frame_extent(frame, call->reduced.at[0]), product = 1;
    *extent = EXTENT_DYNAMIC;
    for (uint32_t i = 1; i < call->reduced.count; i++) {
        int64_t other = frame_extent(frame, call->reduced.at[i]);
        if (i != part && (other == EXTENT_DYNAMIC || !mul_i64(product, other, &product)))
            return true;
    }
    if (whole == EXTENT_DYNAMIC || product == 0)
        return true;
    if (whole % product)
        return report(frame, call, call->reduced.at[0], whole, "no multiple of", product);
    *extent = whole / product;
    return true;
}

static bool find_parts(Frame *frame, const Expr *call, DimList *parts) {
    for (uint32_t i = 1; i < call->reduced.count; i++) {
        int64_t extent = EXTENT_DYNAMIC;
        if (call->builtin == BUILTIN_SPLIT &&
            frame_extent(frame, call->reduced.at[i]) == EXTENT_DYNAMIC &&
            !part_extent(frame, call, i, &extent))
            return false;
        dims_add(parts, frame_dim_sized(frame, call->reduced.at[i], extent));
    }
    return true;
}

// The product without one of its factors. NULL: it is none of them.
static const Formula *without_factor(Arena *arena, const Formula *product, const Formula *factor) {
    if (formula_same(product, factor))
        return formula_number(arena, 1);
    if (product->op != FORMULA_MUL)
        return NULL;
    const Formula *rest = without_factor(arena, product->b, factor);
    if (rest)
        return formula_of(arena, FORMULA_MUL, product->a, rest);
    rest = without_factor(arena, product->a, factor);
    return rest ? formula_of(arena, FORMULA_MUL, rest, product->b) : NULL;
}

// What `dim` was merged from, or its extent.
static const Formula *whole_of(const Build *build, DimId dim) {
    DimId class = build->graph->dims.at[dim].like;
    uint32_t count = class < build->of_dim.count ? build->of_dim.at[class].count : 0;
    for (uint32_t i = 0; i < count; i++) {
        const Claim *claim = build->of_dim.at[class].at[i];
        if (claim->rule.formula->op == FORMULA_MUL && !claim->checked)
            return claim->rule.formula;
    }
    return formula_dim(build->graph, dim);
}

// The part that makes `dim` of all others. Factors that it was merged from cancel out, so that they
// may be 0.
static const Formula *quotient_of(Build *build, DimId dim, const Formula *whole,
                                  const DimList *parts, int part) {
    Graph *graph = build->graph;
    for (int i = 0; whole && i < parts->count; i++)
        if (i != part)
            whole = without_factor(build->arena, whole, formula_dim(graph, parts->at[i]));
    return whole ? whole
                 : formula_of(build->arena, FORMULA_DIV, formula_dim(graph, dim),
                              product_of(graph, build->arena, parts, part));
}

static void claim_extents(Frame *frame, const Expr *call, DimId dim, const DimList *parts) {
    Build *build = frame->build;
    Graph *graph = build->graph;
    Arena *arena = build->arena;
    const Formula *whole = whole_of(build, dim);
    build_claim(frame, RULE_IS, dim, product_of(graph, arena, parts, -1), call->span);
    for (int i = 0; call->builtin == BUILTIN_SPLIT && i < parts->count; i++) {
        if (graph->dims.at[parts->at[i]].extent != EXTENT_DYNAMIC)
            continue;
        build_claim_way(frame, parts->at[i], quotient_of(build, dim, whole, parts, i), call->span);
    }
}

Value *build_regroup(Frame *frame, const Expr *call) {
    Build *build = frame->build;
    Value *x = build_expr_as(frame, call->args.at[0], call->elem);
    DimList parts = {0};
    if (!frame_has_room(frame, call->result.count, call->span) || !find_parts(frame, call, &parts))
        return x;
    const Formula *product = product_of(build->graph, build->arena, &parts, -1);
    int64_t known = is_number(product) ? product->number : EXTENT_DYNAMIC;
    int64_t extent = frame_extent(frame, call->reduced.at[0]);
    if (known != EXTENT_DYNAMIC && extent != EXTENT_DYNAMIC && known != extent) {
        report(frame, call, call->reduced.at[0], extent, "the parts", known);
        return x;
    }
    DimId dim = frame_dim_sized(frame, call->reduced.at[0], known);
    claim_extents(frame, call, dim, &parts);
    x = graph_over(build->graph, x, call->builtin == BUILTIN_SPLIT ? &(DimList){1, {dim}} : &parts);
    return call->builtin == BUILTIN_SPLIT ? graph_split(build->graph, x, dim, &parts)
                                          : graph_merge(build->graph, x, &parts, dim);
}
