// ir/attr_equal.c: compares and hashes attribute values, across modules.

#include <string.h>

#include "base/bits.h"
#include "ir/state.h"

// --- Parts --------------------------------------------------------------------------------------

bool ir_sym_equal(const HlSym *a, const HlSym *b) {
  if (a == b)
    return true;
  return a && b && a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
}

static uint64_t sym_hash(const HlSym *sym) {
  return sym ? hl_hash_bytes(sym->text, sym->n, 11) : 0;
}

uint64_t ir_ints_hash(HlI64s ints, uint64_t seed) {
  uint64_t h = hl_hash_mix(seed, (uint64_t)ints.n + 1);
  for (int k = 0; k < ints.n; k++)
    h = hl_hash_mix(h, (uint64_t)ints.at[k]);
  return h;
}

bool ir_dict_equal(HlDict a, HlDict b) {
  if (a.n != b.n)
    return false;
  for (int k = 0; k < a.n; k++)
    if (!ir_sym_equal(a.key[k], b.key[k]) || !ir_sym_equal(a.value[k], b.value[k]))
      return false;
  return true;
}

uint64_t ir_dict_hash(HlDict dict) {
  uint64_t h = (uint64_t)dict.n;
  for (int k = 0; k < dict.n; k++)
    h = hl_hash_mix(hl_hash_mix(h, sym_hash(dict.key[k])), sym_hash(dict.value[k]));
  return h;
}

bool ir_aliases_equal(HlAliases a, HlAliases b) {
  if (a.n != b.n)
    return false;
  for (int k = 0; k < a.n; k++)
    if (a.at[k].number != b.at[k].number || a.at[k].kind != b.at[k].kind ||
        !hl_i64s_equal(a.at[k].output, b.at[k].output) ||
        !hl_i64s_equal(a.at[k].index, b.at[k].index))
      return false;
  return true;
}

uint64_t ir_aliases_hash(HlAliases aliases) {
  uint64_t h = (uint64_t)aliases.n;
  for (int k = 0; k < aliases.n; k++) {
    const HlAlias *alias = &aliases.at[k];
    h = hl_hash_mix(h, (uint64_t)alias->number << 2 | (uint64_t)alias->kind);
    h = ir_ints_hash(alias->index, ir_ints_hash(alias->output, h));
  }
  return h;
}

bool hl_i64_lists_equal(HlI64Lists a, HlI64Lists b) {
  if (a.n != b.n)
    return false;
  for (int k = 0; k < a.n; k++)
    if (!hl_i64s_equal(a.at[k], b.at[k]))
      return false;
  return true;
}

static uint64_t lists_hash(HlI64Lists lists, uint64_t h) {
  for (int k = 0; k < lists.n; k++)
    h = ir_ints_hash(lists.at[k], h);
  return h;
}

static bool window_equal(HlWindow a, HlWindow b) {
  if (a.n != b.n)
    return false;
  for (int k = 0; k < a.n; k++) {
    const HlWindowDim *x = &a.at[k], *y = &b.at[k];
    if (x->size != y->size || x->stride != y->stride || x->pad_low != y->pad_low ||
        x->pad_high != y->pad_high || x->lhs_dilate != y->lhs_dilate ||
        x->rhs_dilate != y->rhs_dilate || x->reversal != y->reversal)
      return false;
  }
  return true;
}

static uint64_t window_hash(HlWindow window) {
  uint64_t h = (uint64_t)window.n;
  for (int k = 0; k < window.n; k++) {
    const HlWindowDim *d = &window.at[k];
    int64_t fields[7] = {d->size,       d->stride,     d->pad_low, d->pad_high,
                         d->lhs_dilate, d->rhs_dilate, d->reversal};
    h = ir_ints_hash((HlI64s){fields, 7}, h);
  }
  return h;
}

static bool shapes_equal(HlShapeList a, HlShapeList b) {
  if (a.n != b.n)
    return false;
  for (int k = 0; k < a.n; k++)
    if (!hl_shape_equal(a.at[k], b.at[k]))
      return false;
  return true;
}

