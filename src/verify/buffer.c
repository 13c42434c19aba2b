// verify/buffer.c: values of type b(..), which stand for memory that is written in place.
//
// Only a few ops may carry them (Pin, Unpin and CreateBuffer custom calls make and end them), and
// of
// each value at most one user may write to it. Modules without such types pass at once.

#include "hilo/custom_calls.h"
#include "verify/verify.h"

#include <inttypes.h>

bool verify_has_buffer(const HlShape *shape) {
  if (shape->dtype == HL_BUFFER)
    return true;
  if (!hl_shape_is_tuple(shape))
    return false;
  for (int k = 0; k < shape->rank; k++)
    if (verify_has_buffer(shape->element[k]))
      return true;
  return false;
}

// --- Writers ------------------------------------------------------------------------------------

// A path into a tuple, innermost tuple last: what get-tuple-element must say to reach the buffer.
typedef struct Path {
  int64_t at[64];
  int n;
} Path;

static bool called_by_while(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call != NULL; call = call->next)
    if (call->caller->op == HL_OP_WHILE)
      return true;
  return false;
}

static bool is_callable(HlOp op) {
  return hl_op_is(op, HL_T_CONTROL) || op == HL_OP_FUSION || op == HL_OP_CUSTOM_CALL ||
         op == HL_OP_ASYNC_START || op == HL_OP_DYNAMIC_UPDATE_SLICE;
}

// Counts who may write to the buffer of `inst` at `path` (outermost index last), up to 2.
static int count_writers(const HlInst *inst, Path path, int depth) {
  int n = 0;
  const HlInst *last = NULL;
  for (const HlUse *use = inst->first_use; use != NULL && n < 2; use = use->next) {
    const HlInst *user = use->user;
    if (user == last || depth > 64)
      continue;
    last = user;
    Path next = path;
    if (is_callable((HlOp)user->op)) {
      n++;
    } else if (user->op == HL_OP_GET_TUPLE_ELEMENT && path.n > 0 &&
               hl_attr_int(user, HL_A_INDEX) == path.at[path.n - 1]) {
      next.n--;
      n += count_writers(user, next, depth + 1);
    } else if (user->op == HL_OP_TUPLE && user == user->comp->root) {
      n += called_by_while(user->comp);
    } else if (user->op == HL_OP_TUPLE && path.n < HL_COUNT_OF(path.at)) {
      next.at[next.n++] = use->number;
      n += count_writers(user, next, depth + 1);
    }
  }
  return n;
}

static bool check_writers(Verify *v, const HlInst *inst, const HlShape *shape, HlI64s index) {
  if (shape->dtype == HL_BUFFER) {
    Path path = {.n = index.n};
    for (int k = 0; k < index.n; k++)
      path.at[k] = index.at[index.n - 1 - k];
    if (count_writers(inst, path, 0) <= 1)
      return true;
    return hl_inst_error(v->cx, inst, "an HLO buffer value has more than one writers (or unpins)");
  }
  if (!hl_shape_is_tuple(shape) || index.n >= 63)
    return true;
  int64_t at[64];
  for (int k = 0; k < index.n; k++)
    at[k] = index.at[k];
  for (int k = 0; k < shape->rank; k++) {
    at[index.n] = k;
    if (!check_writers(v, inst, shape->element[k], (HlI64s){at, index.n + 1}))
      return false;
  }
  return true;
}

// --- Where buffers may be -----------------------------------------------------------------------

static bool no_buffers(Verify *v, const HlInst *inst) {
  bool some = verify_has_buffer(inst->shape);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    some |= verify_has_buffer(inst->operands[k]->shape);
  return !some ||
         hl_inst_error(v->cx, inst, "seen buffers while buffers aren't allowed in this context");
}

static bool is_plain_array(const HlShape *shape) {
  return hl_is_array_dtype(shape->dtype);
}

static int n_aliases(const HlInst *inst) {
  const HlAttr *attr = hl_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  return attr == NULL ? 0 : attr->aliases.n;
}

// Pin makes a buffer of an array, Unpin an array of a buffer.
static bool check_pin(Verify *v, const HlInst *inst, bool pin) {
  const char *name = hl_call_info[pin ? HL_CALL_PIN : HL_CALL_UNPIN].name;
  const HlShape *operand = inst->n_operands == 1 ? inst->operands[0]->shape : NULL;
  const HlShape *array = pin ? operand : inst->shape, *buffer = pin ? inst->shape : operand;
  if (operand == NULL || (pin ? !is_plain_array(operand) : operand->dtype != HL_BUFFER))
    return hl_inst_error(v->cx, inst, "custom-call to %s must have one %s operand", name,
                         pin ? "array non-buffer" : "buffer");
  if (pin ? inst->shape->dtype != HL_BUFFER : !is_plain_array(inst->shape))
    return hl_inst_error(v->cx, inst, "custom-call to %s must have one %s result", name,
                         pin ? "buffer" : "array non-buffer");
  if (!verify_same_shape(v, array, buffer->element[0], 0))
    return hl_inst_error(v->cx, inst,
                         "custom-call to %s must have the same shape as the operand: %s and %s",
                         name, verify_text(v, operand), verify_text(v, inst->shape));
  if (n_aliases(inst) != 1)
    return hl_inst_error(v->cx, inst, "custom-call to %s must have one output-to-operand aliasing",
                         name);
  return !pin || check_writers(v, inst, inst->shape, (HlI64s){0});
}

