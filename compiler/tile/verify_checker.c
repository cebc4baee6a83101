// SPDX-License-Identifier: Apache-2.0
// Where the tile verifier stands, and how it tells what is broken.
#include "tile/verify.h"

#include <stdarg.h>

bool verify_broken(Checker *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text_printf(c->why, "kernel %s: ", c->kernel->name);
    text_vprintf(c->why, format, args);
    va_end(args);
    return false;
}

const char *verify_dim_name(const Checker *c, TileDimId dim) {
    return dim < c->kernel->dims.count ? c->kernel->dims.at[dim].name : "(no dim)";
}

bool verify_nonempty(Checker *c, TileDimId dim) {
    for (uint32_t l = c->n_around; l-- > 0;)
        if (c->around[l]->dim == dim) {
            bool dynamic = c->kernel->dims.at[dim].extent == EXTENT_DYNAMIC;
            c->counts_on_rows = c->counts_on_rows || (dynamic && l + 1 == c->n_parallel);
            return c->around[l]->kind == NODE_LOOP;
        }
    return true;
}

uint32_t verify_made(const Checker *c, uint16_t buffer) {
    bool scratch = c->kernel->buffers.at[buffer].place == PLACE_SCRATCH;
    return scratch ? (uint32_t)c->scope[buffer] : c->n_parallel;
}
