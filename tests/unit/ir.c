// Shapes, the edit door, names, print orders, clones and graph hashes.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/edit.h"
#include "hilo/ir.h"
#include "support/image.h"

// --- Help -----------------------------------------------------------------------------------------

static const HlShape *f32(HlModule *m, int64_t n) {
  return hl_shape_array(m->shapes, HL_F32, 1, &n);
}

static HlInst *param(HlComp *comp, int64_t number, const char *name) {
  return hl_parameter_new(comp, number, f32(comp->module, 4), hl_sym(comp->module, name));
}

static HlInst *op1(HlComp *comp, HlOp op, const char *name, HlInst *a) {
  return hl_inst_new(comp, op, a->shape, name ? hl_sym(comp->module, name) : NULL, 1, &a);
}

static HlInst *op2(HlComp *comp, HlOp op, const char *name, HlInst *a, HlInst *b) {
  HlInst *operands[] = {a, b};
  return hl_inst_new(comp, op, a->shape, name ? hl_sym(comp->module, name) : NULL, 2, operands);
}

static HlComp *comp_new(HlModule *m, const char *name) {
  return hl_comp_new(m, name, strlen(name));
}

// Everything the edit door promises about one computation.
static void check_comp(const HlComp *comp) {
  uint32_t n = 0;
  bool *seen = test_calloc(comp->next_id + 1, sizeof *seen);
  const HlInst *prev = NULL;
  for (const HlInst *inst = comp->first; inst; prev = inst, inst = inst->next, n++) {
    assert_ptr_equal(inst->prev, prev);
    assert_ptr_equal(comp->by_id[inst->id], inst);
    for (uint32_t k = 0; k < inst->n_operands; k++) {
      assert_true(seen[inst->operands[k]->id]);
      assert_ptr_equal(inst->uses_made[k].user, inst);
      assert_int_equal(inst->uses_made[k].number, k);
    }
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      assert_true(seen[inst->control->preds[k]->id]);
    const HlUse *last = NULL;
    for (const HlUse *use = inst->first_use; use; last = use, use = use->next) {
      assert_ptr_equal(use->prev, last);
      assert_ptr_equal(use->user->operands[use->number], inst);
    }
    assert_ptr_equal(inst->last_use, last);
    for (int k = 1; k < inst->n_attrs; k++)
      assert_true(inst->attrs[k - 1].key < inst->attrs[k].key);
    seen[inst->id] = true;
  }
  assert_ptr_equal(comp->last, prev);
  assert_int_equal(n, comp->n_insts);
  test_free(seen);
}

static void check_order(HlInst *const *order, uint32_t n, const char *expected) {
  HlBuf names = {0};
  for (uint32_t k = 0; k < n; k++) {
    if (k > 0)
      hl_buf_putc(&names, ' ');
    hl_buf_puts(&names, order[k]->name->text);
  }
  assert_string_equal(names.at, expected);
  hl_buf_free(&names);
}

// --- Tables ---------------------------------------------------------------------------------------

static void test_tables(void **state) {
  for (int k = 0; k < HL_OP_COUNT; k++) {
    assert_int_equal(hl_op_by_text(hl_str(hl_op_info[k].text)), k);
    int n = 0;
    while (hl_op_info[k].attrs[n] != HL_ATTR_END)
      assert_true((hl_op_info[k].attrs[n++] & ~HL_ATTR_REQUIRED) < HL_ATTR_COUNT);
  }
  for (int k = HL_PRED; k < HL_TUPLE; k++)
    assert_int_equal(hl_dtype_by_text(hl_str(hl_dtype_text((HlDtype)k))), k);
  assert_int_equal(hl_op_by_text(hl_str("addd")), HL_OP_COUNT);
  assert_int_equal(hl_op_by_text((HlStr){"add\0x", 5}), HL_OP_COUNT);
  assert_int_equal(hl_dtype_by_text(hl_str("f33")), HL_NO_DTYPE);
  assert_int_equal(hl_dtype_info[HL_F8E4M3FN].format.bias, 7);
  assert_int_equal(hl_dtype_bytes(HL_S4), 1);
  assert_int_equal(hl_op_info[HL_OP_CALL].traits & HL_T_CALLS, HL_T_CALLS);
  assert_int_equal(hl_op_info[HL_OP_COMPARE].attrs[0], HL_A_DIRECTION | HL_ATTR_REQUIRED);
  int64_t value;
  assert_true(hl_enum_value(&hl_enums[HL_ENUM_precision], hl_str("HIGHEST"), &value));
  assert_int_equal(value, HL_WORD_precision_HIGHEST);
  assert_false(hl_enum_value(&hl_enums[HL_ENUM_direction], hl_str("eq"), &value));
  assert_string_equal(hl_enum_text(&hl_enums[HL_ENUM_direction], HL_WORD_direction_LE), "LE");
}

