// opt/memory/copy_removal.c: takes away copies that memory can do without.
//
// Each buffer is a list of the values that live in it, one after the other. A copy of s_x, a value of
// one buffer, makes d_y, a value of another. Without the copy the two lists become one; that is
// possible where all values still follow each other, that is where every use of one has ended when the
// next is defined:
//
//   the copy makes the first of its list:      s_0 .. s_x  d_1 .. d_m  s_x+1 .. s_n
//   the copy reads the last of its list:       d_0 .. d_y-1  s_0 .. s_n  d_y+1 .. d_m
//
// The graph is left alone until all is decided: copies that go are noted.

#include <stdlib.h>
#include <string.h>

#include "opt/memory/copy_insertion.h"

typedef struct Node {  // a value in the circular list of its buffer
  uint32_t prev, next;
  bool is_head, removed;
  HlValueUse *use;
  int n_uses, capacity;
  uint32_t standing_for;  // the last value of a copy that is removed, whose memory is this one's now, plus 1; 0: none
  uint32_t others;        // of such a value: the one before it that the same stands for, plus 1
} Node;

typedef struct Copy {
  HlInst *inst;
  uint32_t source, dest;
  bool removed;
} Copy;

typedef struct Removal {
  HlPass *p;
  HlArena *arena;
  const HlFlow *flow;
  CopyOrder *order;
  Node *node;       // by value
  uint32_t **rank;  // [comp->id][inst->id]: order of execution
  Copy *copy;
  int n;
  int32_t *copy_at;  // by value: the copy that makes it, -1: none
  int64_t effort;    // steps that are left for comparing values
} Removal;

enum { EFFORT = 1 << 28 };

// --- Lists of values -----------------------------------------------------------------------------

typedef struct Frame {
  const HlComp *comp;
  uint32_t at;
  int call;
} Frame;

static void enter(Removal *r, Frame *stack, int *depth, const HlComp *comp, uint32_t *next) {
  if (r->rank[comp->id] || !r->flow->post_order[comp->id])
    return;
  r->rank[comp->id] = HL_ARRAY(r->arena, uint32_t, comp->next_id + 1);
  for (int k = 0; k < comp->n_params; k++)
    if (comp->params[k])
      r->rank[comp->id][comp->params[k]->id] = (*next)++;
  stack[(*depth)++] = (Frame){comp, 0, 0};
}

// Ranks instructions as they run; what is called before its call, parameters first.
static void rank_instructions(Removal *r) {
  const HlModule *m = r->flow->m;
  r->rank = HL_ARRAY(r->arena, uint32_t *, m->next_comp_id + 1);
  Frame *stack = HL_ARRAY(r->arena, Frame, m->n_comps + 1);
  uint32_t next = 0;
  const HlComp *start = m->entry;
  for (const HlComp *more = m->first; start; start = more, more = more ? more->next : NULL) {
    int depth = 0;
    enter(r, stack, &depth, start, &next);
    while (depth > 0) {
      Frame *top = &stack[depth - 1];
      if (top->at == top->comp->n_insts) {
        depth--;
        continue;
      }
      const HlInst *inst =
          (top->comp->schedule ? top->comp->schedule : r->flow->post_order[top->comp->id])[top->at];
      if (inst->op != HL_OP_PARAMETER && top->call < inst->n_calls) {
        int call = top->call++;
        bool loop = inst->op == HL_OP_WHILE;  // the condition runs first
        enter(r, stack, &depth, hl_called(inst, loop ? 1 - call : call), &next);
        continue;
      }
      if (inst->op != HL_OP_PARAMETER)
        r->rank[inst->comp->id][inst->id] = next++;
      top->at++;
      top->call = 0;
    }
  }
}

typedef struct Ranked {
  uint32_t rank, value;
} Ranked;

static int by_rank(const void *a, const void *b) {
  const Ranked *x = a, *y = b;
  if (x->rank != y->rank)
    return x->rank < y->rank ? -1 : 1;
  return x->value < y->value ? -1 : x->value > y->value;
}

