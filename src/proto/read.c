// Reads modules from protos.
//
// The two levels that hold the bulk, computations and instructions, are walked on the wire and each
// instruction is unpacked by itself: the memory for messages stays that of one instruction, and
// every error knows the byte at which its instruction starts.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/proto.h"
#include "proto/message.h"

enum { FIELD_COMPUTATIONS = 3, FIELD_INSTRUCTIONS = 2 };

static uint32_t low_id(int64_t id) {
  return (uint32_t)(uint64_t)id;
}

// --- Instructions of one computation ------------------------------------------------------------------

typedef struct InstId {
  uint32_t id;
  HlInst *inst;
} InstId;

typedef struct Body {
  ProtoReader *r;
  HlComp *comp;
  InstId *insts;  // in order of reading; sorted by id once all are read
  int n;
  bool sorted;  // ids so far are ascending
} Body;

static HlInst *find_inst(const Body *b, int64_t id) {
  uint32_t want = low_id(id);
  if (b->sorted) {
    int low = 0, high = b->n;
    while (low < high) {
      int mid = (low + high) / 2;
      if (b->insts[mid].id < want)
        low = mid + 1;
      else
        high = mid;
    }
    return low < b->n && b->insts[low].id == want ? b->insts[low].inst : NULL;
  }
  for (int k = b->n - 1; k >= 0; k--)
    if (b->insts[k].id == want)
      return b->insts[k].inst;
  return NULL;
}

static int by_inst_id(const void *a, const void *b) {
  uint32_t x = ((const InstId *)a)->id, y = ((const InstId *)b)->id;
  return (x > y) - (x < y);
}

static int by_comp_id(const void *a, const void *b) {
  int64_t x = ((const CompId *)a)->id, y = ((const CompId *)b)->id;
  return (x > y) - (x < y);
}

static HlComp *find_comp(const ProtoReader *r, int64_t id) {
  CompId key = {.id = id};
  const CompId *found =
      r->n_comps ? bsearch(&key, r->comps, (size_t)r->n_comps, sizeof key, by_comp_id) : NULL;
  return found ? found->comp : NULL;
}

static bool read_operands(Body *b, HlPos pos, const InstMsg *from, HlInst **out) {
  for (size_t k = 0; k < from->n_operand_ids; k++)
    if (!(out[k] = find_inst(b, from->operand_ids[k])))
      return hl_error(b->r->cx, pos,
                      "operand %zu of '%s' has the id %" PRId64
                      ", which no earlier instruction of the computation has",
                      k, from->name, from->operand_ids[k]);
  return true;
}

static bool read_calls(Body *b, HlInst *inst, const InstMsg *from) {
  size_t n = from->n_called_computation_ids;
  if (n == 0)
    return true;
  if (n > UINT16_MAX)
    return hl_error_kind(b->r->cx, HL_LIMIT, hl_pos(inst),
                         "'%s' calls %zu computations; the limit is %d", from->name, n, UINT16_MAX);
  HlComp **comps = HL_ARRAY(b->r->arena, HlComp *, n);
  for (size_t k = 0; k < n; k++)
    if (!(comps[k] = find_comp(b->r, from->called_computation_ids[k])))
      return hl_error(b->r->cx, hl_pos(inst),
                      "'%s' calls the computation %" PRId64 ", which does not come before it",
                      from->name, from->called_computation_ids[k]);
  hl_set_calls(inst, (int)n, comps);
  for (size_t k = 0; k < n; k++)
    if (inst->op == HL_OP_FUSION)
      hl_comp_set_fusion(comps[k]);
  return true;
}

static HlOp opcode_of(const InstMsg *from) {
  return proto_old_comparison(from->opcode) >= 0 ? HL_OP_COMPARE
                                                 : hl_op_by_text(hl_str(from->opcode));
}

