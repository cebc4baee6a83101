// SPDX-License-Identifier: Apache-2.0
// Which values of a nest are stored, by which stage, and in which order stages run; and how
// operands lie in memory.
//
// A pointwise value is stored when it is wanted, when a contraction reads it, or when computing it
// again in each stage that needs it would cost more than a load, or when a stage would compute it
// again for every point of a dim that it lacks.
//
// Stages that only need one row at a time share a loop over rows (a run), so that what they hand to
// each other stays in L1; a contraction whose rows are the task's rows wants them all and ends the
// run.
#include "tile/lower/nest.h"

// In the unit of op_weight: storing a value and loading it again.
static const double COST_OF_STORING = 2.5;

// ---- members -----------------------------------------------------------------------------------

// What the wanted values are made of, down to what is in memory by now.
static bool *find_needed(const Nest *nest) {
    const Lowering *lower = nest->lower;
    bool *needed = arena_array(lower->arena, bool, lower->graph->values.count + 1);
    for (uint32_t i = 0; i < nest->wanted.count; i++)
        needed[nest->wanted.at[i]->id] = true;
    for (uint32_t i = lower->group->members.count; i-- > 0;) {
        const Value *value = lower->group->members.at[i];
        bool there = lower_buffer_of(lower, value) != NO_BUFFER;
        for (uint32_t a = 0; needed[value->id] && !there && a < value->n_args; a++)
            needed[value->args[a]->id] = true;
    }
    return needed;
}

static DimSet box_of(const Nest *nest, const Value *value) {
    DimSet box = lower_dim_set(nest->lower, &value->dims);
    for (uint32_t a = 0; value_reduces(value) && a < value->n_args; a++)
        box |= lower_dim_set(nest->lower, &value->args[a]->dims);
    return box;
}

static void open_members(Nest *nest) {
    Lowering *lower = nest->lower;
    const bool *needed = find_needed(nest);
    nest->place = map_new(lower->arena);
    nest->members.count = 0;
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        Value *value = lower->group->members.at[i];
        if (!needed[value->id] || lower_buffer_of(lower, value) != NO_BUFFER)
            continue;
        Member member = {.value = value,
                         .box = box_of(nest, value),
                         .reduces = value_reduces(value),
                         .needed_by = NO_STAGE,
                         .last = TILE_DIM_NONE,
                         .home = NO_BUFFER};
        vec_push(lower->arena, &nest->members, member);
    }
    for (uint32_t i = 0; i < nest->members.count; i++)
        map_put(nest->place, (uint64_t)nest->members.at[i].value->id + 1, &nest->members.at[i]);
    for (uint32_t i = 0; i < nest->wanted.count; i++) {
        Member *member = nest_member(nest, nest->wanted.at[i]);
        if (member)
            member->wanted = true;
    }
}

static void find_shifted(Nest *nest, Member *m) {
    ShiftedSum sum;
    Access access;
    if (!value_is_shifted_sum(m->value, &sum))
        return;
    Member *of = nest_member(nest, sum.of);
    bool there = terms_plain_access(nest->lower, sum.of, &access);
    if (!there && (!of || nest->plain || op_kind(sum.of->op) == KIND_LEAF))
        return; // it is asked for point by point
    m->shifted = arena_copy(nest->lower->arena, &sum, sizeof sum);
    if (of)
        of->is_operand = true;
}

// The last of a value's dims that is in the set; TILE_DIM_NONE: there is none.
static TileDimId last_among(const Lowering *lower, const Value *value, DimSet set) {
    for (uint32_t i = value->dims.count; i-- > 0;)
        if (set_has(set, lower->dim_of[value->dims.at[i]]))
            return lower->dim_of[value->dims.at[i]];
    return TILE_DIM_NONE;
}

static void place_operand(const Nest *nest, Member *operand, const Value *other,
                          const Value *contraction) {
    const Lowering *lower = nest->lower;
    DimSet dims = lower_dim_set(lower, &operand->value->dims);
    DimSet shared = lower_dim_set(lower, &other->dims) & dims;
    DimSet result = lower_dim_set(lower, &contraction->dims);
    DimSet streamed = lower_dim_set(lower, &lower->group->reduced) & dims;
    bool first = !operand->placed;
    operand->placed = true;
    operand->outer = first ? shared & result & ~streamed : operand->outer & result;
    if (streamed & result)
        operand->last = last_among(lower, operand->value, streamed);
    else if (first && !streamed && !value_adds_rows(contraction)) // whose lanes are its own
        operand->last = last_among(lower, operand->value, shared & ~result & ~nest->rows);
    if (operand->last == TILE_DIM_NONE)
        operand->last = last_among(lower, operand->value, dims & ~shared & ~nest->rows);
}

