// SPDX-License-Identifier: Apache-2.0
// Constant tables of 8-byte words as one block of data, see image.c. Private to this folder.
#ifndef ATTC_IMAGE_H
#define ATTC_IMAGE_H

#include "product/product.h"

// Where something is in the image: an offset in bytes. 0 is nowhere, a NULL in the tables.
typedef uint64_t ImagePlace;

typedef enum { IMAGE_NUMBER, IMAGE_PLACE, IMAGE_TEXT, IMAGE_FUNCTION } ImageKind;
// A word that is an address.
typedef struct {
    uint32_t at; // which word
    ImageKind kind;
    LLVMValueRef function; // FUNCTION
} ImageAddress;

// numbers: of an address, PLACE: the place; TEXT: offset in the texts; FUNCTION: 0.
typedef struct {
    VEC(uint64_t) numbers;
    VEC(ImageAddress) addresses;
} ImageWords;

typedef struct {
    Arena *arena;
    EmitModule *emit;
    ImageWords words; // the first stands for nowhere
    Text texts;
    Map *known;            // hash of a table or text -> where it was written, plus one
    LLVMValueRef constant; // once it is finished
} Image;

Image image_new(Arena *arena, EmitModule *emit);

// ---- words of a table that is being made
void image_number(Image *image, ImageWords *words, int64_t number);
void image_place(Image *image, ImageWords *words, ImagePlace place);
void image_text(Image *image, ImageWords *words, const char *text); // NULL: none
void image_function(Image *image, ImageWords *words, LLVMValueRef function);

// Adds a table; nowhere if it has no words. Equal tables of numbers are written once.
ImagePlace image_table(Image *image, const ImageWords *words);
ImagePlace image_numbers(Image *image, const int64_t *numbers, int64_t count);
// The words of an AttFormula, whose own table is added.
void image_formula(Image *image, ImageWords *words, const AttFormula *formula);

// Makes the image a constant of the module: nothing is added from then on.
void image_finish(Image *image);
LLVMValueRef image_address(const Image *image, ImagePlace place); // requires: it is finished

// ---- trainer.c: the AttTrainer of a program that trains; modules: by function
ImagePlace product_write_trainer(Image *image, const TablesList *list,
                                 const ProductTrainer *trainer, const ImagePlace *modules);

// ---- trainer_heads.c: an AttHeads; likewise
ImagePlace product_write_heads(Image *image, const ProductHeads *heads, const ImagePlace *modules);

#endif
