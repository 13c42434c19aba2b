// rewrite/env/observe.c: a module as arrays: the table of forms, and the form hilo-v1.

#include "rewrite/env/observe.h"

#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/cost.h"
#include "hilo/pass.h"

// --- What all forms share -------------------------------------------------------------------------

void *observe_array(HlObserver *o, const char *name, const char *dtype, int width, int64_t n,
                    size_t bytes) {
  void *data = hl_arena_alloc(o->arena, bytes * (size_t)width * (size_t)n + 1);
  vec_push_as(o, &o->arrays, ((HlArray){name, dtype, width, n, data}));
  return data;
}

void observe_number(HlObserver *o, const HlModule *m, int32_t ***at) {
  HlComp **comps = hl_comp_order(o->arena, m);
  o->n = 0;
  o->inst = HL_ARRAY(o->arena, const HlInst *, hl_count_instructions(m) + 1);
  *at = HL_ARRAY(o->arena, int32_t *, m->next_comp_id + 1);
  for (uint32_t c = 0; c < m->n_comps; c++) {
    HlInst **insts = hl_print_order(o->arena, comps[c]);
    int32_t *numbers = HL_ARRAY(o->arena, int32_t, comps[c]->next_id + 1);
    (*at)[comps[c]->id] = numbers;
    for (uint32_t k = 0; k < comps[c]->n_insts; k++) {
      numbers[insts[k]->id] = (int32_t)o->n;
      o->inst[o->n++] = insts[k];
    }
  }
}

// --- hloenv-v1 ------------------------------------------------------------------------------------

static bool observe_hloenv(HlCx *cx, HlObserver *o, const HlModule *m, const HlTarget *target) {
  (void)target;
  if (!hl_features_fill(cx, m, NULL, &o->features))
    return false;
  for (int k = 0; k < HL_FEATURE_COUNT; k++) {
    const HlFeatureInfo *info = &hl_feature_info[k];
    const char *name = strcmp(info->group, "graph") == 0
                           ? info->name
                           : hl_arena_printf(o->arena, "%s_%s", info->group, info->name);
    vec_push_as(o, &o->arrays, ((HlArray){name, info->dtype, info->width, o->features.n[info->per],
                                    hl_feature_data(&o->features, k)}));
  }
  o->inst = o->features.inst;
  o->n = o->features.n[HL_PER_NODE];
  return true;
}

// --- hilo-v1 --------------------------------------------------------------------------------------

enum { DIMS = 8 };  // of a shape that are shown
typedef enum EdgeKind { EDGE_DATA, EDGE_CALL, EDGE_CONTROL } EdgeKind;

typedef struct Nodes {
  int32_t *opcode, *dtype, *rank, *computation, *fusion_kind, *sharding, *users;
  int64_t *dims, *bytes;
  double *flops, *transcendentals, *traffic, *collective, *seconds;
  uint8_t *is_root, *in_entry, *in_fusion;
} Nodes;

