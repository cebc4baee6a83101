// SPDX-License-Identifier: Apache-2.0
// Hints for lines of other languages that the grammar stops in: what to write instead, from the
// text.
//
//     let Y = X                 expected '=', found 'Y'        hint: write 'Y = X'
//     if c:  Y = A  else:  ..   expected '=', found 'c'        hint: write 'Y = where(c, A, B)'
#include "ast/read/syntax.h"
#include "parse.h"

#include <string.h>

// ---- tokens of the line

static const Token *line_end(const Token *token) {
    while (!foreign_ends_line(token->kind))
        token++;
    return token;
}

static bool is_word_of(const Token *token, const char *const *words) {
    while (*words && !foreign_is_word(token, *words))
        words++;
    return *words != NULL;
}

enum { SEVERAL_MAX = 6 };

typedef struct {
    const Token *from, *to;
} Part;

// The parts between commas outside of brackets; 0: there are more than SEVERAL_MAX.
static uint32_t parts_of(const Token *from, const Token *to, Part *parts) {
    uint32_t n = 0;
    int depth = 0;
    const Token *begin = from;
    for (const Token *at = from; at <= to; at++) {
        depth += at->kind == TOK_LPAREN || at->kind == TOK_LBRACKET;
        depth -= at->kind == TOK_RPAREN || at->kind == TOK_RBRACKET;
        if (at != to && (depth || at->kind != TOK_COMMA))
            continue;
        if (n == SEVERAL_MAX)
            return 0;
        parts[n++] = (Part){begin, at};
        begin = at + 1;
    }
    return n;
}

// ---- statements with blocks

// What a block of `if` consists of, the line of its word first.
typedef struct {
    const Token *word, *colon, *body, *end; // body: the only line, which ends with `end`
    const Token *next;                      // line behind the block
    const Token *equals;                    // in the body; `return`, if it begins with that
} Branch;

// `if c: T = A`, on one line or two, `elif c:` and `else:` alike.
static bool read_branch(const Token *word, Branch *out) {
    const Token *end = line_end(word), *colon = word;
    bool block = end->kind == TOK_INDENT && end[-1].kind == TOK_COLON;
    while (!block && colon < end && colon->kind != TOK_COLON)
        colon++;
    *out = (Branch){.word = word, .colon = block ? end - 1 : colon};
    out->body = out->equals = block ? end + 1 : colon + 1;
    out->end = block ? line_end(out->body) : end;
    out->next = out->end + (block ? 2 : 1);
    if (out->body >= out->end || out->end->kind != TOK_NEWLINE ||
        (block && out->end[1].kind != TOK_DEDENT))
        return false;
    while (out->equals < out->end && out->equals->kind != TOK_ASSIGN &&
           out->equals->kind != TOK_RETURN)
        out->equals++;
    return out->equals < out->end;
}

// The text of one value.
static const char *one_text(const Parser *parser, const Token *from, const Token *to) {
    Part parts[SEVERAL_MAX];
    return parts_of(from, to, parts) == 1 ? foreign_between(parser, from, to) : NULL;
}

// Whether the def names it above the line.
static bool is_known(const Parser *parser, const Token *line, const char *name) {
    while (line > parser->tokens.at && !token_is_def(line->kind) &&
           !foreign_is_word(line - 1, name))
        line--;
    return line > parser->tokens.at && !token_is_def(line->kind);
}

// Whether the def declares it above the line: `c: bool`, `c[n]: bool`.
static bool is_bool(const Parser *parser, const Token *line, const char *name) {
    for (; line > parser->tokens.at && !token_is_def(line->kind); line--) {
        const Token *behind = line + 1;
        if (!foreign_is_word(line, name))
            continue;
        if (behind->kind == TOK_LBRACKET)
            while (!foreign_ends_line(behind->kind) && behind[-1].kind != TOK_RBRACKET)
                behind++;
        if (behind->kind == TOK_COLON && foreign_is_word(behind + 1, "bool"))
            return true;
    }
    return false;
}

static bool joins_conditions(int kind) {
    return kind == TOK_AND || kind == TOK_OR || kind == TOK_NOT;
}

