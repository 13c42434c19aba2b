// ir/hash.c: hashes and compares what graphs compute.
//
// Every instruction gets a hash from its operands' hashes up, every computation one from its root
// and from the instructions that nobody uses. Names, metadata, ids, the order of independent
// instructions and layouts of intermediate values have no part in it. Equality first asks for
// equal hashes and then walks both graphs side by side from their roots, which pairs the
// instructions one to one.

#include <stdlib.h>
#include <string.h>

#include "ir/same.h"
#include "ir/state.h"

// --- What counts --------------------------------------------------------------------------------

static uint64_t bare_shape_hash(const HlShape *shape) {
  uint64_t h = hl_hash_mix((uint64_t)shape->dtype + 1, (uint64_t)shape->rank);
  bool is_array = hl_is_array_dtype(shape->dtype);
  for (int k = 0; k < shape->rank; k++) {
    h = hl_hash_mix(h, is_array ? (uint64_t)shape->dim[k] : bare_shape_hash(shape->element[k]));
    if (is_array && shape->dynamic && shape->dynamic[k])
      h = hl_hash_mix(h, 77);
  }
  return h;
}

static bool bare_shape_equal(const HlShape *a, const HlShape *b) {
  if (a == b)
    return true;
  if (a->dtype != b->dtype || a->rank != b->rank)
    return false;
  for (int k = 0; k < a->rank; k++) {
    if (!hl_is_array_dtype(a->dtype)) {
      if (!bare_shape_equal(a->element[k], b->element[k]))
        return false;
    } else if (a->dim[k] != b->dim[k] ||
               (a->dynamic && a->dynamic[k]) != (b->dynamic && b->dynamic[k])) {
      return false;
    }
  }
  return true;
}

static bool is_empty_list(const HlAttr *attr) {
  switch (hl_attr_info[attr->key].kind) {
  case HL_KIND_OF_INTS:
  case HL_KIND_OF_SLICES:
  case HL_KIND_OF_PADDING:
  case HL_KIND_OF_PAIRS:
  case HL_KIND_OF_BOOLS: return attr->ints.n == 0;
  case HL_KIND_OF_SHAPES: return attr->shapes.n == 0;
  default: return false;
  }
}

bool ir_attr_counts(const HlInst *inst, const HlAttr *attr) {
  switch (attr->key) {
  case HL_A_METADATA:
  case HL_A_ORIGIN:
  case HL_A_STATISTICS: return false;
  case HL_A_COMPARISON_TYPE:
    return inst->n_operands == 0 ||
           attr->i != hl_default_comparison_type(inst->operands[0]->shape->dtype);
  default: return !is_empty_list(attr);
  }
}

// Layouts have a meaning for bitcast alone.
static bool layout_counts(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST;
}

// --- Hashes -------------------------------------------------------------------------------------

typedef struct Hashes {
  uint64_t *comp;   // by id
  uint64_t **inst;  // by id of the computation and of the instruction
} Hashes;

static uint64_t inst_hash(const Hashes *hashes, const uint64_t *own, const HlInst *inst) {
  uint64_t h = hl_hash_mix((uint64_t)inst->op + 1, bare_shape_hash(inst->shape));
  if (layout_counts(inst))
    h = hl_hash_mix(h, inst->shape->hash);
  for (int k = 0; k < inst->n_attrs; k++)
    if (ir_attr_counts(inst, &inst->attrs[k]))
      h = hl_hash_mix(h, hl_attr_hash(&inst->attrs[k]));
  for (int k = 0; k < inst->n_calls; k++)
    h = hl_hash_mix(h, hashes->comp[inst->calls[k].comp->id]);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    h = hl_hash_mix(h, own[inst->operands[k]->id]);
    if (layout_counts(inst))
      h = hl_hash_mix(h, inst->operands[k]->shape->hash);
  }
  uint64_t before = 0;
  for (int k = 0; inst->control && k < inst->control->n_preds; k++)
    before += hl_hash_mix(own[inst->control->preds[k]->id], 5);
  return before ? hl_hash_mix(h, before) : h;
}

static uint64_t comp_hash(const Hashes *hashes, uint64_t *own, const HlComp *comp) {
  uint64_t sinks = 0;
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    own[inst->id] = inst_hash(hashes, own, inst);
    if (!inst->first_use)
      sinks += hl_hash_mix(own[inst->id], 3);
  }
  uint64_t h = hl_hash_mix(comp->root ? own[comp->root->id] : 0, sinks);
  h = hl_hash_mix(h, (uint64_t)comp->n_insts << 32 | (uint64_t)comp->n_params);
  return comp->execution_thread ? hl_hash_mix(h, hl_hash_bytes(comp->execution_thread->text,
                                                               comp->execution_thread->n, 7))
                                : h;
}

