// SPDX-License-Identifier: Apache-2.0
// The subcommand heads: a table of all heads, as CSV and pictures in a folder, or a pruned model.
#include "train/heads/heads.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"

typedef struct {
    AttShared shared;
    const char *weights, *out, *source, *prune;
    int64_t examples, seed;
    bool quick;
} Values;

static const AttOption table[] = {
    {"weights", ATT_OPTION_TEXT, offsetof(Values, weights), "FILE", "a checkpoint", .needed = true},
    {"examples", ATT_OPTION_COUNT, offsetof(Values, examples), "N", "examples, drawn by the seed",
     .least = 1, .most = 1e12},
    {"quick", ATT_OPTION_FLAG, offsetof(Values, quick), NULL,
     "importance alone, from one gradient for each example", .least = 0},
    {"out", ATT_OPTION_TEXT, offsetof(Values, out), "PATH",
     "a folder for the table and pictures; with --prune: the weights", .least = 0},
    {"prune", ATT_OPTION_TEXT, offsetof(Values, prune), "SHARE",
     "write a model without so many of its heads: 40% or 0.4", .least = 0},
    {"source", ATT_OPTION_TEXT, offsetof(Values, source), "FILE", "with --prune: the text",
     .least = 0},
    {"seed", ATT_OPTION_COUNT, offsetof(Values, seed), "S", "of the choice of examples", .least = 0,
     .most = 9e18},
    {0}};
static const AttUsage usage = {
    "--data FILE... --weights FILE [OPTION]...",
    "Tells how much each head of attention matters.",
    {att_options_of_data, table, att_options_of_call},
    "importance: mean of |dLoss/dxi| over the examples, xi being a factor of the head.\n"
    "without, alone: the loss without the head, and without all others of its attention.\n"};

// What the subcommand works with.
typedef struct {
    const Values *values;
    const AttTrainer *trainer;
    AttContext *ctx;
    AttModel model;
    AttData *data;
    AttBatch batch;
    double share; // to prune; 0: none
    AttHeadFigures figures;
} Heads;

// ---- names of heads ----------------------------------------------------------------------------

static const AttTensor *tensor_of(const AttHeads *heads, int64_t mask) {
    return &heads->masked->tensors[heads->masks[mask].input];
}

enum { NAME_ROOM = 160 };

// "h", or "g.r" of heads over several dims.
static const char *dims_name(const AttHeads *heads, int64_t mask, char out[NAME_ROOM]) {
    const AttTensor *tensor = tensor_of(heads, mask);
    size_t at = 0;
    out[0] = '\0';
    for (int64_t i = 0; i < tensor->rank && at < NAME_ROOM; i++)
        at += (size_t)snprintf(out + at, NAME_ROOM - at, "%s%s", i ? "." : "",
                               heads->masked->dims[tensor->dims[i]].name);
    return out;
}

// ---- table -------------------------------------------------------------------------------------

static void print_table(const Heads *h) {
    const AttHeads *heads = h->trainer->heads;
    const AttHeadFigures *figures = &h->figures;
    char dims[NAME_ROOM];
    int width = 9, dims_width = 4;
    for (int64_t i = 0; i < heads->n_masks; i++) {
        int length = (int)strlen(heads->masks[i].name);
        int dims_length = (int)strlen(dims_name(heads, i, dims));
        width = length > width ? length : width;
        dims_width = dims_length > dims_width ? dims_length : dims_width;
    }
    printf("%lld example%s, loss %.6g\n%-*s  %-*s  head  importance", (long long)figures->examples,
           figures->examples == 1 ? "" : "s", figures->loss, width, "attention", dims_width,
           "dims");
    printf(h->values->quick ? "\n" : "   without     alone\n");
    for (int64_t i = 0; i < figures->count; i++) {
        const AttHeadFigure *figure = &figures->at[i];
        printf("%-*s  %-*s  %4lld  %10.4g", width, heads->masks[figure->mask].name, dims_width,
               dims_name(heads, figure->mask, dims), (long long)figure->position,
               figure->importance);
        if (!h->values->quick)
            printf("  %8.6g  %8.6g", figure->without, figure->alone);
        putchar('\n');
    }
}

static bool put_csv(AttFile *file, const void *arg) {
    const Heads *h = arg;
    const AttHeads *heads = h->trainer->heads;
    char line[2 * NAME_ROOM + 1024], dims[NAME_ROOM];
    int length = snprintf(line, sizeof line,
                          "attention,dims,head,importance,loss,loss_without,loss_alone\n");
    bool fine = att_file_put(file, line, (size_t)length);
    for (int64_t i = 0; i < h->figures.count && fine; i++) {
        const AttHeadFigure *figure = &h->figures.at[i];
        length = snprintf(line, sizeof line, "%.600s,%s,%lld,%.9g,%.9g",
                          heads->masks[figure->mask].name, dims_name(heads, figure->mask, dims),
                          (long long)figure->position, figure->importance, h->figures.loss);
        if (h->values->quick)
            length += snprintf(line + length, sizeof line - (size_t)length, ",,\n");
        else
            length += snprintf(line + length, sizeof line - (size_t)length, ",%.9g,%.9g\n",
                               figure->without, figure->alone);
        fine = att_file_put(file, line, (size_t)length);
    }
    return fine;
}

