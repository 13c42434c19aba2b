// The tree of an MLIR program: making, changing, copying and reading ops, regions, blocks and values.
#include "mlir/tree/tree.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// --- The tree ---------------------------------------------------------------------------------------

HlMlTree *hl_ml_new(HlSource *source) {
  HlArena *arena = hl_arena_new();
  HlMlTree *tree = HL_NEW(arena, HlMlTree);
  tree->arena = arena;
  tree->syms = hl_syms_new(arena);
  tree->source = hl_source_ref(source);
  MlTables *tables = HL_NEW(arena, MlTables);
  tables->types.arena = arena;
  tree->types = tables;
  tree->module = ml_op(tree, NULL, ML_BUILTIN_MODULE, 0, NULL, 0, NULL, 1);
  hl_ml_block(tree, &tree->module->regions[0]);
  return tree;
}

void hl_ml_free(HlMlTree *tree) {
  if (!tree)
    return;
  hl_source_unref(tree->source);
  hl_arena_free(tree->arena);
}

const HlSym *hl_ml_sym(HlMlTree *tree, const char *text) {
  return hl_syms_add(tree->syms, text, strlen(text));
}

// --- Ops --------------------------------------------------------------------------------------------

static MlMeaning *meaning_of(HlMlTree *tree, const HlSym *name) {
  MlTables *tables = ml_tables(tree);
  if (name->index >= tables->n_meanings) {
    uint32_t n = 2 * name->index + 64;
    MlMeaning *meaning = HL_ARRAY(tree->arena, MlMeaning, n);
    if (tables->n_meanings)
      memcpy(meaning, tables->meaning, tables->n_meanings * sizeof *meaning);
    tables->meaning = meaning;
    tables->n_meanings = n;
  }
  return &tables->meaning[name->index];
}

static MlMeaning find_row(HlMlTree *tree, const HlSym *name) {
  MlMeaning *found = meaning_of(tree, name);
  if (!found->is_op_known) {
    HlMlDialect dialect;
    found->row = (uint16_t)ml_find_row((HlStr){name->text, name->n}, &dialect);
    found->dialect = (uint8_t)dialect;
    found->is_op_known = true;
  }
  return *found;
}

MlName ml_meant_name(HlMlTree *tree, const HlSym *name) {
  MlMeaning *found = meaning_of(tree, name);
  if (found->name == ML_A_NONE)
    found->name = (uint16_t)ml_find_name((HlStr){name->text, name->n});
  return (MlName)found->name;
}

const HlSym *ml_name(HlMlTree *tree, MlName name) {
  const HlSym **sym = &ml_tables(tree)->name[name];
  return *sym ? *sym : (*sym = hl_ml_sym(tree, ml_name_text[name]));
}

static size_t round_up(size_t n) {
  return (n + 15) & ~(size_t)15;
}

HlMlOp *ml_new_op(HlMlTree *tree, uint32_t n_operands, uint32_t n_results, uint32_t n_regions,
                  uint32_t n_successors) {
  size_t results_at = round_up(sizeof(HlMlOp));
  size_t regions_at = results_at + round_up(n_results * sizeof(HlMlValue));
  size_t operands_at = regions_at + round_up(n_regions * sizeof(HlMlRegion));
  size_t successors_at = operands_at + n_operands * sizeof(HlMlValue *);
  char *memory = hl_arena_alloc(tree->arena, successors_at + n_successors * sizeof(HlMlBlock *));
  HlMlOp *op = (HlMlOp *)(void *)memory;
  op->n_operands = n_operands;
  op->n_results = n_results;
  op->n_regions = n_regions;
  op->n_successors = n_successors;
  op->results = (HlMlValue *)(void *)(memory + results_at);
  op->regions = (HlMlRegion *)(void *)(memory + regions_at);
  op->operands = (HlMlValue **)(void *)(memory + operands_at);
  op->successors = (HlMlBlock **)(void *)(memory + successors_at);
  for (uint32_t k = 0; k < n_results; k++)
    op->results[k] = (HlMlValue){.def = op, .number = (int)k, .index = tree->n_values++};
  for (uint32_t k = 0; k < n_regions; k++)
    op->regions[k].op = op;
  return op;
}

