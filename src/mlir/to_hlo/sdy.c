// sdy: shardings over meshes as HLO's tile assignments, and sdy's ops as the custom calls that stand for them in
// HLO (mlir.md 6.3, 6.4).
#include <string.h>

#include "hilo/custom_calls.h"
#include "mlir/to_hlo/to_hlo.h"

// --- Meshes ------------------------------------------------------------------------------------------------

enum { MAX_PARTS = 256 };

// An axis of a mesh, or a part of one where some sharding takes it apart.
typedef struct Part {
  int axis;
  int64_t pre, size;  // pre: product of the parts of the same axis before it
  int used;           // 0: replicated, else where it stands in the order of use, from 1
} Part;

typedef struct Mesh {
  int n;
  const HlSym *name[MAX_PARTS];
  int64_t size[MAX_PARTS];
  HlI64s devices;  // empty: 0, 1, 2, ...
  Part part[MAX_PARTS];
  int n_parts, n_used;
} Mesh;

static const HlMlAttr *mesh_attr(MlLower *l, const HlMlOp *at, const HlMlAttr *mesh) {
  if (mesh && mesh->kind == HL_ML_A_SYMBOL) {
    const HlMlOp *op = hl_ml_find_symbol(l->tree, mesh->sym);
    const HlMlAttr *found = op ? ml_attr(op, ML_A_MESH) : NULL;
    if (!found)
      ml_bad(l, at, "there is no mesh @%s", mesh->sym->text);
    return found;
  }
  if (!mesh || mesh->kind != HL_ML_A_STRUCT)
    ml_bad(l, at, "expected a mesh or the name of one");
  return mesh && mesh->kind == HL_ML_A_STRUCT ? mesh : NULL;
}

static bool read_mesh(MlLower *l, const HlMlOp *at, const HlMlAttr *attr, Mesh *mesh) {
  *mesh = (Mesh){0};
  if (!(attr = mesh_attr(l, at, attr)))
    return false;
  const HlMlAttr *axes = ml_field(attr, ML_A_AXES);
  mesh->devices = ml_field_ints(l->m->arena, attr, ML_A_DEVICE_IDS);
  int n = axes && axes->kind == HL_ML_A_ARRAY ? axes->n : 0;
  if (n > MAX_PARTS)
    return ml_unsupported(l, at, "a mesh of %d axes", n);
  for (int k = 0; k < n; k++) {
    const HlMlAttr *name = ml_field(axes->list[k], ML_A_NAME);
    mesh->name[k] = name && name->kind == HL_ML_A_STRING ? name->sym : NULL;
    mesh->size[k] = ml_field_int(axes->list[k], ML_A_SIZE, 1);
    mesh->part[k] = (Part){.axis = k, .pre = 1, .size = mesh->size[k]};
  }
  mesh->n = mesh->n_parts = n;
  return true;
}

static int find_axis(const Mesh *mesh, const HlSym *name) {
  for (int k = 0; k < mesh->n; k++)
    if (mesh->name[k] == name)
      return k;
  return -1;
}

typedef struct AxisRef {
  int axis;
  int64_t pre, size;
} AxisRef;

// "x", or a reference with the size in front and its own.
static bool read_axis(MlLower *l, const HlMlOp *at, const Mesh *mesh, const HlMlAttr *attr,
                      AxisRef *out) {
  const HlMlAttr *name = attr->kind == HL_ML_A_STRUCT ? ml_field(attr, ML_A_NAME) : attr;
  const HlMlAttr *sub = attr->kind == HL_ML_A_STRUCT ? ml_field(attr, ML_A_SUB_AXIS_INFO) : NULL;
  int axis = name && name->kind == HL_ML_A_STRING ? find_axis(mesh, name->sym) : -1;
  if (axis < 0)
    return ml_bad(l, at, "the mesh has no axis \"%s\"",
                  name && name->kind == HL_ML_A_STRING ? name->sym->text : "");
  *out = (AxisRef){axis, 1, mesh->size[axis]};
  if (sub) {
    out->pre = ml_field_int(sub, ML_A_PRE_SIZE, 1);
    out->size = ml_field_int(sub, ML_A_SIZE, 1);
  }
  if (out->pre < 1 || out->size < 1 || mesh->size[axis] % out->pre != 0 ||
      mesh->size[axis] / out->pre % out->size != 0)
    return ml_bad(l, at, "(%lld)%lld is no part of axis \"%s\", which has size %lld",
                  (long long)out->pre, (long long)out->size, mesh->name[axis]->text,
                  (long long)mesh->size[axis]);
  return true;
}

