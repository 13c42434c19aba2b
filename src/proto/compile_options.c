// proto/compile_options.c: reads what a client asks of a compilation (CompileOptionsProto), writes which device runs
// which part of a program (DeviceAssignmentProto).
#include <inttypes.h>
#include <string.h>

#include "hilo/proto.h"
#include "proto/compile.pb-c.h"
#include "proto/message.h"

typedef XlaCompile__CompileOptionsProto OptionsMsg;
typedef XlaCompile__ExecutableBuildOptionsProto BuildMsg;
typedef XlaCompile__DeviceAssignmentProto DevicesMsg;
typedef XlaCompile__EnvOptionOverridesEntry OverrideMsg;

typedef struct Reader {
  HlCx *cx;
  HlArena *arena;  // of what comes out
  HlPos pos;
  HlAsked *out;
} Reader;

// --- Devices ------------------------------------------------------------------------------------------

// A count that is said twice is the same both times; one that is said once is that.
static bool read_count(Reader *r, const char *what, int64_t asked, int64_t assigned, int64_t *out) {
  *out = asked > 0 ? asked : assigned;
  if (asked < 0 || assigned < 0 || *out != (assigned > 0 ? assigned : *out))
    return hl_error(r->cx, r->pos,
                    "the compile options ask for %" PRId64
                    " %s, the device assignment is for %" PRId64,
                    asked, what, assigned);
  const int64_t limit = hl_cx_limits(r->cx)->devices;
  return *out <= limit || hl_error_kind(r->cx, HL_LIMIT, r->pos,
                                        "%" PRId64 " %s are asked for (limit devices %" PRId64 ")",
                                        *out, what, limit);
}

// The message lists the devices of each partition, one per replica.
static bool read_devices(Reader *r, const DevicesMsg *from) {
  HlAsked *out = r->out;
  if (from->n_computation_devices != (size_t)out->partitions)
    return hl_error(r->cx, r->pos,
                    "the device assignment has %zu lists of devices, expected %" PRId64,
                    from->n_computation_devices, out->partitions);
  if (out->replicas == 0 || out->partitions == 0)
    return true;
  int64_t *devices = HL_ARRAY(r->arena, int64_t, out->replicas * out->partitions);
  for (int64_t p = 0; p < out->partitions; p++) {
    const XlaCompile__ComputationDevice *of = from->computation_devices[p];
    if (of->n_replica_device_ids != (size_t)out->replicas)
      return hl_error(r->cx, r->pos,
                      "the device assignment has %zu devices for partition %" PRId64
                      ", expected %" PRId64,
                      of->n_replica_device_ids, p, out->replicas);
    for (int64_t k = 0; k < out->replicas; k++)
      devices[k * out->partitions + p] = of->replica_device_ids[k];
  }
  out->devices = devices;
  return true;
}

// --- Options ------------------------------------------------------------------------------------------

static HlI64s copy_bools(Reader *r, size_t n, const protobuf_c_boolean *from) {
  int64_t *at = HL_ARRAY(r->arena, int64_t, n);
  for (size_t k = 0; k < n; k++)
    at[k] = from[k] != 0;
  return (HlI64s){at, (int)n};
}

static bool read_build(Reader *r, const BuildMsg *from) {
  static const DevicesMsg none = XLA_COMPILE__DEVICE_ASSIGNMENT_PROTO__INIT;
  const DevicesMsg *devices = from->device_assignment ? from->device_assignment : &none;
  HlAsked *out = r->out;
  if (from->result_layout)
    return hl_error_kind(r->cx, HL_UNSUPPORTED, r->pos,
                         "a result layout in the compile options is not supported: expected it as "
                         "mhlo.layout_mode of the program");
  out->spmd = from->use_spmd_partitioning;
  out->auto_spmd = from->use_auto_spmd_partitioning;
  out->shardy = from->use_shardy_partitioner;
  out->alias_passthrough = from->alias_passthrough_params;
  out->process_count = from->process_count;
  out->spmd_to_output = copy_bools(r, from->n_allow_spmd_sharding_propagation_to_output,
                                   from->allow_spmd_sharding_propagation_to_output);
  out->spmd_to_parameters = copy_bools(r, from->n_allow_spmd_sharding_propagation_to_parameters,
                                       from->allow_spmd_sharding_propagation_to_parameters);
  const ProtobufCBinaryData *debug = &from->debug_options;
  if (debug->len > 0)
    out->debug_options = (HlStr){hl_arena_copy(r->arena, debug->data, debug->len), debug->len};
  return read_count(r, "replicas", from->num_replicas, devices->replica_count, &out->replicas) &&
         read_count(r, "partitions", from->num_partitions, devices->computation_count,
                    &out->partitions) &&
         (!from->device_assignment || read_devices(r, devices));
}

