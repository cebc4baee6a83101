// SPDX-License-Identifier: Apache-2.0
// Tensors of an inlined def by name, and the full names of trained ones.
//
// A trained tensor is called after the calls and loops on the way to it, `layer.0.attend.P_q`;
// these are the names in checkpoints. A call gives its label or its def's name, numbered when used
// again in the same place (ffn, ffn_1); a loop gives its variable and the number, without the
// number when `shared`, so that all iterations find the same tensor.
#include "graph/build/build.h"

static uint64_t key_of(Name name) {
    return (uint64_t)(uintptr_t)name;
}

NameScope *names_scope(Build *build, const char *path) {
    NameScope *scope = arena_new_of(build->arena, NameScope);
    scope->path = path;
    scope->uses = map_new(build->arena);
    return scope;
}

const char *names_call_path(Build *build, NameScope *scope, Name label) {
    uint32_t *uses = map_get(scope->uses, key_of(label));
    if (uses)
        return arena_printf(build->arena, "%s%s_%u.", scope->path, label, (*uses)++);
    uses = arena_new_of(build->arena, uint32_t);
    *uses = 1;
    map_put(scope->uses, key_of(label), uses);
    return arena_printf(build->arena, "%s%s.", scope->path, label);
}

// ---- inputs ------------------------------------------------------------------------------------

static bool name_is_free(const Build *build, Name name) {
    return !map_get(build->inputs, key_of(graph_source_name(build->graph, name)));
}

Value *names_input(Build *build, Name name, Elem elem, DimList order, InputRole role) {
    Value *value = graph_input(build->graph, name, elem, order, role);
    map_put(build->inputs, key_of(graph_source_name(build->graph, name)), value);
    return value;
}

// ---- trained tensors ---------------------------------------------------------------------------

static Value *trained_find(const Build *build, Name name, const Tensor *declaration) {
    for (const Trained *old = map_get(build->trained, key_of(name)); old; old = old->next)
        if (old->declaration == declaration)
            return old->value;
    return NULL;
}

// A first value that cannot be is told of at its first use.
static void check_init(Frame *frame, const Tensor *declaration) {
    Build *build = frame->build;
    double numbers[2] = {0};
    for (int i = 0; i < 2 && declaration->init_args[i]; i++)
        if (!build_number(frame, declaration->init_args[i], &numbers[i]))
            return;
    Span at;
    const char *problem = tensor_init_problem(build->arena, declaration, numbers, &at);
    for (uint32_t i = 0; problem && i < build->misfits.count; i++)
        if (build->misfits.at[i] == declaration)
            return;
    if (!problem)
        return;
    vec_push(build->arena, &build->misfits, declaration);
    frame_note_calls(frame, diag_error(build->session->diags, at, "%s", problem));
}

static Value *trained_new(Build *build, Name name, const Tensor *declaration, DimList order) {
    Name unique = name;
    for (uint32_t number = 1; !name_is_free(build, unique); number++)
        unique =
            names_find(build->session->names, arena_printf(build->arena, "%s_%u", name, number));
    Value *value = names_input(build, unique, declaration->elem, order, ROLE_PARAM);
    value->declaration = declaration;
    value->origin = declaration->span;
    Trained trained = {declaration, value, map_get(build->trained, key_of(name))};
    map_put(build->trained, key_of(name), arena_copy(build->arena, &trained, sizeof trained));
    return value;
}

Value *build_trained(Frame *frame, const Tensor *declaration) {
    Build *build = frame->build;
    const char *path = frame->names ? frame->names->path : "";
    Name name = names_find(build->session->names,
                           arena_printf(build->arena, "%s%s", path, declaration->name.name));
    DimList order = frame_dims(frame, &declaration->result, declaration->span);
    Value *old = trained_find(build, name, declaration);
    if (!old) {
        check_init(frame, declaration);
        return trained_new(build, name, declaration, order);
    }
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

Value *frame_find(Frame *frame, Ident name) {
    Value *value = map_get(frame->locals, key_of(name.name));
    if (!value)
        value = global_find(frame, name);
    if (!value)
        ice("build: no tensor '%s' in '%s'", name.name, frame->def->name.name);
    return value;
}

void frame_assign(Frame *frame, Name name, Value *value) {
    map_put(frame->locals, key_of(name), value);
}
