// SPDX-License-Identifier: Apache-2.0
// Products of matrices as einsums; see meant.h.
//
//     X @ W                            einsum(X[n, d], W[d, k] -> [n, k])
//     X @ X.T                          einsum(X[n, d], X[n', d] -> [n, n'])
//     einsum("ij,kj->ik", X, X)        the same: i is n, k is another position of it
#include "ast/resolve/meant/meant.h"

#include <string.h>

static Name last_of(const NameList *list) {
    return list->at[list->count - 1];
}

// An einsum of the operands, over the dims of the result.
static Meant einsum_of(Meaning *m, const char *operands, NameList result) {
    const char *dims = dimlist_text(m->arena, &result);
    Meant found = meant_with_dims(arena_printf(m->arena, "einsum(%s -> %s)", operands, dims),
                                  HOLDS_ALL, result);
    found.open = arena_printf(m->arena, "einsum(%s)", operands);
    found.operands = operands;
    found.product = true;
    return found;
}

// ---- a @ b

typedef struct {
    const Meant *a, *b;
    NameList a_dims, b_dims; // as they are read
    Name summed;
} Product;

Name meant_primed(const Meaning *m, Name dim, const NameList *a, const NameList *b) {
    while (namelist_has(a, dim) || namelist_has(b, dim))
        dim = name_primed(m->scope->resolver->session->names, dim, 1);
    return dim;
}

// Which dim the product is over: the last of a and the last but one of b, which have one name, or
// may have since they are alike; or the only one that both have.
static bool find_summed(Meaning *m, Product *p) {
    Name last = last_of(&p->a_dims);
    uint32_t place = p->b_dims.count > 1 ? p->b_dims.count - 2 : 0;
    Name other = p->b_dims.at[place];
    p->summed = last;
    if (last == other)
        return true;
    if (program_dims_alike(m->program, last, other)) {
        if (last_of(&p->b_dims) == last && p->b_dims.count > 1) // S @ S, over [n, m]
            p->b_dims.at[p->b_dims.count - 1] = meant_primed(m, last, &p->a_dims, &p->b_dims);
        p->b_dims.at[place] = last;
        return true;
    }
    uint32_t common = 0;
    for (uint32_t i = 0; i < p->a_dims.count; i++)
        if (namelist_has(&p->b_dims, p->a_dims.at[i])) {
            p->summed = p->a_dims.at[i];
            common++;
        }
    return common == 1;
}

// The dim of b that stays is another one than those of a. Dims before the last two are one index
// where both have them.
static void set_apart(Meaning *m, Product *p) {
    if (p->b_dims.count < 2)
        return;
    for (uint32_t i = p->b_dims.count - 2; i < p->b_dims.count; i++) {
        Name dim = p->b_dims.at[i];
        if (dim != p->summed && namelist_has(&p->a_dims, dim))
            p->b_dims.at[i] = meant_primed(m, dim, &p->a_dims, &p->b_dims);
    }
}

static NameList product_dims(Meaning *m, const Product *p) {
    NameList result = {0};
    for (uint32_t i = 0; i < p->a_dims.count; i++)
        if (p->a_dims.at[i] != p->summed)
            dimlist_add(m->arena, &result, p->a_dims.at[i]);
    for (uint32_t i = 0; i < p->b_dims.count; i++)
        if (p->b_dims.at[i] != p->summed)
            dimlist_add(m->arena, &result, p->b_dims.at[i]);
    return result;
}

static NameList copy_of(Meaning *m, const NameList *list) {
    NameList none = {0};
    return dimlist_minus(m->arena, list, &none);
}

// The last two places, or the only one, have dims.
static bool is_matrix(const Meant *of) {
    NameList places;
    bool known = meant_places(of, &places);
    uint32_t n = places.count;
    return known && n && places.at[n - 1] && (n == 1 || places.at[n - 2]);
}

Meant meant_product(Meaning *m, const Meant *a, const Meant *b) {
    if (!a->text || !b->text || !a->has_dims || !b->has_dims || !a->dims.count || !b->dims.count)
        return (Meant){0};
    if (!is_matrix(a) || !is_matrix(b))
        return (Meant){0};
    Product p = {a, b, copy_of(m, &a->dims), copy_of(m, &b->dims), NULL};
    if (!find_summed(m, &p))
        return (Meant){0};
    set_apart(m, &p);
    NameList clash = {0};
    for (uint32_t i = 0; i < a->summed.count; i++)
        if (namelist_has(&p.b_dims, a->summed.at[i]))
            vec_push(m->arena, &clash, a->summed.at[i]);
    bool joins = a->operands && !clash.count;
    const char *left = joins ? a->operands : meant_over(m, a, &p.a_dims);
    const char *right = meant_over(m, b, &p.b_dims);
    if (!left || !right)
        return (Meant){0};
    Meant found = einsum_of(m, arena_printf(m->arena, "%s, %s", left, right), product_dims(m, &p));
    found.moved = a->moved || b->moved;
    found.summed = joins ? a->summed : (NameList){0};
    vec_push(m->arena, &found.summed, p.summed);
    return found;
}

