// SPDX-License-Identifier: Apache-2.0
// Words of other languages that hints know, each here alone; types are in base/elem.c, functions in
// resolve/meant/function.c.
#include "ast/ast.h"

#include <string.h>

bool word_is_module(const char *word) {
    return words_have("torch np numpy jnp jax lax tf tensorflow math nn F mx keras xp einops os",
                      word);
}

bool word_is_numeric_module(const char *word) {
    return words_have("np numpy jnp xp", word);
}

const char *word_constant(const char *word) {
    static const struct {
        const char *words, *text;
    } constants[] = {
        {"True true", "bool(1)"},
        {"False false", "bool(0)"},
        {"Inf Infinity infinity", "inf"},
        {"nan NaN", "inf - inf"},
    };
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (words_have(constants[i].words, word))
            return constants[i].text;
    return NULL;
}

bool word_says(const char *word, bool value) {
    const char *text = word_constant(word);
    return text && !strcmp(text, value ? "bool(1)" : "bool(0)");
}
