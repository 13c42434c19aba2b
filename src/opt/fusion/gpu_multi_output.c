// opt/fusion/gpu_multi_output.c
//
// multi_output_fusion: XLA's pass for GPUs that lets one kernel have several results, so that what
// they read is read once: siblings, which read the same producer, and a producer with one of its
// users.
//
//   a = f32[8] fusion(x), kind=kLoop, ...        t = (f32[8], f32[8]) fusion(x), kind=kLoop, ...
//   b = f32[8] fusion(x), kind=kLoop, ...   =>   a = f32[8] get-tuple-element(t), index=0
//                                                b = f32[8] get-tuple-element(t), index=1
//
// The results must be computed by the same arrangement of threads.

#include "ir/users.h"
#include "opt/ask/layouts.h"
#include "opt/fusion/gpu_fusible.h"
#include "opt/passes.h"

// --- What goes together -------------------------------------------------------------------------

static bool has_only_elements_read(const HlInst *inst) {
  if (!hl_shape_is_tuple(inst->shape))
    return true;
  if (inst->comp->root == inst)
    return false;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
  return true;
}

static bool has_tuple_op(const HlInst *inst) {
  const HlInst *root = inst->op == HL_OP_FUSION ? fusion_body(inst)->root : inst;
  return root->op != HL_OP_TUPLE && root->op != HL_OP_REDUCE && hl_shape_is_tuple(root->shape);
}

static bool has_update_root(const HlInst *inst) {
  const HlInst *root = inst->op == HL_OP_FUSION ? fusion_body(inst)->root : inst;
  if (root->op != HL_OP_TUPLE)
    return root->op == HL_OP_DYNAMIC_UPDATE_SLICE;
  for (uint32_t k = 0; k < root->n_operands; k++)
    if (root->operands[k]->op == HL_OP_DYNAMIC_UPDATE_SLICE)
      return true;
  return false;
}

// The code of a kernel, and the op that decides it.
typedef struct Code {
  const HlInst *hero;
  GpuEmitter emitter;
} Code;

static Code code_of(const HlTarget *t, const HlInst *inst) {
  const HlInst *hero = gpu_hero(t, inst);
  return (Code){hero, gpu_emitter_by(t, inst, hero)};
}

// NULL: whatever its code is, it may be a result among others; or why not.
static const char *refuses_company(const HlInst *inst) {
  if (hl_has_control(inst))
    return "has edges of control";
  if (fusion_is_custom(inst))
    return "is computed by a library";
  if (!has_only_elements_read(inst))
    return "has a tuple of results that is read whole";
  if (has_tuple_op(inst))
    return "has several results by one operation";
  if (has_update_root(inst))
    return "updates its operand in place";
  return NULL;
}

static const char *refuses_code(const HlInst *inst, GpuEmitter emitter) {
  const bool ok =
      inst->op == HL_OP_FUSION
          ? emitter == GPU_LOOP || emitter == GPU_REDUCTION || emitter == GPU_TRANSPOSE
          : emitter == GPU_REDUCTION || (inst->n_operands > 0 && fusion_is_elementwise(inst));
  return ok ? NULL : "has code that gives a single result";
}

bool gpu_may_be_result(const HlTarget *t, const HlInst *inst) {
  return !refuses_company(inst) && !refuses_code(inst, gpu_emitter(t, inst));
}

// The same sizes in the same order, or as many elements in rows: one is a bitcast of the other.
static bool same_threads(const HlShape *a, const HlShape *b) {
  if (!hl_shape_is_array(a) || !hl_shape_is_array(b))
    return false;
  const bool in_rows = (!a->layout || hl_layout_is_default(a->layout)) &&
                       (!b->layout || hl_layout_is_default(b->layout));
  return in_rows ? hl_shape_elements(a) == hl_shape_elements(b)
                 : hl_shape_same_dims(a, b) && hl_shape_same_order(a, b);
}

