// SPDX-License-Identifier: Apache-2.0
// Loads that a compute stage makes across its lanes, see stage_crosses: of a block of as many
// positions as a vector has lanes, whole vectors are read along the contiguous dim, transposed in
// registers and kept on the stack, from where each position takes its own.
//
// A strided load for each vector reads one element of a line, and comes back to the line for the
// next position: where rows are a large power of two apart, they share so few places of L1 that it
// is not there any more.
#include "cpu/compute.h"

// Elements of 16 bytes: few instructions move numbers from one such part of a vector to another.
enum { QUAD = 4, QUADS_MAX = 4 };

bool compute_crosses(const Compute *c, const CpuAccess *access) {
    return access->kind == LANES_STRIDED && c->width >= QUAD && c->width <= QUAD * QUADS_MAX &&
           stage_crosses(c->k->kernel, c->stage, access->access);
}

// Halves are f32 in registers, and so they are kept.
static Elem kept_elem(Elem elem) {
    return elem == ELEM_I32 ? ELEM_I32 : ELEM_F32;
}

static int64_t block_elements(const Compute *c) {
    return (int64_t)c->width * c->width;
}

// Where a block has vector u of the position `at` of it.
static LLVMValueRef place_in(Compute *c, const TermState *state, int u, LLVMValueRef at) {
    EmitModule *m = c->m;
    LLVMValueRef offset = index_mul(m, at, index_const(m, c->width));
    offset = index_add(m, offset, index_const(m, u * block_elements(c)));
    return emit_element(m, ELEM_F32, state->block, offset);
}

// ---- transposing -------------------------------------------------------------------------------

// What of a block exists, where that is not certain (with masks it takes as long). Rows may be none
// or less, where a panel's end is filled up: what is read then lies before the block and is not
// used.
typedef struct {
    LLVMValueRef rows, positions; // NULL: as many as a vector has lanes
} Part;

// Two vectors as the low and the high halves of their quads, taken in turn in groups of `group`
// neighbours.
static void interleave(EmitModule *m, EmitValue *a, EmitValue *b, int group) {
    int low[LANES_MAX], high[LANES_MAX], width = a->lanes;
    for (int i = 0; i < width; i++) {
        int within = i % QUAD, from_b = within / group % 2 * width;
        low[i] = i - within + within / (2 * group) * group + within % group + from_b;
        high[i] = low[i] + QUAD / 2;
    }
    EmitValue both = emit_shuffle(m, *a, *b, low, width);
    *b = emit_shuffle(m, *a, *b, high, width);
    *a = both;
}

// Two vectors as their quads of even and of odd number, a's before b's.
static void sort_quads(EmitModule *m, EmitValue *a, EmitValue *b) {
    int even[LANES_MAX], odd[LANES_MAX], width = a->lanes;
    for (int i = 0; i < width; i++) {
        even[i] = i / QUAD * 2 * QUAD + i % QUAD;
        odd[i] = even[i] + QUAD;
    }
    EmitValue both = emit_shuffle(m, *a, *b, even, width);
    *b = emit_shuffle(m, *a, *b, odd, width);
    *a = both;
}

typedef struct {
    EmitModule *m;
    Elem elem;
    int width;
    LLVMValueRef from, stride, to; // to: the block, vector by vector
    Part part;
} Transposer;

// Asks for what a later block has of the row: hardware does not follow as many rows as there are.
// Rows that do not exist are the last one that does.
static EmitValue load_row(const Transposer *t, int row, LLVMValueRef mask) {
    enum { BLOCKS_AHEAD = 4 };
    EmitModule *m = t->m;
    LLVMValueRef number = index_const(m, row);
    if (t->part.rows)
        number = index_min(m, number, index_sub(m, t->part.rows, index_const(m, 1)));
    LLVMValueRef at = emit_element(m, t->elem, t->from, index_mul(m, number, t->stride));
    LLVMValueRef later = index_const(m, BLOCKS_AHEAD * t->width);
    emit_prefetch(m, emit_element(m, t->elem, at, later), EMIT_TO_READ);
    EmitValue value = emit_load_masked(m, t->elem, t->width, at, mask, 0);
    value.elem = kept_elem(t->elem);
    return value;
}

// Of four rows from one on, quads of four columns: quad l of columns[i] is their column 4 l + i.
static void mix_rows(const Transposer *t, int first, LLVMValueRef mask, EmitValue *columns) {
    EmitModule *m = t->m;
    EmitValue r[QUAD];
    for (int i = 0; i < QUAD; i++)
        r[i] = load_row(t, first + i, mask);
    interleave(m, &r[0], &r[1], 1);
    interleave(m, &r[2], &r[3], 1);
    interleave(m, &r[0], &r[2], 2);
    interleave(m, &r[1], &r[3], 2);
    columns[0] = r[0];
    columns[1] = r[2];
    columns[2] = r[1];
    columns[3] = r[3];
}

