// SPDX-License-Identifier: Apache-2.0
// The C header of an entry: for each function a struct with its extents and tensors, and in
// comments what their caller must know. It stands alone, in C99 or C++11: the runtime's own header
// is copied into it under the include guard it has, so any number of generated headers go together.
#include "product/product.h"

#include <ctype.h>
#include <string.h>

// The text of runtime/attc.h; the assembler copies the file, and the build runs at the top of the
// tree.
__asm__(".pushsection .rodata\n"
        "attc_runtime_header:\n"
        ".incbin \"runtime/attc.h\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char runtime_header[] __asm__("attc_runtime_header")
    __attribute__((visibility("hidden")));

typedef struct {
    Arena *arena;
    const char *entry; // symbol of the entry
    Text text;
    // of the function at hand
    const AttModule *module;
    const char *symbol;
    const char **dims;    // field or constant of each module dim
    const char **tensors; // field of each input and output
} Header;

// ---- names ----

static bool is_taken(const Header *header, const char *name) {
    static const char *const own[] = {"struct_size", "workspace", "workspace_bytes"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i], name) == 0)
            return true;
    if (strcmp(arena_printf(header->arena, "%s_args", header->symbol), name) == 0)
        return true; // C++ has no field called like its struct
    for (int64_t i = 0; i < header->module->n_dims && header->dims[i]; i++)
        if (strcmp(header->dims[i], name) == 0)
            return true;
    for (int64_t i = 0; i < header->module->n_tensors && header->tensors[i]; i++)
        if (strcmp(header->tensors[i], name) == 0)
            return true;
    return false;
}

static const char *claim_name(const Header *header, const char *name) {
    char *made = product_c_name(header->arena, name);
    while (is_taken(header, made))
        made = arena_printf(header->arena, "%s_", made);
    return made;
}

static void claim_names(Header *header) {
    const AttModule *module = header->module;
    header->dims = arena_array(header->arena, const char *, module->n_dims + 1);
    header->tensors = arena_array(header->arena, const char *, module->n_tensors + 1);
    for (int64_t i = 0; i < module->n_dims; i++)
        header->dims[i] = claim_name(header, module->dims[i].name);
    for (int64_t i = 0; i < module->n_tensors && module->tensors[i].role != ATT_WORK; i++)
        header->tensors[i] = claim_name(header, module->tensors[i].name);
}

static const char *elem_type(int64_t elem) {
    static const char *const types[ATT_N_ELEM] = {
        [ATT_F32] = "float",     [ATT_F64] = "double",  [ATT_F16] = "uint16_t",
        [ATT_BF16] = "uint16_t", [ATT_I32] = "int32_t", [ATT_I64] = "int64_t",
        [ATT_BOOL] = "uint8_t",
    };
    return types[elem];
}

// Text of the user's within a comment of one line.
static void add_plain(Header *header, const char *text) {
    for (; *text; text++)
        text_addn(&header->text, isprint((unsigned char)*text) && *text != '\\' ? text : "?", 1);
}

static bool is_dynamic(const AttDim *dim) {
    return dim->extent < 0 && !dim->computed;
}

static bool has_dynamic(const AttModule *module) {
    bool any = false;
    for (int64_t i = 0; i < module->n_dims; i++)
        any |= is_dynamic(&module->dims[i]);
    return any;
}

// ---- the parts of the header ----

static void write_preamble(Header *header, const ProductOptions *options) {
    Text *text = &header->text;
    text_printf(text, "// %s, compiled by attc " ATTC_VERSION, header->entry);
    if (options->source) {
        text_add(text, " from ");
        add_plain(header, options->source);
    }
    text_add(text, ". A generated file.\n//\n");
    if (options->kind == PRODUCT_SHARED)
        text_add(text, "// Link with the shared library beside this file; it holds the runtime.\n");
    else if (options->kind == PRODUCT_STATIC)
        text_add(text, "// Link with the archive beside this file (it holds the runtime) and with "
                       "-lm -lpthread.\n");
    else
        text_add(text, "// Link with the object beside this file and with libattc_runtime.a -lm "
                       "-lpthread.\n");
    text_printf(text, "#ifndef ATTC_ENTRY_%s_H\n#define ATTC_ENTRY_%s_H\n\n", header->entry,
                header->entry);
}

static bool has_dim(const AttModule *module, const char *name) {
    for (int64_t i = 0; i < module->n_dims; i++)
        if (!module->dims[i].hidden && strcmp(module->dims[i].name, name) == 0)
            return true;
    return false;
}

static bool has_constant(const TablesList *list, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (has_dim(&list->at[i]->module, name))
            return true;
    return false;
}

// Those that no function before this one has.
static bool write_constants(Header *header, const TablesList *list, uint32_t function, bool any) {
    const AttModule *module = header->module;
    for (int64_t i = 0; i < module->n_dims; i++) {
        const AttDim *dim = &module->dims[i];
        if (dim->extent < 0 || dim->extent > INT32_MAX || dim->hidden ||
            has_constant(list, function, dim->name))
            continue;
        if (!any)
            text_add(&header->text, "// Extents that are fixed in the compiled code.\nenum {\n");
        any = true;
        text_printf(&header->text, "    %s_dim_%s = %lld,\n", header->entry, header->dims[i],
                    (long long)dim->extent);
    }
    return any;
}

