// tests/support/gen_far.c: one op a module, of sizes that many tiles do not divide.
#include "support/gen_far.h"

enum { MAX_RANK = 3 };

typedef struct Far {
  HlRng rng;
  HlBuild b;
  HlModule *m;
  int rank;
  int64_t size[MAX_RANK];
} Far;

static int64_t below(Far *f, int64_t n) {
  return hl_rng_below(&f->rng, n);
}
static int64_t between(Far *f, int64_t low, int64_t high) {
  return low + below(f, high - low + 1);
}

static HlInst *parameter(Far *f, HlDtype dtype, int rank, const int64_t *size) {
  return hl_b_parameter(&f->b, hl_shape_array(f->m->shapes, dtype, rank, size), NULL);
}

static void choose_sizes(Far *f, int rank, int64_t most) {
  f->rank = rank;
  for (int k = 0; k < rank; k++)
    f->size[k] = between(f, 1, most);
}

static HlDtype number(Far *f) {
  static const HlDtype dtypes[] = {HL_F32, HL_F64, HL_BF16, HL_S32, HL_U8};
  return dtypes[below(f, HL_COUNT_OF(dtypes))];
}

// --- Stretches --------------------------------------------------------------------------------------------

static HlInst *slice(Far *f) {
  int64_t start[MAX_RANK], limit[MAX_RANK], stride[MAX_RANK];
  choose_sizes(f, (int)between(f, 1, 2), 30);
  for (int k = 0; k < f->rank; k++) {
    start[k] = below(f, 2) ? 0 : below(f, f->size[k]);
    limit[k] = between(f, start[k] + 1, f->size[k]);
    stride[k] = between(f, 1, 3);
  }
  return hl_b_slice(&f->b, parameter(f, number(f), f->rank, f->size), start, limit, stride);
}

// A little may be cut off at the ends.
static HlInst *pad(Far *f) {
  int64_t low[MAX_RANK], high[MAX_RANK], gap[MAX_RANK];
  choose_sizes(f, (int)between(f, 1, 2), 24);
  for (int k = 0; k < f->rank; k++) {
    gap[k] = below(f, 2) ? 0 : between(f, 1, 3);
    const int64_t most = (f->size[k] + (f->size[k] - 1) * gap[k]) / 3;
    low[k] = between(f, most < 3 ? -most : -3, 4);
    high[k] = between(f, most < 3 ? -most : -3, 4);
  }
  const HlDtype dtype = number(f);
  HlInst *x = parameter(f, dtype, f->rank, f->size);
  return hl_b_pad(&f->b, x, parameter(f, dtype, 0, NULL), low, high, gap);
}

// --- Lines ------------------------------------------------------------------------------------------------

static void choose_line(Far *f) {
  choose_sizes(f, (int)between(f, 1, 2), 4);
  f->size[f->rank - 1] = between(f, 8, 200);
}

static HlComp *comparator(Far *f, HlDtype dtype) {
  const HlDtype dtypes[] = {dtype, dtype, HL_S32, HL_S32};
  HlBuild in = hl_b_nested(&f->b, "before");
  HlInst *p[4];
  for (int k = 0; k < 4; k++)
    p[k] = hl_b_parameter(&in, hl_shape_scalar(f->m->shapes, dtypes[k]), NULL);
  const int by = below(f, 3) ? 0 : 2, turned = (int)below(f, 2);
  const int direction = below(f, 2) ? HL_WORD_direction_LT : HL_WORD_direction_GT;
  HlInst *x = p[by + turned], *y = p[by + 1 - turned];
  hl_set_root(in.comp, below(f, 2) ? hl_b_compare(&in, direction, x, y)
                                   : hl_b_compare_total(&in, direction, x, y));
  return in.comp;
}

static HlInst *first_of_sorted(Far *f) {
  choose_line(f);
  const HlDtype dtype = number(f);
  HlInst *x[] = {parameter(f, dtype, f->rank, f->size), parameter(f, HL_S32, f->rank, f->size)};
  HlComp *before = comparator(f, dtype);
  const HlAttr attrs[] = {{.key = HL_A_DIMENSION, .i = f->rank - 1},
                          {.key = HL_A_IS_STABLE, .i = 1}};
  HlInst *sort = hl_b_op(&f->b, HL_OP_SORT, NULL, 2, x, 2, attrs, 1, &before);
  const int64_t k = between(f, 1, 6);
  for (int i = 0; i < 2; i++)
    x[i] = hl_b_slice_dim(&f->b, hl_b_element(&f->b, sort, i), f->rank - 1, 0, k);
  return hl_b_tuple(&f->b, 2, x);
}

