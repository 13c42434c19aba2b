// tests/support/gen.h: random modules for property tests.
//
// Every opcode has a rule that builds one valid instance of it with what it needs (operands, called
// computations, partners), so a module of a few dozen wishes holds a few hundred instructions. The same
// seed gives the same module everywhere.
#ifndef TESTS_SUPPORT_GEN_H
#define TESTS_SUPPORT_GEN_H

#include "hilo/edit.h"
#include "hilo/ir.h"

typedef struct GenOptions {
  uint64_t seed;
  int wishes;     // how many rules to apply in the entry
  bool runnable;  // only what the interpreter can run
  HlOp first;     // the rule to begin with, or HL_OP_COUNT
} GenOptions;

// A module, or NULL after reporting (a shape rule refused what the generator believes in).
HlModule *gen_module(HlCx *cx, const GenOptions *options);
// Why the interpreter cannot run an opcode (NULL: it can).
const char *gen_why_not_run(HlOp op);

#endif
