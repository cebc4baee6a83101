// SPDX-License-Identifier: Apache-2.0
// What is chosen for each place of a nest: the rows of a run, and the blocks of a contraction
// stage. Each place has a default and others that are not far from it.
//
// The default block of rows x vectors is the one whose calls take the fewest cycles by the cost
// model, and by what they wait for.
// A long sum goes in pieces whose block of b may stay in cache for all blocks of rows, as long as
// what it is summed into stays in L1 meanwhile.
#include <math.h>

#include "tile/lower/nest.h"
#include "tile/schedule/schedule.h"

// ---- rows of a run -----------------------------------------------------------------------------

// Bytes of what one row of a run touches in scratch.
static double row_bytes(const Nest *nest, uint32_t run) {
    double bytes = 0;
    for (uint32_t i = 0; i < nest->members.count; i++) {
        const Member *m = &nest->members.at[i];
        if (!m->stored || m->first_run > run || m->last_run < run)
            continue;
        double volume = elem_bytes(elem_work(m->value->elem));
        DimSet dims = lower_dim_set(nest->lower, &m->value->dims) & ~nest->rows;
        for (TileDimId d = 0; d < nest->lower->kernel->dims.count; d++)
            volume *= set_has(dims, d) ? (double)nest_length(nest, d) : 1;
        bytes += volume;
    }
    return bytes;
}

// When the lanes run along a row dim, a block is a few vectors of them.
RowBlocks nest_row_blocks(const Nest *nest, uint32_t run, int32_t most) {
    const Machine *machine = nest->lower->machine;
    bool lanes = nest->lanes != TILE_DIM_NONE && nest->lanes == nest->block_dim;
    int32_t unit = lanes ? machine->vector_bytes / 4 : 1;
    most = lanes ? 4 * unit : most;
    double fits = (double)machine->l1_bytes / 2 / (row_bytes(nest, run) + 1);
    int32_t kept = fits >= most ? most : fits > 1 && !lanes ? (int32_t)fits : unit;
    return (RowBlocks){.kept = kept, .least = unit, .most = most};
}

int64_t nest_block(const Nest *nest, uint32_t run) {
    enum { ROWS_MAX = 16 }; // chosen
    RowBlocks rows = nest_row_blocks(nest, run, ROWS_MAX);
    int32_t blocks[ROW_BLOCKS_MAX];
    int count = schedule_row_blocks(&rows, blocks);
    StageBlocksList choices = {0};
    for (int i = 0; i < count; i++)
        vec_push(nest->lower->arena, &choices, (StageBlocks){.rows = blocks[i]});
    return lower_blocks(nest->lower, &choices).rows;
}

// ---- contraction stages ------------------------------------------------------------------------

// Blocks that are predicted to take so much longer than the default are no choice.
static const double NEAR = 1.25;
// Cycles of a call beside those in L1: for each vector of b that it begins with; and for each row
// of sums over the rows of all tasks, which lie in L2 or further away, as far as a machine waits
// for what lies apart. Measured on an Intel Xeon (6.167.1): 12 heads mixed in blocks of 6 x 64 take
// 4% longer than in 12 x 32, gradients by keys and values of 64 lanes 7 to 15% less.
static const double FIRST_LINE = 1.5, ROW_OF_SUMS = 10;
enum { DIVISIONS = 3 }; // numbers of blocks that rows are tried to be divided into

// First the default is searched for, then what is near to it.
typedef struct {
    const Nest *nest;
    const ContractRoles *roles;
    int width;             // lanes of a vector
    double best;           // cycles of the default; 0: there is none yet
    bool near;             // the default is known
    StageBlocksList found; // the default first
} BlockSearch;

static void offer_block(BlockSearch *s, StageBlocks blocks, double cycles) {
    Arena *arena = s->nest->lower->arena;
    if (!s->near && (s->best == 0 || cycles < s->best)) {
        s->best = cycles;
        s->found.count = 0;
        vec_push(arena, &s->found, blocks);
    } else if (s->near && cycles <= NEAR * s->best &&
               !schedule_same_blocks(&blocks, &s->found.at[0])) {
        vec_push(arena, &s->found, blocks);
    }
}

static int64_t volume_of(const Nest *nest, DimSet dims) {
    int64_t volume = 1;
    for (TileDimId d = 0; d < nest->lower->kernel->dims.count; d++)
        volume = mul_capped(volume, set_has(dims, d) ? nest_length(nest, d) : 1);
    return volume;
}

static double block_cycles(const Nest *nest, const ContractRoles *r, int64_t rows, int64_t vectors,
                           int width) {
    int64_t all = r->rows == TILE_DIM_NONE ? 1 : nest_length(nest, r->rows);
    double k = (double)volume_of(nest, r->summed), n = (double)vectors;
    double lane_blocks = (double)ceil_div(nest_length(nest, r->lanes), vectors * width);
    const Machine *machine = nest->lower->machine;
    double calls = (double)ceil_div(all, rows), whole = (double)(all / rows);
    double cycles = whole * tile_block_cycles(machine, (double)rows, n, k) +
                    tile_block_cycles(machine, (double)(all % rows), n, k) + calls * n * FIRST_LINE;
    if (r->summed & nest->rows)
        cycles += calls * (double)rows * ROW_OF_SUMS * machine->scattered_exposed;
    return cycles * lane_blocks;
}

static int panel_width_of(const Nest *nest, const Value *operand) {
    Access access;
    if (!terms_plain_access(nest->lower, operand, &access) ||
        access_panel_dim(nest->lower->kernel, &access) == TILE_DIM_NONE)
        return 0;
    return nest->lower->kernel->buffers.at[access.buffer].panel_width;
}