// --- Structs ------------------------------------------------------------------------------------

static bool dim_labels_equal(const HlDimLabels *a, const HlDimLabels *b) {
  return a->input_batch == b->input_batch && a->input_feature == b->input_feature &&
         a->kernel_input == b->kernel_input && a->kernel_output == b->kernel_output &&
         a->output_batch == b->output_batch && a->output_feature == b->output_feature &&
         hl_i64s_equal(a->input_spatial, b->input_spatial) &&
         hl_i64s_equal(a->kernel_spatial, b->kernel_spatial) &&
         hl_i64s_equal(a->output_spatial, b->output_spatial);
}

static uint64_t dim_labels_hash(const HlDimLabels *labels) {
  int64_t fields[6] = {labels->input_batch,   labels->input_feature, labels->kernel_input,
                       labels->kernel_output, labels->output_batch,  labels->output_feature};
  uint64_t h = ir_ints_hash((HlI64s){fields, 6}, 3);
  h = ir_ints_hash(labels->input_spatial, h);
  return ir_ints_hash(labels->output_spatial, ir_ints_hash(labels->kernel_spatial, h));
}

static bool iota_equal(HlIota a, HlIota b) {
  return hl_i64s_equal(a.dims, b.dims) && hl_i64s_equal(a.perm, b.perm);
}

bool ir_mesh_equal(const HlMesh *a, const HlMesh *b) {
  if (a == b || !a || !b)
    return a == b;
  if (a->n != b->n || a->maximal_device != b->maximal_device ||
      !hl_i64s_equal(a->devices, b->devices) || !iota_equal(a->iota, b->iota))
    return false;
  for (int k = 0; k < a->n; k++)
    if (a->size[k] != b->size[k] || !ir_sym_equal(a->axis[k], b->axis[k]))
      return false;
  return true;
}

bool ir_axes_equal(HlAxes a, HlAxes b) {
  if (a.n != b.n)
    return false;
  for (int k = 0; k < a.n; k++)
    if (a.at[k].axis != b.at[k].axis || a.at[k].pre_size != b.at[k].pre_size ||
        a.at[k].size != b.at[k].size)
      return false;
  return true;
}

static bool groups_equal(const HlGroups *a, const HlGroups *b) {
  return a->form == b->form && a->n_groups == b->n_groups && a->group_size == b->group_size &&
         hl_i64_lists_equal(a->list, b->list) && iota_equal(a->iota, b->iota) &&
         ir_mesh_equal(a->mesh, b->mesh) && ir_axes_equal(a->axes, b->axes);
}

static uint64_t groups_hash(const HlGroups *groups) {
  uint64_t h = hl_hash_mix((uint64_t)groups->form, (uint64_t)groups->n_groups);
  h = lists_hash(groups->list, hl_hash_mix(h, (uint64_t)groups->group_size));
  h = ir_ints_hash(groups->iota.perm, ir_ints_hash(groups->iota.dims, h));
  for (int k = 0; k < groups->axes.n; k++)
    h = hl_hash_mix(h, (uint64_t)groups->axes.at[k].axis << 32 ^ (uint64_t)groups->axes.at[k].size);
  for (int k = 0; groups->mesh && k < groups->mesh->n; k++)
    h = hl_hash_mix(h ^ sym_hash(groups->mesh->axis[k]), (uint64_t)groups->mesh->size[k]);
  return h;
}

static bool sharding_equal(const HlSharding *a, const HlSharding *b) {
  return a && b ? hl_sharding_equal(a, b) : a == b;
}

static uint64_t sharding_hash(const HlSharding *sharding) {
  if (!sharding)
    return 0;
  HlBuf buf = {0};
  hl_sharding_print(&buf, sharding, false);
  uint64_t h = hl_hash_bytes(buf.at, buf.n, 5);
  hl_buf_free(&buf);
  return h;
}

