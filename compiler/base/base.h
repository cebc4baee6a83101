// SPDX-License-Identifier: Apache-2.0
// Level base: what every other level stands on. Memory, names, text, source places, diagnostics.
//
// Lifetimes: everything is allocated in an Arena that is freed as a whole. A Session holds the
// arena of one compile together with the tables that live as long. There are no globals, so a
// process may compile many programs, one after another or in several threads.
#ifndef ATTC_BASE_H
#define ATTC_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ATTC_VERSION "0.1.0"

// ---- ice.c: the end of the process ----------------------------------------------------------
enum { EXIT_FINE = 0, EXIT_PROBLEM = 1, EXIT_USAGE = 2, EXIT_INTERNAL = 70 }; // exit statuses
// A broken invariant of the compiler: says where, asks for a report, ends with EXIT_INTERNAL.
_Noreturn void ice(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Memory has run out, mostly because the user's tensors are too large: says for what, ends with
// EXIT_PROBLEM. bytes: what was asked for.
_Noreturn void no_memory(const char *what, uint64_t bytes);

// ---- arena.c: memory -----------------------------------------------------------------------
typedef struct Arena Arena;
Arena *arena_new(void);
void arena_free(Arena *arena);
void arena_adopt(Arena *arena, Arena *child); // child lives as long as arena; it is freed with it
// Zeroed memory, aligned to 16 bytes. Never NULL: see no_memory().
void *arena_alloc(Arena *arena, size_t bytes);
char *arena_strndup(Arena *arena, const char *text, size_t length);
void *arena_copy(Arena *arena, const void *from, size_t bytes);

#define arena_new_of(arena, Type) ((Type *)arena_alloc((arena), sizeof(Type)))
#define arena_array(arena, Type, n) ((Type *)arena_alloc((arena), sizeof(Type) * (size_t)(n)))

// ---- vec.c: growing arrays in an arena ------------------------------------------------------
// VEC(Type) is a struct { Type *at; uint32_t count, room; }; start from {0}.
#define VEC(Type)                                                                                  \
    struct {                                                                                       \
        Type *at;                                                                                  \
        uint32_t count, room;                                                                      \
    }
// Makes room for one more element and counts it; returns the array, which may have moved.
void *vec_grow(Arena *arena, void *at, uint32_t *count, uint32_t *room, size_t size);
#define vec_push(arena, vec, ...)                                                                  \
    ((vec)->at = vec_grow((arena), (vec)->at, &(vec)->count, &(vec)->room, sizeof *(vec)->at),     \
     (vec)->at[(vec)->count - 1] = (__VA_ARGS__))

// ---- name.c: interned strings ---------------------------------------------------------------
// Two Names of one table are the same text exactly when they are the same pointer.
typedef const char *Name;
typedef VEC(Name) NameList;
typedef struct Names Names;
Names *names_new(Arena *arena);
Names *names_copy(const Names *names, Arena *arena); // the same names, and new ones of its own
Name names_intern(Names *names, const char *text, size_t length);
Name names_find(Names *names, const char *text); // interns a NUL-terminated text
// Primes at the end: n'' has two and is n without them.
uint32_t name_primes(Name name);
Name name_unprimed(Names *names, Name name);
Name name_primed(Names *names, Name name, uint32_t primes); // with so many more
bool namelist_has(const NameList *list, Name name);
const char *quoted_text(Arena *arena, const NameList *list); // "'n', 'd' and 'h'"

// ---- near.c: what a misspelt name was meant to be -------------------------------------------
// Optimal string alignment distance (Levenshtein with swaps of neighbours).
uint32_t name_distance(const char *a, const char *b);
// The nearest of the names offered that may be meant by what was written; best is NULL if none is.
typedef struct {
    Name written, best;
    uint32_t distance;
} Near;
Near near_to(Name written);
void near_offer(Near *near, Name name);

// ---- hash.c: XXH3 ---------------------------------------------------------------------------
uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes);
uint64_t hash_u64(uint64_t seed, uint64_t value);
uint64_t hash_text(uint64_t seed, const char *text); // NULL hashes like no text

// ---- map.c: hash table from a 64-bit key to a pointer ---------------------------------------
typedef struct Map Map;
Map *map_new(Arena *arena);
Map *map_new_for(Arena *arena, uint32_t count); // with room for so many entries
void *map_get(const Map *map, uint64_t key);    // NULL when absent
void map_put(Map *map, uint64_t key, void *value);

