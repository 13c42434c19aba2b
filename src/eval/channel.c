// eval/channel.c: send and recv, infeed and outfeed, the program's random state.

#include "eval/collective.h"

#include <string.h>

// --- send, recv ----------------------------------------------------------------------------------

// What the text "{{0,1},{1,2}}" of a frontend attribute says about one device.
typedef struct Route {
  bool given;  // there are pairs
  int source;  // that sends to this device, or -1
} Route;

static const HlSym *frontend(const HlInst *inst, const char *key) {
  const HlDict *dict = hl_attr_ptr(inst, HL_A_FRONTEND_ATTRIBUTES);
  for (int k = 0; dict && k < dict->n; k++)
    if (strcmp(dict->key[k]->text, key) == 0)
      return dict->value[k];
  return NULL;
}

// Calls nothing for text without numbers: the next one, or false.
static bool next_number(const char **at, int64_t *number) {
  while (**at && (**at < '0' || **at > '9'))
    ++*at;
  if (!**at)
    return false;
  for (*number = 0; **at >= '0' && **at <= '9'; ++*at)
    if (*number < INT32_MAX)
      *number = *number * 10 + (**at - '0');
  return true;
}

static const HlSym *pairs_text(const HlInst *inst) {
  return frontend(inst, "_xla_send_recv_source_target_pairs");
}

// Messages of send and recv have numbers below those of other users of a channel.
static MeetKey key_between(const Interp *in, const HlInst *inst, int source, int target) {
  const int64_t pair = (int64_t)source * in->cluster->n_devices + target;
  return (MeetKey){-1, hl_attr_int(inst, HL_A_CHANNEL_ID), -1 - pair};
}

// The queue of a channel through which all hosts pass messages.
static MeetKey key_of_hosts(const HlInst *inst) {
  return (MeetKey){-1, hl_attr_int(inst, HL_A_CHANNEL_ID), INT64_MIN};
}

// Sends along the pairs; without pairs a device sends to itself.
static bool post(Interp *in, const HlInst *inst, const HlLiteral *value) {
  const HlSym *pairs = pairs_text(inst);
  if (!pairs)
    return device_post(in, key_between(in, inst, in->device, in->device), in->device, value);
  const char *at = pairs->text;
  for (int64_t from, to; next_number(&at, &from) && next_number(&at, &to);) {
    const int source = collective_peer(in, inst, from), target = collective_peer(in, inst, to);
    if (source == in->device && target >= 0 &&
        !device_post(in, key_between(in, inst, source, target), target, value))
      return false;
  }
  return true;
}

static Route route_of(const Interp *in, const HlInst *inst, const HlSym *pairs) {
  Route route = {pairs != NULL, -1};
  const char *at = pairs ? pairs->text : "";
  for (int64_t from, to; next_number(&at, &from) && next_number(&at, &to);)
    if (collective_peer(in, inst, to) == in->device)
      route.source = collective_peer(in, inst, from);
  return route;
}

// The pairs of a recv, or of a recv-done: its own, or those of the recv of its channel.
static const HlSym *pairs_of(const HlInst *inst) {
  const HlSym *pairs = pairs_text(inst);
  if (pairs || inst->op == HL_OP_RECV)
    return pairs;
  const HlInst *operand = inst->operands[0];
  if (operand->op == HL_OP_RECV)
    return pairs_text(operand);
  for (const HlComp *comp = inst->comp->module->first; comp; comp = comp->next)
    for (const HlInst *recv = comp->first; recv; recv = recv->next)
      if (recv->op == HL_OP_RECV &&
          hl_attr_int(recv, HL_A_CHANNEL_ID) == hl_attr_int(inst, HL_A_CHANNEL_ID) &&
          pairs_text(recv))
        return pairs_text(recv);
  return NULL;
}

