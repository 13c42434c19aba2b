// Writes portable artifacts: ops, regions and blocks.
//
// Every value has a number for ops of VHLO. Results and arguments of ops of other dialects (sdy) have one more for
// ops of such dialects, whose types are builtin's; casts lead from one to the other. Numbers are given in the order in
// which the file defines values: number_region and put_region must agree.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ir/put.h"
#include "mlir/bytecode/write.h"

static bool is_vhlo_op(MlwWriter *w, const HlMlOp *op) {
  return (op->dialect == HL_ML_STABLEHLO || op->dialect == HL_ML_FUNC) && mlw_row(w, op)->is_vhlo;
}

// What an op sees and makes: its operands, results and its regions' arguments are of this form.
static MlwForm form_of(MlwWriter *w, const HlMlOp *op) {
  return is_vhlo_op(w, op) ? MLW_VHLO : MLW_NATIVE;
}

static MlwForm value_form(MlwWriter *w, const HlMlValue *value) {
  return form_of(w, value->def ? value->def : value->block->region->op);
}

// --- What is isolated ----------------------------------------------------------------------------

static const HlMlRegion *region_of(const HlMlValue *value) {
  return value->def ? value->def->block->region : value->block->region;
}

// Notes every op between a use and the region that defines the value.
static void note_use(MlwWriter *w, const HlMlOp *user, const HlMlValue *value) {
  const HlMlRegion *home = region_of(value);
  for (const HlMlRegion *at = user->block->region; at != home; at = at->op->block->region) {
    mlw_see(&w->captures, at->op, 1);
    if (!at->op->block) {
      w->op = user;
      mlw_fail(w, "%s uses a value that is not defined around it", user->name->text);
      return;
    }
  }
}

static void note_uses(MlwWriter *w, const HlMlRegion *region) {
  for (const HlMlBlock *block = region->first; block; block = block->next)
    for (const HlMlOp *op = block->first; op && !w->failed; op = op->next) {
      for (uint32_t k = 0; k < op->n_operands; k++)
        if (region_of(op->operands[k]) != region)
          note_use(w, op, op->operands[k]);
      for (uint32_t k = 0; k < op->n_regions; k++)
        note_uses(w, &op->regions[k]);
    }
}

static bool is_isolated(const MlwWriter *w, const HlMlOp *op) {
  uint32_t index;
  return !mlw_seen(&w->captures, op, &index);
}

// --- Numbers -------------------------------------------------------------------------------------

static void number_value(MlwWriter *w, const HlMlValue *value, MlwForm form, uint32_t *next) {
  w->number[form][value->index] = (*next)++;
}

// Gives the values of a region their numbers from *next on, those of casts in between.
static void number_region(MlwWriter *w, const HlMlRegion *region, uint32_t *next) {
  MlwForm outer = form_of(w, region->op);
  for (const HlMlBlock *block = region->first; block; block = block->next) {
    for (int k = 0; k < block->n_args; k++)
      number_value(w, block->args[k], outer, next);
    for (int k = 0; k < block->n_args && outer == MLW_NATIVE; k++)
      number_value(w, block->args[k], MLW_VHLO, next);
    for (const HlMlOp *op = block->first; op; op = op->next) {
      MlwForm form = form_of(w, op);
      for (uint32_t k = 0; k < op->n_operands && form == MLW_NATIVE; k++)
        *next += value_form(w, op->operands[k]) == MLW_VHLO;
      for (uint32_t k = 0; k < op->n_results; k++)
        number_value(w, &op->results[k], form, next);
      for (uint32_t k = 0; k < op->n_results && form == MLW_NATIVE; k++)
        number_value(w, &op->results[k], MLW_VHLO, next);
    }
  }
}

// --- Ops -----------------------------------------------------------------------------------------

static bool put_regions(MlwWriter *w, const HlMlOp *op, uint32_t total, HlBuf *out);

static void put_cast(MlwWriter *w, const HlMlValue *value, uint32_t from, MlwForm to, HlBuf *out) {
  mlw_varint(out, mlw_op_name(w, "builtin", "unrealized_conversion_cast"));
  put_char(out, MLB_HAS_RESULTS | MLB_HAS_OPERANDS);
  mlw_varint(out, mlw_location(w, value->def ? value->def->location : value->location));
  mlw_varint(out, 1);
  mlw_varint(out, mlw_type(w, value->type, to));
  mlw_varint(out, 1);
  mlw_varint(out, from);
  w->next++;
}

