// pass/tuning.c: the autotuner's choices: files of them, the keys of kernels, and choices as configs.

#include "pass/tuning.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/fingerprint.h"
#include "base/map.h"
#include "hilo/text.h"
#include "proto/message.h"
#include "text/print.h"

// Unpacked messages, in the arena.
typedef struct Choice {
  const char *device, *kernel,
      *name;                        // name: of the kernel's instruction; NULL: it came from a file
  bool is_text;                     // both are words; else fingerprints
  const char *compilers, *version;  // what might have compiled it, and what did; NULL: not said
  XlaTuning__Backend by;
  const XlaTuning__BackendConfig *config;
  const struct Choice *before;
} Choice;

struct HlTuning {
  HlArena *arena;
  const Choice *last;
  int n, n_texts;
  Map of_kernel;  // by a hash of the kernel's key
};

HlTuning *hl_tuning_new(void) {
  HlArena *arena = hl_arena_new();
  HlTuning *tuning = HL_NEW(arena, HlTuning);
  tuning->arena = arena;
  tuning->of_kernel.arena = arena;
  return tuning;
}

void hl_tuning_free(HlTuning *tuning) {
  if (tuning)
    hl_arena_free(tuning->arena);
}

int hl_tuning_count(const HlTuning *tuning) {
  return tuning->n;
}

bool hl_tuning_is_text(const char *path) {
  static const char *const ends[] = {".txt", ".txtpb", ".textproto", ".prototxt", ".pbtxt"};
  const size_t n = strlen(path);
  for (int k = 0; k < HL_COUNT_OF(ends); k++)
    if (n >= strlen(ends[k]) && strcmp(path + n - strlen(ends[k]), ends[k]) == 0)
      return true;
  return false;
}

const char *tuning_backend(XlaTuning__Backend by) {
  const ProtobufCEnumValue *value =
      protobuf_c_enum_descriptor_get_value(&xla_tuning__backend__descriptor, (int)by);
  return value ? value->name : "a backend that is not known";
}

// --- Keys -----------------------------------------------------------------------------------------

static const char *device_words(HlArena *arena, const HlTarget *t) {
  HlBuf out = {0};
  if (t->capability > 0)
    hl_buf_printf(&out, "CUDA: %" PRId64 ".%" PRId64, t->capability / 10, t->capability % 10);
  else
    hl_buf_printf(&out, "ROCM: %s", t->architecture);
  hl_buf_printf(
      &out, ", Cores: %" PRId64 ", GPU clock: %g GHz, Memory bandwidth: %g GB/s, L2 cache: %g MB",
      t->cores, t->clock / 1e9, round(t->memory_bandwidth / 1e9), (double)t->l2_bytes / (1 << 20));
  const char *text = hl_arena_strndup(arena, out.at, out.n);
  hl_buf_free(&out);
  return text;
}

static const char *device_print(HlArena *arena, const HlTarget *t) {
  const char *words = device_words(arena, t);
  return hl_arena_printf(arena, "%016" PRIx64, base_fingerprint64((HlStr){words, strlen(words)}));
}

// Its config with all that XLA writes of where and when something runs, also where that is as usual.
static const char *whole_config(HlArena *arena, const HlInst *kernel) {
  HlQueueConfig queue = hl_queue_config(arena, kernel);
  queue.queue = queue.queue.given ? queue.queue : (HlMaybeInt){true, 0};
  queue.earliest = queue.earliest == HL_USUAL ? HL_OFF : queue.earliest;
  queue.device = queue.device == HL_DEVICE_NONE ? HL_DEVICE_INVALID : queue.device;
  queue.costs = queue.costs.at ? queue.costs : (HlStr){"[]", 2};
  return hl_queue_config_text(arena, kernel->comp->module->dialect,
                              hl_attr_text(kernel, HL_A_BACKEND_CONFIG), &queue);
}

