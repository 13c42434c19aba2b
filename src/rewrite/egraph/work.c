// rewrite/egraph/work.c: a few nodes as instructions, for rules to look at; what rules made, back into the e-graph.
//
// Rules are about instructions. So a node is written out as one, in a computation of a module made for that, over its
// operands' classes: of each class one node is shown, and of its operands' classes one, and so on for a few steps; what lies
// beyond is a parameter, which a law must hold for whatever it is. This is a site:
//
//   class 7 = {add(3, 4)},  class 4 = {multiply(5, 6), broadcast(8)}      p0, p1, p2 = parameters
//                                                                  m  = multiply(p1, p2)
//                                                                  ROOT a = add(p0, m)        and another with the broadcast
//
// An own rule builds at the root what it would put there; that is added, merged with the root's class, and dropped. A
// pass of the engine is run over all sites of a batch at once, each a computation by itself, as if it were a program; what
// its root is then is merged with what it was. So every pass there is can be a set of rules, without knowing of it.
//
// Only what is new since the last round makes sites: the node, a node shown below it, or a class that got one.

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "rewrite/egraph/egraph.h"
#include "rewrite/egraph/rules.h"

enum {
  REACH = 3,           // steps from the root that are shown
  MOST_INSTS = 40,     // of a site
  MOST_OPERANDS = 24,  // of what is shown below the root
  MOST_SHOWN = 4,      // other nodes of an operand's class than the cheapest, one after the other
  BATCH = 512          // sites
};

typedef struct Site {
  uint32_t class, region;
  HlComp *comp;
  VEC(uint32_t) param;  // classes
  VEC(uint32_t) known;  // 1 + class, by id of the instruction
} Site;

// What stands for a class in a site.
typedef struct Shown {
  uint32_t class;
  HlInst *inst;  // NULL: under way
} Shown;

typedef VEC(Site) SiteVec;
typedef VEC(Shown) ShownVec;

typedef struct Work {
  HlEgraph *eg;
  Rules *rules;
  HlArena *arena;  // of the batch
  HlArena *scratch;
  HlModule *m;
  const HlSym *name;
  SiteVec sites;
  Map region_of_comp;       // 1 + region
  Map size_of_comp;         // 1 + next_id as it was put there
  HlComp **comp_of_region;  // what sites may share: of no control flow
  int n_regions;
  ShownVec shown;  // in the site that is being made
  int n_insts;
  const uint32_t *forced;  // pairs: class, node to be shown
  int n_forced;
  uint32_t since;  // the first round that is new
} Work;

// --- Regions as computations --------------------------------------------------------------------------------

static HlComp *put_region(Work *w, uint32_t region, int depth);

// The node that shows a class: a constant, or of the cheapest tree, or the first.
static uint32_t usual_node(const HlEgraph *eg, uint32_t class) {
  const Class *c = eg_class(eg, class);
  return c->constant != NONE ? c->constant : c->best != NONE ? c->best : c->first;
}

static HlInst *put_node(Work *w, HlComp *comp, const Node *node, HlInst **operands, int depth) {
  const HlInst *proto = eg_symbol(w->eg, node)->proto;
  HlComp *calls[8];
  if (node->n_regions > HL_COUNT_OF(calls) || depth > 8)
    return NULL;
  const bool alone = hl_op_is((HlOp)proto->op, HL_T_CONTROL);
  for (uint32_t k = 0; k < node->n_regions; k++) {
    const uint32_t region = eg_regions_of(w->eg, node)[k];
    HlComp **shared = alone ? NULL : &w->comp_of_region[region];
    calls[k] = shared && *shared ? *shared : put_region(w, region, depth + 1);
    if (!calls[k])
      return NULL;
    if (shared)
      *shared = calls[k];
  }
  HlInst *inst = hl_inst_new(comp, (HlOp)proto->op, hl_shape_intern(w->m->shapes, proto->shape),
                             w->name, (int)node->n, operands);
  hl_copy_attrs(inst, proto);
  if (node->n_regions > 0)
    hl_set_calls(inst, (int)node->n_regions, calls);
  return inst;
}

