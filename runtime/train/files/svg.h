// SPDX-License-Identifier: Apache-2.0
// SVG pictures: a page whose colours follow the reader's choice of light or dark.
#ifndef ATT_TRAIN_SVG_H
#define ATT_TRAIN_SVG_H

#include <stdio.h>

#include "train/train.h"

// Classes: of text quiet, title; of lines grid; of marks and lines c0 .. c3 (stroke) and, as
// `fill c0`, as areas.
typedef struct {
    FILE *out; // into memory; NULL: there was none
    char *text;
    size_t length;
} AttSvg;
AttStatus att_svg_open(AttContext *ctx, AttSvg *svg, int width, int height);
// anchor: start, middle, end. The text is escaped.
void att_svg_text(AttSvg *svg, double x, double y, const char *kind, const char *anchor,
                  const char *format, ...) __attribute__((format(printf, 6, 7)));
void att_svg_line(AttSvg *svg, double x1, double y1, double x2, double y2, const char *kind);
AttStatus att_svg_close(AttContext *ctx, AttSvg *svg, const char *path); // writes in one stroke

#endif
