// spmd/partition_einsum.c: products of large arrays, computed while their tiles go round.
//
// Where an operand is cut along some dimension by all devices of a group, and each of these wants it
// whole since each computes other rows of the result, it need not be gathered first. The devices
// form a ring. Each multiplies with the tile it has and hands it on to the device before it, until
// it has met all n tiles:
//
//   dot(x, all-gather(y))   =>   while (i < n) {
//                                  part = dot(x, y)                            tile (device + i) % n of y
//                                  result[.., tile] = part   or   result[..] += part
//                                  y = collective-permute(y)                   except the last time
//                                }
//
// The part is put in its place in the result where the dimension is one of the result, and added
// where it is summed; and where x has the dimension, too, a tile of x is sliced out to go with that
// of y. Likewise where both operands are cut along a summed dimension and the result is wanted cut:
// then a tile of the result goes round, to which each device adds its summand. So at each time only
// tiles are held, and exchange and product can overlap. XLA calls this a windowed einsum.
//
// Unrolled by two, the exchange stands beside the product, without a branch; a result's tiles go
// round in two chains that skip every other device. Both ways, one copy of each tile goes round
// forwards and one backwards, each half way.

#include <string.h>

#include "spmd/partition.h"

enum { LHS, RHS, OUT };
enum { MOST_USERS = 32 };  // of an operand that are asked what they want

// A dot that is to become a loop.
typedef struct Einsum {
  PartComp *c;
  HlInst *inst;
  const PartLoop *loop;
  const HlTiles *tiles;  // of the loop, before anything goes round
  int moves;             // which array's tiles go round
  // The loop's dimensions that they are tiles of: all summed, or of one operand, or of all arrays.
  bool *along;
  bool partly;            // a ring is only some of the devices that the operand's own cuts are for
  const HlTiles *window;  // how that array is cut
  const HlTiles *result;  // how the result is cut that comes out
  int64_t n;              // devices of a ring
  int64_t *place;         // of each device in its ring
  const HlI64s *ring;     // devices by place
  int n_rings;
  int64_t *tile, **begin;  // by dimension: elements of a tile; where that of a place begins
} Einsum;

// The array's dimension for the loop's one k, if tiles go round along it; else -1.
static int along(const Einsum *e, int array, int k) {
  return e->along[k] ? e->loop->dim[array][k] : -1;
}

static bool has_along(const Einsum *e, int array) {
  bool any = false;
  for (int k = 0; k < e->loop->rank; k++)
    any |= along(e, array, k) >= 0;
  return any;
}

// --- Which ----------------------------------------------------------------------------------------

static bool is_cut_by_all(const HlTiles *t) {
  return t->manual == 1 && t->unreduced == 1 && t->replicas == 1 && t->n > 1;
}

// Every device has the same place along dimension j of a and dimension k of b.
static bool same_places(PartComp *c, const HlTiles *a, int j, const HlTiles *b, int k) {
  int64_t *at_a = HL_ARRAY(c->pt->arena, int64_t, a->rank + 1),
          *at_b = HL_ARRAY(c->pt->arena, int64_t, b->rank + 1);
  if (a->parts[j] != b->parts[k])
    return false;
  for (int64_t d = 0; a->parts[j] > 1 && d < a->n; d++) {
    hl_tiles_at(a, d, at_a);
    hl_tiles_at(b, d, at_b);
    if (at_a[j] != at_b[k])
      return false;
  }
  return true;
}

// Of arrays of any size; whoever asks only compares.
static double bytes_in(const HlShape *shape) {
  return (double)hl_shape_elements(shape) * (double)hl_dtype_bytes(shape->dtype);
}

static double bytes_of(PartComp *c, const HlShape *global, const HlTiles *tiles) {
  return bytes_in(part_local_shape(c->pt, global, &tiles));
}

static bool is_own(const PartLoop *loop, int array, int k) {
  const int other = array == LHS ? RHS : LHS;
  return loop->dim[array][k] >= 0 && loop->dim[other][k] < 0 && !part_loop_sums(loop, k);
}

// By how much an operand's own dimensions are cut; the tiles are the loop's, or the array's.
static int64_t own_parts(const PartLoop *loop, int array, const HlTiles *t, bool of_loop) {
  int64_t parts = 1;
  for (int k = 0; k < loop->rank; k++)
    parts *= is_own(loop, array, k) ? t->parts[of_loop ? k : loop->dim[array][k]] : 1;
  return parts;
}

