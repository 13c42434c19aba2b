// spmd/partition.c: spmd-partitioning: a program on whole arrays becomes the program of one device.
//
//   x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
//   y = f32[4,6] parameter(1), sharding={replicated}
//   ROOT d = f32[8,6] dot(x, y), ..., sharding={replicated}
// =>
//   param = f32[2,4] parameter(0)
//   param.1 = f32[4,6] parameter(1)
//   dot = f32[2,6] dot(param, param.1), ...
//   ROOT all-gather = f32[8,6] all-gather(dot), ...
//
// All devices run the same program, each on its own tiles. Every instruction says by its sharding
// which tile a device is to hold of its result; one that says nothing is computed whole by
// everybody. The copy of an instruction is made by its op's rule: it asks for the operands in the
// sharding in which the op needs no word from other devices, or least, and an exchange is put in
// where an operand is cut otherwise. An op without a rule of its own gets its operands whole, and
// its result is sliced: right for every op, and never cheap.
//
// A loop's body that says how it is cut is copied before what the loop stands in, as in XLA, whose
// channels are numbered so; another one, a branch and what is called when the copy of the caller gets
// there: on a stack of computations under way. The old ones are erased at the end: half of a partitioned
// program means nothing, so all of it is one change. The clean-up is a pipeline of its own inside,
// as in XLA.

#include <string.h>

#include "hilo/custom_calls.h"
#include "spmd/partition.h"

bool pass_spmd_partitioning(HlPass *p);

// --- Rules ----------------------------------------------------------------------------------------

static PartRule *const partition_rules[HL_OP_COUNT] = {
    [HL_OP_PARAMETER] = part_parameter,
    [HL_OP_CONSTANT] = part_constant,
    [HL_OP_TUPLE] = part_tuple,
    [HL_OP_GET_TUPLE_ELEMENT] = part_element,
    [HL_OP_OPT_BARRIER] = part_barrier,
    [HL_OP_ADD_DEPENDENCY] = part_barrier,
    [HL_OP_BITCAST_CONVERT] = part_bitcast_convert,
    [HL_OP_BROADCAST] = part_broadcast,
    [HL_OP_TRANSPOSE] = part_transpose,
    [HL_OP_RESHAPE] = part_reshape,
    [HL_OP_REVERSE] = part_reverse,
    [HL_OP_IOTA] = part_iota,
    [HL_OP_CONCATENATE] = part_concatenate,
    [HL_OP_SLICE] = part_slice,
    [HL_OP_PAD] = part_pad,
    [HL_OP_REDUCE] = part_reduce,
    [HL_OP_REDUCE_WINDOW] = part_reduce_window,
    [HL_OP_SELECT_AND_SCATTER] = part_select_and_scatter,
    [HL_OP_DOT] = part_dot,
    [HL_OP_CONVOLUTION] = part_convolution,
    [HL_OP_GATHER] = part_gather,
    [HL_OP_SCATTER] = part_scatter,
    [HL_OP_SORT] = part_sort,
    [HL_OP_TOPK] = part_topk,
    [HL_OP_DYNAMIC_SLICE] = part_dynamic_slice,
    [HL_OP_DYNAMIC_UPDATE_SLICE] = part_dynamic_update_slice,
    [HL_OP_CHOLESKY] = part_batched,
    [HL_OP_TRIANGULAR_SOLVE] = part_batched,
    [HL_OP_FFT] = part_fft,
    [HL_OP_RNG] = part_rng,
    [HL_OP_WHILE] = part_while,
    [HL_OP_CONDITIONAL] = part_conditional,
    [HL_OP_CALL] = part_call,
    [HL_OP_CUSTOM_CALL] = part_custom_call,
    [HL_OP_ALL_REDUCE] = part_collective,
    [HL_OP_ALL_GATHER] = part_collective,
    [HL_OP_REDUCE_SCATTER] = part_collective,
    [HL_OP_ALL_TO_ALL] = part_collective,
    [HL_OP_COLLECTIVE_PERMUTE] = part_collective,
    [HL_OP_COLLECTIVE_BROADCAST] = part_collective,
    [HL_OP_COLLECTIVE_REDUCE] = part_collective,
};

