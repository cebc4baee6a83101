// SPDX-License-Identifier: Apache-2.0
// The .npy reader against hand-made files: what must be read, and what must be refused and how.

#include "support.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attc.h"

// A file in memory: version, header text, and n_data bytes of data.
typedef struct {
    uint8_t bytes[70000];
    size_t length;
} File;

static void make_file(File *file, int major, const char *text, const void *data, size_t n_data) {
    size_t n = strlen(text), prefix = major == 1 ? 10 : 12;
    memcpy(file->bytes, "\x93NUMPY", 6);
    file->bytes[6] = (uint8_t)major;
    file->bytes[7] = 0;
    for (size_t i = 8; i < prefix; i++)
        file->bytes[i] = (uint8_t)(n >> 8 * (i - 8));
    memcpy(file->bytes + prefix, text, n);
    if (n_data)
        memcpy(file->bytes + prefix + n, data, n_data);
    file->length = prefix + n + n_data;
}

static int make_context(void **state) {
    *state = att_context_new(1);
    return *state ? 0 : -1;
}

static int free_context(void **state) {
    att_context_free(*state);
    return 0;
}

// Parses from a buffer of exactly this length, so that the sanitizer sees reads beyond it.
static AttStatus parse(AttContext *ctx, const uint8_t *bytes, size_t length, AttElem elem,
                       AttTensorData *out) {
    uint8_t *exact = malloc(length + (length == 0));
    assert_non_null(exact);
    memcpy(exact, bytes, length);
    AttStatus status = att_npy_parse(ctx, "t.npy", exact, length, elem, out);
    free(exact);
    return status;
}

// ---- what must be refused ----------------------------------------------------------------------
#define F4_HEADER "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"

static const struct {
    const char *text, *message;
} bad_texts[] = {
    {"", "'{' expected"},
    {"{", "a string expected"},
    {"{}", "lacks 'descr'"},
    {"[]", "'{' expected"},
    {"{'descr': '<f4'}", "lacks 'fortran_order'"},
    {"{'descr': '<f4', 'fortran_order': False}", "lacks 'shape'"},
    {"{'fortran_order': False, 'shape': ()}", "lacks 'descr'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,3), 'x': 1}", "unknown key 'x'"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "twice"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,3), 'shape': ()}", "twice"},
    {"{'descr': '<f4' 'fortran_order': False, 'shape': (2,3)}", "a comma expected"},
    {"{'descr' '<f4', 'fortran_order': False, 'shape': (2,3)}", "a colon expected"},
    {"{'descr': '<f4, 'fortran_order': False, 'shape': (2,3)}", "type '<f4, ' "},
    {"{'descr': '<f4", "malformed"},
    {"{'descr': <f4, 'fortran_order': False, 'shape': (2,3)}", "a string expected"},
    {"{'descr': '', 'fortran_order': False, 'shape': (2,3)}", "type '' "},
    {"{'descr': '<', 'fortran_order': False, 'shape': (2,3)}", "type '<' "},
    {"{'descr': 'f4', 'fortran_order': False, 'shape': (2,3)}", "type 'f4' "},
    {"{'descr': '|f4', 'fortran_order': False, 'shape': (2,3)}", "type '|f4' "},
    {"{'descr': '<f16', 'fortran_order': False, 'shape': (2,3)}", "type '<f16' "},
    {"{'descr': '<f1', 'fortran_order': False, 'shape': (2,3)}", "type '<f1' "},
    {"{'descr': '<i3', 'fortran_order': False, 'shape': (2,3)}", "type '<i3' "},
    {"{'descr': '<b4', 'fortran_order': False, 'shape': (2,3)}", "type '<b4' "},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,3)}", "type '<c8' "},
    {"{'descr': '<U7', 'fortran_order': False, 'shape': (2,3)}", "type '<U7' "},
    {"{'descr': '|S7', 'fortran_order': False, 'shape': (2,3)}", "type '|S7' "},
    {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2,3)}", "type '<M8[ns]' "},
    {"{'descr': '|V2', 'fortran_order': False, 'shape': (2,3)}", "type '|V2' "},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (2,3)}", "Python objects"},
    {"{'descr': '|O8', 'fortran_order': False, 'shape': (2,3)}", "Python objects"},
    {"{'descr': 'O', 'fortran_order': False, 'shape': (2,3)}", "Python objects"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,3)}", "records"},
    {"{'descr': '<f4\\x00', 'fortran_order': False, 'shape': (2,3)}", "plain string"},
    {"{'descr': '<f4\x01', 'fortran_order': False, 'shape': (2,3)}", "plain string"},
    {"{'descr': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',}", "plain string"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,3)}", "True or False expected"},
    {"{'descr': '<f4', 'fortran_order': false, 'shape': (2,3)}", "True or False expected"},
    {"{'descr': '<f4', 'fortran_order': Falsey, 'shape': (2,3)}", "a comma expected"},
    {"{'descr': '<f4', 'fortran_order': None, 'shape': (2,3)}", "True or False expected"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "a shape expected"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': [2,3]}", "a shape expected"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "a comma after the only"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "a comma in the shape"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,,3)}", "an extent expected"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "an extent expected"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,3}", "a comma in the shape"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,3", "a comma in the shape"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", "an extent expected"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,3)}", "a comma in the shape"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (02,3)}", "an extent expected"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (+2,3)}", "an extent expected"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0x2,3)}", "a comma in the shape"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,-3)}", "negative"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,-3)}", "negative"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "out of range"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
     "out of range"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}",
     "than memory can hold"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
     "than memory can hold"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0)}",
     "than memory can hold"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905, 2)}",
     "than memory can hold"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': "
     "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
     "more than 16 dims"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,3)} x", "nothing after '}'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,3)}}", "nothing after '}'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,3), ,}", "a string expected"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,4)}", "is truncated"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,3)}", "is truncated"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", "is truncated"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,2)}", "bytes after its data"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "bytes after its data"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,0)}", "bytes after its data"},
};