typedef struct MlwPair {
  HlStr name;
  uint32_t value;
} MlwPair;

static int compare_pairs(const void *a, const void *b) {
  HlStr x = ((const MlwPair *)a)->name, y = ((const MlwPair *)b)->name;
  int order = x.n && y.n ? memcmp(x.at, y.at, x.n < y.n ? x.n : y.n) : 0;
  return order ? order : x.n < y.n ? -1 : x.n > y.n;
}

// Before version 5 all attributes stand in one dictionary.
static uint32_t whole_dict(MlwWriter *w, const MlwAttrs *attrs, MlwForm form) {
  int n = 0;
  MlwPair *pair = HL_ARRAY(w->arena, MlwPair, attrs->n + attrs->n_rest);
  for (int k = 0; k < attrs->n; k++)
    if (!attrs->is_absent[k])
      pair[n++] = (MlwPair){hl_str(ml_name_text[attrs->name[k]]), attrs->value[k]};
  for (int k = 0; k < attrs->n_rest; k++) {
    const HlSym *name = attrs->rest[k].name;
    pair[n++] = (MlwPair){{name->text, name->n}, mlw_attr(w, attrs->rest[k].value, form)};
  }
  qsort(pair, (size_t)n, sizeof *pair, compare_pairs);
  size_t from = mlw_begin(w, MLB_DICT);
  mlw_varint(&w->stack, (uint64_t)n);
  for (int k = 0; k < n; k++) {
    size_t name_at = mlw_begin(w, MLB_STRING_ATTR);
    mlw_varint(&w->stack, mlw_string(w, pair[k].name.at, pair[k].name.n));
    uint32_t name = mlw_end(w, name_at, &w->attrs, "builtin");
    mlw_varint(&w->stack, name);
    mlw_varint(&w->stack, pair[k].value);
  }
  return mlw_end(w, from, &w->attrs, "builtin");
}

static uint32_t put_properties(MlwWriter *w, const MlwAttrs *attrs) {
  size_t from = w->stack.n;
  for (int k = 0; k < attrs->n; k++) {
    if (!attrs->is_optional[k])
      mlw_varint(&w->stack, attrs->value[k]);
    else
      mlw_varint(&w->stack, attrs->is_absent[k] ? 0 : (uint64_t)attrs->value[k] << 1 | 1);
  }
  uint32_t index = mlw_add(&w->properties, 0, true, w->stack.at + from, w->stack.n - from);
  w->stack.n = from;
  return index;
}

static uint32_t op_number(MlwWriter *w, const HlMlOp *op, const VhloOp *vhlo) {
  MlwRow *row = mlw_row(w, op);
  if (!row->has_number && vhlo) {
    HlBuf text = {0};
    hl_buf_printf(&text, "%s_v%d", vhlo->name, vhlo->version);
    row->number = mlw_op_name(w, "vhlo", text.at);
    hl_buf_free(&text);
  } else if (!row->has_number) {
    const char *dot = strchr(op->name->text, '.');
    row->number = mlw_op_name(w, ml_dialect_name(op->dialect), dot ? dot + 1 : op->name->text);
  }
  row->has_number = true;
  return row->number;
}

// Finds how the target says an op: as one of VHLO (*vhlo), or as it is.
static bool find_form(MlwWriter *w, const HlMlOp *op, const VhloOp **vhlo) {
  *vhlo = NULL;
  if (is_vhlo_op(w, op)) {
    *vhlo = mlw_row(w, op)->vhlo;
    if (*vhlo)
      return true;
    return mlw_needs(w, vhlo_oldest(op->row), "%s", op->name->text);
  }
  if (op->row == ML_BUILTIN_MODULE)
    return true;
  if (op->row == ML_NONE ||
      (op->dialect != HL_ML_SDY && op->row != ML_BUILTIN_UNREALIZED_CONVERSION_CAST))
    return mlw_fail(w, "%s has no form in VHLO", op->name->text);
  return w->vhlo >= vhlo_version(1, 11) || mlw_needs(w, vhlo_version(1, 11), "%s", op->name->text);
}

