// What the rows of ops.def say of arrays is so, for instructions of random modules run alone: which elements go where
// (facts `elements`, trait ONCE), how dimensions go together (column `dims`), in what an op is linear, what may be
// written in place.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/isolate.h"
#include "hilo/op.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/verify.h"
#include "support/property.h"

enum { MODULES = 420, MOST_TRIES = 40, MOST_OPERANDS = 16, MOST_ELEMENTS = 4000, POKES = 6 };

// How often each op was tried, and how often a change of an operand was seen in the result.
static int tried[HL_OP_COUNT], seen_change[HL_OP_COUNT];

typedef struct Alone {  // one instruction as a module of its own
  HlCx *cx;
  HlArena *arena;
  HlModule *m;
  const HlInst *inst;
  int n, n_leaves;
  HlLiteral *in[MOST_OPERANDS];
  HlLiteral *out;
  HlRng rng;
  char *why;
  size_t room;
} Alone;

static bool says(const Alone *a, const char *what, int k) {
  snprintf(a->why, a->room, "%s: %s (operand %d)", hl_op_text((HlOp)a->inst->op), what, k);
  return false;
}

// --- Running --------------------------------------------------------------------------------------------

static bool is_small_array(const HlShape *shape) {
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape) &&
         hl_shape_elements(shape) <= MOST_ELEMENTS;
}

static bool can_try(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (hl_op_is(op, HL_T_ELEMENTWISE | HL_T_COLLECTIVE | HL_T_SIDE_EFFECT | HL_T_CONTROL) ||
      hl_is_async(op) || hl_has_side_effect(inst) || op == HL_OP_CUSTOM_CALL ||
      op == HL_OP_FUSION || inst->n_operands == 0 || inst->n_operands > MOST_OPERANDS)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    if (!is_small_array(inst->operands[k]->shape))
      return false;
    for (uint32_t j = 0; j < k; j++)  // would become one parameter
      if (inst->operands[j] == inst->operands[k])
        return false;
  }
  for (int64_t k = 0; k < hl_shape_leaves(inst->shape); k++)
    if (!is_small_array(hl_leaf_shape(inst->shape, k)))
      return false;
  return true;
}

static HlLiteral *run_with(Alone *a, HlLiteral *const *in) {
  return hl_eval_comp(a->cx, a->m->entry, (const HlLiteral *const *)in, a->n);
}

static const HlLiteral *leaf_of(const HlLiteral *value, int k) {
  return hl_shape_is_tuple(value->shape) ? value->element[k] : value;
}

static bool open_alone(Alone *a, HlCx *cx, const HlInst *inst, uint64_t seed) {
  *a = (Alone){.cx = cx, .arena = hl_arena_new(), .rng = {seed}};
  a->m = hl_isolate(cx, inst);
  if (!a->m)
    return false;
  a->inst = a->m->entry->root;
  a->n = (int)a->inst->n_operands;
  a->n_leaves = (int)hl_shape_leaves(a->inst->shape);
  HlLiteral *args[MOST_OPERANDS];
  if (!hl_fake_args(cx, a->m, seed, args))
    return false;
  memcpy(a->in, args, (size_t)a->n * sizeof *args);
  a->out = run_with(a, a->in);
  return a->out != NULL;
}

static void close_alone(Alone *a) {
  for (int k = 0; k < a->n; k++)
    hl_literal_unref(a->in[k]);
  hl_literal_unref(a->out);
  hl_module_free(a->m);
  hl_arena_free(a->arena);
}

// --- Elements -------------------------------------------------------------------------------------------

static bool same_element(const HlLiteral *x, int64_t i, const HlLiteral *y, int64_t k) {
  const size_t width = (size_t)hl_dtype_bytes(x->shape->dtype);
  return memcmp((const char *)x->data + (size_t)i * width,
                (const char *)y->data + (size_t)k * width, width) == 0;
}

static void set_number(HlLiteral *x, int64_t k, double value) {
  if (hl_is_complex(x->shape->dtype))
    hl_literal_set_complex(x, k, value, 0);
  else if (hl_is_float(x->shape->dtype))
    hl_literal_set_f64(x, k, value);
  else
    hl_literal_set_i64(x, k, (int64_t)value);
}

