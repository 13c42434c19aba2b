// What dry runs propose, as alternatives: random modules with what each pass would do to them. A module with alternatives is valid,
// reads back as it was written and computes the same; to select 0 everywhere gives back its text; whatever else is
// selected computes the same, too, and so do rewrites applied one by one. And features and hashes are what their headers say.
//
//   property_alternatives                       MODULES modules
//   property_alternatives COUNT FIRST [PASS]    modules of seeds FIRST to FIRST + COUNT - 1, one pass only
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/alternatives.h"
#include "hilo/eval.h"
#include "hilo/features.h"
#include "hilo/opt.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/verify.h"
#include "support/gen_algebra.h"
#include "support/passes.h"
#include "support/property.h"

enum { MODULES = 60, TRIES = 3 };

typedef struct Program {
  HlCx *cx;
  HlModule *m;
  HlLiteral **args, *expected;
  uint64_t seed;
} Program;

typedef struct Count {
  int64_t modules, runs, offers, nodes, selections, applied;
} Count;

static const HlEvalOptions eval_options = {.elided = HL_ELIDED_ZERO, .no_checks = true};

static bool evaluate(const Program *p, const HlModule *m, HlLiteral **out) {
  const HlLiteral *const *args = (const HlLiteral *const *)p->args;
  return hl_eval(p->cx, m, &eval_options, &args, out);
}

static void program_free(Program *p) {
  for (int k = 0; p->args && k < p->m->entry->n_params; k++)
    hl_literal_unref(p->args[k]);
  free(p->args);
  hl_literal_unref(p->expected);
  hl_module_free(p->m);
  hl_cx_free(p->cx);
}

// False when the seed gives no module that runs on one device.
static bool program_new(Program *p, uint64_t seed) {
  GenOptions options = property_options(seed / 2, true);
  *p = (Program){.cx = hl_cx_new(), .seed = seed};
  hl_cx_limits(p->cx)->eval_steps = 2000000;
  p->m = seed % 2 ? gen_algebra(p->cx, seed, 30 + (int)(seed % 50)) : gen_module(p->cx, &options);
  if (!p->m || hl_eval_devices(p->m, &eval_options) != 1)
    return false;
  p->args = calloc((size_t)p->m->entry->n_params + 1, sizeof *p->args);
  const bool ok = hl_fake_args(p->cx, p->m, seed, p->args) && evaluate(p, p->m, &p->expected);
  hl_cx_clear(p->cx);
  return ok;
}

static int blame(const Program *p, const char *pass, const char *what) {
  char program[64];
  snprintf(program, sizeof program, "seed %llu", (unsigned long long)p->seed);
  passes_blame(p->cx, program, pass, what);
  hl_cx_clear(p->cx);
  return 1;
}

static char *text_of(HlCx *cx, const HlModule *m) {
  HlBuf out = {0};
  hl_text_print(cx, m, &(HlTextOptions){.large_constants = HL_ON}, &out);
  return out.at;
}

static int check_result(const Program *p, const char *pass, const HlModule *m, const char *what) {
  HlLiteral *actual = NULL;
  int failures = 0;
  if (!evaluate(p, m, &actual))
    failures += blame(p, pass, what);
  else if (!passes_may_differ(p->m, true) && !passes_change_values(pass) &&
           !passes_same(p->cx, m, p->m, 0, actual, p->expected))
    failures += blame(p, pass, what);
  hl_literal_unref(actual);
  return failures;
}

static int check_read_back(const Program *p, const char *pass, const HlModule *m) {
  char *text = text_of(p->cx, m);
  HlSource *source = hl_source_new("alternatives", text, strlen(text), false);
  HlFile file = {0};
  int failures = 0;
  if (!hl_load_source(p->cx, source, &(HlLoadOptions){0}, &file) || file.n != 1)
    failures += blame(p, pass, "what has alternatives cannot be read back");
  else if (hl_dag_hash(file.modules[0]) != hl_dag_hash(m))
    failures += blame(p, pass, "what was read back has another hash");
  hl_file_free(&file);
  hl_source_unref(source);
  free(text);
  return failures;
}

// --- Features -----------------------------------------------------------------------------------