// What threads go over.
static const HlShape *loop_shape(const HlTarget *t, const HlInst *hero) {
  if (is_block_reduction(t, hero))
    return hero->operands[0]->shape;
  const HlShape *shape = hero->shape;
  return hl_shape_is_tuple(shape) && shape->rank > 0 ? shape->element[0] : shape;
}

static bool same_reduction(const HlInst *a, const HlInst *b) {
  return hl_i64s_equal(hl_dims(a), hl_dims(b)) &&
         hl_shape_same_dims(a->operands[0]->shape, b->operands[0]->shape);
}

static bool share_threads(const HlTarget *t, Code a, Code b) {
  if (!same_threads(loop_shape(t, a.hero), loop_shape(t, b.hero)))
    return false;
  if (a.emitter == GPU_LOOP || b.emitter == GPU_LOOP)
    return a.emitter != GPU_TRANSPOSE && b.emitter != GPU_TRANSPOSE;
  if (a.emitter != b.emitter)
    return false;
  return a.emitter == GPU_REDUCTION
             ? same_reduction(a.hero, b.hero)
             : a.hero->op == b.hero->op && hl_i64s_equal(hl_dims(a.hero), hl_dims(b.hero));
}

bool gpu_share_threads(const HlTarget *t, const HlInst *a, const HlInst *b) {
  return share_threads(t, code_of(t, a), code_of(t, b));
}

// --- The order of users ---------------------------------------------------------------------------

// XLA has users in a vector (see priority-fusion): what a kernel takes in leaves its place there to the kernel, if that did not
// read the same, else to the last user.

enum { MAX_USERS = 256 };  // of one producer that are compared with each other

typedef struct UserOrder {
  HlInst *of, **at;  // NULL: the kernel, which is not made yet
  int n;
} UserOrder;

static UserOrder order_after(HlArena *scratch, HlInst *of, const HlInst *kernel,
                             const HlInst *taken) {
  UserOrder order = {of, HL_ARRAY(scratch, HlInst *, hl_n_users(of) + 1), 0};
  int place = -1;
  bool has_kernel = false;
  for (const HlUse *use = of->first_use; use; use = use->next) {
    if (!hl_is_first_use(use))
      continue;
    if (use->user == taken)
      place = order.n;
    has_kernel |= use->user == kernel;
    order.at[order.n++] = use->user == kernel ? NULL : use->user;
  }
  if (place >= 0)
    order.at[place] = has_kernel ? order.at[--order.n] : NULL;
  return order;
}

typedef VEC(UserOrder) UserOrders;

static bool has_few_users(const HlInst *inst) {
  int n = 0;
  for (const HlUse *use = inst->first_use; use && n <= MAX_USERS; use = use->next)
    n++;
  return n <= MAX_USERS || hl_n_users(inst) <= MAX_USERS;
}

static void add_orders(HlArena *scratch, UserOrders *orders, const HlInst *reader,
                       const HlInst *kernel, const HlInst *taken) {
  for (uint32_t k = 0; k < reader->n_operands; k++)
    if (reader->operands[k] != taken && has_few_users(reader->operands[k]))
      vec_push_in(scratch, orders, order_after(scratch, reader->operands[k], kernel, taken));
}

static HlInst *set_orders(const UserOrders *orders, HlInst *kernel) {
  for (int k = 0; k < orders->n; k++) {
    const UserOrder *order = &orders->at[k];
    for (int i = 0; i < order->n; i++)
      order->at[i] = order->at[i] ? order->at[i] : kernel;
    ir_order_users(order->of, order->n, order->at);
  }
  return kernel;
}

static HlInst *add_result(HlArena *scratch, HlInst *kernel, HlInst *taken) {
  UserOrders orders = {0};
  add_orders(scratch, &orders, kernel, kernel, taken);
  add_orders(scratch, &orders, taken, kernel, taken);
  return set_orders(&orders, fusion_add_result(scratch, kernel, taken));
}

