// Reads MLIR text: the struct attributes of sdy (mlir.md 6.1).
#include "mlir/text/parse.h"

#include <string.h>

static void push_field(MpParser *p, MlName name, const HlMlAttr *value) {
  mp_push_named(p, ml_name(p->tree, name), value, false);
}

typedef const HlMlAttr *ItemFn(MpParser *p);

// Items between brackets, separated by commas.
static const HlMlAttr *list(MpParser *p, char open, char close, ItemFn *item) {
  const int base = p->ptrs.n;
  if (!ml_lex_need(&p->in, open))
    return NULL;
  while (!ml_lex_eat(&p->in, close)) {
    if (p->ptrs.n > base && !ml_lex_need(&p->in, ','))
      return NULL;
    const HlMlAttr *value = item(p);
    if (!value)
      return NULL;
    mp_push(p, &p->ptrs, value);
  }
  return mp_array(p, base);
}

// --- Axes and meshes -----------------------------------------------------------------------------------------

// (2)4
static const HlMlAttr *sub_axis(MpParser *p) {
  const int base = p->nameds.n;
  int64_t before, size;
  if (!ml_lex_need(&p->in, '(') || !ml_lex_int(&p->in, &before) || !ml_lex_need(&p->in, ')') ||
      !ml_lex_int(&p->in, &size))
    return NULL;
  push_field(p, ML_A_PRE_SIZE, hl_ml_i64(p->tree, before));
  push_field(p, ML_A_SIZE, hl_ml_i64(p->tree, size));
  return mp_make_struct(p, ML_D_SUB_AXIS, HL_ML_SDY, base);
}

// "x" or "x":(2)4
static const HlMlAttr *axis(MpParser *p) {
  const int base = p->nameds.n;
  const HlMlAttr *name = mp_string(p), *part;
  if (!name)
    return NULL;
  push_field(p, ML_A_NAME, name);
  if (ml_lex_eat(&p->in, ':')) {
    if (!(part = sub_axis(p)))
      return NULL;
    push_field(p, ML_A_SUB_AXIS_INFO, part);
  }
  return mp_make_struct(p, ML_D_AXIS, HL_ML_SDY, base);
}

static const HlMlAttr *axes(MpParser *p) {
  return list(p, '{', '}', axis);
}

// "x"=2
static const HlMlAttr *mesh_axis(MpParser *p) {
  const int base = p->nameds.n;
  const HlMlAttr *name = mp_string(p);
  int64_t size;
  if (!name || !ml_lex_need(&p->in, '=') || !ml_lex_int(&p->in, &size))
    return NULL;
  push_field(p, ML_A_NAME, name);
  push_field(p, ML_A_SIZE, hl_ml_i64(p->tree, size));
  return mp_make_struct(p, ML_D_MESH_AXIS, HL_ML_SDY, base);
}

static bool push_int_field(MpParser *p, MlName name) {
  int n;
  if (!mp_int_list(p, &n))
    return false;
  if (n == 0)
    return ml_lex_expected(&p->in, "a list that is not empty");
  p->ints.n -= n;
  push_field(p, name, hl_ml_dense_i64s(p->tree, (HlI64s){p->ints.at + p->ints.n, n}));
  return true;
}

// <["x"=2], device_ids=[0, 1]>
static const HlMlAttr *mesh(MpParser *p) {
  const int base = p->nameds.n;
  const HlMlAttr *all;
  if (!ml_lex_need(&p->in, '<') || !(all = list(p, '[', ']', mesh_axis)))
    return NULL;
  push_field(p, ML_A_AXES, all);
  if (ml_lex_eat(&p->in, ',') && (!ml_lex_need_word(&p->in, "device_ids") ||
                                  !ml_lex_need(&p->in, '=') || !push_int_field(p, ML_A_DEVICE_IDS)))
    return NULL;
  return ml_lex_need(&p->in, '>') ? mp_make_struct(p, ML_D_MESH, HL_ML_SDY, base) : NULL;
}

// --- Shardings -----------------------------------------------------------------------------------------------

