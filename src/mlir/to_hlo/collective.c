// Lowers communication: collectives, channels, infeed and outfeed, async pairs, barriers.
#include <string.h>

#include "mlir/to_hlo/to_hlo.h"

// --- Attributes of collectives -----------------------------------------------------------------------

// Rows of a dense tensor; -1 fills up short ones.
static HlI64Lists dense_groups(MlLower *l, const HlMlOp *op, const HlMlAttr *attr) {
  const HlMlType *type = attr->type;
  if (!type || type->kind != HL_ML_TENSOR || type->rank != 2 || !hl_ml_is_static(type) ||
      hl_ml_elements(type) == 0)
    return (HlI64Lists){0};
  HlI64s all = ml_pairs(l, op, ML_A_REPLICA_GROUPS);
  if (all.n != hl_ml_elements(type))
    return (HlI64Lists){0};
  int n_groups = (int)type->dim[0], size = (int)type->dim[1];
  HlI64s *list = HL_ARRAY(l->m->arena, HlI64s, n_groups);
  for (int g = 0; g < n_groups; g++) {
    const int64_t *row = all.at + (size_t)g * (size_t)size;
    int n = 0;
    while (n < size && row[n] >= 0)
      n++;
    list[g] = (HlI64s){row, n};
  }
  return (HlI64Lists){list, n_groups};
}

HlI64Lists ml_groups(MlLower *l, const HlMlOp *op, const HlMlAttr *attr) {
  if (!attr)
    return (HlI64Lists){0};
  return attr->kind == HL_ML_A_STRUCT ? ml_mesh_groups(l, op, attr) : dense_groups(l, op, attr);
}

static int collective_attrs(MlLower *l, const HlMlOp *op, HlAttr *out) {
  int n = 0;
  const HlMlAttr *groups = ml_attr(op, ML_A_REPLICA_GROUPS),
                 *channel = ml_attr(op, ML_A_CHANNEL_HANDLE);
  int64_t id = ml_field_int(channel, ML_A_HANDLE, 0);
  if (id > 0)
    out[n++] = (HlAttr){.key = HL_A_CHANNEL_ID, .i = id};
  if (groups) {
    HlGroups *value = HL_NEW(l->m->arena, HlGroups);
    if (groups->kind == HL_ML_A_STRUCT)
      ml_mesh_form(l, op, groups, value);
    else
      *value = (HlGroups){.form = HL_GROUPS_LIST, .list = dense_groups(l, op, groups)};
    out[n++] = (HlAttr){.key = HL_A_REPLICA_GROUPS, .ptr = value};
  }
  if (ml_attr(op, ML_A_USE_GLOBAL_DEVICE_IDS) && ml_attr_true(op, ML_A_USE_GLOBAL_DEVICE_IDS))
    out[n++] = (HlAttr){.key = HL_A_USE_GLOBAL_DEVICE_IDS, .i = 1};
  if (ml_attr_true(op, ML_A_HAS_DYNAMIC_ROOT))  // the last operand says which member is the root
    out[n++] = (HlAttr){.key = HL_A_HAS_DYNAMIC_ROOT, .i = 1};
  return n;
}

static bool lower_collective(MlLower *l, HlBuild *b, const HlMlOp *op, HlOp hlo, int n,
                             const HlAttr *attrs, bool has_region) {
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  const HlShape *shape = in ? ml_result_shape(l, op) : NULL;
  HlComp *comp = shape && has_region ? ml_region_comp(l, b, op, 0) : NULL;
  if (!shape || (has_region && !comp))
    return false;
  // A token that comes along is for ordering alone.
  HlInst *inst = hl_b_op(b, hlo, shape, (int)op->n_operands, in, n, attrs, has_region, &comp);
  return ml_set_results(l, b, op, inst);
}

bool ml_lower_all_gather(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[6];
  int n = collective_attrs(l, op, attrs);
  attrs[n++] = (HlAttr){.key = HL_A_DIMENSION, .i = ml_attr_int(op, ML_A_ALL_GATHER_DIM, 0)};
  return lower_collective(l, b, op, HL_OP_ALL_GATHER, n, attrs, false);
}

