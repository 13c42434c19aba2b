// Reads MLIR bytecode: ops, regions and blocks (mlir.md 3.8).
//
// Values are known by number within a scope: that of an isolated op's regions, which see nothing from outside. A
// region takes a run of numbers when it is entered, and gives it back when it ends. An operand may name a value that
// comes later; its place is kept until the region ends.
#include "mlir/bytecode/bytecode.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "mlir/tree/tree.h"

typedef struct MlbLater {  // an operand whose value is not defined yet
  HlMlValue **place;
  uint32_t number;
} MlbLater;

typedef struct MlbScope {
  HlMlValue **value;           // by number; NULL: not defined yet
  uint32_t n, capacity, next;  // next: the number that the next value of the innermost region gets
  MlbLater *later;
  uint32_t n_later, later_capacity;
} MlbScope;

typedef struct MlbRegion {  // the one being read
  HlMlBlock **block;
  uint32_t n_blocks;
} MlbRegion;

typedef struct MlbHead {  // what an op's encoding says before its regions
  const uint8_t *at;
  uint32_t name_index;
  const MlbOpName *name;
  uint8_t mask;
  const HlMlLocation *location;
  const HlMlAttr *dict;
  uint64_t properties;
  uint32_t n_results, n_operands, n_successors, n_regions;
  const HlMlType **result;
  uint32_t *operand, *successor;
  bool is_isolated;
} MlbHead;

static void free_scope(MlbScope *scope) {
  base_free(scope->value);
  base_free(scope->later);
}

static void *grow(void *at, uint32_t n, uint32_t *capacity, size_t size) {
  if (n <= *capacity)
    return at;
  uint32_t more = n < 32 ? 64 : n + n / 2;
  *capacity = more;
  return base_realloc(at, more * size);
}

static bool define(MlbReader *r, MlbScope *scope, const uint8_t *at, HlMlValue *value) {
  if (scope->next >= scope->n)
    return mlb_fail(r, at, "a region defines more values than it says");
  scope->value[scope->next++] = value;
  return true;
}

// --- Ops -----------------------------------------------------------------------------------------

enum { FEW = 16 };  // lists of up to that many stand on the stack

typedef struct MlbRoom {
  const HlMlType *type[FEW];
  uint32_t operand[FEW];
} MlbRoom;

static bool read_numbers(MlbReader *r, MlbCursor *c, const char *what, uint32_t *few,
                         uint32_t **out, uint32_t *n) {
  *n = mlb_count(r, c, 1, what);
  *out = few && *n <= FEW ? few : HL_ARRAY(r->arena, uint32_t, *n);
  for (uint32_t k = 0; k < *n; k++) {
    uint64_t number = mlb_varint(r, c);
    (*out)[k] = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
  }
  return !r->failed;
}

static bool read_results(MlbReader *r, MlbCursor *c, MlbHead *head, MlbRoom *room) {
  head->n_results = mlb_count(r, c, 1, "results");
  head->result =
      head->n_results <= FEW ? room->type : HL_ARRAY(r->arena, const HlMlType *, head->n_results);
  for (uint32_t k = 0; k < head->n_results; k++)
    if (!(head->result[k] = mlb_type(r, c)))
      return false;
  return !r->failed;
}

// Orders of uses, which the tree does not keep.
static bool skip_uses(MlbReader *r, MlbCursor *c, uint32_t n_values) {
  uint32_t n = n_values == 1 ? 1 : mlb_count(r, c, 1, "orders of uses");
  for (uint32_t k = 0; k < n && !r->failed; k++) {
    if (n_values != 1)
      mlb_varint(r, c);
    uint64_t count = mlb_varint(r, c) >> 1;
    if (count > (uint64_t)(c->end - c->at))
      return mlb_fail_end(r, c);
    for (uint64_t j = 0; j < count; j++)
      mlb_varint(r, c);
  }
  return !r->failed;
}

static bool read_dict(MlbReader *r, MlbCursor *c, MlbHead *head) {
  const uint8_t *at = c->at;
  head->dict = mlb_attr(r, c);
  if (head->dict && head->dict->kind != HL_ML_A_DICT)
    return mlb_fail(r, at, "the attributes of an op are no dictionary");
  return head->dict != NULL;
}

