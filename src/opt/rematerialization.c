// opt/rematerialization.c: computes values again instead of keeping them, where memory is short.
//
// Needs a schedule. Each computation is walked in its order with the bytes alive at each point. Where
// they exceed the limit, of the values that wait for later users the one whose recomputation frees most is
// made again just before the first of those users:
//
//   a = exp(x)                     a = exp(x)
//   b = f(a)                       b = f(a)
//   c = g(x)       (too much)  =>  c = g(x)
//   d = h(c)                       d = h(c)
//                                  a.remat = exp(x)
//   e = k(a, d)                    e = k(a.remat, d)
//
// A value that nobody has read yet is only moved. Where no single instruction helps, because what it is made
// from is gone as well, a block of instructions is made again: twice as large each time, up to
// block_size_limit. With `compress`, a value whose tiled layout wastes room waits in a denser
// layout instead: `a.compressed = copy(a)`, and `a.uncompressed = copy(a.compressed)` before the
// user. With `host_offload`, values wait in the host's memory, sent by copy-start and copy-done after
// the last user so far and fetched again before the next one.
//
// What a step calls counts with its own peak; it is reduced afterwards with what is left at the
// call. The whole is done again, with what lives when found anew, as long as that helps. Tuples,
// values seen through tuples and bitcasts, and whatever has a side effect, runs other steps or has
// control edges stay as they are.

#include <string.h>

#include "hilo/buffers.h"
#include "hilo/pass.h"
#include "opt/layouts.h"

bool pass_rematerialization(HlPass *p);

typedef struct Item {  // an instruction in the order being made
  HlInst *inst;
  int32_t prev, next;
  uint64_t label;   // grows along the order
  int64_t bytes;    // of its own value, if that is simple
  int64_t others;   // of its other values
  int64_t frees;    // bytes of values that are not simple and end here
  int64_t callee;   // the most that what it calls needs
  uint32_t left;    // uses to come
  int32_t live_at;  // in the list of live items, -1: not live
  bool simple, placed, refused;
  bool again;  // made here: only a first user that is through lets it be made once more
} Item;

enum { BLOCK_MAX = 64, ROUNDS = 8, HOST = 5 };

// Instructions that are made again together, operands first; the last one is what is wanted.
typedef struct Block {
  int32_t item[BLOCK_MAX];
  int n;
  int64_t saved;
} Block;

typedef struct Walk {
  HlPass *p;
  HlArena *arena;
  const HlFlow *flow;
  const HlLive *live;
  HlComp *comp;
  Item *item;  // item 0 is the end of the circular order
  int32_t n, capacity;
  int32_t *item_of;  // by instruction id
  uint32_t n_ids;
  int32_t *alive;  // simple items that are live
  int32_t n_alive, alive_capacity;
  int64_t usage, limit;
  int64_t least_bytes;  // smaller values are left alone
  int block_limit;
  bool compress, recompute, offload;
} Walk;

typedef struct Job {
  HlPass *p;
  HlArena *arena;
  const HlFlow *flow;
  const HlLive *live;
  HlInst ***order;  // by comp->id: the orders at the start, then those made
  uint32_t *n_order;
  int64_t *peak;   // by comp->id
  int64_t *limit;  // by comp->id: what is left for it
} Job;

// --- Setting up a computation --------------------------------------------------------------------

static int32_t add_item(Walk *w, HlInst *inst) {
  if (w->n == w->capacity) {
    int32_t capacity = 2 * w->capacity;
    Item *more = HL_ARRAY(w->arena, Item, capacity);
    memcpy(more, w->item, sizeof *more * (size_t)w->n);
    w->item = more;
    w->capacity = capacity;
  }
  if (inst && inst->id >= w->n_ids) {
    uint32_t n = 2 * (inst->id + 1);
    int32_t *more = HL_ARRAY(w->arena, int32_t, n);
    memcpy(more, w->item_of, sizeof *more * w->n_ids);
    w->item_of = more;
    w->n_ids = n;
  }
  w->item[w->n] = (Item){.inst = inst, .live_at = -1};
  if (inst)
    w->item_of[inst->id] = w->n;
  return w->n++;
}

