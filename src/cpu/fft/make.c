// cpu/fft/make.c: takes an fft apart into stages, one a dimension.

#include <inttypes.h>

#include "cpu/fft/fft.h"

typedef struct Array {
  const HlShape *shape;
  const int64_t *stride;
} Array;

// Joins dimensions whose elements lie evenly in both arrays, and picks the one whose lines fill vectors.
static void set_lines(HlArena *arena, FftStage *s, const Array *in, const Array *out, int axis,
                      int lanes) {
  const int rank = in->shape->rank;
  int64_t *size = HL_ARRAY(arena, int64_t, rank + 1), *from = HL_ARRAY(arena, int64_t, rank + 1),
          *to = HL_ARRAY(arena, int64_t, rank + 1);
  int n = 0;
  for (int d = 0; d < rank; d++) {  // the smallest stride first
    if (d == axis || in->shape->dim[d] == 1)
      continue;
    int k = n++;
    for (; k > 0 && from[k - 1] > in->stride[d]; k--) {
      size[k] = size[k - 1];
      from[k] = from[k - 1];
      to[k] = to[k - 1];
    }
    size[k] = in->shape->dim[d];
    from[k] = in->stride[d];
    to[k] = out->stride[d];
  }
  int m = 0;
  for (int k = 0; k < n; k++) {
    if (m > 0 && from[k] == from[m - 1] * size[m - 1] && to[k] == to[m - 1] * size[m - 1]) {
      size[m - 1] *= size[k];
      continue;
    }
    size[m] = size[k];
    from[m] = from[k];
    to[m++] = to[k];
  }
  int best = 0;
  for (int k = 1; k < m; k++)
    if (size[best] < lanes && size[k] > size[best])
      best = k;
  s->lines = m > 0 ? size[best] : 1;
  s->in_line = m > 0 ? from[best] : 1;
  s->out_line = m > 0 ? to[best] : 1;
  s->n_planes = (s->lines + lanes - 1) / lanes;
  for (int k = 0; k < m; k++)
    if (k != best) {
      size[s->n_outer] = size[k];
      from[s->n_outer] = from[k];
      to[s->n_outer++] = to[k];
      s->n_planes *= size[k];
    }
  s->outer = size;
  s->in_outer = from;
  s->out_outer = to;
}

static const Fft *plan_of(const FftKernel *f, HlArena *arena, int64_t n) {
  for (int k = 0; k < f->n_stages; k++)
    if (f->stage[k].fft && f->stage[k].fft->n == n)
      return f->stage[k].fft;
  return fft_plan(arena, n, f->type);
}

static void push_stage(FftKernel *f, FftStage s) {
  const double points = (double)s.n * (double)s.n_planes * f->level->lanes[f->type];
  f->kernel.seconds += points * (s.fft->longer ? 12e-9 : 2e-9) * (f->type + 1);
  f->stage[f->n_stages++] = s;
}

// exp(-2 pi i j k / n) in planes: lanes are j, points k.
static void *twists(const FftKernel *f, HlArena *arena, int64_t n, int64_t points, int64_t lines) {
  const int lanes = f->level->lanes[f->type];
  const size_t point = (size_t)lanes * (f->type == 0 ? 8 : 16);
  const int64_t planes = (lines + lanes - 1) / lanes;
  char *table = HL_ARRAY(arena, char, (size_t)(planes * points) * point + 64);
  table += -(uintptr_t)table & 63;
  for (int64_t p = 0; p < planes; p++)
    for (int64_t k = 0; k < points; k++) {
      double pair[2 * 16];
      for (int j = 0; j < lanes; j++) {
        double re, im;
        fft_root((p * lanes + j) * k % n, n, &re, &im);
        if (f->type == 1) {
          pair[2 * j] = re;
          pair[2 * j + 1] = im;
        } else {
          ((float *)pair)[2 * j] = (float)re;
          ((float *)pair)[2 * j + 1] = (float)im;
        }
      }
      f->level->split[f->type](1, pair, lanes, table + (size_t)(p * points + k) * point, false);
    }
  return table;
}

// In two halves, by way of the array in between; false if the length does not come apart.
static bool add_halves(FftKernel *f, HlArena *arena, const FftStage *s) {
  const int lanes = f->level->lanes[f->type];
  int64_t a = 1;
  for (int64_t k = 2; k * k <= s->n; k++)
    a = s->n % k == 0 ? k : a;
  const int64_t b = s->n / a;
  if (a < lanes)
    return false;
  int64_t *outer = HL_ARRAY(arena, int64_t, s->n_outer + 1),
          *in = HL_ARRAY(arena, int64_t, s->n_outer + 1),
          *out = HL_ARRAY(arena, int64_t, s->n_outer + 1),
          *between = HL_ARRAY(arena, int64_t, s->n_outer + 1), all = s->n;
  for (int k = 0; k <= s->n_outer; k++) {
    const bool own = k == s->n_outer;
    outer[k] = own ? s->lines : s->outer[k];
    in[k] = own ? s->in_line : s->in_outer[k];
    out[k] = own ? s->out_line : s->out_outer[k];
    between[k] = all;
    all *= outer[k];
  }
  FftStage first = *s, second = *s;
  first.fft = plan_of(f, arena, a);
  first.twist = twists(f, arena, s->n, a, b);
  first.n = first.n_in = first.n_out = a;
  first.lines = b;
  first.in_step = s->in_step * b;
  first.in_line = s->in_step;
  first.out_step = b;
  first.out_line = 1;
  first.to = 2;
  second.n = second.n_in = second.n_out = b;
  second.lines = a;
  second.in_step = 1;
  second.in_line = b;
  second.out_step = s->out_step * a;
  second.out_line = s->out_step;
  second.from = 2;
  first.n_outer = second.n_outer = s->n_outer + 1;
  first.outer = second.outer = outer;
  first.in_outer = in;
  first.out_outer = second.in_outer = between;
  second.out_outer = out;
  first.n_planes = (b + lanes - 1) / lanes * (all / s->n);
  second.n_planes = (a + lanes - 1) / lanes * (all / s->n);
  push_stage(f, first);
  second.fft = plan_of(f, arena, b);
  push_stage(f, second);
  f->between = (size_t)all * (f->type == 0 ? 8 : 16);
  return true;
}

