// SPDX-License-Identifier: Apache-2.0
// Where the elements of an access lie: in runs side by side, in lines, in the sets of a cache, in
// pages.
#include <math.h>
#include <string.h>

#include "tile/cost/cost.h"

// Of lanes that are read from rows pages apart each row takes as long as BETWEEN bytes more, unless
// it is long enough to be followed: 1 row times 768 x 3072 in blocks of 16 to 64 lanes. From L3:
// 64 rows times the same in blocks of 8 to 32 lanes, on an AMD EPYC (25.1.1).
static const double FOLLOWED = 256, BETWEEN = 110, BETWEEN_L3 = 60;
// The same of what any short rows lie far apart takes a machine that waits for all of it, and how
// far that is; and from where on lanes are not followed along a stride (in L1, by Intel's manual of
// optimization). Measured on an Intel Xeon (6.167.1, whose part is 0.3 to 0.4): all schedules of 12
// products and 4 gradients of weights, least squares.
static const double BETWEEN_SCATTERED = 200, SCATTERED_STRIDE = 1024, FOLLOWED_STRIDE = 2048;
// Ways of L1 and L2, and the sets that they have at most, on most x86 machines of today.
enum { L1_WAYS = 8, L1_SETS = 64, L2_WAYS = 16, L2_SETS = 2048 };

// ---- runs ----

// At least one: a run of nothing still counts as one in what is divided by it.
static double whole_lines(double run) {
    return larger(ceil(run / MACHINE_LINE), 1) * MACHINE_LINE;
}

double cost_made_bytes(const TileBuffer *buffer, const double *length) {
    double bytes = (double)elem_bytes(buffer->elem);
    for (int i = 0; i < buffer->rank; i++)
        bytes *= length[buffer->dims[i]];
    return bytes;
}

// Positions along the slots of an access.
typedef struct {
    double along[TILE_RANK_MAX];
} Box;

// One that is computed may be anywhere, but there are not more of them than points.
static double computed_positions(const Walk *w, const Stage *stage, const Access *access, int i,
                                 const double *length) {
    TileDimId own = w->kernel->buffers.at[access->buffer].dims[i];
    double points = 1;
    for (int k = 0; k < stage->n_dims; k++)
        if (stage->dims[k] == access->index[i].dim || !access_has_dim(access, stage->dims[k]))
            points *= length[stage->dims[k]];
    return lesser(points, (double)w->extents[own]);
}

static Box box_of(const Walk *w, const Stage *stage, const Access *access, const double *length) {
    Box box;
    for (int i = 0; i < access->rank; i++) {
        TileDimId dim = access->index[i].dim;
        box.along[i] = access->index[i].term >= 0 ? computed_positions(w, stage, access, i, length)
                       : dim == TILE_DIM_NONE     ? 1
                                                  : length[dim];
    }
    return box;
}

// Elements that lie side by side, in bytes.
static double run_bytes(const Walk *w, const Access *access, const Box *box) {
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    double run = (double)elem_bytes(buffer->elem);
    for (int i = access->rank; i-- > 0;) {
        run *= box->along[i];
        if (box->along[i] < (double)w->extents[buffer->dims[i]])
            break;
    }
    return run;
}

bool cost_has_lines(const TileBuffer *buffer) {
    return buffer->place != PLACE_SCRATCH && buffer->panel_dim == TILE_DIM_NONE;
}

// The bytes from a run of an access to the next, and the slot along which they follow each other;
// 0: it is one run.
static double run_stride_along(const Walk *w, const Access *access, double run, const Box *box,
                               int *slot) {
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    double stride = (double)elem_bytes(buffer->elem);
    for (int i = access->rank; i-- > 0; stride *= (double)w->extents[buffer->dims[i]])
        if (stride >= run && box->along[i] > 1) {
            *slot = i;
            return stride;
        }
    return 0;
}

static double run_stride(const Walk *w, const Access *access, double run, const Box *box) {
    int slot;
    return run_stride_along(w, access, run, box, &slot);
}

// A run that may begin anywhere touches one line more than it fills, most of the time; runs that
// are less than a line apart share theirs.
static double touched_bytes(const Walk *w, const Access *access, const Box *box) {
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    double elem = (double)elem_bytes(buffer->elem), bytes = elem;
    for (int i = 0; i < access->rank; i++)
        bytes *= box->along[i];
    double room = w->room[access->buffer];
    if (!cost_has_lines(buffer))
        return room > 0 ? lesser(bytes, room) : bytes;
    double run = run_bytes(w, access, box);
    if (run <= 0)
        return bytes;
    int slot = 0;
    double stride = run_stride_along(w, access, run, box, &slot);
    if (stride > 0 && stride < MACHINE_LINE) {
        double near = box->along[slot];
        return bytes / (run * near) * (stride * (near - 1) + run + MACHINE_LINE - elem);
    }
    bool aligned = fmod(stride, MACHINE_LINE) == 0;
    return bytes / run * (aligned ? whole_lines(run) : run + MACHINE_LINE - elem);
}

