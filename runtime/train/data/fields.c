// SPDX-License-Identifier: Apache-2.0
// Arrays by the names of arguments: NAME=FILE.npy for each, or one safetensors file with a tensor
// for each. The first dim of an array counts the examples, the others are those of the argument.
//
// Files are mapped, and rows copied out of them; what has other elements than the argument, or
// another order, is converted when it is opened, where that loses nothing but float precision.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "npy.h"
#include "train/data/data.h"

typedef struct {
    int64_t field;
    const char *path; // for messages while it is opened
    AttMapped map;
    AttTensorData converted;
    const uint8_t *rows; // in the map, in the safetensors file, or converted
    int64_t row_bytes, row_count, examples;
} Array;

struct AttArrays {
    const AttTrainer *trainer;
    AttTensorFile file;
    int64_t n_arrays;
    Array *arrays;
};

// ---- which file is whose -----------------------------------------------------------------------
// The file that fills the field, NULL where it has none.
static const char *path_of(const AttTrainer *trainer, int64_t field, const char *const *paths,
                           int64_t n_paths) {
    const char *name = trainer->fields[field].name;
    size_t length = strlen(name);
    for (int64_t i = 0; i < n_paths; i++)
        if (att_argument_input(paths[i]) == length && strncmp(paths[i], name, length) == 0)
            return paths[i] + length + 1;
    return NULL;
}

static bool names_a_field(const AttArraysOf *of, const char *path) {
    for (int64_t f = 0; f < of->trainer->n_fields; f++)
        if (of->filled[f] && path_of(of->trainer, f, &path, 1))
            return true;
    return false;
}

static bool is_safetensors(const char *path) {
    static const char end[] = ".safetensors";
    size_t length = strlen(path), n = sizeof end - 1;
    return length >= n && strcmp(path + length - n, end) == 0;
}

bool att_arrays_are_meant(const AttArraysOf *of, const char *const *paths, int64_t n_paths) {
    for (int64_t i = 0; i < n_paths; i++)
        if (!names_a_field(of, paths[i]))
            return n_paths == 1 && is_safetensors(paths[0]);
    return n_paths > 0;
}

static AttStatus check_paths(const AttArraysOf *of, const char *const *paths, int64_t n_paths) {
    for (int64_t i = 0; i < n_paths; i++) {
        if (!names_a_field(of, paths[i]))
            return att_fail(of->ctx, ATT_ARGUMENT,
                            "%s: NAME=FILE.npy is expected, with the name of an argument of %s "
                            "that is data, or one safetensors file for all; tokens are for "
                            "arguments tokens and labels, masked and labels, or source, target "
                            "and labels",
                            paths[i], of->trainer->entry->entry);
        for (int64_t j = 0; j < i; j++)
            if (att_argument_input(paths[i]) == att_argument_input(paths[j]) &&
                strncmp(paths[i], paths[j], att_argument_input(paths[i])) == 0)
                return att_fail(of->ctx, ATT_ARGUMENT, "%s: %.*s has a file already, %s", paths[i],
                                (int)att_argument_input(paths[i]), paths[i], paths[j]);
    }
    return ATT_OK;
}

// ---- an array and its argument -----------------------------------------------------------------
// Sets the sizes of a row from the argument, and checks the shape of the file against it.
static AttStatus check_shape(const AttArraysOf *of, Array *array, int rank, const int64_t *shape) {
    const AttTensor *tensor = att_field_tensor(of->trainer, array->field);
    int64_t need[ATT_RANK_MAX];
    int n = (int)tensor->rank - 1;
    for (int i = 0; i < n; i++)
        need[i] = of->extents[tensor->dims[i + 1]];
    if (!att_bytes_of(n, need, att_elem_bytes((AttElem)tensor->elem), &array->row_bytes))
        return att_fail(of->ctx, ATT_ARGUMENT, "%s has more elements than memory can hold",
                        tensor->name);
    array->row_count = array->row_bytes / (int64_t)att_elem_bytes((AttElem)tensor->elem);
    if (rank == n + 1 && memcmp(shape + 1, need, (size_t)n * sizeof *need) == 0) {
        array->examples = shape[0];
        return ATT_OK;
    }
    char has[ATT_SHAPE_ROOM], wants[ATT_SHAPE_ROOM];
    return att_fail(of->ctx, ATT_ARGUMENT, "%s: has the shape %s, and %s takes %s", array->path,
                    att_shape_text("", rank, shape, has), tensor->name,
                    att_shape_text("examples", n, need, wants));
}

static AttStatus take_data(const AttArraysOf *of, Array *array, const NpyHeader *header,
                           const void *data) {
    AttElem elem = (AttElem)att_field_tensor(of->trainer, array->field)->elem;
    AttStatus status = check_shape(of, array, header->rank, header->shape);
    if (status || att_npy_is_verbatim(header, elem)) {
        array->rows = data;
        return status;
    }
    status = att_npy_elements(of->ctx, array->path, header, data, elem, &array->converted);
    array->rows = array->converted.data;
    return status;
}

static AttStatus open_npy(const AttArraysOf *of, Array *array) {
    NpyHeader header;
    const void *data = NULL;
    AttStatus status = att_map_file(of->ctx, array->path, &array->map);
    if (!status)
        status = att_npy_header(of->ctx, array->path, array->map.bytes, array->map.length, &header,
                                &data);
    return status ? status : take_data(of, array, &header, data);
}

