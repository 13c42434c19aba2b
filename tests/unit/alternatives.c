// Alternatives, features and the DAG hash on modules small enough to say what must come out.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/alternatives.h"
#include "hilo/features.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/verify.h"

typedef struct Case {
  HlCx *cx;
  HlFile file;
  HlModule *m;
  HlProposals *proposals;
} Case;

static Case open_case(const char *text, const char *pass) {
  Case c = {.cx = hl_cx_new()};
  HlSource *source = hl_source_new("case", text, strlen(text), false);
  assert_true(hl_load_source(c.cx, source, &(HlLoadOptions){0}, &c.file));
  hl_source_unref(source);
  c.m = c.file.modules[0];
  c.proposals = hl_propose(c.cx, c.m, pass, &(HlProposeOptions){.target = hl_target_find("a100")});
  assert_non_null(c.proposals);
  return c;
}

static void close_case(Case *c) {
  hl_proposals_free(c->proposals);
  hl_file_free(&c->file);
  hl_cx_free(c->cx);
}

static char *text_of(const Case *c) {
  HlBuf out = {0};
  hl_text_print(c->cx, c->m, NULL, &out);
  return out.at;
}

static HlInst *find(const Case *c, const char *name) {
  return hl_find_inst(c->m->entry, hl_str(name));
}

// Selects one operand everywhere, as far as there is one.
static void select_all(const Case *c, int64_t operand) {
  HlArena *arena = hl_arena_new();
  int n;
  HlInst **nodes = hl_alternatives(arena, c->m, &n);
  HlSelection *choice = HL_ARRAY(arena, HlSelection, n + 1);
  for (int k = 0; k < n; k++)
    choice[k] = (HlSelection){nodes[k], operand < nodes[k]->n_operands ? operand : 0};
  assert_true(hl_alternatives_select(c->cx, c->m, n, choice));
  assert_true(hl_verify(c->cx, c->m, NULL));
  hl_arena_free(arena);
}

// b takes in a, c takes in b: both are offered, from the module as it is.
static const char chain[] =
    "HloModule chain\nENTRY main {\n  x = f32[64]{0} parameter(0)\n  a = f32[64]{0} negate(x)\n"
    "  b = f32[64]{0} abs(a)\n  ROOT c = f32[64]{0} floor(b)\n}\n";

static void overlapping_rewrites(void **state) {
  (void)state;
  Case c = open_case(chain, "general-fusion");
  char *before = text_of(&c);
  assert_int_equal(hl_n_proposals(c.proposals), 2);
  assert_int_equal(hl_alternatives_make(c.cx, c.m, c.proposals), 2);
  const HlInst *root = c.m->entry->root;
  assert_int_equal(root->op, HL_OP_ALTERNATIVES);
  assert_string_equal(root->operands[0]->name->text, "c");
  assert_int_equal(root->operands[1]->op, HL_OP_FUSION);
  assert_ptr_equal(root->operands[1]->operands[0], find(&c, "a"));
  assert_int_equal(hl_choice_origin(c.proposals, root, 0), -1);
  assert_string_equal(hl_proposal(c.proposals, hl_choice_origin(c.proposals, root, 1)).inst, "c");
  const HlEditMark mark = hl_mark(c.m);
  select_all(&c, 0);
  char *after = text_of(&c);
  assert_string_equal(before, after);
  hl_undo(c.m, mark);
  select_all(&c, 1);
  assert_int_equal(hl_count_instructions(c.m), 2 + 1 + 3);  // x, a, the fusion; its body
  free(after);
  free(before);
  close_case(&c);
}

// Both results are wanted: one fusion gives them, and each reader may choose for itself.
static const char both[] =
    "HloModule both\nENTRY main {\n  x = f32[64]{0} parameter(0)\n  p = f32[64]{0} exponential(x)\n"
    "  c = f32[64]{0} negate(p)\n  ROOT t = (f32[64]{0}, f32[64]{0}) tuple(p, c)\n}\n";

static void several_results(void **state) {
  (void)state;
  Case c = open_case(both, "general-fusion");
  assert_int_equal(hl_n_proposals(c.proposals), 2);
  assert_int_equal(hl_proposal(c.proposals, 0).rewrite, hl_proposal(c.proposals, 1).rewrite);
  assert_int_equal(hl_alternatives_make(c.cx, c.m, c.proposals), 2);
  const HlInst *root = c.m->entry->root;
  const HlInst *first = root->operands[0], *second = root->operands[1];
  assert_int_equal(first->op, HL_OP_ALTERNATIVES);
  assert_int_equal(second->op, HL_OP_ALTERNATIVES);
  assert_ptr_equal(first->operands[1]->operands[0],
                   second->operands[1]->operands[0]);  // one fusion
  assert_ptr_equal(find(&c, "c")->operands[0],
                   find(&c, "p"));  // is no reader of what it is part of
  select_all(&c, 1);
  assert_null(find(&c, "p"));
  close_case(&c);
}