// The config is the last thing that an instruction's text says.
static void put_whole_config(HlCx *cx, HlArena *arena, const HlInst *kernel, HlBuf *text) {
  static const char begin[] = ", backend_config=";
  const char *config = whole_config(arena, kernel), *own = NULL;
  for (char *at = text->at; (at = strstr(at, begin)); at++)
    own = at;
  if (!own)
    return;
  HlBuf whole = {0};
  if (print_sorted_json(cx, (HlStr){config, strlen(config)}, &whole)) {
    text->n = (size_t)(own - text->at) + strlen(begin);
    hl_buf_add(text, whole.at, whole.n);
  }
  hl_buf_free(&whole);
}

static const char *kernel_print(HlCx *cx, HlArena *arena, const HlInst *kernel) {
  const HlTextOptions how = {.preset = HL_TEXT_FINGERPRINT,
                             .backend_config = HL_ON,
                             .sorted_configs = HL_ON,
                             .operand_shapes = HL_ON};
  HlBuf text = {0};
  hl_text_print_inst(cx, kernel, &how, &text);
  if (hl_attr(kernel, HL_A_BACKEND_CONFIG))
    put_whole_config(cx, arena, kernel, &text);
  const HlFingerprint print = base_fingerprint128((HlStr){text.at, text.n});
  hl_buf_free(&text);
  return hl_arena_printf(arena, "%016" PRIx64 "%016" PRIx64, print.high, print.low);
}

// Of a fusion its body, of all else itself.
static const char *kernel_words(HlCx *cx, HlArena *arena, const HlInst *kernel) {
  HlTextOptions how = {.preset = HL_TEXT_CANONICAL};
  HlBuf text = {0};
  if (kernel->op == HL_OP_FUSION) {
    how.subcomputation_bodies = HL_OFF;
    how.infeed_config = HL_OFF;
    how.essential_constants = HL_ON;
    how.operand_shapes = HL_ON;
    how.print_ids = HL_OFF;
    hl_text_print_comp(cx, hl_called(kernel, 0), &how, &text);
  } else {
    how.backend_config = HL_ON;
    how.sorted_configs = HL_ON;
    hl_text_print_inst(cx, kernel, &how, &text);
  }
  const char *words = hl_arena_strndup(arena, text.at ? text.at : "", text.n);
  hl_buf_free(&text);
  return words;
}

// The words of a device may go on: with the version of cuDNN.
static bool is_device(const Choice *choice, const char *words, const char *print) {
  return choice->is_text ? strncmp(choice->device, words, strlen(words)) == 0
                         : strcmp(choice->device, print) == 0;
}

bool tuning_fits(const HlTuning *tuning, HlArena *arena, const HlTarget *target) {
  const char *words = device_words(arena, target), *print = device_print(arena, target);
  for (const Choice *c = tuning->last; c; c = c->before)
    if (is_device(c, words, print))
      return true;
  return tuning->n == 0;
}

// --- Versions -------------------------------------------------------------------------------------

// XLA takes a choice that was made for the compilers it has itself, or for the version of the chosen one.

enum { TRITON_EMITTERS = 1, LIBRARY_CUDNN, LIBRARY_CUBLAS, OWN_EMITTERS };

// By number, those that XLA 0.11 has for GPUs of NVIDIA.
static const struct {
  XlaTuning__Backend by;
  int whose;
} compilers[] = {
    {XLA_TUNING__BACKEND__CUDNN, LIBRARY_CUDNN},
    {XLA_TUNING__BACKEND__TRITON, TRITON_EMITTERS},
    {XLA_TUNING__BACKEND__CUBLASLT, LIBRARY_CUBLAS},
    {XLA_TUNING__BACKEND__BLOCK_LEVEL_EMITTER, TRITON_EMITTERS},
    {XLA_TUNING__BACKEND__NATIVE_EMITTER, OWN_EMITTERS},
    {XLA_TUNING__BACKEND__CUBLASLT_FISSION, LIBRARY_CUBLAS},
};

static const char *library_version(HlArena *arena, int64_t number) {
  return hl_arena_printf(arena, "%" PRId64 ".%" PRId64 ".%" PRId64, number / 10000,
                         number / 100 % 100, number % 100);
}

