// SPDX-License-Identifier: Apache-2.0
// The runtime: tensors, 16-bit floats, random numbers, levels.

#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int make_context(void **state) {
    *state = att_context_new(2);
    return *state ? 0 : -1;
}

static int free_context(void **state) {
    att_context_free(*state);
    return 0;
}

// ---- tensors -----------------------------------------------------------------------------------
static void elements(void **state) {
    static const struct {
        AttElem elem;
        size_t bytes;
        const char *name;
    } table[] = {{ATT_F32, 4, "f32"},   {ATT_F64, 8, "f64"},       {ATT_F16, 2, "f16"},
                 {ATT_BF16, 2, "bf16"}, {ATT_I32, 4, "i32"},       {ATT_I64, 8, "i64"},
                 {ATT_BOOL, 1, "bool"}, {ATT_N_ELEM, 0, "unknown"}};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(att_elem_bytes(table[i].elem), table[i].bytes);
        assert_string_equal(att_elem_name(table[i].elem), table[i].name);
    }
}

static void tensors(void **state) {
    AttTensorData tensor;
    int64_t shape[3] = {3, 5, 7};
    assert_int_equal(att_tensor_new(*state, ATT_F64, 3, shape, &tensor), ATT_OK);
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    for (int i = 0; i < 105; i++)
        assert_true(((double *)tensor.data)[i] == 0);
    att_tensor_free(&tensor);
    assert_null(tensor.data);
    att_tensor_free(&tensor);
    int64_t large[1] = {3 << 20}; // huge pages
    assert_int_equal(att_tensor_new(*state, ATT_F32, 1, large, &tensor), ATT_OK);
    assert_true(((float *)tensor.data)[large[0] - 1] == 0);
    att_tensor_free(&tensor);
}

static void bad_tensors(void **state) {
    AttTensorData tensor;
    int64_t huge[2] = {INT64_C(1) << 32, INT64_C(1) << 31}, negative[1] = {-1};
    int64_t too_much[1] = {INT64_C(1) << 56}, empty[2] = {0, 5};
    assert_int_equal(att_tensor_new(*state, ATT_F32, 2, huge, &tensor), ATT_ARGUMENT);
    assert_non_null(strstr(att_message(*state), "more bytes than memory can hold"));
    assert_int_equal(att_tensor_new(*state, ATT_F32, 1, negative, &tensor), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "dim 0 of a tensor has the extent -1");
    assert_int_equal(att_tensor_new(*state, ATT_F32, ATT_RANK_MAX + 1, huge, &tensor),
                     ATT_ARGUMENT);
    assert_int_equal(att_tensor_new(*state, ATT_F32, -1, huge, &tensor), ATT_ARGUMENT);
    assert_int_equal(att_tensor_new(*state, ATT_N_ELEM, 0, huge, &tensor), ATT_ARGUMENT);
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
    (void)too_much; // the sanitizer ends the process instead of returning NULL
#else
    assert_int_equal(att_tensor_new(*state, ATT_F32, 1, too_much, &tensor), ATT_MEMORY);
    assert_null(tensor.data);
#endif
    assert_int_equal(att_tensor_new(*state, ATT_F32, 2, empty, &tensor), ATT_OK);
    assert_null(tensor.data);
}

static void messages(void **state) {
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(att_fail(*state, ATT_IO, "%d %s", 5, "a"), ATT_IO);
    assert_string_equal(att_message(*state), "5 a");
    att_fail(*state, ATT_IO, "again: %s", att_message(*state));
    assert_string_equal(att_message(*state), "again: 5 a");
    att_fail(*state, ATT_IO, "%s", text);
    assert_int_equal(strlen(att_message(*state)), 1023);
}

static void no_context(void **state) {
    (void)state;
    AttTensorData tensor = {0};
    assert_int_equal(att_fail(NULL, ATT_IO, "%d", 5), ATT_IO);
    assert_string_equal(att_message(NULL), "");
    assert_int_equal(att_context_threads(NULL), 0);
    assert_int_equal(att_parallel(NULL, NULL, NULL, 1, 0), ATT_ARGUMENT);
    assert_int_equal(att_npy_read(NULL, "/no/such/file", ATT_F32, &tensor), ATT_IO);
    att_context_free(NULL);
}

// ---- 16-bit floats -----------------------------------------------------------------------------
static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The value of a positive finite half in the plain reading of the format.
static double half_value(int bits) {
    int exponent = bits >> 10, fraction = bits & 0x3FF;
    return exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
}

