// SPDX-License-Identifier: Apache-2.0
// Blocks: from the scanner's tokens, which know where lines start, to tokens that a grammar can
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
#include "ast/read/blocks.h"

// ---- levels of indentation

static const Token *last(const Blocks *b) {
    return &b->out.at[b->out.count - 1];
}

static const Indent *top(const Blocks *b) {
    return &b->levels.at[b->levels.count - 1];
}

// A block begins with the end of the line that it is under.
static void push_level(Blocks *b, Indent level) {
    vec_push(b->parser->scratch, &b->levels, level);
    if (level.block)
        b->out.at[b->out.count - 1].kind = TOK_INDENT;
}

static void pop_levels(Blocks *b, uint32_t keep) {
    while (b->levels.count > keep) {
        if (top(b)->block)
            blocks_push_made(b, TOK_DEDENT);
        b->levels.count--;
    }
}

// ---- the line before

static bool line_is_loop_or_def(const Blocks *b) {
    int kind = b->out.at[b->line_start].kind;
    return token_is_def(kind) || token_is_loop(kind);
}

static bool line_is_header(const Blocks *b) {
    return line_is_loop_or_def(b) || last(b)->kind == TOK_COLON;
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

static bool has_level(const Blocks *b, uint32_t column) {
    for (uint32_t i = 0; i < b->levels.count; i++)
        if (b->levels.at[i].column == column)
            return true;
    return false;
}

// The column that a line starts in. Tabs are reported, once for lines that follow each other, and
// then taken for whatever fits.
static uint32_t line_column(Blocks *b, const Token *first, bool header) {
    if (!first->tabbed) {
        b->tabs = false;
        return first->indent;
    }
    if (!b->tabs) {
        Span span = first->span;
        span.end = span.begin;
        while (span.begin > 0 && b->parser->source->text[span.begin - 1] != '\n')
            span.begin--;
        Diag *diag = layout_error(b->parser, span, "tab in indentation");
        diag_hint(diag, "indent with spaces");
    }
    b->tabs = true;
    uint32_t column = first->indent;
    if (header)
        return column > top(b)->column ? column : top(b)->column + 1;
    return has_level(b, column) ? column : top(b)->column;
}

static bool starts_statement(const Blocks *b, uint32_t i) {
    bool has_dims;
    int kind = b->raw[i].kind;
    return kind == TOK_RETURN || token_is_loop(kind) || blocks_is_assignment(b, i, &has_dims);
}

// Whether a statement or an item may begin with such a token.
static bool can_start_line(int kind) {
    return token_is_name(kind) || kind == TOK_PARAM || kind == TOK_RETURN || token_is_loop(kind) ||
           token_is_def(kind) || kind == TOK_DIM || kind == TOK_IMPORT;
}

// Whether one does begin at token i.
static bool starts_line(const Blocks *b, uint32_t i) {
    int kind = b->raw[i].kind;
    return token_is_name(kind) ? starts_statement(b, i) : can_start_line(kind);
}

// `(A, B) = ...`, of another language.
static bool starts_unpacking(const Blocks *b, uint32_t i) {
    int depth = 0;
    bool several = false;
    do {
        int kind = b->raw[i++].kind;
        several |= depth == 1 && kind == TOK_COMMA;
        depth += kind == TOK_LPAREN || kind == TOK_LBRACKET;
        depth -= kind == TOK_RPAREN || kind == TOK_RBRACKET;
    } while (depth > 0 && i < b->n && !b->raw[i].first);
    return several && i < b->n && b->raw[i].kind == TOK_ASSIGN;
}

// A line that can only be the rest of the one before it: reported, and joined to it.
static bool line_joins(Blocks *b, uint32_t i, uint32_t column) {
    bool is_colon = b->raw[i].kind == TOK_COLON && last(b)->kind != TOK_COLON;
    if (line_is_header(b) && !is_colon)
        return false;
    int kind = b->raw[i].kind;
    bool lost = last(b)->kind == TOK_YYerror && column > top(b)->column;
    bool goes_on = is_operator(last(b)->kind) && (column > top(b)->column || !starts_line(b, i));
    bool carries_on = !can_start_line(kind) && kind != TOK_YYerror && kind != TOK_RPAREN &&
                      kind != TOK_RBRACKET && kind != TOK_AT && !starts_unpacking(b, i);
    if (!lost && !goes_on && !carries_on)
        return false;
    bool unmatched_ahead = brackets_slip_ahead(b, i); // which says more
    if (!lost && !b->quiet && !unmatched_ahead) {
        int head = b->out.at[b->line_start].kind;
        bool is_list = head == TOK_DIM || head == TOK_PARAM;
        Diag *diag = layout_error(b->parser, b->raw[i].span, "this line carries on the one before");
        bool comment =
            kind == TOK_FLOORDIV || (kind == TOK_SLASH && b->raw[i + 1].kind == TOK_STAR);
        if (is_colon)
            diag_hint(diag, "write the ':' at the end of that line");
        else if (comment && column <= top(b)->column)
            diag_hint(diag, "comments begin with '#'");
        else if (is_list)
            diag_hint(diag, "begin it with '%s' again", b->out.at[b->line_start].text);
        else
            diag_hint(diag, "put an expression over several lines in parentheses");
    }
    b->quiet = true;
    return true;
}

// Of a line with what is no token enough was told.
static Diag *report_layout(Blocks *b, const Token *first, const char *message) {
    if (brackets_row_is_told(b, first))
        return diag_error(b->parser->untold, first->span, "%s", message);
    return layout_error(b->parser, first->span, "%s", message);
}

// An odd column is told of once for lines that follow each other.
static void report_column(Blocks *b, const Token *first, uint32_t column, uint32_t right,
                          const char *message) {
    if (!(b->odd && b->odd_column == column) && !b->tabs) {
        Diag *diag = report_layout(b, first, message);
        diag_hint(diag, "the lines of this block begin in column %u", right + 1);
        b->told = true;
    }
    b->odd_column = column;
    b->now_odd = true;
}

// Keeps the levels that a line no deeper than the last one belongs to.
static void dedent(Blocks *b, uint32_t i, uint32_t column, bool after_return) {
    const Token *first = &b->raw[i];
    uint32_t k = b->levels.count - 1; // deepest level that is not right of the column
    while (k > 0 && b->levels.at[k].column > column)
        k--;
    uint32_t here = b->levels.at[k].column;
    if (here == column) {
        if (k > 0 && b->levels.at[k].borrowed && first->kind == TOK_RETURN)
            k--;
        bool stray = k == 0 && b->levels.count > 1 && b->levels.at[1].block && !after_return;
        if (stray && starts_statement(b, i)) {
            k = 1;
            report_column(b, first, column, b->levels.at[1].column, "statement is not indented");
        }
    } else {
        uint32_t deeper = b->levels.at[k + 1].column;
        if (k == 0 || deeper - column <= column - here)
            k++;
        report_column(b, first, column, b->levels.at[k].column,
                      "indentation does not match any block");
    }
    pop_levels(b, k + 1);
}

// Gives a header without lines under it one that is lost already.
static void push_lost_block(Blocks *b) {
    bool was = b->quiet;
    b->out.at[b->out.count - 1].kind = TOK_INDENT;
    b->quiet = true;
    blocks_push_made(b, TOK_YYerror);
    blocks_push_made(b, TOK_NEWLINE);
    blocks_push_made(b, TOK_DEDENT);
    b->quiet = was;
}

// `def F(X): return X` on one line, which the grammar reports.
static bool has_body_on_line(const Blocks *b) {
    uint32_t depth = 0;
    for (uint32_t i = b->line_start; i + 2 < b->out.count; i++) {
        int kind = b->out.at[i].kind;
        depth += kind == TOK_LPAREN || kind == TOK_LBRACKET;
        depth -= kind == TOK_RPAREN || kind == TOK_RBRACKET;
        if (kind == TOK_COLON && depth == 0)
            return true;
    }
    return false;
}

static void report_missing_body(Blocks *b) {
    const Token *head = &b->out.at[b->line_start];
    const Token *name = head + 1;
    if (!has_body_on_line(b)) {
        bool named = token_is_def(head->kind) && token_is_name(name->kind);
        if (named)
            syntax_error(b->parser, name->span, "%s '%s' has no body", head->text, name->text);
        else
            syntax_error(b->parser, head->span, "this block has no lines");
        b->out.at[b->out.count - 1].quiet = true; // the line end, if a colon is missing as well
    }
    push_lost_block(b);
}

// The lines under a header. True if the line is one of them.
static bool begin_block(Blocks *b, const Token *first, uint32_t column, bool is_item) {
    uint32_t outer = top(b)->column;
    bool inside = column > outer && !is_item;
    bool borrowed = column == outer && !is_item && line_is_loop_or_def(b);
    if (!inside && !borrowed) {
        if (line_is_loop_or_def(b))
            report_missing_body(b);
        return false;
    }
    if (b->levels.count > MAX_BLOCKS) {
        syntax_error(b->parser, first->span, "blocks nested more than %d deep", MAX_BLOCKS);
        push_lost_block(b);
        push_level(b, (Indent){.column = column});
        return true;
    }
    if (borrowed) {
        Diag *diag = layout_error(b->parser, first->span, "expected an indented block");
        diag_note(diag, b->out.at[b->line_start].span, "under this line");
        diag_hint(diag, "indent the lines of the body");
    }
    bool is_loop = token_is_loop(b->out.at[b->line_start].kind);
    push_level(b, (Indent){.column = column,
                           .block = true,
                           .borrowed = borrowed && is_loop,
                           .tabbed = first->tabbed});
    return true;
}

static void place_line(Blocks *b, uint32_t i, uint32_t column, bool header, bool after_return) {
    const Token *first = &b->raw[i];
    uint32_t base = b->levels.at[0].column;
    if (column < base)
        base = b->levels.at[0].column = column; // the first line was too far right
    bool is_item = token_is_def(first->kind) || first->kind == TOK_IMPORT;
    if (is_item && column != base) {
        if (!b->tabs) {
            const char *word = first->text;
            Diag *diag = layout_error(b->parser, first->span, "'%s' inside another item", word);
            diag_hint(diag, "begin it in column %u", base + 1);
        }
        column = base;
    }
    is_item |= first->kind == TOK_DIM && column == base;
    if (top(b)->tabbed && !first->tabbed && column > 0 && b->levels.count > 1 &&
        column > b->levels.at[b->levels.count - 2].column)
        b->levels.at[b->levels.count - 1].column = column;
    if (header && begin_block(b, first, column, is_item))
        return;
    if (is_item) {
        pop_levels(b, 1);
    } else if (column > top(b)->column) {
        Diag *diag = report_layout(b, first, "unexpected indentation");
        diag_hint(diag, "the lines of this block begin in column %u", top(b)->column + 1);
        b->told = true;
        push_level(b, (Indent){.column = column});
    } else {
        dedent(b, i, column, after_return);
    }
}

// ---- lines

static void begin_first_line(Blocks *b, const Token *first) {
    uint32_t column = line_column(b, first, false);
    if (column > 0) {
        Diag *diag = report_layout(b, first, "unexpected indentation");
        diag_hint(diag, "the first line begins in column 1");
        b->quiet = true;
    }
    b->levels.at[0].column = column;
}

static void begin_line(Blocks *b, uint32_t i) {
    const Token *first = &b->raw[i];
    if (b->out.count == 0) {
        begin_first_line(b, first);
    } else {
        bool header = line_is_header(b);
        uint32_t column = line_column(b, first, header);
        if (line_joins(b, i, column))
            return;
        blocks_push_made(b, TOK_NEWLINE);
        b->quiet = b->told = b->now_odd = false;
        place_line(b, i, column, header, b->out.at[b->line_start].kind == TOK_RETURN);
        b->odd = b->now_odd;
        b->quiet = b->told; // one mistake a line is enough, if it is where the line begins
    }
    b->line_start = b->out.count;
    b->tower = b->nots = 0;
}

static void blocks_end(Blocks *b) {
    if (b->out.count) {
        bool header = line_is_loop_or_def(b);
        blocks_push_made(b, TOK_NEWLINE);
        b->quiet = false;
        if (header)
            report_missing_body(b);
        pop_levels(b, 1);
    }
    blocks_push_made(b, TOK_YYEOF);
}

void blocks_tokens(Parser *parser) {
    optimizers_tokens(parser);
    foreign_tokens(parser);
    regroup_tokens(parser);
    Blocks b = {.parser = parser, .raw = parser->tokens.at, .n = parser->tokens.count};
    vec_push(parser->scratch, &b.levels, (Indent){0});
    for (uint32_t i = 0; i < b.n; i++) {
        const Token *token = &b.raw[i];
        if (i == 0 || brackets_begins_item(&b, i)) {
            brackets_close_all(&b, token);
            brackets_begin_segment(&b, i);
        } else if (token->first && brackets_end_before(&b, i)) {
            brackets_close_all(&b, token);
        }
        brackets_open_header(&b, i);
        if (token->first && b.open.count == 0)
            begin_line(&b, i);
        if (token->first)
            brackets_begin_row(&b, i);
        i = brackets_add(&b, i);
    }
    brackets_close_all(&b, NULL);
    blocks_end(&b);
    parser->tokens = b.out;
}