static PartRule *rule_of(const HlInst *inst) {
  if (inst->op == HL_OP_CONVOLUTION && inst->n_operands > 2)
    return part_default;  // sparse or scaled
  if (partition_rules[inst->op])
    return partition_rules[inst->op];
  if (hl_is_async((HlOp)inst->op))
    return part_async;
  return hl_op_info[inst->op].traits & HL_T_ELEMENTWISE || inst->op == HL_OP_COPY ? part_elementwise
                                                                                  : part_default;
}

// --- Computations ---------------------------------------------------------------------------------

PartComp *part_enter(Part *pt, const HlComp *from, const char *name, const HlTiles *const *argument,
                     const HlTiles *const *result) {
  const HlSym *fresh = hl_fresh_comp_name(pt->m, name);
  PartComp *c = HL_NEW(pt->arena, PartComp);
  *c = (PartComp){.pt = pt,
                  .below = pt->top,
                  .from = from,
                  .to = hl_comp_new(pt->m, fresh->text, fresh->n),
                  .value = HL_ARRAY(pt->arena, PartValue, from->next_id + 1),
                  .order = hl_post_order(pt->arena, from),
                  .n = (int)from->n_insts,
                  .result = result,
                  .argument = argument};
  hl_comp_set_loc(c->to, from->loc);
  hl_comp_set_thread(c->to, from->execution_thread);
  c->b = (HlBuild){.cx = pt->p->cx, .comp = c->to, .loc = from->loc};
  return pt->top = c;
}

static bool is_manual(PartComp *c, const HlInst *inst) {
  const HlSharding *s = hl_sharding(inst);
  if (!s || s->kind == HL_SHARDING_TUPLE)
    return s && s->n_elements > 0 && s->element[0]->kind == HL_SHARDING_MANUAL;
  return s->kind == HL_SHARDING_MANUAL && c->pt->n_devices > 1;
}

// Ops that look into what they carry have rules that hold in a manual part as elsewhere.
static bool is_structure(HlOp op) {
  return op == HL_OP_PARAMETER || op == HL_OP_TUPLE || op == HL_OP_GET_TUPLE_ELEMENT ||
         hl_op_is(op, HL_T_CONTROL);
}

static bool changes_view(const HlInst *inst) {
  return hl_call_has(inst, HL_CALL_BORDER);
}

static void copy_control(PartComp *c, const HlInst *inst) {
  HlInst *succ = c->value[inst->id].local;
  for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
    HlInst *pred = c->value[inst->control->preds[k]->id].local;
    if (pred && pred != succ && hl_stands_before(pred, succ))
      hl_add_control(pred, succ);
  }
}

// A product works with tiles, whatever names the program has for them, and leaves what it reads and makes so. A fold keeps how its
// operand is known; what is done by elements of operands cut alike, what its first operand says.
static bool known_as_tiles(const PartComp *c, const HlInst *inst) {
  if (part_is_product(inst))
    return true;
  if (inst->op == HL_OP_REDUCE)
    return c->value[inst->operands[0]->id].by_tiles;
  if (!hl_op_is((HlOp)inst->op, HL_T_ELEMENTWISE) || inst->n_operands < 2)
    return false;
  const PartValue *first = &c->value[inst->operands[0]->id];
  for (uint32_t k = 1; k < inst->n_operands; k++)
    if (first->n != 1 || !hl_tiles_equal(first->tiles[0], c->value[inst->operands[k]->id].tiles[0]))
      return false;
  return first->said_in_tiles;
}

static void know_as_tiles(PartComp *c, const HlInst *product) {
  c->value[product->id].said_in_tiles = true;
  for (uint32_t k = 0; k < product->n_operands; k++) {
    PartValue *v = &c->value[product->operands[k]->id];
    v->by_tiles = v->said_in_tiles = true;
  }
}

// A sum of which each device is to have its own summand.
static bool wants_summands(PartComp *c, const HlInst *inst) {
  const HlSharding *s = hl_sharding(inst);
  const bool sums = part_is_product(inst) || inst->op == HL_OP_REDUCE || inst->op == HL_OP_SCATTER;
  if (!s || !sums || !hl_shape_is_array(inst->shape))
    return false;
  const HlTiles *const *own = part_tiles(c, inst);
  return own && own[0]->unreduced > 1;
}

// It is made as if all were to have it, and the step in which they add up is left out again (part_reshard).
static bool make_summands(PartComp *c, HlInst *inst) {
  c->complete = inst;
  const bool done = rule_of(inst)(c, inst);
  c->complete = NULL;
  const HlTiles *const *own = done ? part_tiles(c, inst) : NULL;
  return own && part_keep(c, inst, part_value_as(c, inst, own), own);
}

