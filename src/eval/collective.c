// eval/collective.c: all-reduce, reduce-scatter, all-gather, all-to-all, ragged-all-to-all,
// collective-broadcast, collective-reduce, with their start and done forms.
//
// Every member of a group brings its values to the others and computes its own result from all of
// them in the order of the group, so that all get the same bits.

#include "eval/collective.h"

#include <string.h>

// --- Results and the tuples around them ----------------------------------------------------------

// all-reduce-start has the shape of its result; these two have operands and results.
static bool starts_with_operands(const HlInst *inst) {
  return inst->op == HL_OP_ALL_GATHER_START || inst->op == HL_OP_COLLECTIVE_PERMUTE_START;
}

const HlShape *collective_result(const HlInst *inst, int k) {
  const HlShape *shape = inst->shape;
  if (starts_with_operands(inst)) {
    if (!hl_shape_is_tuple(shape) || shape->rank < 2)
      return NULL;
    shape = shape->element[1];
  }
  if (!hl_shape_is_tuple(shape))
    return k == 0 ? shape : NULL;
  return k < shape->rank ? shape->element[k] : NULL;
}

HlLiteral *collective_shaped(Interp *in, const HlInst *inst, const HlLiteral *value,
                             const HlShape *shape) {
  if (!shape || shape->dtype != value->shape->dtype || !hl_shape_same_dims(shape, value->shape)) {
    hl_inst_error(in->ev.cx, inst, "the result should have the shape %s",
                  hl_shape_text(in->ev.cx, value->shape));
    return NULL;
  }
  if (hl_shape_equal(shape, value->shape))
    return hl_literal_ref(value);
  HlLiteral *out = interp_new(in, inst, shape);
  if (!out)
    return NULL;
  if (value->n)
    memcpy(out->data, value->data, (size_t)value->n * (size_t)hl_dtype_bytes(shape->dtype));
  if (out->extent && value->extent)
    memcpy(out->extent, value->extent, (size_t)shape->rank * sizeof *out->extent);
  return out;
}

// Values as the shape says: a tuple of them, or the only one.
static HlLiteral *as_shape(Interp *in, const HlInst *inst, const HlShape *shape,
                           HlLiteral *const *value, int n) {
  if (hl_shape_is_tuple(shape) && shape->rank == n)
    return interp_tuple(in, n, value);
  if (!hl_shape_is_tuple(shape) && n == 1)
    return hl_literal_ref(value[0]);
  hl_inst_error(in->ev.cx, inst, "the shape has not the %d results of the operation", n);
  return NULL;
}

static HlLiteral *wrap_start(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                             HlLiteral *const *result, int n) {
  const HlShape *shape = inst->shape;
  HlLiteral **element = HL_ARRAY(in->frames, HlLiteral *, shape->rank);
  const bool in_place =
      inst->op == HL_OP_COLLECTIVE_PERMUTE_START && hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES);
  HlLiteral *const *given = (HlLiteral *const *)operand;
  HlLiteral *out = NULL;
  bool good = true;
  for (int k = 0; good && k < shape->rank; k++) {
    element[k] = k == 0 && in_place ? hl_literal_ref(operand[0])
                 : k == 0 ? as_shape(in, inst, shape->element[0], given, (int)inst->n_operands)
                 : k == 1 ? as_shape(in, inst, shape->element[1], result, n)
                          : interp_new(in, inst, shape->element[k]);
    good = element[k] != NULL;
  }
  if (good)
    out = interp_tuple(in, shape->rank, element);
  collective_drop(in, element, shape->rank);
  return out;
}

HlLiteral *collective_wrap(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                           HlLiteral *const *result, int n) {
  return starts_with_operands(inst) ? wrap_start(in, inst, operand, result, n)
                                    : as_shape(in, inst, inst->shape, result, n);
}

// --- Parts along a dimension ---------------------------------------------------------------------

// An array seen as rows of bytes: `outer` times `dim` steps of `inner` bytes.
typedef struct Rows {
  int64_t outer, dim;
  size_t inner;
} Rows;

static Rows rows_of(const HlShape *shape, int64_t d) {
  Rows rows = {1, shape->dim[d], (size_t)hl_dtype_bytes(shape->dtype)};
  for (int k = 0; k < shape->rank; k++) {
    if (k < d)
      rows.outer *= shape->dim[k];
    if (k > d)
      rows.inner *= (size_t)shape->dim[k];
  }
  return rows;
}

