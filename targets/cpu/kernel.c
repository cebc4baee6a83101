// SPDX-License-Identifier: Apache-2.0
// The frame of a kernel function, its loop tree and its scratch memory.
//
// void K(ptr buffers, ptr extents, ptr scratch, i64 task) works off one task: the task number is
// taken apart over the parallel loops (outermost slowest), the other loops become loops, and every
// dim has a current range. i64 K_scratch(ptr extents) tells how much scratch memory K wants.
//
// Scratch buffers are stacked: one lives from its node to the end of the body that holds the node,
// so buffers of bodies that follow each other share memory. Rooms are bounds of the ranges known
// before the first loop runs; a constant step gives a constant room, and with it constant strides.
#include "cpu/cpu.h"

enum { SCRATCH_ALIGN = 64, ROOM_CONSTANT_MAX = 1024 };

static LLVMTypeRef pointer_type(EmitModule *m) {
    return LLVMPointerTypeInContext(m->context, 0);
}

static LLVMTypeRef i64_type(EmitModule *m) {
    return LLVMInt64TypeInContext(m->context);
}

// ---- scratch memory ----

static LLVMValueRef larger(EmitModule *m, LLVMValueRef a, LLVMValueRef b) {
    int64_t x, y;
    if (index_known(a, &x) && index_known(b, &y))
        return x > y ? a : b;
    LLVMTypeRef type = i64_type(m);
    return emit_intrinsic(m, "llvm.smax", &type, 1, (LLVMValueRef[]){a, b}, 2);
}

static LLVMValueRef narrow_room(EmitModule *m, LLVMValueRef room, int64_t step) {
    int64_t known;
    if (index_known(room, &known))
        return known < step ? room : index_const(m, step);
    if (step <= ROOM_CONSTANT_MAX)
        return index_const(m, step);
    return index_min(m, room, index_const(m, step));
}

// Sets rooms and strides of a scratch buffer; returns its size in bytes.
static LLVMValueRef lay_out(CpuKernel *k, uint16_t number, LLVMValueRef *rooms) {
    EmitModule *m = k->module;
    const TileBuffer *buffer = &k->kernel->buffers.at[number];
    CpuBuffer *memory = &k->buffer[number];
    bool panels = buffer->panel_dim != TILE_DIM_NONE;
    LLVMValueRef size = index_const(m, panels ? buffer->panel_width : 1);
    int panel_slot = -1;
    for (int i = buffer->rank - 1; i >= 0; i--) {
        memory->room[i] = rooms[buffer->dims[i]];
        if (panels && buffer->dims[i] == buffer->panel_dim) {
            panel_slot = i;
            continue;
        }
        memory->stride[i] = size;
        size = index_mul(m, size, memory->room[i]);
    }
    if (panel_slot >= 0) {
        LLVMValueRef up = index_round_up(m, memory->room[panel_slot], buffer->panel_width);
        memory->stride[panel_slot] = size;
        size = index_mul(m, size, index_div(m, up, buffer->panel_width));
    }
    return index_mul(m, size, index_const(m, (int64_t)elem_bytes(buffer->elem)));
}

// Gives the scratch buffers below `nodes` their places from `top` on; returns how far they reach.
static LLVMValueRef lay_out_nodes(CpuKernel *k, Node *const *nodes, uint32_t n, LLVMValueRef top,
                                  LLVMValueRef *rooms) {
    EmitModule *m = k->module;
    LLVMValueRef most = top;
    for (uint32_t i = 0; i < n; i++) {
        const Node *node = nodes[i];
        if (node->kind == NODE_SCRATCH) {
            k->buffer[node->buffer].place = top;
            LLVMValueRef size = lay_out(k, node->buffer, rooms);
            top = index_add(m, top, index_round_up(m, size, SCRATCH_ALIGN));
            most = larger(m, most, top);
        } else if (node->kind == NODE_LOOP) {
            LLVMValueRef outer = rooms[node->dim];
            rooms[node->dim] = narrow_room(m, outer, node->step);
            LLVMValueRef end = lay_out_nodes(k, node->body.at, node->body.count, top, rooms);
            rooms[node->dim] = outer;
            most = larger(m, most, end);
        }
    }
    return most;
}

static LLVMValueRef lay_out_scratch(CpuKernel *k) {
    uint32_t n = k->kernel->dims.count;
    LLVMValueRef *rooms = arena_array(k->module->arena, LLVMValueRef, n);
    for (uint32_t d = 0; d < n; d++)
        rooms[d] = k->extent[d];
    return lay_out_nodes(k, k->kernel->body.at, k->kernel->body.count, index_const(k->module, 0),
                         rooms);
}

// ---- frame ----

