// op/elementwise.h: the engine of elementwise kernels, and the macros that make one of an
// expression.
//
// A kernel is a table of block functions, one per compute class; the engine cuts the elements into
// tiles, widens them from the storage type to the class's type, calls the block, and narrows the
// results, rounding once. A new op of floats is one line: EW_UNARY(my_op, x * x + 1).
#ifndef HILO_OP_ELEMENTWISE_H
#define HILO_OP_ELEMENTWISE_H

#include <math.h>
#include <string.h>

#include "op/kernel.h"

// Compute classes and their C types. Types up to 32 bits wide compute in the wide ones: s1 to s32
// as int64_t, u1 to u32 as uint64_t, f4 to bf16 as float. S32 and U32 are optional short cuts.
typedef enum EwClass {
  EW_PRED,  // uint8_t, 0 or 1
  EW_S,     // int64_t
  EW_U,     // uint64_t
  EW_S32,   // int32_t
  EW_U32,   // uint32_t
  EW_F32,   // float
  EW_F64,   // double
  EW_C64,   // EwC64
  EW_C128,  // EwC128
  EW_N_CLASSES
} EwClass;
typedef struct EwC64 {
  float re, im;
} EwC64;
typedef struct EwC128 {
  double re, im;
} EwC128;

enum { EW_TILE = 512, EW_MAX_OPERANDS = 3 };

// What a block function works on: n elements of each operand and of the result.
typedef struct EwTile {
  int64_t n;  // EW_TILE, but for the last one
  void *out;
  const void *in[EW_MAX_OPERANDS];
  const HlInst *inst;
  int bits;  // logical width of the operands' type
} EwTile;
typedef void EwFn(const EwTile *tile);

typedef enum EwResult {
  EW_SAME,       // results are of the operands' class
  EW_TO_PRED,    // of class PRED
  EW_TO_PART,    // of complex: F32 of C64, F64 of C128; else the same
  EW_TO_COMPLEX  // of floats: C64 of F32, C128 of F64
} EwResult;

typedef struct Elementwise {
  EwResult result;
  EwFn *fn[EW_N_CLASSES];  // by the class of operand 0; NULL: not for this type
} Elementwise;

// What the ops mean that machines (op/machine.c) run too, and comparisons by direction (NULL: none such).
extern const Elementwise ew_abs, ew_add, ew_and, ew_clamp, ew_divide, ew_is_finite, ew_maximum,
    ew_minimum, ew_multiply, ew_negate, ew_not, ew_or, ew_remainder, ew_shift_left,
    ew_shift_right_logical, ew_subtract, ew_xor;
const Elementwise *ew_comparison(int64_t direction);

// The class to compute a type in: the short cuts where the op has them.
EwClass ew_class(const Elementwise *op, HlDtype dtype);
EwClass ew_result_class(EwResult result, EwClass in);
bool ew_fits(HlDtype dtype, EwClass class);       // whether elements of the type are computed in the class
bool ew_is_direct(HlDtype dtype, EwClass class);  // and are stored as it has them

// Runs the op over all elements; operands with one element stand for as many as the result has.
bool ew_run(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, int n_in, HlLiteral *out,
            const Elementwise *op);
// Widens n elements of a storage type to its class's type (of the wide ones), and narrows them back.
void ew_widen(HlDtype dtype, const void *from, void *to, int64_t n);
void ew_narrow(HlDtype dtype, const void *from, void *to, int64_t n);
// A number that orders as the float of these bits does in the total order, from -nan to nan.
int64_t ew_total_order_key(HlDtype dtype, uint64_t bits);
// The bits of n elements of another type of less than a byte as elements of this one: signs are
// extended anew. `from` may be `out`.
void ew_recast_sub_byte(HlDtype to, const uint8_t *from, uint8_t *out, int64_t n);

// The loop of a block. Whole tiles have a length known to the compiler, so that it uses SIMD; machines have one element.
#define EW_EACH(tile, ...)                    \
  if ((tile)->n == EW_TILE) {                 \
    for (int64_t i = 0; i < EW_TILE; i++) {   \
      __VA_ARGS__                             \
    }                                         \
  } else if ((tile)->n == 1) {                \
    const int64_t i = 0;                      \
    __VA_ARGS__                               \
  } else {                                    \
    for (int64_t i = 0; i < (tile)->n; i++) { \
      __VA_ARGS__                             \
    }                                         \
  }

