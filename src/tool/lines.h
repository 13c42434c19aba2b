// tool/lines.h: the lines two texts share, in order.
#ifndef TOOL_LINES_H
#define TOOL_LINES_H

#include "hilo/base.h"

typedef struct Lines {
  HlStr *at;  // without the newline
  int n;
} Lines;
Lines lines_split(HlArena *arena, HlStr text);

// For every line of `after` the line of `before` it is kept from, or -1; growing. Lines that stand once
// in both are matched first (of a module nearly all: names are unique), then what adjoins them.
int *lines_match(HlArena *arena, const Lines *before, const Lines *after);

#endif
