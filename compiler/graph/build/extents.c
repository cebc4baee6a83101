// SPDX-License-Identifier: Apache-2.0
// Which extents follow from others, and what has to hold at run time.
//
//     dim t = p + n                        t = p + n            with p and n from the arguments
//     concat(M[p, d], X[n, d], dim=t)      t = p + n            checked, where t is known otherwise
//     slice(X, n, 1, n) over r             r = n - 1, and n reaches n
//
// What the moves say is collected while they are built, what `dim` says when all dims are there.
// Then a dim is computed by the first rule whose dims are all known; an argument's dim is known by
// itself unless a rule computes it, so that a library needs no extent that follows from others.
// Last comes what -D alone tells a run.
#include "graph/build/build.h"

// ---- formulas of expressions --------------------------------------------------------------------

static bool formula_op(const Expr *expr, FormulaOp *op) {
    static const FormulaOp ops[N_OPER] = {
        [OPER_NEG] = FORMULA_SUB, [OPER_ADD] = FORMULA_ADD,           [OPER_SUB] = FORMULA_SUB,
        [OPER_MUL] = FORMULA_MUL, [OPER_DIV] = FORMULA_DIV,           [OPER_MOD] = FORMULA_MOD,
        [OPER_POW] = FORMULA_POW, [OPER_FLOORDIV] = FORMULA_FLOORDIV,
    };
    if (expr->kind == EXPR_UNARY || expr->kind == EXPR_BINARY)
        *op = ops[expr->oper];
    else if (expr->kind == EXPR_CALL && expr->args.count > 1)
        *op = expr->builtin == BUILTIN_MIN   ? FORMULA_MIN
              : expr->builtin == BUILTIN_MAX ? FORMULA_MAX
                                             : FORMULA_NUMBER;
    else
        return false;
    return *op != FORMULA_NUMBER;
}

static const Formula *name_formula(Frame *frame, const Expr *expr) {
    Arena *arena = frame->build->arena;
    for (uint32_t i = frame->loops.count; i-- > 0;)
        if (frame->loops.at[i].name == expr->name.name && expr->name_kind == NAME_LOOP)
            return formula_number(arena, frame->loops.at[i].value);
    if (expr->name_kind == NAME_LOOP || expr->name_kind == NAME_TENSOR ||
        expr->name_kind == NAME_STEP)
        return NULL;
    int64_t extent = frame_extent(frame, expr->name.name);
    return extent == EXTENT_DYNAMIC
               ? formula_dim(frame->build->graph, frame_dim(frame, expr->name.name))
               : formula_number(arena, extent);
}

const Formula *build_formula(Frame *frame, const Expr *expr) {
    Arena *arena = frame->build->arena;
    FormulaOp op;
    if (expr->kind == EXPR_NAME)
        return name_formula(frame, expr);
    if (expr->kind == EXPR_NUMBER && expr->is_integer && expr->number < 0x1p53)
        return formula_number(arena, (int64_t)expr->number);
    if (!formula_op(expr, &op))
        return NULL;
    const Formula *made = build_formula(frame, expr->args.at[0]);
    if (made && expr->kind == EXPR_UNARY)
        return formula_of(arena, op, formula_number(arena, 0), made);
    for (uint32_t i = 1; made && i < expr->args.count; i++) {
        const Formula *next = build_formula(frame, expr->args.at[i]);
        made = next ? formula_of(arena, op, made, next) : NULL;
    }
    return made;
}

static Value *power_value(Graph *graph, Value *base, const Formula *exponent) {
    enum { FACTORS_MOST = 64 };
    Value *value = graph_const(graph, 1, ELEM_I64);
    if (exponent->op != FORMULA_NUMBER || exponent->number < 0 || exponent->number > FACTORS_MOST)
        return NULL;
    for (int64_t i = 0; i < exponent->number; i++)
        value = graph_map2(graph, OP_MUL, value, base);
    return value;
}

Value *build_formula_value(Graph *graph, const Formula *formula) {
    static const Op ops[N_FORMULA] = {
        [FORMULA_ADD] = OP_ADD,      [FORMULA_SUB] = OP_SUB, [FORMULA_MUL] = OP_MUL,
        [FORMULA_DIV] = OP_FLOORDIV, [FORMULA_MOD] = OP_MOD, [FORMULA_FLOORDIV] = OP_FLOORDIV,
        [FORMULA_MIN] = OP_MIN,      [FORMULA_MAX] = OP_MAX,
    };
    if (formula->op == FORMULA_NUMBER)
        return graph_const(graph, (double)formula->number, ELEM_I64);
    if (formula->op == FORMULA_DIM)
        return graph_extent(graph, formula->dim);
    Value *a = build_formula_value(graph, formula->a);
    if (a && formula->op == FORMULA_POW)
        return power_value(graph, a, formula->b);
    Value *b = build_formula_value(graph, formula->b);
    return a && b ? graph_map2(graph, ops[formula->op], a, b) : NULL;
}

