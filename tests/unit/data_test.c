// SPDX-License-Identifier: Apache-2.0
// Examples of data: what each objective makes, that any batch can be made again, and which files
// and arguments are refused and how.

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/data.h"

// ---- an entry by hand --------------------------------------------------------------------------
enum { B, N, M, D, TABLE, N_DIMS, FIELDS_MOST = 4, BATCH = 8 };

// A field: tokens[b, n]: i32 is {"tokens", ATT_I32, "bn", ids}.
typedef struct {
    const char *name;
    AttElem elem;
    const char *dims;
    int64_t below;
} FieldSpec;

typedef struct {
    AttContext *ctx;
    char folder[32], paths[6][64];
    const char *data[8]; // what is given as files
    int n_data;
    int64_t extents[N_DIMS];
    AttDim dims[N_DIMS];
    int64_t tensor_dims[FIELDS_MOST][4];
    AttTensor tensors[FIELDS_MOST];
    AttField fields[FIELDS_MOST];
    AttModule entry;
    AttTrainer trainer;
    AttDataOptions options;
    AttData *opened;
    void *batch[FIELDS_MOST];
} World;

static int64_t dim_of(char letter) {
    return letter == 'b' ? B : letter == 'n' ? N : letter == 'm' ? M : D;
}

static void set_fields(World *w, const FieldSpec *specs, int n) {
    for (int f = 0; f < n; f++) {
        int64_t rank = (int64_t)strlen(specs[f].dims);
        for (int64_t i = 0; i < rank; i++)
            w->tensor_dims[f][i] = dim_of(specs[f].dims[i]);
        w->tensors[f] = (AttTensor){
            .name = specs[f].name, .elem = specs[f].elem, .rank = rank, .dims = w->tensor_dims[f]};
        w->fields[f] = (AttField){specs[f].name, f, specs[f].below};
    }
    w->trainer.n_fields = w->entry.n_tensors = n;
}

static int make_world(void **state) {
    static const char *const names[] = {"b", "n", "m", "d"};
    World *w = *state = calloc(1, sizeof *w);
    w->ctx = att_context_new(1);
    strcpy(w->folder, "/tmp/attc-data-XXXXXX");
    if (!w->ctx || !mkdtemp(w->folder))
        return -1;
    for (int d = 0; d < TABLE; d++)
        w->dims[d] = (AttDim){.name = names[d], .extent = -1, .like = d};
    w->entry =
        (AttModule){.entry = "Loss", .n_dims = TABLE, .dims = w->dims, .tensors = w->tensors};
    w->trainer = (AttTrainer){.entry = &w->entry, .fields = w->fields};
    memcpy(w->extents, (int64_t[]){-1, 4, 6, 3, 0}, sizeof w->extents);
    w->options = (AttDataOptions){.paths = w->data, .seed = 5};
    for (int f = 0; f < FIELDS_MOST; f++)
        w->batch[f] = calloc(1 << 16, 8);
    return 0;
}

static void close_data(World *w) {
    att_data_close(w->opened);
    w->opened = NULL;
}

static void forget_files(World *w) {
    for (int i = 0; i < w->n_data; i++) {
        unlink(w->paths[i]);
        free((char *)w->data[i]);
    }
    w->n_data = 0;
    w->options.n_paths = 0;
}

static int free_world(void **state) {
    World *w = *state;
    close_data(w);
    forget_files(w);
    rmdir(w->folder);
    for (int f = 0; f < FIELDS_MOST; f++)
        free(w->batch[f]);
    att_context_free(w->ctx);
    free(w);
    return 0;
}

