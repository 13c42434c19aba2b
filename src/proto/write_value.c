// Writes the values inside protos: shapes, shardings, metadata, origins, meshes.
#include <string.h>

#include "proto/message.h"

static char *text_of(const HlSym *sym) {
  return sym ? (char *)sym->text : "";
}

int64_t *proto_ids(ProtoWriter *w, HlI64s ints) {
  return (int64_t *)hl_i64s_copy(w->arena, ints).at;
}

int32_t *proto_ids32(ProtoWriter *w, HlI64s ints) {
  int32_t *out = HL_ARRAY(w->arena, int32_t, ints.n + 1);
  for (int k = 0; k < ints.n; k++)
    out[k] = (int32_t)ints.at[k];
  return out;
}

static void write_extra(ProtoWriter *w, const HlLayoutExtra *extra, Xla__LayoutProto *out) {
  out->tail_padding_alignment_in_elements = extra->tail_padding_alignment;
  out->index_primitive_type = (Xla__PrimitiveType)hl_dtype_info[extra->index_type].proto;
  out->pointer_primitive_type = (Xla__PrimitiveType)hl_dtype_info[extra->pointer_type].proto;
  out->element_size_in_bits = extra->element_bits;
  out->memory_space = extra->memory_space;
  out->dynamic_shape_metadata_prefix_bytes = extra->dynamic_metadata_bytes;
  out->n_tiles = (size_t)extra->n_tiles;
  out->tiles = HL_ARRAY(w->arena, Xla__TileProto *, extra->n_tiles + 1);
  for (int k = 0; k < extra->n_tiles; k++) {
    out->tiles[k] = HL_NEW(w->arena, Xla__TileProto);
    xla__tile_proto__init(out->tiles[k]);
    out->tiles[k]->n_dimensions = (size_t)extra->tiles[k].n;
    out->tiles[k]->dimensions = proto_ids(w, extra->tiles[k]);
  }
  out->n_split_configs = (size_t)extra->n_splits;
  out->split_configs = HL_ARRAY(w->arena, Xla__SplitConfigProto *, extra->n_splits + 1);
  for (int k = 0; k < extra->n_splits; k++) {
    out->split_configs[k] = HL_NEW(w->arena, Xla__SplitConfigProto);
    xla__split_config_proto__init(out->split_configs[k]);
    out->split_configs[k]->dimension = extra->splits[k].dimension;
    out->split_configs[k]->n_split_indices = (size_t)extra->splits[k].split_indices.n;
    out->split_configs[k]->split_indices = proto_ids(w, extra->splits[k].split_indices);
  }
}

static void write_array(ProtoWriter *w, const HlShape *shape, ShapeMsg *out) {
  out->n_dimensions = (size_t)shape->rank;
  out->dimensions = proto_ids(w, (HlI64s){shape->dim, shape->rank});
  out->n_is_dynamic_dimension = (size_t)shape->rank;
  out->is_dynamic_dimension = HL_ARRAY(w->arena, protobuf_c_boolean, shape->rank + 1);
  for (int k = 0; shape->dynamic && k < shape->rank; k++)
    out->is_dynamic_dimension[k] = shape->dynamic[k];
  if (!shape->layout)
    return;
  out->layout = HL_NEW(w->arena, Xla__LayoutProto);
  xla__layout_proto__init(out->layout);
  out->layout->n_minor_to_major = (size_t)shape->layout->minor_to_major.n;
  out->layout->minor_to_major = proto_ids(w, shape->layout->minor_to_major);
  out->layout->tail_padding_alignment_in_elements = 1;
  if (shape->layout->extra)
    write_extra(w, shape->layout->extra, out->layout);
}

ShapeMsg *proto_shape(ProtoWriter *w, const HlShape *shape) {
  ShapeMsg *out = HL_NEW(w->arena, ShapeMsg);
  xla__shape_proto__init(out);
  out->element_type = (Xla__PrimitiveType)hl_dtype_info[shape->dtype].proto;
  if (hl_is_array_dtype(shape->dtype)) {
    write_array(w, shape, out);
    return out;
  }
  if (shape->dtype != HL_TUPLE && shape->dtype != HL_BUFFER)
    return out;
  out->n_tuple_shapes = (size_t)shape->rank;
  out->tuple_shapes = HL_ARRAY(w->arena, ShapeMsg *, shape->rank + 1);
  for (int k = 0; k < shape->rank; k++)
    out->tuple_shapes[k] = proto_shape(w, shape->element[k]);
  return out;
}