static void halves_to_floats(void **state) {
    (void)state;
    for (int bits = 0; bits < 0x7C00; bits++) {
        assert_true((double)att_f16_to_f32((uint16_t)bits) == half_value(bits));
        assert_true((double)att_f16_to_f32((uint16_t)(bits | 0x8000)) == -half_value(bits));
    }
    assert_true(signbit(att_f16_to_f32(0x8000)));
    assert_true(att_f16_to_f32(0x7C00) == INFINITY);
    assert_true(att_f16_to_f32(0xFC00) == -INFINITY);
    for (int bits = 0x7C01; bits < 0x8000; bits++)
        assert_true(isnan(att_f16_to_f32((uint16_t)bits)));
}

// Around every half and every midpoint between two: nearest, ties to even.
static void floats_to_halves(void **state) {
    (void)state;
    for (int bits = 0; bits < 0x7C00; bits++) {
        double next = bits == 0x7BFF ? 65536 : half_value(bits + 1);
        float exact = (float)half_value(bits), middle = (float)((half_value(bits) + next) / 2);
        int even = bits & 1 ? bits + 1 : bits;
        for (int sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign ? -1 : 1;
            assert_int_equal(att_f32_to_f16(s * exact), bits | sign);
            assert_int_equal(att_f32_to_f16(s * middle), even | sign);
            assert_int_equal(att_f32_to_f16(s * nextafterf(middle, 0)), bits | sign);
            assert_int_equal(att_f32_to_f16(s * nextafterf(middle, INFINITY)), (bits + 1) | sign);
        }
    }
    assert_int_equal(att_f32_to_f16(INFINITY), 0x7C00);
    assert_int_equal(att_f32_to_f16(-1e30f), 0xFC00);
    assert_int_equal(att_f32_to_f16(1e-40f), 0);
    for (int shift = 0; shift < 23; shift++) {
        assert_true(isnan(att_f16_to_f32(att_f32_to_f16(float_of(0x7F800000 | 1u << shift)))));
        assert_true(isnan(att_bf16_to_f32(att_f32_to_bf16(float_of(0xFF800000 | 1u << shift)))));
    }
}

static void brain_floats(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x7F80; bits++) {
        float exact = float_of(bits << 16), middle = float_of(bits << 16 | 0x8000);
        uint32_t even = bits & 1 ? bits + 1 : bits;
        assert_true(att_bf16_to_f32((uint16_t)bits) == exact);
        assert_int_equal(att_f32_to_bf16(exact), bits);
        assert_int_equal(att_f32_to_bf16(-exact), bits | 0x8000);
        assert_int_equal(att_f32_to_bf16(middle), even);
        assert_int_equal(att_f32_to_bf16(-nextafterf(middle, 0)), bits | 0x8000);
        assert_int_equal(att_f32_to_bf16(nextafterf(middle, INFINITY)), bits + 1);
    }
    assert_int_equal(att_f32_to_bf16(INFINITY), 0x7F80);
    assert_int_equal(att_f32_to_bf16(-INFINITY), 0xFF80);
}

// ---- random numbers ----------------------------------------------------------------------------
// The vectors
// published with the generator (Random123, kat_vectors).
static void philox(void **state) {
    static const struct {
        uint64_t seed, stream, block;
        uint32_t word[4];
    } table[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        AttRandomBlock block = att_philox(table[i].seed, table[i].stream, table[i].block);
        assert_memory_equal(block.word, table[i].word, sizeof block.word);
    }
}

// Element i does not depend on how many are asked for.
static void prefixes(void **state) {
    enum { N = 37 };
    float all[N], some[N];
    int64_t all_whole[N], some_whole[N];
    (void)state;
    att_random_uniform(3, 4, N, all);
    for (int n = 0; n < N; n++)
        assert_true(att_random_uniform_at(3, 4, (uint64_t)n) == all[n]);
    for (int n = 0; n <= N; n++) {
        att_random_normal(3, 4, N, all);
        att_random_normal(3, 4, n, some);
        assert_memory_equal(all, some, (size_t)n * sizeof *all);
        att_random_uniform(3, 4, N, all);
        att_random_uniform(3, 4, n, some);
        assert_memory_equal(all, some, (size_t)n * sizeof *all);
        att_random_integers(3, 4, N, 1000, all_whole);
        att_random_integers(3, 4, n, 1000, some_whole);
        assert_memory_equal(all_whole, some_whole, (size_t)n * sizeof *all_whole);
    }
    att_random_normal(3, 4, N, all);
    att_random_normal(3, 5, N, some);
    assert_true(all[0] != some[0] && all[N - 1] != some[N - 1]);
    att_random_normal(4, 4, N, some);
    assert_true(all[0] != some[0] && all[N - 1] != some[N - 1]);
    att_random_normal_from(3, 4, 10, N - 10, some);
    assert_memory_equal(all + 10, some, (N - 10) * sizeof *all);
}

