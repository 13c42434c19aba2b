// cpu/fft/fft.h: discrete Fourier transforms, several lines at once.
//
// A vector's lanes hold as many lines, so that no step of a transform moves anything between lanes. A line's points stand as pairs
// of vectors, the real and the imaginary parts of one point of all lines: a *plane* below is an array of such pairs. Lines are
// brought into this form (turned, where they are contiguous), transformed, and brought back.
//
// A length is split into factors (4, 2, 3, 5, 7, other primes up to FFT_PRIME), decimating in time and depth first, so that inner
// transforms of long lines stay in the cache. Lengths with larger primes are turned into a circular convolution of a length
// without (Bluestein). Inverse transforms swap the real with the imaginary parts before and after. Real lines of even
// length n are complex ones of n/2 points, (x[0], x[1]), (x[2], x[3]), ..., whose spectrum is taken apart afterwards.
#ifndef HILO_CPU_FFT_FFT_H
#define HILO_CPU_FFT_FFT_H

#include "cpu/kernel/kernel.h"

enum { FFT_PRIME = 31, FFT_FACTORS = 64 };

// The transform of one length. Tables are of float or double.
typedef struct Fft {
  int64_t n;
  int n_factors;
  int factor[FFT_FACTORS];           // the last is done first
  const void *twiddle[FFT_FACTORS];  // [points of a transform of this level / factor][factor - 1] roots of unity, (re, im)
  const void *prime[FFT_FACTORS];    // of odd factors p: [p] (cos, sin) of 2 pi k / p
  const struct Fft *longer;          // Bluestein: the length that is convolved in; else NULL
  const void *chirp, *filter;        // [n], and [longer->n], transformed and divided by longer->n
} Fft;

// Each for float and for double.
typedef struct FftLevel {
  int lanes[2];
  // n times `lanes` complex numbers, `stride` numbers apart, to a plane, and back, times `scale`.
  void (*split[2])(int64_t n, const void *from, int64_t stride, void *plane, bool swap);
  void (*join[2])(int64_t n, const void *plane, void *to, int64_t stride, bool swap, double scale);
  // The same of real numbers: a plane of n/2 points if n is even, else of n. Back from a plane that is swapped.
  void (*split_real[2])(int64_t n, const void *from, int64_t stride, void *plane);
  void (*join_real[2])(int64_t n, const void *plane, void *to, int64_t stride, double scale);
  // A plane of f->n points to another; `work`: 2 * f->longer->n points, for Bluestein.
  void (*transform[2])(const Fft *f, const void *from, void *to, void *work);
  // The n/2 + 1 points that say a real line's spectrum, from what the transform of its plane gave; and a plane, swapped, of what is
  // to be transformed to get the line back. `root`: [n/2 + 1] exp(-2 pi i k / n), where n is even.
  void (*unfold[2])(int64_t n, const void *from, void *to, const void *root);
  void (*fold[2])(int64_t n, const void *from, void *to, const void *root);
  // A plane times another, point by point.
  void (*twist[2])(int64_t n, void *plane, const void *by);
} FftLevel;
SIMD_DECLARE(const FftLevel, fft_level);

// One dimension of an array at a time (or half of one: where there are fewer lines than lanes, a line of n1 * n2 points is taken as
// n2 lines of n1, and what comes out, twisted, as n1 lines of n2): its lines, `lanes` at once, from one array to another or the same.
typedef struct FftStage {
  const Fft *fft;                  // of a plane's points
  const void *root;                // of unfold and fold
  const void *twist;               // planes for `lines`, or NULL
  int64_t n, n_in, n_out;          // points of a line, as it is read and written
  bool real_in, real_out, inverse;
  int64_t in_step, out_step;       // along a line, in elements
  int64_t lines, in_line, out_line;  // those that lie beside each other in vectors
  int n_outer;
  const int64_t *outer, *in_outer, *out_outer;
  int64_t n_planes;                // all of them: of `lanes` lines
  int from, to;                    // arrays: 0 the operand, 1 the result, 2 one in between
} FftStage;

typedef struct FftKernel {
  CpuKernel kernel;
  const FftLevel *level;
  int type;                        // 0 float, 1 double
  CpuLevel simd;
  FftStage *stage;
  int n_stages;
  size_t between;                  // bytes of the array in between
} FftKernel;

extern const CpuKernelKind cpu_kind_fft;
// The plan of a length, with tables of float or double, in the arena.
const Fft *fft_plan(HlArena *arena, int64_t n, int type);
// exp(-2 pi i k / n).
void fft_root(int64_t k, int64_t n, double *re, double *im);
// n of them as (re, im) of a type: k = 0, step, 2 step, ...
const void *fft_roots(HlArena *arena, int64_t count, int64_t n, int type);
bool fft_run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why);

#endif
