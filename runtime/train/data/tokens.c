// SPDX-License-Identifier: Apache-2.0
// Files as one row of tokens, each going on where the one before ends. Text is its bytes. The files
// stay where they are, mapped: an example is copied out of them when it is asked for.

#include <stdlib.h>
#include <string.h>

#include "npy.h"
#include "train/data/data.h"

enum { BLOCK_TOKENS = 1 << 12 };

static bool ends_in(const char *text, const char *end) {
    size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

static AttStatus open_file(AttContext *ctx, const char *path, AttTokenFile *file) {
    bool is_shard;
    file->path = path;
    AttStatus status = att_map_file(ctx, path, &file->map);
    if (!status)
        status = att_shard_read(ctx, file, &is_shard);
    if (status || is_shard)
        return status;
    bool is_npy = file->map.length >= NPY_PREFIX_MIN && att_npy_may_be(file->map.bytes, 6);
    if (is_npy || ends_in(path, ".safetensors"))
        return att_fail(ctx, ATT_ARGUMENT,
                        "%s: is no text and no token shard: arrays fill arguments by their names, "
                        "as NAME=FILE.npy or all from one safetensors file",
                        path);
    file->tokens = file->map.bytes;
    file->width = 1;
    file->count = (int64_t)file->map.length;
    return ATT_OK;
}

static const char *kind_name(const AttTokenFile *file) {
    return file->width == 1   ? "text"
           : file->width == 2 ? "a shard of 16-bit tokens"
                              : "a shard of 32-bit tokens";
}

AttStatus att_tokens_open(AttContext *ctx, const char *const *paths, int64_t n_paths,
                          AttTokens *out) {
    *out = (AttTokens){.files = calloc((size_t)n_paths + 1, sizeof *out->files)};
    if (!out->files)
        return att_no_memory(ctx);
    for (int64_t i = 0; i < n_paths; i++) {
        AttTokenFile *file = &out->files[out->n_files++];
        AttStatus status = open_file(ctx, paths[i], file);
        if (status)
            return status;
        if (file->width != out->files[0].width)
            return att_fail(ctx, ATT_ARGUMENT, "%s is %s and %s is %s: give files of one kind",
                            out->files[0].path, kind_name(&out->files[0]), file->path,
                            kind_name(file));
        out->count += file->count;
    }
    return ATT_OK;
}

void att_tokens_close(AttTokens *tokens) {
    for (int64_t i = 0; i < tokens->n_files; i++)
        att_unmap(&tokens->files[i].map);
    free(tokens->files);
    *tokens = (AttTokens){0};
}

bool att_tokens_are_bytes(const AttTokens *tokens) {
    return tokens->n_files && tokens->files[0].width == 1;
}

static void copy_of_file(const AttTokenFile *file, int64_t begin, int64_t count, int32_t *out) {
    if (file->width == 1)
        for (int64_t i = 0; i < count; i++)
            out[i] = file->tokens[begin + i];
    else if (file->width == 2)
        for (int64_t i = 0; i < count; i++)
            out[i] = ((const uint16_t *)file->tokens)[begin + i];
    else
        memcpy(out, file->tokens + 4 * begin, (size_t)count * 4);
}

static AttStatus check_block(AttContext *ctx, const AttTokenFile *file, int64_t begin,
                             int64_t count, int64_t limit, const char *reason) {
    int32_t block[BLOCK_TOKENS];
    uint32_t most = 0;
    copy_of_file(file, begin, count, block);
    for (int64_t i = 0; i < count; i++)
        most = (uint32_t)block[i] > most ? (uint32_t)block[i] : most;
    for (int64_t i = 0; i < count && most >= limit; i++)
        if ((uint32_t)block[i] >= limit)
            return att_fail(ctx, ATT_FORMAT, "%s: %s %lld is %u, and %s", file->path,
                            file->width == 1 ? "byte" : "token", (long long)(begin + i),
                            (uint32_t)block[i], reason);
    return ATT_OK;
}

AttStatus att_tokens_check(AttContext *ctx, const AttTokens *tokens, int64_t limit,
                           const char *reason) {
    AttStatus status = ATT_OK;
    for (int64_t f = 0; f < tokens->n_files; f++) {
        const AttTokenFile *file = &tokens->files[f];
        if (limit >= INT64_C(1) << 8 * file->width)
            continue;
        for (int64_t begin = 0; begin < file->count && !status; begin += BLOCK_TOKENS) {
            int64_t rest = file->count - begin;
            status = check_block(ctx, file, begin, rest < BLOCK_TOKENS ? rest : BLOCK_TOKENS, limit,
                                 reason);
        }
    }
    return status;
}

void att_tokens_copy(const AttTokens *tokens, int64_t begin, int64_t count, int32_t *out) {
    for (const AttTokenFile *file = tokens->files; count; file++) {
        if (begin >= file->count) {
            begin -= file->count;
            continue;
        }
        int64_t rest = file->count - begin, n = rest < count ? rest : count;
        copy_of_file(file, begin, n, out);
        out += n;
        count -= n;
        begin = 0;
    }
}
