// SPDX-License-Identifier: Apache-2.0
// The AttHeads of a training program as words of its image.
#include "product/image.h"

enum { WORD = 8 };
_Static_assert(sizeof(AttHeadMask) == 3 * WORD, "AttHeadMask");
_Static_assert(sizeof(AttHeadAxis) == 2 * WORD, "AttHeadAxis");
_Static_assert(sizeof(AttHeadGroup) == 6 * WORD, "AttHeadGroup");
_Static_assert(sizeof(AttSourcePiece) == 3 * WORD, "AttSourcePiece");
_Static_assert(sizeof(AttHeads) == 10 * WORD, "AttHeads");

static ImagePlace write_masks(Image *image, const ProductHeads *heads) {
    ImageWords words = {0};
    for (uint32_t i = 0; i < heads->masks.count; i++) {
        image_text(image, &words, heads->masks.at[i]);
        image_number(image, &words, heads->first + i);
        image_number(image, &words, heads->first_slope + i);
    }
    return image_table(image, &words);
}

static ImagePlace write_axes(Image *image, const HeadAxis *axes, uint32_t count) {
    ImageWords words = {0};
    for (uint32_t i = 0; i < count; i++) {
        image_number(image, &words, axes[i].of);
        image_number(image, &words, axes[i].dim);
    }
    return image_table(image, &words);
}

static ImagePlace write_groups(Image *image, const ProductHeads *heads) {
    ImageWords words = {0};
    for (uint32_t i = 0; i < heads->groups.count; i++) {
        const HeadGroup *group = &heads->groups.at[i];
        image_text(image, &words, group->name);
        image_text(image, &words, group->fault);
        image_number(image, &words, group->masks.count);
        image_place(image, &words, write_axes(image, group->masks.at, group->masks.count));
        image_number(image, &words, group->params.count);
        image_place(image, &words, write_axes(image, group->params.at, group->params.count));
    }
    return image_table(image, &words);
}

static ImagePlace write_source(Image *image, const ProductHeads *heads) {
    ImageWords words = {0};
    for (uint32_t i = 0; i < heads->source.count; i++) {
        image_text(image, &words, heads->source.at[i].before);
        image_text(image, &words, heads->source.at[i].dim);
        image_number(image, &words, heads->source.at[i].value);
    }
    return image_table(image, &words);
}

ImagePlace product_write_heads(Image *image, const ProductHeads *heads, const ImagePlace *modules) {
    ImagePlace masks = write_masks(image, heads), groups = write_groups(image, heads),
               source = write_source(image, heads);
    ImageWords words = {0};
    image_place(image, &words, modules[heads->masked]);
    image_place(image, &words, modules[heads->gradient]);
    image_place(image, &words, heads->logits ? modules[heads->logits] : 0);
    image_number(image, &words, heads->masks.count);
    image_place(image, &words, masks);
    image_number(image, &words, heads->groups.count);
    image_place(image, &words, groups);
    image_number(image, &words, heads->source.count);
    image_place(image, &words, source);
    image_text(image, &words, heads->import);
    return image_table(image, &words);
}
