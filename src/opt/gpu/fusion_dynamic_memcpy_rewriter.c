// opt/gpu/fusion_dynamic_memcpy_rewriter.c
//
// fusion-dynamic-memcpy-rewriter: for GPUs: a fusion that only cuts a contiguous piece out of an array, or writes one
// into it, is a memcpy and needs no kernel if it is known when compiling where the piece lies. In a loop it may lie
// elsewhere in each iteration.
//
//   f = f32[1,8] fusion(x, i), kind=kLoop, calls={ ROOT dynamic-slice(f32[3,8] x, i, 0) }
//   =>  the same, backend_config={"fusion_backend_config":{"kind":"__dynamic_memcpy","dynamic_memcpy_config":{
//         "depends_on_loop":true,"src_offset_bytes":["0","32","64"],"dst_offset_bytes":["0","0","0"]}}}
//
// Where i is computed from the loop's induction variable, it is computed here for each iteration.

#include <string.h>

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/memcpy_places.h"
#include "opt/passes.h"

static const char *config_of(HlPass *p, const HlInst *fusion, const MemcpyPlaces *all) {
  const bool reads = all->slice->op == HL_OP_DYNAMIC_SLICE;
  const HlI64s moving = {all->at, (int)all->n};
  const HlI64s still = {HL_ARRAY(p->arena, int64_t, all->n + 1), (int)all->n};
  HlFusionConfig config = hl_fusion_config(p->arena, fusion);
  config.kind = HL_FUSION_DYNAMIC_MEMCPY;
  config.copies = true;
  config.by_loop = all->by_iteration;
  config.from = reads ? moving : still;
  config.to = reads ? still : moving;
  return hl_fusion_config_text(p->arena, p->m->dialect, hl_attr_text(fusion, HL_A_BACKEND_CONFIG),
                               &config);
}

// Somebody else's code computes a fusion that has a kind in its configuration.
static bool is_taken(const HlInst *fusion) {
  return hl_attr_int(fusion, HL_A_KIND) == HL_WORD_fusion_kind_CUSTOM ||
         hl_fusion_code(fusion) != HL_FUSION_NONE;
}

static void annotate(HlPass *p, HlInst *fusion) {
  HlMark mark = hl_arena_mark(p->arena);
  MemcpyPlaces places;
  if (!is_taken(fusion) && memcpy_places(p, fusion, &places)) {
    const char *config = config_of(p, fusion, &places);
    if (strcmp(config, hl_attr_text(fusion, HL_A_BACKEND_CONFIG)) != 0 &&
        hl_change(p, "memcpy", fusion, NULL)) {
      hl_set_text(fusion, HL_A_BACKEND_CONFIG, config);
      hl_changed(p);
    }
  }
  hl_arena_release(p->arena, mark);
}

bool pass_fusion_dynamic_memcpy_rewriter(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  for (int c = 0; c < n; c++)
    for (HlInst *inst = comps[c]->first; inst; inst = inst->next)
      if (inst->op == HL_OP_FUSION)
        annotate(p, inst);
  return true;
}
