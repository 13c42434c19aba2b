// tests/support/places.c: instructions of a program's entry, each beside the interpreter.
#include "support/places.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hilo/isolate.h"
#include "hilo/tool.h"

Places places_new(HlCx *cx, const HlModule *m, const HlEvalOptions *eval, int devices) {
  Places p = {.cx = cx, .m = m, .eval = *eval, .devices = devices};
  p.eval.trace = NULL;
  p.value = calloc((size_t)devices + 1, sizeof *p.value);
  p.wire = calloc((size_t)devices + 1, sizeof *p.wire);
  for (int d = 0; d < devices; d++) {
    p.value[d] = calloc((size_t)m->entry->next_id + 1, sizeof **p.value);
    p.wire[d] = calloc((size_t)m->entry->next_id + 1, sizeof **p.wire);
  }
  return p;
}

void places_free(Places *p) {
  for (int d = 0; d < p->devices; d++) {
    for (uint32_t id = 0; id < p->m->entry->next_id; id++) {
      hl_literal_unref(p->value[d][id]);
      hl_literal_unref(p->wire[d][id]);
    }
    free(p->value[d]);
    free(p->wire[d]);
  }
  free(p->value);
  free(p->wire);
  *p = (Places){0};
}

void places_trace(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Places *p = user;
  if (inst->comp != p->m->entry)
    return;
  hl_literal_unref(p->value[device][inst->id]);
  p->value[device][inst->id] = hl_literal_copy(p->cx, value);
}

static const HlLiteral *value_of(const Places *p, int device, const HlInst *inst) {
  const HlLiteral *made = p->value[device][inst->id];
  return made ? made : p->wire[device][inst->id];
}

static bool say(const HlInst *inst, const char *what) {
  fprintf(stderr, "%s: %s\n", inst->name->text, what);
  return false;
}

// --- One instruction by itself ------------------------------------------------------------------

static HlLiteral *magnitudes(HlCx *cx, const HlLiteral *x) {
  HlLiteral *out = hl_literal_copy(cx, x);
  for (int64_t k = 0; !out->element && hl_is_float(out->shape->dtype) && k < out->n; k++)
    hl_literal_set_f64(out, k, fabs(hl_literal_f64(out, k)));
  return out;
}

// What the interpreter makes of an instruction from what the program had: of its operands as they are, or of their magnitudes.
static bool evaluate(const Places *p, const HlInst *inst, bool of_magnitudes, HlLiteral **out) {
  HlModule *alone = hl_isolate(p->cx, inst);
  if (!alone)
    return say(inst, "it cannot be looked at alone");
  HlLiteral ***args = calloc((size_t)p->devices + 1, sizeof *args);
  for (int d = 0; d < p->devices; d++) {
    int n = 0;
    args[d] = calloc(inst->n_operands + 1, sizeof **args);
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      bool is_first = true;
      for (uint32_t j = 0; j < k; j++)
        is_first = is_first && inst->operands[j] != inst->operands[k];
      const HlLiteral *value = value_of(p, d, inst->operands[k]);
      if (is_first)
        args[d][n++] = of_magnitudes ? magnitudes(p->cx, value) : hl_literal_ref(value);
    }
  }
  const bool ok = hl_eval(p->cx, alone, &p->eval, (const HlLiteral *const *const *)args, out);
  for (int d = 0; d < p->devices; d++) {
    for (uint32_t k = 0; k < inst->n_operands; k++)
      hl_literal_unref(args[d][k]);
    free(args[d]);
  }
  free(args);
  hl_module_free(alone);
  return ok || say(inst, "the interpreter does not run it alone");
}

static bool is_sum(const HlInst *inst) {
  if (inst->op == HL_OP_DOT)
    return true;
  if (inst->op != HL_OP_REDUCE || inst->n_operands != 2)
    return false;
  return hl_to_apply(inst)->root->op == HL_OP_ADD;
}

