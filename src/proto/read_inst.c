// Reads the attributes of an instruction from its message.
//
// Attributes that are one plain field of the message come from the table attrs.def; the others have
// a few lines each below. Whether an attribute belongs to an op says ops.def: what the message holds
// beyond that is left alone.
#include <inttypes.h>
#include <string.h>

#include "ir/backend_config.h"
#include "proto/message.h"
#include "proto/plain.h"

enum { MAX_ATTRS = 64 };

typedef struct Attrs {
  ProtoReader *r;
  HlInst *inst;
  const InstMsg *from;
  HlPos pos;
  HlAttr at[MAX_ATTRS];
  int n;
  bool ok;
} Attrs;

static void put(Attrs *a, HlAttr attr) {
  if (a->n < MAX_ATTRS)
    a->at[a->n++] = attr;
}

static void put_int(Attrs *a, HlAttrKey key, int64_t value) {
  put(a, (HlAttr){.key = key, .i = value});
}

static void put_ints(Attrs *a, HlAttrKey key, size_t n, const int64_t *values) {
  if (n > 0 || key == HL_A_DIMENSIONS || hl_attr_info[key].kind == HL_KIND_OF_INTS)
    put(a, (HlAttr){.key = key, .ints = proto_ints(a->r, n, values)});
}

static void put_text(Attrs *a, HlAttrKey key, const char *text, size_t n) {
  if (n > 0)
    put(a, (HlAttr){.key = key, .sym = hl_syms_add(a->r->m->syms, text, n)});
}

static void put_ptr(Attrs *a, HlAttrKey key, const void *value) {
  if (value)
    put(a, (HlAttr){.key = key, .ptr = value});
}

// --- Plain fields, from the table ------------------------------------------------------------------

static bool read_plain(Attrs *a, HlAttrKey key) {
  const ProtoPlain *p = &proto_plain[key];
  const char *field = (const char *)a->from + p->at;
  switch (p->type) {
  case PROTO_NONE: return false;
  case PROTO_I64: put_int(a, key, *(const int64_t *)(const void *)field); return true;
  case PROTO_I32: put_int(a, key, *(const int32_t *)(const void *)field); return true;
  case PROTO_TEXT: {
    const char *text = *(char *const *)(const void *)field;
    put_text(a, key, text, strlen(text));
    return true;
  }
  case PROTO_INTS: {
    size_t n = *(const size_t *)(const void *)((const char *)a->from + p->count_at);
    put_ints(a, key, n, *(int64_t *const *)(const void *)field);
    return true;
  }
  }
  return false;
}

// --- Fields with a shape of their own ------------------------------------------------------------------

static void read_slices(Attrs *a) {
  int64_t *at = HL_ARRAY(a->r->m->arena, int64_t, 3 * a->from->n_slice_dimensions);
  for (size_t k = 0; k < a->from->n_slice_dimensions; k++) {
    at[3 * k] = a->from->slice_dimensions[k]->start;
    at[3 * k + 1] = a->from->slice_dimensions[k]->limit;
    at[3 * k + 2] = a->from->slice_dimensions[k]->stride;
  }
  put(a, (HlAttr){.key = HL_A_SLICE, .ints = {at, 3 * (int)a->from->n_slice_dimensions}});
}

static void read_padding(Attrs *a) {
  const Xla__PaddingConfig *from = a->from->padding_config;
  size_t n = from ? from->n_dimensions : 0;
  int64_t *at = HL_ARRAY(a->r->m->arena, int64_t, 3 * n);
  for (size_t k = 0; k < n; k++) {
    at[3 * k] = from->dimensions[k]->edge_padding_low;
    at[3 * k + 1] = from->dimensions[k]->edge_padding_high;
    at[3 * k + 2] = from->dimensions[k]->interior_padding;
  }
  put(a, (HlAttr){.key = HL_A_PADDING, .ints = {at, 3 * (int)n}});
}

static void read_window(Attrs *a) {
  const Xla__Window *from = a->from->window;
  if (!from || (from->n_dimensions == 0 && a->inst->op != HL_OP_CUSTOM_CALL))
    return;
  HlWindowDim *at = HL_ARRAY(a->r->m->arena, HlWindowDim, from->n_dimensions + 1);
  for (size_t k = 0; k < from->n_dimensions; k++) {
    const Xla__WindowDimension *d = from->dimensions[k];
    at[k] =
        (HlWindowDim){d->size,          d->stride,          d->padding_low,         d->padding_high,
                      d->base_dilation, d->window_dilation, d->window_reversal != 0};
  }
  put(a, (HlAttr){.key = HL_A_WINDOW, .window = {at, (int)from->n_dimensions}});
}

