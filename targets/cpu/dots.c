// SPDX-License-Identifier: Apache-2.0
// Contraction stages that sum over their lanes: c[row, col] += sum of a[row, lane] * b[col, lane].
//
// The lanes are the innermost of the summed dims, by vectors: a vector of sums per row and column.
// Few sums are split into sets of them, over the steps along the lanes.
//
// The vectors of sums are added up across at the end, many at once: two of them become one that
// holds half as many terms of each, and so on. What is missing of the last vector is masked.
#include "cpu/blocks.h"

// The element of an access that is `steps` along dim from where it stands.
static LLVMValueRef element_of(Blocks *d, const CpuAccess *access, TileDimId dim, int steps) {
    LLVMValueRef by = index_const(d->m, 0);
    if (dim != TILE_DIM_NONE)
        by =
            index_mul(d->m, cpu_access_stride(d->k, access->access, dim), index_const(d->m, steps));
    return emit_element(d->m, access->buffer->elem, access->memory->base,
                        index_add(d->m, access->offset, by));
}

// ---- the sums ----------------------------------------------------------------------------------

static EmitValue load_vector(Blocks *d, const CpuAccess *access, LLVMValueRef from, LLVMValueRef at,
                             LLVMValueRef mask) {
    Elem elem = access->buffer->elem;
    EmitValue value =
        emit_load_masked(d->m, elem, d->width, emit_element(d->m, elem, from, at), mask, 0);
    value.elem = d->elem; // a half is an f32 in registers
    return value;
}

// The products of the vectors at `at`, for one set of sums.
static void multiply(Blocks *d, LLVMValueRef *a, LLVMValueRef *b, LLVMValueRef at,
                     LLVMValueRef mask, LLVMValueRef *sum) {
    EmitValue row[BLOCK_MAX], col[BLOCK_MAX];
    for (int j = 0; j < d->cols; j++)
        col[j] = load_vector(d, &d->b, b[j], at, mask);
    for (int i = 0; i < d->rows; i++)
        row[i] = load_vector(d, &d->a, a[i], at, mask);
    blocks_multiply(d, row, col, sum);
}

static void emit_whole_vectors(Blocks *d, LLVMValueRef *a, LLVMValueRef *b, LLVMValueRef count) {
    EmitModule *m = d->m;
    EmitLoop loop;
    LLVMValueRef by = index_const(m, (int64_t)d->sets * d->width);
    emit_loop_open(m, &loop, index_const(m, 0), count, by, false, d->sum, blocks_sums(d));
    for (uint32_t i = 0; i < blocks_sums(d); i++)
        d->sum[i] = loop.carried[i];
    for (int set = 0; set < d->sets; set++)
        multiply(d, a, b, index_add(m, loop.at, index_const(m, (int64_t)set * d->width)), NULL,
                 d->sum + set * d->rows * d->cols);
    emit_loop_close(m, &loop, d->sum, d->sum);
}

static void emit_other_vectors(Blocks *d, LLVMValueRef *a, LLVMValueRef *b, LLVMValueRef from,
                               LLVMValueRef to) {
    EmitModule *m = d->m;
    EmitLoop loop;
    uint32_t n = (uint32_t)(d->rows * d->cols);
    emit_loop_open(m, &loop, from, to, index_const(m, d->width), false, d->sum, n);
    for (uint32_t i = 0; i < n; i++)
        d->sum[i] = loop.carried[i];
    LLVMValueRef mask = emit_first_lanes(m, index_sub(m, to, loop.at), d->width);
    multiply(d, a, b, loop.at, mask, d->sum);
    emit_loop_close(m, &loop, d->sum, d->sum);
}

static void emit_lanes(Blocks *d) {
    EmitModule *m = d->m;
    const Stage *stage = d->stage;
    const CpuRange *range = &d->k->range[stage->lanes];
    LLVMValueRef a[BLOCK_MAX], b[BLOCK_MAX];
    BlockOffsets saved = blocks_save(d);
    int64_t length, chunk = (int64_t)d->sets * d->width;
    blocks_enter(d, stage->lanes, range->lo);
    for (int i = 0; i < d->rows; i++)
        a[i] = element_of(d, &d->a, stage->rows, i);
    for (int j = 0; j < d->cols; j++)
        b[j] = element_of(d, &d->b, stage->cols, j);
    LLVMValueRef whole = index_sub(m, range->len, index_rem(m, range->len, chunk));
    bool known = index_known(range->len, &length);
    if (!known || length >= chunk)
        emit_whole_vectors(d, a, b, whole);
    if (!known || length % chunk)
        emit_other_vectors(d, a, b, whole, range->len);
    blocks_restore(d, saved);
}

// ---- across ------------------------------------------------------------------------------------

