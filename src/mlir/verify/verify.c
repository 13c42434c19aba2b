// Verifies MLIR trees: every rule of the dialects on every op; what may be used where; symbols.
#include "mlir/verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool mv_bad(MlVerify *v, const HlMlOp *op, const char *format, ...) {
  va_list args;
  HlBuf text = {0};
  va_start(args, format);
  hl_buf_vprintf(&text, format, args);
  va_end(args);
  hl_ml_error(v->cx, v->tree, op, "'%s': %s", op->name->text, text.at);
  hl_buf_free(&text);
  return false;
}

// --- Lists of operands, results and regions -----------------------------------------------------

bool mv_groups(const char *names, int n, HlI64s segments, int size[ML_GROUPS], int *n_groups) {
  int n_any = 0, n_fixed = 0;
  bool any[ML_GROUPS];
  *n_groups = 0;
  for (const char *at = names; *at;) {
    const size_t length = strcspn(at, " ");
    any[*n_groups] = at[length - 1] == '*';
    n_any += any[*n_groups];
    n_fixed += !any[*n_groups];
    (*n_groups)++;
    at += length + (at[length] == ' ');
  }
  if (segments.n > 0 && segments.n != *n_groups)
    return false;
  if (segments.n > 0 && n_any > 0) {
    int64_t sum = 0;
    for (int k = 0; k < *n_groups; k++) {
      if (segments.at[k] < 0 || segments.at[k] > n || (!any[k] && segments.at[k] != 1))
        return false;
      size[k] = (int)segments.at[k];
      sum += size[k];
    }
    return sum == n;
  }
  if (n < n_fixed || (n_any == 0 && n != n_fixed) || (n_any > 0 && (n - n_fixed) % n_any != 0))
    return false;
  for (int k = 0; k < *n_groups; k++)
    size[k] = any[k] ? (n - n_fixed) / n_any : 1;
  return true;
}

HlI64s mv_segments(MlVerify *v, const HlMlOp *op, bool is_operand) {
  if (op->n_attrs == 0)
    return (HlI64s){0};
  return mv_attr_ints(v, op, is_operand ? ML_A_OPERAND_SEGMENT_SIZES : ML_A_RESULT_SEGMENT_SIZES);
}

MlRange mv_operands(MlVerify *v, const HlMlOp *op, int group) {
  int size[ML_GROUPS], n_groups;
  MlRange range = {0};
  if (!mv_groups(ml_row_of(op)->operands, (int)op->n_operands, mv_segments(v, op, true), size,
                 &n_groups) ||
      group >= n_groups)
    return range;
  for (int k = 0; k < group; k++)
    range.first += size[k];
  range.n = size[group];
  return range;
}

static bool check_n_regions(MlVerify *v, const HlMlOp *op) {
  const char *names = ml_row_of(op)->regions;
  int size[ML_GROUPS], n_groups;
  if (op->n_regions == 0 && *names == 0)
    return true;
  if (mv_groups(names, (int)op->n_regions, (HlI64s){0}, size, &n_groups))
    return true;
  return mv_bad(v, op, "has %u regions, which do not fit (%s)", (unsigned)op->n_regions, names);
}

// --- Regions ------------------------------------------------------------------------------------

static bool is_terminator(const HlMlOp *op) {
  return op->row == ML_NONE || (mv_rules(op->row)->traits & ML_TERMINATOR) != 0;
}

static bool check_end(MlVerify *v, const HlMlOp *op, int region, const HlMlBlock *block,
                      unsigned traits) {
  const HlMlOp *last = block->last;
  const HlMlRow wanted = (traits & ML_ENDS_WITH_SDY) != 0 ? ML_SDY_RETURN : ML_STABLEHLO_RETURN;
  if (last == NULL)
    return mv_bad(v, op, "a block of region %d is empty: it needs at least a terminator", region);
  if ((traits & ML_ANY_RETURN) != 0 ? !is_terminator(last) : last->row != wanted)
    return mv_bad(v, op, "region %d should end with %s, but ends with '%s'", region,
                  (traits & ML_ANY_RETURN) != 0 ? "a terminator" : ml_row(wanted)->name,
                  last->name->text);
  return true;
}