static void list_buffer(Removal *r, const HlBuffer *buffer) {
  const HlFlow *flow = r->flow;
  HlMark mark = hl_arena_mark(r->arena);
  Ranked *list = HL_ARRAY(r->arena, Ranked, buffer->n);
  for (uint32_t k = 0; k < buffer->n; k++) {
    uint32_t value = flow->buffer_value[buffer->first + k];
    const HlInst *inst = hl_value_inst(flow, value);
    list[k] = (Ranked){r->rank[inst->comp->id][inst->id], value};
  }
  qsort(list, buffer->n, sizeof *list, by_rank);
  for (uint32_t k = 0; k < buffer->n; k++) {
    Node *node = &r->node[list[k].value];
    node->prev = list[(k + buffer->n - 1) % buffer->n].value;
    node->next = list[(k + 1) % buffer->n].value;
    node->is_head = k == 0;
  }
  hl_arena_release(r->arena, mark);
}

static void list_values(Removal *r) {
  const HlFlow *flow = r->flow;
  r->node = HL_ARRAY(r->arena, Node, flow->n_values + 1);
  for (uint32_t b = 0; b < flow->n_buffers; b++)
    list_buffer(r, &flow->buffer[b]);
}

// Uses are looked up when first asked for: most values are far from any copy.
static Node *node_at(Removal *r, uint32_t value) {
  Node *node = &r->node[value];
  if (!node->use) {
    node->use = hl_value_uses(r->arena, r->flow, value, &node->n_uses);
    node->capacity = node->n_uses;
  }
  return node;
}

static uint32_t next_of(const Removal *r, uint32_t value) {
  uint32_t next = r->node[value].next;
  return r->node[next].is_head ? HL_NO_VALUE : next;
}

static uint32_t prev_of(const Removal *r, uint32_t value) {
  return r->node[value].is_head ? HL_NO_VALUE : r->node[value].prev;
}

// --- May it go -----------------------------------------------------------------------------------

static bool is_itself_in_root_of(const HlFlow *flow, uint32_t value, const HlComp *comp) {
  const HlValue *v = &flow->value[value];
  for (uint32_t k = 0; k < v->n_positions; k++)
    if (flow->slot_inst[flow->position[v->first_position + k]] == comp->root)
      return true;
  return false;
}

// Or what was a copy of it.
static bool is_in_root_of(const Removal *r, uint32_t value, const HlComp *comp) {
  if (is_itself_in_root_of(r->flow, value, comp))
    return true;
  for (uint32_t k = r->node[value].standing_for; k > 0; k = r->node[k - 1].others)
    if (is_itself_in_root_of(r->flow, k - 1, comp))
      return true;
  return false;
}

// Takes a step for each use and each level of calls around the value.
static bool may_compare(Removal *r, const Node *node, uint32_t b) {
  const int depth = r->order->depth[hl_value_inst(r->flow, b)->comp->id];
  r->effort -= (int64_t)(node->n_uses + 1) * (depth + 1);
  return r->effort >= 0;
}

static bool is_before(Removal *r, uint32_t a, uint32_t b) {
  const Node *node = node_at(r, a);
  if (!may_compare(r, node, b))
    return false;
  if (node->n_uses == 0)
    return copy_order_defined(r->order, a, b);
  if (is_in_root_of(r, a, hl_value_inst(r->flow, b)->comp))
    return false;
  return copy_order_uses_end(r->order, node->n_uses, node->use, b);
}

// Every value from `a` back to the head has ended when any from `b` on to the tail is defined. Lists
// of very many values, as of a thousand loops in a row, are not compared to the end: copies stay.
static bool is_range_before(Removal *r, uint32_t a, uint32_t b) {
  for (uint32_t z = b; z != HL_NO_VALUE; z = next_of(r, z))
    for (uint32_t y = a; y != HL_NO_VALUE; y = prev_of(r, y))
      if (!is_before(r, y, z))
        return false;
  return true;
}