// outer(a, b)
Meant meant_outer(Meaning *m, const Meant *a, const Meant *b) {
    bool vectors = a->has_dims && b->has_dims && a->dims.count == 1 && b->dims.count == 1;
    if (!vectors || !a->text || !b->text)
        return (Meant){0};
    NameList none = {0}, dims = {0};
    vec_push(m->arena, &dims, meant_primed(m, b->dims.at[0], &a->dims, &none));
    Meant second = *b;
    if (dims.at[0] != b->dims.at[0])
        second = meant_with_dims(meant_over(m, b, &dims), HOLDS_ALL, dims);
    return meant_binary(m, OPER_MUL, a, &second);
}

// ---- einsum("nd,dk->nk", X, W)

enum { MOST_LETTERS = 16, MOST_OPERANDS = 8 };

typedef struct {
    const char *at;
    uint32_t length;
    Name dim; // that it stands for
} Letter;
typedef VEC(Letter) LetterList;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static const char dots[] = "...";

static bool is_dots(const Letter *letter) {
    return !strncmp(letter->at, dots, strlen(dots));
}

// The letters up to a comma or the end; words where blanks stand between them.
static bool read_term(Meaning *m, const char **at, bool words, LetterList *out) {
    for (; **at && **at != ','; (*at)++) {
        if (**at == ' ')
            continue;
        if (!strncmp(*at, dots, strlen(dots))) {
            vec_push(m->arena, out, (Letter){*at, sizeof dots - 1, NULL});
            *at += strlen(dots) - 1;
            continue;
        }
        if (!is_letter(**at) || out->count == MOST_LETTERS)
            return false;
        uint32_t length = 1;
        while (words && is_letter((*at)[length]))
            length++;
        vec_push(m->arena, out, (Letter){*at, length, NULL});
        *at += length - 1;
    }
    return true;
}

typedef struct {
    LetterList terms[MOST_OPERANDS + 1]; // the last one read is the result's
    uint32_t n;
    bool has_result;
    VEC(Letter) known; // letters that stand for a dim
} Letters;

static bool read_letters(Meaning *m, const char *text, Letters *out) {
    const char *arrow = strstr(text, "->");
    size_t length = arrow ? (size_t)(arrow - text) : strlen(text);
    char *terms = arena_strndup(m->arena, text, length);
    const char *trimmed = terms + strspn(terms, " "), *at = terms;
    bool words = false; // "n d, d k": a blank between two letters of a term
    for (const char *c = trimmed; c[0] && c[1]; c++)
        words = words || (is_letter(c[0]) && c[1] == ' ' && is_letter(c[2]));
    while (out->n < MOST_OPERANDS) {
        if (!read_term(m, &at, words, &out->terms[out->n++]))
            return false;
        if (!*at)
            break;
        at++;
    }
    out->has_result = arrow != NULL;
    at = arrow ? arrow + 2 : "";
    return read_term(m, &at, words, &out->terms[out->n]) && !*at;
}

static Letter *known_letter(Letters *letters, const Letter *letter) {
    for (uint32_t i = 0; i < letters->known.count; i++) {
        Letter *known = &letters->known.at[i];
        if (known->length == letter->length && !memcmp(known->at, letter->at, letter->length))
            return known;
    }
    return NULL;
}

static bool stands_for(const Letters *letters, Name dim) {
    for (uint32_t i = 0; i < letters->known.count; i++)
        if (letters->known.at[i].dim == dim)
            return true;
    return false;
}

// A letter means the dim of the operand in its place; a second letter for one dim, another position
// of it.
static bool give_dims(Meaning *m, Letters *letters, LetterList *term, const Meant *operand) {
    if (!operand->has_dims || operand->moved || operand->dims.count != term->count)
        return false;
    for (uint32_t i = 0; i < term->count; i++) {
        Letter *letter = &term->at[i], *known = known_letter(letters, letter);
        Name dim = operand->dims.at[i];
        if (!known) {
            while (stands_for(letters, dim))
                dim = name_primed(m->scope->resolver->session->names, dim, 1);
            letter->dim = dim;
            vec_push(m->arena, &letters->known, *letter);
        } else if (known->dim == dim || program_dims_alike(m->program, known->dim, dim)) {
            letter->dim = known->dim;
        } else {
            return false;
        }
    }
    return true;
}

