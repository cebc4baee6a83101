// SPDX-License-Identifier: Apache-2.0
// What a kernel costs: a walk over the tree that counts how often each stage runs and on how large
// a box.
//
// A stage takes as long as its arithmetic (arithmetic.c) or its traffic with the caches and memory
// (traffic.c), whichever is longer, and a part of the other, since they do not overlap perfectly;
// at least its arithmetic and what it waits for (rates.c). A loop that does not divide its range is
// walked twice, for its full pieces and for the last one. A range is as long as its bounds say at
// the average position of the pieces around it; what is loaded is taken to be the middle, and half
// of the positions to be between two of them.
// A rough walk takes all pieces of a loop to be equally long: of several loops in each other it
// sees one of many combinations of full pieces and last ones.
#include "tile/cost/cost.h"

#include <math.h>
#include <string.h>

// Parts of the shorter of arithmetic and traffic that the other does not hide, from L2 and from
// further away; and how many times the machine's own part is waited for beside.
//
// Source: all schedules of 17 contraction kernels, measured (8 to 512 rows), least squares; sums by
// the ranks of twelve. Of the machine's part (places.c): by the ranks of 20 products and 3
// attention cores on an Intel Xeon (6.167.1), whose part is measured as 0.3 to 0.4; scattered lanes
// by those of 64 x 768 -> 3072, a feed-forward block and the projections of a layer of 128
// positions.
static const struct {
    double exposed[2], scattered[2];
} FLOWS[N_FLOWS] = {
    [FLOW_STEADY] = {{0.1, 0.35}, {0, 2}},
    [FLOW_ROWS] = {{0.1, 0.1}, {1, 3}},
    [FLOW_ROWS_BESIDE] = {{0.1, 0.1}, {2, 4}},
    [FLOW_LANES] = {{0.02, 0.05}, {0.5, 2}},
    [FLOW_LANES_PANELS] = {{0.02, 0.05}, {0.5, 0}},
    [FLOW_LANES_ASKED] = {{0.02, 0.05}, {0.2, 0}},
    [FLOW_LANES_SCATTERED] = {{0.02, 0.05}, {2, 1.75}},
    [FLOW_SUMS] = {{1, 0.75}, {0, 0}},
    [FLOW_SUMS_SCATTERED] = {{1, 0.75}, {1, 2}},
    [FLOW_STORED] = {{0.4, 0.4}, {0, 0}},
    [FLOW_STORED_SCATTERED] = {{0.4, 0.4}, {1, 1}},
};

// What is waited for of panels grows with the bytes that each cycle of the arithmetic asks for: so
// many times the machine's own part for one of them. Measured like that part: all schedules of
// multi-head attention, whose products of 4 rows take 1.5 times as long as the longer of arithmetic
// and L2, of 1 and 2 rows twice.
static const double PANEL_BYTE = 0.06;

static double exposed_part(const Walk *w, int flow, bool further, double bytes_a_cycle) {
    double times = FLOWS[flow].scattered[further];
    if (flow == FLOW_LANES_PANELS)
        times = larger(times, PANEL_BYTE * bytes_a_cycle);
    double part = lesser(FLOWS[flow].exposed[further] + w->machine->scattered_exposed * times, 1);
    if (flow == FLOW_ROWS || flow == FLOW_ROWS_BESIDE)
        return larger(part, w->one_set_parts[0][further]);
    if (flow == FLOW_LANES || flow == FLOW_LANES_SCATTERED)
        return larger(part, w->one_set_parts[1][further]);
    return part;
}

static const double CALL_SECONDS = 4e-8; // of a task; measured: a layer norm in 2 and in 32
static const double ROUNDING = 1e-9;     // far more than what sums in other orders differ by

static double stage_flops(const Walk *w, const Stage *stage) {
    if (stage->kind == STAGE_CONTRACT)
        return 2 * cost_box_points(w, stage);
    double operations = 0;
    for (uint32_t i = 0; i < stage->terms.count; i++) {
        const Term *term = &stage->terms.at[i];
        bool counts = term->kind == TERM_OP && elem_is_float(term->elem) && term->op != OP_CAST &&
                      term->op != OP_COPY;
        operations += counts;
    }
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        operations += stage->sinks.at[i].mode != SINK_SET;
    return operations * cost_box_points(w, stage);
}

// ---- seconds ----

