// cpu/conv/panel_simd.h: the micro-kernels for one type: panel_simd.c includes this once for each, with T, NAME and MULTIPLY_ADD.
//
// The sums of a few places times one or two vectors of columns stay in registers while k runs: a step costs a load a vector of
// weights, and a load of x a place, which is splat over the columns or, across groups, a vector.

typedef T NAME(V) __attribute__((vector_size(BYTES)));
typedef T NAME(U) __attribute__((vector_size(BYTES), aligned(__alignof__(T)), may_alias));

// `rows` and `vectors` are constants where this is called; the last `rows - real` places are not stored.
INLINE void NAME(block)(const ConvPanel *p, int64_t first, int rows, int real, int vectors, bool across) {
  enum { LANES = BYTES / sizeof(T) };
  const T *x[ROWS], *w = p->w;
  NAME(V) sum[ROWS][CONV_VECTORS];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {
    x[i] = (const T *)p->x + p->row[first + (i < real ? i : 0)];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      sum[i][v] = (NAME(V)){0};
  }
  for (int64_t k = 0; k < p->steps; k++, w += vectors * LANES) {
    const int64_t step = p->step[k];
    NAME(V) weight[CONV_VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      weight[v] = *(const NAME(V) *)(w + v * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) {
        NAME(V) element;
        if (across)
          element = *(const NAME(U) *)(x[i] + step + v * LANES);
        else
          element = x[i][step] - (NAME(V)){0};
        sum[i][v] = MULTIPLY_ADD(element, weight[v], sum[i][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {
    if (i == real)
      break;
    NAME(U) *y = (NAME(U) *)((T *)p->y + p->to[first + i]);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      if (p->add)
        sum[i][v] += y[v];
      y[v] = sum[i][v];
    }
  }
}

INLINE void NAME(panel)(const ConvPanel *p, int rows, int vectors, bool across) {
  int64_t first = 0;
  for (; p->rows - first >= rows; first += rows)
    NAME(block)(p, first, rows, rows, vectors, across);
  const int rest = (int)(p->rows - first);
  if (rest > rows / 2)
    NAME(block)(p, first, rows, rest, vectors, across);
  else if (rest > 1)
    NAME(block)(p, first, rows / 2, rest, vectors, across);
  else if (rest == 1)
    NAME(block)(p, first, 1, 1, vectors, across);
}

static void NAME(splat_1)(const ConvPanel *p) { NAME(panel)(p, ROWS_1, 1, false); }
static void NAME(splat_2)(const ConvPanel *p) { NAME(panel)(p, ROWS_2, 2, false); }
static void NAME(vector_1)(const ConvPanel *p) { NAME(panel)(p, ROWS_1, 1, true); }
static void NAME(vector_2)(const ConvPanel *p) { NAME(panel)(p, ROWS_2, 2, true); }

#undef T
#undef NAME
#undef MULTIPLY_ADD
