// opt/cpu/cpu_parallel_task_assigner.c: splits large kernels among the threads of a CPU.
//
// An instruction whose elements can be computed each on its own gets a number of tasks by its cost, and
// its outer dimensions are divided into so many parts. Code generation reads the parts from the backend
// config:
//
//   a = f32[1024,1024] add(x, y)
//   =>
//   a = f32[1024,1024] add(x, y), backend_config={"outer_dimension_partitions":["2"]}
//
// The option `threads` says how many threads kernels are divided among, `cores` how many the machine has, whose memory
// they share: there are more threads than that where one machine stands for several devices. 0: as the target has.

#include <math.h>

#include "hilo/cost.h"
#include "ir/backend_config.h"
#include "opt/passes.h"

// --- How many tasks ------------------------------------------------------------------------------

// Kernels that write a part of their operand: how much is not known yet.
static bool may_update_in_place(const HlInst *inst) {
  if (inst->op == HL_OP_DYNAMIC_UPDATE_SLICE)
    return true;
  if (inst->op != HL_OP_FUSION || hl_attr_int(inst, HL_A_KIND) != HL_WORD_fusion_kind_LOOP)
    return false;
  const HlInst *root = hl_to_apply(inst)->root;
  return root->op == HL_OP_DYNAMIC_UPDATE_SLICE && root->operands[0]->op == HL_OP_PARAMETER;
}

static bool is_divisible(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_CONSTANT:
  case HL_OP_DYNAMIC_UPDATE_SLICE:  // written in place
  case HL_OP_RNG: return false;
  case HL_OP_FUSION: return hl_attr_int(inst, HL_A_KIND) == HL_WORD_fusion_kind_LOOP;
  case HL_OP_IOTA:
  case HL_OP_REDUCE:
  case HL_OP_REDUCE_WINDOW: return !hl_shape_is_tuple(inst->shape);
  case HL_OP_CONVOLUTION:  // those of f16 and f32 run in a library
    return inst->shape->dtype != HL_F32 && inst->shape->dtype != HL_F16;
  default:
    return (hl_op_is((HlOp)inst->op, HL_T_REARRANGES) || hl_is_elementwise(inst)) &&
           !hl_shape_is_tuple(inst->shape);
  }
}

typedef struct Machine {
  int64_t threads, cores;
  int64_t cache;  // of level 2, in bytes
} Machine;

static int64_t clip(double tasks, int64_t most) {
  return tasks < 1 ? 1 : tasks > (double)most ? most : (int64_t)tasks;
}

// What a fusion reads of an operand: of one that it takes slices of, as much as they hold.
static double bytes_read(const HlInst *param) {
  double bytes = 0, whole = 0;
  for (const HlUse *use = param->first_use; use; use = use->next)
    if (use->number == 0 && (use->user->op == HL_OP_SLICE || use->user->op == HL_OP_DYNAMIC_SLICE))
      bytes += (double)hl_leaf_bytes(use->user->shape);
    else
      whole = (double)hl_leaf_bytes(param->shape);
  return bytes + whole;
}

static double operand_bytes(const HlInst *fusion) {
  const HlComp *body = hl_called(fusion, 0);
  double bytes = 0;
  for (int k = 0; k < body->n_params; k++)
    bytes += bytes_read(body->params[k]);
  return bytes;
}

static int64_t count_tasks(const HlInst *inst, const HlCost *comps, Machine machine) {
  if (may_update_in_place(inst) || !is_divisible(inst))
    return 1;
  HlCost cost = hl_cost_inst_by(inst, comps);
  double bytes =
      (inst->op == HL_OP_FUSION ? operand_bytes(inst) : cost.bytes_read) + cost.bytes_written;
  bytes = bytes < 1 ? 1 : bytes;
  if (cost.flops <= bytes) {  // memory is the limit: one thread for a level-2 cache, few in all
    int64_t most = (int64_t)ceil(sqrt((double)machine.cores));
    return clip(floor(bytes / (double)machine.cache),
                most < machine.threads ? most : machine.threads);
  }
  return clip(floor((cost.flops + 2 * cost.transcendentals + 10 * bytes) / 100000),
              machine.threads);
}

// --- Which dimensions ----------------------------------------------------------------------------

// As many outer dimensions as are needed for the tasks, and into how many parts each is divided.
typedef struct Parts {
  int64_t *at;
  int n;
  int64_t total;
} Parts;