static void add_stage_cost(Walk *w, const Stage *stage) {
    StageCost cost = {.stage = stage, .times = w->times};
    double bytes[N_FLOWS][N_FROM] = {{0}};
    double cycles = stage->kind == STAGE_CONTRACT ? cost_contract_cycles(w, stage)
                    : stage->kind == STAGE_ORDER  ? cost_order_cycles(w, stage)
                                                  : cost_compute_cycles(w, stage);
    cost.cycles = w->times * cycles;
    if (!w->in_l1)
        cost.cycles += cost_add_traffic(w, stage, bytes);
    for (int flow = 0; flow < N_FLOWS; flow++)
        for (int level = 0; level < N_FROM; level++) {
            cost.bytes[level] += bytes[flow][level];
            cost.exposed[level] +=
                bytes[flow][level] *
                exposed_part(w, flow, level > FROM_L2, bytes[flow][level] / larger(cost.cycles, 1));
        }
    cost.seconds = cost_stage_seconds(&cost, w->machine);
    w->seconds += cost.seconds;
    if (w->keep)
        vec_push(w->keep, &w->out->stages, cost);
}

// ---- the walk ----

static void make_buffer(Walk *w, uint16_t at) {
    const TileBuffer *buffer = &w->kernel->buffers.at[at];
    w->room[at] = cost_made_bytes(buffer, w->length);
    w->made[at] = w->depth;
    if (!buffer->has_initial)
        return;
    double cycles = w->times * w->room[at] / w->machine->vector_bytes;
    w->cycles += cycles;
    w->seconds += cycles * machine_cycle(w->machine);
}

// A position that is loaded is taken to be the middle one. A range between two of them has half of
// what it may have; chosen.
static const double BETWEEN_TWO = 0.25; // of it, to each side

// The first position that a bound loads; NULL: it loads none.
static const Access *loaded_by(const Node *range, int32_t at) {
    if (at < 0)
        return NULL;
    const Bound *bound = &range->bounds.at[at];
    bool two = bound_of_two(bound);
    if (bound->kind == BOUND_LOAD)
        return &bound->load;
    const Access *first =
        two || bound->kind == BOUND_ROUND ? loaded_by(range, bound->args[0]) : NULL;
    return first || !two ? first : loaded_by(range, bound->args[1]);
}

// loaded: where a position that is loaded lies, from 0 to 1.
static double bound_position(const Walk *w, const Node *range, int32_t at, double loaded) {
    const Bound *bound = &range->bounds.at[at];
    double number = (double)bound->number, a, b;
    switch (bound->kind) {
    case BOUND_NUMBER:
        return number;
    case BOUND_LO:
        return w->low[bound->dim] + number;
    case BOUND_HI:
        return w->low[bound->dim] + w->length[bound->dim] + number;
    case BOUND_EXTENT:
        return (double)w->extents[bound->dim] + number;
    case BOUND_PART:
        a = (w->low[bound->dim] + number) * (double)w->extents[range->dim];
        return a / (double)w->extents[bound->dim];
    case BOUND_LOAD:
        return w->low[range->dim] + w->length[range->dim] * loaded + number;
    case BOUND_MIN:
    case BOUND_MAX:
    case BOUND_ADD:
        a = bound_position(w, range, bound->args[0], loaded);
        b = bound_position(w, range, bound->args[1], loaded);
        return bound->kind == BOUND_MIN   ? lesser(a, b)
               : bound->kind == BOUND_MAX ? larger(a, b)
                                          : a + b;
    case BOUND_ROUND: // on average half a multiple further down
        return bound_position(w, range, bound->args[0], loaded) - (number - 1) / 2;
    }
    return 0;
}

static void walk_nodes(Walk *w, const NodeList *body);

// Is the end of a range a number, or the one outside?
static bool is_fixed(const Node *range, int32_t at) {
    return at < 0 || range->bounds.at[at].kind == BOUND_NUMBER;
}

static void walk_range(Walk *w, const Node *node) {
    double low = w->low[node->dim], length = w->length[node->dim];
    double from = low, to = low + length;
    const Access *first = loaded_by(node, node->lo), *end = loaded_by(node, node->hi);
    double aside = first && end && first->buffer != end->buffer ? BETWEEN_TWO : 0;
    if (node->lo >= 0)
        from = larger(from, bound_position(w, node, node->lo, 0.5 - aside));
    if (node->hi >= 0)
        to = lesser(to, bound_position(w, node, node->hi, 0.5 + aside));
    bool known = w->known[node->dim];
    w->low[node->dim] = from;
    w->length[node->dim] = larger(to - from, 0);
    w->known[node->dim] = known && is_fixed(node, node->lo) && is_fixed(node, node->hi);
    cost_open_frame(w, TILE_DIM_NONE, 1);
    walk_nodes(w, &node->body);
    cost_close_frame(w);
    w->low[node->dim] = low;
    w->length[node->dim] = length;
    w->known[node->dim] = known;
}