// The text of a condition, of which other languages may make one of a number: a name alone is one
// if the def says so.
static const char *condition_text(const Parser *parser, const Token *from, const Token *to) {
    if (!foreign_between(parser, from, to))
        return NULL;
    Text text = {.arena = parser->arena};
    const char *source = parser->source->text;
    uint32_t at = from->span.begin;
    for (const Token *token = from; token < to; token++) {
        bool alone = token->kind == TOK_NAME &&
                     (token == from || joins_conditions(token[-1].kind)) &&
                     (token + 1 == to || joins_conditions(token[1].kind));
        if (!alone || word_constant(token->text) || is_bool(parser, from, token->text))
            continue;
        text_printf(&text, "%.*sbool(%s)", (int)(token->span.begin - at), source + at, token->text);
        at = token->span.end;
    }
    text_printf(&text, "%.*s", (int)(to[-1].span.end - at), source + at);
    return text.at;
}

// The value of T: `if c:` T = A `elif e:` T = B `else:` T = C, where T may be `return`. Without
// `else:` it is what T was before, or 0, or the `return` that follows. NULL: they are anything
// else.
static const char *choice_text(const Parser *parser, const Token *word, const Token *target,
                               bool *has_else, uint32_t depth) {
    Branch branch;
    if (depth > 20 || !read_branch(word, &branch) || branch.body->text != target->text ||
        branch.body->kind != target->kind)
        return NULL;
    const char *value = one_text(parser, branch.equals + 1, branch.end), *rest = NULL;
    if (foreign_is_word(word, "else")) {
        *has_else = true;
        return word + 1 == branch.colon ? value : NULL;
    }
    const Token *next = branch.next;
    if (foreign_is_word(next, "elif") || foreign_is_word(next, "else"))
        rest = choice_text(parser, next, target, has_else, depth + 1);
    else if (target->kind != TOK_RETURN)
        rest = is_known(parser, target, target->text) ? target->text : "0";
    else if (next->kind == TOK_RETURN)
        rest = one_text(parser, next + 1, line_end(next));
    const char *condition = condition_text(parser, word + 1, branch.colon);
    if (value && condition && word_says(condition, true)) {
        *has_else = true;
        return value;
    }
    return rest && value && condition
               ? arena_printf(parser->arena, "where(%s, %s, %s)", condition, value, rest)
               : NULL;
}

typedef struct {
    const Token *from, *to;
} Lines;

static bool is_taken(const void *of, const char *name) {
    const Lines *lines = (const Lines *)of;
    const Token *at = lines->from;
    while (at < lines->to && !foreign_is_word(at, name))
        at++;
    return at < lines->to;
}

// NAME_1, or another name that nothing in the def has.
static const char *fresh_name(const Parser *parser, const Token *line, const char *name) {
    Lines def = {line, line};
    while (def.from > parser->tokens.at && !token_is_def(def.from->kind))
        def.from--;
    while (def.to->kind != TOK_YYEOF && !token_is_def(def.to->kind))
        def.to++;
    return text_numbered(parser->arena, name, is_taken, &def);
}

// Whether the line is in a block of a loop.
static bool is_in_loop(const Parser *parser, const Token *line) {
    int depth = 0;
    for (; line > parser->tokens.at && !token_is_def(line->kind); line--) {
        bool header = line->first && depth < 0;
        if (header && (line->kind == TOK_FOR || line->kind == TOK_SCAN))
            return true;
        depth = header ? 0 : depth;
        depth += (line[-1].kind == TOK_DEDENT) - (line[-1].kind == TOK_INDENT);
    }
    return false;
}

