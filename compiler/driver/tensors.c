// SPDX-License-Identifier: Apache-2.0
// Tensors of an entry: extents settled from constants, files and -D; files read; the rest drawn.
#include "driver/driver.h"

#include <math.h>
#include <string.h>

#include "arguments.h"

const char *dims_text(const Graph *graph, const DimList *dims, Arena *arena) {
    Text text = {.arena = arena};
    for (uint32_t i = 0; i < dims->count; i++)
        text_printf(&text, "%s%s", i ? ", " : "", graph->dims.at[dims->at[i]].name);
    return text.at ? text.at : "";
}

int64_t tensor_count(const AttTensorData *tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

// ---- elements as doubles ----
static double element_get(AttElem elem, const void *data, int64_t i) {
    switch (elem) {
    case ATT_F32:
        return ((const float *)data)[i];
    case ATT_F64:
        return ((const double *)data)[i];
    case ATT_F16:
        return att_f16_to_f32(((const uint16_t *)data)[i]);
    case ATT_BF16:
        return att_bf16_to_f32(((const uint16_t *)data)[i]);
    case ATT_I32:
        return ((const int32_t *)data)[i];
    case ATT_I64:
        return (double)((const int64_t *)data)[i];
    case ATT_BOOL:
        return ((const uint8_t *)data)[i] != 0;
    default:
        ice("element_get: elem %d", (int)elem);
    }
}

// The whole number nearest to a double between -2**(bits-1) and 2**(bits-1); NaN gives 0.
static int64_t whole_of(double value, int bits) {
    double limit = ldexp(1, bits - 1);
    if (isnan(value))
        return 0;
    if (value >= limit)
        return (int64_t)(UINT64_MAX >> (65 - bits));
    return value <= -limit ? -(int64_t)(UINT64_MAX >> (65 - bits)) - 1 : (int64_t)value;
}

static void element_set(AttElem elem, void *data, int64_t i, double value) {
    switch (elem) {
    case ATT_F32:
        ((float *)data)[i] = (float)value;
        break;
    case ATT_F64:
        ((double *)data)[i] = value;
        break;
    case ATT_F16:
        ((uint16_t *)data)[i] = att_f32_to_f16((float)value);
        break;
    case ATT_BF16:
        ((uint16_t *)data)[i] = att_f32_to_bf16((float)value);
        break;
    case ATT_I32:
        ((int32_t *)data)[i] = (int32_t)whole_of(value, 32);
        break;
    case ATT_I64:
        ((int64_t *)data)[i] = whole_of(value, 64);
        break;
    case ATT_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        break;
    default:
        ice("element_set: elem %d", (int)elem);
    }
}

double *tensor_to_doubles(const AttTensorData *tensor, Arena *arena) {
    int64_t count = tensor_count(tensor);
    double *out = arena_array(arena, double, count);
    for (int64_t i = 0; i < count; i++)
        out[i] = element_get(tensor->elem, tensor->data, i);
    return out;
}

void tensor_from_doubles(AttTensorData *tensor, const double *from) {
    int64_t count = tensor_count(tensor);
    for (int64_t i = 0; i < count; i++)
        element_set(tensor->elem, tensor->data, i, from[i]);
}

// ---- extents ----
typedef struct {
    Options *options;
    const Compilation *compiled;
    const Graph *graph;
    Tensors *tensors;
    const char **settled_by; // by DimId of a class's root: what fixed its extent
} Settling;

static DimId class_of(const Graph *graph, DimId dim) {
    while (graph->dims.at[dim].like != dim)
        dim = graph->dims.at[dim].like;
    return dim;
}

static bool settle(Settling *s, DimId dim, int64_t extent, const char *by) {
    DimId root = class_of(s->graph, dim);
    int64_t known = s->tensors->extents[root];
    if (known == EXTENT_DYNAMIC) {
        s->tensors->extents[root] = extent;
        s->settled_by[root] = by;
        return true;
    }
    if (known == extent)
        return true;
    problem(s->options, "%s is %lld in %s but %lld in %s", s->graph->dims.at[dim].name,
            (long long)extent, by, (long long)known, s->settled_by[root]);
    return false;
}

static bool settle_constants(Settling *s) {
    bool fine = true;
    for (uint32_t d = 0; d < s->graph->dims.count; d++)
        if (s->graph->dims.at[d].extent != EXTENT_DYNAMIC)
            fine &= settle(s, (DimId)d, s->graph->dims.at[d].extent, "the source or -D");
    const DimExtents *all = &s->options->session->overrides;
    for (uint32_t d = 0; d < s->graph->dims.count; d++) {
        const DimExtent *given =
            program_given(s->compiled->program, all, s->graph->dims.at[d].name);
        fine &= !given || settle(s, (DimId)d, given->extent, "-D");
    }
    return fine;
}

static bool read_tensor(Settling *s, const NamedPath *given, const Value *input,
                        AttTensorData *tensor) {
    const char *path = att_argument_input_path(given->path);
    if (att_npy_read(s->tensors->context, path, (AttElem)input->elem, tensor)) {
        problem(s->options, "%s", att_message(s->tensors->context));
        return false;
    }
    if (tensor->rank != input->dims.count) {
        problem(s->options, "%s has %d dim%s, but %s is %s[%s]", given->path, tensor->rank,
                tensor->rank == 1 ? "" : "s", given->name, given->name,
                dims_text(s->graph, &input->dims, s->graph->arena));
        return false;
    }
    bool fine = true;
    for (int k = 0; k < tensor->rank; k++)
        fine &= settle(s, input->dims.at[k], tensor->shape[k], given->path);
    return fine;
}

// n, d=4: what is not known has its name alone.
static const char *known_dims(const Settling *s, const DimList *dims) {
    Text text = {.arena = s->options->session->arena};
    for (uint32_t k = 0; k < dims->count; k++) {
        int64_t extent = s->tensors->extents[class_of(s->graph, dims->at[k])];
        text_printf(&text, "%s%s", k ? ", " : "", s->graph->dims.at[dims->at[k]].name);
        if (extent != EXTENT_DYNAMIC)
            text_printf(&text, "=%lld", (long long)extent);
    }
    return text.at ? text.at : "";
}

static const char *shape_text(const AttTensorData *tensor, Arena *arena) {
    Text text = {.arena = arena};
    for (int k = 0; k < tensor->rank; k++)
        text_printf(&text, "%s%lld", k ? ", " : "", (long long)tensor->shape[k]);
    return text.at ? text.at : "";
}

// A trained tensor has the shape that it has in the file, or there is one message with both.
static bool settle_weight(Settling *s, const Value *input, const AttTensorData *tensor) {
    Options *options = s->options;
    const char *path = options->weights;
    bool fits = tensor->rank == input->dims.count;
    const char *by = "";
    for (int k = 0; fits && k < tensor->rank; k++) {
        DimId dim = input->dims.at[k], root = class_of(s->graph, dim);
        int64_t *known = &s->tensors->extents[root];
        if (*known == EXTENT_DYNAMIC) {
            *known = tensor->shape[k];
            s->settled_by[root] = path;
        }
        fits = *known == tensor->shape[k];
        if (!fits)
            by = arena_printf(options->session->arena, "; %s is %lld in %s",
                              s->graph->dims.at[dim].name, (long long)*known, s->settled_by[root]);
    }
    if (!fits)
        problem(options, "%s: tensor '%s' has the shape [%s], but %s is [%s]%s", path, input->name,
                shape_text(tensor, options->session->arena), input->name,
                known_dims(s, &input->dims), by);
    return fits;
}

static bool read_weights(Settling *s) {
    const Graph *graph = s->graph;
    Options *options = s->options;
    bool *taken = arena_array(options->session->arena, bool, graph->inputs.count + 1);
    if (!options->weights)
        return true;
    bool fine = weights_read(options, s->tensors->context, graph, s->tensors->inputs, taken);
    for (uint32_t i = 0; fine && i < graph->inputs.count; i++)
        if (taken[i])
            fine = settle_weight(s, graph->inputs.at[i], &s->tensors->inputs[i]);
    return fine;
}

static bool read_input(Settling *s, const NamedPath *given) {
    const Graph *graph = s->graph;
    Near near = near_to(given->name);
    Text all = {.arena = s->options->session->arena};
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        if (input->name == given->name)
            return read_tensor(s, given, input, &s->tensors->inputs[i]);
        near_offer(&near, input->name);
        text_list(&all, i, input->name);
    }
    Diag *diag = diag_error(s->options->session->diags, (Span){0}, "%s has no argument %s",
                            graph->entry, given->name);
    bool chosen = s->options->entry.entry != NULL; // so that a slip is likelier than another def
    bool of_other = !(near.best && chosen) &&
                    driver_hint_entry(s->options, s->compiled, given->name, false, diag);
    if (of_other)
        return false;
    if (near.best)
        diag_hint(diag, "did you mean %s?", near.best);
    else
        diag_hint(diag, "its arguments: %s", all.at ? all.at : "none");
    return false;
}

