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
#include "ir/backend_config.h"
#include "ir/users.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

// A producer that waits. The one of the highest price, among equals the newest, goes first.
typedef struct Entry {
  GpuTime price;
  HlInst *inst;
  uint32_t version;  // entries of older versions are void
} Entry;
typedef VEC(Entry) Entries;

// Who reads an instruction, as of the time when nothing was forgotten since.
typedef struct Users {
  HlInst **at;
  int n, capacity;
  uint32_t known;  // how often all was forgotten before, plus one; 0: never asked
} Users;

// What the kernel of a user took with the producer inside, when that was asked last.
typedef struct Pair {
  const HlInst *user;
  GpuTime fused;
} Pair;

// What is kept of an instruction's price, so that it is known which part is no longer true.
typedef struct Priced {
  GpuTime queued;                 // the price at which it waits; NEVER: it does not
  GpuTime alone;                  // its kernel's time, before the step in which it changed
  GpuTime removed;                // of what it was before a step: what no longer counts
  uint32_t alone_in, removed_in;  // steps
  Pair *at;                       // by user
  int n, capacity;
  bool known;
} Priced;

// What is known of an instruction that was met.
typedef struct Node {
  GpuCost *cost;
  Users users;
  Priced priced;
  uint32_t version;
  uint32_t seen;   // the step in which it was met
  uint32_t asked;  // the price for which it was asked
  bool needs_tile;
} Node;

typedef struct Queue {
  HlPass *p;
  HlComp *comp;
  Entries heap;
  Node **node;  // by id; NULL: not met
  uint32_t step;
  uint32_t n_forgotten;
  uint32_t prices;
  GpuTiles tiles;
  bool grew;  // something was fused
} Queue;

// A producer that must not be fused, and one that goes before all others, as it costs nothing.
#define NEVER INT64_MIN
#define ALWAYS INT64_MAX

static Node *node_of(const Queue *q, const HlInst *inst) {
  Node **node = &q->node[inst->id];
  if (!*node) {
    *node = HL_NEW(q->p->arena, Node);
    (*node)->priced.queued = NEVER;
  }
  return *node;
}

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

// A kernel of Triton's takes the time of its tiles: those it came with, or once it has grown the best.
static GpuTime time_by_tiles(Queue *q, const HlInst *inst) {
  const HlTarget *t = gpu_target(q->p);
  const HlFusionConfig config = hl_fusion_config(q->p->arena, inst);
  GpuTile best;
  if (config.tiled && !node_of(q, inst)->needs_tile)
    return gpu_tile_time(t, q->p->arena, inst, config.tile);
  return gpu_best_tile(t, &q->tiles, NULL, inst, &best) ? best.time : 0;
}