// Where one operand alone has the dimensions that the result is cut along, it is the other that is
// gathered. Where both have, one is gathered at once, and the other goes round: that which is cut as
// the result is; if both are, the one is gathered whose gathering costs less. -1: neither.
static int which_goes_round(Einsum *e, const HlTiles *const *now) {
  const PartLoop *loop = e->loop;
  const int64_t lhs = own_parts(loop, LHS, e->tiles, true),
                rhs = own_parts(loop, RHS, e->tiles, true);
  if (lhs == 1 || rhs == 1)
    return lhs > 1 ? RHS : rhs > 1 ? LHS : -1;
  const int64_t lhs_now = own_parts(loop, LHS, now[LHS], false);
  const bool lhs_may = lhs_now == lhs, rhs_may = own_parts(loop, RHS, now[RHS], false) == rhs;
  e->partly = e->c->pt->windowing.partly && rhs_may && lhs_now == lhs * rhs;
  if (!lhs_may || !rhs_may)
    return lhs_may || e->partly ? LHS : rhs_may ? RHS : -1;
  const double of_lhs = bytes_of(e->c, loop->shape[LHS], now[LHS]),
               of_rhs = bytes_of(e->c, loop->shape[RHS], now[RHS]);
  return (double)lhs * of_rhs < (double)rhs * of_lhs ? LHS : RHS;
}

// Notes that tiles go round along dimension k, too; false: it is of another kind than those before.
static bool add_along(Einsum *e, int k) {
  for (int j = 0; j < k; j++)
    for (int array = LHS; e->along[j] && array <= OUT; array++)
      if ((e->loop->dim[array][j] < 0) != (e->loop->dim[array][k] < 0))
        return false;
  e->along[k] = true;
  return true;
}

// An operand that is cut along dimensions of one kind more than is wanted, and else as wanted.
static bool find_gather(Einsum *e, const HlTiles *const *now) {
  const PartLoop *loop = e->loop;
  const int x = which_goes_round(e, now), y = x == LHS ? RHS : LHS;
  if (x < 0 || !is_cut_by_all(now[x]))
    return false;
  e->along = HL_ARRAY(e->c->pt->arena, bool, loop->rank + 1);
  for (int k = 0; k < loop->rank; k++) {
    const int d = loop->dim[x][k];
    if (part_loop_sums(loop, k) && e->tiles->parts[k] > 1)
      return false;
    const bool more = d >= 0 && now[x]->parts[d] > 1 && e->tiles->parts[k] == 1;
    if (more && !add_along(e, k))
      return false;
    if ((!more && d >= 0 && !same_places(e->c, now[x], d, e->tiles, k)) ||
        (is_own(loop, y, k) && !same_places(e->c, now[y], loop->dim[y][k], e->tiles, k)))
      return false;
  }
  e->moves = x;
  e->window = now[x];
  e->result = part_loop_array(e->c->pt, loop, OUT, e->tiles);
  return has_along(e, x);
}

// Summands of which each device wants a tile: the result is cut along more dimensions, all of one
// operand, for as many devices as have a summand.
static bool find_scatter(Einsum *e, const HlTiles *own) {
  const PartLoop *loop = e->loop;
  int64_t n = 1, more = 1;
  for (int k = 0; k < loop->rank; k++)
    n *= part_loop_sums(loop, k) ? e->tiles->parts[k] : 1;
  if (n == 1 || !is_cut_by_all(own))
    return false;
  e->along = HL_ARRAY(e->c->pt->arena, bool, loop->rank + 1);
  for (int k = 0; k < loop->rank; k++) {
    const int d = loop->dim[OUT][k];
    if (d >= 0 && e->tiles->parts[k] == 1 && own->parts[d] > 1) {
      more *= own->parts[d];
      if ((!is_own(loop, LHS, k) && !is_own(loop, RHS, k)) || !add_along(e, k))
        return false;
    } else if (d >= 0 && !same_places(e->c, own, d, e->tiles, k)) {
      return false;
    }
  }
  e->moves = OUT;
  e->window = e->result = own;
  return more == n;
}

// --- Whether --------------------------------------------------------------------------------------

