// eval/custom_parallel.c: interpreter.run_parallel: programs that run side by side on devices of their own.
//
// The called computations are one program per device, replica by replica, then the functions whose results
// feed infeeds; the operands are the programs' parameters one after another, and so are the results.

#include "eval/custom.h"

typedef struct Grid {
  const HlInst *inst;
  const HlLiteral *const *operand;
  int *first_operand;  // of each device
  HlLiteral **result;  // of each device
} Grid;

static bool run_program(Interp *in, void *user) {
  Grid *grid = user;
  const HlComp *comp = hl_called(grid->inst, in->device);
  grid->result[in->device] =
      interp_call(in, comp, grid->operand + grid->first_operand[in->device], comp->n_params);
  return grid->result[in->device] != NULL;
}

// Runs the feeding functions; data[k] is a new reference, to a tuple, as infeeds take it.
static bool make_infeed(Interp *in, const HlInst *inst, int first, int n, HlLiteral **data) {
  for (int k = 0; k < n; k++) {
    HlLiteral *value = interp_call(in, hl_called(inst, first + k), NULL, 0);
    data[k] = value && !hl_shape_is_tuple(value->shape) ? interp_tuple(in, 1, &value)
                                                        : hl_literal_ref(value);
    interp_drop(in, value);
    if (!data[k])
      return false;
  }
  return true;
}

// Copies the programs' results into the call's, in order; a tuple counts as its elements.
static bool give_results(Interp *in, const HlInst *inst, HlLiteral *const *result, int n,
                         HlLiteral *out) {
  int next = 0;
  for (int d = 0; d < n; d++) {
    const int leaves = result[d]->element ? result[d]->shape->rank : 1;
    for (int k = 0; k < leaves; k++, next++) {
      HlLiteral *to = custom_result(out, next);
      if (!to)
        return hl_inst_error(in->ev.cx, inst,
                             "the programs have more results than the %d of the call", next);
      if (!custom_copy(in, inst, result[d]->element ? result[d]->element[k] : result[d], to))
        return false;
    }
  }
  return next == custom_result_count(out) ||
         hl_inst_error(in->ev.cx, inst, "the programs have %d results, the call %d", next,
                       custom_result_count(out));
}

static bool place_operands(Interp *in, const HlInst *inst, int n, int *first) {
  int next = 0;
  for (int d = 0; d < n; d++) {
    first[d] = next;
    next += hl_called(inst, d)->n_params;
  }
  return next == (int)inst->n_operands ||
         hl_inst_error(in->ev.cx, inst, "the programs take %d operands, but the call has %u", next,
                       inst->n_operands);
}

static bool run_grid(Interp *in, const HlInst *inst, Cluster *cluster, Grid *grid, HlLiteral *out) {
  const int n = cluster->n_devices;
  bool good = place_operands(in, inst, n, grid->first_operand) &&
              device_run_all(in->ev.cx, cluster, run_program, grid) &&
              give_results(in, inst, grid->result, n, out);
  for (int d = 0; d < n; d++)
    hl_literal_unref(grid->result[d]);
  return good;
}

bool custom_run_parallel(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                         HlLiteral *out) {
  const int64_t replicas = custom_int(inst, "replicas", 1),
                partitions = custom_int(inst, "partitions", 1);
  const int64_t n_infeed = custom_int(inst, "infeed", 0);
  if (replicas < 1 || partitions < 1 || n_infeed < 0 || replicas > inst->n_calls ||
      partitions > inst->n_calls || replicas * partitions + n_infeed != inst->n_calls)
    return hl_inst_error(
        in->ev.cx, inst,
        "%lld replicas of %lld programs and %lld infeeds need as many computations",
        (long long)replicas, (long long)partitions, (long long)n_infeed);
  const int n = (int)(replicas * partitions);
  HlLiteral **infeed = HL_ARRAY(in->arena, HlLiteral *, n_infeed + 1);
  HlEvalOptions options = *in->cluster->options;
  options.infeed = infeed;
  options.n_infeed = (int)n_infeed;
  Cluster cluster = {.module = in->module,
                     .options = &options,
                     .n_devices = n,
                     .replicas = (int)replicas,
                     .partitions = (int)partitions,
                     .is_process_grid = true};
  Grid grid = {inst, operand, HL_ARRAY(in->arena, int, n), HL_ARRAY(in->arena, HlLiteral *, n)};
  const bool good =
      make_infeed(in, inst, n, (int)n_infeed, infeed) && run_grid(in, inst, &cluster, &grid, out);
  for (int k = 0; k < n_infeed; k++)
    interp_drop(in, infeed[k]);
  return good;
}
