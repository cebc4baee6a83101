// SPDX-License-Identifier: Apache-2.0
// Checkpoints: a safetensors file with the trained tensors under their names and the optimizer's
// states as optimizer.STATE.NAME; its notes say the step and the seed, which is all that the order
// of the data and random numbers are made of, and the settings. `latest` is a link to the last one
// that is whole; it is replaced in one stroke.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/loop/loop.h"

enum { FILE_ROOM = 64 };
#define NOTE_EPOCH "examples_of_an_epoch"
#define STEP_FORMAT "step-%08lld.safetensors"

// ---- what is in one ----------------------------------------------------------------------------
typedef struct {
    int64_t count;
    AttNamedTensor *tensors;
    char *names; // of states
} Content;

static AttNamedTensor named(const char *name, int rank, const int64_t *shape, const float *data) {
    AttNamedTensor tensor = {.name = name, .elem = ATT_F32, .rank = rank, .data = data};
    memcpy(tensor.shape, shape, (size_t)rank * sizeof *shape);
    return tensor;
}

// Of params and states; their data is where it is.
static AttStatus list_content(AttContext *ctx, const AttLearner *learner, Content *out) {
    const AttOptimizer *optimizer = learner->updater->optimizer;
    int64_t params = learner->model->trainer->n_params, states = optimizer->n_states;
    size_t most = (size_t)(params * (1 + states)) + 1;
    *out = (Content){0, calloc(most, sizeof *out->tensors), calloc(most, ATT_STATE_NAME_ROOM)};
    if (!out->tensors || !out->names)
        return att_no_memory(ctx);
    for (int64_t i = 0; i < params; i++) {
        const AttModelTensor *param = &learner->model->params[i];
        out->tensors[out->count++] = named(param->name, param->rank, param->shape, param->data);
    }
    for (int64_t i = 0; i < params; i++)
        for (int64_t k = 0; k < states; k++) {
            const AttModelTensor *param = &learner->model->params[i];
            char *name = out->names + (i * states + k) * ATT_STATE_NAME_ROOM;
            int64_t shape[ATT_RANK_MAX];
            int rank = att_optimizer_state(optimizer, k, param->rank, param->shape, shape);
            int length = snprintf(name, ATT_STATE_NAME_ROOM, ATT_STATE_PREFIX "%s.%s",
                                  att_optimizer_state_name(optimizer, k), param->name);
            if (length >= ATT_STATE_NAME_ROOM)
                return att_fail(ctx, ATT_ARGUMENT, "the name %.60s... is too long for a checkpoint",
                                param->name);
            out->tensors[out->count++] = named(name, rank, shape, learner->states[i][k]);
        }
    return ATT_OK;
}

static void free_content(Content *content) {
    free(content->tensors);
    free(content->names);
}

