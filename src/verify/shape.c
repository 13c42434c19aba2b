// verify/shape.c: the written shape of an instruction against the rule of its op (hlo.md 7.2).

#include "verify/verify.h"

#include <inttypes.h>

const char *verify_text(const Verify *v, const HlShape *shape) {
  HlBuf text = {0};
  hl_shape_print(&text, shape, v->options.layout_sensitive);
  const char *kept = hl_arena_strndup(v->scratch, text.at, text.n);
  hl_buf_free(&text);
  return kept;
}

const char *verify_index(Verify *v, HlI64s index) {
  HlBuf text = {0};
  hl_buf_putc(&text, '{');
  for (int k = 0; k < index.n; k++)
    hl_buf_printf(&text, k == 0 ? "%" PRId64 : ",%" PRId64, index.at[k]);
  hl_buf_putc(&text, '}');
  const char *kept = hl_arena_strndup(v->scratch, text.at, text.n);
  hl_buf_free(&text);
  return kept;
}

static const HlLayoutExtra no_extra = {.tail_padding_alignment = 1};

static bool same_tiles(const HlLayoutExtra *a, const HlLayoutExtra *b) {
  if (a->n_tiles != b->n_tiles)
    return false;
  for (int k = 0; k < a->n_tiles; k++)
    if (!hl_i64s_equal(a->tiles[k], b->tiles[k]))
      return false;
  return true;
}

static bool same_splits(const HlLayoutExtra *a, const HlLayoutExtra *b) {
  if (a->n_splits != b->n_splits)
    return false;
  for (int k = 0; k < a->n_splits; k++)
    if (a->splits[k].dimension != b->splits[k].dimension ||
        !hl_i64s_equal(a->splits[k].split_indices, b->splits[k].split_indices))
      return false;
  return true;
}

bool verify_same_layout(const HlLayout *a, const HlLayout *b, int flags) {
  if (a == NULL || b == NULL)
    return a == b;
  if (!hl_i64s_equal(a->minor_to_major, b->minor_to_major))
    return false;
  if ((flags & VERIFY_ORDER_ONLY) != 0 || a->extra == b->extra)
    return true;
  const HlLayoutExtra *x = a->extra != NULL ? a->extra : &no_extra;
  const HlLayoutExtra *y = b->extra != NULL ? b->extra : &no_extra;
  return ((flags & VERIFY_NO_TILES) != 0 || same_tiles(x, y)) &&
         ((flags & VERIFY_NO_SPLITS) != 0 || same_splits(x, y)) &&
         ((flags & VERIFY_NO_MEMORY_SPACE) != 0 || x->memory_space == y->memory_space) &&
         ((flags & VERIFY_NO_PADDING) != 0 ||
          x->tail_padding_alignment == y->tail_padding_alignment) &&
         x->element_bits == y->element_bits && x->index_type == y->index_type &&
         x->pointer_type == y->pointer_type &&
         x->dynamic_metadata_bytes == y->dynamic_metadata_bytes;
}

static bool same_with_layout(const HlShape *a, const HlShape *b, int flags) {
  if (a == b)
    return true;
  if (a->dtype != b->dtype || a->rank != b->rank)
    return false;
  if (hl_shape_is_tuple(a) || a->dtype == HL_BUFFER) {
    for (int k = 0; k < a->rank; k++)
      if (!same_with_layout(a->element[k], b->element[k], flags))
        return false;
    return true;
  }
  for (int d = 0; d < a->rank; d++)
    if (a->dim[d] != b->dim[d] ||
        (a->dynamic != NULL && a->dynamic[d]) != (b->dynamic != NULL && b->dynamic[d]))
      return false;
  return verify_same_layout(a->layout, b->layout, flags);
}

bool verify_same_shape(const Verify *v, const HlShape *a, const HlShape *b, int flags) {
  if (a == b)
    return true;
  return v->options.layout_sensitive ? same_with_layout(a, b, flags) : hl_shape_compatible(a, b);
}

// --- Written against inferred -------------------------------------------------------------------

static bool is_in_fusion(const HlInst *inst) {
  for (const HlCall *call = inst->comp->first_call; call != NULL; call = call->next)
    if (call->caller->op == HL_OP_FUSION)
      return true;
  return false;
}

// What the comparison of written and inferred layout of this op passes over.
static int passed_over(const HlInst *inst) {
  switch ((HlOp)inst->op) {
  case HL_OP_CONSTANT:
  case HL_OP_INFEED:
  case HL_OP_COPY_START:
  case HL_OP_SEND:
  case HL_OP_RECV: return VERIFY_ORDER_ONLY;
  case HL_OP_DYNAMIC_UPDATE_SLICE:
    return is_in_fusion(inst) ? VERIFY_NO_MEMORY_SPACE | VERIFY_NO_TILES : 0;
  default: return 0;
  }
}

