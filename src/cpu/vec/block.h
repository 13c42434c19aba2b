// cpu/vec/block.h: how vector functions are made: loops over blocks of elements that the compiler turns into vector instructions.
//
// A function is an expression of x, y and z, and FN1, FN2 or FN3 around it. Each makes one loop over whole blocks, in which an
// operand that is the same for all elements stays where it is, and the VecFns of each `same` around that loop. What is left over
// is computed as one more block, in memory that vec_run provides: there is one copy of the machine code, and an element's result
// does not depend on where it stands.
#ifndef HILO_CPU_VEC_BLOCK_H
#define HILO_CPU_VEC_BLOCK_H

#include "cpu/vec/vec.h"

enum { VEC_BLOCK = 32, VEC_OPERANDS = 3 };

// Computes `n` blocks; from one block to the next operand j moves by step[j] bytes.
typedef void VecBlocks(int64_t n, void *out, const void *const *in, const int64_t *step);
typedef struct VecKernel {
  VecBlocks *run;
  uint8_t same, operands, out_size, size[VEC_OPERANDS];  // sizes: bytes an element
} VecKernel;
void vec_run(int64_t n, void *out, const void *a, const void *b, const void *c,
             const VecKernel *kernel);

// The functions of an op and type, by `same`.
typedef VecFn *const *VecVariants;

// The types that tables have columns for; others are carried as one of these.
typedef enum VecClass {
  VEC_CLASS_PRED,
  VEC_CLASS_S8,
  VEC_CLASS_S16,
  VEC_CLASS_S32,
  VEC_CLASS_S64,
  VEC_CLASS_U8,
  VEC_CLASS_U16,
  VEC_CLASS_U32,
  VEC_CLASS_U64,
  VEC_INT_CLASSES,
  VEC_CLASS_F32 = VEC_INT_CLASSES,
  VEC_CLASS_F64,
  VEC_CLASSES,
  VEC_FLOAT_CLASSES = VEC_CLASSES - VEC_INT_CLASSES
} VecClass;

// A level's tables; NULL: none such. Those of floats start at VEC_CLASS_F32.
typedef VecVariants VecIntTable[VEC_OP_COUNT][VEC_INT_CLASSES];
typedef VecVariants VecFloatTable[VEC_OP_COUNT][VEC_FLOAT_CLASSES];
typedef VecFn *VecConvertTable[VEC_CLASSES][HL_DTYPE_COUNT];
typedef VecFn *VecRoundTable[HL_DTYPE_COUNT];
typedef VecVariants VecWrapTable[HL_DTYPE_COUNT];
typedef VecFold *VecFoldTable[VEC_OP_COUNT][VEC_CLASSES];
typedef VecLanes *VecLanesTable[VEC_OP_COUNT][VEC_CLASSES];
typedef VecScan *VecScanTable[VEC_OP_COUNT][VEC_CLASSES];
typedef VecFoldRows *VecFoldRowsTable[VEC_OP_COUNT][VEC_CLASSES];
typedef VecJoin *VecJoinTable[VEC_OP_COUNT][VEC_CLASSES];
typedef struct VecMemory {
  VecLoad *load;
  VecStore *store;
  VecGather *gather;
  VecScatter *scatter;
} VecMemory;
typedef VecMemory VecMemoryTable[HL_DTYPE_COUNT];
typedef VecIota *VecIotaTable[VEC_CLASSES];
typedef VecTranspose *VecTransposeTable[17];  // by size

SIMD_DECLARE(const VecIntTable, vec_ints);
SIMD_DECLARE(const VecFloatTable, vec_floats);
SIMD_DECLARE(const VecFloatTable, vec_math);
SIMD_DECLARE(const VecConvertTable, vec_converts);
SIMD_DECLARE(const VecRoundTable, vec_rounds);
SIMD_DECLARE(const VecWrapTable, vec_wraps);
SIMD_DECLARE(const VecFoldTable, vec_folds);
SIMD_DECLARE(const VecLanesTable, vec_lanes);
SIMD_DECLARE(const VecScanTable, vec_scans);
SIMD_DECLARE(const VecJoinTable, vec_joins);
SIMD_DECLARE(const VecFoldRowsTable, vec_row_folds);
SIMD_DECLARE(VecPlaces, vec_places);
SIMD_DECLARE(VecKeep, vec_keep);
SIMD_DECLARE(VecTake, vec_take);
SIMD_DECLARE(VecPut, vec_put);
SIMD_DECLARE(const VecMemoryTable, vec_memory);
SIMD_DECLARE(const VecIotaTable, vec_iotas);
SIMD_DECLARE(const VecTransposeTable, vec_transposes);
// Of integers of less than a byte, what asks for their width; the same at all levels.
extern const VecVariants vec_few_bits[HL_DTYPE_COUNT][VEC_OP_COUNT];

