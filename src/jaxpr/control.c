// Lowers calls of nested jaxprs, loops and conditionals.
#include <stdio.h>

#include "base/vec.h"
#include "jaxpr/lower.h"

// --- Calls -------------------------------------------------------------------------------------------------------

// The jaxpr that a call-like primitive runs, under the names it had over the years. NULL: reported.
static Jaxpr *called_jaxpr(const Rule *r) {
  static const char *const names[] = {"jaxpr", "call_jaxpr", "fun_jaxpr",
                                      "call",  "fwd_jaxpr",  "callee"};
  for (int k = 0; k < HL_COUNT_OF(names); k++) {
    const Value *v = jx_param(r, names[k]);
    Jaxpr *jaxpr = v ? jx_value_jaxpr(r->lo->frame->jaxpr, v) : NULL;
    if (jaxpr)
      return jaxpr;
  }
  return jx_param_jaxpr(r, "jaxpr");
}

static bool give_all(Rule *r, int n, HlInst *const *inst) {
  for (int k = 0; k < n; k++)
    if (!jx_give(r, inst[k]))
      return false;
  return true;
}

// Types that literals without one take are those of the called jaxpr's inputs.
static bool retype_literals(Rule *r, const Jaxpr *jaxpr, int first) {
  for (int k = 0; k < jaxpr->n_in && first + k < r->n; k++) {
    const Atom *atom = &r->eqn->in.at[first + k];
    const Aval *aval = jaxpr->in[k].aval;
    if (atom->kind == ATOM_VAR || atom->aval || !aval || aval->rank != 0)
      continue;
    r->in[first + k] = hl_b_convert(r->b, r->in[first + k], aval->dtype);
    if (!r->in[first + k])
      return false;
  }
  return true;
}

static bool call(Rule *r) {
  const Jaxpr *jaxpr = called_jaxpr(r);
  const Value *name = jx_param(r, "name");
  if (!jaxpr || !retype_literals(r, jaxpr, 0))
    return false;
  const char *text = name && name->text.n > 0 ? jx_text_of(r, name->text) : r->row->text;
  const char *path = jx_path_in(r->lo, name && r->row->op ? "jit(%s)" : "%s", text);
  jx_name_after(r, path);
  return jx_lower_call(r, jaxpr, text, path, r->n, r->in);
}

static bool inline_call(Rule *r) {
  const Jaxpr *jaxpr = called_jaxpr(r);
  if (!jaxpr || !retype_literals(r, jaxpr, 0))
    return false;
  HlInst **out = HL_ARRAY(r->lo->arena, HlInst *, jaxpr->n_out + 1);
  return jx_lower_inline(r->lo, jaxpr, jx_path_in(r->lo, "%s", r->row->name), r->n, r->in, out) &&
         give_all(r, jaxpr->n_out, out);
}

// What is computed anew in the backward pass must not be merged with the forward pass: a barrier.
static bool remat(Rule *r) {
  if (jx_param_flag(r, "prevent_cse") && jx_param_flag(r, "differentiated") && r->n > 0) {
    HlInst *held = hl_b_unary(r->b, HL_OP_OPT_BARRIER, hl_b_tuple(r->b, r->n, r->in));
    for (int k = 0; k < r->n; k++)
      if (!held || !(r->in[k] = hl_b_element(r->b, held, k)))
        return false;
  }
  return call(r);
}

// Of the four functions only the solver runs; operands are the constants of each, then the right-hand sides.
static bool custom_linear_solve(Rule *r) {
  static const char *const parts[] = {"matvec", "vecmat", "solve", "transpose_solve"};
  const Value *lengths = jx_param(r, "const_lengths");
  const Jaxpr *solve =
      jx_value_jaxpr(r->lo->frame->jaxpr, jx_value_field(jx_param(r, "jaxprs"), "solve"));
  int64_t at = 0, first = 0, n_solve = 0;
  for (int k = 0; k < HL_COUNT_OF(parts); k++) {
    const Value *length = jx_value_field(lengths, parts[k]);
    int64_t n = 0;
    if (!jx_value_is_none(length) && !jx_value_int(length, &n))
      return jx_fail(r, "expected numbers of constants in 'const_lengths'");
    if (n < 0 || n > r->n - at)
      return jx_fail(r, "more constants than operands");
    if (k == 2) {
      first = at;
      n_solve = n;
    }
    at += n;
  }
  if (!solve)
    return jx_fail(r, "'jaxprs' holds no jaxpr 'solve'");
  const int n = (int)(n_solve + r->n - at);
  HlInst **args = HL_ARRAY(r->lo->arena, HlInst *, n + 1),
         **out = HL_ARRAY(r->lo->arena, HlInst *, solve->n_out + 1);
  for (int k = 0; k < n; k++)
    args[k] = k < n_solve ? r->in[first + k] : r->in[at + k - n_solve];
  return jx_lower_inline(r->lo, solve, jx_path_in(r->lo, "custom_linear_solve"), n, args, out) &&
         give_all(r, solve->n_out, out);
}

