// SPDX-License-Identifier: Apache-2.0
// Microkernels: a block of rows x vectors of c kept in registers over the whole k loop.
//
// The shape of the code is what LLVM's register allocator and scheduler leave alone: accumulators
// are phis of a loop of one block; in each step the vectors of b are loaded first, then row by row
// an element of a is splat and multiplied with all of them. At most one splat is alive at a time.
//
// A microkernel is an internal function of the kernel's module, made once per shape. Strides known
// when compiling are in the code and the others are arguments. Blocks of few sums split them over
// several steps of k, since one sum alone waits for each multiply-add to finish.
#include "cpu/cpu.h"

#include <string.h>

enum { ROWS_MAX = 32, VECTORS_MAX = 8, SUMS_MAX = 64 };

struct CpuMicrokernel {
    CpuMicroShape shape;
    LLVMValueRef function;
    LLVMTypeRef type;
    CpuMicrokernel *next;
};

enum { OF_A, OF_B, OF_AHEAD, N_POINTERS };

typedef struct {
    EmitModule *m;
    const CpuMicroShape *shape;
    LLVMValueRef at[N_POINTERS]; // of a and b in the current step, and what is asked for in it
    LLVMValueRef c, k;
    LLVMValueRef a_row, a_k, b_k, c_row, lanes, add;
    LLVMValueRef a_offset[ROWS_MAX], c_offset[ROWS_MAX];
    LLVMValueRef mask[VECTORS_MAX]; // NULL: whole
    LLVMValueRef sum[SUMS_MAX];     // [set][row][vector]
} Micro;

static int block_sums(const CpuMicroShape *shape) {
    return shape->rows * shape->vectors;
}

// ---- the k loop ----

static LLVMValueRef line_after(const Micro *u, LLVMValueRef at, int lines) {
    int64_t elements = lines * MACHINE_LINE / (int64_t)elem_bytes(u->shape->b_elem);
    return emit_element(u->m, u->shape->b_elem, at, index_const(u->m, elements));
}

// Vector number `v` of b's lanes in the current step.
static LLVMValueRef vector_at(const Micro *u, int v) {
    LLVMValueRef by = index_const(u->m, v * u->shape->width);
    return emit_element(u->m, u->shape->b_elem, u->at[OF_B], by);
}

static void ask_for_b(const Micro *u) {
    enum { STEPS_LATER = 16 }; // far enough for memory
    EmitModule *m = u->m;
    const CpuMicroShape *shape = u->shape;
    LLVMValueRef later = index_mul(m, u->b_k, index_const(m, STEPS_LATER));
    LLVMValueRef at = shape->asks_b == CPU_ASKS_LANES
                          ? vector_at(u, shape->vectors)
                          : emit_element(m, shape->b_elem, u->at[OF_B], later);
    int64_t bytes = (int64_t)shape->vectors * shape->width * (int64_t)elem_bytes(shape->b_elem);
    for (int line = 0; line < ceil_div(bytes, MACHINE_LINE); line++)
        emit_prefetch(m, line_after(u, at, line), EMIT_TO_READ);
}

// From the rows of a block to those that are asked for meanwhile: far enough for L3, near enough
// for what is asked for to stay in L1.
static LLVMValueRef rows_ahead(const Micro *u) {
    enum { LINES = 2 };
    return index_const(u->m, LINES * MACHINE_LINE / (int64_t)elem_bytes(u->shape->a_elem));
}

// Moves the pointers on by a step.
static void advance(Micro *u) {
    EmitModule *m = u->m;
    const CpuMicroShape *shape = u->shape;
    u->at[OF_A] = emit_element(m, shape->a_elem, u->at[OF_A], u->a_k);
    u->at[OF_B] = emit_element(m, shape->b_elem, u->at[OF_B], u->b_k);
    if (!shape->ahead)
        return;
    u->at[OF_AHEAD] = line_after(u, u->at[OF_AHEAD], shape->ahead);
}

