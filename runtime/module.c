// SPDX-License-Identifier: Apache-2.0
// Runs an entry: checks what the caller gave, lays out the workspace, and hands the launches, one
// after another, to the threads. All sizes are checked for overflow before anything runs.
//
// A launch is cut into tasks by the kernel's parallel dims: ceil(extent / step) pieces each. The
// cut depends on extents and schedule only, never on the number of threads, so results do not
// either.

#include <stdlib.h>
#include <string.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "internal.h"

enum { SLOT_ALIGN = 64 };

static int64_t n_arguments(const AttModule *module) {
    int64_t n = 0;
    while (n < module->n_tensors && module->tensors[n].role != ATT_WORK)
        n++;
    return n;
}

static bool guards_hold(const AttGuard *guards, int64_t n, const int64_t *extents) {
    for (int64_t i = 0; i < n; i++)
        if (extents[guards[i].dim] < guards[i].least || extents[guards[i].dim] >= guards[i].below)
            return false;
    return true;
}

static bool tensor_bytes(const AttModule *module, const AttTensor *tensor, const int64_t *extents,
                         int64_t *bytes) {
    *bytes = 0;
    if (!guards_hold(tensor->guards, tensor->n_guards, extents))
        return true;
    *bytes = (int64_t)att_elem_bytes((AttElem)tensor->elem);
    for (int64_t i = 0; i < tensor->rank; i++) {
        int64_t dim = tensor->dims[i], extent;
        if (dim < 0 || dim >= module->n_dims || extents[dim] < 0)
            return false;
        extent = extents[dim];
        if (tensor->panel_width && i == tensor->panel) {
            if (__builtin_add_overflow(extent, tensor->panel_width - 1, &extent))
                return false;
            extent -= extent % tensor->panel_width;
        }
        if (__builtin_mul_overflow(*bytes, extent, bytes))
            return false;
    }
    return true;
}

// ---- workspace ---------------------------------------------------------------------------------
// A slot is as large as the largest tensor in it. The slots lie one after another.
static int64_t slot_bytes(const AttModule *module, const int64_t *extents, int64_t slot) {
    int64_t most = 0, bytes;
    for (int64_t i = 0; i < module->n_tensors; i++) {
        const AttTensor *tensor = &module->tensors[i];
        if (tensor->role != ATT_WORK || tensor->slot != slot)
            continue;
        if (!tensor_bytes(module, tensor, extents, &bytes) ||
            __builtin_add_overflow(bytes, (int64_t)SLOT_ALIGN - 1, &bytes))
            return -1;
        bytes &= ~(int64_t)(SLOT_ALIGN - 1);
        most = bytes > most ? bytes : most;
    }
    return most;
}

int64_t att_module_workspace(const AttModule *module, const int64_t *extents) {
    int64_t total = 0;
    for (int64_t slot = 0; slot < module->n_slots; slot++) {
        int64_t bytes = slot_bytes(module, extents, slot);
        if (bytes < 0 || __builtin_add_overflow(total, bytes, &total))
            return -1;
    }
    return total;
}

int64_t att_module_workspace_for(const AttModule *module, int64_t *extents) {
    return att_module_compute(NULL, module, extents) ? -1 : att_module_workspace(module, extents);
}

static void place_slots(const AttModule *module, const int64_t *extents, char *workspace,
                        void **tensors) {
    for (int64_t slot = 0; slot < module->n_slots; slot++) {
        for (int64_t i = 0; i < module->n_tensors; i++)
            if (module->tensors[i].role == ATT_WORK && module->tensors[i].slot == slot)
                tensors[i] = workspace;
        workspace += slot_bytes(module, extents, slot);
    }
}

// A tensor without elements lies where one may be read: kernels read the first in place of one that
// is outside, and throw it away.
static void place_empty(const AttModule *module, const int64_t *extents, void **tensors) {
    static const int64_t nothing;
    int64_t bytes;
    for (int64_t i = 0; i < module->n_tensors; i++)
        if (tensor_bytes(module, &module->tensors[i], extents, &bytes) && !bytes)
            tensors[i] = (void *)&nothing;
}

// Cotangents that were not given: a scalar's is 1.
static bool is_one(const AttTensor *tensor) {
    return tensor->use == ATT_USE_COTANGENT && tensor->rank == 0;
}

