// SPDX-License-Identifier: Apache-2.0
// What an entry is, as JSON for tools: embedded in every product and returned by F_manifest().
//
//     { "abi": 1, "attc": "0.1.0", "llvm": "19.1.7", "entry": "MultiHead", "source": "mha.attn",
//       "dims": [{ "name": "n", "extent": null, "like": "n" }, ...],
//       "tensors": [{ "name": "X", "role": "input", "elem": "f32", "dims": ["n", "d"],
//                     "is_param": false }, ...],
//       "kernels": [{ "name": "...", "symbol": "attc_..._v4", "level": "x86-64-v4",
//                     "alternative": 0, "schedule": { "kind": "contract", .. },
//                     "schedule_from": "predicted" }, ...],
//       "levels": [{ "name": "x86-64-v4", "launches": 8, "programs": [
//                    { "schedule": { "kind": "program", .. }, "schedule_from": "database" }] },
//                    ...],
//       "functions": [{ "name": "MultiHead_forward", "dims": .., "tensors": [.., { "name":
//                       "saved_Q", "role": "output", "use": "saved", "bytes": "3072 * n", .. }],
//                       "kernels": .., "levels": .. }, ...] }
//
// An extent of null is one of run time, with "computed": "p + n" where it follows from others;
// tensors are inputs and outputs, in calling order. A level has a program for each of the sizes
// that it has code for. Kernels of an alternative other than 0 do what others do, in programs that
// tune themselves; launches of them are not counted. "functions" are there with the gradient.
#include "product/product.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// Texts that are not UTF-8 (file names may be anything) get their odd bytes replaced.
static json_t *json_text(const char *text) {
    json_t *made = json_string(text);
    if (made)
        return made;
    size_t length = strlen(text);
    char *plain = malloc(length + 1);
    for (size_t i = 0; plain && i <= length; i++)
        plain[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    made = json_string(plain);
    free(plain);
    return made;
}

static const char *text_of_rule(const AttModule *module, int64_t like) {
    for (int64_t i = 0; i < module->n_rules; i++)
        if (module->rules[i].kind == ATT_RULE_COMPUTES &&
            module->dims[module->rules[i].dim].like == like)
            return module->rules[i].formula.text;
    ice("product_manifest: nothing computes %s", module->dims[like].name);
}

static json_t *list_dims(const AttModule *module) {
    json_t *list = json_array();
    for (int64_t i = 0; i < module->n_dims; i++) {
        const AttDim *dim = &module->dims[i];
        if (dim->hidden)
            continue;
        json_t *extent = dim->extent < 0 ? json_null() : json_integer(dim->extent);
        json_t *item = json_object();
        json_object_set_new(item, "name", json_text(dim->name));
        json_object_set_new(item, "extent", extent);
        json_object_set_new(item, "like", json_text(module->dims[dim->like].name));
        if (dim->computed)
            json_object_set_new(item, "computed", json_text(text_of_rule(module, dim->like)));
        json_array_append_new(list, item);
    }
    return list;
}

static const char *use_name(int64_t use) {
    static const char *const names[] = {
        [ATT_USE_PLAIN] = "plain",       [ATT_USE_COTANGENT] = "cotangent",
        [ATT_USE_GRADIENT] = "gradient", [ATT_USE_SAVED] = "saved",
        [ATT_USE_RESULT] = "result",     [ATT_USE_FLAG] = "flag",
    };
    return names[use];
}

static json_t *bytes_of(Arena *arena, const AttModule *module, const AttTensor *tensor) {
    const char *text = product_bytes(arena, module, tensor);
    char *end;
    long long bytes = strtoll(text, &end, 10);
    return *end ? json_text(text) : json_integer(bytes);
}

// The entry's own are inputs and outputs and nothing else.
static json_t *list_tensors(Arena *arena, const AttModule *module, bool entry) {
    json_t *list = json_array();
    for (int64_t i = 0; i < module->n_tensors; i++) {
        const AttTensor *tensor = &module->tensors[i];
        if (tensor->role == ATT_WORK)
            continue;
        json_t *dims = json_array(), *item = json_object();
        for (int64_t d = 0; d < tensor->rank; d++)
            json_array_append_new(dims, json_text(module->dims[tensor->dims[d]].name));
        json_object_set_new(item, "name", json_text(tensor->name));
        json_object_set_new(item, "role",
                            json_string(tensor->role == ATT_INPUT ? "input" : "output"));
        json_object_set_new(item, "elem", json_string(elem_name((Elem)tensor->elem)));
        json_object_set_new(item, "dims", dims);
        json_object_set_new(item, "is_param", json_boolean(tensor->is_param));
        if (!entry) {
            json_object_set_new(item, "use", json_string(use_name(tensor->use)));
            json_object_set_new(item, "bytes", bytes_of(arena, module, tensor));
        }
        json_array_append_new(list, item);
    }
    return list;
}

static bool same_guard(const AttGuard *a, const AttGuard *b) {
    return a->dim == b->dim && a->least == b->least && a->below == b->below;
}

// How many of the guards of the kernel's first launch all of its launches have; 0: none is guarded.
static int64_t common_guards(const AttModule *module, int64_t level, int64_t kernel,
                             const AttGuard **guards) {
    int64_t n = -1;
    for (int64_t i = 0; i < module->n_launches[level]; i++) {
        const AttLaunch *launch = &module->launches[level][i];
        int64_t same = 0;
        if (launch->kernel != kernel)
            continue;
        if (n < 0) {
            *guards = launch->guards;
            n = launch->n_guards;
        }
        while (same < n && same < launch->n_guards &&
               same_guard(&(*guards)[same], &launch->guards[same]))
            same++;
        n = same;
    }
    return n < 0 ? 0 : n;
}

// What it is for; below: null where it does not end.
static json_t *list_extents(const AttModule *module, int64_t level, int64_t kernel) {
    const AttGuard *guards;
    int64_t n = common_guards(module, level, kernel, &guards);
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) {
        bool ends = guards[i].below < INT64_MAX;
        json_array_append_new(list, json_pack("{s:o, s:I, s:o}", "dim",
                                              json_text(module->dims[guards[i].dim].name), "least",
                                              (json_int_t)guards[i].least, "below",
                                              ends ? json_integer(guards[i].below) : json_null()));
    }
    return list;
}

