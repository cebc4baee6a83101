// SPDX-License-Identifier: Apache-2.0
// Which hardware threads are one core. Nothing here leaves the library.
#ifndef ATT_CORES_H
#define ATT_CORES_H

// The lowest-numbered hardware thread of the core that `cpu` belongs to; cpu itself when unknown.
int att_core_leader(int cpu);

#endif