static const char *version_of(HlArena *arena, const HlTarget *t, int whose) {
  switch (whose) {
  case LIBRARY_CUDNN: return library_version(arena, t->dnn_version);
  case LIBRARY_CUBLAS: return library_version(arena, t->runtime_version);
  case OWN_EMITTERS: return "v1";
  default: return "a77e7c793abc0d0c923a9afb275058e2fe57a198";  // Triton's in XLA 0.11
  }
}

// NULL: not known for this device.
static const char *compilers_print(HlArena *arena, const HlTarget *t) {
  if (t->dnn_version == 0 || t->runtime_version == 0)
    return NULL;
  HlBuf words = {0};
  for (int k = 0; k < HL_COUNT_OF(compilers); k++)
    hl_buf_printf(&words, "%s%s:%s", k ? "," : "", tuning_backend(compilers[k].by),
                  version_of(arena, t, compilers[k].whose));
  const uint64_t print = base_fingerprint64((HlStr){words.at, words.n});
  hl_buf_free(&words);
  return hl_arena_printf(arena, "%016" PRIx64, print);
}

static void note_versions(HlArena *arena, const HlTarget *t, Choice *choice) {
  choice->compilers = compilers_print(arena, t);
  choice->version = NULL;
  for (int k = 0; choice->compilers && k < HL_COUNT_OF(compilers); k++)
    if (compilers[k].by == choice->by)
      choice->version = version_of(arena, t, compilers[k].whose);
}

// --- Choices as configs ---------------------------------------------------------------------------

static HlFusionConfig product_sizes(const XlaTuning__TritonGemmKey *key) {
  return (HlFusionConfig){.kind = HL_FUSION_TRITON_GEMM,
                          .gemm = true,
                          .block_m = key->block_m,
                          .block_n = key->block_n,
                          .block_k = key->block_k,
                          .split_k = key->split_k,
                          .gemm_stages = key->num_stages,
                          .gemm_warps = key->num_warps,
                          .gemm_ctas = key->num_ctas,
                          .gemm_tma = key->is_tma_allowed,
                          .gemm_roles = key->is_warp_specialization_allowed,
                          .gemm_group = {key->group_size != 0, key->group_size}};
}

static HlFusionConfig tiles(HlArena *arena, const XlaTuning__BlockLevelFusionConfig *level) {
  HlFusionConfig config = {.kind = HL_FUSION_TRITON,
                           .tiled = true,
                           .warps = level->num_warps,
                           .ctas = level->num_ctas,
                           .stages = level->num_stages,
                           .tma = level->is_tma_allowed,
                           .roles = level->is_warp_specialization_allowed};
  int64_t *sizes = HL_ARRAY(arena, int64_t, 1);
  int n = 0;
  if (level->n_output_tiles > 0) {
    n = (int)level->output_tiles[0]->n_sizes;
    sizes = HL_ARRAY(arena, int64_t, n + 1);
    for (int k = 0; k < n; k++)
      sizes[k] = level->output_tiles[0]->sizes[k];
  }
  config.tile = (HlI64s){sizes, n};
  return config;
}

static HlConvConfig algorithm(HlArena *arena, const XlaTuning__AlgorithmProto *from) {
  HlBuf knobs = {0};
  hl_buf_putc(&knobs, '{');
  for (size_t k = 0; k < from->n_tuning_knobs; k++)
    hl_buf_printf(&knobs, "%s\"%" PRId64 "\":\"%" PRId64 "\"", k ? "," : "",
                  from->tuning_knobs[k]->key, from->tuning_knobs[k]->value);
  hl_buf_putc(&knobs, '}');
  HlConvConfig config = {.chosen = true,
                         .algorithm = from->algo_id,
                         .math = from->math_type ==
                                         XLA_TUNING__ALGORITHM_PROTO__MATH_TYPE__TENSOR_OP_MATH
                                     ? HL_MATH_TENSOR
                                     : HL_MATH_DEFAULT,
                         .knobs = {hl_arena_strndup(arena, knobs.at, knobs.n), knobs.n},
                         .by_graph = from->is_cudnn_frontend,
                         .room = {from->workspace_size != NULL,
                                  from->workspace_size ? (int64_t)from->workspace_size->value : 0}};
  hl_buf_free(&knobs);
  return config;
}

