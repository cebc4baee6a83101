// SPDX-License-Identifier: Apache-2.0
// Span corruption, as T5 is trained (Raffel et al., "Exploring the Limits of Transfer Learning with
// a Unified Text-to-Text Transformer", 2020, section 3.1.4): 15% of the tokens are taken away, in
// spans of 3 on average, and asked for.
//
//     tokens    Thank you for inviting me to your party last week
//     source    Thank you <X> me to your party <Y>                 -1 where shorter than its dim
//     labels    <X> for inviting <Y> last week <Z>                 -1 behind
//     target    <start> <X> for inviting <Y> last week <Z>         labels, one later
//
// <start> is the last id of the table, <X>, <Y>, .. those before it, downwards. As in T5's
// random_spans_noise_mask, tokens to keep and to take away are each cut into as many pieces, all
// ways alike, and come in turn, kept ones first.

#include "train/data/data.h"

static AttSpanSizes sizes_of(int64_t tokens) {
    int64_t noise = (15 * tokens + 50) / 100;
    noise = noise < 1 ? 1 : noise;
    int64_t kept = tokens - noise, spans = (2 * noise + 3) / 6; // noise / 3, rounded
    spans = spans < 1 ? 1 : spans > kept ? kept : spans;
    return (AttSpanSizes){tokens, noise, spans};
}

static bool fits(const AttSpanSizes *sizes, int64_t source, int64_t target) {
    return sizes->tokens - sizes->noise + sizes->spans <= source &&
           sizes->noise + sizes->spans + 1 <= target;
}

// Both lengths grow with the tokens.
bool att_span_sizes(int64_t source, int64_t target, AttSpanSizes *sizes) {
    int64_t least = 2, most = 2 * source + 2;
    *sizes = sizes_of(least);
    if (!fits(sizes, source, target))
        return false;
    while (most - least > 1) { // least fits, most does not
        int64_t middle = least + (most - least) / 2;
        AttSpanSizes tried = sizes_of(middle);
        if (fits(&tried, source, target))
            least = middle;
        else
            most = middle;
    }
    *sizes = sizes_of(least);
    return true;
}

// Requires: items >= pieces >= 1. No piece is empty.
static void cut(int64_t items, int64_t pieces, int64_t *lengths, AttDraws *draws) {
    int64_t left = pieces - 1, length = 1;
    for (int64_t gap = items - 1; gap > 0; gap--) {
        if (att_draw_below(draws, gap) < left) {
            *lengths++ = length;
            length = 0;
            left--;
        }
        length++;
    }
    *lengths = length;
}

void att_span_example(const AttIdField *fields, const AttSpanSizes *sizes, const int32_t *tokens,
                      int64_t below, int64_t *lengths, AttDraws *draws) {
    int32_t *source = fields[0].row, *target = fields[1].row, *labels = fields[2].row;
    int64_t *kept = lengths, *taken = lengths + sizes->spans, n_source = 0, n_labels = 0;
    int32_t sentinel = (int32_t)(below - 2);
    cut(sizes->tokens - sizes->noise, sizes->spans, kept, draws);
    cut(sizes->noise, sizes->spans, taken, draws);
    for (int64_t s = 0; s < sizes->spans; s++, sentinel--) {
        for (int64_t i = 0; i < kept[s]; i++)
            source[n_source++] = *tokens++;
        source[n_source++] = sentinel;
        labels[n_labels++] = sentinel;
        for (int64_t i = 0; i < taken[s]; i++)
            labels[n_labels++] = *tokens++;
    }
    labels[n_labels++] = sentinel;
    while (n_source < fields[0].length)
        source[n_source++] = ATT_NOTHING;
    while (n_labels < fields[2].length)
        labels[n_labels++] = ATT_NOTHING;
    target[0] = (int32_t)(below - 1);
    for (int64_t i = 1; i < fields[1].length; i++)
        target[i] = labels[i - 1];
}
