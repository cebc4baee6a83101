// SPDX-License-Identifier: Apache-2.0
// What several commands start with: a target, how passes run for it, and the program.
#include "driver/driver.h"

const Target *driver_target(Options *options) {
    const char *why = NULL;
    const Target *target = options->target ? options->target : target_host(&why);
    if (options->chosen)
        return options->chosen;
    if (!target)
        problem(options, "no target fits this machine: %s", why);
    else
        options->chosen = schedules_read(options) ? driver_with_machine(options, target) : NULL;
    return options->chosen;
}

// What is chosen for the memory limit is chosen for programs as they are by default.
static const ProgramSchedule *choice_of(const Options *options) {
    static const ProgramSchedule by_default = {0};
    return options->memory_limit ? &by_default : options->choice;
}

PipelineOptions driver_passes(const Options *options, const Target *target, PipelineStop stop) {
    Machine *machine = NULL; // of the oracle
    if (target) {
        machine = arena_new_of(options->session->arena, Machine);
        *machine = driver_machine(options, target);
    }
    ScheduleWish wish = options->wish;
    if (target && options->known)
        wish.source = schedules_source(options, target, machine);
    return (PipelineOptions){
        .entry = options->entry,
        .machine = machine,
        .gradient = options->grad ? &options->gradient : NULL,
        .decode = options->decode,
        .plan = options->plan,
        .rows = options->rows,
        .piece = options->piece,
        .wish = wish,
        .choice = choice_of(options),
        .no_materialize = options->no_materialize,
        .stop = stop,
        .verify = options->verify_passes,
        .time_passes = options->time_passes,
    };
}

Program *driver_front(Options *options) {
    double begun = pipeline_seconds();
    Program *program = pipeline_front(options->session, options->file);
    if (program && options->time_passes)
        pipeline_print_time("front", begun, true);
    for (uint32_t i = 0; i < options->inputs.count; i++)
        vec_push(options->session->arena, &options->gradient.given, options->inputs.at[i].name);
    return program;
}

void driver_tell_entry(Options *options, const Compilation *compiled) {
    const Program *program = compiled->program;
    const Def *entry = program_find_def(program, compiled->built->entry);
    uint32_t of_file = 0;
    for (uint32_t i = 0; i < program->defs.count; i++)
        of_file += !program->defs.at[i]->is_optimizer &&
                   program->defs.at[i]->span.file == entry->span.file;
    if (options->entry.entry || of_file == 1)
        return;
    diag_remark(options->session->diags, (Span){0},
                "the entry is %s, the last of %u defs; --entry takes another", entry->name.name,
                of_file);
}

bool driver_may_write(Options *options, const char *path) {
    const Sources *sources = options->session->sources;
    const Source *source = sources_get(sources, sources_find(sources, path));
    if (source)
        problem(options, "-o %s would overwrite the source %s", path, source->path);
    return !source;
}