static bool unknown_opcode(ProtoReader *r, HlPos pos, const InstMsg *from) {
  const char *names[HL_OP_COUNT];
  for (int k = 0; k < HL_OP_COUNT; k++)
    names[k] = hl_op_info[k].text;
  const char *near = hl_nearest(hl_str(from->opcode), names, HL_OP_COUNT);
  hl_error_kind(r->cx, HL_INVALID, pos, "'%s' has the unknown opcode '%s'", from->name,
                from->opcode);
  if (near)
    hl_hint(r->cx, "did you mean '%s'?", near);
  return false;
}

static HlInst *build_inst(Body *b, HlPos pos, const InstMsg *from) {
  ProtoReader *r = b->r;
  HlOp op = opcode_of(from);
  if (op == HL_OP_COUNT) {
    unknown_opcode(r, pos, from);
    return NULL;
  }
  HlInst **operands = HL_ARRAY(r->arena, HlInst *, from->n_operand_ids + 1);
  const HlShape *shape = proto_read_shape(r, pos, from->shape);
  if (!shape || !read_operands(b, pos, from, operands))
    return NULL;
  int want = hl_op_info[op].n_operands;
  if (want != HL_ANY && (size_t)want != from->n_operand_ids) {
    hl_error(r->cx, pos, "'%s' of '%s' has %zu operands, expected %d", from->opcode, from->name,
             from->n_operand_ids, want);
    return NULL;
  }
  const HlSym *name = hl_sym(r->m, from->name);
  HlInst *inst = op == HL_OP_PARAMETER
                     ? hl_parameter_new(b->comp, from->parameter_number, shape, name)
                     : hl_inst_new(b->comp, op, shape, name, (int)from->n_operand_ids, operands);
  hl_set_loc(inst, pos.loc);
  return inst;
}

static bool add_controls(Body *b, HlInst *inst, const InstMsg *from) {
  for (size_t k = 0; k < from->n_control_predecessor_ids; k++) {
    HlInst *pred = find_inst(b, from->control_predecessor_ids[k]);
    if (!pred)
      return hl_error(b->r->cx, hl_pos(inst),
                      "the control predecessor %" PRId64 " of '%s' does not come before it",
                      from->control_predecessor_ids[k], from->name);
    hl_add_control(pred, inst);
  }
  return true;
}

static bool read_inst(Body *b, HlStr bytes) {
  ProtoReader *r = b->r;
  HlMark mark = hl_arena_mark(r->arena);
  HlPos pos = wire_pos(r->source, bytes.at);
  if (++r->n_insts > hl_cx_limits(r->cx)->instructions)
    return hl_error_kind(r->cx, HL_LIMIT, pos,
                         "more than %" PRId64 " instructions (limit instructions)",
                         hl_cx_limits(r->cx)->instructions);
  InstMsg *from = (InstMsg *)wire_unpack(r->cx, r->source, r->arena, bytes,
                                         &xla__hlo_instruction_proto__descriptor);
  HlInst *inst = from ? build_inst(b, pos, from) : NULL;
  bool ok = inst && read_calls(b, inst, from) && proto_read_attrs(r, inst, from) &&
            add_controls(b, inst, from);
  if (inst) {
    b->insts[b->n] = (InstId){low_id(from->id), inst};
    b->sorted = b->sorted && (b->n == 0 || b->insts[b->n - 1].id < b->insts[b->n].id);
    b->n++;
  }
  hl_arena_release(r->arena, mark);
  return ok;
}

static bool ids_unique(Body *b) {
  if (!b->sorted)
    qsort(b->insts, (size_t)b->n, sizeof *b->insts, by_inst_id);
  b->sorted = true;
  for (int k = 1; k < b->n; k++)
    if (b->insts[k].id == b->insts[k - 1].id)
      return hl_error(b->r->cx, hl_pos(b->insts[k].inst),
                      "two instructions of a computation have the id %u", b->insts[k].id);
  return true;
}

// --- Computations --------------------------------------------------------------------------------------

static int count_fields(HlStr bytes, uint32_t number) {
  WireField f;
  int n = 0;
  while (wire_next(&bytes, &f))
    n += f.number == number && f.type == WIRE_BYTES;
  return n;
}

