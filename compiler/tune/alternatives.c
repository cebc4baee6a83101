// SPDX-License-Identifier: Apache-2.0
// Programs that are tuned where they run, which have no compiler there: what may be the fastest
// schedule is compiled in, and the runtime chooses (runtime/train/loop/tune.c).
//
//     launch C(A, B, C)          launch C(A, B, C)      choice 1, alternative 0
//                         ->     launch C_1(A, B, C)    choice 1, alternative 1
//
// The program is lowered once for each alternative, with one schedule for each site, as candidates
// of the tuner are, and what differs from the launches of a group is put behind them. Groups whose
// alternatives are the same kernels, as those of equal layers, are one choice.
//
// Requires: a program without alternatives. Ensures: without choices it runs as before.
#include "tune/tune.h"

#include <math.h>
#include <string.h>

// Groups that are predicted to take less of the program's time have no alternatives, and schedules
// that are predicted to be slower than the fastest by more are none. They are APART from all others
// by the distance of the tuner: a factor of two in one number, or as much in several, or operands
// that are packed: what is nearer is about as fast. All three are chosen.
static const double SHARE_LEAST = 0.01, NEAR = 1.25, APART = 1;

// The launches of a group in one of the programs.
typedef struct {
    Launch *at;
    uint32_t count;
} GroupLaunches;

// What a site has, and what it may have besides.
typedef struct {
    double share; // of the program's predicted time
    const Kernel *own;
    ScheduleList others;
} Site;

typedef struct {
    Arena *arena; // while alternatives are added
    TileProgram *program;
    const Machine *machine;
    const int64_t *extents;
    const ScheduleWish *wish;
    uint32_t most;
    TuneSpaces spaces;
    Site *sites;        // of the spaces
    FormTable *kernels; // -> index into program->kernels
    FormTable *choices; // kernels of all alternatives of a group -> number of the choice
} Adder;

static GroupLaunches launches_at(const TileProgram *program, uint32_t first) {
    GroupLaunches run = {&program->launches.at[first], 0};
    while (first + run.count < program->launches.count && run.at[run.count].group == run.at->group)
        run.count++;
    return run;
}

// ---- which schedules ----------------------------------------------------------------------------

// Of a launch of the group, or of what runs in its place at these extents.
static void note_site(Adder *a, const Launch *launch, double seconds) {
    uint32_t at = tune_spaces_find(&a->spaces, &launch->site);
    if (at == a->spaces.at.count)
        return;
    Site *site = &a->sites[at];
    site->own = a->program->kernels.at[launch->kernel];
    site->share += seconds;
}

// What is for other sizes of run-time extents counts as what runs in its place. Returns the time of
// the group.
static double note_sites(Adder *a, const GroupLaunches *run, Arena *arena) {
    double all = 0, *seconds = arena_array(arena, double, run->count);
    for (uint32_t i = 0; i < run->count; i++) {
        const Launch *launch = &run->at[i];
        if (launch_runs(launch, a->extents))
            seconds[i] = launch_seconds(launch, a->program->kernels.at[launch->kernel], a->extents,
                                        a->machine);
        all += seconds[i];
    }
    for (uint32_t i = 0; i < run->count; i++)
        note_site(a, &run->at[i], launch_runs(&run->at[i], a->extents) ? seconds[i] : all);
    return all;
}

static void find_sites(Adder *a) {
    Arena *arena = arena_new();
    double all = 0;
    a->sites = arena_array(a->arena, Site, a->spaces.at.count + 1);
    for (uint32_t i = 0; i < a->program->launches.count;) {
        GroupLaunches run = launches_at(a->program, i);
        all += note_sites(a, &run, arena);
        i += run.count;
    }
    for (uint32_t i = 0; i < a->spaces.at.count && all > 0; i++)
        a->sites[i].share /= all;
    arena_free(arena);
}

static bool is_apart(const Schedule *schedule, const Site *site) {
    bool apart = schedule_distance(schedule, &site->own->schedule) >= APART;
    for (uint32_t i = 0; i < site->others.count && apart; i++)
        apart = schedule_distance(schedule, &site->others.at[i]) >= APART;
    return apart;
}

