// SPDX-License-Identifier: Apache-2.0
// main() of a program made by `attc build --exe`: reads the inputs from .npy files, runs the entry,
// writes the outputs.

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "internal.h"
#include "signals.h"

enum { STATUS_FINE = 0, STATUS_DATA = 1, STATUS_USAGE = 2 };
enum {
    OPTION_HELP = 'h',
    OPTION_OUTPUT = 'o',
    OPTION_DIM = 'D',
    OPTION_SEED = 256,
    OPTION_THREADS,
    OPTION_TIME,
    OPTION_MANIFEST,
    OPTION_WEIGHTS
};

// What the command line says, and the tensors. Arrays are parallel to module->tensors or
// module->dims.
typedef struct {
    const AttModule *module;
    const char *name;       // of the program
    const char **paths;     // per tensor: where it is read or written; NULL: not given
    AttTensorData *tensors; // per tensor
    const AttTensorData **inputs;
    void **pointers;
    int64_t *known, *extents;   // per dim
    AttWeightsFn *take_weights; // NULL: there is no --weights
    const char *weights;        // a file; NULL: not given
    bool has_seed, has_threads, show_time, show_help, show_manifest;
    uint64_t seed;
    int threads;
    AttContext *ctx;
} Program;

__attribute__((format(printf, 3, 4))) static int fail(const Program *p, int status,
                                                      const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: error: ", p->name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return status;
}

// ---- help --------------------------------------------------------------------------------------
static void print_tensor(const AttModule *module, const AttTensor *tensor, FILE *out) {
    fprintf(out, "  %s[", tensor->name);
    for (int64_t i = 0; i < tensor->rank; i++) {
        const AttDim *dim = &module->dims[tensor->dims[i]];
        fprintf(out, "%s%s", i ? ", " : "", dim->name);
        if (dim->extent >= 0)
            fprintf(out, "=%lld", (long long)dim->extent);
    }
    fprintf(out, "]: %s\n", att_elem_name((AttElem)tensor->elem));
}

static void print_tensors(const AttModule *module, int64_t role, FILE *out) {
    for (int64_t i = 0; i < module->n_tensors; i++)
        if (module->tensors[i].role == role)
            print_tensor(module, &module->tensors[i], out);
}

static void print_help(const Program *p) {
    printf("Usage: %s [OPTION]... NAME=FILE.npy... -o [NAME=]FILE.npy...\n"
           "Computes %s.\n\nInputs:\n",
           p->name, p->module->entry);
    print_tensors(p->module, ATT_INPUT, stdout);
    printf("\nOutputs:\n");
    print_tensors(p->module, ATT_OUTPUT, stdout);
    printf("\nOptions:\n"
           "  -o NAME=FILE   write an output as .npy ('-' is standard output);\n"
           "                 without NAME= where there is one output\n"
           "  -D DIM=N,...   extents of dims that no given input tells\n"
           "  --seed S       draw the inputs that are not given: normal numbers, trained\n"
           "                 tensors and those of more than two dims scaled to keep\n"
           "                 magnitudes, integers 0 or 1\n"
           "%s"
           "  --threads T    threads to use; 0, the default: one per core\n"
           "  --time         print the seconds of the computation to standard error\n"
           "  --manifest     describe the entry as JSON and exit\n"
           "  -h, --help     this text\n\n"
           "Exit status: 0 fine, 1 errors in the data or a name that is not above, 2 wrong\n"
           "command line.\n",
           p->take_weights
               ? "  --weights FILE trained tensors that are not given, from a checkpoint\n"
               : "");
}

// ---- command line ------------------------------------------------------------------------------
static int64_t find_tensor(const AttModule *module, const char *name, size_t length, int64_t role) {
    for (int64_t i = 0; i < module->n_tensors; i++) {
        const AttTensor *tensor = &module->tensors[i];
        if (tensor->role == role && strlen(tensor->name) == length &&
            memcmp(tensor->name, name, length) == 0)
            return i;
    }
    return -1;
}

static int fail_unknown(const Program *p, const char *name, int length, int64_t role) {
    const char *what = role == ATT_INPUT ? "input" : "output";
    fail(p, STATUS_DATA, "there is no %s named %.*s; the %ss are:", what, length, name, what);
    print_tensors(p->module, role, stderr);
    return STATUS_DATA;
}

