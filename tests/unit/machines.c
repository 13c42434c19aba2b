// Fast paths against the plain one, bit by bit: scalar computations on machines against the kernels of their ops, for every
// op, direction and element type that machines take, over special values and random ones; sorts by machine against
// insertion by the kernel of compare, reductions against one application of the kernel after the other.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/op/machine.h"

// --- Values ---------------------------------------------------------------------------------------

enum { N_SPECIAL = 22, N_RANDOM = 400, N = N_SPECIAL * N_SPECIAL + N_RANDOM };

typedef struct Bench {
  HlEval ev;
  HlModule *m;
  uint64_t seed;
} Bench;

static void bench_start(Bench *b) {
  *b = (Bench){.ev = {.cx = hl_cx_new()}, .m = hl_module_new("bench", NULL), .seed = 1};
}

static void bench_end(Bench *b) {
  hl_module_free(b->m);
  hl_cx_free(b->ev.cx);
}

static uint64_t random_bits(Bench *b) {
  b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
  return hl_hash_mix(b->seed, 77);
}

// What storage holds of a type: integers of less than a byte are extended, floats and pred keep their bits.
static Cell stored(HlDtype dtype, uint64_t bits) {
  const int width = hl_dtype_info[dtype].bits;
  const uint64_t low = width == 64 ? bits : bits & (((uint64_t)1 << width) - 1);
  if (width < 8 && hl_is_signed(dtype))
    return (uint8_t)((int8_t)(low << (8 - width)) >> (8 - width));
  return low;
}

// Zeros, ones, extremes, infinities, nans with payloads (quiet and signalling), denormals, neighbours of all of them.
static Cell special(HlDtype dtype, int k) {
  const int width = hl_dtype_info[dtype].bits;
  const int mantissa = dtype == HL_F64   ? 52
                       : dtype == HL_F32 ? 23
                                         : hl_dtype_info[dtype].format.mantissa_bits;
  const uint64_t sign = (uint64_t)1 << (width - 1),
                 top = hl_is_float(dtype) ? sign - 1 : ~(uint64_t)0 >> 1,
                 infinity = hl_is_float(dtype) ? top >> mantissa << mantissa : top;
  const uint64_t one = hl_is_float(dtype) ? (infinity >> 1) >> mantissa << mantissa : 1;
  const uint64_t some[N_SPECIAL / 2] = {0,
                                        1,
                                        one,
                                        one + 1,
                                        one - 1,
                                        infinity,
                                        infinity + 1,
                                        infinity - 1,
                                        top,
                                        infinity | (uint64_t)1 << (mantissa > 0 ? mantissa - 1 : 0),
                                        (uint64_t)1 << mantissa};
  return stored(dtype, some[k / 2] ^ (k % 2 ? sign : 0));
}

// All pairs of special values, then random ones; `which` 0, 1 or 2.
static HlLiteral *operand(Bench *b, HlDtype dtype, int which) {
  const int64_t dim = N;
  HlLiteral *out = hl_literal_new(b->ev.cx, hl_shape_array(b->m->shapes, dtype, 1, &dim));
  for (int k = 0; k < N; k++) {
    const int pick = which == 0 ? k % N_SPECIAL : which == 1 ? k / N_SPECIAL : k * 7 % N_SPECIAL;
    const bool is_special = k < N_SPECIAL * N_SPECIAL;
    cell_store(dtype, out->data, k,
               is_special ? special(dtype, pick) : stored(dtype, random_bits(b)));
  }
  return out;
}

static bool is_nan(HlDtype dtype, Cell cell) {
  double value;
  hl_convert_elements(HL_F64, &value, dtype, &cell, 1);
  return hl_is_float(dtype) && value != value;
}

// --- Computations ---------------------------------------------------------------------------------

// op(p0, p1, ..) of scalars.
static HlComp *comp_of(Bench *b, HlOp op, HlDtype result, int n, const HlDtype *from) {
  HlComp *comp = hl_comp_new(b->m, "scalar", 6);
  HlInst *param[3];
  for (int k = 0; k < n; k++)
    param[k] = hl_parameter_new(comp, k, hl_shape_scalar(b->m->shapes, from[k]), NULL);
  hl_set_root(comp, hl_inst_new(comp, op, hl_shape_scalar(b->m->shapes, result), NULL, n, param));
  return comp;
}

