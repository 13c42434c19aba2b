// opt/memory/rematerialization_find.c: what would bring the bytes in use down at a point of the walk.

#include <string.h>

#include "opt/ask/layouts.h"
#include "opt/memory/rematerialization.h"

// --- Making again ---------------------------------------------------------------------------------

static bool may_repeat(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (op == HL_OP_COPY)
    return inst->shape != inst->operands[0]->shape;
  return !hl_op_is(op, HL_T_GIVEN | HL_T_CONTROL) && op != HL_OP_CUSTOM_CALL && op != HL_OP_RNG &&
         hl_is_pure(inst) && !hl_is_async(op);
}

// An input, a constant or an element of an input that nothing is written over.
static bool stays_anyway(const RematWalk *w, const HlInst *inst) {
  uint32_t value = hl_value_of(w->flow, inst);
  if (value == HL_NO_VALUE || w->flow->buffer[w->flow->value[value].buffer].n > 1)
    return false;
  while (inst->op == HL_OP_GET_TUPLE_ELEMENT || inst->op == HL_OP_BITCAST)
    inst = inst->operands[0];
  return inst->op == HL_OP_PARAMETER || inst->op == HL_OP_CONSTANT;
}

static bool is_in(const RematBlock *block, int32_t k) {
  for (int j = 0; j < block->n; j++)
    if (block->item[j] == k)
      return true;
  return false;
}

// An operand that is gone is made again, too, if the block may grow, or must be kept longer.
static bool add_operand(const RematWalk *w, RematBlock *block, const HlInst *operand, int limit) {
  const RematItem *item = remat_home(w, operand);
  const RematLeaf *leaf = remat_leaf(w, operand);
  const int32_t k = (int32_t)(item - w->item);
  if (!leaf)
    return stays_anyway(w, operand);  // else when it ends is not known exactly
  if ((item->live_at >= 0 && leaf->left > 0) || item->inst->op == HL_OP_CONSTANT || is_in(block, k))
    return true;
  if (block->n < limit && item->placed && may_repeat(item->inst))
    block->item[block->n++] = k;
  else
    block->saved -= leaf->bytes;
  return true;
}

// Operands come behind their users as they are found: turned around, they are nearly in order.
static void sort_block(const RematWalk *w, RematBlock *block) {
  for (int j = 0, i = block->n - 1; j < i; j++, i--) {
    const int32_t swap = block->item[j];
    block->item[j] = block->item[i];
    block->item[i] = swap;
  }
  for (int j = 1; j < block->n; j++)
    for (int i = j; i > 0; i--) {
      int32_t *a = &block->item[i - 1], *b = &block->item[i], swap = *a;
      if (w->item[*a].label < w->item[*b].label)
        break;
      *a = *b;
      *b = swap;
    }
}

// What must be made again to have item k again, and the bytes that are free from now until the
// first user to come: its own less those of operands that must be kept longer.
static RematBlock find_block(const RematWalk *w, int32_t k, int32_t now, int limit) {
  RematBlock block = {.item = {k}, .n = 1, .saved = remat_bytes(&w->item[k])};
  if (remat_reads(w, w->item[now].inst, k))
    return (RematBlock){0};
  for (int j = 0; j < block.n; j++) {
    const HlInst *inst = w->item[block.item[j]].inst;
    for (uint32_t o = 0; o < inst->n_operands; o++)
      if (!add_operand(w, &block, inst->operands[o], limit))
        return (RematBlock){0};
  }
  sort_block(w, &block);
  return block;
}

int32_t remat_first_user_to_come(RematWalk *w, int32_t k) {
  int32_t first = -1;
  int n;
  const RematUse *use = remat_uses(w, k, &n);
  for (int j = 0; j < n; j++) {
    const int32_t user = use[j].user;
    if (!w->item[user].placed && (first < 0 || w->item[user].label < w->item[first].label))
      first = user;
  }
  return first;
}

// What is made again stays before whatever has to run after it.
static bool keeps_order(RematWalk *w, const RematBlock *block) {
  int32_t next = -1;
  for (int j = 0; j < block->n; j++) {
    const HlControl *control = w->item[block->item[j]].inst->control;
    for (int c = 0; control && c < control->n_succs; c++) {
      const RematItem *after = &w->item[remat_item_of(w, control->succs[c])];
      next = next < 0 ? remat_first_user_to_come(w, block->item[block->n - 1]) : next;
      if (after->placed || next < 0 || after->label < w->item[next].label)
        return false;
    }
  }
  return true;
}

