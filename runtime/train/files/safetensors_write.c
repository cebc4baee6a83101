// SPDX-License-Identifier: Apache-2.0
// Writes safetensors files (safetensors.h), in one stroke (file.c).
//
// Tensors of wide elements come first: the header ends at a multiple of 8 bytes, so that in a
// mapped file all elements are aligned.

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "train/files/safetensors.h"
#include "train/train.h"

static const char *const types[ATT_N_ELEM] = {
    [ATT_F32] = "F32", [ATT_F64] = "F64", [ATT_F16] = "F16",   [ATT_BF16] = "BF16",
    [ATT_I32] = "I32", [ATT_I64] = "I64", [ATT_BOOL] = "BOOL",
};

typedef struct {
    const AttNamedTensor *tensor;
    int64_t bytes;
} Piece;

typedef struct {
    AttContext *ctx;
    const char *path;
    json_t *header;
    char *text; // of the header, of this length
    size_t length;
    int64_t n_pieces;
    Piece *pieces; // in the order of the file
} Writer;

static AttStatus wrong(Writer *w, const char *kind, const char *name, const char *what) {
    char shown[ATT_SHOWN_ROOM];
    return att_fail(w->ctx, ATT_ARGUMENT, "%s: %s '%s' %s", w->path, kind, att_shown(name, shown),
                    what);
}

// Takes the value, which is NULL where there was no memory for it.
static AttStatus add(Writer *w, json_t *object, const char *kind, const char *name, json_t *value) {
    json_t *key = json_string(name);
    AttStatus status = ATT_OK;
    if (!key)
        status = wrong(w, kind, name, "has a name that is not UTF-8");
    else if (json_object_get(object, name))
        status = wrong(w, kind, name, "comes twice");
    else if (json_object_set_nocheck(object, name, value))
        status = att_fail(w->ctx, ATT_MEMORY, "%s: out of memory", w->path);
    json_decref(key);
    json_decref(value);
    return status;
}

static AttStatus add_notes(Writer *w, const AttNote *notes, int64_t n_notes) {
    json_t *object = json_object();
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < n_notes && !status; i++) {
        json_t *value = json_string(notes[i].value);
        status = value ? add(w, object, "note", notes[i].key, value)
                       : wrong(w, "note", notes[i].key, "has a text that is not UTF-8");
    }
    if (!status && n_notes)
        return add(w, w->header, "the object", SAFETENSORS_NOTES, object);
    json_decref(object);
    return status;
}

// NULL: there was no memory for it.
static json_t *shape_of(const AttNamedTensor *tensor) {
    json_t *shape = json_array();
    for (int i = 0; shape && i < tensor->rank; i++)
        if (json_array_append_new(shape, json_integer(tensor->shape[i]))) {
            json_decref(shape);
            return NULL;
        }
    return shape;
}

static AttStatus add_tensor(Writer *w, const Piece *piece, int64_t begin) {
    const AttNamedTensor *tensor = piece->tensor;
    if (strcmp(tensor->name, SAFETENSORS_NOTES) == 0)
        return wrong(w, "tensor", tensor->name, "has the name of the notes");
    json_t *shape = shape_of(tensor), *info = NULL;
    if (shape)
        info = json_pack("{s:s, s:o, s:[I, I]}", "dtype", types[tensor->elem], "shape", shape,
                         "data_offsets", (json_int_t)begin, (json_int_t)(begin + piece->bytes));
    return add(w, w->header, "tensor", tensor->name, info);
}

static AttStatus check_tensor(Writer *w, const AttNamedTensor *tensor, int64_t *bytes) {
    if (tensor->elem >= ATT_N_ELEM || tensor->rank < 0 || tensor->rank > ATT_RANK_MAX)
        return wrong(w, "tensor", tensor->name, "cannot be written: its elements or its dims");
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0)
            return wrong(w, "tensor", tensor->name, "has a negative extent");
    size_t size = att_elem_bytes(tensor->elem);
    if (!att_bytes_of(tensor->rank, tensor->shape, size, bytes))
        return wrong(w, "tensor", tensor->name, "has more elements than memory can hold");
    return ATT_OK;
}