// {"x", ?}p1
static const HlMlAttr *dimension(MpParser *p) {
  const int base = p->nameds.n, first = p->ptrs.n;
  bool is_closed = true;
  if (!ml_lex_need(&p->in, '{'))
    return NULL;
  while (!ml_lex_eat(&p->in, '}')) {
    if (!is_closed || (p->ptrs.n > first && !ml_lex_need(&p->in, ',')))
      return is_closed || ml_lex_expected(&p->in, "'}'") ? NULL : NULL;
    if (ml_lex_eat(&p->in, '?')) {
      is_closed = false;
      continue;
    }
    const HlMlAttr *item = axis(p);
    if (!item)
      return NULL;
    mp_push(p, &p->ptrs, item);
  }
  push_field(p, ML_A_AXES, mp_array(p, first));
  push_field(p, ML_A_IS_CLOSED, hl_ml_bool(p->tree, is_closed));
  if (*p->in.at == 'p' && ml_lex_is(p->in.at[1], ML_DIGIT)) {
    int64_t priority;
    p->in.at++;
    if (!ml_lex_int(&p->in, &priority))
      return NULL;
    push_field(p, ML_A_PRIORITY, hl_ml_i64(p->tree, priority));
  }
  return mp_make_struct(p, ML_D_DIM, HL_ML_SDY, base);
}

// replicated={..}, unreduced=max{..}
static bool sharding_axes(MpParser *p) {
  const char *at = p->in.at;
  const bool replicated = ml_lex_eat_word(&p->in, "replicated");
  if (!replicated && !ml_lex_eat_word(&p->in, "unreduced"))
    return ml_lex_expected(&p->in, "'replicated' or 'unreduced'");
  if (!ml_lex_need(&p->in, '='))
    return false;
  const int op = replicated                       ? 0
                 : ml_lex_eat_word(&p->in, "sum") ? 0
                 : ml_lex_eat_word(&p->in, "max") ? 1
                 : ml_lex_eat_word(&p->in, "min") ? 2
                                                  : 0;
  const HlMlAttr *all = axes(p);
  if (!all)
    return false;
  if (all->n == 0)
    return mp_error(p, at, "empty lists of axes are left out");
  push_field(p, replicated ? ML_A_REPLICATED_AXES : ML_A_UNREDUCED_AXES, all);
  if (op)
    push_field(p, ML_A_UNREDUCED_OP, hl_ml_i64(p->tree, op));
  return true;
}

// <@mesh, [{"x"}, {?}], replicated={"y"}>
static const HlMlAttr *sharding(MpParser *p) {
  const int base = p->nameds.n;
  const char *begin = p->in.at;
  const HlMlAttr *which, *dims;
  if (!ml_lex_need(&p->in, '<') ||
      !(which = ml_lex_eat_word(&p->in, "mesh") ? mesh(p) : mp_symbol(p)) ||
      !ml_lex_need(&p->in, ',') || !(dims = list(p, '[', ']', dimension)))
    return NULL;
  push_field(p, ML_A_MESH_OR_REF, which);
  push_field(p, ML_A_DIM_SHARDINGS, dims);
  while (ml_lex_eat(&p->in, ','))
    if (!sharding_axes(p))
      return NULL;
  if (!ml_lex_need(&p->in, '>') || !mp_check_twice(p, begin, base))
    return NULL;
  return mp_make_struct(p, ML_D_SHARDING, HL_ML_SDY, base);
}

static const HlMlAttr *wrap(MpParser *p, MlAttrDef def, MlName field, const HlMlAttr *value) {
  const int base = p->nameds.n;
  if (!value)
    return NULL;
  push_field(p, field, value);
  return mp_make_struct(p, def, HL_ML_SDY, base);
}

// [<..>, <..>], in <> or without
static const HlMlAttr *per_value(MpParser *p) {
  const bool is_bracketed = ml_lex_eat(&p->in, '<');
  const HlMlAttr *all = list(p, '[', ']', sharding);
  if (!all || (is_bracketed && !ml_lex_need(&p->in, '>')))
    return NULL;
  return wrap(p, ML_D_PER_VALUE, ML_A_SHARDINGS, all);
}

// --- Rules ---------------------------------------------------------------------------------------------------

enum { LETTERS = 'z' - 'i' + 1 };

