// sim/graph/order.c: post order: operands, then what a node calls, then the node.
//
// The walk is ParaGraph's: depth first from the root of a subroutine; what the root does not reach comes just before it, in the
// order of the list, each with its own walk. It is done with a stack of our own, since operands may form a chain as long as the
// graph.

#include "sim/graph/graph.h"

enum { NEW, OPEN, DONE };

typedef struct Step {
  HlSimNode *node;
  int operand, inner;  // those walked
} Step;

// A subroutine being walked: first its root's walk, then the rest of its list.
typedef struct Frame {
  const HlSimSub *sub;
  int next;   // in its list
  int base;   // of the stack of steps when it began
  bool rest;  // the root is done
} Frame;

typedef struct Walk {
  HlCx *cx;
  HlArena *arena;
  uint8_t *state;
  SimNodes *out;
  bool deep;
  VEC(Step) steps;
  VEC(Frame) frames;
} Walk;

static bool cycle(Walk *w, const HlSimNode *node) {
  return hl_error(w->cx, (HlPos){0}, "instruction %.*s (%lld) depends on itself", (int)node->name.n,
                  node->name.at, (long long)node->id);
}

static bool visit(Walk *w, HlSimNode *node) {
  uint8_t *state = &w->state[node->serial];
  if (*state == OPEN)
    return cycle(w, node);
  if (*state == NEW) {
    *state = OPEN;
    vec_push(&w->steps, ((Step){node, 0, 0}));
  }
  return true;
}

static bool enter(Walk *w, const HlSimSub *sub) {
  vec_push(&w->frames, ((Frame){sub, 0, w->steps.n, false}));
  return visit(w, sub->root);
}

// Ends a frame whose list is done: the root, which was taken out, goes behind the rest.
static void leave(Walk *w) {
  const Frame frame = vec_pop(&w->frames);
  vec_push_in(w->arena, w->out, frame.sub->root);
}

static bool step(Walk *w) {
  Frame *frame = &vec_last(&w->frames);
  if (w->steps.n == frame->base) {  // no walk is open in this subroutine
    if (!frame->rest) {
      frame->rest = true;
      w->out->n--;  // the root is the last one
    }
    while (frame->next < frame->sub->n_nodes &&
           w->state[frame->sub->nodes[frame->next]->serial] != NEW)
      frame->next++;
    if (frame->next < frame->sub->n_nodes)
      return visit(w, frame->sub->nodes[frame->next]);
    leave(w);
    return true;
  }
  Step *top = &vec_last(&w->steps);
  if (top->operand < top->node->n_operands)
    return visit(w, top->node->operands[top->operand++]);
  if (w->deep && top->inner < top->node->n_subs)
    return enter(w, top->node->subs[top->inner++]);
  w->state[top->node->serial] = DONE;
  vec_push_in(w->arena, w->out, top->node);
  w->steps.n--;
  return true;
}

bool sim_walk_post_order(HlCx *cx, HlArena *arena, const HlSimSub *sub, bool deep, uint8_t *state,
                         SimNodes *out) {
  Walk w = {.cx = cx, .arena = arena, .state = state, .out = out, .deep = deep};
  bool ok = enter(&w, sub);
  while (ok && w.frames.n > 0)
    ok = step(&w);
  vec_free(&w.steps);
  vec_free(&w.frames);
  return ok;
}

HlSimNode **hl_sim_post_order(HlCx *cx, HlArena *arena, const HlSimGraph *graph, int64_t *n) {
  SimNodes out = {0};
  uint8_t *state = HL_ARRAY(arena, uint8_t, graph->n_serials + 1);
  if (!sim_walk_post_order(cx, arena, graph->entry, true, state, &out))
    return NULL;
  *n = out.n;
  return out.at;
}

HlSimNode **hl_sim_sub_post_order(HlCx *cx, HlArena *arena, const HlSimSub *sub, int *n) {
  SimNodes out = {0};
  uint8_t *state = HL_ARRAY(arena, uint8_t, sub->graph->n_serials + 1);
  if (!sim_walk_post_order(cx, arena, sub, false, state, &out))
    return NULL;
  *n = out.n;
  return out.at;
}
