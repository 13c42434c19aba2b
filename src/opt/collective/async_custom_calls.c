// opt/collective/async_custom_calls.c
//
// async-collective-custom-call-rewriter: a frontend that starts collectives itself, and says where it waits for them, does so
// by custom calls (JAX: all_gather_start and its like); here they become halves of collectives.
//
//   s = f32[64] custom-call(x), custom_call_target="all-gather-start",     work { ROOT g = all-gather(p), .. }
//     frontend_attributes={async_collective_config={                   =>  s = ((f32[8]), f32[64]) async-start(x), calls=work
//       "all_gather_dimension":0,"replica_groups":[[0,1]],..}}             d = f32[64] async-done(s)
//   d = f32[64] custom-call(s), custom_call_target="all-gather-done"
//
// The configuration may be the call's backend config, too. What an all-to-all puts together along another dimension than it
// cuts is put there behind the end. A start and an end that do not stand side by side in one computation stay, with a warning.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "ir/backend_config.h"
#include "opt/ask/async_halves.h"
#include "opt/ask/collectives.h"
#include "opt/ask/frontend.h"
#include "opt/passes.h"

static const HlOp kinds[] = {HL_OP_ALL_GATHER, HL_OP_ALL_REDUCE, HL_OP_REDUCE_SCATTER,
                             HL_OP_ALL_TO_ALL, HL_OP_COLLECTIVE_PERMUTE};

// Of which collective this is the half; HL_OP_COUNT: of none.
static HlOp half_of(const HlInst *inst, const char *half) {
  if (inst->op != HL_OP_CUSTOM_CALL)
    return HL_OP_COUNT;
  const char *target = hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET);
  for (int k = 0; k < HL_COUNT_OF(kinds); k++) {
    const char *name = hl_op_text(kinds[k]);
    const size_t n = strlen(name);
    if (strncmp(target, name, n) == 0 && strcmp(target + n, half) == 0)
      return kinds[k];
  }
  return HL_OP_COUNT;
}

// --- The configuration ----------------------------------------------------------------------------

static HlStartedConfig config_of(HlPass *p, const HlInst *start) {
  const char *text = frontend_get(start, "async_collective_config");
  return *text ? hl_started_config_of(p->arena, text) : hl_started_config(p->arena, start);
}

// Lists of natural numbers in a list, "[[0,1],[2,3]]"; false: it says anything else.
static bool read_lists(HlArena *arena, HlStr text, HlI64Lists *out) {
  HlI64s *lists = HL_ARRAY(arena, HlI64s, text.n + 1);
  int64_t *all = HL_ARRAY(arena, int64_t, text.n + 1);
  int n = 0, n_all = 0, depth = 0;
  for (size_t k = 0; k < text.n; k++) {
    const char c = text.at[k];
    if (c == '[' && depth < 2 && (depth > 0 || n == 0)) {
      if (depth++ == 1)
        lists[n++] = (HlI64s){all + n_all, 0};
    } else if (c == ']' && depth > 0) {
      depth--;
    } else if (is_digit(c) && depth == 2) {
      int64_t number = 0;
      for (; k < text.n && is_digit(text.at[k]); k++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text.at[k] - '0', &number))
          return false;
      all[n_all++] = number;
      lists[n - 1].n++;
      k--;
    } else if (c != ',' && !is_space(c)) {
      return false;
    }
  }
  *out = (HlI64Lists){lists, n};
  return text.at && depth == 0;
}

// Of two numbers each, all sources different, and all targets.
static bool read_pairs(HlArena *arena, HlStr text, HlI64s *out) {
  HlI64Lists lists;
  if (!read_lists(arena, text, &lists))
    return false;
  int64_t *pairs = HL_ARRAY(arena, int64_t, 2 * lists.n + 1);
  for (int k = 0; k < lists.n; k++) {
    if (lists.at[k].n != 2)
      return false;
    pairs[2 * k] = lists.at[k].at[0];
    pairs[2 * k + 1] = lists.at[k].at[1];
  }
  *out = (HlI64s){pairs, 2 * lists.n};
  return true;
}

