// SPDX-License-Identifier: Apache-2.0
// The safetensors reader against hand-made files, what must be refused and how; and what is written
// read back.

#include "support.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/train.h"

static int make_context(void **state) {
    *state = att_context_new(1);
    return *state ? 0 : -1;
}

static int free_context(void **state) {
    att_context_free(*state);
    return 0;
}

enum { ROOM = 70000 };

// Parses a header of these bytes with so many of data behind it, 1, 2, 3, ..; from a buffer of
// exactly this length, so that the sanitizer sees reads beyond it. The length that the file says
// its header has is that of the text and `more`.
static AttStatus parse(AttContext *ctx, const char *text, size_t length, int64_t more,
                       size_t n_data, AttTensorFile *out, uint8_t **bytes) {
    uint64_t said = length + (uint64_t)more;
    *bytes = malloc(8 + length + n_data);
    assert_non_null(*bytes);
    memcpy(*bytes, &said, 8);
    memcpy(*bytes + 8, text, length);
    for (size_t i = 0; i < n_data; i++)
        (*bytes)[8 + length + i] = (uint8_t)(i + 1);
    return att_safetensors_parse(ctx, "t.safetensors", *bytes, 8 + length + n_data, out);
}

// ---- what must be refused ----------------------------------------------------------------------
#define INFO(shape, begin, end)                                                                    \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"
#define TENSOR(shape, begin, end) "{\"W\":" INFO(shape, begin, end) "}"
#define TWO(begin, end, other_begin, other_end)                                                    \
    "{\"W\":" INFO("[2]", begin, end) ",\"V\":" INFO("[2]", other_begin, other_end) "}"

