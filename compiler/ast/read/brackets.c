// SPDX-License-Identifier: Apache-2.0
// Brackets: finds the one that is missing, wrong or too much, and mends it.
//
// Most files have matching brackets and pass through untouched. Where a segment (what lies between
// the starts of two items) does not match, each line in it that can only be a new statement ends
// the brackets before it, and a wrong closing bracket is taken for the slip that leaves fewer
// others.
#include "ast/read/blocks.h"

enum { LOOK_AHEAD = 400, STACK = 2 * MAX_BRACKETS };

static int closer_of(int kind) {
    return kind == TOK_LPAREN ? TOK_RPAREN : TOK_RBRACKET;
}

static const char *bracket_text(int kind) {
    switch (kind) {
    case TOK_LPAREN:
        return "(";
    case TOK_RPAREN:
        return ")";
    case TOK_LBRACKET:
        return "[";
    default:
        return "]";
    }
}

static bool is_opener(int kind) {
    return kind == TOK_LPAREN || kind == TOK_LBRACKET;
}

static bool is_closer(int kind) {
    return kind == TOK_RPAREN || kind == TOK_RBRACKET;
}

static int top_kind(const Blocks *b) {
    return b->open.count ? b->open.at[b->open.count - 1].kind : 0;
}

// ---- segments

static bool is_arithmetic(int kind) {
    return kind == TOK_PLUS || kind == TOK_MINUS || kind == TOK_STAR || kind == TOK_SLASH ||
           kind == TOK_FLOORDIV || kind == TOK_PERCENT || kind == TOK_POW;
}

// May the bracket i open inside of `[n, d]`? Only within a position, as in `[2 * (n - 1), d]`:
// anything else is taken for the sign of a bracket that was not closed.
static bool opens_in_position(const Blocks *b, uint32_t i) {
    return i > 0 && is_arithmetic(b->raw[i - 1].kind);
}

bool brackets_begins_item(const Blocks *b, uint32_t i) {
    const Token *token = &b->raw[i];
    if (!token->first)
        return false;
    if (token_is_def(token->kind) || token->kind == TOK_IMPORT)
        return true;
    return token->kind == TOK_DIM && i + 1 < b->n && token_is_name(b->raw[i + 1].kind);
}

// However long a segment is, a slip is judged by what is near.
static uint32_t look_ahead_end(const Blocks *b, uint32_t i) {
    return b->segment_end - i > LOOK_AHEAD ? i + LOOK_AHEAD : b->segment_end;
}

// Slips near token i and after it, if the brackets in `stack` are open there.
static uint32_t count_slips(const Blocks *b, uint32_t i, int *stack, uint32_t depth) {
    uint32_t slips = 0, end = look_ahead_end(b, i);
    for (; i < end; i++) {
        int kind = b->raw[i].kind;
        if (is_opener(kind)) {
            slips += depth && stack[depth - 1] == TOK_LBRACKET && !opens_in_position(b, i);
            if (depth < STACK)
                stack[depth++] = kind;
        } else if (is_closer(kind)) {
            if (depth && closer_of(stack[depth - 1]) == kind)
                depth--;
            else
                slips++;
        } else if (depth && (kind == TOK_RETURN || token_is_loop(kind))) {
            slips++;
        }
    }
    return slips + depth;
}

// Has every bracket up to the end of the segment its partner, and no statement inside?
static bool all_match(const Blocks *b, uint32_t i) {
    int stack[STACK];
    uint32_t depth = 0;
    for (; i < b->segment_end; i++) {
        int kind = b->raw[i].kind;
        bool closes = is_closer(kind);
        if (depth && (kind == TOK_RETURN || token_is_loop(kind)))
            return false;
        if (closes && (!depth || closer_of(stack[--depth]) != kind))
            return false;
        if (is_opener(kind) && depth == STACK)
            return false;
        if (is_opener(kind))
            stack[depth++] = kind;
    }
    return depth == 0;
}

void brackets_begin_segment(Blocks *b, uint32_t i) {
    b->segment_end = i + 1;
    while (b->segment_end < b->n && !brackets_begins_item(b, b->segment_end))
        b->segment_end++;
    b->suspicious = !all_match(b, i);
}

// Slips from token i on if only the first `keep` of the open brackets are open there.
static uint32_t slips_if(const Blocks *b, uint32_t i, uint32_t keep) {
    int stack[STACK];
    for (uint32_t k = 0; k < keep; k++)
        stack[k] = b->open.at[k].kind;
    return count_slips(b, i, stack, keep);
}