// ---- pictures ----------------------------------------------------------------------------------

// The masks over the same dims as one, from that one on: a picture has these as rows.
typedef struct {
    int64_t rows, columns;
    double *cells; // importance, then the loss without less that with all, then alone
    const char **names;
} Panel;

static bool is_of(const Heads *h, int64_t mask, int64_t other) {
    char a[NAME_ROOM], b[NAME_ROOM];
    return strcmp(dims_name(h->trainer->heads, mask, a), dims_name(h->trainer->heads, other, b)) ==
           0;
}

static bool is_first(const Heads *h, int64_t mask) {
    for (int64_t i = 0; i < mask; i++)
        if (is_of(h, i, mask))
            return false;
    return true;
}

static bool make_panel(const Heads *h, int64_t first, Panel *out) {
    const AttHeads *heads = h->trainer->heads;
    *out = (Panel){0};
    out->names = calloc((size_t)heads->n_masks, sizeof *out->names);
    for (int64_t i = first; out->names && i < heads->n_masks; i++) {
        if (!is_of(h, i, first))
            continue;
        int64_t count = att_heads_of(heads, i);
        out->columns = count > out->columns ? count : out->columns;
        out->names[out->rows++] = heads->masks[i].name;
    }
    int64_t each = out->rows * out->columns;
    out->cells = malloc(sizeof(double) * (size_t)(3 * each));
    for (int64_t i = 0; out->cells && i < 3 * each; i++)
        out->cells[i] = NAN;
    for (int64_t i = 0; out->cells && i < h->figures.count; i++) {
        const AttHeadFigure *figure = &h->figures.at[i];
        int64_t row = 0;
        if (!is_of(h, figure->mask, first))
            continue;
        for (int64_t k = first; k < figure->mask; k++)
            row += is_of(h, k, first);
        double *cell = &out->cells[row * out->columns + figure->position];
        cell[0] = figure->importance;
        cell[each] = figure->without - h->figures.loss;
        cell[2 * each] = figure->alone - h->figures.loss;
    }
    return out->names && out->cells;
}

static void add_maps(const Panel *panel, const char *dims, int64_t count, AttHeatMap *out) {
    static const char *const titles[] = {"importance", "loss added without the head",
                                         "loss added with the head alone"};
    for (int64_t i = 0; i < count; i++)
        out[i] = (AttHeatMap){.title = titles[i],
                              .rows = panel->rows,
                              .columns = panel->columns,
                              .cells = panel->cells + i * panel->rows * panel->columns,
                              .row_names = panel->names,
                              .row_title = "attention",
                              .column_title = dims,
                              .has_signs = i > 0};
}

static AttStatus draw(const Heads *h, const char *path) {
    int64_t masks = h->trainer->heads->n_masks, n_panels = 0, abreast = h->values->quick ? 1 : 3;
    Panel *panels = calloc((size_t)masks, sizeof *panels);
    AttHeatMap *maps = calloc((size_t)(3 * masks), sizeof *maps);
    char(*dims)[NAME_ROOM] = calloc((size_t)masks, sizeof *dims);
    bool fine = panels && maps && dims;
    for (int64_t i = 0; i < masks && fine; i++) {
        if (!is_first(h, i))
            continue;
        fine = make_panel(h, i, &panels[n_panels]);
        dims_name(h->trainer->heads, i, dims[n_panels]);
        if (fine)
            add_maps(&panels[n_panels], dims[n_panels], abreast, &maps[abreast * n_panels]);
        n_panels++;
    }
    AttStatus status = fine ? att_heat_maps_write(h->ctx, path, maps, abreast * n_panels, abreast)
                            : att_no_memory(h->ctx);
    for (int64_t i = 0; i < n_panels; i++) {
        free(panels[i].cells);
        free(panels[i].names);
    }
    free(panels);
    free(maps);
    free(dims);
    return status;
}

// ---- what is left in a folder ------------------------------------------------------------------

// NULL: there is no folder. One that was made has room for the name.
static const char *within(const Heads *h, const char *name, char out[ATT_PATH_ROOM]) {
    return h->values->out && !att_path_in(h->ctx, h->values->out, name, out) ? out : NULL;
}

