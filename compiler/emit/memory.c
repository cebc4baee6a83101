// SPDX-License-Identifier: Apache-2.0
// Moves between registers and memory: whole vectors, the first lanes of one, and lanes apart.
#include "emit/emit.h"

#include <math.h>

LLVMValueRef emit_element(EmitModule *module, Elem elem, LLVMValueRef base, LLVMValueRef offset) {
    int64_t known;
    if (index_known(offset, &known) && known == 0)
        return base;
    return LLVMBuildGEP2(module->builder, emit_memory_type(module, elem, 1), base, &offset, 1, "");
}

EmitValue emit_load(EmitModule *module, Elem elem, int lanes, LLVMValueRef pointer) {
    LLVMTypeRef type = emit_memory_type(module, elem, lanes);
    LLVMValueRef load = LLVMBuildLoad2(module->builder, type, pointer, "");
    LLVMSetAlignment(load, (unsigned)elem_bytes(elem));
    return emit_from_memory(module, load, elem, lanes);
}

EmitValue emit_load_splat(EmitModule *module, Elem elem, int lanes, LLVMValueRef pointer) {
    if (elem != ELEM_F16)
        return emit_splat(module, emit_load(module, elem, 1, pointer), lanes);
    // Repeating the bits and widening all of them is less work than the other way round.
    LLVMTypeRef type = emit_memory_type(module, elem, 1);
    LLVMValueRef load = LLVMBuildLoad2(module->builder, type, pointer, "");
    LLVMSetAlignment(load, (unsigned)elem_bytes(elem));
    LLVMValueRef poison = LLVMGetPoison(emit_memory_type(module, elem, lanes));
    LLVMValueRef zero = LLVMConstNull(emit_type(module, ELEM_I32, 1));
    LLVMValueRef first = LLVMBuildInsertElement(module->builder, poison, load, zero, "");
    LLVMValueRef picks = LLVMConstNull(emit_type(module, ELEM_I32, lanes));
    LLVMValueRef all = LLVMBuildShuffleVector(module->builder, first, poison, picks, "");
    return emit_from_memory(module, all, elem, lanes);
}

// The number `off` as it lies in memory.
static LLVMValueRef off_lanes(EmitModule *module, Elem elem, int lanes, double off) {
    if (off == 0 && !signbit(off))
        return LLVMConstNull(emit_memory_type(module, elem, lanes));
    return emit_to_memory(module, emit_number(module, elem, off, lanes));
}

// A masked load, store, gather or scatter. The alignment is an argument behind the pointer up to
// LLVM 21 and an attribute of the pointer from 22 on; the declaration tells which.
static LLVMValueRef masked_access(EmitModule *module, const char *name, LLVMTypeRef *types,
                                  const LLVMValueRef *args, unsigned n_args, unsigned pointer,
                                  Elem elem) {
    uint64_t bytes = elem_bytes(elem);
    LLVMValueRef all[5];
    unsigned n = 0;
    bool as_argument = emit_intrinsic_params(module, name, types, 2) > n_args;
    for (unsigned i = 0; i < n_args; i++) {
        all[n++] = args[i];
        if (as_argument && i == pointer)
            all[n++] = LLVMConstInt(emit_type(module, ELEM_I32, 1), bytes, 0);
    }
    LLVMValueRef call = emit_intrinsic(module, name, types, 2, all, n);
    if (!as_argument) {
        unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
        LLVMAddCallSiteAttribute(call, pointer + 1,
                                 LLVMCreateEnumAttribute(module->context, kind, bytes));
    }
    return call;
}

EmitValue emit_load_masked(EmitModule *module, Elem elem, int lanes, LLVMValueRef pointer,
                           LLVMValueRef mask, double off) {
    if (!mask)
        return emit_load(module, elem, lanes, pointer);
    LLVMTypeRef types[] = {emit_memory_type(module, elem, lanes), LLVMTypeOf(pointer)};
    LLVMValueRef args[] = {pointer, mask, off_lanes(module, elem, lanes, off)};
    LLVMValueRef raw = masked_access(module, "llvm.masked.load", types, args, 3, 0, elem);
    return emit_from_memory(module, raw, elem, lanes);
}

