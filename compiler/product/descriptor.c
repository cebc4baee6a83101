// SPDX-License-Identifier: Apache-2.0
// The entry's object: its AttModule as constant data, and the functions that callers see.
//
//     AttStatus F(AttContext *ctx, const F_args *args)     att_module_call(ctx, &module, args)
//     int64_t F_workspace(int64_t n, ...)                  att_module_workspace_for(&module, ...)
//     const char *F_manifest(void)                         module.manifest
//     int main(int argc, char **argv)                      att_program_main(&module, argc, argv),
//                                                          of one with trained tensors
//                                                          att_weights_main(&module, argc, argv) or
//                                                          att_trainer_main(&trainer, argc, argv)
//
// The first two also of F_forward, F_backward and F_gradient. All of it is for the architecture's
// baseline: it runs before the runtime has looked at the machine. Fields of the tables are 8 bytes
// wide, so a table is a list of words, each an integer or an address, and all of them are one
// image.
#include "product/image.h"

#include <string.h>

enum { WORD = 8 };
_Static_assert(sizeof(AttDim) == 5 * WORD, "AttDim");
_Static_assert(sizeof(AttTensor) == 12 * WORD, "AttTensor");
_Static_assert(sizeof(AttKernel) == (6 + 3 * ATT_N_LEVELS) * WORD, "AttKernel");
_Static_assert(sizeof(AttLaunch) == 7 * WORD, "AttLaunch");
_Static_assert(sizeof(AttGuard) == 3 * WORD, "AttGuard");
_Static_assert(sizeof(AttRule) == 5 * WORD, "AttRule");
_Static_assert(sizeof(AttModule) == (12 + 5 * ATT_N_LEVELS) * WORD, "AttModule");

typedef ImageWords Words;
typedef struct {
    Arena *arena;
    EmitModule *emit;
    const ModuleTables *tables;
    LLVMTypeRef word, pointer;
    Image image;
} Writer;

static void add_number(Writer *writer, Words *words, int64_t number) {
    image_number(&writer->image, words, number);
}

static void add_place(Writer *writer, Words *words, ImagePlace place) {
    image_place(&writer->image, words, place);
}

static void add_text(Writer *writer, Words *words, const char *text) {
    image_text(&writer->image, words, text);
}

static ImagePlace make_numbers(Writer *writer, const int64_t *numbers, int64_t count) {
    return image_numbers(&writer->image, numbers, count);
}

static ImagePlace make_table(Writer *writer, const Words *words) {
    return image_table(&writer->image, words);
}

static LLVMValueRef declare(Writer *writer, const char *name, LLVMTypeRef type) {
    LLVMValueRef known = LLVMGetNamedFunction(writer->emit->module, name);
    return known ? known : LLVMAddFunction(writer->emit->module, name, type);
}

// ---- the parts of an AttModule ----

static ImagePlace write_dims(Writer *writer, const AttModule *module) {
    Words words = {0};
    for (int64_t i = 0; i < module->n_dims; i++) {
        add_text(writer, &words, module->dims[i].name);
        add_number(writer, &words, module->dims[i].extent);
        add_number(writer, &words, module->dims[i].like);
        add_number(writer, &words, module->dims[i].computed);
        add_number(writer, &words, module->dims[i].hidden);
    }
    return make_table(writer, &words);
}

static ImagePlace write_rules(Writer *writer, const AttModule *module) {
    Words words = {0};
    for (int64_t i = 0; i < module->n_rules; i++) {
        const AttRule *rule = &module->rules[i];
        add_number(writer, &words, rule->kind);
        add_number(writer, &words, rule->dim);
        image_formula(&writer->image, &words, &rule->formula);
    }
    return make_table(writer, &words);
}