// --- Shapes ---------------------------------------------------------------------------------------

static void test_shapes(void **state) {
  HlArena *arena = hl_arena_new(), *other_arena = hl_arena_new();
  HlShapes *shapes = hl_shapes_new(arena), *others = hl_shapes_new(other_arena);
  int64_t dim[] = {2, 3};
  const HlShape *a = hl_shape_array(shapes, HL_F32, 2, dim);
  assert_ptr_equal(a, hl_shape_array(shapes, HL_F32, 2, dim));
  assert_ptr_not_equal(a, hl_shape_array(shapes, HL_BF16, 2, dim));
  assert_true(hl_layout_is_default(a->layout));
  const HlShape *bare = hl_shape_without_layout(shapes, a);
  assert_ptr_not_equal(bare, a);
  assert_null(bare->layout);
  assert_ptr_equal(hl_shape_with_default_layout(shapes, bare), a);
  assert_true(hl_shape_compatible(a, bare));
  assert_false(hl_shape_equal(a, bare));
  const HlShape *elements[] = {a, hl_shape_scalar(shapes, HL_S32), hl_shape_token(shapes)};
  const HlShape *tuple = hl_shape_tuple(shapes, 3, elements);
  assert_ptr_equal(tuple, hl_shape_tuple(shapes, 3, elements));
  const HlShape *abroad = hl_shape_intern(others, tuple);
  assert_ptr_not_equal(abroad, tuple);
  assert_true(hl_shape_equal(abroad, tuple));
  assert_true(abroad->hash == tuple->hash);
  assert_ptr_equal(hl_shape_intern(shapes, abroad), tuple);
  int64_t path[] = {1};
  assert_ptr_equal(hl_shape_at(tuple, (HlI64s){path, 1}), elements[1]);
  assert_int_equal(hl_shape_leaves(tuple), 3);
  assert_int_equal(hl_shape_elements(a), 6);
  bool dynamic[] = {true, false};
  const HlShape *bounded = hl_shape_array_full(shapes, HL_F32, 2, dim, dynamic, a->layout);
  assert_true(hl_shape_is_dynamic(bounded) && !hl_shape_is_dynamic(a) &&
              !hl_shape_is_unbounded(bounded));
  assert_ptr_equal(hl_shape_static(shapes, bounded), a);
  int64_t huge[] = {INT64_MAX, 8};
  assert_true(hl_shape_elements(hl_shape_array(shapes, HL_F32, 2, huge)) == INT64_MAX);
  for (int64_t k = 0; k < 1000; k++)
    hl_shape_array(shapes, HL_F32, 1, &k);
  assert_ptr_equal(a, hl_shape_array(shapes, HL_F32, 2, dim));
  hl_arena_free(arena);
  hl_arena_free(other_arena);
}

static void test_buffer_bytes(void **state) {
  HlArena *arena = hl_arena_new();
  HlShapes *shapes = hl_shapes_new(arena);
  int64_t dim[] = {5, 100};
  const HlShape *plain = hl_shape_array(shapes, HL_BF16, 2, dim);
  assert_int_equal(hl_shape_buffer_bytes(plain, 8), 1000);
  int64_t tile[] = {8, 128}, order[] = {1, 0};
  HlI64s tiles[] = {{tile, 2}};
  HlLayoutExtra extra = {.tiles = tiles, .n_tiles = 1, .tail_padding_alignment = 1};
  HlLayout layout = {{order, 2}, &extra};
  assert_int_equal(hl_shape_buffer_bytes(hl_shape_with_layout(shapes, plain, &layout), 8),
                   8 * 128 * 2);
  int64_t joined[] = {HL_TILE_COMBINE, 128};
  tiles[0].at = joined;
  assert_int_equal(hl_shape_buffer_bytes(hl_shape_with_layout(shapes, plain, &layout), 8), 512 * 2);
  HlLayoutExtra packed = {.tail_padding_alignment = 1, .element_bits = 4};
  layout.extra = &packed;
  int64_t odd[] = {3, 5};
  const HlShape *s4 = hl_shape_array_full(shapes, HL_S4, 2, odd, NULL, &layout);
  assert_int_equal(hl_shape_buffer_bytes(s4, 8), 8);
  const HlShape *pair[] = {plain, plain};
  assert_int_equal(hl_shape_buffer_bytes(hl_shape_tuple(shapes, 2, pair), 8), 16);
  assert_int_equal(hl_shape_buffer_bytes(hl_shape_token(shapes), 8), 0);
  hl_arena_free(arena);
}

// --- Editing --------------------------------------------------------------------------------------

