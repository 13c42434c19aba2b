// Checks and the interpreter's own ops, as custom calls whose parameters stand in backend_config as MLIR text.
#include <string.h>

#include "hilo/custom_calls.h"
#include "mlir/to_hlo/to_hlo.h"

// A call with no results, or one.
static HlInst *make_call(MlLower *l, HlBuild *b, const char *target, const HlShape *shape, int n,
                         HlInst *const *in, const char *config, int n_comps, HlComp *const *comps) {
  HlAttr attrs[] = {{.key = HL_A_CUSTOM_CALL_TARGET, .sym = hl_sym(l->m, target)},
                    {.key = HL_A_HAS_SIDE_EFFECT, .i = 1},
                    {.key = HL_A_BACKEND_CONFIG, .sym = config ? hl_sym(l->m, config) : NULL}};
  return hl_b_op(b, HL_OP_CUSTOM_CALL, shape, n, in, config ? 3 : 2, attrs, n_comps, comps);
}

static const HlShape *no_result(MlLower *l) {
  return hl_shape_tuple(l->m->shapes, 0, NULL);
}

static const char *finish(MlLower *l, HlBuf *text) {
  const char *kept = hl_arena_strndup(l->arena, text->at, text->n);
  hl_buf_free(text);
  return kept;
}

static void add_item(HlBuf *text, MlName name, const HlMlAttr *value) {
  hl_buf_puts(text, text->n == 0 ? "{" : ", ");
  hl_buf_printf(text, "%s = ", ml_name_text[name]);
  hl_ml_attr_print(text, value);
}

// --- Checks -----------------------------------------------------------------------------------------------

// Defaults of the two forms: the dialect's own, and calls of @check.NAME.
typedef struct Defaults {
  double tolerance;
  int64_t max_ulp;
} Defaults;

static void add_int(MlLower *l, HlBuf *text, const HlMlAttr *from, MlName name, int width,
                    int64_t value) {
  const HlMlAttr *given = from ? ml_field(from, name) : NULL;
  int64_t v = given && given->kind == HL_ML_A_INT ? given->i : value;
  add_item(text, name, hl_ml_int(l->tree, hl_ml_int_type(l->tree, width, HL_ML_SIGNLESS), v));
}

// The parameters of a check, every one spelt out; NULL when it takes none.
static const char *parameters(MlLower *l, HlCallTarget check, const HlMlAttr *given,
                              Defaults defaults) {
  HlBuf text = {0};
  if (check == HL_CALL_EXPECT_ALMOST_EQ) {
    const HlMlAttr *tolerance = given ? ml_field(given, ML_A_TOLERANCE) : NULL;
    double value =
        tolerance && tolerance->kind == HL_ML_A_FLOAT ? tolerance->f : defaults.tolerance;
    add_item(&text, ML_A_TOLERANCE, hl_ml_float(l->tree, hl_ml_float_type(l->tree, "f64"), value));
  } else if (check == HL_CALL_EXPECT_CLOSE) {
    add_int(l, &text, given, ML_A_MAX_ULP_DIFFERENCE, 64, defaults.max_ulp);
    add_int(l, &text, given, ML_A_MIN_ULP_DIFFERENCE, 64, 0);
  } else if (check == HL_CALL_EXPECT_SERIALIZED_EQ) {
    const HlMlAttr *id = given ? ml_field(given, ML_A_PROBE_ID) : NULL;
    add_item(&text, ML_A_PROBE_ID,
             id && id->kind == HL_ML_A_STRING ? id : hl_ml_string(l->tree, "", 0));
    add_int(l, &text, given, ML_A_ITERATION, 32, 0);
  } else {
    return NULL;
  }
  hl_buf_putc(&text, '}');
  return finish(l, &text);
}

// `check`: the call's name, perhaps with the ending "_const".
static bool lower_check(MlLower *l, HlBuild *b, const HlMlOp *op, const char *check,
                        const HlMlAttr *given, Defaults defaults) {
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  if (!in)
    return false;
  const HlMlAttr *value = ml_attr(op, ML_A_VALUE);
  int n = (int)op->n_operands;
  char *target = hl_arena_strndup(l->arena, check, strlen(check));
  char *ending = strstr(target, "_const");
  if (ending && value) {
    *ending = 0;
    HlLiteral *literal = hl_ml_literal(l->cx, hl_ml_pos(l->tree, op), value);
    HlInst **more = HL_ARRAY(l->arena, HlInst *, n + 1);
    for (int k = 0; k < n; k++)
      more[k] = in[k];
    HlBuild bare = ml_bare(b);
    more[n++] = literal ? hl_b_constant(&bare, literal) : NULL;
    hl_literal_unref(literal);
    in = more;
  }
  const char *config = parameters(l, hl_call_named(target), given, defaults);
  HlInst *call = make_call(l, b, target, no_result(l), n, in, config, 0, NULL);
  return call && ml_set_results(l, b, op, call);
}