static HlComp *comparison(Bench *b, HlDtype dtype, int direction, bool is_total) {
  HlComp *comp = comp_of(b, HL_OP_COMPARE, HL_PRED, 2, (const HlDtype[]){dtype, dtype});
  hl_set_int(comp->root, HL_A_DIRECTION, direction);
  if (is_total)
    hl_set_int(comp->root, HL_A_COMPARISON_TYPE, HL_WORD_comparison_type_TOTALORDER);
  return comp;
}

// Arithmetic on two nans may give either.
static bool is_arithmetic(const HlInst *inst) {
  return inst->op == HL_OP_ADD || inst->op == HL_OP_SUBTRACT || inst->op == HL_OP_MULTIPLY ||
         inst->op == HL_OP_DIVIDE;
}

static void expect_cell(const HlInst *inst, HlDtype from, HlDtype dtype, int64_t k, Cell fast,
                        Cell plain) {
  if (fast == plain || (is_arithmetic(inst) && is_nan(dtype, fast) && is_nan(dtype, plain)))
    return;
  fail_msg("%s from %s to %s, element %d: %llx, but its kernel has %llx",
           hl_op_text((HlOp)inst->op), hl_dtype_text(from), hl_dtype_text(dtype), (int)k,
           (unsigned long long)fast, (unsigned long long)plain);
}

// Runs a machine on every element, and the kernel on the vectors. False where machines do not take it.
static bool same_as_kernel(Bench *b, const HlComp *comp, int n, const HlDtype *from) {
  HlArena *arena = hl_cx_scratch(b->ev.cx);
  const HlMark mark = hl_arena_mark(arena);
  Machine *m = machine_new(arena, comp);
  const HlDtype dtype = comp->root->shape->dtype;
  const int64_t dim = N;
  HlLiteral *in[3] = {NULL},
            *out = hl_literal_new(b->ev.cx, hl_shape_array(b->m->shapes, dtype, 1, &dim));
  for (int k = 0; k < n; k++)
    in[k] = operand(b, from[k], k);
  if (m && !hl_kernel((HlOp)comp->root->op)(&b->ev, comp->root, (const HlLiteral *const *)in, out))
    fail_msg("a machine takes %s of %s, its kernel does not", hl_op_text((HlOp)comp->root->op),
             hl_dtype_text(from[0]));
  for (int64_t i = 0; m && i < N; i++) {
    for (int k = 0; k < n; k++)
      m->cell[k] = cell_load(from[k], in[k]->data, i);
    machine_run(m);
    expect_cell(comp->root, from[0], dtype, i, machine_result(m, 0),
                cell_load(dtype, out->data, i));
  }
  for (int k = 0; k < n; k++)
    hl_literal_unref(in[k]);
  hl_literal_unref(out);
  hl_arena_release(arena, mark);
  return m != NULL;
}

static bool is_real(HlDtype dtype) {
  return hl_is_array_dtype(dtype) && !hl_is_complex(dtype);
}

// --- Ops ------------------------------------------------------------------------------------------

static void ops_are_their_kernels(void **state) {
  static const struct {
    HlOp op;
    int n, types;  // operands; of how many types at least
  } ops[] = {{HL_OP_ADD, 2, 25},        {HL_OP_SUBTRACT, 2, 25},
             {HL_OP_MULTIPLY, 2, 25},   {HL_OP_DIVIDE, 2, 23},
             {HL_OP_REMAINDER, 2, 9},   {HL_OP_MAXIMUM, 2, 25},
             {HL_OP_MINIMUM, 2, 25},    {HL_OP_NEGATE, 1, 24},
             {HL_OP_ABS, 1, 24},        {HL_OP_AND, 2, 13},
             {HL_OP_OR, 2, 13},         {HL_OP_XOR, 2, 13},
             {HL_OP_NOT, 1, 13},        {HL_OP_CLAMP, 3, 12},
             {HL_OP_SHIFT_LEFT, 2, 12}, {HL_OP_SHIFT_RIGHT_LOGICAL, 2, 12},
             {HL_OP_IS_FINITE, 1, 12}};
  Bench b;
  bench_start(&b);
  for (int k = 0; k < HL_COUNT_OF(ops); k++) {
    int taken = 0;
    for (int t = 0; t < HL_DTYPE_COUNT; t++) {
      const HlDtype type = (HlDtype)t, from[] = {type, type, type};
      if (is_real(type))
        taken += same_as_kernel(
            &b,
            comp_of(&b, ops[k].op, ops[k].op == HL_OP_IS_FINITE ? HL_PRED : type, ops[k].n, from),
            ops[k].n, from);
    }
    if (taken < ops[k].types)
      fail_msg("machines take %s of %d types only", hl_op_text(ops[k].op), taken);
  }
  bench_end(&b);
}

