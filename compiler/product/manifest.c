// SPDX-License-Identifier: Apache-2.0
// What an entry is, as JSON for tools: embedded in every product and returned by F_manifest().
//
//     { "abi": 1, "attc": "0.1.0", "llvm": "19.1.7", "entry": "MultiHead", "source": "mha.attn",
//       "dims": [{ "name": "n", "extent": null, "like": "n" }, ...],
//       "tensors": [{ "name": "X", "role": "input", "elem": "f32", "dims": ["n", "d"],
//                     "is_param": false }, ...],
//       "kernels": [{ "name": "...", "symbol": "attc_..._v4", "level": "x86-64-v4" }, ...],
//       "levels": [{ "name": "x86-64-v4", "launches": 8 }, ...] }
//
// An extent of null is one of run time, with "computed": "p + n" where it follows from others;
// tensors are inputs and outputs, in calling order.
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

static const char *level_name(int64_t level) {
    static const char *const names[ATT_N_LEVELS] = {
        [ATT_LEVEL_X86_64_V3] = "x86-64-v3",
        [ATT_LEVEL_X86_64_V4] = "x86-64-v4",
        [ATT_LEVEL_AARCH64] = "aarch64",
    };
    return names[level];
}

static const char *text_of_rule(const AttModule *module, int64_t like) {
    for (int64_t i = 0; i < module->n_rules; i++)
        if (module->rules[i].kind == ATT_RULE_COMPUTES &&
            module->dims[module->rules[i].dim].like == like)
            return module->rules[i].text;
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

static json_t *list_tensors(const AttModule *module) {
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
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *list_kernels(const ModuleTables *tables) {
    json_t *list = json_array();
    for (int64_t i = 0; i < tables->module.n_kernels; i++) {
        json_t *item = json_object();
        json_object_set_new(item, "name", json_text(tables->kernels[i].name));
        json_object_set_new(item, "symbol", json_string(tables->symbols[i]));
        json_object_set_new(item, "level", json_string(level_name(tables->levels[i])));
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *list_levels(const AttModule *module) {
    json_t *list = json_array();
    for (int64_t level = 0; level < ATT_N_LEVELS; level++) {
        if (!module->launches[level])
            continue;
        json_t *item = json_object();
        json_object_set_new(item, "name", json_string(level_name(level)));
        json_object_set_new(item, "launches", json_integer(module->n_launches[level]));
        json_array_append_new(list, item);
    }
    return list;
}

char *product_manifest(Arena *arena, const ModuleTables *tables, const char *source) {
    const AttModule *module = &tables->module;
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    json_t *all = json_object();
    json_object_set_new(all, "abi", json_integer(module->abi));
    json_object_set_new(all, "attc", json_string(ATTC_VERSION));
    json_object_set_new(all, "llvm", json_sprintf("%u.%u.%u", major, minor, patch));
    json_object_set_new(all, "entry", json_text(module->entry));
    json_object_set_new(all, "source", source ? json_text(source) : json_null());
    json_object_set_new(all, "dims", list_dims(module));
    json_object_set_new(all, "tensors", list_tensors(module));
    json_object_set_new(all, "kernels", list_kernels(tables));
    json_object_set_new(all, "levels", list_levels(module));
    char *text = json_dumps(all, JSON_INDENT(1));
    json_decref(all);
    if (!text)
        ice("product_manifest: the manifest of %s is not JSON", module->entry);
    char *copy = arena_strndup(arena, text, strlen(text));
    free(text);
    return copy;
}
