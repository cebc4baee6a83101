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
// Kernels are compiled before there is anything temporary; from then on signals wait until all of
// it is removed.
#include "product/product.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef VEC(const char *) Arguments;
struct Product {
    Arena *arena;
    TablesList list;      // of the functions
    const Target *target; // the first
    VEC(KernelObject) kernels;
    const ProductOptions *options;
    const char *directory; // temporary
    const char *result;    // what the tool writes; absolute
    const char *output;    // what it is renamed to; absolute. NULL: written in place
    const char *runtime;   // archive; absolute
    const char *train;     // likewise; NULL: it neither trains nor reads trained tensors
    const ProductTrainer *trainer;
    Arguments parts; // object files in the directory
    AttHeldSignals held;
    const char **why;
};

static bool fail(Product *product, const char *doing, const char *path) {
    *product->why = arena_printf(product->arena, "cannot %s %s: %s", doing, path, strerror(errno));
    return false;
}

// ---- files ----

static bool write_file(Product *product, const char *path, const char *bytes, size_t length) {
    FILE *file = fopen(path, "we");
    if (!file)
        return fail(product, "create", path);
    bool ok = fwrite(bytes, 1, length, file) == length;
    ok = fclose(file) == 0 && ok;
    return ok || fail(product, "write", path);
}