static void read_dim_labels(Attrs *a) {
  const Xla__ConvolutionDimensionNumbers *d = a->from->convolution_dimension_numbers;
  if (!d)
    return;
  HlDimLabels *out = HL_NEW(a->r->m->arena, HlDimLabels);
  *out =
      (HlDimLabels){d->input_batch_dimension,
                    d->input_feature_dimension,
                    d->kernel_input_feature_dimension,
                    d->kernel_output_feature_dimension,
                    d->output_batch_dimension,
                    d->output_feature_dimension,
                    proto_ints(a->r, d->n_input_spatial_dimensions, d->input_spatial_dimensions),
                    proto_ints(a->r, d->n_kernel_spatial_dimensions, d->kernel_spatial_dimensions),
                    proto_ints(a->r, d->n_output_spatial_dimensions, d->output_spatial_dimensions)};
  put_ptr(a, HL_A_DIM_LABELS, out);
}

// One entry an operand, where messages may have fewer.
static void read_precision(Attrs *a) {
  const Xla__PrecisionConfig *from = a->from->precision_config;
  bool any = false;
  for (size_t k = 0; from && k < from->n_operand_precision; k++)
    any |= from->operand_precision[k] != XLA__PRECISION_CONFIG__PRECISION__DEFAULT;
  if (!any)
    return;
  size_t n = from->n_operand_precision;
  if (n < a->inst->n_operands &&
      (a->inst->op == HL_OP_CONVOLUTION || a->inst->op == HL_OP_CUSTOM_CALL))
    n = a->inst->n_operands;
  int64_t *at = HL_ARRAY(a->r->m->arena, int64_t, n);
  for (size_t k = 0; k < from->n_operand_precision; k++)
    at[k] = (int64_t)from->operand_precision[k];
  put(a, (HlAttr){.key = HL_A_OPERAND_PRECISION, .ints = {at, (int)n}});
}

static void read_dot_dims(Attrs *a) {
  const Xla__DotDimensionNumbers *d = a->from->dot_dimension_numbers;
  const Xla__RaggedDotDimensionNumbers *ragged = a->from->ragged_dot_dimension_numbers;
  if (ragged && ragged->dot_dimension_numbers)
    d = ragged->dot_dimension_numbers;
  if (d) {
    put_ints(a, HL_A_LHS_CONTRACTING_DIMS, d->n_lhs_contracting_dimensions,
             d->lhs_contracting_dimensions);
    put_ints(a, HL_A_RHS_CONTRACTING_DIMS, d->n_rhs_contracting_dimensions,
             d->rhs_contracting_dimensions);
    if (d->n_lhs_batch_dimensions)
      put_ints(a, HL_A_LHS_BATCH_DIMS, d->n_lhs_batch_dimensions, d->lhs_batch_dimensions);
    if (d->n_rhs_batch_dimensions)
      put_ints(a, HL_A_RHS_BATCH_DIMS, d->n_rhs_batch_dimensions, d->rhs_batch_dimensions);
  }
  if (ragged && ragged->n_lhs_ragged_dimensions)
    put_ints(a, HL_A_LHS_RAGGED_DIMS, ragged->n_lhs_ragged_dimensions,
             ragged->lhs_ragged_dimensions);
  if (ragged && ragged->n_rhs_group_dimensions)
    put_ints(a, HL_A_RHS_GROUP_DIMS, ragged->n_rhs_group_dimensions, ragged->rhs_group_dimensions);
}

static void read_gather(Attrs *a) {
  const Xla__GatherDimensionNumbers *d = a->from->gather_dimension_numbers;
  if (d) {
    put_ints(a, HL_A_OFFSET_DIMS, d->n_offset_dims, d->offset_dims);
    put_ints(a, HL_A_COLLAPSED_SLICE_DIMS, d->n_collapsed_slice_dims, d->collapsed_slice_dims);
    put_ints(a, HL_A_START_INDEX_MAP, d->n_start_index_map, d->start_index_map);
    if (d->n_operand_batching_dims)
      put_ints(a, HL_A_OPERAND_BATCHING_DIMS, d->n_operand_batching_dims, d->operand_batching_dims);
    if (d->n_start_indices_batching_dims)
      put_ints(a, HL_A_START_INDICES_BATCHING_DIMS, d->n_start_indices_batching_dims,
               d->start_indices_batching_dims);
    put_int(a, HL_A_INDEX_VECTOR_DIM, d->index_vector_dim);
  }
  put_ints(a, HL_A_SLICE_SIZES, a->from->n_gather_slice_sizes, a->from->gather_slice_sizes);
}