static HlInst *put_param(Work *w, HlComp *comp, const HlShape *shape, int number) {
  return hl_parameter_new(comp, number, hl_shape_intern(w->m->shapes, shape), w->name);
}

static HlInst *put_empty(Work *w, HlComp *comp) {
  return hl_inst_new(comp, HL_OP_TUPLE, hl_shape_tuple(w->m->shapes, 0, NULL), w->name, 0, NULL);
}

// The nodes in their order, over the parameters. False: one of them is pinned.
static bool fill_region(Work *w, HlComp *comp, const uint32_t *node, const uint32_t *order, int n,
                        HlInst **made, int depth) {
  HlEgraph *eg = w->eg;
  for (int k = 0; k < n; k++) {
    const Node *from = &eg->nodes.at[node[order[k]]];
    if (made[order[k]])
      continue;
    HlInst **operands = HL_ARRAY(w->arena, HlInst *, from->n + 1);
    for (uint32_t i = 0; i < from->n; i++)
      operands[i] = made[eg_find(eg, eg_operands(eg, from)[i])];
    made[order[k]] = eg_symbol(eg, from)->pinned ? NULL : put_node(w, comp, from, operands, depth);
    if (!made[order[k]])
      return false;
  }
  return true;
}

// All of a region in its cheapest form. NULL: it holds something that is pinned.
static HlComp *put_region(Work *w, uint32_t id, int depth) {
  HlEgraph *eg = w->eg;
  const Region region = eg->regions.at[id];
  if (region.root == NONE || region.anchors.n > 0 || id >= (uint32_t)w->n_regions)
    return NULL;
  HlArena *arena = hl_arena_new();
  uint32_t *node = HL_ARRAY(arena, uint32_t, eg->classes.n), *order;
  for (int k = 0; k < eg->classes.n; k++)
    node[k] = eg->classes.at[k].region == id ? usual_node(eg, (uint32_t)k) : NONE;
  int n;
  bool ok = eg_order(eg, arena, node, id, &order, &n);
  const HlSym *name = hl_fresh_comp_name(w->m, region.name->text);
  HlComp *comp = hl_comp_new(w->m, name->text, name->n);
  HlInst **made = HL_ARRAY(arena, HlInst *, eg->classes.n);
  for (uint32_t k = 0; k < region.n_params; k++)
    if (region.param[k] != NONE)
      made[eg_find(eg, region.param[k])] =
          put_param(w, comp, eg_class(eg, region.param[k])->shape, (int)k);
  ok = ok && fill_region(w, comp, node, order, n, made, depth);
  hl_set_root(comp, ok ? made[eg_find(eg, region.root)] : put_empty(w, comp));
  hl_comp_set_fusion(comp);  // so that passes do not look for work in it
  *map_at(&w->region_of_comp, map_key(comp)) = (uint64_t)id + 1;
  *map_at(&w->size_of_comp, map_key(comp)) = (uint64_t)comp->next_id + 1;
  hl_arena_free(arena);
  return ok ? comp : NULL;
}

// --- Making a site --------------------------------------------------------------------------------------------

static HlInst *show(Work *w, Site *site, uint32_t class, int depth);

static void know(Work *w, Site *site, const HlInst *inst, uint32_t class) {
  while (site->known.n <= (int)inst->id)
    vec_push_in(w->arena, &site->known, 0);
  site->known.at[inst->id] = class + 1;
}

static HlInst *show_as_param(Work *w, Site *site, uint32_t class) {
  HlInst *param = put_param(w, site->comp, eg_class(w->eg, class)->shape, site->param.n);
  vec_push_in(w->arena, &site->param, class);
  know(w, site, param, class);
  return param;
}

static bool is_shown_deeper(const HlEgraph *eg, const Node *node, int depth) {
  const HlOp op = eg_op(eg, node);
  if (eg_symbol(eg, node)->pinned || node->n > MOST_OPERANDS)
    return false;
  return depth < REACH || node->n == 0 || op == HL_OP_BROADCAST;
}

