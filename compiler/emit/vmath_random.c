// SPDX-License-Identifier: Apache-2.0
// Random numbers as LLVM IR: att_random_uniform_at of the runtime, lane by lane, to the bit.
//
// Every 32-bit word of Philox 4x32-10 (runtime/random.c) lies in a 64-bit lane, since a product of
// two words has 64 bits. What is above a word counts for nothing: it is cut off before the next
// product, and at the end.
#include "emit/vmath_ops.h"
#include "emit/vmath_parts.h"

enum { ROUNDS = 10, WORDS = 4 };

typedef struct {
    EmitValue word[WORDS];
} Block;

static EmitValue low_half(EmitModule *m, EmitValue a) {
    return v_int_by(m, LLVMBuildAnd, a, UINT32_MAX);
}

static EmitValue high_half(EmitModule *m, EmitValue a) {
    return v_int_by(m, LLVMBuildLShr, a, 32);
}

static EmitValue product(EmitModule *m, EmitValue word, uint32_t factor) {
    return v_int_by(m, LLVMBuildMul, low_half(m, word), factor);
}

static EmitValue mixed(EmitModule *m, EmitValue product, EmitValue word, EmitValue key) {
    return v_int(m, LLVMBuildXor, v_int(m, LLVMBuildXor, high_half(m, product), word), key);
}

static Block next_block(EmitModule *m, const Block *block, const EmitValue key[2]) {
    const EmitValue *c = block->word;
    EmitValue a = product(m, c[0], 0xD2511F53), b = product(m, c[2], 0xCD9E8D57);
    return (Block){{mixed(m, b, c[1], key[0]), b, mixed(m, a, c[3], key[1]), a}};
}

static Block philox(EmitModule *m, EmitValue seed, EmitValue stream, EmitValue at) {
    EmitValue key[2] = {seed, high_half(m, seed)};
    Block block = {{at, high_half(m, at), stream, high_half(m, stream)}};
    for (int round = 0; round < ROUNDS; round++) {
        block = next_block(m, &block, key);
        key[0] = v_int_by(m, LLVMBuildAdd, key[0], 0x9E3779B9);
        key[1] = v_int_by(m, LLVMBuildAdd, key[1], 0xBB67AE85);
    }
    return block;
}

static EmitValue choose_by_bit(EmitModule *m, EmitValue number, uint64_t bit, EmitValue set,
                               EmitValue clear) {
    EmitValue part = v_int_by(m, LLVMBuildAnd, number, bit), zero = v_whole(m, number, 0);
    LLVMValueRef is_set = LLVMBuildICmp(m->builder, LLVMIntNE, part.ref, zero.ref, "");
    return emit_select(m, is_set, set, clear);
}

EmitValue vmath_random(EmitModule *m, const EmitValue args[3]) {
    EmitValue i = args[2];
    Block block = philox(m, args[0], args[1], v_int_by(m, LLVMBuildLShr, i, 2));
    const EmitValue *word = block.word;
    EmitValue even = choose_by_bit(m, i, 2, word[2], word[0]);
    EmitValue odd = choose_by_bit(m, i, 2, word[3], word[1]);
    EmitValue chosen = emit_cast(m, choose_by_bit(m, i, 1, odd, even), ELEM_I32);
    EmitValue bits = v_int_by(m, LLVMBuildLShr, chosen, 8);
    return emit_mul(m, emit_cast(m, bits, ELEM_F32), emit_number(m, ELEM_F32, 0x1p-24, i.lanes));
}