// Moments within five standard errors.
static void distributions(void **state) {
    enum { N = 1 << 18 };
    float *x = malloc(N * sizeof *x);
    int64_t *whole = malloc(N * sizeof *whole), seen[7] = {0};
    double sum = 0, squares = 0, fourth = 0;
    (void)state;
    assert_true(x && whole);
    att_random_normal(1, 2, N, x);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i];
        sum += v;
        squares += v * v;
        fourth += v * v * v * v;
    }
    assert_true(fabs(sum / N) < 5 / sqrt(N));
    assert_true(fabs(squares / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(fourth / N - 3) < 5 * sqrt(96.0 / N));
    att_random_uniform(1, 2, N, x);
    sum = 0;
    for (int i = 0; i < N; i++) {
        assert_true(x[i] >= 0 && x[i] < 1);
        sum += (double)x[i];
    }
    assert_true(fabs(sum / N - 0.5) < 5 / sqrt(12.0 * N));
    att_random_integers(1, 2, N, 7, whole);
    for (int i = 0; i < N; i++) {
        assert_in_range(whole[i], 0, 6);
        seen[whole[i]]++;
    }
    for (int v = 0; v < 7; v++)
        assert_true(fabs((double)seen[v] - N / 7.0) < 5 * sqrt(N / 7.0));
    att_random_integers(1, 2, 10, 0, whole);
    assert_int_equal(whole[9], 0);
    free(x);
    free(whole);
}

static void drawn_tensors(void **state) {
    AttTensorData a, b;
    int64_t shape[2] = {100, 100};
    for (int elem = 0; elem < ATT_N_ELEM; elem++) {
        AttContext *alone = att_context_new(1);
        assert_non_null(alone);
        assert_int_equal(att_tensor_new(*state, elem, 2, shape, &a), ATT_OK);
        assert_int_equal(att_tensor_new(*state, elem, 2, shape, &b), ATT_OK);
        assert_int_equal(att_tensor_draw(*state, &a, 5, "P_q", 1), ATT_OK);
        assert_int_equal(att_tensor_draw(alone, &b, 5, "P_q", 1), ATT_OK);
        assert_memory_equal(a.data, b.data, 10000 * att_elem_bytes(elem));
        assert_int_equal(att_tensor_draw(alone, &b, 5, "P_k", 1), ATT_OK);
        assert_memory_not_equal(a.data, b.data, 10000 * att_elem_bytes(elem));
        att_context_free(alone);
        double squares = 0;
        for (int i = 0; elem == ATT_F32 && i < 10000; i++)
            squares += (double)((float *)a.data)[i] * (double)((float *)a.data)[i];
        if (elem == ATT_F32)
            assert_true(fabs(squares / 10000 - 0.01) < 0.0008); // deviation 1/sqrt(100)
        att_tensor_free(&a);
        att_tensor_free(&b);
    }
}

// ---- levels ------------------------------------------------------------------------------------
static void levels(void **state) {
    const char *missing;
    (void)state;
    setenv("ATTC_LEVEL", "v3", 1);
    assert_false(att_level_runs(ATT_LEVEL_X86_64_V4, &missing));
    assert_non_null(missing);
    unsetenv("ATTC_LEVEL");
#if defined(__x86_64__)
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool v4 = v3 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    assert_int_equal(att_level_runs(ATT_LEVEL_X86_64_V3, &missing), v3);
    assert_int_equal(missing == NULL, v3);
    assert_int_equal(att_level_runs(ATT_LEVEL_X86_64_V4, NULL), v4);
    assert_false(att_level_runs(ATT_LEVEL_AARCH64, &missing));
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements),         cmocka_unit_test(tensors),
        cmocka_unit_test(bad_tensors),      cmocka_unit_test(messages),
        cmocka_unit_test(no_context),       cmocka_unit_test(halves_to_floats),
        cmocka_unit_test(floats_to_halves), cmocka_unit_test(brain_floats),
        cmocka_unit_test(philox),           cmocka_unit_test(prefixes),
        cmocka_unit_test(distributions),    cmocka_unit_test(drawn_tensors),
        cmocka_unit_test(levels),
    };
    return cmocka_run_group_tests(tests, make_context, free_context);
}
