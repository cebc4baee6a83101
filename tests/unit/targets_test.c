// SPDX-License-Identifier: Apache-2.0
// The list of targets: every one has its facts, and the host's is one that the machine runs.
#include "target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "module.h"
#include "support.h"

static void every_target_is_found_by_its_name(void **state) {
    (void)state;
    int count = 0;
    for (const Target *const *at = targets_all(); *at; at++, count++)
        assert_ptr_equal(target_find((*at)->name), *at);
    assert_true(count >= 2);
    assert_null(target_find("x86-64-v5"));
    assert_null(target_find(""));
}

static void every_target_has_its_facts(void **state) {
    (void)state;
    for (const Target *const *at = targets_all(); *at; at++) {
        const Target *target = *at;
        assert_non_null(target->triple);
        assert_non_null(target->cpu);
        assert_non_null(target->features);
        assert_non_null(target->emit_kernel);
        assert_in_range(target->level, 0, ATT_N_LEVELS - 1);
        const Machine *machine = &target->machine;
        assert_non_null(machine->name);
        assert_true(machine->vector_bytes >= 16 && machine->vector_bytes % 16 == 0);
        // A microkernel of one vector fits the registers with its vector and a splat.
        assert_in_range(machine->rows_packed, 1, machine->vector_registers - 2);
        assert_in_range(machine->rows_unpacked, 1, machine->rows_packed);
        assert_true(machine->l1_bytes > 0 && machine->l2_bytes > machine->l1_bytes);
        assert_true(machine->l3_bytes > machine->l2_bytes);
        assert_true(machine->flops_per_second > 1e9);
        assert_true(machine->l1_bytes_per_second >= machine->l2_bytes_per_second);
        assert_true(machine->l2_bytes_per_second >= machine->l3_bytes_per_second);
        assert_true(machine->l3_bytes_per_second >= machine->memory_bytes_per_second);
        assert_true(machine->memory_bytes_per_second > 0);
        assert_true(machine->threads >= 1 && machine->task_seconds > 0);
        assert_true(machine->launch_seconds > 0);
    }
}

static void the_host_is_the_best_level_that_runs(void **state) {
    (void)state;
    const char *why = NULL;
    unsetenv("ATTC_LEVEL");
    const Target *host = target_host(&why);
    if (!host) {
        assert_non_null(why);
        skip();
    }
    assert_true(att_level_runs(host->level, NULL));
    for (const Target *const *at = targets_all(); *at; at++)
        if ((*at)->level > host->level)
            assert_false(att_level_runs((*at)->level, NULL));
}

static void the_environment_caps_the_host(void **state) {
    (void)state;
    const char *why = NULL;
    if (!att_level_runs(ATT_LEVEL_X86_64_V3, NULL))
        skip();
    setenv("ATTC_LEVEL", "v3", 1);
    assert_string_equal(target_host(&why)->name, "x86-64-v3");
    unsetenv("ATTC_LEVEL");
}

// Figures are not judged: the machine may be busy.
static void this_machine_can_be_measured(void **state) {
    (void)state;
    const char *why = NULL;
    const Target *host = target_host(&why);
    if (!host)
        skip();
    Machine machine = host->machine;
    int cores = att_cores_usable();
    assert_true(host->measure(&machine));
    assert_int_equal(att_cores_usable(), cores); // those that it went over are all back
    assert_true(0 < machine.l1_bytes && machine.l1_bytes < machine.l2_bytes);
    assert_true(machine.l2_bytes <= machine.l3_bytes);
    assert_true(machine.flops_per_second > 1e8 && machine.flops_per_second < 1e13);
    assert_true(machine.l1_bytes_per_second > 1e8 && machine.l2_bytes_per_second > 1e8);
    // A quarter to four splats in the time of a vector of multiply-adds.
    double vectors = machine.flops_per_second / (2 * machine_lanes(&machine, 4));
    assert_true(machine.splats_per_second > vectors / 4 && machine.splats_per_second < vectors * 4);
    assert_true(machine.l3_bytes_per_second > 1e8 && machine.memory_bytes_per_second > 1e8);
    assert_int_equal(machine.threads, att_cores_usable()); // as many as the runtime starts
    assert_int_equal(machine.vector_bytes, host->machine.vector_bytes);
}

// GB/s of 8, 12, 16, 24 ... KiB, what the system tells of L2, and what they are to be taken for.
typedef struct {
    double read[CPU_RANGES];
    int64_t told_l2, l1_bytes, l2_bytes;
    double l3_rate;
    bool all_in_l3;
} Curve;

