// Finds the results that hold eigen- or singular vectors, which are known up to sign or phase only, and their values.
//
// Each leaf of the entry's result is followed back, through tuples, calls, copies, selects (JAX puts
// nan where LAPACK failed), slices and transposes, to the custom call that made it.
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/tool.h"

enum { MAX_STEPS = 100000, MAX_DEPTH = 64, MAX_PATH = 64 };
enum { NONE = HL_NO_VECTORS, COLUMNS = HL_VECTORS_COLUMNS, ROWS = HL_VECTORS_ROWS, VALUES };

typedef struct Trail {
  const HlInst *at;
  int64_t path[MAX_PATH];  // tuple indices still to be taken, innermost last
  int n_path;
  const HlInst *callers[MAX_DEPTH];
  int n_callers;
  bool transposed;
} Trail;

// What element `index` of the result of a LAPACK call, or of XLA's own "Eigh", holds.
static int role_in_call(const HlInst *call, int64_t index) {
  const HlRoutineCall what = hl_routine_call(hl_attr_text(call, HL_A_CUSTOM_CALL_TARGET));
  const bool is_real = what.letter == 's' || what.letter == 'd';
  const HlRoutine routine = hl_is_call(call, HL_CALL_EIGH) ? HL_ROUTINE_SYEVD : what.routine;
  switch (routine) {
  case HL_ROUTINE_SYEVD:
  case HL_ROUTINE_SYEVJ: return index == 0 ? COLUMNS : index == 1 ? VALUES : NONE;
  case HL_ROUTINE_GESDD:
  case HL_ROUTINE_GESVD:
    return index == 1 ? VALUES : index == 2 ? COLUMNS : index == 3 ? ROWS : NONE;
  case HL_ROUTINE_GESVDJ: return index == 1 ? VALUES : index == 2 || index == 3 ? COLUMNS : NONE;
  case HL_ROUTINE_GEEV: return index >= (is_real ? 2 : 1) ? COLUMNS : NONE;
  default: return NONE;
  }
}

// Whether a transpose swaps the last two dimensions only.
static bool swaps_last_two(HlI64s dims) {
  for (int k = 0; k < dims.n - 2; k++)
    if (dims.at[k] != k)
      return false;
  return dims.n >= 2 && dims.at[dims.n - 1] == dims.n - 2;
}

static bool keeps_last_two(const HlInst *reshape) {
  const HlShape *a = reshape->operands[0]->shape, *b = reshape->shape;
  return a->rank >= 2 && b->rank >= 2 && a->dim[a->rank - 1] == b->dim[b->rank - 1] &&
         a->dim[a->rank - 2] == b->dim[b->rank - 2];
}

static bool enter_call(Trail *t) {
  if (t->n_callers == MAX_DEPTH || t->at->n_calls == 0)
    return false;
  t->callers[t->n_callers++] = t->at;
  t->at = hl_called(t->at, 0)->root;
  return true;
}

static bool leave_call(Trail *t) {
  int64_t number = hl_parameter_number(t->at);
  if (t->n_callers == 0 || number >= (int64_t)t->callers[t->n_callers - 1]->n_operands)
    return false;
  t->at = t->callers[--t->n_callers]->operands[number];
  return true;
}

static bool to_operand(Trail *t, int k) {
  t->at = t->at->operands[k];
  return true;
}

// One step back; false where the trail ends.
static bool step(Trail *t) {
  const HlInst *at = t->at;
  switch ((HlOp)at->op) {
  case HL_OP_TUPLE: return t->n_path > 0 && to_operand(t, (int)t->path[--t->n_path]);
  case HL_OP_GET_TUPLE_ELEMENT:
    if (t->n_path == MAX_PATH)
      return false;
    t->path[t->n_path++] = hl_attr_int(at, HL_A_INDEX);
    return to_operand(t, 0);
  case HL_OP_COPY:
  case HL_OP_OPT_BARRIER:
  case HL_OP_CONVERT:
  case HL_OP_SLICE: return to_operand(t, 0);
  case HL_OP_SELECT: return to_operand(t, 1);
  case HL_OP_RESHAPE:
  case HL_OP_BITCAST: return keeps_last_two(at) && to_operand(t, 0);
  case HL_OP_TRANSPOSE:
    if (!swaps_last_two(hl_dims(at)))
      return false;
    t->transposed = !t->transposed;
    return to_operand(t, 0);
  case HL_OP_CALL:
  case HL_OP_FUSION: return enter_call(t);
  case HL_OP_PARAMETER: return leave_call(t);
  default: return false;
  }
}

// Where a trail ends, and what it found there.
typedef struct End {
  int role;
  const HlInst *call, **callers;
  int n_callers;
} End;

static End end_of(HlArena *arena, Trail *t) {
  End end = {.role = NONE};
  for (int k = 0; k < MAX_STEPS && t->at && t->at->op != HL_OP_CUSTOM_CALL; k++)
    if (!step(t))
      return end;
  if (!t->at || t->at->op != HL_OP_CUSTOM_CALL)
    return end;
  end.role = role_in_call(t->at, t->n_path > 0 ? t->path[t->n_path - 1] : 0);
  if (t->transposed && (end.role == COLUMNS || end.role == ROWS))
    end.role = end.role == COLUMNS ? ROWS : COLUMNS;
  end.call = t->at;
  end.n_callers = t->n_callers;
  end.callers = HL_ARRAY(arena, const HlInst *, t->n_callers + 1);
  memcpy(end.callers, t->callers, (size_t)t->n_callers * sizeof *end.callers);
  return end;
}

static bool is_same_call(const End *a, const End *b) {
  return a->call == b->call && a->n_callers == b->n_callers &&
         memcmp(a->callers, b->callers, (size_t)a->n_callers * sizeof *a->callers) == 0;
}

static void visit_leaves(HlArena *arena, const HlInst *root, const HlShape *shape, int64_t *path,
                         int depth, End *out, int *n) {
  if (shape->dtype == HL_TUPLE) {
    for (int k = 0; k < shape->rank && depth < MAX_PATH; k++) {
      path[depth] = k;
      visit_leaves(arena, root, shape->element[k], path, depth + 1, out, n);
    }
    return;
  }
  if (!hl_is_array_dtype(shape->dtype))
    return;
  if (out) {
    Trail t = {.at = root, .n_path = depth};
    for (int k = 0; k < depth; k++)
      t.path[k] = path[depth - 1 - k];
    out[*n] = end_of(arena, &t);
  }
  ++*n;
}

static HlVectorLeaf leaf_of(const End *ends, int n, int k) {
  HlVectorLeaf leaf = {.values = -1};
  if (ends[k].role != COLUMNS && ends[k].role != ROWS)
    return leaf;
  leaf.kind = ends[k].role;
  for (int v = 0; v < n && leaf.values < 0; v++)
    if (ends[v].role == VALUES && is_same_call(&ends[v], &ends[k]))
      leaf.values = v;
  return leaf;
}

HlVectorLeaf *hl_vector_leaves(HlArena *arena, const HlModule *m, int *n) {
  int64_t path[MAX_PATH];
  *n = 0;
  visit_leaves(arena, m->entry->root, m->entry->root->shape, path, 0, NULL, n);
  End *ends = HL_ARRAY(arena, End, *n + 1);
  *n = 0;
  visit_leaves(arena, m->entry->root, m->entry->root->shape, path, 0, ends, n);
  HlVectorLeaf *out = HL_ARRAY(arena, HlVectorLeaf, *n + 1);
  for (int k = 0; k < *n; k++)
    out[k] = leaf_of(ends, *n, k);
  return out;
}
