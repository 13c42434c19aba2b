// tool/dump_states.h: which state of which module a file of a dump is, by its name (tools.md 3).
#ifndef TOOL_DUMP_STATES_H
#define TOOL_DUMP_STATES_H

#include "hilo/base.h"

typedef struct DumpState {
  HlStr module;  // "module_0001.jit_f"
  HlStr title;   // "before_optimizations", "0003.simplification.after_algsimp.before_dce"
  int order;     // among the states of the module
  int form;      // of the same state the less the better to read: text, protos, other
} DumpState;

// Whether the file is a state of a module; its name may have folders before it. The strings are parts of the name.
bool dump_state_of(const char *path, DumpState *out);
// By module, order and form.
int dump_state_compare(const DumpState *a, const DumpState *b);

#endif