static const char *if_hint(const Parser *parser, const Token *first) {
    static const char chooses[] = "where(condition, a, b) chooses";
    Branch branch;
    bool has_else = false;
    if (foreign_has_none(first, line_end(first)))
        return foreign_none;
    if (!foreign_is_word(first, "if") || !read_branch(first, &branch))
        return chooses;
    const char *value = choice_text(parser, first, branch.body, &has_else, 0);
    if (!value)
        return chooses;
    if (branch.body->kind == TOK_RETURN)
        return arena_printf(parser->arena, "write 'return %s'", value);
    const char *name = branch.body->text,
               *whole = foreign_between(parser, branch.body, branch.equals);
    if (!whole)
        return chooses;
    bool known = is_known(parser, first, name);
    if (known ? is_in_loop(parser, first) : has_else)
        return arena_printf(parser->arena, "write '%s = %s'", whole, value);
    if (!known)
        return arena_printf(parser->arena, "write '%s = %s', with what it is otherwise for 0",
                            whole, value);
    const char *fresh = fresh_name(parser, first, name);
    return arena_printf(parser->arena, "write '%s%s = %s' and go on with '%s'", fresh,
                        whole + strlen(name), value, fresh);
}

// `Y = lambda x: x + 1`
static const char *lambda_hint(const Parser *parser, const Token *lambda) {
    const Token *first = foreign_line_begin(parser), *end = line_end(lambda), *colon = lambda + 1;
    while (colon < end && colon->kind != TOK_COLON)
        colon++;
    const char *params = foreign_between(parser, lambda + 1, colon),
               *body = foreign_between(parser, colon + 1, end);
    if (colon == end || !params || !body || lambda != first + 2 || first[1].kind != TOK_ASSIGN)
        return "an architecture is made of defs";
    return arena_printf(parser->arena,
                        "a function is a def: 'def %s(%s):', and 'return %s' under it", first->text,
                        params, body);
}

// `let Y = X`, `const float Y[n] = X`
static const char *declaration_hint(const Parser *parser, const Token *first) {
    const Token *end = line_end(first), *name = first, *equals = first;
    while (name + 1 < end && name[1].kind == TOK_NAME)
        name++;
    while (equals < end && equals->kind != TOK_ASSIGN)
        equals++;
    const char *text = foreign_between(parser, name, end);
    if (name == first || first->kind != TOK_NAME || equals == end || !text)
        return NULL;
    return arena_printf(parser->arena, "write '%s'", text);
}

// `Y <- X`, `Y++`
static const char *target_hint(const Parser *parser, const Token *first) {
    const Token *at = parser->current, *end = line_end(at);
    bool twice = at + 1 < end && at[1].span.begin == at->span.end;
    const char *target = foreign_between(parser, first, at),
               *value = foreign_between(parser, at + 2, end);
    if (!twice || !target)
        return NULL;
    if (at->kind == TOK_DOT && at[1].kind == TOK_NAME && value)
        return arena_printf(parser->arena, "write '%s'", foreign_between(parser, at + 1, end));
    if (at->kind == TOK_LT && at[1].kind == TOK_MINUS && value)
        return arena_printf(parser->arena, "write '%s = %s'", target, value);
    bool step = at->kind == at[1].kind && (at->kind == TOK_PLUS || at->kind == TOK_MINUS);
    if (step && at + 2 == end)
        return arena_printf(parser->arena, "give the new value another name: '%s = %s %c 1'",
                            fresh_name(parser, first, first->text), first->text,
                            at->kind == TOK_PLUS ? '+' : '-');
    return NULL;
}

static const char *operator_hint(const Parser *parser) {
    const Token *at = parser->current, *before = at > parser->tokens.at ? at - 1 : at;
    bool touches = before < at && before->span.end == at->span.begin;
    if (touches && at->kind == TOK_ASSIGN && before->kind == TOK_EQ)
        return "write '=='";
    if (touches && at->kind == TOK_ASSIGN && before->kind == TOK_NE)
        return "write '!='";
    if (touches && at->kind == TOK_STAR && before->kind == TOK_DOT)
        return "write '*'";
    if (touches && at->kind == TOK_LBRACKET &&
        (before->kind == TOK_RPAREN || before->kind == TOK_RBRACKET))
        return "brackets follow a name: give the value one first";
    if (touches && at->kind == TOK_LPAREN && before->kind == TOK_RBRACKET)
        return foreign_subscript_hint(parser, at);
    if (foreign_is_word(at, "mod"))
        return "write '%'";
    if (foreign_is_word(at, "div"))
        return "write '//'";
    if (foreign_is_word(at, "is") && foreign_has_none(at, line_end(at)))
        return foreign_none;
    if (foreign_is_word(at, "is"))
        return "write '=='";
    if (touches && at->kind == TOK_GT && before->kind == TOK_LT)
        return "write '!='";
    bool begins = at == foreign_line_begin(parser);
    bool dashes = at->kind == TOK_MINUS && at[1].kind == TOK_MINUS;
    if (begins && (at->kind == TOK_SLASH || at->kind == TOK_FLOORDIV || at->kind == TOK_PERCENT ||
                   dashes || at->kind == TOK_STAR))
        return "comments begin with '#'";
    if (begins && at->kind == TOK_AT)
        return "there are no decorators";
    if (touches && (at->kind == TOK_STRING || at->kind == TOK_QUOTED) && before->kind == TOK_NAME)
        return "there are no strings";
    if (at->kind == TOK_IN)
        return "there is no 'in': '==' compares each element";
    if (at->kind == TOK_TILDE && !foreign_ends_operand(before->kind))
        return "write 'not'";
    return NULL;
}