static const HlSym *name_of_row(HlMlTree *tree, HlMlRow row, HlMlDialect dialect) {
  const char *name = ml_row(row)->name, prefix[] = "stablehlo.";
  if (dialect != HL_ML_MHLO || strncmp(name, prefix, strlen(prefix)) != 0)
    return hl_ml_sym(tree, name);
  char in_mhlo[96];
  snprintf(in_mhlo, sizeof in_mhlo, "mhlo.%s", name + strlen(prefix));
  return hl_ml_sym(tree, in_mhlo);
}

static void set_name(HlMlTree *tree, HlMlOp *op, const HlSym *name) {
  MlMeaning row = find_row(tree, name);
  op->name = name;
  op->row = row.row;
  op->dialect = row.dialect;
}

void ml_rename(HlMlTree *tree, HlMlOp *op, HlMlRow row, HlMlDialect dialect) {
  set_name(tree, op, name_of_row(tree, row, dialect));
}

static HlMlOp *named_op(HlMlTree *tree, HlMlBlock *block, const HlSym *name, int n_operands,
                        HlMlValue *const *operands, int n_results,
                        const HlMlType *const *result_types, int n_regions) {
  HlMlOp *op = ml_new_op(tree, (uint32_t)n_operands, (uint32_t)n_results, (uint32_t)n_regions, 0);
  set_name(tree, op, name);
  if (n_operands && operands)
    memcpy(op->operands, operands, (size_t)n_operands * sizeof *operands);
  for (int k = 0; result_types && k < n_results; k++)
    op->results[k].type = result_types[k];
  if (block)
    hl_ml_append(block, op);
  return op;
}

HlMlOp *hl_ml_op(HlMlTree *tree, HlMlBlock *block, const char *name, int n_operands,
                 HlMlValue *const *operands, int n_results, const HlMlType *const *result_types,
                 int n_regions) {
  return named_op(tree, block, hl_ml_sym(tree, name), n_operands, operands, n_results, result_types,
                  n_regions);
}

HlMlOp *ml_op(HlMlTree *tree, HlMlBlock *block, HlMlRow row, int n_operands,
              HlMlValue *const *operands, int n_results, const HlMlType *const *types,
              int n_regions) {
  return named_op(tree, block, name_of_row(tree, row, HL_ML_STABLEHLO), n_operands, operands,
                  n_results, types, n_regions);
}

HlMlOp *ml_op_like(HlMlTree *tree, HlMlBlock *block, const HlMlOp *op, int n_operands,
                   HlMlValue *const *operands, int n_results, const HlMlType *const *types,
                   int n_regions) {
  const HlSym *name = hl_syms_add(tree->syms, op->name->text, op->name->n);
  return named_op(tree, block, name, n_operands, operands, n_results, types, n_regions);
}

void ml_append_block(HlMlRegion *region, HlMlBlock *block) {
  block->region = region;
  block->number = region->last ? region->last->number + 1 : 0;
  if (region->last)
    region->last->next = block;
  else
    region->first = block;
  region->last = block;
}

HlMlBlock *hl_ml_block(HlMlTree *tree, HlMlRegion *region) {
  HlMlBlock *block = HL_NEW(tree->arena, HlMlBlock);
  ml_append_block(region, block);
  return block;
}

// Room for arguments doubles: it is full when their number is a power of two.
HlMlValue *hl_ml_arg(HlMlTree *tree, HlMlBlock *block, const HlMlType *type) {
  int n = block->n_args;
  if ((n & (n - 1)) == 0) {
    HlMlValue **args = HL_ARRAY(tree->arena, HlMlValue *, n ? 2 * n : 1);
    if (n)
      memcpy(args, block->args, (size_t)n * sizeof *args);
    block->args = args;
  }
  HlMlValue *value = HL_NEW(tree->arena, HlMlValue);
  *value = (HlMlValue){.type = type, .block = block, .number = n, .index = tree->n_values++};
  block->args[block->n_args++] = value;
  return value;
}

// --- Attributes of an op ------------------------------------------------------------------------------

