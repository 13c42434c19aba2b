// Segments beside the functions on vectors that they stand for: random ops, all types, all lengths; the same bits, those of nans
// too, and not a byte is touched that is not theirs. With --measure: how long it takes to make one, and to run one.

#include "cpu/emit/segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_OPS = 48, MOST_N = 600, PAGE = 8192 };

static const HlDtype dtypes[] = {HL_PRED, HL_S8,  HL_U8,  HL_S16, HL_U16, HL_S32,  HL_U32, HL_S64,
                                 HL_U64,  HL_F32, HL_F64, HL_F32, HL_F16, HL_BF16, HL_S4,  HL_U2};

// --- Arrays that end where memory does ------------------------------------------------------------

typedef struct Array {
  char *map, *at;  // at: the elements, up to the page that cannot be touched
  int bytes;
} Array;

static Array new_array(int bytes) {
  Array array = {.bytes = bytes};
  array.map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(array.map != MAP_FAILED);
  assert_int_equal(mprotect(array.map + PAGE, PAGE, PROT_NONE), 0);
  memset(array.map, 0xa5, PAGE);
  array.at = array.map + PAGE - bytes;
  return array;
}

static void free_array(Array *array) {
  munmap(array->map, 2 * PAGE);
}

static bool rest_is_untouched(const Array *array) {
  for (const char *at = array->map; at < array->at; at++)
    if ((uint8_t)*at != 0xa5)
      return false;
  return true;
}

// --- Elements ---------------------------------------------------------------------------------------

static double some_float(HlRng *rng) {
  static const double some[] = {
      0.0,     -0.0,   1,       -1,           0.5,          -0.5,     1.5,      2.5,    -2.5,
      127,     128,    -129,    255.5,        256,          32767.5,  65535.75, 0x1p31, -0x1p31,
      0x1p31f, 0x1p32, -0x1p33, 0x1p63,       -0x1p63,      0x1p64,   1e30,     -1e38,  1e-40,
      -1e-45,  1e300,  1e-310,  2147483647.0, 4294967295.0, INFINITY, -INFINITY};
  return hl_rng_below(rng, 2) ? some[hl_rng_below(rng, HL_COUNT_OF(some))]
                              : ((double)hl_rng_below(rng, 2000001) - 1000000) /
                                    (double)(1 + hl_rng_below(rng, 5000));
}

static uint64_t some_int(HlRng *rng) {
  switch (hl_rng_below(rng, 5)) {
  case 0: return (uint64_t)hl_rng_below(rng, 70);
  case 1: return 0 - (uint64_t)hl_rng_below(rng, 70);
  case 2: return UINT64_C(1) << hl_rng_below(rng, 64);
  case 3: return (UINT64_C(1) << hl_rng_below(rng, 64)) - 1;
  default: return hl_rng_u64(rng);
  }
}

// Quiet, of either sign, with something in its mantissa or nothing.
static uint64_t some_nan(HlRng *rng, HlDtype dtype) {
  const int bits = hl_dtype_info[dtype].bits;
  const int mantissa = dtype == HL_F64 ? 52 : dtype == HL_F16 ? 10 : bits - 9;
  const uint64_t sign = (uint64_t)hl_rng_below(rng, 2) << (bits - 1);
  const uint64_t exponent = (UINT64_C(1) << (bits - 1)) - (UINT64_C(1) << mantissa);
  const uint64_t rest = hl_rng_below(rng, 2) ? hl_rng_u64(rng) >> (65 - mantissa) : 0;
  return sign | exponent | UINT64_C(1) << (mantissa - 1) | rest;
}

