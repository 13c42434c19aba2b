// pjrt/shardings.c: the extension by which JAX asks how parameters and results are sharded: each as a serialised OpSharding.

#include "hilo/proto.h"
#include "pjrt/plugin.h"

static PJRT_Error *nothing_known(PJRT_Shardings_Args *args) {
  args->num = 0;
  args->shardings = NULL;
  args->sharding_sizes = NULL;
  return NULL;
}

// The sharding of a result: an element's where the whole's is a tuple's.
static const HlSharding *of_result(const HlSharding *whole, int k) {
  return whole->kind == HL_SHARDING_TUPLE ? (k < whole->n_elements ? whole->element[k] : NULL) : whole;
}

static bool are_known(const HlModule *m, int which, int n) {
  const HlSharding *result = m->spmd_output_sharding;
  if (!which)
    return m->n_spmd_parameter_shardings == n && n > 0;
  return result && (result->kind == HL_SHARDING_TUPLE ? result->n_elements == n : n == 1);
}

static void write_all(Core *core, int which, int n) {
  const HlModule *m = hl_compiled_module(core->compiled);
  core->sharding[which] = HL_ARRAY(core->arena, char *, n + 1);
  core->sharding_size[which] = HL_ARRAY(core->arena, size_t, n + 1);
  for (int k = 0; k < n; k++) {
    HlBuf bytes = {0};
    hl_proto_write_sharding(m,
                            which ? of_result(m->spmd_output_sharding, k)
                                  : m->spmd_parameter_shardings[k],
                            &bytes);
    core->sharding[which][k] = hl_arena_copy(core->arena, bytes.at, bytes.n);
    core->sharding_size[which][k] = bytes.n;
    hl_buf_free(&bytes);
  }
}

static PJRT_Error *list(PJRT_Shardings_Args *args, int which) {
  Core *core = args->executable->core;
  const int n = which ? core->n_results : core->n_parameters;
  if (!are_known(hl_compiled_module(core->compiled), which, n))
    return nothing_known(args);
  pthread_mutex_lock(&core->lock);
  if (!core->sharding[which])
    write_all(core, which, n);
  args->num = (size_t)n;
  args->shardings = (const char *const *)core->sharding[which];
  args->sharding_sizes = core->sharding_size[which];
  pthread_mutex_unlock(&core->lock);
  return NULL;
}

static PJRT_Error *parameters(PJRT_Shardings_Args *args) {
  return list(args, 0);
}

static PJRT_Error *outputs(PJRT_Shardings_Args *args) {
  return list(args, 1);
}

PJRT_Shardings_Extension shardings_extension = {
    .base = {.struct_size = sizeof shardings_extension, .type = PJRT_EXTENSION_SHARDINGS},
    .parameters = parameters,
    .outputs = outputs};
