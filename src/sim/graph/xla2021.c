// sim/graph/xla2021.c: costs as XLA counted them in 2021, whose analysis ParaGraph's bridge asks.
//
// Its properties are floats, and so are sums of them: more than 2^24 of something is rounded. A tuple is a table of pointers of 8
// bytes. Bytes in and out are those of arrays only, so that what reads or gives a tuple shows none, but for fusions, infeeds and
// outfeeds; the time counts the tables. A fusion is counted without what it does not write; a loop runs once; a custom call is
// unknown, which is -1 in sums and 0 in the end.

#include <math.h>

#include "hilo/cost.h"
#include "sim/graph/costs.h"

typedef struct Props {
  float flops, transcendentals, bytes, seconds;
  float out;  // of the result, where it is an array; of a fusion's or infeed's, that of its arrays
  float *in;  // of each operand
  int n_in;
  bool timed;  // its seconds are known already
} Props;

typedef struct Analysis {
  HlArena *arena;
  const HlCost *arithmetic;  // by comp->id, for what is as it was then
  const SimRates *rates;
  Props *comp;  // sums, by comp->id
} Analysis;

// --- Sizes ----------------------------------------------------------------------------------------------------

static int64_t array_bytes(const HlShape *shape) {
  const int64_t n = hl_shape_elements(shape), width = hl_dtype_bytes(shape->dtype);
  return n > INT64_MAX / (width + 1) ? INT64_MAX : n * width;
}

static int64_t size_of(const HlShape *shape) {
  if (hl_shape_is_tuple(shape))
    return 8 * (int64_t)shape->rank;
  return hl_shape_is_array(shape) ? array_bytes(shape) : 0;
}

static double leaf_bytes(const HlShape *shape) {
  double sum = 0;
  if (!hl_shape_is_tuple(shape))
    return (double)size_of(shape);
  for (int k = 0; k < shape->rank; k++)
    sum += leaf_bytes(shape->element[k]);
  return sum;
}

static double leaf_elements(const HlShape *shape) {
  double sum = 0;
  if (hl_shape_is_array(shape))
    return (double)hl_shape_elements(shape);
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    sum += leaf_elements(shape->element[k]);
  return sum;
}

static const HlShape *operand(const HlInst *inst, int k) {
  return k < (int)inst->n_operands ? inst->operands[k]->shape : NULL;
}

static int64_t operand_size(const HlInst *inst, int k) {
  const HlShape *shape = operand(inst, k);
  return shape ? size_of(shape) : 0;
}

static int64_t operand_elements(const HlInst *inst, int k) {
  const HlShape *shape = operand(inst, k);
  return shape && hl_shape_is_array(shape) ? hl_shape_elements(shape) : 0;
}

static int64_t first_elements(const HlShape *shape) {
  while (hl_shape_is_tuple(shape) && shape->rank > 0)
    shape = shape->element[0];
  return hl_shape_is_array(shape) ? hl_shape_elements(shape) : 0;
}

// --- Sums -----------------------------------------------------------------------------------------------------

static Props begin(Analysis *a, const HlInst *inst) {
  Props p = {.n_in = (int)inst->n_operands};
  p.in = HL_ARRAY(a->arena, float, p.n_in + 1);
  return p;
}

static void widen(Analysis *a, Props *p, int n) {
  if (n <= p->n_in)
    return;
  float *in = HL_ARRAY(a->arena, float, n);
  for (int k = 0; k < p->n_in; k++)
    in[k] = p->in[k];
  p->in = in;
  p->n_in = n;
}

static float larger(float x, float y) {
  return x > y ? x : y;
}

static float sum(float x, float y) {
  return x + y;
}

static void merge(Analysis *a, Props *to, const Props *from, float (*f)(float, float)) {
  widen(a, to, from->n_in);
  to->flops = f(to->flops, from->flops);
  to->transcendentals = f(to->transcendentals, from->transcendentals);
  to->bytes = f(to->bytes, from->bytes);
  to->seconds = f(to->seconds, from->seconds);
  to->out = f(to->out, from->out);
  for (int k = 0; k < from->n_in; k++)
    to->in[k] = f(to->in[k], from->in[k]);
}

static const Props *called(const Analysis *a, const HlInst *inst, int k) {
  static const Props nothing;
  return k < inst->n_calls ? &a->comp[hl_called(inst, k)->id] : &nothing;
}

static void apply(const Analysis *a, const HlInst *inst, int k, double times, Props *p) {
  const Props *one = called(a, inst, k);
  p->flops += one->flops * (float)times;
  p->transcendentals += one->transcendentals * (float)times;
}

