// rewrite/features/dag_hash.c: a hash of what a module computes, which stays the same whatever becomes of Hilo.
//
// Nothing enters it but texts (of ops, element types, attributes) and numbers that HLO itself defines; docs/env.md writes the
// algorithm down. Two values are mixed by the 128-bit product of both, each first combined with a constant: hl_hash_mix.
//
// A fusion's body is hashed with the hashes of the fusion's operands in the place of its parameters, and the operands are
// left out: so fusions that differ in the order of their operands alone agree, and those that compute something else do not.
// All other computations are hashed once, callees first, their parameters by number.

#include <string.h>

#include "base/bits.h"
#include "hilo/ir.h"
#include "rewrite/features/features.h"

typedef struct Dag {
  HlArena *arena;
  uint64_t op[HL_OP_COUNT], dtype[HL_DTYPE_COUNT], attr[HL_ATTR_COUNT];  // of their texts
  uint64_t *comp;  // by id: of those that are hashed once; 0: not yet
} Dag;

static uint64_t mix(uint64_t a, uint64_t b) {
  return hl_hash_mix(a, b);
}

static uint64_t text_hash(const char *text) {
  return hl_hash_bytes(text, strlen(text), 0);
}

static uint64_t sym_hash(const HlSym *sym) {
  return sym ? hl_hash_bytes(sym->text, sym->n, 0) : 1;
}

static uint64_t ints_hash(HlI64s ints, uint64_t h) {
  h = mix(h, (uint64_t)ints.n);
  for (int k = 0; k < ints.n; k++)
    h = mix(h, (uint64_t)ints.at[k]);
  return h;
}

// --- Shapes and literals --------------------------------------------------------------------------

static uint64_t extra_hash(const Dag *d, const HlLayoutExtra *extra, uint64_t h) {
  for (int k = 0; k < extra->n_tiles; k++)
    h = ints_hash(extra->tiles[k], h);
  for (int k = 0; k < extra->n_splits; k++)
    h = ints_hash(extra->splits[k].split_indices, mix(h, (uint64_t)extra->splits[k].dimension));
  h = mix(mix(h, (uint64_t)extra->tail_padding_alignment), (uint64_t)extra->element_bits);
  h = mix(mix(h, (uint64_t)extra->memory_space), (uint64_t)extra->dynamic_metadata_bytes);
  return mix(mix(h, d->dtype[extra->index_type]), d->dtype[extra->pointer_type]);
}

static uint64_t shape_hash(const Dag *d, const HlShape *shape) {
  uint64_t h = mix(d->dtype[shape->dtype], (uint64_t)shape->rank);
  if (!hl_shape_is_array(shape)) {
    for (int k = 0; k < shape->rank; k++)
      h = mix(h, shape_hash(d, shape->element[k]));
    return h;
  }
  for (int k = 0; k < shape->rank; k++)
    h = mix(h, (uint64_t)shape->dim[k] ^
                   (shape->dynamic && shape->dynamic[k] ? (uint64_t)1 << 63 : 0));
  if (!shape->layout)
    return h;
  h = ints_hash(shape->layout->minor_to_major, h);
  return shape->layout->extra ? extra_hash(d, shape->layout->extra, h) : h;
}

static uint64_t literal_hash(const Dag *d, const HlLiteral *literal) {
  uint64_t h = mix(shape_hash(d, literal->shape), literal->flags & HL_LIT_ELIDED);
  for (int k = 0; literal->element && k < literal->shape->rank; k++)
    h = mix(h, literal_hash(d, literal->element[k]));
  for (int k = 0; literal->extent && k < literal->shape->rank; k++)
    h = mix(h, (uint64_t)literal->extent[k]);
  if (!literal->data || literal->n == 0)
    return h;
  return hl_hash_bytes(literal->data,
                       (size_t)literal->n * (size_t)hl_dtype_bytes(literal->shape->dtype), h);
}

// --- Attributes -----------------------------------------------------------------------------------

static uint64_t window_hash(HlWindow window) {
  uint64_t h = (uint64_t)window.n;
  for (int k = 0; k < window.n; k++) {
    const HlWindowDim *w = &window.at[k];
    const int64_t fields[] = {w->size,       w->stride,     w->pad_low, w->pad_high,
                              w->lhs_dilate, w->rhs_dilate, w->reversal};
    h = ints_hash((HlI64s){fields, HL_COUNT_OF(fields)}, h);
  }
  return h;
}

