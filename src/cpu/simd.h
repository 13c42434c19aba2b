// cpu/simd.h: one source, a build for each set of vector instructions.
//
// A file named NAME_simd.c is compiled once a level (CMakeLists.txt): x86-64-v2, v3 (AVX2, FMA) and v4 (AVX-512) on x86-64, once on
// other machines. It has no other external symbol than those written SIMD(name), which differ by level, and declares nothing
// that needs instructions of its level in a header that others include. Whoever calls picks a level once (cpu_level).
#ifndef HILO_CPU_SIMD_H
#define HILO_CPU_SIMD_H

#include <stdbool.h>

typedef enum CpuLevel { CPU_V2, CPU_V3, CPU_V4, CPU_LEVELS } CpuLevel;

// The names of a function at each level, for tables: SIMD_LEVELS(f) is f_v2, f_v3, f_v4; elsewhere than on x86-64 all are f_v2,
// "the machine's own instructions".
#if defined(__x86_64__)
#define SIMD_LEVELS(name) {name##_v2, name##_v3, name##_v4}
#define SIMD_DECLARE(type, name) extern type name##_v2, name##_v3, name##_v4
#else
#define SIMD_LEVELS(name) {name##_v2, name##_v2, name##_v2}
#define SIMD_DECLARE(type, name) extern type name##_v2
#endif

// In NAME_simd.c, which is compiled with SIMD_LEVEL as 2, 3 or 4: the name of this level's function.
#ifdef SIMD_LEVEL
#define SIMD_PASTE_(name, level) name##_v##level
#define SIMD_PASTE(name, level) SIMD_PASTE_(name, level)
#define SIMD(name) SIMD_PASTE(name, SIMD_LEVEL)
#endif

// Whether this machine runs code of the level, and the best that it runs (never below CPU_V2: whether it runs even that, ask).
bool cpu_runs(CpuLevel level);
CpuLevel cpu_level(void);
// Whether it multiplies four bytes and adds them up in one instruction (AVX-512 VNNI).
bool cpu_has_vnni(void);
const char *cpu_level_name(CpuLevel level);  // "x86-64-v3"

#endif
