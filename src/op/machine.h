// op/machine.h: scalar computations compiled to a list of steps, for loops whose iterations depend on each other.
//
// Comparators of sort and combiners of reduce, scatter and windows are a handful of scalar instructions that run once per
// element, each run depending on the one before. A machine has a cell per value. A step is the block function of the op
// that the tiles of an array go through (op/elementwise.h), over a tile of one: an op has one meaning, and a machine gives
// its bits. What is not here (complex numbers, transcendental functions, calls) makes machine_new return NULL, and the
// caller goes through the interpreter.
#ifndef HILO_OP_MACHINE_H
#define HILO_OP_MACHINE_H

#include "op/elementwise.h"

// An element as it is stored, in the low bytes; the others are zero.
typedef uint64_t Cell;
static inline Cell cell_load(HlDtype dtype, const void *data, int64_t k) {
  switch (hl_dtype_bytes(dtype)) {
  case 1: return ((const uint8_t *)data)[k];
  case 2: return ((const uint16_t *)data)[k];
  case 4: return ((const uint32_t *)data)[k];
  default: return ((const uint64_t *)data)[k];
  }
}
static inline void cell_store(HlDtype dtype, void *data, int64_t k, Cell cell) {
  switch (hl_dtype_bytes(dtype)) {
  case 1: ((uint8_t *)data)[k] = (uint8_t)cell; return;
  case 2: ((uint16_t *)data)[k] = (uint16_t)cell; return;
  case 4: ((uint32_t *)data)[k] = (uint32_t)cell; return;
  default: ((uint64_t *)data)[k] = cell;
  }
}

typedef struct Step {
  uint8_t what;  // machine.c
  bool compares;
  uint8_t n;          // operands
  uint8_t direction;  // of a comparison
  uint8_t dtype;      // of the result
  uint8_t from[EW_MAX_OPERANDS];
  int in[EW_MAX_OPERANDS], out;  // cells
  EwFn *fn;
  EwTile tile;  // of one: of cells that hold what the block computes in
} Step;
typedef struct Machine {
  Cell *cell;  // parameters first
  Step *step;
  int n_steps, n_params, n_results, n_cells;
  int *result;  // cells of the results
  bool *uses;   // which parameters matter
  int *wide;    // by cell: the cell of its value as blocks compute with it; 0: none
  HlDtype *param_dtype, *result_dtype;
} Machine;
// NULL when the computation has something that machines cannot do (nothing is reported).
Machine *machine_new(HlArena *arena, const HlComp *comp);
void machine_run(Machine *machine);
// A machine that runs beside another one, on another thread say, in memory of so many bytes, aligned as any: it has cells of its own.
size_t machine_copy_bytes(const Machine *machine);
Machine *machine_copy(const Machine *machine, void *memory);
// Whether a machine that folds n values has the types of the elements x (in[0..n-1]), of the inits
// (in[n..2n-1]) and of the results.
bool machine_folds(const Machine *machine, int n, const HlLiteral *const *in, HlLiteral *out);
static inline Cell machine_result(const Machine *m, int k) {
  return m->cell[m->result[k]];
}

// A comparator that is key(a) < key(b) or key(a) > key(b) of one operand: where the machine leaves the two keys after a
// run, and what makes of one a number or a float that compares like it.
typedef struct MachineKey {
  int operand;  // parameters 2 * operand and 2 * operand + 1
  int a, b;     // cells
  HlDtype dtype;
  bool is_float, is_total;  // compared as floats, in the total order of floats; else as integers
  bool up;                  // key(a) < key(b)
} MachineKey;
bool machine_find_key(HlArena *arena, const Machine *m, MachineKey *out);
typedef union KeyValue {
  double f;  // where is_float
  int64_t i;
} KeyValue;
KeyValue machine_key_value(const MachineKey *key, Cell cell);

#endif
