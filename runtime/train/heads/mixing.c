// SPDX-License-Identifier: Apache-2.0
// What mixes heads, and how much heads have in common.
//
//     P_l[h_k, h], P_w[h, h_v]   as pictures, and their product; condition numbers, effective ranks
//     P_q[d, d_k, h]             the space of d that each head reads: for each two heads the mean
//                                square of the cosines of the principal angles between their spaces
//                                (Björck and Golub 1973), 1 where they are the same, d_k / d where
//                                they are random
#include "train/heads/heads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *title;
    const char *row_dim, *column_dim;
    int64_t rows, columns;
    double *cells;
} Matrix;
typedef struct {
    AttContext *ctx;
    const AttModel *model;
    Matrix *at;
    int64_t count, room;
} Matrices;

static void free_matrices(Matrices *list) {
    for (int64_t i = 0; i < list->count; i++) {
        free(list->at[i].title);
        free(list->at[i].cells);
    }
    free(list->at);
}

// One of zeros at the end of the list; NULL after a message.
static Matrix *add_matrix(Matrices *list, const char *title, const char *more, int64_t rows,
                          int64_t columns) {
    if (list->count == list->room) {
        int64_t room = list->room ? 2 * list->room : 16;
        Matrix *grown = realloc(list->at, sizeof *grown * (size_t)room);
        list->at = grown ? grown : list->at;
        list->room = grown ? room : list->room;
    }
    size_t length = strlen(title) + strlen(more) + 1;
    char *name = malloc(length);
    double *cells = calloc((size_t)(rows * columns), sizeof *cells);
    if (list->count == list->room || !name || !cells) {
        free(name);
        free(cells);
        att_no_memory(list->ctx);
        return NULL;
    }
    snprintf(name, length, "%s%s", title, more);
    list->at[list->count] = (Matrix){name, "", "", rows, columns, cells};
    return &list->at[list->count++];
}

// The group of a dim of a parameter; -1: it is none of heads.
static int64_t group_of(const AttTrainer *trainer, int64_t param, int64_t dim) {
    const AttHeads *heads = trainer->heads;
    for (int64_t g = 0; g < heads->n_groups; g++)
        for (int64_t k = 0; k < heads->groups[g].n_params && heads->groups[g].n_masks; k++)
            if (heads->groups[g].params[k].of == trainer->params[param].input &&
                heads->groups[g].params[k].dim == dim)
                return g;
    return -1;
}

// ---- matrices that mix -------------------------------------------------------------------------

static bool mixes(const AttModel *model, int64_t param) {
    return model->params[param].rank == 2 && group_of(model->trainer, param, 0) >= 0 &&
           group_of(model->trainer, param, 1) >= 0;
}

static AttStatus add_param(Matrices *list, int64_t param) {
    const AttModelTensor *tensor = &list->model->params[param];
    const AttTrainer *trainer = list->model->trainer;
    Matrix *matrix = add_matrix(list, tensor->name, "", tensor->shape[0], tensor->shape[1]);
    if (!matrix)
        return ATT_MEMORY;
    matrix->row_dim = trainer->heads->groups[group_of(trainer, param, 0)].dim;
    matrix->column_dim = trainer->heads->groups[group_of(trainer, param, 1)].dim;
    for (int64_t i = 0; i < tensor->count; i++)
        matrix->cells[i] = tensor->data[i];
    return ATT_OK;
}

// Two that have the heads between them in common: of the first the dim at place `a`, of the second
// that at `b`. The first has the heads that come first.
typedef struct {
    int64_t first, second, a, b;
} Chain;

static bool find_chain(const AttModel *model, int64_t p, int64_t q, Chain *out) {
    for (int64_t a = 0; a < 2; a++)
        for (int64_t b = 0; b < 2; b++) {
            int64_t before = group_of(model->trainer, p, 1 - a);
            int64_t after = group_of(model->trainer, q, 1 - b);
            if (group_of(model->trainer, p, a) != group_of(model->trainer, q, b) || before == after)
                continue;
            *out = before < after ? (Chain){p, q, a, b} : (Chain){q, p, b, a};
            return true;
        }
    return false;
}