static void read_scatter(Attrs *a) {
  const Xla__ScatterDimensionNumbers *d = a->from->scatter_dimension_numbers;
  if (!d)
    return;
  put_ints(a, HL_A_UPDATE_WINDOW_DIMS, d->n_update_window_dims, d->update_window_dims);
  put_ints(a, HL_A_INSERTED_WINDOW_DIMS, d->n_inserted_window_dims, d->inserted_window_dims);
  put_ints(a, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, d->n_scatter_dims_to_operand_dims,
           d->scatter_dims_to_operand_dims);
  if (d->n_input_batching_dims)
    put_ints(a, HL_A_INPUT_BATCHING_DIMS, d->n_input_batching_dims, d->input_batching_dims);
  if (d->n_scatter_indices_batching_dims)
    put_ints(a, HL_A_SCATTER_INDICES_BATCHING_DIMS, d->n_scatter_indices_batching_dims,
             d->scatter_indices_batching_dims);
  put_int(a, HL_A_INDEX_VECTOR_DIM, d->index_vector_dim);
}

static HlI64Lists read_group_list(Attrs *a, size_t n, Xla__ReplicaGroup *const *from) {
  HlI64s *at = HL_ARRAY(a->r->m->arena, HlI64s, n);
  for (size_t k = 0; k < n; k++)
    at[k] = proto_ints(a->r, from[k]->n_replica_ids, from[k]->replica_ids);
  return (HlI64Lists){at, (int)n};
}

static bool iota_fits(const HlGroups *g) {
  int64_t total = 1, listed;
  for (int k = 0; k < g->iota.dims.n; k++)
    if (g->iota.dims.at[k] <= 0 || __builtin_mul_overflow(total, g->iota.dims.at[k], &total) ||
        total > (1 << 26))
      return false;
  for (int k = 0; k < g->iota.perm.n; k++)
    if (g->iota.perm.at[k] < 0 || g->iota.perm.at[k] >= g->iota.perm.n)
      return false;
  return g->iota.perm.n == g->iota.dims.n && g->n_groups > 0 && g->group_size > 0 &&
         !__builtin_mul_overflow(g->n_groups, g->group_size, &listed) && listed == total;
}

static void read_groups(Attrs *a) {
  HlGroups *g = HL_NEW(a->r->m->arena, HlGroups);
  const InstMsg *from = a->from;
  if (from->iota_collective_device_list) {
    const Xla__IotaReplicaGroupListProto *iota = from->iota_collective_device_list;
    g->form = HL_GROUPS_IOTA;
    g->n_groups = iota->num_replica_groups;
    g->group_size = iota->num_devices_per_group;
    g->iota.dims = proto_ints(a->r, iota->n_iota_reshape_dims, iota->iota_reshape_dims);
    g->iota.perm = proto_ints32(a->r, iota->n_iota_transpose_perm, iota->iota_transpose_perm);
    if (!iota_fits(g))
      a->ok = hl_error(a->r->cx, a->pos,
                       "an iota of replica groups does not list %" PRId64 " groups of %" PRId64,
                       g->n_groups, g->group_size);
  } else if (from->mesh_axes_replica_group_list) {
    g->form = HL_GROUPS_MESH;
    g->mesh = proto_read_mesh(a->r, from->mesh_axes_replica_group_list->mesh);
    if (!g->mesh) {
      a->ok =
          hl_error(a->r->cx, a->pos,
                   "the iota of a mesh of replica groups does not list the devices of its axes");
      return;
    }
    g->axes = proto_read_axes(a->r, from->mesh_axes_replica_group_list->n_axes,
                              from->mesh_axes_replica_group_list->axes);
    for (int k = 0; k < g->axes.n; k++)
      if (g->axes.at[k].axis < 0 || g->axes.at[k].axis >= g->mesh->n)
        a->ok =
            hl_error(a->r->cx, a->pos, "replica groups name an axis that their mesh does not have");
  } else if (from->collective_device_list) {
    g->list = read_group_list(a, from->collective_device_list->n_replica_groups,
                              from->collective_device_list->replica_groups);
  } else {
    g->list = read_group_list(a, from->n_replica_groups, from->replica_groups);
  }
  put_ptr(a, HL_A_REPLICA_GROUPS, g);
}