// Copies `count` steps of dimension d, from place `from_at` of `from` to place `to_at` of `to`.
static void copy_part(HlLiteral *to, int64_t to_at, const HlLiteral *from, int64_t from_at,
                      int64_t count, int64_t d) {
  const Rows t = rows_of(to->shape, d), f = rows_of(from->shape, d);
  const size_t bytes = (size_t)count * t.inner;
  for (int64_t k = 0; bytes && k < t.outer; k++)
    memcpy((char *)to->data + (size_t)(k * t.dim + to_at) * t.inner,
           (const char *)from->data + (size_t)(k * f.dim + from_at) * f.inner, bytes);
}

// Whether `shape` is that of `from`, but for `size` in dimension d.
static bool check_dim(Interp *in, const HlInst *inst, const HlShape *shape, const HlShape *from,
                      int64_t d, int64_t size) {
  bool good =
      shape && d >= 0 && d < from->rank && shape->dtype == from->dtype && shape->rank == from->rank;
  for (int k = 0; good && k < from->rank; k++)
    good = shape->dim[k] == (k == d ? size : from->dim[k]);
  return good || hl_inst_error(in->ev.cx, inst,
                               "the operand %s does not give the result %s over this group",
                               hl_shape_text(in->ev.cx, from),
                               shape ? hl_shape_text(in->ev.cx, shape) : "that is missing");
}

// --- The operations ------------------------------------------------------------------------------

// What an operation computes from: all[member * n + k].
typedef struct Meeting {
  const Group *group;
  const HlLiteral *const *mine;
  HlLiteral **all;
  int n;  // operands
} Meeting;
// Computes result k; a new reference or NULL.
typedef HlLiteral *ResultFn(Interp *in, const HlInst *inst, const Meeting *m, int k,
                            const HlShape *shape);

static HlLiteral *all_reduce(Interp *in, const HlInst *inst, const Meeting *m, int k,
                             const HlShape *shape) {
  return collective_fold(in, inst, m->all + k, m->group->n, m->n, shape);
}

// Folds this device's part of every member's value only.
static HlLiteral *reduce_scatter(Interp *in, const HlInst *inst, const Meeting *m, int k,
                                 const HlShape *shape) {
  const HlShape *from = m->mine[k]->shape;
  const int64_t d = hl_dim(inst), n = m->group->n,
                size = d >= 0 && d < from->rank ? from->dim[d] / n : 0;
  if (!check_dim(in, inst, shape, from, d, size))
    return NULL;
  if (from->dim[d] % n) {
    hl_inst_error(in->ev.cx, inst,
                  "dimension %lld of size %lld is not divisible by the group's %lld", (long long)d,
                  (long long)from->dim[d], (long long)n);
    return NULL;
  }
  HlLiteral **part = HL_ARRAY(in->frames, HlLiteral *, n), *out = NULL;
  bool good = true;
  for (int64_t j = 0; good && j < n; j++) {
    part[j] = interp_new(in, inst, shape);
    good = part[j] != NULL;
    if (good)
      copy_part(part[j], 0, m->all[j * m->n + k], m->group->me * size, size, d);
  }
  if (good)
    out = collective_fold(in, inst, part, (int)n, 1, shape);
  collective_drop(in, part, (int)n);
  return out;
}

static HlLiteral *all_gather(Interp *in, const HlInst *inst, const Meeting *m, int k,
                             const HlShape *shape) {
  const HlShape *from = m->mine[k]->shape;
  const int64_t d = hl_dim(inst), n = m->group->n,
                size = d >= 0 && d < from->rank ? from->dim[d] : 0;
  if (size > INT64_MAX / n || !check_dim(in, inst, shape, from, d, size * n))
    return NULL;
  HlLiteral *out = interp_new(in, inst, shape);
  for (int64_t j = 0; out && j < n; j++)
    copy_part(out, j * size, m->all[j * m->n + k], 0, size, d);
  return out;
}

// With a dimension: part `me` of every member's operand, one after another.
static HlLiteral *all_to_all_parts(Interp *in, const HlInst *inst, const Meeting *m,
                                   const HlShape *shape) {
  const HlShape *from = m->mine[0]->shape;
  const int64_t d = hl_dim(inst), n = m->group->n,
                size = d >= 0 && d < from->rank ? from->dim[d] : 0;
  if (!check_dim(in, inst, shape, from, d, size))
    return NULL;
  if (size % n) {
    hl_inst_error(in->ev.cx, inst,
                  "dimension %lld of size %lld is not divisible by the group's %lld", (long long)d,
                  (long long)size, (long long)n);
    return NULL;
  }
  HlLiteral *out = interp_new(in, inst, shape);
  for (int64_t j = 0; out && j < n; j++)
    copy_part(out, j * (size / n), m->all[j * m->n], m->group->me * (size / n), size / n, d);
  return out;
}