static void load_extents(CpuKernel *k, LLVMValueRef extents) {
    EmitModule *m = k->module;
    for (uint32_t d = 0; d < k->kernel->dims.count; d++) {
        int64_t extent = k->kernel->dims.at[d].extent;
        if (extent != EXTENT_DYNAMIC) {
            k->extent[d] = index_const(m, extent);
            continue;
        }
        LLVMValueRef offset = index_const(m, d);
        LLVMValueRef at = LLVMBuildGEP2(m->builder, i64_type(m), extents, &offset, 1, "");
        k->extent[d] = LLVMBuildLoad2(m->builder, i64_type(m), at, "");
    }
}

static void load_arguments(CpuKernel *k, LLVMValueRef buffers) {
    EmitModule *m = k->module;
    for (uint32_t b = 0; b < k->kernel->n_args; b++) {
        const TileBuffer *buffer = &k->kernel->buffers.at[b];
        CpuBuffer *memory = &k->buffer[b];
        LLVMValueRef offset = index_const(m, b);
        LLVMValueRef at = LLVMBuildGEP2(m->builder, pointer_type(m), buffers, &offset, 1, "");
        memory->base = LLVMBuildLoad2(m->builder, pointer_type(m), at, "");
        LLVMValueRef stride = index_const(m, 1);
        for (int i = buffer->rank - 1; i >= 0; i--) {
            memory->stride[i] = stride;
            memory->room[i] = k->extent[buffer->dims[i]];
            memory->origin[i] = index_const(m, 0);
            stride = index_mul(m, stride, memory->room[i]);
        }
    }
}

static CpuKernel *frame_new(EmitModule *m, const Kernel *kernel) {
    CpuKernel *k = arena_new_of(m->arena, CpuKernel);
    k->module = m;
    k->kernel = kernel;
    k->extent = arena_array(m->arena, LLVMValueRef, kernel->dims.count);
    k->at = arena_array(m->arena, LLVMValueRef, kernel->dims.count);
    k->range = arena_array(m->arena, CpuRange, kernel->dims.count);
    k->buffer = arena_array(m->arena, CpuBuffer, kernel->buffers.count);
    return k;
}

static void emit_scratch_function(EmitModule *m, const Kernel *kernel, const char *symbol) {
    CpuKernel *k = frame_new(m, kernel);
    LLVMTypeRef pointer = pointer_type(m);
    LLVMValueRef function = emit_function(m, arena_printf(m->arena, "%s_scratch", symbol),
                                          LLVMFunctionType(i64_type(m), &pointer, 1, 0), false);
    load_extents(k, LLVMGetParam(function, 0));
    LLVMBuildRet(m->builder, lay_out_scratch(k));
}

// ---- ranges ----

bool cpu_aligned(const CpuKernel *k, uint16_t buffer, uint8_t slot, TileDimId dim, int64_t unit) {
    const CpuRange *range = &k->range[dim];
    for (uint8_t i = k->buffer[buffer].depth[slot]; i < range->depth; i++)
        if (range->step[i] % unit)
            return false;
    return true;
}

LLVMValueRef cpu_starts_at_zero(EmitModule *m, LLVMValueRef position) {
    int64_t known;
    LLVMTypeRef i1 = LLVMInt1TypeInContext(m->context);
    if (index_known(position, &known))
        return LLVMConstInt(i1, known == 0, 0);
    return LLVMBuildICmp(m->builder, LLVMIntEQ, position, index_const(m, 0), "");
}

// Length of the piece at lo of the range `outer`, cut into pieces of `step`.
static LLVMValueRef piece_length(EmitModule *m, const CpuRange *outer, LLVMValueRef lo,
                                 int64_t step) {
    int64_t len;
    bool known = index_known(outer->len, &len);
    if (step == 1 || (known && len % step == 0))
        return index_const(m, step);
    LLVMValueRef left = index_sub(m, index_add(m, outer->lo, outer->len), lo);
    return index_min(m, left, index_const(m, step));
}

static CpuRange piece_of(EmitModule *m, const CpuRange *outer, LLVMValueRef lo, int64_t step) {
    CpuRange piece = *outer;
    int64_t len;
    if (index_known(outer->len, &len) && len <= step)
        return piece; // the whole range
    piece.lo = lo;
    piece.len = piece_length(m, outer, lo, step);
    if (piece.depth == CPU_NEST_MAX)
        ice("cpu kernel: more than %d loops over one dim", CPU_NEST_MAX);
    piece.step[piece.depth++] = step;
    return piece;
}

// ---- loop tree ----

static void emit_nodes(CpuKernel *k, Node *const *nodes, uint32_t n);

