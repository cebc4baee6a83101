// SPDX-License-Identifier: Apache-2.0
// Which values are computed along a streamed dim and never stored whole.
//
//     J[n, m, h] = einsum(Q[n, d, h], K[m, d, h])         # makes the pair n, m: a wide value
//     W[n, m, h] = softmax(J, m) as max, exp2, sum        # wide, but for what is reduced over m
//     O[n, e, h] = einsum(W, V[m, e, h])                  # reduced over m
//
// A contraction makes a pair of dims (x, y) when x comes from one operand only and y from the
// other. Values with both dims that depend on such a contraction are wide; so large that storing
// them costs more than anything else. A streamed group is a connected set of wide values with what
// reduces them over y, what sums them over x in parts of it or in turn (recompute.c), and what
// leads from there back to wide values (a maximum, a sum, a mixing matrix for each row). Rows x are
// cut into tasks, y is streamed or stays in cache: which of these is the plan's business
// (tile/lower/stream.c). Both are positions, or the entries of a table (fuse_table_dims).
//
// Values over (x, y) that do not depend on a contraction (masks, biases, buckets of differences of
// positions) are computed again in every group that reads them.
//
// Pairs are tried from the one with the largest values on, and first for groups that reduce by
// more than contractions (a softmax); a value is in one group at most.
//
// Requires: graph_expand. Ensures: groups are convex: no value outside depends on a member and
// feeds another. Why a set of wide values became no group is kept for each of them.
#include "graph/fuse/fuse.h"

#include <string.h>

// How large the wide values must be, against everything that is read and stored in any case: what
// is reduced along the streamed dim before it is contracted, and what is summed along both dims,
// costs several more sweeps when it is stored. (Sigmoid attention of 12 heads of 64 is faster
// streamed from 256 positions on, a feed-forward block stored.)
static const double WIDE_SHARE = 0.9, ROWS_SHARE = 1, SOFTMAX_SHARE = 0.1;

typedef enum { OUTSIDE, WIDE, REDUCED, BETWEEN } Standing;

typedef struct {
    Fuser *fuser;
    FusePair pair;
    uint8_t *standing;     // Standing, by value id
    uint32_t *sets;        // of value ids: those that are not OUTSIDE and lead to each other
    const Value **barrier; // by root: a value of the set that cannot be streamed, or NULL
    uint32_t *component;   // by root: its number
    bool *after;           // by value id, see is_convex
    uint32_t weighed;      // components, so far, by is_worth_streaming
    uint32_t *seen;        // by value id: the last of them that met it, counted from 1
} Search;

// ---- parts of a pair's groups ------------------------------------------------------------------

static void join(Search *s, uint32_t a, uint32_t b) {
    a = sets_find(s->sets, a);
    b = sets_find(s->sets, b);
    uint32_t root = sets_join(s->sets, a, b);
    if (!s->barrier[root])
        s->barrier[root] = s->barrier[root == a ? b : a];
}

// What is computed twice is so as not to be stored.
static bool is_reswept(const Search *s) {
    const Graph *graph = s->fuser->graph;
    return graph->dims.at[s->pair.x].reswept || graph->dims.at[s->pair.y].reswept;
}

// Does it read what another sweep over the pair stored for this one?
static bool reads_stored(const Search *s, const Value *value) {
    bool reswept = is_reswept(s);
    for (uint32_t k = 0; reswept && op_kind(value->op) == KIND_MAP && k < value->n_args; k++) {
        const Value *arg = value->args[k];
        if (arg->op == OP_RENAME && !fuse_is_of_input(arg) && dims_has(&arg->dims, s->pair.x) &&
            dims_has(&arg->dims, s->pair.y))
            return true;
    }
    return false;
}

static bool is_wide(const Search *s, const Value *value) {
    if (s->fuser->owner[value->id] != CLUSTER_NONE || fuse_is_free(value) ||
        value_adds_rows(value) || !dims_has(&value->dims, s->pair.x) ||
        !dims_has(&value->dims, s->pair.y))
        return false;
    if (fuse_makes_pair(value, s->pair.x, s->pair.y) || reads_stored(s, value))
        return true;
    for (uint32_t i = 0; i < value->n_args; i++)
        if (s->standing[value->args[i]->id] == WIDE)
            return true;
    return false;
}

// What all tasks add up is there when the last one ends: nothing leads back from it.
static bool reads_any(const Search *s, const Value *value, Standing standing) {
    for (uint32_t i = 0; i < value->n_args; i++)
        if (s->standing[value->args[i]->id] == standing && !value_in_turn(value->args[i]))
            return true;
    return false;
}

