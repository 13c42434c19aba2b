// cpu/dot/onednn.c: the kind of kernel that has oneDNN make products of bf16 and of bytes, on processors with AMX.
//
// AMX multiplies tiles of these types several times as fast as the vectors that our own tiles are made of. The library is opened
// when the first such product is met; where there is none, or it fails, our own kernel makes the product. What is declared here
// of its interface is that of its version 3 (oneapi.io, oneDNN developer guide, "Matrix Multiplication").
//
// It is called for pieces of a fixed number of rows, one of our threads each, and uses no threads of its own: what comes out does
// not depend on how many there are.

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cpu/dot/dot.h"

// --- The library ----------------------------------------------------------------------------------

enum { SUCCESS = 0, ENGINE_CPU = 1, STREAM_IN_ORDER = 1, MOST_DIMS = 12 };
enum { ARG_SOURCE = 1, ARG_TO = 17, ARG_WEIGHTS = 33 };
enum { TYPE_BF16 = 2, TYPE_F32 = 3, TYPE_S32 = 4, TYPE_S8 = 5, TYPE_U8 = 6 };
enum { VERSION = 3, RUNTIME_SEQUENTIAL = 1, RUNTIME_OPENMP = 2 };

typedef struct Version {
  int major, minor, patch;
  const char *hash;
  unsigned cpu_runtime, gpu_runtime;
} Version;

typedef struct Arg {
  int arg;
  void *memory;
} Arg;

typedef struct OneDnn {
  const Version *(*version)(void);
  int (*engine_create)(void **engine, int kind, size_t index);
  int (*engine_destroy)(void *engine);
  int (*stream_create)(void **stream, void *engine, unsigned flags);
  int (*stream_wait)(void *stream);
  int (*stream_destroy)(void *stream);
  int (*desc_create)(void **desc, int n, const int64_t *dims, int type, const int64_t *strides);
  int (*desc_destroy)(void *desc);
  int (*matmul)(void **desc, void *engine, const void *a, const void *b, const void *bias,
                const void *c, const void *attr);
  int (*matmul_destroy)(void *desc);
  int (*primitive_create)(void **primitive, const void *desc);
  int (*primitive_destroy)(void *primitive);
  int (*execute)(const void *primitive, void *stream, int n, const Arg *args);
  int (*memory_create)(void **memory, const void *desc, void *engine, void *at);
  int (*memory_destroy)(void *memory);
  void (*use_threads)(int n);  // of OpenMP, by the calling thread; NULL: the library has none
} OneDnn;

static const struct {
  size_t at;
  const char *name;
} symbols[] = {
    {offsetof(OneDnn, version), "dnnl_version"},
    {offsetof(OneDnn, engine_create), "dnnl_engine_create"},
    {offsetof(OneDnn, engine_destroy), "dnnl_engine_destroy"},
    {offsetof(OneDnn, stream_create), "dnnl_stream_create"},
    {offsetof(OneDnn, stream_wait), "dnnl_stream_wait"},
    {offsetof(OneDnn, stream_destroy), "dnnl_stream_destroy"},
    {offsetof(OneDnn, desc_create), "dnnl_memory_desc_create_with_strides"},
    {offsetof(OneDnn, desc_destroy), "dnnl_memory_desc_destroy"},
    {offsetof(OneDnn, matmul), "dnnl_matmul_primitive_desc_create"},
    {offsetof(OneDnn, matmul_destroy), "dnnl_primitive_desc_destroy"},
    {offsetof(OneDnn, primitive_create), "dnnl_primitive_create"},
    {offsetof(OneDnn, primitive_destroy), "dnnl_primitive_destroy"},
    {offsetof(OneDnn, execute), "dnnl_primitive_execute"},
    {offsetof(OneDnn, memory_create), "dnnl_memory_create"},
    {offsetof(OneDnn, memory_destroy), "dnnl_memory_destroy"},
};

// The reason why it is of no use, or NULL. It stays mapped.
static const char *open_library(const char *file, OneDnn *out) {
  void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    return "it cannot be opened";
  const char *why = NULL;
  for (int k = 0; k < HL_COUNT_OF(symbols) && !why; k++) {
    void *found = dlsym(library, symbols[k].name);
    memcpy((char *)out + symbols[k].at, &found, sizeof found);
    why = found ? NULL : "it lacks what version 3 of oneDNN has";
  }
  void *threads = dlsym(library, "omp_set_num_threads");
  memcpy(&out->use_threads, &threads, sizeof threads);
  dlclose(library);
  if (why)
    return why;
  const Version *version = out->version();
  if (version->major != VERSION)
    return "it is not version 3 of oneDNN";
  if (version->cpu_runtime != RUNTIME_SEQUENTIAL &&
      (version->cpu_runtime != RUNTIME_OPENMP || !threads))
    return "its threads cannot be kept from running beside ours";
  return NULL;
}