static AttStatus add_product(Matrices *list, Chain chain) {
    const AttModel *model = list->model;
    const AttModelTensor *p = &model->params[chain.first], *q = &model->params[chain.second];
    const AttHeads *heads = model->trainer->heads;
    const char *leaf = strrchr(q->name, '.');
    char more[ATT_SHOWN_ROOM];
    snprintf(more, sizeof more, " %s", leaf ? leaf + 1 : q->name);
    int64_t rows = p->shape[1 - chain.a], columns = q->shape[1 - chain.b],
            inner = p->shape[chain.a];
    Matrix *matrix = add_matrix(list, p->name, more, rows, columns);
    if (!matrix)
        return ATT_MEMORY;
    matrix->row_dim = heads->groups[group_of(model->trainer, chain.first, 1 - chain.a)].dim;
    matrix->column_dim = heads->groups[group_of(model->trainer, chain.second, 1 - chain.b)].dim;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t k = 0; k < inner; k++)
                matrix->cells[i * columns + j] +=
                    (double)p->data[chain.a ? i * p->shape[1] + k : k * p->shape[1] + i] *
                    q->data[chain.b ? j * q->shape[1] + k : k * q->shape[1] + j];
    return ATT_OK;
}

static AttStatus collect_mixing(Matrices *list) {
    const AttModel *model = list->model;
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < model->trainer->n_params && !status; i++) {
        if (!mixes(model, i))
            continue;
        status = add_param(list, i);
        Chain chain;
        for (int64_t k = 0; k < i && !status; k++)
            if (mixes(model, k) && find_chain(model, k, i, &chain))
                status = add_product(list, chain);
    }
    return status;
}

static AttStatus tell_mixing(const Matrices *list, FILE *out) {
    for (int64_t i = 0; i < list->count; i++) {
        const Matrix *matrix = &list->at[i];
        int64_t least = matrix->rows < matrix->columns ? matrix->rows : matrix->columns;
        size_t bytes = sizeof(double) * (size_t)(matrix->rows * matrix->columns);
        double *work = malloc(bytes), *values = malloc(sizeof(double) * (size_t)least);
        if (work && values) {
            memcpy(work, matrix->cells, bytes);
            att_singular_values(matrix->rows, matrix->columns, work, values);
            fprintf(out, "%s[%s, %s]: condition number %.4g, effective rank %.3g of %lld\n",
                    matrix->title, matrix->row_dim, matrix->column_dim,
                    values[0] / values[least - 1], att_effective_rank(least, values),
                    (long long)least);
        }
        bool fine = work && values;
        free(work);
        free(values);
        if (!fine)
            return att_no_memory(list->ctx);
    }
    return ATT_OK;
}

// ---- spaces of heads ---------------------------------------------------------------------------

// A tensor of one head dim and two others: of these the larger is that of the space.
typedef struct {
    int64_t heads, space, width; // extents
    int64_t head_dim, space_dim; // places
} Spaces;

static bool has_spaces(const AttModel *model, int64_t param, Spaces *out) {
    const AttModelTensor *tensor = &model->params[param];
    int64_t head = -1;
    for (int64_t i = 0; i < tensor->rank; i++)
        if (group_of(model->trainer, param, i) >= 0) {
            if (head >= 0)
                return false;
            head = i;
        }
    if (tensor->rank != 3 || head < 0 || tensor->shape[head] < 2)
        return false;
    int64_t a = head == 0 ? 1 : 0, b = 3 - head - a;
    int64_t space = tensor->shape[a] >= tensor->shape[b] ? a : b, width = 3 - head - space;
    *out = (Spaces){tensor->shape[head], tensor->shape[space], tensor->shape[width], head, space};
    return true;
}

// Head h's part of the tensor, space x width.
static void take_head(const AttModelTensor *tensor, const Spaces *s, int64_t h, double *out) {
    int64_t at[3];
    at[s->head_dim] = h;
    int64_t width_dim = 3 - s->head_dim - s->space_dim;
    for (int64_t i = 0; i < s->space; i++)
        for (int64_t k = 0; k < s->width; k++) {
            at[s->space_dim] = i;
            at[width_dim] = k;
            out[i * s->width + k] =
                tensor->data[(at[0] * tensor->shape[1] + at[1]) * tensor->shape[2] + at[2]];
        }
}

