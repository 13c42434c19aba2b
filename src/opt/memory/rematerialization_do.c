// opt/memory/rematerialization_do.c: makes instructions again, or has values wait in another form.
//
// Users to come read the new one from then on: where they read a view of the old one they get a view of the new one.

#include <string.h>

#include "opt/ask/layouts.h"
#include "opt/memory/rematerialization.h"

static HlInst *named_as(RematWalk *w, HlInst *inst, const HlInst *like, const char *suffix) {
  const char *name = hl_arena_printf(w->arena, "%s.%s", like->name->text, suffix);
  hl_set_name(inst, hl_fresh_name(w->comp->module, name));
  return inst;
}

// --- Views ----------------------------------------------------------------------------------------

// What shows of item `made` what `view` shows of its home; new views come before item `next`.
static HlInst *view_on(RematWalk *w, HlInst *view, int32_t made, int32_t next) {
  w->way.n = 0;
  int32_t k = remat_item_of(w, view);
  for (; w->item[k].home != k; k = remat_item_of(w, w->item[k].inst->operands[0]))
    vec_push(&w->way, k);
  HlInst *shows = w->item[made].inst;
  while (w->way.n > 0) {
    k = vec_pop(&w->way);
    if (w->item[k].copy_of != made) {
      HlInst *old = w->item[k].inst;
      HlInst *copy = named_as(w, hl_inst_copy(w->comp, old, NULL, 1, &shows), old, "remat");
      const int32_t item = remat_add_view(w, copy, made, w->item[k].number);
      remat_insert(w, item, next);
      w->item[k].copy = item;
      w->item[k].copy_of = made;
    }
    shows = w->item[w->item[k].copy].inst;
  }
  return shows;
}

// Users to come read another one from now on, through views of it that come before `next`.
static void redirect(RematWalk *w, int32_t k, int32_t to, int32_t next) {
  int n;
  const RematUse *found = remat_uses(w, k, &n);
  const RematUse *use = hl_arena_copy(w->arena, found, sizeof *use * (size_t)n);
  for (int j = 0; j < n; j++) {
    HlInst *user = w->item[use[j].user].inst;
    if (w->item[use[j].user].placed || use[j].user == to)
      continue;
    HlInst *shows = view_on(w, use[j].via, to, next);
    hl_set_operand(user, use[j].number, shows);
    remat_add_use(w, shows);
    remat_drop_use(w, use[j].via);
  }
}

// Erases an instruction that is only read through views that nobody reads, or those alone.
static void drop_unread(RematWalk *w, int32_t k) {
  int n;
  remat_uses(w, k, &n);
  for (int j = w->shown.n - 1; j >= 0; j--) {
    HlInst *inst = w->shown.at[j];
    if (inst->first_use || inst == w->comp->root)
      continue;
    remat_remove(w, remat_item_of(w, inst));
    hl_erase(inst);
  }
}

// --- Making again ---------------------------------------------------------------------------------

static HlInst *make_again(RematWalk *w, HlInst *inst) {
  HlInst *again = hl_inst_copy(w->comp, inst, NULL, (int)inst->n_operands, inst->operands);
  hl_inherit(again, inst);
  named_as(w, again, inst, "remat");
  if (inst->op == HL_OP_FUSION) {  // each fusion has a body of its own
    HlComp *body = hl_comp_copy(w->comp->module, hl_to_apply(inst), "remat", false, NULL);
    hl_set_calls(again, 1, &body);
  }
  for (int k = 0; inst->control && k < inst->control->n_preds; k++)
    hl_add_control(inst->control->preds[k], again);
  for (int k = 0; inst->control && k < inst->control->n_succs; k++)
    hl_add_control(again, inst->control->succs[k]);
  if (hl_has_attr(inst, HL_A_CHANNEL_ID))
    hl_set_int(again, HL_A_CHANNEL_ID, w->job->next_channel++);
  return again;
}

// The copy of number `k` of a block, reading what was made of the numbers before.
static int32_t repeat_one(RematWalk *w, const RematBlock *block, int k, const int32_t *made,
                          int32_t next) {
  HlInst *from = w->item[block->item[k]].inst, *again = make_again(w, from);
  for (uint32_t o = 0; o < again->n_operands; o++)
    for (int i = 0; i < k; i++)
      if (remat_home(w, from->operands[o]) == &w->item[block->item[i]])
        hl_set_operand(again, (int)o, view_on(w, from->operands[o], made[i], next));
  const int32_t item = remat_add(w, again, block->item[k], 0);
  remat_insert(w, item, next);
  w->item[item].at = w->item[next].at;
  return item;
}

// The first user to come, if that is not now; -1 otherwise.
static int32_t later_user(RematWalk *w, int32_t k, int32_t now) {
  const int32_t next = remat_first_user_to_come(w, k);
  return next == now ? -1 : next;
}

