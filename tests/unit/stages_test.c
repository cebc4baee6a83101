// SPDX-License-Identifier: Apache-2.0
// Layout and lowering agree: what graph_layout and the packing of operands promise a contraction of
// a streamed group, the lowering finds, so that each runs as a contraction stage.
#include "passes_fixture.h"

#include <glob.h>
#include <string.h>

#include "tile/tile.h"

static uint32_t count_stages(const NodeList *body, StageKind kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        if (node->kind == NODE_STAGE)
            count += node->stage->kind == kind;
        else
            count += count_stages(&node->body, kind);
    }
    return count;
}

// Elementwise along the streamed dim (a factor of each head for each memory position), and no
// product of matrices besides (a mixing matrix for each): a sum of products.
static bool is_elementwise(const Group *group, const Value *contraction) {
    DimId streamed = group->reduced.at[0];
    const DimList *a = &contraction->args[0]->dims, *b = &contraction->args[1]->dims;
    return dims_has(&contraction->dims, streamed) && dims_has(a, streamed) &&
           dims_has(b, streamed) && (dims_subset(a, b) || dims_subset(b, a));
}

static uint32_t count_contractions(const Group *group) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < group->members.count; i++)
        count +=
            group->members.at[i]->op == OP_CONTRACT && !is_elementwise(group, group->members.at[i]);
    return count;
}

// Each contraction of a streamed group is one stage when all of the streamed dim is there at once.
// The number of streamed groups.
static uint32_t check_stages(const Graph *built, const char *text) {
    Arena *arena = built->session->arena;
    Plan *plan = passes_plan_for(&passes_machine, built, true);
    const int64_t *extents = graph_typical_extents(plan->fusion->graph, arena);
    TileProgram *program =
        tile_lower(plan, &passes_machine, extents, &(ScheduleWish){.forced.plan = PLAN_RESIDENT});
    assert_non_null(program);
    const Group *last = NULL;
    uint32_t groups = 0;
    for (uint32_t i = 0; i < program->launches.count; i++) {
        const Launch *launch = &program->launches.at[i];
        if (launch->group->kind != GROUP_STREAM || launch->group == last)
            continue; // one of several sizes is enough
        last = launch->group;
        groups++;
        const Kernel *kernel = program->kernels.at[launch->kernel];
        uint32_t contractions = count_contractions(last);
        uint32_t stages = count_stages(&kernel->body, STAGE_CONTRACT);
        if (contractions == stages)
            continue;
        Text printed = {.arena = arena};
        kernel_print(kernel, &printed);
        fail_msg("%u contractions, %u contraction stages in\n%s%s", contractions, stages, text,
                 printed.at);
    }
    return groups;
}

// Nothing in them is over pairs of positions that need not be stored.
static bool has_no_pairs(const char *path) {
    static const char *const names[] = {"one_query", "topk", "expert", "deltanet", "gated_linear"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(path, names[i]))
            return true;
    return false;
}

// Whole models are of many layers, and end with a loss that is no attention.
static bool is_model(const char *path) {
    static const char *const names[] = {"lm.attn", "bert.attn", "t5.attn", "transformer.attn"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(path, names[i]))
            return true;
    return false;
}

static void test_examples(void **state) {
    (void)state;
    glob_t files;
    assert_int_equal(glob("examples/*.attn", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const char *path = files.gl_pathv[i];
        if (is_model(path))
            continue;
        Session *session = session_new();
        uint32_t groups = check_stages(passes_build_file(session, path), path);
        if (groups != (has_no_pairs(path) ? 0 : 1))
            fail_msg("%s has %u streamed groups", path, groups);
        session_free(session);
    }
    globfree(&files);
}

static void check_text(const char *text) {
    Session *session = session_new();
    if (check_stages(passes_build(session, text), text) == 0)
        fail_msg("nothing is streamed in\n%s", text);
    session_free(session);
}

// Every order of the dims of queries, keys and values, and some of the results.
static void test_memory_orders(void **state) {
    (void)state;
    static const char *const q[] = {"n, k, h", "n, h, k", "h, n, k",
                                    "h, k, n", "k, n, h", "k, h, n"};
    static const char *const k[] = {"m, k, h", "m, h, k", "h, m, k",
                                    "h, k, m", "k, m, h", "k, h, m"};
    static const char *const v[] = {"m, e, h", "m, h, e", "h, m, e",
                                    "h, e, m", "e, m, h", "e, h, m"};
    static const char *const o[] = {"n, e, h", "h, e, n", "e, n, h"};
    for (int i = 0; i < 6 * 6; i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "dim n = 64, m = 96, h = 4, g = 4, k = 32, e = 32\n"
                 "def F(Q[%s], K[%s], V[%s], P_l[h, g], P_w[g, h]):\n"
                 "    J[n, m, h] = einsum(Q[n, k, h], K[m, k, h]) / 3\n"
                 "    L[n, m, g] = einsum(J[n, m, h], P_l[h, g])\n"
                 "    W[n, m, g] = softmax(L[n, m, g], reduced_dim=m)\n"
                 "    U[n, m, h] = einsum(W[n, m, g], P_w[g, h])\n"
                 "    O[n, e, h] = einsum(U[n, m, h], V[m, e, h])\n"
                 "    return O[%s]\n",
                 q[i % 6], k[i / 6], v[(i + i / 6) % 6], o[i % 3]);
        check_text(text);
    }
}

#define CORE(elem)                                                                                 \
    "def F(Q[n, k, h]: " elem ", K[m, k, h]: " elem ", V[m, e, h]: " elem "):\n"                   \
    "    W[n, m, h] = softmax(einsum(Q[n, k, h], K[m, k, h]), reduced_dim=m)\n"                    \
    "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n"