static HlInst *wrap(HlArena *scratch, HlInst *inst, int kind) {
  UserOrders orders = {0};
  add_orders(scratch, &orders, inst, inst, NULL);
  return set_orders(&orders, fusion_wrap(scratch, inst, kind, "fusion", "fused_computation"));
}

// --- Siblings -----------------------------------------------------------------------------------

typedef struct Merger {
  HlPass *p;
  HlComp *comp;
  FusionReach reach;
  VEC(Code) code;            // by id, once asked for
  HlInst *users[MAX_USERS];  // of the producer at hand
} Merger;

static Code known_code(Merger *m, const HlInst *inst) {
  while (m->code.n <= (int)inst->id)
    vec_push_in(m->p->arena, &m->code, (Code){0});
  Code *code = &m->code.at[inst->id];
  if (!code->hero)
    *code = code_of(gpu_target(m->p), inst);
  return *code;
}

// Something became part of it.
static void forget_code(Merger *m, const HlInst *inst) {
  if ((int)inst->id < m->code.n)
    m->code.at[inst->id] = (Code){0};
}

static const char *refuses_any(Merger *m, const HlInst *inst) {
  const char *why = refuses_company(inst);
  return why ? why : refuses_code(inst, known_code(m, inst).emitter);
}

static bool are_apart(Merger *m, const HlInst *a, const HlInst *b) {
  return !fusion_reaches(&m->reach, a, b, false) && !fusion_reaches(&m->reach, b, a, false);
}

static const char no_room[] =
    "a kernel has no room for the arguments, reductions or shared memory of both";

// NULL: one kernel may give the results of both; or why not.
static const char *refuses_siblings(Merger *m, const HlInst *a, const HlInst *b) {
  if (refuses_any(m, a) || refuses_any(m, b))
    return "one of the two has code that gives a single result";
  if (!share_threads(gpu_target(m->p), known_code(m, a), known_code(m, b)))
    return "the threads of the one do not go over the elements of the other";
  if (!gpu_fits(gpu_target(m->p), a, gpu_needs(gpu_target(m->p), a), b,
                gpu_needs(gpu_target(m->p), b), true))
    return no_room;
  return are_apart(m, a, b) ? NULL : "one of the two depends on the other";
}

static int rank_of(const HlInst *inst) {
  if (inst->op != HL_OP_FUSION)
    return 2;
  return hl_shape_is_tuple(inst->shape) ? 0 : 1;
}

// Fusions first, those of several results before all; else as the users stand.
static void sort_users(HlInst **users, int n) {
  for (int k = 1; k < n; k++) {
    HlInst *user = users[k];
    int at = k;
    for (; at > 0 && rank_of(users[at - 1]) > rank_of(user); at--)
      users[at] = users[at - 1];
    users[at] = user;
  }
}

// The users of a producer that may share its kernel or have one of their own together, in m->users.
static HlInst **candidates(Merger *m, const HlInst *producer, int *n) {
  HlInst **users = m->users;
  *n = 0;
  for (const HlUse *use = producer->first_use; use && *n < MAX_USERS; use = use->next) {
    if (hl_is_first_use(use) && use->user->first_use && !refuses_any(m, use->user))
      users[(*n)++] = use->user;
  }
  sort_users(users, *n);
  return users;
}

static void fuse_siblings(Merger *m, const HlInst *producer) {
  int n;
  HlInst **users = candidates(m, producer, &n);
  for (int i = 0; i < n; i++) {
    if (!users[i] || users[i]->op != HL_OP_FUSION)
      continue;
    for (int j = i + 1; j < n; j++) {
      if (!users[j] || refuses_siblings(m, users[i], users[j]) ||
          !hl_change(m->p, "sibling", users[i], users[j]))
        continue;
      const GpuEmitter by_first = known_code(m, users[i]).emitter;
      const GpuEmitter by_both = by_first == GPU_LOOP ? known_code(m, users[j]).emitter : by_first;
      HlInst *both = add_result(m->p->arena, users[i], users[j]);
      hl_set_int(both, HL_A_KIND, gpu_kind(by_both));
      fusion_name_params(both);
      forget_code(m, both);
      if (!hl_changed(m->p))
        continue;
      users[i] = both;
      users[j] = NULL;
    }
  }
}

