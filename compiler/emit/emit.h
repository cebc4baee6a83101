// SPDX-License-Identifier: Apache-2.0
// Level emit: the one place with generic llvm-c code. Modules, typed values, objects, JIT, products.
//
// A kernel is compiled in an LLVM module of its own to an object, and the object is kept in a cache under
// the XXH3 of the canonical kernel, the target, the flags and the compiler's version. Calling convention of
// a kernel (runtime/module.h):  void K(ptr buffers, ptr extents, ptr scratch, i64 task)  and
// i64 K_scratch(ptr extents).
#ifndef ATTC_EMIT_H
#define ATTC_EMIT_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "module.h"
#include "tile/tile.h"

// ---- value.c: typed values --------------------------------------------------------------------------
// LLVM's pointers forget what they point to and its builder forgets fast-math flags. EmitModule holds the
// builder; every floating-point op is built here, with the flags set in one place (contract, nsz;
// never reassociation of user-visible sums, never nnan/ninf: masks use infinities).
typedef struct EmitModule {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    Arena *arena;
    const Target *target;
    int lanes; // f32 lanes of a vector on the target
} EmitModule;
typedef struct {
    LLVMValueRef ref;
    Elem elem;
    int lanes; // 1: a scalar
} EmitValue;
EmitModule *emit_module_new(Arena *arena, const char *name, const Target *target);
void emit_module_free(EmitModule *module);
LLVMTypeRef emit_type(EmitModule *module, Elem elem, int lanes);
// (the full list of builders follows in this section of the header as they are needed)

// ---- object.c: module -> object or assembly ------------------------------------------------------------
typedef enum { EMIT_OBJECT, EMIT_ASSEMBLY } EmitFile;
typedef struct {
    char *bytes;
    size_t length;
} Blob; // arena memory
// Verifies, runs the LLVM passes, emits. false with *why on failure (a bad module is an ice()).
bool emit_compile(EmitModule *module, EmitFile kind, Blob *out, const char **why);
char *emit_module_text(EmitModule *module); // LLVM IR as text, arena memory

// ---- kernels.c: all kernels of a program, through the cache ----------------------------------------------
typedef struct {
    const char *directory; // NULL: no cache. Files are written under a temporary name and renamed
    bool enabled;
} CacheOptions;
// Default place: $ATTC_CACHE, else $XDG_CACHE_HOME/attc, else ~/.cache/attc.
CacheOptions cache_default(Arena *arena);
typedef struct {
    const Kernel *kernel;
    const char *symbol; // "attc_" + hash in hex + "_" + target
    Blob object;
    bool from_cache;
} KernelObject;
// Objects of program->kernels for one target, in order.
bool emit_kernels(Session *session, const TileProgram *program, const Target *target,
                  const CacheOptions *cache, KernelObject *out, const char **why);

// ---- jit.c: run in this process through ORC ------------------------------------------------------------------
typedef struct Jit Jit;
// Loads the kernels of a program compiled for the host; *module is an AttModule in memory that lives as
// long as the Jit.
Jit *jit_new(Session *session, const TileProgram *program, const Target *target,
             const CacheOptions *cache, const AttModule **module, const char **why);
void jit_free(Jit *jit);

// ---- product.c, descriptor.c, header.c, manifest.c: libraries and programs ----------------------------------------
typedef enum { PRODUCT_OBJECT, PRODUCT_STATIC, PRODUCT_SHARED, PRODUCT_EXE } ProductKind;
typedef struct {
    ProductKind kind;
    const char *output; // path
    const char *runtime_archive; // libattc_runtime.a
    const char *source; // for the header's comment
} ProductOptions;
// programs: one per level of the architecture (same entry, schedules differ), parallel to targets.
bool emit_product(Session *session, TileProgram *const *programs, const Target *const *targets, uint32_t n,
                  const CacheOptions *cache, const ProductOptions *options, const char **why);
// JSON text about an entry: tensors, dims, parameters, kernels, versions (runtime and build tools read it).
char *emit_manifest(Session *session, const TileProgram *program);

#endif
