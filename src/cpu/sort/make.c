// cpu/sort/make.c: which records a sort makes of its rows.

#include "cpu/sort/bits.h"
#include "cpu/sort/sort.h"

enum { MOST_OPERANDS = 1000 };

// --- Plans --------------------------------------------------------------------------------------

static SortField key_field(const SortKernel *s, const SortKey *key) {
  const int bytes = hl_dtype_bytes(key->dtype);
  const uint64_t sign = (uint64_t)1 << (8 * bytes - 1), ones = sign | (sign - 1);
  SortField f = {.form = key->kind,
                 .operand = key->operand,
                 .part = key->part,
                 .parts = hl_is_complex(s->dtype[key->operand]) ? 2 : 1,
                 .bytes = bytes,
                 .table = key->table};
  if (key->kind == SORT_INTEGER && hl_is_signed(key->dtype))
    f.flip = sign;
  if (key->kind == SORT_FLOAT)
    f.most = bits_largest_number(key->dtype);
  if (key->down)
    f.flip ^= ones;
  return f;
}

// Puts keys into the highest bits, the others below; false: they need more than there is.
static bool lay_out(SortPlan *p) {
  int keys = 0, others = 0;
  for (int k = 0; k < p->n_fields; k++)
    *(k < p->n_keys ? &keys : &others) += 8 * p->field[k].bytes;
  if (keys > 64 || others > 64)
    return false;
  p->size = keys + others <= 32 ? 4 : keys + others <= 64 ? 8 : 16;
  const int width = p->size == 4 ? 32 : 64;
  p->low = width - keys;
  for (int k = 0, at = width; k < p->n_fields; k++) {
    SortField *f = &p->field[k];
    if (k == p->n_keys && p->size == 16)
      at = width;
    at -= 8 * f->bytes;
    f->shift = at;
    f->high = p->size == 16 && k < p->n_keys;
    f->fresh = at + 8 * f->bytes == width;
  }
  return true;
}

static bool is_key(const SortKey *key, int n_keys, int operand, int part) {
  for (int k = 0; k < n_keys; k++)
    if (key[k].operand == operand && key[k].part == part)
      return true;
  return false;
}

// All of all operands.
static bool plan_whole(SortKernel *s, HlArena *arena, const SortKey *key, int n_keys) {
  SortPlan *p = &s->whole;
  p->field = HL_ARRAY(arena, SortField, n_keys + s->n);
  for (; p->n_keys < n_keys; p->n_keys++)
    p->field[p->n_keys] = key_field(s, &key[p->n_keys]);
  p->n_fields = n_keys;
  for (int k = 0; k < s->n; k++) {
    const bool one = is_key(key, n_keys, k, 0), two = is_key(key, n_keys, k, 1);
    if (hl_is_complex(s->dtype[k]) ? one && two : one)
      continue;
    const int bytes = hl_dtype_bytes(s->dtype[k]);
    if (one || two || bytes > 8)
      return false;
    p->field[p->n_fields++] =
        (SortField){.form = SORT_INTEGER, .operand = k, .parts = 1, .bytes = bytes};
  }
  return lay_out(p);
}

// As many of the keys before `n_keys` as fit, and the place; how many.
static int plan_placed(const SortKernel *s, SortPlan *p, HlArena *arena, const SortKey *key,
                       int n_keys) {
  int first = n_keys, bytes = 0;
  while (first > 0 && bytes + hl_dtype_bytes(key[first - 1].dtype) <= 8)
    bytes += hl_dtype_bytes(key[--first].dtype);
  p->field = HL_ARRAY(arena, SortField, n_keys - first + 1);
  for (int k = first; k < n_keys; k++)
    p->field[p->n_keys++] = key_field(s, &key[k]);
  p->field[p->n_keys] = (SortField){.form = SORT_PLACE, .parts = 1, .bytes = 4};
  p->n_fields = p->n_keys + 1;
  lay_out(p);
  p->field[p->n_keys].shift = 0;
  return first;
}

// The key is what the machine makes of an element.
static void plan_computed(SortPlan *p, HlArena *arena) {
  *p = (SortPlan){.size = 16, .n_fields = 1, .field = HL_ARRAY(arena, SortField, 1)};
  p->field[0] = (SortField)SORT_PLACE_FIELD;
}

// --- Making -------------------------------------------------------------------------------------

