// SPDX-License-Identifier: Apache-2.0
// What people of other languages try: told once in a statement, at its place, and kept in the tree
// as far as the grammar knows it, so that what to write instead can be composed when the dims are
// known (compiler/ast/resolve/meant/foreign.c).
//
//     Y = X @ W                 there is no operator '@'
//     Y = X[:, 0:3]             positions are not written with ':'
#include "ast/read/syntax.h"
#include "parse.h"

#include <string.h>

// ---- the line that is being read
bool foreign_ends_line(int kind) {
    return kind == TOK_NEWLINE || kind == TOK_INDENT || kind == TOK_DEDENT || kind == TOK_YYEOF;
}

const Token *foreign_line_begin(const Parser *parser) {
    const Token *token = parser->current, *begin = parser->tokens.at;
    while (token > begin && foreign_ends_line(token->kind))
        token--;
    while (token > begin && !foreign_ends_line(token[-1].kind))
        token--;
    return token;
}

bool foreign_is_word(const Token *token, const char *word) {
    return token->kind == TOK_NAME && !strcmp(token->text, word);
}

enum { LONGEST_TEXT = 160 };

const char *foreign_between(const Parser *parser, const Token *from, const Token *to) {
    if (from >= to)
        return NULL;
    uint32_t begin = from->span.begin, end = to[-1].span.end;
    const char *text = parser->source->text + begin;
    if (end <= begin || end - begin > LONGEST_TEXT || memchr(text, '\n', end - begin))
        return NULL;
    return arena_strndup(parser->arena, text, end - begin);
}

const Token *foreign_closing(const Token *open) {
    int depth = 0;
    for (const Token *at = open; !foreign_ends_line(at->kind); at++) {
        depth += (at->kind == TOK_LPAREN) - (at->kind == TOK_RPAREN);
        if (!depth)
            return at;
    }
    return NULL;
}

// ---- telling

bool foreign_told(const Parser *parser) {
    return parser->foreign &&
           parser->foreign_at == (uint32_t)(foreign_line_begin(parser) - parser->tokens.at);
}

bool foreign_is_rest_of_if(Parser *parser) {
    const Token *first = parser->current;
    while (!first->first && first > parser->tokens.at)
        first--;
    if (first->kind != TOK_NAME)
        return false;
    if (!strcmp(first->text, "if"))
        parser->told_if = true;
    return parser->told_if && (!strcmp(first->text, "else") || !strcmp(first->text, "elif"));
}

void foreign_tell(Parser *parser, Span at, const char *message, const char *hint) {
    const Token *line = foreign_line_begin(parser);
    if (parser->current->quiet || foreign_told(parser) || line == parser->broken_line)
        return;
    parser->foreign = diag_hint(syntax_error(parser, at, "%s", message), "%s", hint);
    parser->foreign_at = (uint32_t)(line - parser->tokens.at);
}

void foreign_tell_compare(Parser *parser, Span at) {
    foreign_tell(parser, at, "'==' compares", "an assignment is written '='");
}

void foreign_tell_matmul(Parser *parser, Span at) {
    foreign_tell(parser, at, "there is no operator '@'",
                 "write einsum with the dims of each operand");
}

const char foreign_none[] = "every tensor has a value: leave out what is for 'None'";

bool foreign_has_none(const Token *from, const Token *to) {
    while (from < to && !foreign_ends_line(from->kind) && !foreign_is_word(from, "None"))
        from++;
    return from < to && foreign_is_word(from, "None");
}

void foreign_tell_choice(Parser *parser, Span at) {
    bool word = parser->source->text[at.begin] == 'i';
    const Token *begin = foreign_line_begin(parser);
    bool none = foreign_has_none(begin, parser->tokens.at + parser->tokens.count);
    foreign_tell(parser, at, word ? "there is no 'if'" : "there is no operator '?'",
                 none ? foreign_none : "where(condition, a, b) chooses");
}

void foreign_tell_list(Parser *parser, Span at) {
    foreign_tell(parser, at, "a list does not stand for a value",
                 "lists are for dims, as in reduced_dim=(n, m)");
}

const char *foreign_steps_hint(const Parser *parser, const char *word, const char *variable,
                               const char *extent, const char *from) {
    if (!from)
        return arena_printf(parser->arena,
                            "'dim steps = %s' at the top of the file, then '%s %s in steps:'",
                            extent, word, variable);
    return arena_printf(parser->arena,
                        "'dim steps = %s' at the top of the file, then '%s %s in steps:', with "
                        "'%s + %s' for '%s'",
                        extent, word, variable, variable, from, variable);
}

// The key by which a function is told its dims; NULL: it has none, or is no function.
static const char *key_of_dims(const char *function) {
    Builtin builtin = builtin_find(function);
    const char *keys = builtin != BUILTIN_NONE ? builtins[builtin].keys : "";
    return words_have(keys, "dim") ? "dim" : words_have(keys, "reduced_dim") ? "reduced_dim" : NULL;
}

