// opt/collective/group_by_key.c: collectives that the program gave one key start and end as one.
//
// group-collectives-by-key: exchanges to which the program gave one key, collective_group_key="K", are launched together.
//
//   a = f32[8] all-reduce(x), ..          work { .. a' = all-reduce(p0), b' = all-gather(p1), ROOT t = tuple(a', b') }
//   b = f32[32] all-gather(y), ..    =>   s = ((f32[8], f32[8]), (f32[8], f32[32])) async-start(x, y), calls=work
//                                         d = (f32[8], f32[32]) async-done(s)
//                                         a = f32[8] get-tuple-element(d), index=0, b = .. index=1
//
// The key says that none of them needs another; where that is not so, and where two groups need each other, there is no
// such program, and the pass fails, as in XLA. The halves are marked _collectives_group="" and keep all that was said of
// the members; inside, no member belongs to a scheduling group of its own.

#include <stdlib.h>
#include <string.h>

#include "hilo/edit.h"
#include "opt/ask/async_halves.h"
#include "opt/ask/frontend.h"
#include "opt/passes.h"

typedef struct Group {
  const char *key;
  HlInst **at;
  int n;
} Group;

// --- Finding them -------------------------------------------------------------------------------

static const char *key_of(const HlInst *inst) {
  const bool is_exchange =
      hl_op_is((HlOp)inst->op, HL_T_COLLECTIVE) && !hl_is_async((HlOp)inst->op);
  return is_exchange ? frontend_get(inst, "collective_group_key") : "";
}

static int by_key(const void *a, const void *b) {
  const HlInst *x = *(HlInst *const *)a, *y = *(HlInst *const *)b;
  const int order = strcmp(key_of(x), key_of(y));
  return order != 0 ? order : x->order < y->order ? -1 : 1;
}

static HlInst **find_members(HlPass *p, HlComp *comp, int *n) {
  int n_insts;
  HlInst **insts = hl_pass_insts(p, comp, &n_insts);
  *n = 0;
  for (int k = 0; k < n_insts; k++)
    if (*key_of(insts[k]))
      insts[(*n)++] = insts[k];
  qsort(insts, (size_t)*n, sizeof *insts, by_key);
  return insts;
}

static Group *find_groups(HlPass *p, HlInst **member, int n, int *n_groups) {
  Group *group = HL_ARRAY(p->arena, Group, n + 1);
  *n_groups = 0;
  for (int k = 0, end; k < n; k = end) {
    const char *key = key_of(member[k]);
    for (end = k + 1; end < n && strcmp(key_of(member[end]), key) == 0;)
      end++;
    if (end - k > 1)
      group[(*n_groups)++] = (Group){key, member + k, end - k};
    else
      hl_warn(p->cx, hl_pos(member[k]),
              "no other collective of %s has the collective_group_key %s: %s stays alone",
              member[k]->comp->name->text, key, member[k]->name->text);
  }
  return group;
}

static bool reaches(HlPass *p, const Group *from, const Group *to) {
  for (int i = 0; i < from->n; i++)
    for (int j = 0; j < to->n; j++)
      if (hl_reaches(p, from->at[i], to->at[j]))
        return true;
  return false;
}

static bool is_independent(HlPass *p, const Group *group) {
  for (int i = 0; i < group->n; i++)
    for (int j = 0; j < group->n; j++)
      if (i != j && hl_reaches(p, group->at[i], group->at[j]))
        return hl_error(p->cx, hl_pos(group->at[j]),
                        "%s needs %s, but both have the collective_group_key %s: expected "
                        "independent collectives",
                        group->at[j]->name->text, group->at[i]->name->text, group->key);
  return true;
}

// Takes away those that need none of the others left, until none is left.
static bool is_acyclic(HlPass *p, const HlComp *comp, const Group *group, int n) {
  const Group **left = HL_ARRAY(p->arena, const Group *, n + 1);
  for (int k = 0; k < n; k++)
    left[k] = &group[k];
  for (int n_left = n; n_left > 0;) {
    int k = 0;
    for (bool needs = true; k < n_left; k += needs) {
      needs = false;
      for (int j = 0; j < n_left && !needs; j++)
        needs = j != k && reaches(p, left[j], left[k]);
      if (!needs)
        break;
    }
    if (k == n_left)
      return hl_error(p->cx, hl_pos(left[0]->at[0]),
                      "in %s collectives of the collective_group_key %s need some of another key, "
                      "and the other way round",
                      comp->name->text, left[0]->key);
    left[k] = left[--n_left];
  }
  return true;
}

// --- Making one ---------------------------------------------------------------------------------

static int count_operands(const Group *group) {
  int n = 0;
  for (int k = 0; k < group->n; k++)
    n += (int)group->at[k]->n_operands;
  return n;
}

static HlComp *copy_members(HlPass *p, const HlBuild *b, const Group *group, const HlInst *like) {
  HlBuild inner = hl_b_nested(b, "collectives_group");
  HlInst **copy = HL_ARRAY(p->arena, HlInst *, group->n);
  for (int k = 0; k < group->n; k++) {
    const HlInst *member = group->at[k];
    HlInst **param = HL_ARRAY(p->arena, HlInst *, member->n_operands + 1);
    for (uint32_t i = 0; i < member->n_operands; i++)
      param[i] = hl_b_parameter(&inner, member->operands[i]->shape,
                                hl_arena_printf(p->arena, "c%d_operand_%u", k, i));
    copy[k] = hl_inst_copy(inner.comp, member, NULL, (int)member->n_operands, param);
    frontend_remove(copy[k], "_scheduling_group_id");
  }
  inner.metadata = NULL;
  HlInst *root = hl_b_tuple(&inner, group->n, copy);
  frontend_set(root, like, "_collectives_group", "");
  hl_set_root(inner.comp, root);
  return inner.comp;
}