static void set_rows(SortKernel *s, HlArena *arena, const HlInst *inst) {
  const HlShape **shape = HL_ARRAY(arena, const HlShape *, 2 * s->n);
  for (int k = 0; k < s->n; k++) {
    shape[k] = inst->operands[k]->shape;
    shape[s->n + k] = cpu_leaf(inst->shape, k);
  }
  sort_rows_make(&s->rows, arena, 2 * s->n, shape, hl_dim(inst));
  s->length = shape[0]->dim[hl_dim(inst)];
}

static bool set_order(SortKernel *s, CpuMaker *maker, const HlComp *comp) {
  int n = 0;
  HlArena *scratch = hl_cx_scratch(maker->cx);
  const HlMark mark = hl_arena_mark(scratch);
  const SortKey *key = sort_find_keys(maker->arena, scratch, comp, &n);
  hl_arena_release(scratch, mark);
  for (int k = 0; k < n; k++)
    s->fails |= key[k].fails;
  if (!key || s->fails)
    s->machine = machine_new(maker->arena, comp);
  if ((!key || s->fails) && !s->machine)
    return false;
  s->placed = HL_ARRAY(maker->arena, SortPlan, n + 1);
  if (key) {
    if (!plan_whole(s, maker->arena, key, n))
      s->whole.size = 0;
    for (int left = n; left > 0;)
      left = plan_placed(s, &s->placed[s->n_placed++], maker->arena, key, left);
  } else if (machine_find_key(maker->arena, s->machine, &s->key)) {
    s->has_key = true;
    s->fails = SORT_SAW_CHAOS | SORT_SAW_NAN;
    plan_computed(&s->placed[s->n_placed++], maker->arena);
  }
  return true;
}

static bool fits(const HlInst *inst) {
  const HlShape *shape = inst->n_operands ? inst->operands[0]->shape : NULL;
  const int64_t dimension = hl_dim(inst);
  if (!shape || hl_shape_is_dynamic(inst->shape) || inst->n_operands > MOST_OPERANDS ||
      cpu_leaf_count(inst->shape) != (int)inst->n_operands ||
      hl_to_apply(inst)->n_params != 2 * (int)inst->n_operands || dimension < 0 ||
      dimension >= shape->rank || shape->dim[dimension] > INT32_MAX)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlShape *to = cpu_leaf(inst->shape, (int)k), *from = inst->operands[k]->shape;
    const HlComp *comp = hl_to_apply(inst);
    if (!hl_shape_is_array(from) || !hl_shape_is_array(to) || hl_shape_is_dynamic(from) ||
        !hl_shape_same_dims(from, shape) || !hl_shape_same_dims(to, shape) ||
        from->dtype != to->dtype || comp->params[2 * k]->shape->dtype != from->dtype ||
        comp->params[2 * k + 1]->shape->dtype != from->dtype)
      return false;
  }
  return true;
}

CpuKernel *sort_make(CpuMaker *maker, const HlInst *inst) {
  if (inst->op != HL_OP_SORT || !fits(inst))
    return NULL;
  SortKernel *s = HL_NEW(maker->arena, SortKernel);
  s->n = (int)inst->n_operands;
  HlDtype *dtype = HL_ARRAY(maker->arena, HlDtype, s->n);
  s->size = 8;
  for (int k = 0; k < s->n; k++) {
    dtype[k] = inst->operands[k]->shape->dtype;
    s->size = hl_dtype_bytes(dtype[k]) > 8 ? 16 : s->size;
  }
  s->dtype = dtype;
  if (!set_order(s, maker, hl_to_apply(inst)))
    return NULL;
  set_rows(s, maker->arena, inst);
  int bits = 0;
  for (int k = 0; k < s->n_placed; k++) {
    s->size = s->placed[k].size > s->size ? s->placed[k].size : s->size;
    bits += (s->placed[k].size > 8 ? 64 : 32) - s->placed[k].low % 32;
  }
  s->size = s->whole.size > s->size ? s->whole.size : s->size;
  s->kernel = (CpuKernel){.kind = &cpu_kind_sort,
                          .n_buffers = 2 * s->n,
                          .seconds = (double)(s->rows.n * s->length) *
                                     (s->n_placed ? 3e-9 + 0.15e-9 * bits : 400e-9)};
  return &s->kernel;
}