bool ml_lower_all_reduce(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[6];
  return lower_collective(l, b, op, HL_OP_ALL_REDUCE, collective_attrs(l, op, attrs), attrs, true);
}

bool ml_lower_reduce_scatter(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[6];
  int n = collective_attrs(l, op, attrs);
  attrs[n++] = (HlAttr){.key = HL_A_DIMENSION, .i = ml_attr_int(op, ML_A_SCATTER_DIMENSION, 0)};
  return lower_collective(l, b, op, HL_OP_REDUCE_SCATTER, n, attrs, true);
}

bool ml_lower_collective_broadcast(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[6];
  return lower_collective(l, b, op, HL_OP_COLLECTIVE_BROADCAST, collective_attrs(l, op, attrs),
                          attrs, false);
}

bool ml_lower_collective_reduce(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[6];
  return lower_collective(l, b, op, HL_OP_COLLECTIVE_REDUCE, collective_attrs(l, op, attrs), attrs,
                          true);
}

bool ml_lower_permute(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[6];
  int n = collective_attrs(l, op, attrs);
  attrs[n++] =
      (HlAttr){.key = HL_A_SOURCE_TARGET_PAIRS, .ints = ml_pairs(l, op, ML_A_SOURCE_TARGET_PAIRS)};
  return lower_collective(l, b, op, HL_OP_COLLECTIVE_PERMUTE, n, attrs, false);
}

bool ml_lower_cross_replica_sum(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[6];
  HlInst *x = ml_in(l, b, op, 0);
  HlComp *comp = x ? hl_b_scalar_comp(b, HL_OP_ADD, x->shape->dtype) : NULL;
  int n = collective_attrs(l, op, attrs);
  return comp &&
         ml_set_results(l, b, op, hl_b_op(b, HL_OP_ALL_REDUCE, NULL, 1, &x, n, attrs, 1, &comp));
}

// HLO's all-to-all leaves the parts where they were split; where they are to be joined along another
// dimension, that is a reshape, a transpose and a reshape.
static HlInst *join_parts(MlLower *l, HlBuild *b, HlInst *x, int64_t split, int64_t concat,
                          int64_t count) {
  int rank = x->shape->rank, n = 0, n_perm = 0;
  int64_t *dim = HL_ARRAY(l->arena, int64_t, rank + 1),
          *perm = HL_ARRAY(l->arena, int64_t, rank + 1);
  int64_t *out = HL_ARRAY(l->arena, int64_t, rank + 1);
  for (int k = 0; k < rank; k++) {
    out[k] = x->shape->dim[k];
    if (k == split) {
      dim[n++] = count;
      out[k] /= count;
    }
    dim[n++] = k == split ? x->shape->dim[k] / count : x->shape->dim[k];
    if (k == concat) {
      perm[n_perm++] = split;
      out[k] *= count;
    }
    perm[n_perm++] = k >= split ? k + 1 : k;
  }
  HlInst *parts = hl_b_transpose(b, hl_b_reshape(b, x, n, dim), (HlI64s){perm, n_perm});
  return hl_b_reshape(b, parts, rank, out);
}

bool ml_lower_all_to_all(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[6];
  int n = collective_attrs(l, op, attrs);
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  if (!in)
    return false;
  if (!ml_attr(op, ML_A_SPLIT_DIMENSION))
    return lower_collective(l, b, op, HL_OP_ALL_TO_ALL, n, attrs, false);
  int64_t split = ml_attr_int(op, ML_A_SPLIT_DIMENSION, 0),
          concat = ml_attr_int(op, ML_A_CONCAT_DIMENSION, 0);
  int64_t count = ml_attr_int(op, ML_A_SPLIT_COUNT, 1);
  attrs[n++] = (HlAttr){.key = HL_A_DIMENSION, .i = split};
  for (uint32_t k = 0; k < op->n_operands; k++) {
    const HlShape *x = in[k]->shape;
    if (split < 0 || split >= x->rank || concat < 0 || concat >= x->rank || count < 1 ||
        x->dim[split] % count != 0)
      return ml_bad(l, op, "%s cannot be split into %lld parts along dimension %lld",
                    hl_shape_text(l->cx, x), (long long)count, (long long)split);
    HlInst *inst = hl_b_op(b, HL_OP_ALL_TO_ALL, x, 1, &in[k], n, attrs, 0, NULL);
    if (inst && split != concat)
      inst = join_parts(l, b, inst, split, concat, count);
    if (!ml_set(l, &op->results[k], inst))
      return false;
  }
  return true;
}