// The same with its order turned over: an element's place must not depend on its value.
static HlLiteral *turned_over(Alone *a, const HlLiteral *x) {
  HlLiteral *out = hl_literal_copy(a->cx, x);
  const HlDtype type = x->shape->dtype;
  for (int64_t k = 0; k < x->n; k++)
    if (hl_is_complex(type))
      hl_literal_set_complex(out, k, -hl_literal_f64(x, k), -hl_literal_imag(x, k));
    else if (hl_is_float(type))
      hl_literal_set_f64(out, k, -hl_literal_f64(x, k));
    else
      hl_literal_set_i64(out, k, type == HL_PRED ? !hl_literal_i64(x, k) : ~hl_literal_i64(x, k));
  return out;
}

// Whether minus an element is an element.
static bool has_sign(HlDtype type) {
  return type != HL_F8E8M0FNU;
}

static bool elements_stay(Alone *a) {
  const HlOp op = (HlOp)a->inst->op;
  const uint8_t set = hl_op_facts(op)->elements;
  const HlLiteral *out = leaf_of(a->out, 0);
  for (int k = 0; k < a->n; k++)
    if (hl_operand_in(set, k, a->n_leaves) && a->in[k]->shape->dtype != out->shape->dtype)
      return op == HL_OP_BITCAST || says(a, "elements of another type", k);
  for (int64_t i = 0; i < out->n; i++) {
    bool found = false;
    for (int k = 0; k < a->n && !found; k++)
      for (int64_t j = 0; hl_operand_in(set, k, a->n_leaves) && j < a->in[k]->n && !found; j++)
        found = same_element(out, i, a->in[k], j);
    if (!found)
      return says(a, "the result has an element that no operand has", -1);
  }
  if (!hl_op_moves(op) || !has_sign(out->shape->dtype))
    return true;
  HlLiteral *in[MOST_OPERANDS];
  for (int k = 0; k < a->n; k++)
    in[k] =
        hl_operand_in(set, k, a->n_leaves) ? turned_over(a, a->in[k]) : hl_literal_ref(a->in[k]);
  HlLiteral *got = run_with(a, in), *want = turned_over(a, out);
  bool good = got && hl_literal_equal(got, want);
  for (int k = 0; k < a->n; k++)
    hl_literal_unref(in[k]);
  hl_literal_unref(got);
  hl_literal_unref(want);
  return good || says(a, "where elements go depends on their values", -1);
}

// Numbers the elements of all operands; no number may come out twice.
static bool each_once(Alone *a) {
  HlLiteral *in[MOST_OPERANDS];
  int64_t next = 0;
  bool distinct = true, good = true;
  for (int k = 0; k < a->n; k++) {
    in[k] = hl_literal_copy(a->cx, a->in[k]);
    const bool numbered = hl_operand_in(hl_op_facts((HlOp)a->inst->op)->elements, k, a->n_leaves);
    for (int64_t i = 0; numbered && i < in[k]->n; i++, next++) {
      set_number(in[k], i, (double)next);
      distinct = distinct && hl_literal_f64(in[k], i) == (double)next;
    }
  }
  HlLiteral *out = distinct ? run_with(a, in) : NULL;
  for (int64_t i = 0; out && i < out->n; i++)
    for (int64_t j = 0; j < i; j++)
      good = good && !same_element(out, i, out, j);
  for (int k = 0; k < a->n; k++)
    hl_literal_unref(in[k]);
  hl_literal_unref(out);
  return good || says(a, "an element stands twice in the result", -1);
}

// --- Dimensions -----------------------------------------------------------------------------------------

// The place along each factor that element `at` of a tensor has; -1: the tensor does not have it.
static int64_t *places(Alone *a, const HlFactors *rule, int tensor, const HlShape *shape,
                       int64_t at) {
  int64_t *place = HL_ARRAY(a->arena, int64_t, rule->n + 1);
  for (int f = 0; f < rule->n; f++)
    place[f] = -1;
  for (int d = shape->rank - 1; d >= 0; d--) {
    int64_t left = at % shape->dim[d];
    at /= shape->dim[d];
    const HlDimFactors *list = &rule->tensor[tensor].dim[d];
    for (int k = list->n - 1; k >= 0; k--) {
      const int64_t size = rule->factor[list->at[k]].size;
      place[list->at[k]] = k > 0 ? left % size : left;
      left /= size > 0 ? size : 1;
    }
  }
  return place;
}