static void step(Micro *u, int set) {
    EmitModule *m = u->m;
    const CpuMicroShape *shape = u->shape;
    EmitValue vector[VECTORS_MAX];
    for (int v = 0; v < shape->vectors; v++) {
        LLVMValueRef mask = shape->b_masked ? u->mask[v] : NULL;
        vector[v] = emit_load_masked(m, shape->b_elem, shape->width, vector_at(u, v), mask, 0);
        vector[v].elem = shape->elem; // a half is an f32 in registers
    }
    for (int line = 0; line < shape->ahead; line++)
        emit_prefetch(m, line_after(u, u->at[OF_AHEAD], line), EMIT_TO_READ);
    if (shape->asks_b != CPU_ASKS_NOTHING)
        ask_for_b(u);
    if (shape->asks_rows)
        emit_prefetch(m, emit_element(m, shape->a_elem, u->at[OF_A], rows_ahead(u)), EMIT_TO_READ);
    for (int r = 0; r < shape->rows; r++) {
        LLVMValueRef at = emit_element(m, shape->a_elem, u->at[OF_A], u->a_offset[r]);
        EmitValue row = emit_load_splat(m, shape->a_elem, shape->width, at);
        row.elem = shape->elem;
        for (int v = 0; v < shape->vectors; v++) {
            LLVMValueRef *sum = &u->sum[set * block_sums(shape) + r * shape->vectors + v];
            EmitValue old = {*sum, u->shape->elem, shape->width};
            *sum = emit_multiply_add(m, row, vector[v], old).ref;
        }
    }
    advance(u);
}

static int n_pointers(const Micro *u) {
    return u->shape->ahead ? N_POINTERS : OF_AHEAD;
}

static LLVMValueRef new_phi(EmitModule *m, LLVMValueRef start, LLVMBasicBlockRef from) {
    LLVMValueRef phi = LLVMBuildPhi(m->builder, LLVMTypeOf(start), "");
    LLVMAddIncoming(phi, &start, &from, 1);
    return phi;
}

// `count` (>= 1) turns of `steps` steps each, into `steps` sets of sums; moves the pointers on.
static void k_loop(Micro *u, LLVMValueRef count, int steps) {
    EmitModule *m = u->m;
    int n = steps * block_sums(u->shape);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(m->builder);
    LLVMBasicBlockRef body = emit_block(m, "k"), after = emit_block(m, "sums");
    LLVMBuildBr(m->builder, body);
    LLVMPositionBuilderAtEnd(m->builder, body);
    LLVMValueRef left = new_phi(m, count, before);
    LLVMValueRef phis[SUMS_MAX], pointers[N_POINTERS];
    for (int i = 0; i < n; i++)
        u->sum[i] = phis[i] = new_phi(m, u->sum[i], before);
    for (int i = 0; i < n_pointers(u); i++)
        u->at[i] = pointers[i] = new_phi(m, u->at[i], before);
    for (int s = 0; s < steps; s++)
        step(u, s);
    LLVMValueRef next = index_sub(m, left, index_const(m, 1));
    LLVMAddIncoming(left, &next, &body, 1);
    for (int i = 0; i < n_pointers(u); i++)
        LLVMAddIncoming(pointers[i], &u->at[i], &body, 1);
    for (int i = 0; i < n; i++)
        LLVMAddIncoming(phis[i], &u->sum[i], &body, 1);
    LLVMValueRef more = LLVMBuildICmp(m->builder, LLVMIntNE, next, index_const(m, 0), "");
    LLVMBuildCondBr(m->builder, more, body, after);
    LLVMPositionBuilderAtEnd(m->builder, after);
}

// Runs k_loop() unless count is 0; afterwards sums and pointers are those of whichever happened.
static void k_loop_if_any(Micro *u, LLVMValueRef count, int steps) {
    EmitModule *m = u->m;
    int n = steps * block_sums(u->shape);
    LLVMValueRef *moved[SUMS_MAX + N_POINTERS], old[SUMS_MAX + N_POINTERS];
    int n_moved = 0;
    for (int i = 0; i < n; i++)
        moved[n_moved++] = &u->sum[i];
    for (int i = 0; i < n_pointers(u); i++)
        moved[n_moved++] = &u->at[i];
    for (int i = 0; i < n_moved; i++)
        old[i] = *moved[i];
    LLVMBasicBlockRef from = LLVMGetInsertBlock(m->builder);
    LLVMBasicBlockRef run = emit_block(m, "some"), join = emit_block(m, "join");
    LLVMValueRef any = LLVMBuildICmp(m->builder, LLVMIntNE, count, index_const(m, 0), "");
    LLVMBuildCondBr(m->builder, any, run, join);
    LLVMPositionBuilderAtEnd(m->builder, run);
    k_loop(u, count, steps);
    LLVMBasicBlockRef to = LLVMGetInsertBlock(m->builder);
    LLVMBuildBr(m->builder, join);
    LLVMMoveBasicBlockAfter(join, to);
    LLVMPositionBuilderAtEnd(m->builder, join);
    for (int i = 0; i < n_moved; i++) {
        LLVMValueRef phi = new_phi(m, old[i], from);
        LLVMAddIncoming(phi, moved[i], &to, 1);
        *moved[i] = phi;
    }
}