// Adds a file of these bytes to what is given. name: of an argument, or "".
static void give(World *w, const char *name, const char *ending, const void *bytes, size_t length) {
    static const char *const equals[] = {"", "="};
    char text[160];
    snprintf(w->paths[w->n_data], sizeof w->paths[0], "%s/%d%s", w->folder, w->n_data, ending);
    FILE *out = fopen(w->paths[w->n_data], "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, length, out), length);
    fclose(out);
    snprintf(text, sizeof text, "%s%s%s", name, equals[*name != 0], w->paths[w->n_data]);
    w->data[w->n_data++] = strdup(text);
    w->options.n_paths = w->n_data;
}

static void give_text(World *w, const char *text) {
    give(w, "", "", text, strlen(text));
}

static void give_shard(World *w, uint32_t magic, uint32_t version, int32_t count,
                       const void *tokens, size_t bytes) {
    static uint8_t file[1 << 12];
    memset(file, 0, 1024);
    memcpy(file, (uint32_t[]){magic, version, (uint32_t)count}, 12);
    memcpy(file + 1024, tokens, bytes);
    give(w, "", ".bin", file, 1024 + bytes);
}

static void give_npy(World *w, const char *name, const char *type, const char *shape,
                     const void *data, size_t bytes) {
    static uint8_t file[1 << 12];
    int n = snprintf((char *)file + 10, 500,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", type, shape);
    memcpy(file, "\x93NUMPY\x01\0", 8);
    file[8] = (uint8_t)n;
    file[9] = (uint8_t)(n >> 8);
    memcpy(file + 10 + n, data, bytes);
    give(w, name, ".npy", file, 10 + (size_t)n + bytes);
}

static void open_fine(World *w) {
    close_data(w);
    if (att_data_open(w->ctx, &w->options, &w->trainer, w->extents, B, &w->opened))
        fail_msg("%s", att_message(w->ctx));
}

static void open_refused(World *w, const char *message) {
    close_data(w);
    AttStatus status = att_data_open(w->ctx, &w->options, &w->trainer, w->extents, B, &w->opened);
    if (!status || !strstr(att_message(w->ctx), message))
        fail_msg("\"%s\" was expected, status %d: %s", message, status, att_message(w->ctx));
    assert_null(w->opened);
    forget_files(w);
}

static void fill(World *w, AttPart part, int64_t first, int64_t count) {
    if (att_data_batch(w->ctx, w->opened, part, first, count, w->batch))
        fail_msg("%s", att_message(w->ctx));
}

static const int32_t *ids(const World *w, int field) {
    return w->batch[field];
}

static const FieldSpec language[] = {{"tokens", ATT_I32, "bn", 300},
                                     {"labels", ATT_I32, "bn", 300}};
static const FieldSpec masked[] = {{"masked", ATT_I32, "bn", 300}, {"labels", ATT_I32, "bn", 300}};
static const FieldSpec span[] = {
    {"source", ATT_I32, "bn", 300}, {"target", ATT_I32, "bm", 300}, {"labels", ATT_I32, "bm", 300}};
static const char text[] = "The quick brown fox jumps over the lazy dog. Twice, as it is told.";

// ---- order -------------------------------------------------------------------------------------
static void an_epoch_is_a_permutation(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 7, 64, 65, 100, 1000, 4097};
    static bool seen[5000];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof seen);
            for (int64_t i = 0; i < counts[c]; i++) {
                int64_t place = att_data_place(1, epoch, counts[c], i);
                assert_true(place >= 0 && place < counts[c] && !seen[place]);
                seen[place] = true;
            }
        }
}

static void orders_differ(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    int same_epoch = 0, same_seed = 0, as_it_is = 0, ascents = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t place = att_data_place(1, 0, COUNT, i);
        as_it_is += place == i;
        same_epoch += place == att_data_place(1, 1, COUNT, i);
        same_seed += place == att_data_place(2, 0, COUNT, i);
        ascents += i && place > att_data_place(1, 0, COUNT, i - 1);
    }
    // Of a random permutation: one on average, and as many ascents as descents.
    assert_true(as_it_is < 8 && same_epoch < 8 && same_seed < 8);
    assert_in_range(ascents, 450, 550);
    assert_int_equal(att_data_place(1, 0, INT64_C(1) << 40, 12345) >> 40, 0);
}

