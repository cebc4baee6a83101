// SPDX-License-Identifier: Apache-2.0
// Level product: what leaves the compiler. A compiled entry as tables, loaded into this process, or
// as a library or a program with its C header and manifest.
#ifndef ATTC_PRODUCT_H
#define ATTC_PRODUCT_H

#include "emit/emit.h"
#include "graph/model.h"
#include "module.h"
#include "signals.h"
#include "train/trainer.h"

// ---- tables.c: tile programs -> the tables of runtime/module.h ----------------------------------
// What programs are for that are planned for other extents than others of the function: least <=
// extent < below, of a dim of all their graphs, of run time.
typedef struct {
    Name dim;
    int64_t least, below;
} ExtentRange;
typedef VEC(ExtentRange) ExtentRanges;
// A function of a product: the entry, or its gradient.
typedef struct {
    const char *suffix; // of its name, after the entry's: "", "_forward"
    // By level, by ranges, by part.
    TileProgram *const *programs;
    uint32_t n_parts;           // run one after the other
    uint32_t n_levels;          // 0: all, else the first of them
    const ExtentRanges *ranges; // of extents; they leave none out, and do not overlap
    uint32_t n_ranges;          // 0: one, of all extents
    // By program, see Compilation; NULL: nobody asks. Each may be NULL.
    const Formula *const *multiplies;
    const int64_t *masked; // by program: see ModuleTables
} ProductFunction;
typedef struct {
    const char *schedule; // as JSON
    const char *from;     // "predicted", or where it was found
} ScheduleOrigin;
// The kernels of all levels one after the other; each has code for its own level only. Dims of
// inputs and outputs come first, then those that only intermediates have: not a graph's order.
typedef struct {
    AttModule module;
    const char *symbol;      // the function's name in C
    AttKernel *kernels;      // module.kernels; the functions are left NULL
    const char **symbols;    // by kernel
    ScheduleOrigin *origins; // likewise
    int64_t *levels;         // by kernel: ATT_LEVEL_*
    VEC(ScheduleOrigin)
    programs[ATT_N_LEVELS]; // by ATT_LEVEL_*: of whole programs, by ranges and part
    // By ATT_LEVEL_*; without words where they are not known.
    AttFormula multiplies[ATT_N_LEVELS];
    // By ATT_LEVEL_*: of a million multiplies, those that masks by positions let kernels leave out.
    int64_t masked[ATT_N_LEVELS];
} ModuleTables;
uint32_t product_level_programs(const ProductFunction *function); // programs for one level
ModuleTables *product_tables(Arena *arena, const ProductFunction *function,
                             const Target *const *targets, uint32_t n);
// Extents by module dim, from extents by DimId of a graph that has them.
int64_t *product_extents(Arena *arena, const AttModule *module, const Graph *graph,
                         const int64_t *extents);

// ---- formulas.c ---------------------------------------------------------------------------------
// As words of the runtime; dims: module dims by DimId, for all that it has.
AttFormula product_formula(Arena *arena, const Graph *graph, const Formula *formula,
                           const int64_t *dims);
// The graph's rules about extents; dims: module dims by DimId, for all that the rules are about.
AttRule *product_rules(Arena *arena, const Graph *graph, const int64_t *dims);
void product_formula_dims(const Formula *formula, bool *needed); // marks them, by DimId

// ---- load.c: an entry in this process -----------------------------------------------------------
typedef struct LoadedProduct LoadedProduct;
// Loads the kernels of programs compiled for the host; the session may be gone before the result.
LoadedProduct *product_load(Session *session, const ProductFunction *function, const Target *target,
                            const CacheOptions *cache, const char **why);
const AttModule *product_module(const LoadedProduct *loaded); // lives as long as `loaded`
void product_unload(LoadedProduct *loaded);                   // may be NULL