static void test_variants(void **state) {
    (void)state;
    static const char *const texts[] = {
        CORE("f32"),
        CORE("f64"),
        "dim n = 8, m = 5, k = 3, e = 2, h = 3\n" CORE("f32"),
        "dim n = 100, m = 1, k = 1, e = 1, h = 1\n" CORE("f32"),
        "dim n = 512, m = 512, k = 64, e = 7, h = 1\n" CORE("f32"),
        "dim n = 512, m = 512, k = 64, e = 200, h = 3\n" CORE("f64"),
        // projections, batch, one head's keys for all
        "dim d = 64, k = 16, h = 4\n"
        "def F(X[b, n, d], M[b, m, d], P_q[d, k, h], P_k[d, k], P_v[d, k], P_o[d, k, h]):\n"
        "    Q[b, n, k, h] = einsum(X[b, n, d], P_q[d, k, h])\n"
        "    K[b, m, k] = einsum(M[b, m, d], P_k[d, k])\n"
        "    V[b, m, k] = einsum(M[b, m, d], P_v[d, k])\n"
        "    W[b, n, m, h] = softmax(einsum(Q[b, n, k, h], K[b, m, k]), reduced_dim=m)\n"
        "    return einsum(W[b, n, m, h], V[b, m, k], P_o[d, k, h] -> [b, n, d])\n",
        // one tensor as queries, keys and values
        "dim m like n\n"
        "dim d = 64\n"
        "def F(X[b, n, d]):\n"
        "    W[b, n, m] = softmax(einsum(X[b, n, d], X[b, m, d]), reduced_dim=m)\n"
        "    return einsum(W[b, n, m], X[b, m, d] -> [b, n, d])\n",
        // a difference of two
        "dim k = 64, h = 8\n"
        "def F(Q[n, k, h], K[m, k, h], R[n, k, h], S[m, k, h], V[m, k, h], a[h]):\n"
        "    A[n, m, h] = softmax(einsum(Q[n, k, h], K[m, k, h]), reduced_dim=m)\n"
        "    B[n, m, h] = softmax(einsum(R[n, k, h], S[m, k, h]), reduced_dim=m)\n"
        "    return einsum(A[n, m, h] - a[h] * B[n, m, h], V[m, k, h] -> [n, k, h])\n",
        // no softmax
        "dim n = 2048, m = 2048, k = 64, h = 8\n"
        "def F(Q[n, k, h], K[m, k, h], V[m, k, h]):\n"
        "    W[n, m, h] = sigmoid(einsum(Q[n, k, h], K[m, k, h]))\n"
        "    return einsum(W[n, m, h], V[m, k, h] -> [n, k, h])\n",
        // weights returned, in two orders
        "dim k = 64, h = 8, g = 8\n"
        "def F(Q[n, k, h], K[m, k, h], V[m, k, g], P[h, g]):\n"
        "    W[n, m, h] = softmax(einsum(Q[n, k, h], K[m, k, h]), reduced_dim=m)\n"
        "    U[n, m, g] = einsum(W[n, m, h], P[h, g])\n"
        "    return einsum(U[n, m, g], V[m, k, g] -> [n, k, g]), W[n, m, h]\n",
        "dim k = 64, h = 8, g = 8\n"
        "def F(Q[n, k, h], K[m, k, h], V[m, k, g], P[h, g]):\n"
        "    W[n, m, h] = softmax(einsum(Q[n, k, h], K[m, k, h]), reduced_dim=m)\n"
        "    U[n, m, g] = einsum(W[n, m, h], P[h, g])\n"
        "    return einsum(U[n, m, g], V[m, k, g] -> [n, k, g]), W[h, n, m]\n",
        // over the queries
        "dim k = 64, h = 8\n"
        "def F(Q[n, k, h], K[m, k, h], V[n, k, h]):\n"
        "    W[n, m, h] = softmax(einsum(Q[n, k, h], K[m, k, h]), reduced_dim=n)\n"
        "    return einsum(W[n, m, h], V[n, k, h] -> [m, k, h])\n",
        // two layers
        "dim k = 64, h = 8\n"
        "def F(Q[n, k, h], K[m, k, h], V[m, k, h], R[m, k, h], U[m, k, h]):\n"
        "    W[n, m, h] = softmax(einsum(Q[n, k, h], K[m, k, h]), reduced_dim=m)\n"
        "    O[n, k, h] = tanh(einsum(W[n, m, h], V[m, k, h]))\n"
        "    T[n, m, h] = softmax(einsum(O[n, k, h], R[m, k, h]), reduced_dim=m)\n"
        "    return einsum(T[n, m, h], U[m, k, h] -> [n, k, h])\n",
        // keys that are computed, from what is given
        "dim k = 64, h = 8\n"
        "def F(Q[n, k, h], K[m, k, h], V[m, k, h], c[m, k]):\n"
        "    R[m, k, h] = K[m, k, h] * c[m, k]\n"
        "    W[n, m, h] = softmax(einsum(Q[n, k, h], R[m, k, h]), reduced_dim=m)\n"
        "    return einsum(W[n, m, h], V[m, k, h] -> [n, k, h])\n",
        // queries scaled by what belongs to the row
        "dim k = 64, h = 8\n"
        "def F(Q[n, k, h], K[m, k, h], V[m, k, h], s[n]):\n"
        "    W[n, m, h] = softmax(einsum(Q[n, k, h] * s[n], K[m, k, h]), reduced_dim=m)\n"
        "    return einsum(W[n, m, h], V[m, k, h] -> [n, k, h])\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(texts[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_memory_orders),
        cmocka_unit_test(test_variants),
    };
    return cmocka_run_group_tests_name("stages", tests, NULL, NULL);
}
