// Reads the values inside protos: shapes, shardings, metadata, origins, meshes.
#include <inttypes.h>
#include <string.h>

#include "proto/message.h"

HlI64s proto_ints(ProtoReader *r, size_t n, const int64_t *from) {
  return hl_i64s_copy(r->m->arena, (HlI64s){from, (int)n});
}

HlI64s proto_ints32(ProtoReader *r, size_t n, const int32_t *from) {
  int64_t *out = HL_ARRAY(r->m->arena, int64_t, n);
  for (size_t k = 0; k < n; k++)
    out[k] = from[k];
  return (HlI64s){out, (int)n};
}

static const HlSym *sym(ProtoReader *r, const char *text) {
  return text && text[0] ? hl_sym(r->m, text) : NULL;
}

// --- Shapes --------------------------------------------------------------------------------------

static bool read_extra(ProtoReader *r, const Xla__LayoutProto *from, HlLayoutExtra *out) {
  HlArena *arena = r->m->arena;
  int64_t tail = from->tail_padding_alignment_in_elements;
  *out = (HlLayoutExtra){.tail_padding_alignment = tail == 0 ? 1 : tail,
                         .index_type = hl_dtype_by_proto((int)from->index_primitive_type),
                         .pointer_type = hl_dtype_by_proto((int)from->pointer_primitive_type),
                         .element_bits = from->element_size_in_bits,
                         .memory_space = from->memory_space,
                         .dynamic_metadata_bytes = from->dynamic_shape_metadata_prefix_bytes};
  HlI64s *tiles = HL_ARRAY(arena, HlI64s, from->n_tiles);
  for (size_t k = 0; k < from->n_tiles; k++)
    tiles[k] = proto_ints(r, from->tiles[k]->n_dimensions, from->tiles[k]->dimensions);
  HlSplitConfig *splits = HL_ARRAY(arena, HlSplitConfig, from->n_split_configs);
  for (size_t k = 0; k < from->n_split_configs; k++)
    splits[k] = (HlSplitConfig){from->split_configs[k]->dimension,
                                proto_ints(r, from->split_configs[k]->n_split_indices,
                                           from->split_configs[k]->split_indices)};
  out->tiles = tiles;
  out->n_tiles = (int)from->n_tiles;
  out->splits = splits;
  out->n_splits = (int)from->n_split_configs;
  return out->n_tiles || out->n_splits || out->tail_padding_alignment != 1 || out->index_type ||
         out->pointer_type || out->element_bits || out->memory_space || out->dynamic_metadata_bytes;
}

static const HlShape *read_array(ProtoReader *r, HlPos pos, const ShapeMsg *from, HlDtype dtype) {
  size_t rank = from->n_dimensions;
  bool dynamic = false;
  for (size_t k = 0; k < from->n_is_dynamic_dimension && k < rank; k++)
    dynamic |= from->is_dynamic_dimension[k] != 0;
  for (size_t k = 0; k < rank; k++)
    if (from->dimensions[k] < 0 && !(dynamic && from->dimensions[k] == HL_UNBOUNDED)) {
      hl_error(r->cx, pos, "dimension %zu of a shape is negative: %" PRId64, k,
               from->dimensions[k]);
      return NULL;
    }
  HlMark mark = hl_arena_mark(r->arena);
  bool *flags = NULL;
  if (dynamic) {
    flags = HL_ARRAY(r->arena, bool, rank);
    for (size_t k = 0; k < from->n_is_dynamic_dimension && k < rank; k++)
      flags[k] = from->is_dynamic_dimension[k] != 0;
  }
  HlLayout layout = {0};
  HlLayoutExtra extra;
  if (from->layout) {
    if (from->layout->n_minor_to_major != rank) {
      hl_error(r->cx, pos, "a layout lists %zu dimensions for a shape of rank %zu",
               from->layout->n_minor_to_major, rank);
      return NULL;
    }
    layout.minor_to_major = (HlI64s){from->layout->minor_to_major, (int)rank};
    layout.extra = read_extra(r, from->layout, &extra) ? &extra : NULL;
  }
  const HlShape *out = hl_shape_array_full(r->m->shapes, dtype, (int)rank, from->dimensions, flags,
                                           from->layout ? &layout : NULL);
  hl_arena_release(r->arena, mark);
  return out;
}

static const HlShape *read_shape(ProtoReader *r, HlPos pos, const ShapeMsg *from, int64_t *leaves);