bool brackets_slip_ahead(const Blocks *b, uint32_t i) {
    return b->suspicious && slips_if(b, i, 0) > 0;
}

// ---- reports

bool brackets_row_is_told(const Blocks *b, const Token *first) {
    bool told = first->kind == TOK_YYerror;
    for (const Token *next = first + 1; next < b->raw + b->n && !next->first; next++)
        told |= next->kind == TOK_YYerror;
    return told;
}

void brackets_begin_row(Blocks *b, uint32_t i) {
    b->row_start = b->out.count;
    b->row_told = brackets_row_is_told(b, &b->raw[i]);
    b->quiet |= b->row_told;
}

static void mark_quiet(Blocks *b, uint32_t from) {
    for (uint32_t i = from; i < b->out.count; i++)
        b->out.at[i].quiet = true;
    b->quiet = true;
}

// One wrong bracket makes its neighbours look wrong: a row of text gets one report, and what the
// grammar would say of the row is held back.
static Diag *report(Blocks *b, Span at, const char *message) {
    bool told = b->row_told || (b->told && b->out.count == b->line_start);
    Diags *untold = told ? b->parser->untold : NULL;
    if (!told)
        mark_quiet(b, b->row_start);
    b->row_told = true;
    return untold ? diag_error(untold, at, "%s", message)
                  : syntax_error(b->parser, at, "%s", message);
}

static Diag *report_bracket(Blocks *b, Span at, const char *what, int kind) {
    return report(b, at, arena_printf(b->parser->scratch, what, bracket_text(kind)));
}

static Diag *report_unclosed(Blocks *b, const Open *open) {
    const Token *token = &b->out.at[open->at];
    if (!token->quiet)
        b->row_told = false; // it is of another row
    Diag *diag = report_bracket(b, token->span, "'%s' is never closed", open->kind);
    mark_quiet(b, open->at);
    return diag;
}

// ---- brackets that are not closed

bool brackets_end_before(const Blocks *b, uint32_t i) {
    if (!b->suspicious)
        return false;
    const Token *token = &b->raw[i];
    const Token *line = &b->out.at[b->line_start];
    bool in_def = token_is_def(line->kind), has_dims;
    if (token->kind == TOK_RETURN || token_is_loop(token->kind))
        return true;
    if (token->kind == TOK_PARAM)
        return !in_def;
    if (!blocks_is_assignment(b, i, &has_dims))
        return false;
    return has_dims || in_def || token->indent <= line->indent;
}

void brackets_close_all(Blocks *b, const Token *before) {
    if (b->open.count == 0)
        return;
    Text missing = {.arena = b->parser->scratch};
    for (uint32_t i = b->open.count; i-- > 0;)
        text_add(&missing, bracket_text(closer_of(b->open.at[i].kind)));
    Diag *diag = report_unclosed(b, &b->open.at[b->open.count - 1]);
    mark_quiet(b, b->open.at[0].at);
    if (before && before->first) {
        diag_note(diag, before->span, "the next statement begins here");
        diag_hint(diag, "add '%s' before it", missing.at);
    } else {
        diag_hint(diag, "add '%s'%s", missing.at, before ? " before ':'" : "");
    }
    while (b->open.count)
        blocks_push_made(b, closer_of(b->open.at[--b->open.count].kind));
}

// Dims end before the last name if it belongs to what cannot be inside them: `[n, d, W[` and
// `[n, d = exp(` have n and d alone.
static uint32_t dims_end(const Blocks *b, uint32_t opener) {
    uint32_t end = b->out.count;
    if (end - 1 > opener && token_is_name(b->out.at[end - 1].kind))
        end--;
    if (end - 1 > opener && !token_is_name(b->out.at[end - 1].kind))
        end--;
    return end;
}

static void close_dims(Blocks *b, uint32_t end) {
    Open open = b->open.at[b->open.count - 1];
    diag_hint(report_unclosed(b, &open), "add ']'");
    blocks_push_made(b, TOK_RBRACKET);
    Token closer = b->out.at[b->out.count - 1];
    closer.span = span_after(b->out.at[end - 1].span);
    for (uint32_t i = b->out.count - 1; i > end; i--)
        b->out.at[i] = b->out.at[i - 1];
    b->out.at[end] = closer;
    for (uint32_t i = end; i < b->out.count; i++)
        if (b->out.at[i].kind == TOK_DIM_COMMA)
            b->out.at[i].kind = TOK_COMMA;
    b->open.count--;
}

