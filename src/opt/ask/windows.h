// opt/ask/windows.h: what passes over reduce-windows share.
#ifndef HILO_OPT_WINDOWS_H
#define HILO_OPT_WINDOWS_H

#include "opt/ask/gathers.h"

// Windows of size 1 everywhere, to be changed; in the arena.
HlWindowDim *window_units(HlArena *arena, int rank);
bool window_is_unit(const HlWindowDim *dim);
// reduce-window of n arrays, the window copied.
HlInst *window_reduce(HlPass *p, HlBuild *b, int n, HlInst *const *x, HlInst *const *init,
                      const HlWindowDim *window, HlComp *combine);
// Lays an instruction's arrays out as XLA does where it has added their last dimension: that one is the major one.
HlInst *window_last_major(HlPass *p, HlInst *inst);
// Element k of what an op with one or several results returns.
HlInst *window_result(HlBuild *b, HlInst *inst, int k);

// The rules of reduce-window-resizer, which reduce-window-rewriter tries, too.
HlRuleFn window_resize;

#endif