// ---- several at once

static const Token *assign_of(const Token *first) {
    const Token *at = first;
    while (!foreign_ends_line(at->kind) && at->kind != TOK_ASSIGN)
        at++;
    return at->kind == TOK_ASSIGN ? at : NULL;
}

static bool gives_one(const char *function) {
    Builtin builtin = builtin_find(function);
    return builtin != BUILTIN_NONE && builtin != BUILTIN_TOPK;
}

// Whether the tokens are a call of what may give several values, and nothing else.
static bool is_call(const Token *from, const Token *to) {
    if (to - from < 3 || from->kind != TOK_NAME || from[1].kind != TOK_LPAREN)
        return false;
    return foreign_closing(from + 1) == to - 1 && !gives_one(from->text);
}

// `(A, B) = G(X)`
static const char *unpack_hint(const Parser *parser, const Token *first) {
    const Token *assign = assign_of(first);
    bool brackets = assign && assign > first + 2 &&
                    ((first->kind == TOK_LPAREN && assign[-1].kind == TOK_RPAREN) ||
                     (first->kind == TOK_LBRACKET && assign[-1].kind == TOK_RBRACKET));
    if (!brackets || parser->current != first)
        return NULL;
    const char *names = foreign_between(parser, first + 1, assign - 1),
               *value = foreign_between(parser, assign + 1, line_end(assign));
    if (!names || !value)
        return NULL;
    if (!is_call(assign + 1, line_end(assign)))
        return "only 'topk' and a call of a def give several values: 'A, B = F(X)'";
    return arena_printf(parser->arena, "write '%s = %s'", names, value);
}

// `A = B = X`
static const char *chain_hint(const Parser *parser, const Token *first) {
    const Token *assign = assign_of(first), *at = parser->current;
    if (!assign || assign >= at || at->kind != TOK_ASSIGN || assign[1].kind != TOK_NAME)
        return NULL;
    bool brackets = assign[2].kind == TOK_LBRACKET && at[-1].kind == TOK_RBRACKET;
    if (assign + 2 != at && !brackets)
        return NULL;
    const char *target = foreign_between(parser, first, assign),
               *other = foreign_between(parser, assign + 1, at),
               *value = foreign_between(parser, at + 1, line_end(at));
    return target && other && value
               ? arena_printf(parser->arena, "on lines of their own: '%s = %s', '%s = %s'", other,
                              value, target, assign[1].text)
               : NULL;
}

static bool is_read(const Token *name, const Token *from, const Token *to) {
    while (from < to && !foreign_is_word(from, name->text))
        from++;
    return from < to;
}

