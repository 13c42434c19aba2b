// tool/diff/stage.c: what an optimiser made of what is left without a partner.
//
// An instruction of the first stage whose value is computed in the second, too, but has its partner there already, was
// merged with its equal. What hangs on constants alone was folded to a constant. Of anything else that the result needs
// the effect is in what its users became: there, or a few operands above, stands what carries its op_name.

#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "tool/diff/diff.h"

// --- What the result needs ------------------------------------------------------------------------

static bool *find_live(HlArena *arena, const DiffSide *side) {
  bool *live = HL_ARRAY(arena, bool, side->n + 1);
  for (int k = side->n - 1; k >= 0; k--) {
    const DiffNode *node = &side->node[k];
    const DiffFrame *frame = &side->frame[node->frame];
    const bool is_root = node->inst == frame->comp->root;
    live[k] = live[k] || hl_has_side_effect(node->inst) ||
              (is_root && (frame->caller == DIFF_NONE || live[frame->caller]));
    if (!live[k])
      continue;
    for (uint32_t j = 0; j < node->inst->n_operands; j++)
      live[frame->node[node->inst->operands[j]->id]] = true;
  }
  return live;
}

// Of constants alone.
static bool *find_constant(HlArena *arena, const DiffSide *side) {
  bool *constant = HL_ARRAY(arena, bool, side->n + 1);
  for (int k = 0; k < side->n; k++) {
    const DiffNode *node = &side->node[k];
    const HlInst *inst = node->inst;
    bool is = inst->op == HL_OP_CONSTANT || inst->op == HL_OP_IOTA || inst->n_operands > 0;
    is = is && !hl_has_side_effect(inst) && inst->op != HL_OP_RNG && node->value == k;
    for (uint32_t j = 0; is && j < inst->n_operands; j++)
      is = constant[side->in[node->first_in + (int)j]];
    constant[k] = node->value == k ? is : constant[node->value];
  }
  return constant;
}

// --- Equal values ---------------------------------------------------------------------------------

typedef struct Values {
  uint64_t *hash;  // of a's
  Map at;          // of b's: 1 + node
} Values;

// Of several nodes of b with one value the first that has a partner, else the first.
static Values values_of(DiffMatch *match, HlArena *arena, bool loose) {
  Values v = {HL_ARRAY(arena, uint64_t, match->a.n + 1), {.arena = arena}};
  uint64_t *hash = HL_ARRAY(arena, uint64_t, match->b.n + 1);
  diff_wire(&match->a, loose);
  diff_wire(&match->b, loose);
  diff_values(match, &match->a, loose, v.hash);
  diff_values(match, &match->b, loose, hash);
  for (int k = 0; k < match->b.n; k++) {
    if (diff_is_wire(&match->b, k))
      continue;
    uint64_t *at = map_at(&v.at, hash[k]);
    if (!*at || (match->b.mate[*at - 1] == DIFF_NONE && match->b.mate[k] != DIFF_NONE))
      *at = (uint64_t)k + 1;
  }
  return v;
}

// --- op_names -------------------------------------------------------------------------------------

static HlStr op_name(const HlInst *inst) {
  const HlMetadata *meta = hl_metadata(inst);
  return meta && meta->op_name ? (HlStr){meta->op_name->text, meta->op_name->n} : (HlStr){NULL, 0};
}

// Inlining puts the caller's scope in front.
static bool is_tail(HlStr whole, HlStr part) {
  if (part.n == 0 || part.n > whole.n || memcmp(whole.at + whole.n - part.n, part.at, part.n) != 0)
    return false;
  return part.n == whole.n || whole.at[whole.n - part.n - 1] == '/' || part.at[0] == '/';
}

static bool names_meet(const HlInst *a, const HlInst *b) {
  const HlStr x = op_name(a), y = op_name(b);
  return x.n > 0 && y.n > 0 && (is_tail(x, y) || is_tail(y, x));
}

static bool same_size(const HlInst *a, const HlInst *b) {
  return hl_shape_is_array(a->shape) && hl_shape_is_array(b->shape) &&
         a->shape->dtype == b->shape->dtype &&
         hl_shape_elements(a->shape) == hl_shape_elements(b->shape);
}

