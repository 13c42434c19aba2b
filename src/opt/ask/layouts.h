// opt/ask/layouts.h: when moving dimensions moves no bytes: reshapes, transposes that are bitcasts.
#ifndef HILO_OPT_LAYOUTS_H
#define HILO_OPT_LAYOUTS_H

#include "hilo/ir.h"

// All take arrays of one element type; a shape without layout, with tiles, or with dynamic
// dimensions is never found to be a bitcast.

// Reshaping `from` to `to`, layouts as they stand, leaves every element where it is in memory.
bool hl_reshape_is_bitcast(const HlShape *from, const HlShape *to);
// The same of transposing by `dims` (dimension k of `to` is dimension dims[k] of `from`).
bool hl_transpose_is_bitcast(const HlShape *from, const HlShape *to, HlI64s dims);
// `to` in the layout that makes the reshape of `from` a bitcast; NULL if none does. Dimensions of
// size 1 become the most major ones, in descending order.
const HlShape *hl_align_layouts(HlShapes *shapes, const HlShape *from, const HlShape *to);
// `to` in the layout that makes the transpose of `from` by `dims` a bitcast; NULL where `from` has
// none.
const HlShape *hl_align_transpose(HlShapes *shapes, const HlShape *from, const HlShape *to,
                                  HlI64s dims);
// The array without these dimensions; the others stay in the order of its layout.
const HlShape *hl_without_dims(HlArena *arena, HlShapes *shapes, const HlShape *shape, HlI64s dims);

#endif
