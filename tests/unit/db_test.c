// SPDX-License-Identifier: Apache-2.0
// The database of schedules and its text: what was put is found and nothing else, merging keeps the
// faster, what is damaged is as good as not there.
#include "tune/tune.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

typedef struct {
    Arena *arena;
    char *folder, *path;
    TuneDb *db;
    const char *why;
} Fixture;

static int open_fixture(void **state) {
    Arena *arena = arena_new();
    Fixture *f = arena_new_of(arena, Fixture);
    f->arena = arena;
    f->folder = arena_printf(arena, "/tmp/attc-db-test-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->path = arena_printf(arena, "%s/schedules.db", f->folder);
    f->db = tune_db_open(arena, f->path, TUNE_DB_WRITE, &f->why);
    assert_non_null(f->db);
    assert_null(f->why);
    *state = f;
    return 0;
}

static int close_fixture(void **state) {
    Fixture *f = *state;
    tune_db_close(f->db);
    unlink(f->path);
    assert_int_equal(rmdir(f->folder), 0); // no journal is left
    arena_free(f->arena);
    return 0;
}

static const char tasks_4[] = "{\"kind\": \"tasks\", \"tasks\": 4, \"step_points\": 0, \"rows\": "
                              "0, \"prefetch\": \"rule\", \"blocks\": []}";

static TuneEntry an_entry(void) {
    return (TuneEntry){.key = {.group = "00112233445566ff",
                               .extents = "512 ~64",
                               .target = "x86-64-v4",
                               .machine = "Some \"CPU\" \xc3\xa9",
                               .threads = 2},
                       .name = "Y",
                       .schedule = tasks_4,
                       .seconds = 0.1 + 0.2, // not a short decimal
                       .default_seconds = 0.75,
                       .confidence = 1,
                       .date = "2026-11-24T19:00:00Z"};
}

static bool put_one(TuneDb *db, TuneEntry entry, const char **why) {
    return tune_db_put_all(db, &(TuneEntries){.at = &entry, .count = 1}, why);
}

static void put(Fixture *f, const TuneEntry *entry) {
    assert_true(put_one(f->db, *entry, &f->why));
}

// NULL: there is none.
static const TuneEntry *find(Fixture *f, const TuneKey *key) {
    TuneEntry *out = arena_new_of(f->arena, TuneEntry);
    bool found;
    assert_true(tune_db_find(f->db, f->arena, key, out, &found, &f->why));
    return found ? out : NULL;
}

static void assert_same(const TuneEntry *a, const TuneEntry *b) {
    assert_non_null(a);
    assert_int_equal(tune_key_compare(&a->key, &b->key), 0);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->schedule, b->schedule);
    assert_memory_equal(&a->seconds, &b->seconds, sizeof a->seconds);
    assert_memory_equal(&a->default_seconds, &b->default_seconds, sizeof a->seconds);
    assert_memory_equal(&a->confidence, &b->confidence, sizeof a->seconds);
    assert_string_equal(a->date, b->date);
}

static TuneEntries list(Fixture *f, TuneLeftOut *left_out) {
    TuneEntries entries;
    assert_true(tune_db_list(f->db, f->arena, &entries, left_out, &f->why));
    return entries;
}

// As another program would, past what the database looks after.
static void change(Fixture *f, const char *sql) {
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(f->path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_true(sqlite3_changes(handle) == 1);
    sqlite3_close(handle);
}

// ---- put and find -------------------------------------------------------------------------------

static void test_an_entry_is_found_by_all_of_its_key(void **state) {
    Fixture *f = *state;
    TuneEntry entry = an_entry();
    put(f, &entry);
    assert_same(find(f, &entry.key), &entry);
    TuneKey others[] = {entry.key, entry.key, entry.key, entry.key, entry.key};
    others[0].group = "00112233445566fe";
    others[1].extents = "512 64";
    others[2].target = "x86-64-v3";
    others[3].machine = "Some";
    others[4].threads = 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_null(find(f, &others[i]));
        assert_null(f->why);
    }
}