static void bad_headers(void **state) {
    static File file;
    float data[6] = {1, 2, 3, 4, 5, 6};
    AttTensorData tensor;
    for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++)
        for (int major = 1; major <= 3; major++) {
            make_file(&file, major, bad_texts[i].text, data, sizeof data);
            AttStatus status = parse(*state, file.bytes, file.length, ATT_F32, &tensor);
            if (status != ATT_FORMAT || !strstr(att_message(*state), bad_texts[i].message) ||
                strncmp(att_message(*state), "t.npy: ", 7) != 0 || tensor.data)
                fail_msg("%s\n  gave %d: %s", bad_texts[i].text, status, att_message(*state));
        }
}

static void bad_prefixes(void **state) {
    static File file;
    float data[6] = {0};
    AttTensorData tensor;
    static const struct {
        int at, value;
        const char *message;
    } table[] = {{0, 0, "not an .npy"},  {1, 'n', "not an .npy"}, {5, 'Z', "not an .npy"},
                 {6, 0, "version 0.0"},  {6, 4, "version 4.0"},   {6, 255, "version 255.0"},
                 {7, 1, "version 1.1"},  {9, 1, "ends inside"},   {8, 255, "ends inside"},
                 {8, 1, "the header is"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        make_file(&file, 1, F4_HEADER, data, sizeof data);
        file.bytes[table[i].at] = (uint8_t)table[i].value;
        assert_int_equal(parse(*state, file.bytes, file.length, ATT_F32, &tensor), ATT_FORMAT);
        if (!strstr(att_message(*state), table[i].message))
            fail_msg("byte %d = %d gave: %s", table[i].at, table[i].value, att_message(*state));
    }
}

// Every way to cut a good file off is an error, and so is every way to prolong it.
static void wrong_lengths(void **state) {
    static File file;
    float data[6] = {1, 2, 3, 4, 5, 6};
    AttTensorData tensor;
    for (int major = 1; major <= 3; major++) {
        make_file(&file, major, F4_HEADER, data, sizeof data);
        for (size_t cut = 0; cut < file.length; cut++) {
            assert_int_equal(parse(*state, file.bytes, cut, ATT_F32, &tensor), ATT_FORMAT);
            assert_null(tensor.data);
        }
        for (size_t more = 1; more < 9; more++) {
            file.bytes[file.length + more - 1] = 0;
            assert_int_equal(parse(*state, file.bytes, file.length + more, ATT_F32, &tensor),
                             ATT_FORMAT);
        }
    }
}

static void long_header(void **state) {
    static File file;
    static char text[66000];
    AttTensorData tensor;
    memset(text, ' ', sizeof text - 1);
    memcpy(text, F4_HEADER, strlen(F4_HEADER));
    make_file(&file, 2, text, NULL, 0);
    assert_int_equal(parse(*state, file.bytes, file.length, ATT_F32, &tensor), ATT_FORMAT);
    assert_non_null(strstr(att_message(*state), "longer than any real one"));
}

// One byte at a time: never a crash, and a success gives a tensor of the right size.
static void every_byte_changed(void **state) {
    static File file;
    float data[6] = {1, 2, 3, 4, 5, 6};
    AttTensorData tensor;
    make_file(&file, 1, F4_HEADER, data, sizeof data);
    for (size_t at = 0; at < file.length - sizeof data; at++)
        for (int value = 0; value < 256; value++) {
            uint8_t old = file.bytes[at];
            file.bytes[at] = (uint8_t)value;
            if (parse(*state, file.bytes, file.length, ATT_N_ELEM, &tensor) == ATT_OK)
                att_tensor_free(&tensor);
            file.bytes[at] = old;
        }
}

// ---- what must be read -------------------------------------------------------------------------
static void good_texts(void **state) {
    static const char *const texts[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3)}",
        "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
        "  { 'shape' : ( 2 , 3 , ) , 'descr' : '=f4' , 'fortran_order' : False , }  \n\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L)}",
    };
    static File file;
    float data[6] = {1, 2, 3, 4, 5, 6};
    AttTensorData tensor;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int major = 1; major <= 3; major++) {
            make_file(&file, major, texts[i], data, sizeof data);
            assert_int_equal(parse(*state, file.bytes, file.length, ATT_F32, &tensor), ATT_OK);
            assert_int_equal(tensor.rank, 2);
            assert_int_equal(tensor.shape[0], 2);
            assert_int_equal(tensor.shape[1], 3);
            assert_memory_equal(tensor.data, data, sizeof data);
            att_tensor_free(&tensor);
        }
}