static Item *item_at(const Walk *w, const HlInst *inst) {
  return &w->item[w->item_of[inst->id]];
}

static bool is_simple(const HlFlow *flow, const HlInst *inst) {
  uint32_t value = hl_value_of(flow, inst);
  if (!hl_shape_is_array(inst->shape) || value == HL_NO_VALUE || inst->op == HL_OP_PARAMETER ||
      inst == inst->comp->root || hl_value_inst(flow, value) != inst)
    return false;
  return flow->value[value].n_positions == 1 && flow->buffer[flow->value[value].buffer].n == 1;
}

// The instruction of the computation that runs at a time of the flattened schedule, or calls what does.
static HlInst *caller_at(const Walk *w, int64_t time) {
  HlInst *inst = time >= 0 && time < w->live->n ? w->live->sequence[time] : NULL;
  while (inst && inst->comp != w->comp)
    inst = inst->comp->first_call ? inst->comp->first_call->caller : NULL;
  return inst;
}

// Values of an instruction: simple ones are tracked by their users, others end where the analysis says.
static void add_values(Walk *w, int32_t k, bool entry) {
  const HlFlow *flow = w->flow;
  HlInst *inst = w->item[k].inst;
  uint32_t slot = hl_slot(flow, inst);
  w->item[k].simple = is_simple(flow, inst);
  for (uint32_t j = slot; j < slot + flow->slot_size[slot]; j++) {
    uint32_t value = flow->value_at[j];
    if (value == HL_NO_VALUE || flow->value[value].slot != j ||
        (inst->op == HL_OP_PARAMETER && !entry))
      continue;
    const HlBuffer *buffer = &flow->buffer[flow->value[value].buffer];
    if (buffer->n > 1 && flow->buffer_value[buffer->first] != value)
      continue;  // counted with the first value of its buffer
    const HlShape *shape = flow->slot_shape[j];
    const bool on_host = hl_shape_is_array(shape) && hl_memory_space(shape) == HOST;
    int64_t bytes = on_host ? 0 : hl_value_bytes(flow, value);
    if (w->item[k].simple) {
      w->item[k].bytes = bytes;
      continue;
    }
    w->item[k].others += bytes;
    HlInst *end = caller_at(w, w->live->range[value].end);
    if (end && end != w->comp->root && inst->op != HL_OP_PARAMETER && buffer->n == 1)
      item_at(w, end)->frees += bytes;
  }
}

static int64_t callee_peak(const Job *job, const HlInst *inst) {
  int64_t most = 0;
  if (inst->op != HL_OP_CALL && inst->op != HL_OP_WHILE && inst->op != HL_OP_CONDITIONAL)
    return 0;
  for (int k = 0; k < inst->n_calls; k++)
    if (job->peak[hl_called(inst, k)->id] > most)
      most = job->peak[hl_called(inst, k)->id];
  return most;
}

static void relabel(Walk *w) {
  uint64_t label = 0;
  for (int32_t k = w->item[0].next; k != 0; k = w->item[k].next)
    w->item[k].label = label += (uint64_t)1 << 32;
}

static Walk start_walk(Job *job, HlArena *arena, HlComp *comp) {
  uint32_t n = job->n_order[comp->id];
  Walk w = {.p = job->p, .arena = arena, .flow = job->flow, .live = job->live, .comp = comp};
  w.capacity = (int32_t)n + 64;
  w.item = HL_ARRAY(arena, Item, w.capacity);
  w.n_ids = comp->next_id + 64;
  w.item_of = HL_ARRAY(arena, int32_t, w.n_ids);
  w.alive_capacity = (int32_t)n + 64;
  w.alive = HL_ARRAY(arena, int32_t, w.alive_capacity);
  add_item(&w, NULL);
  for (uint32_t k = 0; k < n; k++) {
    int32_t item = add_item(&w, job->order[comp->id][k]);
    w.item[item].prev = item - 1;
    w.item[item - 1].next = item;
  }
  w.item[0].prev = w.n - 1;
  w.item[w.n - 1].next = 0;
  relabel(&w);
  for (int32_t k = 1; k < w.n; k++) {
    add_values(&w, k, comp == comp->module->entry);
    w.item[k].callee = callee_peak(job, w.item[k].inst);
    for (const HlUse *use = w.item[k].inst->first_use; use; use = use->next)
      w.item[k].left++;
  }
  return w;
}

