// SPDX-License-Identifier: Apache-2.0
// Quadratic values that a fusion stores: what --no-materialize forbids.
//
//     J[n, m] = einsum(Q[n, d], K[m, d])                   # n, m: a pair of positions
//     W[n, m] = softmax(cumsum(J, dim=m), reduced_dim=m)   # stored: cumsum cannot be streamed
//     O[n, e] = einsum(W, V[m, e])                         # reduces over m
//
// Positions are the dims that are not learned (fuse_learned_dims). A contraction that has one
// position from each operand makes a pair, and so does a pointwise value of data or a gather at
// distances of both, unless an input has both. A value is quadratic when it has a pair, depends on
// what made it, and is later reduced over one of the two, or some positions of one are taken.
#include "graph/fuse/fuse.h"

#include <string.h>

// ---- quadratic values --------------------------------------------------------------------------

typedef struct {
    const Fusion *fusion;
    Arena *arena;
    const bool *learned; // by DimId
    const bool *live;    // by value id
    const bool *data;    // by value id: depends on data
    const DimPair *of;   // by value id: the pair that it is quadratic in
    Map *names;          // place in the source -> name, of values that expansion took apart
    bool parameters;     // has the entry any?
} Check;

static bool input_has(const Check *c, DimId x, DimId y) {
    const Graph *graph = c->fusion->graph;
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (dims_has(&graph->inputs.at[i]->dims, x) && dims_has(&graph->inputs.at[i]->dims, y))
            return true;
    return false;
}

// Has one argument made of data x and not y?
static bool gives_one(const Check *c, const Value *value, DimId x, DimId y) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Value *arg = value->args[k];
        if (c->data[arg->id] && dims_has(&arg->dims, x) && !dims_has(&arg->dims, y))
            return true;
    }
    return false;
}

static bool none_has_both(const Value *value, DimId x, DimId y) {
    for (uint32_t k = 0; k < value->n_args; k++)
        if (dims_has(&value->args[k]->dims, x) && dims_has(&value->args[k]->dims, y))
            return false;
    return true;
}

static bool makes_pair(const Check *c, const Value *value, DimId x, DimId y) {
    if (value->op == OP_CONTRACT)
        return fuse_makes_pair(value, x, y);
    if (value->op == OP_GATHER) // at distances and the like; what data says are some of a few
        return dims_has(&value->args[1]->dims, x) && dims_has(&value->args[1]->dims, y) &&
               !c->data[value->args[1]->id] && !input_has(c, x, y);
    return op_kind(value->op) == KIND_MAP && none_has_both(value, x, y) &&
           gives_one(c, value, x, y) && gives_one(c, value, y, x) && !input_has(c, x, y);
}

// The pair of positions that a value makes.
static DimPair pair_made(const Check *c, const Value *value) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        for (uint32_t k = i + 1; k < value->dims.count; k++) {
            DimId x = value->dims.at[i], y = value->dims.at[k];
            if (!c->learned[x] && !c->learned[y] && makes_pair(c, value, x, y))
                return (DimPair){x, y};
        }
    return dim_pair_none;
}

// Every value that depends on `first` and keeps its pair.
static void follow_pair(const Check *c, uint32_t first, DimPair pair, DimPair *has) {
    const Graph *graph = c->fusion->graph;
    for (uint32_t i = 0; i < graph->values.count; i++)
        has[i] = i == first ? pair : dim_pair_none;
    for (uint32_t i = first + 1; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        for (uint32_t k = 0; c->live[i] && has[i].x == DIM_NONE && k < value->n_args; k++)
            has[i] = value_kept_pair(value, k, has[value->args[k]->id]);
    }
}

// Of those, the ones that are reduced over the pair in the end.
static void keep_reduced(const Check *c, const DimPair *has, DimPair *of) {
    const Graph *graph = c->fusion->graph;
    bool *reduced = arena_array(c->arena, bool, graph->values.count + 1);
    for (uint32_t i = graph->values.count; i-- > 0;) {
        const Value *value = graph->values.at[i];
        OpKind kind = op_kind(value->op);
        bool reduces = kind == KIND_REDUCE || kind == KIND_CONTRACT || value->op == OP_GATHER ||
                       value->op == OP_SCATTER_ADD || value->op == OP_ORDER;
        for (uint32_t k = 0; c->live[i] && k < value->n_args; k++) {
            uint32_t arg = value->args[k]->id;
            bool goes_on = value_kept_pair(value, k, has[arg]).x != DIM_NONE;
            reduced[arg] = reduced[arg] || (goes_on ? reduced[i] : reduces);
        }
        if (has[i].x != DIM_NONE && reduced[i])
            of[i] = has[i];
    }
}

