// verify/fusion.c: fusions and calls: bodies, threads, and results that alias operands.

#include "verify/verify.h"

#include <inttypes.h>

// --- Threads ------------------------------------------------------------------------------------

static const char *thread_text(const HlSym *thread) {
  return thread == NULL ? "main" : thread->text;
}

bool verify_thread(Verify *v, const HlInst *caller) {
  for (int k = 0; k < caller->n_calls; k++) {
    const HlComp *callee = caller->calls[k].comp;
    const HlSym *own = v->thread[caller->comp->id], *other = v->thread[callee->id];
    if (own != other)
      return hl_inst_error(
          v->cx, caller,
          "expects the execution thread of its computation to be that of the called "
          "computation %s (%s vs %s)",
          callee->name->text, thread_text(own), thread_text(other));
  }
  return true;
}

// --- Aliasing -----------------------------------------------------------------------------------

static const HlShape *unwrap(const HlShape *shape, bool ignore_buffers) {
  return ignore_buffers && shape->dtype == HL_BUFFER && shape->rank == 1 ? shape->element[0]
                                                                         : shape;
}

static bool check_alias(Verify *v, const HlInst *inst, const HlAlias *alias, bool compare,
                        bool ignore_buffers) {
  if (alias->number < 0 || alias->number >= (int64_t)inst->n_operands)
    return hl_inst_error(v->cx, inst,
                         "invalid aliasing operand index: %" PRId64 ", but it has %u operands",
                         alias->number, (unsigned)inst->n_operands);
  const HlShape *operand = inst->operands[alias->number]->shape;
  const HlShape *from = hl_shape_at(operand, alias->index),
                *to = hl_shape_at(inst->shape, alias->output);
  if (from == NULL)
    return hl_inst_error(v->cx, inst, "invalid aliasing operand shape index %s in %s",
                         verify_index(v, alias->index), verify_text(v, operand));
  if (to == NULL)
    return hl_inst_error(v->cx, inst, "invalid aliasing output shape index %s in %s",
                         verify_index(v, alias->output), verify_text(v, inst->shape));
  from = unwrap(from, ignore_buffers);
  to = unwrap(to, ignore_buffers);
  // A single element has no layout to speak of.
  bool one = inst->op == HL_OP_CUSTOM_CALL && hl_is_array_dtype(from->dtype) &&
             hl_shape_elements(from) == 1;
  if (!compare || verify_same_shape(v, from, to, one ? VERIFY_NO_MEMORY_SPACE : 0))
    return true;
  return hl_inst_error(v->cx, inst, "different aliasing shapes: %s vs %s", verify_text(v, from),
                       verify_text(v, to));
}

static bool has_frontend_attribute(const HlInst *inst, const char *key, const HlSym **value) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict != NULL && k < dict->n; k++) {
    if (!hl_str_is((HlStr){dict->key[k]->text, dict->key[k]->n}, key))
      continue;
    if (value != NULL)
      *value = dict->value[k];
    return true;
  }
  return false;
}

bool verify_aliasing(Verify *v, const HlInst *inst, bool ignore_buffers) {
  const HlAttr *attr = hl_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  if (attr == NULL)
    return true;
  bool ok = true,
       compare = !has_frontend_attribute(inst, "xla_skip_custom_call_alias_shape_check", NULL);
  for (int k = 0; k < attr->aliases.n; k++)
    ok &= check_alias(v, inst, &attr->aliases.at[k], compare, ignore_buffers);
  return ok;
}

// --- Fusions ------------------------------------------------------------------------------------

// Ops whose effect keeps them alive without users.
static bool lives_unused(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  return (hl_is_async(op) && hl_op_is(hl_op_plain(op), HL_T_COLLECTIVE)) ||
         op == HL_OP_COLLECTIVE_BROADCAST || op == HL_OP_COLLECTIVE_REDUCE ||
         hl_has_side_effect(inst) || hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT) != 0;
}