static double epsilon_of(HlDtype dtype) {
  switch (dtype) {
  case HL_F64: return DBL_EPSILON;
  case HL_F32: return FLT_EPSILON;
  default: return ldexp(1, -hl_dtype_info[dtype].format.mantissa_bits);
  }
}

// A sum of terms is known up to what the largest partial sums round to, and not at all where their magnitudes overflow.
static bool near_as_sum(const HlLiteral *actual, const HlLiteral *expected, const HlLiteral *total,
                        int64_t terms) {
  const double epsilon = epsilon_of(expected->shape->dtype) * (double)(terms + 4);
  for (int64_t k = 0; k < expected->n; k++) {
    const double a = hl_literal_f64(actual, k), e = hl_literal_f64(expected, k);
    const double bound = epsilon * hl_literal_f64(total, k);
    if (isfinite(bound) && !(fabs(a - e) <= bound))
      return false;
  }
  return true;
}

static int64_t terms_of(const HlInst *inst) {
  const HlShape *from = inst->operands[0]->shape;
  const HlI64s dims = inst->op == HL_OP_DOT ? hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS)
                                            : hl_attr_ints(inst, HL_A_DIMENSIONS);
  int64_t n = 1;
  for (int k = 0; k < dims.n; k++)
    n *= from->dim[dims.at[k]];
  return n;
}

static bool same_as_sum(const Places *p, const HlInst *inst, HlLiteral *const *expected) {
  if (!is_sum(inst) || !hl_is_float(inst->shape->dtype))
    return false;
  HlLiteral **total = calloc((size_t)p->devices + 1, sizeof *total);
  bool same = evaluate(p, inst, true, total);
  for (int d = 0; d < p->devices; d++) {
    same = same && near_as_sum(p->value[d][inst->id], expected[d], total[d], terms_of(inst));
    hl_literal_unref(total[d]);
  }
  free(total);
  return same;
}

// A solution whose numbers are too large for the type has been solved on in double by the interpreter, and with infinities by the
// program: nothing is known of it.
static bool near_as_solution(HlCx *cx, const HlInst *inst, const HlLiteral *actual,
                             const HlLiteral *expected) {
  const int rank = expected->shape->rank;
  const bool is_left = hl_attr_int(inst, HL_A_LEFT_SIDE) != 0;
  const int64_t rows = expected->shape->dim[rank - 2], columns = expected->shape->dim[rank - 1];
  const int64_t n = is_left ? rows : columns, step = is_left ? columns : 1;
  unsigned char *differs = calloc((size_t)expected->n + 1, 1);
  HlMismatch found;
  hl_compare(cx, 1, &actual, &expected, &(HlCompareOptions){.mask = differs}, &found);
  bool near = found.same_shape;
  for (int64_t k = 0; near && k < expected->n; k++) {
    const int64_t matrix = k - k % (rows * columns), at = k - matrix;
    const int64_t first = matrix + (is_left ? at % columns : at - at % columns);
    bool is_finite = true;
    for (int64_t i = 0; i < n; i++)
      is_finite = is_finite && isfinite(hl_literal_f64(expected, first + i * step)) &&
                  isfinite(hl_literal_imag(expected, first + i * step));
    near = !differs[k] || !is_finite;
  }
  free(differs);
  return near;
}

static bool same_as_solution(const Places *p, const HlInst *inst, HlLiteral *const *expected) {
  bool same = inst->op == HL_OP_TRIANGULAR_SOLVE;
  for (int d = 0; same && d < p->devices; d++)
    same = near_as_solution(p->cx, inst, p->value[d][inst->id], expected[d]);
  return same;
}