static bool can_be_streamed(const Value *value) {
    return op_kind(value->op) == KIND_MAP || value_is_reduction(value) || value_in_parts(value);
}

// Is it reduced from wide values by tasks that have rows x, or added up by them? Turns are pieces
// of y.
static bool is_of_rows(const Search *s, const Value *value) {
    if (value_in_turn(value) && !dims_has(&value->dims, s->pair.y))
        return false;
    return value_adds_rows(value) ? value->dim == s->pair.x : dims_has(&value->dims, s->pair.x);
}

static void find_wide_and_reduced(Search *s) {
    const Graph *graph = s->fuser->graph;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        s->standing[i] = OUTSIDE;
        s->barrier[i] = NULL;
        if (!s->fuser->live[i])
            continue;
        if (is_wide(s, value))
            s->standing[i] = WIDE;
        else if (reads_any(s, value, WIDE) && s->fuser->owner[i] == CLUSTER_NONE &&
                 can_be_streamed(value) && is_of_rows(s, value))
            s->standing[i] = REDUCED;
        if (s->standing[i] != OUTSIDE && !can_be_streamed(value))
            s->barrier[i] = value;
    }
}

// Pointwise values that lead from a reduced value back to a wide one.
static void find_between(Search *s, Arena *arena) {
    const Graph *graph = s->fuser->graph;
    uint32_t count = graph->values.count;
    bool *from = arena_array(arena, bool, count + 1), *back = arena_array(arena, bool, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        const Value *value = graph->values.at[i];
        if (s->standing[i] != OUTSIDE || op_kind(value->op) != KIND_MAP || !s->fuser->live[i])
            continue;
        from[i] = reads_any(s, value, REDUCED);
        for (uint32_t k = 0; k < value->n_args; k++)
            from[i] = from[i] || from[value->args[k]->id];
    }
    for (uint32_t i = count; i-- > 0;) {
        const Value *value = graph->values.at[i];
        bool leads = s->standing[i] == WIDE || (from[i] && back[i]);
        for (uint32_t k = 0; leads && k < value->n_args; k++)
            back[value->args[k]->id] = true;
    }
    for (uint32_t i = 0; i < count; i++)
        if (s->standing[i] == OUTSIDE && from[i] && back[i])
            s->standing[i] = BETWEEN;
}

static void join_parts(Search *s) {
    const Graph *graph = s->fuser->graph;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        for (uint32_t k = 0; s->standing[i] != OUTSIDE && k < value->n_args; k++) {
            Standing other = (Standing)s->standing[value->args[k]->id];
            // What follows a reduction is in its group only when it leads back, and at once.
            bool leads = other != OUTSIDE && s->standing[i] != REDUCED &&
                         !value_in_turn(value->args[k]) && !fuse_waits(value, value->args[k]);
            if (other == WIDE || leads)
                join(s, i, value->args[k]->id);
        }
    }
}

// ---- groups ------------------------------------------------------------------------------------

typedef struct {
    uint32_t root;
    ValueList members; // in order of id
    bool reduces;      // along the streamed dim, by an op other than a contraction
    bool contracts;    // away the streamed dim
    bool parts;        // or the rows, in parts of them or in turn
} Component;
typedef VEC(Component) ComponentList;

static void component_add(const Search *s, Component *c, Value *value) {
    vec_push(s->fuser->arena, &c->members, value);
    if (s->standing[value->id] != REDUCED)
        return;
    bool contracts = value->op == OP_CONTRACT, parts = value_adds_rows(value);
    c->reduces |= op_kind(value->op) == KIND_REDUCE && !parts;
    c->contracts |= contracts;
    c->parts |= contracts && parts;
}

// In order of their roots, which are their first members.
static ComponentList find_components(Search *s) {
    const Graph *graph = s->fuser->graph;
    ComponentList components = {0};
    for (uint32_t i = 0; i < graph->values.count; i++) {
        if (s->standing[i] == OUTSIDE)
            continue;
        uint32_t root = sets_find(s->sets, i);
        if (root == i) {
            s->component[i] = components.count;
            vec_push(s->fuser->arena, &components, (Component){.root = i});
        }
        component_add(s, &components.at[s->component[root]], graph->values.at[i]);
    }
    return components;
}

static bool is_in(Search *s, const Component *c, const Value *value) {
    return s->standing[value->id] != OUTSIDE && sets_find(s->sets, value->id) == c->root;
}