static bool domain_equal(const HlDomain *a, const HlDomain *b) {
  return ir_sym_equal(a->kind, b->kind) && sharding_equal(a->entry, b->entry) &&
         sharding_equal(a->exit, b->exit);
}

static bool accuracy_equal(const HlAccuracy *a, const HlAccuracy *b) {
  if (a->has_tolerance != b->has_tolerance)
    return false;
  return a->has_tolerance ? a->atol == b->atol && a->rtol == b->rtol && a->ulps == b->ulps
                          : a->mode == b->mode;
}

static uint64_t accuracy_hash(const HlAccuracy *accuracy) {
  if (!accuracy->has_tolerance)
    return (uint64_t)accuracy->mode;
  uint64_t h = hl_hash_mix(hl_f64_bits(accuracy->atol + 0.0), hl_f64_bits(accuracy->rtol + 0.0));
  return hl_hash_mix(h, (uint64_t)accuracy->ulps);
}

static bool sparsity_of_equal(const HlSparsityOf *a, const HlSparsityOf *b) {
  return a->n == b->n && a->m == b->m && a->dimension == b->dimension && a->stride == b->stride &&
         a->idx == b->idx;
}

static uint64_t sparsity_hash(const HlSparsity *sparsity) {
  const HlSparsityOf *l = &sparsity->lhs, *r = &sparsity->rhs;
  int64_t fields[10] = {l->n, l->m, l->dimension, l->stride, l->idx,
                        r->n, r->m, r->dimension, r->stride, r->idx};
  return ir_ints_hash((HlI64s){fields, 10}, 9);
}

static bool scales_of_equal(const HlScalesOf *a, const HlScalesOf *b) {
  return a->is_there == b->is_there && a->has_zero == b->has_zero && a->scale_idx == b->scale_idx &&
         a->zero_idx == b->zero_idx && hl_i64s_equal(a->strides, b->strides) &&
         hl_i64s_equal(a->steps, b->steps);
}

static uint64_t scales_of_hash(const HlScalesOf *s) {
  int64_t fields[] = {s->is_there, s->has_zero, s->scale_idx, s->zero_idx};
  return ir_ints_hash((HlI64s){fields, 4}, ir_ints_hash(s->strides, ir_ints_hash(s->steps, 11)));
}

static bool origin_equal(const HlOrigin *a, const HlOrigin *b) {
  if (!a || !b)
    return a == b;
  if (a->kind != b->kind || a->n != b->n || !ir_sym_equal(a->name, b->name) ||
      !hl_i64s_equal(a->index, b->index) || !a->call != !b->call || !ir_sym_equal(a->call, b->call))
    return false;
  for (int k = 0; k < a->n; k++)
    if (!origin_equal(a->element[k], b->element[k]))
      return false;
  return true;
}

static uint64_t origin_hash(const HlOrigin *origin) {
  if (!origin)
    return 0;
  uint64_t h = ir_ints_hash(origin->index, sym_hash(origin->name) + (uint64_t)origin->kind);
  for (int k = 0; k < origin->n; k++)
    h = hl_hash_mix(h, origin_hash(origin->element[k]));
  return h;
}

static bool statistics_equal(const HlStatistics *a, const HlStatistics *b) {
  if (a->n != b->n || a->visualizing_index != b->visualizing_index)
    return false;
  for (int k = 0; k < a->n; k++)
    if (!ir_sym_equal(a->name[k], b->name[k]) ||
        hl_f64_bits(a->value[k]) != hl_f64_bits(b->value[k]))
      return false;
  return true;
}

static uint64_t statistics_hash(const HlStatistics *statistics) {
  uint64_t h = (uint64_t)statistics->visualizing_index;
  for (int k = 0; k < statistics->n; k++)
    h = hl_hash_mix(h ^ sym_hash(statistics->name[k]), hl_f64_bits(statistics->value[k]));
  return h;
}

