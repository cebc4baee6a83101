// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over files and over all files of directories: the corpora are replayed by
// every `make test`, with any compiler. Ends with status 1 if there was nothing to run.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_runs;

static void replay_file(const char *path) {
    FILE *in = fopen(path, "rb");
    if (!in) {
        perror(path);
        exit(1);
    }
    char *data = NULL;
    size_t length = 0;
    FILE *copy = open_memstream(&data, &length);
    for (int c; (c = getc(in)) != EOF;)
        putc(c, copy);
    fclose(copy);
    fclose(in);
    // Of the exact size, so that a sanitizer sees the first byte that is read too far.
    uint8_t *exact = malloc(length ? length : 1);
    memcpy(exact, data, length);
    LLVMFuzzerTestOneInput(exact, length);
    free(exact);
    free(data);
    n_runs++;
}

static void replay(const char *path) {
    DIR *directory = opendir(path);
    if (!directory) {
        replay_file(path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.')
            continue;
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        replay(inner);
    }
    closedir(directory);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%d inputs replayed\n", n_runs);
    return n_runs == 0;
}