static bool read_head(MlbReader *r, MlbCursor *c, MlbHead *head, MlbRoom *room) {
  *head = (MlbHead){.at = c->at};
  uint64_t name = mlb_varint(r, c);
  head->name = mlb_op_name(r, head->at, name);
  head->name_index = (uint32_t)name;
  head->mask = mlb_byte(r, c);
  if (!head->name || !(head->location = mlb_location(r, c)))
    return false;
  uint8_t allowed = r->version >= 5 ? 0x7f : r->version >= 3 ? 0x3f : 0x1f;
  if (head->mask & ~allowed)
    return mlb_fail(r, head->at, "an op with the mask %02x", head->mask);
  if ((head->mask & MLB_HAS_ATTRS) && !read_dict(r, c, head))
    return false;
  if (head->mask & MLB_HAS_PROPERTIES)
    head->properties = mlb_varint(r, c);
  if ((head->mask & MLB_HAS_RESULTS) && !read_results(r, c, head, room))
    return false;
  if ((head->mask & MLB_HAS_OPERANDS) &&
      !read_numbers(r, c, "operands", room->operand, &head->operand, &head->n_operands))
    return false;
  if ((head->mask & MLB_HAS_SUCCESSORS) &&
      !read_numbers(r, c, "successors", NULL, &head->successor, &head->n_successors))
    return false;
  if ((head->mask & MLB_HAS_USES) && !skip_uses(r, c, head->n_results))
    return false;
  if (head->mask & MLB_HAS_REGIONS) {
    uint64_t n = mlb_varint(r, c);
    head->is_isolated = n & 1;
    if (n >> 1 > (uint64_t)(c->end - c->at))
      return mlb_fail(r, head->at, "an op with %" PRIu64 " regions", n >> 1);
    head->n_regions = (uint32_t)(n >> 1);
  }
  if (++r->n_ops > hl_cx_limits(r->cx)->instructions)
    return mlb_fail_kind(r, HL_LIMIT, head->at, "more than %" PRId64 " ops (limit instructions)",
                         hl_cx_limits(r->cx)->instructions);
  return !r->failed;
}

static HlMlOp *make_op(MlbReader *r, const MlbHead *head) {
  HlMlOp *op =
      ml_new_op(r->tree, head->n_operands, head->n_results, head->n_regions, head->n_successors);
  op->name = head->name->name;
  op->row = head->name->row;
  op->dialect = head->name->dialect;
  op->location = head->location->kind == HL_ML_LOC_UNKNOWN ? NULL : head->location;
  size_t offset = (size_t)(head->at - r->base);
  op->loc = offset < UINT32_MAX ? (HlLoc)(offset + 1) : 0;
  for (uint32_t k = 0; k < head->n_results; k++)
    op->results[k].type = head->result[k];
  return op;
}

static bool set_operands(MlbReader *r, MlbScope *scope, const MlbHead *head, HlMlOp *op) {
  for (uint32_t k = 0; k < head->n_operands; k++) {
    uint32_t number = head->operand[k];
    if (number >= scope->n)
      return mlb_fail(r, head->at, "operand %u is value %u, of %u", k, number, scope->n);
    op->operands[k] = scope->value[number];
    if (HL_LIKELY(op->operands[k] != NULL))
      continue;
    scope->later =
        grow(scope->later, scope->n_later + 1, &scope->later_capacity, sizeof *scope->later);
    scope->later[scope->n_later++] = (MlbLater){&op->operands[k], number};
  }
  return true;
}

static bool set_successors(MlbReader *r, const MlbRegion *in, const MlbHead *head, HlMlOp *op) {
  for (uint32_t k = 0; k < head->n_successors; k++) {
    if (!in || head->successor[k] >= in->n_blocks)
      return mlb_fail(r, head->at, "a successor that is no block of the region");
    op->successors[k] = in->block[head->successor[k]];
  }
  return true;
}

