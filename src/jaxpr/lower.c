// Lowers a jaxpr to HLO: walks its equations, finds the rule of each primitive, calls nested jaxprs.
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "base/number.h"
#include "jaxpr/lower.h"
#include "jaxpr/read.h"
#include "jaxpr/tidy.h"

// --- Literals ---------------------------------------------------------------------------------------------------------

static HlDtype literal_dtype(const Atom *atom, HlDtype hint) {
  switch (atom->kind) {
  case ATOM_BOOL: return HL_PRED;
  case ATOM_INT: return hl_dtype_kind(hint) != HL_KIND_NONE ? hint : HL_S32;
  case ATOM_COMPLEX: return hl_is_complex(hint) ? hint : HL_C64;
  default: return hl_is_float(hint) || hl_is_complex(hint) ? hint : HL_F32;
  }
}

static void set_scalar(HlLiteral *literal, const Atom *atom) {
  const HlDtype dtype = literal->shape->dtype;
  const bool fits = atom->re > -9e18 && atom->re < 9e18;  // false for nan
  if (hl_is_complex(dtype))
    hl_literal_set_complex(literal, 0, atom->re, atom->im);
  else if (hl_is_float(dtype))
    hl_literal_set_f64(literal, 0, atom->re);
  else if (atom->kind == ATOM_FLOAT || atom->kind == ATOM_COMPLEX)
    hl_literal_set_i64(literal, 0, fits ? (int64_t)atom->re : 0);
  else
    hl_literal_set_i64(literal, 0, atom->i);
}

static HlInst *literal_inst(Lower *lo, const Atom *atom, HlDtype hint) {
  HlShapes *shapes = lo->m->shapes;
  const HlShape *shape = atom->aval ? jx_aval_shape(lo, atom->aval, atom->loc)
                                    : hl_shape_scalar(shapes, literal_dtype(atom, hint));
  if (!shape)
    return NULL;
  HlBuild b = *lo->b;
  b.name = NULL;
  if (!hl_shape_is_array(shape)) {
    hl_error(lo->cx, jx_pos(lo, atom->loc), "a literal of type %s", jx_type_text(lo, shape));
    return NULL;
  }
  HlLiteral *literal;
  if (atom->kind == ATOM_ELIDED) {
    literal = hl_literal_new_elided(lo->cx, shape);
  } else {
    literal = hl_literal_new(lo->cx, hl_shape_scalar(shapes, shape->dtype));
    if (!literal)
      return NULL;
    set_scalar(literal, atom);
  }
  HlInst *inst = literal ? hl_b_constant(&b, literal) : NULL;
  hl_literal_unref(literal);
  if (inst && atom->kind != ATOM_ELIDED && shape->rank > 0)
    inst = hl_b_broadcast(&b, inst, shape->rank, shape->dim, (HlI64s){0});
  return inst;
}

// The element type of an untyped literal: that of an operand or result it can be mixed with.
static HlDtype literal_hint(const Lower *lo, const Eqn *eqn, const Atom *atom) {
  const bool want_int = atom->kind == ATOM_INT;
  for (int k = 0; k < eqn->in.n; k++) {
    const Atom *other = &eqn->in.at[k];
    HlInst *inst = other->kind == ATOM_VAR ? lo->frame->value[other->var] : NULL;
    HlDtype dtype = inst                                     ? inst->shape->dtype
                    : other->kind != ATOM_VAR && other->aval ? other->aval->dtype
                                                             : HL_NO_DTYPE;
    if (want_int ? hl_is_integral(dtype) : hl_is_float(dtype) || hl_is_complex(dtype))
      return dtype;
  }
  for (int k = 0; k < eqn->n_out; k++)
    if (eqn->out[k].aval) {
      HlDtype dtype = eqn->out[k].aval->dtype;
      if (want_int ? hl_is_integral(dtype) : hl_is_float(dtype) || hl_is_complex(dtype))
        return dtype;
    }
  return HL_NO_DTYPE;
}

// --- Equations --------------------------------------------------------------------------------------------------------