static void read_pairs(Attrs *a) {
  int64_t *at = HL_ARRAY(a->r->m->arena, int64_t, 2 * a->from->n_source_target_pairs);
  for (size_t k = 0; k < a->from->n_source_target_pairs; k++) {
    at[2 * k] = a->from->source_target_pairs[k]->source;
    at[2 * k + 1] = a->from->source_target_pairs[k]->target;
  }
  put(a, (HlAttr){.key = HL_A_SOURCE_TARGET_PAIRS,
                  .ints = {at, 2 * (int)a->from->n_source_target_pairs}});
}

// The sizes of an in-place collective-permute stand one after the other, as many as the operand's rank each.
static void read_permute_sizes(Attrs *a) {
  size_t n = a->from->n_dynamic_slice_sizes, rank = 1;
  if (n == 0)
    return;
  if (a->inst->n_operands > 0 && a->inst->operands[0]->shape->rank > 0 &&
      !hl_shape_is_tuple(a->inst->operands[0]->shape))
    rank = (size_t)a->inst->operands[0]->shape->rank;
  size_t lists = (n + rank - 1) / rank;
  HlI64s *at = HL_ARRAY(a->r->m->arena, HlI64s, lists);
  for (size_t k = 0; k < lists; k++)
    at[k] = proto_ints(a->r, n - k * rank < rank ? n - k * rank : rank,
                       a->from->dynamic_slice_sizes + k * rank);
  put(a, (HlAttr){.key = HL_A_PERMUTE_SLICE_SIZES, .lists = {at, (int)lists}});
}

static void read_enum_text(Attrs *a, HlAttrKey key, const char *text) {
  int64_t value;
  if (!text[0])
    return;
  if (hl_enum_value(hl_attr_info[key].words, hl_str(text), &value))
    put_int(a, key, value);
  else
    a->ok = hl_error(a->r->cx, a->pos, "unknown %s '%s'", hl_attr_info[key].text, text);
}

static void read_direction(Attrs *a) {
  int old = proto_old_comparison(a->from->opcode);
  if (old >= 0)
    put_int(a, HL_A_DIRECTION, old);
  else
    read_enum_text(a, HL_A_DIRECTION, a->from->comparison_direction);
}

// XLA writes the type always, since 0.11 beside the order, which counts; here only one that is not the default of the operand's is kept.
static void read_comparison_type(Attrs *a) {
  int n = a->n;
  const HlDialect since = hl_news_since(HL_NEWS_COMPARISON_ORDER);
  if (a->from->comparison_order[0]) {
    dialect_has(&a->r->signs, since);
    read_enum_text(a, HL_A_COMPARISON_ORDER, a->from->comparison_order);
    if (a->n > n && a->inst->n_operands > 0)
      a->at[n] =
          (HlAttr){.key = HL_A_COMPARISON_TYPE,
                   .i = hl_comparison_type_of(a->inst->operands[0]->shape->dtype, a->at[n].i)};
  } else {
    dialect_lacks(&a->r->signs, since);
    read_enum_text(a, HL_A_COMPARISON_TYPE, a->from->comparison_type);
  }
  if (a->n > n && a->inst->n_operands > 0 &&
      a->at[n].i == hl_default_comparison_type(a->inst->operands[0]->shape->dtype))
    a->n = n;
}

static void read_aliasing(Attrs *a) {
  HlAlias *at = HL_ARRAY(a->r->m->arena, HlAlias, a->from->n_output_operand_aliasing);
  for (size_t k = 0; k < a->from->n_output_operand_aliasing; k++) {
    const Xla__OutputOperandAliasing *from = a->from->output_operand_aliasing[k];
    at[k] = (HlAlias){proto_ints(a->r, from->n_output_shape_index, from->output_shape_index),
                      from->operand_index,
                      proto_ints(a->r, from->n_operand_shape_index, from->operand_shape_index), 0};
  }
  if (a->from->n_output_operand_aliasing)
    put(a, (HlAttr){.key = HL_A_OUTPUT_TO_OPERAND_ALIASING,
                    .aliases = {at, (int)a->from->n_output_operand_aliasing}});
}

