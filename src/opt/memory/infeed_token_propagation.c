// opt/memory/infeed_token_propagation.c
//
// infeed-token-propagation: loops and conditionals that take data from the host, or give it some, say
// so: the token that orders this goes in and comes out.
//
//   body: s -> f(s, infeed(after-all()))             body: (s, t) -> (f(s, i), token of i)
//                                                =>          with i = infeed(t)
//   r = while(x), body=body                          r, t' = while((x, after-all())), body=body
//
// Without the token nothing keeps a later pass from taking two such loops out of order. The inner
// loop's token is handed on to what the outer computation does with the host, if one depends on the
// other; else up through the outer loop, as far as the entry. One chain of infeeds, and one of
// outfeeds, is expected of each computation. Feeds with a configuration are left alone.

#include "opt/ask/loops.h"
#include "opt/passes.h"

enum { FEEDS = 2 };
static const HlOp feeds[FEEDS] = {HL_OP_INFEED, HL_OP_OUTFEED};

// Feeds of one kind that wait for each other.
typedef struct Chain {
  HlInst *begin, *end;  // NULL: none
  HlInst *source;       // the token that the first one waits for
  int slot;             // where the last one's token is in its result; -1: it is the result
  bool is_fed;          // begins with a feed, not with a loop or conditional
} Chain;

typedef struct Pass {
  HlPass *p;
  Chain *carried;  // by computation, FEEDS each: chains that contain loops
} Pass;

// --- Chains -------------------------------------------------------------------------------------

static int token_operand(const HlInst *feed) {
  return feed->op == HL_OP_OUTFEED;
}

static bool is_feed(const HlInst *inst, HlOp op) {
  const HlAttrKey config = op == HL_OP_INFEED ? HL_A_INFEED_CONFIG : HL_A_OUTFEED_CONFIG;
  return (HlOp)inst->op == op && !*hl_attr_text(inst, config);
}

static bool is_new_token(const HlInst *inst) {
  return inst->op == HL_OP_AFTER_ALL && inst->n_operands == 0;
}

static bool is_unused(const HlInst *inst) {
  return !inst->first_use && inst->comp->root != inst;
}

// The only user of the token at this place of a result; *others: it is not the only one.
static HlInst *token_user(const HlInst *inst, int slot, bool *others) {
  HlInst *user = NULL;
  *others |= inst->comp->root == inst;
  for (const HlUse *use = inst->first_use; use; use = use->next) {
    if (slot < 0) {
      *others |= user != NULL;
      user = use->user;
      continue;
    }
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT) {
      *others = true;
    } else if (hl_attr_int(use->user, HL_A_INDEX) == slot && !is_unused(use->user)) {
      HlInst *next = token_user(use->user, -1, others);
      *others |= user != NULL;
      user = next;
    }
  }
  return user;
}

static bool is_dangling(const Chain *chain) {
  bool others = false;
  return chain->begin && is_new_token(chain->source) &&
         !token_user(chain->end, chain->slot, &others) && !others;
}

// The chain that begins with this feed.
static Chain chain_from(HlInst *begin, HlOp op) {
  const int slot = op == HL_OP_INFEED ? 1 : -1;
  Chain chain = {.begin = begin,
                 .end = begin,
                 .source = begin->operands[token_operand(begin)],
                 .slot = slot,
                 .is_fed = true};
  for (;;) {
    bool others = false;
    HlInst *next = token_user(chain.end, slot, &others);
    if (!next || others || !is_feed(next, op))
      return chain;
    chain.end = next;
  }
}

// The first chain of the computation; of those that dangle at both ends, if asked.
static Chain find_chain(HlComp *comp, HlOp op, bool dangling) {
  if (!hl_comp_may_have(comp, op))
    return (Chain){0};
  for (HlInst *inst = comp->first; inst; inst = inst->next) {
    if (!is_feed(inst, op))
      continue;
    if (!is_new_token(inst->operands[token_operand(inst)]) && dangling)
      continue;
    Chain chain = chain_from(inst, op);
    if (!dangling || is_dangling(&chain))
      return chain;
  }
  return (Chain){0};
}

