// SPDX-License-Identifier: Apache-2.0
// Examples of data: what each objective makes, and that any batch can be made again.
#include "data_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// ---- data_language -----------------------------------------------------------------------------
static void labels_are_the_next_tokens(void **state) {
    World *w = *state;
    bool seen[16] = {false};
    data_set_fields(w, data_language, 2);
    data_give_text(w, data_text);
    data_open_fine(w);
    assert_string_equal(att_data_objective(w->opened), "language");
    assert_true(att_data_is_bytes(w->opened));
    int64_t examples = att_data_examples(w->opened, ATT_PART_TRAIN);
    assert_int_equal(examples, ((int64_t)strlen(data_text) - 1) / 4);
    data_fill(w, ATT_PART_TRAIN, 0, examples);
    for (int64_t e = 0; e < examples; e++) {
        const int32_t *tokens = data_ids(w, 0) + 4 * e, *labels = data_ids(w, 1) + 4 * e;
        int64_t place = att_data_place(5, 0, examples, e);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(tokens[i], data_text[4 * place + i]);
            assert_int_equal(labels[i], data_text[4 * place + i + 1]);
        }
        seen[place] = true;
    }
    for (int64_t e = 0; e < examples; e++)
        assert_true(seen[e]);
}

// n tokens and one more are an example; the files are one text.
static void files_are_one_text(void **state) {
    World *w = *state;
    data_set_fields(w, data_language, 2);
    data_give_text(w, "ab");
    data_give_text(w, "c");
    data_give_text(w, "defghi");
    data_open_fine(w);
    assert_int_equal(att_data_examples(w->opened, ATT_PART_TRAIN), 2);
    w->options.held_out = 1;
    data_open_fine(w);
    data_fill(w, ATT_PART_HELD_OUT, 0, 2);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(data_ids(w, 0)[i], "abcdefgh"[i]);
        assert_int_equal(data_ids(w, 1)[i], "bcdefghi"[i]);
    }
}

static void wide_ids(void **state) {
    static const FieldSpec wide[] = {{"tokens", ATT_I64, "bn", 0}, {"labels", ATT_I32, "bn", 300}};
    World *w = *state;
    data_set_fields(w, wide, 2);
    data_give_text(w, "abcdefghi");
    w->options.held_out = 1;
    data_open_fine(w);
    data_fill(w, ATT_PART_HELD_OUT, 0, 2);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(((const int64_t *)w->batch[0])[i], "abcdefgh"[i]);
        assert_int_equal(data_ids(w, 1)[i], "bcdefghi"[i]);
    }
}

static void shards_are_read(void **state) {
    static const uint16_t narrow[] = {1, 65535, 3, 4, 5};
    static const uint32_t wide[] = {1, 70000, 3, 4, 5};
    static const FieldSpec large[] = {{"tokens", ATT_I32, "bn", 0},
                                      {"labels", ATT_I32, "bn", 70001}};
    World *w = *state;
    data_set_fields(w, large, 2);
    w->options.held_out = 1;
    data_give_shard(w, 20240520, 1, 5, narrow, sizeof narrow);
    data_open_fine(w);
    assert_false(att_data_is_bytes(w->opened));
    data_fill(w, ATT_PART_HELD_OUT, 0, 1);
    assert_int_equal(data_ids(w, 0)[1], 65535);
    assert_int_equal(data_ids(w, 1)[3], 5);
    data_forget_files(w);
    data_give_shard(w, 20240801, 7, 5, wide, sizeof wide);
    data_give_shard(w, 20240801, 7, 4, wide, 16);
    data_open_fine(w);
    assert_int_equal(att_data_examples(w->opened, ATT_PART_HELD_OUT), 2);
    data_fill(w, ATT_PART_HELD_OUT, 0, 2);
    assert_int_equal(data_ids(w, 0)[1], 70000);
    assert_int_equal(data_ids(w, 0)[4], 5);
    assert_int_equal(data_ids(w, 0)[5], 1);
    assert_int_equal(data_ids(w, 1)[5], 70000);
}

