// SPDX-License-Identifier: Apache-2.0
// From the tile programs of an entry to a file that others link or run.
//
//     object   ld -r of the kernels and the descriptor; the user links libattc_runtime.a
//     static   an archive of kernels, descriptor and runtime
//     shared   a library of kernels, descriptor and the whole runtime; it shows the entry and att_*
//     exe      kernels, descriptor with main(), and what it needs of the runtime
//
// Parts are written into a temporary directory and put together by cc, ld or ar there. The result
// appears beside the output under a temporary name and is renamed, so that an output is whole or
// absent. What cannot be renamed onto, a pipe or a device, is written in place, without a header.
#include "product/product.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef VEC(const char *) Arguments;
typedef struct {
    Arena *arena;
    const ProductOptions *options;
    const char *directory; // temporary
    const char *result;    // what the tool writes; absolute
    const char *output;    // what it is renamed to; absolute. NULL: written in place
    const char *runtime;   // archive; absolute
    Arguments parts;       // object files in the directory
    const char **why;
} ProductFiles;

static bool fail(ProductFiles *product, const char *doing, const char *path) {
    *product->why = arena_printf(product->arena, "cannot %s %s: %s", doing, path, strerror(errno));
    return false;
}

// ---- files ----

static bool write_file(ProductFiles *product, const char *path, const char *bytes, size_t length) {
    FILE *file = fopen(path, "we");
    if (!file)
        return fail(product, "create", path);
    bool ok = fwrite(bytes, 1, length, file) == length;
    ok = fclose(file) == 0 && ok;
    return ok || fail(product, "write", path);
}

static char *read_file(ProductFiles *product, const char *path, size_t *length) {
    FILE *file = fopen(path, "re");
    if (!file) {
        fail(product, "read", path);
        return NULL;
    }
    Text text = {.arena = product->arena};
    char piece[4096];
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;)
        text_addn(&text, piece, got);
    bool ok = !ferror(file);
    fclose(file);
    if (!ok)
        fail(product, "read", path);
    *length = text.length;
    return !ok ? NULL : text.at ? text.at : arena_printf(product->arena, "%s", "");
}

static bool add_part(ProductFiles *product, const char *name, const Blob *object) {
    const char *path = arena_printf(product->arena, "%s/%s", product->directory, name);
    vec_push(product->arena, &product->parts, name);
    return write_file(product, path, object->bytes, object->length);
}

static void remove_tree(Arena *arena, const char *path) {
    DIR *listing = opendir(path);
    for (struct dirent *item; listing && (item = readdir(listing));) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        const char *inner = arena_printf(arena, "%s/%s", path, item->d_name);
        if (unlink(inner) && errno == EISDIR)
            remove_tree(arena, inner);
    }
    if (listing)
        closedir(listing);
    rmdir(path);
}

// ---- places ----

static bool make_directory(ProductFiles *product) {
    const char *where = getenv("TMPDIR");
    char *path =
        arena_printf(product->arena, "%s/attc-XXXXXX", where && *where == '/' ? where : "/tmp");
    if (!mkdtemp(path))
        return fail(product, "create", path);
    product->directory = path;
    return true;
}

static const char *absolute_path(ProductFiles *product, const char *path) {
    char *found = realpath(path, NULL);
    if (!found) {
        fail(product, "find", path);
        return NULL;
    }
    const char *copy = arena_printf(product->arena, "%s", found);
    free(found);
    return copy;
}

static bool is_standard_output(const ProductFiles *product) {
    return strcmp(product->options->output, "-") == 0;
}

// What the output replaces: what a link points to, else a name in a folder that is there.
static const char *replaced_path(ProductFiles *product, bool exists) {
    const char *output = product->options->output;
    const char *slash = strrchr(output, '/'), *base = slash ? slash + 1 : output;
    char *parent = arena_strndup(product->arena, output, (size_t)(base - output));
    char *found = realpath(exists ? output : slash ? parent : ".", NULL);
    if (!found) {
        fail(product, "write", output);
        return NULL;
    }
    const char *path = exists ? arena_printf(product->arena, "%s", found)
                       : strcmp(found, "/") == 0
                           ? arena_printf(product->arena, "/%s", base)
                           : arena_printf(product->arena, "%s/%s", found, base);
    free(found);
    return path;
}

