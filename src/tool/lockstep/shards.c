// tool/lockstep/shards.c: finds how arrays are cut, and compares a device's part with the whole.
#include "tool/lockstep/shards.h"

#include "base/vec.h"
#include "hilo/edit.h"
#include "hilo/opt.h"
#include "spmd/local.h"
#include "spmd/tiles.h"
#include "spmd/whole.h"

struct Shards {
  HlArena *arena;
  const HlModule *whole, *part;
  HlModule *flowed;  // the whole program with shardings everywhere; NULL: they do not flow
  HlCx *cx;
  bool says_results;  // one of them says how results are cut
  VEC(const HlSharding *) list;  // all different ones, of arrays
};

// --- Which there are --------------------------------------------------------------------------------

static void add(Shards *s, const HlSharding *sharding) {
  if (!sharding)
    return;
  if (sharding->kind == HL_SHARDING_TUPLE) {
    for (int k = 0; k < sharding->n_elements; k++)
      add(s, sharding->element[k]);
    return;
  }
  for (int k = 0; k < s->list.n; k++)
    if (hl_sharding_equal(s->list.at[k], sharding))
      return;
  vec_push_in(s->arena, &s->list, sharding);
}

static void add_all(Shards *s, const HlModule *m) {
  for (int k = 0; k < m->n_spmd_parameter_shardings; k++)
    add(s, m->spmd_parameter_shardings[k]);
  add(s, m->spmd_output_sharding);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      add(s, hl_sharding(inst));
}

static void say(HlModule *m, HlInst *inst, const HlSharding *sharding) {
  if (sharding && !hl_sharding(inst))
    hl_set_attr(inst, &(HlAttr){.key = HL_A_SHARDING, .ptr = hl_sharding_copy(m, sharding)});
}

static const HlSharding *parameter_sharding(const HlModule *m, int k) {
  return k < m->n_spmd_parameter_shardings ? m->spmd_parameter_shardings[k]
                                           : hl_sharding(m->entry->params[k]);
}

// The interface is cut as the part has it, and the rest follows.
static void flow(Shards *s) {
  HlModule *m = hl_clone(s->cx, s->whole);
  if (!m)
    return;
  hl_set_devices(m, s->part->replica_count, s->part->num_partitions);
  for (int k = 0; k < m->entry->n_params; k++)
    say(m, m->entry->params[k], parameter_sharding(s->part, k));
  say(m, m->entry->root, s->part->spmd_output_sharding);
  const HlEngineOptions options = {.passes = &hl_passes, .pipelines = &hl_pipelines};
  HlEngine *engine = hl_engine_new(s->cx, &options);
  const bool ok = engine && hl_engine_run(engine, m, "sharding-propagation");
  hl_engine_free(engine);
  if (ok)
    s->flowed = m;
  else
    hl_module_free(m);
}

Shards *shards_new(HlArena *arena, const HlModule *whole, const HlModule *part) {
  Shards *s = HL_NEW(arena, Shards);
  *s = (Shards){.arena = arena, .whole = whole, .part = part, .cx = hl_cx_new()};
  s->says_results = part->spmd_output_sharding || hl_sharding(whole->entry->root);
  flow(s);
  add_all(s, s->flowed ? s->flowed : whole);
  add_all(s, part);
  return s;
}

void shards_free(Shards *shards) {
  if (!shards)
    return;
  hl_module_free(shards->flowed);
  hl_cx_free(shards->cx);
}

// --- Of one array -----------------------------------------------------------------------------------

static bool makes(const Shards *s, const HlSharding *sharding, const HlShape *whole,
                  const HlShape *part) {
  HlArena *arena = hl_cx_scratch(s->cx);
  const HlMark mark = hl_arena_mark(arena);
  const HlTiles *t = hl_tiles_of(arena, sharding, whole->rank, s->part->num_partitions);
  bool fits = t && t->kind != HL_TILES_MANUAL && t->kind != HL_TILES_UNREDUCED;
  for (int k = 0; fits && k < whole->rank; k++)
    fits = part->dim[k] == (t->kind == HL_TILES_MAXIMAL ? whole->dim[k]
                                                        : hl_tile_size(whole->dim[k], t->parts[k]));
  hl_arena_release(arena, mark);
  return fits;
}

// The instruction in the program through which shardings have flowed.
static const HlInst *flowed_inst(const Shards *s, const HlInst *inst) {
  if (!s->flowed)
    return inst;
  const HlComp *comp = hl_find_comp(s->flowed, hl_str(inst->comp->name->text));
  const HlInst *same = comp ? hl_find_inst(comp, hl_str(inst->name->text)) : NULL;
  return same && hl_shape_equal(same->shape, inst->shape) ? same : NULL;
}

static void add_cut(ShardCuts *cuts, const HlSharding **room, const HlSharding *sharding) {
  for (int k = 0; k < cuts->n; k++)
    if (room[k] == sharding || (room[k] && sharding && hl_sharding_equal(room[k], sharding)))
      return;
  if (cuts->n < SHARD_CUTS)
    room[cuts->n++] = sharding;
}