// --- State of a loop ------------------------------------------------------------------------------------------------

// The tuple that a loop carries: what changes, then what does not, each value once.
typedef VEC(HlInst *) State;

static int add_state(Rule *r, State *s, HlInst *value, bool once) {
  for (int k = 0; once && k < s->n; k++)
    if (s->at[k] == value)
      return k;
  vec_push_in(r->lo->arena, s, value);
  return s->n - 1;
}

// Values that do not change are sought only among those: `from` on.
static int add_constant(Rule *r, State *s, int from, HlInst *value) {
  for (int k = from; k < s->n; k++)
    if (s->at[k] == value)
      return k;
  return add_state(r, s, value, false);
}

// A computation of the state, and its elements.
static bool open_state(Rule *r, const State *s, const char *name, HlBuild *nested,
                       HlInst **element) {
  const HlShape **shapes = HL_ARRAY(r->lo->arena, const HlShape *, s->n + 1);
  for (int k = 0; k < s->n; k++)
    shapes[k] = s->at[k]->shape;
  *nested = hl_b_nested(r->b, name);
  HlInst *tuple =
      hl_b_parameter(nested, hl_shape_tuple(r->lo->m->shapes, s->n, shapes), "arg_tuple");
  HlBuild plain = *nested;
  plain.name = NULL;
  for (int k = 0; k < s->n; k++)
    if (!(element[k] = hl_b_element(&plain, tuple, k)))
      return false;
  return true;
}

static bool close_state(HlBuild *nested, int n, HlInst *const *element) {
  HlBuild plain = *nested;
  plain.name = NULL;
  HlInst *root = hl_b_tuple(&plain, n, element);
  if (root)
    hl_set_root(nested->comp, root);
  return root != NULL;
}

// The loop, and the first n elements of its final state from `first` on as results.
static bool run_loop(Rule *r, const State *s, HlComp *condition, HlComp *body, int first, int n) {
  HlInst *loop = hl_b_while(r->b, condition, body, hl_b_tuple(r->b, s->n, s->at));
  bool ok = loop != NULL;
  for (int k = 0; ok && k < n; k++)
    ok = jx_give(r, hl_b_element(r->b, loop, first + k));
  return ok;
}

// --- while ----------------------------------------------------------------------------------------------------------

typedef struct Loop {
  const Jaxpr *cond, *body;
  int n_cond, n_body, n_carry;
  const int *constant;  // where in the state each constant stands: the condition's, then the body's
} Loop;

// Arguments of the condition or the body: its constants, then the carry.
static HlInst **loop_args(Rule *r, const Loop *loop, bool body, HlInst *const *element) {
  const int n = body ? loop->n_body : loop->n_cond;
  const int *constant = loop->constant + (body ? loop->n_cond : 0);
  HlInst **args = HL_ARRAY(r->lo->arena, HlInst *, n + loop->n_carry + 1);
  for (int k = 0; k < n; k++)
    args[k] = element[constant[k]];
  for (int k = 0; k < loop->n_carry; k++)
    args[n + k] = element[k];
  return args;
}

// The predicate in the builder's computation: as it is, of any shape.
static HlInst *loop_predicate(Rule *r, const Loop *loop, HlInst *const *element) {
  HlInst *out;
  HlInst **args = loop_args(r, loop, false, element);
  bool ok = jx_lower_inline(r->lo, loop->cond, jx_path_in(r->lo, "while/cond"),
                            loop->n_cond + loop->n_carry, args, &out);
  return ok ? out : NULL;
}

static HlInst *any(HlBuild *b, HlInst *pred) {
  if (!pred || pred->shape->rank == 0)
    return pred;
  int64_t dims[MAX_RANK];
  for (int d = 0; d < pred->shape->rank; d++)
    dims[d] = d;
  return hl_b_reduce(b, HL_OP_OR, pred, hl_b_scalar_int(b, HL_PRED, 0),
                     (HlI64s){dims, pred->shape->rank});
}