// As memory has them. One float in so many is a nan; 0: none.
static void fill(HlRng *rng, HlDtype dtype, void *at, int n, int nans) {
  for (int k = 0; k < n; k++) {
    char *to = (char *)at + k * hl_dtype_bytes(dtype);
    const double value = some_float(rng);
    const uint64_t bits = some_int(rng), nan = hl_is_float(dtype) ? some_nan(rng, dtype) : 0;
    if (dtype == HL_PRED)
      *to = (char)(bits & 1);
    else if (nan && nans && hl_rng_below(rng, nans) == 0)
      memcpy(to, &nan, (size_t)hl_dtype_bytes(dtype));
    else if (hl_is_float(dtype))
      hl_convert_elements(dtype, to, HL_F64, &value, 1);
    else
      hl_convert_elements(dtype, to, HL_U64, &bits, 1);
  }
}

// --- Random segments --------------------------------------------------------------------------------

typedef struct Segment {
  EmitOp op[MOST_OPS];
  int n, n_slots;
  HlDtype result[MOST_OPS];  // of op k, as it is known outside; NO_DTYPE: a store
  HlDtype slot[MOST_OPS];
  bool stored[MOST_OPS];
} Segment;

static int pick_value(HlRng *rng, const Segment *s, HlDtype dtype) {
  int found = -1, n = 0;
  for (int k = 0; k < s->n; k++)
    if (s->result[k] == dtype && hl_rng_below(rng, ++n) == 0)
      found = k;
  return found;
}

static HlDtype pick_dtype(HlRng *rng, const Segment *s) {
  int k;
  do
    k = (int)hl_rng_below(rng, s->n);
  while (s->result[k] == HL_NO_DTYPE);
  return s->result[k];
}

static void add_op(Segment *s, EmitOp op, HlDtype result) {
  s->op[s->n] = op;
  s->result[s->n++] = result;
}

static void add_source(HlRng *rng, Segment *s, HlDtype dtype) {
  EmitOp op = {.kind = EMIT_LOAD, .dtype = dtype, .slot = s->n_slots};
  const int64_t kind = hl_rng_below(rng, 5);
  if (kind == 0) {
    op.kind = EMIT_UNIFORM;
  } else if (kind == 1) {
    char element[8] = {0};
    fill(rng, dtype, element, 1, 8);
    op.kind = EMIT_CONST;
    vec_load(CPU_V2, dtype)(1, &op.bits, NULL, element, 1);
  }
  if (op.kind != EMIT_CONST)
    s->slot[s->n_slots++] = dtype;
  add_op(s, op, dtype);
}

// An op of values there are, if segments have it; whether they do. Values of narrow floats are used as f32 and rounded after.
static bool add_random(HlRng *rng, Segment *s, HlArena *arena, CpuLevel level) {
  const HlDtype dtype = pick_dtype(rng, s);
  EmitOp op = {.kind = EMIT_VEC, .dtype = dtype, .vec = (VecOp)hl_rng_below(rng, VEC_OP_COUNT)};
  HlDtype result = dtype;
  int is_const = 0;
  for (int j = 0; j < 3; j++)
    op.in[j] = pick_value(rng, s, dtype);
  switch (hl_rng_below(rng, 8)) {
  case 0:
    op.kind = EMIT_CONVERT;
    op.to = dtypes[hl_rng_below(rng, HL_COUNT_OF(dtypes))];
    result = op.to;
    if (!vec_convert(level, op.dtype, op.to) || hl_dtype_info[op.to].format.bits)
      return false;
    break;
  case 1:
    op.kind = EMIT_ROUND;
    op.dtype = hl_rng_below(rng, 2) ? HL_F16 : HL_BF16;
    op.in[0] = pick_value(rng, s, HL_F32);
    result = op.dtype;
    if (op.in[0] < 0)
      return false;
    break;
  default:
    if (!vec_fn(level, op.vec, dtype, 0))
      return false;
    if (op.vec == VEC_SELECT && (op.in[0] = pick_value(rng, s, HL_PRED)) < 0)
      return false;
    if ((op.vec >= VEC_EQ && op.vec <= VEC_TOTAL_GE) || op.vec == VEC_IS_FINITE)
      result = HL_PRED;
    else if (hl_dtype_info[dtype].format.bits && op.vec != VEC_SELECT)
      result = HL_F32;
    for (int j = 0; j < 3; j++)
      is_const |= (s->op[op.in[j]].kind == EMIT_CONST) << j;
  }
  if (!emit_has(arena, level, &op, is_const))
    return false;
  add_op(s, op, result);
  if (op.kind == EMIT_VEC && hl_is_integral(result) && hl_dtype_info[result].bits < 8)
    add_op(s, (EmitOp){.kind = EMIT_VEC, .vec = VEC_WRAP, .dtype = result, .in = {s->n - 1}},
           result);
  return true;
}

