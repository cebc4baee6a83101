// SPDX-License-Identifier: Apache-2.0
// Level emit: the one place with generic llvm-c code. Modules, typed values, loops, vector math,
// objects and their cache.
//
// A kernel is compiled in an LLVM module of its own to an object, and the object is kept in a cache
// under the XXH3 of the canonical kernel, the target, the flags and the compiler's version. Calling
// convention of a kernel (runtime/module.h):  void K(ptr buffers, ptr extents, ptr scratch, i64
// task)  and i64 K_scratch(ptr extents).
#ifndef ATTC_EMIT_H
#define ATTC_EMIT_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "module.h"
#include "target.h"
#include "tile/tile.h"

// ---- module.c: an LLVM module for one target ----
typedef struct EmitModule {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    Arena *arena;
    const Target *target;
    int lanes;        // f32 lanes of a vector on the target
    bool no_prefetch; // emit_prefetch asks for nothing
} EmitModule;
EmitModule *emit_module_new(Arena *arena, const char *name, const Target *target);
void emit_module_free(EmitModule *module);
// A function with the target's cpu and features as attributes and the builder at its first block.
// Internal functions are not inlined: they are the microkernels that loops share.
LLVMValueRef emit_function(EmitModule *module, const char *name, LLVMTypeRef type, bool internal);
// Calls an LLVM intrinsic, overloaded on `types`.
LLVMValueRef emit_intrinsic(EmitModule *module, const char *name, LLVMTypeRef *types,
                            uint32_t n_types, LLVMValueRef *args, uint32_t n_args);
// Number of its arguments, which changes between versions of LLVM for some.
uint32_t emit_intrinsic_params(EmitModule *module, const char *name, LLVMTypeRef *types,
                               uint32_t n_types);
LLVMBasicBlockRef emit_block(EmitModule *module, const char *name); // in the current function

// ---- value.c: typed values ----
// LLVM's pointers forget what they point to and its builder forgets fast-math flags. EmitModule
// holds the builder; every floating-point op is built here, with the flags set in one place (nsz;
// no contraction, no reassociation of user-visible sums, no nnan/ninf: masks use infinities).
//
// In registers f16 and bf16 are held as f32 (a store or a CAST rounds them) and bool as i1.
typedef struct {
    LLVMValueRef ref;
    Elem elem;
    int lanes; // 1: a scalar
} EmitValue;
LLVMTypeRef emit_type(EmitModule *module, Elem elem, int lanes);        // in registers
LLVMTypeRef emit_memory_type(EmitModule *module, Elem elem, int lanes); // in memory
EmitValue emit_number(EmitModule *module, Elem elem, double number, int lanes);
EmitValue emit_iota(EmitModule *module, Elem elem, int lanes); // 0 1 2 ... (i32 or i64)
// The mask of the first `count` lanes, an i64 of -2^31 <= count < 2^31: below 1 of none.
LLVMValueRef emit_first_lanes(EmitModule *module, LLVMValueRef count, int lanes);
EmitValue emit_splat(EmitModule *module, EmitValue value, int lanes); // a vector stays as it is
// A MAP op that is no call of the target's vector math: all but EXP EXP2 LOG SQRT RSQRT TANH ERF
// SIN COS POW RANDOM. The result has elem `elem`; arguments have been splat to equal lanes.
EmitValue emit_map(EmitModule *module, Op op, Elem elem, EmitValue *args, uint32_t n_args);
EmitValue emit_add(EmitModule *module, EmitValue a, EmitValue b);
EmitValue emit_mul(EmitModule *module, EmitValue a, EmitValue b);
EmitValue emit_max(EmitModule *module, EmitValue a, EmitValue b); // NaN when one of them is
EmitValue emit_min(EmitModule *module, EmitValue a, EmitValue b);
// a where a > b, else b, also where a is NaN: one instruction.
EmitValue emit_larger(EmitModule *module, EmitValue a, EmitValue b);
EmitValue emit_multiply_add(EmitModule *module, EmitValue a, EmitValue b, EmitValue c); // a*b + c
EmitValue emit_select(EmitModule *module, LLVMValueRef mask, EmitValue a, EmitValue b);
EmitValue emit_cast(EmitModule *module, EmitValue value, Elem elem);
enum { LANES_MAX = 64 }; // of a vector
// The lanes `picks` of two vectors of one type, a's before b's; of one pick a scalar.
EmitValue emit_shuffle(EmitModule *module, EmitValue a, EmitValue b, const int *picks, int lanes);
// What of a value lies in memory, and back.
LLVMValueRef emit_to_memory(EmitModule *module, EmitValue value);
EmitValue emit_from_memory(EmitModule *module, LLVMValueRef raw, Elem elem, int lanes);

