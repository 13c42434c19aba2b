// opt/ask/types.h: exchanging one element type for another, in shapes, values and computations.
#ifndef HILO_OPT_TYPES_H
#define HILO_OPT_TYPES_H

#include "hilo/build.h"

// Some array in the shape has this element type.
bool hl_has_type(const HlShape *shape, HlDtype dtype);
// The shape with arrays of one type become arrays of another; a packed width E(n) of a type that
// goes is dropped.
const HlShape *hl_swap_type(HlShapes *shapes, const HlShape *shape, HlDtype from, HlDtype to);
// `x` converted to `shape`, which differs in element types alone: tuples element by element. x
// itself where there is nothing to do.
HlInst *hl_convert_to(HlBuild *b, HlInst *x, const HlShape *shape);
// Makes a computation that nobody else calls take and give `to` for `from`: parameters are
// converted behind them, the root before it is returned; what happens between stays as it is.
bool hl_swap_interface(HlBuild *b, HlComp *comp, HlDtype from, HlDtype to);

#endif