// A message without the fields of one number, unpacked.
static ProtobufCMessage *unpack_rest(ProtoReader *r, HlStr bytes, uint32_t without,
                                     const ProtobufCMessageDescriptor *type) {
  HlBuf rest = {0};
  WireField f;
  for (HlStr at = bytes; wire_next(&at, &f);)
    if (f.number != without)
      hl_buf_add(&rest, f.start, (size_t)(at.at - f.start));
  HlStr copy = {rest.n ? hl_arena_copy(r->arena, rest.at, rest.n) : "", rest.n};
  hl_buf_free(&rest);
  return wire_unpack(r->cx, r->source, r->arena, copy, type);
}

static bool read_body(Body *b, HlStr bytes) {
  WireField f;
  bool ok = true;
  for (HlStr at = bytes; wire_next(&at, &f);)
    if (f.number == FIELD_INSTRUCTIONS && f.type == WIRE_BYTES && !read_inst(b, f.bytes)) {
      ok = false;
      if (hl_cx_n_errors(b->r->cx) > 20 || hl_cx_error_kind(b->r->cx) == HL_LIMIT)
        return false;
    }
  return ok && ids_unique(b);
}

static bool finish_comp(Body *b, const CompMsg *head) {
  HlInst *root = find_inst(b, head->root_id);
  if (!root)
    return hl_error(b->r->cx, hl_comp_pos(b->comp),
                    "the root %" PRId64 " of the computation '%s' is not one of its instructions",
                    head->root_id, head->name);
  hl_set_root(b->comp, root);
  HlInst **created = HL_ARRAY(b->r->arena, HlInst *, b->n);
  for (int k = 0; k < b->n; k++)
    created[k] = b->insts[k].inst;  // sorted by id: the order XLA keeps them in
  hl_set_creation_order(b->comp, created);
  return hl_finish_params(b->r->cx, b->comp);
}

// The schedule of a computation, as instructions; dropped when it does not list them all.
static bool read_schedule(ProtoReader *r, Body *b, int64_t id, const ModuleMsg *head) {
  if (!head->schedule)
    return true;
  for (size_t k = 0; k < head->schedule->n_sequences; k++) {
    const Xla__SequenceMapEntry *e = head->schedule->sequences[k];
    if (e->key != id || !e->value)
      continue;
    if (e->value->n_instruction_ids != (size_t)b->n)
      return hl_error(r->cx, hl_comp_pos(b->comp),
                      "the schedule of '%s' lists %zu of its %d instructions", b->comp->name->text,
                      e->value->n_instruction_ids, b->n);
    HlInst **order = HL_ARRAY(r->arena, HlInst *, b->n);
    bool *seen = HL_ARRAY(r->arena, bool, b->comp->next_id);
    for (int i = 0; i < b->n; i++) {
      order[i] = find_inst(b, e->value->instruction_ids[i]);
      if (!order[i] || seen[order[i]->id])
        return hl_error(r->cx, hl_comp_pos(b->comp),
                        "the schedule of '%s' lists the id %" PRId64 " wrongly or twice",
                        b->comp->name->text, e->value->instruction_ids[i]);
      seen[order[i]->id] = true;
    }
    hl_set_schedule(b->comp, order);
  }
  return true;
}

