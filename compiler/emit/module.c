// SPDX-License-Identifier: Apache-2.0
// An LLVM module for one target: its context, data layout, functions and intrinsic calls.
//
// Every function carries the target's cpu and features as attributes, so that objects of several
// feature levels can live in one library and nothing above the baseline leaks into shared code.
#include "emit/emit.h"

#include <llvm-c/Target.h>
#include <string.h>

EmitModule *emit_module_new(Arena *arena, const char *name, const Target *target) {
    EmitModule *module = arena_new_of(arena, EmitModule);
    module->arena = arena;
    module->target = target;
    module->lanes = target->machine.vector_bytes / 4;
    module->context = LLVMContextCreate();
    LLVMContextSetDiscardValueNames(module->context, 1);
    module->module = LLVMModuleCreateWithNameInContext(name, module->context);
    module->builder = LLVMCreateBuilderInContext(module->context);
    LLVMTargetMachineRef machine = emit_target_machine(target);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module->module, layout);
    LLVMSetTarget(module->module, target->triple);
    LLVMDisposeTargetData(layout);
    LLVMDisposeTargetMachine(machine);
    return module;
}

void emit_module_free(EmitModule *module) {
    LLVMDisposeBuilder(module->builder);
    LLVMDisposeModule(module->module);
    LLVMContextDispose(module->context);
}

static void add_text_attribute(EmitModule *module, LLVMValueRef function, const char *key,
                               const char *value) {
    LLVMAttributeRef attribute = LLVMCreateStringAttribute(
        module->context, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex, attribute);
}

static void add_attribute(EmitModule *module, LLVMValueRef function, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(module->context, kind, 0));
}

LLVMValueRef emit_function(EmitModule *module, const char *name, LLVMTypeRef type, bool internal) {
    const Target *target = module->target;
    LLVMValueRef function = LLVMAddFunction(module->module, name, type);
    if (internal) {
        LLVMSetLinkage(function, LLVMInternalLinkage);
        add_attribute(module, function, "noinline");
    }
    add_attribute(module, function, "nounwind");
    add_text_attribute(module, function, "target-cpu", target->cpu);
    if (target->features[0])
        add_text_attribute(module, function, "target-features", target->features);
    char width[16];
    snprintf(width, sizeof width, "%d", target->machine.vector_bytes * 8);
    add_text_attribute(module, function, "prefer-vector-width", width);
    LLVMPositionBuilderAtEnd(module->builder,
                             LLVMAppendBasicBlockInContext(module->context, function, ""));
    return function;
}

static unsigned intrinsic_id(const char *name) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id)
        ice("emit: no intrinsic %s", name);
    return id;
}

uint32_t emit_intrinsic_params(EmitModule *module, const char *name, LLVMTypeRef *types,
                               uint32_t n_types) {
    return LLVMCountParamTypes(
        LLVMIntrinsicGetType(module->context, intrinsic_id(name), types, n_types));
}

LLVMValueRef emit_intrinsic(EmitModule *module, const char *name, LLVMTypeRef *types,
                            uint32_t n_types, LLVMValueRef *args, uint32_t n_args) {
    unsigned id = intrinsic_id(name);
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(module->module, id, types, n_types);
    LLVMTypeRef type = LLVMIntrinsicGetType(module->context, id, types, n_types);
    return LLVMBuildCall2(module->builder, type, function, args, n_args, "");
}

LLVMBasicBlockRef emit_block(EmitModule *module, const char *name) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(module->builder);
    return LLVMAppendBasicBlockInContext(module->context, LLVMGetBasicBlockParent(here), name);
}
