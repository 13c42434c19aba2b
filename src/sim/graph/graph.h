// sim/graph/graph.h: what the files of this room share: how graphs are built and changed.
#ifndef SIM_GRAPH_GRAPH_H
#define SIM_GRAPH_GRAPH_H

#include "base/map.h"
#include "base/vec.h"
#include "hilo/sim_graph.h"

// Memory of a thread that makes graph after graph (room.c). From {0}.
typedef struct SimRoom {
  VEC(char *) block;
  int at;       // the block that is used now
  size_t used;  // of that,
  size_t cleared;  // and of that what is zero
} SimRoom;

struct HlSimGraph {
  HlArena *arena;  // all of it lies there, this too,
  SimRoom *room;   // or here, if there is one
  HlStr name;
  int64_t processor;
  HlSimSub *entry;
  int64_t next_id;
  uint32_t n_serials;
  Map groups;  // every HlSimGroups, by its hash
};

typedef VEC(HlSimNode *) SimNodes;
typedef VEC(HlSimSub *) SimSubs;

static inline HlSimOp sim_op(const HlSimNode *node) {
  return (HlSimOp)node->op;
}

static inline HlSimClass sim_class(const HlSimNode *node) {
  return hl_sim_op_class(sim_op(node));
}

// Whether it takes part in communication: such nodes have groups.
static inline bool sim_communicates(HlSimClass kind) {
  return kind == HL_SIM_COLLECTIVE || kind == HL_SIM_INDIVIDUAL || kind == HL_SIM_PROTOCOL;
}

static inline bool sim_is_send(HlSimOp op) {
  return op == HL_SIM_SEND || op == HL_SIM_SEND_START || op == HL_SIM_SEND_DONE;
}

static inline bool sim_is_recv(HlSimOp op) {
  return op == HL_SIM_RECV || op == HL_SIM_RECV_START || op == HL_SIM_RECV_DONE;
}

// --- Memory (room.c): cleared, for as long as the graph lives ---
void *sim_alloc(HlSimGraph *graph, size_t size);
HlStr sim_copy_text(HlSimGraph *graph, HlStr text);
void sim_room_empty(SimRoom *room);  // no graph lies there any more
void sim_room_free(SimRoom *room);

// --- Building: names are taken as they are, for as long as the graph lives ---
HlStr sim_name(HlSimGraph *graph, const char *format, ...) HL_PRINTF(2, 3);
HlStr sim_join(HlSimGraph *graph, HlStr a, HlStr b);
HlStr sim_join_by(HlSimGraph *graph, HlStr a, char between, HlStr b);
HlSimSub *sim_new_sub(HlSimGraph *graph, HlSimNode *caller, HlStr name);  // hangs on nothing yet
void sim_hang_sub(HlSimNode *caller, HlSimSub *sub);                      // its last subroutine now
HlSimNode *sim_new_node(HlSimSub *sub, HlSimOp op, HlStr name, int64_t id);
void sim_push_operand(HlSimNode *node, HlSimNode *operand);  // that it does not have yet
const HlSimGroups *sim_groups(HlSimGraph *graph, int n, const HlI64s *lists);
void sim_set_group(HlSimNode *node, HlI64s group);  // one

// A copy of a subroutine, for a node of the same or another graph, which it does not hang on yet.
typedef struct SimCopy {
  HlStr suffix;              // of its name and of the names of all nodes in it
  bool new_ids;              // else those of the original
  bool inside;               // it is called by a node of what is copied
  double scale;              // of all costs
  const struct SimOwn *one;  // for the graph of one processor; NULL: as it is
} SimCopy;

// one.c: what of a composite node one processor has.
typedef struct SimOwn {
  HlCx *cx;
  int64_t processor;
  HlSimCompat compat;
} SimOwn;
HlSimGraph *sim_individualize(HlCx *cx, const HlSimGraph *composite, int64_t processor,
                              HlSimCompat compat, SimRoom *room);
// Sets the opcode and the groups of a copy; false: what it calls is left out.
bool sim_keep_own(const SimOwn *own, const HlSimNode *from, HlSimNode *copy);

HlSimSub *sim_copy_sub(HlSimGraph *to, HlSimNode *caller, const HlSimSub *from, const SimCopy *how);

// All subroutines: those in a subroutine's nodes before it, the entry last.
void sim_list_subs(HlArena *arena, const HlSimGraph *graph, SimSubs *out);

// --- Order ---
// Appends to `out` what is in the subroutine in post order, the nodes of inner subroutines too (`deep`). False after reporting a
// cycle. `state` has a byte for each serial, 0 at first.
bool sim_walk_post_order(HlCx *cx, HlArena *arena, const HlSimSub *sub, bool deep, uint8_t *state,
                         SimNodes *out);

// --- Rules ---
// `walked`: that nothing depends on itself is known.
bool sim_validate_kind(HlCx *cx, const HlSimGraph *graph, bool composite, bool walked);

#endif