static bool check_body(Verify *v, const HlInst *fusion, const HlComp *body) {
  bool ok = true;
  for (const HlCall *call = body->first_call; call != NULL; call = call->next) {
    if (call->caller->op != HL_OP_FUSION)
      continue;
    if (call->caller != fusion)
      return hl_inst_error(v->cx, fusion, "fused computation %s belongs to another fusion: %s",
                           body->name->text, call->caller->name->text);
    break;
  }
  if (body->root->first_use != NULL)
    ok = hl_inst_error(v->cx, body->root, "root of fusion %s may not have users",
                       fusion->name->text);
  for (const HlInst *inst = body->first; inst != NULL; inst = inst->next)
    if (inst != body->root && inst->first_use == NULL && !lives_unused(inst))
      ok = hl_inst_error(v->cx, inst, "non-root instruction in fusion %s must have users",
                         fusion->name->text);
  return ok;
}

// Once layouts are assigned a body reads and writes the memory of its fusion, in the orders that stand there.
static bool check_order(Verify *v, const HlInst *fusion, const HlInst *outer, const HlInst *inner) {
  if (hl_shape_same_order(outer->shape, inner->shape))
    return true;
  HlBuf a = {0}, b = {0};
  hl_shape_print(&a, outer->shape, true);
  hl_shape_print(&b, inner->shape, true);
  hl_inst_error(v->cx, fusion, "layout of %s, %s, is not that of %s in the fused computation, %s",
                outer == fusion ? "the result" : outer->name->text, a.at, inner->name->text, b.at);
  hl_buf_free(&a);
  hl_buf_free(&b);
  return false;
}

static bool check_orders(Verify *v, const HlInst *fusion, const HlComp *body) {
  bool ok = !v->is_laid_out || check_order(v, fusion, fusion, body->root);
  for (uint32_t k = 0; v->is_laid_out && k < fusion->n_operands; k++)
    ok &= check_order(v, fusion, fusion->operands[k], body->params[k]);
  return ok;
}

bool verify_fusion(Verify *v, const HlInst *fusion) {
  return verify_aliasing(v, fusion, false) && verify_thread(v, fusion) &&
         check_body(v, fusion, fusion->calls[0].comp) &&
         check_orders(v, fusion, fusion->calls[0].comp);
}

// --- Calls --------------------------------------------------------------------------------------

static bool is_whole_number(const HlSym *text) {
  for (uint32_t k = 0; k < text->n; k++)
    if (text->text[k] < '0' || text->text[k] > '9')
      return false;
  return text->n > 0 && text->n < 19;
}

static bool check_composite(Verify *v, const HlInst *call) {
  const HlSym *name = NULL, *attributes = NULL, *version = NULL;
  has_frontend_attribute(call, "composite.name", &name);
  has_frontend_attribute(call, "composite.attributes", &attributes);
  has_frontend_attribute(call, "composite.version", &version);
  if (!hl_has_attr(call, HL_A_FRONTEND_ATTRIBUTES))
    return hl_inst_error(v->cx, call, "a composite call op must have frontend attributes");
  if (name == NULL || name->n == 0)
    return hl_inst_error(
        v->cx, call,
        "a composite call op must have frontend attributes with key composite.name "
        "whose value is non-empty");
  if (attributes != NULL && attributes->n == 0)
    return hl_inst_error(v->cx, call,
                         "a composite call op must have frontend attributes with key "
                         "composite.attributes whose value is default: {} or non-empty");
  if (version != NULL && !is_whole_number(version))
    return hl_inst_error(
        v->cx, call,
        "a composite call op must have frontend attributes with a composite.version "
        "whose value is a non-negative integer but got: %s",
        version->text);
  return true;
}

bool verify_call(Verify *v, const HlInst *call) {
  bool ok = hl_attr_int(call, HL_A_IS_COMPOSITE) == 0 || check_composite(v, call);
  if (hl_has_attr(call, HL_A_OUTPUT_TO_OPERAND_ALIASING))
    ok = hl_inst_error(v->cx, call,
                       "call instruction may not have an output-to-operand aliasing set");
  return ok;
}
