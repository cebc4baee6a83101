// SPDX-License-Identifier: Apache-2.0
// Brackets: finds the one that is missing, wrong or too much, and mends it.
//
// Most files have matching brackets and pass through untouched. Where a segment (what lies between
// the starts of two items) does not match, each line in it that can only be a new statement ends
// the brackets before it, and a wrong closing bracket is taken for the slip that leaves fewer
// others.
#include "ast/read/layout.h"

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

static int top_kind(const Layout *l) {
    return l->open.count ? l->open.at[l->open.count - 1].kind : 0;
}

// ---- segments

bool brackets_begins_item(const Layout *l, uint32_t i) {
    const Token *token = &l->raw[i];
    if (!token->first)
        return false;
    if (token->kind == TOK_DEF || token->kind == TOK_IMPORT)
        return true;
    return token->kind == TOK_DIM && i + 1 < l->n && layout_is_name(l->raw[i + 1].kind);
}

// Slips left from token i on, if the brackets in `stack` are open there.
static uint32_t count_slips(const Layout *l, uint32_t i, uint32_t end, int *stack, uint32_t depth) {
    uint32_t slips = 0;
    for (; i < end; i++) {
        int kind = l->raw[i].kind;
        if (is_opener(kind)) {
            slips += depth && stack[depth - 1] == TOK_LBRACKET; // nothing nests in dims
            if (depth < STACK)
                stack[depth++] = kind;
        } else if (is_closer(kind)) {
            if (depth && closer_of(stack[depth - 1]) == kind)
                depth--;
            else
                slips++;
        } else if (depth && (kind == TOK_RETURN || kind == TOK_FOR)) {
            slips++;
        }
    }
    return slips + depth;
}

void brackets_begin_segment(Layout *l, uint32_t i) {
    int stack[STACK];
    l->segment_end = i + 1;
    while (l->segment_end < l->n && !brackets_begins_item(l, l->segment_end))
        l->segment_end++;
    l->suspicious = count_slips(l, i, l->segment_end, stack, 0) > 0;
}

// However long a segment is, a slip is judged by what is near.
static uint32_t look_ahead_end(const Layout *l, uint32_t i) {
    return l->segment_end - i > LOOK_AHEAD ? i + LOOK_AHEAD : l->segment_end;
}

// Slips from token i on if only the first `keep` of the open brackets are open there.
static uint32_t slips_if(const Layout *l, uint32_t i, uint32_t keep) {
    int stack[STACK];
    for (uint32_t k = 0; k < keep; k++)
        stack[k] = l->open.at[k].kind;
    return count_slips(l, i, look_ahead_end(l, i), stack, keep);
}

bool brackets_slip_ahead(const Layout *l, uint32_t i) {
    return l->suspicious && slips_if(l, i, 0) > 0;
}

// ---- reports

void brackets_begin_row(Layout *l) {
    l->row_start = l->out.count;
    l->row_told = false;
}

static void mark_quiet(Layout *l, uint32_t from) {
    for (uint32_t i = from; i < l->out.count; i++)
        l->out.at[i].quiet = true;
    l->quiet = true;
}

// One wrong bracket makes its neighbours look wrong: a row of text gets one report, and what the
// grammar would say of the row is held back.
static Diag *report(Layout *l, Span at, const char *message) {
    Diags *untold = l->row_told ? l->parser->untold : NULL;
    if (!l->row_told)
        mark_quiet(l, l->row_start);
    l->row_told = true;
    return untold ? diag_error(untold, at, "%s", message)
                  : syntax_error(l->parser, at, "%s", message);
}

static Diag *report_bracket(Layout *l, Span at, const char *what, int kind) {
    return report(l, at, arena_printf(l->parser->scratch, what, bracket_text(kind)));
}

static Diag *report_unclosed(Layout *l, const Open *open) {
    const Token *token = &l->out.at[open->at];
    if (!token->quiet)
        l->row_told = false; // it is of another row
    Diag *diag = report_bracket(l, token->span, "'%s' is never closed", open->kind);
    mark_quiet(l, open->at);
    return diag;
}

// ---- brackets that are not closed

bool brackets_end_before(const Layout *l, uint32_t i) {
    if (!l->suspicious)
        return false;
    const Token *token = &l->raw[i];
    const Token *line = &l->out.at[l->line_start];
    bool in_def = line->kind == TOK_DEF, has_dims;
    if (token->kind == TOK_RETURN || token->kind == TOK_FOR)
        return true;
    if (token->kind == TOK_PARAM)
        return !in_def;
    if (!layout_is_assignment(l, i, &has_dims))
        return false;
    return has_dims || in_def || token->indent <= line->indent;
}

void brackets_close_all(Layout *l, const Token *before) {
    if (l->open.count == 0)
        return;
    Text missing = {.arena = l->parser->scratch};
    for (uint32_t i = l->open.count; i-- > 0;)
        text_add(&missing, bracket_text(closer_of(l->open.at[i].kind)));
    Diag *diag = report_unclosed(l, &l->open.at[l->open.count - 1]);
    mark_quiet(l, l->open.at[0].at);
    if (before && before->first) {
        diag_note(diag, before->span, "the next statement begins here");
        diag_hint(diag, "add '%s' before it", missing.at);
    } else {
        diag_hint(diag, "add '%s'%s", missing.at, before ? " before ':'" : "");
    }
    while (l->open.count)
        layout_push_made(l, closer_of(l->open.at[--l->open.count].kind));
}

