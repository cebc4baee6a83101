// SPDX-License-Identifier: Apache-2.0
// The word `optimizer` and the defaults of its parameters, as tokens of their own, so that both are
// nothing anywhere else:
//
//     optimizer sgd(W[i], momentum[] = 0.9):     OPTIMIZER NAME ( ... NAME [ ] DEFAULT NUMBER ) :
//     optimizer = 2                              NAME = NUMBER
#include "ast/read/syntax.h"
#include "parse.h"

// `optimizer NAME` at the beginning of a line.
static bool begins_optimizer(const TokenList *tokens, uint32_t i) {
    const Token *word = &tokens->at[i];
    return word->first && i + 1 < tokens->count && token_is_name(word[1].kind) && !word[1].first;
}

// From where the bracket is that opens the parameters, or should be; those of dims may not match. A
// statement of a body that the bracket is not closed before begins a line behind no comma: its sign
// is none of a default.
static void mark_defaults(TokenList *tokens, uint32_t open) {
    int depth = tokens->at[open].kind != TOK_LPAREN;
    bool in_parameter = false;
    for (uint32_t i = open; i < tokens->count; i++) {
        Token *token = &tokens->at[i];
        bool after_comma =
            i > open && (token[-1].kind == TOK_COMMA || token[-1].kind == TOK_LPAREN);
        if (depth == 1 && (token->first || after_comma))
            in_parameter = after_comma && token_is_name(token->kind);
        depth += (token->kind == TOK_LPAREN) - (token->kind == TOK_RPAREN);
        if (depth <= 0 || (token->first && token_is_def(token->kind)))
            return;
        if (depth == 1 && in_parameter && token->kind == TOK_ASSIGN)
            token->kind = TOK_DEFAULT;
    }
}

void optimizers_tokens(Parser *parser) {
    TokenList *tokens = &parser->tokens;
    for (uint32_t i = 0; i < tokens->count; i++)
        if (tokens->at[i].kind == TOK_OPTIMIZER && !begins_optimizer(tokens, i))
            tokens->at[i].kind = TOK_NAME;
    for (uint32_t i = 0; i + 2 < tokens->count; i++)
        if (tokens->at[i].kind == TOK_OPTIMIZER)
            mark_defaults(tokens, i + 2);
}
