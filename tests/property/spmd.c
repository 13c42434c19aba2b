// The partitioned program computes what the program computes: random modules with random shardings
// on their instructions run whole on one device, and partitioned on several, each given its tiles
// of the arguments. What a device then has of the result must be its tile. Elements beyond the end
// of an argument are nan, so that nobody reads them.
//
//   property_spmd                    MODULES modules
//   property_spmd COUNT FIRST        modules of seeds FIRST to FIRST + COUNT - 1
//   property_spmd --module SEED      writes the module of a seed, with its shardings
//   property_spmd FILE...            files as they are, partitioned by the shardings they have
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/eval.h"
#include "hilo/opt.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/verify.h"
#include "spmd/tiles.h"
#include "support/gen_algebra.h"
#include "support/property.h"

enum { MODULES = 3000, MAX_DEVICES = 64 };

// --- Shardings ------------------------------------------------------------------------------------

// Cuts dimensions by factors of the number of devices until it is used up or luck ends.
static const HlTiles *random_tiles(HlModule *m, HlRng *rng, int rank) {
  const int64_t n = m->num_partitions;
  int64_t *parts = HL_ARRAY(m->arena, int64_t, rank + 1), *device = HL_ARRAY(m->arena, int64_t, n);
  int64_t left = n;
  for (int k = 0; k < rank; k++)
    parts[k] = 1;
  for (int64_t f = 2; f <= left; f++)
    while (left % f == 0 && f <= left) {
      if (rank == 0 || hl_rng_below(rng, 4) == 0)
        break;
      parts[hl_rng_below(rng, rank)] *= f;
      left /= f;
    }
  for (int64_t k = 0; k < n; k++)
    device[k] = k;
  for (int64_t k = n - 1; k > 0 && hl_rng_below(rng, 3) == 0; k--) {
    const int64_t j = hl_rng_below(rng, k + 1), swap = device[k];
    device[k] = device[j];
    device[j] = swap;
  }
  left = n;
  for (int k = 0; k < rank; k++)
    left /= parts[k];
  return hl_tiles_new(m->arena, rank, parts, 1, 1, left, device);
}

static const HlSharding *random_leaf(HlModule *m, HlRng *rng, const HlShape *shape) {
  const int rank = hl_shape_is_array(shape) ? shape->rank : 0;
  const int64_t kind = hl_rng_below(rng, 8);
  const HlTiles *t = kind == 0 ? hl_tiles_replicated(m->arena, rank, m->num_partitions)
                     : kind == 1
                         ? hl_tiles_maximal(m->arena, rank, hl_rng_below(rng, m->num_partitions))
                         : random_tiles(m, rng, rank);
  return hl_tiles_sharding(m, t);
}

static void leaves(HlModule *m, HlRng *rng, const HlShape *shape, const HlSharding **out, int *n) {
  if (!hl_shape_is_tuple(shape)) {
    out[(*n)++] = random_leaf(m, rng, shape);
    return;
  }
  for (int k = 0; k < shape->rank; k++)
    leaves(m, rng, shape->element[k], out, n);
}

static const HlSharding *random_sharding(HlModule *m, HlRng *rng, const HlShape *shape) {
  if (!hl_shape_is_tuple(shape))
    return random_leaf(m, rng, shape);
  const HlSharding **element = HL_ARRAY(m->arena, const HlSharding *, hl_shape_leaves(shape) + 1);
  int n = 0;
  leaves(m, rng, shape, element, &n);
  HlSharding *tuple = HL_NEW(m->arena, HlSharding);
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = n};
  return n > 0 ? tuple : NULL;
}

static void put_shardings(HlModule *m, HlRng *rng) {
  static const int64_t counts[] = {2, 3, 4, 6, 8};
  m->num_partitions = counts[hl_rng_below(rng, HL_COUNT_OF(counts))];
  m->replica_count = hl_rng_below(rng, 4) ? 1 : 2;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlSharding *s = hl_rng_below(rng, 4) ? random_sharding(m, rng, inst->shape) : NULL;
      hl_remove_attr(inst, HL_A_SHARDING);
      if (s && !comp->is_fusion)
        hl_set_attr(inst, &(HlAttr){.key = HL_A_SHARDING, .ptr = s});
    }
}

// --- Tiles of literals ----------------------------------------------------------------------------

typedef struct Box {
  int64_t start[32], size[32];
} Box;

static Box box_of(const HlTiles *t, int64_t device, const HlShape *shape) {
  Box box = {0};
  for (int k = 0; k < shape->rank; k++)
    if (t->kind == HL_TILES_MAXIMAL)
      box.size[k] = shape->dim[k];
    else
      hl_tiles_range(t, device, k, shape->dim[k], &box.start[k], &box.size[k]);
  return box;
}

