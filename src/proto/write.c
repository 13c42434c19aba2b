// Writes modules as protos. Instructions are packed one by one, so the memory for messages stays
// that of one instruction.
#include <stdlib.h>
#include <string.h>

#include "hilo/proto.h"
#include "proto/message.h"

enum { FIELD_COMPUTATIONS = 3, FIELD_INSTRUCTIONS = 2 };

#define MAKE(w, T, name) T *name = HL_NEW((w)->arena, T)

static Xla__ProgramShapeProto *program_shape(ProtoWriter *w, int n, const HlShape *const *params,
                                             const HlShape *result) {
  MAKE(w, Xla__ProgramShapeProto, out);
  xla__program_shape_proto__init(out);
  out->n_parameters = (size_t)n;
  out->parameters = HL_ARRAY(w->arena, ShapeMsg *, n + 1);
  for (int k = 0; k < n; k++)
    out->parameters[k] = proto_shape(w, params[k]);
  out->result = proto_shape(w, result);
  return out;
}

static void add_parameter_names(ProtoWriter *w, const HlComp *comp, Xla__ProgramShapeProto *out) {
  out->n_parameter_names = (size_t)comp->n_params;
  out->parameter_names = HL_ARRAY(w->arena, char *, comp->n_params + 1);
  for (int k = 0; k < comp->n_params; k++)
    out->parameter_names[k] = (char *)comp->params[k]->name->text;
}

static Xla__ProgramShapeProto *shape_of_comp(ProtoWriter *w, const HlComp *comp) {
  const HlShape **params = HL_ARRAY(w->arena, const HlShape *, comp->n_params + 1);
  for (int k = 0; k < comp->n_params; k++)
    params[k] = comp->params[k]->shape;
  Xla__ProgramShapeProto *out = program_shape(w, comp->n_params, params, comp->root->shape);
  add_parameter_names(w, comp, out);
  return out;
}

// The entry's, with the layouts that its callers see.
static Xla__ProgramShapeProto *interface_shape(ProtoWriter *w) {
  const HlModule *m = w->m;
  return m->entry_result ? program_shape(w, m->n_entry_params, m->entry_params, m->entry_result)
                         : shape_of_comp(w, m->entry);
}

static void put_insts(ProtoWriter *w, const HlComp *comp, HlBuf *out) {
  HlMark before = hl_arena_mark(w->arena);
  HlInst **order = hl_post_order(w->arena, comp);
  for (uint32_t k = 0; k < comp->n_insts; k++) {
    int had = w->n_payloads;
    HlMark mark = hl_arena_mark(w->arena);
    wire_put_message(out, FIELD_INSTRUCTIONS, &proto_inst(w, order[k])->base);
    if (w->n_payloads == had)  // a new payload's list lives in the arena
      hl_arena_release(w->arena, mark);
  }
  if (w->n_payloads == 0)
    hl_arena_release(w->arena, before);
}

static void put_comp(ProtoWriter *w, const HlComp *comp, HlBuf *out) {
  CompMsg name = XLA__HLO_COMPUTATION_PROTO__INIT, rest = XLA__HLO_COMPUTATION_PROTO__INIT;
  name.name = (char *)comp->name->text;
  wire_put_packed(out, &name.base);
  put_insts(w, comp, out);
  rest.program_shape = shape_of_comp(w, comp);
  rest.id = w->comp_ids[comp->id];
  rest.root_id = proto_inst_id(w, comp->root);
  rest.is_fusion_computation = comp->is_fusion;
  rest.execution_thread = comp->execution_thread ? (char *)comp->execution_thread->text : "";
  wire_put_packed(out, &rest.base);
}

static void write_schedule(ProtoWriter *w, ModuleMsg *out) {
  MAKE(w, Xla__HloScheduleProto, schedule);
  xla__hlo_schedule_proto__init(schedule);
  schedule->sequences = HL_ARRAY(w->arena, Xla__SequenceMapEntry *, w->m->n_comps + 1);
  for (const HlComp *comp = w->m->first; comp; comp = comp->next) {
    if (!comp->schedule)
      continue;
    MAKE(w, Xla__SequenceMapEntry, entry);
    MAKE(w, Xla__InstructionSequence, sequence);
    xla__sequence_map_entry__init(entry);
    xla__instruction_sequence__init(sequence);
    sequence->n_instruction_ids = comp->n_insts;
    sequence->instruction_ids = HL_ARRAY(w->arena, int64_t, comp->n_insts + 1);
    for (uint32_t k = 0; k < comp->n_insts; k++)
      sequence->instruction_ids[k] = proto_inst_id(w, comp->schedule[k]);
    entry->key = w->comp_ids[comp->id];
    entry->value = sequence;
    schedule->sequences[schedule->n_sequences++] = entry;
  }
  out->schedule = schedule;
}