static HlInst *show_node(Work *w, Site *site, uint32_t class, uint32_t id, int depth) {
  const Node node = w->eg->nodes.at[id];
  HlInst **operands = HL_ARRAY(w->arena, HlInst *, node.n + 1);
  w->n_insts++;
  for (uint32_t k = 0; k < node.n; k++)
    operands[k] = show(w, site, eg_operands(w->eg, &node)[k], depth + 1);
  HlInst *inst = put_node(w, site->comp, &node, operands, 0);
  if (inst)
    know(w, site, inst, class);
  return inst;
}

static uint32_t shown_node(const Work *w, uint32_t class) {
  for (int k = 0; k < w->n_forced; k++)
    if (w->forced[2 * k] == class)
      return w->forced[2 * k + 1];
  return usual_node(w->eg, class);
}

static HlInst *show(Work *w, Site *site, uint32_t class, int depth) {
  class = eg_find(w->eg, class);
  for (int k = 0; k < w->shown.n; k++)
    if (w->shown.at[k].class == class && w->shown.at[k].inst)
      return w->shown.at[k].inst;
  bool under_way = false;
  for (int k = 0; k < w->shown.n; k++)
    under_way = under_way || w->shown.at[k].class == class;
  const uint32_t id = shown_node(w, class);
  HlInst *inst = NULL;
  const int at = w->shown.n;
  vec_push_in(w->arena, &w->shown, ((Shown){class, NULL}));
  if (!under_way && w->n_insts < MOST_INSTS && is_shown_deeper(w->eg, &w->eg->nodes.at[id], depth))
    inst = show_node(w, site, class, id, depth);
  if (!inst)
    inst = show_as_param(w, site, class);
  if (!under_way)  // a value inside itself is a parameter there only
    w->shown.at[at].inst = inst;
  return inst;
}

// The node over its operands' classes, of which some are to show other nodes than usual.
static void add_site(Work *w, uint32_t id, const uint32_t *forced, int n_forced) {
  HlEgraph *eg = w->eg;
  const uint32_t class = eg_find(eg, eg->nodes.at[id].class);
  Site site = {.class = class, .region = eg->nodes.at[id].region};
  char name[24];
  snprintf(name, sizeof name, "s%d", w->sites.n);
  site.comp = hl_comp_new(w->m, name, strlen(name));
  w->shown.n = 0;
  w->n_insts = 0;
  w->forced = forced;
  w->n_forced = n_forced;
  vec_push_in(w->arena, &w->shown, ((Shown){class, NULL}));
  HlInst *root = show_node(w, &site, class, id, 0);
  if (!root) {  // it runs something that cannot be shown: what was made for it stays, and nobody looks
    hl_set_root(site.comp, put_empty(w, site.comp));
    return;
  }
  hl_set_root(site.comp, root);
  vec_push_in(w->arena, &w->sites, site);
  w->rules->sites++;
}

// --- What a rule has made -----------------------------------------------------------------------------------

static uint32_t region_of_call(Work *w, HlComp *comp) {
  const uint64_t known = map_get(&w->region_of_comp, map_key(comp));
  if (known && map_get(&w->size_of_comp, map_key(comp)) == (uint64_t)comp->next_id + 1)
    return (uint32_t)known - 1;
  if (known)  // a pass has been at work in it
    *map_at(&w->region_of_comp, map_key(comp)) = 0;
  const uint32_t region = eg_region_of(w->eg, comp, &w->region_of_comp, false);
  *map_at(&w->size_of_comp, map_key(comp)) = (uint64_t)comp->next_id + 1;
  return region;
}