// Wide elements first, else as they came.
static int by_width(const void *a, const void *b) {
    const Piece *x = a, *y = b;
    size_t wide = att_elem_bytes(x->tensor->elem), other = att_elem_bytes(y->tensor->elem);
    if (wide != other)
        return wide > other ? -1 : 1;
    return x->tensor < y->tensor ? -1 : 1;
}

static AttStatus add_tensors(Writer *w, const AttNamedTensor *tensors, int64_t n_tensors) {
    int64_t end = 0;
    AttStatus status = ATT_OK;
    for (; w->n_pieces < n_tensors && !status; w->n_pieces++) {
        Piece *piece = &w->pieces[w->n_pieces];
        piece->tensor = &tensors[w->n_pieces];
        status = check_tensor(w, piece->tensor, &piece->bytes);
        if (!status && __builtin_add_overflow(end, piece->bytes, &end))
            status = wrong(w, "tensor", piece->tensor->name, "makes the file too large");
    }
    if (status)
        return status;
    qsort(w->pieces, (size_t)n_tensors, sizeof *w->pieces, by_width);
    end = 0;
    for (int64_t i = 0; i < n_tensors && !status; i++) {
        status = add_tensor(w, &w->pieces[i], end);
        end += w->pieces[i].bytes;
    }
    return status;
}

// ---- the file ----------------------------------------------------------------------------------
static bool put_file(AttFile *file, const void *arg) {
    static const char spaces[SAFETENSORS_ALIGN] = "        ";
    const Writer *w = arg;
    size_t pad = -w->length % SAFETENSORS_ALIGN;
    uint8_t prefix[SAFETENSORS_PREFIX];
    for (int i = 0; i < SAFETENSORS_PREFIX; i++)
        prefix[i] = (uint8_t)((uint64_t)(w->length + pad) >> 8 * i);
    bool done = att_file_put(file, prefix, sizeof prefix) &&
                att_file_put(file, w->text, w->length) && att_file_put(file, spaces, pad);
    for (int64_t i = 0; i < w->n_pieces && done; i++)
        done = att_file_put(file, w->pieces[i].tensor->data, (size_t)w->pieces[i].bytes);
    return done;
}

// Into memory of a length that is known: json_dumps leaves out keys that it has no memory for.
static bool print_header(Writer *w) {
    w->length = json_dumpb(w->header, NULL, 0, JSON_COMPACT);
    w->text = malloc(w->length + 1);
    return w->length && w->text &&
           json_dumpb(w->header, w->text, w->length, JSON_COMPACT) == w->length;
}

static AttStatus write_file(Writer *w) {
    if (!print_header(w))
        return att_fail(w->ctx, ATT_MEMORY, "%s: out of memory", w->path);
    if (w->length + SAFETENSORS_ALIGN > SAFETENSORS_HEADER_MOST)
        return att_fail(w->ctx, ATT_ARGUMENT,
                        "%s: the names and notes of a safetensors file have %d bytes at most",
                        w->path, SAFETENSORS_HEADER_MOST);
    return att_file_write(w->ctx, w->path, put_file, w);
}

AttStatus att_safetensors_write(AttContext *ctx, const char *path, const AttNamedTensor *tensors,
                                int64_t n_tensors, const AttNote *notes, int64_t n_notes) {
    Writer writer = {.ctx = ctx, .path = path, .header = json_object()}, *w = &writer;
    w->pieces = calloc((size_t)n_tensors + 1, sizeof *w->pieces);
    AttStatus status = ATT_OK;
    if (!w->header || !w->pieces)
        status = att_fail(ctx, ATT_MEMORY, "%s: out of memory", path);
    if (!status)
        status = add_notes(w, notes, n_notes);
    if (!status)
        status = add_tensors(w, tensors, n_tensors);
    if (!status)
        status = write_file(w);
    free(w->text);
    free(w->pieces);
    json_decref(w->header);
    return status;
}
