// SPDX-License-Identifier: Apache-2.0
// attc db: looking at the database of schedules, taking it elsewhere and keeping it in order.
#include "driver/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "arguments.h"

enum { SECONDS_OF_DAY = 86400 };

// ---- reading ------------------------------------------------------------------------------------

// Tells of what is in a file and is of no use here.
static void tell_left_out(Options *options, const char *path, const TuneLeftOut *left_out) {
    Diags *diags = options->session->diags;
    if (left_out->damaged)
        diag_hint(
            diag_remark(diags, (Span){0}, "damaged entries in %s: %u", path, left_out->damaged),
            "attc db check tells what is wrong, attc db prune removes them");
    if (left_out->other_versions)
        diag_remark(diags, (Span){0}, "entries in %s of other versions of attc, not used: %u", path,
                    left_out->other_versions);
}

static bool read_db(Options *options, const char *path, TuneEntries *out) {
    const char *why;
    TuneLeftOut left_out;
    TuneDb *db = database_open(options, path, TUNE_DB_READ);
    bool ok = db && tune_db_list(db, options->session->arena, out, &left_out, &why);
    if (ok)
        tell_left_out(options, path, &left_out);
    else if (db)
        database_problem(options, path, why);
    tune_db_close(db);
    return ok;
}

// ---- list and show ------------------------------------------------------------------------------

static const char *contract_numbers(const Schedule *s, Arena *arena) {
    const ContractSchedule *c = &s->contract;
    const char *packs = c->pack_a   ? c->pack_b ? ", packs both" : ", packs the first"
                        : c->pack_b ? ", packs the second"
                                    : "";
    const char *transposed = c->axes.transposed ? ", transposed" : "";
    const char *contiguous = c->axes.contiguous_rows ? ", contiguous rows" : "";
    int64_t block_k = s->blocks.count ? s->blocks.at[0].sum : c->block_k;
    return arena_printf(arena, "task %lldx%lldx%lld, block %lldx%lld, kernel %dx%d%s%s%s",
                        (long long)c->task_batch, (long long)c->task_rows, (long long)c->task_lanes,
                        (long long)c->block_rows, (long long)block_k, c->row_block, c->lane_block,
                        transposed, contiguous, packs);
}

// The numbers of a schedule in brief; it is sound, as all that are listed.
static const char *schedule_numbers(const Schedule *s, Arena *arena) {
    switch (s->kind) {
    case SCHEDULE_NONE:
        break;
    case SCHEDULE_TASKS:
        return s->tasks.rows ? arena_printf(arena, "tasks %lld, rows %d", (long long)s->tasks.tasks,
                                            s->tasks.rows)
                             : arena_printf(arena, "tasks %lld", (long long)s->tasks.tasks);
    case SCHEDULE_CONTRACT:
        return contract_numbers(s, arena);
    case SCHEDULE_PROGRAM:
        return schedule_program_text(arena, &s->program);
    case SCHEDULE_STREAM:
        return arena_printf(arena, "%s:%lld:%lld", plan_names[s->stream.plan],
                            (long long)s->stream.rows, (long long)s->stream.piece);
    }
    return "blocks";
}

static void add_row(Table *table, const TuneEntry *entry) {
    enum { GROUP_SHOWN = 8, DATE_SHOWN = 10 };
    Schedule schedule;
    const char *why;
    if (!schedule_from_json(table->arena, entry->schedule, &schedule, &why))
        ice("db: an entry that was read has no schedule: %s", why);
    table_cell(table, "%.*s", GROUP_SHOWN, entry->key.group);
    table_cell(table, "%s", entry->name);
    table_cell(table, "%s", schedule_kind_name(schedule.kind));
    table_cell(table, "%s%s", schedule_numbers(&schedule, table->arena),
               schedule.prefetch == PREFETCH_NONE ? ", no prefetch" : "");
    table_cell(table, "%s", *entry->key.extents ? entry->key.extents : "-");
    table_cell(table, "%s", entry->key.target);
    table_cell(table, "%d", entry->key.threads);
    table_seconds(table, entry->seconds);
    table_seconds(table, entry->default_seconds);
    table_cell(table, "%+.1f%%", 100 * tune_gain(entry));
    table_cell(table, "%.1f%%", 100 * entry->confidence);
    table_cell(table, "%.*s", DATE_SHOWN, entry->date);
    table_cell(table, "%s", entry->key.machine);
}