static uint64_t labels_hash(const HlDimLabels *l) {
  const int64_t fields[] = {l->input_batch,   l->input_feature, l->kernel_input,
                            l->kernel_output, l->output_batch,  l->output_feature};
  uint64_t h = ints_hash((HlI64s){fields, HL_COUNT_OF(fields)}, 0);
  return ints_hash(l->output_spatial, ints_hash(l->kernel_spatial, ints_hash(l->input_spatial, h)));
}

static uint64_t lists_hash(HlI64Lists lists) {
  uint64_t h = (uint64_t)lists.n;
  for (int k = 0; k < lists.n; k++)
    h = ints_hash(lists.at[k], h);
  return h;
}

static uint64_t groups_hash(const Dag *d, const HlGroups *groups) {
  const HlMark mark = hl_arena_mark(d->arena);
  const uint64_t h = lists_hash(hl_groups_lists(d->arena, groups));
  hl_arena_release(d->arena, mark);
  return h;
}

static uint64_t aliases_hash(HlAliases aliases) {
  uint64_t h = (uint64_t)aliases.n;
  for (int k = 0; k < aliases.n; k++) {
    h = ints_hash(aliases.at[k].output, mix(h, (uint64_t)aliases.at[k].number));
    h = mix(ints_hash(aliases.at[k].index, h), (uint64_t)aliases.at[k].kind);
  }
  return h;
}

static uint64_t sharding_hash(const HlSharding *sharding) {
  if (!sharding)
    return 0;
  HlBuf text = {0};
  hl_sharding_print(&text, sharding, false);
  const uint64_t h = hl_hash_bytes(text.at, text.n, 0);
  hl_buf_free(&text);
  return h;
}

static uint64_t dict_hash(HlDict dict) {
  uint64_t h = (uint64_t)dict.n;
  for (int k = 0; k < dict.n; k++)
    h = mix(mix(h, sym_hash(dict.key[k])), sym_hash(dict.value[k]));
  return h;
}

static uint64_t sparsity_hash(const HlSparsityOf *s) {
  const int64_t fields[] = {s->n, s->m, s->dimension, s->stride, s->idx};
  return ints_hash((HlI64s){fields, HL_COUNT_OF(fields)}, 0);
}

static uint64_t scales_hash(const HlScalesOf *s) {
  const int64_t fields[] = {s->is_there, s->has_zero, s->scale_idx, s->zero_idx};
  return ints_hash(s->steps, ints_hash(s->strides, ints_hash((HlI64s){fields, 4}, 0)));
}

static uint64_t accuracy_hash(const HlAccuracy *a) {
  const int64_t fields[] = {a->has_tolerance, a->mode, (int64_t)hl_f64_bits(a->atol),
                            (int64_t)hl_f64_bits(a->rtol), a->ulps};
  return ints_hash((HlI64s){fields, HL_COUNT_OF(fields)}, 0);
}

static uint64_t struct_hash(const Dag *d, HlAttrKind kind, const void *at) {
  switch (kind) {
  case HL_KIND_OF_DIM_LABELS: return labels_hash(at);
  case HL_KIND_OF_GROUPS: return groups_hash(d, at);
  case HL_KIND_OF_SHAPE: return shape_hash(d, at);
  case HL_KIND_OF_LITERAL: return literal_hash(d, at);
  case HL_KIND_OF_DOMAIN: {
    const HlDomain *domain = at;
    return mix(mix(sym_hash(domain->kind), sharding_hash(domain->entry)),
               sharding_hash(domain->exit));
  }
  case HL_KIND_OF_SPARSITY:
    return mix(sparsity_hash(&((const HlSparsity *)at)->lhs),
               sparsity_hash(&((const HlSparsity *)at)->rhs));
  case HL_KIND_OF_SCALES:
    return mix(scales_hash(&((const HlScales *)at)->lhs),
               scales_hash(&((const HlScales *)at)->rhs));
  case HL_KIND_OF_ACCURACY: return accuracy_hash(at);
  case HL_KIND_OF_SHARDING: return sharding_hash(at);
  case HL_KIND_OF_DICT:
  case HL_KIND_OF_EXTRA: return dict_hash(*(const HlDict *)at);
  default: return 0;
  }
}

static uint64_t shapes_hash(const Dag *d, HlShapeList shapes) {
  uint64_t h = (uint64_t)shapes.n;
  for (int k = 0; k < shapes.n; k++)
    h = mix(h, shape_hash(d, shapes.at[k]));
  return h;
}