static int splits(EmitModule *m, const CpuMicroShape *shape) {
    bool masks = shape->b_masked && !m->target->machine.has_masks; // in vector registers
    int room = m->target->machine.vector_registers - 1 - shape->vectors * (masks ? 2 : 1), n = 1;
    while (!shape->in_order && n < SPLITS_MAX &&
           block_sums(shape) * n * 2 <= (room < SUMS_IN_FLIGHT ? room : SUMS_IN_FLIGHT))
        n *= 2;
    return n;
}

static void all_steps(Micro *u) {
    EmitModule *m = u->m;
    int n = block_sums(u->shape), sets = splits(m, u->shape);
    EmitValue zero = emit_number(m, u->shape->elem, 0, u->shape->width);
    for (int i = 0; i < n * sets; i++)
        u->sum[i] = zero.ref;
    if (sets == 1) {
        k_loop(u, u->k, 1);
        return;
    }
    k_loop_if_any(u, index_div(m, u->k, sets), sets);
    k_loop_if_any(u, index_rem(m, u->k, sets), 1);
    for (int half = sets / 2; half >= 1; half /= 2)
        for (int i = 0; i < n * half; i++) {
            EmitValue x = {u->sum[i], u->shape->elem, u->shape->width};
            EmitValue y = {u->sum[i + n * half], u->shape->elem, u->shape->width};
            u->sum[i] = emit_add(m, x, y).ref;
        }
}

// ---- c ----

// Stores a sum where `store` is on (NULL: everywhere), after adding what c holds where `add` is on
// if it adds.
static void store_sum(Micro *u, LLVMValueRef at, EmitValue sum, LLVMValueRef store,
                      LLVMValueRef add, bool adds) {
    EmitModule *m = u->m;
    const CpuMicroShape *shape = u->shape;
    if (adds)
        sum = emit_add(m, emit_load_masked(m, shape->elem, shape->width, at, add, 0), sum);
    emit_store_first(m, sum, at, store, false);
}

static void store_vector(Micro *u, int row, int v, LLVMValueRef store, LLVMValueRef add,
                         bool adds) {
    EmitModule *m = u->m;
    const CpuMicroShape *shape = u->shape;
    LLVMValueRef at = emit_element(m, shape->elem, u->c, u->c_offset[row]);
    at = emit_element(m, shape->elem, at, index_const(m, v * shape->width));
    EmitValue sum = {u->sum[row * shape->vectors + v], shape->elem, shape->width};
    store_sum(u, at, sum, store, add, adds);
}

static void store_block(Micro *u, bool masked, bool adds) {
    for (int r = 0; r < u->shape->rows; r++)
        for (int v = 0; v < u->shape->vectors; v++) {
            LLVMValueRef mask = masked ? u->mask[v] : NULL;
            store_vector(u, r, v, mask, mask, adds);
        }
    LLVMBuildRetVoid(u->m->builder);
}

// The lanes of `mask` (NULL: all) if u->add, else none: a load of them is a zero then.
static LLVMValueRef where_added(Micro *u, LLVMValueRef mask) {
    EmitValue adds = emit_splat(u->m, (EmitValue){u->add, ELEM_BOOL, 1}, u->shape->width);
    return mask ? LLVMBuildAnd(u->m->builder, adds.ref, mask, "") : adds.ref;
}

// With cheap masks one piece of code sets or adds.
static void store_by_masks(Micro *u, bool masked) {
    const CpuMicroShape *shape = u->shape;
    LLVMValueRef add[VECTORS_MAX];
    for (int v = 0; v < shape->vectors; v++)
        add[v] = where_added(u, masked ? u->mask[v] : NULL);
    for (int r = 0; r < shape->rows; r++)
        for (int v = 0; v < shape->vectors; v++)
            store_vector(u, r, v, masked ? u->mask[v] : NULL, add[v], true);
    LLVMBuildRetVoid(u->m->builder);
}