// ---- memory.c: between registers and memory ----
// The mask is a vector of i1, NULL for all lanes; lanes that are off give `off`.
EmitValue emit_load(EmitModule *module, Elem elem, int lanes, LLVMValueRef pointer);
// One element in all lanes.
EmitValue emit_load_splat(EmitModule *module, Elem elem, int lanes, LLVMValueRef pointer);
EmitValue emit_load_masked(EmitModule *module, Elem elem, int lanes, LLVMValueRef pointer,
                           LLVMValueRef mask, double off);
EmitValue emit_gather(EmitModule *module, Elem elem, LLVMValueRef base, LLVMValueRef offsets,
                      LLVMValueRef mask, double off);
void emit_store(EmitModule *module, EmitValue value, LLVMValueRef pointer);
// The mask is on for the first lanes, any number of them. shared: where the machine has no masks,
// by a function for all such stores of the module, which is less code and some five cycles more.
void emit_store_first(EmitModule *module, EmitValue value, LLVMValueRef pointer, LLVMValueRef mask,
                      bool shared);
void emit_scatter(EmitModule *module, EmitValue value, LLVMValueRef base, LLVMValueRef offsets,
                  LLVMValueRef mask);
// Asks for the cache line of what will soon be used.
typedef enum { EMIT_TO_READ, EMIT_TO_WRITE } EmitUse;
void emit_prefetch(EmitModule *module, LLVMValueRef pointer, EmitUse use);
// Room in the frame of the function that is built, for as long as it runs.
LLVMValueRef emit_on_stack(EmitModule *module, Elem elem, int64_t elements);
// base + offset elements of elem as it is in memory.
LLVMValueRef emit_element(EmitModule *module, Elem elem, LLVMValueRef base, LLVMValueRef offset);

