// Edits that are known, found by the comparison of two modules. Real programs are renamed, reordered, given another op, constant,
// inserted instructions, another size of a dimension, and compared with what they were: what is said to have changed is
// what was changed, and every pair that is said to be the same stands on partners: op, shape, attributes, operands, what is called.
// Normalised, programs that were renamed or reordered are the same text, others are not.
//
//   diff [MODULES [SEED [PATH]]]   default 16 modules (or HILO_ITERATIONS), spread over the corpus, from seed 1; 200: as many as are asked of a release
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hilo/diff.h"
#include "hilo/edit.h"
#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/verify.h"
#include "support/corpus.h"

enum { LARGEST = 6 << 20 };

typedef struct Paths {
  char **at;
  int n, capacity;
} Paths;

static void add_path(Paths *paths, const char *path) {
  if (paths->n == paths->capacity) {
    paths->capacity = paths->capacity ? 2 * paths->capacity : 256;
    paths->at = realloc(paths->at, (size_t)paths->capacity * sizeof *paths->at);
  }
  paths->at[paths->n++] = strdup(path);
}

static bool ends_with(const char *name, const char *end) {
  const size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_folder(Paths *paths, const char *folder, int depth) {
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char path[4096];
    struct stat st;
    if (entry->d_name[0] == '.' ||
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path ||
        stat(path, &st) != 0)
      continue;
    if (S_ISDIR(st.st_mode) && depth < 3)
      add_folder(paths, path, depth + 1);
    else if (S_ISREG(st.st_mode) && st.st_size < LARGEST &&
             (ends_with(path, ".hlo") || ends_with(path, "optimizations.txt") ||
              ends_with(path, ".hlo.zst")))
      add_path(paths, path);
  }
  if (dir)
    closedir(dir);
}

// --- Another text of a module -----------------------------------------------------------------------

static void put_header(HlCx *cx, const HlModule *m, HlBuf *out) {
  HlBuf all = {0};
  const HlTextOptions how = {.large_constants = HL_ON, .frames = HL_ON};
  hl_text_print(cx, m, &how, &all);
  const char *end = strstr(all.at, "\n\n\n");  // behind the tables of frames
  const char *blank = strstr(all.at, "\n\n");
  const char *open = strstr(all.at, " {\n");
  if (!end || (open && end > open))
    end = blank;
  if (strstr(all.at, "FileNames") && end == blank) {
    end = open;
    while (end && end > all.at && *end != '\n')
      end--;
  }
  hl_buf_add(out, all.at, end ? (size_t)(end - all.at) : 0);
  hl_buf_puts(out, "\n\n");
  hl_buf_free(&all);
}

// Instructions in a random order that is topological.
static void put_comp(HlCx *cx, const HlComp *comp, HlRng *rng, bool shuffle, HlBuf *out) {
  const HlTextOptions how = {.large_constants = HL_ON};
  int *waits = calloc(comp->next_id + 1, sizeof *waits), n = 0;
  const HlInst **ready = calloc(comp->n_insts + 1, sizeof *ready);
  hl_buf_printf(out, "%s%%%s {\n", comp == comp->module->entry ? "ENTRY " : "", comp->name->text);
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    waits[inst->id] = (int)inst->n_operands + (inst->control ? inst->control->n_preds : 0);
    if (waits[inst->id] == 0)
      ready[n++] = inst;
  }
  if (comp->schedule || !shuffle) {
    HlArena *arena = hl_arena_new();
    HlInst **order = hl_print_order(arena, comp);
    for (uint32_t k = 0; k < comp->n_insts; k++) {
      hl_buf_puts(out, order[k] == comp->root ? "  ROOT " : "  ");
      hl_text_print_inst(cx, order[k], &how, out);
      hl_buf_putc(out, '\n');
    }
    hl_arena_free(arena);
    n = 0;
  }
  while (n > 0) {
    const int pick = (int)hl_rng_below(rng, n);
    const HlInst *inst = ready[pick];
    ready[pick] = ready[--n];
    hl_buf_puts(out, inst == comp->root ? "  ROOT " : "  ");
    hl_text_print_inst(cx, inst, &how, out);
    hl_buf_putc(out, '\n');
    for (const HlUse *use = inst->first_use; use; use = use->next)
      if (--waits[use->user->id] == 0)
        ready[n++] = use->user;
    for (int k = 0; inst->control && k < inst->control->n_succs; k++)
      if (--waits[inst->control->succs[k]->id] == 0)
        ready[n++] = inst->control->succs[k];
  }
  hl_buf_puts(out, "}");
  if (comp->execution_thread)
    hl_buf_printf(out, ", execution_thread=\"%s\"", comp->execution_thread->text);
  hl_buf_puts(out, "\n\n");
  free(waits);
  free(ready);
}

