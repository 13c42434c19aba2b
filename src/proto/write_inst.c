// Writes instructions as messages: the mirror of read_inst.c.
#include <string.h>

#include "proto/message.h"
#include "proto/plain.h"

// Makes an initialised message of type T in the writer's arena.
#define MAKE(w, T, name) T *name = HL_NEW((w)->arena, T)

static char *text_of(const HlSym *sym) {
  return sym ? (char *)sym->text : "";
}

static ProtobufCBinaryData bytes_of(const HlSym *sym) {
  return (ProtobufCBinaryData){sym->n, (uint8_t *)(uintptr_t)sym->text};
}

static void write_plain(ProtoWriter *w, const HlAttr *attr, InstMsg *out) {
  const ProtoPlain *p = &proto_plain[attr->key];
  void *field = (char *)out + p->at;
  switch (p->type) {
  case PROTO_NONE: break;
  case PROTO_I64: *(int64_t *)field = attr->i; break;
  case PROTO_I32: *(int32_t *)field = (int32_t)attr->i; break;
  case PROTO_TEXT: *(char **)field = text_of(attr->sym); break;
  case PROTO_INTS:
    *(size_t *)(void *)((char *)out + p->count_at) = (size_t)attr->ints.n;
    *(int64_t **)field = proto_ids(w, attr->ints);
    break;
  }
}

static void write_slices(ProtoWriter *w, HlI64s at, InstMsg *out) {
  out->n_slice_dimensions = (size_t)at.n / 3;
  out->slice_dimensions = HL_ARRAY(w->arena, Xla__SliceDimensions *, at.n / 3 + 1);
  for (int k = 0; k < at.n / 3; k++) {
    MAKE(w, Xla__SliceDimensions, d);
    xla__slice_dimensions__init(d);
    d->start = at.at[3 * k];
    d->limit = at.at[3 * k + 1];
    d->stride = at.at[3 * k + 2];
    out->slice_dimensions[k] = d;
  }
}

static void write_padding(ProtoWriter *w, HlI64s at, InstMsg *out) {
  MAKE(w, Xla__PaddingConfig, config);
  xla__padding_config__init(config);
  config->n_dimensions = (size_t)at.n / 3;
  config->dimensions = HL_ARRAY(w->arena, Xla__PaddingConfigDimension *, at.n / 3 + 1);
  for (int k = 0; k < at.n / 3; k++) {
    MAKE(w, Xla__PaddingConfigDimension, d);
    xla__padding_config_dimension__init(d);
    d->edge_padding_low = at.at[3 * k];
    d->edge_padding_high = at.at[3 * k + 1];
    d->interior_padding = at.at[3 * k + 2];
    config->dimensions[k] = d;
  }
  out->padding_config = config;
}

static Xla__Window *window_of(ProtoWriter *w, HlWindow from) {
  MAKE(w, Xla__Window, out);
  xla__window__init(out);
  out->n_dimensions = (size_t)from.n;
  out->dimensions = HL_ARRAY(w->arena, Xla__WindowDimension *, from.n + 1);
  for (int k = 0; k < from.n; k++) {
    MAKE(w, Xla__WindowDimension, d);
    xla__window_dimension__init(d);
    d->size = from.at[k].size;
    d->stride = from.at[k].stride;
    d->padding_low = from.at[k].pad_low;
    d->padding_high = from.at[k].pad_high;
    d->base_dilation = from.at[k].lhs_dilate;
    d->window_dilation = from.at[k].rhs_dilate;
    d->window_reversal = from.at[k].reversal;
    out->dimensions[k] = d;
  }
  return out;
}