// Takes an axis apart where `at` of its devices come before the cut.
static bool cut_axis(MlLower *l, const HlMlOp *op, Mesh *mesh, int axis, int64_t at) {
  for (int k = 0; k < mesh->n_parts; k++) {
    Part *part = &mesh->part[k];
    if (part->axis != axis || at <= part->pre || at >= part->pre * part->size)
      continue;
    if (mesh->n_parts == MAX_PARTS || at % part->pre != 0 || part->size % (at / part->pre) != 0)
      return ml_unsupported(l, op, "parts of axis \"%s\" overlap", mesh->name[axis]->text);
    memmove(part + 1, part, sizeof *part * (size_t)(mesh->n_parts - k));
    part[0].size = at / part[0].pre;
    part[1].pre = at;
    part[1].size /= part[0].size;
    mesh->n_parts++;
    return true;
  }
  return true;
}

static bool cut_all(MlLower *l, const HlMlOp *at, Mesh *mesh, const HlMlAttr *axes) {
  for (int k = 0; axes && k < axes->n; k++) {
    AxisRef ref;
    if (!read_axis(l, at, mesh, axes->list[k], &ref) || !cut_axis(l, at, mesh, ref.axis, ref.pre) ||
        !cut_axis(l, at, mesh, ref.axis, ref.pre * ref.size))
      return false;
  }
  return true;
}

// Takes the axes into use in their order; *product is the number of pieces they make.
static bool use_axes(MlLower *l, const HlMlOp *at, Mesh *mesh, const HlMlAttr *axes,
                     int64_t *product) {
  *product = 1;
  for (int k = 0; axes && k < axes->n; k++) {
    AxisRef ref;
    if (!read_axis(l, at, mesh, axes->list[k], &ref))
      return false;
    for (int p = 0; p < mesh->n_parts; p++) {
      Part *part = &mesh->part[p];
      if (part->axis != ref.axis || part->pre < ref.pre || part->pre >= ref.pre * ref.size ||
          part->used)
        continue;
      part->used = ++mesh->n_used;
      *product *= part->size;
    }
  }
  return true;
}

// The devices with the parts in order of use, the unused ones last.
static void arrange(MlLower *l, const Mesh *mesh, HlSharding *out) {
  HlArena *arena = l->m->arena;
  int n = mesh->n_parts, used = 0;
  int64_t *dims = HL_ARRAY(arena, int64_t, n + 1), *perm = HL_ARRAY(arena, int64_t, n + 1);
  for (int k = 0; k < n; k++)
    dims[k] = mesh->part[k].size;
  for (int order = 1; order <= mesh->n_used; order++)
    for (int k = 0; k < n; k++)
      if (mesh->part[k].used == order)
        perm[used++] = k;
  for (int k = 0; k < n; k++)
    if (!mesh->part[k].used)
      perm[used++] = k;
  HlIota iota = {{dims, n}, {perm, n}};
  if (mesh->devices.n == 0) {
    out->iota = iota;
    return;
  }
  HlI64s places = hl_iota_ids(arena, &iota);
  int64_t *devices = HL_ARRAY(arena, int64_t, places.n + 1);
  for (int k = 0; k < places.n; k++)
    devices[k] = places.at[k] < mesh->devices.n ? mesh->devices.at[places.at[k]] : 0;
  out->devices = (HlI64s){devices, places.n};
}

// --- Shardings ---------------------------------------------------------------------------------------------------

static int64_t count_unused(const Mesh *mesh) {
  int64_t n = 1;
  for (int k = 0; k < mesh->n_parts; k++)
    if (!mesh->part[k].used)
      n *= mesh->part[k].size;
  return n;
}

static const HlMlAttr *dim_axes(const HlMlAttr *dims, int k) {
  return ml_field(dims->list[k], ML_A_AXES);
}

// What becomes of the dimensions, and of what follows them: devices that hold their own, or parts of a sum.
typedef struct Tiling {
  int64_t *tile, *last;
  int n_tile, n_last;
  bool is_cut;  // some dimension is
} Tiling;