// Moves all of what each device has a summand of: the result's summands are these, moved.
static bool moves_summands(PartComp *c, const HlInst *inst) {
  if (!hl_op_is((HlOp)inst->op, HL_T_REARRANGES) || inst->n_operands != 1 ||
      !hl_shape_is_array(inst->shape) || hl_shape_is_dynamic(inst->shape) || !hl_sharding(inst))
    return false;
  const HlTiles *const *own = part_tiles(c, inst);
  const PartValue *x = part_value(c, hl_operand(inst, 0));
  return own && own[0]->kind == HL_TILES_UNREDUCED && x->n == 1 &&
         x->tiles[0]->kind == HL_TILES_UNREDUCED;
}

static bool visit(PartComp *c, HlInst *inst) {
  if (c->value[inst->id].local) {  // made along with another one
    copy_control(c, inst);
    return true;
  }
  const int64_t errors = hl_cx_n_errors(c->b.cx);
  c->b.metadata = hl_metadata(inst);
  c->b.loc = inst->loc;
  c->by_tiles = known_as_tiles(c, inst);
  bool done = hl_has_side_effect(inst) && !changes_view(inst) && part_one_device(c, inst);
  if (!done && ((is_manual(c, inst) && !is_structure((HlOp)inst->op) && !changes_view(inst)) ||
                moves_summands(c, inst)))
    done = part_as_it_is(c, inst);
  else if (!done && wants_summands(c, inst))
    done = make_summands(c, inst);
  else if (!done)
    done = rule_of(inst)(c, inst);
  if (done && hl_cx_n_errors(c->b.cx) == errors) {
    if (part_is_product(inst))
      know_as_tiles(c, inst);
    copy_control(c, inst);
    return true;
  }
  return hl_cx_n_errors(c->b.cx) == errors
             ? hl_inst_error(c->b.cx, inst, "%s cannot be partitioned", hl_op_text((HlOp)inst->op))
             : false;
}

// The root as the caller wants it; the entry's as it says.
static bool finish(PartComp *c) {
  const HlInst *root = c->from->root;
  const HlTiles *const *result = c->result ? c->result : part_tiles(c, root);
  c->b.metadata = hl_metadata(root);
  HlInst *local = result ? part_value_as(c, root, result) : NULL;
  if (!part_keep(c, root, local, result))
    return false;
  hl_set_root(c->to, local);
  c->pt->top = c->below;
  return true;
}

static bool copy_all(Part *pt) {
  while (pt->top) {
    PartComp *c = pt->top;
    if (!c->loop && !part_enter_loops(c))
      return false;
    if (c != pt->top)
      continue;
    if (!(c->at < c->n ? visit(c, c->order[c->at++]) : finish(c)))
      return false;
  }
  return true;
}

// --- The module -----------------------------------------------------------------------------------

// How a value of the interface is cut; of which nothing is said, that is whole: of a tuple each element.
static const HlSharding *interface_sharding(Part *pt, const HlInst *inst) {
  if (hl_sharding(inst))
    return hl_sharding(inst);
  HlSharding *whole = HL_NEW(pt->m->arena, HlSharding), *tuple = HL_NEW(pt->m->arena, HlSharding);
  *whole = (HlSharding){.kind = HL_SHARDING_REPLICATED};
  if (!hl_shape_is_tuple(inst->shape))
    return whole;
  const int64_t leaves = hl_shape_leaves(inst->shape), n = leaves > 0 ? leaves : 1;  // as in XLA
  const HlSharding **element = HL_ARRAY(pt->m->arena, const HlSharding *, n);
  for (int64_t k = 0; k < n; k++)
    element[k] = whole;
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = (int)n};
  return tuple;
}

// The layouts that the caller of the program sees, of the tiles.
static void set_entry_layout(Part *pt, const PartComp *entry) {
  HlModule *m = pt->m;
  const HlComp *old = entry->from;
  const HlShape **params = HL_ARRAY(pt->arena, const HlShape *, m->n_entry_params + 1);
  const HlSharding **sharding = HL_ARRAY(pt->arena, const HlSharding *, m->n_entry_params + 1);
  for (int k = 0; k < m->n_entry_params; k++) {
    params[k] = part_local_shape(pt, m->entry_params[k], entry->value[old->params[k]->id].tiles);
    sharding[k] = interface_sharding(pt, old->params[k]);
  }
  const HlShape *result = part_local_shape(pt, m->entry_result, entry->value[old->root->id].tiles);
  hl_set_spmd_shardings(m, m->n_entry_params, sharding, interface_sharding(pt, old->root));
  hl_set_entry_layout(m, m->n_entry_params, params, result);
}

