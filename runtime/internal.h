// SPDX-License-Identifier: Apache-2.0
// What the files of the runtime share among themselves. Nothing here leaves the library.
#ifndef ATT_INTERNAL_H
#define ATT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attc.h"
#include "module.h"

// ---- memory.c: aligned memory, and sizes that cannot wrap --------------------------------------
// At least 64-byte aligned; large blocks are aligned to huge pages. NULL when out of memory.
void *att_alloc(size_t bytes);
void att_release(void *memory);
// A block that grows on demand. Growing forgets the content; false (and no block) when out of
// memory.
typedef struct {
    void *at;
    size_t bytes;
} AttBlock;
bool att_block_reserve(AttBlock *block, size_t bytes);
void att_block_free(AttBlock *block);
// Product of extents (each >= 0) and a size; false when it, or 8 times the extents other than 0,
// does not fit an int64_t.
bool att_bytes_of(int rank, const int64_t *shape, size_t size, int64_t *bytes);

// ---- tensor.c ----------------------------------------------------------------------------------
// Makes element i of floats a number, rounded once. false: the number is finite and what it is
// rounded to is not, or the elements are no floats.
bool att_float_store(AttElem elem, void *data, int64_t i, double x);

// ---- path.c ------------------------------------------------------------------------------------
// The file that writing to a path makes or replaces, without links; target has PATH_MAX bytes.
// false where there is no such folder: errno says why.
bool att_path_target(const char *path, char *target);

// ---- file.c: writing a file in one stroke -------------------------------------------------------
typedef struct AttFile AttFile; // that is being written
// Appends bytes. false where that failed: errno says why.
bool att_file_put(AttFile *file, const void *bytes, size_t length);
// Puts all that belongs in the file. false where that failed: errno says why.
typedef bool (*AttFileWriter)(AttFile *file, const void *arg);
// Calls `writer` once. The path then has the old file or the whole new one, whatever happens: a
// file of another name in the same folder is written, synced and renamed, and the folder is synced.
// Nothing else stays behind, also where a signal ends the process. What is no regular file (a pipe,
// a terminal) is written to.
AttStatus att_file_write(AttContext *ctx, const char *path, AttFileWriter writer, const void *arg);

// ---- program.c ---------------------------------------------------------------------------------
// Makes the tensors of trained inputs whose data is NULL from a file; tensors: by the module's.
typedef AttStatus AttWeightsFn(AttContext *ctx, const AttModule *module, const char *path,
                               AttTensorData *tensors);
// att_program_main with --weights FILE. NULL: without.
int att_program_main_with(const AttModule *module, AttWeightsFn *take_weights, int argc,
                          char **argv);

// ---- formula.c ---------------------------------------------------------------------------------
AttStatus att_module_check_rules(AttContext *ctx, const AttModule *module, const int64_t *extents);
// false where it has none: extents are not known, it has no words, or a number does not fit.
bool att_formula_value(const AttFormula *formula, const int64_t *extents, int64_t *value);

// ---- pool.c ------------------------------------------------------------------------------------
typedef struct AttPool AttPool;
// 0 threads: one per core. NULL when out of memory; may get fewer threads than asked for.
AttPool *att_pool_new(int threads);
void att_pool_free(AttPool *pool);
int att_pool_threads(const AttPool *pool);
// Is the calling thread one of those that the pool started?
bool att_pool_is_worker(const AttPool *pool);
// Of one caller at a time, or of a task of the job that runs. false when the caller's scratch
// cannot be had; then no task has run. in_turn: tasks wait for those before them, and are taken one
// by one in their order.
bool att_pool_run(AttPool *pool, AttTaskFn fn, void *arg, int64_t tasks, bool in_turn,
                  size_t scratch_bytes);
// Tells the processor that a loop waits.
static inline void att_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// ---- random.c ----------------------------------------------------------------------------------
typedef struct {
    uint32_t word[4];
} AttRandomBlock;
AttRandomBlock att_philox(uint64_t seed, uint64_t stream, uint64_t block);
// A part of a stream; begin is even.
void att_random_normal_from(uint64_t seed, uint64_t stream, int64_t begin, int64_t count,
                            float *out);
void att_random_integers_from(uint64_t seed, uint64_t stream, int64_t begin, int64_t count,
                              int64_t below, int64_t *out);

// ---- clock.c -----------------------------------------------------------------------------------
double att_seconds(void); // of a clock that never goes back

// ---- context.c ---------------------------------------------------------------------------------
AttStatus att_no_memory(AttContext *ctx); // att_fail with ATT_MEMORY
// Makes the context the calling thread's until att_context_leave. A task of a call that has it may
// call again: that is not the outermost. ATT_BUSY, with the message, when another thread has it.
AttStatus att_context_enter(AttContext *ctx, bool *outermost);
void att_context_leave(AttContext *ctx, bool outermost);
// Memory of a call, kept for the next one.
typedef struct {
    AttBlock workspace; // for modules called without one
    AttBlock tables;    // pointers and extents of the launch at hand
    AttBlock turns;     // of a launch with ordered loops
} AttMemory;
// att_parallel, for tasks that wait for those before them: threads take one at a time.
AttStatus att_context_in_turn(AttContext *ctx, AttTaskFn fn, void *arg, int64_t tasks,
                              size_t scratch_bytes);
// NULL while another call has it, that this one is within or beside.
AttMemory *att_context_take_memory(AttContext *ctx);
void att_context_give_memory(AttContext *ctx);
void att_memory_free(AttMemory *memory);
// What the machine lacks for a level, NULL when nothing; asked once, as CPUID is slow in virtual
// machines.
const char *att_context_missing(const AttContext *ctx, int level);

#endif
