// SPDX-License-Identifier: Apache-2.0
// Tensors of a def in a file of the entry that calls it: they have the path of the call there.

#include <string.h>

#include "train/model/model.h"

static bool has_name(const AttNamedTensor *tensor, AttTensorPath path, const char *name) {
    return strncmp(tensor->name, path.at, path.length) == 0 && tensor->name[path.length] == '.' &&
           strcmp(tensor->name + path.length + 1, name) == 0;
}

static const AttNamedTensor *find_in(const AttTensorFile *file, AttTensorPath path,
                                     const char *name) {
    for (int64_t i = 0; i < file->n_tensors; i++)
        if (has_name(&file->tensors[i], path, name))
            return &file->tensors[i];
    return NULL;
}

const AttNamedTensor *att_safetensors_find_under(const AttTensorFile *file, AttTensorPath path,
                                                 const char *name) {
    const AttNamedTensor *found = att_safetensors_find(file, name);
    return found || !path.length ? found : find_in(file, path, name);
}

// What stands before ".name" in a tensor's name; of length 0 where that is not its end.
static AttTensorPath path_before(const AttNamedTensor *tensor, const char *name) {
    size_t whole = strlen(tensor->name), end = strlen(name) + 1;
    AttTensorPath path = {tensor->name, whole > end ? whole - end : 0};
    bool fits = path.length && !att_is_state_name(tensor->name) && has_name(tensor, path, name);
    return fits ? path : (AttTensorPath){0};
}

static bool has_all(const AttTensorFile *file, AttTensorPath path, const char *const *names,
                    int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!att_safetensors_find_under(file, path, names[i]))
            return false;
    return true;
}

AttTensorPath att_safetensors_path(const AttTensorFile *file, const char *const *names, int64_t n) {
    AttTensorPath found = {0};
    int64_t first = 0;
    while (first < n && att_safetensors_find(file, names[first]))
        first++;
    for (int64_t i = 0; i < file->n_tensors && first < n; i++) {
        AttTensorPath path = path_before(&file->tensors[i], names[first]);
        if (!path.length || !has_all(file, path, names, n))
            continue;
        if (found.length)
            return (AttTensorPath){0};
        found = path;
    }
    return found;
}
