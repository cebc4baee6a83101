// SPDX-License-Identifier: Apache-2.0
// A file and what it imports. Imports are a list to work through, not a recursion: cycles and long
// chains are harmless. A file is the same by all of its paths.
#include "ast/read/syntax.h"

#include <string.h>
#include <sys/stat.h>

typedef VEC(uint32_t) FileList;

static const char *import_path(Arena *arena, const Source *importer, const char *path) {
    const char *slash = strrchr(importer->path, '/');
    if (path[0] == '/' || !slash || importer->path[0] == '<')
        return path;
    return arena_printf(arena, "%.*s/%s", (int)(slash - importer->path), importer->path, path);
}

static bool is_known(const Session *session, const FileList *files, const char *path) {
    uint32_t file = sources_find(session->sources, path);
    for (uint32_t i = 0; file && i < files->count; i++)
        if (files->at[i] == file)
            return true;
    return false;
}

static void import_file(Parser *parser, const Import *import, FileList *files) {
    Session *session = parser->session;
    const char *path = import_path(parser->scratch, parser->source, import->path);
    struct stat status;
    const char *why = NULL;
    uint32_t file = 0;
    if (is_known(session, files, path))
        return;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        why = arena_printf(parser->scratch, "cannot read '%s': not a regular file", path);
    else
        file = sources_read(session->sources, path, &why);
    if (file) {
        vec_push(session->arena, files, file);
        return;
    }
    syntax_error(parser, import->span, "%s", why);
    parser->program->incomplete = true;
}

static void parse_file(Session *session, Program *program, uint32_t file, FileList *files) {
    Arena *scratch = arena_new();
    Parser parser = parser_new(session, program, file, scratch);
    scan_file(&parser);
    blocks_tokens(&parser);
    parse_tokens(&parser);
    for (uint32_t i = 0; i < parser.imports.count; i++)
        import_file(&parser, &parser.imports.at[i], files);
    arena_free(scratch);
}

void ast_parse(Session *session, Program *program, uint32_t file) {
    FileList files = {0};
    program->names = session->names;
    for (uint32_t i = 0; i < program->files.count; i++)
        vec_push(session->arena, &files, program->files.at[i]);
    uint32_t next = files.count;
    vec_push(session->arena, &files, file);
    for (; next < files.count; next++) {
        uint32_t current = files.at[next];
        vec_push(session->arena, &program->files, current);
        parse_file(session, program, current, &files);
    }
}