static void end_constants(Header *header, bool any) {
    if (any) {
        header->text.length -= 2; // C++98 knows no comma at the end
        text_add(&header->text, "\n};\n\n");
    }
}

static void write_extents(Header *header) {
    const AttModule *module = header->module;
    if (has_dynamic(module))
        text_add(&header->text, "\n    // Extents, from 0 up.\n");
    for (int64_t i = 0; i < module->n_dims; i++) {
        if (!is_dynamic(&module->dims[i]))
            continue;
        text_printf(&header->text, "    int64_t %s;", header->dims[i]);
        if (module->dims[i].like != i)
            text_printf(&header->text, " // equal to %s", header->dims[module->dims[i].like]);
        text_add(&header->text, "\n");
    }
    for (int64_t i = 0; i < module->n_rules; i++)
        if (module->rules[i].kind == ATT_RULE_COMPUTES)
            text_printf(&header->text, "    // %s = %s\n", module->dims[module->rules[i].dim].name,
                        module->rules[i].formula.text);
}

static char *field_text(Header *header, int64_t index) {
    const AttTensor *tensor = &header->module->tensors[index];
    if (tensor->use == ATT_USE_FLAG)
        return arena_printf(header->arena, "int64_t %s;", header->tensors[index]);
    return arena_printf(header->arena, "%s%s *%s;", tensor->role == ATT_INPUT ? "const " : "",
                        elem_type(tensor->elem), header->tensors[index]);
}

static void write_field(Header *header, int64_t index, int width) {
    const AttModule *module = header->module;
    const AttTensor *tensor = &module->tensors[index];
    if (tensor->use == ATT_USE_FLAG) {
        text_printf(&header->text, "    %s\n", field_text(header, index));
        return;
    }
    text_printf(&header->text, "    %-*s // ", width, field_text(header, index));
    if (strcmp(header->tensors[index], tensor->name) != 0) {
        add_plain(header, tensor->name);
        text_add(&header->text, " ");
    }
    text_add(&header->text, "[");
    for (int64_t d = 0; d < tensor->rank; d++)
        text_printf(&header->text, "%s%s", d ? ", " : "", module->dims[tensor->dims[d]].name);
    text_add(&header->text, "]");
    if (tensor->elem == ATT_F16 || tensor->elem == ATT_BF16)
        text_printf(&header->text, ", %s as bits", elem_name((Elem)tensor->elem));
    if (tensor->elem == ATT_BOOL)
        text_add(&header->text, ", 0 or 1");
    if (tensor->use == ATT_USE_COTANGENT && tensor->rank == 0)
        text_add(&header->text, ", or NULL: 1");
    if (tensor->use == ATT_USE_SAVED)
        text_printf(&header->text, ", %s bytes", product_bytes(header->arena, module, tensor));
    text_add(&header->text, tensor->is_param ? ", trained\n" : "\n");
}

static const char *title_of(const Header *header, const AttTensor *tensor) {
    bool input = tensor->role == ATT_INPUT;
    switch (tensor->use) {
    case ATT_USE_COTANGENT:
        return "Cotangents: the gradients are those of the sum of results times cotangents.";
    case ATT_USE_GRADIENT:
        return "Gradients.";
    case ATT_USE_SAVED:
        return input ? arena_printf(header->arena, "What %s_forward saved.", header->entry)
                     : arena_printf(header->arena,
                                    "Saved for %s_backward; the caller keeps them until then.",
                                    header->entry);
    case ATT_USE_RESULT:
        return arena_printf(header->arena, "Results of %s_forward.", header->entry);
    case ATT_USE_FLAG:
        return "0: the gradient is written, whatever was there. Otherwise it is added to what is\n"
               "    // there, by the kernel that makes it: batches are summed without a second "
               "tensor.\n"
               "    // One number each, as those of parameters add up while those of data do not.";
    default:
        return input ? "Inputs." : "Results.";
    }
}

// From `index` on those of its kind; where the next kind begins.
static int64_t write_fields(Header *header, int64_t index) {
    const AttTensor *tensors = header->module->tensors, *first = &tensors[index];
    size_t width = 0;
    int64_t end = index;
    for (; end < header->module->n_tensors && tensors[end].role == first->role &&
           tensors[end].use == first->use;
         end++)
        if (strlen(field_text(header, end)) > width)
            width = strlen(field_text(header, end));
    text_printf(&header->text, "\n    // %s\n", title_of(header, first));
    for (; index < end; index++)
        write_field(header, index, (int)width);
    return end;
}

static void add_extents(Header *header, const char *before) {
    const char *between = "";
    for (int64_t i = 0; i < header->module->n_dims; i++) {
        if (!is_dynamic(&header->module->dims[i]))
            continue;
        text_printf(&header->text, "%s%s%s", between, before, header->dims[i]);
        between = ", ";
    }
}