bool ml_lower_check(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlAttr *given = hl_ml_dict(l->tree, (int)op->n_attrs, op->attrs);
  return lower_check(l, b, op, op->name->text, given, (Defaults){1e-4, 1});
}

bool ml_lower_check_call(MlLower *l, HlBuild *b, const HlMlOp *op, bool *is) {
  const HlSym *target = ml_attr_sym(op, ML_A_CALL_TARGET_NAME);
  *is = target && hl_call_info[hl_call_named(target->text)].traits & HL_CALL_CHECKS;
  if (!*is)
    return true;
  const HlMlAttr *given = ml_attr(op, ML_A_MHLO_BACKEND_CONFIG),
                 *config = ml_attr(op, ML_A_BACKEND_CONFIG);
  if (!given && config && config->kind == HL_ML_A_DICT)
    given = config;
  if (!given)
    given = hl_ml_dict(l->tree, (int)op->n_attrs, op->attrs);
  return lower_check(l, b, op, target->text, given, (Defaults){1e-3, 3});
}

// --- The interpreter --------------------------------------------------------------------------------------------

bool ml_lower_probe(MlLower *l, HlBuild *b, const HlMlOp *op) {
  HlInst *x = ml_in(l, b, op, 0);
  if (!x)
    return false;
  const HlMlAttr *id = ml_attr(op, ML_A_PROBE_ID);
  HlBuf text = {0};
  const char *config = NULL;
  if (id) {
    add_item(&text, ML_A_PROBE_ID, id);
    hl_buf_putc(&text, '}');
    config = finish(l, &text);
  }
  bool prints = op->row != ML_INTERPRETER_PROBE;
  HlInst *call = make_call(l, b, hl_call_info[prints ? HL_CALL_PRINT : HL_CALL_PROBE].name,
                           prints ? no_result(l) : x->shape, 1, &x, config, 0, NULL);
  return call && (op->n_results == 0 || ml_set_results(l, b, op, call));
}

static bool add_program(MlLower *l, HlBuild *b, const HlMlOp *op, const HlMlAttr *symbol,
                        HlComp **comps, int *n) {
  if (symbol->kind != HL_ML_A_SYMBOL)
    return ml_bad(l, op, "programs are named by symbols");
  return (comps[(*n)++] = ml_lower_func(l, b, op, symbol->sym)) != NULL;
}

bool ml_lower_run_parallel(MlLower *l, HlBuild *b, const HlMlOp *op) {
  const HlMlAttr *programs = ml_attr(op, ML_A_PROGRAMS), *infeed = ml_attr(op, ML_A_INFEED);
  if (!programs || programs->kind != HL_ML_A_ARRAY || programs->n == 0 ||
      programs->list[0]->kind != HL_ML_A_ARRAY)
    return ml_bad(l, op, "programs is a list of lists of functions");
  int partitions = programs->list[0]->n,
      n_infeed = infeed && infeed->kind == HL_ML_A_ARRAY ? infeed->n : 0, n = 0;
  HlComp **comps =
      HL_ARRAY(l->arena, HlComp *, (size_t)programs->n * (size_t)partitions + (size_t)n_infeed + 1);
  for (int r = 0; r < programs->n; r++) {
    const HlMlAttr *row = programs->list[r];
    if (row->kind != HL_ML_A_ARRAY || row->n != partitions)
      return ml_bad(l, op, "every replica has %d programs", partitions);
    for (int p = 0; p < partitions; p++)
      if (!add_program(l, b, op, row->list[p], comps, &n))
        return false;
  }
  for (int k = 0; k < n_infeed; k++)
    if (!add_program(l, b, op, infeed->list[k], comps, &n))
      return false;
  HlInst **in = ml_ins(l, b, op, 0, op->n_operands);
  const HlShape **shape = HL_ARRAY(l->arena, const HlShape *, op->n_results + 1);
  for (uint32_t k = 0; k < op->n_results; k++)
    if (!(shape[k] = ml_shape(l, op, op->results[k].type)))
      return false;
  const char *config =
      hl_arena_printf(l->arena, "{replicas = %d : i64, partitions = %d : i64, infeed = %d : i64}",
                      programs->n, partitions, n_infeed);
  const HlShape *tuple = hl_shape_tuple(l->m->shapes, (int)op->n_results, shape);
  HlInst *call = in ? make_call(l, b, hl_call_info[HL_CALL_RUN_PARALLEL].name, tuple,
                                (int)op->n_operands, in, config, n, comps)
                    : NULL;
  for (uint32_t k = 0; call && k < op->n_results; k++)
    if (!ml_set(l, &op->results[k], hl_b_element(b, call, (int)k)))
      return false;
  return call != NULL;
}
