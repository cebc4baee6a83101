// SPDX-License-Identifier: Apache-2.0
// Where the forward pass is narrow: between two values, in order of id, where few bytes that were
// computed before are read after. What is kept there bounds what the backward pass has to compute
// again at one time.
//
//     values      Q K V O Y | A H Z | Q2 K2 V2 O2 Y2 | A2 H2 Z2         Y = X + .., Z = Y + ..
//     seams                 Y       Z                Y2
//
// Between two seams lies a stretch. What crosses the seams lies there for all of the time, and what
// a stretch computes again while its gradients are computed: those seams are chosen that take least
// together with the largest stretch. For a bound on stretches the cheapest seams are a shortest
// path; some bounds are tried. What a stretch takes in the end (its adjoints, what is planned to
// lie in memory at once) is not known here: the seams of each bound are a choice, and where memory
// is shorter than the first of them allows the planner judges the others.
//
// Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".
#include "graph/fuse/fuse.h"

#include <math.h>
#include <string.h>

// From one bound to the next. What takes least here is an estimate of what is planned: of the least
// workspaces of layers (3, 12 and 24 of them), of a decoder and of a scan, steps from 1.05 to 2
// gave now one, now another the smaller, within a sixth; with 4 they were up to half larger.
static const double BOUND_STEP = 1.5;

typedef struct {
    const Graph *graph;
    uint32_t count;
    Arena *arena;
    double *bytes;  // by value id: of what a seam has to keep, 0: light, or it takes no memory
    double *inside; // by value id: of what lies in memory for its stretch's backward pass
    uint32_t *last; // by value id: the last of the forward pass that reads it
    bool *seam;     // by value id: may a stretch begin with it?
} Search;

static bool reads_only(const Value *value) {
    return op_kind(value->op) == KIND_MOVE && value->op != OP_SCATTER_ADD && value->op != OP_GATHER;
}

// What only reads another value is made once more where it is read: it is that one that crosses.
static void find_last(Search *s, const ForwardPass *pass) {
    for (uint32_t i = s->count; i-- > 0;) {
        const Value *value = s->graph->values.at[i];
        s->last[i] = s->last[i] > i ? s->last[i] : i;
        uint32_t reader = reads_only(value) ? s->last[i] : i;
        for (uint32_t k = 0; pass->live[i] && !pass->after[i] && k < value->n_args; k++) {
            uint32_t arg = value->args[k]->id;
            s->last[arg] = s->last[arg] > reader ? s->last[arg] : reader;
        }
    }
}

static void find_bytes(Search *s, const ForwardPass *pass) {
    const bool *light = fuse_find_light(s->graph, s->arena);
    for (uint32_t i = 0; i < s->count; i++) {
        const Value *value = s->graph->values.at[i];
        if (!pass->live[i] || pass->after[i] || light[i] || pass->again[i] || pass->result[i] ||
            reads_only(value))
            continue;
        s->bytes[i] = fuse_bytes(value, pass->extents);
        s->inside[i] = op_kind(value->op) == KIND_MAP ? 0 : s->bytes[i];
    }
}

// Values that are never kept do not cross seams, unless they are made of arguments alone. Seams are
// where less crosses than before.
static void find_places(Search *s, const ForwardPass *pass) {
    const bool *given = fuse_find_given(s->graph, s->arena);
    double *ends = arena_array(s->arena, double, s->count + 1);
    uint32_t *wide = arena_array(s->arena, uint32_t, s->count + 1); // that end behind this value
    double crossing = 0, before = 0;
    uint32_t barred = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        bool bars =
            pass->live[i] && !pass->after[i] && pass->again[i] && !given[i] && s->last[i] > i;
        s->seam[i] = !barred && crossing > 0 && crossing < before;
        before = crossing;
        crossing += s->bytes[i];
        ends[s->last[i]] += s->bytes[i];
        barred += bars;
        wide[s->last[i]] += bars;
        crossing -= ends[i];
        barred -= wide[i];
    }
}

