// SPDX-License-Identifier: Apache-2.0
// The rules of the graph level, checked after each pass.
//
// A graph that passes is one that any pass, the printer and the oracle may read without asking: ids
// are in order, attributes are there, dims and elems follow from the arguments as ops.def says.
#include <math.h>

#include "graph/cons.h"

typedef struct {
    const Graph *graph;
    const char *after;
    const Value *value; // under check; NULL: the graph as a whole
} GraphCheck;

static void must(const GraphCheck *check, bool holds, const char *rule) {
    if (holds)
        return;
    const Value *value = check->value;
    if (!value)
        ice("graph after %s: %s", check->after, rule);
    ice("graph after %s: value %u (%s%s%s): %s", check->after, value->id, op_name(value->op),
        value->hint ? " " : "", value->hint ? value->hint : "", rule);
}

// ---- dims ---------------------------------------------------------------------------------------

static bool dims_valid(const Graph *graph, const DimList *dims) {
    for (uint32_t i = 0; i < dims->count; i++) {
        if (dims->at[i] >= graph->dims.count)
            return false;
        for (uint32_t j = 0; j < i; j++)
            if (dims->at[j] == dims->at[i])
                return false;
    }
    return dims->count <= DIMS_MAX;
}

static void verify_dims(const GraphCheck *check) {
    const Graph *graph = check->graph;
    for (uint32_t i = 0; i < graph->dims.count; i++) {
        const Dim *dim = &graph->dims.at[i];
        must(check, dim->name != NULL, "a dim has no name");
        for (uint32_t j = 0; j < i; j++)
            must(check, graph->dims.at[j].name != dim->name, "two dims have one name");
        must(check, dim->extent == EXTENT_DYNAMIC || dim->extent >= 1, "a dim has a bad extent");
        must(check, dim->like < graph->dims.count, "a dim is like no dim");
        const Dim *leader = &graph->dims.at[dim->like];
        must(check, leader->like == dim->like, "a dim is like a dim that is like another");
        must(check, leader->extent == dim->extent, "dims that are alike differ in extent");
    }
}

static bool is_over_known(const Graph *graph, const Formula *formula, const bool *computed,
                          const bool *done) {
    if (formula->op == FORMULA_NUMBER)
        return true;
    if (formula->op == FORMULA_DIM)
        return formula->dim < graph->dims.count &&
               graph->dims.at[formula->dim].like == formula->dim &&
               (!computed[formula->dim] || done[formula->dim]);
    return formula->op < N_FORMULA && is_over_known(graph, formula->a, computed, done) &&
           is_over_known(graph, formula->b, computed, done);
}

static void verify_rules(const GraphCheck *check) {
    const Graph *graph = check->graph;
    Arena *arena = arena_new();
    bool *computed = arena_array(arena, bool, graph->dims.count + 1);
    bool *done = arena_array(arena, bool, graph->dims.count + 1);
    for (uint32_t i = 0; i < graph->rules.count; i++) {
        const ExtentRule *rule = &graph->rules.at[i];
        must(check, rule->dim < graph->dims.count && graph->dims.at[rule->dim].like == rule->dim,
             "a rule is about no class of dims");
        must(check, rule->kind != RULE_COMPUTES || !computed[rule->dim], "a dim has two rules");
        computed[rule->dim] |= rule->kind == RULE_COMPUTES;
    }
    for (uint32_t i = 0; i < graph->rules.count; i++) {
        const ExtentRule *rule = &graph->rules.at[i];
        must(check, is_over_known(graph, rule->formula, computed, done),
             "a rule needs what is computed later");
        done[rule->dim] |= rule->kind == RULE_COMPUTES;
    }
    arena_free(arena);
}

static bool has_dim(const GraphCheck *check, DimId dim) {
    return dim < check->graph->dims.count && dims_has(&check->value->dims, dim);
}

static bool arg_has(const Value *value, uint32_t i, DimId dim) {
    return dims_has(&value->args[i]->dims, dim);
}