// What a user wants of operand x, as far as its own sharding says. NULL: it does not.
static const HlTiles *wish_of(PartComp *c, const HlInst *user, const HlInst *x) {
  const HlSharding *sharding = hl_sharding(user);
  if (!sharding || !hl_shape_is_array(user->shape))
    return NULL;
  const HlTiles *out = hl_tiles_of(c->pt->arena, sharding, user->shape->rank, c->pt->n_devices);
  if (out && user->op == HL_OP_DOT && user->n_operands == 2) {
    const PartLoop loop = part_dot_loop(c, user);
    return part_loop_array(c->pt, &loop, user->operands[LHS] == x ? LHS : RHS,
                           part_loop_tiles(c->pt, &loop, OUT, out, PART_ALL_DIMS));
  }
  const bool same = hl_op_info[user->op].traits & HL_T_ELEMENTWISE || user->op == HL_OP_COPY;
  return same && hl_shape_same_dims(user->shape, x->shape) ? out : NULL;
}

// Another user needs the same of the operand, so that one exchange serves both.
static bool is_shared(const Einsum *e) {
  const HlInst *x = hl_operand(e->inst, e->moves);
  const HlTiles *whole = part_loop_array(e->c->pt, e->loop, e->moves, e->tiles);
  int n = 0;
  for (const HlUse *use = x->first_use; use && n < MOST_USERS; use = use->next, n++) {
    const HlTiles *wish = use->user == e->inst ? NULL : wish_of(e->c, use->user, x);
    if (wish && !hl_tiles_equal(wish, e->window) && hl_tiles_equal(wish, whole))
      return true;
  }
  return false;
}

// A loop that gathers has begun with this value, or with what it is another form of.
static bool began_a_loop(PartComp *c, const HlInst *x) {
  const bool form = x->op == HL_OP_RESHAPE || x->op == HL_OP_BITCAST || x->op == HL_OP_TRANSPOSE;
  return part_value(c, form ? hl_operand(x, 0) : x)->began_loop;
}

static bool is_large(const Einsum *e) {
  const PartWindowing *how = &e->c->pt->windowing;
  const HlTiles *whole = part_loop_array(e->c->pt, e->loop, e->moves, e->tiles);
  if (how->least_total < 0)
    return bytes_of(e->c, e->loop->shape[e->moves], whole) >= (double)how->least_bytes;
  return bytes_in(e->loop->shape[LHS]) + bytes_in(e->loop->shape[RHS]) >= (double)how->least_total;
}

static bool is_forbidden(const HlInst *inst) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, "_xla_collective_matmul") == 0)
      return strcmp(dict->value[k]->text, "none") == 0;
  return false;
}

static bool is_wanted(const Einsum *e) {
  const PartWindowing *how = &e->c->pt->windowing;
  if (e->n > how->most_steps || !is_large(e) || is_forbidden(e->inst) ||
      !(e->moves == OUT ? how->scatters : how->gathers))
    return false;
  if (how->once_an_operand && (began_a_loop(e->c, hl_operand(e->inst, LHS)) ||
                               began_a_loop(e->c, hl_operand(e->inst, RHS))))
    return false;
  return e->moves == OUT || !how->spares_shared || !is_shared(e);
}

// Some array of it is so large: of most programs, none is.
static bool may_be_large(const Einsum *e) {
  const PartWindowing *how = &e->c->pt->windowing;
  bool any = how->least_total >= 0;
  for (int k = LHS; k <= OUT; k++)
    any |= bytes_in(e->loop->shape[k]) >= (double)how->least_bytes;
  return any && how->least_bytes >= 0;
}

static bool find(Einsum *e, const HlTiles *const *now, const HlTiles *own) {
  if (!may_be_large(e) || !is_cut_by_all(e->tiles) || e->inst->shape->dtype == HL_PRED ||
      hl_shape_elements(e->inst->shape) == 0)
    return false;
  if (!find_gather(e, now) && !find_scatter(e, own))
    return false;
  e->n = 1;
  for (int k = 0; k < e->loop->rank; k++)
    e->n *= along(e, e->moves, k) >= 0 ? e->window->parts[along(e, e->moves, k)] : 1;
  return is_wanted(e);
}

// --- The ring -------------------------------------------------------------------------------------

static void sort(int64_t *id, int n) {
  for (int k = 1; k < n; k++)
    for (int j = k; j > 0 && id[j - 1] > id[j]; j--) {
      const int64_t swap = id[j];
      id[j] = id[j - 1];
      id[j - 1] = swap;
    }
}