// `count` of the loop's pieces, each `length` long, the first beginning at `low`.
static void walk_pieces(Walk *w, const Node *node, double count, double turns, double low,
                        double length) {
    double times = w->times, before = w->seconds;
    w->low[node->dim] = low + (count - 1) * length / 2;
    w->length[node->dim] = length;
    w->times *= count;
    cost_open_frame(w, node->dim, turns)->parallel = node->loop == LOOP_PARALLEL;
    if (!w->in_l1 && turns > 1)
        cost_measure_turn(w, &node->body);
    walk_nodes(w, &node->body);
    cost_close_frame(w);
    if (node->loop == LOOP_PARALLEL && !nodes_parallel(&node->body))
        w->longest_task = larger(w->longest_task, (w->seconds - before) / w->times);
    w->times = times;
}

// What a turn of an ordered loop takes, by the loop's number.
static void add_turn(Walk *w, const Node *node, double seconds) {
    int i = 0;
    while (i < ORDERED_MAX - 1 && w->ordered[i] && w->ordered[i] != node)
        i++;
    w->ordered[i] = node;
    w->turns[i] += seconds;
}

// Once for whole pieces and once for the last one.
static void walk_loop(Walk *w, const Node *node) {
    double before = w->seconds, low = w->low[node->dim], length = w->length[node->dim],
           step = (double)node->step;
    double whole = floor(length / step + 1e-9), rest = length - whole * step, turns = whole;
    bool more = rest > 1e-9 * step, known = w->known[node->dim];
    turns += more;
    w->known[node->dim] = known && !(whole > 0 && more);
    if (w->rough && more) {
        w->out->is_rough = true;
        step = length / turns;
        whole = turns;
        more = false;
    }
    if (whole > 0)
        walk_pieces(w, node, whole, turns, low, step);
    if (more)
        walk_pieces(w, node, 1, turns, low + whole * step, rest);
    if (node->loop == LOOP_ORDERED && turns > 0)
        add_turn(w, node, (w->seconds - before) / turns);
    w->low[node->dim] = low;
    w->length[node->dim] = length;
    w->known[node->dim] = known;
}

static void walk_stage(Walk *w, const Stage *stage) {
    if (cost_box_points(w, stage) <= 0)
        return;
    w->flops += w->times * stage_flops(w, stage);
    add_stage_cost(w, stage);
    forwarding_note(&w->forwarding, stage);
}

static void walk_nodes(Walk *w, const NodeList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        if (!w->in_l1 && body->count > 1 && node->kind != NODE_SCRATCH)
            cost_look_back(w, body, i);
        switch (node->kind) {
        case NODE_LOOP:
            walk_loop(w, node);
            break;
        case NODE_RANGE:
            walk_range(w, node);
            break;
        case NODE_SCRATCH:
            make_buffer(w, node->buffer);
            break;
        case NODE_STAGE:
            walk_stage(w, node->stage);
            break;
        }
    }
}

static void walk_kernel(Walk *w) {
    const Kernel *kernel = w->kernel;
    uint32_t n_dims = kernel->dims.count + 1, n_buffers = kernel->buffers.count + 1;
    w->times = 1;
    w->low = arena_array(w->arena, double, n_dims);
    w->length = arena_array(w->arena, double, n_dims);
    w->inner = arena_array(w->arena, double, n_dims);
    w->around = arena_array(w->arena, double, n_dims);
    w->box = arena_array(w->arena, double, n_dims);
    w->room = arena_array(w->arena, double, n_buffers);
    w->made = arena_array(w->arena, uint32_t, n_buffers);
    w->forwarding = forwarding_new(w->arena, kernel);
    w->known = arena_array(w->arena, bool, n_dims);
    for (uint32_t i = 0; i < kernel->dims.count; i++) {
        w->length[i] = (double)w->extents[i];
        w->known[i] = kernel->dims.at[i].extent != EXTENT_DYNAMIC;
    }
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        double before = w->seconds;
        make_buffer(w, (uint16_t)i);
        w->arguments += w->room[i];
        w->alone += kernel_adds_in_turn(kernel, (uint16_t)i) ? w->seconds - before : 0;
    }
    w->initial = w->seconds;
    w->cycles = 0;
    cost_open_footprints(w);
    cost_open_frame(w, TILE_DIM_NONE, 1);
    walk_nodes(w, &kernel->body);
}