static void comparisons_are_their_kernels(void **state) {
  Bench b;
  bench_start(&b);
  for (int t = 0; t < HL_DTYPE_COUNT; t++)
    for (int direction = 0; is_real((HlDtype)t) && direction < 6; direction++)
      for (int is_total = 0; is_total <= hl_is_float((HlDtype)t); is_total++)
        assert_true(same_as_kernel(&b, comparison(&b, (HlDtype)t, direction, is_total), 2,
                                   (const HlDtype[]){(HlDtype)t, (HlDtype)t}));
  bench_end(&b);
}

static void moves_and_conversions_are_their_kernels(void **state) {
  Bench b;
  bench_start(&b);
  for (int t = 0; t < HL_DTYPE_COUNT; t++) {
    const HlDtype type = (HlDtype)t, from[] = {HL_PRED, type, type};
    if (!is_real(type))
      continue;
    assert_true(same_as_kernel(&b, comp_of(&b, HL_OP_SELECT, type, 3, from), 3, from));
    for (int to = 0; to < HL_DTYPE_COUNT; to++) {
      if (!is_real((HlDtype)to))
        continue;
      assert_true(same_as_kernel(&b, comp_of(&b, HL_OP_CONVERT, (HlDtype)to, 1, &type), 1, &type));
      if (hl_dtype_info[to].bits == hl_dtype_info[t].bits && (type == HL_PRED) == (to == HL_PRED))
        assert_true(same_as_kernel(&b, comp_of(&b, HL_OP_BITCAST_CONVERT, (HlDtype)to, 1, &type), 1,
                                   &type));
    }
  }
  bench_end(&b);
}

// --- Sorts and reductions -------------------------------------------------------------------------

// Whether x is before y, by the kernel.
static bool before(Bench *b, const HlComp *comp, HlDtype dtype, Cell x, Cell y) {
  const HlShape *scalar = hl_shape_scalar(b->m->shapes, dtype);
  HlLiteral of_x = {.refs = 1, .shape = scalar, .data = &x, .n = 1},
            of_y = {.refs = 1, .shape = scalar, .data = &y, .n = 1};
  uint8_t result = 0;
  HlLiteral out = {
      .refs = 1, .shape = hl_shape_scalar(b->m->shapes, HL_PRED), .data = &result, .n = 1};
  assert_true(
      hl_kernel(HL_OP_COMPARE)(&b->ev, comp->root, (const HlLiteral *const[]){&of_x, &of_y}, &out));
  return result != 0;
}

static HlInst *main_of(Bench *b, HlOp op, const HlShape *shape, int n, const HlShape *const *in,
                       HlComp *called) {
  HlComp *comp = hl_comp_new(b->m, "main", 4);
  HlInst *param[2];
  for (int k = 0; k < n; k++)
    param[k] = hl_parameter_new(comp, k, in[k], NULL);
  HlInst *inst = hl_inst_new(comp, op, shape, NULL, n, param);
  hl_set_root(comp, inst);
  hl_set_calls(inst, 1, &called);
  return inst;
}

static void sort_one(Bench *b, HlDtype dtype, int direction, bool is_total) {
  HlComp *comp = comparison(b, dtype, direction, is_total);
  HlLiteral *in = operand(b, dtype, 2), *out = hl_literal_new(b->ev.cx, in->shape);
  for (int64_t k = 0; !is_total && k < N; k++)  // there is no order of nans but the total one
    if (is_nan(dtype, cell_load(dtype, in->data, k)))
      cell_store(dtype, in->data, k, 0);
  HlInst *inst = main_of(b, HL_OP_SORT, in->shape, 1, &in->shape, comp);
  hl_set_int(inst, HL_A_DIMENSION, 0);
  assert_true(hl_kernel(HL_OP_SORT)(&b->ev, inst, (const HlLiteral *const[]){in}, out));
  Cell sorted[N];
  for (int n = 0; n < N; n++) {
    const Cell cell = cell_load(dtype, in->data, n);
    int at = n;
    for (; at > 0 && before(b, comp, dtype, cell, sorted[at - 1]); at--)
      sorted[at] = sorted[at - 1];
    sorted[at] = cell;
  }
  for (int64_t k = 0; k < N; k++)
    expect_cell(comp->root, dtype, dtype, k, cell_load(dtype, out->data, k), sorted[k]);
  hl_literal_unref(in);
  hl_literal_unref(out);
}