static bool tile_dims(MlLower *l, const HlMlOp *at, Mesh *mesh, const HlMlAttr *dims, int rank,
                      Tiling *t) {
  for (int k = 0; k < rank; k++) {
    if (!use_axes(l, at, mesh, dim_axes(dims, k), &t->tile[t->n_tile]))
      return false;
    t->is_cut |= t->tile[t->n_tile++] > 1;
  }
  return true;
}

static bool tile_last(MlLower *l, const HlMlOp *at, Mesh *mesh, const HlMlAttr *axes,
                      HlShardingKind kind, Tiling *t) {
  int64_t pieces;
  if (!use_axes(l, at, mesh, axes, &pieces))
    return false;
  if (pieces > 1) {
    t->tile[t->n_tile++] = pieces;
    t->last[t->n_last++] = kind;
  }
  return true;
}

// The sharding of it; devices that no axis in use tells apart hold the same.
static const HlSharding *sharding_of(MlLower *l, const Mesh *mesh, Tiling *t) {
  HlSharding *sharding = HL_NEW(l->m->arena, HlSharding);
  const int64_t rest = count_unused(mesh);
  if (!t->is_cut && (t->n_last == 0 || (t->n_last == 1 && rest == 1))) {
    sharding->kind = t->n_last == 0 ? HL_SHARDING_REPLICATED : (HlShardingKind)t->last[0];
    return sharding;
  }
  sharding->kind = HL_SHARDING_TILED;
  sharding->replicate_last = rest > 1 && t->n_last == 0;
  if (rest > 1)
    t->tile[t->n_tile++] = rest;
  if (rest > 1 && t->n_last > 0)
    t->last[t->n_last++] = HL_SHARDING_REPLICATED;
  if (t->n_last > 0)
    sharding->last_tile_dims = (HlI64s){t->last, t->n_last};
  sharding->tile = (HlI64s){t->tile, t->n_tile};
  arrange(l, mesh, sharding);
  return hl_sharding_canonical(l->m->arena, sharding);
}

bool ml_sdy_sharding(MlLower *l, const HlMlOp *at, const HlMlAttr *attr, const HlMlAttr *manual,
                     const HlSharding **out) {
  HlArena *arena = l->m->arena;
  Mesh mesh;
  if (attr->kind != HL_ML_A_STRUCT)
    return ml_bad(l, at, "expected a sharding of sdy");
  if (!read_mesh(l, at, ml_field(attr, ML_A_MESH_OR_REF), &mesh))
    return false;
  if (mesh.n == 0 && mesh.devices.n == 1) {
    HlSharding *sharding = HL_NEW(arena, HlSharding);
    *sharding = (HlSharding){.kind = HL_SHARDING_MAXIMAL, .device = mesh.devices.at[0]};
    *out = sharding;
    return true;
  }
  const HlMlAttr *dims = ml_field(attr, ML_A_DIM_SHARDINGS);
  const HlMlAttr *unreduced = ml_field(attr, ML_A_UNREDUCED_AXES);
  const int rank = dims && dims->kind == HL_ML_A_ARRAY ? dims->n : 0;
  for (int k = 0; k < rank; k++)
    if (!cut_all(l, at, &mesh, dim_axes(dims, k)))
      return false;
  if (!cut_all(l, at, &mesh, manual) || !cut_all(l, at, &mesh, unreduced))
    return false;
  Tiling t = {.tile = HL_ARRAY(arena, int64_t, rank + 3), .last = HL_ARRAY(arena, int64_t, 3)};
  if (!tile_dims(l, at, &mesh, dims, rank, &t) ||
      !tile_last(l, at, &mesh, manual, HL_SHARDING_MANUAL, &t) ||
      !tile_last(l, at, &mesh, unreduced, HL_SHARDING_UNREDUCED, &t))
    return false;
  *out = sharding_of(l, &mesh, &t);
  return true;
}

