// tool/shrink/reduce_ranks.c: drops dimensions of size 1, which reduce_sizes leaves of all that need not be larger.
//
// An op knows which dimensions of its result it can do without, and what it then asks of its operands:
//
//   b = f32[1,4] broadcast(x), dimensions={1}    =>    b = f32[4] broadcast(x), dimensions={0}
//   s = f32[1,4] add(b, y)                       =>    s = f32[4] add(b, reshape(y))
//
// Where somebody wants another shape than there is now, a reshape stands between. Instructions that hand such dimensions to each
// other are one thing to try, so that these are few; a reshape of a reshape is one. A candidate must not be larger than the best.

#include <string.h>

#include "hilo/op.h"
#include "tool/shrink/reduce.h"

enum { MOST_RANK = 64 };

// Dimensions of an array: bit d.
typedef uint64_t Dims;

static bool has(Dims dims, int64_t d) {
  return dims >> d & 1;
}

static Dims unit_dims(const HlShape *shape) {
  Dims out = 0;
  if (!hl_shape_is_array(shape) || hl_shape_is_dynamic(shape) || shape->rank > MOST_RANK - 1)
    return 0;
  for (int d = 0; d < shape->rank; d++)
    out |= (Dims)(shape->dim[d] == 1) << d;
  return out;
}

static const HlShape *without(HlShapes *shapes, const HlShape *shape, Dims dims) {
  int64_t dim[MOST_RANK];
  int n = 0;
  for (int d = 0; d < shape->rank; d++)
    if (!has(dims, d))
      dim[n++] = shape->dim[d];
  const HlShape *out = hl_shape_array(shapes, shape->dtype, n, dim);
  return shape->layout ? hl_shape_with_default_layout(shapes, out) : out;
}

// Where dimension d stands once these are gone.
static int64_t place(Dims dims, int64_t d) {
  return d - __builtin_popcountll(dims & (((Dims)1 << d) - 1));
}

// A list of dimensions without these, numbered anew.
static HlI64s renumbered(HlArena *arena, HlI64s list, Dims gone) {
  int64_t *at = HL_ARRAY(arena, int64_t, list.n + 1);
  int n = 0;
  for (int k = 0; k < list.n; k++)
    if (!has(gone, list.at[k]))
      at[n++] = place(gone, list.at[k]);
  return (HlI64s){at, n};
}

// --- What each op can do without ------------------------------------------------------------------------
//
// `out`: dimensions of the result that may go; `in`: those of each operand that then go, too.

enum { MOST_OPERANDS = 64 };

typedef struct Drop {
  Dims out, in[MOST_OPERANDS];
} Drop;

static void set_all(const HlInst *inst, Drop *drop) {
  for (uint32_t k = 0; k < inst->n_operands; k++)
    drop->in[k] = inst->operands[k]->shape->rank == inst->shape->rank ? drop->out : 0;
}

static void drop_broadcast(const HlInst *inst, Drop *drop) {
  const HlI64s dims = hl_dims(inst);
  for (int k = 0; k < dims.n; k++)
    drop->in[0] |= (Dims)has(drop->out, dims.at[k]) << k;
}

static void drop_transpose(const HlInst *inst, Drop *drop) {
  const HlI64s perm = hl_dims(inst);
  for (int k = 0; k < perm.n; k++)
    drop->in[0] |= (Dims)has(drop->out, k) << perm.at[k];
}

static bool among(HlI64s list, int64_t d) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] == d)
      return true;
  return false;
}

static void drop_reduce(const HlInst *inst, Drop *drop) {
  const int rank = inst->operands[0]->shape->rank;
  int k = 0;
  if (inst->n_operands != 2 || rank > MOST_RANK - 1) {
    drop->out = 0;
    return;
  }
  for (int d = 0; d < rank; d++)
    if (!among(hl_dims(inst), d))
      drop->in[0] |= (Dims)has(drop->out, k++) << d;
}