static bool check_create(Verify *v, const HlInst *inst) {
  if (inst->n_operands != 0)
    return hl_inst_error(v->cx, inst, "custom-call to CreateBuffer can't have an operand");
  if (inst->shape->dtype != HL_BUFFER)
    return hl_inst_error(v->cx, inst, "custom-call to CreateBuffer must have one buffer result");
  return check_writers(v, inst, inst->shape, (HlI64s){0});
}

static int times_aliased(const HlInst *inst, int64_t operand, HlI64s index) {
  const HlAttr *attr = hl_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  int n = 0;
  for (int k = 0; attr != NULL && k < attr->aliases.n; k++) {
    const HlAlias *alias = &attr->aliases.at[k];
    n += operand < 0 ? hl_i64s_equal(alias->output, index)
                     : alias->number == operand && hl_i64s_equal(alias->index, index);
  }
  return n;
}

// Every buffer in a custom call's operands comes out of it once, and the other way round.
static bool check_passing(Verify *v, const HlInst *inst, int64_t operand, const HlShape *shape,
                          HlI64s index) {
  if (shape->dtype == HL_BUFFER) {
    int n = times_aliased(inst, operand, index);
    if (n == 1)
      return true;
    return hl_inst_error(
        v->cx, inst,
        n == 0 ? "buffer is used in %s but not in %s" : "buffer in %s is used in %s multiple times",
        operand < 0 ? "results" : "operands", operand < 0 ? "operands" : "results");
  }
  if (!hl_shape_is_tuple(shape) || index.n >= 63)
    return true;
  int64_t at[64];
  for (int k = 0; k < index.n; k++)
    at[k] = index.at[k];
  for (int k = 0; k < shape->rank; k++) {
    at[index.n] = k;
    if (!check_passing(v, inst, operand, shape->element[k], (HlI64s){at, index.n + 1}))
      return false;
  }
  return true;
}

static bool check_custom_call(Verify *v, const HlInst *inst) {
  const HlCallTarget target = hl_call_target(inst);
  if (target == HL_CALL_PIN || target == HL_CALL_UNPIN)
    return check_pin(v, inst, target == HL_CALL_PIN);
  if (target == HL_CALL_CREATE_BUFFER)
    return check_create(v, inst);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!check_passing(v, inst, k, inst->operands[k]->shape, (HlI64s){0}))
      return false;
  return check_passing(v, inst, -1, inst->shape, (HlI64s){0}) &&
         check_writers(v, inst, inst->shape, (HlI64s){0});
}

static bool has_stream(const HlInst *inst) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict != NULL && k < dict->n; k++)
    if (hl_str_is((HlStr){dict->key[k]->text, dict->key[k]->n}, "_xla_stream_annotation"))
      return true;
  return false;
}

static bool check_inst(Verify *v, const HlInst *inst) {
  switch ((HlOp)inst->op) {
  case HL_OP_CUSTOM_CALL: return check_custom_call(v, inst);
  case HL_OP_WHILE: return check_writers(v, inst, inst->shape, (HlI64s){0});
  case HL_OP_PARAMETER:
    if (inst->comp == v->m->entry && !no_buffers(v, inst))
      return false;
    return check_writers(v, inst, inst->shape, (HlI64s){0});
  case HL_OP_DYNAMIC_UPDATE_SLICE:
    return inst->shape->dtype == HL_BUFFER ? check_writers(v, inst, inst->shape, (HlI64s){0})
                                           : no_buffers(v, inst);
  case HL_OP_GET_TUPLE_ELEMENT:
  case HL_OP_TUPLE: return true;
  case HL_OP_CALL: return has_stream(inst) || no_buffers(v, inst);
  default: return hl_op_is((HlOp)inst->op, HL_T_ASYNC) || no_buffers(v, inst);
  }
}

static bool is_async_comp(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call != NULL; call = call->next)
    if (call->caller->op == HL_OP_ASYNC_START)
      return true;
  return false;
}

bool verify_buffers(Verify *v) {
  if (!v->has_buffers)
    return true;
  bool ok = true;
  for (const HlComp *comp = v->m->first; comp != NULL; comp = comp->next) {
    if (is_async_comp(comp)) {
      if (comp->root->op == HL_OP_CUSTOM_CALL)
        ok &= check_custom_call(v, comp->root);
      continue;
    }
    for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next)
      ok &= check_inst(v, inst);
  }
  return ok;
}
