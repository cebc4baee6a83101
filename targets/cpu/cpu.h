// SPDX-License-Identifier: Apache-2.0
// CPU targets: a kernel's loop tree as LLVM IR with explicit vectors.
//
// kernel.c walks the tree, keeping the current range of every dim; range.c cuts ranges and tells
// what follows from them; access.c turns an access at a point into an address; bounds.c computes
// the ends of ranges; compute.c, contract.c and dots.c emit the stages; microkernel.c the
// register-blocked loops that contract.c calls. What differs between machines is in Target
// (x86_64.c) and in vmath.c.
#ifndef ATTC_CPU_H
#define ATTC_CPU_H

#include "emit/emit.h"

enum { CPU_NEST_MAX = 8 }; // loops and ranges over one dim around a stage

// ---- kernel.c: function frame, loop tree, scratch memory ----
typedef struct {
    LLVMValueRef lo, len;       // i64
    bool nonempty;              // len > 0 for sure
    uint8_t depth;              // loops and ranges over this dim around here,
    int64_t step[CPU_NEST_MAX]; // and their steps: lo is 0 plus multiples of them
    uint8_t narrowed;           // the innermost range among them, counted from 1; 0: none
} CpuRange;
typedef struct {
    LLVMValueRef base;                  // pointer
    LLVMValueRef stride[TILE_RANK_MAX]; // elements; of the panel dim: from panel to panel
    LLVMValueRef origin[TILE_RANK_MAX]; // scratch: lo where it was made
    LLVMValueRef room[TILE_RANK_MAX];   // positions there is room for (arguments: the extent)
    LLVMValueRef length[TILE_RANK_MAX]; // positions that it was made for, no more than the room
    uint8_t depth[TILE_RANK_MAX];       // range depth where it was made
    LLVMValueRef *begin;                // per dim of the kernel: lo where it was made
    LLVMValueRef place;                 // scratch: byte offset in the scratch memory
} CpuBuffer;
typedef struct CpuMicrokernel CpuMicrokernel;
typedef struct {
    EmitModule *module;
    const Kernel *kernel;
    LLVMValueRef extents; // the function's arguments
    LLVMValueRef scratch, task;
    LLVMValueRef turns;           // NULL: no ordered loops
    LLVMValueRef is_first;        // i1: no task comes before this one
    int n_ordered;                // loops so far
    LLVMValueRef *extent;         // per dim
    CpuRange *range;              // per dim: current
    CpuBuffer *buffer;            // per buffer
    LLVMValueRef *at;             // per dim: position of the point that a stage works on
    CpuMicrokernel *microkernels; // made so far
} CpuKernel;
void cpu_emit_kernel(EmitModule *module, const Kernel *kernel, const Target *target,
                     const char *symbol);

// ---- range.c: current ranges ----
// The piece at lo of the range `outer`, cut into pieces of `step`.
CpuRange cpu_range_piece(EmitModule *module, const CpuRange *outer, LLVMValueRef lo, int64_t step);
// What lies between lo, rounded down to a multiple of `align` from where the outer range begins,
// and hi; NULL: as outside.
CpuRange cpu_range_between(EmitModule *module, const CpuRange *outer, LLVMValueRef lo,
                           LLVMValueRef hi, int64_t align);
// Code that runs where a condition (i1) holds, up to the closing; that of NULL does nothing.
LLVMBasicBlockRef cpu_where_open(EmitModule *module, LLVMValueRef condition);
void cpu_where_close(EmitModule *module, LLVMBasicBlockRef after);
// Code for a stage's box when it is not empty, up to the closing; *after is NULL when it never is.
// false: it always is.
bool cpu_box_open(CpuKernel *kernel, const Stage *stage, LLVMBasicBlockRef *after);
void cpu_box_close(CpuKernel *kernel, LLVMBasicBlockRef after);
// i1: nothing has been combined into the element of `to` since its buffer was made. NULL: certainly
// so; a constant: certainly not. `entered` dims stand at kernel->at, all others where they begin.
LLVMValueRef cpu_first(CpuKernel *kernel, const Access *to, const TileDimList *entered);
bool cpu_never(LLVMValueRef first);
// Is every current lo of dim, relative to where the buffer was made, a multiple of `unit`?
bool cpu_aligned(const CpuKernel *kernel, uint16_t buffer, uint8_t slot, TileDimId dim,
                 int64_t unit);

// ---- access.c: addresses ----
typedef enum {
    LANES_SAME,    // does not depend on the lanes dim
    LANES_UNIT,    // neighbours in memory
    LANES_STRIDED, // a multiple of a stride apart
    LANES_SPREAD,  // an address of its own per lane (gather by a term, panels that do not line up)
} CpuLanes;
typedef struct {
    const Access *access;
    const TileBuffer *buffer;
    const CpuBuffer *memory;
    TileDimId lanes;
    CpuLanes kind;
    bool panels;         // UNIT: vectors next to each other may lie in two panels
    LLVMValueRef stride; // STRIDED: elements from lane to lane
    LLVMValueRef offset; // elements: the dims entered so far, lanes excepted
} CpuAccess;
// varies: per term, whether it differs from lane to lane (NULL: no terms in the index).
void cpu_access_open(CpuKernel *kernel, CpuAccess *to, const Access *access, TileDimId lanes,
                     int width, const bool *varies);
