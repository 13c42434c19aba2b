// opt/collective/collective_permutes.c: collective-permutes made smaller, and taken apart.
//
// collective-select-folder: what is sent is the same side of a select on every sender.
// collective-permute-cycle-decomposer: a ring of senders as a chain and the edge that closes it.
//
//   y = collective-permute(x), pairs={{0,1},{1,2},{2,0}}
//   =>  b = collective-permute(x), pairs={{2,0}}
//       f = collective-permute(x), pairs={{0,1},{1,2}}
//       y = select(partition-id == 0, b, f)
//
// collective-permute-decomposer: one that is no ring as send and recv, which may overlap with others.
// A device whose number is no target has zeros of all of them.

#include <string.h>

#include "hilo/cost.h"
#include "opt/ask/collectives.h"
#include "opt/ask/frontend.h"
#include "opt/passes.h"

static HlI64s pairs_of(const HlInst *inst) {
  return hl_attr_ints(inst, HL_A_SOURCE_TARGET_PAIRS);
}

static bool is_plain_permute(const HlInst *inst) {
  return coll_is_plain(inst) && !hl_has_attr(inst, HL_A_PERMUTE_SLICE_SIZES);
}

static bool is_of_partitions(const HlInst *inst) {
  return hl_group_mode(inst) == HL_CROSS_PARTITION;
}

// --- collective-select-folder -----------------------------------------------------------------------

// 1 or 0: the predicate's value on every sender; -1: they differ, or it is not known.
static int choice_of_senders(HlPass *p, const HlInst *inst, const HlInst *pred) {
  const int64_t *value = coll_value_by_device(p, pred);
  const int64_t partitions = p->m->num_partitions, replicas = p->m->replica_count;
  const HlI64s pairs = pairs_of(inst);
  const bool by_partition = is_of_partitions(inst);
  int choice = -1;
  for (int k = 0; value && k + 1 < pairs.n; k += 2) {
    const int64_t id = pairs.at[k], others = by_partition ? replicas : partitions;
    if (id < 0 || id >= (by_partition ? partitions : replicas))
      return -1;
    for (int64_t j = 0; j < others; j++) {
      const int here = value[by_partition ? j * partitions + id : id * partitions + j] != 0;
      if (choice >= 0 && choice != here)
        return -1;
      choice = here;
    }
  }
  return choice;
}

static HlInst *send_chosen(HlPass *p, HlBuild *b, HlInst *inst) {
  HlInst *select = inst->operands[0];
  if (!is_plain_permute(inst) || select->op != HL_OP_SELECT)
    return NULL;
  const HlInst *pred = select->operands[0];
  while (pred->op == HL_OP_BROADCAST || pred->op == HL_OP_RESHAPE)
    pred = pred->operands[0];
  if (!hl_is_effective_scalar(pred->shape))
    return NULL;
  const int choice = choice_of_senders(p, inst, pred);
  if (choice < 0)
    return NULL;
  HlInst *x = select->operands[choice ? 1 : 2];
  return coll_copy(b, inst, NULL, 1, &x);
}

const HlRule collective_select_folder_rules[] = {
    {HL_OP_COLLECTIVE_PERMUTE, send_chosen, "collective-select-folder",
     "collective-permute(select(p, x, y)) => collective-permute(x)", "every sender chooses x"},
    {0}};

// --- Rings ---------------------------------------------------------------------------------------

typedef enum Ring { NO_RING, FORWARD, BACKWARD } Ring;

// {{0,1},{1,2},..,{n-1,0}} is forward, {{0,n-1},{1,0},..,{n-1,n-2}} backward.
static Ring ring_of(HlI64s pairs) {
  const int64_t n = pairs.n / 2;
  bool forward = n > 0, backward = n > 0;
  for (int64_t k = 0; k < n; k++) {
    const int64_t from = pairs.at[2 * k], to = pairs.at[2 * k + 1];
    forward &= from == k && to == (k + 1) % n;
    backward &= from == k && to == (k + n - 1) % n;
  }
  return forward ? FORWARD : backward ? BACKWARD : NO_RING;
}

// Following the pairs from some device one comes back to it.
static bool has_cycle(HlPass *p, HlI64s pairs) {
  int64_t largest = -1;
  for (int k = 0; k < pairs.n; k++)
    largest = pairs.at[k] > largest ? pairs.at[k] : largest;
  if (largest > 1 << 20)
    return true;
  int64_t *next = HL_ARRAY(p->arena, int64_t, largest + 2);
  bool *seen = HL_ARRAY(p->arena, bool, largest + 2),
       *is_target = HL_ARRAY(p->arena, bool, largest + 2);
  for (int64_t k = 0; k <= largest; k++)
    next[k] = -1;
  for (int k = 0; k + 1 < pairs.n; k += 2) {
    if (pairs.at[k] < 0 || pairs.at[k + 1] < 0)
      return true;
    next[pairs.at[k]] = pairs.at[k + 1];
    is_target[pairs.at[k + 1]] = true;
  }
  for (int64_t k = 0; k <= largest; k++)
    for (int64_t at = is_target[k] ? -1 : k; at >= 0 && !seen[at]; at = next[at])
      seen[at] = true;
  for (int64_t k = 0; k <= largest; k++)  // what no chain's start leads to goes round
    if (next[k] >= 0 && !seen[k])
      return true;
  return false;
}

