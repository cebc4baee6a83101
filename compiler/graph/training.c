// SPDX-License-Identifier: Apache-2.0
// Can an entry be trained, from which values does it begin, and how large are its tables?
//
//     def Loss(tokens[b, n]: i32, labels[b, n]: i32):        trains; ids are below 256
//         param E[v, d] ~ normal(std=0.02)                   begins NORMAL 0.02
//
// All of it is read off the graph as graph_build makes it, where nothing has been rewritten.
#include "graph/model.h"

#include <math.h>

// ---- can it be trained? ------------------------------------------------------------------------

static const Value *unknown_param(const Graph *graph, DimId *dim) {
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        for (uint32_t d = 0; d < input->dims.count && input->role == ROLE_PARAM; d++)
            if (graph->dims.at[input->dims.at[d]].extent == EXTENT_DYNAMIC) {
                *dim = input->dims.at[d];
                return input;
            }
    }
    return NULL;
}

static bool is_loss(const Graph *graph) {
    uint32_t n_floats = 0;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Value *value = graph->outputs.at[i].value;
        n_floats += elem_is_float(value->elem);
        if (value->dims.count)
            return false;
    }
    return n_floats > 0 && elem_is_float(graph->outputs.at[0].value->elem);
}

Trains graph_trains(const Graph *graph) {
    uint32_t n_params = 0;
    const Value *odd = NULL;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        n_params += input->role == ROLE_PARAM;
        if (input->role == ROLE_PARAM && input->elem != ELEM_F32)
            odd = input;
    }
    if (!n_params || !is_loss(graph))
        return (Trains){.kind = TRAINS_NOT};
    if (odd)
        return (Trains){TRAINS_BUT,
                        arena_printf(graph->arena, "'%s' is %s: trained tensors are f32", odd->name,
                                     elem_name(odd->elem)),
                        NULL, odd->origin};
    DimId dim;
    const Value *open = unknown_param(graph, &dim);
    if (!open)
        return (Trains){.kind = TRAINS};
    const char *name = graph->dims.at[dim].name;
    return (Trains){
        TRAINS_BUT,
        arena_printf(graph->arena, "the extent of '%s' in '%s' is not known", name, open->name),
        arena_printf(graph->arena, "give it with -D %s=N", name), open->origin};
}

static bool is_alike(const Graph *graph, DimId dim) {
    for (uint32_t d = 0; d < graph->dims.count; d++)
        if (d != dim && graph->dims.at[d].like == graph->dims.at[dim].like)
            return true;
    return false;
}

// Has each example several ids, or several vectors?
static bool has_sequences(const Value *input) {
    return input->dims.count > (elem_is_float(input->elem) ? 2 : 1);
}

DimId graph_batch(const Graph *graph) {
    if (graph_trains(graph).kind != TRAINS)
        return DIM_NONE;
    DimId batch = DIM_NONE;
    bool sequences = false;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        if (input->role != ROLE_DATA || !input->dims.count)
            continue;
        batch = batch == DIM_NONE ? input->dims.at[0] : batch;
        sequences |= dims_has(&input->dims, batch) && has_sequences(input);
    }
    return sequences && !is_alike(graph, batch) ? batch : DIM_NONE;
}

// ---- first values ------------------------------------------------------------------------------

// Of the first dim, and of all others.
static void find_fans(const Graph *graph, const Value *param, double *in, double *out) {
    *in = *out = 1;
    for (uint32_t d = 0; d < param->dims.count; d++)
        *(d ? out : in) *= (double)graph->dims.at[param->dims.at[d]].extent;
}

FirstValue graph_first_value(const Graph *graph, const Value *param) {
    InitKind kind = param->declaration ? param->declaration->init : INIT_NONE;
    double in, out;
    find_fans(graph, param, &in, &out);
    if (kind == INIT_GLOROT) { // Glorot, Bengio 2010, equation 16
        double limit = sqrt(6 / fmax(in + out, 1));
        return (FirstValue){INIT_UNIFORM, -limit, limit};
    }
    if (kind != INIT_NONE)
        return (FirstValue){kind, param->first[0], param->first[1]};
    if (param->dims.count < 2)
        return (FirstValue){INIT_VALUE, 0, 0};
    return (FirstValue){INIT_NORMAL, 1 / sqrt(fmax(in, 1)), 0};
}

// ---- ids ---------------------------------------------------------------------------------------

// Is the value an argument's ids, chosen, clamped or read otherwise?
static bool hands_on(const Value *value, uint32_t arg) {
    switch (value->op) {
    case OP_SELECT:
        return arg > 0;
    case OP_CAST:
    case OP_MIN:
    case OP_MAX:
    case OP_COPY:
    case OP_RENAME:
    case OP_TAKE:
    case OP_SLICE:
    case OP_CONCAT:
    case OP_SHIFT:
    case OP_SPLIT:
    case OP_MERGE:
        return elem_is_int(value->elem);
    default:
        return false;
    }
}

// The dim whose positions argument `arg` of a value tells; DIM_NONE: it tells none.
static DimId told_dim(const Value *value, uint32_t arg) {
    if ((value->op == OP_GATHER || value->op == OP_SCATTER_ADD) && arg == 1)
        return value->dim;
    const Value *other = value->op == OP_EQ ? value->args[1 - arg] : NULL;
    while (other && (other->op == OP_CAST || other->op == OP_RENAME))
        other = other->args[0];
    return other && other->op == OP_INDEX ? other->dim : DIM_NONE;
}

int64_t graph_ids_below(const Graph *graph, const Value *input) {
    int64_t below = 0;
    Arena *arena = arena_new();
    bool *ids = arena_array(arena, bool, graph->values.count + 1);
    ids[input->id] = elem_is_int(input->elem);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        for (uint32_t k = 0; k < value->n_args; k++) {
            if (!ids[value->args[k]->id])
                continue;
            DimId dim = told_dim(value, k);
            int64_t extent = dim == DIM_NONE ? 0 : graph->dims.at[dim].extent;
            if (extent > 0 && (!below || extent < below))
                below = extent;
            ids[i] = ids[i] || hands_on(value, k);
        }
    }
    arena_free(arena);
    return below;
}

NameList graph_trained(const Graph *graph, Arena *arena) {
    NameList names = {0};
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->role == ROLE_PARAM)
            vec_push(arena, &names, graph->inputs.at[i]->name);
    return names;
}
