// SPDX-License-Identifier: Apache-2.0
// From a line to rows.
//
// Rows end inside brackets where they ended before, if that is a place where rows may end, and
// where they would be too wide. What follows a bracket decides how its rows are indented:
//
//     L[n, m] = einsum(X[n, d], P_q[d, k],          under what follows the bracket
//                      M[m, d], P_k[d, k])
//     Y[n] = where(                                 four columns right of the row with the bracket,
//         index(n) < length,                        if a row ends behind it; eight where a block
//         X[n], 0)                                  follows, to stay clear of that
#include "ast/format/format.h"
#include "parse.h"

typedef struct {
    Arena *arena;
    const Line *line;
    uint32_t n;      // pieces
    uint32_t column; // of the line
    bool *breaks;    // by piece: a row begins with it
    // By piece, of opening brackets that are placed:
    uint32_t *bracket_column, *row_column;
    RowList rows;
} Layout;

uint32_t layout_width(const char *at, uint32_t length) {
    uint32_t width = 0;
    for (uint32_t i = 0; i < length; i++)
        width += ((unsigned char)at[i] & 0xC0) != 0x80; // a character of UTF-8
    return width;
}

static const Piece *piece_at(const Layout *layout, uint32_t k) {
    return &layout->line->pieces.at[k];
}

// ---- where rows ended

static bool must_break(const Layout *layout, uint32_t k) {
    return piece_at(layout, k - 1)->behind || piece_at(layout, k)->above.count;
}

// Where a row that began with piece k may begin: there, or behind a comma. 0: nowhere.
static uint32_t kept_break(const Layout *layout, uint32_t k) {
    const Line *line = layout->line;
    const Piece *before = piece_at(layout, k - 1), *piece = piece_at(layout, k);
    if (spacing_closes(piece))
        return 0;
    if (spacing_opens(before))
        return before->dims ? 0 : k;
    if (spacing_may_break(line, k))
        return k;
    bool comma = k + 1 < layout->n && piece->kind == TOK_COMMA;
    return comma && spacing_may_break(line, k + 1) ? k + 1 : 0;
}

static void keep_breaks(Layout *layout) {
    for (uint32_t k = 1; k < layout->n; k++) {
        const Piece *piece = piece_at(layout, k);
        uint32_t kept = piece->newline ? kept_break(layout, k) : 0;
        if (kept)
            layout->breaks[kept] = true;
        if (must_break(layout, k))
            layout->breaks[k] = true;
    }
    for (uint32_t k = 1; k < layout->n; k++) {
        const Piece *piece = piece_at(layout, k);
        if (spacing_closes(piece) && piece->newline && piece->open + 1 < (int)k)
            layout->breaks[k] |= layout->breaks[piece->open + 1];
    }
}

// ---- columns

// The column of rows inside a bracket that is placed.
static uint32_t inside_column(const Layout *layout, int open) {
    if (open < 0)
        return layout->column;
    if (!layout->breaks[open + 1])
        return layout->bracket_column[open] + 1;
    bool before_block = layout->line->head && piece_at(layout, (uint32_t)open)->depth == 0;
    return layout->row_column[open] + (before_block ? 2 : 1) * FORMAT_INDENT;
}

static uint32_t row_column(const Layout *layout, uint32_t k) {
    const Piece *piece = piece_at(layout, k);
    if (!spacing_closes(piece) || piece->open < 0)
        return inside_column(layout, piece->open);
    bool hangs = layout->breaks[piece->open + 1];
    return hangs ? layout->row_column[piece->open] : layout->bracket_column[piece->open];
}

static uint32_t piece_width(const Layout *layout, uint32_t first, uint32_t k) {
    const Piece *piece = piece_at(layout, k);
    return layout_width(piece->at, piece->length) + (k > first && spacing_blank(layout->line, k));
}

static uint32_t row_width(const Layout *layout, uint32_t first, uint32_t end) {
    uint32_t width = 0;
    for (uint32_t k = first; k < end; k++)
        width += piece_width(layout, first, k);
    return width;
}

static bool fits(const Layout *layout, uint32_t first, uint32_t end, uint32_t column) {
    for (uint32_t k = first; k < end && column <= FORMAT_WIDTH; k++)
        column += piece_width(layout, first, k);
    return column <= FORMAT_WIDTH;
}

// ---- rows that are too wide

// The place in a row, before piece `end`, where it ends best: as far outside as possible, then as
// loosely bound, then as far right. What comes before it should fit; where nothing does, the first
// place is the best. 0: none.
static uint32_t best_cut(const Layout *layout, uint32_t first, uint32_t end, uint32_t column) {
    uint32_t best = 0, best_depth = 0;
    int best_rank = 0;
    for (uint32_t k = first; k < end; column += piece_width(layout, first, k), k++) {
        int rank = k > first ? spacing_break(layout->line, k) : -1;
        if (rank < 0)
            continue;
        if (column > FORMAT_WIDTH)
            return best ? best : k;
        uint32_t depth = piece_at(layout, k)->depth;
        if (!best || depth < best_depth || (depth == best_depth && rank <= best_rank)) {
            best = k;
            best_depth = depth;
            best_rank = rank;
        }
    }
    return best;
}