// Copies a box of `size` elements from one place to another.
static void copy_box(const HlLiteral *from, const int64_t *from_start, HlLiteral *to,
                     const int64_t *to_start, const int64_t *size) {
  const int rank = from->shape->rank;
  const size_t bytes = (size_t)hl_dtype_bytes(from->shape->dtype);
  int64_t n = 1;
  for (int k = 0; k < rank; k++)
    n *= size[k];
  for (int64_t i = 0; i < n; i++) {
    int64_t a = 0, b = 0, rest = i, at[32];
    for (int k = rank - 1; k >= 0; k--) {
      at[k] = rest % size[k];
      rest /= size[k];
    }
    for (int k = 0; k < rank; k++) {
      a = a * from->shape->dim[k] + from_start[k] + at[k];
      b = b * to->shape->dim[k] + to_start[k] + at[k];
    }
    memcpy((char *)to->data + bytes * (size_t)b, (const char *)from->data + bytes * (size_t)a,
           bytes);
  }
}

static HlLiteral *cut(HlCx *cx, HlModule *m, const HlLiteral *from, const int64_t *start,
                      const int64_t *size) {
  const int64_t zero[32] = {0};
  const HlShape *shape = hl_shape_array(m->shapes, from->shape->dtype, from->shape->rank, size);
  HlLiteral *out = hl_literal_new(cx, shape);
  copy_box(from, start, out, zero, size);
  return out;
}

static const HlTiles *tiles_of_leaf(HlModule *m, const HlSharding *s, int64_t leaf,
                                    const HlShape *shape) {
  const HlSharding *own = hl_sharding_leaf(s, leaf);
  return own ? hl_tiles_of(m->arena, own, shape->rank, m->num_partitions)
             : hl_tiles_replicated(m->arena, shape->rank, m->num_partitions);
}

// A device's argument: its tile, and what nobody may read beyond the array's end.
static HlLiteral *local_leaf(HlCx *cx, HlModule *m, const HlLiteral *global, const HlTiles *t,
                             int64_t device) {
  const HlShape *shape = t->kind == HL_TILES_MAXIMAL
                             ? global->shape
                             : hl_tiles_shape(m, t, hl_shape_intern(m->shapes, global->shape));
  const HlDtype dtype = shape->dtype;
  const int64_t zero[32] = {0};
  HlLiteral *out = hl_literal_new(cx, shape);
  for (int64_t k = 0; k < out->n; k++)
    if (hl_is_float(dtype) || hl_is_complex(dtype))
      hl_literal_set_f64(out, k, NAN);
    else
      hl_literal_set_i64(out, k, 1);
  const Box box = box_of(t, device, global->shape);
  copy_box(global, box.start, out, zero, box.size);
  return out;
}

static HlLiteral *local_value(HlCx *cx, HlModule *m, const HlLiteral *global, const HlSharding *s,
                              int64_t device, int64_t *leaf) {
  const HlShape *shape = global->shape;
  if (!hl_shape_is_tuple(shape)) {
    const int64_t k = (*leaf)++;
    return hl_shape_is_array(shape)
               ? local_leaf(cx, m, global, tiles_of_leaf(m, s, k, shape), device)
               : hl_literal_ref(global);
  }
  HlLiteral **element = calloc((size_t)shape->rank + 1, sizeof *element);
  for (int k = 0; k < shape->rank; k++)
    element[k] = local_value(cx, m, global->element[k], s, device, leaf);
  HlLiteral *tuple = hl_literal_tuple(cx, shape->rank, element);
  for (int k = 0; k < shape->rank; k++)
    hl_literal_unref(element[k]);
  free(element);
  return tuple;
}

// --- One module -----------------------------------------------------------------------------------

typedef struct Case {
  HlCx *cx;
  HlModule *m;
  const char *name;
  int n_args;
  HlLiteral **args;
  HlLiteral *expected;
} Case;

static bool evaluate_whole(Case *c) {
  c->n_args = c->m->entry->n_params;
  c->args = calloc((size_t)c->n_args + 1, sizeof *c->args);
  if (!hl_fake_args(c->cx, c->m, 1, c->args))
    return false;
  HlModule *one = hl_clone(c->cx, c->m);
  one->num_partitions = one->replica_count = 1;
  const HlLiteral *const *args = (const HlLiteral *const *)c->args;
  const HlEvalOptions options = {.elided = HL_ELIDED_ZERO, .no_checks = true};
  const bool ok = hl_eval(c->cx, one, &options, &args, &c->expected);
  hl_module_free(one);
  return ok;
}