static char *read_file(Product *product, const char *path, size_t *length) {
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

static bool add_part(Product *product, const char *name, const Blob *object) {
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

static bool make_directory(Product *product) {
    const char *where = getenv("TMPDIR");
    char *path =
        arena_printf(product->arena, "%s/attc-XXXXXX", where && *where == '/' ? where : "/tmp");
    if (!mkdtemp(path))
        return fail(product, "create", path);
    product->directory = path;
    if (!product->output)
        product->result = arena_printf(product->arena, "%s/result", path);
    return true;
}

static const char *absolute_path(Product *product, const char *path) {
    char *found = realpath(path, NULL);
    if (!found) {
        fail(product, "find", path);
        return NULL;
    }
    const char *copy = arena_printf(product->arena, "%s", found);
    free(found);
    return copy;
}

static bool is_standard_output(const Product *product) {
    return strcmp(product->options->output, "-") == 0;
}

// What the output replaces: what a link points to, else a name in a folder that is there.
static const char *replaced_path(Product *product, bool exists) {
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

// That a file can be made beside the output shows before any work is done.
static bool try_result(Product *product) {
    att_signals_hold(&product->held);
    int file = open(product->result, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool ok = file >= 0 || fail(product, "write", product->options->output);
    if (ok) {
        close(file);
        unlink(product->result); // ar would add to it
    }
    att_signals_release(&product->held);
    return ok;
}

// The result is made in the output's directory, where rename can replace the output at one stroke;
// what is written in place is made among the parts.
static bool place_result(Product *product) {
    const char *output = product->options->output;
    struct stat old;
    bool exists = !is_standard_output(product) && stat(output, &old) == 0;
    if (is_standard_output(product) || (exists && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode)))
        return true;
    size_t length = strlen(output);
    if ((exists && S_ISDIR(old.st_mode)) || (length && output[length - 1] == '/')) {
        errno = EISDIR;
        return fail(product, "write", output);
    }
    product->output = replaced_path(product, exists);
    if (!product->output)
        return false;
    int folder = (int)(strrchr(product->output, '/') - product->output);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    product->result = arena_printf(product->arena, "%.*s/.attc-%lx-%ld", folder, product->output,
                                   (unsigned long)now.tv_nsec, (long)getpid());
    return try_result(product);
}

// ---- putting parts together ----

static void add_arguments(Product *product, Arguments *arguments, const char *const *more) {
    for (; *more; more++)
        vec_push(product->arena, arguments, *more);
}

static void add_parts(Product *product, Arguments *arguments) {
    for (uint32_t i = 0; i < product->parts.count; i++)
        vec_push(product->arena, arguments, product->parts.at[i]);
}

static bool run(Product *product, Arguments *arguments, const char *directory) {
    vec_push(product->arena, arguments, NULL);
    return tool_run(product->arena, arguments->at, directory, &product->held, product->why);
}

static bool make_object(Product *product) {
    Arguments link = {0};
    add_arguments(product, &link, (const char *[]){"ld", "-r", "-o", product->result, NULL});
    add_parts(product, &link);
    return run(product, &link, product->directory);
}

static bool make_program(Product *product) {
    Arguments link = {0};
    add_arguments(product, &link, (const char *[]){"cc", "-o", product->result, NULL});
    add_parts(product, &link);
    if (product->train)
        vec_push(product->arena, &link, product->train);
    add_arguments(product, &link,
                  (const char *[]){product->runtime, "-Wl,--gc-sections,--strip-debug", "-lm",
                                   "-lpthread", NULL});
    return run(product, &link, product->directory);
}

static bool make_shared(Product *product) {
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
static bool unpack_runtime(Product *product, Arguments *members) {
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

// Made among the parts: ar leaves a file of its own beside what it makes when a signal ends it.
static bool make_archive(Product *product) {
    Arguments members = {0}, pack = {0};
    const char *made = arena_printf(product->arena, "%s/archive.a", product->directory);
    if (!unpack_runtime(product, &members))
        return false;
    add_arguments(product, &pack, (const char *[]){"ar", "rcsD", made, NULL});
    add_parts(product, &pack);
    for (uint32_t i = 0; i < members.count; i++)
        vec_push(product->arena, &pack, members.at[i]);
    size_t length;
    const char *bytes =
        run(product, &pack, product->directory) ? read_file(product, made, &length) : NULL;
    return bytes && write_file(product, product->result, bytes, length);
}

static bool make_result(Product *product) {
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

static bool replace(Product *product, const char *from, const char *to) {
    if (rename(from, to) == 0)
        return true;
    fail(product, "write", to);
    unlink(from);
    return false;
}

static bool write_in_place(Product *product, const char *bytes, size_t length) {
    if (!is_standard_output(product))
        return write_file(product, product->options->output, bytes, length);
    bool ok = fwrite(bytes, 1, length, stdout) == length && fflush(stdout) == 0;
    return ok || fail(product, "write", "standard output");
}

// OUT.so -> OUT.h, and OUT.h -> OUT.h.h
static const char *header_path(Product *product) {
    const char *base = strrchr(product->output, '/') + 1, *dot = strrchr(base, '.');
    bool cut = dot && dot > base && strcmp(dot, ".h") != 0;
    size_t stem = cut ? (size_t)(dot - product->output) : strlen(product->output);
    return arena_printf(product->arena, "%.*s.h", (int)stem, product->output);
}

static bool publish_header(Product *product) {
    if (product->options->kind == PRODUCT_EXE)
        return true;
    const char *text = product_header(product->arena, &product->list, product->options);
    const char *temporary = arena_printf(product->arena, "%s.h", product->result);
    if (write_file(product, temporary, text, strlen(text)))
        return replace(product, temporary, header_path(product));
    unlink(temporary);
    return false;
}

// ---- the whole ----

static uint32_t levels_of(const ProductEntry *entry, const ProductFunction *function) {
    return function->n_levels ? function->n_levels : entry->n_targets;
}

static void make_tables(Product *product, const ProductEntry *entry) {
    Arena *arena = product->arena;
    product->list.at = arena_array(arena, ModuleTables *, entry->n_functions);
    for (uint32_t f = 0; f < entry->n_functions; f++) {
        const ProductFunction *function = &entry->functions[f];
        ModuleTables *tables =
            product_tables(arena, function, entry->targets, levels_of(entry, function));
        product_name_dims(arena, &tables->module);
        product->list.at[product->list.count++] = tables;
    }
    char *manifest = product_manifest(arena, &product->list, product->options->source);
    for (uint32_t f = 0; f < product->list.count; f++)
        product->list.at[f]->module.manifest = manifest;
}

// Programs with the target of each. Functions share parts.
typedef struct {
    VEC(TileProgram *) programs;
    VEC(const Target *) targets;
    uint32_t n_kernels;
} ProgramList;

static void add_program(Arena *arena, ProgramList *list, TileProgram *program,
                        const Target *target) {
    for (uint32_t i = 0; i < list->programs.count; i++)
        if (list->programs.at[i] == program)
            return;
    vec_push(arena, &list->programs, program);
    vec_push(arena, &list->targets, target);
    list->n_kernels += program->kernels.count;
}

static bool compile_kernels(Product *product, Session *session, const ProductEntry *entry,
                            const CacheOptions *cache) {
    ProgramList list = {0};
    for (uint32_t f = 0; f < entry->n_functions; f++) {
        const ProductFunction *function = &entry->functions[f];
        uint32_t of_level = product_level_programs(function);
        for (uint32_t i = 0; i < levels_of(entry, function) * of_level; i++)
            add_program(product->arena, &list, function->programs[i], entry->targets[i / of_level]);
    }
    KernelObject *kernels = arena_array(product->arena, KernelObject, list.n_kernels + 1);
    if (!emit_kernels(session, list.programs.at, list.targets.at, list.programs.count, cache,
                      kernels, product->why))
        return false;
    Map *known = map_new(product->arena); // what equal kernels of several programs are called
    for (uint32_t i = 0; i < list.n_kernels; i++) {
        uint64_t key = hash_text(0, kernels[i].symbol);
        if (!map_get(known, key))
            vec_push(product->arena, &product->kernels, kernels[i]);
        map_put(known, key, &kernels[i]);
    }
    return true;
}

Product *product_compile(Session *session, const ProductEntry *entry, const CacheOptions *cache,
                         const ProductOptions *options, const char **why) {
    Arena *arena = session->arena;
    Product *product = arena_new_of(arena, Product);
    *product = (Product){.arena = arena,
                         .options = options,
                         .target = entry->targets[0],
                         .why = why,
                         .trainer = entry->trainer};
    make_tables(product, entry);
    if (!place_result(product))
        return NULL;
    if (options->kind != PRODUCT_OBJECT) {
        product->runtime = absolute_path(product, options->runtime_archive);
        if (!product->runtime)
            return NULL;
    }
    bool trained = options->kind == PRODUCT_EXE && product_has_params(product->list.at[0]);
    if (trained && !(product->train = absolute_path(product, options->train_archive)))
        return NULL;
    return compile_kernels(product, session, entry, cache) ? product : NULL;
}

static bool write_parts(Product *product) {
    Arena *arena = product->arena;
    Blob descriptor;
    for (uint32_t i = 0; i < product->kernels.count; i++) {
        const KernelObject *kernel = &product->kernels.at[i];
        if (!add_part(product, arena_printf(arena, "%s.o", kernel->symbol), &kernel->object))
            return false;
    }
    return product_descriptor(arena, &product->list, product->target,
                              product->options->kind == PRODUCT_EXE, product->trainer, &descriptor,
                              product->why) &&
           add_part(product, arena_printf(arena, "entry_%s.o", product->list.at[0]->symbol),
                    &descriptor);
}

// Puts the parts together and the result in its place. *bytes: what is to be written in place.
static bool assemble(Product *product, Blob *bytes) {
    if (!write_parts(product))
        return false;
    if (!make_result(product)) {
        unlink(product->result);
        return false;
    }
    if (product->output)
        return replace(product, product->result, product->output) && publish_header(product);
    bytes->bytes = read_file(product, product->result, &bytes->length);
    return bytes->bytes != NULL;
}

bool product_write(Product *product, const char **why) {
    Blob bytes = {0};
    product->why = why;
    att_signals_hold(&product->held);
    bool ok = make_directory(product);
    if (ok) {
        ok = assemble(product, &bytes);
        remove_tree(product->arena, product->directory);
    }
    att_signals_release(&product->held);
    // Once nothing is left to remove: a pipe's reader may be gone, and that ends the process.
    return ok && (product->output || write_in_place(product, bytes.bytes, bytes.length));
}
