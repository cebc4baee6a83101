// SPDX-License-Identifier: Apache-2.0
// Files that attc builds: each kind is made from the small entry of emit_fixture.c and then used
// the way a user would, with cc and dlopen.
#include "product/product.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emit_fixture.h"
#include "support.h"

enum { ROWS = 7, COLUMNS = 5, COUNT = ROWS * COLUMNS };

typedef struct {
    Session *session;
    char *directory;
    const char *archive, *train; // libraries: of the runtime, of programs with trained tensors
} Fixture;

static int open_fixture(void **state) {
    Session *session = session_new();
    Fixture *fixture = arena_new_of(session->arena, Fixture);
    fixture->session = session;
    fixture->directory = arena_printf(session->arena, "/tmp/attc product, test-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    char self[4096] = {0}; // BUILD/unit/product_test
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    *strrchr(self, '/') = '\0';
    *strrchr(self, '/') = '\0';
    fixture->archive = arena_printf(session->arena, "%s/lib/libattc_runtime.a", self);
    fixture->train = arena_printf(session->arena, "%s/lib/libattc_train.a", self);
    *state = fixture;
    return 0;
}

static int run_shell(Fixture *fixture, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Text command = {.arena = fixture->session->arena};
    text_printf(&command, "cd '%s' && ( ", fixture->directory);
    text_vprintf(&command, format, args);
    text_add(&command, " )");
    va_end(args);
    return system(command.at);
}

static int close_fixture(void **state) {
    Fixture *fixture = *state;
    assert_int_equal(run_shell(fixture, "rm -rf \"$PWD\""), 0);
    session_free(fixture->session);
    return 0;
}

static char *path_of(Fixture *fixture, const char *name) {
    return arena_printf(fixture->session->arena, "%s/%s", fixture->directory, name);
}

static bool build(Fixture *fixture, ProductKind kind, const char *output, const char *entry,
                  const char **why) {
    Session *session = fixture->session;
    TileProgram *programs[] = {fixture_program(session, &fixture_v3, entry),
                               fixture_program(session, &fixture_v4, entry)};
    const Target *targets[] = {&fixture_v3, &fixture_v4};
    ProductOptions options = {.kind = kind,
                              .output = output,
                              .runtime_archive = fixture->archive,
                              .train_archive = fixture->train,
                              .source = "scale.attn"};
    ProductFunction function = {.suffix = "", .programs = programs, .n_parts = 1};
    ProductEntry made = {
        .functions = &function, .n_functions = 1, .targets = targets, .n_targets = 2};
    Product *product = product_compile(session, &made, NULL, &options, why);
    return product && product_write(product, why);
}

static void must_build(Fixture *fixture, ProductKind kind, const char *name) {
    const char *why = NULL;
    if (!build(fixture, kind, path_of(fixture, name), "Scale", &why))
        fail_msg("%s", why);
}

static int count_files(const char *path) {
    DIR *listing = opendir(path);
    assert_non_null(listing);
    int count = 0;
    for (struct dirent *item; (item = readdir(listing));)
        count += strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0;
    closedir(listing);
    return count;
}

// A user of the library: Y = 6 X for every extent of n, with workspace of its own and without.
static const char user_program[] =
    "#include \"HEADER\"\n"
    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "int main(void) {\n"
    "    AttContext *ctx = att_context_new(2);\n"
    "    int64_t n;\n"
    "    for (n = 1; n < 40; n += 3) {\n"
    "        float x[200], y[200];\n"
    "        int32_t u[40] = {0};\n"
    "        uint16_t gain[Scale_dim_d] = {0};\n"
    "        Scale_args args;\n"
    "        int i;\n"
    "        for (i = 0; i < 200; i++) { x[i] = (float)i - 9; y[i] = -1; }\n"
    "        memset(&args, 0, sizeof args);\n"
    "        args.struct_size = sizeof args;\n"
    "        args.n = args.m = n;\n"
    "        args.X = x;\n        args.U = u;\n        args.layer_0_int = gain;\n"
    "        args.Y = y;\n"
    "        if (n % 2) {\n"
    "            args.workspace_bytes = Scale_workspace(n, n);\n"
    "            args.workspace = aligned_alloc(64, (size_t)args.workspace_bytes);\n"
    "        }\n"
    "        if (Scale(NULL, &args) != ATT_ARGUMENT) return 7;\n"
    "        if (Scale(ctx, &args)) { puts(att_message(ctx)); return 1; }\n"
    "        for (i = 0; i < 200; i++)\n"
    "            if (y[i] != (i < n * 5 ? 6 * x[i] : -1)) return 2;\n"
    "        free(args.workspace);\n"
    "        args.m = n + 1;\n"
    "        if (Scale(ctx, &args) != ATT_ARGUMENT) return 3;\n"
    "        args.m = n;\n        args.X = NULL;\n"
    "        if (Scale(ctx, &args) != ATT_ARGUMENT) return 4;\n"
    "        args.struct_size = 8;\n"
    "        if (Scale(ctx, &args) != ATT_ARGUMENT) return 5;\n"
    "    }\n"
    "    att_context_free(ctx);\n"
    "    return strstr(Scale_manifest(), \"\\\"entry\\\": \\\"Scale\\\"\") ? 0 : 6;\n"
    "}\n";

static void write_user(Fixture *fixture, const char *header) {
    FILE *file = fopen(path_of(fixture, "user.c"), "w");
    assert_non_null(file);
    const char *rest = strstr(user_program, "HEADER") + 6;
    fprintf(file, "#include \"%s%s", header, rest);
    assert_int_equal(fclose(file), 0);
}

#define CC "cc -O1 -std=c11 -Wall -Wextra -Wpedantic -Werror -o user user.c "

// ---- what is built works ----

static void a_shared_library_runs_at_every_level(void **state) {
    Fixture *fixture = *state;
    if (INSTRUMENTED) // cc alone cannot link its runtime archive
        skip();
    must_build(fixture, PRODUCT_SHARED, "libscale.so");
    write_user(fixture, "libscale.h");
    assert_int_equal(run_shell(fixture, CC "-L. -lscale -Wl,-rpath,'$ORIGIN'"), 0);
    assert_int_equal(run_shell(fixture, "./user && ATTC_LEVEL=v3 ./user"), 0);
    assert_int_equal(count_files(fixture->directory), 4); // .so .h user.c user: nothing left over
}

static void an_archive_holds_all_that_is_needed(void **state) {
    Fixture *fixture = *state;
    if (INSTRUMENTED)
        skip();
    must_build(fixture, PRODUCT_STATIC, "libscale.a");
    write_user(fixture, "libscale.h");
    assert_int_equal(run_shell(fixture, CC "libscale.a -lm -lpthread && ./user"), 0);
}

static void an_object_links_with_the_runtime(void **state) {
    Fixture *fixture = *state;
    must_build(fixture, PRODUCT_OBJECT, "scale.o");
    if (INSTRUMENTED)
        skip();
    write_user(fixture, "scale.h");
    assert_int_equal(
        run_shell(fixture, CC "scale.o '%s' -lm -lpthread && ./user", fixture->archive), 0);
}

// Two entries with equal kernels in one program: kernels are weak and hidden.
static void objects_of_two_entries_link_together(void **state) {
    Fixture *fixture = *state;
    const char *why = NULL;
    must_build(fixture, PRODUCT_OBJECT, "scale.o");
    assert_true(build(fixture, PRODUCT_OBJECT, path_of(fixture, "other.o"), "Other", &why));
    if (INSTRUMENTED)
        skip();
    write_user(fixture, "other.h\"\n#include \"scale.h\"\n#include \"other.h");
    assert_int_equal(
        run_shell(fixture, CC "scale.o other.o '%s' -lm -lpthread && ./user", fixture->archive), 0);
}

static void a_program_names_its_inputs(void **state) {
    Fixture *fixture = *state;
    if (INSTRUMENTED)
        skip();
    must_build(fixture, PRODUCT_EXE, "scale");
    assert_int_equal(run_shell(fixture, "./scale --help | grep -q 'X\\[n, d=5\\]: f32'"), 0);
    assert_int_equal(
        run_shell(fixture, "./scale --seed 1 -D n=3 -D m=3 -o Y=y.npy && test -s y.npy"), 0);
    assert_int_equal(count_files(fixture->directory), 2);
}

static void standard_output_takes_a_product(void **state) {
    Fixture *fixture = *state;
    fflush(stdout);
    int kept = dup(1);
    assert_non_null(freopen(path_of(fixture, "out"), "w", stdout));
    const char *why = NULL;
    bool ok = build(fixture, PRODUCT_OBJECT, "-", "Scale", &why);
    fflush(stdout);
    dup2(kept, 1);
    close(kept);
    assert_true(ok);
    must_build(fixture, PRODUCT_OBJECT, "same.o");
    assert_int_equal(run_shell(fixture, "cmp out same.o && rm same.o same.h out"), 0);
    assert_int_equal(count_files(fixture->directory), 0);
}

// ---- what is inside ----

static void a_library_shows_the_entry_and_the_runtime_only(void **state) {
    Fixture *fixture = *state;
    if (INSTRUMENTED)
        skip();
    must_build(fixture, PRODUCT_SHARED, "libscale.so");
    assert_int_equal(run_shell(fixture, "nm -D --defined-only libscale.so | awk '{print $3}' | "
                                        "grep -v '^att_' | tr '\\n' ' ' > shown"),
                     0);
    assert_int_equal(run_shell(fixture, "echo 'Scale Scale_manifest Scale_workspace ' | tr -d "
                                        "'\\n' | cmp - shown"),
                     0);
    assert_int_equal(run_shell(fixture, "nm -D --defined-only libscale.so | grep -q att_npy_read"),
                     0);
    assert_int_equal(run_shell(fixture, "readelf -d libscale.so | grep -q 'SONAME.*libscale.so'"),
                     0);
}

// An archive cannot hide anything: all but the entry has a prefix.
static void a_static_library_has_names_of_its_own(void **state) {
    Fixture *fixture = *state;
    if (INSTRUMENTED)
        skip();
    must_build(fixture, PRODUCT_STATIC, "libscale.a");
    assert_int_equal(run_shell(fixture,
                               "nm -g --defined-only libscale.a | awk 'NF == 3 {print $3}' "
                               "| grep -v '^attc\\?_' | tr '\\n' ' ' > shown"),
                     0);
    assert_int_equal(run_shell(fixture, "echo 'Scale Scale_manifest Scale_workspace ' | tr -d "
                                        "'\\n' | cmp - shown"),
                     0);
}

// The loader runs entry code before it knows the machine: no register wider than 128 bits in it,
// while the kernels use what their level has.
static void glue_is_for_the_baseline(void **state) {
    Fixture *fixture = *state;
    must_build(fixture, PRODUCT_OBJECT, "scale.o");
    assert_int_equal(run_shell(fixture, "objdump -d --no-show-raw-insn scale.o > code && awk "
                                        "'/^[0-9a-f]+ </{name=$2} /[yz]mm|%%k[0-7]|\\tv[a-z]/"
                                        "{print name}' code | sort -u > wide && grep -q attc_ wide "
                                        "&& ! grep -v '<attc_' wide"),
                     0);
}

static void products_are_reproducible(void **state) {
    Fixture *fixture = *state;
    static const char *const names[] = {"scale.o", "libscale.a", "libscale.so", "scale"};
    for (int kind = PRODUCT_OBJECT; kind <= (INSTRUMENTED ? PRODUCT_STATIC : PRODUCT_EXE); kind++) {
        must_build(fixture, (ProductKind)kind, names[kind]);
        assert_int_equal(run_shell(fixture, "cp %s first", names[kind]), 0);
        must_build(fixture, (ProductKind)kind, names[kind]);
        assert_int_equal(run_shell(fixture, "cmp %s first", names[kind]), 0);
    }
}

static void the_header_is_c99_and_cpp(void **state) {
    Fixture *fixture = *state;
    must_build(fixture, PRODUCT_OBJECT, "scale.o");
    assert_int_equal(run_shell(fixture,
                               "echo '#include \"scale.h\"' > user.c && cp user.c user.cc "
                               "&& cc -std=c99 -Wall -Wextra -Wpedantic -Werror -c user.c"),
                     0);
    assert_int_equal(run_shell(fixture, "c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -c "
                                        "user.cc"),
                     0);
}

// ---- what fails ----

static void fails_with(Fixture *fixture, ProductKind kind, const char *output, const char *part) {
    const char *why = NULL;
    assert_false(build(fixture, kind, output, "Scale", &why));
    if (!why || !strstr(why, part))
        fail_msg("said \"%s\", expected \"%s\"", why, part);
    if (strpbrk(why, "\n\r\t"))
        fail_msg("\"%s\" is more than a line", why);
}

static void a_failure_says_why_and_leaves_nothing(void **state) {
    Fixture *fixture = *state;
    char *tmp = path_of(fixture, "tmp");
    assert_int_equal(mkdir(tmp, 0700), 0);
    setenv("TMPDIR", tmp, 1);
    fails_with(fixture, PRODUCT_OBJECT, path_of(fixture, "no/such/x.o"), "No such file");
    fails_with(fixture, PRODUCT_OBJECT, path_of(fixture, "tmp"), "Is a directory");
    fails_with(fixture, PRODUCT_OBJECT, path_of(fixture, "tmp/"), "Is a directory");
    fixture->archive = path_of(fixture, "absent.a");
    fails_with(fixture, PRODUCT_SHARED, path_of(fixture, "x.so"), "absent.a: No such file");
    assert_int_equal(run_shell(fixture, "echo nonsense > absent.a"), 0);
    fails_with(fixture, PRODUCT_EXE, path_of(fixture, "x"), "cc failed with status 1: ");
    fails_with(fixture, PRODUCT_EXE, path_of(fixture, "x"), "; collect2: error: ld returned 1");
    fails_with(fixture, PRODUCT_STATIC, path_of(fixture, "x.a"), "ar failed with status ");
    char *search = strdup(getenv("PATH"));
    setenv("PATH", "/nowhere", 1);
    const char *why = NULL;
    bool ok = build(fixture, PRODUCT_OBJECT, path_of(fixture, "x.o"), "Scale", &why);
    setenv("PATH", search, 1);
    free(search);
    assert_false(ok);
    assert_string_equal(why, "cannot run ld: No such file or directory (install a C compiler and "
                             "binutils)");
    assert_int_equal(count_files(tmp), 0);
    assert_int_equal(count_files(fixture->directory), 2); // tmp, absent.a
    unsetenv("TMPDIR");
}

// The old product stays when a new one cannot be made.
static void a_failure_keeps_what_was_there(void **state) {
    Fixture *fixture = *state;
    assert_int_equal(run_shell(fixture, "echo old > libscale.so; echo bad > bad.a"), 0);
    fixture->archive = path_of(fixture, "bad.a");
    const char *why = NULL;
    assert_false(build(fixture, PRODUCT_SHARED, path_of(fixture, "libscale.so"), "Scale", &why));
    assert_int_equal(run_shell(fixture, "grep -q old libscale.so"), 0);
}

#define product_test(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void) {
    const struct CMUnitTest tests[] = {
        product_test(a_shared_library_runs_at_every_level),
        product_test(an_archive_holds_all_that_is_needed),
        product_test(an_object_links_with_the_runtime),
        product_test(objects_of_two_entries_link_together),
        product_test(a_program_names_its_inputs),
        product_test(standard_output_takes_a_product),
        product_test(a_library_shows_the_entry_and_the_runtime_only),
        product_test(a_static_library_has_names_of_its_own),
        product_test(glue_is_for_the_baseline),
        product_test(products_are_reproducible),
        product_test(the_header_is_c99_and_cpp),
        product_test(a_failure_says_why_and_leaves_nothing),
        product_test(a_failure_keeps_what_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
