// rewrite/env/rules.c: rules as text: reading them, and the pass that applies them.

#include "rewrite/env/rules.h"

#include <string.h>

#include "base/ascii.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/number.h"
#include "hilo/opt.h"

// --- Reading ----------------------------------------------------------------------------------------

typedef struct RuleReader {
  HlCx *cx;
  HlSource *source;
  HlArena *arena;
  const char *at, *end;  // of the line
  TextRule *rule;
  int depth;
} RuleReader;

static HlPos here(const RuleReader *r) {
  return (HlPos){r->source, (HlLoc)(r->at - hl_source_bytes(r->source).at) + 1};
}

static void skip_blanks(RuleReader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
    r->at++;
}

static bool takes(RuleReader *r, const char *word) {
  skip_blanks(r);
  const size_t n = strlen(word);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
    return false;
  r->at += n;
  return true;
}

static bool wanted(RuleReader *r, const char *what) {
  return hl_error(r->cx, here(r), "expected %s", what);
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

static HlStr read_word(RuleReader *r) {
  skip_blanks(r);
  const char *start = r->at;
  while (r->at < r->end && is_word(*r->at))
    r->at++;
  return (HlStr){start, (size_t)(r->at - start)};
}

// The number of a variable, which only the left side makes; -1 after reporting.
static int variable(RuleReader *r, HlStr name, bool left) {
  TextRule *rule = r->rule;
  for (int k = 0; k < rule->n_vars; k++)
    if (hl_str_equal(rule->var[k], name))
      return k;
  if (!left || rule->n_vars == RULE_VARS) {
    hl_error(r->cx, here(r), left ? "more than eight values" : "'%.*s' is not on the left side",
             (int)name.n, name.at);
    return -1;
  }
  rule->var[rule->n_vars] = name;
  return rule->n_vars++;
}

static bool is_plain(HlOp op) {
  const HlOpInfo *info = &hl_op_info[op];
  bool plain = hl_op_is(op, HL_T_ELEMENTWISE) && info->n_operands > 0 &&
               info->n_operands <= RULE_ARGS;
  for (const uint16_t *attr = info->attrs; plain && *attr != HL_ATTR_END; attr++)
    plain = !(*attr & HL_ATTR_REQUIRED);
  return plain;
}

static RuleTerm *read_term(RuleReader *r, bool left);

static bool read_args(RuleReader *r, RuleTerm *term, HlStr name, bool left) {
  term->kind = TERM_OP;
  term->op = hl_op_by_text(name);
  if (term->op == HL_OP_COUNT || !is_plain(term->op))
    return hl_error(r->cx, here(r), "'%.*s' is no elementwise op without attributes", (int)name.n,
                    name.at);
  term->n = hl_op_info[term->op].n_operands;
  for (int k = 0; k < term->n; k++) {
    if (k > 0 && !takes(r, ","))
      return hl_error(r->cx, here(r), "%.*s has %d operands", (int)name.n, name.at, term->n);
    if (!(term->arg[k] = read_term(r, left)))
      return false;
  }
  if (term->op == HL_OP_SELECT && term->arg[0]->kind == TERM_VAR)
    r->rule->is_pred[term->arg[0]->var] = true;
  return takes(r, ")") || wanted(r, "')'");
}

// term := number | word | word "(" term {"," term} ")". NULL after reporting.
static RuleTerm *read_term(RuleReader *r, bool left) {
  RuleTerm *term = HL_NEW(r->arena, RuleTerm);
  skip_blanks(r);
  const HlStr name = read_word(r);
  if (name.n == 0 || ++r->depth > 32) {
    wanted(r, r->depth > 32 ? "a rule that is less deep" : "an op, a value or a number");
    return NULL;
  }
  char *end;
  const char *text = hl_arena_strndup(r->arena, name.at, name.n);
  term->number = base_read_double(text, &end);
  bool ok = true;
  if (takes(r, "("))
    ok = read_args(r, term, name, left);
  else if (end == text + name.n)
    term->kind = TERM_NUMBER;
  else
    ok = (term->var = variable(r, name, left)) >= 0;
  r->depth--;
  return ok ? term : NULL;
}

static const struct {
  const char *name;
  uint32_t kinds;
} conditions[] = {
    {"float", RULE_FLOAT},       {"integral", RULE_SIGNED | RULE_UNSIGNED}, {"signed", RULE_SIGNED},
    {"unsigned", RULE_UNSIGNED}, {"pred", RULE_PRED},                       {"complex", RULE_COMPLEX},
};

static bool read_condition(RuleReader *r) {
  const HlStr word = read_word(r);
  if (hl_str_is(word, "inexact"))
    return r->rule->inexact = true;
  for (int k = 0; k < HL_COUNT_OF(conditions); k++) {
    if (!hl_str_is(word, conditions[k].name))
      continue;
    if (!takes(r, "("))
      return wanted(r, "'('");
    const int var = variable(r, read_word(r), false);
    if (var < 0 || !takes(r, ")"))
      return var < 0 ? false : wanted(r, "')'");
    r->rule->wants[var] = conditions[k].kinds;
    return true;
  }
  return hl_error(r->cx, here(r), "there is no condition '%.*s': float, integral, signed, unsigned, "
                                  "pred, complex of a value, or inexact",
                  (int)word.n, word.at);
}

static uint32_t vars_of(const RuleTerm *term) {
  uint32_t vars = term->kind == TERM_VAR ? UINT32_C(1) << term->var : 0;
  for (int k = 0; k < term->n; k++)
    vars |= vars_of(term->arg[k]);
  return vars;
}

// left := term {"," term}, each of which shares a value with one before it: otherwise they would be rules of their own.
static bool read_left(RuleReader *r) {
  TextRule *rule = r->rule;
  uint32_t vars = 0;
  do {
    if (rule->n_roots == RULE_ROOTS)
      return hl_error(r->cx, here(r), "more than four left sides");
    RuleTerm *term = read_term(r, true);
    if (!term)
      return false;
    if (term->kind != TERM_OP)
      return wanted(r, "an op on the left side");
    if (rule->n_roots > 0 && !(vars & vars_of(term)))
      return hl_error(r->cx, here(r), "a left side shares no value with those before it");
    vars |= vars_of(term);
    rule->from[rule->n_roots++] = term;
  } while (takes(r, ","));
  return true;
}

static bool read_rule(RuleReader *r) {
  TextRule *rule = r->rule;
  rule->pos = here(r);
  const HlStr name = read_word(r);
  if (name.n == 0 || !takes(r, ":"))
    return wanted(r, "a rule: name: left => right when conditions");
  rule->name = hl_arena_strndup(r->arena, name.at, name.n);
  skip_blanks(r);
  rule->law = hl_arena_strndup(r->arena, r->at, (size_t)(r->end - r->at));
  if (!read_left(r))
    return false;
  if (!takes(r, "=>"))
    return wanted(r, "'=>'");
  for (int k = 0; k < rule->n_roots; k++)
    if (k > 0 && !takes(r, ","))
      return wanted(r, "as many right sides as left sides");
    else if (!(rule->to[k] = read_term(r, false)))
      return false;
  if (takes(r, "when"))
    do
      if (!read_condition(r))
        return false;
    while (takes(r, "and"));
  skip_blanks(r);
  return r->at == r->end || wanted(r, "the end of the rule, or 'when'");
}

// --- Applying ---------------------------------------------------------------------------------------

uint32_t rule_kind_of(HlDtype dtype) {
  switch (hl_dtype_kind(dtype)) {
  case HL_KIND_FLOAT: return RULE_FLOAT;
  case HL_KIND_SINT: return RULE_SIGNED;
  case HL_KIND_UINT: return RULE_UNSIGNED;
  case HL_KIND_PRED: return RULE_PRED;
  case HL_KIND_COMPLEX: return RULE_COMPLEX;
  case HL_KIND_NONE: break;
  }
  return 0;
}

static bool match(const TextRule *rule, const RuleTerm *term, HlInst *inst, HlInst **vars);

static bool match_args(const TextRule *rule, const RuleTerm *term, HlInst *inst, HlInst **vars,
                       bool swapped) {
  for (int k = 0; k < term->n; k++)
    if (!match(rule, term->arg[swapped ? 1 - k : k], inst->operands[k], vars))
      return false;
  return true;
}

static bool match(const TextRule *rule, const RuleTerm *term, HlInst *inst, HlInst **vars) {
  HlInst *before[RULE_VARS];
  switch (term->kind) {
  case TERM_NUMBER: return hl_is_all(inst, term->number);
  case TERM_VAR:
    if (!vars[term->var] && hl_shape_is_array(inst->shape) &&
        (!rule->wants[term->var] ||
         rule->wants[term->var] & rule_kind_of(inst->shape->dtype)))
      vars[term->var] = inst;
    return vars[term->var] == inst;
  case TERM_OP: break;
  }
  if (inst->op != term->op || (int)inst->n_operands != term->n)
    return false;
  memcpy(before, vars, sizeof before);
  if (match_args(rule, term, inst, vars, false))
    return true;
  memcpy(vars, before, sizeof before);
  return hl_op_is((HlOp)inst->op, HL_T_COMMUTES) && term->n == 2 &&
         match_args(rule, term, inst, vars, true);
}

static bool same_term(const RuleTerm *x, const RuleTerm *y) {
  bool same = x->kind == y->kind && x->n == y->n &&
              (x->kind == TERM_VAR      ? x->var == y->var
               : x->kind == TERM_NUMBER ? memcmp(&x->number, &y->number, sizeof x->number) == 0
                                        : x->op == y->op);
  for (int k = 0; same && k < x->n; k++)
    same = same_term(x->arg[k], y->arg[k]);
  return same;
}

static HlInst *find_built(const RuleBuilt *built, const RuleTerm *term, const HlInst *like) {
  for (int k = 0; built && k < built->n; k++)
    if (built->like[k] == like->shape && same_term(built->term[k], term))
      return built->inst[k];
  return NULL;
}

HlInst *rule_build(const RuleTerm *term, HlBuild *b, HlInst *const *vars, HlInst *like, RuleBuilt *built) {
  HlInst *args[RULE_ARGS], *inst = find_built(built, term, like);
  if (inst || term->kind == TERM_VAR)
    return inst ? inst : vars[term->var];
  for (int k = 0; k < term->n; k++)
    if (!(args[k] = rule_build(term->arg[k], b, vars, like, built)))
      return NULL;
  inst = term->kind == TERM_NUMBER ? hl_b_like(b, like, term->number)
                                   : hl_b_op(b, term->op, NULL, term->n, args, 0, NULL, 0, NULL);
  if (inst && built && built->n < HL_COUNT_OF(built->inst)) {
    built->term[built->n] = term;
    built->inst[built->n] = inst;
    built->like[built->n++] = like->shape;
  }
  return inst;
}

// Values are as they were when the law was tried: of one shape, and of a type for which it holds.
static bool is_tried(const TextRule *rule, HlInst *const *vars, const HlInst *inst) {
  HlDtype dtype = rule->n_vars > 0 ? HL_NO_DTYPE : inst->shape->dtype;
  for (int k = 0; k < rule->n_vars; k++) {
    const HlShape *shape = vars[k]->shape;
    if (shape->rank != inst->shape->rank ||
        (shape->rank > 0 &&
         memcmp(shape->dim, inst->shape->dim, sizeof *shape->dim * (size_t)shape->rank) != 0))
      return false;
    if (rule->is_pred[k] ? shape->dtype != HL_PRED
                         : dtype != HL_NO_DTYPE && shape->dtype != dtype)
      return false;
    if (!rule->is_pred[k])
      dtype = shape->dtype;
  }
  return rule->holds >> (dtype == HL_NO_DTYPE ? HL_PRED : dtype) & 1;
}

// --- Several roots ------------------------------------------------------------------------------------

enum { MOST_USERS = 64, MOST_VISITED = 4096 };

static int depth_of(const RuleTerm *term) {
  int depth = 0;
  for (int k = 0; k < term->n; k++) {
    const int below = depth_of(term->arg[k]);
    depth = below > depth ? below : depth;
  }
  return term->kind == TERM_OP ? depth + 1 : 0;
}

typedef VEC(HlInst *) InstVec;

static bool holds(const InstVec *list, const HlInst *inst) {
  for (int k = 0; k < list->n; k++)
    if (list->at[k] == inst)
      return true;
  return false;
}

// Where the root of a left side may stand: users of a value that is known already, and theirs, as far up as the side is deep.
static InstVec candidates_of(HlArena *scratch, const RuleTerm *term, HlInst *const *vars) {
  InstVec all = {0};
  uint32_t wanted = vars_of(term);
  for (int k = 0; k < RULE_VARS && all.n == 0; k++)
    if (wanted >> k & 1 && vars[k])
      vec_push_in(scratch, &all, vars[k]);
  for (int depth = depth_of(term), from = 0; depth > 0; depth--) {
    const int to = all.n;
    for (; from < to; from++)
      for (const HlUse *use = all.at[from]->first_use; use && all.n < MOST_USERS; use = use->next)
        if (!holds(&all, use->user))
          vec_push_in(scratch, &all, use->user);
  }
  return all;
}

// Roots from number `k` on; the first one that fits.
static bool match_roots(const TextRule *rule, HlArena *scratch, int k, HlInst **roots, HlInst **vars) {
  if (k == rule->n_roots)
    return true;
  const InstVec all = candidates_of(scratch, rule->from[k], vars);
  for (int i = 0; i < all.n; i++) {
    HlInst *before[RULE_VARS], *inst = all.at[i];
    bool is_other = hl_shape_is_array(inst->shape) && hl_shape_same_dims(inst->shape, roots[0]->shape);
    for (int r = 0; r < k; r++)
      is_other = is_other && inst != roots[r];
    memcpy(before, vars, sizeof before);
    if (is_other && match(rule, rule->from[k], inst, vars)) {
      roots[k] = inst;
      if (match_roots(rule, scratch, k + 1, roots, vars))
        return true;
    }
    memcpy(vars, before, sizeof before);
  }
  return false;
}

// Whether a value depends on a root: what stands for another root would then depend on itself. True also where it takes long to tell.
static bool depends(HlArena *scratch, const TextRule *rule, HlInst *const *roots, HlInst *const *vars) {
  InstVec seen = {0};
  for (int k = 0; k < rule->n_vars; k++)
    if (!holds(&seen, vars[k]))
      vec_push_in(scratch, &seen, vars[k]);
  Map known = {.arena = scratch};
  for (int i = 0; i < seen.n; i++) {
    for (int r = 0; r < rule->n_roots; r++)
      if (seen.at[i] == roots[r])
        return true;
    for (uint32_t k = 0; k < seen.at[i]->n_operands; k++) {
      HlInst *below = seen.at[i]->operands[k];
      uint64_t *at = map_at(&known, map_key(below));
      if (*at)
        continue;
      *at = 1;
      if (seen.n == MOST_VISITED)
        return true;
      vec_push_in(scratch, &seen, below);
    }
  }
  return false;
}

bool rule_apply(const TextRule *rule, HlArena *scratch, HlBuild *b, HlInst *inst, RuleMatch *out) {
  HlInst *vars[RULE_VARS] = {NULL};
  *out = (RuleMatch){.root = {inst}};
  if (!hl_shape_is_array(inst->shape) || !match(rule, rule->from[0], inst, vars) ||
      !match_roots(rule, scratch, 1, out->root, vars) || !is_tried(rule, vars, inst) ||
      (rule->n_roots > 1 && depends(scratch, rule, out->root, vars)))
    return false;
  RuleBuilt built = {.n = 0};
  for (int k = 0; k < rule->n_roots; k++) {
    HlInst *by = rule_build(rule->to[k], b, vars, out->root[k], &built);
    if (!by || !hl_shape_compatible(by->shape, out->root[k]->shape))
      return false;
    out->by[k] = by;
  }
  return true;
}

// The table's last row, behind which stands whose it is.
static const HlRuleSet *rules_of(const HlPassInfo *info) {
  const HlRuleSet *set;
  memcpy(&set, info + 1, sizeof set);
  return set;
}

static void visit(HlPass *p, HlInst *inst) {
  const HlRuleSet *set = rules_of(p->info);
  for (int k = 0; k < set->rules.n; k++) {
    const TextRule *rule = &set->rules.at[k];
    RuleMatch match;
    HlBuild b;
    if (rule->from[0]->op != (HlOp)inst->op)
      continue;
    hl_begin(p, rule->name, inst, &b);
    const bool applies = rule_apply(rule, p->arena, &b, inst, &match);
    for (int i = 1; applies && i < rule->n_roots; i++)
      hl_also(p, match.root[i], match.by[i]);
    if (hl_commit(p, applies ? match.by[0] : NULL))
      return;
  }
}

static bool run_rules(HlPass *p) {
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_COUNT, visit);
  return true;
}

