// Lowers references: memory that equations write to becomes a value that each of them makes anew.
//
// A reference lives in the jaxpr that made it; one that is handed to a nested jaxpr is refused where
// that binds it.
#include <string.h>

#include "jaxpr/lower.h"

// A box of what the reference holds, and the sizes of the value that stands for it.
typedef struct Box {
  int rank, n;   // of the whole and of the value
  bool is_part;  // not all of it
  const Index *index[MAX_RANK];
  int64_t size[MAX_RANK], value[MAX_RANK];
} Box;

static bool add_range(const Rule *r, Box *box, const Index *index) {
  const HlShape *s = r->in[0]->shape;
  const int d = box->rank++;
  const int64_t left = s->dim[d] - index->start;
  box->size[d] = index->kind == INDEX_POINT ? 1 : index->size >= 0 ? index->size : left;
  if (box->size[d] < 0 || box->size[d] > left)
    return jx_fail(r, "a range of %lld from %lld in dimension %d of %s", (long long)box->size[d],
                   (long long)index->start, d, jx_type_text(r->lo, s));
  if (index->operand >= 0) {
    const HlShape *start = r->in[index->operand]->shape;
    if (start->rank != 0 || !hl_is_integral(start->dtype))
      return jx_refuse(r, "an index of type %s", jx_type_text(r->lo, start));
  }
  box->index[d] = index;
  box->is_part |= index->operand >= 0 || index->kind == INDEX_POINT || box->size[d] != s->dim[d];
  if (index->kind != INDEX_POINT)
    box->value[box->n++] = box->size[d];
  return true;
}

static bool read_box(const Rule *r, Box *box) {
  static const Index whole = {.kind = INDEX_RANGE, .operand = -1, .size = -1};
  const Eqn *eqn = r->eqn;
  const int rank = r->in[0]->shape->rank;
  memset(box, 0, sizeof *box);
  int left = rank - eqn->index.n;
  for (int k = 0; k < eqn->index.n; k++)
    left += eqn->index.at[k].kind == INDEX_REST;
  for (int k = 0; k < eqn->index.n; k++) {
    const bool rest = eqn->index.at[k].kind == INDEX_REST;
    for (int n = rest ? left : 1; n > 0; n--)
      if (box->rank >= rank)
        return jx_fail(r, "more indices than the %d dimensions", rank);
      else if (!add_range(r, box, rest ? &whole : &eqn->index.at[k]))
        return false;
    left = rest ? 0 : left;
  }
  while (box->rank < rank)
    if (!add_range(r, box, &whole))
      return false;
  return true;
}

static void make_starts(const Rule *r, const Box *box, HlInst **start) {
  for (int d = 0; d < box->rank; d++) {
    const Index *index = box->index[d];
    start[d] = index->operand < 0 ? hl_b_scalar_int(r->b, HL_S32, index->start)
                                  : hl_b_convert(r->b, r->in[index->operand], HL_S32);
  }
}

static HlInst *take(const Rule *r, const Box *box) {
  if (!box->is_part)
    return r->in[0];
  HlInst *start[MAX_RANK];
  make_starts(r, box, start);
  return hl_b_reshape(r->b, hl_b_dynamic_slice(r->b, r->in[0], start, box->size), box->n,
                      box->value);
}

// Makes the reference stand for what it holds from now on.
static bool put(const Rule *r, const Box *box, HlInst *value) {
  const HlShape like = {.dtype = HL_PRED, .rank = box->n, .dim = box->value};
  if (!value)
    return false;
  if (value->shape->dtype != r->in[0]->shape->dtype ||
      (value->shape->rank != 0 && !hl_shape_same_dims(value->shape, &like)))
    return jx_fail(r, "a value of type %s does not fit its place",
                   jx_type_text(r->lo, value->shape));
  value = hl_b_reshape(r->b, jx_broadcast_to(r->b, value, &like), box->rank, box->size);
  HlInst *all = value, *start[MAX_RANK];
  if (box->is_part) {
    make_starts(r, box, start);
    all = hl_b_dynamic_update_slice(r->b, r->in[0], value, start);
  }
  if (all && r->eqn->in.at[0].kind == ATOM_VAR)
    r->lo->frame->value[r->eqn->in.at[0].var] = all;
  return all != NULL;
}

static bool new_ref(Rule *r) {
  return jx_want(r, 1) && jx_give(r, r->in[0]);
}

static bool get(Rule *r) {
  Box box;
  return jx_want_at_least(r, 1) && read_box(r, &box) && jx_give(r, take(r, &box));
}

static bool swap(Rule *r) {
  Box box;
  return jx_want_at_least(r, 2) && read_box(r, &box) &&
         (r->eqn->n_out == 0 || jx_give(r, take(r, &box))) && put(r, &box, r->in[r->n - 1]);
}

static bool addupdate(Rule *r) {
  Box box;
  return jx_want_at_least(r, 2) && read_box(r, &box) &&
         put(r, &box, hl_b_binary(r->b, HL_OP_ADD, take(r, &box), r->in[r->n - 1]));
}

static bool free_ref(Rule *r) {
  return true;
}

const Row jx_reference_rows[] = {{"new_ref", new_ref, 0, NULL},   {"ref", new_ref, 0, NULL},
                                 {"freeze", new_ref, 0, NULL},    {"get", get, 0, NULL},
                                 {"swap", swap, 0, NULL},         {"addupdate", addupdate, 0, NULL},
                                 {"free_ref", free_ref, 0, NULL}, {NULL, NULL, 0, NULL}};
