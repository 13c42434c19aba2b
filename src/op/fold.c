// op/fold.c: memory, wide values and simple combiners, for kernels that fold.

#include "op/fold.h"
#include "base/memory.h"
#include "op/pick.h"

#include <math.h>
#include <string.h>

void *kernel_alloc(HlEval *ev, const HlInst *inst, int64_t n, size_t size) {
  void *at = NULL;
  if (n >= 0 && (uint64_t)n <= SIZE_MAX / 2 / size)
    at = base_try_alloc((n ? (size_t)n : 1) * size);
  if (!at) {
    hl_error_kind(ev->cx, HL_LIMIT, hl_pos(inst), "%s needs more memory than there is",
                  hl_op_text((HlOp)inst->op));
    base_end_try((size_t)n * size);
  }
  return at;
}

bool kernel_check_dims(HlEval *ev, const HlInst *inst, HlI64s dims, int rank) {
  for (int k = 0; k < dims.n; k++) {
    if (dims.at[k] < 0 || dims.at[k] >= rank)
      return hl_inst_error(ev->cx, inst, "dimension %lld is out of range for rank %d",
                           (long long)dims.at[k], rank);
    if (hl_i64s_find(dims, dims.at[k]) != k)
      return hl_inst_error(ev->cx, inst, "dimension %lld is named twice", (long long)dims.at[k]);
  }
  return true;
}

HlI64s kernel_other_dims(HlArena *arena, int rank, HlI64s a, HlI64s b) {
  int64_t *at = HL_ARRAY(arena, int64_t, rank + 1);
  int n = 0;
  for (int d = 0; d < rank; d++)
    if (hl_i64s_find(a, d) < 0 && hl_i64s_find(b, d) < 0)
      at[n++] = d;
  return (HlI64s){at, n};
}

HlLiteral *kernel_result(HlLiteral *out, int k) {
  return hl_shape_is_tuple(out->shape) ? out->element[k] : out;
}

HlLiteral *kernel_vector(HlEval *ev, HlDtype dtype, int64_t n) {
  HlShape shape = {.dtype = dtype, .rank = 1, .dim = &n};
  return hl_literal_new(ev->cx, &shape);
}

// --- Wide values ---------------------------------------------------------------------------------

Wide wide_of(HlDtype dtype) {
  return hl_is_complex(dtype) ? WIDE_COMPLEX : hl_is_float(dtype) ? WIDE_FLOAT : WIDE_INT;
}

HlDtype wide_dtype(Wide wide) {
  return wide == WIDE_COMPLEX ? HL_C128 : wide == WIDE_FLOAT ? HL_F64 : HL_S64;
}

// In strips, for a look at whether they are still wanted.
static void convert_all(HlDtype to_type, char *to, HlDtype from_type, const char *from, int64_t n) {
  enum { STRIP = 1 << 14 };
  for (int64_t at = 0; at < n; at += STRIP) {
    base_look();
    hl_convert_elements(to_type, to + at * hl_dtype_bytes(to_type), from_type,
                        from + at * hl_dtype_bytes(from_type), n - at < STRIP ? n - at : STRIP);
  }
}

void *wide_load(HlEval *ev, const HlInst *inst, const HlLiteral *literal, Wide wide) {
  void *at = kernel_alloc(ev, inst, literal->n, wide == WIDE_COMPLEX ? 16 : 8);
  if (at)
    convert_all(wide_dtype(wide), at, literal->shape->dtype, literal->data, literal->n);
  return at;
}

void wide_store(HlLiteral *literal, int64_t at, Wide wide, const void *from, int64_t n) {
  const HlDtype dtype = literal->shape->dtype;
  char *to = (char *)literal->data + at * hl_dtype_bytes(dtype);
  convert_all(dtype, to, wide_dtype(wide), from, n);
}

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

// --- Simple combiners ----------------------------------------------------------------------------

