// SPDX-License-Identifier: Apache-2.0
// Tables that point at each other, as one constant.
//
//     @image = { [16 x i8] "..", ptr @image + 400, [24 x i8] "..", ptr @kernel, .. }
//
// A library of thousands of launches has hundreds of thousands of words. As an LLVM constant each
// they took as much memory as all of the compiler; here the numbers between two addresses are one
// string of bytes, and an address is an offset in the image. Layers that repeat have equal tables
// of numbers, which are written once.
//
// Requires: a target whose bytes have this machine's order.
#include "product/image.h"

#include <string.h>

enum { WORD = 8 };

Image image_new(Arena *arena, EmitModule *emit) {
    Image image = {
        .arena = arena, .emit = emit, .texts = {.arena = arena}, .known = map_new(arena)};
    image_number(&image, &image.words, 0);
    return image;
}

// ---- words

static void add_address(Image *image, ImageWords *words, ImageAddress address, uint64_t number) {
    address.at = words->numbers.count;
    vec_push(image->arena, &words->addresses, address);
    vec_push(image->arena, &words->numbers, number);
}

void image_number(Image *image, ImageWords *words, int64_t number) {
    vec_push(image->arena, &words->numbers, (uint64_t)number);
}

void image_place(Image *image, ImageWords *words, ImagePlace place) {
    if (place)
        add_address(image, words, (ImageAddress){.kind = IMAGE_PLACE}, place);
    else
        image_number(image, words, 0);
}

void image_function(Image *image, ImageWords *words, LLVMValueRef function) {
    add_address(image, words, (ImageAddress){.kind = IMAGE_FUNCTION, .function = function}, 0);
}

// Where something was written under a key; false if nothing was.
static bool find_known(const Image *image, uint64_t key, uint64_t *at) {
    uintptr_t known = (uintptr_t)map_get(image->known, key);
    *at = known - 1;
    return known != 0;
}

static void set_known(Image *image, uint64_t key, uint64_t at) {
    map_put(image->known, key, (void *)(uintptr_t)(at + 1));
}

void image_text(Image *image, ImageWords *words, const char *text) {
    uint64_t key = hash_text(IMAGE_TEXT, text), at;
    if (!text) {
        image_number(image, words, 0);
        return;
    }
    if (!find_known(image, key, &at) || strcmp(image->texts.at + at, text) != 0) {
        at = image->texts.length;
        set_known(image, key, at);
        text_addn(&image->texts, text, strlen(text) + 1);
    }
    add_address(image, words, (ImageAddress){.kind = IMAGE_TEXT}, at);
}

// ---- tables

ImagePlace image_table(Image *image, const ImageWords *words) {
    uint32_t first = image->words.numbers.count;
    for (uint32_t i = 0; i < words->numbers.count; i++)
        vec_push(image->arena, &image->words.numbers, words->numbers.at[i]);
    for (uint32_t i = 0; i < words->addresses.count; i++) {
        ImageAddress address = words->addresses.at[i];
        address.at += first;
        vec_push(image->arena, &image->words.addresses, address);
    }
    return words->numbers.count ? (ImagePlace)first * WORD : 0;
}

ImagePlace image_numbers(Image *image, const int64_t *numbers, int64_t count) {
    size_t bytes = (size_t)count * WORD;
    uint64_t key = hash_bytes(IMAGE_NUMBER, numbers, bytes);
    const uint64_t *words = image->words.numbers.at;
    ImagePlace place;
    if (!count)
        return 0;
    // Words of a table of numbers are no addresses, so that equal ones are the same table.
    bool known = find_known(image, key, &place) &&
                 place / WORD + (uint64_t)count <= image->words.numbers.count;
    if (known && !memcmp(words + place / WORD, numbers, bytes))
        return place;
    place = (ImagePlace)image->words.numbers.count * WORD;
    for (int64_t i = 0; i < count; i++)
        image_number(image, &image->words, numbers[i]);
    set_known(image, key, place);
    return place;
}

void image_formula(Image *image, ImageWords *words, const AttFormula *formula) {
    image_text(image, words, formula->text);
    image_number(image, words, formula->n_words);
    image_place(image, words, image_numbers(image, formula->words, formula->n_words));
}

// ---- the constant

typedef VEC(LLVMValueRef) Parts;

static LLVMValueRef address_of(const Image *image, LLVMValueRef global, uint64_t offset) {
    LLVMValueRef index = LLVMConstInt(LLVMInt64TypeInContext(image->emit->context), offset, false);
    return LLVMConstInBoundsGEP2(LLVMInt8TypeInContext(image->emit->context), global, &index, 1);
}

// The texts stand after the words.
static LLVMValueRef word_address(const Image *image, LLVMValueRef global,
                                 const ImageAddress *address) {
    uint64_t number = image->words.numbers.at[address->at];
    uint64_t texts = (uint64_t)image->words.numbers.count * WORD;
    if (address->kind == IMAGE_FUNCTION)
        return address->function;
    return address_of(image, global, address->kind == IMAGE_TEXT ? texts + number : number);
}

static void add_bytes(const Image *image, Parts *parts, const void *bytes, size_t n) {
    if (n)
        vec_push(image->arena, parts,
                 LLVMConstStringInContext2(image->emit->context, bytes, n, true));
}

// A part for each run of numbers and for each address. global NULL: addresses in it are not known
// yet, only their types.
static Parts make_parts(const Image *image, LLVMValueRef global) {
    const ImageWords *words = &image->words;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(image->emit->context, 0);
    Parts parts = {0};
    uint32_t begin = 0;
    for (uint32_t i = 0; i < words->addresses.count; i++) {
        const ImageAddress *address = &words->addresses.at[i];
        add_bytes(image, &parts, words->numbers.at + begin, (size_t)(address->at - begin) * WORD);
        vec_push(image->arena, &parts,
                 global ? word_address(image, global, address) : LLVMConstNull(pointer));
        begin = address->at + 1;
    }
    add_bytes(image, &parts, words->numbers.at + begin,
              (size_t)(words->numbers.count - begin) * WORD);
    add_bytes(image, &parts, image->texts.at, image->texts.length);
    return parts;
}

void image_finish(Image *image) {
    LLVMContextRef context = image->emit->context;
    Parts parts = make_parts(image, NULL);
    LLVMTypeRef *types = arena_array(image->arena, LLVMTypeRef, parts.count);
    for (uint32_t i = 0; i < parts.count; i++)
        types[i] = LLVMTypeOf(parts.at[i]);
    LLVMTypeRef type = LLVMStructTypeInContext(context, types, parts.count, /* packed */ true);
    LLVMValueRef global = LLVMAddGlobal(image->emit->module, type, "");
    parts = make_parts(image, global);
    LLVMSetInitializer(global, LLVMConstStructInContext(context, parts.at, parts.count, true));
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    LLVMSetAlignment(global, WORD);
    image->constant = global;
}

LLVMValueRef image_address(const Image *image, ImagePlace place) {
    return address_of(image, image->constant, place);
}
