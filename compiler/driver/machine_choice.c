// SPDX-License-Identifier: Apache-2.0
// Which machine code is planned for.
//
// In this order: --machine FILE, $ATTC_MACHINE, the machine that attc runs on, and for targets that
// do not run here the facts of a common machine. This machine is measured when it is first asked
// for and kept beside the compiled kernels, in a file named by what identifies it; a file that is
// damaged is as good as none. Figures are rounded, so that plans do not change with every
// measurement: to two digits, parts to tenths, and what is shared with all others on the machine to
// twelve steps of a decade. Rates that attc tune --calibrate has fitted to kernels take the place
// of those that were measured with loops of one instruction; they are in the database, where they
// outlive this compiler.
#include "driver/driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- this machine ----

static double two_digits(double x) {
    double unit = pow(10, floor(log10(x)) - 1);
    // Whole multiples are exact where a product with a fraction would not be.
    return unit >= 1 ? round(x / unit) * unit : round(x / unit) / round(1 / unit);
}

// Steps of a fifth or so: 1, 1.2, 1.5 and so on.
static double twelve_steps(double x) {
    const double steps[] = {1, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2};
    enum { N_STEPS = sizeof steps / sizeof *steps };
    int count = (int)lround(N_STEPS * log10(x));
    int decade = (int)floor((double)count / N_STEPS);
    return two_digits(steps[count - N_STEPS * decade] * pow(10, decade));
}

// What stands behind a key of /proc/cpuinfo, of the first processor; NULL: nothing.
static const char *processor_fact(Arena *arena, const char *key) {
    char line[256];
    const char *fact = NULL;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && !fact && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        size_t length = strlen(key);
        if (!colon || strncmp(line, key, length) != 0 ||
            line + length + strspn(line + length, " \t") != colon)
            continue;
        const char *at = colon + 1 + strspn(colon + 1, " \t");
        fact = arena_strndup(arena, at, strcspn(at, "\n"));
    }
    if (file)
        fclose(file);
    return fact && *fact ? fact : NULL;
}

// The model that the system names, with the numbers that tell processors of one name apart, as
// virtual machines give them: "AMD EPYC (25.17.1)". "this machine" when it does not.
static const char *processor_name(Arena *arena) {
    const char *name = processor_fact(arena, "model name");
    const char *family = processor_fact(arena, "cpu family");
    const char *model = processor_fact(arena, "model"),
               *stepping = processor_fact(arena, "stepping");
    if (!name)
        return "this machine";
    return family && model && stepping
               ? arena_printf(arena, "%s (%s.%s.%s)", name, family, model, stepping)
               : name;
}

static const char *file_name(Arena *arena, const Target *host) {
    const int caches[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    Text text = {.arena = arena};
    text_printf(&text, "%s %s cores %d build %s", processor_name(arena), host->name,
                att_cores_usable(), cache_build_id());
    for (int i = 0; i < 3; i++)
        text_printf(&text, " %ld", sysconf(caches[i]));
    return arena_printf(arena, "machine-%016llx.json", (unsigned long long)hash_text(0, text.at));
}

static double tenths(double part) {
    return floor(10 * part) / 10;
}

static Machine measure(Arena *arena, const Target *host) {
    Machine machine = host->machine;
    if (!host->measure || !host->measure(&machine))
        return host->machine;
    machine.name = processor_name(arena);
    machine.flops_per_second = two_digits(machine.flops_per_second);
    machine.splats_per_second = two_digits(machine.splats_per_second);
    machine.l1_bytes_per_second = two_digits(machine.l1_bytes_per_second);
    machine.l2_bytes_per_second = two_digits(machine.l2_bytes_per_second);
    machine.l3_bytes_per_second = twelve_steps(machine.l3_bytes_per_second);
    machine.memory_bytes_per_second = twelve_steps(machine.memory_bytes_per_second);
    machine.l2_write_cost = two_digits(machine.l2_write_cost);
    machine.l3_write_cost = two_digits(machine.l3_write_cost);
    machine.memory_write_cost = two_digits(machine.memory_write_cost);
    // Parts from below. Of the first 22 measurements of an Intel Xeon (6.167.1), not in pairs, had
    // 18 between 0.31 and 0.38.
    machine.scattered_exposed = tenths(machine.scattered_exposed);
    machine.one_set_exposed = tenths(machine.one_set_exposed);
    machine.one_set_far_exposed = tenths(machine.one_set_far_exposed);
    return machine;
}

static void keep(const Options *options, const char *name, const Machine *machine) {
    json_t *object = machine_to_json(machine);
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    cache_write_text(&options->cache, name, text);
    free(text);
    json_decref(object);
}

// Facts of the machine that this runs on, for its best target.
static const Machine *this_machine(Options *options, const Target *host) {
    if (options->measured)
        return options->measured;
    Arena *arena = options->session->arena;
    const char *name = file_name(arena, host);
    Machine *machine = arena_new_of(arena, Machine);
    *machine = host->machine;
    const char *text = cache_read_text(&options->cache, arena, name);
    if (!text || machine_from_text(arena, text, machine)) {
        *machine = measure(arena, host);
        keep(options, name, machine);
    }
    options->measured = machine;
    return machine;
}

// ---- the machine to plan for ----

// Commands that make or judge code plan for the threads asked for. What `run` and `verify` compute
// does not depend on --threads: other plans round differently.
static int threads_planned_for(const Options *options, const Machine *machine) {
    bool asked =
        options->threads && options->kind != COMMAND_RUN && options->kind != COMMAND_VERIFY;
    return asked ? options->threads : machine->threads;
}

Machine driver_machine(const Options *options, const Target *target) {
    return machine_with_threads(&target->machine, threads_planned_for(options, &target->machine));
}

// Puts in fitted rates, if there are some for it.
static void take_rates(const Options *options, const Target *target, Machine *machine) {
    for (uint32_t i = 0; i < options->rates.count; i++) {
        const TuneRates *rates = &options->rates.at[i];
        if (strcmp(rates->machine, machine->name) != 0 ||
            strcmp(rates->target, target->name) != 0 ||
            rates->threads != threads_planned_for(options, machine))
            continue;
        // Splats are counted in cycles: these stay as many.
        machine->splats_per_second *= rates->at[FROM_L1] / machine->flops_per_second;
        for (int level = 0; level < N_FROM; level++)
            *tune_rate(machine, level) = rates->at[level];
    }
}

const Target *driver_with_machine(Options *options, const Target *target) {
    Arena *arena = options->session->arena;
    const char *path = options->machine, *why = NULL;
    if (!path)
        path = getenv("ATTC_MACHINE");
    Target *whole = arena_new_of(arena, Target);
    *whole = *target;
    Machine facts = target->machine;
    const Target *host = target_host(&why);
    bool here = host && !strcmp(host->triple, target->triple) && host->level >= target->level;
    if (path && *path) {
        why = machine_from_file(arena, path, &facts);
        if (why) {
            problem(options, "machine %s: %s", path, why);
            return NULL;
        }
        here = false;
    }
    if (here)
        facts = *this_machine(options, host);
    whole->machine = machine_within(facts, &target->machine);
    if (here)
        take_rates(options, target, &whole->machine);
    return whole;
}
