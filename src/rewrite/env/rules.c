// rewrite/env/rules.c: rules as text: reading them, and the pass that applies them.

#include "rewrite/env/rules.h"

#include <string.h>

#include "base/ascii.h"
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

static bool read_rule(RuleReader *r) {
  TextRule *rule = r->rule;
  rule->pos = here(r);
  const HlStr name = read_word(r);
  if (name.n == 0 || !takes(r, ":"))
    return wanted(r, "a rule: name: left => right when conditions");
  rule->name = hl_arena_strndup(r->arena, name.at, name.n);
  skip_blanks(r);
  rule->law = hl_arena_strndup(r->arena, r->at, (size_t)(r->end - r->at));
  if (!(rule->from = read_term(r, true)))
    return false;
  if (rule->from->kind != TERM_OP)
    return wanted(r, "an op on the left side");
  if (!takes(r, "=>"))
    return wanted(r, "'=>'");
  if (!(rule->to = read_term(r, false)))
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

HlInst *rule_build(const RuleTerm *term, HlBuild *b, HlInst *const *vars, HlInst *like) {
  HlInst *args[RULE_ARGS];
  if (term->kind == TERM_VAR)
    return vars[term->var];
  if (term->kind == TERM_NUMBER)
    return hl_b_like(b, like, term->number);
  for (int k = 0; k < term->n; k++)
    if (!(args[k] = rule_build(term->arg[k], b, vars, like)))
      return NULL;
  return hl_b_op(b, term->op, NULL, term->n, args, 0, NULL, 0, NULL);
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

HlInst *rule_apply(const TextRule *rule, HlBuild *b, HlInst *inst) {
  HlInst *vars[RULE_VARS] = {NULL};
  if (!hl_shape_is_array(inst->shape) || !match(rule, rule->from, inst, vars) ||
      !is_tried(rule, vars, inst))
    return NULL;
  HlInst *by = rule_build(rule->to, b, vars, inst);
  return by && hl_shape_compatible(by->shape, inst->shape) ? by : NULL;
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
    HlBuild b;
    if (set->rules.at[k].from->op != (HlOp)inst->op)
      continue;
    hl_begin(p, set->rules.at[k].name, inst, &b);
    if (hl_commit(p, rule_apply(&set->rules.at[k], &b, inst)))
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