static void shapes(void **state) {
    static File file;
    float data[6] = {1, 2, 3, 4, 5, 6};
    AttTensorData tensor;
    make_file(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", data, 4);
    assert_int_equal(parse(*state, file.bytes, file.length, ATT_F32, &tensor), ATT_OK);
    assert_int_equal(tensor.rank, 0);
    assert_true(*(float *)tensor.data == 1);
    att_tensor_free(&tensor);
    make_file(&file, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (6,)}", data, 24);
    assert_int_equal(parse(*state, file.bytes, file.length, ATT_F32, &tensor), ATT_OK);
    assert_memory_equal(tensor.data, data, sizeof data);
    att_tensor_free(&tensor);
    make_file(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0, 2)}", data, 0);
    assert_int_equal(parse(*state, file.bytes, file.length, ATT_F32, &tensor), ATT_OK);
    assert_null(tensor.data);
    assert_int_equal(tensor.shape[0], 3);
    att_tensor_free(&tensor);
}

// a[i][j][k] = 100 i + 10 j + k, stored with the first dim fastest.
static void fortran_order(void **state) {
    static File file;
    int16_t data[24];
    int n = 0;
    AttTensorData tensor;
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 2; i++)
                data[n++] = (int16_t)(100 * i + 10 * j + k);
    make_file(&file, 1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4)}", data, 48);
    assert_int_equal(parse(*state, file.bytes, file.length, ATT_I64, &tensor), ATT_OK);
    n = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++)
                assert_int_equal(((int64_t *)tensor.data)[n++], 100 * i + 10 * j + k);
    att_tensor_free(&tensor);
}