static void a_disturbed_l2_is_not_taken_for_l3(void **state) {
    (void)state;
    static const Curve curves[] = {
        // A Xeon with 48 KiB, 2 MiB and a slow L3, alone,
        {{355, 366, 371, 375, 381, 372, 180, 180, 179, 178, 181, 180, 180,
          178, 179, 137, 76,  37,  32,  30,  30,  30,  30,  30,  30,  29},
         2 << 20,
         48 << 10,
         2 << 20,
         31,
         true},
        // and beside others or with pages that met in few sets.
        {{355, 366, 371, 375, 381, 372, 180, 180, 179, 178, 181, 137, 180,
          123, 126, 126, 76,  41,  36,  33,  32,  32,  31,  31,  30,  30},
         2 << 20,
         48 << 10,
         2 << 20,
         31,
         true},
        {{355, 366, 371, 375, 381, 372, 180, 180, 179, 178, 181, 180, 163,
          125, 143, 101, 75,  34,  31,  30,  30,  30,  30,  30,  30,  30},
         2 << 20,
         48 << 10,
         2 << 20,
         31,
         true},
        {{355, 366, 371, 375, 381, 372, 180, 180, 179, 178, 181, 149, 126,
          157, 120, 116, 76,  35,  31,  31,  30,  30,  30,  30,  30,  30},
         2 << 20,
         48 << 10,
         2 << 20,
         31,
         true},
        // An L3 that goes on behind what is told of L2, as some virtual machines tell it, is one.
        {{220, 221, 222, 223, 219, 150, 120, 121, 120, 120, 120, 119, 118,
          110, 90,  72,  70,  70,  70,  69,  70,  68,  60,  50,  40,  36},
         2 << 20,
         32 << 10,
         768 << 10,
         70,
         false},
        // An EPYC with vectors of AVX2, whose L2 is read half as fast as L1, and L3 half as fast.
        {{168, 181, 187, 192, 192, 103, 103, 104, 104, 104, 104, 103, 89,
          74,  62,  57,  54,  52,  55,  52,  54,  44,  37,  26,  23,  20},
         512 << 10,
         32 << 10,
         512 << 10,
         54,
         false},
    };
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        const Curve *curve = &curves[i];
        double rates[CPU_RANGES];
        for (int k = 0; k < CPU_RANGES; k++)
            rates[k] = 1e9 * curve->read[k];
        Machine machine = {.vector_bytes = 64, .threads = 1};
        bool guessed =
            cpu_set_caches(&machine, rates, (int64_t[]){curve->l1_bytes, curve->told_l2});
        assert_int_equal(guessed, curve->all_in_l3);
        if (guessed)
            assert_true(machine.memory_bytes_per_second == machine.l3_bytes_per_second / 2);
        assert_int_equal(machine.l1_bytes, curve->l1_bytes);
        assert_int_equal(machine.l2_bytes, curve->l2_bytes);
        assert_true(fabs(machine.l3_bytes_per_second - 1e9 * curve->l3_rate) < 2e9);
    }
}

// Of streams that do not lie in their level nothing is taken.
static void writing_costs_what_was_measured(void **state) {
    (void)state;
    const CpuStream streams[CPU_STREAMS] = {
        {128 << 10, 90e9, 60e9}, {6 << 20, 60e9, 80e9}, {48 << 20, 20e9, 2e9}};
    const Machine plain = {.threads = 2,
                           .l1_bytes = 32 << 10,
                           .l2_bytes = 512 << 10,
                           .l3_bytes = 8 << 20,
                           .l2_write_cost = 2,
                           .l3_write_cost = 2,
                           .memory_write_cost = 2};
    Machine machine = plain;
    cpu_set_write_costs(&machine, streams);
    assert_true(fabs(machine.l2_write_cost - 1.5) < 1e-9);
    assert_true(fabs(machine.l3_write_cost - 1) < 1e-9); // 60e9 as L2 is written: not below 1
    assert_true(machine.memory_write_cost == 4);         // of 10
    machine = plain;
    machine.l1_bytes = 192 << 10;
    machine.l2_bytes = 5 << 20;
    machine.l3_bytes = 24 << 20;
    cpu_set_write_costs(&machine, streams);
    assert_memory_equal(&machine.l2_write_cost, &plain.l2_write_cost, 3 * sizeof(double));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target_is_found_by_its_name),
        cmocka_unit_test(every_target_has_its_facts),
        cmocka_unit_test(the_host_is_the_best_level_that_runs),
        cmocka_unit_test(the_environment_caps_the_host),
        cmocka_unit_test(this_machine_can_be_measured),
        cmocka_unit_test(a_disturbed_l2_is_not_taken_for_l3),
        cmocka_unit_test(writing_costs_what_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