// Keeps for the component's wide values why they are stored after all.
static void refuse(Search *s, const Component *c, const Value *by, const char *why) {
    Refusal refusal = {.x = s->pair.x, .y = s->pair.y, .by = by, .why = why};
    for (uint32_t i = 0; i < c->members.count; i++)
        if (s->standing[c->members.at[i]->id] == WIDE)
            fuse_refuse(s->fuser, c->members.at[i], refusal);
}

// Does no value outside depend on a member and feed another? Refuses the component if one does.
static bool is_convex(Search *s, const Component *c) {
    const Graph *graph = s->fuser->graph;
    bool *after = s->after; // of values from the root on
    uint32_t last = c->members.at[c->members.count - 1]->id;
    for (uint32_t i = c->root; i <= last; i++) {
        const Value *value = graph->values.at[i];
        bool inside = is_in(s, c, value);
        after[i] = false;
        for (uint32_t k = 0; k < value->n_args; k++) {
            const Value *arg = value->args[k];
            bool arg_is_after = arg->id >= c->root && after[arg->id];
            arg_is_after = arg_is_after || (value_in_turn(arg) && is_in(s, c, arg));
            if (inside && arg_is_after) {
                refuse(s, c, arg, "its kernel would need that before it ends");
                return false;
            }
            after[i] = after[i] || (!inside && (arg_is_after || is_in(s, c, arg)));
        }
    }
    return true;
}

// Elements of the wide values against those of everything that is read and stored in any case.
// Refuses the component if these are more.
static bool is_worth_streaming(Search *s, const Component *c) {
    const Fuser *fuser = s->fuser;
    double wide = 0, others = 0;
    s->weighed++;
    for (uint32_t i = 0; i < c->members.count; i++) {
        const Value *value = c->members.at[i];
        double volume = (double)dims_volume(&value->dims, fuser->extents);
        if (s->standing[value->id] == WIDE && !value_is_shift(value))
            wide = volume > wide ? volume : wide;
        else if (s->standing[value->id] == REDUCED) // one part of it: the others are for threads
            others += volume / (double)(value_in_parts(value) ? fuser->extents[value->dim2] : 1);
        for (uint32_t k = 0; k < value->n_args; k++) {
            const Value *arg = value->args[k];
            if (arg->op == OP_COPY) // made for this kernel by a round before
                arg = arg->args[0];
            bool wide_dims = dims_has(&arg->dims, s->pair.x) && dims_has(&arg->dims, s->pair.y);
            if (is_in(s, c, arg) || s->seen[arg->id] == s->weighed || wide_dims)
                continue;
            s->seen[arg->id] = s->weighed;
            others += (double)dims_volume(&arg->dims, fuser->extents);
        }
    }
    double share = (c->reduces && c->contracts) || c->parts ? SOFTMAX_SHARE
                   : c->reduces                             ? ROWS_SHARE
                                                            : WIDE_SHARE;
    if (is_reswept(s) || wide >= share * others)
        return true;
    refuse(s, c, NULL,
           arena_printf(fuser->graph->arena,
                        "a streamed kernel is not worth it for %.0f elements when %.0f are read "
                        "and stored in any case",
                        wide, others));
    return false;
}

static bool has_reduction(const Search *s, const Component *c) {
    for (uint32_t i = 0; i < c->members.count; i++)
        if (s->standing[c->members.at[i]->id] == REDUCED)
            return true;
    return false;
}

// Dims that every member has, the streamed one excepted: the tasks. What adds up rows counts as
// having their dim.
static DimList common_dims(const Search *s, const Component *c) {
    DimList rows = c->members.at[0]->dims, x = {1, {s->pair.x}};
    for (uint32_t i = 1; i < c->members.count; i++) {
        const Value *value = c->members.at[i];
        DimList own = value_adds_rows(value) ? dims_union(&x, &value->dims) : value->dims;
        rows = dims_intersect(&rows, &own);
    }
    return dims_minus(&rows, &(DimList){1, {s->pair.y}});
}

static void take_component(Search *s, const Component *c) {
    Fuser *fuser = s->fuser;
    uint32_t number = fuse_new_cluster(fuser, GROUP_STREAM);
    Cluster *cluster = &fuser->clusters.at[number];
    cluster->rows = common_dims(s, c);
    cluster->reduced = (DimList){1, {s->pair.y}};
    for (uint32_t i = 0; i < c->members.count; i++) {
        fuser->owner[c->members.at[i]->id] = number;
        if (value_adds_rows(c->members.at[i])) {
            cluster->cut = s->pair.x;
            cluster->parts = c->members.at[i]->dim2;
        }
    }
}