static bool read_comp(ProtoReader *r, HlStr bytes, const ModuleMsg *head, int *n_done) {
  HlMark mark = hl_arena_mark(r->arena);
  CompMsg *from =
      (CompMsg *)unpack_rest(r, bytes, FIELD_INSTRUCTIONS, &xla__hlo_computation_proto__descriptor);
  if (!from)
    return false;
  Body b = {.r = r, .sorted = true, .comp = hl_comp_new(r->m, from->name, strlen(from->name))};
  int n = count_fields(bytes, FIELD_INSTRUCTIONS);
  hl_comp_set_loc(b.comp, wire_pos(r->source, bytes.at).loc);
  if (from->is_fusion_computation)
    hl_comp_set_fusion(b.comp);
  if (from->execution_thread[0] && strcmp(from->execution_thread, "main") != 0)
    hl_comp_set_thread(b.comp, hl_sym(r->m, from->execution_thread));
  b.insts = HL_ARRAY(r->arena, InstId, n + 1);
  bool ok = n > 0 || hl_error(r->cx, hl_comp_pos(b.comp),
                              "the computation '%s' has no instructions", from->name);
  ok = ok && read_body(&b, bytes) && finish_comp(&b, from) && read_schedule(r, &b, from->id, head);
  int at = (*n_done)++;  // keep sorted by id: protos nearly always are
  while (at > 0 && r->comps[at - 1].id > from->id) {
    r->comps[at] = r->comps[at - 1];
    at--;
  }
  r->comps[at] = (CompId){from->id, b.comp};
  if (at > 0 && r->comps[at - 1].id == from->id)
    ok = hl_error(r->cx, hl_comp_pos(b.comp), "two computations have the id %" PRId64, from->id);
  r->n_comps = *n_done;
  hl_arena_release(r->arena, mark);
  return ok;
}

// --- The module ---------------------------------------------------------------------------------------

static const HlSym *const *read_syms(ProtoReader *r, size_t n, char **text) {
  const HlSym **syms = HL_ARRAY(r->m->arena, const HlSym *, n);
  for (size_t k = 0; k < n; k++)
    syms[k] = hl_sym(r->m, text[k]);
  return syms;
}

static void read_frames(ProtoReader *r, const Xla__StackFrameIndexProto *from) {
  if (!from)
    return;
  HlArena *arena = r->m->arena;
  HlFileLocation *locations = HL_ARRAY(arena, HlFileLocation, from->n_file_locations);
  for (size_t k = 0; k < from->n_file_locations; k++) {
    const Xla__FileLocation *l = from->file_locations[k];
    locations[k] = (HlFileLocation){l->file_name_id, l->function_name_id, l->line,
                                    l->column,       l->end_line,         l->end_column};
  }
  HlStackFrame *frames = HL_ARRAY(arena, HlStackFrame, from->n_stack_frames);
  for (size_t k = 0; k < from->n_stack_frames; k++)
    frames[k] = (HlStackFrame){from->stack_frames[k]->file_location_id,
                               from->stack_frames[k]->parent_frame_id};
  const HlFrames all = {.file_names = read_syms(r, from->n_file_names, from->file_names),
                        .function_names =
                            read_syms(r, from->n_function_names, from->function_names),
                        .locations = locations,
                        .frames = frames,
                        .n_file_names = (int)from->n_file_names,
                        .n_function_names = (int)from->n_function_names,
                        .n_locations = (int)from->n_file_locations,
                        .n_frames = (int)from->n_stack_frames};
  hl_set_frames(r->m, &all);
}

static void read_aliases(ProtoReader *r, const ModuleMsg *from) {
  if (from->input_output_alias) {
    size_t n = from->input_output_alias->n_entries;
    HlAlias *at = HL_ARRAY(r->arena, HlAlias, n);
    for (size_t k = 0; k < n; k++) {
      const Xla__AliasEntryProto *e = from->input_output_alias->entries[k];
      at[k] = (HlAlias){
          proto_ints(r, e->n_output_shape_index, e->output_shape_index), e->parameter_number,
          proto_ints(r, e->n_parameter_shape_index, e->parameter_shape_index),
          e->kind == XLA__KIND__MUST_ALIAS ? HL_WORD_alias_kind_MUST : HL_WORD_alias_kind_MAY};
    }
    hl_set_aliases(r->m, (int)n, at);
  }
  if (from->buffer_donor) {
    size_t n = from->buffer_donor->n_entries;
    HlDonor *at = HL_ARRAY(r->arena, HlDonor, n);
    for (size_t k = 0; k < n; k++) {
      const Xla__BufferDonorEntryProto *e = from->buffer_donor->entries[k];
      at[k] = (HlDonor){e->parameter_number,
                        proto_ints(r, e->n_parameter_shape_index, e->parameter_shape_index)};
    }
    hl_set_donors(r->m, (int)n, at);
  }
}