static void applied_in_order(void **state) {
  (void)state;
  Case c = open_case(chain, "general-fusion");
  HlRewriteStatus status[3];
  bool adjacent[4];
  hl_proposals_adjacency(c.proposals, adjacent);
  assert_true(adjacent[0] && adjacent[1] && adjacent[2] && adjacent[3]);
  assert_false(hl_proposals_apply(c.cx, c.m, c.proposals, 1, (const int64_t[]){2}, status));
  hl_cx_clear(c.cx);
  assert_true(hl_proposals_apply(c.cx, c.m, c.proposals, 3, (const int64_t[]){0, 1, 0}, status));
  assert_int_equal(status[0], HL_REWRITE_OK);
  assert_int_equal(status[1], HL_REWRITE_ADJACENCY);
  assert_int_equal(status[2], HL_REWRITE_ALREADY_APPLIED);
  assert_true(hl_verify(c.cx, c.m, NULL));
  assert_false(hl_proposals_apply(c.cx, c.m, c.proposals, 0, NULL, status));  // they are spent
  close_case(&c);
}

// A replacement that is there already, and one for some of the readers only in another computation.
static void known_values(void **state) {
  (void)state;
  Case c = open_case(
      "HloModule m\nENTRY main {\n  x = f32[4]{0} parameter(0)\n  a = f32[4]{0} negate(x)\n"
      "  b = f32[4]{0} negate(x)\n  ROOT s = f32[4]{0} subtract(a, b)\n}\n",
      "cse");
  assert_int_equal(hl_n_proposals(c.proposals), 1);
  assert_true(hl_proposal(c.proposals, 0).is_known);
  assert_int_equal(hl_alternatives_make(c.cx, c.m, c.proposals), 1);
  const HlInst *root = c.m->entry->root;
  assert_ptr_equal(root->operands[1]->operands[1], root->operands[0]);
  select_all(&c, 1);
  assert_int_equal(hl_count_instructions(c.m), 3);
  close_case(&c);
}

static void decisions_are_checked(void **state) {
  (void)state;
  Case c = open_case(chain, "general-fusion");
  HlFeatures f = {0};
  hl_alternatives_make(c.cx, c.m, c.proposals);
  assert_true(hl_features_fill(c.cx, c.m, NULL, &f));
  const int64_t a = f.graph_alternative_indices[0], b = f.graph_alternative_indices[1];
  assert_false(hl_alternatives_decide(c.cx, c.m, 1, (const int64_t[]){a, 0}));
  assert_false(hl_alternatives_decide(c.cx, c.m, 2, (const int64_t[]){a, 0, a, 0}));
  assert_false(hl_alternatives_decide(c.cx, c.m, 2, (const int64_t[]){a, 0, b, 2}));
  assert_false(hl_alternatives_decide(c.cx, c.m, 2, (const int64_t[]){a, 0, f.node_uids[b], 0}));
  hl_cx_clear(c.cx);
  assert_true(hl_alternatives_decide(c.cx, c.m, 2,
                                     (const int64_t[]){f.node_uids[b], 0, f.node_uids[a], 1}));
  hl_features_free(&f);
  close_case(&c);
}

static void pruning(void **state) {
  (void)state;
  Case c =
      open_case("HloModule m\nf {\n  p = f32[4]{0} parameter(0)\n  q = f32[4]{0} parameter(1)\n"
                "  d = f32[4]{0} abs(q)\n  ROOT r = f32[4]{0} negate(p)\n}\nENTRY main {\n"
                "  x = f32[4]{0} parameter(0)\n  y = f32[4]{0} floor(x)\n"
                "  ROOT z = f32[4]{0} fusion(x, y), kind=kLoop, calls=f\n}\n",
                "dce");
  const uint64_t hash = hl_dag_hash(c.m);
  hl_prune(c.m);
  assert_true(hl_verify(c.cx, c.m, NULL));
  assert_int_equal(hl_count_instructions(c.m), 4);
  assert_int_equal(c.m->entry->root->n_operands, 1);
  assert_true(hl_dag_hash(c.m) == hash);  // what is dead does not count
  close_case(&c);
}

static void normal_args(void **state) {
  (void)state;
  Case c = open_case("HloModule m\nENTRY main {\n  x = f64[3]{0} parameter(0)\n  ROOT y = "
                     "s32[2]{0} parameter(1)\n}\n",
                     "dce");
  const double expected[] = {0.26112290686687711, 0.057052101697761579, 1.8345837359925585};
  HlLiteral *args[2];
  assert_true(hl_normal_args(c.cx, c.m, 53, args));
  for (int k = 0; k < 3; k++)
    assert_true(hl_literal_f64(args[0], k) == expected[k]);
  assert_true(hl_literal_is_all(args[1], 0));
  hl_literal_unref(args[0]);
  hl_literal_unref(args[1]);
  close_case(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(overlapping_rewrites),
                                     cmocka_unit_test(several_results),
                                     cmocka_unit_test(applied_in_order),
                                     cmocka_unit_test(known_values),
                                     cmocka_unit_test(decisions_are_checked),
                                     cmocka_unit_test(pruning),
                                     cmocka_unit_test(normal_args)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
