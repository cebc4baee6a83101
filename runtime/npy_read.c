// SPDX-License-Identifier: Apache-2.0
// Reads .npy files (the format: numpy.lib.format, NEP 1).
//
// The whole header is checked, and the number of bytes compared with what the shape needs, before
// memory is taken. Data comes in blocks of 64 KiB and is converted on the way, so that a file never
// lies in memory twice; when the elements are already as wanted they are read in place.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "npy.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "conversion assumes little endian");

enum { BLOCK_BYTES = 1 << 16, SLURP_BYTES = 1 << 20 };

// Where the bytes come from: memory, or a file of known size.
typedef struct {
    AttContext *ctx;
    const char *label;
    const uint8_t *memory; // NULL: fd
    int fd;
    uint64_t length, at;
} Input;

static AttStatus input_read(Input *in, void *out, size_t length) {
    uint8_t *to = out;
    if (in->memory && length)
        memcpy(to, in->memory + in->at, length);
    for (size_t done = 0; !in->memory && done < length;) {
        ssize_t got = read(in->fd, to + done, length - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return att_fail(in->ctx, ATT_IO, "%s: %s", in->label, strerror(errno));
        if (got == 0)
            return att_fail(in->ctx, ATT_IO, "%s: became shorter while it was read", in->label);
        done += (size_t)got;
    }
    in->at += length;
    return ATT_OK;
}

// ---- elements ----------------------------------------------------------------------------------
typedef struct {
    bool is_float;
    double real;
    __int128 whole; // holds all of int64 and uint64
} Number;

static Number load_number(const NpyHeader *header, const uint8_t *at) {
    uint64_t bits = 0;
    int size = header->size;
    for (int i = 0; i < size; i++)
        bits |= (uint64_t)at[header->big_endian ? size - 1 - i : i] << 8 * i;
    if (header->kind == NPY_INT) // the sign bit moves to the top and back
        return (Number){.whole = (int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size)};
    if (header->kind != NPY_FLOAT)
        return (Number){.whole = bits};
    double real;
    float single;
    uint32_t low = (uint32_t)bits;
    memcpy(&real, &bits, sizeof real);
    memcpy(&single, &low, sizeof single);
    if (size == 4)
        real = (double)single;
    if (size == 2)
        real = (double)att_f16_to_f32((uint16_t)bits);
    return (Number){.is_float = true, .real = real};
}

// false: the element type cannot hold the value.
static bool store_number(AttElem elem, void *data, int64_t i, Number n) {
    switch (elem) {
    case ATT_I32:
        ((int32_t *)data)[i] = (int32_t)n.whole;
        return n.whole >= INT32_MIN && n.whole <= INT32_MAX;
    case ATT_I64:
        ((int64_t *)data)[i] = (int64_t)n.whole;
        return n.whole >= INT64_MIN && n.whole <= INT64_MAX;
    case ATT_BOOL:
        ((uint8_t *)data)[i] = n.whole == 1;
        return n.whole == 0 || n.whole == 1;
    case ATT_F32:
        if (n.is_float)
            return att_float_store(elem, data, i, n.real);
        ((float *)data)[i] = (float)n.whole; // rounded once, not through double
        return true;
    default:
        return att_float_store(elem, data, i, n.is_float ? n.real : (double)n.whole);
    }
}

// What a file is read as when the caller has no wish.
static AttElem natural_elem(const NpyHeader *header) {
    switch (header->kind) {
    case NPY_BOOL:
        return ATT_BOOL;
    case NPY_INT:
        return header->size <= 4 ? ATT_I32 : ATT_I64;
    case NPY_UINT:
        return header->size <= 2 ? ATT_I32 : ATT_I64;
    case NPY_FLOAT:
        break;
    }
    return header->size == 2 ? ATT_F16 : header->size == 4 ? ATT_F32 : ATT_F64;
}

static bool elem_is_float(AttElem elem) {
    return elem == ATT_F32 || elem == ATT_F64 || elem == ATT_F16 || elem == ATT_BF16;
}

bool att_npy_is_verbatim(const NpyHeader *header, AttElem elem) {
    return header->kind != NPY_BOOL && (header->kind != NPY_UINT) && natural_elem(header) == elem &&
           (size_t)header->size == att_elem_bytes(elem) && !header->big_endian &&
           !(header->fortran_order && header->rank > 1);
}

// ---- data --------------------------------------------------------------------------------------
// Place in the tensor of the elements in the file's order.
typedef struct {
    int64_t index[ATT_RANK_MAX], stride[ATT_RANK_MAX], place;
} Walk;

static void walk_begin(Walk *walk, const NpyHeader *header) {
    *walk = (Walk){.place = 0};
    int64_t stride = 1;
    for (int d = header->rank - 1; d >= 0; d--) {
        walk->stride[d] = stride;
        stride *= header->shape[d];
    }
}

static void walk_next(Walk *walk, const NpyHeader *header) {
    if (!header->fortran_order) {
        walk->place++;
        return;
    }
    for (int d = 0; d < header->rank; d++) { // the first dim runs fastest
        walk->place += walk->stride[d];
        if (++walk->index[d] < header->shape[d])
            return;
        walk->place -= walk->stride[d] * header->shape[d];
        walk->index[d] = 0;
    }
}

static AttStatus does_not_fit(Input *in, int64_t i, Number n, AttElem elem) {
    char text[48];
    if (n.is_float)
        snprintf(text, sizeof text, "%g", n.real);
    else if (n.whole > INT64_MAX)
        snprintf(text, sizeof text, "%llu", (unsigned long long)n.whole);
    else
        snprintf(text, sizeof text, "%lld", (long long)n.whole);
    return att_fail(in->ctx, ATT_FORMAT, "%s: element %lld is %s, which %s cannot hold", in->label,
                    (long long)i, text, att_elem_name(elem));
}

static AttStatus convert_data(Input *in, const NpyHeader *header, AttTensorData *out) {
    Walk walk;
    uint8_t *block = malloc(BLOCK_BYTES);
    if (!block)
        return att_no_memory(in->ctx);
    walk_begin(&walk, header);
    AttStatus status = ATT_OK;
    int64_t per_block = BLOCK_BYTES / header->size;
    for (int64_t begin = 0; begin < header->count && !status; begin += per_block) {
        int64_t rest = header->count - begin, n = rest < per_block ? rest : per_block;
        status = input_read(in, block, (size_t)(n * header->size));
        for (int64_t i = 0; i < n && !status; i++) {
            Number number = load_number(header, block + i * header->size);
            AttElem must = header->kind == NPY_BOOL ? ATT_BOOL : out->elem;
            if ((must == ATT_BOOL && (number.whole < 0 || number.whole > 1)) ||
                !store_number(out->elem, out->data, walk.place, number))
                status = does_not_fit(in, begin + i, number, must);
            walk_next(&walk, header);
        }
    }
    free(block);
    return status;
}

static AttStatus read_header(Input *in, NpyHeader *header) {
    uint8_t prefix[NPY_PREFIX_MAX] = {0};
    size_t first = in->length < NPY_PREFIX_MIN ? (size_t)in->length : NPY_PREFIX_MIN;
    size_t prefix_length, text_length;
    AttStatus status = input_read(in, prefix, first);
    // Versions 2 and 3 have two more bytes of length.
    if (!status && first == NPY_PREFIX_MIN && prefix[6] > 1 && in->length >= NPY_PREFIX_MAX)
        status = input_read(in, prefix + NPY_PREFIX_MIN, NPY_PREFIX_MAX - NPY_PREFIX_MIN);
    if (!status)
        status = att_npy_prefix_parse(in->ctx, in->label, prefix, in->length, &prefix_length,
                                      &text_length);
    if (status)
        return status;
    char *text = malloc(text_length + 1);
    if (!text)
        return att_no_memory(in->ctx);
    status = input_read(in, text, text_length);
    if (!status)
        status = att_npy_text_parse(in->ctx, in->label, text, text_length, header);
    free(text);
    return status;
}

// Exactly the bytes that the shape needs must be left.
static AttStatus check_length(Input *in, const NpyHeader *header) {
    uint64_t have = in->length - in->at, need = (uint64_t)header->bytes;
    if (have == need)
        return ATT_OK;
    return att_fail(in->ctx, ATT_FORMAT,
                    "%s: %s: %lld elements of %s need %llu bytes, and %llu follow the header",
                    in->label, have < need ? "is truncated" : "has bytes after its data",
                    (long long)header->count, att_npy_type_name(header), (unsigned long long)need,
                    (unsigned long long)have);
}

static AttStatus make_tensor(Input *in, const NpyHeader *header, AttElem elem, AttTensorData *out) {
    if (elem == ATT_N_ELEM)
        elem = natural_elem(header);
    if (header->kind == NPY_FLOAT && !elem_is_float(elem))
        return att_fail(in->ctx, ATT_FORMAT, "%s: holds %s where %s is needed", in->label,
                        att_npy_type_name(header), att_elem_name(elem));
    AttStatus status = att_tensor_new(in->ctx, elem, header->rank, header->shape, out);
    if (!status && header->count)
        status = att_npy_is_verbatim(header, elem)
                     ? input_read(in, out->data, (size_t)header->bytes)
                     : convert_data(in, header, out);
    if (status)
        att_tensor_free(out);
    return status;
}

static AttStatus read_tensor(Input *in, AttElem elem, AttTensorData *out) {
    NpyHeader header;
    *out = (AttTensorData){0};
    AttStatus status = read_header(in, &header);
    if (!status)
        status = check_length(in, &header);
    return status ? status : make_tensor(in, &header, elem, out);
}

// ---- entry points ------------------------------------------------------------------------------
AttStatus att_npy_parse(AttContext *ctx, const char *label, const void *bytes, size_t length,
                        AttElem elem, AttTensorData *out) {
    Input in = {ctx, label, length ? bytes : "", -1, length, 0};
    return read_tensor(&in, elem, out);
}

AttStatus att_npy_header(AttContext *ctx, const char *label, const void *bytes, size_t length,
                         NpyHeader *header, const void **data) {
    Input in = {ctx, label, length ? bytes : "", -1, length, 0};
    AttStatus status = read_header(&in, header);
    if (!status)
        status = check_length(&in, header);
    *data = in.memory + in.at;
    return status;
}

AttStatus att_npy_elements(AttContext *ctx, const char *label, const NpyHeader *header,
                           const void *data, AttElem elem, AttTensorData *out) {
    Input in = {ctx, label, header->bytes ? data : "", -1, (uint64_t)header->bytes, 0};
    *out = (AttTensorData){0};
    return make_tensor(&in, header, elem, out);
}

// What has no size of its own (a pipe) is collected in memory first, as long as it may be an .npy
// file: a device such as /dev/zero has no end.
static AttStatus read_stream(AttContext *ctx, const char *path, int fd, AttElem elem,
                             AttTensorData *out) {
    uint8_t *bytes = NULL;
    size_t length = 0, room = 0;
    while (att_npy_may_be(bytes, length)) {
        if (length == room) {
            uint8_t *grown = realloc(bytes, room = room ? room * 2 : SLURP_BYTES);
            if (!grown) {
                free(bytes);
                return att_fail(ctx, ATT_MEMORY, "%s: out of memory", path);
            }
            bytes = grown;
        }
        ssize_t got = read(fd, bytes + length, room - length);
        if (got == 0)
            break;
        if (got > 0)
            length += (size_t)got;
        else if (errno != EINTR) {
            free(bytes);
            return att_fail(ctx, ATT_IO, "%s: %s", path, strerror(errno));
        }
    }
    AttStatus status = att_npy_parse(ctx, path, bytes, length, elem, out);
    free(bytes);
    return status;
}

AttStatus att_npy_read(AttContext *ctx, const char *path, AttElem elem, AttTensorData *out) {
    struct stat info;
    *out = (AttTensorData){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return att_fail(ctx, ATT_IO, "%s: %s", path, strerror(errno));
    AttStatus status;
    if (fstat(fd, &info))
        status = att_fail(ctx, ATT_IO, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        status = att_fail(ctx, ATT_IO, "%s: %s", path, strerror(EISDIR));
    else if (!S_ISREG(info.st_mode))
        status = read_stream(ctx, path, fd, elem, out);
    else {
        Input in = {ctx, path, NULL, fd, (uint64_t)info.st_size, 0};
        status = read_tensor(&in, elem, out);
    }
    close(fd);
    return status;
}