// --- Barriers --------------------------------------------------------------------------------------------

bool ml_lower_barrier(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  if (!in)
    return false;
  if (op->n_operands == 0)
    return true;
  HlInst *x = op->n_operands == 1 ? in[0] : hl_b_tuple(b, (int)op->n_operands, in);
  return ml_set_results(l, b, op, hl_b_unary(b, HL_OP_OPT_BARRIER, x));
}

// --- Channels -----------------------------------------------------------------------------------------------

static int channel_attrs(MlLower *l, HlBuild *b, const HlMlOp *op, HlAttr *out) {
  int n = 0;
  const HlMlAttr *channel = ml_attr(op, ML_A_CHANNEL_HANDLE);
  int64_t id = ml_field_int(channel, ML_A_HANDLE, 0);
  if (id > 0)
    out[n++] = (HlAttr){.key = HL_A_CHANNEL_ID, .i = id};
  if (ml_attr_true(op, ML_A_IS_HOST_TRANSFER))
    out[n++] = (HlAttr){.key = HL_A_IS_HOST_TRANSFER, .i = 1};
  HlI64s pairs = ml_pairs(l, op, ML_A_SOURCE_TARGET_PAIRS);
  if (pairs.n > 1) {
    HlBuf text = {0};
    for (int k = 0; k + 1 < pairs.n; k += 2)
      hl_buf_printf(&text, "%s{%lld,%lld}", k ? "," : "{", (long long)pairs.at[k],
                    (long long)pairs.at[k + 1]);
    hl_buf_putc(&text, '}');
    b->frontend =
        ml_dict_with(l, b->frontend, "_xla_send_recv_source_target_pairs", text.at, text.n);
    hl_buf_free(&text);
  }
  return n;
}

// The sharding of one value for each part of a channel's tuple.
static void triple_sharding(MlLower *l, HlBuild *b) {
  const HlSharding *one = b->sharding;
  if (!one || one->kind == HL_SHARDING_TUPLE)
    return;
  HlSharding *tuple = HL_NEW(l->m->arena, HlSharding);
  const HlSharding **element = HL_ARRAY(l->m->arena, const HlSharding *, 3);
  element[0] = element[1] = element[2] = one;
  *tuple = (HlSharding){.kind = HL_SHARDING_TUPLE, .element = element, .n_elements = 3};
  b->sharding = tuple;
}

// (data, u32[], token[]), what a channel hands out while the transfer goes on.
static const HlShape *channel_shape(MlLower *l, const HlShape *data) {
  const HlShape *parts[] = {data, hl_shape_scalar(l->m->shapes, HL_U32),
                            hl_shape_token(l->m->shapes)};
  return hl_shape_tuple(l->m->shapes, 3, parts);
}

bool ml_lower_send(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[3];
  if (op->n_operands < 1)
    return ml_bad(l, op, "send wants a token");
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  if (!in)
    return false;
  int n_data = (int)op->n_operands - 1, n = channel_attrs(l, b, op, attrs);
  HlBuild own = *b;
  HlInst *data = n_data == 1 ? in[0] : hl_b_tuple(b, n_data, in);
  HlInst *operands[] = {data, in[n_data]};
  triple_sharding(l, &own);
  HlInst *send = data ? hl_b_op(&own, HL_OP_SEND, channel_shape(l, data->shape), 2, operands, n,
                                attrs, 0, NULL)
                      : NULL;
  return ml_set_results(l, b, op, hl_b_op(b, HL_OP_SEND_DONE, NULL, 1, &send, n, attrs, 0, NULL));
}

