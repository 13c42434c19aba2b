// print_attr.c: which attributes an instruction prints, and in which order (hlo.md 5.2).

#include "ir/dialect.h"
#include "text/print.h"

// --- Computations --------------------------------------------------------------------------------

// ", name=" of each attribute.
static const HlStr label[HL_ATTR_COUNT] = {
#define ATTR(id, text, kind, more, def, field) {", " text "=", sizeof(", " text "=") - 1},
#include "hilo/attrs.def"
};

static void put_label(HlBuf *out, HlAttrKey key) {
  put_hot(out, label[key].at, label[key].n);
}

static void print_called(Print *p, HlAttrKey key, const HlComp *comp) {
  put_label(p->out, key);
  if (p->how.subcomputation_bodies) {
    put_char(p->out, '\n');
    print_body(p, comp);
  } else {
    print_name(p, comp->name);
  }
}

static void print_called_list(Print *p, HlAttrKey key, const HlInst *inst) {
  const bool bodies = p->how.subcomputation_bodies;
  put_label(p->out, key);
  put_text(p->out, bodies ? "{\n" : "{");
  for (int k = 0; k < inst->n_calls; k++) {
    if (k)
      put_text(p->out, bodies ? ",\n" : ", ");
    if (bodies)
      print_body(p, inst->calls[k].comp);
    else
      print_name(p, inst->calls[k].comp->name);
  }
  put_text(p->out, bodies ? "\n}" : "}");
}

// Of a conditional: two computations by a pred, or a list.
static bool has_pred_branches(const HlInst *inst) {
  return inst->n_calls == 2 && inst->n_operands > 0 && inst->operands[0]->shape->dtype == HL_PRED;
}

static void print_comp_attr(Print *p, const HlInst *inst, HlAttrKey key) {
  const bool second = key == HL_A_CONDITION || key == HL_A_SCATTER || key == HL_A_FALSE_COMPUTATION;
  if (inst->n_calls <= second)
    return;
  switch (key) {
  case HL_A_TRUE_COMPUTATION:
  case HL_A_FALSE_COMPUTATION:
    if (has_pred_branches(inst))
      print_called(p, key, inst->calls[second].comp);
    break;
  case HL_A_BRANCH_COMPUTATIONS:
    if (!has_pred_branches(inst))
      print_called_list(p, key, inst);
    break;
  case HL_A_CALLED_COMPUTATIONS: print_called_list(p, key, inst); break;
  case HL_A_TO_APPLY:
    // Whole bodies of these stand after `calls=`, as XLA has it.
    if (inst->op == HL_OP_REDUCE_SCATTER || inst->op == HL_OP_SCAN)
      key = p->how.subcomputation_bodies ? HL_A_CALLS : key;
    if (inst->op != HL_OP_CUSTOM_CALL)
      print_called(p, key, inst->calls[0].comp);
    break;
  default: print_called(p, key, inst->calls[second].comp);
  }
}

// --- An instruction's own attributes -------------------------------------------------------------

static bool is_default_precision(HlI64s list) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] != HL_WORD_precision_DEFAULT)
      return false;
  return true;
}

// Whether an attribute that is there prints.
static bool shows(const Print *p, const HlInst *inst, const HlAttr *attr) {
  switch (hl_attr_info[attr->key].kind) {
  case HL_KIND_OF_WINDOW: return attr->window.n > 0 || inst->op == HL_OP_CUSTOM_CALL;
  case HL_KIND_OF_PRECISION: return !is_default_precision(attr->ints);
  case HL_KIND_OF_ALIASING: return attr->aliases.n > 0;
  case HL_KIND_OF_TRISTATE: return attr->i != 0;
  case HL_KIND_OF_BOOLS: return p->how.print_ids;
  case HL_KIND_OF_DICT: return !p->hide_frontend && attr->ptr && ((const HlDict *)attr->ptr)->n > 0;
  case HL_KIND_OF_STATISTICS: return attr->ptr && ((const HlStatistics *)attr->ptr)->n > 0;
  case HL_KIND_OF_ORIGIN: return attr->ptr && p->how.original_value;
  case HL_KIND_OF_METADATA: return p->how.metadata && attr->ptr && put_metadata_wanted(attr->ptr);
  case HL_KIND_OF_DICT_TEXT: return p->how.backend_config && attr->sym && attr->sym->n;
  case HL_KIND_OF_SPARSITY: {
    const HlSparsity *s = attr->ptr;
    return s && (print_has_sparsity(s->lhs) || print_has_sparsity(s->rhs));
  }
  case HL_KIND_OF_SCALES: {
    const HlScales *s = attr->ptr;
    return s && (s->lhs.is_there || s->rhs.is_there);
  }
  case HL_KIND_OF_ACCURACY: {
    const HlAccuracy *a = attr->ptr;
    return a && (a->has_tolerance || a->mode != HL_WORD_accuracy_mode_DEFAULT);
  }
  case HL_KIND_OF_TEXT:
    if (attr->key == HL_A_INFEED_CONFIG || attr->key == HL_A_OUTFEED_CONFIG)
      return p->how.infeed_config && attr->sym && attr->sym->n;
    return true;
  case HL_KIND_OF_SHAPE:
  case HL_KIND_OF_LITERAL:
  case HL_KIND_OF_DIM_LABELS:
  case HL_KIND_OF_DOMAIN:
  case HL_KIND_OF_SHARDING: return attr->ptr != NULL;
  case HL_KIND_OF_DROPPED:
  case HL_KIND_OF_CONTROL: return false;
  default: return true;
  }
}

