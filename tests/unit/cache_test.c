// SPDX-License-Identifier: Apache-2.0
// The object cache: what is stored is read back, whatever is damaged is not, and many processes may
// share a directory.
#include "emit/emit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

typedef struct {
    Arena *arena;
    CacheOptions cache;
    char *directory;
} Fixture;

static int open_fixture(void **state) {
    Arena *arena = arena_new();
    Fixture *fixture = arena_new_of(arena, Fixture);
    fixture->arena = arena;
    fixture->directory = arena_printf(arena, "/tmp/attc-cache-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    fixture->cache.directory = arena_printf(arena, "%s/deep/er", fixture->directory);
    fixture->cache.enabled = true;
    *state = fixture;
    return 0;
}

static void remove_files(const char *path) {
    DIR *listing = opendir(path);
    for (struct dirent *item; listing && (item = readdir(listing));)
        if (item->d_name[0] != '.')
            unlinkat(dirfd(listing), item->d_name, 0);
    if (listing)
        closedir(listing);
    rmdir(path);
}

static int close_fixture(void **state) {
    Fixture *fixture = *state;
    remove_files(fixture->cache.directory);
    rmdir(arena_printf(fixture->arena, "%s/deep", fixture->directory));
    remove_files(fixture->directory);
    arena_free(fixture->arena);
    return 0;
}

static Blob make_object(Arena *arena, unsigned seed, size_t length) {
    Blob blob = {arena_alloc(arena, length), length};
    for (size_t i = 0; i < length; i++)
        blob.bytes[i] = (char)(seed * 31 + i * 7 + (i >> 8));
    return blob;
}

static void assert_same(const Blob *a, const Blob *b) {
    assert_int_equal(a->length, b->length);
    assert_memory_equal(a->bytes, b->bytes, a->length);
}

// The path of the only entry.
static char *only_entry(const Fixture *fixture) {
    DIR *listing = opendir(fixture->cache.directory);
    assert_non_null(listing);
    char *path = NULL;
    for (struct dirent *item; (item = readdir(listing));) {
        if (item->d_name[0] == '.')
            continue;
        assert_null(path);
        path = arena_printf(fixture->arena, "%s/%s", fixture->cache.directory, item->d_name);
    }
    closedir(listing);
    assert_non_null(path);
    return path;
}

static void count_files(const Fixture *fixture, int *entries, int *others, int64_t *bytes) {
    DIR *listing = opendir(fixture->cache.directory);
    assert_non_null(listing);
    *entries = *others = 0;
    *bytes = 0;
    for (struct dirent *item; (item = readdir(listing));) {
        struct stat about;
        if (item->d_name[0] == '.' || fstatat(dirfd(listing), item->d_name, &about, 0))
            continue;
        size_t length = strlen(item->d_name);
        if (length == 18 && strcmp(item->d_name + 16, ".o") == 0)
            ++*entries;
        else
            ++*others;
        *bytes += about.st_size;
    }
    closedir(listing);
}

static void what_is_stored_is_loaded(void **state) {
    Fixture *fixture = *state;
    Blob object = make_object(fixture->arena, 1, 5000), found;
    assert_false(cache_load(&fixture->cache, fixture->arena, "key a", &found));
    assert_true(cache_store(&fixture->cache, "key a", &object));
    assert_true(cache_load(&fixture->cache, fixture->arena, "key a", &found));
    assert_same(&object, &found);
    assert_false(cache_load(&fixture->cache, fixture->arena, "key b", &found));
    int entries, others;
    int64_t bytes;
    count_files(fixture, &entries, &others, &bytes);
    assert_int_equal(entries, 1);
    assert_int_equal(others, 0);
}

static void a_second_store_replaces_the_first(void **state) {
    Fixture *fixture = *state;
    Blob first = make_object(fixture->arena, 1, 400), second = make_object(fixture->arena, 2, 70),
         found;
    assert_true(cache_store(&fixture->cache, "k", &first));
    assert_true(cache_store(&fixture->cache, "k", &second));
    assert_true(cache_load(&fixture->cache, fixture->arena, "k", &found));
    assert_same(&second, &found);
}

static void no_directory_means_no_cache(void **state) {
    Fixture *fixture = *state;
    Blob object = make_object(fixture->arena, 1, 10), found;
    CacheOptions off = fixture->cache, none = {.enabled = true};
    off.enabled = false;
    // A regular file where a directory should be: not writable for anyone, root included.
    const char *file = arena_printf(fixture->arena, "%s/file", fixture->directory);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    CacheOptions blocked = {.directory = arena_printf(fixture->arena, "%s/cache", file),
                            .enabled = true};
    const CacheOptions *useless[] = {NULL, &off, &none, &blocked};
    for (size_t i = 0; i < 4; i++) {
        assert_false(cache_store(useless[i], "k", &object));
        assert_false(cache_load(useless[i], fixture->arena, "k", &found));
    }
}

// Every single damaged byte, every shorter length and bytes at the end are found.
static void damaged_entries_are_not_loaded(void **state) {
    Fixture *fixture = *state;
    Blob object = make_object(fixture->arena, 3, 90), found;
    assert_true(cache_store(&fixture->cache, "k", &object));
    const char *path = only_entry(fixture);
    char whole[1024];
    int file = open(path, O_RDWR);
    ssize_t length = read(file, whole, sizeof whole);
    assert_in_range(length, 100, 1000);
    for (ssize_t i = 0; i < length; i++) {
        char damaged = (char)(whole[i] ^ 0x10);
        assert_int_equal(pwrite(file, &damaged, 1, i), 1);
        assert_false(cache_load(&fixture->cache, fixture->arena, "k", &found));
        assert_int_equal(pwrite(file, &whole[i], 1, i), 1);
    }
    assert_true(cache_load(&fixture->cache, fixture->arena, "k", &found));
    for (ssize_t i = length - 1; i >= 0; i--) {
        assert_int_equal(ftruncate(file, i), 0);
        assert_false(cache_load(&fixture->cache, fixture->arena, "k", &found));
    }
    assert_int_equal(pwrite(file, whole, (size_t)length, 0), length);
    assert_int_equal(pwrite(file, "x", 1, length), 1);
    assert_false(cache_load(&fixture->cache, fixture->arena, "k", &found));
    close(file);
    assert_true(cache_store(&fixture->cache, "k", &object));
    assert_true(cache_load(&fixture->cache, fixture->arena, "k", &found));
    assert_same(&object, &found);
}

// Two keys with one hash are as good as a damaged entry: the key is kept and compared.
static void another_keys_entry_is_not_loaded(void **state) {
    Fixture *fixture = *state;
    Blob object = make_object(fixture->arena, 4, 64), found;
    assert_true(cache_store(&fixture->cache, "one", &object));
    char *one = only_entry(fixture);
    char *kept = arena_printf(fixture->arena, "%s/kept", fixture->directory);
    assert_int_equal(rename(one, kept), 0);
    assert_true(cache_store(&fixture->cache, "two", &object));
    assert_int_equal(rename(kept, only_entry(fixture)), 0);
    assert_false(cache_load(&fixture->cache, fixture->arena, "two", &found));
}

static void entries_of_other_users_are_not_loaded(void **state) {
    Fixture *fixture = *state;
    if (geteuid() != 0)
        skip();
    Blob object = make_object(fixture->arena, 4, 64), found;
    assert_true(cache_store(&fixture->cache, "k", &object));
    assert_int_equal(chown(only_entry(fixture), 12345, 12345), 0);
    assert_false(cache_load(&fixture->cache, fixture->arena, "k", &found));
}

static void odd_files_are_not_loaded(void **state) {
    Fixture *fixture = *state;
    Blob object = make_object(fixture->arena, 4, 64), found;
    assert_true(cache_store(&fixture->cache, "k", &object));
    char *path = only_entry(fixture);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); // opening it to read would wait for ever
    assert_false(cache_load(&fixture->cache, fixture->arena, "k", &found));
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(cache_load(&fixture->cache, fixture->arena, "k", &found));
    assert_false(cache_store(&fixture->cache, "k", &object));
    rmdir(path);
    int entries, others;
    int64_t bytes;
    count_files(fixture, &entries, &others, &bytes);
    assert_int_equal(others, 0); // the temporary file of the failed store is gone
}

