// sharding_text.c: how shardings, meshes and metadata are spelt (hlo.md 1.5, 1.7).

#include "base/ascii.h"
#include "ir/put.h"

// --- Metadata ------------------------------------------------------------------------------------

static bool filled(const HlSym *sym) {
  return sym && sym->n;
}

static void put_field(HlBuf *out, bool *first, const char *name) {
  if (!*first)
    put_char(out, ' ');
  *first = false;
  put_text(out, name);
  put_char(out, '=');
}

static void put_string_field(HlBuf *out, bool *first, const char *name, const HlSym *sym,
                             bool escape) {
  if (!filled(sym))
    return;
  put_field(out, first, name);
  put_char(out, '"');
  if (escape)
    hl_buf_c_escape(out, sym->text, sym->n);
  else
    put_sym(out, sym);
  put_char(out, '"');
}

static void put_int_field(HlBuf *out, bool *first, const char *name, int64_t value) {
  if (!value)
    return;
  put_field(out, first, name);
  put_i64(out, value);
}

bool put_metadata_wanted(const HlMetadata *m) {
  return filled(m->op_type) || filled(m->op_name) || filled(m->source_file) ||
         filled(m->scheduling_name) || filled(m->payload) || m->stack_frame_id;
}

void put_metadata_fields(HlBuf *out, const HlMetadata *m) {
  bool first = true;
  put_string_field(out, &first, "op_type", m->op_type, true);
  put_string_field(out, &first, "op_name", m->op_name, true);
  put_string_field(out, &first, "source_file", m->source_file, true);
  put_int_field(out, &first, "source_line", m->source_line);
  put_int_field(out, &first, "source_end_line", m->source_end_line);
  put_int_field(out, &first, "source_column", m->source_column);
  put_int_field(out, &first, "source_end_column", m->source_end_column);
  if (m->profile_type.n) {
    put_field(out, &first, "profile_type");
    put_braced(out, m->profile_type);
  }
  put_string_field(out, &first, "deduplicated_name", m->deduplicated_name, true);
  put_string_field(out, &first, "scheduling_name", m->scheduling_name, false);
  put_int_field(out, &first, "stack_frame_id", m->stack_frame_id);
  put_string_field(out, &first, "metadata_payload", m->payload, true);
}

// "{op_name="x"}", or a list of such in braces; the last of them may be how to reduce.
static void put_metadata_list(HlBuf *out, const HlSharding *s, bool always_list,
                              const char *reduction) {
  const int n = s->n_metadata + (reduction != NULL);
  const bool list = n > 1 || always_list;
  PUT(out, "metadata={");
  for (int k = 0; k < n; k++) {
    if (k)
      PUT(out, ", ");
    if (list)
      put_char(out, '{');
    if (k < s->n_metadata) {
      put_metadata_fields(out, s->metadata[k]);
    } else {
      PUT(out, "op_type=\"sdy::reduction_op\" op_name=\"");
      for (const char *c = reduction; *c; c++)
        put_char(out, to_upper(*c));
      put_char(out, '"');
    }
    if (list)
      put_char(out, '}');
  }
  put_char(out, '}');
}

// --- Meshes and their axes -----------------------------------------------------------------------

static void put_axis_name(HlBuf *out, const HlMesh *mesh, int axis) {
  put_char(out, '\'');
  if (axis >= 0 && axis < mesh->n)
    put_sym(out, mesh->axis[axis]);
  put_char(out, '\'');
}

void put_mesh(HlBuf *out, const HlMesh *mesh) {
  if (mesh->maximal_device >= 0) {
    PUT(out, "maximal_mesh[device_id=");
    put_i64(out, mesh->maximal_device);
    put_char(out, ']');
    return;
  }
  PUT(out, "mesh[");
  for (int k = 0; k < mesh->n; k++) {
    if (k)
      put_char(out, ',');
    put_axis_name(out, mesh, k);
    put_char(out, '=');
    put_i64(out, mesh->size[k]);
  }
  put_char(out, ']');
  if (mesh->devices.n) {
    PUT(out, ", device_ids=(");
    put_ints(out, mesh->devices);
    put_char(out, ')');
  } else if (mesh->iota.dims.n) {
    PUT(out, ", device_ids=([");
    put_ints(out, mesh->iota.dims);
    PUT(out, "]T(");
    put_ints(out, mesh->iota.perm);
    PUT(out, "))");
  }
}

// "'a', 'b':(1)2" without braces.
static void put_axis_refs(HlBuf *out, const HlMesh *mesh, HlAxes axes, const char *between) {
  for (int k = 0; k < axes.n; k++) {
    if (k)
      put_text(out, between);
    put_axis_name(out, mesh, axes.at[k].axis);
    if (!axes.at[k].size)
      continue;
    PUT(out, ":(");
    put_i64(out, axes.at[k].pre_size);
    put_char(out, ')');
    put_i64(out, axes.at[k].size);
  }
}

void put_axes(HlBuf *out, const HlMesh *mesh, HlAxes axes, const char *between) {
  put_char(out, '{');
  put_axis_refs(out, mesh, axes, between);
  put_char(out, '}');
}

// --- Shardings -----------------------------------------------------------------------------------

// "max" of what is unreduced; nothing of a sum.
static void put_reduction(HlBuf *out, const HlSharding *s) {
  if (s->reduction != HL_WORD_reduction_op_SUM)
    put_text(out, hl_enum_text(&hl_enums[HL_ENUM_reduction_op], s->reduction));
}

