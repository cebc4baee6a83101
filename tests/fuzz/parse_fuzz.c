// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a source file. Parses, resolves (without the prelude, which would take
// longer than all the rest), prints the diagnostics both ways. A text without syntax errors must
// survive printing: print(parse(print(parse(x)))) == print(parse(x)), and its layout must stay the
// same when it is laid out again.
#include "ast/ast.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

_Noreturn void ice(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    abort();
}

_Noreturn void no_memory(const char *what, uint64_t bytes) {
    ice("no memory for %s: %llu bytes", what, (unsigned long long)bytes);
}

static Program *parse(Session *session, const char *text, size_t length) {
    Program *program = program_new(session->arena);
    ast_parse(session, program, sources_add(session->sources, "fuzz.attn", text, length));
    return program;
}

static void print_diags(const Session *session) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return;
    diags_print(session->diags, out, DIAGS_TEXT, true);
    diags_print(session->diags, out, DIAGS_JSON, false);
    fclose(out);
    free(text);
}

static void check_printing(const Program *program, Arena *arena) {
    Text once = {.arena = arena}, twice = {.arena = arena};
    text_add(&once, "");
    text_add(&twice, "");
    ast_print(program, &once);
    Session *session = session_new();
    Program *again = parse(session, once.at, once.length);
    ast_print(again, &twice);
    bool same = diags_errors(session->diags) == 0 && !strcmp(once.at, twice.at);
    if (!same)
        ice("printed program does not parse back:\n%s\n----\n%s", once.at, twice.at);
    session_free(session);
}

static bool lay_out(const char *text, size_t length, Text *out) {
    Session *session = session_new();
    bool ok = ast_format(session, sources_add(session->sources, "fuzz.attn", text, length), out);
    session_free(session);
    return ok;
}

static void check_layout(const char *text, size_t length) {
    Arena *arena = arena_new();
    Text once = {.arena = arena}, twice = {.arena = arena};
    if (lay_out(text, length, &once) &&
        (!lay_out(once.at, once.length, &twice) || strcmp(once.at, twice.at) != 0))
        ice("the layout is laid out in another way:\n%s\n----\n%s", once.at, twice.at);
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_layout((const char *)data, size);
    Session *session = session_new();
    Program *program = parse(session, (const char *)data, size);
    if (diags_errors(session->diags) == 0)
        check_printing(program, session->arena);
    ast_resolve(session, program);
    print_diags(session);
    session_free(session);
    return 0;
}
