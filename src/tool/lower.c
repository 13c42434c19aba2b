// Makes modules of the forms that are no HLO: MLIR trees and jaxprs.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hilo/jaxpr.h"
#include "hilo/npy.h"
#include "hilo/session.h"
#include "hilo/target.h"
#include "hilo/text.h"
#include "tool/load.h"

static bool add_module(HlFile *file, HlModule *m) {
  if (!m)
    return false;
  file->modules = base_realloc(file->modules, ((size_t)file->n + 1) * sizeof *file->modules);
  file->modules[file->n++] = m;
  return true;
}

// --- Types given on the command line ----------------------------------------------------------------

// Copies "f32[2,3],s64[]=4" without what follows `=`, which goes to value[k] of the k-th shape.
static char *split_values(HlArena *arena, const char *text, bool **has, int64_t **value) {
  const size_t n = strlen(text);
  char *shapes = hl_arena_alloc(arena, n + 1), *to = shapes;
  *has = HL_ARRAY(arena, bool, n + 1);
  *value = HL_ARRAY(arena, int64_t, n + 1);
  int depth = 0, k = 0;
  for (const char *at = text; *at;) {
    if (*at == '=' && depth == 0) {
      char *end;
      (*value)[k] = strtoll(at + 1, &end, 10);
      (*has)[k] = end > at + 1;
      at = end > at + 1 ? end : at + 1;
      continue;
    }
    depth += (strchr("([{", *at) != NULL) - (strchr(")]}", *at) != NULL);
    k += *at == ',' && depth == 0;
    *to++ = *at++;
  }
  return shapes;
}

// The shapes of "f32[2,3],s32[]", read as the parameter of a module of which they are the only content. `given` is the
// whole of what the user gave.
static HlModule *parse_shapes(HlCx *cx, const char *text, const char *given) {
  HlBuf program = {0};
  hl_buf_printf(&program, "HloModule shapes\nENTRY e {\n  ROOT p = (%s) parameter(0)\n}\n", text);
  const int before = hl_cx_n_diags(cx);
  HlModule *m = hl_text_parse(cx, program.at);
  hl_buf_free(&program);
  if (!m) {
    hl_cx_forget(cx, before);
    hl_error(cx, (HlPos){0}, "these are no shapes: '%s'; expected a list like f32[2,3],s64[]=4",
             given);
  }
  return m;
}

// --- MLIR ---------------------------------------------------------------------------------------------

// The arrays PREFIX0, PREFIX1, ... of the file, in the arena; *n of them.
static const HlLiteral **numbered(HlArena *arena, const HlNpz *npz, const char *prefix, int *n) {
  const HlLiteral **out = HL_ARRAY(arena, const HlLiteral *, npz->n + 1);
  const HlLiteral *value;
  for (*n = 0;
       *n < npz->n && (value = hl_npz_find(npz, hl_arena_printf(arena, "%s%d", prefix, *n))); ++*n)
    out[*n] = value;
  return out;
}

// Of all arguments of an exported function those that its module takes.
static int keep_args(const HlExported *exported, int n, const HlLiteral **args) {
  if (!exported || n != exported->n_in)
    return n;
  int n_kept = 0;
  for (int k = 0; k < n; k++)
    if (exported->in[k].is_kept)
      args[n_kept++] = args[k];
  return n_kept;
}

// An array's type with the program's own elements; small integers of no dimension are sizes, perhaps.
static HlMlArg arg_of(HlMlTree *tree, const HlMlType *own, const HlLiteral *value) {
  const HlShape *shape = value->shape;
  HlMlArg arg = {.type =
                     hl_ml_tensor_type(tree, shape->rank, shape->dim, hl_ml_element(own), NULL)};
  arg.has_value =
      shape->rank == 0 && hl_is_integral(shape->dtype) && hl_is_integral(hl_ml_dtype(own));
  if (arg.has_value)
    arg.value = hl_literal_i64(value, 0);
  return arg;
}

