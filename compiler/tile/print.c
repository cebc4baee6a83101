// SPDX-License-Identifier: Apache-2.0
// Kernels as text, for `attc emit --stage=tile` and golden tests. The form is shown in tile.h. An
// access whose index is the buffer's own dims is printed as the buffer's name alone.
#include "tile/tile.h"

typedef struct {
    const Kernel *kernel;
    const Stage *stage;
    uint32_t *uses; // per term
    bool *has_line; // per term: it has a line of its own, and its name stands where it is used
    Text *out;
} Printer;

static const char *dim_name(const Printer *p, TileDimId dim) {
    return dim == TILE_DIM_NONE ? "none" : p->kernel->dims.at[dim].name;
}

static void print_term(const Printer *p, int32_t term, bool named);

static void print_index(const Printer *p, const Index *index) {
    bool first = true;
    if (index->dim != TILE_DIM_NONE) {
        text_add(p->out, dim_name(p, index->dim));
        first = false;
    }
    if (index->term >= 0) {
        if (!first)
            text_add(p->out, "+");
        text_add(p->out, "(");
        print_term(p, index->term, true);
        text_add(p->out, ")");
        first = false;
    }
    if (index->offset || first)
        text_printf(p->out, first ? "%ld" : "%+ld", (long)index->offset);
}

static bool access_is_own(const Printer *p, const Access *access) {
    const TileBuffer *buffer = &p->kernel->buffers.at[access->buffer];
    if (!access_is_plain(access) || access->rank != buffer->rank)
        return false;
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim != buffer->dims[i])
            return false;
    return true;
}

static void print_access(const Printer *p, const Access *access) {
    text_add(p->out, p->kernel->buffers.at[access->buffer].name);
    if (access_is_own(p, access))
        return;
    text_add(p->out, "[");
    for (int i = 0; i < access->rank; i++) {
        if (i)
            text_add(p->out, " ");
        print_index(p, &access->index[i]);
    }
    if (access->checked) {
        text_add(p->out, " else ");
        text_double(p->out, access->fill);
    }
    text_add(p->out, "]");
}

static const char *infix(Op op) {
    switch (op) {
    case OP_ADD:
        return " + ";
    case OP_SUB:
        return " - ";
    case OP_MUL:
        return " * ";
    case OP_DIV:
        return " / ";
    case OP_EQ:
        return " == ";
    case OP_NE:
        return " != ";
    case OP_LT:
        return " < ";
    case OP_LE:
        return " <= ";
    case OP_AND:
        return " and ";
    case OP_OR:
        return " or ";
    default:
        return NULL;
    }
}

static void print_op(const Printer *p, const Term *term) {
    const char *between = infix(term->op);
    if (!between)
        text_add(p->out, term->op == OP_CAST ? elem_name(term->elem) : op_name(term->op));
    text_add(p->out, "(");
    for (int i = 0; i < 3 && term->args[i] >= 0; i++) {
        if (i)
            text_add(p->out, between ? between : ", ");
        print_term(p, term->args[i], true);
    }
    text_add(p->out, ")");
}

static void print_term(const Printer *p, int32_t term, bool named) {
    const Term *t = &p->stage->terms.at[term];
    if (named && p->has_line[term]) {
        text_printf(p->out, "%%%d", term);
        return;
    }
    switch (t->kind) {
    case TERM_LOAD:
        print_access(p, &t->load);
        break;
    case TERM_CONST:
        text_double(p->out, t->number);
        break;
    case TERM_INDEX:
        text_printf(p->out, "index(%s)", dim_name(p, t->dim));
        break;
    case TERM_EXTENT:
        text_printf(p->out, "extent(%s)", dim_name(p, t->dim));
        break;
    case TERM_OP:
        print_op(p, t);
        break;
    }
}

static void count_uses(const Printer *p) {
    for (uint32_t i = 0; i < p->stage->terms.count; i++) {
        const Term *term = &p->stage->terms.at[i];
        for (int k = 0; k < 3 && term->kind == TERM_OP; k++)
            if (term->args[k] >= 0)
                p->uses[term->args[k]]++;
        for (int k = 0; k < term->load.rank && term->kind == TERM_LOAD; k++)
            if (term->load.index[k].term >= 0)
                p->uses[term->load.index[k].term]++;
    }
    for (uint32_t i = 0; i < p->stage->sinks.count; i++)
        p->uses[p->stage->sinks.at[i].term]++;
}