// Callees before callers, else in a random order.
static void put_comps(HlCx *cx, const HlModule *m, HlRng *rng, bool shuffle, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  HlComp **order = hl_comp_order(arena, m);
  bool *done = HL_ARRAY(arena, bool, m->next_comp_id + 1);
  for (uint32_t left = m->n_comps; left > 0;) {
    int ready[64], n = 0;
    for (uint32_t k = 0; k < m->n_comps && n < 64; k++) {
      bool waits = done[order[k]->id];
      for (const HlInst *inst = order[k]->first; inst && !waits; inst = inst->next)
        for (int j = 0; j < inst->n_calls; j++)
          waits |= !done[inst->calls[j].comp->id];
      if (!waits)
        ready[n++] = (int)k;
      if (n == 1 && !shuffle)
        break;
    }
    HlComp *comp = order[ready[shuffle ? hl_rng_below(rng, n) : 0]];
    put_comp(cx, comp, rng, shuffle, out);
    done[comp->id] = true;
    left--;
  }
  hl_arena_free(arena);
}

// --- Edits ------------------------------------------------------------------------------------------

typedef enum Edit { RENAME, REORDER, RENAME_AND_REORDER, OP, CONSTANT, INSERT, SHAPE, EDITS } Edit;
static const char *const edits[EDITS] = {
    "rename", "reorder", "rename and reorder", "op", "constant", "insert", "shape"};

typedef struct Case {
  HlCx *cx;
  const char *path;
  const HlModule *a;
  HlModule *clone, *b;
  HlRng rng;
  Edit edit;
  const HlInst *at;       // of a: what was edited
  const HlInst *made[8];  // of the clone: what came
  int n_made;
} Case;

static void rename_all(Case *c, HlModule *m) {
  char name[64];
  int n = 0;
  for (HlComp *comp = m->first; comp; comp = comp->next) {
    snprintf(name, sizeof name, "c%d_%u", n++, (unsigned)hl_rng_below(&c->rng, 1000000));
    hl_comp_set_name(comp, hl_sym(m, name));
    for (HlInst *inst = comp->first; inst; inst = inst->next) {
      snprintf(name, sizeof name, "i%u_%d", (unsigned)hl_rng_below(&c->rng, 1000000), n++);
      hl_set_name(inst, hl_sym(m, name));
    }
  }
  hl_module_set_name(m, hl_sym(m, "another"));
}

static HlOp other_op(HlOp op) {
  static const HlOp pairs[][2] = {{HL_OP_ADD, HL_OP_SUBTRACT},     {HL_OP_SUBTRACT, HL_OP_ADD},
                                  {HL_OP_MULTIPLY, HL_OP_ADD},     {HL_OP_DIVIDE, HL_OP_MULTIPLY},
                                  {HL_OP_MAXIMUM, HL_OP_MINIMUM},  {HL_OP_EXPONENTIAL, HL_OP_TANH},
                                  {HL_OP_TANH, HL_OP_EXPONENTIAL}, {HL_OP_NEGATE, HL_OP_ABS},
                                  {HL_OP_LOG, HL_OP_SQRT},         {HL_OP_RSQRT, HL_OP_SQRT},
                                  {HL_OP_SQRT, HL_OP_RSQRT},       {HL_OP_ABS, HL_OP_NEGATE}};
  for (int k = 0; k < HL_COUNT_OF(pairs); k++)
    if (pairs[k][0] == op)
      return pairs[k][1];
  return HL_OP_COUNT;
}

static bool is_reached(const HlComp *comp) {
  for (int depth = 0; depth < 100; depth++) {
    if (comp == comp->module->entry)
      return true;
    if (!comp->first_call)
      return false;
    comp = comp->first_call->caller->comp;
  }
  return false;
}

// A random instruction of the clone that an edit can be made at; NULL: none.
static HlInst *pick(Case *c, bool (*fits)(const HlInst *inst)) {
  HlInst *found = NULL;
  int64_t n = 0;
  for (HlComp *comp = c->clone->first; comp; comp = comp->next) {
    if (!is_reached(comp))
      continue;
    for (HlInst *inst = comp->first; inst; inst = inst->next)
      if (fits(inst) && (inst->first_use || inst == comp->root) && hl_rng_below(&c->rng, ++n) == 0)
        found = inst;
  }
  return found;
}

