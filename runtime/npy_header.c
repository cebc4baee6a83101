// SPDX-License-Identifier: Apache-2.0
// Reads the header of an .npy file: the prefix, and the text, which is a Python dict with exactly
// the keys descr, fortran_order and shape. Anything that NumPy would not have written is refused.

#include <string.h>

#include "npy.h"

bool att_npy_may_be(const uint8_t *bytes, size_t length) {
    size_t magic = sizeof NPY_MAGIC - 1;
    return !length || memcmp(bytes, NPY_MAGIC, length < magic ? length : magic) == 0;
}

AttStatus att_npy_prefix_parse(AttContext *ctx, const char *label, const uint8_t *prefix,
                               uint64_t available, size_t *prefix_length, size_t *text_length) {
    size_t magic = sizeof NPY_MAGIC - 1;
    if (available < magic || !att_npy_may_be(prefix, magic))
        return att_fail(ctx, ATT_FORMAT, "%s: not an .npy file", label);
    if (available < NPY_PREFIX_MIN)
        return att_fail(ctx, ATT_FORMAT, "%s: ends inside its header", label);
    int major = prefix[6], minor = prefix[7];
    if (major < 1 || major > 3 || minor != 0)
        return att_fail(ctx, ATT_FORMAT, "%s: version %d.%d of the .npy format is not known", label,
                        major, minor);
    *prefix_length = major == 1 ? NPY_PREFIX_MIN : NPY_PREFIX_MAX;
    if (available < *prefix_length)
        return att_fail(ctx, ATT_FORMAT, "%s: ends inside its header", label);
    uint64_t text = prefix[8] | (uint64_t)prefix[9] << 8;
    if (major > 1)
        text |= (uint64_t)prefix[10] << 16 | (uint64_t)prefix[11] << 24;
    if (text > available - *prefix_length)
        return att_fail(ctx, ATT_FORMAT, "%s: ends inside its header", label);
    if (text > NPY_TEXT_MAX)
        return att_fail(ctx, ATT_FORMAT, "%s: a header of %llu bytes is longer than any real one",
                        label, (unsigned long long)text);
    *text_length = (size_t)text;
    return ATT_OK;
}

// ---- the text ----------------------------------------------------------------------------------
typedef struct {
    const char *at, *end;
    AttContext *ctx;
    const char *label;
    NpyHeader *header;
} Reader;

static AttStatus malformed(Reader *r, const char *expected) {
    return att_fail(r->ctx, ATT_FORMAT, "%s: the header is malformed: %s expected", r->label,
                    expected);
}

static void skip_spaces(Reader *r) {
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
}