static HlGemmConfig product(const XlaTuning__GemmKey *key) {
  return (HlGemmConfig){.chosen = {true, key->algorithm},
                        .room = {true, key->autotune_workspace_size}};
}

static bool read_config(HlArena *arena, const Choice *choice, Tuned *out) {
  const XlaTuning__BackendConfig *c = choice->config;
  *out = (Tuned){.by = choice->by};
  switch (choice->by) {
  case XLA_TUNING__BACKEND__TRITON:
    if (c && c->triton)
      out->fusion = product_sizes(c->triton);
    return c && c->triton;
  case XLA_TUNING__BACKEND__BLOCK_LEVEL_EMITTER:
    if (c && c->block_level)
      out->fusion = tiles(arena, c->block_level);
    return c && c->block_level;
  case XLA_TUNING__BACKEND__NATIVE_EMITTER:
    out->native = (HlNativeConfig){
        .known = true,
        .type = c && c->native_emitter ? HL_NATIVE_INVALID + (int)c->native_emitter->type
                                       : HL_NATIVE_INVALID,
        .unroll = c && c->native_emitter ? c->native_emitter->unroll_factor : 0};
    return true;
  case XLA_TUNING__BACKEND__CUDNN:
    if (c && c->algorithm)
      out->conv = algorithm(arena, c->algorithm);
    return c && c->algorithm;
  case XLA_TUNING__BACKEND__CUBLASLT:
    if (c && c->gemm)
      out->gemm = product(c->gemm);
    return c && c->gemm;
  case XLA_TUNING__BACKEND__CUBLASLT_FISSION:
  case XLA_TUNING__BACKEND__HIPBLASLT_FISSION:
    if (c && c->gemm)
      out->gemm = product(c->gemm);
    return true;
  default: return true;
  }
}

static uint64_t hash_of(const char *kernel) {
  return base_fingerprint64((HlStr){kernel, strlen(kernel)});
}

static Choice *find(const HlTuning *tuning, bool is_text, const char *kernel, const char *words,
                    const char *print) {
  MapWalk walk = map_walk(&tuning->of_kernel, hash_of(kernel));
  for (Choice *c; (c = map_next_ptr(&walk));)
    if (c->is_text == is_text && strcmp(c->kernel, kernel) == 0 && is_device(c, words, print))
      return c;
  return NULL;
}

bool tuning_find(HlCx *cx, const HlTuning *tuning, HlArena *arena, const HlTarget *target,
                 const HlInst *kernel, Tuned *out) {
  if (!tuning || tuning->n == 0)
    return false;
  const char *words = device_words(arena, target), *print = device_print(arena, target);
  const Choice *choice = NULL;
  if (tuning->n > tuning->n_texts)
    choice = find(tuning, false, kernel_print(cx, arena, kernel), words, print);
  if (!choice && tuning->n_texts > 0)
    choice = find(tuning, true, kernel_words(cx, arena, kernel), words, print);
  return choice && read_config(arena, choice, out);
}

// --- Configs as choices ---------------------------------------------------------------------------

#define MESSAGE(arena, Type, type, name) \
  Type *name = HL_NEW(arena, Type);      \
  type##__init(name)

static void write_product(HlArena *arena, const HlFusionConfig *from,
                          XlaTuning__BackendConfig *to) {
  MESSAGE(arena, XlaTuning__TritonGemmKey, xla_tuning__triton_gemm_key, key);
  key->block_m = from->block_m;
  key->block_n = from->block_n;
  key->block_k = from->block_k;
  key->split_k = from->split_k;
  key->num_stages = from->gemm_stages;
  key->num_warps = from->gemm_warps;
  key->num_ctas = from->gemm_ctas;
  key->is_tma_allowed = from->gemm_tma;
  key->is_warp_specialization_allowed = from->gemm_roles;
  key->group_size = from->gemm_group.value;
  to->triton = key;
}