// `sum[m](A)`: what stands before its arguments.
const char *foreign_subscript_hint(const Parser *parser, const Token *arguments) {
    const Token *first = parser->tokens.at, *close = arguments - 1, *open = close - 1;
    bool several = false;
    for (; open > first && (token_is_name(open->kind) || open->kind == TOK_DIM_COMMA); open--)
        several |= open->kind == TOK_DIM_COMMA;
    if (open <= first || open->kind != TOK_LBRACKET || open[-1].kind != TOK_NAME)
        return NULL;
    const char *function = open[-1].text, *key = key_of_dims(function);
    const Token *end = foreign_closing(arguments);
    const char *dims = foreign_between(parser, open + 1, close);
    const char *values = end ? foreign_between(parser, arguments + 1, end) : NULL;
    if (!key || !dims || !values)
        return NULL;
    return arena_printf(parser->arena,
                        several ? "write '%s(%s, %s=(%s))'" : "write '%s(%s, %s=%s)'", function,
                        values, key, dims);
}

Range foreign_tell_range(Parser *parser, Ident function) {
    bool scans = foreign_line_begin(parser)->kind == TOK_SCAN;
    foreign_tell(parser, function.span,
                 arena_printf(parser->arena, "a %s runs over a dim, there is no '%s'",
                              scans ? "scan" : "loop", function.name),
                 scans ? "'scan i in n:' has every position of a dim 'n'"
                       : "'for i in n:' has every position of a dim 'n'");
    return (Range){function, foreign_told(parser) ? parser->foreign : NULL};
}

void foreign_tell_update(Parser *parser, const Token *token) {
    uint32_t length = token->span.end - token->span.begin;
    const char *text = parser->source->text + token->span.begin;
    const char *message = arena_printf(parser->arena, "there is no '%.*s'", (int)length, text);
    bool assigns = text[0] == ':';
    foreign_tell(parser, token->span, message,
                 assigns ? "an assignment is written '='" : "give the new value another name");
}

// ---- nodes

static ExprList pair(Parser *parser, Expr *a, Expr *b) {
    ExprList list = expr_list(parser->arena, a);
    if (b)
        vec_push(parser->arena, &list, b);
    return list;
}

static Expr *node(Parser *parser, Span span, Foreign form, ExprList args) {
    Expr *expr = expr_foreign(parser->arena, span, form, args);
    return expr->depth > AST_MAX_DEPTH ? expr_error(parser->arena, span) : expr;
}

Expr *foreign_pair(Parser *parser, Span span, Foreign form, Expr *a, Expr *b) {
    return node(parser, span, form, pair(parser, a, b));
}

Expr *foreign_choice(Parser *parser, Span span, Expr *condition, Expr *a, Expr *b) {
    ExprList list = pair(parser, condition, a);
    vec_push(parser->arena, &list, b);
    return node(parser, span, FOREIGN_CHOICE, list);
}

static bool is_module(const Expr *of) {
    return of->kind == EXPR_NAME && word_is_module(of->name.name);
}

static void tell_module(Parser *parser, const Expr *of, Span dot) {
    foreign_tell(parser, span_join(of->span, dot),
                 arena_printf(parser->arena, "there is no module '%s'", of->name.name),
                 "functions and constants are written without a prefix");
}

Expr *foreign_constant(Parser *parser, Expr *of, Span dot, Span span, const Token *number) {
    if (is_module(of))
        tell_module(parser, of, dot);
    else
        foreign_tell(parser, dot, "a number does not follow a '.' here",
                     "a product is written '*'");
    return expr_number(parser->arena, span, number->number, number->is_integer);
}

Expr *foreign_member(Parser *parser, Span span, Expr *of, Span dot, Ident name) {
    bool self = of->kind == EXPR_NAME && !strcmp(of->name.name, "self");
    if (self)
        foreign_tell(parser, span_join(of->span, dot), "there is no 'self'",
                     arena_printf(parser->arena,
                                  "'%s' is a parameter of the def, or 'param %s[..]' "
                                  "in it",
                                  name.name, name.name));
    else if (is_module(of))
        tell_module(parser, of, dot);
    else
        foreign_tell(parser, span_join(dot, name.span),
                     arena_printf(parser->arena, "there is no attribute '.%s'", name.name),
                     "a function is called by its name, with the tensor as an argument");
    Expr *expr = node(parser, span, FOREIGN_MEMBER, expr_list(parser->arena, of));
    expr->name = name;
    return expr;
}

Expr *foreign_method(Parser *parser, Span span, Expr *member, ArgList args) {
    if (member->kind != EXPR_FOREIGN)
        return member;
    ExprList list = expr_list(parser->arena, member->args.at[0]);
    for (uint32_t i = 0; i < args.args.count; i++)
        vec_push(parser->arena, &list, args.args.at[i]);
    Expr *expr = node(parser, span, FOREIGN_METHOD, list);
    expr->name = member->name;
    expr->keys = args.keys;
    return expr;
}

static Expr *nothing(Parser *parser, Span at) {
    return node(parser, at, FOREIGN_NOTHING, (ExprList){0});
}