// A tuple of the declared shape with the given first element and zeros behind it.
static HlLiteral *tuple_with(Interp *in, const HlInst *inst, const HlLiteral *first) {
  const HlShape *shape = inst->shape;
  if (!hl_shape_is_tuple(shape) || shape->rank < 1) {
    hl_inst_error(in->ev.cx, inst, "the shape must be a tuple, but is %s",
                  hl_shape_text(in->ev.cx, shape));
    return NULL;
  }
  const HlMark mark = hl_arena_mark(in->frames);
  HlLiteral **element = HL_ARRAY(in->frames, HlLiteral *, shape->rank), *out = NULL;
  bool good = true;
  for (int k = 0; good && k < shape->rank; k++) {
    element[k] = k == 0 && first ? hl_literal_ref(first) : interp_new(in, inst, shape->element[k]);
    good = element[k] != NULL;
  }
  if (good)
    out = interp_tuple(in, shape->rank, element);
  collective_drop(in, element, shape->rank);
  hl_arena_release(in->frames, mark);
  return out;
}

static HlLiteral *send(Interp *in, const HlInst *inst, const HlLiteral *value) {
  const bool to_host = hl_attr_int(inst, HL_A_IS_HOST_TRANSFER) != 0;
  if (to_host && in->cluster->is_process_grid && !device_post(in, key_of_hosts(inst), in->device, value))
    return NULL;
  if (!to_host && !post(in, inst, value))
    return NULL;
  return tuple_with(in, inst, value);
}

// Where a recv or its done finds the message; false: it gets zeros, being no target.
static bool find_sender(Interp *in, const HlInst *inst, MeetKey *key) {
  if (hl_attr_int(inst, HL_A_IS_HOST_TRANSFER)) {
    *key = key_of_hosts(inst);
    return true;
  }
  const Route route = route_of(in, inst, pairs_of(inst));
  *key = key_between(in, inst, route.given ? route.source : in->device, in->device);
  return !route.given || route.source >= 0;
}

// What comes for a recv, as the first element of a tuple of the shape of `inst`: it or its done.
static HlLiteral *receive(Interp *in, const HlInst *inst) {
  if (hl_attr_int(inst, HL_A_IS_HOST_TRANSFER) && !in->cluster->is_process_grid) {
    hl_error_kind(in->ev.cx, HL_UNSUPPORTED, hl_pos(inst),
                  "%s: receiving from the host is not supported", inst->name->text);
    return NULL;
  }
  const HlShape *shape =
      hl_shape_is_tuple(inst->shape) && inst->shape->rank > 0 ? inst->shape->element[0] : NULL;
  HlLiteral *value = NULL, *out = NULL;
  MeetKey key;
  if (!find_sender(in, inst, &key))
    return tuple_with(in, inst, NULL);
  if (!device_take(in, inst, key, &value))
    return NULL;
  if (shape && hl_shape_compatible(value->shape, shape))
    out = tuple_with(in, inst, value);
  else
    hl_inst_error(in->ev.cx, inst, "%s was sent where %s was expected",
                  hl_shape_text(in->ev.cx, value->shape),
                  hl_shape_text(in->ev.cx, shape ? shape : inst->shape));
  interp_drop(in, value);
  return out;
}

bool eval_transfer(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                   HlLiteral **out) {
  switch (inst->op) {
  case HL_OP_SEND: *out = send(in, inst, operand[0]); break;
  case HL_OP_RECV: *out = tuple_with(in, inst, NULL); break;
  case HL_OP_RECV_DONE: *out = receive(in, inst); break;
  default: *out = interp_new(in, inst, inst->shape);
  }
  return *out != NULL;
}

