// SPDX-License-Identifier: Apache-2.0
// A model without its least important heads, as weights and as text.
//
// One text has one extent for each dim, so the same number of heads leaves each attention, and
// where heads talk the same share of each of their dims. Which ones is chosen for each group (of
// one attention, or of several that share tensors) by the sum of importances in it. Parameters lose
// these positions; the rest of the text stays.
#include "train/heads/heads.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// What stays of the heads of a group.
typedef struct {
    int64_t extent, count;
    int64_t *kept; // ascending, `count` of them; all of them where the group cannot lose any
} Kept;

typedef struct {
    AttContext *ctx;
    const AttHeads *heads;
    const AttModel *model;
    const AttHeadFigures *figures;
    Kept *kept; // by group
    AttNamedTensor *tensors;
    void **owned; // by tensor: what is not the model's
} Pruning;

// ---- which heads -------------------------------------------------------------------------------

static int64_t extent_of(const AttHeads *heads, const AttHeadGroup *group) {
    const AttHeadAxis *axis = &group->masks[0];
    const AttTensor *tensor = &heads->masked->tensors[heads->masks[axis->of].input];
    return heads->masked->dims[tensor->dims[axis->dim]].extent;
}

// Why heads of this dim stay: in one of its groups they cannot be removed. NULL: they can.
static const char *fault_of(const AttHeads *heads, const char *dim) {
    for (int64_t i = 0; i < heads->n_groups; i++)
        if (strcmp(heads->groups[i].dim, dim) == 0 && heads->groups[i].fault)
            return heads->groups[i].fault;
    return NULL;
}

static double importance_of(const Pruning *p, const AttHeadGroup *group, int64_t position) {
    double sum = 0;
    for (int64_t i = 0; i < p->figures->count; i++)
        for (int64_t k = 0; k < group->n_masks; k++)
            if (p->figures->at[i].mask == group->masks[k].of &&
                p->figures->at[i].position == position)
                sum += p->figures->at[i].importance;
    return sum;
}

// The least important goes, of equal ones the last.
static void drop_one(const Pruning *p, const AttHeadGroup *group, Kept *kept) {
    int64_t least = 0;
    for (int64_t i = 1; i < kept->count; i++)
        if (importance_of(p, group, kept->kept[i]) <= importance_of(p, group, kept->kept[least]))
            least = i;
    kept->count--;
    memmove(&kept->kept[least], &kept->kept[least + 1],
            sizeof *kept->kept * (size_t)(kept->count - least));
}

static AttStatus choose(Pruning *p, double share, bool *any) {
    for (int64_t g = 0; g < p->heads->n_groups; g++) {
        const AttHeadGroup *group = &p->heads->groups[g];
        Kept *kept = &p->kept[g];
        if (fault_of(p->heads, group->dim))
            continue;
        kept->extent = kept->count = extent_of(p->heads, group);
        kept->kept = malloc(sizeof *kept->kept * (size_t)kept->extent);
        if (!kept->kept)
            return att_no_memory(p->ctx);
        for (int64_t i = 0; i < kept->extent; i++)
            kept->kept[i] = i;
        // A share that was written as 0.3 is not quite that.
        int64_t drop = (int64_t)floor(share * (double)kept->extent + 1e-9);
        drop = drop < kept->extent ? drop : kept->extent - 1;
        for (int64_t i = 0; i < drop; i++)
            drop_one(p, group, kept);
        *any = *any || drop > 0;
    }
    return ATT_OK;
}

// ---- weights -----------------------------------------------------------------------------------

// Keeps some positions of one dim; the result is new.
static void *cut_dim(const void *data, size_t size, int rank, int64_t *shape, int64_t dim,
                     const Kept *kept) {
    size_t outer = 1, inner = size;
    for (int64_t i = 0; i < rank; i++)
        if (i < dim)
            outer *= (size_t)shape[i];
        else if (i > dim)
            inner *= (size_t)shape[i];
    char *out = malloc(outer * (size_t)kept->count * inner + 1);
    for (size_t o = 0; out && o < outer; o++)
        for (int64_t i = 0; i < kept->count; i++)
            memcpy(out + (o * (size_t)kept->count + (size_t)i) * inner,
                   (const char *)data + (o * (size_t)shape[dim] + (size_t)kept->kept[i]) * inner,
                   inner);
    shape[dim] = kept->count;
    return out;
}

static AttStatus cut_tensor(Pruning *p, int64_t number, int64_t dim, const Kept *kept) {
    AttNamedTensor *tensor = &p->tensors[number];
    void *cut =
        cut_dim(tensor->data, att_elem_bytes(tensor->elem), tensor->rank, tensor->shape, dim, kept);
    free(p->owned[number]);
    tensor->data = p->owned[number] = cut;
    return cut ? ATT_OK : att_no_memory(p->ctx);
}

static int64_t param_at(const AttTrainer *trainer, int64_t input) {
    int64_t i = 0;
    while (i < trainer->n_params && trainer->params[i].input != input)
        i++;
    return i;
}