static void test_edit(void **state) {
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  HlInst *p = param(comp, 0, "p"), *q = param(comp, 1, "q");
  HlInst *a = op2(comp, HL_OP_ADD, "a", p, p);
  HlInst *b = op2(comp, HL_OP_MULTIPLY, "b", a, q);
  HlInst *c = op1(comp, HL_OP_NEGATE, "c", b);
  hl_set_root(comp, c);
  check_comp(comp);
  assert_int_equal(comp->n_params, 2);
  // A new definition at the end comes to be used before: it and what it needs move up.
  HlInst *d = op1(comp, HL_OP_EXPONENTIAL, "d", q);
  HlInst *e = op1(comp, HL_OP_LOG, "e", d);
  hl_replace_uses(a, e);
  check_comp(comp);
  assert_null(a->first_use);
  assert_ptr_equal(b->operands[0], e);
  check_order((HlInst *[]){e->prev, e, e->next}, 3, "d e b");
  hl_erase(a);
  check_comp(comp);
  assert_null(p->first_use);
  // Replacing by a user of the replaced keeps that use.
  HlInst *f = op1(comp, HL_OP_COPY, "f", b);
  hl_replace_uses(b, f);
  check_comp(comp);
  assert_ptr_equal(f->operands[0], b);
  assert_ptr_equal(c->operands[0], f);
  hl_replace_uses(c, f);
  assert_ptr_equal(comp->root, f);
  // Control edges order too, and are joined across what is erased.
  HlInst *x = op1(comp, HL_OP_SINE, "x", p), *y = op1(comp, HL_OP_COSINE, "y", p);
  hl_add_control(y, x);
  hl_add_control(x, d);
  hl_add_control(x, d);
  assert_int_equal(d->control->n_preds, 1);
  check_comp(comp);
  hl_erase(x);
  assert_ptr_equal(d->control->preds[0], y);
  check_comp(comp);
  // Many moves into one place use up the gap between labels.
  for (int k = 0; k < 200; k++) {
    HlInst *late = op1(comp, HL_OP_ABS, NULL, q);
    hl_set_operand(d, 0, late);
    check_comp(comp);
  }
  HlInst *three[] = {p, q, e};
  HlInst *tuple = hl_inst_new(comp, HL_OP_TUPLE, p->shape, NULL, 1, three);
  hl_set_operands(tuple, 3, three);
  hl_set_operands(tuple, 2, three + 1);
  check_comp(comp);
  hl_module_free(m);
}

// A random instruction of the computation that is none of the users of `of`, nor itself.
static HlInst *independent_of(HlComp *comp, HlRng *rng, HlInst *of) {
  bool *reached = test_calloc(comp->next_id, sizeof *reached);
  reached[of->id] = true;
  uint32_t n = 0;
  for (HlInst *inst = comp->first; inst; inst = inst->next) {
    for (uint32_t k = 0; k < inst->n_operands; k++)
      reached[inst->id] |= reached[inst->operands[k]->id];
    for (int k = 0; inst->control && k < inst->control->n_preds; k++)
      reached[inst->id] |= reached[inst->control->preds[k]->id];
    n += !reached[inst->id];
  }
  HlInst *found = comp->first;
  int64_t which = hl_rng_below(rng, n);
  for (HlInst *inst = comp->first; inst; inst = inst->next)
    if (!reached[inst->id] && which-- == 0)
      found = inst;
  test_free(reached);
  return found;
}

static HlInst *random_inst(HlComp *comp, HlRng *rng) {
  HlInst *inst;
  while (!(inst = comp->by_id[hl_rng_below(rng, comp->next_id)]))
    continue;
  return inst;
}

static void test_random_edits(void **state) {
  HlRng rng = {1};
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  HlInst *p = param(comp, 0, "p");
  for (int k = 0; k < 3000; k++) {
    HlInst *inst = random_inst(comp, &rng);
    switch (hl_rng_below(&rng, 6)) {
    case 0:
    case 1: op2(comp, HL_OP_ADD, NULL, inst, random_inst(comp, &rng)); break;
    case 2:
      if (inst->n_operands > 0)
        hl_set_operand(inst, (int)hl_rng_below(&rng, 2), independent_of(comp, &rng, inst));
      break;
    case 3:
      if (inst != p)
        hl_add_control(independent_of(comp, &rng, inst), inst);
      break;
    case 4:
      if (inst != p)
        hl_replace_uses(inst, independent_of(comp, &rng, inst));
      break;
    default:
      if (inst != p && !inst->first_use)
        hl_erase(inst);
      break;
    }
    check_comp(comp);
  }
  assert_true(comp->n_insts > 100);
  hl_module_free(m);
}