static const HlShape *read_elements(ProtoReader *r, HlPos pos, const ShapeMsg *from, HlDtype dtype,
                                    int64_t *leaves) {
  const HlShape **element = HL_ARRAY(r->m->arena, const HlShape *, from->n_tuple_shapes);
  for (size_t k = 0; k < from->n_tuple_shapes; k++)
    if (!(element[k] = read_shape(r, pos, from->tuple_shapes[k], leaves)))
      return NULL;
  if (dtype == HL_TUPLE)
    return hl_shape_tuple(r->m->shapes, (int)from->n_tuple_shapes, element);
  if (from->n_tuple_shapes == 1)
    return hl_shape_buffer(r->m->shapes, element[0]);
  hl_error(r->cx, pos, "a buffer type wraps one shape, not %zu", from->n_tuple_shapes);
  return NULL;
}

// Recursion is as deep as the message, which wire_check has bounded.
static const HlShape *read_shape(ProtoReader *r, HlPos pos, const ShapeMsg *from, int64_t *leaves) {
  HlDtype dtype = hl_dtype_by_proto((int)from->element_type);
  if (++*leaves > hl_cx_limits(r->cx)->tuple_leaves) {
    hl_error_kind(r->cx, HL_LIMIT, pos,
                  "a shape has more than %" PRId64 " parts (limit tuple_leaves)",
                  hl_cx_limits(r->cx)->tuple_leaves);
    return NULL;
  }
  switch (dtype) {
  case HL_NO_DTYPE:
    hl_error(r->cx, pos, "unknown element type %d", (int)from->element_type);
    return NULL;
  case HL_TUPLE:
  case HL_BUFFER: return read_elements(r, pos, from, dtype, leaves);
  case HL_TOKEN: return hl_shape_token(r->m->shapes);
  case HL_OPAQUE: return hl_shape_opaque(r->m->shapes);
  default: return read_array(r, pos, from, dtype);
  }
}

const HlShape *proto_read_shape(ProtoReader *r, HlPos pos, const ShapeMsg *from) {
  int64_t leaves = 0;
  if (from)
    return read_shape(r, pos, from, &leaves);
  hl_error(r->cx, pos, "a shape is missing");
  return NULL;
}

// --- Metadata and origins ---------------------------------------------------------------------------

const HlMetadata *proto_read_metadata(ProtoReader *r, const MetadataMsg *from) {
  if (!from)
    return NULL;
  HlMetadata md = {.op_type = sym(r, from->op_type),
                   .op_name = sym(r, from->op_name),
                   .source_file = sym(r, from->source_file),
                   .deduplicated_name = sym(r, from->deduplicated_name),
                   .scheduling_name = sym(r, from->scheduling_name),
                   .source_line = from->source_line,
                   .source_end_line = from->source_end_line,
                   .source_column = from->source_column,
                   .source_end_column = from->source_end_column,
                   .stack_frame_id = from->stack_frame_id,
                   .generated_code_bytes = from->size_of_generated_code_in_bytes,
                   .working_set_bytes = from->size_of_memory_working_set_in_bytes};
  md.profile_type = proto_ints32(r, from->n_profile_type, from->profile_type);
  if (from->metadata_payload &&
      from->metadata_payload->has_case == XLA__METADATA_PAYLOAD_REF__HAS_INDEX) {
    int64_t k = from->metadata_payload->index;
    if (k >= 0 && k < r->n_payloads)
      md.payload = hl_syms_add(r->m->syms, r->payloads[k].at, r->payloads[k].n);
  }
  static const HlMetadata none;
  return memcmp(&md, &none, sizeof md) == 0 ? NULL : hl_intern_metadata(r->m, &md);
}

static const HlOrigin *new_origin(ProtoReader *r, HlOriginKind kind) {
  HlOrigin *out = HL_NEW(r->m->arena, HlOrigin);
  out->kind = kind;
  return out;
}