static int check_edges(const Program *p, const char *pass, const HlFeatures *f) {
  for (int64_t k = 0; k < f->n[HL_PER_NODE]; k++) {
    const HlInst *inst = f->inst[k];
    const int64_t first = (int64_t)f->graph_in_edge_offsets[k];
    if (f->node_num_operands[k] > (int)inst->n_operands ||
        (inst->n_operands > 0 && f->inst[f->graph_in_edge_indices[first]] != inst->operands[0]))
      return blame(p, pass, "an edge does not come from the operand");
    for (uint64_t e = f->graph_out_edge_offsets[k]; e < f->graph_out_edge_offsets[k + 1]; e++)
      if (f->out_edge_srcs[e] != k || f->out_edge_dsts[e] != (int64_t)f->graph_out_edge_indices[e])
        return blame(p, pass, "an edge does not lead where it says");
    const int numbers = f->node_num_opcode_attrs[2 * k],
              slots = f->node_num_opcode_attrs[2 * k + 1];
    const int opcode = f->node_opcodes[k];
    if (opcode < HL_FEATURE_OPCODES && inst->op != HL_OP_SET_DIMENSION_SIZE &&
        (numbers != hl_feature_opcode_attrs[2 * opcode] ||
         slots != hl_feature_opcode_attrs[2 * opcode + 1]))
      return blame(p, pass, "an opcode has other attributes than the table says");
  }
  return 0;
}

static int check_features(const Program *p, const char *pass, const HlModule *m, int n_nodes) {
  HlFeatures f = {0};
  int failures = 0;
  if (!hl_features_fill(p->cx, m, NULL, &f))
    failures += blame(p, pass, "there are no features");
  else if (f.n[HL_PER_ALTERNATIVES] != n_nodes || f.n[HL_PER_IN_EDGE] != f.n[HL_PER_OUT_EDGE])
    failures += blame(p, pass, "features count something else");
  else
    failures += check_edges(p, pass, &f);
  if (!hl_features_fill(p->cx, m, &(HlFeatureOptions){.inline_fused_comp = true}, &f))
    failures += blame(p, pass, "there are no features with what is called inside");
  hl_features_free(&f);
  return failures;
}

// --- Selecting ----------------------------------------------------------------------------------

// Operand 0 everywhere for `round` 0, the last for 1, random ones from then on.
static int64_t choose(HlRng *rng, int round, const HlInst *node) {
  return round == 0   ? 0
         : round == 1 ? (int64_t)node->n_operands - 1
                      : hl_rng_below(rng, node->n_operands);
}

static int check_selection(Program *p, const char *pass, HlModule *m, const char *before,
                           int round) {
  HlRng rng = {p->seed * 100 + (uint64_t)round};
  HlArena *arena = hl_arena_new();
  int n, failures = 0;
  HlInst **nodes = hl_alternatives(arena, m, &n);
  HlSelection *choice = HL_ARRAY(arena, HlSelection, n + 1);
  for (int k = 0; k < n; k++)
    choice[k] = (HlSelection){nodes[k], choose(&rng, round, nodes[k])};
  const HlEditMark mark = hl_mark(m);
  if (!hl_alternatives_select(p->cx, m, n, choice))
    failures += blame(p, pass, "nothing can be selected");
  else if (!hl_verify(p->cx, m, NULL))
    failures += blame(p, pass, "what was selected is not valid");
  else
    failures += check_result(p, pass, m, "what was selected computes something else");
  char *after = text_of(p->cx, m);
  if (round == 0 && before && strcmp(before, after) != 0)
    failures += blame(p, pass, "selecting the originals does not give back the module");
  free(after);
  hl_undo(m, mark);
  hl_arena_free(arena);
  return failures;
}

static int check_alternatives(Program *p, const char *pass, HlModule *m, HlProposals *proposals,
                              Count *count) {
  char *before = m->is_scheduled ? NULL : text_of(p->cx, m);  // an order of execution is dropped
  int failures = 0;
  const int n = hl_alternatives_make(p->cx, m, proposals);
  count->nodes += n;
  if (n < 0 || !hl_verify(p->cx, m, NULL))
    failures += blame(p, pass, "a module with alternatives is not valid");
  failures += check_result(p, pass, m, "a module with alternatives computes something else");
  failures += check_read_back(p, pass, m) + check_features(p, pass, m, n);
  for (int round = 0; n > 0 && round < TRIES && failures == 0; round++, count->selections++)
    failures += check_selection(p, pass, m, before, round);
  free(before);
  return failures;
}

// --- Applying -----------------------------------------------------------------------------------