static bool dims_are_union_of_args(const Value *value) {
    DimList all;
    return value_args_dims(value, &all) && dims_equal(&all, &value->dims);
}

// The value's dims are the argument's with `dim` replaced by `as` (DIM_NONE: taken away).
static bool dims_are_replaced(const Value *value, uint32_t arg, DimId dim, DimId as) {
    DimList gone = {1, {dim}}, expected = dims_minus(&value->args[arg]->dims, &gone);
    if (as != DIM_NONE)
        dims_add(&expected, as);
    return dims_equal(&expected, &value->dims);
}

// ---- elems --------------------------------------------------------------------------------------

static bool args_share_elem(const Value *value, uint32_t from) {
    for (uint32_t i = from; i < value->n_args; i++)
        if (value->args[i]->elem != value->args[from]->elem)
            return false;
    return true;
}

typedef enum { WANTS_ANY, WANTS_NUMBER, WANTS_FLOAT, WANTS_BOOL, WANTS_I64 } Wants;

static Wants map_wants(Op op) {
    switch (op) {
    case OP_COPY:
    case OP_CAST:
    case OP_EQ:
    case OP_NE:
    case OP_SELECT:
        return WANTS_ANY;
    case OP_NOT:
    case OP_AND:
    case OP_OR:
        return WANTS_BOOL;
    case OP_NEG:
    case OP_ABS:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_FLOORDIV:
    case OP_MOD:
    case OP_MIN:
    case OP_MAX:
    case OP_LT:
    case OP_LE:
        return WANTS_NUMBER;
    case OP_RANDOM:
        return WANTS_I64;
    default:
        return WANTS_FLOAT;
    }
}

static bool elem_fits(Elem elem, Wants wants) {
    return wants == WANTS_ANY || (wants == WANTS_NUMBER && elem != ELEM_BOOL) ||
           (wants == WANTS_FLOAT && elem_is_float(elem)) ||
           (wants == WANTS_BOOL && elem == ELEM_BOOL) || (wants == WANTS_I64 && elem == ELEM_I64);
}

static bool map_gives_bool(Op op) {
    return op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE;
}

// ---- one value ----------------------------------------------------------------------------------

static void verify_leaf(const GraphCheck *check) {
    const Value *value = check->value;
    switch (value->op) {
    case OP_INPUT:
        must(check, value->name != NULL, "an input has no name");
        break;
    case OP_CONST:
        must(check, value->dims.count == 0, "a constant has dims");
        must(check, elem_is_float(value->elem) || value->number == trunc(value->number),
             "an integer constant is no whole number");
        break;
    case OP_INDEX:
        must(check, value->dims.count == 1 && has_dim(check, value->dim),
             "an index has other dims than its own");
        must(check, value->elem == ELEM_I64, "an index is i64");
        break;
    case OP_CARRY:
        must(check, has_dim(check, value->dim) && check->graph->dims.at[value->dim].scan,
             "a carry is along no scan");
        break;
    default:
        must(check, value->dims.count == 0, "an extent has dims");
        must(check, value->dim < check->graph->dims.count, "an extent is of no dim");
        must(check, value->elem == ELEM_I64, "an extent is i64");
    }
}

static void verify_map(const GraphCheck *check) {
    const Value *value = check->value;
    must(check, dims_are_union_of_args(value), "dims are not those of the arguments");
    uint32_t first = value->op == OP_SELECT ? 1 : 0;
    must(check, args_share_elem(value, first), "arguments differ in elem");
    must(check, elem_fits(value->args[first]->elem, map_wants(value->op)),
         "arguments of this elem are not allowed");
    if (value->op == OP_SELECT)
        must(check, value->args[0]->elem == ELEM_BOOL, "the condition is no bool");
    if (map_gives_bool(value->op))
        must(check, value->elem == ELEM_BOOL, "a comparison gives bool");
    else if (value->op == OP_RANDOM)
        must(check, value->elem == ELEM_F32, "a random number is f32");
    else if (value->op != OP_CAST)
        must(check, value->elem == value->args[first]->elem, "elem is not that of the arguments");
}

