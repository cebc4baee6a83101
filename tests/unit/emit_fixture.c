// SPDX-License-Identifier: Apache-2.0
#include "emit_fixture.h"

static LLVMValueRef load_pointer(EmitModule *module, LLVMValueRef table, uint64_t index) {
    LLVMTypeRef word = LLVMInt64TypeInContext(module->context);
    LLVMTypeRef pointer = LLVMPointerTypeInContext(module->context, 0);
    LLVMValueRef at = LLVMConstInt(word, index, false);
    LLVMValueRef slot = LLVMBuildGEP2(module->builder, pointer, table, &at, 1, "");
    return LLVMBuildLoad2(module->builder, pointer, slot, "");
}

// for (i = task * step; i < min((task + 1) * step, extents[0]); i++) y[i] = factor * x[i];
static void emit_scale(EmitModule *module, LLVMValueRef function, double factor, int64_t step) {
    LLVMBuilderRef b = module->builder;
    LLVMTypeRef word = LLVMInt64TypeInContext(module->context);
    LLVMTypeRef real = LLVMFloatTypeInContext(module->context);
    LLVMValueRef x = load_pointer(module, LLVMGetParam(function, 0), 0);
    LLVMValueRef y = load_pointer(module, LLVMGetParam(function, 0), 1);
    LLVMValueRef extent = LLVMBuildLoad2(b, word, LLVMGetParam(function, 1), "");
    LLVMValueRef width = LLVMConstInt(word, (uint64_t)step, false);
    LLVMValueRef first = LLVMBuildMul(b, LLVMGetParam(function, 3), width, "");
    LLVMValueRef last = LLVMBuildAdd(b, first, width, "");
    LLVMValueRef short_last = LLVMBuildICmp(b, LLVMIntSLT, extent, last, "");
    last = LLVMBuildSelect(b, short_last, extent, last, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(module->context, function, "");
    LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(module->context, function, "");
    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    LLVMValueRef i = LLVMBuildPhi(b, word, "");
    LLVMValueRef value = LLVMBuildLoad2(b, real, LLVMBuildGEP2(b, real, x, &i, 1, ""), "");
    value = LLVMBuildFMul(b, value, LLVMConstReal(real, factor), "");
    LLVMBuildStore(b, value, LLVMBuildGEP2(b, real, y, &i, 1, ""));
    LLVMValueRef next = LLVMBuildAdd(b, i, LLVMConstInt(word, 1, false), "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, last, ""), loop, after);
    LLVMAddIncoming(i, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){before, loop}, 2);
    LLVMPositionBuilderAtEnd(b, after);
    LLVMBuildRetVoid(b);
}

static void emit_kernel(EmitModule *module, const Kernel *kernel, const Target *target,
                        const char *symbol) {
    (void)target;
    LLVMTypeRef word = LLVMInt64TypeInContext(module->context);
    LLVMTypeRef pointer = LLVMPointerTypeInContext(module->context, 0);
    LLVMTypeRef params[] = {pointer, pointer, pointer, word};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(module->context), params, 4, false);
    const Node *loop = kernel->body.at[0];
    double factor = loop->body.at[0]->stage->terms.at[1].number;
    emit_scale(module, emit_function(module, symbol, type, false), factor, loop->step);
    LLVMTypeRef scratch = LLVMFunctionType(word, params, 1, false);
    emit_function(module, arena_printf(module->arena, "%s_scratch", symbol), scratch, false);
    LLVMBuildRet(module->builder, LLVMConstInt(word, 0, false));
}

const Target fixture_v3 = {
    .name = "x86-64-v3",
    .triple = "x86_64-unknown-linux-gnu",
    .cpu = "x86-64-v3",
    .features = "",
    .level = ATT_LEVEL_X86_64_V3,
    .machine = {.vector_bytes = 32},
    .emit_kernel = emit_kernel,
};
const Target fixture_v4 = {
    .name = "x86-64-v4",
    .triple = "x86_64-unknown-linux-gnu",
    .cpu = "x86-64-v4",
    .features = "",
    .level = ATT_LEVEL_X86_64_V4,
    .machine = {.vector_bytes = 64},
    .emit_kernel = emit_kernel,
};

