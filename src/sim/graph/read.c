// sim/graph/read.c: reads graphs from protos, binary and text.
//
// A subroutine is read in two steps, since operands and bonds are ids that may come later: first its nodes (each with what it
// calls, so that ids given anew are in the order of the file), then their edges. Text becomes the wire format first.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "proto/message.h"
#include "proto/paragraph.pb-c.h"
#include "sim/graph/fields.h"
#include "sim/graph/graph.h"

// What the edges of a node are, as they stand in the file.
typedef struct Edges {
  int64_t id;  // that others name it by
  HlSimNode *node;
  HlStr message;   // the whole node
  int64_t bonded;  // 0: none
} Edges;

typedef struct Reader {
  HlCx *cx;
  const HlSource *source;
  HlSimGraph *graph;
  HlArena *arena;  // scratch
  bool renumber;
  int depth;
  int64_t n_nodes;
  uint64_t told;   // fields already named in a warning, by kind of message
  uint32_t *seen;  // by serial: 1 + that of the last node that had it as operand
  uint32_t n_seen;
} Reader;

enum { IN_GRAPH, IN_SUB, IN_NODE, IN_GROUP };

static HlPos at(const Reader *r, const char *place) {
  return wire_pos(r->source, place);
}

// --- Fields ---------------------------------------------------------------------------------------------------

static void skip(Reader *r, int kind, const WireField *field) {
  static const char *const kinds[] = {"a graph", "a subroutine", "an instruction", "a group"};
  const uint64_t bit = UINT64_C(1) << (kind * 16 + (field->number & 15));
  if (!(r->told & bit))
    hl_warn(r->cx, at(r, field->start), "field %u of %s is not ParaGraph's: skipped", field->number,
            kinds[kind]);
  r->told |= bit;
}

static bool damaged(Reader *r, HlStr rest, const char *what) {
  return hl_error(r->cx, at(r, rest.at), "damaged graph: a field of %s cannot be read", what);
}

static double number_of(const WireField *field) {
  double value;
  memcpy(&value, &field->value, sizeof value);
  return value;
}

// The bytes of the character that begins here; 0: it is none.
static int utf_length(const unsigned char *at, size_t n) {
  const int length = at[0] < 0x80   ? 1
                     : at[0] < 0xc2 ? 0
                     : at[0] < 0xe0 ? 2
                     : at[0] < 0xf0 ? 3
                     : at[0] < 0xf5 ? 4
                                    : 0;
  if ((size_t)length > n)
    return 0;
  for (int k = 1; k < length; k++)
    if ((at[k] & 0xc0) != 0x80)
      return 0;
  const bool low = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
  const bool high = (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f);
  return low || high ? 0 : length;
}

static bool is_utf(HlStr text) {
  size_t k = 0;
  for (int length; k < text.n; k += (size_t)length) {
    length = utf_length((const unsigned char *)text.at + k, text.n - k);
    if (length == 0)
      return false;
  }
  return true;
}

static bool read_text(Reader *r, const WireField *field, HlStr *out) {
  if (!is_utf(field->bytes))
    return hl_error(r->cx, at(r, field->start), "a name is not valid UTF-8");
  *out =
      (HlStr){hl_arena_strndup(r->graph->arena, field->bytes.at, field->bytes.n), field->bytes.n};
  return true;
}

// Appends integers of a repeated field, packed or not.
typedef VEC(int64_t) Ids;
static bool push_ids(Reader *r, const WireField *field, Ids *out) {
  HlStr rest = field->bytes;
  uint64_t value;
  if (field->type == WIRE_VARINT) {
    vec_push(out, (int64_t)field->value);
    return true;
  }
  while (wire_varint(&rest, &value))
    vec_push(out, (int64_t)value);
  return rest.n == 0 || damaged(r, rest, "a list");
}

static bool is_ids(const WireField *field) {
  return field->type == WIRE_VARINT || field->type == WIRE_BYTES;
}