static void verify_reduce(const GraphCheck *check) {
    const Value *value = check->value, *arg = value->args[0];
    must(check, arg->elem != ELEM_BOOL && (value->op != OP_REDUCE_TOP || elem_is_float(arg->elem)),
         "arguments of this elem are not allowed");
    if (value->op == OP_ARGMAX) {
        must(check, arg_has(value, 0, value->dim), "the argument lacks the dim");
        must(check, dims_are_replaced(value, 0, value->dim, DIM_NONE),
             "dims are not the argument's without the reduced one");
        must(check, value->elem == ELEM_I32, "a position is i32");
        return;
    }
    if (value->dim2 != DIM_NONE) {
        DimList others = dims_minus(&value->dims, &(DimList){1, {value->dim2}});
        must(check, arg_has(value, 0, value->dim) && !arg_has(value, 0, value->dim2),
             "a reduction in parts is over another dim");
        must(check,
             dims_subset(&others, &arg->dims) && !dims_has(&others, value->dim) &&
                 has_dim(check, value->dim2),
             "a reduction in parts has other dims");
        must(check, value->elem == arg->elem, "elem is not that of the argument");
        return;
    }
    must(check,
         !value_in_turn(value) || (arg_has(value, 0, value->dim) && !has_dim(check, value->dim)),
         "a sum in turn is over another dim");
    must(check, dims_subset(&value->dims, &arg->dims),
         "a reduction has dims that its argument lacks");
    must(check, value->dims.count < arg->dims.count, "a reduction reduces nothing");
    must(check, value->elem == arg->elem, "elem is not that of the argument");
}

static void verify_contract(const GraphCheck *check) {
    const Value *value = check->value;
    DimList all = {0};
    must(check, value->n_args >= 1, "an einsum has no operand");
    must(check, args_share_elem(value, 0), "operands differ in elem");
    must(check, value->elem == value->args[0]->elem, "elem is not that of the operands");
    must(check, value->elem != ELEM_BOOL, "operands of this elem are not allowed");
    if (value_in_parts(value))
        must(check,
             value->n_args == 2 && value->number == 1 && arg_has(value, 0, value->dim) &&
                 arg_has(value, 1, value->dim) && has_dim(check, value->dim2) &&
                 !has_dim(check, value->dim),
             "an einsum in parts is of two operands over another dim, without a factor");
    if (value_in_turn(value))
        must(check,
             value->n_args == 2 && value->number == 1 && arg_has(value, 0, value->dim) &&
                 arg_has(value, 1, value->dim) && !has_dim(check, value->dim),
             "an einsum in turn is of two operands over another dim, without a factor");
    for (uint32_t i = 0; i < value->dims.count; i++) {
        bool found = value->dims.at[i] == value->dim2;
        for (uint32_t k = 0; k < value->n_args && !found; k++)
            found = arg_has(value, k, value->dims.at[i]);
        if (found)
            dims_add(&all, value->dims.at[i]);
    }
    must(check, dims_equal(&all, &value->dims), "a dim of the result is in no operand");
}

static void verify_row(const GraphCheck *check) {
    const Value *value = check->value;
    must(check, dims_equal(&value->dims, &value->args[0]->dims), "dims are not the argument's");
    must(check, has_dim(check, value->dim), "the argument lacks the dim");
    must(check, value->elem == value->args[0]->elem, "elem is not that of the argument");
    must(check, elem_fits(value->elem, value->op == OP_CUMSUM ? WANTS_NUMBER : WANTS_FLOAT),
         "arguments of this elem are not allowed");
}

static int64_t extent_of(const GraphCheck *check, DimId dim) {
    return check->graph->dims.at[dim].extent;
}

