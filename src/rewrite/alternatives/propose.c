// rewrite/alternatives/propose.c: proposals as those who ask for them see them.

#include "rewrite/alternatives/proposals.h"

HlProposals *hl_propose(HlCx *cx, HlModule *m, const char *pipeline,
                        const HlProposeOptions *options) {
  HlArena *arena = hl_arena_new();
  HlProposals *p = HL_NEW(arena, HlProposals);
  *p = (HlProposals){.cx = cx, .arena = arena, .m = m};
  store_begin(p);
  if (capture_run(p, pipeline, options))
    return p;
  hl_proposals_free(p);
  return NULL;
}

void hl_proposals_free(HlProposals *p) {
  if (!p)
    return;
  hl_module_free(p->store);
  hl_arena_free(p->arena);
}

int hl_n_proposals(const HlProposals *p) {
  return p->offers.n;
}

HlProposal hl_proposal(const HlProposals *p, int k) {
  const Offer *offer = &p->offers.at[k];
  return (HlProposal){.rewrite = offer->rewrite,
                      .pass = offer->pass,
                      .rule = offer->rule,
                      .comp = offer->comp_name,
                      .inst = offer->inst_name,
                      .with = offer->with,
                      .n_uses = offer->n_uses,
                      .n_made = offer->n_made,
                      .n_inside = offer->n_inside,
                      .is_known = offer->by->op == HL_OP_PARAMETER};
}

HlProposeCounts hl_propose_counts(const HlProposals *p) {
  return p->counts;
}
