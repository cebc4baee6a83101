// SPDX-License-Identifier: Apache-2.0
// Random graphs for tests of the passes and of the lowering.
#ifndef ATTC_TESTS_RANDOM_GRAPH_H
#define ATTC_TESTS_RANDOM_GRAPH_H

#include "graph/graph.h"

// The same seed, the same graph. Dims n, m (like n) and t are dynamic; inputs X[n d] P[d e h]
// M[t d] B[h e] w[d] s[] and ids[n], integers below 3; up to four outputs.
Graph *random_graph(Session *session, uint64_t seed);

#endif
