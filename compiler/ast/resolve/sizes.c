// SPDX-License-Identifier: Apache-2.0
// Dims of run time that are planned for several sizes: --dynamic n=1+512.
//
// An extent takes what is planned for the size that is the nearest by ratio: of 1 and 512 those up
// to 22 take 1.
#include "ast/resolve/resolve.h"

#include <math.h>

static void insert_size(Arena *arena, DimExtents *sizes, DimExtent size) {
    uint32_t at = 0;
    while (at < sizes->count && sizes->at[at].extent < size.extent)
        at++;
    if (at < sizes->count && sizes->at[at].extent == size.extent)
        return;
    vec_push(arena, sizes, size);
    for (uint32_t i = sizes->count - 1; i > at; i--)
        sizes->at[i] = sizes->at[i - 1];
    sizes->at[at] = size;
}

static void insert_alike(Arena *arena, const Program *program, const DimExtents *told, Name dim,
                         DimExtents *sizes) {
    for (uint32_t i = 0; i < told->count; i++)
        if (program_dims_alike(program, told->at[i].dim, dim))
            insert_size(arena, sizes, (DimExtent){dim, told->at[i].extent});
}

DimExtents program_sizes(const Session *session, const Program *program, Name dim, Arena *arena) {
    DimExtents sizes = {0};
    insert_alike(arena, program, &session->sizes, dim, &sizes);
    if (sizes.count)
        insert_alike(arena, program, &session->planned, dim, &sizes);
    return sizes;
}

int64_t sizes_begin(const DimExtents *sizes, uint32_t i) {
    if (!i)
        return 0;
    double smaller = (double)sizes->at[i - 1].extent, larger = (double)sizes->at[i].extent;
    return (int64_t)ceil(sqrt(smaller * larger));
}

int64_t sizes_end(const DimExtents *sizes, uint32_t i) {
    return i + 1 == sizes->count ? INT64_MAX : sizes_begin(sizes, i + 1);
}

int64_t sizes_nearest(const DimExtents *sizes, int64_t extent) {
    uint32_t i = 0;
    while (sizes_end(sizes, i) <= extent)
        i++;
    return sizes->at[i].extent;
}

Session *program_with_size(const Session *session, const Program *program, DimExtent size) {
    Session *one = arena_copy(session->arena, session, sizeof *session);
    one->sizes = one->planned = (DimExtents){0};
    for (uint32_t i = 0; i < session->sizes.count; i++)
        if (!program_dims_alike(program, session->sizes.at[i].dim, size.dim))
            vec_push(session->arena, &one->sizes, session->sizes.at[i]);
    for (uint32_t i = 0; i < session->planned.count; i++) {
        DimExtent planned = session->planned.at[i];
        if (program_dims_alike(program, planned.dim, size.dim))
            planned.extent = size.extent;
        vec_push(session->arena, &one->planned, planned);
    }
    return one;
}