// --- Bytes ----------------------------------------------------------------------------------------------------

static void touch_all(const HlInst *inst, Props *p) {
  p->out = p->bytes = (float)size_of(inst->shape);
  for (int k = 0; k < p->n_in; k++) {
    p->in[k] = (float)operand_size(inst, k);
    p->bytes += p->in[k];
  }
}

static void touch_nothing(Props *p, bool timed) {
  p->bytes = p->out = 0;
  p->timed = timed;
  for (int k = 0; k < p->n_in; k++)
    p->in[k] = 0;
}

static void set_in(Props *p, int k, int64_t bytes) {
  if (k < p->n_in)
    p->in[k] = (float)bytes;
}

static void touch_gather(const HlInst *inst, Props *p) {
  const int64_t size = size_of(inst->shape), indices = operand_size(inst, 1);
  p->bytes = (float)(2 * size + indices);
  p->out = (float)size;
  set_in(p, 0, size);
  set_in(p, 1, indices);
}

static void touch_scatter(const HlInst *inst, Props *p) {
  const int64_t updates = operand_size(inst, 2), indices = operand_size(inst, 1);
  p->bytes = (float)(3 * updates + indices);
  p->out = (float)updates;
  set_in(p, 0, updates);
  set_in(p, 1, indices);
  set_in(p, 2, updates);
}

static void touch_update(const HlInst *inst, Props *p) {
  const int64_t update = operand_size(inst, 1);
  p->bytes = (float)(2 * update + operand_size(inst, 2));
  p->out = (float)update;
  set_in(p, 0, 0);
}

static void touch_feed(const HlInst *inst, Props *p) {
  p->bytes = 0;
  if (inst->op == HL_OP_INFEED) {
    p->out = p->bytes = (float)leaf_bytes(inst->shape);
    return;
  }
  for (int k = 0; k < p->n_in; k++) {
    p->in[k] = (float)leaf_bytes(inst->operands[k]->shape);
    p->bytes += p->in[k];
  }
}

// Operand 1 is taken for operand 0 by a slip that nobody saw.
static void touch_solve(const HlInst *inst, Props *p) {
  const float b = (float)operand_size(inst, 1);
  p->out = (float)size_of(inst->shape);
  p->bytes = p->out + (float)operand_size(inst, 0) / 2 + b;
  if (p->n_in > 0)
    p->in[0] = b;
}

static void touch_cholesky(const HlInst *inst, Props *p) {
  const float half = (float)operand_size(inst, 0) / 2;
  p->bytes = 2 * half;
  p->out = half;
  if (p->n_in > 0)
    p->in[0] = half;
}

// Dimensions in the same order in memory, whatever tiles there are.
static bool keeps_order(const HlInst *transpose) {
  const HlShape *from = operand(transpose, 0), *to = transpose->shape;
  const HlI64s dims = hl_dims(transpose);
  if (!from || !hl_shape_is_array(from) || !from->layout || !to->layout || dims.n != to->rank ||
      from->layout->minor_to_major.n != to->rank || to->layout->minor_to_major.n != to->rank)
    return false;
  for (int k = 0; k < to->rank; k++) {
    const int64_t d = to->layout->minor_to_major.at[k];
    if (d < 0 || d >= to->rank || dims.at[d] != from->layout->minor_to_major.at[k])
      return false;
  }
  return true;
}

static bool is_renaming(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST || (inst->op == HL_OP_TRANSPOSE && keeps_order(inst));
}

static void touch(const HlInst *inst, Props *p) {
  const int64_t size = size_of(inst->shape);
  if (is_renaming(inst)) {
    touch_nothing(p, false);
    return;
  }
  switch ((HlOp)inst->op) {
  case HL_OP_PARAMETER:
  case HL_OP_CONSTANT:
  case HL_OP_GET_TUPLE_ELEMENT:
  case HL_OP_DOMAIN:
  case HL_OP_AFTER_ALL:
  case HL_OP_ADD_DEPENDENCY: touch_nothing(p, true); break;
  case HL_OP_TUPLE:
    touch_nothing(p, false);
    p->bytes = p->out = (float)size;
    break;
  case HL_OP_SLICE:
    p->bytes = (float)(2 * size);
    set_in(p, 0, size);
    break;
  case HL_OP_DYNAMIC_SLICE:
    p->bytes = (float)(2 * size + operand_size(inst, 1));
    set_in(p, 0, size);
    break;
  case HL_OP_DYNAMIC_UPDATE_SLICE: touch_update(inst, p); break;
  case HL_OP_GATHER: touch_gather(inst, p); break;
  case HL_OP_SCATTER: touch_scatter(inst, p); break;
  case HL_OP_INFEED:
  case HL_OP_OUTFEED: touch_feed(inst, p); break;
  case HL_OP_TRIANGULAR_SOLVE: touch_solve(inst, p); break;
  case HL_OP_CHOLESKY: touch_cholesky(inst, p); break;
  default: break;
  }
}

