// opt/float/unstable_reduction_detector.c
//
// unstable-reduction-detector: tells of reductions that add up in floats smaller than f32, where digits get lost
// with every step. With mode=warning it reports them, with mode=fail it refuses them; it changes nothing.
//
//   r = bf16[4] reduce(bf16[4,1000] x, zero), dimensions={1}, to_apply=add   => warning
//
// Minima and maxima keep what they take, and a dimension of size 1 takes no step. Reductions of several arrays at once
// do not count, as in XLA.

#include <string.h>

#include "opt/passes.h"

static bool is_small_float(const HlShape *shape) {
  return hl_shape_is_array(shape) && hl_is_float(shape->dtype) &&
         hl_dtype_info[shape->dtype].bits < 32;
}

static bool takes_steps(const HlInst *reduce) {
  const HlI64s dims = hl_dims(reduce);
  for (int k = 0; k < dims.n; k++)
    if (reduce->operands[0]->shape->dim[dims.at[k]] != 1)
      return true;
  return false;
}

static bool is_unstable(const HlInst *inst) {
  if (inst->op != HL_OP_REDUCE || !is_small_float(inst->shape) || !takes_steps(inst))
    return false;
  const HlOp op = hl_reducer(hl_to_apply(inst));
  return op != HL_OP_MAXIMUM && op != HL_OP_MINIMUM;
}

static void tell(HlPass *p, const HlInst *reduce, bool fails) {
  const char *type = hl_dtype_info[reduce->shape->dtype].text;
  if (fails)
    hl_inst_error(p->cx, reduce, "it reduces in %s, which loses digits", type);
  else
    hl_warn(p->cx, hl_pos(reduce), "'%s' reduces in %s, which loses digits", reduce->name->text,
            type);
}

bool pass_unstable_reduction_detector(HlPass *p) {
  const char *mode = hl_pass_text(p, "mode");
  const bool fails = strcmp(mode, "fail") == 0;
  if (strcmp(mode, "none") == 0)
    return true;
  if (!fails && strcmp(mode, "warning") != 0)
    return hl_error(p->cx, hl_module_pos(p->m),
                    "unstable-reduction-detector has mode '%s', expected none, warning or fail",
                    mode);
  bool found = false;
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_ALL, &n);
  for (int c = 0; c < n; c++)
    for (const HlInst *inst = comps[c]->first; inst; inst = inst->next)
      if (is_unstable(inst)) {
        tell(p, inst, fails);
        found = true;
      }
  return !found || !fails;
}
