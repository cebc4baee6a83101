// SPDX-License-Identifier: Apache-2.0
// The frame of a kernel function, its loop tree and its scratch memory.
//
// void K(ptr buffers, ptr extents, ptr scratch, i64 task) works off one task: the task number is
// taken apart over the parallel loops (outermost slowest), the other loops become loops, and every
// dim has a current range. i64 K_scratch(ptr extents) tells how much scratch memory K wants.
//
// Scratch buffers are stacked: one lives from its node to the end of the body that holds the node,
// so buffers of bodies that follow each other share memory. Rooms are bounds of the ranges known
// before the first loop runs: a constant step gives a constant room, and with it constant strides;
// below a range there is room for all of what the range is taken from.
#include "cpu/cpu.h"

#include <string.h>

enum { SCRATCH_ALIGN = 64, ROOM_CONSTANT_MAX = 1024 };

static LLVMTypeRef pointer_type(EmitModule *m) {
    return LLVMPointerTypeInContext(m->context, 0);
}

static LLVMTypeRef i64_type(EmitModule *m) {
    return LLVMInt64TypeInContext(m->context);
}

// ---- scratch memory ----

static LLVMValueRef narrow_room(EmitModule *m, LLVMValueRef room, int64_t step) {
    int64_t known;
    if (index_known(room, &known))
        return known < step ? room : index_const(m, step);
    if (step <= ROOM_CONSTANT_MAX)
        return index_const(m, step);
    return index_min(m, room, index_const(m, step));
}

// Sets strides, given the rooms; returns how many elements that makes.
static LLVMValueRef set_strides(CpuKernel *k, uint16_t number) {
    EmitModule *m = k->module;
    const TileBuffer *buffer = &k->kernel->buffers.at[number];
    CpuBuffer *memory = &k->buffer[number];
    bool panels = buffer->panel_dim != TILE_DIM_NONE;
    LLVMValueRef size = index_const(m, panels ? buffer->panel_width : 1);
    int panel_slot = -1;
    for (int i = buffer->rank - 1; i >= 0; i--) {
        if (panels && buffer->dims[i] == buffer->panel_dim) {
            panel_slot = i;
            continue;
        }
        memory->stride[i] = size;
        LLVMValueRef run = memory->room[i];
        if (i == buffer->rank - 1)
            run = index_add(m, run, index_const(m, buffer->gap));
        size = index_mul(m, size, run);
    }
    if (panel_slot >= 0) {
        LLVMValueRef up = index_round_up(m, memory->room[panel_slot], buffer->panel_width);
        memory->stride[panel_slot] = size;
        size = index_mul(m, size, index_div(m, up, buffer->panel_width));
    }
    return size;
}

// Sets rooms and strides of a scratch buffer; returns its size in bytes.
static LLVMValueRef lay_out(CpuKernel *k, uint16_t number, LLVMValueRef *rooms) {
    const TileBuffer *buffer = &k->kernel->buffers.at[number];
    for (int i = 0; i < buffer->rank; i++)
        k->buffer[number].room[i] = rooms[buffer->dims[i]];
    LLVMValueRef bytes = index_const(k->module, (int64_t)elem_bytes(buffer->elem));
    return index_mul(k->module, set_strides(k, number), bytes);
}

static void lay_out_taken(CpuKernel *k, uint16_t number) {
    CpuBuffer *memory = &k->buffer[number];
    const CpuBuffer *from = &k->buffer[k->kernel->buffers.at[number].takes];
    memcpy(memory->stride, from->stride, sizeof memory->stride);
    memcpy(memory->room, from->room, sizeof memory->room);
    memory->place = from->place;
}

