// opt/memory/rematerialization_walk.c: a computation in its order, and the bytes that are alive.
//
// A walk goes along the order once. Of what is tracked it knows the uses to come, so that a value ends with its last user,
// whatever is made again meanwhile; of everything else it knows when the analysis says that it ends.

#include <string.h>

#include "opt/ask/layouts.h"
#include "opt/memory/rematerialization.h"

// --- Items --------------------------------------------------------------------------------------

static int32_t add_item(RematWalk *w, HlInst *inst) {
  if (w->n == w->capacity) {
    int32_t capacity = 2 * w->capacity;
    RematItem *more = HL_ARRAY(w->arena, RematItem, capacity);
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
  w->item[w->n] = (RematItem){.inst = inst, .home = w->n, .live_at = -1, .copy = -1, .copy_of = -1};
  if (inst)
    w->item_of[inst->id] = w->n;
  return w->n++;
}

RematLeaf *remat_leaf(const RematWalk *w, const HlInst *inst) {
  const RematItem *item = &w->item[remat_item_of(w, inst)], *home = &w->item[item->home];
  return home->leaf ? &home->leaf[item->number] : NULL;
}

int64_t remat_bytes(const RematItem *item) {
  int64_t bytes = 0;
  for (int32_t k = 0; k < item->n_leaves; k++)
    bytes += item->leaf[k].left > 0 ? item->leaf[k].bytes : 0;
  return bytes;
}

static bool is_view(const RematWalk *w, int32_t k) {
  return w->item[k].home != k;
}

bool remat_reads(const RematWalk *w, const HlInst *inst, int32_t k) {
  for (uint32_t j = 0; j < inst->n_operands; j++)
    if (w->item[remat_item_of(w, inst->operands[j])].home == k)
      return true;
  return false;
}

// An instruction and then its views go into w->shown, its uses by others into w->uses.
const RematUse *remat_uses(RematWalk *w, int32_t k, int *n) {
  w->shown.n = w->uses.n = 0;
  vec_push(&w->shown, w->item[k].inst);
  for (int j = 0; j < w->shown.n; j++) {
    HlInst *via = w->shown.at[j];
    for (const HlUse *use = via->first_use; use; use = use->next) {
      const RematUse found = {remat_item_of(w, use->user), use->number, via};
      if (is_view(w, found.user) && w->item[found.user].home == k)
        vec_push(&w->shown, use->user);
      else
        vec_push(&w->uses, found);
    }
  }
  *n = w->uses.n;
  return w->uses.at;
}

bool remat_has_placed_user(RematWalk *w, int32_t k) {
  int n;
  const RematUse *use = remat_uses(w, k, &n);
  for (int j = 0; j < n; j++)
    if (w->item[use[j].user].placed)
      return true;
  return false;
}

// --- What is tracked ------------------------------------------------------------------------------

// Views of an array that nothing but views and their users see, a mark for each leaf.
static RematView *find_views(RematWalk *w, const HlInst *inst, int *n) {
  w->views.n = 0;
  const bool is_tuple = hl_shape_is_tuple(inst->shape);
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    const RematView view = {use->user, is_tuple ? (int32_t)hl_attr_int(use->user, HL_A_INDEX) : 0};
    if (use->user->op == (is_tuple ? HL_OP_GET_TUPLE_ELEMENT : HL_OP_BITCAST))
      vec_push(&w->views, view);
  }
  for (int k = 0; k < w->views.n; k++) {
    const RematView from = w->views.at[k];
    for (const HlUse *use = from.inst->first_use; use; use = use->next) {
      const RematView view = {use->user, from.number};
      if (use->user->op == HL_OP_BITCAST)
        vec_push(&w->views, view);
    }
  }
  *n = w->views.n;
  return w->views.at;
}

static bool has_only_elements_read(const HlInst *inst) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return false;
  for (int k = 0; k < inst->shape->rank; k++)
    if (!hl_shape_is_array(inst->shape->element[k]))
      return false;
  return inst->first_use != NULL;
}

// The value at this slot is the instruction's own, alone in its buffer and, apart from `n_views` views, nowhere else.
static bool is_own(const RematWalk *w, const HlInst *inst, uint32_t slot, uint32_t n_views) {
  const HlFlow *flow = w->flow;
  const uint32_t value = flow->value_at[slot];
  return value != HL_NO_VALUE && flow->value[value].slot == slot &&
         hl_value_inst(flow, value) == inst && flow->value[value].n_positions == 1 + n_views &&
         flow->buffer[flow->value[value].buffer].n == 1;
}