static void read_constraints(Attrs *a) {
  size_t n = a->from->n_operand_shapes_with_layout;
  const HlShape **at = HL_ARRAY(a->r->m->arena, const HlShape *, n);
  for (size_t k = 0; k < n; k++)
    if (!(at[k] = proto_read_shape(a->r, a->pos, a->from->operand_shapes_with_layout[k])))
      a->ok = false;
  if (n > 0 || a->from->constrain_layout)
    put(a, (HlAttr){.key = HL_A_OPERAND_LAYOUT_CONSTRAINTS, .shapes = {at, (int)n}});
}

static void read_outfeed_shape(Attrs *a) {
  if (!a->from->outfeed_shape)
    return;
  const HlShape *shape = proto_read_shape(a->r, a->pos, a->from->outfeed_shape);
  a->ok = a->ok && shape;
  put_ptr(a, HL_A_OUTFEED_SHAPE, shape);
}

static void read_literal_attr(Attrs *a, HlAttrKey key) {
  if (!a->from->literal || !a->from->literal->shape || a->from->literal->shape->element_type == 0)
    return;
  HlLiteral *literal = proto_read_literal(a->r, a->pos, a->from->literal);
  if (!literal) {
    a->ok = false;
    return;
  }
  hl_set_attr(a->inst, &(HlAttr){.key = key, .ptr = literal});
  hl_literal_unref(literal);
}

static const HlSharding *read_side(Attrs *a, const ShardingMsg *side) {
  const HlSharding *sharding = side ? proto_read_sharding(a->r, a->pos, side) : NULL;
  if (side && !sharding)
    a->ok = false;
  return sharding;
}

// XLA's text calls "entry" what its proto calls "exit". A side that is not there is one without a sharding.
static void read_domain(Attrs *a) {
  HlDomain *d = HL_NEW(a->r->m->arena, HlDomain);
  d->kind = hl_sym(a->r->m, "sharding");
  d->entry = read_side(a, a->from->domain_exit_sharding);
  d->exit = read_side(a, a->from->domain_entry_sharding);
  put_ptr(a, HL_A_DOMAIN, d);
}

static HlSparsityOf sparsity_of(const Xla__SparsityProto *s) {
  return s ? (HlSparsityOf){s->n, s->m, s->dimension, s->stride, s->idx} : (HlSparsityOf){0};
}

static HlScalesOf scales_of(Attrs *a, const Xla__TensorBlockScalingConfig *s) {
  if (!s)
    return (HlScalesOf){0};
  return (HlScalesOf){.is_there = true,
                      .has_zero = s->zero_case == XLA__TENSOR_BLOCK_SCALING_CONFIG__ZERO_ZERO_IDX,
                      .scale_idx = s->scale_idx,
                      .zero_idx = s->zero_idx,
                      .strides = proto_ints(a->r, s->n_strides, s->strides),
                      .steps = proto_ints(a->r, s->n_steps, s->steps)};
}

static void read_scales(Attrs *a) {
  const Xla__BlockScalingConfig *from = a->from->block_scaling_config;
  const HlDialect since = hl_attr_since(HL_A_BLOCK_SCALING_CONFIG);
  if (!from) {
    dialect_lacks(&a->r->signs, since);
    return;
  }
  dialect_has(&a->r->signs, since);
  if (!from->lhs && !from->rhs)
    return;
  HlScales *scales = HL_NEW(a->r->m->arena, HlScales);
  *scales = (HlScales){scales_of(a, from->lhs), scales_of(a, from->rhs)};
  put_ptr(a, HL_A_BLOCK_SCALING_CONFIG, scales);
}

static void read_sparsity(Attrs *a) {
  HlSparsity s = {0};
  if (a->from->sparsity_config)
    s = (HlSparsity){sparsity_of(a->from->sparsity_config->lhs),
                     sparsity_of(a->from->sparsity_config->rhs)};
  static const HlSparsity none;
  if (memcmp(&s, &none, sizeof s) != 0)
    put_ptr(a, HL_A_SPARSITY_CONFIG, hl_arena_copy(a->r->m->arena, &s, sizeof s));
}