static bool broken(Case *c, const char *why) {
  fprintf(stderr, "%s: %s\n", c->name, why);
  property_print_errors(c->cx, stderr);
  hl_cx_clear(c->cx);
  return false;
}

static bool is_finite(const HlLiteral *x) {
  bool finite = true;
  for (int64_t i = 0; finite && i < x->n; i++)
    if (hl_is_float(x->shape->dtype) || hl_is_complex(x->shape->dtype))
      finite = isfinite(hl_literal_f64(x, i)) && isfinite(hl_literal_imag(x, i));
  return finite;
}

// One leaf on one device against the tile of the whole.
static bool same_leaf(Case *c, const HlLiteral *actual, const HlLiteral *expected, const HlTiles *t,
                      int64_t device, double rounding) {
  const int64_t zero[32] = {0};
  const Box box = box_of(t, device, expected->shape);
  HlLiteral *a = cut(c->cx, c->m, actual, zero, box.size);
  HlLiteral *e = cut(c->cx, c->m, expected, box.start, box.size);
  HlMismatch found = {0};
  const HlCompareOptions how = {.tolerance = -1, .roundings = &rounding, .n_roundings = 1};
  const bool same = hl_compare(c->cx, 1, (const HlLiteral *const *)&a, (const HlLiteral *const *)&e,
                               &how, &found);
  // Sums in another order meet infinities and nans elsewhere.
  const bool fine = same || !is_finite(e);
  if (!fine)
    fprintf(stderr, "%s: device %lld: %lld of %lld differ, the worst is %g, expected %g\n", c->name,
            (long long)device, (long long)found.n_different, (long long)found.n, found.actual,
            found.expected);
  hl_literal_unref(a);
  hl_literal_unref(e);
  return fine;
}

static bool same_on(Case *c, const HlLiteral *actual, int64_t device) {
  HlArena *arena = hl_arena_new();
  int n, n_expected, n_roundings;
  const HlLiteral **a = hl_flatten(arena, actual, &n);
  const HlLiteral **e = hl_flatten(arena, c->expected, &n_expected);
  const double *roundings = hl_leaf_roundings(arena, c->m, &n_roundings);
  const HlShape *shape = c->m->entry->root->shape;
  const HlSharding *s = hl_sharding(c->m->entry->root);
  bool same = n == n_expected;
  // Tokens are leaves of the sharding, not of the values: only results without them are compared by
  // tile.
  const bool by_tile = hl_shape_leaves(shape) == n;
  for (int k = 0; same && k < n; k++)
    same = same_leaf(c, a[k], e[k], tiles_of_leaf(c->m, by_tile ? s : NULL, k, e[k]->shape), device,
                     k < n_roundings ? roundings[k] : 0);
  hl_arena_free(arena);
  return same;
}

static bool run_partitioned(Case *c, HlModule *m) {
  const int64_t partitions = m->num_partitions, n = m->replica_count * partitions;
  HlLiteral *results[MAX_DEVICES] = {NULL}, **args[MAX_DEVICES];
  for (int64_t d = 0; d < n; d++) {
    args[d] = calloc((size_t)c->n_args + 1, sizeof *args[d]);
    for (int k = 0; k < c->n_args; k++) {
      int64_t leaf = 0;
      args[d][k] = local_value(c->cx, c->m, c->args[k], hl_sharding(c->m->entry->params[k]),
                               d % partitions, &leaf);
    }
  }
  const HlEvalOptions options = {.elided = HL_ELIDED_ZERO, .no_checks = true};
  bool ok = hl_eval(c->cx, m, &options, (const HlLiteral *const *const *)args, results) ||
            broken(c, "what comes out does not run");
  for (int64_t d = 0; ok && d < n; d++)
    ok = same_on(c, results[d], d % partitions) || broken(c, "the result changes");
  for (int64_t d = 0; d < n; d++) {
    hl_literal_unref(results[d]);
    for (int k = 0; k < c->n_args; k++)
      hl_literal_unref(args[d][k]);
    free(args[d]);
  }
  return ok;
}