// nn.ReLU()(X): a function that is made and called at once, its own arguments behind.
Expr *foreign_made(Parser *parser, Span span, Expr *made, ArgList args) {
    if (made->kind != EXPR_FOREIGN)
        return made;
    if (!is_module(made->args.at[0]))
        return nothing(parser, span);
    ExprList list = expr_list(parser->arena, made->args.at[0]);
    for (uint32_t i = 0; i < args.args.count; i++)
        vec_push(parser->arena, &list, args.args.at[i]);
    for (uint32_t i = 1; i < made->args.count; i++)
        vec_push(parser->arena, &list, made->args.at[i]);
    Expr *expr = node(parser, span, FOREIGN_METHOD, list);
    expr->name = made->name;
    expr->keys = made->keys;
    return expr;
}

Expr *foreign_items(Parser *parser, Span span, Expr *of, ExprList items) {
    ExprList list = expr_list(parser->arena, of);
    for (uint32_t i = 0; i < items.count; i++)
        vec_push(parser->arena, &list, items.at[i]);
    return node(parser, span, FOREIGN_ITEMS, list);
}

Expr *foreign_slice(Parser *parser, Span span, Expr *from, Span colon, Expr *to) {
    foreign_tell(parser, colon, "positions are not written with ':'",
                 "slice(x, d, from, to) takes those of a dim 'd'");
    return foreign_pair(parser, span, FOREIGN_SLICE, from ? from : nothing(parser, colon),
                        to ? to : nothing(parser, colon));
}

Expr *foreign_step(Parser *parser, Span span, Expr *slice, Expr *step) {
    return foreign_pair(parser, span, FOREIGN_STEP, slice, step);
}

Expr *foreign_ellipsis(Parser *parser, Span span) {
    foreign_tell(parser, span, "'...' does not stand for dims", "write the dims by name");
    return node(parser, span, FOREIGN_DOTS, (ExprList){0});
}

Expr *foreign_string(Parser *parser, Span span, const Token *token) {
    foreign_tell(parser, span, "a string does not stand for a value",
                 "dims are names in brackets, not letters of a string");
    Expr *expr = node(parser, span, FOREIGN_STRING, (ExprList){0});
    expr->name.name = names_find(parser->session->names, token->text);
    return expr;
}

Expr *foreign_list(Parser *parser, Span span, ExprList items) {
    return node(parser, span, FOREIGN_LIST, items);
}

// ---- tokens

bool foreign_ends_operand(int kind) {
    return token_is_name(kind) || kind == TOK_NUMBER || kind == TOK_RPAREN || kind == TOK_RBRACKET;
}

static bool is_infix(const Token *raw, uint32_t i) {
    return i > 0 && !raw[i].first && foreign_ends_operand(raw[i - 1].kind);
}

static bool is_prefix(const Token *raw, uint32_t i, uint32_t n) {
    int before = i > 0 && !raw[i].first ? raw[i - 1].kind : 0,
        after = i + 1 < n ? raw[i + 1].kind : 0;
    return (before == TOK_ASSIGN || before == TOK_RETURN || before == TOK_LPAREN) &&
           (after == TOK_NAME || after == TOK_NUMBER || after == TOK_NOT);
}

// The lines under `class A(..):` are one mistake with it, whatever they say: the grammar sees one
// lost line in their place, and the names in them are lost.
static void lose_classes(Parser *parser) {
    enum { OUTSIDE, HEAD, BODY } where = OUTSIDE;
    Token *raw = parser->tokens.at;
    uint32_t n = parser->tokens.count, kept = 0;
    int depth = 0; // of parentheses in the head
    for (uint32_t i = 0; i < n; i++) {
        bool item = raw[i].first && !raw[i].indent;
        bool begins = where == HEAD && raw[i].first && !depth;
        if (item)
            where = foreign_is_word(&raw[i], "class") && i + 1 < n ? HEAD : OUTSIDE;
        else if (begins)
            where = BODY;
        depth = item ? 0 : depth + (raw[i].kind == TOK_LPAREN) - (raw[i].kind == TOK_RPAREN);
        if (where == BODY && raw[i].kind == TOK_NAME)
            vec_push(parser->arena, &parser->program->lost, raw[i].text);
        if (where == BODY && begins) {
            raw[i].kind = TOK_YYerror;
            raw[i].quiet = true;
        }
        if (where != BODY || begins)
            raw[kept++] = raw[i];
    }
    parser->tokens.count = kept;
}

void foreign_tokens(Parser *parser) {
    lose_classes(parser);
    Token *raw = parser->tokens.at;
    uint32_t n = parser->tokens.count, choices = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (raw[i].first)
            choices = 0;
        if (foreign_is_word(&raw[i], "if") && (is_infix(raw, i) || is_prefix(raw, i, n))) {
            raw[i].kind = TOK_IF;
            choices++;
        } else if (foreign_is_word(&raw[i], "else") && choices && is_infix(raw, i)) {
            raw[i].kind = TOK_ELSE;
            choices--;
        } else if (raw[i].kind == TOK_IMPORT && raw[i].indent && i + 1 < n &&
                   token_is_name(raw[i + 1].kind)) {
            raw[i].kind = TOK_NAME; // of a module, not an item
        }
    }
}