// ---- language ----------------------------------------------------------------------------------
static void labels_are_the_next_tokens(void **state) {
    World *w = *state;
    bool seen[16] = {false};
    set_fields(w, language, 2);
    give_text(w, text);
    open_fine(w);
    assert_string_equal(att_data_objective(w->opened), "language");
    assert_true(att_data_is_bytes(w->opened));
    int64_t examples = att_data_examples(w->opened, ATT_PART_TRAIN);
    assert_int_equal(examples, ((int64_t)strlen(text) - 1) / 4);
    fill(w, ATT_PART_TRAIN, 0, examples);
    for (int64_t e = 0; e < examples; e++) {
        const int32_t *tokens = ids(w, 0) + 4 * e, *labels = ids(w, 1) + 4 * e;
        int64_t place = att_data_place(5, 0, examples, e);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(tokens[i], text[4 * place + i]);
            assert_int_equal(labels[i], text[4 * place + i + 1]);
        }
        seen[place] = true;
    }
    for (int64_t e = 0; e < examples; e++)
        assert_true(seen[e]);
}

// n tokens and one more are an example; the files are one text.
static void files_are_one_text(void **state) {
    World *w = *state;
    set_fields(w, language, 2);
    give_text(w, "ab");
    give_text(w, "c");
    give_text(w, "defghi");
    open_fine(w);
    assert_int_equal(att_data_examples(w->opened, ATT_PART_TRAIN), 2);
    w->options.held_out = 1;
    open_fine(w);
    fill(w, ATT_PART_HELD_OUT, 0, 2);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(ids(w, 0)[i], "abcdefgh"[i]);
        assert_int_equal(ids(w, 1)[i], "bcdefghi"[i]);
    }
}

static void wide_ids(void **state) {
    static const FieldSpec wide[] = {{"tokens", ATT_I64, "bn", 0}, {"labels", ATT_I32, "bn", 300}};
    World *w = *state;
    set_fields(w, wide, 2);
    give_text(w, "abcdefghi");
    w->options.held_out = 1;
    open_fine(w);
    fill(w, ATT_PART_HELD_OUT, 0, 2);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(((const int64_t *)w->batch[0])[i], "abcdefgh"[i]);
        assert_int_equal(ids(w, 1)[i], "bcdefghi"[i]);
    }
}

static void shards_are_read(void **state) {
    static const uint16_t narrow[] = {1, 65535, 3, 4, 5};
    static const uint32_t wide[] = {1, 70000, 3, 4, 5};
    static const FieldSpec large[] = {{"tokens", ATT_I32, "bn", 0},
                                      {"labels", ATT_I32, "bn", 70001}};
    World *w = *state;
    set_fields(w, large, 2);
    w->options.held_out = 1;
    give_shard(w, 20240520, 1, 5, narrow, sizeof narrow);
    open_fine(w);
    assert_false(att_data_is_bytes(w->opened));
    fill(w, ATT_PART_HELD_OUT, 0, 1);
    assert_int_equal(ids(w, 0)[1], 65535);
    assert_int_equal(ids(w, 1)[3], 5);
    forget_files(w);
    give_shard(w, 20240801, 7, 5, wide, sizeof wide);
    give_shard(w, 20240801, 7, 4, wide, 16);
    open_fine(w);
    assert_int_equal(att_data_examples(w->opened, ATT_PART_HELD_OUT), 2);
    fill(w, ATT_PART_HELD_OUT, 0, 2);
    assert_int_equal(ids(w, 0)[1], 70000);
    assert_int_equal(ids(w, 0)[4], 5);
    assert_int_equal(ids(w, 0)[5], 1);
    assert_int_equal(ids(w, 1)[5], 70000);
}

// ---- parts -------------------------------------------------------------------------------------
static void the_last_are_held_out(void **state) {
    static const struct {
        double share;
        int held_out;
    } table[] = {{0, 0}, {0.001, 1}, {0.1, 1}, {0.25, 4}, {0.5, 8}, {0.99, 15}, {1, 16}};
    World *w = *state;
    set_fields(w, language, 2);
    give_text(w, text);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        w->options.held_out = table[i].share;
        open_fine(w);
        assert_int_equal(att_data_examples(w->opened, ATT_PART_HELD_OUT), table[i].held_out);
        assert_int_equal(att_data_examples(w->opened, ATT_PART_TRAIN), 16 - table[i].held_out);
    }
    w->options.held_out = 0.25;
    open_fine(w);
    fill(w, ATT_PART_TRAIN, 0, 12);
    for (int e = 0; e < 12; e++)
        assert_memory_not_equal(ids(w, 0) + 4 * e, ((int32_t[]){'t', 'o', 'l', 'd'}), 16);
    fill(w, ATT_PART_HELD_OUT, 0, 8);
    for (int i = 0; i < 32; i++) // again from the first on
        assert_int_equal(ids(w, 0)[i], text[48 + i % 16]);
}

