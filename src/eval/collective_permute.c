// eval/collective_permute.c: collective-permute: values sent along pairs of devices.
//
// Sources post and targets take, so that only the devices of a pair wait for each other. The form
// with slice_sizes sends boxes of its first operand into boxes of its second.

#include "eval/collective.h"
#include "op/kernel.h"

#include <string.h>

// The k-th pair as devices; false when an id names no device (reported).
static bool pair_at(Interp *in, const HlInst *inst, HlI64s pairs, int k, int *source, int *target) {
  *source = collective_peer(in, inst, pairs.at[2 * k]);
  *target = collective_peer(in, inst, pairs.at[2 * k + 1]);
  return (*source >= 0 && *target >= 0) ||
         hl_inst_error(in->ev.cx, inst,
                       "source_target_pairs has {%lld,%lld}, but there are only %d %s",
                       (long long)pairs.at[2 * k], (long long)pairs.at[2 * k + 1],
                       hl_attr_int(inst, HL_A_CHANNEL_ID) > 0 ? in->cluster->partitions
                                                              : in->cluster->replicas,
                       hl_attr_int(inst, HL_A_CHANNEL_ID) > 0 ? "partitions" : "replicas");
}

static MeetKey key_of(const Interp *in, const HlInst *inst, int source, int target) {
  const int64_t channel = hl_attr_int(inst, HL_A_CHANNEL_ID);
  return device_key(inst, channel, (int64_t)source * in->cluster->n_devices + target);
}

// Takes a value of the given element type and sizes.
static bool take_like(Interp *in, const HlInst *inst, MeetKey key, const HlShape *shape,
                      HlLiteral **value) {
  if (!device_take(in, inst, key, value))
    return false;
  if ((*value)->shape->dtype == shape->dtype && hl_shape_same_dims((*value)->shape, shape))
    return true;
  hl_inst_error(in->ev.cx, inst, "%s was sent where %s was expected",
                hl_shape_text(in->ev.cx, (*value)->shape), hl_shape_text(in->ev.cx, shape));
  interp_drop(in, *value);
  *value = NULL;
  return false;
}

// --- Whole operands ------------------------------------------------------------------------------

static bool post_all(Interp *in, const HlInst *inst, HlI64s pairs, const HlLiteral *const *operand,
                     int *from) {
  for (int k = 0; k < pairs.n / 2; k++) {
    int source, target;
    if (!pair_at(in, inst, pairs, k, &source, &target))
      return false;
    if (target == in->device)
      *from = source;
    if (source != in->device || target == source)
      continue;
    for (uint32_t j = 0; j < inst->n_operands; j++)
      if (!device_post(in, key_of(in, inst, source, target), target, operand[j]))
        return false;
  }
  return true;
}

static HlLiteral *receive(Interp *in, const HlInst *inst, int from, const HlLiteral *own,
                          const HlShape *shape) {
  if (!shape || shape->dtype != own->shape->dtype || !hl_shape_same_dims(shape, own->shape)) {
    hl_inst_error(in->ev.cx, inst, "the result should have the shape %s",
                  hl_shape_text(in->ev.cx, own->shape));
    return NULL;
  }
  if (from < 0)
    return interp_new(in, inst, shape);
  if (from == in->device)
    return collective_shaped(in, inst, own, shape);
  HlLiteral *value = NULL, *out = NULL;
  if (take_like(in, inst, key_of(in, inst, from, in->device), shape, &value))
    out = collective_shaped(in, inst, value, shape);
  interp_drop(in, value);
  return out;
}

static HlLiteral *permute_whole(Interp *in, const HlInst *inst, HlI64s pairs,
                                const HlLiteral *const *operand) {
  const int n = (int)inst->n_operands;
  int from = -1;
  if (!post_all(in, inst, pairs, operand, &from))
    return NULL;
  HlLiteral **result = HL_ARRAY(in->frames, HlLiteral *, n + 1), *out = NULL;
  bool good = true;
  for (int k = 0; good && k < n; k++) {
    result[k] = receive(in, inst, from, operand[k], collective_result(inst, k));
    good = result[k] != NULL;
  }
  if (good)
    out = collective_wrap(in, inst, operand, result, n);
  collective_drop(in, result, n);
  return out;
}

// --- Boxes of operands ---------------------------------------------------------------------------

enum { FROM_BUFFERS, TO_BUFFERS, FROM_STARTS, TO_STARTS, IN_PLACE_OPERANDS };