static void add_store(HlRng *rng, Segment *s) {
  const HlDtype dtype = pick_dtype(rng, s);
  int slot = -1;
  for (int k = 0; k < s->n; k++)  // over what was loaded, now and then
    if (s->op[k].kind == EMIT_LOAD && s->op[k].dtype == dtype && !s->stored[s->op[k].slot] &&
        hl_rng_below(rng, 4) == 0)
      slot = s->op[k].slot;
  if (slot < 0)
    s->slot[slot = s->n_slots++] = dtype;
  s->stored[slot] = true;
  add_op(
      s,
      (EmitOp){.kind = EMIT_STORE, .dtype = dtype, .slot = slot, .in = {pick_value(rng, s, dtype)}},
      HL_NO_DTYPE);
}

static void make_segment(HlRng *rng, Segment *s, HlArena *arena, CpuLevel level) {
  *s = (Segment){0};
  const int n_types = 1 + (int)hl_rng_below(rng, 3), n_ops = 1 + (int)hl_rng_below(rng, 30);
  for (int k = 0; k < n_types; k++) {
    const HlDtype dtype = dtypes[hl_rng_below(rng, HL_COUNT_OF(dtypes))];
    for (int64_t j = hl_rng_below(rng, 3) + 1; j > 0; j--)
      add_source(rng, s, dtype);
  }
  for (int k = 0; k < n_ops && s->n < MOST_OPS - 6; k++)
    add_random(rng, s, arena, level);
  for (int64_t k = hl_rng_below(rng, 3) + 1; k > 0; k--)
    add_store(rng, s);
}

// --- Running them both ways -------------------------------------------------------------------------

static void run_op(const Segment *s, CpuLevel level, int k, int n, char value[][MOST_N * 8],
                   const Array *array) {
  const EmitOp *op = &s->op[k];
  void *to = value[k];
  const void *a = value[op->in[0]], *b = value[op->in[1]], *c = value[op->in[2]];
  switch (op->kind) {
  case EMIT_LOAD: vec_load(level, op->dtype)(n, to, NULL, array[op->slot].at, 1); break;
  case EMIT_UNIFORM: vec_load(level, op->dtype)(n, to, NULL, array[op->slot].at, 0); break;
  case EMIT_CONST:
    vec_fn(level, VEC_COPY, vec_carrier(op->dtype), 1)(n, to, &op->bits, NULL, NULL);
    break;
  case EMIT_STORE: vec_store(level, op->dtype)(n, array[op->slot].at, 1, a, NULL); break;
  case EMIT_VEC: vec_fn(level, op->vec, op->dtype, 0)(n, to, a, b, c); break;
  case EMIT_CONVERT: vec_convert(level, op->dtype, op->to)(n, to, a, NULL, NULL); break;
  case EMIT_ROUND: vec_round(level, op->dtype)(n, to, a, NULL, NULL); break;
  case EMIT_FOLD: break;
  }
}

static bool same(HlDtype dtype, const Array *got, const Array *want, int n) {
  return memcmp(got->at, want->at, (size_t)(n * hl_dtype_bytes(dtype))) == 0 &&
         rest_is_untouched(got);
}

