// base/complex.h: C11's complex numbers, CMPLX among them where the C library has it for its own compiler only.
#ifndef HILO_BASE_COMPLEX_H
#define HILO_BASE_COMPLEX_H

#include <complex.h>

#if !defined(CMPLX) && defined(__clang__)
#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))
#endif

#endif