// Takes the list that starts with `head` in behind `after`.
static void splice(Removal *r, uint32_t head, uint32_t after) {
  Node *node = r->node;
  uint32_t tail = node[head].prev;
  node[head].is_head = false;
  node[tail].next = node[after].next;
  node[node[after].next].prev = tail;
  node[after].next = head;
  node[head].prev = after;
}

// A scatter of several operands must not read one that it also writes elsewhere.
static bool feeds_variadic_scatter(Removal *r, const Copy *copy) {
  uint32_t next = next_of(r, copy->dest);
  if (next == HL_NO_VALUE)
    return false;
  const HlInst *user = hl_value_inst(r->flow, next), *scatter = user;
  if (user->op == HL_OP_FUSION)
    scatter = hl_to_apply(user)->root;
  if (scatter->op != HL_OP_SCATTER || !hl_shape_is_tuple(scatter->shape))
    return false;
  const Node *source = node_at(r, copy->source);
  for (int k = 0; k < source->n_uses; k++)
    if (source->use[k].user == user)
      return true;
  return false;
}

typedef enum Way { KEEP, SHARED, FIRST, LAST } Way;

static Way find_way(Removal *r, const Copy *copy) {
  uint32_t s = copy->source, d = copy->dest;
  Node *node = r->node;
  if (node[s].next == d)
    return SHARED;
  if (node[d].is_head) {
    if (feeds_variadic_scatter(r, copy) || !is_range_before(r, s, next_of(r, d)) ||
        !is_range_before(r, node[d].prev, next_of(r, s)))
      return KEEP;
    return FIRST;
  }
  if (node[node[s].next].is_head) {
    if (!is_range_before(r, prev_of(r, d), node[s].next) || !is_range_before(r, s, next_of(r, d)))
      return KEEP;
    return LAST;
  }
  return KEEP;
}

// --- Letting it go -------------------------------------------------------------------------------

static void add_use(Removal *r, Node *node, HlValueUse use) {
  if (node->n_uses == node->capacity) {
    node->capacity = 2 * node->capacity + 4;
    HlValueUse *more = HL_ARRAY(r->arena, HlValueUse, node->capacity);
    if (node->n_uses > 0)
      memcpy(more, node->use, sizeof *more * (size_t)node->n_uses);
    node->use = more;
  }
  node->use[node->n_uses++] = use;
}

// For a value, and for all that this stood for.
static void stand_for(Node *nodes, Node *source, uint32_t value) {
  uint32_t *end = &nodes[value].standing_for;
  while (*end > 0)
    end = &nodes[*end - 1].others;
  *end = source->standing_for;
  nodes[value].others = nodes[value].standing_for;
  source->standing_for = value + 1;
}

// The copy's result leaves its list; its uses become the source's.
static void take_out(Removal *r, const Copy *copy) {
  Node *dest = node_at(r, copy->dest);
  uint32_t from = dest->prev;
  Node *source = node_at(r, from);
  r->node[dest->prev].next = dest->next;
  r->node[dest->next].prev = dest->prev;
  dest->removed = true;
  stand_for(r->node, source, copy->dest);
  for (int k = 0; k < source->n_uses; k++)
    if (source->use[k].user == copy->inst) {
      memmove(&source->use[k], &source->use[k + 1],
              sizeof *source->use * (size_t)(source->n_uses - k - 1));
      source->n_uses--;
      break;
    }
  for (int k = 0; k < dest->n_uses; k++) {
    add_use(r, source, dest->use[k]);
    const HlInst *user = dest->use[k].user;
    int32_t other = user->op == HL_OP_COPY ? r->copy_at[hl_value_of(r->flow, user)] : -1;
    if (other >= 0)
      r->copy[other].source = from;
  }
}

static void cut_control(HlInst *inst) {
  while (inst->control && inst->control->n_preds > 0)
    hl_remove_control(inst->control->preds[inst->control->n_preds - 1], inst);
  while (inst->control && inst->control->n_succs > 0)
    hl_remove_control(inst, inst->control->succs[inst->control->n_succs - 1]);
}