// Buffer k of an operand that is an array or a tuple of arrays; NULL if there is none.
static const HlLiteral *buffer_at(const HlLiteral *operand, int k) {
  const HlLiteral *buffer = !operand->element          ? (k == 0 ? operand : NULL)
                            : k < operand->shape->rank ? operand->element[k]
                                                       : NULL;
  return buffer && hl_shape_is_array(buffer->shape) ? buffer : NULL;
}

// The k-th innermost tuple of an operand of start indices, which are tuples in tuples.
static const HlLiteral *starts_at(const HlLiteral *operand, int *k, int depth) {
  if (!operand->element || depth > 3)
    return NULL;
  if (operand->shape->rank == 0 || !operand->element[0]->element)
    return (*k)-- == 0 ? operand : NULL;
  for (int e = 0; e < operand->shape->rank; e++) {
    const HlLiteral *found = starts_at(operand->element[e], k, depth + 1);
    if (found)
      return found;
  }
  return NULL;
}

// One box: where it stands in its buffer, kept inside.
static bool box_start(Interp *in, const HlInst *inst, const HlLiteral *starts, int number,
                      const HlShape *buffer, HlI64s size, int64_t *start) {
  const HlLiteral *tuple = starts_at(starts, &number, 0);
  if (!tuple || tuple->shape->rank != buffer->rank || size.n != buffer->rank)
    return hl_inst_error(in->ev.cx, inst, "start indices and slice_sizes do not fit %s",
                         hl_shape_text(in->ev.cx, buffer));
  for (int d = 0; d < buffer->rank; d++) {
    const HlLiteral *index = tuple->element[d];
    if (index->n != 1 || !hl_is_integral(index->shape->dtype) || size.at[d] < 0 ||
        size.at[d] > buffer->dim[d])
      return hl_inst_error(in->ev.cx, inst, "start indices must be integers and boxes within %s",
                           hl_shape_text(in->ev.cx, buffer));
    const int64_t at = hl_literal_i64(index, 0), last = buffer->dim[d] - size.at[d];
    start[d] = at < 0 ? 0 : at > last ? last : at;
  }
  return true;
}

static void copy_box(Interp *in, HlLiteral *to, const int64_t *to_start, const HlLiteral *from,
                     const int64_t *from_start, HlI64s size) {
  int64_t *to_stride = HL_ARRAY(in->frames, int64_t, size.n + 1),
          *from_stride = HL_ARRAY(in->frames, int64_t, size.n + 1);
  hl_strides(size.n, to->shape->dim, to_stride);
  hl_strides(size.n, from->shape->dim, from_stride);
  int64_t to_at = 0, from_at = 0, n = 1;
  for (int d = 0; d < size.n; d++) {
    to_at += to_start ? to_start[d] * to_stride[d] : 0;
    from_at += from_start ? from_start[d] * from_stride[d] : 0;
    n *= size.at[d];
  }
  const int bytes = hl_dtype_bytes(to->shape->dtype);
  if (n > 0)
    move_box(in->ev.cx, bytes, size.n, size.at, (Side){(char *)to->data + to_at * bytes, to_stride},
             (Side){(char *)from->data + from_at * bytes, from_stride});
}

// Everything about box s of the instruction.
typedef struct Box {
  const HlLiteral *from;
  HlLiteral *to;
  HlI64s size;
  int64_t *from_start, *to_start;
  int first_pair, last_pair;  // pairs that send this box
} Box;

static bool box_at(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                   HlLiteral *const *out, int n_out, int s, int n_pairs, Box *box) {
  const HlI64Lists sizes = hl_attr(inst, HL_A_PERMUTE_SLICE_SIZES)->lists;
  const int each = sizes.n / n_out, buffer = s / each, turn = s % each;
  box->from = buffer_at(operand[FROM_BUFFERS], buffer);
  box->to = out[buffer];
  box->size = sizes.at[s];
  box->first_pair = (int)((int64_t)turn * n_pairs / each);
  box->last_pair = (int)((int64_t)(turn + 1) * n_pairs / each);
  if (!box->from || box->from->shape->dtype != box->to->shape->dtype)
    return hl_inst_error(in->ev.cx, inst, "the first two operands do not have the same buffers");
  box->from_start = HL_ARRAY(in->frames, int64_t, box->size.n + 1);
  box->to_start = HL_ARRAY(in->frames, int64_t, box->size.n + 1);
  return box_start(in, inst, operand[FROM_STARTS], s, box->from->shape, box->size,
                   box->from_start) &&
         box_start(in, inst, operand[TO_STARTS], s, box->to->shape, box->size, box->to_start);
}

