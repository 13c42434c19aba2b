// Reads MLIR text: ops in their generic form, and what all forms share.
//
// op      = [ %name [ ":" count ] { "," ... } "=" ] ( generic | pretty ) [ loc(..) ]
// generic = "name" ( operands ) [ successors ] [ < dict > ] [ ( regions ) ] [ dict ] : ( types ) -> types
#include "mlir/text/parse.h"

#include <string.h>

// --- Names of ops ------------------------------------------------------------------------------------------

// Ops that had other names, and those that func's and builtin's regions let one write without prefix.
static const struct {
  const char *old, *now;
} renamed[] = {
    {"module", "builtin.module"},
    {"func", "func.func"},
    {"builtin.func", "func.func"},
    {"return", "func.return"},
    {"std.return", "func.return"},
    {"call", "func.call"},
    {"std.call", "func.call"},
    {"constant", "arith.constant"},
    {"std.constant", "arith.constant"},
    {"unrealized_conversion_cast", "builtin.unrealized_conversion_cast"},
};

static const HlSym *name_of_today(MpParser *p, const HlSym *name) {
  for (int k = 0; k < HL_COUNT_OF(renamed); k++)
    if (strcmp(name->text, renamed[k].old) == 0)
      return mp_sym(p, renamed[k].now, strlen(renamed[k].now));
  return name;
}

void mp_name_op(MpParser *p, MpState *s, HlStr name) {
  const HlSym *sym = mp_sym(p, name.at, name.n);
  p->names = mp_grow_table(p, p->names, &p->n_names, sym->index, sizeof *p->names);
  MpName *known = &p->names[sym->index];
  if (!known->is_known) {
    HlMlDialect dialect;
    known->now = name_of_today(p, sym);
    known->row = (uint16_t)ml_find_row((HlStr){known->now->text, known->now->n}, &dialect);
    known->dialect = (uint8_t)dialect;
    known->is_known = true;
  }
  s->name = known->now;
  s->row_number = known->row;
  s->dialect = known->dialect;
  s->row = ml_row(known->row);
}

bool mp_is_isolated(const MpState *s) {
  return s->row_number == ML_FUNC_FUNC || s->row_number == ML_BUILTIN_MODULE ||
         s->row_number == ML_SDY_MANUAL_COMPUTATION ||
         (s->row_number == ML_NONE && strcmp(s->name->text, "vhlo.func_v1") == 0);
}

// --- From a state to an op ---------------------------------------------------------------------------------

// No attribute stands twice. A stamp per symbol finds it in one walk.
bool mp_check_twice(MpParser *p, const char *at, int from) {
  const uint32_t stamp = ++p->last_stamp;
  for (int k = from; k < p->nameds.n; k++) {
    const HlSym *name = p->nameds.at[k].name;
    p->stamps = mp_grow_table(p, p->stamps, &p->n_stamps, name->index, sizeof *p->stamps);
    if (p->stamps[name->index] == stamp)
      return mp_error(p, at, "attribute '%s' occurs more than once in the attribute list",
                      name->text);
    p->stamps[name->index] = stamp;
  }
  return true;
}

static bool normalise(MpParser *p, MpState *s) {
  for (int k = s->nameds; k < p->nameds.n; k++) {
    HlMlNamed *named = &p->nameds.at[k];
    const uint8_t kind = named->value->kind;
    if (kind != HL_ML_A_STRING && kind != HL_ML_A_DICT && kind != HL_ML_A_ARRAY &&
        kind != HL_ML_A_STRUCT && kind != HL_ML_A_INT)
      continue;
    const MlAttrRow *row = ml_find_attr(s->row, (MlName)named->id);
    if (!row)
      continue;
    const HlMlAttr *value = mp_normal(p, s->at, row, s->dialect, named->value);
    if (!value)
      return false;
    p->nameds.at[k].value = value;
  }
  return true;
}

static bool set_attrs(MpParser *p, MpState *s, HlMlOp *op) {
  const int n = p->nameds.n - s->nameds;
  if (n == 0)
    return true;
  if (n > 1 && !mp_check_twice(p, s->at, s->nameds))
    return false;
  if (s->row_number != ML_NONE && !normalise(p, s))
    return false;
  hl_ml_set_all(p->tree, op, n, p->nameds.at + s->nameds);
  p->nameds.n = s->nameds;
  return true;
}

static bool set_operands(MpParser *p, MpState *s, HlMlOp *op) {
  const MpUse *uses = p->uses.at + s->uses;
  const HlMlType *const *types = (const HlMlType *const *)p->types.at + s->types;
  for (int k = 0; k < s->n_operands; k++)
    if (!mp_resolve(p, &uses[k], types[k], &op->operands[k]))
      return false;
  p->uses.n = s->uses;
  return true;
}