// The fastest that is near, and is apart from what there is; NULL: there is none left.
static const Schedule *find_next(const ScheduleList *numbers, const Site *site) {
    double least = INFINITY;
    for (uint32_t i = 0; i < numbers->count; i++)
        least = fmin(least, numbers->at[i].seconds);
    const Schedule *next = NULL;
    for (uint32_t i = 0; i < numbers->count; i++) {
        const Schedule *s = &numbers->at[i];
        if (s->kind == site->own->schedule.kind && s->seconds <= NEAR * least &&
            (!next || s->seconds < next->seconds) && is_apart(s, site))
            next = s;
    }
    return next;
}

// Returns how many a site has at most.
static uint32_t choose_schedules(Adder *a) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < a->spaces.at.count; i++) {
        const ScheduleList *numbers = &a->spaces.at.at[i].numbers;
        const Schedule *next;
        Site *site = &a->sites[i];
        while (site->own && site->share >= SHARE_LEAST && site->others.count < a->most &&
               (next = find_next(numbers, site)))
            vec_push(a->arena, &site->others, *next);
        most = site->others.count > most ? site->others.count : most;
    }
    return most;
}

// ---- programs -----------------------------------------------------------------------------------

typedef struct {
    const Adder *adder;
    uint32_t number; // from 1: of the others of each site
} Alternative;

// Sites that have no such alternative are as they are.
static const Schedule *find_alternative(const void *of, const ScheduleSite *site, Arena *arena) {
    const Alternative *alternative = of;
    const Adder *a = alternative->adder;
    const ScheduleSource *source = &a->wish->source;
    uint32_t i = tune_spaces_find(&a->spaces, site);
    if (i < a->spaces.at.count && alternative->number <= a->sites[i].others.count)
        return &a->sites[i].others.at[alternative->number - 1];
    return source->find ? source->find(source->known, site, arena) : NULL;
}

static TileProgram *lower_alternative(const Adder *a, uint32_t number) {
    Alternative alternative = {a, number};
    ScheduleWish wish = *a->wish;
    wish.source = (ScheduleSource){.find = find_alternative, .known = &alternative};
    TileProgram *made = tile_lower(a->program->plan, a->machine, a->extents, &wish);
    if (!made)
        ice("tune_add_alternatives: a program that was lowered cannot be lowered once more");
    return made;
}

static bool is_taken(const void *of_program, const char *name) {
    const TileProgram *program = of_program;
    for (uint32_t i = 0; i < program->kernels.count; i++)
        if (!strcmp(program->kernels.at[i]->name, name))
            return true;
    return false;
}

// The index of the kernel, or of one that is equal, in the program; `index` where there is none.
static uint32_t kernel_known(Adder *a, const Kernel *kernel, uint32_t index) {
    Arena *arena = arena_new();
    KernelForm form = kernel_form(arena, kernel);
    void **known = form_table_at(a->kernels, &form);
    arena_free(arena);
    if (!*known)
        *known = arena_copy(a->arena, &index, sizeof index);
    return *(uint32_t *)*known;
}

static uint32_t kernel_here(Adder *a, Kernel *kernel) {
    Arena *lasting = a->program->plan->fusion->graph->arena;
    uint32_t count = a->program->kernels.count, index = kernel_known(a, kernel, count);
    if (index < count)
        return index;
    if (is_taken(a->program, kernel->name))
        kernel->name = text_numbered(lasting, kernel->name, is_taken, a->program);
    vec_push(lasting, &a->program->kernels, kernel);
    return index;
}

// ---- launches -----------------------------------------------------------------------------------

static bool same_kernels(const GroupLaunches *a, const GroupLaunches *b) {
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->at[i].kernel != b->at[i].kernel || a->at[i].most != b->at[i].most)
            return false;
    return true;
}

