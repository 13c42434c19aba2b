// verify/attrs.c: attributes that any op can carry: shardings, result accuracy, original values.

#include "verify/verify.h"

#include <inttypes.h>

// --- Shardings ----------------------------------------------------------------------------------

// What is wrong with the devices of a tiling, or NULL.
static const char *wrong_devices(Verify *v, const HlSharding *sharding) {
  int64_t tiles = 1;
  for (int k = 0; k < sharding->tile.n; k++)
    if (__builtin_mul_overflow(tiles, sharding->tile.at[k], &tiles))
      return "the tile assignment is too large";
  HlI64s devices = sharding->devices;
  if (devices.n == 0)
    return NULL;
  bool *seen = HL_ARRAY(v->scratch, bool, devices.n + 1);
  bool dense = true;
  for (int k = 0; k < devices.n; k++) {
    int64_t device = devices.at[k];
    if (device < 0)
      return "a device is negative in tile assignment";
    if (device >= devices.n)
      dense = false;
    else if (seen[device])
      return "a device is not unique in tile assignment";
    else
      seen[device] = true;
  }
  for (int k = 0; !dense && devices.n <= 4096 && k < devices.n; k++)
    if (hl_i64s_find((HlI64s){devices.at, k}, devices.at[k]) >= 0)
      return "a device is not unique in tile assignment";
  return NULL;
}

// Checks the sharding of one leaf.
static bool check_leaf(Verify *v, const HlInst *inst, const HlSharding *sharding,
                       const HlShape *shape) {
  if (verify_is_token(shape) || !hl_is_array_dtype(shape->dtype))
    return true;
  if (sharding->kind == HL_SHARDING_MAXIMAL && sharding->device < 0)
    return hl_inst_error(v->cx, inst, "invalid sharding: device %" PRId64 " is negative",
                         sharding->device);
  if (sharding->kind == HL_SHARDING_NAMED && sharding->n_dims > shape->rank)
    return hl_inst_error(v->cx, inst, "invalid sharding: it names %d dimensions, but %s has %d",
                         sharding->n_dims, verify_text(v, shape), shape->rank);
  if (sharding->kind != HL_SHARDING_TILED)
    return true;
  const char *wrong = wrong_devices(v, sharding);
  if (wrong != NULL)
    return hl_inst_error(v->cx, inst, "invalid sharding: %s", wrong);
  int tiled = sharding->tile.n - (sharding->replicate_last ? 1 : 0) - sharding->last_tile_dims.n;
  if (tiled == shape->rank)
    return true;
  return hl_inst_error(
      v->cx, inst,
      "invalid sharding: number of tile assignment dimensions (excluding subgroups) is "
      "different than the input rank: %d vs %d of %s",
      tiled, shape->rank, verify_text(v, shape));
}

// Walks the leaves of a shape beside the flat list of a tuple sharding (or one sharding for all).
static bool check_leaves(Verify *v, const HlInst *inst, const HlSharding *sharding,
                         const HlShape *shape, int *next) {
  if (!hl_shape_is_tuple(shape)) {
    const HlSharding *own =
        sharding->kind == HL_SHARDING_TUPLE ? sharding->element[(*next)++] : sharding;
    return check_leaf(v, inst, own, shape);
  }
  for (int k = 0; k < shape->rank; k++)
    if (!check_leaves(v, inst, sharding, shape->element[k], next))
      return false;
  return true;
}

static bool check_sharding(Verify *v, const HlInst *inst, const HlSharding *sharding) {
  if (verify_is_token(inst->shape))
    return true;
  if (sharding->kind == HL_SHARDING_TUPLE) {
    if (!hl_shape_is_tuple(inst->shape) && sharding->n_elements == 0)
      return true;  // says nothing: hl_sharding has none
    if (!hl_shape_is_tuple(inst->shape))
      return hl_inst_error(v->cx, inst,
                           "invalid sharding: sharding is tuple-shaped but the shape is not: %s",
                           verify_text(v, inst->shape));
    int64_t leaves = hl_shape_leaves(inst->shape);
    if (leaves != sharding->n_elements && !(leaves == 0 && sharding->n_elements == 1))
      return hl_inst_error(v->cx, inst,
                           "invalid sharding: the shape has %" PRId64
                           " leaf nodes while this sharding "
                           "has %d",
                           leaves, sharding->n_elements);
  }
  int next = 0;
  return check_leaves(v, inst, sharding, inst->shape, &next);
}

