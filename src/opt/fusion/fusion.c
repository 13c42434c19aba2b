// opt/fusion/fusion.c: the fusion engine.
//
// Instructions wait in a queue, users first. Each tries to take in its operands, the nearest one
// first: for c = f(a, b), b = g(a) that is b, so that a need not be copied twice. On the first
// success the consumer is a fusion, and stands in the queue again with its new operands. A producer
// whose last user took it in is erased; the others go on being computed for the rest.
//
//   a = exponential(x)             f = fusion(x, y), calls={
//   r = add(a, y)           =>       ROOT add(exponential(x), y)
//                                  }
//
// What may and what should be fused is a target's policy (FusionPolicy).

#include <stdlib.h>
#include <string.h>

#include "opt/fusion/fuser.h"

HlPass *fuser_pass(const Fuser *f) {
  return f->p;
}

// --- Questions of policies ----------------------------------------------------------------------

// Getting cheaper with every copy: less is read.
static bool may_always_be_copied(const HlInst *inst) {
  if (inst->op == HL_OP_BROADCAST)
    return true;
  return inst->op == HL_OP_CONVERT && hl_dtype_info[inst->operands[0]->shape->dtype].bits <
                                          hl_dtype_info[inst->shape->dtype].bits;
}

const char *fuser_refuses(Fuser *f, HlInst *consumer, int operand) {
  const HlInst *producer = consumer->operands[operand];
  if (producer == f->comp->root)
    return "the producer is the result of the computation";
  if (fusion_duplicates(producer, consumer) && !may_always_be_copied(producer)) {
    if (!f->policy->may_duplicate)
      return "others need the producer, too, and nothing is computed twice";
    if (f->policy->is_expensive(producer))
      return "others need the producer, too, and it is expensive to compute twice";
  }
  return fusion_breaks_in_place(producer, consumer)
             ? "the consumer writes over what the producer reads"
             : NULL;
}

static bool *again_of_fusion(Fuser *f, const HlInst *fusion) {
  bool **again = &f->again[fusion->id];
  if (!*again) {
    *again = HL_ARRAY(f->p->arena, bool, fusion->n_operands + 1);
    for (uint32_t k = 0; k < fusion->n_operands; k++)
      (*again)[k] = fusion_use(fusion, (int)k) == FUSION_USE_AGAIN;
  }
  return *again;
}

bool fuser_reuses(Fuser *f, HlInst *consumer, int operand) {
  if (consumer->op == HL_OP_FUSION)
    return again_of_fusion(f, consumer)[operand];
  if (fusion_use(consumer, operand) == FUSION_USE_AGAIN)
    return true;
  if (consumer->op == HL_OP_CONCATENATE)
    return false;
  const HlInst *producer = consumer->operands[operand];
  for (uint32_t k = 0; k < consumer->n_operands; k++)
    if (consumer->operands[k] == producer && fusion_use(consumer, (int)k) == FUSION_USE_AGAIN)
      return true;
  return false;
}

bool fuser_repeats_code(Fuser *f, HlInst *fusion, int operand) {
  FusionCode **code = &f->code[fusion->id];
  if (!*code)
    *code = fusion_code_of(f->p->arena, fusion);
  return fusion_code_too_long(*code, fusion->operands[operand], operand);
}

int fuser_n_reduces(Fuser *f, const HlInst *fusion) {
  int *n = &f->n_reduces[fusion->id];
  if (*n == 0) {
    *n = 1;
    for (const HlInst *inst = fusion_body(fusion)->first; inst; inst = inst->next)
      *n += inst->op == HL_OP_REDUCE;
  }
  return *n - 1;
}

// --- Fusing -------------------------------------------------------------------------------------

static HlInst *wrap_consumer(Fuser *f, HlInst *producer, HlInst *consumer, int kind) {
  if (consumer->op == HL_OP_FUSION) {
    if (fusion_own_body(consumer))
      f->code[consumer->id] = NULL;
    if (fusion_kind(consumer) != kind)
      hl_set_int(consumer, HL_A_KIND, kind);
    return consumer;
  }
  const char *name = hl_arena_printf(f->p->arena, "%s_%s_fusion", hl_op_text(producer->op),
                                     hl_op_text(consumer->op));
  HlInst *fusion = fusion_wrap(f->p->arena, consumer, kind, name, "fused_computation");
  f->place[fusion->id] = -1;
  return fusion;
}

// Reads of the fusion's operands after operand `at` gave way to the producer's operands. A producer
// whose elements are read again passes that on; else its own reads count.
static void follow_reads(Fuser *f, const HlInst *fusion, int n_before, int at, HlInst *producer) {
  bool *again = f->again[fusion->id];
  bool was_read_again = again[at];
  memmove(again + at, again + at + 1, (size_t)(n_before - at - 1));
  if ((int)fusion->n_operands > n_before) {
    bool *grown = HL_ARRAY(f->p->arena, bool, fusion->n_operands);
    again = memcpy(grown, again, (size_t)n_before - 1);
  } else {
    memset(again + n_before - 1, 0, (size_t)((int)fusion->n_operands - (n_before - 1)));
  }
  for (uint32_t k = 0; k < producer->n_operands; k++)
    if (was_read_again || fuser_reuses(f, producer, (int)k))
      again[fusion_operand_index(fusion, producer->operands[k])] = true;
  f->again[fusion->id] = again;
}