static DimPair *quadratic_values(const Check *c) {
    const Graph *graph = c->fusion->graph;
    DimPair *of = arena_array(c->arena, DimPair, graph->values.count + 1);
    DimPair *has = arena_array(c->arena, DimPair, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++)
        of[i] = dim_pair_none;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        DimPair pair = c->live[i] ? pair_made(c, graph->values.at[i]) : dim_pair_none;
        if (pair.x == DIM_NONE || (of[i].x == pair.x && of[i].y == pair.y))
            continue;
        follow_pair(c, i, pair, has);
        keep_reduced(c, has, of);
    }
    return of;
}

// ---- names -------------------------------------------------------------------------------------

static uint64_t place_key(Span at) {
    return hash_u64(hash_u64(at.file, at.begin), at.end);
}

static void collect_names(Check *c, const Graph *graph) {
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (value->hint && value->origin.file && value->op != OP_INPUT)
            map_put(c->names, place_key(value->origin), (void *)value->hint);
    }
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        c->parameters = c->parameters || graph->inputs.at[i]->role == ROLE_PARAM;
}

static const char *name_of(const Check *c, const Value *value) {
    return value->hint ? value->hint : map_get(c->names, place_key(value->origin));
}

static const char *title_of(const Check *c, const Value *value, const char *unnamed) {
    const char *name = name_of(c, value);
    return name ? arena_printf(c->arena, "'%s'", name) : unnamed;
}

// ---- why one is stored -------------------------------------------------------------------------

typedef struct {
    const char *why;
    const Value *by; // NULL: none
} Reason;

static Reason read_outside(const Check *c, const Group *group, const Value *value) {
    for (uint32_t i = value->id + 1; i < c->fusion->graph->values.count; i++) {
        const Value *user = c->fusion->graph->values.at[i];
        for (uint32_t k = 0; c->live[i] && k < user->n_args; k++)
            if (user->args[k] == value && !group_has(group, user))
                return (Reason){arena_printf(c->arena, "%s reads it in another kernel",
                                             title_of(c, user, "another value")),
                                user};
    }
    return (Reason){"it is read in another kernel", NULL};
}

// The argument that the value has its pair from; NULL: it made it.
static const Value *from_which(const Check *c, const Value *value) {
    for (uint32_t k = 0; k < value->n_args; k++)
        if (c->of[value->args[k]->id].x != DIM_NONE)
            return value->args[k];
    return NULL;
}

static const Refusal *refusal_of(const Check *c, const Value *value) {
    DimPair pair = c->of[value->id];
    const Refusal *refusal = c->fusion->refused[value->id];
    for (; refusal; refusal = refusal->next)
        if (refusal->x == DIM_NONE || (refusal->x == pair.x && refusal->y == pair.y) ||
            (refusal->x == pair.y && refusal->y == pair.x))
            return refusal;
    return NULL;
}

// Is it one that the user knows apart from the value?
static bool title_differs(const Check *c, const Value *by, const Value *value) {
    return strcmp(title_of(c, by, ""), title_of(c, value, "")) != 0 ||
           memcmp(&by->origin, &value->origin, sizeof by->origin) != 0;
}

// The refusal of the value or of the nearest that it comes from.
static Reason why_refused(const Check *c, const Value *value) {
    for (const Value *from = value; from; from = from_which(c, from)) {
        const Refusal *refusal = refusal_of(c, from);
        bool other = refusal && refusal->by && title_differs(c, refusal->by, value);
        if (other)
            return (Reason){arena_printf(c->arena, "%s depends on it, and %s",
                                         title_of(c, refusal->by, "another value"), refusal->why),
                            refusal->by};
        if (refusal)
            return (Reason){refusal->why, NULL};
        if (!from_which(c, from) && op_kind(from->op) == KIND_MAP)
            return (Reason){"only what begins with an einsum over both is streamed", from};
    }
    return (Reason){0};
}