static void write_struct(Header *header) {
    Text *text = &header->text;
    const AttModule *module = header->module;
    text_printf(text, "typedef struct %s_args {\n    uint64_t struct_size; // sizeof(%s_args)\n",
                header->symbol, header->symbol);
    write_extents(header);
    for (int64_t i = 0; i < module->n_tensors && module->tensors[i].role != ATT_WORK;)
        i = write_fields(header, i);
    text_printf(text, "\n    // Intermediates: %s_workspace(", header->symbol);
    add_extents(header, "");
    text_printf(text,
                ") bytes, 64-byte aligned, or NULL for\n"
                "    // memory that the context keeps until it is freed.\n"
                "    void *workspace;\n    int64_t workspace_bytes;\n} %s_args;\n\n",
                header->symbol);
}

static void write_workspace(Header *header) {
    text_printf(&header->text, "int64_t %s_workspace(", header->symbol);
    if (has_dynamic(header->module))
        add_extents(header, "int64_t ");
    else
        text_add(&header->text, "void");
    text_add(&header->text, ");\n\n");
}

static void write_entry(Header *header) {
    Text *text = &header->text;
    const char *symbol = header->symbol;
    text_add(text,
             "// Tensors are dense arrays in the order of their dims, the last one contiguous, "
             "aligned like\n// their elements (64 bytes is fastest). The caller owns all of "
             "them; results overlap neither\n// inputs nor each other.\n");
    write_struct(header);
    text_printf(
        text,
        "// Runs the entry once, on the threads of the context. The same input gives the "
        "same bits for\n// any number of threads. A context serves one call at a time; "
        "calls with different contexts\n// may run side by side. Only the context's own "
        "workspace is kept. Errors:\n"
        "//   ATT_ARGUMENT     a NULL context, tensor or args, a wrong struct_size, an extent "
        "below 0\n//                    or that does not fit the others (not divisible, too short "
        "for a slice),\n//                    results that overlap, a workspace that is too small "
        "or badly aligned\n"
        "//   ATT_MEMORY       no memory for the workspace\n"
        "//   ATT_UNSUPPORTED  the machine lacks the instructions of every level compiled\n"
        "//   ATT_BUSY         a call of another thread runs on the context; nothing was done\n"
        "// att_message(ctx) then says what was wrong; results are undefined.\n"
        "AttStatus %s(AttContext *ctx, const %s_args *args);\n\n",
        symbol, symbol);
    text_add(text,
             "// Bytes of workspace for these extents (from 0 up); -1 when that overflows.\n");
    write_workspace(header);
    text_printf(text,
                "// JSON: dims, tensors, kernels, versions. Constant memory.\n"
                "const char *%s_manifest(void);\n\n",
                symbol);
}

// What a function of the gradient is for, by the end of its name.
static const char *purpose_of(const Header *header) {
    const char *suffix = header->symbol + strlen(header->entry), *entry = header->entry;
    if (strcmp(suffix, "_forward") == 0)
        return arena_printf(header->arena,
                            "// The results, as %s computes them, and what\n"
                            "// %s_backward needs besides them and the inputs.\n",
                            entry, entry);
    if (strcmp(suffix, "_backward") == 0)
        return arena_printf(header->arena,
                            "// The gradients, after %s_forward: with the same inputs,\n"
                            "// the results and saved tensors that it wrote, and a cotangent for "
                            "each result of floats.\n// The rest is computed again.\n",
                            entry);
    return arena_printf(header->arena,
                        "// Both in one call: what %s_forward saves is in the workspace and gone "
                        "afterwards.\n",
                        entry);
}

static void write_gradient(Header *header) {
    Text *text = &header->text;
    const char *symbol = header->symbol;
    text_add(text, purpose_of(header));
    write_struct(header);
    text_printf(text,
                "// As %s, errors too.\nAttStatus %s(AttContext *ctx, const %s_args *args);\n",
                header->entry, symbol, symbol);
    write_workspace(header);
}

static void take_function(Header *header, const ModuleTables *tables) {
    header->module = &tables->module;
    header->symbol = tables->symbol;
    claim_names(header);
}

char *product_header(Arena *arena, const TablesList *list, const ProductOptions *options) {
    Header header = {.arena = arena, .entry = list->at[0]->symbol, .text = {.arena = arena}};
    write_preamble(&header, options);
    text_add(&header.text, runtime_header);
    text_add(&header.text, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    bool any = false;
    for (uint32_t i = 0; i < list->count; i++) {
        take_function(&header, list->at[i]);
        any = write_constants(&header, list, i, any);
    }
    end_constants(&header, any);
    for (uint32_t i = 0; i < list->count; i++) {
        take_function(&header, list->at[i]);
        if (i == 0)
            write_entry(&header);
        else
            write_gradient(&header);
    }
    text_add(&header.text, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return header.text.at;
}
