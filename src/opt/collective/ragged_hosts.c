// opt/collective/ragged_hosts.c
//
// ragged-all-to-all-multi-host-decomposer: ragged-all-to-all among the devices of several hosts as one among those of each
// host, and exchanges between devices of the same place on all hosts.
//
// Where there are more rows of output than of input (tokens on their way to experts), everything is gathered from the
// other hosts first; of those updates each device then does what concerns its own host:
//
//   y = ragged-all-to-all(x, out, o, s, t, r), replica_groups={{0,1,2,3}}               two hosts
//   =>
//   all = all-gather(x), replica_groups={{0,2},{1,3}}
//   o', s', t' = all-to-all of o, s, t in the same groups; o' += rows of x * host
//   y = ragged-all-to-all(all, out, o', s', t', r'), replica_groups={{0,1},{2,3}}
//
// Otherwise most rows of the input mean nothing (experts answer). Then the devices of a host first put together, in an
// array like the output for each host, what goes there, and these arrays are exchanged:
//
//   for_h = ragged-all-to-all(x, 0, part of o, s, t, r for host h), replica_groups={{0,1},{2,3}}
//   from = all-to-all(concatenate(for_0, for_1)), replica_groups={{0,2},{1,3}}
//   y = ragged-all-to-all(from, out, ...), replica_groups={{0},{1},{2},{3}}

#include "opt/ask/collectives.h"
#include "opt/passes.h"

enum { X, OUT, FROM, SIZE, TO, RECEIVED, OPERANDS };

typedef struct Hosts {
  HlPass *p;
  HlBuild *b;
  HlInst *inst;
  HlI64Lists across, within, alone;  // groups
  int64_t hosts, devices;            // devices: on each host
  int64_t updates;                   // for each device
} Hosts;

// Members of a group stand host by host.
static bool splits_into_hosts(Hosts *h, const CollGroups *groups, int64_t per_host) {
  if (per_host <= 0 || groups->size <= per_host || groups->size % per_host != 0)
    return false;
  h->devices = per_host;
  h->hosts = groups->size / per_host;
  for (int g = 0; g < groups->lists.n; g++)
    for (int64_t k = 0; k < groups->size; k++)
      if (groups->lists.at[g].at[k] / per_host !=
          groups->lists.at[g].at[k - k % per_host] / per_host)
        return false;
  return true;
}

static void add_group(HlI64Lists *lists, HlI64s *at, const int64_t *first, int64_t n) {
  *at = (HlI64s){first, (int)n};
  lists->n++;
}

static void make_groups(Hosts *h, const CollGroups *groups) {
  HlArena *arena = h->p->arena;
  const int64_t n = groups->lists.n, size = groups->size;
  HlI64s *across = HL_ARRAY(arena, HlI64s, n * h->devices);
  HlI64s *within = HL_ARRAY(arena, HlI64s, n * h->hosts);
  HlI64s *alone = HL_ARRAY(arena, HlI64s, n * size);
  h->across.at = across;
  h->within.at = within;
  h->alone.at = alone;
  for (int64_t g = 0; g < n; g++) {
    const int64_t *member = groups->lists.at[g].at;
    int64_t *turned = HL_ARRAY(arena, int64_t, size);
    for (int64_t k = 0; k < size; k++)
      turned[(k % h->devices) * h->hosts + k / h->devices] = member[k];
    for (int64_t d = 0; d < h->devices; d++)
      add_group(&h->across, &across[h->across.n], turned + d * h->hosts, h->hosts);
    for (int64_t k = 0; k < h->hosts; k++)
      add_group(&h->within, &within[h->within.n], member + k * h->devices, h->devices);
    for (int64_t k = 0; k < size; k++)
      add_group(&h->alone, &alone[h->alone.n], member + k, 1);
  }
}

static bool is_plain(const HlInst *inst) {
  if (inst->n_operands != OPERANDS || !hl_has_attr(inst, HL_A_REPLICA_GROUPS) ||
      !hl_shape_is_array(inst->shape) || inst->shape->rank == 0 ||
      !hl_shape_compatible(inst->shape, inst->operands[OUT]->shape))
    return false;
  for (int k = 0; k < OPERANDS; k++) {
    const HlShape *shape = inst->operands[k]->shape, *from = inst->operands[FROM]->shape;
    if (hl_shape_is_dynamic(shape) ||
        (k >= FROM && (shape->rank != 1 || shape->dtype != from->dtype ||
                       shape->dim[0] != from->dim[0] || !hl_is_integral(shape->dtype))))
      return false;
  }
  return true;
}

// --- Pieces ---------------------------------------------------------------------------------------

static HlInst *exchanged(const Hosts *h, HlOp op, HlInst *x, const HlShape *shape,
                         HlI64Lists groups) {
  HlInst *made = coll_new(h->b, op, h->inst, shape, x, 0);
  coll_set_groups(made, groups);
  if (op == HL_OP_ALL_GATHER && hl_attr_int(made, HL_A_CHANNEL_ID) > 0)
    hl_set_int(made, HL_A_USE_GLOBAL_DEVICE_IDS, 1);
  coll_fresh_channel(h->p, made);
  return made;
}

static HlInst *ragged(const Hosts *h, HlInst *const *operands, HlI64Lists groups) {
  HlInst *made = coll_copy(h->b, h->inst, NULL, OPERANDS, operands);
  coll_set_groups(made, groups);
  coll_fresh_channel(h->p, made);
  return made;
}

static HlInst *by_host(const Hosts *h, HlInst *x) {
  return hl_b_reshape(h->b, x, 3, (int64_t[]){h->hosts, h->devices, h->updates});
}

