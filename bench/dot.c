// Measures products of matrices: GFLOP/s (integers: operations) in CPU time of one thread, the least of several runs.
//
//   dot [LEVEL]        v2, v3 or v4; the best that this machine has
//
// `peak` is a tile that multiplies the same words over and over, which is what registers and multipliers can do. bench/dot.py
// measures XLA:CPU the same way.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/dot/dot.h"
#include "cpu/dot/tile.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct Size {
  const char *text;
  int64_t b, m, n, k;
  bool b_turned;  // the elements of B that follow in k lie beside each other
} Size;
static const Size sizes[] = {
    {"2048^3", 1, 2048, 2048, 2048, false},       {"512^3", 1, 512, 512, 512, false},
    {"1024x2048x512", 1, 1024, 2048, 512, false}, {"512^3 B turned", 1, 512, 512, 512, true},
    {"64^3, 64 times", 64, 64, 64, 64, false},    {"matvec 4096", 1, 4096, 1, 4096, false},
    {"vecmat 4096", 1, 1, 4096, 4096, false},     {"8x1024x1024", 1, 8, 1024, 1024, false},
    {"32x64x16", 1, 32, 64, 16, false},           {"128x10x128", 1, 128, 10, 128, false},
    {"32x32x100000", 1, 32, 32, 100000, false},
};
static const struct {
  HlDtype in, out;
  DotWord word;
  int each;  // elements of k in a word
} types[] = {{HL_F32, HL_F32, DOT_F32, 1},
             {HL_F64, HL_F64, DOT_F64, 1},
             {HL_BF16, HL_BF16, DOT_F32, 1},
             {HL_S8, HL_S32, DOT_S8, 4}};

static void *filled(HlDtype dtype, int64_t n) {
  const size_t bytes = (size_t)hl_dtype_bytes(dtype);
  char *at = aligned_alloc(64, ((size_t)n * bytes + 127) & ~(size_t)63);
  for (int64_t k = 0; k < n; k++) {
    const float x = (float)(k % 13 - 6);
    hl_convert_elements(dtype, at + (size_t)k * bytes, HL_F32, &x, 1);
  }
  return at;
}

static double measure(const DotPlan *plan, CpuTeam *team, const void *a, const void *b, void *c,
                      double seconds) {
  double best = 1e9, whole = 0;
  for (int times = 1; whole < 0.4;) {
    const double start = now();
    for (int k = 0; k < times; k++)
      dot_run(plan, team, a, b, c, NULL, NULL);
    const double took = now() - start;
    whole += took;
    best = took / times < best ? took / times : best;
    times = (int)(0.02 / best) + 1;
  }
  return best;
}

// Where there is no tile of bytes, those of pairs multiply them.
static double peak(CpuLevel level, DotWord word, int each) {
  static const DotLevel *const levels[] = SIMD_LEVELS(&dot_level);
  enum { K = 1 << 16 };
  _Alignas(64) static char panel[DOT_MAX_MR * DOT_MAX_ROW], sums[DOT_MAX_MR * DOT_MAX_ROW];
  const DotTiles *t = &levels[level]->tiles[word];
  if (word == DOT_S8 && (t->nr == 0 || !cpu_has_vnni()))
    return peak(level, DOT_S16, 2);
  double best = 1e9;
  for (int k = 0; k < 20; k++) {
    const double start = now();
    t->rows[t->mr](K, panel, 1, 0, panel, 0, sums, t->nr, false, panel, 0);
    const double took = now() - start;
    best = took < best ? took : best;
  }
  return 2.0 * t->mr * t->nr * each * K / best;
}

int main(int argc, char **argv) {
  CpuLevel level = cpu_level();
  if (argc > 1)
    level = argv[1][1] == '2' ? CPU_V2 : argv[1][1] == '3' ? CPU_V3 : CPU_V4;
  HlArena *arena = hl_arena_new();
  CpuPool *pool = cpu_pool_new(1);
  CpuTeam *team = cpu_team_new(pool);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    printf("%-5s %-16s %8.1f GFLOP/s\n", hl_dtype_text(types[t].in), "peak",
           peak(level, types[t].word, types[t].each) * 1e-9);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      const Size *q = &sizes[s];
      DotLoop loop[4] = {{q->b, {q->m * q->k, q->k * q->n, q->m * q->n}},
                         {q->m, {q->k, 0, q->n}},
                         {q->n, {0, q->b_turned ? q->k : 1, 1}},
                         {q->k, {1, q->b_turned ? 1 : q->n, 0}}};
      DotProduct product = {.dtype = {types[t].in, types[t].in, types[t].out}};
      for (int k = 0; k < 4; k++)
        product.index[k] = (DotLoops){1, &loop[k]};
      const DotPlan *plan = dot_plan(arena, level, &product, (const void *const[]){NULL, NULL});
      void *a = filled(types[t].in, q->b * q->m * q->k),
           *b = filled(types[t].in, q->b * q->k * q->n),
           *c = filled(types[t].out, q->b * q->m * q->n);
      const double flops = 2.0 * (double)(q->b * q->m) * (double)(q->n * q->k);
      const double seconds = measure(plan, team, a, b, c, flops / 5e10);
      printf("%-5s %-16s %8.1f GFLOP/s %10.3f ms (guess %.3f)\n", hl_dtype_text(types[t].in),
             q->text, flops / seconds * 1e-9, seconds * 1e3, dot_seconds(plan) * 1e3);
      fflush(stdout);
      free(a);
      free(b);
      free(c);
    }
  }
  cpu_team_free(team);
  cpu_pool_free(pool);
  hl_arena_free(arena);
  return 0;
}
