// spmd/partition_custom.c: custom calls that somebody outside partitions (custom.h).
//
//   y = f32[8,8] custom-call(x), custom_call_target="CustomSPMDPartitioning", sharding={devices=[4,1]<=[4]}
// =>
//   y.1 = f32[2,8] multiply(x.1, c)         what the partitioner's module says of a device's part
#include "hilo/edit.h"
#include "hilo/op.h"
#include "spmd/custom.h"
#include "spmd/partition.h"

// --- Who is asked ---------------------------------------------------------------------------------

static const char *key_of(HlArena *arena, const char *target) {
  return hl_arena_printf(arena, "partitioner:%s", target);
}

void sp_register_partitioner(HlCx *cx, const char *target, SpPartitioner *partitioner, void *user) {
  const SpRegistered row = {partitioner, user};
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  hl_cx_register_copy(cx, key_of(scratch, target), &row, sizeof row);
  hl_arena_release(scratch, mark);
}

const SpRegistered *sp_partitioner_of(HlCx *cx, const HlInst *call) {
  const HlSym *target = hl_attr_ptr(call, HL_A_CUSTOM_CALL_TARGET);
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  const SpRegistered *row = target ? hl_cx_lookup(cx, key_of(scratch, target->text)) : NULL;
  hl_arena_release(scratch, mark);
  return row;
}

// --- The question ---------------------------------------------------------------------------------

// A value's sharding as tiles, whatever names the program has for them.
static const HlSharding *sharding_of(Part *pt, const HlShape *shape, const HlTiles *const *tiles) {
  const int n = (int)hl_shape_leaves(shape);
  if (!hl_shape_is_tuple(shape))
    return hl_tiles_sharding(pt->m, tiles[0]);
  HlSharding *tuple = HL_NEW(pt->m->arena, HlSharding);
  const HlSharding **element = HL_ARRAY(pt->m->arena, const HlSharding *, n + 1);
  for (int k = 0; k < n; k++)
    element[k] = hl_tiles_sharding(pt->m, tiles[k]);
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = n};
  return tuple;
}

static bool ask(PartComp *c, const HlInst *inst, const SpRegistered *who, SpAnswer *answer) {
  Part *pt = c->pt;
  const int n = (int)inst->n_operands;
  const HlSharding **operand = HL_ARRAY(pt->arena, const HlSharding *, n + 1);
  const HlTiles *const *own = part_tiles(c, inst);
  for (int k = 0; own && k < n; k++)
    operand[k] = sharding_of(pt, inst->operands[k]->shape, part_value(c, inst->operands[k])->tiles);
  if (!own)
    return false;
  const SpCall call = {inst, operand, sharding_of(pt, inst->shape, own)};
  *answer = (SpAnswer){.operand = HL_ARRAY(pt->m->arena, const HlSharding *, n + 1)};
  return who->partitioner(pt->p->cx, who->user, &call, answer);
}

// --- The answer -----------------------------------------------------------------------------------

static const HlTiles *const *tiles_of(PartComp *c, const HlInst *inst, const HlShape *shape,
                                      const HlSharding *sharding) {
  const int64_t n = hl_shape_leaves(shape);
  const HlTiles **tiles = HL_ARRAY(c->pt->arena, const HlTiles *, n + 1);
  for (int64_t k = 0; k < n; k++) {
    const HlSharding *leaf = sharding ? hl_sharding_leaf(sharding, k) : NULL;
    const HlShape *at = hl_leaf_shape(shape, k);
    tiles[k] = leaf ? part_tiles_of(c, inst, leaf, at) : part_replicated(c->pt, at->rank);
    if (!tiles[k])
      return NULL;
  }
  return tiles;
}

// Channels are numbered by module: those of the answer come behind ours.
static void renumber(Part *pt, HlModule *answer) {
  const int64_t first = pt->next_channel, n = hl_free_channel(answer) - 1;
  for (HlComp *comp = answer->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (hl_attr_int(inst, HL_A_CHANNEL_ID) > 0)
        hl_set_int(inst, HL_A_CHANNEL_ID, hl_attr_int(inst, HL_A_CHANNEL_ID) - 1 + first);
  pt->next_channel += n;
}

static bool fits(PartComp *c, const HlInst *inst, const HlShape *is, const HlShape *wanted) {
  HlCx *cx = c->pt->p->cx;
  return hl_shape_compatible(is, wanted) ||
         hl_inst_error(cx, inst, "what it is partitioned into has %s, a device's part is %s",
                       hl_shape_text(cx, is), hl_shape_text(cx, wanted));
}

// The operands as the answer wants them; NULL: reported.
static HlInst **operands_of(PartComp *c, const HlInst *inst, const SpAnswer *answer) {
  const HlComp *entry = answer->module->entry;
  const int n = (int)inst->n_operands;
  HlInst **operand = HL_ARRAY(c->pt->arena, HlInst *, n + 1);
  if (entry->n_params != n) {
    hl_inst_error(c->pt->p->cx, inst, "what it is partitioned into takes %d values, it has %d",
                  entry->n_params, n);
    return NULL;
  }
  for (int k = 0; k < n; k++) {
    const HlInst *x = hl_operand(inst, k);
    const HlTiles *const *tiles = tiles_of(c, inst, x->shape, answer->operand[k]);
    operand[k] = tiles ? part_value_as(c, x, tiles) : NULL;
    if (!operand[k] || !fits(c, inst, entry->params[k]->shape, operand[k]->shape))
      return NULL;
  }
  return operand;
}

static bool put_in(PartComp *c, HlInst *inst, const SpAnswer *answer) {
  Part *pt = c->pt;
  const HlTiles *const *tiles = tiles_of(c, inst, inst->shape, answer->result);
  HlInst **operand = tiles ? operands_of(c, inst, answer) : NULL;
  if (!operand || !fits(c, inst, answer->module->entry->root->shape,
                        part_local_shape(pt, inst->shape, tiles)))
    return false;
  renumber(pt, answer->module);
  HlComp *entry = hl_comps_import(pt->m, answer->module);
  HlInst **map = HL_ARRAY(pt->arena, HlInst *, entry->next_id + 1);
  HlInst *local = hl_graft(c->to, entry, (int)inst->n_operands, operand, map);
  const HlAttr *metadata = hl_attr(inst, HL_A_METADATA);
  for (const HlInst *from = entry->first; from; from = from->next) {
    if (from->op == HL_OP_PARAMETER)
      continue;
    hl_set_loc(map[from->id], inst->loc);
    if (metadata)
      hl_set_attr(map[from->id], metadata);
  }
  hl_comp_erase(entry);
  return part_set_leaves(c, inst, local, tiles);
}

bool part_asked(PartComp *c, HlInst *inst, bool *asked) {
  const SpRegistered *who = sp_partitioner_of(c->pt->p->cx, inst);
  SpAnswer answer = {0};
  *asked = who != NULL;
  if (!who || !ask(c, inst, who, &answer))
    return false;
  bool done;
  if (answer.module) {
    done = put_in(c, inst, &answer);
    hl_module_free(answer.module);
  } else {
    const PartValue *x = part_value(c, hl_operand(inst, 0));
    done = part_set_leaves(c, inst, x->local, x->tiles);
  }
  return done;
}
