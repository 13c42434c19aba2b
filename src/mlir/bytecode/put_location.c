// Writes portable artifacts: locations, which stand among the attributes.
#include "mlir/bytecode/write.h"

static void put_child(MlwWriter *w, const HlMlLocation *location) {
  uint32_t index = mlw_location(w, location);
  mlw_varint(&w->stack, index);
}

static void put_path(MlwWriter *w, const HlSym *sym) {
  uint32_t index = mlw_native_string(w, sym);
  mlw_varint(&w->stack, index);
}

// Readers of before 1.9 know no ranges: their start is written.
static size_t put_file(MlwWriter *w, const HlMlLocation *location) {
  bool is_range = location->is_range && w->vhlo >= vhlo_version(1, 9);
  bool is_line = location->line == location->end_line;
  size_t from = mlw_begin(w, is_range ? MLB_RANGE : MLB_FILE);
  put_path(w, location->sym);
  if (is_range)
    mlw_varint(&w->stack, is_line ? 3 : 4);
  mlw_varint(&w->stack, (uint64_t)location->line);
  mlw_varint(&w->stack, (uint64_t)location->column);
  if (is_range && !is_line)
    mlw_varint(&w->stack, (uint64_t)location->end_line);
  if (is_range)
    mlw_varint(&w->stack, (uint64_t)location->end_column);
  return from;
}

static size_t put_location(MlwWriter *w, const HlMlLocation *location) {
  size_t from = w->stack.n;
  switch ((HlMlLocationKind)location->kind) {
  case HL_ML_LOC_FILE: return put_file(w, location);
  case HL_ML_LOC_NAME:
    mlw_begin(w, MLB_NAME);
    put_path(w, location->sym);
    put_child(w, location->n ? location->child[0] : NULL);
    break;
  case HL_ML_LOC_CALLSITE:
    mlw_begin(w, MLB_CALLSITE);
    put_child(w, location->child[0]);
    put_child(w, location->child[1]);
    break;
  case HL_ML_LOC_FUSED:
    mlw_begin(w, location->metadata ? MLB_FUSED_WITH : MLB_FUSED);
    mlw_varint(&w->stack, (uint64_t)location->n);
    for (int k = 0; k < location->n; k++)
      put_child(w, location->child[k]);
    if (location->metadata)
      mlw_put_attr(w, location->metadata, MLW_NATIVE);
    break;
  default: mlw_begin(w, MLB_UNKNOWN); break;
  }
  return from;
}

uint32_t mlw_location(MlwWriter *w, const HlMlLocation *location) {
  static const HlMlLocation unknown = {.kind = HL_ML_LOC_UNKNOWN};
  uint32_t index;
  if (w->failed)
    return 0;
  if (!location)
    location = &unknown;
  if (mlw_seen(&w->location_memo, location, &index))
    return index;
  if (++w->depth > hl_cx_limits(w->cx)->nesting) {
    mlw_fail(w, "locations nested deeper than %d levels", hl_cx_limits(w->cx)->nesting);
    return 0;
  }
  size_t from = put_location(w, location);
  w->depth--;
  index = mlw_end(w, from, &w->attrs, "builtin");
  mlw_see(&w->location_memo, location, index);
  return index;
}