// --- Arithmetic -------------------------------------------------------------------------------------------------

// Of functions that came later it knew nothing.
static bool is_transcendental(HlOp op) {
  static const HlOp later[] = {HL_OP_TAN,  HL_OP_ERF,   HL_OP_SINH,  HL_OP_COSH, HL_OP_ASIN,
                               HL_OP_ACOS, HL_OP_ASINH, HL_OP_ACOSH, HL_OP_ATANH};
  for (int k = 0; k < HL_COUNT_OF(later); k++)
    if (op == later[k])
      return false;
  return hl_op_is_transcendental(op);
}

static int64_t window_size(const HlInst *inst) {
  const HlWindow window = hl_window(inst);
  int64_t n = 1;
  for (int k = 0; k < window.n; k++)
    n *= window.at[k].size;
  return n;
}

static int log2_up(int64_t n) {
  int log = 0;
  while (log < 62 && INT64_C(1) << log < n)
    log++;
  return log;
}

// What has a formula with the shapes of its operands, which has not changed since.
static void as_today(const Analysis *a, const HlInst *inst, Props *p) {
  const HlCost cost = hl_cost_inst_by(inst, a->arithmetic);
  p->flops = (float)cost.flops;
}

static void compute(const Analysis *a, const HlInst *inst, Props *p) {
  const HlOp op = (HlOp)inst->op;
  const int64_t n = first_elements(inst->shape);
  switch (op) {
  case HL_OP_DOT:
  case HL_OP_RAGGED_DOT:
  case HL_OP_CONVOLUTION:
  case HL_OP_FFT: as_today(a, inst, p); return;
  case HL_OP_MAP: apply(a, inst, 0, (double)n, p); return;
  case HL_OP_REDUCE: apply(a, inst, 0, (double)(operand_elements(inst, 0) - n), p); return;
  case HL_OP_REDUCE_WINDOW: apply(a, inst, 0, (double)((window_size(inst) - 1) * n), p); return;
  case HL_OP_SELECT_AND_SCATTER: {
    const int64_t source = operand_elements(inst, 1);
    apply(a, inst, 0, (double)(source * (window_size(inst) - 1)), p);
    apply(a, inst, 1, (double)source, p);
    return;
  }
  case HL_OP_SCATTER: apply(a, inst, 0, (double)operand_elements(inst, 2), p); return;
  case HL_OP_SORT: {
    const int64_t first = operand_elements(inst, 0);
    p->flops = (float)(first * log2_up(first));
    return;
  }
  case HL_OP_TRIANGULAR_SOLVE:
  case HL_OP_CHOLESKY: as_today(a, inst, p); return;
  case HL_OP_RNG:
  case HL_OP_RNG_BIT_GENERATOR: p->transcendentals = (float)leaf_elements(inst->shape); return;
  default: break;
  }
  if (!hl_op_is(op, HL_T_ELEMENTWISE) && op != HL_OP_BITCAST_CONVERT)
    return;
  if (is_transcendental(op))
    p->transcendentals = (float)n;
  else
    p->flops = (float)n;
}

// --- Collectives and calls --------------------------------------------------------------------------------------

// As for two replicas; what comes in over the network is counted as read, and once more where the result is a tuple.
static void all_reduce(const HlInst *inst, Props *p) {
  double read = 0;
  p->flops = (float)leaf_elements(inst->shape);
  p->bytes = (float)leaf_bytes(inst->shape);
  p->out = hl_shape_is_tuple(inst->shape) ? 0 : p->bytes;
  for (int k = 0; k < p->n_in; k++)
    p->bytes += (float)operand_size(inst, k);
  if (p->out == 0)
    p->bytes += p->bytes;
  for (int k = 0; k < p->n_in; k++) {
    p->bytes += p->in[k];
    p->in[k] *= 2;
    read += p->in[k];
  }
  if (p->out == 0)
    p->out = (float)(int64_t)(read / 2);
}

