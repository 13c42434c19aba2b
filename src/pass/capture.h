// pass/capture.h: a dry run shows what each rewrite would leave, before it takes it back. For src/rewrite, which makes proposals of it.
#ifndef PASS_CAPTURE_H
#define PASS_CAPTURE_H

#include "hilo/pass.h"

// A rewrite as it stands in the module, made for a moment.
typedef struct PassShown {
  const char *pass, *rule;
  const HlInst *inst;          // what it is about; it may have been erased
  const char *name;            // of it
  const HlComp *comp;
  const char *with;            // the other party's name; "": none
} PassShown;

typedef struct PassCapture {
  // What is younger than the run was made for it; what is older and listed in the journals (hl_touched) it has edited or
  // erased. The module is not to be changed.
  void (*show)(void *user, const PassShown *shown);
  void *user;
} PassCapture;

// For dry runs of this engine from now on, which then keep no texts; borrowed. NULL: nobody looks.
void pass_set_capture(HlEngine *engine, const PassCapture *capture);

#endif