static HlComp *loop_condition(Rule *r, const Loop *loop, const State *s) {
  HlBuild nested;
  HlInst **element = HL_ARRAY(r->lo->arena, HlInst *, s->n + 1);
  if (!open_state(r, s, "while_cond", &nested, element))
    return NULL;
  HlBuild *outer = jx_build_in(r->lo, &nested);
  HlInst *root = any(&nested, loop_predicate(r, loop, element));
  jx_build_in(r->lo, outer);
  if (!root)
    return NULL;
  hl_set_root(nested.comp, root);
  return nested.comp;
}

// Where a batched predicate is false the carry stays as it is.
static HlInst *keep_where_done(HlBuild *b, HlInst *pred, HlInst *updated, HlInst *old) {
  int64_t dims[MAX_RANK];
  const HlShape *s = updated->shape;
  for (int d = 0; d < pred->shape->rank; d++)
    dims[d] = d;
  if (pred->shape->rank < s->rank)
    pred = hl_b_broadcast(b, pred, s->rank, s->dim, (HlI64s){dims, pred->shape->rank});
  return hl_b_select(b, pred, updated, old);
}

static HlComp *loop_body(Rule *r, const Loop *loop, const State *s) {
  HlBuild nested;
  HlInst **element = HL_ARRAY(r->lo->arena, HlInst *, s->n + 1);
  HlInst **out = HL_ARRAY(r->lo->arena, HlInst *, s->n + 1);
  if (!open_state(r, s, "while_body", &nested, element))
    return NULL;
  HlBuild *outer = jx_build_in(r->lo, &nested);
  bool ok = jx_lower_inline(r->lo, loop->body, jx_path_in(r->lo, "while/body"),
                            loop->n_body + loop->n_carry, loop_args(r, loop, true, element), out);
  const Binder *first = NULL;
  const Atom *result = loop->cond->n_out == 1 ? &loop->cond->out[0] : NULL;
  for (const Eqn *eqn = loop->cond->first; eqn && result && result->kind == ATOM_VAR;
       eqn = eqn->next)
    for (int k = 0; k < eqn->n_out; k++)
      if (eqn->out[k].var == result->var)
        first = &eqn->out[k];
  if (ok && first && first->aval && first->aval->rank > 0) {
    HlInst *pred = loop_predicate(r, loop, element);
    for (int k = 0; pred && k < loop->n_carry; k++)
      out[k] = keep_where_done(&nested, pred, out[k], element[k]);
    ok = pred != NULL;
  }
  jx_build_in(r->lo, outer);
  for (int k = loop->n_carry; k < s->n; k++)
    out[k] = element[k];
  return ok && close_state(&nested, s->n, out) ? nested.comp : NULL;
}

static bool while_(Rule *r) {
  int64_t n_cond = jx_param_int_or(r, "cond_nconsts", 0),
          n_body = jx_param_int_or(r, "body_nconsts", 0);
  Loop loop = {.cond = jx_param_jaxpr(r, "cond_jaxpr")};
  loop.body = loop.cond ? jx_param_jaxpr(r, "body_jaxpr") : NULL;
  if (!loop.body)
    return false;
  if (n_cond < 0 || n_body < 0 || n_cond > r->n || n_body > r->n - n_cond)
    return jx_fail(r, "more constants than operands");
  loop.n_cond = (int)n_cond;
  loop.n_body = (int)n_body;
  loop.n_carry = r->n - loop.n_cond - loop.n_body;
  if (loop.body->n_out != loop.n_carry || loop.cond->n_out != 1)
    return jx_fail(r, "the body has %d results and the condition %d, expected %d and 1",
                   loop.body->n_out, loop.cond->n_out, loop.n_carry);
  const int n_consts = loop.n_cond + loop.n_body;
  if (loop.n_carry + loop.n_body != loop.body->n_in)
    return jx_fail(r, "the body has %d inputs, expected %d", loop.body->n_in,
                   loop.n_carry + loop.n_body);
  for (int k = 0; k < loop.n_carry; k++) {  // literals without type take the body's
    const Atom *atom = &r->eqn->in.at[n_consts + k];
    const Aval *aval = loop.body->in[loop.n_body + k].aval;
    if (atom->kind != ATOM_VAR && !atom->aval && aval && aval->rank == 0)
      r->in[n_consts + k] = hl_b_convert(r->b, r->in[n_consts + k], aval->dtype);
  }
  State s = {0};
  int *constant = HL_ARRAY(r->lo->arena, int, n_consts + 1);
  for (int k = 0; k < loop.n_carry; k++)
    add_state(r, &s, r->in[n_consts + k], false);
  for (int k = 0; k < n_consts; k++)
    constant[k] = add_constant(r, &s, loop.n_carry, r->in[k]);
  loop.constant = constant;
  HlComp *body = loop_body(r, &loop, &s), *condition = body ? loop_condition(r, &loop, &s) : NULL;
  return condition && run_loop(r, &s, condition, body, 0, loop.n_carry);
}