static int64_t payload_number(ProtoWriter *w, const HlSym *payload) {
  for (int k = 0; k < w->n_payloads; k++)
    if (w->payloads[k] == payload)
      return k;
  const HlSym **grown = HL_ARRAY(w->arena, const HlSym *, w->n_payloads + 1);
  for (int k = 0; k < w->n_payloads; k++)
    grown[k] = w->payloads[k];
  grown[w->n_payloads] = payload;
  w->payloads = grown;
  return w->n_payloads++;
}

MetadataMsg *proto_metadata(ProtoWriter *w, const HlMetadata *md) {
  MetadataMsg *out = HL_NEW(w->arena, MetadataMsg);
  xla__op_metadata__init(out);
  if (!md)
    return out;
  out->op_type = text_of(md->op_type);
  out->op_name = text_of(md->op_name);
  out->source_file = text_of(md->source_file);
  out->source_line = md->source_line;
  out->n_profile_type = (size_t)md->profile_type.n;
  out->profile_type = proto_ids32(w, md->profile_type);
  out->size_of_generated_code_in_bytes = md->generated_code_bytes;
  out->size_of_memory_working_set_in_bytes = md->working_set_bytes;
  out->deduplicated_name = text_of(md->deduplicated_name);
  out->stack_frame_id = md->stack_frame_id;
  out->scheduling_name = text_of(md->scheduling_name);
  out->source_end_line = md->source_end_line;
  out->source_column = md->source_column;
  out->source_end_column = md->source_end_column;
  if (md->payload) {
    out->metadata_payload = HL_NEW(w->arena, Xla__MetadataPayloadRef);
    xla__metadata_payload_ref__init(out->metadata_payload);
    out->metadata_payload->has_case = XLA__METADATA_PAYLOAD_REF__HAS_INDEX;
    out->metadata_payload->index = payload_number(w, md->payload);
  }
  return out;
}

Xla__FrontendAttributes *proto_dict(ProtoWriter *w, const HlDict *dict) {
  Xla__FrontendAttributes *out = HL_NEW(w->arena, Xla__FrontendAttributes);
  xla__frontend_attributes__init(out);
  if (!dict)
    return out;
  out->n_map = (size_t)dict->n;
  out->map = HL_ARRAY(w->arena, Xla__TextMapEntry *, dict->n + 1);
  for (int k = 0; k < dict->n; k++) {
    out->map[k] = HL_NEW(w->arena, Xla__TextMapEntry);
    xla__text_map_entry__init(out->map[k]);
    out->map[k]->key = text_of(dict->key[k]);
    out->map[k]->value = text_of(dict->value[k]);
  }
  return out;
}

// --- Origins ------------------------------------------------------------------------------------------

static int count_leaves(const HlOrigin *o) {
  if (o->kind != HL_ORIGIN_TUPLE)
    return 1;
  int n = 0;
  for (int k = 0; k < o->n; k++)
    n += count_leaves(o->element[k]);
  return n;
}

enum { MAX_ORIGIN_DEPTH = 1000 };

static void add_leaves(ProtoWriter *w, const HlOrigin *o, int64_t *path, int depth,
                       Xla__OriginalValueProto *out) {
  if (o->kind == HL_ORIGIN_TUPLE) {
    for (int k = 0; k < o->n && depth < MAX_ORIGIN_DEPTH; k++) {
      path[depth] = k;
      add_leaves(w, o->element[k], path, depth + 1, out);
    }
    return;
  }
  Xla__OriginalValueElementProto *e = HL_NEW(w->arena, Xla__OriginalValueElementProto);
  xla__original_value_element_proto__init(e);
  e->n_shape_index = (size_t)depth;
  e->shape_index = proto_ids(w, (HlI64s){path, depth});
  e->original_array = proto_array(w, o);
  out->elements[out->n_elements++] = e;
}