static void test_an_entry_takes_the_place_of_that_of_its_key(void **state) {
    Fixture *f = *state;
    TuneEntry entry = an_entry(), other = an_entry();
    other.seconds = 0.5;
    other.name = "Z";
    put(f, &entry);
    put(f, &other);
    assert_same(find(f, &entry.key), &other);
    assert_int_equal(list(f, NULL).count, 1);
    assert_true(tune_db_remove(f->db, &entry.key, "{\"kind\": \"rows\"}", &f->why));
    assert_same(find(f, &entry.key), &other); // which somebody else put
    assert_true(tune_db_remove(f->db, &entry.key, other.schedule, &f->why));
    assert_null(find(f, &entry.key));
}

static void test_an_entry_with_a_problem_is_not_put(void **state) {
    Fixture *f = *state;
    TuneEntry bad[14];
    enum { N = sizeof bad / sizeof *bad };
    for (size_t i = 0; i < N; i++)
        bad[i] = an_entry();
    bad[0].key.group = "00112233445566fg";
    bad[1].key.extents = "512  64";
    bad[2].key.extents = "512 ";
    bad[3].key.target = "";
    bad[4].key.machine = "two\nlines";
    bad[5].key.threads = 0;
    bad[6].name = "\xff";
    bad[7].schedule = "{\"kind\": \"tasks\", \"tasks\": 0, \"step_points\": 0, \"rows\": 0, "
                      "\"prefetch\": \"rule\", \"blocks\": []}";
    bad[8].seconds = NAN;
    bad[9].seconds = 0;
    bad[10].default_seconds = INFINITY;
    bad[11].confidence = 1.5;
    bad[12].confidence = NAN;
    bad[13].date = "24.11.2026";
    for (size_t i = 0; i < N; i++) {
        assert_non_null(tune_entry_problem(f->arena, &bad[i]));
        assert_false(put_one(f->db, bad[i], &f->why));
        assert_non_null(f->why);
    }
    // Of several, one of which has a problem, none is.
    TuneEntry both[] = {an_entry(), bad[0]};
    assert_false(tune_db_put_all(f->db, &(TuneEntries){.at = both, .count = 2}, &f->why));
    assert_int_equal(list(f, NULL).count, 0);
    both[0].key.extents = "";
    put(f, &both[0]);
}

static void test_merging_keeps_the_faster(void **state) {
    Fixture *f = *state;
    TuneEntry here = an_entry(), entries[3] = {an_entry(), an_entry(), an_entry()};
    put(f, &here);
    entries[0].seconds = 2 * here.seconds;
    entries[0].name = "slower";
    entries[1].name = "equal";
    entries[2].key.threads = 1;
    uint32_t kept;
    assert_true(tune_db_merge(f->db, &(TuneEntries){.at = entries, .count = 3}, &kept, &f->why));
    assert_int_equal(kept, 1);
    assert_same(find(f, &here.key), &here);
    assert_same(find(f, &entries[2].key), &entries[2]);
    entries[0].seconds = here.seconds / 2;
    assert_true(tune_db_merge(f->db, &(TuneEntries){.at = entries, .count = 1}, &kept, &f->why));
    assert_int_equal(kept, 1);
    assert_same(find(f, &here.key), &entries[0]);
}

static void test_merging_replaces_what_is_damaged(void **state) {
    Fixture *f = *state;
    TuneEntry entry = an_entry(), slower = an_entry();
    slower.seconds = 0.7;
    put(f, &entry);
    change(f, "UPDATE schedules SET seconds = 0.001");
    uint32_t kept;
    assert_true(tune_db_merge(f->db, &(TuneEntries){.at = &slower, .count = 1}, &kept, &f->why));
    assert_int_equal(kept, 1);
    assert_same(find(f, &entry.key), &slower);
}

// ---- what is damaged ----------------------------------------------------------------------------

static const struct {
    const char *sql, *wrong; // wrong: NULL where the entry is another one's
} changes[] = {
    {"UPDATE schedules SET seconds = 0.001", "checksum"},
    {"UPDATE schedules SET checksum = checksum + 1", "checksum"},
    {"UPDATE schedules SET name = 'X'", "checksum"},
    {"UPDATE schedules SET date = '2027-11-24T19:00:00Z'", "checksum"},
    {"UPDATE schedules SET schedule = replace(schedule, '4', '5')", "checksum"},
    {"UPDATE schedules SET confidence = 'sure'", "type"},
    {"UPDATE schedules SET name = x'59'", "type"},
    {"UPDATE schedules SET schedule = schedule || char(0) || 'more'", "type"},
    {"UPDATE schedules SET threads = 1", NULL},
    {"UPDATE schedules SET version = version + 1", NULL},
};