static bool fits_op(const HlInst *inst) {
  return other_op((HlOp)inst->op) != HL_OP_COUNT && hl_is_float(inst->shape->dtype);
}

static bool fits_constant(const HlInst *inst) {
  return inst->op == HL_OP_CONSTANT && hl_shape_is_scalar(inst->shape) &&
         hl_is_float(inst->shape->dtype) && hl_constant(inst) && hl_constant(inst)->data;
}

static bool fits_insert(const HlInst *inst) {
  return hl_shape_is_array(inst->shape) && hl_is_float(inst->shape->dtype) && inst->first_use &&
         inst != inst->comp->root && !inst->control && !inst->comp->schedule;
}

static bool change_op(Case *c) {
  HlInst *old = pick(c, fits_op);
  if (!old)
    return false;
  c->at = c->a->first ? hl_find_inst(hl_find_comp(c->a, hl_str(old->comp->name->text)),
                                     hl_str(old->name->text))
                      : NULL;
  HlComp *comp = old->comp;
  const bool is_scheduled = comp->schedule != NULL;
  if (is_scheduled)
    return false;
  const HlSym *name = old->name;
  HlInst *inst = hl_inst_new(comp, other_op((HlOp)old->op), old->shape, NULL, (int)old->n_operands,
                             old->operands);
  hl_copy_attrs(inst, old);
  hl_replace_uses(old, inst);
  hl_erase(old);
  hl_set_name(inst, name);
  c->made[c->n_made++] = inst;
  return c->at != NULL;
}

static bool change_constant(Case *c) {
  HlInst *old = pick(c, fits_constant);
  if (!old)
    return false;
  c->at = hl_find_inst(hl_find_comp(c->a, hl_str(old->comp->name->text)), hl_str(old->name->text));
  HlLiteral *value = hl_literal_new(c->cx, old->shape);
  const double was = hl_literal_f64(hl_constant(old), 0);
  hl_literal_set_f64(value, 0, was == 0.375 ? 0.5 : 0.375);
  hl_set_attr(old, &(HlAttr){.key = HL_A_VALUE, .ptr = value});
  hl_literal_unref(value);
  c->made[c->n_made++] = old;
  return c->at != NULL;
}

// A small layer behind a value: all its users get that instead.
static bool insert_layer(Case *c) {
  HlInst *x = pick(c, fits_insert);
  if (!x)
    return false;
  c->at = hl_find_inst(hl_find_comp(c->a, hl_str(x->comp->name->text)), hl_str(x->name->text));
  static const HlOp ops[] = {HL_OP_NEGATE, HL_OP_COSINE, HL_OP_SINE, HL_OP_CEIL, HL_OP_FLOOR};
  HlOp op = ops[0];  // one that x does not go into already
  for (int k = 0; k < HL_COUNT_OF(ops); k++) {
    bool used = false;
    for (const HlUse *use = x->first_use; use; use = use->next)
      used |= use->user->op == ops[k];
    op = used ? op : ops[k];
  }
  HlInst *y = hl_inst_new(x->comp, op, x->shape, NULL, 1, &x);
  HlInst *two[] = {y, x};
  HlInst *z = hl_inst_new(x->comp, HL_OP_MULTIPLY, x->shape, NULL, 2, two);
  HlInst *t = hl_inst_new(x->comp, HL_OP_TANH, x->shape, NULL, 1, &z);
  for (HlUse *use = x->first_use, *next; use; use = next) {
    next = use->next;
    if (use->user != y && use->user != z)
      hl_set_operand(use->user, use->number, t);
  }
  c->made[0] = y;
  c->made[1] = z;
  c->made[2] = t;
  c->n_made = 3;
  return c->at != NULL && t->first_use;
}