// Dims end before the last name if it belongs to what cannot be inside them: `[n, d, W[` and
// `[n, d = exp(` have n and d alone.
static uint32_t dims_end(const Layout *l, uint32_t opener) {
    uint32_t end = l->out.count;
    if (end - 1 > opener && layout_is_name(l->out.at[end - 1].kind))
        end--;
    if (end - 1 > opener && !layout_is_name(l->out.at[end - 1].kind))
        end--;
    return end;
}

static void close_dims(Layout *l, uint32_t end) {
    Open open = l->open.at[l->open.count - 1];
    diag_hint(report_unclosed(l, &open), "add ']'");
    layout_push_made(l, TOK_RBRACKET);
    Token closer = l->out.at[l->out.count - 1];
    closer.span = span_after(l->out.at[end - 1].span);
    for (uint32_t i = l->out.count - 1; i > end; i--)
        l->out.at[i] = l->out.at[i - 1];
    l->out.at[end] = closer;
    for (uint32_t i = end; i < l->out.count; i++)
        if (l->out.at[i].kind == TOK_DIM_COMMA)
            l->out.at[i].kind = TOK_COMMA;
    l->open.count--;
}

static bool can_be_in_dims(int kind) {
    return layout_is_name(kind) || kind == TOK_COMMA || kind == TOK_NUMBER || kind == TOK_YYerror ||
           is_closer(kind);
}

// Whether the dims that token i is in are closed, whatever it is that stands in them.
static bool dims_close_ahead(const Layout *l, uint32_t i) {
    uint32_t end = look_ahead_end(l, i);
    for (; i < end && !l->raw[i].first; i++)
        if (is_opener(l->raw[i].kind) || is_closer(l->raw[i].kind))
            return l->raw[i].kind == TOK_RBRACKET;
    return false;
}

// `def F(X[n, d]:` at the end of a line: the parameter list is over.
static bool ends_header(const Layout *l, uint32_t i) {
    if (!l->suspicious || !l->open.count || l->out.at[l->line_start].kind != TOK_DEF)
        return false;
    if (l->raw[i].kind != TOK_COLON || (i + 1 < l->n && !l->raw[i + 1].first))
        return false;
    Elem elem;
    return i + 1 == l->n || !layout_is_name(l->raw[i + 1].kind) ||
           !elem_from_name(l->raw[i + 1].text, &elem);
}

// `def F X[n, d]):` lacks the bracket that opens the parameter list.
void brackets_open_header(Layout *l, uint32_t i) {
    const Token *line = l->out.count ? &l->out.at[l->line_start] : NULL;
    bool after_name = line && l->out.count == l->line_start + 2 && line->kind == TOK_DEF &&
                      layout_is_name(line[1].kind);
    if (!after_name || !l->suspicious || l->raw[i].kind == TOK_LPAREN)
        return;
    int stack[STACK] = {TOK_LPAREN};
    if (count_slips(l, i, l->segment_end, stack, 1) >= slips_if(l, i, 0))
        return;
    report(l, line[1].span, "a parameter list follows the name of a def");
    layout_push_made(l, TOK_LPAREN);
    Open open = {.at = l->out.count - 1, .kind = TOK_LPAREN};
    vec_push(l->parser->scratch, &l->open, open);
}

// ---- closing brackets

static void add_unmatched(Layout *l, const Token *token) {
    report_bracket(l, token->span, "unmatched '%s'", token->kind);
    if (l->out.count > l->line_start)
        return; // the line may be whole without it
    Token lost = *token;
    lost.kind = TOK_YYerror;
    layout_push(l, lost);
}

static void add_wrong_closer(Layout *l, const Token *token) {
    Open open = l->open.at[--l->open.count];
    int right = closer_of(open.kind);
    const char *message = arena_printf(l->parser->scratch, "'%s' is closed by '%s'",
                                       bracket_text(open.kind), bracket_text(token->kind));
    Diag *diag = report(l, token->span, message);
    diag_note(diag, l->out.at[open.at].span, "opened here");
    diag_hint(diag, "write '%s'", bracket_text(right));
    Token mended = *token;
    mended.kind = right;
    layout_push(l, mended);
}

// Closes the brackets down to the one that the token is for.
static void add_missing_closers(Layout *l, const Token *token, uint32_t match) {
    const Open *open = &l->open.at[l->open.count - 1];
    diag_hint(report_unclosed(l, open), "add '%s' before '%s'", bracket_text(closer_of(open->kind)),
              bracket_text(token->kind));
    while (l->open.count > match)
        layout_push_made(l, closer_of(l->open.at[--l->open.count].kind));
    l->open.count--;
    layout_push(l, *token);
}