static bool is_scalar_of(const HlInst *inst, HlDtype dtype) {
  return inst && hl_shape_is_scalar(inst->shape) && inst->shape->dtype == dtype;
}

static bool reduces(const HlComp *comp, HlDtype dtype) {
  return comp->n_params == 2 && is_scalar_of(comp->params[0], dtype) &&
         is_scalar_of(comp->params[1], dtype) && is_scalar_of(comp->root, dtype);
}

// One array in, one out, and what reduces where something is reduced.
static bool is_told(HlOp op, const HlInst *start, const HlInst *done) {
  const bool wants_reducer = op == HL_OP_ALL_REDUCE || op == HL_OP_REDUCE_SCATTER;
  const HlShape *in = start->operands[0]->shape;
  return start->n_operands == 1 && start->n_calls == wants_reducer && hl_shape_is_array(in) &&
         hl_shape_is_array(done->shape) && !hl_shape_is_dynamic(in) &&
         !hl_shape_is_dynamic(done->shape) &&
         (!wants_reducer || reduces(hl_called(start, 0), in->dtype));
}

static bool is_dim(const HlShape *shape, int64_t dim) {
  return dim >= 0 && dim < shape->rank;
}

// `to` is `from`, one dimension cut into so many parts and one as many times as long; -1: none is.
static bool is_resized(const HlShape *from, const HlShape *to, int64_t cut, int64_t longer,
                       int64_t parts) {
  if (from->rank != to->rank || from->dtype != to->dtype)
    return false;
  for (int k = 0; k < from->rank; k++) {
    int64_t size = from->dim[k];
    if (k == cut && size % parts != 0)
      return false;
    if (k == cut)
      size /= parts;
    if (k == longer && __builtin_mul_overflow(size, parts, &size))
      return false;
    if (size != to->dim[k])
      return false;
  }
  return true;
}

// The collective makes of the operand what the end says.
static bool fits(HlPass *p, const HlInst *whole, const HlShape *out, const HlStartedConfig *c) {
  const HlShape *in = whole->operands[0]->shape;
  const HlOp op = (HlOp)whole->op;
  if (op == HL_OP_COLLECTIVE_PERMUTE)
    return coll_pairs_are_whole(p, whole) && is_resized(in, out, -1, -1, 1);
  const CollGroups groups = coll_groups(p, whole);
  if (!coll_groups_are_whole(p, whole, &groups))
    return false;
  switch (op) {
  case HL_OP_ALL_GATHER:
    return is_dim(in, c->gather) && is_resized(in, out, -1, c->gather, groups.size);
  case HL_OP_REDUCE_SCATTER:
    return c->tiled && is_dim(in, c->scatter) && is_resized(in, out, c->scatter, -1, groups.size);
  case HL_OP_ALL_TO_ALL:
    return is_dim(in, c->split) && is_dim(in, c->concat) && c->parts == groups.size &&
           is_resized(in, out, c->split, c->concat, c->parts);
  default: return is_resized(in, out, -1, -1, 1);
  }
}

// --- Collectives ----------------------------------------------------------------------------------

// NULL: the configuration does not say who takes part.
static HlInst *collective(HlPass *p, HlBuild *b, HlOp op, const HlInst *start, const HlShape *shape,
                          const HlStartedConfig *c) {
  HlInst *inst = hl_inst_new(b->comp, op, shape, NULL, (int)start->n_operands, start->operands);
  const int64_t dim = op == HL_OP_ALL_GATHER   ? c->gather
                      : op == HL_OP_ALL_TO_ALL ? c->split
                                               : c->scatter;
  if (c->channel > 0)
    hl_set_int(inst, HL_A_CHANNEL_ID, c->channel);
  if (op == HL_OP_COLLECTIVE_PERMUTE) {
    HlI64s pairs;
    if (!read_pairs(p->arena, c->pairs, &pairs))
      return NULL;
    hl_set_ints(inst, HL_A_SOURCE_TARGET_PAIRS, pairs);
    return inst;
  }
  HlI64Lists groups;
  if (!read_lists(p->arena, c->groups, &groups))
    return NULL;
  coll_set_groups(inst, groups);
  if (op != HL_OP_ALL_REDUCE)
    hl_set_int(inst, HL_A_DIMENSION, dim);
  if (c->global && op != HL_OP_ALL_TO_ALL)
    hl_set_int(inst, HL_A_USE_GLOBAL_DEVICE_IDS, 1);
  if (start->n_calls == 1) {
    HlComp *reducer = hl_called(start, 0);
    hl_set_calls(inst, 1, &reducer);
  }
  return inst;
}

