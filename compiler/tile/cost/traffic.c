// SPDX-License-Identifier: Apache-2.0
// Where the data of a stage comes from: for each access, how much of it was touched how long ago.
//
//     loop n:8                 frame: turns, and the bytes that one turn touches
//       contract S += Q K      K lacks n: touched one turn ago, in all turns but the first
//       compute S = exp(S)     S was touched by the sibling: what both touch lies between
//
// Going outward from a stage, an access finds its data touched by an earlier sibling, or by the
// turn before of a loop whose dim it lacks; what lies between is the distance, and each cache still
// has as much of the data as it holds of that much (FITS, SPILLS). What is left at the end is
// touched for the first time. The loops inside a stage (blocks of a contraction, points) are frames
// like others.
//
// Data that every turn brings anew (rows of a matrix that is read once) goes through a cache
// without pushing out much of what is used again and again, as caches are made today: it counts an
// eighth. Scratch is the same memory in every turn, whatever its contents.
//
// L3 belongs to all threads: each has its part of it, and what tasks that run at the same time have
// in common (keys and values, for blocks of queries) is there once for all of them.
#include <math.h>
#include <string.h>

#include "tile/cost/cost.h"

static const double PAGES_KNOWN = 64;  // entries of the first translation buffer
static const double PAGE_CYCLES = 0.1; // to look up another page, as far as one waits
static const double PASSING = 0.125;   // of the bytes that go through
// A cache holds a working set of up to FITS of its size, and nothing of one of SPILLS: caches do
// not replace what is the longest unused, and keep some of a set that they cannot hold. Measured as
// the exposed parts are (cost.c): FITS of 0.5 to 0.6 and SPILLS of 1.5 to 2 are alike.
static const double FITS = 0.5, SPILLS = 1.75;

// Of a stage's stores the last ones are on their way while the next stage begins, which hides a
// part of the time that they take from beyond L2. Measured on an Intel Xeon (6.167.1): norms and
// softmax of 192 to 2048 numbers in blocks of 1 to 16 rows.
static const double LINES_ON_THEIR_WAY = 100, HIDDEN = 0.35;

// ---- accesses ----

static uint32_t n_uses(const Stage *stage) {
    if (stage->kind == STAGE_ORDER)
        return 2;
    return stage->kind == STAGE_CONTRACT ? 3 : stage->terms.count + stage->sinks.count;
}

// Access number i of a stage; one that touches no memory is NULL.
static const Access *use_at(const Stage *stage, uint32_t i) {
    if (stage->kind == STAGE_CONTRACT)
        return i == 0 ? &stage->a : i == 1 ? &stage->b : &stage->c;
    if (stage->kind == STAGE_ORDER)
        return i == 0 ? &stage->a : &stage->c;
    if (i >= stage->terms.count)
        return &stage->sinks.at[i - stage->terms.count].to;
    const Term *term = &stage->terms.at[i];
    return term->kind == TERM_LOAD ? &term->load : NULL;
}

static bool is_gather(const Access *access) {
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].term >= 0)
            return true;
    return false;
}

static bool depends_on(const Stage *stage, const Access *access, TileDimId dim) {
    return access_has_dim(access, dim) || (is_gather(access) && stage_has_dim(stage, dim));
}

static uint64_t dims_of(const Access *access) {
    uint64_t dims = 0;
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim != TILE_DIM_NONE)
            dims |= (uint64_t)1 << (access->index[i].dim & 63);
    return dims;
}

// ---- footprints ----

static uint32_t accesses_in(const NodeList *body) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        count += node->kind == NODE_STAGE ? n_uses(node->stage) : accesses_in(&node->body);
    }
    return count;
}

static Footprint footprint_new(const Walk *w) {
    return (Footprint){.at = arena_array(w->arena, Touch, w->most_touches)};
}

static void footprint_clear(Footprint *footprint) {
    footprint->count = 0;
    footprint->more = 0;
}

static void footprint_copy(Footprint *to, const Footprint *from) {
    memcpy(to->at, from->at, from->count * sizeof *from->at);
    to->count = from->count;
    to->more = from->more;
}

void cost_open_footprints(Walk *w) {
    uint32_t accesses = accesses_in(&w->kernel->body);
    w->most_touches = accesses < TOUCHES_MAX ? accesses : TOUCHES_MAX;
    w->between = footprint_new(w);
    w->other = footprint_new(w);
}