static void sorts_are_stable_insertions(void **state) {
  Bench b;
  bench_start(&b);
  for (int t = 0; t < HL_DTYPE_COUNT; t++)
    for (int is_total = 0; is_real((HlDtype)t) && is_total <= hl_is_float((HlDtype)t); is_total++) {
      sort_one(&b, (HlDtype)t, HL_WORD_direction_LT, is_total);
      sort_one(&b, (HlDtype)t, HL_WORD_direction_GT, is_total);
    }
  bench_end(&b);
}

static Cell apply(Bench *b, const HlComp *comp, HlDtype dtype, Cell x, Cell y) {
  const HlShape *scalar = hl_shape_scalar(b->m->shapes, dtype);
  Cell result = 0;
  HlLiteral of_x = {.refs = 1, .shape = scalar, .data = &x, .n = 1},
            of_y = {.refs = 1, .shape = scalar, .data = &y, .n = 1},
            out = {.refs = 1, .shape = scalar, .data = &result, .n = 1};
  assert_true(hl_kernel((HlOp)comp->root->op)(&b->ev, comp->root,
                                              (const HlLiteral *const[]){&of_x, &of_y}, &out));
  return result;
}

// Reductions of parts of the values, so that not all of them end in nan. Floats are only asked for the larger and the
// smaller: their sums are wider than the type on purpose.
static void reduce_one(Bench *b, HlOp op, HlDtype dtype) {
  enum { PART = 3 };
  HlComp *comp = comp_of(b, op, dtype, 2, (const HlDtype[]){dtype, dtype});
  HlLiteral *in = operand(b, dtype, 1);
  const int64_t parts = N / PART;
  const HlShape *whole = hl_shape_array(b->m->shapes, dtype, 2, (const int64_t[]){parts, PART}),
                *scalar = hl_shape_scalar(b->m->shapes, dtype), *shapes[] = {whole, scalar};
  HlLiteral x = {.refs = 1, .shape = whole, .data = in->data, .n = parts * PART},
            *init = hl_literal_new(b->ev.cx, scalar),
            *out = hl_literal_new(b->ev.cx, hl_shape_array(b->m->shapes, dtype, 1, &parts));
  cell_store(dtype, init->data, 0, special(dtype, 2));
  HlInst *inst = main_of(b, HL_OP_REDUCE, out->shape, 2, shapes, comp);
  hl_set_ints(inst, HL_A_DIMENSIONS, (HlI64s){(const int64_t[]){1}, 1});
  assert_true(hl_kernel(HL_OP_REDUCE)(&b->ev, inst, (const HlLiteral *const[]){&x, init}, out));
  for (int64_t p = 0; p < parts; p++) {
    Cell want = cell_load(dtype, init->data, 0), got = cell_load(dtype, out->data, p);
    for (int64_t k = 0; k < PART; k++)
      want = apply(b, comp, dtype, want, cell_load(dtype, in->data, p * PART + k));
    if (!is_nan(dtype, want) || !is_nan(dtype, got))  // of nans only that it is one
      expect_cell(comp->root, dtype, dtype, p, got, want);
  }
  hl_literal_unref(in);
  hl_literal_unref(init);
  hl_literal_unref(out);
}

static void reductions_are_repeated_kernels(void **state) {
  static const HlOp of_all[] = {HL_OP_MAXIMUM, HL_OP_MINIMUM},
                    of_integers[] = {HL_OP_ADD, HL_OP_MULTIPLY, HL_OP_AND, HL_OP_OR, HL_OP_XOR};
  Bench b;
  bench_start(&b);
  for (int t = 0; t < HL_DTYPE_COUNT; t++) {
    for (int k = 0; is_real((HlDtype)t) && k < HL_COUNT_OF(of_all); k++)
      reduce_one(&b, of_all[k], (HlDtype)t);
    for (int k = 0; is_real((HlDtype)t) && !hl_is_float((HlDtype)t) && k < HL_COUNT_OF(of_integers);
         k++)
      reduce_one(&b, of_integers[k], (HlDtype)t);
  }
  bench_end(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ops_are_their_kernels),
      cmocka_unit_test(comparisons_are_their_kernels),
      cmocka_unit_test(moves_and_conversions_are_their_kernels),
      cmocka_unit_test(sorts_are_stable_insertions),
      cmocka_unit_test(reductions_are_repeated_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