// The parts of the cut dimension in front of the dimension along which they are put together.
static HlInst *put_together(HlPass *p, HlBuild *b, HlInst *parts, const HlShape *shape,
                            const HlStartedConfig *c) {
  const int rank = parts->shape->rank;
  int64_t *dim = HL_ARRAY(p->arena, int64_t, rank + 2),
          *order = HL_ARRAY(p->arena, int64_t, rank + 2);
  int n = 0, n_order = 0;
  for (int k = 0; k < rank; k++) {
    if (k == c->split)
      dim[n++] = c->parts;
    dim[n++] = k == c->split ? parts->shape->dim[k] / c->parts : parts->shape->dim[k];
    if (k == c->concat)
      order[n_order++] = c->split;
    order[n_order++] = k >= c->split ? k + 1 : k;
  }
  HlInst *apart = hl_b_reshape(b, parts, n, dim);
  HlInst *moved = hl_b_transpose(b, apart, (HlI64s){order, n_order});
  hl_set_shape(moved, hl_shape_array(p->m->shapes, moved->shape->dtype, n, moved->shape->dim));
  return hl_b_reshape(b, moved, shape->rank, shape->dim);
}

static void inherit_metadata(HlInst *to, const HlInst *from) {
  const HlAttr *metadata = hl_attr(from, HL_A_METADATA);
  if (metadata)
    hl_set_attr(to, metadata);
}

// A start that has an effect, or that something waits for, is still there.
static void retire(HlInst *start, HlInst *started) {
  if (!hl_alive(start))
    return;
  async_hand_on(start, started);
  hl_erase(start);
}

static void rewrite(HlPass *p, HlOp op, HlInst *start, HlInst *done) {
  const HlStartedConfig c = config_of(p, start);
  const bool moves = op == HL_OP_ALL_TO_ALL && c.split != c.concat;
  HlInst *whole = NULL;
  HlBuild b;
  hl_begin(p, "start", done, &b);
  if (is_told(op, start, done))
    whole = collective(p, &b, op, start, moves ? start->operands[0]->shape : done->shape, &c);
  if (!whole || !fits(p, whole, done->shape, &c)) {
    hl_drop(p);
    hl_warn(p->cx, hl_pos(start), "%s does not say all that %s needs", start->name->text,
            hl_op_text(op));
    return;
  }
  HlInst *started = async_start(p, &b, whole, NULL);
  HlInst *ended = hl_inst_new(b.comp, HL_OP_ASYNC_DONE, whole->shape, NULL, 1, &started);
  hl_erase(whole);
  inherit_metadata(started, start);
  inherit_metadata(ended, done);
  for (int k = 0; start->control && k < start->control->n_preds; k++)
    hl_add_control(start->control->preds[k], started);
  if (hl_commit(p, moves ? put_together(p, &b, ended, done->shape, &c) : ended))
    retire(start, started);
}

static void visit(HlPass *p, HlInst *done) {
  const HlOp op = half_of(done, "-done");
  if (op == HL_OP_COUNT || done->n_operands != 1)
    return;
  HlInst *start = done->operands[0];
  if (half_of(start, "-start") == op && start->n_operands > 0 && hl_one_user(start))
    rewrite(p, op, start, done);
  else
    hl_warn(p->cx, hl_pos(done), "%s is not the end of what its operand starts", done->name->text);
}

bool pass_async_custom_calls(HlPass *p) {
  p->relay_control = true;
  hl_pass_visit(p, HL_COMPS_NO_FUSION, HL_OP_CUSTOM_CALL, visit);
  return true;
}