// Adds one whose operands are known; NONE: the e-graph does not take it.
static uint32_t absorb_one(Work *w, const Site *site, HlInst *inst, const uint32_t *known) {
  if (inst->op == HL_OP_PARAMETER)
    return site->param.at[hl_parameter_number(inst)];
  if (eg_refuses(inst) || inst->n_calls > 8)
    return NONE;
  uint32_t *operands = HL_ARRAY(w->scratch, uint32_t, inst->n_operands + 1), regions[8];
  for (uint32_t k = 0; k < inst->n_operands; k++)
    operands[k] = known[inst->operands[k]->id] - 1;
  for (int k = 0; k < inst->n_calls; k++) {
    regions[k] = region_of_call(w, hl_called(inst, k));
    if (regions[k] == NONE)
      return NONE;
    if (hl_op_is((HlOp)inst->op, HL_T_CONTROL))
      w->eg->regions.at[regions[k]].is_live = true;
  }
  return eg_add(w->eg, site->region, eg_symbol_of(w->eg, inst), (int)inst->n_operands, operands,
                inst->n_calls, regions);
}

// The class of an instruction of the site, added with all it needs. `old`: how many ids of those already known hold.
static uint32_t absorb(Work *w, const Site *site, HlInst *inst, uint32_t old) {
  const HlMark mark = hl_arena_mark(w->scratch);
  uint32_t *known = HL_ARRAY(w->scratch, uint32_t, site->comp->next_id + 1);
  if (old > 0 && site->known.n > 0)
    memcpy(known, site->known.at, sizeof *known * (size_t)site->known.n);
  VEC(HlInst *) todo = {0};
  vec_push_in(w->scratch, &todo, inst);
  bool ok = true;
  while (ok && todo.n > 0) {
    HlInst *top = vec_last(&todo);
    bool ready = true;
    for (uint32_t k = 0; !known[top->id] && k < top->n_operands; k++)
      if (!known[top->operands[k]->id]) {
        vec_push_in(w->scratch, &todo, top->operands[k]);
        ready = false;
      }
    if (!ready)
      continue;
    todo.n--;
    if (known[top->id])
      continue;
    const uint32_t class = absorb_one(w, site, top, known);
    ok = class != NONE;
    known[top->id] = class + 1;
  }
  const uint32_t result = ok ? known[inst->id] - 1 : NONE;
  hl_arena_release(w->scratch, mark);
  return result;
}

static void note(Work *w, const Site *site, HlInst *by, uint32_t old, HlEgraphRuleCount *count) {
  HlEgraph *eg = w->eg;
  const int64_t before = eg->n_news;
  const uint32_t class = absorb(w, site, by, old);
  if (class == NONE)
    return;
  count->found++;
  eg_merge(eg, site->class, class);
  count->news += eg->n_news > before;
}

static bool is_over(const Work *w) {
  return hl_now() > w->rules->deadline || w->eg->n_alive > w->rules->most_nodes;
}

// --- Own rules ------------------------------------------------------------------------------------------------

// A pass that is handed its work by its row.
typedef struct OwnPass {
  HlPassInfo info;
  Work *work;
} OwnPass;

static void try_own(Work *w, HlPass *p, const HlEgraphRule *rule, int number, const Site *site) {
  HlBuild b;
  HlInst *root = site->comp->root;
  hl_begin(p, rule->rule.name, root, &b);
  HlInst *by = rule->rule.apply(p, &b, root);
  if (by && by != root && hl_shape_compatible(by->shape, root->shape))
    note(w, site, by, site->comp->next_id, &w->rules->count[number]);
  hl_drop(p);
}

static bool run_own(HlPass *p) {
  Work *w = ((const OwnPass *)(const void *)p->info)->work;
  int n;
  const HlEgraphRule *rules = hl_egraph_rules(&n);
  for (int s = 0; s < w->sites.n; s++) {
    const Site *site = &w->sites.at[s];
    for (int k = 0; k < n; k++)
      if (rules[k].rule.apply &&
          (rules[k].rule.op == site->comp->root->op || rules[k].rule.op == HL_OP_COUNT) &&
          (rules[k].exact || w->rules->options->inexact))
        try_own(w, p, &rules[k], k, site);
    if (s % 64 == 0 && is_over(w))
      break;
  }
  return true;
}

