// SPDX-License-Identifier: Apache-2.0
// The numbers of a contraction kernel, and which dims its microkernel runs along.
//
// A contraction is blocked as in Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (2008): a microkernel of rows x lanes accumulators, a panel of b of block_k x
// lanes in L1, a block of packed b in L2. The numbers come from a search over a few hundred
// candidates for each choice of axes with the cost model of this level (contract_model.c), which
// counts the arithmetic of each, the traffic of those alone that may be near the fastest, and all
// remainders of the best of these; which of them it is tells the kernel that they make
// (lower/choose.c). They are chosen when code is compiled, for the cores of the machine, and not
// for the threads that it gets: results do not depend on these.
#include "tile/schedule/schedule.h"

#include <math.h>
#include <stdlib.h>

// Measured on 512 x 768 x 3072 and 4096 x 768 x 768: a block of packed b of a quarter of L2 leaves
// room for the tile of c and the rows of a that pass through L2 beside it (88 to 91% of the peak;
// an eighth, which reads the rows more often, 83 to 89%).
enum { BLOCK_K_MIN = 8, BLOCK_K_MAX = 384, BLOCK_SHARE = 4, CROSSING_SHARE = 2 };

// Of each choice of axes, packing and width of the microkernel one is kept, if it is within NEAR of
// the fastest.
static const double NEAR = 1.25;
// How much more than the least of its class a candidate may take by a rough walk, to be walked with
// all remainders. Chosen: of 92 programs none is predicted to be slower by more than 0.2% than with
// all candidates walked so, at 1.06. Few pieces that are few blocks long can be further off: by
// more than 12% of 511 rows and 100 lanes in the least of caches.
static const double ROUGHLY = 1.15;
enum { VECTORS_MAX = 4, CLASSES_OF_AXES = 4 * VECTORS_MAX, N_CLASSES = 4 * CLASSES_OF_AXES };

typedef struct {
    ContractSchedule schedule;
    ContractModel *model; // of its axes and packing
    double rough;         // seconds by a rough walk; INFINITY: not asked for
    bool same;            // are they those of a walk with all remainders?
    double floor;         // which these are not below
    uint32_t place;       // among the candidates: of equally fast ones the first wins
} Candidate;
typedef struct {
    const Machine *machine;
    int width; // lanes of a vector
    Arena *arena;
    const ContractShape *shape; // of the axes being tried
    ContractModel *model;       // of these and the packing being tried
    VEC(Candidate) candidates;
} Search;

static int rows_that_fit(const Search *m, int vectors, bool packed) {
    int rows = machine_block_rows(m->machine, vectors, false);
    int most = packed ? m->machine->rows_packed : m->machine->rows_unpacked;
    rows = rows > most ? most : rows;
    return rows < 1 ? 1 : rows;
}

// What is packed for several batches at once has room for one block of all of them.
static int64_t most_packed_k(const Search *m, const ContractSchedule *s) {
    int64_t a = s->pack_a ? s->row_block * schedule_batches_at_once(m->shape, m->shape->a_last) : 1;
    int64_t b =
        s->pack_b ? s->lane_block * schedule_batches_at_once(m->shape, m->shape->b_last) : 1;
    return m->machine->l2_bytes / BLOCK_SHARE / ((a > b ? a : b) * (int64_t)m->shape->elem_bytes);
}

static int64_t choose_block_k(const Search *m, const ContractSchedule *s) {
    int64_t most = m->machine->l1_bytes * 2 / 3 / (s->lane_block * (int64_t)m->shape->elem_bytes);
    int64_t packed = most_packed_k(m, s);
    most = packed < most ? packed : most;
    most = most < BLOCK_K_MIN ? BLOCK_K_MIN : most > BLOCK_K_MAX ? BLOCK_K_MAX : most;
    return equal_piece(m->shape->k, most / 8 * 8, 8);
}

