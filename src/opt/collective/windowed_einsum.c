// opt/collective/windowed_einsum.c
//
// windowed-einsum-handler: makes the loops in which the partitioner has tiles of a product go round
// (spmd/partition_einsum.c) fit for a GPU, where products may run side by side.
//
//   while (i < 4) {                                  while (once) {
//     r = r + dot(.., x)                               r = r + dot(.., x)     in queue 5, the sum waits for it
//     x = permute(x)                            =>     x = permute(x)         as early as can be
//     r = r + dot(.., x)                               r = r + dot(.., x)     in queue 6
//     x = permute(x)                                   ...
//     i = i + 2                                      }
//   }
//
// All iterations are written out, so that each exchange is beside a product it does not depend on; a loop
// around them that iterates once keeps other passes from mixing them with what is outside. Loops are
// known by their body's name and by having two products or more. Besides:
//
//   partial sums     an add between two products makes the one wait for the other: where products are
//                    summed, they leave the loop side by side, and a reduce outside sums them
//   all-gather       of the operand whose tiles go round: the loop meets all its tiles, so it puts
//                    them together, and the all-gather goes
//   8-bit operands   scaled up before the loop are scaled up inside, after the exchange: fewer bytes
//                    go round, and a library's product takes them as they are

#include <string.h>

#include "ir/backend_config.h"
#include "opt/ask/collectives.h"
#include "opt/ask/frontend.h"
#include "opt/ask/loops.h"
#include "opt/collective/windowed.h"
#include "opt/passes.h"

enum { LHS, RHS, RESULT };  // slots of such a loop, of which more follow

// How an operand is scaled up: convert(x) times, or divided by, a broadcast scalar, and then perhaps
// changes of form.
typedef struct Scaling {
  HlOp op;
  HlInst *x, *scale;
  HlInst **form;  // the changes, last first
  int n_forms;
} Scaling;

// One of these loops, and what is to become of it.
typedef struct Einsum {
  HlPass *p;
  HlInst *loop;
  LoopCounter counter;
  bool gathers;
  int64_t queue;  // of its first product
  bool scales;
  Scaling scaling[2];
  int scale_slot[2];
  HlInst *gather;     // the all-gather, or NULL
  int64_t **offsets;  // by tile as they come: where it belongs, by device
  int64_t n_tiles;
  int gathered_slot;
  int n_partial;  // products an iteration that are summed
  int partial_slot;
} Einsum;

// --- Reading the loop -----------------------------------------------------------------------------

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static bool is_einsum(Einsum *e) {
  const HlInst *loop = e->loop;
  const HlComp *body = hl_while_body(loop);
  int n_dots = 0;
  e->gathers = begins(body->name->text, "windowed_dot_general_body_ag");
  if (!e->gathers && !begins(body->name->text, "windowed_dot_general_body_rs"))
    return false;
  for (const HlInst *inst = body->first; inst; inst = inst->next)
    n_dots += inst->op == HL_OP_DOT;
  return n_dots > 1 && loop_owns_comps(loop) && loop->operands[0]->op == HL_OP_TUPLE &&
         loop_slots(loop) > RESULT && loop_counter_of_sums(loop, &e->counter) &&
         loop_may_unroll(e->p, loop, &e->counter) && e->counter.trips > 0;
}

// How often an iteration passes slot k on between devices, and does nothing else with it; -1: it does.
static int hops_of(const HlInst *loop, int k) {
  const HlInst *x = loop_next(loop, k);
  int n = 0;
  for (; x->op == HL_OP_COLLECTIVE_PERMUTE && coll_is_plain(x); n++)
    x = x->operands[0];
  return loop_slot_of(x) == k ? n : -1;
}

// --- 8-bit operands -------------------------------------------------------------------------------

static bool changes_form(const HlInst *inst) {
  static const HlOp ops[] = {HL_OP_BITCAST, HL_OP_BROADCAST, HL_OP_COPY, HL_OP_RESHAPE,
                             HL_OP_TRANSPOSE};
  for (int k = 0; k < HL_COUNT_OF(ops); k++)
    if (inst->op == ops[k])
      return !hl_has_control(inst);
  return false;
}

