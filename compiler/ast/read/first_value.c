// SPDX-License-Identifier: Apache-2.0
// First values where there are none: what parameters are in other languages, and what `param` in a
// body or outside of all defs is here (grammar/language.md 8.2).
//
//     def F(X[n, d], k=3):                                a number in the body, or dim k = 3
//     def F(X[n, d], param W[d, e] ~ normal(std=0.02)):   param W[d, e] ~ ... in the body
//     W[d, e] ~ normal(std=0.02)                          param W[d, e] ~ normal(std=0.02)
#include "ast/read/syntax.h"
#include "parse.h"

#include <string.h>

// Behind the value that begins at the token: before a comma or a bracket that it has not opened.
static const Token *value_end(const Token *at) {
    for (int depth = 0; !foreign_ends_line(at->kind); at++) {
        bool closes = at->kind == TOK_RPAREN || at->kind == TOK_RBRACKET;
        if (!depth && (closes || at->kind == TOK_COMMA))
            break;
        depth += (at->kind == TOK_LPAREN || at->kind == TOK_LBRACKET) - closes;
    }
    return at;
}

// `W[d, e] ~ normal(std=0.02)`, where the token is the sign. NULL: it is no such thing.
static const char *declaration_text(const Parser *parser, const Token *sign) {
    enum { LONGEST = 80 };
    const Token *first = foreign_line_begin(parser), *from = sign - 1;
    while (from > first && from->kind != TOK_LBRACKET)
        from--;
    if (from == first || !token_is_name(from[-1].kind))
        return NULL;
    from--;
    uint32_t begin = from->span.begin, end = value_end(sign + 1)[-1].span.end;
    const char *text = parser->source->text + begin;
    return end - begin > LONGEST || memchr(text, '\n', end - begin)
               ? NULL
               : arena_strndup(parser->arena, text, end - begin);
}

// `X[n, d], param W[d, e] = 0`
static bool is_trained(const Token *first, const Token *sign) {
    const Token *at = sign;
    while (at > first && at->kind != TOK_LBRACKET)
        at--;
    return at > first + 1 && at[-2].kind == TOK_PARAM;
}

static const char *number_hint(const Parser *parser, const Token *at) {
    if (at[-1].kind == TOK_RBRACKET)
        return "only numbers of an optimizer have defaults: write it in the body";
    if (at[-1].kind != TOK_NAME)
        return NULL;
    if (at[1].kind != TOK_NUMBER || !at[1].is_integer || at[1].number < 1)
        return "parameters have no values of their own: write it in the body";
    return arena_printf(parser->arena,
                        "parameters have no values of their own: write it in the body, or 'dim %s "
                        "= %.0f' at the top of the file",
                        at[-1].text, at[1].number);
}

const char *first_value_hint(const Parser *parser) {
    const Token *first = foreign_line_begin(parser), *at = parser->current;
    bool drawn = at->kind == TOK_TILDE, header = first->kind == TOK_DEF;
    if (at == first || (!drawn && !(header && at->kind == TOK_ASSIGN)))
        return NULL;
    bool whole = at[-1].kind == TOK_RBRACKET;
    if (!whole || !(drawn || is_trained(first, at)))
        return drawn ? NULL : number_hint(parser, at);
    const char *text = declaration_text(parser, at);
    if (!text)
        text = drawn ? "W[...] ~ ..." : "W[...] = ...";
    return header ? arena_printf(parser->arena,
                                 "parameters have no first values: take it out of these and write "
                                 "'param %s' in the body or outside of all defs (language 8.1)",
                                 text)
                  : arena_printf(parser->arena, "write 'param %s' (language 8.1)", text);
}