HlOp fold_simple_op(const HlComp *comp) {
  const HlInst *root = comp->root;
  if (comp->n_params != 2 || !root)
    return HL_OP_COUNT;
  if (root->op == HL_OP_PARAMETER)
    return hl_parameter_number(root) == 1 ? HL_OP_PARAMETER : HL_OP_COUNT;
  switch (root->op) {
  case HL_OP_ADD:
  case HL_OP_MULTIPLY:
  case HL_OP_MAXIMUM:
  case HL_OP_MINIMUM:
  case HL_OP_AND:
  case HL_OP_OR:
  case HL_OP_XOR: break;
  default: return HL_OP_COUNT;
  }
  if (root->n_operands != 2)
    return HL_OP_COUNT;
  const HlInst *a = root->operands[0], *b = root->operands[1];
  if (a->op != HL_OP_PARAMETER || b->op != HL_OP_PARAMETER || a == b)
    return HL_OP_COUNT;
  return (HlOp)root->op;
}

static HlOp fold_wide_op(HlOp op, HlDtype dtype) {
  if (dtype == HL_PRED && (op == HL_OP_ADD || op == HL_OP_MAXIMUM))
    return HL_OP_OR;
  if (dtype == HL_PRED && (op == HL_OP_MULTIPLY || op == HL_OP_MINIMUM))
    return HL_OP_AND;
  return op;
}

bool fold_is_wide(HlOp op, HlDtype dtype) {
  if (op == HL_OP_COUNT || op == HL_OP_PARAMETER || !hl_is_array_dtype(dtype) ||
      hl_is_complex(dtype))
    return false;
  return !hl_is_float(dtype) || (op != HL_OP_AND && op != HL_OP_OR && op != HL_OP_XOR);
}

Slot fold_neutral(HlOp op, HlDtype dtype) {
  const bool is_float = hl_is_float(dtype);
  const int bits = hl_dtype_info[dtype].bits;
  const bool is_signed = hl_is_signed(dtype);
  const int64_t top = is_signed ? INT64_MAX >> (64 - bits) : (int64_t)(UINT64_MAX >> (64 - bits));
  switch (fold_wide_op(op, dtype)) {
  case HL_OP_ADD: return is_float ? (Slot){.f = -0.0} : (Slot){.i = 0};
  case HL_OP_MULTIPLY: return is_float ? (Slot){.f = 1} : (Slot){.i = 1};
  case HL_OP_MAXIMUM:
    return is_float ? (Slot){.f = -INFINITY} : (Slot){.i = is_signed ? -top - 1 : 0};
  case HL_OP_MINIMUM: return is_float ? (Slot){.f = INFINITY} : (Slot){.i = top};
  case HL_OP_AND: return (Slot){.i = dtype == HL_PRED ? 1 : -1};
  default: return (Slot){.i = 0};
  }
}

