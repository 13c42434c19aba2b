// cost/properties.c: a module's cost by the names and rules of XLA's HloCostAnalysis.
//
//   flops 4096, bytes accessed 16384, bytes accessed0{} 8192, bytes accessedout{} 8192, utilization0{} 1
//
// An instruction has flops, transcendentals, the bytes it touches, and of each operand and of its result the bytes read or
// written there; a computation has the sum of what its instructions have, name by name. A loop counts once, whatever its
// trips. A fusion keeps what it consists of, but for the bytes: of these its own operands and results count, in place of those
// that have the same number inside.

#include <math.h>
#include <string.h>

#include "cost/cost.h"
#include "hilo/op.h"

typedef struct Properties {
  double flops, transcendentals, bytes;
  double result;             // bytes accessedout{}
  double seconds;            // optimal_seconds: only that of what nobody knows
  int n_operands, n_results;
  double *operand, *use;     // n_operands of each: bytes accessedK{}, utilizationK{}
  double *element;           // n_results of them: bytes accessedout{K}
} Properties;

typedef struct Analysis {
  HlArena *arena;
  const HlCost *cost;        // by comp->id
  Properties *comp;          // the same
} Analysis;

// A tuple is a table of pointers.
static double size_of(const HlShape *shape) {
  return hl_shape_is_tuple(shape) ? 8.0 * shape->rank : cost_bytes(shape);
}

// --- Sums ---------------------------------------------------------------------------------------------

static double *longer(HlArena *arena, const double *old, int n, int wanted) {
  double *list = HL_ARRAY(arena, double, wanted + 1);
  if (n > 0)
    memcpy(list, old, (size_t)n * sizeof *list);
  return list;
}

static void make_room(HlArena *arena, Properties *p, int n_operands, int n_results) {
  if (n_operands > p->n_operands) {
    p->operand = longer(arena, p->operand, p->n_operands, n_operands);
    p->use = longer(arena, p->use, p->n_operands, n_operands);
    p->n_operands = n_operands;
  }
  if (n_results > p->n_results) {
    p->element = longer(arena, p->element, p->n_results, n_results);
    p->n_results = n_results;
  }
}

