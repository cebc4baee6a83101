// SPDX-License-Identifier: Apache-2.0
// Order stages: loops over the rows, and a call of the runtime for each (runtime/order.c).
#include "cpu/cpu.h"

#include "module.h"

typedef struct {
    CpuKernel *k;
    EmitModule *m;
    const Stage *stage;
    CpuAccess a, c;
    LLVMValueRef order; // the AttOrder that is handed over
    TileDimId rows[TILE_RANK_MAX];
    int n_rows;
} Order;

static void set_field(Order *o, size_t offset, LLVMValueRef value) {
    EmitModule *m = o->m;
    LLVMValueRef at = index_const(m, (int64_t)offset);
    LLVMTypeRef byte = LLVMInt8TypeInContext(m->context);
    LLVMBuildStore(m->builder, value, LLVMBuildGEP2(m->builder, byte, o->order, &at, 1, ""));
}

// On the stack of the function, once.
static LLVMValueRef make_order(EmitModule *m) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(m->builder);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(here));
    LLVMPositionBuilderBefore(m->builder, LLVMGetFirstInstruction(entry));
    LLVMTypeRef words = LLVMArrayType2(LLVMInt64TypeInContext(m->context), sizeof(AttOrder) / 8);
    LLVMValueRef order = LLVMBuildAlloca(m->builder, words, "order");
    LLVMPositionBuilderAtEnd(m->builder, here);
    return order;
}

// What all rows have in common.
static void set_common(Order *o) {
    const Stage *stage = o->stage;
    EmitModule *m = o->m;
    set_field(o, offsetof(AttOrder, elem), index_const(m, o->a.buffer->elem));
    set_field(o, offsetof(AttOrder, length), o->k->range[stage->along].len);
    set_field(o, offsetof(AttOrder, kept), o->k->range[stage->places].len);
    set_field(o, offsetof(AttOrder, descending), index_const(m, stage->descending));
    set_field(o, offsetof(AttOrder, stride), cpu_access_stride(o->k, &stage->c, stage->places));
    for (int i = 0; i < ORDER_WORK; i++)
        set_field(o, offsetof(AttOrder, work) + (size_t)i * sizeof(void *),
                  o->k->buffer[stage->work[i]].base);
}

static void call_runtime(Order *o) {
    EmitModule *m = o->m;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(m->context, 0);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(m->context), &pointer, 1, 0);
    LLVMValueRef function = LLVMGetNamedFunction(m->module, "att_order");
    if (!function)
        function = LLVMAddFunction(m->module, "att_order", type);
    set_field(o, offsetof(AttOrder, row),
              emit_element(m, o->a.buffer->elem, o->a.memory->base, o->a.offset));
    set_field(o, offsetof(AttOrder, out),
              emit_element(m, o->c.buffer->elem, o->c.memory->base, o->c.offset));
    LLVMBuildCall2(m->builder, type, function, &o->order, 1, "");
}

static void emit_rows(Order *o, int depth) {
    if (depth == o->n_rows) {
        call_runtime(o);
        return;
    }
    EmitModule *m = o->m;
    TileDimId dim = o->rows[depth];
    const CpuRange *range = &o->k->range[dim];
    LLVMValueRef a = o->a.offset, c = o->c.offset;
    EmitLoop loop;
    emit_loop_open(m, &loop, range->lo, index_add(m, range->lo, range->len), index_const(m, 1),
                   true, NULL, 0);
    o->k->at[dim] = loop.at;
    cpu_access_enter(o->k, &o->a, dim);
    cpu_access_enter(o->k, &o->c, dim);
    emit_rows(o, depth + 1);
    emit_loop_close(m, &loop, NULL, NULL);
    o->a.offset = a;
    o->c.offset = c;
}

void cpu_emit_order(CpuKernel *k, const Stage *stage) {
    Order o = {.k = k, .m = k->module, .stage = stage};
    for (int i = 0; i < stage->n_dims; i++)
        if (stage->dims[i] != stage->along && stage->dims[i] != stage->places)
            o.rows[o.n_rows++] = stage->dims[i];
    cpu_access_open(k, &o.a, &stage->a, TILE_DIM_NONE, 1, NULL);
    cpu_access_open(k, &o.c, &stage->c, TILE_DIM_NONE, 1, NULL);
    o.order = make_order(o.m);
    set_common(&o);
    emit_rows(&o, 0);
}
