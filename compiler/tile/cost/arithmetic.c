// SPDX-License-Identifier: Apache-2.0
// Cycles that the units of one core are busy with a stage, its data being in L1.
//
// A contraction is its microkernel calls: each step of k issues rows x vectors multiply-adds, loads
// of as many vectors, two of each a cycle, and splats of as many elements as there are rows, of
// which some machines load more, and a line that is asked for ahead. No step is shorter than the
// latency of its sums allows. A compute stage issues its ops by their weight and, beside them, its
// loads and stores; what does not change along the inner dims is counted where the target hoists it
// to.
//
// Source: measured stages of the fused kernels (12 x 32 over 64: 2% above the multiply-adds, over
// 12: 8%).
#include <math.h>

#include "tile/cost/cost.h"

static const double LATENCY = 4; // cycles of a multiply-add
static const double STEP = 0.1;  // of each step: where it reads
static const double ASKED = 1;   // for a line of the next panel, by several rows: as a load
// Of a step whose lanes are a line in another page than the last one, beside its rows; and of each
// row more than L1 keeps. Measured on an AMD EPYC (25.17.1, two cycles for a vector), like
// STEP: projections of 512 and 64 positions, 768 and 1024 x 3072 and 4096, one vector wide.
static const double PAGE_STEP = 3.3, LOST_ROW = 0.6;
// Of a splat that several vectors use, times the share of a cycle in which loads stand still; with
// two vectors a cycle that is none. Measured: sums of 12 x 32 take 1 to 4% longer than of 12 x 16.
static const double SHARED_SPLAT = 0.03;
static const double CALL = 6;             // cycles of a microkernel call
static const double CALL_PER_SUM = 0.25;  // its stores, as far as nothing hides them
static const double ADD_PER_SUM = 1.5;    // loading what c holds and waiting for it
static const double SPLIT_LOAD = 0.25;    // of a vector in two lines, beside the second load
static const double MASKING = 1.3;        // masks that live in vector registers
static const double ACROSS_PER_SUM = 1.5; // adding up a vector of summed lanes
static const double CROSSING = 3;         // a vector of a transposed block, which is 4 shuffles,
static const double CROSSING_LOST = 8;    // more if L1 does not keep its rows
// Of contractions, of other stages, and of loops inside of these; FOLD, a vector to one number:
// other rows hide half of it. Measured on an Intel Xeon (6.167.1): softmax in pieces of 64 to 512
// positions; norms, softmax and sums of 64 to 4096 numbers in blocks of 1 to 16 rows.
static const double CONTRACT_ENTRY = 15, COMPUTE_ENTRY = 5, LOOP_ENTRY = 6, FOLD = 6;

static double ceiling(double x) {
    double up = ceil(x - 1e-9);
    return up < 1 ? 1 : up;
}

double cost_box_points(const Walk *w, const Stage *stage) {
    double points = 1;
    for (int i = 0; i < stage->n_dims; i++)
        points *= w->length[stage->dims[i]];
    return points;
}

// May a vector of an argument lie in two lines? Then it is two loads.
static bool splits_lines(const Walk *w, const Access *access) {
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    if (buffer->place == PLACE_SCRATCH || buffer->panel_dim != TILE_DIM_NONE || buffer->rank < 2)
        return false;
    double row =
        (double)elem_bytes(buffer->elem) * (double)w->extents[buffer->dims[buffer->rank - 1]];
    return fmod(row, w->machine->vector_bytes) != 0;
}

// ---- contractions ----

static int slot_of(const Access *access, TileDimId dim) {
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim == dim)
            return i;
    return -1;
}

