// sim/graph/protocol.c: sends and receives as the halves of a protocol. "push": the receiver has told where the data goes, and
// the sender sends when it can.

#include "sim/graph/translate.h"

typedef struct Halves {
  HlSimNode *start, *done;
} Halves;

static HlSimNode *half(Coll *c, HlSimOp op, const char *words, int64_t peer) {
  HlSimNode *node = sim_step(c, op, c->name, words, -1, NULL);
  sim_set_group(node, (HlI64s){&peer, 1});
  return node;
}

static void send(Coll *c, int64_t to, const HlSimNode *after, Halves *out) {
  out->start = half(c, HL_SIM_SEND_START, "_sendstart", to);
  out->start->cost.bytes_in = c->node->cost.bytes_in;
  sim_after(out->start, after);
  out->done = half(c, HL_SIM_SEND_DONE, "_senddone", to);
  sim_push_operand(out->done, out->start);
  hl_sim_bond(out->done, out->start);
}

static void recv_done(Coll *c, int64_t from, Halves *out) {
  out->done = half(c, HL_SIM_RECV_DONE, "_recvdone", from);
  out->done->cost.bytes_out = c->node->cost.bytes_out;
  sim_push_operand(out->done, out->start);
  hl_sim_bond(out->done, out->start);
}

static bool exchange(Coll *c) {
  Halves in, out;
  in.start = half(c, HL_SIM_RECV_START, "_recvstart", c->group.at[0]);
  send(c, c->group.at[1], in.start, &out);
  recv_done(c, c->group.at[0], &in);
  sim_push_operand(in.done, out.start);
  HlSimNode *root = sim_null_root(c, c->name, "_root", -1);
  sim_push_operand(root, in.done);
  sim_push_operand(root, out.done);
  return true;
}

bool sim_make_push(Coll *c) {
  Halves halves;
  if (c->group.n != (c->node->op == HL_SIM_SENDRECV ? 2 : 1))
    return hl_error(c->cx, (HlPos){0}, "%s %.*s has %d peers", hl_sim_op_text(sim_op(c->node)),
                    (int)c->name.n, c->name.at, c->group.n);
  if (c->node->op == HL_SIM_SENDRECV)
    return exchange(c);
  if (c->node->op == HL_SIM_SEND) {
    send(c, c->group.at[0], NULL, &halves);
  } else {
    halves.start = half(c, HL_SIM_RECV_START, "_recvstart", c->group.at[0]);
    recv_done(c, c->group.at[0], &halves);
  }
  c->sub->root = halves.done;
  return true;
}