static uint64_t value_hash(const Dag *d, const HlAttr *attr) {
  const HlAttrKind kind = hl_attr_info[attr->key].kind;
  switch (kind) {
  case HL_KIND_OF_INT:
  case HL_KIND_OF_BOOL:
  case HL_KIND_OF_TRISTATE:
  case HL_KIND_OF_ONE_INT: return (uint64_t)attr->i;
  case HL_KIND_OF_ENUM: {
    const char *word = hl_enum_text(hl_attr_info[attr->key].words, attr->i);
    return word ? text_hash(word) : (uint64_t)attr->i;
  }
  case HL_KIND_OF_FLOAT: return hl_f64_bits(attr->f);
  case HL_KIND_OF_TEXT:
  case HL_KIND_OF_DICT_TEXT: return sym_hash(attr->sym);
  case HL_KIND_OF_INTS:
  case HL_KIND_OF_SLICES:
  case HL_KIND_OF_PADDING:
  case HL_KIND_OF_PAIRS:
  case HL_KIND_OF_PRECISION:
  case HL_KIND_OF_BOOLS: return ints_hash(attr->ints, 0);
  case HL_KIND_OF_INT_LISTS: return lists_hash(attr->lists);
  case HL_KIND_OF_WINDOW: return window_hash(attr->window);
  case HL_KIND_OF_SHAPES: return shapes_hash(d, attr->shapes);
  case HL_KIND_OF_ALIASING: return aliases_hash(attr->aliases);
  default: return attr->ptr ? struct_hash(d, kind, attr->ptr) : 0;
  }
}

static bool only_tells(HlAttrKey key) {
  return key == HL_A_METADATA || key == HL_A_ORIGIN || key == HL_A_STATISTICS;
}

// In any order: rows of the table may come to stand elsewhere.
static uint64_t attrs_hash(const Dag *d, const HlInst *inst) {
  uint64_t sum = 0;
  for (int k = 0; k < inst->n_attrs; k++) {
    const HlAttr *attr = &inst->attrs[k];
    if (only_tells(attr->key) || attr->key == HL_A_PARAMETER_NUMBER)
      continue;
    sum += mix(d->attr[attr->key], value_hash(d, attr));
  }
  return sum;
}

// --- Instructions ---------------------------------------------------------------------------------

static uint64_t control_hash(const uint64_t *own, const HlInst *inst, uint64_t h) {
  uint64_t sum = 0;
  for (int k = 0; inst->control && k < inst->control->n_preds; k++)
    sum += mix(own[inst->control->preds[k]->id], 5);
  return sum ? mix(h, sum) : h;
}

static uint64_t operands_hash(const uint64_t *own, const HlInst *inst, uint64_t h) {
  h = mix(h, inst->n_operands);
  if (inst->op != HL_OP_ALTERNATIVES) {
    for (uint32_t k = 0; k < inst->n_operands; k++)
      h = mix(h, own[inst->operands[k]->id]);
    return h;
  }
  uint64_t sum = 0;
  for (uint32_t k = 1; k < inst->n_operands; k++)
    sum += mix(own[inst->operands[k]->id], 7);
  return mix(inst->n_operands > 0 ? mix(h, own[inst->operands[0]->id]) : h, sum);
}

// What an instruction is by itself. `body`: what a fusion computes from its operands; 0: it is none that is hashed so.
static uint64_t inst_hash(const Dag *d, const uint64_t *own, const HlInst *inst, uint64_t body) {
  uint64_t h = mix(d->op[inst->op], shape_hash(d, inst->shape));
  h = mix(h, attrs_hash(d, inst));
  if (body)
    return control_hash(own, inst, mix(h, body));
  if (inst->op == HL_OP_PARAMETER)
    h = mix(h, (uint64_t)hl_parameter_number(inst));
  for (int k = 0; k < inst->n_calls; k++)
    h = mix(h, d->comp[inst->calls[k].comp->id]);
  return control_hash(own, inst, operands_hash(own, inst, h));
}

// --- Computations ---------------------------------------------------------------------------------

static bool is_hashed_inside(const HlInst *inst) {
  return inst->op == HL_OP_FUSION && inst->n_calls == 1 && inst->calls[0].comp->is_fusion &&
         inst->calls[0].comp->first_call == inst->calls[0].comp->last_call;
}

static uint64_t comp_hash(const uint64_t *own, const HlComp *comp) {
  uint64_t effects = 0;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (!inst->first_use && inst != comp->root && hl_has_side_effect(inst))
      effects += mix(own[inst->id], 3);
  uint64_t h = mix(comp->root ? own[comp->root->id] : 0, effects);
  return comp->execution_thread ? mix(h, sym_hash(comp->execution_thread)) : h;
}