// --- scan -----------------------------------------------------------------------------------------------------------

typedef struct Scan {
  const Jaxpr *jaxpr;
  int64_t length;
  bool reverse;
  int n_consts, n_carry, n_xs, n_ys;
  const int
      *constant;  // where in the state consts and xs stand; the carry and ys follow the counter
} Scan;

// Leaves of a tree of operands: all that is no list; of a PyTreeDef the asterisks alone.
static int64_t count_leaves(const Value *tree, bool is_def) {
  if (tree->kind != VALUE_LIST && tree->kind != VALUE_CALL)
    return !is_def || hl_str_is(tree->text, "*");
  if (tree->kind == VALUE_CALL && !is_def)
    return 1;
  int64_t n = 0;
  for (int k = 0; k < tree->n; k++)
    n += count_leaves(tree->item[k], is_def);
  return n;
}

// How many operands are constants and how many are carried: stated until JAX 0.10; since 0.11 `ft_in` has the trees
// of constants, carry and scanned inputs, ((None,), (None, None), ()) or Pytree(vals=[..], tree=PyTreeDef((..))).
static bool scan_operands(const Rule *r, int64_t *n_consts, int64_t *n_carry) {
  const Value *trees = jx_param(r, "ft_in");
  if (!trees)
    return jx_param_int(r, "num_consts", n_consts) && jx_param_int(r, "num_carry", n_carry);
  const bool is_def = trees->kind == VALUE_CALL;
  const Value *def = is_def ? jx_value_field(trees, "tree") : trees;
  if (is_def)
    trees = def && def->kind == VALUE_CALL && def->n == 1 ? def->item[0] : NULL;
  if (!trees || trees->kind != VALUE_LIST || trees->n != 3)
    return jx_fail(r, "expected the trees of constants, carry and inputs as 'ft_in'");
  *n_consts = count_leaves(trees->item[0], is_def);
  *n_carry = count_leaves(trees->item[1], is_def);
  return true;
}

static bool read_scan(Rule *r, Scan *scan) {
  int64_t n_consts, n_carry;
  *scan = (Scan){.jaxpr = jx_param_jaxpr(r, "jaxpr"), .reverse = jx_param_flag(r, "reverse")};
  if (!scan->jaxpr || !jx_param_int(r, "length", &scan->length) ||
      !scan_operands(r, &n_consts, &n_carry))
    return false;
  if (n_consts < 0 || n_carry < 0 || n_consts > r->n || n_carry > r->n - n_consts ||
      n_carry > scan->jaxpr->n_out || scan->length < 0 || scan->length > INT32_MAX ||
      scan->jaxpr->n_in != r->n)
    return jx_fail(
        r, "%d operands and %d results of the body do not fit %lld constants and %lld carries",
        r->n, scan->jaxpr->n_out, (long long)n_consts, (long long)n_carry);
  scan->n_consts = (int)n_consts;
  scan->n_carry = (int)n_carry;
  scan->n_xs = r->n - scan->n_consts - scan->n_carry;
  scan->n_ys = scan->jaxpr->n_out - scan->n_carry;
  for (int k = 0; k < scan->n_xs; k++) {
    const HlShape *x = r->in[r->n - scan->n_xs + k]->shape;
    if (x->rank == 0 || x->dim[0] != scan->length)
      return jx_fail(r, "an input to be scanned is %s, expected the length %lld first",
                     jx_type_text(r->lo, x), (long long)scan->length);
  }
  return true;
}

