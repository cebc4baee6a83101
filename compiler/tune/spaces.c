// SPDX-License-Identifier: Apache-2.0
// What can be chosen in programs: the space of each site, gathered by lowering with a choice that
// notes what it is offered and takes the default.
//
// The blocks of a site are many times its numbers and depend on these, so they are asked for when
// some numbers are worth it.
#include "tune/tune.h"

#include <string.h>

static bool is_for(const TuneSpace *space, const ScheduleSite *site) {
    bool found = schedule_same_site(&space->site, site);
    for (uint32_t i = 0; i < space->others.count && !found; i++)
        found = schedule_same_site(&space->others.at[i], site);
    return found;
}

uint32_t tune_spaces_find(const TuneSpaces *spaces, const ScheduleSite *site) {
    uint32_t i = 0;
    while (i < spaces->at.count && !is_for(&spaces->at.at[i], site))
        i++;
    return i;
}

static const Schedule *find_pick(const void *of_picks, const ScheduleSite *site, Arena *arena) {
    const TunePicks *picks = of_picks;
    uint32_t i = tune_spaces_find(picks->spaces, site);
    (void)arena;
    return i < picks->spaces->at.count ? picks->picks[i] : NULL;
}

ScheduleSource tune_picks_source(const TunePicks *picks) {
    return (ScheduleSource){.find = find_pick, .known = picks};
}

// ---- numbers ------------------------------------------------------------------------------------

static ScheduleSite copy_site(Arena *arena, const ScheduleSite *site) {
    return (ScheduleSite){site->group, arena_printf(arena, "%s", site->extents)};
}

static void add_space(TuneSpaces *spaces, const ScheduleSite *site, const ScheduleList *numbers,
                      const Kernel *kernel, const char *name) {
    Arena *arena = spaces->arena;
    TuneSpace new = {
        .site = copy_site(arena, site), .name = name, .asks = kernel && kernel_asks_ahead(kernel)};
    for (uint32_t i = 0; i < numbers->count; i++)
        vec_push(arena, &new.numbers, schedule_copy(arena, &numbers->at[i]));
    vec_push(arena, &spaces->at, new);
}

// Of what is offered for a site the first list is that of its numbers.
static uint32_t note_numbers(void *of_asked, const ScheduleSite *site, const ScheduleList *space) {
    TuneSpaces *asked = of_asked;
    if (tune_spaces_find(asked, site) == asked->at.count)
        add_space(asked, site, space, NULL, NULL);
    return 0;
}

static bool is_taken(const void *of_spaces, const char *name) {
    const TuneSpaces *spaces = of_spaces;
    for (uint32_t i = 0; i < spaces->at.count; i++)
        if (!strcmp(spaces->at.at[i].name, name))
            return true;
    return false;
}

// Kernels of several calls, or of one group at several extents, may be called the same.
static const char *name_apart(const TuneSpaces *spaces, const char *name) {
    return is_taken(spaces, name) ? text_numbered(spaces->arena, name, is_taken, spaces)
                                  : arena_printf(spaces->arena, "%s", name);
}

// The kernel of the first launch of a site; NULL: it has none.
static const Kernel *kernel_of(const TileProgram *program, const ScheduleSite *site) {
    for (uint32_t i = 0; i < program->launches.count; i++)
        if (schedule_same_site(&program->launches.at[i].site, site))
            return program->kernels.at[program->launches.at[i].kernel];
    return NULL;
}

// A site without a launch was asked for, and the launch of the one before serves it.
void tune_spaces_add(TuneSpaces *spaces, const Plan *plan, const Machine *machine,
                     const int64_t *extents) {
    Arena *arena = arena_new();
    TuneSpaces asked = {.arena = arena};
    ScheduleWish wish = {.choose = note_numbers, .self = &asked};
    TileProgram *program = tile_lower(plan_in_arena(plan, arena), machine, extents, &wish);
    uint32_t serving = 0;
    for (uint32_t i = 0; i < asked.at.count; i++) {
        const TuneSpace *space = &asked.at.at[i];
        const Kernel *kernel = kernel_of(program, &space->site);
        uint32_t known = tune_spaces_find(spaces, &space->site);
        if (known == spaces->at.count && kernel)
            add_space(spaces, &space->site, &space->numbers, kernel,
                      name_apart(spaces, kernel->name));
        else if (known == spaces->at.count)
            vec_push(spaces->arena, &spaces->at.at[serving].others,
                     copy_site(spaces->arena, &space->site));
        serving = kernel ? known : serving;
    }
    arena_free(arena);
}

// ---- blocks -------------------------------------------------------------------------------------

typedef struct {
    TunePicks picks;
    ScheduleList *lists;
    Arena *arena;
} BlockNotes;

static bool has_pick(const void *of_notes, const ScheduleSite *site) {
    const BlockNotes *notes = of_notes;
    const TuneSpaces *spaces = notes->picks.spaces;
    uint32_t at = tune_spaces_find(spaces, site);
    return at < spaces->at.count && notes->picks.picks[at] &&
           schedule_same_site(&spaces->at.at[at].site, site);
}

static uint32_t note_blocks(void *of_notes, const ScheduleSite *site, const ScheduleList *space) {
    BlockNotes *notes = of_notes;
    uint32_t at = tune_spaces_find(notes->picks.spaces, site);
    for (uint32_t i = 1; i < space->count; i++)
        vec_push(notes->arena, &notes->lists[at], schedule_copy(notes->arena, &space->at[i]));
    return 0;
}

// Sites that are left out keep their first numbers: none of their space is asked for.
void tune_spaces_blocks(const TuneSpaces *spaces, const Plan *plan, const Machine *machine,
                        const int64_t *extents, const Schedule *const *picks, ScheduleList *lists,
                        Arena *arena) {
    Arena *own = arena_new();
    const Schedule **all = arena_array(own, const Schedule *, spaces->at.count + 1);
    for (uint32_t i = 0; i < spaces->at.count; i++)
        all[i] = picks[i] ? picks[i] : &spaces->at.at[i].numbers.at[0];
    TunePicks known = {spaces, all};
    BlockNotes notes = {{spaces, picks}, lists, arena};
    ScheduleWish wish = {.choose = note_blocks,
                         .asks = has_pick,
                         .self = &notes,
                         .source = tune_picks_source(&known)};
    tile_lower(plan_in_arena(plan, own), machine, extents, &wish);
    arena_free(own);
}
