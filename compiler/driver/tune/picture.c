// SPDX-License-Identifier: Apache-2.0
// attc tune -o FILE.svg: on the left the speed of the best so far over time, on the right predicted
// and measured times of all that was tried, both on logarithmic axes, a colour for each kernel.
#include <math.h>

#include "driver/tune/tuning.h"
#include "train/files/svg.h"

enum { WIDTH = 860, HEIGHT = 400, TOP = 44, BOTTOM = 44, COLOURS = 4, TICKS = 5 };
typedef struct {
    double left, right;    // places on the page
    double x0, x1, y0, y1; // what the axes reach over
    bool logarithmic;
} Panel;

static double share(double value, double from, double to, bool logarithmic) {
    return logarithmic ? log(value / from) / log(to / from) : (value - from) / (to - from);
}

static double place_x(const Panel *p, double x) {
    return p->left + share(x, p->x0, p->x1, p->logarithmic) * (p->right - p->left);
}

static double place_y(const Panel *p, double y) {
    return HEIGHT - BOTTOM - share(y, p->y0, p->y1, p->logarithmic) * (HEIGHT - TOP - BOTTOM);
}

static double between(double from, double to, double part, bool logarithmic) {
    return logarithmic ? from * pow(to / from, part) : from + part * (to - from);
}

static void draw_axes(AttSvg *svg, const Panel *p, const char *title, const char *x_name,
                      double x_unit, double y_unit) {
    att_svg_text(svg, p->left, 24, "title", "start", "%s", title);
    for (int i = 0; i <= TICKS; i++) {
        double x = between(p->x0, p->x1, (double)i / TICKS, p->logarithmic);
        double y = between(p->y0, p->y1, (double)i / TICKS, p->logarithmic);
        att_svg_line(svg, p->left, place_y(p, y), p->right, place_y(p, y), "grid");
        att_svg_text(svg, p->left - 8, place_y(p, y) + 4, "quiet", "end", "%.3g", y * y_unit);
        att_svg_text(svg, place_x(p, x), HEIGHT - BOTTOM + 18, "quiet", "middle", "%.3g",
                     x * x_unit);
    }
    att_svg_text(svg, 0.5 * (p->left + p->right), HEIGHT - 8, "quiet", "middle", "%s", x_name);
}

// ---- speed over time ----------------------------------------------------------------------------

static void draw_speed(AttSvg *svg, const Tuner *tuner) {
    Panel p = {64, 400, 0, 1, 1, 1.01, false};
    for (uint32_t i = 0; i < tuner->points.count; i++) {
        p.x1 = fmax(p.x1, tuner->points.at[i].seconds);
        p.y1 = fmax(p.y1, tuner->points.at[i].speed);
    }
    draw_axes(svg, &p, "speed of the best so far (default 1)", "seconds", 1, 1);
    fputs("<polyline class=\"c0\" points=\"", svg->out);
    for (uint32_t i = 0; i < tuner->points.count; i++)
        fprintf(svg->out, "%.1f,%.1f ", place_x(&p, tuner->points.at[i].seconds),
                place_y(&p, tuner->points.at[i].speed));
    fputs("\"/>\n", svg->out);
}

// ---- predicted against measured -----------------------------------------------------------------

typedef struct {
    double predicted, measured; // seconds
    uint32_t site;
} Mark;
typedef VEC(Mark) Marks;

static Marks list_marks(const Tuner *tuner, Arena *arena) {
    Marks marks = {0};
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        const TuneSite *site = tune_search_site(tuner->search, i);
        for (uint32_t t = 0; t < site->trials.count && tune_site_is_measured(site); t++) {
            const TuneTrial *trial = &site->trials.at[t];
            double measured = tune_trial_median(trial) * tuner->results[i].of_default;
            if (isfinite(measured) && measured > 0 && trial->schedule.seconds > 0)
                vec_push(arena, &marks, (Mark){trial->schedule.seconds, measured, i});
        }
    }
    return marks;
}

static void draw_names(AttSvg *svg, const Tuner *tuner, const Panel *p) {
    double y = TOP + 14;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        if (!tune_site_is_measured(tune_search_site(tuner->search, i)))
            continue;
        fprintf(svg->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"fill c%u\"/>\n",
                p->left + 12, y - 4, i % COLOURS);
        att_svg_text(svg, p->left + 22, y, "quiet", "start", "%s", tuner->spaces.at.at[i].name);
        y += 16;
    }
}

static void draw_marks(AttSvg *svg, const Tuner *tuner) {
    Arena *arena = arena_new();
    Marks marks = list_marks(tuner, arena);
    double least = INFINITY, most = 0;
    for (uint32_t i = 0; i < marks.count; i++) {
        least = fmin(least, fmin(marks.at[i].predicted, marks.at[i].measured));
        most = fmax(most, fmax(marks.at[i].predicted, marks.at[i].measured));
    }
    if (marks.count) {
        Panel p = {480, WIDTH - 20, least / 1.1, most * 1.1, least / 1.1, most * 1.1, true};
        draw_axes(svg, &p, "measured over predicted, ms", "predicted, ms", 1e3, 1e3);
        att_svg_line(svg, p.left, HEIGHT - BOTTOM, p.right, TOP, "grid");
        for (uint32_t i = 0; i < marks.count; i++)
            fprintf(svg->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" class=\"fill c%u\"/>\n",
                    place_x(&p, marks.at[i].predicted), place_y(&p, marks.at[i].measured),
                    marks.at[i].site % COLOURS);
        draw_names(svg, tuner, &p);
    }
    arena_free(arena);
}

bool tuner_picture(const Tuner *tuner, const char *path) {
    AttContext *context = tuner->calls.tensors.context;
    AttSvg svg;
    AttStatus status = att_svg_open(context, &svg, WIDTH, HEIGHT);
    if (!status) {
        draw_speed(&svg, tuner);
        draw_marks(&svg, tuner);
        status = att_svg_close(context, &svg, path);
    }
    if (status)
        problem(tuner->options, "%s", att_message(context));
    return !status;
}
