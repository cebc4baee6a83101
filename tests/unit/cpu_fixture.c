// SPDX-License-Identifier: Apache-2.0
// Compiled kernels in memory that shows when they leave it.
#include "cpu_fixture.h"

#include "support.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { GUARD = 256, GUARD_BYTE = 0xA5, PAGE = 4096 };

struct CpuCode {
    const Kernel *kernel;
    Jit *jit;
    AttKernelFn run;
    AttScratchFn scratch;
    Blob object;
    double seconds;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); // other work on the machine does not count
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *look_up(CpuCode *code, const char *symbol) {
    uintptr_t address = 0;
    const char *why = NULL;
    if (!jit_find(code->jit, symbol, &address, &why))
        fail_msg("%s", why);
    return (void *)address;
}

// Objects of the last kernels by their LLVM IR: with extents read at run time one serves them all.
// LLVM is what most of these tests' time goes to.
enum { OBJECTS = 16 };
static struct {
    uint64_t key[OBJECTS];
    Blob object[OBJECTS];
    size_t next;
} objects;

static bool recall_object(Arena *arena, uint64_t key, Blob *object) {
    for (size_t i = 0; i < OBJECTS; i++)
        if (objects.object[i].bytes && objects.key[i] == key) {
            *object = objects.object[i];
            object->bytes = arena_copy(arena, object->bytes, object->length);
            return true;
        }
    return false;
}

static void keep_object(uint64_t key, Blob object) {
    size_t at = objects.next++ % OBJECTS;
    free(objects.object[at].bytes);
    char *data = malloc(object.length);
    memcpy(data, object.bytes, object.length);
    objects.key[at] = key;
    objects.object[at] = (Blob){.bytes = data, .length = object.length};
}

CpuCode *cpu_code_new(Arena *arena, const Kernel *kernel, const Target *target) {
    CpuCode *code = arena_new_of(arena, CpuCode);
    code->kernel = kernel;
    double start = now();
    EmitModule *module = emit_module_new(arena, "kernel", target);
    target->emit_kernel(module, kernel, target, "K");
    code->seconds = now() - start;
    if (getenv("ATTC_TEST_IR"))
        fprintf(stderr, "%s\n", emit_module_text(module));
    const char *why = NULL;
    uint64_t key = hash_text(hash_text(0, target->name), emit_module_text(module));
    if (!recall_object(arena, key, &code->object)) {
        start = now();
        if (!emit_compile(module, EMIT_OBJECT, &code->object, &why))
            fail_msg("%s", why);
        code->seconds += now() - start;
        keep_object(key, code->object);
    }
    emit_module_free(module);
    code->jit = jit_new(arena, target, &why);
    if (!code->jit ||
        !jit_add(code->jit, &(KernelObject){.symbol = "K", .object = code->object}, &why))
        fail_msg("%s", why);
    code->run = (AttKernelFn)(uintptr_t)look_up(code, "K");
    code->scratch = (AttScratchFn)(uintptr_t)look_up(code, "K_scratch");
    return code;
}

void cpu_code_free(CpuCode *code) {
    jit_free(code->jit);
}

double cpu_code_seconds(const CpuCode *code) {
    return code->seconds;
}

Blob cpu_code_object(const CpuCode *code) {
    return code->object;
}

bool cpu_level_runs(const Target *target) {
    __builtin_cpu_init();
    if (target->level == ATT_LEVEL_X86_64_V4)
        return __builtin_cpu_supports("x86-64-v4");
    return target->level == ATT_LEVEL_X86_64_V3 && __builtin_cpu_supports("x86-64-v3");
}

// ---- guarded memory ----

static char *guarded_new(size_t bytes, int fill) {
    size_t padded = (bytes + 63) / 64 * 64 + 2 * GUARD;
    char *memory = aligned_alloc(64, padded);
    memset(memory, GUARD_BYTE, padded);
    memset(memory + GUARD, fill, bytes);
    return memory + GUARD;
}