// The shape of the data that comes in: one value, or a tuple; the last result is the token.
static const HlShape *data_shape(MlLower *l, const HlMlOp *op, bool always_tuple) {
  int n = (int)op->n_results - 1;
  const HlShape **shape = HL_ARRAY(l->arena, const HlShape *, op->n_results + 1);
  for (int k = 0; k < n; k++)
    if (!(shape[k] = ml_shape(l, op, op->results[k].type)))
      return NULL;
  return n == 1 && !always_tuple ? shape[0] : hl_shape_tuple(l->m->shapes, n, shape);
}

// Results of (data, token): data itself or its elements, then the token.
static bool set_received(MlLower *l, HlBuild *b, const HlMlOp *op, HlInst *inst) {
  int n = (int)op->n_results - 1;
  HlInst *data = hl_b_element(b, inst, 0);
  if (!data)
    return false;
  bool is_one = n == 1 && !hl_shape_is_tuple(data->shape);
  for (int k = 0; k < n; k++)
    if (!ml_set(l, &op->results[k], is_one ? data : hl_b_element(b, data, k)))
      return false;
  return ml_set(l, &op->results[n], hl_b_element(b, inst, 1));
}

bool ml_lower_recv(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlAttr attrs[3];
  HlInst *token = ml_in(l, b, op, 0);
  const HlShape *data = token && op->n_results > 0 ? data_shape(l, op, false) : NULL;
  if (!data)
    return false;
  int n = channel_attrs(l, b, op, attrs);
  HlBuild own = *b;
  triple_sharding(l, &own);
  HlInst *recv = hl_b_op(&own, HL_OP_RECV, channel_shape(l, data), 1, &token, n, attrs, 0, NULL);
  HlInst *done = recv ? hl_b_op(b, HL_OP_RECV_DONE, NULL, 1, &recv, n, attrs, 0, NULL) : NULL;
  return done && set_received(l, b, op, done);
}

static const HlShape *with_layouts(MlLower *l, const HlMlOp *op, const HlShape *data) {
  const HlMlAttr *layouts = ml_attr(op, ML_A_LAYOUT);
  if (!layouts || layouts->kind != HL_ML_A_ARRAY || layouts->n != data->rank)
    return data;
  const HlShape **element = HL_ARRAY(l->arena, const HlShape *, data->rank + 1);
  for (int k = 0; k < data->rank; k++) {
    HlI64s order = hl_ml_ints(l->m->arena, layouts->list[k]);
    element[k] = data->element[k];
    if (hl_shape_is_array(element[k]) && order.n == element[k]->rank)
      element[k] = hl_shape_with_layout(l->m->shapes, element[k], ml_layout(l, order));
  }
  return hl_shape_tuple(l->m->shapes, data->rank, element);
}

bool ml_lower_infeed(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *token = ml_in(l, b, op, 0);
  const HlShape *data = token && op->n_results > 0 ? data_shape(l, op, true) : NULL;
  if (!data)
    return false;
  const HlShape *parts[] = {with_layouts(l, op, data), hl_shape_token(l->m->shapes)};
  const HlShape *shape = hl_shape_tuple(l->m->shapes, 2, parts);
  const HlSym *config = ml_attr_sym(op, ML_A_INFEED_CONFIG);
  HlAttr attr = {.key = HL_A_INFEED_CONFIG, .sym = config ? ml_sym(l, config) : NULL};
  HlInst *inst =
      hl_b_op(b, HL_OP_INFEED, shape, 1, &token, config && config->n > 0, &attr, 0, NULL);
  return inst && set_received(l, b, op, inst);
}