// The tensor that a path is for, a second one of its role with this file, if any, and what is wrong
// with both.
static int take_path(Program *p, int64_t i, const char *path) {
    const AttModule *module = p->module;
    bool is_input = module->tensors[i].role == ATT_INPUT;
    if (p->paths[i])
        return fail(p, STATUS_USAGE, "%s is given twice", module->tensors[i].name);
    for (int64_t k = 0; k < module->n_tensors; k++) {
        if (!p->paths[k] || module->tensors[k].role != module->tensors[i].role)
            continue;
        if (is_input && strcmp(path, "-") == 0 && strcmp(p->paths[k], "-") == 0)
            return fail(p, STATUS_USAGE, "%s and %s are both read from standard input",
                        module->tensors[k].name, module->tensors[i].name);
        if (!is_input && att_argument_same_file(path, p->paths[k]))
            return fail(p, STATUS_USAGE, "%s and %s are both written to %s",
                        module->tensors[k].name, module->tensors[i].name, path);
    }
    p->paths[i] = path;
    return STATUS_FINE;
}

static int take_input(Program *p, const char *text) {
    size_t length = att_argument_input(text);
    if (!length)
        return fail(p, STATUS_USAGE, "'%s': expected NAME=FILE.npy", text);
    int64_t i = find_tensor(p->module, text, length, ATT_INPUT);
    return i < 0 ? fail_unknown(p, text, (int)length, ATT_INPUT)
                 : take_path(p, i, text + length + 1);
}

// NAME=FILE, or FILE where there is one output.
static int take_output(Program *p, const char *text) {
    AttOutputArgument given = att_argument_output(text);
    int64_t outputs = 0, i = -1;
    for (int64_t k = 0; k < p->module->n_tensors; k++)
        if (p->module->tensors[k].role == ATT_OUTPUT && outputs++ == 0)
            i = k;
    if (!*given.path)
        return fail(p, STATUS_USAGE, "-o%s%s: expected the name of a file", *text ? " " : "", text);
    if (!given.name && outputs != 1)
        return fail(p, STATUS_DATA, "-o %s: %s has %lld results; say which, as in -o %s=%s", text,
                    p->module->entry, (long long)outputs, p->module->tensors[i].name, text);
    if (given.name)
        i = find_tensor(p->module, given.name, (size_t)given.name_length, ATT_OUTPUT);
    return i < 0 ? fail_unknown(p, given.name, given.name_length, ATT_OUTPUT)
                 : take_path(p, i, given.path);
}

static int take_dim(Program *p, const AttDimArgument *item) {
    if (item->problem)
        return fail(p, STATUS_USAGE, "-D %.*s: %s", item->length, item->text, item->problem);
    if (item->plain_length < item->name_length)
        return fail(p, STATUS_USAGE, "-D %.*s: %.*s has the extent of %.*s", item->length,
                    item->text, item->name_length, item->text, item->plain_length, item->text);
    for (int64_t d = 0; d < p->module->n_dims; d++) {
        const char *name = p->module->dims[d].name;
        if (strlen(name) != (size_t)item->name_length ||
            memcmp(name, item->text, (size_t)item->name_length) != 0)
            continue;
        if (p->known[d] != ATT_EXTENT_UNKNOWN)
            return fail(p, STATUS_USAGE, "-D %.*s: %s is given twice", item->length, item->text,
                        name);
        p->known[d] = item->extent;
        return STATUS_FINE;
    }
    fprintf(stderr, "%s: warning: -D %.*s changes nothing: no dim is named '%.*s'\n", p->name,
            item->length, item->text, item->name_length, item->text);
    return STATUS_FINE;
}

static int take_dims(Program *p, const char *text) {
    int status = STATUS_FINE;
    AttDimArgument item;
    while (!status && att_argument_dim(&text, &item))
        status = take_dim(p, &item);
    return status;
}