// Operands of the rows alone (queries) lie as the contractions of the group read them, in this nest
// or another: head by head, so that what one head reads is one piece of memory, and contiguous
// along what the first one sums, or has as lanes. So do copies of what is streamed past (keys,
// values), which are contiguous along the lanes.
static void place_operands(Nest *nest) {
    const Lowering *lower = nest->lower;
    DimSet streamed = lower_dim_set(lower, &lower->group->reduced);
    DimSet wide = streamed | set_of(nest->lanes);
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *value = lower->group->members.at[i];
        for (uint32_t k = 0; value->op == OP_CONTRACT && value->n_args == 2 && k < 2; k++) {
            Member *operand = nest_member(nest, value->args[k]);
            if (!operand || operand->value->op == OP_CONTRACT || operand->reduces)
                continue;
            DimSet dims = lower_dim_set(lower, &operand->value->dims);
            bool streams = operand->value->op == OP_COPY && (dims & streamed);
            if (!(dims & wide) || streams)
                place_operand(nest, operand, value->args[1 - k], value);
        }
    }
}

static void find_roles(Nest *nest) {
    for (uint32_t i = 0; i < nest->members.count; i++) {
        Member *m = &nest->members.at[i];
        find_shifted(nest, m);
        m->contracts = m->value->op == OP_CONTRACT &&
                       (nest->plain ? nest->dots && roles_find_dots(nest, m->value, &m->roles)
                                    : roles_find(nest, m->value, &m->roles));
        if (!m->contracts)
            continue;
        m->last = roles_sum_lanes(&m->roles) ? TILE_DIM_NONE : m->roles.lanes;
        for (int k = 0; k < 2; k++) {
            Member *operand = nest_member(nest, m->value->args[k]);
            if (operand)
                operand->is_operand = true;
        }
    }
}

// What computing a value again at one point costs: a load for what is stored, and for what lacks
// dims of the value, because that is stored when it is expensive.
static double cost_of(const Nest *nest, const Member *m) {
    double cost = op_weight(m->value->op);
    for (uint32_t a = 0; a < m->value->n_args; a++) {
        const Member *arg = nest_member(nest, m->value->args[a]);
        if (!arg)
            cost += terms_cost(nest->lower, m->value->args[a]);
        else if (arg->reduces || arg->is_operand ||
                 (m->box & ~arg->box && arg->cost > op_weight(OP_INPUT)))
            cost += op_weight(OP_INPUT);
        else
            cost += arg->cost;
    }
    return cost;
}

static void find_levels(Nest *nest) {
    for (uint32_t i = 0; i < nest->members.count; i++) {
        Member *m = &nest->members.at[i];
        for (uint32_t a = 0; a < m->value->n_args; a++) {
            const Member *arg = nest_member(nest, m->value->args[a]);
            uint32_t level = arg ? arg->level + arg->reduces : 0;
            m->level = level > m->level ? level : m->level;
        }
        m->cost = cost_of(nest, m);
    }
}

// ---- stages ------------------------------------------------------------------------------------

static uint32_t find_stage(Nest *nest, Member *m) {
    bool sums = nest->sums_apart && m->reduces;
    bool alone = m->contracts || m->shifted;
    for (uint32_t i = 0; i < nest->stages.count && !alone; i++) {
        const NestStage *stage = &nest->stages.at[i];
        if (stage->level == m->level && stage->box == m->box && stage->kind == NEST_COMPUTE &&
            stage->sums == sums)
            return i;
    }
    NestStage stage = {.kind = m->contracts ? NEST_CONTRACT : NEST_COMPUTE,
                       .level = m->level,
                       .box = m->box,
                       .sums = sums,
                       .contraction = m->contracts ? m : NULL};
    vec_push(nest->lower->arena, &nest->stages, stage);
    return nest->stages.count - 1;
}

static void need(Member *m, uint32_t stage) {
    if (m->needed_by == NO_STAGE)
        m->needed_by = stage;
    else if (m->needed_by != stage)
        m->needed_by = MANY_STAGES;
}

static bool is_worth_storing(const Nest *nest, const Member *m) {
    if (m->wanted || m->reduces)
        return true;
    Access access;
    if (m->is_operand && !terms_plain_access(nest->lower, m->value, &access))
        return true;
    if (op_kind(m->value->op) == KIND_LEAF)
        return false;
    return m->cost > COST_OF_STORING && (m->needed_by == MANY_STAGES || m->needed_wider);
}

// From the wanted values back to what they need: every user of a value is settled before it is.
static void find_stages(Nest *nest) {
    for (uint32_t i = nest->members.count; i-- > 0;) {
        Member *m = &nest->members.at[i];
        if (m->needed_by == NO_STAGE && !m->wanted)
            continue;
        m->stored = is_worth_storing(nest, m);
        m->stage = m->stored ? find_stage(nest, m) : m->needed_by;
        for (uint32_t a = 0; a < m->value->n_args; a++) {
            Member *arg = nest_member(nest, m->value->args[a]);
            if (!arg)
                continue;
            need(arg, m->stage);
            if ((m->box & ~arg->box) || (!m->stored && m->needed_wider))
                arg->needed_wider = true;
        }
    }
}

// The level at which a value is there to be read.
static uint32_t known_level(const Nest *nest, const Value *value) {
    const Member *member = nest_member(nest, value);
    return member->level + member->reduces;
}

