// SPDX-License-Identifier: Apache-2.0
#include "passes_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const Machine passes_machine = {
    .name = "passes",
    .vector_bytes = 64,
    .vector_registers = 32,
    .has_masks = true,
    .rows_unpacked = 12,
    .rows_packed = 14,
    .l1_bytes = 48 << 10,
    .l2_bytes = 1 << 20,
    .l3_bytes = 4 << 20,
    .flops_per_second = 160e9,
    .splats_per_second = 5e9,
    .l1_bytes_per_second = 200e9,
    .l2_bytes_per_second = 120e9,
    .l3_bytes_per_second = 30e9,
    .memory_bytes_per_second = 18e9,
    .l2_write_cost = 2,
    .l3_write_cost = 2,
    .memory_write_cost = 2,
    .threads = 8,
    .task_seconds = 5e-7,
    .launch_seconds = 5e-6,
};

static Graph *build(Session *session, uint32_t file) {
    Program *program = program_new(session->arena);
    ast_parse(session, program, file);
    ast_add_prelude(session, program);
    Graph *graph = NULL;
    if (ast_resolve(session, program))
        graph = graph_build(session, program, &(EntryOptions){0});
    if (!graph || diags_errors(session->diags)) {
        diags_print(session->diags, stderr, DIAGS_TEXT, false);
        fail_msg("the program does not build:\n%s", sources_get(session->sources, file)->text);
    }
    graph_verify(graph, "build");
    return graph;
}

Graph *passes_build(Session *session, const char *text) {
    return build(session, sources_add(session->sources, "<test>", text, strlen(text)));
}

Graph *passes_build_file(Session *session, const char *path) {
    const char *why = NULL;
    uint32_t file = sources_read(session->sources, path, &why);
    if (!file)
        fail_msg("%s: %s", path, why);
    return build(session, file);
}

static int64_t *typical(const Graph *graph) {
    return graph_typical_extents(graph, graph->arena);
}

static Graph *simplify(const Graph *graph) {
    Graph *out = graph_simplify(graph, typical(graph), &passes_machine);
    graph_verify(out, "simplify");
    return out;
}

static Graph *contract(const Graph *graph) {
    Graph *simple = simplify(graph), *out;
    out = graph_contract(simple, typical(simple), &passes_machine);
    graph_verify(out, "contract");
    return out;
}

static Graph *expand(const Graph *graph) {
    Graph *pairs = contract(graph), *out;
    out = graph_expand(pairs, typical(pairs));
    graph_verify(out, "expand");
    return out;
}

static Fusion *fuse(const Graph *graph, bool streams) {
    Graph *expanded = expand(graph);
    Fusion *fusion = graph_fuse(expanded, typical(expanded), streams, COPIES_BY_SIZE);
    fusion_verify(fusion, "fuse");
    return fusion;
}

Graph *passes_expand_gradient(const Graph *plain) {
    Graph *gradient = graph_gradient(plain, &(GradientOptions){.all_given = true});
    return gradient ? expand(gradient) : NULL;
}

Plan *passes_plan_for(const Machine *machine, const Graph *graph, bool streams) {
    Fusion *fusion = fuse(graph, streams);
    Plan *plan =
        graph_plan(fusion, graph_layout(fusion, typical(fusion->graph), machine, NULL));
    plan_verify(plan);
    return plan;
}

Graph *passes_simplify(Session *session, const char *text) {
    return simplify(passes_build(session, text));
}

Graph *passes_contract(Session *session, const char *text) {
    return contract(passes_build(session, text));
}

Graph *passes_expand(Session *session, const char *text) {
    return expand(passes_build(session, text));
}

Fusion *passes_fuse(Session *session, const char *text) {
    return fuse(passes_build(session, text), true);
}

Plan *passes_plan(Session *session, const char *text) {
    return passes_plan_for(&passes_machine, passes_build(session, text), true);
}

Fusion *passes_fuse_unstreamed(Session *session, const char *text) {
    return fuse(passes_build(session, text), false);
}

Plan *passes_plan_unstreamed(Session *session, const char *text) {
    return passes_plan_for(&passes_machine, passes_build(session, text), false);
}

// ---- the oracle as a judge ---------------------------------------------------------------------

static int64_t *extents_with(const Graph *graph, int64_t dynamic, Arena *arena) {
    int64_t *extents = graph_typical_extents(graph, arena);
    for (uint32_t i = 0; i < graph->dims.count; i++)
        if (graph->dims.at[i].extent == EXTENT_DYNAMIC)
            extents[i] = dynamic;
    return extents;
}