static void say_segment(const Segment *s) {
  static const char *const kinds[] = {"load", "uniform", "const", "store",
                                      "vec",  "convert", "round"};
  for (int k = 0; k < s->n; k++) {
    const EmitOp *op = &s->op[k];
    print_message("%d %s %s %s", k, kinds[op->kind],
                  op->kind == EMIT_VEC ? vec_info[op->vec].text : "", hl_dtype_text(op->dtype));
    if (op->kind == EMIT_CONVERT)
      print_message(" to %s", hl_dtype_text(op->to));
    print_message(" in %d %d %d slot %d bits %llx\n", op->in[0], op->in[1], op->in[2], op->slot,
                  (unsigned long long)op->bits);
  }
}

// Whether n elements come out the same.
static bool try_length(HlRng *rng, const Segment *s, CpuLevel level, EmitFn *fn, int n) {
  static char value[MOST_OPS][MOST_N * 8];
  Array got[MOST_OPS], want[MOST_OPS];
  void *pointer[MOST_OPS];
  bool ok = true;
  for (int k = 0; k < s->n_slots; k++) {
    const int bytes = hl_dtype_bytes(s->slot[k]);
    const int count = n > 0 ? n : 1;
    got[k] = new_array(bytes * count);
    want[k] = new_array(bytes * count);
    fill(rng, s->slot[k], got[k].at, count, 3);
    memcpy(want[k].at, got[k].at, (size_t)(bytes * count));
    pointer[k] = got[k].at;
  }
  fn(n, pointer);
  for (int k = 0; k < s->n; k++)
    run_op(s, level, k, n, value, want);
  for (int k = 0; k < s->n_slots; k++) {
    if (!same(s->slot[k], &got[k], &want[k], n > 0 ? n : 1)) {
      print_message("slot %d of %s differs, n %d, level %s\n", k, hl_dtype_text(s->slot[k]), n,
                    cpu_level_name(level));
      ok = false;
    }
    free_array(&got[k]);
    free_array(&want[k]);
  }
  return ok;
}

static void random_segments(CpuLevel level, uint64_t seed, int count) {
  HlArena *arena = hl_arena_new();
  EmitMemory *memory = emit_memory_new(0);
  if (!memory) {
    print_message("no machine code can be run here\n");
    hl_arena_free(arena);
    return;
  }
  int n_ops = 0;
  for (int k = 0; k < count; k++) {
    HlRng rng = {seed + (uint64_t)k};
    Segment s;
    const HlMark mark = hl_arena_mark(arena);
    make_segment(&rng, &s, arena, level);
    EmitFn *fn = emit_segment(memory, arena, level, s.n, s.op, NULL);
    assert_non_null(fn);
    n_ops += s.n;
    for (int j = 0; j < 4 && cpu_runs(level); j++) {
      const int n = j == 0 ? k % 68 : (int)hl_rng_below(&rng, j == 3 ? MOST_N : 68);
      if (!try_length(&rng, &s, level, fn, n)) {
        say_segment(&s);
        fail_msg("seed %llu", (unsigned long long)(seed + (uint64_t)k));
      }
    }
    hl_arena_release(arena, mark);
  }
  print_message("%s: %d segments of %d ops, %lld bytes%s\n", cpu_level_name(level), count, n_ops,
                (long long)emit_memory_bytes(memory),
                cpu_runs(level) ? "" : ", not run: this machine has no such instructions");
  emit_memory_free(memory);
  hl_arena_free(arena);
}

static void segments_are_as_functions(void **state) {
  random_segments(CPU_V3, 1, 2000);
  random_segments(CPU_V4, 1, 2000);
}

// --- Each op alone -----------------------------------------------------------------------------------

