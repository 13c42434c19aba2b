// rewrite/env/rules.h: rules as they were read; private to src/rewrite/env.
#ifndef REWRITE_RULES_H
#define REWRITE_RULES_H

#include "base/vec.h"
#include "hilo/rules.h"

enum { RULE_VARS = 8, RULE_ARGS = 3 };

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
  RuleTerm *from, *to;
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
// What stands for the rule's left side at the instruction, built with `b`; NULL: it does not match.
HlInst *rule_apply(const TextRule *rule, HlBuild *b, HlInst *inst);
// A side with these values for the variables; NULL: it cannot be built, perhaps after reporting.
HlInst *rule_build(const RuleTerm *term, HlBuild *b, HlInst *const *vars, HlInst *like);
// rules_test.c: whether the law holds, and for which types. False after reporting.
bool rule_holds(HlCx *cx, TextRule *rule);

#endif