// Is one step of `outer` in memory the same as running past the whole of `inner`?
static bool continues(const Walk *w, const Access *access, TileDimId outer, TileDimId inner) {
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    int from = slot_of(access, outer), to = slot_of(access, inner);
    if (from < 0 || to < 0 || from >= to || buffer->dims[from] == buffer->panel_dim ||
        buffer->dims[to] == buffer->panel_dim)
        return false;
    for (int i = from + 1; i < to; i++)
        if (buffer->dims[i] != buffer->panel_dim)
            return false;
    if (buffer->gap && to == buffer->rank - 1)
        return false;
    return buffer->place == PLACE_SCRATCH || w->length[inner] >= (double)w->extents[inner];
}

static uint64_t bit_of(TileDimId dim) {
    return (uint64_t)1 << (dim & 63);
}

static uint64_t flat_from(const Walk *w, const Stage *stage, TileDimId inner, double *length) {
    uint64_t flat = bit_of(inner);
    *length = w->length[inner];
    for (bool grown = true; grown;) {
        grown = false;
        for (int i = 0; i < stage->n_dims && !grown; i++) {
            TileDimId dim = stage->dims[i];
            if (access_has_dim(&stage->c, dim) || (flat & bit_of(dim)) ||
                !continues(w, &stage->a, dim, inner) || !continues(w, &stage->b, dim, inner))
                continue;
            flat |= bit_of(dim);
            *length *= w->length[dim];
            inner = dim;
            grown = true;
        }
    }
    return flat;
}

uint64_t cost_flat_dims(const Walk *w, const Stage *stage) {
    uint64_t best = 0;
    double most = -1, length;
    for (int i = 0; i < stage->n_dims; i++) {
        if (access_has_dim(&stage->c, stage->dims[i]))
            continue;
        uint64_t flat = flat_from(w, stage, stage->dims[i], &length);
        if (length >= most) {
            most = length;
            best = flat;
        }
    }
    return best;
}

// The microkernel calls of a stage.
typedef struct {
    const Stage *stage;
    double k;                // steps of a call
    bool adds;               // to what c holds
    double splits;           // of each sum, at most
    double splat;            // of an element of a, as loads of a vector
    double shared;           // cycles more of one that several vectors need
    double lanes;            // cycles of a step, at least, beside those of its rows
    double kept;             // rows of a that L1 keeps
    bool b_splits, c_splits; // vectors lie in two lines
    bool asks;               // for what is read later
    double a_widening;       // instructions per element of a and vector of b,
    double b_widening;       // both of halves
} Calls;

// Into how many, `most` at most, the target splits each sum when there are few.
static double splits_of(double sums, double most) {
    double splits = 1;
    while (splits < most && sums * splits * 2 <= SUMS_IN_FLIGHT)
        splits *= 2;
    return splits;
}

static double call_cycles(const Calls *calls, double rows, double vectors) {
    double sums = rows * vectors;
    double loads = rows * calls->splat + vectors * (calls->b_splits ? 2 : 1) +
                   (calls->asks && rows > 1 ? ASKED : 0);
    double widening = rows * calls->a_widening + vectors * calls->b_widening;
    double step =
        larger(larger(sums + widening, loads) / 2, LATENCY / splits_of(sums, calls->splits));
    step = larger(step, rows * calls->splat / 2 + calls->lanes) + STEP;
    step += LOST_ROW * larger(rows - calls->kept, 0) + (vectors > 1 ? calls->shared * rows : 0);
    step += calls->b_splits ? SPLIT_LOAD * vectors : 0;
    double per_sum = CALL_PER_SUM + (calls->adds ? ADD_PER_SUM : 0);
    return calls->k * step + CALL + per_sum * sums * (calls->c_splits ? 2 : 1);
}

// Panels of rows are cut as they lie.
static bool has_even_rows(const Walk *w, const Stage *stage) {
    return stage->rows != TILE_DIM_NONE && w->known[stage->rows] &&
           access_panel_dim(w->kernel, &stage->a) != stage->rows;
}

double cost_block_rows(const Walk *w, const Stage *stage, double vectors) {
    double most = machine_block_rows(w->machine, (int)vectors, false);
    most = larger(lesser(most, stage->row_block), 1);
    if (!has_even_rows(w, stage))
        return most;
    int64_t rows = (int64_t)w->length[stage->rows];
    most = (double)stage_even_rows(w->machine, rows, (int64_t)most, (int)vectors);
    return (double)rows / ceiling((double)rows / most);
}