// Where a program shape fits the entry, its layouts are the module's interface.
static bool read_entry_layout(ProtoReader *r, const Xla__ProgramShapeProto *from) {
  if (!from)
    return true;
  const HlShape **params = HL_ARRAY(r->arena, const HlShape *, from->n_parameters + 1);
  HlPos pos = hl_module_pos(r->m);
  for (size_t k = 0; k < from->n_parameters; k++)
    if (!(params[k] = proto_read_shape(r, pos, from->parameters[k])))
      return false;
  for (size_t k = 0; k < from->n_parameters; k++)
    params[k] = hl_shape_with_default_layout(r->m->shapes, params[k]);
  const HlShape *result = proto_read_shape(r, pos, from->result);
  if (!result)
    return false;
  hl_set_entry_layout(r->m, (int)from->n_parameters, params,
                      hl_shape_with_default_layout(r->m->shapes, result));
  return true;
}

static bool read_shardings(ProtoReader *r, const ModuleMsg *from) {
  HlPos pos = hl_module_pos(r->m);
  const HlSharding *result = NULL;
  if (from->spmd_output_sharding &&
      !(result = proto_read_sharding(r, pos, from->spmd_output_sharding)))
    return false;
  size_t n = from->n_spmd_parameters_shardings;
  const HlSharding **at = HL_ARRAY(r->arena, const HlSharding *, n);
  for (size_t k = 0; k < n; k++)
    if (!(at[k] = proto_read_sharding(r, pos, from->spmd_parameters_shardings[k])))
      return false;
  hl_set_spmd_shardings(r->m, (int)n, at, result);
  return true;
}

static void read_module_attrs(ProtoReader *r, const ModuleMsg *from) {
  const Xla__FrontendAttributes *fa = from->frontend_attributes;
  if (fa && fa->n_map > 0) {
    const HlSym **key = HL_ARRAY(r->m->arena, const HlSym *, fa->n_map),
                **value = HL_ARRAY(r->m->arena, const HlSym *, fa->n_map);
    for (size_t k = 0; k < fa->n_map; k++) {
      size_t at = k;
      const HlSym *name = hl_sym(r->m, fa->map[k]->key);
      for (; at > 0 && strcmp(key[at - 1]->text, name->text) > 0; at--) {
        key[at] = key[at - 1];
        value[at] = value[at - 1];
      }
      key[at] = name;
      value[at] = hl_sym(r->m, fa->map[k]->value);
    }
    hl_set_module_attributes(r->m, (HlDict){key, value, (int)fa->n_map});
  }
  r->payloads = HL_ARRAY(r->arena, HlStr, from->n_metadata_payloads + 1);
  for (size_t k = 0; k < from->n_metadata_payloads; k++)
    r->payloads[k] =
        (HlStr){(const char *)from->metadata_payloads[k].data, from->metadata_payloads[k].len};
  r->n_payloads = (int)from->n_metadata_payloads;
  hl_set_proto_id(r->m, from->id);
  hl_set_dynamic(r->m, from->is_dynamic);
  hl_set_auto_spmd(r->m, from->use_auto_spmd_partitioning);
}

static HlModule *read_module_message(HlCx *cx, HlSource *source, HlStr bytes, const char *name);

// A recovery module is a module of its own; it is packed again to be read by the ordinary way.
static bool read_recovery(ProtoReader *r, const Xla__OriginalValueRecoveryTableProto *from) {
  if (!from || from->n_entries == 0)
    return true;
  HlRecovery *at = HL_ARRAY(r->arena, HlRecovery, from->n_entries);
  bool ok = true;
  int n = 0;
  for (; ok && n < (int)from->n_entries; n++) {
    const Xla__OriginalValueRecoveryEntry *e = from->entries[n];
    at[n].old_array = proto_read_array(r, e->old_original_array);
    at[n].new_array = proto_read_array(r, e->new_original_array);
    if (!e->recovery_module)
      continue;
    HlBuf packed = {0};
    wire_put_packed(&packed, &e->recovery_module->base);
    at[n].module =
        read_module_message(r->cx, r->source, (HlStr){packed.at, packed.n}, "recovery module");
    hl_buf_free(&packed);
    ok = at[n].module != NULL;
  }
  hl_set_recovery(r->m, n, at);  // after an error, too: the module owns those before it
  return ok;
}