static HlInst *fuse(Fuser *f, HlInst *producer, HlInst *consumer) {
  HlInst *fusion = wrap_consumer(f, producer, consumer, f->policy->kind(f, producer, consumer));
  again_of_fusion(f, fusion);
  FusionCode **code = &f->code[fusion->id];
  if (f->policy->may_duplicate && !*code)
    *code = fusion_code_of(f->p->arena, fusion);
  int n_before = (int)fusion->n_operands, at = fusion_operand_index(fusion, producer);
  const HlInst *copy = fusion_fuse(f->p->arena, fusion, producer);
  follow_reads(f, fusion, n_before, at, producer);
  if (*code && producer->op != HL_OP_FUSION)
    fusion_code_fused(f->p->arena, *code, fusion, at, copy);
  else
    *code = NULL;
  if (producer->op == HL_OP_FUSION)
    f->n_reduces[fusion->id] = 0;
  else if (f->n_reduces[fusion->id] > 0)
    f->n_reduces[fusion->id] += producer->op == HL_OP_REDUCE;
  return fusion;
}

// --- The queue ----------------------------------------------------------------------------------

static int nearest_first(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  if (x->place != y->place)
    return x->place > y->place ? -1 : 1;
  return x->operand - y->operand;
}

// The operands that are still in the queue. They stay valid until the next call.
static Candidate *candidates(Fuser *f, const HlInst *consumer, int *n) {
  f->candidates.n = 0;
  for (uint32_t k = 0; k < consumer->n_operands; k++) {
    Candidate found = {(int)k, f->place[consumer->operands[k]->id], NULL};
    if (found.place >= 0)
      vec_push(&f->candidates, found);
  }
  *n = f->candidates.n;
  if (*n > 1)
    qsort(f->candidates.at, (size_t)*n, sizeof(Candidate), nearest_first);
  return f->candidates.at;
}

static void enqueue(Fuser *f, HlInst *inst) {
  f->place[inst->id] = f->n_queue;
  f->queue[f->n_queue++] = inst;
}

static HlInst *dequeue(Fuser *f) {
  while (f->n_queue > 0) {
    HlInst *inst = f->queue[--f->n_queue];
    if (!inst)
      continue;
    f->place[inst->id] = -1;
    return inst;
  }
  return NULL;
}

// What was noted of a fusion that is not there, or is what it was, after all.
static void forget(Fuser *f, uint32_t id) {
  f->again[id] = NULL;
  f->code[id] = NULL;
  f->n_reduces[id] = 0;
}

static bool take_in(Fuser *f, HlInst *producer, HlInst *consumer) {
  if (!hl_change(f->p, "fuse", consumer, producer))
    return false;
  HlInst *fusion = fuse(f, producer, consumer);
  const uint32_t id = fusion->id;
  const int place = f->place[producer->id];
  const bool is_dead = !producer->first_use;
  if (is_dead)
    hl_erase(producer);
  if (!hl_changed(f->p)) {
    forget(f, id);
    return false;
  }
  if (is_dead)
    f->queue[place] = NULL;
  f->grew[id] = true;
  enqueue(f, fusion);
  return true;
}

static const char *refusal(Fuser *f, HlInst *consumer, int operand) {
  return f->keep_whole[consumer->operands[operand]->id]
             ? "it is computed once: a copy for each user would read more than there is to write, "
               "or round otherwise"
             : f->policy->refuses(f, consumer, operand);
}

// Takes in one operand of the consumer, if one is to be; else that was the last word on all.
static bool fuse_one(Fuser *f, HlInst *consumer) {
  int n;
  Candidate *order = candidates(f, consumer, &n);
  for (int k = 0; k < n; k++) {
    HlInst *producer = consumer->operands[order[k].operand];
    if (!fusion_is_fusible(producer))
      continue;
    order[k].refusal = refusal(f, consumer, order[k].operand);
    if (!order[k].refusal && take_in(f, producer, consumer))
      return true;
  }
  for (int k = 0; k < n; k++)
    if (order[k].refusal && consumer->op != HL_OP_TUPLE)
      hl_refuse(f->p, consumer, consumer->operands[order[k].operand], order[k].refusal);
  return false;
}

static void start(Fuser *f, HlComp *comp) {
  HlArena *arena = f->p->arena;
  HlInst **order = hl_post_order(arena, comp);
  int n = (int)comp->n_insts;
  f->comp = comp;
  f->n_ids = comp->next_id + (uint32_t)n;
  f->place = HL_ARRAY(arena, int, f->n_ids);
  f->keep_whole = HL_ARRAY(arena, bool, f->n_ids);
  f->again = HL_ARRAY(arena, bool *, f->n_ids);
  f->code = HL_ARRAY(arena, FusionCode *, f->n_ids);
  f->n_reduces = HL_ARRAY(arena, int, f->n_ids);
  f->grew = HL_ARRAY(arena, bool, f->n_ids);
  f->queue = HL_ARRAY(arena, HlInst *, n + 1);
  f->n_queue = 0;
  for (int k = 0; k < n; k++)
    enqueue(f, order[k]);
  if (f->policy->may_duplicate)
    fuser_find_keep_whole(f, order, n);
  for (int k = 0; k < n && f->policy->keeps_whole; k++)
    f->keep_whole[order[k]->id] |= f->policy->keeps_whole(order[k]);
}

static void fuse_comp(Fuser *f, HlComp *comp) {
  HlMark mark = hl_arena_mark(f->p->arena);
  start(f, comp);
  for (HlInst *inst = dequeue(f); inst; inst = dequeue(f)) {
    if (!fusion_is_fusible(inst))
      continue;
    if (!fuse_one(f, inst) && f->grew[inst->id])
      fusion_name_params(inst);
  }
  hl_arena_release(f->p->arena, mark);
}

bool fusion_run(HlPass *p, const FusionPolicy *policy) {
  Fuser f = {.p = p, .policy = policy};
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int k = 0; k < n; k++)
    if (comps[k]->n_insts > 1 && !(policy->skips && policy->skips(comps[k])))
      fuse_comp(&f, comps[k]);
  vec_free(&f.candidates);
  return true;
}