// Devices that differ in the tile they have, in the order of tiles; a ring of all devices goes by
// their numbers.
static void make_ring(Einsum *e) {
  Part *pt = e->c->pt;
  const int rank = e->loop->rank;
  bool *differ = HL_ARRAY(pt->arena, bool, e->window->rank + 3);
  for (int k = 0; k < rank; k++)
    if (along(e, e->moves, k) >= 0)
      differ[along(e, e->moves, k)] = true;
  const HlI64Lists rings = hl_tiles_groups(pt->arena, e->window, differ);
  e->ring = rings.at;
  e->n_rings = rings.n;
  e->place = HL_ARRAY(pt->arena, int64_t, pt->n_devices + 1);
  e->tile = HL_ARRAY(pt->arena, int64_t, rank + 1);
  e->begin = HL_ARRAY(pt->arena, int64_t *, rank + 1);
  if (rings.n == 1)
    sort((int64_t *)rings.at[0].at, rings.at[0].n);
  for (int r = 0; r < rings.n; r++)
    for (int64_t p = 0; p < e->n; p++)
      e->place[rings.at[r].at[p]] = p;
  int64_t *at = HL_ARRAY(pt->arena, int64_t, e->window->rank + 1);
  for (int k = 0; k < rank; k++) {
    const int d = along(e, e->moves, k);
    if (d < 0)
      continue;
    e->tile[k] = hl_tile_size(e->loop->shape[e->moves]->dim[d], e->window->parts[d]);
    e->begin[k] = HL_ARRAY(pt->arena, int64_t, e->n);
    for (int64_t p = 0; p < e->n; p++) {
      hl_tiles_at(e->window, rings.at[0].at[p], at);
      e->begin[k][p] = at[d] * e->tile[k];
    }
  }
}

// Each device's x goes to the one `by` places further on.
static HlInst *pass_on(const Einsum *e, PartComp *in, HlInst *x, int64_t by) {
  Part *pt = e->c->pt;
  int64_t *source = HL_ARRAY(pt->arena, int64_t, pt->n_devices + 1),
          *target = HL_ARRAY(pt->arena, int64_t, pt->n_devices + 1);
  int n = 0;
  for (int r = 0; r < e->n_rings; r++)
    for (int64_t p = 0; p < e->n; p++) {
      source[n] = e->ring[r].at[p];
      target[n++] = e->ring[r].at[(p + by + e->n) % e->n];
    }
  return part_permute(in, x, n, source, target);
}

// --- One step -------------------------------------------------------------------------------------

// The loop's values, in the order they are carried in. `other` goes the other way round, or is the
// second chain of an unrolled loop whose result goes round; else nothing is done with it.
enum { RESULT = 2, OTHER, STEP, N_CARRIED };

// A computation beside the one in hand.
static PartComp beside(const Einsum *e, const char *name) {
  PartComp in = *e->c;
  in.b = hl_b_nested(&e->c->b, name);
  in.to = in.b.comp;
  in.id = NULL;
  return in;
}

static HlInst *number(PartComp *in, int64_t value) {
  return hl_b_scalar_int(&in->b, HL_U32, value);
}

// (device + by) % n.
static HlInst *place_after(const Einsum *e, PartComp *in, HlInst *by) {
  HlInst *sum = hl_b_binary(&in->b, HL_OP_ADD, by, part_number(in, HL_U32, e->place));
  return hl_b_binary(&in->b, HL_OP_REMAINDER, sum, number(in, e->n));
}

// Where the tile begins that this place began with, as an index of an array.
static HlInst **index_of(const Einsum *e, PartComp *in, int array, HlInst *place) {
  const int rank = e->loop->shape[array]->rank;
  HlInst **index = HL_ARRAY(e->c->pt->arena, HlInst *, rank + 1);
  const int64_t **begin = HL_ARRAY(e->c->pt->arena, const int64_t *, rank + 1);
  for (int k = 0; k < e->loop->rank; k++)
    if (along(e, array, k) >= 0)
      begin[along(e, array, k)] = e->begin[k];
  for (int d = 0; d < rank; d++)
    index[d] = begin[d] ? part_entry(in, part_table(in, HL_S32, begin[d], e->n), place)
                        : part_scalar_index(in, 0);
  return index;
}