static bool is_alias_of_equals(const HlModule *m, const HlAlias *alias) {
  const HlShape *out = hl_shape_at(m->entry_result, alias->output);
  const HlShape *in = alias->number < m->n_entry_params
                          ? hl_shape_at(m->entry_params[alias->number], alias->index)
                          : NULL;
  return in && out && hl_shape_compatible(in, out);
}

// A parameter and a result that are cut differently no longer fit into one buffer.
static void keep_fitting_aliases(Part *pt) {
  HlModule *m = pt->m;
  HlAlias *kept = HL_ARRAY(pt->arena, HlAlias, m->input_output_alias.n + 1);
  int n = 0;
  for (int k = 0; k < m->input_output_alias.n; k++)
    if (is_alias_of_equals(m, &m->input_output_alias.at[k]))
      kept[n++] = m->input_output_alias.at[k];
  hl_set_aliases(m, n, kept);
}

// Callers come after callees: from the last on, what nobody calls any more goes.
static void erase_old(Part *pt, HlComp *old) {
  HlComp *prev = old->prev;
  hl_comp_erase(old);
  for (HlComp *comp = prev; comp; comp = prev) {
    prev = comp->prev;
    if (!comp->first_call && comp != pt->m->entry)
      hl_comp_erase(comp);
  }
}

static bool partition(Part *pt) {
  HlComp *old = pt->m->entry;
  hl_complete_entry_layout(pt->m);
  PartComp *entry =
      part_enter(pt, old, hl_arena_printf(pt->arena, "%s_spmd", old->name->text), NULL, NULL);
  if (!copy_all(pt))
    return false;
  hl_comp_set_entry(entry->to);
  set_entry_layout(pt, entry);
  keep_fitting_aliases(pt);
  if (!hl_sort_comps(pt->p->cx, pt->m))
    return false;
  erase_old(pt, old);
  return true;
}

static PartWindowing windowing_of(const HlPass *p) {
  const int64_t mib = hl_pass_int(p, "threshold_for_windowed_einsum_mib");
  return (PartWindowing){
      .least_bytes = mib < 0                 ? -1
                     : mib > INT64_MAX >> 20 ? INT64_MAX
                                             : mib * (1 << 20),
      .least_total = hl_pass_int(p, "total_bytes_windowed_einsum_threshold"),
      .most_steps = hl_pass_int(p, "max_windowed_einsum_iteration"),
      .gathers = hl_pass_flag(p, "enable_windowed_einsum_for_all_gather"),
      .scatters = hl_pass_flag(p, "enable_windowed_einsum_for_reduce_scatter"),
      .unrolls = hl_pass_flag(p, "unroll_windowed_einsum"),
      .both_ways = hl_pass_flag(p, "bidirectional_windowed_einsum"),
      .partly = hl_pass_flag(p, "partial_windowed_einsum"),
      .spares_shared = !hl_pass_flag(p, "skip_checking_windowed_einsum_users"),
      .once_an_operand = hl_pass_flag(p, "disable_ag_rewrite_for_multiple_consumers"),
  };
}

bool pass_spmd_partitioning(HlPass *p) {
  HlModule *m = p->m;
  if (m->num_partitions < 2 || hl_is_partitioned(m) || !m->entry)
    return true;
  if (!hl_change(p, "partition", m->entry->root, NULL))
    return true;
  Part pt = {.p = p,
             .m = m,
             .arena = p->arena,
             .n_devices = m->num_partitions,
             .n_replicas = m->replica_count,
             .next_channel = hl_free_channel(m),
             .named = hl_pass_since(p, HL_XLA_0_11) ? sp_named_mesh(m) : NULL,
             .windowing = windowing_of(p)};
  pt.mesh = pt.named ? sp_mesh_of_named(p->arena, pt.named) : NULL;
  const bool ok = partition(&pt);
  if (!hl_changed(p) || !ok)
    return ok;
  return hl_pass_nested(p, "spmd-cleanup(dce, tuple-simplifier, dce, cse)");
}