// --- Producer and consumer ----------------------------------------------------------------------

// NULL: what computes the producer may go into a user's kernel and still be a result; or why not.
static const char *refuses_to_give(Merger *m, const HlInst *producer) {
  if (!hl_shape_is_array(producer->shape))
    return "the producer has several results already";
  if (hl_has_control(producer))
    return "the producer has edges of control";
  if (known_code(m, producer).emitter != GPU_LOOP ||
      !(gpu_is_loop_fusible(gpu_target(m->p), producer) || producer->op == HL_OP_IOTA) ||
      producer->op == HL_OP_BITCAST)
    return "the producer is no loop";
  if (gpu_is_transposing(producer))
    return "the producer reads elements that lie far apart";
  return has_update_root(producer) ? "the producer updates its operand in place" : NULL;
}

// NULL: one kernel for both is short enough, and not slower than the two; or why not.
static const char *refuses_cost(HlPass *p, const HlInst *producer, const HlInst *consumer) {
  const HlTarget *t = gpu_target(p);
  HlMark mark = hl_arena_mark(p->arena);
  GpuCost of_producer = gpu_cost(t, p->arena, producer);
  GpuCost of_consumer = gpu_cost(t, p->arena, consumer);
  const bool is_long =
      gpu_code_fused(producer, &of_producer, consumer, &of_consumer) > GPU_MAX_CODE;
  const GpuTime apart = gpu_time_to_launch(t) + of_producer.alone + of_consumer.alone;
  const bool is_slow =
      gpu_time_fused(t, producer, &of_producer, consumer, &of_consumer, true) > apart;
  hl_arena_release(p->arena, mark);
  if (is_long)
    return "the code of both is too long for a kernel";
  return is_slow ? "the consumer's few blocks take longer for both" : NULL;
}

// NULL: the consumer's kernel may give the producer's result, too; or why not.
static const char *refuses_producer(Merger *m, const HlInst *producer, const HlInst *consumer) {
  if (refuses_any(m, consumer))
    return "the consumer has code that gives a single result";
  if (!same_threads(producer->shape, loop_shape(gpu_target(m->p), known_code(m, consumer).hero)))
    return "the consumer's threads do not go over the producer's elements";
  if (!gpu_fits(gpu_target(m->p), consumer, gpu_needs(gpu_target(m->p), consumer), producer,
                gpu_needs(gpu_target(m->p), producer), true))
    return no_room;
  if (fusion_reaches(&m->reach, producer, consumer, true))
    return "the consumer depends on the producer by a third one, too";
  return refuses_cost(m->p, producer, consumer);
}

static HlInst *best_consumer(Merger *m, const HlInst *producer) {
  int n;
  HlInst **users = candidates(m, producer, &n);
  for (int k = 0; k < n; k++)
    if (!refuses_producer(m, producer, users[k]))
      return users[k];
  return NULL;
}

static void fuse_with_consumer(Merger *m, HlInst *producer) {
  if (refuses_to_give(m, producer) || producer == m->comp->root ||
      !fusion_duplicates(producer, producer->first_use->user))
    return;
  HlInst *consumer = best_consumer(m, producer);
  if (!consumer || !hl_change(m->p, "producer", consumer, producer))
    return;
  int kind = gpu_kind(known_code(m, consumer).emitter);
  if (consumer->op != HL_OP_FUSION)
    consumer = wrap(m->p->arena, consumer, kind);
  HlInst *both = add_result(m->p->arena, consumer, producer);
  fusion_name_params(both);
  forget_code(m, both);
  hl_changed(m->p);
}