static void set_regions(MpState *s, HlMlOp *op) {
  for (int k = 0; k < s->n_regions; k++) {
    HlMlRegion *region = &op->regions[k];
    *region = s->regions[k];
    region->op = op;
    for (HlMlBlock *block = region->first; block; block = block->next)
      block->region = region;
  }
}

static bool define_results(MpParser *p, HlMlOp *op, int n_binds, const MpBind *binds) {
  if (n_binds == 0)
    return true;
  uint32_t n = 0;
  for (int k = 0; k < n_binds; k++)
    n = ml_add_size(n, binds[k].count);
  if (op->n_results == 0)
    return mp_error(p, binds->at, "cannot name an operation with no results");
  if (n != op->n_results)
    return mp_error(p, binds->at, "operation defines %u results but was provided %u to bind",
                    op->n_results, n);
  HlMlValue *value = op->results;
  for (int k = 0; k < n_binds; k++) {
    if (!mp_define(p, binds[k].name, binds[k].at, value, binds[k].count))
      return false;
    value += binds[k].count;
  }
  return true;
}

static size_t round_up(size_t n) {
  return (n + 15) & ~(size_t)15;
}

// As hl_ml_op, but for what the reader knows already: the name's symbol and row, and types, which it has not seen.
static HlMlOp *new_op(MpParser *p, const MpState *s) {
  const size_t results_at = round_up(sizeof(HlMlOp));
  const size_t regions_at = results_at + round_up((size_t)s->n_results * sizeof(HlMlValue));
  const size_t operands_at = regions_at + round_up((size_t)s->n_regions * sizeof(HlMlRegion));
  char *memory =
      hl_arena_alloc(p->arena, operands_at + (size_t)s->n_operands * sizeof(HlMlValue *));
  HlMlOp *op = (HlMlOp *)(void *)memory;
  op->name = s->name;
  op->row = (uint16_t)s->row_number;
  op->dialect = (uint8_t)s->dialect;
  op->n_operands = (uint32_t)s->n_operands;
  op->n_results = (uint32_t)s->n_results;
  op->n_regions = (uint32_t)s->n_regions;
  op->n_successors = (uint32_t)s->n_successors;
  op->results = (HlMlValue *)(void *)(memory + results_at);
  op->regions = (HlMlRegion *)(void *)(memory + regions_at);
  op->operands = (HlMlValue **)(void *)(memory + operands_at);
  op->successors = s->successors;
  op->location = s->location;
  op->loc = ml_lex_pos(&p->in, s->at).loc;
  const HlMlType *const *types = (const HlMlType *const *)p->types.at + s->types + s->n_operands;
  for (int k = 0; k < s->n_results; k++) {
    HlMlValue *value = &op->results[k];
    value->type = types[k];
    value->def = op;
    value->number = k;
    value->index = p->tree->n_values++;
  }
  return op;
}

static HlMlOp *make_op(MpParser *p, MpState *s, HlMlBlock *block, int n_binds,
                       const MpBind *binds) {
  const int n_uses = p->uses.n - s->uses;
  if (n_uses != s->n_operands) {
    mp_error(p, s->at, "%d operands present, but expected %d", n_uses, s->n_operands);
    return NULL;
  }
  HlMlOp *op = new_op(p, s);
  if (!set_operands(p, s, op))
    return NULL;
  set_regions(s, op);
  hl_ml_append(block, op);
  if (!set_attrs(p, s, op) || !define_results(p, op, n_binds, binds))
    return NULL;
  p->types.n = s->types;
  return op;
}

// --- Forms -------------------------------------------------------------------------------------------------

bool mp_fn_type(MpParser *p, MpState *s) {
  int n = p->types.n;
  if (!ml_lex_need(&p->in, '('))
    return false;
  if (*p->in.at != ')' && !mp_type_list(p))
    return false;
  s->n_operands = p->types.n - n;
  n = p->types.n;
  if (!ml_lex_need(&p->in, ')') || !ml_lex_need_arrow(&p->in))
    return false;
  if (ml_lex_eat(&p->in, '(')) {
    if ((*p->in.at != ')' && !mp_type_list(p)) || !ml_lex_need(&p->in, ')'))
      return false;
  } else {
    const HlMlType *type = mp_type(p);
    if (!type)
      return false;
    mp_push(p, &p->types, type);
  }
  s->n_results = p->types.n - n;
  return true;
}