static void write_dim_labels(ProtoWriter *w, const HlDimLabels *from, InstMsg *out) {
  MAKE(w, Xla__ConvolutionDimensionNumbers, d);
  xla__convolution_dimension_numbers__init(d);
  d->input_batch_dimension = from->input_batch;
  d->input_feature_dimension = from->input_feature;
  d->kernel_input_feature_dimension = from->kernel_input;
  d->kernel_output_feature_dimension = from->kernel_output;
  d->output_batch_dimension = from->output_batch;
  d->output_feature_dimension = from->output_feature;
  d->n_input_spatial_dimensions = (size_t)from->input_spatial.n;
  d->input_spatial_dimensions = proto_ids(w, from->input_spatial);
  d->n_kernel_spatial_dimensions = (size_t)from->kernel_spatial.n;
  d->kernel_spatial_dimensions = proto_ids(w, from->kernel_spatial);
  d->n_output_spatial_dimensions = (size_t)from->output_spatial.n;
  d->output_spatial_dimensions = proto_ids(w, from->output_spatial);
  out->convolution_dimension_numbers = d;
}

static Xla__PrecisionConfig *precision(ProtoWriter *w, InstMsg *out) {
  if (!out->precision_config) {
    out->precision_config = HL_NEW(w->arena, Xla__PrecisionConfig);
    xla__precision_config__init(out->precision_config);
  }
  return out->precision_config;
}

static void write_precision(ProtoWriter *w, HlI64s at, InstMsg *out) {
  Xla__PrecisionConfig *config = precision(w, out);
  config->n_operand_precision = (size_t)at.n;
  config->operand_precision = HL_ARRAY(w->arena, Xla__PrecisionConfig__Precision, at.n + 1);
  for (int k = 0; k < at.n; k++)
    config->operand_precision[k] = (Xla__PrecisionConfig__Precision)at.at[k];
}

// Ops that XLA writes with one precision an operand, default or not.
static int precision_entries(const HlInst *inst) {
  switch ((HlOp)inst->op) {
  case HL_OP_DOT:
  case HL_OP_RAGGED_DOT: return 2;
  case HL_OP_SCALED_DOT: return 4;
  case HL_OP_CONVOLUTION:
  case HL_OP_CUSTOM_CALL: return (int)inst->n_operands;
  default: return 0;
  }
}

static Xla__DotDimensionNumbers *dot_dims(ProtoWriter *w, const HlInst *inst) {
  MAKE(w, Xla__DotDimensionNumbers, d);
  xla__dot_dimension_numbers__init(d);
  HlI64s lc = hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS),
         rc = hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS);
  HlI64s lb = hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS), rb = hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS);
  d->n_lhs_contracting_dimensions = (size_t)lc.n;
  d->lhs_contracting_dimensions = proto_ids(w, lc);
  d->n_rhs_contracting_dimensions = (size_t)rc.n;
  d->rhs_contracting_dimensions = proto_ids(w, rc);
  d->n_lhs_batch_dimensions = (size_t)lb.n;
  d->lhs_batch_dimensions = proto_ids(w, lb);
  d->n_rhs_batch_dimensions = (size_t)rb.n;
  d->rhs_batch_dimensions = proto_ids(w, rb);
  return d;
}

static void write_dots(ProtoWriter *w, const HlInst *inst, InstMsg *out) {
  if (inst->op == HL_OP_DOT || inst->op == HL_OP_SCALED_DOT)
    out->dot_dimension_numbers = dot_dims(w, inst);
  if (inst->op != HL_OP_RAGGED_DOT)
    return;
  MAKE(w, Xla__RaggedDotDimensionNumbers, d);
  xla__ragged_dot_dimension_numbers__init(d);
  HlI64s ragged = hl_attr_ints(inst, HL_A_LHS_RAGGED_DIMS),
         group = hl_attr_ints(inst, HL_A_RHS_GROUP_DIMS);
  d->dot_dimension_numbers = dot_dims(w, inst);
  d->n_lhs_ragged_dimensions = (size_t)ragged.n;
  d->lhs_ragged_dimensions = proto_ids(w, ragged);
  d->n_rhs_group_dimensions = (size_t)group.n;
  d->rhs_group_dimensions = proto_ids(w, group);
  out->ragged_dot_dimension_numbers = d;
}