// Small extents, unlike each other, for dims that nothing settles.
static int64_t small_extent(uint32_t nth) {
    static const int64_t primes[] = {5, 7, 3, 11, 2, 13};
    return primes[nth % (sizeof primes / sizeof *primes)];
}

static bool is_open(const Settling *s, uint32_t dim) {
    return s->graph->dims.at[dim].like == dim && s->tensors->extents[dim] == EXTENT_DYNAMIC &&
           !graph_is_computed(s->graph, (DimId)dim);
}

static bool is_empty(const Settling *s, const int64_t *extents) {
    for (uint32_t i = 0; i < s->graph->rules.count; i++)
        if (extents[s->graph->rules.at[i].dim] == 0)
            return true;
    return false;
}

// What is open, as a multiple of a small extent.
typedef struct {
    bool open;
    int64_t unit, times;
} Invented;

// Is nothing wrong with what follows from the extents, and none of it 0?
static bool is_fine(const Settling *s, const Invented *invented, bool may_be_empty) {
    Arena *arena = arena_new();
    uint32_t n = s->graph->dims.count;
    int64_t *extents = arena_copy(arena, s->tensors->extents, n * sizeof *extents);
    for (uint32_t d = 0; d < n; d++)
        extents[d] = invented[d].open ? invented[d].unit * invented[d].times : extents[d];
    bool fine =
        !graph_apply_rules(s->graph, extents, arena).why && (may_be_empty || !is_empty(s, extents));
    arena_free(arena);
    return fine;
}