static HlInst *scalar_of(HlInst *broadcast) {
  return broadcast->op == HL_OP_BROADCAST && hl_shape_is_scalar(broadcast->operands[0]->shape)
             ? broadcast->operands[0]
             : NULL;
}

static bool is_8_bits(HlDtype t) {
  return t == HL_F8E4M3FN || t == HL_F8E5M2;
}

static bool read_scaling(HlPass *p, HlInst *wide, Scaling *out) {
  const HlDtype dtype = wide->shape->dtype;
  int room = 0;
  for (const HlInst *x = wide; changes_form(x); x = x->operands[0])
    room++;
  out->form = HL_ARRAY(p->arena, HlInst *, room + 1);
  for (; changes_form(wide) && wide->shape->dtype == dtype; wide = wide->operands[0])
    out->form[out->n_forms++] = wide;
  if ((wide->op != HL_OP_MULTIPLY && wide->op != HL_OP_DIVIDE) || wide->shape->dtype != dtype ||
      (dtype != HL_BF16 && dtype != HL_F16 && dtype != HL_F32))
    return false;
  const int k = wide->op == HL_OP_MULTIPLY && scalar_of(wide->operands[0]) ? 1 : 0;
  HlInst *convert = wide->operands[k];
  out->op = (HlOp)wide->op;
  out->scale = scalar_of(wide->operands[1 - k]);
  out->x = convert->op == HL_OP_CONVERT ? convert->operands[0] : NULL;
  return out->x && out->scale && is_8_bits(out->x->shape->dtype);
}

static bool find_scaling(Einsum *e) {
  for (int k = LHS; k <= RHS; k++)
    if (!read_scaling(e->p, loop_init(e->loop, k), &e->scaling[k]) || hops_of(e->loop, k) < 0)
      return false;
  return e->scaling[LHS].x->shape->dtype == HL_F8E4M3FN ||
         e->scaling[RHS].x->shape->dtype == HL_F8E4M3FN;
}

static const HlShape *with_dtype(HlPass *p, const HlShape *shape, HlDtype dtype) {
  return hl_shape_array_full(p->m->shapes, dtype, shape->rank, shape->dim, NULL, shape->layout);
}

// What the loop begins with in slot k: the 8 bits, in the form the loop wants.
static HlInst *narrow_start(const Einsum *e, int k) {
  const Scaling *s = &e->scaling[k];
  HlInst *x = s->x;
  for (int f = s->n_forms - 1; f >= 0; f--)
    x = hl_inst_copy(x->comp, s->form[f], with_dtype(e->p, s->form[f]->shape, s->x->shape->dtype),
                     1, &x);
  return x;
}

static HlInst *scaled_up(const Einsum *e, int k, HlBuild *b, HlInst *x, HlInst *scale) {
  HlInst *wide = hl_b_convert(b, x, loop_init(e->loop, k)->shape->dtype);
  HlInst *all = hl_b_broadcast(b, scale, x->shape->rank, x->shape->dim, (HlI64s){0});
  return hl_b_binary(b, e->scaling[k].op, wide, all);
}

// The values a slot has on its way between devices, from `first` on; the last one is *end.
static HlInst **way_of(HlPass *p, HlInst *end, const HlInst *first, int *n) {
  *n = 0;
  for (const HlInst *x = end; x != first; x = x->operands[0])
    ++*n;
  HlInst **way = HL_ARRAY(p->arena, HlInst *, *n + 1);
  way[*n] = end;
  for (int k = *n; k > 0; k--)
    way[k - 1] = way[k]->operands[0];
  return way;
}

static bool is_in(const HlInst *inst, HlInst *const *at, int n) {
  for (int k = 0; k < n; k++)
    if (at[k] == inst)
      return true;
  return false;
}