// Each type of file holds these bytes (most significant first) in both byte orders.
static void types(void **state) {
    static const struct {
        const char *type;
        int size;
        uint8_t bytes[8];
        AttElem natural;
        double value;
    } table[] = {
        {"b1", 1, {1}, ATT_BOOL, 1},
        {"i1", 1, {0x80}, ATT_I32, -128},
        {"u1", 1, {0xFF}, ATT_I32, 255},
        {"i2", 2, {0x80, 0}, ATT_I32, -32768},
        {"u2", 2, {0xFF, 0xFE}, ATT_I32, 65534},
        {"i4", 4, {0xFF, 0xFF, 0xFF, 0xFE}, ATT_I32, -2},
        {"u4", 4, {0xFF, 0xFF, 0xFF, 0xFE}, ATT_I64, 4294967294.0},
        {"i8", 8, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xF6}, ATT_I64, -10},
        {"u8", 8, {0, 0, 0, 1, 0, 0, 0, 0}, ATT_I64, 4294967296.0},
        {"f2", 2, {0xC1, 0x00}, ATT_F16, -2.5},
        {"f4", 4, {0x40, 0x48, 0xF5, 0xC3}, ATT_F32, 3.1400001049041748046875},
        {"f8", 8, {0xC0, 0x04, 0, 0, 0, 0, 0, 0}, ATT_F64, -2.5},
    };
    static File file;
    AttTensorData tensor;
    for (size_t t = 0; t < sizeof table / sizeof *table; t++)
        for (int big = 0; big < 2; big++) {
            char text[100];
            uint8_t data[8];
            int size = table[t].size;
            for (int i = 0; i < size; i++)
                data[big ? i : size - 1 - i] = table[t].bytes[i];
            snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': ()}",
                     size == 1 ? '|'
                     : big     ? '>'
                               : '<',
                     table[t].type);
            make_file(&file, 1, text, data, (size_t)size);
            assert_int_equal(parse(*state, file.bytes, file.length, ATT_N_ELEM, &tensor), ATT_OK);
            assert_int_equal(tensor.elem, table[t].natural);
            att_tensor_free(&tensor);
            assert_int_equal(parse(*state, file.bytes, file.length, ATT_F64, &tensor), ATT_OK);
            assert_true(*(double *)tensor.data == table[t].value);
            att_tensor_free(&tensor);
            assert_int_equal(parse(*state, file.bytes, file.length, ATT_F32, &tensor), ATT_OK);
            assert_true(*(float *)tensor.data == (float)table[t].value);
            att_tensor_free(&tensor);
        }
}