// x[i] along the first dimension.
static HlInst *take_row(HlBuild *b, HlInst *x, HlInst *i) {
  const HlShape *s = x->shape;
  HlInst *start[MAX_RANK], *zero = s->rank > 1 ? hl_b_scalar_int(b, HL_S32, 0) : NULL;
  int64_t sizes[MAX_RANK];
  for (int d = 0; d < s->rank; d++) {
    start[d] = d == 0 ? i : zero;
    sizes[d] = d == 0 ? 1 : s->dim[d];
  }
  return hl_b_reshape(b, hl_b_dynamic_slice(b, x, start, sizes), s->rank - 1, s->dim + 1);
}

// ys with ys[i] = y
static HlInst *put_row(HlBuild *b, HlInst *ys, HlInst *y, HlInst *i) {
  const HlShape *s = ys->shape;
  HlInst *start[MAX_RANK], *zero = s->rank > 1 ? hl_b_scalar_int(b, HL_S32, 0) : NULL;
  int64_t sizes[MAX_RANK];
  for (int d = 0; d < s->rank; d++) {
    start[d] = d == 0 ? i : zero;
    sizes[d] = d == 0 ? 1 : s->dim[d];
  }
  return hl_b_dynamic_update_slice(b, ys, hl_b_reshape(b, y, s->rank, sizes), start);
}

static HlComp *scan_condition(Rule *r, const Scan *scan, const State *s) {
  HlBuild nested;
  HlInst **element = HL_ARRAY(r->lo->arena, HlInst *, s->n + 1);
  if (!open_state(r, s, "scan_cond", &nested, element))
    return NULL;
  HlInst *length = hl_b_scalar_int(&nested, HL_S32, scan->length);
  HlInst *root = hl_b_compare(&nested, HL_WORD_direction_LT, element[0], length);
  if (!root)
    return NULL;
  hl_set_root(nested.comp, root);
  return nested.comp;
}

static HlComp *scan_body(Rule *r, const Scan *scan, const State *s) {
  HlBuild nested;
  HlInst **element = HL_ARRAY(r->lo->arena, HlInst *, s->n + 1),
         **out = HL_ARRAY(r->lo->arena, HlInst *, s->n + 1);
  HlInst **args = HL_ARRAY(r->lo->arena, HlInst *, r->n + 1);
  if (!open_state(r, s, "scan_body", &nested, element))
    return NULL;
  HlInst *i = element[0];
  for (int k = 0; k < s->n; k++)
    out[k] = element[k];
  out[0] = hl_b_binary(&nested, HL_OP_ADD, i, hl_b_scalar_int(&nested, HL_S32, 1));
  if (scan->reverse)
    i = hl_b_binary(&nested, HL_OP_SUBTRACT, hl_b_scalar_int(&nested, HL_S32, scan->length - 1), i);
  for (int k = 0; k < scan->n_consts; k++)
    args[k] = element[scan->constant[k]];
  for (int k = 0; k < scan->n_carry; k++)
    args[scan->n_consts + k] = element[1 + k];
  for (int k = 0; k < scan->n_xs; k++) {
    HlInst **x = &args[scan->n_consts + scan->n_carry + k];
    if (!(*x = take_row(&nested, element[scan->constant[scan->n_consts + k]], i)))
      return NULL;
  }
  Rule inner = {.lo = r->lo, .eqn = r->eqn, .row = r->row, .b = &nested};
  HlBuild *outer = jx_build_in(r->lo, &nested);
  nested.name = "closed_call";
  bool ok = jx_lower_call(&inner, scan->jaxpr, "closed_call",
                          jx_path_in(r->lo, "while/body/closed_call"), r->n, args);
  nested.name = r->b->name;
  jx_build_in(r->lo, outer);
  for (int k = 0; ok && k < scan->n_carry; k++)
    out[1 + k] = inner.out.at[k];
  for (int k = scan->n_carry; ok && k < scan->jaxpr->n_out; k++)
    ok = (out[1 + k] = put_row(&nested, element[1 + k], inner.out.at[k], i)) != NULL;
  return ok && close_state(&nested, s->n, out) ? nested.comp : NULL;
}