static void write_gather(ProtoWriter *w, const HlInst *inst, InstMsg *out) {
  MAKE(w, Xla__GatherDimensionNumbers, d);
  xla__gather_dimension_numbers__init(d);
  HlI64s offset = hl_attr_ints(inst, HL_A_OFFSET_DIMS),
         collapsed = hl_attr_ints(inst, HL_A_COLLAPSED_SLICE_DIMS);
  HlI64s map = hl_attr_ints(inst, HL_A_START_INDEX_MAP),
         batching = hl_attr_ints(inst, HL_A_OPERAND_BATCHING_DIMS);
  HlI64s starts = hl_attr_ints(inst, HL_A_START_INDICES_BATCHING_DIMS),
         sizes = hl_attr_ints(inst, HL_A_SLICE_SIZES);
  d->n_offset_dims = (size_t)offset.n;
  d->offset_dims = proto_ids(w, offset);
  d->n_collapsed_slice_dims = (size_t)collapsed.n;
  d->collapsed_slice_dims = proto_ids(w, collapsed);
  d->n_start_index_map = (size_t)map.n;
  d->start_index_map = proto_ids(w, map);
  d->index_vector_dim = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  d->n_operand_batching_dims = (size_t)batching.n;
  d->operand_batching_dims = proto_ids(w, batching);
  d->n_start_indices_batching_dims = (size_t)starts.n;
  d->start_indices_batching_dims = proto_ids(w, starts);
  out->gather_dimension_numbers = d;
  out->n_gather_slice_sizes = (size_t)sizes.n;
  out->gather_slice_sizes = proto_ids(w, sizes);
}

static void write_scatter(ProtoWriter *w, const HlInst *inst, InstMsg *out) {
  MAKE(w, Xla__ScatterDimensionNumbers, d);
  xla__scatter_dimension_numbers__init(d);
  HlI64s window = hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS),
         inserted = hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS);
  HlI64s map = hl_attr_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS),
         input = hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS);
  HlI64s indices = hl_attr_ints(inst, HL_A_SCATTER_INDICES_BATCHING_DIMS);
  d->n_update_window_dims = (size_t)window.n;
  d->update_window_dims = proto_ids(w, window);
  d->n_inserted_window_dims = (size_t)inserted.n;
  d->inserted_window_dims = proto_ids(w, inserted);
  d->n_scatter_dims_to_operand_dims = (size_t)map.n;
  d->scatter_dims_to_operand_dims = proto_ids(w, map);
  d->index_vector_dim = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM);
  d->n_input_batching_dims = (size_t)input.n;
  d->input_batching_dims = proto_ids(w, input);
  d->n_scatter_indices_batching_dims = (size_t)indices.n;
  d->scatter_indices_batching_dims = proto_ids(w, indices);
  out->scatter_dimension_numbers = d;
}

static void write_groups(ProtoWriter *w, const HlGroups *g, InstMsg *out) {
  if (g->form == HL_GROUPS_IOTA) {
    MAKE(w, Xla__IotaReplicaGroupListProto, d);
    xla__iota_replica_group_list_proto__init(d);
    d->num_replica_groups = g->n_groups;
    d->num_devices_per_group = g->group_size;
    d->n_iota_reshape_dims = (size_t)g->iota.dims.n;
    d->iota_reshape_dims = proto_ids(w, g->iota.dims);
    d->n_iota_transpose_perm = (size_t)g->iota.perm.n;
    d->iota_transpose_perm = proto_ids32(w, g->iota.perm);
    out->iota_collective_device_list = d;
    return;
  }
  if (g->form == HL_GROUPS_MESH) {
    MAKE(w, Xla__MeshAxesReplicaGroupListProto, d);
    xla__mesh_axes_replica_group_list_proto__init(d);
    d->mesh = proto_mesh(w, g->mesh);
    d->n_axes = (size_t)g->axes.n;
    d->axes = proto_axes(w, g->axes);
    out->mesh_axes_replica_group_list = d;
    return;
  }
  MAKE(w, Xla__CollectiveDeviceListProto, d);
  xla__collective_device_list_proto__init(d);
  d->n_replica_groups = (size_t)g->list.n;
  d->replica_groups = HL_ARRAY(w->arena, Xla__ReplicaGroup *, g->list.n + 1);
  for (int k = 0; k < g->list.n; k++) {
    d->replica_groups[k] = HL_NEW(w->arena, Xla__ReplicaGroup);
    xla__replica_group__init(d->replica_groups[k]);
    d->replica_groups[k]->n_replica_ids = (size_t)g->list.at[k].n;
    d->replica_groups[k]->replica_ids = proto_ids(w, g->list.at[k]);
  }
  out->collective_device_list = d;
}

