// SPDX-License-Identifier: Apache-2.0
// What can be chosen in programs: the space of each site, gathered by lowering with a choice that
// notes what it is offered and takes the default.
//
// The blocks of a site are many times its numbers and depend on these, so they are asked for when
// some numbers are worth it.
#include "tune/tune.h"

#include <string.h>

static bool same_site(const ScheduleSite *a, const ScheduleSite *b) {
    return a->group == b->group && !strcmp(a->extents, b->extents);
}

uint32_t tune_spaces_find(const TuneSpaces *spaces, const ScheduleSite *site) {
    uint32_t i = 0;
    while (i < spaces->at.count && !same_site(&spaces->at.at[i].site, site))
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
    return (ScheduleSource){find_pick, picks};
}

// ---- numbers ------------------------------------------------------------------------------------

// Of what is offered for a site the first list is that of its numbers.
static uint32_t note_numbers(void *of_spaces, const ScheduleSite *site, const ScheduleList *space) {
    TuneSpaces *spaces = of_spaces;
    if (tune_spaces_find(spaces, site) < spaces->at.count)
        return 0;
    TuneSpace new = {.site = *site};
    new.site.extents = arena_printf(spaces->arena, "%s", site->extents);
    for (uint32_t i = 0; i < space->count; i++)
        vec_push(spaces->arena, &new.numbers, schedule_copy(spaces->arena, &space->at[i]));
    vec_push(spaces->arena, &spaces->at, new);
    return 0;
}

static bool is_taken(const void *of_spaces, const char *name) {
    const TuneSpaces *spaces = of_spaces;
    for (uint32_t i = 0; i < spaces->at.count; i++)
        if (spaces->at.at[i].name && !strcmp(spaces->at.at[i].name, name))
            return true;
    return false;
}

// Kernels of several calls, or of one group at several extents, may be called the same.
static const char *name_apart(const TuneSpaces *spaces, const char *name) {
    return is_taken(spaces, name) ? text_numbered(spaces->arena, name, is_taken, spaces)
                                  : arena_printf(spaces->arena, "%s", name);
}

void tune_spaces_add(TuneSpaces *spaces, const Plan *plan, const Machine *machine,
                     const int64_t *extents) {
    Arena *arena = arena_new();
    ScheduleWish wish = {.choose = note_numbers, .self = spaces};
    TileProgram *program = tile_lower(plan_in_arena(plan, arena), machine, extents, &wish);
    for (uint32_t i = 0; i < program->launches.count; i++) {
        const Launch *launch = &program->launches.at[i];
        TuneSpace *space = &spaces->at.at[tune_spaces_find(spaces, &launch->site)];
        if (!space->name)
            space->name = name_apart(spaces, program->kernels.at[launch->kernel]->name);
    }
    arena_free(arena);
}

// ---- blocks -------------------------------------------------------------------------------------

typedef struct {
    TunePicks picks;
    ScheduleList *lists;
    Arena *arena;
} BlockNotes;

static uint32_t note_blocks(void *of_notes, const ScheduleSite *site, const ScheduleList *space) {
    BlockNotes *notes = of_notes;
    uint32_t at = tune_spaces_find(notes->picks.spaces, site);
    if (at < notes->picks.spaces->at.count && notes->picks.picks[at])
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
    ScheduleWish wish = {
        .choose = note_blocks, .self = &notes, .source = tune_picks_source(&known)};
    tile_lower(plan_in_arena(plan, own), machine, extents, &wish);
    arena_free(own);
}