// The types of a dynamic program's arguments are those of the arrays given for them.
static bool refine_by_args(HlCx *cx, const HlLoadOptions *options, const HlExported *exported,
                           HlMlTree *tree, const HlSym *entry) {
  const HlMlOp *func = hl_ml_find_symbol(tree, entry);
  const HlMlBlock *body = func ? hl_ml_body(func, 0) : NULL;
  HlNpz npz = {0};
  if (!hl_npz_load(cx, options->args, &npz))
    return false;
  int n;
  const HlLiteral **value = numbered(tree->arena, &npz, "a", &n);
  n = keep_args(exported, n, value);
  HlMlArg *args = HL_ARRAY(tree->arena, HlMlArg, n + 1);
  for (int k = 0; k < n; k++)
    args[k] = k < body->n_args && hl_ml_is_tensor(body->args[k]->type)
                  ? arg_of(tree, body->args[k]->type, value[k])
                  : (HlMlArg){.type = hl_ml_shape_type(tree, value[k]->shape)};
  const bool ok = hl_ml_refine(cx, tree, entry, n, n > 0 ? args : NULL);
  hl_npz_free(&npz);
  return ok;
}

static bool refine(HlCx *cx, const HlLoadOptions *options, const HlExported *exported,
                   HlMlTree *tree, const HlSym *entry) {
  bool *has;
  int64_t *value;
  if (!options->arg_shapes && options->args)
    return refine_by_args(cx, options, exported, tree, entry);
  if (!options->arg_shapes)
    return hl_ml_refine(cx, tree, entry, 0, NULL);
  const char *types = split_values(tree->arena, options->arg_shapes, &has, &value);
  HlModule *shapes = parse_shapes(cx, types, options->arg_shapes);
  if (!shapes)
    return false;
  const HlShape *tuple = shapes->entry->root->shape;
  HlMlArg *args = HL_ARRAY(tree->arena, HlMlArg, tuple->rank + 1);
  for (int k = 0; k < tuple->rank; k++)
    args[k] = (HlMlArg){hl_ml_shape_type(tree, tuple->element[k]), has[k], value[k]};
  bool ok = hl_ml_refine(cx, tree, entry, tuple->rank, args);
  hl_module_free(shapes);
  return ok;
}

// The name of --entry without its @.
static const char *entry_name(const HlLoadOptions *options) {
  return options->entry && options->entry[0] == '@' ? options->entry + 1 : options->entry;
}

// The function of that name in a section; NULL: none.
static const HlSym *find_entry(const HlMlTree *tree, const char *name) {
  const HlSym *sym = hl_syms_find(tree->syms, name, strlen(name));
  return sym && hl_ml_find_symbol(tree, sym) ? sym : NULL;
}

static bool no_entry(HlCx *cx, const HlLoadOptions *options, const HlFile *file) {
  const HlPos pos = {file->trees[0]->source, 0};
  if (!options->entry)
    return hl_error(
        cx, pos,
        "no function to run: there is no @main and none without parameters; name one with --entry");
  enum { MOST = 256 };
  const char *names[MOST];
  int n = 0;
  for (int k = 0; k < file->n_trees; k++)
    for (const HlMlOp *op = hl_ml_body(file->trees[k]->module, 0)->first; op && n < MOST;
         op = op->next)
      if (hl_ml_is_function(op))
        names[n++] = hl_ml_symbol_name(op)->text;
  const char *near = hl_nearest(hl_str(entry_name(options)), names, n);
  hl_error(cx, pos, "there is no function @%s", entry_name(options));
  if (near)
    hl_hint(cx, "did you mean '%s'?", near);
  return false;
}

// The trees of a file read again, of which the k-th is taken.
static HlMlTree *read_again(HlCx *cx, const HlMlTree *like, int k) {
  HlMlTree **trees = NULL, *tree = NULL;
  int n = 0;
  if (!load_trees(cx, like->source, &trees, &n))
    return NULL;
  for (int i = 0; i < n; i++) {
    if (i == k)
      tree = trees[i];
    else
      hl_ml_free(trees[i]);
  }
  base_free(trees);
  return tree;
}

// How src/mlir reads the texts of mhlo.sharding; a function pointer's bytes, as it is no object pointer.
static void register_readers(HlCx *cx) {
  bool (*const read)(HlCx *, HlModule *, HlPos, HlStr, const HlSharding **) = hl_text_sharding;
  void *value;
  _Static_assert(sizeof value == sizeof read, "code and data pointers must have one size");
  memcpy(&value, &read, sizeof value);
  hl_cx_register(cx, "sharding:parse", value);
}

