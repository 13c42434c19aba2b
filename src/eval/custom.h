// eval/custom.h: kernels of custom calls that Hilo knows, and what they share.
#ifndef HILO_EVAL_CUSTOM_H
#define HILO_EVAL_CUSTOM_H

#include "eval/device.h"

// Computes `out`, a zeroed literal of the result's shape, from the operands' values.
typedef bool CustomKernel(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                          HlLiteral *out);

CustomKernel custom_identity;      // custom_annotation.c: one operand, passed on
CustomKernel custom_zeros;         // the result as it is
CustomKernel custom_host_execute;  // what the called computation gives
CustomKernel custom_expect_eq, custom_expect_almost_eq, custom_expect_close,
    custom_check_eq;  // custom_check.c
CustomKernel custom_expect_serialized_eq, custom_probe, custom_print;
void custom_free_probes(Interp *in);
CustomKernel custom_run_parallel;  // custom_parallel.c
CustomKernel custom_x64_low, custom_x64_high, custom_x64_combine;
CustomKernel custom_topk, custom_approx_topk;           // custom_topk.c
CustomKernel custom_threefry;                           // custom_threefry.c
CustomKernel custom_fft;                                // custom_fft.c
CustomKernel custom_gemm;                               // custom_gemm.c
CustomKernel custom_radix_sort;                         // custom_sort.c
CustomKernel custom_triangular_solve, custom_cholesky;  // custom_solve.c
CustomKernel custom_conv, custom_conv_fused;            // custom_conv.c
CustomKernel custom_norm;                               // custom_norm.c
CustomKernel custom_pivots_to_permutation;              // lapack_solve.c
CustomKernel custom_tridiagonal_perturbed;              // tridiagonal.c
CustomKernel custom_lapack;  // custom_lapack.c, for all targets that are its own
bool custom_is_lapack(const char *target);
// The names of LAPACK's targets, in the arena; *n of them.
const char **custom_lapack_names(HlArena *arena, int *n);

// The convolution that a call of cuDNN is, in HLO's words.
typedef struct ConvForm {
  HlDimLabels labels;
  HlWindowDim *at;
  int n;
  int64_t feature_groups, batch_groups;
} ConvForm;
enum { CONV_FORM_ATTRS = 4 };
// Of a call with these two operands and this result, its window in the arena. NULL, or what is wrong.
const char *custom_conv_form(HlArena *arena, const HlInst *inst, const HlShape *x, const HlShape *y,
                             const HlShape *to, ConvForm *form);
// As an instruction, as long as the form and the attributes are there; its shape is still the call's.
HlInst custom_conv_inst(const HlInst *inst, const ConvForm *form, HlAttr attr[CONV_FORM_ATTRS]);

// A value of a dictionary such as `{mode = 78 : ui8, left = true}` in backend_config; also of JSON's
// `{"mode": 78}`. Booleans are 0 and 1; `absent` where there is no such number.
int64_t custom_int(const HlInst *inst, const char *key, int64_t absent);
double custom_float(const HlInst *inst, const char *key, double absent);
// Whether a TopK's comparator puts smaller values first: its root, through logical operations, compares by LT.
bool custom_topk_smallest(const HlInst *inst);
// Checks the numbers of operands and results (1 for an array). False after reporting.
bool custom_counts(Interp *in, const HlInst *inst, int n_operands, const HlLiteral *out,
                   int n_results);
// Copies a value of equal element types and sizes, tuples too.
bool custom_copy(Interp *in, const HlInst *inst, const HlLiteral *from, HlLiteral *to);
// Result k: an element of a tuple or the array itself; NULL if there is none.
HlLiteral *custom_result(HlLiteral *out, int k);
int custom_result_count(const HlLiteral *out);  // elements of a tuple; 1

#endif