double cost_touched_bytes(const Walk *w, const Stage *stage, const Access *access,
                          const double *length) {
    Box box = box_of(w, stage, access, length);
    return touched_bytes(w, access, &box);
}

// ---- sets of a cache ----

static double sets_of(int64_t bytes, double ways, double most) {
    double sets = 1;
    while (sets * 2 <= most && sets * 2 * ways * MACHINE_LINE <= (double)bytes)
        sets *= 2;
    return sets;
}

// Into how many sets rows fall that lie so many lines apart: a power of two leaves few of them.
static double sets_met(double lines, double sets) {
    double apart = 1;
    while (lines > 0 && apart < sets && fmod(lines, apart * 2) == 0)
        apart *= 2;
    return sets / apart;
}

static double usable_part(double run, double stride, double sets) {
    double met = sets_met(stride / MACHINE_LINE, sets);
    return lesser(met * larger(run / MACHINE_LINE, 1), sets) / sets;
}

void cost_find_usable_parts(const Walk *w, const Stage *stage, const Access *access,
                            const double *length, double parts[2]) {
    const Machine *machine = w->machine;
    parts[0] = parts[1] = 1;
    if (!cost_has_lines(&w->kernel->buffers.at[access->buffer]))
        return;
    Box box = box_of(w, stage, access, length);
    double run = run_bytes(w, access, &box), stride = run_stride(w, access, run, &box);
    parts[0] = usable_part(run, stride, sets_of(machine->l1_bytes, L1_WAYS, L1_SETS));
    parts[1] = usable_part(run, stride, sets_of(machine->l2_bytes, L2_WAYS, L2_SETS));
}

// How many lines, so far apart, stay in a cache.
static double lines_kept(double lines_apart, int64_t bytes, double ways, double most) {
    double sets = sets_of(bytes, ways, most);
    return (double)bytes / MACHINE_LINE / sets * sets_met(lines_apart, sets);
}

double cost_kept_along(const Walk *w, const Access *access, TileDimId dim) {
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    double lines = (double)elem_bytes(buffer->elem) / MACHINE_LINE;
    int slot = access->rank;
    while (--slot >= 0 && access->index[slot].dim != dim)
        lines *= (double)w->extents[buffer->dims[slot]];
    if (slot < 0 || !cost_has_lines(buffer) || dim == TILE_DIM_NONE)
        return INFINITY;
    return lines_kept(lines, w->machine->l1_bytes, L1_WAYS, L1_SETS);
}

// Panels are written side by side, a row of all of them after the other. A line that a row fills in
// part only is come back to after as many others as there are panels. Measured on an AMD EPYC
// (25.1.1): panels of 6 and 8 lanes of 768 x 3072.
double cost_lines_again(const Walk *w, const Stage *stage, const Access *access,
                        TrafficLevel *from) {
    const Machine *machine = w->machine;
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    if (buffer->place != PLACE_SCRATCH || buffer->panel_dim == TILE_DIM_NONE ||
        stage->lanes == TILE_DIM_NONE || access_panel_dim(w->kernel, access) != stage->lanes)
        return 0;
    int64_t width = buffer->panel_width * (int64_t)elem_bytes(buffer->elem), filled = MACHINE_LINE;
    while (width % filled)
        filled /= 2;
    double panels = ceil(w->box[stage->lanes] / buffer->panel_width), rows = 1;
    for (int i = 0; i < stage->n_dims; i++)
        rows *= stage->dims[i] == stage->lanes ? 1 : w->box[stage->dims[i]];
    double apart = w->room[access->buffer] / larger(panels, 1) / MACHINE_LINE;
    if (rows <= 1 || panels <= lines_kept(apart, machine->l1_bytes, L1_WAYS, L1_SETS))
        return 0;
    bool kept = panels <= lines_kept(apart, machine->l2_bytes, L2_WAYS, L2_SETS);
    *from = kept ? FROM_L2 : FROM_L3;
    return panels * rows * (double)(MACHINE_LINE - filled);
}

// ---- pages ----

double cost_pages(const Walk *w, const Stage *stage, const Access *access) {
    Box box = box_of(w, stage, access, w->length);
    double run = run_bytes(w, access, &box), stride = run_stride(w, access, run, &box);
    double lines = touched_bytes(w, access, &box) / MACHINE_LINE;
    double runs = lines / larger(ceil(run / MACHINE_LINE), 1);
    return cost_has_lines(&w->kernel->buffers.at[access->buffer])
               ? runs * lesser(stride / MACHINE_PAGE, 1)
               : 0;
}

