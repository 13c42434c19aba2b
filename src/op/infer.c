// op/infer.c: finds the shape rule of an instruction, and what all rules need.

#include "op/infer.h"

#include <inttypes.h>

static HlInferFn *const rule[HL_OP_COUNT] = {
#define OP(id, text, in, traits, shape, ...) [HL_OP_##id] = infer_##shape,
#include "hilo/ops.def"
};

// The rule of ops that have none: their shape must be written.
const HlShape *infer_none(const HlInfer *q) {
  return NULL;
}

bool hl_has_infer(HlOp op) {
  return op < HL_OP_COUNT && rule[op] != infer_none;
}

const HlShape *hl_infer_error(const HlInfer *q, const char *format, ...) {
  va_list args;
  va_start(args, format);
  HlBuf text = {0};
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  hl_inst_error(q->cx, q->inst, "%s", text.at);
  hl_buf_free(&text);
  return NULL;
}

const HlShape *hl_infer(const HlInfer *q) {
  HlOp op = (HlOp)q->inst->op;
  if (!hl_has_infer(op))
    return NULL;
  int arity = hl_op_info[op].n_operands;
  if (arity != HL_ANY && q->n != arity)
    return hl_infer_error(q, "expected %d operands for %s instruction, got %d", arity,
                          hl_op_text(op), q->n);
  HlArena *scratch = hl_cx_scratch(q->cx);
  HlMark mark = hl_arena_mark(scratch);
  const HlShape *shape = rule[op](q);
  hl_arena_release(scratch, mark);
  return shape;
}

const HlShape *hl_infer_inst(HlCx *cx, const HlInst *inst) {
  HlArena *scratch = hl_cx_scratch(cx);
  HlMark mark = hl_arena_mark(scratch);
  int n = (int)inst->n_operands;
  const HlShape *few[8], **in = n <= 8 ? few : HL_ARRAY(scratch, const HlShape *, n);
  for (int k = 0; k < n; k++)
    in[k] = inst->operands[k]->shape;
  HlInfer q = {cx, inst->comp->module->shapes, inst, in, n, inst->shape};
  const HlShape *shape = hl_infer(&q);
  hl_arena_release(scratch, mark);
  return shape;
}

// --- Shapes under construction ------------------------------------------------------------------

InferDims infer_dims(const HlInfer *q, int rank) {
  HlArena *scratch = hl_cx_scratch(q->cx);
  return (InferDims){rank, HL_ARRAY(scratch, int64_t, rank + 1), HL_ARRAY(scratch, bool, rank + 1)};
}

InferDims infer_dims_of(const HlInfer *q, const HlShape *shape) {
  InferDims dims = infer_dims(q, shape->rank);
  for (int d = 0; d < shape->rank; d++) {
    dims.dim[d] = shape->dim[d];
    dims.dynamic[d] = infer_dynamic(shape, d);
  }
  return dims;
}

const HlShape *infer_make(const HlInfer *q, HlDtype dtype, const InferDims *dims) {
  bool dynamic = false;
  for (int d = 0; d < dims->rank; d++) {
    if (dims->dim[d] == HL_UNBOUNDED)
      dims->dynamic[d] = true;
    else if (dims->dim[d] < 0)
      return hl_infer_error(q, "result of %s has negative size %" PRId64 " in dimension %d",
                            infer_op(q), dims->dim[d], d);
    dynamic |= dims->dynamic[d];
  }
  if (!dynamic)
    return hl_shape_array(q->shapes, dtype, dims->rank, dims->dim);
  int64_t order[16], *minor_to_major = dims->rank <= 16
                                           ? order
                                           : HL_ARRAY(hl_cx_scratch(q->cx), int64_t, dims->rank);
  for (int d = 0; d < dims->rank; d++)
    minor_to_major[d] = dims->rank - 1 - d;
  HlLayout layout = {{minor_to_major, dims->rank}, NULL};
  return hl_shape_array_full(q->shapes, dtype, dims->rank, dims->dim, dims->dynamic, &layout);
}

const HlShape *infer_with_dynamism(const HlInfer *q, const HlShape *shape, const bool *dynamic) {
  bool some = false, same = true;
  for (int d = 0; d < shape->rank; d++) {
    some |= dynamic[d];
    same &= dynamic[d] == infer_dynamic(shape, d);
  }
  if (same)
    return shape;
  return hl_shape_array_full(q->shapes, shape->dtype, shape->rank, shape->dim,
                             some ? dynamic : NULL, shape->layout);
}

const HlShape *infer_tuple_or_one(const HlInfer *q, int n, const HlShape *const *shape) {
  return n == 1 ? shape[0] : hl_shape_tuple(q->shapes, n, shape);
}

// --- Called computations ------------------------------------------------------------------------

