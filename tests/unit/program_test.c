// SPDX-License-Identifier: Apache-2.0
// Programs of a module: their command lines, files and inputs.
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "module_fixture.h"

typedef struct {
    char directory[32];
    char text[5000]; // what the last run printed, both streams
} Place;

// Runs the program in a process of its own, in the directory, and collects what it prints.
static int run_program(Place *place, const char *line) {
    char copy[1000], *argv[40] = {"/bin/scores"};
    int argc = 1, ends[2], status;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(chdir(place->directory) ? 99 : att_program_main(&module_scores, argc, argv));
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], place->text + length, sizeof place->text - 1 - length)) > 0)
        length += (size_t)got;
    place->text[length] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_run(Place *place, const char *line, int status, const char *text) {
    int got = run_program(place, line);
    if (got != status || !strstr(place->text, text))
        fail_msg("scores %s\n  gave %d, expected %d: %s\n  in: %s", line, got, status, text,
                 place->text);
}

static void write_input(AttContext *ctx, const Place *place, const char *name, AttElem elem,
                        int rank, int64_t a, int64_t b, void *data) {
    char path[100];
    AttTensorData tensor = {elem, rank, {a, b}, data};
    snprintf(path, sizeof path, "%s/%s", place->directory, name);
    assert_int_equal(att_npy_write(ctx, path, &tensor), ATT_OK);
}