static void parts_without_examples_are_refused(void **state) {
    World *w = *state;
    set_fields(w, language, 2);
    give_text(w, text);
    open_fine(w);
    assert_int_equal(att_data_batch(w->ctx, w->opened, ATT_PART_HELD_OUT, 0, 1, w->batch),
                     ATT_ARGUMENT);
    assert_non_null(strstr(att_message(w->ctx), "no example is held out"));
    w->options.held_out = 1;
    open_fine(w);
    assert_int_equal(att_data_batch(w->ctx, w->opened, ATT_PART_TRAIN, 0, 1, w->batch),
                     ATT_ARGUMENT);
}

// Any batch can be made again, alone and as parts of others, by a second opening too.
static void batches_are_made_again(void **state) {
    World *w = *state;
    const FieldSpec *const specs[] = {language, masked, span};
    static int32_t first[3][BATCH * 8];
    for (int s = 0; s < 3; s++) {
        int n_fields = s == 2 ? 3 : 2;
        set_fields(w, specs[s], n_fields);
        give_text(w, text);
        open_fine(w);
        for (int64_t at = 0; at < 200; at += 37) {
            fill(w, ATT_PART_TRAIN, at, BATCH);
            for (int f = 0; f < n_fields; f++)
                memcpy(first[f], w->batch[f], sizeof first[f]);
            fill(w, ATT_PART_TRAIN, 1, 3);
            if (at > 100)
                open_fine(w);
            for (int64_t e = 0; e < BATCH; e++) {
                fill(w, ATT_PART_TRAIN, at + e, 1);
                for (int f = 0; f < n_fields; f++) {
                    int64_t length = s == 2 && f > 0 ? 6 : 4;
                    assert_memory_equal(w->batch[f], first[f] + length * e,
                                        (size_t)length * sizeof(int32_t));
                }
            }
        }
        close_data(w);
        forget_files(w);
    }
}

// ---- masked ------------------------------------------------------------------------------------
static void masked_shares(void **state) {
    enum { LENGTH = 200, EXAMPLES = 100, EACH = 30 };
    static uint8_t bytes[LENGTH * EXAMPLES];
    World *w = *state;
    int64_t mask = 0, same = 0, other = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    set_fields(w, masked, 2);
    w->extents[N] = LENGTH;
    w->options.held_out = 1;
    give(w, "", "", bytes, sizeof bytes);
    open_fine(w);
    assert_string_equal(att_data_objective(w->opened), "masked");
    for (int64_t e = 0; e < EXAMPLES; e++) {
        fill(w, ATT_PART_HELD_OUT, e, 1);
        int asked = 0;
        for (int i = 0; i < LENGTH; i++) {
            int32_t token = bytes[LENGTH * e + i], shown = ids(w, 0)[i], label = ids(w, 1)[i];
            asked += label != -1;
            assert_true(label == -1 ? shown == token : label == token);
            mask += shown == 299;
            same += label != -1 && shown == token;
            other += shown != 299 && shown != token;
            assert_true(shown == 299 || (shown >= 0 && shown < 256));
        }
        assert_int_equal(asked, EACH);
    }
    // Of 3000: 80%, 10%, 10%, within four deviations.
    assert_in_range(mask, 2400 - 88, 2400 + 88);
    assert_in_range(same, 300 - 66, 300 + 66);
    assert_in_range(other, 300 - 66, 300 + 66);
    assert_int_equal(mask + same + other, EACH * EXAMPLES);
}