static const Row *find_row(Lower *lo, const Eqn *eqn) {
  const HlSym *sym = hl_syms_find(lo->names, eqn->prim.at, eqn->prim.n);
  if (sym)
    return lo->rows[sym->index];
  hl_error_kind(lo->cx, HL_UNSUPPORTED, jx_pos(lo, eqn->loc), "primitive '%.*s' is not supported",
                (int)eqn->prim.n, eqn->prim.at);
  const int n = (int)hl_syms_count(lo->names);
  const char **names = HL_ARRAY(lo->arena, const char *, n);
  for (int k = 0; k < n; k++)
    names[k] = lo->rows[k]->name;
  const char *near = hl_nearest(eqn->prim, names, n);
  if (near)
    hl_hint(lo->cx, "did you mean '%s'?", near);
  return NULL;
}

static const HlMetadata *metadata_of(Lower *lo, const Eqn *eqn, const char *op_name) {
  HlMetadata metadata = {.op_name = hl_sym(lo->m, op_name), .source_line = eqn->line};
  const char *file = hl_source_name(lo->tree->source);
  if (file)
    metadata.source_file = hl_sym(lo->m, file);
  return hl_intern_metadata(lo->m, &metadata);
}

void jx_name_after(Rule *r, const char *op_name) {
  Lower *lo = r->lo;
  const char *slash = strrchr(op_name, '/');
  HlStr name = hl_sanitise_name(lo->arena, hl_str(slash ? slash + 1 : op_name));
  r->b->metadata = metadata_of(lo, r->eqn, op_name);
  r->b->name = hl_arena_strndup(lo->arena, name.at, name.n);
}

static bool check_limits(Lower *lo, const Eqn *eqn) {
  if (++lo->n_lowered > hl_cx_limits(lo->cx)->instructions)
    return hl_error_kind(lo->cx, HL_LIMIT, jx_pos(lo, eqn->loc),
                         "more than %lld instructions (limit instructions)",
                         (long long)hl_cx_limits(lo->cx)->instructions);
  return true;
}

static bool read_inputs(Rule *r) {
  Lower *lo = r->lo;
  const Eqn *eqn = r->eqn;
  r->in = HL_ARRAY(lo->arena, HlInst *, eqn->in.n + 1);
  r->aval = HL_ARRAY(lo->arena, const Aval *, eqn->in.n + 1);
  r->n = eqn->in.n;
  for (int k = 0; k < eqn->in.n; k++) {
    const Atom *atom = &eqn->in.at[k];
    if (atom->kind == ATOM_VAR) {
      r->in[k] = lo->frame->value[atom->var];
      r->aval[k] = lo->frame->aval[atom->var];
    } else {
      r->in[k] = literal_inst(lo, atom, literal_hint(lo, eqn, atom));
      r->aval[k] = atom->aval;
    }
    if (!r->in[k])
      return false;
  }
  return true;
}

static bool bind_results(Rule *r) {
  Lower *lo = r->lo;
  const Eqn *eqn = r->eqn;
  if (r->out.n != eqn->n_out)
    return jx_fail(r, "%d results are bound, but it has %d", eqn->n_out, r->out.n);
  for (int k = 0; k < eqn->n_out; k++) {
    const Binder *b = &eqn->out[k];
    const HlShape *shape = jx_bound_shape(r, k);
    if (b->aval && !shape)
      return false;
    if (shape && !b->dropped && !hl_shape_compatible(shape, r->out.at[k]->shape))
      return jx_fail(r, "result %d is %s, but bound as %.*s", k,
                     jx_type_text(lo, r->out.at[k]->shape), (int)b->aval->text.n, b->aval->text.at);
    if (r->out.at[k]->shape->rank > MAX_RANK)
      return jx_fail(r, "result %d has more than %d dimensions", k, MAX_RANK);
    lo->frame->value[b->var] = r->out.at[k];
    lo->frame->aval[b->var] = b->aval;
  }
  return true;
}

static bool lower_eqn(Lower *lo, const Eqn *eqn) {
  const Row *row = find_row(lo, eqn);
  if (!row || !check_limits(lo, eqn))
    return false;
  HlBuild *b = lo->b;
  b->loc = eqn->loc;
  b->metadata = metadata_of(lo, eqn, jx_path_in(lo, "%s", row->name));
  b->name = row->name;
  HlMark mark = hl_arena_mark(hl_cx_scratch(lo->cx));
  Rule r = {.lo = lo, .eqn = eqn, .row = row, .b = b};
  const int64_t errors = hl_cx_n_errors(lo->cx);
  bool ok = read_inputs(&r) && row->fn(&r) && bind_results(&r);
  if (!ok && hl_cx_n_errors(lo->cx) == errors)
    jx_fail(&r, "could not be lowered");
  hl_arena_release(hl_cx_scratch(lo->cx), mark);
  return ok;
}