// How a comparison orders the values, where that is not as usual: what its type is kept for.
static bool order_of(const Print *p, const HlInst *inst, HlAttr *out) {
  if (!hl_writes(p->dialect, HL_NEWS_COMPARISON_ORDER) || !hl_has_attr(inst, HL_A_COMPARISON_TYPE))
    return false;
  const int64_t order = hl_comparison_order(hl_comparison_type(inst));
  const HlDtype dtype = inst->operands[0]->shape->dtype;
  out->i = order;
  return order != hl_comparison_order(hl_default_comparison_type(dtype));
}

// The order of a comparison prints instead of its type.
static bool goes_unsaid(const Print *p, const HlInst *inst, const HlAttr *attr) {
  return attr->key == HL_A_COMPARISON_TYPE ? hl_writes(p->dialect, HL_NEWS_COMPARISON_ORDER)
                                           : hl_attr_goes_unsaid(p->dialect, inst, attr);
}

// What prints for an attribute that is not there; false when nothing does.
static bool stand_in(const Print *p, const HlInst *inst, HlAttrKey key, bool required,
                     HlAttr *out) {
  *out = (HlAttr){.key = key};
  switch (key) {
  case HL_A_REPLICA_GROUPS:
  case HL_A_LHS_CONTRACTING_DIMS:
  case HL_A_RHS_CONTRACTING_DIMS:
  case HL_A_CUSTOM_CALL_TARGET: return true;
  case HL_A_DIMENSIONS: return true;
  case HL_A_COMPARISON_ORDER: return order_of(p, inst, out);
  case HL_A_OUTFEED_SHAPE:
    out->ptr = inst->n_operands ? inst->operands[0]->shape : NULL;
    return out->ptr != NULL;
  default: break;
  }
  const HlAlways *always = hl_op_always((HlOp)inst->op, key);
  if (always) {
    // What is not stored is the default, or where all values are, what silence means.
    out->i = hl_attr_info[key].def < 0 ? always->absent : hl_attr_info[key].def;
    return dialect_is_since(p->dialect, always->since);
  }
  const HlAttrKind kind = hl_attr_info[key].kind;
  return required && (kind == HL_KIND_OF_INTS || kind == HL_KIND_OF_SLICES ||
                      kind == HL_KIND_OF_PAIRS || kind == HL_KIND_OF_PADDING);
}

static void print_attr(Print *p, const HlInst *inst, const HlAttr *attr) {
  if (!shows(p, inst, attr))
    return;
  put_label(p->out, attr->key);
  print_kind[hl_attr_info[attr->key].kind](p, inst, attr);
}

static const HlAttr *find(const HlInst *inst, HlAttrKey key) {
  for (int k = 0; k < inst->n_attrs; k++)
    if (inst->attrs[k].key >= key)
      return inst->attrs[k].key == key ? &inst->attrs[k] : NULL;
  return NULL;
}

static bool is_comp_kind(HlAttrKind kind) {
  return kind == HL_KIND_OF_COMP || kind == HL_KIND_OF_COMPS;
}

static void print_wrapped(Print *p, const HlInst *start, const HlInst *wrapped);

