// SPDX-License-Identifier: Apache-2.0
// What generated code hands to the runtime: an entry as a table of tensors and launches.
//
// The compiler emits one constant AttModule per entry (compiler/product/descriptor.c), or builds
// the same structs in memory for the JIT. All fields are 8 bytes wide so that both sides agree
// without effort.
#ifndef ATT_MODULE_H
#define ATT_MODULE_H

#include "attc.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATT_MODULE_ABI = 8 };

// Feature levels a kernel may be compiled for; a kernel has a function per level, or NULL.
enum { ATT_LEVEL_X86_64_V3, ATT_LEVEL_X86_64_V4, ATT_LEVEL_AARCH64, ATT_N_LEVELS };

// Works off task number `task` (0 .. tasks-1). buffers: one pointer per argument and, of a kernel
// with ordered loops, one to its turns. extents: one per kernel dim. scratch: 64-byte aligned
// memory of this thread, as large as AttScratchFn says.
typedef void (*AttKernelFn)(void *const *buffers, const int64_t *extents, void *scratch,
                            int64_t task);
typedef int64_t (*AttScratchFn)(const int64_t *extents);

#define ATT_EXTENT_MOST (INT64_C(1) << 40)
enum { ATT_EXTENT_UNKNOWN = -1 };

// Kernels call this: the positions of a row's elements, the smallest or the largest first, of equal
// ones the lower position, the first `kept` of them. NaN is larger than all, -0 is 0, and so are
// subnormal numbers of f32 and f64.
typedef struct {
    const void *row; // contiguous
    int64_t elem;    // AttElem, but ATT_BOOL
    int64_t length, kept;
    int64_t descending;
    int32_t *out;
    int64_t stride;   // of out, in elements
    int64_t *work[2]; // room for `length` each
} AttOrder;
void att_order(const AttOrder *order);

// Ordered loops: a task works on positions when the task before, of number task - 1, is done with
// them. turns: a cache line for each task, 64-byte aligned, all zero before the first, with a word
// for each loop. To await a turn requires that it is not the first task of its chain.
enum { ATT_TURN_WORDS = 8 };
void att_turn_await(const int64_t *turns, int64_t task, int64_t loop, int64_t end);
// The task is done with all that it has before `end`. Requires: the task before is, too.
void att_turn_end(int64_t *turns, int64_t task, int64_t loop, int64_t end);

typedef struct {
    const char *name;
    int64_t extent;   // -1: known when the entry is called
    int64_t like;     // index of the dim it must be equal to (itself when alone)
    int64_t computed; // 1: a rule computes it; callers do not tell it
    int64_t hidden;   // 1: of intermediates alone, made by the compiler
} AttDim;

// A formula is a list of words: NUMBER and DIM (an index into AttModule.dims) are followed by their
// operand and push a value, all others take two values and push one.
enum {
    ATT_FORMULA_NUMBER,
    ATT_FORMULA_DIM,
    ATT_FORMULA_ADD,
    ATT_FORMULA_SUB,
    ATT_FORMULA_MUL,
    ATT_FORMULA_DIV, // without a remainder
    ATT_FORMULA_FLOORDIV,
    ATT_FORMULA_MOD,
    ATT_FORMULA_POW,
    ATT_FORMULA_MIN,
    ATT_FORMULA_MAX
};
typedef struct {
    const char *text; // as it was written: "p + n"
    int64_t n_words;
    const int64_t *words;
} AttFormula;
// What follows from other extents. Those that compute come first, each after those that it needs.
enum {
    ATT_RULE_COMPUTES,  // the dim is as large as the formula says, nothing else tells it
    ATT_RULE_IS,        // it must be as large
    ATT_RULE_REACHES,   // it must be at least as large
    ATT_RULE_BEGINS,    // the formula, where a slice of the dim begins, must be at least 0
    ATT_RULE_EVALUATES, // the formula must have a value
    ATT_RULE_HOLDS,     // the dim must have as many positions as are kept of its order
    ATT_RULE_CHOOSES    // the dim must be at least as large: an argmax is over it
};
typedef struct {
    int64_t kind, dim;
    AttFormula formula;
} AttRule;

// What is there several times, each for other extents, has guards, and is for those where all of
// them hold: least <= extent of the module's dim < below.
typedef struct {
    int64_t dim, least, below;
} AttGuard;

enum { ATT_INPUT, ATT_OUTPUT, ATT_WORK };
// What an input or output is to callers.
enum {
    ATT_USE_PLAIN,     // an argument or a result of the entry
    ATT_USE_COTANGENT, // input: of a result; without dims, NULL stands for 1
    ATT_USE_GRADIENT,  // output: by an argument
    ATT_USE_SAVED,     // output of F_forward, input of F_backward
    ATT_USE_RESULT,    // input of F_backward: a result of F_forward
    ATT_USE_FLAG,      // input: is a gradient added to what is there? An i64
};
typedef struct {
    const char *name;
    int64_t elem; // AttElem
    int64_t role;
    int64_t slot; // ATT_WORK: tensors of one slot share memory
    int64_t rank;
    const int64_t *dims; // indices into AttModule.dims, memory order
    int64_t is_param;    // ATT_INPUT: a trained tensor
    int64_t panel;       // ATT_WORK: the place in dims of an extent that is rounded up to
    int64_t panel_width; // multiples of panel_width; 0: there is none
    int64_t use;         // ATT_USE_*
    int64_t n_guards;    // ATT_WORK: for other extents it takes no memory
    const AttGuard *guards;
} AttTensor;

