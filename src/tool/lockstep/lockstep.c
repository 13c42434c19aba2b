// tool/lockstep/lockstep.c: two versions of a program on the same arguments, instruction beside instruction.
//
// Partners are those of hl_diff with equal types and sizes. Where it is not sure of one (several instructions of one op have the
// same name in the source, say), an instruction is right whose value is that of any of them. The first program's values are kept as they come, up to a limit
// of memory; the second's are compared with them as they come. What did not fit is compared in further runs. Then the second
// program is walked backwards from the results that differ, past whatever differs or has no partner, until values are
// equal: what differs there, and nothing before it, is where it comes from.
#include "hilo/lockstep.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"
#include "spmd/local.h"
#include "spmd/whole.h"
#include "tool/lockstep/shards.h"
#include "tool/lockstep/side.h"

enum { NOT_COMPARED = -1 };

typedef struct Kept {
  HlLiteral *value;
  int64_t time;
  int device;
} Kept;

// Of an instruction of the first program that is somebody's partner.
typedef struct Source {
  const HlInst *inst;
  VEC(Kept) kept;
  int64_t *times;  // [device]: how often it has run in this run
  int64_t bytes;   // of all its values
  bool wanted;     // in this run
  bool complete;   // all its values are kept
  bool done;       // all of them were compared, or as many as will be
} Source;

enum { CANDIDATES = 64 };

// What a device's values say of how an array is cut. Devices run at once, in any order: each by itself, and all together when
// they have ended.
typedef struct OnDevice {
  uint64_t possible;
  bool differs;  // from its part as the program cuts it, at:
  int64_t time;
  uint64_t order;
  HlMismatch mismatch;
} OnDevice;

typedef struct Target {
  HlStepPair *pair;
  Source **source;  // whose value it may have; the first is the partner's
  int n_sources;
  int64_t *times;
  ShardCuts cuts;      // of a cut program
  OnDevice *on;        // [device]; NULL: nothing was compared yet
  bool due, done;      // its values are compared in this run; were in one before
  int64_t in_a, in_b;  // from how many places what it stands in is called, in both programs
  bool loose;          // they are computed from other operands, so that they need not be partners
  bool ran;            // gave a value
  bool tried;          // beside all others of its op and form
  int64_t silent;      // values, of HlLockstep.n_silent_values
  uint64_t order;      // of the first value that differs among all that were compared on a device
  uint64_t before;     // the order it had before it was tried
} Target;

typedef struct Lockstep {
  HlCx *cx;
  const HlLockstepOptions *options;
  const HlModule *a, *b;
  HlLockstep *out;
  HlArena *arena;
  int devices;
  int devices_a;  // fewer, where one has all of a program that is cut
  StepSide side_a, side_b;
  Shards *shards;          // NULL: the second program has whole arrays
  bool *gathered;          // [serial of b] what has the partner of its operand
  ShardCuts *result_cuts;  // of each leaf of the result
  HlModule *without;       // the first program, where its borders had to be written out
  Source *source;
  int n_sources;
  Target *target;            // as out->pair
  Map source_of, target_of;  // serials of a and b to 1 + places
  int64_t memory, held;
  uint64_t *now;  // [device]: values that were compared
  HlCx *quiet;    // for comparisons
  pthread_mutex_t lock;
} Lockstep;

// --- Partners ---------------------------------------------------------------------------------------

static bool gives_array(const HlInst *inst) {
  return hl_shape_is_array(inst->shape);
}

// What is handed on, and what stands for a run-time size, is compared where it was made.
static bool may_pair(const Lockstep *l, const HlInst *a, const HlInst *b) {
  if (!a || !b || !gives_array(a) || !gives_array(b) || a->shape->dtype != b->shape->dtype)
    return false;
  return l->shards ? shards_cuts(l->shards, a, b).n > 0 : hl_shape_same_dims(a->shape, b->shape);
}

static Source *source_for(Lockstep *l, const HlInst *a) {
  uint64_t *place = map_at(&l->source_of, a->serial);
  if (!*place) {
    l->source[l->n_sources] =
        (Source){.inst = a, .wanted = true, .times = HL_ARRAY(l->arena, int64_t, l->devices)};
    *place = (uint64_t)++l->n_sources;
  }
  return &l->source[*place - 1];
}

// What is told apart by nothing but its place among others: op, type, sizes and name in the source.
static uint64_t kind_of(const HlInst *inst) {
  const HlMetadata *from = hl_metadata(inst);
  const char *name = from && from->op_name ? from->op_name->text : "";
  uint64_t hash = hl_hash_bytes(name, strlen(name), inst->op);
  hash = hl_hash_mix(hash, (uint64_t)inst->shape->dtype);
  for (int k = 0; k < inst->shape->rank; k++)
    hash = hl_hash_mix(hash, (uint64_t)inst->shape->dim[k]);
  return hash;
}

static bool same_kind(const HlInst *a, const HlInst *b) {
  return a->op == b->op && a->shape->dtype == b->shape->dtype &&
         hl_shape_same_dims(a->shape, b->shape) && kind_of(a) == kind_of(b);
}