static void offer_blocks(BlockSearch *s) {
    const ContractRoles *r = s->roles;
    const Machine *machine = s->nest->lower->machine;
    int width = s->width, panel = panel_width_of(s->nest, r->b);
    int64_t rows = r->rows == TILE_DIM_NONE ? 1 : nest_length(s->nest, r->rows), before = 0;
    for (int vectors = 1; vectors <= 4; vectors++) {
        if (panel ? panel % (vectors * width)
                  : (vectors - 1) * width >= nest_length(s->nest, r->lanes))
            continue;
        int most = machine_block_rows(machine, vectors, false);
        most = most > machine->rows_unpacked ? machine->rows_unpacked : most < 1 ? 1 : most;
        int64_t fewest = ceil_div(rows, most);
        for (int64_t n = fewest; n < fewest + (s->near ? DIVISIONS : 1) && n <= rows; n++) {
            StageBlocks blocks = {.rows = (int32_t)ceil_div(rows, n), .lanes = vectors * width};
            if (n == fewest || blocks.rows != before)
                offer_block(s, blocks, block_cycles(s->nest, r, blocks.rows, vectors, width));
            before = blocks.rows;
        }
    }
    if (s->best == 0)
        ice("tile lower: panels of %d fit no block of the microkernel", panel);
}

// Vectors of shared lanes that a block of so many sums wants, as panels allow.
static int choose_vectors(const int panels[2], int64_t sums, int width) {
    int vectors = 1;
    while (sums * vectors < SUMS_IN_FLIGHT && panels[0] % (2 * vectors * width) == 0 &&
           panels[1] % (2 * vectors * width) == 0)
        vectors *= 2;
    return vectors;
}

// Blocks of rows x cols sums that stay in registers, with as few loads for each as may be.
static void offer_common_blocks(BlockSearch *s) {
    const ContractRoles *r = s->roles;
    int most = s->nest->lower->machine->vector_registers;
    int panels[] = {panel_width_of(s->nest, r->a), panel_width_of(s->nest, r->b)};
    int64_t rows = nest_length(s->nest, r->rows);
    bool dots = roles_are_dots(r); // added up across a vector full at a time
    int64_t cols = dots ? 1 : nest_length(s->nest, r->cols);
    rows = dots && rows > s->width ? s->width : rows;
    for (int64_t i = 1; i <= rows && i < most; i++)
        for (int64_t k = 1; k <= cols && i * k + k + 1 < most; k++) {
            double blocks = (double)ceil_div(rows, i) * (double)ceil_div(cols, k);
            StageBlocks found = {.rows = (int32_t)i, .cols = (int32_t)k};
            if (roles_share_lanes(r))
                found.lanes = s->width * choose_vectors(panels, i * k, s->width);
            offer_block(s, found, blocks * (double)(i * k + i + k));
        }
}

static void search_blocks(BlockSearch *s) {
    if (set_has(s->roles->own_b, s->roles->lanes))
        offer_blocks(s);
    else
        offer_common_blocks(s);
}

// Of the longest summed dim, by default.
static int64_t sum_piece(const BlockSearch *s, size_t elem_size, StageBlocks blocks) {
    const ContractRoles *r = s->roles;
    int64_t elem = (int64_t)elem_size, l1_bytes = s->nest->lower->machine->l1_bytes;
    int64_t block = mul_capped(elem * blocks.lanes, volume_of(s->nest, r->summed));
    int64_t result = mul_capped(elem, volume_of(s->nest, r->own_a | r->own_b));
    if (block <= ASKED_BYTES_MAX || result > l1_bytes / 2)
        return 0;
    int64_t pieces = ceil_div(block, ASKED_BYTES_MAX);
    int64_t length = nest_length(s->nest, roles_longest_sum(s->nest, r));
    return pieces * s->width > length ? 0 : round_up(ceil_div(length, pieces), s->width);
}

static void offer_sums(BlockSearch *s, size_t elem_size) {
    StageBlocks other = s->found.at[0];
    int64_t length = nest_length(s->nest, roles_longest_sum(s->nest, s->roles));
    for (uint32_t i = 0; i < s->found.count; i++)
        s->found.at[i].sum = sum_piece(s, elem_size, s->found.at[i]);
    if (!s->near)
        return;
    int64_t own = s->found.at[0].sum, half = round_up((own ? own : length) / 2, s->width);
    if (own)
        vec_push(s->nest->lower->arena, &s->found, other);
    other.sum = half;
    if (half && half < length && half != own)
        vec_push(s->nest->lower->arena, &s->found, other);
}

static StageBlocksList blocks_of(const Nest *nest, const Member *member) {
    size_t elem_size = elem_bytes(elem_work(member->value->elem));
    BlockSearch s = {.nest = nest, .roles = &member->roles};
    s.width = machine_lanes(nest->lower->machine, elem_size);
    search_blocks(&s);
    const Schedule *wanted = nest->lower->wanted; // of which more than the default may be known
    s.near = (wanted && wanted->blocks.count) || nest->lower->request->wish.choose;
    if (s.near)
        search_blocks(&s);
    if (set_has(s.roles->own_b, s.roles->lanes))
        offer_sums(&s, elem_size);
    return s.found;
}

// What has panels wants blocks that divide them: to be called before any home is made.
void nest_choose_blocks(Nest *nest) {
    for (uint32_t i = 0; i < nest->stages.count; i++) {
        Member *member = nest->stages.at[nest->sequence[i]].contraction;
        if (!member)
            continue;
        StageBlocksList choices = blocks_of(nest, member);
        member->blocks = lower_blocks(nest->lower, &choices);
    }
}