static bool try_own_rules(Work *w, bool (*run)(HlPass *)) {
  const OwnPass pass = {{.name = "e-graph", .run = run, .options = "", .meaning = ""}, w};
  const HlPassTable table = {.at = &pass.info, .n = 1};
  const HlEngineOptions options = {.passes = &table, .target = w->rules->target};
  HlEngine *engine = hl_engine_new(w->eg->cx, &options);
  const bool ok = engine && hl_engine_run(engine, w->m, "e-graph");
  hl_engine_free(engine);
  return ok;
}

// --- Passes -----------------------------------------------------------------------------------------------------

static bool try_pass(Work *w, int number) {
  const HlEgraphOptions *o = w->rules->options;
  const HlEngineOptions options = {.passes = o->passes,
                                   .pipelines = o->pipelines,
                                   .target = w->rules->target,
                                   .excess_precision = o->inexact ? HL_USUAL : HL_OFF};
  HlEngine *engine = hl_engine_new(w->eg->cx, &options);
  const bool ok = engine && hl_engine_run(engine, w->m, w->rules->pass[number]);
  hl_engine_free(engine);
  for (int s = 0; ok && s < w->sites.n; s++) {
    const Site *site = &w->sites.at[s];
    if (hl_comp_alive(site->comp))
      note(w, site, site->comp->root, 0, &w->rules->count[w->rules->n_own + number]);
  }
  return ok;
}

// --- Rounds -----------------------------------------------------------------------------------------------------

static void begin_batch(Work *w) {
  w->m = hl_module_new("sites", NULL);
  w->name = hl_sym(w->m, "x");
  w->n_regions = w->eg->regions.n;
  w->comp_of_region = HL_ARRAY(w->arena, HlComp *, w->n_regions + 1);
  w->region_of_comp = w->size_of_comp = (Map){.arena = w->arena};
  HlComp *entry = hl_comp_new(w->m, "entry", 5);
  hl_set_root(entry, put_empty(w, entry));
  hl_comp_set_entry(entry);
}

// Runs all rules over the sites there are, and forgets them.
static bool end_batch(Work *w) {
  const int n_diags = hl_cx_n_diags(w->eg->cx);
  bool ok = w->sites.n == 0 || w->rules->options->no_own_rules || try_own_rules(w, run_own);
  for (int k = 0; ok && w->sites.n > 0 && k < w->rules->n_passes && !is_over(w); k++)
    ok = try_pass(w, k);
  if (ok)
    hl_cx_forget(w->eg->cx, n_diags);  // what passes tell of sites is nobody's business
  hl_module_free(w->m);
  eg_rebuild(w->eg);
  w->sites = (SiteVec){0};
  w->shown = (ShownVec){0};
  return ok;
}

static bool is_new_below(const HlEgraph *eg, uint32_t class, uint32_t since, int depth) {
  if (eg_class(eg, class)->touched >= since)
    return true;
  const Node *node = &eg->nodes.at[usual_node(eg, class)];
  for (uint32_t k = 0; depth < REACH && k < node->n && k < MOST_OPERANDS; k++)
    if (is_new_below(eg, eg_operands(eg, node)[k], since, depth + 1))
      return true;
  return false;
}

static bool has_news(const HlEgraph *eg, const Node *node, uint32_t since) {
  bool news = node->born >= since;
  for (uint32_t k = 0; !news && k < node->n && k < MOST_OPERANDS; k++)
    news = is_new_below(eg, eg_operands(eg, node)[k], since, 1);
  return news;
}

static bool is_rewritten(const HlEgraph *eg, const Node *node) {
  const HlOp op = eg_op(eg, node);
  return !node->dead && !eg_symbol(eg, node)->pinned && eg->regions.at[node->region].is_live &&
         op != HL_OP_PARAMETER && op != HL_OP_IOTA;
}

