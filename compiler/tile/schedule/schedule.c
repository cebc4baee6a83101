// SPDX-License-Identifier: Apache-2.0
// Default schedules: how a nest is cut into tasks, and the numbers of a contraction kernel.
//
// A contraction is blocked as in Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (2008): a microkernel of rows x lanes accumulators, a panel of b of block_k x
// lanes in L1, a block of packed b in L2. The numbers come from a search over a few hundred
// candidates with the cost model below; sizes never depend on the number of threads, so results do
// not either.
#include "tile/lower/lower.h"

#include <math.h>

static const double task_seconds = 40e-6; // worth handing to a thread

// Measured on 512 x 768 x 3072 and 4096 x 768 x 768: a block of packed b of a quarter of L2 leaves
// room for the tile of c and the rows of a that pass through L2 beside it (88 to 91% of the peak;
// an eighth, which reads the rows more often, 83 to 89%).
enum {
    TASKS_MAX = 64,
    TASKS_WANTED = 8,
    BLOCK_K_MIN = 128,
    BLOCK_K_MAX = 384,
    BLOCK_SHARE = 4,
    CROSSING_SHARE = 2
};

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t unit) {
    return ceil_div(a, unit) * unit;
}

// The piece when `extent` is cut into equal parts of at most `most`, in multiples of unit.
static int64_t equal_piece(int64_t extent, int64_t most, int64_t unit) {
    if (most >= extent)
        return extent;
    return round_up(ceil_div(extent, ceil_div(extent, most)), unit);
}

int64_t schedule_chunk(double seconds, int64_t points) {
    double tasks = seconds / task_seconds;
    tasks = tasks < 1 ? 1 : tasks > TASKS_MAX ? TASKS_MAX : tasks;
    int64_t chunk = (int64_t)ceil((double)points / floor(tasks));
    return chunk < 1 ? 1 : chunk;
}

void schedule_pieces(const TileDimList *dims, const int64_t *typical, int64_t chunk,
                     int64_t *steps) {
    for (int i = dims->count; i-- > 0;) {
        int64_t extent = typical[dims->at[i]];
        steps[i] = equal_piece(extent, chunk, i == dims->count - 1 ? 16 : 1);
        chunk = chunk > extent ? chunk / extent : 1;
    }
}

// ---- contraction ----

typedef struct {
    const ContractShape *shape;
    const Machine *machine;
    double cycle; // seconds
    int width;    // lanes of a vector
} Search;

// Most rows of a microkernel with this many vectors: accumulators, one vector of b each and a splat
// of a must stay in registers.
static int rows_that_fit(const Search *m, int vectors, bool packed) {
    int rows = (m->machine->vector_registers - 2 - vectors) / vectors;
    int most = packed ? m->machine->rows_packed : m->machine->rows_unpacked;
    rows = rows > most ? most : rows;
    return rows < 1 ? 1 : rows;
}

// Cycles of all microkernel calls: multiply-adds two a cycle, or loads two a cycle, or the latency
// of too few accumulators; and reading and writing the tile of c once per block of k.
static double compute_cycles(const Search *m, const ContractSchedule *s) {
    const ContractShape *shape = m->shape;
    int vectors = s->lane_block / m->width;
    double row_blocks = (double)ceil_div(shape->main_rows, s->row_block);
    double rows = (double)shape->main_rows / row_blocks; // on average, per block
    double panels = (double)ceil_div(shape->main_lanes, s->lane_block);
    double calls = row_blocks * panels * ((double)shape->rows / (double)shape->main_rows) *
                   ((double)shape->lanes / (double)shape->main_lanes) * (double)shape->batch;
    double step = fmax(fmax(rows * vectors, rows + vectors) / 2, 4);
    double tile = 2 * rows * vectors + 24;
    return calls * ((double)shape->k * step + (double)ceil_div(shape->k, s->block_k) * tile);
}

// Cycles of packing, and of what operands in place cost instead: short runs at long strides.
static double operand_cycles(const Search *m, const ContractSchedule *s) {
    const ContractShape *shape = m->shape;
    double per_vector = 16.0 / m->width;
    double a = (double)shape->batch * (double)shape->rows * (double)shape->k;
    double b = (double)shape->batch * (double)shape->lanes * (double)shape->k;
    double row_tasks = (double)ceil_div(shape->rows, s->task_rows);
    double lane_tasks = (double)ceil_div(shape->lanes, s->task_lanes);
    double cycles = 0;
    if (s->pack_a)
        cycles += a * lane_tasks * (shape->a_k_contiguous ? 0.3 : 0.5) * per_vector;
    else if (!shape->a_k_contiguous)
        cycles += a * (double)ceil_div(shape->lanes, s->lane_block) * 0.15;
    if (s->pack_b)
        cycles += b * row_tasks * (shape->b_lanes_contiguous ? 0.25 : 1.5) * per_vector;
    else
        cycles += b * (double)ceil_div(shape->rows, s->row_block) * (shape->k > 64 ? 0.03 : 0.01) *
                  per_vector;
    double bytes = (double)shape->elem_bytes;
    double reread = (a * lane_tasks + b * row_tasks) * bytes / m->machine->l3_bytes_per_second;
    double tile = (double)shape->batch * (double)shape->rows * (double)shape->lanes * 2 * bytes *
                  (double)ceil_div(shape->k, s->block_k) / m->machine->l2_bytes_per_second;
    return cycles + 0.3 * (reread + tile) / m->cycle;
}

static double tasks_of(const ContractShape *shape, const ContractSchedule *s) {
    return (double)ceil_div(shape->batch, s->task_batch) *
           (double)ceil_div(shape->rows, s->task_rows) *
           (double)ceil_div(shape->lanes, s->task_lanes);
}