static void place_ones(const AttModule *module, void **tensors) {
    static const float f32 = 1;
    static const double f64 = 1;
    static const uint16_t f16 = 0x3C00, bf16 = 0x3F80;
    static const void *const ones[ATT_N_ELEM] = {
        [ATT_F32] = &f32, [ATT_F64] = &f64, [ATT_F16] = &f16, [ATT_BF16] = &bf16};
    for (int64_t i = 0; i < module->n_tensors; i++)
        if (is_one(&module->tensors[i]) && !tensors[i])
            tensors[i] = (void *)ones[module->tensors[i].elem];
}

// ---- checks ------------------------------------------------------------------------------------
static AttStatus check_extents(AttContext *ctx, const AttModule *module, const int64_t *extents) {
    for (int64_t d = 0; d < module->n_dims; d++) {
        const AttDim *dim = &module->dims[d], *like = &module->dims[dim->like];
        long long extent = extents[d];
        if (extent < 0)
            return att_fail(ctx, ATT_ARGUMENT, "%s must be at least 0, not %lld", dim->name,
                            extent);
        if (dim->extent >= 0 && extent != dim->extent)
            return att_fail(ctx, ATT_ARGUMENT, "%s must be %lld, not %lld", dim->name,
                            (long long)dim->extent, extent);
        if (extent != extents[dim->like])
            return att_fail(ctx, ATT_ARGUMENT, "%s must equal %s: they are %lld and %lld",
                            dim->name, like->name, extent, (long long)extents[dim->like]);
    }
    return att_module_check_rules(ctx, module, extents);
}

// Generated code assumes that outputs overlap nothing.
static AttStatus check_overlap(AttContext *ctx, const AttModule *module, const int64_t *extents,
                               void *const *tensors, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes, other;
        uintptr_t begin = (uintptr_t)tensors[i];
        if (module->tensors[i].role != ATT_OUTPUT)
            continue;
        tensor_bytes(module, &module->tensors[i], extents, &bytes);
        for (int64_t j = 0; j < n; j++) {
            uintptr_t at = (uintptr_t)tensors[j];
            tensor_bytes(module, &module->tensors[j], extents, &other);
            if (i != j && bytes && other && begin < at + (uintptr_t)other &&
                at < begin + (uintptr_t)bytes)
                return att_fail(ctx, ATT_ARGUMENT, "%s overlaps %s", module->tensors[i].name,
                                module->tensors[j].name);
        }
    }
    return ATT_OK;
}

static AttStatus check_tensors(AttContext *ctx, const AttModule *module, const int64_t *extents,
                               void *const *tensors, int64_t n) {
    for (int64_t i = 0; i < module->n_tensors; i++) {
        const AttTensor *tensor = &module->tensors[i];
        int64_t bytes;
        size_t align = att_elem_bytes((AttElem)tensor->elem);
        if (!tensor_bytes(module, tensor, extents, &bytes))
            return att_fail(ctx, ATT_ARGUMENT, "%s has more bytes than memory can hold",
                            tensor->name);
        if (i >= n)
            continue;
        if (!tensors[i] && bytes && !is_one(tensor))
            return att_fail(ctx, ATT_ARGUMENT, "%s is NULL", tensor->name);
        if ((uintptr_t)tensors[i] % align)
            return att_fail(ctx, ATT_ARGUMENT, "%s is not aligned to its elements of %zu bytes",
                            tensor->name, align);
        if ((uintptr_t)tensors[i] + (uintptr_t)bytes < (uintptr_t)tensors[i])
            return att_fail(ctx, ATT_ARGUMENT, "%s reaches beyond the end of memory", tensor->name);
    }
    return check_overlap(ctx, module, extents, tensors, n);
}

// ---- launches ----------------------------------------------------------------------------------
typedef struct {
    AttKernelFn fn;
    void *const *buffers;
    const int64_t *extents;
} Call;

// Subnormal numbers count as zero in kernels, as in other compilers for this field: the weights of
// a softmax underflow now and then, and arithmetic on what is left takes a hundred times as long.
#if defined(__SSE__)
enum { FLUSH_RESULTS = 1 << 15, FLUSH_OPERANDS = 1 << 6 };