static void test_schedule(void **state) {
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  HlInst *p = param(comp, 0, "p"), *a = op1(comp, HL_OP_ABS, "a", p),
         *b = op1(comp, HL_OP_SIGN, "b", p);
  hl_set_schedule(comp, (HlInst *[]){p, b, a});
  m->is_scheduled = true;
  check_order(hl_print_order(m->arena, comp), 3, "p b a");
  op1(comp, HL_OP_NEGATE, "c", a);
  assert_null(comp->schedule);
  assert_false(m->is_scheduled);
  check_order(hl_print_order(m->arena, comp), 4, "p b a c");
  assert_ptr_equal(b->operands[0], p);
  hl_module_free(m);
}

static void test_params(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  param(comp, 1, "b");
  assert_false(hl_finish_params(cx, comp));
  param(comp, 0, "a");
  hl_cx_clear(cx);
  assert_true(hl_finish_params(cx, comp));
  assert_string_equal(comp->params[0]->name->text, "a");
  param(comp, INT64_MAX, "c");
  assert_int_equal(comp->n_params, 2);
  assert_false(hl_finish_params(cx, comp));
  HlComp *twice = comp_new(m, "twice");
  param(twice, 0, "d");
  param(twice, 0, "e");
  hl_cx_clear(cx);
  assert_false(hl_finish_params(cx, twice));
  assert_string_equal(hl_cx_diag(cx, 0)->text,
                      "parameter number 0 is taken already (instruction %e in computation %twice)");
  hl_module_free(m);
  hl_cx_free(cx);
}

static void test_attrs(void **state) {
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  HlInst *p = param(comp, 0, "p");
  HlInst *r = op1(comp, HL_OP_REDUCE, "r", p);
  int64_t dims[] = {0, 2};
  hl_set_ints(r, HL_A_DIMENSIONS, (HlI64s){dims, 2});
  hl_set_int(r, HL_A_BATCH_GROUP_COUNT, 7);
  hl_set_int(r, HL_A_IS_STABLE, 1);
  assert_int_equal(r->n_attrs, 3);
  assert_int_equal(hl_dims(r).at[1], 2);
  hl_set_int(r, HL_A_BATCH_GROUP_COUNT, 1);  // the default: nothing left
  assert_null(hl_attr(r, HL_A_BATCH_GROUP_COUNT));
  assert_int_equal(hl_attr_int(r, HL_A_FEATURE_GROUP_COUNT), 1);
  HlAttr several[] = {
      {.key = HL_A_IS_REVERSE, .i = 1}, {.key = HL_A_K, .i = 3}, {.key = HL_A_IS_STABLE, .i = 0}};
  hl_set_attrs(r, several, 3);
  assert_int_equal(r->n_attrs, 3);
  check_comp(comp);
  HlInst *s = op1(comp, HL_OP_REDUCE, "s", p);
  hl_copy_attrs(s, r);
  assert_int_equal(s->n_attrs, 3);
  assert_true(hl_attr_equal(hl_attr(r, HL_A_DIMENSIONS), hl_attr(s, HL_A_DIMENSIONS)));
  HlInst *compare = op2(comp, HL_OP_COMPARE, "c", p, p);
  assert_int_equal(hl_comparison_type(compare), HL_WORD_comparison_type_FLOAT);
  hl_module_free(m);
}

// --- Names ----------------------------------------------------------------------------------------

static void check_unique(const char *const *wish, const char *const *expected, int n) {
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  HlInst *inst[16];
  for (int k = 0; k < n; k++)
    inst[k] = param(comp, k, wish[k]);
  hl_unique_names(m);
  for (int k = 0; k < n; k++)
    assert_string_equal(inst[k]->name->text, expected[k]);
  hl_module_free(m);
}

static void test_unique_names(void **state) {
  check_unique((const char *[]){"r", "r", "r"}, (const char *[]){"r", "r.1", "r.2"}, 3);
  check_unique((const char *[]){"r.2", "r.2"}, (const char *[]){"r.2", "r.0"}, 2);
  check_unique((const char *[]){"r", "r.1", "r.2", "r"}, (const char *[]){"r", "r.1", "r.2", "r.3"},
               4);
  check_unique((const char *[]){"r.02", "x.", "x."}, (const char *[]){"r.2", "x.", "x..1"}, 3);
  check_unique((const char *[]){"z.99999999999999999999", "z.99999999999999999999"},
               (const char *[]){"z.99999999999999999999", "z.99999999999999999999.1"}, 2);
  check_unique((const char *[]){"a", "a.0", "b"}, (const char *[]){"a", "a.1", "b"}, 3);
  check_unique((const char *[]){"x.-5", "x.-5", "x.-0", "x", "x.-05"},
               (const char *[]){"x.-5", "x.0", "x.1", "x.2", "x.3"}, 5);
  check_unique((const char *[]){"s32", "__e", "__xla_f", "tuple"},
               (const char *[]){"s32_", "a_e", "__xla_f", "tuple"}, 4);
}

