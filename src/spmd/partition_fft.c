// spmd/partition_fft.c: a Fourier transform along a dimension that is cut into as many parts as
// there are devices.
//
// With N = p * t elements in p parts, device r first gets every p-th element, from the r-th on, by
// one all-to-all, and transforms these t by itself. What is left is p results to be turned and
// added, for which they go once around:
//
//   X[k + t q]  =  sum over r of  w(r q, p) * w(r k, N) * F_r[k],    w(n, m) = exp(-2 pi i n / m)
//
// where F_r is what device r has, and q the device that wants it. No device ever holds more than two
// tiles. Other dimensions of a transform of several are whole, and done along with F_r.

#include "spmd/partition.h"

typedef struct Fft {
  PartComp *c;
  const HlShape *shape;
  const HlTiles *tiles;
  int dim;  // the last one
  int64_t parts, tile;
  HlDtype real;  // the type of the parts of a number
} Fft;

// exp(-2 pi i n / m), n integers of any sizes.
static HlInst *turn(const Fft *f, HlBuild *b, HlInst *n, int64_t m) {
  const double pi = 3.14159265358979323846;
  HlInst *angle = n ? hl_b_convert(b, n, f->real) : NULL;
  angle = angle ? hl_b_binary(b, HL_OP_MULTIPLY, angle, hl_b_like(b, angle, -2 * pi / (double)m))
                : NULL;
  return hl_b_binary(b, HL_OP_COMPLEX, hl_b_unary(b, HL_OP_COSINE, angle),
                     hl_b_unary(b, HL_OP_SINE, angle));
}

static HlInst *spread(HlBuild *b, HlInst *scalar, const HlShape *like) {
  return scalar ? hl_b_broadcast(b, scalar, like->rank, like->dim, (HlI64s){0}) : NULL;
}

// --- Every p-th element ---------------------------------------------------------------------------

// Tiles that are dealt out have to be multiples of the parts: what comes next in line fills them up.
static PartReach dealt(const Fft *f) {
  const int64_t size = hl_tile_size(f->tile, f->parts) * f->parts;
  return (PartReach){.step = size, .length = size};
}

static HlInst *deal(const Fft *f, HlInst *x) {
  PartComp *c = f->c;
  HlBuild *b = &c->b;
  const int rank = f->tiles->rank;
  const PartReach reach = dealt(f);
  if (x && reach.length != f->tile)
    x = part_window(c, x, f->shape, f->tiles, f->dim, reach,
                    hl_b_scalar_int(b, x->shape->dtype, 0));
  if (!x)
    return NULL;
  int64_t *size = HL_ARRAY(c->pt->arena, int64_t, rank + 2),
          *perm = HL_ARRAY(c->pt->arena, int64_t, rank + 2);
  for (int k = 0; k < rank; k++) {
    size[k] = x->shape->dim[k];
    perm[k] = k;
  }
  size[f->dim] /= f->parts;
  size[rank] = f->parts;
  perm[f->dim] = rank;
  perm[rank] = f->dim;
  x = part_all_to_all(c, hl_b_reshape(b, x, rank + 1, size), rank,
                      part_groups(c, f->tiles, f->dim, f->parts, false));
  x = hl_b_transpose(b, x, (HlI64s){perm, rank + 1});
  size[f->dim] = reach.length;
  x = x ? hl_b_reshape(b, x, rank, size) : NULL;
  return x && reach.length != f->tile ? hl_b_slice_dim(b, x, f->dim, 0, f->tile) : x;
}

// The transform of what the device has, turned by where its elements stand.
static HlInst *own_transform(const Fft *f, const HlInst *inst, HlInst *x, HlInst *ordinal) {
  PartComp *c = f->c;
  HlBuild *b = &c->b;
  x = x ? part_copy(c, inst, x->shape, 1, &x) : NULL;
  if (!x)
    return NULL;
  const HlI64s whole = hl_attr_ints(inst, HL_A_FFT_LENGTH);
  int64_t *length = hl_arena_copy(c->pt->arena, whole.at, sizeof *length * (size_t)whole.n);
  length[whole.n - 1] = f->tile;
  hl_set_ints(x, HL_A_FFT_LENGTH, (HlI64s){length, whole.n});
  HlInst *place = hl_b_iota(b, HL_S32, x->shape->rank, x->shape->dim, f->dim);
  place = hl_b_binary(b, HL_OP_MULTIPLY, place, spread(b, ordinal, x->shape));
  return hl_b_binary(b, HL_OP_MULTIPLY, x, turn(f, b, place, f->tile * f->parts));
}

// --- Around ---------------------------------------------------------------------------------------

// The loop's values, in the order they are carried in: the transform so far, what goes around, whose
// this device's results are, whose that is, and the step.
enum { SUM, PASSING, OWN, ITS, STEP, N_CARRIED };

// A computation beside the one in hand.
static PartComp beside(const Fft *f, const char *name) {
  PartComp in = *f->c;
  in.b = hl_b_nested(&f->c->b, name);
  in.to = in.b.comp;
  in.id = NULL;
  return in;
}

static HlComp *finished(PartComp *in, HlInst *root) {
  if (root)
    hl_set_root(in->to, root);
  return root ? in->to : NULL;
}