int ml_compare_syms(const HlSym *a, const HlSym *b) {
  if (a == b)
    return 0;
  int order = memcmp(a->text, b->text, a->n < b->n ? a->n : b->n);
  return order ? order : a->n < b->n ? -1 : a->n > b->n;
}

// Where an attribute stands, or would. They come sorted mostly, so the last is tried first.
static uint32_t find_place(const HlMlOp *op, const HlSym *name, bool *found) {
  uint32_t low = 0, high = op->n_attrs;
  int order = high ? ml_compare_syms(op->attrs[high - 1].name, name) : -1;
  *found = order == 0;
  if (order <= 0)
    return order == 0 ? high - 1 : high;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    order = ml_compare_syms(op->attrs[middle].name, name);
    if (order == 0) {
      *found = true;
      return middle;
    }
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static HlMlNamed *room_for_attr(HlMlTree *tree, HlMlOp *op) {
  if (op->n_attrs >= op->attr_room) {
    uint32_t room = op->n_attrs < 2 ? 2 : 2 * op->n_attrs;
    HlMlNamed *attrs = HL_ARRAY(tree->arena, HlMlNamed, room);
    if (op->n_attrs)
      memcpy(attrs, op->attrs, op->n_attrs * sizeof *attrs);
    op->attrs = attrs;
    op->attr_room = room;
  }
  return (HlMlNamed *)op->attrs;
}

// A new name of a symbol makes the table of symbols stale.
static void note_set(HlMlTree *tree, MlName name) {
  if (name == ML_A_SYM_NAME)
    ml_tables(tree)->has_symbols = false;
}

static void remove_attr(HlMlOp *op, uint32_t at) {
  HlMlNamed *attrs = (HlMlNamed *)op->attrs;
  memmove(attrs + at, attrs + at + 1, (op->n_attrs - at - 1) * sizeof *attrs);
  op->n_attrs--;
}

static void set_attr(HlMlTree *tree, HlMlOp *op, const HlSym *sym, MlName name,
                     const HlMlAttr *value) {
  note_set(tree, name);
  bool found;
  uint32_t at = find_place(op, sym, &found);
  if (!value && !found)
    return;
  if (op->attr_room == 0 || !found)
    room_for_attr(tree, op);
  HlMlNamed *attrs = (HlMlNamed *)op->attrs;
  if (!value) {
    remove_attr(op, at);
    return;
  }
  if (!found) {
    memmove(attrs + at + 1, attrs + at, (op->n_attrs - at) * sizeof *attrs);
    attrs[at] = (HlMlNamed){.name = sym, .id = (uint16_t)name};
    op->n_attrs++;
  }
  attrs[at].value = value;
}

void hl_ml_set(HlMlTree *tree, HlMlOp *op, const char *name, const HlMlAttr *value) {
  const HlSym *sym = hl_ml_sym(tree, name);
  set_attr(tree, op, sym, ml_meant_name(tree, sym), value);
}

void ml_set_attr(HlMlTree *tree, HlMlOp *op, MlName name, const HlMlAttr *value) {
  set_attr(tree, op, ml_name(tree, name), name, value);
}

static int compare_named(const void *a, const void *b) {
  return ml_compare_syms(((const HlMlNamed *)a)->name, ((const HlMlNamed *)b)->name);
}

static bool is_sorted(int n, const HlMlNamed *named) {
  for (int k = 1; k < n; k++)
    if (ml_compare_syms(named[k - 1].name, named[k].name) >= 0)
      return false;
  return true;
}

// Sorts by insertion where there are few, which keeps the order of equal names.
static void sort_named(HlMlTree *tree, int n, HlMlNamed *named) {
  if (n > 32) {
    HlMlNamed *from = HL_ARRAY(tree->arena, HlMlNamed, n), *to = named, *at = from;
    memcpy(from, named, (size_t)n * sizeof *from);
    for (int width = 1; width < n; width *= 2) {
      for (int low = 0; low < n; low += 2 * width) {
        int middle = low + width < n ? low + width : n,
            high = middle + width < n ? middle + width : n;
        for (int k = low, a = low, b = middle; k < high; k++)
          to[k] =
              a < middle && (b >= high || compare_named(&at[a], &at[b]) <= 0) ? at[a++] : at[b++];
      }
      HlMlNamed *swap = at;
      at = to;
      to = swap;
    }
    if (at != named)
      memcpy(named, at, (size_t)n * sizeof *named);
    return;
  }
  for (int k = 1; k < n; k++)
    for (int at = k; at > 0 && compare_named(&named[at - 1], &named[at]) > 0; at--) {
      HlMlNamed swap = named[at];
      named[at] = named[at - 1];
      named[at - 1] = swap;
    }
}

HlMlNamed *ml_sort_named(HlMlTree *tree, int n, const HlMlNamed *named, int *n_left) {
  HlMlNamed *sorted = hl_arena_copy(tree->arena, named, (size_t)n * sizeof *named);
  *n_left = n;
  for (int k = 0; k < n; k++)
    if (sorted[k].id == ML_A_NONE)
      sorted[k].id = (uint16_t)ml_meant_name(tree, sorted[k].name);
  if (is_sorted(n, named))
    return sorted;
  sort_named(tree, n, sorted);
  int to = 0;
  for (int k = 0; k < n; k++) {
    if (to && sorted[to - 1].name == sorted[k].name)
      to--;
    sorted[to++] = sorted[k];
  }
  *n_left = to;
  return sorted;
}

void hl_ml_set_all(HlMlTree *tree, HlMlOp *op, int n, const HlMlNamed *named) {
  int left;
  for (uint32_t k = 0; k < op->n_attrs; k++)
    note_set(tree, (MlName)op->attrs[k].id);
  op->attrs = ml_sort_named(tree, n, named, &left);
  op->n_attrs = (uint32_t)left;
  op->attr_room = (uint32_t)n;
  for (uint32_t k = 0; k < op->n_attrs; k++)
    note_set(tree, (MlName)op->attrs[k].id);
}

const HlMlAttr *hl_ml_attr(const HlMlOp *op, const char *name) {
  size_t n = strlen(name);
  for (uint32_t k = 0; k < op->n_attrs; k++)
    if (op->attrs[k].name->n == n && memcmp(op->attrs[k].name->text, name, n) == 0)
      return op->attrs[k].value;
  return NULL;
}

const HlMlAttr *ml_attr(const HlMlOp *op, MlName name) {
  for (uint32_t k = 0; k < op->n_attrs; k++)
    if (op->attrs[k].id == name)
      return op->attrs[k].value;
  return NULL;
}

static int64_t int_of(const HlMlAttr *attr, int64_t absent) {
  if (!attr)
    return absent;
  switch ((HlMlAttrKind)attr->kind) {
  case HL_ML_A_UNIT: return 1;
  case HL_ML_A_BOOL:
  case HL_ML_A_INT:
  case HL_ML_A_ENUM: return attr->i;
  default: return absent;
  }
}

int64_t hl_ml_attr_int(const HlMlOp *op, const char *name, int64_t absent) {
  return int_of(hl_ml_attr(op, name), absent);
}

int64_t ml_attr_int(const HlMlOp *op, MlName name, int64_t absent) {
  return int_of(ml_attr(op, name), absent);
}

int64_t ml_field_int(const HlMlAttr *of, MlName name, int64_t absent) {
  return int_of(ml_field(of, name), absent);
}

static const HlSym *sym_of(const HlMlAttr *attr) {
  if (!attr ||
      (attr->kind != HL_ML_A_STRING && attr->kind != HL_ML_A_SYMBOL && attr->kind != HL_ML_A_ENUM))
    return NULL;
  return attr->sym;
}

const HlSym *hl_ml_attr_sym(const HlMlOp *op, const char *name) {
  return sym_of(hl_ml_attr(op, name));
}

const HlSym *ml_attr_sym(const HlMlOp *op, MlName name) {
  return sym_of(ml_attr(op, name));
}

HlI64s ml_field_ints(HlArena *arena, const HlMlAttr *of, MlName name) {
  return hl_ml_ints(arena, ml_field(of, name));
}

HlI64s ml_attr_ints(HlArena *arena, const HlMlOp *op, MlName name) {
  return hl_ml_ints(arena, ml_attr(op, name));
}

// --- Placing ------------------------------------------------------------------------------------------

void hl_ml_append(HlMlBlock *block, HlMlOp *op) {
  assert(!op->block);
  block->changes++;
  op->block = block;
  op->prev = block->last;
  op->next = NULL;
  if (block->last)
    block->last->next = op;
  else
    block->first = op;
  block->last = op;
}

void hl_ml_place_before(HlMlOp *op, HlMlOp *at) {
  assert(!op->block && at->block);
  HlMlBlock *block = at->block;
  block->changes++;
  op->block = block;
  op->next = at;
  op->prev = at->prev;
  if (at->prev)
    at->prev->next = op;
  else
    block->first = op;
  at->prev = op;
}

HlMlOp *ml_op_before(HlMlTree *tree, HlMlOp *at, HlMlRow row, int n_operands,
                     HlMlValue *const *operands, int n_results, const HlMlType *const *types,
                     int n_regions) {
  HlMlOp *op = ml_op(tree, NULL, row, n_operands, operands, n_results, types, n_regions);
  op->location = at->location;
  op->loc = at->loc;
  hl_ml_place_before(op, at);
  return op;
}

void hl_ml_unlink(HlMlOp *op) {
  HlMlBlock *block = op->block;
  if (!block)
    return;
  block->changes++;
  if (op->prev)
    op->prev->next = op->next;
  else
    block->first = op->next;
  if (op->next)
    op->next->prev = op->prev;
  else
    block->last = op->prev;
  op->block = NULL;
  op->prev = op->next = NULL;
}

void hl_ml_replace(HlMlRegion *in, HlMlValue *from, HlMlValue *by) {
  for (const HlMlBlock *block = in->first; block; block = block->next)
    for (HlMlOp *top = block->first; top; top = top->next)
      for (HlMlOp *op = top; op; op = hl_ml_next(op, top))
        for (uint32_t k = 0; k < op->n_operands; k++)
          if (op->operands[k] == from)
            op->operands[k] = by;
}

// --- Copying -------------------------------------------------------------------------------------------

typedef struct Copier {
  HlMlTree *tree;
  HlMlValue **map;
  uint32_t n_map;
} Copier;

static void note_copy(const Copier *c, const HlMlValue *from, HlMlValue *to) {
  to->name = from->name;
  to->location = from->location;
  if (from->index < c->n_map)
    c->map[from->index] = to;
}

static HlMlValue *copy_of(const Copier *c, HlMlValue *value) {
  return value->index < c->n_map && c->map[value->index] ? c->map[value->index] : value;
}

// The op without its operands and without what is in its regions.
static HlMlOp *copy_shell(const Copier *c, HlMlBlock *block, const HlMlOp *op) {
  HlMlTree *tree = c->tree;
  HlMlOp *copy = ml_op_like(tree, block, op, (int)op->n_operands, op->operands, (int)op->n_results,
                            NULL, (int)op->n_regions);
  copy->loc = op->loc;
  copy->location = op->location;
  copy->attrs = hl_arena_copy(tree->arena, op->attrs, op->n_attrs * sizeof *op->attrs);
  copy->n_attrs = copy->attr_room = op->n_attrs;
  copy->n_successors = op->n_successors;
  copy->successors =
      hl_arena_copy(tree->arena, op->successors, op->n_successors * sizeof *op->successors);
  for (uint32_t k = 0; k < op->n_results; k++) {
    copy->results[k].type = op->results[k].type;
    note_copy(c, &op->results[k], &copy->results[k]);
  }
  return copy;
}

static void copy_blocks(const Copier *c, HlMlRegion *to, const HlMlRegion *from) {
  for (const HlMlBlock *block = from->first; block; block = block->next) {
    HlMlBlock *copy = hl_ml_block(c->tree, to);
    copy->label = block->label;
    for (int k = 0; k < block->n_args; k++)
      note_copy(c, block->args[k], hl_ml_arg(c->tree, copy, block->args[k]->type));
  }
}

// Copied ops jump to the copied blocks, found by number.
static void redirect(const Copier *c, const HlMlRegion *region) {
  int n = region->last->number + 1;
  HlMlBlock **by_number = HL_ARRAY(c->tree->arena, HlMlBlock *, n);
  for (HlMlBlock *block = region->first; block; block = block->next)
    by_number[block->number] = block;
  for (HlMlBlock *block = region->first; block; block = block->next)
    for (HlMlOp *op = block->first; op; op = op->next)
      for (uint32_t k = 0; k < op->n_successors; k++)
        op->successors[k] = by_number[op->successors[k]->number];
}

static void copy_regions(const Copier *c, HlMlOp *copy, const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_regions; k++) {
    const HlMlRegion *from = &op->regions[k];
    HlMlRegion *to = &copy->regions[k];
    copy_blocks(c, to, from);
    HlMlBlock *into = to->first;
    bool jumps = false;
    for (const HlMlBlock *block = from->first; block; block = block->next, into = into->next)
      for (const HlMlOp *inner = block->first; inner; inner = inner->next) {
        copy_regions(c, copy_shell(c, into, inner), inner);
        jumps |= inner->n_successors > 0;
      }
    if (jumps)
      redirect(c, to);
  }
}