// --- Jaxprs ------------------------------------------------------------------------------------------------------------

static bool bind_arg(Lower *lo, const Binder *b, HlInst *arg) {
  if (b->aval && b->aval->kind == AVAL_REF)
    return hl_error_kind(lo->cx, HL_UNSUPPORTED, jx_pos(lo, b->loc),
                         "references as inputs (%.*s) are not supported", (int)b->aval->text.n,
                         b->aval->text.at);
  if (b->aval) {
    const HlShape *shape = jx_aval_shape(lo, b->aval, b->loc);
    if (!shape)
      return false;
    if (!hl_shape_compatible(shape, arg->shape))
      return hl_error(lo->cx, jx_pos(lo, b->loc), "the argument is %s, but the parameter %.*s",
                      jx_type_text(lo, arg->shape), (int)b->aval->text.n, b->aval->text.at);
  }
  lo->frame->value[b->var] = arg;
  lo->frame->aval[b->var] = b->aval;
  return true;
}

static bool check_call(Lower *lo, const Jaxpr *jaxpr, int n) {
  if (n != jaxpr->n_in)
    return hl_error(lo->cx, jx_pos(lo, jaxpr->loc), "the jaxpr has %d inputs, but is given %d",
                    jaxpr->n_in, n);
  if (lo->depth >= hl_cx_limits(lo->cx)->nesting)
    return hl_error_kind(lo->cx, HL_LIMIT, jx_pos(lo, jaxpr->loc),
                         "jaxprs call each other more than %d deep (limit nesting)",
                         hl_cx_limits(lo->cx)->nesting);
  return true;
}

static HlInst *const_inst(Lower *lo, int k);

// Constants of a nested jaxpr: as given, else values that are not known.
static bool nested_consts(Lower *lo, const Jaxpr *jaxpr, HlInst **out) {
  for (int k = 0; k < jaxpr->n_consts; k++)
    if (!(out[k] = const_inst(lo, jaxpr->first_const + k)))
      return false;
  return true;
}

// Lowers the equations with the arguments bound (constants first).
static bool lower_body(Lower *lo, const Jaxpr *jaxpr, HlInst *const *consts, HlInst *const *args,
                       HlInst **out) {
  Frame *outer = lo->frame;
  Frame frame = {.jaxpr = jaxpr,
                 .value = HL_ARRAY(lo->arena, HlInst *, jaxpr->n_vars + 1),
                 .aval = HL_ARRAY(lo->arena, const Aval *, jaxpr->n_vars + 1)};
  lo->frame = &frame;
  lo->depth++;
  bool ok = true;
  for (int k = 0; ok && k < jaxpr->n_consts; k++)
    ok = bind_arg(lo, &jaxpr->constvar[k], consts[k]);
  for (int k = 0; ok && k < jaxpr->n_in; k++)
    ok = bind_arg(lo, &jaxpr->in[k], args[k]);
  for (const Eqn *eqn = jaxpr->first; ok && eqn; eqn = eqn->next)
    ok = lower_eqn(lo, eqn);
  for (int k = 0; ok && k < jaxpr->n_out; k++) {
    const Atom *atom = &jaxpr->out[k];
    if (atom->kind != ATOM_VAR) {
      lo->b->loc = atom->loc;
      lo->b->metadata = NULL;
    }
    out[k] = atom->kind == ATOM_VAR ? frame.value[atom->var] : literal_inst(lo, atom, HL_NO_DTYPE);
    ok = out[k] != NULL;
  }
  lo->depth--;
  lo->frame = outer;
  return ok;
}

