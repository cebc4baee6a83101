// SPDX-License-Identifier: Apache-2.0
// The machine that makes blocks and matching brackets of what the scanner found: tokens.c has what
// it reads and writes, brackets.c mends brackets, blocks.c knows lines and indentation and drives.
#ifndef ATTC_BLOCKS_H
#define ATTC_BLOCKS_H

#include "ast/read/syntax.h"
#include "parse.h"

typedef struct {
    uint32_t at; // of the opening bracket in the output
    int kind;    // TOK_LPAREN or TOK_LBRACKET
} Open;

typedef struct {
    uint32_t column;
    bool block;    // between INDENT and DEDENT; otherwise lines that are only oddly indented
    bool borrowed; // body of a `for` that is not indented: ends before `return`
    bool tabbed;   // its first line was indented by tabs: the next one says what column was meant
} Indent;

typedef struct {
    Parser *parser;
    const Token *raw; // from the scanner
    uint32_t n;
    TokenList out;
    VEC(Open) open;
    VEC(Indent) levels;   // never empty
    uint32_t line_start;  // first token of the current line in the output
    uint32_t row_start;   // the same of the row of text, which may be one of several
    bool row_told;        // a bracket of the row was reported
    uint32_t segment_end; // next token that begins a def, dim or import
    bool suspicious;      // the brackets up to there do not match
    bool quiet;           // a mistake on this line was reported
    bool told;            // where this line begins was reported
    bool tabs;            // the line before had a tab in its indentation
    bool odd, now_odd;    // the line before, and this one, began in an odd column
    uint32_t odd_column;
    uint32_t tower, nots; // operators that are still open to the right
} Blocks;

// ---- tokens.c
void blocks_push(Blocks *b, Token token);
void blocks_push_made(Blocks *b, int kind); // a token that is not in the text
// name = ..., name[dims] = ..., name[dims]: elem = ...
bool blocks_is_assignment(const Blocks *b, uint32_t i, bool *has_dims);

// ---- brackets.c
// Token i begins a def, a dim or an import, which are never inside brackets.
bool brackets_begins_item(const Blocks *b, uint32_t i);
void brackets_begin_segment(Blocks *b, uint32_t i);
bool brackets_slip_ahead(const Blocks *b, uint32_t i);
void brackets_open_header(Blocks *b, uint32_t i);               // where token i should be '('
bool brackets_row_is_told(const Blocks *b, const Token *first); // by the scanner
void brackets_begin_row(Blocks *b, uint32_t i);
bool brackets_end_before(const Blocks *b, uint32_t i); // though brackets are open
void brackets_close_all(Blocks *b, const Token *before);
// Adds token i, which may be a bracket; returns the last token that it took.
uint32_t brackets_add(Blocks *b, uint32_t i);

#endif
