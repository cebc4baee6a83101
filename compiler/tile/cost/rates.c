// SPDX-License-Identifier: Apache-2.0
// From what was counted of a kernel to seconds on a machine.
//
//     A = cycles / rate    T = sum of bytes / rate    E = sum of exposed bytes / rate
//     seconds of a stage = A + E if A >= T or E >= T, else T + E / T * A
//
// Twice the reciprocals of all rates are twice the seconds, so these are the sum of what is due to
// each of the rates (Euler's theorem on homogeneous functions): of what does not depend on the
// number of tasks. In the sum each rate has its own term alone; else a level with more than its
// share of what is exposed makes the arithmetic count more. No rate that falls makes a stage
// faster: E / T and A / T are below 1 there.
#include "tile/cost/cost.h"

static double bandwidth(const Machine *machine, int level) {
    const double rates[] = {machine->l1_bytes_per_second, machine->l2_bytes_per_second,
                            machine->l3_bytes_per_second, machine->memory_bytes_per_second};
    return rates[level];
}

// Seconds of a stage, each alone. Bytes from L1 are loads of the arithmetic.
typedef struct {
    double arithmetic, traffic, exposed;
    double of[N_FROM], exposed_of[N_FROM]; // traffic and exposed, by level
} Alone;

static Alone alone_on(const StageCost *stage, const Machine *machine) {
    Alone alone = {.arithmetic = stage->cycles * machine_cycle(machine)};
    for (int level = FROM_L2; level < N_FROM; level++) {
        alone.of[level] = stage->bytes[level] / bandwidth(machine, level);
        alone.exposed_of[level] = stage->exposed[level] / bandwidth(machine, level);
        alone.traffic += alone.of[level];
        alone.exposed += alone.exposed_of[level];
    }
    return alone;
}

// Does the time follow from arithmetic and waiting, the traffic being hidden?
static bool is_hidden(const Alone *alone) {
    return alone->arithmetic >= alone->traffic || alone->exposed >= alone->traffic;
}

double cost_stage_seconds(const StageCost *stage, const Machine *machine) {
    Alone alone = alone_on(stage, machine);
    if (is_hidden(&alone))
        return alone.arithmetic + alone.exposed;
    return alone.traffic + alone.exposed / alone.traffic * alone.arithmetic;
}

static void add_due(const Alone *alone, double due[N_FROM]) {
    double arithmetic = alone->arithmetic, traffic = alone->traffic, exposed = alone->exposed;
    bool hidden = is_hidden(alone);
    due[FROM_L1] += arithmetic * (hidden ? 1 : exposed / traffic);
    for (int level = FROM_L2; level < N_FROM; level++)
        due[level] += hidden ? alone->exposed_of[level]
                             : alone->of[level] + arithmetic / traffic *
                                                      (alone->exposed_of[level] -
                                                       exposed / traffic * alone->of[level]);
}

RatedCost tile_cost_rated(const TileCost *counted, const Machine *machine) {
    double cycle = machine_cycle(machine);
    RatedCost out = {.seconds = counted->outside_seconds};
    out.due[FROM_L1] = counted->cycles * cycle;
    for (uint32_t i = 0; i < counted->stages.count; i++) {
        Alone alone = alone_on(&counted->stages.at[i], machine);
        add_due(&alone, out.due);
    }
    for (int level = 0; level < N_FROM; level++)
        out.due[level] *= counted->waited;
    out.due[FROM_L1] += counted->outside_cycles * cycle;
    for (int level = 0; level < N_FROM; level++)
        out.seconds += out.due[level];
    return out;
}