static Place *make_place(AttContext *ctx, Case *c) {
    Place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    strcpy(place->directory, "/tmp/module_test_XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    write_input(ctx, place, "x.npy", ATT_F32, 2, c->n, D, c->x);
    write_input(ctx, place, "p.npy", ATT_F32, 2, D, c->h, c->p);
    write_input(ctx, place, "mask.npy", ATT_BOOL, 1, c->n, 0, c->mask);
    write_input(ctx, place, "short.npy", ATT_BOOL, 1, c->n - 1, 0, c->mask);
    write_input(ctx, place, "ints.npy", ATT_I32, 2, D, c->h, c->p);
    return place;
}

static void remove_place(Place *place) {
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", place->directory);
    assert_int_equal(system(command), 0);
    free(place);
}

static void read_output(AttContext *ctx, const Place *place, const char *name, int64_t count,
                        float *out) {
    char path[100];
    AttTensorData tensor;
    snprintf(path, sizeof path, "%s/%s", place->directory, name);
    assert_int_equal(att_npy_read(ctx, path, ATT_F32, &tensor), ATT_OK);
    memcpy(out, tensor.data, (size_t)count * sizeof *out);
    att_tensor_free(&tensor);
}

static void programs(void **state) {
    Case *c = module_case_new(7, 4);
    Place *place = make_place(*state, c);
    expect_run(place, "X=x.npy P=p.npy mask=mask.npy -o Y=y.npy -oT=t.npy --threads 2", 0, "");
    assert_string_equal(place->text, "");
    read_output(*state, place, "y.npy", 7, c->y);
    read_output(*state, place, "t.npy", 7 * 7 * 4, c->t);
    module_case_check(c);
    expect_run(place, "--time X=x.npy P=p.npy mask=mask.npy", 0, "scores: 0.0");
    expect_run(place, "-o Y=- X=x.npy P=p.npy mask=mask.npy", 0, "NUMPY");
    remove_place(place);
    free(c);
}

// The seed draws what is not given, the same for any number of threads.
static void drawn_inputs(void **state) {
    Case *c = module_case_new(7, 4);
    Place *place = make_place(*state, c);
    float a[12], b[12];
    expect_run(place, "--seed 5 -D n=12 -Dh=2 -o Y=a.npy --threads 1", 0, "");
    expect_run(place, "--seed=5 -D n=12 -Dh=2 -o Y=b.npy --threads 3", 0, "");
    read_output(*state, place, "a.npy", 12, a);
    read_output(*state, place, "b.npy", 12, b);
    assert_memory_equal(a, b, sizeof a);
    expect_run(place, "--seed 6 -D n=12 -Dh=2 -o Y=b.npy", 0, "");
    read_output(*state, place, "b.npy", 12, b);
    assert_memory_not_equal(a, b, sizeof a);
    expect_run(place, "--seed 5 X=x.npy -o Y=a.npy", 1, "h is not known: no given input has it");
    remove_place(place);
    free(c);
}

static void wrong_command_lines(void **state) {
    static const struct {
        const char *line, *text;
        int status;
    } table[] = {
        {"", "scores: error: inputs are missing", 2},
        {"X=x.npy P=p.npy -o Y=y.npy", "  mask[n]: bool\n", 2},
        {"X=x.npy P=p.npy mask=mask.npy", "no output is asked for", 2},
        {"X=x.npy Z=z.npy", "there is no input named Z; the inputs are:\n  X[n, d=3]: f32\n", 1},
        {"X=x.npy -o X=x.npy", "there is no output named X; the outputs are:\n  Y[n]: f32", 1},
        {"X=x.npy X=x.npy", "X is given twice", 2},
        {"-o Y=a -o Y=b", "Y is given twice", 2},
        {"x.npy", "'x.npy': expected NAME=FILE.npy", 2},
        {"X=", "'X=': expected NAME=FILE.npy", 2},
        {"=x.npy", "expected NAME=FILE.npy", 2},
        {"W=w.npy", "there is no input named W", 1},
        {"--sead 5", "unknown option '--sead'", 2},
        {"-q", "unknown option '-q'", 2},
        {"--seed", "--seed: expected a value", 2},
        {"-o", "-o: expected a value", 2},
        {"--seed x", "--seed x: expected a whole number", 2},
        {"--threads -1", "--threads -1: expected a whole number from 0 to 4096", 2},
        {"--threads 2x", "--threads 2x: expected a whole number", 2},
        {"-D n=-1", "-D n=-1: the extent must be a whole number from 0", 2},
        {"-D q=5", "-D q=5 changes nothing: no dim is named 'q'", 2},
        {"-D n=99999999999999999999", "the extent must be a whole number from 0", 2},
        {"-o y.npy", "Scores has 2 results; say which, as in -o Y=y.npy", 1},
        {"-o Y=y.npy -o T=./y.npy", "Y and T are both written to ./y.npy", 2},
        {"X=none.npy P=p.npy mask=mask.npy -o Y=y.npy",
         "scores: error: none.npy: No such file or directory", 1},
        {"X=x.npy P=x.npy mask=mask.npy -o Y=y.npy", "d is 7 in P but must be 3", 1},
        {"X=x.npy P=p.npy mask=short.npy -o Y=y.npy", "n is 6 in mask but 7 in X", 1},
        {"X=mask.npy P=p.npy mask=mask.npy -o Y=y.npy", "X must have 2 dims, [n, d], but has 1", 1},
        {"X=x.npy P=ints.npy mask=x.npy -o Y=y.npy", "holds float32 where bool is needed", 1},
        {"X=x.npy P=p.npy mask=mask.npy -D n=8 -o Y=y.npy", "n is 7 in X but must be 8", 1},
        {"X=x.npy P=p.npy mask=mask.npy -D d=4 -o Y=y.npy", "d is set to 4 but must be 3", 1},
        {"X=x.npy P=p.npy mask=mask.npy -o Y=/nowhere/y.npy", "/nowhere/y.npy: No such file", 1},
        {"--help", "  P[d=3, h]: f32\n", 0},
        {"-h X=", "expected NAME=FILE.npy", 2},
        {"--help --manifest", "Usage: scores [OPTION]...", 0},
        {"--manifest", "{\"entry\": \"Scores\"}\n", 0},
    };
    Case *c = module_case_new(7, 4);
    Place *place = make_place(*state, c);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        expect_run(place, table[i].line, table[i].status, table[i].text);
    assert_int_equal(access("y.npy", F_OK), -1);
    remove_place(place);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs),
        cmocka_unit_test(drawn_inputs),
        cmocka_unit_test(wrong_command_lines),
    };
    return cmocka_run_group_tests(tests, module_prepare, module_clean_up);
}
