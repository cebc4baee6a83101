// SPDX-License-Identifier: Apache-2.0
// Which values are computed again where they are needed, and which pointwise groups join their
// reader.
//
// Inline values cost less than a load and a store: a rename, one position of a dim, views (other
// ways to read a stored value), arithmetic on positions, extents, constants and at most two inputs
// (a causal or document mask, ALiBi, a scale 1/sqrt(d)). They are members of every group that needs
// them. So a mask never becomes a tensor.
#include "graph/fuse/fuse.h"

enum { INLINE_LOADS = 2 }; // inputs that an inline value reads, at most; chosen
// Dims that it brings to each kernel that needs it, at most: a quarter of what one has, as three
// arguments of a value may be inline; views and the like are not asked.
enum { INLINE_DIMS = GROUP_DIMS_MAX / 4 };
// What may be computed again, in the unit of op_weight, cycles of a core for a vector: nine ops of
// the cheapest and no exp, which ops.def has at 5. An operand of a contraction is read many times:
// two of the cheapest. All chosen.
static const double INLINE_WEIGHT = 4.5;    // all that an inline value needs, recursively
static const double PROLOGUE_WEIGHT = 1;    // on an operand of a contraction
static const double RECOMPUTE_WEIGHT = 4.5; // for every element of dims that it lacks
// Of a group: where pointwise values and rows are cut into kernels. LLVM takes a time for each that
// grows with the square of its length: measured for chains of 3 values with a tanh, 0.5 s for 129
// values, 1.8 s for 255, 8 s for 1,020, 82 s for 3,000. Beside so much arithmetic a store and a
// load are nothing. What is scanned or streamed is not cut: what goes from one step to the next
// stays in the kernel, and what a streamed group has would be stored for each pair of positions.
enum { GROUP_VALUES = 128 };

bool fuse_is_free(const Value *value) {
    return value->op == OP_INPUT || op_is_immediate(value->op);
}

bool fuse_is_of_input(const Value *value) {
    return value_unrenamed(value)->op == OP_INPUT;
}

bool *fuse_depends_on(const Graph *graph, InputRole role, Arena *arena) {
    bool *depends = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        depends[i] = value->op == OP_INPUT && value->role == role;
        for (uint32_t k = 0; k < value->n_args; k++)
            depends[i] = depends[i] || depends[value->args[k]->id];
    }
    return depends;
}

bool *fuse_learned_dims(const Graph *graph, Arena *arena) {
    bool *learned = arena_array(arena, bool, graph->dims.count + 1);
    const bool *live = graph_live(graph, arena);
    const bool *data = fuse_depends_on(graph, ROLE_DATA, arena);
    const bool *param = fuse_depends_on(graph, ROLE_PARAM, arena);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        bool product = value->op == OP_CONTRACT || value->op == OP_MUL;
        for (uint32_t k = 0; live[i] && data[i] && product && k < value->n_args; k++) {
            const Value *arg = value->args[k];
            for (uint32_t d = 0; param[arg->id] && !data[arg->id] && d < arg->dims.count; d++)
                learned[arg->dims.at[d]] = true;
        }
    }
    return learned;
}

static bool *find_made_by(const Graph *graph, bool gathers, Arena *arena) {
    bool *simple = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        simple[i] = fuse_is_free(value) || op_is_reading(value->op) ||
                    op_kind(value->op) == KIND_MAP || (gathers && value->op == OP_GATHER);
        for (uint32_t k = 0; k < value->n_args; k++)
            simple[i] = simple[i] && simple[value->args[k]->id];
    }
    return simple;
}

bool *fuse_find_simple(const Graph *graph, Arena *arena) {
    return find_made_by(graph, false, arena);
}

bool *fuse_find_given(const Graph *graph, Arena *arena) {
    return find_made_by(graph, true, arena);
}

bool *fuse_find_light(const Graph *graph, Arena *arena) {
    bool *light = fuse_find_simple(graph, arena);
    double *weight = arena_array(arena, double, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        weight[i] = fuse_is_free(value) ? 0 : op_weight(value->op);
        for (uint32_t k = 0; k < value->n_args; k++)
            weight[i] += weight[value->args[k]->id];
        light[i] = light[i] && weight[i] <= INLINE_WEIGHT;
    }
    return light;
}