static bool per_value(MlLower *l, const HlMlOp *at, const HlMlAttr *list, const HlSharding **out) {
  if (list->n == 0)
    return true;
  if (list->n == 1)
    return ml_sdy_sharding(l, at, list->list[0], NULL, out);
  HlSharding *tuple = HL_NEW(l->m->arena, HlSharding);
  const HlSharding **element = HL_ARRAY(l->m->arena, const HlSharding *, list->n);
  for (int k = 0; k < list->n; k++)
    if (!ml_sdy_sharding(l, at, list->list[k], NULL, &element[k]))
      return false;
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = list->n};
  *out = tuple;
  return true;
}

bool ml_sdy_attr(MlLower *l, const HlMlOp *at, const HlMlAttr *attr, const HlSharding **sharding,
                 HlDict *frontend) {
  const HlMlAttr *list = ml_field(attr, ML_A_SHARDINGS);
  ml_frontend_text(l, frontend, "xla.sdy.sharding", attr);
  if (list && list->kind == HL_ML_A_ARRAY)
    return per_value(l, at, list, sharding);
  return ml_sdy_sharding(l, at, attr, NULL, sharding);
}

bool ml_sdy_module(MlLower *l) {
  if (!l->shared->meshes)
    return true;
  HlDict dict = l->m->frontend_attributes;
  ml_frontend_text(l, &dict, "xla.sdy.meshes", l->shared->meshes);
  hl_set_module_attributes(l->m, dict);
  return true;
}

// --- Replica groups over mesh axes ---------------------------------------------------------------------------------

HlI64Lists ml_mesh_groups(MlLower *l, const HlMlOp *op, const HlMlAttr *attr) {
  Mesh mesh;
  HlI64Lists none = {0};
  const HlMlAttr *axes = ml_field(attr, ML_A_AXES);
  int64_t size;
  if (!read_mesh(l, op, ml_field(attr, ML_A_MESH), &mesh) || !cut_all(l, op, &mesh, axes) ||
      !use_axes(l, op, &mesh, axes, &size))
    return none;
  HlSharding order = {0};
  arrange(l, &mesh, &order);
  HlI64s devices = order.devices.n > 0 ? order.devices : hl_iota_ids(l->m->arena, &order.iota);
  if (size < 1 || devices.n % size != 0)
    return none;
  // Axes of a group stand first; members of one group are therefore n_groups apart.
  int n_groups = devices.n / (int)size;
  HlI64s *list = HL_ARRAY(l->m->arena, HlI64s, n_groups + 1);
  for (int g = 0; g < n_groups; g++) {
    int64_t *group = HL_ARRAY(l->m->arena, int64_t, size);
    for (int k = 0; k < size; k++)
      group[k] = devices.at[k * n_groups + g];
    list[g] = (HlI64s){group, (int)size};
  }
  return (HlI64Lists){list, n_groups};
}

bool ml_mesh_form(MlLower *l, const HlMlOp *op, const HlMlAttr *attr, HlGroups *out) {
  Mesh mesh;
  HlArena *arena = l->m->arena;
  const HlMlAttr *axes = ml_field(attr, ML_A_AXES);
  if (!read_mesh(l, op, ml_field(attr, ML_A_MESH), &mesh) || !axes || axes->kind != HL_ML_A_ARRAY)
    return axes ? false : ml_bad(l, op, "replica groups of a mesh want axes");
  HlMesh *form = HL_NEW(arena, HlMesh);
  const HlSym **names = HL_ARRAY(arena, const HlSym *, mesh.n + 1);
  HlAxisRef *refs = HL_ARRAY(arena, HlAxisRef, axes->n + 1);
  for (int k = 0; k < mesh.n; k++)
    names[k] = mesh.name[k] ? ml_sym(l, mesh.name[k]) : hl_sym(l->m, "");
  for (int k = 0; k < axes->n; k++) {
    AxisRef ref;
    if (!read_axis(l, op, &mesh, axes->list[k], &ref))
      return false;
    bool whole = ref.pre == 1 && ref.size == mesh.size[ref.axis];
    refs[k] = (HlAxisRef){ref.axis, whole ? 0 : ref.pre, whole ? 0 : ref.size};
  }
  HlI64s sizes = {mesh.size, mesh.n};
  *form = (HlMesh){.axis = names,
                   .size = hl_i64s_copy(arena, sizes).at,
                   .n = mesh.n,
                   .devices = mesh.devices,
                   .maximal_device = -1};
  *out = (HlGroups){.form = HL_GROUPS_MESH, .mesh = form, .axes = {refs, axes->n}};
  return true;
}