// A buffer of zeros for the k-th stacked result.
static HlInst *stacked(Rule *r, const Scan *scan, int k) {
  const HlShape *shape = jx_bound_shape(r, scan->n_carry + k);
  const Atom *y = &scan->jaxpr->out[scan->n_carry + k];
  const Aval *aval = y->aval;
  if (shape)
    return hl_b_full(r->b, shape->dtype, shape->rank, shape->dim, 0);
  for (const Eqn *eqn = scan->jaxpr->first; eqn && y->kind == ATOM_VAR && !aval; eqn = eqn->next)
    for (int j = 0; j < eqn->n_out; j++)
      if (eqn->out[j].var == y->var)
        aval = eqn->out[j].aval;
  for (int j = 0; j < scan->jaxpr->n_in && y->kind == ATOM_VAR && !aval; j++)
    if (scan->jaxpr->in[j].var == y->var)
      aval = scan->jaxpr->in[j].aval;
  const HlShape *row = aval ? jx_aval_shape(r->lo, aval, y->loc) : NULL;
  if (!row) {
    jx_refuse(r, "the type of stacked result %d is not written", k);
    return NULL;
  }
  int64_t dim[MAX_RANK + 1] = {scan->length};
  for (int d = 0; d < row->rank; d++)
    dim[d + 1] = row->dim[d];
  return hl_b_full(r->b, row->dtype, row->rank + 1, dim, 0);
}

static bool scan_(Rule *r) {
  Scan scan;
  State s = {0};
  if (!read_scan(r, &scan) || !retype_literals(r, scan.jaxpr, 0))
    return false;
  add_state(r, &s, hl_b_scalar_int(r->b, HL_S32, 0), false);
  for (int k = 0; k < scan.n_carry; k++)
    add_state(r, &s, r->in[scan.n_consts + k], false);
  for (int k = 0; k < scan.n_ys; k++) {
    HlInst *ys = stacked(r, &scan, k);
    if (!ys || ys->shape->rank == 0 || ys->shape->rank > MAX_RANK)
      return ys ? jx_fail(r, "stacked result %d is %s", k, jx_type_text(r->lo, ys->shape)) : false;
    add_state(r, &s, ys, false);
  }
  const int first = s.n;
  if (scan.length == 0) {
    for (int k = 1; k < first; k++)
      if (!jx_give(r, s.at[k]))
        return false;
    return true;
  }
  int *constant = HL_ARRAY(r->lo->arena, int, scan.n_consts + scan.n_xs + 1);
  for (int k = 0; k < scan.n_xs; k++)
    constant[scan.n_consts + k] = add_constant(r, &s, first, r->in[r->n - scan.n_xs + k]);
  for (int k = 0; k < scan.n_consts; k++)
    constant[k] = add_constant(r, &s, first, r->in[k]);
  scan.constant = constant;
  HlComp *body = scan_body(r, &scan, &s), *condition = body ? scan_condition(r, &scan, &s) : NULL;
  return condition && run_loop(r, &s, condition, body, 1, first - 1);
}

// --- cond -----------------------------------------------------------------------------------------------------------

typedef struct Branches {
  const Jaxpr **jaxpr;
  const int *first, *n_in;  // the operands of each, behind the one that chooses
  int n;
} Branches;

// Until early 2020: a true_jaxpr with its operands, then a false_jaxpr with its.
static bool read_two_branches(Rule *r, Branches *out) {
  const Jaxpr *yes = jx_param_jaxpr(r, "true_jaxpr"),
              *no = yes ? jx_param_jaxpr(r, "false_jaxpr") : NULL;
  if (!no)
    return false;
  if (yes->n_in + no->n_in != r->n - 1)
    return jx_fail(r, "the branches take %d and %d operands, found %d", yes->n_in, no->n_in,
                   r->n - 1);
  int *first = HL_ARRAY(r->lo->arena, int, 2), *n_in = HL_ARRAY(r->lo->arena, int, 2);
  *out = (Branches){HL_ARRAY(r->lo->arena, const Jaxpr *, 2), first, n_in, 2};
  out->jaxpr[0] = no;
  out->jaxpr[1] = yes;
  first[0] = n_in[1] = yes->n_in;
  n_in[0] = no->n_in;
  return true;
}

static bool read_branches(Rule *r, Branches *out) {
  if (jx_param(r, "true_jaxpr"))
    return read_two_branches(r, out);
  const Value *list = jx_param(r, "branches");
  if (!list || list->kind != VALUE_LIST || list->n == 0)
    return jx_fail(r, "expected a list of jaxprs as 'branches'");
  int *first = HL_ARRAY(r->lo->arena, int, list->n), *n_in = HL_ARRAY(r->lo->arena, int, list->n);
  *out = (Branches){HL_ARRAY(r->lo->arena, const Jaxpr *, list->n), first, n_in, list->n};
  for (int k = 0; k < list->n; k++) {
    if (!(out->jaxpr[k] = jx_value_jaxpr(r->lo->frame->jaxpr, list->item[k])))
      return jx_fail(r, "branch %d is not a jaxpr", k);
    n_in[k] = r->n - 1;
  }
  return true;
}

