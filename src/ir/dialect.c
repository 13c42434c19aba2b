// ir/dialect.c: the table expanded from dialect.def: which release of XLA writes what.

#include <string.h>

#include "ir/dialect.h"

static const char *const texts[HL_DIALECT_COUNT] = {
#define RELEASE(id, text) [HL_XLA_##id] = text,
#include "hilo/dialect.def"
};

bool hl_dialect_by_text(HlStr text, HlDialect *out) {
  for (int k = HL_XLA_UNTOLD + 1; k < HL_DIALECT_COUNT; k++)
    if (hl_str_is(text, texts[k])) {
      *out = (HlDialect)k;
      return true;
    }
  return false;
}

static HlDialect told(HlDialect dialect) {
  return dialect == HL_XLA_UNTOLD ? (HlDialect)HL_XLA_NEWEST : dialect;
}

const char *hl_dialect_text(HlDialect dialect) {
  return texts[told(dialect)];
}

HlDialect hl_news_since(HlNews news) {
  static const HlDialect since[HL_NEWS_COUNT] = {
#define NEWS(id, since, meaning) [HL_NEWS_##id] = HL_XLA_##since,
#include "hilo/dialect.def"
  };
  return since[news];
}

bool hl_writes(HlDialect dialect, HlNews news) {
  return dialect_is_since(dialect, hl_news_since(news));
}

HlDialect hl_op_since(HlOp op) {
  static const HlDialect since[HL_OP_COUNT] = {
#define OP_SINCE(op, since) [HL_OP_##op] = HL_XLA_##since,
#include "hilo/dialect.def"
  };
  return since[op];
}

HlDialect hl_attr_since(HlAttrKey key) {
  static const HlDialect since[HL_ATTR_COUNT] = {
#define ATTR_SINCE(attr, since) [HL_A_##attr] = HL_XLA_##since,
#include "hilo/dialect.def"
  };
  return since[key];
}

const HlAlways *hl_find_always(HlOp op, HlAttrKey key) {
  static const HlAlways rows[] = {
#define ALWAYS(op, attr, since, absent) {HL_OP_##op, HL_A_##attr, HL_XLA_##since, absent},
#include "hilo/dialect.def"
  };
  for (int k = 0; k < HL_COUNT_OF(rows); k++)
    if (rows[k].key == key && rows[k].op == op)
      return &rows[k];
  return NULL;
}

bool hl_attr_goes_unsaid(HlDialect dialect, const HlInst *inst, const HlAttr *attr) {
  const HlAlways *always = hl_op_always((HlOp)inst->op, attr->key);
  return always && !dialect_is_since(dialect, always->since) && attr->i == always->absent;
}