// --- Walking -------------------------------------------------------------------------------------

static void make_live(Walk *w, int32_t k) {
  if (!w->item[k].simple || w->item[k].left == 0)
    return;
  if (w->n_alive == w->alive_capacity) {
    int32_t *more = HL_ARRAY(w->arena, int32_t, 2 * w->alive_capacity);
    memcpy(more, w->alive, sizeof *more * (size_t)w->n_alive);
    w->alive = more;
    w->alive_capacity *= 2;
  }
  w->item[k].live_at = w->n_alive;
  w->alive[w->n_alive++] = k;
}

static void make_dead(Walk *w, int32_t k) {
  int32_t at = w->item[k].live_at;
  if (at < 0)
    return;
  w->alive[at] = w->alive[--w->n_alive];
  w->item[w->alive[at]].live_at = at;
  w->item[k].live_at = -1;
  w->usage -= w->item[k].bytes;
}

static int64_t start_item(Walk *w, int32_t k) {
  w->usage += w->item[k].others + (w->item[k].left > 0 ? w->item[k].bytes : 0);
  make_live(w, k);
  return w->usage + w->item[k].callee;
}

static void end_item(Walk *w, int32_t k) {
  const HlInst *inst = w->item[k].inst;
  w->item[k].placed = true;
  w->usage -= w->item[k].frees;
  for (uint32_t j = 0; j < inst->n_operands; j++) {
    Item *operand = item_at(w, inst->operands[j]);
    if (--operand->left == 0)
      make_dead(w, w->item_of[inst->operands[j]->id]);
  }
}

static int64_t find_peak(Job *job, HlArena *arena, HlComp *comp) {
  Walk w = start_walk(job, arena, comp);
  int64_t peak = 0;
  for (int32_t k = w.item[0].next; k != 0; k = w.item[k].next) {
    int64_t usage = start_item(&w, k);
    peak = usage > peak ? usage : peak;
    end_item(&w, k);
  }
  return peak;
}

// --- Choosing ------------------------------------------------------------------------------------

static bool may_repeat(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_PARAMETER:
  case HL_OP_CONSTANT:
  case HL_OP_CALL:
  case HL_OP_CONDITIONAL:
  case HL_OP_WHILE:
  case HL_OP_CUSTOM_CALL:
  case HL_OP_RNG: return false;
  case HL_OP_COPY: return inst->shape != inst->operands[0]->shape;
  default:
    return !hl_has_control(inst) && hl_is_pure(inst) && !hl_is_async((HlOp)inst->op) &&
           !(hl_op_info[inst->op].traits & (HL_T_COLLECTIVE | HL_T_ASYNC));
  }
}

// An input, a constant or an element of an input that nothing is written over.
static bool stays_anyway(const Walk *w, const HlInst *inst) {
  uint32_t value = hl_value_of(w->flow, inst);
  if (value == HL_NO_VALUE || w->flow->buffer[w->flow->value[value].buffer].n > 1)
    return false;
  while (inst->op == HL_OP_GET_TUPLE_ELEMENT || inst->op == HL_OP_BITCAST)
    inst = inst->operands[0];
  return inst->op == HL_OP_PARAMETER || inst->op == HL_OP_CONSTANT;
}

static bool is_in(const Block *block, int32_t k) {
  for (int j = 0; j < block->n; j++)
    if (block->item[j] == k)
      return true;
  return false;
}

