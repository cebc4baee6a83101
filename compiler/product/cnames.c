// SPDX-License-Identifier: Apache-2.0
// Names of the language as names of C: entries become functions, tensors and dims fields of a
// struct.
//
// The language knows neither C's keywords nor its library, names of trained tensors have dots in
// them ("layer.0.attend.P_q") and those of dims may have primes. The rule is the same everywhere:
// what C cannot have becomes `_`, and a name that is taken gets a `_` at its end. n' is n_prime,
// n'' is n_prime2, in everything that leaves the compiler.
#include "product/product.h"

#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

// Keywords of C23 and C++23, types of the header, and macros that compilers or headers of C define.
static const char reserved[] =
    "AttContext AttElem AttStatus AttTaskFn AttTensorData EOF HUGE_VAL I INFINITY NAN NULL "
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t "
    "char32_t char8_t class co_await co_return co_yield compl complex concept const "
    "const_cast consteval constexpr constinit continue decltype default delete do double "
    "dynamic_cast else enum errno explicit export extern false float for friend goto i386 if "
    "inline int linux long max_align_t mutable namespace new noexcept not not_eq nullptr "
    "nullptr_t offsetof operator or or_eq private protected ptrdiff_t public register "
    "reinterpret_cast requires restrict return short signed size_t sizeof static "
    "static_assert static_cast struct switch template this thread_local throw true try "
    "typedef typeid typename typeof typeof_unqual union unix unsigned using virtual void "
    "volatile wchar_t while xor xor_eq";

static bool has_start(const char *name, const char *start) {
    return strncmp(name, start, strlen(start)) == 0;
}

static bool has_end(const char *name, const char *end) {
    size_t length = strlen(name), n = strlen(end);
    return length > n && strcmp(name + length - n, end) == 0;
}

// Families of names: int64_t and uint_fast8_t, INT64_MAX and WCHAR_WIDTH, ATT_API and include
// guards.
static bool is_of_family(const char *name) {
    return ((has_start(name, "int") || has_start(name, "uint")) && has_end(name, "_t")) ||
           has_end(name, "_MAX") || has_end(name, "_MIN") || has_end(name, "_WIDTH") ||
           has_start(name, "ATT_") || has_start(name, "ATTC_");
}

static bool is_reserved(const char *name) {
    return words_have(reserved, name) || is_of_family(name) ||
           (name[0] == '_' && (name[1] == '_' || isupper((unsigned char)name[1])));
}

char *product_c_name(Arena *arena, const char *name) {
    bool bad_start = !isalpha((unsigned char)name[0]) && name[0] != '_';
    char *made = arena_printf(arena, "%s%s", bad_start ? "x_" : "", name);
    if (is_reserved(made) && made[0] == '_')
        made = arena_printf(arena, "x%s", made);
    for (char *at = made; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '_')
            *at = '_';
    return is_reserved(made) ? arena_printf(arena, "%s_", made) : made;
}

static bool is_named(Arena *arena, const AttModule *module, const char *name) {
    bool found = false;
    for (int64_t i = 0; i < module->n_dims; i++)
        found |= strcmp(product_c_name(arena, module->dims[i].name), name) == 0;
    for (int64_t i = 0; i < module->n_tensors; i++)
        found |= module->tensors[i].role != ATT_WORK &&
                 strcmp(product_c_name(arena, module->tensors[i].name), name) == 0;
    return found;
}

void product_name_dims(Arena *arena, AttModule *module) {
    AttDim *dims = arena_array(arena, AttDim, module->n_dims + 1);
    memcpy(dims, module->dims, (size_t)module->n_dims * sizeof *dims);
    module->dims = dims;
    for (int64_t i = 0; i < module->n_dims; i++) {
        uint32_t primes = name_primes(dims[i].name);
        if (!primes)
            continue;
        int length = (int)(strlen(dims[i].name) - primes);
        const char *number = primes > 1 ? arena_printf(arena, "%u", primes) : "";
        char *name = arena_printf(arena, "%.*s_prime%s", length, dims[i].name, number);
        while (is_named(arena, module, name))
            name = arena_printf(arena, "%s_", name);
        dims[i].name = name;
    }
}

// A library that exports `read` would take the place of the C library's in the whole process.
static bool is_library_name(const char *name) {
    static const char *const libraries[] = {"libc.so.6", "libm.so.6"};
    bool found = false;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (!library)
            continue;
        found |= dlsym(library, name) != NULL;
        dlclose(library);
    }
    return found;
}

char *product_entry_symbol(Arena *arena, const char *entry) {
    char *name = product_c_name(arena, entry);
    bool taken = strncmp(name, "att_", 4) == 0 || strncmp(name, "attc_", 5) == 0 ||
                 strcmp(name, "main") == 0 || is_library_name(name);
    return taken ? arena_printf(arena, "%s_", name) : name;
}
