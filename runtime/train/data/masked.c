// SPDX-License-Identifier: Apache-2.0
// Masked language modelling, as BERT is trained (Devlin et al., "BERT: Pre-training of Deep
// Bidirectional Transformers for Language Understanding", 2018, section 3.1): 15% of the tokens are
// asked for; of these 80% are replaced by the mask, 10% by another token, 10% stay.
//
//     masked    the quick [M] fox jumps    the mask is the last id of the table
//     labels     -1   -1 brown -1   -1     -1 asks for nothing
//
// As there, an example has a fixed number of labels, at least one; which they are is drawn one
// position after another (Knuth, The Art of Computer Programming, volume 2, algorithm 3.4.2 S).

#include "train/data/data.h"

static int32_t other_token(int32_t token, int64_t data_ids, AttDraws *draws) {
    if (data_ids < 2)
        return token;
    int32_t other = (int32_t)att_draw_below(draws, data_ids - 1);
    return other < token ? other : other + 1;
}

void att_masked_example(const AttIdField *fields, const int32_t *tokens, int64_t below,
                        int64_t data_ids, AttDraws *draws) {
    int32_t *masked = fields[0].row, *labels = fields[1].row;
    int64_t n = fields[0].length, left = (15 * n + 50) / 100;
    int32_t mask = (int32_t)(below - 1);
    left = left ? left : 1;
    for (int64_t i = 0; i < n; i++) {
        masked[i] = tokens[i];
        labels[i] = ATT_NOTHING;
        if (att_draw_below(draws, n - i) >= left)
            continue;
        left--;
        labels[i] = tokens[i];
        int64_t ten = att_draw_below(draws, 10);
        if (ten < 8)
            masked[i] = mask;
        else if (ten == 8)
            masked[i] = other_token(tokens[i], data_ids, draws);
    }
}