// ---- product.c, descriptor.c, trainer.c, header.c, manifest.c: what is written -----------------
typedef enum { PRODUCT_OBJECT, PRODUCT_STATIC, PRODUCT_SHARED, PRODUCT_EXE } ProductKind;
typedef struct {
    ProductKind kind;
    const char *output;          // path; the header goes to the same path ending in .h; "-": stdout
    const char *runtime_archive; // libattc_runtime.a; unused by PRODUCT_OBJECT
    const char *train_archive;   // libattc_train.a, of programs that have trained tensors
    const char *source;          // for the header's comment and the manifest
} ProductOptions;
// What makes a program one that trains: which functions it has besides the entry, and facts about
// them. `input` of params and fields and `module` of optimizers are left to the tables.
typedef struct {
    AttOptimizer facts;
    uint32_t function; // its number
} ProductOptimizer;
typedef struct {
    uint32_t function; // its number
    AttDecode facts;   // but `module`
} ProductDecode;
typedef struct {
    uint32_t masked, gradient; // numbers of functions
    uint32_t logits;           // likewise; 0: there is none
    NameList masks;            // the values that are masked
    int64_t first;             // the first mask among the tensors of both functions
    int64_t first_slope;       // the first gradient by one among those of the second
    HeadGroups groups;
    VEC(AttSourcePiece) source;
    const char *import; // NULL: the source is one text
} ProductHeads;
typedef struct {
    uint32_t gradient, squares;  // numbers of functions
    const ProductDecode *decode; // NULL: there is none
    VEC(AttParam) params;
    VEC(AttField) fields;
    VEC(ProductOptimizer) optimizers; // the first is the default
    const ProductHeads *heads;        // NULL: there is no attention
} ProductTrainer;
// The entry, and perhaps more functions of it, for all levels of the architecture.
typedef struct {
    const ProductFunction *functions;
    uint32_t n_functions;
    const Target *const *targets; // one per level
    uint32_t n_targets;
    const ProductTrainer *trainer; // of a program that trains, else NULL
} ProductEntry;
// An entry on its way into a file: tables and compiled kernels. NULL on failure. The programs may
// be freed afterwards.
typedef struct Product Product;
Product *product_compile(Session *session, const ProductEntry *entry, const CacheOptions *cache,
                         const ProductOptions *options, const char **why);
bool product_write(Product *product, const char **why); // once
// The functions of a product, the entry first.
typedef struct {
    ModuleTables **at;
    uint32_t count;
} TablesList;
// What an input or output takes, of the extents that are known when it is called: "4096", "48 * n".
const char *product_bytes(Arena *arena, const AttModule *module, const AttTensor *tensor);
// JSON text about an entry: tensors, dims, kernels, levels, versions.
char *product_manifest(Arena *arena, const TablesList *list, const char *source);
// Does an entry have trained tensors?
bool product_has_params(const ModuleTables *tables);
// The constant AttModules with their functions, and for a program main() of the entry, or of the
// trainer where there is one.
bool product_descriptor(Arena *arena, const TablesList *list, const Target *target, bool with_main,
                        const ProductTrainer *trainer, Blob *out, const char **why);
// The C header of an entry, with the runtime's own in it.
char *product_header(Arena *arena, const TablesList *list, const ProductOptions *options);

// ---- cnames.c: names of C -----------------------------------------------------------------------
// An identifier of C and C++ that is no keyword.
char *product_c_name(Arena *arena, const char *name);
// Gives primed dims, which C has no names for, names that no other dim and no tensor has.
void product_name_dims(Arena *arena, AttModule *module);
// The entry's function: the def's name, with a `_` added where C, C++ or the C library has it.
char *product_entry_symbol(Arena *arena, const char *entry);

// ---- tool.c: cc, ld, ar -------------------------------------------------------------------------
// Runs a program of the PATH in a directory, where it also has its temporary files and what it says
// is kept in tool.log; waits for it. When one of the signals held comes, it is ended with all that
// it has started.
bool tool_run(Arena *arena, const char *const *argv, const char *directory,
              const AttHeldSignals *held, const char **why);

#endif