static void print_table(const TuneEntries *entries, Arena *arena) {
    static const char *const heads[] = {"group",  "kernel",  "kind",   "schedule", "extents",
                                        "target", "threads", "time",   "default",  "gain",
                                        "sure",   "date",    "machine"};
    Table table = table_open(arena, "llllllrrrrrll");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t i = 0; i < entries->count; i++)
        add_row(&table, &entries->at[i]);
    table_print(&table);
}

static void print_entry(const TuneEntry *entry) {
    const TuneKey *key = &entry->key;
    printf("kernel      %s\n"
           "group       %s\n"
           "extents     %s\n"
           "target      %s\n"
           "machine     %s\n"
           "threads     %d\n"
           "schedule    %s\n"
           "time        %.6g ms\n"
           "default     %.6g ms\n"
           "gain        %+.1f%%\n"
           "confidence  %.3g\n"
           "date        %s\n",
           entry->name, key->group, *key->extents ? key->extents : "-", key->target, key->machine,
           key->threads, entry->schedule, 1e3 * entry->seconds, 1e3 * entry->default_seconds,
           100 * tune_gain(entry), entry->confidence, entry->date);
}

static void print_json(const char *path, const TuneEntries *entries, Arena *arena) {
    json_t *list = json_array(), *object = json_object();
    for (uint32_t i = 0; i < entries->count; i++) {
        json_t *entry = json_loads(tune_entry_to_text(arena, &entries->at[i]), 0, NULL);
        json_object_set_new(entry, "gain", report_number(tune_gain(&entries->at[i])));
        json_array_append_new(list, entry);
    }
    json_object_set_new(object, "database", json_string(path));
    json_object_set_new(object, "entries", list);
    report_print_json(object);
}

static int list_entries(Options *options, const char *path) {
    TuneEntries entries;
    if (!read_db(options, path, &entries))
        return EXIT_PROBLEM;
    if (options->json)
        print_json(path, &entries, options->session->arena);
    else
        print_table(&entries, options->session->arena);
    return EXIT_FINE;
}

// Is an entry asked for by the name of its kernel, or the beginning of its group?
static bool is_meant(const TuneEntry *entry, const char *word) {
    return !strcmp(entry->name, word) || (*word && !strncmp(entry->key.group, word, strlen(word)));
}

static int show_entries(Options *options, const char *path) {
    Arena *arena = options->session->arena;
    TuneEntries entries, meant = {0};
    if (!read_db(options, path, &entries))
        return EXIT_PROBLEM;
    for (uint32_t i = 0; i < entries.count; i++)
        if (is_meant(&entries.at[i], options->file))
            vec_push(arena, &meant, entries.at[i]);
    if (!meant.count)
        return problem(options, "database %s has no entry of a kernel or a group '%s'", path,
                       options->file);
    if (options->json)
        print_json(path, &meant, arena);
    for (uint32_t i = 0; i < meant.count && !options->json; i++) {
        printf("%s", i ? "\n" : "");
        print_entry(&meant.at[i]);
    }
    return EXIT_FINE;
}

// ---- export, import, merge ----------------------------------------------------------------------

// The database, or what SQLite keeps beside it while it is written.
static bool is_of_database(Arena *arena, const char *output, const char *path) {
    static const char *const ends[] = {"", "-journal", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (att_argument_same_file(output, arena_printf(arena, "%s%s", path, ends[i])))
            return true;
    return false;
}

static int export_entries(Options *options, const char *path) {
    const char *output = options->outputs.count ? options->outputs.at[0] : "-";
    Arena *arena = options->session->arena;
    TuneEntries entries;
    if (options->outputs.count > 1)
        return usage_error("db export: one -o only");
    if (strcmp(output, "-") != 0 && is_of_database(arena, output, path))
        return usage_error("db export: -o %s would overwrite the database", output);
    if (!read_db(options, path, &entries))
        return EXIT_PROBLEM;
    char *at = tune_entries_to_text(arena, &entries);
    Text text = {.arena = arena, .at = at, .length = strlen(at)};
    if (!strcmp(output, "-"))
        fwrite(text.at, 1, text.length, stdout); // main tells when that fails
    else if (!file_replace(arena, output, &text))
        return problem(options, "cannot write %s: %s", output, strerror(errno));
    return EXIT_FINE;
}

static int import_entries(Options *options, const char *path) {
    const char *why;
    TuneEntries entries = {0};
    TuneDb *db = database_read_text(options, options->file, &entries)
                     ? database_open_whole(options, path)
                     : NULL;
    bool ok = db && tune_db_put_all(db, &entries, &why);
    if (ok)
        printf("imported: %u\n", entries.count);
    else if (db)
        database_problem(options, path, why);
    tune_db_close(db);
    return ok ? EXIT_FINE : EXIT_PROBLEM;
}

// A text begins with a brace, which a database does not. What is no file can be read once only, and
// no database.
static bool is_text(const char *path) {
    struct stat about;
    if (!strcmp(path, "-") || stat(path, &about) ||
        !(S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)))
        return true;
    FILE *file = fopen(path, "rb");
    bool begins = file && getc(file) == '{';
    if (file)
        fclose(file);
    return begins;
}