static void write_tiles(HlArena *arena, const HlFusionConfig *from, XlaTuning__BackendConfig *to) {
  MESSAGE(arena, XlaTuning__BlockLevelFusionConfig, xla_tuning__block_level_fusion_config, level);
  MESSAGE(arena, XlaTuning__TileSizes, xla_tuning__tile_sizes, tile);
  tile->n_sizes = (size_t)from->tile.n;
  tile->sizes = hl_arena_copy(arena, from->tile.at, sizeof(int64_t) * (size_t)from->tile.n);
  level->n_output_tiles = 1;
  level->output_tiles = HL_NEW(arena, XlaTuning__TileSizes *);
  level->output_tiles[0] = tile;
  level->num_warps = from->warps;
  level->num_ctas = (int32_t)from->ctas;
  level->num_stages = (int32_t)from->stages;
  level->is_tma_allowed = from->tma;
  level->is_warp_specialization_allowed = from->roles;
  to->block_level = level;
}

static void write_knobs(HlArena *arena, HlStr knobs, XlaTuning__AlgorithmProto *to) {
  to->tuning_knobs = HL_ARRAY(arena, XlaTuning__TuningKnobsEntry *, knobs.n / 4 + 1);
  const char *at = knobs.at, *end = knobs.at + knobs.n;
  int64_t number[2];
  for (int n = 0; at < end;) {
    if (!is_digit(*at) && *at != '-') {
      at++;
      continue;
    }
    char *rest;
    number[n++] = strtoll(at, &rest, 10);
    at = rest;
    if (n < 2)
      continue;
    MESSAGE(arena, XlaTuning__TuningKnobsEntry, xla_tuning__tuning_knobs_entry, entry);
    entry->key = number[0];
    entry->value = number[1];
    to->tuning_knobs[to->n_tuning_knobs++] = entry;
    n = 0;
  }
}

static void write_algorithm(HlArena *arena, const HlConvConfig *from,
                            XlaTuning__BackendConfig *to) {
  MESSAGE(arena, XlaTuning__AlgorithmProto, xla_tuning__algorithm_proto, algorithm);
  algorithm->algo_id = from->algorithm;
  algorithm->math_type = from->math == HL_MATH_TENSOR
                             ? XLA_TUNING__ALGORITHM_PROTO__MATH_TYPE__TENSOR_OP_MATH
                             : XLA_TUNING__ALGORITHM_PROTO__MATH_TYPE__DEFAULT_MATH;
  algorithm->is_cudnn_frontend = from->by_graph;
  write_knobs(arena, from->knobs, algorithm);
  if (from->room.given) {
    MESSAGE(arena, XlaTuning__UInt64Value, xla_tuning__uint64_value, room);
    room->value = (uint64_t)from->room.value;
    algorithm->workspace_size = room;
  }
  to->algorithm = algorithm;
}

static void write_gemm(HlArena *arena, const HlGemmConfig *from, XlaTuning__BackendConfig *to) {
  MESSAGE(arena, XlaTuning__GemmKey, xla_tuning__gemm_key, key);
  key->algorithm = from->chosen.value;
  key->autotune_workspace_size = from->room.value;
  to->gemm = key;
}

static void write_config(HlArena *arena, const Tuned *from, XlaTuning__BackendConfig *to) {
  switch (from->by) {
  case XLA_TUNING__BACKEND__TRITON: write_product(arena, &from->fusion, to); break;
  case XLA_TUNING__BACKEND__BLOCK_LEVEL_EMITTER: write_tiles(arena, &from->fusion, to); break;
  case XLA_TUNING__BACKEND__CUDNN: write_algorithm(arena, &from->conv, to); break;
  case XLA_TUNING__BACKEND__CUBLASLT:
  case XLA_TUNING__BACKEND__CUBLASLT_FISSION:
  case XLA_TUNING__BACKEND__HIPBLASLT_FISSION: write_gemm(arena, &from->gemm, to); break;
  case XLA_TUNING__BACKEND__NATIVE_EMITTER: {
    MESSAGE(arena, XlaTuning__NativeEmitterBackendConfig, xla_tuning__native_emitter_backend_config,
            native);
    native->type = (XlaTuning__NativeEmitterType)(from->native.type - HL_NATIVE_INVALID);
    native->unroll_factor = (int32_t)from->native.unroll;
    to->native_emitter = native;
    break;
  }
  default: break;
  }
}