static void put_attrs(MlwWriter *w, const MlwAttrs *attrs, MlwForm form, uint8_t *mask,
                      HlBuf *out) {
  bool has_dict = attrs->n_rest > 0 || (w->version < 5 && attrs->n > 0);
  uint32_t dict = 0;
  if (has_dict)
    dict =
        w->version < 5 ? whole_dict(w, attrs, form) : mlw_dict(w, attrs->n_rest, attrs->rest, form);
  if (has_dict) {
    *mask |= MLB_HAS_ATTRS;
    mlw_varint(out, dict);
  }
  if (w->version >= 5 && attrs->n > 0) {
    *mask |= MLB_HAS_PROPERTIES;
    mlw_varint(out, put_properties(w, attrs));
  }
}

static void put_results(MlwWriter *w, const HlMlOp *op, MlwForm form, uint8_t *mask, HlBuf *out) {
  if (op->n_results == 0)
    return;
  *mask |= MLB_HAS_RESULTS;
  mlw_varint(out, op->n_results);
  for (uint32_t k = 0; k < op->n_results; k++)
    mlw_varint(out, mlw_type(w, op->results[k].type, form));
}

// Whether an op of the form takes the operand by a cast in front of it.
static bool takes_cast(MlwWriter *w, const HlMlValue *operand, MlwForm form) {
  return form == MLW_NATIVE && value_form(w, operand) == MLW_VHLO;
}

// `cast` is the number of the first cast.
static void put_operands(MlwWriter *w, const HlMlOp *op, MlwForm form, uint32_t cast, uint8_t *mask,
                         HlBuf *out) {
  if (op->n_operands == 0)
    return;
  *mask |= MLB_HAS_OPERANDS;
  mlw_varint(out, op->n_operands);
  for (uint32_t k = 0; k < op->n_operands; k++) {
    const HlMlValue *operand = op->operands[k];
    mlw_varint(out, takes_cast(w, operand, form) ? cast++ : w->number[form][operand->index]);
  }
}

static void put_successors(const HlMlOp *op, uint8_t *mask, HlBuf *out) {
  if (op->n_successors == 0)
    return;
  *mask |= MLB_HAS_SUCCESSORS;
  mlw_varint(out, op->n_successors);
  for (uint32_t k = 0; k < op->n_successors; k++)
    mlw_varint(out, (uint64_t)op->successors[k]->number);
}

static bool put_op(MlwWriter *w, const HlMlOp *op, uint32_t total, HlBuf *out) {
  const VhloOp *vhlo;
  MlwAttrs attrs = {0};
  w->op = op;
  if (!find_form(w, op, &vhlo))
    return false;
  MlwForm form = vhlo ? MLW_VHLO : MLW_NATIVE;
  if (!(vhlo ? mlw_vhlo_attrs(w, op, mlw_row(w, op), &attrs) : mlw_native_attrs(w, op, &attrs)))
    return false;
  const uint32_t first_cast = w->next;
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (takes_cast(w, op->operands[k], form))
      put_cast(w, op->operands[k], w->number[MLW_VHLO][op->operands[k]->index], MLW_NATIVE, out);
  mlw_varint(out, op_number(w, op, vhlo));
  size_t mask_at = out->n;
  uint8_t mask = 0;
  put_char(out, 0);
  mlw_varint(out, mlw_location(w, op->location));
  put_attrs(w, &attrs, form, &mask, out);
  put_results(w, op, form, &mask, out);
  put_operands(w, op, form, first_cast, &mask, out);
  put_successors(op, &mask, out);
  if (op->n_regions)
    mask |= MLB_HAS_REGIONS;
  out->at[mask_at] = (char)mask;
  w->next += op->n_results;
  if (op->n_regions && !put_regions(w, op, total, out))
    return false;
  w->op = op;
  for (uint32_t k = 0; k < op->n_results && form == MLW_NATIVE; k++)
    put_cast(w, &op->results[k], w->number[MLW_NATIVE][op->results[k].index], MLW_VHLO, out);
  return !w->failed;
}