// An operand in place that is read once has nothing to gain from blocks of k.
static bool reads_once(const ContractShape *shape, const ContractSchedule *s) {
    return !s->pack_b && shape->rows <= s->row_block;
}

// How many positions of the other rows are packed together: a task's, of which it has as many as
// leave it a block of the main rows.
static int64_t packed_together(const ContractShape *shape, const ContractSchedule *s) {
    int64_t others = ceil_div(shape->rows, shape->main_rows), most = s->task_rows / s->row_block;
    return s->pack_a && shape->a_last == LAST_OTHER ? clamp(most, 1, others) : 1;
}

// Rows of a that stay in L2 beside the block of b; a loop over less costs more than it saves.
static int64_t choose_block_rows(const Search *m, const ContractSchedule *s) {
    int64_t bytes = s->block_k * (int64_t)m->shape->elem_bytes * packed_together(m->shape, s);
    int64_t most = m->machine->l2_bytes * 5 / 8 / bytes / s->row_block * s->row_block;
    most = most < s->row_block ? s->row_block : most;
    int64_t rows = s->task_rows < m->shape->main_rows ? s->task_rows : m->shape->main_rows;
    return equal_piece(rows, most, s->row_block);
}

// Bytes that a block of packed b may have, of one batch.
static int64_t block_room(const Search *m) {
    int64_t share = m->shape->b_last == LAST_OTHER ? CROSSING_SHARE : BLOCK_SHARE;
    return m->machine->l2_bytes / share / schedule_batches_at_once(m->shape, m->shape->b_last);
}

static bool block_fits(const Search *m, const ContractSchedule *s) {
    int64_t lanes = s->task_lanes > s->lane_block ? s->task_lanes : s->lane_block;
    return !s->pack_b || lanes == s->lane_block ||
           s->block_k * lanes * (int64_t)m->shape->elem_bytes <= block_room(m);
}

// Rows that a task may have: of what is packed of a for several batches at once a block's worth, in
// whole row blocks.
static int64_t rows_room(const Search *m, const ContractSchedule *s) {
    int64_t batches = schedule_batches_at_once(m->shape, m->shape->a_last);
    if (!s->pack_a || batches == 1)
        return m->shape->rows;
    int64_t room =
        m->machine->l2_bytes / BLOCK_SHARE / (s->block_k * batches * (int64_t)m->shape->elem_bytes);
    return room < s->row_block ? s->row_block : room / s->row_block * s->row_block;
}

static void push_candidate(Search *m, const ContractSchedule *s) {
    double floor = contract_model_floor(m->model, s);
    vec_push(m->arena, &m->candidates,
             (Candidate){*s, m->model, INFINITY, false, floor, m->candidates.count});
}

// With several panels of b that are packed either a block of rows passes by each of them, which L1
// keeps, or all panels pass by each few rows, whose results are written from one end to the other.
static void add_candidate(Search *m, ContractSchedule s) {
    s.block_rows = choose_block_rows(m, &s);
    push_candidate(m, &s);
    if (!s.pack_b || s.task_lanes <= s.lane_block || s.block_rows <= s.row_block)
        return;
    s.block_rows = s.row_block;
    push_candidate(m, &s);
}

// What is worked off whole may be done for several batches in one task.
static void try_tasks(Search *m, ContractSchedule s) {
    const ContractShape *shape = m->shape;
    if (!block_fits(m, &s))
        return;
    s.task_batch = 1;
    add_candidate(m, s);
    bool whole = s.task_rows >= shape->rows && s.task_lanes >= shape->lanes;
    for (int64_t parts = SCHEDULE_TASKS_MAX; whole && parts >= 1; parts /= 2) {
        s.task_batch = equal_piece(shape->batch, ceil_div(shape->batch, parts), 1);
        if (s.task_batch > 1)
            add_candidate(m, s);
    }
}