// The pairs of op and type that a level has; all lengths.
static int each_op(CpuLevel level, bool constant) {
  HlArena *arena = hl_arena_new();
  EmitMemory *memory = emit_memory_new(0);
  int n_had = 0;
  for (int vec = 0; vec < VEC_OP_COUNT && memory; vec++)
    for (int t = 0; t < HL_COUNT_OF(dtypes); t++) {
      const HlDtype dtype = dtypes[t];
      const bool asks = (vec >= VEC_EQ && vec <= VEC_TOTAL_GE) || vec == VEC_IS_FINITE;
      const bool narrow = hl_dtype_info[dtype].format.bits || hl_dtype_info[dtype].bits < 8;
      HlRng rng = {(uint64_t)(vec * 100 + t)};
      EmitOp op = {.kind = EMIT_VEC, .vec = (VecOp)vec, .dtype = dtype, .in = {0, 1, 2}};
      if ((narrow && dtype != HL_PRED) || !vec_fn(level, op.vec, dtype, 0) ||
          !emit_has(arena, level, &op, constant ? 6 : 0))
        continue;
      n_had++;
      for (int n = 0; n <= 590; n += n < 67 ? 1 : 261) {  // and those that stages go over
        Segment s = {0};
        for (int j = 0; j < 3; j++) {
          const HlDtype of = vec == VEC_SELECT && j == 0 ? HL_PRED : dtype;
          s.slot[j] = of;
          add_op(
              &s,
              (EmitOp){.kind = constant && j > 0 ? EMIT_CONST : EMIT_LOAD, .dtype = of, .slot = j},
              of);
          if (constant && j > 0)
            fill(&rng, of, &s.op[j].bits, 1, 8);
        }
        s.slot[3] = asks ? HL_PRED : dtype;
        s.n_slots = 4;
        add_op(&s, op, s.slot[3]);
        add_op(&s, (EmitOp){.kind = EMIT_STORE, .dtype = s.slot[3], .slot = 3, .in = {3}},
               HL_NO_DTYPE);
        EmitFn *fn = emit_segment(memory, arena, level, s.n, s.op, NULL);
        assert_non_null(fn);
        if (cpu_runs(level) && !try_length(&rng, &s, level, fn, n)) {
          say_segment(&s);
          fail_msg("%s of %s", vec_info[vec].text, hl_dtype_text(dtype));
        }
      }
    }
  emit_memory_free(memory);
  hl_arena_free(arena);
  return n_had;
}

static void each_op_is_as_its_function(void **state) {
  const int v3 = each_op(CPU_V3, false), v3_const = each_op(CPU_V3, true),
            v4 = each_op(CPU_V4, false);
  print_message("%d ops by type in AVX2, %d with constants, %d in AVX-512\n", v3, v3_const, v4);
  assert_true(v3 >= 200 && v3_const > v3 && v4 >= v3);
}

// From and to every type, all lengths.
static int each_conversion(CpuLevel level) {
  HlArena *arena = hl_arena_new();
  EmitMemory *memory = emit_memory_new(0);
  int n_had = 0;
  for (int a = 0; a < HL_COUNT_OF(dtypes) && memory; a++)
    for (int b = 0; b < HL_COUNT_OF(dtypes); b++) {
      const HlDtype from = dtypes[a], to = dtypes[b];
      const bool narrow = hl_dtype_info[to].format.bits;
      const EmitOp op = {.kind = EMIT_CONVERT, .dtype = from, .to = to};
      HlRng rng = {(uint64_t)(a * 100 + b)};
      if (!emit_has(arena, level, &op, 0))
        continue;
      Segment s = {.n_slots = 2, .slot = {from, to}};
      add_op(&s, (EmitOp){.kind = EMIT_LOAD, .dtype = from}, from);
      add_op(&s, op, to);
      if (narrow)
        add_op(&s, (EmitOp){.kind = EMIT_ROUND, .dtype = to, .in = {1}}, to);
      add_op(&s, (EmitOp){.kind = EMIT_STORE, .dtype = to, .slot = 1, .in = {s.n - 1}},
             HL_NO_DTYPE);
      EmitFn *fn = emit_segment(memory, arena, level, s.n, s.op, NULL);
      assert_non_null(fn);
      n_had++;
      for (int n = 0; n <= 67 && cpu_runs(level); n++)
        if (!try_length(&rng, &s, level, fn, n))
          fail_msg("%s to %s", hl_dtype_text(from), hl_dtype_text(to));
    }
  emit_memory_free(memory);
  hl_arena_free(arena);
  return n_had;
}