static Map kinds_of(Lockstep *l) {
  Map kinds = {.arena = l->arena};
  for (const HlComp *comp = l->a->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (gives_array(inst))
        map_add(&kinds, kind_of(inst), (uint64_t)(uintptr_t)inst);
  return kinds;
}

// From how many places a computation is called, counting those from where its callers are: so often its instructions
// run where the same instruction, written out there, runs once.
static int64_t places(const HlComp *comp, int64_t *known) {
  enum { MOST = 1000 };
  if (known[comp->id])
    return known[comp->id];
  int64_t n = comp == comp->module->entry;
  for (const HlCall *call = comp->first_call; call && n < MOST; call = call->next)
    n += places(call->caller->comp, known);
  return known[comp->id] = n > 1 ? n : 1;
}

// Callers stand behind callees in the list, so from its end nothing recurses deep.
static int64_t *all_places(Lockstep *l, const HlModule *m) {
  int64_t *known = HL_ARRAY(l->arena, int64_t, (size_t)m->next_comp_id + 1);
  for (const HlComp *comp = m->last; comp; comp = comp->prev)
    places(comp, known);
  return known;
}

static bool is_sure(HlDiffBy by) {
  return by == HL_BY_STRUCTURE || by == HL_BY_PLACE;
}

// All partners that an instruction has in places where what it stands in is called.
static int other_partners(Lockstep *l, const Target *t, const Map *rows, Source **some) {
  MapWalk walk = map_walk(rows, t->pair->b->serial);
  int n = 1;
  for (uint64_t at; t->in_b > 1 && n <= CANDIDATES && (at = map_next(&walk));) {
    const HlDiffRow *row = (const HlDiffRow *)(uintptr_t)at;
    if (row->a != t->pair->a && may_pair(l, row->a, row->b))
      some[n++] = source_for(l, row->a);
  }
  return n;
}

static void find_sources(Lockstep *l, Target *t, const Map *kinds, const Map *rows, HlDiffBy by) {
  const HlInst *b = t->pair->b;
  Source *some[CANDIDATES + 1] = {source_for(l, t->pair->a)};
  int n = other_partners(l, t, rows, some);
  MapWalk walk = map_walk(kinds, kind_of(b));
  for (uint64_t at; !l->shards && !is_sure(by) && n <= CANDIDATES && (at = map_next(&walk));) {
    const HlInst *a = (const HlInst *)(uintptr_t)at;
    if (a != t->pair->a && same_kind(a, b))
      some[n++] = source_for(l, a);
  }
  t->source = hl_arena_copy(l->arena, some, sizeof *some * (size_t)n);
  t->n_sources = n;
}

typedef const HlDiffRow *Partner;  // [serial of b]

static Partner new_row(Lockstep *l, const HlInst *a, const HlInst *b, HlDiffBy by, uint32_t what) {
  HlDiffRow *row = HL_NEW(l->arena, HlDiffRow);
  *row = (HlDiffRow){.a = a, .b = b, .by = by, .what = what};
  return row;
}

// The results of both programs belong together, whatever made them.
static void pair_results(Lockstep *l, Partner *partner) {
  const HlInst *a = l->a->entry->root, *b = l->b->entry->root;
  const bool tuples =
      a->op == HL_OP_TUPLE && b->op == HL_OP_TUPLE && a->n_operands == b->n_operands;
  for (uint32_t k = 0; k < (tuples ? b->n_operands : 1); k++) {
    const HlInst *x = tuples ? a->operands[k] : a, *y = tuples ? b->operands[k] : b;
    if (!partner[y->serial] && may_pair(l, x, y))
      partner[y->serial] = new_row(l, x, y, HL_BY_PLACE, HL_DIFF_OPERANDS);
  }
}

static bool is_inside(const HlInst *inst) {
  return inst->comp->is_fusion;
}

// What steps make has the partner of what is its value inside.
static const HlInst *value_inside(const HlInst *inst) {
  while (inst->op == HL_OP_FUSION)
    inst = hl_called(inst, 0)->root;
  return inst;
}

static void lift(Lockstep *l, Partner *partner, const HlInst *outside, const HlInst *inside) {
  Partner row = partner[value_inside(inside)->serial];
  if (row && !partner[outside->serial] && may_pair(l, row->a, outside))
    partner[outside->serial] = new_row(l, row->a, outside, row->by, row->what);
}

static void lift_fusion(Lockstep *l, Partner *partner, const HlInst *fusion) {
  const HlInst *root = hl_called(fusion, 0)->root;
  if (gives_array(fusion)) {
    lift(l, partner, fusion, root);
    return;
  }
  for (const HlUse *use = fusion->first_use; root->op == HL_OP_TUPLE && use; use = use->next)
    if (use->user->op == HL_OP_GET_TUPLE_ELEMENT)
      lift(l, partner, use->user, root->operands[hl_attr_int(use->user, HL_A_INDEX)]);
}

// Of a compiled program only what steps make is seen.
static void lift_all(Lockstep *l, Partner *partner) {
  for (const HlComp *comp = l->b->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->op == HL_OP_FUSION && !is_inside(inst))
        lift_fusion(l, partner, inst);
  for (const HlComp *comp = l->b->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst && comp->is_fusion; inst = inst->next)
      partner[inst->serial] = NULL;
}

// The fusion, or element of one, whose value this is inside of it; NULL: it is none.
static const HlInst *lowered(const HlInst *inst) {
  while (is_inside(inst)) {
    const HlComp *comp = inst->comp;
    const HlInst *caller = comp->first_call ? comp->first_call->caller : NULL;
    if (!caller || caller->op != HL_OP_FUSION)
      return NULL;
    const HlInst *found = comp->root == inst ? caller : NULL;
    for (const HlUse *use = caller->first_use; comp->root->op == HL_OP_TUPLE && use;
         use = use->next)
      if (use->user->op == HL_OP_GET_TUPLE_ELEMENT &&
          comp->root->operands[hl_attr_int(use->user, HL_A_INDEX)] == inst)
        found = use->user;
    if (!found)
      return NULL;
    inst = found;
  }
  return inst;
}

// What becomes of a device's part when devices put theirs together: it has the partner that the part has. Summands have none.
static void pair_gathered(Lockstep *l, Partner *partner, const HlInst *inst) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    Partner row = partner[operand->serial];
    const HlInst *to = gives_array(inst) ? inst : NULL;
    for (const HlUse *use = inst->first_use; !to && use; use = use->next)
      if (use->user->op == HL_OP_GET_TUPLE_ELEMENT &&
          hl_attr_int(use->user, HL_A_INDEX) == (int64_t)k)
        to = use->user;
    if (!row || row->a->op == inst->op)
      continue;
    if (to && (!partner[to->serial] || !is_sure(partner[to->serial]->by)) &&
        may_pair(l, row->a, to)) {
      partner[to->serial] = new_row(l, row->a, to, row->by, HL_DIFF_OPERANDS);
      l->gathered[to->serial] = true;
    }
    if (shards_sum(inst))
      partner[operand->serial] = NULL;
  }
}