// The tree of elements [from, to), whose indices agree in their first `depth` numbers.
static const HlOrigin *origin_tree(ProtoReader *r, const Xla__OriginalValueProto *v, size_t from,
                                   size_t to, size_t depth) {
  const Xla__OriginalValueElementProto *first = v->elements[from];
  if (first->n_shape_index <= depth || depth > 500) {
    HlOrigin *leaf =
        (HlOrigin *)new_origin(r, first->original_array ? HL_ORIGIN_LEAF : HL_ORIGIN_MISSING);
    if (first->original_array) {
      leaf->name = hl_sym(r->m, first->original_array->instruction_name);
      leaf->index =
          proto_ints(r, first->original_array->n_shape_index, first->original_array->shape_index);
    }
    return leaf;
  }
  int64_t n =
      v->elements[to - 1]->n_shape_index > depth ? v->elements[to - 1]->shape_index[depth] + 1 : 0;
  if (n < 0 || n > (1 << 20))
    return new_origin(r, HL_ORIGIN_MISSING);
  const HlOrigin **element = HL_ARRAY(r->m->arena, const HlOrigin *, n);
  for (size_t k = from; k < to;) {
    size_t end = k;
    int64_t at = v->elements[k]->n_shape_index > depth ? v->elements[k]->shape_index[depth] : -1;
    while (end < to && v->elements[end]->n_shape_index > depth &&
           v->elements[end]->shape_index[depth] == at)
      end++;
    end = end == k ? k + 1 : end;
    if (at >= 0 && at < n)
      element[at] = origin_tree(r, v, k, end, depth + 1);
    k = end;
  }
  for (int64_t k = 0; k < n; k++)
    if (!element[k])
      element[k] = new_origin(r, HL_ORIGIN_MISSING);
  HlOrigin *out = (HlOrigin *)new_origin(r, HL_ORIGIN_TUPLE);
  out->element = element;
  out->n = (int)n;
  return out;
}

const HlOrigin *proto_read_origin(ProtoReader *r, const Xla__OriginalValueProto *from) {
  if (!from)
    return NULL;
  const HlDialect since = hl_news_since(HL_NEWS_CALL_HIERARCHY);
  const bool calls = from->hierarchy_case == XLA__ORIGINAL_VALUE_PROTO__HIERARCHY_CALL_HIERARCHY;
  HlOriginKind empty = from->is_synthetic_call ? HL_ORIGIN_SYNTHETIC_CALL : HL_ORIGIN_TUPLE;
  HlOrigin *out = (HlOrigin *)(from->n_elements ? origin_tree(r, from, 0, from->n_elements, 0)
                                                : new_origin(r, empty));
  if (calls)
    dialect_has(&r->signs, since);
  else if (from->is_synthetic_call)
    dialect_lacks(&r->signs, since);
  if (calls || from->is_synthetic_call)
    out->call = hl_sym(r->m, calls && !from->is_synthetic_call ? from->call_hierarchy : "");
  return out;
}

// --- Shardings ----------------------------------------------------------------------------------------

// The order of a mesh's devices; one that does not list them all, once each, is no order.
static bool read_mesh_iota(ProtoReader *r, const Xla__IotaTransform *from, HlMesh *mesh) {
  int64_t places = 1, listed = 1, seen = 0;
  for (int k = 0; k < mesh->n; k++)
    if (mesh->size[k] <= 0 || __builtin_mul_overflow(places, mesh->size[k], &places) ||
        places > (1 << 26))
      return false;
  mesh->iota.dims = proto_ints(r, from->n_reshape_dims, from->reshape_dims);
  mesh->iota.perm = proto_ints(r, from->n_transpose_perm, from->transpose_perm);
  if (mesh->iota.dims.n > 62 || mesh->iota.perm.n != mesh->iota.dims.n)
    return false;
  for (int k = 0; k < mesh->iota.dims.n; k++) {
    int64_t size = mesh->iota.dims.at[k], to = mesh->iota.perm.at[k];
    if (size <= 0 || __builtin_mul_overflow(listed, size, &listed) || to < 0 ||
        to >= mesh->iota.dims.n)
      return false;
    seen |= INT64_C(1) << to;
  }
  return listed == places && seen == (INT64_C(1) << mesh->iota.dims.n) - 1;
}

const HlMesh *proto_read_mesh(ProtoReader *r, const Xla__MeshProto *from) {
  HlArena *arena = r->m->arena;
  HlMesh *out = HL_NEW(arena, HlMesh);
  out->maximal_device = -1;
  if (!from)
    return out;
  const HlSym **axis = HL_ARRAY(arena, const HlSym *, from->n_axes);
  int64_t *size = HL_ARRAY(arena, int64_t, from->n_axes);
  for (size_t k = 0; k < from->n_axes; k++) {
    axis[k] = hl_sym(r->m, from->axes[k]->name);
    size[k] = from->axes[k]->size;
  }
  out->axis = axis;
  out->size = size;
  out->n = (int)from->n_axes;
  if (from->n_axes == 0 && from->n_device_ids == 1)
    out->maximal_device = from->device_ids[0];
  else
    out->devices = proto_ints(r, from->n_device_ids, from->device_ids);
  if (from->iota_transform && out->devices.n == 0 && !read_mesh_iota(r, from->iota_transform, out))
    return NULL;
  return out;
}

