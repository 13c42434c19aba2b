// op/machine.c: scalar computations compiled to a list of steps, for loops that run them often.
//
// Comparators of sort and combiners of reduce, scatter and windows are a handful of scalar
// instructions that run once per element, each run depending on the one before. A machine has one
// slot per value; integers of any type are held exactly in 64 bits, floats exactly in a double, and
// each step rounds or wraps its result to the type of its instruction. What is not here (complex
// numbers, transcendental functions, calls) makes machine_new return NULL, and the caller goes
// through the interpreter.

#include <math.h>

#include "base/bits.h"
#include "op/fold.h"

enum {
  M_ADD_F,
  M_SUB_F,
  M_MUL_F,
  M_DIV_F,
  M_MAX_F,
  M_MIN_F,
  M_NEG_F,
  M_ABS_F,
  M_COMPARE_F,
  M_COMPARE_TOTAL,
  M_CLAMP_F,
  M_ADD,
  M_SUB,
  M_MUL,
  M_MAX,
  M_MIN,
  M_AND,
  M_OR,
  M_XOR,
  M_NOT,
  M_NEG,
  M_ABS,
  M_COMPARE,
  M_COMPARE_U64,
  M_MAX_U64,
  M_MIN_U64,
  M_DIV,
  M_REM,
  M_SELECT,
  M_CONVERT,
  M_BITCAST,
  M_IS_FINITE,
  M_SHIFT_LEFT,
  M_SHIFT_RIGHT,
  M_NONE
};

// --- Slots ---------------------------------------------------------------------------------------

Slot slot_load(HlDtype dtype, const void *data, int64_t k) {
  switch (dtype) {
  case HL_F32: return (Slot){.f = (double)((const float *)data)[k]};
  case HL_F64: return (Slot){.f = ((const double *)data)[k]};
  case HL_S32: return (Slot){.i = ((const int32_t *)data)[k]};
  case HL_U32: return (Slot){.i = ((const uint32_t *)data)[k]};
  case HL_S64:
  case HL_U64: return (Slot){.i = ((const int64_t *)data)[k]};
  case HL_S16: return (Slot){.i = ((const int16_t *)data)[k]};
  case HL_U16: return (Slot){.i = ((const uint16_t *)data)[k]};
  case HL_BF16: return (Slot){.f = (double)hl_bf16_to_f32(((const uint16_t *)data)[k])};
  case HL_F16: return (Slot){.f = (double)hl_f16_to_f32(((const uint16_t *)data)[k])};
  default: break;
  }
  if (hl_is_float(dtype))
    return (Slot){.f = hl_float_decode(&hl_dtype_info[dtype].format, ((const uint8_t *)data)[k])};
  if (hl_is_signed(dtype))
    return (Slot){.i = ((const int8_t *)data)[k]};
  return (Slot){.i = ((const uint8_t *)data)[k]};
}

void slot_store(HlDtype dtype, void *data, int64_t k, Slot value) {
  switch (dtype) {
  case HL_F32: ((float *)data)[k] = (float)value.f; return;
  case HL_F64: ((double *)data)[k] = value.f; return;
  case HL_S32:
  case HL_U32: ((uint32_t *)data)[k] = (uint32_t)value.i; return;
  case HL_S64:
  case HL_U64: ((int64_t *)data)[k] = value.i; return;
  case HL_S16:
  case HL_U16: ((uint16_t *)data)[k] = (uint16_t)value.i; return;
  case HL_BF16:
  case HL_F16:
    ((uint16_t *)data)[k] = (uint16_t)hl_float_encode(&hl_dtype_info[dtype].format, value.f);
    return;
  default: break;
  }
  ((uint8_t *)data)[k] = hl_is_float(dtype)
                             ? (uint8_t)hl_float_encode(&hl_dtype_info[dtype].format, value.f)
                             : (uint8_t)value.i;
}

// Rounds to a small float type, or wraps to an integer type narrower than 64 bits.
static Slot fit(HlDtype dtype, Slot value) {
  switch (dtype) {
  case HL_F64:
  case HL_S64:
  case HL_U64:
  case HL_PRED: return value;
  case HL_F32: return (Slot){.f = (double)(float)value.f};
  case HL_S32: return (Slot){.i = (int32_t)value.i};
  case HL_U32: return (Slot){.i = (uint32_t)value.i};
  default: break;
  }
  if (hl_is_float(dtype)) {
    const HlFloatFormat *format = &hl_dtype_info[dtype].format;
    return (Slot){.f = hl_float_decode(format, hl_float_encode(format, value.f))};
  }
  const int drop = 64 - hl_dtype_info[dtype].bits;
  const uint64_t up = (uint64_t)value.i << drop;
  return (Slot){.i = hl_is_signed(dtype) ? (int64_t)up >> drop : (int64_t)(up >> drop)};
}