static void write_aliases(ProtoWriter *w, ModuleMsg *out) {
  const HlModule *m = w->m;
  MAKE(w, Xla__HloInputOutputAliasProto, alias);
  MAKE(w, Xla__HloBufferDonorProto, donor);
  xla__hlo_input_output_alias_proto__init(alias);
  xla__hlo_buffer_donor_proto__init(donor);
  alias->n_entries = (size_t)m->input_output_alias.n;
  alias->entries = HL_ARRAY(w->arena, Xla__AliasEntryProto *, m->input_output_alias.n + 1);
  for (int k = 0; k < m->input_output_alias.n; k++) {
    const HlAlias *a = &m->input_output_alias.at[k];
    MAKE(w, Xla__AliasEntryProto, e);
    xla__alias_entry_proto__init(e);
    e->n_output_shape_index = (size_t)a->output.n;
    e->output_shape_index = proto_ids(w, a->output);
    e->parameter_number = a->number;
    e->n_parameter_shape_index = (size_t)a->index.n;
    e->parameter_shape_index = proto_ids(w, a->index);
    e->kind = a->kind == HL_WORD_alias_kind_MUST ? XLA__KIND__MUST_ALIAS : XLA__KIND__MAY_ALIAS;
    alias->entries[k] = e;
  }
  donor->n_entries = (size_t)m->n_buffer_donor;
  donor->entries = HL_ARRAY(w->arena, Xla__BufferDonorEntryProto *, m->n_buffer_donor + 1);
  for (int k = 0; k < m->n_buffer_donor; k++) {
    MAKE(w, Xla__BufferDonorEntryProto, e);
    xla__buffer_donor_entry_proto__init(e);
    e->parameter_number = m->buffer_donor[k].number;
    e->n_parameter_shape_index = (size_t)m->buffer_donor[k].index.n;
    e->parameter_shape_index = proto_ids(w, m->buffer_donor[k].index);
    donor->entries[k] = e;
  }
  out->input_output_alias = alias;
  out->buffer_donor = donor;
}

static void write_frames(ProtoWriter *w, ModuleMsg *out) {
  const HlFrames *f = &w->m->frames;
  if (f->n_frames == 0 && f->n_file_names == 0)
    return;
  MAKE(w, Xla__StackFrameIndexProto, index);
  xla__stack_frame_index_proto__init(index);
  index->n_file_names = (size_t)f->n_file_names;
  index->file_names = HL_ARRAY(w->arena, char *, f->n_file_names + 1);
  for (int k = 0; k < f->n_file_names; k++)
    index->file_names[k] = (char *)f->file_names[k]->text;
  index->n_function_names = (size_t)f->n_function_names;
  index->function_names = HL_ARRAY(w->arena, char *, f->n_function_names + 1);
  for (int k = 0; k < f->n_function_names; k++)
    index->function_names[k] = (char *)f->function_names[k]->text;
  index->n_file_locations = (size_t)f->n_locations;
  index->file_locations = HL_ARRAY(w->arena, Xla__FileLocation *, f->n_locations + 1);
  for (int k = 0; k < f->n_locations; k++) {
    MAKE(w, Xla__FileLocation, l);
    xla__file_location__init(l);
    l->file_name_id = f->locations[k].file_name_id;
    l->function_name_id = f->locations[k].function_name_id;
    l->line = f->locations[k].line;
    l->column = f->locations[k].column;
    l->end_line = f->locations[k].end_line;
    l->end_column = f->locations[k].end_column;
    index->file_locations[k] = l;
  }
  index->n_stack_frames = (size_t)f->n_frames;
  index->stack_frames = HL_ARRAY(w->arena, Xla__StackFrame *, f->n_frames + 1);
  for (int k = 0; k < f->n_frames; k++) {
    MAKE(w, Xla__StackFrame, s);
    xla__stack_frame__init(s);
    s->file_location_id = f->frames[k].file_location_id;
    s->parent_frame_id = f->frames[k].parent_frame_id;
    index->stack_frames[k] = s;
  }
  out->stack_frame_index = index;
}