// The quads of one column come together. r: what each four rows have of it and of those that are
// multiples of four columns away.
static void gather_columns(const Transposer *t, int first, EmitValue *r) {
    EmitModule *m = t->m;
    int n_quads = t->width / QUAD;
    for (int s = 1; s < n_quads; s *= 2)
        for (int q = 0; q < n_quads; q++)
            if (!(q & s))
                sort_quads(m, &r[q], &r[q + s]);
    for (int q = 0; q < n_quads; q++) {
        LLVMValueRef offset = index_const(m, (int64_t)(q * QUAD + first) * t->width);
        emit_store(m, r[q], emit_element(m, ELEM_F32, t->to, offset));
    }
}

static void transpose(const Transposer *t) {
    EmitModule *m = t->m;
    int n_quads = t->width / QUAD;
    LLVMValueRef mask = t->part.positions ? emit_first_lanes(m, t->part.positions, t->width) : NULL;
    EmitValue of_rows[QUADS_MAX][QUAD];
    for (int q = 0; q < n_quads; q++)
        mix_rows(t, q * QUAD, mask, of_rows[q]);
    for (int i = 0; i < QUAD; i++) {
        EmitValue r[QUADS_MAX];
        for (int q = 0; q < n_quads; q++)
            r[q] = of_rows[q][i];
        gather_columns(t, i, r);
    }
}

// A function that transposes a block: (from, elements from row to row, to, rows, positions); one
// for whole blocks and one for others.
static LLVMValueRef transposer(EmitModule *m, Elem elem, int width, bool whole) {
    const char *name = arena_printf(m->arena, "transpose_%s%s%s", elem_name(elem),
                                    whole ? "" : "_part", m->no_prefetch ? "_unasked" : "");
    LLVMValueRef function = LLVMGetNamedFunction(m->module, name);
    if (function)
        return function;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(m->context, 0);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(m->context);
    LLVMTypeRef params[] = {pointer, i64, pointer, i64, i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(m->context), params, 5, false);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(m->builder);
    function = emit_function(m, name, type, true);
    Part part = {LLVMGetParam(function, 3), LLVMGetParam(function, 4)};
    Transposer t = {m,
                    elem,
                    width,
                    LLVMGetParam(function, 0),
                    LLVMGetParam(function, 1),
                    LLVMGetParam(function, 2),
                    whole ? (Part){0} : part};
    transpose(&t);
    LLVMBuildRetVoid(m->builder);
    LLVMPositionBuilderAtEnd(m->builder, here);
    return function;
}

// ---- blocks ------------------------------------------------------------------------------------

// Transposes what the block's positions have at vector u.
static void fill_block(Compute *c, const TermState *state, int u) {
    EmitModule *m = c->m;
    const CpuAccess *a = &state->access;
    Elem elem = a->buffer->elem;
    int64_t known;
    bool whole = !c->left && index_known(c->positions.len, &known) && known == c->width;
    LLVMValueRef offset = cpu_access_part(c->k, a, c->crossed, c->positions.lo);
    LLVMValueRef skipped = index_mul(m, a->stride, index_const(m, (int64_t)u * c->width));
    offset = index_add(m, index_add(m, a->offset, offset), skipped);
    LLVMValueRef args[] = {emit_element(m, elem, a->memory->base, offset), a->stride,
                           place_in(c, state, u, index_const(m, 0)),
                           c->left ? c->left : index_const(m, c->width), c->positions.len};
    LLVMValueRef function = transposer(m, elem, c->width, whole);
    LLVMBuildCall2(m->builder, LLVMGlobalGetValueType(function), function, args, 5, "");
}

void compute_fill_blocks(Compute *c) {
    for (uint32_t t = 0; t < c->stage->terms.count; t++) {
        TermState *state = &c->terms[t];
        if (!state->crosses)
            continue;
        Elem elem = kept_elem(state->access.buffer->elem);
        if (!state->block)
            state->block = emit_on_stack(c->m, elem, c->unroll * block_elements(c));
        for (int u = 0; u < c->vectors; u++)
            fill_block(c, state, u);
    }
}

EmitValue compute_from_block(Compute *c, const Term *term, const TermState *state, int u) {
    LLVMValueRef at = index_sub(c->m, c->k->at[c->crossed], c->positions.lo);
    Elem elem = kept_elem(state->access.buffer->elem);
    EmitValue value = emit_load(c->m, elem, c->width, place_in(c, state, u, at));
    value.elem = term->elem;
    return value;
}