// A computation that is being hashed.
typedef struct Frame {
  const HlComp *comp;
  const HlInst *next;
  uint64_t *own;           // of its instructions, by id
  const uint64_t *params;  // a fusion's operands, by number; NULL: parameters go by number
  HlMark mark;             // of the arena before it
} Frame;

static Frame open_frame(const Dag *d, const HlComp *comp) {
  Frame frame = {.comp = comp, .next = comp->first, .mark = hl_arena_mark(d->arena)};
  frame.own = HL_ARRAY(d->arena, uint64_t, comp->next_id + 1);
  return frame;
}

static Frame open_body(const Dag *d, const Frame *caller, const HlInst *fusion) {
  const HlMark mark = hl_arena_mark(d->arena);
  uint64_t *params = HL_ARRAY(d->arena, uint64_t, fusion->n_operands + 1);
  for (uint32_t k = 0; k < fusion->n_operands; k++)
    params[k] = caller->own[fusion->operands[k]->id];
  Frame frame = open_frame(d, fusion->calls[0].comp);
  frame.params = params;
  frame.mark = mark;
  return frame;
}

static void hash_one(const Dag *d, Frame *frame, uint64_t body) {
  const HlInst *inst = frame->next;
  const int64_t number = inst->op == HL_OP_PARAMETER ? hl_parameter_number(inst) : -1;
  const HlCall *call = frame->comp->first_call;
  frame->own[inst->id] = frame->params && number >= 0 && number < call->caller->n_operands
                             ? frame->params[number]
                             : inst_hash(d, frame->own, inst, body);
  frame->next = inst->next;
}

// Fusions inside fusions wait on the stack, which is as deep as there are computations at most.
static uint64_t hash_comp(const Dag *d, Frame *stack, const HlComp *comp) {
  int depth = 0;
  uint64_t done = 0;
  stack[0] = open_frame(d, comp);
  while (depth >= 0) {
    Frame *frame = &stack[depth];
    if (!frame->next) {
      done = comp_hash(frame->own, frame->comp) | 1;
      hl_arena_release(d->arena, frame->mark);
      depth--;
    } else if (is_hashed_inside(frame->next) && !done) {
      stack[depth + 1] = open_body(d, frame, frame->next);
      depth++;
    } else {
      hash_one(d, frame, is_hashed_inside(frame->next) ? done : 0);
      done = 0;
    }
  }
  return done;
}

static bool is_hashed_once(const HlComp *comp) {
  return !(comp->is_fusion && comp->first_call && is_hashed_inside(comp->first_call->caller));
}

static uint64_t interface_hash(const Dag *d, const HlModule *m, uint64_t h) {
  for (int k = 0; k < m->n_entry_params; k++)
    h = mix(h, shape_hash(d, m->entry_params[k]));
  h = mix(h, m->entry_result ? shape_hash(d, m->entry_result) : 1);
  h = mix(h, aliases_hash(m->input_output_alias));
  for (int k = 0; k < m->n_buffer_donor; k++)
    h = ints_hash(m->buffer_donor[k].index, mix(h, (uint64_t)m->buffer_donor[k].number));
  h = mix(h, dict_hash(m->frontend_attributes));
  return mix(mix(h, (uint64_t)m->replica_count), (uint64_t)m->num_partitions);
}

uint64_t hl_dag_hash(const HlModule *m) {
  HlArena *arena = hl_arena_new();
  Dag *d = HL_NEW(arena, Dag);
  d->arena = arena;
  for (int k = 0; k < HL_OP_COUNT; k++)
    d->op[k] = text_hash(hl_op_info[k].text);
  for (int k = 0; k < HL_DTYPE_COUNT; k++)
    d->dtype[k] = text_hash(hl_dtype_info[k].text);
  for (int k = 0; k < HL_ATTR_COUNT; k++)
    d->attr[k] = text_hash(hl_attr_info[k].text);
  d->comp = HL_ARRAY(arena, uint64_t, m->next_comp_id + 1);
  Frame *stack = HL_ARRAY(arena, Frame, m->n_comps + 1);
  HlComp **order = hl_comp_order(arena, m);
  for (uint32_t k = 0; k < m->n_comps; k++)
    if (is_hashed_once(order[k]))
      d->comp[order[k]->id] = hash_comp(d, stack, order[k]);
  const uint64_t h = interface_hash(d, m, m->entry ? d->comp[m->entry->id] : 0);
  hl_arena_free(arena);
  return h;
}