typedef struct {
    const char *name;
    AttKernelFn fn[ATT_N_LEVELS];
    AttScratchFn scratch[ATT_N_LEVELS];
    int64_t n_parallel;
    const int64_t *parallel_dims;                // kernel dims, outermost first
    const int64_t *parallel_steps[ATT_N_LEVELS]; // schedules differ by level
    int64_t n_args;
    int64_t n_dims;
    // The innermost parallel dim has one task at least, and tasks are begun in their order.
    int64_t is_ordered;
} AttKernel;

typedef struct {
    int64_t kernel;
    const int64_t *tensors;     // per argument of the kernel
    const int64_t *dim_factors; // per kernel dim: count, then that many indices into AttModule.dims
    int64_t n_guards;           // for other extents other launches do the work
    const AttGuard *guards;
    // Of several ways to do the work, which compute the same, it is this one: it runs where the
    // choice is this alternative. choice: ATT_NO_CHOICE: it always runs.
    int64_t choice, alternative;
} AttLaunch;
enum { ATT_NO_CHOICE = -1 };

typedef struct {
    int64_t abi; // ATT_MODULE_ABI
    const char *entry;
    const char *manifest; // JSON
    int64_t n_dims;
    const AttDim *dims;
    int64_t n_tensors; // inputs in calling order, outputs, then workspace
    const AttTensor *tensors;
    int64_t n_slots;
    int64_t n_kernels;
    const AttKernel *kernels;
    int64_t n_launches[ATT_N_LEVELS];
    const AttLaunch *launches[ATT_N_LEVELS];
    int64_t n_rules;
    const AttRule *rules;
    int64_t n_choices[ATT_N_LEVELS];
    const int64_t *n_alternatives[ATT_N_LEVELS]; // per choice, at least 2
    int64_t identity[ATT_N_LEVELS]; // of launches and the code of their kernels: a hash
} AttModule;

// What an entry runs on.
typedef struct {
    const int64_t *extents; // per module dim, all known and consistent (see att_module_extents)
    void *const *tensors;   // one pointer per input and output
    void *workspace; // att_module_workspace bytes, 64-byte aligned; NULL: memory of the context
    const int64_t *choices; // per choice of the level an alternative; NULL: the first of each
    double *seconds;        // NULL, or an accumulator per launch, of those that run
} AttRun;
ATT_API AttStatus att_module_run(AttContext *ctx, const AttModule *module, const AttRun *run);
// Finds the extents of the entry's dims from the inputs that are at hand. inputs: one per ATT_INPUT
// tensor, in order, NULL for one that is not known; known: NULL, or per module dim an extent set
// otherwise (ATT_EXTENT_UNKNOWN: none). extents[d] is ATT_EXTENT_UNKNOWN for a dim that nothing
// tells. Ranks, element types and shapes are checked.
ATT_API AttStatus att_module_extents(AttContext *ctx, const AttModule *module,
                                     const AttTensorData *const *inputs, const int64_t *known,
                                     int64_t *extents);
// Whether this machine and its operating system can run code of an ATT_LEVEL_*. The environment
// variable ATTC_LEVEL=v3 or v4 caps the answer, for tests (a context reads it when it is made).
// missing: NULL, or set to what is missing.
ATT_API int att_level_runs(int level, const char **missing);
ATT_API const char *att_level_name(int level); // "x86-64-v4"
// Computes what the rules compute of extents that are ATT_EXTENT_UNKNOWN, as far as what they
// follow from is known, and checks the others.
ATT_API AttStatus att_module_compute(AttContext *ctx, const AttModule *module, int64_t *extents);
// Bytes of workspace for these extents; -1 when it overflows.
ATT_API int64_t att_module_workspace(const AttModule *module, const int64_t *extents);
// The same, of extents that lack the computed ones; -1 also where they cannot be computed.
ATT_API int64_t att_module_workspace_for(const AttModule *module, int64_t *extents);
// The generated entry points call this: args is the generated struct, made of 8-byte words:
// struct_size, one word per dim whose extent is -1 and that is not computed (also those that are
// like another), one pointer per input and output (of an ATT_USE_FLAG the number itself),
// workspace, workspace_bytes. A NULL workspace: memory that the context keeps.
ATT_API AttStatus att_module_call(AttContext *ctx, const AttModule *module, const void *args);
// Best level of this machine that the module has code for; -1 when none, with the reason in the
// context.
ATT_API int att_module_level(AttContext *ctx, const AttModule *module);
// main() of a program made by `attc build --exe`: NAME=file.npy for inputs, -o NAME=file.npy for
// outputs, -D dim=N, --seed S, --threads N, --help. Status 0, 1 (data) or 2 (command line).
ATT_API int att_program_main(const AttModule *module, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