void remat_repeat(RematWalk *w, const RematBlock *block, int32_t now) {
  const int32_t k = block->item[block->n - 1], next = later_user(w, k, now);
  if (!remat_change(w, "recompute", k, next))
    return;
  remat_foresee(w, block, now, next);
  int32_t made[REMAT_BLOCK_MAX];
  for (int j = 0; j < block->n; j++)
    made[j] = repeat_one(w, block, j, made, next);
  redirect(w, k, made[block->n - 1], next);
  for (int j = block->n - 1; j >= 0; j--)  // what was only moved
    drop_unread(w, block->item[j]);
  remat_changed(w, k);
}

// --- Compressing ----------------------------------------------------------------------------------

static HlInst *copy_as(RematWalk *w, HlInst *of, const HlShape *shape, const HlInst *like,
                       const char *suffix) {
  HlInst *copy = hl_inst_new(w->comp, HL_OP_COPY, shape, NULL, 1, &of);
  hl_inherit(copy, like);
  return named_as(w, copy, like, suffix);
}

// The dense copy follows the value; the other one comes before the first user to come.
void remat_compress(RematWalk *w, int32_t k, int32_t now) {
  HlInst *inst = w->item[k].inst;
  const int32_t next = later_user(w, k, now);
  if (!remat_change(w, "compress", k, next))
    return;
  const HlShape *dense = remat_dense_shape(w, inst->shape);
  HlInst *dense_copy = copy_as(w, inst, dense, inst, "compressed");
  const int32_t packed = remat_add(w, dense_copy, 0, hl_shape_buffer_bytes(dense, 8));
  remat_insert(w, packed, w->item[k].next);
  const int32_t whole =
      remat_add(w, copy_as(w, dense_copy, inst->shape, inst, "uncompressed"), k, 0);
  remat_insert(w, whole, next);
  w->item[packed].placed = true;
  remat_drop_use(w, inst);  // the dense copy is through
  redirect(w, k, whole, next);
  w->usage += remat_bytes(&w->item[packed]);
  remat_make_live(w, packed);
  remat_changed(w, k);
}

// --- Sending to the host --------------------------------------------------------------------------

// The last user so far, or the value itself.
static int32_t last_user(RematWalk *w, int32_t k) {
  int32_t last = k;
  int n;
  const RematUse *use = remat_uses(w, k, &n);
  for (int j = 0; j < n; j++)
    if (w->item[use[j].user].placed && w->item[use[j].user].label > w->item[last].label)
      last = use[j].user;
  return last;
}

static HlInst *transfer(RematWalk *w, HlOp op, const HlShape *shape, HlInst *of, const HlInst *like,
                        const char *suffix) {
  HlInst *inst = hl_inst_new(w->comp, op, shape, NULL, 1, &of);
  hl_inherit(inst, like);
  hl_remove_attr(inst, HL_A_SHARDING);
  return named_as(w, inst, like, suffix);
}

static HlInst *start_transfer(RematWalk *w, HlInst *of, const HlShape *to, const HlInst *like,
                              const char *suffix) {
  HlShapes *shapes = w->comp->module->shapes;
  const HlShape *part[] = {to, of->shape, hl_shape_scalar(shapes, HL_U32)};
  return transfer(w, HL_OP_COPY_START, hl_shape_tuple(shapes, 3, part), of, like, suffix);
}

static HlInst *end_transfer(RematWalk *w, HlInst *of, const HlInst *like, const char *suffix) {
  return transfer(w, HL_OP_COPY_DONE, of->shape->element[0], of, like, suffix);
}

// Sent from the last user on, until now; fetched before the first user to come. What is on its way counts
// where it comes from.
void remat_offload(RematWalk *w, int32_t k, int32_t now) {
  HlInst *inst = w->item[k].inst;
  const int32_t next = later_user(w, k, now);
  if (!remat_change(w, "offload", k, next))
    return;
  const HlShape *host = hl_with_memory_space(w->comp->module->shapes, inst->shape, HL_SPACE_HOST);
  const int32_t after = last_user(w, k);
  HlInst *send = start_transfer(w, inst, host, inst, "to_host");
  const int32_t sending = remat_add(w, send, 0, 0);
  remat_insert(w, sending, w->item[after].next);
  HlInst *sent = end_transfer(w, send, inst, "on_host");
  const int32_t on_host = remat_add(w, sent, 0, 0);
  remat_insert(w, on_host, now);
  w->item[sending].placed = w->item[on_host].placed = true;
  remat_drop_use(w, inst);
  remat_drop_use(w, send);
  HlInst *fetch = start_transfer(w, sent, inst->shape, inst, "to_device");
  remat_insert(w, remat_add(w, fetch, 0, 0), next);
  const int32_t back = remat_add(w, end_transfer(w, fetch, inst, "again"), k, 0);
  remat_insert(w, back, next);
  redirect(w, k, back, next);
  remat_changed(w, k);
}