// All calls along the rows for one block of `vectors` x lanes.
static double rows_cycles(const Walk *w, const Calls *calls, double rows, double vectors) {
    double block = cost_block_rows(w, calls->stage, vectors);
    double full = floor(rows / block + 1e-9), rest = rows - full * block;
    return full * call_cycles(calls, block, vectors) +
           (rest > 1e-9 ? call_cycles(calls, rest, vectors) : 0);
}

// Instructions that make f32 of the element of a that all lanes get, or of a vector of b.
static double widening(const Walk *w, const Access *access, bool vector) {
    Elem elem = w->kernel->buffers.at[access->buffer].elem;
    bool half = elem == ELEM_F16 || elem == ELEM_BF16;
    return !half ? 0 : vector || elem == ELEM_F16 ? 2 : 1;
}

static double length_of(const Walk *w, TileDimId dim) {
    return dim == TILE_DIM_NONE ? 1 : w->length[dim];
}

// Blocks of rows x cols sums in vectors. With summed lanes they are added up across at the end;
// with shared ones a block has some vectors of them, which are stored.
static double blocks_cycles(const Walk *w, const Stage *stage) {
    double width =
        machine_lanes(w->machine, elem_bytes(w->kernel->buffers.at[stage->c.buffer].elem));
    double times = 1, steps = 1, vectors = 1;
    bool across = stage_sums_lanes(stage), adds = false;
    for (int i = 0; i < stage->n_dims; i++) {
        TileDimId dim = stage->dims[i];
        if (dim == stage->rows || dim == stage->cols)
            continue;
        double length = w->length[dim];
        bool kept = access_has_dim(&stage->c, dim);
        if (dim == stage->lanes)
            length = ceiling(length / width);
        if (dim == stage->lanes && !across) {
            vectors = lesser(length, larger(floor(stage->lane_block / width), 1));
            length = ceiling(length / vectors);
        }
        *(kept ? &times : &steps) *= length;
        adds |= !kept && w->length[dim] < (double)w->extents[dim];
    }
    double rows = length_of(w, stage->rows), cols = length_of(w, stage->cols);
    double row_blocks = ceiling(rows / stage->row_block), col_blocks = 1;
    if (stage->cols != TILE_DIM_NONE)
        col_blocks = ceiling(cols / stage->col_block);
    rows /= row_blocks;
    cols /= col_blocks;
    double widened = rows * widening(w, &stage->a, true) + cols * widening(w, &stage->b, true);
    double sums = rows * cols * vectors, loads = (rows + cols) * vectors;
    double splits = across ? splits_of(sums, SUMS_IN_FLIGHT) : sums;
    double step = larger(larger(sums + widened * vectors, loads) / 2, LATENCY / splits);
    double per_sum = across ? ACROSS_PER_SUM : CALL_PER_SUM + (adds ? ADD_PER_SUM : 0);
    double block = steps * step + CALL + per_sum * sums;
    return CONTRACT_ENTRY + times * row_blocks * col_blocks * block;
}

// What a splat takes, in cycles.
static double splat_cycles(const Machine *machine) {
    return 1 / (machine->splats_per_second * machine_cycle(machine));
}

bool cost_adds_up(const Walk *w, const Stage *stage, uint64_t flat) {
    for (int i = 0; i < stage->n_dims; i++) {
        TileDimId dim = stage->dims[i];
        bool inside = flat & bit_of(dim), whole = w->length[dim] >= (double)w->extents[dim];
        if (!access_has_dim(&stage->c, dim) && !(inside && whole))
            return true;
    }
    return false;
}