// ---- sets.c: the numbers below a count in sets that share none ---------------------------------
// By number, one of the same set; a set is called by its least number.
uint32_t *sets_new(Arena *arena, uint32_t count); // each number alone
uint32_t sets_find(uint32_t *sets, uint32_t number);
uint32_t sets_join(uint32_t *sets, uint32_t a, uint32_t b); // the sets that they are in; that set

// ---- jobs.c: work on all cores ---------------------------------------------------------------
// Runs run(shared, i) for each i below count, several at a time, in whatever order; returns when
// all are done.
typedef void JobRun(void *shared, uint32_t i);
void jobs_run(uint32_t count, JobRun *run, void *shared);

// ---- text.c: building strings ---------------------------------------------------------------
typedef struct {
    Arena *arena;
    char *at; // always NUL-terminated once anything was added; NULL before
    size_t length, room;
} Text;
void text_add(Text *text, const char *s);
void text_addn(Text *text, const char *s, size_t length);
void text_printf(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Name number nth of a list for a message: "Q, K, V"; of a long one "..." stands for the rest.
void text_list(Text *text, uint32_t nth, const char *name);
void text_vprintf(Text *text, const char *format, va_list args);
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The shortest decimal that reads back to the same double; "inf", "-inf", "nan".
void text_double(Text *text, double value);
// "96 B", "1.5 MiB"; "too many" of a negative number.
const char *bytes_text(int64_t bytes, Arena *arena);
// Is the word one of those in a text that have blanks between them?
bool words_have(const char *words, const char *word);
// STEM_1, STEM_2, ..: the first of them that is free.
const char *text_numbered(Arena *arena, const char *stem,
                          bool (*is_taken)(const void *of, const char *name), const void *of);
// Bytes of the UTF-8 character at `at`, which is before `end`, and its code point; 0 if there is
// none.
size_t utf8_decode(const char *at, const char *end, uint32_t *code);

// ---- source.c: files and places in them -----------------------------------------------------
// A place is a range of bytes in a file. Lines and columns (1-based, columns in bytes) are computed
// only when something is printed. file 0 is "nowhere" (command line, built-in).
typedef struct {
    uint32_t file, begin, end;
} Span;
typedef struct {
    const char *path; // as the user gave it; "<stdin>" for "-"; "<prelude>"
    const char *text; // NUL-terminated copy
    size_t length;
    uint32_t *line_begin; // byte offset of each line
    uint32_t n_lines, number;
    uint64_t device, inode; // which file it is, whatever its path; 0 of texts
} Source;
typedef struct Sources Sources;
Sources *sources_new(Arena *arena);
// Copies the text and returns the file's number (from 1).
uint32_t sources_add(Sources *sources, const char *path, const char *text, size_t length);
// Reads a file ("-" is standard input). 0 on failure, with a message for the user in *why.
uint32_t sources_read(Sources *sources, const char *path, const char **why);
const Source *sources_get(const Sources *sources, uint32_t file);
// The number of a file that was read (the last time), by any of its paths; 0 if none was.
uint32_t sources_find(const Sources *sources, const char *path);
uint32_t sources_count(const Sources *sources);
void span_locate(const Sources *sources, Span span, uint32_t *line, uint32_t *column);
const char *span_text(const Sources *sources, Span span, Arena *arena); // of a file that is read
Span span_join(Span a, Span b);
bool span_same(Span a, Span b);

// ---- diag.c: what the user is told ----------------------------------------------------------
// Messages are lower case without a full stop. They are kept, not printed at once: diags_print
// sorts them by place and drops exact repeats, so one mistake seen from two sides is told once.
typedef enum { DIAG_ERROR, DIAG_WARNING, DIAG_REMARK } Severity;
typedef struct Diag Diag;
typedef struct Diags Diags;
typedef enum { DIAGS_TEXT, DIAGS_JSON } DiagFormat;
Diags *diags_new(Arena *arena, Sources *sources);
Diags *diags_fork(const Diags *diags, Arena *arena); // the same options, and nothing told yet
void diags_join(Diags *diags, const Diags *fork);    // tells here what was told there
Diag *diag_error(Diags *diags, Span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// group is the name after -W that silences it (-Wno-NAME) or turns it on, such as "summed-dim".
Diag *diag_warning(Diags *diags, const char *group, Span at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// What may be good to know; -w switches remarks off.
Diag *diag_remark(Diags *diags, Span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// A note shows another place involved; a hint says how to mend it. Both return their argument.
Diag *diag_note(Diag *diag, Span at, const char *format, ...) __attribute__((format(printf, 3, 4)));
Diag *diag_hint(Diag *diag, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t diags_errors(const Diags *diags);
const char *diags_first_error(const Diags *diags); // its message; NULL: there is none
// -Wname, -Wno-name, -Werror, -w as on the command line, without the "-W". false: no such warning.
bool diags_warning_option(Diags *diags, const char *option);
void diags_print(const Diags *diags, FILE *out, DiagFormat format, bool colour);

// ---- elements -------------------------------------------------------------------------------
typedef enum {
#define ELEM(NAME, name, bytes, kind) ELEM_##NAME,
#include "base/elem.def"
#undef ELEM
    N_ELEM
} Elem;
const char *elem_name(Elem elem);
size_t elem_bytes(Elem elem);
bool elem_is_float(Elem elem);
bool elem_is_int(Elem elem);
double elem_largest(Elem elem); // of floats, infinity excepted
Elem elem_work(Elem elem);      // what arithmetic is done in: f32 for the half types
// The whole number or 0, 1 that a number other than NaN is as elem, toward zero; what is beyond the
// ends, infinities too, is the end.
int64_t elem_whole(Elem elem, double number);
bool elem_from_name(const char *name, Elem *elem);
bool elem_from_foreign(const char *name, Elem *elem); // also float32, bfloat16, ... of others

// ---- whole numbers --------------------------------------------------------------------------
// Of numbers that are not negative, b and unit at least 1.
static inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline int64_t round_up(int64_t a, int64_t unit) {
    return ceil_div(a, unit) * unit;
}
// The piece when `extent` is cut into equal ones of at most `most`, in multiples of unit.
static inline int64_t equal_piece(int64_t extent, int64_t most, int64_t unit) {
    return most >= extent ? extent : round_up(ceil_div(extent, ceil_div(extent, most)), unit);
}
static inline int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}
// Checked: false on overflow.
static inline bool mul_i64(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
// The product, at most 2**62: a count of positions that no memory holds.
static inline int64_t mul_capped(int64_t a, int64_t b) {
    int64_t product;
    return mul_i64(a, b, &product) && product < INT64_C(1) << 62 ? product : INT64_C(1) << 62;
}
// The sum of two such counts, at most as much.
static inline int64_t add_capped(int64_t a, int64_t b) {
    return a < (INT64_C(1) << 62) - b ? a + b : INT64_C(1) << 62;
}
static inline bool add_i64(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
// Requires: b is not 0, and not -1 where a is the smallest number.
static inline int64_t floor_div_i64(int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
// exponent: from 0. Checked: false on overflow.
static inline bool power_i64(int64_t base, int64_t exponent, int64_t *out) {
    if (base >= -1 && base <= 1 && exponent > 2) // their powers come again
        exponent = 2 - exponent % 2;
    *out = 1;
    for (int64_t i = 0; i < exponent; i++)
        if (!mul_i64(*out, base, out))
            return false;
    return true;
}

// ---- network.c: minimum cuts -----------------------------------------------------------------
typedef struct Network Network;
Network *network_new(Arena *arena, uint32_t n_nodes);
// room: from 0 on, what it costs to cut the edge; INFINITY: it cannot be cut.
void network_edge(Network *network, uint32_t from, uint32_t to, double room);
// By node: is it on the sink's side of the smallest cut, of several the one nearest to the sink?
// NULL: nothing that can be cut keeps the two apart. Once for a network.
bool *network_cut(Network *network, uint32_t source, uint32_t sink);

// ---- session.c: one compile -----------------------------------------------------------------
typedef struct {
    Name dim;
    int64_t extent;
} DimExtent;
typedef VEC(DimExtent) DimExtents;

// No dim has more positions: sums of extents and products with strides of a few fit 63 bits.
#define EXTENT_MAX (INT64_C(1) << 40)

typedef struct {
    Arena *arena;
    Names *names;
    Sources *sources;
    Diags *diags;
    DimExtents overrides; // -D n=512
    NameList dynamic;     // --dynamic n,m: dims whose extents are not compiled in, not even by -D
    DimExtents planned;   // --dynamic n=512: what such dims are planned for
    DimExtents sizes;     // --dynamic n=1+512: further sizes, but for the last of each dim
    NameList data;        // --data X,M: arguments that are data; all others are parameters
    NameList map_dims;    // --map b=X: dims that no def names
} Session;
Session *session_new(void);
void session_free(Session *session);
// A session for work that is done beside this one's, perhaps in another thread: it knows what this
// one does, and has an arena, new names and diagnostics of its own.
Session *session_fork(const Session *session);
void session_join(Session *session, const Session *fork); // tells here what was told there

#endif
