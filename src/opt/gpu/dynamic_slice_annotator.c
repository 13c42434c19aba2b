// opt/gpu/dynamic_slice_annotator.c
//
// dynamic-slice-annotator: for GPUs: in a loop whose induction variable is known, notes where the piece lies that a
// dynamic-slice reads, or a dynamic-update-slice writes: so many bytes from the array's start in the first iteration, so many
// further in each one after it. What moves such a piece and nothing else needs no kernel.
//
//   d = f32[1,8] dynamic-slice(f32[3,8] x, i, zero)
//   =>  the same, backend_config={"dynamic_slice_config":{"loop_index":"0","byte_offset":"0","byte_stride":"32"}}

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/memcpy_places.h"
#include "opt/passes.h"

// As far from one iteration to the next in all of them.
static bool advances_evenly(const MemcpyPlaces *places) {
  for (int64_t k = 2; k < places->n; k++)
    if (places->at[k] - places->at[k - 1] != places->at[1] - places->at[0])
      return false;
  return places->by_iteration && places->n > 0;
}

static void annotate(HlPass *p, HlInst *inst) {
  MemcpyPlaces places;
  HlSliceConfig config = hl_slice_config(p->arena, inst);
  if (config.known || !memcpy_places(p, inst, &places) || !advances_evenly(&places) ||
      !hl_change(p, "annotate", inst, NULL))
    return;
  config = (HlSliceConfig){.known = true,
                           .loop = 0,  // the innermost one
                           .offset = places.at[0],
                           .stride = places.n > 1 ? places.at[1] - places.at[0] : 0};
  hl_set_slice_config(p->arena, inst, &config);
  hl_changed(p);
}

bool pass_dynamic_slice_annotator(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = 0; c < n; c++)
    for (HlInst *inst = comps[c]->first; inst; inst = inst->next) {
      HlMark mark = hl_arena_mark(p->arena);
      if (inst->op == HL_OP_DYNAMIC_SLICE || inst->op == HL_OP_DYNAMIC_UPDATE_SLICE)
        annotate(p, inst);
      hl_arena_release(p->arena, mark);
    }
  return true;
}