// The choice for a kernel of a device: the one there is, or a new one.
static Choice *choice_of(HlTuning *tuning, bool is_text, const char *device, const char *kernel) {
  Choice *choice = find(tuning, is_text, kernel, device, device);
  if (choice)
    return choice;
  choice = HL_NEW(tuning->arena, Choice);
  *choice =
      (Choice){.device = device, .kernel = kernel, .is_text = is_text, .before = tuning->last};
  tuning->last = choice;
  tuning->n++;
  tuning->n_texts += is_text;
  map_add_ptr(&tuning->of_kernel, hash_of(kernel), choice);
  return choice;
}

void tuning_add(HlCx *cx, HlTuning *tuning, const HlTarget *target, const HlInst *kernel,
                const Tuned *tuned) {
  if (!tuning)
    return;
  HlArena *arena = tuning->arena;
  Choice *choice =
      choice_of(tuning, false, device_print(arena, target), kernel_print(cx, arena, kernel));
  MESSAGE(arena, XlaTuning__BackendConfig, xla_tuning__backend_config, config);
  write_config(arena, tuned, config);
  choice->name = hl_arena_strndup(arena, kernel->name->text, kernel->name->n);
  choice->by = tuned->by;
  choice->config = config;
  note_versions(arena, target, choice);
}

static const char *keep(HlArena *arena, const char *text) {
  return text ? hl_arena_strndup(arena, text, strlen(text)) : NULL;
}

static const XlaTuning__BackendConfig *keep_config(HlArena *arena,
                                                   const XlaTuning__BackendConfig *config) {
  if (!config)
    return NULL;
  HlBuf wire = {0};
  wire_put_packed(&wire, &config->base);
  const HlStr bytes = {wire.at ? wire.at : "", wire.n};
  const ProtobufCMessage *own =
      wire_unpack(NULL, NULL, arena, bytes, &xla_tuning__backend_config__descriptor);
  hl_buf_free(&wire);
  return (const XlaTuning__BackendConfig *)own;
}

// The oldest first.
static const Choice **in_order(HlArena *arena, const HlTuning *tuning) {
  const Choice **all = HL_ARRAY(arena, const Choice *, tuning->n + 1);
  int place = tuning->n;
  for (const Choice *c = tuning->last; c; c = c->before)
    all[--place] = c;
  return all;
}

void hl_tuning_join(HlTuning *tuning, const HlTuning *other) {
  HlArena *arena = tuning->arena, *scratch = hl_arena_new();
  const Choice **all = in_order(scratch, other);
  for (int k = 0; k < other->n; k++) {
    Choice *choice = choice_of(tuning, all[k]->is_text, keep(arena, all[k]->device),
                               keep(arena, all[k]->kernel));
    choice->name = keep(arena, all[k]->name);
    choice->by = all[k]->by;
    choice->config = keep_config(arena, all[k]->config);
    choice->compilers = keep(arena, all[k]->compilers);
    choice->version = keep(arena, all[k]->version);
  }
  hl_arena_free(scratch);
}

// --- Files ----------------------------------------------------------------------------------------

static const char *text_or_none(const char *text) {
  return text ? text : "";
}

// Both return how many choices there were.
static int read_cache(HlTuning *tuning, const XlaTuning__AutotuneCache *cache) {
  int n = 0;
  for (size_t k = 0; k < cache->n_entries; k++) {
    const XlaTuning__AutotuneEntry *e = cache->entries[k];
    const XlaTuning__AutotuneTargetKey *key = e->key ? e->key->target : NULL;
    const XlaTuning__Config *config = e->value ? e->value->optimal_config : NULL;
    if (!key || !config)
      continue;
    Choice *choice =
        choice_of(tuning, false, text_or_none(key->device), text_or_none(key->hlo_fingerprint));
    choice->by = config->backend;
    choice->config = config->backend_config;
    choice->compilers = e->key->environment ? e->key->environment->codegen_version : NULL;
    choice->version = e->value->optimal_backend_version;
    n++;
  }
  return n;
}