// Factors of a dimension multiply to its size, but for one whose kind allows another.
static bool sizes_fit(const Alone *a, const HlFactors *rule, int tensor, const HlShape *shape) {
  for (int d = 0; d < shape->rank; d++) {
    const HlDimFactors *list = &rule->tensor[tensor].dim[d];
    int64_t size = 1;
    bool passed = list->n > 0;
    for (int k = 0; k < list->n; k++) {
      size *= rule->factor[list->at[k]].size;
      passed = passed && rule->factor[list->at[k]].kind != HL_FACTOR_MIXED;
    }
    if (passed && size != shape->dim[d])
      return says(a, "factors do not make up a dimension", tensor);
  }
  return true;
}

static int dim_with(const HlTensorFactors *tensor, int factor) {
  for (int d = 0; d < tensor->rank; d++)
    for (int k = 0; k < tensor->dim[d].n; k++)
      if (tensor->dim[d].at[k] == factor)
        return d;
  return -1;
}

static HlLiteral *poked(Alone *a, int k, int64_t at) {
  HlLiteral *x = hl_literal_copy(a->cx, a->in[k]);
  const double value = hl_literal_f64(x, at);
  if (hl_is_float(x->shape->dtype) || hl_is_complex(x->shape->dtype))
    set_number(x, at, value == 1 ? 2 : 1);
  else
    set_number(x, at, value == 0 ? 1 : 0);
  return x;
}

// One element of operand k changed: result elements at other places along a factor passed on stay.
static bool poke(Alone *a, const HlFactors *rule, int k, int64_t at) {
  HlLiteral *in[MOST_OPERANDS];
  memcpy(in, a->in, sizeof in);
  in[k] = poked(a, k, at);
  HlLiteral *out = run_with(a, in);
  bool good = out != NULL;
  const int64_t *from = places(a, rule, k, a->in[k]->shape, at);
  for (int leaf = 0; good && leaf < a->n_leaves; leaf++) {
    const HlLiteral *was = leaf_of(a->out, leaf), *is = leaf_of(out, leaf);
    for (int64_t i = 0; good && i < was->n; i++) {
      if (same_element(was, i, is, i))
        continue;
      seen_change[a->inst->op]++;
      const int64_t *to = places(a, rule, rule->n_operands + leaf, was->shape, i);
      for (int f = 0; f < rule->n; f++)
        if (rule->factor[f].kind == HL_FACTOR_PASSED && from[f] >= 0 && to[f] >= 0)
          good = good && from[f] == to[f];
    }
  }
  hl_literal_unref(in[k]);
  hl_literal_unref(out);
  return good || says(a, "a change was seen at another place along a dimension passed on", k);
}

// A factor of dimension d of operand 0 stands in no other dimension of a result.
static bool is_aligned(Alone *a, const HlFactors *rule) {
  for (int leaf = 0; leaf < a->n_leaves; leaf++)
    for (int f = 0; f < rule->n; f++) {
      const int from = dim_with(&rule->tensor[0], f);
      const int to = dim_with(&rule->tensor[rule->n_operands + leaf], f);
      if (from >= 0 && to >= 0 && from != to)
        return says(a, "not aligned", 0);
    }
  return true;
}

static bool dims_hold(Alone *a) {
  HlFactors rule;
  if (!hl_factors_of(a->arena, a->inst, &rule))
    return true;
  if (hl_op_is((HlOp)a->inst->op, HL_T_ALIGNED) && !is_aligned(a, &rule))
    return false;
  for (int k = 0; k < a->n; k++)
    if (!sizes_fit(a, &rule, k, a->in[k]->shape))
      return false;
  for (int k = 0; k < a->n_leaves; k++)
    if (!sizes_fit(a, &rule, a->n + k, hl_leaf_shape(a->inst->shape, k)))
      return false;
  for (int k = 0; k < a->n; k++)
    for (int times = 0; times < POKES && a->in[k]->n > 0 && a->in[k]->shape->rank > 0; times++)
      if (!poke(a, &rule, k, hl_rng_below(&a->rng, a->in[k]->n)))
        return false;
  return true;
}

