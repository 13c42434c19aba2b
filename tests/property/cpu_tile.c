// Tile programs beside the interpreter on random modules: each instruction that a tile program has a form for is run alone, on
// made-up arguments. Says which ops were taken how often; most kinds of instructions must be.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/isolate.h"
#include "hilo/text.h"
#include "support/cpu_check.h"
#include "support/property.h"

typedef struct Tally {
  int64_t taken[HL_OP_COUNT], left[HL_OP_COUNT], wrong;
} Tally;

static bool is_taken(HlCx *cx, const HlModule *m) {
  HlArena *arena = hl_arena_new();
  CpuMaker maker = {.cx = cx, .arena = arena, .level = cpu_level(), .no_emit = true};
  const CpuKernel *kernel = cpu_kernel_make(&maker, m->entry->root);
  const bool taken = kernel && strcmp(kernel->kind->name, "tile") == 0;
  hl_arena_free(arena);
  return taken;
}

// What adds up many numbers, or has no exact value, is near; all else has the same bits.
static void try_inst(Tally *tally, HlCx *cx, const HlInst *inst, uint64_t seed) {
  HlModule *alone = hl_is_worth_isolating(inst) ? hl_isolate(cx, inst) : NULL;
  if (!alone)
    return;
  alone->replica_count = alone->num_partitions = 1;
  if (!is_taken(cx, alone)) {
    tally->left[inst->op]++;
  } else {
    HlBuf text = {0};
    hl_text_print(cx, alone, &(HlTextOptions){.large_constants = HL_ON}, &text);
    for (int emit = 0; emit < 2; emit++) {
      const CpuCheck options = {.kind = "tile", .seed = seed, .no_emit = !emit};
      char *wrong = cpu_check(text.at, &options);
      if (wrong) {
        tally->wrong++;
        printf("%s\nseed %llu%s: %s\n", text.at, (unsigned long long)seed,
               emit ? ", with machine code" : "", wrong);
      }
      free(wrong);
    }
    tally->taken[inst->op]++;
    hl_buf_free(&text);
  }
  hl_module_free(alone);
}

static void try_module(Tally *tally, uint64_t seed) {
  HlCx *cx = hl_cx_new();
  const GenOptions options = property_options(seed, true);
  HlModule *m = gen_module(cx, &options);
  for (const HlComp *comp = m ? m->first : NULL; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (comp == m->entry || comp->is_fusion || inst->op == HL_OP_FUSION)
        try_inst(tally, cx, inst, seed);
  if (m)
    hl_module_free(m);
  hl_cx_free(cx);
}

// These a tile program has a form for, whatever their attributes: of 100 at least so many are taken.
static const struct {
  HlOp op;
  int percent;
} floors[] = {{HL_OP_ADD, 95},        {HL_OP_MULTIPLY, 90},    {HL_OP_SELECT, 100},
              {HL_OP_COMPARE, 90},    {HL_OP_CONVERT, 75},     {HL_OP_BROADCAST, 100},
              {HL_OP_TRANSPOSE, 100}, {HL_OP_SLICE, 95},       {HL_OP_REVERSE, 95},
              {HL_OP_PAD, 95},        {HL_OP_CONCATENATE, 95}, {HL_OP_RESHAPE, 95},
              {HL_OP_IOTA, 90},       {HL_OP_COPY, 100}};

int main(void) {
  static Tally tally;
  const char *iterations = getenv("HILO_ITERATIONS"), *first = getenv("HILO_SEED");
  const uint64_t n = iterations ? strtoull(iterations, NULL, 10) : 150,
                 from = first ? strtoull(first, NULL, 10) : 1;
  for (uint64_t seed = from; seed < from + n; seed++)
    try_module(&tally, seed);
  int64_t all = 0;
  for (int op = 0; op < HL_OP_COUNT; op++) {
    if (tally.taken[op] + tally.left[op] > 0)
      printf("%-26s %6lld of %lld\n", hl_op_text((HlOp)op), (long long)tally.taken[op],
             (long long)(tally.taken[op] + tally.left[op]));
    all += tally.taken[op];
  }
  printf("%lld instructions, %lld wrong\n", (long long)all, (long long)tally.wrong);
  bool ok = tally.wrong == 0 && (n < 100 || all > 4 * (int64_t)n);
  for (size_t k = 0; k < sizeof floors / sizeof *floors && n >= 100; k++) {
    const int64_t taken = tally.taken[floors[k].op], left = tally.left[floors[k].op];
    if (taken * 100 < floors[k].percent * (taken + left)) {
      printf("too few of %s are taken\n", hl_op_text(floors[k].op));
      ok = false;
    }
  }
  return ok ? 0 : 1;
}
