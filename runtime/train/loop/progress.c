// SPDX-License-Identifier: Apache-2.0
// How training is getting on, on standard error: a line that renews itself on a terminal, else a
// line every ten seconds, and of the first and the last step. Where the terminal is too narrow for
// all of it the rate and the norm, which log.csv has, are left out: a line that is broken in two
// does not renew itself.

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "train/loop/loop.h"

enum { ROOM = 200 };
static const double seconds_between[] = {10, 0.1}; // lines; of a terminal

AttProgress att_progress_open(char **argv, int64_t steps, int64_t begun) {
    return (AttProgress){argv, steps, begun, att_seconds(), 0, isatty(STDERR_FILENO) == 1, false};
}

static void print_left(double seconds, char *out, size_t room) {
    long long whole = seconds < 1e9 ? (long long)(seconds + 0.5) : 0;
    if (whole >= 3600)
        snprintf(out, room, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(out, room, "%lld:%02lld", whole / 60, whole % 60);
}

static size_t terminal_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

static void write_line(const AttProgress *p, const AttProgressLine *line, const char *left,
                       char text[ROOM]) {
    char rate[80] = "", share[40] = "";
    if (isfinite(line->share))
        snprintf(share, sizeof share, "  %.0f%% of peak", 100 * line->share);
    snprintf(rate, sizeof rate, "  rate %.3g  norm %.3g", line->rate, line->norm);
    for (int all = 1; all >= 0; all--) {
        snprintf(text, ROOM, "step %lld/%lld  loss %.4f%s  %.0f %s/s%s  %s left",
                 (long long)line->step, (long long)p->steps, line->loss, all ? rate : "",
                 line->per_second, line->what, share, left);
        if (!p->terminal || strlen(text) < terminal_width())
            return;
    }
}

void att_progress_tell(AttProgress *p, const AttProgressLine *line) {
    char text[ROOM], left[40];
    double now = att_seconds(), done = (double)(line->step - p->begun);
    bool end = line->step == p->steps || line->step == p->begun + 1;
    if (!end && now - p->told < seconds_between[p->terminal])
        return;
    p->told = now;
    print_left((now - p->start) / done * (double)(p->steps - line->step), left, sizeof left);
    write_line(p, line, left, text);
    if (!p->terminal)
        fprintf(stderr, "%s\n", text);
    else
        fprintf(stderr, "\r%s\033[K", text); // and nothing of the line before
    p->open = p->terminal;
}

void att_progress_break(AttProgress *p) {
    if (p->open)
        fputc('\n', stderr);
    p->open = false;
}

void att_progress_tuned(char **argv, const AttTuned *tuned) {
    if (!tuned->enough)
        att_command_note(argv, "--tune takes at least %.0f s of this model here; nothing was tried",
                         ceil(tuned->least));
    else if (tuned->differs)
        att_command_note(argv, "tuned: the schedules that are faster make other results than those "
                               "of before, which is a mistake of attc; none is kept");
    else if (tuned->n_changed)
        att_command_note(argv,
                         "tuned: %lld of %lld kernels have another schedule; gradients of a batch "
                         "take %.4g ms in place of %.4g (%.3fx)",
                         (long long)tuned->n_changed, (long long)tuned->n_choices,
                         1e3 * tuned->after, 1e3 * tuned->before, tuned->before / tuned->after);
    else if (tuned->ended)
        att_command_note(argv, "tuning was ended before anything was sure");
    else
        att_command_note(argv,
                         "tuned: of %lld kernels none has another schedule that is surely "
                         "faster",
                         (long long)tuned->n_choices);
}
