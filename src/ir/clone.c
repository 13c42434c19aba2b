// ir/clone.c: deep copies of whole modules.

#include <assert.h>

#include "base/memory.h"
#include "ir/state.h"

typedef struct Clone {
  HlArena *arena;
  HlModule *to;
  HlComp **comp;   // by old id
  HlInst ***inst;  // by old ids of computation and instruction
} Clone;

// --- Computations -------------------------------------------------------------------------------

static HlInst *inst_of(const Clone *c, const HlInst *old) {
  return c->inst[old->comp->id][old->id];
}

// All instructions without edges: creation order gives ids, the list its own order.
static void clone_insts(Clone *c, const HlComp *from, HlComp *to) {
  HlInst **map = c->inst[from->id] = HL_ARRAY(c->arena, HlInst *, from->next_id + 1);
  for (uint32_t id = 0; id < from->next_id; id++)
    if (from->by_id[id])
      map[id] = ir_inst_alloc(to, (HlOp)from->by_id[id]->op, (int)from->by_id[id]->n_operands);
  bool is_by_id = true;
  for (const HlInst *old = from->first; old; old = old->next) {
    HlInst *inst = map[old->id];
    is_by_id &= !to->last || to->last->id < inst->id;
    ir_list_append(to, inst);
    inst->loc = old->loc;
    inst->name = ir_sym_copy(c->to, old->name);
    inst->shape = hl_shape_intern(c->to->shapes, old->shape);
  }
  if (!is_by_id)
    ir_relabel(to);
}

static void clone_attrs(HlInst *inst, const HlInst *old) {
  HlAttr copies[HL_ATTR_COUNT];
  for (int k = 0; k < old->n_attrs; k++)
    copies[k] = ir_attr_copy(inst->comp->module, &old->attrs[k]);
  hl_set_attrs(inst, copies, old->n_attrs);
}

// Edges come in the order in which they stand in the lists of what is used and called.
static void clone_edges(Clone *c, const HlComp *from) {
  for (uint32_t id = 0; id < from->next_id; id++) {
    const HlInst *old = from->by_id[id];
    if (!old)
      continue;
    HlInst *inst = inst_of(c, old);
    for (const HlUse *use = old->first_use; use; use = use->next)
      ir_use_add(inst_of(c, use->user), use->number, inst);
    clone_attrs(inst, old);
    ir_calls_alloc(inst, old->n_calls);
    for (int k = 0; old->control && k < old->control->n_preds; k++)
      hl_add_control(inst_of(c, old->control->preds[k]), inst);
  }
}

static void clone_calls(Clone *c, const HlComp *from) {
  for (const HlCall *call = from->first_call; call; call = call->next)
    ir_call_add(inst_of(c, call->caller), call->number, c->comp[from->id]);
}

static void clone_comp(Clone *c, const HlComp *from) {
  HlComp *to = c->comp[from->id];
  clone_insts(c, from, to);
  clone_edges(c, from);
  to->root = from->root ? inst_of(c, from->root) : NULL;
  to->execution_thread = ir_sym_copy(c->to, from->execution_thread);
  to->is_fusion = from->is_fusion;
  to->loc = from->loc;
  if (from->schedule) {
    HlInst **schedule = HL_ARRAY(c->to->arena, HlInst *, from->n_insts);
    for (uint32_t k = 0; k < from->n_insts; k++)
      schedule[k] = inst_of(c, from->schedule[k]);
    to->schedule = schedule;
  }
}

// --- The module's own fields --------------------------------------------------------------------

static const HlSym *const *clone_syms(HlModule *to, const HlSym *const *syms, int n) {
  const HlSym **copy = COPY_LIST(to, const HlSym *, syms, n);
  for (int k = 0; k < n; k++)
    copy[k] = ir_sym_copy(to, syms[k]);
  return copy;
}

static HlFrames clone_frames(HlModule *to, const HlFrames *frames) {
  HlFrames copy = *frames;
  copy.file_names = clone_syms(to, frames->file_names, frames->n_file_names);
  copy.function_names = clone_syms(to, frames->function_names, frames->n_function_names);
  copy.locations = COPY_LIST(to, HlFileLocation, frames->locations, frames->n_locations);
  copy.frames = COPY_LIST(to, HlStackFrame, frames->frames, frames->n_frames);
  return copy;
}

static bool clone_recovery(HlCx *cx, HlModule *to, const HlModule *from) {
  HlRecovery *rows = COPY_LIST(to, HlRecovery, from->recovery, from->n_recovery);
  for (int k = 0; k < from->n_recovery; k++)
    rows[k].module = NULL;
  to->recovery = rows;
  to->n_recovery = from->n_recovery;
  for (int k = 0; k < from->n_recovery; k++) {
    const HlRecovery *row = &from->recovery[k];
    rows[k].old_array = ir_origin_copy(to, row->old_array);
    rows[k].new_array = ir_origin_copy(to, row->new_array);
    rows[k].text = ir_sym_copy(to, row->text);
    if (row->module && !(rows[k].module = hl_clone(cx, row->module)))
      return false;
  }
  return true;
}

static void clone_debug(HlModule *to, const HlModule *from) {
  HlDebugRow *rows = COPY_LIST(to, HlDebugRow, from->debug, from->n_debug);
  for (int k = 0; k < from->n_debug; k++) {
    rows[k].array = ir_origin_copy(to, rows[k].array);
    HlDebugAttrs *at = COPY_LIST(to, HlDebugAttrs, rows[k].at, rows[k].n);
    for (int i = 0; i < rows[k].n; i++) {
      at[i].operands_sharding = ir_sym_copy(to, at[i].operands_sharding);
      at[i].x64_fragment = ir_sym_copy(to, at[i].x64_fragment);
      at[i].x64_instruction = ir_sym_copy(to, at[i].x64_instruction);
      at[i].x64_type = ir_sym_copy(to, at[i].x64_type);
    }
    rows[k].at = at;
  }
  to->debug = rows;
  to->n_debug = from->n_debug;
}