// The 8 bits are exchanged, each then scaled up, instead of what was scaled up before.
static void exchange_narrow(const Einsum *e, int k, HlBuild *b, HlInst *narrow, const HlInst *wide,
                            HlInst *scale, HlInst **slot) {
  const int n_slots = loop_slots(e->loop);
  int n;
  HlInst **way = way_of(e->p, slot[k], wide, &n);
  slot[k] = narrow;
  for (int hop = 1; hop <= n; hop++) {
    slot[k] = narrow = hl_inst_copy(b->comp, way[hop], narrow->shape, 1, &narrow);
    if (way[hop]->first_use || is_in(way[hop], slot, n_slots)) {
      HlInst *scaled = scaled_up(e, k, b, narrow, scale);
      for (int j = 0; j < n_slots; j++)
        slot[j] = slot[j] == way[hop] ? scaled : slot[j];
      hl_replace_uses(way[hop], scaled);
    }
    hl_erase(way[hop]);
  }
}

// --- All-gathers ----------------------------------------------------------------------------------

// Which device's tile each device has after one more exchange.
static bool hop(const HlInst *permute, int64_t n, const int64_t *from, int64_t *to) {
  const HlI64s pairs = hl_attr_ints(permute, HL_A_SOURCE_TARGET_PAIRS);
  for (int64_t d = 0; d < n; d++)
    to[d] = -1;
  for (int k = 0; k + 1 < pairs.n; k += 2)
    if (pairs.at[k] >= 0 && pairs.at[k] < n && pairs.at[k + 1] >= 0 && pairs.at[k + 1] < n)
      to[pairs.at[k + 1]] = from[pairs.at[k]];
  for (int64_t d = 0; d < n; d++)
    if (to[d] < 0)
      return false;
  return true;
}

// The exchanges of an iteration, in their order; all between partitions.
static HlInst **hops_in_order(const Einsum *e, int n) {
  HlInst **hops = HL_ARRAY(e->p->arena, HlInst *, n + 1), *x = loop_next(e->loop, LHS);
  for (int k = n - 1; k >= 0; k--, x = x->operands[0]) {
    hops[k] = x;
    if (hl_group_mode(x) != HL_CROSS_PARTITION || hl_has_attr(x, HL_A_PERMUTE_SLICE_SIZES))
      return NULL;
  }
  return hops;
}

// The loop meets, on each device, the tiles of all members of its group: where each belongs.
static bool find_offsets(Einsum *e, const CollPlace *places, int64_t n_tiles, int64_t tile) {
  HlPass *p = e->p;
  const int64_t n = p->m->num_partitions;
  const int per_iteration = hops_of(e->loop, LHS);
  HlInst **hops = per_iteration > 0 ? hops_in_order(e, per_iteration) : NULL;
  if (!hops || per_iteration * e->counter.trips < n_tiles - 1)
    return false;
  bool *met = HL_ARRAY(p->arena, bool, n *n_tiles + 1);
  int64_t *from = HL_ARRAY(p->arena, int64_t, n + 1);
  e->offsets = HL_ARRAY(p->arena, int64_t *, n_tiles + 1);
  for (int64_t d = 0; d < n; d++)
    from[d] = d;
  for (int64_t k = 0; k < n_tiles; k++) {
    int64_t *next = HL_ARRAY(p->arena, int64_t, n + 1);
    e->offsets[k] = HL_ARRAY(p->arena, int64_t, n + 1);
    for (int64_t d = 0; d < n; d++) {
      const CollPlace at = places[from[d]];
      if (at.group != places[d].group || met[d * n_tiles + at.index])
        return false;
      met[d * n_tiles + at.index] = true;
      e->offsets[k][d] = at.index * tile;
    }
    if (!hop(hops[k % per_iteration], n, from, next))
      return false;
    from = next;
  }
  e->n_tiles = n_tiles;
  return true;
}

// It is used by products alone, none of which the loop needs.
static bool may_go(const Einsum *e, const HlInst *gather) {
  if (!gather->first_use || gather->comp->root == gather)
    return false;
  for (const HlUse *use = gather->first_use; use; use = use->next)
    if (use->user->op != HL_OP_DOT || hl_reaches(e->p, use->user, e->loop))
      return false;
  return true;
}

