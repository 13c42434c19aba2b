// cpu/program/share.c: instructions of equal content have one kernel.
//
// Equal are op, shapes with their layouts, attributes that mean something, the values of operands that are constants, and all that
// is called, instruction by instruction in the order of creation: passes make what is alike alike. Names and metadata have
// no part in it.

#include <string.h>

#include "base/map.h"
#include "cpu/emit/code.h"
#include "cpu/kernel/source.h"
#include "cpu/program/program.h"

typedef struct Known {
  const HlInst *inst;
  const CpuKernel *kernel;  // NULL: none takes it
  uint64_t fixed;           // of the operands, as far as bits go
} Known;

static bool counts(const HlAttr *attr) {
  switch (attr->key) {
  case HL_A_METADATA:
  case HL_A_ORIGIN:
  case HL_A_STATISTICS:
  case HL_A_SHARDING: return false;
  default: return true;
  }
}

static const HlLiteral *constant_value(const HlInst *inst) {
  return inst->op == HL_OP_CONSTANT ? hl_constant(inst) : NULL;
}

// --- Hashes ----------------------------------------------------------------------------------------

static uint64_t hash_comp(const HlComp *comp);

static uint64_t hash_inst(const HlInst *inst) {
  uint64_t h = hl_hash_mix((uint64_t)inst->op + 1, inst->shape->hash);
  for (int k = 0; k < inst->n_attrs; k++)
    if (counts(&inst->attrs[k]))
      h = hl_hash_mix(h, hl_attr_hash(&inst->attrs[k]));
  for (int k = 0; k < inst->n_calls; k++)
    h = hl_hash_mix(h, hash_comp(hl_called(inst, k)));
  for (uint32_t k = 0; k < inst->n_operands; k++)
    h = hl_hash_mix(h, inst->operands[k]->shape->hash);
  return h;
}

static uint64_t hash_comp(const HlComp *comp) {
  uint64_t h = comp->n_insts;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    h = hl_hash_mix(h, hash_inst(inst));
  return h;
}

// --- Equality --------------------------------------------------------------------------------------

static bool same_comp(HlArena *arena, const HlComp *a, const HlComp *b);

static bool same_attrs(const HlInst *a, const HlInst *b) {
  int j = 0;
  for (int k = 0; k < a->n_attrs; k++) {
    if (!counts(&a->attrs[k]))
      continue;
    while (j < b->n_attrs && !counts(&b->attrs[j]))
      j++;
    if (j == b->n_attrs || a->attrs[k].key != b->attrs[j].key ||
        !hl_attr_equal(&a->attrs[k], &b->attrs[j]))
      return false;
    j++;
  }
  while (j < b->n_attrs && !counts(&b->attrs[j]))
    j++;
  return j == b->n_attrs;
}

static bool same_inst(HlArena *arena, const HlInst *a, const HlInst *b) {
  if (a->op != b->op || a->shape != b->shape || a->n_operands != b->n_operands ||
      a->n_calls != b->n_calls || !same_attrs(a, b))
    return false;
  for (int k = 0; k < a->n_calls; k++)
    if (!same_comp(arena, hl_called(a, k), hl_called(b, k)))
      return false;
  return true;
}

static bool same_comp(HlArena *arena, const HlComp *a, const HlComp *b) {
  if (a == b)
    return true;
  if (a->n_insts != b->n_insts || a->n_params != b->n_params)
    return false;
  const HlMark mark = hl_arena_mark(arena);
  const HlInst **partner = HL_ARRAY(arena, const HlInst *, a->next_id + 1);
  bool same = true;
  const HlInst *y = b->first;
  for (const HlInst *x = a->first; same && x; x = x->next, y = y->next) {
    partner[x->id] = y;
    same = same_inst(arena, x, y);
    for (uint32_t k = 0; same && k < x->n_operands; k++)
      same = partner[x->operands[k]->id] == y->operands[k];
  }
  same = same && partner[a->root->id] == b->root;
  hl_arena_release(arena, mark);
  return same;
}

static bool same_operands(const HlInst *a, const HlInst *b) {
  for (uint32_t k = 0; k < a->n_operands; k++) {
    if (a->operands[k]->shape != b->operands[k]->shape ||
        constant_value(a->operands[k]) != constant_value(b->operands[k]))
      return false;
    for (uint32_t j = 0; j < k; j++)
      if ((a->operands[k] == a->operands[j]) != (b->operands[k] == b->operands[j]))
        return false;
  }
  return true;
}

// --- The table -------------------------------------------------------------------------------------

// "fusion.3 model.py:12": where it stands in the source that the program was made from, as far as that is known.
static const char *name_of(HlArena *arena, const HlInst *inst) {
  const CpuSource from = cpu_source(inst);
  if (!from.file)
    return inst->name->text;
  const char *slash = strrchr(from.file, '/');
  return hl_arena_printf(arena, "%s %s:%d", inst->name->text, slash ? slash + 1 : from.file,
                         from.line);
}

static uint64_t fixed_operands(const CpuMaker *maker, const HlInst *inst) {
  uint64_t fixed = 0;
  for (uint32_t k = 0; k < inst->n_operands && k < 64; k++)
    fixed |= (uint64_t)cpu_is_fixed(maker, inst->operands[k]) << k;
  return fixed;
}

const CpuKernel *cpu_kernel_of(CpuKernels *kernels, CpuMaker *maker, const HlInst *inst) {
  const uint64_t fixed = fixed_operands(maker, inst), hash = hl_hash_mix(hash_inst(inst), fixed);
  MapWalk walk = map_walk(&kernels->known, hash);
  for (const Known *known; (known = map_next_ptr(&walk));)
    if (known->fixed == fixed && same_inst(kernels->scratch, known->inst, inst) &&
        same_operands(known->inst, inst))
      return known->kernel;
  Known *known = HL_NEW(kernels->scratch, Known);
  maker->name =
      maker->code && emit_memory_tells(maker->code) ? name_of(kernels->scratch, inst) : NULL;
  *known = (Known){inst, cpu_kernel_make(maker, inst), fixed};
  kernels->n += known->kernel != NULL;
  map_add(&kernels->known, hash, map_key(known));
  return known->kernel;
}
