// Reads MLIR text: that values are defined before they are used, in regions of several blocks too.
//
// A value may be used where its definition dominates the use: in the blocks that are only reached through it. The
// dominators of a region's blocks are found by Cooper, Harvey and Kennedy's walk over the blocks in reverse
// postorder; unreachable blocks may use what they like.
#include "mlir/text/parse.h"

#include <string.h>

typedef struct Flow {
  const HlMlRegion *region;
  int n;
  HlMlBlock **block;  // by number
  int *order;         // reverse postorder: numbers of blocks
  int *place;         // by number: in `order`; -1: unreachable
  int *above;         // by place: place of the immediate dominator
  int *from, *size;   // by place: a block dominates those from its number on, so many
} Flow;

static void find_order(MpParser *p, Flow *f) {
  int *stack = HL_ARRAY(p->own, int, f->n), *next = HL_ARRAY(p->own, int, f->n),
      *post = HL_ARRAY(p->own, int, f->n);
  bool *seen = HL_ARRAY(p->own, bool, f->n);
  int depth = 0, n_post = 0;
  stack[depth++] = 0;
  seen[0] = true;
  while (depth) {
    const int at = stack[depth - 1];
    const HlMlOp *last = f->block[at]->last;
    if (last && next[at] < (int)last->n_successors) {
      const HlMlBlock *to = last->successors[next[at]++];
      if (!seen[to->number]) {
        seen[to->number] = true;
        stack[depth++] = to->number;
      }
      continue;
    }
    post[n_post++] = at;
    depth--;
  }
  for (int k = 0; k < f->n; k++)
    f->place[k] = -1;
  for (int k = 0; k < n_post; k++) {
    f->order[k] = post[n_post - 1 - k];
    f->place[f->order[k]] = k;
  }
  f->n = n_post;
}

static int meet(const Flow *f, int a, int b) {
  while (a != b) {
    while (a > b)
      a = f->above[a];
    while (b > a)
      b = f->above[b];
  }
  return a;
}

static void find_dominators(Flow *f) {
  for (int k = 0; k < f->n; k++)
    f->above[k] = -1;
  f->above[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (int k = 0; k < f->n; k++) {
      const HlMlOp *last = f->block[f->order[k]]->last;
      for (uint32_t j = 0; last && f->above[k] >= 0 && j < last->n_successors; j++) {
        const int to = f->place[last->successors[j]->number];
        const int now = f->above[to] < 0 ? k : meet(f, f->above[to], k);
        changed |= to != 0 && now != f->above[to];
        f->above[to] = to == 0 ? 0 : now;
      }
    }
  }
}

// Numbers the blocks so that those that one dominates follow it.
static void number_dominated(MpParser *p, Flow *f) {
  int *next = HL_ARRAY(p->own, int, f->n);
  for (int k = f->n - 1; k >= 0; k--) {
    f->size[k]++;
    if (k)
      f->size[f->above[k]] += f->size[k];
  }
  for (int k = 0; k < f->n; k++) {
    if (k) {
      f->from[k] = next[f->above[k]];
      next[f->above[k]] += f->size[k];
    }
    next[k] = f->from[k] + 1;
  }
}

static Flow flow_of(MpParser *p, const HlMlRegion *region) {
  const int n = region->last->number + 1;
  Flow f = {.region = region, .n = n, .block = HL_ARRAY(p->own, HlMlBlock *, n)};
  int **tables[] = {&f.order, &f.place, &f.above, &f.from, &f.size};
  for (int k = 0; k < HL_COUNT_OF(tables); k++)
    *tables[k] = HL_ARRAY(p->own, int, n);
  for (HlMlBlock *block = region->first; block; block = block->next)
    f.block[block->number] = block;
  find_order(p, &f);
  find_dominators(&f);
  number_dominated(p, &f);
  return f;
}

static bool block_dominates(const Flow *f, const HlMlBlock *a, const HlMlBlock *b) {
  const int above = f->place[a->number], below = f->place[b->number];
  if (below < 0)
    return true;
  return above >= 0 && f->from[below] >= f->from[above] &&
         f->from[below] - f->from[above] < f->size[above];
}

// A region being walked, and the one around it.
typedef struct Frame {
  const HlMlRegion *region;
  const HlMlBlock *block;  // where the walk is
  const Flow *flow;        // NULL: there is one block
  const struct Frame *outer;
} Frame;

typedef struct Check {
  MpParser *p;
  bool *seen;  // by value: its definition has been passed
  bool ok;
} Check;

static bool is_usable(const Check *c, const Frame *at, const HlMlValue *value) {
  const HlMlBlock *home = value->def ? value->def->block : value->block;
  while (at && at->region != home->region)
    at = at->outer;
  if (!at)
    return false;
  if (home == at->block || !at->flow)
    return c->seen[value->index] || (at->region->op && at->region->op->row == ML_BUILTIN_MODULE);
  return block_dominates(at->flow, home, at->block);
}

static void check_region(Check *c, const HlMlRegion *region, const Frame *outer);

static void check_op(Check *c, const HlMlOp *op, const Frame *at) {
  for (uint32_t k = 0; k < op->n_operands; k++)
    if (!is_usable(c, at, op->operands[k]))
      c->ok =
          mp_error(c->p, c->p->in.begin + op->loc - 1, "operand #%u does not dominate this use", k);
  for (uint32_t k = 0; k < op->n_regions; k++)
    check_region(c, &op->regions[k], at);
  for (uint32_t k = 0; k < op->n_results; k++)
    c->seen[op->results[k].index] = true;
}

// As deep as the text was nested, which has a limit.
static void check_region(Check *c, const HlMlRegion *region, const Frame *outer) {
  if (!region->first)
    return;
  Flow flow;
  const bool has_flow = region->first != region->last;
  if (has_flow)
    flow = flow_of(c->p, region);
  Frame frame = {region, region->first, has_flow ? &flow : NULL, outer};
  for (; frame.block; frame.block = frame.block->next) {
    for (int k = 0; k < frame.block->n_args; k++)
      c->seen[frame.block->args[k]->index] = true;
    for (const HlMlOp *op = frame.block->first; op; op = op->next)
      check_op(c, op, &frame);
  }
}

bool mp_check_flow(MpParser *p) {
  Check check = {p, HL_ARRAY(p->own, bool, p->tree->n_values), true};
  for (uint32_t k = 0; k < p->tree->module->n_regions; k++)
    check_region(&check, &p->tree->module->regions[k], NULL);
  return check.ok;
}
