// SPDX-License-Identifier: Apache-2.0
// Element types.
#include "base/base.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef enum { FLOAT, INT, BOOL } Kind;

static const struct {
    const char *name;
    size_t bytes;
    Kind kind;
} elems[N_ELEM] = {
#define ELEM(NAME, name, bytes, kind) [ELEM_##NAME] = {#name, bytes, kind},
#include "base/elem.def"
#undef ELEM
};

const char *elem_name(Elem elem) {
    return elems[elem].name;
}

size_t elem_bytes(Elem elem) {
    return elems[elem].bytes;
}

// What is lost after a mistake, N_ELEM, is of no kind.
bool elem_is_float(Elem elem) {
    return elem < N_ELEM && elems[elem].kind == FLOAT;
}

bool elem_is_int(Elem elem) {
    return elem < N_ELEM && elems[elem].kind == INT;
}

int64_t elem_whole(Elem elem, double number) {
    if (elem == ELEM_BOOL)
        return isinf(number) ? number > 0 : number != 0;
    bool wide = elem == ELEM_I64;
    double end = wide ? 0x1p63 : 0x1p31; // one past the largest
    if (number >= end)
        return wide ? INT64_MAX : INT32_MAX;
    return number <= -end ? (wide ? INT64_MIN : INT32_MIN) : (int64_t)number;
}

bool elem_from_name(const char *name, Elem *elem) {
    for (Elem e = 0; e < N_ELEM; e++) {
        if (strcmp(elems[e].name, name))
            continue;
        *elem = e;
        return true;
    }
    return false;
}

bool elem_from_foreign(const char *name, Elem *elem) {
    static const struct {
        const char *name;
        Elem elem;
    } others[] = {{"float32", ELEM_F32},   {"float", ELEM_F32},   {"float64", ELEM_F64},
                  {"double", ELEM_F64},    {"float16", ELEM_F16}, {"half", ELEM_F16},
                  {"bfloat16", ELEM_BF16}, {"int32", ELEM_I32},   {"int", ELEM_I32},
                  {"int64", ELEM_I64},     {"long", ELEM_I64}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(others[i].name, name) != 0)
            continue;
        *elem = others[i].elem;
        return true;
    }
    return elem_from_name(name, elem);
}

double elem_largest(Elem elem) {
    switch (elem) {
    case ELEM_F32:
        return FLT_MAX;
    case ELEM_F64:
        return DBL_MAX;
    case ELEM_F16:
        return 65504;
    case ELEM_BF16:
        return 0x1.fep127;
    default:
        ice("%s is no float", elem_name(elem));
    }
}

Elem elem_work(Elem elem) {
    return elem == ELEM_F16 || elem == ELEM_BF16 ? ELEM_F32 : elem;
}