static Hashes hash_all(HlArena *arena, const HlModule *m) {
  Hashes hashes = {HL_ARRAY(arena, uint64_t, m->next_comp_id + 1),
                   HL_ARRAY(arena, uint64_t *, m->next_comp_id + 1)};
  HlComp **order = hl_comp_order(arena, m);
  for (uint32_t k = 0; k < m->n_comps; k++) {
    uint64_t *own = hashes.inst[order[k]->id] = HL_ARRAY(arena, uint64_t, order[k]->next_id + 1);
    hashes.comp[order[k]->id] = comp_hash(&hashes, own, order[k]);
  }
  return hashes;
}

static uint64_t module_hash(const HlModule *m, const Hashes *hashes) {
  uint64_t h = m->entry ? hashes->comp[m->entry->id] : 0;
  for (int k = 0; k < m->n_entry_params; k++)
    h = hl_hash_mix(h, m->entry_params[k]->hash);
  h = hl_hash_mix(h, m->entry_result ? m->entry_result->hash : 1);
  h = hl_hash_mix(h, ir_aliases_hash(m->input_output_alias));
  h = hl_hash_mix(h, ir_dict_hash(m->frontend_attributes));
  for (int k = 0; k < m->n_buffer_donor; k++)
    h = ir_ints_hash(m->buffer_donor[k].index, hl_hash_mix(h, (uint64_t)m->buffer_donor[k].number));
  return hl_hash_mix(hl_hash_mix(h, (uint64_t)m->replica_count), (uint64_t)m->num_partitions);
}

uint64_t hl_graph_hash(const HlModule *m) {
  HlArena *arena = hl_arena_new();
  Hashes hashes = hash_all(arena, m);
  uint64_t h = module_hash(m, &hashes);
  hl_arena_free(arena);
  return h;
}

// --- Equality -----------------------------------------------------------------------------------

typedef struct Pair {
  const HlInst *a, *b;
} Pair;

typedef struct Match {
  HlArena *arena;
  Hashes a, b;
  const HlComp **comp;  // of b, by id of a's: pairs found
  const HlComp **todo;  // computations of a to look into
  size_t n_todo;
  const HlInst **to_b, **to_a;  // within the computations at hand, by id
  Pair *stack;                  // instructions to compare
  size_t depth;
} Match;

static bool attrs_equal(const HlInst *a, const HlInst *b) {
  int j = 0;
  for (int k = 0; k < a->n_attrs; k++) {
    if (!ir_attr_counts(a, &a->attrs[k]))
      continue;
    while (j < b->n_attrs && !ir_attr_counts(b, &b->attrs[j]))
      j++;
    if (j == b->n_attrs || !hl_attr_equal(&a->attrs[k], &b->attrs[j++]))
      return false;
  }
  while (j < b->n_attrs && !ir_attr_counts(b, &b->attrs[j]))
    j++;
  return j == b->n_attrs;
}

// Pairs two computations; a second partner must have the same hash.
static bool match_comps(Match *match, const HlComp *a, const HlComp *b) {
  if (match->a.comp[a->id] != match->b.comp[b->id])
    return false;
  if (!match->comp[a->id]) {
    match->comp[a->id] = b;
    match->todo[match->n_todo++] = a;
  }
  return true;
}

// Pairs two instructions and leaves their comparison for later.
static bool match_insts(Match *match, const HlInst *a, const HlInst *b) {
  if (match->to_b[a->id] || match->to_a[b->id])
    return match->to_b[a->id] == b && match->to_a[b->id] == a;
  match->to_b[a->id] = b;
  match->to_a[b->id] = a;
  match->stack[match->depth++] = (Pair){a, b};
  return true;
}

typedef struct Hashed {
  uint64_t hash;
  const HlInst *inst;
} Hashed;

static int by_hash(const void *a, const void *b) {
  const Hashed *x = a, *y = b;
  if (x->hash != y->hash)
    return x->hash < y->hash ? -1 : 1;
  return x->inst->id < y->inst->id ? -1 : x->inst->id > y->inst->id;
}

static bool match_sorted(Match *match, Hashed *a, Hashed *b, size_t n) {
  qsort(a, n, sizeof *a, by_hash);
  qsort(b, n, sizeof *b, by_hash);
  for (size_t k = 0; k < n; k++)
    if (a[k].hash != b[k].hash || !match_insts(match, a[k].inst, b[k].inst))
      return false;
  return true;
}

static bool match_controls(Match *match, const HlInst *a, const HlInst *b) {
  int n = a->control ? a->control->n_preds : 0;
  if (n != (b->control ? b->control->n_preds : 0))
    return false;
  if (n == 0)
    return true;
  Hashed *x = HL_ARRAY(match->arena, Hashed, n), *y = HL_ARRAY(match->arena, Hashed, n);
  const uint64_t *hash_a = match->a.inst[a->comp->id], *hash_b = match->b.inst[b->comp->id];
  for (int k = 0; k < n; k++) {
    x[k] = (Hashed){hash_a[a->control->preds[k]->id], a->control->preds[k]};
    y[k] = (Hashed){hash_b[b->control->preds[k]->id], b->control->preds[k]};
  }
  return match_sorted(match, x, y, (size_t)n);
}