// Gives the scratch buffers below `nodes` their places from `top` on; returns how far they reach.
static LLVMValueRef lay_out_nodes(CpuKernel *k, Node *const *nodes, uint32_t n, LLVMValueRef top,
                                  LLVMValueRef *rooms) {
    EmitModule *m = k->module;
    LLVMValueRef most = top;
    for (uint32_t i = 0; i < n; i++) {
        const Node *node = nodes[i];
        if (node->kind == NODE_SCRATCH && k->kernel->buffers.at[node->buffer].takes >= 0) {
            lay_out_taken(k, node->buffer);
        } else if (node->kind == NODE_SCRATCH) {
            k->buffer[node->buffer].place = top;
            LLVMValueRef size = lay_out(k, node->buffer, rooms);
            top = index_add(m, top, index_round_up(m, size, SCRATCH_ALIGN));
            most = index_max(m, most, top);
        } else if (node->kind != NODE_STAGE) {
            LLVMValueRef outer = rooms[node->dim];
            if (node->kind == NODE_LOOP)
                rooms[node->dim] = narrow_room(m, outer, node->step);
            LLVMValueRef end = lay_out_nodes(k, node->body.at, node->body.count, top, rooms);
            rooms[node->dim] = outer;
            most = index_max(m, most, end);
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

static LLVMValueRef load_pointer(EmitModule *m, LLVMValueRef buffers, uint32_t number) {
    LLVMValueRef offset = index_const(m, number);
    LLVMValueRef at = LLVMBuildGEP2(m->builder, pointer_type(m), buffers, &offset, 1, "");
    return LLVMBuildLoad2(m->builder, pointer_type(m), at, "");
}

static void load_arguments(CpuKernel *k, LLVMValueRef buffers) {
    EmitModule *m = k->module;
    if (kernel_ordered(k->kernel))
        k->turns = load_pointer(m, buffers, k->kernel->n_args);
    for (uint32_t b = 0; b < k->kernel->n_args; b++) {
        const TileBuffer *buffer = &k->kernel->buffers.at[b];
        CpuBuffer *memory = &k->buffer[b];
        memory->base = load_pointer(m, buffers, b);
        for (int i = 0; i < buffer->rank; i++) {
            memory->room[i] = memory->length[i] = k->extent[buffer->dims[i]];
            memory->origin[i] = index_const(m, 0);
        }
        set_strides(k, (uint16_t)b);
    }
}

static CpuKernel *frame_new(EmitModule *m, const Kernel *kernel) {
    CpuKernel *k = arena_new_of(m->arena, CpuKernel);
    k->module = m;
    k->kernel = kernel;
    m->no_prefetch = kernel->schedule.prefetch == PREFETCH_NONE;
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

// ---- loop tree ----

static void emit_nodes(CpuKernel *k, const NodeList *body);

static void emit_inside(CpuKernel *k, const Node *node, CpuRange range) {
    CpuRange outer = k->range[node->dim];
    k->range[node->dim] = range;
    emit_nodes(k, &node->body);
    k->range[node->dim] = outer;
}

// A piece of a loop. ordered: the number of the ordered loop; -1: it is none.
static void emit_piece(CpuKernel *k, const Node *node, CpuRange range, int ordered) {
    if (ordered < 0) {
        emit_inside(k, node, range);
        return;
    }
    LLVMValueRef end = index_add(k->module, range.lo, range.len);
    cpu_await_turn(k, ordered, end);
    emit_inside(k, node, range);
    cpu_end_turn(k, ordered, end);
}

static void emit_pieces(CpuKernel *k, const Node *node, int ordered) {
    EmitModule *m = k->module;
    CpuRange outer = k->range[node->dim];
    int64_t len;
    bool known = index_known(outer.len, &len);
    if (known && len <= 0)
        return;
    if (known && len <= node->step) {
        emit_piece(k, node, outer, ordered);
        return;
    }
    EmitLoop loop;
    LLVMValueRef high = index_add(m, outer.lo, outer.len), step = index_const(m, node->step);
    LLVMValueRef ends = NULL; // where the first piece begins and where the last does, added up
    if (node->loop == LOOP_BACKWARD) {
        LLVMValueRef before = index_sub(m, outer.len, index_const(m, 1));
        LLVMValueRef pieces = index_div(m, before, node->step);
        ends = index_add(m, index_add(m, outer.lo, outer.lo), index_mul(m, pieces, step));
    }
    emit_loop_open(m, &loop, outer.lo, high, step, outer.nonempty, NULL, 0);
    LLVMValueRef lo = loop.at;
    if (node->loop == LOOP_BACKWARD)
        lo = LLVMBuildSub(m->builder, ends, loop.at, "");
    emit_piece(k, node, cpu_range_piece(m, &outer, lo, node->step), ordered);
    emit_loop_close(m, &loop, NULL, NULL);
}

// After the last piece of an ordered loop the task is done with what lies behind it, too, as soon
// as the task before is.
static void emit_loop(CpuKernel *k, const Node *node) {
    bool ordered = node->loop == LOOP_ORDERED;
    int number = ordered ? k->n_ordered++ : -1;
    emit_pieces(k, node, number);
    if (!ordered)
        return;
    cpu_await_turn(k, number, index_const(k->module, INT64_MAX));
    cpu_end_turn(k, number, index_const(k->module, INT64_MAX));
}

static void emit_stage(CpuKernel *k, const Stage *stage) {
    LLVMBasicBlockRef after;
    if (!cpu_box_open(k, stage, &after))
        return;
    if (stage->kind == STAGE_COMPUTE)
        cpu_emit_compute(k, stage);
    else if (stage->kind == STAGE_ORDER)
        cpu_emit_order(k, stage);
    else if (stage_sums_lanes(stage))
        cpu_emit_dots(k, stage);
    else if (stage_shares_lanes(stage))
        cpu_emit_lanewise(k, stage);
    else
        cpu_emit_contract(k, stage);
    cpu_box_close(k, after);
}

// Stores a number in the box of the current ranges. pads: and zeros behind it in the last panel.
static void fill_buffer(CpuKernel *k, uint16_t number, double with, bool pads) {
    EmitModule *m = k->module;
    const TileBuffer *buffer = &k->kernel->buffers.at[number];
    Stage *fill = arena_new_of(m->arena, Stage);
    bool panels = buffer->panel_dim != TILE_DIM_NONE;
    *fill = (Stage){.kind = STAGE_COMPUTE,
                    .n_dims = buffer->rank,
                    .rows = TILE_DIM_NONE,
                    .pad = pads && panels};
    fill->lanes = panels         ? buffer->panel_dim
                  : buffer->rank ? buffer->dims[buffer->rank - 1]
                                 : TILE_DIM_NONE;
    memcpy(fill->dims, buffer->dims, sizeof fill->dims);
    Term term = {.kind = TERM_CONST, .elem = buffer->elem, .args = {-1, -1, -1}, .number = with};
    Sink sink = {.mode = SINK_SET, .to = access_plain(k->kernel, number)};
    vec_push(m->arena, &fill->terms, term);
    vec_push(m->arena, &fill->sinks, sink);
    emit_stage(k, fill);
}

// The same, where one of the dims has no positions.
static void fill_if_empty(CpuKernel *k, uint16_t number, const TileDimList *over, double with) {
    EmitModule *m = k->module;
    LLVMValueRef none = NULL, zero = index_const(m, 0);
    for (int i = 0; i < over->count; i++) {
        LLVMValueRef empty = LLVMBuildICmp(m->builder, LLVMIntEQ, k->extent[over->at[i]], zero, "");
        none = none ? LLVMBuildOr(m->builder, none, empty, "") : empty;
    }
    LLVMBasicBlockRef after = cpu_where_open(m, none);
    fill_buffer(k, number, with, true);
    cpu_where_close(m, after);
}

// The buffer is made here: notes the ranges, and stores what it begins with in their box.
static void begin_buffer(CpuKernel *k, uint16_t number) {
    const TileBuffer *buffer = &k->kernel->buffers.at[number];
    CpuBuffer *memory = &k->buffer[number];
    TileDimList over;
    double nothing;
    memory->begin = arena_array(k->module->arena, LLVMValueRef, k->kernel->dims.count);
    for (uint32_t d = 0; d < k->kernel->dims.count; d++)
        memory->begin[d] = k->range[d].lo;
    LLVMBasicBlockRef after = buffer->has_initial ? cpu_beginning_open(k, number) : NULL;
    if (buffer->has_initial)
        fill_buffer(k, number, buffer->initial, false);
    else if (kernel_combines(k->kernel, number, &over, &nothing))
        fill_if_empty(k, number, &over, nothing);
    cpu_where_close(k->module, after);
}

static void open_scratch(CpuKernel *k, uint16_t number) {
    EmitModule *m = k->module;
    const TileBuffer *buffer = &k->kernel->buffers.at[number];
    CpuBuffer *memory = &k->buffer[number];
    LLVMTypeRef byte = LLVMInt8TypeInContext(m->context);
    memory->base = LLVMBuildGEP2(m->builder, byte, k->scratch, &memory->place, 1, "");
    for (int i = 0; i < buffer->rank; i++) {
        memory->origin[i] = k->range[buffer->dims[i]].lo;
        memory->length[i] = k->range[buffer->dims[i]].len;
        memory->depth[i] = k->range[buffer->dims[i]].depth;
    }
    begin_buffer(k, number);
}

static void emit_nodes(CpuKernel *k, const NodeList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        switch (node->kind) {
        case NODE_LOOP:
            emit_loop(k, node);
            break;
        case NODE_RANGE:
            emit_inside(k, node, cpu_range_narrowed(k, node));
            break;
        case NODE_SCRATCH:
            open_scratch(k, node->buffer);
            break;
        case NODE_STAGE:
            emit_stage(k, node->stage);
            break;
        }
    }
}

// Takes the task number apart from the innermost parallel loop outwards; sets ranges; then the
// rest.
static void emit_task(CpuKernel *k, LLVMValueRef task) {
    EmitModule *m = k->module;
    const Node *parallel[TILE_RANK_MAX];
    const NodeList *body = &k->kernel->body;
    int n_parallel = 0;
    for (const Node *loop; (loop = nodes_parallel(body)); body = &loop->body)
        parallel[n_parallel++] = loop;
    for (int i = n_parallel - 1; i >= 0; i--) {
        const Node *node = parallel[i];
        CpuRange whole = k->range[node->dim];
        LLVMValueRef up = index_add(m, whole.len, index_const(m, node->step - 1));
        LLVMValueRef count = index_div(m, up, node->step);
        bool chain = k->turns && i == n_parallel - 1;
        if (chain) // the first task is there even without positions
            count = index_max(m, count, index_const(m, 1));
        LLVMValueRef number = i ? LLVMBuildURem(m->builder, task, count, "") : task;
        if (i)
            task = LLVMBuildUDiv(m->builder, task, count, "");
        int64_t known;
        if (index_known(count, &known) && known == 1)
            number = index_const(m, 0);
        LLVMValueRef lo = index_mul(m, number, index_const(m, node->step));
        k->range[node->dim] = cpu_range_piece(m, &whole, lo, node->step);
        if (chain) {
            k->is_first = LLVMBuildICmp(m->builder, LLVMIntEQ, number, index_const(m, 0), "");
            k->range[node->dim].nonempty = whole.nonempty;
        }
    }
    for (uint32_t b = 0; b < k->kernel->n_args; b++)
        begin_buffer(k, (uint16_t)b);
    emit_nodes(k, body);
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
    k->task = LLVMGetParam(function, 3);
    load_extents(k, LLVMGetParam(function, 1));
    load_arguments(k, LLVMGetParam(function, 0));
    lay_out_scratch(k);
    for (uint32_t d = 0; d < kernel->dims.count; d++)
        k->range[d] = (CpuRange){.lo = index_const(m, 0),
                                 .len = k->extent[d],
                                 .nonempty = kernel->dims.at[d].extent != EXTENT_DYNAMIC};
    emit_task(k, k->task);
    LLVMBuildRetVoid(m->builder);
}
