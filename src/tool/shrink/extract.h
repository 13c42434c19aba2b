// tool/shrink/extract.h: cutting out what is asked for instruction by instruction.
#ifndef TOOL_EXTRACT_H
#define TOOL_EXTRACT_H

#include "hilo/extract.h"

// The instructions `in` (by id) of a computation, and what they need from inside, as a module that gives `results` (by id,
// of the set). False after reporting; free in either case.
bool extract_keep(HlCx *cx, const HlComp *comp, bool *in, const bool *results, const char *name,
                  HlExtract *out);

#endif
