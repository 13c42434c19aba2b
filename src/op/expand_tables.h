// op/expand_tables.h: coefficients of polynomials and series, highest power first.
#ifndef HILO_OP_EXPAND_TABLES_H
#define HILO_OP_EXPAND_TABLES_H

typedef struct ExpandTable {
  int n;
  const double *at;
} ExpandTable;

#define LANCZOS_BASE 0.99999999999980993227684700473478
extern const ExpandTable table_bessel_i0e_f32_small;
extern const ExpandTable table_bessel_i0e_f32_large;
extern const ExpandTable table_bessel_i0e_f64_small;
extern const ExpandTable table_bessel_i0e_f64_large;
extern const ExpandTable table_bessel_i1e_f32_small;
extern const ExpandTable table_bessel_i1e_f32_large;
extern const ExpandTable table_bessel_i1e_f64_small;
extern const ExpandTable table_bessel_i1e_f64_large;
extern const ExpandTable table_erfc_f64_p;
extern const ExpandTable table_erfc_f64_q;
extern const ExpandTable table_erfc_f64_r;
extern const ExpandTable table_erfc_f64_s;
extern const ExpandTable table_erf_f64_t;
extern const ExpandTable table_erf_f64_u;
extern const ExpandTable table_erfc_f32_p;
extern const ExpandTable table_erfc_f32_r;
extern const ExpandTable table_erf_f32_t;
extern const ExpandTable table_erf_inv_f32_near;
extern const ExpandTable table_erf_inv_f32_far;
extern const ExpandTable table_erf_inv_f64_near;
extern const ExpandTable table_erf_inv_f64_middle;
extern const ExpandTable table_erf_inv_f64_far;
extern const ExpandTable table_lanczos;
extern const ExpandTable table_zeta;

#endif