// In an artifact casts part types of VHLO from those of builtin, which are the same now.
static bool is_idle_cast(const MlbReader *r, const MlbScope *scope, const MlbHead *head) {
  if (head->name->row != ML_BUILTIN_UNREALIZED_CONVERSION_CAST || !r->is_artifact ||
      head->n_operands != head->n_results || head->n_regions)
    return false;
  for (uint32_t k = 0; k < head->n_operands; k++) {
    const HlMlValue *value = head->operand[k] < scope->n ? scope->value[head->operand[k]] : NULL;
    if (!value || value->type != head->result[k])
      return false;
  }
  return true;
}

static bool skip_cast(MlbReader *r, MlbScope *scope, const MlbHead *head) {
  for (uint32_t k = 0; k < head->n_operands; k++)
    if (!define(r, scope, head->at, scope->value[head->operand[k]]))
      return false;
  return true;
}

// A return of VHLO ends a function or any other region.
static void name_return(MlbReader *r, HlMlOp *op, const HlMlOp *parent) {
  if (op->row != ML_FUNC_RETURN || !parent || parent->row == ML_FUNC_FUNC)
    return;
  op->row = ML_STABLEHLO_RETURN;
  op->dialect = HL_ML_STABLEHLO;
  op->name = hl_ml_sym(r->tree, ml_row(ML_STABLEHLO_RETURN)->name);
}

static bool read_regions(MlbReader *r, MlbCursor *c, MlbScope *scope, HlMlOp *op);

// Regions that see nothing from outside number their values afresh, and since version 2 are a section.
static bool read_isolated(MlbReader *r, MlbCursor *c, HlMlOp *op) {
  MlbScope scope = {0};
  MlbCursor own = *c;
  const uint8_t *at = c->at;
  int id = MLB_IR;
  if (r->version >= 2 && mlb_section(r, c, &id, &own) && id != MLB_IR)
    mlb_fail(r, at, "section %d where regions are expected", id);
  bool done = !r->failed && read_regions(r, &own, &scope, op);
  free_scope(&scope);
  if (r->version < 2)
    *c = own;
  else if (done)
    done = mlb_at_end(r, &own, "a section of regions");
  return done;
}

static bool read_op(MlbReader *r, MlbCursor *c, MlbScope *scope, const MlbRegion *in,
                    HlMlBlock *block) {
  MlbRoom room;
  MlbHead head;
  if (!read_head(r, c, &head, &room))
    return false;
  if (is_idle_cast(r, scope, &head))
    return skip_cast(r, scope, &head);
  HlMlOp *op = make_op(r, &head);
  if (!set_operands(r, scope, &head, op) || !set_successors(r, in, &head, op) ||
      !mlb_op_attrs(r, &(MlbCursor){head.at, c->end}, head.name_index, head.dict,
                    head.mask & MLB_HAS_PROPERTIES, head.properties, op))
    return false;
  if (block) {
    if (head.name->is_vhlo)
      name_return(r, op, block->region->op);
    hl_ml_append(block, op);
  } else {
    r->tree->module = op;
  }
  for (uint32_t k = 0; k < op->n_results && block; k++)
    if (!define(r, scope, head.at, &op->results[k]))
      return false;
  if (op->n_regions == 0)
    return true;
  if (!mlb_enter(r, c->at))
    return false;
  bool done = head.is_isolated ? read_isolated(r, c, op) : read_regions(r, c, scope, op);
  mlb_leave(r);
  return done;
}

// --- Regions -------------------------------------------------------------------------------------

static bool read_args(MlbReader *r, MlbCursor *c, MlbScope *scope, HlMlBlock *block) {
  uint32_t n = mlb_count(r, c, 1, "arguments");
  for (uint32_t k = 0; k < n; k++) {
    const uint8_t *at = c->at;
    uint64_t type_index = mlb_varint(r, c);
    bool has_location = r->version < 4 || (type_index & 1);
    const HlMlType *type = mlb_type_at(r, at, r->version < 4 ? type_index : type_index >> 1);
    const HlMlLocation *location = has_location && type ? mlb_location(r, c) : NULL;
    if (r->failed)
      return false;
    HlMlValue *arg = hl_ml_arg(r->tree, block, type);
    arg->location = location && location->kind != HL_ML_LOC_UNKNOWN ? location : NULL;
    if (!define(r, scope, at, arg))
      return false;
  }
  if (r->version < 3)
    return !r->failed;
  const uint8_t *at = c->at;
  uint8_t flag = mlb_byte(r, c);
  if (flag != 0 && flag != MLB_HAS_USES)
    return mlb_fail(r, at, "a block's arguments with the flag %02x", flag);
  return flag ? skip_uses(r, c, n) : !r->failed;
}

