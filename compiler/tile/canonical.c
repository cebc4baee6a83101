// SPDX-License-Identifier: Apache-2.0
// The canonical form of a kernel: everything but names, as numbers in the order of their meaning.
// Kernels whose forms are the same numbers are one kernel.
#include <string.h>

#include "tile/tile.h"

typedef struct {
    Arena *arena;
    KernelForm form;
} Writer;

static void put(Writer *w, uint64_t number) {
    vec_push(w->arena, &w->form, number);
}

static void put_double(Writer *w, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    put(w, bits);
}

static void put_args(Writer *w, const int32_t *args, size_t count) {
    for (size_t i = 0; i < count; i++)
        put(w, (uint64_t)args[i]);
}

static void put_access(Writer *w, const Access *access) {
    put(w, access->buffer);
    put(w, access->rank);
    for (int i = 0; i < access->rank; i++) {
        put(w, access->index[i].dim);
        put(w, (uint64_t)access->index[i].offset);
        put(w, (uint64_t)access->index[i].term);
    }
    put(w, access->checked);
    if (access->checked)
        put_double(w, access->fill);
}

static void put_term(Writer *w, const Term *term) {
    put(w, term->kind);
    put(w, term->elem);
    switch (term->kind) {
    case TERM_LOAD:
        put_access(w, &term->load);
        break;
    case TERM_CONST:
        put_double(w, term->number);
        break;
    case TERM_INDEX:
    case TERM_EXTENT:
        put(w, term->dim);
        break;
    case TERM_OP:
        put(w, term->op);
        put_args(w, term->args, sizeof term->args / sizeof *term->args);
        break;
    }
}

static void put_contraction(Writer *w, const Stage *stage) {
    put_access(w, &stage->a);
    put_access(w, &stage->b);
    put_access(w, &stage->c);
    put(w, stage->rows);
    put(w, (uint64_t)stage->row_block);
    put(w, (uint64_t)stage->lane_block);
    put(w, stage->cols);
    put(w, (uint64_t)stage->col_block);
    put(w, stage->in_order);
}

static void put_order(Writer *w, const Stage *stage) {
    put_access(w, &stage->a);
    put_access(w, &stage->c);
    put(w, stage->along);
    put(w, stage->places);
    put(w, stage->descending);
    for (int i = 0; i < ORDER_WORK; i++)
        put(w, stage->work[i]);
}

static void put_stage(Writer *w, const Stage *stage) {
    put(w, stage->kind);
    put(w, stage->n_dims);
    for (int i = 0; i < stage->n_dims; i++)
        put(w, stage->dims[i]);
    put(w, stage->lanes);
    if (stage->kind == STAGE_CONTRACT) {
        put_contraction(w, stage);
        return;
    }
    if (stage->kind == STAGE_ORDER) {
        put_order(w, stage);
        return;
    }
    put(w, stage->pad);
    put(w, stage->terms.count);
    for (uint32_t i = 0; i < stage->terms.count; i++)
        put_term(w, &stage->terms.at[i]);
    put(w, stage->sinks.count);
    for (uint32_t i = 0; i < stage->sinks.count; i++) {
        put(w, stage->sinks.at[i].mode);
        put(w, (uint64_t)stage->sinks.at[i].term);
        put_access(w, &stage->sinks.at[i].to);
    }
}

static void put_bound(Writer *w, const Bound *bound) {
    put(w, bound->kind);
    switch (bound->kind) {
    case BOUND_NUMBER:
        put(w, (uint64_t)bound->number);
        break;
    case BOUND_LO:
    case BOUND_HI:
    case BOUND_EXTENT:
    case BOUND_PART:
        put(w, bound->dim);
        put(w, (uint64_t)bound->number);
        break;
    case BOUND_LOAD:
        put_access(w, &bound->load);
        put(w, (uint64_t)bound->number);
        break;
    case BOUND_MIN:
    case BOUND_MAX:
    case BOUND_ADD:
        put_args(w, bound->args, sizeof bound->args / sizeof *bound->args);
        break;
    case BOUND_ROUND:
        put_args(w, bound->args, 1);
        put(w, (uint64_t)bound->number);
        break;
    }
}