static void verify_concat(const GraphCheck *check) {
    const Value *value = check->value;
    int64_t total = 0;
    DimList all = {0};
    must(check, value->n_args >= 1 && value->cats, "a concat has no argument");
    must(check, args_share_elem(value, 0), "arguments differ in elem");
    must(check, has_dim(check, value->dim2), "dims lack the joined dim");
    for (uint32_t k = 0; k < value->n_args; k++) {
        DimId cat = value->cats[k];
        must(check, cat < check->graph->dims.count && arg_has(value, k, cat),
             "an argument lacks its dim");
        must(check, cat == value->dim2 || !arg_has(value, k, value->dim2),
             "an argument has the joined dim already");
        DimList rest = dims_minus(&value->args[k]->dims, &(DimList){1, {cat}});
        all = dims_union(&all, &rest);
        bool known = total >= 0 && extent_of(check, cat) >= 0;
        total = known ? total + extent_of(check, cat) : -1;
    }
    dims_add(&all, value->dim2);
    must(check, dims_equal(&all, &value->dims), "dims are not those of the arguments");
    if (total >= 0 && extent_of(check, value->dim2) >= 0)
        must(check, total == extent_of(check, value->dim2), "the extents do not add up");
}

static void verify_slice(const GraphCheck *check) {
    const Value *value = check->value;
    must(check, value->offset >= 0, "a slice begins before the first position");
    int64_t from = extent_of(check, value->dim), to = extent_of(check, value->dim2);
    if (from >= 0 && to >= 0)
        must(check, value->offset + to <= from, "a slice ends after the last position");
}

static void verify_rename(const GraphCheck *check) {
    const Value *value = check->value;
    const DimMap *renames = value->renames;
    must(check, renames && renames->count, "it renames nothing");
    must(check, value->args[0]->op != OP_RENAME, "a rename of a rename");
    for (uint32_t i = 0; i < renames->count; i++) {
        DimId from = renames->from[i], to = renames->to[i];
        must(check, arg_has(value, 0, from), "the argument lacks a dim");
        must(check, to < check->graph->dims.count && to != from, "a new dim is missing");
        must(check, graph_dims_alike(check->graph, from, to),
             "a rename between dims that are not alike");
    }
    DimList expected = dims_renamed(&value->args[0]->dims, renames);
    must(check, dims_valid(check->graph, &expected), "the argument has a new dim already");
    must(check, dims_equal(&expected, &value->dims), "dims are not the argument's, renamed");
}

static void verify_order(const GraphCheck *check) {
    const Value *value = check->value;
    must(check, arg_has(value, 0, value->dim), "the argument lacks the dim");
    must(check, value->args[0]->elem != ELEM_BOOL, "arguments of this elem are not allowed");
    must(check, value->elem == ELEM_I32, "a position is i32");
    must(check, value->dim2 < check->graph->dims.count, "the new dim is missing");
    must(check, value->dim2 == value->dim || !arg_has(value, 0, value->dim2),
         "the argument has the new dim already");
    must(check, dims_are_replaced(value, 0, value->dim, value->dim2),
         "dims are not the argument's with one replaced");
    int64_t all = extent_of(check, value->dim), kept = extent_of(check, value->dim2);
    must(check, all < 0 || kept <= all, "more positions are kept than there are");
}

static void verify_regroup(const GraphCheck *check) {
    const Value *value = check->value;
    const DimList *digits = value->digits;
    bool splits = value->op == OP_SPLIT;
    must(check, digits && digits->count && dims_valid(check->graph, digits), "it has no parts");
    must(check, !dims_has(digits, value->dim), "a dim is a part of itself");
    const DimList *whole = splits ? &value->args[0]->dims : &value->dims;
    const DimList *apart = splits ? &value->dims : &value->args[0]->dims;
    DimList rest = dims_minus(whole, &(DimList){1, {value->dim}});
    must(check,
         dims_has(whole, value->dim) && dims_subset(digits, apart) && !dims_has(apart, value->dim),
         "one side has the dim, the other its parts");
    DimList others = dims_minus(apart, digits);
    must(check, dims_equal(&rest, &others) && rest.count + digits->count == apart->count,
         "dims are not the argument's, regrouped");
    int64_t product = 1;
    for (uint32_t i = 0; i < digits->count && product >= 0; i++) {
        int64_t extent = extent_of(check, digits->at[i]);
        if (extent < 0 || !mul_i64(product, extent, &product))
            product = -1;
    }
    if (product >= 0 && extent_of(check, value->dim) >= 0)
        must(check, product == extent_of(check, value->dim), "the parts do not make the dim");
}