// --- Ops --------------------------------------------------------------------------------------------------------------

static HlInst *make_call(MlLower *l, HlBuild *b, HlCallTarget target, const HlShape *shape, int n,
                         HlInst *const *in, bool has_side_effect) {
  HlAttr attrs[] = {
      {.key = HL_A_CUSTOM_CALL_TARGET, .sym = hl_sym(l->m, hl_call_info[target].name)},
      {.key = HL_A_HAS_SIDE_EFFECT, .i = has_side_effect}};
  return hl_b_op(b, HL_OP_CUSTOM_CALL, shape, n, in, 2, attrs, 0, NULL);
}

static bool constrain(MlLower *l, HlBuild *b, const HlMlOp *op, const HlMlAttr *sharding) {
  HlInst *x = ml_in(l, b, op, 0);
  if (!x || !sharding)
    return x ? ml_bad(l, op, "%s without a sharding", op->name->text) : false;
  const HlMlNamed field = ml_named(l->tree, ML_A_SHARDINGS, hl_ml_array(l->tree, 1, &sharding));
  ml_frontend_text(l, &b->frontend, "xla.sdy.sharding",
                   hl_ml_struct(l->tree, ml_def_text[ML_D_PER_VALUE], 1, &field));
  if (!ml_sdy_sharding(l, op, sharding, NULL, &b->sharding))
    return false;
  // Partial sums must not be looked at as if they were values.
  const HlMlAttr *unreduced = ml_field(sharding, ML_A_UNREDUCED_AXES);
  bool is_partial = unreduced && unreduced->kind == HL_ML_A_ARRAY && unreduced->n > 0;
  return ml_set_results(l, b, op, make_call(l, b, HL_CALL_SHARDING, x->shape, 1, &x, is_partial));
}

bool ml_lower_sdy_constraint(MlLower *l, HlBuild *b, const HlMlOp *op) {
  return constrain(l, b, op, ml_attr(op, ML_A_SHARDING));
}

// Seen from the whole program, sdy's collectives change where a value lies and nothing else.
bool ml_lower_sdy_collective(MlLower *l, HlBuild *b, const HlMlOp *op) {
  return constrain(l, b, op, ml_attr(op, ML_A_OUT_SHARDING));
}

bool ml_lower_sdy_edge(MlLower *l, HlBuild *b, const HlMlOp *op) {
  return ml_set(l, &op->results[0], ml_in(l, b, op, 0));
}

bool ml_lower_sdy_group(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  const HlMlAttr *id = ml_attr(op, ML_A_GROUP_ID);
  if (!x)
    return false;
  if (id)
    ml_frontend_text(l, &b->frontend, "xla.sdy.sharding_group_id", id);
  return make_call(l, b, HL_CALL_SDY_GROUP, hl_shape_tuple(l->m->shapes, 0, NULL), 1, &x, true) !=
         NULL;
}

bool ml_lower_sdy_barrier(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  if (!x)
    return false;
  ml_frontend_text(l, &b->frontend, "xla.sdy.allowed_direction",
                   hl_ml_int(l->tree, hl_ml_int_type(l->tree, 32, HL_ML_SIGNLESS),
                             ml_attr_int(op, ML_A_ALLOWED_DIRECTION, 0)));
  return ml_set_results(l, b, op, make_call(l, b, HL_CALL_SDY_BARRIER, x->shape, 1, &x, true));
}

// Values in and out of the body have the local types, so custom calls stand on either side of its call.
static bool local_values(MlLower *l, HlBuild *b, const HlMlOp *op, const HlMlBlock *body,
                         HlInst **in) {
  HlInst **all = ml_ins(l, b, op, 0, op->n_operands);
  const HlShape **shape = HL_ARRAY(l->arena, const HlShape *, op->n_operands + 1);
  if (!all || body->n_args != (int)op->n_operands)
    return all ? ml_bad(l, op, "the body takes %d values, expected %u", body->n_args,
                        op->n_operands)
               : false;
  int n = body->n_args;
  if (n == 0)
    return true;
  for (int k = 0; k < n; k++)
    if (!(shape[k] = ml_shape(l, op, body->args[k]->type)))
      return false;
  HlBuild own = *b;
  own.frontend = (HlDict){0};
  ml_frontend_text(l, &own.frontend, "xla.sdy.in_shardings", ml_attr(op, ML_A_IN_SHARDINGS));
  ml_frontend_text(l, &own.frontend, "xla.sdy.manual_axes", ml_attr(op, ML_A_MANUAL_AXES));
  const HlShape *result = n == 1 ? shape[0] : hl_shape_tuple(l->m->shapes, n, shape);
  HlInst *call = make_call(l, &own, HL_CALL_SDY_GLOBAL_TO_LOCAL, result, n, all, true);
  HlBuild bare = *b;
  bare.frontend = (HlDict){0};
  for (int k = 0; k < n; k++)
    if (!(in[k] = n == 1 ? call : hl_b_element(&bare, call, k)))
      return false;
  return true;
}

