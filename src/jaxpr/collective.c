// Lowers what runs on several devices: shard_map and pmap, and the collectives inside.
//
// Every device is a partition and holds the whole inputs and results of the program. At the border of
// a shard_map each cuts its part of the inputs out, and the parts of the results are gathered: the
// program means the same as JAX's, where the border is a mark for the partitioner, and it runs as it
// stands.
#include <string.h>

#include "jaxpr/lower.h"

// --- Axes of the mesh ---------------------------------------------------------------------------------------------

// Numbers of axes of the mesh, major to minor as listed.
typedef struct Axes {
  int n;
  int at[16];
} Axes;

static int64_t mesh_size(const MeshScope *mesh) {
  int64_t n = 1;
  for (int k = 0; k < mesh->n; k++)
    n *= mesh->axis[k].size;
  return n;
}

static int64_t axes_size(const MeshScope *mesh, const Axes *axes) {
  int64_t n = 1;
  for (int k = 0; k < axes->n; k++)
    n *= mesh->axis[axes->at[k]].size;
  return n;
}

// How many devices lie between neighbours along an axis.
static int64_t axis_stride(const MeshScope *mesh, int axis) {
  int64_t n = 1;
  for (int k = axis + 1; k < mesh->n; k++)
    n *= mesh->axis[k].size;
  return n;
}

static bool add_axis(const Rule *r, HlStr name, Axes *out) {
  const MeshScope *mesh = r->lo->mesh;
  for (int k = 0; mesh && k < mesh->n; k++)
    if (hl_str_equal(mesh->axis[k].name, name)) {
      for (int j = 0; j < out->n; j++)
        if (out->at[j] == k)
          return jx_fail(r, "axis '%.*s' is named twice", (int)name.n, name.at);
      if (out->n == HL_COUNT_OF(out->at))
        return jx_fail(r, "more than %d axes", HL_COUNT_OF(out->at));
      out->at[out->n++] = k;
      return true;
    }
  return jx_fail(r, "axis '%.*s' is not one of a mesh around it", (int)name.n, name.at);
}

// 'x', x, ('x', 'y')
static bool read_axes(const Rule *r, const Value *v, Axes *out) {
  *out = (Axes){0};
  if (!v)
    return jx_fail(r, "the axes are missing");
  if (v->kind != VALUE_LIST)
    return v->kind == VALUE_INT ? jx_refuse(r, "of dimensions as axes") : add_axis(r, v->text, out);
  for (int k = 0; k < v->n; k++) {
    if (v->item[k]->kind == VALUE_INT)
      return jx_refuse(r, "of dimensions as axes");
    if (!add_axis(r, v->item[k]->text, out))
      return false;
  }
  return true;
}

// Device number of position `index` along the axes (row-major) and `other` along the remaining ones.
static int64_t device_at(const MeshScope *mesh, const Axes *axes, int64_t index, int64_t other) {
  int64_t device = 0;
  for (int k = axes->n - 1; k >= 0; k--) {
    const int64_t size = mesh->axis[axes->at[k]].size;
    device += index % size * axis_stride(mesh, axes->at[k]);
    index /= size;
  }
  for (int k = mesh->n - 1; k >= 0; k--) {
    bool named = false;
    for (int j = 0; j < axes->n; j++)
      named = named || axes->at[j] == k;
    if (named)
      continue;
    device += other % mesh->axis[k].size * axis_stride(mesh, k);
    other /= mesh->axis[k].size;
  }
  return device;
}