// Its weight ends at what is stored: what several values read, and copies.
bool *fuse_find_prologues(const Graph *graph, const bool *after, Arena *arena) {
    uint32_t count = graph->values.count + 1;
    bool *light = arena_array(arena, bool, count);
    double *weight = arena_array(arena, double, count);
    uint32_t *readers = arena_array(arena, uint32_t, count);
    for (uint32_t i = 0; i < graph->values.count; i++)
        for (uint32_t k = 0; !after[i] && k < graph->values.at[i]->n_args; k++)
            readers[graph->values.at[i]->args[k]->id]++;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (op_kind(value->op) != KIND_MAP || value->op == OP_COPY || readers[i] > 1)
            continue;
        weight[i] = op_weight(value->op);
        for (uint32_t k = 0; k < value->n_args; k++)
            weight[i] += light[value->args[k]->id] ? weight[value->args[k]->id] : 0;
        light[i] = weight[i] <= PROLOGUE_WEIGHT;
    }
    return light;
}

bool *fuse_table_dims(const Graph *graph, const int64_t *extents, Arena *arena) {
    enum { ENTRIES = 32 }; // fewer are rows of their own, not worth a sweep; chosen
    bool *table = arena_array(arena, bool, graph->dims.count + 1);
    const bool *live = graph_live(graph, arena);
    const bool *data = fuse_depends_on(graph, ROLE_DATA, arena);
    const bool *learned = fuse_learned_dims(graph, arena);
    for (uint32_t d = 0; d < graph->dims.count; d++)
        table[d] = graph->dims.at[d].table;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (!live[i] || !data[i] || (value->op != OP_REDUCE_MAX && value->op != OP_REDUCE_TOP))
            continue;
        DimList over = dims_minus(&value->args[0]->dims, &value->dims);
        for (uint32_t d = 0; d < over.count; d++)
            table[over.at[d]] |= learned[over.at[d]] && extents[over.at[d]] >= ENTRIES;
    }
    return table;
}

bool fuse_is_alone(const Value *value) {
    OpKind kind = op_kind(value->op);
    return kind == KIND_REDUCE || kind == KIND_ROW || kind == KIND_CONTRACT ||
           value->op == OP_ORDER || value->op == OP_SCATTER_ADD;
}

double fuse_bytes(const Value *value, const int64_t *extents) {
    return (double)dims_volume(&value->dims, extents) * (double)elem_bytes(value->elem);
}

double fuse_seconds_to_compute(const Value *value, const int64_t *extents, const Machine *machine) {
    DimList space = value->dims;
    for (uint32_t k = 0; fuse_is_alone(value) && k < value->n_args; k++)
        space = dims_union(&space, &value->args[k]->dims);
    double elements = (double)dims_volume(&space, extents);
    if (op_kind(value->op) == KIND_CONTRACT)
        return 2 * elements / machine->flops_per_second;
    double vectors = elements / machine_lanes(machine, elem_bytes(value->elem));
    return vectors * op_cycles(value->op, machine) * machine_cycle(machine);
}

// ---- dims of a kernel ---------------------------------------------------------------------------

static bool has_dim(const DimIds *dims, DimId dim) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (dims->at[i] == dim)
            return true;
    return false;
}

static void add_dim(const Fuser *fuser, DimIds *to, DimId dim) {
    if (dim != DIM_NONE && !has_dim(to, dim))
        vec_push(fuser->arena, to, dim);
}

static void add_dim_list(const Fuser *fuser, DimIds *to, const DimList *dims) {
    for (uint32_t i = 0; i < dims->count; i++)
        add_dim(fuser, to, dims->at[i]);
}

void fuse_add_dims(const Fuser *fuser, DimIds *to, const DimIds *more) {
    for (uint32_t i = 0; i < more->count; i++)
        add_dim(fuser, to, more->at[i]);
}

DimIds fuse_dims_of(const Fuser *fuser, const Value *value) {
    DimIds dims = {0};
    add_dim_list(fuser, &dims, &value->dims);
    add_dim(fuser, &dims, value->dim);
    add_dim(fuser, &dims, value->dim2);
    for (uint32_t i = 0; i < value->n_args; i++) {
        const Value *arg = value->args[i];
        add_dim_list(fuser, &dims, &arg->dims);
        if (op_is_immediate(arg->op)) // an extent is over nothing
            add_dim(fuser, &dims, arg->dim);
        if (fuser->owner[arg->id] == CLUSTER_INLINE)
            fuse_add_dims(fuser, &dims, &fuser->inlined[arg->id].dims);
    }
    return dims;
}