static bool same_values(HlCx *cx, const HlLiteral *actual, const HlLiteral *expected) {
  HlArena *arena = hl_arena_new();
  int n, n_expected;
  const HlLiteral **a = hl_flatten(arena, actual, &n);
  const HlLiteral **e = hl_flatten(arena, expected, &n_expected);
  HlMismatch *found = HL_ARRAY(arena, HlMismatch, n + 1);
  const HlCompareOptions usual = {.n_vectors = 0};
  const bool same = n == n_expected && hl_compare(cx, n, a, e, &usual, found);
  hl_arena_free(arena);
  return same;
}

// What the program has made of an instruction is right by its operands; or nothing: it is only passed on, and noted.
static bool look_at(Places *p, const HlInst *inst, const HlLiteral *const *const *args) {
  if (inst->op == HL_OP_PARAMETER) {
    for (int d = 0; d < p->devices; d++)
      p->wire[d][inst->id] = hl_literal_ref(args[d][hl_parameter_number(inst)]);
    return true;
  }
  HlLiteral **expected = calloc((size_t)p->devices + 1, sizeof *expected);
  bool ok = evaluate(p, inst, false, expected);
  bool made = true, same = ok;
  for (int d = 0; d < p->devices; d++)
    made = made && p->value[d][inst->id];
  for (int d = 0; same && made && d < p->devices; d++)
    same = same_values(p->cx, p->value[d][inst->id], expected[d]);
  if (ok && !same && !same_as_sum(p, inst, expected) && !same_as_solution(p, inst, expected))
    ok = say(inst, "the program makes something else of its operands");
  for (int d = 0; d < p->devices; d++) {
    if (!made)
      p->wire[d][inst->id] = hl_literal_ref(expected[d]);
    hl_literal_unref(expected[d]);
  }
  free(expected);
  return ok;
}

// --- The whole -----------------------------------------------------------------------------------

static void need(bool *needed, const HlInst *inst) {
  needed[inst->id] = true;
}

// Of a tuple the elements that are not the expected ones.
static bool start_at(const Places *p, bool *needed, HlLiteral *const *actual,
                     HlLiteral *const *expected) {
  const HlInst *root = p->m->entry->root;
  bool any = false;
  if (root->op != HL_OP_TUPLE) {
    need(needed, root);
    return true;
  }
  for (uint32_t k = 0; k < root->n_operands; k++)
    for (int d = 0; d < p->devices; d++)
      if (!hl_literal_equal(actual[d]->element[k], expected[d]->element[k])) {
        need(needed, root->operands[k]);
        any = true;
      }
  return any;
}

// The results that are looked at are what their places hold, to the bit.
static bool is_held(const Places *p, const bool *needed, HlLiteral *const *actual) {
  const HlInst *root = p->m->entry->root;
  for (int d = 0; d < p->devices; d++) {
    if (root->op != HL_OP_TUPLE && !hl_literal_equal(actual[d], value_of(p, d, root)))
      return say(root, "the result is not what was made there");
    for (uint32_t k = 0; root->op == HL_OP_TUPLE && k < root->n_operands; k++)
      if (needed[root->operands[k]->id] &&
          !hl_literal_equal(actual[d]->element[k], value_of(p, d, root->operands[k])))
        return say(root->operands[k], "the result is not what was made there");
  }
  return true;
}

bool places_explain(Places *p, const HlLiteral *const *const *args, HlLiteral *const *actual,
                    HlLiteral *const *expected) {
  const HlComp *entry = p->m->entry;
  bool *needed = calloc((size_t)entry->next_id + 1, sizeof *needed);
  bool ok = start_at(p, needed, actual, expected);
  for (const HlInst *inst = entry->last; ok && inst; inst = inst->prev)
    for (uint32_t k = 0; needed[inst->id] && k < inst->n_operands; k++)
      need(needed, inst->operands[k]);
  for (const HlInst *inst = entry->first; ok && inst; inst = inst->next)
    if (needed[inst->id])
      ok = look_at(p, inst, args);
  ok = ok && is_held(p, needed, actual);
  free(needed);
  return ok;
}