static void each_conversion_is_as_its_function(void **state) {
  const int v3 = each_conversion(CPU_V3), v4 = each_conversion(CPU_V4);
  print_message("%d conversions in AVX2, %d in AVX-512\n", v3, v4);
  assert_true(v3 >= 150 && v4 > v3);
}

// --- Folds -------------------------------------------------------------------------------------------

// Sums of x and x, folded: by a segment whose vector is joined, and by the functions.
static void try_fold(HlRng *rng, CpuLevel level, VecOp vec, HlDtype dtype, EmitFn *fn, int n) {
  const int size = hl_dtype_bytes(dtype);
  _Alignas(64) char lanes[64], got[8], want[8];
  Array x = new_array(size * (n + 1)), twice = new_array(size * (n + 1));
  char *from = x.at + size;
  fill(rng, dtype, x.at, n + 1, n % 2 ? 20 : 0);
  memcpy(got, x.at, (size_t)size);
  memcpy(want, x.at, (size_t)size);
  fn(n, (void *[]){from, lanes});
  vec_lanes(level, vec, dtype)(got, lanes);
  vec_fn(level, VEC_ADD, dtype, 0)(n, twice.at, from, from, NULL);
  vec_fold(level, vec, dtype)(n, want, twice.at);
  if (memcmp(got, want, (size_t)size) != 0)
    fail_msg("fold by %s of %d %s, level %s", vec_info[vec].text, n, hl_dtype_text(dtype),
             cpu_level_name(level));
  free_array(&x);
  free_array(&twice);
}

static int each_fold(CpuLevel level) {
  static const VecOp ops[] = {VEC_ADD, VEC_MULTIPLY, VEC_MAXIMUM, VEC_MINIMUM,
                              VEC_AND, VEC_OR,       VEC_XOR};
  static const HlDtype types[] = {HL_F32, HL_F64, HL_S32, HL_U32, HL_S64, HL_U64};
  HlArena *arena = hl_arena_new();
  EmitMemory *memory = emit_memory_new(0);
  HlRng rng = {7};
  int n_had = 0;
  for (int k = 0; k < HL_COUNT_OF(ops) && memory; k++)
    for (int t = 0; t < HL_COUNT_OF(types); t++) {
      const EmitOp op[] = {
          {.kind = EMIT_LOAD, .dtype = types[t]},
          {.kind = EMIT_VEC, .vec = VEC_ADD, .dtype = types[t], .in = {0, 0}},
          {.kind = EMIT_FOLD, .vec = ops[k], .dtype = types[t], .slot = 1, .in = {1}}};
      if (!vec_fold(level, ops[k], types[t]))
        continue;
      EmitFn *fn = emit_segment(memory, arena, level, HL_COUNT_OF(op), op, NULL);
      assert_non_null(fn);
      n_had++;
      for (int n = 0; n < 300 && cpu_runs(level); n++)
        try_fold(&rng, level, ops[k], types[t], fn, n);
    }
  emit_memory_free(memory);
  hl_arena_free(arena);
  return n_had;
}

static void folds_are_as_functions(void **state) {
  print_message("%d folds in AVX2, %d in AVX-512\n", each_fold(CPU_V3), each_fold(CPU_V4));
}

// --- What is refused ---------------------------------------------------------------------------------

