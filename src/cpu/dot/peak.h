// cpu/dot/peak.h: as many multiply-adds as this machine does: what kernels are measured by.
#ifndef HILO_CPU_DOT_PEAK_H
#define HILO_CPU_DOT_PEAK_H

#include <stdint.h>

#include "cpu/simd.h"

// Does `turns` turns that touch registers alone; the flops of them. What is computed depends on `with`, so that it is.
typedef double CpuPeakF32(int64_t turns, float *with);
typedef double CpuPeakF64(int64_t turns, double *with);
SIMD_DECLARE(CpuPeakF32, dot_peak_f32);
SIMD_DECLARE(CpuPeakF64, dot_peak_f64);

#endif