// Finds one multiple for all, then the least for each.
static bool find_multiples(const Settling *s, Invented *invented, bool may_be_empty) {
    enum { TIMES_MOST = 1024 };
    uint32_t n = s->graph->dims.count;
    int64_t all = 0;
    bool fine = false;
    while (!fine && all++ < TIMES_MOST) {
        for (uint32_t d = 0; d < n; d++)
            invented[d].times = all;
        fine = is_fine(s, invented, may_be_empty);
    }
    for (uint32_t d = 0; d < n && fine; d++)
        for (int64_t times = 1; times <= all && invented[d].open; times++) {
            invented[d].times = times;
            if (times == all || is_fine(s, invented, may_be_empty))
                break;
        }
    return fine;
}

// Small extents for what is open, with which nothing is wrong with those that follow from them
// (`n // 4`, `n - 16`, `n / 3`), and none of these is 0 if that can be.
static void invent(Settling *s) {
    uint32_t n = s->graph->dims.count, count = 0;
    Invented *invented = arena_array(s->graph->arena, Invented, n + 1);
    for (uint32_t d = 0; d < n; d++) {
        bool open = is_open(s, d);
        invented[d] = (Invented){open, open ? small_extent(count++) : 1, 1};
    }
    if (!count || (!find_multiples(s, invented, false) && !find_multiples(s, invented, true)))
        for (uint32_t d = 0; d < n; d++)
            invented[d].times = 1;
    for (uint32_t d = 0; d < n; d++)
        if (invented[d].open)
            s->tensors->extents[d] = invented[d].unit * invented[d].times;
}

static bool is_right(const Settling *s, const ExtentProblem *found) {
    if (found->why)
        diag_error(s->options->session->diags, found->origin, "%s", found->why);
    return !found->why;
}

// The dims of each class, and what follows from them.
static bool settle_computed(Settling *s) {
    const Graph *graph = s->graph;
    int64_t *extents = s->tensors->extents;
    for (uint32_t d = 0; d < graph->dims.count; d++)
        extents[d] = extents[class_of(graph, (DimId)d)];
    ExtentProblem found = graph_apply_rules(graph, extents, graph->arena);
    return is_right(s, &found);
}

