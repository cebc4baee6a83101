// SPDX-License-Identifier: Apache-2.0
// Reads safetensors files (safetensors.h).
//
// All of the header is checked before anything is handed out: its length against that of the file,
// the JSON (jansson refuses keys that come twice, texts that are not UTF-8, numbers beyond 64 bits
// and deep nesting), each tensor by itself, and that the tensors fill the rest of the file without
// a hole. Names and notes are the texts of the JSON, which lives as long as the file.

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "train/files/safetensors.h"
#include "train/train.h"

static const struct {
    const char *type;
    AttElem elem; // ATT_N_ELEM: the runtime has no such elements
    size_t bytes;
} types[] = {
    {"F32", ATT_F32, 4},        {"F64", ATT_F64, 8},        {"F16", ATT_F16, 2},
    {"BF16", ATT_BF16, 2},      {"I32", ATT_I32, 4},        {"I64", ATT_I64, 8},
    {"BOOL", ATT_BOOL, 1},      {"I8", ATT_N_ELEM, 1},      {"I16", ATT_N_ELEM, 2},
    {"U8", ATT_N_ELEM, 1},      {"U16", ATT_N_ELEM, 2},     {"U32", ATT_N_ELEM, 4},
    {"U64", ATT_N_ELEM, 8},     {"C64", ATT_N_ELEM, 8},     {"F8_E4M3", ATT_N_ELEM, 1},
    {"F8_E5M2", ATT_N_ELEM, 1}, {"F8_E8M0", ATT_N_ELEM, 1},
};

typedef struct {
    AttMapped map; // all zeros of a file in memory
    json_t *header;
    AttNamedTensor *tensors;
    AttNote *notes;
} Owner;

typedef struct {
    AttContext *ctx;
    const char *label;
    const uint8_t *data; // behind the header
    int64_t n_data;
    AttTensorFile *out;
} Reader;

// ---- one tensor --------------------------------------------------------------------------------
static AttStatus wrong(Reader *r, const char *name, const char *what) {
    char shown[ATT_SHOWN_ROOM];
    return att_fail(r->ctx, ATT_FORMAT, "%s: tensor '%s' %s", r->label, att_shown(name, shown),
                    what);
}

static AttStatus read_type(Reader *r, const json_t *type, AttNamedTensor *tensor, size_t *bytes) {
    char shown[ATT_SHOWN_ROOM], name[ATT_SHOWN_ROOM];
    if (!json_is_string(type))
        return wrong(r, tensor->name, "has no text as its dtype");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, json_string_value(type)) == 0) {
            tensor->elem = types[i].elem;
            tensor->type = types[i].type;
            *bytes = types[i].bytes;
            return ATT_OK;
        }
    return att_fail(r->ctx, ATT_FORMAT, "%s: tensor '%s' has the dtype '%s', which is not known",
                    r->label, att_shown(tensor->name, name),
                    att_shown(json_string_value(type), shown));
}

static AttStatus read_shape(Reader *r, const json_t *shape, AttNamedTensor *tensor) {
    if (!json_is_array(shape))
        return wrong(r, tensor->name, "has no list as its shape");
    if (json_array_size(shape) > ATT_RANK_MAX)
        return wrong(r, tensor->name, "has more than 16 dims");
    tensor->rank = (int)json_array_size(shape);
    for (int i = 0; i < tensor->rank; i++) {
        const json_t *extent = json_array_get(shape, (size_t)i);
        if (!json_is_integer(extent))
            return wrong(r, tensor->name, "has an extent that is no whole number");
        if (json_integer_value(extent) < 0)
            return wrong(r, tensor->name, "has a negative extent");
        tensor->shape[i] = json_integer_value(extent);
    }
    return ATT_OK;
}

static AttStatus read_offsets(Reader *r, const json_t *offsets, AttNamedTensor *tensor) {
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return wrong(r, tensor->name, "has no two whole numbers as its data_offsets");
    int64_t first = json_integer_value(begin), last = json_integer_value(end);
    if (first < 0)
        return wrong(r, tensor->name, "has a negative offset");
    if (first > last)
        return wrong(r, tensor->name, "ends before it begins");
    if (last > r->n_data)
        return wrong(r, tensor->name, "ends behind the end of the file: is the file truncated?");
    tensor->data = r->data + first;
    tensor->bytes = last - first;
    return ATT_OK;
}