// ---- the folder --------------------------------------------------------------------------------
// The link must be there before older checkpoints go. Some file systems cannot: no matter.
static void sync_folder(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

static AttStatus point_latest(AttContext *ctx, const char *folder, const char *file) {
    char link[ATT_PATH_ROOM], latest[ATT_PATH_ROOM];
    if (att_path_in(ctx, folder, "latest.new", link) || att_path_in(ctx, folder, "latest", latest))
        return ATT_ARGUMENT;
    unlink(link);
    if (symlink(file, link) || rename(link, latest))
        return att_fail(ctx, ATT_IO, "cannot write %s: %s", latest, strerror(errno));
    sync_folder(folder);
    return ATT_OK;
}

// The step of a checkpoint's file; -1: it is none.
static long long step_of(const char *file) {
    char made[FILE_ROOM];
    long long step;
    if (sscanf(file, "step-%lld.safetensors", &step) != 1 || step < 0)
        return -1;
    snprintf(made, sizeof made, STEP_FORMAT, step);
    return strcmp(made, file) == 0 ? step : -1;
}

// How many are newer than a step, up to the last.
static int64_t count_newer(const char *folder, long long step, long long last) {
    DIR *listing = opendir(folder);
    int64_t count = 0;
    for (struct dirent *item; listing && (item = readdir(listing));)
        count += step_of(item->d_name) > step && step_of(item->d_name) <= last;
    if (listing)
        closedir(listing);
    return count;
}

// Later ones are of a run that was gone on with from an earlier step: they will be written anew.
static void remove_old(AttContext *ctx, const char *folder, long long last, int64_t keep) {
    DIR *listing = opendir(folder);
    char path[ATT_PATH_ROOM];
    for (struct dirent *item; listing && (item = readdir(listing));) {
        long long step = step_of(item->d_name);
        if (step >= 0 && count_newer(folder, step, last) >= keep &&
            !att_path_in(ctx, folder, item->d_name, path))
            unlink(path);
    }
    if (listing)
        closedir(listing);
}

AttStatus att_checkpoint_write(AttContext *ctx, const AttLearner *learner, const char *folder,
                               int64_t step, int64_t keep) {
    char file[FILE_ROOM], path[ATT_PATH_ROOM], number[32], examples[32], of[32], seed[32];
    snprintf(file, sizeof file, STEP_FORMAT, (long long)step);
    snprintf(number, sizeof number, "%lld", (long long)step);
    snprintf(examples, sizeof examples, "%lld",
             (long long)(step * learner->accumulate * learner->batch.n_examples));
    snprintf(of, sizeof of, "%lld", (long long)att_data_examples(learner->data, ATT_PART_TRAIN));
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)learner->seed);
    if (att_path_in(ctx, folder, file, path))
        return ATT_ARGUMENT;
    AttNote notes[] = {{"step", number},
                       {"examples", examples},
                       {NOTE_EPOCH, of},
                       {"seed", seed},
                       {"settings", learner->settings},
                       {"optimizer", learner->updater->optimizer->name},
                       {"entry", learner->model->trainer->entry->entry}};
    Content content;
    AttStatus status = list_content(ctx, learner, &content);
    if (!status)
        status = att_safetensors_write(ctx, path, content.tensors, content.count, notes,
                                       sizeof notes / sizeof notes[0]);
    free_content(&content);
    if (!status)
        status = point_latest(ctx, folder, file);
    if (!status)
        remove_old(ctx, folder, step, keep);
    return status;
}

// ---- going on ----------------------------------------------------------------------------------
static AttStatus take(AttContext *ctx, const char *path, const AttTensorFile *file,
                      const Content *content) {
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < content->count && !status; i++) {
        const AttNamedTensor *wanted = &content->tensors[i];
        const AttNamedTensor *found = att_safetensors_find(file, wanted->name);
        if (!found)
            return att_fail(ctx, ATT_FORMAT, "%s: there is no tensor '%s'", path, wanted->name);
        status = att_tensor_expect(ctx, path, found, wanted->rank, wanted->shape);
        if (!status && found->bytes)
            memcpy((void *)wanted->data, found->data, (size_t)found->bytes);
    }
    return status;
}

// Other data would be gone on with unnoticed.
static AttStatus check_data(AttContext *ctx, const char *path, const AttTensorFile *file,
                            const AttData *data) {
    const char *note = att_safetensors_note(file, NOTE_EPOCH);
    long long count = att_data_examples(data, ATT_PART_TRAIN);
    if (!note || strtoll(note, NULL, 10) == count)
        return ATT_OK;
    return att_fail(ctx, ATT_ARGUMENT,
                    "--resume: the data makes %lld examples and made %.20s when %s was written",
                    count, note, path);
}

AttStatus att_checkpoint_read(AttContext *ctx, AttLearner *learner, const char *folder,
                              int64_t *step) {
    char path[ATT_PATH_ROOM], *end = NULL;
    Content content = {0};
    AttTensorFile file;
    if (att_path_in(ctx, folder, "latest", path))
        return ATT_ARGUMENT;
    struct stat found;
    if (stat(path, &found) && errno == ENOENT)
        return att_fail(ctx, ATT_IO,
                        "%s: points to a file that is not there; make it a link to another "
                        "checkpoint of the folder",
                        path);
    AttStatus status = att_safetensors_open(ctx, path, &file);
    if (!status)
        status = list_content(ctx, learner, &content);
    if (!status)
        status = take(ctx, path, &file, &content);
    const char *number = status ? NULL : att_safetensors_note(&file, "step");
    if (!status)
        *step = number ? strtoll(number, &end, 10) : -1;
    if (!status && (!number || *end || end == number || *step < 0))
        status = att_fail(ctx, ATT_FORMAT, "%s: its notes do not say a step", path);
    if (!status)
        status = check_data(ctx, path, &file, learner->data);
    free_content(&content);
    att_safetensors_close(&file);
    return status;
}