// Every dimension of one size gets another, in shapes of the text; where that is still a valid program.
static bool resize(Case *c, const HlBuf *text, HlBuf *out) {
  int64_t sizes[8];
  int n = 0;
  for (const HlInst *inst = c->clone->entry->first; inst && n < 8; inst = inst->next)
    for (int k = 0; hl_shape_is_array(inst->shape) && k < inst->shape->rank && n < 8; k++)
      if (inst->shape->dim[k] > 4 && hl_rng_below(&c->rng, 3) == 0)
        sizes[n++] = inst->shape->dim[k];
  if (n == 0)
    return false;
  char from[32];
  const int length =
      snprintf(from, sizeof from, "%lld", (long long)sizes[hl_rng_below(&c->rng, n)]);
  const long long to = strtoll(from, NULL, 10) + 6;
  bool in = false, any = false;
  for (size_t k = 0; k < text->n; k++) {
    const char ch = text->at[k];
    if (ch == '[')
      in = k > 0 && ((text->at[k - 1] >= '0' && text->at[k - 1] <= '9') || text->at[k - 1] == 'd');
    if (ch == ']')
      in = false;
    if (in && (ch == '[' || ch == ',') && strncmp(text->at + k + 1, from, (size_t)length) == 0 &&
        (text->at[k + 1 + (size_t)length] == ',' || text->at[k + 1 + (size_t)length] == ']')) {
      hl_buf_printf(out, "%c%lld", ch, to);
      k += (size_t)length;
      any = true;
    } else {
      hl_buf_putc(out, ch);
    }
  }
  return any;
}

static bool apply(Case *c) {
  switch (c->edit) {
  case OP: return change_op(c);
  case CONSTANT: return change_constant(c);
  case INSERT: return insert_layer(c);
  default: return true;
  }
}

static bool read_back(Case *c, HlBuf *text) {
  HlSource *source = hl_source_new("edited", text->at, text->n, false);
  HlModule **modules;
  int n;
  const bool ok = hl_text_read(c->cx, source, &modules, &n);
  hl_source_unref(source);
  if (!ok)
    return false;
  c->b = modules[0];
  for (int k = 1; k < n; k++)
    hl_module_free(modules[k]);
  hl_free(modules);
  return n == 1 && (c->edit != SHAPE || hl_verify(c->cx, c->b, NULL));
}

// Whether the edit could be made; what is wrong with the case itself ends the test.
static bool make(Case *c) {
  HlBuf text = {0}, resized = {0};
  c->clone = hl_clone(c->cx, c->a);
  if (!apply(c))
    return false;
  const bool renames = c->edit == RENAME || c->edit == RENAME_AND_REORDER ||
                       (c->edit >= OP && c->edit != SHAPE && hl_rng_below(&c->rng, 2));
  const bool shuffles = c->edit == REORDER || c->edit == RENAME_AND_REORDER;
  if (renames)
    rename_all(c, c->clone);
  put_header(c->cx, c->clone, &text);
  put_comps(c->cx, c->clone, &c->rng, shuffles, &text);
  bool ok = c->edit != SHAPE || resize(c, &text, &resized);
  ok = ok && read_back(c, c->edit == SHAPE ? &resized : &text);
  if (!ok && c->edit != SHAPE) {
    HlBuf why = {0};
    for (int k = 0; k < hl_cx_n_diags(c->cx) && k < 3; k++)
      hl_diag_render(hl_cx_diag(c->cx, k), false, &why);
    printf("%s: %s: cannot be read back: %s\n", c->path, edits[c->edit], why.at ? why.at : "");
    hl_buf_free(&why);
    exit(1);
  }
  hl_cx_clear(c->cx);
  hl_buf_free(&text);
  hl_buf_free(&resized);
  return ok;
}

// --- What is right ----------------------------------------------------------------------------------

typedef struct PairOf {
  const HlInst *a, *b;
} PairOf;

static int by_pair(const void *x, const void *y) {
  return memcmp(x, y, sizeof(PairOf));
}

typedef struct Check {
  Case *c;
  const HlDiff *diff;
  PairOf *pairs;
  size_t n;
  int wrong;
} Check;

static bool are_pair(const Check *check, const HlInst *a, const HlInst *b) {
  const PairOf pair = {a, b};
  return bsearch(&pair, check->pairs, check->n, sizeof pair, by_pair) != NULL;
}

static void complain(Check *check, const HlInst *a, const HlInst *b, const char *what) {
  if (check->wrong++ < 5)
    printf("%s: %s%s%s: %s -> %s: %s\n", check->c->path, edits[check->c->edit],
           check->c->at ? " at " : "", check->c->at ? check->c->at->name->text : "",
           a ? a->name->text : "nothing", b ? b->name->text : "nothing", what);
}

static bool same_attrs(const HlInst *a, const HlInst *b) {
  for (int key = 0; key < HL_ATTR_COUNT; key++) {
    if (key == HL_A_METADATA || key == HL_A_ORIGIN || key == HL_A_STATISTICS)
      continue;
    const HlAttr *x = hl_attr(a, (HlAttrKey)key), *y = hl_attr(b, (HlAttrKey)key);
    if (x && y && !hl_attr_equal(x, y))
      return false;
  }
  return true;
}

