// tests/support/gen_devices.c: rules for collectives, asynchronous chains, channels and the host.
#include "support/gen_core.h"

// --- Who takes part ---------------------------------------------------------------------------------------

typedef enum Mode { BY_REPLICA, BY_PARTITION, BY_BOTH, FLAT } Mode;

// Sets channel, flag and groups; returns how many devices exchange data.
static int64_t set_groups(Gen *g, HlInst *inst, bool has_flag) {
  int64_t replicas = g->m->replica_count, partitions = g->m->num_partitions;
  Mode mode = has_flag            ? (Mode[]){BY_REPLICA, BY_BOTH, FLAT}[gen_below(g, 3)]
              : gen_chance(g, 50) ? BY_REPLICA
                                  : BY_PARTITION;
  int64_t ids = mode == FLAT ? replicas * partitions : mode == BY_PARTITION ? partitions : replicas;
  HlGroups *groups = gen_alloc(g, sizeof *groups);
  int64_t size = ids;
  if (mode != BY_REPLICA)
    hl_set_int(inst, HL_A_CHANNEL_ID, g->next_channel++);
  if (mode == FLAT)
    hl_set_int(inst, HL_A_USE_GLOBAL_DEVICE_IDS, 1);
  if (ids % 2 == 0 && gen_chance(g, 40))
    size = ids / 2;
  if (gen_chance(g, 40)) {
    int64_t *dims = gen_alloc(g, sizeof *dims * 2), *perm = gen_alloc(g, sizeof *perm);
    dims[0] = ids;
    perm[0] = 0;
    *groups = (HlGroups){.form = HL_GROUPS_IOTA,
                         .n_groups = ids / size,
                         .group_size = size,
                         .iota = {{dims, 1}, {perm, 1}}};
  } else if (mode == FLAT || size != ids || gen_chance(g, 50)) {
    int64_t *all = gen_alloc(g, sizeof *all * (size_t)ids);
    HlI64s *list = gen_alloc(g, sizeof *list * (size_t)(ids / size));
    for (int64_t k = 0; k < ids; k++)
      all[k] = k;
    gen_shuffle(g, all, (int)ids);
    for (int64_t k = 0; k < ids / size; k++)
      list[k] = (HlI64s){all + k * size, (int)size};
    *groups = (HlGroups){.form = HL_GROUPS_LIST, .list = {list, (int)(ids / size)}};
  }
  gen_ptr(inst, HL_A_REPLICA_GROUPS, groups);
  return mode == BY_BOTH ? size * partitions : size;
}

static HlInst *done_of(Gen *g, HlOp op, HlInst *start, const HlShape *shape) {
  return gen_done(g, gen_make(g, op, shape, 1, &start));
}

// --- Folding collectives ------------------------------------------------------------------------------------

static HlInst *all_reduce(Gen *g, HlOp op) {
  HlInst *in[2] = {gen_any(g, ANY, 0, 3)};
  HlDtype t = in[0]->shape->dtype;
  int n = (int)gen_between(g, 1, 2);
  in[1] = gen_value(g, gen_shape(g, t, 0, 3));
  HlComp *fold = gen_folder(g, 1, &t);
  HlInst *inst = gen_make(g, op, in[0]->shape, n, in);
  set_groups(g, inst, true);
  hl_set_calls(inst, 1, &fold);
  return gen_done(g, inst);
}

HlInst *rule_all_reduce(Gen *g, HlOp op) {
  return all_reduce(g, HL_OP_ALL_REDUCE);
}

HlInst *rule_all_reduce_start(Gen *g, HlOp op) {
  HlInst *start = all_reduce(g, HL_OP_ALL_REDUCE_START);
  HlInst *done = done_of(g, HL_OP_ALL_REDUCE_DONE, start, start->shape);
  for (int k = g->at.n_pool - 1; k >= 0; k--)  // a start has one user
    if (g->at.pool[k] == start)
      g->at.pool[k] = g->at.pool[--g->at.n_pool];
  return done;
}