static void masks_differ_by_epoch_and_seed(void **state) {
    static int32_t first[4];
    World *w = *state;
    int same = 0;
    set_fields(w, masked, 2);
    give_text(w, "abcd");
    open_fine(w);
    for (int64_t epoch = 0; epoch < 40; epoch++) {
        fill(w, ATT_PART_TRAIN, epoch, 1);
        if (!epoch)
            memcpy(first, w->batch[1], sizeof first);
        same += memcmp(first, w->batch[1], sizeof first) == 0;
    }
    assert_in_range(same, 2, 25); // one label among four places
    w->options.held_out = 1;
    open_fine(w);
    for (int64_t epoch = 0; epoch < 40; epoch++) {
        fill(w, ATT_PART_HELD_OUT, epoch, 1);
        if (!epoch)
            memcpy(first, w->batch[1], sizeof first);
        assert_memory_equal(first, w->batch[1], sizeof first);
    }
}

// ---- spans -------------------------------------------------------------------------------------
static void span_sizes(void **state) {
    (void)state;
    AttSpanSizes sizes;
    // T5's own: 512 and 114, less the end of a text, which it has on both sides.
    assert_true(att_span_sizes(511, 114, &sizes));
    assert_int_equal(sizes.tokens, 568);
    assert_int_equal(sizes.noise, 85);
    assert_int_equal(sizes.spans, 28);
    assert_true(att_span_sizes(2, 3, &sizes));
    assert_int_equal(sizes.tokens, 2);
    assert_false(att_span_sizes(1, 100, &sizes));
    assert_false(att_span_sizes(100, 2, &sizes));
    for (int64_t n = 2; n < 300; n++)
        for (int64_t m = 3; m < 120; m += 9) {
            assert_true(att_span_sizes(n, m, &sizes));
            assert_true(sizes.noise >= sizes.spans && sizes.tokens - sizes.noise >= sizes.spans);
            assert_true(sizes.tokens - sizes.noise + sizes.spans <= n);
            assert_true(sizes.noise + sizes.spans + 1 <= m);
        }
}

// Source and labels put together are the text; target is labels, one later.
static void check_span(const World *w, const uint8_t *bytes, int64_t n, int64_t m, int64_t tokens) {
    const int32_t *source = ids(w, 0), *target = ids(w, 1), *labels = ids(w, 2);
    int64_t at = 0, s = 0, l = 0, sentinel = 298;
    for (; s < n && source[s] != -1; s++) {
        if (source[s] < 256) {
            assert_int_equal(source[s], bytes[at++]);
            continue;
        }
        assert_int_equal(source[s], sentinel);
        assert_int_equal(labels[l++], sentinel--);
        for (assert_true(labels[l] < 256); labels[l] < 256; l++)
            assert_int_equal(labels[l], bytes[at++]);
    }
    assert_int_equal(at, tokens);
    assert_int_equal(labels[l++], sentinel);
    for (; s < n; s++)
        assert_int_equal(source[s], -1);
    for (; l < m; l++)
        assert_int_equal(labels[l], -1);
    assert_int_equal(target[0], 299);
    assert_memory_equal(target + 1, labels, (size_t)(m - 1) * sizeof *labels);
}

static void spans_put_together_are_the_text(void **state) {
    static const int64_t lengths[][2] = {{2, 3}, {4, 6}, {64, 20}, {64, 64}, {100, 10}};
    static uint8_t bytes[4000];
    World *w = *state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    set_fields(w, span, 3);
    w->options.held_out = 1;
    give(w, "", "", bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        AttSpanSizes sizes;
        w->extents[N] = lengths[i][0];
        w->extents[M] = lengths[i][1];
        assert_true(att_span_sizes(lengths[i][0], lengths[i][1], &sizes));
        open_fine(w);
        assert_string_equal(att_data_objective(w->opened), "span");
        int64_t examples = att_data_examples(w->opened, ATT_PART_HELD_OUT);
        assert_int_equal(examples, (int64_t)sizeof bytes / sizes.tokens);
        for (int64_t e = 0; e < examples; e++) {
            fill(w, ATT_PART_HELD_OUT, e, 1);
            check_span(w, bytes + sizes.tokens * e, lengths[i][0], lengths[i][1], sizes.tokens);
        }
    }
}

