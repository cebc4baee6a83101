// SPDX-License-Identifier: Apache-2.0
// Disassembles .text from front to back and takes every backward jump that has no other one inside
// for an innermost loop.
#include "spills.h"

#include <llvm-c/Disassembler.h>
#include <llvm-c/Object.h>
#include <llvm-c/Target.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t address;
    char text[96];
} Instruction;
typedef struct {
    Arena *arena;
    VEC(Instruction) code;
} Listing;

static void disassemble(Listing *listing, const char *bytes, uint64_t length) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86Disassembler();
    LLVMDisasmContextRef context =
        LLVMCreateDisasmCPU("x86_64-unknown-linux-gnu", "x86-64-v4", NULL, 0, NULL, NULL);
    uint8_t *at = (uint8_t *)(uintptr_t)bytes;
    for (uint64_t offset = 0; offset < length;) {
        Instruction one = {.address = offset};
        size_t size = LLVMDisasmInstruction(context, at + offset, length - offset, offset, one.text,
                                            sizeof one.text);
        vec_push(listing->arena, &listing->code, one);
        offset += size ? size : 1;
    }
    LLVMDisasmDispose(context);
}

static void read_text(Listing *listing, Blob object) {
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRange(object.bytes, object.length, "object", 0);
    char *error = NULL;
    LLVMBinaryRef binary = LLVMCreateBinary(buffer, NULL, &error);
    if (!binary)
        ice("spills: %s", error);
    LLVMSectionIteratorRef section = LLVMObjectFileCopySectionIterator(binary);
    for (; !LLVMObjectFileIsSectionIteratorAtEnd(binary, section); LLVMMoveToNextSection(section)) {
        const char *name = LLVMGetSectionName(section); // NULL: the null section of an ELF file
        if (name && !strcmp(name, ".text"))
            disassemble(listing, LLVMGetSectionContents(section), LLVMGetSectionSize(section));
    }
    LLVMDisposeSectionIterator(section);
    LLVMDisposeBinary(binary);
    LLVMDisposeMemoryBuffer(buffer);
}

// Index of the instruction that a backward jump goes to; -1: no backward jump.
static int64_t jump_target(const Listing *listing, uint32_t i) {
    const Instruction *from = &listing->code.at[i];
    const char *name = from->text + strspn(from->text, "\t ");
    const char *operand = strpbrk(name, "\t ");
    if (name[0] != 'j' || !operand || i + 1 == listing->code.count)
        return -1;
    int64_t distance = strtoll(operand, NULL, 0);
    uint64_t to = listing->code.at[i + 1].address + (uint64_t)distance;
    for (int64_t k = i; distance < 0 && k >= 0; k--)
        if (listing->code.at[k].address == to)
            return k;
    return -1;
}

static bool has(const Instruction *at, const char *part) {
    return strstr(at->text, part) != NULL;
}

static void look_at_loop(const Listing *listing, int64_t first, uint32_t last, Spills *found) {
    int multiply_adds = 0, splats = 0;
    for (uint32_t i = (uint32_t)first; i <= last; i++) {
        const Instruction *at = &listing->code.at[i];
        multiply_adds += has(at, "vfmadd");
        splats += has(at, "vbroadcast") || has(at, "{1to") || has(at, "vmovddup");
    }
    if (!multiply_adds || !splats)
        return;
    found->loops++;
    found->multiply_adds += multiply_adds;
    for (uint32_t i = (uint32_t)first; i <= last; i++) {
        const Instruction *at = &listing->code.at[i];
        if (!has(at, "(%rsp") || !(has(at, "ymm") || has(at, "zmm")))
            continue;
        if (!found->spills++)
            memcpy(found->first, at->text, sizeof at->text);
    }
}

Spills spills_find(Blob object) {
    Spills found = {0};
    Listing listing = {.arena = arena_new()};
    read_text(&listing, object);
    int64_t inner = -1; // where the innermost loop before ended
    for (uint32_t i = 0; i < listing.code.count; i++) {
        int64_t to = jump_target(&listing, i);
        if (to < 0)
            continue;
        if (to > inner)
            look_at_loop(&listing, to, i, &found);
        inner = i;
    }
    arena_free(listing.arena);
    return found;
}