static void map_operands(const Copier *c, HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_operands; k++)
    op->operands[k] = copy_of(c, op->operands[k]);
}

HlMlOp *hl_ml_copy_op(HlMlTree *tree, HlMlBlock *block, const HlMlOp *op, HlMlValue **map,
                      uint32_t n_map) {
  Copier c = {tree, map, n_map};
  HlMlOp *copy = copy_shell(&c, block, op);
  copy_regions(&c, copy, op);
  for (HlMlOp *at = copy; at; at = hl_ml_next(at, copy))
    map_operands(&c, at);
  return copy;
}

// --- Reading -------------------------------------------------------------------------------------------

static void build_symbols(const HlMlTree *tree, const HlMlBlock *body) {
  MlTables *tables = ml_tables(tree);
  uint32_t n = hl_syms_count(tree->syms);
  if (n > tables->n_symbols)
    tables->symbol = HL_ARRAY(tree->arena, HlMlOp *, n);
  else if (tables->n_symbols)
    memset(tables->symbol, 0, tables->n_symbols * sizeof *tables->symbol);
  if (n > tables->n_symbols)
    tables->n_symbols = n;
  for (HlMlOp *op = body->first; op; op = op->next) {
    const HlSym *name = ml_attr_sym(op, ML_A_SYM_NAME);
    if (name && name->index < n && !tables->symbol[name->index])
      tables->symbol[name->index] = op;
  }
  tables->changes = body->changes;
  tables->has_symbols = true;
}