// The array's sizes `of` with other ones along which tiles go round: of a tile, or of all of them.
static int64_t *sizes(const Einsum *e, int array, const HlShape *of, bool all) {
  int64_t *size = HL_ARRAY(e->c->pt->arena, int64_t, of->rank + 1);
  memcpy(size, of->dim, sizeof *size * (size_t)of->rank);
  for (int k = 0; k < e->loop->rank; k++)
    if (along(e, array, k) >= 0)
      size[along(e, array, k)] = e->tile[k] * (all ? e->window->parts[along(e, e->moves, k)] : 1);
  return size;
}

// Zeros at the ends, up to whole tiles.
static HlInst *fill_up(const Einsum *e, PartComp *in, HlInst *x, int array) {
  const int64_t *whole = sizes(e, array, x->shape, true);
  int64_t *none = HL_ARRAY(e->c->pt->arena, int64_t, x->shape->rank + 1),
          *high = HL_ARRAY(e->c->pt->arena, int64_t, x->shape->rank + 1);
  bool any = false;
  for (int d = 0; d < x->shape->rank; d++) {
    high[d] = whole[d] - x->shape->dim[d];
    any |= high[d] > 0;
  }
  HlInst *zero = any ? hl_b_scalar_int(&in->b, x->shape->dtype, 0) : NULL;
  return any ? hl_b_pad(&in->b, x, zero, none, high, NULL) : x;
}

static HlInst *slice_out(const Einsum *e, PartComp *in, HlInst *x, int array, HlInst *place) {
  HlInst *whole = x ? fill_up(e, in, x, array) : NULL;
  return whole ? hl_b_dynamic_slice(&in->b, whole, index_of(e, in, array, place),
                                    sizes(e, array, x->shape, false))
               : NULL;
}

static const HlShape *with_sizes(const Einsum *e, const HlShape *shape, const int64_t *size) {
  return hl_shape_array_full(e->c->pt->m->shapes, shape->dtype, shape->rank, size, NULL,
                             shape->layout);
}

// The whole of what a device computes, with room for whole tiles.
static const HlShape *result_shape(const Einsum *e) {
  const HlShape *shape = part_local_shape(e->c->pt, e->inst->shape, &e->result);
  return e->moves == OUT ? shape : with_sizes(e, shape, sizes(e, OUT, shape, true));
}

// The product with the tile that `place` began with, put into the result.
static HlInst *step(const Einsum *e, PartComp *in, HlInst *const operand[2], HlInst *result,
                    HlInst *place) {
  HlInst *part[2];
  for (int k = 0; k < OUT; k++)
    part[k] =
        k == e->moves || !has_along(e, k) ? operand[k] : slice_out(e, in, operand[k], k, place);
  const HlShape *whole = result_shape(e);
  const HlShape *shape = with_sizes(e, whole, sizes(e, OUT, whole, false));
  HlInst *x = part_copy_anew(in, e->inst, shape, 2, part);
  if (e->moves == OUT || !has_along(e, OUT))
    return hl_b_binary(&in->b, HL_OP_ADD, result, x);
  return hl_b_dynamic_update_slice(&in->b, result, x, index_of(e, in, OUT, place));
}

// --- Bodies ---------------------------------------------------------------------------------------

static HlInst *plus(PartComp *in, HlInst *i, int64_t k) {
  return hl_b_binary(&in->b, HL_OP_ADD, i, number(in, k));
}

// The exchange, except after the last step.
static HlInst *pass_on_if(const Einsum *e, PartComp *in, HlInst *more, HlInst *x) {
  PartComp does = beside(e, "window_collective_permute"), waits = beside(e, "last_iteration_noop");
  if (!x)
    return NULL;
  HlInst *moved = pass_on(e, &does, hl_b_parameter(&does.b, x->shape, "window"), -1);
  HlInst *stays = hl_b_parameter(&waits.b, x->shape, "window");
  if (!moved || !stays)
    return NULL;
  hl_set_root(does.to, moved);
  hl_set_root(waits.to, stays);
  HlInst *operands[] = {more, x, x};
  HlComp *comps[] = {does.to, waits.to};
  return hl_b_op(&in->b, HL_OP_CONDITIONAL, x->shape, 3, operands, 0, NULL, 2, comps);
}

// A result's tiles begin one device further on, so that at the end each is where it belongs.
static void plain_body(const Einsum *e, PartComp *in, HlInst **v) {
  HlInst *next = plus(in, v[STEP], 1);
  HlInst *place = place_after(e, in, e->moves == OUT ? next : v[STEP]);
  v[RESULT] = step(e, in, v, v[RESULT], place);
  HlInst *more = hl_b_compare(&in->b, HL_WORD_direction_LT, next, number(in, e->n));
  v[e->moves] = pass_on_if(e, in, more, v[e->moves]);
  v[STEP] = next;
}