static void test_fresh_names(void **state) {
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  HlInst *p = param(comp, 0, "add");
  assert_string_equal(hl_fresh_name(m, "add")->text, "add.1");
  assert_string_equal(op2(comp, HL_OP_ADD, NULL, p, p)->name->text, "add.2");
  param(comp, 1, "add.3");
  assert_string_equal(op2(comp, HL_OP_ADD, NULL, p, p)->name->text, "add.4");
  assert_string_equal(hl_fresh_comp_name(m, "main")->text, "main.1");
  assert_string_equal(hl_fresh_comp_name(m, "2 x")->text, "a_x");
  hl_module_free(m);
}

// --- Orders ---------------------------------------------------------------------------------------

static void test_print_order(void **state) {
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  HlInst *p = param(comp, 0, "p"), *q = param(comp, 1, "q"), *unused = param(comp, 2, "unused");
  HlInst *b = op1(comp, HL_OP_ABS, "b", q), *a = op1(comp, HL_OP_ABS, "a", p);
  HlInst *dead = op1(comp, HL_OP_SIGN, "dead", b);
  HlInst *sum = op2(comp, HL_OP_ADD, "sum", a, b);
  hl_set_root(comp, sum);
  check_order(hl_print_order(m->arena, comp), comp->n_insts, "unused q b dead p a sum");
  hl_add_control(unused, sum);
  hl_add_control(dead, sum);
  check_order(hl_print_order(m->arena, comp), comp->n_insts, "unused q b dead p a sum");
  HlInst *first = op1(comp, HL_OP_COSINE, "first", p), *second = op1(comp, HL_OP_SINE, "second", p);
  HlInst *end = op2(comp, HL_OP_ADD, "end", first, second);
  HlInst *c1 = op1(comp, HL_OP_TAN, "c1", p), *c2 = op1(comp, HL_OP_TAN, "c2", p);
  hl_add_control(c1, end);
  hl_add_control(c2, end);
  check_order(hl_print_order(m->arena, comp), comp->n_insts,
              "unused q b dead p a sum c2 c1 first second end");
  check_comp(comp);
  hl_module_free(m);
}

static HlComp *leaf_comp(HlModule *m, const char *name) {
  HlComp *comp = comp_new(m, name);
  hl_set_root(comp, op1(comp, HL_OP_NEGATE, NULL, param(comp, 0, "x")));
  return comp;
}

static void call(HlComp *comp, HlOp op, int n, HlComp *const *called) {
  HlInst *inst = op1(comp, op, NULL, comp->first);
  hl_set_calls(inst, n, called);
  hl_set_root(comp, inst);
}

static void test_comp_order(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_module_new("m", NULL);
  HlComp *entry = comp_new(m, "entry"), *b = comp_new(m, "b");
  HlComp *c = leaf_comp(m, "c"), *d = leaf_comp(m, "d");
  param(entry, 0, "p");
  param(b, 0, "q");
  call(b, HL_OP_CALL, 1, &c);
  call(entry, HL_OP_CONDITIONAL, 3, (HlComp *[]){d, b, c});
  hl_comp_set_entry(entry);
  HlComp **order = hl_comp_order(m->arena, m);
  const char *expected[] = {"d", "c", "b", "entry"};
  for (int k = 0; k < 4; k++)
    assert_string_equal(order[k]->name->text, expected[k]);
  assert_true(hl_sort_comps(cx, m));
  assert_ptr_equal(m->last, entry);
  assert_ptr_equal(m->first, d);
  call(c, HL_OP_CALL, 1, &b);  // b and c call each other
  assert_false(hl_sort_comps(cx, m));
  assert_int_equal(hl_cx_n_errors(cx), 1);
  hl_set_calls(c->root, 0, NULL);
  hl_set_calls(entry->root, 2, (HlComp *[]){b, c});
  hl_comp_erase(d);
  assert_int_equal(m->n_comps, 3);
  hl_module_free(m);
  hl_cx_free(cx);
}

// --- Frames ---------------------------------------------------------------------------------------

static void set_frame(HlInst *inst, int32_t frame) {
  HlMetadata metadata = {.op_name = hl_sym(inst->comp->module, "n"), .stack_frame_id = frame};
  HlAttr attr = {.key = HL_A_METADATA, .ptr = hl_intern_metadata(inst->comp->module, &metadata)};
  hl_set_attr(inst, &attr);
}