// The shardings of all leaves, for what starts: those of operands and of results. None has one: none.
typedef struct Leaves {
  const HlSharding **at;
  int n;
  bool any;
} Leaves;

static int n_leaves(const HlShape *shape) {
  int n = 0;
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    n += n_leaves(shape->element[k]);
  return hl_shape_is_tuple(shape) ? n : 1;
}

static void add_leaves(Leaves *leaves, const HlInst *inst, const HlSharding *unknown) {
  const HlSharding *sharding = hl_sharding(inst);
  const int n = n_leaves(inst->shape);
  leaves->any |= sharding != NULL;
  for (int k = 0; k < n; k++)
    leaves->at[leaves->n++] = !sharding                             ? unknown
                              : sharding->kind == HL_SHARDING_TUPLE ? sharding->element[k]
                                                                    : sharding;
}

static void set_sharding(HlPass *p, HlInst *start, const Group *group) {
  HlArena *arena = p->m->arena;
  HlSharding *unknown = HL_NEW(arena, HlSharding), *tuple = HL_NEW(arena, HlSharding);
  unknown->kind = HL_SHARDING_UNKNOWN;
  Leaves leaves = {.at = HL_ARRAY(arena, const HlSharding *, n_leaves(start->shape) + 1)};
  for (uint32_t k = 0; k < start->n_operands; k++)
    add_leaves(&leaves, start->operands[k], unknown);
  for (int k = 0; k < group->n; k++)
    add_leaves(&leaves, group->at[k], unknown);
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = leaves.at, .n_elements = leaves.n};
  if (leaves.any)
    hl_set_attr(start, &(HlAttr){.key = HL_A_SHARDING, .ptr = tuple});
}

static HlInst *start_group(HlPass *p, HlBuild *b, const Group *group, HlInst **done) {
  const int n = count_operands(group);
  HlInst **operand = HL_ARRAY(p->arena, HlInst *, n + 1);
  const HlShape **in = HL_ARRAY(p->arena, const HlShape *, n + 1);
  const HlShape **out = HL_ARRAY(p->arena, const HlShape *, group->n);
  for (int k = 0, at = 0; k < group->n; k++) {
    out[k] = group->at[k]->shape;
    for (uint32_t i = 0; i < group->at[k]->n_operands; i++, at++) {
      operand[at] = group->at[k]->operands[i];
      in[at] = operand[at]->shape;
    }
  }
  const HlShape *parts[2] = {hl_shape_tuple(p->m->shapes, n, in),
                             hl_shape_tuple(p->m->shapes, group->n, out)};
  HlInst *start = hl_inst_new(b->comp, HL_OP_ASYNC_START, hl_shape_tuple(p->m->shapes, 2, parts),
                              NULL, n, operand);
  *done = hl_inst_new(b->comp, HL_OP_ASYNC_DONE, parts[1], NULL, 1, &start);
  async_inherit(start, group->at[0]);
  frontend_merge(start, group->n, group->at);
  frontend_set(start, start, "_collectives_group", "");
  async_inherit(*done, start);
  HlComp *work = copy_members(p, b, group, start);
  hl_set_calls(start, 1, &work);
  set_sharding(p, start, group);
  return start;
}

// What a member waited for the start waits for; what waited for it waits for the end.
static void make_group(HlPass *p, const Group *group) {
  HlBuild b;
  hl_begin(p, "group", group->at[0], &b);
  HlInst *done, *start = start_group(p, &b, group, &done);
  HlInst **element = HL_ARRAY(p->arena, HlInst *, group->n);
  for (int k = 0; k < group->n; k++) {
    const HlControl *control = group->at[k]->control;
    element[k] = hl_b_element(&b, done, k);
    for (int i = 0; control && i < control->n_preds; i++)
      hl_add_control(control->preds[i], start);
    if (k > 0)
      hl_also(p, group->at[k], element[k]);
  }
  if (!hl_commit(p, element[0]))
    return;
  for (int k = 0; k < group->n; k++) {
    hl_remove_attr(element[k], HL_A_FRONTEND_ATTRIBUTES);
    async_hand_on(element[k], done);
  }
}

bool pass_group_collectives_by_key(HlPass *p) {
  p->relay_control = true;
  int n_comps;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n_comps);
  for (int c = 0; c < n_comps; c++) {
    if (comps[c]->schedule || async_is_body(comps[c]))
      continue;
    int n, n_groups;
    HlInst **member = find_members(p, comps[c], &n);
    const Group *group = find_groups(p, member, n, &n_groups);
    for (int k = 0; k < n_groups; k++)
      if (!is_independent(p, &group[k]))
        return false;
    if (!is_acyclic(p, comps[c], group, n_groups))
      return false;
    for (int k = 0; k < n_groups; k++)
      make_group(p, &group[k]);
  }
  return true;
}