// --- What neither program says ------------------------------------------------------------------------

// A grid of devices in their order: replicas are next to each other or far from each other, and the dimensions in order or turned.
static const HlSharding *grid(const Shards *s, int rank, const int64_t *parts, int64_t n_tiles, bool far,
                              bool turned) {
  const int64_t n = s->part->num_partitions, replicas = n / n_tiles;
  int64_t *device = HL_ARRAY(s->arena, int64_t, n + 1);
  for (int64_t place = 0; place < n; place++) {
    int64_t tile = place / replicas, rest = tile, number = 0, stride = 1;
    if (turned) {  // the first dimension varies fastest
      int64_t below = n_tiles;
      for (int k = 0; k < rank; k++) {
        below /= parts[k];
        number += rest / below * stride;
        rest %= below;
        stride *= parts[k];
      }
      tile = number;
    }
    device[place] = far ? place % replicas * n_tiles + tile : tile * replicas + place % replicas;
  }
  const HlTiles *t = hl_tiles_new(s->arena, rank, parts, 1, 1, replicas, device);
  return t ? hl_tiles_sharding(s->flowed, t) : NULL;
}

static void guess(const Shards *s, ShardCuts *cuts, const HlSharding **room, const HlShape *whole,
                  const HlShape *part) {
  int64_t *parts = HL_ARRAY(s->arena, int64_t, whole->rank + 1), n = 1;
  for (int k = 0; k < whole->rank; k++) {
    if (part->dim[k] <= 0 || part->dim[k] > whole->dim[k])
      return;
    parts[k] = hl_tile_size(whole->dim[k], part->dim[k]);
    if (hl_tile_size(whole->dim[k], parts[k]) != part->dim[k] ||
        parts[k] > s->part->num_partitions)
      return;
    n *= parts[k];
  }
  if (!s->flowed || n > s->part->num_partitions || s->part->num_partitions % n != 0)
    return;
  for (int way = 0; way < 4; way++) {
    const HlSharding *sharding = grid(s, whole->rank, parts, n, way & 1, way & 2);
    if (sharding)
      add_cut(cuts, room, sharding);
  }
}

static ShardCuts cuts_of(const Shards *s, const HlSharding *own, bool only, const HlShape *whole,
                         const HlShape *part) {
  const HlSharding *room[SHARD_CUTS];
  ShardCuts cuts = {0};
  if (!hl_shape_is_array(whole) || !hl_shape_is_array(part) || whole->dtype != part->dtype ||
      whole->rank != part->rank || hl_shape_is_dynamic(whole))
    return cuts;
  if (own && makes(s, own, whole, part))
    add_cut(&cuts, room, own);
  if (!only && hl_shape_same_dims(whole, part))
    add_cut(&cuts, room, NULL);
  for (int k = 0; !only && k < s->list.n; k++)
    if (makes(s, s->list.at[k], whole, part))
      add_cut(&cuts, room, s->list.at[k]);
  cuts.said = cuts.n;
  if (!only && (cuts.n == 0 || !s->says_results))
    guess(s, &cuts, room, whole, part);
  cuts.at = hl_arena_copy(s->arena, room, sizeof *room * (size_t)cuts.n);
  cuts.possible = ((uint64_t)1 << cuts.n) - 1;
  return cuts;
}

ShardCuts shards_cuts(const Shards *s, const HlInst *whole, const HlInst *part) {
  const HlInst *flowed = flowed_inst(s, whole);
  return cuts_of(s, flowed ? hl_sharding(flowed) : NULL, false, whole->shape, part->shape);
}

// Where one of the programs says how results are cut, there is no other way.
ShardCuts shards_result_cuts(const Shards *s, int leaf, const HlShape *whole, const HlShape *part) {
  const HlSharding *said = s->part->spmd_output_sharding ? s->part->spmd_output_sharding
                                                         : hl_sharding(s->whole->entry->root);
  if (said)
    return cuts_of(s, hl_sharding_leaf(said, leaf), true, whole, part);
  const HlInst *flowed = flowed_inst(s, s->whole->entry->root);
  const HlSharding *all = flowed ? hl_sharding(flowed) : NULL;
  return cuts_of(s, all ? hl_sharding_leaf(all, leaf) : NULL, false, whole, part);
}

static bool cuts_leaves(const Shards *s, const HlSharding *sharding, const HlShape *whole,
                        const HlShape *part, int64_t *leaf) {
  if (whole->dtype != HL_TUPLE) {
    const HlSharding *own = sharding ? hl_sharding_leaf(sharding, (*leaf)++) : NULL;
    return !hl_shape_is_array(whole) || hl_shape_same_dims(whole, part) ||
           (own && whole->rank == part->rank && makes(s, own, whole, part));
  }
  bool ok = part->dtype == HL_TUPLE && part->rank == whole->rank;
  for (int k = 0; ok && k < whole->rank; k++)
    ok = cuts_leaves(s, sharding, whole->element[k], part->element[k], leaf);
  return ok;
}