// ---- arrays ------------------------------------------------------------------------------------
static const FieldSpec arrays[] = {
    {"X", ATT_F32, "bnd", 0}, {"labels", ATT_I32, "b", 10}, {"seed", ATT_I64, "", 0}};

static void arrays_fill_arguments(void **state) {
    World *w = *state;
    float x[3 * 12];
    int64_t labels[3] = {9, -1, 0};
    for (int i = 0; i < 36; i++)
        x[i] = (float)i / 2;
    set_fields(w, arrays, 3);
    give_npy(w, "labels", "<i8", "3,", labels, sizeof labels);
    give_npy(w, "X", "<f4", "3, 4, 3", x, sizeof x);
    w->options.held_out = 1;
    open_fine(w);
    assert_string_equal(att_data_objective(w->opened), "fields");
    assert_true(att_data_fills(w->opened, 0) && att_data_fills(w->opened, 1));
    assert_false(att_data_fills(w->opened, 2));
    w->batch[2] = (free(w->batch[2]), NULL);
    fill(w, ATT_PART_HELD_OUT, 1, 3);
    assert_memory_equal(w->batch[0], x + 12, 24 * sizeof *x);
    assert_memory_equal((float *)w->batch[0] + 24, x, 12 * sizeof *x);
    assert_int_equal(ids(w, 1)[0], -1);
    assert_int_equal(ids(w, 1)[1], 0);
    assert_int_equal(ids(w, 1)[2], 9);
}

static void give_safetensors(World *w, const AttNamedTensor *tensors, int n) {
    give(w, "", ".safetensors", "", 0);
    assert_int_equal(att_safetensors_write(w->ctx, w->paths[w->n_data - 1], tensors, n, NULL, 0),
                     ATT_OK);
}

static void safetensors_fill_arguments(void **state) {
    World *w = *state;
    float x[2 * 12];
    int64_t labels[2] = {9, 3};
    for (int i = 0; i < 24; i++)
        x[i] = (float)i / 2;
    AttNamedTensor tensors[] = {
        {.name = "more", .elem = ATT_F64, .rank = 1, .shape = {1}, .data = labels},
        {.name = "labels", .elem = ATT_I64, .rank = 1, .shape = {2}, .data = labels},
        {.name = "X", .elem = ATT_F32, .rank = 3, .shape = {2, 4, 3}, .data = x}};
    set_fields(w, arrays, 3);
    give_safetensors(w, tensors, 3);
    w->options.held_out = 1;
    open_fine(w);
    fill(w, ATT_PART_HELD_OUT, 0, 2);
    assert_memory_equal(w->batch[0], x, sizeof x);
    assert_int_equal(ids(w, 1)[0], 9);
    assert_int_equal(ids(w, 1)[1], 3);
}

// Also for arguments of a language model: what is given decides.
static void arrays_of_tokens(void **state) {
    World *w = *state;
    uint16_t tokens[8] = {1, 2, 3, 4, 5, 6, 7, 299};
    set_fields(w, language, 2);
    give_npy(w, "tokens", "<u2", "2, 4", tokens, sizeof tokens);
    give_npy(w, "labels", "<u2", "2, 4", tokens, sizeof tokens);
    open_fine(w);
    assert_string_equal(att_data_objective(w->opened), "fields");
    assert_int_equal(att_data_examples(w->opened, ATT_PART_TRAIN), 2);
}

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
    set_fields(w, language, 2);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        give_shard(w, table[i].magic, table[i].version, table[i].count, zeros,
                   (size_t)table[i].bytes);
        open_refused(w, table[i].message);
    }
    for (size_t cut = 4; cut < 1024; cut += 170) {
        uint8_t header[1024] = {0x88, 0xD8, 0x34, 0x01, 1, 0, 0, 0, 1};
        give(w, "", ".bin", header, cut);
        open_refused(w, "a token shard that ends inside its header");
    }
}