// ---- claims: rules before it is known what computes what ----------------------------------------

// By the file or -D: what else is said of it has to hold.
static bool is_given(const Build *build, DimId dim) {
    Name name = build->graph->dims.at[dim].name;
    return program_extent(build->session, build->program, name) != EXTENT_DYNAMIC;
}

static bool is_constant(const Formula *formula) {
    return formula->op == FORMULA_NUMBER ||
           (formula->op != FORMULA_DIM && is_constant(formula->a) && is_constant(formula->b));
}

// Numbers that do not fold overflow.
static void check_constant(Build *build, DimId dim, const Formula *formula, Span origin) {
    bool folded = formula->op == FORMULA_NUMBER;
    if (!is_constant(formula) || (folded && formula->number <= EXTENT_MAX))
        return;
    diag_error(build->session->diags, origin,
               "the extent of '%s' is %s; extents are from 1 to %lld",
               build->graph->dims.at[dim].name, formula_text(build->graph, formula, build->arena),
               (long long)EXTENT_MAX);
}

static uint64_t hash_formula(uint64_t seed, const Formula *formula) {
    uint64_t hash = hash_u64(hash_u64(seed, formula->op), (uint64_t)formula->number);
    hash = hash_u64(hash, formula->dim);
    hash = formula->a ? hash_formula(hash, formula->a) : hash;
    return formula->b ? hash_formula(hash, formula->b) : hash;
}

static uint64_t hash_rule(const ExtentRule *rule) {
    return hash_formula(hash_u64(rule->kind, rule->dim), rule->formula);
}

static bool is_same_rule(const ExtentRule *a, const ExtentRule *b) {
    return a->kind == b->kind && a->dim == b->dim && formula_same(a->formula, b->formula);
}

static bool is_claimed_before(const Build *build, const ExtentRule *rule) {
    const Claim *known = map_get(build->claimed, hash_rule(rule));
    while (known && !is_same_rule(&known->rule, rule))
        known = known->before;
    return known != NULL;
}

static void add_claim(Build *build, const Claim *claim) {
    Claim *added = arena_copy(build->arena, claim, sizeof *claim);
    uint64_t hash = hash_rule(&claim->rule);
    added->before = map_get(build->claimed, hash);
    map_put(build->claimed, hash, added);
    vec_push(build->arena, &build->claims, added);
    while (build->of_dim.count <= claim->rule.dim)
        vec_push(build->arena, &build->of_dim, (ClaimList){0});
    if (claim->rule.kind == RULE_IS)
        vec_push(build->arena, &build->of_dim.at[claim->rule.dim], added);
}

void build_claim(Frame *frame, RuleKind kind, DimId dim, const Formula *formula, Span origin) {
    Build *build = frame->build;
    DimId root = build->graph->dims.at[dim].like;
    if (kind == RULE_IS && formula->op == FORMULA_DIM && formula->dim == root)
        return;
    Claim claim = {.rule = {kind, root, formula, origin}, .frame = frame};
    bool told = kind == RULE_IS && !is_given(build, root);
    if (told && !build_claim_repeats(build, &claim))
        return;
    if (is_claimed_before(build, &claim.rule) || (told && !build_claim_agrees(build, &claim)))
        return;
    add_claim(build, &claim);
    if (kind == RULE_IS)
        check_constant(build, dim, formula, origin);
}

void build_claim_way(Frame *frame, DimId dim, const Formula *formula, Span origin) {
    Build *build = frame->build;
    uint32_t before = build->claims.count;
    build_claim(frame, RULE_IS, dim, formula, origin);
    if (build->claims.count > before)
        build->claims.at[before]->checked = true;
}

// What an extent declared by an expression needs: dims that the graph has, or that can be computed.
// A list takes the place of recursion: chains of declarations are as long as a file.
typedef struct {
    Frame *frame;
    Map *seen; // declarations
    VEC(const DimDecl *) decls;
} Search;

