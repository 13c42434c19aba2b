// Reads MLIR text: regions and their blocks.
//
// region = "{" [ op { op } ] { "^" label [ ( args ) ] ":" { op } } "}"
#include "mlir/text/parse.h"

#include <string.h>

HlMlRegion *mp_add_region(MpParser *p, MpState *s) {
  const int n = s->n_regions;
  if ((n & (n - 1)) == 0) {  // room doubles: it is full when their number is a power of two
    HlMlRegion *more = HL_ARRAY(p->own, HlMlRegion, n ? 2 * n : 1);
    for (int k = 0; k < n; k++)
      more[k] = s->regions[k];
    s->regions = more;
  }
  s->n_regions++;
  s->regions[n] = (HlMlRegion){0};
  return &s->regions[n];
}

bool mp_region_list(MpParser *p, MpState *s) {
  if (!ml_lex_need(&p->in, '('))
    return false;
  do {
    if (s->n_regions == INT16_MAX)
      return mp_error(p, p->in.at, "too many regions");
    if (!mp_region(p, s, mp_add_region(p, s), 0, NULL))
      return false;
  } while (ml_lex_eat(&p->in, ','));
  return ml_lex_need(&p->in, ')');
}

// --- Labels ------------------------------------------------------------------------------------------------

static const HlSym *label_name(MpParser *p) {
  const char *begin = p->in.at + 1, *end = ml_lex_suffix_end(begin);
  if (*p->in.at != '^' || end == begin) {
    ml_lex_expected(&p->in, "a block name");
    return NULL;
  }
  ml_lex_move(&p->in, end);
  return mp_sym(p, begin, (size_t)(end - begin));
}

// The block of a name in the region being read, made on its first mention.
static MpLabel *find_label(MpParser *p, const HlSym *name, const char *at) {
  p->label_of = mp_grow_table(p, p->label_of, &p->n_label_of, name->index, sizeof *p->label_of);
  int *place = &p->label_of[name->index];
  if (*place > p->first_label)
    return &p->labels.at[*place - 1];
  const MpLabel made = {
      .name = name, .block = HL_NEW(p->arena, HlMlBlock), .at = at, .hidden = *place};
  vec_push_in(p->own, &p->labels, made);
  MpLabel *label = &vec_last(&p->labels);
  *place = p->labels.n;
  label->block->label = name;
  return label;
}

bool mp_successors(MpParser *p, MpState *s) {
  const int base = p->ptrs.n;
  ml_lex_move(&p->in, p->in.at + 1);
  do {
    const char *at = p->in.at;
    const HlSym *name = label_name(p);
    if (!name)
      return false;
    if (p->ptrs.n - base == INT16_MAX)
      return mp_error(p, at, "too many successors");
    mp_push(p, &p->ptrs, find_label(p, name, at)->block);
  } while (ml_lex_eat(&p->in, ','));
  s->n_successors = p->ptrs.n - base;
  s->successors =
      hl_arena_copy(p->arena, p->ptrs.at + base, (size_t)s->n_successors * sizeof *s->successors);
  p->ptrs.n = base;
  return ml_lex_need(&p->in, ']');
}

bool mp_check_labels(MpParser *p) {
  bool ok = true;
  for (int k = p->first_label; k < p->labels.n; k++)
    if (!p->labels.at[k].is_defined)
      ok = mp_error(p, p->labels.at[k].at, "reference to an undefined block '^%s'",
                    p->labels.at[k].name->text);
  return ok;
}

static void forget_labels(MpParser *p) {
  while (p->labels.n > p->first_label) {
    const MpLabel *label = &vec_pop(&p->labels);
    p->label_of[label->name->index] = label->hidden;
  }
}

// --- Blocks ------------------------------------------------------------------------------------------------

bool mp_one_arg(MpParser *p, MpArg *arg) {
  *arg = (MpArg){.at = p->in.at};
  arg->name = mp_value_name(p);
  if (!arg->name || !ml_lex_need(&p->in, ':'))
    return false;
  arg->type = mp_type(p);
  return arg->type && mp_opt_location(p, &arg->location);
}

static bool add_arg(MpParser *p, HlMlBlock *block, const MpArg *arg) {
  HlMlValue *value = hl_ml_arg(p->tree, block, arg->type);
  value->location = arg->location;
  return !arg->name || mp_define(p, arg->name, arg->at, value, 1);
}

static bool block_args(MpParser *p, HlMlBlock *block) {
  if (!ml_lex_eat(&p->in, '(') || ml_lex_eat(&p->in, ')'))
    return true;
  do {
    MpArg arg;
    if (!mp_one_arg(p, &arg) || !add_arg(p, block, &arg))
      return false;
  } while (ml_lex_eat(&p->in, ','));
  return ml_lex_need(&p->in, ')');
}

static bool block_ops(MpParser *p, HlMlBlock *block) {
  while (*p->in.at != '}' && *p->in.at != '^')
    if (!mp_op(p, block))
      return false;
  return true;
}

static bool labelled_block(MpParser *p, HlMlRegion *region) {
  const char *at = p->in.at;
  const HlSym *name = label_name(p);
  if (!name)
    return false;
  MpLabel *label = find_label(p, name, at);
  if (label->is_defined)
    return mp_error(p, at, "redefinition of block '^%s'", name->text);
  label->is_defined = true;
  HlMlBlock *block = label->block;
  ml_append_block(region, block);
  return block_args(p, block) && ml_lex_need(&p->in, ':') && block_ops(p, block);
}

static bool entry_block(MpParser *p, HlMlRegion *region, int n_args, const MpArg *args) {
  HlMlBlock *block = HL_NEW(p->arena, HlMlBlock);
  ml_append_block(region, block);
  for (int k = 0; k < n_args; k++)
    if (!add_arg(p, block, &args[k]))
      return false;
  return block_ops(p, block);
}

static bool blocks(MpParser *p, HlMlRegion *region, int n_args, const MpArg *args) {
  if (*p->in.at == '^' && n_args > 0)
    return mp_error(p, p->in.at, "invalid block name in region with named arguments");
  if (*p->in.at != '^' && (n_args > 0 || *p->in.at != '}') && !entry_block(p, region, n_args, args))
    return false;
  while (*p->in.at == '^')
    if (!labelled_block(p, region))
      return false;
  return true;
}

bool mp_region(MpParser *p, MpState *s, HlMlRegion *region, int n_args, const MpArg *args) {
  if (!ml_lex_need(&p->in, '{') || !mp_enter(p))
    return false;
  const MpScope scope = mp_open_scope(p, mp_is_isolated(s));
  const int first_label = p->first_label;
  p->first_label = p->labels.n;
  if (!blocks(p, region, n_args, args) || !ml_lex_need(&p->in, '}') || !mp_check_labels(p) ||
      !mp_close_scope(p, scope))
    return false;
  p->needs_flow |= region->first != region->last;
  forget_labels(p);
  p->first_label = first_label;
  mp_leave(p);
  return true;
}
