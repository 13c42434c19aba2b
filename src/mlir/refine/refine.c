// Makes a program with dynamic shapes static, from the types of its arguments on (mlir.md 2.7).
//
// Walks a function in order: integer values are followed as far as they are known (sizes, and what is computed
// from them), every result gets the type that follows from its operands, dynamic ops whose shape operands are known
// become static ones. A function that is called is copied for each set of argument types and known values.
#include "mlir/refine/refine.h"
#include "base/number.h"
#include "hilo/custom_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mlir/tree/tree.h"

// A function for certain types and values of its arguments.
typedef struct Special Special;
struct Special {
  int n;
  const HlMlType **type;  // of the arguments
  const Known **known;    // NULL: unknown
  HlMlOp *func;           // the copy
  Special *next;
};

struct Callee {
  const HlMlOp *func;  // as it was written; NULL: not looked for yet, or not there
  bool is_dynamic;     // something in it is
  bool is_open;        // a copy of it is being refined
  Special *special;    // its copies, the newest first
  int n_copies;
};

static bool refine_block(Refine *r, HlMlBlock *block);

// --- Tables by index ----------------------------------------------------------------------------------------

// Grows geometrically: the tree gets values as functions are copied.
void *refine_room(void *table, uint32_t *n, uint32_t index, size_t size) {
  if (index < *n)
    return table;
  const uint32_t before = *n;
  *n = index + index / 2 + 64;
  char *grown = base_realloc(table, *n * size);
  memset(grown + before * size, 0, (*n - before) * size);
  return grown;
}

HlMlValue **refine_copies(Refine *r) {
  return r->copied = refine_room(r->copied, &r->n_copied, r->tree->n_values, sizeof(HlMlValue *));
}

void refine_replace(Refine *r, const HlMlValue *value, HlMlValue *by) {
  r->now = refine_room(r->now, &r->n_now, value->index, sizeof(HlMlValue *));
  r->now[value->index] = by;
}

static void take_replaced(const Refine *r, HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_operands; k++) {
    const uint32_t index = op->operands[k]->index;
    if (index < r->n_now && r->now[index])
      op->operands[k] = r->now[index];
  }
}

// --- What is dynamic ----------------------------------------------------------------------------------------

bool refine_error(Refine *r, const HlMlOp *op, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  base_vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return hl_ml_error(r->cx, r->tree, op, "%s", text);
}

static bool is_dynamic_type(const HlMlType *type) {
  for (int k = 0; hl_ml_is_tensor(type) && k < type->rank; k++)
    if (type->dim[k] == HL_UNBOUNDED &&
        (k >= hl_ml_bounds(type).n || hl_ml_bounds(type).at[k] == HL_UNBOUNDED))
      return true;
  return false;
}

static bool is_dynamic_op(const HlMlOp *op) {
  for (uint32_t k = 0; k < op->n_results; k++)
    if (is_dynamic_type(op->results[k].type))
      return true;
  for (int r = 0; r < (int)op->n_regions; r++)
    for (const HlMlBlock *block = op->regions[r].first; block; block = block->next)
      for (int k = 0; k < block->n_args; k++)
        if (is_dynamic_type(block->args[k]->type))
          return true;
  return false;
}

static bool is_dynamic_within(const HlMlOp *top) {
  for (const HlMlOp *op = hl_ml_next(top, top); op; op = hl_ml_next(op, top))
    if (is_dynamic_op(op))
      return true;
  return is_dynamic_op(top);
}

bool hl_ml_is_dynamic(const HlMlTree *tree) {
  return is_dynamic_within(tree->module);
}

// --- Functions ------------------------------------------------------------------------------------------

