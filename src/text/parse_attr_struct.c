// parse_attr_struct.c: reads the attributes that are structures: shapes, literals, aliases, shardings, metadata and so on.

#include "text/parse.h"

#include <string.h>

// --- Shapes, literals, aliases -------------------------------------------------------------------

bool parse_SHAPE(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlShape *shape;
  if (!parse_shape(p, &shape))
    return false;
  out->ptr = shape;
  return true;
}

bool parse_SHAPES(Parser *p, ParseInst *inst, HlAttr *out) {
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "to start a list of shapes"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      const HlShape *shape;
      if (!parse_shape(p, &shape))
        return false;
      parse_push_ptr(p, shape);
    } while (lex_eat(&p->in, ','));
  }
  out->shapes.at = (const HlShape *const *)parse_take_ptrs(p, base, &out->shapes.n);
  return lex_need(&p->in, '}', "to end the list of shapes");
}

bool parse_LITERAL(Parser *p, ParseInst *inst, HlAttr *out) {
  HlLiteral *literal = NULL;
  if (!parse_shaped_literal(p, &literal))
    return false;
  out->ptr = literal;
  return true;
}

static bool read_alias_kind(Parser *p, HlAlias *alias) {
  const char *s = p->in.at, *end = lex_ident_end(s);
  int64_t kind;
  if (!hl_enum_value(&hl_enums[HL_ENUM_alias_kind], (HlStr){s, (size_t)(end - s)}, &kind))
    return lex_expected(&p->in, "may-alias or must-alias");
  alias->kind = (int)kind;
  lex_move(&p->in, end);
  return true;
}

// {0}: (1, {}, may-alias)
static bool read_alias(Parser *p, bool of_module, HlAlias *alias) {
  alias->kind = of_module ? HL_WORD_alias_kind_MAY : 0;
  return parse_shape_index(p, &alias->output) &&
         lex_need(&p->in, ':', "after the output index of an alias") &&
         lex_need(&p->in, '(', "to start the source of an alias") &&
         lex_int(&p->in, &alias->number) && lex_need(&p->in, ',', "after the number in an alias") &&
         parse_shape_index(p, &alias->index) &&
         (!of_module || !lex_eat(&p->in, ',') || read_alias_kind(p, alias)) &&
         lex_need(&p->in, ')', "to end the source of an alias");
}

bool parse_aliases(Parser *p, bool of_module, HlAliases *out) {
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "at the start of the aliases"))
    return false;
  while (!lex_at(&p->in, '}')) {
    HlAlias *alias = HL_NEW(p->m->arena, HlAlias);
    if (!read_alias(p, of_module, alias))
      return false;
    parse_push_ptr(p, alias);
    if (!lex_eat(&p->in, ','))
      break;
  }
  const int n = p->ptrs.n - base;
  HlAlias *list = HL_ARRAY(p->m->arena, HlAlias, n);
  for (int k = 0; k < n; k++)
    list[k] = *(const HlAlias *)p->ptrs.at[base + k];
  p->ptrs.n = base;
  *out = (HlAliases){list, n};
  return lex_need(&p->in, '}', "at the end of the aliases");
}

bool parse_ALIASING(Parser *p, ParseInst *inst, HlAttr *out) {
  if (!parse_aliases(p, false, &out->aliases))
    return false;
  if (out->aliases.n == 0)
    out->key = HL_ATTR_COUNT;
  return true;
}

// --- Structures ----------------------------------------------------------------------------------

bool parse_GROUPS(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlGroups *groups;
  if (!parse_groups(p, &groups))
    return false;
  out->ptr = groups;
  return true;
}

bool parse_SHARDING(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlSharding *sharding;
  if (!parse_sharding(p, &sharding))
    return false;
  out->ptr = sharding;
  return true;
}

bool parse_DICT(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlDict *dict;
  if (!parse_dict(p, &dict))
    return false;
  out->ptr = dict;
  if (dict->n == 0)
    out->key = HL_ATTR_COUNT;
  return true;
}

bool parse_METADATA(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlMetadata *metadata;
  if (!parse_metadata(p, &metadata))
    return false;
  out->ptr = metadata;
  return true;
}

bool parse_ORIGIN(Parser *p, ParseInst *inst, HlAttr *out) {
  const HlOrigin *origin;
  if (!parse_origin(p, &origin))
    return false;
  out->ptr = origin;
  return true;
}