// Operations that are used more than once, and what would stand in too many brackets.
static void find_lines(const Printer *p, Arena *arena) {
    enum { DEEPEST = 100 };
    uint32_t *depth = arena_array(arena, uint32_t, p->stage->terms.count + 1);
    for (uint32_t i = 0; i < p->stage->terms.count; i++) {
        const Term *term = &p->stage->terms.at[i];
        int n = term->kind == TERM_OP ? 3 : term->kind == TERM_LOAD ? term->load.rank : 0;
        for (int k = 0; k < n; k++) {
            int32_t arg = term->kind == TERM_OP ? term->args[k] : term->load.index[k].term;
            if (arg >= 0 && !p->has_line[arg] && depth[arg] >= depth[i])
                depth[i] = depth[arg] + 1;
        }
        p->has_line[i] = (term->kind == TERM_OP && p->uses[i] > 1) || depth[i] >= DEEPEST;
    }
}

static void print_over(const Printer *p) {
    const Stage *stage = p->stage;
    text_add(p->out, "  over");
    for (int i = 0; i < stage->n_dims; i++)
        text_printf(p->out, " %s", dim_name(p, stage->dims[i]));
    if (stage->kind == STAGE_CONTRACT) {
        if (stage->rows != TILE_DIM_NONE)
            text_printf(p->out, "  rows=%s:%d", dim_name(p, stage->rows), stage->row_block);
        if (stage->cols != TILE_DIM_NONE)
            text_printf(p->out, " cols=%s:%d", dim_name(p, stage->cols), stage->col_block);
        text_printf(p->out, " lanes=%s", dim_name(p, stage->lanes));
        if (!stage_sums_lanes(stage))
            text_printf(p->out, ":%d", stage->lane_block);
        if (stage->in_order)
            text_add(p->out, " in-order");
    } else if (stage->kind == STAGE_ORDER) {
        text_printf(p->out, "  along=%s%s", dim_name(p, stage->along),
                    stage->descending ? " descending" : "");
    } else if (stage->lanes != TILE_DIM_NONE) {
        text_printf(p->out, "  lanes=%s", dim_name(p, stage->lanes));
    }
    if (stage->pad)
        text_add(p->out, " pad");
    text_add(p->out, "\n");
}

static void print_sink(const Printer *p, const Sink *sink) {
    static const char *const between[] = {
        [SINK_SET] = " = ",    [SINK_SUM] = " += ",   [SINK_PROD] = " *= ",
        [SINK_MAX] = " max= ", [SINK_TOP] = " top= ", [SINK_MIN] = " min= "};
    print_access(p, &sink->to);
    text_add(p->out, between[sink->mode]);
    print_term(p, sink->term, true);
}

static void print_spaces(Text *out, int n) {
    text_printf(out, "%*s", n, "");
}

static void print_compute(const Printer *p, int indent) {
    uint32_t lines = 0;
    for (uint32_t i = 0; i < p->stage->terms.count; i++)
        lines += p->has_line[i];
    text_add(p->out, "compute ");
    if (p->stage->sinks.count == 1 && !lines) {
        print_sink(p, &p->stage->sinks.at[0]);
        print_over(p);
        return;
    }
    print_over(p);
    for (uint32_t i = 0; i < p->stage->terms.count; i++) {
        if (!p->has_line[i])
            continue;
        print_spaces(p->out, indent + 2);
        text_printf(p->out, "%%%u = ", i);
        print_term(p, (int32_t)i, false);
        text_add(p->out, "\n");
    }
    for (uint32_t i = 0; i < p->stage->sinks.count; i++) {
        print_spaces(p->out, indent + 2);
        print_sink(p, &p->stage->sinks.at[i]);
        text_add(p->out, "\n");
    }
}