static int take_option(Program *p, int option, char **argv) {
    int64_t value;
    switch (option) {
    case OPTION_OUTPUT:
        return take_output(p, optarg);
    case OPTION_DIM:
        return take_dims(p, optarg);
    case OPTION_SEED:
        if (p->has_seed)
            return fail(p, STATUS_USAGE, "--seed is given twice");
        if (!att_argument_count(optarg, 0, INT64_MAX, &value))
            return fail(p, STATUS_USAGE, "--seed %s: expected a whole number from 0 to %lld",
                        optarg, (long long)INT64_MAX);
        p->has_seed = true;
        p->seed = (uint64_t)value;
        return STATUS_FINE;
    case OPTION_THREADS:
        if (p->has_threads)
            return fail(p, STATUS_USAGE, "--threads is given twice");
        if (!att_argument_count(optarg, 0, ATT_THREADS_MOST, &value))
            return fail(p, STATUS_USAGE, "--threads %s: expected a whole number from 0 to %d",
                        optarg, ATT_THREADS_MOST);
        p->has_threads = true;
        p->threads = (int)value;
        return STATUS_FINE;
    case OPTION_WEIGHTS:
        if (p->weights)
            return fail(p, STATUS_USAGE, "--weights is given twice");
        if (!p->take_weights)
            return fail(p, STATUS_USAGE, "unknown option '%s'; see --help", "--weights");
        p->weights = optarg;
        return STATUS_FINE;
    case OPTION_TIME:
        p->show_time = true;
        return STATUS_FINE;
    case OPTION_MANIFEST:
        p->show_manifest = true;
        return STATUS_FINE;
    case OPTION_HELP:
        p->show_help = true;
        return STATUS_FINE;
    case ':':
        return fail(p, STATUS_USAGE, "%s: expected a value", argv[optind - 1]);
    default:
        return fail(p, STATUS_USAGE, "unknown option '%s'; see --help", argv[optind - 1]);
    }
}

static int read_command_line(Program *p, int argc, char **argv) {
    static const struct option options[] = {{"output", required_argument, NULL, OPTION_OUTPUT},
                                            {"seed", required_argument, NULL, OPTION_SEED},
                                            {"threads", required_argument, NULL, OPTION_THREADS},
                                            {"time", no_argument, NULL, OPTION_TIME},
                                            {"manifest", no_argument, NULL, OPTION_MANIFEST},
                                            {"weights", required_argument, NULL, OPTION_WEIGHTS},
                                            {"help", no_argument, NULL, OPTION_HELP},
                                            {0}};
    int option, status = STATUS_FINE;
    opterr = 0;
    while (!status && (option = getopt_long(argc, argv, ":o:D:h", options, NULL)) != -1)
        status = take_option(p, option, argv);
    for (; optind < argc && !status; optind++)
        status = take_input(p, argv[optind]);
    return status;
}

// Does neither a file of its own nor the weights tell an input?
static bool is_missing(const Program *p, int64_t i) {
    const AttTensor *tensor = &p->module->tensors[i];
    return tensor->role == ATT_INPUT && !p->paths[i] && !(p->weights && tensor->is_param);
}

// Something to do, and nothing missing that the seed may not draw.
static int check_command_line(Program *p) {
    const AttModule *module = p->module;
    bool missing = false, writes = false;
    for (int64_t i = 0; i < module->n_tensors; i++) {
        missing |= is_missing(p, i);
        writes |= module->tensors[i].role == ATT_OUTPUT && p->paths[i];
    }
    if (missing && !p->has_seed) {
        fail(p, STATUS_USAGE, "inputs are missing (give NAME=FILE.npy, or --seed to draw them):");
        for (int64_t i = 0; i < module->n_tensors; i++)
            if (is_missing(p, i))
                print_tensor(module, &module->tensors[i], stderr);
        return STATUS_USAGE;
    }
    if (!writes && !p->show_time)
        return fail(p, STATUS_USAGE, "no output is asked for: give -o NAME=FILE.npy or --time");
    return STATUS_FINE;
}

// ---- the run -----------------------------------------------------------------------------------
static int report(const Program *p) {
    return fail(p, STATUS_DATA, "%s", att_message(p->ctx));
}

static int read_inputs(Program *p) {
    for (int64_t i = 0; i < p->module->n_tensors; i++) {
        const AttTensor *tensor = &p->module->tensors[i];
        if (tensor->role != ATT_INPUT || !p->paths[i])
            continue;
        if (att_npy_read(p->ctx, att_argument_input_path(p->paths[i]), (AttElem)tensor->elem,
                         &p->tensors[i]))
            return report(p);
        p->inputs[i] = &p->tensors[i];
    }
    if (p->weights && p->take_weights(p->ctx, p->module, p->weights, p->tensors))
        return report(p);
    for (int64_t i = 0; i < p->module->n_tensors && p->weights; i++)
        if (p->module->tensors[i].role == ATT_INPUT && p->module->tensors[i].is_param)
            p->inputs[i] = &p->tensors[i];
    if (att_module_extents(p->ctx, p->module, p->inputs, p->known, p->extents))
        return report(p);
    for (int64_t d = 0; d < p->module->n_dims; d++)
        if (p->extents[d] == ATT_EXTENT_UNKNOWN)
            return fail(p, STATUS_DATA,
                        "%s is not known: no given input has it; set it with -D %s=N",
                        p->module->dims[d].name, p->module->dims[d].name);
    return STATUS_FINE;
}