// All ways to cut rows and lanes for one microkernel and one choice of packing. Lanes are cut at
// least so far that a block of packed b fits.
static void search_tasks(Search *m, ContractSchedule s) {
    static const int64_t parts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    const ContractShape *shape = m->shape;
    int64_t room = block_room(m) / (s.block_k * (int64_t)shape->elem_bytes);
    room = room < s.lane_block ? s.lane_block : room / s.lane_block * s.lane_block;
    int64_t least = s.pack_b ? ceil_div(shape->lanes, room) : 1, rows_before = 0;
    int64_t most_rows = rows_room(m, &s);
    for (int r = 0; r < N_PARTS; r++) {
        int64_t rows = ceil_div(shape->rows, parts[r]);
        s.task_rows = equal_piece(shape->rows, rows < most_rows ? rows : most_rows, s.row_block);
        if (s.task_rows == rows_before)
            continue;
        rows_before = s.task_rows;
        int64_t lanes_before = 0;
        for (int l = 0; l < N_PARTS && parts[r] * parts[l] <= SCHEDULE_TASKS_MAX; l++) {
            int64_t cuts = parts[l] < least ? least : parts[l];
            s.task_lanes = equal_piece(shape->lanes, ceil_div(shape->lanes, cuts), s.lane_block);
            if (cuts == least && s.task_lanes > room)
                s.task_lanes = room;
            if (s.task_lanes != lanes_before)
                try_tasks(m, s);
            lanes_before = s.task_lanes;
        }
    }
}

static void search_microkernels(Search *m, bool pack_a, bool pack_b) {
    const ContractShape *shape = m->shape;
    m->model = contract_model_new(m->arena, shape, m->machine, pack_a, pack_b);
    for (int vectors = 1; vectors <= VECTORS_MAX; vectors++) {
        if ((vectors - 1) * m->width >= shape->main_lanes)
            break;
        if (shape->panel % (vectors * m->width))
            continue;
        int64_t most = rows_that_fit(m, vectors, pack_a);
        ContractSchedule s = {.axes = shape->axes, .pack_a = pack_a, .pack_b = pack_b};
        s.row_block = (int32_t)ceil_div(shape->main_rows, ceil_div(shape->main_rows, most));
        s.lane_block = vectors * m->width;
        s.block_k = reads_once(shape, &s) ? shape->k : choose_block_k(m, &s);
        search_tasks(m, s);
    }
}

static int compare_floors(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->floor != y->floor)
        return x->floor < y->floor ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static int class_of(const Search *m, const ContractSchedule *s) {
    int axes = s->axes.transposed + 2 * s->axes.contiguous_rows;
    int packing = s->pack_a + 2 * s->pack_b;
    return axes * CLASSES_OF_AXES + packing * VECTORS_MAX + s->lane_block / m->width - 1;
}

static int compare_seconds(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->schedule.seconds != y->schedule.seconds)
        return x->schedule.seconds < y->schedule.seconds ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

// The least seconds of some candidates, and of those with the default axes.
typedef struct {
    double of_all, by_default;
} Fastest;

static const Fastest NONE_YET = {INFINITY, INFINITY};

static void see(Fastest *fastest, bool by_default, double seconds) {
    fastest->of_all = fmin(fastest->of_all, seconds);
    if (by_default)
        fastest->by_default = fmin(fastest->by_default, seconds);
}

// Seconds up to which one is of interest. With the default axes the fastest is always found: what
// others promise is weighed by the kernels that they make.
static double limit_of(const Fastest *fastest, bool by_default) {
    return fmax(NEAR * fastest->of_all, by_default ? fastest->by_default : 0);
}

// Rough seconds of the candidates that may be near the fastest of all and of their class; of each
// class the least in `least`. Those that may take least come first.
static void estimate(Search *m, double *least, Fastest *fastest) {
    for (int i = 0; i < N_CLASSES; i++)
        least[i] = INFINITY;
    qsort(m->candidates.at, m->candidates.count, sizeof(Candidate), compare_floors);
    for (uint32_t i = 0; i < m->candidates.count; i++) {
        Candidate *c = &m->candidates.at[i];
        bool by_default = schedule_has_default_axes(&c->schedule);
        double *of_class = &least[class_of(m, &c->schedule)];
        if (c->floor > ROUGHLY * fmin(limit_of(fastest, by_default), *of_class))
            continue;
        c->rough = contract_model_rough(c->model, &c->schedule, &c->same);
        *of_class = fmin(*of_class, c->rough);
        see(fastest, by_default, c->rough);
    }
}