static void put_axes_item(HlBuf *out, const HlMesh *mesh, const char *name, HlAxes axes) {
  if (!axes.n)
    return;
  PUT(out, ", ");
  put_text(out, name);
  put_char(out, '=');
  put_axes(out, mesh, axes, ", ");
}

// Whether axes are all of the mesh, whole and in order.
static bool whole_mesh(const HlMesh *mesh, HlAxes axes) {
  if (!mesh->n || axes.n != mesh->n)
    return false;
  for (int k = 0; k < axes.n; k++)
    if (axes.at[k].axis != k || axes.at[k].size)
      return false;
  return true;
}

static void put_named_body(HlBuf *out, const HlSharding *s) {
  if (!s->n_dims && whole_mesh(s->mesh, s->manual)) {
    PUT(out, ", manual");
    return;
  }
  if (!s->n_dims && whole_mesh(s->mesh, s->unreduced)) {
    PUT(out, ", unreduced");
    if (s->reduction != HL_WORD_reduction_op_SUM)
      put_char(out, '=');
    put_reduction(out, s);
    return;
  }
  if (!s->n_dims && !s->replicated.n && !s->unreduced.n && !s->manual.n) {
    PUT(out, ", replicated");
    return;
  }
  PUT(out, ", [");
  for (int k = 0; k < s->n_dims; k++) {
    if (k)
      PUT(out, ", ");
    put_char(out, '{');
    put_axis_refs(out, s->mesh, s->dims[k].axes, ", ");
    if (s->dims[k].open)
      put_text(out, s->dims[k].axes.n ? ", ?" : "?");
    put_char(out, '}');
  }
  put_char(out, ']');
  put_axes_item(out, s->mesh, "replicated", s->replicated);
  if (s->unreduced.n) {
    PUT(out, ", unreduced=");
    put_reduction(out, s);
    put_axes(out, s->mesh, s->unreduced, ", ");
  }
  put_axes_item(out, s->mesh, "manual", s->manual);
}

static void put_named(HlBuf *out, const HlSharding *s, int with) {
  put_char(out, '{');
  put_mesh(out, s->mesh);
  if (s->mesh->maximal_device < 0)
    put_named_body(out, s);
  if (with & PUT_METADATA && s->n_metadata) {
    PUT(out, ", ");
    put_metadata_list(out, s, true, NULL);
  }
  put_char(out, '}');
}

static const char *type_word(int64_t kind) {
  switch (kind) {
  case HL_SHARDING_REPLICATED: return "replicated";
  case HL_SHARDING_MAXIMAL: return "maximal";
  case HL_SHARDING_MANUAL: return "manual";
  case HL_SHARDING_UNREDUCED: return "unreduced";
  default: return "unknown";
  }
}

static void put_tiled(HlBuf *out, const HlSharding *s) {
  PUT(out, "devices=[");
  put_ints(out, s->tile);
  put_char(out, ']');
  if (s->iota.dims.n) {
    PUT(out, "<=[");
    put_ints(out, s->iota.dims);
    put_char(out, ']');
    if (s->iota.dims.n > 1) {
      PUT(out, "T(");
      put_ints(out, s->iota.perm);
      put_char(out, ')');
    }
  } else {
    put_ints(out, s->devices);
  }
  if (s->replicate_last)
    PUT(out, " last_tile_dim_replicate");
  if (!s->last_tile_dims.n)
    return;
  PUT(out, " last_tile_dims={");
  for (int k = 0; k < s->last_tile_dims.n; k++) {
    if (k)
      PUT(out, ", ");
    put_text(out, type_word(s->last_tile_dims.at[k]));
  }
  put_char(out, '}');
}

// How an unreduced sharding is to be reduced, where that is said.
static const char *reduction_of(const HlSharding *s, int with) {
  const bool says =
      with & PUT_REDUCTION ? hl_sharding_is_unreduced(s) : s->reduction != HL_WORD_reduction_op_SUM;
  return says ? hl_enum_text(&hl_enums[HL_ENUM_reduction_op], s->reduction) : NULL;
}

static void put_single(HlBuf *out, const HlSharding *s, int with) {
  const char *reduction = reduction_of(s, with);
  put_char(out, '{');
  if (s->kind == HL_SHARDING_TILED)
    put_tiled(out, s);
  else
    put_text(out, type_word(s->kind));
  if (s->kind == HL_SHARDING_MAXIMAL) {
    PUT(out, " device=");
    put_i64(out, s->device);
  }
  if (s->shard_group) {
    put_text(out, s->shard_group == 1 ? " shard_as " : " shard_like ");
    put_i64(out, s->shard_group_id);
  }
  if (with & PUT_METADATA && (s->n_metadata || reduction)) {
    put_char(out, ' ');
    put_metadata_list(out, s, false, reduction);
  }
  put_char(out, '}');
}

void put_sharding(HlBuf *out, const HlSharding *s, int with) {
  if (s->kind == HL_SHARDING_NAMED && s->mesh) {
    put_named(out, s, with);
    return;
  }
  if (s->kind != HL_SHARDING_TUPLE) {
    put_single(out, s, with);
    return;
  }
  put_char(out, '{');
  for (int k = 0; k < s->n_elements; k++) {
    if (k)
      put_comma(out, k);
    put_sharding(out, s->element[k], with);
  }
  put_char(out, '}');
}

void hl_sharding_print(HlBuf *out, const HlSharding *sharding, bool with_metadata) {
  put_sharding(out, sharding, with_metadata ? PUT_METADATA | PUT_REDUCTION : 0);
  put_end(out);
}