static void add_touch(const Walk *w, Footprint *to, const Touch *touch) {
    for (uint32_t i = 0; i < to->count; i++) {
        Touch *at = &to->at[i];
        if (at->memory != touch->memory || at->dims != touch->dims)
            continue;
        at->bytes = larger(at->bytes, touch->bytes);
        at->passes = at->passes && touch->passes;
        at->visits += touch->visits;
        return;
    }
    if (to->count < w->most_touches)
        to->at[to->count++] = *touch;
    else
        to->more += touch->bytes;
}

// Threads that touch the same part of an argument at the same time: those whose tasks differ in
// dims that it lacks. Tasks are handed out in order, the innermost dims first.
static double sharers_of(const Walk *w, const Stage *stage, const Access *access) {
    double threads = w->machine->threads, sharers = 1;
    for (uint32_t at = w->depth; at-- > 0 && threads > 1;) {
        const Frame *frame = w->frames.at[at];
        if (!frame->parallel || frame->turns <= 1)
            continue;
        double tasks = lesser(threads, frame->turns);
        threads /= tasks;
        sharers *= depends_on(stage, access, frame->dim) ? 1 : tasks;
    }
    return sharers;
}

// Adds what a stage touches; dim: of the loop that the footprint is a turn of. What is made further
// inside counts with the room that it gets there.
static void add_stage(const Walk *w, const Stage *stage, TileDimId dim, Footprint *to) {
    for (uint32_t i = 0; i < n_uses(stage); i++) {
        const Access *access = use_at(stage, i);
        if (!access)
            continue;
        const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
        bool scratch = buffer->place == PLACE_SCRATCH;
        bool later = scratch && w->room[access->buffer] < 0;
        Touch touch = {
            .memory = buffer_memory(w->kernel, access->buffer),
            .dims = scratch ? 0 : dims_of(access),
            .bytes =
                later ? -w->room[access->buffer] : cost_touched_bytes(w, stage, access, w->length),
            .sharers = scratch ? 1 : sharers_of(w, stage, access),
            .visits = 1,
            .passes = !scratch && dim != TILE_DIM_NONE && depends_on(stage, access, dim),
        };
        add_touch(w, to, &touch);
    }
}

static void add_nodes(Walk *w, Node *const *nodes, uint32_t count, TileDimId dim, Footprint *to);

// Scratch that is made in here has no room yet: it is noted as a negative number meanwhile.
static void add_node(Walk *w, const Node *node, TileDimId dim, Footprint *to) {
    double outside;
    switch (node->kind) {
    case NODE_LOOP:
        outside = w->inner[node->dim];
        w->inner[node->dim] = lesser(outside, (double)node->step);
        add_nodes(w, node->body.at, node->body.count, dim, to);
        w->inner[node->dim] = outside;
        break;
    case NODE_RANGE:
        add_nodes(w, node->body.at, node->body.count, dim, to);
        break;
    case NODE_SCRATCH:
        w->room[node->buffer] = -cost_made_bytes(&w->kernel->buffers.at[node->buffer], w->inner);
        break;
    case NODE_STAGE:
        add_stage(w, node->stage, dim, to);
        break;
    }
}

static void add_nodes(Walk *w, Node *const *nodes, uint32_t count, TileDimId dim, Footprint *to) {
    for (uint32_t i = 0; i < count; i++)
        add_node(w, nodes[i], dim, to);
}

static void start_inside(Walk *w) {
    for (uint32_t d = 0; d < w->kernel->dims.count; d++)
        w->inner[d] = w->length[d];
}

// Bytes between two turns, seen from touch number `own`, which is all there.
static Distance distance_in(const Footprint *turn, uint32_t own) {
    Distance distance = {turn->more, turn->more};
    for (uint32_t i = 0; i < turn->count; i++) {
        const Touch *touch = &turn->at[i];
        double bytes = touch->passes && i != own ? PASSING * touch->bytes : touch->bytes;
        distance.bytes += bytes;
        distance.part += bytes / touch->sharers;
    }
    return distance;
}

static uint32_t find_touch(const Footprint *in, uint16_t memory, uint64_t dims) {
    uint32_t i = 0;
    while (i < in->count && (in->at[i].memory != memory || in->at[i].dims != dims))
        i++;
    return i;
}

// ---- frames ----

static Frame *frame_new(const Walk *w) {
    Frame *frame = arena_new_of(w->arena, Frame);
    frame->turn = footprint_new(w);
    frame->node = footprint_new(w);
    frame->near = arena_array(w->arena, Distance, w->most_touches);
    frame->near_before = arena_array(w->arena, Distance, w->most_touches);
    return frame;
}