// A pair that is said to be the same is: by itself, and by its operands.
static void check_same(Check *check, const HlDiffRow *row, bool shapes) {
  const HlInst *a = row->a, *b = row->b;
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_calls != b->n_calls)
    complain(check, a, b, "said to be the same, but of other ops");
  else if (shapes && (!hl_shape_equal(a->shape, b->shape) || !same_attrs(a, b)))
    complain(check, a, b, "said to be the same, but of other shapes or attributes");
  else if ((a == a->comp->root) != (b == b->comp->root))
    complain(check, a, b, "one is a root");
  else
    for (uint32_t k = 0; k < a->n_operands; k++)
      if (!are_pair(check, a->operands[k], b->operands[k]))
        complain(check, a, b, "said to be the same, but operands are no pairs");
}

static const char *name_in_b(const Case *c, const HlInst *of_clone) {
  return of_clone->name->text;
}

// What the verdict of a row is to be: of the pair that was edited, and of those beside it.
static void check_row(Check *check, const HlDiffRow *row) {
  Case *c = check->c;
  if (row->verdict == HL_DIFF_SAME) {
    check_same(check, row, true);
    return;
  }
  switch (c->edit) {
  case OP:
    if (row->a != c->at || !row->b || strcmp(row->b->name->text, name_in_b(c, c->made[0])) != 0 ||
        row->verdict != HL_DIFF_CHANGED || !(row->what & HL_DIFF_OP))
      complain(check, row->a, row->b, "should be the same");
    return;
  case CONSTANT:
    if (row->a != c->at || !row->b || row->verdict != HL_DIFF_CHANGED ||
        row->what != HL_DIFF_CONSTANTS)
      complain(check, row->a, row->b, "should be the same");
    return;
  case INSERT: {
    bool is_new = false, uses = false;
    for (int k = 0; k < c->n_made && row->b; k++)
      is_new |= strcmp(row->b->name->text, name_in_b(c, c->made[k])) == 0;
    for (uint32_t k = 0; row->a && k < row->a->n_operands; k++)
      uses |= row->a->operands[k] == c->at;
    if (!(is_new && row->verdict == HL_DIFF_ADDED) &&
        !(uses && row->verdict == HL_DIFF_CHANGED && row->what == HL_DIFF_OPERANDS))
      complain(check, row->a, row->b, "should be the same");
    return;
  }
  case SHAPE:
    if (row->verdict != HL_DIFF_CHANGED ||
        !(row->what & (HL_DIFF_SHAPE | HL_DIFF_ATTRIBUTES | HL_DIFF_CONSTANTS)))
      complain(check, row->a, row->b, "should have a partner");
    else if (strcmp(row->a->name->text, row->b->name->text) != 0)
      complain(check, row->a, row->b, "not its partner");
    return;
  default: complain(check, row->a, row->b, hl_verdict_text(row->verdict));
  }
}

static void check_counts(Check *check) {
  const HlDiff *d = check->diff;
  const Case *c = check->c;
  const bool edited = c->edit >= OP;
  if (d->equal == edited)
    complain(check, c->at, NULL, edited ? "said to be equal" : "said to differ");
  if ((c->edit == OP || c->edit == CONSTANT) && d->count[HL_DIFF_CHANGED] != 1)
    complain(check, c->at, NULL, "the change is not found once");
  if (c->edit == INSERT && d->count[HL_DIFF_ADDED] != c->n_made)
    complain(check, c->at, NULL, "what came is not found");
  const char *head = hl_diff_headline(d);
  if (c->edit == RENAME && strcmp(head, "renaming only") != 0)
    complain(check, NULL, NULL, head);
  if (c->edit == RENAME_AND_REORDER && strncmp(head, "renaming", 8) != 0)
    complain(check, NULL, NULL, head);
}

// Programs that differ in names and order alone have one normalised text, others have not.
static bool check_normalized(Case *c) {
  const HlTextOptions how = {.large_constants = HL_ON, .sorted_configs = HL_ON};
  HlModule *a = hl_normalize(c->cx, c->a), *b = hl_normalize(c->cx, c->b);
  HlBuf x = {0}, y = {0};
  bool ok = a && b && hl_verify(c->cx, a, NULL) == hl_verify(c->cx, (HlModule *)c->a, NULL);
  hl_cx_clear(c->cx);
  if (ok) {
    hl_text_print(c->cx, a, &how, &x);
    hl_text_print(c->cx, b, &how, &y);
    ok = (x.n == y.n && memcmp(x.at, y.at, x.n) == 0) == (c->edit < OP);
  }
  if (!ok)
    printf("%s: %s: normalised texts are wrong\n", c->path, edits[c->edit]);
  hl_buf_free(&x);
  hl_buf_free(&y);
  hl_module_free(a);
  hl_module_free(b);
  return ok;
}