// --- Groups ---------------------------------------------------------------------------------------------------

static bool read_group(Reader *r, HlStr message, Ids *out) {
  WireField field;
  while (wire_next(&message, &field))
    if (field.number == GROUP_IDS && is_ids(&field)) {
      if (!push_ids(r, &field, out))
        return false;
    } else {
      skip(r, IN_GROUP, &field);
    }
  return message.n == 0 || damaged(r, message, "a group");
}

// The groups of a node, which `n` tells how many there are of.
static bool read_groups(Reader *r, HlStr message, int n, HlSimNode *node) {
  const HlMark mark = hl_arena_mark(r->arena);
  HlI64s *lists = HL_ARRAY(r->arena, HlI64s, n);
  Ids ids = {0};
  WireField field;
  bool ok = true;
  for (int k = 0; ok && wire_next(&message, &field);)
    if (field.number == NODE_GROUPS && field.type == WIRE_BYTES) {
      ids.n = 0;
      ok = read_group(r, field.bytes, &ids);
      lists[k++] = hl_i64s_copy(r->arena, (HlI64s){ids.at, ids.n});
    }
  if (ok)
    node->groups = sim_groups(r->graph, n, lists);
  vec_free(&ids);
  hl_arena_release(r->arena, mark);
  return ok;
}

