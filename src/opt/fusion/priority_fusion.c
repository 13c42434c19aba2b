// opt/fusion/priority_fusion.c
//
// priority-fusion: XLA's fusion for GPUs. Every producer has a price: the time that is saved when
// it is computed inside the kernels of all its users instead of by one of its own. The dearest goes
// first; then its operands and the new kernels are priced again.
//
//   e = exponential(x)                 f = fusion(x, y), kind=kLoop, calls={
//   a = add(e, y)            =>          ROOT add(exponential(x), y)
//   m = multiply(e, y)                 }
//                                      g = fusion(x, y), kind=kLoop, calls={ ROOT multiply(..) }
//
// fusion_merger does the same for fusions alone, in the order of the program; older releases run it
// after `fusion`.
//
// Nothing is fused where that costs time, say where a user reads each element many times and
// computing it is dear, or where an update in place would overwrite what is still read.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

// A producer that waits. The one of the highest price, among equals the newest, goes first.
typedef struct Entry {
  GpuTime price;
  HlInst *inst;
  uint32_t version;  // entries of older versions are void
} Entry;
typedef VEC(Entry) Entries;

typedef struct Queue {
  HlPass *p;
  HlComp *comp;
  Entries heap;
  uint32_t *version;  // by id
  GpuCost **cost;     // by id
  uint32_t *seen;     // by id: the step in which it was met
  uint32_t step;
  uint32_t *asked;  // by id: the price for which it was asked
  uint32_t prices;
  bool *needs_tile;  // by id
  bool grew;         // something was fused
} Queue;

// --- The heap -----------------------------------------------------------------------------------

static bool goes_first(const Entry *a, const Entry *b) {
  return a->price != b->price ? a->price > b->price : a->inst->id > b->inst->id;
}

HEAP(entries, Entry, Entries, goes_first)

// --- May they be fused --------------------------------------------------------------------------

static bool has_kernel(const HlTarget *t, const HlInst *inst) {
  if (hl_has_control(inst))
    return false;
  switch (inst->op) {
  case HL_OP_CONSTANT:
  case HL_OP_IOTA:
  case HL_OP_REDUCE:
  case HL_OP_SCATTER: return true;
  case HL_OP_RNG:
  case HL_OP_MAP: return false;
  case HL_OP_FUSION: return !fusion_is_custom(inst) || gpu_is_triton(inst);
  default: return gpu_is_loop_fusible(t, inst);
  }
}

static const HlInst *scatter_of(const HlInst *inst) {
  const HlInst *root = inst->op == HL_OP_FUSION ? fusion_body(inst)->root : inst;
  return root->op == HL_OP_SCATTER ? root : NULL;
}

// The buffer that a scatter writes into is what the producer makes or reads.
static bool feeds_scatter(const HlInst *producer, const HlInst *consumer) {
  const HlInst *scatter = scatter_of(consumer);
  if (!scatter)
    return false;
  const HlInst *buffer = scatter->operands[0];
  if (scatter != consumer) {
    if (buffer->op != HL_OP_PARAMETER)
      return false;
    buffer = consumer->operands[hl_parameter_number(buffer)];
  }
  return buffer == producer || fusion_operand_index(producer, buffer) >= 0;
}

static const GpuCost *cost_of(Queue *q, const HlInst *inst) {
  GpuCost **cost = &q->cost[inst->id];
  if (!*cost) {
    *cost = HL_NEW(q->p->arena, GpuCost);
    **cost = gpu_cost(gpu_target(q->p), q->p->arena, inst);
  }
  return *cost;
}

// NULL: the two may be one kernel; or why not.
static const char *refuses(Queue *q, const HlInst *producer, const HlInst *consumer) {
  if (producer == q->comp->root)
    return "the producer is the result of the computation";
  if (!hl_shape_is_array(producer->shape) || !has_kernel(gpu_target(q->p), producer) ||
      !has_kernel(gpu_target(q->p), consumer) || consumer->op == HL_OP_BITCAST ||
      consumer->op == HL_OP_CONSTANT)
    return "no kernel of ours computes one of the two";
  if (scatter_of(producer))
    return "the producer is a scatter";
  if (feeds_scatter(producer, consumer))
    return "the consumer scatters into what the producer makes or reads";
  if (gpu_is_triton(producer) || gpu_is_triton(consumer))
    return gpu_tiles_join(producer, consumer) ? NULL
                                              : "a tile of the result takes no tile of the rest";
  const GpuCost *of_producer = cost_of(q, producer), *of_consumer = cost_of(q, consumer);
  if (of_producer->reduces_many && of_consumer->reduces_many)
    return "the inner one of two reductions would be computed again and again";
  if (of_producer->emitter == GPU_REDUCTION &&
      gpu_emitter_of_both(producer, of_producer->emitter, consumer, of_consumer->emitter) ==
          GPU_LOOP)
    return "blocks of threads would no longer reduce together";
  if (!gpu_fits(gpu_target(q->p), consumer, of_consumer->needs, producer, of_producer->needs,
                false))
    return "a kernel has no room for the arguments, reductions or shared memory of both";
  if (fusion_breaks_in_place(producer, consumer))
    return "the consumer writes over what the producer reads";
  return gpu_code_fused(producer, of_producer, consumer, of_consumer) > GPU_MAX_CODE
             ? "the code of both is too long for a kernel"
             : NULL;
}