const HlSym *hl_ml_symbol_name(const HlMlOp *op) {
  return ml_attr_sym(op, ML_A_SYM_NAME);
}

HlMlOp *hl_ml_find_symbol(const HlMlTree *tree, const HlSym *name) {
  const HlMlBlock *body = hl_ml_body(tree->module, 0);
  MlTables *tables = ml_tables(tree);
  if (!body || !name)
    return NULL;
  if (!tables->has_symbols || tables->changes != body->changes)
    build_symbols(tree, body);
  return name->index < tables->n_symbols ? tables->symbol[name->index] : NULL;
}

HlMlBlock *hl_ml_body(const HlMlOp *op, int region) {
  return (uint32_t)region < op->n_regions ? op->regions[region].first : NULL;
}

HlPos hl_ml_pos(const HlMlTree *tree, const HlMlOp *op) {
  return (HlPos){tree->source, op ? op->loc : 0};
}

bool hl_ml_is(const HlMlOp *op, const char *name) {
  return strcmp(op->name->text, name) == 0;
}

bool hl_ml_is_function(const HlMlOp *op) {
  return op->row == ML_FUNC_FUNC;
}

bool hl_ml_error(HlCx *cx, const HlMlTree *tree, const HlMlOp *op, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hl_verror(cx, HL_INVALID, hl_ml_pos(tree, op), format, args);
  va_end(args);
  return false;
}