static void clone_interface(HlModule *to, const HlModule *from) {
  to->input_output_alias = ir_aliases_copy(to, from->input_output_alias);
  HlDonor *donors = COPY_LIST(to, HlDonor, from->buffer_donor, from->n_buffer_donor);
  for (int k = 0; k < from->n_buffer_donor; k++)
    donors[k].index = hl_i64s_copy(to->arena, donors[k].index);
  to->buffer_donor = donors;
  to->n_buffer_donor = from->n_buffer_donor;
  if (from->entry_params) {
    const HlShape **params = HL_ARRAY(to->arena, const HlShape *, from->n_entry_params + 1);
    for (int k = 0; k < from->n_entry_params; k++)
      params[k] = hl_shape_intern(to->shapes, from->entry_params[k]);
    to->entry_params = params;
    to->n_entry_params = from->n_entry_params;
  }
  if (from->entry_result)
    to->entry_result = hl_shape_intern(to->shapes, from->entry_result);
}

static void clone_spmd(HlModule *to, const HlModule *from) {
  to->spmd_to_parameters = hl_i64s_copy(to->arena, from->spmd_to_parameters);
  to->spmd_to_output = hl_i64s_copy(to->arena, from->spmd_to_output);
  if (from->spmd_output_sharding)
    to->spmd_output_sharding = hl_sharding_copy(to, from->spmd_output_sharding);
  int n = from->n_spmd_parameter_shardings;
  const HlSharding **shardings =
      COPY_LIST(to, const HlSharding *, from->spmd_parameter_shardings, n);
  for (int k = 0; k < n; k++)
    if (shardings[k])
      shardings[k] = hl_sharding_copy(to, shardings[k]);
  to->spmd_parameter_shardings = shardings;
  to->n_spmd_parameter_shardings = n;
}

static void clone_fields(HlModule *to, const HlModule *from) {
  to->loc = from->loc;
  to->name = ir_sym_copy(to, from->name);
  to->proto_id = from->proto_id;
  to->dialect = from->dialect;
  to->tuple_elements = from->tuple_elements;
  to->is_scheduled = from->is_scheduled;
  to->alias_passthrough_params = from->alias_passthrough_params;
  to->replica_count = from->replica_count;
  to->num_partitions = from->num_partitions;
  to->is_dynamic = from->is_dynamic;
  to->use_auto_spmd = from->use_auto_spmd;
  to->frontend_attributes = ir_dict_copy(to, from->frontend_attributes);
  to->frames = clone_frames(to, &from->frames);
  clone_debug(to, from);
  clone_interface(to, from);
  clone_spmd(to, from);
}

// The maps of what became what stay in the arena.
static HlModule *clone_module(HlCx *cx, const HlModule *m, HlArena *arena, HlMoved *moved) {
  HlModule *to = hl_module_new("", m->source);
  Clone c = {.arena = arena, .to = to};
  c.comp = HL_ARRAY(arena, HlComp *, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    c.comp[comp->id] = hl_comp_new(to, comp->name->text, comp->name->n);
  c.inst = HL_ARRAY(arena, HlInst **, m->next_comp_id + 1);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    clone_comp(&c, comp);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    clone_calls(&c, comp);
  to->entry = m->entry ? c.comp[m->entry->id] : NULL;
  clone_fields(to, m);
  *moved = (HlMoved){c.comp, (HlInst *const *const *)c.inst};
  if (clone_recovery(cx, to, m))
    return to;
  hl_module_free(to);
  return NULL;
}

HlModule *hl_clone(HlCx *cx, const HlModule *m) {
  HlMoved moved;
  HlArena *arena = hl_cx_scratch(cx);
  HlMark mark = hl_arena_mark(arena);
  HlModule *to = clone_module(cx, m, arena, &moved);
  hl_arena_release(arena, mark);
  return to;
}

// --- Compacting ---------------------------------------------------------------------------------

static void keep_serials(const HlModule *from, const HlMoved *moved, HlModule *to) {
  for (const HlComp *comp = from->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      moved->inst[comp->id][inst->id]->serial = inst->serial;
  to->next_serial = from->next_serial;
}

// The two exchange all they hold; each keeps its address.
static void exchange(HlModule *a, HlModule *b) {
  const ModuleState kept = *ir_module_state(a);
  *ir_module_state(a) = *ir_module_state(b);
  *ir_module_state(b) = kept;
  for (HlComp *comp = a->first; comp; comp = comp->next)
    comp->module = a;
  for (HlComp *comp = b->first; comp; comp = comp->next)
    comp->module = b;
}

bool hl_compact(HlCx *cx, HlModule *m, HlArena *arena, HlMoved *moved) {
  assert(!ir_undo(m) && (!base_in_try() || base_is_new(m)));
  HlMoved own;
  HlArena *scratch = hl_cx_scratch(cx);
  HlMark mark = hl_arena_mark(scratch);
  HlModule *fresh = clone_module(cx, m, moved ? arena : scratch, moved ? moved : &own);
  if (fresh) {
    keep_serials(m, moved ? moved : &own, fresh);
    ir_names_copy(fresh, m);
    ir_module_state(fresh)->keeps_journal = ir_module_state(m)->keeps_journal;
    exchange(m, fresh);
    hl_module_free(fresh);
  }
  hl_arena_release(scratch, mark);
  return fresh != NULL;
}