static void add_origin(json_t *item, const ScheduleOrigin *origin) {
    json_object_set_new(item, "schedule", json_loads(origin->schedule, 0, NULL));
    json_object_set_new(item, "schedule_from", json_string(origin->from));
}

// Which of the alternatives of a choice it is, 0 where it is the first or there is no choice.
static int64_t alternative_of(const AttModule *module, int64_t level, int64_t kernel) {
    for (int64_t i = 0; i < module->n_launches[level]; i++)
        if (module->launches[level][i].kernel == kernel)
            return module->launches[level][i].alternative;
    return 0;
}

static int64_t count_launches(const AttModule *module, int64_t level) {
    int64_t count = 0;
    for (int64_t i = 0; i < module->n_launches[level]; i++)
        count += module->launches[level][i].alternative == 0;
    return count;
}

static json_t *list_kernels(const ModuleTables *tables) {
    json_t *list = json_array();
    for (int64_t i = 0; i < tables->module.n_kernels; i++) {
        json_t *item = json_object();
        json_object_set_new(item, "name", json_text(tables->kernels[i].name));
        json_object_set_new(item, "symbol", json_string(tables->symbols[i]));
        json_object_set_new(item, "level", json_string(att_level_name((int)tables->levels[i])));
        json_object_set_new(item, "extents", list_extents(&tables->module, tables->levels[i], i));
        json_object_set_new(item, "alternative",
                            json_integer(alternative_of(&tables->module, tables->levels[i], i)));
        add_origin(item, &tables->origins[i]);
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *list_programs(const ModuleTables *tables, int64_t level) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < tables->programs[level].count; i++) {
        json_t *item = json_object();
        add_origin(item, &tables->programs[level].at[i]);
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *list_levels(const ModuleTables *tables) {
    const AttModule *module = &tables->module;
    json_t *list = json_array();
    for (int64_t level = 0; level < ATT_N_LEVELS; level++) {
        if (!module->launches[level])
            continue;
        json_t *item = json_object();
        json_object_set_new(item, "name", json_string(att_level_name((int)level)));
        json_object_set_new(item, "launches", json_integer(count_launches(module, level)));
        json_object_set_new(item, "programs", list_programs(tables, level));
        json_array_append_new(list, item);
    }
    return list;
}

static void add_function(Arena *arena, json_t *object, const ModuleTables *tables, bool entry) {
    json_object_set_new(object, "dims", list_dims(&tables->module));
    json_object_set_new(object, "tensors", list_tensors(arena, &tables->module, entry));
    json_object_set_new(object, "kernels", list_kernels(tables));
    json_object_set_new(object, "levels", list_levels(tables));
}

static json_t *list_functions(Arena *arena, const TablesList *list) {
    json_t *functions = json_array();
    for (uint32_t i = 1; i < list->count; i++) {
        json_t *function = json_object();
        json_object_set_new(function, "name", json_text(list->at[i]->symbol));
        add_function(arena, function, list->at[i], false);
        json_array_append_new(functions, function);
    }
    return functions;
}

char *product_manifest(Arena *arena, const TablesList *list, const char *source) {
    const AttModule *module = &list->at[0]->module;
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    json_t *all = json_object();
    json_object_set_new(all, "abi", json_integer(module->abi));
    json_object_set_new(all, "attc", json_string(ATTC_VERSION));
    json_object_set_new(all, "llvm", json_sprintf("%u.%u.%u", major, minor, patch));
    json_object_set_new(all, "entry", json_text(module->entry));
    json_object_set_new(all, "source", source ? json_text(source) : json_null());
    add_function(arena, all, list->at[0], true);
    if (list->count > 1)
        json_object_set_new(all, "functions", list_functions(arena, list));
    char *text = json_dumps(all, JSON_INDENT(1));
    json_decref(all);
    if (!text)
        ice("product_manifest: the manifest of %s is not JSON", module->entry);
    char *copy = arena_strndup(arena, text, strlen(text));
    free(text);
    return copy;
}
