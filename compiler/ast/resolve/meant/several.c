// SPDX-License-Identifier: Apache-2.0
// The meaning of calls with several values, one for each name on the left; see meant.h.
//
//     V, I = X.max(-1)               max(X, reduced_dim=d), argmax(X, reduced_dim=d)
//     A, B = X.chunk(2, dim=-1)      slice(X, d, 0, d // 2 -> [n, d_part]), ...
//     A, B = X.split([1, 3], -1)     slice(X, d, 0, 1 -> [n, d_1]), slice(X, d, 1, d -> [n, d_2])
//     A, B = X.unbind(-1)            X[n, 0], X[n, 1]
#include "ast/resolve/meant/meant.h"

#include <string.h>

// A call with several values, without the module that it may be of.
typedef struct {
    Name function, module; // NULL: of none
    Given given;
    ExprList args;
    uint32_t count; // of the values
} Several;

// ---- values and positions of an extremum --------------------------------------------------------

static Meant of_pair(Meaning *m, const Expr *call, uint32_t which) {
    static const char *const pairs[][2] = {
        {"max", "argmax"}, {"min", "argmin"}, {"sort", "argsort"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0] && which < 2; i++) {
        if (strcmp(call->name.name, pairs[i][0]) != 0)
            continue;
        Expr part = *call;
        part.name.name = pairs[i][which];
        return meant(m, &part);
    }
    return (Meant){0};
}

// ---- pieces of a dim ----------------------------------------------------------------------------

// How long the pieces are, NULL: as long as each other, which is what the dim's extent says.
static bool read_sizes(const Several *s, const Expr *how, int64_t extent, int64_t *sizes) {
    bool counted = words_have("chunk array_split tensor_split", s->function) ||
                   (s->module && word_is_numeric_module(s->module));
    bool listed = how && given_list(how) && how->args.count == s->count;
    int64_t sum = 0;
    if (counted && (!expr_is_count(how) || how->number != s->count || extent % s->count))
        return false;
    if (!counted && !listed && !expr_is_count(how))
        return false;
    for (uint32_t i = 0; i < s->count; i++) {
        if (listed && !expr_is_count(how->args.at[i]))
            return false;
        sizes[i] = listed    ? (int64_t)how->args.at[i]->number
                   : counted ? extent / s->count
                             : (int64_t)how->number;
        sum += sizes[i];
    }
    int64_t *last = &sizes[s->count - 1];
    if (extent > 0 && !listed && !counted && sum > extent && *last > sum - extent) {
        *last -= sum - extent; // the rest
        return true;
    }
    return extent < 1 || sum == extent;
}

// The first piece that is as long.
static uint32_t first_like(const int64_t *sizes, uint32_t which) {
    uint32_t i = 0;
    while (sizes[i] != sizes[which])
        i++;
    return i;
}

static Meant piece_of(Meaning *m, const Several *s, const Meant *of, Name dim, const Expr *how,
                      uint32_t which) {
    enum { MOST = 8 };
    int64_t sizes[MOST] = {0}, from = 0;
    if (s->count > MOST || !read_sizes(s, how, meant_extent(m, dim), sizes))
        return (Meant){0};
    bool alike = true, open = !sizes[0]; // a share of what run time tells
    for (uint32_t i = 0; i < s->count; i++) {
        alike = alike && sizes[i] == sizes[0];
        from += i < which ? sizes[i] : 0;
    }
    Arena *arena = m->arena;
    const char *ends[2];
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t at = which + i;
        ends[i] = at == s->count ? dim
                  : !open || !at
                      ? arena_printf(arena, "%lld", (long long)(from + (i ? sizes[which] : 0)))
                  : at == 1 ? arena_printf(arena, "%s // %u", dim, s->count)
                            : arena_printf(arena, "%u * %s // %u", at, dim, s->count);
    }
    const char *suffix = alike ? "part" : arena_printf(arena, "%u", first_like(sizes, which) + 1);
    return meant_part(m, of, dim, ends[0], ends[1], suffix, 0);
}

static Meant position_of(Meaning *m, const Several *s, const Meant *of, Name dim, uint32_t which) {
    int64_t extent = program_extent(m->scope->resolver->session, m->program, dim);
    if (!of->tensor || of->swapped || (extent > 0 && extent != s->count))
        return (Meant){0};
    Text text = {.arena = m->arena};
    NameList left = {0};
    text_printf(&text, "%s[", of->tensor);
    for (uint32_t i = 0; i < of->dims.count; i++) {
        text_add(&text, i ? ", " : "");
        if (of->dims.at[i] == dim) {
            text_printf(&text, "%u", which);
            continue;
        }
        text_add(&text, of->dims.at[i]);
        vec_push(m->arena, &left, of->dims.at[i]);
    }
    text_add(&text, "]");
    return meant_with_dims(text.at, HOLDS_ALL, left);
}

static Meant of_pieces(Meaning *m, const Several *s, uint32_t which) {
    bool positions = words_have("unbind unstack", s->function);
    const ExprList *args = s->given.args;
    uint32_t before = positions ? 1 : 2; // of the dim
    const Expr *where = args->count > before ? args->at[before] : given_where(&s->given);
    if (args->count < before || args->count > before + 1 || s->given.keys->count > 1 ||
        (s->given.keys->count && (!where || args->count > before)))
        return (Meant){0};
    Meant of = meant(m, args->at[0]);
    if (!of.text || !of.has_dims || of.moved || !of.dims.count)
        return (Meant){0};
    Name dim = where ? dim_given(&of, where) : of.dims.at[0];
    if (!dim)
        return (Meant){0};
    return positions ? position_of(m, s, &of, dim, which)
                     : piece_of(m, s, &of, dim, args->at[1], which);
}

// ---- the whole ----------------------------------------------------------------------------------

Meant meant_of_several(Meaning *m, const Expr *call, uint32_t which, uint32_t count) {
    bool method = expr_is_foreign(call, FOREIGN_METHOD);
    if (call->kind != EXPR_CALL && !method)
        return (Meant){0};
    if (!words_have("chunk split array_split tensor_split unbind unstack", call->name.name))
        return of_pair(m, call, which);
    Several s = {.function = call->name.name, .args = call->args, .count = count};
    if (method && meant_is_module(m, s.args.at[0])) {
        s.module = s.args.at[0]->name.name;
        s.args.at++;
        s.args.count--;
    }
    s.given = (Given){&s.args, &call->keys};
    return of_pieces(m, &s, which);
}