static int merge_entries(Options *options, const char *path) {
    const char *why;
    uint32_t kept = 0;
    TuneEntries entries = {0};
    bool ok = is_text(options->file) ? database_read_text(options, options->file, &entries)
                                     : read_db(options, options->file, &entries);
    TuneDb *db = ok ? database_open_whole(options, path) : NULL;
    ok = db && tune_db_merge(db, &entries, &kept, &why);
    if (ok)
        printf("taken: %u; as fast or faster here: %u\n", kept, entries.count - kept);
    else if (db)
        database_problem(options, path, why);
    tune_db_close(db);
    return ok ? EXIT_FINE : EXIT_PROBLEM;
}

// ---- prune and check ----------------------------------------------------------------------------

// What is not there is not made.
static int prune_entries(Options *options, const char *path) {
    const char *why;
    TunePruned pruned;
    const char *oldest = NULL;
    if (options->older_than)
        oldest = tune_date(options->session->arena,
                           time(NULL) - (time_t)options->older_than * SECONDS_OF_DAY);
    TuneDb *db = database_open(options, path, TUNE_DB_READ);
    tune_db_close(db);
    db = db ? database_open(options, path, TUNE_DB_WRITE) : NULL;
    bool ok = db && tune_db_prune(db, oldest, &pruned, &why);
    if (ok)
        printf("removed: %u of other versions of attc, %u damaged, %u that gain less than %g%% or "
               "%g ns, %u too old\nleft: %u\nmeasurements removed: %u, left: %u\n"
               "rates removed: %u, left: %u\n",
               pruned.unusable.other_versions, pruned.unusable.damaged, pruned.slow,
               100 * (1 - ATT_WORTH), 1e9 * ATT_WORTH_SECONDS, pruned.old, pruned.left,
               pruned.measurements.removed, pruned.measurements.left, pruned.rates.removed,
               pruned.rates.left);
    else if (db)
        database_problem(options, path, why);
    tune_db_close(db);
    return ok ? EXIT_FINE : EXIT_PROBLEM;
}

static int check_entries(Options *options, const char *path) {
    const char *why;
    TuneEntries entries;
    TuneLeftOut left_out;
    TuneMeasurements measurements;
    TuneRatesList rates;
    uint32_t damaged;
    Arena *arena = options->session->arena;
    TuneDb *db = database_open(options, path, TUNE_DB_READ);
    char *lines = db ? tune_db_check(db, arena) : NULL;
    while (lines)
        database_problem(options, path, strsep(&lines, "\n"));
    bool ok = db && !diags_errors(options->session->diags);
    if (ok && (!tune_db_list(db, arena, &entries, &left_out, &why) ||
               !tune_db_list_measurements(db, arena, &measurements, &why) ||
               !tune_db_list_rates(db, arena, &rates, &damaged, &why))) {
        database_problem(options, path, why);
        ok = false;
    }
    tune_db_close(db);
    if (ok)
        printf("entries: %u, and %u of other versions of attc\nmeasurements: %u\nrates: %u\n",
               entries.count, left_out.other_versions, measurements.count, rates.count);
    return ok ? EXIT_FINE : EXIT_PROBLEM;
}

int command_db(Options *options) {
    static int (*const actions[N_DB_ACTIONS])(Options *options, const char *path) = {
        [DB_LIST] = list_entries,     [DB_SHOW] = show_entries,   [DB_EXPORT] = export_entries,
        [DB_IMPORT] = import_entries, [DB_MERGE] = merge_entries, [DB_PRUNE] = prune_entries,
        [DB_CHECK] = check_entries,
    };
    const char *path = database_path(options);
    return path ? actions[options->db_action](options, path) : EXIT_PROBLEM;
}