static AttStatus check_size(Reader *r, const AttNamedTensor *tensor, size_t elem_bytes) {
    char shown[ATT_SHOWN_ROOM];
    int64_t need;
    if (!att_bytes_of(tensor->rank, tensor->shape, elem_bytes, &need))
        return wrong(r, tensor->name, "has more elements than memory can hold");
    if (need == tensor->bytes)
        return ATT_OK;
    return att_fail(r->ctx, ATT_FORMAT,
                    "%s: tensor '%s' needs %lld bytes of its shape, and its offsets are %lld apart",
                    r->label, att_shown(tensor->name, shown), (long long)need,
                    (long long)tensor->bytes);
}

static AttStatus read_tensor(Reader *r, const char *name, const json_t *info,
                             AttNamedTensor *tensor) {
    const json_t *type = json_object_get(info, "dtype"), *shape = json_object_get(info, "shape");
    const json_t *offsets = json_object_get(info, "data_offsets");
    size_t elem_bytes = 0;
    *tensor = (AttNamedTensor){.name = name};
    if (!json_is_object(info))
        return wrong(r, name, "is described by no object");
    if (!type || !shape || !offsets)
        return wrong(r, name,
                     !type    ? "has no dtype"
                     : !shape ? "has no shape"
                              : "has no data_offsets");
    if (json_object_size(info) != 3)
        return wrong(r, name, "has other keys than dtype, shape and data_offsets");
    AttStatus status = read_type(r, type, tensor, &elem_bytes);
    if (!status)
        status = read_shape(r, shape, tensor);
    if (!status)
        status = read_offsets(r, offsets, tensor);
    return status ? status : check_size(r, tensor, elem_bytes);
}