static bool is_available(Search *search, const Expr *expr) {
    Build *build = search->frame->build;
    bool available = true;
    if (expr->kind != EXPR_NAME) {
        for (uint32_t i = 0; i < expr->args.count && available; i++)
            available = is_available(search, expr->args.at[i]);
        return available;
    }
    Name name = expr->name.name;
    if (frame_has_dim(search->frame, name) ||
        program_extent(build->session, build->program, name) != EXTENT_DYNAMIC)
        return true;
    const DimDecl *decl = program_extent_origin(build->session, build->program, name);
    uint64_t key = (uint64_t)(uintptr_t)decl;
    if (!decl || map_get(search->frame->computable, key) || map_get(search->seen, key))
        return decl != NULL;
    map_put(search->seen, key, decl->extent);
    vec_push(build->arena, &search->decls, decl);
    return true;
}

bool frame_can_compute(Frame *frame, const Expr *extent) {
    Search search = {.frame = frame, .seen = map_new(frame->build->arena)};
    bool available = is_available(&search, extent);
    for (uint32_t i = 0; i < search.decls.count && available; i++)
        available = is_available(&search, search.decls.at[i]->extent);
    for (uint32_t i = 0; i < search.decls.count && available; i++)
        map_put(frame->computable, (uint64_t)(uintptr_t)search.decls.at[i],
                search.decls.at[i]->extent);
    return available;
}

// The formula that the source gives a dim, over the dims that its names stand for where it was
// first needed. Dims that it is computed from come to the end of the graph's.
static void claim_declared(Build *build, DimId dim) {
    const Dim *root = &build->graph->dims.at[dim];
    const DimDecl *decl = program_extent_origin(build->session, build->program, root->name);
    Frame *frame = build->first_frames.at[dim];
    if (root->like != dim || root->extent != EXTENT_DYNAMIC || !decl)
        return;
    const Formula *formula =
        frame_can_compute(frame, decl->extent) ? build_formula(frame, decl->extent) : NULL;
    if (!formula)
        return;
    Claim claim = {.rule = {RULE_IS, dim, formula, decl->name.span}, .frame = frame};
    vec_push(build->arena, &build->declared, arena_copy(build->arena, &claim, sizeof claim));
}

// ---- what is known ------------------------------------------------------------------------------

typedef struct {
    Build *build;
    Graph *graph;
    ClaimList claims;
    bool *used;     // by claim
    bool *known;    // by DimId of a class
    bool *claimed;  // likewise: some rule may compute it
    bool *of_input; // likewise: some argument is over it
    bool *given;    // likewise: -D of what is dynamic tells it
} Solver;

// known: by DimId of a class.
static bool is_known(const bool *known, const Formula *formula) {
    if (formula->op == FORMULA_NUMBER)
        return true;
    if (formula->op == FORMULA_DIM)
        return known[formula->dim];
    return is_known(known, formula->a) && is_known(known, formula->b);
}

static void add_rule(Solver *s, uint32_t claim, RuleKind kind) {
    ExtentRule rule = s->claims.at[claim]->rule;
    rule.kind = kind;
    s->used[claim] = true;
    vec_push(s->graph->arena, &s->graph->rules, rule);
}

static bool compute_more(Solver *s) {
    bool more = false;
    for (uint32_t i = 0; i < s->claims.count; i++) {
        const ExtentRule *rule = &s->claims.at[i]->rule;
        if (s->used[i] || rule->kind != RULE_IS || s->known[rule->dim] ||
            !is_known(s->known, rule->formula))
            continue;
        add_rule(s, i, RULE_COMPUTES);
        s->known[rule->dim] = more = true;
    }
    return more;
}

// The first dim of `which` that no rule came to compute.
static bool take_first(Solver *s, const bool *which) {
    for (uint32_t d = 0; d < s->graph->dims.count; d++)
        if (which[d] && !s->known[d])
            return s->known[d] = true;
    return false;
}

static void solve(Solver *s) {
    for (uint32_t d = 0; d < s->graph->dims.count; d++) {
        const Dim *dim = &s->graph->dims.at[d];
        s->known[d] = dim->extent != EXTENT_DYNAMIC || (s->of_input[d] && !s->claimed[d]);
    }
    do
        while (compute_more(s))
            ;
    while (take_first(s, s->of_input) || take_first(s, s->given));
}