// --- Between devices, and what random modules lack ---------------------------------------------------------

// An instruction as a program for devices, run with made-up operands.
typedef struct Program {
  HlCx *cx;
  HlArena *arena;
  HlModule *m;
  const HlInst *inst;
  HlFactors rule;
  int n_devices;
  HlLiteral *in[4][MOST_OPERANDS], *out[4];
} Program;

static void run_program(Program *p, HlLiteral **out) {
  const HlLiteral *const *args[4];
  for (int d = 0; d < p->n_devices; d++)
    args[d] = (const HlLiteral *const *)p->in[d];
  if (!hl_eval(p->cx, p->m, NULL, args, out))
    fail_msg("%s: %s", p->inst->name->text, hl_cx_diag(p->cx, 0)->text);
}

static void open_program(Program *p, const char *text) {
  *p = (Program){.cx = hl_cx_new(), .arena = hl_arena_new()};
  p->m = hl_text_parse(p->cx, text);
  if (!p->m || !hl_verify(p->cx, p->m, NULL))
    fail_msg("%s\n%s", text, hl_cx_n_diags(p->cx) ? hl_cx_diag(p->cx, 0)->text : "");
  p->inst = p->m->entry->root;
  if (!hl_factors_of(p->arena, p->inst, &p->rule))
    fail_msg("no rule: %s", text);
  p->n_devices = hl_eval_devices(p->m, NULL);
  assert_true(p->n_devices <= HL_COUNT_OF(p->out));
  for (int d = 0; d < p->n_devices; d++)
    assert_true(hl_fake_args(p->cx, p->m, 1, p->in[d]));
  run_program(p, p->out);
}

static void close_program(Program *p) {
  for (int d = 0; d < p->n_devices; d++) {
    for (int k = 0; k < p->m->entry->n_params; k++)
      hl_literal_unref(p->in[d][k]);
    hl_literal_unref(p->out[d]);
  }
  hl_module_free(p->m);
  hl_arena_free(p->arena);
  hl_cx_free(p->cx);
}

// One element of an operand changed on one device: what changes on any device lies at its place along all factors
// passed on. Returns how many elements changed.
static int poke_program(Program *p, Alone *a, int device, int k, int64_t at) {
  HlLiteral *was = p->in[device][k], *out[4];
  int changed = 0;
  a->in[k] = was;
  p->in[device][k] = poked(a, k, at);
  run_program(p, out);
  const int64_t *from = places(a, &p->rule, k, was->shape, at);
  for (int d = 0; d < p->n_devices; d++) {
    for (int leaf = 0; leaf < p->rule.n_results; leaf++) {
      const HlLiteral *x = leaf_of(p->out[d], leaf), *y = leaf_of(out[d], leaf);
      for (int64_t i = 0; i < x->n; i++) {
        if (same_element(x, i, y, i))
          continue;
        changed++;
        const int64_t *to = places(a, &p->rule, p->rule.n_operands + leaf, x->shape, i);
        for (int f = 0; f < p->rule.n; f++)
          if (p->rule.factor[f].kind == HL_FACTOR_PASSED && from[f] >= 0 && to[f] >= 0 &&
              from[f] != to[f])
            fail_msg("%s: operand %d, element %d changes element %d of result %d: factor %d",
                     hl_op_text((HlOp)p->inst->op), k, (int)at, (int)i, leaf, f);
      }
    }
    hl_literal_unref(out[d]);
  }
  hl_literal_unref(p->in[device][k]);
  p->in[device][k] = was;
  return changed;
}

// How many pairs of dimensions of operand k and the result go together, and are not mixed.
static int n_shared(const HlFactors *rule, int k) {
  int n = 0;
  for (int f = 0; f < rule->n; f++)
    n += rule->factor[f].kind == HL_FACTOR_PASSED && dim_with(&rule->tensor[k], f) >= 0 &&
         dim_with(&rule->tensor[rule->n_operands], f) >= 0;
  return n;
}