// Small numbers; integers are valid positions of small tables.
static double random_number(Elem elem, uint64_t seed) {
    uint64_t bits = hash_u64(seed, 1);
    if (elem == ELEM_BOOL)
        return (double)(bits & 1);
    if (elem_is_int(elem))
        return (double)(bits % 3);
    return (double)(bits >> 11) / (double)(1ull << 52) - 1;
}

static double **evaluate(const Graph *graph, int64_t dynamic, uint64_t seed, Arena *arena) {
    EvalRun run = {.extents = extents_with(graph, dynamic, arena)};
    run.inputs = arena_array(arena, double *, graph->inputs.count + 1);
    run.outputs = arena_array(arena, double *, graph->outputs.count + 1);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        int64_t volume = dims_volume(&input->dims, run.extents);
        run.inputs[i] = arena_array(arena, double, volume + 1);
        for (int64_t k = 0; k < volume; k++)
            run.inputs[i][k] =
                random_number(input->elem, hash_u64(hash_text(seed, input->name), (uint64_t)k));
    }
    graph_eval(graph, EVAL_F64, &run, arena);
    return run.outputs;
}

static void assert_same_numbers(const char *name, const double *a, const double *b, int64_t n,
                                double tolerance) {
    double largest = 1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(a[i]))
            largest = fmax(largest, fabs(a[i]));
    for (int64_t i = 0; i < n; i++) {
        bool same = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
        if (!same && !(fabs(a[i] - b[i]) <= tolerance * largest))
            fail_msg("%s, element %lld: %.17g became %.17g", name, (long long)i, a[i], b[i]);
    }
}

void assert_results_within(double tolerance, const Graph *a, const Graph *b, int64_t dynamic,
                           uint64_t seed) {
    Arena *arena = arena_new();
    assert_int_equal(a->inputs.count, b->inputs.count);
    assert_int_equal(a->outputs.count, b->outputs.count);
    for (uint32_t i = 0; i < a->inputs.count; i++)
        assert_ptr_equal(a->inputs.at[i]->name, b->inputs.at[i]->name);
    int64_t *extents = extents_with(a, dynamic, arena);
    double **x = evaluate(a, dynamic, seed, arena), **y = evaluate(b, dynamic, seed, arena);
    for (uint32_t i = 0; i < a->outputs.count; i++) {
        assert_ptr_equal(a->outputs.at[i].name, b->outputs.at[i].name);
        assert_same_numbers(a->outputs.at[i].name, x[i], y[i],
                            dims_volume(&a->outputs.at[i].order, extents), tolerance);
    }
    arena_free(arena);
}

void assert_same_results(const Graph *a, const Graph *b, int64_t dynamic, uint64_t seed) {
    assert_results_within(1e-11, a, b, dynamic, seed);
}

// ---- finding things ----------------------------------------------------------------------------

uint32_t count_live(const Graph *graph, Op op) {
    Arena *arena = arena_new();
    const bool *live = graph_live(graph, arena);
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->values.count; i++)
        count += live[i] && graph->values.at[i]->op == op;
    arena_free(arena);
    return count;
}

const Value *find_live(const Graph *graph, Op op) {
    Arena *arena = arena_new();
    const bool *live = graph_live(graph, arena);
    const Value *found = NULL;
    for (uint32_t i = 0; i < graph->values.count && !found; i++)
        if (live[i] && graph->values.at[i]->op == op)
            found = graph->values.at[i];
    arena_free(arena);
    if (!found)
        fail_msg("the graph has no %s", op_name(op));
    return found;
}

const Value *find_named(const Graph *graph, const char *name) {
    Arena *arena = arena_new();
    const bool *live = graph_live(graph, arena);
    const Value *found = NULL;
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (strcmp(graph->outputs.at[i].name, name) == 0)
            found = graph->outputs.at[i].value;
    for (uint32_t i = 0; i < graph->values.count && !found; i++) {
        Name hint = graph->values.at[i]->hint;
        if (live[i] && hint && strcmp(hint, name) == 0)
            found = graph->values.at[i];
    }
    arena_free(arena);
    if (!found)
        fail_msg("the graph has no %s", name);
    return found;
}

const Group *find_group(const Fusion *fusion, const Value *member) {
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        for (uint32_t k = 0; k < fusion->groups.at[i]->members.count; k++)
            if (fusion->groups.at[i]->members.at[k] == member)
                return fusion->groups.at[i];
    fail_msg("value %u is in no group", member->id);
    return NULL;
}