static void add_guards(Writer *writer, Words *words, const AttGuard *guards, int64_t n) {
    Words own = {0};
    for (int64_t i = 0; i < n; i++) {
        add_number(writer, &own, guards[i].dim);
        add_number(writer, &own, guards[i].least);
        add_number(writer, &own, guards[i].below);
    }
    add_number(writer, words, n);
    add_place(writer, words, n ? make_table(writer, &own) : 0);
}

static ImagePlace write_tensors(Writer *writer, const AttModule *module) {
    Words words = {0};
    for (int64_t i = 0; i < module->n_tensors; i++) {
        const AttTensor *tensor = &module->tensors[i];
        add_text(writer, &words, tensor->name);
        add_number(writer, &words, tensor->elem);
        add_number(writer, &words, tensor->role);
        add_number(writer, &words, tensor->slot);
        add_number(writer, &words, tensor->rank);
        add_place(writer, &words, make_numbers(writer, tensor->dims, tensor->rank));
        add_number(writer, &words, tensor->is_param);
        add_number(writer, &words, tensor->panel);
        add_number(writer, &words, tensor->panel_width);
        add_number(writer, &words, tensor->use);
        add_guards(writer, &words, tensor->guards, tensor->n_guards);
    }
    return make_table(writer, &words);
}

// One function per level: a kernel has code for its own level only.
static void add_functions(Writer *writer, Words *words, int64_t kernel, const char *suffix) {
    const char *name = arena_printf(writer->arena, "%s%s", writer->tables->symbols[kernel], suffix);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(writer->emit->context), NULL, 0, 0);
    for (int64_t level = 0; level < ATT_N_LEVELS; level++) {
        if (level != writer->tables->levels[kernel]) {
            add_number(writer, words, 0);
            continue;
        }
        LLVMValueRef function = declare(writer, name, type);
        LLVMSetVisibility(function, LLVMHiddenVisibility);
        image_function(&writer->image, words, function);
    }
}

static ImagePlace write_kernels(Writer *writer, const AttModule *module) {
    Words words = {0};
    for (int64_t i = 0; i < module->n_kernels; i++) {
        const AttKernel *kernel = &module->kernels[i];
        add_text(writer, &words, kernel->name);
        add_functions(writer, &words, i, "");
        add_functions(writer, &words, i, "_scratch");
        add_number(writer, &words, kernel->n_parallel);
        add_place(writer, &words, make_numbers(writer, kernel->parallel_dims, kernel->n_parallel));
        for (int64_t level = 0; level < ATT_N_LEVELS; level++)
            add_place(writer, &words,
                      kernel->parallel_steps[level]
                          ? make_numbers(writer, kernel->parallel_steps[level], kernel->n_parallel)
                          : 0);
        add_number(writer, &words, kernel->n_args);
        add_number(writer, &words, kernel->n_dims);
        add_number(writer, &words, kernel->is_ordered);
    }
    return make_table(writer, &words);
}

static int64_t count_factors(const AttLaunch *launch, const AttKernel *kernel) {
    int64_t at = 0;
    for (int64_t d = 0; d < kernel->n_dims; d++)
        at += 1 + launch->dim_factors[at];
    return at;
}

static ImagePlace write_launches(Writer *writer, const AttModule *module, int64_t level) {
    Words words = {0};
    for (int64_t i = 0; i < module->n_launches[level]; i++) {
        const AttLaunch *launch = &module->launches[level][i];
        const AttKernel *kernel = &module->kernels[launch->kernel];
        add_number(writer, &words, launch->kernel);
        add_place(writer, &words, make_numbers(writer, launch->tensors, kernel->n_args));
        add_place(writer, &words,
                  make_numbers(writer, launch->dim_factors, count_factors(launch, kernel)));
        add_guards(writer, &words, launch->guards, launch->n_guards);
        add_number(writer, &words, launch->choice);
        add_number(writer, &words, launch->alternative);
    }
    return make_table(writer, &words);
}