static bool has_amx(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d = 0;
  const unsigned tile = 1u << 24, bf16 = 1u << 22, bytes = 1u << 25;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & tile) && (d & bf16) && (d & bytes);
#else
  return false;
#endif
}

// --- Products -------------------------------------------------------------------------------------

enum { ROWS = 256 };       // of a piece
#define LEAST 0x1p24       // multiply-adds: below that what is around them costs more
enum { LEAST_SIZE = 32 };  // of each index

typedef struct Kernel {
  CpuKernel kernel;
  const OneDnn *lib;
  CpuKernel *own;  // makes the product where the library fails
  DotLoop batch, m, n, k;
  int type[3];
  int64_t bytes[3];  // of an element
  int buffer[3];
} Kernel;

extern const CpuKernelKind cpu_kind_onednn;

static int type_of(HlDtype dtype) {
  switch (dtype) {
  case HL_BF16: return TYPE_BF16;
  case HL_F32: return TYPE_F32;
  case HL_S32: return TYPE_S32;
  case HL_S8: return TYPE_S8;
  case HL_U8: return TYPE_U8;
  default: return 0;
  }
}

static bool has_types(const HlDtype *dtype) {
  if (dtype[DOT_A] == HL_BF16 && dtype[DOT_B] == HL_BF16)
    return dtype[DOT_C] == HL_BF16 || dtype[DOT_C] == HL_F32;
  return (dtype[DOT_A] == HL_S8 || dtype[DOT_A] == HL_U8) && dtype[DOT_B] == HL_S8 &&
         dtype[DOT_C] == HL_S32;
}

// The loops as one, where each steps as far as all turns of the next; false: they do not.
static bool as_one(const DotLoops *loops, DotLoop *out) {
  *out = (DotLoop){.size = 1};
  for (int i = loops->n - 1; i >= 0; i--) {
    const DotLoop *outer = &loops->at[i];
    if (outer->size == 1)
      continue;
    for (int a = 0; a < 3 && out->size > 1; a++)
      if (outer->stride[a] != out->stride[a] * out->size)
        return false;
    if (out->size == 1)
      memcpy(out->stride, outer->stride, sizeof out->stride);
    out->size *= outer->size;
  }
  return true;
}

// What a piece is computed with; NULL: not made.
typedef struct Piece {
  void *engine, *stream, *desc[3], *matmul, *primitive, *memory[3];
} Piece;

static void *desc_of(const Kernel *k, DotArray array, int64_t rows) {
  const DotLoop *row = array == DOT_B ? &k->k : &k->m, *column = array == DOT_A ? &k->k : &k->n;
  const int64_t dims[MOST_DIMS] = {array == DOT_B ? k->k.size : rows, column->size};
  const int64_t strides[MOST_DIMS] = {row->stride[array], column->stride[array]};
  void *desc = NULL;
  return k->lib->desc_create(&desc, 2, dims, k->type[array], strides) == SUCCESS ? desc : NULL;
}

static bool prepare(const Kernel *k, int64_t rows, Piece *p) {
  const OneDnn *lib = k->lib;
  if (lib->use_threads)
    lib->use_threads(1);
  if (lib->engine_create(&p->engine, ENGINE_CPU, 0) != SUCCESS)
    return false;
  for (int a = 0; a < 3; a++)
    if (!(p->desc[a] = desc_of(k, (DotArray)a, rows)))
      return false;
  return lib->matmul(&p->matmul, p->engine, p->desc[DOT_A], p->desc[DOT_B], NULL, p->desc[DOT_C],
                     NULL) == SUCCESS &&
         lib->primitive_create(&p->primitive, p->matmul) == SUCCESS;
}

static bool compute(const Kernel *k, Piece *p, char *const at[3]) {
  static const int arg[3] = {ARG_SOURCE, ARG_WEIGHTS, ARG_TO};
  const OneDnn *lib = k->lib;
  Arg args[3];
  if (lib->stream_create(&p->stream, p->engine, STREAM_IN_ORDER) != SUCCESS)
    return false;
  for (int a = 0; a < 3; a++) {
    if (lib->memory_create(&p->memory[a], p->desc[a], p->engine, at[a]) != SUCCESS)
      return false;
    args[a] = (Arg){arg[a], p->memory[a]};
  }
  return lib->execute(p->primitive, p->stream, 3, args) == SUCCESS &&
         lib->stream_wait(p->stream) == SUCCESS;
}

static void let_go(int (*destroy)(void *thing), void *thing) {
  if (thing)
    destroy(thing);
}

static void clear(const OneDnn *lib, Piece *p) {
  for (int a = 0; a < 3; a++) {
    let_go(lib->memory_destroy, p->memory[a]);
    let_go(lib->desc_destroy, p->desc[a]);
  }
  let_go(lib->primitive_destroy, p->primitive);
  let_go(lib->matmul_destroy, p->matmul);
  let_go(lib->stream_destroy, p->stream);
  let_go(lib->engine_destroy, p->engine);
}

