// opt/passes.h: the functions and tables that passes.def names.
#ifndef HILO_OPT_PASSES_H
#define HILO_OPT_PASSES_H

#include "hilo/pass.h"

#define PASS(function, ...) bool function(HlPass *p);
#define PLACE(...)
#define RULES(table, ...) extern const HlRule table[];
#define PASS_RULES(function, table, ...) \
  bool function(HlPass *p);              \
  extern const HlRule table[];
#include "opt/passes.def"

bool pass_nothing(HlPass *p);  // of a place

#endif
