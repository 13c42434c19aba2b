// pjrt/executable.c: what an executable says of itself. Answers are made when they are first asked for, and kept with the core.

#include <stdlib.h>
#include <string.h>

#include "hilo/cost.h"
#include "pjrt/plugin.h"

// --- Handles -----------------------------------------------------------------------------------------

PJRT_Error *PJRT_LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args *args) {
  args->executable = malloc(sizeof *args->executable);
  if (!args->executable)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  args->executable->core = core_ref(args->loaded_executable->core);
  return NULL;
}

PJRT_Error *PJRT_Executable_Destroy(PJRT_Executable_Destroy_Args *args) {
  core_unref(args->executable->core);
  free(args->executable);
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args *args) {
  atomic_store(&args->executable->deleted, true);
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args *args) {
  args->is_deleted = atomic_load(&args->executable->deleted);
  return NULL;
}

// --- Devices -----------------------------------------------------------------------------------------

PJRT_Error *PJRT_LoadedExecutable_AddressableDevices(
    PJRT_LoadedExecutable_AddressableDevices_Args *args) {
  args->addressable_devices = args->executable->devices;
  args->num_addressable_devices = (size_t)args->executable->n_devices;
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_AddressableDeviceLogicalIds(
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args *args) {
  args->addressable_device_logical_ids = args->executable->ids;
  args->num_addressable_device_logical_ids = (size_t)args->executable->n_devices;
  return NULL;
}

static void nothing_to_delete(PJRT_DeviceAssignmentSerialized *assignment) {
  (void)assignment;
}

PJRT_Error *PJRT_LoadedExecutable_GetDeviceAssignment(
    PJRT_LoadedExecutable_GetDeviceAssignment_Args *args) {
  Core *core = args->executable->core;
  pthread_mutex_lock(&core->lock);
  if (!core->portable && core->assignment.n == 0)
    hl_proto_write_devices(&core->assignment, core->replicas, core->partitions, core->device);
  args->serialized_bytes = core->assignment.at;
  args->serialized_bytes_size = core->assignment.n;
  pthread_mutex_unlock(&core->lock);
  args->serialized_device_assignment = NULL;
  args->serialized_device_assignment_deleter = nothing_to_delete;
  return NULL;
}

PJRT_Error *PJRT_Executable_NumReplicas(PJRT_Executable_NumReplicas_Args *args) {
  args->num_replicas = (size_t)args->executable->core->replicas;
  return NULL;
}

PJRT_Error *PJRT_Executable_NumPartitions(PJRT_Executable_NumPartitions_Args *args) {
  args->num_partitions = (size_t)args->executable->core->partitions;
  return NULL;
}

// --- Names and sizes ---------------------------------------------------------------------------------

PJRT_Error *PJRT_Executable_Name(PJRT_Executable_Name_Args *args) {
  args->executable_name = args->executable->core->name;
  args->executable_name_size = strlen(args->executable_name);
  return NULL;
}

PJRT_Error *PJRT_Executable_NumOutputs(PJRT_Executable_NumOutputs_Args *args) {
  args->num_outputs = (size_t)args->executable->core->n_results;
  return NULL;
}

static int64_t code_bytes(const Core *core) {
  HlArena *arena = hl_arena_new();
  const int64_t bytes = hl_cpu_report(arena, core->program).code;
  hl_arena_free(arena);
  return bytes;
}

PJRT_Error *PJRT_Executable_SizeOfGeneratedCodeInBytes(
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args *args) {
  args->size_in_bytes = code_bytes(args->executable->core);
  return NULL;
}

PJRT_Error *PJRT_Executable_Fingerprint(PJRT_Executable_Fingerprint_Args *args) {
  args->executable_fingerprint = (const char *)args->executable->core->fingerprint;
  args->executable_fingerprint_size = sizeof args->executable->core->fingerprint;
  return NULL;
}

PJRT_Error *PJRT_LoadedExecutable_Fingerprint(PJRT_LoadedExecutable_Fingerprint_Args *args) {
  args->executable_fingerprint = (const char *)args->executable->core->fingerprint;
  args->executable_fingerprint_size = sizeof args->executable->core->fingerprint;
  return NULL;
}

// --- Parameters and results --------------------------------------------------------------------------

static void list_kinds(Core *core, int which, const Slot *slot, int n) {
  pthread_mutex_lock(&core->lock);
  if (!core->kind_name[which]) {
    core->kind_size[which] = HL_ARRAY(core->arena, size_t, n + 1);
    core->kind_name[which] = HL_ARRAY(core->arena, const char *, n + 1);
    for (int k = 0; k < n; k++) {
      core->kind_name[which][k] = memory_kind_name[slot[k].kind];
      core->kind_size[which][k] = strlen(core->kind_name[which][k]);
    }
  }
  pthread_mutex_unlock(&core->lock);
}

PJRT_Error *PJRT_Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args *args) {
  Core *core = args->executable->core;
  list_kinds(core, 1, core->result, core->n_results);
  args->num_outputs = (size_t)core->n_results;
  args->memory_kinds = core->kind_name[1];
  args->memory_kind_sizes = core->kind_size[1];
  return NULL;
}

PJRT_Error *PJRT_Executable_ParameterMemoryKinds(PJRT_Executable_ParameterMemoryKinds_Args *args) {
  Core *core = args->executable->core;
  list_kinds(core, 0, core->parameter, core->n_parameters);
  args->num_parameters = (size_t)core->n_parameters;
  args->memory_kinds = core->kind_name[0];
  args->memory_kind_sizes = core->kind_size[0];
  return NULL;
}

