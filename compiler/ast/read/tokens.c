// SPDX-License-Identifier: Apache-2.0
// The tokens that blocks.c and brackets.c read and write.
#include "ast/read/blocks.h"

Span span_after(Span span) {
    span.begin = span.end;
    return span;
}

void blocks_push(Blocks *b, Token token) {
    token.quiet |= b->quiet;
    vec_push(b->parser->scratch, &b->out, token);
}

// At the end of the last token that is in the text.
void blocks_push_made(Blocks *b, int kind) {
    Span span = {.file = b->parser->file};
    if (b->out.count)
        span = span_after(b->out.at[b->out.count - 1].span);
    blocks_push(b, (Token){.kind = kind, .span = span});
}

bool token_is_name(int kind) {
    return kind == TOK_NAME || kind == TOK_PRIMED || kind == TOK_IN || kind == TOK_SHARED ||
           kind == TOK_REVERSED || kind == TOK_LIKE || kind == TOK_AS;
}

bool token_is_def(int kind) {
    return kind == TOK_DEF || kind == TOK_OPTIMIZER;
}

bool token_is_loop(int kind) {
    return kind == TOK_FOR || kind == TOK_SCAN;
}

bool blocks_is_assignment(const Blocks *b, uint32_t i, bool *has_dims) {
    const Token *raw = b->raw;
    *has_dims = false;
    if (!token_is_name(raw[i].kind))
        return false;
    i++;
    if (i < b->n && raw[i].kind == TOK_LBRACKET) {
        *has_dims = true;
        i++;
        while (i < b->n && (token_is_name(raw[i].kind) || raw[i].kind == TOK_COMMA))
            i++;
        if (i == b->n || raw[i++].kind != TOK_RBRACKET)
            return false;
    }
    if (i + 1 < b->n && raw[i].kind == TOK_COLON && token_is_name(raw[i + 1].kind))
        i += 2;
    return i < b->n && raw[i].kind == TOK_ASSIGN;
}