static void write_pairs(ProtoWriter *w, HlI64s at, InstMsg *out) {
  out->n_source_target_pairs = (size_t)at.n / 2;
  out->source_target_pairs = HL_ARRAY(w->arena, Xla__SourceTarget *, at.n / 2 + 1);
  for (int k = 0; k < at.n / 2; k++) {
    MAKE(w, Xla__SourceTarget, p);
    xla__source_target__init(p);
    p->source = at.at[2 * k];
    p->target = at.at[2 * k + 1];
    out->source_target_pairs[k] = p;
  }
}

static void write_permute_sizes(ProtoWriter *w, HlI64Lists lists, InstMsg *out) {
  int n = 0;
  for (int k = 0; k < lists.n; k++)
    n += lists.at[k].n;
  out->dynamic_slice_sizes = HL_ARRAY(w->arena, int64_t, n + 1);
  for (int k = 0; k < lists.n; k++)
    for (int i = 0; i < lists.at[k].n; i++)
      out->dynamic_slice_sizes[out->n_dynamic_slice_sizes++] = lists.at[k].at[i];
}

static void write_aliasing(ProtoWriter *w, HlAliases at, InstMsg *out) {
  out->n_output_operand_aliasing = (size_t)at.n;
  out->output_operand_aliasing = HL_ARRAY(w->arena, Xla__OutputOperandAliasing *, at.n + 1);
  for (int k = 0; k < at.n; k++) {
    MAKE(w, Xla__OutputOperandAliasing, a);
    xla__output_operand_aliasing__init(a);
    a->n_output_shape_index = (size_t)at.at[k].output.n;
    a->output_shape_index = proto_ids(w, at.at[k].output);
    a->operand_index = at.at[k].number;
    a->n_operand_shape_index = (size_t)at.at[k].index.n;
    a->operand_shape_index = proto_ids(w, at.at[k].index);
    out->output_operand_aliasing[k] = a;
  }
}

static void write_shapes(ProtoWriter *w, HlShapeList shapes, InstMsg *out) {
  out->constrain_layout = true;
  out->n_operand_shapes_with_layout = (size_t)shapes.n;
  out->operand_shapes_with_layout = HL_ARRAY(w->arena, ShapeMsg *, shapes.n + 1);
  for (int k = 0; k < shapes.n; k++)
    out->operand_shapes_with_layout[k] = proto_shape(w, shapes.at[k]);
}

static Xla__TriangularSolveOptions *triangular(ProtoWriter *w, InstMsg *out) {
  if (!out->triangular_solve_options) {
    out->triangular_solve_options = HL_NEW(w->arena, Xla__TriangularSolveOptions);
    xla__triangular_solve_options__init(out->triangular_solve_options);
  }
  return out->triangular_solve_options;
}

static void write_lower(ProtoWriter *w, const HlInst *inst, bool lower, InstMsg *out) {
  if (inst->op == HL_OP_TRIANGULAR_SOLVE) {
    triangular(w, out)->lower = lower;
    return;
  }
  out->cholesky_options->lower = lower;
}

static void write_sparsity_of(ProtoWriter *w, const HlSparsityOf *from, Xla__SparsityProto **out) {
  if (!from->n && !from->m && !from->dimension && !from->stride && !from->idx)
    return;
  *out = HL_NEW(w->arena, Xla__SparsityProto);
  xla__sparsity_proto__init(*out);
  (*out)->n = from->n;
  (*out)->m = from->m;
  (*out)->dimension = from->dimension;
  (*out)->stride = from->stride;
  (*out)->idx = (int32_t)from->idx;
}

