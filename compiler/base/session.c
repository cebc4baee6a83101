// SPDX-License-Identifier: Apache-2.0
// One compile: its arena and the tables that live as long.
#include "base/base.h"

Session *session_new(void) {
    Arena *arena = arena_new();
    Session *session = arena_new_of(arena, Session);
    session->arena = arena;
    session->names = names_new(arena);
    session->sources = sources_new(arena);
    session->diags = diags_new(arena, session->sources);
    return session;
}

void session_free(Session *session) {
    if (session)
        arena_free(session->arena);
}