// The devices that talk to each other along axes; `groups` (axis_index_groups) splits each line further.
static const HlGroups *replica_groups(const Rule *r, const Axes *axes, const Value *groups) {
  const MeshScope *mesh = r->lo->mesh;
  HlArena *arena = r->lo->m->arena;
  const int64_t along = axes_size(mesh, axes), lines = mesh_size(mesh) / along;
  const bool split = !jx_value_is_none(groups);
  if (split && (groups->kind != VALUE_LIST || groups->n == 0)) {
    jx_fail(r, "expected lists of integers as 'axis_index_groups'");
    return NULL;
  }
  const int n_groups = split ? groups->n : 1;
  HlGroups *out = HL_NEW(arena, HlGroups);
  HlI64s *list = HL_ARRAY(arena, HlI64s, lines * n_groups);
  out->form = HL_GROUPS_LIST;
  for (int64_t line = 0; line < lines; line++)
    for (int g = 0; g < n_groups; g++) {
      HlI64s members = {0};
      if (split && !jx_value_ints(arena, groups->item[g], &members)) {
        jx_fail(r, "expected lists of integers as 'axis_index_groups'");
        return NULL;
      }
      const int n = split ? members.n : (int)along;
      int64_t *device = HL_ARRAY(arena, int64_t, n + 1);
      for (int k = 0; k < n; k++) {
        const int64_t index = split ? members.at[k] : k;
        if (index < 0 || index >= along) {
          jx_fail(r, "index %lld of an axis of size %lld", (long long)index, (long long)along);
          return NULL;
        }
        device[k] = device_at(mesh, axes, index, line);
      }
      list[line * n_groups + g] = (HlI64s){device, n};
    }
  out->list = (HlI64Lists){list, (int)(lines * n_groups)};
  return out;
}

// Attributes of a collective over axes; their number, or 0 after reporting.
static int collective_attrs(const Rule *r, const Axes *axes, bool global_ids, HlAttr *out) {
  if (!r->lo->mesh) {
    jx_fail(r, "there is no mesh around it");
    return 0;
  }
  const HlGroups *groups = replica_groups(r, axes, jx_param(r, "axis_index_groups"));
  if (!groups)
    return 0;
  out[0] = (HlAttr){.key = HL_A_REPLICA_GROUPS, .ptr = groups};
  out[1] = (HlAttr){.key = HL_A_CHANNEL_ID, .i = 1};
  out[2] = (HlAttr){.key = HL_A_USE_GLOBAL_DEVICE_IDS, .i = 1};
  return global_ids ? 3 : 2;
}

// The device's position along axes, as s32[].
static HlInst *position(Rule *r, const Axes *axes) {
  const MeshScope *mesh = r->lo->mesh;
  HlBuild *b = r->b;
  HlInst *sum = NULL;
  HlInst *id = hl_b_op(b, HL_OP_PARTITION_ID, hl_shape_scalar(r->lo->m->shapes, HL_U32), 0, NULL, 0,
                       NULL, 0, NULL);
  for (int k = 0; k < axes->n; k++) {
    const int64_t stride = axis_stride(mesh, axes->at[k]), size = mesh->axis[axes->at[k]].size;
    HlInst *at = hl_b_binary(b, HL_OP_DIVIDE, id, hl_b_scalar_int(b, HL_U32, stride));
    at = hl_b_convert(b, hl_b_binary(b, HL_OP_REMAINDER, at, hl_b_scalar_int(b, HL_U32, size)),
                      HL_S32);
    sum =
        sum ? hl_b_binary(b, HL_OP_ADD,
                          hl_b_binary(b, HL_OP_MULTIPLY, sum, hl_b_scalar_int(b, HL_S32, size)), at)
            : at;
  }
  return sum ? sum : hl_b_scalar_int(b, HL_S32, 0);
}

// --- Collectives ----------------------------------------------------------------------------------------------------

static const Value *axis_param(const Rule *r) {
  const Value *axes = jx_param(r, "axes");
  return axes ? axes : jx_param(r, "axis_name");
}

static bool all_reduce(Rule *r) {
  Axes axes;
  HlAttr attrs[3];
  if (!read_axes(r, axis_param(r), &axes))
    return false;
  const int n = collective_attrs(r, &axes, true, attrs);
  for (int k = 0; n > 0 && k < r->n; k++) {
    HlComp *comp = hl_b_scalar_comp(r->b, (HlOp)r->row->op, r->in[k]->shape->dtype);
    if (!comp || !jx_give(r, hl_b_op(r->b, HL_OP_ALL_REDUCE, r->in[k]->shape, 1, &r->in[k], n,
                                     attrs, 1, &comp)))
      return false;
  }
  return n > 0;
}

