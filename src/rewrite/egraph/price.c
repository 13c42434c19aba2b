// rewrite/egraph/price.c: prices of nodes, and the cheapest tree of each class.
//
// A price is a guess of the seconds that a node costs in a program that will be fused afterwards: elementwise work pays its
// arithmetic and a little of its traffic, what moves elements half of its traffic, products and their like all of it and a kernel.
// What it is in the end, the compiled program tells; prices are for choosing among what cannot all be compiled.

#include <math.h>

#include "hilo/cost.h"
#include "rewrite/egraph/egraph.h"

const PriceModel eg_price_models[EG_PRICE_MODELS] = {
    {"", 0.1, 0.02}, {"traffic", 0.5, 0.01}, {"fewest", 0.02, 0.5}};

static const double LEAST =
    1e-12;  // nothing is for nothing: the cheapest tree must not go round in a circle

// How many additions an operation on an element takes about as long as, on processors with vectors; what is not here: 1, or 12 if it
// is transcendental.
double eg_weight(HlOp op) {
  static const uint8_t weights[HL_OP_COUNT] = {
      [HL_OP_DIVIDE] = 5,      [HL_OP_REMAINDER] = 8, [HL_OP_SQRT] = 6,  [HL_OP_RSQRT] = 6,
      [HL_OP_EXPONENTIAL] = 9, [HL_OP_POWER] = 30,    [HL_OP_ATAN2] = 24};
  return weights[op] ? weights[op] : hl_op_is_transcendental(op) ? 12 : 1;
}

// --- One node -----------------------------------------------------------------------------------------

static double rate_of(const HlTarget *t, const HlInst *inst) {
  const HlDtype dtype = hl_shape_is_array(inst->shape) ? inst->shape->dtype : HL_F32;
  const HlRates *rates = hl_op_is((HlOp)inst->op, HL_T_MATRIX) ? &t->matrix : &t->vector;
  const double rate = rates->of[dtype] > 0 ? rates->of[dtype] : t->vector.of[dtype];
  return rate > 0 ? rate : t->vector.of[HL_F32] > 0 ? t->vector.of[HL_F32] : 1e11;
}

static double weighed(const HlTarget *t, const PriceModel *model, const HlInst *inst,
                      const HlCost *cost) {
  const double bandwidth = t->memory_bandwidth > 0 ? t->memory_bandwidth : 2e10;
  const double launch = t->launch > 0 ? t->launch : 1e-6;
  const double computing =
      (cost->flops + cost->transcendentals) * eg_weight((HlOp)inst->op) / rate_of(t, inst);
  const double traffic = (cost->bytes_read + cost->bytes_written) / bandwidth;
  const double step = launch * model->step;
  const HlOp op = (HlOp)inst->op;
  if (hl_op_is(op, HL_T_WIRE | HL_T_GIVEN))
    return LEAST;
  if (op == HL_OP_RESHAPE || op == HL_OP_BITCAST_CONVERT)
    return step / 4;
  if (op == HL_OP_BROADCAST || op == HL_OP_IOTA)
    return step / 2 + model->traffic / 2 * cost->bytes_written / bandwidth;
  if (hl_op_is(op, HL_T_ELEMENTWISE))
    return step + computing + model->traffic * cost->bytes_written / bandwidth;
  if (hl_op_is(op, HL_T_REARRANGES))
    return 2 * step + traffic / 2;
  if (hl_op_is(op, HL_T_FOLDS))
    return launch / 2 + fmax(computing, traffic / 2);
  return launch + fmax(computing, traffic);
}

// Nodes as instructions, in the home module under a mark: what costs ask.
typedef struct Pricing {
  const HlEgraph *eg;
  const HlTarget *target;
  const PriceModel *model;
  HlArena *arena, *scratch;  // scratch: of one node
  HlComp *comp;
  HlComp **callee;  // by region; NULL: not asked for yet
  HlCost *costs;    // by id of the computation
  Map params;       // of each shape one
} Pricing;

static HlInst *param_of(Pricing *p, const HlShape *shape) {
  HlInst *param = map_get_ptr(&p->params, shape);
  if (!param) {
    param = hl_parameter_new(p->comp, p->comp->n_params, shape, p->eg->plain);
    map_put_ptr(&p->params, shape, param);
  }
  return param;
}

// A computation that counts as one operation a node of the region.
static HlComp *callee_of(Pricing *p, uint32_t region) {
  if (!p->callee[region]) {
    p->callee[region] = hl_comp_new(p->eg->home, "callee", 6);
    p->costs[p->callee[region]->id].flops = p->eg->regions.at[region].price;
  }
  return p->callee[region];
}