// Of c that is added up, and of operands that lie well.
static Calls calls_of(const Machine *machine) {
    double splat = 2 * splat_cycles(machine);
    return (Calls){.k = 1,
                   .adds = true,
                   .splits = SPLITS_MAX,
                   .splat = splat,
                   .shared = SHARED_SPLAT * larger(1 - splat, 0),
                   .kept = INFINITY,
                   .asks = true};
}

double tile_block_cycles(const Machine *machine, double rows, double vectors, double steps) {
    Calls calls = calls_of(machine);
    calls.k = steps;
    return rows > 0 ? call_cycles(&calls, rows, vectors) : 0;
}

double cost_contract_cycles(const Walk *w, const Stage *stage) {
    const Machine *machine = w->machine;
    if (!stage_has_microkernel(stage))
        return blocks_cycles(w, stage);
    uint64_t flat = cost_flat_dims(w, stage);
    double loops = 1;
    Calls calls = calls_of(machine);
    calls.stage = stage;
    calls.adds = cost_adds_up(w, stage, flat);
    calls.splits = stage->in_order ? 1 : SPLITS_MAX;
    calls.lanes = cost_lanes_apart(w, stage) ? PAGE_STEP : 0;
    calls.kept = cost_kept_along(w, &stage->a, stage->rows);
    calls.b_splits = splits_lines(w, &stage->b);
    calls.c_splits = splits_lines(w, &stage->c);
    calls.asks = w->kernel->schedule.prefetch != PREFETCH_NONE;
    calls.a_widening = widening(w, &stage->a, false);
    calls.b_widening = widening(w, &stage->b, true);
    for (int i = 0; i < stage->n_dims; i++) {
        TileDimId dim = stage->dims[i];
        if (dim == stage->rows || dim == stage->lanes)
            continue;
        *(flat & bit_of(dim) ? &calls.k : &loops) *= w->length[dim];
    }
    double width = machine_lanes(machine, elem_bytes(w->kernel->buffers.at[stage->c.buffer].elem));
    double block = larger(stage->lane_block, width);
    double lanes = stage->lanes == TILE_DIM_NONE ? 1 : w->length[stage->lanes];
    double rows = stage->rows == TILE_DIM_NONE ? 1 : w->length[stage->rows];
    double whole = floor(lanes / block + 1e-9), rest = larger(lanes - whole * block, 0);
    double cycles = whole * rows_cycles(w, &calls, rows, block / width);
    if (rest > 1e-9) {
        double vectors = ceiling(rest / width);
        bool masked = rest < vectors * width && !machine->has_masks;
        cycles += rows_cycles(w, &calls, rows, vectors) * (masked ? MASKING : 1);
    }
    return CONTRACT_ENTRY + loops * cycles;
}

// ---- compute stages ----

// Where the target computes a term: inside the loop over dims[level] (-1: before all), and whether
// it differs from lane to lane.
typedef struct {
    int level;
    bool varies;
} Hoisting;

typedef struct {
    const Walk *w;
    const Stage *stage;
    Hoisting *terms;
    int lanes_level; // of the stage's dims, or n_dims
    double width;
    double panel;               // lanes of what is written in panels, which no vector leaves; or 0
    double ops, ports, latency; // cycles of the vector units, of loads and stores, of sums
} Count;

static Hoisting hoisting_join(Hoisting a, Hoisting b) {
    return (Hoisting){a.level > b.level ? a.level : b.level, a.varies || b.varies};
}

static Hoisting dim_hoisting(const Count *c, TileDimId dim) {
    for (int i = c->stage->n_dims; i-- > 0;)
        if (c->stage->dims[i] == dim)
            return (Hoisting){i, dim == c->stage->lanes};
    return (Hoisting){-1, false};
}

static Hoisting access_hoisting(const Count *c, const Access *access) {
    Hoisting all = {-1, false};
    for (int i = 0; i < access->rank; i++) {
        all = hoisting_join(all, dim_hoisting(c, access->index[i].dim));
        if (access->index[i].term >= 0)
            all = hoisting_join(all, c->terms[access->index[i].term]);
    }
    return all;
}