static void test_frames(void **state) {
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  HlInst *p = param(comp, 0, "p"), *a = op1(comp, HL_OP_ABS, "a", p),
         *b = op1(comp, HL_OP_ABS, "b", a);
  HlInst *c = op1(comp, HL_OP_ABS, "c", b), *d = op1(comp, HL_OP_ABS, "d", c);
  const HlSym *files[] = {hl_sym(m, "unused.py"), hl_sym(m, "f.py")};
  const HlSym *functions[] = {hl_sym(m, "g"), hl_sym(m, "f")};
  HlFileLocation locations[] = {
      {1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2}, {2, 1, 3, 3, 3, 3}, {2, 2, 2, 2, 2, 2}};
  HlStackFrame frames[] = {{3, 2}, {2, 0}, {1, 0}, {4, 0}, {3, 6}, {3, 5}};
  m->frames = (HlFrames){files, functions, locations, frames, 2, 2, 4, 6};
  set_frame(a, 1);
  set_frame(b, 4);   // equal to frame 2
  set_frame(c, 5);   // a cycle
  set_frame(d, 99);  // nowhere
  hl_intern_frames(m);
  assert_int_equal(hl_metadata(a)->stack_frame_id, 2);
  assert_int_equal(hl_metadata(b)->stack_frame_id, 1);
  assert_int_equal(hl_metadata(c)->stack_frame_id, 0);
  assert_int_equal(hl_metadata(d)->stack_frame_id, 0);
  assert_ptr_equal(hl_metadata(c), hl_metadata(d));
  assert_int_equal(m->frames.n_frames, 2);
  assert_int_equal(m->frames.frames[1].parent_frame_id, 1);
  assert_int_equal(m->frames.n_file_names, 1);
  assert_string_equal(m->frames.function_names[0]->text, "f");
  hl_module_free(m);
}

// --- Clones and hashes ----------------------------------------------------------------------------

// A while loop with an add reducer, control edges, metadata and a constant.
static HlModule *sample(HlCx *cx, const char *prefix, bool swapped, double value) {
  HlModule *m = hl_module_new(prefix, NULL);
  HlComp *body = comp_new(m, "body"), *entry = comp_new(m, prefix);
  HlInst *x = param(body, 0, "x");
  hl_set_root(body, op2(body, HL_OP_ADD, NULL, x, x));
  HlComp *condition = comp_new(m, "condition");
  HlInst *y = param(condition, 0, "y");
  hl_set_root(condition, op2(condition, HL_OP_COMPARE, NULL, y, y));
  HlInst *p = param(entry, 0, "p");
  HlInst *first = op1(entry, swapped ? HL_OP_SINE : HL_OP_COSINE, swapped ? "u" : "v", p);
  HlInst *second = op1(entry, swapped ? HL_OP_COSINE : HL_OP_SINE, swapped ? "v" : "u", p);
  HlInst *sine = swapped ? first : second, *cosine = swapped ? second : first;
  HlLiteral *literal = hl_literal_new(cx, f32(m, 4));
  hl_literal_set_f64(literal, 2, value);
  HlInst *constant = hl_constant_new(entry, literal, hl_sym(m, "k"));
  hl_literal_unref(literal);
  HlInst *loop = op1(entry, HL_OP_WHILE, NULL, sine);
  hl_set_calls(loop, 2, (HlComp *[]){body, condition});
  HlInst *sum = op2(entry, HL_OP_ADD, NULL, loop, constant);
  HlInst *root = op2(entry, HL_OP_SUBTRACT, NULL, sum, cosine);
  hl_add_control(cosine, loop);
  set_frame(sum, 0);
  hl_set_root(entry, root);
  hl_comp_set_entry(entry);
  return m;
}

static void test_clone(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = sample(cx, "m", false, 1.5);
  HlInst *late = op1(m->entry, HL_OP_ABS, "late", m->entry->first);
  hl_set_operand(m->entry->root, 1, late);
  HlModule *copy = hl_clone(cx, m);
  assert_non_null(copy);
  for (HlComp *comp = copy->first; comp; comp = comp->next)
    check_comp(comp);
  assert_true(hl_graph_hash(m) == hl_graph_hash(copy));
  assert_true(hl_graph_equal(cx, m, copy));
  const HlInst *b = copy->entry->first;
  for (const HlInst *a = m->entry->first; a; a = a->next, b = b->next) {
    assert_string_equal(a->name->text, b->name->text);
    assert_ptr_not_equal(a->shape, b->shape);
    assert_true(hl_shape_equal(a->shape, b->shape));
    assert_int_equal(a->id, b->id);
  }
  hl_module_free(m);
  hl_set_operand(copy->entry->root, 1, copy->entry->first);
  hl_module_free(copy);
  hl_cx_free(cx);
}

// --- Going back -----------------------------------------------------------------------------------

typedef struct Image {
  HlBuf shown;
  uint64_t hash;
} Image;

static Image image_of(HlCx *cx, const HlModule *m) {
  Image image = {.hash = image_hash(m)};
  image_print(cx, m, &image.shown);
  return image;
}

static void check_is(HlCx *cx, const HlModule *m, Image *before) {
  Image now = image_of(cx, m);
  assert_int_equal(now.shown.n, before->shown.n);
  assert_memory_equal(now.shown.at, before->shown.at, now.shown.n);
  assert_true(now.hash == before->hash);
  hl_buf_free(&now.shown);
}