// An operand of random shape whose dimension `at` is `size`.
static HlInst *with_dim(Gen *g, int64_t *at, int64_t size) {
  int64_t dim[3] = {gen_between(g, 1, 3), gen_between(g, 1, 3), gen_between(g, 1, 3)};
  int rank = (int)gen_between(g, 1, 3);
  *at = gen_below(g, rank);
  dim[*at] = size;
  return gen_value(g, gen_array(g, gen_dtype(g, ANY), rank, dim));
}

static const HlShape *resized(Gen *g, const HlShape *shape, int64_t at, int64_t size) {
  int64_t dim[4];
  for (int d = 0; d < shape->rank; d++)
    dim[d] = d == at ? size : shape->dim[d];
  return gen_array(g, shape->dtype, shape->rank, dim);
}

HlInst *rule_reduce_scatter(Gen *g, HlOp op) {
  int64_t at, each = gen_between(g, 1, 2), all = g->m->replica_count * g->m->num_partitions;
  HlInst *x = with_dim(g, &at, each * all);
  HlDtype t = x->shape->dtype;
  HlComp *fold = gen_folder(g, 1, &t);
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  int64_t n = set_groups(g, inst, true);
  hl_set_shape(inst, resized(g, x->shape, at, each * all / n));
  hl_set_int(inst, HL_A_DIMENSION, at);
  hl_set_calls(inst, 1, &fold);
  return gen_done(g, inst);
}

HlInst *rule_all_gather(Gen *g, HlOp op) {
  int64_t at, each = gen_between(g, 1, 3);
  HlInst *x = with_dim(g, &at, each);
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  hl_set_shape(inst, resized(g, x->shape, at, each * set_groups(g, inst, true)));
  hl_set_int(inst, HL_A_DIMENSION, at);
  return gen_done(g, inst);
}

HlInst *rule_all_gather_start(Gen *g, HlOp op) {
  int64_t at, each = gen_between(g, 1, 3);
  HlInst *x = with_dim(g, &at, each);
  HlInst *inst = gen_make(g, HL_OP_ALL_GATHER_START, x->shape, 1, &x);
  const HlShape *two[2] = {x->shape, resized(g, x->shape, at, each * set_groups(g, inst, true))};
  hl_set_shape(inst, hl_shape_tuple(g->m->shapes, 2, two));
  hl_set_int(inst, HL_A_DIMENSION, at);
  return done_of(g, HL_OP_ALL_GATHER_DONE, gen_done(g, inst), two[1]);
}

HlInst *rule_all_to_all(Gen *g, HlOp op) {
  int64_t at, all = g->m->replica_count * g->m->num_partitions;
  if (gen_chance(g, 60)) {
    HlInst *x = with_dim(g, &at, all * gen_between(g, 1, 2));
    HlInst *inst = gen_make(g, op, x->shape, 1, &x);
    set_groups(g, inst, false);
    hl_set_int(inst, HL_A_DIMENSION, at);
    return gen_done(g, inst);
  }
  const HlShape *shape = gen_shape(g, gen_dtype(g, ANY), 0, 3);  // one operand for each device
  HlInst *in[32], *probe = gen_value(g, shape);
  HlInst *inst = gen_make(g, op, shape, 1, &probe);
  int64_t n = set_groups(g, inst, false);
  for (int64_t k = 0; k < n; k++) {
    in[k] = gen_unary(g, HL_OP_COPY, gen_value(g, shape));
    hl_set_shape(in[k], shape);
  }
  hl_set_operands(inst, (int)n, in);
  return gen_element(g, gen_done(g, inst), 0);
}

// A row to every device, all from and to the first row.
HlInst *rule_ragged_all_to_all(Gen *g, HlOp op) {
  int64_t rows = 8, dim[2] = {rows, gen_between(g, 1, 3)};
  HlDtype t = gen_dtype(g, ANY);
  HlInst *x = gen_value(g, gen_array(g, t, 2, dim)), *in[6] = {x, x, x, x, x, x};
  in[1] = gen_value(g, x->shape);
  HlInst *inst = gen_make(g, op, x->shape, 6, in);
  int64_t n = set_groups(g, inst, false);
  for (int k = 2; k < 6; k++) {
    HlInst *scalar = gen_int(g, HL_S32, k % 2);
    in[k] = gen_broadcast(g, scalar, gen_array(g, HL_S32, 1, &n));
  }
  hl_set_operands(inst, 6, in);
  return gen_done(g, inst);
}

