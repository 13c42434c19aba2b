// ir/access.c: reads instructions: attributes by key, groups of devices, positions, errors.

#include <stdarg.h>

#include "ir/shaped.h"
#include "ir/state.h"

const HlAttr *hl_attr(const HlInst *inst, HlAttrKey key) {
  for (int k = 0; k < inst->n_attrs; k++)
    if (inst->attrs[k].key >= key)
      return inst->attrs[k].key == key ? &inst->attrs[k] : NULL;
  return NULL;
}

int64_t hl_attr_int(const HlInst *inst, HlAttrKey key) {
  const HlAttr *attr = hl_attr(inst, key);
  return attr ? attr->i : hl_attr_info[key].def;
}

double hl_attr_float(const HlInst *inst, HlAttrKey key) {
  const HlAttr *attr = hl_attr(inst, key);
  return attr ? attr->f : 0;
}

HlI64s hl_attr_ints(const HlInst *inst, HlAttrKey key) {
  const HlAttr *attr = hl_attr(inst, key);
  return attr ? attr->ints : (HlI64s){NULL, 0};
}

const char *hl_attr_text(const HlInst *inst, HlAttrKey key) {
  const HlAttr *attr = hl_attr(inst, key);
  return attr && attr->sym ? attr->sym->text : "";
}

const void *hl_attr_ptr(const HlInst *inst, HlAttrKey key) {
  const HlAttr *attr = hl_attr(inst, key);
  return attr ? attr->ptr : NULL;
}

HlWindow hl_window(const HlInst *inst) {
  const HlAttr *attr = hl_attr(inst, HL_A_WINDOW);
  return attr ? attr->window : (HlWindow){NULL, 0};
}

HlInst hl_inst_as(const HlInst *inst, HlOp op, int n, int n_attrs, const HlAttr *attrs) {
  HlInst other = *inst;
  other.op = (uint16_t)op;
  other.n_operands = (uint32_t)n;
  other.attrs = attrs;
  other.n_attrs = (uint16_t)n_attrs;
  return other;
}

HlInst ir_inst_shaped(HlInst inst, const HlShape *shape) {
  inst.shape = shape;
  return inst;
}

int64_t hl_parameter_number(const HlInst *inst) {
  return hl_attr_int(inst, HL_A_PARAMETER_NUMBER);
}
const HlLiteral *hl_constant(const HlInst *inst) {
  return hl_attr_ptr(inst, HL_A_VALUE);
}
const HlMetadata *hl_metadata(const HlInst *inst) {
  return hl_attr_ptr(inst, HL_A_METADATA);
}
const HlSharding *hl_sharding(const HlInst *inst) {
  const HlSharding *s = hl_attr_ptr(inst, HL_A_SHARDING);
  // {} on what is no tuple says nothing, as in texts of 2018.
  const bool empty = s && s->kind == HL_SHARDING_TUPLE && s->n_elements == 0;
  return empty && inst->shape->dtype != HL_TUPLE ? NULL : s;
}

int64_t hl_default_comparison_type(HlDtype dtype) {
  switch (hl_dtype_kind(dtype)) {
  case HL_KIND_SINT: return HL_WORD_comparison_type_SIGNED;
  case HL_KIND_UINT:
  case HL_KIND_PRED: return HL_WORD_comparison_type_UNSIGNED;
  default: return HL_WORD_comparison_type_FLOAT;
  }
}

int64_t hl_comparison_order(int64_t type) {
  return type == HL_WORD_comparison_type_FLOAT ? HL_WORD_comparison_order_PARTIAL
                                               : HL_WORD_comparison_order_TOTAL;
}

int64_t hl_comparison_type_of(HlDtype dtype, int64_t order) {
  const int64_t usual = hl_default_comparison_type(dtype);
  if (hl_comparison_order(usual) == order)
    return usual;
  return order == HL_WORD_comparison_order_TOTAL ? HL_WORD_comparison_type_TOTALORDER
                                                 : HL_WORD_comparison_type_FLOAT;
}

int64_t hl_comparison_type(const HlInst *inst) {
  const HlAttr *attr = hl_attr(inst, HL_A_COMPARISON_TYPE);
  if (attr)
    return attr->i;
  return hl_default_comparison_type(inst->n_operands > 0 ? inst->operands[0]->shape->dtype
                                                         : HL_NO_DTYPE);
}