static HlInst *break_ring(HlPass *p, HlBuild *b, HlInst *inst) {
  const HlI64s pairs = pairs_of(inst);
  const Ring ring = ring_of(pairs);
  if (!is_plain_permute(inst) || ring == NO_RING || pairs.n < 4 ||
      hl_leaf_bytes(inst->shape) < hl_pass_int(p, "collective_permute_threshold"))
    return NULL;
  HlI64s back = {ring == FORWARD ? pairs.at + pairs.n - 2 : pairs.at, 2};
  HlI64s rest = {ring == FORWARD ? pairs.at : pairs.at + 2, pairs.n - 2};
  HlInst *closing = coll_copy(b, inst, NULL, 1, inst->operands);
  HlInst *chain = coll_copy(b, inst, NULL, 1, inst->operands);
  hl_set_ints(closing, HL_A_SOURCE_TARGET_PAIRS, back);
  hl_set_ints(chain, HL_A_SOURCE_TARGET_PAIRS, rest);
  coll_fresh_channel(p, chain);
  const HlOp id_op = is_of_partitions(inst) ? HL_OP_PARTITION_ID : HL_OP_REPLICA_ID;
  HlInst *id = hl_b_op(b, id_op, NULL, 0, NULL, 0, NULL, 0, NULL);
  HlInst *is_first =
      hl_b_compare(b, HL_WORD_direction_EQ, id, hl_b_scalar_int(b, HL_U32, back.at[1]));
  return hl_b_select(b, is_first, closing, chain);
}

const HlRule permute_cycle_rules[] = {
    {HL_OP_COLLECTIVE_PERMUTE, break_ring, "collective-permute-cycle-decomposer",
     "collective-permute(x) => select(id == first, collective-permute(x), collective-permute(x))",
     "the pairs are a ring"},
    {0}};

bool pass_permute_cycle_decomposer(HlPass *p) {
  return coll_run_rules(p, permute_cycle_rules, 1);
}

// --- collective-permute-decomposer --------------------------------------------------------------------

static const char *pairs_text(HlPass *p, HlI64s pairs) {
  HlBuf out = {0};
  hl_buf_putc(&out, '{');
  for (int k = 0; k + 1 < pairs.n; k += 2)
    hl_buf_printf(&out, "%s{%lld,%lld}", k ? "," : "", (long long)pairs.at[k],
                  (long long)pairs.at[k + 1]);
  hl_buf_putc(&out, '}');
  const char *text = hl_arena_strndup(p->arena, out.at, out.n);
  hl_buf_free(&out);
  return text;
}

static HlInst *transfer(HlPass *p, HlBuild *b, HlOp op, const HlInst *like, const HlShape *shape,
                        int n, HlInst *const *operands) {
  HlInst *made = hl_inst_new(b->comp, op, shape, NULL, n, operands);
  hl_inherit(made, like);
  hl_remove_attr(made, HL_A_SHARDING);
  hl_set_int(made, HL_A_CHANNEL_ID, hl_attr_int(like, HL_A_CHANNEL_ID));
  frontend_set(made, like, "_xla_send_recv_source_target_pairs", pairs_text(p, pairs_of(like)));
  return made;
}

static HlInst *send_and_receive(HlPass *p, HlBuild *b, HlInst *inst) {
  if (!is_plain_permute(inst) || !is_of_partitions(inst) ||
      hl_leaf_bytes(inst->shape) < hl_pass_int(p, "collective_permute_threshold") ||
      has_cycle(p, pairs_of(inst)))
    return NULL;
  HlShapes *shapes = p->m->shapes;
  HlInst *x = inst->operands[0];
  const HlShape *token = hl_shape_token(shapes);
  const HlShape *three[3] = {x->shape, hl_shape_scalar(shapes, HL_U32), token};
  const HlShape *two[2] = {x->shape, token};
  HlInst *after = hl_inst_new(b->comp, HL_OP_AFTER_ALL, token, NULL, 0, NULL);
  HlInst *sent[2] = {x, after};
  HlInst *recv = transfer(p, b, HL_OP_RECV, inst, hl_shape_tuple(shapes, 3, three), 1, &after);
  HlInst *send = transfer(p, b, HL_OP_SEND, inst, hl_shape_tuple(shapes, 3, three), 2, sent);
  HlInst *recv_done =
      transfer(p, b, HL_OP_RECV_DONE, inst, hl_shape_tuple(shapes, 2, two), 1, &recv);
  HlInst *send_done = transfer(p, b, HL_OP_SEND_DONE, inst, token, 1, &send);
  hl_add_control(recv, send);
  hl_add_control(send, recv_done);
  hl_add_control(recv_done, send_done);
  return hl_b_element(b, recv_done, 0);
}

const HlRule permute_decomposer_rules[] = {
    {HL_OP_COLLECTIVE_PERMUTE, send_and_receive, "collective-permute-decomposer",
     "collective-permute(x) => send(x), recv", "the pairs hold no ring"},
    {0}};

bool pass_permute_decomposer(HlPass *p) {
  return hl_run_rules(p, permute_decomposer_rules, 1);
}