// Of the result: batch, then what is left of the left operand, then of the right one.
static void drop_dot(const HlInst *inst, Drop *drop) {
  const HlI64s batch[] = {hl_attr_ints(inst, HL_A_LHS_BATCH_DIMS),
                          hl_attr_ints(inst, HL_A_RHS_BATCH_DIMS)};
  const HlI64s summed[] = {hl_attr_ints(inst, HL_A_LHS_CONTRACTING_DIMS),
                           hl_attr_ints(inst, HL_A_RHS_CONTRACTING_DIMS)};
  int at = batch[0].n;
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < batch[k].n; i++)
      drop->in[k] |= (Dims)has(drop->out, i) << batch[k].at[i];
    for (int d = 0; d < inst->operands[k]->shape->rank; d++)
      if (!among(batch[k], d) && !among(summed[k], d))
        drop->in[k] |= (Dims)has(drop->out, at++) << d;
  }
}

static void keep_where(Drop *drop, int64_t d, bool keep) {
  if (keep)
    drop->out &= ~((Dims)1 << d);
}

// Of a slice only what was one before.
static void drop_slice(const HlInst *inst, Drop *drop) {
  for (int d = 0; d < inst->shape->rank; d++)
    keep_where(drop, d, inst->operands[0]->shape->dim[d] != 1);
  set_all(inst, drop);
}

static void drop_iota(const HlInst *inst, Drop *drop) {
  keep_where(drop, hl_attr_int(inst, HL_A_IOTA_DIMENSION), true);
}

static void drop_concatenate(const HlInst *inst, Drop *drop) {
  keep_where(drop, hl_dim(inst), true);
  set_all(inst, drop);
}

static void drop_reshape(const HlInst *inst, Drop *drop) {
}  // whatever its operand has

typedef void DropRule(const HlInst *inst, Drop *drop);
static DropRule *const drop_rule[HL_OP_COUNT] = {
    [HL_OP_RESHAPE] = drop_reshape,
    [HL_OP_IOTA] = drop_iota,
    [HL_OP_BROADCAST] = drop_broadcast,
    [HL_OP_TRANSPOSE] = drop_transpose,
    [HL_OP_REDUCE] = drop_reduce,
    [HL_OP_DOT] = drop_dot,
    [HL_OP_SLICE] = drop_slice,
    [HL_OP_REVERSE] = set_all,
    [HL_OP_CONCATENATE] = drop_concatenate,
};

// Whether the op is known here; `drop` says what of `out` can go.
static bool find_drop(const HlInst *inst, Dims out, Drop *drop) {
  *drop = (Drop){.out = out};
  if (drop->out == 0 || inst->n_operands > MOST_OPERANDS)
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!hl_shape_is_array(inst->operands[k]->shape) ||
        hl_shape_is_dynamic(inst->operands[k]->shape))
      return false;
  if (inst->op == HL_OP_PARAMETER)
    return inst->comp == inst->comp->module->entry;
  if (inst->op == HL_OP_CONSTANT)
    return hl_constant(inst) != NULL;
  DropRule *rule = drop_rule[inst->op];
  if (!rule && hl_op_is((HlOp)inst->op, HL_T_ELEMENTWISE) && inst->n_operands > 0)
    rule = set_all;
  if (!rule)
    return false;
  rule(inst, drop);
  return drop->out != 0;
}

// --- Dropping -------------------------------------------------------------------------------------------

typedef struct Squeeze {
  HlCx *cx;
  HlModule *m;
  HlArena *arena;
  Drop *drop;           // [place]
  const HlInst **inst;  // [place], those that are squeezed
  const HlShape **was;  // [place]
  int n;
  int *at;  // [serial]: 1 + place
} Squeeze;

static HlInst *reshaped(Squeeze *s, HlInst *value, const HlShape *shape) {
  while (value->op == HL_OP_RESHAPE && !hl_shape_same_dims(value->shape, shape))
    value = value->operands[0];
  if (hl_shape_same_dims(value->shape, shape))
    return value;
  return hl_inst_new(value->comp, HL_OP_RESHAPE, shape, hl_fresh_name(s->m, "reshape"), 1, &value);
}

static bool squeeze_constant(Squeeze *s, HlInst *inst, const HlShape *shape) {
  const HlLiteral *old = hl_constant(inst);
  HlLiteral *now = hl_literal_is_elided(old) ? hl_literal_new_elided(s->cx, shape)
                                             : hl_literal_reshape(s->cx, old, shape);
  if (!now)
    return false;
  hl_set_attr(inst, &(HlAttr){.key = HL_A_VALUE, .ptr = now});
  hl_literal_unref(now);
  return true;
}

static void set_dims(Squeeze *s, HlInst *inst, HlAttrKey key, Dims gone) {
  hl_set_ints(inst, key, renumbered(s->arena, hl_attr_ints(inst, key), gone));
}

