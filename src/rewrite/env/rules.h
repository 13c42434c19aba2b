// rewrite/env/rules.h: rules as they were read; private to src/rewrite/env.
#ifndef REWRITE_RULES_H
#define REWRITE_RULES_H

#include "base/vec.h"
#include "hilo/rules.h"

enum { RULE_VARS = 8, RULE_ARGS = 3, RULE_ROOTS = 4 };

typedef enum RuleTermKind { TERM_VAR, TERM_NUMBER, TERM_OP } RuleTermKind;
typedef struct RuleTerm RuleTerm;
struct RuleTerm {
  RuleTermKind kind;
  HlOp op;
  int var;  // which of the rule's
  double number;
  int n;
  RuleTerm *arg[RULE_ARGS];
};

// What a condition asks of a value: kinds of element types.
enum { RULE_FLOAT = 1, RULE_SIGNED = 2, RULE_UNSIGNED = 4, RULE_PRED = 8, RULE_COMPLEX = 16 };

typedef struct TextRule {
  const char *name, *law;
  HlPos pos;
  RuleTerm *from[RULE_ROOTS], *to[RULE_ROOTS];  // of each root; those behind the first share values with it
  int n_roots;
  int n_vars;
  HlStr var[RULE_VARS];
  uint32_t wants[RULE_VARS];  // any of these kinds; 0: all
  bool is_pred[RULE_VARS];    // what a select asks; all others are of one type
  uint64_t holds;             // for which of these the law was tried and holds: a bit of each HlDtype
  bool inexact;
} TextRule;

struct HlRuleSet {
  HlArena *arena;
  const char *text;
  VEC(TextRule) rules;
  HlPassTable table;
};

uint32_t rule_kind_of(HlDtype dtype);
// The instructions that the rule's left sides are about, the first of them given, and what stands for them, built with `b`. False: it
// does not match.
typedef struct RuleMatch {
  HlInst *root[RULE_ROOTS], *by[RULE_ROOTS];
} RuleMatch;
bool rule_apply(const TextRule *rule, HlArena *scratch, HlBuild *b, HlInst *inst, RuleMatch *out);
// What has been built of terms so far, for values of one shape: what stands in them twice is built once.
typedef struct RuleBuilt {
  const RuleTerm *term[32];
  HlInst *inst[32];
  const HlShape *like[32];
  int n;
} RuleBuilt;
// A side with these values for the variables; NULL: it cannot be built, perhaps after reporting. `built` may be NULL.
HlInst *rule_build(const RuleTerm *term, HlBuild *b, HlInst *const *vars, HlInst *like, RuleBuilt *built);
// rules_test.c: whether the law holds, and for which types. False after reporting.
bool rule_holds(HlCx *cx, TextRule *rule);

#endif