// The cheapest seams where no stretch has more than `bound` bytes. from: by place, where the
// stretch that ends there begins. Returns the bytes that cross, INFINITY: there are no such seams.
static double find_path(const Search *s, double bound, double *least, uint32_t *from) {
    least[0] = 0;
    for (uint32_t to = 1; to <= s->count; to++) {
        double crossing = 0, inside = 0;
        least[to] = INFINITY;
        if (to < s->count && !s->seam[to])
            continue;
        for (uint32_t i = to; i-- > 0;) {
            inside += s->inside[i];
            if (inside > bound)
                break;
            crossing += to < s->count && s->last[i] >= to ? s->bytes[i] : 0;
            if ((i && !s->seam[i]) || least[i] + crossing >= least[to])
                continue;
            least[to] = least[i] + crossing;
            from[to] = i;
        }
    }
    return least[s->count];
}

// Seams that were found.
typedef struct {
    uint32_t *from; // by place, where the stretch that ends there begins
    double bytes;   // that cross, with the largest stretch
} Path;
typedef VEC(Path) Paths;

static bool same_path(const Search *s, const uint32_t *a, const uint32_t *b) {
    uint32_t to = s->count;
    while (to > 0 && a[to] == b[to])
        to = a[to];
    return to == 0;
}

// Behind those that take as much or less.
static void add_path(const Search *s, Paths *paths, const uint32_t *from, double bytes) {
    for (uint32_t i = 0; i < paths->count; i++)
        if (same_path(s, paths->at[i].from, from))
            return;
    Path path = {arena_copy(s->arena, from, (s->count + 1) * sizeof *from), bytes};
    vec_push(s->arena, paths, path);
    uint32_t at = paths->count - 1;
    for (; at > 0 && paths->at[at - 1].bytes > bytes; at--)
        paths->at[at] = paths->at[at - 1];
    paths->at[at] = path;
}

// Up to where the largest stretch alone takes more.
static Paths find_paths(const Search *s) {
    double *least = arena_array(s->arena, double, s->count + 1), all = 0, bound = 1;
    uint32_t *from = arena_array(s->arena, uint32_t, s->count + 1);
    Paths paths = {0};
    for (uint32_t i = 0; i < s->count; i++) {
        all += s->inside[i];
        bound = s->inside[i] > bound ? s->inside[i] : bound;
    }
    for (bool more = true; more && (!paths.count || bound < paths.at[0].bytes);
         bound *= BOUND_STEP) {
        double bytes = find_path(s, bound, least, from) + bound;
        if (!isinf(bytes))
            add_path(s, &paths, from, bytes);
        more = bound < all;
    }
    return paths;
}

static Seams make_seams(const Search *s, const Path *path) {
    bool *begins = arena_array(s->arena, bool, s->count + 1);
    for (uint32_t to = s->count; to > 0; to = path->from[to])
        begins[path->from[to]] = true;
    Seams seams = {.stretch = arena_array(s->arena, uint32_t, s->count + 1),
                   .crosses = arena_array(s->arena, bool, s->count + 1)};
    for (uint32_t i = 0; i < s->count; i++) {
        seams.count += begins[i];
        seams.stretch[i] = seams.count - 1;
    }
    for (uint32_t i = 0; i < s->count; i++)
        seams.crosses[i] = s->bytes[i] > 0 && seams.stretch[s->last[i]] > seams.stretch[i];
    return seams;
}

SeamChoices fuse_find_seams(const ForwardPass *pass, Arena *arena) {
    uint32_t count = pass->graph->values.count;
    Search s = {.graph = pass->graph,
                .count = count,
                .arena = arena,
                .bytes = arena_array(arena, double, count + 1),
                .inside = arena_array(arena, double, count + 1),
                .last = arena_array(arena, uint32_t, count + 1),
                .seam = arena_array(arena, bool, count + 1)};
    find_last(&s, pass);
    find_bytes(&s, pass);
    find_places(&s, pass);
    Paths paths = find_paths(&s);
    SeamChoices choices = {0};
    for (uint32_t i = 0; i < paths.count; i++)
        vec_push(arena, &choices, make_seams(&s, &paths.at[i]));
    return choices;
}
