// SPDX-License-Identifier: Apache-2.0
// The header of an .npy file, between npy_header.c, npy_read.c and npy_write.c.
//
//     magic "\x93NUMPY"   version (2 bytes)   length of the text (2 bytes in version 1, else 4)
//     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   spaces   newline
//     data
#ifndef ATT_NPY_H
#define ATT_NPY_H

#include "internal.h"

enum { NPY_PREFIX_MIN = 10, NPY_PREFIX_MAX = 12, NPY_TEXT_MAX = 1 << 16 };

typedef enum { NPY_BOOL, NPY_INT, NPY_UINT, NPY_FLOAT } NpyKind;
typedef struct {
    NpyKind kind;
    int size; // bytes of an element
    bool big_endian, fortran_order;
    int rank;
    int64_t shape[ATT_RANK_MAX];
    int64_t count, bytes; // of the data
} NpyHeader;

#define NPY_MAGIC "\x93NUMPY"
// Whether a file that begins with these bytes may be one; no bytes may always be.
bool att_npy_may_be(const uint8_t *bytes, size_t length);
// The first bytes of a file of `available` bytes -> bytes of magic, version and length, and of the
// text.
AttStatus att_npy_prefix_parse(AttContext *ctx, const char *label, const uint8_t *prefix,
                               uint64_t available, size_t *prefix_length, size_t *text_length);
AttStatus att_npy_text_parse(AttContext *ctx, const char *label, const char *text, size_t length,
                             NpyHeader *out);
const char *att_npy_type_name(const NpyHeader *header); // "float32", ...

// ---- npy_read.c --------------------------------------------------------------------------------
// The header of a file in memory, and where its data is: all that the shape needs, nothing behind.
AttStatus att_npy_header(AttContext *ctx, const char *label, const void *bytes, size_t length,
                         NpyHeader *header, const void **data);
// Are the bytes of the data those of a tensor of such elements? Not of bools, which are checked.
bool att_npy_is_verbatim(const NpyHeader *header, AttElem elem);
// A tensor of the data that the header describes, as att_npy_read makes it.
AttStatus att_npy_elements(AttContext *ctx, const char *label, const NpyHeader *header,
                           const void *data, AttElem elem, AttTensorData *out);

#endif