// The function's type once its arguments and results are what they are now.
static void retype_function(Refine *r, HlMlOp *func) {
  const HlMlBlock *body = hl_ml_body(func, 0);
  const HlMlOp *end = body->last;
  const HlMlType **in = HL_ARRAY(r->arena, const HlMlType *, body->n_args + 1);
  const HlMlType **out = HL_ARRAY(r->arena, const HlMlType *, end->n_operands + 1);
  for (int k = 0; k < body->n_args; k++)
    in[k] = body->args[k]->type;
  for (uint32_t k = 0; k < end->n_operands; k++)
    out[k] = end->operands[k]->type;
  const HlMlType *type = hl_ml_function_type(r->tree, body->n_args, in, (int)end->n_operands, out);
  ml_set_attr(r->tree, func, ML_A_FUNCTION_TYPE, hl_ml_type_attr(r->tree, type));
}

static bool has_body(const HlMlOp *func) {
  const HlMlBlock *body = hl_ml_body(func, 0);
  return body && body->last;
}

// What is known of the function of that name.
static Callee *callee_of(Refine *r, const HlSym *name) {
  r->callee = refine_room(r->callee, &r->n_callees, name->index, sizeof *r->callee);
  Callee *callee = &r->callee[name->index];
  if (!callee->func && (callee->func = hl_ml_find_symbol(r->tree, name)))
    callee->is_dynamic = is_dynamic_within(callee->func);
  return callee;
}

static bool same_known(const Known *a, const Known *b) {
  return a == b || (a && b && hl_i64s_equal(a->at, b->at));
}

// The copy made for these arguments, or NULL.
static Special *find_special(Refine *r, const HlMlOp *call, const HlSym *callee) {
  for (Special *s = callee_of(r, callee)->special; s; s = s->next) {
    bool same = s->n == (int)call->n_operands;
    for (int k = 0; same && k < s->n; k++)
      same = s->type[k] == call->operands[k]->type &&
             same_known(s->known[k], refine_known(r, call->operands[k]));
    if (same)
      return s;
  }
  return NULL;
}

static const HlSym *fresh_symbol(Refine *r, const HlSym *callee) {
  for (;;) {
    const int k = callee_of(r, callee)->n_copies++;
    const char *text = hl_arena_printf(r->arena, "%s_%d", callee->text, k);
    const HlSym *seen = hl_syms_find(r->tree->syms, text, strlen(text));
    if (!seen || !hl_ml_find_symbol(r->tree, seen))
      return hl_ml_sym(r->tree, text);
  }
}

static HlMlOp *copy_function(Refine *r, const HlMlOp *func, const HlSym *callee) {
  if (++r->n_copies > REFINE_MAX_COPIES || r->tree->n_values - r->n_values > REFINE_MAX_VALUES) {
    hl_error_kind(r->cx, HL_LIMIT, hl_ml_pos(r->tree, func),
                  "the program calls functions with too many different shapes or sizes: %d copies "
                  "of %u values",
                  r->n_copies - 1, r->tree->n_values - r->n_values);
    return NULL;
  }
  HlMlValue **map = refine_copies(r);
  HlMlOp *copy = hl_ml_copy_op(r->tree, hl_ml_body(r->tree->module, 0), func, map, r->n_copied);
  ml_set_attr(r->tree, copy, ML_A_SYM_NAME, hl_ml_string_of(r->tree, fresh_symbol(r, callee)));
  ml_set_attr(r->tree, copy, ML_A_SYM_VISIBILITY, hl_ml_string(r->tree, "private", 7));
  return copy;
}

static Special *make_special(Refine *r, const HlMlOp *call, const HlSym *callee,
                             const HlMlOp *func) {
  Special *s = HL_NEW(r->arena, Special);
  s->n = (int)call->n_operands;
  s->type = HL_ARRAY(r->arena, const HlMlType *, s->n + 1);
  s->known = HL_ARRAY(r->arena, const Known *, s->n + 1);
  s->func = copy_function(r, func, callee);
  if (!s->func)
    return NULL;
  const HlMlBlock *body = hl_ml_body(s->func, 0);
  for (int k = 0; k < s->n; k++) {
    const Known *known = refine_known(r, call->operands[k]);
    s->type[k] = call->operands[k]->type;
    if (!refine_set_type(r, call, body->args[k], s->type[k]))
      return NULL;
    if (known) {
      Known *own = HL_NEW(r->arena, Known);
      *own = *known;
      s->known[k] = own;
      refine_know(r, body->args[k], known->at);
    }
  }
  s->next = callee_of(r, callee)->special;
  callee_of(r, callee)->special = s;
  callee_of(r, callee)->is_open = true;
  if (!refine_block(r, hl_ml_body(s->func, 0)))
    return NULL;
  callee_of(r, callee)->is_open = false;
  retype_function(r, s->func);
  return s;
}

