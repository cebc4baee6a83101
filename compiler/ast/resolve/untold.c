// SPDX-License-Identifier: Apache-2.0
// A session for a def that is compiled besides the entry: what the command line says of the entry's
// dims and arguments is not meant for it.
#include "ast/resolve/resolve.h"

static bool is_alike(const Program *program, const NameList *dims, Name dim) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (program_dims_alike(program, dims->at[i], dim))
            return true;
    return false;
}

static DimExtents without(Arena *arena, const Program *program, const DimExtents *told,
                          const NameList *dims) {
    DimExtents left = {0};
    for (uint32_t i = 0; i < told->count; i++)
        if (!is_alike(program, dims, told->at[i].dim))
            vec_push(arena, &left, told->at[i]);
    return left;
}

Session *program_untold(const Session *session, const Program *program, const NameList *dims) {
    Session *untold = arena_copy(session->arena, session, sizeof *session);
    untold->overrides = without(session->arena, program, &session->overrides, dims);
    untold->planned = without(session->arena, program, &session->planned, dims);
    untold->sizes = without(session->arena, program, &session->sizes, dims);
    untold->dynamic = untold->data = (NameList){0};
    for (uint32_t i = 0; i < session->dynamic.count; i++)
        if (!is_alike(program, dims, session->dynamic.at[i]))
            vec_push(session->arena, &untold->dynamic, session->dynamic.at[i]);
    return untold;
}