// The rows of the recovery table hold whole modules, appended as bytes.
static bool put_recovery(ProtoWriter *w, HlBuf *out) {
  if (w->m->n_recovery == 0)
    return true;
  HlBuf table = {0};
  bool ok = true;
  for (int k = 0; ok && k < w->m->n_recovery; k++) {
    const HlRecovery *row = &w->m->recovery[k];
    Xla__OriginalValueRecoveryEntry entry = XLA__ORIGINAL_VALUE_RECOVERY_ENTRY__INIT;
    entry.old_original_array = proto_array(w, row->old_array);
    entry.new_original_array = proto_array(w, row->new_array);
    HlBuf bytes = {0}, module = {0};
    wire_put_packed(&bytes, &entry.base);
    ok = !row->module || proto_put_module(w->cx, row->module, false, &module);
    if (row->module)
      wire_put_bytes(&bytes, 3, module.at, module.n);
    wire_put_bytes(&table, 1, bytes.at, bytes.n);
    hl_buf_free(&bytes);
    hl_buf_free(&module);
  }
  wire_put_bytes(out, 20, table.at, table.n);
  hl_buf_free(&table);
  return ok;
}

static void write_shardings(ProtoWriter *w, ModuleMsg *out) {
  static const HlSharding whole = {.kind = HL_SHARDING_REPLICATED};
  const HlModule *m = w->m;
  if (m->spmd_output_sharding)
    out->spmd_output_sharding = proto_sharding(w, m->spmd_output_sharding);
  out->n_spmd_parameters_shardings = (size_t)m->n_spmd_parameter_shardings;
  out->spmd_parameters_shardings =
      HL_ARRAY(w->arena, ShardingMsg *, m->n_spmd_parameter_shardings + 1);
  for (int k = 0; k < m->n_spmd_parameter_shardings; k++)
    out->spmd_parameters_shardings[k] =
        proto_sharding(w, m->spmd_parameter_shardings[k] ? m->spmd_parameter_shardings[k] : &whole);
}

static void write_payloads(ProtoWriter *w, ModuleMsg *out) {
  out->n_metadata_payloads = (size_t)w->n_payloads;
  out->metadata_payloads = HL_ARRAY(w->arena, ProtobufCBinaryData, w->n_payloads + 1);
  for (int k = 0; k < w->n_payloads; k++)
    out->metadata_payloads[k] =
        (ProtobufCBinaryData){w->payloads[k]->n, (uint8_t *)(uintptr_t)w->payloads[k]->text};
}

static void write_tail(ProtoWriter *w, ModuleMsg *out) {
  const HlModule *m = w->m;
  out->host_program_shape = interface_shape(w);
  add_parameter_names(w, m->entry, out->host_program_shape);
  out->id = m->proto_id;
  out->entry_computation_id = w->comp_ids[m->entry->id];
  out->is_dynamic = m->is_dynamic;
  out->use_auto_spmd_partitioning = m->use_auto_spmd;
  if (m->is_scheduled)
    write_schedule(w, out);
  write_aliases(w, out);
  write_frames(w, out);
  write_shardings(w, out);
  write_payloads(w, out);
  proto_debug(w, out);
  out->frontend_attributes = proto_dict(w, &m->frontend_attributes);
}

int64_t *hl_proto_comp_ids(HlArena *arena, const HlModule *m) {
  int64_t *ids = HL_ARRAY(arena, int64_t, m->next_comp_id + 1), id = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    ids[comp->id] = id++;
  return ids;
}

static int64_t *inst_bases(const ProtoWriter *w, bool small) {
  int64_t *base = HL_ARRAY(w->arena, int64_t, w->m->next_comp_id + 1), next = 0;
  for (const HlComp *comp = w->m->first; comp; comp = comp->next) {
    base[comp->id] = small ? next : w->comp_ids[comp->id] << 32;
    next += comp->next_id;
  }
  return base;
}

