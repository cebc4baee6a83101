// SPDX-License-Identifier: Apache-2.0
// Level product without its files: tables, an entry loaded into this process, names and headers.
#include "product/product.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emit_fixture.h"
#include "support.h"

enum { ROWS = 7, COLUMNS = 5, COUNT = ROWS * COLUMNS };

static int open_session(void **state) {
    *state = session_new();
    return 0;
}

static int close_session(void **state) {
    session_free(*state);
    return 0;
}

static const Target *usable_target(void) {
    return att_level_runs(ATT_LEVEL_X86_64_V4, NULL) ? &fixture_v4 : &fixture_v3;
}

static void remove_directory(const char *path) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

// ---- tables.c ----

static void tables_say_what_the_entry_is(void **state) {
    Session *session = *state;
    TileProgram *programs[] = {fixture_program(session, &fixture_v3, "Scale"),
                               fixture_program(session, &fixture_v4, "Scale")};
    const Target *targets[] = {&fixture_v3, &fixture_v4};
    ProductFunction function = {.suffix = "", .programs = programs, .n_parts = 1};
    ModuleTables *tables = product_tables(session->arena, &function, targets, 2);
    const AttModule *module = &tables->module;
    // n, d, m: the alias of n that only intermediates have stands for n itself.
    assert_int_equal(module->n_dims, 3);
    assert_string_equal(module->dims[0].name, "n");
    assert_int_equal(module->dims[0].extent, -1);
    assert_string_equal(module->dims[1].name, "d");
    assert_int_equal(module->dims[1].extent, COLUMNS);
    assert_string_equal(module->dims[2].name, "m");
    assert_int_equal(module->dims[2].like, 0);
    // X, U, layer.0.int, Y and each level's intermediate, in one slot.
    assert_int_equal(module->n_tensors, 6);
    assert_int_equal(module->n_slots, 1);
    assert_string_equal(module->tensors[3].name, "Y");
    assert_int_equal(module->tensors[3].role, ATT_OUTPUT);
    assert_true(module->tensors[2].is_param);
    assert_int_equal(module->tensors[2].elem, ATT_BF16);
    for (int i = 4; i < 6; i++) {
        assert_int_equal(module->tensors[i].role, ATT_WORK);
        assert_int_equal(module->tensors[i].dims[0], 0);
    }
    assert_int_equal(module->n_kernels, 4);
    assert_int_equal(tables->levels[1], ATT_LEVEL_X86_64_V3);
    assert_int_equal(tables->levels[2], ATT_LEVEL_X86_64_V4);
    assert_int_equal(module->kernels[2].n_parallel, 1);
    assert_int_equal(module->kernels[2].parallel_steps[ATT_LEVEL_X86_64_V4][0], 32);
    assert_null(module->kernels[2].parallel_steps[ATT_LEVEL_X86_64_V3]);
    assert_int_equal(module->n_launches[ATT_LEVEL_X86_64_V4], 2);
    const AttLaunch *second = &module->launches[ATT_LEVEL_X86_64_V4][1];
    assert_int_equal(second->kernel, 3);
    assert_int_equal(second->tensors[0], 5);
    assert_int_equal(second->tensors[1], 3);
    assert_memory_equal(second->dim_factors, ((int64_t[]){2, 0, 1}), 24);
    int64_t by_graph[] = {11, 11, COLUMNS, 11};
    int64_t *extents =
        product_extents(session->arena, module, programs[0]->plan->fusion->graph, by_graph);
    assert_memory_equal(extents, ((int64_t[]){11, COLUMNS, 11}), 24);
}

// Levels are planned for machines of their own: what passes make has one name and as many positions
// as a machine wants. A target that does not run here has the threads of a common machine.
static void a_dim_that_a_level_made_is_like_none_of_another(void **state) {
    Session *session = *state;
    TileProgram *programs[] = {fixture_program(session, &fixture_v3, "Scale"),
                               fixture_program(session, &fixture_v4, "Scale")};
    const Target *targets[] = {&fixture_v3, &fixture_v4};
    for (int i = 0; i < 2; i++) {
        const Graph *graph = programs[i]->plan->fusion->graph;
        Dim *dim = &graph->dims.at[graph_find_dim(graph, names_find(session->names, "d"))];
        dim->made = true;
        dim->extent = COLUMNS + i;
    }
    ProductFunction function = {.suffix = "", .programs = programs, .n_parts = 1};
    const AttModule *module = &product_tables(session->arena, &function, targets, 2)->module;
    int found = 0;
    for (int64_t d = 0; d < module->n_dims; d++)
        if (strcmp(module->dims[d].name, "d") == 0) {
            assert_int_equal(module->dims[d].like, d);
            assert_int_equal(module->dims[d].extent, COLUMNS + found++);
        }
    assert_int_equal(found, 2);
}

// ---- load.c ----

static void run_module(const AttModule *module) {
    AttContext *ctx = att_context_new(2);
    float x[COUNT], y[COUNT] = {0};
    int32_t u[ROWS] = {0};
    uint16_t gain[COLUMNS] = {0};
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i - 3.5f;
    void *tensors[] = {x, u, gain, y};
    int64_t extents[] = {ROWS, COLUMNS, ROWS};
    AttRun run = {.extents = extents, .tensors = tensors};
    assert_int_equal(att_module_run(ctx, module, &run), ATT_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == 6 * x[i]);
    att_context_free(ctx);
}

static LoadedProduct *load(Session *session, TileProgram *program, const Target *target,
                           const CacheOptions *cache, const char **why) {
    ProductFunction function = {.suffix = "", .programs = &program, .n_parts = 1};
    return product_load(session, &function, target, cache, why);
}

