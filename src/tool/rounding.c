// tool/rounding.c: to how many digits results are known, by their type (tools.md 9).
#include "hilo/tool.h"

double hl_rounding(HlDtype dtype) {
  switch (dtype) {
  case HL_F64:
  case HL_C128: return 1e-6;
  case HL_F32:
  case HL_C64: return 1e-3;
  case HL_F16: return 1e-2;
  case HL_BF16: return 2e-2;
  default: return 0.25;
  }
}