// The tuple with what has come for its elements that are recvs.
static HlLiteral *receive_elements(Interp *in, const HlInst *tuple, const HlLiteral *value) {
  const int n = value->shape->rank;
  const HlMark mark = hl_arena_mark(in->frames);
  HlLiteral **element = HL_ARRAY(in->frames, HlLiteral *, n + 1), *out = NULL;
  bool good = true;
  for (int k = 0; good && k < n; k++) {
    const HlInst *from = tuple->operands[k];
    element[k] = from->op == HL_OP_RECV ? receive(in, from) : hl_literal_ref(value->element[k]);
    good = element[k] != NULL;
  }
  if (good)
    out = interp_tuple(in, n, element);
  collective_drop(in, element, n);
  hl_arena_release(in->frames, mark);
  return out;
}

// Sends post when their group starts, and recvs take when its end is awaited: all devices have
// posted by then.
bool transfer_await(Interp *in, const HlInst *done, HlLiteral **value) {
  const HlInst *root = hl_async_wrapped(NULL, done);
  HlLiteral *out = NULL;
  if (root && root->op == HL_OP_RECV)
    out = receive(in, root);
  else if (root && root->op == HL_OP_TUPLE && transfer_is_awaited(done))
    out = receive_elements(in, root, *value);
  else
    return true;
  interp_drop(in, *value);
  *value = out;
  return out != NULL;
}

bool transfer_is_awaited(const HlInst *done) {
  const HlInst *root = hl_async_wrapped(NULL, done);
  if (!root || root->op != HL_OP_TUPLE)
    return root && root->op == HL_OP_RECV;
  for (uint32_t k = 0; k < root->n_operands; k++)
    if (root->operands[k]->op == HL_OP_RECV)
      return true;
  return false;
}

// --- infeed, outfeed -----------------------------------------------------------------------------

static bool no_infeed(Interp *in, const HlInst *inst) {
  hl_error_kind(in->ev.cx, HL_FAILED, hl_pos(inst), "%s: there is no data for infeed number %d",
                inst->name->text, in->n_infed);
  hl_hint(in->ev.cx, "%d values were given to the program's infeeds",
          in->cluster->options->n_infeed);
  return false;
}

static bool infeed(Interp *in, const HlInst *inst, HlLiteral **out) {
  const HlEvalOptions *options = in->cluster->options;
  if (!options->infeed || in->n_infed >= options->n_infeed)
    return no_infeed(in, inst);
  const HlLiteral *data = options->infeed[in->n_infed++];
  const HlShape *shape =
      hl_shape_is_tuple(inst->shape) && inst->shape->rank > 0 ? inst->shape->element[0] : NULL;
  if (!shape || !data || !hl_shape_compatible(data->shape, shape) || hl_literal_is_elided(data))
    return hl_inst_error(in->ev.cx, inst, "infeed number %d has the shape %s, but %s was expected",
                         in->n_infed - 1,
                         data ? hl_shape_text(in->ev.cx, data->shape) : "of nothing",
                         hl_shape_text(in->ev.cx, shape ? shape : inst->shape));
  *out = tuple_with(in, inst, data);
  return *out != NULL;
}

// What is fed out goes nowhere: a trace sees it as the operand.
bool eval_feed(Interp *in, const HlInst *inst, const HlLiteral *const *operand, HlLiteral **out) {
  if (inst->op == HL_OP_INFEED)
    return infeed(in, inst, out);
  *out = interp_new(in, inst, inst->shape);
  return *out != NULL;
}

// --- rng-get-and-update-state --------------------------------------------------------------------

bool eval_rng_state(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                    HlLiteral **out) {
  const HlShape *shape = inst->shape;
  if (shape->dtype != HL_U64 || hl_shape_elements(shape) != 2)
    return hl_inst_error(in->ev.cx, inst, "the state is u64[2], not %s",
                         hl_shape_text(in->ev.cx, shape));
  *out = interp_new(in, inst, shape);
  if (!*out)
    return false;
  const uint64_t delta = (uint64_t)hl_attr_int(inst, HL_A_DELTA);
  memcpy((*out)->data, in->rng_state, sizeof in->rng_state);
  in->rng_state[0] += delta;
  in->rng_state[1] += in->rng_state[0] < delta;
  return true;
}
