// Makes an HLO module of an MLIR program: which functions it takes, each as a computation, and the module's header.
#include "mlir/to_hlo/to_hlo.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "mlir/tree/tree.h"

// --- Functions ---------------------------------------------------------------------------------------------

static bool build_body(MlLower *l, HlBuild *b, const HlMlOp *func, const HlMlBlock *block) {
  for (int k = 0; k < block->n_args; k++)
    if (!ml_argument(l, b, func, k))
      return false;
  const HlMlOp *end;
  if (!ml_lower_block(l, b, block, &end))
    return false;
  HlBuild bare = ml_bare(b);
  HlInst *root;
  int n = end ? (int)end->n_operands : 0;
  HlInst **results = end ? ml_ins(l, &bare, end, 0, end->n_operands) : NULL;
  if (end && !results)
    return false;
  if (!ml_function_results(l, &bare, func, n, results, &root))
    return false;
  hl_set_root(b->comp, root);
  return true;
}

static HlComp *build_func(MlLower *l, HlBuild *b, const HlMlOp *func, const HlSym *name) {
  HlMlBlock *block = hl_ml_body(func, 0);
  if (!block) {
    ml_bad(l, func, "function @%s has no body", name->text);
    return NULL;
  }
  if (block->next) {
    ml_unsupported(l, func, "function @%s has several blocks", name->text);
    return NULL;
  }
  int undo;
  HlStr legal = hl_sanitise_name(l->arena, (HlStr){name->text, name->n});
  HlBuild own = ml_enter(l, b, hl_arena_strndup(l->arena, legal.at, legal.n), &undo);
  own.loc = func->loc;
  hl_comp_set_loc(own.comp, func->loc);
  const HlSym *thread = ml_attr_sym(func, ML_A_EXECUTION_THREAD);
  if (thread && strcmp(thread->text, "main") != 0)
    hl_comp_set_thread(own.comp, ml_sym(l, thread));
  bool ok = build_body(l, &own, func, block);
  ml_leave(l, undo);
  return ok ? own.comp : NULL;
}

HlComp *ml_lower_func(MlLower *l, HlBuild *b, const HlMlOp *user, const HlSym *name) {
  const HlMlOp *func = hl_ml_find_symbol(l->tree, name);
  if (!func || func->row != ML_FUNC_FUNC) {
    ml_bad(l, user, "there is no function @%s", name->text);
    return NULL;
  }
  MlFunc *f = ml_func(l->tree, name);
  if (f->round != l->shared->round) {
    f->round = l->shared->round;
    f->state = ML_FUNC_NEW;
  }
  if (f->state == ML_FUNC_OPEN) {
    ml_bad(l, user, "function @%s calls itself, directly or through others, which HLO cannot say",
           name->text);
    return NULL;
  }
  if (f->state == ML_FUNC_NEW) {
    f->state = ML_FUNC_OPEN;
    HlComp *comp = build_func(l, b, func, name);
    f = ml_func(l->tree, name);  // the table may have grown
    f->comp = comp;
    f->state = ML_FUNC_DONE;
  }
  return f->comp;
}

// --- Which functions there are -------------------------------------------------------------------------

// Symbols that ops name, each once.
typedef struct Named {
  HlArena *arena;
  uint32_t *met;  // by index of a symbol: the last walk that met it
  uint32_t walk;
  VEC(const HlSym *) list;
} Named;

static void note_symbol(Named *named, const HlSym *sym) {
  if (named->met[sym->index] == named->walk)
    return;
  named->met[sym->index] = named->walk;
  vec_push_in(named->arena, &named->list, sym);
}

static void note_symbols(Named *named, const HlMlAttr *attr) {
  if (attr->kind == HL_ML_A_SYMBOL && attr->sym)
    note_symbol(named, attr->sym);
  else if (attr->kind == HL_ML_A_ARRAY)
    for (int k = 0; k < attr->n; k++)
      note_symbols(named, attr->list[k]);
}

// Notes the functions that ops of the region name.
static void note_called(Named *named, const HlMlRegion *region) {
  for (const HlMlBlock *block = region->first; block; block = block->next)
    for (const HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_attrs; k++)
        note_symbols(named, op->attrs[k].value);
      for (uint32_t k = 0; k < op->n_regions; k++)
        note_called(named, &op->regions[k]);
    }
}

HlMlOp **ml_reachable(HlArena *arena, const HlMlTree *tree, const HlSym *entry, int *n) {
  MlConversion *shared = ml_conversion(tree);
  const uint32_t n_syms = hl_syms_count(tree->syms);
  if (n_syms > shared->n_reached) {
    shared->reached = ml_grow(tree->arena, shared->reached, shared->n_reached, ml_more_than(n_syms),
                              sizeof *shared->reached);
    shared->n_reached = ml_more_than(n_syms);
  }
  Named named = {.arena = arena, .met = shared->reached, .walk = ++shared->reach};
  VEC(HlMlOp *) list = {0};
  note_symbol(&named, entry);
  for (int k = 0; k < named.list.n; k++) {
    HlMlOp *func = hl_ml_find_symbol(tree, named.list.at[k]);
    if (!func || func->row != ML_FUNC_FUNC)
      continue;
    vec_push_in(arena, &list, func);
    note_called(&named, &func->regions[0]);
  }
  *n = list.n;
  return list.at;
}

