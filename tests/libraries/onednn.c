// A library with the part of oneDNN's interface that Hilo uses, for tests of who calls it: products are made plainly. The
// environment's FAKE_ONEDNN says what goes wrong: "version", "matmul" (not made), "execute" (of any but the first piece).
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, FAILED = 1, MOST = 12, BF16 = 2, F32 = 3, S32 = 4, S8 = 5, U8 = 6, SOURCE = 1, TO = 17, WEIGHTS = 33 };

typedef struct Desc {
  int type;
  int64_t size[2], stride[2];
} Desc;
typedef struct Matmul {
  const Desc *a, *b, *c;
} Matmul;
typedef struct Memory {
  const Desc *desc;
  char *at;
} Memory;
typedef struct Arg {
  int arg;
  const Memory *memory;
} Arg;
typedef struct Version {
  int major, minor, patch;
  const char *hash;
  unsigned cpu_runtime, gpu_runtime;
} Version;

int fake_executed, fake_alive;  // pieces so far; things that are not destroyed

static int is_asked(const char *what) {
  const char *asked = getenv("FAKE_ONEDNN");
  return asked && strcmp(asked, what) == 0;
}

static void *keep(const void *thing, size_t size) {
  void *copy = malloc(size);
  memcpy(copy, thing, size);
  __atomic_add_fetch(&fake_alive, 1, __ATOMIC_RELAXED);
  return copy;
}

static int destroy(void *thing) {
  free(thing);
  __atomic_sub_fetch(&fake_alive, 1, __ATOMIC_RELAXED);
  return SUCCESS;
}

const Version *dnnl_version(void) {
  static const Version now = {3, 0, 0, "", 1, 0}, old = {2, 6, 0, "", 1, 0};
  return is_asked("version") ? &old : &now;
}

int dnnl_engine_create(void **engine, int kind, size_t index) {
  *engine = keep(&kind, sizeof kind);
  return SUCCESS;
}
int dnnl_engine_destroy(void *engine) { return destroy(engine); }
int dnnl_stream_create(void **stream, void *engine, unsigned flags) {
  *stream = keep(&flags, sizeof flags);
  return SUCCESS;
}
int dnnl_stream_wait(void *stream) { return SUCCESS; }
int dnnl_stream_destroy(void *stream) { return destroy(stream); }

int dnnl_memory_desc_create_with_strides(void **desc, int n, const int64_t *size, int type, const int64_t *stride) {
  *desc = keep(&(Desc){type, {size[0], size[1]}, {stride[0], stride[1]}}, sizeof(Desc));
  return n == 2 ? SUCCESS : FAILED;
}
int dnnl_memory_desc_destroy(void *desc) { return destroy(desc); }

int dnnl_matmul_primitive_desc_create(void **out, void *engine, const void *a, const void *b, const void *bias, const void *c,
                                      const void *attr) {
  if (is_asked("matmul"))
    return FAILED;
  *out = keep(&(Matmul){a, b, c}, sizeof(Matmul));
  return SUCCESS;
}
int dnnl_primitive_desc_destroy(void *desc) { return destroy(desc); }
int dnnl_primitive_create(void **primitive, const void *desc) {
  *primitive = keep(desc, sizeof(Matmul));
  return SUCCESS;
}
int dnnl_primitive_destroy(void *primitive) { return destroy(primitive); }

int dnnl_memory_create(void **memory, const void *desc, void *engine, void *at) {
  *memory = keep(&(Memory){desc, at}, sizeof(Memory));
  return SUCCESS;
}
int dnnl_memory_destroy(void *memory) { return destroy(memory); }

static double element(const Desc *d, const char *at, int64_t i, int64_t j) {
  const int64_t k = i * d->stride[0] + j * d->stride[1];
  uint32_t bits;
  float value;
  switch (d->type) {
  case BF16: bits = (uint32_t)((const uint16_t *)(const void *)at)[k] << 16; break;
  case S8: return ((const int8_t *)at)[k];
  default: return ((const uint8_t *)at)[k];
  }
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void store(const Desc *d, char *at, int64_t i, int64_t j, double value) {
  const int64_t k = i * d->stride[0] + j * d->stride[1];
  const float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  if (d->type == F32)
    ((float *)(void *)at)[k] = narrow;
  else if (d->type == S32)
    ((int32_t *)(void *)at)[k] = (int32_t)value;
  else
    ((uint16_t *)(void *)at)[k] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

int dnnl_primitive_execute(const void *primitive, void *stream, int n, const Arg *args) {
  const Memory *a = NULL, *b = NULL, *c = NULL;
  for (int k = 0; k < n; k++)
    *(args[k].arg == SOURCE ? &a : args[k].arg == WEIGHTS ? &b : &c) = args[k].memory;
  if (__atomic_add_fetch(&fake_executed, 1, __ATOMIC_RELAXED) > 1 && is_asked("execute"))
    return FAILED;
  for (int64_t i = 0; i < c->desc->size[0]; i++)
    for (int64_t j = 0; j < c->desc->size[1]; j++) {
      double sum = 0;
      for (int64_t k = 0; k < a->desc->size[1]; k++)
        sum += element(a->desc, a->at, i, k) * element(b->desc, b->at, k, j);
      store(c->desc, c->at, i, j, sum);
    }
  return SUCCESS;
}