// Operands are p0, p1, ...: parameters of these shapes, or constants.
static const struct {
  int devices;
  const char *operand[6], *root;
  int shared;  // parts of dimensions that operand 0 and the first result have in common
} programs[] = {
#define GROUP "replica_groups={{0,1}}"
    {2, {"f32[3,4]"}, "f32[3,4] all-reduce(p0), to_apply=add, " GROUP, 2},
    {2, {"f32[3,4]", "f32[5]"}, "(f32[3,4], f32[5]) all-reduce(p0, p1), to_apply=add, " GROUP, 2},
    {2, {"f32[3,4]"}, "f32[3,8] all-gather(p0), dimensions={1}, " GROUP, 2},
    {2, {"f32[3,4]"}, "f32[3,2] reduce-scatter(p0), dimensions={1}, to_apply=add, " GROUP, 2},
    {2, {"f32[3,4]"}, "f32[3,4] all-to-all(p0), dimensions={1}, " GROUP, 1},
    {2, {"f32[3,4]", "f32[3,4]"}, "(f32[3,4], f32[3,4]) all-to-all(p0, p1), " GROUP, 2},
    {2, {"f32[3,4]"}, "f32[3,4] collective-permute(p0), source_target_pairs={{0,1},{1,0}}", 2},
    {2, {"f32[3,4]"}, "f32[3,4] collective-broadcast(p0), " GROUP, 2},
    {2,
     {"f32[4,3]", "f32[6,3]", "s32[2] constant({0, 2})", "s32[2] constant({2, 2})",
      "s32[2] constant({0, 3})", "s32[2] constant({2, 2})"},
     "f32[6,3] ragged-all-to-all(p0, p1, p2, p3, p4, p5), " GROUP,
     1},
    {1,
     {"f32[5,3]", "f32[3]"},
     "(f32[5,3], f32[3]) scan(p0, p1), dimensions={0}, num_carries=1, to_apply=step",
     0},
    {1, {"f32[4,3]"}, "f32[4,3] opt-barrier(p0)", 2},
    {1, {"f32[4,6]{1,0}"}, "f32[2,2,6]{2,1,0} bitcast(p0)", 3},
    {1, {"f32[4,6]{0,1}"}, "f32[6,2,2]{2,1,0} bitcast(p0)", 3},
#define RAGGED "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims="
    {1,
     {"f32[2,5,3]", "f32[4,3,6]", "s32[4] constant({1, 0, 1, 1})"},
     "f32[2,5,6] ragged-dot(p0, p1, p2), " RAGGED "{1}, rhs_group_dims={0}",
     2},
    {1,
     {"f32[2,5,3]", "f32[2,3,6]", "s32[4] constant({1, 0, 1, 1})"},
     "f32[4,2,5,6] ragged-dot(p0, p1, p2), " RAGGED "{2}, lhs_batch_dims={0}, rhs_batch_dims={0}",
     2},
    {1,
     {"f32[2,5,3]", "f32[2,3,6]", "s32[4] constant({1, 0, 1, 1})"},
     "f32[2,5,6] ragged-dot(p0, p1, p2), " RAGGED "{0}, lhs_batch_dims={0}, rhs_batch_dims={0}",
     2},
#define CONTRACTS "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    {1,
     {"f32[4,8]", "f32[8,6]", "f32[2,4]", "f32[4,3]"},
     "f32[4,6] scaled-dot(p0, p1, p2, p3), " CONTRACTS,
     2},
    {1,
     {"f32[4,8]", "f32[8,6]", "f32[4,2]", "f32[4,1]"},
     "f32[4,6] scaled-dot(p0, p1, p2, p3), " CONTRACTS,
     1},
};

static void open_nth(Program *p, int n) {
  HlBuf text = {0};
  hl_buf_printf(&text, "HloModule m, replica_count=%d\n", programs[n].devices);
  if (strstr(programs[n].root, "to_apply=add"))
    hl_buf_puts(
        &text,
        "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT a = f32[] add(x, y) }\n");
  if (strstr(programs[n].root, "to_apply=step"))
    hl_buf_puts(&text,
                "step { x = f32[3] parameter(0)\n c = f32[3] parameter(1)\n s = f32[3] add(x, c)\n"
                " ROOT t = (f32[3], f32[3]) tuple(s, s) }\n");
  hl_buf_puts(&text, "ENTRY e {\n");
  for (int k = 0; k < HL_COUNT_OF(programs[n].operand) && programs[n].operand[k]; k++)
    if (strstr(programs[n].operand[k], "constant"))
      hl_buf_printf(&text, " p%d = %s\n", k, programs[n].operand[k]);
    else
      hl_buf_printf(&text, " p%d = %s parameter(%d)\n", k, programs[n].operand[k], k);
  hl_buf_printf(&text, " ROOT r = %s\n}\n", programs[n].root);
  open_program(p, text.at);
  hl_buf_free(&text);
}

