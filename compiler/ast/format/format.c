// SPDX-License-Identifier: Apache-2.0
// The canonical layout of a source text. Only blanks, line ends and empty rows change: tokens and
// comments stay as they are and where they are.
//
//     def F( X[n,d],M[m ,d] ):  # queries, memory
//        return einsum( X[n,d],
//          M[m,d]->[n,m] )/sqrt( d )
//
//     def F(X[n, d], M[m, d]):  # queries, memory
//         return einsum(X[n, d],
//                       M[m, d] -> [n, m]) / sqrt(d)
//
// Blocks are indented by four, rows go on where they did before (layout.c), one empty row stays
// where there were some and stands around every def, comments behind rows that follow each other
// are aligned. The result is read again and compared with what was there.
#include "ast/format/format.h"

#include <string.h>

// ---- rows of the whole text

typedef struct {
    uint32_t column, width;
    const char *text; // that of comments may have zero bytes in it
    size_t length;
    const char *behind; // a comment, or NULL
    uint32_t behind_length;
    uint32_t group; // rows of one group that follow each other align their comments; 0: none
    bool blank;     // an empty row before it
} OutRow;

typedef struct {
    Arena *arena;
    VEC(OutRow) rows;
    uint32_t groups, depth; // so far; of the line before
} Output;

static void add_row(Output *out, OutRow row) {
    row.blank &= out->rows.count > 0;
    vec_push(out->arena, &out->rows, row);
}

static void add_comment(Output *out, const Comment *comment, uint32_t column, bool blank) {
    add_row(out, (OutRow){.column = column,
                          .width = layout_width(comment->at, comment->length),
                          .text = comment->at,
                          .length = comment->length,
                          .blank = blank});
}

// ---- one line

static Text row_text(Arena *arena, const Line *line, const Row *row) {
    Text text = {.arena = arena};
    for (uint32_t k = row->first; k < row->end; k++) {
        const Piece *piece = &line->pieces.at[k];
        if (k > row->first && spacing_blank(line, k))
            text_add(&text, " ");
        text_addn(&text, piece->at, piece->length);
    }
    return text;
}

// Comments and empty rows inside brackets stay, but for empty rows next to a bracket.
static void add_inner_comments(Output *out, const Line *line, const Row *row) {
    const Piece *first = &line->pieces.at[row->first];
    for (uint32_t i = 0; i < first->above.count; i++) {
        const Comment *comment = &first->above.at[i];
        bool at_bracket = i == 0 && spacing_opens(first - 1);
        add_comment(out, comment, row->inside, comment->blank && !at_bracket);
    }
}

static bool inner_blank(const Line *line, const Row *row) {
    const Piece *first = &line->pieces.at[row->first];
    return first->blank && !spacing_closes(first) &&
           (first->above.count || !spacing_opens(first - 1));
}

// blank: an empty row before the line.
static void add_line(Output *out, Line *line, bool blank) {
    RowList rows = layout_rows(out->arena, line, line->depth * FORMAT_INDENT);
    // Lines of one row align with their like, the rows of others among themselves.
    out->groups += rows.count > 1 || line->head || line->depth != out->depth;
    out->depth = line->depth;
    for (uint32_t i = 0; i < rows.count; i++) {
        const Row *row = &rows.at[i];
        const Piece *last = &line->pieces.at[row->end - 1];
        Text text = row_text(out->arena, line, row);
        if (i > 0)
            add_inner_comments(out, line, row);
        add_row(out, (OutRow){.column = row->column,
                              .width = row->width,
                              .text = text.at,
                              .length = text.length,
                              .behind = last->behind,
                              .behind_length = last->behind_length,
                              .group = out->groups,
                              .blank = i > 0 ? inner_blank(line, row) : blank});
    }
    out->groups += rows.count > 1 || line->head;
}

// ---- lines and the comments between them

typedef struct {
    uint32_t depth; // of the line or comment before
    bool after_head, any;
} Flow;

// What leaves the last def of the file is set off from it.
static bool begins_apart(const Flow *flow, uint32_t depth, bool blank) {
    return !flow->after_head && (blank || (flow->any && depth == 0 && flow->depth > 0));
}

// apart: an empty row before the first.
static void add_comments(Output *out, const CommentList *comments, Flow *flow, bool apart) {
    for (uint32_t i = 0; i < comments->count; i++) {
        const Comment *comment = &comments->at[i];
        bool sets_off = apart && i == 0 && comment->depth == 0;
        bool blank = begins_apart(flow, comment->depth, comment->blank || sets_off);
        add_comment(out, comment, comment->depth * FORMAT_INDENT, blank);
        *flow = (Flow){.depth = comment->depth, .any = true};
    }
}