// `s, r = r, s + X`: one line for each, by way of other names where one of them is read.
static const char *exchange_hint(const Parser *parser, const Token *first) {
    const Token *assign = assign_of(first), *end = assign ? line_end(assign) : NULL;
    Part names[SEVERAL_MAX], values[SEVERAL_MAX];
    uint32_t n = assign ? parts_of(first, assign, names) : 0;
    if (n < 2 || parser->current->kind != TOK_COMMA || parts_of(assign + 1, end, values) != n)
        return NULL;
    Text text = {.arena = parser->arena}, after = {.arena = parser->arena};
    bool is_exchange = false;
    for (uint32_t i = 0; i < n; i++) {
        if (!token_is_name(names[i].from->kind))
            return NULL;
        is_exchange |= is_read(names[i].from, assign + 1, end);
    }
    for (uint32_t i = 0; i < n; i++) {
        const char *whole = foreign_between(parser, names[i].from, names[i].to);
        const char *value = foreign_between(parser, values[i].from, values[i].to);
        if (!whole || !value)
            return NULL;
        const char *name = names[i].from->text, *dims = whole + strlen(name);
        const char *fresh = fresh_name(parser, first, name);
        text_printf(&text, "%s'%s%s = %s'", i ? ", " : "", is_exchange ? fresh : name, dims, value);
        text_printf(&after, "%s'%s = %s'", i ? ", " : "", name, fresh);
    }
    if (!is_exchange)
        return arena_printf(parser->arena, "on lines of their own: %s", text.at);
    return arena_printf(parser->arena, "on lines of their own: %s; in a loop then %s", text.at,
                        after.at);
}

// ---- brackets

// `X[:, 0] += 1`, `X[0] += Z`, `X[:, 0] = Z`
static const char *part_hint(const Parser *parser, const Token *first) {
    const Token *at = parser->current, *end = at;
    if (first->kind != TOK_NAME || first[1].kind != TOK_LBRACKET || at < first + 2)
        return NULL;
    for (const Token *in = first + 2; in < at; in++)
        if (in->kind == TOK_LBRACKET || in->kind == TOK_RBRACKET)
            return NULL;
    while (!foreign_ends_line(end->kind) && end->kind != TOK_ASSIGN && end->kind != TOK_UPDATE)
        end++;
    bool part = end->kind == TOK_UPDATE || (end->kind == TOK_ASSIGN && at->kind == TOK_COLON);
    return part
               ? "a tensor is assigned as a whole: 'where(index(d) == i, a, b)' is 'a' at position "
                 "'i' of 'd', else 'b'"
               : NULL;
}

// `split(x, d -> h, k)`, `merge(x, h k)`
static const char *regroup_hint(const Parser *parser, const Token *first) {
    const Token *at = parser->current;
    int depth = 0;
    while (at > first && depth >= 0) {
        at--;
        depth += (at->kind == TOK_RPAREN) - (at->kind == TOK_LPAREN);
    }
    if (depth >= 0 || at == first)
        return NULL;
    return foreign_is_word(at - 1, "split")   ? "it is written 'split(x, d -> h k)'"
           : foreign_is_word(at - 1, "merge") ? "it is written 'merge(x, h k -> d)'"
                                              : NULL;
}

// ---- lines at the top

static bool is_dim_above(const Token *name, const Token *begin) {
    bool declares = false, found = false;
    for (const Token *at = begin; at < name && !found; at++) {
        declares = at->first ? at->kind == TOK_DIM : declares;
        found = declares && foreign_is_word(at, name->text);
    }
    return found;
}

// `k = d / h`, where these are dims
static const char *extent_hint(const Parser *parser, const Token *first) {
    const Token *end = line_end(first);
    if (parser->current != first || first->kind != TOK_NAME || first[1].kind != TOK_ASSIGN)
        return NULL;
    for (const Token *at = first + 2; at < end; at++) {
        bool name = at->kind == TOK_NAME && is_dim_above(at, parser->tokens.at);
        bool number = at->kind == TOK_NUMBER && at->is_integer;
        bool oper = at->kind == TOK_PLUS || at->kind == TOK_MINUS || at->kind == TOK_STAR ||
                    at->kind == TOK_SLASH || at->kind == TOK_FLOORDIV || at->kind == TOK_LPAREN ||
                    at->kind == TOK_RPAREN;
        if (!name && !number && !oper)
            return NULL;
    }
    const char *line = foreign_between(parser, first, end);
    return line ? arena_printf(parser->arena, "write 'dim %s'", line) : NULL;
}

// ---- words