static void test_a_changed_row_is_not_found(void **state) {
    Fixture *f = *state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        TuneEntry entry = an_entry();
        put(f, &entry);
        assert_null(tune_db_check(f->db, f->arena));
        change(f, changes[i].sql);
        assert_null(find(f, &entry.key));
        assert_true(!changes[i].wrong == !f->why);
        assert_true(!changes[i].wrong || strstr(f->why, changes[i].wrong));
        assert_non_null(strstr(tune_db_check(f->db, f->arena), "damaged entry"));
        assert_int_equal(list(f, NULL).count, 0);
        change(f, "DELETE FROM schedules");
    }
}

static void test_prune_says_why_each_goes(void **state) {
    Fixture *f = *state;
    TuneEntry entry = an_entry();
    for (int threads = 1; threads <= 6; threads++) {
        entry.key.threads = threads;
        entry.default_seconds = threads == 3 ? 1.005 * entry.seconds : 0.75;
        if (threads == 6) // as little as attc tune keeps
            entry.seconds = ATT_WORTH * entry.default_seconds;
        entry.date = threads == 4 ? "2026-10-24T19:00:00Z" : "2026-11-24T19:00:00Z";
        put(f, &entry);
    }
    change(f, "UPDATE schedules SET version = version + 1 WHERE threads = 1");
    change(f, "UPDATE schedules SET name = 'X' WHERE threads = 2");
    TuneLeftOut left_out;
    assert_int_equal(list(f, &left_out).count, 4);
    assert_int_equal(left_out.other_versions, 1);
    assert_int_equal(left_out.damaged, 1);
    TunePruned pruned;
    const char *oldest = "2026-11-01T00:00:00Z";
    assert_true(tune_db_prune(f->db, oldest, &pruned, &f->why));
    assert_memory_equal(&pruned, &((TunePruned){{1, 1}, 1, 1, 2, {0, 0}, {0, 0}}), sizeof pruned);
    TuneEntries left = list(f, &left_out);
    assert_int_equal(left.count, 2);
    assert_int_equal(left.at[0].key.threads + left.at[1].key.threads, 5 + 6);
    assert_int_equal(left_out.other_versions + left_out.damaged, 0);
    assert_null(tune_db_check(f->db, f->arena));
}

// ---- opening ------------------------------------------------------------------------------------

static void test_reading_makes_nothing(void **state) {
    Fixture *f = *state;
    const char *why, *path = arena_printf(f->arena, "%s/none/none.db", f->folder);
    assert_null(tune_db_open(f->arena, path, TUNE_DB_READ, &why));
    assert_null(why);
    assert_int_equal(access(path, F_OK), -1);
    path = arena_printf(f->arena, "%s/empty.db", f->folder);
    fclose(fopen(path, "w"));
    assert_null(tune_db_open(f->arena, path, TUNE_DB_READ, &why));
    assert_null(why);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_size, 0);
    unlink(path);
}

static void test_a_reader_cannot_write(void **state) {
    Fixture *f = *state;
    TuneEntry entry = an_entry();
    const char *why;
    TuneDb *reader = tune_db_open(f->arena, f->path, TUNE_DB_READ, &why);
    assert_non_null(reader);
    assert_false(put_one(reader, entry, &why));
    assert_non_null(strstr(why, "can only be read"));
    tune_db_close(reader);
}

// Two that are open see what the other one puts.
static void test_two_at_once(void **state) {
    Fixture *f = *state, reader = *f;
    TuneEntry entry = an_entry();
    reader.db = tune_db_open(f->arena, f->path, TUNE_DB_READ, &f->why);
    for (int threads = 1; threads < 5; threads++) {
        entry.key.threads = threads;
        assert_null(find(&reader, &entry.key));
        put(f, &entry);
        assert_same(find(&reader, &entry.key), &entry);
    }
    tune_db_close(reader.db);
}