static void the_jit_runs_what_was_compiled(void **state) {
    Session *session = *state;
    const Target *target = usable_target();
    const char *why = NULL;
    TileProgram *program = fixture_program(session, target, "Scale");
    LoadedProduct *loaded = load(session, program, target, NULL, &why);
    assert_non_null(loaded);
    const AttModule *module = product_module(loaded);
    assert_string_equal(module->entry, "Scale");
    assert_non_null(strstr(module->manifest, "\"entry\": \"Scale\""));
    session_free(session); // what is loaded needs nothing of it
    *state = session_new();
    run_module(module);
    product_unload(loaded);
}

static long resident_pages(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident;
}

static void compile_and_run_once(const CacheOptions *cache) {
    Session *session = session_new();
    const Target *target = usable_target();
    const char *why = NULL;
    TileProgram *program = fixture_program(session, target, "Scale");
    LoadedProduct *loaded = load(session, program, target, cache, &why);
    assert_non_null(loaded);
    run_module(product_module(loaded));
    product_unload(loaded);
    session_free(session);
}

static void a_thousand_jits_leave_nothing_behind(void **state) {
    (void)state;
    char directory[] = "/tmp/attc-emit-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    CacheOptions cache = {.directory = directory, .enabled = true};
    long after_warm_up = 0;
    for (int i = 0; i < 1000; i++) {
        compile_and_run_once(i % 20 == 0 ? NULL : &cache);
        if (i == 200)
            after_warm_up = resident_pages();
    }
    if (!INSTRUMENTED) // finds leaks by itself, and what it keeps in quarantine grows
        assert_in_range(resident_pages(), 0, after_warm_up + after_warm_up / 10);
    remove_directory(directory);
}

static void a_missing_symbol_is_an_error(void **state) {
    Session *session = *state;
    Target target = *usable_target();
    const char *why = NULL;
    TileProgram *program = fixture_program(session, &target, "Scale");
    // An object in the cache under the right key that does not hold the kernel's functions.
    char directory[] = "/tmp/attc-emit-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    CacheOptions cache = {.directory = directory, .enabled = true};
    KernelObject objects[2];
    assert_true(fixture_emit(session, program, &target, NULL, objects, &why));
    const char *key = arena_printf(session->arena, "symbol=%s %s", objects[0].symbol,
                                   emit_flags_text(session->arena, &target));
    assert_true(cache_store(&cache, key, &objects[1].object));
    assert_null(load(session, program, &target, &cache, &why));
    assert_non_null(strstr(why, "cannot load a kernel"));
    remove_directory(directory);
}

// ---- cnames.c, header.c, manifest.c ----

static void names_of_c_are_left_alone(void **state) {
    Session *session = *state;
    static const struct {
        const char *name, *entry, *field;
    } cases[] = {
        {"MultiHead", "MultiHead", "MultiHead"},
        {"double", "double_", "double_"},
        {"class", "class_", "class_"},
        {"main", "main_", "main"},
        {"read", "read_", "read"},
        {"exp", "exp_", "exp"},
        {"att_message", "att_message_", "att_message"},
        {"layer.0.P_q", "layer_0_P_q", "layer_0_P_q"},
        {"2x", "x_2x", "x_2x"},
        {"_Bool", "x_Bool", "x_Bool"},
        {"__x", "x__x", "x__x"},
        {"_x", "_x", "_x"},
        {"int64_t", "int64_t_", "int64_t_"},
        {"uint_fast8_t", "uint_fast8_t_", "uint_fast8_t_"},
        {"print_t", "print_t", "print_t"},
        {"AttStatus", "AttStatus_", "AttStatus_"},
        {"AttWeights", "AttWeights", "AttWeights"},
        {"ATT_API", "ATT_API_", "ATT_API_"},
        {"SIZE_MAX", "SIZE_MAX_", "SIZE_MAX_"},
        {"clas", "clas", "clas"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(product_entry_symbol(session->arena, cases[i].name), cases[i].entry);
        assert_string_equal(product_c_name(session->arena, cases[i].name), cases[i].field);
    }
}

static void the_header_shows_extents_shapes_and_elements(void **state) {
    Session *session = *state;
    TileProgram *programs[] = {fixture_program(session, &fixture_v3, "Scale")};
    const Target *targets[] = {&fixture_v3};
    ProductFunction function = {.suffix = "", .programs = programs, .n_parts = 1};
    ModuleTables *tables = product_tables(session->arena, &function, targets, 1);
    ProductOptions options = {.kind = PRODUCT_SHARED, .source = "a*/\\\nb.attn"};
    TablesList list = {&tables, 1};
    const char *text = product_header(session->arena, &list, &options);
    static const char *const parts[] = {
        "from a*/??b.attn",
        "#ifndef ATT_ATTC_H",
        "    Scale_dim_d = 5\n",
        "    int64_t n;\n    int64_t m; // equal to n\n",
        "    const float *X;              // [n, d]\n",
        "    const int32_t *U;            // [m]\n",
        "    const uint16_t *layer_0_int; // layer.0.int [d], bf16 as bits, trained\n",
        "    float *Y; // [n, d]\n",
        "int64_t Scale_workspace(int64_t n, int64_t m);",
        "AttStatus Scale(AttContext *ctx, const Scale_args *args);",
        "const char *Scale_manifest(void);",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("the header lacks: %s", parts[i]);
}

#define tables_test(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)

int main(void) {
    const struct CMUnitTest tests[] = {
        tables_test(tables_say_what_the_entry_is),
        tables_test(a_dim_that_a_level_made_is_like_none_of_another),
        tables_test(the_jit_runs_what_was_compiled),
        tables_test(a_thousand_jits_leave_nothing_behind),
        tables_test(a_missing_symbol_is_an_error),
        tables_test(names_of_c_are_left_alone),
        tables_test(the_header_shows_extents_shapes_and_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