static bool generic_form(MpParser *p, MpState *s) {
  if (!ml_lex_need(&p->in, '(') || !mp_use_list(p) || !ml_lex_need(&p->in, ')'))
    return false;
  if (*p->in.at == '[' && !mp_successors(p, s))
    return false;
  if (ml_lex_eat(&p->in, '<')) {
    if (*p->in.at != '{')
      return ml_lex_expected(&p->in, "'{' of the properties");
    if (!mp_dict_entries(p, s, true) || !ml_lex_need(&p->in, '>'))
      return false;
  }
  if (*p->in.at == '(' && !mp_region_list(p, s))
    return false;
  if (!mp_opt_dict(p, s) || !ml_lex_need(&p->in, ':'))
    return false;
  const char *at = p->in.at;
  const int n_uses = p->uses.n - s->uses;
  if (!mp_fn_type(p, s))
    return false;
  if (s->n_operands != n_uses)
    return mp_error(p, at, "expected %d operand types but had %d", n_uses, s->n_operands);
  return true;
}

static bool generic_op(MpParser *p, MpState *s) {
  HlStr name;
  if (!ml_lex_string(&p->in, &name))
    return false;
  if (name.n == 0)
    return mp_error(p, s->at, "empty operation name is invalid");
  if (memchr(name.at, 0, name.n))
    return mp_error(p, s->at, "null character not allowed in operation name");
  s->is_generic = true;
  mp_name_op(p, s, name);
  return generic_form(p, s);
}

static bool unknown_op(MpParser *p, const MpState *s) {
  const char *names[ML_ROW_COUNT];
  for (int k = 1; k < ML_ROW_COUNT; k++)
    names[k - 1] = ml_row(k)->name;
  const char *near = hl_nearest((HlStr){s->name->text, s->name->n}, names, ML_ROW_COUNT - 1);
  mp_error(p, s->at, "custom op '%s' is unknown", s->name->text);
  if (near)
    hl_hint(p->cx, "did you mean '%s'?", near);
  else if (s->dialect == HL_ML_FOREIGN)
    hl_hint(p->cx, "ops of a dialect that Hilo does not know are read in their generic form only");
  return false;
}

static bool pretty_op(MpParser *p, MpState *s) {
  HlStr name = ml_lex_word(&p->in);
  if (name.n == 0)
    return ml_lex_expected(&p->in, "operation name in quotes");
  mp_name_op(p, s, name);
  const char *form = s->row->form;
  if (*form == '!')
    return mp_custom(p, s, form + 1);
  if (*form)
    return mp_form(p, s, form);
  if (s->row_number != ML_NONE)
    return mp_error(p, s->at, "'%s' has no pretty form: expected its name in quotes",
                    s->name->text);
  if (hl_str_is(name, "vhlo.func_v1"))
    return mp_custom(p, s, "func");
  return unknown_op(p, s);
}

// --- Results -----------------------------------------------------------------------------------------------

static bool push_bind(MpParser *p) {
  MpBind bind = {.at = p->in.at, .count = 1};
  bind.name = mp_value_name(p);
  if (!bind.name)
    return false;
  if (ml_lex_eat(&p->in, ':')) {
    int64_t count;
    const char *at = p->in.at;
    if (!ml_lex_int(&p->in, &count))
      return false;
    if (count < 1 || count > INT32_MAX)
      return mp_error(p, at, "expected named operation to have at least 1 result");
    bind.count = (uint32_t)count;
  }
  vec_push_in(p->own, &p->binds, bind);
  return true;
}

static bool result_names(MpParser *p) {
  do {
    if (!push_bind(p))
      return false;
  } while (ml_lex_eat(&p->in, ','));
  return ml_lex_need(&p->in, '=');
}

bool mp_op(MpParser *p, HlMlBlock *block) {
  const int first_bind = p->binds.n;
  if (*p->in.at == '%' && !result_names(p))
    return false;
  MpState s = {.at = p->in.at, .uses = p->uses.n, .types = p->types.n, .nameds = p->nameds.n};
  if (++p->n_ops > hl_cx_limits(p->cx)->instructions)
    return hl_error_kind(p->cx, HL_LIMIT, ml_lex_pos(&p->in, s.at),
                         "more than %lld operations (limit instructions)",
                         (long long)hl_cx_limits(p->cx)->instructions);
  if (*p->in.at == '"' ? !generic_op(p, &s) : !pretty_op(p, &s))
    return false;
  if (*p->in.at == 'l' && !mp_opt_location(p, &s.location))
    return false;
  const int n_binds = p->binds.n - first_bind;
  if (!make_op(p, &s, block, n_binds, p->binds.at + first_bind))
    return false;
  p->binds.n = first_bind;
  return true;
}