bool ml_lower_outfeed(MlLower *l, HlBuild *b, const HlMlOp *op) {
  if (op->n_operands < 1)
    return ml_bad(l, op, "outfeed wants a token");
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  if (!in)
    return false;
  int n_data = (int)op->n_operands - 1, n = 0;
  HlInst *operands[] = {hl_b_tuple(b, n_data, in), in[n_data]};
  if (!operands[0])
    return false;
  const HlSym *config = ml_attr_sym(op, ML_A_OUTFEED_CONFIG);
  HlAttr attrs[2];
  attrs[n++] = (HlAttr){.key = HL_A_OUTFEED_SHAPE, .ptr = operands[0]->shape};
  if (config && config->n > 0)
    attrs[n++] = (HlAttr){.key = HL_A_OUTFEED_CONFIG, .sym = ml_sym(l, config)};
  return ml_set_results(l, b, op, hl_b_op(b, HL_OP_OUTFEED, NULL, 2, operands, n, attrs, 0, NULL));
}

// --- Async pairs -------------------------------------------------------------------------------------------------

// ((operands), results, u32[]): what an async-start hands on.
static const HlShape *async_shape(MlLower *l, uint32_t n, HlInst *const *in,
                                  const HlShape *result) {
  const HlShape **operand = HL_ARRAY(l->arena, const HlShape *, n + 1);
  for (uint32_t k = 0; k < n; k++)
    operand[k] = in[k]->shape;
  const HlShape *parts[] = {hl_shape_tuple(l->m->shapes, (int)n, operand), result,
                            hl_shape_scalar(l->m->shapes, HL_U32)};
  return hl_shape_tuple(l->m->shapes, 3, parts);
}

static bool start_async(MlLower *l, HlBuild *b, const HlMlOp *op, HlComp *comp,
                        const HlSym *thread) {
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  if (!in || !comp || !comp->root)
    return false;
  HlAttr attr = {.key = HL_A_ASYNC_EXECUTION_THREAD, .sym = thread ? ml_sym(l, thread) : NULL};
  if (thread && !comp->execution_thread)
    hl_comp_set_thread(comp, ml_sym(l, thread));
  const HlShape *shape = async_shape(l, op->n_operands, in, comp->root->shape);
  return ml_set(l, &op->results[0],
                hl_b_op(b, HL_OP_ASYNC_START, shape, (int)op->n_operands, in, thread != NULL, &attr,
                        1, &comp));
}

bool ml_lower_async_start(MlLower *l, HlBuild *b, const HlMlOp *op) {
  return start_async(l, b, op, ml_region_comp(l, b, op, 0), NULL);
}

static bool end_async(MlLower *l, HlBuild *b, const HlMlOp *op, HlOp hlo) {
  HlInst *bundle = ml_in(l, b, op, 0);
  if (!bundle)
    return false;
  if (!hl_shape_is_tuple(bundle->shape) || bundle->shape->rank < 2)
    return ml_bad(l, op, "%s wants what an async_start made", op->name->text);
  const HlShape *shape = hlo == HL_OP_ASYNC_UPDATE ? bundle->shape : bundle->shape->element[1];
  return ml_set_results(l, b, op, hl_b_op(b, hlo, shape, 1, &bundle, 0, NULL, 0, NULL));
}

bool ml_lower_async_done(MlLower *l, HlBuild *b, const HlMlOp *op) {
  return end_async(l, b, op, HL_OP_ASYNC_DONE);
}

bool ml_lower_mhlo_async(MlLower *l, HlBuild *b, const HlMlOp *op) {
  if (op->row == ML_MHLO_ASYNC_UPDATE)
    return end_async(l, b, op, HL_OP_ASYNC_UPDATE);
  if (op->row == ML_MHLO_ASYNC_DONE)
    return end_async(l, b, op, HL_OP_ASYNC_DONE);
  const HlSym *callee = ml_attr_sym(op, ML_A_CALLED_COMPUTATION),
              *thread = ml_attr_sym(op, ML_A_EXECUTION_THREAD);
  if (!callee)
    return ml_bad(l, op, "%s names no computation", op->name->text);
  bool is_main = !thread || thread->n == 0 || strcmp(thread->text, "main") == 0;
  return start_async(l, b, op, ml_lower_func(l, b, op, callee), is_main ? NULL : thread);
}