static HlLiteral *cut_box(Interp *in, const HlInst *inst, const Box *box) {
  const HlShape shape = {
      .dtype = box->from->shape->dtype, .rank = box->size.n, .dim = box->size.at};
  HlLiteral *part = interp_new(in, inst, &shape);
  if (part)
    copy_box(in, part, NULL, box->from, box->from_start, box->size);
  return part;
}

static bool send_box(Interp *in, const HlInst *inst, HlI64s pairs, const Box *box) {
  for (int k = box->first_pair; k < box->last_pair; k++) {
    int source, target;
    if (!pair_at(in, inst, pairs, k, &source, &target))
      return false;
    if (source != in->device)
      continue;
    HlLiteral *part = cut_box(in, inst, box);
    const bool good = part && device_post(in, key_of(in, inst, source, target), target, part);
    interp_drop(in, part);
    if (!good)
      return false;
  }
  return true;
}

static bool receive_box(Interp *in, const HlInst *inst, HlI64s pairs, const Box *box) {
  const HlShape shape = {.dtype = box->to->shape->dtype, .rank = box->size.n, .dim = box->size.at};
  for (int k = box->first_pair; k < box->last_pair; k++) {
    int source, target;
    HlLiteral *part = NULL;
    if (!pair_at(in, inst, pairs, k, &source, &target))
      return false;
    if (target != in->device)
      continue;
    if (!take_like(in, inst, key_of(in, inst, source, target), &shape, &part))
      return false;
    copy_box(in, box->to, box->to_start, part, NULL, box->size);
    interp_drop(in, part);
  }
  return true;
}

static bool move_boxes(Interp *in, const HlInst *inst, HlI64s pairs,
                       const HlLiteral *const *operand, HlLiteral *const *out, int n) {
  const HlI64Lists sizes = hl_attr(inst, HL_A_PERMUTE_SLICE_SIZES)->lists;
  if (n == 0 || sizes.n == 0 || sizes.n % n)
    return hl_inst_error(in->ev.cx, inst, "%d slice_sizes for %d buffers", sizes.n, n);
  Box *box = HL_ARRAY(in->frames, Box, sizes.n);
  for (int s = 0; s < sizes.n; s++)
    if (!box_at(in, inst, operand, out, n, s, pairs.n / 2, &box[s]) ||
        !send_box(in, inst, pairs, &box[s]))
      return false;
  for (int s = 0; s < sizes.n; s++)
    if (!receive_box(in, inst, pairs, &box[s]))
      return false;
  return true;
}

static HlLiteral *permute_boxes(Interp *in, const HlInst *inst, HlI64s pairs,
                                const HlLiteral *const *operand) {
  const HlLiteral *to = operand[TO_BUFFERS];
  const int n = to->element ? to->shape->rank : 1;
  HlLiteral **result = HL_ARRAY(in->frames, HlLiteral *, n + 1), *out = NULL;
  bool good = true;
  for (int k = 0; good && k < n; k++) {
    const HlLiteral *buffer = buffer_at(to, k);
    const HlShape *shape = collective_result(inst, k);
    good = buffer && shape && shape->dtype == buffer->shape->dtype &&
           hl_shape_same_dims(shape, buffer->shape);
    if (!good)
      hl_inst_error(in->ev.cx, inst, "the result should have the shape of the second operand");
    result[k] = good ? interp_new(in, inst, shape) : NULL;
    good = result[k] != NULL;
    if (good && buffer->n)
      memcpy(result[k]->data, buffer->data,
             (size_t)buffer->n * (size_t)hl_dtype_bytes(shape->dtype));
  }
  if (good && move_boxes(in, inst, pairs, operand, result, n))
    out = collective_wrap(in, inst, operand, result, n);
  collective_drop(in, result, n);
  return out;
}

bool eval_collective_permute(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                             HlLiteral **out) {
  const HlI64s pairs = hl_attr_ints(inst, HL_A_SOURCE_TARGET_PAIRS);
  const bool boxes =
      inst->n_operands == IN_PLACE_OPERANDS && hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES);
  *out = boxes ? permute_boxes(in, inst, pairs, operand) : permute_whole(in, inst, pairs, operand);
  return *out != NULL;
}