// From a root, the first or one that an operand names, or, of a reduce, to it.
HlInst *rule_collective_broadcast(Gen *g, HlOp op) {
  const int64_t one = 1;
  HlInst *in[2] = {gen_any(g, ANY, 0, 3)};
  const bool dynamic = gen_chance(g, 30);
  HlDtype t = in[0]->shape->dtype;
  if (dynamic)
    in[1] = gen_broadcast(g, gen_int(g, HL_S32, 0), gen_array(g, HL_S32, 1, &one));
  HlComp *fold = op == HL_OP_COLLECTIVE_REDUCE ? gen_folder(g, 1, &t) : NULL;
  HlInst *inst = gen_make(g, op, in[0]->shape, 1 + dynamic, in);
  set_groups(g, inst, op == HL_OP_COLLECTIVE_REDUCE);
  hl_set_int(inst, HL_A_HAS_DYNAMIC_ROOT, dynamic);
  if (fold)
    hl_set_calls(inst, 1, &fold);
  return gen_done(g, inst);
}

static void set_pairs(Gen *g, HlInst *inst) {
  bool partitions = gen_chance(g, 50);
  int64_t ids = partitions ? g->m->num_partitions : g->m->replica_count, to[8], pairs[16];
  if (partitions)
    hl_set_int(inst, HL_A_CHANNEL_ID, g->next_channel++);
  for (int64_t k = 0; k < ids; k++)
    to[k] = k;
  gen_shuffle(g, to, (int)ids);
  int64_t n = gen_between(g, 0, ids);
  for (int64_t k = 0; k < n; k++) {
    pairs[2 * k] = k;
    pairs[2 * k + 1] = to[k];
  }
  hl_set_ints(inst, HL_A_SOURCE_TARGET_PAIRS, (HlI64s){pairs, (int)(2 * n)});
}

HlInst *rule_collective_permute(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  HlInst *inst = gen_make(g, op, x->shape, 1, &x);
  set_pairs(g, inst);
  return gen_done(g, inst);
}

HlInst *rule_collective_permute_start(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  const HlShape *four[4] = {x->shape, x->shape, gen_scalar(g, HL_U32), gen_scalar(g, HL_U32)};
  HlInst *inst = gen_make(g, HL_OP_COLLECTIVE_PERMUTE_START,
                          hl_shape_tuple(g->m->shapes, gen_chance(g, 50) ? 2 : 4, four), 1, &x);
  set_pairs(g, inst);
  return done_of(g, HL_OP_COLLECTIVE_PERMUTE_DONE, gen_done(g, inst), x->shape);
}

// --- Asynchronous chains --------------------------------------------------------------------------------------

HlInst *rule_copy_start(Gen *g, HlOp op) {
  HlInst *x = gen_any(g, ANY, 0, 3);
  const HlShape *three[3] = {x->shape, x->shape, gen_scalar(g, HL_U32)};
  HlInst *start = gen_make(g, HL_OP_COPY_START, hl_shape_tuple(g->m->shapes, 3, three), 1, &x);
  return done_of(g, HL_OP_COPY_DONE, gen_done(g, start), x->shape);
}