// The type of a safetensors file as one of NumPy's; false: NumPy has none such.
static bool npy_type(const char *type, NpyHeader *header) {
    static const struct {
        const char *type;
        NpyKind kind;
        int size;
    } types[] = {{"F16", NPY_FLOAT, 2}, {"F32", NPY_FLOAT, 4}, {"F64", NPY_FLOAT, 8},
                 {"I8", NPY_INT, 1},    {"I16", NPY_INT, 2},   {"I32", NPY_INT, 4},
                 {"I64", NPY_INT, 8},   {"U8", NPY_UINT, 1},   {"U16", NPY_UINT, 2},
                 {"U32", NPY_UINT, 4},  {"U64", NPY_UINT, 8},  {"BOOL", NPY_BOOL, 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, type) == 0) {
            header->kind = types[i].kind;
            header->size = types[i].size;
            return true;
        }
    return false;
}

static AttStatus open_named(const AttArraysOf *of, Array *array, const AttTensorFile *file) {
    const AttTensor *tensor = att_field_tensor(of->trainer, array->field);
    const AttNamedTensor *named = att_safetensors_find(file, tensor->name);
    if (!named)
        return att_fail(of->ctx, ATT_ARGUMENT, "%s: has no tensor '%s' for the argument",
                        array->path, tensor->name);
    NpyHeader header = {.rank = named->rank, .bytes = named->bytes};
    memcpy(header.shape, named->shape, sizeof header.shape);
    if (named->elem == ATT_BF16 && tensor->elem == ATT_BF16) {
        array->rows = named->data;
        return check_shape(of, array, named->rank, named->shape);
    }
    if (!npy_type(named->type, &header))
        return att_fail(of->ctx, ATT_FORMAT, "%s: tensor '%s' holds %s where %s is needed",
                        array->path, named->name, named->type,
                        att_elem_name((AttElem)tensor->elem));
    header.count = header.bytes / header.size;
    return take_data(of, array, &header, named->data);
}

// ---- ids ---------------------------------------------------------------------------------------
static int64_t whole_at(const Array *array, AttElem elem, int64_t i) {
    int32_t narrow;
    int64_t wide;
    if (elem == ATT_I32) {
        memcpy(&narrow, array->rows + 4 * i, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, array->rows + 8 * i, sizeof wide);
    return wide;
}

static AttStatus check_ids(const AttArraysOf *of, const Array *array) {
    const AttField *field = &of->trainer->fields[array->field];
    AttElem elem = (AttElem)att_field_tensor(of->trainer, array->field)->elem;
    if (!field->below || (elem != ATT_I32 && elem != ATT_I64))
        return ATT_OK;
    int64_t count = array->examples * array->row_count;
    for (int64_t i = 0; i < count; i++) {
        int64_t id = whole_at(array, elem, i);
        if (id >= ATT_NOTHING && id < field->below)
            continue;
        return att_fail(of->ctx, ATT_FORMAT,
                        "%s: %s has the id %lld at place %lld of example %lld, and ids go from 0 "
                        "to %lld (-1: nothing)",
                        array->path, field->name, (long long)id, (long long)(i % array->row_count),
                        (long long)(i / array->row_count), (long long)field->below - 1);
    }
    return ATT_OK;
}

// ---- all of them -------------------------------------------------------------------------------
static AttStatus open_array(const AttArraysOf *of, AttArrays *all, int64_t field,
                            const char *const *paths, int64_t n_paths) {
    Array *array = &all->arrays[all->n_arrays++];
    bool named = all->file.owner != NULL;
    *array = (Array){.field = field};
    array->path = named ? paths[0] : path_of(of->trainer, field, paths, n_paths);
    if (!array->path)
        return att_fail(of->ctx, ATT_ARGUMENT, "nothing fills the argument %s: give %s=FILE.npy",
                        of->trainer->fields[field].name, of->trainer->fields[field].name);
    AttStatus status = named ? open_named(of, array, &all->file) : open_npy(of, array);
    if (status)
        return status;
    const Array *first = all->arrays;
    if (array->examples != first->examples)
        return att_fail(of->ctx, ATT_ARGUMENT, "%s has %lld examples and %s has %lld",
                        of->trainer->fields[first->field].name, (long long)first->examples,
                        of->trainer->fields[field].name, (long long)array->examples);
    return check_ids(of, array);
}

AttStatus att_arrays_open(const AttArraysOf *of, const char *const *paths, int64_t n_paths,
                          AttArrays **out) {
    AttArrays *all = *out = calloc(1, sizeof *all);
    if (all)
        all->arrays = calloc((size_t)of->trainer->n_fields + 1, sizeof *all->arrays);
    if (!all || !all->arrays)
        return att_no_memory(of->ctx);
    all->trainer = of->trainer;
    AttStatus status = n_paths == 1 && is_safetensors(paths[0]) && !names_a_field(of, paths[0])
                           ? att_safetensors_open(of->ctx, paths[0], &all->file)
                           : check_paths(of, paths, n_paths);
    for (int64_t f = 0; f < of->trainer->n_fields && !status; f++)
        if (of->filled[f])
            status = open_array(of, all, f, paths, n_paths);
    return status;
}

void att_arrays_close(AttArrays *arrays) {
    for (int64_t i = 0; arrays && i < arrays->n_arrays; i++) {
        att_unmap(&arrays->arrays[i].map);
        att_tensor_free(&arrays->arrays[i].converted);
    }
    if (arrays) {
        att_safetensors_close(&arrays->file);
        free(arrays->arrays);
    }
    free(arrays);
}

int64_t att_arrays_examples(const AttArrays *arrays) {
    return arrays->n_arrays ? arrays->arrays[0].examples : 0;
}

void att_arrays_example(const AttArrays *arrays, int64_t example, int64_t at,
                        void *const *tensors) {
    for (int64_t i = 0; i < arrays->n_arrays; i++) {
        const Array *array = &arrays->arrays[i];
        if (array->row_bytes)
            memcpy((uint8_t *)tensors[array->field] + at * array->row_bytes,
                   array->rows + example * array->row_bytes, (size_t)array->row_bytes);
    }
}