static void print_stage(const Kernel *kernel, const Stage *stage, int indent, Text *out) {
    Printer p = {.kernel = kernel,
                 .stage = stage,
                 .out = out,
                 .uses = arena_array(out->arena, uint32_t, stage->terms.count + 1),
                 .has_line = arena_array(out->arena, bool, stage->terms.count + 1)};
    if (stage->kind == STAGE_COMPUTE) {
        count_uses(&p);
        find_lines(&p, out->arena);
        print_compute(&p, indent);
        return;
    }
    if (stage->kind == STAGE_ORDER) {
        text_add(out, "order ");
        print_access(&p, &stage->c);
        text_add(out, " = ");
        print_access(&p, &stage->a);
        print_over(&p);
        return;
    }
    text_add(out, "contract ");
    print_access(&p, &stage->c);
    text_add(out, " += ");
    print_access(&p, &stage->a);
    text_add(out, " * ");
    print_access(&p, &stage->b);
    print_over(&p);
}

static void print_buffer(const Kernel *kernel, const TileBuffer *buffer, Text *out) {
    text_printf(out, "%s[", buffer->name);
    for (int i = 0; i < buffer->rank; i++) {
        text_printf(out, "%s%s", i ? " " : "", kernel->dims.at[buffer->dims[i]].name);
        if (buffer->dims[i] == buffer->panel_dim)
            text_printf(out, "%%%d", buffer->panel_width);
    }
    text_add(out, "]");
    if (buffer->elem != ELEM_F32)
        text_printf(out, ": %s", elem_name(buffer->elem));
    if (buffer->has_initial) {
        text_add(out, " = ");
        text_double(out, buffer->initial);
    }
    if (buffer->kept_by >= 0)
        text_printf(out, "  unless %s", kernel->buffers.at[buffer->kept_by].name);
    if (buffer->gap)
        text_printf(out, "  gap %d", buffer->gap);
    if (buffer->takes >= 0)
        text_printf(out, "  takes %s", kernel->buffers.at[buffer->takes].name);
}

static void print_bound(const Printer *p, const Node *range, int32_t at) {
    static const char *const calls[] = {
        [BOUND_LO] = "start", [BOUND_HI] = "end",  [BOUND_EXTENT] = "extent",
        [BOUND_MIN] = "min",  [BOUND_MAX] = "max", [BOUND_ADD] = ""};
    const Bound *bound = &range->bounds.at[at];
    switch (bound->kind) {
    case BOUND_NUMBER:
        text_printf(p->out, "%ld", (long)bound->number);
        return;
    case BOUND_LO:
    case BOUND_HI:
    case BOUND_EXTENT:
        text_printf(p->out, "%s(%s)", calls[bound->kind], dim_name(p, bound->dim));
        break;
    case BOUND_PART:
        text_printf(p->out, "part(%s%s)", dim_name(p, bound->dim), bound->number ? "+1" : "");
        return;
    case BOUND_LOAD:
        print_access(p, &bound->load);
        break;
    case BOUND_MIN:
    case BOUND_MAX:
    case BOUND_ADD:
        text_printf(p->out, "%s(", calls[bound->kind]);
        print_bound(p, range, bound->args[0]);
        text_add(p->out, bound->kind == BOUND_ADD ? " + " : ", ");
        print_bound(p, range, bound->args[1]);
        text_add(p->out, ")");
        return;
    case BOUND_ROUND:
        text_add(p->out, "round(");
        print_bound(p, range, bound->args[0]);
        text_printf(p->out, ", %ld)", (long)bound->number);
        return;
    }
    if (bound->number)
        text_printf(p->out, "%+ld", (long)bound->number);
}

static void print_range(const Kernel *kernel, const Node *range, Text *out) {
    Printer p = {.kernel = kernel, .out = out};
    text_add(out, "range ");
    if (range->lo >= 0) {
        print_bound(&p, range, range->lo);
        text_add(out, " <= ");
    }
    text_add(out, dim_name(&p, range->dim));
    if (range->hi >= 0) {
        text_add(out, " < ");
        print_bound(&p, range, range->hi);
    }
    if (range->align != 1)
        text_printf(out, "  align %ld", (long)range->align);
    text_add(out, "\n");
}