static Xla__SparsityConfig *sparsity_config(ProtoWriter *w, InstMsg *out) {
  if (!out->sparsity_config) {
    out->sparsity_config = HL_NEW(w->arena, Xla__SparsityConfig);
    xla__sparsity_config__init(out->sparsity_config);
  }
  return out->sparsity_config;
}

static Xla__BlockScalingConfig *scaling_config(ProtoWriter *w, InstMsg *out) {
  if (!out->block_scaling_config) {
    out->block_scaling_config = HL_NEW(w->arena, Xla__BlockScalingConfig);
    xla__block_scaling_config__init(out->block_scaling_config);
  }
  return out->block_scaling_config;
}

static Xla__TensorBlockScalingConfig *scales_of(ProtoWriter *w, const HlScalesOf *from) {
  if (!from->is_there)
    return NULL;
  MAKE(w, Xla__TensorBlockScalingConfig, s);
  xla__tensor_block_scaling_config__init(s);
  s->scale_idx = (int32_t)from->scale_idx;
  if (from->has_zero) {
    s->zero_case = XLA__TENSOR_BLOCK_SCALING_CONFIG__ZERO_ZERO_IDX;
    s->zero_idx = (int32_t)from->zero_idx;
  }
  s->n_strides = (size_t)from->strides.n;
  s->strides = proto_ids(w, from->strides);
  s->n_steps = (size_t)from->steps.n;
  s->steps = proto_ids(w, from->steps);
  return s;
}

static void write_scales(ProtoWriter *w, const HlScales *from, InstMsg *out) {
  scaling_config(w, out)->lhs = scales_of(w, &from->lhs);
  out->block_scaling_config->rhs = scales_of(w, &from->rhs);
}

static void write_sparsity(ProtoWriter *w, const HlSparsity *from, InstMsg *out) {
  sparsity_config(w, out);
  write_sparsity_of(w, &from->lhs, &out->sparsity_config->lhs);
  write_sparsity_of(w, &from->rhs, &out->sparsity_config->rhs);
}

static void write_dims(ProtoWriter *w, int64_t value, InstMsg *out) {
  out->n_dimensions = 1;
  out->dimensions = proto_ids(w, (HlI64s){&value, 1});
}

static void write_accuracy(ProtoWriter *w, const HlAccuracy *from, InstMsg *out) {
  MAKE(w, Xla__ResultAccuracy, acc);
  xla__result_accuracy__init(acc);
  acc->value_case = from->has_tolerance ? XLA__RESULT_ACCURACY__VALUE_TOLERANCE
                                        : XLA__RESULT_ACCURACY__VALUE_MODE;
  if (from->has_tolerance) {
    acc->tolerance = HL_NEW(w->arena, Xla__ResultAccuracy__Tolerance);
    xla__result_accuracy__tolerance__init(acc->tolerance);
    acc->tolerance->atol = from->atol;
    acc->tolerance->rtol = from->rtol;
    acc->tolerance->ulps = from->ulps;
  } else {
    acc->mode = (Xla__ResultAccuracy__Mode)from->mode;
  }
  out->result_accuracy = acc;
}

static void write_statistics(ProtoWriter *w, const HlStatistics *from, InstMsg *out) {
  MAKE(w, Xla__StatisticsViz, viz);
  xla__statistics_viz__init(viz);
  viz->stat_index_to_visualize = from->visualizing_index;
  viz->n_statistics = (size_t)from->n;
  viz->statistics = HL_ARRAY(w->arena, Xla__Statistic *, from->n + 1);
  for (int k = 0; k < from->n; k++) {
    MAKE(w, Xla__Statistic, s);
    xla__statistic__init(s);
    s->stat_name = text_of(from->name[k]);
    s->stat_val = from->value[k];
    viz->statistics[k] = s;
  }
  out->statistics_viz = viz;
}

