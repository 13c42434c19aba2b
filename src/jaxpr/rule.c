// Lowers a jaxpr to HLO: what the rules of primitives ask for: their parameters, types and operands of one size.
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "base/number.h"
#include "jaxpr/lower.h"

// --- Errors ----------------------------------------------------------------------------------------------------

static bool report(const Rule *r, HlErrorKind kind, const char *format, va_list args) {
  char text[512];
  base_vsnprintf(text, sizeof text, format, args);
  return hl_error_kind(r->lo->cx, kind, jx_pos(r->lo, r->eqn->loc), "%.*s: %s", (int)r->eqn->prim.n,
                       r->eqn->prim.at, text);
}

bool jx_fail(const Rule *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(r, HL_INVALID, format, args);
  va_end(args);
  return false;
}

bool jx_refuse(const Rule *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(r, HL_UNSUPPORTED, format, args);
  va_end(args);
  return false;
}

bool jx_give(Rule *r, HlInst *inst) {
  if (!inst)
    return false;
  vec_push_in(r->lo->arena, &r->out, inst);
  return true;
}

bool jx_give_all(Rule *r, HlInst *inst, int n) {
  if (n == 1)
    return jx_give(r, inst);
  bool ok = inst != NULL;
  for (int k = 0; ok && k < n; k++)
    ok = jx_give(r, hl_b_element(r->b, inst, k));
  return ok;
}

bool jx_want(const Rule *r, int operands) {
  return r->n == operands || jx_fail(r, "expected %d operands, found %d", operands, r->n);
}

bool jx_want_at_least(const Rule *r, int operands) {
  return r->n >= operands || jx_fail(r, "expected at least %d operands, found %d", operands, r->n);
}

// --- Parameters ---------------------------------------------------------------------------------------------------

const Value *jx_param(const Rule *r, const char *name) {
  return jx_find_param(r->eqn, name);
}

// JAX prints a jaxpr that is used several times once, before the others; what is cut out of such a text lacks it.
static bool is_unknown_name(const Value *v, const char *what) {
  return v->kind == VALUE_WORD && strcmp(what, "a jaxpr") == 0 && !hl_str_is(v->text, "None");
}

static bool bad_param(const Rule *r, const char *name, const char *what) {
  const Value *v = jx_param(r, name);
  if (!v)
    return jx_fail(r, "parameter '%s' is missing", name);
  if (is_unknown_name(v, what))
    return hl_error(r->lo->cx, jx_pos(r->lo, v->loc),
                    "the text does not say what jaxpr '%.*s' is: its 'let %.*s = { lambda ...' is "
                    "not there",
                    (int)v->text.n, v->text.at, (int)v->text.n, v->text.at);
  return hl_error(r->lo->cx, jx_pos(r->lo, v->loc), "expected %s as '%s' of %.*s", what, name,
                  (int)r->eqn->prim.n, r->eqn->prim.at);
}

bool jx_param_int(const Rule *r, const char *name, int64_t *out) {
  return jx_value_int(jx_param(r, name), out) || bad_param(r, name, "an integer");
}

int64_t jx_param_int_or(const Rule *r, const char *name, int64_t absent) {
  int64_t value;
  return jx_value_int(jx_param(r, name), &value) ? value : absent;
}

bool jx_param_ints(const Rule *r, const char *name, HlI64s *out) {
  return jx_value_ints(r->lo->arena, jx_param(r, name), out) ||
         bad_param(r, name, "a list of integers");
}

bool jx_param_sizes(const Rule *r, const char *name, HlI64s *out) {
  if (!jx_param_ints(r, name, out))
    return false;
  for (int k = 0; k < out->n; k++)
    if (out->at[k] < 0)
      return bad_param(r, name, "sizes that are not negative");
  return out->n < MAX_RANK || jx_fail(r, "more than %d dimensions", MAX_RANK - 1);
}

bool jx_param_bool(const Rule *r, const char *name, bool *out) {
  return jx_value_bool(jx_param(r, name), out) || bad_param(r, name, "True or False");
}

bool jx_param_flag(const Rule *r, const char *name) {
  bool value;
  return jx_value_bool(jx_param(r, name), &value) && value;
}

bool jx_param_dtype(const Rule *r, const char *name, HlDtype *out) {
  const Value *v = jx_param(r, name);
  HlStr text = v ? v->text : (HlStr){0};
  if (v && v->kind == VALUE_CALL && v->n == 1)  // dtype('float32')
    text = v->item[0]->text;
  *out = v ? jx_dtype_of_word(text) : HL_NO_DTYPE;
  return *out != HL_NO_DTYPE || bad_param(r, name, "an element type");
}

Jaxpr *jx_param_jaxpr(const Rule *r, const char *name) {
  const Value *v = jx_param(r, name);
  Jaxpr *jaxpr = jx_value_jaxpr(r->lo->frame->jaxpr, v);
  if (!jaxpr)
    bad_param(r, name, "a jaxpr");
  return jaxpr;
}

bool jx_param_pairs(const Rule *r, const char *name, int width, HlI64s *out) {
  const Value *v = jx_param(r, name);
  if (!v || v->kind != VALUE_LIST)
    return bad_param(r, name, "a list of tuples");
  int64_t *flat = HL_ARRAY(r->lo->arena, int64_t, v->n * width + 1);
  for (int k = 0; k < v->n; k++) {
    HlI64s entry;
    if (!jx_value_ints(r->lo->arena, v->item[k], &entry) || entry.n != width)
      return bad_param(r, name, "a list of tuples of integers");
    memcpy(flat + k * width, entry.at, sizeof *flat * (size_t)width);
  }
  *out = (HlI64s){flat, v->n * width};
  return true;
}