bool jx_lower_inline(Lower *lo, const Jaxpr *jaxpr, const char *path, int n, HlInst *const *args,
                     HlInst **out) {
  if (!check_call(lo, jaxpr, n))
    return false;
  const char *outer = lo->path;
  const HlBuild saved = *lo->b;
  HlInst **consts = HL_ARRAY(lo->arena, HlInst *, jaxpr->n_consts + 1);
  lo->path = path;
  bool ok = nested_consts(lo, jaxpr, consts) && lower_body(lo, jaxpr, consts, args, out);
  lo->path = outer;
  lo->b->loc = saved.loc;
  lo->b->metadata = saved.metadata;
  lo->b->name = saved.name;
  return ok;
}

HlBuild *jx_build_in(Lower *lo, HlBuild *nested) {
  HlBuild *outer = lo->b;
  lo->b = nested;
  return outer;
}

const char *jx_path_in(Lower *lo, const char *format, ...) {
  char text[768];
  va_list args;
  va_start(args, format);
  base_vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return strlen(lo->path) > 2048 ? lo->path : hl_arena_printf(lo->arena, "%s/%s", lo->path, text);
}

HlComp *jx_lower_comp(Lower *lo, const Jaxpr *jaxpr, const char *name, const char *path, int n,
                      const HlShape *const *shapes) {
  HlBuild nested = hl_b_nested(lo->b, name);
  HlInst **args = HL_ARRAY(lo->arena, HlInst *, n + 1),
         **out = HL_ARRAY(lo->arena, HlInst *, jaxpr->n_out + 1);
  nested.metadata = NULL;
  bool ok = true;
  for (int k = 0; ok && k < n; k++)
    ok = (args[k] = hl_b_parameter(&nested, shapes[k], NULL)) != NULL;
  HlBuild *outer = jx_build_in(lo, &nested);
  ok = ok && jx_lower_inline(lo, jaxpr, path, n, args, out);
  jx_build_in(lo, outer);
  nested.metadata = NULL;
  nested.name = NULL;
  HlInst *root = !ok ? NULL : jaxpr->n_out == 1 ? out[0] : hl_b_tuple(&nested, jaxpr->n_out, out);
  if (!root)
    return NULL;
  hl_set_root(nested.comp, root);
  return nested.comp;
}

// The functions made of a jaxpr, which its place in the text names: a list, for there is one for each
// types of arguments.
static Function **functions_of(Lower *lo, const Jaxpr *jaxpr) {
  const int index =
      (int)hl_syms_add(lo->called, (const char *)&jaxpr->loc, sizeof jaxpr->loc)->index;
  if (index == lo->functions.n)
    vec_push_in(lo->arena, &lo->functions, NULL);
  return &lo->functions.at[index];
}

HlComp *jx_find_function(const Function *list, int n, HlInst *const *args) {
  for (const Function *f = list; f; f = f->next) {
    if (f->comp->n_params != n)
      continue;
    bool same = true;
    for (int k = 0; same && k < n; k++)
      same = hl_shape_compatible(f->comp->params[k]->shape, args[k]->shape);
    if (same)
      return f->comp;
  }
  return NULL;
}

void jx_add_function(Lower *lo, Function **list, HlComp *comp) {
  Function *f = HL_NEW(lo->arena, Function);
  *f = (Function){.next = *list, .comp = comp};
  *list = f;
}

bool jx_lower_call(Rule *r, const Jaxpr *jaxpr, const char *name, const char *path, int n,
                   HlInst *const *args) {
  Lower *lo = r->lo;
  HlComp *comp = jx_find_function(*functions_of(lo, jaxpr), n, args);
  if (!comp) {
    const HlShape **shapes = HL_ARRAY(lo->arena, const HlShape *, n + 1);
    for (int k = 0; k < n; k++)
      shapes[k] = args[k]->shape;
    comp = jx_lower_comp(lo, jaxpr, name, path, n, shapes);
    if (!comp)
      return false;
    jx_add_function(lo, functions_of(lo, jaxpr), comp);
  }
  HlInst *call = hl_b_call(r->b, comp, n, args);
  if (jaxpr->n_out == 1)
    return jx_give(r, call);
  bool ok = call != NULL;
  for (int k = 0; ok && k < jaxpr->n_out; k++)
    ok = jx_give(r, hl_b_element(r->b, call, k));
  return ok;
}

// --- The module --------------------------------------------------------------------------------------------------------