HlAxes proto_read_axes(ProtoReader *r, size_t n, Xla__AxisRefProto *const *from) {
  HlAxisRef *out = HL_ARRAY(r->m->arena, HlAxisRef, n);
  for (size_t k = 0; k < n; k++) {
    out[k].axis = (int)from[k]->mesh_axis_index;
    if (from[k]->sub_axis_info) {
      out[k].pre_size = from[k]->sub_axis_info->pre_size;
      out[k].size = from[k]->sub_axis_info->size;
    }
  }
  return (HlAxes){out, (int)n};
}

static bool axes_fit(HlAxes axes, const HlMesh *mesh) {
  for (int k = 0; k < axes.n; k++)
    if (axes.at[k].axis < 0 || axes.at[k].axis >= mesh->n)
      return false;
  return true;
}

static bool read_named(ProtoReader *r, HlPos pos, const Xla__NamedShardingProto *from,
                       HlSharding *out) {
  HlAxesDim *dims = HL_ARRAY(r->m->arena, HlAxesDim, from->n_dim_shardings);
  out->kind = HL_SHARDING_NAMED;
  out->mesh = proto_read_mesh(r, from->mesh);
  if (!out->mesh)
    return hl_error(r->cx, pos,
                    "the iota of a sharding's mesh does not list the devices of its axes");
  bool fits = true;
  for (size_t k = 0; k < from->n_dim_shardings; k++) {
    dims[k].axes = proto_read_axes(r, from->dim_shardings[k]->n_axes, from->dim_shardings[k]->axes);
    dims[k].open = !from->dim_shardings[k]->is_closed;
    fits = fits && axes_fit(dims[k].axes, out->mesh);
  }
  out->dims = dims;
  out->n_dims = (int)from->n_dim_shardings;
  out->replicated = proto_read_axes(r, from->n_replicated_axes, from->replicated_axes);
  out->unreduced = proto_read_axes(r, from->n_unreduced_axes, from->unreduced_axes);
  out->reduction = (int64_t)from->reduction_op;
  if (out->reduction)
    dialect_has(&r->signs, hl_news_since(HL_NEWS_REDUCTION_OP));
  out->manual = proto_read_axes(r, from->n_manual_axes, from->manual_axes);
  fits = fits && axes_fit(out->replicated, out->mesh) && axes_fit(out->unreduced, out->mesh) &&
         axes_fit(out->manual, out->mesh);
  return fits || hl_error(r->cx, pos, "a sharding names an axis that its mesh does not have");
}

static void read_sharding_metadata(ProtoReader *r, size_t n, MetadataMsg *const *from,
                                   HlSharding *out) {
  const HlMetadata **md = HL_ARRAY(r->m->arena, const HlMetadata *, n);
  static const HlMetadata none;
  for (size_t k = 0; k < n; k++) {
    md[k] = proto_read_metadata(r, from[k]);
    if (!md[k])
      md[k] = hl_intern_metadata(r->m, &none);
  }
  out->metadata = md;
  out->n_metadata = (int)n;
}

static bool tile_fits(const HlSharding *s, int64_t *devices) {
  *devices = 1;
  for (int k = 0; k < s->tile.n; k++)
    if (s->tile.at[k] <= 0 || __builtin_mul_overflow(*devices, s->tile.at[k], devices) ||
        *devices > (1 << 26))
      return false;
  int64_t listed = s->devices.n;
  if (s->iota.dims.n > 0) {
    listed = 1;
    for (int k = 0; k < s->iota.dims.n; k++) {
      if (s->iota.dims.at[k] <= 0 || __builtin_mul_overflow(listed, s->iota.dims.at[k], &listed))
        return false;
      if (s->iota.perm.at[k] < 0 || s->iota.perm.at[k] >= s->iota.dims.n)
        return false;
    }
  }
  return listed == *devices && s->last_tile_dims.n <= s->tile.n;
}

