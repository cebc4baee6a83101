// SPDX-License-Identifier: Apache-2.0
// attc emit: the program at one stage of compilation.
#include "driver/driver.h"

#include <errno.h>
#include <string.h>

// ---- output ----
static int write_text(Options *options, const Text *text) {
    const char *path = options->outputs.count ? options->outputs.at[0] : "-";
    if (!strcmp(path, "-")) {
        fwrite(text->at, 1, text->length, stdout);
        return EXIT_FINE;
    }
    if (!driver_may_write(options, path))
        return EXIT_PROBLEM;
    return file_replace(options->session->arena, path, text)
               ? EXIT_FINE
               : problem(options, "cannot write %s: %s", path, strerror(errno));
}

// ---- stages ----
static int emit_ast(Options *options) {
    Session *session = options->session;
    const char *why = NULL;
    uint32_t file = sources_read(session->sources, options->file, &why);
    if (!file)
        return problem(options, "%s", why);
    Program *program = program_new(session->arena);
    ast_parse(session, program, file);
    if (diags_errors(session->diags))
        return EXIT_PROBLEM;
    Text text = {.arena = session->arena};
    ast_print(program, &text);
    return write_text(options, &text);
}

static void print_graph(const Compilation *c, Text *text) {
    graph_print(c->built, text);
}
static void print_simplified(const Compilation *c, Text *text) {
    graph_print(c->simplified, text);
}
static void print_contracted(const Compilation *c, Text *text) {
    graph_print(c->contracted, text);
}
static void print_fused(const Compilation *c, Text *text) {
    fusion_print(c->fusion, text);
}
static void print_tile(const Compilation *c, Text *text) {
    tile_print(c->tile, text);
}

// Stages that are printed from a compilation that ends there.
static const struct {
    PipelineStop stop;
    void (*print)(const Compilation *compiled, Text *text); // NULL: not one of these
} printed_stages[N_STAGES] = {
    [STAGE_GRAPH] = {AFTER_GRAPH, print_graph},
    [STAGE_SIMPLIFIED] = {AFTER_SIMPLIFIED, print_simplified},
    [STAGE_CONTRACTED] = {AFTER_CONTRACTED, print_contracted},
    [STAGE_FUSED] = {AFTER_FUSED, print_fused},
    [STAGE_TILE] = {AFTER_TILE, print_tile},
};

// LLVM IR or assembly of every kernel, each in a module of its own.
static int emit_code(Options *options, bool assembly) {
    Compilation compiled;
    const Target *target = driver_target(options);
    if (!target || !driver_compile(options, target, AFTER_TILE, &compiled))
        return EXIT_PROBLEM;
    Arena *arena = options->session->arena;
    Text text = {.arena = arena};
    for (uint32_t i = 0; i < compiled.tile->kernels.count; i++) {
        const Kernel *kernel = compiled.tile->kernels.at[i];
        EmitModule *module = emit_kernel_module(arena, kernel, target);
        Blob blob = {0};
        const char *why = NULL;
        if (!assembly)
            text_add(&text, emit_module_text(module));
        else if (!emit_compile(module, EMIT_ASSEMBLY, &blob, &why))
            return problem(options, "%s: %s", kernel->name, why);
        text_addn(&text, blob.bytes ? blob.bytes : "", blob.length);
        emit_module_free(module);
    }
    return write_text(options, &text);
}

static int emit_printed(Options *options) {
    Compilation compiled;
    // The graph is the same for every machine.
    const Target *target = options->stage == STAGE_GRAPH ? NULL : driver_target(options);
    if ((!target && options->stage != STAGE_GRAPH) ||
        !driver_compile(options, target, printed_stages[options->stage].stop, &compiled))
        return EXIT_PROBLEM;
    Text text = {.arena = options->session->arena};
    printed_stages[options->stage].print(&compiled, &text);
    return write_text(options, &text);
}

int command_emit(Options *options) {
    if (options->outputs.count > 1)
        return usage_error("emit: one -o only");
    switch (options->stage) {
    case STAGE_NONE:
        return usage_error("emit: say which --stage: " STAGE_NAMES);
    case STAGE_AST:
        return emit_ast(options);
    case STAGE_LLVM:
    case STAGE_ASM:
        return emit_code(options, options->stage == STAGE_ASM);
    case STAGE_OBJ:
        options->product = PRODUCT_OBJECT;
        return command_build(options);
    default:
        return emit_printed(options);
    }
}