bool cost_lanes_apart(const Walk *w, const Stage *stage) {
    const Access *b = &stage->b;
    const TileBuffer *buffer = &w->kernel->buffers.at[b->buffer];
    double elem = (double)elem_bytes(buffer->elem);
    return cost_has_lines(buffer) && b->rank && b->index[b->rank - 1].dim == stage->lanes &&
           stage->lane_block * elem < 2 * MACHINE_LINE &&
           (double)w->extents[buffer->dims[b->rank - 1]] * elem >= MACHINE_PAGE;
}

bool cost_lanes_scattered(const Walk *w, const Stage *stage) {
    Box box = box_of(w, stage, &stage->b, w->length);
    double run = run_bytes(w, &stage->b, &box);
    return run <= FOLLOWED && cost_has_lines(&w->kernel->buffers.at[stage->b.buffer]) &&
           run_stride(w, &stage->b, run, &box) >= FOLLOWED_STRIDE;
}

bool cost_rows_beside(const Walk *w, const Stage *stage) {
    const Access *a = &stage->a;
    return a->rank && a->index[a->rank - 1].dim == stage->rows && stage->rows != TILE_DIM_NONE &&
           cost_has_lines(&w->kernel->buffers.at[a->buffer]);
}

// With the loops inside the stage that run on along the rows of its result. Overwrites w->around.
static const double *lengths_run_on(const Walk *w, const Stage *stage) {
    const Access *c = &stage->c;
    memcpy(w->around, w->length, sizeof *w->length * w->kernel->dims.count);
    for (uint32_t at = w->depth; at-- > w->stage_depth;) {
        const Frame *frame = w->frames.at[at];
        if (frame->turns <= 1)
            continue;
        if (!c->rank || frame->dim != c->index[c->rank - 1].dim)
            break;
        w->around[frame->dim] *= frame->turns;
    }
    return w->around;
}

// How far apart rows lie of which an access has a short run each; 0: they are followed, or one run.
static double short_runs_apart(const Walk *w, const Access *access, double run, const Box *box) {
    bool is_short = run < FOLLOWED && cost_has_lines(&w->kernel->buffers.at[access->buffer]);
    return is_short ? run_stride(w, access, run, box) : 0;
}

bool cost_result_scattered(const Walk *w, const Stage *stage) {
    if (!stage_has_microkernel(stage))
        return false;
    Box box = box_of(w, stage, &stage->c, lengths_run_on(w, stage));
    double run = run_bytes(w, &stage->c, &box);
    return short_runs_apart(w, &stage->c, run, &box) >= SCATTERED_STRIDE;
}

void cost_find_far_parts(const Walk *w, const Stage *stage, const Access *access, double parts[2]) {
    bool contract = stage->kind == STAGE_CONTRACT;
    parts[0] = parts[1] = 1;
    if (contract && !stage_has_microkernel(stage))
        return;
    const double *length = !contract             ? w->box
                           : access == &stage->c ? lengths_run_on(w, stage)
                                                 : w->length;
    Box box = box_of(w, stage, access, length);
    double run = run_bytes(w, access, &box), between = 0;
    double stride = short_runs_apart(w, access, run, &box);
    if (stride >= SCATTERED_STRIDE)
        between = BETWEEN_SCATTERED * w->machine->scattered_exposed;
    bool pages = stride >= MACHINE_PAGE && contract && access == &stage->b;
    parts[0] += larger(between, pages ? BETWEEN_L3 : 0) / whole_lines(run);
    parts[1] += larger(between, pages ? BETWEEN : 0) / whole_lines(run);
}

// Of lines from L2 as much is waited for in however many sets they meet, of those from further away
// less in more of them; and nothing where these keep all pieces. Measured on an AMD EPYC (25.1.1):
// lines 1024 to 12352 bytes apart; 512 rows times 768 x 768 in blocks of 8 to 32 lanes. Of rows
// side by side, of which a step reads one line, those of a page are followed: 128 rows times 768 x
// 768, whose lines are 3072 bytes apart, and 64 times 768 x 3072, 12288 bytes.
void cost_find_one_set_parts(const Walk *w, const Stage *stage, const Access *operand,
                             double least[2]) {
    const Machine *machine = w->machine;
    Box box = box_of(w, stage, operand, w->length);
    double run = run_bytes(w, operand, &box);
    double stride = short_runs_apart(w, operand, run, &box);
    least[0] = least[1] = 0;
    bool beside = operand == &stage->a && cost_rows_beside(w, stage);
    if (!stage_has_microkernel(stage) || stride < (beside ? MACHINE_PAGE : SCATTERED_STRIDE))
        return;
    double sets = sets_met(stride / MACHINE_LINE, sets_of(machine->l1_bytes, L1_WAYS, L1_SETS));
    double pieces = touched_bytes(w, operand, &box) / whole_lines(run);
    if (pieces <= L1_WAYS * sets)
        return;
    // From far away either the bytes count more than once or they are waited for, not both.
    double far[2];
    cost_find_far_parts(w, stage, operand, far);
    least[0] = machine->one_set_exposed;
    least[1] = far[0] > 1 ? 0 : machine->one_set_far_exposed / cbrt(sets);
}
