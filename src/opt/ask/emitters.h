// opt/ask/emitters.h: what the code generators and libraries that XLA hands work to make of each op, where no fact of
// ops.def says it: a row per op, so that whoever adds an op or a generator sees at a glance who knows what.
#ifndef OPT_ASK_EMITTERS_H
#define OPT_ASK_EMITTERS_H

#include "hilo/ir.h"

// For operands of which types Triton has the op.
typedef enum TritonTypes { TRITON_NONE, TRITON_ALL, TRITON_BITS, TRITON_NUMBERS, TRITON_FLOATS } TritonTypes;
// For which small floats a GPU has it: by its facts (what moves elements takes any), none, bfloat16, any; or those that
// what it calls can do with.
typedef enum GpuFloats { GPU_BY_FACTS, GPU_NONE, GPU_BF16, GPU_ANY, GPU_CALLED } GpuFloats;

typedef struct Emitters {
  uint8_t triton;      // TritonTypes
  uint8_t gpu_floats;  // GpuFloats
  bool cpu_bf16;       // a CPU has it for bfloat16; what moves elements it has by the facts
  bool gpu_fast;       // a GPU has an instruction for it on f16 and f32
  bool gpu_own;        // a GPU runs it as code of its own, in no fusion
  bool ynn;            // YNNPACK computes it element by element
  bool plain_on_reals; // XLA takes it to cost a lot on complex numbers only
} Emitters;

const Emitters *emitters_of(HlOp op);

#endif
