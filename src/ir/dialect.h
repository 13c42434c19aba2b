// ir/dialect.h: which release of XLA wrote what a reader reads, told by what is there and what is not.
#ifndef HILO_IR_DIALECT_H
#define HILO_IR_DIALECT_H

#include "hilo/ir.h"

// Zeros: nothing tells.
typedef struct DialectSigns {
  HlDialect has;    // something that XLA writes since then is there
  HlDialect lacks;  // something that it always writes since then is not
} DialectSigns;

// Whether a module of a release has what XLA writes since another. Where nothing tells, it is the newest's.
static inline bool dialect_is_since(HlDialect dialect, HlDialect since) {
  return dialect == HL_XLA_UNTOLD || dialect >= since;
}

static inline void dialect_has(DialectSigns *signs, HlDialect since) {
  if (since > signs->has)
    signs->has = since;
}

static inline void dialect_lacks(DialectSigns *signs, HlDialect since) {
  if (since < signs->lacks || !signs->lacks)
    signs->lacks = since;
}

// What is there counts before what is not: people leave things out.
static inline HlDialect dialect_told(const DialectSigns *signs) {
  const HlDialect oldest = (HlDialect)(HL_XLA_UNTOLD + 1);
  if (signs->has > oldest)
    return signs->has;
  return signs->lacks > oldest ? (HlDialect)(signs->lacks - 1) : HL_XLA_UNTOLD;
}

#endif