// The fastest of each class; `seconds` INFINITY where it has none that is near the fastest of all.
static void find_best(Search *m, Candidate *best) {
    double least[N_CLASSES];
    Fastest fastest = NONE_YET;
    estimate(m, least, &fastest);
    for (int i = 0; i < N_CLASSES; i++)
        best[i] = (Candidate){.schedule.seconds = INFINITY};
    for (uint32_t i = 0; i < m->candidates.count; i++) {
        Candidate c = m->candidates.at[i];
        int number = class_of(m, &c.schedule);
        double limit = limit_of(&fastest, schedule_has_default_axes(&c.schedule));
        if (least[number] > ROUGHLY * limit || c.rough > ROUGHLY * least[number])
            continue;
        c.schedule.seconds = c.same ? c.rough : contract_model_seconds(c.model, &c.schedule);
        if (isinf(best[number].schedule.seconds) || compare_seconds(&c, &best[number]) < 0)
            best[number] = c;
    }
}

// Of each class the fastest, if it is near the fastest of all; the fastest first. Requires: a
// candidate.
static void find_nearest(Search *m, Arena *arena, ScheduleList *into) {
    Candidate best[N_CLASSES];
    Fastest fastest = NONE_YET;
    find_best(m, best);
    qsort(best, N_CLASSES, sizeof *best, compare_seconds);
    for (int i = 0; i < N_CLASSES && !isinf(best[i].schedule.seconds); i++)
        see(&fastest, schedule_has_default_axes(&best[i].schedule), best[i].schedule.seconds);
    for (int i = 0; i < N_CLASSES && !isinf(best[i].schedule.seconds); i++) {
        const ContractSchedule *found = &best[i].schedule;
        if (found->seconds <= limit_of(&fastest, schedule_has_default_axes(found)))
            vec_push(arena, into, (Schedule){.kind = SCHEDULE_CONTRACT, .contract = *found});
    }
}

static void search_packings(Search *m, const ContractShape *shape) {
    m->shape = shape;
    for (int pack = 0; pack < 4; pack++) {
        bool pack_a = pack & 1, pack_b = pack & 2;
        if ((pack_a || shape->a_in_place) && (pack_b || shape->b_in_place))
            search_microkernels(m, pack_a, pack_b);
    }
}

static Search search_contract(const ContractShapes *shapes, const Machine *machine) {
    const ContractShape *first = &shapes->at[0];
    Search m = {.machine = machine,
                .width = machine_lanes(machine, first->elem_bytes),
                .arena = arena_new()};
    for (int i = 0; i < shapes->count; i++)
        search_packings(&m, &shapes->at[i]);
    if (!m.candidates.count)
        ice("schedule: no blocks for %ld x %ld x %ld", (long)first->rows, (long)first->lanes,
            (long)first->k);
    return m;
}

void schedule_nearest_contract(Arena *arena, const ContractShapes *shapes, const Machine *machine,
                               ScheduleList *into) {
    Search m = search_contract(shapes, machine);
    find_nearest(&m, arena, into);
    arena_free(m.arena);
}

void schedule_enumerate_contract(Arena *arena, const ContractShapes *shapes, const Machine *machine,
                                 ScheduleList *into) {
    Search m = search_contract(shapes, machine);
    for (uint32_t i = 0; i < m.candidates.count; i++) {
        ContractSchedule contract = m.candidates.at[i].schedule;
        vec_push(arena, into, (Schedule){.kind = SCHEDULE_CONTRACT, .contract = contract});
    }
    arena_free(m.arena);
}