static bool read_comps(ProtoReader *r, const ModuleMsg *head) {
  int n = count_fields(r->module_bytes, FIELD_COMPUTATIONS), done = 0;
  r->comps = HL_ARRAY(r->arena, CompId, n + 1);
  WireField f;
  bool ok = true;
  for (HlStr at = r->module_bytes; wire_next(&at, &f);)
    if (f.number == FIELD_COMPUTATIONS && f.type == WIRE_BYTES &&
        !read_comp(r, f.bytes, head, &done)) {
      ok = false;
      if (hl_cx_n_errors(r->cx) > 20 || hl_cx_error_kind(r->cx) == HL_LIMIT)
        return false;
    }
  if (ok && done == 0)
    return hl_error(r->cx, hl_module_pos(r->m), "the module has no computations");
  return ok;
}

// The entry; the computations stay in the order of the file, callees first.
static bool find_entry(ProtoReader *r, const ModuleMsg *head) {
  HlComp *entry = NULL;
  for (int k = 0; k < r->n_comps; k++)
    if (r->comps[k].id == head->entry_computation_id)
      entry = r->comps[k].comp;
  if (!entry)
    entry = hl_find_comp(r->m, hl_str(head->entry_computation_name));
  if (!entry)
    return hl_error(r->cx, hl_module_pos(r->m),
                    "the entry computation '%s' (id %" PRId64 ") is not in the module",
                    head->entry_computation_name, head->entry_computation_id);
  hl_comp_set_entry(entry);
  return hl_sort_comps(r->cx, r->m);
}

static bool read_module(ProtoReader *r) {
  ModuleMsg *head = (ModuleMsg *)unpack_rest(r, r->module_bytes, FIELD_COMPUTATIONS,
                                             &xla__hlo_module_proto__descriptor);
  if (!head)
    return false;
  hl_module_set_name(r->m, hl_sym(r->m, head->name));
  read_module_attrs(r, head);
  read_frames(r, head->stack_frame_index);
  read_aliases(r, head);
  if (!read_comps(r, head) || !find_entry(r, head) ||
      !read_entry_layout(r, head->host_program_shape) || !read_shardings(r, head) ||
      !read_recovery(r, head->original_value_recovery_table))
    return false;
  hl_set_scheduled(r->m, head->schedule && head->schedule->n_sequences > 0);
  hl_complete_entry_layout(r->m);
  hl_intern_frames(r->m);
  proto_read_debug(r, head);
  hl_set_dialect(r->m, dialect_told(&r->signs));
  return true;
}

static HlModule *read_module_message(HlCx *cx, HlSource *source, HlStr bytes, const char *name) {
  ProtoReader r = {.cx = cx,
                   .source = source,
                   .arena = hl_arena_new(),
                   .module_bytes = bytes,
                   .m = hl_module_new(name, source)};
  hl_module_set_loc(r.m, wire_pos(source, bytes.at).loc);
  bool ok = read_module(&r);
  hl_arena_free(r.arena);
  if (!ok) {
    hl_module_free(r.m);
    return NULL;
  }
  return r.m;
}

// --- Forms ---------------------------------------------------------------------------------------------

static const ProtobufCMessageDescriptor *const descriptors[] = {
    [HL_PROTO_MODULE] = &xla__hlo_module_proto__descriptor,
    [HL_PROTO_HLO] = &xla__hlo_proto__descriptor,
    [HL_PROTO_SNAPSHOT] = &xla__hlo_snapshot__descriptor,
    [HL_PROTO_UNOPTIMIZED_SNAPSHOT] = &xla__hlo_unoptimized_snapshot__descriptor,
    [HL_PROTO_WITH_CONFIG] = &xla__hlo_module_proto_with_config__descriptor,
};