// Of orthonormal columns: the squares of the cosines add up to the squares of all products.
static double similarity(const double *a, const double *b, const Spaces *s) {
    double sum = 0;
    for (int64_t i = 0; i < s->width; i++)
        for (int64_t j = 0; j < s->width; j++) {
            double dot = 0;
            for (int64_t k = 0; k < s->space; k++)
                dot += a[k * s->width + i] * b[k * s->width + j];
            sum += dot * dot;
        }
    return sum / (double)s->width;
}

static AttStatus add_spaces(Matrices *list, int64_t param, const Spaces *s) {
    const AttModelTensor *tensor = &list->model->params[param];
    const AttTrainer *trainer = list->model->trainer;
    size_t each = (size_t)(s->space * s->width);
    double *bases = malloc(sizeof *bases * each * (size_t)s->heads);
    Matrix *matrix = add_matrix(list, tensor->name, "", s->heads, s->heads);
    if (!bases || !matrix) {
        free(bases);
        return att_no_memory(list->ctx);
    }
    matrix->row_dim = matrix->column_dim =
        trainer->heads->groups[group_of(trainer, param, s->head_dim)].dim;
    for (int64_t h = 0; h < s->heads; h++) {
        take_head(tensor, s, h, bases + each * (size_t)h);
        att_orthonormal_columns(s->space, s->width, bases + each * (size_t)h);
    }
    for (int64_t i = 0; i < s->heads; i++)
        for (int64_t j = 0; j < s->heads; j++)
            matrix->cells[i * s->heads + j] =
                similarity(bases + each * (size_t)i, bases + each * (size_t)j, s);
    free(bases);
    return ATT_OK;
}

static void tell_spaces(const Matrix *matrix, const Spaces *s, FILE *out) {
    double sum = 0, most = -1;
    int64_t first = 0, second = 1, n = s->heads;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            double cell = matrix->cells[i * n + j];
            sum += cell;
            if (cell > most) {
                most = cell;
                first = i;
                second = j;
            }
        }
    fprintf(out,
            "%s: spaces of %s are alike by %.3g in the mean (%.3g at random), %lld and %lld most, "
            "by %.3g\n",
            matrix->title, matrix->row_dim, 2 * sum / (double)(n * (n - 1)),
            (double)s->width / (double)s->space, (long long)first, (long long)second, most);
}

static AttStatus collect_spaces(Matrices *list, FILE *out) {
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < list->model->trainer->n_params && !status; i++) {
        Spaces s;
        if (!has_spaces(list->model, i, &s))
            continue;
        status = add_spaces(list, i, &s);
        if (!status)
            tell_spaces(&list->at[list->count - 1], &s, out);
    }
    return status;
}

// ---- pictures ----------------------------------------------------------------------------------

static AttStatus draw(const Matrices *list, bool has_signs, int64_t abreast, const char *path) {
    AttHeatMap *maps = calloc((size_t)list->count, sizeof *maps);
    if (!maps)
        return att_no_memory(list->ctx);
    for (int64_t i = 0; i < list->count; i++) {
        const Matrix *matrix = &list->at[i];
        maps[i] = (AttHeatMap){.title = matrix->title,
                               .rows = matrix->rows,
                               .columns = matrix->columns,
                               .cells = matrix->cells,
                               .row_title = matrix->row_dim,
                               .column_title = matrix->column_dim,
                               .has_signs = has_signs};
    }
    AttStatus status = att_heat_maps_write(list->ctx, path, maps, list->count, abreast);
    free(maps);
    return status;
}

AttStatus att_heads_mixing(AttContext *ctx, const AttModel *model, FILE *report, const char *path) {
    Matrices list = {ctx, model, NULL, 0, 0};
    AttStatus status = collect_mixing(&list);
    if (!status)
        status = tell_mixing(&list, report);
    if (!status && path && list.count)
        status = draw(&list, true, 3, path);
    free_matrices(&list);
    return status;
}

AttStatus att_heads_spaces(AttContext *ctx, const AttModel *model, FILE *report, const char *path) {
    Matrices list = {ctx, model, NULL, 0, 0};
    AttStatus status = collect_spaces(&list, report);
    if (!status && path && list.count)
        status = draw(&list, false, 4, path);
    free_matrices(&list);
    return status;
}