// --- Compiling -----------------------------------------------------------------------------------

// What a step does for an op on floats and on integers; M_NONE where there is no such thing.
static const struct {
  uint16_t op;
  uint8_t on_float, on_int;
} ways[] = {
    {HL_OP_ADD, M_ADD_F, M_ADD},
    {HL_OP_SUBTRACT, M_SUB_F, M_SUB},
    {HL_OP_MULTIPLY, M_MUL_F, M_MUL},
    {HL_OP_DIVIDE, M_DIV_F, M_DIV},
    {HL_OP_REMAINDER, M_NONE, M_REM},
    {HL_OP_MAXIMUM, M_MAX_F, M_MAX},
    {HL_OP_MINIMUM, M_MIN_F, M_MIN},
    {HL_OP_NEGATE, M_NEG_F, M_NEG},
    {HL_OP_ABS, M_ABS_F, M_ABS},
    {HL_OP_AND, M_NONE, M_AND},
    {HL_OP_OR, M_NONE, M_OR},
    {HL_OP_XOR, M_NONE, M_XOR},
    {HL_OP_NOT, M_NONE, M_NOT},
    {HL_OP_COMPARE, M_COMPARE_F, M_COMPARE},
    {HL_OP_CLAMP, M_CLAMP_F, M_NONE},
    {HL_OP_SELECT, M_SELECT, M_SELECT},
    {HL_OP_CONVERT, M_CONVERT, M_CONVERT},
    {HL_OP_BITCAST_CONVERT, M_BITCAST, M_BITCAST},
    {HL_OP_IS_FINITE, M_IS_FINITE, M_NONE},
    {HL_OP_SHIFT_LEFT, M_NONE, M_SHIFT_LEFT},
    {HL_OP_SHIFT_RIGHT_LOGICAL, M_NONE, M_SHIFT_RIGHT},
};

static int way_of(const HlInst *inst, HlDtype from) {
  for (int k = 0; k < HL_COUNT_OF(ways); k++)
    if (ways[k].op == inst->op)
      return hl_is_float(from) ? ways[k].on_float : ways[k].on_int;
  return M_NONE;
}

// The way refined by types, or M_NONE where a machine would be wrong.
static int refined_way(const HlInst *inst, HlDtype from) {
  const int way = way_of(inst, from);
  if (way == M_BITCAST && hl_dtype_info[from].bits != hl_dtype_info[inst->shape->dtype].bits)
    return M_NONE;
  if (way == M_COMPARE_F && hl_comparison_type(inst) == HL_WORD_comparison_type_TOTALORDER)
    return M_COMPARE_TOTAL;
  if (from == HL_U64)
    return way == M_COMPARE               ? M_COMPARE_U64
           : way == M_MAX                 ? M_MAX_U64
           : way == M_MIN                 ? M_MIN_U64
           : way == M_DIV || way == M_REM ? M_NONE
                                          : way;
  if (from == HL_PRED) {
    if (way == M_ADD || way == M_MAX)
      return M_OR;
    if (way == M_MUL || way == M_MIN)
      return M_AND;
    if (way == M_SUB || way == M_DIV || way == M_REM || way == M_NEG || way == M_ABS)
      return M_NONE;
  }
  return way;
}

// Marks what the root needs, users before operands.
static bool *find_needed(HlArena *arena, const HlComp *comp) {
  bool *needed = HL_ARRAY(arena, bool, comp->next_id + 1);
  needed[comp->root->id] = true;
  for (const HlInst *inst = comp->last; inst; inst = inst->prev)
    for (uint32_t k = 0; needed[inst->id] && k < inst->n_operands; k++)
      needed[inst->operands[k]->id] = true;
  return needed;
}

static bool is_real_scalar(const HlShape *shape) {
  return hl_shape_is_scalar(shape) && !hl_is_complex(shape->dtype);
}