// `for i in 2 * layers:`
static const char *loop_hint(const Parser *parser, const Token *first) {
    const Token *at = parser->current, *colon = at;
    if (first->kind == TOK_FOR && first[2].kind == TOK_COMMA)
        return "a loop has one variable, which runs over a dim: for layer in layers";
    if (first->kind != TOK_FOR || at != first + 3)
        return NULL;
    for (; colon->kind != TOK_COLON; colon++)
        if (colon->kind != TOK_NUMBER && colon->kind != TOK_NAME && colon->kind != TOK_PLUS &&
            colon->kind != TOK_MINUS && colon->kind != TOK_STAR && colon->kind != TOK_FLOORDIV)
            return "a loop runs over a dim, from 0: for layer in layers";
    const char *extent = foreign_between(parser, at, colon);
    return extent ? foreign_steps_hint(parser, "for", first[1].text, extent, NULL) : NULL;
}

static const char *word_hint(const Token *first) {
    static const struct {
        const char *words[8], *hint;
    } table[] = {
        {{"while", "loop", "repeat"}, "a loop runs over a dim: for layer in layers"},
        {{"class", "struct", "module"}, "an architecture is made of defs"},
        {{"import", "from", "using", "include", "require"},
         "leave it out: exp, softmax and the like are built in"},
        {{"fn", "func", "function", "fun", "proc"}, "a function begins with 'def'"},
        {{"print", "printf", "assert", "raise"}, "leave it out: results are what 'return' gives"},
        {{"pass", "break", "continue", "end"}, "leave it out"},
        {{"yield", "give"}, "results are what 'return' gives, at the end of the def"},
        {{"with", "try", "except", "finally"}, "leave it out, and write its lines without it"},
        {{"switch", "match", "case", "elif"}, "where(condition, a, b) chooses"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (is_word_of(first, table[i].words))
            return table[i].hint;
    return NULL;
}

static const char *return_hint(const Parser *parser, const Token *first) {
    const Token *at = parser->current;
    if (first->kind != TOK_RETURN)
        return NULL;
    if (foreign_ends_line(at->kind) && at == first + 1)
        return "write what the def gives: return Y[n, d]";
    if (foreign_ends_line(at->kind) && at[-1].kind == TOK_COMMA)
        return "leave out the last ','";
    if (at->kind == TOK_AS)
        return "a result has the name of its tensor";
    return NULL;
}

// `if flag:`, `while i < 3:`: the first word of the line, where what follows it is not expected.
const Token *foreign_statement(const Parser *parser) {
    static const char *const words[] = {"if", "while", "with", "try", "class", NULL};
    const Token *first = foreign_line_begin(parser);
    return parser->current == first + 1 && is_word_of(first, words) ? first : NULL;
}

const char *foreign_line_hint(const Parser *parser) {
    if (parser->n_errors > MAX_ERRORS) // nobody is told, and looking back at the def takes time
        return NULL;
    const Token *first = foreign_line_begin(parser), *at = parser->current;
    const char *hint = operator_hint(parser);
    if (first->kind == TOK_IMPORT && first[1].kind == TOK_NAME && word_is_module(first[1].text))
        return "leave it out: exp, softmax and the like are built in";
    if (!hint)
        hint = return_hint(parser, first);
    if (!hint)
        hint = extent_hint(parser, first);
    if (!hint)
        hint = loop_hint(parser, first);
    if (!hint)
        hint = unpack_hint(parser, first);
    if (!hint)
        hint = chain_hint(parser, first);
    if (!hint)
        hint = exchange_hint(parser, first);
    if (!hint)
        hint = part_hint(parser, first);
    if (!hint)
        hint = regroup_hint(parser, first);
    if (!hint)
        hint = first_value_hint(parser);
    for (int back = 0; back < 2 && at >= first && !hint; back++, at--) {
        if (foreign_is_word(at, "if") || foreign_is_word(at, "else") || at->kind == TOK_IF)
            return if_hint(parser, first);
        if (foreign_is_word(at, "lambda"))
            return lambda_hint(parser, at);
    }
    if (!hint && parser->current <= first + 2)
        hint = word_hint(first);
    if (!hint && parser->current == first + 1)
        hint = declaration_hint(parser, first);
    if (!hint && parser->current > first)
        hint = target_hint(parser, first);
    return hint;
}