// True also for what does not run as it is.
static bool check(Case *c, int *n_run) {
  if (c->m->num_partitions * c->m->replica_count > MAX_DEVICES || !evaluate_whole(c)) {
    hl_cx_clear(c->cx);
    return true;
  }
  const HlEngineOptions options = {.passes = &hl_passes,
                                   .pipelines = &hl_pipelines,
                                   .target = "",
                                   .fuel = -1,
                                   .explain = -1,
                                   .verify_each = true};
  HlModule *copy = hl_clone(c->cx, c->m);
  HlEngine *engine = hl_engine_new(c->cx, &options);
  const bool ok =
      (hl_engine_run(engine, copy, "spmd-partitioning") || broken(c, "the pass fails")) &&
      run_partitioned(c, copy);
  hl_engine_free(engine);
  hl_module_free(copy);
  ++*n_run;
  return ok;
}

static void case_free(Case *c) {
  for (int k = 0; c->args && k < c->n_args; k++)
    hl_literal_unref(c->args[k]);
  free(c->args);
  hl_literal_unref(c->expected);
}

// --- Modules --------------------------------------------------------------------------------------

// What differs from device to device by itself.
static bool depends_on_devices(const HlModule *m) {
  static const HlOp ops[] = {
      HL_OP_PARTITION_ID, HL_OP_REPLICA_ID, HL_OP_RNG,  HL_OP_RNG_GET_AND_UPDATE_STATE,
      HL_OP_INFEED,       HL_OP_OUTFEED,    HL_OP_SEND, HL_OP_RECV,
      HL_OP_SEND_DONE,    HL_OP_RECV_DONE};
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      if (hl_op_info[inst->op].traits & HL_T_COLLECTIVE)
        return true;
      for (int k = 0; k < HL_COUNT_OF(ops); k++)
        if (inst->op == ops[k])
          return true;
    }
  return false;
}

static HlModule *module_of(HlCx *cx, uint64_t seed) {
  GenOptions options = property_options(seed / 2, true);
  HlModule *m = seed % 2 ? gen_algebra(cx, seed, 10 + (int)(seed % 30)) : gen_module(cx, &options);
  if (!m || depends_on_devices(m)) {
    hl_module_free(m);
    return NULL;
  }
  HlRng rng = {seed};
  put_shardings(m, &rng);
  return m;
}

static int check_seed(uint64_t seed, int *n_run) {
  char name[32];
  snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
  Case c = {.cx = hl_cx_new(), .name = name};
  hl_cx_limits(c.cx)->eval_steps = 4000000;
  c.m = module_of(c.cx, seed);
  const bool ok = !c.m || check(&c, n_run);
  case_free(&c);
  hl_module_free(c.m);
  hl_cx_free(c.cx);
  return !ok;
}

static int check_file(const char *path, int *n_run) {
  Case c = {.cx = hl_cx_new(), .name = path};
  HlFile file = {0};
  bool ok = hl_load(c.cx, path, NULL, &file) || broken(&c, "it is not read");
  for (int k = 0; ok && k < file.n; k++) {
    c.m = file.modules[k];
    ok = check(&c, n_run);
    case_free(&c);
    c.args = NULL;
    c.expected = NULL;
  }
  hl_file_free(&file);
  hl_cx_free(c.cx);
  return !ok;
}

static int print_module(uint64_t seed) {
  HlCx *cx = hl_cx_new();
  HlModule *m = module_of(cx, seed);
  if (!m)
    return 1;
  HlTextOptions options = hl_text_options(HL_TEXT_DEFAULT);
  options.large_constants = true;
  HlBuf out = {0};
  hl_text_print(cx, m, &options, &out);
  fwrite(out.at, 1, out.n, stdout);
  hl_buf_free(&out);
  hl_module_free(m);
  hl_cx_free(cx);
  return 0;
}

static void partitioned_programs_compute_the_same(void **state) {
  (void)state;
  int failures = 0, n_run = 0;
  for (uint64_t seed = 0; seed < MODULES; seed++)
    failures += check_seed(seed, &n_run);
  assert_int_equal(failures, 0);
  assert_true(n_run > MODULES / 4);
}

int main(int argc, char **argv) {
  int failures = 0, n_run = 0;
  if (argc == 3 && strcmp(argv[1], "--module") == 0)
    return print_module(strtoull(argv[2], NULL, 10));
  if (argc == 3 && isdigit((unsigned char)argv[1][0])) {
    const uint64_t count = strtoull(argv[1], NULL, 10), first = strtoull(argv[2], NULL, 10);
    for (uint64_t k = 0; k < count; k++)
      failures += check_seed(first + k, &n_run);
  } else if (argc > 1) {
    for (int k = 1; k < argc; k++)
      failures += check_file(argv[k], &n_run);
  } else {
    const struct CMUnitTest tests[] = {cmocka_unit_test(partitioned_programs_compute_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
  }
  printf("%d failures, %d run\n", failures, n_run);
  return failures > 0;
}
