// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a file of tokens. A shard that is taken has all tokens that its header
// says, to the end of the file; they are checked against a limit, and read, in pieces.
#include <stdlib.h>
#include <string.h>

#include "train/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIMIT = 50257, PIECE = 7 };

static void check(int holds) {
    if (!holds)
        abort();
}

// Every token comes once, in order, and none is beyond the limit.
static void check_tokens(const AttTokens *tokens, bool within) {
    bool found = false;
    for (int64_t begin = 0; begin < tokens->count; begin += PIECE) {
        int32_t piece[PIECE], one;
        int64_t rest = tokens->count - begin, count = rest < PIECE ? rest : PIECE;
        att_tokens_copy(tokens, begin, count, piece);
        for (int64_t i = 0; i < count; i++) {
            att_tokens_copy(tokens, begin + i, 1, &one);
            check(one == piece[i]);
            found |= (uint32_t)one >= LIMIT;
        }
    }
    check(found == !within);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    AttContext *ctx = att_context_new(1);
    check(ctx != NULL);
    AttTokenFile file = {.path = "fuzz.bin", .map = {.bytes = data, .length = size}};
    bool is_shard;
    AttStatus status = att_shard_read(ctx, &file, &is_shard);
    if (status) {
        check(is_shard && !strncmp(att_message(ctx), "fuzz.bin: a token shard ", 24));
    } else if (is_shard) {
        check(file.count > 0 && (file.width == 2 || file.width == 4));
        check(file.tokens + file.count * file.width == data + size);
        AttTokens tokens = {.n_files = 1, .files = &file, .count = file.count};
        check_tokens(&tokens, !att_tokens_check(ctx, &tokens, LIMIT, "the limit is another"));
    }
    att_context_free(ctx);
    return 0;
}
