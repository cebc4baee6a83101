// SPDX-License-Identifier: Apache-2.0
// From text to lines of pieces.
//
//     def F(X[n],  # queries          line 0, head: def F ( X [ n ] , M [ m ] ) :
//           M[m]):                         the piece `,` has "# queries" behind it
//         # the logits                line 1, depth 1: return X      with "# the logits" above it
//         return X
//
// Lines and blocks are found as blocks.c finds them, only that here nothing is wrong.
#include "ast/format/format.h"
#include "parse.h"

// ---- reading

bool pieces_read(Session *session, uint32_t file, Arena *arena, Reading *out) {
    uint32_t errors = diags_errors(session->diags);
    Parser parser = parser_new(session, program_new(arena), file, arena);
    parser.arena = arena;
    scan_file(&parser);
    *out = (Reading){.source = parser.source, .raw = parser.tokens};
    for (uint32_t i = 0; i < parser.comments.count; i++)
        vec_push(arena, &out->comments, parser.comments.at[i]);
    blocks_tokens(&parser);
    out->tokens = parser.tokens;
    parse_tokens(&parser);
    return diags_errors(session->diags) == errors;
}

// ---- what stands between two tokens

typedef struct {
    const Reading *reading;
    Arena *arena;
    uint32_t comment; // the next one
    LineList lines;
    VEC(uint32_t) columns; // of the blocks that are open, outermost first
} Builder;

typedef struct {
    const char *behind;
    uint32_t behind_length;
    CommentList above;
    VEC(uint32_t) columns; // of those above
    bool newline, blank;   // of the token after it
} Gap;

static uint32_t count_rows(const char *text, uint32_t begin, uint32_t end) {
    uint32_t rows = 0;
    for (uint32_t i = begin; i < end; i++)
        rows += text[i] == '\n';
    return rows;
}

static uint32_t column_of(const char *text, uint32_t at) {
    uint32_t begin = at, column = 0;
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    for (uint32_t i = begin; i < at; i++)
        column = text[i] == '\t' ? (column | 7) + 1 : column + 1;
    return column;
}

uint32_t pieces_comment_length(const Source *source, Span comment) {
    const char *text = source->text + comment.begin;
    uint32_t length = comment.end - comment.begin;
    while (length &&
           (text[length - 1] == ' ' || text[length - 1] == '\t' || text[length - 1] == '\r'))
        length--;
    return length;
}

// From the end of a token to the beginning of the next one or of the text.
static Gap read_gap(Builder *b, uint32_t begin, uint32_t end) {
    const Reading *reading = b->reading;
    const char *text = reading->source->text;
    Gap gap = {0};
    for (; b->comment < reading->comments.count; b->comment++) {
        Span span = reading->comments.at[b->comment];
        if (span.begin >= end)
            break;
        uint32_t rows = count_rows(text, begin, span.begin);
        uint32_t length = pieces_comment_length(reading->source, span);
        begin = span.end;
        if (rows == 0 && b->lines.count) {
            gap.behind = text + span.begin;
            gap.behind_length = length;
            continue;
        }
        vec_push(b->arena, &gap.above, (Comment){text + span.begin, length, 0, rows > 1});
        vec_push(b->arena, &gap.columns, column_of(text, span.begin));
    }
    uint32_t rows = count_rows(text, begin, end);
    gap.newline = rows > 0;
    gap.blank = rows > 1;
    return gap;
}

// ---- lines

// A comment belongs to the deepest block that it is not left of, among those that are open where it
// stands: no deeper than the lines around it, nor less deep than both.
static void place_comments(const Builder *b, Gap *gap, uint32_t before, uint32_t after) {
    uint32_t depth = before > after ? before : after;
    for (uint32_t i = 0; i < gap->above.count; i++) {
        while (depth > after && b->columns.at[depth] > gap->columns.at[i])
            depth--;
        gap->above.at[i].depth = depth;
    }
}

static Line *last_line(Builder *b) {
    return &b->lines.at[b->lines.count - 1];
}

static void end_row(Builder *b, const Gap *gap) {
    if (!b->lines.count)
        return;
    Line *line = last_line(b);
    line->pieces.at[line->pieces.count - 1].behind = gap->behind;
    line->pieces.at[line->pieces.count - 1].behind_length = gap->behind_length;
}

static void begin_line(Builder *b, const Token *first, Gap *gap) {
    uint32_t before = b->lines.count ? last_line(b)->depth : 0, open = b->columns.count;
    while (open && b->columns.at[open - 1] > first->indent)
        open--;
    bool deeper = open == 0 || b->columns.at[open - 1] < first->indent;
    uint32_t depth = deeper ? open : open - 1;
    place_comments(b, gap, before, depth);
    b->columns.count = open;
    if (deeper)
        vec_push(b->arena, &b->columns, first->indent);
    if (depth > before)
        last_line(b)->head = true;
    vec_push(b->arena, &b->lines, (Line){.depth = depth});
}

static void add_piece(Builder *b, const Token *token, const Gap *gap) {
    const char *text = b->reading->source->text;
    vec_push(b->arena, &last_line(b)->pieces,
             (Piece){.kind = token->kind,
                     .at = text + token->span.begin,
                     .length = token->span.end - token->span.begin,
                     .newline = gap->newline,
                     .blank = gap->blank,
                     .above = gap->above});
}

LineList pieces_lines(const Reading *reading, Arena *arena, CommentList *below) {
    Builder b = {.reading = reading, .arena = arena};
    uint32_t end = 0, brackets = 0;
    for (uint32_t i = 0; i < reading->raw.count; i++) {
        const Token *token = &reading->raw.at[i];
        Gap gap = read_gap(&b, end, token->span.begin);
        end_row(&b, &gap);
        if (token->first && brackets == 0)
            begin_line(&b, token, &gap);
        add_piece(&b, token, &gap);
        brackets += token->kind == TOK_LPAREN || token->kind == TOK_LBRACKET;
        brackets -= token->kind == TOK_RPAREN || token->kind == TOK_RBRACKET;
        end = token->span.end;
    }
    Gap gap = read_gap(&b, end, (uint32_t)reading->source->length);
    end_row(&b, &gap);
    place_comments(&b, &gap, b.lines.count ? last_line(&b)->depth : 0, 0);
    *below = gap.above;
    return b.lines;
}