static AttStatus tell_all(Heads *h, const AttHeadSettings *settings) {
    char path[ATT_PATH_ROOM];
    print_table(h);
    AttStatus status = att_heads_logits(h->ctx, settings, h->data, &h->batch, stdout,
                                        within(h, "logits.svg", path));
    if (!status)
        status = att_heads_mixing(h->ctx, &h->model, stdout, within(h, "mixing.svg", path));
    if (!status)
        status = att_heads_spaces(h->ctx, &h->model, stdout, within(h, "spaces.svg", path));
    if (!status && h->values->out)
        status = att_file_write(h->ctx, within(h, "heads.csv", path), put_csv, h);
    if (!status && h->values->out)
        status = draw(h, within(h, "heads.svg", path));
    return status;
}

static AttStatus prune(const Heads *h) {
    const Values *values = h->values;
    print_table(h);
    AttHeadPruning wish = {h->share, values->out, values->source, stdout};
    return att_heads_prune(h->ctx, &h->model, &h->figures, &wish);
}

// ---- the work ----------------------------------------------------------------------------------

static AttStatus open_data(Heads *h) {
    const Values *values = h->values;
    int64_t batch = att_batch_fixed(h->trainer);
    batch = batch ? batch : 1;
    AttDataOptions options = {.paths = values->shared.data.at,
                              .n_paths = values->shared.data.count,
                              .objective = (AttObjective)values->shared.objective,
                              .seed = (uint64_t)values->seed};
    AttStatus status =
        att_batch_data(h->ctx, &options, h->trainer, &values->shared.dims, batch, &h->data);
    if (!status)
        status =
            att_batch_open(h->ctx, h->trainer, h->data, &values->shared.dims, batch, &h->batch);
    return status;
}

// A line of a terminal that renews itself, and is gone in the end.
static void show_progress(int64_t done, int64_t all) {
    if (done < all)
        fprintf(stderr, "\rexample %lld of %lld", (long long)done, (long long)all);
    else
        fprintf(stderr, "\r%*s\r", 48, "");
}

static AttStatus work(Heads *h) {
    AttStatus status = att_model_open(h->ctx, h->trainer, &h->model);
    if (!status)
        status = att_model_read(h->ctx, &h->model, h->values->weights);
    if (!status)
        status = open_data(h);
    if (!status && !h->share && h->values->out)
        status = att_folder_make(h->ctx, h->values->out);
    if (status)
        return status;
    int64_t examples = att_data_examples(h->data, ATT_PART_TRAIN);
    AttHeadSettings settings = {.model = &h->model,
                                .dims = h->values->shared.dims,
                                .examples =
                                    examples < h->values->examples ? examples : h->values->examples,
                                .losses = !h->values->quick && !h->share,
                                .progress = isatty(STDERR_FILENO) ? show_progress : NULL};
    status = att_heads_measure(h->ctx, &settings, h->data, &h->batch, &h->figures);
    if (!status)
        status = h->share > 0 ? prune(h) : tell_all(h, &settings);
    return status;
}

static void close_heads(Heads *h) {
    att_heads_forget(&h->figures);
    if (h->batch.trainer)
        att_batch_close(&h->batch);
    if (h->data)
        att_data_close(h->data);
    if (h->model.trainer)
        att_model_close(&h->model);
    att_context_free(h->ctx);
}

// "40%" or "0.4": more than nothing and less than all.
static bool read_share(const char *text, double *share) {
    char *end;
    *share = strtod(text, &end);
    if (end != text && *end == '%') {
        *share /= 100;
        end++;
    }
    return end != text && !*end && *share > 0 && *share < 1;
}

// What is wrong with the options for any program; NULL: nothing.
static const char *misuse(Values *values, double *share) {
    *share = 0;
    if (!values->prune)
        return values->source ? "--source goes with --prune" : NULL;
    if (!read_share(values->prune, share))
        return "--prune takes a share of the heads: 40% or 0.4";
    values->quick = true;
    return values->out && values->source
               ? NULL
               : "--prune needs --out FILE.safetensors and --source FILE.attn";
}

int att_command_heads(const AttTrainer *trainer, int argc, char **argv) {
    Values values = {.examples = 64};
    AttOptions options = {.values = &values};
    Heads h = {.values = &values, .trainer = trainer};
    int status;
    if (!att_options_read(&usage, argc, argv, &options, &status))
        return status;
    const char *wrong = misuse(&values, &h.share);
    if (wrong)
        status = att_command_fail(argv, ATT_EXIT_USAGE, "%s", wrong);
    else if (!trainer->heads)
        status = att_command_fail(argv, ATT_EXIT_DATA,
                                  "%s has no heads: nothing over pairs of positions and heads is "
                                  "taken in by an einsum",
                                  trainer->entry->entry);
    else if (!(h.ctx = att_context_new((int)values.shared.threads)))
        status = att_command_fail(argv, ATT_EXIT_DATA, "out of memory");
    else
        status = work(&h) ? att_command_report(argv, h.ctx) : ATT_EXIT_FINE;
    if (!status && fflush(stdout))
        status = att_command_fail(argv, ATT_EXIT_DATA, "%s", strerror(errno));
    close_heads(&h);
    att_options_free(&usage, &options);
    return status;
}