bool shards_cut_parameters(HlCx *cx, const Shards *s) {
  const HlModule *whole = shards_interface(s);
  for (int k = 0; k < whole->entry->n_params; k++) {
    const HlInst *from = whole->entry->params[k], *to = s->part->entry->params[k];
    const HlSharding *sharding =
        s->part->n_spmd_parameter_shardings > 0 ? parameter_sharding(s->part, k) : hl_sharding(from);
    int64_t leaf = 0;
    if (!cuts_leaves(s, sharding, from->shape, to->shape, &leaf))
      return hl_error_kind(cx, HL_UNSUPPORTED, hl_pos(to),
                           "neither program says how parameter %d, %s, is cut to %s", k,
                           hl_shape_text(cx, from->shape), hl_shape_text(cx, to->shape));
  }
  return true;
}

const HlModule *shards_interface(const Shards *s) {
  return s->flowed ? s->flowed : s->whole;
}

// --- Values -----------------------------------------------------------------------------------------

static bool compare(HlCx *quiet, const HlLiteral *actual, const HlLiteral *expected,
                    HlMaybeFloat tolerance, HlMismatch *out) {
  const HlCompareOptions how = {.tolerance = tolerance};
  return hl_compare(quiet, 1, &actual, &expected, &how, out);
}

// What lies beyond the whole array's end does not count.
static bool is_part(HlCx *quiet, const Shards *s, const HlSharding *sharding, int device,
                    const HlLiteral *part, const HlLiteral *whole, HlMaybeFloat tolerance,
                    HlMismatch *out) {
  if (!sharding)
    return compare(quiet, part, whole, tolerance, out);
  HlLiteral *cut = sp_cut(quiet, s->part, device, sharding, whole, part->shape);
  HlLiteral *mine = sp_crop(quiet, s->part, device, sharding, part, whole->shape);
  HlLiteral *theirs = cut ? sp_crop(quiet, s->part, device, sharding, cut, whole->shape) : NULL;
  const bool same = mine && theirs && compare(quiet, mine, theirs, tolerance, out);
  if (!mine || !theirs)
    *out = (HlMismatch){.n = part->n, .n_different = part->n, .worst = -1, .first = -1};
  hl_literal_unref(cut);
  hl_literal_unref(mine);
  hl_literal_unref(theirs);
  return same;
}

bool shards_guessed(const ShardCuts *cuts) {
  const uint64_t said = ((uint64_t)1 << cuts->said) - 1;
  return !cuts->any && cuts->n > cuts->said && (cuts->possible & said) == 0;
}

void shards_allow_any(ShardCuts *cuts) {
  if (cuts->n > 0 && !cuts->any)
    cuts->possible |= (uint64_t)1 << cuts->n;
  cuts->any = cuts->n > 0;
}

// Whether a value is the part of some device, by a grid of all parts of its size.
static bool is_some_part(HlCx *quiet, const Shards *s, const HlLiteral *part,
                         const HlLiteral *whole, HlMaybeFloat tolerance) {
  const HlSharding *room[SHARD_CUTS];
  ShardCuts grids = {0};
  HlMismatch mismatch;
  guess(s, &grids, room, whole->shape, part->shape);
  for (int device = 0; grids.n > 0 && device < s->part->num_partitions; device++)
    if (is_part(quiet, s, room[0], device, part, whole, tolerance, &mismatch))
      return true;
  return false;
}

uint64_t shards_left(HlCx *quiet, const Shards *s, const ShardCuts *cuts, uint64_t possible,
                     int device, const HlLiteral *part, const HlLiteral *whole,
                     HlMaybeFloat tolerance, HlMismatch *first) {
  for (int k = 0; k < cuts->n; k++) {
    HlMismatch mismatch;
    if (!(possible >> k & 1) ||
        is_part(quiet, s, cuts->at[k], device, part, whole, tolerance, &mismatch))
      continue;
    possible &= ~((uint64_t)1 << k);
    if (k == 0)
      *first = mismatch;
  }
  const uint64_t some = (uint64_t)1 << cuts->n;
  return cuts->any && possible == some && !is_some_part(quiet, s, part, whole, tolerance)
             ? 0
             : possible;
}

// --- Ops that know of devices -----------------------------------------------------------------------

bool shards_are_free(const HlModule *m) {
  static const HlOp ops[] = {
      HL_OP_PARTITION_ID, HL_OP_REPLICA_ID, HL_OP_RNG,  HL_OP_RNG_GET_AND_UPDATE_STATE,
      HL_OP_INFEED,       HL_OP_OUTFEED,    HL_OP_SEND, HL_OP_RECV,
      HL_OP_SEND_DONE,    HL_OP_RECV_DONE};
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      if (hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE))
        return false;
      for (int k = 0; k < HL_COUNT_OF(ops); k++)
        if (inst->op == ops[k])
          return false;
    }
  return !sp_has_borders(m);
}

bool shards_sum(const HlInst *inst) {
  return inst->op == HL_OP_ALL_REDUCE || inst->op == HL_OP_REDUCE_SCATTER;
}

bool shards_gather(const HlInst *inst) {
  return shards_sum(inst) || inst->op == HL_OP_ALL_GATHER;
}
