// proto/target.c: GPUs as XLA describes them, in gpu_target_config.pbtxt or the same in binary.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "hilo/target.h"
#include "proto/message.h"
#include "proto/target.pb-c.h"

typedef XlaTarget__GpuTargetConfigProto ConfigMsg;
typedef XlaTarget__GpuDeviceInfoProto DeviceMsg;
typedef XlaTarget__ExecutionUnitDescriptionProto UnitsMsg;

// --- The row that is nearest --------------------------------------------------------------------------

static int64_t capability_of(const DeviceMsg *d) {
  const XlaTarget__CudaComputeCapabilityProto *c = d->cuda_compute_capability;
  return c ? 10 * (int64_t)c->major + c->minor : 0;
}

static HlTarget nearest(const ConfigMsg *config) {
  const DeviceMsg *d = config->gpu_device_info;
  int64_t capability = capability_of(d);
  bool is_amd = d->rocm_compute_capability || strcmp(config->platform_name, "ROCM") == 0;
  const char *name = is_amd              ? "mi300"
                     : capability == 0   ? "gpu"
                     : capability >= 100 ? "b200"
                     : capability >= 90  ? "h100"
                                         : "a100";
  HlTarget t = *hl_target_find(name);
  // What the units for matrices of others do is not known from these.
  if (!is_amd && capability < 80)
    t.matrix = (HlRates){0};
  return t;
}

// --- Fields -------------------------------------------------------------------------------------------

// Fields that are one fact: zero means that it is not said. FACT(field, fact, type of the field, type of the fact)
#define FACTS(FACT)                                                             \
  FACT(threads_per_block_limit, threads_per_block, int32_t, int64_t)            \
  FACT(threads_per_warp, warp, int32_t, int64_t)                                \
  FACT(shared_memory_per_block, shared_per_block, int32_t, int64_t)             \
  FACT(shared_memory_per_block_optin, shared_per_block_asked, int32_t, int64_t) \
  FACT(shared_memory_per_core, shared_per_core, int32_t, int64_t)               \
  FACT(reserved_shared_memory_per_block, shared_reserved, int32_t, int64_t)     \
  FACT(threads_per_core_limit, threads_per_core, int32_t, int64_t)              \
  FACT(max_blocks_per_multiprocessor, blocks_per_core, int32_t, int64_t)        \
  FACT(core_count, cores, int32_t, int64_t)                                     \
  FACT(fpus_per_core, lanes, int64_t, int64_t)                                  \
  FACT(block_dim_limit_x, grid_x, int64_t, int64_t)                             \
  FACT(block_dim_limit_y, grid_y, int64_t, int64_t)                             \
  FACT(block_dim_limit_z, grid_z, int64_t, int64_t)                             \
  FACT(thread_dim_limit_x, block_x, int64_t, int64_t)                           \
  FACT(thread_dim_limit_y, block_y, int64_t, int64_t)                           \
  FACT(thread_dim_limit_z, block_z, int64_t, int64_t)                           \
  FACT(registers_per_core_limit, registers_per_core, int64_t, int64_t)          \
  FACT(registers_per_block_limit, registers_per_block, int64_t, int64_t)        \
  FACT(memory_bandwidth, memory_bandwidth, int64_t, double)                     \
  FACT(pcie_bandwidth, host_bandwidth, int64_t, double)                         \
  FACT(l2_cache_size, l2_bytes, int64_t, int64_t)                               \
  FACT(device_memory_size, memory_bytes, int64_t, int64_t)