static void squeeze_broadcast(Squeeze *s, HlInst *inst, const Drop *drop) {
  const HlI64s dims = hl_dims(inst);
  int64_t *left = HL_ARRAY(s->arena, int64_t, dims.n + 1);
  int n = 0;
  for (int k = 0; k < dims.n; k++)
    if (!has(drop->in[0], k))
      left[n++] = place(drop->out, dims.at[k]);
  hl_set_ints(inst, HL_A_DIMENSIONS, (HlI64s){left, n});
}

static void squeeze_slice(Squeeze *s, HlInst *inst, const Drop *drop) {
  const HlI64s old = hl_attr_ints(inst, HL_A_SLICE);
  int64_t *now = HL_ARRAY(s->arena, int64_t, old.n + 1);
  int n = 0;
  for (int k = 0; k < old.n; k++)
    if (!has(drop->out, k / 3))
      now[n++] = old.at[k];
  hl_set_ints(inst, HL_A_SLICE, (HlI64s){now, n});
}

static void squeeze_iota(Squeeze *s, HlInst *inst, const Drop *drop) {
  hl_set_int(inst, HL_A_IOTA_DIMENSION, place(drop->out, hl_attr_int(inst, HL_A_IOTA_DIMENSION)));
}

static void squeeze_concatenate(Squeeze *s, HlInst *inst, const Drop *drop) {
  hl_set_int(inst, HL_A_DIMENSION, place(drop->out, hl_dim(inst)));
}

static void squeeze_dims(Squeeze *s, HlInst *inst, const Drop *drop) {
  set_dims(s, inst, HL_A_DIMENSIONS, drop->in[0]);
}

static void squeeze_dot(Squeeze *s, HlInst *inst, const Drop *drop) {
  set_dims(s, inst, HL_A_LHS_BATCH_DIMS, drop->in[0]);
  set_dims(s, inst, HL_A_RHS_BATCH_DIMS, drop->in[1]);
  set_dims(s, inst, HL_A_LHS_CONTRACTING_DIMS, drop->in[0]);
  set_dims(s, inst, HL_A_RHS_CONTRACTING_DIMS, drop->in[1]);
}

typedef void SqueezeRule(Squeeze *s, HlInst *inst, const Drop *drop);
static SqueezeRule *const squeeze_rule[HL_OP_COUNT] = {
    [HL_OP_IOTA] = squeeze_iota,
    [HL_OP_BROADCAST] = squeeze_broadcast,
    [HL_OP_SLICE] = squeeze_slice,
    [HL_OP_TRANSPOSE] = squeeze_dims,
    [HL_OP_REDUCE] = squeeze_dims,
    [HL_OP_REVERSE] = squeeze_dims,
    [HL_OP_CONCATENATE] = squeeze_concatenate,
    [HL_OP_DOT] = squeeze_dot,
};

static void squeeze_attrs(Squeeze *s, HlInst *inst, const Drop *drop) {
  if (squeeze_rule[inst->op])
    squeeze_rule[inst->op](s, inst, drop);
  hl_remove_attr(inst, HL_A_SHARDING);
  if (inst->op != HL_OP_CUSTOM_CALL)
    hl_remove_attr(inst, HL_A_BACKEND_CONFIG);
}

static bool squeeze(Squeeze *s, int k) {
  HlInst *inst = (HlInst *)(uintptr_t)s->inst[k];
  const HlShape *shape = without(s->m->shapes, inst->shape, s->drop[k].out);
  if (inst->op == HL_OP_CONSTANT && !squeeze_constant(s, inst, shape))
    return false;
  squeeze_attrs(s, inst, &s->drop[k]);
  hl_set_shape(inst, shape);
  return true;
}

static const HlShape *shape_before(const Squeeze *s, const HlInst *inst) {
  const int at = s->at[inst->serial];
  return at ? s->was[at - 1] : inst->shape;
}

