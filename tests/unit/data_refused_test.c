// SPDX-License-Identifier: Apache-2.0
// Which files and arguments are no data, and how that is told.
#include "data_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- what must be refused ----------------------------------------------------------------------
static void shards_refused(void **state) {
    static const struct {
        uint32_t magic, version;
        int32_t count;
        int bytes;
        const char *message;
    } table[] = {
        {20240520, 1, 5, 8, "a token shard of 5 tokens has 1034 bytes, this file has 1032"},
        {20240520, 1, 5, 12, "has 1034 bytes, this file has 1036"},
        {20240520, 1, 5, 11, "has 1034 bytes, this file has 1035"},
        {20240520, 1, 5, 0, "has 1034 bytes, this file has 1024"},
        {20240520, 1, 0, 0, "says it holds 0 tokens"},
        {20240520, 1, -1, 10, "says it holds -1 tokens"},
        {20240520, 1, INT32_MIN, 10, "says it holds -2147483648 tokens"},
        {20240520, 1, INT32_MAX, 10, "has 4294968318 bytes"},
        {20240520, 2, 5, 10, "of version 2; of its kind, version 1 is known"},
        {20240520, 7, 5, 10, "of version 7; of its kind, version 1 is known"},
        {20240520, 0, 5, 10, "of version 0"},
        {20240801, 1, 5, 20, "of version 1; of its kind, version 7 is known"},
        {20240801, 7, 5, 10, "has 1044 bytes, this file has 1034"},
        {20240801, 7, 5, 24, "has 1044 bytes, this file has 1048"},
        {20240801, 7, INT32_MAX, 4, "has 8589935612 bytes"},
        {20240801, 7, -5, 20, "says it holds -5 tokens"},
        {20240801, 0xFFFFFFFF, 5, 20, "of version 4294967295"},
    };
    static const uint8_t zeros[32];
    World *w = *state;
    data_set_fields(w, data_language, 2);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        data_give_shard(w, table[i].magic, table[i].version, table[i].count, zeros,
                        (size_t)table[i].bytes);
        data_open_refused(w, table[i].message);
    }
    for (size_t cut = 4; cut < 1024; cut += 170) {
        uint8_t header[1024] = {0x88, 0xD8, 0x34, 0x01, 1, 0, 0, 0, 1};
        data_give(w, "", ".bin", header, cut);
        data_open_refused(w, "a token shard that ends inside its header");
    }
}

static void tokens_refused(void **state) {
    static const uint16_t narrow[] = {1, 2, 3, 300, 5};
    static const uint32_t wide[] = {1, 2, 3, 4, 0x80000000};
    World *w = *state;
    data_set_fields(w, data_language, 2);
    data_give_text(w, "");
    data_open_refused(w, "/0: is empty");
    data_give_text(w, "abcd");
    data_open_refused(w, "/0: 4 tokens, and an example takes 5");
    data_give_text(w, "ab");
    data_give_text(w, "cd");
    data_open_refused(w, "/0 and those behind it: 4 tokens");
    data_give_text(w, data_text);
    data_give_shard(w, 20240520, 1, 3, narrow, 6);
    data_open_refused(w, "is a shard of 16-bit tokens: give files of one kind");
    data_give_shard(w, 20240520, 1, 5, narrow, sizeof narrow);
    data_open_refused(w, "/0.bin: token 3 is 300, and ids must be below 300");
    data_give_shard(w, 20240801, 7, 5, wide, sizeof wide);
    data_open_refused(w, "/0.bin: token 4 is 2147483648, and ids must be below 300");
    data_give_npy(w, "", "<u2", "5,", narrow, sizeof narrow);
    data_open_refused(w, "is no text and no token shard");
    w->options.objective = ATT_OBJECTIVE_LANGUAGE;
    data_give(w, "", ".safetensors", "\x02\0\0\0\0\0\0\0{}", 10);
    data_open_refused(w, "is no text and no token shard");
    w->options.objective = ATT_OBJECTIVE_AUTO;
    w->fields[1].below = 110;
    data_give_text(w, "abcdefghijklmnopq");
    data_open_refused(w, "/0: byte 13 is 110, and ids must be below 110");
    w->fields[0].below = w->fields[1].below = 0;
    data_give_shard(w, 20240801, 7, 5, wide, sizeof wide);
    data_open_refused(w, "/0.bin: token 4 is 2147483648, and ids must be below 2147483647");
}