static void unknown(Props *p) {
  p->flops = p->bytes = p->seconds = p->out = -1;
  p->timed = true;
  for (int k = 0; k < p->n_in; k++)
    p->in[k] = -1;
}

static int64_t read_of_parameter(const HlInst *value);

static int64_t read_by(const HlInst *user, const HlInst *value, bool *whole) {
  const int64_t size = size_of(value->shape);
  const bool first = user->n_operands > 0 && user->operands[0] == value;
  int64_t bytes = 0;
  switch ((HlOp)user->op) {
  case HL_OP_FUSION:
    for (int k = 0; user->n_calls > 0 && k < (int)user->n_operands; k++)
      if (user->operands[k] == value && k < hl_to_apply(user)->n_params &&
          hl_to_apply(user)->params[k])
        bytes += read_of_parameter(hl_to_apply(user)->params[k]);
    return bytes;
  case HL_OP_SLICE: return size_of(user->shape);
  case HL_OP_DYNAMIC_SLICE: return first ? size_of(user->shape) : size;
  case HL_OP_DYNAMIC_UPDATE_SLICE: return first ? operand_size(user, 1) : size;
  case HL_OP_BROADCAST:
  case HL_OP_RESHAPE: return size;
  default:
    if (*whole)
      return 0;
    *whole = true;
    return size;
  }
}

// Users that take a piece read it; all others share one reading of the whole. Each user counts once.
static int64_t read_of_parameter(const HlInst *value) {
  int64_t bytes = 0;
  bool whole = false;
  for (const HlUse *use = value->first_use; use; use = use->next) {
    bool seen = false;
    for (int k = 0; k < use->number; k++)
      seen = seen || use->user->operands[k] == value;
    if (!seen)
      bytes += read_by(use->user, value, &whole);
  }
  return bytes;
}

static int64_t written_at(const HlInst *root, const HlShape *shape) {
  return root->op == HL_OP_DYNAMIC_UPDATE_SLICE ? operand_size(root, 1) : size_of(shape);
}

static void fusion_writes(const HlInst *fusion, const HlInst *root, Props *p) {
  const HlShape *shape = fusion->shape;
  p->out = 0;
  if (hl_shape_is_array(shape))
    p->out = (float)written_at(root, shape);
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++) {
    const HlShape *one = shape->element[k];
    if (hl_shape_is_array(one) && root->op == HL_OP_TUPLE && k < (int)root->n_operands)
      p->out += (float)written_at(root->operands[k], one);
    else
      p->out += (float)leaf_bytes(one);
  }
  p->bytes = p->out;
}

// The leaves of a parameter that is a tuple are read through get-tuple-element; of a fusion with a single result they are not seen.
static float fusion_reads(const HlInst *value, bool tuple_result) {
  if (!hl_shape_is_tuple(value->shape) || !tuple_result)
    return (float)read_of_parameter(value);
  float sum_of = 0;
  for (const HlUse *use = value->first_use; use; use = use->next)
    if (use->user->op == HL_OP_GET_TUPLE_ELEMENT)
      sum_of += fusion_reads(use->user, true);
  return sum_of;
}

static bool is_custom(const HlInst *fusion) {
  return hl_attr_int(fusion, HL_A_KIND) == HL_WORD_fusion_kind_CUSTOM;
}

// The gather or scatter that a custom fusion counts as; NULL: none.
static const HlInst *counts_as(const HlInst *fusion) {
  if (!is_custom(fusion))
    return NULL;
  for (const HlInst *inst = hl_to_apply(fusion)->first; inst; inst = inst->next)
    if (inst->op == HL_OP_GATHER || inst->op == HL_OP_SCATTER)
      return inst;
  return NULL;
}

static void fuse(Analysis *a, const HlInst *fusion, Props *p) {
  const HlComp *comp = hl_to_apply(fusion);
  const HlInst *part = counts_as(fusion);
  touch_all(fusion, p);
  if (part) {
    compute(a, part, p);
    touch(part, p);
    return;
  }
  p->flops = a->comp[comp->id].flops;
  p->transcendentals = a->comp[comp->id].transcendentals;
  fusion_writes(fusion, comp->root, p);
  for (int k = 0; k < p->n_in; k++) {
    const HlInst *value = k < comp->n_params ? comp->params[k] : NULL;
    p->in[k] = value ? fusion_reads(value, hl_shape_is_tuple(fusion->shape)) : 0;
    p->bytes += p->in[k];
  }
}