// The chain that what calls this computation is to carry.
static Chain inner_chain(const Pass *s, HlComp *comp, int feed) {
  const Chain *carried = &s->carried[(size_t)comp->id * FEEDS + (size_t)feed];
  Chain chain = carried->begin ? *carried : find_chain(comp, feeds[feed], true);
  return is_dangling(&chain) ? chain : (Chain){0};
}

static HlInst *token_of(HlBuild *b, HlInst *end, int slot) {
  return slot < 0 ? end : hl_b_element(b, end, slot);
}

static HlInst *new_token(HlBuild *b) {
  return hl_b_op(b, HL_OP_AFTER_ALL, NULL, 0, NULL, 0, NULL, 0, NULL);
}

// --- In the computation around ------------------------------------------------------------------

// A loop or conditional that is to carry tokens.
typedef struct Carrier {
  Pass *s;
  HlInst *old, *new;
  Chain *inner;          // FEEDS for each called computation
  HlInst *token[FEEDS];  // what goes in; NULL: nothing of this kind
  bool follows[FEEDS];   // it is the token of the outer chain's end
  int slot[FEEDS];       // where it comes out
} Carrier;

static Chain *outer_chain(Pass *s, HlComp *comp, int feed) {
  Chain *outer = &s->carried[(size_t)comp->id * FEEDS + (size_t)feed];
  if (!outer->begin)
    *outer = find_chain(comp, feeds[feed], false);
  return outer;
}

// The tokens that go in: those of the outer chains, where what is there waits for these anyway.
static void find_tokens(Carrier *c, HlBuild *b, int n_slots) {
  for (int feed = 0; feed < FEEDS; feed++) {
    bool any = false;
    for (int k = 0; k < c->old->n_calls; k++)
      any |= c->inner[k * FEEDS + feed].begin != NULL;
    if (!any)
      continue;
    const Chain *outer = outer_chain(c->s, c->old->comp, feed);
    c->follows[feed] = outer->begin && hl_reaches(c->s->p, outer->end, c->old);
    c->token[feed] = c->follows[feed] ? token_of(b, outer->end, outer->slot) : new_token(b);
    c->slot[feed] = n_slots++;
  }
}

// What comes out becomes the end of the outer chain, or its beginning.
static void join(Carrier *c, int feed) {
  HlPass *p = c->s->p;
  Chain *outer = outer_chain(c->s, c->new->comp, feed);
  HlInst *token = c->token[feed];
  if (!outer->begin) {
    *outer = (Chain){.begin = c->new, .end = c->new, .source = token, .slot = c->slot[feed]};
  } else if (c->follows[feed]) {
    outer->end = c->new;
    outer->slot = c->slot[feed];
  } else if (outer->is_fed && is_new_token(outer->source) && hl_reaches(p, c->new, outer->begin) &&
             hl_change(p, "order", outer->begin, c->new)) {
    HlBuild b = {.cx = p->cx, .comp = c->new->comp, .metadata = hl_metadata(c->new)};
    hl_set_operand(outer->begin, token_operand(outer->begin), token_of(&b, c->new, c->slot[feed]));
    if (is_unused(outer->source) && !hl_has_control(outer->source))
      hl_erase(outer->source);
    if (!hl_changed(p))
      return;
    outer->begin = c->new;
    outer->source = token;
    outer->is_fed = false;
  }
}

// --- Loops --------------------------------------------------------------------------------------

static void open_part(LoopPart *part, void *user) {
  Carrier *c = user;
  if (part->place == LOOP_AFTER)
    c->new = part->state;
  for (int feed = 0; feed < FEEDS && part->place == LOOP_IN_BODY; feed++)
    if (c->token[feed])
      part->map[c->inner[feed].source->id] = hl_b_element(&part->b, part->state, c->slot[feed]);
}

static HlInst *next_token(LoopPart *part, int k, void *user) {
  const Carrier *c = user;
  const int feed = c->token[0] && c->slot[0] == k ? 0 : 1;
  return token_of(&part->b, loop_part_copy(part, c->inner[feed].end), c->inner[feed].slot);
}