static int check_parts(Program *p, const char *pass, const HlModule *m,
                       const HlProposals *proposals, int k) {
  HlModule *old = hl_proposal_original(p->cx, m, proposals, k);
  HlModule *new = hl_proposal_replacement(p->cx, m, proposals, k);
  int failures = 0;
  if (!old || !new || !hl_verify(p->cx, old, NULL) || !hl_verify(p->cx, new, NULL))
    failures += blame(p, pass, "a part of a rewrite is no valid module");
  hl_module_free(old);
  hl_module_free(new);
  return failures;
}

static int check_applying(Program *p, const char *pass, HlModule *m, HlProposals *proposals,
                          Count *count) {
  const int n = hl_n_proposals(proposals);
  int64_t *which = calloc((size_t)n + 1, sizeof *which);
  HlRewriteStatus *status = calloc((size_t)n + 1, sizeof *status);
  int failures = 0;
  for (int k = 0; k < n; k++)
    which[k] = k;
  for (int k = 0; k < n && k < 4; k++)
    failures += check_parts(p, pass, m, proposals, k);
  if (!hl_proposals_apply(p->cx, m, proposals, n, which, status))
    failures += blame(p, pass, "rewrites cannot be applied");
  else if (!hl_verify(p->cx, m, NULL))
    failures += blame(p, pass, "a module with rewrites applied is not valid");
  else
    failures += check_result(p, pass, m, "applied rewrites change the result");
  for (int k = 0; k < n; k++)
    count->applied += status[k] == HL_REWRITE_OK;
  free(which);
  free(status);
  return failures;
}

// --- All ----------------------------------------------------------------------------------------

static int run_pass(Program *p, const char *pass, Count *count) {
  const HlProposeOptions options = {.target = hl_target_find("a100")};
  int failures = 0;
  for (int applying = 0; applying < 2; applying++) {
    HlModule *m = passes_copy_for(p->cx, p->m, pass);
    const uint64_t hash = hl_graph_hash(m);
    HlProposals *proposals = hl_propose(p->cx, m, pass, &options);
    count->runs++;
    if (!proposals || hl_graph_hash(m) != hash) {
      failures += blame(p, pass, "the dry run fails or changes the module");
    } else if (applying) {
      failures += check_applying(p, pass, m, proposals, count);
    } else {
      count->offers += hl_n_proposals(proposals);
      failures += check_alternatives(p, pass, m, proposals, count);
    }
    hl_proposals_free(proposals);
    hl_module_free(m);
    hl_cx_clear(p->cx);
  }
  return failures;
}

static int run_program(uint64_t seed, const char *only, Count *count) {
  Program p;
  int failures = 0;
  if (program_new(&p, seed)) {
    count->modules++;
    for (int k = 0; k < hl_passes.n; k++)
      if (only ? strcmp(only, hl_passes.at[k].name) == 0
               : !passes_complain(hl_passes.at[k].name) &&
                     !passes_lose_devices(p.m, hl_passes.at[k].name))
        failures += run_pass(&p, hl_passes.at[k].name, count);
  }
  program_free(&p);
  return failures;
}

static uint64_t first_seed;
static int n_seeds = MODULES;
static const char *only_pass;

static void test_alternatives(void **state) {
  Count count = {0};
  int failures = 0;
  for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)n_seeds; seed++)
    failures += run_program(seed, only_pass, &count);
  printf("%lld modules, %lld dry runs, %lld proposals, %lld alternatives, %lld selections, %lld "
         "rewrites applied\n",
         (long long)count.modules, (long long)count.runs, (long long)count.offers,
         (long long)count.nodes, (long long)count.selections, (long long)count.applied);
  assert_int_equal(failures, 0);
  assert_true(only_pass || (count.offers > 100 && count.selections > 50 && count.applied > 50));
}

// Every op has a number, and no two have the same.
static void test_opcodes(void **state) {
  bool seen[HL_OP_COUNT] = {false};
  for (int op = 0; op < HL_OP_COUNT; op++) {
    const int number = hl_feature_opcode((HlOp)op);
    assert_in_range(number, 0, HL_OP_COUNT - 1);
    assert_false(seen[number]);
    seen[number] = true;
  }
  assert_int_equal(hl_feature_opcode(HL_OP_ALTERNATIVES), 15);
  assert_int_equal(hl_feature_opcode(HL_OP_WHILE), 117);
}

int main(int argc, char **argv) {
  if (argc > 2) {
    n_seeds = atoi(argv[1]);
    first_seed = strtoull(argv[2], NULL, 10);
    only_pass = argc > 3 ? argv[3] : NULL;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_opcodes),
                                     cmocka_unit_test(test_alternatives)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