bool jx_want_rank(const Rule *r, const char *name, HlI64s list, int rank) {
  return list.n == rank || jx_fail(r, "expected %d entries in '%s', found %d", rank, name, list.n);
}

bool jx_want_dims(const Rule *r, const char *name, HlI64s list, int rank) {
  for (int k = 0; k < list.n; k++)
    if (list.at[k] < 0 || list.at[k] >= rank || hl_i64s_find((HlI64s){list.at, k}, list.at[k]) >= 0)
      return jx_fail(r, "expected distinct dimensions below %d in '%s'", rank, name);
  return true;
}

const char *jx_text_of(const Rule *r, HlStr text) {
  return hl_arena_strndup(r->lo->arena, text.at, text.n);
}

int64_t *jx_fill_ints(const Rule *r, int n, int64_t value) {
  int64_t *list = HL_ARRAY(r->lo->arena, int64_t, n + 1);
  for (int k = 0; k < n; k++)
    list[k] = value;
  return list;
}

// --- Types ----------------------------------------------------------------------------------------------------------

const HlShape *jx_aval_shape(Lower *lo, const Aval *aval, HlLoc loc) {
  HlShapes *shapes = lo->m->shapes;
  if (aval->kind == AVAL_TOKEN)
    return hl_shape_token(shapes);
  if (aval->dtype == HL_NO_DTYPE) {
    hl_error_kind(lo->cx, HL_UNSUPPORTED, jx_pos(lo, loc), "references (%.*s) are not supported",
                  (int)aval->text.n, aval->text.at);
    return NULL;
  }
  int64_t dim[MAX_RANK];
  int rank = aval->rank;
  for (int k = 0; k < rank; k++) {
    if (aval->dim[k] == HL_UNBOUNDED) {
      hl_error_kind(lo->cx, HL_UNSUPPORTED, jx_pos(lo, loc),
                    "sizes that are not numbers (%.*s) are not supported", (int)aval->text.n,
                    aval->text.at);
      return NULL;
    }
    dim[k] = aval->dim[k];
  }
  if (aval->kind == AVAL_KEY) {
    dim[rank] = jx_key_words(aval->impl);
    if (dim[rank++] == 0) {
      hl_error_kind(lo->cx, HL_UNSUPPORTED, jx_pos(lo, loc),
                    "random keys of implementation '%.*s' are not supported", (int)aval->impl.n,
                    aval->impl.at);
      return NULL;
    }
  }
  return hl_shape_array(shapes, aval->dtype, rank, dim);
}

const char *jx_type_text(Lower *lo, const HlShape *shape) {
  HlBuf text = {0};
  hl_shape_print(&text, shape, false);
  const char *kept = hl_arena_strndup(lo->arena, text.at, text.n);
  hl_buf_free(&text);
  return kept;
}

const HlShape *jx_bound_shape(const Rule *r, int k) {
  if (k >= r->eqn->n_out || !r->eqn->out[k].aval)
    return NULL;
  return jx_aval_shape(r->lo, r->eqn->out[k].aval, r->eqn->out[k].loc);
}

bool jx_is_key(const Rule *r, int k) {
  return r->aval[k] && r->aval[k]->kind == AVAL_KEY;
}

HlInst *jx_broadcast_to(HlBuild *b, HlInst *x, const HlShape *like) {
  if (!x || hl_shape_same_dims(x->shape, like))
    return x;
  if (x->shape->rank == 0)
    return hl_b_broadcast(b, x, like->rank, like->dim, (HlI64s){0});
  int64_t dims[MAX_RANK];
  const int skip = like->rank - x->shape->rank;
  for (int k = 0; k < x->shape->rank; k++)
    dims[k] = k + skip;
  return hl_b_broadcast_in_dim(b, x, like->rank, like->dim, (HlI64s){dims, x->shape->rank});
}

bool jx_align(Rule *r, int n, HlInst **x) {
  int rank = 0;
  bool same = true;
  for (int k = 0; k < n; k++) {
    if (!hl_shape_is_array(x[k]->shape))
      return jx_fail(r, "operand %d is %s, expected an array", k, jx_type_text(r->lo, x[k]->shape));
    rank = x[k]->shape->rank > rank ? x[k]->shape->rank : rank;
    same = same && hl_shape_same_dims(x[k]->shape, x[0]->shape);
  }
  if (same)
    return true;
  int64_t dim[MAX_RANK];
  for (int d = 0; d < rank; d++)
    dim[d] = 1;
  for (int k = 0; k < n; k++) {
    const HlShape *s = x[k]->shape;
    if (s->rank != 0 && s->rank != rank)
      return jx_fail(r, "operands of ranks %d and %d", s->rank, rank);
    for (int d = 0; d < s->rank; d++) {
      if (s->dim[d] != 1 && dim[d] != 1 && s->dim[d] != dim[d])
        return jx_fail(r, "operands of sizes %lld and %lld in dimension %d", (long long)s->dim[d],
                       (long long)dim[d], d);
      if (s->dim[d] != 1)
        dim[d] = s->dim[d];
    }
  }
  const HlShape like = {.dtype = HL_PRED, .rank = rank, .dim = dim};
  for (int k = 0; k < n; k++)
    if (!(x[k] = jx_broadcast_to(r->b, x[k], &like)))
      return false;
  return true;
}
