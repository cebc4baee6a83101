// SPDX-License-Identifier: Apache-2.0
// The space of a group: the schedules that make different kernels of it, all of which hold. Each
// candidate of its kind is lowered in an arena of its own, so that thousands take no memory. The
// blocks of a place are chosen when all before them are, since what they may be depends on it.
#include "tile/lower/lower.h"

typedef struct {
    const LowerRequest *request;
    const ScheduleSite *site;
    Group *part;
    Arena *arena; // of what is chosen
} Space;

typedef struct {
    FormTable *kernels; // of the list so far
    ScheduleList *list;
} Offers;

// May a task have that many bytes? What the first of a list has it may.
static bool has_room(const Space *s, const ScheduleList *list, int64_t scratch) {
    return !list->count || scratch <= list->at[0].scratch ||
           scratch <= schedule_scratch_room(s->request->machine);
}

// Lowers the part with a schedule (NULL: the default), and adds it unless there is such a kernel,
// or it takes too much memory. own: of what is returned.
static Lowering offer(const Space *s, const Offers *offers, const Schedule *schedule, Arena *own) {
    Arena *arena = arena_new();
    Lowering lower;
    Text why = {.arena = arena};
    lower_open(&lower, s->request, s->part, own, arena);
    lower_arguments(&lower);
    lower.wanted = schedule;
    if (lower_kind(&lower) && kernel_check(lower.kernel, &why)) {
        KernelForm form = kernel_form(arena, lower.kernel);
        void **known = form_table_at(offers->kernels, &form);
        if (!*known) {
            Schedule found = schedule_copy(s->arena, &lower.kernel->schedule);
            found.seconds =
                tile_cost(NULL, lower.kernel, lower.typical.at, lower.machine).parallel_seconds;
            found.scratch = kernel_scratch_bytes(lower.kernel, lower.typical.at, NULL);
            if (has_room(s, offers->list, found.scratch))
                vec_push(s->arena, offers->list, found);
        }
        *known = offers->list;
    }
    arena_free(arena);
    lower.kernel = NULL;
    return lower;
}

static Schedule choose(const Space *s, const ScheduleList *list) {
    const ScheduleWish *wish = &s->request->wish;
    uint32_t chosen = wish->choose(wish->self, s->site, list);
    if (chosen >= list->count)
        ice("schedule: %u of %u was chosen", chosen, list->count);
    return list->at[chosen];
}

// With the default blocks.
static Schedule choose_numbers(const Space *s) {
    ScheduleList list = {0};
    Arena *arena = arena_new();
    Offers offers = {form_table_new(arena), &list};
    ScheduleShape shape = offer(s, &offers, NULL, arena).shape;
    const LowerRequest *r = s->request;
    ScheduleList all = schedule_enumerate(arena, &shape, r->machine, &r->wish.forced);
    for (uint32_t i = 0; i < all.count; i++) {
        Arena *own = arena_new();
        offer(s, &offers, &all.at[i], own);
        arena_free(own);
    }
    arena_free(arena);
    return choose(s, &list);
}

// What follows a place that changes has its default. false: there is no such place.
static bool choose_blocks(const Space *s, Schedule *chosen, uint32_t place) {
    ScheduleList list = {0};
    Arena *arena = arena_new();
    Offers offers = {form_table_new(arena), &list};
    Lowering lower = offer(s, &offers, chosen, arena);
    bool there = list.count && place < lower.choices.count;
    for (uint32_t i = 1; there && i < lower.choices.at[place].count; i++) {
        Schedule other = *chosen;
        other.blocks = (StageBlocksList){0};
        for (uint32_t k = 0; k < place; k++)
            vec_push(arena, &other.blocks, list.at[0].blocks.at[k]);
        vec_push(arena, &other.blocks, lower.choices.at[place].at[i]);
        Arena *own = arena_new();
        offer(s, &offers, &other, own);
        arena_free(own);
    }
    arena_free(arena);
    if (list.count > 1)
        *chosen = choose(s, &list);
    return there;
}

// Does it ask for anything ahead? After all blocks, of which it depends what there is to ask for.
static void choose_prefetch(const Space *s, Schedule *chosen) {
    ScheduleList list = {0};
    Arena *arena = arena_new();
    Offers offers = {form_table_new(arena), &list};
    Schedule other = *chosen;
    other.prefetch = chosen->prefetch == PREFETCH_NONE ? PREFETCH_BY_RULE : PREFETCH_NONE;
    offer(s, &offers, chosen, arena);
    offer(s, &offers, &other, arena);
    arena_free(arena);
    if (list.count > 1)
        *chosen = choose(s, &list);
}

const Schedule *lower_wanted(Arena *arena, const LowerRequest *request, const ScheduleSite *site,
                             Group *part) {
    const ScheduleSource *source = &request->wish.source;
    const Schedule *known = source->find ? source->find(source->known, site, arena) : NULL;
    const ScheduleWish *wish = &request->wish;
    if (!wish->choose || (wish->asks && !wish->asks(wish->self, site)))
        return known;
    Space s = {request, site, part, arena};
    Schedule chosen = known ? *known : choose_numbers(&s);
    for (uint32_t place = 0; choose_blocks(&s, &chosen, place); place++)
        ;
    choose_prefetch(&s, &chosen);
    return arena_copy(arena, &chosen, sizeof chosen);
}