// Adds what dim at kernel->at[dim] contributes to the offset.
void cpu_access_enter(CpuKernel *kernel, CpuAccess *access, TileDimId dim);
// Elements from the offset to position `at` of dim.
LLVMValueRef cpu_access_part(CpuKernel *kernel, const CpuAccess *access, TileDimId dim,
                             LLVMValueRef at);
// Elements that one step along dim moves a plain access (not a panel's dim); 0 when it lacks dim.
LLVMValueRef cpu_access_stride(CpuKernel *kernel, const Access *access, TileDimId dim);
// One vector (or scalar) at kernel->at plus `ahead` lanes. terms: values by term number.
EmitValue cpu_access_load(CpuKernel *kernel, const CpuAccess *access, int width, int ahead,
                          LLVMValueRef mask, const EmitValue *terms);
void cpu_access_store(CpuKernel *kernel, const CpuAccess *access, EmitValue value, int ahead,
                      LLVMValueRef mask);

// ---- bounds.c ----
// What a NODE_RANGE makes of the current range of its dim.
CpuRange cpu_range_narrowed(CpuKernel *kernel, const Node *node);

// ---- compute.c, contract.c, dots.c, lanewise.c, order.c: stages ----
void cpu_emit_compute(CpuKernel *kernel, const Stage *stage);
void cpu_emit_contract(CpuKernel *kernel, const Stage *stage);
void cpu_emit_dots(CpuKernel *kernel, const Stage *stage);     // a contraction with summed lanes
void cpu_emit_lanewise(CpuKernel *kernel, const Stage *stage); // with lanes that all have
void cpu_emit_order(CpuKernel *kernel, const Stage *stage);

// ---- turns.c ----
// Waits until the task before is done with an ordered loop up to `end`, and tells that this one is.
void cpu_await_turn(CpuKernel *kernel, int loop, LLVMValueRef end);
void cpu_end_turn(CpuKernel *kernel, int loop, LLVMValueRef end);
// Code that runs only in the task that begins an argument: the first one, where tasks add to it in
// turn, and unless it is kept. Up to cpu_where_close; NULL: in every task.
LLVMBasicBlockRef cpu_beginning_open(CpuKernel *kernel, uint16_t argument);

// ---- microkernel.c ----
// c[row, lane] (+)= sum over k of a[row, k] * b[k, lane] for a block of rows x vectors. A stride
// that is known is part of the key and of the code; an unknown one (CPU_UNKNOWN) is an argument.
#define CPU_UNKNOWN INT64_MIN
typedef enum { CPU_SET, CPU_ADD, CPU_SET_OR_ADD } CpuMicroMode; // the last: told by an argument
// What each step asks for of b besides: the lanes that follow its own, or its own of a later step.
typedef enum { CPU_ASKS_NOTHING, CPU_ASKS_LANES, CPU_ASKS_STEPS } CpuMicroAsks;
typedef struct {
    int rows, vectors; // vectors of `width` lanes
    int width;
    bool masked;   // fewer lanes than vectors * width may be asked for
    bool b_masked; // and b must not be read beyond them
    CpuMicroMode mode;
    Elem elem, a_elem, b_elem;      // elem: F32 or F64; the others are widened to it
    int64_t a_row, a_k, b_k, c_row; // strides in elements
    bool in_order;                  // each sum is one chain of additions
    int ahead;                      // lines that each step of k asks for, of what is read after b
    bool asks_rows;                 // and one of the rows that are read after these
    CpuMicroAsks asks_b;
} CpuMicroShape;
typedef struct {
    LLVMValueRef a, b, c, ahead; // pointers
    LLVMValueRef k;              // steps, >= 1
    LLVMValueRef a_row, a_k, b_k, c_row;
    LLVMValueRef lanes; // valid lanes, <= vectors * width
    LLVMValueRef add;   // i1: add to what c holds
} CpuMicroCall;
void cpu_call_microkernel(CpuKernel *kernel, const CpuMicroShape *shape, const CpuMicroCall *call);

// ---- measure.c ----
bool cpu_measure(Machine *machine);

// ---- caches.c: facts of caches ----
// Sets the caches' sizes and rates by how fast ranges of 8, 12, 16, 24 ... 48 << 10 KiB are read,
// in bytes per second, and by what is told of the sizes of L1 and L2 (0: nothing). What is there
// stays where nothing like caches is found. Returns whether the rate of memory is a guess, half of
// L3's, as no range was beyond L3.
enum { CPU_RANGES = 26 };
bool cpu_set_caches(Machine *machine, const double rates[CPU_RANGES], const int64_t told[2]);
// How fast as many bytes are read, and written, again and again: bytes per second.
typedef struct {
    size_t bytes;
    double read, written;
} CpuStream;
// What writing to L2, L3 and memory costs, of those streams that lie in there; others stay.
enum { CPU_STREAMS = 3 };
void cpu_set_write_costs(Machine *machine, const CpuStream streams[CPU_STREAMS]);

#endif
