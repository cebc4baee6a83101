// SPDX-License-Identifier: Apache-2.0
// See parse_fixture.h.
#include "parse_fixture.h"

#include <stdlib.h>
#include <string.h>

// Keeps the headings and hints of the printed diagnostics.
static char *short_errors(const Session *session) {
    char *text = NULL, *kept = NULL;
    size_t length = 0, kept_length = 0;
    FILE *out = open_memstream(&text, &length);
    diags_print(session->diags, out, DIAGS_TEXT, false);
    fclose(out);
    FILE *keep = open_memstream(&kept, &kept_length);
    const char *end = "";
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *message = strstr(line, ": error: ");
        if (message && line[0] != ' ') {
            *message = '\0';
            const char *place = strchr(line, ':');
            fprintf(keep, "%s%s %s", end, place ? place + 1 : line, message + 9);
            end = "\n";
        } else if (!strncmp(line, "  hint: ", 8)) {
            fprintf(keep, " | %s", line + 8);
        }
    }
    fputs(end, keep);
    fclose(keep);
    free(text);
    return kept;
}

Parsed parse_bytes(const char *text, size_t length) {
    Parsed p = {.session = session_new()};
    p.program = program_new(p.session->arena);
    ast_parse(p.session, p.program, sources_add(p.session->sources, "t.attn", text, length));
    Text printed = {.arena = p.session->arena};
    text_add(&printed, "");
    ast_print(p.program, &printed);
    p.printed = printed.at;
    p.errors = short_errors(p.session);
    return p;
}

void parsed_free(Parsed *p) {
    free(p->errors);
    session_free(p->session);
}

void check_prints(const char *text, const char *expected) {
    Parsed p = parse_bytes(text, strlen(text));
    assert_string_equal(p.errors, "");
    assert_string_equal(p.printed, expected);
    Parsed again = parse_bytes(p.printed, strlen(p.printed));
    assert_string_equal(again.errors, "");
    assert_string_equal(again.printed, expected);
    parsed_free(&again);
    parsed_free(&p);
}

void check_errors(const char *text, const char *expected) {
    Parsed p = parse_bytes(text, strlen(text));
    assert_string_equal(p.errors, expected);
    parsed_free(&p);
}

void count_lines(const char *text, uint32_t expected) {
    uint32_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    assert_int_equal(n, expected);
}
