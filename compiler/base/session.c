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

Session *session_fork(const Session *session) {
    Arena *arena = arena_new();
    Session *fork = arena_copy(arena, session, sizeof *session);
    fork->arena = arena;
    fork->names = names_copy(session->names, arena);
    fork->diags = diags_fork(session->diags, arena);
    return fork;
}

void session_join(Session *session, const Session *fork) {
    diags_join(session->diags, fork->diags);
}

void session_free(Session *session) {
    if (session)
        arena_free(session->arena);
}