// One stage for each shift that carries are relative to, where the shift is known.
static void add_rescaling(Nest *nest) {
    for (uint32_t i = 0; i < nest->carries.count; i++) {
        Value *shift = nest->carries.at[i].shift;
        bool known = !shift;
        for (uint32_t k = 0; k < i; k++)
            known = known || nest->carries.at[k].shift == shift;
        if (known)
            continue;
        NestStage stage = {.kind = NEST_RESCALE,
                           .level = known_level(nest, shift),
                           .box = lower_dim_set(nest->lower, &shift->dims),
                           .shift = shift};
        vec_push(nest->lower->arena, &nest->stages, stage);
    }
}

// By level; at one level rescaling first, and compute stages before contractions, which may read
// them, and small boxes first, because what has fewer dims cannot depend on what has more. Of the
// contractions those first that only sum: what they read may then be replaced.
static bool runs_before(const NestStage *a, const NestStage *b) {
    if (a->level != b->level)
        return a->level < b->level;
    if (a->kind != b->kind)
        return a->kind < b->kind;
    bool sums_a = a->contraction && roles_sum_lanes(&a->contraction->roles);
    bool sums_b = b->contraction && roles_sum_lanes(&b->contraction->roles);
    if (sums_a != sums_b)
        return sums_a;
    int na = __builtin_popcountll(a->box), nb = __builtin_popcountll(b->box);
    if (na != nb)
        return na < nb;
    if (a->box != b->box)
        return a->box < b->box;
    if (a->sums != b->sums)
        return b->sums; // which may read what the other stores
    return a->contraction && a->contraction->value->id < b->contraction->value->id;
}

static void order_stages(Nest *nest) {
    nest->sequence = arena_array(nest->lower->arena, uint32_t, nest->stages.count + 1);
    for (uint32_t i = 0; i < nest->stages.count; i++) {
        uint32_t at = i;
        for (; at > 0 && runs_before(&nest->stages.at[i], &nest->stages.at[nest->sequence[at - 1]]);
             at--)
            nest->sequence[at] = nest->sequence[at - 1];
        nest->sequence[at] = i;
    }
}

// ---- runs --------------------------------------------------------------------------------------

static bool works_by_rows(const Nest *nest, const NestStage *stage) {
    if (stage->kind != NEST_CONTRACT || nest->block_dim == TILE_DIM_NONE)
        return true;
    const ContractRoles *roles = &stage->contraction->roles;
    if (roles_are_dots(roles))
        return false; // of arguments, all rows of the task
    if (roles_sum_lanes(roles))
        return true; // what is summed along the lanes reads what rows hand to each other
    DimSet blocks = roles_share_lanes(roles) ? roles->own_b : set_of(roles->lanes);
    return !set_has(roles->own_a | roles->summed | blocks, nest->block_dim);
}

static void find_runs(Nest *nest) {
    uint32_t run = 0;
    for (uint32_t i = 0; i < nest->stages.count; i++) {
        NestStage *stage = &nest->stages.at[nest->sequence[i]];
        stage->by_rows = works_by_rows(nest, stage);
        if (i > 0) {
            const NestStage *before = &nest->stages.at[nest->sequence[i - 1]];
            run += !(stage->by_rows && before->by_rows);
        }
        stage->run = run;
    }
}

static void touch(Member *m, uint32_t first_run, uint32_t last_run, uint32_t position) {
    m->first_run = first_run < m->first_run ? first_run : m->first_run;
    m->last_run = last_run > m->last_run ? last_run : m->last_run;
    m->last_stage = position > m->last_stage ? position : m->last_stage;
}

// A stage reads what its members read, through what is not stored: users come first, and hand on
// to what is not stored where they are computed themselves. What is computed ahead of all rows is
// touched by the runs that read it.
static void find_lives(Nest *nest) {
    uint32_t *position = arena_array(nest->lower->arena, uint32_t, nest->stages.count + 1);
    for (uint32_t i = 0; i < nest->stages.count; i++)
        position[nest->sequence[i]] = i;
    for (uint32_t i = 0; i < nest->members.count; i++) {
        Member *m = &nest->members.at[i];
        bool in_run = m->stored && !nest_is_ahead(nest, &nest->stages.at[m->stage]);
        m->first_run = in_run ? nest->stages.at[m->stage].run : UINT32_MAX;
        m->last_run = in_run ? m->first_run : 0;
        m->last_stage = m->stored ? position[m->stage] : 0;
    }
    for (uint32_t i = nest->members.count; i-- > 0;) {
        const Member *m = &nest->members.at[i];
        uint32_t run = m->stored ? nest->stages.at[m->stage].run : 0;
        for (uint32_t a = 0; a < m->value->n_args; a++) {
            Member *arg = nest_member(nest, m->value->args[a]);
            if (arg && m->stored)
                touch(arg, run, run, position[m->stage]);
            else if (arg)
                touch(arg, m->first_run, m->last_run, m->last_stage);
        }
    }
}

void nest_analyse(Nest *nest) {
    nest->stages.count = 0;
    open_members(nest);
    if (!nest->plain)
        place_operands(nest);
    find_roles(nest);
    find_levels(nest);
    find_stages(nest);
    add_rescaling(nest);
    order_stages(nest);
    find_runs(nest);
    find_lives(nest);
}