static bool is_met(Einsum *e, HlInst *gather) {
  if (gather->op != HL_OP_ALL_GATHER || !coll_is_plain(gather))
    return false;
  const CollGroups groups = coll_groups(e->p, gather);
  const CollPlace *places = coll_places(e->p, &groups);
  const int64_t dim = hl_attr_int(gather, HL_A_DIMENSION);
  return places && coll_ids_are_devices(e->p, groups.mode) && groups.size > 1 &&
         find_offsets(e, places, groups.size, gather->operands[0]->shape->dim[dim]) &&
         may_go(e, gather);
}

static HlInst *find_gather(Einsum *e) {
  HlInst *x = loop_init(e->loop, LHS);
  if (!e->gathers || e->p->m->replica_count != 1)
    return NULL;
  for (HlUse *use = x->first_use; use; use = use->next)
    if (is_met(e, use->user))
      return use->user;
  return NULL;
}

static HlInst *number_of_device(HlPass *p, HlBuild *b, const int64_t *by_device, HlInst *id) {
  const int64_t n = p->m->num_partitions, one = 1;
  HlLiteral *literal = hl_literal_new(b->cx, hl_shape_array(p->m->shapes, HL_S32, 1, &n));
  if (!literal)
    return NULL;
  for (int64_t d = 0; d < n; d++)
    hl_literal_set_i64(literal, d, by_device[d]);
  const HlAttr attr = {.key = HL_A_VALUE, .ptr = literal};
  HlInst *all = hl_b_op(b, HL_OP_CONSTANT, literal->shape, 0, NULL, 1, &attr, 0, NULL);
  hl_literal_unref(literal);
  return hl_b_reshape(b, hl_b_dynamic_slice(b, all, &id, &one), 0, NULL);
}

// The tiles that came along slot 0, put together.
static HlInst *put_together(const Einsum *e, HlBuild *b, HlInst *whole, HlInst *first,
                            HlInst *last) {
  HlPass *p = e->p;
  const int rank = whole->shape->rank;
  const int64_t dim = hl_attr_int(e->gather, HL_A_DIMENSION);
  HlInst **index = HL_ARRAY(p->arena, HlInst *, rank + 1);
  int n;
  HlInst **way = way_of(p, last, first, &n);
  HlInst *id = hl_b_op(b, HL_OP_PARTITION_ID, hl_shape_scalar(p->m->shapes, HL_U32), 0, NULL, 0,
                       NULL, 0, NULL);
  for (int64_t k = 0; k < e->n_tiles; k++) {
    for (int d = 0; d < rank; d++)
      index[d] =
          d == dim ? number_of_device(p, b, e->offsets[k], id) : hl_b_scalar_int(b, HL_S32, 0);
    whole = hl_b_dynamic_update_slice(b, whole, way[k], index);
  }
  return whole;
}

// --- Partial sums ---------------------------------------------------------------------------------

// Which operand of an add is a product that this alone uses; -1: none.
static int product_of(const HlInst *add) {
  for (int k = 1; k >= 0 && add->op == HL_OP_ADD; k--)
    if (add->operands[k]->op == HL_OP_DOT && hl_one_user(add->operands[k]) &&
        add->operands[0] != add->operands[1])
      return k;
  return -1;
}

// The products that are added up from `first` to `last`, in order; NULL: something else is done.
static HlInst **partial_sums(HlPass *p, HlInst *last, const HlInst *first, int *n) {
  *n = 0;
  HlInst *x = last;
  for (; x != first && product_of(x) >= 0; x = x->operands[1 - product_of(x)])
    ++*n;
  if (x != first || *n == 0)
    return NULL;
  HlInst **dots = HL_ARRAY(p->arena, HlInst *, *n);
  x = last;
  for (int k = *n - 1; k >= 0; k--, x = x->operands[1 - product_of(x)])
    dots[k] = x->operands[product_of(x)];
  return dots;
}