void emit_prefetch(EmitModule *module, LLVMValueRef pointer, EmitUse use) {
    if (module->no_prefetch)
        return;
    LLVMTypeRef type = LLVMTypeOf(pointer), i32 = emit_type(module, ELEM_I32, 1);
    enum { L1 = 3, L2 = 2, DATA = 1 };
    LLVMValueRef args[] = {pointer, LLVMConstInt(i32, use == EMIT_TO_WRITE, 0),
                           LLVMConstInt(i32, use == EMIT_TO_READ ? L1 : L2, 0),
                           LLVMConstInt(i32, DATA, 0)};
    emit_intrinsic(module, "llvm.prefetch", &type, 1, args, 4);
}

static LLVMValueRef all_lanes(EmitModule *module, int lanes) {
    return emit_number(module, ELEM_BOOL, 1, lanes).ref;
}

EmitValue emit_gather(EmitModule *module, Elem elem, LLVMValueRef base, LLVMValueRef offsets,
                      LLVMValueRef mask, double off) {
    int lanes = (int)LLVMGetVectorSize(LLVMTypeOf(offsets));
    LLVMValueRef pointers =
        LLVMBuildGEP2(module->builder, emit_memory_type(module, elem, 1), base, &offsets, 1, "");
    LLVMTypeRef types[] = {emit_memory_type(module, elem, lanes), LLVMTypeOf(pointers)};
    LLVMValueRef args[] = {pointers, mask ? mask : all_lanes(module, lanes),
                           off_lanes(module, elem, lanes, off)};
    LLVMValueRef raw = masked_access(module, "llvm.masked.gather", types, args, 3, 0, elem);
    return emit_from_memory(module, raw, elem, lanes);
}

void emit_store(EmitModule *module, EmitValue value, LLVMValueRef pointer) {
    LLVMValueRef store = LLVMBuildStore(module->builder, emit_to_memory(module, value), pointer);
    LLVMSetAlignment(store, (unsigned)elem_bytes(value.elem));
}

LLVMValueRef emit_on_stack(EmitModule *module, Elem elem, int64_t elements) {
    LLVMBuilderRef builder = module->builder;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(builder);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(here));
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (first)
        LLVMPositionBuilderBefore(builder, first);
    LLVMTypeRef type = LLVMArrayType2(emit_memory_type(module, elem, 1), (uint64_t)elements);
    LLVMValueRef memory = LLVMBuildAlloca(builder, type, "");
    LLVMSetAlignment(memory, MACHINE_LINE);
    LLVMPositionBuilderAtEnd(builder, here);
    return memory;
}

// The half of a vector that begins at `from`; of two lanes a scalar.
static LLVMValueRef half_from(EmitModule *module, LLVMValueRef vector, int lanes, int from) {
    int picks[LANES_MAX];
    for (int i = 0; i < lanes / 2; i++)
        picks[i] = from + i;
    EmitValue value = {.ref = vector, .lanes = lanes};
    return emit_shuffle(module, value, value, picks, lanes / 2).ref;
}

// Stores the first `count` lanes: all of them, half, a quarter and so on, each where its bit of the
// number is set.
static void store_parts(EmitModule *module, LLVMValueRef left, Elem elem, int lanes,
                        LLVMValueRef pointer, LLVMValueRef count) {
    LLVMBuilderRef builder = module->builder;
    for (int part = lanes; part > 0; part /= 2) {
        LLVMBasicBlockRef store = emit_block(module, "part"), after = emit_block(module, "after");
        LLVMBasicBlockRef before = LLVMGetInsertBlock(builder);
        LLVMValueRef bit = LLVMBuildAnd(builder, count, index_const(module, part), "");
        LLVMValueRef is_set = LLVMBuildICmp(builder, LLVMIntNE, bit, index_const(module, 0), "");
        LLVMValueRef stored = left, behind = left;
        if (part < lanes) {
            stored = half_from(module, left, 2 * part, 0);
            behind = half_from(module, left, 2 * part, part);
        }
        LLVMBuildCondBr(builder, is_set, store, after);
        LLVMPositionBuilderAtEnd(builder, store);
        LLVMValueRef larger = index_const(module, (lanes - 1) & -2 * part);
        LLVMValueRef first = LLVMBuildAnd(builder, count, larger, "");
        LLVMValueRef to = emit_element(module, elem, pointer, first);
        LLVMSetAlignment(LLVMBuildStore(builder, stored, to), (unsigned)elem_bytes(elem));
        LLVMBuildBr(builder, after);
        LLVMPositionBuilderAtEnd(builder, after);
        if (part > 1)
            left = emit_either(module, behind, store, stored, before);
    }
}