static void tokens_refused(void **state) {
    static const uint16_t narrow[] = {1, 2, 3, 300, 5};
    static const uint32_t wide[] = {1, 2, 3, 4, 0x80000000};
    World *w = *state;
    set_fields(w, language, 2);
    give_text(w, "");
    open_refused(w, "/0: is empty");
    give_text(w, "abcd");
    open_refused(w, "/0: 4 tokens, and an example takes 5");
    give_text(w, "ab");
    give_text(w, "cd");
    open_refused(w, "/0 and those behind it: 4 tokens");
    give_text(w, text);
    give_shard(w, 20240520, 1, 3, narrow, 6);
    open_refused(w, "is a shard of 16-bit tokens: give files of one kind");
    give_shard(w, 20240520, 1, 5, narrow, sizeof narrow);
    open_refused(w, "/0.bin: token 3 is 300, and ids must be below 300");
    give_shard(w, 20240801, 7, 5, wide, sizeof wide);
    open_refused(w, "/0.bin: token 4 is 2147483648, and ids must be below 300");
    give_npy(w, "", "<u2", "5,", narrow, sizeof narrow);
    open_refused(w, "is no text and no token shard");
    w->options.objective = ATT_OBJECTIVE_LANGUAGE;
    give(w, "", ".safetensors", "\x02\0\0\0\0\0\0\0{}", 10);
    open_refused(w, "is no text and no token shard");
    w->options.objective = ATT_OBJECTIVE_AUTO;
    w->fields[1].below = 110;
    give_text(w, "abcdefghijklmnopq");
    open_refused(w, "/0: byte 13 is 110, and ids must be below 110");
    w->fields[0].below = w->fields[1].below = 0;
    give_shard(w, 20240801, 7, 5, wide, sizeof wide);
    open_refused(w, "/0.bin: token 4 is 2147483648, and ids must be below 2147483647");
}

static void files_refused(void **state) {
    World *w = *state;
    set_fields(w, language, 2);
    w->options.n_paths = 0;
    open_refused(w, "no file of data is given");
    w->data[0] = "/nowhere/text";
    w->options.n_paths = 1;
    open_refused(w, "/nowhere/text: No such file or directory");
    w->data[0] = "/tmp";
    w->options.n_paths = 1;
    open_refused(w, "/tmp: Is a directory");
    w->data[0] = "/dev/zero";
    w->options.n_paths = 1;
    open_refused(w, "/dev/zero: is no regular file");
    static const double shares[] = {-0.1, 1.5, 0.0 / 0.0};
    for (int i = 0; i < 3; i++) {
        w->options.held_out = shares[i];
        w->options.n_paths = 1;
        open_refused(w, "must be from 0 to 1");
    }
    w->options.held_out = 0.5;
    give_text(w, "abcde");
    open_refused(w, "1 examples, of which 1 are held out, leave none");
}

static void objectives_refused(void **state) {
    World *w = *state;
    set_fields(w, language, 2);
    w->options.objective = ATT_OBJECTIVE_MASKED;
    give_text(w, text);
    open_refused(w, "the masked objective fills an argument masked, and Loss has none");
    w->options.objective = ATT_OBJECTIVE_AUTO;
    set_fields(w, masked, 2);
    w->fields[0].below = w->fields[1].below = 0;
    give_text(w, text);
    open_refused(w, "the masked objective takes ids from the top of the table");
    w->fields[0].below = 1;
    give_text(w, text);
    open_refused(w, "the table of 1 ids has 1 of its last for the objective, which leaves none");
    w->fields[0].below = 100;
    give_text(w, text);
    open_refused(w, "byte 1 is 104, and the table of 100 ids has 1 of its last");
    set_fields(w, span, 3);
    w->extents[M] = 2;
    give_text(w, text);
    open_refused(w, "a source of 4 places and a target of 2 have no room for a span");
    w->extents[M] = 6;
    w->fields[2].below = 122;
    give_text(w, text);
    open_refused(w, "byte 13 is 119, and the table of 122 ids has 3 of its last");
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
        set_fields(w, table[i].specs, table[i].n);
        w->options.objective = table[i].objective;
        give_text(w, text);
        open_refused(w, table[i].message);
    }
    w->options.objective = ATT_OBJECTIVE_AUTO;
    set_fields(w, language, 2);
    w->extents[N] = -1;
    give_text(w, text);
    open_refused(w, "how long n of tokens is must be known: give -D n=EXTENT");
    w->extents[N] = 0;
    give_text(w, text);
    open_refused(w, "tokens has sequences without a place");
}