static void test_other_files_are_told_apart(void **state) {
    Fixture *f = *state;
    static const struct {
        const char *sql, *why;
    } cases[] = {
        {"PRAGMA application_id = 7", "none of schedules"},
        {"PRAGMA application_id = 0x61747463; PRAGMA user_version = 9", "in form 9"},
        {"PRAGMA user_version = 2; CREATE VIEW v AS SELECT 1", "more in it than tables"},
        {"DROP VIEW v; ALTER TABLE rates RENAME TO others", "its table of rates"},
        {"ALTER TABLE schedules RENAME TO more", "its table of schedules"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sqlite3 *handle;
        sqlite3_open(f->path, &handle);
        assert_int_equal(sqlite3_exec(handle, cases[i].sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(handle);
        for (TuneDbMode mode = TUNE_DB_READ; mode <= TUNE_DB_WRITE; mode++) {
            assert_null(tune_db_open(f->arena, f->path, mode, &f->why));
            assert_non_null(strstr(f->why, cases[i].why));
        }
    }
}

// A writer that dies in the middle of a change leaves its journal; a reader mends that.
static void test_a_reader_rolls_back_what_a_killed_writer_left(void **state) {
    Fixture *f = *state;
    TuneEntry entry = an_entry();
    put(f, &entry);
    pid_t child = fork();
    if (!child) {
        sqlite3 *handle;
        sqlite3_open(f->path, &handle);
        sqlite3_exec(handle,
                     "PRAGMA cache_size = 1; BEGIN; UPDATE schedules SET name = 'X';"
                     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) "
                     "INSERT INTO schedules SELECT NULL, version, group_id, extents, target, "
                     "machine, i + 2, name, schedule, seconds, default_seconds, confidence, date, "
                     "checksum FROM schedules, n",
                     NULL, NULL, NULL);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    const char *why, *journal = arena_printf(f->arena, "%s-journal", f->path);
    assert_int_equal(access(journal, F_OK), 0);
    TuneDb *writer = f->db;
    f->db = tune_db_open(f->arena, f->path, TUNE_DB_READ, &why);
    assert_non_null(f->db);
    assert_same(find(f, &entry.key), &entry);
    assert_null(tune_db_check(f->db, f->arena));
    assert_int_equal(access(journal, F_OK), -1);
    tune_db_close(f->db);
    f->db = writer;
}

// ---- text ---------------------------------------------------------------------------------------

static bool from_text(Fixture *f, const char *text, TuneEntries *out, uint32_t *line) {
    *out = (TuneEntries){0};
    return tune_entries_from_text(f->arena, text, strlen(text), out, line, &f->why);
}

static void test_a_text_is_the_entries_in_order(void **state) {
    Fixture *f = *state;
    TuneEntry entries[3] = {an_entry(), an_entry(), an_entry()};
    entries[0].key.group = "f000000000000000";
    entries[2].key.threads = 1;
    const char *text = tune_entries_to_text(f->arena, &(TuneEntries){.at = entries, .count = 3});
    static const int order[] = {2, 1, 0};
    TuneEntries again;
    uint32_t line;
    assert_true(from_text(f, text, &again, &line));
    assert_int_equal(again.count, 3);
    for (int i = 0; i < 3; i++)
        assert_same(&again.at[i], &entries[order[i]]);
    assert_string_equal(tune_entries_to_text(f->arena, &again), text);
}

static void test_of_two_lines_of_one_key_the_later_is_a_mistake(void **state) {
    Fixture *f = *state;
    TuneEntry entries[3] = {an_entry(), an_entry(), an_entry()};
    entries[1].key.threads = 7;
    const char *text = tune_entries_to_text(f->arena, &(TuneEntries){.at = entries, .count = 3});
    TuneEntries again;
    uint32_t line;
    assert_false(from_text(f, text, &again, &line));
    assert_int_equal(line, 3);
    assert_non_null(strstr(f->why, "the entry of line 2"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(test_an_entry_is_found_by_all_of_its_key),
        TEST(test_an_entry_takes_the_place_of_that_of_its_key),
        TEST(test_an_entry_with_a_problem_is_not_put),
        TEST(test_merging_keeps_the_faster),
        TEST(test_merging_replaces_what_is_damaged),
        TEST(test_a_changed_row_is_not_found),
        TEST(test_prune_says_why_each_goes),
        TEST(test_reading_makes_nothing),
        TEST(test_a_reader_cannot_write),
        TEST(test_two_at_once),
        TEST(test_other_files_are_told_apart),
        TEST(test_a_reader_rolls_back_what_a_killed_writer_left),
        TEST(test_a_text_is_the_entries_in_order),
        TEST(test_of_two_lines_of_one_key_the_later_is_a_mistake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