static bool read_tiled(ProtoReader *r, HlPos pos, const ShardingMsg *from, HlSharding *out) {
  out->kind = HL_SHARDING_TILED;
  out->tile = proto_ints(r, from->n_tile_assignment_dimensions, from->tile_assignment_dimensions);
  out->devices = proto_ints(r, from->n_tile_assignment_devices, from->tile_assignment_devices);
  out->iota.dims = proto_ints(r, from->n_iota_reshape_dims, from->iota_reshape_dims);
  out->iota.perm = proto_ints32(r, from->n_iota_transpose_perm, from->iota_transpose_perm);
  if (out->iota.dims.n > 0 && out->iota.perm.n != out->iota.dims.n)
    return hl_error(r->cx, pos, "a sharding's iota has %d dimensions but permutes %d",
                    out->iota.dims.n, out->iota.perm.n);
  out->replicate_last = from->replicate_on_last_tile_dim;
  int64_t *last = HL_ARRAY(r->m->arena, int64_t, from->n_last_tile_dims);
  for (size_t k = 0; k < from->n_last_tile_dims; k++)
    last[k] = (int64_t)from->last_tile_dims[k];
  out->last_tile_dims = (HlI64s){last, (int)from->n_last_tile_dims};
  int64_t devices;
  if (!tile_fits(out, &devices))
    return hl_error(r->cx, pos, "a sharding's tile dimensions do not fit its list of devices");
  if (devices == 1)
    out->kind = HL_SHARDING_REPLICATED;
  return true;
}

// Recursion is as deep as the message, which wire_check has bounded.
const HlSharding *proto_read_sharding(ProtoReader *r, HlPos pos, const ShardingMsg *from) {
  HlSharding *out = HL_NEW(r->m->arena, HlSharding);
  out->kind = (HlShardingKind)from->type;
  if (from->named_sharding) {
    read_sharding_metadata(r, from->named_sharding->n_metadata, from->named_sharding->metadata,
                           out);
    return read_named(r, pos, from->named_sharding, out) ? hl_sharding_canonical(r->m->arena, out)
                                                         : NULL;
  }
  read_sharding_metadata(r, from->n_metadata, from->metadata, out);
  if (from->is_shard_group) {
    out->shard_group = from->shard_group_type == XLA__OP_SHARDING__SHARD_GROUP_TYPE__LIKE ? 2 : 1;
    out->shard_group_id = from->shard_group_id;
  }
  if (from->type == XLA__OP_SHARDING__TYPE__MAXIMAL)
    out->device = from->n_tile_assignment_devices ? from->tile_assignment_devices[0] : 0;
  if (from->type == XLA__OP_SHARDING__TYPE__OTHER && !read_tiled(r, pos, from, out))
    return NULL;
  if (from->type == XLA__OP_SHARDING__TYPE__TUPLE) {
    const HlSharding **element = HL_ARRAY(r->m->arena, const HlSharding *, from->n_tuple_shardings);
    for (size_t k = 0; k < from->n_tuple_shardings; k++)
      if (!(element[k] = proto_read_sharding(r, pos, from->tuple_shardings[k])))
        return NULL;
    out->element = element;
    out->n_elements = (int)from->n_tuple_shardings;
  }
  if ((unsigned)from->type > (unsigned)XLA__OP_SHARDING__TYPE__UNREDUCED) {
    hl_error(r->cx, pos, "unknown type of sharding %d", (int)from->type);
    return NULL;
  }
  const HlSharding *done = hl_sharding_canonical(r->m->arena, out);
  if (hl_sharding_is_unreduced(done)) {
    const HlDialect since = hl_news_since(HL_NEWS_REDUCTION_OP);
    if (done->n_metadata < out->n_metadata)
      dialect_has(&r->signs, since);
    else
      dialect_lacks(&r->signs, since);
  }
  return done;
}

const HlSharding *hl_proto_read_sharding(HlCx *cx, HlModule *m, HlStr bytes) {
  const ProtobufCMessageDescriptor *type = &xla__op_sharding__descriptor;
  HlSource *source = hl_source_new("sharding", bytes.n ? bytes.at : "", bytes.n, true);
  ProtoReader r = {.cx = cx, .source = source, .arena = hl_arena_new(), .m = m};
  bytes = hl_source_bytes(source);
  const ShardingMsg *message = wire_check(cx, source, bytes, type)
                                   ? (ShardingMsg *)wire_unpack(cx, source, r.arena, bytes, type)
                                   : NULL;
  const HlSharding *sharding = message ? proto_read_sharding(&r, (HlPos){source, 0}, message) : NULL;
  hl_arena_free(r.arena);
  hl_source_unref(source);
  return sharding;
}