// The bracket in a row behind which it may end: the outermost of those that the width ends in,
// where that moves what follows to the left. Gives the place behind it, 0: none.
static uint32_t bracket_cut(const Layout *layout, uint32_t first, uint32_t end, uint32_t row) {
    uint32_t column = row, last = first;
    while (last < end && column <= FORMAT_WIDTH)
        column += piece_width(layout, first, last++);
    while (last > first + 1 && piece_at(layout, last - 1)->open < 0)
        last--; // what stands behind brackets
    uint32_t cut = 0;
    for (int k = piece_at(layout, last - 1)->open; k >= (int)first;
         k = piece_at(layout, (uint32_t)k)->open) {
        const Piece *bracket = piece_at(layout, (uint32_t)k);
        bool is_empty = spacing_closes(bracket + 1);
        if (!bracket->dims && !is_empty &&
            row_width(layout, first, (uint32_t)k + 1) > 2 * FORMAT_INDENT)
            cut = (uint32_t)k + 1;
    }
    return cut;
}

// Parameters begin on a row of their own where they do not fit behind the name of their def.
static uint32_t choose_cut(const Layout *layout, uint32_t first, uint32_t end, uint32_t column) {
    uint32_t bracket = bracket_cut(layout, first, end, column);
    if (layout->line->head && bracket && piece_at(layout, bracket - 1)->depth == 0)
        return bracket;
    uint32_t best = best_cut(layout, first, end, column);
    return best ? best : bracket;
}

// ---- placing

static void place_brackets(Layout *layout, const Row *row) {
    uint32_t column = row->column;
    for (uint32_t k = row->first; k < row->end; k++) {
        column += piece_width(layout, row->first, k);
        if (spacing_opens(piece_at(layout, k))) {
            layout->bracket_column[k] = column - 1;
            layout->row_column[k] = row->column;
        }
    }
}

// Fills rows up to the ends that are set, and sets more where they are too wide. How many columns
// are still too much, of all rows.
static uint32_t place_rows(Layout *layout) {
    uint32_t excess = 0;
    layout->rows.count = 0;
    for (uint32_t first = 0, end; first < layout->n; first = end) {
        for (end = first + 1; end < layout->n && !layout->breaks[end];)
            end++;
        uint32_t column = row_column(layout, first);
        if (!fits(layout, first, end, column)) {
            uint32_t cut = choose_cut(layout, first, end, column);
            end = cut ? cut : end;
            layout->breaks[end] = true;
        }
        Row row = {first, end, column, row_width(layout, first, end),
                   inside_column(layout, piece_at(layout, first)->open)};
        excess += column + row.width > FORMAT_WIDTH ? column + row.width - FORMAT_WIDTH : 0;
        place_brackets(layout, &row);
        vec_push(layout->arena, &layout->rows, row);
    }
    return excess;
}

// ---- brackets too far to the right

static const Row *first_wide_row(const Layout *layout) {
    for (uint32_t i = 0; i < layout->rows.count; i++)
        if (layout->rows.at[i].column + layout->rows.at[i].width > FORMAT_WIDTH)
            return &layout->rows.at[i];
    return NULL;
}

// A copy of the layout in which a row ends behind a bracket.
static Layout with_end_behind(const Layout *layout, const bool *kept, uint32_t open) {
    Layout other = *layout;
    other.rows = (RowList){0};
    other.breaks = arena_copy(layout->arena, kept, (layout->n + 1) * sizeof *kept);
    other.breaks[open + 1] = true;
    return other;
}

// Where rows are too wide because their bracket stands far to the right, a row ends behind that
// bracket or one around it. kept: the ends of rows before any were added.
static bool pull_left(Layout *layout, bool *kept, uint32_t *excess) {
    const Row *wide = first_wide_row(layout);
    for (uint32_t k = 0; wide && k + 1 < wide->end; k++) {
        const Piece *piece = piece_at(layout, k);
        if (!spacing_opens(piece) || piece->dims || kept[k + 1] || spacing_closes(piece + 1))
            continue;
        Layout other = with_end_behind(layout, kept, k);
        uint32_t left = place_rows(&other);
        if (left >= *excess)
            continue;
        kept[k + 1] = true;
        *excess = left;
        *layout = other;
        return true;
    }
    return false;
}

static void place_line(Layout *layout) {
    layout->breaks = arena_array(layout->arena, bool, layout->n + 1);
    keep_breaks(layout);
    bool *kept = arena_copy(layout->arena, layout->breaks, (layout->n + 1) * sizeof *kept);
    uint32_t excess = place_rows(layout);
    while (excess && pull_left(layout, kept, &excess))
        continue;
}

// As if the rows had been read. false: they were so.
static bool take_rows(Line *line, const RowList *rows) {
    bool changed = false;
    uint32_t row = 0;
    for (uint32_t k = 1; k < line->pieces.count; k++) {
        row += row + 1 < rows->count && rows->at[row + 1].first == k;
        bool begins = rows->at[row].first == k;
        changed |= line->pieces.at[k].newline != begins;
        line->pieces.at[k].newline = begins;
    }
    return changed;
}

// Where rows end that are too wide depends on where others do, so that what was changed once might
// be changed again. It is, until nothing changes: then the layout of a layout is the same.
RowList layout_rows(Arena *arena, Line *line, uint32_t column) {
    enum { ROUNDS = 20 };
    uint32_t n = line->pieces.count;
    Layout layout = {
        .arena = arena,
        .line = line,
        .n = n,
        .column = column,
        .bracket_column = arena_array(arena, uint32_t, n + 1),
        .row_column = arena_array(arena, uint32_t, n + 1),
    };
    place_line(&layout);
    for (int i = 0; i < ROUNDS && take_rows(line, &layout.rows); i++)
        place_line(&layout);
    return layout.rows;
}