// A function (lanes, where to, how many) that does it.
static LLVMValueRef storer(EmitModule *module, LLVMTypeRef vector, Elem elem, int lanes) {
    const char *name = arena_printf(module->arena, "store_%sx%d_part", elem_name(elem), lanes);
    LLVMValueRef function = LLVMGetNamedFunction(module->module, name);
    if (function)
        return function;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(module->context, 0);
    LLVMTypeRef params[] = {vector, pointer, emit_type(module, ELEM_I64, 1)};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(module->context), params, 3, false);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(module->builder);
    function = emit_function(module, name, type, true);
    store_parts(module, LLVMGetParam(function, 0), elem, lanes, LLVMGetParam(function, 1),
                LLVMGetParam(function, 2));
    LLVMBuildRetVoid(module->builder);
    LLVMPositionBuilderAtEnd(module->builder, here);
    return function;
}

// A masked store takes ten times as long as another where the machine has no masks: 18 cycles on
// AMD's Zen 3.
static void store_in_parts(EmitModule *module, LLVMValueRef vector, Elem elem, int lanes,
                           LLVMValueRef pointer, LLVMValueRef mask, bool shared) {
    LLVMBuilderRef builder = module->builder;
    LLVMTypeRef bits = LLVMIntTypeInContext(module->context, (unsigned)lanes);
    LLVMValueRef on = LLVMBuildBitCast(builder, mask, bits, "");
    LLVMValueRef count = emit_intrinsic(module, "llvm.ctpop", &bits, 1, &on, 1);
    count = LLVMBuildZExt(builder, count, emit_type(module, ELEM_I64, 1), "");
    if (!shared) {
        store_parts(module, vector, elem, lanes, pointer, count);
        return;
    }
    LLVMValueRef args[] = {vector, pointer, count};
    LLVMValueRef function = storer(module, LLVMTypeOf(vector), elem, lanes);
    LLVMBuildCall2(builder, LLVMGlobalGetValueType(function), function, args, 3, "");
}

void emit_store_first(EmitModule *module, EmitValue value, LLVMValueRef pointer, LLVMValueRef mask,
                      bool shared) {
    if (!mask) {
        emit_store(module, value, pointer);
        return;
    }
    LLVMValueRef raw = emit_to_memory(module, value);
    if (!module->target->machine.has_masks) {
        store_in_parts(module, raw, value.elem, value.lanes, pointer, mask, shared);
        return;
    }
    LLVMTypeRef types[] = {LLVMTypeOf(raw), LLVMTypeOf(pointer)};
    LLVMValueRef args[] = {raw, pointer, mask};
    masked_access(module, "llvm.masked.store", types, args, 3, 1, value.elem);
}

void emit_scatter(EmitModule *module, EmitValue value, LLVMValueRef base, LLVMValueRef offsets,
                  LLVMValueRef mask) {
    LLVMValueRef pointers = LLVMBuildGEP2(module->builder, emit_memory_type(module, value.elem, 1),
                                          base, &offsets, 1, "");
    LLVMValueRef raw = emit_to_memory(module, value);
    LLVMTypeRef types[] = {LLVMTypeOf(raw), LLVMTypeOf(pointers)};
    LLVMValueRef args[] = {raw, pointers, mask ? mask : all_lanes(module, value.lanes)};
    masked_access(module, "llvm.masked.scatter", types, args, 3, 1, value.elem);
}
