// python/core/describe.c: what a module consists of, as JSON: its interface, its computations and their instructions.

#include "call.h"
#include "cpu/kernel/source.h"
#include "tool/json.h"

// --- The interface ------------------------------------------------------------------------------

static void put_array(HlBuf *out, const char *key, const HlShape *shape) {
  json_open(out, key, '{');
  json_text(out, "dtype", hl_dtype_text(shape->dtype));
  json_open(out, "dims", '[');
  for (int k = 0; hl_shape_is_array(shape) && k < shape->rank; k++)
    json_int(out, NULL, shape->dim[k]);
  json_close(out, ']');
  if (hl_shape_is_array(shape) && shape->dynamic) {
    json_open(out, "dynamic", '[');
    for (int k = 0; k < shape->rank; k++)
      json_bool(out, NULL, shape->dynamic[k]);
    json_close(out, ']');
  }
  json_close(out, '}');
}

// Tuples are nested as deep as the readers' limit at most.
static void put_shape(HlBuf *out, const char *key, const HlShape *shape) {
  if (!hl_shape_is_tuple(shape)) {
    put_array(out, key, shape);
    return;
  }
  json_open(out, key, '{');
  json_open(out, "tuple", '[');
  for (int k = 0; k < shape->rank; k++)
    put_shape(out, NULL, shape->element[k]);
  json_close(out, ']');
  json_close(out, '}');
}

static bool run_interface(Job *job) {
  const HlModule *m = job->m;
  HlBuf *out = &job->out;
  json_open(out, NULL, '{');
  json_text(out, "name", m->name->text);
  json_open(out, "parameters", '[');
  for (int k = 0; k < m->entry->n_params; k++)
    if (m->entry->params[k])
      put_shape(out, NULL, m->entry->params[k]->shape);
  json_close(out, ']');
  put_shape(out, "result", m->entry->root->shape);
  json_int(out, "replicas", m->replica_count);
  json_int(out, "partitions", m->num_partitions);
  json_bool(out, "scheduled", m->is_scheduled);
  json_text(out, "xla", m->dialect == HL_XLA_UNTOLD ? "" : hl_dialect_text(m->dialect));
  json_close(out, '}');
  return true;
}

bool hilo_core_interface(HiloCall *call, const HiloModule *m) {
  return job_run(call, &(Job){.run = run_interface, .m = m}, NULL);
}

// --- Instructions -------------------------------------------------------------------------------

static void put_names(HlBuf *out, const HlInst *inst) {
  json_open(out, "operands", '[');
  for (uint32_t k = 0; k < inst->n_operands; k++)
    json_text(out, NULL, inst->operands[k]->name->text);
  json_close(out, ']');
  if (inst->n_calls == 0)
    return;
  json_open(out, "calls", '[');
  for (int k = 0; k < inst->n_calls; k++)
    json_text(out, NULL, inst->calls[k].comp->name->text);
  json_close(out, ']');
}

static void put_source(HlBuf *out, const HlInst *inst) {
  const CpuSource from = cpu_source(inst);
  if (from.op_name)
    json_text(out, "op_name", from.op_name);
  if (!from.file)
    return;
  json_text(out, "file", from.file);
  json_int(out, "line", from.line);
}

static void put_inst(HlCx *cx, HlBuf *out, const HlInst *inst) {
  const HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  json_open(out, NULL, '{');
  json_text(out, "name", inst->name->text);
  json_text(out, "opcode", hl_op_text((HlOp)inst->op));
  json_text(out, "shape", hl_shape_text(cx, inst->shape));
  put_names(out, inst);
  if (inst == inst->comp->root)
    json_bool(out, "root", true);
  if (inst->op == HL_OP_FUSION)
    json_text(out, "kind",
              hl_enum_text(&hl_enums[HL_ENUM_fusion_kind], hl_attr_int(inst, HL_A_KIND)));
  if (inst->op == HL_OP_CUSTOM_CALL)
    json_text(out, "target", hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET));
  put_source(out, inst);
  json_close(out, '}');
  hl_arena_release(hl_cx_scratch(cx), mark);
}

static void put_insts(Job *job, const HlComp *comp, HlInst **order) {
  json_open(&job->out, "instructions", '[');
  for (uint32_t k = 0; k < comp->n_insts; k++)
    put_inst(job->cx, &job->out, order[k]);
  json_close(&job->out, ']');
}

static bool run_list(Job *job) {
  HlArena *arena = hl_arena_new();
  HlComp **order = hl_comp_order(arena, job->m);
  json_open(&job->out, NULL, '[');
  for (uint32_t k = 0; k < job->m->n_comps; k++) {
    json_open(&job->out, NULL, '{');
    json_text(&job->out, "name", order[k]->name->text);
    json_bool(&job->out, "entry", order[k] == job->m->entry);
    json_bool(&job->out, "fusion", order[k]->is_fusion);
    put_insts(job, order[k], hl_print_order(arena, order[k]));
    json_close(&job->out, '}');
  }
  json_close(&job->out, ']');
  hl_arena_free(arena);
  return true;
}

bool hilo_core_list(HiloCall *call, const HiloModule *m) {
  return job_run(call, &(Job){.run = run_list, .m = m}, NULL);
}
