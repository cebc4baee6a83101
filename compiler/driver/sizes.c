// SPDX-License-Identifier: Apache-2.0
// Programs for several sizes of dims of run time: each combination of sizes has code of its own,
// and a call takes what its extents are nearest to.
//
//     --dynamic n=1+512,m=512+4096      n  < 23      m  < 1449      planned for n=1    m=512
//                                       n >= 23      m  < 1449                  n=512  m=512
//                                       n  < 23      m >= 1449                  n=1    m=4096
//                                       n >= 23      m >= 1449                  n=512  m=4096
#include "driver/driver.h"

enum { CHOICES_MAX = 16 };

// Its first dim of the class; NULL: the graph has none.
static const Dim *dim_of_class(const Program *program, const Graph *graph, Name member) {
    for (uint32_t d = 0; d < graph->dims.count; d++)
        if (program_dims_alike(program, graph->dims.at[d].name, member))
            return &graph->dims.at[d];
    return NULL;
}

// Each of the choices so far with each of the sizes.
static SizeChoices multiply(const Program *program, const SizeChoices *so_far, const Dim *dim,
                            const DimExtents *sizes, Arena *arena) {
    SizeChoices all = {0};
    for (uint32_t i = sizes->count; i-- > 0;)
        for (uint32_t c = 0; c < so_far->count; c++) {
            const SizeChoice *choice = &so_far->at[c];
            Session *session = program_with_size(choice->session, program, sizes->at[i]);
            SizeChoice with = {.session = session};
            for (uint32_t r = 0; r < choice->ranges.count; r++)
                vec_push(arena, &with.ranges, choice->ranges.at[r]);
            ExtentRange range = {dim->name, sizes_begin(sizes, i), sizes_end(sizes, i)};
            vec_push(arena, &with.ranges, range);
            vec_push(arena, &all, with);
        }
    return all;
}

bool driver_sizes(Session *session, const Program *program, const Graph *graph, Arena *arena,
                  SizeChoices *out) {
    SizeChoice first = {.session = session};
    *out = (SizeChoices){0};
    vec_push(arena, out, first);
    while (out->at[0].session->sizes.count) {
        const SizeChoice *any = &out->at[0];
        Name member = any->session->sizes.at[0].dim;
        const Dim *dim = dim_of_class(program, graph, member);
        DimExtents sizes = program_sizes(session, program, member, session->arena);
        if (!dim) { // of other defs
            for (uint32_t c = 0; c < out->count; c++)
                out->at[c].session =
                    program_with_size(out->at[c].session, program, sizes.at[sizes.count - 1]);
            continue;
        }
        if (out->count * sizes.count > CHOICES_MAX) {
            diag_hint(diag_error(session->diags, (Span){0},
                                 "--dynamic: more than %d combinations of sizes", CHOICES_MAX),
                      "each has code of its own");
            return false;
        }
        *out = multiply(program, out, dim, &sizes, arena);
    }
    return true;
}