static void guarded_free(char *memory, size_t bytes, const char *what) {
    unsigned char *at = (unsigned char *)memory;
    size_t padded = (bytes + 63) / 64 * 64 + 2 * GUARD;
    for (size_t i = 0; i < GUARD; i++)
        if (at[-1 - (ptrdiff_t)i] != GUARD_BYTE)
            fail_msg("%s: written %zu bytes before the start", what, i + 1);
    for (size_t i = bytes; i < padded - GUARD; i++)
        if (at[i] != GUARD_BYTE)
            fail_msg("%s: written %zu bytes behind the end", what, i - bytes + 1);
    free(memory - GUARD);
}

// An input ends where memory ends, so that reading behind it is a fault.
static size_t pages_of(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
}

static void *edge_new(const void *from, size_t bytes) {
    char *memory =
        mmap(NULL, pages_of(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *end = memory + pages_of(bytes) - PAGE;
    mprotect(end, PAGE, PROT_NONE);
    memcpy(end - bytes, from, bytes);
    return end - bytes;
}

static void edge_free(char *memory, size_t bytes) {
    munmap(memory + bytes + PAGE - pages_of(bytes), pages_of(bytes));
}

// Tasks that take turns: each in a thread of its own, the last one first.
typedef struct {
    CpuCode *code;
    const int64_t *extents;
    void **arguments;
    int64_t task;
    pthread_t thread;
} Runner;

static void *run_alone(void *arg) {
    Runner *runner = arg;
    size_t bytes = (size_t)runner->code->scratch(runner->extents);
    char *scratch = guarded_new(bytes, 0xFF);
    runner->code->run(runner->arguments, runner->extents, scratch, runner->task);
    guarded_free(scratch, bytes, "scratch");
    return NULL;
}

static void run_at_once(CpuCode *code, const int64_t *extents, void **arguments, int64_t tasks) {
    Runner *runners = calloc((size_t)tasks, sizeof *runners);
    for (int64_t t = tasks; t-- > 0;) {
        runners[t] = (Runner){.code = code, .extents = extents, .arguments = arguments, .task = t};
        assert_int_equal(pthread_create(&runners[t].thread, NULL, run_alone, &runners[t]), 0);
    }
    for (int64_t t = 0; t < tasks; t++)
        assert_int_equal(pthread_join(runners[t].thread, NULL), 0);
    free(runners);
}

void cpu_code_run(CpuCode *code, const int64_t *extents, void *const *buffers) {
    size_t bytes = (size_t)code->scratch(extents);
    char *scratch = guarded_new(bytes, 0xFF); // all ones: a NaN of every float type
    int64_t tasks = kernel_tasks(code->kernel, extents);
    uint32_t n_args = code->kernel->n_args;
    void **arguments = calloc(n_args + 1, sizeof *arguments);
    memcpy(arguments, buffers, n_args * sizeof *arguments);
    arguments[n_args] = calloc((size_t)tasks + 1, ATT_TURN_WORDS * sizeof(int64_t));
    if (kernel_ordered(code->kernel))
        run_at_once(code, extents, arguments, tasks);
    for (int64_t t = 0; t < tasks && !kernel_ordered(code->kernel); t++)
        code->run(arguments, extents, scratch, t);
    free(arguments[n_args]);
    free(arguments);
    guarded_free(scratch, bytes, "scratch");
}

// ---- comparing ----

// Elements in memory, the last panel whole.
static int64_t volume(const TileBuffer *buffer, const int64_t *extents) {
    int64_t n = 1;
    for (int i = 0; i < buffer->rank; i++) {
        int64_t extent = extents[buffer->dims[i]], width = buffer->panel_width;
        bool panels = buffer->dims[i] == buffer->panel_dim;
        n *= panels ? (extent + width - 1) / width * width : extent;
    }
    return n;
}

// Is an element of memory behind the last position of the panels' dim?
static bool is_padding(const TileBuffer *buffer, const int64_t *extents, int64_t at) {
    if (buffer->panel_dim == TILE_DIM_NONE)
        return false;
    int64_t plane = buffer->panel_width;
    for (int i = 0; i < buffer->rank; i++)
        plane *= buffer->dims[i] == buffer->panel_dim ? 1 : extents[buffer->dims[i]];
    int64_t position = at / plane * buffer->panel_width + at % buffer->panel_width;
    return position >= extents[buffer->panel_dim];
}

static float narrow(Elem elem, double value, void *to) {
    if (elem == ELEM_F16)
        *(uint16_t *)to = att_f32_to_f16((float)value);
    else
        *(uint16_t *)to = att_f32_to_bf16((float)value);
    return 0;
}

static double widen(Elem elem, const void *data, int64_t i) {
    switch (elem) {
    case ELEM_F32:
        return (double)((const float *)data)[i];
    case ELEM_F64:
        return ((const double *)data)[i];
    case ELEM_F16:
        return (double)att_f16_to_f32(((const uint16_t *)data)[i]);
    case ELEM_BF16:
        return (double)att_bf16_to_f32(((const uint16_t *)data)[i]);
    case ELEM_I32:
        return ((const int32_t *)data)[i];
    case ELEM_I64:
        return (double)((const int64_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

void cpu_fill(const TileBuffer *buffer, const int64_t *extents, void *data, uint64_t seed) {
    for (int64_t i = 0; i < volume(buffer, extents); i++) {
        uint64_t bits = hash_u64(seed, (uint64_t)i);
        double value = (double)(bits >> 11) * 0x1p-52 - 1;
        if (is_padding(buffer, extents, i)) // anything may be there
            value = bits & 1 ? NAN : INFINITY;
        switch (buffer->elem) {
        case ELEM_F32:
            ((float *)data)[i] = (float)value;
            break;
        case ELEM_F64:
            ((double *)data)[i] = value;
            break;
        case ELEM_I32:
            ((int32_t *)data)[i] = (int32_t)(bits & 3);
            break;
        case ELEM_I64:
            ((int64_t *)data)[i] = (int64_t)(bits & 3);
            break;
        case ELEM_BOOL:
            ((uint8_t *)data)[i] = bits & 1;
            break;
        default:
            narrow(buffer->elem, value, (uint16_t *)data + i);
        }
    }
}

static void compare_buffer(const TileBuffer *buffer, const int64_t *extents, const void *expected,
                           const void *got, double tolerance, const char *level) {
    for (int64_t i = 0; i < volume(buffer, extents); i++) {
        double a = widen(buffer->elem, expected, i), b = widen(buffer->elem, got, i);
        bool rounds = elem_is_float(buffer->elem) && isfinite(a);
        double bound = rounds ? tolerance * fmax(1, fabs(a)) : 0;
        if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= bound)
            continue;
        fail_msg("%s: %s[%ld] is %.9g, expected %.9g", level, buffer->name, (long)i, b, a);
    }
}

static void compare_level(const Kernel *kernel, const int64_t *extents, void *const *inputs,
                          void *const *expected, const Target *target, double tolerance) {
    Arena *arena = arena_new();
    CpuCode *code = cpu_code_new(arena, kernel, target);
    void **buffers = arena_array(arena, void *, kernel->n_args);
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        const TileBuffer *buffer = &kernel->buffers.at[i];
        size_t bytes = (size_t)volume(buffer, extents) * elem_bytes(buffer->elem);
        bool input = buffer->place == PLACE_IN;
        buffers[i] = input ? edge_new(inputs[i], bytes) : guarded_new(bytes, 0xFF);
        if (buffer->place == PLACE_BOTH)
            memcpy(buffers[i], inputs[i], bytes);
    }
    cpu_code_run(code, extents, buffers);
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        const TileBuffer *buffer = &kernel->buffers.at[i];
        compare_buffer(buffer, extents, expected[i], buffers[i], tolerance, target->name);
        size_t bytes = (size_t)volume(buffer, extents) * elem_bytes(buffer->elem);
        if (buffer->place == PLACE_IN)
            edge_free(buffers[i], bytes);
        else
            guarded_free(buffers[i], bytes, buffer->name);
    }
    cpu_code_free(code);
    arena_free(arena);
}

void cpu_compare_and(const Kernel *kernel, const int64_t *extents, double tolerance,
                     CpuExpect expect) {
    Arena *arena = arena_new();
    kernel_verify(kernel, "cpu_compare");
    void **inputs = arena_array(arena, void *, kernel->n_args);
    void **buffers = arena_array(arena, void *, kernel->n_args);
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        const TileBuffer *buffer = &kernel->buffers.at[i];
        size_t bytes = (size_t)volume(buffer, extents) * elem_bytes(buffer->elem);
        inputs[i] = arena_alloc(arena, bytes + 1);
        memset(inputs[i], 0xFF, bytes);
        if (buffer->place == PLACE_IN || buffer->place == PLACE_BOTH)
            cpu_fill(buffer, extents, inputs[i], i + 1);
        buffers[i] = arena_copy(arena, inputs[i], bytes + 1);
    }
    kernel_interpret(kernel, extents, buffers);
    if (expect)
        expect(extents, buffers);
    static const Target *const levels[] = {&x86_64_v3, &x86_64_v4};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (cpu_level_runs(levels[i]))
            compare_level(kernel, extents, inputs, buffers, levels[i], tolerance);
    arena_free(arena);
}

void cpu_compare(const Kernel *kernel, const int64_t *extents, double tolerance) {
    cpu_compare_and(kernel, extents, tolerance, NULL);
}

// ---- gemm ----

static Stage *pack(Kernel *k, NodeList *into, uint16_t from, uint16_t to, TileDimList dims,
                   TileDimId lanes) {
    Stage *stage = node_compute(k, into, dims, lanes);
    int32_t load = stage_load(k, stage, access_plain(k, from));
    stage_sink(k, stage, SINK_SET, access_plain(k, to), load);
    stage->pad = true;
    return stage;
}

static Kernel *gemm(Arena *arena, const GemmPlan *p, bool rows_beside) {
    Kernel *k = kernel_new(arena, "gemm");
    TileDimId n = kernel_add_dim(k, "n", p->rows), f = kernel_add_dim(k, "f", p->lanes);
    TileDimId d = kernel_add_dim(k, "d", p->k);
    TileDimList of_a = rows_beside ? TILE_DIMS(d, n) : TILE_DIMS(n, d);
    uint16_t a = kernel_add_argument(k, "A", ELEM_F32, PLACE_IN, of_a);
    uint16_t b = kernel_add_argument(k, "B", ELEM_F32, PLACE_IN, TILE_DIMS(d, f));
    uint16_t c = kernel_add_argument(k, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(n, f));
    NodeList *into = &k->body;
    into = &node_loop(k, into, LOOP_PARALLEL, n, p->task_rows)->body;
    into = &node_loop(k, into, LOOP_PARALLEL, f, p->task_lanes)->body;
    if (p->block_k)
        into = &node_loop(k, into, LOOP_SEQUENTIAL, d, p->block_k)->body;
    uint16_t from_a = a, from_b = b;
    if (p->pack_b) {
        from_b = node_scratch_panel(k, into, "P", ELEM_F32, TILE_DIMS(d, f), f, p->lane_block);
        pack(k, into, b, from_b, TILE_DIMS(d, f), f);
    }
    if (p->block_rows)
        into = &node_loop(k, into, LOOP_SEQUENTIAL, n, p->block_rows)->body;
    if (p->pack_a) {
        from_a = node_scratch_panel(k, into, "R", ELEM_F32, of_a, n, p->row_block);
        pack(k, into, a, from_a, of_a, rows_beside ? n : d);
    }
    Stage *stage = node_contract(k, into, TILE_DIMS(n, f, d), access_plain(k, c),
                                 access_plain(k, from_a), access_plain(k, from_b));
    stage->rows = n;
    stage->lanes = f;
    stage->row_block = p->row_block;
    stage->lane_block = p->lane_block;
    return k;
}

Kernel *cpu_gemm(Arena *arena, const GemmPlan *plan) {
    return gemm(arena, plan, false);
}

Kernel *cpu_gemm_beside(Arena *arena, const GemmPlan *plan) {
    return gemm(arena, plan, true);
}