// Conversions that lose more than float precision are refused, and the element is named.
static void conversions(void **state) {
    static const struct {
        const char *type;
        union {
            double f8;
            int64_t i8;
            uint64_t u8;
            uint8_t u1;
            float f4;
        } value;
        AttElem to;
        const char *message; // NULL: fine
        double expected;     // the bits for 16-bit types
    } table[] = {
        {"<f8", {.f8 = 1e300}, ATT_F32, "element 0 is 1e+300, which f32 cannot hold", 0},
        {"<f8", {.f8 = INFINITY}, ATT_F32, NULL, INFINITY},
        {"<f8", {.f8 = 0.1}, ATT_F32, NULL, (double)0.1f},
        {"<f8", {.f8 = 65519.99}, ATT_F16, NULL, 0x7BFF},
        {"<f8", {.f8 = 65520}, ATT_F16, "f16 cannot hold", 0},
        {"<f8", {.f8 = -INFINITY}, ATT_F16, NULL, 0xFC00},
        // One rounding: through float, 1 + 2^-11 + 2^-40 would become a tie and then 1.
        {"<f8", {.f8 = 0x1.0020000001p0}, ATT_F16, NULL, 0x3C01},
        {"<f8", {.f8 = 0x1.00200000p0}, ATT_F16, NULL, 0x3C00},
        {"<f8", {.f8 = 0x1.0060000001p0}, ATT_F16, NULL, 0x3C02},
        {"<f8", {.f8 = 0x1.005fffffffp0}, ATT_F16, NULL, 0x3C01},
        {"<f8", {.f8 = 0x1.0100000001p0}, ATT_BF16, NULL, 0x3F81},
        {"<f8", {.f8 = 1e39}, ATT_BF16, "bf16 cannot hold", 0},
        {"<f8", {.f8 = 1}, ATT_I32, "holds float64 where i32 is needed", 0},
        {"<f8", {.f8 = 1}, ATT_BOOL, "holds float64 where bool is needed", 0},
        {"<i8", {.i8 = 2147483648}, ATT_I32, "element 0 is 2147483648, which i32", 0},
        {"<i8", {.i8 = -2147483648}, ATT_I32, NULL, -2147483648.0},
        {"<i8", {.i8 = 2}, ATT_BOOL, "element 0 is 2, which bool", 0},
        {"<i8", {.i8 = 1}, ATT_BOOL, NULL, 1},
        {"<i8", {.i8 = 16777217}, ATT_F32, NULL, 16777216},
        {"<i8", {.i8 = 70000}, ATT_F16, "f16 cannot hold", 0},
        {"<u8", {.u8 = UINT64_MAX}, ATT_I64, "element 0 is 18446744073709551615, which i64", 0},
        {"<u8", {.u8 = UINT64_MAX}, ATT_N_ELEM, "element 0 is 18446744073709551615", 0},
        {"<u8", {.u8 = UINT64_MAX}, ATT_F32, NULL, 18446744073709551616.0},
        {"|b1", {.u1 = 2}, ATT_BOOL, "element 0 is 2, which bool", 0},
        {"|b1", {.u1 = 255}, ATT_F32, "element 0 is 255, which bool", 0},
        {"|b1", {.u1 = 1}, ATT_I32, NULL, 1},
    };
    static File file;
    AttTensorData tensor;
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        char text[100];
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': ()}",
                 table[t].type);
        make_file(&file, 1, text, &table[t].value, (size_t)(table[t].type[2] - '0'));
        AttStatus status = parse(*state, file.bytes, file.length, table[t].to, &tensor);
        if (table[t].message) {
            assert_int_equal(status, ATT_FORMAT);
            assert_null(tensor.data);
            if (!strstr(att_message(*state), table[t].message))
                fail_msg("row %zu: %s", t, att_message(*state));
            continue;
        }
        assert_int_equal(status, ATT_OK);
        double got = table[t].to == ATT_F32    ? (double)*(float *)tensor.data
                     : table[t].to == ATT_I32  ? *(int32_t *)tensor.data
                     : table[t].to == ATT_BOOL ? *(uint8_t *)tensor.data
                                               : *(uint16_t *)tensor.data;
        if (got != table[t].expected)
            fail_msg("row %zu: %g", t, got);
        att_tensor_free(&tensor);
    }
}

// ---- files -------------------------------------------------------------------------------------
static void make_name(char *out, size_t room, const char *directory, const char *name) {
    snprintf(out, room, "%s/%s", directory, name);
}