// The one part of the whole that is not known, which would tell it.
static Name part_to_give(const Settling *s, DimId whole) {
    const Graph *graph = s->graph;
    for (uint32_t i = 0; i < graph->rules.count; i++) {
        const ExtentRule *rule = &graph->rules.at[i];
        DimId open = DIM_NONE;
        if (rule->dim == whole && (rule->kind == RULE_IS || rule->kind == RULE_COMPUTES) &&
            formula_lacks(rule->formula, s->tensors->extents, &open) == 1)
            return name_unprimed(graph->session->names, graph->dims.at[open].name);
    }
    return NULL;
}

static void tell_open(const Settling *s, DimId dim) {
    const char *asks = s->options->kind == COMMAND_COST
                           ? "the cost needs the extent of %s: give -D %s=N%s"
                           : "the extent of %s is unknown: no file given has it; use -D %s=N%s";
    Names *names = s->graph->session->names;
    Name name = name_unprimed(names, s->graph->dims.at[dim].name), part = part_to_give(s, dim);
    problem(s->options, asks, name, name,
            part ? arena_printf(s->graph->arena, " or -D %s=N", part) : "");
}

static bool settle_rest(Settling *s, bool need_all) {
    ExtentProblem found = graph_deduce_extents(s->graph, s->tensors->extents, s->graph->arena);
    bool right = is_right(s, &found), fine = right;
    for (uint32_t d = 0; d < s->graph->dims.count && need_all && right; d++) {
        if (!is_open(s, d))
            continue;
        tell_open(s, (DimId)d);
        fine = false;
    }
    if (!fine)
        return false;
    invent(s);
    return settle_computed(s);
}

int64_t *tensors_extents(const Tensors *tensors, const Graph *graph, Arena *arena) {
    int64_t *extents = arena_array(arena, int64_t, graph->dims.count + 1);
    for (uint32_t d = 0; d < graph->dims.count; d++) {
        DimId root = (DimId)d;
        if (graph->dims.at[d].extent != EXTENT_DYNAMIC) { // perhaps made by a pass
            extents[d] = graph->dims.at[d].extent;
            continue;
        }
        while (root >= tensors->graph->dims.count || graph->dims.at[root].like != root)
            root = graph->dims.at[root].like;
        extents[d] = tensors->extents[root];
    }
    return extents;
}

// ---- inputs that are not given ----
// Integers that pick rows of a table stay below its extent; others are small, so that comparisons
// such as document masks have something to find.
static int64_t integer_bound(const Graph *graph, const int64_t *extents, const Value *input) {
    int64_t bound = 4;
    bool found = false;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (value->op != OP_GATHER && value->op != OP_SCATTER_ADD)
            continue;
        const Value *ids = value->args[1];
        while (ids->op == OP_CAST || op_is_reading(ids->op))
            ids = ids->args[0];
        if (ids == input && (!found || extents[value->dim] < bound)) {
            bound = extents[value->dim];
            found = true;
        }
    }
    return bound;
}

static void draw_integers(const Tensors *t, const Value *input, uint64_t seed,
                          AttTensorData *tensor) {
    Arena *arena = arena_new();
    int64_t count = tensor_count(tensor);
    int64_t *numbers = arena_array(arena, int64_t, count);
    int64_t bound = input->elem == ELEM_BOOL ? 2 : integer_bound(t->graph, t->extents, input);
    att_random_integers(seed, att_stream_of(input->name), count, bound, numbers);
    for (int64_t i = 0; i < count; i++)
        element_set(tensor->elem, tensor->data, i, (double)numbers[i]);
    arena_free(arena);
}

static bool make_input(Options *options, Tensors *tensors, uint32_t i) {
    const Value *input = tensors->graph->inputs.at[i];
    int64_t shape[ATT_RANK_MAX];
    for (uint32_t k = 0; k < input->dims.count; k++)
        shape[k] = tensors->extents[input->dims.at[k]];
    if (!att_tensor_new(tensors->context, (AttElem)input->elem, input->dims.count, shape,
                        &tensors->inputs[i]))
        return true;
    problem(options, "%s: %s", input->name, att_message(tensors->context));
    return false;
}