// One operand shows another node than usual.
static void add_others(Work *w, uint32_t id, uint32_t k) {
  const HlEgraph *eg = w->eg;
  const Node node = eg->nodes.at[id];
  const uint32_t class = eg_operands(eg, &node)[k], usual = usual_node(eg, class);
  for (uint32_t i = 0; i < k; i++)
    if (eg_operands(eg, &node)[i] == class)
      return;
  int shown = 0;
  for (uint32_t c = eg_class(eg, class)->first; c != NONE && shown < MOST_SHOWN;
       c = eg->nodes.at[c].next) {
    const Node *other = &eg->nodes.at[c];
    if (c == usual || other->dead || eg_symbol(eg, other)->pinned)
      continue;
    shown++;
    const uint32_t forced[] = {class, c};
    if (other->born >= w->since || node.born >= w->since)
      add_site(w, id, forced, 1);
  }
}

// Both operands show nodes of one op, of which at least one is not what is usual.
static void add_pairs(Work *w, uint32_t id) {
  const HlEgraph *eg = w->eg;
  const Node node = eg->nodes.at[id];
  const uint32_t x = eg_operands(eg, &node)[0], y = eg_operands(eg, &node)[1];
  int shown = 0;
  if (x == y)
    return;
  for (uint32_t a = eg_class(eg, x)->first; a != NONE; a = eg->nodes.at[a].next)
    for (uint32_t b = eg_class(eg, y)->first; b != NONE; b = eg->nodes.at[b].next) {
      const Node *p = &eg->nodes.at[a], *q = &eg->nodes.at[b];
      if (p->dead || q->dead || eg_op(eg, p) != eg_op(eg, q) || p->n == 0 ||
          (a == usual_node(eg, x) && b == usual_node(eg, y)) ||
          (p->born < w->since && q->born < w->since && node.born < w->since))
        continue;
      const uint32_t forced[] = {x, a, y, b};
      if (shown++ < MOST_SHOWN)
        add_site(w, id, forced, 2);
    }
}

static void add_sites(Work *w, uint32_t id) {
  const Node node = w->eg->nodes.at[id];
  if (has_news(w->eg, &node, w->since))
    add_site(w, id, NULL, 0);
  for (uint32_t k = 0; k < node.n && k < MOST_OPERANDS; k++)
    add_others(w, id, k);
  if (node.n == 2)
    add_pairs(w, id);
}

// --- Several roots ------------------------------------------------------------------------------------------

// The part of a merged value that has been absorbed, if it is a node of its own class still: as a rule makes it for the first time.
static uint32_t new_node(const HlEgraph *eg, uint32_t class) {
  const Class *c = class == NONE ? NULL : eg_class(eg, class);
  return c && c->n == 1 ? c->first : NONE;
}

// All of them were absorbed: each is merged with its root, and where all are new they are a group.
static void note_group(Work *w, const Site *site, const uint32_t *roots, const uint32_t *made, int n,
                       HlEgraphRuleCount *count) {
  HlEgraph *eg = w->eg;
  const int64_t before = eg->n_news;
  Group group = {.region = site->region, .n = n, .node = HL_ARRAY(eg->arena, uint32_t, n)};
  bool fresh = true;
  for (int k = 0; k < n; k++) {
    group.node[k] = new_node(eg, made[k]);
    fresh = fresh && group.node[k] != NONE;
  }
  for (int k = 0; k < n; k++)
    eg_merge(eg, eg->nodes.at[roots[k]].class, made[k]);
  if (fresh)
    vec_push_in(eg->arena, &eg->groups, group);
  count->found++;
  count->news += eg->n_news > before;
}

// The nodes side by side, over their operands as parameters. False: one of them cannot be shown.
static bool show_side_by_side(Work *w, Site *site, const uint32_t *nodes, int n, HlInst **roots) {
  char name[24];
  snprintf(name, sizeof name, "g%lld", (long long)w->m->next_comp_id);
  site->comp = hl_comp_new(w->m, name, strlen(name));
  w->shown.n = 0;
  w->n_insts = 0;
  w->n_forced = 0;
  for (int k = 0; k < n; k++) {
    roots[k] = show_node(w, site, eg_find(w->eg, w->eg->nodes.at[nodes[k]].class), nodes[k], REACH);
    if (!roots[k])
      break;
  }
  hl_set_root(site->comp, roots[n - 1] ? roots[n - 1] : put_empty(w, site->comp));
  return roots[n - 1];
}

