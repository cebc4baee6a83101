// SPDX-License-Identifier: Apache-2.0
// repeat.c: groups that are equal to an earlier one.
#ifndef ATTC_TILE_LOWER_REPEAT_H
#define ATTC_TILE_LOWER_REPEAT_H

#include "tile/lower/lower.h"

typedef struct KnownGroup KnownGroup;

// Adds the launches of an equal group to the program, and true; or false, and the launches that
// are added until repeat_close are those of the group.
bool repeat_group(const LowerRequest *request, FormTable *known_groups, TileProgram *program,
                  const Group *group, KnownGroup **open);
// The group, or a part of one, in the arena.
ScheduleSite repeat_site(const LowerRequest *request, const Group *group, Arena *arena);
void repeat_close(KnownGroup *open, const TileProgram *program);

#endif