static void pair_gathers(Lockstep *l, Partner *partner) {
  l->gathered = HL_ARRAY(l->arena, bool, (size_t)l->b->next_serial + 1);
  for (const HlComp *comp = l->b->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (shards_gather(inst))
        pair_gathered(l, partner, inst);
}

static const HlInst *seen_of_a(const Lockstep *l, const HlInst *a) {
  return a && l->side_a.by_steps ? lowered(a) : a;
}

// Of several rows of one instruction the first counts that may pair: hl_diff has the surest first.
static void take_rows(Lockstep *l, const HlDiff *diff, Partner *partner) {
  for (int k = 0; k < diff->n_rows; k++) {
    const HlDiffRow *row = &diff->row[k];
    const HlInst *a = seen_of_a(l, row->a);
    if (row->verdict == HL_DIFF_FOLDED || !row->b || partner[row->b->serial])
      continue;
    if (may_pair(l, a, row->b))
      partner[row->b->serial] = a == row->a ? row : new_row(l, a, row->b, row->by, row->what);
    else if (l->shards && a && gives_array(a) && gives_array(row->b))
      l->out->n_not_cut++;
  }
}

static void take_itself(Lockstep *l, Partner *partner) {
  for (const HlComp *comp = l->b->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (gives_array(inst))
        partner[inst->serial] = new_row(l, inst, inst, HL_BY_STRUCTURE, 0);
}

static void find_partners(Lockstep *l, const HlDiff *diff, Partner *partner) {
  if (diff)
    take_rows(l, diff, partner);
  else
    take_itself(l, partner);
  pair_results(l, partner);
  if (l->side_b.by_steps)
    lift_all(l, partner);
  if (l->shards)
    pair_gathers(l, partner);
}

static void pair_up(Lockstep *l, const HlDiff *diff) {
  HlLockstep *out = l->out;
  Partner *partner = HL_ARRAY(l->arena, Partner, (size_t)l->b->next_serial + 1);
  find_partners(l, diff, partner);
  out->pair = HL_ARRAY(l->arena, HlStepPair, hl_count_instructions(l->b) + 1);
  l->target = HL_ARRAY(l->arena, Target, hl_count_instructions(l->b) + 1);
  l->source = HL_ARRAY(l->arena, Source, hl_count_instructions(l->a) + 1);
  HlComp **comps = hl_comp_order(l->arena, l->b);
  for (uint32_t c = 0; c < l->b->n_comps; c++) {
    HlInst **insts = hl_print_order(l->arena, comps[c]);
    for (uint32_t k = 0; k < comps[c]->n_insts; k++) {
      const HlInst *b = insts[k];
      out->n_b += gives_array(b);
      if (!partner[b->serial])
        continue;
      out->pair[out->n_pairs] = (HlStepPair){.a = partner[b->serial]->a, .b = b};
      l->target[out->n_pairs] = (Target){.times = HL_ARRAY(l->arena, int64_t, l->devices)};
      if (l->shards)
        l->target[out->n_pairs].cuts = shards_cuts(l->shards, partner[b->serial]->a, b);
      if (l->shards && l->gathered[b->serial])
        shards_allow_any(&l->target[out->n_pairs].cuts);
      *map_at(&l->target_of, b->serial) = (uint64_t)++out->n_pairs;
    }
  }
  const Map kinds = kinds_of(l);
  const int64_t *in_a = all_places(l, l->a), *in_b = all_places(l, l->b);
  Map rows = {.arena = l->arena};  // by serials of b
  for (int k = 0; diff && k < diff->n_rows; k++)
    if (diff->row[k].a && diff->row[k].b)
      map_add(&rows, diff->row[k].b->serial, (uint64_t)(uintptr_t)&diff->row[k]);
  for (int k = 0; k < out->n_pairs; k++) {
    l->target[k].pair = &out->pair[k];
    l->target[k].due = true;
    l->target[k].in_a = in_a[out->pair[k].a->comp->id];
    l->target[k].in_b = in_b[out->pair[k].b->comp->id];
    l->target[k].loose = partner[out->pair[k].b->serial]->what & HL_DIFF_OPERANDS;
    find_sources(l, &l->target[k], &kinds, &rows, partner[out->pair[k].b->serial]->by);
  }
  for (const HlComp *comp = l->a->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      out->n_a += gives_array(inst);
}

// --- The first program's values ---------------------------------------------------------------------

static void keep_value(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Lockstep *l = user;
  pthread_mutex_lock(&l->lock);
  const uint64_t place = map_get(&l->source_of, inst->serial);
  Source *s = place ? &l->source[place - 1] : NULL;
  if (s && s->wanted) {
    const int64_t bytes = hl_literal_bytes(value);
    s->bytes += bytes;
    if (l->held + bytes <= l->memory) {
      vec_push(&s->kept, ((Kept){hl_literal_ref(value), s->times[device], device}));
      l->held += bytes;
    } else {
      s->complete = false;
    }
    s->times[device]++;
  }
  pthread_mutex_unlock(&l->lock);
}

static void forget(Lockstep *l) {
  for (int k = 0; k < l->n_sources; k++) {
    Source *s = &l->source[k];
    for (int i = 0; i < s->kept.n; i++)
      hl_literal_unref(s->kept.at[i].value);
    vec_free(&s->kept);
  }
  l->held = 0;
}

static const HlLiteral *kept_at(const Source *s, int device, int64_t time) {
  const int first =
      time < s->kept.n ? (int)time : s->kept.n - 1;  // with one device it stands at its time
  for (int k = first; k >= 0; k--)
    if (s->kept.at[k].device == device && s->kept.at[k].time == time)
      return s->kept.at[k].value;
  for (int k = first + 1; k < s->kept.n; k++)
    if (s->kept.at[k].device == device && s->kept.at[k].time == time)
      return s->kept.at[k].value;
  return NULL;
}

// --- The second program's ---------------------------------------------------------------------------

// Whether nothing but chance need make two values equal: zeros, ones, whole numbers.
static bool is_common(const HlLiteral *value) {
  const HlValueRange range = hl_value_range(value);
  if (range.n > 1)
    return range.low == range.high;
  return !hl_is_float(value->shape->dtype) || range.low == rint(range.low);
}

// Whether the value is that of another that it may be: then that is its partner.
static bool is_another(Lockstep *l, Target *t, int device, int64_t time, const HlLiteral *value) {
  const HlCompareOptions how = {.tolerance = l->options->tolerance};
  HlMismatch mismatch;
  if (t->tried && is_common(value))
    return false;
  for (int k = 1; k < t->n_sources; k++) {
    const HlLiteral *expected = kept_at(t->source[k], device, time);
    if (!expected || !hl_compare(l->quiet, 1, &value, &expected, &how, &mismatch))
      continue;
    Source *first = t->source[0];
    t->source[0] = t->source[k];
    t->source[k] = first;
    t->pair->a = t->source[0]->inst;
    return true;
  }
  return false;
}

// Where what an instruction stands in is called from several places, in one of the programs or both, and not the same, its values do
// not come one for one: it is right if its value is one of those that partners have about then.
static bool comes_in_turns(const Lockstep *l, const Target *t) {
  return !l->shards && l->a != l->b && (t->in_a > 1 || t->in_b > 1);
}

static bool is_in_turn(Lockstep *l, const Target *t, int device, int64_t time,
                       const HlLiteral *value) {
  enum { NEAR = 64 };
  const HlCompareOptions how = {.tolerance = l->options->tolerance};
  const int64_t middle = time * t->in_a / t->in_b;
  HlMismatch mismatch;
  for (int64_t far = 0; far <= 2 * NEAR; far++) {
    const int64_t at = middle + (far & 1 ? (far + 1) / 2 : -far / 2);
    for (int k = 0; at >= 0 && k < t->n_sources; k++) {
      const HlLiteral *expected = kept_at(t->source[k], device, at);
      if (expected && (hl_literal_equal(value, expected) ||
                       hl_compare(l->quiet, 1, &value, &expected, &how, &mismatch)))
        return true;
    }
  }
  return false;
}

// Once no way of cutting is left, all of it is compared as the program cuts it.
static void note_cut(Lockstep *l, Target *t, int device, int64_t time, const HlLiteral *expected,
                     const HlLiteral *value) {
  if (!t->on) {
    t->on = HL_ARRAY(l->arena, OnDevice, l->devices);
    for (int d = 0; d < l->devices; d++)
      t->on[d].possible = t->cuts.possible;
  }
  OnDevice *on = &t->on[device];
  HlMismatch mismatch;
  const uint64_t before = on->possible;
  on->possible = shards_left(l->quiet, l->shards, &t->cuts, before, device, value, expected,
                             l->options->tolerance, &mismatch);
  if (!(before & ~on->possible & 1))
    return;
  *on = (OnDevice){on->possible, true, time, l->now[device], mismatch};
}

static void note_difference(Lockstep *l, Target *t, int device, int64_t time, uint64_t order,
                            const HlMismatch *mismatch) {
  HlStepPair *pair = t->pair;
  l->out->n_different += pair->different == 0;
  if (pair->different++ == 0 || device < pair->device) {
    pair->device = device;
    pair->time = time;
    pair->mismatch = *mismatch;
  }
  t->order = pair->different == 1 || order < t->order ? order : t->order;
}

// After all runs: an array is cut in one way on all devices.
static void join_devices(Lockstep *l) {
  for (int k = 0; k < l->out->n_pairs; k++) {
    Target *t = &l->target[k];
    for (int d = 0; t->on && d < l->devices; d++)
      t->cuts.possible &= t->on[d].possible;
    for (int d = 0; t->on && t->cuts.possible == 0 && d < l->devices; d++)
      if (t->on[d].differs)
        note_difference(l, t, d, t->on[d].time, t->on[d].order, &t->on[d].mismatch);
  }
}

// What no argument has a part in: constants that differ are most often the same program in other words, such as a quotient
// that became a product. They are no place to begin with, unless there is no other.
static bool is_fixed(const HlInst *inst, int depth) {
  const HlCall *call = inst->comp->first_call;
  if (inst->op == HL_OP_PARAMETER && call && call == inst->comp->last_call && depth > 0 &&
      call->caller->op == HL_OP_FUSION)
    return is_fixed(call->caller->operands[hl_parameter_number(inst)], depth - 1);
  if (inst->op == HL_OP_CONSTANT || inst->op == HL_OP_IOTA)
    return true;
  if (inst->n_operands == 0 || inst->n_calls > 0 || depth == 0)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!is_fixed(inst->operands[k], depth - 1))
      return false;
  return true;
}

enum { FIXED_DEPTH = 4 };

static void note_equal(Lockstep *l, Target *t, int device) {
  t->pair->compared++;
  l->out->n_compared++;
  l->now[device]++;
}

static void compare(Lockstep *l, Target *t, int device, int64_t time, const HlLiteral *expected,
                    const HlLiteral *value) {
  const HlCompareOptions how = {.tolerance = l->options->tolerance};
  HlMismatch mismatch;
  note_equal(l, t, device);
  if (!is_fixed(t->pair->b, FIXED_DEPTH) && hl_is_silent(value) && hl_is_silent(expected)) {
    t->silent++;
    l->out->n_silent_values++;
  }
  if (l->shards)
    note_cut(l, t, device, time, expected, value);
  else if (!hl_literal_equal(value, expected) &&
           !hl_compare(l->quiet, 1, &value, &expected, &how, &mismatch) &&
           !is_another(l, t, device, time, value) &&
           !(comes_in_turns(l, t) && is_in_turn(l, t, device, time, value)))
    note_difference(l, t, device, time, l->now[device], &mismatch);
}

static void compare_value(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Lockstep *l = user;
  pthread_mutex_lock(&l->lock);
  const uint64_t place = map_get(&l->target_of, inst->serial);
  Target *t = place ? &l->target[place - 1] : NULL;
  if (t)
    t->ran = true;
  if (t && t->due) {
    const int64_t time = t->times[device]++;
    const int other = l->devices_a == 1 ? 0 : device;
    const HlLiteral *expected = kept_at(t->source[0], other, time);
    if (expected)
      compare(l, t, device, time, expected, value);
    else if (comes_in_turns(l, t) && is_in_turn(l, t, device, time, value))
      note_equal(l, t, device);
    else if (time < t->source[0]->times[other])
      l->out->n_too_large++;
    else
      l->out->n_alone++;
  }
  pthread_mutex_unlock(&l->lock);
}

// --- Runs -------------------------------------------------------------------------------------------

static void let_go(int devices, HlLiteral **results) {
  for (int d = 0; d < devices; d++)
    hl_literal_unref(results[d]);
}

// Once no way is left, as the program cuts it. Devices come in their order.
static void compare_leaf(Lockstep *l, ShardCuts *cuts, int device, const HlLiteral *actual,
                         const HlLiteral *expected, HlMismatch *out) {
  *out = (HlMismatch){.equal = true, .same_shape = true, .n = actual->n, .worst = -1, .first = -1};
  if (cuts->n == 0)
    return;
  if (cuts->possible == 0)
    cuts->possible = 1;
  HlMismatch first = *out;
  cuts->possible = shards_left(l->quiet, l->shards, cuts, cuts->possible, device, actual, expected,
                               l->options->tolerance, &first);
  if (cuts->possible == 0)
    *out = first;
  out->equal = cuts->possible != 0;
}

// Of one device, whose part of each array of the whole result it is to be where the program is cut.
static bool compare_leaves(Lockstep *l, int d, int n, const HlLiteral **actual,
                           const HlLiteral **expected) {
  HlLockstep *out = l->out;
  HlMismatch *result = &out->result[d * out->n_results];
  const HlCompareOptions how = {.tolerance = l->options->tolerance};
  if (!l->shards) {
    out->results_equal &= hl_compare(l->quiet, n, actual, expected, &how, result);
    return true;
  }
  for (int k = 0; k < n; k++) {
    ShardCuts *cuts = &l->result_cuts[k];
    if (d == 0)
      *cuts = shards_result_cuts(l->shards, k, expected[k]->shape, actual[k]->shape);
    if (hl_shape_is_array(expected[k]->shape) && cuts->n == 0)
      return hl_error_kind(l->cx, HL_UNSUPPORTED, hl_module_pos(l->b),
                           "neither program says how result r%d, %s, is cut to %s", k,
                           hl_shape_text(l->cx, expected[k]->shape),
                           hl_shape_text(l->cx, actual[k]->shape));
    compare_leaf(l, cuts, d, actual[k], expected[k], &result[k]);
    out->results_equal &= result[k].equal;
  }
  return true;
}

static bool compare_result(Lockstep *l, int d, const HlLiteral *a, const HlLiteral *b) {
  HlLockstep *out = l->out;
  int n, m;
  const HlLiteral **expected = hl_flatten(l->arena, a, &n);
  const HlLiteral **actual = hl_flatten(l->arena, b, &m);
  if (n != m)
    return hl_error_kind(l->cx, HL_INVALID, hl_module_pos(l->b),
                         "module %s gives %d arrays, but module %s gives %d", l->b->name->text, m,
                         l->a->name->text, n);
  if (d == 0) {
    out->n_results = n;
    out->result = HL_ARRAY(l->arena, HlMismatch, (size_t)n * (size_t)l->devices + 1);
    l->result_cuts = HL_ARRAY(l->arena, ShardCuts, n + 1);
  }
  const bool ok = compare_leaves(l, d, n, actual, expected);
  for (int k = 0; ok && k < n; k++)
    out->n_silent += out->result[d * n + k].equal && hl_is_silent(actual[k]);
  return ok;
}

static bool compare_results(Lockstep *l, HlLiteral **a, HlLiteral **b) {
  bool ok = true;
  l->out->results_equal = true;
  for (int d = 0; ok && d < l->devices; d++)
    ok = compare_result(l, d, a[l->devices_a == 1 ? 0 : d], b[d]);
  return ok;
}

static void begin_run(Lockstep *l) {
  for (int k = 0; k < l->n_sources; k++) {
    Source *s = &l->source[k];
    s->complete = true;
    if (s->wanted)
      s->bytes = 0;
    memset(s->times, 0, sizeof *s->times * (size_t)l->devices);
  }
  for (int k = 0; k < l->out->n_pairs; k++)
    memset(l->target[k].times, 0, sizeof(int64_t) * (size_t)l->devices);
}

// Before the second program runs: what is kept whole is compared, or what alone is too large.
static void settle(Lockstep *l, bool alone) {
  for (int k = 0; k < l->out->n_pairs; k++) {
    Target *t = &l->target[k];
    for (int i = 0; i < t->n_sources; i++)
      t->due &= t->source[i]->complete || alone;
  }
}

// Whose values go into the next run: as many as fit, and at least one. Says how many are left, itself included.
static int choose(Lockstep *l, bool *alone) {
  int64_t bytes = 0;
  int chosen = 0, left = 0;
  for (int k = 0; k < l->n_sources; k++)
    l->source[k].wanted = false;
  *alone = false;
  for (int k = 0; k < l->out->n_pairs; k++) {
    Target *t = &l->target[k];
    t->done |= t->due;
    t->due = false;
    if (t->done)
      continue;
    left++;
    int64_t more = 0;
    for (int i = 0; i < t->n_sources; i++)
      more += t->source[i]->wanted ? 0 : t->source[i]->bytes;
    if (chosen > 0 && (*alone || bytes + more > l->memory))
      continue;
    *alone = more > l->memory;
    bytes += more;
    t->due = true;
    chosen++;
    for (int i = 0; i < t->n_sources; i++)
      t->source[i]->wanted = true;
  }
  return left;
}

// Where one device had the arguments, all have them.
static const HlLiteral *const *const *args_of_b(Lockstep *l, const HlLiteral *const *const *args) {
  if (l->devices_a == l->devices)
    return args;
  const HlLiteral *const **all = HL_ARRAY(l->arena, const HlLiteral *const *, l->devices + 1);
  for (int d = 0; d < l->devices; d++)
    all[d] = args[0];
  return all;
}

static bool run_both(Lockstep *l, const HlLiteral *const *const *args, bool alone) {
  HlLiteral **a = HL_ARRAY(l->arena, HlLiteral *, l->devices + 1);
  HlLiteral **b = HL_ARRAY(l->arena, HlLiteral *, l->devices + 1);
  begin_run(l);
  if (!side_run(l->cx, &l->side_a, args, a))
    return false;
  settle(l, alone);
  const bool ran = side_run(l->cx, &l->side_b, args_of_b(l, args), b);
  const bool ok = ran && (l->out->runs > 0 || compare_results(l, a, b));
  let_go(l->devices_a, a);
  if (ran)
    let_go(l->devices, b);
  forget(l);
  l->out->runs++;
  return ok;
}

static bool run_all(Lockstep *l, const HlLiteral *const *const *args) {
  bool alone = false;
  for (int left = l->out->runs == 0 ? 1 : choose(l, &alone); left > 0; left = choose(l, &alone)) {
    if (l->options->progress)
      l->options->progress(l->options->user, l->out->runs, l->out->runs + left);
    if (!run_both(l, args, alone))
      return false;
  }
  return true;
}

// --- Where it comes from ----------------------------------------------------------------------------

typedef VEC(const HlInst *) Insts;

typedef struct Walk {
  Lockstep *l;
  uint32_t *seen, turn;  // by serial: the turn in which it was
  Insts todo, different, fixed, alone;
} Walk;

static const Target *target_at(const Lockstep *l, const HlInst *b) {
  const uint64_t place = map_get(&l->target_of, b->serial);
  return place ? &l->target[place - 1] : NULL;
}

static int state_of(const Lockstep *l, const HlInst *b) {
  const Target *t = target_at(l, b);
  if (!t || t->pair->compared == 0)
    return NOT_COMPARED;
  if (t->pair->different == 0)
    return 0;
  return is_fixed(t->pair->a, FIXED_DEPTH) && is_fixed(b, FIXED_DEPTH) ? NOT_COMPARED : 1;
}

static void go_to(Walk *w, const HlInst *inst) {
  if (w->seen[inst->serial] == w->turn)
    return;
  w->seen[inst->serial] = w->turn;
  if (state_of(w->l, inst) != 0)
    vec_push_in(w->l->arena, &w->todo, inst);
}

// A parameter's value is an operand of whoever calls, or what the body of a loop gave.
static void go_to_callers(Walk *w, const HlInst *parameter) {
  const int64_t k = hl_parameter_number(parameter);
  for (const HlCall *call = parameter->comp->first_call; call; call = call->next) {
    const HlInst *caller = call->caller;
    if (caller->op == HL_OP_WHILE) {
      go_to(w, caller->operands[0]);
      go_to(w, hl_while_body(caller)->root);
    } else if (caller->op == HL_OP_CONDITIONAL) {
      for (uint32_t i = 0; i < caller->n_operands; i++)
        go_to(w, caller->operands[i]);
    } else if (k >= 0 && k < caller->n_operands) {
      go_to(w, caller->operands[k]);
    }
  }
}

static bool runs_inside(const Walk *w, const HlInst *inst) {
  return (inst->op == HL_OP_FUSION && !w->l->side_b.by_steps) ||
         hl_op_is((HlOp)inst->op, HL_T_CONTROL) || inst->op == HL_OP_ASYNC_START;
}

static void go_on(Walk *w, const HlInst *inst) {
  if (inst->op == HL_OP_PARAMETER) {
    go_to_callers(w, inst);
    return;
  }
  for (int k = 0; runs_inside(w, inst) && k < inst->n_calls; k++)
    go_to(w, hl_called(inst, k)->root);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    go_to(w, inst->operands[k]);
}

// From the results that differ, or, where they are equal, from whatever differs on the way.
static void begin_walk(Walk *w) {
  const HlLockstep *out = w->l->out;
  for (int k = 0; out->results_equal && k < out->n_pairs; k++)
    if (out->pair[k].different)
      go_to(w, out->pair[k].b);
  const HlInst *root = w->l->b->entry->root;
  const bool elements = root->op == HL_OP_TUPLE && (int)root->n_operands == out->n_results;
  for (int d = 0; d < out->devices; d++)
    for (int k = 0; k < out->n_results; k++)
      if (!out->result[d * out->n_results + k].equal)
        go_to(w, elements ? root->operands[k] : root);
}

static int by_order(const void *a, const void *b) {
  const Target *x = *(const Target *const *)a, *y = *(const Target *const *)b;
  return (x->order > y->order) - (x->order < y->order);
}

// Whether something that differs stands before an instruction, with nothing that is equal between.
static bool follows_another(Walk *w, const HlInst *inst) {
  w->turn++;
  w->todo.n = 0;
  w->seen[inst->serial] = w->turn;
  go_on(w, inst);
  while (w->todo.n > 0) {
    const HlInst *at = w->todo.at[--w->todo.n];
    if (state_of(w->l, at) == 1)
      return true;
    go_on(w, at);
  }
  return false;
}

static void find_first(Lockstep *l) {
  HlLockstep *out = l->out;
  out->n_first = out->n_unknown = 0;
  Walk w = {.l = l, .turn = 1, .seen = HL_ARRAY(l->arena, uint32_t, (size_t)l->b->next_serial + 1)};
  begin_walk(&w);
  while (w.todo.n > 0) {
    const HlInst *at = w.todo.at[--w.todo.n];
    const Target *t = target_at(l, at);
    if (state_of(l, at) == 1)
      vec_push_in(l->arena, &w.different, at);
    else if (t && t->pair->different)
      vec_push_in(l->arena, &w.fixed, at);
    else if (gives_array(at))
      vec_push_in(l->arena, &w.alone, at);
    go_on(&w, at);
  }
  if (w.different.n == 0)
    w.different = w.fixed;
  const Target **order = HL_ARRAY(l->arena, const Target *, w.different.n + 1);
  for (int k = 0; k < w.different.n; k++)
    order[k] = target_at(l, w.different.at[k]);
  qsort(order, (size_t)w.different.n, sizeof *order, by_order);
  out->first = HL_ARRAY(l->arena, const HlStepPair *, w.different.n + 1);
  // Where operands are partners, too, it is the instruction that is wrong: those first.
  for (int loose = 0; loose < 2; loose++)
    for (int k = 0; k < w.different.n; k++)
      if (order[k]->loose == loose && !follows_another(&w, order[k]->pair->b))
        out->first[out->n_first++] = order[k]->pair;
  // In a loop all may follow each other: what came first in time is first.
  if (out->n_first == 0 && w.different.n > 0)
    out->first[out->n_first++] = order[0]->pair;
  out->unknown = w.alone.at;
  out->n_unknown = out->n_first > 0 ? 0 : w.alone.n;
}

// --- Wrong partners -------------------------------------------------------------------------------
//
// An optimiser may make several sums of one, and leave no trace of which is which. What differs first, and is not computed from
// partners, is compared once more with the values of all instructions of the first program that are of the same op, type and
// sizes: if one of them is its value all the time, that is its partner, and it is not wrong.

static uint64_t form_of(const HlInst *inst) {
  uint64_t hash = hl_hash_mix(inst->op, (uint64_t)inst->shape->dtype);
  for (int k = 0; k < inst->shape->rank; k++)
    hash = hl_hash_mix(hash, (uint64_t)inst->shape->dim[k]);
  return hash;
}

static Map forms_of(Lockstep *l) {
  Map forms = {.arena = l->arena};
  for (const HlComp *comp = l->a->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (gives_array(inst) && (!l->side_a.by_steps || !is_inside(inst)))
        map_add(&forms, form_of(inst), (uint64_t)(uintptr_t)inst);
  return forms;
}

// False: there is no other.
static bool widen(Lockstep *l, Target *t, const Map *forms) {
  const HlInst *b = t->pair->b;
  Source *some[CANDIDATES + 1] = {t->source[0]};
  int n = 1;
  MapWalk walk = map_walk(forms, form_of(b));
  for (uint64_t at; n <= CANDIDATES && (at = map_next(&walk));) {
    const HlInst *a = (const HlInst *)(uintptr_t)at;
    if (a != t->pair->a && a->op == b->op && a->shape->dtype == b->shape->dtype &&
        hl_shape_same_dims(a->shape, b->shape))
      some[n++] = source_for(l, a);
  }
  t->source = hl_arena_copy(l->arena, some, sizeof *some * (size_t)n);
  t->n_sources = n;
  return n > 1;
}

// Begins anew with those that differ first; how many there are to be compared again.
static int try_others(Lockstep *l, const Map *forms) {
  HlLockstep *out = l->out;
  int n = 0;
  for (int k = 0; k < out->n_pairs; k++)
    l->target[k].done = true;
  for (int k = 0; k < out->n_first; k++) {
    Target *t = (Target *)(uintptr_t)target_at(l, out->first[k]->b);
    if (!t->loose || t->tried || is_fixed(t->pair->b, FIXED_DEPTH))
      continue;
    t->tried = true;
    t->before = t->order;
    if (!widen(l, t, forms))
      continue;
    out->n_compared -= t->pair->compared;
    out->n_silent_values -= t->silent;
    out->n_different--;
    t->silent = 0;
    *t->pair = (HlStepPair){.a = t->pair->a, .b = t->pair->b};
    t->done = false;
    n++;
  }
  return n;
}

static bool right_partners(Lockstep *l, const HlLiteral *const *const *args) {
  enum { ROUNDS = 4 };
  const Map forms = l->shards || l->a == l->b ? (Map){0} : forms_of(l);
  for (int round = 0; round < ROUNDS && !l->shards && l->a != l->b; round++) {
    if (try_others(l, &forms) == 0)
      return true;
    if (!run_all(l, args))
      return false;
    for (int k = 0; k < l->out->n_pairs; k++)
      if (l->target[k].tried)
        l->target[k].order = l->target[k].before;
    find_first(l);
  }
  return true;
}

// --- All of it --------------------------------------------------------------------------------------

static bool same_parameters(HlCx *cx, const HlModule *a, const HlModule *b) {
  if (a->entry->n_params != b->entry->n_params)
    return hl_error_kind(cx, HL_INVALID, hl_module_pos(b),
                         "module %s has %d parameters, but module %s has %d", b->name->text,
                         b->entry->n_params, a->name->text, a->entry->n_params);
  return true;
}

// Whether it is rather the other one that has parts of its arrays.
static bool comes_first(const HlModule *whole, const HlModule *part) {
  return sp_is_local(part, whole) && hl_is_partitioned(part) && !hl_is_partitioned(whole);
}

// Whether the one is a device's part of the other. Where all that goes in and out is too small to be cut, its header or the name of
// its entry tells.
static bool is_part(const HlModule *part, const HlModule *whole) {
  const bool says =
      part->num_partitions > 1 && hl_is_partitioned(part) && !hl_is_partitioned(whole);
  return (says || sp_is_local(part, whole)) && !comes_first(part, whole);
}

// Which devices run what. Of a program whose devices are all alike one is enough beside one that is cut.
static bool set_devices(Lockstep *l) {
  const HlEvalOptions *eval = &l->options->eval;
  l->side_a.eval = l->side_b.eval = *eval;
  l->devices = hl_eval_devices(l->b, eval);
  l->devices_a = hl_eval_devices(l->a, eval);
  l->out->is_cut = is_part(l->b, l->a);
  if (l->out->is_cut) {
    l->side_b.eval.partitions = (int)l->b->num_partitions;
    l->side_b.eval.replicas = l->devices / (int)l->b->num_partitions;
  }
  if (l->out->is_cut && !l->side_a.program && shards_are_free(l->a)) {
    l->devices_a = l->side_a.eval.replicas = l->side_a.eval.partitions = 1;
    return true;
  }
  if (l->devices_a == l->devices && !comes_first(l->b, l->a))
    return true;
  return hl_error_kind(l->cx, HL_INVALID, hl_module_pos(l->b),
                       comes_first(l->b, l->a)
                           ? "module %s runs on %d devices, but module %s on %d, each with a part "
                             "of the arrays: the program that has whole ones comes first"
                           : "module %s runs on %d devices, but module %s on %d: only programs of "
                             "as many devices run in lockstep",
                       l->b->name->text, l->devices, l->a->name->text, l->devices_a);
}

// What is whole outside manual parts only is written out before it runs on whole arrays.
static bool write_borders_out(Lockstep *l) {
  if (!l->out->is_cut || l->side_a.program || !sp_has_borders(l->a))
    return true;
  l->without = sp_without_borders(l->cx, l->a);
  l->a = l->side_a.m = l->without;
  return l->without;
}

static void count_guesses(Lockstep *l) {
  for (int k = 0; k < l->out->n_pairs; k++)
    l->out->n_guessed += l->out->pair[k].compared > 0 && shards_guessed(&l->target[k].cuts);
  for (int k = 0; k < l->out->n_results; k++)
    l->out->n_guessed += shards_guessed(&l->result_cuts[k]);
}

// What reductions, sorts and the like call for each element shows in what they give.
static bool is_for_elements(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_FUSION || call->caller->op == HL_OP_ASYNC_START ||
        hl_op_is((HlOp)call->caller->op, HL_T_CONTROL))
      return false;
  return comp->first_call != NULL;
}

static bool run_lockstep(Lockstep *l, const HlLiteral *const *const *args) {
  HlLockstep *out = l->out;
  if (!set_devices(l) || !write_borders_out(l))
    return false;
  out->devices = l->devices;
  if (!l->options->diff && l->a != l->b)
    out->own = hl_diff(l->cx, l->a, l->b, NULL);
  const HlDiff *diff = l->options->diff ? l->options->diff : out->own;
  if (!diff && l->a != l->b)
    return false;
  side_init(&l->side_a);
  side_init(&l->side_b);
  l->now = HL_ARRAY(l->arena, uint64_t, l->devices + 1);
  if (out->is_cut) {
    l->shards = shards_new(l->arena, l->a, l->b);
    l->side_b.whole = shards_interface(l->shards);
    if (!shards_cut_parameters(l->cx, l->shards))
      return false;
  }
  pair_up(l, diff);
  if (!run_all(l, args))
    return false;
  join_devices(l);
  bool *unseen = HL_ARRAY(l->arena, bool, (size_t)l->b->next_serial + 1);
  out->n_unseen = side_unseen(&l->side_b, unseen);
  out->unseen = unseen;
  for (int k = 0; k < out->n_pairs; k++)
    out->n_not_run += !l->target[k].ran && !unseen[out->pair[k].b->serial] &&
                      !hl_op_is((HlOp)out->pair[k].b->op, HL_T_GIVEN | HL_T_WIRE) &&
                      !is_for_elements(out->pair[k].b->comp);
  out->args = l->side_b.args;
  out->n_args = out->args ? l->b->entry->n_params : 0;
  l->side_b.args = NULL;
  if (l->shards)
    count_guesses(l);
  find_first(l);
  return right_partners(l, args);
}

bool hl_lockstep(HlCx *cx, const HlModule *a, const HlModule *b,
                 const HlLiteral *const *const *args, const HlLockstepOptions *options,
                 HlLockstep *out) {
  static const HlLockstepOptions usual = {0};
  *out = (HlLockstep){.arena = hl_arena_new()};
  const HlLockstepOptions *how = options ? options : &usual;
  if (!same_parameters(cx, a, b))
    return false;
  Lockstep l = {.cx = cx,
                .options = how,
                .a = a,
                .b = b,
                .out = out,
                .arena = out->arena,
                .source_of = {.arena = out->arena},
                .target_of = {.arena = out->arena},
                .quiet = hl_cx_new(),
                .memory = how->memory > 0 ? how->memory : (int64_t)1 << 30};
  l.side_a = (StepSide){
      .m = a, .program = how->program_a, .told = keep_value, .user = &l, .arena = out->arena};
  l.side_b = (StepSide){
      .m = b, .program = how->program_b, .told = compare_value, .user = &l, .arena = out->arena};
  pthread_mutex_init(&l.lock, NULL);
  const bool ok = run_lockstep(&l, args);
  forget(&l);
  side_free(&l.side_b);
  shards_free(l.shards);
  out->without = l.without;
  pthread_mutex_destroy(&l.lock);
  hl_cx_free(l.quiet);
  return ok;
}

void hl_lockstep_free(HlLockstep *out) {
  for (int d = 0; out->args && d < out->devices; d++)
    for (int k = 0; k < out->n_args; k++)
      hl_literal_unref(out->args[d][k]);
  hl_diff_free(out->own);
  hl_module_free(out->without);
  hl_arena_free(out->arena);
  *out = (HlLockstep){0};
}

const HlStepPair *hl_lockstep_pair(const HlLockstep *found, const HlInst *b) {
  for (int k = 0; k < found->n_pairs; k++)
    if (found->pair[k].b == b)
      return &found->pair[k];
  return NULL;
}

// Where a value comes from: of a parameter what the one caller hands in, of a fusion or call what is made inside.
static const HlInst *one_further(const HlLockstep *found, const HlInst *b) {
  const HlCall *call = b->comp->first_call;
  const HlInst *from = b->op == HL_OP_GET_TUPLE_ELEMENT ? b->operands[0] : b;
  if (b->op == HL_OP_PARAMETER && call && call == b->comp->last_call &&
      (call->caller->op == HL_OP_FUSION || call->caller->op == HL_OP_CALL))
    return call->caller->operands[hl_parameter_number(b)];
  if ((from->op != HL_OP_FUSION && from->op != HL_OP_CALL) || from->n_calls != 1)
    return NULL;
  const HlInst *root = hl_called(from, 0)->root;
  if (from != b)
    root = root->op == HL_OP_TUPLE ? root->operands[hl_attr_int(b, HL_A_INDEX)] : NULL;
  return root && !found->unseen[root->serial] ? root : NULL;
}

const HlInst *hl_lockstep_origin(const HlLockstep *found, const HlInst *b) {
  enum { MOST = 1000 };
  for (int k = 0; k < MOST; k++) {
    const HlStepPair *pair = hl_lockstep_pair(found, b);
    const bool known = pair && pair->compared > 0 && b->op != HL_OP_PARAMETER;
    const HlInst *next = known ? NULL : one_further(found, b);
    if (!next)
      break;
    b = next;
  }
  return b;
}

static bool is_equal(const HlLockstep *found, const HlInst *b) {
  const HlStepPair *pair = hl_lockstep_pair(found, hl_lockstep_origin(found, b));
  return pair && pair->compared > 0 && pair->different == 0;
}

enum { HIGHEST = 8 };

static int64_t height_of(const HlLockstep *found, const HlInst *b, int64_t room) {
  int64_t most = 0;
  for (uint32_t k = 0; k < b->n_operands && room > 0; k++) {
    const HlInst *operand = b->operands[k];
    if (hl_op_is((HlOp)operand->op, HL_T_GIVEN) || is_equal(found, operand))
      continue;
    const int64_t one = 1 + height_of(found, operand, room - 1);
    most = one > most ? one : most;
  }
  return most;
}

static bool is_known(const HlLockstep *found, const HlInst *b) {
  const HlInst *from = hl_lockstep_origin(found, b);
  return hl_op_is((HlOp)from->op, HL_T_GIVEN) || is_equal(found, from);
}

int64_t hl_lockstep_height(const HlLockstep *found, const HlInst *b) {
  return height_of(found, b, HIGHEST);
}

const HlInst *hl_lockstep_whole(const HlLockstep *found, const HlInst *b) {
  while (b->comp->is_fusion && b->comp->first_call && b->comp->first_call == b->comp->last_call) {
    bool known = true;
    for (int k = 0; k < b->comp->n_params; k++)
      known &= is_known(found, b->comp->params[k]);
    if (known)
      break;
    b = b->comp->first_call->caller;
  }
  return b;
}
