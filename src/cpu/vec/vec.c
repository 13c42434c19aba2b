// cpu/vec/vec.c: finds vector functions in the tables, and runs those that go by blocks.

#include <string.h>

#include "base/compiler.h"
#include "cpu/vec/block.h"

const VecInfo vec_info[VEC_OP_COUNT] = {
#define VEC(id, text, operands, cost) [VEC_##id] = {text, operands, cost},
#include "cpu/vec/vec.def"
#undef VEC
};

// --- The tables, by level -----------------------------------------------------------------------

#define TABLES(type, name) static const type *const name[CPU_LEVELS] = SIMD_LEVELS(&vec_##name);
TABLES(VecIntTable, ints)
TABLES(VecFloatTable, floats)
TABLES(VecFloatTable, math)
TABLES(VecConvertTable, converts)
TABLES(VecRoundTable, rounds)
TABLES(VecWrapTable, wraps)
TABLES(VecFoldTable, folds)
TABLES(VecLanesTable, lanes)
TABLES(VecScanTable, scans)
TABLES(VecJoinTable, joins)
TABLES(VecFoldRowsTable, row_folds)
TABLES(VecMemoryTable, memory)
TABLES(VecIotaTable, iotas)
TABLES(VecTransposeTable, transposes)
#undef TABLES

HlDtype vec_carrier(HlDtype dtype) {
  switch (dtype) {
  case HL_S1:
  case HL_S2:
  case HL_S4: return HL_S8;
  case HL_U1:
  case HL_U2:
  case HL_U4: return HL_U8;
  case HL_C128: return HL_F64;
  case HL_C64: return HL_F32;
  default: return hl_dtype_info[dtype].format.bits != 0 ? HL_F32 : dtype;
  }
}

static VecClass class_of(HlDtype dtype) {
  switch (vec_carrier(dtype)) {
  case HL_PRED: return VEC_CLASS_PRED;
  case HL_S8: return VEC_CLASS_S8;
  case HL_S16: return VEC_CLASS_S16;
  case HL_S32: return VEC_CLASS_S32;
  case HL_S64: return VEC_CLASS_S64;
  case HL_U8: return VEC_CLASS_U8;
  case HL_U16: return VEC_CLASS_U16;
  case HL_U32: return VEC_CLASS_U32;
  case HL_U64: return VEC_CLASS_U64;
  case HL_F32: return VEC_CLASS_F32;
  default: return VEC_CLASS_F64;
  }
}

// What only moves bits looks at the size alone.
static VecClass class_for(VecOp op, HlDtype dtype) {
  const VecClass class = class_of(dtype);
  if (op != VEC_SELECT && op != VEC_COPY && op != VEC_WRAP)
    return class;
  return class == VEC_CLASS_F32 ? VEC_CLASS_U32 : class == VEC_CLASS_F64 ? VEC_CLASS_U64 : class;
}

VecFn *vec_fn(CpuLevel level, VecOp op, HlDtype dtype, int same) {
  const VecVariants few = vec_few_bits[dtype][op];
  if (few)
    return few[same];
  if (op == VEC_WRAP && (*wraps[level])[dtype])
    return (*wraps[level])[dtype][same];
  const VecClass class = class_for(op, dtype);
  if (class < VEC_INT_CLASSES) {
    const VecVariants ints_of = (*ints[level])[op][class];
    return ints_of ? ints_of[same] : NULL;
  }
  const VecVariants exact = (*floats[level])[op][class - VEC_INT_CLASSES];
  const VecVariants found = exact ? exact : (*math[level])[op][class - VEC_INT_CLASSES];
  return found ? found[same] : NULL;
}

VecFn *vec_convert(CpuLevel level, HlDtype from, HlDtype to) {
  return (*converts[level])[class_of(from)][hl_is_complex(to) ? vec_carrier(to) : to];
}

VecFn *vec_round(CpuLevel level, HlDtype dtype) {
  return (*rounds[level])[dtype];
}

VecLoad *vec_load(CpuLevel level, HlDtype dtype) {
  return (*memory[level])[dtype].load;
}

VecStore *vec_store(CpuLevel level, HlDtype dtype) {
  return (*memory[level])[dtype].store;
}

VecGather *vec_gather(CpuLevel level, HlDtype dtype) {
  return (*memory[level])[dtype].gather;
}

VecScatter *vec_scatter(CpuLevel level, HlDtype dtype) {
  return (*memory[level])[dtype].scatter;
}

VecIota *vec_iota(CpuLevel level, HlDtype dtype) {
  return (*iotas[level])[class_of(dtype)];
}

VecTranspose *vec_transpose(CpuLevel level, int size) {
  return (*transposes[level])[size];
}

// The vector function that a computation is: op(parameter 0, parameter 1); VEC_OP_COUNT: none.
VecOp vec_op_of(const HlComp *comp, HlDtype dtype) {
  static const struct {
    HlOp op;
    VecOp vec, of_pred;
  } simple[] = {{HL_OP_ADD, VEC_ADD, VEC_OR},         {HL_OP_MULTIPLY, VEC_MULTIPLY, VEC_AND},
                {HL_OP_MAXIMUM, VEC_MAXIMUM, VEC_OR}, {HL_OP_MINIMUM, VEC_MINIMUM, VEC_AND},
                {HL_OP_AND, VEC_AND, VEC_AND},        {HL_OP_OR, VEC_OR, VEC_OR},
                {HL_OP_XOR, VEC_XOR, VEC_XOR}};
  const HlInst *root = comp->root;
  if (comp->n_params != 2 || root->n_operands != 2 || root->shape->dtype != dtype ||
      root->operands[0]->op != HL_OP_PARAMETER || root->operands[1]->op != HL_OP_PARAMETER ||
      root->operands[0] == root->operands[1])
    return VEC_OP_COUNT;
  for (int k = 0; k < HL_COUNT_OF(simple); k++)
    if (simple[k].op == root->op)
      return dtype == HL_PRED ? simple[k].of_pred : simple[k].vec;
  return VEC_OP_COUNT;
}

