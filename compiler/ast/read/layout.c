// SPDX-License-Identifier: Apache-2.0
// Layout: from the scanner's tokens, which know where lines start, to tokens that a grammar can
// read.
//
//     def F(X[n,            DEF F ( X [ n , d ] ) : INDENT
//           d]):
//         return X[n, d]    RETURN X [ n , d ] NEWLINE DEDENT
//
// Inside brackets line starts mean nothing. Outside, a line ends with NEWLINE, or with INDENT if
// it is a `def`, a `for` or ends with a colon, and deeper lines follow; those end with DEDENT.
//
// Ensures: every bracket has its partner, a `def` and a `for` have lines under them. What was not
// so in the text is reported here, precisely, and mended; the mended tokens are `quiet`, so that
// the grammar does not complain of the same mistake again.
#include "ast/read/layout.h"

// ---- output

void layout_push(Layout *l, Token token) {
    token.quiet |= l->quiet;
    vec_push(l->parser->scratch, &l->out, token);
}

static const Token *last(const Layout *l) {
    return &l->out.at[l->out.count - 1];
}

// At the end of the last token that is in the text.
void layout_push_made(Layout *l, int kind) {
    Span span = {.file = l->parser->file};
    if (l->out.count)
        span = span_after(last(l)->span);
    layout_push(l, (Token){.kind = kind, .span = span});
}

static const Level *top(const Layout *l) {
    return &l->levels.at[l->levels.count - 1];
}

// A block begins with the end of the line that it is under.
static void push_level(Layout *l, Level level) {
    vec_push(l->parser->scratch, &l->levels, level);
    if (level.block)
        l->out.at[l->out.count - 1].kind = TOK_INDENT;
}

static void pop_levels(Layout *l, uint32_t keep) {
    while (l->levels.count > keep) {
        if (top(l)->block)
            layout_push_made(l, TOK_DEDENT);
        l->levels.count--;
    }
}

// ---- the line before

static bool line_is_loop_or_def(const Layout *l) {
    int kind = l->out.at[l->line_start].kind;
    return kind == TOK_DEF || kind == TOK_FOR;
}

static bool line_is_header(const Layout *l) {
    return line_is_loop_or_def(l) || last(l)->kind == TOK_COLON;
}

static bool is_operator(int kind) {
    switch (kind) {
    case TOK_PLUS:
    case TOK_MINUS:
    case TOK_STAR:
    case TOK_SLASH:
    case TOK_FLOORDIV:
    case TOK_PERCENT:
    case TOK_POW:
    case TOK_EQ:
    case TOK_NE:
    case TOK_LT:
    case TOK_LE:
    case TOK_GT:
    case TOK_GE:
    case TOK_AND:
    case TOK_OR:
    case TOK_COMMA:
    case TOK_ASSIGN:
    case TOK_ARROW:
    case TOK_TILDE:
        return true;
    default:
        return false;
    }
}

// ---- indentation

static bool has_level(const Layout *l, uint32_t column) {
    for (uint32_t i = 0; i < l->levels.count; i++)
        if (l->levels.at[i].column == column)
            return true;
    return false;
}

// The column that a line starts in. Tabs are reported, once for lines that follow each other, and
// then taken for whatever fits.
static uint32_t line_column(Layout *l, const Token *first, bool header) {
    if (!first->tabbed) {
        l->tabs = false;
        return first->indent;
    }
    if (!l->tabs) {
        Span span = first->span;
        span.end = span.begin;
        while (span.begin > 0 && l->parser->source->text[span.begin - 1] != '\n')
            span.begin--;
        Diag *diag = syntax_error(l->parser, span, "tab in indentation");
        diag_hint(diag, "indent with spaces");
    }
    l->tabs = true;
    uint32_t column = first->indent;
    if (header)
        return column > top(l)->column ? column : top(l)->column + 1;
    return has_level(l, column) ? column : top(l)->column;
}

bool layout_is_name(int kind) {
    return kind == TOK_NAME || kind == TOK_IN || kind == TOK_SHARED || kind == TOK_LIKE ||
           kind == TOK_AS;
}

bool layout_is_assignment(const Layout *l, uint32_t i, bool *has_dims) {
    const Token *raw = l->raw;
    *has_dims = false;
    if (!layout_is_name(raw[i].kind))
        return false;
    i++;
    if (i < l->n && raw[i].kind == TOK_LBRACKET) {
        *has_dims = true;
        i++;
        while (i < l->n && (layout_is_name(raw[i].kind) || raw[i].kind == TOK_COMMA))
            i++;
        if (i == l->n || raw[i++].kind != TOK_RBRACKET)
            return false;
    }
    if (i + 1 < l->n && raw[i].kind == TOK_COLON && layout_is_name(raw[i + 1].kind))
        i += 2;
    return i < l->n && raw[i].kind == TOK_ASSIGN;
}

