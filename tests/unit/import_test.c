// SPDX-License-Identifier: Apache-2.0
// Imports: each file once, by whichever path; relative to the file that says so; cycles are
// harmless.
#include "support.h"

#include "ast/ast.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- files made for a test

typedef struct {
    char path[64];
} Directory;

static void write_file(const Directory *directory, const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory->path, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static Directory make_directory(void) {
    Directory directory = {"/tmp/attc-parse-test-XXXXXX"};
    assert_non_null(mkdtemp(directory.path));
    char inner[128];
    snprintf(inner, sizeof inner, "%s/inner", directory.path);
    assert_int_equal(mkdir(inner, 0700), 0);
    return directory;
}

static void remove_directory(const Directory *directory) {
    static const char *const names[] = {"main.attn", "a.attn", "inner/b.attn", "inner", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", directory->path, names[i]);
        remove(path);
    }
}

static void imports_are_read_once(void **state) {
    (void)state;
    Directory directory = make_directory();
    write_file(&directory, "main.attn",
               "import \"a.attn\"\nimport \"inner/../a.attn\"\n"
               "import \"inner/b.attn\"\ndim main\n");
    write_file(&directory, "a.attn",
               "import \"main.attn\"\nimport \"a.attn\"\ndim a\n"
               "import \"inner/b.attn\"\n");
    write_file(&directory, "inner/b.attn",
               "dim b\nimport \"../a.attn\"\nimport \"none.attn\"\n"
               "import \"..\"\nimport \"\"\n");
    Session *session = session_new();
    Program *program = program_new(session->arena);
    char path[128];
    snprintf(path, sizeof path, "%s/main.attn", directory.path);
    const char *why = NULL;
    uint32_t file = sources_read(session->sources, path, &why);
    assert_int_equal(file, 1);
    ast_parse(session, program, file);
    Text printed = {.arena = session->arena};
    ast_print(program, &printed);
    assert_string_equal(printed.at, "dim main\ndim a\ndim b\n");
    assert_int_equal(program->files.count, 3);
    assert_true(program->incomplete);
    assert_int_equal(diags_errors(session->diags), 3);
    char *errors = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&errors, &length);
    diags_print(session->diags, out, DIAGS_TEXT, false);
    fclose(out);
    assert_non_null(strstr(errors, "inner/b.attn:3:8: error: cannot read '"));
    assert_non_null(strstr(errors, "inner/none.attn': No such file or directory\n"));
    assert_non_null(strstr(errors, "inner/..': not a regular file\n"));
    free(errors);
    session_free(session);
    remove_directory(&directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(imports_are_read_once),
    };
    return cmocka_run_group_tests_name("import", tests, NULL, NULL);
}
