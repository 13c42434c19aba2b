// tool/load.h: what load.c and lower.c share.
#ifndef HILO_TOOL_LOAD_H
#define HILO_TOOL_LOAD_H

#include "hilo/tool.h"

// The sections of MLIR text or the one tree of bytecode; hl_free the array.
bool load_trees(HlCx *cx, HlSource *source, HlMlTree ***out, int *n);
void free_trees(HlFile *file);
bool load_jaxpr(HlCx *cx, HlSource *source, const HlLoadOptions *options, HlFile *file);

#endif