static XlaTuning__Backend backend_named(const char *name) {
  const ProtobufCEnumValue *value =
      protobuf_c_enum_descriptor_get_value_by_name(&xla_tuning__backend__descriptor, name);
  return value ? (XlaTuning__Backend)value->value : XLA_TUNING__BACKEND__UNSPECIFIED_BACKEND;
}

// The message that binary files have packed; NULL: it is of another type, or damaged.
static const ProtobufCMessage *unpack_any(HlArena *arena, const XlaTuning__AnyConfig *any,
                                          const ProtobufCMessageDescriptor *type) {
  const char *point = strrchr(text_or_none(any->type_url), '.');
  if (!point || strcmp(point + 1, type->short_name) != 0)
    return NULL;
  HlCx *cx = hl_cx_new();  // what is damaged is passed over
  const HlStr bytes = {(const char *)any->value.data, any->value.len};
  HlSource *source = hl_source_new("any", bytes.at, bytes.n, true);
  const HlStr own = hl_source_bytes(source);
  const ProtobufCMessage *out =
      wire_check(cx, source, own, type) ? wire_unpack(cx, source, arena, own, type) : NULL;
  hl_source_unref(source);
  hl_cx_free(cx);
  return out;
}

static void read_any(HlArena *arena, const XlaTuning__AnyConfig *any,
                     XlaTuning__BackendConfig *to) {
  const ProtobufCMessage *tile =
      unpack_any(arena, any, &xla_tuning__block_level_fusion_config__descriptor);
  const ProtobufCMessage *native =
      unpack_any(arena, any, &xla_tuning__native_emitter_backend_config__descriptor);
  to->block_level =
      tile ? (XlaTuning__BlockLevelFusionConfig *)(uintptr_t)tile : any->blocklevelfusionconfig;
  to->native_emitter = native ? (XlaTuning__NativeEmitterBackendConfig *)(uintptr_t)native
                              : any->nativeemitterbackendconfig;
}

// Whose choice a result was follows from what it holds; of a product from the kernel, too: a fusion, of which there is the body, was
// taken apart.
static int read_results(HlTuning *tuning, const XlaTuning__AutotuneResults *results) {
  int n = 0;
  for (size_t k = 0; k < results->n_results; k++) {
    const XlaTuning__Entry *e = results->results[k];
    const XlaTuning__AutotuneResult *r = e->result;
    if (!r || (!r->gemm && !r->triton && !r->algorithm && !r->other))
      continue;
    MESSAGE(tuning->arena, XlaTuning__BackendConfig, xla_tuning__backend_config, config);
    config->gemm = r->gemm;
    config->triton = r->triton;
    config->algorithm = r->algorithm;
    if (r->other && r->other->config)
      read_any(tuning->arena, r->other->config, config);
    Choice *choice = choice_of(tuning, true, text_or_none(e->device), text_or_none(e->hlo));
    choice->by = r->other                 ? backend_named(text_or_none(r->other->name))
                 : r->triton              ? XLA_TUNING__BACKEND__TRITON
                 : r->algorithm           ? XLA_TUNING__BACKEND__CUDNN
                 : *choice->kernel == '{' ? XLA_TUNING__BACKEND__CUBLASLT_FISSION
                                          : XLA_TUNING__BACKEND__CUBLASLT;
    choice->config = config;
    n++;
  }
  return n;
}

// Text has no control characters but blanks; a message has one among its first bytes, a tag or a length.
static bool is_binary(HlStr bytes) {
  for (size_t k = 0; k < bytes.n && k < 8; k++)
    if ((unsigned char)bytes.at[k] < ' ' && !is_space(bytes.at[k]))
      return true;
  return false;
}

// The first field: of a cache the scope of its entries or one of them, of results their version or one of them.
static bool is_cache(HlStr bytes, bool binary) {
  if (binary) {
    WireField field;
    return !wire_next(&bytes, &field) || (field.type == WIRE_BYTES && field.number <= 3);
  }
  static const char *const words[] = {"version", "results"};
  size_t at = 0;
  for (bool comment = false;
       at < bytes.n && (comment || is_space(bytes.at[at]) || bytes.at[at] == '#'); at++)
    comment = bytes.at[at] != '\n' && (comment || bytes.at[at] == '#');
  for (int k = 0; k < HL_COUNT_OF(words); k++)
    if (bytes.n - at >= strlen(words[k]) && memcmp(bytes.at + at, words[k], strlen(words[k])) == 0)
      return false;
  return true;
}