// Worth a copy of its own: something dynamic in it, or sizes computed by it.
static bool wants_copy(Refine *r, const HlMlOp *call, const Callee *callee) {
  bool any_known = false;
  for (uint32_t k = 0; k < call->n_operands; k++)
    any_known = any_known || refine_known(r, call->operands[k]);
  bool computes_numbers = any_known && call->n_results > 0;
  for (uint32_t k = 0; k < call->n_results; k++) {
    const HlDtypeKind kind = hl_dtype_kind(hl_ml_dtype(call->results[k].type));
    computes_numbers =
        computes_numbers && (kind == HL_KIND_SINT || kind == HL_KIND_UINT || kind == HL_KIND_PRED);
  }
  return computes_numbers || callee->is_dynamic || is_dynamic_op(call);
}

static bool refine_call(Refine *r, HlMlOp *call, MlName attr) {
  const HlSym *callee = ml_attr_sym(call, attr);
  const HlMlOp *func = callee ? callee_of(r, callee)->func : NULL;
  if (!func || !has_body(func) || hl_ml_body(func, 0)->n_args != (int)call->n_operands)
    return refine_error(r, call, "calls a function without a body, or with other arguments");
  if (!wants_copy(r, call, callee_of(r, callee)))
    return true;
  if (callee_of(r, callee)->is_open)
    return refine_error(
        r, call, "function @%s calls itself, directly or through others, which HLO cannot say",
        callee->text);
  Special *s = find_special(r, call, callee);
  if (!s)
    s = make_special(r, call, callee, func);
  if (!s)
    return false;
  ml_set_attr(r->tree, call, attr, hl_ml_symbol(r->tree, ml_attr_sym(s->func, ML_A_SYM_NAME)));
  const HlMlOp *end = hl_ml_body(s->func, 0)->last;
  for (uint32_t k = 0; k < call->n_results && k < end->n_operands; k++) {
    const Known *known = refine_known(r, end->operands[k]);
    if (!refine_set_type(r, call, &call->results[k], end->operands[k]->type))
      return false;
    if (known)
      refine_know(r, &call->results[k], known->at);
  }
  return true;
}

// --- Regions --------------------------------------------------------------------------------------------------

// The arguments of a loop's regions have the types of what is carried.
static bool refine_loop(Refine *r, HlMlOp *op) {
  for (int region = 0; region < (int)op->n_regions; region++) {
    HlMlBlock *block = hl_ml_body(op, region);
    for (uint32_t k = 0; block && k < op->n_operands && (int)k < block->n_args; k++)
      if (!refine_set_type(r, op, block->args[k], op->operands[k]->type))
        return false;
    if (block && !refine_block(r, block))
      return false;
  }
  for (uint32_t k = 0; k < op->n_results && k < op->n_operands; k++)
    if (!refine_set_type(r, op, &op->results[k], op->operands[k]->type))
      return false;
  return true;
}

// Branches: the results have the types of what the branches return.
static bool refine_branches(Refine *r, HlMlOp *op) {
  for (int region = 0; region < (int)op->n_regions; region++) {
    HlMlBlock *block = hl_ml_body(op, region);
    if (!block || !refine_block(r, block))
      return !block;
    for (uint32_t k = 0; k < op->n_results && k < block->last->n_operands; k++)
      if (!refine_set_type(r, op, &op->results[k], block->last->operands[k]->type))
        return false;
  }
  return true;
}