// --- The kernel -----------------------------------------------------------------------------------

// Whether the library takes a piece of so many rows.
static bool takes(const Kernel *k, int64_t rows) {
  Piece piece = {0};
  const bool ok = rows == 0 || prepare(k, rows, &piece);
  clear(k->lib, &piece);
  return ok;
}

static bool is_worth_it(const Kernel *k) {
  return k->m.size >= LEAST_SIZE && k->n.size >= LEAST_SIZE && k->k.size >= LEAST_SIZE &&
         (double)k->m.size * (double)k->n.size * (double)k->k.size >= LEAST;
}

// NULL: it is not asked for, or there is none; an error where it was asked for by name.
static const OneDnn *library_of(CpuMaker *maker, const HlInst *inst) {
  const char *asked = maker->onednn ? maker->onednn : "auto";
  const bool is_auto = strcmp(asked, "auto") == 0;
  if (maker->has_looked || strcmp(asked, "off") == 0 || (is_auto && !has_amx()))
    return maker->opened;
  OneDnn *lib = HL_NEW(maker->arena, OneDnn);
  const char *file = is_auto || strcmp(asked, "on") == 0 ? "libdnnl.so.3" : asked,
             *why = open_library(file, lib);
  maker->has_looked = true;
  maker->opened = why ? NULL : lib;
  if (why && !is_auto) {
    hl_error_kind(maker->cx, HL_UNSUPPORTED, hl_pos(inst), "oneDNN is asked for, but %s: %s", file,
                  why);
    hl_hint(maker->cx,
            "--onednn=FILE names the library; --onednn=auto does without where there is none");
  }
  return maker->opened;
}

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  Kernel *k = HL_NEW(maker->arena, Kernel);
  DotProduct product;
  if (!dot_describe(maker, inst, &product, k->buffer) || !has_types(product.dtype) ||
      !as_one(&product.index[DOT_BATCH], &k->batch) || !as_one(&product.index[DOT_M], &k->m) ||
      !as_one(&product.index[DOT_N], &k->n) || !as_one(&product.index[DOT_K], &k->k) ||
      !is_worth_it(k))
    return NULL;
  k->lib = library_of(maker, inst);
  if (!k->lib)
    return NULL;
  for (int a = 0; a < 3; a++) {
    k->type[a] = type_of(product.dtype[a]);
    k->bytes[a] = hl_dtype_bytes(product.dtype[a]);
  }
  if (!takes(k, k->m.size < ROWS ? 0 : ROWS) || !takes(k, k->m.size % ROWS))
    return NULL;
  CpuMaker of_own = *maker;  // which hardly ever runs: nothing is held for it
  of_own.is_fixed = NULL;
  k->own = dot_kernel(&of_own, inst, inst->shape);
  if (!k->own)
    return NULL;
  k->kernel = (CpuKernel){
      .kind = &cpu_kind_onednn, .n_buffers = k->own->n_buffers, .seconds = k->own->seconds};
  return &k->kernel;
}

typedef struct Run {
  const Kernel *kernel;
  char *at[3];
  int64_t pieces;  // of a batch
  atomic_bool failed;
} Run;

static bool run_piece(void *user, int64_t chunk, CpuMember *member) {
  Run *run = user;
  const Kernel *k = run->kernel;
  const int64_t batch = chunk / run->pieces, first = chunk % run->pieces * ROWS,
                left = k->m.size - first;
  char *at[3];
  for (int a = 0; a < 3; a++)
    at[a] = run->at[a] + (batch * k->batch.stride[a] + first * k->m.stride[a]) * k->bytes[a];
  Piece piece = {0};
  const bool ok = prepare(k, left < ROWS ? left : ROWS, &piece) && compute(k, &piece, at);
  clear(k->lib, &piece);
  if (!ok)
    run->failed = true;
  return ok;
}

static bool run(const CpuKernel *base, CpuTeam *team, void *const *buffer, const char **why) {
  const Kernel *k = (const Kernel *)base;
  Run run = {.kernel = k, .pieces = (k->m.size + ROWS - 1) / ROWS};
  for (int a = 0; a < 3; a++)
    run.at[a] = buffer[k->buffer[a]];
  return cpu_parallel(team, k->batch.size * run.pieces, base->seconds, run_piece, &run) ||
         (run.failed && k->own->kind->run(k->own, team, buffer, why));
}

static void print(HlBuf *out, const CpuKernel *base) {
  const Kernel *k = (const Kernel *)base;
  const Version *version = k->lib->version();
  hl_buf_printf(out, "oneDNN %d.%d.%d, %lld rows at a time\n", version->major, version->minor,
                version->patch, (long long)(k->m.size < ROWS ? k->m.size : ROWS));
}

const CpuKernelKind cpu_kind_onednn = {"onednn", make, run, print};