// Along dimension `dim`, whose parts come in the order of the group.
static HlInst *gather_along(Rule *r, HlInst *x, const Axes *axes, int64_t dim) {
  HlAttr attrs[4];
  const int n = collective_attrs(r, axes, true, attrs);
  if (n == 0 || !x)
    return NULL;
  const HlGroups *groups = attrs[0].ptr;
  int64_t sizes[MAX_RANK + 1];
  for (int d = 0; d < x->shape->rank; d++)
    sizes[d] = d == dim ? x->shape->dim[d] * groups->list.at[0].n : x->shape->dim[d];
  attrs[n] = (HlAttr){.key = HL_A_DIMENSION, .i = dim};
  const HlShape *shape = hl_shape_array(r->lo->m->shapes, x->shape->dtype, x->shape->rank, sizes);
  return hl_b_op(r->b, HL_OP_ALL_GATHER, shape, 1, &x, n + 1, attrs, 0, NULL);
}

// Sizes with one of `size` put in at `dim`, or taken out.
static HlInst *insert_dim(HlBuild *b, HlInst *x, int64_t dim) {
  int64_t sizes[MAX_RANK + 1];
  if (!x)
    return NULL;
  for (int d = 0; d <= x->shape->rank; d++)
    sizes[d] = d < dim ? x->shape->dim[d] : d == dim ? 1 : x->shape->dim[d - 1];
  return hl_b_reshape(b, x, x->shape->rank + 1, sizes);
}

static HlInst *remove_dim(HlBuild *b, HlInst *x, int64_t dim) {
  int64_t sizes[MAX_RANK];
  int n = 0;
  for (int d = 0; x && d < x->shape->rank; d++)
    if (d != dim)
      sizes[n++] = x->shape->dim[d];
  return x ? hl_b_reshape(b, x, n, sizes) : NULL;
}

static bool all_gather(Rule *r) {
  Axes axes;
  int64_t dim;
  if (!read_axes(r, axis_param(r), &axes) || !jx_param_int(r, "all_gather_dimension", &dim))
    return false;
  const bool tiled = jx_param_flag(r, "tiled");
  for (int k = 0; k < r->n; k++) {
    const int rank = r->in[k]->shape->rank + (tiled ? 0 : 1);
    if (dim < 0 || dim >= rank)
      return jx_fail(r, "dimension %lld of rank %d", (long long)dim, rank);
    HlInst *x = tiled ? r->in[k] : insert_dim(r->b, r->in[k], dim);
    if (!jx_give(r, gather_along(r, x, &axes, dim)))
      return false;
  }
  return true;
}

static bool reduce_scatter(Rule *r) {
  Axes axes;
  int64_t dim;
  HlAttr attrs[4];
  if (!read_axes(r, axis_param(r), &axes) || !jx_param_int(r, "scatter_dimension", &dim))
    return false;
  const int n = collective_attrs(r, &axes, true, attrs);
  const bool tiled = jx_param_flag(r, "tiled");
  if (n == 0)
    return false;
  const int64_t parts = ((const HlGroups *)attrs[0].ptr)->list.at[0].n;
  attrs[n] = (HlAttr){.key = HL_A_DIMENSION, .i = dim};
  for (int k = 0; k < r->n; k++) {
    const HlShape *s = r->in[k]->shape;
    int64_t sizes[MAX_RANK];
    if (dim < 0 || dim >= s->rank || parts == 0 || s->dim[dim] % parts != 0)
      return jx_fail(r, "dimension %lld of %s in %lld parts", (long long)dim,
                     jx_type_text(r->lo, s), (long long)parts);
    for (int d = 0; d < s->rank; d++)
      sizes[d] = d == dim ? s->dim[d] / parts : s->dim[d];
    const HlShape *shape = hl_shape_array(r->lo->m->shapes, s->dtype, s->rank, sizes);
    HlComp *comp = hl_b_scalar_comp(r->b, HL_OP_ADD, s->dtype);
    HlInst *out =
        comp ? hl_b_op(r->b, HL_OP_REDUCE_SCATTER, shape, 1, &r->in[k], n + 1, attrs, 1, &comp)
             : NULL;
    if (!jx_give(r, tiled ? out : remove_dim(r->b, out, dim)))
      return false;
  }
  return true;
}

