// sim/graph/write.c: writes graphs as protos, with the bytes that ParaGraph's own writer makes.
//
// A message stands behind its length, and messages nest deep; so all is written from its end to its beginning: fields and lists
// backwards, into a buffer that fills from behind. When a message is done its length is known.

#include <string.h>

#include "base/compiler.h"
#include "proto/message.h"
#include "proto/paragraph.pb-c.h"
#include "sim/graph/fields.h"
#include "sim/graph/graph.h"

typedef struct Writer {
  HlBuf bytes;  // `at` has capacity bytes
  size_t left;  // those at its front that are free
} Writer;

// --- Backwards ------------------------------------------------------------------------------------------------

static HL_RARE void grow(Writer *w, size_t more) {
  const size_t used = w->bytes.capacity - w->left;
  const size_t room = 2 * w->bytes.capacity + more + 4096;
  HlBuf wider = {0};
  hl_buf_grow(&wider, room);
  if (used > 0)
    memcpy(wider.at + room - used, w->bytes.at + w->left, used);
  hl_buf_free(&w->bytes);
  w->bytes = wider;
  w->bytes.capacity = room;
  w->left = room - used;
}

static inline char *room(Writer *w, size_t n) {
  if (HL_UNLIKELY(w->left < n))
    grow(w, n);
  w->left -= n;
  return w->bytes.at + w->left;
}

static void put_bytes(Writer *w, const char *at, size_t n) {
  if (n > 0)
    memcpy(room(w, n), at, n);
}

static HL_RARE void put_long_varint(Writer *w, uint64_t value) {
  char digits[10];
  int n = 0;
  for (; value > 127; value >>= 7)
    digits[n++] = (char)(value | 128);
  digits[n++] = (char)value;
  put_bytes(w, digits, (size_t)n);
}

static inline void put_varint(Writer *w, uint64_t value) {
  if (value < 128) {
    *room(w, 1) = (char)value;
  } else if (value < 1 << 14) {
    char *at = room(w, 2);
    at[0] = (char)(value | 128);
    at[1] = (char)(value >> 7);
  } else if (value < 1 << 21) {
    char *at = room(w, 3);
    at[0] = (char)(value | 128);
    at[1] = (char)(value >> 7 | 128);
    at[2] = (char)(value >> 14);
  } else {
    put_long_varint(w, value);
  }
}

// All fields have numbers below 16: their tag is a byte.
static void put_tag(Writer *w, int number, int type) {
  *room(w, 1) = (char)(number << 3 | type);
}

static void put_int(Writer *w, int number, uint64_t value) {
  if (value == 0)
    return;
  put_varint(w, value);
  put_tag(w, number, WIRE_VARINT);
}

// 0 is left out, -0 is not.
static void put_double(Writer *w, int number, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (bits == 0)
    return;
  const unsigned char bytes[8] = {
      (unsigned char)bits,         (unsigned char)(bits >> 8),  (unsigned char)(bits >> 16),
      (unsigned char)(bits >> 24), (unsigned char)(bits >> 32), (unsigned char)(bits >> 40),
      (unsigned char)(bits >> 48), (unsigned char)(bits >> 56)};
  memcpy(room(w, 8), bytes, 8);
  put_tag(w, number, WIRE_FIXED64);
}

static void put_str(Writer *w, int number, HlStr text) {
  if (text.n == 0)
    return;
  put_bytes(w, text.at, text.n);
  put_varint(w, text.n);
  put_tag(w, number, WIRE_BYTES);
}

static size_t length(const Writer *w) {
  return w->bytes.capacity - w->left;
}

// Closes what was put since `before`.
static void put_head(Writer *w, int number, size_t before) {
  put_varint(w, length(w) - before);
  put_tag(w, number, WIRE_BYTES);
}

// --- Messages -------------------------------------------------------------------------------------------------

static void put_sub(Writer *w, const HlSimSub *sub);