static void read_dimension(Attrs *a) {
  if (a->from->n_dimensions == 1)
    put_int(a, HL_A_DIMENSION, a->from->dimensions[0]);
  else if (a->from->n_dimensions > 1)
    a->ok = hl_error(a->r->cx, a->pos, "'%s' takes one dimension, not %zu", a->from->opcode,
                     a->from->n_dimensions);
}

// Options of a triangular solve or, `lower` alone, of a cholesky.
static void read_solver(Attrs *a, HlAttrKey key) {
  const Xla__TriangularSolveOptions *solve = a->from->triangular_solve_options;
  const Xla__CholeskyOptions *cholesky = a->from->cholesky_options;
  if (key == HL_A_LEFT_SIDE)
    put_int(a, key, solve && solve->left_side);
  else if (key == HL_A_LOWER)
    put_int(a, key, (solve && solve->lower) || (cholesky && cholesky->lower));
  else if (key == HL_A_UNIT_DIAGONAL)
    put_int(a, key, solve && solve->unit_diagonal);
  else if (solve)
    put_int(a, key, (int64_t)solve->transpose_a);
}

static void read_prefetch(Attrs *a, HlAttrKey key) {
  const InstMsg *f = a->from;
  if (f->prefetch_case == XLA__HLO_INSTRUCTION_PROTO__PREFETCH_CROSS_PROGRAM_PREFETCH_INDEX)
    put_int(a, key, f->cross_program_prefetch_index);
  else if (f->is_cross_program_prefetch)
    put_int(a, key, 0);
}

static void read_replication(Attrs *a, HlAttrKey key) {
  const Xla__ParameterReplication *replication = a->from->parameter_replication;
  if (!replication || replication->n_replicated_at_leaf_buffers == 0)
    return;
  const HlI64s leaves = proto_ints32(a->r, replication->n_replicated_at_leaf_buffers,
                                     replication->replicated_at_leaf_buffers);
  put(a, (HlAttr){.key = key, .ints = leaves});
}

static void put_bytes(Attrs *a, HlAttrKey key, ProtobufCBinaryData bytes) {
  put_text(a, key, (const char *)bytes.data, bytes.len);
}

// What stands for 0, which is what a message has that does not say.
static void put_int_or(Attrs *a, HlAttrKey key, int64_t value, int64_t otherwise) {
  put_int(a, key, value ? value : otherwise);
}