static Hoisting term_hoisting(const Count *c, const Term *term) {
    Hoisting all = {-1, false};
    switch (term->kind) {
    case TERM_INDEX:
        return dim_hoisting(c, term->dim);
    case TERM_LOAD:
        return access_hoisting(c, &term->load);
    case TERM_OP:
        for (int i = 0; i < 3; i++)
            if (term->args[i] >= 0)
                all = hoisting_join(all, c->terms[term->args[i]]);
        return all;
    default:
        return all;
    }
}

static double lane_vectors(const Count *c, double length) {
    if (c->panel <= 0 || c->panel > length)
        return ceiling(length / c->width);
    return ceiling(length / c->panel) * ceiling(c->panel / c->width);
}

// How often the body of the loop at this level runs; vectors along the lanes.
static double level_count(const Count *c, int level) {
    double count = 1;
    for (int i = 0; i <= level && i < c->stage->n_dims; i++) {
        double length = c->w->length[c->stage->dims[i]];
        count *= i == c->lanes_level ? lane_vectors(c, length) : length;
    }
    return count;
}

// How often an innermost loop is entered; one of a single turn is none.
static double loop_entries(const Count *c) {
    int level = c->stage->n_dims - 1;
    while (level > 0 && level_count(c, level) <= level_count(c, level - 1))
        level--;
    return level_count(c, level - 1);
}

// Are neighbours along the lanes neighbours in memory?
static bool is_unit(const Count *c, const Access *access) {
    const TileBuffer *buffer = &c->w->kernel->buffers.at[access->buffer];
    for (int i = 0; i < access->rank; i++) {
        if (access->index[i].term >= 0 && c->terms[access->index[i].term].varies)
            return false;
        if (access->index[i].dim == c->stage->lanes && i != access->rank - 1 &&
            buffer->dims[i] != buffer->panel_dim)
            return false;
    }
    return true;
}

// Of a vector of a transposed block, which has as many positions of the dim outside of the lanes as
// lanes; where there are fewer of them the rest of the block is for nothing.
static double crossing_cycles(const Count *c, const Access *access) {
    double positions = c->w->length[c->stage->dims[c->stage->n_dims - 2]];
    double lanes = lesser(c->width, c->w->length[c->stage->lanes]);
    bool kept = lanes <= cost_kept_along(c->w, access, c->stage->lanes);
    return (CROSSING + (kept ? 0 : CROSSING_LOST)) * c->width /
           larger(lesser(positions, c->width), 1);
}

// Stores of a vector, on average: without masks, what a panel or a row takes of its last one is as
// many as it has powers of two.
static double stores_of_vector(const Count *c) {
    double length = c->stage->lanes == TILE_DIM_NONE ? 1 : c->w->length[c->stage->lanes];
    double stretch = c->panel > 0 && c->panel <= length ? c->panel : length;
    double whole = floor(stretch / c->width), stores = whole;
    if (c->w->machine->has_masks)
        return 1;
    for (int rest = (int)(stretch - whole * c->width); rest; rest &= rest - 1)
        stores++;
    return larger(stores, 1) / ceiling(stretch / c->width);
}

// Cycles of moving one vector between registers and L1.
static double port_cycles(const Count *c, const Access *access, Hoisting at, bool store) {
    size_t bytes = elem_bytes(c->w->kernel->buffers.at[access->buffer].elem);
    double vectors = at.varies ? larger(bytes / 4.0, 1) : 1;
    if (at.varies && !store && stage_crosses(c->w->kernel, c->stage, access))
        return crossing_cycles(c, access);
    if (at.varies && !is_unit(c, access))
        return op_weight(OP_GATHER);
    double lines = at.varies && splits_lines(c->w, access) ? 2 : 1;
    if (store && at.varies)
        return vectors * lines * stores_of_vector(c);
    return vectors * lines * (store ? 1 : op_weight(OP_INPUT));
}

