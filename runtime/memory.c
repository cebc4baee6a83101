// SPDX-License-Identifier: Apache-2.0
// Aligned memory, and sizes that cannot wrap.
//
// Blocks of several megabytes are aligned to 2 MiB and offered to the kernel as huge pages: packed
// panels and weights are walked with large strides, where 4 KiB pages run out of TLB entries.

#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"

enum { LINE = 64, HUGE_PAGE = 1 << 21, HUGE_FROM = 1 << 22 };

void *att_alloc(size_t bytes) {
    size_t align = bytes >= HUGE_FROM ? HUGE_PAGE : LINE;
    size_t padded;
    if (bytes == 0)
        bytes = 1;
    if (__builtin_add_overflow(bytes, (size_t)LINE - 1, &padded))
        return NULL;
    void *memory = NULL;
    if (posix_memalign(&memory, align, padded & ~(size_t)(LINE - 1)))
        return NULL;
#ifdef MADV_HUGEPAGE
    // Only the whole huge pages, so that what malloc keeps behind the block stays as it is.
    if (align == HUGE_PAGE)
        (void)madvise(memory, padded & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
#endif
    return memory;
}

void att_release(void *memory) {
    free(memory);
}

bool att_block_reserve(AttBlock *block, size_t bytes) {
    if (block->at && block->bytes >= bytes)
        return true;
    att_block_free(block);
    block->at = att_alloc(bytes);
    block->bytes = block->at ? bytes : 0;
    return block->at != NULL;
}

void att_block_free(AttBlock *block) {
    att_release(block->at);
    *block = (AttBlock){0};
}

bool att_bytes_of(int rank, const int64_t *shape, size_t size, int64_t *bytes) {
    // Zeros are left out at first: {2^62, 2^62, 0} is as impossible as without the zero. And what
    // is possible does not depend on the element: all must fit with the widest.
    enum { WIDEST = 8 };
    int64_t product = WIDEST;
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        empty |= shape[i] == 0;
        if (shape[i] && __builtin_mul_overflow(product, shape[i], &product))
            return false;
    }
    return !__builtin_mul_overflow(empty ? 0 : product / WIDEST, (int64_t)size, bytes);
}