// One edit of each kind.
static void edit_all(HlCx *cx, HlModule *m) {
  HlComp *entry = m->entry;
  HlInst *root = entry->root, *sum = root->operands[0], *cosine = root->operands[1];
  HlInst *constant = sum->operands[1], *loop = sum->operands[0];
  HlLiteral *literal = hl_literal_new(cx, f32(m, 4));
  HlInst *other = hl_constant_new(entry, literal, NULL);
  hl_literal_unref(literal);
  hl_replace_uses(constant, other);
  hl_erase(constant);
  hl_remove_control(cosine, loop);
  hl_add_control(sum, cosine);
  hl_set_int(root, HL_A_DIMENSION, 7);
  hl_set_text(root, HL_A_CUSTOM_CALL_TARGET, "elsewhere");
  hl_remove_attr(root, HL_A_DIMENSION);
  hl_set_shape(root, f32(m, 1 << 20));
  hl_set_operand(root, 1, op1(entry, HL_OP_ABS, NULL, sum));
  hl_set_operands(sum, 1, &other);
  HlComp *body = hl_while_body(loop), *condition = hl_while_condition(loop);
  hl_set_calls(loop, 2, (HlComp *[]){condition, condition});
  hl_comp_erase(body);
  hl_comp_set_name(comp_new(m, "made"), hl_fresh_comp_name(m, "made"));
  for (int k = 0; k < 200; k++)
    param(m->last, k, hl_fresh_name(m, "p")->text);
  hl_set_root(m->last, m->last->first);
  HlInst **order = test_calloc(entry->n_insts, sizeof *order);
  size_t n = 0;
  for (HlInst *inst = entry->first; inst; inst = inst->next)
    order[n++] = inst;
  hl_set_schedule(entry, order);
  test_free(order);
  hl_set_scheduled(m, true);
  hl_set_devices(m, 2, 3);
  hl_unique_names(m);
  hl_journal(m, true);
  hl_set_name(root, hl_sym(m, "renamed"));
  hl_sort_comps(cx, m);
}

static void test_marks(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = sample(cx, "m", false, 1.5);
  hl_undo(m, hl_mark(m));
  Image before = image_of(cx, m);
  HlEditMark mark = hl_mark(m);
  edit_all(cx, m);
  hl_undo(m, mark);
  check_is(cx, m, &before);
  check_comp(m->entry);

  // One inside the other; the inner undone, then forgotten, then left to the outer.
  for (int how = 0; how < 3; how++) {
    mark = hl_mark(m);
    HlComp *made = comp_new(m, "between");
    HlInst *x = param(made, 0, "x");
    hl_set_root(made, x);
    Image between = image_of(cx, m);
    HlEditMark inner = hl_mark(m);
    hl_set_root(made, op1(made, HL_OP_ABS, NULL, x));
    edit_all(cx, m);
    if (how == 0) {
      hl_undo(m, inner);
      check_is(cx, m, &between);
    } else if (how == 1) {
      hl_forget(m, inner);
      hl_comp_erase(made);
    }
    hl_buf_free(&between.shown);
    hl_undo(m, mark);
    check_is(cx, m, &before);
  }

  mark = hl_mark(m);
  edit_all(cx, m);
  Image edited = image_of(cx, m);
  hl_forget(m, mark);
  edited.hash = image_hash(m);  // it is noted no more where it notes
  check_is(cx, m, &edited);
  hl_buf_free(&edited.shown);
  hl_buf_free(&before.shown);
  hl_module_free(m);
  m = sample(cx, "m", false, 1.5);
  hl_mark(m);
  edit_all(cx, m);
  hl_module_free(m);  // with a mark open
  hl_cx_free(cx);
}

static void test_drop_parameter(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = hl_module_new("m", NULL);
  HlComp *comp = comp_new(m, "main");
  hl_comp_set_entry(comp);
  HlInst *p[4] = {param(comp, 0, "a"), param(comp, 1, "b"), param(comp, 2, "c"),
                  param(comp, 3, "d")};
  hl_set_root(comp, p[3]);
  Image before = image_of(cx, m);
  const HlEditMark mark = hl_mark(m);
  hl_parameter_drop(p[1]);
  assert_int_equal(comp->n_params, 3);
  HlInst *const kept[] = {p[0], p[2], p[3]};
  for (int k = 0; k < 3; k++) {
    assert_ptr_equal(comp->params[k], kept[k]);
    assert_int_equal(hl_parameter_number(kept[k]), k);
  }
  hl_undo(m, mark);
  check_is(cx, m, &before);
  hl_set_root(comp, p[0]);
  hl_parameter_drop(p[3]);  // the last: nothing moves
  assert_int_equal(comp->n_params, 3);
  assert_ptr_equal(comp->params[2], p[2]);
  assert_true(hl_finish_params(cx, comp));
  hl_buf_free(&before.shown);
  hl_module_free(m);
  hl_cx_free(cx);
}