static bool is_def(const Line *line) {
    return line->head && line->depth == 0;
}

// Whether all comments above a line belong to it: there is no empty row between.
static bool are_attached(const CommentList *comments, const Piece *first) {
    for (uint32_t i = 1; i < comments->count; i++)
        if (comments->at[i].blank)
            return false;
    return !first->blank;
}

static void add_lines(Output *out, LineList *lines, const CommentList *below) {
    Flow flow = {0};
    for (uint32_t i = 0; i < lines->count; i++) {
        Line *line = &lines->at[i];
        const Piece *first = &line->pieces.at[0];
        spacing_prepare(line);
        add_comments(out, &first->above, &flow, is_def(line) && are_attached(&first->above, first));
        bool apart = first->blank || (is_def(line) && !first->above.count);
        add_line(out, line, begins_apart(&flow, line->depth, apart));
        flow = (Flow){line->depth, line->head, true};
    }
    add_comments(out, below, &flow, false);
}

// ---- text

// The column of the comments of a group that begins with row i, 0 where they would not fit.
static uint32_t comment_column(const Output *out, uint32_t i, uint32_t end) {
    uint32_t column = 0, longest = 0;
    for (uint32_t k = i; k < end; k++) {
        const OutRow *row = &out->rows.at[k];
        uint32_t after = row->column + row->width + 2;
        uint32_t width = row->behind ? layout_width(row->behind, row->behind_length) : 0;
        column = row->behind && after > column ? after : column;
        longest = width > longest ? width : longest;
    }
    return column + longest <= FORMAT_WIDTH ? column : 0;
}

static uint32_t group_end(const Output *out, uint32_t i) {
    uint32_t end = i + 1;
    uint32_t group = out->rows.at[i].group;
    while (group && end < out->rows.count && out->rows.at[end].group == group &&
           !out->rows.at[end].blank)
        end++;
    return end;
}

static void write_row(const OutRow *row, uint32_t comments, Text *text) {
    if (row->blank)
        text_add(text, "\n");
    text_printf(text, "%*s", (int)row->column, "");
    text_addn(text, row->text, row->length);
    if (row->behind) {
        uint32_t after = row->column + row->width;
        text_printf(text, "%*s", (int)(comments > after ? comments - after : 2), "");
        text_addn(text, row->behind, row->behind_length);
    }
    text_add(text, "\n");
}

static void write_rows(const Output *out, Text *text) {
    text_add(text, "");
    for (uint32_t i = 0; i < out->rows.count;) {
        uint32_t end = group_end(out, i), comments = comment_column(out, i, end);
        for (; i < end; i++)
            write_row(&out->rows.at[i], comments, text);
    }
}

// ---- the check

static bool same_text(const Reading *a, Span x, const Reading *b, Span y) {
    uint32_t length = x.end - x.begin;
    return y.end - y.begin == length &&
           !memcmp(a->source->text + x.begin, b->source->text + y.begin, length);
}

static bool same_comments(const Reading *a, const Reading *b) {
    if (a->comments.count != b->comments.count)
        return false;
    for (uint32_t i = 0; i < a->comments.count; i++) {
        Span x = a->comments.at[i], y = b->comments.at[i];
        x.end = x.begin + pieces_comment_length(a->source, x);
        y.end = y.begin + pieces_comment_length(b->source, y);
        if (!same_text(a, x, b, y))
            return false;
    }
    return true;
}

// Whether the grammar gets the same of both.
static bool same_tokens(const Reading *a, const Reading *b) {
    if (a->tokens.count != b->tokens.count)
        return false;
    for (uint32_t i = 0; i < a->tokens.count; i++) {
        const Token *x = &a->tokens.at[i], *y = &b->tokens.at[i];
        if (x->kind != y->kind || !same_text(a, x->span, b, y->span))
            return false;
    }
    return true;
}

static void check(const Reading *before, const Text *text, Arena *arena) {
    Session *session = session_new();
    Reading after;
    uint32_t file = sources_add(session->sources, "<formatted>", text->at, text->length);
    if (!pieces_read(session, file, arena, &after) || !same_tokens(before, &after) ||
        !same_comments(before, &after))
        ice("format: the layout of %s changes what it says", before->source->path);
    session_free(session);
}

bool ast_format(Session *session, uint32_t file, Text *out) {
    Arena *arena = arena_new();
    Reading reading;
    CommentList below;
    bool ok = pieces_read(session, file, arena, &reading);
    if (ok) {
        Output rows = {.arena = arena, .groups = 1};
        LineList lines = pieces_lines(&reading, arena, &below);
        add_lines(&rows, &lines, &below);
        write_rows(&rows, out);
        check(&reading, out, arena);
    }
    arena_free(arena);
    return ok;
}