bool infer_comp(const HlInfer *q, int number, InferComp *out) {
  const HlInst *inst = q->inst;
  if (number >= inst->n_calls) {
    hl_infer_error(q, "%s calls %d computations, expected at least %d", infer_op(q), inst->n_calls,
                   number + 1);
    return false;
  }
  const HlComp *comp = inst->calls[number].comp;
  bool whole = comp->root != NULL && comp->root->shape != NULL;
  for (int k = 0; whole && k < comp->n_params; k++)
    whole = comp->params[k] != NULL && comp->params[k]->shape != NULL;
  if (!whole) {
    hl_infer_error(q, "called computation %s is not complete: it lacks a root or a parameter",
                   comp->name->text);
    return false;
  }
  *out = (InferComp){comp, comp->root->shape, comp->n_params};
  return true;
}

const HlShape *infer_param(const InferComp *comp, int number) {
  return comp->comp->params[number]->shape;
}

// --- Checks -------------------------------------------------------------------------------------

bool infer_is_array(const HlInfer *q, const HlShape *shape, const char *what) {
  if (hl_is_array_dtype(shape->dtype))
    return true;
  hl_infer_error(q, "expected array argument for %s, but got %s", what, infer_text(q, shape));
  return false;
}

bool infer_array(const HlInfer *q, int operand, const char *what) {
  return infer_is_array(q, q->in[operand], what);
}

bool infer_same_kind(HlDtype a, HlDtype b) {
  return a == b || (hl_is_float(a) && hl_is_float(b));
}

bool infer_unique(HlI64s list, int64_t limit) {
  uint64_t seen = 0;
  for (int k = 0; k < list.n; k++) {
    int64_t value = list.at[k];
    if (value < 0 || value >= limit)
      return false;
    if (value < 64) {
      if (seen >> value & 1)
        return false;
      seen |= UINT64_C(1) << value;
    } else if (hl_i64s_find((HlI64s){list.at, k}, value) >= 0) {
      return false;
    }
  }
  return true;
}

bool infer_ascending(HlI64s list, bool strictly) {
  for (int k = 1; k < list.n; k++)
    if (list.at[k] < list.at[k - 1] || (strictly && list.at[k] == list.at[k - 1]))
      return false;
  return true;
}

// --- Texts for messages -------------------------------------------------------------------------

const char *infer_text(const HlInfer *q, const HlShape *shape) {
  HlBuf text = {0};
  hl_shape_print(&text, shape, false);
  const char *kept = hl_arena_strndup(hl_cx_scratch(q->cx), text.at, text.n);
  hl_buf_free(&text);
  return kept;
}

const char *infer_ints(const HlInfer *q, HlI64s list) {
  HlBuf text = {0};
  hl_buf_grow(&text, 1);
  for (int k = 0; k < list.n; k++) {
    if (k > 0)
      hl_buf_putc(&text, ',');
    hl_buf_i64(&text, list.at[k]);
  }
  const char *kept = hl_arena_strndup(hl_cx_scratch(q->cx), text.n > 0 ? text.at : "", text.n);
  hl_buf_free(&text);
  return kept;
}

const char *infer_shapes(const HlInfer *q, int first, int n) {
  HlBuf text = {0};
  hl_buf_grow(&text, 1);
  for (int k = first; k < first + n; k++) {
    if (k > first)
      hl_buf_puts(&text, ", ");
    hl_shape_print(&text, q->in[k], false);
  }
  const char *kept = hl_arena_strndup(hl_cx_scratch(q->cx), text.n > 0 ? text.at : "", text.n);
  hl_buf_free(&text);
  return kept;
}

// --- Types and numbers --------------------------------------------------------------------------

// What ranks first in precision: the range of exponents, then the significand, then the width.
static int64_t precision(HlDtype dtype) {
  const HlDtypeInfo *info = &hl_dtype_info[dtype];
  int64_t range = 0, significand = 0;
  bool complex = info->kind == HL_KIND_COMPLEX;
  if (info->kind == HL_KIND_FLOAT || complex) {
    bool wide = dtype == HL_F64 || dtype == HL_C128, small = info->format.bits != 0;
    int exponent_bits = small ? info->format.exponent_bits : wide ? 11 : 8;
    int bias = small ? info->format.bias : wide ? 1023 : 127;
    range = (INT64_C(1) << exponent_bits) - bias;
    significand = small ? info->format.mantissa_bits : wide ? 52 : 23;
  }
  bool is_signed = info->kind == HL_KIND_SINT;
  return (((((int64_t)complex << 16 | range) << 8 | significand) << 8 | info->bits) << 1) |
         (int64_t)is_signed;
}

HlDtype infer_wider(HlDtype a, HlDtype b) {
  return a == b || precision(a) >= precision(b) ? a : b;
}

int64_t infer_add(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum))
    return sum;
  return a > 0 ? INT64_MAX : INT64_MIN + 1;
}

int64_t infer_mul(int64_t a, int64_t b) {
  int64_t product;
  if (!__builtin_mul_overflow(a, b, &product))
    return product;
  return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN + 1;
}