// An operand that is gone is made again, too, if the block may grow, or must be kept longer.
static bool add_operand(const Walk *w, Block *block, const HlInst *inst, int limit) {
  const int32_t k = w->item_of[inst->id];
  const Item *item = &w->item[k];
  if (!item->simple)
    return stays_anyway(w, inst);  // else when it ends is not known exactly
  if (item->live_at >= 0 || inst->op == HL_OP_CONSTANT || is_in(block, k))
    return true;
  if (block->n < limit && item->placed && may_repeat(inst))
    block->item[block->n++] = k;
  else
    block->saved -= item->bytes;
  return true;
}

static void sort_block(const Walk *w, Block *block) {
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
static Block find_block(const Walk *w, int32_t k, int32_t now, int limit) {
  const HlInst *inst = w->item[k].inst, *current = w->item[now].inst;
  Block block = {.item = {k}, .n = 1, .saved = w->item[k].bytes};
  for (uint32_t j = 0; j < current->n_operands; j++)
    if (current->operands[j] == inst)
      return (Block){0};
  for (int j = 0; j < block.n; j++) {
    inst = w->item[block.item[j]].inst;
    for (uint32_t o = 0; o < inst->n_operands; o++)
      if (!add_operand(w, &block, inst->operands[o], limit))
        return (Block){0};
  }
  sort_block(w, &block);
  return block;
}

static bool has_placed_user(const Walk *w, const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (item_at(w, use->user)->placed)
      return true;
  return false;
}

static bool is_candidate(const Walk *w, int32_t k, int32_t now) {
  const Item *item = &w->item[k];
  return k != now && !item->refused && item->bytes >= w->least_bytes &&
         (!item->again || has_placed_user(w, item->inst));
}

// The block of at most `limit` instructions that saves most; n is 0 if none does.
static Block choose(const Walk *w, int32_t now, int limit) {
  Block best = {0};
  int32_t best_item = -1;
  bool best_moves = false;
  for (int32_t j = 0; j < w->n_alive; j++) {
    int32_t k = w->alive[j];
    if (!is_candidate(w, k, now) || !may_repeat(w->item[k].inst))
      continue;
    Block block = find_block(w, k, now, limit);
    if (block.n == 0 || block.saved <= 0)
      continue;
    bool moves = block.n == 1 && !has_placed_user(w, w->item[k].inst);
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

// The densest order of dimensions for an array in tiles, by exchanging pairs; its own shape if that is it.
static const HlShape *dense_shape(const Walk *w, const HlShape *shape) {
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

// The value that a denser layout makes smaller by more than `saved` bytes, and that by most; -1:
// none.
static int32_t choose_to_compress(const Walk *w, int32_t now, int64_t saved) {
  int32_t best = -1;
  const HlInst *current = w->item[now].inst;
  for (int32_t j = 0; w->compress && j < w->n_alive; j++) {
    const int32_t k = w->alive[j];
    const HlInst *inst = w->item[k].inst;
    bool used = w->item[k].again || !is_candidate(w, k, now) || !has_placed_user(w, inst);
    for (uint32_t o = 0; o < current->n_operands; o++)
      used |= current->operands[o] == inst;
    if (used || hl_has_control(inst))
      continue;
    const int64_t less = w->item[k].bytes - hl_shape_buffer_bytes(dense_shape(w, inst->shape), 8);
    if (less > saved) {
      saved = less;
      best = k;
    }
  }
  return best;
}

// The largest value of more than `saved` bytes that was used, and that nobody needs now; -1: none.
static int32_t choose_to_offload(const Walk *w, int32_t now, int64_t saved) {
  int32_t best = -1;
  const HlInst *current = w->item[now].inst;
  for (int32_t j = 0; w->offload && j < w->n_alive; j++) {
    const int32_t k = w->alive[j];
    const HlInst *inst = w->item[k].inst;
    bool used = w->item[k].again || !is_candidate(w, k, now) || hl_has_control(inst) ||
                inst->op == HL_OP_CONSTANT || hl_is_async((HlOp)inst->op) ||
                hl_memory_space(inst->shape) != 0 || hl_shape_is_dynamic(inst->shape);
    for (uint32_t o = 0; o < current->n_operands; o++)
      used |= current->operands[o] == inst;
    const bool is_first = best >= 0 && w->item[k].label < w->item[best].label;
    if (used || w->item[k].bytes < saved || (w->item[k].bytes == saved && !is_first))
      continue;
    saved = w->item[k].bytes;
    best = k;
  }
  return best;
}

// --- Doing it ------------------------------------------------------------------------------------

static int32_t first_user_to_come(const Walk *w, const HlInst *inst) {
  int32_t first = -1;
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    int32_t user = w->item_of[use->user->id];
    if (!w->item[user].placed && (first < 0 || w->item[user].label < w->item[first].label))
      first = user;
  }
  return first;
}

static void insert_before(Walk *w, int32_t k, int32_t next) {
  int32_t prev = w->item[next].prev;
  w->item[k].prev = prev;
  w->item[k].next = next;
  w->item[prev].next = k;
  w->item[next].prev = k;
  uint64_t low = prev == 0 ? 0 : w->item[prev].label, high = w->item[next].label;
  w->item[k].label = low + (high - low) / 2;
  if (w->item[k].label == low)
    relabel(w);
}

static void drop_item(Walk *w, int32_t k) {
  w->item[w->item[k].prev].next = w->item[k].next;
  w->item[w->item[k].next].prev = w->item[k].prev;
}

static HlInst *make_again(Walk *w, const HlInst *inst) {
  HlModule *m = w->comp->module;
  HlInst *again = hl_inst_copy(w->comp, inst, NULL, (int)inst->n_operands, inst->operands);
  hl_inherit(again, inst);
  hl_set_name(again, hl_fresh_name(m, hl_arena_printf(w->arena, "%s.remat", inst->name->text)));
  if (inst->op == HL_OP_FUSION) {  // each fusion has a body of its own
    HlComp *body = hl_comp_copy(m, hl_to_apply(inst), "remat", false, NULL);
    hl_set_calls(again, 1, &body);
  }
  return again;
}

// An instruction of the walk's own; its operands are needed once more.
static int32_t add_made(Walk *w, HlInst *inst, int64_t bytes) {
  int32_t made = add_item(w, inst);
  w->item[made].simple = true;
  w->item[made].again = true;
  w->item[made].bytes = bytes;
  for (uint32_t j = 0; j < inst->n_operands; j++) {
    int32_t operand = w->item_of[inst->operands[j]->id];
    if (w->item[operand].left++ == 0 && w->item[operand].simple && w->item[operand].placed) {
      w->usage += w->item[operand].bytes;
      make_live(w, operand);
    }
  }
  return made;
}

// Users to come read another one from now on.
static void redirect(Walk *w, HlInst *inst, int32_t to) {
  HlUse *after;
  for (HlUse *use = inst->first_use; use; use = after) {
    after = use->next;
    if (item_at(w, use->user)->placed || use->user == w->item[to].inst)
      continue;
    hl_set_operand(use->user, use->number, w->item[to].inst);
    w->item[to].left++;
    w->item[w->item_of[inst->id]].left--;
  }
}

// What the copies in the block replaced, and nobody reads any more, was only moved.
static void drop_unread(Walk *w, const Block *block) {
  for (int j = block->n - 1; j >= 0; j--) {
    HlInst *inst = w->item[block->item[j]].inst;
    if (inst->first_use || inst == w->comp->root)
      continue;
    make_dead(w, block->item[j]);
    drop_item(w, block->item[j]);
    hl_erase(inst);
  }
}

static void repeat(Walk *w, const Block *block, int32_t now) {
  int32_t k = block->item[block->n - 1];
  HlInst *inst = w->item[k].inst;
  int32_t next = first_user_to_come(w, inst);
  w->item[k].refused =
      next < 0 || next == now || !hl_change(w->p, "recompute", inst, w->item[next].inst);
  if (w->item[k].refused)
    return;
  int32_t made[BLOCK_MAX];
  for (int j = 0; j < block->n; j++) {
    const HlInst *from = w->item[block->item[j]].inst;
    HlInst *again = make_again(w, from);
    for (uint32_t o = 0; o < again->n_operands; o++)
      for (int i = 0; i < j; i++)
        if (from->operands[o] == w->item[block->item[i]].inst)
          hl_set_operand(again, (int)o, w->item[made[i]].inst);
    made[j] = add_made(w, again, w->item[block->item[j]].bytes);
    insert_before(w, made[j], next);
  }
  redirect(w, inst, made[block->n - 1]);
  if (w->item[k].left == 0)
    make_dead(w, k);
  drop_unread(w, block);
}

static HlInst *copy_as(Walk *w, HlInst *of, const HlShape *shape, const HlInst *like,
                       const char *suffix) {
  HlModule *m = w->comp->module;
  const char *name = hl_arena_printf(w->arena, "%s.%s", like->name->text, suffix);
  HlInst *copy = hl_inst_new(w->comp, HL_OP_COPY, shape, hl_fresh_name(m, name), 1, &of);
  hl_inherit(copy, like);
  return copy;
}

// The dense copy follows the value; the other one comes before the first user to come.
static void compress(Walk *w, int32_t k, int32_t now) {
  HlInst *inst = w->item[k].inst;
  int32_t next = first_user_to_come(w, inst);
  w->item[k].refused =
      next < 0 || next == now || !hl_change(w->p, "compress", inst, w->item[next].inst);
  if (w->item[k].refused)
    return;
  const HlShape *dense = dense_shape(w, inst->shape);
  int32_t packed =
      add_made(w, copy_as(w, inst, dense, inst, "compressed"), hl_shape_buffer_bytes(dense, 8));
  insert_before(w, packed, w->item[k].next);
  int32_t whole = add_made(w, copy_as(w, w->item[packed].inst, inst->shape, inst, "uncompressed"),
                           w->item[k].bytes);
  insert_before(w, whole, next);
  w->item[packed].placed = true;
  w->item[k].left--;  // the dense copy is through
  redirect(w, inst, whole);
  w->usage += w->item[packed].bytes;
  make_live(w, packed);
  if (w->item[k].left == 0)
    make_dead(w, k);
}

// The last user so far, or the value itself.
static int32_t last_user(const Walk *w, int32_t k) {
  int32_t last = k;
  for (const HlUse *use = w->item[k].inst->first_use; use; use = use->next) {
    const int32_t user = w->item_of[use->user->id];
    if (w->item[user].placed && w->item[user].label > w->item[last].label)
      last = user;
  }
  return last;
}

static HlInst *named_as(Walk *w, HlInst *inst, const HlInst *like, const char *suffix) {
  const char *name = hl_arena_printf(w->arena, "%s.%s", like->name->text, suffix);
  hl_set_name(inst, hl_fresh_name(w->comp->module, name));
  hl_inherit(inst, like);
  hl_remove_attr(inst, HL_A_SHARDING);
  return inst;
}

static HlInst *start_transfer(Walk *w, HlInst *of, const HlShape *to, const HlInst *like,
                              const char *suffix) {
  HlShapes *shapes = w->comp->module->shapes;
  const HlShape *part[] = {to, of->shape, hl_shape_scalar(shapes, HL_U32)};
  HlInst *inst =
      hl_inst_new(w->comp, HL_OP_COPY_START, hl_shape_tuple(shapes, 3, part), NULL, 1, &of);
  return named_as(w, inst, like, suffix);
}

static HlInst *end_transfer(Walk *w, HlInst *of, const HlInst *like, const char *suffix) {
  HlInst *inst = hl_inst_new(w->comp, HL_OP_COPY_DONE, of->shape->element[0], NULL, 1, &of);
  return named_as(w, inst, like, suffix);
}

// Sent from the last user on, until now; fetched before the first user to come. What is on its way counts
// where it comes from.
static void offload(Walk *w, int32_t k, int32_t now) {
  HlInst *inst = w->item[k].inst;
  const int32_t next = first_user_to_come(w, inst);
  w->item[k].refused =
      next < 0 || next == now || !hl_change(w->p, "offload", inst, w->item[next].inst);
  if (w->item[k].refused)
    return;
  const HlShape *host = hl_with_memory_space(w->comp->module->shapes, inst->shape, HOST);
  const int32_t after = last_user(w, k);
  const int32_t send = add_made(w, start_transfer(w, inst, host, inst, "to_host"), 0);
  insert_before(w, send, w->item[after].next);
  const int32_t sent = add_made(w, end_transfer(w, w->item[send].inst, inst, "on_host"), 0);
  insert_before(w, sent, now);
  w->item[send].placed = w->item[sent].placed = true;
  w->item[k].left--;  // it is sent
  w->item[send].left--;
  const int32_t fetch =
      add_made(w, start_transfer(w, w->item[sent].inst, inst->shape, inst, "to_device"), 0);
  insert_before(w, fetch, next);
  const int32_t back =
      add_made(w, end_transfer(w, w->item[fetch].inst, inst, "again"), w->item[k].bytes);
  insert_before(w, back, next);
  redirect(w, inst, back);
  if (w->item[k].left == 0)
    make_dead(w, k);
}

// One step towards the limit at item k: false if there is none.
static bool improve(Walk *w, int32_t k) {
  Block best = {0};
  for (int limit = 1; w->recompute && limit <= w->block_limit && best.n == 0; limit *= 2)
    best = choose(w, k, limit);
  const int32_t packed = choose_to_compress(w, k, best.saved);
  const bool moves = best.n == 1 && !has_placed_user(w, w->item[best.item[0]].inst);
  const int32_t sent = packed < 0 && !moves ? choose_to_offload(w, k, best.saved) : -1;
  if (packed >= 0)
    compress(w, packed, k);
  else if (sent >= 0)
    offload(w, sent, k);
  else if (best.n > 0)
    repeat(w, &best, k);
  return packed >= 0 || sent >= 0 || best.n > 0;
}

static void reduce_walk(Walk *w) {
  for (int32_t k = w->item[0].next; k != 0; k = w->item[k].next) {
    start_item(w, k);
    bool allocates = w->item[k].bytes + w->item[k].others + w->item[k].callee > 0;
    while (allocates && w->usage + w->item[k].callee > w->limit && improve(w, k)) {
    }
    end_item(w, k);
  }
}

// --- The pass ------------------------------------------------------------------------------------

static void reduce(Job *job, HlComp *comp) {
  HlArena *arena = hl_arena_new();
  Walk w = start_walk(job, arena, comp);
  w.limit = job->limit[comp->id];
  w.least_bytes = hl_pass_int(job->p, "min_remat_size");
  w.compress = hl_pass_flag(job->p, "compress");
  w.recompute = hl_pass_flag(job->p, "recompute");
  w.offload = hl_pass_flag(job->p, "host_offload");
  const int64_t most = hl_pass_int(job->p, "block_size_limit");
  w.block_limit = most < BLOCK_MAX ? (int)most : BLOCK_MAX;
  reduce_walk(&w);
  uint32_t n = 0;
  HlInst **order = HL_ARRAY(job->arena, HlInst *, comp->n_insts + 1);
  for (int32_t k = w.item[0].next; k != 0; k = w.item[k].next)
    order[n++] = w.item[k].inst;
  job->order[comp->id] = order;
  job->n_order[comp->id] = n;
  hl_arena_free(arena);
}

// What is left for computations that are called: the limit less what is alive at the call.
static void hand_down(Job *job, HlComp *comp) {
  HlArena *arena = hl_arena_new();
  Walk w = start_walk(job, arena, comp);
  for (int32_t k = w.item[0].next; k != 0; k = w.item[k].next) {
    int64_t left = job->limit[comp->id] - (start_item(&w, k) - w.item[k].callee);
    const HlInst *inst = w.item[k].inst;
    for (int j = 0; w.item[k].callee > 0 && j < inst->n_calls; j++)
      job->limit[hl_called(inst, j)->id] = left;
    end_item(&w, k);
  }
  hl_arena_free(arena);
}

static void find_peaks(Job *job) {
  for (HlComp *comp = job->p->m->first; comp; comp = comp->next) {  // callees first
    if (comp->is_fusion)
      continue;
    HlArena *arena = hl_arena_new();
    job->peak[comp->id] = find_peak(job, arena, comp);
    hl_arena_free(arena);
  }
}

static bool runs_as_step(const HlComp *comp) {
  for (const HlCall *call = comp->first_call; call; call = call->next)
    if (call->caller->op == HL_OP_CALL || call->caller->op == HL_OP_WHILE ||
        call->caller->op == HL_OP_CONDITIONAL)
      return true;
  return comp == comp->module->entry;
}

// The flow analysis describes the program as it was: each computation asks it before it is changed.
static void start(Job *job) {
  HlModule *m = job->p->m;
  job->order = HL_ARRAY(job->arena, HlInst **, m->next_comp_id + 1);
  job->n_order = HL_ARRAY(job->arena, uint32_t, m->next_comp_id + 1);
  job->peak = HL_ARRAY(job->arena, int64_t, m->next_comp_id + 1);
  job->limit = HL_ARRAY(job->arena, int64_t, m->next_comp_id + 1);
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    job->n_order[comp->id] = comp->n_insts;
    if (comp->schedule)
      job->order[comp->id] =
          hl_arena_copy(job->arena, comp->schedule, sizeof *comp->schedule * comp->n_insts);
    else
      job->order[comp->id] = hl_print_order(job->arena, comp);
    job->limit[comp->id] = INT64_MAX;
  }
  find_peaks(job);
}

static void run(Job *job, int64_t limit) {
  HlModule *m = job->p->m;
  job->limit[m->entry->id] = limit;
  for (HlComp *comp = m->last; comp; comp = comp->prev) {  // callers first
    if (!runs_as_step(comp) || job->peak[comp->id] <= job->limit[comp->id])
      continue;
    hand_down(job, comp);
    reduce(job, comp);
  }
}

// The most bytes alive at a time; with a limit, after trying to get below it: `changed` if that did
// something. -1 after reporting.
static int64_t one_round(HlPass *p, int64_t limit, bool *changed) {
  Job job = {.p = p, .arena = hl_arena_new()};
  HlModule *m = p->m;
  int64_t peak = -1;
  const bool before = p->changed;
  *changed = false;
  job.flow = hl_flow_new(p->cx, job.arena, m, true);
  if (job.flow) {
    job.live = hl_live_new(job.arena, job.flow, NULL);
    start(&job);
    peak = job.peak[m->entry->id];
    p->changed = false;
    if (peak > limit)
      run(&job, limit);
    for (HlComp *comp = m->first; p->changed && comp; comp = comp->next)
      if (!comp->is_fusion)
        hl_set_schedule(comp, job.order[comp->id]);
    hl_set_scheduled(m, true);
    *changed = p->changed;
    p->changed |= before;
  }
  hl_arena_free(job.arena);
  return peak;
}

bool pass_rematerialization(HlPass *p) {
  int64_t limit = hl_pass_int(p, "memory_limit_bytes");
  HlModule *m = p->m;
  if (limit <= 0)
    return true;
  if (!m->is_scheduled)
    return hl_error(p->cx, hl_module_pos(m),
                    "rematerialization needs a schedule: run a scheduler first");
  const int64_t own = limit - hl_shape_buffer_bytes(m->entry->root->shape, 8);
  bool changed = true;
  int64_t peak = INT64_MAX;
  for (int round = 0; changed && round < ROUNDS; round++) {
    const int64_t before = peak;
    peak = one_round(p, own, &changed);
    if (peak < 0)
      return false;
    if (peak <= own)
      return true;
    if (peak >= before)
      break;
  }
  hl_warn(p->cx, hl_module_pos(m),
          "%lld bytes are needed where %lld are there: nothing more can be computed again",
          (long long)(peak + limit - own), (long long)limit);
  return true;
}
