// cpu/vec/vec.c: what vector functions compute, as a table.

#include "cpu/vec/vec.h"

const VecInfo vec_info[VEC_OP_COUNT] = {
#define VEC(id, text, operands, cost) [VEC_##id] = {text, operands, cost},
#include "cpu/vec/vec.def"
#undef VEC
};
