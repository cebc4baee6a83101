// SPDX-License-Identifier: Apache-2.0
// Level emit below the targets: objects, and kernels through the cache.
#include "emit/emit.h"

#include <llvm-c/Core.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emit_fixture.h"
#include "support.h"

static int open_session(void **state) {
    *state = session_new();
    return 0;
}

static int close_session(void **state) {
    session_free(*state);
    return 0;
}

static bool blob_has(const Blob *blob, const char *part) {
    return memmem(blob->bytes, blob->length, part, strlen(part)) != NULL;
}

// ---- object.c ----

static void a_module_becomes_an_object_and_assembly(void **state) {
    Session *session = *state;
    const Kernel *kernel = fixture_kernel(session, "twice", 2, 8);
    const char *symbol = emit_kernel_symbol(session->arena, kernel, &fixture_v3), *why = NULL;
    assert_int_equal(strlen(symbol), strlen("attc_0123456789abcdef_v3"));
    assert_string_equal(symbol + 21, "_v3");
    for (int kind = EMIT_OBJECT; kind <= EMIT_ASSEMBLY; kind++) {
        EmitModule *module = emit_kernel_module(session->arena, kernel, &fixture_v3);
        assert_non_null(strstr(emit_module_text(module), "define weak_odr hidden void @attc_"));
        Blob blob;
        assert_true(emit_compile(module, (EmitFile)kind, &blob, &why));
        assert_true(blob_has(&blob, symbol));
        assert_int_equal(memcmp(blob.bytes, "\177ELF", 4) == 0, kind == EMIT_OBJECT);
        emit_module_free(module);
    }
}

static void a_bad_module_is_a_broken_invariant(void **state) {
    Session *session = *state;
    EmitModule *module = emit_module_new(session->arena, "bad", &fixture_v3);
    LLVMTypeRef type = LLVMFunctionType(LLVMInt64TypeInContext(module->context), NULL, 0, false);
    emit_function(module, "f", type, false);
    LLVMBuildRetVoid(module->builder);
    Blob blob;
    const char *why;
    expect_ice("emit_compile: module bad", emit_compile(module, EMIT_OBJECT, &blob, &why));
    emit_module_free(module);
}

// LLVM reports this through the context and then writes an object all the same.
static void an_error_while_emitting_is_a_failure(void **state) {
    Session *session = *state;
    EmitModule *module = emit_module_new(session->arena, "asm", &fixture_v3);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(module->context), NULL, 0, false);
    emit_function(module, "f", type, false);
    const char *line = "no_such_instruction %rax", *why = NULL;
    LLVMValueRef text = LLVMGetInlineAsm(type, (char *)line, strlen(line), (char *)"", 0, true,
                                         false, LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(module->builder, type, text, NULL, 0, "");
    LLVMBuildRetVoid(module->builder);
    Blob blob;
    assert_false(emit_compile(module, EMIT_OBJECT, &blob, &why));
    assert_non_null(strstr(why, "invalid instruction mnemonic"));
    emit_module_free(module);
}

// ---- kernels.c ----

static void remove_directory(const char *path) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static void kernels_come_from_the_cache_the_second_time(void **state) {
    Session *session = *state;
    TileProgram *program = fixture_program(session, &fixture_v3, "Scale");
    char directory[] = "/tmp/attc-emit-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    CacheOptions cache = {.directory = directory, .enabled = true};
    KernelObject cold[2], warm[2], other[2];
    const char *why = NULL;
    assert_true(fixture_emit(session, program, &fixture_v3, &cache, cold, &why));
    assert_true(fixture_emit(session, program, &fixture_v3, &cache, warm, &why));
    assert_true(fixture_emit(session, program, &fixture_v4, &cache, other, &why));
    for (int i = 0; i < 2; i++) {
        assert_false(cold[i].from_cache);
        assert_true(warm[i].from_cache);
        assert_false(other[i].from_cache);
        assert_int_equal(cold[i].object.length, warm[i].object.length);
        assert_memory_equal(cold[i].object.bytes, warm[i].object.bytes, warm[i].object.length);
    }
    assert_string_not_equal(cold[0].symbol, cold[1].symbol);
    remove_directory(directory);
}

// The same object whether a kernel was compiled alone or beside others, on whichever thread.
static void objects_are_reproducible(void **state) {
    Session *session = *state;
    TileProgram many = {0};
    for (int i = 0; i < 24; i++)
        vec_push(session->arena, &many.kernels, fixture_kernel(session, "k", i + 1, 8));
    KernelObject first[24], second[24], alone;
    const char *why = NULL;
    assert_true(fixture_emit(session, &many, &fixture_v3, NULL, first, &why));
    assert_true(fixture_emit(session, &many, &fixture_v3, NULL, second, &why));
    TileProgram one = {0};
    vec_push(session->arena, &one.kernels, many.kernels.at[17]);
    assert_true(fixture_emit(session, &one, &fixture_v3, NULL, &alone, &why));
    for (int i = 0; i < 24; i++) {
        assert_int_equal(first[i].object.length, second[i].object.length);
        assert_memory_equal(first[i].object.bytes, second[i].object.bytes, first[i].object.length);
    }
    assert_memory_equal(first[17].object.bytes, alone.object.bytes, alone.object.length);
}

#define emit_test(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)

int main(void) {
    const struct CMUnitTest tests[] = {
        emit_test(a_module_becomes_an_object_and_assembly),
        emit_test(a_bad_module_is_a_broken_invariant),
        emit_test(an_error_while_emitting_is_a_failure),
        emit_test(kernels_come_from_the_cache_the_second_time),
        emit_test(objects_are_reproducible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