Frame *cost_open_frame(Walk *w, TileDimId dim, double turns) {
    if (w->depth == w->frames.count)
        vec_push(w->arena, &w->frames, frame_new(w));
    Frame *frame = w->frames.at[w->depth++];
    frame->dim = dim;
    frame->turns = turns;
    frame->piece = dim == TILE_DIM_NONE ? 0 : w->length[dim];
    footprint_clear(&frame->turn);
    frame->has_siblings = false;
    frame->parallel = false;
    return frame;
}

void cost_close_frame(Walk *w) {
    w->depth--;
}

void cost_measure_turn(Walk *w, const NodeList *body) {
    Frame *frame = w->frames.at[w->depth - 1];
    start_inside(w);
    add_nodes(w, body->at, body->count, frame->dim, &frame->turn);
}

static void count_visits(Footprint *of_one_node) {
    for (uint32_t i = 0; i < of_one_node->count; i++)
        of_one_node->at[i].visits = 1;
}

// Goes one node further back from the frame's node: `between` is what lies between, `near` the
// distances found, *missing how many are not. Arguments that only one node between touches pass
// through.
static void widen(Walk *w, const Footprint *own, const Node *node, Distance *near,
                  uint32_t *missing) {
    Footprint *between = &w->between, *other = &w->other;
    footprint_clear(other);
    add_node(w, node, TILE_DIM_NONE, other);
    count_visits(other);
    for (uint32_t i = 0; i < other->count; i++)
        add_touch(w, between, &other->at[i]);
    for (uint32_t i = 0; i < between->count; i++) {
        Touch *touch = &between->at[i];
        touch->passes = touch->dims && touch->visits == 1;
    }
    for (uint32_t i = 0; i < own->count; i++) {
        const Touch *touch = &own->at[i];
        if (near[i].bytes >= 0 || find_touch(other, touch->memory, touch->dims) == other->count)
            continue;
        near[i] = distance_in(between, find_touch(between, touch->memory, touch->dims));
        --*missing;
    }
}

void cost_look_back(Walk *w, const NodeList *body, uint32_t index) {
    Frame *frame = w->frames.at[w->depth - 1];
    Footprint *own = &frame->node;
    footprint_clear(own);
    start_inside(w);
    add_node(w, body->at[index], TILE_DIM_NONE, own);
    count_visits(own);
    footprint_copy(&w->between, own);
    uint32_t missing = own->count;
    for (uint32_t i = 0; i < own->count; i++)
        frame->near[i] = (Distance){-1, -1};
    for (uint32_t at = index; at-- > 0 && missing;)
        if (body->at[at]->kind != NODE_SCRATCH)
            widen(w, own, body->at[at], frame->near, &missing);
    memcpy(frame->near_before, frame->near, own->count * sizeof *frame->near);
    for (uint32_t at = body->count; frame->turns > 1 && --at > index && missing;)
        if (body->at[at]->kind != NODE_SCRATCH)
            widen(w, own, body->at[at], frame->near_before, &missing);
    frame->has_siblings = true;
}

// ---- traffic ----

// Data on its way to registers, and where it may still be.
typedef struct {
    const Machine *machine;
    double usable[2]; // part of L1 and L2 that it can use
    double far[2];    // times as long as its bytes take from L3 and from memory
    bool writes;      // what is written goes back some time
    double *to;       // bytes by level, as ones that are read
} Flow;

// How many bytes that are read one counts that comes from there.
static double each_from(const Flow *flow, TrafficLevel level) {
    const Machine *machine = flow->machine;
    const double write_costs[N_FROM] = {1, machine->l2_write_cost, machine->l3_write_cost,
                                        machine->memory_write_cost};
    const double far[N_FROM] = {1, 1, flow->far[0], flow->far[1]};
    return (flow->writes ? write_costs[level] : 1) * far[level];
}

// Adds `bytes` to the levels that hold data of `own` bytes, when it was touched at this distance,
// its own bytes included.
static void add_from(const Flow *flow, Distance distance, double own, double bytes) {
    const double sizes[] = {(double)flow->machine->l1_bytes, (double)flow->machine->l2_bytes,
                            (double)flow->machine->l3_bytes};
    double inside = 0;
    for (int level = 0; level < 3; level++) {
        double set = level == 2 ? distance.part : distance.bytes - own + own / flow->usable[level];
        double held = (SPILLS - set / sizes[level]) / (SPILLS - FITS);
        held = larger(lesser(larger(held, 0), 1), inside);
        flow->to[level] += (held - inside) * bytes * each_from(flow, (TrafficLevel)level);
        inside = held;
    }
    flow->to[FROM_MEMORY] += (1 - inside) * bytes * each_from(flow, FROM_MEMORY);
}