static bool check_region(MlVerify *v, const HlMlOp *op, int region, unsigned traits) {
  const HlMlBlock *first = op->regions[region].first;
  if ((traits & ML_ANY_REGION) == 0) {
    if (first == NULL)
      return mv_bad(v, op, "region %d is empty, but should have a block", region);
    if (first->next != NULL)
      return mv_bad(v, op, "region %d has several blocks, but should have one", region);
  }
  if ((traits & ML_GRAPH_REGION) != 0)
    return true;
  for (const HlMlBlock *block = first; block; block = block->next)
    if (!check_end(v, op, region, block, traits))
      return false;
  return true;
}

// --- One op -------------------------------------------------------------------------------------

static bool check_uses(MlVerify *v, const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_operands; k++) {
    const HlMlValue *value = op->operands[k];
    const uint32_t seen = v->visible[value->index];
    if (seen == v->isolation || v->is_unreachable)
      continue;
    return mv_bad(v, op,
                  seen != 0 ? "operand %u is defined outside the region"
                            : "operand %u does not dominate its use",
                  k);
  }
  return true;
}

static bool check_results(MlVerify *v, const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_results; k++)
    if (!mv_type_is_well_formed(v, op, op->results[k].type))
      return false;
  return true;
}

static bool check_place(MlVerify *v, const HlMlOp *op, unsigned traits) {
  if ((traits & ML_TERMINATOR) != 0 && op->next != NULL)
    return mv_bad(v, op, "must be the last op of its block");
  if (op->n_successors > 0 && op->next != NULL)
    return mv_bad(v, op, "has successors, so it must be the last op of its block");
  return true;
}

// Whether MHLO's tuples stand where the rules expect tensors.
static bool has_tuple(const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (op->operands[k]->type->kind == HL_ML_TUPLE)
      return true;
  for (uint32_t k = 0; k < op->n_results; k++)
    if (op->results[k].type->kind == HL_ML_TUPLE)
      return true;
  return false;
}

// Dialects of which every op has a row.
static bool is_closed(uint8_t dialect) {
  return dialect == HL_ML_STABLEHLO || dialect == HL_ML_CHLO || dialect == HL_ML_SDY ||
         dialect == HL_ML_CHECK || dialect == HL_ML_INTERPRETER || dialect == HL_ML_FUNC ||
         dialect == HL_ML_BUILTIN;
}

static bool unknown_op(MlVerify *v, const HlMlOp *op) {
  const char *names[ML_ROW_COUNT];
  int n = 0;
  for (int row = ML_NONE + 1; row < ML_ROW_COUNT; row++)
    names[n++] = ml_row(row)->name;
  mv_bad(v, op, "the dialect '%s' has no such op", ml_dialect_name(op->dialect));
  const char *nearest = hl_nearest((HlStr){op->name->text, op->name->n}, names, n);
  if (nearest)
    hl_hint(v->cx, "did you mean '%s'?", nearest);
  return false;
}

static HlStr dialect_of(const HlMlOp *op) {
  const char *dot = memchr(op->name->text, '.', op->name->n);
  return (HlStr){op->name->text, dot ? (size_t)(dot - op->name->text) : op->name->n};
}

// What has no rules is carried as it is, which is said once for each dialect; of mhlo, which we know, for each op.
static void say_unchecked(MlVerify *v, const HlMlOp *op) {
  const bool is_known = op->dialect == HL_ML_MHLO;
  const HlStr what = is_known ? (HlStr){op->name->text, op->name->n} : dialect_of(op);
  const uint64_t key = hl_hash_bytes(what.at, what.n, 0);
  MapWalk walk = map_walk(&v->unchecked, key);
  for (const HlMlOp *said; (said = map_next_ptr(&walk));)
    if (is_known ? said->name == op->name
                 : hl_str_equal(dialect_of(said), what) && said->dialect != HL_ML_MHLO)
      return;
  map_add(&v->unchecked, key, map_key(op));
  if (is_known)
    hl_warn(v->cx, hl_ml_pos(v->tree, op), "'%s' is not an op that Hilo knows: not checked",
            op->name->text);
  else
    hl_warn(v->cx, hl_ml_pos(v->tree, op),
            "'%s' and whatever else is of the dialect '%.*s' is not checked: Hilo has no rules "
            "for it",
            op->name->text, (int)what.n, what.at);
}

static void count_elided(MlVerify *v, const HlMlOp *op) {
  const HlMlAttr *value = op->row == ML_STABLEHLO_CONSTANT ? ml_attr(op, ML_A_VALUE) : NULL;
  if (value && ml_is_elided(value) && v->n_elided++ == 0)
    v->elided = op;
}