// Moves dimension `from` to place `to`.
static HlInst *move_dim(HlBuild *b, HlInst *x, int64_t from, int64_t to) {
  int64_t order[MAX_RANK + 1];
  int n = 0;
  if (!x)
    return NULL;
  for (int d = 0; d < x->shape->rank; d++)
    if (d != from)
      order[n++] = d;
  memmove(order + to + 1, order + to, sizeof *order * (size_t)(n - to));
  order[to] = from;
  return hl_b_transpose(b, x, (HlI64s){order, n + 1});
}

static bool all_to_all(Rule *r) {
  Axes axes;
  int64_t split, concat;
  HlAttr attrs[4];
  if (!jx_want(r, 1) || !read_axes(r, axis_param(r), &axes) ||
      !jx_param_int(r, "split_axis", &split) || !jx_param_int(r, "concat_axis", &concat))
    return false;
  const int n = collective_attrs(r, &axes, false, attrs);
  if (n == 0)
    return false;
  const int64_t parts = ((const HlGroups *)attrs[0].ptr)->list.at[0].n;
  const HlShape *s = r->in[0]->shape;
  if (split < 0 || split >= s->rank || concat < 0 || concat >= s->rank || parts == 0 ||
      s->dim[split] % parts != 0 || s->rank >= MAX_RANK)
    return jx_fail(r, "split along %lld and concatenation along %lld of %s in %lld parts",
                   (long long)split, (long long)concat, jx_type_text(r->lo, s), (long long)parts);
  attrs[n] = (HlAttr){.key = HL_A_DIMENSION, .i = split};
  const HlShape *plain = hl_shape_array(r->lo->m->shapes, s->dtype, s->rank, s->dim);
  HlInst *x = hl_b_op(r->b, HL_OP_ALL_TO_ALL, plain, 1, r->in, n + 1, attrs, 0, NULL);
  if (split == concat)
    return jx_give(r, x);
  // [.., parts, size / parts, ..], the parts moved before `concat` and joined with it.
  int64_t apart[MAX_RANK + 1], joined[MAX_RANK];
  for (int d = 0; d < s->rank; d++) {
    apart[d < split ? d : d + 1] = s->dim[d];
    joined[d] = d == split ? s->dim[d] / parts : d == concat ? s->dim[d] * parts : s->dim[d];
  }
  apart[split] = parts;
  apart[split + 1] = s->dim[split] / parts;
  x = hl_b_reshape(r->b, x, s->rank + 1, apart);
  return jx_give(r, hl_b_reshape(r->b, move_dim(r->b, x, split, concat), s->rank, joined));
}