static void what_it_lacks_is_refused(void **state) {
  HlArena *arena = hl_arena_new();
  EmitMemory *memory = emit_memory_new(0);
  const EmitOp divide[] = {{.kind = EMIT_LOAD, .dtype = HL_S64},
                           {.kind = EMIT_VEC, .vec = VEC_DIVIDE, .dtype = HL_S64},
                           {.kind = EMIT_STORE, .dtype = HL_S64, .in = {1}}};
  const EmitOp complex[] = {{.kind = EMIT_LOAD, .dtype = HL_C64},
                            {.kind = EMIT_STORE, .dtype = HL_C64}};
  assert_null(emit_segment(memory, arena, CPU_V3, 3, divide, NULL));
  assert_null(emit_segment(memory, arena, CPU_V3, 2, complex, NULL));
  assert_null(emit_segment(memory, arena, CPU_V2, 1, divide, NULL));
  assert_false(emit_has(arena, CPU_V4, &divide[1], 0));
  emit_memory_free(memory);
  hl_arena_free(arena);
}

// --- Memory -------------------------------------------------------------------------------------------

// How many mappings of code there are; none may be written.
static int executable_mappings(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  int n = 0;
  assert_non_null(maps);
  while (fgets(line, sizeof(line), maps)) {
    const char *flags = strchr(line, ' ');
    assert_non_null(flags);
    assert_false(flags[2] == 'w' && flags[3] == 'x');
    n += strstr(line, "hilo-code") && flags[3] == 'x';
  }
  fclose(maps);
  return n;
}

static void code_is_never_writable(void **state) {
  const int before = executable_mappings();
  EmitMemory *memory = emit_memory_new(0);
  assert_int_equal(executable_mappings(), before + (memory != NULL));
  emit_memory_free(memory);
  assert_int_equal(executable_mappings(), before);
}

// --- How long it takes -------------------------------------------------------------------------------

static double cpu_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void measure(void) {
  enum { N = 16384, ROUNDS = 200, SEGMENTS = 200 };
  HlArena *arena = hl_arena_new();
  EmitMemory *memory = emit_memory_new(0);
  const float c1 = 0.1F, c2 = 0.5F;
  uint32_t b1, b2;
  memcpy(&b1, &c1, 4);
  memcpy(&b2, &c2, 4);
  // -(a b + 0.1) + a, a times, + b, + b, times 0.5, + max(a, b)
#define OP(v, x, y)                                                   \
  {                                                                   \
    .kind = EMIT_VEC, .vec = VEC_##v, .dtype = HL_F32, .in = { x, y } \
  }
  const EmitOp cheap[] = {{.kind = EMIT_LOAD, .dtype = HL_F32, .slot = 0},
                          {.kind = EMIT_LOAD, .dtype = HL_F32, .slot = 1},
                          {.kind = EMIT_CONST, .dtype = HL_F32, .bits = b1},
                          {.kind = EMIT_CONST, .dtype = HL_F32, .bits = b2},
                          OP(MULTIPLY, 0, 1),
                          OP(ADD, 4, 2),
                          OP(NEGATE, 5, 0),
                          OP(ADD, 6, 0),
                          OP(MULTIPLY, 7, 0),
                          OP(ADD, 8, 1),
                          OP(ADD, 9, 1),
                          OP(MULTIPLY, 10, 3),
                          OP(SUBTRACT, 0, 1),
                          OP(ADD, 11, 12),
                          {.kind = EMIT_STORE, .dtype = HL_F32, .slot = 2, .in = {13}}};
#undef OP
  EmitFn *fn = emit_segment(memory, arena, cpu_level(), HL_COUNT_OF(cheap), cheap, NULL);
  if (!fn)
    return;
  float *data = hl_arena_alloc(arena, 3 * N * sizeof(float));
  double least = 1, emit = 1;
  for (int k = 0; k < ROUNDS; k++) {
    const double before = cpu_seconds();
    for (int j = 0; j < 10; j++)
      fn(N, (void *[]){data, data + N, data + 2 * N});
    least = fmin(least, (cpu_seconds() - before) / (10.0 * N));
  }
  for (int k = 0; k < 20; k++) {
    const double before = cpu_seconds();
    for (int j = 0; j < SEGMENTS; j++) {
      const HlMark mark = hl_arena_mark(arena);
      emit_segment(memory, arena, cpu_level(), HL_COUNT_OF(cheap), cheap, NULL);
      hl_arena_release(arena, mark);
    }
    emit = fmin(emit, (cpu_seconds() - before) / SEGMENTS);
  }
  printf("ten cheap ops, %d f32: %.3f ns an element; %.2f us to make\n", N, least * 1e9,
         emit * 1e6);
  emit_memory_free(memory);
  hl_arena_free(arena);
}