// ---- parts -------------------------------------------------------------------------------------
static void the_last_are_held_out(void **state) {
    static const struct {
        double share;
        int held_out;
    } table[] = {{0, 0}, {0.001, 1}, {0.1, 1}, {0.25, 4}, {0.5, 8}, {0.99, 15}, {1, 16}};
    World *w = *state;
    data_set_fields(w, data_language, 2);
    data_give_text(w, data_text);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        w->options.held_out = table[i].share;
        data_open_fine(w);
        assert_int_equal(att_data_examples(w->opened, ATT_PART_HELD_OUT), table[i].held_out);
        assert_int_equal(att_data_examples(w->opened, ATT_PART_TRAIN), 16 - table[i].held_out);
    }
    w->options.held_out = 0.25;
    data_open_fine(w);
    data_fill(w, ATT_PART_TRAIN, 0, 12);
    for (int e = 0; e < 12; e++)
        assert_memory_not_equal(data_ids(w, 0) + 4 * e, ((int32_t[]){'t', 'o', 'l', 'd'}), 16);
    data_fill(w, ATT_PART_HELD_OUT, 0, 8);
    for (int i = 0; i < 32; i++) // again from the first on
        assert_int_equal(data_ids(w, 0)[i], data_text[48 + i % 16]);
}

static void parts_without_examples_are_refused(void **state) {
    World *w = *state;
    data_set_fields(w, data_language, 2);
    data_give_text(w, data_text);
    data_open_fine(w);
    assert_int_equal(att_data_batch(w->ctx, w->opened, ATT_PART_HELD_OUT, 0, 1, w->batch),
                     ATT_ARGUMENT);
    assert_non_null(strstr(att_message(w->ctx), "no example is held out"));
    w->options.held_out = 1;
    data_open_fine(w);
    assert_int_equal(att_data_batch(w->ctx, w->opened, ATT_PART_TRAIN, 0, 1, w->batch),
                     ATT_ARGUMENT);
}

// Any batch can be made again, alone and as parts of others, by a second opening too.
static void batches_are_made_again(void **state) {
    World *w = *state;
    const FieldSpec *const specs[] = {data_language, data_masked, data_span};
    static int32_t first[3][BATCH * 8];
    for (int s = 0; s < 3; s++) {
        int n_fields = s == 2 ? 3 : 2;
        data_set_fields(w, specs[s], n_fields);
        data_give_text(w, data_text);
        data_open_fine(w);
        for (int64_t at = 0; at < 200; at += 37) {
            data_fill(w, ATT_PART_TRAIN, at, BATCH);
            for (int f = 0; f < n_fields; f++)
                memcpy(first[f], w->batch[f], sizeof first[f]);
            data_fill(w, ATT_PART_TRAIN, 1, 3);
            if (at > 100)
                data_open_fine(w);
            for (int64_t e = 0; e < BATCH; e++) {
                data_fill(w, ATT_PART_TRAIN, at + e, 1);
                for (int f = 0; f < n_fields; f++) {
                    int64_t length = s == 2 && f > 0 ? 6 : 4;
                    assert_memory_equal(w->batch[f], first[f] + length * e,
                                        (size_t)length * sizeof(int32_t));
                }
            }
        }
        data_close(w);
        data_forget_files(w);
    }
}