DimId find_dim(const Graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->dims.count; i++)
        if (strcmp(graph->dims.at[i].name, name) == 0)
            return (DimId)i;
    fail_msg("the graph has no dim %s", name);
    return DIM_NONE;
}

const char *dims_text(const Graph *graph, const DimList *dims) {
    Text text = {.arena = graph->arena};
    text_add(&text, "");
    for (uint32_t i = 0; i < dims->count; i++)
        text_printf(&text, "%s%s", i ? " " : "", graph->dims.at[dims->at[i]].name);
    return text.at ? text.at : "";
}

static int64_t value_of(const Formula *formula, const int64_t *extents) {
    if (formula->op == FORMULA_NUMBER)
        return formula->number;
    if (formula->op == FORMULA_DIM)
        return extents[formula->dim];
    int64_t a = value_of(formula->a, extents), b = value_of(formula->b, extents);
    assert_true(formula->op == FORMULA_ADD || formula->op == FORMULA_MUL);
    return formula->op == FORMULA_ADD ? a + b : a * b;
}

int64_t multiplies(const Graph *graph) {
    Arena *arena = arena_new();
    const int64_t *extents = graph_typical_extents(graph, arena);
    int64_t count = graph_multiplies(graph, extents);
    assert_int_equal(value_of(graph_multiplies_formula(graph, arena), extents), count);
    arena_free(arena);
    return count;
}

// ---- programs ----------------------------------------------------------------------------------

