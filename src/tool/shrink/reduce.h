// tool/shrink/reduce.h: the parts of the reducer: what it holds, the moves that make less of a module, values of arguments.
#ifndef TOOL_REDUCE_H
#define TOOL_REDUCE_H

#include "base/map.h"
#include "hilo/build.h"
#include "hilo/edit.h"
#include "hilo/reduce.h"
#include "tool/shrink/oracle.h"

// Values by the names that instructions had in the module that came.
typedef struct Values {
  HlArena *arena;
  int n, capacity;
  const char **name;
  HlLiteral **value;  // references
  Map by_name;        // 1 + place, by the name's hash
} Values;

typedef struct Reducer {
  HlCx *cx;
  const HlTest *test;
  const HlReduceOptions *options;
  HlReduction *out;
  Oracle oracle;
  HlArena *arena;  // of lists of one phase
  HlModule
      *m;  // the best so far, and its arguments by entry parameter; NULL where nobody wants any
  HlLiteral **args;
  Values values;
  Map seen;  // hashes of candidates that do not fail
  double started;
  int64_t next_name;  // of copies, which have a name of their own in all candidates
  bool stopped;
  bool is_valid;  // the module that came is valid HLO, and so must candidates be
} Reducer;

// A way to make less of the best module: things to be given up, by number, several at a time. `make` gives the module
// without them, for the caller, or NULL where that is none; `what` gets a line that says what went.
typedef struct Move {
  const char *phase;
  int n;
  void *things;
  HlModule *(*make)(Reducer *r, const struct Move *move, const int *thing, int n, HlBuf *what);
  // Makes the arguments of the module, where the move is about these; NULL: they are those that go by the names.
  HlLiteral **(*make_args)(Reducer *r, const struct Move *move, const int *thing, int n,
                           HlBuf *what);
  bool one_by_one;  // never several
  bool header;      // it is about the header, which is left as it was made
  bool
      any_size;  // what comes out need not be less in instructions, or in those that are no parameters
  bool as_large;    // but not more
  bool first_only;  // after the first success the list is good no more
} Move;

// Tries a move, all things at once first, then halves, down to one; whether the module got less.
bool reduce_try(Reducer *r, Move *move);

// A copy of the best, in which instructions are found by name.
typedef struct Found {
  HlModule *m;  // NULL: reported
  HlArena *arena;
  Map by_name;  // of symbols of m
} Found;
Found reduce_open_copy(Reducer *r);
HlInst *reduce_find(const Found *f, const char *name);  // NULL: not there any more, or erased since
HlModule *reduce_close_copy(Found *f, bool changed);    // the copy, or NULL where nothing has changed

bool reduce_is_valid(Reducer *r, const HlModule *m);

// All of one value; NULL where there is no such value.
HlInst *reduce_plain_value(HlBuild *b, const HlShape *shape, double value);
// The leading part of an array, of a shape of as many dimensions.
HlLiteral *reduce_leading(HlCx *cx, const HlLiteral *from, const HlShape *shape);

// --- Moves: each looks at the best module, tries, says whether it got less (src/tool/shrink/reduce_*.c) ---------------
bool reduce_results(Reducer *r);     // elements of the result
bool reduce_entry(Reducer *r);       // another computation as the entry
bool reduce_cut(Reducer *r);         // instructions of the entry, whose values become parameters
bool reduce_inline(Reducer *r);      // fusions, calls, branches, loops that run once
bool reduce_operands(Reducer *r);    // instructions by an operand of theirs
bool reduce_zeros(Reducer *r);       // values by zeros
bool reduce_others(Reducer *r);      // values by others, and by ones
bool reduce_effects(Reducer *r);     // what nobody uses, though it has effects
bool reduce_sizes(Reducer *r);       // all dimensions of one size
bool reduce_dims(Reducer *r);        // one dimension, and what goes together with it
bool reduce_types(Reducer *r);       // element types
bool reduce_ranks(Reducer *r);       // dimensions of size 1
bool reduce_attributes(Reducer *r);  // attributes, and the header
bool reduce_constants(Reducer *r);   // values of constants
bool reduce_inputs(Reducer *r);      // values of arguments
bool reduce_names(Reducer *r);

// Takes out what nobody needs: dead instructions, computations, parameters, elements of loops' and fusions' tuples.
void reduce_clean(HlModule *m);
// And a schedule to what says it has one; the lists' order.
void reduce_schedule(HlModule *m);
// What the header of the best says of parameters and results that are in `m`, too.
void reduce_interface(const HlModule *best, HlModule *m);

// --- Values ---------------------------------------------------------------------------------------------
// Runs the module that came in a child and keeps what its instructions gave, as far as memory goes; it is no error if that
// fails.
bool values_record(Reducer *r);
void values_free(Values *values);
const HlLiteral *values_find(const Values *values, const char *name);
void values_alias(Reducer *r, const char *name,
                  const char *as);  // a copy of an instruction has the value of this
// Arguments for a module: those of the best by name, else what was recorded, else made up. New references, on the heap;
// NULL after reporting.
HlLiteral **values_args(Reducer *r, const HlModule *m);
void values_drop_args(HlLiteral **args, int n);  // NULL is fine

#endif
