// Reads MLIR bytecode: locations, which stand among the attributes.
//
// A location may share parts with others, so that a small file describes a huge one: each knows how deep it is and how
// much a walk of it meets.
#include <inttypes.h>

#include "mlir/bytecode/bytecode.h"

static const HlSym *file_or_name(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  const HlMlAttr *attr = mlb_attr(r, c);
  if (attr && attr->kind != HL_ML_A_STRING)
    mlb_fail(r, at, "the name in a location is no string");
  return r->failed ? NULL : attr->sym;
}

static int place(MlbReader *r, MlbCursor *c) {
  uint64_t value = mlb_varint(r, c);
  return value > INT32_MAX ? INT32_MAX : (int)value;
}

// Children, and what a walk below `own` meets.
static bool read_children(MlbReader *r, MlbCursor *c, HlMlLocation *out, uint32_t n,
                          MlbMeasure *own) {
  const HlMlLocation **child = HL_ARRAY(r->tree->arena, const HlMlLocation *, n);
  out->n = (int)n;
  out->child = child;
  for (uint32_t k = 0; k < n; k++) {
    const uint8_t *at = c->at;
    uint64_t index = mlb_varint(r, c);
    if (!(child[k] = mlb_location_at(r, at, index)))
      return false;
    const MlbMeasure *below = &r->location_measure[index];
    own->depth = below->depth >= own->depth ? below->depth + 1 : own->depth;
    own->size = own->size + below->size < own->size ? UINT32_MAX : own->size + below->size;
  }
  return !r->failed && mlb_is_small(r, c->at, (int)own->depth, own->size);
}

static void read_range(MlbReader *r, MlbCursor *c, HlMlLocation *out) {
  const uint8_t *at = c->at;
  uint32_t n = mlb_count(r, c, 1, "numbers");
  int number[4] = {0};
  if (n > 4) {
    mlb_fail(r, at, "a range of %u numbers", n);
    return;
  }
  for (uint32_t k = 0; k < n; k++)
    number[k] = place(r, c);
  out->line = out->end_line = number[0];
  out->column = out->end_column = number[1];
  out->is_range = n >= 3;
  if (n == 3)
    out->end_column = number[2];
  if (n == 4) {
    out->end_line = number[2];
    out->end_column = number[3];
  }
}

static bool read_location(MlbReader *r, MlbCursor *c, HlMlLocation *out, MlbMeasure *own) {
  const uint8_t *at = c->at;
  uint64_t code = mlb_varint(r, c);
  switch (code) {
  case MLB_UNKNOWN: return !r->failed;
  case MLB_FILE:
  case MLB_RANGE:
    out->kind = HL_ML_LOC_FILE;
    out->sym = file_or_name(r, c);
    if (code == MLB_RANGE) {
      read_range(r, c, out);
    } else {
      out->line = place(r, c);
      out->column = place(r, c);
    }
    return !r->failed;
  case MLB_NAME:
    out->kind = HL_ML_LOC_NAME;
    out->sym = file_or_name(r, c);
    if (r->failed || !read_children(r, c, out, 1, own))
      return false;
    if (out->child[0]->kind == HL_ML_LOC_UNKNOWN)  // which is not written
      out->n = 0;
    return true;
  case MLB_CALLSITE: out->kind = HL_ML_LOC_CALLSITE; return read_children(r, c, out, 2, own);
  case MLB_FUSED:
  case MLB_FUSED_WITH:
    out->kind = HL_ML_LOC_FUSED;
    if (!read_children(r, c, out, mlb_count(r, c, 1, "locations"), own))
      return false;
    if (code == MLB_FUSED_WITH)
      out->metadata = mlb_attr(r, c);
    return !r->failed;
  default: return mlb_fail(r, at, "an attribute that is no location where one is expected");
  }
}

static const HlMlLocation busy_location;

const HlMlLocation *mlb_location_at(MlbReader *r, const uint8_t *at, uint64_t index) {
  if (r->failed)
    return NULL;
  if (index >= r->n_attrs) {
    mlb_fail(r, at, "there is no attribute %" PRIu64 ", only %u", index, r->n_attrs);
    return NULL;
  }
  if (HL_LIKELY(r->location_of[index] && r->location_of[index] != &busy_location))
    return r->location_of[index];
  const MlbEntry *entry = &r->attr[index];
  if (r->location_of[index] == &busy_location) {
    mlb_fail(r, entry->at, "location %" PRIu64 " contains itself", index);
    return NULL;
  }
  if (!entry->is_custom || r->dialect[entry->dialect].dialect != HL_ML_BUILTIN) {
    mlb_fail(r, at, "an attribute that is no location where one is expected");
    return NULL;
  }
  if (!mlb_enter(r, entry->at))
    return NULL;
  r->location_of[index] = &busy_location;
  MlbCursor c = {entry->at, entry->at + entry->n};
  HlMlLocation *location = HL_NEW(r->tree->arena, HlMlLocation);
  MlbMeasure *own = &r->location_measure[index];
  *own = (MlbMeasure){1, 1};
  bool done = read_location(r, &c, location, own) && mlb_at_end(r, &c, "a location");
  mlb_leave(r);
  if (!done)
    return NULL;
  return r->location_of[index] =
             location->kind == HL_ML_LOC_UNKNOWN ? hl_ml_unknown(r->tree) : location;
}

const HlMlLocation *mlb_location(MlbReader *r, MlbCursor *c) {
  const uint8_t *at = c->at;
  return mlb_location_at(r, at, mlb_varint(r, c));
}