static void carry_by_loop(Carrier *c) {
  HlPass *p = c->s->p;
  HlInst *loop = c->old;
  LoopPlan plan = loop_plan_all(p, loop, FEEDS);
  plan.suffix = ".token", plan.open = open_part, plan.next = next_token, plan.user = c;
  HlBuild b;
  hl_begin(p, "loop", loop, &b);
  find_tokens(c, &b, loop_slots(loop));
  for (int feed = 0; feed < FEEDS; feed++)
    if (c->token[feed]) {
      loop_plan_add(&plan, c->token[feed]);
      loop_plan_use(&plan, c->inner[feed].end);
    }
  if (loop_plan_commit(p, &b, &plan))
    for (int feed = 0; feed < FEEDS; feed++)
      if (c->token[feed])
        join(c, feed);
}

static bool can_carry_loop(const HlInst *loop) {
  return loop_is_plain(loop) && loop_owns_comps(loop) && loop_slots(loop) > 0;
}

// --- Conditionals -------------------------------------------------------------------------------

static bool can_carry_conditional(const HlInst *cond) {
  if (!hl_shape_is_tuple(cond->shape) || !loop_owns_comps(cond) ||
      cond->n_operands != (uint32_t)cond->n_calls + 1)
    return false;
  for (int k = 0; k < cond->n_calls; k++) {
    const HlComp *branch = hl_called(cond, k);
    if (branch->n_params != 1 || !hl_shape_is_tuple(branch->params[0]->shape) ||
        hl_sharding(branch->params[0]) || hl_sharding(branch->root) ||
        hl_has_control(branch->root) || hl_has_control(branch->params[0]))
      return false;
  }
  return true;
}

static const HlShape *with_tokens(HlModule *m, HlPass *p, const HlShape *tuple, int n) {
  const HlShape **element = HL_ARRAY(p->arena, const HlShape *, tuple->rank + n + 1);
  for (int k = 0; k < tuple->rank + n; k++)
    element[k] = k < tuple->rank ? tuple->element[k] : hl_shape_token(m->shapes);
  return hl_shape_tuple(m->shapes, tuple->rank + n, element);
}

// The parameter's elements as those of a larger one; as a whole it is a tuple of them.
static void take_parameter(HlPass *p, HlBuild *in, const HlInst *old, HlInst *param, HlInst **map,
                           HlInst **whole) {
  const int n = old->shape->rank;
  HlInst **element = HL_ARRAY(p->arena, HlInst *, n + 1);
  bool is_whole = old->comp->root == old;
  for (const HlUse *use = old->first_use; use; use = use->next) {
    const bool reads = use->user->op == HL_OP_GET_TUPLE_ELEMENT && !hl_has_control(use->user);
    is_whole |= !reads;
    if (reads)
      map[use->user->id] = hl_b_element(in, param, (int)hl_attr_int(use->user, HL_A_INDEX));
  }
  for (int k = 0; k < n && is_whole; k++)
    element[k] = hl_b_element(in, param, k);
  *whole = is_whole ? hl_b_tuple(in, n, element) : param;
}

// The branch with tokens; *operand becomes what it takes.
static HlComp *new_branch(Carrier *c, HlBuild *b, int number, HlInst **operand) {
  HlPass *p = c->s->p;
  const HlComp *branch = hl_called(c->old, number);
  const HlInst *old = branch->params[0];
  const Chain *inner = &c->inner[number * FEEDS];
  const int n = old->shape->rank, n_results = c->old->shape->rank;
  int n_in = 0;
  HlInst **takes = HL_ARRAY(p->arena, HlInst *, n + FEEDS);
  for (int feed = 0; feed < FEEDS; feed++)
    if (inner[feed].begin)
      takes[n + n_in++] = c->token[feed];
  for (int k = 0; k < n && n_in > 0; k++)
    takes[k] = hl_b_element(b, *operand, k);
  if (n_in)
    *operand = hl_b_tuple(b, n + n_in, takes);
  HlBuild in = hl_b_nested(b, branch->name->text);
  in.metadata = NULL;
  hl_comp_set_thread(in.comp, branch->execution_thread);
  HlInst *param = hl_b_parameter(&in, with_tokens(p->m, p, old->shape, n_in), old->name->text);
  HlInst **map = HL_ARRAY(p->arena, HlInst *, branch->next_id), *whole;
  take_parameter(p, &in, old, param, map, &whole);
  for (int feed = 0, k = n; feed < FEEDS; feed++)
    if (inner[feed].begin)
      map[inner[feed].source->id] = hl_b_element(&in, param, k++);
  HlInst *root = hl_graft(in.comp, branch, 1, &whole, map);
  HlInst **gives = HL_ARRAY(p->arena, HlInst *, n_results + FEEDS);
  for (int k = 0; k < n_results; k++)
    gives[k] = hl_b_element(&in, root, k);
  int n_out = n_results;
  for (int feed = 0; feed < FEEDS; feed++)
    if (c->token[feed])
      gives[n_out++] = inner[feed].begin ? token_of(&in, map[inner[feed].end->id], inner[feed].slot)
                                         : new_token(&in);
  hl_set_root(in.comp, hl_b_tuple(&in, n_out, gives));
  if (root->op == HL_OP_TUPLE && !root->first_use)
    hl_erase(root);
  return in.comp;
}