// --- The module -----------------------------------------------------------------------------------------------

// Reports the first op with a dimension of unknown size.
static bool refuse_dynamic(HlCx *cx, HlMlTree *tree, const HlMlRegion *region) {
  for (const HlMlBlock *block = region->first; block; block = block->next)
    for (const HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_results; k++) {
        const HlMlType *type = op->results[k].type;
        if (type->kind != HL_ML_TENSOR || hl_ml_is_static(type))
          continue;
        HlI64s bounds = hl_ml_bounds(type);
        for (int d = 0; d < type->rank; d++)
          if (type->dim[d] == HL_UNBOUNDED && (d >= bounds.n || bounds.at[d] == HL_UNBOUNDED)) {
            hl_error_kind(cx, HL_UNSUPPORTED, hl_ml_pos(tree, op),
                          "%s makes a value of type %s, whose sizes are not known; HLO wants them",
                          op->name->text, hl_ml_type_text(cx, type));
            hl_hint(cx, "give the shapes of the arguments with --arg-shapes");
            return true;
          }
      }
      for (uint32_t k = 0; k < op->n_regions; k++)
        if (refuse_dynamic(cx, tree, &op->regions[k]))
          return true;
    }
  return false;
}

static bool type_is_quantised(const HlMlType *type) {
  if (type->kind == HL_ML_QUANT)
    return true;
  if (type->kind == HL_ML_TENSOR || type->kind == HL_ML_UNRANKED)
    return type->element[0]->kind == HL_ML_QUANT;
  if (type->kind == HL_ML_TUPLE)
    for (int k = 0; k < type->n; k++)
      if (type_is_quantised(type->element[k]))
        return true;
  return false;
}

static bool is_quantised(const HlMlRegion *region) {
  for (const HlMlBlock *block = region->first; block; block = block->next) {
    for (int k = 0; k < block->n_args; k++)
      if (type_is_quantised(block->args[k]->type))
        return true;
    for (const HlMlOp *op = block->first; op; op = op->next) {
      for (uint32_t k = 0; k < op->n_results; k++)
        if (type_is_quantised(op->results[k].type))
          return true;
      for (uint32_t k = 0; k < op->n_regions; k++)
        if (is_quantised(&op->regions[k]))
          return true;
    }
  }
  return false;
}

static const HlSym *find_entry(HlCx *cx, HlMlTree *tree, const HlSym *entry) {
  if (entry) {
    const HlMlOp *op = hl_ml_find_symbol(tree, entry);
    if (op && op->row == ML_FUNC_FUNC)
      return entry;
    hl_error(cx, (HlPos){tree->source, 0}, "there is no function @%s", entry->text);
    return NULL;
  }
  HlMark mark = hl_arena_mark(hl_cx_scratch(cx));
  int n;
  const HlSym **entries = hl_ml_entries(hl_cx_scratch(cx), tree, &n);
  const HlSym *found = n > 0 ? entries[0] : NULL;
  hl_arena_release(hl_cx_scratch(cx), mark);
  if (found)
    return found;
  // A single function is the program whatever it is called.
  HlMlBlock *body = hl_ml_body(tree->module, 0);
  for (HlMlOp *op = body ? body->first : NULL; op; op = op->next)
    if (op->row == ML_FUNC_FUNC && hl_ml_body(op, 0)) {
      if (found) {
        hl_error(cx, (HlPos){tree->source, 0},
                 "there is no function @main, and no other that could be the entry");
        return NULL;
      }
      found = ml_attr_sym(op, ML_A_SYM_NAME);
    }
  if (!found)
    hl_error(cx, (HlPos){tree->source, 0}, "there is no function");
  return found;
}

// The meshes of the module by name, or NULL.
static const HlMlAttr *find_meshes(HlMlTree *tree) {
  const HlMlBlock *body = hl_ml_body(tree->module, 0);
  int n = 0;
  for (const HlMlOp *op = body ? body->first : NULL; op; op = op->next)
    n += op->row == ML_SDY_MESH;
  HlMlNamed *mesh = HL_ARRAY(tree->arena, HlMlNamed, n + 1);
  n = 0;
  for (const HlMlOp *op = body ? body->first : NULL; op; op = op->next)
    if (op->row == ML_SDY_MESH && ml_attr(op, ML_A_MESH) && ml_attr_sym(op, ML_A_SYM_NAME))
      mesh[n++] =
          (HlMlNamed){.name = ml_attr_sym(op, ML_A_SYM_NAME), .value = ml_attr(op, ML_A_MESH)};
  return n > 0 ? hl_ml_dict(tree, n, mesh) : NULL;
}

