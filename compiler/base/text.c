// SPDX-License-Identifier: Apache-2.0
// String builder in an arena.
#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Makes room for `more` bytes and the NUL after them.
static void text_reserve(Text *text, size_t more) {
    if (text->at && text->room - text->length > more)
        return;
    size_t room = text->room ? text->room * 2 : 64;
    while (room - text->length <= more)
        room *= 2;
    char *larger = arena_alloc(text->arena, room);
    if (text->length)
        memcpy(larger, text->at, text->length);
    text->at = larger;
    text->room = room;
}

void text_addn(Text *text, const char *s, size_t length) {
    text_reserve(text, length);
    if (length)
        memcpy(text->at + text->length, s, length);
    text->length += length;
    text->at[text->length] = '\0';
}

void text_add(Text *text, const char *s) {
    text_addn(text, s, strlen(s));
}

void text_vprintf(Text *text, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0)
        ice("bad format '%s'", format);
    text_reserve(text, (size_t)length);
    vsnprintf(text->at + text->length, (size_t)length + 1, format, again);
    va_end(again);
    text->length += (size_t)length;
}

void text_printf(Text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text_vprintf(text, format, args);
    va_end(args);
}

void text_list(Text *text, uint32_t nth, const char *name) {
    enum { SHOWN = 12 };
    if (nth < SHOWN)
        text_printf(text, "%s%s", nth ? ", " : "", name);
    else if (nth == SHOWN)
        text_add(text, ", ...");
}

void text_double(Text *text, double value) {
    char digits[32];
    if (isnan(value)) {
        text_add(text, "nan");
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    text_add(text, digits);
}

char *arena_printf(Arena *arena, const char *format, ...) {
    Text text = {.arena = arena};
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    return text.at;
}

const char *bytes_text(int64_t bytes, Arena *arena) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    if (bytes < 0)
        return "too many";
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    return arena_printf(arena, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

bool words_have(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; length && (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

const char *text_numbered(Arena *arena, const char *stem,
                          bool (*is_taken)(const void *of, const char *name), const void *of) {
    const char *name = stem;
    for (uint32_t n = 1; n == 1 || is_taken(of, name); n++)
        name = arena_printf(arena, "%s_%u", stem, n);
    return name;
}

size_t utf8_decode(const char *at, const char *end, uint32_t *code) {
    const unsigned char *s = (const unsigned char *)at;
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (length == 0 || s[0] > 0xF4 || (size_t)(end - at) < length)
        return 0;
    static const unsigned char lead_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = s[0] & lead_mask[length];
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3F);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < smallest[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return 0;
    *code = c;
    return length;
}