static bool check_op(MlVerify *v, const HlMlOp *op) {
  const MlRules *rules = mv_rules(op->row);
  if (!check_uses(v, op) || !check_results(v, op) || !check_place(v, op, rules->traits))
    return false;
  if (op->row == ML_NONE && is_closed(op->dialect))
    return unknown_op(v, op);
  if (op->row == ML_NONE || op->dialect == HL_ML_VHLO || op->dialect == HL_ML_QUANT_DIALECT) {
    say_unchecked(v, op);
    return true;
  }
  if (!check_n_regions(v, op) || !mv_check_attrs(v, op) || !mv_check_carried_sharding(v, op) ||
      !mv_check_carried_rule(v, op))
    return false;
  for (int k = 0; k < (int)op->n_regions; k++)
    if (!check_region(v, op, k, rules->traits))
      return false;
  count_elided(v, op);
  if (!mv_check_types(v, op, rules))
    return false;
  if (op->dialect == HL_ML_MHLO && has_tuple(op))
    return true;
  return mv_check_traits(v, op, rules->traits) && (rules->rule == NULL || rules->rule(v, op));
}

// --- Symbols ------------------------------------------------------------------------------------

const HlMlOp *mv_symbol(const MlVerify *v, const HlSym *name) {
  const HlMlOp *op = name->index < v->n_symbols ? v->symbols[name->index] : NULL;
  return op && op->block->region->op == v->table ? op : NULL;
}

static const HlSym *symbol_of(const HlMlOp *op) {
  const HlMlAttr *name = ml_attr(op, ML_A_SYM_NAME);
  return name && name->kind == HL_ML_A_STRING ? name->sym : NULL;
}

// Enters the symbols of a module. *before takes, in their order, what the names meant until now.
static bool add_symbols(MlVerify *v, const HlMlOp *module, const HlMlOp ***before) {
  bool ok = true;
  int n = 0, at = 0;
  for (const HlMlBlock *block = module->regions[0].first; block; block = block->next)
    for (const HlMlOp *op = block->first; op; op = op->next)
      n += symbol_of(op) != NULL;
  *before = HL_ARRAY(v->arena, const HlMlOp *, n + 1);
  for (const HlMlBlock *block = module->regions[0].first; block; block = block->next)
    for (const HlMlOp *op = block->first; op; op = op->next) {
      const HlSym *name = symbol_of(op);
      if (name == NULL || name->index >= v->n_symbols)
        continue;
      const HlMlOp *earlier = v->symbols[name->index];
      (*before)[at++] = earlier;
      if (earlier && earlier->block->region->op == module) {
        ok = mv_bad(v, op, "the symbol '%s' is defined twice", name->text);
        hl_note(v->cx, hl_ml_pos(v->tree, earlier), "it is defined here first");
        continue;
      }
      v->symbols[name->index] = op;
    }
  return ok;
}

// Gives the names their meaning in the module around; of two of the same name the first holds it.
static void remove_symbols(MlVerify *v, const HlMlOp *module, const HlMlOp *const *before) {
  int at = 0;
  for (const HlMlBlock *block = module->regions[0].first; block; block = block->next)
    for (const HlMlOp *op = block->first; op; op = op->next) {
      const HlSym *name = symbol_of(op);
      if (name == NULL || name->index >= v->n_symbols)
        continue;
      if (before[at] == NULL || before[at]->block->region->op != module)
        v->symbols[name->index] = before[at];
      at++;
    }
}

// --- The tree -----------------------------------------------------------------------------------

static bool verify_op(MlVerify *v, const HlMlOp *op);

static void show_values(MlVerify *v, const HlMlOp *op, uint32_t as) {
  for (uint32_t k = 0; k < op->n_results; k++)
    v->visible[op->results[k].index] = as;
}

static void hide_block(MlVerify *v, const HlMlBlock *block) {
  for (int k = 0; k < block->n_args; k++)
    v->visible[block->args[k]->index] = 0;
  for (const HlMlOp *op = block->first; op; op = op->next)
    show_values(v, op, 0);
}