static bool compile_step(Machine *m, const HlInst *inst, int *slot_of) {
  if (inst->n_operands < 1 || inst->n_operands > 3)
    return false;
  const HlDtype from = inst->operands[inst->op == HL_OP_SELECT ? 1 : 0]->shape->dtype;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_real_scalar(inst->operands[k]->shape))
      return false;
  const int what = refined_way(inst, from);
  if (what == M_NONE)
    return false;
  Step *step = &m->step[m->n_steps++];
  *step =
      (Step){.what = (uint8_t)what, .dtype = (uint8_t)inst->shape->dtype, .from = (uint8_t)from};
  step->detail = (uint8_t)(inst->op == HL_OP_COMPARE ? hl_attr_int(inst, HL_A_DIRECTION) : 0);
  step->n = (uint8_t)inst->n_operands;
  step->a = slot_of[inst->operands[0]->id];
  step->b = inst->n_operands > 1 ? slot_of[inst->operands[1]->id] : 0;
  step->c = inst->n_operands > 2 ? slot_of[inst->operands[2]->id] : 0;
  step->out = slot_of[inst->id] = m->n_slots++;
  return true;
}

// Gives an instruction its slot: of a parameter, a constant, its operand, or a new step.
static bool compile(Machine *m, const HlInst *inst, int *slot_of) {
  if (!is_real_scalar(inst->shape))
    return false;
  switch (inst->op) {
  case HL_OP_PARAMETER:
    if (hl_parameter_number(inst) < 0 || hl_parameter_number(inst) >= m->n_params)
      return false;
    slot_of[inst->id] = (int)hl_parameter_number(inst);
    m->uses[slot_of[inst->id]] = true;
    return true;
  case HL_OP_CONSTANT: {
    const HlLiteral *value = hl_constant(inst);
    if (!value || !value->data)
      return false;
    slot_of[inst->id] = m->n_slots++;
    m->slot[slot_of[inst->id]] = slot_load(inst->shape->dtype, value->data, 0);
    return true;
  }
  case HL_OP_COPY:
  case HL_OP_RESHAPE:
  case HL_OP_BROADCAST:
  case HL_OP_OPT_BARRIER:
    if (!is_real_scalar(inst->operands[0]->shape) ||
        inst->operands[0]->shape->dtype != inst->shape->dtype)
      return false;
    slot_of[inst->id] = slot_of[inst->operands[0]->id];
    return true;
  default: return compile_step(m, inst, slot_of);
  }
}

static bool set_results(HlArena *arena, Machine *m, const HlComp *comp, const int *slot_of) {
  const HlInst *root = comp->root;
  const bool is_tuple = root->op == HL_OP_TUPLE;
  m->n_results = is_tuple ? (int)root->n_operands : 1;
  m->result = HL_ARRAY(arena, int, m->n_results + 1);
  m->result_dtype = HL_ARRAY(arena, HlDtype, m->n_results + 1);
  for (int k = 0; k < m->n_results; k++) {
    const HlInst *inst = is_tuple ? root->operands[k] : root;
    m->result[k] = slot_of[inst->id];
    m->result_dtype[k] = inst->shape->dtype;
  }
  return true;
}

Machine *machine_new(HlArena *arena, const HlComp *comp) {
  if (!comp->root || comp->n_params > 1000 || comp->n_insts > 10000)
    return NULL;
  Machine *m = HL_NEW(arena, Machine);
  m->n_params = comp->n_params;
  m->slot = HL_ARRAY(arena, Slot, comp->n_insts + (uint32_t)comp->n_params + 1);
  m->step = HL_ARRAY(arena, Step, comp->n_insts + 1);
  m->uses = HL_ARRAY(arena, bool, comp->n_params + 1);
  m->param_dtype = HL_ARRAY(arena, HlDtype, comp->n_params + 1);
  m->n_slots = comp->n_params;
  for (int k = 0; k < comp->n_params; k++) {
    if (!comp->params[k] || !is_real_scalar(comp->params[k]->shape))
      return NULL;
    m->param_dtype[k] = comp->params[k]->shape->dtype;
  }
  const bool *needed = find_needed(arena, comp);
  int *slot_of = HL_ARRAY(arena, int, comp->next_id + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    if (!needed[inst->id] || (inst == comp->root && inst->op == HL_OP_TUPLE))
      continue;
    if (!compile(m, inst, slot_of))
      return NULL;
  }
  return set_results(arena, m, comp, slot_of) ? m : NULL;
}