// ---- inline values -----------------------------------------------------------------------------

static void add_cost(Inlined *sum, const Inlined *arg) {
    sum->weight += arg->weight;
    sum->loads =
        sum->loads + arg->loads <= INLINE_LOADS ? sum->loads + arg->loads : INLINE_LOADS + 1;
    sum->legal = sum->legal && arg->legal;
}

// What an argument adds to the cost of a value that is computed where it is read.
static Inlined cost_as_argument(const Fuser *fuser, const Value *value) {
    bool is_number = value->op == OP_INPUT && !value->dims.count; // loaded once per task
    if (op_is_immediate(value->op) || is_number)
        return (Inlined){.legal = true};
    bool is_inline = fuser->owner[value->id] == CLUSTER_INLINE;
    if (value->op == OP_INPUT || (op_may_be_view(value->op) && is_inline))
        return (Inlined){.loads = 1, .legal = true};
    return is_inline ? fuser->inlined[value->id] : (Inlined){.legal = false};
}

static Inlined inline_cost(const Fuser *fuser, const Value *value) {
    // A scalar is computed once per task.
    Inlined cost = {.weight = value->dims.count ? op_weight(value->op) : 0,
                    .legal = op_kind(value->op) == KIND_MAP};
    for (uint32_t i = 0; i < value->n_args; i++) {
        Inlined arg = cost_as_argument(fuser, value->args[i]);
        add_cost(&cost, &arg);
    }
    return cost;
}

void fuse_note_inline(Fuser *fuser, const Value *value) {
    Inlined *inlined = &fuser->inlined[value->id];
    *inlined = inline_cost(fuser, value);
    inlined->dims = fuse_dims_of(fuser, value);
    for (uint32_t i = 0; i < value->n_args; i++) {
        ValueList reads = fuse_stored(fuser, value->args[i]);
        for (uint32_t k = 0; k < reads.count; k++) {
            uint32_t *seen = &fuser->seen[reads.at[k]->id];
            if (*seen == value->id)
                continue;
            *seen = value->id;
            vec_push(fuser->arena, &inlined->reads, reads.at[k]);
        }
    }
}

// A value that must be stored: a result of the entry, or what a move reads at computed places. A
// result in whose memory something else is stored lies there already.
// Ways to read that follow each other are one access.
static bool must_be_stored(const Fuser *fuser, const Value *value) {
    if (fuse_is_result_view(fuser, value))
        return false;
    if (fuser->result[value->id])
        return true;
    bool view = fuse_is_view(fuser, value), reads = view || op_is_reading(value->op);
    if (view && fuse_view_is_certain(value))
        return false;
    for (const Value **user = fuser->users[value->id]; *user; user++)
        if (op_kind((*user)->op) == KIND_MOVE && !(op_is_reading((*user)->op) && reads))
            return true;
    return false;
}

// One position, or dims that are parts of others.
static bool reads_between(const Value *value) {
    while (value->op == OP_RENAME)
        value = value->args[0];
    return value->op == OP_TAKE || op_regroups(value->op);
}

// Operands of streamed contractions are copied once, as their microkernels want them.
bool fuse_is_streamed_operand(const Fuser *fuser, const Value *value) {
    for (const Value **user = fuser->users[value->id]; *user; user++) {
        uint32_t owner = fuser->owner[(*user)->id];
        if ((*user)->op == OP_CONTRACT && owner < CLUSTER_INLINE &&
            fuser->clusters.at[owner].kind == GROUP_STREAM)
            return true;
    }
    return false;
}

static bool is_operand(const Fuser *fuser, const Value *value) {
    for (const Value **user = fuser->users[value->id]; *user; user++)
        if ((*user)->op == OP_CONTRACT)
            return true;
    return false;
}

