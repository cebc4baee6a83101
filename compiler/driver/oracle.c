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

// Inputs are there as they are and as doubles, outputs as they are and as doubles of every
// evaluation and of what is compared with them.
static EvalNeeds needs_of(const Tensors *tensors, bool compares) {
    const Graph *graph = tensors->graph;
    EvalNeeds needs = graph_eval_needs(graph, EVAL_F64, tensors->extents);
    if (compares)
        needs.seconds += graph_eval_needs(graph, EVAL_F32, tensors->extents).seconds;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        needs.bytes += bytes_of(&input->dims, tensors->extents,
                                (double)elem_bytes(input->elem) + sizeof(double));
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        double per_element =
            compares ? (double)elem_bytes(output->value->elem) + 2 * sizeof(double) + sizeof(bool)
                     : sizeof(double);
        needs.bytes += bytes_of(&output->order, tensors->extents, per_element);
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

bool oracle_fits(Options *options, const Tensors *tensors, bool compares) {
    Arena *arena = options->session->arena;
    EvalNeeds needs = needs_of(tensors, compares);
    double most = bytes_at_most();
    if (needs.bytes > most) {
        problem(options,
                "not enough memory for the oracle: at these extents it needs %s, and there is %s; "
                "use smaller ones, as with -D %s=N",
                whole_bytes_text(needs.bytes, arena), whole_bytes_text(most, arena),
                largest_dim(tensors));
        return false;
    }
    if (needs.seconds > SECONDS_QUIET || needs.bytes > BYTES_QUIET)
        fprintf(stderr, "attc: the oracle takes about %.0f s and %s\n", ceil(needs.seconds),
                whole_bytes_text(needs.bytes, arena));
    return true;
}
