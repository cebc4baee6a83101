// SPDX-License-Identifier: Apache-2.0
// loss.svg: the loss of training, a thin line of means over neighbouring steps, and that of
// evaluations, with marks, over the steps.

#include <math.h>
#include <stdlib.h>

#include "train/files/svg.h"
#include "train/loop/loop.h"

enum { WIDTH = 720, HEIGHT = 400, LEFT = 64, RIGHT = 16, TOP = 44, BOTTOM = 44, POINTS_MOST = 360 };

typedef struct {
    AttSvg svg;
    double x0, x1, y0, y1; // what the axes reach over
} Chart;

static double place_x(const Chart *c, double x) {
    return LEFT + (x - c->x0) / (c->x1 - c->x0) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const Chart *c, double y) {
    return HEIGHT - BOTTOM - (y - c->y0) / (c->y1 - c->y0) * (HEIGHT - TOP - BOTTOM);
}

// Neighbours become their mean, so that there are few enough.
static int64_t thin_out(AttPoint *points, int64_t count) {
    int64_t of_one = (count + POINTS_MOST - 1) / POINTS_MOST, made = 0;
    for (int64_t i = 0; i < count; i += of_one) {
        int64_t n = count - i < of_one ? count - i : of_one;
        AttPoint mean = {0, 0};
        for (int64_t k = 0; k < n; k++) {
            mean.x += points[i + k].x / (double)n;
            mean.y += points[i + k].y / (double)n;
        }
        points[made++] = mean;
    }
    return made;
}

static void reach_over(Chart *c, const AttPoint *points, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        c->x1 = fmax(c->x1, points[i].x);
        c->y0 = fmin(c->y0, points[i].y);
        c->y1 = fmax(c->y1, points[i].y);
    }
}

// 1, 2 or 5 times a power of ten, of which about `count` fit.
static double tick_of(double range, int count) {
    double rough = range / count, power = pow(10, floor(log10(rough))), share = rough / power;
    return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

static void draw_axes(Chart *c) {
    double dx = tick_of(c->x1 - c->x0, 8), dy = tick_of(c->y1 - c->y0, 6);
    for (double y = ceil(c->y0 / dy) * dy; y <= c->y1 + dy / 1e6; y += dy) {
        att_svg_line(&c->svg, LEFT, place_y(c, y), WIDTH - RIGHT, place_y(c, y), "grid");
        att_svg_text(&c->svg, LEFT - 8, place_y(c, y) + 4, "quiet", "end", "%g",
                     round(y / dy) * dy);
    }
    for (double x = ceil(c->x0 / dx) * dx; x <= c->x1 + dx / 1e6; x += dx) {
        att_svg_line(&c->svg, place_x(c, x), HEIGHT - BOTTOM, place_x(c, x), HEIGHT - BOTTOM + 4,
                     "grid");
        att_svg_text(&c->svg, place_x(c, x), HEIGHT - BOTTOM + 18, "quiet", "middle", "%g", x);
    }
    att_svg_text(&c->svg, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8, "quiet", "middle", "step");
}

static void draw_curve(Chart *c, const AttPoint *points, int64_t count, int number, bool marks,
                       const char *name) {
    FILE *out = c->svg.out;
    if (!count)
        return;
    fprintf(out, "<polyline class=\"c%d\" points=\"", number);
    for (int64_t i = 0; i < count; i++)
        fprintf(out, "%.1f,%.1f ", place_x(c, points[i].x), place_y(c, points[i].y));
    fputs("\"/>\n", out);
    for (int64_t i = 0; i < count && marks; i++)
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"fill c%d\"/>\n",
                place_x(c, points[i].x), place_y(c, points[i].y), number);
    double x = WIDTH - RIGHT - 110.0 * (2 - number), y = TOP - 14;
    att_svg_line(&c->svg, x, y - 4, x + 18, y - 4, number ? "c1" : "c0");
    att_svg_text(&c->svg, x + 24, y, "quiet", "start", "%s", name);
}

static AttStatus draw(AttContext *ctx, const char *path, const char *title, AttPoint *train,
                      int64_t n_train, AttPoint *eval, int64_t n_eval) {
    Chart chart = {.x0 = 0, .x1 = 1, .y0 = INFINITY, .y1 = -INFINITY};
    if (!n_train && !n_eval)
        return ATT_OK;
    n_train = thin_out(train, n_train);
    reach_over(&chart, train, n_train);
    reach_over(&chart, eval, n_eval);
    double gap = fmax(chart.y1 - chart.y0, 1e-6 * fmax(fabs(chart.y1), 1e-6)) * 0.05;
    chart.y0 -= gap;
    chart.y1 += gap;
    AttStatus status = att_svg_open(ctx, &chart.svg, WIDTH, HEIGHT);
    if (status)
        return status;
    att_svg_text(&chart.svg, LEFT, 20, "title", "start", "%s", title);
    draw_axes(&chart);
    draw_curve(&chart, train, n_train, 0, false, "training");
    draw_curve(&chart, eval, n_eval, 1, true, "evaluation");
    return att_svg_close(ctx, &chart.svg, path);
}

AttStatus att_chart_loss(AttContext *ctx, const char *folder, const char *title) {
    char log[ATT_PATH_ROOM], eval[ATT_PATH_ROOM], path[ATT_PATH_ROOM];
    if (att_path_in(ctx, folder, "log.csv", log) || att_path_in(ctx, folder, "eval.csv", eval) ||
        att_path_in(ctx, folder, "loss.svg", path))
        return ATT_ARGUMENT;
    int64_t n_train, n_eval;
    AttPoint *train = att_log_points(log, &n_train), *evals = att_log_points(eval, &n_eval);
    AttStatus status = draw(ctx, path, title, train, n_train, evals, n_eval);
    free(train);
    free(evals);
    return status;
}