static AttStatus cut_tensors(Pruning *p) {
    const AttTrainer *trainer = p->model->trainer;
    for (int64_t i = 0; i < trainer->n_params; i++) {
        const AttModelTensor *param = &p->model->params[i];
        p->tensors[i] = (AttNamedTensor){
            .name = param->name, .elem = ATT_F32, .rank = param->rank, .data = param->data};
        memcpy(p->tensors[i].shape, param->shape, sizeof param->shape);
    }
    AttStatus status = ATT_OK;
    for (int64_t g = 0; g < p->heads->n_groups; g++) {
        const AttHeadGroup *group = &p->heads->groups[g];
        for (int64_t k = 0; k < group->n_params && p->kept[g].kept && !status; k++)
            status = cut_tensor(p, param_at(trainer, group->params[k].of), group->params[k].dim,
                                &p->kept[g]);
    }
    return status;
}

// ---- text --------------------------------------------------------------------------------------

static int64_t extent_after(const Pruning *p, const AttSourcePiece *piece) {
    for (int64_t g = 0; piece->dim && g < p->heads->n_groups; g++)
        if (p->kept[g].kept && strcmp(p->heads->groups[g].dim, piece->dim) == 0)
            return p->kept[g].count;
    return piece->value;
}

static bool put_source(AttFile *file, const void *arg) {
    const Pruning *p = arg;
    for (int64_t i = 0; i < p->heads->n_source; i++) {
        const AttSourcePiece *piece = &p->heads->source[i];
        char number[32] = "";
        if (piece->value >= 0)
            snprintf(number, sizeof number, "%lld", (long long)extent_after(p, piece));
        if (!att_file_put(file, piece->before, strlen(piece->before)) ||
            !att_file_put(file, number, strlen(number)))
            return false;
    }
    return true;
}

// ---- the model ---------------------------------------------------------------------------------

// For each dim, once: what stays, or why all of it does.
static void tell(const Pruning *p, FILE *out) {
    for (int64_t g = 0; g < p->heads->n_groups; g++) {
        const AttHeadGroup *group = &p->heads->groups[g];
        if (p->kept[g].kept && group->n_masks) {
            fprintf(out, "%s keeps of %s", p->heads->masks[group->masks[0].of].name, group->dim);
            for (int64_t i = 0; i < p->kept[g].count; i++)
                fprintf(out, " %lld", (long long)p->kept[g].kept[i]);
            fputc('\n', out);
        } else if (group->fault) {
            fprintf(out, "all of %s stays: %s\n", group->dim, group->fault);
        }
    }
}

static AttStatus refuse(const Pruning *p, double share) {
    for (int64_t g = 0; g < p->heads->n_groups; g++)
        if (p->heads->groups[g].fault)
            return att_fail(p->ctx, ATT_ARGUMENT, "no heads of %s can be removed: %s",
                            p->heads->groups[g].dim, p->heads->groups[g].fault);
    return att_fail(p->ctx, ATT_ARGUMENT, "%g%% of %lld heads is none", 100 * share,
                    (long long)extent_of(p->heads, &p->heads->groups[0]));
}

static AttStatus prune(Pruning *p, const AttHeadPruning *wish) {
    bool any = false;
    AttStatus status = choose(p, wish->share, &any);
    if (!status && !any)
        status = refuse(p, wish->share);
    if (!status)
        status = cut_tensors(p);
    if (!status)
        status = att_safetensors_write(p->ctx, wish->weights, p->tensors,
                                       p->model->trainer->n_params, NULL, 0);
    if (!status)
        status = att_file_write(p->ctx, wish->source, put_source, p);
    if (!status)
        tell(p, wish->report);
    return status;
}

AttStatus att_heads_prune(AttContext *ctx, const AttModel *model, const AttHeadFigures *figures,
                          const AttHeadPruning *wish) {
    const AttHeads *heads = model->trainer->heads;
    size_t count = (size_t)model->trainer->n_params + 1;
    if (heads->import)
        return att_fail(ctx, ATT_ARGUMENT,
                        "the source imports %s, and a pruned model is one text: put both in one "
                        "file and build again",
                        heads->import);
    Pruning p = {.ctx = ctx, .heads = heads, .model = model, .figures = figures};
    p.kept = calloc((size_t)heads->n_groups + 1, sizeof *p.kept);
    p.tensors = calloc(count, sizeof *p.tensors);
    p.owned = calloc(count, sizeof *p.owned);
    AttStatus status = p.kept && p.tensors && p.owned ? prune(&p, wish) : att_no_memory(ctx);
    for (int64_t g = 0; p.kept && g < heads->n_groups; g++)
        free(p.kept[g].kept);
    for (size_t i = 0; p.owned && i < count; i++)
        free(p.owned[i]);
    free(p.kept);
    free(p.tensors);
    free(p.owned);
    return status;
}