HlInst *rule_async(Gen *g, HlOp op) {
  static const HlOp wrapped[] = {HL_OP_ADD, HL_OP_MULTIPLY, HL_OP_MAXIMUM, HL_OP_ATAN2};
  HlInst *in[2] = {gen_any(g, F, 0, 3)};
  const HlShape *shape = in[0]->shape;
  in[1] = gen_value(g, shape);
  Place outer = gen_open(g, "async_wrapped");
  g->at.bare = true;
  HlInst *p[2] = {gen_parameter(g, in[0]->shape), gen_parameter(g, in[1]->shape)};
  HlComp *body = gen_close(g, outer, gen_binary(g, wrapped[gen_below(g, 4)], p[0], p[1]));
  const HlShape *operands[2] = {in[0]->shape, in[1]->shape};
  const HlShape *parts[3] = {hl_shape_tuple(g->m->shapes, 2, operands), body->root->shape,
                             gen_scalar(g, HL_U32)};
  const HlShape *chain = hl_shape_tuple(g->m->shapes, (int)gen_between(g, 2, 3), parts);
  HlInst *start = gen_make(g, HL_OP_ASYNC_START, chain, 2, in);
  hl_set_calls(start, 1, &body);
  gen_done(g, start);
  for (int64_t n = op == HL_OP_ASYNC_UPDATE ? gen_between(g, 1, 2) : 0; n > 0; n--)
    start = gen_done(g, gen_make(g, HL_OP_ASYNC_UPDATE, chain, 1, &start));
  return done_of(g, HL_OP_ASYNC_DONE, start, body->root->shape);
}

// --- Channels and the host ------------------------------------------------------------------------------------

static HlInst *token(Gen *g) {
  return gen_done(g, gen_make(g, HL_OP_AFTER_ALL, hl_shape_token(g->m->shapes), 0, NULL));
}

// A device sends to itself. Every other channel waits for nothing between its halves, so that
// channels can be on their way together.
HlInst *rule_send(Gen *g, HlOp op) {
  int64_t channel = g->next_channel++;
  HlInst *in[2] = {gen_any(g, ANY, 0, 3), token(g)};
  const HlShape *three[3] = {in[0]->shape, gen_scalar(g, HL_U32), in[1]->shape};
  const HlShape *flight = hl_shape_tuple(g->m->shapes, 3, three);
  const HlShape *two[2] = {in[0]->shape, in[1]->shape};
  HlInst *send = gen_make(g, HL_OP_SEND, flight, 2, in);
  hl_set_int(send, HL_A_CHANNEL_ID, channel);
  gen_done(g, send);
  HlInst *sent = gen_make(g, HL_OP_SEND_DONE, in[1]->shape, 1, &send);
  hl_set_int(sent, HL_A_CHANNEL_ID, channel);
  gen_done(g, sent);
  HlInst *recv = gen_make(g, HL_OP_RECV, flight, 1, channel % 2 ? &sent : &in[1]);
  hl_set_int(recv, HL_A_CHANNEL_ID, channel);
  gen_done(g, recv);
  HlInst *received = gen_make(g, HL_OP_RECV_DONE, hl_shape_tuple(g->m->shapes, 2, two), 1, &recv);
  hl_set_int(received, HL_A_CHANNEL_ID, channel);
  if (channel % 2 == 0)
    hl_add_control(send, received);
  return gen_element(g, gen_done(g, received), 0);
}

HlInst *rule_infeed(Gen *g, HlOp op) {
  HlInst *t = token(g);
  const HlShape *data[2] = {gen_shape(g, gen_dtype(g, ANY), 0, 3),
                            gen_shape(g, gen_dtype(g, ANY), 0, 3)};
  const HlShape *two[2] = {hl_shape_tuple(g->m->shapes, (int)gen_between(g, 1, 2), data), t->shape};
  HlInst *inst = gen_make(g, op, hl_shape_tuple(g->m->shapes, 2, two), 1, &t);
  if (gen_chance(g, 50))
    hl_set_text(inst, HL_A_INFEED_CONFIG, "\001\002 \"x\"");
  return gen_element(g, gen_element(g, gen_done(g, inst), 0), 0);
}

HlInst *rule_outfeed(Gen *g, HlOp op) {
  HlInst *in[2] = {gen_any(g, ANY, 0, 3), token(g)};
  HlInst *inst = gen_make(g, op, in[1]->shape, 2, in);
  gen_ptr(inst, HL_A_OUTFEED_SHAPE, in[0]->shape);
  if (gen_chance(g, 50))
    hl_set_text(inst, HL_A_OUTFEED_CONFIG, "config");
  return gen_done(g, inst);
}
