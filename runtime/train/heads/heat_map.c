// SPDX-License-Identifier: Apache-2.0
// Heat maps as SVG: cells with their numbers, names at rows and columns, and the scale of the
// colours beside each map.
#include "train/heads/heads.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/files/svg.h"

// In pixels.
enum { CELL_WIDTH = 52, CELL_HEIGHT = 24, LETTER = 7, TITLE = 26, NAMES = 36, GAP = 28 };
enum { SCALE = 12, SCALE_ROOM = 84, SCALE_STEPS = 16, ROWS_LEAST = 3 };

typedef struct {
    int red, green, blue;
} Colour;

static Colour between(Colour a, Colour b, double share) {
    return (Colour){(int)lround(a.red + share * (b.red - a.red)),
                    (int)lround(a.green + share * (b.green - a.green)),
                    (int)lround(a.blue + share * (b.blue - a.blue))};
}

// The numbers that the ends of the scale stand for.
typedef struct {
    double low, high;
} Ends;

static Ends ends_of(const AttHeatMap *map) {
    double high = 0, largest = 0;
    for (int64_t i = 0; i < map->rows * map->columns; i++) {
        if (!isfinite(map->cells[i]))
            continue;
        high = fmax(high, map->cells[i]);
        largest = fmax(largest, fabs(map->cells[i]));
    }
    if (map->has_signs)
        return largest > 0 ? (Ends){-largest, largest} : (Ends){-1, 1};
    return (Ends){0, high > 0 ? high : 1};
}

static double share_of(Ends ends, double number) {
    return fmin(fmax((number - ends.low) / (ends.high - ends.low), 0), 1);
}

static Colour colour_of(const AttHeatMap *map, double share) {
    static const Colour white = {247, 247, 247}, blue = {8, 64, 129}, red = {165, 15, 21};
    if (!map->has_signs)
        return between(white, blue, share);
    return share < 0.5 ? between(white, blue, 1 - 2 * share) : between(white, red, 2 * share - 1);
}

static void put_box(FILE *svg, double x, double y, double width, double height, Colour colour) {
    fprintf(svg, "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" fill=\"#%02x%02x%02x\"/>\n", x,
            y, width, height, colour.red, colour.green, colour.blue);
}

// ---- one map -----------------------------------------------------------------------------------

static double names_width(const AttHeatMap *map) {
    size_t longest = strlen(map->row_title);
    for (int64_t i = 0; map->row_names && i < map->rows; i++)
        longest = strlen(map->row_names[i]) > longest ? strlen(map->row_names[i]) : longest;
    return LETTER * (double)longest + 10;
}

static double cells_height(const AttHeatMap *map) {
    return CELL_HEIGHT * (double)(map->rows > ROWS_LEAST ? map->rows : ROWS_LEAST);
}

static double width_of(const AttHeatMap *map) {
    double cells = names_width(map) + CELL_WIDTH * (double)map->columns + SCALE_ROOM;
    return fmax(cells, LETTER * ((double)strlen(map->title) + 2));
}

static double height_of(const AttHeatMap *map) {
    return TITLE + NAMES + cells_height(map) + GAP;
}

// Dark letters on light cells, whatever the page.
static void put_number(AttSvg *svg, double x, double y, bool dark, double number) {
    fprintf(svg->out,
            "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\" style=\"font-size:10px;fill:%s\">%.2g"
            "</text>\n",
            x, y, dark ? "#ffffff" : "#1f2328", number);
}

static void put_cells(AttSvg *svg, const AttHeatMap *map, Ends ends, double x, double y) {
    for (int64_t i = 0; i < map->rows * map->columns; i++) {
        double share = share_of(ends, map->cells[i]);
        double left = x + CELL_WIDTH * (double)(i % map->columns);
        double top = y + CELL_HEIGHT * (double)(i / map->columns);
        if (!isfinite(map->cells[i]))
            continue;
        put_box(svg->out, left, top, CELL_WIDTH - 1, CELL_HEIGHT - 1, colour_of(map, share));
        bool dark = map->has_signs ? fabs(share - 0.5) > 0.3 : share > 0.5;
        put_number(svg, left + 0.5 * CELL_WIDTH, top + 0.66 * CELL_HEIGHT, dark, map->cells[i]);
    }
}

static void put_scale(AttSvg *svg, const AttHeatMap *map, Ends ends, double x, double y) {
    double height = cells_height(map), step = height / SCALE_STEPS;
    for (int i = 0; i < SCALE_STEPS; i++)
        put_box(svg->out, x, y + step * i, SCALE, step + 0.5,
                colour_of(map, 1 - (i + 0.5) / SCALE_STEPS));
    for (int i = 0; i <= 2; i++)
        att_svg_text(svg, x + SCALE + 4, y + 4 + height * i / 2, "quiet", "start", "%.3g",
                     ends.high + (ends.low - ends.high) * i / 2);
}

static void put_map(AttSvg *svg, const AttHeatMap *map, double x, double y) {
    Ends ends = ends_of(map);
    double left = x + names_width(map), top = y + TITLE + NAMES;
    double right = left + CELL_WIDTH * (double)map->columns;
    att_svg_text(svg, x, y + 14, "title", "start", "%s", map->title);
    att_svg_text(svg, left - 6, top - 6, "quiet", "end", "%s", map->row_title);
    att_svg_text(svg, (left + right) / 2, top - 20, "quiet", "middle", "%s", map->column_title);
    for (int64_t i = 0; i < map->columns; i++)
        att_svg_text(svg, left + CELL_WIDTH * ((double)i + 0.5), top - 6, "", "middle", "%lld",
                     (long long)i);
    for (int64_t i = 0; i < map->rows; i++) {
        double middle = top + CELL_HEIGHT * ((double)i + 0.66);
        if (map->row_names)
            att_svg_text(svg, left - 6, middle, "", "end", "%s", map->row_names[i]);
        else
            att_svg_text(svg, left - 6, middle, "", "end", "%lld", (long long)i);
    }
    put_cells(svg, map, ends, left, top);
    put_scale(svg, map, ends, right + 8, top);
}

// ---- all of them -------------------------------------------------------------------------------

// Puts each map in its place, unless svg is NULL, and tells how large the page is.
static void lay_out(AttSvg *svg, const AttHeatMap *maps, int64_t count, int64_t abreast,
                    double *width, double *height) {
    double x = GAP, y = GAP, deepest = 0;
    *width = 0;
    for (int64_t i = 0; i < count; i++) {
        if (svg)
            put_map(svg, &maps[i], x, y);
        x += width_of(&maps[i]) + GAP;
        *width = fmax(*width, x);
        deepest = fmax(deepest, height_of(&maps[i]));
        if ((i + 1) % abreast && i + 1 < count)
            continue;
        x = GAP;
        y += deepest;
        deepest = 0;
    }
    *height = y;
}

AttStatus att_heat_maps_write(AttContext *ctx, const char *path, const AttHeatMap *maps,
                              int64_t count, int64_t abreast) {
    AttSvg svg;
    double width, height;
    lay_out(NULL, maps, count, abreast, &width, &height);
    AttStatus status = att_svg_open(ctx, &svg, (int)ceil(width), (int)ceil(height));
    if (status)
        return status;
    lay_out(&svg, maps, count, abreast, &width, &height);
    return att_svg_close(ctx, &svg, path);
}
