// SPDX-License-Identifier: Apache-2.0
// Attention of every kind under every mask, by every plan: logits, a mask over them, and what is
// made of the masked logits are combined, and the results compared with the oracle's.
#include "lower_fixture.h"

#include <stdio.h>

static const char *const logits[] = {
    "    J[n, m, h] = einsum(Q[n, k, h], K[m, k, h]) / 2\n",
    "    G[n, m, g] = einsum(R[n, k, g], S[m, k, g])\n" // heads talk before the softmax
    "    J[n, m, h] = einsum(G[n, m, g], P_l[g, h])\n",
};
static const char *const masks[] = {
    "J[n, m, h]",
    "where(index(m) <= index(n), J[n, m, h], -inf)",
    "where(index(m) < index(n), J[n, m, h], -inf)", // the first row sees nothing
    "where(index(m) <= index(n) and index(n) - index(m) < 3, J[n, m, h], -inf)",
    "where(abs(index(n) - index(m)) <= 17, J[n, m, h], -inf)",
    "where(index(m) <= index(n) or index(m) < length * 10, J[n, m, h], -inf)",
    "where(index(m) < length * 20, J[n, m, h], -inf)",
    "where(doc[n] == doc[m], J[n, m, h], -inf)",
    "where(doc[n] == doc[m] and index(m) <= index(n), J[n, m, h], -inf)",
    "where(seen[n, m], J[n, m, h], -inf)",
    "J[n, m, h] + B[n, m, h]",
    "where(index(m) >= index(n), J[n, m, h] - 0.125 * (index(m) - index(n)), -inf)",
    "20 * tanh(J[n, m, h] / 20)",
    "where(index(m) % 3 == 0, J[n, m, h], -inf)",
    "where(index(m) == index(n), J[n, m, h], -2)",
    "where(index(m) <= index(n), where(index(m) > 40, J[n, m, h], -inf), -inf)",
};
#define WEIGHTS "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
static const char *const readers[] = {
    WEIGHTS "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n",
    // heads talk after the softmax
    WEIGHTS "    U[n, m, g] = einsum(W[n, m, h], P_w[h, g])\n"
            "    return einsum(U[n, m, g], S[m, k, g] -> [n, k, g])\n",
    WEIGHTS "    z[n, h] = logsumexp(L[n, m, h], reduced_dim=m)\n"
            "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h]), z[n, h]\n",
    WEIGHTS "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h]), W[n, m, h]\n",
    WEIGHTS "    U[n, m, g] = einsum(W[n, m, h], P_w[h, g])\n"
            "    return einsum(U[n, m, g], S[m, k, g] -> [n, k, g]), W[h, n, m], U[m, g, n]\n",
    // a difference of two
    WEIGHTS "    A[n, m, h] = softmax(einsum(C[n, k, h], K[m, k, h]), reduced_dim=m)\n"
            "    return einsum(W[n, m, h] - 0.5 * A[n, m, h], V[m, e, h] -> [n, e, h])\n",
    // a softmax by hand
    "    top[n, h] = max(max(L[n, m, h], reduced_dim=m), -1000)\n"
    "    E[n, m, h] = exp(L[n, m, h] - top[n, h])\n"
    "    z[n, h] = sum(E[n, m, h], reduced_dim=m)\n"
    "    return einsum(E[n, m, h], V[m, e, h] -> [n, e, h]) / (z[n, h] + 0.001), z[n, h]\n",
    // the entropy of a row
    WEIGHTS "    s[n, h] = sum(W[n, m, h] * max(log_softmax(L[n, m, h], reduced_dim=m), -90),\n"
            "        reduced_dim=m)\n"
            "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h]), s[n, h]\n",
    // all heads into one
    WEIGHTS "    return einsum(W[n, m, h], V[m, e, h] -> [n, e])\n",
    WEIGHTS "    U[n, m] = sum(W[n, m, h], reduced_dim=h)\n"
            "    return einsum(U[n, m], a[m] -> [n]), max(W[n, m, h], reduced_dim=(m, h))\n",
    // what the memory gets from the queries
    WEIGHTS
    "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h]), sum(W[n, m, h], reduced_dim=n)\n",
    // weights that are bent, and masked once more
    WEIGHTS "    U[n, m, h] = where(index(m) < index(n), tanh(W[n, m, h]) * a[m], 0)\n"
            "    return einsum(U[n, m, h], V[m, e, h] -> [n, e, h])\n",
    // logits that are read again after the softmax
    WEIGHTS "    return einsum(W[n, m, h] * J[n, m, h], V[m, e, h] -> [n, e, h])\n",
    // a softmax of a softmax
    WEIGHTS "    T[n, m, h] = softmax(W[n, m, h], reduced_dim=m)\n"
            "    return einsum(T[n, m, h], V[m, e, h] -> [n, e, h])\n",
    // none
    "    W[n, m, h] = sigmoid(max(L[n, m, h], -50))\n"
    "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n",
    // one attention after another
    WEIGHTS "    O[n, e, h] = tanh(einsum(W[n, m, h], V[m, e, h]))\n"
            "    T[n, m, h] = softmax(einsum(O[n, e, h], V[m, e, h]) + L[n, m, h], reduced_dim=m)\n"
            "    return einsum(T[n, m, h], K[m, k, h] -> [n, k, h])\n",
};
enum {
    N_LOGITS = sizeof logits / sizeof *logits,
    N_MASKS = sizeof masks / sizeof *masks,
    N_READERS = sizeof readers / sizeof *readers
};

