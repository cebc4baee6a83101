// SPDX-License-Identifier: Apache-2.0
// What a program that trains generates with: the def `Logits` of the file, as a step along its
// sequence (language.md 11.5, 14.6), for one sequence, with the trained tensors of the entry.
#include "driver/driver.h"

#include <string.h>

typedef struct {
    Options *options;
    Session *early;
    const Program *program;
    const Def *def;
    const Graph *entry;
    Graph *whole;        // of the def
    const Value *tokens; // its data
    Decoding step;
} Generation;

static bool refuse(const Generation *g, Span at, const char *why) {
    diag_remark(g->options->session->diags, at, "the program does not generate: %s", why);
    return false;
}

// ---- the def by itself -------------------------------------------------------------------------

// The dims of sequences: all but the last of the first argument that is data.
static NameList batch_dims(const Generation *g) {
    NameList dims = {0};
    for (uint32_t i = 0; i < g->def->params.count && !dims.count; i++)
        if (!g->def->params.at[i].is_param)
            dims = g->def->params.at[i].result;
    dims.count -= dims.count != 0;
    return dims;
}

// One in which there is one sequence, and the arguments of the def alone are data. What is wrong is
// told nowhere.
static Session *open_session(const Generation *g) {
    const Session *early = g->early;
    Arena *arena = early->arena;
    NameList batch = batch_dims(g);
    Session *session = program_untold(early, g->program, &batch);
    session->diags = diags_new(arena, early->sources);
    for (uint32_t i = 0; i < batch.count; i++)
        vec_push(arena, &session->overrides, ((DimExtent){batch.at[i], 1}));
    for (uint32_t i = 0; i < g->def->params.count; i++)
        if (namelist_has(&early->data, g->def->params.at[i].name.name))
            vec_push(arena, &session->data, g->def->params.at[i].name.name);
    return session;
}

static bool build_whole(Generation *g) {
    Session *session = open_session(g);
    EntryOptions options = {.entry = g->def->name.name};
    g->whole = graph_build(session, g->program, &options);
    if (!g->whole || diags_errors(session->diags))
        return refuse(g, g->def->name.span, "Logits cannot be compiled by itself");
    g->whole->session = g->early;
    return true;
}

// One argument of tokens, and perhaps a seed; logits over its dims and those of a vocabulary.
static bool find_tokens(Generation *g) {
    for (uint32_t i = 0; i < g->whole->inputs.count; i++) {
        const Value *input = g->whole->inputs.at[i];
        bool seed = !input->dims.count && strcmp(input->name, "seed") == 0;
        if (input->role == ROLE_PARAM || seed)
            continue;
        if (g->tokens || !input->dims.count || input->elem != ELEM_I32)
            return refuse(g, input->origin,
                          "the data of Logits are tokens of i32, and it may have a seed[]");
        g->tokens = input;
    }
    const DimList *order = &g->whole->outputs.at[0].order;
    DimList told = g->tokens ? g->tokens->dims : (DimList){0}, logits = *order;
    logits.count -= logits.count != 0;
    if (!g->tokens || !dims_same_order(&logits, &told) ||
        g->whole->outputs.at[0].value->elem != ELEM_F32)
        return refuse(g, g->def->name.span,
                      "the result of Logits is an f32 over the dims of its tokens, then that of "
                      "the vocabulary");
    return true;
}

static bool make_step(Generation *g) {
    g->step = graph_decode(g->whole, g->tokens->dims.at[g->tokens->dims.count - 1]);
    return g->step.graph || refuse(g, g->step.origin, g->step.why);
}

// ---- trained tensors ---------------------------------------------------------------------------

static bool same_shape(const Generation *g, const Value *a, const Value *b) {
    bool same = a->dims.count == b->dims.count;
    for (uint32_t i = 0; i < a->dims.count && same; i++)
        same = g->whole->dims.at[a->dims.at[i]].extent == g->entry->dims.at[b->dims.at[i]].extent;
    return same;
}

// A tensor of the entry: behind the path of a call, or one of the file or of an argument.
static const Value *find_param(const Generation *g, const Value *param, const char *path) {
    Names *names = g->early->names;
    const Value *found = graph_find_input(
        g->entry, names_find(names, arena_printf(g->early->arena, "%s%s", path, param->name)));
    return found ? found : graph_find_input(g->entry, param->name);
}