static int64_t product(const Parts *parts) {
  int64_t total = 1;
  for (int k = 0; k < parts->n; k++)
    total *= parts->at[k];
  return total;
}

static Parts divide(HlArena *arena, const HlShape *shape, int64_t tasks) {
  Parts parts = {.at = HL_ARRAY(arena, int64_t, shape->rank + 1)};
  int64_t *size = HL_ARRAY(arena, int64_t, shape->rank + 1), elements = 1;
  for (int k = shape->rank - 1; k >= 0 && elements < tasks; k--) {
    size[parts.n] =
        shape->dim[shape->layout ? shape->layout->minor_to_major.at[k] : shape->rank - 1 - k];
    elements *= size[parts.n++];
  }
  parts.total = 1;
  if (parts.n == 0 || elements == 0)
    return parts;
  tasks = elements < tasks ? elements : tasks;
  int64_t each = (int64_t)pow((double)tasks, 1.0 / parts.n);
  for (int k = 0; k < parts.n; k++)
    parts.at[k] = size[k] < each ? size[k] : each;
  for (int k = 0; k < parts.n && product(&parts) < tasks; k++) {
    int64_t others = product(&parts) / parts.at[k], wanted = tasks / others;
    wanted = wanted < size[k] ? wanted : size[k];
    parts.at[k] = wanted > parts.at[k] ? wanted : parts.at[k];
  }
  parts.total = product(&parts);
  return parts;
}

static const HlShape *indexing_shape(const HlInst *inst) {
  const HlShape *shape = inst->shape;
  for (int depth = 0; depth < 2 && hl_shape_is_tuple(shape) && shape->rank > 0; depth++)
    shape = shape->element[0];
  return shape;
}

// The parts as they stand in the backend config, or NULL: not worth dividing.
static const char *describe(HlArena *arena, const HlInst *inst, const HlCost *comps,
                            Machine machine) {
  const HlShape *shape = indexing_shape(inst);
  int64_t tasks = hl_shape_is_array(shape) ? count_tasks(inst, comps, machine) : 1;
  if (tasks <= 1)
    return NULL;
  Parts parts = divide(arena, shape, tasks);
  if (parts.total <= 1)
    return NULL;
  HlCpuConfig config = hl_cpu_config(arena, inst);
  config.parts = (HlI64s){parts.at, parts.n};
  return hl_cpu_config_text(arena, inst->comp->module->dialect,
                            hl_attr_text(inst, HL_A_BACKEND_CONFIG), &config);
}

// --- The pass ------------------------------------------------------------------------------------

static bool is_control_flow(const HlInst *inst) {
  return hl_op_is((HlOp)inst->op, HL_T_CONTROL);
}

static void assign(HlPass *p, HlInst *inst, const HlCost *comps, Machine machine) {
  HlMark mark = hl_arena_mark(p->arena);
  const char *config = describe(p->arena, inst, comps, machine);
  bool same = config && hl_str_is(hl_str(hl_attr_text(inst, HL_A_BACKEND_CONFIG)), config);
  if (config && !same && hl_change(p, "partition", inst, NULL)) {
    hl_set_text(inst, HL_A_BACKEND_CONFIG, config);
    hl_changed(p);
  }
  hl_arena_release(p->arena, mark);
}

bool pass_cpu_parallel_task_assigner(HlPass *p) {
  const HlTarget *t = hl_target_of_kind(p->target, HL_TARGET_CPU);
  const int64_t threads = hl_pass_fact(p, "threads", t->threads);
  const Machine machine = {threads, hl_pass_fact(p, "cores", threads), t->l2_bytes};
  // Backend configs of what is no loop change no costs.
  const HlCost *comps = hl_cost_comps(p->arena, p->m);
  HlComp **list = HL_ARRAY(p->arena, HlComp *, p->m->n_comps + 1);
  bool *seen = HL_ARRAY(p->arena, bool, p->m->next_comp_id + 1);
  int n = 0;
  list[n++] = p->m->entry;
  seen[p->m->entry->id] = true;
  for (int at = 0; at < n; at++)
    for (HlInst *inst = list[at]->first; inst; inst = inst->next) {
      if (!is_control_flow(inst)) {
        assign(p, inst, comps, machine);
        continue;
      }
      for (int k = 0; k < inst->n_calls; k++) {
        HlComp *callee = hl_called(inst, k);
        if (seen[callee->id] || (inst->op == HL_OP_WHILE && k > 0))
          continue;
        seen[callee->id] = true;
        list[n++] = callee;
      }
    }
  return true;
}