// Without masks a store of some lanes is dozens of instructions: one row of them does it for all,
// by way of the stack.
static void store_by_rows(Micro *u) {
    EmitModule *m = u->m;
    const CpuMicroShape *shape = u->shape;
    Elem elem = shape->elem;
    int width = shape->width, row = shape->vectors * width;
    LLVMValueRef sums = emit_on_stack(m, elem, (int64_t)shape->rows * row);
    for (int i = 0; i < block_sums(shape); i++) {
        LLVMValueRef to = emit_element(m, elem, sums, index_const(m, (int64_t)i * width));
        emit_store(m, (EmitValue){u->sum[i], elem, width}, to);
    }
    EmitLoop rows;
    emit_loop_open(m, &rows, index_const(m, 0), index_const(m, shape->rows), index_const(m, 1),
                   true, NULL, 0);
    LLVMValueRef from = emit_element(m, elem, sums, index_mul(m, rows.at, index_const(m, row)));
    LLVMValueRef to = emit_element(m, elem, u->c, index_mul(m, rows.at, u->c_row));
    for (int v = 0; v < shape->vectors; v++) {
        LLVMValueRef first = index_const(m, v * width), mask = u->mask[v];
        EmitValue sum = emit_load(m, elem, width, emit_element(m, elem, from, first));
        LLVMValueRef add = shape->mode == CPU_SET_OR_ADD ? where_added(u, mask) : mask;
        store_sum(u, emit_element(m, elem, to, first), sum, mask, add, shape->mode != CPU_SET);
    }
    emit_loop_close(m, &rows, NULL, NULL);
    LLVMBuildRetVoid(m->builder);
}

static void store_whole(Micro *u) {
    EmitModule *m = u->m;
    if (u->shape->mode != CPU_SET_OR_ADD) {
        store_block(u, false, u->shape->mode == CPU_ADD);
        return;
    }
    LLVMBasicBlockRef add = emit_block(m, "add"), set = emit_block(m, "set");
    LLVMBuildCondBr(m->builder, u->add, add, set);
    LLVMPositionBuilderAtEnd(m->builder, add);
    store_block(u, false, true);
    LLVMPositionBuilderAtEnd(m->builder, set);
    store_block(u, false, false);
}

static void store_either(Micro *u, bool masked) {
    bool masks = u->m->target->machine.has_masks;
    if (masked && !masks)
        store_by_rows(u);
    else if (!masks)
        store_whole(u);
    else if (u->shape->mode == CPU_SET_OR_ADD)
        store_by_masks(u, masked);
    else
        store_block(u, masked, u->shape->mode == CPU_ADD);
}

// Stores under a mask are slow even where loads are not: full blocks go without.
static void store_all(Micro *u) {
    EmitModule *m = u->m;
    const CpuMicroShape *shape = u->shape;
    if (!shape->masked) {
        store_either(u, false);
        return;
    }
    LLVMBasicBlockRef whole = emit_block(m, "whole"), part = emit_block(m, "part");
    LLVMValueRef lanes = index_const(m, shape->vectors * shape->width);
    LLVMValueRef full = LLVMBuildICmp(m->builder, LLVMIntSGE, u->lanes, lanes, "");
    LLVMBuildCondBr(m->builder, full, whole, part);
    LLVMPositionBuilderAtEnd(m->builder, whole);
    store_either(u, false);
    LLVMPositionBuilderAtEnd(m->builder, part);
    store_either(u, true);
}

// ---- the function ----

static void make_masks(Micro *u) {
    int width = u->shape->width;
    for (int v = 0; v < u->shape->vectors; v++) {
        LLVMValueRef left = index_sub(u->m, u->lanes, index_const(u->m, v * width));
        u->mask[v] = emit_first_lanes(u->m, left, width);
    }
}

// Asks for the tile of c, which is wanted only after the k loop, before it.
static void prefetch_c(Micro *u) {
    EmitModule *m = u->m;
    const CpuMicroShape *shape = u->shape;
    for (int r = 0; r < shape->rows; r++) {
        LLVMValueRef row = emit_element(m, shape->elem, u->c, u->c_offset[r]);
        for (int v = 0; v < shape->vectors; v++)
            emit_prefetch(m, emit_element(m, shape->elem, row, index_const(m, v * shape->width)),
                          EMIT_TO_WRITE);
    }
}

static LLVMTypeRef function_type(EmitModule *m, const CpuMicroShape *shape) {
    LLVMTypeRef params[16], i64 = LLVMInt64TypeInContext(m->context);
    unsigned n = 0;
    while (n < 3)
        params[n++] = LLVMPointerTypeInContext(m->context, 0);
    params[n++] = i64; // k
    int64_t strides[] = {shape->a_row, shape->a_k, shape->b_k, shape->c_row};
    for (int i = 0; i < 4; i++)
        if (strides[i] == CPU_UNKNOWN)
            params[n++] = i64;
    if (shape->masked)
        params[n++] = i64;
    if (shape->mode == CPU_SET_OR_ADD)
        params[n++] = LLVMInt1TypeInContext(m->context);
    if (shape->ahead)
        params[n++] = LLVMPointerTypeInContext(m->context, 0);
    return LLVMFunctionType(LLVMVoidTypeInContext(m->context), params, n, 0);
}