static double in_tasks(const Walk *w) {
    return w->seconds - w->initial;
}

static void walk_whole(Walk *w) {
    w->arena = arena_new();
    walk_kernel(w);
    arena_free(w->arena);
    w->out->flops = w->flops;
    w->longest_task = w->longest_task > 0 ? w->longest_task : in_tasks(w);
}

// What is not the work of a task: initial values of arguments,
static double initial_outside(const Walk *w) {
    return (w->initial - w->alone) / w->machine->threads + w->alone;
}

// calling tasks one after the other,
static double calling(const Machine *machine, double tasks) {
    return tasks * lesser(CALL_SECONDS, machine->task_seconds);
}

// and handing them out, if there is somebody else.
static double handing_out(const Machine *machine, double tasks) {
    if (machine->threads == 1)
        return calling(machine, tasks);
    return ceil(tasks / machine->threads) * machine->task_seconds +
           (tasks > 1 ? machine->launch_seconds : 0);
}

static double around_tasks(const Walk *w, double tasks) {
    return initial_outside(w) + handing_out(w->machine, tasks);
}

// Tasks that take turns: no two of a chain are in one turn of a loop at a time.
static double seconds_of_turns(const Walk *w, double tasks) {
    const Node *chain = kernel_innermost_parallel(w->kernel);
    double most = 0;
    for (int i = 0; i < ORDERED_MAX; i++)
        most = larger(most, w->turns[i]);
    if (most <= 0 || !chain)
        return 0;
    double links = ceil((double)w->extents[chain->dim] / (double)chain->step);
    return most * links / tasks;
}

// Tasks of equal length are handed out in rounds; what is left over is shorter than one of them and
// runs beside the last round, if that leaves a thread without work. Several short tasks count as
// the whole ones that they add up to.
static double seconds_of_rounds(double shared, double longest, double threads) {
    if (shared <= 0)
        return 0;
    double whole = floor(shared / longest + 1e-9), rest = larger(shared - whole * longest, 0);
    double rounds = floor(whole / threads + 1e-9);
    bool idle = whole > rounds * threads;
    return larger(rounds * longest + (idle ? longest : rest), shared / threads);
}

static TileCost cost_of(Walk w) {
    const Machine *machine = w.machine;
    TileCost out = {0};
    w.out = &out;
    walk_whole(&w);
    double tasks = (double)kernel_tasks(w.kernel, w.extents), threads = machine->threads;
    double shared = in_tasks(&w), around = around_tasks(&w, tasks);
    double at_least = larger(w.longest_task, shared / threads);
    double of_tasks = w.in_l1 ? at_least : seconds_of_rounds(shared, w.longest_task, threads);
    double lowered = w.in_l1 ? 1 - ROUNDING : 1;
    out.seconds = lowered * (w.seconds + calling(machine, tasks));
    out.parallel_seconds = lowered * larger(of_tasks + around, seconds_of_turns(&w, tasks));
    out.cycles = w.cycles;
    out.outside_cycles = initial_outside(&w) / machine_cycle(machine);
    out.outside_seconds = handing_out(machine, tasks);
    if (shared > 0)
        out.waited = (out.parallel_seconds - around) / shared;
    return out;
}

TileCost tile_cost(Arena *keep, const Kernel *kernel, const int64_t *extents,
                   const Machine *machine) {
    return cost_of((Walk){kernel, extents, machine, .keep = keep});
}

TileCost tile_cost_floor(const Kernel *kernel, const int64_t *extents, const Machine *machine) {
    return cost_of((Walk){kernel, extents, machine, .in_l1 = true});
}

TileCost tile_cost_rough(const Kernel *kernel, const int64_t *extents, const Machine *machine,
                         bool floor) {
    return cost_of((Walk){kernel, extents, machine, .in_l1 = floor, .rough = true});
}

double launch_seconds(const Launch *launch, const Kernel *kernel, const int64_t *extents,
                      const Machine *machine) {
    Arena *arena = arena_new();
    const int64_t *own = launch_extents(launch, kernel, extents, arena);
    double seconds = tile_cost(NULL, kernel, own, machine).parallel_seconds;
    arena_free(arena);
    return seconds;
}
