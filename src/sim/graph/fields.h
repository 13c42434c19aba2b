// sim/graph/fields.h: the numbers of ParaGraph's fields (paragraph.proto).
#ifndef SIM_GRAPH_FIELDS_H
#define SIM_GRAPH_FIELDS_H

enum { GRAPH_NAME = 1, GRAPH_PROCESSOR = 2, GRAPH_ENTRY = 3 };
enum { SUB_NAME = 1, SUB_ROOT = 2, SUB_PROBABILITY = 3, SUB_COUNT = 4, SUB_NODES = 5 };
enum {
  NODE_NAME = 1,
  NODE_OP = 2,
  NODE_ID = 3,
  NODE_OPS = 4,
  NODE_BYTES_IN = 5,
  NODE_BYTES_OUT = 6,
  NODE_TRANSCENDENTALS = 7,
  NODE_SECONDS = 8,
  NODE_BONDED = 9,
  NODE_TAG = 10,
  NODE_GROUPS = 11,
  NODE_OPERANDS = 12,
  NODE_SUBS = 13
};
enum { GROUP_IDS = 1 };

#endif
