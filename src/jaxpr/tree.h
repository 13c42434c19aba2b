// tree.h: the parse tree of a jaxpr, private to src/jaxpr.
#ifndef HILO_JAXPR_TREE_H
#define HILO_JAXPR_TREE_H

#include "base/vec.h"
#include "hilo/jaxpr.h"

typedef struct Jaxpr Jaxpr;
typedef struct Eqn Eqn;
typedef struct Value Value;

// --- Types of variables ------------------------------------------------------------------------------

typedef enum AvalKind {
  AVAL_ARRAY,
  AVAL_KEY,    // key<fry>[2]: random keys
  AVAL_TOKEN,  // Tok
  AVAL_REF     // Ref{f32[4]}: mutable memory; dtype and sizes are of what it holds
} AvalKind;

typedef struct Aval {
  AvalKind kind;
  HlDtype dtype;  // of KEY: u32, what keys are made of
  int rank;
  const int64_t *dim;  // HL_UNBOUNDED: a symbolic size
  HlStr impl;          // KEY: "fry"
  HlStr text;
} Aval;

// Words of u32 in a key of an implementation; 0: not known.
int jx_key_words(HlStr impl);

// --- Operands ------------------------------------------------------------------------------------------

typedef enum AtomKind {
  ATOM_VAR,
  ATOM_BOOL,
  ATOM_INT,
  ATOM_FLOAT,
  ATOM_COMPLEX,
  ATOM_ELIDED
} AtomKind;

typedef struct Atom {
  AtomKind kind;
  HlLoc loc;
  int var;           // VAR: number within its jaxpr
  int64_t i;         // BOOL, INT (above INT64_MAX: the bits of a u64)
  double re, im;     // FLOAT, COMPLEX; INT too
  const Aval *aval;  // of a literal; NULL: not written
} Atom;

// --- Values of parameters ---------------------------------------------------------------------------------

typedef enum ValueKind {
  VALUE_WORD,  // None, float32, GatherScatterMode.CLIP, and whatever else Hilo need not understand
  VALUE_INT,
  VALUE_FLOAT,
  VALUE_STRING,  // text without its quotes
  VALUE_LIST,    // (..), [..], {..}: items, keys where `key: value` or `key=value` stands
  VALUE_CALL,    // Name(..): text is the name
  VALUE_JAXPR
} ValueKind;

struct Value {
  ValueKind kind;
  HlLoc loc;
  HlStr text;
  int64_t i;
  double f;
  int n;
  Value **item;
  HlStr *key;  // of each item; empty: none
  Jaxpr *jaxpr;
};

typedef struct Param {
  HlStr name;
  Value *value;
} Param;

// --- Equations and jaxprs -------------------------------------------------------------------------------------

typedef struct Binder {
  int var;
  bool dropped;      // `_`, a result that is not used, but may be mentioned
  const Aval *aval;  // NULL: not written
  HlLoc loc;
} Binder;

// How a reference is indexed: one a dimension, but for `...`.
typedef enum IndexKind {
  INDEX_REST,   // ...: all of the dimensions left over
  INDEX_RANGE,  // start:stop, or start:start+size where the start is an operand
  INDEX_POINT   // one place
} IndexKind;
typedef struct Index {
  IndexKind kind;
  int operand;  // the start's number among the operands; -1: `start`
  int64_t start;
  int64_t size;  // RANGE; -1: up to the end
} Index;

struct Eqn {
  Eqn *next;
  HlLoc loc, end;
  HlStr prim;
  int n_out, n_params;
  Binder *out;
  Param *param;
  VEC(Atom) in;
  VEC(Index) index;  // get, swap, addupdate: operands are the reference, starts, and what is written
  int depth, line;
};

typedef struct Shared {  // let NAME = JAXPR in
  HlStr name;
  Jaxpr *jaxpr;
} Shared;

struct Jaxpr {
  HlLoc loc;
  HlSyms *vars;  // names; a symbol's index is the variable's number
  int n_vars;
  int n_dropped;  // variables `_`, named _#0, _#1, ...
  int n_consts, n_in, n_out;
  Binder *constvar, *in;
  int first_const;     // number of the first constant among all of the text
  Jaxpr *next_closed;  // the next one with constants
  Atom *out;
  Eqn *first;
  int n_eqns;
  // Named jaxprs that may be mentioned inside, and where to look next.
  struct Scope *scope;
};

typedef struct Scope {
  struct Scope *outer;
  VEC(Shared) shared;
} Scope;

struct HlJaxpr {
  HlArena *arena;
  HlSource *source;
  HlShapes *shapes;
  Jaxpr *top;
  VEC(Eqn *) eqns;  // all, in the order of the text
  bool is_old;            // some literal has no type: printed before 2025
  bool is_dynamic;        // some size is a variable: f32[n,3], as JAX tried in 2022 and 2023
  const Binder **consts;  // of the top jaxpr, then of nested ones
  int n_consts;
};

// Parameters by name. The getters report what is missing or of another kind; `absent` ones do not.
const Value *jx_find_param(const Eqn *eqn, const char *name);  // NULL: not written
bool jx_value_is(const Value *value,
                 const char *word);  // a word, by its last part: "CLIP" of GatherScatterMode.CLIP
bool jx_value_is_none(const Value *value);                          // NULL too
const Value *jx_value_field(const Value *value, const char *name);  // of a call or list; NULL: none
bool jx_value_int(const Value *value, int64_t *out);
bool jx_value_bool(const Value *value, bool *out);
bool jx_value_ints(HlArena *arena, const Value *value, HlI64s *out);  // of a list; None: empty
// The jaxpr of a value: itself, or the one that its name stands for where `in` stands. NULL: none.
Jaxpr *jx_value_jaxpr(const Jaxpr *in, const Value *value);
HlDtype jx_dtype_of_word(HlStr word);  // int32, i32, bool, float8_e4m3fn; HL_NO_DTYPE: none

#endif