// i..z, z_1, z_2, ...: pushed as a number.
static bool factor(MpParser *p) {
  const char *s = p->in.at;
  if (*s < 'i' || *s > 'z')
    return ml_lex_expected(&p->in, "a factor");
  int64_t number = *s - 'i';
  s++;
  if (s[-1] == 'z' && s[0] == '_' && ml_lex_is(s[1], ML_DIGIT)) {
    int64_t more = 0;
    for (s++; ml_lex_is(*s, ML_DIGIT) && more < INT32_MAX; s++)
      more = more * 10 + (*s - '0');
    number = LETTERS - 1 + more;
  }
  mp_push_int(p, number);
  ml_lex_move(&p->in, s);
  return true;
}

static HlI64s take_ints(MpParser *p, int base) {
  HlI64s ints = {p->ints.at + base, p->ints.n - base};
  p->ints.n = base;
  return ints;
}

// ij
static const HlMlAttr *dim_mapping(MpParser *p) {
  const int base = p->ints.n, first = p->nameds.n;
  do {
    if (!factor(p))
      return NULL;
  } while (*p->in.at >= 'i' && *p->in.at <= 'z');
  push_field(p, ML_A_FACTOR_INDICES, hl_ml_dense_i64s(p->tree, take_ints(p, base)));
  return mp_make_struct(p, ML_D_DIM_MAPPING, HL_ML_SDY, first);
}

static const HlMlAttr *tensor_mapping(MpParser *p) {
  return wrap(p, ML_D_TENSOR_MAPPING, ML_A_DIM_MAPPINGS, list(p, '[', ']', dim_mapping));
}

// {i=8, j=16}: sizes in order of the factors.
static bool factor_sizes(MpParser *p) {
  const int base = p->ints.n;
  if (!ml_lex_eat(&p->in, '{')) {  // none are left out
    push_field(p, ML_A_FACTOR_SIZES, hl_ml_dense_i64s(p->tree, (HlI64s){0}));
    return true;
  }
  while (!ml_lex_eat(&p->in, '}')) {
    int64_t size;
    if (p->ints.n > base && !ml_lex_need(&p->in, ','))
      return false;
    const char *at = p->in.at;
    if (!factor(p) || !ml_lex_need(&p->in, '=') || !ml_lex_int(&p->in, &size))
      return false;
    if (p->ints.at[p->ints.n - 1] != p->ints.n - 1 - base)
      return mp_error(p, at, "expected the factors in order");
    p->ints.at[p->ints.n - 1] = size;
    if (p->ints.n - base > INT32_MAX / 2)
      return mp_error(p, at, "too many factors");
    // The number's place now holds its size; the next must be one more.
  }
  push_field(p, ML_A_FACTOR_SIZES, hl_ml_dense_i64s(p->tree, take_ints(p, base)));
  return true;
}

// {i, j}
static bool factor_list(MpParser *p, MlName field) {
  const int base = p->ints.n;
  if (!ml_lex_need(&p->in, '=') || !ml_lex_need(&p->in, '{'))
    return false;
  while (!ml_lex_eat(&p->in, '}'))
    if ((p->ints.n > base && !ml_lex_need(&p->in, ',')) || !factor(p))
      return false;
  push_field(p, field, hl_ml_dense_i64s(p->tree, take_ints(p, base)));
  return true;
}

static bool factor_lists(MpParser *p) {
  static const char *const words[] = {"reduction", "need_replication", "permutation",
                                      "blocked_propagation"};
  static const MlName names[] = {ML_A_REDUCTION_FACTORS, ML_A_NEED_REPLICATION_FACTORS,
                                 ML_A_PERMUTATION_FACTORS, ML_A_BLOCKED_PROPAGATION_FACTORS};
  for (int k = 0; k < HL_COUNT_OF(words); k++)
    if (ml_lex_eat_word(&p->in, words[k]) && !factor_list(p, names[k]))
      return false;
  return true;
}