// An attribute with more to it than one field; nothing if the key is none of them.
static void read_special(Attrs *a, HlAttrKey key) {
  const InstMsg *f = a->from;
  switch (key) {
  case HL_A_PARAMETER_NUMBER: put_int(a, key, f->parameter_number); break;
  case HL_A_VALUE:
  case HL_A_LITERAL: read_literal_attr(a, key); break;
  case HL_A_DIMENSION: read_dimension(a); break;
  case HL_A_INFERRED_DIMENSION:
  case HL_A_IOTA_DIMENSION:
    if (f->n_dimensions > 0)
      put_int(a, key, f->dimensions[0]);
    break;
  case HL_A_INDEX: put_int(a, key, f->tuple_index); break;
  case HL_A_SLICE: read_slices(a); break;
  case HL_A_PADDING: read_padding(a); break;
  case HL_A_WINDOW: read_window(a); break;
  case HL_A_DIM_LABELS: read_dim_labels(a); break;
  case HL_A_FEATURE_GROUP_COUNT: put_int_or(a, key, f->feature_group_count, 1); break;
  case HL_A_BATCH_GROUP_COUNT: put_int_or(a, key, f->batch_group_count, 1); break;
  case HL_A_CONVOLUTION_KIND: put_int(a, key, (int64_t)f->conv_kind); break;
  case HL_A_SPARSITY_CONFIG: read_sparsity(a); break;
  case HL_A_BLOCK_SCALING_CONFIG: read_scales(a); break;
  case HL_A_OPERAND_PRECISION: read_precision(a); break;
  case HL_A_ALGORITHM:
    if (f->precision_config)
      put_int(a, key, (int64_t)f->precision_config->algorithm);
    break;
  case HL_A_LHS_CONTRACTING_DIMS: read_dot_dims(a); break;
  case HL_A_FFT_TYPE: put_int(a, key, (int64_t)f->fft_type); break;
  case HL_A_LEFT_SIDE:
  case HL_A_LOWER:
  case HL_A_UNIT_DIAGONAL:
  case HL_A_TRANSPOSE_A: read_solver(a, key); break;
  case HL_A_EPSILON: put(a, (HlAttr){.key = key, .f = (double)f->epsilon}); break;
  case HL_A_DIRECTION: read_direction(a); break;
  case HL_A_COMPARISON_TYPE: read_comparison_type(a); break;
  case HL_A_OFFSET_DIMS: read_gather(a); break;
  case HL_A_UPDATE_WINDOW_DIMS: read_scatter(a); break;
  case HL_A_IS_ASSOCIATIVE: put_int(a, key, (int64_t)f->is_associative); break;
  case HL_A_REPLICA_GROUPS: read_groups(a); break;
  case HL_A_SOURCE_TARGET_PAIRS: read_pairs(a); break;
  case HL_A_PERMUTE_SLICE_SIZES: read_permute_sizes(a); break;
  case HL_A_INFEED_CONFIG: put_bytes(a, key, f->infeed_config); break;
  case HL_A_OUTFEED_CONFIG: put_bytes(a, key, f->outfeed_config); break;
  case HL_A_OUTFEED_SHAPE: read_outfeed_shape(a); break;
  case HL_A_DISTRIBUTION: put_int(a, key, (int64_t)f->distribution); break;
  case HL_A_RNG_ALGORITHM: put_int(a, key, (int64_t)f->rng_algorithm); break;
  case HL_A_PADDING_TYPE: put_int(a, key, (int64_t)f->padding_type); break;
  case HL_A_OPERAND_LAYOUT_CONSTRAINTS: read_constraints(a); break;
  case HL_A_OUTPUT_TO_OPERAND_ALIASING: read_aliasing(a); break;
  case HL_A_SCHEDULE: put_int(a, key, (int64_t)f->custom_call_schedule); break;
  case HL_A_API_VERSION:
    put_int_or(a, key, (int64_t)f->custom_call_api_version, HL_WORD_api_version_ORIGINAL);
    break;
  case HL_A_KIND: read_enum_text(a, key, f->fusion_kind); break;
  case HL_A_ASYNC_EXECUTION_THREAD:
    if (strcmp(f->async_execution_thread, "main") != 0)
      put_text(a, key, f->async_execution_thread, strlen(f->async_execution_thread));
    break;
  case HL_A_CROSS_PROGRAM_PREFETCH_INDEX: read_prefetch(a, key); break;
  case HL_A_DOMAIN: read_domain(a); break;
  case HL_A_PARAMETER_REPLICATION: read_replication(a, key); break;
  default: break;
  }
}

// --- Common attributes ------------------------------------------------------------------------------------

static int by_key(const HlSym *a, const HlSym *b) {
  return strcmp(a->text, b->text);
}

static const HlDict *read_dict(ProtoReader *r, size_t n, Xla__TextMapEntry *const *from) {
  HlDict *out = HL_NEW(r->m->arena, HlDict);
  const HlSym **key = HL_ARRAY(r->m->arena, const HlSym *, n),
              **value = HL_ARRAY(r->m->arena, const HlSym *, n);
  int used = 0;
  for (size_t k = 0; k < n; k++) {
    const HlSym *name = hl_sym(r->m, from[k]->key);
    int at = used;
    while (at > 0 && by_key(key[at - 1], name) > 0)
      at--;
    bool again = at > 0 && key[at - 1] == name;
    if (again) {
      value[at - 1] = hl_sym(r->m, from[k]->value);
      continue;
    }
    memmove(key + at + 1, key + at, sizeof *key * (size_t)(used - at));
    memmove(value + at + 1, value + at, sizeof *value * (size_t)(used - at));
    key[at] = name;
    value[at] = hl_sym(r->m, from[k]->value);
    used++;
  }
  *out = (HlDict){key, value, used};
  return out;
}

static void read_statistics(Attrs *a) {
  const Xla__StatisticsViz *from = a->from->statistics_viz;
  if (!from || from->n_statistics == 0)
    return;
  HlStatistics *out = HL_NEW(a->r->m->arena, HlStatistics);
  const HlSym **name = HL_ARRAY(a->r->m->arena, const HlSym *, from->n_statistics);
  double *value = HL_ARRAY(a->r->m->arena, double, from->n_statistics);
  for (size_t k = 0; k < from->n_statistics; k++) {
    name[k] = hl_sym(a->r->m, from->statistics[k]->stat_name);
    value[k] = from->statistics[k]->stat_val;
  }
  *out = (HlStatistics){from->stat_index_to_visualize, name, value, (int)from->n_statistics};
  put_ptr(a, HL_A_STATISTICS, out);
}