bool proto_put_module(HlCx *cx, const HlModule *m, bool small_ids, HlBuf *out) {
  ProtoWriter w = {.cx = cx, .m = m, .arena = hl_arena_new()};
  w.comp_ids = hl_proto_comp_ids(w.arena, m);
  w.inst_base = inst_bases(&w, small_ids);
  ModuleMsg head = XLA__HLO_MODULE_PROTO__INIT, tail = XLA__HLO_MODULE_PROTO__INIT;
  head.name = (char *)m->name->text;
  head.entry_computation_name = (char *)m->entry->name->text;
  wire_put_packed(out, &head.base);
  HlBuf body = {0};
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    body.n = 0;
    put_comp(&w, comp, &body);
    wire_put_bytes(out, FIELD_COMPUTATIONS, body.at, body.n);
  }
  hl_buf_free(&body);
  write_tail(&w, &tail);
  wire_put_packed(out, &tail.base);
  bool ok = put_recovery(&w, out);
  hl_arena_free(w.arena);
  return ok;
}

bool proto_put_literal(HlCx *cx, const HlLiteral *literal, uint32_t field, HlBuf *out) {
  ProtoWriter w = {.cx = cx, .arena = hl_arena_new()};
  wire_put_message(out, field, &proto_literal(&w, literal, literal->shape)->base);
  hl_arena_free(w.arena);
  return true;
}

void hl_proto_write_sharding(const HlModule *m, const HlSharding *sharding, HlBuf *out) {
  static const HlSharding whole = {.kind = HL_SHARDING_REPLICATED};
  ProtoWriter w = {.m = m, .arena = hl_arena_new()};
  wire_put_packed(out, &proto_sharding(&w, sharding ? sharding : &whole)->base);
  hl_arena_free(w.arena);
}

void hl_proto_write_shape(const HlModule *m, const HlShape *shape, HlBuf *out) {
  ProtoWriter w = {.m = m, .arena = hl_arena_new()};
  wire_put_packed(out, &proto_shape(&w, shape)->base);
  hl_arena_free(w.arena);
}

// --- Forms ---------------------------------------------------------------------------------------------

// XLA calls them p0, p1, ... here.
static void name_by_number(ProtoWriter *w, Xla__ProgramShapeProto *shape) {
  if (!shape)
    return;
  shape->n_parameter_names = shape->n_parameters;
  shape->parameter_names = HL_ARRAY(w->arena, char *, shape->n_parameters + 1);
  for (size_t k = 0; k < shape->n_parameters; k++)
    shape->parameter_names[k] = hl_arena_printf(w->arena, "p%zu", k);
}

static void put_as_text(const ProtobufCMessage *message, HlBuf *out) {
  HlBuf wire = {0};
  wire_put_packed(&wire, message);
  wire_to_pbtxt((HlStr){wire.at, wire.n}, message->descriptor, out);
  hl_buf_free(&wire);
}

static void put_indented(const char *name, HlStr lines, HlBuf *out) {
  hl_buf_printf(out, "%s {\n", name);
  while (lines.n > 0) {
    const char *newline = memchr(lines.at, '\n', lines.n);
    const size_t n = newline ? (size_t)(newline - lines.at) + 1 : lines.n;
    hl_buf_printf(out, "  %.*s", (int)n, lines.at);
    lines = (HlStr){lines.at + n, lines.n - n};
  }
  hl_buf_puts(out, "}\n");
}

typedef Xla__HloModuleConfigProto ConfigMsg;

static void set_interface(ProtoWriter *w, ConfigMsg *config) {
  const HlModule *m = w->m;
  config->replica_count = m->replica_count;
  config->num_partitions = m->num_partitions;
  config->use_spmd_partitioning = m->num_partitions > 1;
  config->entry_computation_layout = interface_shape(w);
}

static void set_permissions(ProtoWriter *w, ConfigMsg *config) {
  const HlModule *m = w->m;
  config->alias_passthrough_params = m->alias_passthrough_params;
  config->n_allow_spmd_sharding_propagation_to_parameters = (size_t)m->spmd_to_parameters.n;
  config->allow_spmd_sharding_propagation_to_parameters = proto_ids32(w, m->spmd_to_parameters);
  config->n_allow_spmd_sharding_propagation_to_output = (size_t)m->spmd_to_output.n;
  config->allow_spmd_sharding_propagation_to_output = proto_ids32(w, m->spmd_to_output);
}

static void put_config(const HlModule *m, HlBuf *out) {
  ConfigMsg config = XLA__HLO_MODULE_CONFIG_PROTO__INIT;
  ProtoWriter w = {.m = m, .arena = hl_arena_new()};
  set_interface(&w, &config);
  set_permissions(&w, &config);
  if (!config.entry_computation_layout)  // without it XLA's reader ends the process
    config.entry_computation_layout = shape_of_comp(&w, m->entry);
  name_by_number(&w, config.entry_computation_layout);
  wire_put_message(out, 2, &config.base);
  hl_arena_free(w.arena);
}