static void dims_of_programs_hold(void **state) {
  for (int n = 0; n < HL_COUNT_OF(programs); n++) {
    Program p;
    open_nth(&p, n);
    char why[256];
    Alone a = {.arena = p.arena,
               .cx = p.cx,
               .inst = p.inst,
               .n = p.rule.n_operands,
               .rng = {1},
               .why = why,
               .room = sizeof why};
    if (n_shared(&p.rule, 0) != programs[n].shared)
      fail_msg("%s: %d dimensions go together", programs[n].root, n_shared(&p.rule, 0));
    for (int k = 0; k < a.n + p.rule.n_results; k++)
      if (!sizes_fit(&a, &p.rule, k,
                     k < a.n ? p.inst->operands[k]->shape : hl_leaf_shape(p.inst->shape, k - a.n)))
        fail_msg("%s: %s", programs[n].root, why);
    int changed = 0;
    for (int d = 0; d < p.n_devices; d++)
      for (int k = 0; k < p.m->entry->n_params; k++)
        for (int64_t at = 0; hl_is_float(p.in[d][k]->shape->dtype) && at < p.in[d][k]->n; at++)
          changed += poke_program(&p, &a, d, k, at);
    if (changed == 0)
      fail_msg("%s: nothing changed", programs[n].root);
    close_program(&p);
  }
}

// --- Linearity --------------------------------------------------------------------------------------------

static bool is_exact_enough(HlDtype type) {
  return type == HL_F32 || type == HL_F64 || type == HL_C64 || type == HL_C128;
}

static HlLiteral *combined(Alone *a, const HlLiteral *x, double scale, const HlLiteral *y) {
  HlLiteral *out = hl_literal_new(a->cx, x->shape);
  for (int64_t k = 0; k < x->n; k++) {
    const double re = hl_literal_f64(x, k) + scale * hl_literal_f64(y, k);
    if (hl_is_complex(x->shape->dtype))
      hl_literal_set_complex(out, k, re, hl_literal_imag(x, k) + scale * hl_literal_imag(y, k));
    else
      hl_literal_set_f64(out, k, re);
  }
  return out;
}

static double size_of(const HlLiteral *x) {
  double most = 1;
  for (int64_t k = 0; k < x->n; k++)
    most = fmax(most, fmax(fabs(hl_literal_f64(x, k)), fabs(hl_literal_imag(x, k))));
  return most;
}

static bool is_near(const HlLiteral *x, const HlLiteral *y) {
  const double slack = 1e-3 * size_of(y);
  for (int64_t k = 0; k < x->n; k++) {
    const double re = hl_literal_f64(x, k) - hl_literal_f64(y, k);
    const double im = hl_literal_imag(x, k) - hl_literal_imag(y, k);
    if (fabs(re) > slack || fabs(im) > slack)  // not so of nan
      return false;
  }
  return true;
}

static bool is_linear(Alone *a, uint8_t set) {
  HlLiteral *y[MOST_OPERANDS], *sum[MOST_OPERANDS], *fy = NULL, *fsum = NULL, *want = NULL;
  for (int k = 0; k < a->n; k++)
    if (hl_operand_in(set, k, a->n_leaves) && !is_exact_enough(a->in[k]->shape->dtype))
      return true;
  if (a->n_leaves != 1 || !is_exact_enough(leaf_of(a->out, 0)->shape->dtype) ||
      !hl_fake_args(a->cx, a->m, 77, y))
    return true;
  for (int k = 0; k < a->n; k++) {
    const bool moves = hl_operand_in(set, k, a->n_leaves);
    if (!moves) {
      hl_literal_unref(y[k]);
      y[k] = hl_literal_ref(a->in[k]);
    }
    sum[k] = moves ? combined(a, a->in[k], 2, y[k]) : hl_literal_ref(a->in[k]);
  }
  fy = run_with(a, y);
  fsum = run_with(a, sum);
  want = fy ? combined(a, a->out, 2, fy) : NULL;
  const bool good = fsum && want && is_near(fsum, want);
  for (int k = 0; k < a->n; k++) {
    hl_literal_unref(y[k]);
    hl_literal_unref(sum[k]);
  }
  hl_literal_unref(fy);
  hl_literal_unref(fsum);
  hl_literal_unref(want);
  return good || says(a, "not linear in what it says it is", set);
}

