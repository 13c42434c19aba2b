// Finds the results that hold eigen- or singular vectors, which are known up to sign or phase only.
//
// Each leaf of the entry's result is followed back, through tuples, calls, copies, selects (JAX puts
// nan where LAPACK failed), slices and transposes, to the custom call that made it.
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/tool.h"

enum { MAX_STEPS = 100000, MAX_DEPTH = 64, MAX_PATH = 64, COLUMNS = 1, ROWS = 2 };

typedef struct Trail {
  const HlInst *at;
  int64_t path[MAX_PATH];  // tuple indices still to be taken, innermost last
  int n_path;
  const HlInst *callers[MAX_DEPTH];
  int n_callers;
  bool transposed;
} Trail;

// What element `index` of a LAPACK call's result holds.
static int role_in_call(const HlInst *call, int64_t index) {
  const HlRoutineCall what = hl_routine_call(hl_attr_text(call, HL_A_CUSTOM_CALL_TARGET));
  const HlShape *shape = hl_shape_is_tuple(call->shape) && index < call->shape->rank
                             ? call->shape->element[index]
                             : call->shape;
  if (shape->rank < 2 || !hl_is_array_dtype(shape->dtype))
    return 0;
  const bool is_real = what.letter == 's' || what.letter == 'd';
  switch (what.routine) {
  case HL_ROUTINE_SYEVD: return index == 0 ? COLUMNS : 0;
  case HL_ROUTINE_GESDD:
  case HL_ROUTINE_GESVD: return index == 2 ? COLUMNS : index == 3 ? ROWS : 0;
  case HL_ROUTINE_GEEV: return index >= (is_real ? 2 : 1) ? COLUMNS : 0;
  default: return 0;
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

static int role_of(Trail *t) {
  for (int k = 0; k < MAX_STEPS && t->at; k++) {
    if (t->at->op == HL_OP_CUSTOM_CALL) {
      int role = role_in_call(t->at, t->n_path > 0 ? t->path[t->n_path - 1] : 0);
      return role == 0 || !t->transposed ? role : role == COLUMNS ? ROWS : COLUMNS;
    }
    if (!step(t))
      return 0;
  }
  return 0;
}

static void visit_leaves(const HlInst *root, const HlShape *shape, int64_t *path, int depth,
                         int *out, int *n) {
  if (shape->dtype == HL_TUPLE) {
    for (int k = 0; k < shape->rank && depth < MAX_PATH; k++) {
      path[depth] = k;
      visit_leaves(root, shape->element[k], path, depth + 1, out, n);
    }
    return;
  }
  if (!hl_is_array_dtype(shape->dtype))
    return;
  if (out) {
    Trail t = {.at = root, .n_path = depth};
    for (int k = 0; k < depth; k++)
      t.path[k] = path[depth - 1 - k];
    out[*n] = role_of(&t);
  }
  ++*n;
}

int *hl_vector_leaves(HlArena *arena, const HlModule *m, int *n) {
  int64_t path[MAX_PATH];
  *n = 0;
  visit_leaves(m->entry->root, m->entry->root->shape, path, 0, NULL, n);
  int *out = HL_ARRAY(arena, int, *n + 1);
  *n = 0;
  visit_leaves(m->entry->root, m->entry->root->shape, path, 0, out, n);
  return out;
}
