// target/native.c: the CPU this program runs on.
//
// Counts of cores and sizes of caches and memory come from the system, what it can compute from the cpuid instruction.
// The clock is the highest one that cpuid or the system names; peaks follow from it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "hilo/target.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

// --- Numbers in files of the system ------------------------------------------------------------------

// The first integer in a small file, and the character behind it; -1: there is none.
static int64_t read_number(const char *path, char *unit) {
  char text[64] = "";
  FILE *file = fopen(path, "r");
  if (!file)
    return -1;
  bool ok = fgets(text, sizeof text, file) != NULL;
  fclose(file);
  char *end = text;
  int64_t value = ok ? strtoll(text, &end, 10) : -1;
  *unit = *end;
  return end == text ? -1 : value;
}

static int64_t read_size(const char *path) {
  char unit = 0;
  int64_t size = read_number(path, &unit);
  return size <= 0 ? 0 : unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size;
}

// How many CPUs a list like "0-3,8" names.
static int64_t count_listed(const char *path) {
  char text[512] = "";
  FILE *file = fopen(path, "r");
  if (!file)
    return 0;
  if (!fgets(text, sizeof text, file))
    text[0] = 0;
  fclose(file);
  int64_t n = 0;
  for (char *at = text, *end; *at >= '0' && *at <= '9'; at = end + (*end == ',')) {
    int64_t first = strtoll(at, &end, 10), last = first;
    if (*end == '-')
      last = strtoll(end + 1, &end, 10);
    n += last - first + 1;
  }
  return n;
}

#define CPU0 "/sys/devices/system/cpu/cpu0/"

static void probe_caches(HlTarget *t) {
  for (int k = 0; k < 8; k++) {
    char path[128], unit;
    snprintf(path, sizeof path, CPU0 "cache/index%d/level", k);
    int64_t level = read_number(path, &unit);
    snprintf(path, sizeof path, CPU0 "cache/index%d/size", k);
    int64_t bytes = read_size(path);
    snprintf(path, sizeof path, CPU0 "cache/index%d/shared_cpu_list", k);
    int64_t cores = count_listed(path);
    if (bytes == 0)
      continue;
    if (level == 1)  // the last of two is kept: data and instructions have equal ones
      t->l1_bytes = bytes, t->l1_cores = cores;
    else if (level == 2)
      t->l2_bytes = bytes, t->l2_cores = cores;
    else if (level == 3)
      t->l3_bytes = bytes, t->l3_cores = cores;
  }
}

// --- What the processor says -------------------------------------------------------------------------

#if defined(__x86_64__)
static void probe_processor(HlTarget *t, char *name) {
  unsigned a, b, c, d;
  int bytes = 16;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    bytes = b >> 16 & 1 ? 64 : b >> 5 & 1 ? 32 : 16;
    t->architecture = bytes == 64 ? "x86-64-v4" : bytes == 32 ? "x86-64-v3" : "x86-64";
    if (d >> 22 & 1)  // AMX, bf16
      t->computes |= HL_DTYPE_BIT(HL_BF16);
    t->matrix_edge = d >> 24 & 1 ? 16 : 0;
  }
  t->vector_bytes = bytes;
  t->vector_registers = bytes == 64 ? 32 : 16;
  t->lanes = 2 * bytes / 4;  // two units
  for (unsigned leaf = 0; leaf < 3; leaf++)
    if (__get_cpuid(0x80000002 + leaf, &a, &b, &c, &d)) {
      const unsigned words[] = {a, b, c, d};
      memcpy(name + 16 * leaf, words, sizeof words);
    }
  if (__get_cpuid(0x16, &a, &b, &c, &d) && (b & 0xffff) > 0)
    t->clock = (b & 0xffff) * 1e6;
}
#else
static void probe_processor(HlTarget *t, char *name) {
}
#endif

static void probe_clock(HlTarget *t) {
  char unit;
  int64_t khz = read_number(CPU0 "cpufreq/cpuinfo_max_freq", &unit);
  if (khz > 0)
    t->clock = (double)khz * 1e3;
}

static void set_peaks(HlTarget *t) {
  double f32 = 2 * (double)t->cores * (double)t->lanes * t->clock;
  t->vector = (HlRates){
      {[HL_F32] = f32, [HL_F64] = f32 / 2, [HL_S32] = f32 / 2, [HL_S16] = f32, [HL_S8] = 2 * f32}};
  // A tile of 16 rows of 64 bytes by another: 16 x 16 x 32 products of bf16 in 16 cycles.
  if (t->matrix_edge > 0)
    t->matrix = (HlRates){{[HL_BF16] = 1024 * (double)t->cores * t->clock,
                           [HL_S8] = 2048 * (double)t->cores * t->clock,
                           [HL_U8] = 2048 * (double)t->cores * t->clock}};
}

const HlTarget *hl_target_native(HlArena *arena) {
  HlTarget *t = HL_NEW(arena, HlTarget);
  *t = *hl_target_find("cpu");
  char name[49] = "";
  probe_processor(t, name);
  probe_clock(t);
  probe_caches(t);
  int64_t threads = sysconf(_SC_NPROCESSORS_ONLN);
  int64_t siblings = count_listed(CPU0 "topology/thread_siblings_list");
  t->threads = threads > 0 ? threads : 1;
  t->cores = siblings > 0 && siblings <= t->threads ? t->threads / siblings : t->threads;
  t->memory_bytes = base_machine_memory();
  const char *at = name + strspn(name, " ");
  t->name = "native";
  t->device = *at ? hl_arena_strndup(arena, at, strlen(at)) : "this CPU";
  set_peaks(t);
  return t;
}