// {kind="sharding", entry={..}, exit={..}}
bool parse_DOMAIN(Parser *p, ParseInst *inst, HlAttr *out) {
  const char *at = p->in.at;
  HlDomain *domain = HL_NEW(p->m->arena, HlDomain);
  out->ptr = domain;
  if (!lex_need(&p->in, '{', "to start the domain"))
    return false;
  while (!lex_at(&p->in, '}')) {
    const char *field = p->in.at;
    HlStr text;
    if (lex_eat(&p->in, ',')) {
    } else if (!domain->kind && parse_eat_name(p, "kind")) {
      if (!lex_string(&p->in, &text))
        return false;
      if (!hl_str_is(text, "sharding"))
        return parse_error(p, field, "unsupported domain kind: %.*s", (int)text.n, text.at);
      domain->kind = parse_sym(p, text);
    } else if (!domain->entry && parse_eat_name(p, "entry")) {
      if (!parse_sharding(p, &domain->entry))
        return false;
    } else if (!domain->exit && parse_eat_name(p, "exit")) {
      if (!parse_sharding(p, &domain->exit))
        return false;
    } else {
      return lex_expected(&p->in, "kind=, entry= and exit=, each once");
    }
  }
  lex_move(&p->in, p->in.at + 1);
  if (!domain->kind || !domain->entry || !domain->exit)
    return parse_error(p, at, "sub-attribute %s is expected but not seen",
                       !domain->kind    ? "kind"
                       : !domain->entry ? "entry"
                                        : "exit");
  return true;
}

// {sparsity=2x4 dimension=1 stride=3 idx=2}
static bool read_sparsity_of(Parser *p, HlSparsityOf *out) {
  if (!lex_need(&p->in, '{', "to start the sparsity of an operand"))
    return false;
  while (!lex_at(&p->in, '}')) {
    const char *at = p->in.at;
    if (parse_eat_name(p, "sparsity")) {
      const int base = p->ints.n;
      if (!parse_dxd(p, "sparsity"))
        return false;
      if (p->ints.n - base != 2)
        return parse_error(p, at, "expected a sparsity such as 2x4");
      out->n = p->ints.at[base];
      out->m = p->ints.at[base + 1];
      p->ints.n = base;
    } else if (parse_eat_name(p, "dimension")) {
      if (!lex_int(&p->in, &out->dimension))
        return false;
    } else if (parse_eat_name(p, "stride")) {
      if (!lex_int(&p->in, &out->stride))
        return false;
    } else if (parse_eat_name(p, "idx")) {
      dialect_has(&p->signs, hl_news_since(HL_NEWS_SPARSITY));
      if (!lex_int(&p->in, &out->idx))
        return false;
    } else {
      return lex_expected(&p->in, "sparsity=, dimension=, stride= or idx=");
    }
    lex_eat(&p->in, ',');
  }
  lex_move(&p->in, p->in.at + 1);
  return true;
}

bool parse_SPARSITY(Parser *p, ParseInst *inst, HlAttr *out) {
  HlSparsity *sparsity = HL_NEW(p->m->arena, HlSparsity);
  out->ptr = sparsity;
  bool any = false;
  if (!lex_need(&p->in, '{', "to start the sparsity"))
    return false;
  while (!lex_at(&p->in, '}')) {
    HlSparsityOf *to = parse_eat_name(p, "lhs")   ? &sparsity->lhs
                       : parse_eat_name(p, "rhs") ? &sparsity->rhs
                                                  : NULL;
    if (!to)
      return lex_expected(&p->in, "lhs= or rhs=");
    if (!read_sparsity_of(p, to))
      return false;
    any = true;
    lex_eat(&p->in, ',');
  }
  lex_move(&p->in, p->in.at + 1);
  if (!any)
    out->key = HL_ATTR_COUNT;
  return true;
}

// {scale_idx=2 zero_idx=3 strides=1x4 steps=1x4}
static bool read_scales_of(Parser *p, HlScalesOf *out) {
  out->is_there = true;
  if (!lex_need(&p->in, '{', "to start the block scaling of an operand"))
    return false;
  while (!lex_at(&p->in, '}')) {
    HlI64s *list = NULL;
    if (parse_eat_name(p, "scale_idx")) {
      if (!lex_int(&p->in, &out->scale_idx))
        return false;
    } else if (parse_eat_name(p, "zero_idx")) {
      out->has_zero = true;
      if (!lex_int(&p->in, &out->zero_idx))
        return false;
    } else if (parse_eat_name(p, "strides")) {
      list = &out->strides;
    } else if (parse_eat_name(p, "steps")) {
      list = &out->steps;
    } else {
      return lex_expected(&p->in, "scale_idx=, zero_idx=, strides= or steps=");
    }
    if (list) {
      const int base = p->ints.n;
      if (!parse_dxd(p, "block scaling"))
        return false;
      *list = parse_take_ints(p, base);
    }
    lex_eat(&p->in, ',');
  }
  lex_move(&p->in, p->in.at + 1);
  return true;
}