static const GpuCost *cost_of(Queue *q, const HlInst *inst) {
  GpuCost **cost = &node_of(q, inst)->cost;
  if (!*cost) {
    *cost = HL_NEW(q->p->arena, GpuCost);
    **cost = gpu_cost(gpu_target(q->p), q->p->arena, inst);
    if (gpu_is_triton(inst))
      (*cost)->alone = time_by_tiles(q, inst);
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
  GpuTile best;
  if (gpu_is_triton(producer) || gpu_is_triton(consumer))
    return gpu_tiles_join(producer, consumer) &&
                   gpu_best_tile(gpu_target(q->p), &q->tiles, producer, consumer, &best)
               ? NULL
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

// Of the users' kernels and the producer's own.
typedef struct Times {
  GpuTime fused, unfused;
  int n;  // users
} Times;

static Pair *find_pair(const Priced *priced, const HlInst *user) {
  for (int k = 0; k < priced->n; k++)
    if (priced->at[k].user == user)
      return &priced->at[k];
  return NULL;
}

static void forget_pair(Priced *priced, const HlInst *user) {
  Pair *pair = find_pair(priced, user);
  if (pair)
    *pair = priced->at[--priced->n];
}

static GpuTime time_fused(Queue *q, const HlInst *producer, const HlInst *user) {
  const HlTarget *t = gpu_target(q->p);
  GpuTile best;
  if (user->op != HL_OP_BITCAST && (gpu_is_triton(producer) || gpu_is_triton(user)) &&
      gpu_best_tile(t, &q->tiles, producer, user, &best))
    return best.time;
  return gpu_time_fused(t, producer, cost_of(q, producer), user, cost_of(q, user), false);
}

// With one user.
static void add_times(Queue *q, const HlInst *producer, const HlInst *user, Times *times) {
  times->n++;
  const GpuCost *of_user = cost_of(q, user);
  const GpuTime fused = time_fused(q, producer, user);
  Priced *priced = &node_of(q, producer)->priced;
  Pair *pair = priced->known ? find_pair(priced, user) : NULL;
  if (pair)
    pair->fused = fused;
  else
    vec_push_in(q->p->arena, priced, ((Pair){user, fused}));
  times->unfused += of_user->alone;
  times->fused += fused;
}

// Whether all users that have a kernel may take the producer in, and there is one.
static bool may_fuse_all(Queue *q, const HlInst *producer) {
  bool has_user = false;
  q->prices++;
  for (const HlUse *use = producer->first_use; use; use = use->next) {
    const HlInst *user = use->user;
    if (node_of(q, user)->asked == q->prices)
      continue;
    node_of(q, user)->asked = q->prices;
    if (user->op != HL_OP_BITCAST && !may_fuse(q, producer, user))
      return false;
    has_user |= user->op != HL_OP_BITCAST;
  }
  return has_user;
}

// What a user that has no kernel costs counts, too: nothing by itself, all that the producer costs with it inside.
static GpuTime price(Queue *q, const HlInst *producer, Times *times) {
  if (producer->op == HL_OP_BITCAST)
    return ALWAYS;
  *times = (Times){0};
  if (!may_fuse_all(q, producer))
    return NEVER;
  for (const HlUse *use = producer->first_use; use; use = use->next)
    if (hl_is_first_use(use))
      add_times(q, producer, use->user, times);
  node_of(q, producer)->priced.known = true;
  times->unfused += gpu_time_to_launch(gpu_target(q->p)) + cost_of(q, producer)->alone;
  return times->unfused - times->fused;
}

// Of what waits only what a step has changed is priced anew, as in XLA: where the producer itself changed, too, what it takes
// inside its other users is what it was.
static GpuTime price_again(Queue *q, const HlInst *producer, HlInst *const *fusions, int n,
                           Times *times) {
  const Priced *priced = &node_of(q, producer)->priced;
  if (priced->removed_in != q->step || priced->queued == NEVER)
    return price(q, producer, times);
  *times = (Times){0};
  if (!may_fuse_all(q, producer))
    return NEVER;
  for (int k = 0; k < n; k++)
    if (fusion_operand_index(fusions[k], producer) >= 0)
      add_times(q, producer, fusions[k], times);
  node_of(q, producer)->priced.known = true;
  times->unfused += cost_of(q, producer)->alone - priced->removed;
  return priced->queued + times->unfused - times->fused;
}

// --- Users in XLA's order -----------------------------------------------------------------------

// Which user takes a producer first tells how a kernel's parameters are numbered and what it computes twice. XLA has users in a
// vector: who is new stands last, and where one leaves, the last one takes the place.

static Users *users_of(Queue *q, const HlInst *inst) {
  Users *users = &node_of(q, inst)->users;
  if (users->known == q->n_forgotten + 1)
    return users;
  users->known = q->n_forgotten + 1;
  users->n = 0;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (hl_is_first_use(use))
      vec_push_in(q->p->arena, users, use->user);
  return users;
}

// Before edges change that these have.
static void know_users(Queue *q, const HlInst *inst) {
  users_of(q, inst);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    users_of(q, inst->operands[k]);
}

static int find_user(const Users *users, const HlInst *user) {
  for (int k = 0; k < users->n; k++)
    if (users->at[k] == user)
      return k;
  return -1;
}

static void add_user(Queue *q, const HlInst *inst, HlInst *user) {
  Users *users = users_of(q, inst);
  if (find_user(users, user) < 0)
    vec_push_in(q->p->arena, users, user);
}

static void remove_user(Queue *q, const HlInst *inst, const HlInst *user) {
  Users *users = users_of(q, inst);
  const int k = find_user(users, user);
  if (k >= 0)
    users->at[k] = users->at[--users->n];
}

// Passes that come behind ask in this order.
static void keep_order(Queue *q) {
  for (HlInst *inst = q->comp->first; inst; inst = inst->next) {
    const Users *users = users_of(q, inst);
    ir_order_users(inst, users->n, users->at);
  }
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
    const Users *of = users_of(q, producer);
    const int n = of->n;
    const char **users = HL_ARRAY(q->p->arena, const char *, n + 1);
    for (int k = 0; k < n; k++)
      users[k] = of->at[k]->name->text;
    step.kind = HL_STEP_PRICED;
    step.users = users;
    step.n_users = n;
    const GpuTime launches = times->n * gpu_time_to_launch(gpu_target(q->p));  // either way
    step.us_fused = (double)(times->fused + launches) / UNITS_PER_US;
    step.us_unfused = (double)(times->unfused + launches) / UNITS_PER_US;
  }
  hl_tell_fusion_step(q->p, &step);
}

// --- The queue ----------------------------------------------------------------------------------

// What a step has made of some users is `fusions`.
static void enqueue(Queue *q, HlInst *inst, HlInst *const *fusions, int n) {
  node_of(q, inst)->version++;
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
  const GpuTime of_inst = price_again(q, inst, fusions, n, &times);
  node_of(q, inst)->priced.queued = of_inst >= 0 ? of_inst : NEVER;
  if (hl_wants_fusion_steps(q->p))
    tell_price(q, inst, of_inst, &times);
  if (of_inst >= 0)
    entries_push(NULL, &q->heap, (Entry){of_inst, inst, node_of(q, inst)->version});
}

// --- Fusing -------------------------------------------------------------------------------------

static void note_alone(Queue *q, const HlInst *inst, GpuTime alone) {
  Priced *priced = &node_of(q, inst)->priced;
  if (priced->alone_in == q->step)
    return;
  priced->alone = alone;
  priced->alone_in = q->step;
}

// The consumer by itself becomes a fusion, which has its users.
static HlInst *wrap(Queue *q, HlInst *consumer, int kind) {
  const int n = (int)consumer->n_operands;
  HlInst **operands = HL_ARRAY(q->p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    operands[k] = consumer->operands[k];
  const Users users = *users_of(q, consumer);
  HlInst *fusion = fusion_wrap(q->p->arena, consumer, kind, "fusion", "fused_computation");
  node_of(q, fusion)->users = users;
  for (int k = 0; k < n; k++)
    add_user(q, operands[k], fusion);
  for (int k = 0; k < n; k++)
    remove_user(q, operands[k], consumer);
  return fusion;
}

static HlInst *fuse(Queue *q, HlInst *producer, HlInst *consumer) {
  HlArena *scratch = q->p->arena;
  know_users(q, producer);
  know_users(q, consumer);
  note_alone(q, consumer, cost_of(q, consumer)->alone);
  int kind = gpu_kind(gpu_emitter_of_both(producer, cost_of(q, producer)->emitter, consumer,
                                          cost_of(q, consumer)->emitter));
  HlInst *fusion = consumer->op == HL_OP_FUSION ? consumer : wrap(q, consumer, kind);
  const HlInst *like = gpu_is_triton(fusion) ? fusion : producer;
  node_of(q, fusion)->needs_tile = gpu_is_triton(like);
  if (!gpu_is_triton(like))
    hl_set_int(fusion, HL_A_KIND, kind);
  else if (like != fusion)
    gpu_set_triton(scratch, fusion, like);
  fusion_fuse(scratch, fusion, producer);
  for (uint32_t k = 0; k < producer->n_operands; k++)
    add_user(q, producer->operands[k], fusion);
  remove_user(q, producer, fusion);
  node_of(q, fusion)->cost = NULL;
  return fusion;
}

static void erase(Queue *q, HlInst *producer) {
  for (uint32_t k = 0; k < producer->n_operands; k++)
    remove_user(q, producer->operands[k], producer);
  fusion_erase(producer);
}

static GpuTime alone_before(Queue *q, const HlInst *inst) {
  const Priced *priced = &node_of(q, inst)->priced;
  return priced->alone_in == q->step ? priced->alone : cost_of(q, inst)->alone;
}

// Pricing what many use takes long, and one user more or less changes little: it is priced once.
enum { MANY_USERS = 64 };

static bool has_many_users(const HlInst *inst) {
  int n = 0;
  for (const HlUse *use = inst->first_use; use && n <= MANY_USERS; use = use->next)
    n++;
  return n > MANY_USERS;
}

static void enqueue_once(Queue *q, HlInst *inst, HlInst *const *fusions, int n) {
  if (node_of(q, inst)->seen == q->step || (node_of(q, inst)->version > 0 && has_many_users(inst)))
    return;
  node_of(q, inst)->seen = q->step;
  enqueue(q, inst, fusions, n);
}

// Prices of what the fusions read, of them, and of those that share a user with the producer, have
// changed.
static void enqueue_around(Queue *q, HlInst *const *fusions, int n) {
  for (int k = 0; k < n; k++) {
    for (uint32_t o = 0; o < fusions[k]->n_operands; o++)
      enqueue_once(q, fusions[k]->operands[o], fusions, n);
    enqueue_once(q, fusions[k], fusions, n);
  }
}

// Of the price of what waits and is read by what was fused: what the users told that were there before.
static void find_removed(Queue *q, const HlInst *inst, const HlInst *producer, HlInst *const *users,
                         int n) {
  Priced *priced = &node_of(q, inst)->priced;
  if (priced->removed_in == q->step || priced->queued == NEVER || !priced->known)
    return;
  priced->removed_in = q->step;
  priced->removed = alone_before(q, inst);
  for (int k = 0; k <= n; k++) {
    const HlInst *user = k < n ? users[k] : producer;
    const Pair *pair = find_pair(priced, user);
    if (pair)
      priced->removed += alone_before(q, user) - pair->fused;
  }
}

static void forget_price(Queue *q, const HlInst *inst) {
  node_of(q, inst)->priced.n = 0;
  node_of(q, inst)->priced.known = false;
}

static void fuse_into_users(Queue *q, HlInst *producer) {
  const int n = users_of(q, producer)->n;
  int n_fused = 0;
  HlInst **users = HL_ARRAY(q->p->arena, HlInst *, n + 1);
  HlInst **fusions = HL_ARRAY(q->p->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    users[k] = users_of(q, producer)->at[k];
  q->step++;
  note_alone(q, producer, cost_of(q, producer)->alone);
  for (int k = 0; k < n; k++)
    if (users[k]->op != HL_OP_BITCAST && hl_alive(users[k]) && may_fuse(q, producer, users[k]) &&
        hl_change(q->p, "fuse", users[k], producer)) {
      const char *user = users[k]->name->text;
      HlInst *fusion = fuse(q, producer, users[k]);
      gpu_tiles_change(&q->tiles);
      hl_tell_fusion_step(q->p, &(HlFusionStep){.kind = HL_STEP_JOINED,
                                                .producer = producer->name->text,
                                                .users = &user,
                                                .n_users = 1,
                                                .fusion = fusion->name->text});
      if (!producer->first_use)
        erase(q, producer);
      if (hl_changed(q->p))
        fusions[n_fused++] = fusion;
      else
        q->n_forgotten++;
      gpu_tiles_change(&q->tiles);
    }
  q->grew |= n_fused > 0;
  for (int k = 0; k < n_fused; k++)
    for (uint32_t o = 0; o < fusions[k]->n_operands; o++)
      find_removed(q, fusions[k]->operands[o], producer, users, n);
  for (int k = 0; k < n_fused; k++) {
    forget_price(q, fusions[k]);
    for (uint32_t o = 0; o < fusions[k]->n_operands; o++)
      forget_pair(&node_of(q, fusions[k]->operands[o])->priced, fusions[k]);
  }
  enqueue_around(q, fusions, n_fused);
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
  return (Queue){.p = p,
                 .comp = comp,
                 .tiles = gpu_no_tiles(p->arena, hl_cx_scratch(p->cx)),
                 .node = HL_ARRAY(p->arena, Node *, comp->next_id + comp->n_insts)};
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
    if (inst->op == HL_OP_FUSION && node_of(q, inst)->version > 0) {
      fusion_name_params(inst);
      if (node_of(q, inst)->needs_tile)
        vec_push_in(q->p->arena, &by_tiles, inst);
    }
  gpu_set_best_tiles(q->p, &q->tiles, by_tiles.at, by_tiles.n);
  if (q->grew)
    keep_order(q);
  vec_free(&q->heap);
}

static void fuse_comp(HlPass *p, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  Queue q = start_queue(p, comp);
  int n;
  HlInst **insts = hl_pass_insts(p, comp, &n);
  for (int k = 0; k < n; k++)
    enqueue(&q, insts[k], NULL, 0);
  while (q.heap.n > 0) {
    Entry next = entries_pop(&q.heap);
    if (next.version != node_of(&q, next.inst)->version || !hl_alive(next.inst))
      continue;
    node_of(&q, next.inst)->priced.queued = NEVER;
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