static bool ppermute(Rule *r) {
  Axes axes;
  HlI64s perm;
  if (!read_axes(r, axis_param(r), &axes) || !jx_param_pairs(r, "perm", 2, &perm))
    return false;
  const MeshScope *mesh = r->lo->mesh;
  if (!mesh)
    return jx_fail(r, "there is no mesh around it");
  const int64_t along = axes_size(mesh, &axes), lines = mesh_size(mesh) / along;
  int64_t *pairs = HL_ARRAY(r->lo->m->arena, int64_t, lines * perm.n + 1);
  int n = 0;
  for (int64_t line = 0; line < lines; line++)
    for (int k = 0; k < perm.n; k++) {
      if (perm.at[k] < 0 || perm.at[k] >= along)
        return jx_fail(r, "index %lld of an axis of size %lld", (long long)perm.at[k],
                       (long long)along);
      pairs[n++] = device_at(mesh, &axes, perm.at[k], line);
    }
  HlAttr attrs[] = {{.key = HL_A_SOURCE_TARGET_PAIRS, .ints = {pairs, n}},
                    {.key = HL_A_CHANNEL_ID, .i = 1}};
  for (int k = 0; k < r->n; k++)
    if (!jx_give(r, hl_b_op(r->b, HL_OP_COLLECTIVE_PERMUTE, r->in[k]->shape, 1, &r->in[k], 2, attrs,
                            0, NULL)))
      return false;
  return true;
}

// Since 2025 the value of one device on all; before, a mark that changed nothing.
static bool pbroadcast(Rule *r) {
  Axes axes;
  int64_t source;
  if (!jx_param(r, "source")) {
    for (int k = 0; k < r->n; k++)
      if (!jx_give(r, r->in[k]))
        return false;
    return true;
  }
  if (!jx_want(r, 1) || !read_axes(r, axis_param(r), &axes) || !jx_param_int(r, "source", &source))
    return false;
  HlBuild *b = r->b;
  HlInst *x = r->in[0], *here = position(r, &axes);
  HlInst *mine = hl_b_compare(b, HL_WORD_direction_EQ, here, hl_b_scalar_int(b, HL_S32, source));
  HlAttr attrs[3];
  const int n = collective_attrs(r, &axes, true, attrs);
  HlComp *comp = n > 0 ? hl_b_scalar_comp(r->b, HL_OP_ADD, x->shape->dtype) : NULL;
  HlInst *part = hl_b_select(b, mine, x, hl_b_like(b, x, 0));
  return comp && jx_give(r, hl_b_op(b, HL_OP_ALL_REDUCE, x->shape, 1, &part, n, attrs, 1, &comp));
}

static bool axis_index(Rule *r) {
  Axes axes;
  return read_axes(r, axis_param(r), &axes) && axes.n > 0 && jx_give(r, position(r, &axes));
}

static bool axis_size(Rule *r) {
  Axes axes;
  return read_axes(r, axis_param(r), &axes) &&
         jx_give(r, hl_b_scalar_int(r->b, HL_S32, r->lo->mesh ? axes_size(r->lo->mesh, &axes) : 1));
}

// --- Borders ----------------------------------------------------------------------------------------------------------

// Which axes split each dimension of an array.
typedef struct Spec {
  Axes dim[MAX_RANK];
} Spec;

// P('x', None, ('y', 'z')), or {0: ('x',)} of 2023.
static bool read_spec(const Rule *r, const Value *v, int rank, Spec *out) {
  memset(out, 0, sizeof *out);
  if (jx_value_is_none(v))
    return true;
  if (v->kind != VALUE_CALL && v->kind != VALUE_LIST)
    return jx_fail(r, "'%.*s' is not a partition spec", (int)v->text.n, v->text.at);
  for (int k = 0; k < v->n; k++) {
    int64_t d = k;
    if (v->key[k].n > 0) {
      if (v->kind == VALUE_CALL)
        continue;  // unreduced={..}
      d = 0;
      for (size_t c = 0; c < v->key[k].n; c++) {
        if (v->key[k].at[c] < '0' || v->key[k].at[c] > '9' || d > MAX_RANK)
          return jx_fail(r, "'%.*s' is not a dimension", (int)v->key[k].n, v->key[k].at);
        d = d * 10 + (v->key[k].at[c] - '0');
      }
    }
    if (jx_value_is_none(v->item[k]))
      continue;
    if (d >= rank)
      return jx_fail(r, "a partition spec of more dimensions than %d", rank);
    if (!read_axes(r, v->item[k], &out->dim[d]))
      return false;
  }
  return true;
}