static HlInst *to_next(const Fft *f, PartComp *in, HlInst *x) {
  int64_t *target = HL_ARRAY(in->pt->arena, int64_t, f->parts);
  for (int64_t k = 0; k < f->parts; k++)
    target[k] = f->tiles->device[(k + 1) % f->parts];
  return part_permute(in, x, (int)f->parts, f->tiles->device, target);
}

static HlComp *body_of(const Fft *f, const HlShape *carried) {
  PartComp in = beside(f, "fft_collective_permute_body");
  HlBuild *b = &in.b;
  HlInst *param = hl_b_parameter(b, carried, "param"), *v[N_CARRIED];
  for (int k = 0; k < N_CARRIED; k++)
    v[k] = hl_b_element(b, param, k);
  HlInst *places = hl_b_binary(b, HL_OP_MULTIPLY, v[OWN], v[ITS]);
  HlInst *factor = spread(b, turn(f, b, places, f->parts), carried->element[SUM]);
  v[SUM] = hl_b_binary(b, HL_OP_ADD, v[SUM], hl_b_binary(b, HL_OP_MULTIPLY, factor, v[PASSING]));
  v[PASSING] = to_next(f, &in, v[PASSING]);
  v[ITS] = to_next(f, &in, v[ITS]);
  v[STEP] = hl_b_binary(b, HL_OP_ADD, v[STEP], hl_b_scalar_int(b, HL_U32, 1));
  return finished(&in, hl_b_tuple(b, N_CARRIED, v));
}

static HlComp *condition_of(const Fft *f, const HlShape *carried) {
  PartComp in = beside(f, "fft_collective_permute_condition");
  HlInst *step = hl_b_element(&in.b, hl_b_parameter(&in.b, carried, "param"), STEP);
  return finished(&in, hl_b_compare(&in.b, HL_WORD_direction_LT, step,
                                    hl_b_scalar_int(&in.b, HL_U32, f->parts)));
}

static HlInst *gather_turned(const Fft *f, HlInst *x, HlInst *ordinal) {
  HlBuild *b = &f->c->b;
  if (!x)
    return NULL;
  HlInst *v[N_CARRIED] = {hl_b_like_int(b, x, 0), x, ordinal, ordinal,
                          hl_b_scalar_int(b, HL_U32, 0)};
  HlInst *init = hl_b_tuple(b, N_CARRIED, v);
  HlComp *body = init ? body_of(f, init->shape) : NULL;
  HlComp *condition = body ? condition_of(f, init->shape) : NULL;
  return condition ? hl_b_element(b, hl_b_while(b, condition, body, init), SUM) : NULL;
}

// --- The rule -------------------------------------------------------------------------------------

// As XLA has it: not of matrices and vectors, and only where all devices share the dimension.
static bool is_shared_by_all(const Fft *f, const HlInst *inst) {
  const HlI64s length = hl_attr_ints(inst, HL_A_FFT_LENGTH);
  return f->shape->rank >= 3 && hl_attr_int(inst, HL_A_FFT_TYPE) == HL_WORD_fft_type_FFT &&
         !hl_shape_is_dynamic(f->shape) && f->parts == f->c->pt->n_devices && f->parts > 1 &&
         f->shape->dim[f->dim] == length.at[length.n - 1] &&
         f->shape->dim[f->dim] % f->parts == 0 && f->tile > 0 &&
         f->shape->dim[f->dim] <= INT32_MAX &&
         (f->tile % f->parts == 0 ||
          part_window_pays(f->c->pt, f->shape, f->tiles, f->dim, dealt(f)));
}

// All that is transformed is in one place; the lines of one batch know nothing of the others.
static bool whole_lines(PartComp *c, HlInst *inst, const HlTiles *own) {
  const int rank = inst->shape->rank, n = hl_attr_ints(inst, HL_A_FFT_LENGTH).n;
  const HlTiles *now = part_tiles_now(c, hl_operand(inst, 0));
  if (own->unreduced > 1 || now->unreduced > 1 || own->manual != now->manual ||
      hl_shape_is_dynamic(inst->shape))
    return part_default(c, inst);
  bool *drop = HL_ARRAY(c->pt->arena, bool, rank + 1);
  for (int k = rank - n; k < rank; k++)
    drop[k] = true;
  const HlTiles *t = part_without(c, own, drop);
  HlInst *x = part_operand(c, inst, 0, t);
  return part_set(c, inst, part_copy_as(c, inst, t, 1, &x), t);
}

bool part_fft(PartComp *c, HlInst *inst) {
  const HlTiles *const *own = part_tiles(c, inst);
  if (!own)
    return false;
  Fft f = {.c = c, .shape = hl_operand(inst, 0)->shape, .tiles = own[0]};
  f.dim = f.shape->rank - 1;
  f.parts = f.dim < 0 ? 1 : own[0]->parts[f.dim];
  f.tile = f.dim < 0 ? 0 : f.shape->dim[f.dim] / f.parts;
  f.real = f.shape->dtype == HL_C128 ? HL_F64 : HL_F32;
  if (!is_shared_by_all(&f, inst))
    return whole_lines(c, inst, own[0]);
  HlInst *x = deal(&f, part_operand(c, inst, 0, f.tiles));
  HlInst *ordinal = part_ordinal(c, f.tiles, f.dim);
  return part_set(c, inst, gather_turned(&f, own_transform(&f, inst, x, ordinal), ordinal),
                  f.tiles);
}