static NameList term_dims(Meaning *m, const LetterList *term) {
    NameList dims = {0};
    for (uint32_t i = 0; i < term->count; i++)
        dimlist_add(m->arena, &dims, term->at[i].dim);
    return dims;
}

// Without an arrow: the letters that stand once.
static NameList implied_dims(Meaning *m, const Letters *letters) {
    NameList dims = {0};
    for (uint32_t k = 0; k < letters->known.count; k++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < letters->n; i++)
            for (uint32_t j = 0; j < letters->terms[i].count; j++)
                count += letters->terms[i].at[j].dim == letters->known.at[k].dim;
        if (count == 1)
            vec_push(m->arena, &dims, letters->known.at[k].dim);
    }
    return dims;
}

// A letter for each dim that the dots of a term stand for: `.0` for the last one, as in the other
// terms.
static bool spread_dots(Meaning *m, LetterList *term, uint32_t n_dims) {
    LetterList spread = {0};
    uint32_t n_dots = 0;
    for (uint32_t i = 0; i < term->count; i++)
        n_dots += is_dots(&term->at[i]);
    if (!n_dots)
        return true;
    if (n_dots > 1 || n_dims + 1 < term->count)
        return false;
    for (uint32_t i = 0; i < term->count; i++) {
        uint32_t left = n_dims + 1 - term->count;
        if (!is_dots(&term->at[i]))
            vec_push(m->arena, &spread, term->at[i]);
        for (; is_dots(&term->at[i]) && left > 0; left--) {
            const char *letter = arena_printf(m->arena, ".%u", left - 1);
            vec_push(m->arena, &spread, (Letter){letter, (uint32_t)strlen(letter), NULL});
        }
    }
    *term = spread;
    return true;
}

static bool spread_all_dots(Meaning *m, Letters *letters, const Meant *operands) {
    uint32_t most = 0; // dims that dots stand for
    bool any = false;
    LetterList *result = &letters->terms[letters->n];
    for (uint32_t i = 0; i < letters->n; i++) {
        LetterList *term = &letters->terms[i];
        uint32_t before = term->count;
        bool spreads = false;
        for (uint32_t k = 0; k < term->count; k++)
            spreads = spreads || is_dots(&term->at[k]);
        if (!operands[i].has_dims || !spread_dots(m, term, operands[i].dims.count))
            return false;
        any = any || spreads;
        most = spreads && term->count + 1 - before > most ? term->count + 1 - before : most;
    }
    bool fine = !any || letters->has_result; // else dots stand for dims of the result as well
    return fine && spread_dots(m, result, result->count + most - 1);
}

// What the letters say of the operands, which are given in order; NULL text where they do not fit.
static Meant letters_of(Meaning *m, Letters *letters, const Meant *operands) {
    Text text = {.arena = m->arena};
    if (!spread_all_dots(m, letters, operands))
        return (Meant){0};
    for (uint32_t i = 0; i < letters->n; i++) {
        if (!operands[i].text || !give_dims(m, letters, &letters->terms[i], &operands[i]))
            return (Meant){0};
        NameList dims = term_dims(m, &letters->terms[i]);
        bool diagonal = dims.count < letters->terms[i].count; // a letter stands twice
        const char *operand = diagonal ? NULL : meant_over(m, &operands[i], &dims);
        if (!operand)
            return (Meant){0};
        text_printf(&text, "%s%s", i ? ", " : "", operand);
    }
    LetterList *result = &letters->terms[letters->n];
    for (uint32_t i = 0; i < result->count; i++) {
        const Letter *known = known_letter(letters, &result->at[i]);
        if (!known)
            return (Meant){0};
        result->at[i].dim = known->dim;
    }
    return einsum_of(m, text.at,
                     letters->has_result ? term_dims(m, result) : implied_dims(m, letters));
}

Meant meant_letters(Meaning *m, const ExprList *args) {
    Letters letters = {0};
    Meant operands[MOST_OPERANDS] = {0};
    uint32_t n = 0;
    Name text = NULL;
    for (uint32_t i = 0; i < args->count; i++) {
        const Expr *arg = args->at[i];
        if (expr_is_foreign(arg, FOREIGN_STRING))
            text = arg->name.name;
        else if (n < MOST_OPERANDS)
            operands[n++] = meant(m, arg);
    }
    if (!text || !read_letters(m, text, &letters) || letters.n != n)
        return (Meant){0};
    return letters_of(m, &letters, operands);
}