static bool may_fuse(Queue *q, const HlInst *producer, const HlInst *consumer) {
  return !refuses(q, producer, consumer);
}

// --- Prices -------------------------------------------------------------------------------------

// A producer that must not be fused, and one that goes before all others, as it costs nothing.
#define NEVER INT64_MIN
#define ALWAYS INT64_MAX

// Of the users' kernels and the producer's own.
typedef struct Times {
  GpuTime fused, unfused;
} Times;

// What a user that has no kernel costs counts, too: nothing by itself, all that the producer costs with it inside.
static GpuTime price(Queue *q, const HlInst *producer, Times *times) {
  if (producer->op == HL_OP_BITCAST)
    return ALWAYS;
  const HlTarget *t = gpu_target(q->p);
  const bool by_tiles = gpu_is_triton(producer);
  *times = (Times){0};
  bool has_user = false;
  q->prices++;
  for (const HlUse *use = producer->first_use; use; use = use->next) {
    const HlInst *user = use->user;
    if (q->asked[user->id] == q->prices)
      continue;
    q->asked[user->id] = q->prices;
    if (user->op != HL_OP_BITCAST && !may_fuse(q, producer, user))
      return NEVER;
    has_user |= user->op != HL_OP_BITCAST;
    if (by_tiles || gpu_is_triton(user))
      continue;  // a tile of the producer is computed once for a tile of the result
    const GpuCost *of_producer = cost_of(q, producer), *of_user = cost_of(q, user);
    times->unfused += of_user->alone;
    times->fused += gpu_time_fused(t, producer, of_producer, user, of_user, false);
  }
  if (!has_user)
    return NEVER;
  times->unfused += gpu_time_to_launch(t) + cost_of(q, producer)->alone;
  return times->unfused - times->fused;
}

// --- Telling of it ------------------------------------------------------------------------------

enum { UNITS_PER_US = 4000 };

static bool computes(const HlTarget *t, const HlInst *inst) {
  return inst->op != HL_OP_BITCAST && has_kernel(t, inst);
}

// A producer goes into all its users or none: who of them says no, if none does it takes time.
static const char *refuses_users(Queue *q, const HlInst *producer, const HlInst **user) {
  const HlInst *other = NULL;
  for (const HlUse *use = producer->first_use; use; use = use->next) {
    if (!computes(gpu_target(q->p), use->user)) {
      other = use->user->op == HL_OP_BITCAST ? other : use->user;
      continue;
    }
    *user = use->user;
    const char *why = refuses(q, producer, *user);
    if (why)
      return why;
  }
  return other ? hl_arena_printf(q->p->arena, "|%s| needs the producer, too", other->name->text)
               : NULL;
}

static void tell_barred(Queue *q, const HlInst *producer, const char *why) {
  hl_tell_fusion_step(
      q->p, &(HlFusionStep){.kind = HL_STEP_BARRED, .producer = producer->name->text, .why = why});
}

static void tell_price(Queue *q, const HlInst *producer, GpuTime saved, const Times *times) {
  const HlInst *user = NULL;
  HlFusionStep step = {.kind = HL_STEP_BARRED, .producer = producer->name->text};
  if (saved == ALWAYS)
    return;
  if (saved == NEVER) {
    const char *why = refuses_users(q, producer, &user);
    step.why = why ? why : "not fusing because there are only bitcast users";
  } else {
    int n = 0;
    for (const HlUse *use = producer->first_use; use; use = use->next)
      n += hl_is_first_use(use);
    const char **users = HL_ARRAY(q->p->arena, const char *, n + 1);
    n = 0;
    for (const HlUse *use = producer->first_use; use; use = use->next)
      if (hl_is_first_use(use))
        users[n++] = use->user->name->text;
    step.kind = HL_STEP_PRICED;
    step.users = users;
    step.n_users = n;
    const GpuTime launches = n * gpu_time_to_launch(gpu_target(q->p));  // of the users, either way
    step.us_fused = (double)(times->fused + launches) / UNITS_PER_US;
    step.us_unfused = (double)(times->unfused + launches) / UNITS_PER_US;
  }
  hl_tell_fusion_step(q->p, &step);
}

