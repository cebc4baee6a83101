// SPDX-License-Identifier: Apache-2.0
#include "ast/ast.h"

#include <string.h>

const BuiltinInfo builtins[N_BUILTIN] = {
#define BUILTIN(NAME, name, shape, min_args, max_args, keys)                                       \
    [BUILTIN_##NAME] = {#name, SHAPE_##shape, min_args, max_args, keys},
#include "ast/builtins.def"
#undef BUILTIN
};

Builtin builtin_find(const char *name) {
    for (int i = 0; i < N_BUILTIN; i++)
        if (!strcmp(builtins[i].name, name))
            return (Builtin)i;
    return BUILTIN_NONE;
}

const char *builtin_name(Builtin builtin) {
    return builtins[builtin].name;
}