static HlInst *top_k(Far *f) {
  choose_line(f);
  HlInst *out[2];
  HlInst *x = parameter(f, number(f), f->rank, f->size);
  return hl_expand_top_k(&f->b, x, between(f, 1, 6), out) ? hl_b_tuple(&f->b, 2, out) : NULL;
}

static HlInst *fft(Far *f) {
  choose_sizes(f, 3, 3);
  f->size[2] = between(f, 1, 4) * 6;
  const HlI64s length = {hl_arena_copy(f->m->arena, &f->size[2], sizeof *f->size), 1};
  const HlAttr attrs[] = {{.key = HL_A_FFT_TYPE, .i = HL_WORD_fft_type_FFT},
                          {.key = HL_A_FFT_LENGTH, .ints = length}};
  HlInst *x = parameter(f, below(f, 2) ? HL_C64 : HL_C128, 3, f->size);
  return hl_b_op(&f->b, HL_OP_FFT, NULL, 1, &x, 2, attrs, 0, NULL);
}

// --- Indices that count -----------------------------------------------------------------------------------

static HlI64s ints(Far *f, int n, const int64_t *at) {
  return (HlI64s){hl_arena_copy(f->m->arena, at, sizeof *at * (size_t)n), n};
}

// Row k of the indices points into row k of the operand, and somewhere there.
static HlInst *indices(Far *f, int64_t rows, int64_t n, bool row_first) {
  static const HlDtype dtypes[] = {HL_S32, HL_S64, HL_U32, HL_S8};
  const HlDtype dtype = dtypes[below(f, HL_COUNT_OF(dtypes))];
  const int64_t size[] = {rows, n, 1};
  HlInst *row = hl_b_iota(&f->b, dtype, 3, size, 0),
         *column = hl_b_convert(&f->b, parameter(f, HL_U8, 3, size), dtype);
  HlInst *both[] = {row_first ? row : column, row_first ? column : row};
  return hl_b_concatenate(&f->b, 2, both, 2);
}

static HlInst *gather_or_scatter(Far *f) {
  choose_sizes(f, 3, 12);
  static const int64_t dims[] = {0, 1}, turned[] = {1, 0}, last[] = {2};
  const bool row_first = below(f, 2), gathers = below(f, 2);
  const int64_t n = between(f, 1, 3), size[] = {f->size[0], n, f->size[2]},
                one[] = {1, 1, f->size[2]};
  const HlI64s both = ints(f, 2, dims), map = ints(f, 2, row_first ? dims : turned),
               window = ints(f, 1, last);
  HlInst *x[] = {parameter(f, HL_F32, 3, f->size), indices(f, f->size[0], n, row_first), NULL};
  if (gathers) {
    const HlAttr attrs[] = {{.key = HL_A_OFFSET_DIMS, .ints = window},
                            {.key = HL_A_COLLAPSED_SLICE_DIMS, .ints = both},
                            {.key = HL_A_START_INDEX_MAP, .ints = map},
                            {.key = HL_A_INDEX_VECTOR_DIM, .i = 2},
                            {.key = HL_A_SLICE_SIZES, .ints = ints(f, 3, one)}};
    return hl_b_op(&f->b, HL_OP_GATHER, NULL, 2, x, HL_COUNT_OF(attrs), attrs, 0, NULL);
  }
  x[2] = parameter(f, HL_F32, 3, size);
  HlComp *add = hl_b_scalar_comp(&f->b, HL_OP_ADD, HL_F32);
  const HlAttr attrs[] = {{.key = HL_A_UPDATE_WINDOW_DIMS, .ints = window},
                          {.key = HL_A_INSERTED_WINDOW_DIMS, .ints = both},
                          {.key = HL_A_SCATTER_DIMS_TO_OPERAND_DIMS, .ints = map},
                          {.key = HL_A_INDEX_VECTOR_DIM, .i = 2}};
  return hl_b_op(&f->b, HL_OP_SCATTER, NULL, 3, x, HL_COUNT_OF(attrs), attrs, 1, &add);
}

// --- Modules ----------------------------------------------------------------------------------------------

HlModule *gen_far(HlCx *cx, uint64_t seed) {
  static HlInst *(*const ops[])(Far *) = {slice, pad, pad, first_of_sorted,   first_of_sorted,
                                          top_k, fft, fft, gather_or_scatter, gather_or_scatter};
  HlModule *m = hl_module_new("far", NULL);
  HlComp *entry = hl_comp_new(m, "main", 4);
  hl_comp_set_entry(entry);
  Far f = {.rng = {seed}, .m = m, .b = {.cx = cx, .comp = entry}};
  HlInst *root = ops[below(&f, HL_COUNT_OF(ops))](&f);
  if (root)
    hl_set_root(entry, root);
  if (root && hl_sort_comps(cx, m))
    return m;
  hl_module_free(m);
  return NULL;
}