static bool is_candidate(RematWalk *w, int32_t k, int32_t now) {
  const RematItem *item = &w->item[k];
  return k != now && !item->refused && remat_bytes(item) >= w->least_bytes &&
         (!item->again || remat_has_placed_user(w, k));
}

// Whether item k, which saves its own bytes at most, could be a better choice.
static bool may_beat(RematWalk *w, int32_t k, const RematBlock *best, int32_t best_item,
                     bool best_moves) {
  const int64_t most = remat_bytes(&w->item[k]);
  if (most > best->saved || (most == best->saved && w->item[k].label < w->item[best_item].label))
    return !best_moves || !remat_has_placed_user(w, k);
  return !best_moves && !remat_has_placed_user(w, k);
}

RematBlock remat_choose(RematWalk *w, int32_t now, int limit) {
  RematBlock best = {0};
  int32_t best_item = -1;
  bool best_moves = false;
  for (int32_t j = 0; j < w->n_alive; j++) {
    int32_t k = w->alive[j];
    if (!is_candidate(w, k, now) || !may_repeat(w->item[k].inst) ||
        w->item[k].worse_at == remat_place(now, limit))
      continue;
    if (best.n > 0 && !may_beat(w, k, &best, best_item, best_moves))
      continue;
    RematBlock block = find_block(w, k, now, limit);
    if (block.n == 0 || block.saved <= 0 || !keeps_order(w, &block))
      continue;
    bool moves = block.n == 1 && !remat_has_placed_user(w, k);
    if (best.n == 0 || moves > best_moves || (moves == best_moves && block.saved > best.saved) ||
        (moves == best_moves && block.saved == best.saved &&
         w->item[k].label < w->item[best_item].label)) {
      best = block;
      best_item = k;
      best_moves = moves;
    }
  }
  return best;
}

// --- What it does to others -----------------------------------------------------------------------

// An operand that has to be kept until the block is made again.
typedef struct Kept {
  uint64_t after;  // the label of its last user as things are
  int64_t bytes;
} Kept;

static uint64_t last_use(RematWalk *w, int32_t home, int32_t number) {
  int n;
  uint64_t last = 0;
  const RematUse *use = remat_uses(w, home, &n);
  for (int j = 0; j < n; j++)
    if (w->item[remat_item_of(w, use[j].via)].number == number && w->item[use[j].user].label > last)
      last = w->item[use[j].user].label;
  return last;
}

static int find_kept(RematWalk *w, const RematBlock *block, int32_t next, Kept **out) {
  int n = 0, most = 1;
  for (int j = 0; j < block->n; j++)
    most += (int)w->item[block->item[j]].inst->n_operands;
  *out = HL_ARRAY(w->arena, Kept, most);
  for (int j = 0; j < block->n; j++) {
    const HlInst *inst = w->item[block->item[j]].inst;
    for (uint32_t o = 0; o < inst->n_operands; o++) {
      const HlInst *operand = inst->operands[o];
      const RematItem *item = &w->item[remat_item_of(w, operand)];
      const RematLeaf *leaf = remat_leaf(w, operand);
      if (!leaf || is_in(block, item->home) || w->item[item->home].inst->op == HL_OP_CONSTANT)
        continue;
      const Kept kept = {last_use(w, item->home, item->number), leaf->bytes};
      if (kept.after < w->item[next].label)
        (*out)[n++] = kept;
    }
  }
  return n;
}

static int64_t kept_at(const Kept *kept, int n, uint64_t label) {
  int64_t bytes = 0;
  for (int j = 0; j < n; j++)
    bytes += label > kept[j].after ? kept[j].bytes : 0;
  return bytes;
}

// What the copies need beside what is wanted of them.
static int64_t others_in(const RematWalk *w, const RematBlock *block) {
  int64_t bytes = 0;
  for (int j = 0; j + 1 < block->n; j++)
    for (int32_t l = 0; l < w->item[block->item[j]].n_leaves; l++)
      bytes += w->item[block->item[j]].leaf[l].bytes;
  return bytes;
}