// Skips spaces, then takes the character if it comes next.
static bool take(Reader *r, char c) {
    skip_spaces(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_word(Reader *r, const char *word) {
    size_t length = strlen(word);
    skip_spaces(r);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

// A string without escapes, in either kind of quotes. Printable ASCII only, as it goes into
// messages.
static AttStatus read_string(Reader *r, char *out, size_t room) {
    size_t length = 0;
    char quote = take(r, '\'') ? '\'' : take(r, '"') ? '"' : 0;
    if (!quote)
        return malformed(r, "a string");
    for (; r->at < r->end && *r->at != quote; r->at++) {
        if (*r->at < ' ' || *r->at > '~' || *r->at == '\\' || length + 1 == room)
            return malformed(r, "a short plain string");
        out[length++] = *r->at;
    }
    if (r->at++ == r->end)
        return malformed(r, "the end of a string");
    out[length] = 0;
    return ATT_OK;
}

static AttStatus read_type(Reader *r) {
    static const struct {
        const char *code;
        NpyKind kind;
    } types[] = {{"b1", NPY_BOOL}, {"i1", NPY_INT},   {"i2", NPY_INT},   {"i4", NPY_INT},
                 {"i8", NPY_INT},  {"u1", NPY_UINT},  {"u2", NPY_UINT},  {"u4", NPY_UINT},
                 {"u8", NPY_UINT}, {"f2", NPY_FLOAT}, {"f4", NPY_FLOAT}, {"f8", NPY_FLOAT}};
    char text[32];
    if (take(r, '['))
        return att_fail(r->ctx, ATT_FORMAT, "%s: holds records, which are not supported", r->label);
    AttStatus status = read_string(r, text, sizeof text);
    if (status)
        return status;
    const char *code = *text ? text + 1 : text;
    if (*code == 'O' || *text == 'O')
        return att_fail(r->ctx, ATT_FORMAT,
                        "%s: holds Python objects, which are never read (save it as numbers)",
                        r->label);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bool one_byte = types[i].code[1] == '1';
        if (strcmp(code, types[i].code) != 0 || !strchr(one_byte ? "|<>=" : "<>=", *text))
            continue;
        r->header->kind = types[i].kind;
        r->header->size = types[i].code[1] - '0';
        r->header->big_endian = *text == '>';
        return ATT_OK;
    }
    return att_fail(r->ctx, ATT_FORMAT, "%s: elements of type '%s' are not supported", r->label,
                    text);
}

// A whole number without sign; an L at its end as Python 2 wrote it.
static AttStatus read_extent(Reader *r, int64_t *extent) {
    skip_spaces(r);
    const char *begin = r->at;
    *extent = 0;
    if (r->at < r->end && *r->at == '-')
        return att_fail(r->ctx, ATT_FORMAT, "%s: an extent in its shape is negative", r->label);
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(*extent, 10, extent) ||
            __builtin_add_overflow(*extent, *r->at - '0', extent))
            return att_fail(r->ctx, ATT_FORMAT, "%s: an extent in its shape is out of range",
                            r->label);
    if (r->at == begin || (*begin == '0' && r->at - begin > 1))
        return malformed(r, "an extent");
    if (r->at < r->end && *r->at == 'L')
        r->at++;
    return ATT_OK;
}

// (), (3,), (3, 4) or (3, 4,): one extent alone must have its comma, as in Python.
static AttStatus read_shape(Reader *r) {
    NpyHeader *header = r->header;
    bool comma = true;
    if (!take(r, '('))
        return malformed(r, "a shape");
    for (header->rank = 0; !take(r, ')'); header->rank++) {
        if (!comma)
            return malformed(r, "a comma in the shape");
        if (header->rank == ATT_RANK_MAX)
            return att_fail(r->ctx, ATT_FORMAT, "%s: has more than %d dims", r->label,
                            ATT_RANK_MAX);
        AttStatus status = read_extent(r, &header->shape[header->rank]);
        if (status)
            return status;
        comma = take(r, ',');
    }
    if (header->rank == 1 && !comma)
        return malformed(r, "a comma after the only extent");
    return ATT_OK;
}

static AttStatus read_order(Reader *r) {
    r->header->fortran_order = take_word(r, "True");
    if (!r->header->fortran_order && !take_word(r, "False"))
        return malformed(r, "True or False");
    return ATT_OK;
}

static AttStatus read_entry(Reader *r, unsigned *seen) {
    static const struct {
        const char *key;
        AttStatus (*read)(Reader *r);
    } entries[] = {{"descr", read_type}, {"fortran_order", read_order}, {"shape", read_shape}};
    char key[32];
    AttStatus status = read_string(r, key, sizeof key);
    if (status)
        return status;
    if (!take(r, ':'))
        return malformed(r, "a colon");
    for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (strcmp(key, entries[i].key) != 0)
            continue;
        if (*seen & 1u << i)
            return att_fail(r->ctx, ATT_FORMAT, "%s: the header has '%s' twice", r->label, key);
        *seen |= 1u << i;
        return entries[i].read(r);
    }
    return att_fail(r->ctx, ATT_FORMAT, "%s: the header has an unknown key '%s'", r->label, key);
}

AttStatus att_npy_text_parse(AttContext *ctx, const char *label, const char *text, size_t length,
                             NpyHeader *out) {
    Reader reader = {text, text + length, ctx, label, out}, *r = &reader;
    unsigned seen = 0;
    bool comma = true;
    *out = (NpyHeader){0};
    if (!take(r, '{'))
        return malformed(r, "'{'");
    while (!take(r, '}')) {
        if (!comma)
            return malformed(r, "a comma");
        AttStatus status = read_entry(r, &seen);
        if (status)
            return status;
        comma = take(r, ',');
    }
    skip_spaces(r);
    if (r->at != r->end)
        return malformed(r, "nothing after '}'");
    if (seen != 7)
        return att_fail(ctx, ATT_FORMAT, "%s: the header lacks '%s'", label,
                        !(seen & 1)   ? "descr"
                        : !(seen & 2) ? "fortran_order"
                                      : "shape");
    if (!att_bytes_of(out->rank, out->shape, (size_t)out->size, &out->bytes))
        return att_fail(ctx, ATT_FORMAT, "%s: its shape has more elements than memory can hold",
                        label);
    out->count = out->bytes / out->size;
    return ATT_OK;
}

const char *att_npy_type_name(const NpyHeader *header) {
    static const char *const names[4][4] = {
        [NPY_BOOL] = {"bool", "bool", "bool", "bool"},
        [NPY_INT] = {"int8", "int16", "int32", "int64"},
        [NPY_UINT] = {"uint8", "uint16", "uint32", "uint64"},
        [NPY_FLOAT] = {"float8", "float16", "float32", "float64"},
    };
    return names[header->kind][__builtin_ctz((unsigned)header->size)];
}