static int count_partial(const Einsum *e) {
  const HlInst *init = loop_init(e->loop, RESULT);
  HlInst *x = loop_next(e->loop, RESULT);
  int n = 0;
  if (!e->gathers || !hl_shape_is_array(init->shape) || !hl_is_all(init, 0))
    return 0;
  for (; product_of(x) >= 0; n++)
    x = x->operands[1 - product_of(x)];
  return loop_slot_of(x) == RESULT ? n : 0;
}

static HlInst *side_by_side(const Einsum *e, HlBuild *b, HlInst *last, const HlInst *first) {
  int n;
  HlInst **part = partial_sums(e->p, last, first, &n);
  const int rank = last->shape->rank;
  int64_t *dim = HL_ARRAY(e->p->arena, int64_t, rank + 1);
  dim[0] = 1;
  memcpy(dim + 1, last->shape->dim, sizeof *dim * (size_t)rank);
  for (int k = 0; k < n; k++)
    part[k] = hl_b_reshape(b, part[k], rank + 1, dim);
  return n == 1 ? part[0] : hl_b_concatenate(b, n, part, 0);
}

// --- Queues ---------------------------------------------------------------------------------------

void windowed_set_queue(HlPass *p, HlInst *inst, int64_t queue) {
  HlQueueConfig config = hl_queue_config(p->arena, inst);
  config.queue = (HlMaybeInt){true, queue};
  hl_set_queue_config(p->arena, inst, &config);
}

void windowed_wait_for(HlPass *p, HlInst *inst, int64_t queue) {
  HlQueueConfig config = hl_queue_config(p->arena, inst);
  const HlI64s old = config.waits;
  int64_t *all = HL_ARRAY(p->arena, int64_t, old.n + 1);
  for (int k = 0; k < old.n; k++)
    all[k] = old.at[k];
  all[old.n] = queue;
  config.waits = (HlI64s){all, old.n + 1};
  hl_set_queue_config(p->arena, inst, &config);
}

static void start_early(HlPass *p, HlInst *inst) {
  HlQueueConfig config = hl_queue_config(p->arena, inst);
  config.earliest = HL_ON;
  hl_set_queue_config(p->arena, inst, &config);
}

// Each product gets a queue of its own. What is exchanged first is what slot 0 begins with: XLA means
// slot 2 of the loops whose result goes round, too, but knows them by a name they have no more.
static void assign_queues(const Einsum *e, HlComp *body) {
  int64_t queue = e->queue;
  for (HlInst *inst = body->first; inst; inst = inst->next) {
    if (inst->op == HL_OP_COLLECTIVE_PERMUTE && loop_slot_of(inst->operands[0]) == LHS)
      start_early(e->p, inst);
    if (inst->op != HL_OP_DOT || !inst->first_use)
      continue;
    windowed_set_queue(e->p, inst, queue);
    windowed_wait_for(e->p, inst->first_use->user, queue++);
  }
}

// --- The new loop ---------------------------------------------------------------------------------

static void fill(HlBuild *b, HlInst **slot, void *user) {
  const Einsum *e = user;
  const int n = loop_slots(e->loop);
  HlInst **first = hl_arena_copy(e->p->arena, slot, sizeof *slot * (size_t)n), *wide[2];
  for (int k = LHS; e->scales && k <= RHS; k++)
    slot[k] = wide[k] = scaled_up(e, k, b, slot[k], slot[e->scale_slot[k]]);
  loop_all_iterations(e->p, b, e->loop, &e->counter, slot);
  for (int k = LHS; e->scales && k <= RHS; k++)
    exchange_narrow(e, k, b, first[k], wide[k], slot[e->scale_slot[k]], slot);
  if (e->gather)
    slot[e->gathered_slot] = put_together(e, b, slot[e->gathered_slot], first[LHS], slot[LHS]);
  if (e->n_partial > 0)
    slot[e->partial_slot] = side_by_side(e, b, slot[RESULT], first[RESULT]);
  assign_queues(e, b->comp);
}

