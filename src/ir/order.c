// ir/order.c: the orders in which XLA prints instructions and computations (hlo.md 5.2).

#include "base/memory.h"
#include "ir/state.h"

// --- Instructions -------------------------------------------------------------------------------

enum { NEW, VISITING, DONE };

typedef struct PostOrder {
  uint8_t *state;  // by id
  HlInst **stack;
  size_t depth;
  HlInst **out;
  size_t n;
} PostOrder;

static void push(PostOrder *p, HlInst *inst) {
  if (p->state[inst->id] != DONE)
    p->stack[p->depth++] = inst;
}

// Operands are pushed in reverse, so that the first comes out first, control predecessors on top.
static void visit(PostOrder *p, HlInst *start) {
  push(p, start);
  while (p->depth > 0) {
    HlInst *inst = p->stack[p->depth - 1];
    if (p->state[inst->id] != NEW) {
      p->depth--;
      if (p->state[inst->id] == VISITING)
        p->out[p->n++] = inst;
      p->state[inst->id] = DONE;
      continue;
    }
    p->state[inst->id] = VISITING;
    for (uint32_t k = inst->n_operands; k > 0; k--)
      push(p, inst->operands[k - 1]);
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      push(p, inst->control->preds[k]);
  }
}

// What is about to be walked lies about in memory: it is on its way before the walk asks for it. Of a large computation, some.
static void fetch_insts(const HlComp *comp) {
  const uint32_t n = comp->next_id < 256 ? comp->next_id : 256;
  for (uint32_t id = 0; id < n; id++)
    __builtin_prefetch(comp->by_id[id]);
}

// Each edge is pushed once, each instruction without users once.
static size_t stack_size(const HlComp *comp) {
  size_t n = comp->n_insts + 1;
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    n += inst->n_operands + (inst->control ? (size_t)inst->control->n_preds : 0);
  return n;
}

HlInst **hl_post_order(HlArena *arena, const HlComp *comp) {
  base_look();
  HlInst **out = HL_ARRAY(arena, HlInst *, comp->n_insts + 1);
  HlMark mark = hl_arena_mark(arena);
  PostOrder p = {.out = out};
  p.state = HL_ARRAY(arena, uint8_t, comp->next_id + 1);
  fetch_insts(comp);
  p.stack = HL_ARRAY(arena, HlInst *, stack_size(comp));
  for (uint32_t id = 0; id < comp->next_id; id++)  // ids grow in creation order
    if (comp->by_id[id] && !comp->by_id[id]->first_use)
      visit(&p, comp->by_id[id]);
  hl_arena_release(arena, mark);
  return out;
}

HlInst **hl_print_order(HlArena *arena, const HlComp *comp) {
  if (!comp->schedule)
    return hl_post_order(arena, comp);
  HlInst **out = HL_ARRAY(arena, HlInst *, comp->n_insts + 1);
  for (uint32_t k = 0; k < comp->n_insts; k++)
    out[k] = comp->schedule[k];
  return out;
}

// --- Computations -------------------------------------------------------------------------------

enum { UNSEEN, STARTED, EMITTED };

typedef struct CompFrame {
  HlComp *comp;
  uint32_t next_id;  // the next instruction to look at
} CompFrame;

typedef struct CompOrder {
  uint8_t *state;  // by id
  CompFrame *stack;
  size_t depth;
  HlComp **out;
  size_t n;
} CompOrder;

// XLA passes over a callee that waits on the stack already, and prints b before c for branches {b,
// c} where b calls c too. Here only one that is started or printed is passed over.
static void push_callees(CompOrder *o, const HlInst *inst) {
  for (int k = inst->n_calls; k > 0; k--) {
    HlComp *callee = inst->calls[k - 1].comp;
    if (o->state[callee->id] == UNSEEN)
      o->stack[o->depth++] = (CompFrame){callee, 0};
  }
}

static void emit_after_callees(CompOrder *o, HlComp *start) {
  if (o->state[start->id] != UNSEEN)
    return;
  o->stack[o->depth++] = (CompFrame){start, 0};
  while (o->depth > 0) {
    CompFrame *top = &o->stack[o->depth - 1];
    HlComp *comp = top->comp;
    if (top->next_id == 0 && o->state[comp->id] != UNSEEN) {
      o->depth--;  // it waited while somebody else had it printed
      continue;
    }
    o->state[comp->id] = STARTED;
    const HlInst *inst = NULL;
    while (top->next_id < comp->next_id && !inst) {
      inst = comp->by_id[top->next_id++];
      if (inst && inst->n_calls == 0)
        inst = NULL;
    }
    if (inst) {
      push_callees(o, inst);
    } else {
      o->state[comp->id] = EMITTED;
      o->out[o->n++] = comp;
      o->depth--;
    }
  }
}

static size_t count_calls(const HlModule *m) {
  size_t n = m->n_comps;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlCall *call = comp->first_call; call; call = call->next)
      n++;
  return n;
}

HlComp **hl_comp_order(HlArena *arena, const HlModule *m) {
  HlComp **out = HL_ARRAY(arena, HlComp *, m->n_comps + 1);
  HlMark mark = hl_arena_mark(arena);
  CompOrder o = {.out = out};
  o.state = HL_ARRAY(arena, uint8_t, m->next_comp_id + 1);
  o.stack = HL_ARRAY(arena, CompFrame, count_calls(m) + 1);
  for (HlComp *comp = m->first; comp; comp = comp->next)
    if (!comp->first_call)
      emit_after_callees(&o, comp);
  for (HlComp *comp = m->first; comp; comp = comp->next)  // none is left, unless calls go round
    emit_after_callees(&o, comp);
  hl_arena_release(arena, mark);
  return out;
}