// Without: result k is operand `me` of member k.
static HlLiteral *all_to_all(Interp *in, const HlInst *inst, const Meeting *m, int k,
                             const HlShape *shape) {
  if (hl_has_attr(inst, HL_A_DIMENSION))
    return all_to_all_parts(in, inst, m, shape);
  if (m->n != m->group->n) {
    hl_inst_error(in->ev.cx, inst, "%d operands for a group of %d", m->n, m->group->n);
    return NULL;
  }
  return collective_shaped(in, inst, m->all[k * m->n + m->group->me], shape);
}

static bool has_dynamic_root(const HlInst *inst) {
  return hl_attr_int(inst, HL_A_HAS_DYNAMIC_ROOT) != 0;
}

// The place in the group of the root of data operand k: the first, or as the last operand says.
static bool find_root(Interp *in, const HlInst *inst, const Meeting *m, int k, int64_t *out) {
  *out = has_dynamic_root(inst) ? hl_literal_i64(m->mine[m->n - 1], k) : 0;
  return (*out >= 0 && *out < m->group->n) ||
         hl_inst_error(in->ev.cx, inst, "the root %lld of operand %d is not one of the group's %d",
                       (long long)*out, k, m->group->n);
}

static HlLiteral *broadcast(Interp *in, const HlInst *inst, const Meeting *m, int k,
                            const HlShape *shape) {
  int64_t root;
  return find_root(in, inst, m, k, &root)
             ? collective_shaped(in, inst, m->all[root * m->n + k], shape)
             : NULL;
}

// Who is not the root gets zeros.
static HlLiteral *reduce_to_root(Interp *in, const HlInst *inst, const Meeting *m, int k,
                                 const HlShape *shape) {
  int64_t root;
  if (!find_root(in, inst, m, k, &root))
    return NULL;
  return m->group->me == root || !shape
             ? collective_fold(in, inst, m->all + k, m->group->n, m->n, shape)
             : interp_new(in, inst, shape);
}

// --- ragged-all-to-all ---------------------------------------------------------------------------

enum {
  RAGGED_INPUT,
  RAGGED_OUTPUT,
  RAGGED_INPUT_OFFSETS,
  RAGGED_SEND_SIZES,
  RAGGED_OUTPUT_OFFSETS,
  RAGGED_RECV_SIZES,
  RAGGED_OPERANDS
};

static bool check_ragged(Interp *in, const HlInst *inst, const Meeting *m) {
  const HlShape *input = m->mine[RAGGED_INPUT]->shape, *output = m->mine[RAGGED_OUTPUT]->shape;
  bool good = input->rank > 0 && input->rank == output->rank && input->dtype == output->dtype;
  for (int k = 1; good && k < input->rank; k++)
    good = input->dim[k] == output->dim[k];
  const int64_t n = m->mine[RAGGED_INPUT_OFFSETS]->n;
  for (int k = RAGGED_INPUT_OFFSETS; good && k < RAGGED_OPERANDS; k++)
    good = m->mine[k]->n == n && hl_is_integral(m->mine[k]->shape->dtype);
  return (good && n % m->group->n == 0) ||
         hl_inst_error(in->ev.cx, inst, "the six operands do not fit each other and a group of %d",
                       m->group->n);
}

// Copies what member j sends to this device into `out`: its updates me * each .. of `each` per member.
static bool receive_ragged(Interp *in, const HlInst *inst, const Meeting *m, int j,
                           HlLiteral *out) {
  HlLiteral *const *theirs = m->all + j * m->n;
  const int64_t each = theirs[RAGGED_INPUT_OFFSETS]->n / m->group->n;
  for (int64_t u = m->group->me * each; u < (m->group->me + 1) * each; u++) {
    const int64_t from = hl_literal_i64(theirs[RAGGED_INPUT_OFFSETS], u);
    const int64_t size = hl_literal_i64(theirs[RAGGED_SEND_SIZES], u);
    const int64_t to = hl_literal_i64(theirs[RAGGED_OUTPUT_OFFSETS], u);
    const int64_t have = theirs[RAGGED_INPUT]->shape->dim[0], room = out->shape->dim[0];
    if (size < 0 || from < 0 || to < 0 || size > have || from > have - size || size > room ||
        to > room - size)
      return hl_inst_error(
          in->ev.cx, inst, "%lld rows from %lld to %lld do not fit %lld rows into %lld",
          (long long)size, (long long)from, (long long)to, (long long)have, (long long)room);
    copy_part(out, to, theirs[RAGGED_INPUT], from, size, 0);
  }
  return true;
}