bool hl_tuning_read(HlCx *cx, HlTuning *tuning, HlSource *source) {
  HlStr bytes = hl_source_bytes(source);
  const bool binary = is_binary(bytes), cache = is_cache(bytes, binary);
  const ProtobufCMessageDescriptor *type =
      cache ? &xla_tuning__autotune_cache__descriptor : &xla_tuning__autotune_results__descriptor;
  HlBuf wire = {0};
  bool ok = binary || pbtxt_to_wire(cx, source, type, &wire);
  if (!binary)
    bytes = (HlStr){wire.at ? wire.at : "", wire.n};
  ok = ok && wire_check(cx, source, bytes, type);
  const ProtobufCMessage *message = ok ? wire_unpack(cx, source, tuning->arena, bytes, type) : NULL;
  const int n = !message ? 0
                : cache  ? read_cache(tuning, (const XlaTuning__AutotuneCache *)message)
                         : read_results(tuning, (const XlaTuning__AutotuneResults *)message);
  if (message && n == 0)
    hl_warn(cx, (HlPos){source, 1},
            "no choices of an autotuner: neither entries of an AutotuneCache nor results of "
            "AutotuneResults");
  hl_buf_free(&wire);
  return message;
}

static XlaTuning__AutotuneEntry *entry_of(HlArena *arena, const Choice *choice) {
  MESSAGE(arena, XlaTuning__AutotuneEntry, xla_tuning__autotune_entry, entry);
  MESSAGE(arena, XlaTuning__AutotuneKey, xla_tuning__autotune_key, key);
  MESSAGE(arena, XlaTuning__AutotuneTargetKey, xla_tuning__autotune_target_key, target);
  MESSAGE(arena, XlaTuning__AutotuneValue, xla_tuning__autotune_value, value);
  MESSAGE(arena, XlaTuning__Config, xla_tuning__config, config);
  target->device = (char *)(uintptr_t)choice->device;
  target->hlo_fingerprint = (char *)(uintptr_t)choice->kernel;
  key->target = target;
  if (choice->compilers && *choice->compilers) {
    MESSAGE(arena, XlaTuning__AutotuneEnvironmentKey, xla_tuning__autotune_environment_key, with);
    with->codegen_version = (char *)(uintptr_t)choice->compilers;
    key->environment = with;
  }
  config->backend = choice->by;
  config->backend_config = (XlaTuning__BackendConfig *)(uintptr_t)choice->config;
  value->optimal_config = config;
  if (choice->version)
    value->optimal_backend_version = (char *)(uintptr_t)choice->version;
  entry->key = key;
  entry->value = value;
  return entry;
}

void hl_tuning_write(const HlTuning *tuning, bool as_text, HlBuf *out) {
  const ProtobufCMessageDescriptor *type = &xla_tuning__autotune_cache__descriptor;
  HlArena *arena = hl_arena_new();
  const Choice **all = in_order(arena, tuning);
  HlBuf wire = {0};
  for (int k = 0; k < tuning->n; k++) {
    if (all[k]->is_text)
      continue;
    MESSAGE(arena, XlaTuning__AutotuneCache, xla_tuning__autotune_cache, cache);
    XlaTuning__AutotuneEntry *entry = entry_of(arena, all[k]);
    cache->n_entries = 1;
    cache->entries = &entry;
    wire.n = 0;
    wire_put_packed(&wire, &cache->base);
    if (as_text && all[k]->name)
      hl_buf_printf(out, "# %s\n", all[k]->name);
    if (as_text)
      wire_to_pbtxt((HlStr){wire.at, wire.n}, type, out);
    else
      hl_buf_add(out, wire.at, wire.n);
  }
  hl_buf_free(&wire);
  hl_arena_free(arena);
}