static void print_nodes(const Kernel *kernel, const NodeList *body, int indent, Text *out) {
    static const char *const loops[] = {[LOOP_PARALLEL] = "parallel",
                                        [LOOP_SEQUENTIAL] = "loop",
                                        [LOOP_BACKWARD] = "backward",
                                        [LOOP_ORDERED] = "ordered"};
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        print_spaces(out, indent);
        switch (node->kind) {
        case NODE_LOOP:
            text_printf(out, "%s %s:%ld", loops[node->loop], kernel->dims.at[node->dim].name,
                        (long)node->step);
            // loops directly inside one another share a line
            while (node->body.count == 1 && node->body.at[0]->kind == NODE_LOOP &&
                   node->body.at[0]->loop == node->loop) {
                node = node->body.at[0];
                text_printf(out, " %s:%ld", kernel->dims.at[node->dim].name, (long)node->step);
            }
            text_add(out, "\n");
            print_nodes(kernel, &node->body, indent + 2, out);
            break;
        case NODE_RANGE:
            print_range(kernel, node, out);
            print_nodes(kernel, &node->body, indent + 2, out);
            break;
        case NODE_SCRATCH:
            text_add(out, "scratch ");
            print_buffer(kernel, &kernel->buffers.at[node->buffer], out);
            text_add(out, "\n");
            break;
        case NODE_STAGE:
            print_stage(kernel, node->stage, indent, out);
            break;
        }
    }
}

static void print_arguments(const Kernel *kernel, Place place, const char *title, Text *out) {
    bool first = true;
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        if (kernel->buffers.at[i].place != place)
            continue;
        text_add(out, first ? title : ", ");
        print_buffer(kernel, &kernel->buffers.at[i], out);
        first = false;
    }
}

static void print_plan(const StreamSchedule *schedule, Text *out) {
    text_printf(out, "  # plan: %s, %ld row%s", plan_names[schedule->plan], (long)schedule->rows,
                schedule->rows == 1 ? "" : "s");
    if (schedule->plan != PLAN_RESIDENT)
        text_printf(out, ", pieces of %ld", (long)schedule->piece);
    text_add(out, "\n");
}

void kernel_print(const Kernel *kernel, Text *out) {
    text_printf(out, "kernel %s\n", kernel->name);
    if (kernel->schedule.kind == SCHEDULE_STREAM)
        print_plan(&kernel->schedule.stream, out);
    if (kernel->schedule.prefetch == PREFETCH_NONE)
        text_add(out, "  prefetch none\n");
    text_add(out, "  dims");
    for (uint32_t i = 0; i < kernel->dims.count; i++) {
        text_printf(out, " %s", kernel->dims.at[i].name);
        if (kernel->dims.at[i].extent != EXTENT_DYNAMIC)
            text_printf(out, ":%ld", (long)kernel->dims.at[i].extent);
    }
    text_add(out, "\n");
    print_arguments(kernel, PLACE_IN, "  in ", out);
    print_arguments(kernel, PLACE_BOTH, "  both ", out);
    print_arguments(kernel, PLACE_OUT, "  out ", out);
    text_add(out, "\n");
    print_nodes(kernel, &kernel->body, 2, out);
}

// Which buffers and dims of the entry a launch binds to its kernel.
static void print_launch(const TileProgram *program, const Launch *launch, Text *out) {
    const Kernel *kernel = program->kernels.at[launch->kernel];
    const Graph *graph = program->plan->fusion->graph;
    text_printf(out, "launch %s(", kernel->name);
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        const Value *value = program->plan->buffers.at[launch->buffers[i]].value;
        if (i)
            text_add(out, ", ");
        text_printf(out, "%s=", kernel->buffers.at[i].name);
        text_add(out, value_label(out->arena, value));
    }
    text_add(out, ") with");
    for (uint32_t i = 0; i < kernel->dims.count; i++) {
        text_printf(out, " %s=", kernel->dims.at[i].name);
        for (int k = 0; k < launch->dims[i].count; k++)
            text_printf(out, "%s%s", k ? "*" : "", graph->dims.at[launch->dims[i].at[k]].name);
    }
    if (launch->most)
        text_printf(out, "  when %lld <= %s", (long long)launch->least,
                    graph->dims.at[launch->guard].name);
    if (launch->most && launch->most != INT64_MAX)
        text_printf(out, " < %lld", (long long)launch->most);
    text_add(out, "\n");
}

void tile_print(const TileProgram *program, Text *out) {
    for (uint32_t i = 0; i < program->kernels.count; i++) {
        kernel_print(program->kernels.at[i], out);
        text_add(out, "\n");
    }
    for (uint32_t i = 0; i < program->launches.count; i++)
        print_launch(program, &program->launches.at[i], out);
}