static void write_replication(ProtoWriter *w, HlI64s at, InstMsg *out) {
  MAKE(w, Xla__ParameterReplication, rep);
  xla__parameter_replication__init(rep);
  rep->n_replicated_at_leaf_buffers = (size_t)at.n;
  rep->replicated_at_leaf_buffers = proto_ids32(w, at);
  out->parameter_replication = rep;
}

static void write_domain(ProtoWriter *w, const HlDomain *d, InstMsg *out) {
  // Crossed: see read_domain. Beside what has no sharding a domain has none on that side.
  out->domain_entry_sharding = d->exit ? proto_sharding(w, d->exit) : NULL;
  out->domain_exit_sharding = d->entry ? proto_sharding(w, d->entry) : NULL;
}

static void write_extra(ProtoWriter *w, const HlDict *dict, InstMsg *out) {
  Xla__FrontendAttributes *map = proto_dict(w, dict);
  out->n_hilo_attributes = map->n_map;
  out->hilo_attributes = map->map;
}

// In the layout of the instruction, where that fits; an elided value is no literal at all.
static void write_value(ProtoWriter *w, const HlInst *inst, const HlLiteral *value, InstMsg *out) {
  if (!hl_literal_is_elided(value))
    out->literal = proto_literal(
        w, value, hl_shape_compatible(inst->shape, value->shape) ? inst->shape : value->shape);
}