static void write_program(char *text, size_t room, const char *elem, int l, int m, int r) {
    snprintf(
        text, room,
        "dim m like n\n"
        "dim k = 4, e = 4, h = 3, g = 2\n"
        "def F(Q[n, k, h]: %s, K[n, k, h]: %s, V[n, e, h]: %s, C[n, k, h]: %s, R[n, k, g]: %s,\n"
        "        S[n, k, g]: %s, P_l[g, h]: %s, P_w[h, g]: %s, B[n, m, h]: %s, a[n]: %s,\n"
        "        doc[n]: i32, length[]: i32, seen[n, m]: bool):\n"
        "%s    L[n, m, h] = %s\n%s",
        elem, elem, elem, elem, elem, elem, elem, elem, elem, elem, logits[l], masks[m],
        readers[r]);
}

// How many of the plans fit.
static uint32_t check_plans(const char *text, PlanKind first, PlanKind last, bool on_small) {
    uint32_t fitting = 0;
    Session *session = session_new();
    Graph *graph = passes_build(session, text);
    for (PlanKind plan = first; plan <= last; plan++) {
        LowerCheck check = {.machine = on_small ? &lower_small : &lower_large,
                            .typical = 512,
                            .dynamic = {1, 9, 70},
                            .plan = plan};
        fitting += lower_check(graph, &check);
    }
    session_free(session);
    return fitting;
}

// Every reader of every mask, the plans in turn.
static void test_masks_and_readers(void **state) {
    (void)state;
    char text[2000];
    uint32_t checked = 0, all = 0;
    for (int i = 0; i < N_MASKS * N_READERS; i += SWEEP_STEP, all++) {
        int m = i % N_MASKS, r = i / N_MASKS;
        write_program(text, sizeof text, "f32", (m + r) % N_LOGITS, m, r);
        PlanKind plan = (PlanKind)(PLAN_RESIDENT + (m + r) % (N_PLANS - PLAN_RESIDENT));
        checked += check_plans(text, plan, plan, m % 3 == 0);
    }
    assert_true(checked > all / 2);
}

// Every plan of every reader, under a causal mask.
static void test_plans(void **state) {
    (void)state;
    char text[2000];
    for (int r = 0; r < N_READERS; r++) {
        write_program(text, sizeof text, "f32", r % N_LOGITS, 1, r);
        assert_true(check_plans(text, PLAN_ANY, N_PLANS - 1, r % 3 == 0) >= 3);
    }
}

static void test_element_types(void **state) {
    (void)state;
    static const char *const elems[] = {"f64", "bf16", "f16"};
    char text[2000];
    for (int i = 0; i < 3 * N_READERS; i++) {
        write_program(text, sizeof text, elems[i % 3], i / 3 % N_LOGITS, i % N_MASKS, i / 3);
        assert_true(check_plans(text, PLAN_ANY, PLAN_ANY, i % 2) == 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_and_readers),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_element_types),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
