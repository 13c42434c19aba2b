// cpu/emit/stages.c: long chains of instructions are cut into stages, each a loop of its own over a block of vectors.
//
// A processor looks some two hundred instructions ahead. Where each waits for the one before, as in a polynomial, that is too few
// vectors at a time to keep it busy: with 50 instructions of 120 cycles it does a quarter of what it could. Of half a chain it sees
// twice as many vectors. What a stage leaves to a later one lies on the stack, in the nearest cache.

#include "cpu/emit/inst.h"

#include "base/vec.h"

enum { LONGEST = 70, MOST_STAGES = 8 };  // cycles

// Cycles until a result is there, about.
static int latency(const EmitInst *inst) {
  switch (inst->op) {
  case X86_VDIVPS:
  case X86_VDIVPD: return 13;
  case X86_VSQRTPS:
  case X86_VSQRTPD: return 18;
  case X86_VPAND:
  case X86_VPANDN:
  case X86_VPOR:
  case X86_VPXOR:
  case X86_VPTERNLOGD:
  case X86_VPADDD:
  case X86_VPSLLD_I:
  case X86_VPSRLD_I: return 1;
  default: return inst->kind == INST_LOAD ? 7 : inst->kind == INST_PICK ? 5 : 4;
  }
}

// By value: when it is there, cycles after the loop's first instruction. Returns the last.
static int find_depths(const EmitBody *body, int *depth) {
  int most = 0;
  for (int i = 0; i < body->loop.n; i++) {
    const EmitInst *inst = &body->loop.at[i];
    const int used[] = {inst->r, inst->v, inst->m, inst->s};
    int at = 0;
    for (int k = 0; k < 4; k++)
      if (used[k] >= 0 && depth[used[k]] > at)
        at = depth[used[k]];
    if (inst->d >= 0)
      depth[inst->d] = at + latency(inst);
    most = inst->d >= 0 && depth[inst->d] > most ? depth[inst->d] : most;
  }
  return most;
}

// What is loaded is loaded where it is first needed. What is stored is stored in the end, when all has been loaded.
static int *choose_stages(const EmitBody *body, const int *depth, int longest, int n) {
  int *stage = HL_ARRAY(body->arena, int, body->loop.n + 1);
  int *needed = HL_ARRAY(body->arena, int, body->values.n + 1);
  for (int v = 0; v < body->values.n; v++)
    needed[v] = n - 1;
  for (int i = body->loop.n - 1; i >= 0; i--) {
    const EmitInst *inst = &body->loop.at[i];
    const int used[] = {inst->r, inst->v, inst->m, inst->s};
    stage[i] = inst->kind == INST_STORE  ? n - 1
               : inst->kind == INST_LOAD ? needed[inst->d]
                                         : (depth[inst->d] - 1) * n / longest;
    for (int k = 0; k < 4; k++)
      if (used[k] >= 0 && needed[used[k]] > stage[i])
        needed[used[k]] = stage[i];
  }
  return stage;
}

bool emit_stages(const EmitBody *body, EmitStages *out) {
  int *depth = HL_ARRAY(body->arena, int, body->values.n + 1);
  const int longest = find_depths(body, depth);
  int n = (longest + LONGEST - 1) / LONGEST;
  n = n < MOST_STAGES ? n : MOST_STAGES;
  if (n < 2)
    return false;
  const int *stage = choose_stages(body, depth, longest, n);
  *out = (EmitStages){.n = n};
  out->end = HL_ARRAY(body->arena, int, n);
  out->kept = HL_ARRAY(body->arena, int, body->values.n + 1);
  int *made = HL_ARRAY(body->arena, int, body->values.n + 1);
  for (int v = 0; v < body->values.n; v++)
    out->kept[v] = made[v] = -1;
  for (int s = 0; s < n; s++) {
    for (int i = 0; i < body->loop.n; i++) {
      const EmitInst *inst = &body->loop.at[i];
      const int used[] = {inst->r, inst->v, inst->m, inst->s};
      if (stage[i] != s)
        continue;
      vec_push_in(body->arena, &out->list, *inst);
      if (inst->d >= 0)
        made[inst->d] = s;
      for (int k = 0; k < 4; k++)
        if (used[k] >= 0 && made[used[k]] >= 0 && made[used[k]] < s && out->kept[used[k]] < 0)
          out->kept[used[k]] = out->n_kept++;
    }
    out->end[s] = out->list.n;
  }
  return true;
}