static bool linearity_holds(Alone *a) {
  const HlOp op = (HlOp)a->inst->op;
  if (hl_op_linear(op) && !is_linear(a, hl_op_linear(op)))
    return false;
  for (int k = 0; k < a->n && k < 4; k++)
    if ((hl_op_facts(op)->multilinear >> k & 1) && !is_linear(a, (uint8_t)(1 << k)))
      return false;
  return true;
}

// --- All modules ------------------------------------------------------------------------------------------

static bool in_place_fits(const HlInst *inst) {
  const uint8_t set = hl_op_facts((HlOp)inst->op)->in_place;
  const int n_leaves = (int)hl_shape_leaves(inst->shape);
  for (int k = 0; k < (int)inst->n_operands; k++)
    if (hl_operand_in(set, k, n_leaves)) {
      const HlShape *leaf = hl_leaf_shape(inst->shape, set & HL_LEADING ? k : 0);
      if (leaf && !hl_shape_same_dims(leaf, inst->operands[k]->shape))
        return false;
    }
  return true;
}

static bool facts_hold(HlCx *cx, const HlInst *inst, uint64_t seed, char *why, size_t room) {
  Alone a;
  if (!open_alone(&a, cx, inst, seed)) {
    close_alone(&a);
    return true;  // property.shapes runs whole modules
  }
  a.why = why;
  a.room = room;
  tried[inst->op]++;
  const bool good = (!hl_op_facts((HlOp)inst->op)->elements || elements_stay(&a)) &&
                    (!hl_op_is((HlOp)inst->op, HL_T_ONCE) || each_once(&a)) && dims_hold(&a) &&
                    linearity_holds(&a);
  close_alone(&a);
  return good;
}

static bool holds(HlCx *cx, const HlModule *m, char *why, size_t room) {
  bool done[HL_OP_COUNT] = {
      false};  // one of each op in a module: the copies cost more than the tries
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      if (!in_place_fits(inst)) {
        snprintf(why, room, "%s cannot be written in place", hl_op_text((HlOp)inst->op));
        return false;
      }
      if (done[inst->op] || tried[inst->op] >= MOST_TRIES || !can_try(inst))
        continue;
      done[inst->op] = true;
      if (!facts_hold(cx, inst, 1 + (uint64_t)tried[inst->op], why, room))
        return false;
    }
  return true;
}

// Ops whose instances cannot be run alone: tuples, tokens, run-time sizes, several devices.
static bool cannot_be_tried(HlOp op) {
  return hl_op_is(op, HL_T_COLLECTIVE) || op == HL_OP_OPT_BARRIER || op == HL_OP_ADD_DEPENDENCY ||
         op == HL_OP_DOMAIN || op == HL_OP_DYNAMIC_RESHAPE || op == HL_OP_SET_DIMENSION_SIZE;
}

static void facts_hold_of_arrays(void **state) {
  assert_int_equal(property_check("facts of arrays", MODULES, true, holds), 0);
  if (getenv("HILO_ITERATIONS"))
    return;
  for (int op = 0; op < HL_OP_COUNT; op++) {
    const HlOpFacts *facts = hl_op_facts((HlOp)op);
    if (hl_op_is((HlOp)op, HL_T_ELEMENTWISE) || cannot_be_tried((HlOp)op) ||
        !(facts->elements | facts->linear | facts->multilinear))
      continue;
    fprintf(stderr, "%s: tried %d, %d changes seen\n", hl_op_text((HlOp)op), tried[op],
            seen_change[op]);
    assert_true(tried[op] > 0);
  }
  assert_true(seen_change[HL_OP_DOT] > 0 && seen_change[HL_OP_GATHER] > 0 &&
              seen_change[HL_OP_RESHAPE] > 0 && seen_change[HL_OP_CONVOLUTION] > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(dims_of_programs_hold),
                                     cmocka_unit_test(facts_hold_of_arrays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