static bool compare(Match *match, const HlInst *a, const HlInst *b) {
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_calls != b->n_calls ||
      !bare_shape_equal(a->shape, b->shape) || !attrs_equal(a, b))
    return false;
  if (layout_counts(a) && !hl_shape_equal(a->shape, b->shape))
    return false;
  for (int k = 0; k < a->n_calls; k++)
    if (!match_comps(match, a->calls[k].comp, b->calls[k].comp))
      return false;
  for (uint32_t k = 0; k < a->n_operands; k++)
    if (!match_insts(match, a->operands[k], b->operands[k]))
      return false;
  return match_controls(match, a, b);
}

// The instructions that nobody uses, with their hashes.
static Hashed *sinks_of(HlArena *arena, const HlComp *comp, const uint64_t *hash, size_t *n) {
  Hashed *sinks = HL_ARRAY(arena, Hashed, comp->n_insts + 1);
  *n = 0;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (!inst->first_use)
      sinks[(*n)++] = (Hashed){hash[inst->id], inst};
  return sinks;
}

static bool compare_comps(Match *match, const HlComp *a, const HlComp *b) {
  if (a->n_insts != b->n_insts || a->n_params != b->n_params || !a->root != !b->root)
    return false;
  match->to_b = HL_ARRAY(match->arena, const HlInst *, a->next_id + 1);
  match->to_a = HL_ARRAY(match->arena, const HlInst *, b->next_id + 1);
  match->stack = HL_ARRAY(match->arena, Pair, a->n_insts + 1);
  match->depth = 0;
  if (a->root && !match_insts(match, a->root, b->root))
    return false;
  size_t n, n_b;
  Hashed *sinks = sinks_of(match->arena, a, match->a.inst[a->id], &n);
  Hashed *sinks_b = sinks_of(match->arena, b, match->b.inst[b->id], &n_b);
  if (n != n_b)
    return false;
  // A root without users is paired already: drop it from both lists.
  for (size_t k = 0; k < n; k++) {
    if (sinks[k].inst == a->root)
      sinks[k].hash = 0;
    if (sinks_b[k].inst == b->root)
      sinks_b[k].hash = 0;
  }
  if (!match_sorted(match, sinks, sinks_b, n))
    return false;
  while (match->depth > 0) {
    Pair pair = match->stack[--match->depth];
    if (!compare(match, pair.a, pair.b))
      return false;
  }
  return true;
}

static bool interfaces_equal(const HlModule *a, const HlModule *b) {
  if (a->n_entry_params != b->n_entry_params || a->n_buffer_donor != b->n_buffer_donor ||
      a->replica_count != b->replica_count || a->num_partitions != b->num_partitions ||
      !a->entry_result != !b->entry_result || !a->entry != !b->entry)
    return false;
  if (a->entry_result && !hl_shape_equal(a->entry_result, b->entry_result))
    return false;
  for (int k = 0; k < a->n_entry_params; k++)
    if (!hl_shape_equal(a->entry_params[k], b->entry_params[k]))
      return false;
  for (int k = 0; k < a->n_buffer_donor; k++)
    if (a->buffer_donor[k].number != b->buffer_donor[k].number ||
        !hl_i64s_equal(a->buffer_donor[k].index, b->buffer_donor[k].index))
      return false;
  return ir_aliases_equal(a->input_output_alias, b->input_output_alias) &&
         ir_dict_equal(a->frontend_attributes, b->frontend_attributes);
}

static bool match_modules(Match *match, const HlModule *a, const HlModule *b) {
  if (module_hash(a, &match->a) != module_hash(b, &match->b) || !interfaces_equal(a, b))
    return false;
  if (a->entry && !match_comps(match, a->entry, b->entry))
    return false;
  while (match->n_todo > 0) {
    const HlComp *comp = match->todo[--match->n_todo];
    if (!compare_comps(match, comp, match->comp[comp->id]))
      return false;
  }
  return true;
}

bool hl_graph_equal(HlCx *cx, const HlModule *a, const HlModule *b) {
  HlArena *arena = hl_arena_new();
  Match match = {.arena = arena, .a = hash_all(arena, a), .b = hash_all(arena, b)};
  match.comp = HL_ARRAY(arena, const HlComp *, a->next_comp_id + 1);
  match.todo = HL_ARRAY(arena, const HlComp *, a->n_comps + 1);
  bool equal = match_modules(&match, a, b);
  hl_arena_free(arena);
  return equal;
}
