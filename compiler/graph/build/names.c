// SPDX-License-Identifier: Apache-2.0
// Tensors of an inlined def by name, and the full names of trained ones.
//
// A trained tensor is called after the calls and loops on the way to it, `layer.0.attend.P_q`;
// these are the names in checkpoints. ast/resolve/paths.c has seen to it that the calls and loops
// of a block have parts of their own; the rounds of a loop have numbers, unless it is `shared`. So
// one name is one tensor, and only a tensor of the file can meet another of its name.
#include <string.h>

#include "graph/build/build.h"

static uint64_t key_of(Name name) {
    return (uint64_t)(uintptr_t)name;
}

// ---- inputs ------------------------------------------------------------------------------------

static void report_two_inputs(const Build *build, const Value *first, const Tensor *second) {
    Diag *diag = diag_error(build->session->diags, second->name.span,
                            "'%s' would take two tensors named '%s'", build->graph->entry,
                            second->name.name);
    diag_note(diag, first->declaration->name.span, "the other is here");
    diag_hint(diag, "give one of them another name");
}

Value *names_input(Build *build, const Tensor *declaration, Name name, DimList order,
                   InputRole role) {
    Value *value = map_get(build->inputs, key_of(name));
    if (value)
        ice("build: two inputs are named '%s'", name);
    value = graph_input(build->graph, name, declaration->elem, order, role);
    value->declaration = declaration;
    value->origin = declaration->span;
    map_put(build->inputs, key_of(name), value);
    return value;
}

// ---- trained tensors ---------------------------------------------------------------------------

// The numbers of an initialiser. A first value that cannot be is told of at its first use.
static void find_first(Frame *frame, const Tensor *declaration, double *numbers) {
    Build *build = frame->build;
    for (int i = 0; i < 2 && declaration->init_args[i]; i++)
        if (!build_first_value(frame, declaration->init_args[i], &numbers[i]))
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

// The tensor of this name that is there already; a number after another declaration of it was told
// of.
static Value *trained_find(Build *build, const Tensor *declaration, Name name,
                           const DimList *order) {
    Value *old = map_get(build->inputs, key_of(name));
    if (!old)
        return NULL;
    if (old->declaration != declaration)
        report_two_inputs(build, old, declaration);
    else if (dims_equal(&old->dims, order))
        return old;
    else
        diag_error(build->session->diags, declaration->span,
                   "'%s' is shared by calls that give its dims different meanings", name);
    return graph_const(build->graph, 0, declaration->elem);
}

Value *build_trained(Frame *frame, const Tensor *declaration) {
    Build *build = frame->build;
    Name name = names_find(build->session->names,
                           arena_printf(build->arena, "%s%s", frame->path, declaration->name.name));
    DimList order = frame_dims(frame, &declaration->result, declaration->span);
    Value *old = trained_find(build, declaration, name, &order);
    if (old)
        return old;
    double first[2] = {0};
    find_first(frame, declaration, first);
    Value *value = names_input(build, declaration, name, order, ROLE_PARAM);
    memcpy(value->first, first, sizeof first);
    return value;
}

// A tensor of the file, read over the dims that its names stand for in this frame.
static Value *global_find(Frame *frame, Ident name) {
    Build *build = frame->build;
    for (uint32_t i = 0; i < build->program->params.count; i++) {
        const Tensor *tensor = build->program->params.at[i];
        if (tensor->name.name != name.name)
            continue;
        Value *value = build_trained(build->top, tensor);
        DimMap here = {0};
        for (uint32_t k = 0; k < tensor->result.count && k < value->dims.count; k++) {
            Name dim = tensor->result.at[k];
            dimmap_add(&here, frame_dim(build->top, dim), frame_dim(frame, dim));
        }
        return frame_rename(frame, value, &here, name.span);
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