const char *const passes_programs[] = {
    "def MultiHead(X[n, d], M[m, d], P_q[d, d_k, h], P_k[d, d_k, h], P_v[d, d_k, h],\n"
    "        P_o[d, d_k, h]):\n"
    "    Q[n, d_k, h] = einsum(X[n, d], P_q[d, d_k, h]) / sqrt(d_k)\n"
    "    K[m, d_k, h] = einsum(M[m, d], P_k[d, d_k, h])\n"
    "    V[m, d_k, h] = einsum(M[m, d], P_v[d, d_k, h])\n"
    "    W[n, m, h] = softmax(einsum(Q[n, d_k, h], K[m, d_k, h]), reduced_dim=m)\n"
    "    Y[n, d] = einsum(W[n, m, h], V[m, d_k, h], P_o[d, d_k, h])\n"
    "    return Y[n, d]\n",
    // self attention, causal, talking heads, head masks
    "dim m like n\n"
    "dim n = 5\n"
    "def Talking(X[n, d], P_q[d, d_k, g], P_k[d, d_k, g], P_v[d, d_k, k], P_o[d, d_k, k],\n"
    "        P_l[g, h], P_w[h, k], xi[h], zeta[k]):\n"
    "    J[n, m, g] = einsum(X[n, d], P_q[d, d_k, g], X[m, d], P_k[d, d_k, g] -> [n, m, g])\n"
    "    L[n, m, h] = einsum(J[n, m, g], P_l[g, h])\n"
    "    A[n, m, h] = where(index(m) <= index(n), L[n, m, h], -inf)\n"
    "    W[n, m, h] = softmax(A[n, m, h], reduced_dim=m) * xi[h]\n"
    "    U[n, m, k] = einsum(W[n, m, h], P_w[h, k])\n"
    "    V[m, d_k, k] = einsum(X[m, d], P_v[d, d_k, k] -> [m, d_k, k]) * zeta[k]\n"
    "    O[n, d_k, k] = einsum(U[n, m, k], V[m, d_k, k])\n"
    "    Y[n, d] = einsum(O[n, d_k, k], P_o[d, d_k, k])\n"
    "    return Y[n, d], W[n, h, m]\n",
    // dynamic projections: sums of einsums with common operands
    "dim n = 6, m = 5, d = 3, g = 4, h = 4\n"
    "def Dynamic(J[n, m, g], X[n, d], M[m, d], P_l[g, h], P_x[d, g, h], P_m[d, g, h]):\n"
    "    L[n, m, h] = (einsum(J[n, m, g], P_l[g, h])\n"
    "        - einsum(J[n, m, g], einsum(X[n, d], P_x[d, g, h] -> [n, g, h]))\n"
    "        + einsum(J[n, m, g], einsum(M[m, d], P_m[d, g, h] -> [m, g, h])) * 3)\n"
    "    return L[n, m, h]\n",
    // norms, gelu, gated unit, residual, bias
    "def Block(X[n, d], W_1[d, f], W_2[d, f], W_3[f, d], b[f], gain[d]):\n"
    "    mu[n] = mean(X[n, d], reduced_dim=d)\n"
    "    c[n, d] = X[n, d] - mu[n]\n"
    "    var[n] = mean(c[n, d] ** 2, reduced_dim=d)\n"
    "    Z[n, d] = c[n, d] * rsqrt(var[n] + 1e-5) * gain[d]\n"
    "    G[n, f] = gelu(einsum(Z[n, d], W_1[d, f]) + b[f])\n"
    "    H[n, f] = G[n, f] * einsum(Z[n, d], W_2[d, f] -> [n, f])\n"
    "    Y[n, d] = X[n, d] + einsum(H[n, f], W_3[f, d])\n"
    "    return Y[n, d], Z[n, d]\n",
    // moves: embedding, slice, concat, shift, rename of what is computed
    "dim d = 6, e = 3, m like n\n"
    "def Moves(E[v, d], ids[n]: i32, S[v, d]):\n"
    "    X[n, d] = gather(E[v, d], ids[n], dim=v) * 2 + gather(S[v, d], ids[n], dim=v)\n"
    "    A[n, e] = slice(X[n, d], d, 0, 3)\n"
    "    B[n, e] = slice(X[n, d], d, 3, 6)\n"
    "    C[n, d] = concat(-B[n, e], A[n, e], dim=d)\n"
    "    D[n, d] = shift(C[n, d], n, 1) + X[n, d]\n"
    "    L[n, m] = einsum(C[n, d], C[m, d] -> [n, m])\n"
    "    T[n, m] = cumsum(L[n, m], dim=m)\n"
    "    k[n] = argmax(T[n, m], reduced_dim=m)\n"
    "    return D[n, d], T[m, n], k[n]\n",
    // one position: of inputs, of what is computed for it alone or for others too, twice, renamed
    "dim d = 6, s = 3, m like n\n"
    "def Positions(X[n, d], W[s, d, e], S[n, m], u[s]):\n"
    "    Q[n, e] = einsum(X[n, d], W[0, d, e])\n"
    "    T[n, s, e] = einsum(X[n, d], W[s, d, e], u[s])\n"
    "    L[n, m] = einsum(T[n, 0, e], T[m, 1, e] -> [n, m])\n"
    "    A[n, m] = softmax(L[n, m] * u[2], reduced_dim=m)\n"
    "    O[n, e] = einsum(A[n, m], T[m, 2, e])\n"
    "    Z[n, d] = tanh(X[n, d] * X[0, d])\n"
    "    B[m] = S[0, m] + Z[m, 5]\n"
    "    C[n, d] = cumsum(Z[n, d], dim=n)\n"
    "    return O[n, e] + Q[n, e], B[m], C[n, 3], A[0, m], X[1 - 1, d]\n",
    // scalars, results that are inputs, results twice, constants
    "def Scalars(X[n, d], Y[n, d], s[]):\n"
    "    total = sum(X[n, d] * Y[n, d], reduced_dim=(n, d))\n"
    "    loss = total / (n * d) + s\n"
    "    Z[n, d] = X[n, d] * loss - max(Y[n, d], 0)\n"
    "    A[n, d] = X[n, d]\n"
    "    B[n, d] = Z[n, d]\n"
    "    C[n, d] = Z[n, d]\n"
    "    five = 2.0 + 3\n"
    "    return loss, Z[n, d], X[d, n], A[n, d], total, B[d, n], C[n, d], five\n",
    // dynamic scale, matrix chain without any barrier, private sums
    "def Chain(A[i, j], B[j, k], C[k, l], D[l, i, p], u[q], s[]):\n"
    "    T[i, l] = einsum(A[i, j], B[j, k], C[k, l]) / sqrt(k) * s\n"
    "    R[i] = -einsum(T[i, l], D[l, i, p], u[q])\n"
    "    return R[i], T[l, i]\n",
    // sums that are reductions, sums that are contractions, other reductions
    "def Sums(A[n, d], B[d, m], w[d]):\n"
    "    S[n, m] = sum(A[n, d] * B[d, m], reduced_dim=d)\n"
    "    t[n] = sum(A[n, d] * w[d], reduced_dim=d)\n"
    "    p[n] = max(S[n, m], reduced_dim=m) - min(S[n, m], reduced_dim=m)\n"
    "    q[n] = logsumexp(S[n, m] + t[n], reduced_dim=m)\n"
    "    r[m] = prod(S[n, m], reduced_dim=n)\n"
    "    return p[n], q[n], r[m], log_softmax(S[n, m], reduced_dim=n)\n",
    NULL,
};