// <([i, k],[k, j])->([i, j]) {i=8, j=16, k=8} reduction={k}, custom>
static const HlMlAttr *rule(MpParser *p) {
  const int base = p->nameds.n;
  const HlMlAttr *operands, *results;
  if (!ml_lex_need(&p->in, '<') || !(operands = list(p, '(', ')', tensor_mapping)) ||
      !ml_lex_need_arrow(&p->in) || !(results = list(p, '(', ')', tensor_mapping)))
    return NULL;
  push_field(p, ML_A_OPERAND_MAPPINGS, operands);
  push_field(p, ML_A_RESULT_MAPPINGS, results);
  if (!factor_sizes(p) || !factor_lists(p))
    return NULL;
  const bool is_custom = ml_lex_eat(&p->in, ',');
  if ((is_custom && !ml_lex_need_word(&p->in, "custom")) || !ml_lex_need(&p->in, '>'))
    return NULL;
  push_field(p, ML_A_IS_CUSTOM, hl_ml_bool(p->tree, is_custom));
  return mp_make_struct(p, ML_D_RULE, HL_ML_SDY, base);
}

// --- Collectives ---------------------------------------------------------------------------------------------

// {"b"}: 0->2
static const HlMlAttr *all_to_all_param(MpParser *p) {
  const int base = p->nameds.n;
  const HlMlAttr *all = axes(p);
  int64_t from, to;
  if (!all || !ml_lex_need(&p->in, ':') || !ml_lex_int(&p->in, &from) ||
      !ml_lex_need_arrow(&p->in) || !ml_lex_int(&p->in, &to))
    return NULL;
  push_field(p, ML_A_AXES, all);
  push_field(p, ML_A_SRC_DIM, hl_ml_i64(p->tree, from));
  push_field(p, ML_A_TGT_DIM, hl_ml_i64(p->tree, to));
  return mp_make_struct(p, ML_D_ALL_TO_ALL_PARAM, HL_ML_SDY, base);
}

static const HlMlAttr *axis_list(MpParser *p) {
  return wrap(p, ML_D_AXIS_LIST, ML_A_VALUE, axes(p));
}

static const HlMlAttr *manual_axes(MpParser *p) {
  return wrap(p, ML_D_MANUAL_AXES, ML_A_AXES, list(p, '{', '}', mp_string));
}

static const HlMlAttr *axis_lists(MpParser *p) {
  return wrap(p, ML_D_AXIS_LISTS, ML_A_VALUE, list(p, '[', ']', axis_list));
}

static const HlMlAttr *all_to_all_params(MpParser *p) {
  return wrap(p, ML_D_ALL_TO_ALL_PARAMS, ML_A_VALUE, list(p, '[', ']', all_to_all_param));
}

const HlMlAttr *mp_sdy_body(MpParser *p, MlAttrDef def) {
  static const struct {
    MlAttrDef def;
    ItemFn *read;
    bool has_brackets;  // <> are part of its syntax
  } known[] = {{ML_D_MESH, mesh, true},
               {ML_D_SHARDING, sharding, true},
               {ML_D_PER_VALUE, per_value, true},
               {ML_D_RULE, rule, true},
               {ML_D_MANUAL_AXES, manual_axes, false},
               {ML_D_MESH_AXIS, mesh_axis, false},
               {ML_D_SUB_AXIS, sub_axis, false},
               {ML_D_AXIS, axis, false},
               {ML_D_DIM, dimension, false},
               {ML_D_DIM_MAPPING, dim_mapping, false},
               {ML_D_TENSOR_MAPPING, tensor_mapping, false},
               {ML_D_AXIS_LIST, axis_list, false},
               {ML_D_AXIS_LISTS, axis_lists, false},
               {ML_D_ALL_TO_ALL_PARAM, all_to_all_param, false},
               {ML_D_ALL_TO_ALL_PARAMS, all_to_all_params, false}};
  for (int k = 0; k < HL_COUNT_OF(known); k++) {
    if (known[k].def != def)
      continue;
    const bool is_bracketed = !known[k].has_brackets && ml_lex_eat(&p->in, '<');
    const HlMlAttr *attr = known[k].read(p);
    return attr && (!is_bracketed || ml_lex_need(&p->in, '>')) ? attr : NULL;
  }
  mp_error(p, p->in.at, "unknown sdy attribute '%s'", ml_def_text[def]);
  return NULL;
}