// Objects differ in length by key and by writer, so a mixture of two writers would be noticed.
static int hammer(const CacheOptions *cache, unsigned process) {
    enum { ROUNDS = 300, KEYS = 7 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        Arena *arena = arena_new();
        unsigned which = (round * 5 + process) % KEYS;
        char key[16];
        snprintf(key, sizeof key, "key %u", which);
        Blob object = make_object(arena, which, 3000 + 512 * which), found;
        if (cache_load(cache, arena, key, &found) &&
            (found.length != object.length || memcmp(found.bytes, object.bytes, found.length) != 0))
            return 1;
        if (round % 3 == 0 && !cache_store(cache, key, &object))
            return 2;
        arena_free(arena);
    }
    return 0;
}

static void many_processes_share_a_directory(void **state) {
    Fixture *fixture = *state;
    enum { PROCESSES = 12 };
    pid_t children[PROCESSES];
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(hammer(&fixture->cache, i));
        assert_true(children[i] > 0);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    int entries, others;
    int64_t bytes;
    count_files(fixture, &entries, &others, &bytes);
    assert_int_equal(entries, 7);
    assert_int_equal(others, 0);
}

static void the_longest_unused_entries_make_room(void **state) {
    Fixture *fixture = *state;
    enum { ENTRIES = 800, LENGTH = 1000, ROOM = 100 * 1000 };
    fixture->cache.room = ROOM;
    Blob object = make_object(fixture->arena, 1, LENGTH), found;
    assert_true(cache_store(&fixture->cache, "favourite", &object));
    for (int i = 0; i < ENTRIES; i++) {
        char key[16];
        snprintf(key, sizeof key, "key %d", i);
        assert_true(cache_store(&fixture->cache, key, &object));
        assert_true(cache_load(&fixture->cache, fixture->arena, "favourite", &found));
    }
    int entries, others;
    int64_t bytes;
    count_files(fixture, &entries, &others, &bytes);
    assert_in_range(entries, 20, 700); // a sweep comes at every 32nd entry on average
    assert_true(cache_load(&fixture->cache, fixture->arena, "key 799", &found));
    assert_false(cache_load(&fixture->cache, fixture->arena, "key 0", &found));
}