// Two vectors whose numbers are in groups of `group` neighbours, each to be added up, become one of
// groups half as long: those of u, then those of v, within every `span` lanes.
static EmitValue halved(Blocks *d, EmitValue u, EmitValue v, int group, int span) {
    EmitModule *m = d->m;
    int half = group / 2, low[LANES_MAX], high[LANES_MAX];
    for (int lane = 0; lane < d->width; lane++) {
        int within = lane % span, from_v = within >= span / 2;
        int nth = within % (span / 2) / half; // group of u or v in the span
        int at = lane / span * span + nth * group + lane % half + from_v * d->width;
        low[lane] = at;
        high[lane] = at + half;
    }
    EmitValue x = emit_shuffle(m, u, v, low, d->width);
    return emit_add(m, x, emit_shuffle(m, u, v, high, d->width));
}

// One vector from n, a power of two.
static EmitValue merged(Blocks *d, EmitValue *vectors, int n, int group, int span) {
    for (; n > 1; n /= 2, group /= 2)
        for (int i = 0; i < n / 2; i++)
            vectors[i] = halved(d, vectors[2 * i], vectors[2 * i + 1], group, span);
    return vectors[0];
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

// Lanes of 16 bytes: instructions that move numbers across them are fewer and slower.
static int quarter_of(const Blocks *d) {
    return 16 / (int)elem_bytes(d->elem);
}

// The sums of rows from `row` on, one per 16 bytes, and of columns from `col` on in these. Of what
// the block lacks something else is there.
static EmitValue add_across(Blocks *d, int row, int col) {
    int quarter = quarter_of(d), n_rows = d->width / quarter;
    EmitValue cols[4], rows[4];
    for (int j = 0; j < quarter; j++) {
        for (int i = 0; i < n_rows; i++) {
            int at = smaller(row + i, d->rows - 1) * d->cols + smaller(col + j, d->cols - 1);
            rows[i] = (EmitValue){d->sum[at], d->elem, d->width};
        }
        cols[j] = merged(d, rows, n_rows, d->width, d->width);
    }
    return merged(d, cols, quarter, quarter, quarter);
}

static EmitValue lanes_of(Blocks *d, EmitValue vector, int from, int n) {
    int picks[4];
    for (int i = 0; i < n; i++)
        picks[i] = from + i;
    return emit_shuffle(d->m, vector, vector, picks, n);
}

static void put(Blocks *d, EmitValue value, LLVMValueRef at, LLVMValueRef first) {
    if (first) {
        EmitValue both = emit_add(d->m, emit_load(d->m, d->elem, value.lanes, at), value);
        value = cpu_never(first) ? both : emit_select(d->m, first, value, both);
    }
    emit_store(d->m, value, at);
}

static void store_row(Blocks *d, EmitValue sums, int from, int row, int col, LLVMValueRef first) {
    TileDimId cols = d->stage->cols;
    int n = smaller(quarter_of(d), d->cols - col);
    CpuAccess c = d->c;
    if (d->stage->rows != TILE_DIM_NONE) {
        LLVMValueRef stride = cpu_access_stride(d->k, c.access, d->stage->rows);
        LLVMValueRef by = index_mul(d->m, stride, index_const(d->m, row));
        c.offset = index_add(d->m, c.offset, by);
    }
    int64_t stride = 0;
    if (cols == TILE_DIM_NONE ||
        (index_known(cpu_access_stride(d->k, c.access, cols), &stride) && stride == 1)) {
        put(d, lanes_of(d, sums, from, n), element_of(d, &c, cols, col), first);
        return;
    }
    for (int j = 0; j < n; j++)
        put(d, lanes_of(d, sums, from + j, 1), element_of(d, &c, cols, col + j), first);
}

static void store_block(Blocks *d) {
    EmitModule *m = d->m;
    int n = d->rows * d->cols, quarter = quarter_of(d), n_rows = d->width / quarter;
    for (int half = d->sets / 2; half >= 1; half /= 2)
        for (int i = 0; i < n * half; i++) {
            EmitValue x = {d->sum[i], d->elem, d->width},
                      y = {d->sum[i + n * half], d->elem, d->width};
            d->sum[i] = emit_add(m, x, y).ref;
        }
    TileDimList entered = {0};
    LLVMValueRef first = cpu_first(d->k, &d->stage->c, &entered);
    for (int row = 0; row < d->rows; row += n_rows)
        for (int col = 0; col < d->cols; col += quarter) {
            EmitValue sums = add_across(d, row, col);
            for (int i = 0; i < n_rows && row + i < d->rows; i++)
                store_row(d, sums, i * quarter, row + i, col, first);
        }
}

static void emit_one_block(Blocks *d) {
    d->sets = 1;
    while (d->sets * d->rows * d->cols * 2 <= SUMS_IN_FLIGHT)
        d->sets *= 2;
    blocks_emit_summed(d);
    store_block(d);
}

void cpu_emit_dots(CpuKernel *k, const Stage *stage) {
    Blocks d;
    blocks_open(&d, k, stage, TILE_DIM_NONE);
    d.block = emit_one_block;
    d.innermost = emit_lanes;
    blocks_over_batch(&d, blocks_over_rows);
}