static void run_called(Analysis *a, const HlInst *inst, Props *p) {
  for (int k = 0; k < inst->n_calls; k++)
    if (inst->op == HL_OP_CONDITIONAL && k > 0)
      merge(a, p, called(a, inst, k), larger);
    else
      merge(a, p, called(a, inst, k), sum);
  p->timed = true;
}

static Props props_of(Analysis *a, const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  Props p = begin(a, inst);
  if (op == HL_OP_FUSION) {
    if (inst->n_calls > 0)
      fuse(a, inst, &p);
  } else if (hl_op_is(op, HL_T_CONTROL)) {
    run_called(a, inst, &p);
  } else if (op == HL_OP_CUSTOM_CALL) {
    unknown(&p);
  } else if (op == HL_OP_ALL_REDUCE || op == HL_OP_ALL_REDUCE_START) {
    touch_all(inst, &p);
    all_reduce(inst, &p);
  } else {
    touch_all(inst, &p);
    touch(inst, &p);
    compute(a, inst, &p);
  }
  if (!p.timed)
    p.seconds = larger(larger(0, p.flops / (float)a->rates->flops),
                       larger(p.transcendentals / (float)a->rates->transcendentals,
                              p.bytes / (float)a->rates->bytes));
  return p;
}

// --- What the graph notes -----------------------------------------------------------------------------------------

// Cut to whole numbers, and never less than 0.
static double whole(double x) {
  return x > 0 ? (double)(float)floor(x) : 0;
}

// Of operands that are tuples nothing is noted, but of what looks at their leaves.
static bool sees_leaves(const HlInst *inst) {
  return inst->op == HL_OP_OUTFEED || (inst->op == HL_OP_FUSION && hl_shape_is_tuple(inst->shape));
}

static bool shows_result(const HlInst *inst) {
  return !hl_shape_is_tuple(inst->shape) || inst->op == HL_OP_FUSION || inst->op == HL_OP_INFEED ||
         inst->op == HL_OP_ALL_REDUCE;
}

static HlSimCost noted(const HlInst *inst, const Props *p) {
  double in = 0;
  for (int k = 0; k < (int)inst->n_operands && k < p->n_in; k++)
    if (!hl_shape_is_tuple(inst->operands[k]->shape) || sees_leaves(inst))
      in += floor((double)p->in[k]);
  return (HlSimCost){.ops = whole(p->flops),
                     .bytes_in = whole(in),
                     .bytes_out = shows_result(inst) ? whole(p->out) : 0,
                     .transcendentals = whole(p->transcendentals),
                     .seconds = p->seconds > 0 ? (double)p->seconds : 0};
}

// Computations that the analysis walks: those of what counts what it calls.
static bool walks(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (op == HL_OP_FUSION)
    return inst->n_calls > 0 && !counts_as(inst);
  return op == HL_OP_MAP ||
         (hl_op_is(op, HL_T_CONTROL | HL_T_FOLDS) && !hl_op_is(op, HL_T_COLLECTIVE));
}

static void mark_walked(const HlModule *m, bool *walked) {
  if (m->entry)
    walked[m->entry->id] = true;
  for (const HlComp *comp = m->last; comp; comp = comp->prev)  // callers before those they call
    for (const HlInst *inst = comp->first; walked[comp->id] && inst; inst = inst->next)
      for (int k = 0; k < inst->n_calls && walks(inst); k++)
        walked[hl_called(inst, k)->id] = true;
}

static void analyse(Analysis *a, const HlComp *comp, bool wanted, HlSimCost *out) {
  HlInst **order = hl_post_order(a->arena, comp);
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    const Props p = props_of(a, order[k]);
    merge(a, &a->comp[comp->id], &p, sum);
    if (wanted)
      out[order[k]->id] = noted(order[k], &p);
  }
}

SimCosts sim_costs_2021(HlArena *arena, const HlModule *m, const SimRates *rates) {
  HlArena *scratch = hl_arena_new();
  Analysis a = {scratch, hl_cost_comps(scratch, m), rates,
                HL_ARRAY(scratch, Props, m->next_comp_id + 1)};
  SimCosts out = HL_ARRAY(arena, HlSimCost *, m->next_comp_id + 1);
  bool *walked = HL_ARRAY(scratch, bool, m->next_comp_id + 1);
  mark_walked(m, walked);
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    out[comp->id] = HL_ARRAY(arena, HlSimCost, comp->next_id + 1);
    analyse(&a, comp, walked[comp->id], out[comp->id]);
  }
  hl_arena_free(scratch);
  return out;
}
