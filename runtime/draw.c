// SPDX-License-Identifier: Apache-2.0
// Random content for tensors that nobody supplies. Element i depends on seed, name and i alone.

#include <math.h>
#include <string.h>

#include "internal.h"

enum { BLOCK = 1024 }; // elements drawn at a time; whole blocks of the generator

typedef struct {
    AttTensorData *tensor;
    uint64_t seed, stream;
    int64_t count;
    float scale;
} Draw;

static void draw_floats(const Draw *draw, int64_t begin, int64_t n) {
    float block[BLOCK];
    att_random_normal_from(draw->seed, draw->stream, begin, n, block);
    for (int64_t i = 0; i < n; i++) {
        float value = block[i] * draw->scale;
        void *data = draw->tensor->data;
        switch (draw->tensor->elem) {
        case ATT_F32:
            ((float *)data)[begin + i] = value;
            break;
        case ATT_F64:
            ((double *)data)[begin + i] = (double)value;
            break;
        case ATT_F16:
            ((uint16_t *)data)[begin + i] = att_f32_to_f16(value);
            break;
        default:
            ((uint16_t *)data)[begin + i] = att_f32_to_bf16(value);
            break;
        }
    }
}

static void draw_integers(const Draw *draw, int64_t begin, int64_t n) {
    int64_t block[BLOCK];
    att_random_integers_from(draw->seed, draw->stream, begin, n, 2, block);
    for (int64_t i = 0; i < n; i++) {
        void *data = draw->tensor->data;
        switch (draw->tensor->elem) {
        case ATT_I64:
            ((int64_t *)data)[begin + i] = block[i];
            break;
        case ATT_I32:
            ((int32_t *)data)[begin + i] = (int32_t)block[i];
            break;
        default:
            ((uint8_t *)data)[begin + i] = (uint8_t)block[i];
            break;
        }
    }
}

static void draw_block(void *arg, void *scratch, int64_t task) {
    const Draw *draw = arg;
    (void)scratch;
    int64_t begin = task * BLOCK, rest = draw->count - begin, n = rest < BLOCK ? rest : BLOCK;
    AttElem elem = draw->tensor->elem;
    if (elem == ATT_I32 || elem == ATT_I64 || elem == ATT_BOOL)
        draw_integers(draw, begin, n);
    else
        draw_floats(draw, begin, n);
}

AttStatus att_tensor_draw(AttContext *ctx, AttTensorData *tensor, uint64_t seed, const char *name,
                          int scaled) {
    Draw draw = {tensor, seed, att_stream_of(name), 1, 1};
    for (int i = 0; i < tensor->rank; i++)
        draw.count *= tensor->shape[i]; // fits: the tensor exists
    if (draw.count == 0)
        return ATT_OK;
    if (scaled)
        draw.scale = (float)sqrt(sqrt(1 / (double)draw.count));
    return att_parallel(ctx, draw_block, &draw, (draw.count + BLOCK - 1) / BLOCK, 0);
}