Kernel *fixture_kernel(Session *session, const char *name, double factor, int64_t step) {
    Names *names = session->names;
    Kernel *kernel = kernel_new(session->arena, names_find(names, name));
    TileDimId e = kernel_add_dim(kernel, names_find(names, "e"), EXTENT_DYNAMIC);
    uint16_t x =
        kernel_add_argument(kernel, names_find(names, "x"), ELEM_F32, PLACE_IN, TILE_DIMS(e));
    uint16_t y =
        kernel_add_argument(kernel, names_find(names, "y"), ELEM_F32, PLACE_OUT, TILE_DIMS(e));
    Node *loop = node_loop(kernel, &kernel->body, LOOP_PARALLEL, e, step);
    Stage *stage = node_compute(kernel, &loop->body, TILE_DIMS(e), e);
    int32_t value = stage_load(kernel, stage, access_plain(kernel, x));
    int32_t number = stage_const(kernel, stage, factor, ELEM_F32);
    int32_t product = stage_op(kernel, stage, OP_MUL, ELEM_F32, value, number, -1);
    stage_sink(kernel, stage, SINK_SET, access_plain(kernel, y), product);
    kernel_verify(kernel, "fixture_kernel");
    return kernel;
}

// ---- the entry ----

static Graph *make_graph(Session *session, const char *entry, Value **middle) {
    Names *names = session->names;
    Graph *graph = graph_new(session, names_find(names, entry));
    DimId n = graph_dim(graph, names_find(names, "n"), EXTENT_DYNAMIC);
    DimId alias = graph_dim(graph, names_find(names, "n.sum"), EXTENT_DYNAMIC);
    DimId d = graph_dim(graph, names_find(names, "d"), 5);
    DimId m = graph_dim(graph, names_find(names, "m"), EXTENT_DYNAMIC);
    graph->dims.at[m].like = n;
    graph->dims.at[alias].like = n;
    DimList rows = {2, {n, d}}, memory = {1, {m}}, columns = {1, {d}};
    Value *x = graph_input(graph, names_find(names, "X"), ELEM_F32, rows, ROLE_DATA);
    graph_input(graph, names_find(names, "U"), ELEM_I32, memory, ROLE_DATA);
    graph_input(graph, names_find(names, "layer.0.int"), ELEM_BF16, columns, ROLE_PARAM);
    *middle = graph_map2(graph, OP_MUL, x, graph_const(graph, 2, ELEM_F32));
    Value *y = graph_map2(graph, OP_MUL, *middle, graph_const(graph, 3, ELEM_F32));
    graph_output(graph, names_find(names, "Y"), y, rows);
    return graph;
}

static MemoryOrder plain(DimList order) {
    return (MemoryOrder){.order = order, .panel = DIM_NONE};
}

static Plan *make_plan(Session *session, Graph *graph, Value *middle) {
    Arena *arena = session->arena;
    Fusion *fusion = arena_new_of(arena, Fusion);
    fusion->graph = graph;
    Plan *plan = arena_new_of(arena, Plan);
    plan->fusion = fusion;
    DimList rows = graph->outputs.at[0].order, orders[] = {rows, {1, {3}}, {1, {2}}};
    for (uint32_t i = 0; i < 3; i++)
        vec_push(arena, &plan->buffers,
                 (Buffer){.value = graph->inputs.at[i],
                          .memory = plain(orders[i]),
                          .role = BUFFER_INPUT,
                          .last_group = 1});
    vec_push(arena, &plan->buffers,
             (Buffer){.value = graph->outputs.at[0].value,
                      .memory = plain(rows),
                      .role = BUFFER_OUTPUT,
                      .first_group = 1,
                      .last_group = 1});
    vec_push(
        arena, &plan->buffers,
        (Buffer){.value = middle, .memory = plain(rows), .role = BUFFER_WORK, .last_group = 1});
    plan->buffers.at[4].memory.order.at[0] = 1; // over the alias of n
    plan->n_slots = 1;
    return plan;
}

static Launch make_launch(Session *session, uint32_t kernel, uint32_t from, uint32_t to) {
    Launch launch = {.kernel = kernel};
    launch.buffers = arena_array(session->arena, uint32_t, 2);
    launch.buffers[0] = from;
    launch.buffers[1] = to;
    launch.dims = arena_new_of(session->arena, DimProduct);
    *launch.dims = (DimProduct){2, {1, 2}}; // the alias of n, and d
    return launch;
}

TileProgram *fixture_program(Session *session, const Target *target, const char *entry) {
    Value *middle;
    Graph *graph = make_graph(session, entry, &middle);
    TileProgram *program = arena_new_of(session->arena, TileProgram);
    program->plan = make_plan(session, graph, middle);
    int64_t step = target->machine.vector_bytes / 2;
    vec_push(session->arena, &program->kernels, fixture_kernel(session, "twice", 2, step));
    vec_push(session->arena, &program->kernels, fixture_kernel(session, "thrice", 3, step));
    vec_push(session->arena, &program->launches, make_launch(session, 0, 0, 4));
    vec_push(session->arena, &program->launches, make_launch(session, 1, 4, 3));
    return program;
}

bool fixture_emit(Session *session, TileProgram *program, const Target *target,
                  const CacheOptions *cache, KernelObject *out, const char **why) {
    return emit_kernels(session, &program, &target, 1, cache, out, why);
}