static bool may_track(const HlInst *inst) {
  return inst->op != HL_OP_PARAMETER && inst != inst->comp->root &&
         (hl_shape_is_array(inst->shape) ||
          (hl_shape_is_tuple(inst->shape) && has_only_elements_read(inst)));
}

static void track(RematWalk *w, int32_t k) {
  HlInst *inst = w->item[k].inst;
  if (!may_track(inst))
    return;
  int n;
  const RematView *view = find_views(w, inst, &n);
  const bool is_tuple = hl_shape_is_tuple(inst->shape);
  const int32_t n_leaves = is_tuple ? inst->shape->rank : 1;
  const uint32_t slot = hl_slot(w->flow, inst) + is_tuple;
  uint32_t *n_views = HL_ARRAY(w->arena, uint32_t, n_leaves + 1);
  bool ok = !is_tuple || is_own(w, inst, slot - 1, 0);
  for (int j = 0; ok && j < n; j++) {
    ok = view[j].inst != w->comp->root && !hl_has_control(view[j].inst);
    n_views[view[j].number]++;
  }
  for (int32_t j = 0; ok && j < n_leaves; j++)
    ok = is_own(w, inst, slot + (uint32_t)j, n_views[j]);
  if (!ok)
    return;
  w->item[k].leaf = HL_ARRAY(w->arena, RematLeaf, n_leaves + 1);
  w->item[k].n_leaves = n_leaves;
  for (int j = 0; j < n; j++) {
    RematItem *item = &w->item[remat_item_of(w, view[j].inst)];
    item->home = k;
    item->number = view[j].number;
  }
}

// --- Setting up ---------------------------------------------------------------------------------

// The instruction of the computation that runs at a time of the flattened schedule, or calls what does.
static HlInst *caller_at(const RematWalk *w, int64_t time) {
  HlInst *inst = time >= 0 && time < w->live->n ? w->live->sequence[time] : NULL;
  while (inst && inst->comp != w->comp)
    inst = inst->comp->first_call ? inst->comp->first_call->caller : NULL;
  return inst;
}

// Of the values of a buffer in one computation: the first one, or, if its caller gives it, the parameter.
typedef struct First {
  uint32_t buffer, value, place;
} First;

// The values of a buffer in a computation are the same memory. It counts with the first of them; where that is a parameter,
// the caller counts it.
void remat_find_counted(RematJob *job) {
  const HlFlow *flow = job->flow;
  const HlModule *m = job->p->m;
  HlArena *scratch = hl_arena_new();
  uint32_t **place = HL_ARRAY(scratch, uint32_t *, m->next_comp_id + 1);
  First *first = HL_ARRAY(scratch, First, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    first[comp->id].buffer = HL_NO_VALUE;
    place[comp->id] = HL_ARRAY(scratch, uint32_t, comp->next_id + 1);
    for (uint32_t k = 0; k < job->n_order[comp->id]; k++)
      place[comp->id][job->order[comp->id][k]->id] = k + 1;  // 0: parameters
    for (int k = 0; k < comp->n_params; k++)
      if (comp->params[k])
        place[comp->id][comp->params[k]->id] = 0;
  }
  job->counted = HL_ARRAY(job->arena, bool, flow->n_values + 1);
  for (uint32_t b = 0; b < flow->n_buffers; b++)
    for (uint32_t k = 0; k < flow->buffer[b].n; k++) {
      const uint32_t value = flow->buffer_value[flow->buffer[b].first + k];
      const HlInst *inst = hl_value_inst(flow, value);
      const uint32_t at = place[inst->comp->id][inst->id];
      First *f = &first[inst->comp->id];
      if (f->buffer == b && f->place <= at)
        continue;
      if (f->buffer == b)
        job->counted[f->value] = false;
      *f = (First){b, value, at};
      job->counted[value] = inst->op != HL_OP_PARAMETER || inst->comp == m->entry;
    }
  hl_arena_free(scratch);
}

// The last instruction that needs the buffer of a value; NULL: it stays until the computation ends.
static HlInst *buffer_end(const RematWalk *w, uint32_t value) {
  const HlFlow *flow = w->flow;
  const HlBuffer *buffer = &flow->buffer[flow->value[value].buffer];
  HlInst *last = NULL;
  for (uint32_t k = 0; k < buffer->n; k++) {
    const uint32_t other = flow->buffer_value[buffer->first + k];
    if (hl_value_inst(flow, other)->comp != w->comp)
      continue;
    HlInst *end = caller_at(w, w->live->range[other].end);
    if (!end || end == w->comp->root)
      return NULL;
    if (!last || w->item[remat_item_of(w, last)].label < w->item[remat_item_of(w, end)].label)
      last = end;
  }
  return last;
}