static bool try_several(Work *w, HlPass *p, int rule, const uint32_t *nodes, int n) {
  const HlEgraphRule *rules = hl_egraph_rules(&(int){0});
  HlInst *roots[EG_MOST_SIDE_BY_SIDE] = {NULL}, *by[EG_MOST_SIDE_BY_SIDE] = {NULL};
  uint32_t made[EG_MOST_SIDE_BY_SIDE];
  Site site = {.region = w->eg->nodes.at[nodes[0]].region};
  HlBuild b;
  w->rules->sites++;
  if (!show_side_by_side(w, &site, nodes, n, roots))
    return false;
  hl_begin(p, rules[rule].rule.name, roots[n - 1], &b);
  bool ok = rules[rule].several(&b, n, roots, by);
  for (int k = 0; ok && k < n; k++) {
    ok = by[k] && hl_shape_compatible(by[k]->shape, roots[k]->shape);
    made[k] = ok ? absorb(w, &site, by[k], site.comp->next_id) : NONE;
    ok = ok && made[k] != NONE;
  }
  if (ok)
    note_group(w, &site, nodes, made, n, &w->rules->count[rule]);
  hl_drop(p);
  return ok;
}

// All of them at once; where that is no law two and two.
static void try_list(Work *w, HlPass *p, int rule, const uint32_t *nodes, int n) {
  if (try_several(w, p, rule, nodes, n))
    return;
  for (int i = 0; n > 2 && i < n; i++)
    for (int j = i + 1; j < n; j++)
      try_several(w, p, rule, (const uint32_t[]){nodes[i], nodes[j]}, 2);
}

static bool run_several(HlPass *p) {
  Work *w = ((const OwnPass *)(const void *)p->info)->work;
  int n_rules;
  const HlEgraphRule *rules = hl_egraph_rules(&n_rules);
  for (int k = 0; k < n_rules && !is_over(w); k++) {
    if (!rules[k].several || (!rules[k].exact && !w->rules->options->inexact))
      continue;
    const NodeVec lists = eg_sharing(w->eg, w->arena, (HlOp)rules[k].rule.op, w->since);
    for (int from = 0, to; from < lists.n; from = to + 1) {
      for (to = from; lists.at[to] != NONE;)
        to++;
      const int n = to - from < EG_MOST_SIDE_BY_SIDE ? to - from : EG_MOST_SIDE_BY_SIDE;
      try_list(w, p, k, lists.at + from, n);
    }
  }
  return true;
}

static bool try_rules_of_several(Work *w) {
  w->arena = hl_arena_new();
  begin_batch(w);
  const bool ok = try_own_rules(w, run_several);
  hl_module_free(w->m);
  eg_rebuild(w->eg);
  hl_arena_free(w->arena);
  w->shown = (ShownVec){0};
  return ok;
}

bool eg_try_rules(HlEgraph *eg, Rules *rules) {
  const uint32_t n = (uint32_t)eg->nodes.n;
  bool ok = true;
  Work w = {.eg = eg,
            .rules = rules,
            .scratch = hl_arena_new(),
            .since = eg->round > 0 ? eg->round - 1 : 0};
  for (uint32_t id = 0; ok && id < n && !is_over(&w);) {
    w.arena = hl_arena_new();
    begin_batch(&w);
    for (; id < n && w.sites.n < BATCH; id++)
      if (is_rewritten(eg, &eg->nodes.at[id]))
        add_sites(&w, id);
    ok = end_batch(&w);
    hl_arena_free(w.arena);
    base_look();
  }
  ok = ok && (rules->options->no_own_rules || is_over(&w) || try_rules_of_several(&w));
  hl_arena_free(w.scratch);
  return ok;
}
