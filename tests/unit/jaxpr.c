// jaxprs: the listing of equations, constants, inputs without types, places of instructions.

#include "hilo/jaxpr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "hilo/eval.h"
#include "hilo/verify.h"

static const char nested[] = "let g = { lambda ; a:f32[2]. let b:f32[2] = sin a in (b,) } in\n"
                             "{ lambda c:f32[2]; d:f32[2]. let\n"
                             "    e:f32[2] = mul c d\n"
                             "    f:f32[2] = jit[name=g jaxpr=g] e\n"
                             "    h:f32[2] = jit[\n"
                             "      name=k\n"
                             "      jaxpr={ lambda i:f32[2]; j:f32[2]. let\n"
                             "          l:f32[2] = add i j\n"
                             "        in (l,) }\n"
                             "    ] f\n"
                             "  in (h,) }\n";

static HlSource *source_of(const char *text) {
  return hl_source_new("dir/step.jaxpr", text, strlen(text), false);
}

static HlModule *read_text(HlCx *cx, const char *text, const HlJaxprOptions *options) {
  HlSource *source = source_of(text);
  HlModule *m = hl_jaxpr_read(cx, source, options);
  hl_source_unref(source);
  assert_int_equal(m == NULL, hl_cx_n_errors(cx) > 0);
  return m;
}

static HlLiteral *vector(HlCx *cx, double first, double second) {
  HlArena *arena = hl_arena_new();
  const int64_t dim = 2;
  HlLiteral *literal = hl_literal_new(cx, hl_shape_array(hl_shapes_new(arena), HL_F32, 1, &dim));
  hl_literal_set_f64(literal, 0, first);
  hl_literal_set_f64(literal, 1, second);
  hl_arena_free(arena);
  return literal;
}

static void equations_are_listed(void **state) {
  static const struct {
    const char *primitive, *end;
    int depth, line;
  } expected[] = {
      {"sin", "sin a", 1, 1}, {"mul", "mul c d", 0, 3}, {"jit", "] e", 0, 4},
      {"jit", "] f", 0, 5},   {"add", "add i j", 1, 8},
  };
  HlCx *cx = hl_cx_new();
  HlSource *source = source_of(nested);
  HlJaxpr *jaxpr = hl_jaxpr_parse(cx, source);
  assert_non_null(jaxpr);
  assert_int_equal(hl_jaxpr_n_equations(jaxpr), HL_COUNT_OF(expected));
  for (int k = 0; k < HL_COUNT_OF(expected); k++) {
    HlJaxprEquation e = hl_jaxpr_equation(jaxpr, k);
    const size_t n = strlen(expected[k].end);
    assert_true(hl_str_is(e.primitive, expected[k].primitive));
    assert_int_equal(e.depth, expected[k].depth);
    assert_int_equal(e.line, expected[k].line);
    assert_int_equal(e.line, hl_source_line_col(source, e.loc).line);
    assert_ptr_equal(e.text.at, hl_source_bytes(source).at + e.loc - 1);
    assert_memory_equal(e.text.at + e.text.n - n, expected[k].end, n);
  }
  hl_jaxpr_free(jaxpr);
  hl_source_unref(source);
  hl_cx_free(cx);
}

static void constants_are_numbered(void **state) {
  HlCx *cx = hl_cx_new();
  HlSource *source = source_of(nested);
  HlJaxpr *jaxpr = hl_jaxpr_parse(cx, source);
  assert_int_equal(hl_jaxpr_n_consts(jaxpr), 2);
  assert_true(hl_str_is(hl_jaxpr_const_name(jaxpr, 0), "c"));
  assert_true(hl_str_is(hl_jaxpr_const_name(jaxpr, 1), "i"));
  assert_int_equal(hl_jaxpr_const_shape(jaxpr, 1)->dim[0], 2);
  hl_jaxpr_free(jaxpr);
  hl_source_unref(source);
  hl_cx_free(cx);
}