// The device's part of a whole array.
static HlInst *to_local(Rule *r, HlInst *x, const Spec *spec) {
  const HlShape *s = x->shape;
  HlInst *start[MAX_RANK];
  int64_t sizes[MAX_RANK];
  bool whole = true;
  for (int d = 0; d < s->rank; d++) {
    const int64_t parts = axes_size(r->lo->mesh, &spec->dim[d]);
    if (s->dim[d] % parts != 0) {
      jx_fail(r, "dimension %d of %s cannot be split in %lld parts", d, jx_type_text(r->lo, s),
              (long long)parts);
      return NULL;
    }
    sizes[d] = s->dim[d] / parts;
    HlInst *size = hl_b_scalar_int(r->b, HL_S32, parts > 1 ? sizes[d] : 0);
    start[d] =
        parts > 1 ? hl_b_binary(r->b, HL_OP_MULTIPLY, position(r, &spec->dim[d]), size) : size;
    whole = whole && parts == 1;
  }
  return whole ? x : hl_b_dynamic_slice(r->b, x, start, sizes);
}

static HlInst *to_global(Rule *r, HlInst *x, const Spec *spec) {
  for (int d = 0; x && d < x->shape->rank; d++)
    if (axes_size(r->lo->mesh, &spec->dim[d]) > 1)
      x = gather_along(r, x, &spec->dim[d], d);
  return x;
}

// Sizes of an array as its repr nests them: array([[0, 1], [2, 3]]) is 2, 2.
static int array_sizes(const Value *v, int64_t *sizes, int room) {
  int n = 0;
  if (v && v->kind == VALUE_CALL)
    v = v->n > 0 ? v->item[0] : NULL;
  for (; v && v->kind == VALUE_LIST && n<room; v = v->n> 0 ? v->item[0] : NULL)
    sizes[n++] = v->n;
  return n;
}

// The axes of Mesh('x': 2, 'y': 2, axis_types=(..)), and of the forms of 2023:
// Mesh(device_ids=array([[0, 1], [2, 3]]), axis_names=('x', 'y')), Mesh(axis_sizes=(2, 2), axis_names=..).
static int mesh_axes(const Rule *r, const Value *v, MeshAxis *axis, int room) {
  const Value *names = jx_value_field(v, "axis_names"), *devices = jx_value_field(v, "device_ids");
  int64_t sizes[16];
  HlI64s list = {0};
  int n = 0;
  if (names && names->kind == VALUE_LIST && names->n <= HL_COUNT_OF(sizes) && names->n <= room) {
    if (devices)
      list = (HlI64s){sizes, array_sizes(devices, sizes, HL_COUNT_OF(sizes))};
    else if (!jx_value_ints(r->lo->arena, jx_value_field(v, "axis_sizes"), &list))
      return 0;
    for (; n < names->n && list.n == names->n; n++)
      axis[n] = (MeshAxis){names->item[n]->text, list.at[n]};
    return n;
  }
  for (int k = 0; k < v->n && n < room; k++)
    if (v->key[k].n > 0 && jx_value_int(v->item[k], &axis[n].size))
      axis[n++].name = v->key[k];
  return n;
}

static bool read_mesh(Rule *r, MeshScope *mesh) {
  const Value *v = jx_param(r, "mesh");
  if (!v || v->kind != VALUE_CALL)
    return jx_fail(r, "expected Mesh('NAME': SIZE, ...) as 'mesh'");
  mesh->axis = HL_ARRAY(r->lo->arena, MeshAxis, v->n + 16);
  mesh->n = mesh_axes(r, v, mesh->axis, v->n + 16);
  if (mesh->n == 0)
    return jx_refuse(r, "the mesh does not print its axes");
  int64_t total = 1;
  for (int k = 0; k < mesh->n; k++) {
    const int64_t size = mesh->axis[k].size;
    if (size < 1 || size > hl_cx_limits(r->lo->cx)->devices / total)
      return hl_error_kind(r->lo->cx, HL_LIMIT, (HlPos){r->lo->tree->source, v->loc},
                           "the mesh has no devices, or more than %lld (limit devices)",
                           (long long)hl_cx_limits(r->lo->cx)->devices);
    total *= size;
  }
  HlModule *m = r->lo->m;
  if (m->num_partitions > 1 && m->num_partitions != total)
    return jx_refuse(r, "meshes of %lld and %lld devices in one program",
                     (long long)m->num_partitions, (long long)total);
  hl_set_devices(m, m->replica_count, total);
  return true;
}