static void add_stage(FftKernel *f, HlArena *arena, const Array *array, int from, int to, int axis,
                      int64_t n, bool inverse) {
  const Array *in = &array[from], *out = &array[to];
  FftStage s = {.from = from,
                .to = to,
                .n = n,
                .n_in = in->shape->dim[axis],
                .n_out = out->shape->dim[axis],
                .in_step = in->stride[axis],
                .out_step = out->stride[axis],
                .real_in = hl_is_float(in->shape->dtype),
                .real_out = hl_is_float(out->shape->dtype),
                .inverse = inverse};
  const bool real = s.real_in || s.real_out;
  const int lanes = f->level->lanes[f->type];
  set_lines(arena, &s, in, out, axis, lanes);
  // Arrays of the operand's size are in between already where the result is real.
  if (s.lines < lanes && !real && to == 1 && add_halves(f, arena, &s))
    return;
  s.fft = plan_of(f, arena, real && n % 2 == 0 ? n / 2 : n);
  if (real && n % 2 == 0)
    s.root = fft_roots(arena, n / 2 + 1, n, f->type);
  push_stage(f, s);
}

static bool fits(const HlInst *inst, HlI64s length, bool real_in, bool real_out) {
  const HlShape *x = inst->operands[0]->shape, *y = inst->shape;
  if (!hl_shape_is_array(x) || !hl_shape_is_array(y) || hl_shape_is_dynamic(x) ||
      hl_shape_is_dynamic(y) || x->rank != y->rank || length.n < 1 || length.n > x->rank)
    return false;
  for (int d = 0; d < x->rank; d++) {
    const int k = d - (x->rank - length.n);
    const int64_t n = k < 0 ? x->dim[d] : length.at[k];
    const bool last = d == x->rank - 1;
    if (n < 1 || n > INT64_C(1) << 22 || x->dim[d] != (last && real_out ? n / 2 + 1 : n) ||
        y->dim[d] != (last && real_in ? n / 2 + 1 : n))
      return false;
  }
  const HlDtype wide = real_in ? y->dtype : x->dtype;
  const HlDtype narrow = wide == HL_C64 ? HL_F32 : HL_F64;
  return hl_is_complex(wide) && x->dtype == (real_in ? narrow : wide) &&
         y->dtype == (real_out ? narrow : wide);
}

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  if (inst->op != HL_OP_FFT)
    return NULL;
  const int64_t type = hl_attr_int(inst, HL_A_FFT_TYPE);
  const bool real_in = type == HL_WORD_fft_type_RFFT, real_out = type == HL_WORD_fft_type_IRFFT,
             inverse = type == HL_WORD_fft_type_IFFT || real_out;
  const HlI64s length = hl_attr_ints(inst, HL_A_FFT_LENGTH);
  const HlShape *x = inst->operands[0]->shape, *y = inst->shape;
  if (!fits(inst, length, real_in, real_out))
    return NULL;
  HlArena *arena = maker->arena;
  static const FftLevel *const levels[CPU_LEVELS] = SIMD_LEVELS(&fft_level);
  FftKernel *f = HL_NEW(arena, FftKernel);
  f->kernel = (CpuKernel){.kind = &cpu_kind_fft, .n_buffers = 2};
  f->level = levels[maker->level];
  f->simd = maker->level;
  f->type = (real_in ? y : x)->dtype == HL_C64 ? 0 : 1;
  f->stage = HL_ARRAY(arena, FftStage, 2 * length.n);
  // In between lies what is not the real result yet, as the operand does.
  const int64_t *stride = cpu_strides(arena, x);
  const Array array[] = {{x, stride}, {y, cpu_strides(arena, y)}, {x, stride}};
  const int rank = x->rank, last = rank - 1;
  if (!real_out)
    add_stage(f, arena, array, 0, 1, last, length.at[length.n - 1], inverse);
  for (int k = 0; k < length.n - 1; k++) {
    const int axis = rank - length.n + k;
    if (real_out)
      add_stage(f, arena, array, k == 0 ? 0 : 2, 2, axis, length.at[k], inverse);
    else
      add_stage(f, arena, array, 1, 1, axis, length.at[k], inverse);
  }
  if (real_out)
    add_stage(f, arena, array, length.n > 1 ? 2 : 0, 1, last, length.at[length.n - 1], inverse);
  if (real_out && length.n > 1)
    f->between = (size_t)cpu_bytes(x);
  return &f->kernel;
}

static void print(HlBuf *out, const CpuKernel *kernel) {
  const FftKernel *f = (const FftKernel *)kernel;
  for (int k = 0; k < f->n_stages; k++) {
    const FftStage *s = &f->stage[k];
    hl_buf_printf(out, "lines of %" PRId64 ", %" PRId64 " planes:", s->n, s->n_planes);
    const Fft *fft = s->fft->longer ? s->fft->longer : s->fft;
    for (int j = 0; j < fft->n_factors; j++)
      hl_buf_printf(out, " %d", fft->factor[j]);
    hl_buf_puts(out, s->fft->longer ? " by convolution\n" : "\n");
  }
}

const CpuKernelKind cpu_kind_fft = {"fft", make, fft_run, print};