static int check_case(Case *c) {
  HlDiff *diff = hl_diff(c->cx, c->a, c->b, &(HlDiffOptions){.mode = HL_DIFF_VERSIONS});
  if (!diff) {
    printf("%s: %s: no comparison\n", c->path, edits[c->edit]);
    return 1;
  }
  Check check = {
      .c = c, .diff = diff, .pairs = calloc((size_t)diff->n_rows + 1, sizeof *check.pairs)};
  for (int k = 0; k < diff->n_rows; k++)
    if (diff->row[k].a && diff->row[k].b)
      check.pairs[check.n++] = (PairOf){diff->row[k].a, diff->row[k].b};
  qsort(check.pairs, check.n, sizeof *check.pairs, by_pair);
  for (int k = 0; k < diff->n_rows; k++)
    check_row(&check, &diff->row[k]);
  check_counts(&check);
  free(check.pairs);
  hl_diff_free(diff);
  return check.wrong > 0 || !check_normalized(c);
}

// --- The test ---------------------------------------------------------------------------------------

typedef struct Tally {
  int made[EDITS], failed[EDITS], modules;
} Tally;

static void try_edits(HlCx *cx, const char *path, const HlModule *m, uint64_t seed, Tally *tally) {
  for (int edit = 0; edit < EDITS; edit++) {
    Case c = {
        .cx = cx, .path = path, .a = m, .edit = (Edit)edit, .rng = {seed * 31 + (uint64_t)edit}};
    bool made = false;
    for (int k = 0; k < 3 && !made; k++) {
      made = make(&c);
      if (!made) {
        hl_module_free(c.clone);
        hl_module_free(c.b);
        c.clone = c.b = NULL;
        c.n_made = 0;
        hl_cx_clear(cx);
      }
    }
    if (made) {
      tally->made[edit]++;
      tally->failed[edit] += check_case(&c);
    }
    hl_module_free(c.clone);
    hl_module_free(c.b);
  }
}

static void try_file(const char *path, uint64_t seed, Tally *tally) {
  HlCx *cx = hl_cx_new();
  HlFile file;
  if (hl_load(cx, path, NULL, &file)) {
    if (file.n > 0) {
      tally->modules++;
      try_edits(cx, path, file.modules[0], seed, tally);
    }
    hl_file_free(&file);
  }
  hl_cx_free(cx);
}

int main(int argc, char **argv) {
  static const char *const folders[] = {"models",    "jax",     "newest/jax",        "hloenv",
                                        "paragraph", "roberta", "newest/gpu_models", "dumps"};
  const char *corpus = test_corpus(), *count = getenv("HILO_ITERATIONS");
  if (!corpus)
    return 77;
  int wanted = argc > 1 ? atoi(argv[1]) : count ? atoi(count) : 16;
  const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  Paths paths = {0};
  Tally tally = {0};
  for (int k = 0; k < HL_COUNT_OF(folders); k++) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/%s", corpus, folders[k]);
    add_folder(&paths, folder, 0);
  }
  qsort(paths.at, (size_t)paths.n, sizeof *paths.at, by_text);
  for (int k = 0; k < wanted && k < paths.n; k++)
    if (argc < 4 ||
        strstr(paths.at[(int64_t)k * paths.n / (wanted < paths.n ? wanted : paths.n)], argv[3]))
      try_file(paths.at[(int64_t)k * paths.n / (wanted < paths.n ? wanted : paths.n)],
               seed + (uint64_t)k, &tally);
  int failed = 0;
  for (int k = 0; k < EDITS; k++) {
    printf("%-20s %4d made, %d wrong\n", edits[k], tally.made[k], tally.failed[k]);
    failed += tally.failed[k];
  }
  printf("%d modules of %d files\n", tally.modules, paths.n);
  for (int k = 0; k < paths.n; k++)
    free(paths.at[k]);
  free(paths.at);
  if (argc < 4 && (tally.modules < (wanted < 200 ? wanted * 3 / 4 : 150) || tally.made[OP] == 0 ||
                   tally.made[SHAPE] == 0)) {
    printf("too little was tried\n");
    return 1;
  }
  return failed > 0;
}