static HlInst *zeros(HlBuild *b, HlDtype dtype, int rank, const int64_t *dim) {
  return hl_b_broadcast(b, hl_b_scalar_int(b, dtype, 0), rank, dim, (HlI64s){0});
}

static HlInst *room_for_partial(const Einsum *e, HlBuild *b) {
  const HlShape *shape = loop_init(e->loop, RESULT)->shape;
  int64_t *dim = HL_ARRAY(e->p->arena, int64_t, shape->rank + 1);
  dim[0] = e->n_partial * e->counter.trips;
  memcpy(dim + 1, shape->dim, sizeof *dim * (size_t)shape->rank);
  return zeros(b, shape->dtype, shape->rank + 1, dim);
}

// What the slots begin with, new ones included; returns how many there are.
static int start(Einsum *e, HlBuild *b, HlInst **slot) {
  int n = loop_slots(e->loop);
  for (int k = 0; k < n; k++)
    slot[k] = loop_init(e->loop, k);
  for (int k = LHS; e->scales && k <= RHS; k++) {
    slot[k] = narrow_start(e, k);
    slot[e->scale_slot[k] = n++] = e->scaling[k].scale;
  }
  if (e->gather) {
    const HlShape *whole = e->gather->shape;
    slot[e->gathered_slot = n++] = zeros(b, slot[LHS]->shape->dtype, whole->rank, whole->dim);
  }
  if (e->n_partial > 0)
    slot[e->partial_slot = n++] = room_for_partial(e, b);
  return n;
}

static void finish(const Einsum *e, HlBuild *b, HlInst **slot) {
  static const int64_t first_dim = 0;
  if (e->gather) {
    HlInst *whole = slot[e->gathered_slot];
    hl_also(e->p, e->gather,
            e->scales ? scaled_up(e, LHS, b, whole, e->scaling[LHS].scale) : whole);
  }
  if (e->n_partial > 0)
    slot[RESULT] =
        hl_b_reduce(b, HL_OP_ADD, slot[e->partial_slot],
                    hl_b_scalar_int(b, slot[RESULT]->shape->dtype, 0), (HlI64s){&first_dim, 1});
  // Slots that hold 8 bits now held more before.
  for (int k = LHS; e->scales && k <= RHS; k++)
    slot[k] = scaled_up(e, k, b, slot[k], e->scaling[k].scale);
}

static void handle(HlPass *p, HlInst *loop, int64_t queue) {
  enum { MORE = 6 };
  Einsum e = {.p = p, .loop = loop, .queue = queue};
  if (!is_einsum(&e))
    return;
  e.scales = find_scaling(&e);
  e.gather = find_gather(&e);
  e.n_partial = count_partial(&e);
  HlBuild b;
  hl_begin(p, "unroll", loop, &b);
  HlInst **slot = HL_ARRAY(p->arena, HlInst *, loop_slots(loop) + MORE);
  const char *test = hl_arena_printf(p->arena, "unrolled_%s", hl_while_condition(loop)->name->text);
  const char *body = hl_arena_printf(p->arena, "unrolled_%s", hl_while_body(loop)->name->text);
  const int n = start(&e, &b, slot);
  HlInst *once = loop_trivial(&b, test, body, n, slot, fill, &e);
  frontend_set(once, loop, "skip-simplify-while-loops_trip-count-one", "true");
  finish(&e, &b, slot);
  loop_commit(p, loop, hl_b_tuple(&b, loop_slots(loop), slot));
}

bool pass_windowed_einsum_handler(HlPass *p) {
  const int64_t queue = hl_free_channel(p->m);
  int n;
  HlInst **loops = loop_all(p, &n);
  for (int k = 0; k < n; k++)
    if (hl_comp_alive(loops[k]->comp) && hl_alive(loops[k]) && loop_is_plain(loops[k]) &&
        !hl_has_control(loops[k]))
      handle(p, loops[k], queue);
  return !hl_pass_flag(p, "alltoall_windowed_einsum") || windowed_all_to_alls(p);
}
