// SPDX-License-Identifier: Apache-2.0
// What has to run before a result takes the place of an argument (graph_in_place): all else that
// reads the argument. So far as nothing is against it, fuse_order_clusters has it so; whether it is
// shows in the tile program (tile/in_place.c).
#include "graph/fuse/fuse.h"

static bool reads_input(const Fuser *fuser, const Value *value, const Value *input) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Value *arg = value->args[k];
        bool is_inline = arg->op != OP_INPUT && fuser->owner[arg->id] == CLUSTER_INLINE;
        if (arg == input || (is_inline && reads_input(fuser, arg, input)))
            return true;
    }
    return false;
}

static bool cluster_reads(const Fuser *fuser, uint32_t cluster, const Value *input) {
    const ValueList *owned = &fuser->clusters.at[cluster].owned;
    for (uint32_t i = 0; i < owned->count; i++)
        if (reads_input(fuser, owned->at[i], input))
            return true;
    return false;
}

bool fuse_writes_over(const Fuser *fuser, uint32_t cluster, const bool *done) {
    const Graph *graph = fuser->graph;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        if (input->use != USE_REPLACED ||
            fuser->owner[graph->outputs.at[input->output].value->id] != cluster)
            continue;
        for (uint32_t c = 0; c < fuser->clusters.count; c++)
            if (c != cluster && !done[c] && !fuser->clusters.at[c].dead &&
                cluster_reads(fuser, c, input))
                return true;
    }
    return false;
}