static void run_flushed(const Call *call, void *scratch, int64_t task) {
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | FLUSH_RESULTS | FLUSH_OPERANDS);
    call->fn(call->buffers, call->extents, scratch, task);
    _mm_setcsr(mode);
}
#else
static void run_flushed(const Call *call, void *scratch, int64_t task) {
    call->fn(call->buffers, call->extents, scratch, task);
}
#endif

static void run_task(void *arg, void *scratch, int64_t task) {
    run_flushed(arg, scratch, task);
}

// Memory for one run: all tensors' pointers, and arguments and extents of the largest kernel.
typedef struct {
    void **tensors, **buffers;
    int64_t *extents;
} Tables;

static bool make_tables(AttBlock *block, const AttModule *module, Tables *out) {
    int64_t args = 0, dims = 0;
    for (int64_t i = 0; i < module->n_kernels; i++) {
        args = module->kernels[i].n_args > args ? module->kernels[i].n_args : args;
        dims = module->kernels[i].n_dims > dims ? module->kernels[i].n_dims : dims;
    }
    args++; // turns
    if (!att_block_reserve(block, (size_t)(module->n_tensors + args + dims) * 8))
        return false;
    out->tensors = block->at;
    out->buffers = out->tensors + module->n_tensors;
    out->extents = (int64_t *)(out->buffers + args);
    return true;
}

static bool bind_launch(const AttModule *module, const AttLaunch *launch, const int64_t *extents,
                        const Tables *tables) {
    const AttKernel *kernel = &module->kernels[launch->kernel];
    for (int64_t i = 0; i < kernel->n_args; i++)
        tables->buffers[i] = tables->tensors[launch->tensors[i]];
    const int64_t *factors = launch->dim_factors;
    for (int64_t d = 0; d < kernel->n_dims; d++) {
        int64_t product = 1, count = *factors++;
        for (int64_t i = 0; i < count; i++)
            if (__builtin_mul_overflow(product, extents[*factors++], &product))
                return false;
        tables->extents[d] = product;
    }
    return true;
}

static bool count_tasks(const AttKernel *kernel, int level, const int64_t *extents,
                        int64_t *tasks) {
    *tasks = 1;
    for (int64_t i = 0; i < kernel->n_parallel; i++) {
        int64_t extent = extents[kernel->parallel_dims[i]], step = kernel->parallel_steps[level][i];
        int64_t pieces = extent / step + (extent % step != 0);
        if (kernel->is_ordered && !pieces && i == kernel->n_parallel - 1)
            pieces = 1;
        if (__builtin_mul_overflow(*tasks, pieces, tasks))
            return false;
    }
    return true;
}

// Tasks that take turns: nobody has had one yet.
static AttStatus run_in_turn(AttContext *ctx, Call *call, void **argument, AttBlock *turns,
                             int64_t tasks, size_t scratch) {
    int64_t bytes;
    if (__builtin_mul_overflow(tasks, (int64_t)sizeof(int64_t) * ATT_TURN_WORDS, &bytes) ||
        !att_block_reserve(turns, (size_t)bytes))
        return att_no_memory(ctx);
    memset(turns->at, 0, (size_t)bytes);
    *argument = turns->at;
    return att_context_in_turn(ctx, run_task, call, tasks, scratch);
}

static AttStatus run_launch(AttContext *ctx, const AttModule *module, int level,
                            const AttLaunch *launch, const int64_t *extents, const Tables *tables,
                            AttBlock *turns) {
    const AttKernel *kernel = &module->kernels[launch->kernel];
    int64_t tasks, scratch = 0;
    if (!bind_launch(module, launch, extents, tables) ||
        !count_tasks(kernel, level, tables->extents, &tasks))
        return att_fail(ctx, ATT_ARGUMENT, "the extents are too large for kernel %s", kernel->name);
    if (kernel->scratch[level])
        scratch = kernel->scratch[level](tables->extents);
    if (scratch < 0)
        return att_fail(ctx, ATT_ARGUMENT, "the scratch memory of kernel %s has no size that fits",
                        kernel->name);
    Call call = {kernel->fn[level], tables->buffers, tables->extents};
    if (kernel->is_ordered)
        return run_in_turn(ctx, &call, &tables->buffers[kernel->n_args], turns, tasks,
                           (size_t)scratch);
    return att_parallel(ctx, run_task, &call, tasks, (size_t)scratch);
}

