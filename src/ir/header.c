// ir/header.c: writes what a module says of itself and of its entry: aliases, donors, layouts, devices.

#include "hilo/edit.h"

#include <stdlib.h>
#include <string.h>

void hl_module_set_name(HlModule *m, const HlSym *name) {
  m->name = name;
}

void hl_set_scheduled(HlModule *m, bool scheduled) {
  m->is_scheduled = scheduled;
}

void hl_set_devices(HlModule *m, int64_t replicas, int64_t partitions) {
  m->replica_count = replicas;
  m->num_partitions = partitions;
}

void hl_module_set_loc(HlModule *m, HlLoc loc) {
  m->loc = loc;
}

void hl_set_passthrough(HlModule *m, bool passthrough) {
  m->alias_passthrough_params = passthrough;
}

void hl_set_spmd_propagation(HlModule *m, HlI64s to_parameters, HlI64s to_output) {
  m->spmd_to_parameters = hl_i64s_copy(m->arena, to_parameters);
  m->spmd_to_output = hl_i64s_copy(m->arena, to_output);
}

void hl_set_dynamic(HlModule *m, bool is_dynamic) {
  m->is_dynamic = is_dynamic;
}

void hl_set_auto_spmd(HlModule *m, bool use) {
  m->use_auto_spmd = use;
}

void hl_set_proto_id(HlModule *m, int64_t id) {
  m->proto_id = id;
}

void hl_set_dialect(HlModule *m, HlDialect dialect) {
  m->dialect = dialect;
}

void hl_set_tuple_elements(HlModule *m, bool inside) {
  m->tuple_elements = inside;
}

// By name, then by index.
static int by_array(const void *a, const void *b) {
  const HlOrigin *x = ((const HlDebugRow *)a)->array, *y = ((const HlDebugRow *)b)->array;
  const int by_name = strcmp(x->name ? x->name->text : "", y->name ? y->name->text : "");
  return by_name ? by_name : hl_i64s_compare(x->index, y->index);
}

void hl_set_debug(HlModule *m, int n, const HlDebugRow *rows) {
  HlDebugRow *at = hl_arena_copy(m->arena, rows, sizeof *rows * (size_t)n);
  if (n > 1)
    qsort(at, (size_t)n, sizeof *at, by_array);
  m->debug = at;
  m->n_debug = n;
}

void hl_set_frames(HlModule *m, const HlFrames *frames) {
  m->frames = *frames;
}

void hl_set_recovery(HlModule *m, int n, const HlRecovery *rows) {
  m->recovery = hl_arena_copy(m->arena, rows, sizeof *rows * (size_t)n);
  m->n_recovery = n;
}

void hl_set_module_attributes(HlModule *m, HlDict attributes) {
  size_t bytes = sizeof(HlSym *) * (size_t)attributes.n;
  m->frontend_attributes = (HlDict){.key = hl_arena_copy(m->arena, attributes.key, bytes),
                                    .value = hl_arena_copy(m->arena, attributes.value, bytes),
                                    .n = attributes.n};
}

// --- Buffers ------------------------------------------------------------------------------------

static int by_output(const void *a, const void *b) {
  return hl_i64s_compare(((const HlAlias *)a)->output, ((const HlAlias *)b)->output);
}

void hl_set_aliases(HlModule *m, int n, const HlAlias *alias) {
  HlAlias *at = hl_arena_copy(m->arena, alias, sizeof *alias * (size_t)n);
  if (n > 1)
    qsort(at, (size_t)n, sizeof *at, by_output);
  m->input_output_alias = (HlAliases){at, n};
}

void hl_set_donors(HlModule *m, int n, const HlDonor *donor) {
  m->buffer_donor = hl_arena_copy(m->arena, donor, sizeof *donor * (size_t)n);
  m->n_buffer_donor = n;
}

// --- The entry's layout ---------------------------------------------------------------------------

void hl_set_entry_layout(HlModule *m, int n, const HlShape *const *params, const HlShape *result) {
  const HlShape **own = params ? HL_ARRAY(m->arena, const HlShape *, n + 1) : NULL;
  for (int k = 0; params && k < n; k++)
    own[k] = params[k];
  m->entry_params = own;
  m->n_entry_params = params ? n : 0;
  m->entry_result = result;
}

void hl_complete_entry_layout(HlModule *m) {
  if (!m->entry)
    return;
  if (!m->entry_params) {
    int n = m->entry->n_params;
    const HlShape **params = HL_ARRAY(m->arena, const HlShape *, n > 0 ? n : 1);
    for (int k = 0; k < n; k++)
      params[k] = m->entry->params[k]
                      ? hl_shape_with_default_layout(m->shapes, m->entry->params[k]->shape)
                      : hl_shape_tuple(m->shapes, 0, NULL);
    m->entry_params = params;
    m->n_entry_params = n;
  }
  if (!m->entry_result && m->entry->root)
    m->entry_result = hl_shape_with_default_layout(m->shapes, m->entry->root->shape);
}

static const HlShape *default_layout(HlModule *m, const HlShape *shape) {
  return hl_shape_with_default_layout(m->shapes, hl_shape_without_layout(m->shapes, shape));
}

void hl_default_entry_layout(HlModule *m) {
  if (!m->entry || !m->entry->root)
    return;
  hl_set_entry_layout(m, 0, NULL, NULL);
  hl_complete_entry_layout(m);
  const HlShape **params = HL_ARRAY(m->arena, const HlShape *, m->n_entry_params + 1);
  for (int k = 0; k < m->n_entry_params; k++)
    params[k] = default_layout(m, m->entry_params[k]);
  hl_set_entry_layout(m, m->n_entry_params, params, default_layout(m, m->entry_result));
}

void hl_set_spmd_shardings(HlModule *m, int n, const HlSharding *const *params,
                           const HlSharding *result) {
  m->spmd_parameter_shardings = hl_arena_copy(m->arena, params, sizeof *params * (size_t)n);
  m->n_spmd_parameter_shardings = n;
  m->spmd_output_sharding = result;
}

void hl_forget_interface(HlModule *m) {
  hl_set_entry_layout(m, 0, NULL, NULL);
  hl_set_aliases(m, 0, NULL);
  hl_set_donors(m, 0, NULL);
  m->spmd_to_parameters = m->spmd_to_output = (HlI64s){0};
  hl_set_spmd_shardings(m, 0, NULL, NULL);
  m->is_scheduled = false;
}