static ImagePlace write_module(Writer *writer) {
    const AttModule *module = &writer->tables->module;
    Words words = {0};
    add_number(writer, &words, module->abi);
    add_text(writer, &words, module->entry);
    add_text(writer, &words, module->manifest);
    add_number(writer, &words, module->n_dims);
    add_place(writer, &words, write_dims(writer, module));
    add_number(writer, &words, module->n_tensors);
    add_place(writer, &words, write_tensors(writer, module));
    add_number(writer, &words, module->n_slots);
    add_number(writer, &words, module->n_kernels);
    add_place(writer, &words, write_kernels(writer, module));
    for (int64_t level = 0; level < ATT_N_LEVELS; level++)
        add_number(writer, &words, module->n_launches[level]);
    for (int64_t level = 0; level < ATT_N_LEVELS; level++)
        add_place(writer, &words, write_launches(writer, module, level));
    add_number(writer, &words, module->n_rules);
    add_place(writer, &words, write_rules(writer, module));
    for (int64_t level = 0; level < ATT_N_LEVELS; level++)
        add_number(writer, &words, module->n_choices[level]);
    for (int64_t level = 0; level < ATT_N_LEVELS; level++)
        add_place(writer, &words,
                  make_numbers(writer, module->n_alternatives[level], module->n_choices[level]));
    for (int64_t level = 0; level < ATT_N_LEVELS; level++)
        add_number(writer, &words, module->identity[level]);
    return make_table(writer, &words);
}

// ---- functions ----

static LLVMValueRef begin_function(Writer *writer, const char *name, LLVMTypeRef result,
                                   LLVMTypeRef *params, uint32_t n) {
    LLVMValueRef function =
        LLVMAddFunction(writer->emit->module, name, LLVMFunctionType(result, params, n, false));
    LLVMPositionBuilderAtEnd(writer->emit->builder,
                             LLVMAppendBasicBlockInContext(writer->emit->context, function, ""));
    return function;
}