static void unrolled_gather(const Einsum *e, PartComp *in, HlInst **v) {
  for (int k = 0; k < 2; k++) {
    HlInst *moved = pass_on(e, in, v[e->moves], -1);
    v[RESULT] = step(e, in, v, v[RESULT], place_after(e, in, v[STEP]));
    v[e->moves] = moved;
    v[STEP] = plus(in, v[STEP], 1);
  }
}

// Two chains of tiles, each over every other device: one is exchanged while the other is added to.
static void unrolled_scatter(const Einsum *e, PartComp *in, HlInst **v) {
  HlInst *moved = pass_on(e, in, v[RESULT], -2);
  v[OTHER] = step(e, in, v, v[OTHER], place_after(e, in, v[STEP]));
  v[OTHER] = pass_on(e, in, v[OTHER], -2);
  v[STEP] = plus(in, v[STEP], 2);
  v[RESULT] = step(e, in, v, moved, place_after(e, in, plus(in, v[STEP], 1)));
}

// k - i, for a step i that is at most k.
static HlInst *minus_step(PartComp *in, int64_t k, HlInst *i) {
  return hl_b_binary(&in->b, HL_OP_SUBTRACT, number(in, k), i);
}

static void gather_both_ways(const Einsum *e, PartComp *in, HlInst **v) {
  for (int k = 0; k < 2; k++) {
    HlInst *moved = pass_on(e, in, v[e->moves], -1), *other = pass_on(e, in, v[OTHER], 1);
    HlInst *second[] = {v[LHS], v[RHS]};
    second[e->moves] = v[OTHER];
    v[RESULT] = step(e, in, v, v[RESULT], place_after(e, in, v[STEP]));
    v[RESULT] =
        step(e, in, second, v[RESULT], place_after(e, in, minus_step(in, e->n - 1, v[STEP])));
    v[e->moves] = moved;
    v[OTHER] = other;
    v[STEP] = plus(in, v[STEP], 1);
  }
}

static void scatter_both_ways(const Einsum *e, PartComp *in, HlInst **v) {
  for (int k = 0; k < 2; k++) {
    HlInst *moved = pass_on(e, in, v[RESULT], -1), *other = pass_on(e, in, v[OTHER], 1);
    v[RESULT] = step(e, in, v, moved, place_after(e, in, plus(in, v[STEP], e->n / 2 + 1)));
    v[OTHER] = step(e, in, v, other, place_after(e, in, minus_step(in, e->n / 2, v[STEP])));
    v[STEP] = plus(in, v[STEP], 1);
  }
}

// --- The loop -------------------------------------------------------------------------------------

typedef enum Form { PLAIN, UNROLLED, BOTH_WAYS } Form;

static Form form_of(const Einsum *e) {
  const PartWindowing *how = &e->c->pt->windowing;
  return e->partly                         ? PLAIN
         : how->both_ways && e->n % 4 == 0 ? BOTH_WAYS
         : how->unrolls && e->n % 2 == 0   ? UNROLLED
                                           : PLAIN;
}

static void fill_body(const Einsum *e, PartComp *in, HlInst **v) {
  switch (form_of(e)) {
  case PLAIN: plain_body(e, in, v); break;
  case UNROLLED: (e->moves == OUT ? unrolled_scatter : unrolled_gather)(e, in, v); break;
  case BOTH_WAYS: (e->moves == OUT ? scatter_both_ways : gather_both_ways)(e, in, v); break;
  }
}

static const char *kind(const Einsum *e, const char *gather, const char *scatter) {
  return e->moves == OUT ? scatter : gather;
}

static HlComp *body_of(const Einsum *e, const HlShape *carried) {
  PartComp in = beside(e, kind(e, "windowed_dot_general_body_ag", "windowed_dot_general_body_rs"));
  HlInst *param = hl_b_parameter(&in.b, carried, "param"), *v[N_CARRIED];
  for (int k = 0; k < N_CARRIED; k++)
    v[k] = hl_b_element(&in.b, param, k);
  fill_body(e, &in, v);
  HlInst *root = hl_b_tuple(&in.b, N_CARRIED, v);
  if (root)
    hl_set_root(in.to, root);
  return root ? in.to : NULL;
}