static bool verify_block(MlVerify *v, const HlMlBlock *block, bool is_graph) {
  const HlMlOp *parent = block->region->op;
  bool ok = true;
  for (int k = 0; k < block->n_args; k++) {
    v->visible[block->args[k]->index] = v->isolation;
    if (parent->row != ML_FUNC_FUNC)
      ok &= mv_type_is_well_formed(v, parent, block->args[k]->type);
  }
  for (const HlMlOp *op = block->first; op && is_graph; op = op->next)
    show_values(v, op, v->isolation);
  for (const HlMlOp *op = block->first; op; op = op->next) {
    ok &= verify_op(v, op);
    show_values(v, op, v->isolation);
  }
  return ok;
}

// Several blocks: each sees the values of those that dominate it.
static bool verify_blocks(MlVerify *v, const HlMlRegion *region) {
  HlArena *arena = hl_arena_new();
  int n, depth = 0;
  const MlDominance *blocks = mv_dominance(arena, region, &n);
  const HlMlBlock **open = HL_ARRAY(arena, const HlMlBlock *, n + 1);
  const bool was_unreachable = v->is_unreachable;
  bool ok = true;
  for (int k = 0; k < n; k++) {
    while (depth > blocks[k].depth)
      hide_block(v, open[--depth]);
    v->is_unreachable = was_unreachable || !blocks[k].is_reachable;
    ok &= verify_block(v, blocks[k].block, false);
    open[depth++] = blocks[k].block;
  }
  while (depth > 0)
    hide_block(v, open[--depth]);
  v->is_unreachable = was_unreachable;
  hl_arena_free(arena);
  return ok;
}

static bool verify_regions(MlVerify *v, const HlMlOp *op) {
  const unsigned traits = mv_rules(op->row)->traits;
  const uint32_t outer = v->isolation;
  const HlMlOp *outer_table = v->table, **before = NULL;
  const HlMark mark = hl_arena_mark(v->arena);
  bool ok = true;
  if (v->depth > hl_cx_limits(v->cx)->nesting)
    return hl_error_kind(v->cx, HL_LIMIT, hl_ml_pos(v->tree, op),
                         "ops are nested deeper than %d (limit nesting)",
                         hl_cx_limits(v->cx)->nesting);
  if (op->row == ML_BUILTIN_MODULE && op->n_regions == 1) {
    v->table = op;
    ok &= add_symbols(v, op, &before);
  }
  if ((traits & ML_ISOLATED) != 0)
    v->isolation = ++v->n_isolations;
  v->depth++;
  for (int k = 0; k < (int)op->n_regions; k++) {
    const HlMlRegion *region = &op->regions[k];
    if (region->first && region->first->next) {
      ok &= verify_blocks(v, region);
    } else if (region->first) {
      ok &= verify_block(v, region->first, (traits & ML_GRAPH_REGION) != 0);
      hide_block(v, region->first);
    }
  }
  v->depth--;
  v->isolation = outer;
  v->table = outer_table;
  if (before)
    remove_symbols(v, op, before);
  hl_arena_release(v->arena, mark);
  return ok;
}

static bool verify_op(MlVerify *v, const HlMlOp *op) {
  const HlMark mark = hl_arena_mark(v->arena);
  HlArena *scratch = hl_cx_scratch(v->cx);
  const HlMark scratch_mark = hl_arena_mark(scratch);
  bool ok = check_op(v, op);
  hl_arena_release(scratch, scratch_mark);
  hl_arena_release(v->arena, mark);
  if (op->n_regions > 0)
    ok &= verify_regions(v, op);
  return ok;
}

bool hl_ml_verify(HlCx *cx, const HlMlTree *tree) {
  HlArena *tables = hl_arena_new();
  MlVerify v = {
      .cx = cx, .tree = tree, .arena = hl_arena_new(), .n_symbols = hl_syms_count(tree->syms)};
  v.symbols = HL_ARRAY(tables, const HlMlOp *, v.n_symbols + 1);
  v.visible = HL_ARRAY(tables, uint32_t, tree->n_values + 1);
  v.isolation = v.n_isolations = 1;
  v.unchecked.arena = tables;
  const bool ok = verify_op(&v, tree->module);
  if (v.n_elided > 0)
    hl_warn(cx, hl_ml_pos(tree, v.elided),
            "%d constant%s without data, left out when this was printed%s", v.n_elided,
            v.n_elided == 1 ? " is" : "s are", v.n_elided == 1 ? "" : "; this is the first");
  hl_arena_free(v.arena);
  hl_arena_free(tables);
  return ok;
}