// A branch takes its operands as one value: a tuple unless it is one.
static HlComp *branch_comp(Rule *r, const Branches *branches, int number, const HlShape *operand) {
  const Jaxpr *jaxpr = branches->jaxpr[number];
  HlInst **args = HL_ARRAY(r->lo->arena, HlInst *, r->n),
         **out = HL_ARRAY(r->lo->arena, HlInst *, jaxpr->n_out + 1);
  char name[32];
  snprintf(name, sizeof name, "branch_%d", number);
  HlBuild nested = hl_b_nested(r->b, name), plain = nested;
  HlInst *tuple = hl_b_parameter(&nested, operand, "arg_tuple");
  plain.name = NULL;
  const int n = branches->n_in[number], first = branches->first[number];
  bool ok = tuple != NULL;
  for (int k = 0; ok && k < n; k++)
    ok = (args[k] = r->n == 2 ? tuple : hl_b_element(&plain, tuple, first + k)) != NULL;
  HlBuild *outer = jx_build_in(r->lo, &nested);
  ok = ok &&
       jx_lower_inline(r->lo, jaxpr, jx_path_in(r->lo, "cond/branch_%d_fun", number), n, args, out);
  jx_build_in(r->lo, outer);
  HlInst *root = !ok ? NULL : jaxpr->n_out == 1 ? out[0] : hl_b_tuple(&plain, jaxpr->n_out, out);
  if (!root)
    return NULL;
  hl_set_root(nested.comp, root);
  return nested.comp;
}

static bool cond(Rule *r) {
  Branches branches = {0};
  if (!jx_want_at_least(r, 1) || !read_branches(r, &branches))
    return false;
  const Jaxpr *const *jaxpr = branches.jaxpr;
  for (int k = 1; k < branches.n; k++)
    if (jaxpr[k]->n_out != jaxpr[0]->n_out)
      return jx_fail(r, "branches have %d and %d results", jaxpr[0]->n_out, jaxpr[k]->n_out);
  if (!retype_literals(r, jaxpr[0], 1 + branches.first[0]))
    return false;
  const int n = r->n - 1, n_out = jaxpr[0]->n_out;
  if (branches.n == 1) {
    HlInst **out = HL_ARRAY(r->lo->arena, HlInst *, n_out + 1);
    return jx_lower_inline(r->lo, jaxpr[0], jx_path_in(r->lo, "cond/branch_0_fun"), n, r->in + 1,
                           out) &&
           give_all(r, n_out, out);
  }
  HlInst *operand = n == 1 ? r->in[1] : hl_b_tuple(r->b, n, r->in + 1);
  if (!operand)
    return false;
  HlInst **operands = HL_ARRAY(r->lo->arena, HlInst *, branches.n + 1);
  HlComp **comps = HL_ARRAY(r->lo->arena, HlComp *, branches.n);
  operands[0] = hl_b_convert(r->b, r->in[0], HL_S32);
  for (int k = 0; k < branches.n; k++) {
    operands[k + 1] = operand;
    if (!(comps[k] = branch_comp(r, &branches, k, operand->shape)))
      return false;
  }
  HlInst *inst =
      hl_b_op(r->b, HL_OP_CONDITIONAL, NULL, branches.n + 1, operands, 0, NULL, branches.n, comps);
  return jx_give_all(r, inst, n_out);
}

// The number of the first entry that names the CPU, or that names none.
static bool platform_index(Rule *r) {
  const Value *platforms = jx_param(r, "platforms");
  int64_t chosen = 0;
  if (!platforms || platforms->kind != VALUE_LIST)
    return jx_fail(r, "expected a list as 'platforms'");
  for (int k = platforms->n - 1; k >= 0; k--) {
    const Value *entry = platforms->item[k];
    bool here = jx_value_is_none(entry) || jx_value_is(entry, "cpu");
    for (int j = 0; entry->kind == VALUE_LIST && j < entry->n; j++)
      here = here || jx_value_is(entry->item[j], "cpu");
    if (here)
      chosen = k;
  }
  return jx_give(r, hl_b_scalar_int(r->b, HL_S32, chosen));
}

// --- Python ---------------------------------------------------------------------------------------------------------

