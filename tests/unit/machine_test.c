// SPDX-License-Identifier: Apache-2.0
// What follows from the facts of a machine.
#include "base/machine.h"
#include "support.h"

#include <math.h>
#include <stdbool.h>

static const Machine facts = {
    .name = "facts",
    .vector_bytes = 64,
    .vector_registers = 32,
    .has_masks = true,
    .rows_unpacked = 12,
    .rows_packed = 14,
    .l1_bytes = 48 << 10,
    .l2_bytes = 1 << 20,
    .l3_bytes = 4 << 20,
    .flops_per_second = 128e9,
    .splats_per_second = 4e9,
    .l1_bytes_per_second = 256e9,
    .l2_bytes_per_second = 64e9,
    .l3_bytes_per_second = 32e9,
    .memory_bytes_per_second = 16e9,
    .l2_write_cost = 2,
    .l3_write_cost = 2,
    .memory_write_cost = 2,
    .threads = 8,
    .task_seconds = 5e-7,
    .launch_seconds = 5e-6,
};

static void assert_near(double value, double wanted, double within) {
    if (!(fabs(value - wanted) <= within))
        fail_msg("%g is not %g", value, wanted);
}

static void vectors_and_cycles(void **state) {
    (void)state;
    assert_int_equal(machine_lanes(&facts, 4), 16);
    assert_int_equal(machine_lanes(&facts, 8), 8);
    assert_int_equal(machine_lanes(&(Machine){.vector_bytes = 16}, 32), 1);
    assert_int_equal(machine_panel_lanes(&facts, 4), 32);
    // Two fused multiply-adds of 16 lanes are 64 flops.
    assert_near(machine_cycle(&facts), 64 / 128e9, 1e-15);
}

static void a_working_set_has_the_rate_of_its_level(void **state) {
    (void)state;
    static const struct {
        double bytes, rate;
    } sets[] = {{1, 256e9},       {48 << 10, 256e9}, {50 << 10, 64e9},
                {1 << 20, 64e9},  {2 << 20, 32e9},   {32 << 20, 32e9}, // of all threads
                {33 << 20, 16e9}, {1e15, 16e9}};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        assert_near(machine_bandwidth(&facts, sets[i].bytes), sets[i].rate, 0);
    // Arithmetic and traffic.
    assert_near(machine_seconds(&facts, 128e9, 0), 1, 1e-12);
    assert_near(machine_seconds(&facts, 0, 16e9), 1, 1e-12);
    assert_near(machine_seconds(&facts, 128e9, 64 << 20), 1 + (64 << 20) / 16e9, 1e-12);
}

static void threads_share_what_the_last_cache_holds(void **state) {
    (void)state;
    Machine one = machine_with_threads(&facts, 1), many = machine_with_threads(&facts, 32);
    assert_int_equal(one.threads, 1);
    assert_int_equal(one.l3_bytes, 32 << 20);
    assert_int_equal(many.l3_bytes, 1 << 20);
    assert_int_equal(many.l2_bytes, facts.l2_bytes);
    assert_int_equal(machine_with_threads(&one, 8).l3_bytes, facts.l3_bytes);
}

static void code_uses_no_more_than_it_has(void **state) {
    (void)state;
    Machine limits = {.vector_bytes = 32,
                      .vector_registers = 16,
                      .rows_unpacked = 6,
                      .rows_packed = 6,
                      .l2_bytes = 1,
                      .threads = 1};
    Machine within = machine_within(facts, &limits);
    assert_int_equal(within.vector_bytes, 32);
    assert_int_equal(within.vector_registers, 16);
    assert_false(within.has_masks);
    assert_int_equal(within.rows_unpacked, 6);
    assert_int_equal(within.rows_packed, 6);
    assert_near(within.flops_per_second, 64e9, 1);
    assert_near(machine_cycle(&within), machine_cycle(&facts), 1e-15);
    assert_near(within.l2_bytes_per_second, facts.l2_bytes_per_second, 0);
    assert_int_equal(within.l2_bytes, facts.l2_bytes);
    assert_int_equal(within.threads, facts.threads);
    Machine same = machine_within(facts, &facts);
    assert_int_equal(same.vector_bytes, 64);
    assert_true(same.has_masks);
    assert_near(same.flops_per_second, facts.flops_per_second, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_and_cycles),
        cmocka_unit_test(a_working_set_has_the_rate_of_its_level),
        cmocka_unit_test(threads_share_what_the_last_cache_holds),
        cmocka_unit_test(code_uses_no_more_than_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
