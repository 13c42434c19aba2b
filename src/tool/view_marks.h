// tool/view_marks.h: what a comparison found, as colours of a page.
#ifndef TOOL_VIEW_MARKS_H
#define TOOL_VIEW_MARKS_H

#include "hilo/diff.h"
#include "hilo/view.h"

// Marks of the instructions of both modules, in the arena.
void view_marks_of_diff(HlArena *arena, const HlDiff *diff, HlViewMark **in_before, int *n_before,
                        HlViewMark **in_after, int *n_after);

#endif
