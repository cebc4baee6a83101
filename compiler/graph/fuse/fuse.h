// SPDX-License-Identifier: Apache-2.0
// What graph_fuse is made of; shared by the files of this folder only.
//
// A cluster is a group in the making. Every live value that is computed has one cluster that owns
// it, or it is inline: computed again wherever it is needed, never stored.
#ifndef ATTC_GRAPH_FUSE_H
#define ATTC_GRAPH_FUSE_H

#include "graph/plan.h"
#include "graph/rewrite/rewrite.h"

enum { CLUSTER_NONE = UINT32_MAX, CLUSTER_INLINE = UINT32_MAX - 1 };

typedef VEC(uint32_t) ClusterNumbers;
typedef VEC(DimId) DimIds; // any number, each once
typedef struct {
    GroupKind kind;
    Value *contraction;
    DimList rows, reduced; // as in Group
    DimId cut, parts;      // likewise
    ValueList owned;
    DimIds dims;                 // that its kernel runs over or reads memory under
    ClusterNumbers needs, users; // directly; those of clusters merged into this one not among them
    uint32_t turn;               // the latest of its values, see again.c
    bool forward;                // has values that are not made for gradients alone
    uint32_t depth;              // larger than that of what it needs
    uint32_t searched;           // number of the last search that met it
    bool dead;                   // merged into another
} Cluster;

// What a value is made of down to what lies in memory, were it computed where it is read.
typedef struct {
    double weight;
    uint32_t loads; // INLINE_LOADS + 1: too many
    bool legal;
    ValueList reads; // values that clusters own, each once
    DimIds dims;     // as in Cluster
} Inlined;

typedef struct {
    Arena *arena; // of the pass alone
    Graph *graph;
    const int64_t *extents;
    const bool *live;    // by value id
    const bool *learned; // by DimId, see fuse_learned_dims
    const bool *table;   // likewise, see fuse_table_dims
    const bool *data;    // by value id: depends on data
    VEC(Cluster) clusters;
    Map *needs;           // pairs of clusters, the one that needs in the upper half
    uint32_t searches;    // among clusters, so far
    uint32_t *owner;      // by value id: cluster, NONE for leaves, INLINE
    Inlined *inlined;     // by value id, of inline values
    uint32_t *seen;       // by value id, for fuse_note_inline: the last that met it
    const Value ***users; // by value id: live users, NULL-terminated; the same user may come twice
    bool *result;         // by value id: an output of the entry
    const Refusal **refused; // see Fusion
    const Value **lies_in;   // see Fusion
} Fuser;

// scan.c: claims the values of scans, before streams.
void fuse_find_scans(Fuser *fuser);

// pairs.c: dims that are rows (x) and streamed (y) of wide values, the best pair first.
enum { FUSE_FEW_ROWS = 8 }; // positions of x: fewer are not streamed for; chosen
typedef struct {
    DimId x, y;
    bool positions; // both
    double made;    // the largest volume that a contraction makes it with
    double volume;  // of all values with both dims
    DimId side;     // the first of the dims that x is beside in its operand: rows of one table
    double rows;    // positions of x that can be relied on
} FusePair;
typedef VEC(FusePair) FusePairs;
// Opens a fuser as far as pairs are found with it: arena, graph and extents are given.
void fuse_note_dims(Fuser *fuser);
FusePairs fuse_find_pairs(const Fuser *fuser);
// Is it a contraction that has x from one operand alone and y from the other?
bool fuse_makes_pair(const Value *value, DimId x, DimId y);
// Of passes before graph_fuse: the pairs, and which values are those of one.
typedef struct {
    Fuser fuser;         // as far as pairs are found with it
    FusePairs pairs;     // the best first
    const FusePair **by; // by value id: whose wide value it is, so far
} PairSearch;
PairSearch fuse_search_pairs(const Graph *graph, const int64_t *extents, Arena *arena);
// By value id, the wide values of one of the pairs: over both dims, and made of a contraction that
// makes it. NULL: a better pair, tried before, has some of them: heads that are mixed are no rows.
bool *fuse_claim_wide(PairSearch *search, const FusePair *pair);
// stream.c: claims the values of streamed groups, before anything else is placed.
void fuse_find_streams(Fuser *fuser);
// hits.c: what a SCATTER_ADD value of streamed values is, as sums where these are computed, which
// are added to `made`. NULL: better stored.
typedef struct {
    const int64_t *extents;
    const Machine *machine;
    double wide_price; // see graph_recompute
} StreamCosts;
Value *fuse_sums_at(Rewrite *rewrite, const Value *scatter, Value **args, DimId streamed,
                    const StreamCosts *costs, ValueList *made);
