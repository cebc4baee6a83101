// SPDX-License-Identifier: Apache-2.0
// attc runtime: the C library inside every product of attc. Needs libc, libm and threads.
//
// No call prints, aborts or exits. Calls that can fail return an AttStatus; att_message then tells
// what happened. A context belongs to one thread at a time: while a call of one runs on the
// context's threads, that of another does nothing and returns ATT_BUSY. Threads that are to run
// side by side have a context each.
#ifndef ATT_ATTC_H
#define ATT_ATTC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What a shared library shows; everything else in it is hidden.
#define ATT_API __attribute__((visibility("default")))

typedef enum {
    ATT_OK = 0,
    ATT_ARGUMENT,    // a pointer, size, shape or option that cannot be
    ATT_MEMORY,      // out of memory
    ATT_IO,          // a system call failed; the message has errno's text
    ATT_FORMAT,      // a file is not what it says it is
    ATT_UNSUPPORTED, // this machine lacks what the code needs
    ATT_BUSY,        // a call of another thread runs on the context
} AttStatus;

typedef enum {
    ATT_F32,
    ATT_F64,
    ATT_F16,
    ATT_BF16,
    ATT_I32,
    ATT_I64,
    ATT_BOOL,
    ATT_N_ELEM
} AttElem;
ATT_API size_t att_elem_bytes(AttElem elem);
ATT_API const char *att_elem_name(AttElem elem); // "f32", ...

// ---- context -----------------------------------------------------------------------------------
// NULL in the place of one: what runs on its threads returns ATT_ARGUMENT, and there is no message.
typedef struct AttContext AttContext;
// threads: 0 means att_cores_usable. NULL when out of memory.
ATT_API AttContext *att_context_new(int threads);
ATT_API void att_context_free(AttContext *ctx);
ATT_API int att_context_threads(const AttContext *ctx); // 0 of NULL
// Physical cores that this process may run on, no more than its CPU quota pays for; at least 1.
ATT_API int att_cores_usable(void);
// Of the last call that failed, "" if none did. Belongs to the context; the next failure changes
// it, also that of another thread's call.
ATT_API const char *att_message(const AttContext *ctx);
// Sets the message (at most 1023 bytes) and returns status.
ATT_API AttStatus att_fail(AttContext *ctx, AttStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- threads: fixed pieces of work, handed out by an atomic counter ----------------------------
// Calls fn(arg, scratch, task) for every task in 0 .. tasks-1 on the context's threads, the
// caller's included, and returns when all are done. scratch: scratch_bytes of memory private to the
// thread, 64-byte aligned, with whatever was left in it. Which thread takes which task is not
// fixed, so a task's result must not depend on it. A task may call att_parallel itself, or an entry
// of compiled code: that runs in place.
typedef void (*AttTaskFn)(void *arg, void *scratch, int64_t task);
ATT_API AttStatus att_parallel(AttContext *ctx, AttTaskFn fn, void *arg, int64_t tasks,
                               size_t scratch_bytes);

// ---- tensors and .npy files --------------------------------------------------------------------
enum { ATT_RANK_MAX = 16 };
typedef struct {
    AttElem elem;
    int rank;
    int64_t shape[ATT_RANK_MAX]; // row-major, last contiguous
    void *data;                  // 64-byte aligned, owned; NULL when empty
} AttTensorData;
// All zeros. On failure out holds no memory.
ATT_API AttStatus att_tensor_new(AttContext *ctx, AttElem elem, int rank, const int64_t *shape,
                                 AttTensorData *out);
ATT_API void att_tensor_free(AttTensorData *tensor); // leaves data NULL
// Reads versions 1 to 3, little or big endian, C order or Fortran order (transposed while reading).
// bool, (u)int8..64, float16/32/64 are converted to `elem` when that loses nothing but float
// precision; ATT_FORMAT otherwise. elem ATT_N_ELEM keeps what the file has (small integers become
// i32).
ATT_API AttStatus att_npy_read(AttContext *ctx, const char *path, AttElem elem, AttTensorData *out);
// The same for a file in memory; label stands for its name in messages.
ATT_API AttStatus att_npy_parse(AttContext *ctx, const char *label, const void *bytes,
                                size_t length, AttElem elem, AttTensorData *out);
// Writes a temporary file in the same directory, syncs and renames it; what is no regular file (a
// pipe, a terminal) is written to. Version 1.0, little endian, C order. bf16 is written as float32.
ATT_API AttStatus att_npy_write(AttContext *ctx, const char *path, const AttTensorData *tensor);

// ---- random numbers: counter-based (Philox 4x32-10), the same everywhere -----------------------
// Element i depends on (seed, stream, i) only. Normal: mean 0, deviation 1, by Box-Muller in
// double, rounded once. Uniform: in [0, 1). Integers: 0 .. below-1; below < 1 counts as 1.
ATT_API void att_random_normal(uint64_t seed, uint64_t stream, int64_t count, float *out);
ATT_API void att_random_uniform(uint64_t seed, uint64_t stream, int64_t count, float *out);
ATT_API float att_random_uniform_at(uint64_t seed, uint64_t stream, uint64_t i); // element i
ATT_API void att_random_integers(uint64_t seed, uint64_t stream, int64_t count, int64_t below,
                                 int64_t *out);
// Fills a tensor: floats normal, times the fourth root of 1/count when scaled (a square matrix then
// keeps magnitudes); integers and bools 0 or 1. The stream is att_stream_of(name).
ATT_API AttStatus att_tensor_draw(AttContext *ctx, AttTensorData *tensor, uint64_t seed,
                                  const char *name, int scaled);
ATT_API uint64_t att_stream_of(const char *name); // a stream number from a tensor's name

// ---- half precision; a NaN stays a NaN ---------------------------------------------------------
ATT_API float att_f16_to_f32(uint16_t bits);
ATT_API uint16_t att_f32_to_f16(float value); // nearest even
ATT_API float att_bf16_to_f32(uint16_t bits);
ATT_API uint16_t att_f32_to_bf16(float value);

#ifdef __cplusplus
}
#endif
#endif