// ---- index.c: i64 arithmetic of loops and addresses, folding what is known ----
LLVMValueRef index_const(EmitModule *module, int64_t value);
bool index_known(LLVMValueRef value, int64_t *out); // a constant?
LLVMValueRef index_add(EmitModule *module, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef index_sub(EmitModule *module, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef index_mul(EmitModule *module, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef index_min(EmitModule *module, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef index_max(EmitModule *module, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef index_div(EmitModule *module, LLVMValueRef a, int64_t by); // a >= 0, rounded down
LLVMValueRef index_rem(EmitModule *module, LLVMValueRef a, int64_t by); // a >= 0
LLVMValueRef index_round_up(EmitModule *module, LLVMValueRef a, int64_t to);

// ---- loops.c: counted loops with carried values ----
typedef struct {
    LLVMBasicBlockRef before, body, after;
    LLVMValueRef at; // the counter
    LLVMValueRef low, high, step;
    bool guarded; // may run no time at all
    bool once;    // known to run exactly once: no loop is made
    uint32_t n_carried;
    LLVMValueRef *start, *carried; // before the loop; in the body (phis)
} EmitLoop;
// Opens `for (at = low; at < high; at += step)` with the builder in the body. carried[i] starts as
// start[i]. nonempty: low < high is known.
void emit_loop_open(EmitModule *module, EmitLoop *loop, LLVMValueRef low, LLVMValueRef high,
                    LLVMValueRef step, bool nonempty, LLVMValueRef *start, uint32_t n_carried);
// next[i] is the value at the end of the body; afterwards out[i] is the one after the loop.
void emit_loop_close(EmitModule *module, EmitLoop *loop, LLVMValueRef *next, LLVMValueRef *out);
// At the begin of a block: a when one came from block from_a, b from block from_b.
LLVMValueRef emit_either(EmitModule *module, LLVMValueRef a, LLVMBasicBlockRef from_a,
                         LLVMValueRef b, LLVMBasicBlockRef from_b);

// ---- object.c: module -> object or assembly -----------------------------------------------------
typedef enum { EMIT_OBJECT, EMIT_ASSEMBLY } EmitFile;
typedef struct {
    char *bytes;
    size_t length;
} Blob; // arena memory
// A target machine for position-independent code; the caller disposes of it. ice() when LLVM has no
// such target. Registers LLVM's back end on first use, in any thread.
LLVMTargetMachineRef emit_target_machine(const Target *target);
// Verifies, runs the LLVM passes, emits. false with *why on failure (a bad module is an ice()).
bool emit_compile(EmitModule *module, EmitFile kind, Blob *out, const char **why);
char *emit_module_text(EmitModule *module); // LLVM IR as text, arena memory
// Everything that changes the code made from one kernel, as text: part of a cache key.
char *emit_flags_text(Arena *arena, const Target *target);

// ---- cache.c: objects kept between runs ---------------------------------------------------------
typedef struct {
    const char *directory; // NULL: no cache. Files are written under a temporary name and renamed
    bool enabled;
    bool only_read; // nothing is added
    uint64_t room;  // bytes the directory may hold, about; 0: CACHE_ROOM
} CacheOptions;
enum { CACHE_ROOM = 512 * 1024 * 1024 };
// Default place: $ATTC_CACHE, else $XDG_CACHE_HOME/attc, else ~/.cache/attc.
CacheOptions cache_default(Arena *arena);
// key: text of everything that the object depends on. A damaged entry is as good as none.
bool cache_load(const CacheOptions *cache, Arena *arena, const char *key, Blob *out);
// false when nothing was kept: the next run compiles again, nothing else happens.
bool cache_store(const CacheOptions *cache, const char *key, const Blob *object);

// A small text beside the objects, whole or absent. name: of a file, not one of an object.
char *cache_read_text(const CacheOptions *cache, Arena *arena, const char *name); // NULL: none
bool cache_write_text(const CacheOptions *cache, const char *name, const char *text);
const char *cache_build_id(void); // what the compiler itself is

// ---- kernels.c: all kernels of a program, through the cache -------------------------------------
typedef struct {
    const Kernel *kernel;
    const char *symbol; // see emit_kernel_symbol
    Blob object;
    bool from_cache;
} KernelObject;
// "attc_" + hash in hex + "_v4": what follows the last dash of the target's name.
char *emit_kernel_symbol(Arena *arena, const Kernel *kernel, const Target *target);
// The kernel's LLVM module before any pass; emit_module_free it.
EmitModule *emit_kernel_module(Arena *arena, const Kernel *kernel, const Target *target);
// Objects of the kernels of n programs, each for the target at its place, in order. cache may be
// NULL.
bool emit_kernels(Session *session, TileProgram *const *programs, const Target *const *targets,
                  uint32_t n, const CacheOptions *cache, KernelObject *out, const char **why);

// ---- jit.c: objects in this process, through ORC ------------------------------------------------
typedef struct Jit Jit;
Jit *jit_new(Arena *arena, const Target *target, const char **why); // NULL on failure
bool jit_add(Jit *jit, const KernelObject *kernel, const char **why);
bool jit_find(Jit *jit, const char *symbol, uintptr_t *address, const char **why);
void jit_free(Jit *jit); // all its addresses become invalid

#endif