// --- The queue ----------------------------------------------------------------------------------

static void enqueue(Queue *q, HlInst *inst) {
  q->version[inst->id]++;
  if (inst->op == HL_OP_CONSTANT || inst->op == HL_OP_PARAMETER || inst->op == HL_OP_TUPLE ||
      inst->op == HL_OP_GET_TUPLE_ELEMENT)
    return;
  if (!inst->first_use || !has_kernel(gpu_target(q->p), inst)) {
    if (inst->first_use || q->grew)
      tell_barred(q, inst,
                  inst->first_use ? "the producer is not fusible" : "no users to fuse into");
    return;
  }
  Times times;
  const GpuTime of_inst = price(q, inst, &times);
  if (hl_wants_fusion_steps(q->p))
    tell_price(q, inst, of_inst, &times);
  if (of_inst >= 0)
    entries_push(NULL, &q->heap, (Entry){of_inst, inst, q->version[inst->id]});
}

// --- Fusing -------------------------------------------------------------------------------------

static HlInst *fuse(Queue *q, HlInst *producer, HlInst *consumer) {
  HlArena *scratch = q->p->arena;
  int kind = gpu_kind(gpu_emitter_of_both(producer, cost_of(q, producer)->emitter, consumer,
                                          cost_of(q, consumer)->emitter));
  HlInst *fusion = consumer->op == HL_OP_FUSION
                       ? consumer
                       : fusion_wrap(scratch, consumer, kind, "fusion", "fused_computation");
  const HlInst *like = gpu_is_triton(fusion) ? fusion : producer;
  q->needs_tile[fusion->id] = gpu_is_triton(like);
  if (!gpu_is_triton(like))
    hl_set_int(fusion, HL_A_KIND, kind);
  else if (like != fusion)
    gpu_set_triton(scratch, fusion, like);
  fusion_fuse(scratch, fusion, producer);
  q->cost[fusion->id] = NULL;
  return fusion;
}

static HlInst **users_of(Queue *q, const HlInst *producer, int *n) {
  *n = 0;
  for (const HlUse *use = producer->first_use; use; use = use->next)
    *n += hl_is_first_use(use);
  HlInst **users = HL_ARRAY(q->p->arena, HlInst *, *n + 1);
  *n = 0;
  for (const HlUse *use = producer->first_use; use; use = use->next)
    if (hl_is_first_use(use))
      users[(*n)++] = use->user;
  return users;
}

// Pricing what many use takes long, and one user more or less changes little: it is priced once.
enum { MANY_USERS = 64 };

static bool has_many_users(const HlInst *inst) {
  int n = 0;
  for (const HlUse *use = inst->first_use; use && n <= MANY_USERS; use = use->next)
    n++;
  return n > MANY_USERS;
}

static void enqueue_once(Queue *q, HlInst *inst) {
  if (q->seen[inst->id] == q->step || (q->version[inst->id] > 0 && has_many_users(inst)))
    return;
  q->seen[inst->id] = q->step;
  enqueue(q, inst);
}

// Prices of what the fusions read, of them, and of those that share a user with the producer, have
// changed.
static void enqueue_around(Queue *q, HlInst *const *fusions, int n) {
  for (int k = 0; k < n; k++) {
    for (uint32_t o = 0; o < fusions[k]->n_operands; o++)
      enqueue_once(q, fusions[k]->operands[o]);
    enqueue_once(q, fusions[k]);
  }
}

static void fuse_into_users(Queue *q, HlInst *producer) {
  int n, n_fused = 0;
  HlInst **users = users_of(q, producer, &n);
  q->step++;
  for (int k = 0; k < n; k++)
    if (users[k]->op != HL_OP_BITCAST && hl_alive(users[k]) && may_fuse(q, producer, users[k]) &&
        hl_change(q->p, "fuse", users[k], producer)) {
      const char *user = users[k]->name->text;
      HlInst *fusion = fuse(q, producer, users[k]);
      hl_tell_fusion_step(q->p, &(HlFusionStep){.kind = HL_STEP_JOINED,
                                                .producer = producer->name->text,
                                                .users = &user,
                                                .n_users = 1,
                                                .fusion = fusion->name->text});
      if (!producer->first_use)
        fusion_erase(producer);
      if (hl_changed(q->p))
        users[n_fused++] = fusion;
    }
  q->grew |= n_fused > 0;
  enqueue_around(q, users, n_fused);
}

