// SPDX-License-Identifier: Apache-2.0
// Printing diagnostics, as text for people or as JSON lines for editors:
//
//     layer.attn:7:12: error: no operand of einsum has dim 'd_Y'
//         Y[n, d_Y] = einsum(W[n, m, h], V[m, d_v, h])
//              ^~~
//     layer.attn:2:5: note: ...
//       hint: ...
//
// Sorted by place; what says the same of the same place is printed once. A source line may hold
// anything: bytes that are not text are shown as U+FFFD and very long lines are cut to a window.
#include "base/diag.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_BEFORE = 60, WINDOW = 160 }; // bytes of a long line that are shown
#define REPLACEMENT "\xEF\xBF\xBD"

// ---- UTF-8 ----

typedef struct {
    uint32_t first, last;
} CodeRange;

static bool in_ranges(uint32_t code, const CodeRange *ranges, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

// Columns of a terminal that a character takes.
static int utf8_width(uint32_t code) {
    static const CodeRange none[] = {{0x300, 0x36F}, {0x200B, 0x200F}, {0xFE00, 0xFE0F}};
    static const CodeRange two[] = {{0x1100, 0x115F}, {0x2E80, 0xA4CF},   {0xAC00, 0xD7A3},
                                    {0xF900, 0xFAFF}, {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                                    {0xFFE0, 0xFFE6}, {0x1F300, 0x1FAFF}, {0x20000, 0x3FFFD}};
    if (code < 0x300)
        return 1;
    if (in_ranges(code, none, sizeof none / sizeof none[0]))
        return 0;
    return in_ranges(code, two, sizeof two / sizeof two[0]) ? 2 : 1;
}

static bool is_control(uint32_t code) {
    return (code < 0x20 && code != '\t') || (code >= 0x7F && code < 0xA0);
}

// The text with whatever a terminal or a JSON reader could not take replaced.
static const char *clean_text(Arena *arena, const char *at, size_t length) {
    Text text = {.arena = arena};
    text_add(&text, "");
    for (const char *end = at + length; at < end;) {
        uint32_t code = 0;
        size_t n = utf8_decode(at, end, &code);
        if (n == 0 || is_control(code))
            text_add(&text, REPLACEMENT);
        else
            text_addn(&text, at, n);
        at += n ? n : 1;
    }
    return text.at;
}

// ---- text

typedef struct {
    Arena *arena; // for this printing only
    const Diags *diags;
    FILE *out;
    bool colour;
} DiagPrinter;

static const char *paint(const DiagPrinter *p, const char *escape) {
    return p->colour ? escape : "";
}

static void print_heading(const DiagPrinter *p, Span at, const char *kind, const char *escape,
                          const char *message, const char *suffix) {
    const Source *source = sources_get(p->diags->sources, at.file);
    fputs(paint(p, "\033[1m"), p->out);
    if (source) {
        uint32_t line, column;
        span_locate(p->diags->sources, at, &line, &column);
        const char *path = clean_text(p->arena, source->path, strlen(source->path));
        fprintf(p->out, "%s:%u:%u: ", path, line, column);
    } else {
        fputs("attc: ", p->out);
    }
    fprintf(p->out, "%s%s: %s%s", paint(p, escape), kind, paint(p, "\033[0m"), paint(p, "\033[1m"));
    fprintf(p->out, "%s%s%s\n", clean_text(p->arena, message, strlen(message)), suffix,
            paint(p, "\033[0m"));
}

// Moves to the start of the character that `at` points into.
static const char *character_start(const char *first, const char *at) {
    for (int i = 0; i < 3 && at > first && ((unsigned char)*at & 0xC0) == 0x80; i++)
        at--;
    return at;
}

// Blanks as wide as the text, with its tabs kept.
static void add_padding(Text *line, const char *at, const char *end) {
    while (at < end) {
        uint32_t code = 0xFFFD;
        size_t n = utf8_decode(at, end, &code);
        if (code == '\t')
            text_add(line, "\t");
        else
            text_addn(line, "  ", n ? (size_t)utf8_width(code) : 1);
        at += n ? n : 1;
    }
}

static void add_carets(Text *line, const char *at, const char *end) {
    int width = 0;
    while (at < end) {
        uint32_t code = 0xFFFD;
        size_t n = utf8_decode(at, end, &code);
        width += n ? utf8_width(code) : 1;
        at += n ? n : 1;
    }
    text_add(line, "^");
    while (--width > 0)
        text_add(line, "~");
}

// The line of the span's beginning, and carets under as much of the span as is on it.
static void print_snippet(const DiagPrinter *p, Span at) {
    const Source *source = sources_get(p->diags->sources, at.file);
    if (!source)
        return;
    uint32_t line, column;
    span_locate(p->diags->sources, at, &line, &column);
    const char *begin = source->text + source->line_begin[line - 1];
    const char *end = line < source->n_lines ? source->text + source->line_begin[line] - 1
                                             : source->text + source->length;
    if (end > begin && end[-1] == '\r')
        end--;
    if (end == begin)
        return;
    const char *from = source->text + at.begin, *to = source->text + at.end;
    if (from > end)
        from = end;
    if (to > end)
        to = end;
    if (to < from)
        to = from;

    const char *first = begin, *last = end;
    if (end - begin > WINDOW) {
        if (from - begin > WINDOW_BEFORE)
            first = character_start(begin, from - WINDOW_BEFORE);
        if (end - first > WINDOW)
            last = character_start(first, first + WINDOW);
        if (to > last)
            to = last;
    }
    const char *before = first > begin ? "..." : "", *after = last < end ? "..." : "";
    const char *shown = clean_text(p->arena, first, (size_t)(last - first));
    Text carets = {.arena = p->arena};
    text_addn(&carets, "   ", strlen(before));
    add_padding(&carets, first, from);
    text_add(&carets, paint(p, "\033[1;32m"));
    add_carets(&carets, from, to);
    fprintf(p->out, "    %s%s%s\n    %s%s\n", before, shown, after, carets.at, paint(p, "\033[0m"));
}

typedef struct {
    const char *name, *escape;
} SeverityLook;
static const SeverityLook severity_looks[] = {
    [DIAG_ERROR] = {"error", "\033[31m"},
    [DIAG_WARNING] = {"warning", "\033[35m"},
    [DIAG_REMARK] = {"remark", "\033[36m"},
};

static void print_text(const DiagPrinter *p, const Diag *diag) {
    bool error = diag->severity == DIAG_ERROR;
    SeverityLook look = severity_looks[diag->severity];
    const char *suffix = "";
    if (diag->group)
        suffix = arena_printf(p->arena, " [-W%s%s]", error ? "error=" : "", diag->group);
    print_heading(p, diag->at, look.name, look.escape, diag->message, suffix);
    print_snippet(p, diag->at);
    for (uint32_t i = 0; i < diag->notes.count; i++) {
        const Note *note = &diag->notes.at[i];
        print_heading(p, note->at, "note", "\033[36m", note->message, "");
        print_snippet(p, note->at);
    }
    if (diag->hint)
        fprintf(p->out, "  hint: %s\n", clean_text(p->arena, diag->hint, strlen(diag->hint)));
}

// ---- JSON

static json_t *json_text(const DiagPrinter *p, const char *text) {
    return text ? json_string(clean_text(p->arena, text, strlen(text))) : json_null();
}

static void json_add_place(const DiagPrinter *p, json_t *object, Span at) {
    const Source *source = sources_get(p->diags->sources, at.file);
    Span end = {.file = at.file, .begin = at.end, .end = at.end};
    uint32_t line, column, end_line, end_column;
    span_locate(p->diags->sources, at, &line, &column);
    span_locate(p->diags->sources, end, &end_line, &end_column);
    json_object_set_new(object, "file", json_text(p, source ? source->path : NULL));
    json_object_set_new(object, "line", json_integer(line));
    json_object_set_new(object, "column", json_integer(column));
    json_object_set_new(object, "end_line", json_integer(end_line));
    json_object_set_new(object, "end_column", json_integer(end_column));
}

static void print_json(const DiagPrinter *p, const Diag *diag) {
    json_t *object = json_object();
    json_object_set_new(object, "severity", json_string(severity_looks[diag->severity].name));
    json_object_set_new(object, "group", json_text(p, diag->group));
    json_add_place(p, object, diag->at);
    json_object_set_new(object, "message", json_text(p, diag->message));
    json_t *notes = json_array();
    for (uint32_t i = 0; i < diag->notes.count; i++) {
        json_t *note = json_object();
        json_add_place(p, note, diag->notes.at[i].at);
        json_object_set_new(note, "message", json_text(p, diag->notes.at[i].message));
        json_array_append_new(notes, note);
    }
    json_object_set_new(object, "notes", notes);
    json_object_set_new(object, "hint", json_text(p, diag->hint));
    json_dumpf(object, p->out, JSON_COMPACT | JSON_PRESERVE_ORDER);
    fputc('\n', p->out);
    json_decref(object);
}

// ---- order

static int compare_u32(uint32_t a, uint32_t b) {
    return (a > b) - (a < b);
}

static int compare_diags(const void *left, const void *right) {
    const Diag *a = *(Diag *const *)left, *b = *(Diag *const *)right;
    int order = compare_u32(a->at.file, b->at.file);
    if (!order)
        order = compare_u32(a->at.begin, b->at.begin);
    if (!order)
        order = compare_u32(a->at.end, b->at.end);
    return order ? order : compare_u32(a->number, b->number);
}

static bool same_place(Span a, Span b) {
    return a.file == b.file && a.begin == b.begin && a.end == b.end;
}

// Whether the sorted list says the same of the same place before `i`.
static bool is_repeat(Diag *const *list, uint32_t i) {
    for (uint32_t j = i; j-- > 0 && same_place(list[j]->at, list[i]->at);)
        if (list[j]->severity == list[i]->severity && !strcmp(list[j]->message, list[i]->message))
            return true;
    return false;
}

void diags_print(const Diags *diags, FILE *out, DiagFormat format, bool colour) {
    uint32_t n = diags->list.count;
    if (n == 0)
        return;
    DiagPrinter p = {.arena = arena_new(), .diags = diags, .out = out, .colour = colour};
    Diag **list = arena_copy(p.arena, diags->list.at, n * sizeof *list);
    qsort(list, n, sizeof *list, compare_diags);
    for (uint32_t i = 0; i < n; i++) {
        if (is_repeat(list, i))
            continue;
        if (format == DIAGS_JSON)
            print_json(&p, list[i]);
        else
            print_text(&p, list[i]);
    }
    arena_free(p.arena);
}
