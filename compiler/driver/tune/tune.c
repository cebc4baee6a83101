// SPDX-License-Identifier: Apache-2.0
// attc tune: looks for schedules that are faster on this machine than the default ones.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "driver/tune/tuning.h"

// ---- one shape ----------------------------------------------------------------------------------

// What is read is not overwritten by the picture.
static bool may_draw(const Tuner *tuner) {
    Options *options = tuner->options;
    const char *path = options->outputs.count ? options->outputs.at[0] : NULL;
    for (uint32_t i = 0; path && i < options->inputs.count; i++)
        if (att_argument_same_file(path, options->inputs.at[i].path)) {
            problem(options, "-o %s would overwrite the data %s", path, options->inputs.at[i].path);
            return false;
        }
    return !path || driver_may_write(options, path);
}

bool tuner_open(Tuner *tuner) {
    Arena *arena = tuner->options->session->arena;
    tuner->path = database_path(tuner->options); // what cannot be kept is not searched
    if (!tuner->path || !calls_open(tuner->options, tuner->target, &tuner->calls) ||
        !may_draw(tuner) || !tuner_choose_programs(tuner))
        return false;
    if (tuner_is_ended(tuner)) {
        diag_remark(tuner->options->session->diags, (Span){0},
                    "interrupted before the schedules of kernels were searched");
        return true;
    }
    tuner->spaces.arena = arena;
    for (uint32_t i = 0; i < tuner->calls.count; i++) {
        const Compilation *compiled = &tuner->calls.at[i].compiled;
        tune_spaces_add(&tuner->spaces, compiled->plan, &tuner->machine, compiled->typical);
    }
    return tuner_begin(tuner);
}

void tuner_close(Tuner *tuner) {
    tuner_end(tuner);
    calls_close(&tuner->calls);
}

static void tell(Tuner *tuner) {
    if (tuner->options->json)
        json_array_append_new(tuner->found, tuner_json(tuner));
    else
        tuner_print(tuner);
}

static bool find_and_tell(Tuner *tuner) {
    const Options *options = tuner->options;
    bool fine = tuner_find(tuner);
    fine = tuner_keep_measurements(tuner) && fine;
    tell(tuner);
    if (options->outputs.count)
        fine = tuner_picture(tuner, options->outputs.at[0]) && fine;
    return fine;
}

// With --json what came of it goes to the end of `found`. *interrupted: a signal has ended it.
static int tune_shape(Options *options, const Target *target, json_t *found, bool *interrupted) {
    Tuner *tuner = arena_new_of(options->session->arena, Tuner);
    tuner->options = options;
    tuner->found = found;
    tuner->target = target;
    tuner->machine = driver_machine(options, target);
    tuner->budget = options->budget;
    tuner->begun = pipeline_seconds();
    tuner->speed = 1;
    att_signals_hold(&tuner->held);
    tuner_pin(tuner);
    bool fine = tuner_open(tuner);
    if (fine && tuner->search)
        fine = find_and_tell(tuner);
    else if (fine)
        tell(tuner);
    tuner_close(tuner);
    tuner_unpin(tuner);
    att_signals_release(&tuner->held);
    *interrupted = tuner->signals > 0;
    return fine ? EXIT_FINE : EXIT_PROBLEM;
}

// ---- the command --------------------------------------------------------------------------------

// One object; with --shapes a list of them in one.
static void print_json(const Options *options, json_t *found) {
    if (options->shapes)
        report_print_json(json_pack("{s:O}", "shapes", found));
    else if (json_array_size(found))
        report_print_json(json_incref(json_array_get(found, 0)));
    json_decref(found);
}

static int tune_each(Options *options, const Target *target, const TuneShapes *shapes,
                     json_t *found) {
    int status = EXIT_FINE;
    bool interrupted = false;
    uint32_t i = 0;
    for (; i < shapes->count && status == EXIT_FINE && !interrupted; i++) {
        Options own = *options;
        own.session = session_fork(options->session);
        own.session->overrides = shapes->at[i].extents;
        if (!options->json && options->shapes)
            printf("%s\n", shapes->at[i].text);
        status = tune_shape(&own, target, found, &interrupted);
        session_join(options->session, own.session);
        session_free(own.session);
    }
    if (status != EXIT_FINE && options->shapes)
        diag_remark(options->session->diags, (Span){0}, "%s:%u: this shape cannot be tuned",
                    options->shapes, shapes->at[i - 1].line);
    if (i < shapes->count)
        diag_remark(options->session->diags, (Span){0},
                    "%s: %u of %u shapes are left out, from %s on",
                    interrupted ? "interrupted" : "ended by an error", shapes->count - i,
                    shapes->count, shapes->at[i].text);
    return status;
}

// A file, or what a link leads to: not the link.
static void remove_made(const char *path) {
    char *file = realpath(path, NULL);
    if (file)
        unlink(file);
    free(file);
}

// A picture has to be a file that can be written. An exit status, after a message.
static int check_picture(Options *options) {
    if (!options->outputs.count)
        return EXIT_FINE;
    const char *path = options->outputs.at[0], *end = strrchr(path, '.');
    if (options->outputs.count > 1 || !end || strcmp(end, ".svg") != 0)
        return usage_error("tune: -o takes one picture, FILE.svg");
    if (options->shapes)
        return usage_error("tune: -o is for one search, and --shapes makes several");
    bool there = !access(path, F_OK);
    FILE *file = fopen(path, "ae");
    if (!file)
        return problem(options, "cannot write %s: %s", path, strerror(errno));
    fclose(file);
    if (!there)
        remove_made(path); // nothing stays of it if the search fails
    return EXIT_FINE;
}

int command_tune(Options *options) {
    if (options->calibrate)
        return tune_calibrate(options);
    if (options->shapes && !strcmp(options->file, "-"))
        return usage_error("tune: with --shapes the source is read several times; it cannot be -");
    int status = check_picture(options);
    TuneShapes shapes = {0};
    const Target *target = status == EXIT_FINE ? driver_target(options) : NULL;
    if (!target || !tune_shapes_read(options, &shapes))
        return status == EXIT_FINE ? EXIT_PROBLEM : status;
    json_t *found = json_array();
    status = tune_each(options, target, &shapes, found);
    if (options->json)
        print_json(options, found);
    else
        json_decref(found);
    return status;
}