static void return_call(Writer *writer, const char *callee, LLVMTypeRef result, LLVMValueRef *args,
                        uint32_t n) {
    LLVMTypeRef *params = arena_array(writer->arena, LLVMTypeRef, n);
    for (uint32_t i = 0; i < n; i++)
        params[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(result, params, n, false);
    LLVMValueRef call =
        LLVMBuildCall2(writer->emit->builder, type, declare(writer, callee, type), args, n, "");
    LLVMBuildRet(writer->emit->builder, call);
}

static void write_call(Writer *writer, LLVMValueRef table, const char *symbol) {
    LLVMTypeRef status = LLVMInt32TypeInContext(writer->emit->context);
    LLVMTypeRef params[] = {writer->pointer, writer->pointer};
    LLVMValueRef function = begin_function(writer, symbol, status, params, 2);
    LLVMValueRef args[] = {LLVMGetParam(function, 0), table, LLVMGetParam(function, 1)};
    return_call(writer, "att_module_call", status, args, 3);
}

static bool is_told(const AttDim *dim) {
    return dim->extent < 0 && !dim->computed;
}

static void write_workspace(Writer *writer, LLVMValueRef table, const char *symbol) {
    const AttModule *module = &writer->tables->module;
    LLVMBuilderRef builder = writer->emit->builder;
    LLVMTypeRef *params = arena_array(writer->arena, LLVMTypeRef, module->n_dims + 1);
    uint32_t n = 0, next = 0;
    for (int64_t i = 0; i < module->n_dims; i++)
        if (is_told(&module->dims[i]))
            params[n++] = writer->word;
    LLVMValueRef function = begin_function(
        writer, arena_printf(writer->arena, "%s_workspace", symbol), writer->word, params, n);
    LLVMTypeRef array = LLVMArrayType2(writer->word, (uint64_t)module->n_dims + 1);
    LLVMValueRef extents = LLVMBuildAlloca(builder, array, "");
    for (int64_t i = 0; i < module->n_dims; i++) {
        LLVMValueRef index = LLVMConstInt(writer->word, (uint64_t)i, false);
        LLVMValueRef at = LLVMBuildGEP2(builder, writer->word, extents, &index, 1, "");
        LLVMBuildStore(builder,
                       is_told(&module->dims[i])
                           ? LLVMGetParam(function, next++)
                           : LLVMConstInt(writer->word, (uint64_t)module->dims[i].extent, true),
                       at);
    }
    LLVMValueRef args[] = {table, extents};
    return_call(writer, "att_module_workspace_for", writer->word, args, 2);
}

static void write_manifest(Writer *writer, LLVMValueRef table, const char *symbol) {
    LLVMBuilderRef builder = writer->emit->builder;
    begin_function(writer, arena_printf(writer->arena, "%s_manifest", symbol), writer->pointer,
                   NULL, 0);
    LLVMValueRef index = LLVMConstInt(writer->word, offsetof(AttModule, manifest) / WORD, false);
    LLVMValueRef at = LLVMBuildGEP2(builder, writer->word, table, &index, 1, "");
    LLVMBuildRet(builder, LLVMBuildLoad2(builder, writer->pointer, at, ""));
}

static void write_main(Writer *writer, const char *callee, LLVMValueRef table) {
    LLVMTypeRef status = LLVMInt32TypeInContext(writer->emit->context);
    LLVMTypeRef params[] = {status, writer->pointer};
    LLVMValueRef function = begin_function(writer, "main", status, params, 2);
    LLVMValueRef args[] = {table, LLVMGetParam(function, 0), LLVMGetParam(function, 1)};
    return_call(writer, callee, status, args, 3);
}

bool product_has_params(const ModuleTables *tables) {
    for (int64_t i = 0; i < tables->module.n_tensors; i++)
        if (tables->module.tensors[i].is_param)
            return true;
    return false;
}

static const char *main_of(const ModuleTables *tables, const ProductTrainer *trainer) {
    if (trainer)
        return "att_trainer_main";
    return product_has_params(tables) ? "att_weights_main" : "att_program_main";
}

static Target baseline_of(const Target *target) {
    Target baseline = *target;
    baseline.cpu = strncmp(target->triple, "x86_64", 6) == 0 ? "x86-64" : "generic";
    baseline.features = "";
    return baseline;
}

// The functions of one module.
static void write_functions(Writer *writer, LLVMValueRef table, const char *symbol) {
    write_call(writer, table, symbol);
    write_workspace(writer, table, symbol);
}

bool product_descriptor(Arena *arena, const TablesList *list, const Target *target, bool with_main,
                        const ProductTrainer *trainer, Blob *out, const char **why) {
    Target baseline = baseline_of(target);
    Arena *scratch = arena_new();
    const char *symbol = list->at[0]->symbol;
    EmitModule *emit = emit_module_new(arena, symbol, &baseline);
    Writer writer = {.arena = scratch,
                     .emit = emit,
                     .word = LLVMInt64TypeInContext(emit->context),
                     .pointer = LLVMPointerTypeInContext(emit->context, 0),
                     .image = image_new(scratch, emit)};
    ImagePlace *modules = arena_array(scratch, ImagePlace, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        writer.tables = list->at[i];
        modules[i] = write_module(&writer);
    }
    ImagePlace of_main =
        trainer ? product_write_trainer(&writer.image, list, trainer, modules) : modules[0];
    image_finish(&writer.image);
    for (uint32_t i = 0; i < list->count && !with_main; i++) {
        writer.tables = list->at[i];
        write_functions(&writer, image_address(&writer.image, modules[i]), list->at[i]->symbol);
    }
    if (with_main)
        write_main(&writer, main_of(list->at[0], trainer), image_address(&writer.image, of_main));
    else
        write_manifest(&writer, image_address(&writer.image, modules[0]), symbol);
    arena_free(scratch);
    bool ok = emit_compile(emit, EMIT_OBJECT, out, why);
    emit_module_free(emit);
    return ok;
}