// One row of an op's attributes.
static void print_row(Print *p, const HlInst *inst, HlAttrKey key, bool required) {
  HlAttr absent;
  if (key == HL_A_PARAMETER_NUMBER || key == HL_A_VALUE)
    return;
  if (is_comp_kind(hl_attr_info[key].kind)) {
    print_comp_attr(p, inst, key);
    return;
  }
  const HlAttr *attr = find(inst, key);
  const bool empty = attr && hl_attr_info[key].kind == HL_KIND_OF_INTS && !attr->ints.n;
  if (attr && !empty) {
    if (!goes_unsaid(p, inst, attr))
      print_attr(p, inst, attr);
  } else if (stand_in(p, inst, key, required, &absent)) {
    print_attr(p, inst, &absent);
  }
}

static void print_own(Print *p, const HlInst *inst) {
  for (const uint16_t *row = hl_op_info[inst->op].attrs; *row != HL_ATTR_END; row++)
    print_row(p, inst, (HlAttrKey)(*row & ~HL_ATTR_REQUIRED), *row & HL_ATTR_REQUIRED);
}

// Of an async-start: where the sugar is used, what its one instruction says stands in the place of
// the computation; with whole bodies that prints as well.
static void print_async_own(Print *p, const HlInst *inst) {
  const HlInst *wrapped = inst->op == HL_OP_ASYNC_START ? print_sugar(p, inst) : NULL;
  if (!wrapped) {
    print_own(p, inst);
    return;
  }
  print_row(p, inst, HL_A_ASYNC_EXECUTION_THREAD, false);
  print_wrapped(p, inst, wrapped);
  print_row(p, inst, HL_A_OUTPUT_TO_OPERAND_ALIASING, false);
  if (p->how.subcomputation_bodies)
    print_comp_attr(p, inst, HL_A_CALLS);
}

// --- Attributes of every op ----------------------------------------------------------------------

static void print_control(Print *p, const HlInst *inst) {
  if (!p->how.control_predecessors || !inst->control || !inst->control->n_preds)
    return;
  PUT(p->out, ", control-predecessors={");
  for (int k = 0; k < inst->control->n_preds; k++) {
    if (k)
      PUT(p->out, ", ");
    print_name(p, inst->control->preds[k]->name);
  }
  put_char(p->out, '}');
}

static void print_extra(HlBuf *out, const HlDict *extra) {
  for (int k = 0; extra && k < extra->n; k++) {
    PUT(out, ", ");
    put_sym(out, extra->key[k]);
    put_char(out, '=');
    put_sym(out, extra->value[k]);
  }
}

static void print_common(Print *p, const HlInst *inst) {
  int k = inst->n_attrs;
  while (k > 0 && inst->attrs[k - 1].key >= HL_A_SHARDING)
    k--;
  for (; k < inst->n_attrs && inst->attrs[k].key < HL_A_CONTROL_PREDECESSORS; k++)
    print_attr(p, inst, &inst->attrs[k]);
  print_control(p, inst);
  for (; k < inst->n_attrs; k++) {
    if (inst->attrs[k].key == HL_A_EXTRA)
      print_extra(p->out, inst->attrs[k].ptr);
    else
      print_attr(p, inst, &inst->attrs[k]);
  }
}

static void print_if_there(Print *p, const HlInst *inst, HlAttrKey key) {
  const HlAttr *attr = find(inst, key);
  if (attr)
    print_attr(p, inst, attr);
}

// What the one instruction of an async computation says; the rest stands on the async-start itself.
static void print_wrapped(Print *p, const HlInst *start, const HlInst *wrapped) {
  const bool outer = p->hide_frontend;
  p->hide_frontend = find(start, HL_A_FRONTEND_ATTRIBUTES);
  print_own(p, wrapped);
  print_if_there(p, wrapped, HL_A_SHARDING);
  print_if_there(p, wrapped, HL_A_FRONTEND_ATTRIBUTES);
  p->hide_frontend = outer;
  print_control(p, wrapped);
  print_if_there(p, wrapped, HL_A_STATISTICS);
  print_if_there(p, wrapped, HL_A_RESULT_ACCURACY);
}

void print_attrs(Print *p, const HlInst *inst) {
  if (hl_op_info[inst->op].traits & HL_T_ASYNC)
    print_async_own(p, inst);
  else
    print_own(p, inst);
  print_common(p, inst);
}