// --- Running -------------------------------------------------------------------------------------

// The order of the bits: -nan < -inf < ... < -0 < +0 < ... < inf < nan.
static int64_t total_key(double value) {
  const int64_t bits = (int64_t)hl_f64_bits(value);
  return bits < 0 ? bits ^ INT64_MAX : bits;
}

#define COMPARE(T, x, y)                    \
  const T p = (x), q = (y);                 \
  switch (direction) {                      \
  case HL_WORD_direction_EQ: return p == q; \
  case HL_WORD_direction_NE: return p != q; \
  case HL_WORD_direction_GE: return p >= q; \
  case HL_WORD_direction_GT: return p > q;  \
  case HL_WORD_direction_LE: return p <= q; \
  default: return p < q;                    \
  }
static bool compare_f(int direction, double a, double b) {
  COMPARE(double, a, b)
}
static bool compare_i(int direction, int64_t a, int64_t b) {
  COMPARE(int64_t, a, b)
}
static bool compare_u(int direction, uint64_t a, uint64_t b) {
  COMPARE(uint64_t, a, b)
}
#undef COMPARE

static double max_f(double a, double b) {
  return a != a ? a : b != b ? b : a >= b ? a : b;
}
static double min_f(double a, double b) {
  return a != a ? a : b != b ? b : a <= b ? a : b;
}
static double clamp_f(double low, double x, double high) {
  return low != low ? low : x != x ? x : high != high ? high : min_f(high, max_f(x, low));
}

