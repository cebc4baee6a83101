// SPDX-License-Identifier: Apache-2.0
// Schedules: the numbers that lowering uses for a group, and what they are chosen from. A part of
// tile.h, which kernels note theirs in.
#ifndef ATTC_TILE_SCHEDULES_H
#define ATTC_TILE_SCHEDULES_H

#include "graph/plan.h"

// Of a streamed group; lower/stream.c shows the plans.
typedef struct {
    PlanKind plan;
    int64_t rows;   // of a task
    int64_t piece;  // of the streamed dim; RESIDENT: all of it
    double seconds; // predicted, for the machine's threads
} StreamSchedule;
typedef struct {
    int64_t rows, streamed; // typical extents of the dims that are cut
    int64_t unit;           // pieces are multiples of it: two vectors
} StreamShape;
// Of a contraction kernel: first which dims its microkernel runs along. By default the lanes are
// those of the operand that has the result's contiguous dim, if that is long enough, and the rows
// the longest of the other.
typedef struct {
    bool transposed;      // the other operand has the lanes
    bool contiguous_rows; // the rows are what is contiguous in operand a, another dim than that
} ContractAxes;
typedef struct {
    ContractAxes axes;
    int64_t task_batch, task_rows, task_lanes; // parallel pieces, of the products below
    int64_t block_k, block_rows; // cache blocks inside a task; block_k: where no place has another
    int32_t row_block, lane_block; // microkernel
    bool pack_a, pack_b;
    double seconds; // predicted (contract_model_seconds)
} ContractSchedule;
// What the contiguous dim of an operand is: summed, the one the microkernel runs along, another one
// of rows or lanes, or one of batches.
typedef enum { LAST_SUMMED, LAST_MAIN, LAST_OTHER, LAST_BATCH } ContractLast;
typedef struct {
    ContractAxes axes;
    int64_t batch, rows, lanes, k; // typical extents, products over all dims of the class
    int64_t main_rows, main_lanes; // of the two dims that the microkernel runs along
    bool rows_known;               // main_rows, when compiling
    int64_t last_batch;            // of the batch dim that an operand has contiguous, or 1
    bool a_in_place, b_in_place;   // may be read so: no prologue, no conversion, k of one stride
    ContractLast a_last, b_last;
    int32_t panel; // the result has panels of so many lanes; 0: none
    bool tile;     // the sums lie in scratch, and are copied out,
    bool turned;   // along the rows
    size_t elem_bytes;
    bool in_order; // see Stage
} ContractShape;
enum { CONTRACT_AXES_MAX = 4 };
typedef struct {
    int count;
    ContractShape at[CONTRACT_AXES_MAX]; // for each choice of axes that there is, the default first
} ContractShapes;
// Of pointwise values, rows, recurrences, orders and scattered sums: how they are cut into tasks.
typedef struct {
    int64_t tasks;       // about, as far as the dims that may be cut allow it
    int64_t step_points; // of a recurrence: more tasks, as long as a step has so many points
    int32_t rows;        // that the stages of a task work off at a time; 0: they are no rows
} TaskSchedule;
// How many rows a run may work off at a time: as many as L1 keeps, the fewest and the most, all of
// them multiples of the fewest; 0: there is nothing to choose.
typedef struct {
    int32_t kept, least, most;
} RowBlocks;
typedef struct {
    double seconds; // of all tasks, one thread
    bool steps;     // it is a recurrence, and seconds are 0
    RowBlocks rows;
} TaskShape;

// What is chosen for one place. Of a nest of stages, in rows and in streamed groups: for a loop
// over rows that stages share, how many of them a turn has (`rows` alone), where that is no number
// of the kernel's TaskSchedule; for a contraction stage, the block of its microkernel and how much
// of the longest summed dim a turn has. Of a contraction kernel: that alone (`sum`).
typedef struct {
    int32_t rows, cols, lanes; // of the stage: row_block, col_block, lane_block
    int64_t sum;               // 0: all of it
} StageBlocks;
typedef VEC(StageBlocks) StageBlocksList;

// Does the kernel ask for data before it reads it, where no hardware follows? NONE: never.
typedef enum { PREFETCH_BY_RULE, PREFETCH_NONE, N_PREFETCHES } PrefetchChoice;

// PROGRAM: not of a kernel, but of all that they are made from.
typedef enum {
    SCHEDULE_NONE,
    SCHEDULE_TASKS,
    SCHEDULE_CONTRACT,
    SCHEDULE_STREAM,
    SCHEDULE_PROGRAM
} ScheduleKind;
typedef struct {
    ScheduleKind kind; // NONE: there is nothing to choose but blocks and prefetch
    union {
        TaskSchedule tasks;
        ContractSchedule contract;
        StreamSchedule stream;
        ProgramSchedule program;
    };
    PrefetchChoice prefetch; // BY_RULE where there is nothing to ask for
    StageBlocksList blocks;  // by place; those that are missing or do not fit are the default ones
    double seconds;    // of the kernel or of all, predicted for the machine's threads; 0: nobody
                       // asked
    int64_t scratch;   // bytes of a task of the kernel, likewise
    const char *found; // where it was looked up, or what asks for it; NULL: it was chosen here
} Schedule;
typedef VEC(Schedule) ScheduleList;
// What the numbers of a schedule mean, and what the cost model counts, which rates are fitted to:
// raised when they mean something else.
enum { SCHEDULE_VERSION = 4, COUNTS_VERSION = 14 };
typedef struct {
    ScheduleKind kind;
    union {
        TaskShape tasks;
        ContractShapes contract;
        StreamShape stream;
    };
} ScheduleShape;

#endif