// A gather from what is computed is never made where it is needed.
static bool gathers_computed(const Value *value) {
    return value->op == OP_GATHER && value->args[0]->op != OP_INPUT;
}

static Reason why_stored(const Check *c, const Group *group, const Value *value) {
    Reason reason = {0};
    if (gathers_computed(value))
        return (Reason){"only from an argument is gathered where it is needed", value->args[0]};
    if (group->kind != GROUP_STREAM)
        reason = why_refused(c, value);
    return reason.why ? reason : read_outside(c, group, value);
}

// As the source has it: that of a scan is its variable, another that a pass made the one it is
// like.
static const char *dim_shown(const Check *c, DimId id) {
    const Graph *graph = c->fusion->graph;
    const Dim *dim = &graph->dims.at[id];
    if (dim->scan)
        return arena_strndup(c->arena, dim->name, strcspn(dim->name, "."));
    return dim->made ? graph->dims.at[dim->like].name : dim->name;
}

// ---- what the user is told ---------------------------------------------------------------------

// "12.0 MiB", or "48 B for each n x m" when extents are not known.
static const char *size_text(const Check *c, const Value *value) {
    const Graph *graph = c->fusion->graph;
    int64_t bytes = (int64_t)elem_bytes(value->elem);
    Text each = {.arena = c->arena};
    for (uint32_t i = 0; i < value->dims.count; i++) {
        const Dim *dim = &graph->dims.at[value->dims.at[i]];
        if (dim->extent == EXTENT_DYNAMIC)
            text_printf(&each, "%s%s", each.length ? " x " : " for each ",
                        dim_shown(c, value->dims.at[i]));
        else if (bytes >= 0 && !mul_i64(bytes, dim->extent, &bytes))
            bytes = -1;
    }
    return arena_printf(c->arena, "%s%s", bytes_text(bytes, c->arena), each.at ? each.at : "");
}

static void tell(const Check *c, const Group *group, const Value *value) {
    const Graph *graph = c->fusion->graph;
    DimPair pair = c->of[value->id];
    Text dims = {.arena = c->arena};
    for (uint32_t i = 0; i < value->dims.count; i++)
        text_printf(&dims, "%s%s", i ? ", " : "", dim_shown(c, value->dims.at[i]));
    Reason reason = why_stored(c, group, value);
    Diag *diag = diag_error(graph->session->diags, value->origin,
                            "%s would be stored, [%s] of %s, quadratic in %s and %s: %s",
                            title_of(c, value, "this value"), dims.at, size_text(c, value),
                            dim_shown(c, pair.x), dim_shown(c, pair.y), reason.why);
    if (reason.by && reason.by->origin.file)
        diag_note(diag, reason.by->origin, "%s is computed here", title_of(c, reason.by, "it"));
    if (gathers_computed(value))
        diag_hint(diag, "gather from an argument, declared with the dims that are wanted");
    else if (!c->fusion->streams)
        diag_hint(diag, "leave out --plan unfused, or --no-materialize");
    else if (!c->parameters)
        diag_hint(diag, "all arguments count as data: mark what is learned with 'param', or name "
                        "the data with --data");
    else
        diag_hint(diag, "without --no-materialize it is stored");
}

// Is it one that was asked for?
static bool is_result(const Graph *graph, const Value *value) {
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].value == value && graph->outputs.at[i].use != USE_SAVED)
            return true;
    return false;
}

bool fusion_check_quadratic(const Fusion *fusion, const Graph *contracted) {
    Arena *arena = arena_new();
    Check c = {.fusion = fusion, .arena = arena, .names = map_new(arena)};
    c.learned = fuse_learned_dims(fusion->graph, arena);
    c.live = graph_live(fusion->graph, arena);
    c.data = fuse_depends_on(fusion->graph, ROLE_DATA, arena);
    c.of = quadratic_values(&c);
    collect_names(&c, contracted);
    bool fine = true;
    for (uint32_t i = 0; i < fusion->groups.count; i++) {
        const Group *group = fusion->groups.at[i];
        for (uint32_t k = 0; k < group->outputs.count; k++) {
            const Value *value = group->outputs.at[k];
            if (c.of[value->id].x == DIM_NONE || is_result(fusion->graph, value))
                continue;
            tell(&c, group, value);
            fine = false;
        }
    }
    arena_free(arena);
    return fine;
}