// Scalars are written into the code of whoever uses them.
static void fuse_constants(Queue *q) {
  int n;
  HlInst **insts = hl_pass_insts(q->p, q->comp, &n);
  for (int k = 0; k < n; k++)
    if (insts[k]->op == HL_OP_CONSTANT && hl_is_effective_scalar(insts[k]->shape))
      fuse_into_users(q, insts[k]);
}

static Queue start_queue(HlPass *p, HlComp *comp) {
  uint32_t n_ids = comp->next_id + comp->n_insts;
  return (Queue){.p = p,
                 .comp = comp,
                 .version = HL_ARRAY(p->arena, uint32_t, n_ids),
                 .cost = HL_ARRAY(p->arena, GpuCost *, n_ids),
                 .needs_tile = HL_ARRAY(p->arena, bool, n_ids),
                 .asked = HL_ARRAY(p->arena, uint32_t, n_ids),
                 .seen = HL_ARRAY(p->arena, uint32_t, n_ids)};
}

// --- What was not fused --------------------------------------------------------------------------

static void tell_refusal(Queue *q, const HlInst *producer) {
  const HlInst *user = NULL;
  const char *why = refuses_users(q, producer, &user);
  Times times;
  GpuTime saved = why || !user ? 0 : price(q, producer, &times);
  if (saved < 0 && saved != NEVER)
    why =
        hl_arena_printf(q->p->arena, "it would take %.2f us longer", -(double)saved / UNITS_PER_US);
  if (user && why)
    hl_refuse(q->p, user, producer, why);
}

static void tell_refusals(Queue *q) {
  if (!hl_wants_refusals(q->p))
    return;
  int n;
  HlInst **insts = hl_pass_insts(q->p, q->comp, &n);
  for (int k = 0; k < n; k++)
    if (insts[k]->op != HL_OP_CONSTANT && has_kernel(gpu_target(q->p), insts[k]))
      tell_refusal(q, insts[k]);
}

// Names the parameters of what was fused, and says by which tiles it is computed.
static void end_queue(Queue *q) {
  VEC(HlInst *) by_tiles = {0};
  tell_refusals(q);
  for (HlInst *inst = q->grew ? q->comp->first : NULL; inst; inst = inst->next)
    if (inst->op == HL_OP_FUSION && q->version[inst->id] > 0) {
      fusion_name_params(inst);
      if (q->needs_tile[inst->id])
        vec_push_in(q->p->arena, &by_tiles, inst);
    }
  gpu_set_best_tiles(q->p, by_tiles.at, by_tiles.n);
  vec_free(&q->heap);
}

static void fuse_comp(HlPass *p, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  Queue q = start_queue(p, comp);
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  for (int k = 0; k < n; k++)
    enqueue(&q, insts[k]);
  while (q.heap.n > 0) {
    Entry next = entries_pop(&q.heap);
    if (next.version == q.version[next.inst->id] && hl_alive(next.inst))
      fuse_into_users(&q, next.inst);
  }
  // Prices of constants are never asked for: they cost nothing where they are used.
  fuse_constants(&q);
  end_queue(&q);
  hl_arena_release(p->arena, mark);
}

// --- fusion_merger ------------------------------------------------------------------------------

// Fusions that are loops go into all their users, where that saves time.
static void merge_comp(HlPass *p, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  Times times;
  Queue q = start_queue(p, comp);
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  for (int k = 0; k < n; k++)
    if (hl_alive(insts[k]) && insts[k]->op == HL_OP_FUSION && insts[k]->first_use &&
        fusion_kind(insts[k]) == HL_WORD_fusion_kind_LOOP && price(&q, insts[k], &times) >= 0)
      fuse_into_users(&q, insts[k]);
  end_queue(&q);
  hl_arena_release(p->arena, mark);
}

bool pass_fusion_merger(HlPass *p) {
  gpu_each_comp(p, merge_comp);
  return true;
}

bool pass_priority_fusion(HlPass *p) {
  gpu_each_comp(p, fuse_comp);
  return true;
}