// Fields stand in the order of their numbers, the options between the two parts.
void hl_proto_write_config(const HlModule *m, HlStr debug_options, HlBuf *out) {
  ConfigMsg interface = XLA__HLO_MODULE_CONFIG_PROTO__INIT, permissions = interface;
  ProtoWriter w = {.m = m, .arena = hl_arena_new()};
  set_interface(&w, &interface);
  set_permissions(&w, &permissions);
  name_by_number(&w, interface.entry_computation_layout);
  put_as_text(&interface.base, out);
  put_indented("debug_options", debug_options, out);
  put_as_text(&permissions.base, out);
  hl_arena_free(w.arena);
}

static void put_argument_set(HlCx *cx, const HlRecorded *recorded, int device, uint32_t field,
                             HlBuf *out) {
  for (int k = 0; k < recorded->n_arguments; k++)
    proto_put_literal(cx, recorded->arguments[device][k], field, out);
}

static void put_beside(HlCx *cx, const HlModule *m, HlProtoForm form, const HlRecorded *recorded,
                       HlBuf *out) {
  if (form == HL_PROTO_WITH_CONFIG)
    put_config(m, out);
  if (!recorded)
    return;
  if (form == HL_PROTO_SNAPSHOT) {
    if (recorded->devices > 0)
      put_argument_set(cx, recorded, 0, 2, out);
    if (recorded->result)
      proto_put_literal(cx, recorded->result, 3, out);
    if (recorded->platform)
      wire_put_bytes(out, 4, recorded->platform, strlen(recorded->platform));
  }
  for (int d = 0; form == HL_PROTO_UNOPTIMIZED_SNAPSHOT && d < recorded->devices; d++) {
    HlBuf set = {0};
    put_argument_set(cx, recorded, d, 1, &set);
    wire_put_bytes(out, 2, set.at, set.n);
    hl_buf_free(&set);
  }
}

static bool put_form(HlCx *cx, const HlModule *m, HlProtoForm form, const HlRecorded *recorded,
                     HlBuf *out) {
  if (form == HL_PROTO_MODULE)
    return proto_put_module(cx, m, false, out);
  HlBuf module = {0}, hlo = {0};
  // What is asked for with its config goes to a client, which may be old: until 2025 an id was an int.
  bool ok = proto_put_module(cx, m, form == HL_PROTO_WITH_CONFIG, &module);
  if (form == HL_PROTO_SNAPSHOT) {
    wire_put_bytes(&hlo, 1, module.at, module.n);
    wire_put_bytes(out, 1, hlo.at, hlo.n);
  } else {
    wire_put_bytes(out, 1, module.at, module.n);
  }
  put_beside(cx, m, form, recorded, out);
  hl_buf_free(&module);
  hl_buf_free(&hlo);
  return ok;
}

static const ProtobufCMessageDescriptor *descriptor_of(HlProtoForm form) {
  switch (form) {
  case HL_PROTO_MODULE: return &xla__hlo_module_proto__descriptor;
  case HL_PROTO_SNAPSHOT: return &xla__hlo_snapshot__descriptor;
  case HL_PROTO_UNOPTIMIZED_SNAPSHOT: return &xla__hlo_unoptimized_snapshot__descriptor;
  case HL_PROTO_WITH_CONFIG: return &xla__hlo_module_proto_with_config__descriptor;
  default: return &xla__hlo_proto__descriptor;
  }
}

bool hl_proto_write(HlCx *cx, const HlModule *m, HlProtoForm form, bool as_text,
                    const HlRecorded *recorded, HlBuf *out) {
  if (!as_text)
    return put_form(cx, m, form, recorded, out);
  HlBuf wire = {0};
  bool ok = put_form(cx, m, form, recorded, &wire);
  if (ok)
    wire_to_pbtxt((HlStr){wire.at, wire.n}, descriptor_of(form), out);
  hl_buf_free(&wire);
  return ok;
}

bool hl_proto_write_json(HlCx *cx, const HlModule *m, HlBuf *out) {
  HlBuf wire = {0};
  bool ok = put_form(cx, m, HL_PROTO_HLO, NULL, &wire);
  if (ok)
    wire_to_json((HlStr){wire.at, wire.n}, &xla__hlo_proto__descriptor, out);
  hl_buf_free(&wire);
  return ok;
}
#undef MAKE