// From a node of b upwards over operands: the nearest that carries the op_name of `inst`, of its size if there is one.
static int find_above(const DiffSide *b, int from, const HlInst *inst) {
  enum { MOST = 24 };
  int queue[MOST], n = 0, named = DIFF_NONE;
  queue[n++] = from;
  for (int k = 0; k < n; k++) {
    const DiffNode *node = &b->node[queue[k]];
    if (names_meet(inst, node->inst)) {
      if (same_size(inst, node->inst))
        return queue[k];
      if (named == DIFF_NONE)
        named = queue[k];
    }
    for (int j = 0; j < node->n_in && n < MOST; j++) {
      bool seen = false;
      for (int i = 0; i < n && !seen; i++)
        seen = queue[i] == b->in[node->first_in + j];
      if (!seen)
        queue[n++] = b->in[node->first_in + j];
    }
  }
  return named;
}

// --- Fates ----------------------------------------------------------------------------------------

typedef struct Fates {
  DiffMatch *match;
  DiffFate *fate;
  const bool *live, *constant;
  bool *moves;  // it only moves a value, and has no partner
  Values exact, loose;
} Fates;

static int shared_value(const Fates *f, int a, bool loose) {
  const Values *v = loose ? &f->loose : &f->exact;
  const uint64_t at = map_get(&v->at, v->hash[a]);
  return at ? (int)at - 1 : DIFF_NONE;
}

// Where a node's effect is: its partner, or where that of what it was folded into is.
static int place_of(const Fates *f, int a) {
  return f->match->a.mate[a] != DIFF_NONE ? f->match->a.mate[a] : f->fate[a].into;
}

// What the first user that is known became.
static int place_of_users(const Fates *f, int a) {
  const DiffSide *side = &f->match->a;
  const DiffNode *node = &side->node[a];
  for (int pass = 0; pass < 2; pass++)  // partners first
    for (int k = 0; k < node->n_uses; k++) {
      const int user = side->use[node->first_use + k].user;
      if (pass == 0 && side->mate[user] == DIFF_NONE)
        continue;
      if (place_of(f, user) != DIFF_NONE)
        return place_of(f, user);
    }
  const DiffFrame *frame = &side->frame[node->frame];
  if (node->inst == frame->comp->root)
    return frame->caller == DIFF_NONE ? diff_root(&f->match->b) : place_of(f, frame->caller);
  for (const HlUse *use = node->inst->first_use; use; use = use->next) {
    const int user = side->node[frame->node[use->user->id]].value;
    if (user != a && place_of(f, user) != DIFF_NONE)
      return place_of(f, user);
  }
  return DIFF_NONE;
}

// The constant that the users have instead.
static int constant_instead(const Fates *f, int a) {
  const DiffSide *x = &f->match->a, *y = &f->match->b;
  const DiffNode *node = &x->node[a];
  for (int k = 0; k < node->n_uses; k++) {
    const DiffUse use = x->use[node->first_use + k];
    const int mate = x->mate[use.user];
    if (mate == DIFF_NONE || use.position >= y->node[mate].n_in)
      continue;
    const int in = y->in[y->node[mate].first_in + use.position];
    if (y->node[in].inst->op == HL_OP_CONSTANT)
      return in;
  }
  return DIFF_NONE;
}

static DiffFate fate_of(Fates *f, int a) {
  const DiffNode *node = &f->match->a.node[a];
  if (!f->live[a])
    return (DiffFate){DIFF_NONE, HL_DIFF_REMOVED, HL_BY_NOTHING, false};
  for (int loose = 0; loose < 2; loose++) {
    const int b = shared_value(f, a, loose);
    if (b != DIFF_NONE && loose && f->moves[a])
      return (DiffFate){b, HL_DIFF_FOLDED, HL_BY_STRUCTURE, false};
    if (b != DIFF_NONE)
      return (DiffFate){b, HL_DIFF_SAME, HL_BY_STRUCTURE, true};
  }
  int to = f->constant[a] ? constant_instead(f, a) : DIFF_NONE;
  if (to != DIFF_NONE)
    return (DiffFate){to, HL_DIFF_FOLDED, HL_BY_STRUCTURE, false};
  const int users = place_of_users(f, a);
  if (users == DIFF_NONE)
    return (DiffFate){DIFF_NONE, HL_DIFF_REMOVED, HL_BY_NOTHING, false};
  to = find_above(&f->match->b, users, node->inst);
  if (to != DIFF_NONE && f->match->b.mate[to] == DIFF_NONE && f->match->a.node[a].value == a &&
      f->match->b.node[to].inst->op == node->inst->op &&
      same_size(node->inst, f->match->b.node[to].inst)) {
    diff_pair(f->match, a, to, HL_BY_METADATA);
    return (DiffFate){to, HL_DIFF_SAME, HL_BY_METADATA, true};
  }
  if (to != DIFF_NONE)
    return (DiffFate){to, HL_DIFF_FOLDED, HL_BY_METADATA,
                      same_size(node->inst, f->match->b.node[to].inst)};
  return (DiffFate){users, HL_DIFF_FOLDED, HL_BY_USERS, false};
}