// A loop whose steps do not depend on each other, though operands and result may be one.
#if defined(__GNUC__) && !defined(__clang__)
#define VEC_EACH(k, n) _Pragma("GCC ivdep") for (int64_t k = 0; k < (n); k++)
#else
#define VEC_EACH(k, n) for (int64_t k = 0; k < (n); k++)
#endif

#define VEC_BLOCKS(name, n_operands, To, A, B, C, ...)                                          \
  static void name##_blocks(int64_t n, void *out, const void *const *in, const int64_t *step) { \
    const char *a = in[0], *b = in[1], *c = in[2];                                              \
    const int64_t step_a = step[0], step_b = step[1], step_c = step[2];                         \
    To *to = out;                                                                               \
    for (; n > 0; n--, a += step_a, b += step_b, c += step_c, to += VEC_BLOCK) {                \
      const A *xs = (const A *)a;                                                               \
      const B *ys = (const B *)b;                                                               \
      const C *zs = (const C *)c;                                                               \
      (void)ys, (void)zs;                                                                       \
      VEC_EACH(k, VEC_BLOCK) {                                                                  \
        __VA_ARGS__                                                                             \
      }                                                                                         \
    }                                                                                           \
  }                                                                                             \
  enum { name##_operands = n_operands, name##_out = sizeof(To) };                               \
  enum { name##_a = sizeof(A), name##_b = sizeof(B), name##_c = sizeof(C) };

#define VEC_VARIANT(name, same)                                                                  \
  static void name##_##same(int64_t n, void *out, const void *a, const void *b, const void *c) { \
    static const VecKernel kernel = {                                                            \
        name##_blocks, same, name##_operands, name##_out, {name##_a, name##_b, name##_c}};       \
    vec_run(n, out, a, b, c, &kernel);                                                           \
  }
#define VEC_VARIANTS1(name) \
  VEC_VARIANT(name, 0)      \
  VEC_VARIANT(name, 1)      \
  static VecFn *const name[] = {name##_0, name##_1};
#define VEC_VARIANTS2(name) \
  VEC_VARIANT(name, 0)      \
  VEC_VARIANT(name, 1)      \
  VEC_VARIANT(name, 2)      \
  VEC_VARIANT(name, 3)      \
  static VecFn *const name[] = {name##_0, name##_1, name##_2, name##_3};
#define VEC_VARIANTS3(name)                                             \
  VEC_VARIANT(name, 0)                                                  \
  VEC_VARIANT(name, 1)                                                  \
  VEC_VARIANT(name, 2)                                                  \
  VEC_VARIANT(name, 3)                                                  \
  VEC_VARIANT(name, 4)                                                  \
  VEC_VARIANT(name, 5)                                                  \
  VEC_VARIANT(name, 6)                                                  \
  VEC_VARIANT(name, 7)                                                  \
  static VecFn *const name[] = {name##_0, name##_1, name##_2, name##_3, \
                                name##_4, name##_5, name##_6, name##_7};

// The variants `name` of an expression of x; of x and y; of x (of type A), y and z.
#define FN1(name, To, T, ...)                                                     \
  VEC_BLOCKS(name, 1, To, T, T, T, const T x = xs[k]; to[k] = (To)(__VA_ARGS__);) \
  VEC_VARIANTS1(name)
#define FN2(name, To, T, ...)                                            \
  VEC_BLOCKS(name, 2, To, T, T, T, const T x = xs[k]; const T y = ys[k]; \
             to[k] = (To)(__VA_ARGS__);)                                 \
  VEC_VARIANTS2(name)
#define FN3(name, To, A, T, ...)                                                            \
  VEC_BLOCKS(name, 3, To, A, T, T, const A x = xs[k]; const T y = ys[k]; const T z = zs[k]; \
             to[k] = (To)(__VA_ARGS__);)                                                    \
  VEC_VARIANTS3(name)
// One function alone, name_0, for what has no `same`.
#define FN_ONE(name, To, T, ...)                                                  \
  VEC_BLOCKS(name, 1, To, T, T, T, const T x = xs[k]; to[k] = (To)(__VA_ARGS__);) \
  VEC_VARIANT(name, 0)

#endif