// Values of an instruction: leaves end with their uses, others where the analysis says.
static void add_values(RematWalk *w, int32_t k) {
  const HlFlow *flow = w->flow;
  const HlInst *inst = w->item[k].inst;
  const uint32_t slot = hl_slot(flow, inst);
  const uint32_t first = slot + hl_shape_is_tuple(inst->shape);
  for (uint32_t j = slot; j < slot + flow->slot_size[slot]; j++) {
    const uint32_t value = flow->value_at[j];
    if (value == HL_NO_VALUE || flow->value[value].slot != j || !w->job->counted[value])
      continue;
    const HlShape *shape = flow->slot_shape[j];
    const bool on_host = hl_shape_is_array(shape) && hl_memory_space(shape) == HL_SPACE_HOST;
    const int64_t bytes = on_host ? 0 : remat_summand(hl_value_bytes(flow, value));
    if (w->item[k].leaf && j >= first) {
      w->item[k].leaf[j - first].bytes = bytes;
      continue;
    }
    w->item[k].others += bytes;
    const HlInst *end = inst->op == HL_OP_PARAMETER ? NULL : buffer_end(w, value);
    if (end)
      w->item[remat_item_of(w, end)].frees += bytes;
  }
}

static int64_t callee_peak(const RematJob *job, const HlInst *inst) {
  int64_t most = 0;
  if (inst->op != HL_OP_CALL && inst->op != HL_OP_WHILE && inst->op != HL_OP_CONDITIONAL)
    return 0;
  for (int k = 0; k < inst->n_calls; k++)
    if (job->peak[hl_called(inst, k)->id] > most)
      most = job->peak[hl_called(inst, k)->id];
  return most;
}

static void relabel(RematWalk *w) {
  uint64_t label = 0;
  for (int32_t k = w->item[0].next; k != 0; k = w->item[k].next)
    w->item[k].label = label += (uint64_t)1 << 32;
}

static void count_use(RematWalk *w, const HlInst *operand) {
  RematLeaf *leaf = remat_leaf(w, operand);
  remat_home(w, operand)->left++;
  if (leaf)
    leaf->left++;
}

RematWalk remat_start(RematJob *job, HlArena *arena, HlComp *comp, bool *refused) {
  uint32_t n = job->n_order[comp->id];
  RematWalk w = {.job = job,
                 .arena = arena,
                 .flow = job->flow,
                 .live = job->live,
                 .comp = comp,
                 .refused = refused};
  w.capacity = (int32_t)n + 64;
  w.item = HL_ARRAY(arena, RematItem, w.capacity);
  w.n_ids = comp->next_id + 64;
  w.item_of = HL_ARRAY(arena, int32_t, w.n_ids);
  w.alive_capacity = (int32_t)n + 64;
  w.alive = HL_ARRAY(arena, int32_t, w.alive_capacity);
  add_item(&w, NULL);
  for (uint32_t k = 0; k < n; k++) {
    int32_t item = add_item(&w, job->order[comp->id][k]);
    w.item[item].refused = refused && refused[w.item[item].inst->id];
    w.item[item].prev = item - 1;
    w.item[item - 1].next = item;
  }
  w.item[0].prev = w.n - 1;
  w.item[w.n - 1].next = 0;
  relabel(&w);
  for (int32_t k = 1; k < w.n; k++)
    if (!is_view(&w, k))
      track(&w, k);
  for (int32_t k = 1; k < w.n; k++) {
    add_values(&w, k);
    w.item[k].callee = callee_peak(job, w.item[k].inst);
    for (uint32_t j = 0; !is_view(&w, k) && j < w.item[k].inst->n_operands; j++)
      count_use(&w, w.item[k].inst->operands[j]);
  }
  return w;
}

void remat_end(RematWalk *w) {
  vec_free(&w->shown);
  vec_free(&w->uses);
  vec_free(&w->views);
  vec_free(&w->way);
}

static bool is_asked(const RematJob *job) {
  return !job->on_trial;
}