static const struct {
    const char *text;
    int n_data;
    const char *message;
} bad_headers[] = {
    // JSON
    {"", 0, "no JSON object from its first byte"},
    {" ", 0, "no JSON object from its first byte"},
    {"[]", 0, "no JSON object from its first byte"},
    {"null", 0, "no JSON object from its first byte"},
    {" {}", 0, "no JSON object from its first byte"},
    {"\xEF\xBB\xBF{}", 0, "no JSON object from its first byte"},
    {"{}\n", 0, "nothing but spaces behind"},
    {"{}\t", 0, "nothing but spaces behind"},
    {"{} x", 0, "nothing but spaces behind"},
    {"{", 0, "nothing but spaces behind"},
    {"{}}", 0, "no JSON, byte 3"},
    {"{}{}", 0, "no JSON, byte 3"},
    {"{W}", 0, "no JSON"},
    {"{'W':1}", 0, "no JSON"},
    {"{\"W\"}", 0, "no JSON"},
    {"{\"W\":}", 0, "no JSON"},
    {"{\"W\":1,}", 0, "no JSON"},
    {"{\"W\":" INFO("[2]", "0", "8") " \"V\":1}", 8, "no JSON"},
    {"{\"W\":1e999}", 0, "no JSON"},
    {"{\"W\xFF\":1}", 0, "no JSON"},
    {"{\"W\xC0\x80\":1}", 0, "no JSON"},
    {"{\"W\":\"\xED\xA0\x80\"}", 0, "no JSON"},
    {"{\"W\\u0000\":1}", 0, "no JSON"},
    {"{\"W\\ud800\":1}", 0, "no JSON"},
    {"{\"W\n\":1}", 0, "no JSON"},
    // keys
    {"{\"W\":" INFO("[2]", "0", "8") ",\"W\":" INFO("[2]", "0", "8") "}", 8,
     "duplicate object key"},
    {"{\"W\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "duplicate object key"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 0, "duplicate object key"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate object key"},
    {"{\"W\":{}}", 0, "'W' has no dtype"},
    {"{\"W\":{\"dtype\":\"F32\"}}", 0, "'W' has no shape"},
    {"{\"W\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "'W' has no data_offsets"},
    {"{\"W\":{\"Dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "'W' has no dtype"},
    {"{\"W\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":1}}", 4,
     "'W' has other keys"},
    {"{\"W\":1}", 0, "'W' is described by no object"},
    {"{\"W\":null}", 0, "'W' is described by no object"},
    {"{\"W\":[]}", 0, "'W' is described by no object"},
    {"{\"W\":\"F32\"}", 0, "'W' is described by no object"},
    // notes
    {"{\"__metadata__\":[]}", 0, "__metadata__ is no object"},
    {"{\"__metadata__\":null}", 0, "__metadata__ is no object"},
    {"{\"__metadata__\":\"a\"}", 0, "__metadata__ is no object"},
    {"{\"__metadata__\":{\"step\":1}}", 0, "__metadata__ has something that is no text: 'step'"},
    {"{\"__metadata__\":{\"step\":null}}", 0, "no text: 'step'"},
    {"{\"__metadata__\":{\"a\":\"1\",\"step\":{}}}", 0, "no text: 'step'"},
    // dtype
    {"{\"W\":{\"dtype\":32,\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "'W' has no text as its dtype"},
    {"{\"W\":{\"dtype\":null,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "'W' has no text"},
    {"{\"W\":{\"dtype\":\"\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "the dtype '', which"},
    {"{\"W\":{\"dtype\":\"f32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "the dtype 'f32', which"},
    {"{\"W\":{\"dtype\":\"F32 \",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "the dtype 'F32 '"},
    {"{\"W\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "the dtype 'F4'"},
    {"{\"W\":{\"dtype\":\"F\\n\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "the dtype 'F?'"},
    // shape
    {TENSOR("2", "0", "8"), 8, "'W' has no list as its shape"},
    {TENSOR("{}", "0", "8"), 8, "'W' has no list as its shape"},
    {TENSOR("null", "0", "8"), 8, "'W' has no list as its shape"},
    {TENSOR("[2.0]", "0", "8"), 8, "'W' has an extent that is no whole number"},
    {TENSOR("[\"2\"]", "0", "8"), 8, "'W' has an extent that is no whole number"},
    {TENSOR("[true]", "0", "8"), 8, "'W' has an extent that is no whole number"},
    {TENSOR("[[2]]", "0", "8"), 8, "'W' has an extent that is no whole number"},
    {TENSOR("[02]", "0", "8"), 8, "no JSON"},
    {TENSOR("[-2]", "0", "8"), 8, "'W' has a negative extent"},
    {TENSOR("[-1,-2]", "0", "8"), 8, "'W' has a negative extent"},
    {TENSOR("[9223372036854775808]", "0", "8"), 8, "no JSON"},
    {TENSOR("[18446744073709551616]", "0", "8"), 8, "no JSON"},
    {TENSOR("[9223372036854775807]", "0", "8"), 8, "'W' has more elements than memory"},
    {TENSOR("[4611686018427387906]", "0", "8"), 8, "'W' has more elements than memory"},
    {TENSOR("[4294967296,4294967296]", "0", "0"), 0, "'W' has more elements than memory"},
    {TENSOR("[4294967296,4294967296,0]", "0", "0"), 0, "'W' has more elements than memory"},
    {TENSOR("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "0", "8"), 8, "'W' has more than 16 dims"},
    {TENSOR("[3]", "0", "8"), 8, "'W' needs 12 bytes of its shape, and its offsets are 8 apart"},
    {TENSOR("[1]", "0", "8"), 8, "'W' needs 4 bytes"},
    {TENSOR("[]", "0", "8"), 8, "'W' needs 4 bytes"},
    {TENSOR("[0]", "0", "8"), 8, "'W' needs 0 bytes"},
    // offsets
    {"{\"W\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":8}}", 8, "'W' has no two whole"},
    {"{\"W\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[]}}", 8, "'W' has no two whole"},
    {"{\"W\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8]}}", 8, "'W' has no two whole"},
    {"{\"W\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, "'W' has no two"},
    {"{\"W\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":{\"0\":0}}}", 8, "'W' has no two"},
    {TENSOR("[2]", "0.0", "8"), 8, "'W' has no two whole numbers"},
    {TENSOR("[2]", "0", "\"8\""), 8, "'W' has no two whole numbers"},
    {TENSOR("[2]", "null", "8"), 8, "'W' has no two whole numbers"},
    {TENSOR("[2]", "-8", "0"), 8, "'W' has a negative offset"},
    {TENSOR("[2]", "-9223372036854775808", "8"), 8, "'W' has a negative offset"},
    {TENSOR("[2]", "8", "0"), 8, "'W' ends before it begins"},
    {TENSOR("[2]", "0", "-8"), 8, "'W' ends before it begins"},
    {TENSOR("[2]", "0", "8"), 7, "'W' ends behind the end of the file"},
    {TENSOR("[2]", "0", "8"), 0, "'W' ends behind the end of the file"},
    {TENSOR("[2]", "9223372036854775800", "9223372036854775807"), 8, "behind the end of the file"},
    {TENSOR("[2]", "0", "18446744073709551615"), 8, "no JSON"},
    {TENSOR("[2]", "0", "8"), 9, "1 bytes belong to no tensor, behind tensor 'W'"},
    {TENSOR("[2]", "4", "12"), 12, "a hole of 4 bytes before tensor 'W'"},
    {"{}", 1, "1 bytes belong to no tensor, behind the header"},
    {TWO("0", "8", "0", "8"), 16, "tensor 'W' overlaps tensor 'V'"},
    {TWO("0", "8", "4", "12"), 16, "tensor 'V' overlaps tensor 'W'"},
    {TWO("0", "8", "9", "17"), 17, "a hole of 1 bytes before tensor 'V'"},
    {TWO("8", "16", "16", "24"), 24, "a hole of 8 bytes before tensor 'W'"},
    {TWO("8", "16", "0", "8"), 20, "4 bytes belong to no tensor, behind tensor 'W'"},
    {"{\"W\":" INFO("[2]", "0", "8") ",\"V\":" INFO("[0]", "4", "4") "}", 8, "overlaps tensor 'W'"},
    {"{\"W\":" INFO("[2]", "0", "8") ",\"V\":" INFO("[0]", "9", "9") "}", 8, "'V' ends behind"},
    {"{\"a\\nb\":" INFO("[2]", "0", "7") "}", 8, "tensor 'a?b' needs 8 bytes"},
};

static void refused(AttContext *ctx, const char *text, size_t length, int64_t more, size_t n_data,
                    const char *message) {
    AttTensorFile file;
    uint8_t *bytes;
    AttStatus status = parse(ctx, text, length, more, n_data, &file, &bytes);
    if (status != ATT_FORMAT || !strstr(att_message(ctx), message) ||
        strncmp(att_message(ctx), "t.safetensors: ", 15) != 0 || strchr(att_message(ctx), '\n'))
        fail_msg("%.200s\n  gave %d: %s", text, status, att_message(ctx));
    assert_null(file.owner);
    free(bytes);
}

static void headers_refused(void **state) {
    for (size_t i = 0; i < sizeof bad_headers / sizeof *bad_headers; i++)
        refused(*state, bad_headers[i].text, strlen(bad_headers[i].text), 0,
                (size_t)bad_headers[i].n_data, bad_headers[i].message);
}

static void lengths_refused(void **state) {
    AttContext *ctx = *state;
    refused(ctx, "{}", 2, 1, 0, "ends inside its header");
    refused(ctx, "{}", 2, 99999998, 0, "ends inside its header");
    refused(ctx, "{}", 2, 99999999, 0, "at most 100000000 are allowed");
    refused(ctx, "{}", 2, INT64_MAX, 0, "at most 100000000 are allowed");
    refused(ctx, "{}", 2, -3, 0, "at most 100000000 are allowed");
    refused(ctx, "{}", 2, -1, 0, "no JSON object");
    refused(ctx, "{}", 2, -2, 0, "no JSON object");
    refused(ctx, "{\"a\0b\":1}", 9, 0, 0, "no JSON");
    refused(ctx, "{}\0", 3, 0, 0, "no JSON object");
}

static void deep_nesting_refused(void **state) {
    static char text[ROOM];
    memset(text, '[', sizeof text - 1);
    memcpy(text, "{\"W\":", 5);
    text[sizeof text - 2] = '}';
    refused(*state, text, sizeof text - 1, 0, 0, "no JSON");
}

static void long_names_are_cut_in_messages(void **state) {
    static char text[ROOM];
    memcpy(text, "{\"", 2);
    for (size_t i = 2; i < 60000; i += 2)
        memcpy(text + i, "\xC3\xA4", 2);
    strcpy(text + 60000, "\":1}");
    refused(*state, text, strlen(text), 0, 0, "...' is described by no object");
    assert_true(strlen(att_message(*state)) < 300);
}

// Every way to cut a good file off is an error, and so is a byte more.
static void wrong_lengths(void **state) {
    static const char text[] = TWO("8", "16", "0", "8") "  ";
    AttTensorFile file;
    uint8_t *bytes;
    assert_int_equal(parse(*state, text, strlen(text), 0, 16, &file, &bytes), ATT_OK);
    att_safetensors_close(&file);
    size_t length = 8 + strlen(text) + 16;
    for (size_t cut = 0; cut < length; cut++) {
        uint8_t *exact = malloc(cut + 1);
        assert_non_null(exact);
        memcpy(exact + 1, bytes, cut);
        assert_int_equal(att_safetensors_parse(*state, "t", exact + 1, cut, &file), ATT_FORMAT);
        free(exact);
    }
    free(bytes);
    assert_int_equal(parse(*state, text, strlen(text), 0, 17, &file, &bytes), ATT_FORMAT);
    free(bytes);
}

// One byte at a time: never a crash, and a success gives tensors in the file.
static void every_byte_changed(void **state) {
    static const char text[] = TWO("8", "16", "0", "8");
    AttTensorFile file;
    uint8_t *bytes;
    assert_int_equal(parse(*state, text, strlen(text), 0, 16, &file, &bytes), ATT_OK);
    att_safetensors_close(&file);
    size_t length = 8 + strlen(text) + 16;
    for (size_t at = 0; at < length - 16; at++)
        for (int value = 0; value < 256; value += SWEEP_STEP) {
            uint8_t old = bytes[at];
            bytes[at] = (uint8_t)value;
            if (att_safetensors_parse(*state, "t", bytes, length, &file) == ATT_OK) {
                assert_true(file.n_tensors == 2 || file.n_tensors == 1);
                for (int64_t i = 0; i < file.n_tensors; i++)
                    assert_true(file.tensors[i].bytes == 8);
            }
            att_safetensors_close(&file);
            bytes[at] = old;
        }
    free(bytes);
}

static void files_refused(void **state) {
    AttTensorFile file;
    static const struct {
        const char *path, *message;
        AttStatus status;
    } table[] = {{"/nowhere/x.safetensors", "No such file", ATT_IO},
                 {"/tmp", "Is a directory", ATT_IO},
                 {"/dev/null", "no regular file", ATT_IO}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(att_safetensors_open(*state, table[i].path, &file), table[i].status);
        assert_non_null(strstr(att_message(*state), table[i].message));
        assert_null(file.owner);
        att_safetensors_close(&file);
    }
    char path[] = "/tmp/attc-empty-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(att_safetensors_open(*state, path, &file), ATT_FORMAT);
    assert_non_null(strstr(att_message(*state), "is empty"));
    unlink(path);
}

// ---- what must be read -------------------------------------------------------------------------
static void good_headers(void **state) {
    static const struct {
        const char *text;
        int n_data, n_tensors, n_notes;
    } table[] = {
        {"{}", 0, 0, 0},
        {"{}      ", 0, 0, 0},
        {"{\"__metadata__\":{}}", 0, 0, 0},
        {"{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}}", 0, 0, 2},
        {TENSOR("[2]", "0", "8"), 8, 1, 0},
        {TENSOR("[]", "0", "4"), 4, 1, 0},
        {TENSOR("[0]", "0", "0"), 0, 1, 0},
        {TENSOR("[3,0,2]", "0", "0"), 0, 1, 0},
        {TENSOR("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "0", "8"), 8, 1, 0},
        {TWO("0", "8", "8", "16"), 16, 2, 0},
        {TWO("8", "16", "0", "8"), 16, 2, 0},
        {"{\n \"W\" :\t" INFO("[ 2 ]", " 0", "8 ") "\n}", 8, 1, 0},
        {"{\"\":" INFO("[2]", "0", "8") "}", 8, 1, 0},
        {"{\"W\":" INFO("[2]", "0", "8") ",\"V\":" INFO("[0]", "8", "8") "}", 8, 2, 0},
        {"{\"W\":" INFO("[2]", "0", "8") ",\"V\":" INFO("[0]", "0", "0") "}", 8, 2, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        AttTensorFile file;
        uint8_t *bytes;
        if (parse(*state, table[i].text, strlen(table[i].text), 0, (size_t)table[i].n_data, &file,
                  &bytes))
            fail_msg("%s\n  gave: %s", table[i].text, att_message(*state));
        assert_int_equal(file.n_tensors, table[i].n_tensors);
        assert_int_equal(file.n_notes, table[i].n_notes);
        att_safetensors_close(&file);
        free(bytes);
    }
}

static void every_type(void **state) {
    static const struct {
        const char *type;
        int bytes;
        AttElem elem;
    } table[] = {
        {"F32", 4, ATT_F32},        {"F64", 8, ATT_F64},    {"F16", 2, ATT_F16},
        {"BF16", 2, ATT_BF16},      {"I32", 4, ATT_I32},    {"I64", 8, ATT_I64},
        {"BOOL", 1, ATT_BOOL},      {"U8", 1, ATT_N_ELEM},  {"I8", 1, ATT_N_ELEM},
        {"U16", 2, ATT_N_ELEM},     {"I16", 2, ATT_N_ELEM}, {"U32", 4, ATT_N_ELEM},
        {"U64", 8, ATT_N_ELEM},     {"C64", 8, ATT_N_ELEM}, {"F8_E4M3", 1, ATT_N_ELEM},
        {"F8_E5M2", 1, ATT_N_ELEM},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[200];
        AttTensorFile file;
        uint8_t *bytes;
        snprintf(text, sizeof text,
                 "{\"W\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%d]}}", table[i].type,
                 3 * table[i].bytes);
        assert_int_equal(
            parse(*state, text, strlen(text), 0, (size_t)(3 * table[i].bytes), &file, &bytes),
            ATT_OK);
        assert_int_equal(file.tensors[0].elem, table[i].elem);
        assert_string_equal(file.tensors[0].type, table[i].type);
        assert_int_equal(file.tensors[0].bytes, 3 * table[i].bytes);
        att_safetensors_close(&file);
        free(bytes);
    }
}

static void tensors_come_in_the_order_of_the_file(void **state) {
    static const char text[] = TWO("8", "16", "0", "8");
    AttTensorFile file;
    uint8_t *bytes;
    assert_int_equal(parse(*state, text, strlen(text), 0, 16, &file, &bytes), ATT_OK);
    assert_string_equal(file.tensors[0].name, "V");
    assert_string_equal(file.tensors[1].name, "W");
    const AttNamedTensor *found = att_safetensors_find(&file, "W");
    assert_ptr_equal(found, &file.tensors[1]);
    assert_int_equal(*(const uint8_t *)found->data, 9);
    assert_null(att_safetensors_find(&file, "w"));
    assert_null(att_safetensors_note(&file, "step"));
    att_safetensors_close(&file);
    free(bytes);
}

// ---- writing -----------------------------------------------------------------------------------
typedef struct {
    AttContext *ctx;
    char folder[32], path[64];
} Place;

static void make_place(Place *place, AttContext *ctx) {
    place->ctx = ctx;
    strcpy(place->folder, "/tmp/attc-write-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->path, sizeof place->path, "%s/m.safetensors", place->folder);
}

// Requires: nothing is in it but the file of its path.
static void remove_place(Place *place) {
    unlink(place->path);
    assert_int_equal(rmdir(place->folder), 0);
}

static const float W[6] = {1, 2, 3, 4, 5, 6};
static const double D[2] = {-1, 0.5};
static const uint8_t B[3] = {1, 0, 1};
static const uint16_t H[3] = {0x3C00, 0xBC00, 0};
static const int64_t L[1] = {INT64_MIN};
static const AttNamedTensor some[] = {
    {.name = "layer.0.attend.P_q", .elem = ATT_F32, .rank = 2, .shape = {2, 3}, .data = W},
    {.name = "flags", .elem = ATT_BOOL, .rank = 1, .shape = {3}, .data = B},
    {.name = "D \"\xC3\xA4\\\n\x01", .elem = ATT_F64, .rank = 1, .shape = {2}, .data = D},
    {.name = "half", .elem = ATT_F16, .rank = 2, .shape = {3, 1}, .data = H},
    {.name = "brain", .elem = ATT_BF16, .rank = 1, .shape = {3}, .data = H},
    {.name = "scalar", .elem = ATT_I64, .rank = 0, .data = L},
    {.name = "none", .elem = ATT_I32, .rank = 2, .shape = {4, 0}, .data = NULL},
};
enum { N_SOME = sizeof some / sizeof *some };

static void written_is_read(void **state) {
    static const AttNote notes[] = {{"step", "200"}, {"text", "a \"b\"\n\xE2\x82\xAC"}};
    Place place;
    AttTensorFile file;
    make_place(&place, *state);
    assert_int_equal(att_safetensors_write(*state, place.path, some, N_SOME, notes, 2), ATT_OK);
    if (att_safetensors_open(*state, place.path, &file))
        fail_msg("%s", att_message(*state));
    assert_int_equal(file.n_tensors, N_SOME);
    assert_string_equal(att_safetensors_note(&file, "step"), "200");
    assert_string_equal(att_safetensors_note(&file, "text"), notes[1].value);
    for (int i = 0; i < N_SOME; i++) {
        const AttNamedTensor *read = att_safetensors_find(&file, some[i].name);
        assert_non_null(read);
        assert_int_equal(read->elem, some[i].elem);
        assert_int_equal(read->rank, some[i].rank);
        assert_memory_equal(read->shape, some[i].shape, sizeof read->shape);
        if (read->bytes)
            assert_memory_equal(read->data, some[i].data, (size_t)read->bytes);
        assert_int_equal((uintptr_t)read->data % att_elem_bytes(read->elem), 0);
    }
    att_safetensors_close(&file);
    remove_place(&place);
}

static void nothing_is_a_file(void **state) {
    Place place;
    AttTensorFile file;
    make_place(&place, *state);
    assert_int_equal(att_safetensors_write(*state, place.path, NULL, 0, NULL, 0), ATT_OK);
    assert_int_equal(att_safetensors_open(*state, place.path, &file), ATT_OK);
    assert_int_equal(file.n_tensors, 0);
    att_safetensors_close(&file);
    remove_place(&place);
}

// What cannot be written leaves the old file as it is.
static void arguments_refused(void **state) {
    static const AttNamedTensor two[] = {{.name = "W", .rank = 1, .shape = {6}, .data = W},
                                         {.name = "W", .rank = 1, .shape = {6}, .data = W}};
    static const AttNamedTensor notes_name = {.name = "__metadata__", .data = W};
    static const AttNamedTensor not_utf8 = {.name = "\xFF", .data = W};
    static const AttNamedTensor large = {.name = "W", .rank = 1, .shape = {INT64_MAX}, .data = W};
    static const AttNamedTensor negative = {.name = "W", .rank = 1, .shape = {-1}, .data = W};
    static const AttNamedTensor no_elem = {.name = "W", .elem = ATT_N_ELEM, .data = W};
    static const AttNote same[] = {{"a", "1"}, {"a", "2"}}, bad_note = {"a", "\xFF"};
    static const struct {
        const AttNamedTensor *tensors;
        int n;
        const AttNote *notes;
        int n_notes;
        const char *message;
    } table[] = {
        {two, 2, NULL, 0, "tensor 'W' comes twice"},
        {&notes_name, 1, NULL, 0, "has the name of the notes"},
        {&not_utf8, 1, NULL, 0, "not UTF-8"},
        {&large, 1, NULL, 0, "more elements than memory"},
        {&negative, 1, NULL, 0, "negative extent"},
        {&no_elem, 1, NULL, 0, "cannot be written"},
        {some, N_SOME, same, 2, "note 'a' comes twice"},
        {some, N_SOME, &bad_note, 1, "note 'a' has a text that is not UTF-8"},
    };
    Place place;
    AttTensorFile file;
    make_place(&place, *state);
    assert_int_equal(att_safetensors_write(*state, place.path, some, N_SOME, NULL, 0), ATT_OK);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(att_safetensors_write(*state, place.path, table[i].tensors, table[i].n,
                                               table[i].notes, table[i].n_notes),
                         ATT_ARGUMENT);
        if (!strstr(att_message(*state), table[i].message))
            fail_msg("%s was expected: %s", table[i].message, att_message(*state));
    }
    assert_int_equal(att_safetensors_open(*state, place.path, &file), ATT_OK);
    assert_int_equal(file.n_tensors, N_SOME);
    att_safetensors_close(&file);
    remove_place(&place);
}

static void places_refused(void **state) {
    static const char *const paths[][2] = {
        {"/nowhere/x.safetensors", "No such file or directory"},
        {"/proc/x.safetensors", "No such file or directory"},
        {"/tmp/", "Is a directory"},
        {"/dev/full", "No space left on device"},
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(att_safetensors_write(*state, paths[i][0], some, N_SOME, NULL, 0), ATT_IO);
        if (!strstr(att_message(*state), paths[i][1]))
            fail_msg("%s: %s", paths[i][0], att_message(*state));
    }
}

// ---- memory ------------------------------------------------------------------------------------
// jansson has its allocator for the process.
static int64_t allocations_left; // until one fails

static void *allocate_but_one(size_t bytes) {
    return allocations_left-- ? malloc(bytes) : NULL;
}

static AttStatus write_in(Place *place, int64_t allocations) {
    static const AttNote note = {"step", "200"};
    allocations_left = allocations;
    json_set_alloc_funcs(allocate_but_one, free);
    AttStatus status = att_safetensors_write(place->ctx, place->path, some, N_SOME, &note, 1);
    json_set_alloc_funcs(malloc, free);
    return status;
}

static AttStatus open_in(Place *place, int64_t allocations, AttTensorFile *file) {
    allocations_left = allocations;
    json_set_alloc_funcs(allocate_but_one, free);
    AttStatus status = att_safetensors_open(place->ctx, place->path, file);
    json_set_alloc_funcs(malloc, free);
    return status;
}

// Whichever allocation fails, there is no file, or all of it; and nothing is read, or all of it.
static void memory_that_ends(void **state) {
    enum { MOST = 1000 };
    Place place;
    AttTensorFile file;
    int64_t n = 0;
    make_place(&place, *state);
    while (write_in(&place, n) != ATT_OK) {
        assert_int_equal(access(place.path, F_OK), -1);
        assert_true(++n < MOST);
    }
    assert_true(n > N_SOME);
    for (n = 0; open_in(&place, n, &file) != ATT_OK; n++) {
        assert_null(file.owner);
        assert_true(n < MOST);
    }
    assert_true(n > N_SOME && file.n_tensors == N_SOME && file.n_notes == 1);
    for (int i = 0; i < N_SOME; i++) {
        const AttNamedTensor *read = att_safetensors_find(&file, some[i].name);
        assert_non_null(read);
        assert_int_equal(read->rank, some[i].rank);
        assert_memory_equal(read->shape, some[i].shape, sizeof read->shape);
    }
    att_safetensors_close(&file);
    remove_place(&place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(headers_refused, make_context, free_context),
        cmocka_unit_test_setup_teardown(lengths_refused, make_context, free_context),
        cmocka_unit_test_setup_teardown(deep_nesting_refused, make_context, free_context),
        cmocka_unit_test_setup_teardown(long_names_are_cut_in_messages, make_context, free_context),
        cmocka_unit_test_setup_teardown(wrong_lengths, make_context, free_context),
        cmocka_unit_test_setup_teardown(every_byte_changed, make_context, free_context),
        cmocka_unit_test_setup_teardown(files_refused, make_context, free_context),
        cmocka_unit_test_setup_teardown(good_headers, make_context, free_context),
        cmocka_unit_test_setup_teardown(every_type, make_context, free_context),
        cmocka_unit_test_setup_teardown(tensors_come_in_the_order_of_the_file, make_context,
                                        free_context),
        cmocka_unit_test_setup_teardown(written_is_read, make_context, free_context),
        cmocka_unit_test_setup_teardown(nothing_is_a_file, make_context, free_context),
        cmocka_unit_test_setup_teardown(arguments_refused, make_context, free_context),
        cmocka_unit_test_setup_teardown(places_refused, make_context, free_context),
        cmocka_unit_test_setup_teardown(memory_that_ends, make_context, free_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
