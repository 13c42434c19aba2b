// Times the root of HLO modules as a kernel of the CPU backend, one thread, least CPU time.
//
//   tile [-v] [-n] FILE...     FILE  microseconds; with -v, how it is done; with -n, without machine code

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/emit/code.h"
#include "cpu/kernel/kernel.h"
#include "hilo/text.h"
#include "hilo/tool.h"

enum { MAX_BUFFERS = 64 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

// Floats between -1 and 1, other elements small numbers.
static void *filled(const HlShape *shape) {
  const size_t bytes = ((size_t)cpu_bytes(shape) + 127) & ~(size_t)63,
               size = (size_t)hl_dtype_bytes(shape->dtype);
  char *at = aligned_alloc(64, bytes);
  memset(at, 0, bytes);
  HlRng rng = {1};
  for (size_t k = 0; size > 0 && k < (size_t)cpu_bytes(shape) / size; k++) {
    const double x =
        hl_is_float(shape->dtype) ? 2 * hl_rng_unit(&rng) - 1 : (double)hl_rng_below(&rng, 100);
    if (shape->dtype != HL_PRED)
      hl_convert_elements(shape->dtype, at + k * size, HL_F64, &x, 1);
  }
  return at;
}

static int add_buffers(void **buffer, int n, const HlShape *shape) {
  for (int k = 0; k < cpu_leaf_count(shape); k++)
    buffer[n++] = filled(cpu_leaf(shape, k));
  return n;
}

static double time_kernel(const CpuKernel *kernel, void *const *buffer) {
  CpuPool *pool = cpu_pool_new(1);
  CpuTeam *team = cpu_team_new(pool);
  double best = 1e30, total = 0;
  for (int times = 1, round = 0; round < 3 || total < 5e5; round++) {
    const char *why = NULL;
    const double start = now_us();
    for (int k = 0; k < times; k++)
      if (!kernel->kind->run(kernel, team, buffer, &why))
        return -1;
    const double took = (now_us() - start) / times;
    total += took * times;
    best = took < best ? took : best;
    times = best < 1000 ? (int)(1000 / best) + 1 : 1;
  }
  cpu_team_free(team);
  cpu_pool_free(pool);
  return best;
}

int main(int argc, char **argv) {
  bool verbose = false;
  EmitMemory *code = emit_memory_new(0);
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "-v") == 0) {
      verbose = true;
      continue;
    }
    if (strcmp(argv[k], "-n") == 0) {
      emit_memory_free(code);
      code = NULL;
      continue;
    }
    HlCx *cx = hl_cx_new();
    HlFile file = {0};
    HlModule *m = hl_load(cx, argv[k], NULL, &file) && file.n > 0 ? file.modules[0] : NULL;
    HlArena *arena = hl_arena_new();
    CpuMaker maker = {.cx = cx, .arena = arena, .level = cpu_level(), .code = code};
    const CpuKernel *kernel = m ? cpu_kernel_make(&maker, m->entry->root) : NULL;
    double took = -1;
    if (kernel && kernel->n_buffers <= MAX_BUFFERS) {
      void *buffer[MAX_BUFFERS];
      int n = 0;
      for (uint32_t j = 0; j < m->entry->root->n_operands; j++)
        n = add_buffers(buffer, n, m->entry->root->operands[j]->shape);
      n = add_buffers(buffer, n, m->entry->root->shape);
      took = time_kernel(kernel, buffer);
      while (n > 0)
        free(buffer[--n]);
    }
    if (kernel && verbose) {
      HlBuf out = {0};
      kernel->kind->print(&out, kernel);
      printf("%s, about %.1f us\n%s", kernel->kind->name, kernel->seconds * 1e6, out.at);
      hl_buf_free(&out);
    }
    printf("%s %.2f\n", argv[k], took);
    hl_arena_free(arena);
    hl_file_free(&file);
    hl_cx_free(cx);
  }
  emit_memory_free(code);
  return 0;
}