Xla__OriginalValueProto *proto_origin(ProtoWriter *w, const HlOrigin *origin) {
  if (!origin)
    return NULL;
  Xla__OriginalValueProto *out = HL_NEW(w->arena, Xla__OriginalValueProto);
  xla__original_value_proto__init(out);
  out->is_synthetic_call = origin->call && origin->call->n == 0;
  if (origin->call && hl_writes(w->m->dialect, HL_NEWS_CALL_HIERARCHY)) {
    out->hierarchy_case = XLA__ORIGINAL_VALUE_PROTO__HIERARCHY_CALL_HIERARCHY;
    out->call_hierarchy = text_of(origin->call);
  }
  if (origin->kind == HL_ORIGIN_SYNTHETIC_CALL)
    return out;
  int64_t path[MAX_ORIGIN_DEPTH + 1];
  out->elements = HL_ARRAY(w->arena, Xla__OriginalValueElementProto *, count_leaves(origin) + 1);
  add_leaves(w, origin, path, 0, out);
  return out;
}

// --- Shardings ----------------------------------------------------------------------------------------

Xla__MeshProto *proto_mesh(ProtoWriter *w, const HlMesh *mesh) {
  Xla__MeshProto *out = HL_NEW(w->arena, Xla__MeshProto);
  xla__mesh_proto__init(out);
  HlI64s devices = mesh->devices;
  if (mesh->maximal_device >= 0)
    devices = (HlI64s){&mesh->maximal_device, 1};
  if (mesh->iota.dims.n > 0) {
    out->iota_transform = HL_NEW(w->arena, Xla__IotaTransform);
    xla__iota_transform__init(out->iota_transform);
    out->iota_transform->n_reshape_dims = (size_t)mesh->iota.dims.n;
    out->iota_transform->reshape_dims = proto_ids(w, mesh->iota.dims);
    out->iota_transform->n_transpose_perm = (size_t)mesh->iota.perm.n;
    out->iota_transform->transpose_perm = proto_ids(w, mesh->iota.perm);
  }
  out->n_device_ids = (size_t)devices.n;
  out->device_ids = proto_ids(w, devices);
  out->n_axes = (size_t)mesh->n;
  out->axes = HL_ARRAY(w->arena, Xla__MeshAxis *, mesh->n + 1);
  for (int k = 0; k < mesh->n; k++) {
    out->axes[k] = HL_NEW(w->arena, Xla__MeshAxis);
    xla__mesh_axis__init(out->axes[k]);
    out->axes[k]->name = text_of(mesh->axis[k]);
    out->axes[k]->size = mesh->size[k];
  }
  return out;
}

Xla__AxisRefProto **proto_axes(ProtoWriter *w, HlAxes axes) {
  Xla__AxisRefProto **out = HL_ARRAY(w->arena, Xla__AxisRefProto *, axes.n + 1);
  for (int k = 0; k < axes.n; k++) {
    out[k] = HL_NEW(w->arena, Xla__AxisRefProto);
    xla__axis_ref_proto__init(out[k]);
    out[k]->mesh_axis_index = axes.at[k].axis;
    if (axes.at[k].size == 0)
      continue;
    out[k]->sub_axis_info = HL_NEW(w->arena, Xla__SubAxisInfo);
    xla__sub_axis_info__init(out[k]->sub_axis_info);
    out[k]->sub_axis_info->pre_size = axes.at[k].pre_size;
    out[k]->sub_axis_info->size = axes.at[k].size;
  }
  return out;
}

static MetadataMsg **metadata_list(ProtoWriter *w, const HlSharding *s) {
  MetadataMsg **out = HL_ARRAY(w->arena, MetadataMsg *, s->n_metadata + 1);
  for (int k = 0; k < s->n_metadata; k++)
    out[k] = proto_metadata(w, s->metadata[k]);
  return out;
}

// How to reduce an unreduced sharding that is not named stands last among its metadata.
static void write_reduction(ProtoWriter *w, const HlSharding *s, ShardingMsg *out) {
  static const char *const words[] = {"SUM", "MAX", "MIN"};
  const bool sum = s->reduction == HL_WORD_reduction_op_SUM;
  if (sum && !(hl_writes(w->m->dialect, HL_NEWS_REDUCTION_OP) && hl_sharding_is_unreduced(s)))
    return;
  MetadataMsg *last = proto_metadata(w, NULL);
  last->op_type = (char *)"sdy::reduction_op";
  last->op_name = (char *)words[s->reduction];
  out->metadata[out->n_metadata++] = last;
}