// --- What others are told ------------------------------------------------------------------------------

extern struct {
  uint32_t version, action;
  struct Told {
    struct Told *next, *prev;
    const char *file;
    uint64_t bytes;
  } * relevant, *first;
} __jit_debug_descriptor;

static bool has_bytes(const char *file, uint64_t n, const char *text) {
  for (uint64_t k = 0; k + strlen(text) <= n; k++)
    if (memcmp(file + k, text, strlen(text)) == 0)
      return true;
  return false;
}

static void perf_knows(const void *place, const char *name) {
  char path[64], line[512], start[32];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  snprintf(start, sizeof(start), "%lx ", (unsigned long)(uintptr_t)place);
  FILE *map = fopen(path, "r");
  assert_non_null(map);
  int n = 0;
  while (fgets(line, sizeof(line), map))
    n += strncmp(line, start, strlen(start)) == 0 && strstr(line, name) != NULL;
  fclose(map);
  unlink(path);
  assert_int_equal(n, 1);
}

static void code_is_told_of(void **state) {
  static const EmitOp twice[] = {{.kind = EMIT_LOAD, .dtype = HL_F32},
                                 {.kind = EMIT_VEC, .vec = VEC_ADD, .dtype = HL_F32},
                                 {.kind = EMIT_STORE, .dtype = HL_F32, .slot = 1, .in = {1}}};
  HlArena *arena = hl_arena_new();
  EmitMemory *memory = emit_memory_new(EMIT_PERF | EMIT_GDB | EMIT_KEEPS_TEXT);
  if (!memory)
    skip();  // no code may be made here
  assert_null(__jit_debug_descriptor.first);
  EmitFn *one = emit_segment(memory, arena, CPU_V3, HL_COUNT_OF(twice), twice, "add.1 a.py:7");
  EmitFn *two = emit_segment(memory, arena, CPU_V3, HL_COUNT_OF(twice), twice, "add.2 a.py:8");
  assert_true(one && two);
  const char *text = emit_segment_text(memory, one);
  assert_true(strstr(text, "vaddps ymm") && strstr(text, "vzeroupper") && strstr(text, " ret\n"));
  assert_null(strstr(text, "0x7fffffff"));  // the size of the frame is what it turned out to be
  assert_string_equal(text, emit_segment_text(memory, two));
  const union {
    EmitFn *function;
    const void *data;
  } place = {two};
  perf_knows(place.data, "hilo:add.2 a.py:8");
  const struct Told *newest = __jit_debug_descriptor.first;
  assert_non_null(newest->next);
  assert_null(newest->next->next);
  assert_memory_equal(newest->file,
                      "\x7f"
                      "ELF",
                      4);
  assert_true(has_bytes(newest->file, newest->bytes, "hilo:add.2 a.py:8"));
  assert_true(has_bytes(newest->next->file, newest->next->bytes, "hilo:add.1 a.py:7"));
  emit_memory_free(memory);
  assert_null(__jit_debug_descriptor.first);
  hl_arena_free(arena);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--measure") == 0) {
    measure();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_op_is_as_its_function),
      cmocka_unit_test(each_conversion_is_as_its_function),
      cmocka_unit_test(segments_are_as_functions),
      cmocka_unit_test(folds_are_as_functions),
      cmocka_unit_test(what_it_lacks_is_refused),
      cmocka_unit_test(code_is_never_writable),
      cmocka_unit_test(code_is_told_of),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