// Shows values while a program runs; what is computed does not depend on it.
static bool debug(Rule *r) {
  if (r->eqn->n_out > 0)
    return jx_refuse(r, "calls back into Python");
  hl_tell(r->lo->cx, (HlPos){r->lo->tree->source, r->eqn->loc}, "%s is left out", r->row->name);
  return true;
}

static bool callback(Rule *r) {
  return jx_refuse(r, "calls back into Python");
}

// A call of the program's own code by name.
static bool ffi_call(Rule *r) {
  const Value *name = jx_param(r, "target_name"), *attributes = jx_param(r, "attributes");
  HlModule *m = r->lo->m;
  const int n = r->eqn->n_out;
  if (!name || name->text.n == 0)
    return jx_fail(r, "parameter 'target_name' is missing");
  if (attributes && attributes->n > 0)
    return jx_refuse(r, "'%.*s' has attributes, which are not supported", (int)name->text.n,
                     name->text.at);
  const HlShape **result = HL_ARRAY(r->lo->arena, const HlShape *, n + 1);
  for (int k = 0; k < n; k++)
    if (!(result[k] = jx_bound_shape(r, k)))
      return jx_refuse(r, "result %d has no type", k);
  const HlShape *shape = n == 1 ? result[0] : hl_shape_tuple(m->shapes, n, result);
  int64_t version = jx_param_int_or(r, "custom_call_api_version", HL_WORD_api_version_TYPED_FFI);
  if (!hl_enum_text(&hl_enums[HL_ENUM_api_version], version))
    version = HL_WORD_api_version_TYPED_FFI;
  HlAttr attrs[] = {{.key = HL_A_CUSTOM_CALL_TARGET, .sym = hl_sym(m, jx_text_of(r, name->text))},
                    {.key = HL_A_API_VERSION, .i = version},
                    {.key = HL_A_HAS_SIDE_EFFECT, .i = jx_param_flag(r, "has_side_effect")}};
  HlInst *inst = hl_b_op(r->b, HL_OP_CUSTOM_CALL, shape, r->n, r->in, 3, attrs, 0, NULL);
  return jx_give_all(r, inst, n);
}

static bool reference(Rule *r) {
  return jx_refuse(r, "references are not supported");
}

const Row jx_control_rows[] = {{"jit", call, 1, "jit"},
                               {"pjit", call, 1, "pjit"},
                               {"xla_call", call, 1, "xla_call"},
                               {"call", call, 0, "call"},
                               {"core_call", call, 0, "core_call"},
                               {"closed_call", call, 0, "closed_call"},
                               {"core_closed_call", call, 0, "core_closed_call"},
                               {"named_call", call, 0, "named_call"},
                               {"composite", call, 0, "composite"},
                               {"compute_on", call, 0, "compute_on"},
                               {"compute_on2", call, 0, "compute_on2"},
                               {"eval_jaxpr", inline_call, 0, NULL},
                               {"stage", inline_call, 0, NULL},
                               {"program_order", inline_call, 0, NULL},
                               {"remat", remat, 0, "checkpoint"},
                               {"remat2", remat, 0, "checkpoint"},
                               {"remat_call", remat, 0, "checkpoint"},
                               {"checkpoint", remat, 0, "checkpoint"},
                               {"custom_jvp_call", inline_call, 0, NULL},
                               {"custom_jvp_call_jaxpr", inline_call, 0, NULL},
                               {"custom_vjp_call", inline_call, 0, NULL},
                               {"custom_vjp_call_jaxpr", inline_call, 0, NULL},
                               {"custom_vmap_call", inline_call, 0, NULL},
                               {"linear_call", inline_call, 0, NULL},
                               {"custom_linear_solve", custom_linear_solve, 0, NULL},
                               {"while", while_, 0, NULL},
                               {"scan", scan_, 0, NULL},
                               {"cond", cond, 0, NULL},
                               {"platform_index", platform_index, 0, NULL},
                               {"debug_callback", debug, 0, NULL},
                               {"debug_print", debug, 0, NULL},
                               {"pure_callback", callback, 0, NULL},
                               {"io_callback", callback, 0, NULL},
                               {"python_callback", callback, 0, NULL},
                               {"outside_call", callback, 0, NULL},
                               {"ffi_call", ffi_call, 0, NULL},
                               {"run_state", reference, 0, NULL},
                               {"for", reference, 0, NULL},
                               {"pallas_call", reference, 0, NULL},
                               {NULL, NULL, 0, NULL}};