// Types, sizes and ranks of the results, one after the other.
static void list_results(Core *core) {
  pthread_mutex_lock(&core->lock);
  if (!core->types) {
    int64_t n = 0;
    core->ranks = HL_ARRAY(core->arena, size_t, core->n_results + 1);
    core->types = HL_ARRAY(core->arena, PJRT_Buffer_Type, core->n_results + 1);
    for (int k = 0; k < core->n_results; k++)
      n += core->result[k].array.rank;
    core->dims = HL_ARRAY(core->arena, int64_t, n + 1);
    int64_t *dim = core->dims;
    for (int k = 0; k < core->n_results; k++) {
      const Array *array = &core->result[k].array;
      core->types[k] = pjrt_type(array->dtype);
      core->ranks[k] = (size_t)array->rank;
      for (int d = 0; d < array->rank; d++)
        *dim++ = array->dim[d];
    }
  }
  pthread_mutex_unlock(&core->lock);
}

PJRT_Error *PJRT_Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args *args) {
  Core *core = args->executable->core;
  list_results(core);
  args->output_types = core->types;
  args->num_output_types = (size_t)core->n_results;
  return NULL;
}

PJRT_Error *PJRT_Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args *args) {
  Core *core = args->executable->core;
  list_results(core);
  args->num_outputs = (size_t)core->n_results;
  args->dims = core->dims;
  args->dim_sizes = core->ranks;
  return NULL;
}

// --- The module --------------------------------------------------------------------------------------

static const char format[] = "hlo_with_config";

static bool write_module(HlCx *cx, void *user) {
  Core *core = user;
  if (hl_proto_write(cx, hl_compiled_module(core->compiled), HL_PROTO_WITH_CONFIG, false, NULL,
                     &core->optimized))
    return true;
  hl_buf_free(&core->optimized);
  return false;
}

// Under the core's lock.
static PJRT_Error *make_optimized(Core *core) {
  HlCx *cx = hl_cx_new();
  PJRT_Error *error = NULL;
  if (!hl_try(cx, write_module, core)) {
    core->optimized = (HlBuf){0};
    error = pjrt_fail_cx(cx);
  }
  hl_cx_free(cx);
  return error;
}

// The optimised module, HloModuleProtoWithConfig: asked for twice, first its size.
PJRT_Error *PJRT_Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args *args) {
  Core *core = args->executable->core;
  pthread_mutex_lock(&core->lock);
  PJRT_Error *error = core->optimized.n == 0 ? make_optimized(core) : NULL;
  pthread_mutex_unlock(&core->lock);
  if (error)
    return error;
  PJRT_Program *program = args->program;
  program->format = format;
  program->format_size = sizeof format - 1;
  if (program->code && program->code_size < core->optimized.n)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "%zu bytes are too few for a program of %zu",
                     program->code_size, core->optimized.n);
  if (program->code)
    memcpy(program->code, core->optimized.at, core->optimized.n);
  program->code_size = core->optimized.n;
  return NULL;
}

static void delete_options(PJRT_SerializedCompileOptions *options) {
  (void)options;  // the core's
}

PJRT_Error *PJRT_Executable_GetCompileOptions(PJRT_Executable_GetCompileOptions_Args *args) {
  args->serialized_bytes = args->executable->core->options.at;
  args->serialized_bytes_size = args->executable->core->options.n;
  args->serialized_compile_options = NULL;
  args->serialized_compile_options_deleter = delete_options;
  return NULL;
}

// --- Cost and memory ---------------------------------------------------------------------------------

PJRT_Error *PJRT_Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args *args) {
  Core *core = args->executable->core;
  pthread_mutex_lock(&core->lock);
  if (!core->cost) {
    const HlCostProperty *property;
    core->n_cost = hl_cost_properties(core->arena, hl_compiled_module(core->compiled), &property);
    core->cost = HL_ARRAY(core->arena, PJRT_NamedValue, core->n_cost + 1);
    for (int k = 0; k < core->n_cost; k++)
      core->cost[k] = named_float(property[k].name, (float)property[k].value);
  }
  args->properties = core->cost;
  args->num_properties = (size_t)core->n_cost;
  pthread_mutex_unlock(&core->lock);
  return NULL;
}

PJRT_Error *PJRT_Executable_GetCompiledMemoryStats(
    PJRT_Executable_GetCompiledMemoryStats_Args *args) {
  const HlReport report = hl_compiled_report(args->executable->core->compiled);
  args->generated_code_size_in_bytes = code_bytes(args->executable->core);
  args->argument_size_in_bytes = report.arguments;
  args->output_size_in_bytes = report.results;
  args->alias_size_in_bytes = report.aliased;
  args->temp_size_in_bytes = report.temporaries;
  args->host_generated_code_size_in_bytes = 0;
  args->host_argument_size_in_bytes = 0;
  args->host_output_size_in_bytes = 0;
  args->host_alias_size_in_bytes = 0;
  args->host_temp_size_in_bytes = 0;
  const int64_t total = report.arguments + report.results - report.aliased + report.temporaries;
  if (PJRT_HAS(args, peak_memory_in_bytes))
    args->peak_memory_in_bytes = total;
  if (PJRT_HAS(args, total_size_in_bytes))
    args->total_size_in_bytes = total;
  if (PJRT_HAS(args, total_allocation_bytes))
    args->total_allocation_bytes = total;
  if (PJRT_HAS(args, indefinite_allocations))
    args->indefinite_allocations = 0;
  if (PJRT_HAS(args, peak_unpadded_heap_bytes))
    args->peak_unpadded_heap_bytes = report.temporaries;
  return NULL;
}