// A module that has given away all kinds of names and has them no more.
static HlModule *forgetful(HlCx *cx) {
  HlModule *m = sample(cx, "m", false, 1.5);
  const char *const wishes[] = {"abs.64", "abs.100007", "abs.-1", "abs.-70", "tanh.5", "b.9.c"};
  for (int k = 0; k < HL_COUNT_OF(wishes); k++)
    hl_fresh_name(m, wishes[k]);
  for (int k = 0; k < 100000; k++)
    hl_erase(op1(m->entry, HL_OP_ABS, NULL, m->entry->root));
  return m;
}

// Names that were given stay taken, in little memory.
static void test_compact_names(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *plain = forgetful(cx), *m = forgetful(cx);
  HlModule *clone = hl_clone(cx, m);
  assert_true(hl_compact(cx, m, NULL, NULL));
  assert_true(hl_module_bytes(m) <= hl_module_bytes(clone) + (64 << 10));
  const char *const wishes[] = {"abs.-1", "abs.-70", "abs.-71", "abs.100007", "abs.99", "abs.64",
                                "abs.1",  "tanh",    "tanh.5",  "tanh.4",     "b",      "b.9.c"};
  for (int round = 0; round < 10; round++) {
    for (int k = 0; k < HL_COUNT_OF(wishes); k++)
      assert_string_equal(hl_fresh_name(m, wishes[k])->text, hl_fresh_name(plain, wishes[k])->text);
    assert_true(hl_compact(cx, m, NULL, NULL));
  }
  hl_module_free(clone);
  hl_module_free(plain);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void test_compact(void **state) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlModule *m = sample(cx, "m", false, 1.5);
  HlInst *root = m->entry->root;
  for (int k = 0; k < 100000; k++)
    hl_erase(op1(m->entry, HL_OP_ABS, NULL, root));
  const uint32_t entry = m->entry->id, id = root->id;
  const uint64_t serial = root->serial, hash = hl_graph_hash(m);
  const char *next = "abs.100000";
  HlModule *clone = hl_clone(cx, m);
  HlMoved moved;
  assert_true(hl_compact(cx, m, arena, &moved));
  assert_true(hl_graph_hash(m) == hash);
  assert_ptr_equal(moved.comp[entry], m->entry);
  assert_ptr_equal(moved.inst[entry][id], m->entry->root);
  assert_int_equal(m->entry->root->serial, serial);
  assert_int_equal(m->entry->n_insts, m->entry->next_id);
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    assert_ptr_equal(comp->module, m);
    check_comp(comp);
  }
  assert_string_equal(hl_fresh_name(m, "abs")->text, next);  // names that were given stay taken
  assert_true(hl_arena_bytes(m->arena) <= hl_arena_bytes(clone->arena));
  hl_module_free(clone);
  hl_module_free(m);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

static void test_graph_hash(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *a = sample(cx, "a", false, 1.5), *b = sample(cx, "b", true, 1.5),
           *c = sample(cx, "c", false, 2.5);
  assert_true(hl_graph_hash(a) == hl_graph_hash(b));
  assert_true(hl_graph_equal(cx, a, b));
  assert_false(hl_graph_hash(a) == hl_graph_hash(c));
  assert_false(hl_graph_equal(cx, a, c));
  HlInst *compare = b->last->root;
  hl_set_int(compare, HL_A_COMPARISON_TYPE, HL_WORD_comparison_type_FLOAT);  // in force anyway
  assert_true(hl_graph_equal(cx, a, b));
  hl_set_int(compare, HL_A_COMPARISON_TYPE, HL_WORD_comparison_type_TOTALORDER);
  assert_false(hl_graph_equal(cx, a, b));
  hl_module_free(a);
  hl_module_free(b);
  hl_module_free(c);
  hl_cx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tables),         cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_buffer_bytes),   cmocka_unit_test(test_edit),
      cmocka_unit_test(test_random_edits),   cmocka_unit_test(test_schedule),
      cmocka_unit_test(test_params),         cmocka_unit_test(test_attrs),
      cmocka_unit_test(test_unique_names),   cmocka_unit_test(test_fresh_names),
      cmocka_unit_test(test_print_order),    cmocka_unit_test(test_comp_order),
      cmocka_unit_test(test_frames),         cmocka_unit_test(test_clone),
      cmocka_unit_test(test_marks),          cmocka_unit_test(test_compact),
      cmocka_unit_test(test_compact_names),  cmocka_unit_test(test_graph_hash),
      cmocka_unit_test(test_drop_parameter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