bool remat_makes_worse(RematWalk *w, const RematBlock *block, int32_t now) {
  const int32_t k = block->item[block->n - 1], next = remat_first_user_to_come(w, k);
  if (next < 0 || next == now)
    return false;
  const HlMark mark = hl_arena_mark(w->arena);
  Kept *kept;
  const int n = find_kept(w, block, next, &kept);
  const int64_t most = w->peak;
  const int64_t freed = remat_bytes(&w->item[k]);
  bool worse = false;
  for (int32_t t = w->item[now].next; n > 0 && !worse && t != next; t = w->item[t].next) {
    const int64_t more = kept_at(kept, n, w->item[t].label) - freed;
    worse = more > 0 && w->item[t].at + more > most;
  }
  const int64_t more = kept_at(kept, n, w->item[next].label) + others_in(w, block);
  worse |= more > 0 && w->item[next].at + more > most;
  hl_arena_release(w->arena, mark);
  return worse;
}

void remat_foresee(RematWalk *w, const RematBlock *block, int32_t now, int32_t next) {
  const HlMark mark = hl_arena_mark(w->arena);
  Kept *kept;
  const int n = find_kept(w, block, next, &kept);
  const int64_t freed = remat_bytes(&w->item[block->item[block->n - 1]]);
  for (int32_t t = w->item[now].next; t != next; t = w->item[t].next)
    w->item[t].at += kept_at(kept, n, w->item[t].label) - freed;
  hl_arena_release(w->arena, mark);
}

// --- Waiting in another form ----------------------------------------------------------------------

// The densest order of dimensions for an array in tiles, by exchanging pairs; its own shape if that is it.
const HlShape *remat_dense_shape(const RematWalk *w, const HlShape *shape) {
  const HlLayout *layout = shape->layout;
  if (!hl_shape_is_array(shape) || shape->rank < 2 || !layout || !layout->extra ||
      layout->extra->n_tiles == 0 || layout->minor_to_major.n != shape->rank)
    return shape;
  HlShapes *shapes = w->comp->module->shapes;
  const HlShape *best = shape;
  int64_t *order =
      hl_arena_copy(w->arena, layout->minor_to_major.at, sizeof *order * (size_t)shape->rank);
  for (int i = 0; i < shape->rank; i++)
    for (int j = i + 1; j < shape->rank; j++) {
      int64_t swap = order[i];
      order[i] = order[j];
      order[j] = swap;
      HlLayout other = {{order, shape->rank}, layout->extra};
      const HlShape *made = hl_shape_with_layout(shapes, shape, &other);
      if (hl_shape_buffer_bytes(made, 8) < hl_shape_buffer_bytes(best, 8)) {
        best = made;
        continue;
      }
      order[j] = order[i];
      order[i] = swap;
    }
  return best;
}

// An array that could wait elsewhere now.
static bool may_wait(RematWalk *w, int32_t k, int32_t now) {
  const HlInst *inst = w->item[k].inst;
  return !w->item[k].again && hl_shape_is_array(inst->shape) && !hl_has_control(inst) &&
         is_candidate(w, k, now) && !remat_reads(w, w->item[now].inst, k);
}

int32_t remat_choose_to_compress(RematWalk *w, int32_t now, int64_t saved) {
  int32_t best = -1;
  for (int32_t j = 0; w->compress && j < w->n_alive; j++) {
    const int32_t k = w->alive[j];
    if (!may_wait(w, k, now) || !remat_has_placed_user(w, k))
      continue;
    const HlShape *dense = remat_dense_shape(w, w->item[k].inst->shape);
    const int64_t less = remat_bytes(&w->item[k]) - hl_shape_buffer_bytes(dense, 8);
    if (less > saved) {
      saved = less;
      best = k;
    }
  }
  return best;
}

int32_t remat_choose_to_offload(RematWalk *w, int32_t now, int64_t saved) {
  int32_t best = -1;
  for (int32_t j = 0; w->offload && j < w->n_alive; j++) {
    const int32_t k = w->alive[j];
    const HlInst *inst = w->item[k].inst;
    if (!may_wait(w, k, now) || inst->op == HL_OP_CONSTANT || hl_is_async((HlOp)inst->op) ||
        hl_memory_space(inst->shape) != 0 || hl_shape_is_dynamic(inst->shape))
      continue;
    const int64_t bytes = remat_bytes(&w->item[k]);
    const bool is_first = best >= 0 && w->item[k].label < w->item[best].label;
    if (bytes < saved || (bytes == saved && !is_first))
      continue;
    saved = bytes;
    best = k;
  }
  return best;
}