bool vec_neutral(VecOp op, HlDtype dtype, uint64_t *bits) {
  const bool is_float = hl_is_float(dtype), is_signed = hl_is_signed(dtype);
  const int width = 8 * hl_dtype_bytes(dtype);
  const uint64_t ones = UINT64_MAX >> (64 - width), sign = UINT64_C(1) << (width - 1);
  const uint64_t infinity = width == 32 ? 0x7f800000 : UINT64_C(0x7ff0000000000000);
  const uint64_t one = width == 32 ? 0x3f800000 : UINT64_C(0x3ff0000000000000);
  switch (op) {
  case VEC_ADD: *bits = is_float ? sign : 0; return true;
  case VEC_MULTIPLY: *bits = is_float ? one : 1; return true;
  case VEC_MAXIMUM: *bits = is_float ? infinity | sign : is_signed ? sign : 0; return true;
  case VEC_MINIMUM: *bits = is_float ? infinity : is_signed ? sign - 1 : ones; return true;
  case VEC_AND: *bits = ones; return true;
  case VEC_OR:
  case VEC_XOR: *bits = 0; return true;
  default: return false;
  }
}

VecFold *vec_fold(CpuLevel level, VecOp op, HlDtype dtype) {
  return (*folds[level])[op][class_of(dtype)];
}

VecLanes *vec_lanes(CpuLevel level, VecOp op, HlDtype dtype) {
  return (*lanes[level])[op][class_of(dtype)];
}

VecScan *vec_scan(CpuLevel level, VecOp op, HlDtype dtype) {
  return (*scans[level])[op][class_of(dtype)];
}

VecFoldRows *vec_fold_rows(CpuLevel level, VecOp op, HlDtype dtype) {
  return (*row_folds[level])[op][class_of(dtype)];
}

VecJoin *vec_join(CpuLevel level, VecOp op, HlDtype dtype) {
  return (*joins[level])[op][class_of(dtype)];
}

VecPlaces *vec_places(CpuLevel level) {
  static VecPlaces *const places[CPU_LEVELS] = SIMD_LEVELS(vec_places);
  return places[level];
}

VecKeep *vec_keep(CpuLevel level) {
  static VecKeep *const keep[CPU_LEVELS] = SIMD_LEVELS(vec_keep);
  return keep[level];
}

VecTake *vec_take(CpuLevel level) {
  static VecTake *const take[CPU_LEVELS] = SIMD_LEVELS(vec_take);
  return take[level];
}

VecPut *vec_put(CpuLevel level) {
  static VecPut *const put[CPU_LEVELS] = SIMD_LEVELS(vec_put);
  return put[level];
}

// --- Blocks -------------------------------------------------------------------------------------

enum { BLOCK_BYTES = VEC_BLOCK * 8 };

// A block of one element over and over: where vectors are short that is most of the work.
static void fill(char *block, const char *element, int size) {
  uint64_t word;
  switch (size) {
  case 1: word = (uint8_t)*element * UINT64_C(0x0101010101010101); break;
  case 2: word = hl_load_u16(element) * UINT64_C(0x0001000100010001); break;
  case 4: word = hl_load_u32(element) * UINT64_C(0x0000000100000001); break;
  default: memcpy(&word, element, sizeof word); break;
  }
  for (int k = 0; k < VEC_BLOCK; k++)
    memcpy(block + k * (int)sizeof word, &word, sizeof word);
}

// Less than a block. Left to the compiler that is `rep movs`, which takes longer to begin than all the rest takes.
static void copy_rest(char *to, const char *from, int64_t n, int size) {
  const int64_t bytes = n * size;
  int64_t k = 0;
  if (bytes >= 16) {
    for (; k + 16 < bytes; k += 16)
      memcpy(to + k, from + k, 16);
    memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    memcpy(to, from, 8);
    memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    memcpy(to, from, 4);
    memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (; k < bytes; k++)
      to[k] = from[k];
  }
}

void vec_run(int64_t n, void *out, const void *a, const void *b, const void *c,
             const VecKernel *kernel) {
  if (n <= 0)
    return;
  _Alignas(64) char same[VEC_OPERANDS][BLOCK_BYTES], last[VEC_OPERANDS][BLOCK_BYTES],
      result[BLOCK_BYTES];
  const void *in[VEC_OPERANDS] = {a, b, c};
  int64_t step[VEC_OPERANDS] = {0};
  const int64_t blocks = n / VEC_BLOCK, rest = n % VEC_BLOCK;
  for (int j = 0; j < kernel->operands; j++) {
    const int size = kernel->size[j];
    if (kernel->same >> j & 1) {
      fill(same[j], in[j], size);
      in[j] = same[j];
    } else {
      step[j] = VEC_BLOCK * size;
    }
  }
  kernel->run(blocks, out, in, step);
  if (rest == 0)
    return;
  for (int j = 0; j < kernel->operands; j++) {
    if (step[j] == 0)
      continue;
    const char *from = (const char *)in[j] + blocks * step[j];
    fill(last[j], from, kernel->size[j]);
    copy_rest(last[j], from, rest, kernel->size[j]);
    in[j] = last[j];
  }
  kernel->run(1, result, in, step);
  copy_rest((char *)out + blocks * VEC_BLOCK * kernel->out_size, result, rest, kernel->out_size);
}
