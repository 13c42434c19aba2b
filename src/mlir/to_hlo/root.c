// Lowers collectives with a root: collective_reduce, and collective_broadcast whose root is known at run time only.
//
// HLO's collective-broadcast sends what the first member of a group has. So every member of a group sends in turn, and
// each device folds, or picks, what it has got:
//
//   x_i = collective-broadcast(x), replica_groups={{...member i first...}}
//   reduce: fold(x_0, x_1, ...) on the root, zeros elsewhere;  broadcast: x_root
#include <string.h>

#include "mlir/to_hlo/to_hlo.h"

typedef struct Rooted {
  MlLower *l;
  HlBuild *b;
  const HlMlOp *op;
  HlI64Lists groups;
  int64_t channel;  // 0: between replicas, else between partitions
  int size;         // members of the largest group
} Rooted;

static bool read_groups(Rooted *r) {
  const HlMlAttr *attr = ml_attr(r->op, ML_A_REPLICA_GROUPS);
  r->groups = ml_groups(r->l, r->op, attr);
  r->channel = ml_field_int(ml_attr(r->op, ML_A_CHANNEL_HANDLE), ML_A_HANDLE, 0);
  for (int g = 0; g < r->groups.n; g++)
    r->size = r->groups.at[g].n > r->size ? r->groups.at[g].n : r->size;
  return r->size > 0 || ml_bad(r->l, r->op, "replica_groups has no members");
}

// The groups with member `first` in front; what a group has not, its last member stands in for.
static const HlGroups *groups_from(Rooted *r, int first) {
  HlArena *arena = r->l->m->arena;
  HlI64s *list = HL_ARRAY(arena, HlI64s, r->groups.n);
  for (int g = 0; g < r->groups.n; g++) {
    const HlI64s group = r->groups.at[g];
    int64_t *ids = HL_ARRAY(arena, int64_t, group.n + 1);
    const int front = first < group.n ? first : group.n - 1;
    int n = 0;
    ids[n++] = group.at[front];
    for (int k = 0; k < group.n; k++)
      if (k != front)
        ids[n++] = group.at[k];
    list[g] = (HlI64s){ids, n};
  }
  HlGroups *out = HL_NEW(arena, HlGroups);
  out->form = HL_GROUPS_LIST;
  out->list = (HlI64Lists){list, r->groups.n};
  return out;
}

static HlInst *send_from(Rooted *r, HlInst *x, int member) {
  HlAttr attrs[2] = {{.key = HL_A_REPLICA_GROUPS, .ptr = groups_from(r, member)}};
  if (r->channel > 0)
    attrs[1] = (HlAttr){.key = HL_A_CHANNEL_ID, .i = r->channel};
  return x ? hl_b_op(r->b, HL_OP_COLLECTIVE_BROADCAST, x->shape, 1, &x, r->channel > 0 ? 2 : 1,
                     attrs, 0, NULL)
           : NULL;
}

// This device's place in its group, s32[]; -1 where it is in none.
static HlInst *own_place(Rooted *r) {
  int64_t last = 0;
  for (int g = 0; g < r->groups.n; g++)
    for (int k = 0; k < r->groups.at[g].n; k++)
      last = r->groups.at[g].at[k] > last ? r->groups.at[g].at[k] : last;
  enum { MOST = 1 << 20 };
  if (last >= MOST) {
    ml_bad(r->l, r->op, "replica_groups names the device %lld", (long long)last);
    return NULL;
  }
  const int64_t n = last + 2;  // the last entry is for all devices beyond
  HlShapes *shapes = r->l->m->shapes;
  HlLiteral *table = hl_literal_new(r->l->cx, hl_shape_array(shapes, HL_S32, 1, &n));
  if (!table)
    return NULL;
  for (int64_t k = 0; k < n; k++)
    hl_literal_set_i64(table, k, -1);
  for (int g = 0; g < r->groups.n; g++)
    for (int k = 0; k < r->groups.at[g].n; k++)
      if (r->groups.at[g].at[k] >= 0)
        hl_literal_set_i64(table, r->groups.at[g].at[k], k);
  HlInst *places = hl_b_constant(r->b, table);
  hl_literal_unref(table);
  const HlOp who = r->channel > 0 ? HL_OP_PARTITION_ID : HL_OP_REPLICA_ID;
  HlInst *id = hl_b_op(r->b, who, hl_shape_scalar(shapes, HL_U32), 0, NULL, 0, NULL, 0, NULL);
  HlInst *at = hl_b_convert(r->b, id, HL_S32);
  const int64_t one = 1;
  return hl_b_reshape(r->b, hl_b_dynamic_slice(r->b, places, &at, &one), 0, NULL);
}

