// eval/custom_threefry.c: the threefry2x32 block cipher on arrays of counters, as JAX calls it on GPUs.

#include "base/memory.h"
#include "eval/custom.h"

#include <string.h>

static uint32_t rotate(uint32_t x, int by) {
  return x << by | x >> (32 - by);
}

static void encrypt(const uint32_t key[2], uint32_t x[2]) {
  static const int rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t k[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  x[0] += k[0];
  x[1] += k[1];
  for (uint32_t group = 1; group <= 5; group++) {
    for (int r = 0; r < 4; r++) {
      x[0] += x[1];
      x[1] = rotate(x[1], rotation[(group - 1) % 2][r]) ^ x[0];
    }
    x[0] += k[group % 3];
    x[1] += k[(group + 1) % 3] + group;
  }
}

// Operands: two key words, two counter words, each one value or as many as there are results.
bool custom_threefry(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                     HlLiteral *out) {
  if (inst->n_operands < 4 || !out->element || out->shape->rank != 2)
    return custom_counts(in, inst, 4, out, 2);
  const int64_t n = out->element[0]->n;
  bool good = out->element[1]->n == n;
  for (int k = 0; good && k < 4; k++)
    good = operand[k]->shape->dtype == HL_U32 && (operand[k]->n == n || operand[k]->n == 1);
  for (int k = 0; good && k < 2; k++)
    good = out->element[k]->shape->dtype == HL_U32;
  if (!good)
    return hl_inst_error(in->ev.cx, inst, "keys, counters and results must be u32 of one size");
  uint32_t steps = 0;
  for (int64_t i = 0; i < n; i++) {
    base_look_often(&steps);
    uint32_t word[4];
    for (int k = 0; k < 4; k++)
      word[k] = ((const uint32_t *)operand[k]->data)[operand[k]->n == 1 ? 0 : i];
    encrypt(word, word + 2);
    for (int k = 0; k < 2; k++)
      ((uint32_t *)out->element[k]->data)[i] = word[2 + k];
  }
  return true;
}