// --- What was not fused ---------------------------------------------------------------------------

enum { MAX_REFUSALS = 64 };  // pairs of users of one producer

static bool has_kernel(const HlTarget *t, const HlInst *inst) {
  return inst->op == HL_OP_FUSION || inst->op == HL_OP_REDUCE ||
         (inst->op != HL_OP_BITCAST && gpu_is_loop_fusible(t, inst));
}

static int kernels_reading(Merger *m, const HlInst *producer) {
  HlInst **users = m->users;
  int n = 0;
  for (const HlUse *use = producer->first_use; use && n < MAX_USERS; use = use->next) {
    if (hl_is_first_use(use) && use->user->first_use && has_kernel(gpu_target(m->p), use->user))
      users[n++] = use->user;
  }
  sort_users(users, n);
  return n;
}

static const char *of_one(Merger *m, const HlInst *inst) {
  const char *why = refuses_any(m, inst);
  return why ? hl_arena_printf(m->p->arena, "|%s| %s", inst->name->text, why) : NULL;
}

static void tell_siblings(Merger *m, HlInst *const *users, int n) {
  int refusals = 0;
  for (int i = 0; i < n && users[i]->op == HL_OP_FUSION; i++)
    for (int j = i + 1; j < n && refusals < MAX_REFUSALS; j++) {
      const char *why = of_one(m, users[i]);
      why = why ? why : of_one(m, users[j]);
      why = why ? why : refuses_siblings(m, users[i], users[j]);
      if (why)
        hl_refuse(m->p, users[i], users[j], why);
      refusals += why != NULL;
    }
}

static void tell_consumers(Merger *m, HlInst *producer, HlInst *const *users, int n) {
  const char *gives = refuses_to_give(m, producer);
  for (int k = 0; k < n; k++) {
    const char *why = gives ? gives : of_one(m, users[k]);
    why = why ? why : refuses_producer(m, producer, users[k]);
    if (why)
      hl_refuse(m->p, users[k], producer, why);
  }
}

static void tell_refusals(Merger *m) {
  if (!hl_wants_refusals(m->p))
    return;
  int n_insts;
  HlInst **insts = hl_pass_insts(m->p, m->comp, &n_insts);
  for (int k = 0; k < n_insts; k++) {
    HlInst *producer = insts[k];
    if (!producer->first_use || producer->op == HL_OP_CONSTANT || fusion_is_custom(producer))
      continue;
    const int n = kernels_reading(m, producer);
    if (!hl_is_effective_scalar(producer->shape))
      tell_siblings(m, m->users, n);
    if (has_kernel(gpu_target(m->p), producer) && producer != m->comp->root &&
        fusion_duplicates(producer, producer->first_use->user))
      tell_consumers(m, producer, m->users, n);
  }
}

// --- The pass -------------------------------------------------------------------------------------

static void fuse_comp(HlPass *p, HlComp *comp) {
  HlMark mark = hl_arena_mark(p->arena);
  Merger m = {.p = p, .comp = comp, .reach = {.arena = p->arena}};
  HlInst **order = hl_post_order(p->arena, comp);
  int n = (int)comp->n_insts;
  for (int k = n - 1; k >= 0; k--) {
    HlInst *producer = order[k];
    if (!hl_alive(producer) || producer->op == HL_OP_CONSTANT || fusion_is_custom(producer))
      continue;
    if (!hl_is_effective_scalar(producer->shape))
      fuse_siblings(&m, producer);
    if (producer->first_use)
      fuse_with_consumer(&m, producer);
  }
  tell_refusals(&m);
  vec_free(&m.reach.stack);
  hl_arena_release(p->arena, mark);
}

bool pass_multi_output_fusion(HlPass *p) {
  gpu_each_comp(p, fuse_comp);
  return true;
}