// What is done for the whole tree, once.
static bool prepare_tree(HlCx *cx, HlMlTree *tree, MlConversion *shared) {
  if (shared->is_prepared)
    return true;
  if (is_quantised(&tree->module->regions[0]) && !ml_lower_quantised(cx, tree))
    return false;
  if (!ml_recompose(cx, tree))
    return false;
  shared->meshes = find_meshes(tree);
  shared->is_dynamic = hl_ml_is_dynamic(tree);
  return shared->is_prepared = true;
}

static bool prepare(HlCx *cx, HlMlTree *tree, const HlSym *entry) {
  MlConversion *shared = ml_conversion(tree);
  if (!prepare_tree(cx, tree, shared) || !ml_simplify(cx, tree, entry))
    return false;
  if (!shared->is_dynamic)
    return true;
  HlArena *arena = hl_arena_new();
  int n;
  HlMlOp **funcs = ml_reachable(arena, tree, entry, &n);
  bool refused = false;
  for (int k = 0; k < n && !refused; k++)
    refused = refuse_dynamic(cx, tree, &funcs[k]->regions[0]);
  hl_arena_free(arena);
  return !refused;
}

static HlComp *scratch_comp(HlModule *m) {
  return hl_comp_new(m, "", 0);
}

static bool lower_module(MlLower *l, const HlSym *entry) {
  // A builder needs a computation to find its module; this one goes away again.
  HlBuild b = {.cx = l->cx, .comp = scratch_comp(l->m)};
  l->entry = hl_ml_find_symbol(l->tree, entry);
  HlComp *comp = ml_lower_func(l, &b, l->entry, entry);
  hl_comp_erase(b.comp);
  if (!comp)
    return false;
  hl_comp_set_entry(comp);
  for (HlComp *each = l->m->first; each; each = each->next)
    ml_merge_constants(l, each);
  if (!hl_sort_comps(l->cx, l->m) || !ml_sdy_module(l) || !ml_module_attrs(l))
    return false;
  ml_name_as_xla(l);
  ml_frames_done(l);
  hl_complete_entry_layout(l->m);
  return true;
}

static const char *module_name(const HlMlTree *tree) {
  const HlSym *name = ml_attr_sym(tree->module, ML_A_SYM_NAME);
  return name && name->n > 0 ? name->text : "main";
}

HlModule *hl_ml_to_hlo(HlCx *cx, HlMlTree *tree, const HlSym *entry) {
  entry = find_entry(cx, tree, entry);
  if (!entry || !prepare(cx, tree, entry))
    return NULL;
  MlConversion *shared = ml_conversion(tree);
  MlLower l = {
      .cx = cx, .tree = tree, .arena = hl_arena_new(), .shared = shared, .walk = shared->walk};
  shared->round++;
  HlStr legal = hl_sanitise_name(l.arena, hl_str(module_name(tree)));
  l.m = hl_module_new(hl_arena_strndup(l.arena, legal.at, legal.n), tree->source);
  ml_cover_values(&l);
  const int64_t n_errors = hl_cx_n_errors(cx);
  bool ok = lower_module(&l, entry) && hl_cx_n_errors(cx) == n_errors;
  if (ok && l.n_strange > 0)
    hl_tell(cx, hl_ml_pos(tree, l.strange_op),
            "attributes without a meaning in HLO dropped: %d, first '%s'", l.n_strange,
            l.strange->text);
  ml_leave(&l, 0);
  shared->walk = l.walk;
  hl_arena_free(l.arena);
  if (ok)
    return l.m;
  hl_module_free(l.m);
  return NULL;
}

// --- Entries ------------------------------------------------------------------------------------------------------

const HlSym **hl_ml_entries(HlArena *arena, const HlMlTree *tree, int *n) {
  const HlSym *main_sym = hl_syms_find(tree->syms, "main", 4);
  const HlMlOp *main_func = main_sym ? hl_ml_find_symbol(tree, main_sym) : NULL;
  const HlMlBlock *body = hl_ml_body(tree->module, 0);
  int n_funcs = 0;
  for (const HlMlOp *op = body ? body->first : NULL; op; op = op->next)
    n_funcs += op->row == ML_FUNC_FUNC;
  const HlSym **list = HL_ARRAY(arena, const HlSym *, n_funcs + 1);
  *n = 0;
  if (main_func && main_func->row == ML_FUNC_FUNC) {
    list[(*n)++] = main_sym;
    return list;
  }
  Named called = {.arena = arena, .walk = 1};
  called.met = HL_ARRAY(arena, uint32_t, hl_syms_count(tree->syms) + 1);
  note_called(&called, &tree->module->regions[0]);
  for (const HlMlOp *op = body ? body->first : NULL; op; op = op->next) {
    const HlSym *name = op->row == ML_FUNC_FUNC ? ml_attr_sym(op, ML_A_SYM_NAME) : NULL;
    const HlMlBlock *block = name ? hl_ml_body(op, 0) : NULL;
    const HlSym *symbol = name ? hl_syms_find(tree->syms, name->text, name->n) : NULL;
    if (block && block->n_args == 0 && symbol && called.met[symbol->index] != called.walk)
      list[(*n)++] = symbol;
  }
  return list;
}