// Block functions named `name`, of one, two or three operands of type T; the expression sees x, y,
// z as W, and `bits`, the logical width.
#define EW_FN1(name, To, T, W, expr)                       \
  static void name(const EwTile *tile) {                   \
    const T *restrict xs = tile->in[0];                    \
    To *restrict out = tile->out;                          \
    const int bits = tile->bits;                           \
    (void)bits;                                            \
    EW_EACH(tile, const W x = xs[i]; out[i] = (To)(expr);) \
  }
#define EW_FN2(name, To, T, W, expr)                                          \
  static void name(const EwTile *tile) {                                      \
    const T *restrict xs = tile->in[0];                                       \
    const T *restrict ys = tile->in[1];                                       \
    To *restrict out = tile->out;                                             \
    const int bits = tile->bits;                                              \
    (void)bits;                                                               \
    EW_EACH(tile, const W x = xs[i]; const W y = ys[i]; out[i] = (To)(expr);) \
  }
#define EW_FN3(name, To, T, W, expr)                                                             \
  static void name(const EwTile *tile) {                                                         \
    const T *restrict xs = tile->in[0];                                                          \
    const T *restrict ys = tile->in[1];                                                          \
    const T *restrict zs = tile->in[2];                                                          \
    To *restrict out = tile->out;                                                                \
    EW_EACH(tile, const W x = xs[i]; const W y = ys[i]; const W z = zs[i]; out[i] = (To)(expr);) \
  }
// The same for complex operands: the function gets and returns EwC128.
#define EW_COMPLEX1(name, T, function)                                         \
  static void name(const EwTile *tile) {                                       \
    const T *xs = tile->in[0];                                                 \
    T *out = tile->out;                                                        \
    for (int64_t i = 0; i < tile->n; i++) {                                    \
      const EwC128 r = function((EwC128){(double)xs[i].re, (double)xs[i].im}); \
      out[i].re = EW_PART_OF_##T(r.re);                                        \
      out[i].im = EW_PART_OF_##T(r.im);                                        \
    }                                                                          \
  }
#define EW_COMPLEX2(name, T, function)                                         \
  static void name(const EwTile *tile) {                                       \
    const T *xs = tile->in[0], *ys = tile->in[1];                              \
    T *out = tile->out;                                                        \
    for (int64_t i = 0; i < tile->n; i++) {                                    \
      const EwC128 r = function((EwC128){(double)xs[i].re, (double)xs[i].im},  \
                                (EwC128){(double)ys[i].re, (double)ys[i].im}); \
      out[i].re = EW_PART_OF_##T(r.re);                                        \
      out[i].im = EW_PART_OF_##T(r.im);                                        \
    }                                                                          \
  }
#define EW_PART_OF_EwC64(value) (float)(value)
#define EW_PART_OF_EwC128(value) (value)

// The kernel eval_<op> of n_in operands, from designated initialisers of an Elementwise; where others than the kernel
// want it too, EW_SHARED_KERNEL names it ew_<op>.
#define EW_KERNEL(op, n_in, ...)                                                               \
  bool eval_##op(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) { \
    static const Elementwise table = {__VA_ARGS__};                                            \
    return ew_run(ev, inst, in, n_in, out, &table);                                            \
  }
#define EW_SHARED_KERNEL(op, n_in, ...)                                                        \
  const Elementwise ew_##op = {__VA_ARGS__};                                                   \
  bool eval_##op(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) { \
    return ew_run(ev, inst, in, n_in, out, &ew_##op);                                          \
  }

// A whole op on floats from one expression of a double x, rounded to the type at the end.
#define EW_UNARY(op, expr)                       \
  EW_FN1(op##_f32, float, float, double, expr)   \
  EW_FN1(op##_f64, double, double, double, expr) \
  EW_KERNEL(op, 1, .fn = {[EW_F32] = op##_f32, [EW_F64] = op##_f64})
// The same with a function of complex numbers besides.
#define EW_UNARY_COMPLEX(op, expr, function)     \
  EW_FN1(op##_f32, float, float, double, expr)   \
  EW_FN1(op##_f64, double, double, double, expr) \
  EW_COMPLEX1(op##_c64, EwC64, function)         \
  EW_COMPLEX1(op##_c128, EwC128, function)       \
  EW_KERNEL(                                     \
      op, 1,                                     \
      .fn = {                                    \
          [EW_F32] = op##_f32, [EW_F64] = op##_f64, [EW_C64] = op##_c64, [EW_C128] = op##_c128})

#endif
