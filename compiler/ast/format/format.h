// SPDX-License-Identifier: Apache-2.0
// Between the files of the formatter.
//
//     pieces.c   tokens and comments -> lines of pieces: what stood where
//     spacing.c  which pieces touch, and between which a row may end
//     layout.c   a line -> rows: where they begin and end
//     format.c   lines -> text: indentation, empty rows, comments behind rows; and the check of it
//
// A *line* is a statement, an item or the head of a block. Outside of brackets it is one *row* of
// text, inside of them it may go on over several.
#ifndef ATTC_FORMAT_H
#define ATTC_FORMAT_H

#include "ast/read/syntax.h"

enum { FORMAT_WIDTH = 100, FORMAT_INDENT = 4 };

// A comment on a row of its own.
typedef struct {
    const char *at;
    uint32_t length;
    uint32_t depth; // blocks around it, where it is outside of brackets
    bool blank;     // after an empty row
} Comment;
typedef VEC(Comment) CommentList;

// A token, and what stood around it.
typedef struct {
    int kind; // TOK_...
    const char *at;
    uint32_t length;
    bool newline;       // it began a row
    bool blank;         // after an empty row
    CommentList above;  // on the rows before it
    const char *behind; // the comment that ended its row, or NULL
    uint32_t behind_length;
    // spacing_prepare:
    int open;       // the innermost bracket around it, of a closing one its partner; -1: none
    uint32_t depth; // brackets around it
    bool prefix;    // a sign without a left operand
    bool dims;      // it is or stands in brackets that hold dims or an index
} Piece;

typedef struct {
    VEC(Piece) pieces;
    uint32_t depth; // blocks around it
    bool head;      // of a block
} Line;
typedef VEC(Line) LineList;

// ---- pieces.c
typedef struct {
    const Source *source;
    TokenList raw;    // as scanned
    TokenList tokens; // as the grammar takes them
    VEC(Span) comments;
} Reading;
// false after syntax errors. Everything is in the arena.
bool pieces_read(Session *session, uint32_t file, Arena *arena, Reading *out);
// below: the comments after the last line.
LineList pieces_lines(const Reading *reading, Arena *arena, CommentList *below);
// A comment without the blanks at its end.
uint32_t pieces_comment_length(const Source *source, Span comment);

// ---- spacing.c
void spacing_prepare(Line *line);
bool spacing_opens(const Piece *piece);
bool spacing_closes(const Piece *piece);
bool spacing_blank(const Line *line, uint32_t k); // between pieces k - 1 and k of one row
// How well a row ends before piece k: 0 best, -1 not at all.
int spacing_break(const Line *line, uint32_t k);
// Whether it may stay so where it did: operators end rows, but may begin them as well.
bool spacing_may_break(const Line *line, uint32_t k);

// ---- layout.c
typedef struct {
    uint32_t first, end; // pieces
    uint32_t column;     // where it begins
    uint32_t width;      // of its text
    uint32_t inside;     // the column for comments above it
    uint32_t seen; // its end depends on the pieces before this one, and where rows begin there
} Row;
typedef VEC(Row) RowList;
uint32_t layout_width(const char *at, uint32_t length); // columns of a text
// Sets `newline` of the pieces to what it is afterwards.
RowList layout_rows(Arena *arena, Line *line, uint32_t column);

#endif