static bool starts_statement(const Layout *l, uint32_t i) {
    bool has_dims;
    int kind = l->raw[i].kind;
    return kind == TOK_RETURN || kind == TOK_FOR || layout_is_assignment(l, i, &has_dims);
}

// Whether a statement or an item may begin with such a token.
static bool can_start_line(int kind) {
    return layout_is_name(kind) || kind == TOK_PARAM || kind == TOK_RETURN || kind == TOK_FOR ||
           kind == TOK_DEF || kind == TOK_DIM || kind == TOK_IMPORT;
}

// Whether one does begin at token i.
static bool starts_line(const Layout *l, uint32_t i) {
    int kind = l->raw[i].kind;
    return layout_is_name(kind) ? starts_statement(l, i) : can_start_line(kind);
}

// A line that can only be the rest of the one before it: reported, and joined to it.
static bool line_joins(Layout *l, uint32_t i, uint32_t column) {
    bool is_colon = l->raw[i].kind == TOK_COLON && last(l)->kind != TOK_COLON;
    if (line_is_header(l) && !is_colon)
        return false;
    int kind = l->raw[i].kind;
    bool lost = last(l)->kind == TOK_YYerror && column > top(l)->column;
    bool goes_on = is_operator(last(l)->kind) && (column > top(l)->column || !starts_line(l, i));
    bool carries_on =
        !can_start_line(kind) && kind != TOK_YYerror && kind != TOK_RPAREN && kind != TOK_RBRACKET;
    if (!lost && !goes_on && !carries_on)
        return false;
    bool unmatched_ahead = brackets_slip_ahead(l, i); // which says more
    if (!lost && !l->quiet && !unmatched_ahead) {
        int head = l->out.at[l->line_start].kind;
        bool is_list = head == TOK_DIM || head == TOK_PARAM;
        Diag *diag = syntax_error(l->parser, l->raw[i].span, "this line carries on the one before");
        if (is_colon)
            diag_hint(diag, "write the ':' at the end of that line");
        else if (is_list)
            diag_hint(diag, "begin it with '%s' again", l->out.at[l->line_start].text);
        else
            diag_hint(diag, "put an expression over several lines in parentheses");
    }
    l->quiet = true;
    return true;
}

// An odd column is told of once for lines that follow each other.
static void report_column(Layout *l, const Token *first, uint32_t column, uint32_t right,
                          const char *message) {
    if (!(l->odd && l->odd_column == column) && !l->tabs) {
        Diag *diag = syntax_error(l->parser, first->span, "%s", message);
        diag_hint(diag, "the lines of this block begin in column %u", right + 1);
        l->told = true;
    }
    l->odd_column = column;
    l->now_odd = true;
}

// Keeps the levels that a line no deeper than the last one belongs to.
static void dedent(Layout *l, uint32_t i, uint32_t column, bool after_return) {
    const Token *first = &l->raw[i];
    uint32_t k = l->levels.count - 1; // deepest level that is not right of the column
    while (k > 0 && l->levels.at[k].column > column)
        k--;
    uint32_t here = l->levels.at[k].column;
    if (here == column) {
        if (k > 0 && l->levels.at[k].borrowed && first->kind == TOK_RETURN)
            k--;
        bool stray = k == 0 && l->levels.count > 1 && l->levels.at[1].block && !after_return;
        if (stray && starts_statement(l, i)) {
            k = 1;
            report_column(l, first, column, l->levels.at[1].column, "statement is not indented");
        }
    } else {
        uint32_t deeper = l->levels.at[k + 1].column;
        if (k == 0 || deeper - column <= column - here)
            k++;
        report_column(l, first, column, l->levels.at[k].column,
                      "indentation does not match any block");
    }
    pop_levels(l, k + 1);
}

// Gives a header without lines under it one that is lost already.
static void push_lost_block(Layout *l) {
    bool was = l->quiet;
    l->out.at[l->out.count - 1].kind = TOK_INDENT;
    l->quiet = true;
    layout_push_made(l, TOK_YYerror);
    layout_push_made(l, TOK_NEWLINE);
    layout_push_made(l, TOK_DEDENT);
    l->quiet = was;
}

// `def F(X): return X` on one line, which the grammar reports.
static bool has_body_on_line(const Layout *l) {
    uint32_t depth = 0;
    for (uint32_t i = l->line_start; i + 2 < l->out.count; i++) {
        int kind = l->out.at[i].kind;
        depth += kind == TOK_LPAREN || kind == TOK_LBRACKET;
        depth -= kind == TOK_RPAREN || kind == TOK_RBRACKET;
        if (kind == TOK_COLON && depth == 0)
            return true;
    }
    return false;
}

static void report_missing_body(Layout *l) {
    const Token *head = &l->out.at[l->line_start];
    const Token *name = head + 1;
    if (!has_body_on_line(l)) {
        bool named = head->kind == TOK_DEF && layout_is_name(name->kind);
        if (named)
            syntax_error(l->parser, name->span, "def '%s' has no body", name->text);
        else
            syntax_error(l->parser, head->span, "this block has no lines");
        l->out.at[l->out.count - 1].quiet = true; // the line end, if a colon is missing as well
    }
    push_lost_block(l);
}

