// sim/graph/lattice.c: collectives over a grid of two dimensions.
//
// Two streams with half the data each: the first goes along dimension 1 and then 2, the second the other way round, so that the
// links of both are busy at all times. Several processors on a node exchange before or after that, or in the same step
// (integrated). Each stage is a collective of one dimension, on a line (mesh) or two rings (torus).

#include "sim/graph/translate.h"

#include <string.h>

typedef struct Stages {
  Coll *c;
  HlSimOp op;
  SimRule rule;        // of a stage
  HlSimNode *last[2];  // of each stream
  double size[2];
} Stages;

static Stages begin(Coll *c, HlSimOp op) {
  const char *inner = strcmp(c->rule->how->text, "mesh-2d") == 0 ? "mesh-1d" : "bidir-ring";
  return (Stages){.c = c, .op = op, .rule = sim_rule(c, op, inner, true)};
}

static bool has_own_step(const Coll *c) {
  return c->rule->concentration > 1 && !c->rule->local;
}

// The members that a stage runs over. `first`: what is integrated goes into the first stage, else into the last.
static HlI64s stage_group(const Coll *c, int stream, int stage, bool first) {
  const int d = (stream + stage) % 2;
  const bool local = c->rule->local && stage == (first ? 0 : 1);
  return sim_project(c->graph->arena, c->rule, c->group, c->graph->processor,
                     1u << (d + 1) | (local ? 1u : 0));
}

static bool run_stage(Stages *s, int stream, int stage, HlI64s group, double share) {
  Coll *c = s->c;
  const SimPart part = {.op = s->op,
                        .group = group,
                        .size = s->size[stream],
                        .share = share,
                        .rule = &s->rule,
                        .name = sim_name(c->graph, "%.*s_stream-%d_stage-%d", (int)c->name.n,
                                         c->name.at, stream, stage)};
  s->last[stream] = sim_part(c, &part, s->last[stream]);
  return s->last[stream] != NULL;
}

static void join(Stages *s, HlSimNode *node) {
  sim_after(node, s->last[0]);
  sim_after(node, s->last[1]);
}

// Over the processors of a node; NULL in *out where there is one only.
static bool run_local(Stages *s, HlSimNode **out) {
  Coll *c = s->c;
  *out = NULL;
  const HlI64s group = sim_project(c->graph->arena, c->rule, c->group, c->graph->processor, 1);
  if (group.n < 2)
    return true;
  const SimPart part = {.op = s->op,
                        .group = group,
                        .size = c->size,
                        .share = 1,
                        .rule = &s->rule,
                        .name = sim_join(c->graph, c->name, hl_str("_conc"))};
  // It comes after the streams, of which there are none yet in a reduce-scatter.
  *out = sim_part(c, &part, s->last[0]);
  if (*out)
    sim_after(*out, s->last[1]);
  return *out != NULL;
}

bool sim_make_gather_grid(Coll *c) {
  Stages s = begin(c, HL_SIM_ALL_GATHER);
  if (!sim_check_block(c))
    return false;
  s.size[0] = s.size[1] = c->size / c->group.n / 2;
  for (int stream = 0; stream < 2; stream++)
    for (int stage = 0; stage < 2; stage++) {
      const HlI64s group = stage_group(c, stream, stage, false);
      s.size[stream] *= group.n;
      if (group.n > 1 && !run_stage(&s, stream, stage, group, 1))
        return false;
    }
  if (has_own_step(c)) {
    if (!run_local(&s, &c->sub->root))
      return false;
    if (c->sub->root ||
        c->compat == HL_SIM_PARAGRAPH)  // which makes no root where a node has one member
      return true;
  }
  join(&s, sim_null_root(c, c->name, "_root", -1));
  return true;
}

bool sim_make_scatter_grid(Coll *c) {
  Stages s = begin(c, HL_SIM_REDUCE_SCATTER);
  if (!sim_check_block(c))
    return false;
  s.size[0] = s.size[1] =
      has_own_step(c) ? c->size / 2 / (double)c->rule->concentration : c->size / 2;
  if (has_own_step(c)) {
    if (!run_local(&s, &s.last[0]))
      return false;
    s.last[1] = s.last[0];
  }
  for (int stream = 0; stream < 2; stream++)
    for (int stage = 0; stage < 2; stage++) {
      const HlI64s group = stage_group(c, stream, stage, true);
      const double share = c->size != 0 && s.size[stream] != 0 ? s.size[stream] / c->size : 1;
      if (group.n < 2)
        continue;
      if (!run_stage(&s, stream, stage, group, share))
        return false;
      s.size[stream] /= group.n;
    }
  join(&s, sim_null_root(c, c->name, "_root", -1));
  return true;
}

// One collective on two rings, over the members in the order of a ring through the grid.
bool sim_make_grid_ring(Coll *c) {
  const HlSimOp op = sim_op(c->node);
  const SimRule rule = sim_rule(c, op, "bidir-ring", true);
  if (op == HL_SIM_ALL_REDUCE && c->compat == HL_SIM_PARAGRAPH)
    c->sub->name = sim_join(c->graph, c->name, hl_str("_mesh-2d"));
  const SimPart part = {.op = op,
                        .name = c->stem,
                        .size = c->size,
                        .share = 1,
                        .rule = &rule,
                        .group = sim_ring_order(c->graph->arena, c->rule, c->group)};
  c->sub->root = sim_part(c, &part, NULL);
  return c->sub->root != NULL;
}