static void verify_scatter(const GraphCheck *check) {
    const Value *value = check->value;
    DimList rest = dims_minus(&value->dims, &(DimList){1, {value->dim}});
    DimList all = dims_union(&value->args[0]->dims, &value->args[1]->dims);
    must(check, elem_is_int(value->args[1]->elem), "the positions are no integers");
    must(check, value->elem != ELEM_BOOL, "arguments of this elem are not allowed");
    must(check, has_dim(check, value->dim) && !dims_has(&all, value->dim),
         "the dim of the sums is missing, or one of an argument");
    must(check, dims_subset(&rest, &all), "a dim of the sums is in no argument");
    must(check, rest.count < all.count, "it sums nothing");
}

static void verify_move(const GraphCheck *check) {
    const Value *value = check->value;
    if (value->op == OP_ORDER) {
        verify_order(check);
        return;
    }
    must(check, value->elem == value->args[0]->elem, "elem is not that of the argument");
    if (value->op == OP_CONCAT || value->op == OP_RENAME) {
        (value->op == OP_CONCAT ? verify_concat : verify_rename)(check);
        return;
    }
    if (value->op == OP_SPLIT || value->op == OP_MERGE) {
        verify_regroup(check);
        return;
    }
    if (value->op == OP_SCATTER_ADD) {
        verify_scatter(check);
        return;
    }
    must(check, arg_has(value, 0, value->dim), "the argument lacks the dim");
    if (value->op == OP_GATHER) {
        DimList rest = dims_minus(&value->args[0]->dims, &(DimList){1, {value->dim}});
        DimList all = dims_union(&value->args[1]->dims, &rest);
        must(check, elem_is_int(value->args[1]->elem), "the positions are no integers");
        must(check, dims_equal(&all, &value->dims), "dims are not those of the arguments");
    } else if (value->op == OP_TAKE) {
        must(check, dims_are_replaced(value, 0, value->dim, DIM_NONE),
             "dims are not the argument's without one");
        int64_t extent = extent_of(check, value->dim);
        must(check, value->offset >= 0 && (extent < 0 || value->offset < extent),
             "a position is outside of its dim");
    } else if (value->op == OP_SHIFT) {
        must(check, dims_equal(&value->dims, &value->args[0]->dims), "dims are not the argument's");
    } else {
        must(check, value->dim2 < check->graph->dims.count, "the new dim is missing");
        must(check, !arg_has(value, 0, value->dim2), "the argument has the new dim already");
        must(check, dims_are_replaced(value, 0, value->dim, value->dim2),
             "dims are not the argument's with one replaced");
        verify_slice(check);
    }
}

static void verify_scan(const GraphCheck *check) {
    const Value *value = check->value;
    bool stack = value->op == OP_STACK;
    must(check, value->n_args >= 3u + stack && (value->n_args - stack) % 3 == 0,
         "carries are incomplete");
    must(check, value->dim < check->graph->dims.count && check->graph->dims.at[value->dim].scan,
         "it is along no scan");
    for (uint32_t i = 0; i < graph_scan_carries(value); i++) {
        ScanCarry c = graph_scan_carry(value, i);
        DimList first = dims_minus(&c.carry->dims, &(DimList){1, {value->dim}});
        must(check, c.carry->op == OP_CARRY && c.carry->dim == value->dim, "no carry of the scan");
        must(check, c.first->elem == c.carry->elem && c.update->elem == c.carry->elem,
             "what is carried changes its elem");
        must(check,
             dims_equal(&first, &c.first->dims) && dims_equal(&c.carry->dims, &c.update->dims),
             "what is carried changes its dims");
    }
    must(check, value->elem == value->args[0]->elem, "elem is not that of the argument");
    must(check, arg_has(value, 0, value->dim), "the argument is not over the scan");
    must(check, dims_are_replaced(value, 0, value->dim, stack ? value->dim2 : DIM_NONE),
         "dims are not the argument's after the scan");
    must(check, !stack || graph_dims_alike(check->graph, value->dim, value->dim2),
         "it is over another dim after the scan");
}