static int64_t memory_space(const HlShape *shape) {
  const HlLayout *layout = hl_is_array_dtype(shape->dtype) ? shape->layout : NULL;
  return layout != NULL && layout->extra != NULL ? layout->extra->memory_space : 0;
}

// A copy between host and device moves the bytes as they are.
static bool offload_fits(const HlShape *written, const HlShape *wanted) {
  if (memory_space(written) == HL_SPACE_HOST)
    return written->dtype == wanted->dtype && hl_shape_compatible(written, wanted);
  return same_with_layout(written, wanted, VERIFY_NO_MEMORY_SPACE);
}

// Layout matters only for ops whose result is an operand's buffer or has a prescribed form.
static bool fits(const Verify *v, const HlInst *inst, const HlShape *wanted) {
  const HlShape *written = inst->shape;
  if (written == wanted)
    return true;
  if ((hl_op_info[inst->op].traits & HL_T_EXACT) != 0)
    return verify_same_shape(v, written, wanted,
                             v->options.layout_sensitive ? passed_over(inst) : 0);
  if (v->options.layout_sensitive && inst->op == HL_OP_COPY &&
      (memory_space(written) == HL_SPACE_HOST) != (memory_space(wanted) == HL_SPACE_HOST))
    return offload_fits(written, wanted);
  if (v->options.allow_mixed_precision == HL_ON)
    return hl_shape_compatible_ignoring_precision(written, wanted);
  return hl_shape_compatible(written, wanted);
}

bool verify_expect(Verify *v, const HlInst *inst, const HlShape *wanted) {
  if (fits(v, inst, wanted))
    return true;
  return hl_inst_error(v->cx, inst,
                       "expected instruction to have shape equal to %s, actual shape is %s",
                       verify_text(v, wanted), verify_text(v, inst->shape));
}

bool verify_token(Verify *v, const HlInst *inst, int operand) {
  const HlShape *shape = inst->operands[operand]->shape;
  if (verify_is_token(shape))
    return true;
  return hl_inst_error(v->cx, inst, "expected operand %d to be token-shaped, actual shape is %s",
                       operand, verify_text(v, shape));
}

// Finds the first float type in a shape; *other gets a second one that differs.
static void find_floats(const HlShape *shape, HlDtype *first, HlDtype *other) {
  if (hl_shape_is_tuple(shape)) {
    for (int k = 0; k < shape->rank && *other == HL_NO_DTYPE; k++)
      find_floats(shape->element[k], first, other);
  } else if (hl_is_float(shape->dtype)) {
    if (*first == HL_NO_DTYPE)
      *first = shape->dtype;
    else if (*first != shape->dtype)
      *other = shape->dtype;
  }
}

static bool one_precision(Verify *v, const HlInst *inst) {
  if (v->options.allow_mixed_precision == HL_ON || (hl_op_info[inst->op].traits & HL_T_MIXED) != 0)
    return true;
  HlDtype first = HL_NO_DTYPE, other = HL_NO_DTYPE;
  for (uint32_t k = 0; k < inst->n_operands && other == HL_NO_DTYPE; k++)
    find_floats(inst->operands[k]->shape, &first, &other);
  if (other == HL_NO_DTYPE)
    return true;
  return hl_inst_error(v->cx, inst,
                       "seen floating point types of different precisions in operands of %s, but "
                       "mixed precision is disallowed: %s and %s",
                       hl_op_text((HlOp)inst->op), hl_dtype_info[first].name,
                       hl_dtype_info[other].name);
}

// What every shape must obey whatever the op.
static bool well_formed(Verify *v, const HlInst *inst) {
  const HlShape *shape = inst->shape;
  if (!v->options.allow_unbounded && hl_shape_is_unbounded(shape))
    return hl_inst_error(v->cx, inst, "unbounded dynamism is disabled: %s", verify_text(v, shape));
  return true;
}

bool verify_shape(Verify *v, const HlInst *inst) {
  HlOp op = (HlOp)inst->op;
  if (!well_formed(v, inst))
    return false;
  if (!hl_has_infer(op)) {
    int arity = hl_op_info[op].n_operands;
    if (arity == HL_ANY || (int)inst->n_operands == arity)
      return true;
    return hl_inst_error(v->cx, inst, "expected %d operands for %s instruction, got %u", arity,
                         hl_op_text(op), (unsigned)inst->n_operands);
  }
  const HlShape *wanted = hl_infer_inst(v->cx, inst);
  if (wanted == NULL)
    return false;
  return one_precision(v, inst) && verify_expect(v, inst, wanted);
}