bool parse_SCALES(Parser *p, ParseInst *inst, HlAttr *out) {
  HlScales *scales = HL_NEW(p->m->arena, HlScales);
  out->ptr = scales;
  if (!lex_need(&p->in, '{', "to start the block scaling"))
    return false;
  while (!lex_at(&p->in, '}')) {
    HlScalesOf *to = parse_eat_name(p, "lhs")   ? &scales->lhs
                     : parse_eat_name(p, "rhs") ? &scales->rhs
                                                : NULL;
    if (!to)
      return lex_expected(&p->in, "lhs= or rhs=");
    if (!read_scales_of(p, to))
      return false;
    lex_eat(&p->in, ',');
  }
  lex_move(&p->in, p->in.at + 1);
  if (!scales->lhs.is_there && !scales->rhs.is_there)
    out->key = HL_ATTR_COUNT;
  return true;
}

static bool read_tolerance(Parser *p, HlAccuracy *out) {
  out->has_tolerance = true;
  if (!lex_need(&p->in, '{', "to start the tolerances"))
    return false;
  if (!lex_at(&p->in, '}')) {
    do {
      double value;
      double *to = parse_eat_name(p, "atol")   ? &out->atol
                   : parse_eat_name(p, "rtol") ? &out->rtol
                                               : NULL;
      if (!to && !parse_eat_name(p, "ulps"))
        return lex_expected(&p->in, "atol=, rtol= or ulps=");
      const char *at = p->in.at;
      if (!lex_double(&p->in, &value))
        return false;
      if (to)
        *to = value;
      else if (value >= -9e18 && value <= 9e18)
        out->ulps = (int64_t)value;
      else
        return parse_error(p, at, "the number of ulps is out of range");
    } while (lex_eat(&p->in, ','));
  }
  return lex_need(&p->in, '}', "at the end of the tolerances");
}

// {mode=highest} or {tolerance={atol=0.1,rtol=0,ulps=2}}
bool parse_ACCURACY(Parser *p, ParseInst *inst, HlAttr *out) {
  HlAccuracy *accuracy = HL_NEW(p->m->arena, HlAccuracy);
  out->ptr = accuracy;
  if (!lex_need(&p->in, '{', "to start the result accuracy"))
    return false;
  if (parse_eat_name(p, "mode")) {
    if (!parse_enum(p, &hl_enums[HL_ENUM_accuracy_mode], &accuracy->mode))
      return false;
    if (accuracy->mode == HL_WORD_accuracy_mode_DEFAULT)
      out->key = HL_ATTR_COUNT;
  } else if (parse_eat_name(p, "tolerance")) {
    if (!read_tolerance(p, accuracy))
      return false;
  } else {
    return lex_expected(&p->in, "mode= or tolerance=");
  }
  return lex_need(&p->in, '}', "to end the result accuracy");
}

// One "name=1.5" of the statistics.
static bool read_statistic(Parser *p) {
  const char *s = p->in.at, *end = lex_is(*s, LEX_START) ? lex_ident_end(s) : s;
  if (end == s || *end != '=')
    return lex_expected(&p->in, "the name of a statistic, followed by '='");
  const HlSym *name = parse_sym(p, (HlStr){s, (size_t)(end - s)});
  lex_move(&p->in, end + 1);
  double *value = HL_NEW(p->m->arena, double);
  parse_push_ptr(p, name);
  parse_push_ptr(p, value);
  return lex_double(&p->in, value);
}

// {visualizing_index=0,name=1.5}
bool parse_STATISTICS(Parser *p, ParseInst *inst, HlAttr *out) {
  HlStatistics *statistics = HL_NEW(p->m->arena, HlStatistics);
  out->ptr = statistics;
  const int base = p->ptrs.n;
  if (!lex_need(&p->in, '{', "to start the statistics"))
    return false;
  if (lex_eat(&p->in, '}')) {
    out->key = HL_ATTR_COUNT;
    return true;
  }
  if (!parse_eat_name(p, "visualizing_index"))
    return lex_expected(&p->in, "visualizing_index=");
  if (!lex_int(&p->in, &statistics->visualizing_index))
    return false;
  while (lex_eat(&p->in, ','))
    if (!read_statistic(p))
      return false;
  statistics->n = (p->ptrs.n - base) / 2;
  const HlSym **names = HL_ARRAY(p->m->arena, const HlSym *, statistics->n);
  double *values = HL_ARRAY(p->m->arena, double, statistics->n);
  for (int k = 0; k < statistics->n; k++) {
    names[k] = p->ptrs.at[base + 2 * k];
    values[k] = *(const double *)p->ptrs.at[base + 2 * k + 1];
  }
  statistics->name = names;
  statistics->value = values;
  p->ptrs.n = base;
  if (statistics->n == 0)
    out->key = HL_ATTR_COUNT;
  return lex_need(&p->in, '}', "at the end of the statistics");
}