static void verify_value(GraphCheck *check, uint32_t id) {
    const Graph *graph = check->graph;
    const Value *value = check->value = graph->values.at[id];
    must(check, value->id == id, "the id is not the place in the list");
    must(check, value->op < N_OP && value->elem < N_ELEM, "no such op or elem");
    must(check, dims_valid(graph, &value->dims), "dims repeat or do not exist");
    must(check, op_arity(value->op) < 0 || (uint32_t)op_arity(value->op) == value->n_args,
         "wrong number of arguments");
    for (uint32_t i = 0; i < value->n_args; i++)
        must(check,
             value->args[i]->id < id && graph->values.at[value->args[i]->id] == value->args[i],
             "an argument is no earlier value of the graph");
    switch (op_kind(value->op)) {
    case KIND_LEAF:
        verify_leaf(check);
        break;
    case KIND_MAP:
        verify_map(check);
        break;
    case KIND_REDUCE:
        verify_reduce(check);
        break;
    case KIND_CONTRACT:
        verify_contract(check);
        break;
    case KIND_ROW:
        verify_row(check);
        break;
    case KIND_MOVE:
        verify_move(check);
        break;
    case KIND_SCAN:
        verify_scan(check);
        break;
    }
    must(check, graph_value_hash(graph, value) == value->hash, "the value was changed in place");
}

// ---- inputs and outputs -------------------------------------------------------------------------

static void verify_inputs(GraphCheck *check) {
    const Graph *graph = check->graph;
    uint32_t inputs = 0;
    for (uint32_t i = 0; i < graph->values.count; i++)
        inputs += graph->values.at[i]->op == OP_INPUT;
    must(check, inputs == graph->inputs.count, "the list of inputs is not complete");
    for (uint32_t i = 0; i < inputs; i++) {
        const Value *value = check->value = graph->inputs.at[i];
        must(check,
             value->op == OP_INPUT && value->id < graph->values.count &&
                 graph->values.at[value->id] == value,
             "the list of inputs holds something else");
        for (uint32_t j = 0; j < i; j++) {
            const Value *other = graph->inputs.at[j];
            must(check, other->name != value->name && other->written != value->written,
                 "two inputs have one name");
        }
    }
    check->value = NULL;
}

static void verify_outputs(GraphCheck *check) {
    const Graph *graph = check->graph;
    must(check, graph->outputs.count > 0, "there is no output");
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        must(check, output->name != NULL, "an output has no name");
        const Value *value = check->value = output->value;
        must(check, value->id < graph->values.count && graph->values.at[value->id] == value,
             "an output is no value of the graph");
        bool open = !output->order.count;
        must(check,
             open ||
                 (dims_valid(graph, &output->order) && dims_equal(&output->order, &value->dims)),
             "an output's memory order is not of its dims");
        check->value = NULL;
        for (uint32_t j = 0; j < i; j++)
            must(check, graph->outputs.at[j].name != output->name, "two outputs have one name");
    }
}

void graph_verify(const Graph *graph, const char *after_pass) {
    GraphCheck check = {graph, after_pass, NULL};
    verify_dims(&check);
    verify_rules(&check);
    for (uint32_t id = 0; id < graph->values.count; id++)
        verify_value(&check, id);
    check.value = NULL;
    verify_inputs(&check);
    verify_outputs(&check);
}