// What was of another shape than it is now, for all that use it. Results may have it.
static void fit_operands(Squeeze *s, HlInst *inst, const int64_t n_serials) {
  const int at = inst->serial < (uint64_t)n_serials ? s->at[inst->serial] : 0;
  if (inst->serial >= (uint64_t)n_serials || inst->op == HL_OP_RESHAPE ||
      (inst == inst->comp->root && inst->op == HL_OP_TUPLE && inst->comp == s->m->entry))
    return;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    HlInst *operand = inst->operands[k];
    if (operand->serial >= (uint64_t)n_serials || !hl_shape_is_array(operand->shape))
      continue;
    const HlShape *before = shape_before(s, operand);
    const HlShape *want = at ? without(s->m->shapes, before, s->drop[at - 1].in[k]) : before;
    if (!hl_shape_same_dims(operand->shape, want))
      hl_set_operand(inst, (int)k, reshaped(s, operand, want));
  }
}

// A tuple's shape follows.
static void fit_root(HlModule *m) {
  HlInst *root = m->entry->root;
  if (root->op != HL_OP_TUPLE)
    return;
  HlArena *arena = hl_arena_new();
  const HlShape **element = HL_ARRAY(arena, const HlShape *, root->n_operands + 1);
  for (uint32_t k = 0; k < root->n_operands; k++)
    element[k] = root->operands[k]->shape;
  hl_set_shape(root, hl_shape_tuple(m->shapes, (int)root->n_operands, element));
  hl_arena_free(arena);
}

// The root of a called computation is what its callers take it for.
static void fit_called(Squeeze *s) {
  for (HlComp *comp = s->m->first; comp; comp = comp->next) {
    const int at = comp != s->m->entry ? s->at[comp->root->serial] : 0;
    if (at)
      hl_set_root(comp, reshaped(s, comp->root, s->was[at - 1]));
  }
}

static bool squeeze_all(Squeeze *s) {
  const int64_t n_serials = (int64_t)s->m->next_serial;
  for (int k = 0; k < s->n; k++)
    if (!squeeze(s, k))
      return false;
  fit_called(s);
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      fit_operands(s, inst, n_serials);
  // A reshape that changes nothing any more.
  for (HlComp *comp = s->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first, *next; inst; inst = next) {
      next = inst->next;
      if (inst->op == HL_OP_RESHAPE && inst->n_operands == 1 &&
          hl_shape_same_dims(inst->shape, inst->operands[0]->shape))
        hl_replace_uses(inst, inst->operands[0]);
    }
  fit_root(s->m);
  return true;
}

// --- Groups ---------------------------------------------------------------------------------------------

// Those of the best module, by serial of a copy, which are the same in all copies of it.
typedef struct Groups {
  int *of;  // [serial]: 1 + group; 0: not squeezed
  int n;
} Groups;

static int find_root(int *parent, int k) {
  while (parent[k] != k)
    k = parent[k] = parent[parent[k]];
  return k;
}

static void join_operands(const HlInst *inst, const int *at, int *parent) {
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const int other = at[inst->operands[k]->serial];
    if (other)
      parent[find_root(parent, other - 1)] = find_root(parent, at[inst->serial] - 1);
  }
}

// Of an operand that is squeezed, too, dimensions go that its user does without, and no others: the user asks for what the
// operand is then. Reshapes take anything.
static bool agree_on(Squeeze *s, int user, uint32_t k) {
  const HlInst *inst = s->inst[user];
  const int at = s->at[inst->operands[k]->serial];
  if (!at || inst->op == HL_OP_RESHAPE)
    return false;
  Drop *mine = &s->drop[user], *of = &s->drop[at - 1];
  const Dims both = mine->in[k] & of->out;
  bool changed = false;
  for (int d = 0; mine->in[k] != both && d < inst->shape->rank; d++) {
    Drop one;
    if (!has(mine->out, d))
      continue;
    find_drop(inst, (Dims)1 << d, &one);
    if (one.in[k] & ~both) {
      changed = true;
      find_drop(inst, mine->out & ~((Dims)1 << d), mine);
    }
  }
  if (of->out != both) {
    find_drop(s->inst[at - 1], both, of);
    changed = true;
  }
  return changed;
}

// Until all agree: each change takes a dimension away.
static void agree(Squeeze *s) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int user = s->n - 1; user >= 0; user--)
      for (uint32_t k = 0; k < s->inst[user]->n_operands; k++)
        changed |= agree_on(s, user, k);
  }
}