static const Value *item_of(const Value *list, int k) {
  return list && list->kind == VALUE_LIST && k < list->n ? list->item[k] : NULL;
}

// Runs the jaxpr on the parts, inside the mesh.
static bool run_mapped(Rule *r, const Jaxpr *jaxpr, MeshScope *mesh, HlInst *const *args,
                       Rule *inner) {
  *inner = (Rule){.lo = r->lo, .eqn = r->eqn, .row = r->row, .b = r->b};
  r->lo->mesh = mesh;
  HlInst **out = HL_ARRAY(r->lo->arena, HlInst *, jaxpr->n_out + 1);
  bool ok = jx_lower_inline(r->lo, jaxpr, jx_path_in(r->lo, "%s", r->row->name), r->n, args, out);
  for (int k = 0; ok && k < jaxpr->n_out; k++)
    ok = jx_give(inner, out[k]);
  return ok;
}

static bool shard_map(Rule *r) {
  MeshScope mesh = {0};
  Rule inner;
  Spec *spec = HL_NEW(r->lo->arena, Spec);
  const Jaxpr *jaxpr = jx_param_jaxpr(r, "jaxpr");
  const Value *in_specs = jx_param(r, "in_specs"), *out_specs = jx_param(r, "out_specs");
  if (!in_specs) {
    in_specs = jx_param(r, "in_names");
    out_specs = jx_param(r, "out_names");
  }
  if (!jaxpr || !read_mesh(r, &mesh))
    return false;
  HlInst **args = HL_ARRAY(r->lo->arena, HlInst *, r->n + 1);
  MeshScope *outer = r->lo->mesh;
  r->lo->mesh = &mesh;
  bool ok = true;
  for (int k = 0; ok && k < r->n; k++)
    ok = read_spec(r, item_of(in_specs, k), r->in[k]->shape->rank, spec) &&
         (args[k] = to_local(r, r->in[k], spec)) != NULL;
  ok = ok && run_mapped(r, jaxpr, &mesh, args, &inner);
  r->lo->mesh = &mesh;
  for (int k = 0; ok && k < inner.out.n; k++)
    ok = read_spec(r, item_of(out_specs, k), inner.out.at[k]->shape->rank, spec) &&
         jx_give(r, to_global(r, inner.out.at[k], spec));
  r->lo->mesh = outer;
  return ok;
}

// Operand k as a device sees it: its row along the mapped dimension; all of it where none is. NULL after reporting.
static HlInst *take_row(Rule *r, int k, const Value *mapped, const Axes *all) {
  HlInst *x = r->in[k];
  const HlShape *s = x->shape;
  const int64_t size = r->lo->mesh->axis->size;
  int64_t dim = 0;
  if (mapped && !jx_value_int(mapped, &dim))
    return x;
  if (dim < 0 || dim >= s->rank || s->dim[dim] != size) {
    jx_fail(r, "operand %d is %s, expected size %lld in dimension %lld", k, jx_type_text(r->lo, s),
            (long long)size, (long long)dim);
    return NULL;
  }
  Spec *spec = HL_NEW(r->lo->arena, Spec);
  spec->dim[dim] = *all;
  return remove_dim(r->b, to_local(r, x, spec), dim);
}