// ---- data_masked -------------------------------------------------------------------------------
static void masked_shares(void **state) {
    enum { LENGTH = 200, EXAMPLES = 100, EACH = 30 };
    static uint8_t bytes[LENGTH * EXAMPLES];
    World *w = *state;
    int64_t mask = 0, same = 0, other = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    data_set_fields(w, data_masked, 2);
    w->extents[N] = LENGTH;
    w->options.held_out = 1;
    data_give(w, "", "", bytes, sizeof bytes);
    data_open_fine(w);
    assert_string_equal(att_data_objective(w->opened), "masked");
    assert_false(att_data_is_bytes(w->opened)); // some of them are asked for
    for (int64_t e = 0; e < EXAMPLES; e++) {
        data_fill(w, ATT_PART_HELD_OUT, e, 1);
        int asked = 0;
        for (int i = 0; i < LENGTH; i++) {
            int32_t token = bytes[LENGTH * e + i], shown = data_ids(w, 0)[i],
                    label = data_ids(w, 1)[i];
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
    data_set_fields(w, data_masked, 2);
    data_give_text(w, "abcd");
    data_open_fine(w);
    for (int64_t epoch = 0; epoch < 40; epoch++) {
        data_fill(w, ATT_PART_TRAIN, epoch, 1);
        if (!epoch)
            memcpy(first, w->batch[1], sizeof first);
        same += memcmp(first, w->batch[1], sizeof first) == 0;
    }
    assert_in_range(same, 2, 25); // one label among four places
    w->options.held_out = 1;
    data_open_fine(w);
    for (int64_t epoch = 0; epoch < 40; epoch++) {
        data_fill(w, ATT_PART_HELD_OUT, epoch, 1);
        if (!epoch)
            memcpy(first, w->batch[1], sizeof first);
        assert_memory_equal(first, w->batch[1], sizeof first);
    }
}

// ---- spans -------------------------------------------------------------------------------------
static void span_sizes(void **state) {
    (void)state;
    AttSpanSizes sizes;
    // T5's own: 512 and 114, less the end of a data_text, which it has on both sides.
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

// Source and labels put together are the data_text; target is labels, one later.
static void check_span(const World *w, const uint8_t *bytes, int64_t n, int64_t m, int64_t tokens) {
    const int32_t *source = data_ids(w, 0), *target = data_ids(w, 1), *labels = data_ids(w, 2);
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
    data_set_fields(w, data_span, 3);
    w->options.held_out = 1;
    data_give(w, "", "", bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        AttSpanSizes sizes;
        w->extents[N] = lengths[i][0];
        w->extents[M] = lengths[i][1];
        assert_true(att_span_sizes(lengths[i][0], lengths[i][1], &sizes));
        data_open_fine(w);
        assert_string_equal(att_data_objective(w->opened), "span");
        int64_t examples = att_data_examples(w->opened, ATT_PART_HELD_OUT);
        assert_int_equal(examples, (int64_t)sizeof bytes / sizes.tokens);
        for (int64_t e = 0; e < examples; e++) {
            data_fill(w, ATT_PART_HELD_OUT, e, 1);
            check_span(w, bytes + sizes.tokens * e, lengths[i][0], lengths[i][1], sizes.tokens);
        }
    }
}

// ---- arrays ------------------------------------------------------------------------------------

static void arrays_fill_arguments(void **state) {
    World *w = *state;
    float x[3 * 12];
    int64_t labels[3] = {9, -1, 0};
    for (int i = 0; i < 36; i++)
        x[i] = (float)i / 2;
    data_set_fields(w, data_arrays, 3);
    data_give_npy(w, "labels", "<i8", "3,", labels, sizeof labels);
    data_give_npy(w, "X", "<f4", "3, 4, 3", x, sizeof x);
    w->options.held_out = 1;
    data_open_fine(w);
    assert_string_equal(att_data_objective(w->opened), "fields");
    assert_true(att_data_fills(w->opened, 0) && att_data_fills(w->opened, 1));
    assert_false(att_data_fills(w->opened, 2));
    w->batch[2] = (free(w->batch[2]), NULL);
    data_fill(w, ATT_PART_HELD_OUT, 1, 3);
    assert_memory_equal(w->batch[0], x + 12, 24 * sizeof *x);
    assert_memory_equal((float *)w->batch[0] + 24, x, 12 * sizeof *x);
    assert_int_equal(data_ids(w, 1)[0], -1);
    assert_int_equal(data_ids(w, 1)[1], 0);
    assert_int_equal(data_ids(w, 1)[2], 9);
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
    data_set_fields(w, data_arrays, 3);
    data_give_safetensors(w, tensors, 3);
    w->options.held_out = 1;
    data_open_fine(w);
    data_fill(w, ATT_PART_HELD_OUT, 0, 2);
    assert_memory_equal(w->batch[0], x, sizeof x);
    assert_int_equal(data_ids(w, 1)[0], 9);
    assert_int_equal(data_ids(w, 1)[1], 3);
}

// Also for arguments of a data_language model: what is given decides.
static void arrays_of_tokens(void **state) {
    World *w = *state;
    uint16_t tokens[8] = {1, 2, 3, 4, 5, 6, 7, 299};
    data_set_fields(w, data_language, 2);
    data_give_npy(w, "tokens", "<u2", "2, 4", tokens, sizeof tokens);
    data_give_npy(w, "labels", "<u2", "2, 4", tokens, sizeof tokens);
    data_open_fine(w);
    assert_string_equal(att_data_objective(w->opened), "fields");
    assert_int_equal(att_data_examples(w->opened, ATT_PART_TRAIN), 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, data_make_world, data_free_world)

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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