static HlComp *body_comp(MlLower *l, HlBuild *b, const HlMlOp *op, const char *called,
                         const HlMlBlock *body) {
  int undo;
  HlBuild own = ml_enter(l, b, called, &undo);
  const HlMlOp *end = NULL;
  bool ok = true;
  for (int k = 0; ok && k < body->n_args; k++) {
    const HlShape *shape = ml_shape(l, op, body->args[k]->type);
    const char *name = NULL;
    ml_metadata(l, body->args[k]->location, &name);
    ok = shape && ml_set(l, body->args[k], hl_b_parameter(&own, shape, name));
  }
  ok = ok && ml_lower_block(l, &own, body, &end) && end;
  HlInst **results = ok ? ml_ins(l, &own, end, 0, end->n_operands) : NULL;
  HlInst *root = !results               ? NULL
                 : end->n_operands == 1 ? results[0]
                                        : hl_b_tuple(&own, (int)end->n_operands, results);
  if (root)
    hl_set_root(own.comp, root);
  ml_leave(l, undo);
  return root ? own.comp : NULL;
}

bool ml_lower_sdy_manual(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlBlock *body = hl_ml_body(op, 0);
  if (!body || !ml_attr(op, ML_A_IN_SHARDINGS) || !ml_attr(op, ML_A_OUT_SHARDINGS) ||
      !ml_attr(op, ML_A_MANUAL_AXES))
    return ml_bad(l, op, "%s wants a body, shardings and manual axes", op->name->text);
  HlInst **in = HL_ARRAY(l->arena, HlInst *, op->n_operands + 1);
  HlComp *comp = local_values(l, b, op, body, in)
                     ? body_comp(l, b, op, "xla.sdy.manual_computation_body", body)
                     : NULL;
  if (!comp)
    return false;
  HlBuild own = *b;
  own.frontend = ml_dict_with(l, (HlDict){0}, "inlineable", "false", 5);
  HlInst *call = hl_b_call(&own, comp, (int)op->n_operands, in);
  int n = (int)op->n_results;
  if (!call || n == 0)
    return call != NULL;
  HlInst **local = HL_ARRAY(l->arena, HlInst *, n + 1);
  for (int k = 0; k < n; k++)
    if (!(local[k] = n == 1 ? call : hl_b_element(&own, call, k)))
      return false;
  own.frontend = (HlDict){0};
  ml_frontend_text(l, &own.frontend, "xla.sdy.manual_axes", ml_attr(op, ML_A_MANUAL_AXES));
  ml_frontend_text(l, &own.frontend, "xla.sdy.out_shardings", ml_attr(op, ML_A_OUT_SHARDINGS));
  const HlShape *shape = ml_result_shape(l, op);
  HlInst *out =
      shape ? make_call(l, &own, HL_CALL_SDY_LOCAL_TO_GLOBAL, shape, n, local, true) : NULL;
  return out && ml_set_results(l, b, op, out);
}

// A function that stands where it is called.
bool ml_lower_sdy_named(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlBlock *body = hl_ml_body(op, 0);
  const HlSym *name = ml_attr_sym(op, ML_A_NAME);
  if (!body || !name)
    return ml_bad(l, op, "%s wants a body and a name", op->name->text);
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  HlComp *comp = in ? body_comp(l, b, op, name->text, body) : NULL;
  HlInst *call = comp ? hl_b_call(b, comp, (int)op->n_operands, in) : NULL;
  return call && ml_set_results(l, b, op, call);
}
