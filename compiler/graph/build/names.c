// SPDX-License-Identifier: Apache-2.0
// Tensors of an inlined def by name, and the full names of trained ones.
//
// A trained tensor is called after the calls and loops on the way to it, `layer.0.attend.P_q`;
// these are the names in checkpoints. A call gives its label or its def's name, numbered when used
// again in the same place (ffn, ffn_1); a loop gives its variable and the number, without the
// number when `shared`, so that all iterations find the same tensor.
#include "graph/build/build.h"

NameScope *names_scope(Build *build, const char *path) {
    NameScope *scope = arena_new_of(build->arena, NameScope);
    scope->path = path;
    return scope;
}

const char *names_call_path(Build *build, NameScope *scope, Name label) {
    for (uint32_t i = 0; i < scope->uses.count; i++)
        if (scope->uses.at[i].label == label)
            return arena_printf(build->arena, "%s%s_%u.", scope->path, label,
                                scope->uses.at[i].count++);
    vec_push(build->arena, &scope->uses, (LabelUse){label, 1});
    return arena_printf(build->arena, "%s%s.", scope->path, label);
}

// ---- trained tensors ---------------------------------------------------------------------------

static bool name_is_free(const Build *build, Name name) {
    const Graph *graph = build->graph;
    Name written = graph_source_name(graph, name);
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph_source_name(graph, graph->inputs.at[i]->name) == written)
            return false;
    return true;
}

static Value *trained_find(const Build *build, Name name, const Tensor *declaration) {
    for (uint32_t i = 0; i < build->trained.count; i++) {
        const Trained *old = &build->trained.at[i];
        if (old->name == name && old->declaration == declaration)
            return old->value;
    }
    return NULL;
}

static Value *trained_new(Build *build, Name name, const Tensor *declaration, DimList order) {
    Name unique = name;
    for (uint32_t number = 1; !name_is_free(build, unique); number++)
        unique =
            names_find(build->session->names, arena_printf(build->arena, "%s_%u", name, number));
    Value *value = graph_input(build->graph, unique, declaration->elem, order, ROLE_PARAM);
    value->declaration = declaration;
    value->origin = declaration->span;
    vec_push(build->arena, &build->trained, (Trained){name, declaration, value});
    return value;
}

Value *build_trained(Frame *frame, const Tensor *declaration) {
    Build *build = frame->build;
    const char *path = frame->names ? frame->names->path : "";
    Name name = names_find(build->session->names,
                           arena_printf(build->arena, "%s%s", path, declaration->name.name));
    DimList order = frame_dims(frame, &declaration->result, declaration->span);
    Value *old = trained_find(build, name, declaration);
    if (!old)
        return trained_new(build, name, declaration, order);
    if (!dims_equal(&old->dims, &order))
        diag_error(build->session->diags, declaration->span,
                   "'%s' is shared by calls that give its dims different meanings", name);
    return old;
}

// A tensor of the file, read over the dims that its names stand for in this frame.
static Value *global_find(Frame *frame, Ident name) {
    Build *build = frame->build;
    for (uint32_t i = 0; i < build->program->params.count; i++) {
        const Tensor *tensor = build->program->params.at[i];
        if (tensor->name.name != name.name)
            continue;
        Value *value = build_trained(build->top, tensor);
        for (uint32_t k = 0; k < tensor->result.count; k++) {
            Name dim = tensor->result.at[k];
            value = frame_rename(frame, value, frame_dim(build->top, dim), frame_dim(frame, dim),
                                 name.span);
        }
        return value;
    }
    return NULL;
}

// ---- by name -----------------------------------------------------------------------------------

static Local *local_find(const Frame *frame, Name name) {
    for (uint32_t i = 0; i < frame->locals.count; i++)
        if (frame->locals.at[i].name == name)
            return &frame->locals.at[i];
    return NULL;
}

Value *frame_find(Frame *frame, Ident name) {
    const Local *local = local_find(frame, name.name);
    Value *value = local ? local->value : global_find(frame, name);
    if (!value)
        ice("build: no tensor '%s' in '%s'", name.name, frame->def->name.name);
    return value;
}

void frame_assign(Frame *frame, Name name, Value *value) {
    Local *local = local_find(frame, name);
    if (local)
        local->value = value;
    else
        vec_push(frame->build->arena, &frame->locals, (Local){name, value});
}
