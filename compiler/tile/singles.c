// SPDX-License-Identifier: Apache-2.0
#include "tile/singles.h"

Singles singles_new(Arena *arena, const Kernel *kernel) {
    return (Singles){kernel, arena_array(arena, bool, kernel->buffers.count + 1)};
}

bool singles_gathered(const Singles *singles, const Stage *stage) {
    if (stage->kind != STAGE_COMPUTE || stage->lanes == TILE_DIM_NONE)
        return false;
    for (uint32_t i = 0; i < stage->terms.count; i++) {
        const Term *term = &stage->terms.at[i];
        if (term->kind == TERM_LOAD && access_has_dim(&term->load, stage->lanes) &&
            singles->stored[buffer_memory(singles->kernel, term->load.buffer)])
            return true;
    }
    return false;
}

static void note(Singles *singles, const Stage *stage, const Access *to) {
    singles->stored[buffer_memory(singles->kernel, to->buffer)] =
        stage->lanes == TILE_DIM_NONE || !access_has_dim(to, stage->lanes);
}

void singles_note(Singles *singles, const Stage *stage) {
    if (stage->kind != STAGE_COMPUTE)
        note(singles, stage, &stage->c);
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        note(singles, stage, &stage->sinks.at[i].to);
}
