// ir/attr_copy.c: deep copies of attribute values from one module into another.

#include "ir/state.h"

const HlSym *ir_sym_copy(HlModule *to, const HlSym *sym) {
  return sym ? hl_syms_add(to->syms, sym->text, sym->n) : NULL;
}

static HlI64s copy_ints(HlModule *to, HlI64s ints) {
  return hl_i64s_copy(to->arena, ints);
}

static HlI64Lists copy_lists(HlModule *to, HlI64Lists lists) {
  HlI64s *at = COPY_LIST(to, HlI64s, lists.at, lists.n);
  for (int k = 0; k < lists.n; k++)
    at[k] = copy_ints(to, lists.at[k]);
  return (HlI64Lists){at, lists.n};
}

HlAliases ir_aliases_copy(HlModule *to, HlAliases aliases) {
  HlAlias *at = COPY_LIST(to, HlAlias, aliases.at, aliases.n);
  for (int k = 0; k < aliases.n; k++) {
    at[k].output = copy_ints(to, aliases.at[k].output);
    at[k].index = copy_ints(to, aliases.at[k].index);
  }
  return (HlAliases){at, aliases.n};
}

static const HlSym *const *copy_syms(HlModule *to, const HlSym *const *syms, int n) {
  const HlSym **at = COPY_LIST(to, const HlSym *, syms, n);
  for (int k = 0; k < n; k++)
    at[k] = ir_sym_copy(to, syms[k]);
  return at;
}

HlDict ir_dict_copy(HlModule *to, HlDict dict) {
  return (HlDict){copy_syms(to, dict.key, dict.n), copy_syms(to, dict.value, dict.n), dict.n};
}

static const HlMetadata *metadata_copy(HlModule *to, const HlMetadata *metadata) {
  HlMetadata copy = *metadata;
  copy.op_type = ir_sym_copy(to, copy.op_type);
  copy.op_name = ir_sym_copy(to, copy.op_name);
  copy.source_file = ir_sym_copy(to, copy.source_file);
  copy.deduplicated_name = ir_sym_copy(to, copy.deduplicated_name);
  copy.scheduling_name = ir_sym_copy(to, copy.scheduling_name);
  copy.payload = ir_sym_copy(to, copy.payload);
  return hl_intern_metadata(to, &copy);
}

const HlOrigin *ir_origin_copy(HlModule *to, const HlOrigin *origin) {
  if (!origin)
    return NULL;
  HlOrigin *copy = hl_arena_copy(to->arena, origin, sizeof *origin);
  copy->name = ir_sym_copy(to, origin->name);
  copy->call = ir_sym_copy(to, origin->call);
  copy->index = copy_ints(to, origin->index);
  const HlOrigin **element = COPY_LIST(to, const HlOrigin *, origin->element, origin->n);
  for (int k = 0; k < origin->n; k++)
    element[k] = ir_origin_copy(to, origin->element[k]);
  copy->element = element;
  return copy;
}

static const void *copy_scales(HlModule *to, const HlScales *scales) {
  HlScales *copy = hl_arena_copy(to->arena, scales, sizeof *scales);
  copy->lhs.strides = copy_ints(to, scales->lhs.strides);
  copy->lhs.steps = copy_ints(to, scales->lhs.steps);
  copy->rhs.strides = copy_ints(to, scales->rhs.strides);
  copy->rhs.steps = copy_ints(to, scales->rhs.steps);
  return copy;
}

static const void *copy_dim_labels(HlModule *to, const HlDimLabels *labels) {
  HlDimLabels *copy = hl_arena_copy(to->arena, labels, sizeof *labels);
  copy->input_spatial = copy_ints(to, labels->input_spatial);
  copy->kernel_spatial = copy_ints(to, labels->kernel_spatial);
  copy->output_spatial = copy_ints(to, labels->output_spatial);
  return copy;
}

static HlIota copy_iota(HlModule *to, HlIota iota) {
  return (HlIota){copy_ints(to, iota.dims), copy_ints(to, iota.perm)};
}

static const void *copy_groups(HlModule *to, const HlGroups *groups) {
  HlGroups *copy = hl_arena_copy(to->arena, groups, sizeof *groups);
  copy->list = copy_lists(to, groups->list);
  copy->iota = copy_iota(to, groups->iota);
  copy->axes.at = COPY_LIST(to, HlAxisRef, groups->axes.at, groups->axes.n);
  if (groups->mesh) {
    HlMesh *mesh = hl_arena_copy(to->arena, groups->mesh, sizeof *mesh);
    mesh->axis = copy_syms(to, mesh->axis, mesh->n);
    mesh->size = COPY_LIST(to, int64_t, mesh->size, mesh->n);
    mesh->devices = copy_ints(to, mesh->devices);
    mesh->iota = copy_iota(to, mesh->iota);
    copy->mesh = mesh;
  }
  return copy;
}

