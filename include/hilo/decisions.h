// hilo/decisions.h: reads the list of rewrites that a run may make.
#ifndef HILO_DECISIONS_H
#define HILO_DECISIONS_H

#include "hilo/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

// JSON as 'hilo opt --dry --json' prints it: [{"pass": ..., "rule": ..., "computation": ..., "instruction": ...,
// "with": ...}], each with at least one of them. In the arena; false after reporting.
bool hl_decisions_read(HlCx *cx, HlSource *source, HlArena *arena, HlDecision **out, int *n);

#ifdef __cplusplus
}
#endif
#endif
