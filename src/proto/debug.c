// proto/debug.c: arrays of the original program, and what is to be logged of them, both ways.
#include "proto/message.h"

// --- Reading --------------------------------------------------------------------------------------

const HlOrigin *proto_read_array(ProtoReader *r, const Xla__OriginalArrayProto *from) {
  HlOrigin *out = HL_NEW(r->m->arena, HlOrigin);
  out->kind = from ? HL_ORIGIN_LEAF : HL_ORIGIN_MISSING;
  if (from) {
    out->name = hl_sym(r->m, from->instruction_name);
    out->index = proto_ints(r, from->n_shape_index, from->shape_index);
  }
  return out;
}

static const HlSym *sym_or_null(ProtoReader *r, const char *text) {
  return text[0] ? hl_sym(r->m, text) : NULL;
}

static HlDebugAttrs read_attrs(ProtoReader *r, const Xla__DebugAttributesProto *from) {
  HlDebugAttrs at = {.log_mode = (int64_t)from->log_mode,
                     .callback_id = from->callback_id,
                     .op_id = from->op_id,
                     .partitioned = from->partitioned,
                     .operands_sharding = sym_or_null(r, from->operands_sharding)};
  if (from->x64_config) {
    at.x64_fragment = hl_sym(r->m, from->x64_config->xprecision_64bit_fragment);
    at.x64_instruction = sym_or_null(r, from->x64_config->original_log_instruction_name);
    at.x64_type = sym_or_null(r, from->x64_config->xprecision_64bit_original_type);
  }
  return at;
}

void proto_read_debug(ProtoReader *r, const ModuleMsg *from) {
  const size_t n = from->n_debug_attributes;
  if (n == 0)
    return;
  dialect_has(&r->signs, hl_news_since(HL_NEWS_DEBUG_ATTRIBUTES));
  HlDebugRow *rows = HL_ARRAY(r->arena, HlDebugRow, n);
  for (size_t k = 0; k < n; k++) {
    const Xla__DebugAttributeTableEntryProto *row = from->debug_attributes[k];
    HlDebugAttrs *at = HL_ARRAY(r->m->arena, HlDebugAttrs, row->n_debug_attributes);
    for (size_t i = 0; i < row->n_debug_attributes; i++)
      at[i] = read_attrs(r, row->debug_attributes[i]);
    rows[k] =
        (HlDebugRow){proto_read_array(r, row->original_array), at, (int)row->n_debug_attributes};
  }
  hl_set_debug(r->m, (int)n, rows);
}

// --- Writing --------------------------------------------------------------------------------------

Xla__OriginalArrayProto *proto_array(ProtoWriter *w, const HlOrigin *leaf) {
  if (!leaf || leaf->kind != HL_ORIGIN_LEAF)
    return NULL;
  Xla__OriginalArrayProto *out = HL_NEW(w->arena, Xla__OriginalArrayProto);
  xla__original_array_proto__init(out);
  out->instruction_name = (char *)leaf->name->text;
  out->n_shape_index = (size_t)leaf->index.n;
  out->shape_index = proto_ids(w, leaf->index);
  return out;
}

static void put_sym(char **field, const HlSym *sym) {
  if (sym)
    *field = (char *)sym->text;
}

static Xla__DebugAttributesProto *write_attrs(ProtoWriter *w, const HlDebugAttrs *at) {
  Xla__DebugAttributesProto *out = HL_NEW(w->arena, Xla__DebugAttributesProto);
  xla__debug_attributes_proto__init(out);
  out->log_mode = (Xla__DebugAttributesProto__LogMode)at->log_mode;
  out->callback_id = at->callback_id;
  out->op_id = at->op_id;
  out->partitioned = at->partitioned;
  put_sym(&out->operands_sharding, at->operands_sharding);
  if (!at->x64_fragment)
    return out;
  out->x64_config = HL_NEW(w->arena, Xla__X64ConfigProto);
  xla__x64_config_proto__init(out->x64_config);
  put_sym(&out->x64_config->xprecision_64bit_fragment, at->x64_fragment);
  put_sym(&out->x64_config->original_log_instruction_name, at->x64_instruction);
  put_sym(&out->x64_config->xprecision_64bit_original_type, at->x64_type);
  return out;
}

void proto_debug(ProtoWriter *w, ModuleMsg *out) {
  const HlModule *m = w->m;
  out->n_debug_attributes = (size_t)m->n_debug;
  out->debug_attributes = HL_ARRAY(w->arena, Xla__DebugAttributeTableEntryProto *, m->n_debug + 1);
  for (int k = 0; k < m->n_debug; k++) {
    const HlDebugRow *row = &m->debug[k];
    Xla__DebugAttributeTableEntryProto *to = HL_NEW(w->arena, Xla__DebugAttributeTableEntryProto);
    xla__debug_attribute_table_entry_proto__init(to);
    to->original_array = proto_array(w, row->array);
    to->n_debug_attributes = (size_t)row->n;
    to->debug_attributes = HL_ARRAY(w->arena, Xla__DebugAttributesProto *, row->n + 1);
    for (int i = 0; i < row->n; i++)
      to->debug_attributes[i] = write_attrs(w, &row->at[i]);
    out->debug_attributes[k] = to;
  }
}