static HlComp *condition_of(const Einsum *e, const HlShape *carried) {
  PartComp in = beside(e, kind(e, "windowed_dot_general_cond_ag", "windowed_dot_general_cond_rs"));
  HlInst *i = hl_b_element(&in.b, hl_b_parameter(&in.b, carried, "param"), STEP);
  HlInst *root = hl_b_compare(&in.b, HL_WORD_direction_LT, i,
                              number(&in, form_of(e) == BOTH_WAYS ? e->n / 2 : e->n));
  if (root)
    hl_set_root(in.to, root);
  return root ? in.to : NULL;
}

static HlInst *zeros(PartComp *c, const HlShape *shape) {
  HlInst *zero = hl_b_scalar_int(&c->b, shape->dtype, 0);
  const HlAttr none = {.key = HL_A_DIMENSIONS};
  return zero ? hl_b_op(&c->b, HL_OP_BROADCAST, shape, 1, &zero, 1, &none, 0, NULL) : NULL;
}

// The two chains of a result are one place away from where they belong, the one or the other.
static HlInst *join_chains(const Einsum *e, HlInst *result, HlInst *other) {
  PartComp *c = e->c;
  if (form_of(e) == BOTH_WAYS)
    other = pass_on(e, c, other, 1);
  else
    result = pass_on(e, c, result, 1);
  return hl_b_binary(&c->b, HL_OP_ADD, result, other);
}

static HlInst *emit(const Einsum *e, HlInst *const operand[2]) {
  PartComp *c = e->c;
  const HlShape *shape = result_shape(e);
  HlInst *v[N_CARRIED] = {operand[LHS], operand[RHS]};
  if (v[LHS] == v[RHS])
    v[RHS] = hl_b_op(&c->b, HL_OP_COPY, v[RHS]->shape, 1, &v[RHS], 0, NULL, 0, NULL);
  v[RESULT] = zeros(c, shape);
  v[OTHER] =
      form_of(e) == BOTH_WAYS && e->moves != OUT ? pass_on(e, c, v[e->moves], 1) : zeros(c, shape);
  v[STEP] = number(c, 0);
  HlInst *init = hl_b_tuple(&c->b, N_CARRIED, v);
  HlComp *body = init ? body_of(e, init->shape) : NULL;
  HlComp *condition = body ? condition_of(e, init->shape) : NULL;
  HlInst *loop = condition ? hl_b_while(&c->b, condition, body, init) : NULL;
  HlInst *x = hl_b_element(&c->b, loop, RESULT);
  if (e->moves == OUT)
    return form_of(e) == PLAIN ? x : join_chains(e, x, hl_b_element(&c->b, loop, OTHER));
  for (int k = 0; x && k < e->loop->rank; k++) {
    const int d = along(e, OUT, k);
    if (d >= 0 && x->shape->dim[d] > e->loop->shape[OUT]->dim[d])
      x = hl_b_slice_dim(&c->b, x, d, 0, e->loop->shape[OUT]->dim[d]);
  }
  return x;
}

bool part_windowed_dot(PartComp *c, HlInst *inst, const PartLoop *loop, const HlTiles *t,
                       const HlTiles *own, bool *done) {
  PartValue *value[] = {part_value(c, hl_operand(inst, LHS)), part_value(c, hl_operand(inst, RHS))};
  const HlTiles *now[] = {value[LHS]->tiles[0], value[RHS]->tiles[0]};
  Einsum e = {.c = c, .inst = inst, .loop = loop, .tiles = t};
  if (!find(&e, now, own))
    return false;
  make_ring(&e);
  HlInst *operand[2];
  for (int k = 0; k < OUT; k++) {
    const HlTiles *wanted = k == e.moves ? now[k] : part_loop_array(c->pt, loop, k, t);
    operand[k] = part_product_operand(c, inst, loop, k, wanted);
  }
  // XLA makes the exchange first, to see what it would cost, with a channel for each dimension.
  for (int k = 0; k < loop->rank; k++)
    c->pt->next_channel += e.moves == OUT ? t->parts[k] > 1 && part_loop_sums(loop, k) : e.along[k];
  HlInst *x = operand[LHS] && operand[RHS] ? emit(&e, operand) : NULL;
  if (e.moves != OUT && operand[LHS] == value[LHS]->local)
    value[LHS]->began_loop = true;
  *done = part_set(c, inst, x, e.result);
  return true;
}