// The part of an access that one more turn of a loop brings for the first time.
static double new_part(const Walk *w, const Stage *stage, const Access *access, const Frame *frame,
                       bool made_outside) {
    double once = 1 / frame->turns;
    if (made_outside || !depends_on(stage, access, frame->dim))
        return once;
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    if (!cost_has_lines(buffer) || access->rank == 0 ||
        access->index[access->rank - 1].dim != frame->dim)
        return 1;
    double run = frame->piece * (double)elem_bytes(buffer->elem); // parts of one line
    return run < MACHINE_LINE ? larger(run / MACHINE_LINE, once) : 1;
}

// Where nothing follows in the loop, stores are on their way all along.
static double part_on_its_way(const Walk *w, const Stage *stage, const Access *access) {
    double lines = cost_touched_bytes(w, stage, access, w->box) / MACHINE_LINE;
    bool follows = w->stage_depth > 0 && w->frames.at[w->stage_depth - 1]->has_siblings;
    return follows ? lesser(LINES_ON_THEIR_WAY / larger(lines, 1), 1) : 0;
}

static void add_access(const Walk *w, const Stage *stage, const Access *access, double *bytes) {
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    const Machine *machine = w->machine;
    bool scratch = buffer->place == PLACE_SCRATCH;
    uint16_t memory = buffer_memory(w->kernel, access->buffer);
    uint64_t dims = scratch ? 0 : dims_of(access);
    bool writes = stage_writes(w->kernel, stage, access->buffer);
    double left = w->times * cost_touched_bytes(w, stage, access, w->length);
    Flow flow = {.machine = machine, .usable = {1, 1}, .writes = writes, .to = bytes};
    cost_find_far_parts(w, stage, access, flow.far);
    bool under_way = writes && stage->kind == STAGE_COMPUTE;
    for (int i = 0; under_way && i < 2; i++)
        flow.far[i] *= 1 - HIDDEN * part_on_its_way(w, stage, access);
    memcpy(w->around, w->length, sizeof *w->length * w->kernel->dims.count);
    for (uint32_t at = w->depth; at-- > 0 && left > 0;) {
        const Frame *frame = w->frames.at[at];
        uint32_t own = frame->has_siblings ? find_touch(&frame->node, memory, dims) : 0;
        bool known = frame->has_siblings && own < frame->node.count;
        if (known && frame->near[own].bytes >= 0) {
            cost_find_usable_parts(w, stage, access, w->around, flow.usable);
            add_from(&flow, frame->near[own], frame->node.at[own].bytes, left);
            return;
        }
        if (frame->dim == TILE_DIM_NONE || frame->turns <= 1)
            continue;
        double fresh = new_part(w, stage, access, frame, scratch && at < w->made[memory]);
        if (fresh < 1) {
            uint32_t touch = find_touch(&frame->turn, memory, dims);
            Distance distance = known && frame->near_before[own].bytes >= 0
                                    ? frame->near_before[own]
                                    : distance_in(&frame->turn, touch);
            double mine = touch < frame->turn.count ? frame->turn.at[touch].bytes : 0;
            cost_find_usable_parts(w, stage, access, w->around, flow.usable);
            add_from(&flow, distance, lesser(mine, distance.bytes), left * (1 - fresh));
        }
        left *= fresh;
        w->around[frame->dim] *= frame->turns;
    }
    // For the first time: what the kernel's arguments leave of it in the caches, but not in L1.
    double room = w->room[access->buffer];
    Distance distance = scratch ? (Distance){room, room}
                                : (Distance){w->arguments, w->arguments / machine->threads};
    distance.bytes = larger(distance.bytes, SPILLS * (double)machine->l1_bytes);
    add_from(&flow, distance, 0, left);
}

// ---- the loops inside a stage ----

typedef struct {
    TileDimId dim;
    double step;
} Inner;

static bool is_block_dim(const Stage *stage, TileDimId dim) {
    return dim == stage->lanes || dim == stage->rows || dim == stage->cols;
}