static void constants_are_filled_in(void **state) {
  HlCx *cx = hl_cx_new();
  HlLiteral *c = vector(cx, 0, 1), *i = vector(cx, 5, 6), *d = vector(cx, 1, 0), *result;
  const HlLiteral *consts[] = {c, i}, *arg[] = {d}, *const * args[] = {arg};
  HlModule *m = read_text(cx, nested, &(HlJaxprOptions){.consts = consts, .n_consts = 2});
  assert_true(hl_verify(cx, m, NULL));
  assert_int_equal(m->entry->n_params, 1);
  assert_true(hl_eval(cx, m, NULL, args, &result));
  assert_float_equal(hl_literal_f64(result, 0), 5, 0);
  assert_float_equal(hl_literal_f64(result, 1), 6, 0);
  HlLiteral *all[] = {c, i, d, result};
  for (int k = 0; k < HL_COUNT_OF(all); k++)
    hl_literal_unref(all[k]);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void missing_constants_are_named(void **state) {
  HlCx *cx = hl_cx_new();
  assert_null(read_text(cx, nested, NULL));
  assert_int_equal(hl_cx_error_kind(cx), HL_UNSUPPORTED);
  assert_non_null(strstr(hl_cx_diag(cx, 0)->text, "c:f32[2] (c0), i:f32[2] (c1)"));
  hl_cx_clear(cx);
  HlModule *m = read_text(cx, nested, &(HlJaxprOptions){.missing = HL_JAXPR_CONSTS_PARAMETERS});
  assert_int_equal(m->entry->n_params, 2);
  assert_true(hl_verify(cx, m, NULL));
  hl_module_free(m);
  hl_cx_free(cx);
}

static void inputs_can_be_given_types(void **state) {
  static const char text[] =
      "{ lambda  ; a b.\n  let c = mul a b\n      d = add c 1.0\n  in (d,) }";
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlShapes *shapes = hl_shapes_new(arena);
  const int64_t dim = 3;
  const HlShape *inputs[] = {hl_shape_array(shapes, HL_F32, 1, &dim),
                             hl_shape_scalar(shapes, HL_F32)};
  assert_null(read_text(cx, text, NULL));
  hl_cx_clear(cx);
  HlModule *m = read_text(cx, text, &(HlJaxprOptions){.inputs = inputs, .n_inputs = 2});
  assert_true(hl_verify(cx, m, NULL));
  assert_true(hl_shape_compatible(m->entry->root->shape, inputs[0]));
  hl_module_free(m);
  hl_arena_free(arena);
  hl_cx_free(cx);
}

// Instructions stand where their equation does and say so in their metadata.
static void instructions_have_places(void **state) {
  HlCx *cx = hl_cx_new();
  HlModule *m = read_text(cx, nested, &(HlJaxprOptions){.missing = HL_JAXPR_CONSTS_PARAMETERS});
  int found = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      const HlMetadata *metadata = hl_metadata(inst);
      if (inst->op == HL_OP_PARAMETER || !metadata)
        continue;
      assert_int_equal(metadata->source_line, hl_source_line_col(m->source, inst->loc).line);
      assert_string_equal(metadata->source_file->text, "dir/step.jaxpr");
      found += inst->op == HL_OP_SINE && !strcmp(metadata->op_name->text, "jit(step)/jit(g)/sin");
    }
  assert_int_equal(found, 1);
  hl_module_free(m);
  hl_cx_free(cx);
}

static void forms_are_told_apart(void **state) {
  assert_true(hl_jaxpr_sniff(hl_str("{ lambda ; a. let  in (a,) }")));
  assert_true(hl_jaxpr_sniff(hl_str("# a note\n\n let f = { lambda ; a. let  in (a,) } in")));
  assert_false(hl_jaxpr_sniff(hl_str("{ lambdas }")));
  assert_false(hl_jaxpr_sniff(hl_str("letter = {")));
  assert_false(hl_jaxpr_sniff(hl_str("HloModule m")));
  assert_false(hl_jaxpr_sniff(hl_str("")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equations_are_listed),      cmocka_unit_test(constants_are_numbered),
      cmocka_unit_test(constants_are_filled_in),   cmocka_unit_test(missing_constants_are_named),
      cmocka_unit_test(inputs_can_be_given_types), cmocka_unit_test(instructions_have_places),
      cmocka_unit_test(forms_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