static bool refine_regions(Refine *r, HlMlOp *op) {
  if (op->row == ML_STABLEHLO_WHILE)
    return refine_loop(r, op);
  if (op->row == ML_STABLEHLO_IF || op->row == ML_STABLEHLO_CASE)
    return refine_branches(r, op);
  for (int region = 0; region < (int)op->n_regions; region++)
    if (hl_ml_body(op, region) && !refine_block(r, hl_ml_body(op, region)))
      return false;
  return true;
}

// --- Assertions on shapes ---------------------------------------------------------------------------------------

// The message with {k} replaced by the k-th of the numbers that follow the condition.
static const char *assertion_text(Refine *r, const HlMlOp *op) {
  const HlSym *text = ml_attr_sym(op, ML_A_ERROR_MESSAGE);
  HlBuf out = {0};
  for (const char *at = text ? text->text : ""; *at; at++) {
    char *end = NULL;
    const long k = at[0] == '{' ? strtol(at + 1, &end, 10) : -1;
    const Known *known = k >= 0 && end > at + 1 && *end == '}' && (uint64_t)k + 1 < op->n_operands
                             ? refine_known(r, op->operands[k + 1])
                             : NULL;
    if (known && known->at.n == 1) {
      hl_buf_i64(&out, known->at.at[0]);
      at = end;
    } else {
      hl_buf_putc(&out, *at);
    }
  }
  const char *kept = hl_arena_strndup(r->arena, out.at ? out.at : "", out.n);
  hl_buf_free(&out);
  return kept;
}

static bool is_assertion(const HlMlOp *op) {
  const HlSym *target =
      op->row == ML_STABLEHLO_CUSTOM_CALL ? ml_attr_sym(op, ML_A_CALL_TARGET_NAME) : NULL;
  return target && hl_call_named(target->text) == HL_CALL_SHAPE_ASSERTION && op->n_operands > 0;
}

// One that holds goes; one that nothing is known of stays for the run.
static bool refine_assertion(Refine *r, HlMlOp *op) {
  const Known *holds = refine_known(r, op->operands[0]);
  if (!holds)
    return true;
  if (holds->at.n == 1 && holds->at.at[0] == 0)
    return refine_error(r, op, "the shapes do not satisfy what the program asserts: %s",
                        assertion_text(r, op));
  if (op->n_results == 0)
    hl_ml_unlink(op);
  return true;
}

// --- Blocks -------------------------------------------------------------------------------------------------------

static bool refine_one(Refine *r, HlMlOp *op) {
  take_replaced(r, op);
  if (is_assertion(op))
    return refine_assertion(r, op);
  if (op->row == ML_FUNC_CALL)
    return refine_call(r, op, ML_A_CALLEE);
  if (op->row == ML_STABLEHLO_COMPOSITE)
    return refine_call(r, op, ML_A_DECOMPOSITION);
  if (!refine_op(r, &op) || !refine_types(r, op) || !refine_regions(r, op))
    return false;
  refine_fold(r, op);
  return true;
}

static bool refine_block(Refine *r, HlMlBlock *block) {
  if (r->depth >= hl_cx_limits(r->cx)->nesting)
    return hl_error_kind(r->cx, HL_LIMIT, (HlPos){r->tree->source, 0},
                         "calls or regions are nested deeper than the limit of %d (limit nesting)",
                         r->depth);
  r->depth++;
  bool good = true;
  for (HlMlOp *op = block->first, *next; good && op; op = next) {
    next = op->next;
    good = refine_one(r, op);
  }
  r->depth--;
  return good;
}

// --- The entry ------------------------------------------------------------------------------------------------------

// Uses of an argument that is a known number become a constant.
static void give_value(Refine *r, HlMlBlock *body, HlMlValue *arg, int64_t value) {
  HlMlOp *first = body->first;
  HlMlOp *constant = ml_op(r->tree, NULL, ML_STABLEHLO_CONSTANT, 0, NULL, 1, &arg->type, 0);
  HlShapes *shapes = hl_shapes_new(r->arena);
  int64_t room = 0;
  HlLiteral holder = {
      .shape = hl_shape_scalar(shapes, hl_ml_dtype(arg->type)), .n = 1, .data = &room};
  hl_literal_set_i64(&holder, 0, value);
  ml_set_attr(r->tree, constant, ML_A_VALUE, hl_ml_dense(r->tree, arg->type, &room, 1, true));
  hl_ml_place_before(constant, first);
  refine_replace(r, arg, &constant->results[0]);
}