// The result is made in the output's directory, where rename can replace the output at one stroke.
// That something can be made there shows before any work is done.
static bool place_result(ProductFiles *product) {
    const char *output = product->options->output;
    struct stat old;
    bool exists = !is_standard_output(product) && stat(output, &old) == 0;
    if (is_standard_output(product) || (exists && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode))) {
        product->result = arena_printf(product->arena, "%s/result", product->directory);
        return true;
    }
    size_t length = strlen(output);
    if ((exists && S_ISDIR(old.st_mode)) || (length && output[length - 1] == '/')) {
        errno = EISDIR;
        return fail(product, "write", output);
    }
    product->output = replaced_path(product, exists);
    if (!product->output)
        return false;
    int folder = (int)(strrchr(product->output, '/') - product->output);
    const char *unique = strrchr(product->directory, '-') + 1;
    product->result = arena_printf(product->arena, "%.*s/.attc-%s-%ld", folder, product->output,
                                   unique, (long)getpid());
    int file = open(product->result, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return fail(product, "write", output);
    close(file);
    unlink(product->result); // ar would add to it
    return true;
}

// ---- putting parts together ----

static void add_arguments(ProductFiles *product, Arguments *arguments, const char *const *more) {
    for (; *more; more++)
        vec_push(product->arena, arguments, *more);
}

static void add_parts(ProductFiles *product, Arguments *arguments) {
    for (uint32_t i = 0; i < product->parts.count; i++)
        vec_push(product->arena, arguments, product->parts.at[i]);
}

static bool run(ProductFiles *product, Arguments *arguments, const char *directory) {
    vec_push(product->arena, arguments, NULL);
    return tool_run(product->arena, arguments->at, directory, product->why);
}

static bool make_object(ProductFiles *product) {
    Arguments link = {0};
    add_arguments(product, &link, (const char *[]){"ld", "-r", "-o", product->result, NULL});
    add_parts(product, &link);
    return run(product, &link, product->directory);
}

static bool make_program(ProductFiles *product) {
    Arguments link = {0};
    add_arguments(product, &link, (const char *[]){"cc", "-o", product->result, NULL});
    add_parts(product, &link);
    add_arguments(product, &link,
                  (const char *[]){product->runtime, "-Wl,--gc-sections,--strip-debug", "-lm",
                                   "-lpthread", NULL});
    return run(product, &link, product->directory);
}

