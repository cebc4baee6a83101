// SPDX-License-Identifier: Apache-2.0
// Which pieces of a line touch, and between which a row may end.
//
// Pieces are told apart by what they are made of: words, brackets, and signs, which stand between
// blanks unless something here says otherwise. So a word that is new to the language needs
// nothing here, and a sign only where a row may end at it: how tightly it binds.
#include <ctype.h>

#include "ast/format/format.h"
#include "parse.h"

bool spacing_opens(const Piece *piece) {
    return piece->kind == TOK_LPAREN || piece->kind == TOK_LBRACKET;
}

bool spacing_closes(const Piece *piece) {
    return piece->kind == TOK_RPAREN || piece->kind == TOK_RBRACKET;
}

static bool is_word(const Piece *piece) {
    unsigned char first = (unsigned char)piece->at[0];
    return isalnum(first) || first == '_' || first == '.' || first == '"';
}

// A word that is no name: `return`, `not`, `dim` and others.
static bool is_keyword(const Piece *piece) {
    return is_word(piece) && !token_is_name(piece->kind) && piece->kind != TOK_NUMBER &&
           piece->kind != TOK_STRING;
}

static bool ends_operand(const Piece *piece) {
    return spacing_closes(piece) || (is_word(piece) && !is_keyword(piece));
}

// ---- what is around a piece

void spacing_prepare(Line *line) {
    int open = -1;
    uint32_t depth = 0;
    for (uint32_t k = 0; k < line->pieces.count; k++) {
        Piece *piece = &line->pieces.at[k], *before = k ? piece - 1 : NULL;
        bool after_operand = before && ends_operand(before);
        bool in_dims = open >= 0 && line->pieces.at[open].dims;
        piece->open = open;
        piece->depth = depth;
        piece->dims = in_dims;
        piece->prefix = (piece->kind == TOK_MINUS || piece->kind == TOK_PLUS) && !after_operand;
        if (spacing_opens(piece)) {
            bool after_arrow = before && before->kind == TOK_ARROW;
            piece->dims = piece->kind == TOK_LBRACKET && (after_operand || after_arrow);
            open = (int)k;
            depth++;
        } else if (spacing_closes(piece) && open >= 0) {
            depth--;
            piece->depth = depth;
            open = line->pieces.at[open].open;
        }
    }
}

// ---- blanks

bool spacing_blank(const Line *line, uint32_t k) {
    const Piece *before = &line->pieces.at[k - 1], *piece = &line->pieces.at[k];
    if (spacing_opens(before) || spacing_closes(piece) || before->prefix)
        return false;
    if (piece->kind == TOK_COMMA || piece->kind == TOK_COLON)
        return false;
    if (piece->depth > 0 && (piece->kind == TOK_ASSIGN || before->kind == TOK_ASSIGN))
        return false; // of an argument
    if (spacing_opens(piece))
        return !ends_operand(before);
    return true;
}

// ---- ends of rows

// How tightly a sign binds that rows may end at; -1: they may not.
static int binding(const Piece *piece) {
    switch (piece->kind) {
    case TOK_ARROW:
        return 1;
    case TOK_OR:
        return 2;
    case TOK_AND:
        return 3;
    case TOK_EQ:
    case TOK_NE:
    case TOK_LT:
    case TOK_LE:
    case TOK_GT:
    case TOK_GE:
        return 4;
    case TOK_PLUS:
    case TOK_MINUS:
        return piece->prefix ? -1 : 5;
    case TOK_STAR:
    case TOK_SLASH:
    case TOK_FLOORDIV:
    case TOK_PERCENT:
        return 6;
    default:
        return -1;
    }
}

static bool is_inside(const Piece *piece) {
    return piece->depth > 0 && !piece->dims && !spacing_closes(piece);
}

int spacing_break(const Line *line, uint32_t k) {
    const Piece *before = &line->pieces.at[k - 1], *piece = &line->pieces.at[k];
    if (!is_inside(piece))
        return -1;
    if (before->kind == TOK_COMMA)
        return 0;
    if (piece->kind == TOK_ARROW)
        return binding(piece);
    return before->kind == TOK_ARROW ? -1 : binding(before);
}

bool spacing_may_break(const Line *line, uint32_t k) {
    const Piece *piece = &line->pieces.at[k];
    return spacing_break(line, k) >= 0 || (is_inside(piece) && binding(piece) >= 0);
}