static void add_rows(Lower *lo) {
  static const Row *const tables[] = {jx_elementwise_rows, jx_shape_rows,      jx_reduce_rows,
                                      jx_window_rows,      jx_sort_rows,       jx_control_rows,
                                      jx_gather_rows,      jx_dot_rows,        jx_random_rows,
                                      jx_linalg_rows,      jx_collective_rows, jx_reference_rows};
  int n = 0;
  for (int t = 0; t < HL_COUNT_OF(tables); t++)
    for (const Row *row = tables[t]; row->name; row++)
      n++;
  lo->called = hl_syms_new(lo->arena);
  lo->names = hl_syms_new(lo->arena);
  lo->rows = HL_ARRAY(lo->arena, const Row *, n);
  for (int t = 0; t < HL_COUNT_OF(tables); t++)
    for (const Row *row = tables[t]; row->name; row++)
      lo->rows[hl_syms_add(lo->names, row->name, strlen(row->name))->index] = row;
}

// What is left of a file's name as the program's: `dir/step.jaxpr` is step.
static const char *program_name(const Lower *lo) {
  const char *name = hl_source_name(lo->tree->source);
  if (!name || !*name || !strcmp(name, "-"))
    return "main";
  const char *slash = strrchr(name, '/');
  name = slash ? slash + 1 : name;
  size_t n = strcspn(name, ".");
  HlStr clean = hl_sanitise_name(lo->arena, (HlStr){name, n});
  return clean.n > 0 ? hl_arena_strndup(lo->arena, clean.at, clean.n) : "main";
}

static bool has_const(const Lower *lo, int k) {
  return k < lo->options->n_consts && lo->options->consts[k];
}

// Reports the constants that no value was given for.
static bool report_missing_consts(Lower *lo) {
  HlBuf text = {0};
  for (int k = 0; k < lo->tree->n_consts; k++) {
    if (has_const(lo, k))
      continue;
    const Aval *aval = lo->tree->consts[k]->aval;
    HlStr name = hl_jaxpr_const_name(lo->tree, k);
    hl_buf_printf(&text, "%s%.*s", text.n ? ", " : "", (int)name.n, name.at);
    if (aval)
      hl_buf_printf(&text, ":%.*s", (int)aval->text.n, aval->text.at);
    hl_buf_printf(&text, " (c%d)", k);
  }
  hl_error_kind(lo->cx, HL_UNSUPPORTED, jx_pos(lo, lo->tree->consts[0]->loc),
                "the jaxpr closes over constants whose values its text does not hold: %s", text.at);
  hl_hint(lo->cx, "give them with --args as arrays named c0, c1, ...");
  hl_buf_free(&text);
  return false;
}

static bool have_all_consts(const Lower *lo) {
  for (int k = 0; k < lo->tree->n_consts; k++)
    if (!has_const(lo, k))
      return false;
  return true;
}

static const HlShape *binder_shape(Lower *lo, const Binder *b, const HlShape *given,
                                   const char *what) {
  if (b->aval)
    return jx_aval_shape(lo, b->aval, b->loc);
  if (given)
    return hl_shape_with_default_layout(lo->m->shapes, hl_shape_intern(lo->m->shapes, given));
  hl_error_kind(lo->cx, HL_UNSUPPORTED, jx_pos(lo, b->loc),
                "the %s has no type: texts of this age do not hold the types of their inputs",
                what);
  hl_hint(lo->cx, "give their types with --arg-shapes");
  return NULL;
}

// A constant with the given value, converted to the printed type; without one, `{...}`.
static HlInst *const_inst(Lower *lo, int k) {
  const Binder *b = lo->tree->consts[k];
  const HlLiteral *value = has_const(lo, k) ? lo->options->consts[k] : NULL;
  const HlShape *shape = binder_shape(lo, b, value ? value->shape : NULL, "constant");
  if (!shape)
    return NULL;
  if (!value) {
    HlLiteral *unknown = hl_literal_new_elided(lo->cx, shape);
    HlInst *inst = unknown ? hl_b_constant(lo->b, unknown) : NULL;
    hl_literal_unref(unknown);
    return inst;
  }
  if (!hl_shape_same_dims(shape, value->shape)) {
    hl_error(lo->cx, jx_pos(lo, b->loc), "constant c%d is given as %s, expected %s", k,
             jx_type_text(lo, value->shape), jx_type_text(lo, shape));
    return NULL;
  }
  HlLiteral *literal = hl_literal_convert(lo->cx, value, shape->dtype);
  HlInst *inst = literal ? hl_b_constant(lo->b, literal) : NULL;
  hl_literal_unref(literal);
  return inst;
}