static bool read_override(Reader *r, const OverrideMsg *from, HlOptionOverride *out) {
  const XlaCompile__OptionOverrideProto *value = from->value;
  out->name = hl_arena_strndup(r->arena, from->key, strlen(from->key));
  switch (value ? value->value_case : XLA_COMPILE__OPTION_OVERRIDE_PROTO__VALUE__NOT_SET) {
  case XLA_COMPILE__OPTION_OVERRIDE_PROTO__VALUE_STRING_FIELD:
    out->kind = HL_OVERRIDE_TEXT;
    out->text = hl_arena_strndup(r->arena, value->string_field, strlen(value->string_field));
    return true;
  case XLA_COMPILE__OPTION_OVERRIDE_PROTO__VALUE_BOOL_FIELD:
    out->kind = HL_OVERRIDE_BOOL;
    out->flag = value->bool_field;
    return true;
  case XLA_COMPILE__OPTION_OVERRIDE_PROTO__VALUE_INT_FIELD:
    out->kind = HL_OVERRIDE_INT;
    out->i = value->int_field;
    return true;
  case XLA_COMPILE__OPTION_OVERRIDE_PROTO__VALUE_DOUBLE_FIELD:
    out->kind = HL_OVERRIDE_FLOAT;
    out->f = value->double_field;
    return true;
  default:
    return hl_error(r->cx, r->pos, "the compile option '%s' is overridden by no value", out->name);
  }
}

static bool read_options(Reader *r, const OptionsMsg *from) {
  HlAsked *out = r->out;
  if (from->n_argument_layouts > 0)
    return hl_error_kind(r->cx, HL_UNSUPPORTED, r->pos,
                         "argument layouts in the compile options are not supported: expected them "
                         "as mhlo.layout_mode of the program");
  out->tupled_arguments = from->parameter_is_tupled_arguments;
  out->portable = from->compile_portable_executable;
  out->n_overrides = (int)from->n_env_option_overrides;
  out->overrides = HL_ARRAY(r->arena, HlOptionOverride, from->n_env_option_overrides);
  for (int k = 0; k < out->n_overrides; k++)
    if (!read_override(r, from->env_option_overrides[k], &out->overrides[k]))
      return false;
  return !from->executable_build_options || read_build(r, from->executable_build_options);
}

bool hl_proto_read_asked(HlCx *cx, HlArena *arena, HlStr bytes, HlAsked *out) {
  const ProtobufCMessageDescriptor *type = &xla_compile__compile_options_proto__descriptor;
  HlSource *source = hl_source_new("compile options", bytes.n ? bytes.at : "", bytes.n, true);
  HlArena *scratch = hl_arena_new();
  *out = (HlAsked){0};
  bytes = hl_source_bytes(source);
  const OptionsMsg *message = wire_check(cx, source, bytes, type)
                                  ? (OptionsMsg *)wire_unpack(cx, source, scratch, bytes, type)
                                  : NULL;
  Reader r = {cx, arena, {source, 0}, out};
  const bool ok = message && read_options(&r, message);
  if (!ok)
    *out = (HlAsked){0};
  hl_arena_free(scratch);
  hl_source_unref(source);
  return ok;
}

// --- Writing ------------------------------------------------------------------------------------------

void hl_proto_write_devices(HlBuf *out, int64_t replicas, int64_t partitions,
                            const int64_t *devices) {
  HlArena *arena = hl_arena_new();
  DevicesMsg message = XLA_COMPILE__DEVICE_ASSIGNMENT_PROTO__INIT;
  message.replica_count = (int32_t)replicas;
  message.computation_count = (int32_t)partitions;
  message.n_computation_devices = (size_t)partitions;
  message.computation_devices = HL_ARRAY(arena, XlaCompile__ComputationDevice *, partitions);
  for (int64_t p = 0; p < partitions; p++) {
    XlaCompile__ComputationDevice *of = HL_NEW(arena, XlaCompile__ComputationDevice);
    xla_compile__computation_device__init(of);
    of->n_replica_device_ids = (size_t)replicas;
    of->replica_device_ids = HL_ARRAY(arena, int64_t, replicas);
    for (int64_t k = 0; k < replicas; k++)
      of->replica_device_ids[k] = devices[k * partitions + p];
    message.computation_devices[p] = of;
  }
  wire_put_packed(out, &message.base);
  hl_arena_free(arena);
}
