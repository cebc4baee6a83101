// SPDX-License-Identifier: Apache-2.0
// The dims around an arrow without brackets, as tokens of their own, so that the grammar needs to
// see no further than the next token:
//
//     split(x, d -> h k)          NAME ( NAME , FROM(d) INTO NAME NAME )
//     merge(x, h k -> d)          NAME ( NAME , FROM(h) FROM(k) INTO NAME )
#include "ast/read/syntax.h"
#include "parse.h"

void regroup_tokens(Parser *parser) {
    Token *raw = parser->tokens.at;
    for (uint32_t i = 0; i + 1 < parser->tokens.count; i++) {
        if (raw[i].kind != TOK_ARROW || !token_is_name(raw[i + 1].kind))
            continue;
        uint32_t first = i;
        while (first > 0 && token_is_name(raw[first - 1].kind))
            first--;
        if (first == i || first == 0 || raw[first - 1].kind != TOK_COMMA)
            continue;
        for (uint32_t k = first; k < i; k++)
            raw[k].kind = TOK_FROM;
        raw[i].kind = TOK_INTO;
    }
}