static double sum(double a, double b) {
  return a + b;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

// to = merge(to, from), name by name.
static void merge(HlArena *arena, Properties *to, const Properties *from, double (*f)(double, double)) {
  make_room(arena, to, from->n_operands, from->n_results);
  to->flops = f(to->flops, from->flops);
  to->transcendentals = f(to->transcendentals, from->transcendentals);
  to->bytes = f(to->bytes, from->bytes);
  to->result = f(to->result, from->result);
  to->seconds = f(to->seconds, from->seconds);
  for (int k = 0; k < from->n_operands; k++) {
    to->operand[k] = f(to->operand[k], from->operand[k]);
    to->use[k] = f(to->use[k], from->use[k]);
  }
  for (int k = 0; k < from->n_results; k++)
    to->element[k] = f(to->element[k], from->element[k]);
}

// --- Bytes --------------------------------------------------------------------------------------------

static void touch(Properties *p, int k, double bytes) {
  if (k < p->n_operands)
    p->operand[k] = bytes;
}

static void touch_nothing(Properties *p) {
  p->bytes = p->result = 0;
  for (int k = 0; k < p->n_operands; k++)
    p->operand[k] = 0;
}

// All of the operands and the result.
static void touch_all(const HlInst *inst, Properties *p) {
  p->result = p->bytes = size_of(inst->shape);
  for (int k = 0; k < (int)inst->n_operands; k++) {
    p->operand[k] = size_of(inst->operands[k]->shape);
    p->use[k] = 1;
    p->bytes += p->operand[k];
  }
}

static double operand_size(const HlInst *inst, int k) {
  const HlShape *shape = cost_operand(inst, k);
  return shape ? size_of(shape) : 0;
}

// The part that is taken or put, as often as it is touched, and the numbers that say where.
static void touch_part(Properties *p, double part, int times, double where) {
  p->bytes = times * part + where;
  p->result = part;
}

static void use_part(const HlInst *inst, Properties *p) {
  const double whole = operand_size(inst, 0);
  if (p->n_operands > 0 && whole > 0)
    p->use[0] = size_of(inst->shape) / whole;
}

static void touch_scatter(const HlInst *inst, Properties *p) {
  const int n = (int)inst->n_operands / 2;
  double updates = 0;
  for (int k = 0; k < n; k++) {
    const double update = operand_size(inst, n + 1 + k);
    touch(p, k, update);
    touch(p, n + 1 + k, update);
    updates += update;
  }
  touch_part(p, updates, 3, operand_size(inst, n));
}

static void correct_bytes(const HlInst *inst, Properties *p) {
  const double size = size_of(inst->shape), update = operand_size(inst, 1);
  switch ((HlOp)inst->op) {
  case HL_OP_PARAMETER:
  case HL_OP_CONSTANT:
  case HL_OP_GET_TUPLE_ELEMENT:
  case HL_OP_BITCAST:
  case HL_OP_AFTER_ALL:
  case HL_OP_DOMAIN: touch_nothing(p); break;
  case HL_OP_TUPLE:
    touch_nothing(p);
    p->bytes = p->result = size;
    break;
  case HL_OP_SLICE:
    touch(p, 0, size);
    use_part(inst, p);
    touch_part(p, size, 2, 0);
    break;
  case HL_OP_DYNAMIC_SLICE:
    touch(p, 0, size);
    touch_part(p, size, 2, operand_size(inst, 1));
    break;
  case HL_OP_GATHER:
    touch(p, 0, size);
    touch_part(p, size, 2, operand_size(inst, 1));
    break;
  case HL_OP_DYNAMIC_UPDATE_SLICE:
    touch(p, 0, 0);
    touch_part(p, update, 2, operand_size(inst, 2));
    break;
  case HL_OP_SCATTER: touch_scatter(inst, p); break;
  default: break;
  }
}

// --- Fusions ------------------------------------------------------------------------------------------

// What a fusion reads of a parameter: the slices that are taken of it, and all of it once for whoever else reads it.
static double bytes_read(const HlInst *param) {
  double bytes = 0;
  bool whole = false;
  for (const HlUse *use = param->first_use; use; use = use->next) {
    const HlInst *user = use->user;
    const bool is_first = use->number == 0;
    if (user->op == HL_OP_SLICE || (user->op == HL_OP_DYNAMIC_SLICE && is_first))
      bytes += size_of(user->shape);
    else if (user->op == HL_OP_DYNAMIC_UPDATE_SLICE)  // what is updated is the result's memory
      bytes += is_first ? 0 : size_of(param->shape);
    else if (user->op == HL_OP_BROADCAST || user->op == HL_OP_RESHAPE)
      bytes += size_of(param->shape);
    else if (!whole) {
      whole = true;
      bytes += size_of(param->shape);
    }
  }
  return bytes;
}

// Of an update only what is new is written.
static double bytes_written(const HlInst *root, const HlShape *shape) {
  return root->op == HL_OP_DYNAMIC_UPDATE_SLICE ? operand_size(root, 1) : cost_bytes(shape);
}

static void write_results(const HlInst *fusion, const HlInst *root, Properties *p) {
  p->result = 0;
  if (!hl_shape_is_tuple(fusion->shape)) {
    p->result = bytes_written(root, fusion->shape);
  } else {
    for (int k = 0; k < fusion->shape->rank; k++) {
      const HlInst *part = root->op == HL_OP_TUPLE ? root->operands[k] : root;
      p->element[k] = bytes_written(part, fusion->shape->element[k]);
      p->result += p->element[k];
    }
  }
  p->bytes += p->result;
}

static void fuse(Analysis *a, const HlInst *fusion, Properties *p) {
  const HlComp *body = hl_called(fusion, 0);
  const bool is_tuple = hl_shape_is_tuple(fusion->shape);
  merge(a->arena, p, &a->comp[body->id], sum);
  make_room(a->arena, p, (int)fusion->n_operands, is_tuple ? fusion->shape->rank : 0);
  p->bytes = 0;
  write_results(fusion, body->root, p);
  for (int k = 0; k < body->n_params && k < p->n_operands; k++) {
    p->operand[k] = bytes_read(body->params[k]);
    p->use[k] = 1;
    p->bytes += p->operand[k];
  }
  for (const HlInst *inst = body->first; inst; inst = inst->next)
    if (inst->op == HL_OP_CONSTANT && cost_elements(inst->shape) > 1)
      p->bytes += size_of(inst->shape);
}

// --- Instructions -------------------------------------------------------------------------------------

static void add_called(Analysis *a, const HlInst *inst, double (*f)(double, double), Properties *p) {
  for (int k = 0; k < inst->n_calls; k++)
    merge(a->arena, p, &a->comp[hl_called(inst, k)->id], f);
}

static void count(Analysis *a, const HlInst *inst, Properties *p) {
  HlCost own = {0};
  cost_arithmetic(inst, a->cost, &own);
  p->flops = own.flops;
  p->transcendentals = own.transcendentals;
  if (inst->op == HL_OP_REAL || inst->op == HL_OP_IMAG || inst->op == HL_OP_COMPLEX)
    p->flops = cost_elements(inst->shape);               // as of any elementwise op
  if (inst->op == HL_OP_SORT && inst->n_operands > 0) {  // as if all of it were one line
    const double n = cost_elements(inst->operands[0]->shape);
    p->flops = n > 1 ? n * ceil(log2(n)) : 0;
  }
}

// What a custom call does is not known, which counts as -1.
static Properties unknown(Analysis *a, const HlInst *call) {
  Properties p = {.flops = -1, .bytes = -1, .result = -1, .seconds = -1};
  make_room(a->arena, &p, (int)call->n_operands, 0);
  for (int k = 0; k < p.n_operands; k++) {
    p.operand[k] = -1;
    p.use[k] = 1;
  }
  return p;
}

static Properties properties_of(Analysis *a, const HlInst *inst) {
  Properties p = {0};
  switch ((HlOp)inst->op) {
  case HL_OP_FUSION: fuse(a, inst, &p); return p;
  case HL_OP_CUSTOM_CALL: return unknown(a, inst);
  case HL_OP_CALL:
  case HL_OP_WHILE: add_called(a, inst, sum, &p); return p;
  case HL_OP_CONDITIONAL: add_called(a, inst, larger, &p); return p;
  default: break;
  }
  make_room(a->arena, &p, (int)inst->n_operands, 0);
  touch_all(inst, &p);
  correct_bytes(inst, &p);
  count(a, inst, &p);
  return p;
}

// --- As a list ----------------------------------------------------------------------------------------

typedef struct Listing {
  HlArena *arena;
  HlCostProperty *at;
  int n;
} Listing;

static void add(Listing *list, const char *name, double value) {
  if (value != 0)
    list->at[list->n++] = (HlCostProperty){name, value};
}

static const char *numbered(Listing *list, const char *before, int k, const char *after) {
  return hl_arena_printf(list->arena, "%s%d%s", before, k, after);
}

int hl_cost_properties(HlArena *arena, const HlModule *m, const HlCostProperty **out) {
  Analysis a = {arena, hl_cost_comps(arena, m), HL_ARRAY(arena, Properties, m->next_comp_id + 1)};
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      const Properties one = properties_of(&a, inst);
      merge(arena, &a.comp[comp->id], &one, sum);
    }
  const Properties all = m->entry ? a.comp[m->entry->id] : (Properties){0};
  Listing list = {arena, HL_ARRAY(arena, HlCostProperty, 5 + 2 * all.n_operands + all.n_results), 0};
  add(&list, "flops", all.flops);
  add(&list, "transcendentals", all.transcendentals);
  add(&list, "bytes accessed", all.bytes);
  add(&list, "optimal_seconds", all.seconds);
  for (int k = 0; k < all.n_operands; k++)
    add(&list, numbered(&list, "utilization", k, "{}"), all.use[k]);
  for (int k = 0; k < all.n_operands; k++)
    add(&list, numbered(&list, "bytes accessed", k, "{}"), all.operand[k]);
  add(&list, "bytes accessedout{}", all.result);
  for (int k = 0; k < all.n_results; k++)
    add(&list, numbered(&list, "bytes accessedout{", k, "}"), all.element[k]);
  *out = list.at;
  return list.n;
}