static bool metadata_equal(const HlMetadata *a, const HlMetadata *b) {
  return ir_sym_equal(a->op_type, b->op_type) && ir_sym_equal(a->op_name, b->op_name) &&
         ir_sym_equal(a->source_file, b->source_file) &&
         ir_sym_equal(a->deduplicated_name, b->deduplicated_name) &&
         ir_sym_equal(a->scheduling_name, b->scheduling_name) &&
         ir_sym_equal(a->payload, b->payload) && a->source_line == b->source_line &&
         a->source_end_line == b->source_end_line && a->source_column == b->source_column &&
         a->source_end_column == b->source_end_column && a->stack_frame_id == b->stack_frame_id &&
         hl_i64s_equal(a->profile_type, b->profile_type) &&
         a->generated_code_bytes == b->generated_code_bytes &&
         a->working_set_bytes == b->working_set_bytes;
}

static uint64_t metadata_hash(const HlMetadata *metadata) {
  uint64_t h = hl_hash_mix(sym_hash(metadata->op_name), sym_hash(metadata->op_type));
  h = hl_hash_mix(h, sym_hash(metadata->source_file));
  return hl_hash_mix(h, (uint64_t)(uint32_t)metadata->source_line << 32 |
                            (uint32_t)metadata->stack_frame_id);
}

// --- Attributes ---------------------------------------------------------------------------------

static bool ptr_equal(HlAttrKind kind, const void *a, const void *b) {
  if (a == b)
    return true;
  if (!a || !b)
    return false;
  switch (kind) {
  case HL_KIND_OF_DIM_LABELS: return dim_labels_equal(a, b);
  case HL_KIND_OF_GROUPS: return groups_equal(a, b);
  case HL_KIND_OF_SHAPE: return hl_shape_equal(a, b);
  case HL_KIND_OF_LITERAL: return hl_literal_equal(a, b);
  case HL_KIND_OF_DOMAIN: return domain_equal(a, b);
  case HL_KIND_OF_SPARSITY:
    return sparsity_of_equal(&((const HlSparsity *)a)->lhs, &((const HlSparsity *)b)->lhs) &&
           sparsity_of_equal(&((const HlSparsity *)a)->rhs, &((const HlSparsity *)b)->rhs);
  case HL_KIND_OF_SCALES:
    return scales_of_equal(&((const HlScales *)a)->lhs, &((const HlScales *)b)->lhs) &&
           scales_of_equal(&((const HlScales *)a)->rhs, &((const HlScales *)b)->rhs);
  case HL_KIND_OF_ACCURACY: return accuracy_equal(a, b);
  case HL_KIND_OF_SHARDING: return hl_sharding_equal(a, b);
  case HL_KIND_OF_DICT:
  case HL_KIND_OF_EXTRA: return ir_dict_equal(*(const HlDict *)a, *(const HlDict *)b);
  case HL_KIND_OF_STATISTICS: return statistics_equal(a, b);
  case HL_KIND_OF_ORIGIN: return origin_equal(a, b);
  case HL_KIND_OF_METADATA: return metadata_equal(a, b);
  default: return false;
  }
}

bool hl_attr_equal(const HlAttr *a, const HlAttr *b) {
  if (a->key != b->key)
    return false;
  HlAttrKind kind = hl_attr_info[a->key].kind;
  switch (kind) {
  case HL_KIND_OF_INT:
  case HL_KIND_OF_BOOL:
  case HL_KIND_OF_TRISTATE:
  case HL_KIND_OF_ENUM:
  case HL_KIND_OF_ONE_INT: return a->i == b->i;
  case HL_KIND_OF_FLOAT: return hl_f64_bits(a->f) == hl_f64_bits(b->f);
  case HL_KIND_OF_TEXT:
  case HL_KIND_OF_DICT_TEXT: return ir_sym_equal(a->sym, b->sym);
  case HL_KIND_OF_INTS:
  case HL_KIND_OF_SLICES:
  case HL_KIND_OF_PADDING:
  case HL_KIND_OF_PAIRS:
  case HL_KIND_OF_PRECISION:
  case HL_KIND_OF_BOOLS: return hl_i64s_equal(a->ints, b->ints);
  case HL_KIND_OF_INT_LISTS: return hl_i64_lists_equal(a->lists, b->lists);
  case HL_KIND_OF_WINDOW: return window_equal(a->window, b->window);
  case HL_KIND_OF_SHAPES: return shapes_equal(a->shapes, b->shapes);
  case HL_KIND_OF_ALIASING: return ir_aliases_equal(a->aliases, b->aliases);
  default: return ptr_equal(kind, a->ptr, b->ptr);
  }
}