static AttStatus find_workspace(AttContext *ctx, const AttModule *module, const int64_t *extents,
                                AttBlock *block, void **workspace) {
    int64_t bytes = att_module_workspace(module, extents);
    if (bytes < 0)
        return att_fail(ctx, ATT_ARGUMENT, "the workspace has more bytes than memory can hold");
    if (*workspace && (uintptr_t)*workspace % SLOT_ALIGN)
        return att_fail(ctx, ATT_ARGUMENT, "workspace is not aligned to %d bytes", SLOT_ALIGN);
    if (*workspace)
        return ATT_OK;
    if (!att_block_reserve(block, (size_t)bytes))
        return att_fail(ctx, ATT_MEMORY, "out of memory: %lld bytes of workspace",
                        (long long)bytes);
    *workspace = block->at;
    return ATT_OK;
}

// Code for a level exists when every launch of its list has a function.
static bool has_code(const AttModule *module, int level) {
    for (int64_t i = 0; i < module->n_launches[level]; i++)
        if (!module->kernels[module->launches[level][i].kernel].fn[level])
            return false;
    return module->n_launches[level] > 0;
}

int att_module_level(AttContext *ctx, const AttModule *module) {
    const char *cap = getenv("ATTC_LEVEL"), *missing = NULL;
    if (!ctx)
        return -1;
    if (cap && *cap && strcmp(cap, "v3") != 0 && strcmp(cap, "v4") != 0) {
        att_fail(ctx, ATT_ARGUMENT, "ATTC_LEVEL is '%s'; it can be v3 or v4", cap);
        return -1;
    }
    for (int level = ATT_N_LEVELS - 1; level >= 0; level--) {
        if (!has_code(module, level))
            continue;
        missing = att_context_missing(ctx, level); // in the end: for the lowest level
        if (!missing)
            return level;
    }
    if (missing)
        att_fail(ctx, ATT_UNSUPPORTED, "%s needs a machine with %s", module->entry, missing);
    else
        att_fail(ctx, ATT_UNSUPPORTED, "%s has no code", module->entry);
    return -1;
}

static bool is_chosen(const AttLaunch *launch, const int64_t *choices) {
    return launch->choice == ATT_NO_CHOICE ||
           launch->alternative == (choices ? choices[launch->choice] : 0);
}

static AttStatus run_launches(AttContext *ctx, const AttModule *module, int level,
                              const AttRun *run, const Tables *tables, AttBlock *turns) {
    AttStatus status = ATT_OK;
    double before = run->seconds ? att_seconds() : 0;
    for (int64_t i = 0; i < module->n_launches[level] && !status; i++) {
        const AttLaunch *launch = &module->launches[level][i];
        if (!is_chosen(launch, run->choices) ||
            !guards_hold(launch->guards, launch->n_guards, run->extents))
            continue;
        status = run_launch(ctx, module, level, launch, run->extents, tables, turns);
        double after = run->seconds ? att_seconds() : 0;
        if (run->seconds)
            run->seconds[i] += after - before;
        before = after;
    }
    return status;
}

static AttStatus run_with(AttContext *ctx, const AttModule *module, const AttRun *run,
                          AttMemory *memory) {
    Tables tables = {0};
    const int64_t *extents = run->extents;
    void *workspace = run->workspace;
    int64_t n = n_arguments(module);
    if (module->abi != ATT_MODULE_ABI)
        return att_fail(ctx, ATT_UNSUPPORTED,
                        "%s was built for another version of the runtime: interface %lld, not %d",
                        module->entry, (long long)module->abi, ATT_MODULE_ABI);
    int level = att_module_level(ctx, module);
    if (level < 0)
        return ATT_UNSUPPORTED;
    AttStatus status = check_extents(ctx, module, extents);
    if (!status)
        status = check_tensors(ctx, module, extents, run->tensors, n);
    if (!status)
        status = find_workspace(ctx, module, extents, &memory->workspace, &workspace);
    if (!status && !make_tables(&memory->tables, module, &tables))
        status = att_no_memory(ctx);
    if (status)
        return status;
    memcpy(tables.tensors, run->tensors, (size_t)n * sizeof *run->tensors);
    place_slots(module, extents, workspace, tables.tensors);
    place_empty(module, extents, tables.tensors);
    place_ones(module, tables.tensors);
    return run_launches(ctx, module, level, run, &tables, &memory->turns);
}

