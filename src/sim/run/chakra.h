// sim/run/chakra.h: the numbers of Chakra's schema.
#ifndef SIM_RUN_CHAKRA_H
#define SIM_RUN_CHAKRA_H

#include "hilo/chakra.h"

enum { META_VERSION = 1 };
enum {
  NODE_ID = 1,
  NODE_NAME,
  NODE_TYPE,
  NODE_CTRL_DEPS,
  NODE_DATA_DEPS,
  NODE_START,
  NODE_DURATION,
  NODE_INPUTS,
  NODE_OUTPUTS,
  NODE_ATTR
};
enum {
  ATTR_NAME = 1,
  ATTR_DOUBLE = 3,
  ATTR_INT32 = 7,
  ATTR_INT64 = 9,
  ATTR_UINT32 = 11,
  ATTR_UINT64 = 13,
  ATTR_BOOL = 27,
  ATTR_STRING = 29
};
enum {
  CHAKRA_INVALID,
  CHAKRA_METADATA,
  CHAKRA_MEM_LOAD,
  CHAKRA_MEM_STORE,
  CHAKRA_COMP,
  CHAKRA_SEND,
  CHAKRA_RECV,
  CHAKRA_COLL
};
enum {
  COLL_ALL_REDUCE,
  COLL_REDUCE,
  COLL_ALL_GATHER,
  COLL_GATHER,
  COLL_SCATTER,
  COLL_BROADCAST,
  COLL_ALL_TO_ALL,
  COLL_REDUCE_SCATTER,
  COLL_REDUCE_SCATTER_BLOCK,
  COLL_BARRIER,
  COLLS
};

// The number of a group's name: groups of all have none; others are numbered from 1, set by set.
int64_t chakra_group_number(const HlClusterProgram *program, int groups, int64_t group);

#endif