// ---- all of them -------------------------------------------------------------------------------
static int by_place(const void *a, const void *b) {
    const AttNamedTensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

// Requires: sorted by place.
static AttStatus check_places(Reader *r) {
    const AttTensorFile *file = r->out;
    char shown[ATT_SHOWN_ROOM], other[ATT_SHOWN_ROOM];
    const uint8_t *at = r->data, *end = r->data + r->n_data;
    for (int64_t i = 0; i < file->n_tensors; i++) {
        const AttNamedTensor *tensor = &file->tensors[i];
        const uint8_t *data = tensor->data;
        att_shown(tensor->name, shown);
        if (data < at)
            return att_fail(r->ctx, ATT_FORMAT, "%s: tensor '%s' overlaps tensor '%s'", r->label,
                            shown, att_shown(file->tensors[i - 1].name, other));
        if (data > at)
            return att_fail(r->ctx, ATT_FORMAT,
                            "%s: there is a hole of %lld bytes before tensor '%s'", r->label,
                            (long long)(data - at), shown);
        at = data + tensor->bytes;
    }
    if (at == end)
        return ATT_OK;
    return att_fail(r->ctx, ATT_FORMAT, "%s: %lld bytes belong to no tensor, behind %s%s%s",
                    r->label, (long long)(end - at), file->n_tensors ? "tensor '" : "the header",
                    file->n_tensors ? shown : "", file->n_tensors ? "'" : "");
}

static AttStatus read_notes(Reader *r, json_t *notes) {
    char shown[ATT_SHOWN_ROOM];
    const char *key;
    json_t *value;
    if (notes && !json_is_object(notes))
        return att_fail(r->ctx, ATT_FORMAT, "%s: " SAFETENSORS_NOTES " is no object", r->label);
    json_object_foreach(notes, key, value) {
        if (!json_is_string(value))
            return att_fail(r->ctx, ATT_FORMAT,
                            "%s: " SAFETENSORS_NOTES " has something that is no text: '%s'",
                            r->label, att_shown(key, shown));
        r->out->notes[r->out->n_notes++] = (AttNote){key, json_string_value(value)};
    }
    return ATT_OK;
}

static AttStatus read_tensors(Reader *r, json_t *header) {
    const char *name;
    json_t *info;
    json_object_foreach(header, name, info) {
        if (strcmp(name, SAFETENSORS_NOTES) == 0)
            continue;
        AttStatus status = read_tensor(r, name, info, &r->out->tensors[r->out->n_tensors++]);
        if (status)
            return status;
    }
    qsort(r->out->tensors, (size_t)r->out->n_tensors, sizeof *r->out->tensors, by_place);
    return check_places(r);
}

// ---- the file ----------------------------------------------------------------------------------
// The first bytes -> the length of the header.
static AttStatus read_prefix(AttContext *ctx, const char *label, const uint8_t *bytes,
                             size_t length, size_t *n_header) {
    uint64_t n = 0;
    if (length < SAFETENSORS_PREFIX)
        return att_fail(ctx, ATT_FORMAT, "%s: is too short for a safetensors file", label);
    for (int i = 0; i < SAFETENSORS_PREFIX; i++)
        n |= (uint64_t)bytes[i] << 8 * i;
    if (n > SAFETENSORS_HEADER_MOST)
        return att_fail(ctx, ATT_FORMAT,
                        "%s: is no safetensors file: its header would be of %llu bytes, and at "
                        "most %d are allowed",
                        label, (unsigned long long)n, SAFETENSORS_HEADER_MOST);
    if (n > length - SAFETENSORS_PREFIX)
        return att_fail(ctx, ATT_FORMAT, "%s: ends inside its header: is the file truncated?",
                        label);
    *n_header = (size_t)n;
    return ATT_OK;
}

static AttStatus read_json(AttContext *ctx, const char *label, const char *text, size_t length,
                           json_t **out) {
    char shown[ATT_SHOWN_ROOM];
    json_error_t error;
    while (length && text[length - 1] == ' ')
        length--;
    if (!length || text[0] != '{' || text[length - 1] != '}')
        return att_fail(ctx, ATT_FORMAT,
                        "%s: its header is no JSON object from its first byte on, with nothing but "
                        "spaces behind",
                        label);
    *out = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (*out)
        return ATT_OK;
    return att_fail(ctx, ATT_FORMAT, "%s: its header is no JSON, byte %d: %s", label,
                    error.position, att_shown(error.text, shown));
}

// Requires: `out` owns nothing yet. What it owns afterwards is for att_safetensors_close.
static AttStatus read_file(AttContext *ctx, const char *label, const uint8_t *bytes, size_t length,
                           AttTensorFile *out) {
    Owner *owner = out->owner;
    size_t n_header = 0;
    const char *text = (const char *)bytes + SAFETENSORS_PREFIX;
    AttStatus status = read_prefix(ctx, label, bytes, length, &n_header);
    if (!status)
        status = read_json(ctx, label, text, n_header, &owner->header);
    if (status)
        return status;
    json_t *notes = json_object_get(owner->header, SAFETENSORS_NOTES);
    owner->tensors = calloc(json_object_size(owner->header) + 1, sizeof *owner->tensors);
    owner->notes = calloc(json_object_size(notes) + 1, sizeof *owner->notes);
    if (!owner->tensors || !owner->notes)
        return att_fail(ctx, ATT_MEMORY, "%s: out of memory", label);
    out->tensors = owner->tensors;
    out->notes = owner->notes;
    Reader reader = {ctx, label, bytes + SAFETENSORS_PREFIX + n_header,
                     (int64_t)(length - SAFETENSORS_PREFIX - n_header), out};
    status = read_notes(&reader, notes);
    return status ? status : read_tensors(&reader, owner->header);
}

static AttStatus begin_file(AttContext *ctx, const char *label, AttTensorFile *out) {
    *out = (AttTensorFile){.owner = calloc(1, sizeof(Owner))};
    return out->owner ? ATT_OK : att_fail(ctx, ATT_MEMORY, "%s: out of memory", label);
}

AttStatus att_safetensors_parse(AttContext *ctx, const char *label, const void *bytes,
                                size_t length, AttTensorFile *out) {
    AttStatus status = begin_file(ctx, label, out);
    if (!status)
        status = read_file(ctx, label, bytes, length, out);
    if (status)
        att_safetensors_close(out);
    return status;
}

AttStatus att_safetensors_open(AttContext *ctx, const char *path, AttTensorFile *out) {
    AttStatus status = begin_file(ctx, path, out);
    Owner *owner = out->owner;
    if (!status)
        status = att_map_file(ctx, path, &owner->map);
    if (!status)
        status = read_file(ctx, path, owner->map.bytes, owner->map.length, out);
    if (status)
        att_safetensors_close(out);
    return status;
}

void att_safetensors_close(AttTensorFile *file) {
    Owner *owner = file->owner;
    if (owner) {
        free(owner->tensors);
        free(owner->notes);
        json_decref(owner->header);
        att_unmap(&owner->map);
        free(owner);
    }
    *file = (AttTensorFile){0};
}

const AttNamedTensor *att_safetensors_find(const AttTensorFile *file, const char *name) {
    for (int64_t i = 0; i < file->n_tensors; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

const char *att_safetensors_note(const AttTensorFile *file, const char *key) {
    for (int64_t i = 0; i < file->n_notes; i++)
        if (strcmp(file->notes[i].key, key) == 0)
            return file->notes[i].value;
    return NULL;
}
