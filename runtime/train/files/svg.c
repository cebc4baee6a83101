// SPDX-License-Identifier: Apache-2.0
// The frame of an SVG picture, its style and its texts. The picture is made in memory and written
// in one stroke.

#include "train/files/svg.h"

#include <stdarg.h>
#include <stdlib.h>

static const char style[] =
    "text { font: 12px system-ui, sans-serif; fill: #1f2328; }\n"
    ".quiet { fill: #656d76; } .title { font-weight: 600; }\n"
    ".page { fill: #ffffff; } .grid { stroke: #d0d7de; }\n"
    "polyline { fill: none; stroke-width: 1.6; }\n"
    ".c0 { stroke: #0072b2; } .c1 { stroke: #d55e00; } .c2 { stroke: #009e73; }\n"
    ".c3 { stroke: #cc79a7; }\n"
    ".fill { stroke: none; } .fill.c0 { fill: #0072b2; } .fill.c1 { fill: #d55e00; }\n"
    ".fill.c2 { fill: #009e73; } .fill.c3 { fill: #cc79a7; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  text { fill: #e6edf3; } .quiet { fill: #8d96a0; }\n"
    "  .page { fill: #0d1117; } .grid { stroke: #30363d; }\n"
    "  .c0 { stroke: #3a9bdc; } .c1 { stroke: #ff8a4c; } .c2 { stroke: #2ec4a0; }\n"
    "  .c3 { stroke: #f2a6d0; }\n"
    "  .fill.c0 { fill: #3a9bdc; } .fill.c1 { fill: #ff8a4c; } .fill.c2 { fill: #2ec4a0; }\n"
    "  .fill.c3 { fill: #f2a6d0; }\n"
    "}\n";

AttStatus att_svg_open(AttContext *ctx, AttSvg *svg, int width, int height) {
    *svg = (AttSvg){0};
    svg->out = open_memstream(&svg->text, &svg->length);
    if (!svg->out)
        return att_no_memory(ctx);
    fprintf(svg->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\">\n<style>\n%s</style>\n"
            "<rect width=\"%d\" height=\"%d\" class=\"page\"/>\n",
            width, height, width, height, style, width, height);
    return ATT_OK;
}

static void put_escaped(FILE *out, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
            break;
        }
}

void att_svg_text(AttSvg *svg, double x, double y, const char *kind, const char *anchor,
                  const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(svg->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, kind,
            anchor);
    put_escaped(svg->out, text);
    fputs("</text>\n", svg->out);
}

void att_svg_line(AttSvg *svg, double x1, double y1, double x2, double y2, const char *kind) {
    fprintf(svg->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1,
            y1, x2, y2, kind);
}

static bool put_all(AttFile *file, const void *arg) {
    const AttSvg *svg = arg;
    return att_file_put(file, svg->text, svg->length);
}

AttStatus att_svg_close(AttContext *ctx, AttSvg *svg, const char *path) {
    fputs("</svg>\n", svg->out);
    AttStatus status =
        fclose(svg->out) ? att_no_memory(ctx) : att_file_write(ctx, path, put_all, svg);
    free(svg->text);
    *svg = (AttSvg){0};
    return status;
}
