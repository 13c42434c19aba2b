// cpu/simd.c: which vector instructions this machine has.

#include "cpu/simd.h"

bool cpu_runs(CpuLevel level) {
#if defined(__x86_64__)
  switch (level) {
  case CPU_V2: return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  case CPU_V3:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
  case CPU_V4:
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  default: return false;
  }
#else
  return level == CPU_V2;
#endif
}

CpuLevel cpu_level(void) {
  return cpu_runs(CPU_V4) ? CPU_V4 : cpu_runs(CPU_V3) ? CPU_V3 : CPU_V2;
}

bool cpu_has_vnni(void) {
#if defined(__x86_64__)
  return cpu_runs(CPU_V4) && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

const char *cpu_level_name(CpuLevel level) {
#if defined(__x86_64__)
  static const char *const name[CPU_LEVELS] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  return name[level];
#else
  return "native";
#endif
}