static void emit_piece(CpuKernel *k, const Node *node, const CpuRange *outer, LLVMValueRef lo) {
    k->range[node->dim] = piece_of(k->module, outer, lo, node->step);
    emit_nodes(k, node->body.at, node->body.count);
    k->range[node->dim] = *outer;
}

static void emit_loop(CpuKernel *k, const Node *node) {
    EmitModule *m = k->module;
    CpuRange outer = k->range[node->dim];
    int64_t len;
    LLVMValueRef step = index_const(m, node->step);
    if (index_known(outer.len, &len) && len <= node->step) {
        emit_piece(k, node, &outer, outer.lo);
        return;
    }
    EmitLoop loop;
    LLVMValueRef high = index_add(m, outer.lo, outer.len);
    emit_loop_open(m, &loop, outer.lo, high, step, true, NULL, 0);
    emit_piece(k, node, &outer, loop.at);
    emit_loop_close(m, &loop, NULL, NULL);
}

static void open_scratch(CpuKernel *k, uint16_t number) {
    EmitModule *m = k->module;
    const TileBuffer *buffer = &k->kernel->buffers.at[number];
    CpuBuffer *memory = &k->buffer[number];
    LLVMTypeRef byte = LLVMInt8TypeInContext(m->context);
    memory->base = LLVMBuildGEP2(m->builder, byte, k->scratch, &memory->place, 1, "");
    for (int i = 0; i < buffer->rank; i++) {
        memory->origin[i] = k->range[buffer->dims[i]].lo;
        memory->depth[i] = k->range[buffer->dims[i]].depth;
    }
}

static void emit_nodes(CpuKernel *k, Node *const *nodes, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const Node *node = nodes[i];
        if (node->kind == NODE_LOOP)
            emit_loop(k, node);
        else if (node->kind == NODE_RANGE)
            ice("cpu kernel %s: a range", k->kernel->name);
        else if (node->kind == NODE_SCRATCH)
            open_scratch(k, node->buffer);
        else if (node->stage->kind == STAGE_COMPUTE)
            cpu_emit_compute(k, node->stage);
        else
            cpu_emit_contract(k, node->stage);
    }
}

static bool is_parallel(const Node *node) {
    return node->kind == NODE_LOOP && node->loop == LOOP_PARALLEL;
}

// Takes the task number apart from the innermost parallel loop outwards; sets ranges; then the
// rest.
static void emit_task(CpuKernel *k, Node *const *nodes, uint32_t n, LLVMValueRef task) {
    EmitModule *m = k->module;
    const Node *parallel[TILE_RANK_MAX];
    int n_parallel = 0;
    while (n == 1 && is_parallel(nodes[0])) {
        parallel[n_parallel++] = nodes[0];
        n = nodes[0]->body.count;
        nodes = nodes[0]->body.at;
    }
    for (int i = n_parallel - 1; i >= 0; i--) {
        const Node *node = parallel[i];
        CpuRange whole = k->range[node->dim];
        LLVMValueRef up = index_add(m, whole.len, index_const(m, node->step - 1));
        LLVMValueRef count = index_div(m, up, node->step);
        LLVMValueRef number = i ? LLVMBuildURem(m->builder, task, count, "") : task;
        if (i)
            task = LLVMBuildUDiv(m->builder, task, count, "");
        int64_t known;
        if (index_known(count, &known) && known == 1)
            number = index_const(m, 0);
        LLVMValueRef lo = index_mul(m, number, index_const(m, node->step));
        k->range[node->dim] = piece_of(m, &whole, lo, node->step);
    }
    emit_nodes(k, nodes, n);
}

void cpu_emit_kernel(EmitModule *m, const Kernel *kernel, const Target *target,
                     const char *symbol) {
    if (target != m->target)
        ice("cpu kernel %s: module is for %s", symbol, m->target->name);
    emit_scratch_function(m, kernel, symbol);
    CpuKernel *k = frame_new(m, kernel);
    LLVMTypeRef p = pointer_type(m);
    LLVMTypeRef params[] = {p, p, p, i64_type(m)};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(m->context), params, 4, 0);
    LLVMValueRef function = emit_function(m, symbol, type, false);
    k->scratch = LLVMGetParam(function, 2);
    load_extents(k, LLVMGetParam(function, 1));
    load_arguments(k, LLVMGetParam(function, 0));
    lay_out_scratch(k);
    for (uint32_t d = 0; d < kernel->dims.count; d++)
        k->range[d] = (CpuRange){.lo = index_const(m, 0), .len = k->extent[d]};
    emit_task(k, kernel->body.at, kernel->body.count, LLVMGetParam(function, 3));
    LLVMBuildRetVoid(m->builder);
}