static int64_t divide(HlDtype dtype, int64_t a, int64_t b) {
  if (b == 0)
    return -1;
  return b == -1 && hl_is_signed(dtype) ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t rest(HlDtype dtype, int64_t a, int64_t b) {
  if (b == 0)
    return a;
  return b == -1 && hl_is_signed(dtype) ? 0 : a % b;
}

static Slot shift(HlDtype dtype, bool left, Slot a, Slot b) {
  const int bits = hl_dtype_info[dtype].bits;
  const uint64_t mask = UINT64_MAX >> (64 - bits);
  const uint64_t amount = (uint64_t)b.i & mask, value = (uint64_t)a.i & mask;
  if (amount >= (uint64_t)bits)
    return (Slot){.i = 0};
  return (Slot){.i = (int64_t)(left ? value << amount : value >> amount)};
}

static Slot recast(const Step *s, Slot a, bool bits) {
  double from[2], to[2];
  slot_store((HlDtype)s->from, from, 0, a);
  if (bits)
    return slot_load((HlDtype)s->dtype, from, 0);
  hl_convert_elements((HlDtype)s->dtype, to, (HlDtype)s->from, from, 1);
  return slot_load((HlDtype)s->dtype, to, 0);
}

#define F(value) \
  (Slot) {       \
    .f = (value) \
  }
#define I(value)          \
  (Slot) {                \
    .i = (int64_t)(value) \
  }
static Slot run_step(const Step *s, Slot a, Slot b, Slot c) {
  switch (s->what) {
  case M_ADD_F: return F(a.f + b.f);
  case M_SUB_F: return F(a.f - b.f);
  case M_MUL_F: return F(a.f * b.f);
  case M_DIV_F: return F(a.f / b.f);
  case M_MAX_F: return F(max_f(a.f, b.f));
  case M_MIN_F: return F(min_f(a.f, b.f));
  case M_NEG_F: return F(-a.f);
  case M_ABS_F: return F(fabs(a.f));
  case M_CLAMP_F: return F(clamp_f(a.f, b.f, c.f));
  case M_COMPARE_F: return I(compare_f(s->detail, a.f, b.f));
  case M_COMPARE_TOTAL: return I(compare_i(s->detail, total_key(a.f), total_key(b.f)));
  case M_IS_FINITE: return I(isfinite(a.f) != 0);
  case M_ADD: return I((uint64_t)a.i + (uint64_t)b.i);
  case M_SUB: return I((uint64_t)a.i - (uint64_t)b.i);
  case M_MUL: return I((uint64_t)a.i * (uint64_t)b.i);
  case M_DIV: return I(divide((HlDtype)s->from, a.i, b.i));
  case M_REM: return I(rest((HlDtype)s->from, a.i, b.i));
  case M_MAX: return I(b.i > a.i ? b.i : a.i);
  case M_MIN: return I(b.i < a.i ? b.i : a.i);
  case M_MAX_U64: return I((uint64_t)b.i > (uint64_t)a.i ? b.i : a.i);
  case M_MIN_U64: return I((uint64_t)b.i < (uint64_t)a.i ? b.i : a.i);
  case M_AND: return I(a.i & b.i);
  case M_OR: return I(a.i | b.i);
  case M_XOR: return I(a.i ^ b.i);
  case M_NOT: return I(s->dtype == HL_PRED ? !a.i : ~a.i);
  case M_NEG: return I(0 - (uint64_t)a.i);
  case M_ABS:
    return I(a.i < 0 && hl_is_signed((HlDtype)s->from) ? 0 - (uint64_t)a.i : (uint64_t)a.i);
  case M_COMPARE: return I(compare_i(s->detail, a.i, b.i));
  case M_COMPARE_U64: return I(compare_u(s->detail, (uint64_t)a.i, (uint64_t)b.i));
  case M_SELECT: return a.i ? b : c;
  case M_CONVERT: return recast(s, a, false);
  case M_BITCAST: return recast(s, a, true);
  case M_SHIFT_LEFT: return shift((HlDtype)s->dtype, true, a, b);
  default: return shift((HlDtype)s->dtype, false, a, b);
  }
}
#undef F
#undef I

void machine_run(Machine *m) {
  for (int k = 0; k < m->n_steps; k++) {
    const Step *s = &m->step[k];
    const Slot value = run_step(s, m->slot[s->a], m->slot[s->b], m->slot[s->c]);
    m->slot[s->out] =
        s->dtype == HL_PRED || s->what == M_SELECT ? value : fit((HlDtype)s->dtype, value);
  }
}

// --- Keys of comparators -------------------------------------------------------------------------

// Which parameters each slot depends on, as bits.
static uint64_t *find_sources(HlArena *arena, const Machine *m) {
  uint64_t *from = HL_ARRAY(arena, uint64_t, m->n_slots + 1);
  for (int k = 0; k < m->n_params; k++)
    from[k] = (uint64_t)1 << k;
  for (int k = 0; k < m->n_steps; k++) {
    const Step *s = &m->step[k];
    from[s->out] = from[s->a] | (s->n > 1 ? from[s->b] : 0) | (s->n > 2 ? from[s->c] : 0);
  }
  return from;
}

bool machine_find_key(HlArena *arena, const Machine *m, MachineKey *out) {
  if (m->n_steps == 0 || m->n_results != 1 || m->n_params > 64)
    return false;
  const Step *last = &m->step[m->n_steps - 1];
  const int what = last->what;
  if (last->out != m->result[0] ||
      (last->detail != HL_WORD_direction_LT && last->detail != HL_WORD_direction_GT))
    return false;
  if (what != M_COMPARE_F && what != M_COMPARE_TOTAL && what != M_COMPARE && what != M_COMPARE_U64)
    return false;
  const uint64_t *from = find_sources(arena, m);
  *out = (MachineKey){.a = last->a,
                      .b = last->b,
                      .is_float = what == M_COMPARE_F,
                      .is_total = what == M_COMPARE_TOTAL,
                      .is_u64 = what == M_COMPARE_U64,
                      .up = last->detail == HL_WORD_direction_LT};
  for (int k = 0; 2 * k + 1 < m->n_params; k++)
    if (from[last->a] == (uint64_t)1 << (2 * k) && from[last->b] == (uint64_t)1 << (2 * k + 1)) {
      out->operand = k;
      return true;
    }
  return false;
}

Slot key_of_slot(const MachineKey *key, Slot value) {
  if (key->is_total)
    return (Slot){.i = total_key(value.f)};
  return key->is_u64 ? (Slot){.i = (int64_t)((uint64_t)value.i ^ (uint64_t)1 << 63)} : value;
}

bool machine_folds(const Machine *m, int n, const HlLiteral *const *in, HlLiteral *out) {
  if (m->n_params != 2 * n || m->n_results != n)
    return false;
  for (int k = 0; k < n; k++) {
    const HlDtype dtype = kernel_result(out, k)->shape->dtype;
    if (m->result_dtype[k] != dtype || m->param_dtype[k] != dtype ||
        in[n + k]->shape->dtype != dtype || m->param_dtype[n + k] != in[k]->shape->dtype)
      return false;
  }
  return true;
}