static bool can_be_in_dims(int kind) {
    return token_is_name(kind) || kind == TOK_COMMA || kind == TOK_NUMBER || kind == TOK_YYerror ||
           is_closer(kind) || is_arithmetic(kind);
}

// Whether the dims that token i is in are closed, whatever it is that stands in them.
static bool dims_close_ahead(const Blocks *b, uint32_t i) {
    uint32_t end = look_ahead_end(b, i);
    for (; i < end && !b->raw[i].first; i++)
        if (is_opener(b->raw[i].kind) || is_closer(b->raw[i].kind))
            return b->raw[i].kind == TOK_RBRACKET;
    return false;
}

// `def F(X[n, d]:` at the end of a line: the parameter list is over.
static bool ends_header(const Blocks *b, uint32_t i) {
    if (!b->suspicious || !b->open.count || !token_is_def(b->out.at[b->line_start].kind))
        return false;
    if (b->raw[i].kind != TOK_COLON || (i + 1 < b->n && !b->raw[i + 1].first))
        return false;
    Elem elem;
    return i + 1 == b->n || !token_is_name(b->raw[i + 1].kind) ||
           !elem_from_name(b->raw[i + 1].text, &elem);
}

// `def F X[n, d]):` lacks the bracket that opens the parameter list.
void brackets_open_header(Blocks *b, uint32_t i) {
    const Token *line = b->out.count ? &b->out.at[b->line_start] : NULL;
    bool after_name = line && b->out.count == b->line_start + 2 && token_is_def(line->kind) &&
                      token_is_name(line[1].kind);
    if (!after_name || !b->suspicious || b->raw[i].kind == TOK_LPAREN)
        return;
    int stack[STACK] = {TOK_LPAREN};
    if (count_slips(b, i, stack, 1) >= slips_if(b, i, 0))
        return;
    report(b, line[1].span, "a parameter list follows the name of a def");
    blocks_push_made(b, TOK_LPAREN);
    Open open = {.at = b->out.count - 1, .kind = TOK_LPAREN};
    vec_push(b->parser->scratch, &b->open, open);
}

// ---- closing brackets

static void add_unmatched(Blocks *b, const Token *token) {
    report_bracket(b, token->span, "unmatched '%s'", token->kind);
    if (b->out.count > b->line_start)
        return; // the line may be whole without it
    Token lost = *token;
    lost.kind = TOK_YYerror;
    blocks_push(b, lost);
}

static void add_wrong_closer(Blocks *b, const Token *token) {
    Open open = b->open.at[--b->open.count];
    int right = closer_of(open.kind);
    const char *message = arena_printf(b->parser->scratch, "'%s' is closed by '%s'",
                                       bracket_text(open.kind), bracket_text(token->kind));
    Diag *diag = report(b, token->span, message);
    diag_note(diag, b->out.at[open.at].span, "opened here");
    diag_hint(diag, "write '%s'", bracket_text(right));
    Token mended = *token;
    mended.kind = right;
    blocks_push(b, mended);
}

// Closes the brackets down to the one that the token is for.
static void add_missing_closers(Blocks *b, const Token *token, uint32_t match) {
    const Open *open = &b->open.at[b->open.count - 1];
    diag_hint(report_unclosed(b, open), "add '%s' before '%s'", bracket_text(closer_of(open->kind)),
              bracket_text(token->kind));
    while (b->open.count > match)
        blocks_push_made(b, closer_of(b->open.at[--b->open.count].kind));
    b->open.count--;
    blocks_push(b, *token);
}

// `def F(X[n, d]), Y[m, d]):` the parameter list goes on after the bracket that seems to close it.
static bool ends_header_early(const Blocks *b, uint32_t i) {
    bool in_header = token_is_def(b->out.at[b->line_start].kind);
    bool closes = b->suspicious && b->open.count == 1 && in_header;
    if (!closes || i + 1 == b->n || b->raw[i + 1].kind == TOK_COLON)
        return false;
    return slips_if(b, i + 1, 1) < slips_if(b, i + 1, 0);
}