// --- Regions -------------------------------------------------------------------------------------

static void put_args(MlwWriter *w, const HlMlBlock *block, MlwForm form, HlBuf *out) {
  mlw_varint(out, (uint64_t)block->n_args);
  for (int k = 0; k < block->n_args; k++) {
    const HlMlValue *arg = block->args[k];
    uint64_t type = mlw_type(w, arg->type, form);
    if (w->version >= 4)
      type = type << 1 | (arg->location != NULL);
    mlw_varint(out, type);
    if (w->version < 4 || arg->location)
      mlw_varint(out, mlw_location(w, arg->location));
    w->next++;
  }
  if (w->version >= 3)
    put_char(out, 0);
}

static bool put_block(MlwWriter *w, const HlMlBlock *block, MlwForm form, uint32_t total,
                      HlBuf *out) {
  uint64_t n = 0;
  bool casts = form == MLW_NATIVE && block->n_args;
  for (const HlMlOp *op = block->first; op; op = op->next) {
    n++;
    if (form_of(w, op) != MLW_NATIVE)
      continue;
    n += op->n_results;
    for (uint32_t k = 0; k < op->n_operands; k++)
      n += value_form(w, op->operands[k]) == MLW_VHLO;
  }
  if (casts)
    n += (uint64_t)block->n_args;
  mlw_varint(out, n << 1 | (block->n_args > 0));
  if (block->n_args)
    put_args(w, block, form, out);
  for (int k = 0; k < block->n_args && casts; k++)
    put_cast(w, block->args[k], w->number[MLW_NATIVE][block->args[k]->index], MLW_VHLO, out);
  for (const HlMlOp *op = block->first; op; op = op->next)
    if (!put_op(w, op, total, out))
      return false;
  return !w->failed;
}

// `base` is what its first value is called; `total` in put_op is the number after its last.
static bool put_region(MlwWriter *w, const HlMlRegion *region, uint32_t base, HlBuf *out) {
  uint64_t n_blocks = 0;
  for (const HlMlBlock *block = region->first; block; block = block->next)
    n_blocks++;
  mlw_varint(out, n_blocks);
  if (n_blocks == 0)
    return true;
  uint32_t total = base, outer = w->next;
  number_region(w, region, &total);
  mlw_varint(out, total - base);
  w->next = base;
  for (const HlMlBlock *block = region->first; block; block = block->next)
    if (!put_block(w, block, form_of(w, region->op), total, out))
      return false;
  assert(w->next == total);
  w->next = outer;
  return true;
}

static bool put_all(MlwWriter *w, const HlMlOp *op, uint32_t base, HlBuf *out) {
  for (uint32_t k = 0; k < op->n_regions; k++)
    if (!put_region(w, &op->regions[k], base, out))
      return false;
  return true;
}

static bool put_regions(MlwWriter *w, const HlMlOp *op, uint32_t total, HlBuf *out) {
  bool isolated = is_isolated(w, op);
  mlw_varint(out, (uint64_t)op->n_regions << 1 | isolated);
  if (++w->depth > hl_cx_limits(w->cx)->nesting)
    return mlw_fail(w, "regions nested deeper than %d levels", hl_cx_limits(w->cx)->nesting);
  bool done;
  if (isolated && w->version >= 2) {
    HlBuf own = {0};
    done = put_all(w, op, 0, &own);
    put_char(out, MLB_IR);
    mlw_varint(out, own.n);
    put(out, own.n ? own.at : "", own.n);
    hl_buf_free(&own);
  } else {
    done = put_all(w, op, isolated ? 0 : total, out);
  }
  w->depth--;
  return done;
}

bool mlw_code(MlwWriter *w, HlBuf *out) {
  const HlMlOp *module = w->tree->module;
  for (int form = 0; form < MLW_FORM_COUNT; form++) {
    w->number[form] = HL_ARRAY(w->arena, uint32_t, w->tree->n_values);
    memset(w->number[form], 0xff, w->tree->n_values * sizeof(uint32_t));
  }
  for (uint32_t k = 0; k < module->n_regions; k++)
    note_uses(w, &module->regions[k]);
  mlw_varint(out, 1 << 1);
  return !w->failed && put_op(w, module, 0, out);
}