static void the_directory_comes_from_the_environment(void **state) {
    Fixture *fixture = *state;
    setenv("HOME", "/home/h", 1);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    setenv("ATTC_CACHE", "/own", 1);
    assert_string_equal(cache_default(fixture->arena).directory, "/own");
    unsetenv("ATTC_CACHE");
    assert_string_equal(cache_default(fixture->arena).directory, "/xdg/attc");
    setenv("XDG_CACHE_HOME", "relative", 1); // to be ignored, says the XDG specification
    assert_string_equal(cache_default(fixture->arena).directory, "/home/h/.cache/attc");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_false(cache_default(fixture->arena).enabled);
}

static void a_text_is_whole_or_absent(void **state) {
    Fixture *fixture = *state;
    CacheOptions *cache = &fixture->cache;
    assert_null(cache_read_text(cache, fixture->arena, "facts.json"));
    assert_true(cache_write_text(cache, "facts.json", "{\"one\": 1}"));
    assert_string_equal(cache_read_text(cache, fixture->arena, "facts.json"), "{\"one\": 1}");
    assert_true(cache_write_text(cache, "facts.json", "2"));
    assert_string_equal(cache_read_text(cache, fixture->arena, "facts.json"), "2");
    assert_null(cache_read_text(cache, fixture->arena, "others.json"));
    int entries, others;
    int64_t bytes;
    count_files(fixture, &entries, &others, &bytes);
    assert_int_equal(entries, 0);
    assert_int_equal(others, 1); // and nothing temporary
    CacheOptions off = *cache;
    off.enabled = false;
    assert_false(cache_write_text(&off, "facts.json", "3"));
    assert_null(cache_read_text(&off, fixture->arena, "facts.json"));
}

#define cache_test(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void) {
    const struct CMUnitTest tests[] = {
        cache_test(what_is_stored_is_loaded),
        cache_test(a_text_is_whole_or_absent),
        cache_test(a_second_store_replaces_the_first),
        cache_test(no_directory_means_no_cache),
        cache_test(damaged_entries_are_not_loaded),
        cache_test(another_keys_entry_is_not_loaded),
        cache_test(entries_of_other_users_are_not_loaded),
        cache_test(odd_files_are_not_loaded),
        cache_test(many_processes_share_a_directory),
        cache_test(the_longest_unused_entries_make_room),
        cache_test(the_directory_comes_from_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