static double price_of(Pricing *p, const Node *node) {
  const HlMark mark = hl_arena_mark(p->scratch);
  const HlInst *proto = eg_symbol(p->eg, node)->proto;
  HlInst **operands = HL_ARRAY(p->scratch, HlInst *, node->n + 1);
  HlComp **calls = HL_ARRAY(p->scratch, HlComp *, node->n_regions + 1);
  for (uint32_t k = 0; k < node->n; k++)
    operands[k] = param_of(p, eg_class(p->eg, eg_operands(p->eg, node)[k])->shape);
  for (uint32_t k = 0; k < node->n_regions; k++)
    calls[k] = callee_of(p, eg_regions_of(p->eg, node)[k]);
  if (proto->op == HL_OP_PARAMETER) {
    hl_arena_release(p->scratch, mark);
    return LEAST;
  }
  HlInst *inst =
      hl_inst_new(p->comp, (HlOp)proto->op, proto->shape, p->eg->plain, (int)node->n, operands);
  hl_copy_attrs(inst, proto);
  if (node->n_regions > 0)
    hl_set_calls(inst, (int)node->n_regions, calls);
  const HlCost cost = hl_cost_inst_by(inst, p->costs);
  const double price = weighed(p->target, p->model, inst, &cost);
  hl_arena_release(p->scratch, mark);
  return price > LEAST ? price : LEAST;
}

// --- What runs regions ----------------------------------------------------------------------------------

// How often a loop runs, as far as one of the class says that was in the module.
static double trips_of(const HlEgraph *eg, const Node *loop) {
  for (uint32_t k = eg_class(eg, loop->class)->first; k != NONE; k = eg->nodes.at[k].next) {
    const HlInst *inst = map_get_ptr(&eg->origin_of_node, (const void *)(uintptr_t)k);
    const int64_t trips = inst && inst->op == HL_OP_WHILE ? hl_trip_count(inst) : -1;
    if (trips >= 0)
      return (double)trips;
  }
  return 1;
}

static double control_price(const HlEgraph *eg, const Node *node) {
  double sum = 0, most = 0;
  for (uint32_t k = 0; k < node->n_regions; k++) {
    const double one = eg->regions.at[eg_regions_of(eg, node)[k]].price;
    sum += one;
    most = fmax(most, one);
  }
  const HlOp op = eg_op(eg, node);
  return LEAST + (op == HL_OP_CONDITIONAL ? most
                  : op == HL_OP_WHILE     ? sum * trips_of(eg, node)
                                          : sum);
}

static bool is_control(const HlEgraph *eg, const Node *node) {
  return node->n_regions > 0 && hl_op_is(eg_op(eg, node), HL_T_CONTROL);
}

void eg_price_control(const HlEgraph *eg, double *price) {
  for (int k = 0; k < eg->nodes.n; k++)
    if (!eg->nodes.at[k].dead && is_control(eg, &eg->nodes.at[k]))
      price[k] = control_price(eg, &eg->nodes.at[k]);
}

// --- All ------------------------------------------------------------------------------------------------

double *eg_prices(const HlEgraph *eg, HlArena *arena, const HlTarget *target,
                  const PriceModel *model) {
  double *price = HL_ARRAY(arena, double, eg->nodes.n + 1);
  double *operations = HL_ARRAY(arena, double, eg->regions.n + 1);
  for (int k = 0; k < eg->nodes.n; k++)
    operations[eg->nodes.at[k].region] += eg->nodes.at[k].n > 0;
  for (int r = 0; r < eg->regions.n;
       r++)  // of the regions that are named only: how much they compute
    if (!eg->regions.at[r].is_live)
      eg->regions.at[r].price = operations[r];
  const HlEditMark mark = hl_mark(eg->home);
  Pricing p = {.eg = eg,
               .target = target,
               .model = model,
               .arena = hl_arena_new(),
               .scratch = hl_arena_new()};
  p.params.arena = p.arena;
  p.comp = hl_comp_new(eg->home, "priced", 6);
  p.callee = HL_ARRAY(p.arena, HlComp *, eg->regions.n + 1);
  p.costs = HL_ARRAY(p.arena, HlCost, (int)eg->home->next_comp_id + eg->regions.n + 1);
  for (int k = 0; k < eg->nodes.n; k++) {
    const Node *node = &eg->nodes.at[k];
    if (!node->dead && !is_control(eg, node))
      price[k] = price_of(&p, node);
  }
  hl_undo(eg->home, mark);
  hl_arena_free(p.arena);
  hl_arena_free(p.scratch);
  eg_price_control(eg, price);
  return price;
}

static double tree_of(const HlEgraph *eg, const Node *node, double own, const uint32_t *uses) {
  double sum = own;
  for (uint32_t k = 0; k < node->n && sum < INFINITY; k++) {
    const uint32_t class = eg_find(eg, eg_operands(eg, node)[k]);
    const double tree = eg->classes.at[class].tree;
    sum += uses && uses[class] > 1 ? tree / uses[class] : tree;
  }
  return sum;
}

void eg_best_trees(HlEgraph *eg, const double *price, const uint32_t *uses) {
  enum { MOST_ROUNDS = 1000 };
  for (int k = 0; k < eg->classes.n; k++) {
    eg->classes.at[k].best = NONE;
    eg->classes.at[k].tree = INFINITY;
  }
  bool changed = true;
  for (int round = 0; changed && round < MOST_ROUNDS; round++) {
    changed = false;
    for (int k = 0; k < eg->nodes.n; k++) {
      const Node *node = &eg->nodes.at[k];
      if (node->dead)
        continue;
      Class *c = eg_class(eg, node->class);
      const double tree = tree_of(eg, node, price[k], uses);
      if (tree < c->tree * (1 - 1e-12)) {
        c->tree = tree;
        c->best = (uint32_t)k;
        changed = true;
      }
    }
  }
}
