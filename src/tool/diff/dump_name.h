// tool/diff/dump_name.h: what the names of dumped files say.
#ifndef TOOL_DUMP_NAME_H
#define TOOL_DUMP_NAME_H

#include "hilo/base.h"

// [TIME.]module_0010.jit_mlp.0005.simplification.after_algsimp.before_dce.txt
//                 10 jit_mlp  5   simplification.after_algsimp.before_dce
// Of a name that is no dump's: module and state -1, the program is all of it but the ending.
typedef struct DumpName {
  int64_t module, state;
  HlStr program;  // all borrowed from the path
  HlStr stage;    // "before_optimizations", "cpu_after_optimizations"; empty
} DumpName;

DumpName dump_name(const char *path);
bool dump_name_is_before(const DumpName *name);
bool dump_name_is_after(const DumpName *name);

#endif