// Fills in the seconds: one thread's time, made worse when there are fewer tasks than are worth
// having.
static void predict(const Search *m, ContractSchedule *s) {
    double seconds = (compute_cycles(m, s) + operand_cycles(m, s)) * m->cycle;
    double tasks = tasks_of(m->shape, s);
    double wanted = fmin(fmax(seconds / task_seconds, 1), TASKS_WANTED);
    s->seconds = seconds + tasks * 2e-6;
    if (tasks < wanted)
        s->seconds *= sqrt(wanted / tasks);
}

static int64_t choose_block_k(const Search *m, int32_t lane_block) {
    int64_t most = m->machine->l1_bytes * 2 / 3 / (lane_block * (int64_t)m->shape->elem_bytes);
    most = most < BLOCK_K_MIN ? BLOCK_K_MIN : most > BLOCK_K_MAX ? BLOCK_K_MAX : most;
    return equal_piece(m->shape->k, most / 8 * 8, 8);
}

// An operand in place that is read once has nothing to gain from blocks of k.
static bool reads_once(const ContractShape *shape, const ContractSchedule *s) {
    return !s->pack_b && shape->rows <= s->row_block;
}

// Rows of a that stay in L2 beside the block of b; a loop over less costs more than it saves.
static int64_t choose_block_rows(const Search *m, const ContractSchedule *s) {
    int64_t bytes = s->block_k * (int64_t)m->shape->elem_bytes;
    int64_t most = m->machine->l2_bytes * 5 / 8 / bytes / s->row_block * s->row_block;
    most = most < s->row_block ? s->row_block : most;
    int64_t rows = s->task_rows < m->shape->main_rows ? s->task_rows : m->shape->main_rows;
    return equal_piece(rows, most, s->row_block);
}

// Bytes that a block of packed b may have.
static int64_t block_room(const Search *m) {
    return m->machine->l2_bytes / (m->shape->b_crossing ? CROSSING_SHARE : BLOCK_SHARE);
}

static bool block_fits(const Search *m, const ContractSchedule *s) {
    int64_t lanes = s->task_lanes > s->lane_block ? s->task_lanes : s->lane_block;
    return !s->pack_b || lanes == s->lane_block ||
           s->block_k * lanes * (int64_t)m->shape->elem_bytes <= block_room(m);
}

static void try_tasks(const Search *m, ContractSchedule s, ContractSchedule *best) {
    if (!block_fits(m, &s))
        return;
    s.task_batch = 1;
    predict(m, &s);
    double one = s.seconds / (double)m->shape->batch;
    bool whole = s.task_rows >= m->shape->rows && s.task_lanes >= m->shape->lanes;
    if (whole && one < task_seconds) {
        s.task_batch = equal_piece(m->shape->batch, (int64_t)(task_seconds / one), 1);
        predict(m, &s);
    }
    if (best->seconds == 0 || s.seconds < best->seconds)
        *best = s;
}

// All ways to cut rows and lanes for one microkernel and one choice of packing. Lanes are cut at
// least so far that a block of packed b fits.
static void search_tasks(const Search *m, ContractSchedule s, ContractSchedule *best) {
    static const int64_t parts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    const ContractShape *shape = m->shape;
    int64_t room = block_room(m) / (s.block_k * (int64_t)shape->elem_bytes);
    room = room < s.lane_block ? s.lane_block : room / s.lane_block * s.lane_block;
    int64_t least = s.pack_b ? ceil_div(shape->lanes, room) : 1;
    for (int r = 0; r < N_PARTS; r++) {
        s.task_rows = equal_piece(shape->rows, ceil_div(shape->rows, parts[r]), s.row_block);
        for (int l = 0; l < N_PARTS; l++) {
            int64_t cuts = parts[l] < least ? least : parts[l];
            if (parts[r] * parts[l] > TASKS_MAX)
                break;
            s.task_lanes = equal_piece(shape->lanes, ceil_div(shape->lanes, cuts), s.lane_block);
            if (cuts == least && s.task_lanes > room)
                s.task_lanes = room;
            try_tasks(m, s, best);
        }
    }
}

static void search_microkernels(const Search *m, bool pack_a, bool pack_b, ContractSchedule *best) {
    const ContractShape *shape = m->shape;
    for (int vectors = 1; vectors <= 4; vectors++) {
        if ((vectors - 1) * m->width >= shape->main_lanes)
            break;
        int64_t most = rows_that_fit(m, vectors, pack_a);
        ContractSchedule s = {.pack_a = pack_a, .pack_b = pack_b};
        s.row_block = (int32_t)ceil_div(shape->main_rows, ceil_div(shape->main_rows, most));
        s.lane_block = vectors * m->width;
        s.block_k = reads_once(shape, &s) ? shape->k : choose_block_k(m, s.lane_block);
        search_tasks(m, s, best);
    }
}

ContractSchedule schedule_contract(const ContractShape *shape, const Machine *machine) {
    Search m = {.shape = shape,
                .machine = machine,
                .width = machine->vector_bytes / (int)shape->elem_bytes};
    m.cycle = 4 * m.width / machine->flops_per_second * (shape->elem_bytes == 8 ? 2 : 1);
    ContractSchedule best = {0};
    for (int pack = 0; pack < 4; pack++) {
        bool pack_a = pack & 1, pack_b = pack & 2;
        if ((pack_a || shape->a_in_place) && (pack_b || shape->b_in_place))
            search_microkernels(&m, pack_a, pack_b, &best);
    }
    if (best.seconds == 0)
        ice("schedule: no blocks for %ld x %ld x %ld", (long)shape->rows, (long)shape->lanes,
            (long)shape->k);
    best.block_rows = choose_block_rows(&m, &best);
    return best;
}
