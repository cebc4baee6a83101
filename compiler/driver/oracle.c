// SPDX-License-Identifier: Apache-2.0
// The oracle on the tensors of an entry, and what it takes: said before it begins.
#include "driver/driver.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

static const double SECONDS_QUIET = 5, BYTES_QUIET = 0x1p28; // less is not worth a word

double **oracle_run(const Tensors *tensors, EvalMode mode, Arena *arena) {
    const Graph *graph = tensors->graph;
    Arena *scratch = arena_new();
    EvalRun run = {
        .extents = tensors->extents,
        .inputs = arena_array(scratch, double *, graph->inputs.count + 1),
    };
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        run.inputs[i] = tensor_to_doubles(&tensors->inputs[i], scratch);
    graph_eval(graph, mode, &run, arena);
    arena_free(scratch);
    return run.outputs;
}

// ---- what it takes ----

// What this process may have at most: of the machine, of its control group, of its own limit.
static double bytes_at_most(void) {
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), group;
    struct rlimit limit;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    if (file && fscanf(file, "%lf", &group) == 1) // "max" when there is none
        bytes = fmin(bytes, group);
    if (file)
        fclose(file);
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
        bytes = fmin(bytes, (double)limit.rlim_cur);
    return bytes;
}

static double bytes_of(const DimList *dims, const int64_t *extents, double per_element) {
    for (uint32_t i = 0; i < dims->count; i++)
        per_element *= (double)extents[dims->at[i]];
    return per_element;
}

typedef struct {
    EvalNeeds least;
    double most; // seconds: where all draws are made
} OracleNeeds;

// With derivatives of the plain graph along directions, and what these move by.
static void add_directions(OracleNeeds *needs, const Tensors *tensors, const Graph *plain,
                           double exact) {
    EvalNeeds slope = graph_slope_needs(plain, tensors->extents);
    needs->least.seconds += N_DIRECTIONS * slope.seconds;
    needs->least.bytes = fmax(needs->least.bytes, slope.bytes);
    needs->most +=
        N_DIRECTIONS * slope.seconds + NOISE_DRAWS * (exact + 2 * N_DIRECTIONS * slope.seconds);
}

static double bytes_of_inputs(const Tensors *tensors, uint32_t doubles) {
    double bytes = 0;
    for (uint32_t i = 0; i < tensors->graph->inputs.count; i++) {
        const Value *input = tensors->graph->inputs.at[i];
        bytes += bytes_of(&input->dims, tensors->extents,
                          (double)elem_bytes(input->elem) + doubles * sizeof(double));
    }
    return bytes;
}

// Inputs are there as they are and as doubles (with directions also as drawn, moved and the
// directions), outputs as they are and as doubles of every evaluation and of what is compared with
// them.
static OracleNeeds needs_of(const Tensors *tensors, const Compilation *compared) {
    const Graph *graph = tensors->graph;
    OracleNeeds needs = {.least = graph_eval_needs(graph, EVAL_F64, tensors->extents)};
    double exact = needs.most = needs.least.seconds;
    if (compared) {
        double naive = graph_eval_needs(graph, EVAL_F32, tensors->extents).seconds;
        needs.least.seconds += naive;
        needs.most += (1 + NAIVE_DRAWS) * naive;
    }
    bool directions = compared && compared->plain;
    if (directions)
        add_directions(&needs, tensors, compared->plain, exact);
    needs.least.bytes += bytes_of_inputs(tensors, directions ? 3 + N_DIRECTIONS : 1);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        double per_element =
            compared ? (double)elem_bytes(output->value->elem) + 2 * sizeof(double) + sizeof(bool)
                     : sizeof(double);
        needs.least.bytes += bytes_of(&output->order, tensors->extents, per_element);
    }
    return needs;
}

static const char *largest_dim(const Tensors *tensors) {
    uint32_t largest = 0;
    for (uint32_t d = 0; d < tensors->graph->dims.count; d++)
        if (tensors->extents[d] > tensors->extents[largest])
            largest = d;
    return tensors->graph->dims.at[largest].name;
}

static const char *whole_bytes_text(double bytes, Arena *arena) {
    return bytes < 0x1p62 ? bytes_text((int64_t)bytes, arena) : "more than any memory";
}

bool oracle_fits(Options *options, const Tensors *tensors, const Compilation *compared) {
    Arena *arena = options->session->arena;
    OracleNeeds needs = needs_of(tensors, compared);
    double most = bytes_at_most(), bytes = needs.least.bytes, seconds = needs.least.seconds;
    if (bytes > most) {
        problem(options,
                "not enough memory for the oracle: at these extents it needs %s, and there is %s; "
                "use smaller ones, as with -D %s=N",
                whole_bytes_text(bytes, arena), whole_bytes_text(most, arena),
                largest_dim(tensors));
        return false;
    }
    if (seconds <= SECONDS_QUIET && bytes <= BYTES_QUIET)
        return true;
    fprintf(stderr, "attc: the oracle takes about %.0f s and %s", ceil(seconds),
            whole_bytes_text(bytes, arena));
    if (compared)
        fprintf(stderr, "; at most %.0f s, where inputs are drawn again", ceil(needs.most));
    fputc('\n', stderr);
    return true;
}

double oracle_seconds(const Tensors *tensors, const Compilation *compared) {
    return needs_of(tensors, compared).most;
}
