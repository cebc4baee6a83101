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

#include <string.h>

typedef struct {
    Arena *arena;
    const Line *line;
    uint32_t n;      // pieces
    uint32_t column; // of the line
    bool *kept;      // by piece: a row begins with it wherever the others do
    bool *breaks;    // by piece that is placed: a row begins with it
    // By piece, of opening brackets that are placed:
    uint32_t *bracket_column, *row_column;
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
            layout->kept[kept] = true;
        if (must_break(layout, k))
            layout->kept[k] = true;
    }
    for (uint32_t k = 1; k < layout->n; k++) {
        const Piece *piece = piece_at(layout, k);
        if (spacing_closes(piece) && piece->newline && piece->open + 1 < (int)k)
            layout->kept[k] |= layout->kept[piece->open + 1];
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

// Whether a row that begins with piece `first` may go on with piece k.
static bool goes_on(const Layout *layout, uint32_t first, uint32_t k) {
    return k < layout->n && (k == first || !layout->kept[k]);
}

// The piece before which a row is as wide as may be, or wider, or its last possible end.
static uint32_t look_ahead(const Layout *layout, uint32_t first, uint32_t column, bool *fits) {
    uint32_t k = first;
    while (goes_on(layout, first, k) && column <= FORMAT_WIDTH)
        column += piece_width(layout, first, k++);
    *fits = column <= FORMAT_WIDTH;
    return k;
}

// ---- rows that are too wide

// The place in a row where it ends best: as far outside as possible, then as loosely bound, then as
// far right. What comes before it should fit; where nothing does, the first place is the best. 0:
// none.
static uint32_t best_cut(const Layout *layout, uint32_t first, uint32_t column) {
    uint32_t best = 0, best_depth = 0;
    int best_rank = 0;
    for (uint32_t k = first; goes_on(layout, first, k);
         column += piece_width(layout, first, k), k++) {
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
// before piece `last`, where that moves what follows to the left. Gives the place behind it, 0:
// none.
static uint32_t bracket_cut(const Layout *layout, uint32_t first, uint32_t last) {
    while (last > first + 1 && piece_at(layout, last - 1)->open < 0)
        last--; // what stands behind brackets
    uint32_t cut = 0;
    for (int k = last > first ? piece_at(layout, last - 1)->open : -1; k >= (int)first;
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
static uint32_t choose_cut(const Layout *layout, uint32_t first, uint32_t last, uint32_t column) {
    uint32_t bracket = bracket_cut(layout, first, last);
    if (layout->line->head && bracket && piece_at(layout, bracket - 1)->depth == 0)
        return bracket;
    uint32_t best = best_cut(layout, first, column);
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

// Requires: what is before the piece is placed.
static Row place_row(Layout *layout, uint32_t first) {
    bool fits;
    uint32_t column = row_column(layout, first);
    uint32_t last = look_ahead(layout, first, column, &fits);
    uint32_t end = fits ? last : choose_cut(layout, first, last, column);
    if (!end)
        for (end = last; goes_on(layout, first, end);)
            end++;
    for (uint32_t k = first; k <= end; k++)
        layout->breaks[k] = k == first || k == end;
    Row row = {first,
               end,
               column,
               row_width(layout, first, end),
               inside_column(layout, piece_at(layout, first)->open),
               last > end ? last : end};
    place_brackets(layout, &row);
    return row;
}

static uint32_t row_excess(const Row *row) {
    uint32_t width = row->column + row->width;
    return width > FORMAT_WIDTH ? width - FORMAT_WIDTH : 0;
}

// ---- brackets too far to the right

// A layout, and one that is tried: both are the same but while it is.
typedef struct {
    Layout now, tried;
    RowList rows, tried_rows;
    bool *cause; // by piece: a bracket that a row may be too wide for
} Placing;

static uint32_t row_of(const RowList *rows, uint32_t piece) {
    uint32_t low = 0, high = rows->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (rows->at[middle].first <= piece)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The brackets that stand in a row, in those where the brackets around it stand, and in those where
// brackets begin that end in one of these. Gives the first of these rows.
static uint32_t mark_causes(Placing *p, uint32_t wide, bool *linked) {
    uint32_t top = wide;
    linked[wide] = true;
    for (uint32_t r = wide + 1; r-- > 0;) {
        if (!linked[r])
            continue;
        top = r;
        linked[r] = false;
        const Row *row = &p->rows.at[r];
        for (uint32_t k = row->first; k < row->end; k++) {
            const Piece *piece = piece_at(&p->now, k);
            p->cause[k] = spacing_opens(piece);
            if (piece->open >= 0 && (uint32_t)piece->open < row->first)
                linked[row_of(&p->rows, (uint32_t)piece->open)] = true;
        }
    }
    return top;
}

static void copy_placed(Layout *to, const Layout *from, uint32_t first, uint32_t end) {
    uint32_t n = end - first;
    memcpy(to->breaks + first, from->breaks + first, (n + 1) * sizeof *to->breaks);
    memcpy(to->bracket_column + first, from->bracket_column + first, n * sizeof(uint32_t));
    memcpy(to->row_column + first, from->row_column + first, n * sizeof(uint32_t));
}

// Whether rows from a piece on are placed alike: the brackets around it are.
static bool are_alike_from(const Placing *p, uint32_t piece, uint32_t first) {
    const Layout *a = &p->now, *b = &p->tried;
    if (piece == a->n)
        return true;
    for (int k = piece_at(a, piece)->open; k >= (int)first; k = piece_at(a, (uint32_t)k)->open)
        if (a->bracket_column[k] != b->bracket_column[k] || a->row_column[k] != b->row_column[k] ||
            a->breaks[k + 1] != b->breaks[k + 1])
            return false;
    return true;
}

static void replace_rows(Placing *p, uint32_t from, uint32_t to) {
    uint32_t n_new = p->tried_rows.count, n_after = p->rows.count - to;
    while (p->rows.count < from + n_new + n_after)
        vec_push(p->now.arena, &p->rows, (Row){0});
    memmove(p->rows.at + from + n_new, p->rows.at + to, n_after * sizeof(Row));
    if (n_new)
        memcpy(p->rows.at + from, p->tried_rows.at, n_new * sizeof(Row));
    p->rows.count = from + n_new + n_after;
}

// Ends a row behind a bracket and places the rows that this changes, if these are better so. Gives
// the first of them in *changed.
static bool try_end_behind(Placing *p, uint32_t open, uint32_t *changed) {
    uint32_t from = row_of(&p->rows, open), before = 0, after = 0;
    while (from > 0 && p->rows.at[from - 1].seen > open)
        from--;
    uint32_t first = p->rows.at[from].first, next = first, to = from;
    p->now.kept[open + 1] = true; // of both
    p->tried_rows.count = 0;
    for (bool alike = false; !alike;) {
        Row row = place_row(&p->tried, next);
        vec_push(p->now.arena, &p->tried_rows, row);
        after += row_excess(&row);
        next = row.end;
        while (to < p->rows.count && p->rows.at[to].first < next)
            before += row_excess(&p->rows.at[to++]);
        bool begins = to == p->rows.count ? next == p->now.n : p->rows.at[to].first == next;
        alike = begins && next > open && are_alike_from(p, next, first);
    }
    bool better = after < before;
    copy_placed(better ? &p->now : &p->tried, better ? &p->tried : &p->now, first, next);
    p->now.kept[open + 1] = better;
    if (better)
        replace_rows(p, from, to);
    *changed = from;
    return better;
}

// Where a row is too wide because a bracket stands far to the right, a row ends behind that one.
// Only the rows that this changes are placed again, so that a line of thousands of them takes a
// time that grows with its length. Gives the first of these rows in *changed.
static bool pull_left(Placing *p, uint32_t wide, bool *linked, uint32_t *changed) {
    uint32_t end = p->rows.at[wide].end;
    uint32_t top = mark_causes(p, wide, linked);
    bool better = false;
    for (uint32_t k = p->rows.at[top].first; k < end; k++) {
        const Piece *piece = piece_at(&p->now, k);
        bool tried = p->cause[k] && !better && k + 1 < end && !piece->dims && !p->now.kept[k + 1] &&
                     !spacing_closes(piece + 1);
        p->cause[k] = false;
        better = better || (tried && try_end_behind(p, k, changed));
    }
    return better;
}

static Layout layout_new(Arena *arena, const Line *line, uint32_t column) {
    uint32_t n = line->pieces.count;
    return (Layout){
        .arena = arena,
        .line = line,
        .n = n,
        .column = column,
        .breaks = arena_array(arena, bool, n + 1),
        .bracket_column = arena_array(arena, uint32_t, n + 1),
        .row_column = arena_array(arena, uint32_t, n + 1),
    };
}

static void place_line(Placing *p, bool *linked) {
    Layout *layout = &p->now;
    memset(layout->kept, 0, (layout->n + 1) * sizeof *layout->kept);
    keep_breaks(layout);
    p->rows.count = 0;
    for (uint32_t first = 0; first < layout->n;) {
        Row row = place_row(layout, first);
        vec_push(layout->arena, &p->rows, row);
        first = row.end;
    }
    copy_placed(&p->tried, layout, 0, layout->n);
    for (uint32_t r = 0, next; r < p->rows.count; r = next) {
        next = r + 1;
        if (row_excess(&p->rows.at[r]) && !pull_left(p, r, linked, &next))
            return; // nor do rows after it move
    }
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
    enum { ROUNDS = 20 }; // two or three are enough for all that was met
    uint32_t n = line->pieces.count;
    Placing placing = {
        .now = layout_new(arena, line, column),
        .tried = layout_new(arena, line, column),
        .cause = arena_array(arena, bool, n + 1),
    };
    bool *linked = arena_array(arena, bool, n + 1); // by row
    placing.now.kept = placing.tried.kept = arena_array(arena, bool, n + 1);
    place_line(&placing, linked);
    for (int i = 0; i < ROUNDS && take_rows(line, &placing.rows); i++)
        place_line(&placing, linked);
    return placing.rows;
}
