// SPDX-License-Identifier: Apache-2.0
// Token shards of llm.c (github.com/karpathy/llm.c, dev/data): a header of 256 int32, little
// endian, magic, version and count of tokens, and the tokens, 16 bits wide or 32.

#include "train/data/data.h"

enum { HEADER_BYTES = 1024 };

static const struct {
    uint32_t magic, version;
    int width;
} kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static uint32_t word_at(const uint8_t *bytes, int i) {
    bytes += 4 * i;
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

// width: 0 where the file does not begin as a shard does.
static void recognise(const AttMapped *map, int *width, uint32_t *version) {
    *width = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && map->length >= 4; i++)
        if (word_at(map->bytes, 0) == kinds[i].magic) {
            *width = kinds[i].width;
            *version = kinds[i].version;
        }
}

AttStatus att_shard_read(AttContext *ctx, AttTokenFile *file, bool *is_shard) {
    const AttMapped *map = &file->map;
    uint32_t version = 0;
    recognise(map, &file->width, &version);
    *is_shard = file->width != 0;
    if (!*is_shard)
        return ATT_OK;
    if (map->length < HEADER_BYTES)
        return att_fail(ctx, ATT_FORMAT, "%s: a token shard that ends inside its header",
                        file->path);
    if (word_at(map->bytes, 1) != version)
        return att_fail(ctx, ATT_FORMAT,
                        "%s: a token shard of version %u; of its kind, version %u is known",
                        file->path, word_at(map->bytes, 1), version);
    int64_t count = (int32_t)word_at(map->bytes, 2);
    if (count <= 0)
        return att_fail(ctx, ATT_FORMAT, "%s: a token shard that says it holds %lld tokens",
                        file->path, (long long)count);
    int64_t need = HEADER_BYTES + count * file->width;
    if ((int64_t)map->length != need)
        return att_fail(ctx, ATT_FORMAT,
                        "%s: a token shard of %lld tokens has %lld bytes, this file has %lld",
                        file->path, (long long)count, (long long)need, (long long)map->length);
    file->tokens = map->bytes + HEADER_BYTES;
    file->count = count;
    return ATT_OK;
}