static bool draw_input(Options *options, Tensors *tensors, uint32_t i) {
    const Value *input = tensors->graph->inputs.at[i];
    AttTensorData *tensor = &tensors->inputs[i];
    AttContext *context = tensors->context;
    if (elem_is_float(input->elem)) {
        bool weight = input->role == ROLE_PARAM || input->dims.count > 2;
        if (!att_tensor_draw(context, tensor, options->seed, input->name, weight))
            return true;
        problem(options, "%s: %s", input->name, att_message(context));
        return false;
    }
    draw_integers(tensors, input, options->seed, tensor);
    return true;
}

static bool make_outputs(Options *options, Tensors *tensors) {
    for (uint32_t i = 0; i < tensors->graph->outputs.count; i++) {
        const Output *output = &tensors->graph->outputs.at[i];
        int64_t shape[ATT_RANK_MAX];
        for (uint32_t k = 0; k < output->order.count; k++)
            shape[k] = tensors->extents[output->order.at[k]];
        if (att_tensor_new(tensors->context, (AttElem)output->value->elem, output->order.count,
                           shape, &tensors->outputs[i])) {
            problem(options, "%s: %s", output->name, att_message(tensors->context));
            return false;
        }
    }
    return true;
}

bool tensors_open(Options *options, const Compilation *compiled, bool need_all, Tensors *out) {
    Arena *arena = options->session->arena;
    const Graph *graph = compiled->built;
    *out = (Tensors){
        .graph = graph,
        .extents = arena_array(arena, int64_t, graph->dims.count + 1),
        .inputs = arena_array(arena, AttTensorData, graph->inputs.count + 1),
        .outputs = arena_array(arena, AttTensorData, graph->outputs.count + 1),
        .context = att_context_new(options->threads),
    };
    if (!out->context) {
        problem(options, "cannot start %d threads", options->threads);
        return false;
    }
    Settling s = {options, compiled, graph, out,
                  arena_array(arena, const char *, graph->dims.count + 1)};
    for (uint32_t d = 0; d < graph->dims.count; d++)
        out->extents[d] = EXTENT_DYNAMIC;
    bool fine = settle_constants(&s);
    for (uint32_t i = 0; i < options->inputs.count; i++)
        fine &= read_input(&s, &options->inputs.at[i]);
    fine &= read_weights(&s);
    return fine && settle_rest(&s, need_all);
}

// All are made before any is drawn, which takes long for large ones.
bool tensors_fill(Options *options, Tensors *tensors) {
    uint32_t count = tensors->graph->inputs.count;
    bool *drawn = arena_array(options->session->arena, bool, count + 1);
    bool fine = true;
    for (uint32_t i = 0; fine && i < count; i++) {
        drawn[i] = !tensors->inputs[i].data;
        fine = !drawn[i] || make_input(options, tensors, i);
    }
    fine = fine && make_outputs(options, tensors);
    for (uint32_t i = 0; fine && i < count; i++)
        fine = !drawn[i] || draw_input(options, tensors, i);
    return fine;
}

void tensors_nudge(const Tensors *tensors, uint64_t seed) {
    Arena *arena = arena_new();
    for (uint32_t i = 0; i < tensors->graph->inputs.count; i++) {
        AttTensorData *tensor = &tensors->inputs[i];
        if (tensor->elem != ATT_F32 && tensor->elem != ATT_F64)
            continue;
        int64_t count = tensor_count(tensor);
        int64_t *up = arena_array(arena, int64_t, count);
        att_random_integers(seed, att_stream_of("nudge") + i, count, 2, up);
        for (int64_t k = 0; k < count; k++) {
            double to = up[k] ? INFINITY : -INFINITY;
            if (tensor->elem == ATT_F32)
                ((float *)tensor->data)[k] = nextafterf(((float *)tensor->data)[k], (float)to);
            else
                ((double *)tensor->data)[k] = nextafter(((double *)tensor->data)[k], to);
        }
    }
    arena_free(arena);
}

void tensors_close(Tensors *tensors) {
    for (uint32_t i = 0; i < tensors->graph->inputs.count; i++)
        att_tensor_free(&tensors->inputs[i]);
    for (uint32_t i = 0; i < tensors->graph->outputs.count; i++)
        att_tensor_free(&tensors->outputs[i]);
    att_context_free(tensors->context);
}
