// Times the convolutions and Fourier transforms of HLO modules as kernels of the CPU backend, one thread, least CPU time.
//
//   conv [-v] FILE...          FILE  milliseconds, for all of them together; with -v, how each is done

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/kernel/kernel.h"
#include "hilo/text.h"
#include "hilo/tool.h"

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *filled(const HlShape *shape) {
  const size_t bytes = ((size_t)cpu_bytes(shape) + 127) & ~(size_t)63;
  void *at = aligned_alloc(64, bytes);
  memset(at, 0, bytes);
  HlRng rng = {1};
  if (shape->dtype == HL_F32 || shape->dtype == HL_C64)
    for (size_t k = 0; k < (size_t)cpu_bytes(shape) / 4; k++)
      ((float *)at)[k] = (float)hl_rng_unit(&rng) - 0.5f;
  return at;
}

// Milliseconds of one run, or -1: nothing takes it.
static double time_kernel(HlCx *cx, HlArena *arena, const HlInst *inst, bool verbose) {
  CpuMaker maker = {.cx = cx, .arena = arena, .level = cpu_level()};
  const CpuKernel *kernel = cpu_kernel_make(&maker, inst);
  if (!kernel)
    return -1;
  if (verbose && kernel->kind->print) {
    HlBuf out = {0};
    kernel->kind->print(&out, kernel);
    fputs(out.at, stdout);
    hl_buf_free(&out);
  }
  void *buffer[3];
  int n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    buffer[n++] = filled(inst->operands[k]->shape);
  buffer[n++] = filled(inst->shape);
  CpuPool *pool = cpu_pool_new(1);
  CpuTeam *team = cpu_team_new(pool);
  double best = 1e30, total = 0;
  for (int round = 0; round < 3 || (total < 500 && round < 1000); round++) {
    const char *why = NULL;
    const double start = now_ms();
    if (!kernel->kind->run(kernel, team, buffer, &why))
      best = -1;
    const double took = now_ms() - start;
    total += took;
    best = took < best ? took : best;
  }
  cpu_team_free(team);
  cpu_pool_free(pool);
  for (int k = 0; k < n; k++)
    free(buffer[k]);
  return best;
}

int main(int argc, char **argv) {
  bool verbose = false;
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "-v") == 0) {
      verbose = true;
      continue;
    }
    HlCx *cx = hl_cx_new();
    HlFile file = {0};
    HlModule *m = hl_load(cx, argv[k], NULL, &file) && file.n > 0 ? file.modules[0] : NULL;
    HlArena *arena = hl_arena_new();
    double sum = m ? 0 : -1;
    for (const HlInst *inst = m ? m->entry->first : NULL; inst && sum >= 0; inst = inst->next)
      if (inst->op == HL_OP_CONVOLUTION || inst->op == HL_OP_FFT) {
        const double took = time_kernel(cx, arena, inst, verbose);
        sum = took < 0 ? -1 : sum + took;
      }
    printf("%s %.4f\n", argv[k], sum);
    hl_arena_free(arena);
    hl_file_free(&file);
    hl_cx_free(cx);
  }
  return 0;
}