// distances.c: what depends on the distance of two positions alone.
typedef struct Slope Slope;
typedef struct {
    Rewrite *rewrite;
    DimId row, column;
    Slope *slope; // by value id in the old graph, how it changes along them; up to the last
} Distances;
Distances distances_open(Rewrite *rewrite, DimId row, DimId column, const Value *last);
bool distances_alone(const Distances *distances, const Value *value); // does it depend on no more?
// The value, of the old graph, with other positions. Requires: how it changes is known.
Value *distances_at(const Distances *distances, const Value *value, Value *row, Value *column);
// A new dim for the distances of a row to columns ahead (0 and more) or behind (less than 0).
typedef struct {
    DimId dim;
    Value *distance; // over it
} DistanceTable;
DistanceTable distances_table(const Distances *distances, bool ahead);
// A GATHER of the old graph of a bias over row and column. NULL: it depends on more.
Value *fuse_gather_by_distance(Rewrite *rewrite, const Value *gather, Value *from, DimId row,
                               DimId column);
// sweeps.c: is each of these sums over both dims of a pair added up in a sweep that computes it?
// Otherwise what it is of would be stored for it.
bool fuse_adds_in_sweeps(const Graph *graph, const ValueList *sums, const Machine *machine);
// pack.c: the graph with the operands of streamed contractions as their microkernels want them.
// NULL: they are so already.
Graph *fuse_pack_operands(const Fuser *fuser);

// keep.c: what of the forward pass is in memory for the backward pass.
typedef struct {
    const Graph *graph;
    const bool *after;      // by value id: of the backward pass
    const bool *again;      // by value id: computed where it is read, whatever that costs
    const bool *kept;       // by value id
    const bool *needed;     // by value id: by the backward pass, down to what is kept
    const uint32_t *result; // by value id: 1 + the place among the outputs; 0: it is no result
} Kept;
enum { TIMES_MOVED = 3 }; // lines are fetched to be written, written and read
// What it returns lies in the graph's arena.
Kept fuse_keep(const Graph *graph, const int64_t *extents, const Machine *machine, Saving saving);
// choice.c: which of some values are kept, where each is either that or computed again.
typedef struct {
    Network *network;
    uint32_t count, source, sink;
} KeepChoice;
KeepChoice choice_new(Arena *arena, uint32_t count); // values are told apart by numbers below count
void choice_value(KeepChoice *choice, uint32_t value, double to_keep, double again);
void choice_needs(KeepChoice *choice, uint32_t value);               // it has to be there
void choice_reads(KeepChoice *choice, uint32_t value, uint32_t arg); // where it is computed again
// By number: is it kept? NULL: what is needed can be neither.
bool *choice_make(KeepChoice *choice, Arena *arena);
// seams.c: the forward pass in stretches that hand little on from one to the next.
typedef struct {
    const Graph *graph;
    const int64_t *extents;
    const bool *live, *after, *again; // by value id, the last two as in Kept
    const uint32_t *result;           // likewise
} ForwardPass;
typedef struct {
    uint32_t count;    // of stretches, from 1
    uint32_t *stretch; // by value id, of the forward pass
    bool *crosses;     // by value id: read in a later stretch than its own
} Seams;
typedef VEC(Seams) SeamChoices;
// At least one; those with which least is estimated to lie in memory come first.
SeamChoices fuse_find_seams(const ForwardPass *pass, Arena *arena);
bool *fuse_find_outputs(const Graph *graph, TensorUse use, Arena *arena); // by value id
// again.c: builds the backward pass of the old graph in the new one, with what is computed again.
// now: by id in the old graph, what is there for it: arguments and kept values. Returns the number
// of turns.
uint32_t fuse_build_backward(const Kept *kept, Graph *to, Value **now, Arena *arena);
// The value in the new graph; now: by id in the old one, its arguments.
Value *fuse_copy_value(Graph *to, const Value *value, Value *const *now, MadeFor made_for,
                       Arena *arena);
// By value id: what results and kept values are made of.
bool *fuse_find_forward(const Kept *kept, Arena *arena);
void fuse_sort_values(ValueList *values);                        // by id
MadeFor fuse_made_forward(const Kept *kept, const Value *value); // in the forward pass

// view.c: splits and merges of what lies in memory.
bool fuse_is_view(const Fuser *fuser, const Value *value);
bool fuse_view_is_certain(const Value *view); // whatever orders graph_layout chooses
void fuse_forget_result_view(Fuser *fuser, const Value *sum); // of tasks that add in turn
void fuse_find_result_views(Fuser *fuser);                    // sets lies_in
// Is it a result that is a view of what is computed?
bool fuse_is_result_view(const Fuser *fuser, const Value *value);

