// SPDX-License-Identifier: Apache-2.0
// Lists of dims as sets with an order, and their text in messages.
#include "ast/resolve/resolve.h"

#include <string.h>

void dimlist_add(Arena *arena, NameList *list, Name dim) {
    if (!namelist_has(list, dim))
        vec_push(arena, list, dim);
}

bool dimlist_within(const NameList *part, const NameList *whole) {
    for (uint32_t i = 0; i < part->count; i++)
        if (!namelist_has(whole, part->at[i]))
            return false;
    return true;
}

bool dimlist_meets(const NameList *a, const NameList *b) {
    for (uint32_t i = 0; i < a->count; i++)
        if (namelist_has(b, a->at[i]))
            return true;
    return false;
}

bool dimlist_equal(const NameList *a, const NameList *b) {
    return a->count == b->count && dimlist_within(a, b);
}

bool dimlist_same(const NameList *a, const NameList *b) {
    bool same = a->count == b->count;
    for (uint32_t i = 0; i < a->count && same; i++)
        same = a->at[i] == b->at[i];
    return same;
}

NameList dimlist_minus(Arena *arena, const NameList *a, const NameList *b) {
    NameList left = {0};
    for (uint32_t i = 0; i < a->count; i++)
        if (!namelist_has(b, a->at[i]))
            vec_push(arena, &left, a->at[i]);
    return left;
}

NameList dimlist_union(Arena *arena, const NameList *a, const NameList *b) {
    if (dimlist_within(b, a))
        return *a;
    if (dimlist_within(a, b))
        return *b;
    NameList both = {0};
    for (uint32_t i = 0; i < a->count; i++)
        vec_push(arena, &both, a->at[i]);
    for (uint32_t i = 0; i < b->count; i++)
        dimlist_add(arena, &both, b->at[i]);
    return both;
}

NameList dimlist_of(Arena *arena, const IdentList *idents) {
    NameList dims = {0};
    for (uint32_t i = 0; i < idents->count; i++)
        dimlist_add(arena, &dims, idents->at[i].name);
    return dims;
}

NameList dimlist_replaced(Arena *arena, const NameList *list, Name from, Name to) {
    NameList dims = {0};
    for (uint32_t i = 0; i < list->count; i++)
        vec_push(arena, &dims, list->at[i] == from ? to : list->at[i]);
    return dims;
}

const Ident *idents_find(const IdentList *idents, Name name) {
    for (uint32_t i = 0; idents && i < idents->count; i++)
        if (idents->at[i].name == name)
            return &idents->at[i];
    return NULL;
}

const char *dimlist_text(Arena *arena, const NameList *list) {
    Text text = {.arena = arena};
    text_add(&text, "[");
    for (uint32_t i = 0; i < list->count; i++)
        text_printf(&text, "%s%s", i ? ", " : "", list->at[i]);
    text_add(&text, "]");
    return text.at;
}

// Of many names the first and the last.
const char *cycle_text(Arena *arena, const NameList *list) {
    enum { SHOWN = 4 };
    Text text = {.arena = arena};
    for (uint32_t i = 0; i < list->count; i++) {
        bool shown = i < SHOWN || i + SHOWN >= list->count;
        text_printf(&text, "%s", shown ? list->at[i] : i == SHOWN ? "..." : "");
        text_add(&text, shown || i == SHOWN ? " -> " : "");
    }
    text_add(&text, list->at[0]);
    return text.at;
}

// ---- near names ---------------------------------------------------------------------------------

void near_offer_list(Near *near, const NameList *list) {
    for (uint32_t i = 0; i < list->count; i++)
        near_offer(near, list->at[i]);
}