// The lines under a header. True if the line is one of them.
static bool begin_block(Layout *l, const Token *first, uint32_t column, bool is_item) {
    uint32_t outer = top(l)->column;
    bool inside = column > outer && !is_item;
    bool borrowed = column == outer && !is_item && line_is_loop_or_def(l);
    if (!inside && !borrowed) {
        if (line_is_loop_or_def(l))
            report_missing_body(l);
        return false;
    }
    if (l->levels.count > MAX_BLOCKS) {
        syntax_error(l->parser, first->span, "blocks nested more than %d deep", MAX_BLOCKS);
        push_lost_block(l);
        push_level(l, (Level){.column = column});
        return true;
    }
    if (borrowed) {
        Diag *diag = syntax_error(l->parser, first->span, "expected an indented block");
        diag_note(diag, l->out.at[l->line_start].span, "under this line");
        diag_hint(diag, "indent the lines of the body");
    }
    bool is_loop = l->out.at[l->line_start].kind == TOK_FOR;
    push_level(l, (Level){.column = column,
                          .block = true,
                          .borrowed = borrowed && is_loop,
                          .tabbed = first->tabbed});
    return true;
}

static void place_line(Layout *l, uint32_t i, uint32_t column, bool header, bool after_return) {
    const Token *first = &l->raw[i];
    uint32_t base = l->levels.at[0].column;
    if (column < base)
        base = l->levels.at[0].column = column; // the first line was too far right
    bool is_item = first->kind == TOK_DEF || first->kind == TOK_IMPORT;
    if (is_item && column != base) {
        if (!l->tabs) {
            const char *word = first->text;
            Diag *diag = syntax_error(l->parser, first->span, "'%s' inside another item", word);
            diag_hint(diag, "begin it in column %u", base + 1);
        }
        column = base;
    }
    is_item |= first->kind == TOK_DIM && column == base;
    if (top(l)->tabbed && !first->tabbed && column > 0 && l->levels.count > 1 &&
        column > l->levels.at[l->levels.count - 2].column)
        l->levels.at[l->levels.count - 1].column = column;
    if (header && begin_block(l, first, column, is_item))
        return;
    if (is_item) {
        pop_levels(l, 1);
    } else if (column > top(l)->column) {
        Diag *diag = syntax_error(l->parser, first->span, "unexpected indentation");
        diag_hint(diag, "the lines of this block begin in column %u", top(l)->column + 1);
        l->told = true;
        push_level(l, (Level){.column = column});
    } else {
        dedent(l, i, column, after_return);
    }
}

// ---- lines

static void begin_first_line(Layout *l, const Token *first) {
    uint32_t column = line_column(l, first, false);
    if (column > 0) {
        Diag *diag = syntax_error(l->parser, first->span, "unexpected indentation");
        diag_hint(diag, "the first line begins in column 1");
        l->quiet = true;
    }
    l->levels.at[0].column = column;
}

static void begin_line(Layout *l, uint32_t i) {
    const Token *first = &l->raw[i];
    if (l->out.count == 0) {
        begin_first_line(l, first);
    } else {
        bool header = line_is_header(l);
        uint32_t column = line_column(l, first, header);
        if (line_joins(l, i, column))
            return;
        layout_push_made(l, TOK_NEWLINE);
        l->quiet = l->told = l->now_odd = false;
        place_line(l, i, column, header, l->out.at[l->line_start].kind == TOK_RETURN);
        l->odd = l->now_odd;
        l->quiet = l->told; // one mistake a line is enough, if it is where the line begins
    }
    l->line_start = l->out.count;
    l->tower = l->nots = 0;
}

static void layout_end(Layout *l) {
    if (l->out.count) {
        bool header = line_is_loop_or_def(l);
        layout_push_made(l, TOK_NEWLINE);
        l->quiet = false;
        if (header)
            report_missing_body(l);
        pop_levels(l, 1);
    }
    layout_push_made(l, TOK_YYEOF);
}

void layout_tokens(Parser *parser) {
    Layout l = {.parser = parser, .raw = parser->tokens.at, .n = parser->tokens.count};
    vec_push(parser->scratch, &l.levels, (Level){0});
    for (uint32_t i = 0; i < l.n; i++) {
        const Token *token = &l.raw[i];
        if (i == 0 || brackets_begins_item(&l, i)) {
            brackets_close_all(&l, token);
            brackets_begin_segment(&l, i);
        } else if (token->first && brackets_end_before(&l, i)) {
            brackets_close_all(&l, token);
        }
        brackets_open_header(&l, i);
        if (token->first && l.open.count == 0)
            begin_line(&l, i);
        if (token->first)
            brackets_begin_row(&l);
        i = brackets_add(&l, i);
    }
    brackets_close_all(&l, NULL);
    layout_end(&l);
    parser->tokens = l.out;
}