static void read_accuracy(Attrs *a) {
  const Xla__ResultAccuracy *from = a->from->result_accuracy;
  if (!from || from->value_case == XLA__RESULT_ACCURACY__VALUE__NOT_SET)
    return;
  HlAccuracy acc = {0};
  if (from->value_case == XLA__RESULT_ACCURACY__VALUE_TOLERANCE)
    acc =
        (HlAccuracy){true, 0, from->tolerance->atol, from->tolerance->rtol, from->tolerance->ulps};
  else
    acc.mode = (int64_t)from->mode;
  if (acc.has_tolerance || acc.mode != HL_WORD_accuracy_mode_DEFAULT)
    put_ptr(a, HL_A_RESULT_ACCURACY, hl_arena_copy(a->r->m->arena, &acc, sizeof acc));
}

static void read_common(Attrs *a) {
  const InstMsg *f = a->from;
  if (f->sharding) {
    const HlSharding *sharding = proto_read_sharding(a->r, a->pos, f->sharding);
    a->ok = a->ok && sharding;
    put_ptr(a, HL_A_SHARDING, sharding);
  }
  if (f->frontend_attributes && f->frontend_attributes->n_map > 0)
    put_ptr(a, HL_A_FRONTEND_ATTRIBUTES,
            read_dict(a->r, f->frontend_attributes->n_map, f->frontend_attributes->map));
  if (f->n_hilo_attributes > 0)
    put_ptr(a, HL_A_EXTRA, read_dict(a->r, f->n_hilo_attributes, f->hilo_attributes));
  read_statistics(a);
  read_accuracy(a);
  put_ptr(a, HL_A_ORIGIN, proto_read_origin(a->r, f->original_value));
  put_ptr(a, HL_A_METADATA, proto_read_metadata(a->r, f->metadata));
  const HlStr config = {(const char *)f->backend_config.data, f->backend_config.len};
  if (config.n)
    put(a, (HlAttr){.key = HL_A_BACKEND_CONFIG, .sym = hl_config_read(a->r->m, config)});
}

int proto_old_comparison(const char *opcode) {
  static const char *const old[] = {
      "equal-to",     "not-equal-to",          "greater-than-or-equal-to",
      "greater-than", "less-than-or-equal-to", "less-than"};
  for (int k = 0; k < HL_COUNT_OF(old); k++)
    if (strcmp(opcode, old[k]) == 0)
      return k;
  return -1;
}

// Channel ids of 0 and below mean "none"; very old protos have it in all_reduce_id.
static void mend_channel(Attrs *a) {
  int n = 0;
  for (int k = 0; k < a->n; k++) {
    HlAttr attr = a->at[k];
    if (attr.key == HL_A_CHANNEL_ID && attr.i <= 0)
      attr.i = a->from->all_reduce_id;
    if (attr.key != HL_A_CHANNEL_ID || attr.i > 0)
      a->at[n++] = attr;
  }
  a->n = n;
}

// An attribute that only newer releases write tells where it says more than silence.
static void note_signs(Attrs *a) {
  dialect_has(&a->r->signs, hl_op_since((HlOp)a->inst->op));
  for (int k = 0; k < a->n; k++)
    if (a->at[k].i != hl_attr_info[a->at[k].key].def) {
      const HlAlways *always = hl_op_always((HlOp)a->inst->op, a->at[k].key);
      if (always)
        dialect_has(&a->r->signs, always->since);
    }
}

bool proto_read_attrs(ProtoReader *r, HlInst *inst, const InstMsg *from) {
  Attrs a = {.r = r, .inst = inst, .from = from, .pos = hl_pos(inst), .ok = true};
  for (const uint16_t *key = hl_op_info[inst->op].attrs; *key != HL_ATTR_END; key++) {
    HlAttrKey k = (HlAttrKey)(*key & ~HL_ATTR_REQUIRED);
    if (!read_plain(&a, k))
      read_special(&a, k);
  }
  note_signs(&a);
  read_common(&a);
  mend_channel(&a);
  for (int k = 0; k < a.n; k++)
    hl_set_attr(inst, &a.at[k]);
  return a.ok;
}