static void carry_by_conditional(Carrier *c) {
  HlPass *p = c->s->p;
  HlInst *cond = c->old;
  const int n = cond->n_calls, n_results = cond->shape->rank;
  HlComp **old = HL_ARRAY(p->arena, HlComp *, n + 1), **new = HL_ARRAY(p->arena, HlComp *, n + 1);
  HlInst **operands = HL_ARRAY(p->arena, HlInst *, n + 1);
  HlInst **result = HL_ARRAY(p->arena, HlInst *, n_results + 1);
  HlBuild b;
  hl_begin(p, "conditional", cond, &b);
  find_tokens(c, &b, n_results);
  operands[0] = cond->operands[0];
  for (int k = 0; k < n; k++) {
    old[k] = hl_called(cond, k);
    operands[k + 1] = cond->operands[k + 1];
    new[k] = new_branch(c, &b, k, &operands[k + 1]);
  }
  const int n_tokens = (c->token[0] != NULL) + (c->token[1] != NULL);
  c->new =
      hl_inst_copy(cond->comp, cond, with_tokens(p->m, p, cond->shape, n_tokens), n + 1, operands);
  hl_remove_attr(c->new, HL_A_ORIGIN);
  hl_set_calls(c->new, n, new);
  for (int k = 0; k < n_results; k++)
    result[k] = hl_b_element(&b, c->new, k);
  if (!hl_commit(p, hl_b_tuple(&b, n_results, result)))
    return;
  for (int k = 0; k < n; k++)
    loop_drop_comp(p, old[k]);
  for (int feed = 0; feed < FEEDS; feed++)
    if (c->token[feed])
      join(c, feed);
}

// --- All of them --------------------------------------------------------------------------------

static void visit(Pass *s, HlInst *inst) {
  const bool is_loop = inst->op == HL_OP_WHILE && can_carry_loop(inst);
  if (hl_has_control(inst) || hl_sharding(inst) ||
      !(is_loop || (inst->op == HL_OP_CONDITIONAL && can_carry_conditional(inst))))
    return;
  Carrier c = {.s = s, .old = inst};
  c.inner = HL_ARRAY(s->p->arena, Chain, inst->n_calls * FEEDS);
  bool any = false;
  for (int k = 0; k < (is_loop ? 1 : inst->n_calls); k++) {
    Chain *inner = &c.inner[k * FEEDS];
    for (int feed = 0; feed < FEEDS; feed++)
      inner[feed] = inner_chain(s, hl_called(inst, k), feed);
    if (inner[0].begin && inner[0].source == inner[1].source)
      inner[1] = (Chain){0};
    any |= inner[0].begin || inner[1].begin;
  }
  if (any && is_loop)
    carry_by_loop(&c);
  else if (any)
    carry_by_conditional(&c);
}

static bool has_domains(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    if (hl_comp_may_have(comp, HL_OP_DOMAIN))
      return true;
  return false;
}

bool pass_infeed_token_propagation(HlPass *p) {
  int n;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n);
  Pass s = {.p = p, .carried = HL_ARRAY(p->arena, Chain, (size_t)p->m->next_comp_id * FEEDS)};
  if (has_domains(p->m))
    return true;
  for (int k = 0; k < n; k++) {
    int n_insts = 0;
    HlInst **insts = hl_comp_alive(comps[k]) ? hl_pass_insts(p, comps[k], &n_insts) : NULL;
    for (int j = 0; j < n_insts; j++)
      if (hl_alive(insts[j]) && (insts[j]->op == HL_OP_WHILE || insts[j]->op == HL_OP_CONDITIONAL))
        visit(&s, insts[j]);
  }
  return true;
}