// Keeps those that are wanted, in their order.
static void keep(Squeeze *s, const bool *wanted) {
  int kept = 0;
  for (int k = 0; k < s->n; k++) {
    s->at[s->inst[k]->serial] = 0;
    if (!wanted[k])
      continue;
    s->inst[kept] = s->inst[k];
    s->was[kept] = s->was[k];
    s->drop[kept] = s->drop[k];
    s->at[s->inst[kept]->serial] = kept + 1;
    kept++;
  }
  s->n = kept;
}

static void drop_idle(Squeeze *s) {
  bool *wanted = HL_ARRAY(s->arena, bool, s->n + 1);
  for (int k = 0; k < s->n; k++)
    wanted[k] = s->drop[k].out != 0;
  keep(s, wanted);
}

static void find_all(Squeeze *s) {
  const int64_t room = hl_count_instructions(s->m) + 1;
  s->at = HL_ARRAY(s->arena, int, (size_t)s->m->next_serial + 1);
  s->drop = HL_ARRAY(s->arena, Drop, room);
  s->inst = HL_ARRAY(s->arena, const HlInst *, room);
  s->was = HL_ARRAY(s->arena, const HlShape *, room);
  for (const HlComp *comp = s->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (find_drop(inst, unit_dims(inst->shape), &s->drop[s->n])) {
        s->inst[s->n] = inst;
        s->was[s->n] = inst->shape;
        s->at[inst->serial] = s->n + 1;
        s->n++;
      }
  agree(s);
  drop_idle(s);
}

// Numbered in the order in which the first of each stands.
static Groups group(Squeeze *s) {
  Groups g = {.of = HL_ARRAY(s->arena, int, s->n + 1)};
  int *parent = HL_ARRAY(s->arena, int, s->n + 1), *number = HL_ARRAY(s->arena, int, s->n + 1);
  for (int k = 0; k < s->n; k++)
    parent[k] = k;
  for (int k = 0; k < s->n; k++)
    join_operands(s->inst[k], s->at, parent);
  for (int k = 0; k < s->n; k++) {
    const int root = find_root(parent, k);
    if (!number[root])
      number[root] = ++g.n;
    g.of[k] = number[root];
  }
  return g;
}

static void keep_groups(Squeeze *s, const Groups *g, const int *thing, int n) {
  bool *wanted = HL_ARRAY(s->arena, bool, s->n + 1);
  for (int k = 0; k < s->n; k++)
    for (int i = 0; i < n; i++)
      wanted[k] |= g->of[k] == thing[i] + 1;
  keep(s, wanted);
}

static int64_t sum_of_ranks(const HlModule *m) {
  int64_t sum = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      sum += hl_shape_is_array(inst->shape) ? inst->shape->rank : 0;
  return sum;
}

// Reshapes may only have moved.
static bool is_flatter(const Reducer *r, HlModule *m) {
  reduce_clean(m);
  return sum_of_ranks(m) < sum_of_ranks(r->m);
}

static HlModule *with_ranks(Reducer *r, const Move *move, const int *thing, int n, HlBuf *what) {
  (void)move;
  HlModule *m = hl_clone(r->cx, r->m);
  if (!m)
    return NULL;
  Squeeze s = {.cx = r->cx, .m = m, .arena = hl_arena_new()};
  find_all(&s);
  const Groups g = group(&s);
  keep_groups(&s, &g, thing, n);
  const char *first = s.n > 0 ? s.inst[0]->name->text : "";
  hl_buf_printf(what, "dimensions of size 1 of '%s'", first);
  if (s.n > 1)
    hl_buf_printf(what, " and %d more", s.n - 1);
  hl_forget_interface(m);
  const bool ok = s.n > 0 && squeeze_all(&s) && is_flatter(r, m);
  hl_arena_free(s.arena);
  if (ok)
    return m;
  hl_module_free(m);
  return NULL;
}

static int count_groups(Reducer *r) {
  Squeeze s = {.cx = r->cx, .m = r->m, .arena = hl_arena_new()};
  find_all(&s);
  const int n = group(&s).n;
  hl_arena_free(s.arena);
  return n;
}

bool reduce_ranks(Reducer *r) {
  bool changed = false;
  // What is squeezed is a group no more, which numbers the others anew: each success begins again.
  for (int n = count_groups(r); n > 0 && !r->stopped; n = count_groups(r)) {
    Move move = {
        .phase = "ranks", .n = n, .make = with_ranks, .as_large = true, .first_only = true};
    if (!reduce_try(r, &move))
      break;
    changed = true;
  }
  return changed;
}
