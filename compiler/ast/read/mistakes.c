// SPDX-License-Identifier: Apache-2.0
// Mistakes of the text: told here, and remembered by place, so that one mistake gives one message.
//
//     Y[n, k = einsum(X[n, d], P[d, k])     '[' is never closed; mended to Y[n, k]
//
// What was mended may be something else than what was meant. So a statement with a mistake in it is
// garbled: its name is known, but what it says about dims is not judged. A mistake of the layout
// (line ends, indentation) leaves the statements as they are, and only holds back the warnings
// about what never takes part.
#include "ast/read/syntax.h"
#include "parse.h"

#include <string.h>

enum { MARK_TEXT = 1, MARK_LAYOUT = 2 };

Parser parser_new(Session *session, Program *program, uint32_t file, Arena *scratch) {
    const Source *source = sources_get(session->sources, file);
    return (Parser){
        .session = session,
        .arena = session->arena,
        .scratch = scratch,
        .untold = diags_new(session->arena, session->sources), // statements keep them
        .program = program,
        .file = file,
        .source = source,
        .marks = arena_array(scratch, uint8_t, source->length + 1),
    };
}

// ---- telling

static Diag *tell(Parser *parser, uint8_t mark, Span at, const char *format, va_list args) {
    Diags *told = parser->session->diags;
    if (++parser->n_errors == MAX_ERRORS + 1)
        diag_error(told, at, "too many errors; the rest of this file is not reported");
    uint8_t *place = &parser->marks[at.begin];
    *place = *place == MARK_TEXT ? MARK_TEXT : mark;
    Text message = {.arena = parser->scratch};
    text_vprintf(&message, format, args);
    return diag_error(parser->n_errors > MAX_ERRORS ? parser->untold : told, at, "%s", message.at);
}

Diag *syntax_error(Parser *parser, Span at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Diag *diag = tell(parser, MARK_TEXT, at, format, args);
    va_end(args);
    return diag;
}

Diag *layout_error(Parser *parser, Span at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Diag *diag = tell(parser, MARK_LAYOUT, at, format, args);
    va_end(args);
    return diag;
}

// ---- asking

bool mistakes_in(const Parser *parser, Span span) {
    return memchr(parser->marks + span.begin, MARK_TEXT, span.end - span.begin) != NULL;
}

uint32_t mistakes_count(const Parser *parser, Span span) {
    uint32_t count = 0;
    for (uint32_t i = span.begin; i < span.end; i++)
        count += parser->marks[i] == MARK_TEXT;
    return count;
}

bool mistakes_of_layout_in(const Parser *parser, Span span) {
    return memchr(parser->marks + span.begin, MARK_LAYOUT, span.end - span.begin) != NULL;
}

Span mistakes_line(const Parser *parser, Span span) {
    const char *text = parser->source->text + span.end;
    const char *end = memchr(text, '\n', parser->source->length - span.end);
    span.end = end ? (uint32_t)(end - parser->source->text) : (uint32_t)parser->source->length;
    return span;
}

static uint32_t first_token(const Parser *parser, uint32_t begin) {
    uint32_t i = parser->next;
    while (i > 0 && parser->tokens.at[i - 1].span.begin >= begin)
        i--;
    return i;
}

bool mistakes_join_statements(const Parser *parser, Span span) {
    uint32_t assigns = 0, depth = 0, first = first_token(parser, span.begin);
    for (uint32_t i = first; i < parser->next; i++) {
        int kind = parser->tokens.at[i].kind;
        if (i > first && (kind == TOK_RETURN || token_is_loop(kind)))
            return true;
        depth += kind == TOK_LPAREN;
        depth -= kind == TOK_RPAREN;
        bool after_dims = i > first && parser->tokens.at[i - 1].kind == TOK_RBRACKET;
        assigns += kind == TOK_ASSIGN && (depth == 0 || after_dims);
    }
    return assigns > 1;
}

// A row of names grows by one from call to call: what was looked at is not walked over again.
bool mistakes_since_comma(Parser *parser, Span span) {
    const Token *tokens = parser->tokens.at;
    uint32_t end = first_token(parser, span.begin), begin = end;
    while (begin > 0 && token_is_name(tokens[begin - 1].kind)) {
        bool known = begin == parser->row_end && begin > parser->row_begin;
        begin = known ? parser->row_begin : begin - 1;
    }
    parser->row_begin = begin;
    parser->row_end = end;
    if (begin < end)
        span.begin = tokens[begin].span.begin;
    return mistakes_in(parser, span);
}

void mistakes_lose_names(Parser *parser, Span span) {
    for (uint32_t i = first_token(parser, span.begin); i < parser->next; i++)
        if (parser->tokens.at[i].kind == TOK_NAME)
            vec_push(parser->arena, &parser->program->lost, parser->tokens.at[i].text);
}

bool mistakes_repeat_stray(Parser *parser) {
    const Token *before = parser->current - 1;
    bool follows = parser->stray && before > parser->tokens.at && before->kind == TOK_NEWLINE;
    while (follows && --before > parser->stray)
        follows = before->kind != TOK_NEWLINE && before->kind != TOK_DEDENT;
    parser->stray = parser->current;
    return follows;
}

// ---- values without an operator between them

const char *mistakes_call_hint(const Parser *parser) {
    const Token *before = parser->current - 1;
    bool calls = parser->current > parser->tokens.at && before->kind == TOK_NAME &&
                 builtin_find(before->text) != BUILTIN_NONE;
    return calls ? arena_printf(parser->scratch, "arguments are in parentheses: %s(...)",
                                before->text)
                 : NULL;
}

const char *mistakes_beside_hint(const Parser *parser) {
    const Token *token = parser->current;
    for (; token->kind != TOK_NEWLINE && token->kind != TOK_YYEOF; token++)
        if (token->kind == TOK_ASSIGN)
            return "a statement ends with its line";
    return "'*' multiplies two values, einsum(A[n, m], B[m, k] -> [n, k]) sums up products";
}
