// SPDX-License-Identifier: Apache-2.0
// The name that was meant: the nearest to what was written, if it is near enough.
#include "base/base.h"

#include <string.h>
#include <strings.h>

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// Three rows of the table of distances between prefixes are enough. Names too long to be a slip of
// the other count as wholly different.
uint32_t name_distance(const char *a, const char *b) {
    enum { LONGEST = 64 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return strcmp(a, b) ? (uint32_t)least(UINT32_MAX, n + m) : 0;
    uint32_t rows[3][LONGEST + 1];
    uint32_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = before[j] = (uint32_t)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(above[j] + 1, row[j - 1] + 1);
            row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        uint32_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[m];
}

// Without its primes; a name too long to be near another is cut.
enum { STEM = 256 };
static uint32_t stem_of(Name name, char *stem) {
    size_t length = strlen(name) - name_primes(name);
    length = length < STEM - 1 ? length : STEM - 1;
    memcpy(stem, name, length);
    stem[length] = '\0';
    return (uint32_t)length;
}

// A third of the letters may differ, so that one-letter names are never near each other.
static uint32_t near_limit(Name written) {
    char stem[STEM];
    uint32_t limit = (stem_of(written, stem) + 1) / 3;
    return limit < 4 ? limit : 4;
}

Near near_to(Name written) {
    return (Near){.written = written, .best = NULL, .distance = near_limit(written) + 1};
}

void near_offer(Near *near, Name name) {
    if (!strcmp(name, near->written))
        return;
    char stem[STEM], written[STEM];
    uint32_t shorter = least(stem_of(name, stem), stem_of(near->written, written));
    bool same_letters = strcasecmp(stem, written) == 0;
    uint32_t distance = same_letters ? 0 : name_distance(written, stem);
    bool whole_name = distance >= shorter;
    if (distance < near->distance && (same_letters || !whole_name)) {
        near->best = name;
        near->distance = distance;
    }
}