static void write_special(ProtoWriter *w, const HlInst *inst, const HlAttr *a, InstMsg *out) {
  switch (a->key) {
  case HL_A_PARAMETER_NUMBER: out->parameter_number = a->i; break;
  case HL_A_VALUE: write_value(w, inst, a->ptr, out); break;
  case HL_A_LITERAL:
    out->literal = proto_literal(w, a->ptr, ((const HlLiteral *)a->ptr)->shape);
    break;
  case HL_A_DIMENSION:
  case HL_A_INFERRED_DIMENSION:
  case HL_A_IOTA_DIMENSION: write_dims(w, a->i, out); break;
  case HL_A_INDEX: out->tuple_index = a->i; break;
  case HL_A_SLICE: write_slices(w, a->ints, out); break;
  case HL_A_PADDING: write_padding(w, a->ints, out); break;
  case HL_A_WINDOW: out->window = window_of(w, a->window); break;
  case HL_A_DIM_LABELS: write_dim_labels(w, a->ptr, out); break;
  case HL_A_FEATURE_GROUP_COUNT: out->feature_group_count = a->i; break;
  case HL_A_BATCH_GROUP_COUNT: out->batch_group_count = a->i; break;
  case HL_A_CONVOLUTION_KIND: out->conv_kind = (Xla__ConvolutionKind)a->i; break;
  case HL_A_SPARSITY_CONFIG: write_sparsity(w, a->ptr, out); break;
  case HL_A_BLOCK_SCALING_CONFIG: write_scales(w, a->ptr, out); break;
  case HL_A_OPERAND_PRECISION: write_precision(w, a->ints, out); break;
  case HL_A_ALGORITHM: precision(w, out)->algorithm = (Xla__PrecisionConfig__Algorithm)a->i; break;
  case HL_A_FFT_TYPE: out->fft_type = (Xla__FftType)a->i; break;
  case HL_A_LEFT_SIDE: triangular(w, out)->left_side = a->i != 0; break;
  case HL_A_LOWER: write_lower(w, inst, a->i != 0, out); break;
  case HL_A_UNIT_DIAGONAL: triangular(w, out)->unit_diagonal = a->i != 0; break;
  case HL_A_TRANSPOSE_A:
    triangular(w, out)->transpose_a = (Xla__TriangularSolveOptions__Transpose)a->i;
    break;
  case HL_A_EPSILON: out->epsilon = (float)a->f; break;
  case HL_A_DIRECTION:
    out->comparison_direction = (char *)hl_enum_text(hl_attr_info[a->key].words, a->i);
    break;
  case HL_A_COMPARISON_TYPE: break;  // write_comparison
  case HL_A_IS_ASSOCIATIVE: out->is_associative = (Xla__TriState)a->i; break;
  case HL_A_REPLICA_GROUPS: write_groups(w, a->ptr, out); break;
  case HL_A_SOURCE_TARGET_PAIRS: write_pairs(w, a->ints, out); break;
  case HL_A_PERMUTE_SLICE_SIZES: write_permute_sizes(w, a->lists, out); break;
  case HL_A_INFEED_CONFIG: out->infeed_config = bytes_of(a->sym); break;
  case HL_A_OUTFEED_CONFIG: out->outfeed_config = bytes_of(a->sym); break;
  case HL_A_OUTFEED_SHAPE: out->outfeed_shape = proto_shape(w, a->ptr); break;
  case HL_A_DISTRIBUTION: out->distribution = (Xla__RandomDistribution)a->i; break;
  case HL_A_RNG_ALGORITHM: out->rng_algorithm = (Xla__RandomAlgorithm)a->i; break;
  case HL_A_PADDING_TYPE: out->padding_type = (Xla__PaddingType)a->i; break;
  case HL_A_OPERAND_LAYOUT_CONSTRAINTS: write_shapes(w, a->shapes, out); break;
  case HL_A_OUTPUT_TO_OPERAND_ALIASING: write_aliasing(w, a->aliases, out); break;
  case HL_A_SCHEDULE: out->custom_call_schedule = (Xla__CustomCallSchedule)a->i; break;
  case HL_A_API_VERSION: out->custom_call_api_version = (Xla__CustomCallApiVersion)a->i; break;
  case HL_A_KIND: out->fusion_kind = (char *)hl_enum_text(hl_attr_info[a->key].words, a->i); break;
  case HL_A_ASYNC_EXECUTION_THREAD: out->async_execution_thread = text_of(a->sym); break;
  case HL_A_CROSS_PROGRAM_PREFETCH_INDEX:
    out->prefetch_case = XLA__HLO_INSTRUCTION_PROTO__PREFETCH_CROSS_PROGRAM_PREFETCH_INDEX;
    out->cross_program_prefetch_index = (int32_t)a->i;
    break;
  case HL_A_DOMAIN: write_domain(w, a->ptr, out); break;
  case HL_A_PARAMETER_REPLICATION: write_replication(w, a->ints, out); break;
  case HL_A_SHARDING: out->sharding = proto_sharding(w, a->ptr); break;
  case HL_A_FRONTEND_ATTRIBUTES: out->frontend_attributes = proto_dict(w, a->ptr); break;
  case HL_A_STATISTICS: write_statistics(w, a->ptr, out); break;
  case HL_A_RESULT_ACCURACY: write_accuracy(w, a->ptr, out); break;
  case HL_A_ORIGIN: out->original_value = proto_origin(w, a->ptr); break;
  case HL_A_EXTRA: write_extra(w, a->ptr, out); break;
  case HL_A_METADATA: out->metadata = proto_metadata(w, a->ptr); break;
  case HL_A_BACKEND_CONFIG: out->backend_config = bytes_of(a->sym); break;
  default: write_plain(w, a, out); break;
  }
}

// The type of old, and since 0.11 the order, of which then the type follows.
static void write_comparison(ProtoWriter *w, const HlInst *inst, InstMsg *out) {
  int64_t type = hl_comparison_type(inst);
  if (hl_writes(w->m->dialect, HL_NEWS_COMPARISON_ORDER)) {
    const HlDtype dtype = inst->operands[0]->shape->dtype;
    const int64_t order = hl_comparison_order(type), usual = hl_default_comparison_type(dtype);
    out->comparison_order = (char *)hl_enum_text(&hl_enums[HL_ENUM_comparison_order], order);
    type = usual == HL_WORD_comparison_type_FLOAT ? hl_comparison_type_of(dtype, order) : usual;
  }
  out->comparison_type = (char *)hl_enum_text(&hl_enums[HL_ENUM_comparison_type], type);
}