static void make_table(HlRuleSet *set) {
  const int n = hl_passes.n;
  const size_t rows = sizeof(HlPassInfo) * (size_t)(n + 1);
  char *block = hl_arena_alloc(set->arena, rows + sizeof set);
  HlPassInfo *at = (HlPassInfo *)(void *)block;
  memcpy(at, hl_passes.at, sizeof *at * (size_t)n);
  at[n] = (HlPassInfo){.name = "text-rules", .run = run_rules, .options = "", .meaning = "rules given as text"};
  memcpy(block + rows, &set, sizeof set);
  set->table = hl_passes;
  set->table.at = at;
  set->table.n = n + 1;
}

// --- Sets -------------------------------------------------------------------------------------------

// A line that is no comment and not empty.
static bool read_line(HlCx *cx, HlRuleSet *set, HlSource *source, const char *at, const char *end) {
  RuleReader r = {cx, source, set->arena, at, end, NULL, 0};
  TextRule rule = {0};
  skip_blanks(&r);
  if (r.at == end || *r.at == '#')
    return true;
  r.rule = &rule;
  if (!read_rule(&r) || !rule_holds(cx, &rule))
    return false;
  vec_push_in(set->arena, &set->rules, rule);
  return true;
}

HlRuleSet *hl_rules_read(HlCx *cx, HlSource *source) {
  HlArena *arena = hl_arena_new();
  HlRuleSet *set = HL_NEW(arena, HlRuleSet);
  const HlStr text = hl_source_bytes(source);
  set->arena = arena;
  set->text = hl_arena_strndup(arena, text.at, text.n);
  bool ok = true;
  for (const char *at = text.at, *all = text.at + text.n; at < all;) {
    const char *end = memchr(at, '\n', (size_t)(all - at));
    end = end ? end : all;
    ok = read_line(cx, set, source, at, end) && ok;
    at = end + 1;
  }
  if (ok && set->rules.n == 0)
    ok = hl_error(cx, (HlPos){source, 1}, "there is no rule in it");
  if (ok) {
    make_table(set);
    return set;
  }
  hl_arena_free(arena);
  return NULL;
}

void hl_rules_free(HlRuleSet *set) {
  if (set)
    hl_arena_free(set->arena);
}

int hl_rules_count(const HlRuleSet *set) {
  return set->rules.n;
}

const char *hl_rules_text(const HlRuleSet *set) {
  return set->text;
}

const HlPassTable *hl_rules_passes(const HlRuleSet *set) {
  return &set->table;
}
