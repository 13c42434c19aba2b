// Names computations and instructions as XLA does when it makes HLO of MLIR.
//
// XLA takes every name twice from one counter for each stem: when an instruction is made, and again, for all of a
// computation, when that is complete. So a module with three additions has add.3, add.4 and add.5. Computations are
// counted together, in the module's order.
#include "mlir/to_hlo/to_hlo.h"

#include <stdlib.h>

// A name without the number at its end.
static HlStr stem_of(const HlSym *name) {
  size_t n = name->n;
  while (n > 0 && name->text[n - 1] >= '0' && name->text[n - 1] <= '9')
    n--;
  const bool is_numbered = n > 1 && n < name->n && name->text[n - 1] == '.';
  return (HlStr){name->text, is_numbered ? n - 1 : name->n};
}

static const HlSym *numbered(MlLower *l, HlStr stem, uint32_t number) {
  const char *text = hl_arena_printf(l->arena, "%.*s.%u", (int)stem.n, stem.at, number);
  return hl_sym(l->m, text);
}

typedef struct Made {
  uint64_t when;
  HlInst *inst;
  const HlSym *stem;
} Made;

static int compare_times(const void *a, const void *b) {
  const uint64_t x = ((const Made *)a)->when, y = ((const Made *)b)->when;
  return (x > y) - (x < y);
}

typedef struct Names {
  MlLower *l;
  uint32_t *count;  // names taken, by the index of the stem
} Names;

// A constant, or one that is spread: XLA moves them to the start of a function, each before those it moved earlier.
static bool is_constant(const HlInst *inst) {
  return inst->op == HL_OP_CONSTANT ||
         (inst->op == HL_OP_BROADCAST && inst->operands[0]->op == HL_OP_CONSTANT);
}

static void name_inst(Names *names, HlInst *inst) {
  const HlStr stem = stem_of(inst->name);
  const HlSym *sym = hl_syms_add(names->l->m->syms, stem.at, stem.n);
  hl_set_name(inst, numbered(names->l, stem, names->count[sym->index]++));
}

static void name_comp(Names *names, HlComp *comp) {
  for (uint32_t k = comp->next_id; k > 0; k--)
    if (comp->by_id[k - 1] && is_constant(comp->by_id[k - 1]))
      name_inst(names, comp->by_id[k - 1]);
  for (uint32_t k = 0; k < comp->next_id; k++)
    if (comp->by_id[k] && !is_constant(comp->by_id[k]))
      name_inst(names, comp->by_id[k]);
}

// The instructions of a computation with the time XLA makes them: constants as soon as it begins.
static Made *list_made(HlComp *comp, Made *made) {
  uint64_t begin = UINT64_MAX;
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    begin = inst->serial < begin ? inst->serial : begin;
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    *made++ = (Made){.when = is_constant(inst) ? begin : inst->serial, .inst = inst};
  return made;
}

void ml_name_as_xla(MlLower *l) {
  HlMark mark = hl_arena_mark(l->arena);
  uint32_t n = 0, n_comps = 0, number = 0;
  for (HlComp *comp = l->m->first; comp; comp = comp->next) {
    n += comp->n_insts;
    n_comps = comp->id >= n_comps ? comp->id + 1 : n_comps;
  }
  Made *made = HL_ARRAY(l->arena, Made, n + 1), *end = made;
  uint32_t *left = HL_ARRAY(l->arena, uint32_t, n_comps + 1);
  for (HlComp *comp = l->m->first; comp; comp = comp->next) {
    left[comp->id] = comp->n_insts;
    end = list_made(comp, end);
    hl_comp_set_name(comp, numbered(l, stem_of(comp->name), ++number));
  }
  qsort(made, n, sizeof *made, compare_times);
  for (uint32_t k = 0; k < n; k++) {
    const HlStr stem = stem_of(made[k].inst->name);
    made[k].stem = hl_syms_add(l->m->syms, stem.at, stem.n);
  }
  Names names = {.l = l, .count = HL_ARRAY(l->arena, uint32_t, hl_syms_count(l->m->syms) + 1)};
  for (uint32_t k = 0; k < n; k++) {
    HlComp *comp = made[k].inst->comp;
    names.count[made[k].stem->index]++;
    if (--left[comp->id] == 0)
      name_comp(&names, comp);
  }
  hl_arena_release(l->arena, mark);
}
