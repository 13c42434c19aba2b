// opt/collective/collective_backend_assigner.c
//
// collective-backend-assigner: notes on exchanges in which memory of a GPU their arrays lie. Other devices
// can reach into some memories themselves, which saves copies.
//
//   p = collective-permute(x)  =>  p = collective-permute(x),
//                                    backend_config={"collective_backend_config":
//                                                      {"collectives_mode":"COLLECTIVES_PEER_MEMORY"}}
//
// Private memory is what they use when nothing is said, and then nothing is noted.

#include <string.h>

#include "hilo/edit.h"
#include "ir/backend_config.h"
#include "opt/ask/loops.h"
#include "opt/passes.h"

// The mode that an option names: NONE, private memory. False after reporting.
static bool read_mode(HlPass *p, const char *option, HlExchangeMode *out) {
  static const char *const modes[] = {[HL_EXCHANGE_NONE] = "private",
                                      [HL_EXCHANGE_SYMMETRIC] = "symmetric",
                                      [HL_EXCHANGE_PEER] = "peer"};
  const char *name = hl_pass_text(p, option);
  for (int k = 0; k < HL_COUNT_OF(modes); k++)
    if (modes[k] && strcmp(modes[k], name) == 0) {
      *out = (HlExchangeMode)k;
      return true;
    }
  return hl_error(p->cx, (HlPos){0},
                  "collective-backend-assigner: %s is private, symmetric or peer, not '%s'", option,
                  name);
}

static void assign(HlPass *p, HlInst *inst, HlExchangeMode mode) {
  HlCollectiveConfig config = hl_collective_config(NULL, inst);
  if (config.mode == mode || !hl_change(p, "assign", inst, NULL))
    return;
  config.mode = mode;
  hl_set_collective_config(p->arena, inst, &config);
  hl_changed(p);
}

bool pass_collective_backend_assigner(HlPass *p) {
  HlExchangeMode permutes, gathers;
  if (!read_mode(p, "collective_permute_mode", &permutes) ||
      !read_mode(p, "all_gather_mode", &gathers))
    return false;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      HlExchangeMode mode = HL_EXCHANGE_NONE;
      if (inst->op == HL_OP_COLLECTIVE_PERMUTE || inst->op == HL_OP_COLLECTIVE_PERMUTE_START)
        mode = permutes;
      if (inst->op == HL_OP_ALL_GATHER || inst->op == HL_OP_ALL_GATHER_START)
        mode = gathers;
      if (mode != HL_EXCHANGE_NONE)
        assign(p, inst, mode);
    }
  return true;
}