// With summed or shared lanes: the result's dims, its blocks, what is summed.
static int block_loops(const Walk *w, const Stage *stage, Inner *loops) {
    int n = 0;
    bool across = stage_sums_lanes(stage);
    double width = machine_lanes(w->machine, sizeof(float));
    for (int summed = 0; summed < 2; summed++) {
        for (int i = 0; i < stage->n_dims; i++)
            if (!is_block_dim(stage, stage->dims[i]) &&
                access_has_dim(&stage->c, stage->dims[i]) == !summed)
                loops[n++] = (Inner){stage->dims[i], 1};
        if (!summed && !across)
            loops[n++] = (Inner){stage->lanes, larger(stage->lane_block, width)};
        if (!summed && stage->rows != TILE_DIM_NONE)
            loops[n++] = (Inner){stage->rows, stage->row_block};
        if (!summed && stage->cols != TILE_DIM_NONE)
            loops[n++] = (Inner){stage->cols, stage->col_block};
    }
    if (across)
        loops[n++] = (Inner){stage->lanes, width};
    return n;
}

// The dim of a compute stage whose positions come in blocks; TILE_DIM_NONE: there is none.
static TileDimId crossed_dim(const Walk *w, const Stage *stage) {
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_LOAD &&
            stage_crosses(w->kernel, stage, &stage->terms.at[i].load))
            return stage->dims[stage->n_dims - 2];
    return TILE_DIM_NONE;
}

// The loops that the target makes of a stage, outermost first.
static int inner_loops(const Walk *w, const Stage *stage, Inner *loops) {
    int n = 0;
    bool contract = stage->kind == STAGE_CONTRACT;
    if (contract && !stage_has_microkernel(stage))
        return block_loops(w, stage, loops);
    uint64_t flat = contract ? cost_flat_dims(w, stage) : 0;
    TileDimId crossed = contract ? TILE_DIM_NONE : crossed_dim(w, stage);
    double width = machine_lanes(w->machine, sizeof(float));
    for (int summed = 0; summed < (contract ? 2 : 1); summed++)
        for (int i = 0; i < stage->n_dims; i++) {
            TileDimId dim = stage->dims[i];
            bool wide = dim == stage->lanes || dim == crossed;
            if (!contract)
                loops[n++] = (Inner){dim, wide ? width : 1};
            else if (!wide && dim != stage->rows && access_has_dim(&stage->c, dim) == !summed &&
                     !(flat >> (dim & 63) & 1))
                loops[n++] = (Inner){dim, 1};
        }
    if (contract && stage->lanes != TILE_DIM_NONE)
        loops[n++] = (Inner){stage->lanes, stage->lane_block};
    if (contract && stage->rows != TILE_DIM_NONE) {
        double lanes = stage->lanes == TILE_DIM_NONE ? 1 : w->length[stage->lanes];
        Elem elem = w->kernel->buffers.at[stage->c.buffer].elem;
        double of_sums = machine_lanes(w->machine, elem_bytes(elem));
        double vectors = larger(ceil(lesser(stage->lane_block, lanes) / of_sums), 1);
        loops[n++] = (Inner){stage->rows, cost_block_rows(w, stage, vectors)};
    }
    return n;
}

// Is it what an earlier access of the stage has just touched?
static bool is_repeated(const Walk *w, const Stage *stage, uint32_t at) {
    const Access *access = use_at(stage, at);
    for (uint32_t i = 0; i < at; i++) {
        const Access *other = use_at(stage, i);
        if (other &&
            buffer_memory(w->kernel, other->buffer) == buffer_memory(w->kernel, access->buffer) &&
            dims_of(other) == dims_of(access))
            return true;
    }
    return false;
}

// Blocks along the rows: turns of the innermost loop inside the stage.
static double row_blocks(const Walk *w, const Stage *stage) {
    const Frame *innermost = w->frames.at[w->depth - 1];
    return w->depth > w->stage_depth && innermost->dim == stage->rows ? innermost->turns : 1;
}

// Are the lanes of a microkernel panels of an argument?
static bool lanes_in_panels(const Walk *w, const Stage *stage) {
    const TileBuffer *buffer = &w->kernel->buffers.at[stage->b.buffer];
    return stage_has_microkernel(stage) && buffer->place != PLACE_SCRATCH &&
           access_panel_dim(w->kernel, &stage->b) == stage->lanes;
}

