// cpu/conv/conv.h: how a convolution is laid out for the machine.
//
// Every element of the result is a sum of products,
//
//   y[place, column]  =  sum over k of  x[row[place] + step[k]] * w[k, column]
//
// where a place is a batch and a position of the window, a column an output feature, and k runs over input features and taps
// of the window. That x is read at the sum of two offsets holds in every layout, with every stride and dilation, as long as
// no window sticks out of the input: so the input is read where it lies, or, where a window sticks out or the
// type is another, as a copy of the box that is needed, with zeros around it. Nothing is unrolled into matrices. Weights are
// brought into panels [k][columns of a block], once where several boxes of places need them, and a micro-kernel multiplies some
// places by a block of columns.
//
// Dilation of the input: places of one phase (their number modulo the dilation, roughly) see the same subset of the taps and
// need no holes. Each combination of phases is a part, an ordinary convolution that writes every so many-th place.
//
// Groups: with many small groups (depthwise) the vector lies across groups instead of output features, and x is read as
// vectors: x[row[place] + step[k] + column]. Complex numbers are pairs of reals: k runs over both halves of x, columns over
// both halves of y, and panels hold (re, im) and (-im, re).
//
// All is cut into boxes of places, of columns and of the sum that fit the cache. A gradient by weights is a convolution whose
// window is the image: few places, a long sum. There the boxes of the sum are dealt out among chunks as well, whose results are
// added at the end, always in the same order.
//
// Types that are not computed in are converted before and after, whole. 3x3 windows of f32 have a way of their own (winograd.h).
#ifndef HILO_CPU_CONV_CONV_H
#define HILO_CPU_CONV_CONV_H

#include "cpu/kernel/kernel.h"
#include "cpu/vec/vec.h"

// --- The micro-kernels (panel_simd.c) ----------------------------------------------------------------

// What is computed in; what x, w and y are brought to.
typedef enum ConvType { CONV_F32, CONV_F64, CONV_I32, CONV_I64, CONV_TYPES } ConvType;

// Some places times one block of columns. Offsets in elements.
typedef struct ConvPanel {
  const void *x;
  const int64_t *row;   // of a place, in x
  const int64_t *step;  // of k, in x
  const int64_t *to;    // of a place, in y
  int64_t rows, steps;
  const void *w;        // [steps][columns], aligned to 64
  void *y;              // the columns of a place stand beside each other
  bool add;             // to what is in y
} ConvPanel;
typedef void ConvPanelFn(const ConvPanel *panel);

enum { CONV_VECTORS = 2 };  // at most in a block of columns
typedef struct ConvLevel {
  int lanes[CONV_TYPES];    // of a vector
  int rows;                 // places at once, with two vectors
  ConvPanelFn *panel[CONV_TYPES][2][CONV_VECTORS];  // by whether x is read as vectors, and vectors of a block less 1
} ConvLevel;
SIMD_DECLARE(const ConvLevel, conv_level);

// --- The plan (make.c) ---------------------------------------------------------------------------------

enum {
  CONV_SPATIAL = 6,         // dimensions at most
  CONV_AT_ONCE = 4          // blocks of columns that are packed together: rows of weights are read in longer pieces
};
// Axes of the input, those of the places of the result, those of the sum. Spatial ones follow the named ones.
enum { X_BATCH, X_FEATURE, X_GROUP, X_HALF, X_SPATIAL, X_AXES = X_SPATIAL + CONV_SPATIAL };
enum { PLACE_BATCH, PLACE_SPATIAL, PLACE_AXES = PLACE_SPATIAL + CONV_SPATIAL };
enum { SUM_FEATURE, SUM_HALF, SUM_TAP, SUM_AXES = SUM_TAP + CONV_SPATIAL };

// The element that tap t of the window at place p sees, along one dimension, is p * stride + t * dilation + first. Boxes hold every
// `unit`-th element, none of those in between that nobody sees.
typedef struct ConvDim {
  int64_t stride, dilation, first, unit;
} ConvDim;

typedef struct ConvPart {
  int64_t places[PLACE_AXES], sums[SUM_AXES];          // how many along each axis
  int64_t place_box[PLACE_AXES], sum_box[SUM_AXES];    // at most in a box
  ConvDim dim[CONV_SPATIAL];
  int64_t y, y_step[PLACE_AXES];                       // where it begins, and how far apart places lie
  int64_t w, w_step[SUM_AXES];
  int64_t boxes, first_box;                            // boxes of places, and of the parts before
  int64_t sum_boxes;
} ConvPart;

typedef struct ConvWinograd ConvWinograd;  // winograd.h

// Strides are in units of what is computed in where memory has that type, so complex numbers count two.
typedef struct ConvKernel {
  CpuKernel kernel;
  int buffer[3];            // of x, w and y
  HlDtype x_dtype, w_dtype, y_dtype, dtype;  // the last: what is computed in
  ConvType type;
  CpuLevel simd;
  VecTranspose *transpose;
  bool complex;
  bool across_groups;       // columns are groups, slices the output features of a group; else the other way round
  const ConvLevel *level;
  int vectors;              // of a block of columns
  int64_t block;            // columns in it
  int spatial;
  int64_t x_dim[X_AXES], x_stride[X_AXES];
  int x_order[X_AXES], place_order[PLACE_AXES], sum_order[SUM_AXES];  // from the largest stride to the smallest
  int64_t columns, w_column, y_column, column_box, column_boxes;
  int64_t slices, x_slice, w_slice, y_slice;
  ConvPart *part;
  int n_parts;
  int64_t boxes;            // of places, of all parts
  bool copies;              // x is not read where it lies
  int64_t splits;           // of the sum; 1 where there are several parts
  int64_t x_elements, w_elements, y_elements;
  int64_t panel_elements;   // of weights packed before, for all boxes of places; 0: each box packs its own
  int64_t most_rows, most_steps, most_elements;  // of a box
  double macs;              // multiplications
  const ConvWinograd *winograd;  // how it is done with fewer of them; NULL: it is not
} ConvKernel;

typedef struct ConvBox {
  int64_t place[PLACE_AXES], places[PLACE_AXES];  // first, and how many
  int64_t sum[SUM_AXES], sums[SUM_AXES];
  int64_t column, columns;
} ConvBox;
// Which elements of x a box of places and sums sees, by axis of x, padding included: n of them, `unit` apart.
void conv_range(const ConvKernel *c, const ConvPart *part, const ConvBox *box, int64_t *low, int64_t *n,
                int64_t *unit);
// How a copy of n elements by axis lies, so that neighbours do not get in each other's way in the cache; returns its elements.
int64_t conv_copy(const ConvKernel *c, const int64_t *n, int64_t *stride);

extern const CpuKernelKind cpu_kind_conv;
CpuKernel *conv_make(CpuMaker *maker, const HlInst *inst);
bool conv_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why);
void conv_print(HlBuf *out, const CpuKernel *kernel);

#endif