// f32 products and smaller round at every step, so that overflow is seen where XLA sees it; sums
// are kept in double and round once.
static inline double product(HlDtype dtype, double a, double b) {
  return dtype == HL_F64 ? a * b : (double)(float)(a * b);
}
static inline int64_t sum_of(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t product_of(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
static inline int64_t larger_of(int64_t a, int64_t b) {
  return b > a ? b : a;
}
static inline int64_t smaller_of(int64_t a, int64_t b) {
  return b < a ? b : a;
}
static inline int64_t larger_u64(int64_t a, int64_t b) {
  return (uint64_t)b > (uint64_t)a ? b : a;
}
static inline int64_t smaller_u64(int64_t a, int64_t b) {
  return (uint64_t)b < (uint64_t)a ? b : a;
}

// One line per way of folding: member of Slot, and the expression of a and b. RUN is what to do.
#define EACH_FOLD(RUN)                                \
  if (hl_is_float(dtype)) {                           \
    switch (op) {                                     \
    case HL_OP_ADD: RUN(f, a + b)                     \
    case HL_OP_MULTIPLY: RUN(f, product(dtype, a, b)) \
    case HL_OP_MAXIMUM: RUN(f, larger_f64(a, b))      \
    default: RUN(f, smaller_f64(a, b))                \
    }                                                 \
  }                                                   \
  switch (fold_wide_op(op, dtype)) {                  \
  case HL_OP_ADD: RUN(i, sum_of(a, b))                \
  case HL_OP_MULTIPLY: RUN(i, product_of(a, b))       \
  case HL_OP_MAXIMUM:                                 \
    if (dtype == HL_U64)                              \
      RUN(i, larger_u64(a, b))                        \
    RUN(i, larger_of(a, b))                           \
  case HL_OP_MINIMUM:                                 \
    if (dtype == HL_U64)                              \
      RUN(i, smaller_u64(a, b))                       \
    RUN(i, smaller_of(a, b))                          \
  case HL_OP_AND: RUN(i, a &b)                        \
  case HL_OP_OR: RUN(i, a | b)                        \
  default: RUN(i, a ^ b)                              \
  }

#define T_f double
#define T_i int64_t
#define RUN_SLOT(m, expr)           \
  {                                 \
    const T_##m a = acc.m, b = x.m; \
    return (Slot){.m = (expr)};     \
  }
#define RUN_RUN(m, expr)              \
  {                                   \
    T_##m a = acc.m;                  \
    for (int64_t k = 0; k < n; k++) { \
      const T_##m b = x[k].m;         \
      a = (expr);                     \
    }                                 \
    return (Slot){.m = a};            \
  }
#define RUN_VECTORS(m, expr)                \
  {                                         \
    for (int64_t k = 0; k < n; k++) {       \
      const T_##m a = acc[k].m, b = x[k].m; \
      acc[k].m = (expr);                    \
    }                                       \
    return;                                 \
  }

Slot fold_slot(HlOp op, HlDtype dtype, Slot acc, Slot x){EACH_FOLD(RUN_SLOT)}

Slot fold_run(HlOp op, HlDtype dtype, Slot acc, const Slot *x, int64_t n) {
  if (op == HL_OP_ADD && hl_is_float(dtype) && n >= 8) {  // four chains, for speed
    double part[4] = {acc.f, -0.0, -0.0, -0.0};
    int64_t k = 0;
    for (; k + 4 <= n; k += 4)
      for (int j = 0; j < 4; j++)
        part[j] += x[k + j].f;
    for (; k < n; k++)
      part[0] += x[k].f;
    return (Slot){.f = part[0] + part[1] + (part[2] + part[3])};
  }
  EACH_FOLD(RUN_RUN)
}

void fold_vectors(HlOp op, HlDtype dtype, Slot *acc, const Slot *x, int64_t n) {
  EACH_FOLD(RUN_VECTORS)
}
#undef EACH_FOLD
#undef T_f
#undef T_i
#undef RUN_SLOT
#undef RUN_RUN
#undef RUN_VECTORS

void fold_as_parts(HlArena *arena, const HlLiteral *whole, HlLiteral *parts, HlShape *shape) {
  const int rank = whole->shape->rank;
  int64_t *dim = HL_ARRAY(arena, int64_t, rank + 1);
  for (int d = 0; d < rank; d++)
    dim[d] = whole->shape->dim[d];
  dim[rank] = 2;
  const HlDtype part = whole->shape->dtype == HL_C64 ? HL_F32 : HL_F64;
  *shape = (HlShape){.dtype = part, .rank = rank + 1, .dim = dim};
  *parts = (HlLiteral){.refs = 1, .shape = shape, .data = whole->data, .n = 2 * whole->n};
}

bool fold_call(HlEval *ev, const HlComp *comp, HlLiteral **acc, int n_acc, HlLiteral *const *x,
               int n_x) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlMark mark = hl_arena_mark(arena);
  const HlLiteral **args = HL_ARRAY(arena, const HlLiteral *, n_acc + n_x);
  for (int k = 0; k < n_acc + n_x; k++)
    args[k] = k < n_acc ? acc[k] : x[k - n_acc];
  HlLiteral **out = HL_ARRAY(arena, HlLiteral *, n_acc);
  const bool ok = ev->call_scalar(ev, comp, args, n_acc + n_x, out, n_acc);
  for (int k = 0; ok && k < n_acc; k++) {
    hl_literal_unref(acc[k]);
    acc[k] = out[k];
  }
  hl_arena_release(arena, mark);
  return ok;
}