static void files_refused(void **state) {
    World *w = *state;
    data_set_fields(w, data_language, 2);
    w->options.n_paths = 0;
    data_open_refused(w, "no file of data is given");
    w->data[0] = "/nowhere/text";
    w->options.n_paths = 1;
    data_open_refused(w, "/nowhere/text: No such file or directory");
    w->data[0] = "/tmp";
    w->options.n_paths = 1;
    data_open_refused(w, "/tmp: Is a directory");
    w->data[0] = "/dev/zero";
    w->options.n_paths = 1;
    data_open_refused(w, "/dev/zero: is no regular file");
    static const double shares[] = {-0.1, 1.5, 0.0 / 0.0};
    for (int i = 0; i < 3; i++) {
        w->options.held_out = shares[i];
        w->options.n_paths = 1;
        data_open_refused(w, "must be from 0 to 1");
    }
    w->options.held_out = 0.5;
    data_give_text(w, "abcde");
    data_open_refused(w, "of 1 example 1 held out leave none to train with; --held-out 0");
}

static void objectives_refused(void **state) {
    World *w = *state;
    data_set_fields(w, data_language, 2);
    w->options.objective = ATT_OBJECTIVE_MASKED;
    data_give_text(w, data_text);
    data_open_refused(w, "the masked objective fills an argument masked, and Loss has none");
    w->options.objective = ATT_OBJECTIVE_AUTO;
    data_set_fields(w, data_masked, 2);
    w->fields[0].below = w->fields[1].below = 0;
    data_give_text(w, data_text);
    data_open_refused(w, "the masked objective takes ids from the top of the table");
    w->fields[0].below = 1;
    data_give_text(w, data_text);
    data_open_refused(w,
                      "the table of 1 ids has 1 of its last for the objective, which leaves none");
    w->fields[0].below = 100;
    data_give_text(w, data_text);
    data_open_refused(w, "byte 1 is 104, and the table of 100 ids has 1 of its last");
    data_set_fields(w, data_span, 3);
    w->extents[M] = 2;
    data_give_text(w, data_text);
    data_open_refused(w, "a source of 4 places and a target of 2 have no room for a span");
    w->extents[M] = 6;
    w->fields[2].below = 122;
    data_give_text(w, data_text);
    data_open_refused(w, "byte 13 is 119, and the table of 122 ids has 3 of its last");
}

static void arguments_refused(void **state) {
    static const FieldSpec more[] = {
        {"tokens", ATT_I32, "bn", 300}, {"labels", ATT_I32, "bn", 300}, {"mask", ATT_F32, "bn", 0}};
    static const FieldSpec floats[] = {{"tokens", ATT_F32, "bn", 0}, {"labels", ATT_I32, "bn", 0}};
    static const FieldSpec deep[] = {{"tokens", ATT_I32, "bnd", 0}, {"labels", ATT_I32, "bn", 0}};
    static const FieldSpec apart[] = {{"tokens", ATT_I32, "bn", 0}, {"labels", ATT_I32, "bm", 0}};
    static const FieldSpec turned[] = {{"tokens", ATT_I32, "nb", 0}, {"labels", ATT_I32, "bn", 0}};
    static const FieldSpec twice[] = {{"tokens", ATT_I32, "bb", 0}, {"labels", ATT_I32, "bn", 0}};
    static const FieldSpec none[] = {{"tokens", ATT_I32, "nd", 0}, {"labels", ATT_I32, "bn", 0}};
    static const FieldSpec scalar[] = {{"seed", ATT_I64, "", 0}};
    static const struct {
        const FieldSpec *specs;
        int n;
        AttObjective objective;
        const char *message;
    } table[] = {
        {more, 3, ATT_OBJECTIVE_LANGUAGE, "nothing fills the argument mask: the language"},
        {more, 3, ATT_OBJECTIVE_AUTO, "NAME=FILE.npy is expected"},
        {floats, 2, ATT_OBJECTIVE_AUTO, "tokens must be ids, i32 or i64"},
        {deep, 2, ATT_OBJECTIVE_AUTO, "tokens must be ids, i32 or i64, with two dims"},
        {apart, 2, ATT_OBJECTIVE_AUTO, "tokens and labels must have sequences of one length"},
        {turned, 2, ATT_OBJECTIVE_AUTO, "tokens must have the dim of the batch, b, as its first"},
        {twice, 2, ATT_OBJECTIVE_AUTO, "tokens must have the dim of the batch, b, as its first"},
        {none, 2, ATT_OBJECTIVE_AUTO, "tokens must have the dim of the batch, b, as its first"},
        {scalar, 1, ATT_OBJECTIVE_AUTO, "Loss has no argument that data fills"},
    };
    World *w = *state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        data_set_fields(w, table[i].specs, table[i].n);
        w->options.objective = table[i].objective;
        data_give_text(w, data_text);
        data_open_refused(w, table[i].message);
    }
    w->options.objective = ATT_OBJECTIVE_AUTO;
    data_set_fields(w, data_language, 2);
    w->extents[N] = -1;
    data_give_text(w, data_text);
    data_open_refused(w, "how long n of tokens is must be known: give -D n=EXTENT");
    w->extents[N] = 0;
    data_give_text(w, data_text);
    data_open_refused(w, "tokens has sequences without a place");
}