// Gives result k: what the devices have, side by side along the mapped dimension.
static bool give_rows(Rule *r, int k, HlInst *x, const Value *mapped, const Axes *all) {
  int64_t dim = 0;
  if (mapped && !jx_value_int(mapped, &dim))
    return jx_give(r, x);
  if (dim < 0 || dim > x->shape->rank)
    return jx_fail(r, "result %d along dimension %lld", k, (long long)dim);
  return jx_give(r, gather_along(r, insert_dim(r->b, x, dim), all, dim));
}

// pmap of old: every device takes one row along the mapped axis.
static bool xla_pmap(Rule *r) {
  HlModule *m = r->lo->m;
  const Axes all = {.n = 1};
  MeshAxis axis = {.name = {"", 0}};
  MeshScope mesh = {.n = 1, .axis = &axis}, *outer = r->lo->mesh;
  const Jaxpr *jaxpr = jx_param_jaxpr(r, "call_jaxpr");
  const Value *name = jx_param(r, "axis_name");
  if (!jaxpr || !jx_param_int(r, "axis_size", &axis.size))
    return false;
  if (axis.size < 1 || axis.size > hl_cx_limits(r->lo->cx)->devices)
    return jx_fail(r, "an axis of size %lld", (long long)axis.size);
  if (m->num_partitions > 1 && m->num_partitions != axis.size)
    return jx_refuse(r, "meshes of different sizes in one program");
  hl_set_devices(m, m->replica_count, axis.size);
  if (name)
    axis.name = name->text;
  HlInst **args = HL_ARRAY(r->lo->arena, HlInst *, r->n + 1);
  Rule inner;
  bool ok = true;
  r->lo->mesh = &mesh;
  for (int k = 0; ok && k < r->n; k++)
    ok = (args[k] = take_row(r, k, item_of(jx_param(r, "in_axes"), k), &all)) != NULL;
  ok = ok && run_mapped(r, jaxpr, &mesh, args, &inner);
  for (int k = 0; ok && k < inner.out.n; k++)
    ok = give_rows(r, k, inner.out.at[k], item_of(jx_param(r, "out_axes"), k), &all);
  r->lo->mesh = outer;
  return ok;
}

// A sharding is a wish about placement: the values stay as they are.
static bool constraint(Rule *r) {
  for (int k = 0; k < r->n; k++)
    if (!jx_give(r, r->in[k]))
      return false;
  return true;
}

const Row jx_collective_rows[] = {{"psum", all_reduce, HL_OP_ADD, NULL},
                                  {"psum2", all_reduce, HL_OP_ADD, NULL},
                                  {"psum_invariant", all_reduce, HL_OP_ADD, NULL},
                                  {"pmax", all_reduce, HL_OP_MAXIMUM, NULL},
                                  {"pmin", all_reduce, HL_OP_MINIMUM, NULL},
                                  {"unreduced_psum", all_reduce, HL_OP_ADD, NULL},
                                  {"unreduced_pmax", all_reduce, HL_OP_MAXIMUM, NULL},
                                  {"unreduced_pmin", all_reduce, HL_OP_MINIMUM, NULL},
                                  {"all_gather", all_gather, 0, NULL},
                                  {"all_gather_invariant", all_gather, 0, NULL},
                                  {"all_gather_reduced", all_gather, 0, NULL},
                                  {"reduce_scatter", reduce_scatter, 0, NULL},
                                  {"unreduced_reduce_scatter", reduce_scatter, 0, NULL},
                                  {"all_to_all", all_to_all, 0, NULL},
                                  {"ppermute", ppermute, 0, NULL},
                                  {"pbroadcast", pbroadcast, 0, NULL},
                                  {"axis_index", axis_index, 0, NULL},
                                  {"axis_size", axis_size, 0, NULL},
                                  {"shard_map", shard_map, 0, NULL},
                                  {"xla_pmap", xla_pmap, 0, NULL},
                                  {"sharding_constraint", constraint, 0, NULL},
                                  {"reshard", constraint, 0, NULL},
                                  {"with_sharding_constraint", constraint, 0, NULL},
                                  {NULL, NULL, 0, NULL}};
