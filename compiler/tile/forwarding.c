// SPDX-License-Identifier: Apache-2.0
#include "tile/forwarding.h"

Forwarding forwarding_new(Arena *arena, const Kernel *kernel) {
    return (Forwarding){kernel, arena_array(arena, bool, kernel->buffers.count + 1)};
}

bool forwarding_stalls(const Forwarding *forwarding, const Stage *stage) {
    if (stage->kind != STAGE_COMPUTE || stage->lanes == TILE_DIM_NONE)
        return false;
    for (uint32_t i = 0; i < stage->terms.count; i++) {
        const Term *term = &stage->terms.at[i];
        if (term->kind == TERM_LOAD && access_has_dim(&term->load, stage->lanes) &&
            forwarding->single[buffer_memory(forwarding->kernel, term->load.buffer)])
            return true;
    }
    return false;
}

static void note(Forwarding *forwarding, const Stage *stage, const Access *to) {
    forwarding->single[buffer_memory(forwarding->kernel, to->buffer)] =
        stage->lanes == TILE_DIM_NONE || !access_has_dim(to, stage->lanes);
}

void forwarding_note(Forwarding *forwarding, const Stage *stage) {
    if (stage->kind != STAGE_COMPUTE)
        note(forwarding, stage, &stage->c);
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        note(forwarding, stage, &stage->sinks.at[i].to);
}