static HlInst *flat(const Hosts *h, HlInst *x) {
  return hl_b_reshape(h->b, x, 1, (int64_t[]){h->hosts * h->devices * h->updates});
}

// [host, device, update] to [device, host, update], as one list.
static HlInst *turned(const Hosts *h, HlInst *x) {
  return flat(h, hl_b_transpose(h->b, x, (HlI64s){(int64_t[]){1, 0, 2}, 3}));
}

// Row numbers in arrays of `rows` rows for each host, one behind the other: x + host * rows.
static HlInst *behind(const Hosts *h, HlInst *x, int64_t rows) {
  HlInst *host = hl_b_iota(h->b, x->shape->dtype, x->shape->rank, x->shape->dim, 0);
  return hl_b_binary(h->b, HL_OP_ADD, x,
                     hl_b_binary(h->b, HL_OP_MULTIPLY, host, hl_b_like_int(h->b, x, rows)));
}

// Several lists, exchanged as one: [a, b, update] each, along the first dimension.
static void exchange_lists(const Hosts *h, int n, HlInst **list, HlI64Lists groups) {
  const int64_t *dim = list[0]->shape->dim;
  HlInst *all = n == 1 ? list[0] : hl_b_concatenate(h->b, n, list, 2);
  all = exchanged(h, HL_OP_ALL_TO_ALL, all, all->shape, groups);
  for (int k = 0; k < n; k++)
    list[k] = hl_b_slice_dim(h->b, all, 2, k * dim[2], (k + 1) * dim[2]);
}

// --- The two ways -------------------------------------------------------------------------------------

static HlInst *gather_first(const Hosts *h) {
  HlInst *x = h->inst->operands[X], *operands[OPERANDS], *list[3];
  const int64_t rows = x->shape->dim[0];
  for (int k = 0; k < 3; k++)
    list[k] = by_host(h, h->inst->operands[FROM + k]);
  exchange_lists(h, 3, list, h->across);
  operands[X] = exchanged(h, HL_OP_ALL_GATHER, x, coll_resized(h->p, x->shape, 0, h->hosts * rows),
                          h->across);
  operands[OUT] = h->inst->operands[OUT];
  operands[FROM] = turned(h, behind(h, list[0], rows));
  operands[SIZE] = turned(h, list[1]);
  operands[TO] = turned(h, list[2]);
  operands[RECEIVED] = turned(h, by_host(h, h->inst->operands[RECEIVED]));
  return ragged(h, operands, h->within);
}

// What this host's devices have for those of host `to`.
static HlInst *collected_for(const Hosts *h, int64_t to, HlInst *empty) {
  HlInst *operands[OPERANDS] = {h->inst->operands[X], empty};
  const int64_t n = h->devices * h->updates;
  for (int k = FROM; k < OPERANDS; k++)
    operands[k] = hl_b_slice_dim(h->b, h->inst->operands[k], 0, to * n, (to + 1) * n);
  return ragged(h, operands, h->within);
}

static HlInst *gather_last(const Hosts *h, HlI64Lists groups) {
  HlInst *out = h->inst->operands[OUT], *operands[OPERANDS], *list[2];
  const int64_t rows = out->shape->dim[0];
  HlInst **part = HL_ARRAY(h->p->arena, HlInst *, h->hosts);
  HlInst *empty = hl_b_like(h->b, out, 0);
  for (int64_t k = 0; k < h->hosts; k++)
    part[k] = collected_for(h, k, empty);
  HlInst *all = hl_b_concatenate(h->b, (int)h->hosts, part, 0);
  operands[X] = exchanged(h, HL_OP_ALL_TO_ALL, all, all->shape, h->across);
  operands[OUT] = out;
  for (int k = 0; k < 2; k++)
    list[k] = hl_b_reshape(h->b, h->inst->operands[SIZE + k], 3,
                           (int64_t[]){h->hosts * h->devices, 1, h->updates});
  exchange_lists(h, 2, list, groups);
  operands[FROM] = flat(h, behind(h, by_host(h, list[1]), rows));
  operands[SIZE] = operands[RECEIVED] = flat(h, list[0]);
  operands[TO] = flat(h, list[1]);
  return ragged(h, operands, h->alone);
}

static int64_t devices_per_host(const HlPass *p) {
  const HlTarget *t = hl_target_of_kind(p->target, HL_TARGET_GPU);
  return hl_pass_fact(p, "devices_per_host", t->devices_per_host);
}

static HlInst *by_hosts(HlPass *p, HlBuild *b, HlInst *inst) {
  Hosts h = {.p = p, .b = b, .inst = inst};
  if (!is_plain(inst) || (hl_attr_int(inst, HL_A_CHANNEL_ID) > 0 && p->m->replica_count > 1))
    return NULL;
  const CollGroups groups = coll_groups(p, inst);
  const int64_t n = inst->operands[FROM]->shape->dim[0];
  if (groups.size <= 0 || n == 0 || n % groups.size != 0 ||
      !splits_into_hosts(&h, &groups, devices_per_host(p)))
    return NULL;
  h.updates = n / groups.size;
  make_groups(&h, &groups);
  return inst->operands[X]->shape->dim[0] > inst->operands[OUT]->shape->dim[0]
             ? gather_last(&h, groups.lists)
             : gather_first(&h);
}

const HlRule ragged_hosts_rules[] = {{HL_OP_RAGGED_ALL_TO_ALL, by_hosts,
                                      "ragged-all-to-all-multi-host-decomposer",
                                      "ragged-all-to-all(x) => ragged-all-to-all(all-gather(x)), "
                                      "or all-to-all(ragged-all-to-all(x))",
                                      "groups of whole hosts"},
                                     {0}};

bool pass_ragged_hosts(HlPass *p) {
  return coll_run_rules(p, ragged_hosts_rules, 1);
}