// XLA's partitioner, too, names what it makes of `main` `main_spmd`.
bool hl_is_partitioned(const HlModule *m) {
  static const char end[] = "_spmd";
  const HlSym *name = m->entry ? m->entry->name : NULL;
  const size_t n = sizeof end - 1;
  if (m->num_partitions < 2)
    return false;
  return m->is_scheduled || m->spmd_output_sharding || m->n_spmd_parameter_shardings > 0 ||
         (name && name->n > n && memcmp(name->text + name->n - n, end, n) == 0);
}

bool hl_reads_memory(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST || inst->op == HL_OP_FUSION || inst->op == HL_OP_ASYNC_START;
}

bool hl_has_side_effect(const HlInst *inst) {
  uint32_t traits = hl_op_info[inst->op].traits;
  if (traits & HL_T_SIDE_EFFECT)
    return true;
  if (inst->op == HL_OP_CUSTOM_CALL)
    return hl_attr_int(inst, HL_A_HAS_SIDE_EFFECT) != 0;
  return (traits & HL_T_COLLECTIVE) && hl_attr_int(inst, HL_A_CONSTRAIN_LAYOUT) != 0;
}

// --- Groups of devices ----------------------------------------------------------------------------

bool hl_has_global_ids(HlOp op) {
  return hl_op_has_attr(op, HL_A_USE_GLOBAL_DEVICE_IDS);
}

HlGroupMode hl_group_mode(const HlInst *inst) {
  if (hl_attr_int(inst, HL_A_CHANNEL_ID) <= 0)
    return HL_CROSS_REPLICA;
  if (!hl_has_global_ids((HlOp)inst->op))
    return HL_CROSS_PARTITION;
  return hl_attr_int(inst, HL_A_USE_GLOBAL_DEVICE_IDS) ? HL_FLATTENED : HL_CROSS_BOTH;
}

int64_t hl_free_channel(const HlModule *m) {
  uint64_t ops[HL_OP_WORDS] = {0};
  for (int op = 0; op < HL_OP_COUNT; op++)
    ops[op / 64] |= (uint64_t)hl_op_has_attr((HlOp)op, HL_A_CHANNEL_ID) << (op % 64);
  int64_t next = 1;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = hl_comp_may_have_any(comp, ops) ? comp->first : NULL; inst;
         inst = inst->next) {
      const HlAttr *channel = hl_attr(inst, HL_A_CHANNEL_ID);
      if (channel && channel->i >= next && channel->i < INT64_MAX / 2)
        next = channel->i + 1;
    }
  return next;
}

// --- Places ---------------------------------------------------------------------------------------

HlPos hl_pos(const HlInst *inst) {
  return (HlPos){inst->comp->module->source, inst->loc};
}
HlPos hl_comp_pos(const HlComp *comp) {
  return (HlPos){comp->module->source, comp->loc};
}
HlPos hl_module_pos(const HlModule *m) {
  return (HlPos){m->source, m->loc};
}

bool hl_inst_error(HlCx *cx, const HlInst *inst, const char *format, ...) {
  HlBuf text = {0};
  va_list args;
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  hl_error(cx, hl_pos(inst), "%s (instruction %%%s in computation %%%s)", text.at,
           inst->name ? inst->name->text : "", inst->comp->name->text);
  hl_buf_free(&text);
  return false;
}

int64_t hl_count_instructions(const HlModule *m) {
  int64_t n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    n += comp->n_insts;
  return n;
}

HlComp *hl_find_comp(const HlModule *m, HlStr name) {
  const HlSym *sym = hl_syms_find(m->syms, name.at, name.n);
  for (HlComp *comp = m->first; sym && comp; comp = comp->next)
    if (comp->name == sym)
      return comp;
  return NULL;
}

HlInst *hl_find_inst(const HlComp *comp, HlStr name) {
  const HlSym *sym = hl_syms_find(comp->module->syms, name.at, name.n);
  for (HlInst *inst = comp->first; sym && inst; inst = inst->next)
    if (inst->name == sym)
      return inst;
  return NULL;
}