static void arrays_refused(void **state) {
    static const float x[64];
    static const int32_t labels[] = {1, 2, 10, 4};
    World *w = *state;
    set_fields(w, arrays, 3);
    give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    open_refused(w, "nothing fills the argument labels: give labels=FILE.npy");
    give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    give_npy(w, "Y", "<i4", "2,", labels, 8);
    open_refused(w, "/1.npy: NAME=FILE.npy is expected, with the name of an argument of Loss");
    give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    open_refused(w, "X has a file already");
    give_npy(w, "seed", "<i8", "2,", x, 16);
    open_refused(w, "NAME=FILE.npy is expected");
    give_npy(w, "X", "<f4", "2, 3, 4", x, 96);
    give_npy(w, "labels", "<i4", "2,", labels, 8);
    open_refused(w, "/0.npy: has the shape [2, 3, 4], and X takes [examples, 4, 3]");
    give_npy(w, "X", "<f4", "4, 3", x, 48);
    give_npy(w, "labels", "<i4", "2,", labels, 8);
    open_refused(w, "has the shape [4, 3], and X takes [examples, 4, 3]");
    give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    give_npy(w, "labels", "<i4", "", labels, 4);
    open_refused(w, "has the shape [], and labels takes [examples]");
    give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    give_npy(w, "labels", "<i4", "1,", labels, 4);
    open_refused(w, "X has 2 examples and labels has 1");
    give_npy(w, "X", "<f4", "0, 4, 3", x, 0);
    give_npy(w, "labels", "<i4", "0,", labels, 0);
    open_refused(w, "there is no example");
    give_npy(w, "X", "<f4", "4, 4, 3", x, 192);
    give_npy(w, "labels", "<i4", "4,", labels, 16);
    open_refused(w, "/1.npy: labels has the id 10 at place 0 of example 2, and ids go from 0 to 9");
    give_npy(w, "X", "<f4", "2, 4, 3", x, 96);
    give_npy(w, "labels", "<f4", "2,", x, 8);
    open_refused(w, "/1.npy: holds float32 where i32 is needed");
    give_npy(w, "X", "<f4", "2, 4, 3", x, 95);
    give_npy(w, "labels", "<i4", "2,", labels, 8);
    open_refused(w, "/0.npy: is truncated");
    give_text(w, text);
    open_refused(w, "tokens are for arguments tokens and labels");
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
    set_fields(w, arrays, 3);
    give_safetensors(w, tensors, 1);
    open_refused(w, "/0.safetensors: has no tensor 'X' for the argument");
    give_safetensors(w, tensors, 2);
    open_refused(w, "holds float32 where i32 is needed");
    give_safetensors(w, tensors + 3, 1);
    open_refused(w, "tensor 'X' holds BF16 where f32 is needed");
    give(w, "", ".safetensors", "\x02\0\0\0\0\0\0\0{}x", 11);
    open_refused(w, "1 bytes belong to no tensor");
    set_fields(w, flag, 1);
    give_safetensors(w, tensors + 2, 1);
    open_refused(w, "element 2 is 2, which bool cannot hold");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_world, free_world)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_epoch_is_a_permutation),
        TEST(orders_differ),
        TEST(labels_are_the_next_tokens),
        TEST(files_are_one_text),
        TEST(wide_ids),
        TEST(shards_are_read),
        TEST(the_last_are_held_out),
        TEST(parts_without_examples_are_refused),
        TEST(batches_are_made_again),
        TEST(masked_shares),
        TEST(masks_differ_by_epoch_and_seed),
        TEST(span_sizes),
        TEST(spans_put_together_are_the_text),
        TEST(arrays_fill_arguments),
        TEST(safetensors_fill_arguments),
        TEST(arrays_of_tokens),
        TEST(shards_refused),
        TEST(tokens_refused),
        TEST(files_refused),
        TEST(objectives_refused),
        TEST(arguments_refused),
        TEST(arrays_refused),
        TEST(safetensors_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
