// SPDX-License-Identifier: Apache-2.0
#include "search_fixture.h"

static const char *const source_text =
    "dim n = 192, m = 192, d = 32, h = 4\n"
    "def F(X[n, d], P[d, h, d'], K[m, h, d'], V[m, h, d']):\n"
    "    Q[n, h, d'] = einsum(X[n, d], P[d, h, d'])\n"
    "    W[n, m, h] = softmax(einsum(Q[n, h, d'], K[m, h, d'] -> [n, m, h]), reduced_dim=m)\n"
    "    return einsum(W[n, m, h], V[m, h, d'] -> [n, h, d'])\n";

SearchWorld search_world(void) {
    SearchWorld w = {.text = source_text, .session = session_new()};
    w.plan = passes_plan(w.session, w.text);
    w.extents = graph_typical_extents(w.plan->fusion->graph, w.session->arena);
    w.spaces.arena = w.session->arena;
    tune_spaces_add(&w.spaces, w.plan, &passes_machine, w.extents);
    return w;
}

const TuneSpace *search_last_space(const SearchWorld *w) {
    return &w->spaces.at.at[w->spaces.at.count - 1];
}

void search_blocks(void *of_world, const Schedule *const *picks, ScheduleList *lists,
                   Arena *arena) {
    SearchWorld *w = of_world;
    tune_spaces_blocks(&w->spaces, w->plan, &passes_machine, w->extents, picks, lists, arena);
}