AttStatus att_module_run(AttContext *ctx, const AttModule *module, const AttRun *run) {
    bool outermost;
    if (!ctx)
        return ATT_ARGUMENT;
    AttStatus status = att_context_enter(ctx, &outermost);
    if (status)
        return status;
    AttMemory own = {0}, *kept = att_context_take_memory(ctx);
    status = run_with(ctx, module, run, kept ? kept : &own);
    if (kept)
        att_context_give_memory(ctx);
    att_memory_free(&own);
    att_context_leave(ctx, outermost);
    return status;
}

// ---- calls from generated entry points ---------------------------------------------------------
// Is the extent among the arguments?
static bool is_told(const AttDim *dim) {
    return dim->extent < 0 && !dim->computed;
}

// What others are computed from.
static AttStatus check_told(AttContext *ctx, const AttModule *module, const int64_t *extents) {
    for (int64_t d = 0; d < module->n_dims; d++)
        if (is_told(&module->dims[d]) && extents[d] < 0)
            return att_fail(ctx, ATT_ARGUMENT, "%s must be at least 0, not %lld",
                            module->dims[d].name, (long long)extents[d]);
    return ATT_OK;
}

// The arguments as words, with `extents` and `tensors` taken out of them.
static AttStatus call_with(AttContext *ctx, const AttModule *module, const int64_t *word,
                           int64_t *extents, void **tensors) {
    int64_t n = n_arguments(module), words = 3 + n;
    for (int64_t d = 0; d < module->n_dims; d++)
        words += is_told(&module->dims[d]);
    if (*word != words * 8)
        return att_fail(ctx, ATT_ARGUMENT,
                        "struct_size is %lld where %s expects %lld: set it to the size of the "
                        "struct, from the header of this very library",
                        (long long)*word, module->entry, (long long)words * 8);
    word++;
    for (int64_t d = 0; d < module->n_dims; d++)
        extents[d] = is_told(&module->dims[d]) ? *word++ : module->dims[d].extent;
    for (int64_t i = 0; i < n; i++)
        tensors[i] =
            module->tensors[i].use == ATT_USE_FLAG ? (void *)&word[i] : (void *)(uintptr_t)word[i];
    void *workspace = (void *)(uintptr_t)word[n];
    int64_t given = word[n + 1];
    AttStatus status = check_told(ctx, module, extents);
    if (!status)
        status = att_module_compute(ctx, module, extents);
    if (!status)
        status = check_extents(ctx, module, extents);
    if (status)
        return status;
    int64_t needed = att_module_workspace(module, extents);
    if (workspace && given < needed)
        return att_fail(ctx, ATT_ARGUMENT, "workspace has %lld bytes and needs %lld",
                        (long long)given, (long long)needed);
    AttRun run = {.extents = extents, .tensors = tensors, .workspace = workspace};
    return att_module_run(ctx, module, &run);
}

AttStatus att_module_call(AttContext *ctx, const AttModule *module, const void *args) {
    enum { DIMS_AT_HAND = 32, TENSORS_AT_HAND = 64 };
    int64_t some_extents[DIMS_AT_HAND], *extents = some_extents;
    void *some_tensors[TENSORS_AT_HAND], **tensors = some_tensors;
    if (!ctx)
        return ATT_ARGUMENT;
    if (!args)
        return att_fail(ctx, ATT_ARGUMENT, "the arguments of %s are NULL", module->entry);
    if (module->n_dims > DIMS_AT_HAND)
        extents = calloc((size_t)module->n_dims, sizeof *extents);
    if (n_arguments(module) > TENSORS_AT_HAND)
        tensors = calloc((size_t)n_arguments(module), sizeof *tensors);
    AttStatus status =
        extents && tensors ? call_with(ctx, module, args, extents, tensors) : att_no_memory(ctx);
    if (extents != some_extents)
        free(extents);
    if (tensors != some_tensors)
        free(tensors);
    return status;
}