static int compare_ids(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static bool has_twice(int64_t *ids, int n) {
  if (n > 1)
    qsort(ids, (size_t)n, sizeof *ids, compare_ids);
  for (int k = 1; k < n; k++)
    if (ids[k] == ids[k - 1])
      return true;
  return false;
}

// Who takes part, in one group or in several, does so once.
static bool check_members(Reader *r, HlPos pos, const HlSimNode *node) {
  const HlSimOp op = sim_op(node);
  const bool collective = sim_class(node) == HL_SIM_COLLECTIVE;
  Ids ids = {0};
  bool ok = true;
  for (int k = 0; ok && node->groups && k < node->groups->n; k++) {
    const HlI64s group = node->groups->at[k];
    const int runner = sim_is_send(op) ? 0 : 1;
    if (collective)
      vec_append(&ids, group.at, group.n);
    else if (group.n == 0 || group.n > 3)
      ok = hl_error(r->cx, pos, "%s has a group of %d processors", hl_sim_op_text(op), group.n);
    else if (group.n == (op == HL_SIM_SENDRECV ? 3 : 2))
      vec_push(&ids, group.at[runner]);
  }
  if (ok && has_twice(ids.at, ids.n))
    ok = hl_error(r->cx, pos, "a processor takes part twice in %s %.*s", hl_sim_op_text(op),
                  (int)node->name.n, node->name.at);
  vec_free(&ids);
  return ok;
}

// --- Nodes ----------------------------------------------------------------------------------------------------

static bool read_sub(Reader *r, HlStr message, HlSimNode *caller);

static bool read_op(Reader *r, const WireField *field, HlSimNode *node) {
  HlSimOp op;
  if (!hl_sim_op_find(field->bytes, &op))
    return hl_error(r->cx, at(r, field->start), "there is no opcode '%.*s'",
                    (int)(field->bytes.n < 80 ? field->bytes.n : 80), field->bytes.at);
  node->op = (uint8_t)op;
  return true;
}

// A scalar field of a node; false after reporting. *known: it is one.
static bool read_scalar(Reader *r, const WireField *field, HlSimNode *node, Edges *edges,
                        bool *known) {
  static const int types[] = {
      [NODE_NAME] = WIRE_BYTES,
      [NODE_OP] = WIRE_BYTES,
      [NODE_ID] = WIRE_VARINT,
      [NODE_OPS] = WIRE_FIXED64,
      [NODE_BYTES_IN] = WIRE_FIXED64,
      [NODE_BYTES_OUT] = WIRE_FIXED64,
      [NODE_TRANSCENDENTALS] = WIRE_FIXED64,
      [NODE_SECONDS] = WIRE_FIXED64,
      [NODE_BONDED] = WIRE_VARINT,
      [NODE_TAG] = WIRE_VARINT,
  };
  *known = field->number < HL_COUNT_OF(types) && field->type == types[field->number];
  if (!*known)
    return true;
  switch (field->number) {
  case NODE_NAME: return read_text(r, field, &node->name);
  case NODE_OP: return read_op(r, field, node);
  case NODE_ID: edges->id = (int64_t)field->value; break;
  case NODE_OPS: node->cost.ops = number_of(field); break;
  case NODE_BYTES_IN: node->cost.bytes_in = number_of(field); break;
  case NODE_BYTES_OUT: node->cost.bytes_out = number_of(field); break;
  case NODE_TRANSCENDENTALS: node->cost.transcendentals = number_of(field); break;
  case NODE_SECONDS: node->cost.seconds = number_of(field); break;
  case NODE_BONDED: edges->bonded = (int64_t)field->value; break;
  case NODE_TAG: node->tag = field->value; break;
  default: break;
  }
  return true;
}

static bool read_inner(Reader *r, HlStr message, HlSimNode *node) {
  WireField field;
  while (wire_next(&message, &field))
    if (field.number == NODE_SUBS && field.type == WIRE_BYTES && !read_sub(r, field.bytes, node))
      return false;
  return true;
}

static bool read_node(Reader *r, HlStr message, HlSimSub *sub, Edges *out) {
  const int64_t limit = hl_cx_limits(r->cx)->instructions;
  const HlPos pos = at(r, message.at);
  if (++r->n_nodes > limit)
    return hl_error_kind(r->cx, HL_LIMIT, pos,
                         "more than %" PRId64 " instructions (limit instructions)", limit);
  HlSimNode *node = sim_new_node(sub, HL_SIM_OP_COUNT, (HlStr){"", 0}, 0);
  *out = (Edges){.node = node, .message = message};
  HlStr rest = message;
  WireField field;
  int n_groups = 0, n_subs = 0;
  while (wire_next(&rest, &field)) {
    bool known;
    if (!read_scalar(r, &field, node, out, &known))
      return false;
    n_groups += field.number == NODE_GROUPS && field.type == WIRE_BYTES;
    n_subs += field.number == NODE_SUBS && field.type == WIRE_BYTES;
    known =
        known || (field.number == NODE_OPERANDS && is_ids(&field)) ||
        ((field.number == NODE_GROUPS || field.number == NODE_SUBS) && field.type == WIRE_BYTES);
    if (!known)
      skip(r, IN_NODE, &field);
  }
  if (rest.n > 0)
    return damaged(r, rest, "an instruction");
  if (node->op == HL_SIM_OP_COUNT)
    return hl_error(r->cx, pos, "instruction %.*s has no opcode", (int)node->name.n, node->name.at);
  node->id = r->renumber ? r->graph->next_id++ : out->id;
  if (n_groups > 0 && !sim_communicates(sim_class(node)))
    return hl_error(r->cx, pos, "%s has communication groups: only what communicates has",
                    hl_sim_op_text(sim_op(node)));
  return read_groups(r, message, n_groups, node) && check_members(r, pos, node) &&
         (n_subs == 0 || read_inner(r, message, node));
}

// --- Edges ----------------------------------------------------------------------------------------------------

typedef VEC(Edges) EdgeList;

static int compare_edges(const void *a, const void *b) {
  const Edges *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

// By id, ascending; false if two have one id, reported.
static bool sort_edges(Reader *r, EdgeList *list) {
  bool sorted = true;
  for (int k = 1; sorted && k < list->n; k++)
    sorted = list->at[k - 1].id < list->at[k].id;
  if (sorted)
    return true;
  qsort(list->at, (size_t)list->n, sizeof *list->at, compare_edges);
  for (int k = 1; k < list->n; k++)
    if (list->at[k - 1].id == list->at[k].id)
      return hl_error(r->cx, at(r, list->at[k].message.at),
                      "two instructions of a subroutine have the id %" PRId64, list->at[k].id);
  return true;
}

static HlSimNode *find_node(const EdgeList *list, int64_t id) {
  const Edges key = {.id = id};
  const Edges *found =
      list->n ? bsearch(&key, list->at, (size_t)list->n, sizeof *list->at, compare_edges) : NULL;
  return found ? found->node : NULL;
}

static bool add_operand(Reader *r, const Edges *to, HlSimNode *operand) {
  if (operand->serial >= r->n_seen || to->node->serial >= r->n_seen) {
    const uint32_t room = r->graph->n_serials * 2;
    uint32_t *wider = HL_ARRAY(r->arena, uint32_t, room);
    if (r->n_seen)
      memcpy(wider, r->seen, r->n_seen * sizeof *wider);
    r->seen = wider;
    r->n_seen = room;
  }
  if (r->seen[operand->serial] != to->node->serial + 1)
    sim_push_operand(to->node, operand);
  r->seen[operand->serial] = to->node->serial + 1;
  return true;
}

static bool connect_one(Reader *r, const EdgeList *list, const Edges *to, Ids *ids) {
  HlStr rest = to->message;
  WireField field;
  ids->n = 0;
  while (wire_next(&rest, &field))
    if (field.number == NODE_OPERANDS && is_ids(&field) && !push_ids(r, &field, ids))
      return false;
  for (int k = 0; k < ids->n; k++) {
    HlSimNode *operand = find_node(list, ids->at[k]);
    if (!operand)
      return hl_error(r->cx, at(r, to->message.at),
                      "instruction %.*s has operand %" PRId64 ", which is not in its subroutine",
                      (int)to->node->name.n, to->node->name.at, ids->at[k]);
    add_operand(r, to, operand);
  }
  HlSimNode *bonded = to->bonded ? find_node(list, to->bonded) : NULL;
  if (to->bonded && !bonded)
    return hl_error(r->cx, at(r, to->message.at),
                    "instruction %.*s is bonded with %" PRId64 ", which is not in its subroutine",
                    (int)to->node->name.n, to->node->name.at, to->bonded);
  if (bonded)
    hl_sim_bond(to->node, bonded);
  to->node->is_async_done =
      bonded && to->node->op == HL_SIM_NULL && sim_class(bonded) != HL_SIM_PROTOCOL;
  return true;
}

// Bonds are made in the order of the file, and each over those before it.
static bool connect(Reader *r, EdgeList *list) {
  EdgeList sorted = {0};
  Ids ids = {0};
  vec_append(&sorted, list->at, list->n);
  bool ok = sort_edges(r, &sorted);
  for (int k = 0; ok && k < list->n; k++)
    ok = connect_one(r, &sorted, &list->at[k], &ids);
  vec_free(&sorted);
  vec_free(&ids);
  return ok;
}

// --- Subroutines and graphs -----------------------------------------------------------------------------------

static bool read_sub_field(Reader *r, const WireField *field, HlSimSub *sub, int64_t *root,
                           EdgeList *edges) {
  if (field->number == SUB_NAME && field->type == WIRE_BYTES)
    return read_text(r, field, &sub->name);
  if (field->number == SUB_NODES && field->type == WIRE_BYTES) {
    Edges one = {0};
    const bool ok = read_node(r, field->bytes, sub, &one);
    vec_push(edges, one);
    return ok;
  }
  if (field->number == SUB_ROOT && field->type == WIRE_VARINT)
    *root = (int64_t)field->value;
  else if (field->number == SUB_PROBABILITY && field->type == WIRE_FIXED64)
    sub->probability = number_of(field);
  else if (field->number == SUB_COUNT && field->type == WIRE_VARINT)
    sub->count = (int64_t)field->value;
  else
    skip(r, IN_SUB, field);
  return true;
}

static bool find_root(Reader *r, HlPos pos, HlSimSub *sub, int64_t root, const EdgeList *edges) {
  for (int k = 0; k < edges->n; k++)
    if (edges->at[k].id == root)
      sub->root = edges->at[k].node;
  return sub->root ||
         hl_error(r->cx, pos, "subroutine %.*s has no instruction %" PRId64 ", its root",
                  (int)sub->name.n, sub->name.at, root);
}

static bool read_sub(Reader *r, HlStr message, HlSimNode *caller) {
  const int limit = hl_cx_limits(r->cx)->nesting;
  const HlPos pos = at(r, message.at);
  if (++r->depth > limit)
    return hl_error_kind(r->cx, HL_LIMIT, pos,
                         "subroutines are nested deeper than %d (limit nesting)", limit);
  HlSimSub *sub = sim_new_sub(r->graph, caller, (HlStr){"", 0});
  sub->probability = 0;
  sub->count = 0;
  if (caller)
    sim_hang_sub(caller, sub);
  else
    r->graph->entry = sub;
  EdgeList edges = {0};
  int64_t root = 0;
  WireField field;
  bool ok = true;
  while (ok && wire_next(&message, &field))
    ok = read_sub_field(r, &field, sub, &root, &edges);
  ok = ok && (message.n == 0 || damaged(r, message, "a subroutine"));
  ok = ok && find_root(r, pos, sub, root, &edges) && connect(r, &edges);
  vec_free(&edges);
  r->depth--;
  return ok;
}

static bool read_graph(Reader *r, HlStr message) {
  HlSimGraph *graph = r->graph;
  WireField field;
  while (wire_next(&message, &field)) {
    if (field.number == GRAPH_NAME && field.type == WIRE_BYTES) {
      if (!read_text(r, &field, &graph->name))
        return false;
    } else if (field.number == GRAPH_PROCESSOR && field.type == WIRE_VARINT) {
      graph->processor = (int64_t)field.value;
    } else if (field.number == GRAPH_ENTRY && field.type == WIRE_BYTES) {
      if (graph->entry)
        return hl_error(r->cx, at(r, field.start), "the graph has two entry subroutines");
      if (!read_sub(r, field.bytes, NULL))
        return false;
    } else {
      skip(r, IN_GRAPH, &field);
    }
  }
  if (message.n > 0)
    return damaged(r, message, "the graph");
  return graph->entry || hl_error(r->cx, at(r, message.at), "the graph has no entry subroutine");
}

// The next id is beyond all there are.
static void set_next_id(Reader *r) {
  SimSubs subs = {0};
  int64_t next = r->n_nodes + 1;
  sim_list_subs(r->arena, r->graph, &subs);
  for (int k = 0; k < subs.n; k++)
    for (int j = 0; j < subs.at[k]->n_nodes; j++)
      if (subs.at[k]->nodes[j]->id >= next)
        next = subs.at[k]->nodes[j]->id + (subs.at[k]->nodes[j]->id < INT64_MAX);
  r->graph->next_id = next;
}

static HlSimGraph *read_wire(HlCx *cx, const HlSource *source, HlStr bytes, bool renumber) {
  Reader r = {.cx = cx, .source = source, .renumber = renumber, .arena = hl_arena_new()};
  r.graph = hl_sim_graph_new((HlStr){"", 0}, 0);
  bool ok = read_graph(&r, bytes);
  if (ok)
    set_next_id(&r);
  hl_arena_free(r.arena);
  ok = ok && hl_sim_validate(cx, r.graph);
  if (ok)
    return r.graph;
  hl_sim_graph_free(r.graph);
  return NULL;
}

// The first byte of a binary graph is the tag of a field: 10, 16 or 26. Of these only 10, a newline, may begin a text.
static HlSimForm form_of(HlStr bytes) {
  WireField field;
  HlStr rest = bytes;
  while (wire_next(&rest, &field))
    if (field.number > GRAPH_ENTRY)
      break;
  return bytes.n > 0 && rest.n == 0 ? HL_SIM_BINARY : HL_SIM_TEXT;
}

HlSimGraph *hl_sim_read(HlCx *cx, HlSource *source, HlSimForm form, bool renumber) {
  const HlStr bytes = hl_source_bytes(source);
  if (form == HL_SIM_FORM_NONE)
    form = form_of(bytes);
  if (form == HL_SIM_BINARY)
    return read_wire(cx, source, bytes, renumber);
  HlBuf wire = {0};
  HlSimGraph *graph = NULL;
  if (pbtxt_to_wire(cx, source, &sim_paragraph__graph_proto__descriptor, &wire))
    graph = read_wire(cx, source, (HlStr){wire.at ? wire.at : "", wire.n}, renumber);
  hl_buf_free(&wire);
  return graph;
}

// The entry's second field is a number here, and a list of instructions in a computation of HLO.
static bool is_binary_graph(HlStr bytes) {
  WireField field, inner;
  bool entry = false;
  while (wire_next(&bytes, &field)) {
    if (field.number > GRAPH_ENTRY ||
        (field.type == WIRE_VARINT) != (field.number == GRAPH_PROCESSOR))
      return false;
    if (field.number != GRAPH_ENTRY)
      continue;
    HlStr rest = field.bytes;
    while (wire_next(&rest, &inner) && inner.number < SUB_NODES)
      if (inner.type != (inner.number == SUB_NAME          ? WIRE_BYTES
                         : inner.number == SUB_PROBABILITY ? WIRE_FIXED64
                                                           : WIRE_VARINT))
        return false;
    entry = true;
  }
  return entry && bytes.n == 0;
}

static bool is_text_graph(HlStr bytes) {
  static const char *const words[] = {"name:", "processor_id:", "entry_subroutine"};
  static const char entry[] = "entry_subroutine";
  size_t k = 0;
  while (k < bytes.n && (is_space(bytes.at[k]) || bytes.at[k] == '#'))
    if (bytes.at[k++] == '#')
      while (k < bytes.n && bytes.at[k] != '\n')
        k++;
  bool begins = false;
  for (int j = 0; j < HL_COUNT_OF(words); j++)
    begins = begins || (bytes.n - k >= strlen(words[j]) &&
                        memcmp(bytes.at + k, words[j], strlen(words[j])) == 0);
  for (const char *at = bytes.at + k, *end = bytes.at + bytes.n;
       begins && (at = memchr(at, 'e', (size_t)(end - at))); at++)
    if ((size_t)(end - at) >= sizeof entry - 1 && memcmp(at, entry, sizeof entry - 1) == 0 &&
        (at == bytes.at || is_space(at[-1])))
      return true;
  return false;
}

bool hl_sim_is_graph(HlStr bytes) {
  return bytes.n > 0 && (is_binary_graph(bytes) || is_text_graph(bytes));
}

HlSimForm hl_sim_form_of(const char *path) {
  size_t n = strlen(path);
  static const char *const packed[] = {".gz", ".zst"};
  for (int k = 0; k < HL_COUNT_OF(packed); k++)
    if (n > strlen(packed[k]) && strcmp(path + n - strlen(packed[k]), packed[k]) == 0) {
      n -= strlen(packed[k]);
      break;
    }
  if (n >= 3 && memcmp(path + n - 3, ".pb", 3) == 0)
    return HL_SIM_BINARY;
  if (n >= 10 && memcmp(path + n - 10, ".textproto", 10) == 0)
    return HL_SIM_TEXT;
  return HL_SIM_FORM_NONE;
}