// Those that differ from each other, the group's own first.
static uint32_t drop_equal(GroupLaunches *runs, uint32_t count) {
    uint32_t left = 1;
    for (uint32_t i = 1; i < count; i++) {
        uint32_t k = 0;
        while (k < left && !same_kernels(&runs[k], &runs[i]))
            k++;
        if (k == left)
            runs[left++] = runs[i];
    }
    return left;
}

static uint32_t choice_of(Adder *a, const GroupLaunches *runs, uint32_t count) {
    KernelForm form = {0};
    Arena *lasting = a->program->plan->fusion->graph->arena;
    for (uint32_t i = 0; i < count; i++) {
        vec_push(a->arena, &form, runs[i].count);
        for (uint32_t k = 0; k < runs[i].count; k++)
            vec_push(a->arena, &form, runs[i].at[k].kernel);
    }
    void **known = form_table_at(a->choices, &form);
    if (!*known) {
        vec_push(lasting, &a->program->alternatives, count);
        *known = arena_copy(a->arena, &a->program->alternatives.count, sizeof(uint32_t));
    }
    return *(uint32_t *)*known;
}

static void add_run(const GroupLaunches *run, uint32_t choice, uint32_t alternative, Arena *arena,
                    TileProgram *program) {
    for (uint32_t i = 0; i < run->count; i++) {
        Launch launch = run->at[i];
        launch.choice = choice;
        launch.alternative = choice ? alternative : 0;
        vec_push(arena, &program->launches, launch);
    }
}

// others: the program with each alternative, of kernels of the program.
static void merge_launches(Adder *a, TileProgram *const *others, uint32_t count) {
    TileProgram before = *a->program;
    Arena *lasting = before.plan->fusion->graph->arena;
    uint32_t *at = arena_array(a->arena, uint32_t, count + 1);
    GroupLaunches *runs = arena_array(a->arena, GroupLaunches, count + 1);
    memset(&a->program->launches, 0, sizeof a->program->launches);
    for (uint32_t i = 0; i < before.launches.count; i += runs[0].count) {
        runs[0] = launches_at(&before, i);
        for (uint32_t k = 0; k < count; k++) {
            runs[k + 1] = launches_at(others[k], at[k]);
            if (!runs[k + 1].count || runs[k + 1].at->group != runs[0].at->group)
                ice("tune_add_alternatives: the groups of an alternative are others");
            at[k] += runs[k + 1].count;
        }
        uint32_t left = drop_equal(runs, count + 1);
        uint32_t choice = left > 1 ? choice_of(a, runs, left) : 0;
        for (uint32_t k = 0; k < left; k++)
            add_run(&runs[k], choice, k, lasting, a->program);
    }
}

// The program with each of the alternatives, of kernels of the program.
static TileProgram **lower_alternatives(Adder *a, uint32_t count) {
    TileProgram **others = arena_array(a->arena, TileProgram *, count + 1);
    for (uint32_t k = 0; k < count; k++) {
        others[k] = lower_alternative(a, k + 1);
        for (uint32_t i = 0; i < others[k]->launches.count; i++) {
            Launch *launch = &others[k]->launches.at[i];
            launch->kernel = kernel_here(a, others[k]->kernels.at[launch->kernel]);
        }
    }
    return others;
}

void tune_add_alternatives(TileProgram *program, const Machine *machine, const int64_t *extents,
                           const ScheduleWish *wish, uint32_t most) {
    Arena *arena = arena_new();
    Adder a = {.arena = arena,
               .program = program,
               .machine = machine,
               .extents = extents,
               .wish = wish,
               .most = most,
               .spaces = {.arena = arena},
               .kernels = form_table_new(arena),
               .choices = form_table_new(arena)};
    tune_spaces_add(&a.spaces, program->plan, machine, extents);
    find_sites(&a);
    for (uint32_t i = 0; i < program->kernels.count; i++)
        kernel_known(&a, program->kernels.at[i], i);
    uint32_t count = choose_schedules(&a);
    merge_launches(&a, lower_alternatives(&a, count), count);
    arena_free(arena);
}