static Nodes make_nodes(HlObserver *o) {
#define NODE(name, type, numpy, width) \
  .name = observe_array(o, "node_" #name, numpy, width, o->n, sizeof(type))
  return (Nodes){NODE(opcode, int32_t, "i4", 1),      NODE(dtype, int32_t, "i4", 1),
                 NODE(rank, int32_t, "i4", 1),        NODE(dims, int64_t, "i8", DIMS),
                 NODE(bytes, int64_t, "i8", 1),       NODE(flops, double, "f8", 1),
                 NODE(transcendentals, double, "f8", 1), NODE(traffic, double, "f8", 1),
                 NODE(collective, double, "f8", 1),   NODE(seconds, double, "f8", 1),
                 NODE(computation, int32_t, "i4", 1), NODE(fusion_kind, int32_t, "i4", 1),
                 NODE(sharding, int32_t, "i4", 1),    NODE(users, int32_t, "i4", 1),
                 NODE(is_root, uint8_t, "u1", 1),     NODE(in_entry, uint8_t, "u1", 1),
                 NODE(in_fusion, uint8_t, "u1", 1)};
#undef NODE
}

static void fill_node(const Nodes *nodes, int64_t k, const HlInst *inst, const HlTimes *times) {
  const HlShape *shape = inst->shape;
  const HlCost cost = hl_cost_inst_by(inst, times->comps);
  const HlSharding *sharding = hl_sharding(inst);
  nodes->opcode[k] = hl_feature_opcode((HlOp)inst->op);
  nodes->dtype[k] = hl_dtype_info[shape->dtype].proto;
  nodes->rank[k] = shape->rank;
  for (int d = 0; d < DIMS; d++)
    nodes->dims[k * DIMS + d] = hl_shape_is_array(shape) && d < shape->rank ? shape->dim[d] : -1;
  nodes->bytes[k] = hl_leaf_bytes(shape);
  nodes->flops[k] = cost.flops;
  nodes->transcendentals[k] = cost.transcendentals;
  nodes->traffic[k] = cost.bytes_read + cost.bytes_written;
  nodes->collective[k] = cost.collective_bytes;
  nodes->seconds[k] = hl_time_of(times, inst);
  nodes->computation[k] = (int32_t)inst->comp->id;
  nodes->fusion_kind[k] = inst->op == HL_OP_FUSION ? (int32_t)hl_attr_int(inst, HL_A_KIND) : -1;
  nodes->sharding[k] = sharding ? (int32_t)sharding->kind : -1;
  nodes->users[k] = hl_n_users(inst);
  nodes->is_root[k] = inst == inst->comp->root;
  nodes->in_entry[k] = inst->comp == inst->comp->module->entry;
  nodes->in_fusion[k] = inst->comp->is_fusion;
}

static int64_t count_edges(const HlObserver *o) {
  int64_t n = 0;
  for (int64_t k = 0; k < o->n; k++)
    n += o->inst[k]->n_operands + o->inst[k]->n_calls +
         (o->inst[k]->control ? o->inst[k]->control->n_preds : 0);
  return n;
}

typedef struct Edges {
  int32_t *src, *dst, *number;
  uint8_t *kind;
  int64_t n;
} Edges;

static void add_edge(Edges *e, int32_t src, int64_t dst, EdgeKind kind, int number) {
  e->src[e->n] = src;
  e->dst[e->n] = (int32_t)dst;
  e->kind[e->n] = (uint8_t)kind;
  e->number[e->n++] = number;
}

static void fill_edges(HlObserver *o, int32_t **at) {
  const int64_t n = count_edges(o);
  Edges e = {.src = observe_array(o, "edge_src", "i4", 1, n, sizeof(int32_t)),
             .dst = observe_array(o, "edge_dst", "i4", 1, n, sizeof(int32_t)),
             .kind = observe_array(o, "edge_kind", "u1", 1, n, sizeof(uint8_t)),
             .number = observe_array(o, "edge_number", "i4", 1, n, sizeof(int32_t))};
  for (int64_t k = 0; k < o->n; k++) {
    const HlInst *inst = o->inst[k];
    const int32_t *here = at[inst->comp->id];
    for (uint32_t i = 0; i < inst->n_operands; i++)
      add_edge(&e, here[inst->operands[i]->id], k, EDGE_DATA, (int)i);
    for (int i = 0; i < inst->n_calls; i++)
      add_edge(&e, at[hl_called(inst, i)->id][hl_called(inst, i)->root->id], k, EDGE_CALL, i);
    for (int i = 0; inst->control && i < inst->control->n_preds; i++)
      add_edge(&e, here[inst->control->preds[i]->id], k, EDGE_CONTROL, i);
  }
}

bool observe_hilo(HlCx *cx, HlObserver *o, const HlModule *m, const HlTarget *target) {
  (void)cx;
  int32_t **at;
  observe_number(o, m, &at);
  const HlCost *comps = hl_cost_comps(o->arena, m);
  const HlTimes times = hl_times(o->arena, m, target ? target : hl_target_none(), comps);
  const Nodes nodes = make_nodes(o);
  for (int64_t k = 0; k < o->n; k++)
    fill_node(&nodes, k, o->inst[k], &times);
  fill_edges(o, at);
  return true;
}

// --- Observers ------------------------------------------------------------------------------------

static const ObserveForm forms[] = {
    {{"hloenv-v1", "the arrays of HloEnv's HloGraph"}, observe_hloenv},
    {{"tpugraphs-v1", "140 columns a node, as in TpuGraphs' files"}, observe_tpu},
    {{"hilo-v1", "bytes, costs, calls, control edges, kinds of fusions, shardings"}, observe_hilo},
};

const HlObservation *hl_observation_at(int k) {
  return k >= 0 && k < HL_COUNT_OF(forms) ? &forms[k].info : NULL;
}

const HlObservation *hl_observation_find(HlStr name) {
  for (int k = 0; k < HL_COUNT_OF(forms); k++)
    if (hl_str_is(name, forms[k].info.name))
      return &forms[k].info;
  return NULL;
}

HlObserver *hl_observer_new(const HlObservation *form) {
  HlObserver *o = base_alloc(sizeof *o);
  o->form = (const ObserveForm *)form;  // the first member of its row
  o->arena = hl_arena_new();
  return o;
}

const HlObservation *hl_observer_form(const HlObserver *o) {
  return &o->form->info;
}

void hl_observer_free(HlObserver *o) {
  if (!o)
    return;
  vec_free(&o->arrays);
  hl_features_free(&o->features);
  if (o->arena)
    hl_arena_free(o->arena);
  base_free(o);
}

// A try that fails frees what was made in it.
static void lose(void *kept) {
  HlObserver *o = (HlObserver *)(void *)((char *)kept - offsetof(HlObserver, kept));
  o->arena = NULL;
  if (o->features.capacity != o->kept)
    o->features = (HlFeatures){0};
  o->arrays.n = 0;
  o->inst = NULL;
  o->n = 0;
}

bool hl_observe(HlCx *cx, HlObserver *o, const HlModule *m, const HlTarget *target) {
  if (o->arena)
    hl_arena_free(o->arena);
  lose(&o->kept);
  base_hold(&o->kept, lose);
  o->arena = hl_arena_new();
  const bool ok = o->form->fill(cx, o, m, target);
  base_drop(&o->kept);
  base_arena_give(o->arena, o);
  if (o->features.block)
    base_give(o->features.block, o);
  o->kept = o->features.capacity;
  return ok;
}

const HlArray *hl_observed(const HlObserver *o, int *n) {
  *n = o->arrays.n;
  return o->arrays.at;
}

const HlInst *const *hl_observed_insts(const HlObserver *o, int64_t *n) {
  *n = o->n;
  return o->inst;
}