// Whether the value is there from the start of its computation, or made by another instruction.
static bool only_names(const HlInst *inst) {
  return inst->op == HL_OP_PARAMETER || inst->op == HL_OP_CONSTANT || inst->op == HL_OP_TUPLE ||
         inst->op == HL_OP_GET_TUPLE_ELEMENT || inst->op == HL_OP_BITCAST;
}

// What came after the copy comes after what it copied: others may have been removed because of that order.
static void remove_copy(HlInst *copy) {
  HlInst *from = copy->operands[0];
  for (int k = 0; !only_names(from) && copy->control && k < copy->control->n_succs; k++)
    hl_add_control(from, copy->control->succs[k]);
  cut_control(copy);
  hl_replace_uses(copy, copy->operands[0]);
  hl_erase(copy);
}

// Shows what removing it changes. The graph is needed as it was until all is decided.
static bool may_remove(Removal *r, HlInst *copy) {
  if (!hl_change(r->p, "remove-copy", copy, NULL))
    return false;
  const HlEditMark mark = hl_mark(r->p->m);
  remove_copy(copy);
  if (!hl_changed(r->p))
    return false;
  hl_undo(r->p->m, mark);
  return true;
}

static bool try_copy(Removal *r, Copy *copy) {
  if (copy->removed || copy->inst->shape != copy->inst->operands[0]->shape)
    return false;
  Way way = find_way(r, copy);
  if (way == KEEP || !may_remove(r, copy->inst))
    return false;
  if (way == FIRST)
    splice(r, copy->dest, copy->source);
  else if (way == LAST)
    splice(r, r->node[copy->source].next, r->node[copy->dest].prev);
  take_out(r, copy);
  copy->removed = true;
  return true;
}

static void find_copies(Removal *r) {
  const HlFlow *flow = r->flow;
  int n = 0;
  for (const HlComp *comp = flow->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next)
      n += inst->op == HL_OP_COPY;
  r->copy = HL_ARRAY(r->arena, Copy, n + 1);
  r->copy_at = HL_ARRAY(r->arena, int32_t, flow->n_values + 1);
  memset(r->copy_at, 0xff, sizeof *r->copy_at * flow->n_values);
  for (const HlComp *comp = flow->m->first; comp; comp = comp->next) {
    if (comp->is_fusion)
      continue;
    for (uint32_t id = 0; id < comp->next_id; id++) {
      HlInst *inst = comp->by_id[id];
      if (!inst || inst->op != HL_OP_COPY || hl_value_of(flow, inst->operands[0]) == HL_NO_VALUE)
        continue;
      uint32_t dest = hl_value_of(flow, inst);
      r->copy_at[dest] = r->n;
      r->copy[r->n++] = (Copy){inst, hl_value_of(flow, inst->operands[0]), dest, false};
    }
  }
}

bool copy_removal(HlPass *p) {
  HlArena *arena = hl_arena_new();
  Removal r = {.p = p, .arena = arena, .effort = EFFORT};
  r.flow = hl_flow_new(p->cx, arena, p->m,
                       HL_FLOW_MERGE | HL_FLOW_NO_FUSIONS |
                           (hl_target_has_blocks(p->target) ? HL_FLOW_BLOCKS : 0));
  if (r.flow)
    find_copies(&r);
  if (r.n > 0) {
    r.order = copy_order_new(arena, r.flow);
    rank_instructions(&r);
    list_values(&r);
    for (bool changed = true; changed;) {
      changed = false;
      for (int k = 0; k < r.n; k++)
        changed |= try_copy(&r, &r.copy[k]);
    }
    for (int k = 0; k < r.n; k++)
      if (r.copy[k].removed)
        remove_copy(r.copy[k].inst);
  }
  bool fine = r.flow != NULL;
  hl_arena_free(arena);
  return fine;
}