// A task has one part, or adds to all in turn. Refuses the component if its members want both, or
// parts of two sizes.
static bool is_in_one_cut(Search *s, const Component *c) {
    const Value *first = NULL;
    for (uint32_t i = 0; i < c->members.count; i++) {
        const Value *value = c->members.at[i];
        if (!value_adds_rows(value))
            continue;
        if (first && first->dim2 != value->dim2) {
            refuse(s, c, value, "its kernel would sum up rows in parts of two sizes");
            return false;
        }
        first = value;
    }
    return true;
}

// Refuses the component if a kernel has not so many dims.
static bool has_few_dims(Search *s, const Component *c) {
    DimIds dims = {0};
    for (uint32_t i = 0; i < c->members.count; i++) {
        DimIds more = fuse_dims_of(s->fuser, c->members.at[i]);
        fuse_add_dims(s->fuser, &dims, &more);
    }
    if (dims.count <= GROUP_DIMS_MAX)
        return true;
    refuse(s, c, NULL,
           arena_printf(s->fuser->graph->arena, "its kernel would be over more than %d dims",
                        GROUP_DIMS_MAX));
    return false;
}

// What the user wrote for a value: a call's name, or all of a reference such as L[n, 0]; what it
// does where that is neither.
static const char *written_word(const Graph *graph, const Value *value) {
    enum { LONGEST = 40 };
    const Sources *sources = graph->session->sources;
    if (!sources_get(sources, value->origin.file))
        return op_name(value->op);
    const char *text = span_text(sources, value->origin, graph->arena);
    size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    bool is_reference = name && text[name] == '[' && strchr(text, ']') == text + strlen(text) - 1;
    if (is_reference && strlen(text) <= LONGEST)
        return arena_printf(graph->arena, "'%s'", text);
    return name && text[name] == '(' ? arena_strndup(graph->arena, text, name) : op_name(value->op);
}

static const char *why_barred(const Search *s, const Value *by) {
    const Graph *graph = s->fuser->graph;
    if (by->op == OP_RENAME)
        return arena_printf(graph->arena, "what has '%s' and '%s' at once cannot be streamed",
                            graph->dims.at[by->renames->from[0]].name,
                            graph->dims.at[by->renames->to[0]].name);
    return arena_printf(graph->arena, "%s cannot be streamed", written_word(graph, by));
}

static void take_components(Search *s, bool reduces) {
    ComponentList components = find_components(s);
    for (uint32_t i = 0; i < components.count; i++) {
        const Component *c = &components.at[i];
        if (c->reduces != reduces || !has_reduction(s, c))
            continue;
        const Value *barrier = s->barrier[c->root];
        if (barrier)
            refuse(s, c, barrier, why_barred(s, barrier));
        else if (is_worth_streaming(s, c) && is_convex(s, c) && is_in_one_cut(s, c) &&
                 has_few_dims(s, c))
            take_component(s, c);
    }
}

// Pairs that are not tried because x has so few positions.
static void refuse_few_rows(Fuser *fuser, const Value *value) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        for (uint32_t k = 0; k < value->dims.count; k++) {
            DimId x = value->dims.at[i], y = value->dims.at[k];
            if (fuser->extents[x] >= FUSE_FEW_ROWS || !fuse_makes_pair(value, x, y))
                continue;
            const char *why = arena_printf(
                fuser->graph->arena,
                "'%s' has %lld positions, and %d rows are the least that "
                "is streamed for",
                fuser->graph->dims.at[x].name, (long long)fuser->extents[x], FUSE_FEW_ROWS);
            fuse_refuse(fuser, value, (Refusal){.x = x, .y = y, .why = why});
        }
}

void fuse_find_streams(Fuser *fuser) {
    const Graph *graph = fuser->graph;
    FusePairs pairs = fuse_find_pairs(fuser);
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (fuser->live[i] && graph->values.at[i]->op == OP_CONTRACT)
            refuse_few_rows(fuser, graph->values.at[i]);
    Search s = {.fuser = fuser};
    s.standing = arena_array(fuser->arena, uint8_t, graph->values.count);
    s.barrier = arena_array(fuser->arena, const Value *, graph->values.count);
    s.component = arena_array(fuser->arena, uint32_t, graph->values.count);
    s.after = arena_array(fuser->arena, bool, graph->values.count);
    s.seen = arena_array(fuser->arena, uint32_t, graph->values.count);
    for (uint32_t i = 0; i < 2 * pairs.count; i++) {
        s.pair = pairs.at[i % pairs.count];
        s.sets = sets_new(fuser->arena, graph->values.count);
        find_wide_and_reduced(&s);
        find_between(&s, fuser->arena);
        join_parts(&s);
        take_components(&s, i < pairs.count);
    }
}