static HlStr module_part(HlStr bytes, HlProtoForm form) {
  WireField f = {0};
  if (form == HL_PROTO_MODULE)
    return bytes;
  if (!wire_find(bytes, 1, WIRE_BYTES, &f))
    return (HlStr){bytes.at, 0};
  if (form == HL_PROTO_SNAPSHOT && !wire_find(f.bytes, 1, WIRE_BYTES, &f))
    return (HlStr){bytes.at, 0};
  return f.bytes;
}

// Reads the literals of field `number` of a message into out[0 .. max).
static bool read_literals(ProtoReader *r, HlStr bytes, uint32_t number, HlLiteral **out, int max,
                          int *n) {
  WireField f;
  for (HlStr at = bytes; *n < max && wire_next(&at, &f);) {
    if (f.number != number || f.type != WIRE_BYTES)
      continue;
    HlMark mark = hl_arena_mark(r->arena);
    LiteralMsg *msg = (LiteralMsg *)wire_unpack(r->cx, r->source, r->arena, f.bytes,
                                                &xla__literal_proto__descriptor);
    out[*n] = msg ? proto_read_literal(r, wire_pos(r->source, f.bytes.at), msg) : NULL;
    hl_arena_release(r->arena, mark);
    if (!out[(*n)++])
      return false;
  }
  return true;
}

HlLiteral **recorded_add_device(HlCx *cx, HlPos pos, int n, HlRecorded *out) {
  if (out->devices >= hl_cx_limits(cx)->devices) {
    hl_error_kind(cx, HL_LIMIT, pos, "arguments of too many devices");
    return NULL;
  }
  if (out->devices > 0 && n != out->n_arguments) {
    hl_error(cx, pos, "device %d has %d arguments, device 0 has %d", out->devices, n,
             out->n_arguments);
    return NULL;
  }
  out->arguments =
      base_realloc(out->arguments, ((size_t)out->devices + 1) * sizeof *out->arguments);
  HlLiteral **list = base_alloc(((size_t)n + 1) * sizeof *list);
  out->arguments[out->devices++] = list;
  out->n_arguments = n;
  return list;
}

static bool read_argument_set(ProtoReader *r, HlStr bytes, uint32_t number, HlRecorded *out) {
  int n = 0, count = count_fields(bytes, number);
  HlLiteral **list = recorded_add_device(r->cx, wire_pos(r->source, bytes.at), count, out);
  return list && read_literals(r, bytes, number, list, count, &n);
}

static bool read_recorded(ProtoReader *r, HlStr bytes, HlProtoForm form, HlRecorded *out) {
  WireField f;
  int n = 0;
  if (form == HL_PROTO_SNAPSHOT) {
    if (wire_find(bytes, 4, WIRE_BYTES, &f))
      out->platform = base_strndup(f.bytes.at, f.bytes.n);
    return read_argument_set(r, bytes, 2, out) && read_literals(r, bytes, 3, &out->result, 1, &n);
  }
  if (form != HL_PROTO_UNOPTIMIZED_SNAPSHOT)
    return true;
  for (HlStr at = bytes; wire_next(&at, &f);)
    if (f.number == 2 && f.type == WIRE_BYTES && !read_argument_set(r, f.bytes, 1, out))
      return false;
  return true;
}

static void read_config(HlModule *m, const Xla__HloModuleConfigProto *c) {
  hl_set_devices(m, c->replica_count > 0 ? c->replica_count : m->replica_count,
                 c->num_partitions > 0 ? c->num_partitions : m->num_partitions);
  hl_set_passthrough(m, c->alias_passthrough_params);
  int64_t *params = HL_ARRAY(m->arena, int64_t, c->n_allow_spmd_sharding_propagation_to_parameters);
  for (size_t k = 0; k < c->n_allow_spmd_sharding_propagation_to_parameters; k++)
    params[k] = c->allow_spmd_sharding_propagation_to_parameters[k] != 0;
  int64_t *output = HL_ARRAY(m->arena, int64_t, c->n_allow_spmd_sharding_propagation_to_output);
  for (size_t k = 0; k < c->n_allow_spmd_sharding_propagation_to_output; k++)
    output[k] = c->allow_spmd_sharding_propagation_to_output[k] != 0;
  hl_set_spmd_propagation(m,
                          (HlI64s){params, (int)c->n_allow_spmd_sharding_propagation_to_parameters},
                          (HlI64s){output, (int)c->n_allow_spmd_sharding_propagation_to_output});
}