static bool make_shared(ProductFiles *product) {
    Arguments link = {0};
    add_arguments(product, &link, (const char *[]){"cc", "-shared", "-o", product->result, NULL});
    if (product->output)
        add_arguments(product, &link,
                      (const char *[]){"-Xlinker", "-soname", "-Xlinker",
                                       strrchr(product->output, '/') + 1, NULL});
    add_parts(product, &link);
    add_arguments(product, &link,
                  (const char *[]){"-Wl,--whole-archive", product->runtime,
                                   "-Wl,--no-whole-archive,--strip-debug,-z,defs", "-lm",
                                   "-lpthread", NULL});
    return run(product, &link, product->directory);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The runtime's members, unpacked into a directory of their own, in the order of their names.
static bool unpack_runtime(ProductFiles *product, Arguments *members) {
    const char *inner = arena_printf(product->arena, "%s/runtime", product->directory);
    if (mkdir(inner, 0700))
        return fail(product, "create", inner);
    Arguments unpack = {0};
    add_arguments(product, &unpack, (const char *[]){"ar", "x", product->runtime, NULL});
    if (!run(product, &unpack, inner))
        return false;
    DIR *listing = opendir(inner);
    if (!listing)
        return fail(product, "read", inner);
    for (struct dirent *item; (item = readdir(listing));) {
        size_t length = strlen(item->d_name);
        if (length > 2 && strcmp(item->d_name + length - 2, ".o") == 0)
            vec_push(product->arena, members,
                     arena_printf(product->arena, "runtime/%s", item->d_name));
    }
    closedir(listing);
    qsort(members->at, members->count, sizeof *members->at, compare_names);
    return true;
}

static bool make_archive(ProductFiles *product) {
    Arguments members = {0}, pack = {0};
    if (!unpack_runtime(product, &members))
        return false;
    add_arguments(product, &pack, (const char *[]){"ar", "rcsD", product->result, NULL});
    add_parts(product, &pack);
    for (uint32_t i = 0; i < members.count; i++)
        vec_push(product->arena, &pack, members.at[i]);
    return run(product, &pack, product->directory);
}

static bool make_result(ProductFiles *product) {
    switch (product->options->kind) {
    case PRODUCT_OBJECT:
        return make_object(product);
    case PRODUCT_STATIC:
        return make_archive(product);
    case PRODUCT_SHARED:
        return make_shared(product);
    case PRODUCT_EXE:
        return make_program(product);
    }
    return false;
}

// ---- publishing ----

static bool replace(ProductFiles *product, const char *from, const char *to) {
    if (rename(from, to) == 0)
        return true;
    fail(product, "write", to);
    unlink(from);
    return false;
}

static bool write_in_place(ProductFiles *product, const char *bytes, size_t length) {
    if (!is_standard_output(product))
        return write_file(product, product->options->output, bytes, length);
    bool ok = fwrite(bytes, 1, length, stdout) == length && fflush(stdout) == 0;
    return ok || fail(product, "write", "standard output");
}

// OUT.so -> OUT.h, and OUT.h -> OUT.h.h
static const char *header_path(ProductFiles *product) {
    const char *base = strrchr(product->output, '/') + 1, *dot = strrchr(base, '.');
    bool cut = dot && dot > base && strcmp(dot, ".h") != 0;
    size_t stem = cut ? (size_t)(dot - product->output) : strlen(product->output);
    return arena_printf(product->arena, "%.*s.h", (int)stem, product->output);
}

static bool publish_header(ProductFiles *product, const ModuleTables *tables) {
    if (product->options->kind == PRODUCT_EXE)
        return true;
    const char *text = product_header(product->arena, tables, product->options);
    const char *temporary = arena_printf(product->arena, "%s.h", product->result);
    if (write_file(product, temporary, text, strlen(text)))
        return replace(product, temporary, header_path(product));
    unlink(temporary);
    return false;
}

// ---- the whole ----

static bool compile_parts(ProductFiles *product, Session *session, TileProgram *const *programs,
                          const Target *const *targets, uint32_t n, const CacheOptions *cache,
                          ModuleTables *tables) {
    Arena *arena = product->arena;
    for (uint32_t i = 0; i < n; i++) {
        KernelObject *objects = arena_array(arena, KernelObject, programs[i]->kernels.count);
        if (!emit_kernels(session, programs[i], targets[i], cache, objects, product->why))
            return false;
        for (uint32_t k = 0; k < programs[i]->kernels.count; k++)
            if (!add_part(product, arena_printf(arena, "%s.o", objects[k].symbol),
                          &objects[k].object))
                return false;
    }
    Blob descriptor;
    const char *name =
        arena_printf(arena, "entry_%s.o", product_entry_symbol(arena, tables->module.entry));
    tables->module.manifest = product_manifest(arena, tables, product->options->source);
    return product_descriptor(arena, tables, targets[0], product->options->kind == PRODUCT_EXE,
                              &descriptor, product->why) &&
           add_part(product, name, &descriptor);
}

bool product_write(Session *session, TileProgram *const *programs, const Target *const *targets,
                   uint32_t n, const CacheOptions *cache, const ProductOptions *options,
                   const char **why) {
    ProductFiles product = {.arena = session->arena, .options = options, .why = why};
    ModuleTables *tables = product_tables(session->arena, programs, targets, n);
    if (!make_directory(&product))
        return false;
    bool ok = place_result(&product);
    if (ok && options->kind != PRODUCT_OBJECT)
        ok = (product.runtime = absolute_path(&product, options->runtime_archive)) != NULL;
    ok = ok && compile_parts(&product, session, programs, targets, n, cache, tables);
    if (ok && !make_result(&product)) {
        unlink(product.result);
        ok = false;
    }
    char *bytes = NULL;
    size_t length = 0;
    if (ok && product.output)
        ok = replace(&product, product.result, product.output) && publish_header(&product, tables);
    else if (ok)
        ok = (bytes = read_file(&product, product.result, &length)) != NULL;
    // Before a pipe is written to: its reader may be gone, and that ends the process.
    remove_tree(session->arena, product.directory);
    return ok && (product.output || write_in_place(&product, bytes, length));
}