static HlLiteral *ragged_all_to_all(Interp *in, const HlInst *inst, const Meeting *m, int k,
                                    const HlShape *shape) {
  const HlLiteral *output = m->n == RAGGED_OPERANDS ? m->mine[RAGGED_OUTPUT] : NULL;
  if (!output || !check_ragged(in, inst, m) ||
      !check_dim(in, inst, shape, output->shape, 0, output->shape->dim[0]))
    return NULL;
  HlLiteral *out = interp_new(in, inst, shape);
  if (!out)
    return NULL;
  if (output->n)
    memcpy(out->data, output->data, (size_t)output->n * (size_t)hl_dtype_bytes(shape->dtype));
  for (int j = 0; j < m->group->n; j++)
    if (!receive_ragged(in, inst, m, j, out)) {
      interp_drop(in, out);
      return NULL;
    }
  return out;
}

// --- Running -------------------------------------------------------------------------------------

static ResultFn *const result_of[HL_OP_COUNT] = {
    [HL_OP_ALL_REDUCE] = all_reduce,
    [HL_OP_REDUCE_SCATTER] = reduce_scatter,
    [HL_OP_ALL_GATHER] = all_gather,
    [HL_OP_ALL_TO_ALL] = all_to_all,
    [HL_OP_RAGGED_ALL_TO_ALL] = ragged_all_to_all,
    [HL_OP_COLLECTIVE_BROADCAST] = broadcast,
    [HL_OP_COLLECTIVE_REDUCE] = reduce_to_root,
};

static HlLiteral *compute(Interp *in, const HlInst *inst, const Meeting *m,
                          const HlLiteral *const *operand) {
  const int n = inst->op == HL_OP_RAGGED_ALL_TO_ALL ? 1 : m->n - has_dynamic_root(inst);
  HlLiteral **result = HL_ARRAY(in->frames, HlLiteral *, n + 1), *out = NULL;
  bool good = true;
  for (int k = 0; good && k < n; k++) {
    const HlShape *shape = collective_result(inst, k);
    result[k] = m->group->n == 0 && shape
                    ? interp_new(in, inst, shape)
                    : result_of[hl_op_plain((HlOp)inst->op)](in, inst, m, k, shape);
    good = result[k] != NULL;
  }
  if (good)
    out = collective_wrap(in, inst, operand, result, n);
  collective_drop(in, result, n);
  return out;
}

// A device outside all groups: what has a root gives zeros, anything else makes no sense.
static bool check_outside(Interp *in, const HlInst *inst) {
  return inst->op == HL_OP_COLLECTIVE_BROADCAST || inst->op == HL_OP_COLLECTIVE_REDUCE ||
         hl_inst_error(in->ev.cx, inst, "device %d is in none of the replica_groups", in->device);
}

static bool meet(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral **out) {
  Group group = {NULL, 0, -1};
  const int n = (int)inst->n_operands;
  if (n == 0)
    return hl_inst_error(in->ev.cx, inst, "%s has no operand", hl_op_text((HlOp)inst->op));
  if (!collective_group(in, inst, &group) || (group.n == 0 && !check_outside(in, inst)))
    return false;
  HlLiteral **all = HL_ARRAY(in->frames, HlLiteral *, (int64_t)group.n * n + 1);
  if (group.n > 0 && !collective_exchange(in, inst, &group, operand, n, all))
    return false;
  const Meeting m = {&group, operand, all, n};
  *out = compute(in, inst, &m, operand);
  collective_drop(in, all, group.n * n);
  return *out != NULL;
}

bool eval_collective(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                     HlLiteral **out) {
  const HlMark mark = hl_arena_mark(in->frames);
  const bool permute =
      inst->op == HL_OP_COLLECTIVE_PERMUTE || inst->op == HL_OP_COLLECTIVE_PERMUTE_START;
  const bool good =
      permute ? eval_collective_permute(in, inst, operand, out) : meet(in, inst, operand, out);
  hl_arena_release(in->frames, mark);
  return good;
}

bool eval_collective_done(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                          HlLiteral **out) {
  if (inst->op == HL_OP_ALL_REDUCE_DONE) {
    *out = hl_literal_ref(operand[0]);
    return true;
  }
  if (!operand[0]->element || operand[0]->shape->rank < 2)
    return hl_inst_error(in->ev.cx, inst, "the operand has not been started: its shape is %s",
                         hl_shape_text(in->ev.cx, operand[0]->shape));
  *out = hl_literal_ref(operand[0]->element[1]);
  return true;
}