static bool read_beside_module(HlCx *cx, HlSource *source, HlModule *m, HlStr bytes,
                               const HlStr *packed, HlProtoForm form, HlRecorded *recorded) {
  ProtoReader r = {.cx = cx, .source = source, .arena = hl_arena_new(), .m = m};
  bool ok = !recorded || (packed ? packed_read(&r, bytes, *packed, recorded)
                                 : read_recorded(&r, bytes, form, recorded));
  WireField f;
  if (ok && form == HL_PROTO_WITH_CONFIG && wire_find(bytes, 2, WIRE_BYTES, &f)) {
    Xla__HloModuleConfigProto *config = (Xla__HloModuleConfigProto *)wire_unpack(
        cx, source, r.arena, f.bytes, &xla__hlo_module_config_proto__descriptor);
    ok = config != NULL;
    if (ok)
      read_config(m, config);
  }
  hl_arena_free(r.arena);
  return ok;
}

// `packed`: the arguments of a packed snapshot, or NULL.
static HlModule *read_form(HlCx *cx, HlSource *source, HlStr bytes, const HlStr *packed,
                           HlProtoForm form, HlRecorded *recorded) {
  if (!wire_check(cx, source, bytes, descriptors[form]))
    return NULL;
  HlModule *m = read_module_message(cx, source, module_part(bytes, form), "module");
  if (m && !read_beside_module(cx, source, m, bytes, packed, form, recorded)) {
    hl_module_free(m);
    m = NULL;
  }
  if (!m && recorded)
    hl_recorded_free(recorded);
  return m;
}

static HlModule *read_any(HlCx *cx, HlSource *source, HlRecorded *recorded) {
  bool is_text;
  HlStr bytes = hl_source_bytes(source);
  HlProtoForm form = hl_proto_sniff(bytes, &is_text);
  if (form == HL_PROTO_NONE) {
    hl_error(cx, (HlPos){source, 1}, "not a proto of a module");
    return NULL;
  }
  HlStr message, packed;
  if (!is_text && form == HL_PROTO_UNOPTIMIZED_SNAPSHOT && packed_split(bytes, &message, &packed))
    return read_form(cx, source, message, &packed, form, recorded);
  if (!is_text)
    return read_form(cx, source, bytes, NULL, form, recorded);
  HlBuf wire = {0};
  HlModule *m = NULL;
  if (pbtxt_to_wire(cx, source, descriptors[form], &wire))
    m = read_form(cx, source, (HlStr){wire.at ? wire.at : "", wire.n}, NULL, form, recorded);
  hl_buf_free(&wire);
  return m;
}

typedef struct Reading {
  HlSource *source;
  HlRecorded *recorded;
  HlModule *m;
} Reading;

static bool try_reading(HlCx *cx, void *user) {
  Reading *reading = user;
  reading->m = read_any(cx, reading->source, reading->recorded);
  return reading->m;
}

HlModule *hl_proto_read(HlCx *cx, HlSource *source, HlRecorded *recorded) {
  HlRecorded read = {0};
  Reading reading = {source, recorded ? &read : NULL, NULL};
  const bool ok = hl_try(cx, try_reading, &reading);
  if (recorded)
    *recorded = ok ? read : (HlRecorded){0};
  return ok ? reading.m : NULL;
}

void hl_recorded_free(HlRecorded *recorded) {
  for (int d = 0; d < recorded->devices; d++) {
    for (int k = 0; k < recorded->n_arguments; k++)
      hl_literal_unref(recorded->arguments[d][k]);
    base_free(recorded->arguments[d]);
  }
  base_free(recorded->arguments);
  hl_literal_unref(recorded->result);
  base_free(recorded->platform);
  *recorded = (HlRecorded){0};
}