static bool give_arguments(Refine *r, HlMlOp *func, int n, const HlMlArg *args) {
  HlMlBlock *body = hl_ml_body(func, 0);
  if (n != body->n_args)
    return refine_error(r, func, "the function takes %d arguments, but %d types are given",
                        body->n_args, n);
  for (int k = 0; k < n; k++) {
    HlMlValue *arg = body->args[k];
    // HLO has one spelling for i32 and index, and none for tokens' dialects: sizes are what is given.
    const HlMlType *old = arg->type, *type = args[k].type;
    if (hl_ml_is_tensor(old) && hl_ml_is_tensor(type) && hl_ml_dtype(old) == hl_ml_dtype(type))
      type = hl_ml_tensor_type(r->tree, type->rank, type->dim, hl_ml_element(old), NULL);
    if (!refine_meet(r, old, type))
      return refine_error(r, func, "argument %d is %s, which %s is not", k,
                          hl_ml_type_text(r->cx, old), hl_ml_type_text(r->cx, type));
    if (!refine_set_type(r, func, arg, type))
      return false;
    if (args[k].has_value &&
        (!hl_ml_is_tensor(type) || type->rank != 0 || !hl_is_integral(hl_ml_dtype(type))))
      return refine_error(r, func, "argument %d has a value, but is no integer scalar: %s", k,
                          hl_ml_type_text(r->cx, type));
    if (args[k].has_value)
      give_value(r, body, arg, args[k].value);
  }
  return true;
}

// The first op that is still dynamic, told with the reason that is most likely.
static bool check_static(Refine *r, const HlMlOp *func) {
  for (const HlMlOp *op = hl_ml_next(func, func); op; op = hl_ml_next(op, func))
    if (is_dynamic_op(op)) {
      hl_error_kind(r->cx, HL_UNSUPPORTED, hl_ml_pos(r->tree, op),
                    "the shape of %s is not known: %s", op->name->text,
                    hl_ml_type_text(r->cx, op->n_results ? op->results[0].type
                                                         : hl_ml_simple_type(r->tree, HL_ML_NONE)));
      hl_hint(
          r->cx,
          "give types, and the values of sizes, for all arguments: --arg-shapes=f32[2,3],s64[]=2");
      return false;
    }
  return true;
}

bool hl_ml_refine(HlCx *cx, HlMlTree *tree, const HlSym *entry, int n, const HlMlArg *args) {
  HlMlOp *func = hl_ml_find_symbol(tree, entry ? entry : hl_ml_sym(tree, "main"));
  if (!func || !has_body(func))
    return hl_error(cx, (HlPos){tree->source, 0}, "there is no function @%s with a body",
                    entry ? entry->text : "main");
  Refine r = {.cx = cx, .tree = tree, .arena = hl_arena_new(), .n_values = tree->n_values};
  ml_tables(tree)->conversion = NULL;  // what was prepared is so no more
  bool good = !args || give_arguments(&r, func, n, args);
  good = good && refine_block(&r, hl_ml_body(func, 0));
  if (good)
    retype_function(&r, func);
  for (HlMlOp *op = tree->module; op; op = hl_ml_next(op, tree->module))
    take_replaced(&r, op);
  good = good && check_static(&r, func);
  for (uint32_t k = 0; k < r.n_callees; k++)
    for (Special *s = r.callee[k].special; good && s; s = s->next)
      good = check_static(&r, s->func);
  base_free(r.known);
  base_free(r.now);
  base_free(r.copied);
  base_free(r.callee);
  hl_arena_free(r.arena);
  return good;
}