// `def F(X[n, d]), Y[m, d]):` the parameter list goes on after the bracket that seems to close it.
static bool ends_header_early(const Layout *l, uint32_t i) {
    bool closes = l->suspicious && l->open.count == 1 && l->out.at[l->line_start].kind == TOK_DEF;
    if (!closes || i + 1 == l->n || l->raw[i + 1].kind == TOK_COLON)
        return false;
    return slips_if(l, i + 1, 1) < slips_if(l, i + 1, 0);
}

// A closing bracket that does not fit: others are missing before it, it is the wrong one, or it is
// too much, whichever leaves fewer slips after it.
static void add_closer(Layout *l, uint32_t i) {
    const Token *token = &l->raw[i];
    uint32_t depth = l->open.count, match = depth; // match - 1: innermost that it can close
    while (match && closer_of(l->open.at[match - 1].kind) != token->kind)
        match--;
    if (depth == 0) {
        add_unmatched(l, token);
        return;
    }
    if (match == depth && ends_header_early(l, i)) {
        add_unmatched(l, token);
        return;
    }
    if (match == depth) {
        l->open.count--;
        layout_push(l, *token);
        return;
    }
    uint32_t missing = match ? slips_if(l, i + 1, match - 1) : UINT32_MAX;
    uint32_t wrong = slips_if(l, i + 1, depth - 1), extra = slips_if(l, i + 1, depth);
    if (missing <= wrong && missing <= extra)
        add_missing_closers(l, token, match);
    else if (wrong <= extra)
        add_wrong_closer(l, token);
    else
        add_unmatched(l, token);
}

// ---- nesting

// Past the partner of the opening bracket i, or to where the brackets end without one.
static uint32_t skip_brackets(const Layout *l, uint32_t i) {
    uint32_t depth = 0;
    for (; i < l->segment_end; i++) {
        if (l->raw[i].first && brackets_end_before(l, i))
            break;
        if (is_opener(l->raw[i].kind))
            depth++;
        if (is_closer(l->raw[i].kind) && --depth == 0)
            return i;
    }
    return i - 1;
}

static uint32_t add_opener(Layout *l, uint32_t i) {
    Token token = l->raw[i];
    if (l->suspicious && top_kind(l) == TOK_LBRACKET) {
        if (slips_if(l, i + 1, l->open.count) < slips_if(l, i, l->open.count - 1)) {
            report_bracket(l, token.span, "unexpected '%s'", token.kind);
            return i;
        }
        close_dims(l, dims_end(l, l->open.at[l->open.count - 1].at));
    }
    if (l->open.count == MAX_BRACKETS) {
        syntax_error(l->parser, token.span, "brackets nested more than %d deep", MAX_BRACKETS);
        token.kind = TOK_YYerror;
        layout_push(l, token);
        return skip_brackets(l, i);
    }
    Open open = {.at = l->out.count, .kind = token.kind};
    vec_push(l->parser->scratch, &l->open, open);
    layout_push(l, token);
    return i;
}

static bool ends_operand(int kind) {
    return layout_is_name(kind) || kind == TOK_NUMBER || is_closer(kind) || kind == TOK_YYerror;
}

// Operators that wait for what is right of them: the grammar's stack grows with each.
static bool is_tower_too_high(Layout *l, const Token *token) {
    bool after_operand = l->out.count && ends_operand(l->out.at[l->out.count - 1].kind);
    switch (token->kind) {
    case TOK_NOT:
        l->nots++;
        break;
    case TOK_MINUS:
        l->tower = after_operand && l->tower <= MAX_TOWER ? 0 : l->tower + 1;
        break;
    case TOK_POW:
        l->tower++;
        break;
    case TOK_COMMA:
    case TOK_ASSIGN:
    case TOK_AND:
    case TOK_OR:
        l->tower = l->nots = 0;
        break;
    case TOK_PLUS:
    case TOK_STAR:
    case TOK_SLASH:
    case TOK_FLOORDIV:
    case TOK_PERCENT:
        l->tower = 0;
        break;
    default:
        break;
    }
    return l->tower + l->nots > MAX_TOWER;
}

uint32_t brackets_add(Layout *l, uint32_t i) {
    Token token = l->raw[i];
    if (is_opener(token.kind))
        return add_opener(l, i);
    if (is_closer(token.kind)) {
        add_closer(l, i);
        return i;
    }
    if (ends_header(l, i)) {
        brackets_close_all(l, &l->raw[i]);
    } else if (l->suspicious && top_kind(l) == TOK_LBRACKET && !can_be_in_dims(token.kind) &&
               !dims_close_ahead(l, i)) {
        close_dims(l, l->out.count);
    }
    if (is_tower_too_high(l, &token)) {
        if (l->tower + l->nots > MAX_TOWER + 1)
            return i;
        syntax_error(l->parser, token.span, "operators nested more than %d deep", MAX_TOWER);
        l->tower++; // told
        token.kind = TOK_YYerror;
    }
    if (token.kind == TOK_COMMA && top_kind(l) == TOK_LBRACKET)
        token.kind = TOK_DIM_COMMA;
    layout_push(l, token);
    return i;
}