static bool read_block(MlbReader *r, MlbCursor *c, MlbScope *scope, const MlbRegion *in,
                       HlMlBlock *block) {
  uint64_t n = mlb_varint(r, c);
  if ((n & 1) && !read_args(r, c, scope, block))
    return false;
  for (n >>= 1; n > 0; n--)
    if (!read_op(r, c, scope, in, block))
      return false;
  return !r->failed;
}

// Puts values into the operands that came before them.
static bool resolve_later(MlbReader *r, MlbScope *scope, const uint8_t *at, uint32_t base,
                          uint32_t from) {
  uint32_t kept = from;
  for (uint32_t k = from; k < scope->n_later; k++) {
    MlbLater *later = &scope->later[k];
    *later->place = scope->value[later->number];
    if (*later->place)
      continue;
    if (later->number >= base)
      return mlb_fail(r, at, "value %u is used, but not defined", later->number);
    scope->later[kept++] = *later;
  }
  scope->n_later = kept;
  return true;
}

static bool read_region(MlbReader *r, MlbCursor *c, MlbScope *scope, HlMlRegion *region) {
  const uint8_t *at = c->at;
  MlbRegion in = {.n_blocks = mlb_count(r, c, 1, "blocks")};
  if (r->failed || in.n_blocks == 0)
    return !r->failed;
  uint32_t n_values = mlb_count(r, c, 1, "values");
  if (r->failed)
    return false;
  uint32_t base = scope->n, from = scope->n_later, next = scope->next;
  if (n_values > UINT32_MAX / 2 - base)
    return mlb_fail(r, at, "too many values");
  scope->value = grow(scope->value, base + n_values, &scope->capacity, sizeof *scope->value);
  if (n_values)
    memset(scope->value + base, 0, n_values * sizeof *scope->value);
  scope->n = base + n_values;
  scope->next = base;
  in.block = HL_ARRAY(r->arena, HlMlBlock *, in.n_blocks);
  for (uint32_t k = 0; k < in.n_blocks; k++)
    in.block[k] = hl_ml_block(r->tree, region);
  for (uint32_t k = 0; k < in.n_blocks; k++)
    if (!read_block(r, c, scope, &in, in.block[k]))
      return false;
  if (scope->next != scope->n)
    return mlb_fail(r, at, "a region of %u values defines %u", n_values, scope->next - base);
  if (!resolve_later(r, scope, at, base, from))
    return false;
  scope->n = base;
  scope->next = next;
  return true;
}

static bool read_regions(MlbReader *r, MlbCursor *c, MlbScope *scope, HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_regions; k++)
    if (!read_region(r, c, scope, &op->regions[k]))
      return false;
  return true;
}

bool mlb_read_ir(MlbReader *r) {
  MlbCursor c = r->section[MLB_IR];
  const uint8_t *at = c.at;
  MlbScope scope = {0};
  uint64_t n = mlb_varint(r, &c);
  if (!r->failed && n != 1 << 1)
    return mlb_fail(r, at, "%" PRIu64 " ops at the top where one module is expected", n >> 1);
  bool done = !r->failed && read_op(r, &c, &scope, NULL, NULL);
  free_scope(&scope);
  if (!done || !mlb_at_end(r, &c, "the section of code"))
    return false;
  const HlMlOp *module = r->tree->module;
  if (module->row != ML_BUILTIN_MODULE || module->n_regions != 1 || !module->regions[0].first)
    return mlb_fail(r, at, "the op at the top is no module with a body");
  return true;
}