// The root of data operand k: the first of the group, or what the last operand says.
static HlInst *root_of(Rooted *r, HlInst *roots, int k) {
  if (!roots)
    return hl_b_scalar_int(r->b, HL_S32, 0);
  return hl_b_reshape(r->b, hl_b_slice_dim(r->b, roots, 0, k, k + 1), 0, NULL);
}

// The value that the root has sent.
static HlInst *picked(Rooted *r, HlInst *x, HlInst *root) {
  HlInst *out = send_from(r, x, 0);
  for (int i = 1; i < r->size; i++) {
    HlInst *is = hl_b_compare(r->b, HL_WORD_direction_EQ, root, hl_b_scalar_int(r->b, HL_S32, i));
    out = hl_b_select(r->b, is, send_from(r, x, i), out);
  }
  return out;
}

// The fold of what all members have sent, on the root.
static HlInst *folded(Rooted *r, HlInst *x, HlInst *root, HlInst *place, HlComp *comp) {
  HlInst *sum = send_from(r, x, 0);
  int64_t *all = HL_ARRAY(r->l->m->arena, int64_t, x->shape->rank + 1);
  for (int d = 0; d < x->shape->rank; d++)
    all[d] = d;
  HlAttr dims = {.key = HL_A_DIMENSIONS, .ints = {all, x->shape->rank}};
  for (int i = 1; i < r->size && sum; i++) {
    HlInst *next = send_from(r, x, i), *both[] = {sum, next};
    sum = next ? hl_b_op(r->b, HL_OP_MAP, NULL, 2, both, 1, &dims, 1, &comp) : NULL;
  }
  HlInst *is_root = hl_b_compare(r->b, HL_WORD_direction_EQ, place, root);
  return hl_b_select(r->b, is_root, sum, hl_b_like(r->b, x, 0));
}

static bool lower_rooted(MlLower *l, HlBuild *b, const HlMlOp *op, bool reduces) {
  Rooted r = {.l = l, .b = b, .op = op};
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  if (!in || !read_groups(&r))
    return false;
  const bool is_dynamic = ml_attr_true(op, ML_A_HAS_DYNAMIC_ROOT);
  HlInst *roots = is_dynamic ? in[op->n_operands - 1] : NULL;
  HlInst *place = reduces ? own_place(&r) : NULL;
  HlComp *comp = reduces ? ml_region_comp(l, b, op, 0) : NULL;
  if (reduces && (!place || !comp))
    return false;
  for (uint32_t k = 0; k < op->n_results; k++) {
    HlInst *root = root_of(&r, roots, (int)k);
    HlInst *out = reduces ? folded(&r, in[k], root, place, comp) : picked(&r, in[k], root);
    if (!ml_set(l, &op->results[k], out))
      return false;
  }
  return true;
}

bool ml_lower_collective_reduce(MlLower *l, HlBuild *b, const HlMlOp *op) {
  return lower_rooted(l, b, op, true);
}

bool ml_lower_dynamic_broadcast(MlLower *l, HlBuild *b, const HlMlOp *op) {
  return lower_rooted(l, b, op, false);
}