static bool holds(const Solver *s, const ExtentRule *rule) {
    int64_t extent = s->graph->dims.at[rule->dim].extent;
    bool begins = rule->kind == RULE_BEGINS || rule->kind == RULE_EVALUATES;
    if (rule->formula->op != FORMULA_NUMBER || (extent == EXTENT_DYNAMIC && !begins))
        return false;
    int64_t value = rule->formula->number;
    return begins ? value >= 0 : rule->kind == RULE_IS ? value == extent : value <= extent;
}

static void check_rest(Solver *s) {
    for (uint32_t i = 0; i < s->claims.count; i++) {
        const ExtentRule *rule = &s->claims.at[i]->rule;
        if (!s->used[i] && !s->claims.at[i]->checked && s->known[rule->dim] &&
            is_known(s->known, rule->formula) && !holds(s, rule))
            add_rule(s, i, rule->kind);
    }
}

static void find_inputs(Solver *s) {
    for (uint32_t i = 0; i < s->graph->inputs.count; i++) {
        const DimList *dims = &s->graph->inputs.at[i]->dims;
        for (uint32_t k = 0; k < dims->count; k++)
            s->of_input[s->graph->dims.at[dims->at[k]].like] = true;
    }
}

static void find_given(Solver *s) {
    const DimExtents *given = &s->build->session->overrides;
    for (uint32_t d = 0; d < s->graph->dims.count; d++)
        s->given[s->graph->dims.at[d].like] |=
            program_given(s->build->program, given, s->graph->dims.at[d].name) != NULL;
}

// ---- what nothing tells -------------------------------------------------------------------------

// A dim without an extent, and where that is told. What follows from others that lack one is told
// with them: of split(x, d -> h k), where neither part is known, h is to be given and k follows.
typedef struct {
    DimId class;
    Name name;
    Span at;
    const DimDecl *decl; // the declaration that computes it, or NULL
    bool follows;
} Lack;
typedef VEC(Lack) LackList;

typedef struct {
    const Solver *solver;
    bool *found; // by DimId of a class
    LackList lacks;
} Unknowns;

// Of a statement, the function that makes the dim.
static Span place_of(const Build *build, DimId class, Span at) {
    for (uint32_t i = 0; i < build->claims.count; i++) {
        const ExtentRule *rule = &build->claims.at[i]->rule;
        if (rule->dim == class && rule->origin.file == at.file && rule->origin.begin >= at.begin &&
            rule->origin.end <= at.end)
            return rule->origin;
    }
    return at;
}

static void find_unknown(Unknowns *u, DimId dim, Span at) {
    const Solver *s = u->solver;
    const Build *build = s->build;
    DimId class = s->graph->dims.at[dim].like;
    if (s->known[class] || u->found[class])
        return;
    u->found[class] = true;
    Name name = s->graph->dims.at[s->graph->dims.at[dim].scan ? class : dim].name;
    const DimDecl *decl = program_extent_origin(build->session, build->program, name);
    vec_push(build->arena, &u->lacks, (Lack){class, name, place_of(build, class, at), decl, false});
}

static void find_unknowns_of(Unknowns *u, const Formula *formula, Span at) {
    if (formula->op == FORMULA_DIM)
        find_unknown(u, formula->dim, at);
    if (formula->a)
        find_unknowns_of(u, formula->a, at);
    if (formula->b)
        find_unknowns_of(u, formula->b, at);
}

// Would a dim be known if all others were that lack an extent and follow from none?
static bool would_be_known(const Unknowns *u, const Lack *lack) {
    const Solver *s = u->solver;
    bool *known = arena_copy(s->build->arena, s->known, s->graph->dims.count * sizeof *known);
    for (uint32_t i = 0; i < u->lacks.count; i++)
        known[u->lacks.at[i].class] |= &u->lacks.at[i] != lack && !u->lacks.at[i].follows;
    for (bool more = true; more && !known[lack->class];) {
        more = false;
        for (uint32_t i = 0; i < s->claims.count; i++) {
            const ExtentRule *rule = &s->claims.at[i]->rule;
            if (rule->kind == RULE_IS && !known[rule->dim] && is_known(known, rule->formula))
                known[rule->dim] = more = true;
        }
    }
    return known[lack->class];
}

static void tell_uncomputed(Build *build, const Lack *lack) {
    Diag *diag = diag_error(build->session->diags, lack->at,
                            "nothing says how many positions '%s' has", lack->name);
    diag_note(diag, lack->decl->extent->span, "it is computed from this");
    diag_hint(diag, "no argument is over what it is computed from: give -D %s=...",
              name_unprimed(build->session->names, lack->name));
}