// rules.c: which values are worth what.
bool fuse_is_free(const Value *value); // immediate or INPUT: there before any group
// By value id: does it depend on an input of this role?
bool *fuse_depends_on(const Graph *graph, InputRole role, Arena *arena);
// By value id: pointwise of inputs, read in whatever way, and positions?
bool *fuse_find_simple(const Graph *graph, Arena *arena);
// Likewise, or gathered?
bool *fuse_find_given(const Graph *graph, Arena *arena);
// Simple, and cheaper than a load and a store?
bool *fuse_find_light(const Graph *graph, Arena *arena);
// Of the values that are not `after`: pointwise, and light enough to be computed where one einsum
// reads it?
bool *fuse_find_prologues(const Graph *graph, const bool *after, Arena *arena);
bool fuse_is_alone(const Value *value); // not computed where it is read, as what is pointwise is
// The arithmetic of a value from its arguments.
double fuse_seconds_to_compute(const Value *value, const int64_t *extents, const Machine *machine);
double fuse_bytes(const Value *value, const int64_t *extents); // in memory
bool fuse_is_of_input(const Value *value);                     // one, perhaps under other names
// By DimId: does a parameter, or what is made of parameters alone, multiply data along it? The
// other dims count positions, whose number is the caller's affair. What is added to data (a learned
// embedding of positions, a bias) says nothing.
bool *fuse_learned_dims(const Graph *graph, Arena *arena);
// By DimId: a learned dim that a softmax goes along: that of a table whose entries are chosen among
// (a vocabulary), not just a few, which is worked off like positions.
bool *fuse_table_dims(const Graph *graph, const int64_t *extents, Arena *arena);
bool fuse_is_inline(const Fuser *fuser, const Value *value);
bool fuse_is_streamed_operand(const Fuser *fuser, const Value *value);
// Keeps what an inline value is made of. Requires: done for those of its arguments that are inline.
void fuse_note_inline(Fuser *fuser, const Value *value);
// Adds a copy of the refusal to those that the value has.
void fuse_refuse(Fuser *fuser, const Value *value, Refusal refusal);
// What computing a value adds to the dims of a kernel. Requires: done for its inline arguments.
DimIds fuse_dims_of(const Fuser *fuser, const Value *value);
void fuse_add_dims(const Fuser *fuser, DimIds *to, const DimIds *more);
// May the cluster take so many values more, with these dims? A kernel of thousands of values takes
// minutes to compile, and one of more than GROUP_DIMS_MAX dims there is not.
bool fuse_has_room(const Cluster *cluster, uint32_t count, const DimIds *dims);
// Can MAP cluster `from` join cluster `to`, the only one that reads it?
bool fuse_prologue_fits(const Fuser *fuser, uint32_t from, uint32_t to);
// Dims over which the group's members run: contraction dims, rows + reduced, or the MAP's space.
DimList cluster_space(const Cluster *cluster);

// order.c: clusters that need each other's values.
uint32_t fuse_new_cluster(Fuser *fuser, GroupKind kind);
// The values owned by clusters that an argument stands for: itself, or those it is computed from.
ValueList fuse_stored(const Fuser *fuser, const Value *arg);
void fuse_add_need(Fuser *fuser, uint32_t cluster, uint32_t needed);
bool fuse_needs(Fuser *fuser, uint32_t cluster, uint32_t needed); // directly or not
// May what is computed in this turn join the cluster? What the forward pass computes would have to
// wait for it, or it be kept.
bool fuse_turn_fits(const Cluster *cluster, uint32_t turn);
// Is a value computed in a later turn than this value of the forward pass, which it is made of?
bool fuse_waits(const Value *value, const Value *arg);
// Live clusters, each after those that it needs: of those that can run next the one of the earliest
// turn that was begun first.
ClusterNumbers fuse_order_clusters(const Fuser *fuser);

// merge.c: pointwise clusters that only one other cluster reads join it.
void fuse_merge_producers(Fuser *fuser);
void fuse_join_clusters(Fuser *fuser, uint32_t from, uint32_t to); // what `from` owns goes to `to`

// update.c: results that take the place of arguments.
void fuse_merge_updates(Fuser *fuser);

// replaced.c: what they wait for.
// Does the cluster store a result over an argument that a cluster which is not done reads?
bool fuse_writes_over(const Fuser *fuser, uint32_t cluster, const bool *done);

#endif
