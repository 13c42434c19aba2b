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

// The mode that an option names, as JSON; "" for private memory, NULL after reporting.
static const char *mode_of(HlPass *p, const char *option) {
  static const char *const modes[][2] = {{"private", ""},
                                         {"symmetric", "\"COLLECTIVES_SYMMETRIC_MEMORY\""},
                                         {"peer", "\"COLLECTIVES_PEER_MEMORY\""}};
  const char *name = hl_pass_text(p, option);
  for (int k = 0; k < HL_COUNT_OF(modes); k++)
    if (strcmp(modes[k][0], name) == 0)
      return modes[k][1];
  hl_error(p->cx, (HlPos){0},
           "collective-backend-assigner: %s is private, symmetric or peer, not '%s'", option, name);
  return NULL;
}

static void assign(HlPass *p, HlInst *inst, const char *mode) {
  const char *config = hl_attr_text(inst, HL_A_BACKEND_CONFIG);
  const char *own = hl_config_get(p->arena, config, HL_CONFIG_COLLECTIVE);
  own = hl_config_with(p->arena, own ? own : "", HL_CONFIG_COLLECTIVES_MODE, mode);
  config = hl_config_with(p->arena, config, HL_CONFIG_COLLECTIVE, own);
  if (strcmp(config, hl_attr_text(inst, HL_A_BACKEND_CONFIG)) == 0 ||
      !hl_change(p, "assign", inst, NULL))
    return;
  hl_set_text(inst, HL_A_BACKEND_CONFIG, config);
  hl_changed(p);
}

bool pass_collective_backend_assigner(HlPass *p) {
  const char *permutes = mode_of(p, "collective_permute_mode");
  const char *gathers = permutes ? mode_of(p, "all_gather_mode") : NULL;
  if (!gathers)
    return false;
  for (HlComp *comp = p->m->first; comp; comp = comp->next)
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      const char *mode = "";
      if (inst->op == HL_OP_COLLECTIVE_PERMUTE || inst->op == HL_OP_COLLECTIVE_PERMUTE_START)
        mode = permutes;
      if (inst->op == HL_OP_ALL_GATHER || inst->op == HL_OP_ALL_GATHER_START)
        mode = gathers;
      if (*mode)
        assign(p, inst, mode);
    }
  return true;
}