static void read_params(Micro *u, LLVMValueRef function) {
    const CpuMicroShape *shape = u->shape;
    unsigned n = 0;
    u->at[OF_A] = LLVMGetParam(function, n++);
    u->at[OF_B] = LLVMGetParam(function, n++);
    u->c = LLVMGetParam(function, n++);
    u->k = LLVMGetParam(function, n++);
    int64_t known[] = {shape->a_row, shape->a_k, shape->b_k, shape->c_row};
    LLVMValueRef *stride[] = {&u->a_row, &u->a_k, &u->b_k, &u->c_row};
    for (int i = 0; i < 4; i++)
        *stride[i] =
            known[i] == CPU_UNKNOWN ? LLVMGetParam(function, n++) : index_const(u->m, known[i]);
    if (shape->masked)
        u->lanes = LLVMGetParam(function, n++);
    if (shape->mode == CPU_SET_OR_ADD)
        u->add = LLVMGetParam(function, n++);
    if (shape->ahead)
        u->at[OF_AHEAD] = LLVMGetParam(function, n);
}

static void emit_body(EmitModule *m, const CpuMicroShape *shape, LLVMValueRef function) {
    Micro u = {.m = m, .shape = shape};
    read_params(&u, function);
    if (shape->masked)
        make_masks(&u);
    for (int r = 0; r < shape->rows; r++) {
        u.a_offset[r] = index_mul(m, u.a_row, index_const(m, r));
        u.c_offset[r] = index_mul(m, u.c_row, index_const(m, r));
    }
    prefetch_c(&u);
    all_steps(&u);
    store_all(&u);
}

// By field: what is between the fields may be anything.
static bool is_shape(const CpuMicroShape *a, const CpuMicroShape *b) {
    return a->rows == b->rows && a->vectors == b->vectors && a->width == b->width &&
           a->masked == b->masked && a->b_masked == b->b_masked && a->mode == b->mode &&
           a->elem == b->elem && a->a_elem == b->a_elem && a->b_elem == b->b_elem &&
           a->a_row == b->a_row && a->a_k == b->a_k && a->b_k == b->b_k && a->c_row == b->c_row &&
           a->in_order == b->in_order && a->ahead == b->ahead && a->asks_rows == b->asks_rows &&
           a->asks_b == b->asks_b;
}

static CpuMicrokernel *find(CpuKernel *k, const CpuMicroShape *shape) {
    for (CpuMicrokernel *it = k->microkernels; it; it = it->next)
        if (is_shape(&it->shape, shape))
            return it;
    return NULL;
}

static CpuMicrokernel *make(CpuKernel *k, const CpuMicroShape *shape) {
    EmitModule *m = k->module;
    if (shape->rows > ROWS_MAX || shape->vectors > VECTORS_MAX || block_sums(shape) > SUMS_MAX)
        ice("microkernel: %d x %d is too large", shape->rows, shape->vectors);
    CpuMicrokernel *made = arena_new_of(m->arena, CpuMicrokernel);
    made->shape = *shape;
    made->type = function_type(m, shape);
    char *name = arena_printf(m->arena, "microkernel_%dx%d", shape->rows, shape->vectors);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(m->builder);
    made->function = emit_function(m, name, made->type, true);
    emit_body(m, shape, made->function);
    LLVMPositionBuilderAtEnd(m->builder, here);
    made->next = k->microkernels;
    k->microkernels = made;
    return made;
}

void cpu_call_microkernel(CpuKernel *k, const CpuMicroShape *shape, const CpuMicroCall *call) {
    CpuMicrokernel *kernel = find(k, shape);
    if (!kernel)
        kernel = make(k, shape);
    LLVMValueRef args[16] = {call->a, call->b, call->c, call->k};
    unsigned n = 4;
    int64_t known[] = {shape->a_row, shape->a_k, shape->b_k, shape->c_row};
    LLVMValueRef stride[] = {call->a_row, call->a_k, call->b_k, call->c_row};
    for (int i = 0; i < 4; i++)
        if (known[i] == CPU_UNKNOWN)
            args[n++] = stride[i];
    if (shape->masked)
        args[n++] = call->lanes;
    if (shape->mode == CPU_SET_OR_ADD)
        args[n++] = call->add;
    if (shape->ahead)
        args[n++] = call->ahead;
    LLVMBuildCall2(k->module->builder, kernel->type, kernel->function, args, n, "");
}