static const void *copy_domain(HlModule *to, const HlDomain *domain) {
  HlDomain *copy = hl_arena_copy(to->arena, domain, sizeof *domain);
  copy->kind = ir_sym_copy(to, domain->kind);
  copy->entry = domain->entry ? hl_sharding_copy(to, domain->entry) : NULL;
  copy->exit = domain->exit ? hl_sharding_copy(to, domain->exit) : NULL;
  return copy;
}

static const void *copy_statistics(HlModule *to, const HlStatistics *statistics) {
  HlStatistics *copy = hl_arena_copy(to->arena, statistics, sizeof *statistics);
  copy->name = copy_syms(to, statistics->name, statistics->n);
  copy->value = COPY_LIST(to, double, statistics->value, statistics->n);
  return copy;
}

static const void *copy_dict(HlModule *to, const HlDict *dict) {
  HlDict copy = ir_dict_copy(to, *dict);
  return hl_arena_copy(to->arena, &copy, sizeof copy);
}

static HlShapeList copy_shapes(HlModule *to, HlShapeList shapes) {
  const HlShape **at = HL_ARRAY(to->arena, const HlShape *, shapes.n);
  for (int k = 0; k < shapes.n; k++)
    at[k] = hl_shape_intern(to->shapes, shapes.at[k]);
  return (HlShapeList){at, shapes.n};
}

static const void *copy_ptr(HlModule *to, HlAttrKind kind, const void *ptr) {
  switch (kind) {
  case HL_KIND_OF_DIM_LABELS: return copy_dim_labels(to, ptr);
  case HL_KIND_OF_GROUPS: return copy_groups(to, ptr);
  case HL_KIND_OF_SHAPE: return hl_shape_intern(to->shapes, ptr);
  case HL_KIND_OF_DOMAIN: return copy_domain(to, ptr);
  case HL_KIND_OF_SPARSITY: return hl_arena_copy(to->arena, ptr, sizeof(HlSparsity));
  case HL_KIND_OF_SCALES: return copy_scales(to, ptr);
  case HL_KIND_OF_ACCURACY: return hl_arena_copy(to->arena, ptr, sizeof(HlAccuracy));
  case HL_KIND_OF_SHARDING: return hl_sharding_copy(to, ptr);
  case HL_KIND_OF_DICT:
  case HL_KIND_OF_EXTRA: return copy_dict(to, ptr);
  case HL_KIND_OF_STATISTICS: return copy_statistics(to, ptr);
  case HL_KIND_OF_ORIGIN: return ir_origin_copy(to, ptr);
  case HL_KIND_OF_METADATA: return metadata_copy(to, ptr);
  default: return ptr;  // literals are shared
  }
}

HlAttr ir_attr_copy(HlModule *to, const HlAttr *attr) {
  HlAttr copy = *attr;
  HlAttrKind kind = hl_attr_info[attr->key].kind;
  switch (kind) {
  case HL_KIND_OF_INT:
  case HL_KIND_OF_BOOL:
  case HL_KIND_OF_TRISTATE:
  case HL_KIND_OF_FLOAT:
  case HL_KIND_OF_ENUM:
  case HL_KIND_OF_ONE_INT: break;
  case HL_KIND_OF_TEXT:
  case HL_KIND_OF_DICT_TEXT: copy.sym = ir_sym_copy(to, attr->sym); break;
  case HL_KIND_OF_INTS:
  case HL_KIND_OF_SLICES:
  case HL_KIND_OF_PADDING:
  case HL_KIND_OF_PAIRS:
  case HL_KIND_OF_PRECISION:
  case HL_KIND_OF_BOOLS: copy.ints = copy_ints(to, attr->ints); break;
  case HL_KIND_OF_INT_LISTS: copy.lists = copy_lists(to, attr->lists); break;
  case HL_KIND_OF_WINDOW:
    if (attr->window.n > 0)  // an empty one keeps that it was written
      copy.window.at = COPY_LIST(to, HlWindowDim, attr->window.at, attr->window.n);
    else if (attr->window.at)
      copy.window.at = HL_NEW(to->arena, HlWindowDim);
    break;
  case HL_KIND_OF_SHAPES: copy.shapes = copy_shapes(to, attr->shapes); break;
  case HL_KIND_OF_ALIASING: copy.aliases = ir_aliases_copy(to, attr->aliases); break;
  default: copy.ptr = attr->ptr ? copy_ptr(to, kind, attr->ptr) : NULL; break;
  }
  return copy;
}
