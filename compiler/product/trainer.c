// SPDX-License-Identifier: Apache-2.0
// The AttTrainer of a program that trains, as words of the descriptor's image: which modules it
// has, what its trained tensors begin with, which arguments are data, and its optimizers.
#include "product/image.h"

#include <string.h>

enum { WORD = 8 };
_Static_assert(sizeof(AttParam) == 5 * WORD, "AttParam");
_Static_assert(sizeof(AttField) == 3 * WORD, "AttField");
_Static_assert(sizeof(AttSetting) == 2 * WORD, "AttSetting");
_Static_assert(sizeof(AttOptimizer) == 6 * WORD, "AttOptimizer");
_Static_assert(sizeof(AttDecode) == 12 * WORD, "AttDecode");
_Static_assert(sizeof(AttFormula) == 3 * WORD, "AttFormula");
_Static_assert(sizeof(AttTrainer) == 14 * WORD, "AttTrainer");

typedef struct {
    Image *image;
    const ProductTrainer *trainer;
    const AttModule *entry;
    const ImagePlace *modules; // by function
} Writer;

static void add_double(Writer *writer, ImageWords *words, double number) {
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    image_number(writer->image, words, bits);
}

static int64_t find_input(const Writer *writer, const char *name) {
    for (int64_t i = 0; i < writer->entry->n_tensors; i++)
        if (writer->entry->tensors[i].role == ATT_INPUT &&
            strcmp(writer->entry->tensors[i].name, name) == 0)
            return i;
    ice("product_write_trainer: the entry has no argument %s", name);
}

static ImagePlace write_params(Writer *writer) {
    ImageWords words = {0};
    for (uint32_t i = 0; i < writer->trainer->params.count; i++) {
        const AttParam *param = &writer->trainer->params.at[i];
        image_text(writer->image, &words, param->name);
        image_number(writer->image, &words, find_input(writer, param->name));
        image_number(writer->image, &words, param->init);
        add_double(writer, &words, param->a);
        add_double(writer, &words, param->b);
    }
    return image_table(writer->image, &words);
}

static ImagePlace write_fields(Writer *writer) {
    ImageWords words = {0};
    for (uint32_t i = 0; i < writer->trainer->fields.count; i++) {
        const AttField *field = &writer->trainer->fields.at[i];
        image_text(writer->image, &words, field->name);
        image_number(writer->image, &words, find_input(writer, field->name));
        image_number(writer->image, &words, field->below);
    }
    return image_table(writer->image, &words);
}

static ImagePlace write_settings(Writer *writer, const AttOptimizer *optimizer) {
    ImageWords words = {0};
    for (int64_t i = 0; i < optimizer->n_settings; i++) {
        image_text(writer->image, &words, optimizer->settings[i].name);
        add_double(writer, &words, optimizer->settings[i].value);
    }
    return image_table(writer->image, &words);
}

static ImagePlace write_optimizers(Writer *writer) {
    ImageWords words = {0};
    for (uint32_t i = 0; i < writer->trainer->optimizers.count; i++) {
        const ProductOptimizer *optimizer = &writer->trainer->optimizers.at[i];
        const AttOptimizer *facts = &optimizer->facts;
        image_text(writer->image, &words, facts->name);
        image_place(writer->image, &words, writer->modules[optimizer->function]);
        image_number(writer->image, &words, facts->rank);
        image_number(writer->image, &words, facts->n_states);
        image_number(writer->image, &words, facts->n_settings);
        image_place(writer->image, &words, write_settings(writer, facts));
    }
    return image_table(writer->image, &words);
}

static ImagePlace write_decode(Writer *writer, const ProductDecode *decode) {
    ImageWords words = {0};
    Image *image = writer->image;
    if (!decode)
        return 0;
    const AttDecode *facts = &decode->facts;
    image_place(image, &words, writer->modules[decode->function]);
    image_number(image, &words, facts->n_params);
    image_place(image, &words, image_numbers(image, facts->params, facts->n_params));
    image_place(image, &words, image_numbers(image, facts->param_tensor, facts->n_params));
    image_number(image, &words, facts->token);
    image_number(image, &words, facts->position);
    image_number(image, &words, facts->logits);
    image_number(image, &words, facts->n_caches);
    image_place(image, &words, image_numbers(image, facts->cache_input, facts->n_caches));
    image_place(image, &words, image_numbers(image, facts->row_output, facts->n_caches));
    image_place(image, &words, image_numbers(image, facts->cache_dim, facts->n_caches));
    image_number(image, &words, facts->length);
    return image_table(image, &words);
}

static ImagePlace write_multiplies(Writer *writer, const ModuleTables *gradient) {
    ImageWords words = {0};
    for (int level = 0; level < ATT_N_LEVELS; level++)
        image_formula(writer->image, &words, &gradient->multiplies[level]);
    return image_table(writer->image, &words);
}

ImagePlace product_write_trainer(Image *image, const TablesList *list,
                                 const ProductTrainer *trainer, const ImagePlace *modules) {
    Writer writer = {image, trainer, &list->at[0]->module, modules};
    ImagePlace heads = trainer->heads ? product_write_heads(image, trainer->heads, modules) : 0;
    ImageWords words = {0};
    image_number(image, &words, ATT_TRAINER_ABI);
    image_place(image, &words, modules[0]);
    image_place(image, &words, modules[trainer->gradient]);
    image_number(image, &words, trainer->params.count);
    image_place(image, &words, write_params(&writer));
    image_number(image, &words, trainer->fields.count);
    image_place(image, &words, write_fields(&writer));
    image_number(image, &words, trainer->optimizers.count);
    image_place(image, &words, write_optimizers(&writer));
    image_place(image, &words, modules[trainer->squares]);
    image_place(image, &words, write_decode(&writer, trainer->decode));
    image_place(image, &words, heads);
    const ModuleTables *gradient = list->at[trainer->gradient];
    image_place(image, &words, write_multiplies(&writer, gradient));
    image_place(image, &words, image_numbers(image, gradient->masked, ATT_N_LEVELS));
    return image_table(image, &words);
}