// Do the row blocks ask for the next panel? A single row block has the time of one call for all of
// it, which is too short.
static bool lanes_asked(const Walk *w, const Stage *stage) {
    const TileBuffer *buffer = &w->kernel->buffers.at[stage->b.buffer];
    if (w->kernel->schedule.prefetch == PREFETCH_NONE || !lanes_in_panels(w, stage))
        return false;
    double steps = 1, blocks = row_blocks(w, stage);
    uint64_t flat = cost_flat_dims(w, stage);
    for (int i = 0; i < stage->n_dims; i++)
        if (flat >> (stage->dims[i] & 63) & 1)
            steps *= w->length[stage->dims[i]];
    double bytes = steps * stage->lane_block * (double)elem_bytes(buffer->elem);
    return blocks > 1 && stage_asks_ahead(blocks, steps, bytes);
}

// adds_up: to what the result of a contraction holds.
static FlowKind flow_of(const Walk *w, const Stage *stage, uint32_t at, bool adds_up) {
    if (stage->kind != STAGE_CONTRACT)
        return FLOW_STEADY;
    if (at == 1)
        return cost_lanes_scattered(w, stage) ? FLOW_LANES_SCATTERED
               : lanes_asked(w, stage)        ? FLOW_LANES_ASKED
               : lanes_in_panels(w, stage)    ? FLOW_LANES_PANELS
                                              : FLOW_LANES;
    if (at == 0)
        return cost_rows_beside(w, stage) ? FLOW_ROWS_BESIDE : FLOW_ROWS;
    bool scattered = cost_result_scattered(w, stage);
    if (adds_up)
        return scattered ? FLOW_SUMS_SCATTERED : FLOW_SUMS;
    return scattered ? FLOW_STORED_SCATTERED : FLOW_STORED;
}

// To look up a page that an access of a stage comes to. Of rows side by side all splats of a step
// wait for one page, each a cycle on a machine that waits for all that is scattered.
static double page_cycles(const Walk *w, const Stage *stage, uint32_t at) {
    bool splats = at == 0 && stage_has_microkernel(stage) && cost_rows_beside(w, stage);
    return PAGE_CYCLES + (splats ? w->machine->scattered_exposed * w->length[stage->rows] : 0);
}

// Of panels that a stage writes, `times` of them.
static void add_lines_again(const Walk *w, const Stage *stage, const Access *access, double times,
                            double *bytes) {
    if (stage->kind != STAGE_COMPUTE || !stage_writes(w->kernel, stage, access->buffer) ||
        crossed_dim(w, stage) != TILE_DIM_NONE)
        return;
    TrafficLevel from = FROM_L2;
    double again = cost_lines_again(w, stage, access, &from);
    bytes[from] += 2 * times * again; // and back
}

double cost_add_traffic(Walk *w, const Stage *stage, double bytes[N_FLOWS][N_FROM]) {
    Inner loops[TILE_RANK_MAX + 2];
    double outside[TILE_RANK_MAX + 2], times = w->times;
    memcpy(w->box, w->length, sizeof *w->length * w->kernel->dims.count);
    w->stage_depth = w->depth;
    int n = inner_loops(w, stage, loops);
    bool adds_up = stage_has_microkernel(stage) && cost_adds_up(w, stage, cost_flat_dims(w, stage));
    for (int i = 0; i < n; i++) {
        TileDimId dim = loops[i].dim;
        outside[i] = w->length[dim];
        double turns = larger(outside[i] / larger(loops[i].step, 1), 1);
        w->length[dim] = outside[i] / turns;
        w->times *= turns;
        Frame *frame = cost_open_frame(w, dim, turns);
        if (turns > 1)
            add_stage(w, stage, dim, &frame->turn);
    }
    if (stage->kind == STAGE_CONTRACT)
        for (uint32_t i = 0; i < 2; i++)
            cost_find_one_set_parts(w, stage, use_at(stage, i), w->one_set_parts[i]);
    double look_ups = 0;
    for (uint32_t i = 0; i < n_uses(stage); i++) {
        const Access *access = use_at(stage, i);
        if (!access || is_repeated(w, stage, i))
            continue;
        FlowKind flow = flow_of(w, stage, i, adds_up);
        add_access(w, stage, access, bytes[flow]);
        add_lines_again(w, stage, access, times, bytes[flow]);
        double pages = cost_pages(w, stage, access);
        if (pages > PAGES_KNOWN)
            look_ups += pages * w->times * page_cycles(w, stage, i);
    }
    for (int i = n; i-- > 0;) {
        w->length[loops[i].dim] = outside[i];
        cost_close_frame(w);
    }
    w->times = times;
    return look_ups;
}