// The first that the entry lacks; NULL: none.
static const Value *missing_param(const Generation *g, const char *path) {
    for (uint32_t i = 0; i < g->whole->inputs.count; i++) {
        const Value *param = g->whole->inputs.at[i];
        const Value *found = param->role == ROLE_PARAM ? find_param(g, param, path) : NULL;
        if (param->role == ROLE_PARAM && (!found || !same_shape(g, param, found)))
            return param;
    }
    return NULL;
}

// What comes before the def's own name for a tensor in the entry's name; NULL: it has another.
static const char *path_before(const Generation *g, Name full, Name own) {
    size_t all = strlen(full), end = strlen(own);
    bool ends = all > end + 1 && full[all - end - 1] == '.' && strcmp(full + all - end, own) == 0;
    return ends ? arena_printf(g->early->arena, "%.*s", (int)(all - end), full) : NULL;
}

// The path of the entry's first call of the def: `Logits.`. NULL after a remark.
static const char *find_path(const Generation *g) {
    const Value *lacks = missing_param(g, "");
    for (uint32_t i = 0; i < g->entry->inputs.count && lacks; i++) {
        const char *path = path_before(g, g->entry->inputs.at[i]->name, lacks->name);
        if (path && !missing_param(g, path))
            return path;
    }
    if (lacks)
        refuse(g, g->def->name.span,
               arena_printf(g->early->arena, "%s has no trained tensor %s of Logits",
                            g->entry->entry, lacks->name));
    return lacks ? NULL : "";
}

// ---- tables ------------------------------------------------------------------------------------

static int64_t number_of(const ProductTrainer *trainer, Name name) {
    uint32_t number = 0;
    while (trainer->params.at[number].name != name)
        number++;
    return number;
}

static void note_params(const Generation *g, const ProductTrainer *trainer, const char *path,
                        AttDecode *out) {
    Arena *arena = g->options->session->arena;
    int64_t *params = arena_array(arena, int64_t, g->whole->inputs.count);
    int64_t *tensors = arena_array(arena, int64_t, g->whole->inputs.count);
    for (uint32_t i = 0; i < g->whole->inputs.count; i++) {
        const Value *param = g->whole->inputs.at[i];
        if (param->role != ROLE_PARAM)
            continue;
        params[out->n_params] = number_of(trainer, find_param(g, param, path)->name);
        tensors[out->n_params++] = i;
    }
    out->params = params;
    out->param_tensor = tensors;
}

static void note_caches(const Generation *g, AttDecode *out) {
    Arena *arena = g->options->session->arena;
    uint32_t n_inputs = g->step.graph->inputs.count;
    out->n_caches = g->step.caches.count;
    int64_t *inputs = arena_array(arena, int64_t, out->n_caches);
    int64_t *rows = arena_array(arena, int64_t, out->n_caches);
    int64_t *places = arena_array(arena, int64_t, out->n_caches);
    for (int64_t i = 0; i < out->n_caches; i++) {
        const DecodeCache *cache = &g->step.caches.at[i];
        const DimList *dims = &g->step.graph->inputs.at[cache->input]->dims;
        inputs[i] = cache->input;
        rows[i] = n_inputs + cache->output;
        places[i] = -1;
        for (uint32_t k = 0; k < dims->count; k++)
            if (dims->at[k] == cache->dim)
                places[i] = k;
    }
    out->cache_input = inputs;
    out->row_output = rows;
    out->cache_dim = places;
}

static void note_tensors(const Generation *g, AttDecode *out) {
    const Dim *n = &g->whole->dims.at[g->tokens->dims.at[g->tokens->dims.count - 1]];
    while (g->whole->inputs.at[out->token] != g->tokens)
        out->token++;
    out->position = g->step.position;
    out->logits = g->step.graph->inputs.count;
    out->length = n->extent == EXTENT_DYNAMIC ? 0 : n->extent;
}

ProductDecode *driver_decode(Options *options, Session *early, const Program *program,
                             const Graph *entry, const ProductTrainer *trainer,
                             Compilation *built) {
    Generation g = {.options = options, .early = early, .program = program, .entry = entry};
    g.def = program_find_def(program, names_find(early->names, "Logits"));
    if (!g.def || !build_whole(&g) || !find_tokens(&g) || !make_step(&g))
        return NULL;
    const char *path = find_path(&g);
    if (!path)
        return NULL;
    ProductDecode *decode = arena_new_of(options->session->arena, ProductDecode);
    note_params(&g, trainer, path, &decode->facts);
    note_tensors(&g, &decode->facts);
    note_caches(&g, &decode->facts);
    *built = (Compilation){.program = program, .built = g.step.graph};
    return decode;
}