static const char *binder_name(const Lower *lo, const Binder *b) {
  const char *at = hl_source_bytes(lo->tree->source).at + b->loc - 1;
  return hl_arena_strndup(lo->arena, at, strcspn(at, ":;.* \n\t"));
}

static HlInst *input_inst(Lower *lo, const Binder *b, const HlShape *given, const char *what) {
  const HlShape *shape = binder_shape(lo, b, given, what);
  lo->b->loc = b->loc;
  const char *name = binder_name(lo, b);
  return shape ? hl_b_parameter(lo->b, shape, *name ? name : NULL) : NULL;
}

static bool lower_entry(Lower *lo) {
  const Jaxpr *top = lo->tree->top;
  const HlJaxprOptions *o = lo->options;
  HlInst **consts = HL_ARRAY(lo->arena, HlInst *, top->n_consts + 1);
  HlInst **args = HL_ARRAY(lo->arena, HlInst *, top->n_in + 1);
  HlInst **out = HL_ARRAY(lo->arena, HlInst *, top->n_out + 1);
  if (o->missing == HL_JAXPR_CONSTS_REQUIRED && !have_all_consts(lo))
    return report_missing_consts(lo);
  int n_open = 0, next = 0;
  for (int k = 0; k < top->n_consts; k++)
    n_open += !has_const(lo, k);
  const bool gives_consts = o->n_inputs == n_open + top->n_in;
  for (int k = 0; k < top->n_consts; k++) {
    if (has_const(lo, k))
      consts[k] = const_inst(lo, k);
    else
      consts[k] =
          input_inst(lo, &top->constvar[k], gives_consts ? o->inputs[next++] : NULL, "constant");
    if (!consts[k])
      return false;
  }
  for (int k = 0; k < top->n_in; k++, next++)
    if (!(args[k] =
              input_inst(lo, &top->in[k], next < o->n_inputs ? o->inputs[next] : NULL, "input")))
      return false;
  if (!lower_body(lo, top, consts, args, out))
    return false;
  lo->b->metadata = NULL;
  lo->b->name = NULL;
  lo->b->loc = top->loc;
  HlInst *root = top->n_out == 1 ? out[0] : hl_b_tuple(lo->b, top->n_out, out);
  if (!root)
    return false;
  hl_set_root(lo->b->comp, root);
  return true;
}

static bool lower_module(Lower *lo) {
  HlComp *entry = hl_comp_new(lo->m, "main", 4);
  HlBuild b = {.cx = lo->cx, .comp = entry};
  lo->b = &b;
  hl_comp_set_entry(entry);
  hl_comp_set_loc(entry, lo->tree->top->loc);
  if (!lower_entry(lo) || !hl_sort_comps(lo->cx, lo->m))
    return false;
  jx_tidy(lo->cx, lo->m);
  hl_unique_names(lo->m);
  hl_complete_entry_layout(lo->m);
  return true;
}

HlModule *hl_jaxpr_to_hlo(HlCx *cx, const HlJaxpr *jaxpr, const HlJaxprOptions *options) {
  static const HlJaxprOptions none = {0};
  Lower lo = {
      .cx = cx, .tree = jaxpr, .options = options ? options : &none, .arena = hl_arena_new()};
  add_rows(&lo);
  const char *name = program_name(&lo);
  lo.path = hl_arena_printf(lo.arena, "jit(%s)", name);
  lo.m = hl_module_new(hl_arena_printf(lo.arena, "jit_%s", name), jaxpr->source);
  bool ok = lower_module(&lo);
  hl_arena_free(lo.arena);
  if (ok)
    return lo.m;
  hl_module_free(lo.m);
  return NULL;
}

HlModule *hl_jaxpr_read(HlCx *cx, HlSource *source, const HlJaxprOptions *options) {
  HlJaxpr *jaxpr = hl_jaxpr_parse(cx, source);
  HlModule *m = jaxpr ? hl_jaxpr_to_hlo(cx, jaxpr, options) : NULL;
  hl_jaxpr_free(jaxpr);
  return m;
}