static Xla__NamedShardingProto *named(ProtoWriter *w, const HlSharding *s) {
  Xla__NamedShardingProto *out = HL_NEW(w->arena, Xla__NamedShardingProto);
  xla__named_sharding_proto__init(out);
  out->mesh = proto_mesh(w, s->mesh);
  out->n_dim_shardings = (size_t)s->n_dims;
  out->dim_shardings = HL_ARRAY(w->arena, Xla__DimensionSharding *, s->n_dims + 1);
  for (int k = 0; k < s->n_dims; k++) {
    out->dim_shardings[k] = HL_NEW(w->arena, Xla__DimensionSharding);
    xla__dimension_sharding__init(out->dim_shardings[k]);
    out->dim_shardings[k]->n_axes = (size_t)s->dims[k].axes.n;
    out->dim_shardings[k]->axes = proto_axes(w, s->dims[k].axes);
    out->dim_shardings[k]->is_closed = !s->dims[k].open;
  }
  out->n_replicated_axes = (size_t)s->replicated.n;
  out->replicated_axes = proto_axes(w, s->replicated);
  out->reduction_op = (Xla__NamedShardingProto__ReductionOp)s->reduction;
  out->n_unreduced_axes = (size_t)s->unreduced.n;
  out->unreduced_axes = proto_axes(w, s->unreduced);
  out->n_manual_axes = (size_t)s->manual.n;
  out->manual_axes = proto_axes(w, s->manual);
  out->n_metadata = (size_t)s->n_metadata;
  out->metadata = metadata_list(w, s);
  return out;
}

static void write_tiled(ProtoWriter *w, const HlSharding *s, ShardingMsg *out) {
  out->n_tile_assignment_dimensions = (size_t)s->tile.n;
  out->tile_assignment_dimensions = proto_ids(w, s->tile);
  out->n_tile_assignment_devices = (size_t)s->devices.n;
  out->tile_assignment_devices = proto_ids(w, s->devices);
  out->n_iota_reshape_dims = (size_t)s->iota.dims.n;
  out->iota_reshape_dims = proto_ids(w, s->iota.dims);
  out->n_iota_transpose_perm = (size_t)s->iota.perm.n;
  out->iota_transpose_perm = proto_ids32(w, s->iota.perm);
  out->replicate_on_last_tile_dim = s->replicate_last;
  out->n_last_tile_dims = (size_t)s->last_tile_dims.n;
  out->last_tile_dims = HL_ARRAY(w->arena, Xla__OpSharding__Type, s->last_tile_dims.n + 1);
  for (int k = 0; k < s->last_tile_dims.n; k++)
    out->last_tile_dims[k] = (Xla__OpSharding__Type)s->last_tile_dims.at[k];
}

ShardingMsg *proto_sharding(ProtoWriter *w, const HlSharding *s) {
  ShardingMsg *out = HL_NEW(w->arena, ShardingMsg);
  xla__op_sharding__init(out);
  if (s->kind == HL_SHARDING_NAMED) {
    out->named_sharding = named(w, s);
    return out;
  }
  out->type = (Xla__OpSharding__Type)s->kind;
  out->n_metadata = (size_t)s->n_metadata;
  out->metadata = metadata_list(w, s);
  write_reduction(w, s, out);
  if (s->kind == HL_SHARDING_MAXIMAL) {
    out->n_tile_assignment_dimensions = out->n_tile_assignment_devices = 1;
    static const int64_t one = 1;
    out->tile_assignment_dimensions = proto_ids(w, (HlI64s){&one, 1});
    out->tile_assignment_devices = proto_ids(w, (HlI64s){&s->device, 1});
  }
  if (s->kind == HL_SHARDING_TILED)
    write_tiled(w, s, out);
  out->is_shard_group = s->shard_group != 0;
  out->shard_group_id = s->shard_group ? s->shard_group_id : 0;
  out->shard_group_type = s->shard_group == 2 ? XLA__OP_SHARDING__SHARD_GROUP_TYPE__LIKE
                                              : XLA__OP_SHARDING__SHARD_GROUP_TYPE__AS;
  out->n_tuple_shardings = (size_t)s->n_elements;
  out->tuple_shardings = HL_ARRAY(w->arena, ShardingMsg *, s->n_elements + 1);
  for (int k = 0; k < s->n_elements; k++)
    out->tuple_shardings[k] = proto_sharding(w, s->element[k]);
  return out;
}
