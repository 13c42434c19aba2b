// How many alternatives a second one thread tries on a module: a mark, one rewrite, what it changes, undo.
//
//   alternatives FILE [SECONDS]    {"instructions": 143, "alternatives": 97, "per_second": 52000}
//
// An alternative is the fusion of an instruction into one of its users, over and over through all there are. What it
// changes: instructions of each op, flops and bytes of what was touched. After all the module prints as before.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/cost.h"
#include "hilo/edit.h"
#include "hilo/pass.h"
#include "hilo/text.h"
#include "hilo/tool.h"

typedef struct Pair {
  HlInst *producer, *user;
} Pair;

// What an alternative changes.
typedef struct Features {
  int ops[HL_OP_COUNT];
  double flops, bytes;
} Features;

static bool can_be_inside(const HlInst *inst) {
  return hl_shape_is_array(inst->shape) && inst->n_calls == 0 && hl_is_pure(inst) &&
         !hl_has_control(inst) && inst->op != HL_OP_PARAMETER;
}

static Pair *all_pairs(const HlModule *m, int *n) {
  HlBuf found = {0};
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *user = comp->is_fusion ? NULL : comp->first; user; user = user->next)
      for (uint32_t k = 0; can_be_inside(user) && k < user->n_operands; k++) {
        const Pair pair = {user->operands[k], user};
        if (can_be_inside(pair.producer))
          hl_buf_add(&found, &pair, sizeof pair);
      }
  *n = (int)(found.n / sizeof(Pair));
  return (Pair *)(void *)found.at;
}

// --- The rewrite --------------------------------------------------------------------------------

enum { MOST = 64 };  // operands of a fusion

// The parameter of the body that stands for an operand, made when it is new.
static HlInst *parameter_for(HlComp *body, HlInst *operand, HlInst **operands, int *n) {
  for (int k = 0; k < *n; k++)
    if (operands[k] == operand)
      return body->params[k];
  operands[*n] = operand;
  return hl_parameter_new(body, (*n)++, operand->shape, NULL);
}

// A copy of an instruction in the body; `inside` stands for the instruction `of`.
static HlInst *copy_inside(HlComp *body, const HlInst *inst, const HlInst *of, HlInst *inside,
                           HlInst **operands, int *n) {
  HlInst *own[MOST];
  for (uint32_t k = 0; k < inst->n_operands; k++)
    own[k] = inst->operands[k] == of ? inside : parameter_for(body, inst->operands[k], operands, n);
  return hl_inst_copy(body, inst, NULL, (int)inst->n_operands, own);
}

static HlInst *fuse(HlModule *m, const Pair *pair) {
  HlInst *operands[2 * MOST], *user = pair->user;
  int n = 0;
  const HlSym *name = hl_fresh_comp_name(m, "fused_computation");
  HlComp *body = hl_comp_new(m, name->text, name->n);
  hl_comp_set_fusion(body);
  HlInst *inside = copy_inside(body, pair->producer, NULL, NULL, operands, &n);
  hl_set_root(body, copy_inside(body, user, pair->producer, inside, operands, &n));
  HlInst *fusion = hl_inst_new(user->comp, HL_OP_FUSION, user->shape, NULL, n, operands);
  hl_set_int(fusion, HL_A_KIND, HL_WORD_fusion_kind_LOOP);
  hl_set_calls(fusion, 1, &body);
  hl_inherit(fusion, user);
  hl_replace_uses(user, fusion);
  hl_erase(user);
  if (!pair->producer->first_use && pair->producer != pair->producer->comp->root)
    hl_erase(pair->producer);
  return fusion;
}

// --- Its features ---------------------------------------------------------------------------------

static void add(Features *f, const HlInst *inst, int sign) {
  const HlCost cost = hl_cost_inst(inst);
  f->ops[inst->op] += sign;
  f->flops += sign * cost.flops;
  f->bytes += sign * (cost.bytes_read + cost.bytes_written);
}

static Features try_one(HlModule *m, const Pair *pair) {
  Features f = {0};
  const HlEditMark mark = hl_mark(m);
  add(&f, pair->producer, -1);
  add(&f, pair->user, -1);
  add(&f, fuse(m, pair), 1);
  if (hl_alive(pair->producer))
    add(&f, pair->producer, 1);
  hl_undo(m, mark);
  return f;
}

static bool is_small(const Pair *pair) {
  return pair->producer->n_operands < MOST && pair->user->n_operands < MOST;
}

static void print(HlCx *cx, const HlModule *m, HlBuf *out) {
  hl_text_print(cx, m, NULL, out);
}

static int measure(HlCx *cx, HlModule *m, double seconds) {
  HlBuf before = {0}, after = {0};
  int n;
  Pair *pairs = all_pairs(m, &n);
  double bytes = 0;
  int64_t tried = 0;
  print(cx, m, &before);
  hl_prepare_marks(m);
  const double start = hl_now();
  for (; n > 0 && hl_now() < start + seconds; tried += n)
    for (int k = 0; k < n; k++)
      if (is_small(&pairs[k]))
        bytes += try_one(m, &pairs[k]).bytes;
  const double took = hl_now() - start;
  print(cx, m, &after);
  const bool same = before.n == after.n && memcmp(before.at, after.at, after.n) == 0;
  printf("{\"instructions\": %lld, \"alternatives\": %d, \"per_second\": %.0f, "
         "\"bytes_saved\": %.0f, \"same\": %s}\n",
         (long long)hl_count_instructions(m), n, (double)tried / took,
         tried ? -bytes / (double)tried : 0.0, same ? "true" : "false");
  hl_buf_free(&before);
  hl_buf_free(&after);
  free(pairs);
  return same && tried > 0 ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: alternatives FILE [SECONDS]\n");
    return 2;
  }
  HlCx *cx = hl_cx_new();
  HlFile file = {0};
  int status = 2;
  if (hl_load(cx, argv[1], NULL, &file) && file.n > 0)
    status = measure(cx, file.modules[0], argc > 2 ? atof(argv[2]) : 2);
  hl_file_free(&file);
  hl_cx_free(cx);
  return status;
}