// The number of the platform to run for: a CPU's, if it is among them.
static int64_t platform_of(const HlExported *exported) {
  for (int k = 0; exported && k < exported->n_platforms; k++) {
    const HlPlatform *platform = hl_platform_find(exported->platforms[k]);
    const HlTarget *target = platform ? hl_target_find(platform->target) : NULL;
    if (target && target->kind == HL_TARGET_CPU)
      return k;
  }
  return 0;
}

// One module for each function that the section runs.
static bool lower_section(HlCx *cx, const HlLoadOptions *options, int section, HlFile *file) {
  HlMlTree *tree = file->trees[section];
  int n = 1;
  const HlSym *chosen = options->entry ? find_entry(tree, entry_name(options)) : NULL;
  const HlSym **entries = options->entry ? &chosen : hl_ml_entries(tree->arena, tree, &n);
  if (options->entry && !chosen)
    return true;
  // Entries share a tree, but each one that is made static changes it for itself: all but the last get one read anew.
  const bool refines = options->arg_shapes || hl_ml_is_dynamic(tree);
  bool ok = hl_ml_verify(cx, tree);
  for (int k = 0; ok && k < n; k++) {
    HlMlTree *own = refines && k + 1 < n ? read_again(cx, tree, section) : tree;
    const HlSym *entry = own ? hl_ml_sym(own, entries[k]->text) : NULL;
    if (own && options->fill_hidden)
      hl_ml_fill_hidden(own, entry, platform_of(file->exported));
    ok = own && (!refines || refine(cx, options, file->exported, own, entry)) &&
         add_module(file, hl_ml_to_hlo(cx, own, entry)) &&
         (!options->entry_modes || hl_ml_entry_modes(cx, own, entry, file->modules[file->n - 1]));
    if (own != tree)
      hl_ml_free(own);
  }
  return ok;
}

// A file may have sections without programs, as long as one has one.
bool hl_load_lower(HlCx *cx, const HlLoadOptions *options, HlFile *file) {
  static const HlLoadOptions none = {0};
  options = options ? options : &none;
  register_readers(cx);
  for (int k = 0; k < file->n_trees; k++)
    if (!lower_section(cx, options, k, file))
      return false;
  if (file->n == 0 && file->n_trees > 0)
    return no_entry(cx, options, file);
  free_trees(file);
  return true;
}

// --- jaxpr ------------------------------------------------------------------------------------------------

// Old texts do not print the types of inputs: they are those given, or those of the arguments.
bool load_jaxpr(HlCx *cx, HlSource *source, const HlLoadOptions *options, HlFile *file) {
  HlNpz npz = {0};
  if (options->args && !hl_npz_load(cx, options->args, &npz))
    return false;
  HlArena *arena = hl_arena_new();
  HlJaxprOptions how = {.missing = options->consts_as_parameters ? HL_JAXPR_CONSTS_PARAMETERS
                                                                 : HL_JAXPR_CONSTS_REQUIRED};
  how.consts = numbered(arena, &npz, "c", &how.n_consts);
  const HlLiteral **args = numbered(arena, &npz, "a", &how.n_inputs);
  const HlShape **inputs = HL_ARRAY(arena, const HlShape *, how.n_inputs + 1);
  for (int k = 0; k < how.n_inputs; k++)
    inputs[k] = args[k]->shape;
  how.inputs = inputs;
  HlModule *shapes =
      options->arg_shapes ? parse_shapes(cx, options->arg_shapes, options->arg_shapes) : NULL;
  if (shapes) {
    how.inputs = shapes->entry->root->shape->element;
    how.n_inputs = shapes->entry->root->shape->rank;
  }
  HlJaxpr *jaxpr = shapes || !options->arg_shapes ? hl_jaxpr_parse(cx, source) : NULL;
  bool ok = jaxpr != NULL;
  if (jaxpr && options->jaxprs_without_types && !hl_jaxpr_is_typed(jaxpr) && !how.n_inputs) {
    file->jaxpr = jaxpr;
  } else {
    ok = jaxpr && add_module(file, hl_jaxpr_to_hlo(cx, jaxpr, &how));
    hl_jaxpr_free(jaxpr);
  }
  hl_module_free(shapes);
  hl_npz_free(&npz);
  hl_arena_free(arena);
  return ok;
}