// Memory for outputs and drawn inputs.
static int make_tensors(Program *p) {
    int64_t shape[ATT_RANK_MAX];
    for (int64_t i = 0; i < p->module->n_tensors; i++) {
        const AttTensor *tensor = &p->module->tensors[i];
        if (tensor->role == ATT_WORK || p->inputs[i])
            continue;
        for (int64_t k = 0; k < tensor->rank && k < ATT_RANK_MAX; k++)
            shape[k] = p->extents[tensor->dims[k]];
        if (att_tensor_new(p->ctx, (AttElem)tensor->elem, (int)tensor->rank, shape, &p->tensors[i]))
            return report(p);
        int scaled = tensor->is_param || tensor->rank > 2;
        if (tensor->role == ATT_INPUT &&
            att_tensor_draw(p->ctx, &p->tensors[i], p->seed, tensor->name, scaled))
            return report(p);
    }
    return STATUS_FINE;
}

static int run(Program *p) {
    for (int64_t i = 0; i < p->module->n_tensors; i++)
        p->pointers[i] = p->tensors[i].data;
    double begin = att_seconds();
    AttRun run = {.extents = p->extents, .tensors = p->pointers};
    if (att_module_run(p->ctx, p->module, &run))
        return report(p);
    double seconds = att_seconds() - begin;
    for (int64_t i = 0; i < p->module->n_tensors; i++)
        if (p->module->tensors[i].role == ATT_OUTPUT && p->paths[i] &&
            att_npy_write(p->ctx, att_argument_output_path(p->paths[i]), &p->tensors[i]))
            return report(p);
    if (p->show_time)
        fprintf(stderr, "%s: %.6f seconds\n", p->name, seconds);
    return STATUS_FINE;
}

static int run_program(Program *p, int argc, char **argv) {
    int status = read_command_line(p, argc, argv);
    if (status)
        return status;
    if (p->show_help || p->show_manifest) {
        if (p->show_help)
            print_help(p);
        else
            puts(p->module->manifest ? p->module->manifest : "{}");
        return fflush(stdout) ? fail(p, STATUS_DATA, "%s", strerror(errno)) : STATUS_FINE;
    }
    status = check_command_line(p);
    if (status)
        return status;
    p->ctx = att_context_new(p->threads);
    if (!p->ctx)
        return fail(p, STATUS_DATA, "out of memory");
    status = read_inputs(p);
    if (!status)
        status = make_tensors(p);
    return status ? status : run(p);
}

int att_program_main(const AttModule *module, int argc, char **argv) {
    att_signals_let_writing_fail();
    return att_program_main_with(module, NULL, argc, argv);
}

int att_program_main_with(const AttModule *module, AttWeightsFn *take_weights, int argc,
                          char **argv) {
    size_t tensors = (size_t)module->n_tensors + 1, dims = (size_t)module->n_dims + 1;
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    Program p = {
        .module = module,
        .take_weights = take_weights,
        .name = slash      ? slash + 1
                : argc > 0 ? argv[0]
                           : module->entry,
        .paths = calloc(tensors, sizeof *p.paths),
        .tensors = calloc(tensors, sizeof *p.tensors),
        .inputs = calloc(tensors, sizeof *p.inputs),
        .pointers = calloc(tensors, sizeof *p.pointers),
        .known = calloc(dims, sizeof *p.known),
        .extents = calloc(dims, sizeof *p.extents),
    };
    int status = STATUS_DATA;
    for (int64_t d = 0; p.known && d < module->n_dims; d++)
        p.known[d] = ATT_EXTENT_UNKNOWN;
    if (p.paths && p.tensors && p.inputs && p.pointers && p.known && p.extents)
        status = run_program(&p, argc, argv);
    else
        fail(&p, STATUS_DATA, "out of memory");
    for (size_t i = 0; p.tensors && i < tensors; i++)
        att_tensor_free(&p.tensors[i]);
    att_context_free(p.ctx);
    free(p.paths);
    free(p.tensors);
    free(p.inputs);
    free(p.pointers);
    free(p.known);
    free(p.extents);
    return status;
}