static void count_term(Count *c, const Term *term, Hoisting at) {
    double count = level_count(c, at.level);
    double vectors = at.varies && elem_bytes(term->elem) == 8 ? 2 : 1;
    if (term->kind == TERM_LOAD)
        c->ports += count * port_cycles(c, &term->load, at, false);
    else if (term->kind == TERM_OP)
        c->ops +=
            count * vectors * (at.varies ? op_cycles : op_cycles_of_one)(term->op, c->w->machine);
    else if (term->kind == TERM_INDEX && at.varies)
        c->ops += count * vectors * op_weight(OP_ADD);
}

static bool is_reduced(const Count *c, const Sink *sink, int level) {
    return !access_has_dim(&sink->to, c->stage->dims[level]);
}

static void count_sink(Count *c, const Sink *sink) {
    const Stage *stage = c->stage;
    int inner = stage->n_dims;
    while (sink->mode != SINK_SET && inner > 0 && is_reduced(c, sink, inner - 1))
        inner--;
    Hoisting to = access_hoisting(c, &sink->to);
    double each = level_count(c, stage->n_dims - 1), stores = level_count(c, inner - 1);
    c->ports += stores * port_cycles(c, &sink->to, to, true);
    if (sink->mode == SINK_SET)
        return;
    c->ops += each * op_weight(OP_ADD);
    c->ports += stores * port_cycles(c, &sink->to, to, false);
    if (inner < stage->n_dims) // sums in registers, four at a time
        c->latency = larger(c->latency, each * LATENCY / 4);
    if (inner <= c->lanes_level && c->lanes_level < stage->n_dims)
        c->ops += stores * FOLD;
}

static double panel_of(const Walk *w, const Stage *stage) {
    const Access *to = &stage->sinks.at[0].to;
    bool along = stage->sinks.count == 1 && stage->lanes != TILE_DIM_NONE &&
                 access_panel_dim(w->kernel, to) == stage->lanes;
    return along ? w->kernel->buffers.at[to->buffer].panel_width : 0;
}

double cost_compute_cycles(const Walk *w, const Stage *stage) {
    Count c = {.w = w, .stage = stage, .width = 1, .lanes_level = stage->n_dims};
    c.panel = panel_of(w, stage);
    c.terms = arena_array(w->arena, Hoisting, stage->terms.count + 1);
    for (int i = 0; i < stage->n_dims; i++)
        if (stage->dims[i] == stage->lanes) {
            c.lanes_level = i;
            c.width = machine_lanes(w->machine, sizeof(float));
        }
    for (uint32_t i = 0; i < stage->terms.count; i++) {
        c.terms[i] = term_hoisting(&c, &stage->terms.at[i]);
        count_term(&c, &stage->terms.at[i], c.terms[i]);
    }
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        count_sink(&c, &stage->sinks.at[i]);
    return COMPUTE_ENTRY + LOOP_ENTRY * loop_entries(&c) +
           larger(larger(c.ops, c.ports), c.latency) +
           (forwarding_stalls(&w->forwarding, stage) ? FORWARDING_STALL : 0);
}

// Measured: all elements are compared with the worst that is kept; a few times as many as are kept
// are sorted.
double cost_order_cycles(const Walk *w, const Stage *stage) {
    static const double ROW = 500, COMPARED = 1.2, SORTED = 10, SORTED_BYTE = 4;
    static const double TRIED = 4, TRIED_LEAST = 128;
    double points = w->length[stage->along], rows = 1;
    for (int i = 0; i < stage->n_dims; i++) {
        TileDimId dim = stage->dims[i];
        if (dim != stage->along && dim != stage->places)
            rows *= w->length[dim];
    }
    double sorted = lesser(larger(TRIED * w->length[stage->places], TRIED_LEAST), points);
    size_t bytes = elem_bytes(w->kernel->buffers.at[stage->a.buffer].elem);
    return rows * (ROW + COMPARED * points + sorted * (SORTED + SORTED_BYTE * (double)bytes));
}
