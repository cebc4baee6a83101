// SPDX-License-Identifier: Apache-2.0
// Minimum cuts: the cheapest set of edges without which nothing leads from one node to another.
//
//     s -> a (3)   a -> b (2)   b -> t (2)   s -> b (1)        cut: b -> t, of 2
//
// The largest flow, found by shortest ways, fills a minimum cut (Dinic 1970). What can still send
// something to the sink when all is full is on the sink's side: of several cuts of one size that is
// the one nearest to it.
#include "base/base.h"

#include <math.h>
#include <string.h>

typedef struct {
    uint32_t to, next; // next: of the node that it leaves, NO_EDGE: it is the last
    double room;       // the edge after or before it, of a pair, leads back
} Edge;

struct Network {
    Arena *arena;
    uint32_t n_nodes;
    uint32_t *first; // by node
    VEC(Edge) edges; // in pairs
};

enum { NO_EDGE = UINT32_MAX, FAR = UINT32_MAX };

Network *network_new(Arena *arena, uint32_t n_nodes) {
    Network *network = arena_new_of(arena, Network);
    network->arena = arena;
    network->n_nodes = n_nodes;
    network->first = arena_array(arena, uint32_t, n_nodes);
    memset(network->first, 0xFF, n_nodes * sizeof *network->first); // NO_EDGE
    return network;
}

static void add_half(Network *network, uint32_t from, uint32_t to, double room) {
    vec_push(network->arena, &network->edges, (Edge){to, network->first[from], room});
    network->first[from] = network->edges.count - 1;
}

void network_edge(Network *network, uint32_t from, uint32_t to, double room) {
    add_half(network, from, to, room);
    add_half(network, to, from, 0);
}

// ---- flow --------------------------------------------------------------------------------------

typedef struct {
    Network *network;
    uint32_t source, sink;
    uint32_t *distance; // by node: from the source, along edges with room
    uint32_t *open;     // by node: the first edge that may still be a way on
    uint32_t *way;      // edges from the source on; the queue of the search for distances
} Flow;

static bool find_distances(Flow *flow) {
    const Network *network = flow->network;
    uint32_t begin = 0, end = 0;
    memset(flow->distance, 0xFF, network->n_nodes * sizeof *flow->distance); // FAR
    flow->distance[flow->source] = 0;
    flow->way[end++] = flow->source;
    while (begin < end) {
        uint32_t node = flow->way[begin++];
        for (uint32_t e = network->first[node]; e != NO_EDGE; e = network->edges.at[e].next) {
            const Edge *edge = &network->edges.at[e];
            if (edge->room <= 0 || flow->distance[edge->to] != FAR)
                continue;
            flow->distance[edge->to] = flow->distance[node] + 1;
            flow->way[end++] = edge->to;
        }
    }
    return flow->distance[flow->sink] != FAR;
}

// A way to the sink on which each edge leads one further, by number of edges; 0: there is none.
static uint32_t find_way(Flow *flow) {
    Network *network = flow->network;
    uint32_t length = 0, node = flow->source;
    while (node != flow->sink) {
        uint32_t e = flow->open[node];
        while (e != NO_EDGE &&
               (network->edges.at[e].room <= 0 ||
                flow->distance[network->edges.at[e].to] != flow->distance[node] + 1))
            e = network->edges.at[e].next;
        flow->open[node] = e;
        if (e != NO_EDGE) {
            flow->way[length++] = e;
            node = network->edges.at[e].to;
            continue;
        }
        if (!length)
            return 0;
        flow->distance[node] = FAR; // a dead end
        node = network->edges.at[flow->way[--length] ^ 1].to;
    }
    return length;
}

// false: all of the way is open.
static bool fill_way(Flow *flow, uint32_t length) {
    Edge *edges = flow->network->edges.at;
    double most = INFINITY;
    for (uint32_t i = 0; i < length; i++)
        most = fmin(most, edges[flow->way[i]].room);
    for (uint32_t i = 0; i < length && isfinite(most); i++) {
        edges[flow->way[i]].room -= most;
        edges[flow->way[i] ^ 1].room += most;
    }
    return isfinite(most);
}

static bool fill(Flow *flow) {
    const Network *network = flow->network;
    while (find_distances(flow)) {
        memcpy(flow->open, network->first, network->n_nodes * sizeof *flow->open);
        for (uint32_t length; (length = find_way(flow)) > 0;)
            if (!fill_way(flow, length))
                return false;
    }
    return true;
}

// Against the edges, from the sink.
static bool *find_side(Flow *flow) {
    const Network *network = flow->network;
    bool *side = arena_array(network->arena, bool, network->n_nodes);
    uint32_t begin = 0, end = 0;
    side[flow->sink] = true;
    flow->way[end++] = flow->sink;
    while (begin < end) {
        uint32_t node = flow->way[begin++];
        for (uint32_t e = network->first[node]; e != NO_EDGE; e = network->edges.at[e].next) {
            uint32_t from = network->edges.at[e].to;
            if (network->edges.at[e ^ 1].room <= 0 || side[from])
                continue;
            side[from] = true;
            flow->way[end++] = from;
        }
    }
    return side;
}

bool *network_cut(Network *network, uint32_t source, uint32_t sink) {
    Flow flow = {network,
                 source,
                 sink,
                 arena_array(network->arena, uint32_t, network->n_nodes),
                 arena_array(network->arena, uint32_t, network->n_nodes),
                 arena_array(network->arena, uint32_t, network->n_nodes + 1)};
    return fill(&flow) ? find_side(&flow) : NULL;
}