// Requires: decided for all values with smaller ids.
bool fuse_is_inline(const Fuser *fuser, const Value *value) {
    if (value->op == OP_COPY || must_be_stored(fuser, value))
        return false; // a copy is there to be stored
    if (op_is_reading(value->op) || fuse_is_view(fuser, value))
        return fuse_is_result_view(fuser, value) || !reads_between(value) ||
               !fuse_is_streamed_operand(fuser, value);
    if (op_kind(value->op) != KIND_MAP)
        return false;
    Inlined cost = inline_cost(fuser, value);
    if (fuse_dims_of(fuser, value).count > INLINE_DIMS)
        return false;
    double limit = is_operand(fuser, value) ? PROLOGUE_WEIGHT : INLINE_WEIGHT;
    return cost.legal && cost.weight <= limit && cost.loads <= INLINE_LOADS;
}

// ---- how much one kernel does ------------------------------------------------------------------

bool fuse_has_room(const Cluster *cluster, uint32_t count, const DimIds *dims) {
    if (cluster->owned.count + count > GROUP_VALUES)
        return false;
    uint32_t own = cluster->dims.count, more = 0;
    for (uint32_t i = 0; own + dims->count > GROUP_DIMS_MAX && i < dims->count; i++)
        more += !has_dim(&cluster->dims, dims->at[i]);
    return own + more <= GROUP_DIMS_MAX;
}

// ---- pointwise groups as prologue of another ---------------------------------------------------

DimList cluster_space(const Cluster *cluster) {
    if (cluster->kind == GROUP_CONTRACT)
        return cluster->contraction->dims;
    return dims_union(&cluster->rows, &cluster->reduced);
}

static double cluster_weight(const Cluster *cluster) {
    double weight = 0;
    for (uint32_t i = 0; i < cluster->owned.count; i++)
        weight += op_weight(cluster->owned.at[i]->op);
    return weight;
}

static bool contraction_reads(const Fuser *fuser, const Cluster *to, uint32_t from) {
    for (uint32_t k = 0; k < to->contraction->n_args; k++)
        if (fuser->owner[to->contraction->args[k]->id] == from)
            return true;
    return false;
}

static bool cluster_has_move(const Cluster *cluster) {
    for (uint32_t i = 0; i < cluster->owned.count; i++)
        if (op_kind(cluster->owned.at[i]->op) == KIND_MOVE)
            return true;
    return false;
}

// A move reads memory: it cannot read a member of its own group.
static bool moves_read(const Fuser *fuser, const Cluster *to, uint32_t from) {
    for (uint32_t i = 0; i < to->owned.count; i++) {
        const Value *value = to->owned.at[i];
        for (uint32_t k = 0; op_kind(value->op) == KIND_MOVE && k < value->n_args; k++)
            if (fuser->owner[value->args[k]->id] == from)
                return true;
    }
    return false;
}

bool fuse_prologue_fits(const Fuser *fuser, uint32_t number, uint32_t reader) {
    const Cluster *from = &fuser->clusters.at[number], *to = &fuser->clusters.at[reader];
    if (to->kind == GROUP_SCAN || moves_read(fuser, to, number) ||
        !fuse_has_room(to, from->owned.count, &from->dims))
        return false;
    if (to->kind == GROUP_STREAM) {
        DimList own = cluster_space(from);
        return dims_subset(&to->rows, &own) && !cluster_has_move(from);
    }
    double weight = cluster_weight(from);
    DimList space = cluster_space(to), own = cluster_space(from);
    if (to->kind == GROUP_CONTRACT && contraction_reads(fuser, to, number))
        return weight <= PROLOGUE_WEIGHT && !cluster_has_move(from);
    if (!dims_subset(&own, &space))
        return false;
    if (dims_equal(&own, &space) || (to->kind == GROUP_ROWS && dims_equal(&own, &to->rows)))
        return true;
    // Fewer dims: computed once for every element of the others.
    bool repeats = dims_volume(&own, fuser->extents) < dims_volume(&space, fuser->extents);
    return !repeats || weight <= RECOMPUTE_WEIGHT;
}

// ---- values that no streamed group holds -------------------------------------------------------

void fuse_refuse(Fuser *fuser, const Value *value, Refusal refusal) {
    Refusal *own = arena_copy(fuser->graph->arena, &refusal, sizeof refusal);
    const Refusal **last = &fuser->refused[value->id];
    own->next = *last;
    *last = own;
}