// A closing bracket that does not fit: others are missing before it, it is the wrong one, or it is
// too much, whichever leaves fewer slips after it.
static void add_closer(Blocks *b, uint32_t i) {
    const Token *token = &b->raw[i];
    uint32_t depth = b->open.count, match = depth; // match - 1: innermost that it can close
    while (match && closer_of(b->open.at[match - 1].kind) != token->kind)
        match--;
    if (depth == 0) {
        add_unmatched(b, token);
        return;
    }
    if (match == depth && ends_header_early(b, i)) {
        add_unmatched(b, token);
        return;
    }
    if (match == depth) {
        b->open.count--;
        blocks_push(b, *token);
        return;
    }
    uint32_t missing = match ? slips_if(b, i + 1, match - 1) : UINT32_MAX;
    uint32_t wrong = slips_if(b, i + 1, depth - 1), extra = slips_if(b, i + 1, depth);
    if (missing <= wrong && missing <= extra)
        add_missing_closers(b, token, match);
    else if (wrong <= extra)
        add_wrong_closer(b, token);
    else
        add_unmatched(b, token);
}

// ---- nesting

// Past the partner of the opening bracket i, or to where the brackets end without one.
static uint32_t skip_brackets(const Blocks *b, uint32_t i) {
    uint32_t depth = 0;
    for (; i < b->segment_end; i++) {
        if (b->raw[i].first && brackets_end_before(b, i))
            break;
        if (is_opener(b->raw[i].kind))
            depth++;
        if (is_closer(b->raw[i].kind) && --depth == 0)
            return i;
    }
    return i - 1;
}

static uint32_t add_opener(Blocks *b, uint32_t i) {
    Token token = b->raw[i];
    if (b->suspicious && top_kind(b) == TOK_LBRACKET && !opens_in_position(b, i)) {
        if (slips_if(b, i + 1, b->open.count) < slips_if(b, i, b->open.count - 1)) {
            report_bracket(b, token.span, "unexpected '%s'", token.kind);
            return i;
        }
        close_dims(b, dims_end(b, b->open.at[b->open.count - 1].at));
    }
    if (b->open.count == MAX_BRACKETS) {
        syntax_error(b->parser, token.span, "brackets nested more than %d deep", MAX_BRACKETS);
        token.kind = TOK_YYerror;
        blocks_push(b, token);
        return skip_brackets(b, i);
    }
    Open open = {.at = b->out.count, .kind = token.kind};
    vec_push(b->parser->scratch, &b->open, open);
    blocks_push(b, token);
    return i;
}

static bool ends_operand(int kind) {
    return token_is_name(kind) || kind == TOK_NUMBER || is_closer(kind) || kind == TOK_YYerror;
}

// Operators that wait for what is right of them: the grammar's stack grows with each.
static bool is_tower_too_high(Blocks *b, const Token *token) {
    bool after_operand = b->out.count && ends_operand(b->out.at[b->out.count - 1].kind);
    switch (token->kind) {
    case TOK_NOT:
        b->nots++;
        break;
    case TOK_MINUS:
        b->tower = after_operand && b->tower <= MAX_TOWER ? 0 : b->tower + 1;
        break;
    case TOK_POW:
        b->tower++;
        break;
    case TOK_COMMA:
    case TOK_ASSIGN:
    case TOK_AND:
    case TOK_OR:
        b->tower = b->nots = 0;
        break;
    case TOK_PLUS:
    case TOK_STAR:
    case TOK_SLASH:
    case TOK_FLOORDIV:
    case TOK_PERCENT:
        b->tower = 0;
        break;
    default:
        break;
    }
    return b->tower + b->nots > MAX_TOWER;
}

uint32_t brackets_add(Blocks *b, uint32_t i) {
    Token token = b->raw[i];
    if (is_opener(token.kind))
        return add_opener(b, i);
    if (is_closer(token.kind)) {
        add_closer(b, i);
        return i;
    }
    if (ends_header(b, i)) {
        brackets_close_all(b, &b->raw[i]);
    } else if (b->suspicious && top_kind(b) == TOK_LBRACKET && !can_be_in_dims(token.kind) &&
               !dims_close_ahead(b, i)) {
        close_dims(b, b->out.count);
    }
    if (is_tower_too_high(b, &token)) {
        if (b->tower + b->nots > MAX_TOWER + 1)
            return i;
        syntax_error(b->parser, token.span, "operators nested more than %d deep", MAX_TOWER);
        b->tower++; // told
        token.kind = TOK_YYerror;
    }
    if (token.kind == TOK_COMMA && top_kind(b) == TOK_LBRACKET)
        token.kind = TOK_DIM_COMMA;
    blocks_push(b, token);
    return i;
}