static void put_range(Writer *w, const Node *range) {
    put(w, range->dim);
    put(w, range->bounds.count);
    for (uint32_t i = 0; i < range->bounds.count; i++)
        put_bound(w, &range->bounds.at[i]);
    put(w, (uint64_t)range->lo);
    put(w, (uint64_t)range->hi);
    put(w, (uint64_t)range->align);
}

static void put_nodes(Writer *w, const NodeList *body) {
    put(w, body->count);
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        put(w, node->kind);
        switch (node->kind) {
        case NODE_LOOP:
            put(w, node->loop);
            put(w, node->dim);
            put(w, (uint64_t)node->step);
            put_nodes(w, &node->body);
            break;
        case NODE_RANGE:
            put_range(w, node);
            put_nodes(w, &node->body);
            break;
        case NODE_SCRATCH:
            put(w, node->buffer);
            break;
        case NODE_STAGE:
            put_stage(w, node->stage);
            break;
        }
    }
}

static void put_buffer(Writer *w, const TileBuffer *buffer) {
    put(w, buffer->elem);
    put(w, buffer->place);
    put(w, buffer->rank);
    for (int i = 0; i < buffer->rank; i++)
        put(w, buffer->dims[i]);
    put(w, buffer->panel_dim);
    put(w, (uint64_t)buffer->panel_width);
    put(w, (uint64_t)buffer->gap);
    put(w, (uint64_t)buffer->takes);
    put(w, buffer->has_initial);
    if (buffer->has_initial)
        put_double(w, buffer->initial);
    put(w, (uint64_t)buffer->kept_by);
}

KernelForm kernel_form(Arena *arena, const Kernel *kernel) {
    Writer w = {.arena = arena};
    put(&w, kernel->dims.count);
    for (uint32_t i = 0; i < kernel->dims.count; i++)
        put(&w, (uint64_t)kernel->dims.at[i].extent);
    put(&w, kernel->n_args);
    put(&w, kernel->buffers.count);
    for (uint32_t i = 0; i < kernel->buffers.count; i++)
        put_buffer(&w, &kernel->buffers.at[i]);
    put(&w, kernel->schedule.prefetch);
    put_nodes(&w, &kernel->body);
    return w.form;
}

// ---- what is kept for a form ----

struct FormTable {
    Arena *arena;
    Map *by_hash; // -> FormEntry, the first of those whose forms have the hash
};

typedef struct FormEntry {
    KernelForm form;
    void *kept;
    struct FormEntry *next;
} FormEntry;

FormTable *form_table_new(Arena *arena) {
    FormTable *table = arena_new_of(arena, FormTable);
    table->arena = arena;
    table->by_hash = map_new(arena);
    return table;
}

static uint64_t form_hash(const KernelForm *form) {
    return hash_bytes(0, form->at, form->count * sizeof *form->at);
}

void **form_table_at(FormTable *table, const KernelForm *form) {
    uint64_t hash = form_hash(form);
    FormEntry *first = map_get(table->by_hash, hash);
    for (FormEntry *entry = first; entry; entry = entry->next)
        if (entry->form.count == form->count &&
            !memcmp(entry->form.at, form->at, form->count * sizeof *form->at))
            return &entry->kept;
    FormEntry *entry = arena_new_of(table->arena, FormEntry);
    entry->form.at = arena_copy(table->arena, form->at, form->count * sizeof *form->at);
    entry->form.count = form->count;
    entry->next = first;
    map_put(table->by_hash, hash, entry);
    return &entry->kept;
}

uint64_t kernel_canonical_hash(const Kernel *kernel) {
    Arena *arena = arena_new();
    KernelForm form = kernel_form(arena, kernel);
    uint64_t hash = form_hash(&form);
    arena_free(arena);
    return hash;
}