static void put_groups(Writer *w, const HlSimGroups *groups) {
  for (int k = groups->n; k-- > 0;) {
    const HlI64s ids = groups->at[k];
    const size_t start = length(w);
    for (int j = ids.n; j-- > 0;)
      put_varint(w, (uint64_t)ids.at[j]);
    if (ids.n > 0)
      put_head(w, GROUP_IDS, start);
    put_head(w, NODE_GROUPS, start);
  }
}

static void put_node(Writer *w, const HlSimNode *node) {
  size_t start;
  for (int k = node->n_subs; k-- > 0;) {
    start = length(w);
    put_sub(w, node->subs[k]);
    put_head(w, NODE_SUBS, start);
  }
  start = length(w);
  for (int k = node->n_operands; k-- > 0;)
    put_varint(w, (uint64_t)node->operands[k]->id);
  if (node->n_operands > 0)
    put_head(w, NODE_OPERANDS, start);
  if (node->groups)
    put_groups(w, node->groups);
  put_int(w, NODE_TAG, node->tag);
  put_int(w, NODE_BONDED, node->bonded ? (uint64_t)node->bonded->id : 0);
  put_double(w, NODE_SECONDS, node->cost.seconds);
  put_double(w, NODE_TRANSCENDENTALS, node->cost.transcendentals);
  put_double(w, NODE_BYTES_OUT, node->cost.bytes_out);
  put_double(w, NODE_BYTES_IN, node->cost.bytes_in);
  put_double(w, NODE_OPS, node->cost.ops);
  put_int(w, NODE_ID, (uint64_t)node->id);
  put_str(w, NODE_OP, hl_str(hl_sim_op_text(sim_op(node))));
  put_str(w, NODE_NAME, node->name);
}

// As deep as the graph is nested, which whoever makes one bounds.
static void put_sub(Writer *w, const HlSimSub *sub) {
  for (int k = sub->n_nodes; k-- > 0;) {
    const size_t start = length(w);
    put_node(w, sub->nodes[k]);
    put_head(w, SUB_NODES, start);
  }
  put_int(w, SUB_COUNT, (uint64_t)sub->count);
  put_double(w, SUB_PROBABILITY, sub->probability);
  put_int(w, SUB_ROOT, sub->root ? (uint64_t)sub->root->id : 0);
  put_str(w, SUB_NAME, sub->name);
}

static void put_graph(Writer *w, const HlSimGraph *graph) {
  if (graph->entry) {
    put_sub(w, graph->entry);
    put_head(w, GRAPH_ENTRY, 0);
  }
  put_int(w, GRAPH_PROCESSOR, (uint64_t)graph->processor);
  put_str(w, GRAPH_NAME, graph->name);
}

// Some room is left in any case: `at` is not NULL.
static void grow_for_end(Writer *w) {
  if (w->left == 0)
    grow(w, 1);
}

enum { USUAL_BYTES = 144 };  // of a node

HlStr hl_sim_write_in(const HlSimGraph *graph, HlBuf *buf) {
  Writer w = {.bytes = *buf, .left = buf->capacity};
  *buf = (HlBuf){0};
  if (w.left < (size_t)graph->n_serials * USUAL_BYTES)
    grow(&w, (size_t)graph->n_serials * USUAL_BYTES);
  put_graph(&w, graph);
  grow_for_end(&w);
  *buf = w.bytes;
  return (HlStr){buf->at + w.left, buf->capacity - w.left};
}

void hl_sim_write(const HlSimGraph *graph, HlSimForm form, HlBuf *out) {
  HlBuf room = {0};
  const HlStr wire = hl_sim_write_in(graph, &room);
  if (form == HL_SIM_TEXT)
    wire_to_pbtxt(wire, &sim_paragraph__graph_proto__descriptor, out);
  else
    hl_buf_add(out, wire.at, wire.n);
  hl_buf_free(&room);
}