// What XLA writes on every instruction of an op, set or not.
static void write_always(ProtoWriter *w, const HlInst *inst, InstMsg *out) {
  out->metadata = proto_metadata(w, NULL);
  out->frontend_attributes = proto_dict(w, NULL);
  out->statistics_viz = HL_NEW(w->arena, Xla__StatisticsViz);
  xla__statistics_viz__init(out->statistics_viz);
  if (inst->op == HL_OP_CONVOLUTION || inst->op == HL_OP_CUSTOM_CALL)
    out->feature_group_count = out->batch_group_count = 1;
  if (inst->op == HL_OP_CUSTOM_CALL)
    out->custom_call_api_version = XLA__CUSTOM_CALL_API_VERSION__API_VERSION_ORIGINAL;
  if (inst->op == HL_OP_TRIANGULAR_SOLVE)
    triangular(w, out);
  if (inst->op == HL_OP_CHOLESKY) {
    out->cholesky_options = HL_NEW(w->arena, Xla__CholeskyOptions);
    xla__cholesky_options__init(out->cholesky_options);
  }
  if (inst->op == HL_OP_TOPK)
    out->largest = true;
  if (inst->op == HL_OP_PAD) {
    out->padding_config = HL_NEW(w->arena, Xla__PaddingConfig);
    xla__padding_config__init(out->padding_config);
  }
  bool windowed = inst->op == HL_OP_CONVOLUTION || inst->op == HL_OP_REDUCE_WINDOW ||
                  inst->op == HL_OP_SELECT_AND_SCATTER;
  if (windowed)
    out->window = window_of(w, (HlWindow){0});
  int n = precision_entries(inst);
  if (n > 0) {
    Xla__PrecisionConfig *config = precision(w, out);
    config->n_operand_precision = (size_t)n;
    config->operand_precision = HL_ARRAY(w->arena, Xla__PrecisionConfig__Precision, n);
  }
  if (inst->op == HL_OP_CONVOLUTION && hl_writes(w->m->dialect, HL_NEWS_SPARSITY)) {
    sparsity_config(w, out);
    scaling_config(w, out);
  }
  if (inst->op == HL_OP_COMPARE)
    write_comparison(w, inst, out);
  if (inst->op == HL_OP_GATHER)
    write_gather(w, inst, out);
  if (inst->op == HL_OP_SCATTER)
    write_scatter(w, inst, out);
  write_dots(w, inst, out);
}

int64_t proto_inst_id(const ProtoWriter *w, const HlInst *inst) {
  return w->inst_base[inst->comp->id] + inst->id;
}

static void write_edges(ProtoWriter *w, const HlInst *inst, InstMsg *out) {
  out->id = proto_inst_id(w, inst);
  out->n_operand_ids = inst->n_operands;
  out->operand_ids = HL_ARRAY(w->arena, int64_t, inst->n_operands + 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    out->operand_ids[k] = proto_inst_id(w, inst->operands[k]);
  out->n_called_computation_ids = inst->n_calls;
  out->called_computation_ids = HL_ARRAY(w->arena, int64_t, inst->n_calls + 1);
  for (int k = 0; k < inst->n_calls; k++)
    out->called_computation_ids[k] = w->comp_ids[hl_called(inst, k)->id];
  int n = inst->control ? inst->control->n_preds : 0;
  out->n_control_predecessor_ids = (size_t)n;
  out->control_predecessor_ids = HL_ARRAY(w->arena, int64_t, n + 1);
  for (int k = 0; k < n; k++)
    out->control_predecessor_ids[k] = proto_inst_id(w, inst->control->preds[k]);
}

InstMsg *proto_inst(ProtoWriter *w, const HlInst *inst) {
  InstMsg *out = HL_NEW(w->arena, InstMsg);
  xla__hlo_instruction_proto__init(out);
  out->name = text_of(inst->name);
  out->opcode = (char *)hl_op_text((HlOp)inst->op);
  out->shape = proto_shape(w, inst->shape);
  write_always(w, inst, out);
  write_edges(w, inst, out);
  for (int k = 0; k < inst->n_attrs; k++)
    if (!hl_attr_goes_unsaid(w->m->dialect, inst, &inst->attrs[k]))
      write_special(w, inst, &inst->attrs[k], out);
  return out;
}
#undef MAKE