static int count_files(const char *directory) {
    char command[300];
    int count = 0;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", directory);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

// Written and read back: every element type and rank, and nothing is left beside the file.
static void written_files(void **state) {
    char directory[] = "/tmp/npy_test_XXXXXX", path[200];
    int64_t shape[ATT_RANK_MAX];
    assert_non_null(mkdtemp(directory));
    make_name(path, sizeof path, directory, "a.npy");
    for (int rank = 0; rank <= ATT_RANK_MAX; rank++)
        for (int elem = 0; elem < ATT_N_ELEM; elem++) {
            AttTensorData tensor, back;
            for (int i = 0; i < rank; i++)
                shape[i] = i % 3 == 1 ? 3 : 1;
            assert_int_equal(att_tensor_new(*state, elem, rank, shape, &tensor), ATT_OK);
            assert_int_equal(att_tensor_draw(*state, &tensor, 7, "a", 0), ATT_OK);
            assert_int_equal(att_npy_write(*state, path, &tensor), ATT_OK);
            assert_int_equal(att_npy_read(*state, path, elem, &back), ATT_OK);
            assert_int_equal(back.rank, rank);
            int64_t count = 1;
            for (int i = 0; i < rank; i++) {
                assert_int_equal(back.shape[i], shape[i]);
                count *= shape[i];
            }
            assert_memory_equal(back.data, tensor.data, (size_t)count * att_elem_bytes(elem));
            att_tensor_free(&tensor);
            att_tensor_free(&back);
        }
    assert_int_equal(count_files(directory), 1);
    unlink(path);
    rmdir(directory);
}

// A file in the way keeps its mode and its links; a failed write leaves the old file alone.
static void replaced_files(void **state) {
    char directory[] = "/tmp/npy_test_XXXXXX", path[200], link[200];
    struct stat info;
    float value = 3;
    AttTensorData tensor = {.elem = ATT_F32, .data = &value}, back;
    assert_non_null(mkdtemp(directory));
    make_name(path, sizeof path, directory, "a.npy");
    make_name(link, sizeof link, directory, "link.npy");
    assert_int_equal(att_npy_write(*state, path, &tensor), ATT_OK);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(symlink("a.npy", link), 0);
    value = 4;
    assert_int_equal(att_npy_write(*state, link, &tensor), ATT_OK);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(att_npy_read(*state, path, ATT_F32, &back), ATT_OK);
    assert_true(*(float *)back.data == 4);
    att_tensor_free(&back);
    tensor.elem = ATT_N_ELEM;
    assert_int_equal(att_npy_write(*state, path, &tensor), ATT_ARGUMENT);
    assert_int_equal(count_files(directory), 2);
    unlink(link);
    unlink(path);
    rmdir(directory);
}

static void system_errors(void **state) {
    float value = 3;
    AttTensorData tensor = {.elem = ATT_F32, .data = &value}, back;
    assert_int_equal(att_npy_read(*state, "/nowhere/a.npy", ATT_F32, &back), ATT_IO);
    assert_string_equal(att_message(*state), "/nowhere/a.npy: No such file or directory");
    assert_int_equal(att_npy_read(*state, "/tmp", ATT_F32, &back), ATT_IO);
    assert_string_equal(att_message(*state), "/tmp: Is a directory");
    assert_int_equal(att_npy_read(*state, "/dev/null", ATT_F32, &back), ATT_FORMAT);
    assert_int_equal(att_npy_write(*state, "/nowhere/a.npy", &tensor), ATT_IO);
    assert_string_equal(att_message(*state), "/nowhere/a.npy: No such file or directory");
    assert_int_equal(att_npy_write(*state, "/tmp", &tensor), ATT_IO);
    assert_int_equal(att_npy_write(*state, "/dev/full", &tensor), ATT_IO);
    assert_string_equal(att_message(*state), "/dev/full: No space left on device");
    assert_int_equal(att_npy_write(*state, "/dev/null", &tensor), ATT_OK);
}

// What has no size is read to its end.
static void pipes(void **state) {
    static File file;
    float data[6] = {1, 2, 3, 4, 5, 6};
    int ends[2];
    char path[64];
    AttTensorData tensor;
    make_file(&file, 2, F4_HEADER, data, sizeof data);
    for (size_t cut = 0; cut < 2; cut++) {
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], file.bytes, file.length - cut), file.length - cut);
        close(ends[1]);
        snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
        AttStatus status = att_npy_read(*state, path, ATT_F32, &tensor);
        assert_int_equal(status, cut ? ATT_FORMAT : ATT_OK);
        if (!cut)
            assert_memory_equal(tensor.data, data, sizeof data);
        att_tensor_free(&tensor);
        close(ends[0]);
    }
}

// What begins otherwise is not read on: it may have no end.
static void endless_inputs(void **state) {
    AttTensorData tensor;
    int ends[2];
    assert_int_equal(att_npy_read(*state, "/dev/zero", ATT_F32, &tensor), ATT_FORMAT);
    assert_string_equal(att_message(*state), "/dev/zero: not an .npy file");
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "text", 4), 4); // and the writer goes on living
    char path[64];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(att_npy_read(*state, path, ATT_F32, &tensor), ATT_FORMAT);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(bad_prefixes),
        cmocka_unit_test(wrong_lengths),
        cmocka_unit_test(long_header),
        cmocka_unit_test(every_byte_changed),
        cmocka_unit_test(good_texts),
        cmocka_unit_test(shapes),
        cmocka_unit_test(fortran_order),
        cmocka_unit_test(types),
        cmocka_unit_test(conversions),
        cmocka_unit_test(written_files),
        cmocka_unit_test(replaced_files),
        cmocka_unit_test(system_errors),
        cmocka_unit_test(pipes),
        cmocka_unit_test(endless_inputs),
    };
    return cmocka_run_group_tests(tests, make_context, free_context);
}