static void arrays_refused(void **state) {
    static const float x[64];
    static const int32_t labels[] = {1, 2, 10, 4};
    World *w = *state;
    data_set_fields(w, data_arrays, 3);
    data_give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    data_open_refused(w, "nothing fills the argument labels: give labels=FILE.npy");
    data_give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    data_give_npy(w, "Y", "<i4", "2,", labels, 8);
    data_open_refused(w, "/1.npy: NAME=FILE.npy is expected, with the name of an argument of Loss");
    data_give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    data_give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    data_open_refused(w, "X has a file already");
    data_give_npy(w, "seed", "<i8", "2,", x, 16);
    data_open_refused(w, "NAME=FILE.npy is expected");
    data_give_npy(w, "X", "<f4", "2, 3, 4", x, 96);
    data_give_npy(w, "labels", "<i4", "2,", labels, 8);
    data_open_refused(w, "/0.npy: has the shape [2, 3, 4], and X takes [examples, 4, 3]");
    data_give_npy(w, "X", "<f4", "4, 3", x, 48);
    data_give_npy(w, "labels", "<i4", "2,", labels, 8);
    data_open_refused(w, "has the shape [4, 3], and X takes [examples, 4, 3]");
    data_give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    data_give_npy(w, "labels", "<i4", "", labels, 4);
    data_open_refused(w, "has the shape [], and labels takes [examples]");
    data_give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    data_give_npy(w, "labels", "<i4", "1,", labels, 4);
    data_open_refused(w, "X has 2 examples and labels has 1");
    data_give_npy(w, "X", "<f4", "0, 4, 3", x, 0);
    data_give_npy(w, "labels", "<i4", "0,", labels, 0);
    data_open_refused(w, "there is no example");
    data_give_npy(w, "X", "<f4", "4, 4, 3", x, 192);
    data_give_npy(w, "labels", "<i4", "4,", labels, 16);
    data_open_refused(
        w, "/1.npy: labels has the id 10 at place 0 of example 2, and ids go from 0 to 9");
    data_give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    data_give_npy(w, "labels", "<f4", "2,", x, 8);
    data_open_refused(w, "/1.npy: holds float32 where i32 is needed");
    data_give_npy(w, "X", "<f4", "2, 4, 3", x, 95);
    data_give_npy(w, "labels", "<i4", "2,", labels, 8);
    data_open_refused(w, "/0.npy: is truncated");
    data_give_text(w, data_text);
    data_open_refused(w, "tokens are for arguments tokens and labels");
}

static void safetensors_refused(void **state) {
    static const float x[64];
    static const uint8_t flags[] = {0, 1, 2};
    static const FieldSpec flag[] = {{"mask", ATT_BOOL, "b", 0}};
    const AttNamedTensor tensors[] = {
        {.name = "labels", .elem = ATT_F32, .rank = 1, .shape = {2}, .data = x},
        {.name = "X", .elem = ATT_F32, .rank = 3, .shape = {2, 4, 3}, .data = x},
        {.name = "mask", .elem = ATT_BOOL, .rank = 1, .shape = {3}, .data = flags},
        {.name = "X", .elem = ATT_BF16, .rank = 3, .shape = {2, 4, 3}, .data = x}};
    World *w = *state;
    data_set_fields(w, data_arrays, 3);
    data_give_safetensors(w, tensors, 1);
    data_open_refused(w, "/0.safetensors: has no tensor 'X' for the argument");
    data_give_safetensors(w, tensors, 2);
    data_open_refused(w, "holds float32 where i32 is needed");
    data_give_safetensors(w, tensors + 3, 1);
    data_open_refused(w, "tensor 'X' holds BF16 where f32 is needed");
    data_give(w, "", ".safetensors", "\x02\0\0\0\0\0\0\0{}x", 11);
    data_open_refused(w, "1 bytes belong to no tensor");
    data_set_fields(w, flag, 1);
    data_give_safetensors(w, tensors + 2, 1);
    data_open_refused(w, "element 2 is 2, which bool cannot hold");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, data_make_world, data_free_world)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(shards_refused),      TEST(tokens_refused),    TEST(files_refused),
        TEST(objectives_refused),  TEST(arguments_refused), TEST(arrays_refused),
        TEST(safetensors_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