static bool read_facts(HlCx *cx, HlSource *source, const DeviceMsg *d, HlTarget *t) {
  bool ok = true;
#define FACT(field, fact, written, type)                                                          \
  if (d->field < 0)                                                                               \
    ok = hl_error(cx, (HlPos){source, 1},                                                         \
                  #field " is %lld: expected a size or a number of things", (long long)d->field); \
  else if (d->field > 0)                                                                          \
    t->fact = (type)d->field;
  FACTS(FACT)
#undef FACT
  // Without links exchanges go on at the speed of the device as it is usually built.
  const int64_t links = d->device_interconnect_info ? d->device_interconnect_info->active_links : 0;
  if (links > 0)
    t->link_bandwidth *= t->links > 0 ? (double)links / (double)t->links : 0;
  t->links = links > 0 ? links : 0;
  return ok;
}

// To the kilohertz: the message has only single precision.
static double hertz(float ghz) {
  return round((double)ghz * 1e6) * 1e3;
}

// Operations a second of a unit: a fused multiplication and addition is two.
static bool read_rates(const UnitsMsg *units, int64_t cores, HlRates *out) {
  if (!units || units->n_rate_infos == 0)
    return false;
  *out = (HlRates){0};
  for (size_t k = 0; k < units->n_rate_infos; k++) {
    const XlaTarget__RateInfosEntry *entry = units->rate_infos[k];
    for (int dtype = 1; entry->value && dtype < HL_DTYPE_COUNT; dtype++)
      if (hl_dtype_info[dtype].proto == entry->key)
        out->of[dtype] = 2 * hertz(entry->value->clock_rate_ghz) * (double)cores *
                         entry->value->units_per_core * entry->value->ops_per_clock;
  }
  return true;
}

static void scale(HlRates *rates, double by) {
  for (int k = 0; k < HL_DTYPE_COUNT; k++)
    rates->of[k] *= by;
}

static double peak(const HlTarget *t) {
  return (double)t->cores * (double)t->lanes * t->clock;
}

// "9.19.0", or the message that says the same; 0: neither.
static int64_t version_of(const char *text, int64_t major, int64_t minor, int64_t patch) {
  int64_t part[3] = {major, minor, patch};
  const char *at = text;
  for (int k = 0; major == 0 && k < 3 && *at >= '0' && *at <= '9'; k++) {
    for (part[k] = 0; *at >= '0' && *at <= '9' && part[k] < 100000; at++)
      part[k] = 10 * part[k] + (*at - '0');
    at += *at == '.';
  }
  return 10000 * part[0] + 100 * part[1] + part[2];
}

static void read_versions(const ConfigMsg *config, HlTarget *t) {
  const DeviceMsg *d = config->gpu_device_info;
  const XlaTarget__DnnVersionInfoProto *dnn = config->dnn_version_info;
  const XlaTarget__RuntimeVersionProto *runtime = config->runtime_version;
  t->dnn_version =
      version_of(d->dnn_version, dnn ? dnn->major : 0, dnn ? dnn->minor : 0, dnn ? dnn->patch : 0);
  t->runtime_version = version_of(d->runtime_version, runtime ? runtime->major : 0,
                                  runtime ? runtime->minor : 0, runtime ? runtime->patch : 0);
}

static void read_names(HlArena *arena, const ConfigMsg *config, HlTarget *t) {
  const DeviceMsg *d = config->gpu_device_info;
  const char *device = *config->device_description_str ? config->device_description_str : d->name;
  if (*device)
    t->device = hl_arena_strndup(arena, device, strlen(device));
  if (*config->platform_name)
    t->platform = hl_arena_strndup(arena, config->platform_name, strlen(config->platform_name));
  t->name = t->device;
  t->capability = capability_of(d);
  if (d->cuda_compute_capability) {
    bool is_specific =
        d->cuda_compute_capability->feature_extension ==
        XLA_TARGET__CUDA_COMPUTE_CAPABILITY_PROTO__FEATURE_EXTENSION__ACCELERATED_FEATURES;
    t->architecture =
        hl_arena_printf(arena, "sm_%" PRId64 "%s", t->capability, is_specific ? "a" : "");
  } else if (d->rocm_compute_capability) {
    const char *name = d->rocm_compute_capability->gcn_arch_name;
    t->architecture = hl_arena_strndup(arena, name, strlen(name));
  }
}

static void put_text(const ConfigMsg *config, HlBuf *out) {
  HlBuf wire = {0};
  wire_put_packed(&wire, &config->base);
  wire_to_pbtxt((HlStr){wire.at, wire.n}, config->base.descriptor, out);
  hl_buf_free(&wire);
}

static const char *text_of(HlArena *arena, const ConfigMsg *config) {
  HlBuf out = {0};
  put_text(config, &out);
  const char *text = hl_arena_strndup(arena, out.at, out.n);
  hl_buf_free(&out);
  return text;
}

static void warn_unknown(HlCx *cx, HlSource *source, const ProtobufCMessage *message) {
  for (unsigned k = 0; message && k < message->n_unknown_fields; k++)
    hl_warn(cx, (HlPos){source, 1}, "unknown field number %u of %s is skipped",
            message->unknown_fields[k].tag, message->descriptor->short_name);
}

static bool read_config(HlCx *cx, HlArena *arena, HlSource *source, const ConfigMsg *config,
                        HlTarget *t) {
  const DeviceMsg *d = config->gpu_device_info;
  warn_unknown(cx, source, &config->base);
  if (!d)
    return hl_error(cx, (HlPos){source, 1}, "no gpu_device_info: not the description of a GPU");
  warn_unknown(cx, source, &d->base);
  *t = nearest(config);
  const double before = peak(t);
  if (!read_facts(cx, source, d, t))
    return false;
  if (d->clock_rate_ghz > 0)
    t->clock = hertz(d->clock_rate_ghz);
  // What is not said of the units goes with what is said of the cores.
  if (!read_rates(d->scalar_unit_description, t->cores, &t->vector))
    scale(&t->vector, peak(t) / before);
  if (!read_rates(d->matrix_unit_description, t->cores, &t->matrix))
    scale(&t->matrix, peak(t) / before);
  read_versions(config, t);
  read_names(arena, config, t);
  t->described = text_of(arena, config);
  return true;
}

// --- Both forms -----------------------------------------------------------------------------------------

// Text has no control characters but blanks; the first field of a binary one is such.
static bool is_binary(HlStr bytes) {
  for (size_t k = 0; k < bytes.n; k++)
    if ((unsigned char)bytes.at[k] < ' ' && !strchr("\t\n\r", bytes.at[k] ? bytes.at[k] : ' '))
      return true;
  return false;
}

const HlTarget *hl_proto_read_target(HlCx *cx, HlArena *arena, HlSource *source) {
  const ProtobufCMessageDescriptor *type = &xla_target__gpu_target_config_proto__descriptor;
  HlStr bytes = hl_source_bytes(source);
  HlArena *scratch = hl_arena_new();
  HlBuf wire = {0};
  HlTarget *t = HL_NEW(arena, HlTarget);
  bool binary = is_binary(bytes), ok = binary || pbtxt_to_wire(cx, source, type, &wire);
  if (!binary)
    bytes = (HlStr){wire.at ? wire.at : "", wire.n};
  ok = ok && wire_check(cx, source, bytes, type);
  const ConfigMsg *config = ok ? (ConfigMsg *)wire_unpack(cx, source, scratch, bytes, type) : NULL;
  ok = config && read_config(cx, arena, source, config, t);
  hl_buf_free(&wire);
  hl_arena_free(scratch);
  return ok ? t : NULL;
}

// --- Writing --------------------------------------------------------------------------------------------

static UnitsMsg *units(HlArena *arena, const HlTarget *t, const HlRates *rates) {
  UnitsMsg *out = HL_NEW(arena, UnitsMsg);
  xla_target__execution_unit_description_proto__init(out);
  out->rate_infos = HL_ARRAY(arena, XlaTarget__RateInfosEntry *, HL_DTYPE_COUNT);
  for (int number = 1; number < 128; number++)  // in the order of XLA's numbers
    for (int dtype = 1; dtype < HL_DTYPE_COUNT; dtype++) {
      const double a_cycle = rates->of[dtype] / (2 * t->clock * (double)t->cores);
      if (hl_dtype_info[dtype].proto != number || a_cycle < 0.5)
        continue;
      XlaTarget__RateInfosEntry *entry = HL_NEW(arena, XlaTarget__RateInfosEntry);
      xla_target__rate_infos_entry__init(entry);
      entry->key = number;
      entry->value = HL_NEW(arena, XlaTarget__RateInfoProto);
      xla_target__rate_info_proto__init(entry->value);
      entry->value->clock_rate_ghz = (float)(t->clock / 1e9);
      entry->value->units_per_core = (int32_t)round(a_cycle);
      entry->value->ops_per_clock = 1;
      out->rate_infos[out->n_rate_infos++] = entry;
    }
  return out;
}

static char *version_text(HlArena *arena, int64_t version) {
  return version == 0 ? (char *)protobuf_c_empty_string
                      : hl_arena_printf(arena, "%" PRId64 ".%" PRId64 ".%" PRId64, version / 10000,
                                        version / 100 % 100, version % 100);
}

static void set_architecture(HlArena *arena, const HlTarget *t, DeviceMsg *d) {
  const size_t n = strlen(t->architecture);
  if (t->capability > 0) {
    XlaTarget__CudaComputeCapabilityProto *c = HL_NEW(arena, XlaTarget__CudaComputeCapabilityProto);
    xla_target__cuda_compute_capability_proto__init(c);
    c->major = (int32_t)(t->capability / 10);
    c->minor = (int32_t)(t->capability % 10);
    c->feature_extension =
        n > 0 && t->architecture[n - 1] == 'a'
            ? XLA_TARGET__CUDA_COMPUTE_CAPABILITY_PROTO__FEATURE_EXTENSION__ACCELERATED_FEATURES
            : XLA_TARGET__CUDA_COMPUTE_CAPABILITY_PROTO__FEATURE_EXTENSION__NONE;
    d->cuda_compute_capability = c;
  } else if (strcmp(t->platform, "ROCM") == 0) {
    d->rocm_compute_capability = HL_NEW(arena, XlaTarget__RocmComputeCapabilityProto);
    xla_target__rocm_compute_capability_proto__init(d->rocm_compute_capability);
    d->rocm_compute_capability->gcn_arch_name = hl_arena_strndup(arena, t->architecture, n);
  }
}

static void set_device(HlArena *arena, const HlTarget *t, DeviceMsg *d) {
#define FACT(field, fact, written, type) d->field = (written)t->fact;
  FACTS(FACT)
#undef FACT
  d->clock_rate_ghz = (float)(t->clock / 1e9);
  d->scalar_unit_description = units(arena, t, &t->vector);
  d->matrix_unit_description = units(arena, t, &t->matrix);
  d->dnn_version = version_text(arena, t->dnn_version);
  d->runtime_version = version_text(arena, t->runtime_version);
  d->name = hl_arena_strndup(arena, t->device, strlen(t->device));
  set_architecture(arena, t, d);
}

void hl_proto_write_target(const HlTarget *t, HlBuf *out) {
  if (t->described) {
    hl_buf_puts(out, t->described);
    return;
  }
  HlArena *arena = hl_arena_new();
  ConfigMsg config = XLA_TARGET__GPU_TARGET_CONFIG_PROTO__INIT;
  DeviceMsg device = XLA_TARGET__GPU_DEVICE_INFO_PROTO__INIT;
  set_device(arena, t, &device);
  XlaTarget__DeviceInterconnectInfoProto links = XLA_TARGET__DEVICE_INTERCONNECT_INFO_PROTO__INIT;
  links.active_links = (int32_t)t->links;
  if (t->links > 0)
    device.device_interconnect_info = &links;
  config.gpu_device_info = &device;
  config.platform_name = hl_arena_strndup(arena, t->platform, strlen(t->platform));
  config.device_description_str = device.name;
  put_text(&config, out);
  hl_arena_free(arena);
}