// A tuple whose elements are used directly now: it went where they are.
static DiffFate fate_by_operands(const Fates *f, int a) {
  const DiffSide *side = &f->match->a;
  const DiffNode *node = &side->node[a];
  for (uint32_t k = 0; k < node->inst->n_operands; k++) {
    const int of = side->node[side->frame[node->frame].node[node->inst->operands[k]->id]].value;
    if (of != a && place_of(f, of) != DIFF_NONE)
      return (DiffFate){place_of(f, of), HL_DIFF_FOLDED, HL_BY_NEIGHBOURS, false};
  }
  return (DiffFate){DIFF_NONE, HL_DIFF_REMOVED, HL_BY_COUNT, false};
}

DiffFate *diff_fates(DiffMatch *match) {
  DiffFate *fate = HL_ARRAY(match->arena, DiffFate, match->a.n + 1);
  for (int k = 0; k < match->a.n; k++)
    fate[k].into = DIFF_NONE;
  HlArena *arena = hl_arena_new();
  Fates f = {.match = match, .fate = fate};
  f.loose = values_of(match, arena, true);
  f.moves = HL_ARRAY(arena, bool, match->a.n + 1);
  for (int k = 0; k < match->a.n; k++)
    f.moves[k] = diff_is_wire(&match->a, k);
  f.exact = values_of(match, arena, false);
  f.live = find_live(arena, &match->a);
  f.constant = find_constant(arena, &match->a);
  for (int k = match->a.n - 1; k >= 0; k--)
    if (match->a.mate[k] == DIFF_NONE)
      fate[k] = fate_of(&f, k);
  for (int k = 0; k < match->a.n; k++)
    if (match->a.mate[k] == DIFF_NONE && fate[k].into == DIFF_NONE && f.live[k])
      fate[k] = fate_by_operands(&f, k);
  for (int k = match->a.n - 1; k >= 0; k--)  // what stands in these
    if (match->a.mate[k] == DIFF_NONE && fate[k].into == DIFF_NONE && f.live[k] &&
        place_of_users(&f, k) != DIFF_NONE)
      fate[k] = (DiffFate){place_of_users(&f, k), HL_DIFF_FOLDED, HL_BY_USERS, false};
  hl_arena_free(arena);
  return fate;
}

// --- Copies ---------------------------------------------------------------------------------------

int *diff_copies(DiffMatch *match) {
  int *copy = HL_ARRAY(match->arena, int, match->b.n + 1);
  HlArena *arena = hl_arena_new();
  uint64_t *a = HL_ARRAY(arena, uint64_t, match->a.n + 1),
           *b = HL_ARRAY(arena, uint64_t, match->b.n + 1);
  Map of = {.arena = arena};
  diff_values(match, &match->a, false, a);
  diff_values(match, &match->b, false, b);
  for (int k = 0; k < match->a.n; k++)
    if (!diff_is_wire(&match->a, k))
      *map_at(&of, a[k]) = (uint64_t)k + 1;
  for (int k = 0; k < match->b.n; k++) {
    const bool wanted = match->b.mate[k] == DIFF_NONE && !diff_is_wire(&match->b, k);
    copy[k] = wanted ? (int)map_get(&of, b[k]) - 1 : DIFF_NONE;
  }
  hl_arena_free(arena);
  return copy;
}