// "a = ..., b = ..."
static const char *given_text(Build *build, const NameList *dims, const char *equals,
                              const char *between) {
    Text text = {.arena = build->arena};
    for (uint32_t i = 0; i < dims->count; i++)
        text_printf(&text, "%s%s%s...", i ? between : "",
                    name_unprimed(build->session->names, dims->at[i]), equals);
    return text.at;
}

// One message for a place.
static void tell_undeclared(Build *build, Span at, const NameList *dims, const NameList *follow) {
    bool one = dims->count == 1;
    Diag *diag = diag_error(build->session->diags, at, "nothing says how many positions %s %s",
                            quoted_text(build->arena, dims), one ? "has" : "have");
    const char *rest = "";
    if (follow->count)
        rest =
            arena_printf(build->arena, "; %s follow%s from %s", quoted_text(build->arena, follow),
                         follow->count == 1 ? "s" : "", one ? "it" : "them");
    diag_hint(diag, "no argument is over %s: write 'dim %s' or give -D %s%s", one ? "it" : "them",
              given_text(build, dims, " = ", ", "), given_text(build, dims, "=", ","), rest);
}

static void tell_place(const Unknowns *u, uint32_t first) {
    Build *build = u->solver->build;
    const LackList *lacks = &u->lacks;
    Span at = lacks->at[first].at;
    NameList dims = {0}, follow = {0};
    for (uint32_t i = 0; i < lacks->count; i++) {
        const Lack *lack = &lacks->at[i];
        if (!span_same(lack->at, at) || (lack->decl && !lack->follows))
            continue;
        if (i < first && !lack->follows)
            return; // told
        vec_push(build->arena, lack->follows ? &follow : &dims, lack->name);
    }
    tell_undeclared(build, at, &dims, &follow);
}

// Every dim that the results depend on has to have an extent once the inputs are there. A dim that
// is made (by index, one_hot, concat, ...) and in no input is told of at the first value that has
// it.
static void tell_unknowns(const Solver *s, Span entry) {
    const Graph *graph = s->graph;
    Build *build = s->build;
    bool *live = graph_live(graph, build->arena);
    Unknowns u = {.solver = s, .found = arena_array(build->arena, bool, graph->dims.count + 1)};
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const Value *value = graph->values.at[v];
        DimList dims = value->dims;
        if (value->op == OP_EXTENT)
            dims_add(&dims, value->dim);
        for (uint32_t i = 0; i < dims.count && live[v]; i++)
            find_unknown(&u, dims.at[i], value->origin.file ? value->origin : entry);
    }
    for (uint32_t i = 0; i < build->claims.count; i++)
        find_unknowns_of(&u, build->claims.at[i]->rule.formula, build->claims.at[i]->rule.origin);
    for (uint32_t i = u.lacks.count; i-- > 0;)
        u.lacks.at[i].follows = would_be_known(&u, &u.lacks.at[i]);
    for (uint32_t i = 0; i < u.lacks.count; i++) {
        const Lack *lack = &u.lacks.at[i];
        if (lack->decl && !lack->follows)
            tell_uncomputed(build, lack);
        else if (!lack->follows)
            tell_place(&u, i);
    }
}

void build_rules(Build *build, Span entry) {
    Graph *graph = build->graph;
    Solver s = {.build = build, .graph = graph};
    for (uint32_t d = 0; d < graph->dims.count; d++) // there come more
        claim_declared(build, (DimId)d);
    for (uint32_t i = 0; i < build->declared.count; i++)
        vec_push(build->arena, &s.claims, build->declared.at[i]);
    for (uint32_t i = 0; i < build->claims.count; i++)
        vec_push(build->arena, &s.claims, build->claims.at[i]);
    s.used = arena_array(build->arena, bool, s.claims.count + 1);
    s.known = arena_array(build->arena, bool, graph->dims.count + 1);
    s.claimed = arena_array(build->arena, bool, graph->dims.count + 1);
    s.of_input = arena_array(build->arena, bool, graph->dims.count + 1);
    s.given = arena_array(build->arena, bool, graph->dims.count + 1);
    for (uint32_t i = 0; i < s.claims.count; i++)
        s.claimed[s.claims.at[i]->rule.dim] |= s.claims.at[i]->rule.kind == RULE_IS;
    find_inputs(&s);
    find_given(&s);
    solve(&s);
    check_rest(&s);
    tell_unknowns(&s, entry);
}