static uint64_t ptr_hash(HlAttrKind kind, const void *ptr) {
  if (!ptr)
    return 0;
  switch (kind) {
  case HL_KIND_OF_DIM_LABELS: return dim_labels_hash(ptr);
  case HL_KIND_OF_GROUPS: return groups_hash(ptr);
  case HL_KIND_OF_SHAPE: return ((const HlShape *)ptr)->hash;
  case HL_KIND_OF_LITERAL: return hl_literal_hash(ptr);
  case HL_KIND_OF_DOMAIN: {
    const HlDomain *domain = ptr;
    return hl_hash_mix(sym_hash(domain->kind),
                       sharding_hash(domain->entry) + 3 * sharding_hash(domain->exit));
  }
  case HL_KIND_OF_SPARSITY: return sparsity_hash(ptr);
  case HL_KIND_OF_SCALES:
    return scales_of_hash(&((const HlScales *)ptr)->lhs) +
           3 * scales_of_hash(&((const HlScales *)ptr)->rhs);
  case HL_KIND_OF_ACCURACY: return accuracy_hash(ptr);
  case HL_KIND_OF_SHARDING: return sharding_hash(ptr);
  case HL_KIND_OF_DICT:
  case HL_KIND_OF_EXTRA: return ir_dict_hash(*(const HlDict *)ptr);
  case HL_KIND_OF_STATISTICS: return statistics_hash(ptr);
  case HL_KIND_OF_ORIGIN: return origin_hash(ptr);
  case HL_KIND_OF_METADATA: return metadata_hash(ptr);
  default: return 0;
  }
}

static uint64_t value_hash(const HlAttr *attr, HlAttrKind kind) {
  switch (kind) {
  case HL_KIND_OF_INT:
  case HL_KIND_OF_BOOL:
  case HL_KIND_OF_TRISTATE:
  case HL_KIND_OF_ENUM:
  case HL_KIND_OF_ONE_INT: return (uint64_t)attr->i;
  case HL_KIND_OF_FLOAT: return hl_f64_bits(attr->f);
  case HL_KIND_OF_TEXT:
  case HL_KIND_OF_DICT_TEXT: return sym_hash(attr->sym);
  case HL_KIND_OF_INTS:
  case HL_KIND_OF_SLICES:
  case HL_KIND_OF_PADDING:
  case HL_KIND_OF_PAIRS:
  case HL_KIND_OF_PRECISION:
  case HL_KIND_OF_BOOLS: return ir_ints_hash(attr->ints, 1);
  case HL_KIND_OF_INT_LISTS: return lists_hash(attr->lists, 2);
  case HL_KIND_OF_WINDOW: return window_hash(attr->window);
  case HL_KIND_OF_SHAPES: {
    uint64_t h = (uint64_t)attr->shapes.n;
    for (int k = 0; k < attr->shapes.n; k++)
      h = hl_hash_mix(h, attr->shapes.at[k]->hash);
    return h;
  }
  case HL_KIND_OF_ALIASING: return ir_aliases_hash(attr->aliases);
  default: return ptr_hash(kind, attr->ptr);
  }
}

uint64_t hl_attr_hash(const HlAttr *attr) {
  return hl_hash_mix((uint64_t)attr->key + 1, value_hash(attr, hl_attr_info[attr->key].kind));
}
