// SPDX-License-Identifier: Apache-2.0
// What a contraction costs by the dims that its operands and its result have contiguous.
#include "graph/fuse/layout.h"

#include <math.h>

// Cycles per element.
static const double TRANSPOSE = 0.6; // within a panel
static const double GATHER = 0.7;    // contiguous in a dim that is outside the panel
static const double BATCH_LAST = 0.8;
// Times what sums in registers take: a third of the rate where the dim fills vectors, less where it
// does not.
static const double LANEWISE = 3.5;

Roles layout_roles(const Value *contraction, int operand) {
    const DimList *x = &contraction->args[operand]->dims;
    const DimList *y = &contraction->args[1 - operand]->dims;
    DimList both = dims_intersect(x, y);
    return (Roles){
        .batch = dims_intersect(&both, &contraction->dims),
        .own = dims_minus(x, y),
        .k = dims_minus(&both, &contraction->dims),
    };
}

// ---- costs of a contiguous dim -----------------------------------------------------------------

static double lane_operand_cost(const Roles *roles, DimId last, DimId lane) {
    if (last == lane || last == DIM_NONE)
        return COPY;
    return dims_has(&roles->k, last)     ? TRANSPOSE
           : dims_has(&roles->own, last) ? GATHER
                                         : BATCH_LAST;
}

static double row_operand_cost(const Roles *roles, DimId last) {
    if (last == DIM_NONE || dims_has(&roles->k, last))
        return COPY;
    return dims_has(&roles->own, last) ? ROWS_LAST : BATCH_LAST;
}

double layout_operand_cost(const Value *contraction, int operand, DimId last, DimId lane) {
    Roles roles = layout_roles(contraction, operand);
    if (dims_has(&roles.batch, lane))
        return last == lane || last == DIM_NONE ? COPY : STRIDED;
    return dims_has(&roles.own, lane) ? lane_operand_cost(&roles, last, lane)
                                      : row_operand_cost(&roles, last);
}

// The dim that an argument which is an input, as it is or renamed, has contiguous.
static DimId input_last(const Value *arg) {
    return value_unrenamed(arg)->op == OP_INPUT ? dims_last(&arg->dims) : DIM_NONE;
}

// What the orders of a contraction's own operands cost when `lane` is contiguous in the result.
// Operands without an order yet will get a good one.
static double operands_cost(const Layout *layout, const Value *contraction, DimId lane) {
    double cost = 0;
    for (int i = 0; i < 2; i++)
        cost += volume(layout, &contraction->args[i]->dims) *
                layout_operand_cost(contraction, i, input_last(contraction->args[i]), lane);
    return cost;
}

// A contraction in registers whose vectors are full.
static double full_cost(const Layout *layout, const Value *contraction) {
    DimList space = dims_union(&contraction->args[0]->dims, &contraction->args[1]->dims);
    return volume(layout, &space) / (2 * layout->lanes);
}

// How much of vectors so many elements fill.
static double filled(const Layout *layout, double extent) {
    return extent / (ceil(extent / layout->lanes) * layout->lanes);
}

// `lane` being a dim of one operand.
static double lanes_cost(const Layout *layout, const Value *contraction, DimId lane) {
    return operands_cost(layout, contraction, lane) +
           full_cost(layout, contraction) / filled(layout, (double)layout->extents[lane]);
}

DimList layout_run(const DimList *own, const DimList *result) {
    DimList run = {0};
    for (uint32_t i = result->count; i-- > 0 && dims_has(own, result->at[i]);)
        dims_add(&run, result->at[i]);
    return run;
}

double layout_lost_lanes(const Layout *layout, const Value *contraction, int operand, DimId last,
                         DimId lane, const DimList *result) {
    Roles roles = layout_roles(contraction, operand);
    if (!dims_has(&roles.own, lane))
        return 0;
    DimList run = layout_run(&roles.own, result);
    bool whole = last == lane && dims_has(&run, lane);
    double extent = whole ? volume(layout, &run) : (double)layout->extents[lane];
    double full = full_cost(layout, contraction);
    return full / filled(layout, extent) - full;
}

// A result that is contiguous in a batch dim is a sum of elementwise products along it, with two
// loads for each multiply-add, or it is computed along other lanes and copied.
double layout_contraction_cost(const Layout *layout, const Value *contraction, DimId last,
                               DimId *lane) {
    Roles roles = layout_roles(contraction, 0);
    *lane = last;
    if (last == DIM_NONE)
        return 0;
    if (!dims_has(&roles.batch, last))
        return lanes_cost(layout, contraction, last);
    DimList others = dims_minus(&contraction->dims, &roles.batch);
    double copy = BATCH_LAST * volume(layout, &contraction->dims);
    double best =
        operands_cost(layout, contraction, last) +
        LANEWISE * full_cost(layout, contraction) / filled(layout, (double)layout->extents[last]);
    for (uint32_t i = 0; i < others.count; i++) {
        double cost = lanes_cost(layout, contraction, others.at[i]) + copy;
        if (cost < best) {
            best = cost;
            *lane = others.at[i];
        }
    }
    return best;
}