bool remat_change(RematWalk *w, const char *rule, int32_t k, int32_t with) {
  RematItem *item = &w->item[k];
  item->refused = with < 0;
  if (item->refused)
    return false;
  item->refused = is_asked(w->job) && !hl_change(w->job->p, rule, item->inst, w->item[with].inst);
  return !item->refused;
}

void remat_changed(RematWalk *w, int32_t k) {
  RematJob *job = w->job;
  const uint32_t id = w->item[k].inst->id;
  if (is_asked(job) && !hl_changed(job->p))
    w->undone = w->refused[id] = true;
  job->changed |= !w->undone;
}

// --- Along the order ------------------------------------------------------------------------------

void remat_make_live(RematWalk *w, int32_t k) {
  RematItem *item = &w->item[k];
  if (!item->leaf || item->left == 0 || item->live_at >= 0)
    return;
  if (w->n_alive == w->alive_capacity) {
    int32_t *more = HL_ARRAY(w->arena, int32_t, 2 * w->alive_capacity);
    memcpy(more, w->alive, sizeof *more * (size_t)w->n_alive);
    w->alive = more;
    w->alive_capacity *= 2;
  }
  item->live_at = w->n_alive;
  w->alive[w->n_alive++] = k;
}

static void make_dead(RematWalk *w, int32_t k) {
  const int32_t at = w->item[k].live_at;
  w->alive[at] = w->alive[--w->n_alive];
  w->item[w->alive[at]].live_at = at;
  w->item[k].live_at = -1;
}

void remat_add_use(RematWalk *w, const HlInst *operand) {
  RematItem *item = remat_home(w, operand);
  RematLeaf *leaf = remat_leaf(w, operand);
  item->left++;
  if (!leaf || leaf->left++ > 0 || !item->placed)
    return;
  w->usage += leaf->bytes;
  remat_make_live(w, (int32_t)(item - w->item));
}

void remat_drop_use(RematWalk *w, const HlInst *operand) {
  RematItem *item = remat_home(w, operand);
  RematLeaf *leaf = remat_leaf(w, operand);
  item->left--;
  if (!leaf || --leaf->left > 0 || item->live_at < 0)
    return;
  w->usage -= leaf->bytes;
  if (item->left == 0)
    make_dead(w, (int32_t)(item - w->item));
}

void remat_start_item(RematWalk *w, int32_t k) {
  w->usage += w->item[k].others + remat_bytes(&w->item[k]);
  remat_make_live(w, k);
}

int64_t remat_usage(const RematWalk *w, int32_t k) {
  const RematItem *item = &w->item[k];
  int64_t usage = w->usage + item->callee;
  for (int32_t j = 0; j < item->n_leaves; j++)
    usage += item->leaf[j].left == 0 ? item->leaf[j].bytes : 0;  // written, if not read
  return usage;
}

void remat_end_item(RematWalk *w, int32_t k) {
  const HlInst *inst = w->item[k].inst;
  w->item[k].placed = true;
  w->usage -= w->item[k].frees;
  for (uint32_t j = 0; !is_view(w, k) && j < inst->n_operands; j++)
    remat_drop_use(w, inst->operands[j]);
}

// --- Changing the order ---------------------------------------------------------------------------

// Its operands are needed once more.
int32_t remat_add(RematWalk *w, HlInst *inst, int32_t like, int64_t bytes) {
  const int32_t made = add_item(w, inst);
  RematItem *item = &w->item[made];
  item->again = true;
  item->n_leaves = like > 0 ? w->item[like].n_leaves : 1;
  item->leaf = HL_ARRAY(w->arena, RematLeaf, item->n_leaves);
  for (int32_t k = 0; k < item->n_leaves; k++)
    item->leaf[k].bytes = like > 0 ? w->item[like].leaf[k].bytes : bytes;
  for (uint32_t j = 0; j < inst->n_operands; j++)
    remat_add_use(w, inst->operands[j]);
  return made;
}

int32_t remat_add_view(RematWalk *w, HlInst *inst, int32_t home, int32_t number) {
  const int32_t made = add_item(w, inst);
  w->item[made].home = home;
  w->item[made].number = number;
  return made;
}

void remat_insert(RematWalk *w, int32_t k, int32_t next) {
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

// What would have ended here ends with the next one.
void remat_remove(RematWalk *w, int32_t k) {
  if (!w->item[k].placed)
    w->item[w->item[k].next].frees += w->item[k].frees;
  w->item[w->item[k].prev].next = w->item[k].next;
  w->item[w->item[k].next].prev = w->item[k].prev;
}