// A sharding for all leaves equals a tuple of that sharding.
static bool same_sharding(const HlSharding *a, const HlSharding *b) {
  if (a == b || hl_sharding_equal(a, b))
    return true;
  const HlSharding *tuple = a->kind == HL_SHARDING_TUPLE ? a : b, *one = tuple == a ? b : a;
  if (tuple->kind != HL_SHARDING_TUPLE || one->kind == HL_SHARDING_TUPLE)
    return false;
  for (int k = 0; k < tuple->n_elements; k++)
    if (!hl_sharding_equal(tuple->element[k], one))
      return false;
  return true;
}

bool verify_consistent_sharding(Verify *v, const HlInst *parent, int n,
                                const HlInst *const *insts) {
  const HlInst *first = NULL;
  for (int k = 0; k < n; k++) {
    const HlSharding *sharding = hl_sharding(insts[k]);
    if (sharding == NULL)
      continue;
    if (first == NULL)
      first = insts[k];
    else if (!same_sharding(sharding, hl_sharding(first)))
      return hl_inst_error(v->cx, parent, "inconsistent %s sharding among instructions %s and %s",
                           hl_op_text((HlOp)parent->op), first->name->text, insts[k]->name->text);
  }
  return true;
}

// --- Accuracy, origins --------------------------------------------------------------------------

static bool check_accuracy(Verify *v, const HlInst *inst, const HlAccuracy *accuracy) {
  uint32_t traits = hl_op_info[inst->op].traits;
  if ((traits & HL_T_ACCURACY) == 0)
    return hl_inst_error(v->cx, inst, "unary op with result accuracy is not supported for %s",
                         hl_op_text((HlOp)inst->op));
  if (accuracy->has_tolerance && (accuracy->atol < 0 || accuracy->rtol < 0 || accuracy->ulps < 0))
    return hl_inst_error(v->cx, inst, "negative tolerance in result_accuracy");
  return true;
}

static bool has_leaves(const HlShape *shape) {
  return hl_shape_leaves(shape) > 0;
}

static bool origin_has_leaves(const HlOrigin *origin) {
  if (origin->kind != HL_ORIGIN_TUPLE)
    return true;
  for (int k = 0; k < origin->n; k++)
    if (origin_has_leaves(origin->element[k]))
      return true;
  return false;
}

// Whether the leaves of shape and origin stand at the same indices.
static bool same_tree(const HlShape *shape, const HlOrigin *origin) {
  if (!hl_shape_is_tuple(shape))
    return origin->kind != HL_ORIGIN_TUPLE;
  if (origin->kind != HL_ORIGIN_TUPLE)
    return false;
  for (int k = 0; k < shape->rank || k < origin->n; k++) {
    if (k >= origin->n     ? has_leaves(shape->element[k])
        : k >= shape->rank ? origin_has_leaves(origin->element[k])
                           : !same_tree(shape->element[k], origin->element[k]))
      return false;
  }
  return true;
}

static bool check_origin(Verify *v, const HlInst *inst, const HlOrigin *origin) {
  if (origin->kind == HL_ORIGIN_SYNTHETIC_CALL || same_tree(inst->shape, origin))
    return true;
  return hl_inst_error(
      v->cx, inst,
      "mismatched tuple structure in origin: leaf indices in the shape %s and in origin "
      "do not match",
      verify_text(v, inst->shape));
}

bool verify_attrs(Verify *v, const HlInst *inst) {
  bool ok = true;
  for (int k = 0; k < inst->n_attrs; k++) {
    const HlAttr *attr = &inst->attrs[k];
    if (attr->key == HL_A_SHARDING)
      ok &= check_sharding(v, inst, attr->ptr);
    else if (attr->key == HL_A_RESULT_ACCURACY)
      ok &= check_accuracy(v, inst, attr->ptr);
    else if (attr->key == HL_A_ORIGIN)
      ok &= check_origin(v, inst, attr->ptr);
  }
  return ok;
}
