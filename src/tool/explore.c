// tool/explore.c: a module explored by commands: what is near an instruction, paths, lists, what a thing is, extracts.
//
// The commands are XLA's (interactive_graphviz), and mean what they mean there; what they draw is also told as text, nearest
// first, so that a terminal without a browser, or a script, is enough. `users`, `operands` and `format` are ours.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/memory.h"
#include "base/vec.h"
#include "hilo/cost.h"
#include "hilo/explore.h"
#include "hilo/extract.h"
#include "hilo/text.h"
#include "hilo/view.h"

enum { MAX_WORDS = 64, MAX_LISTED = 200, MAX_TEXT = 200, MANY_USERS = 16 };

struct HlExplore {
  HlCx *cx;
  const HlModule *m;
  char *folder, *form;
  void (*show)(void *user, const char *path);
  bool (*serve)(void *user, HlBuf *out);
  void *user;
  bool backend_config, open_fusions;
  int n_drawn;
  HlArena *arena;  // of a line's work
  HlBuf *out;
  const char *word[MAX_WORDS + 1];
  int n_words;
  char *line;
};

HlExplore *hl_explore_new(HlCx *cx, const HlModule *m, const HlExploreOptions *options) {
  HlExplore *e = base_alloc(sizeof *e);
  const char *folder = options && options->folder ? options->folder : getenv("TMPDIR");
  e->cx = cx;
  e->m = m;
  e->folder = base_strdup(folder && *folder ? folder : "/tmp");
  e->form = base_strdup(options && options->form ? options->form : "html");
  e->show = options ? options->show : NULL;
  e->serve = options ? options->serve : NULL;
  e->user = options ? options->user : NULL;
  return e;
}

void hl_explore_free(HlExplore *e) {
  if (!e)
    return;
  base_free(e->folder);
  base_free(e->form);
  base_free(e);
}

// --- Finding --------------------------------------------------------------------------------------

static const char *bare(const char *name) {
  return name + (*name == '%');
}

static bool same_name(const HlSym *sym, const char *name) {
  return same_word(sym->text, bare(name));
}

// Of names that differ in case alone, the one as written goes first.
static const HlInst *find_inst(const HlExplore *e, const char *name) {
  const HlInst *found = NULL;
  for (const HlComp *comp = e->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (same_name(inst->name, name)) {
        if (strcmp(inst->name->text, bare(name)) == 0)
          return inst;
        found = found ? found : inst;
      }
  return found;
}

static const HlComp *find_comp(const HlExplore *e, const char *name) {
  const HlComp *found = NULL;
  for (const HlComp *comp = e->m->first; comp; comp = comp->next)
    if (same_name(comp->name, name)) {
      if (strcmp(comp->name->text, bare(name)) == 0)
        return comp;
      found = found ? found : comp;
    }
  return found;
}

static const char *nearest_name(const HlExplore *e, const char *name) {
  VEC(const char *) names = {0};
  for (const HlComp *comp = e->m->first; comp && names.n < 50000; comp = comp->next) {
    vec_push(&names, comp->name->text);
    for (const HlInst *inst = comp->first; inst && names.n < 50000; inst = inst->next)
      vec_push(&names, inst->name->text);
  }
  const char *near = hl_nearest(hl_str(bare(name)), names.at, names.n);
  vec_free(&names);
  return near;
}

static HlExploreResult unknown(HlExplore *e, const char *what, const char *name) {
  const char *near = nearest_name(e, name);
  hl_buf_printf(e->out, "no %s is called '%.200s'", what, name);
  if (near)
    hl_buf_printf(e->out, "; did you mean '%s'?", near);
  hl_buf_putc(e->out, '\n');
  return HL_EXPLORE_WRONG;
}

// --- Instructions as lines ----------------------------------------------------------------------------

static void put_inst(HlExplore *e, const HlInst *inst) {
  const HlTextOptions how = {.metadata = HL_OFF, .backend_config = hl_switch(e->backend_config)};
  HlBuf text = {0};
  hl_text_print_inst(e->cx, inst, &how, &text);
  size_t n = text.n < MAX_TEXT ? text.n : MAX_TEXT;
  while (n < text.n && n > 0 && (text.at[n] & 0xc0) == 0x80)
    n--;
  hl_buf_puts(e->out, inst == inst->comp->root ? "ROOT " : "");
  hl_buf_add(e->out, text.at, n);
  hl_buf_puts(e->out, n < text.n ? " ...\n" : "\n");
  hl_buf_free(&text);
}

static void put_shape(HlExplore *e, const HlShape *shape) {
  hl_shape_print(e->out, shape, true);
}

static int count_uses(const HlInst *inst) {
  int n = 0;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    n++;
  return n;
}

// --- Drawing --------------------------------------------------------------------------------------

// "DIR/hilo-explore-3.add.7.html"
static char *drawing_path(HlExplore *e, const char *name) {
  HlBuf path = {0};
  hl_buf_printf(&path, "%s/hilo-explore-%d.", e->folder, ++e->n_drawn);
  for (const char *s = name; *s && s - name < 100; s++)
    hl_buf_putc(&path, is_alnum(*s) || *s == '.' || *s == '-' || *s == '_' ? *s : '_');
  hl_buf_printf(&path, ".%s", e->form);
  char *made = hl_arena_strndup(e->arena, path.at, path.n);
  hl_buf_free(&path);
  return made;
}

// Draws a computation, or `only` some of it, in the form that is asked for.
static HlExploreResult draw(HlExplore *e, const HlComp *comp, const HlInst *centre,
                            const bool *only) {
  if (strcmp(e->form, "none") == 0)
    return HL_EXPLORE_DONE;
  const HlViewOptions how = {
      .closed_fusions = !e->open_fusions, .centre = centre, .only = only, .marked = centre};
  const char *name = centre ? centre->name->text : comp->name->text;
  const char *path = drawing_path(e, name);
  HlBuf text = {0};
  if (strcmp(e->form, "dot") == 0) {
    hl_view_dot(e->cx, comp, &how, &text);
  } else if (strcmp(e->form, "svg") == 0) {
    hl_view_svg(e->cx, comp, &how, &text);
  } else {
    HlPage *page = hl_page_new(e->m->name->text);
    hl_page_add(e->cx, page, comp, &how, name);
    hl_page_print(page, &text);
    hl_page_free(page);
  }
  const bool ok = hl_write_file(e->cx, path, text.at, text.n);
  hl_buf_free(&text);
  if (!ok)
    return HL_EXPLORE_FAILED;
  hl_buf_printf(e->out, "drawn: %s\n", path);
  if (e->show)
    e->show(e->user, path);
  return HL_EXPLORE_DONE;
}

// --- What is near -----------------------------------------------------------------------------------

typedef struct Near {
  const HlInst *inst;
  int steps;
  bool up;  // reached over an operand
} Near;
typedef struct Walk {
  VEC(Near) at;
  bool *found;                  // by id
  VEC(const HlInst *) skipped;  // whose users were not followed
} Walk;

static void reach(Walk *walk, const HlInst *inst, int steps, bool up) {
  if (walk->found[inst->id])
    return;
  walk->found[inst->id] = true;
  vec_push(&walk->at, ((Near){inst, steps, up}));
}

static bool is_stop(const HlInst *inst, const HlInst *const *stops, int n) {
  for (int k = 0; k < n; k++)
    if (stops[k] == inst)
      return true;
  return false;
}

// At most `width` steps over operands and users, not beyond the stops; of what very many use, not to all its users.
static void walk_around(HlExplore *e, Walk *walk, const HlInst *centre, int width,
                        const HlInst *const *stops, int n_stops) {
  *walk = (Walk){.found = HL_ARRAY(e->arena, bool, centre->comp->next_id + 1)};
  reach(walk, centre, 0, false);
  for (int k = 0; k < walk->at.n; k++) {
    const Near near = walk->at.at[k];
    if (near.steps == width || is_stop(near.inst, stops, n_stops))
      continue;
    for (uint32_t o = 0; o < near.inst->n_operands; o++)
      reach(walk, near.inst->operands[o], near.steps + 1, true);
    if (near.steps > 0 && (near.inst->op == HL_OP_CONSTANT || count_uses(near.inst) > MANY_USERS)) {
      vec_push(&walk->skipped, near.inst);
      continue;
    }
    for (const HlUse *use = near.inst->first_use; use; use = use->next)
      reach(walk, use->user, near.steps + 1, false);
  }
}

static int count_hidden(const Walk *walk) {
  int n = 0;
  for (int k = 0; k < walk->skipped.n; k++)
    for (const HlUse *use = walk->skipped.at[k]->first_use; use; use = use->next)
      n += !walk->found[use->user->id];
  return n;
}

static HlExploreResult show_near(HlExplore *e, const HlInst *centre, int width,
                                 const HlInst *const *stops, int n_stops) {
  Walk walk;
  walk_around(e, &walk, centre, width, stops, n_stops);
  for (int k = 0; k < walk.at.n && k < MAX_LISTED; k++) {
    const Near near = walk.at.at[k];
    hl_buf_printf(e->out, "%*s%s ", near.steps * 2, "", k == 0 ? "*" : near.up ? "^" : "v");
    put_inst(e, near.inst);
  }
  if (walk.at.n > MAX_LISTED)
    hl_buf_printf(e->out, "... and %d more\n", walk.at.n - MAX_LISTED);
  const int hidden = count_hidden(&walk);
  if (hidden)
    hl_buf_printf(e->out,
                  "not followed: %d use%s of constants and of what has more than %d users\n",
                  hidden, hidden == 1 ? "" : "s", MANY_USERS);
  vec_free(&walk.at);
  vec_free(&walk.skipped);
  return draw(e, centre->comp, centre, walk.found);
}

static bool read_number(const char *word, int *out) {
  char *end;
  const long value = strtol(word, &end, 10);
  if (end == word || *end || value < 0 || value > 1000000)
    return false;
  *out = (int)value;
  return true;
}

// NAME [width] [/ stop...]
static HlExploreResult run_near(HlExplore *e, const HlInst *centre) {
  int width = 2, k = 1;
  if (k < e->n_words && strcmp(e->word[k], "/") != 0 && !read_number(e->word[k++], &width)) {
    hl_buf_printf(e->out, "the width is a whole number, not '%.100s'\n", e->word[k - 1]);
    return HL_EXPLORE_WRONG;
  }
  if (k < e->n_words && strcmp(e->word[k++], "/") != 0) {
    hl_buf_puts(e->out, "what nodes to stop at stands behind a '/'\n");
    return HL_EXPLORE_WRONG;
  }
  const HlInst **stops = HL_ARRAY(e->arena, const HlInst *, MAX_WORDS);
  int n_stops = 0;
  for (; k < e->n_words; k++) {
    const HlInst *stop = find_inst(e, e->word[k]);
    if (!stop)
      return unknown(e, "instruction", e->word[k]);
    stops[n_stops++] = stop;
  }
  return show_near(e, centre, width, stops, n_stops);
}

static HlExploreResult run_comp(HlExplore *e, const HlComp *comp) {
  int k = 0;
  for (const HlInst *inst = comp->first; inst; inst = inst->next, k++)
    if (k < MAX_LISTED)
      put_inst(e, inst);
  if (k > MAX_LISTED)
    hl_buf_printf(e->out, "... and %d more\n", k - MAX_LISTED);
  return draw(e, comp, NULL, NULL);
}

// --- Paths ----------------------------------------------------------------------------------------

// What a value is computed from, by id.
static bool *find_cone(HlExplore *e, const HlInst *of) {
  bool *cone = HL_ARRAY(e->arena, bool, of->comp->next_id + 1);
  cone[of->id] = true;
  for (const HlInst *inst = of->comp->last; inst; inst = inst->prev)
    for (uint32_t k = 0; cone[inst->id] && k < inst->n_operands; k++)
      cone[inst->operands[k]->id] = true;
  return cone;
}

typedef struct Step {
  const HlInst *inst;
  const HlUse *next;  // of its uses, to go on with
} Step;

// Whether the user has it as an earlier operand, too: one step, however many operands.
static bool is_seen(const HlInst *inst, const HlUse *use) {
  for (int k = 0; k < use->number; k++)
    if (use->user->operands[k] == inst)
      return true;
  return false;
}

static void put_path(HlExplore *e, const Step *path, int n, bool *drawn) {
  for (int k = 0; k < n; k++) {
    hl_buf_printf(e->out, "%s%s", k ? " -> " : "", path[k].inst->name->text);
    drawn[path[k].inst->id] = true;
  }
  hl_buf_putc(e->out, '\n');
}

// Prints ways from one to another over users, at most `most`; how many.
static int put_paths(HlExplore *e, const HlInst *from, const HlInst *to, int most, bool *drawn) {
  const bool *cone = find_cone(e, to);
  if (!cone[from->id])
    return 0;
  VEC(Step) path = {0};
  vec_push(&path, ((Step){from, from->first_use}));
  int found = 0;
  while (path.n > 0 && found < most) {
    Step *step = &vec_last(&path);
    if (step->inst == to) {
      put_path(e, path.at, path.n, drawn);
      found++;
      step->next = NULL;
    }
    while (step->next && (!cone[step->next->user->id] || is_seen(step->inst, step->next)))
      step->next = step->next->next;
    if (!step->next) {
      path.n--;
      continue;
    }
    const HlInst *user = step->next->user;
    step->next = step->next->next;
    vec_push(&path, ((Step){user, user->first_use}));
  }
  vec_free(&path);
  return found;
}

static HlExploreResult run_allpaths(HlExplore *e) {
  int most = 100;
  if (e->n_words < 3 || e->n_words > 4 || (e->n_words == 4 && !read_number(e->word[3], &most))) {
    hl_buf_puts(e->out, "allpaths A B [n]\n");
    return HL_EXPLORE_WRONG;
  }
  const HlInst *a = find_inst(e, e->word[1]), *b = find_inst(e, e->word[2]);
  if (!a || !b)
    return unknown(e, "instruction", e->word[a ? 2 : 1]);
  if (a->comp != b->comp) {
    hl_buf_printf(
        e->out, "'%s' is in computation %s, '%s' in %s: there are no paths between computations\n",
        a->name->text, a->comp->name->text, b->name->text, b->comp->name->text);
    return HL_EXPLORE_WRONG;
  }
  bool *drawn = HL_ARRAY(e->arena, bool, a->comp->next_id + 1);
  int n = put_paths(e, a, b, most, drawn);
  if (n == 0)
    n = put_paths(e, b, a, most, drawn);
  hl_buf_printf(e->out, "%d path%s%s\n", n, n == 1 ? "" : "s",
                n == most ? ", and perhaps more" : "");
  return n ? draw(e, a->comp, a, drawn) : HL_EXPLORE_DONE;
}

// --- Lists ----------------------------------------------------------------------------------------

static const char *op_name(const HlInst *inst) {
  const HlMetadata *data = hl_metadata(inst);
  return data && data->op_name ? data->op_name->text : "";
}

static const char *op_type(const HlInst *inst) {
  const HlMetadata *data = hl_metadata(inst);
  return data && data->op_type ? data->op_type->text : "";
}

static HlExploreResult list_comps(HlExplore *e) {
  hl_buf_printf(e->out, "ENTRY %s: %u instructions\n", e->m->entry->name->text,
                e->m->entry->n_insts);
  for (const HlComp *comp = e->m->first; comp; comp = comp->next)
    if (comp != e->m->entry)
      hl_buf_printf(e->out, "%s: %u instructions\n", comp->name->text, comp->n_insts);
  return HL_EXPLORE_DONE;
}

typedef enum ListBy { BY_NAME, BY_OP_NAME, BY_OP_TYPE } ListBy;

static HlExploreResult run_list(HlExplore *e) {
  static const char *const words[] = {"name", "op_name", "op_type"};
  ListBy by = BY_NAME;
  if (e->n_words == 2 && same_word(e->word[1], "computations"))
    return list_comps(e);
  for (int k = 0; e->n_words == 3 && k < HL_COUNT_OF(words); k++)
    if (same_word(e->word[1], words[k]))
      by = (ListBy)k;
  if (e->n_words < 2 || e->n_words > 3 || (e->n_words == 3 && !same_word(e->word[1], words[by]))) {
    hl_buf_puts(e->out, "list [name|op_name|op_type] PATTERN, or list computations\n");
    return HL_EXPLORE_WRONG;
  }
  const char *pattern = e->word[e->n_words - 1];
  int n = 0;
  for (const HlComp *comp = e->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next) {
      const char *text = by == BY_NAME      ? inst->name->text
                         : by == BY_OP_NAME ? op_name(inst)
                                            : op_type(inst);
      if (!strstr(text, pattern))
        continue;
      n++;
      hl_buf_printf(e->out, "%s  op_name: \"%s\"  op_type: \"%s\"\n", inst->name->text,
                    op_name(inst), op_type(inst));
    }
  hl_buf_printf(e->out, "%d found\n", n);
  return HL_EXPLORE_DONE;
}

// `users NAME`, `operands NAME`: all of them, one a line.
static HlExploreResult run_edges(HlExplore *e, bool users) {
  const HlInst *inst = e->n_words == 2 ? find_inst(e, e->word[1]) : NULL;
  if (e->n_words != 2) {
    hl_buf_printf(e->out, "%s NAME\n", users ? "users" : "operands");
    return HL_EXPLORE_WRONG;
  }
  if (!inst)
    return unknown(e, "instruction", e->word[1]);
  int n = 0;
  for (uint32_t k = 0; !users && k < inst->n_operands; k++, n++) {
    hl_buf_printf(e->out, "%u  ", k);
    put_inst(e, inst->operands[k]);
  }
  for (const HlUse *use = users ? inst->first_use : NULL; use; use = use->next, n++) {
    hl_buf_printf(e->out, "operand %d of  ", use->number);
    put_inst(e, use->user);
  }
  hl_buf_printf(e->out, "%d %s%s\n", n, users ? "use" : "operand", n == 1 ? "" : "s");
  return HL_EXPLORE_DONE;
}

// --- What a thing is --------------------------------------------------------------------------------

static void put_metadata(HlExplore *e, const HlInst *inst) {
  const HlMetadata *data = hl_metadata(inst);
  if (!data)
    return;
  hl_buf_puts(e->out, "metadata:\n");
  if (data->op_type)
    hl_buf_printf(e->out, "  op_type: %s\n", data->op_type->text);
  if (data->op_name)
    hl_buf_printf(e->out, "  op_name: %s\n", data->op_name->text);
  if (data->source_file)
    hl_buf_printf(e->out, "  source: %s:%d\n", data->source_file->text, data->source_line);
}

static void put_fusion(HlExplore *e, const HlInst *inst) {
  const char *kind = hl_enum_text(hl_attr_info[HL_A_KIND].words, hl_attr_int(inst, HL_A_KIND));
  const HlComp *body = inst->n_calls ? inst->calls[0].comp : NULL;
  hl_buf_printf(e->out, "fusion kind: %s\n", kind ? kind : "?");
  if (body)
    hl_buf_printf(e->out, "fusion computation: %s\nfusion root: %s\n", body->name->text,
                  body->root->name->text);
}

static HlExploreResult info_inst(HlExplore *e, const HlInst *inst) {
  hl_buf_printf(e->out,
                "instruction %s\ncomputation: %s\nopcode: %s (%s)\nshape: ", inst->name->text,
                inst->comp->name->text, hl_op_text(inst->op), hl_op_info[inst->op].meaning);
  put_shape(e, inst->shape);
  hl_buf_putc(e->out, '\n');
  put_metadata(e, inst);
  if (e->backend_config && *hl_attr_text(inst, HL_A_BACKEND_CONFIG))
    hl_buf_printf(e->out, "backend_config: %s\n", hl_attr_text(inst, HL_A_BACKEND_CONFIG));
  if (inst->op == HL_OP_FUSION)
    put_fusion(e, inst);
  const HlCost cost = hl_cost_inst(inst);
  hl_buf_printf(e->out,
                "cost: %.0f flops, %.0f transcendentals, %.0f bytes read, %.0f bytes written\n",
                cost.flops, cost.transcendentals, cost.bytes_read, cost.bytes_written);
  hl_buf_printf(e->out, "operands: %u\n", inst->n_operands);
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    hl_buf_printf(e->out, "  %s ", inst->operands[k]->name->text);
    put_shape(e, inst->operands[k]->shape);
    hl_buf_putc(e->out, '\n');
  }
  const int uses = count_uses(inst);
  hl_buf_printf(e->out, "users: %d\n", uses);
  int n = 0;
  for (const HlUse *use = inst->first_use; use && n < MAX_LISTED; use = use->next, n++)
    hl_buf_printf(e->out, "  %s\n", use->user->name->text);
  if (uses > MAX_LISTED)
    hl_buf_printf(e->out, "  ... and %d more\n", uses - MAX_LISTED);
  hl_buf_printf(e->out, "root: %s\n", inst == inst->comp->root ? "yes" : "no");
  return HL_EXPLORE_DONE;
}

static HlExploreResult info_comp(HlExplore *e, const HlComp *comp) {
  hl_buf_printf(e->out, "computation %s%s\ninstructions: %u\n", comp->name->text,
                comp == e->m->entry ? " (entry)" : "", comp->n_insts);
  const HlInst *caller = comp->first_call ? comp->first_call->caller : NULL;
  if (caller && caller->op == HL_OP_FUSION)
    hl_buf_printf(e->out, "fusion instruction: %s\n", caller->name->text);
  hl_buf_printf(e->out, "parameters: %d\n", comp->n_params);
  for (int k = 0; k < comp->n_params; k++) {
    hl_buf_printf(e->out, "  %s ", comp->params[k]->name->text);
    put_shape(e, comp->params[k]->shape);
    hl_buf_putc(e->out, '\n');
  }
  hl_buf_printf(e->out, "root: %s ", comp->root->name->text);
  put_shape(e, comp->root->shape);
  hl_buf_puts(e->out, "\nembedded computations:\n");
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    for (int k = 0; k < inst->n_calls; k++)
      hl_buf_printf(e->out, "  %s, called by %s\n", inst->calls[k].comp->name->text,
                    inst->name->text);
  hl_buf_puts(e->out, "users:\n");
  for (const HlCall *call = comp->first_call; call; call = call->next)
    hl_buf_printf(e->out, "  %s in %s\n", call->caller->name->text, call->caller->comp->name->text);
  const HlCost cost = hl_cost_comp(comp);
  hl_buf_printf(e->out,
                "cost: %.0f flops, %.0f transcendentals, %.0f bytes read, %.0f bytes written\n",
                cost.flops, cost.transcendentals, cost.bytes_read, cost.bytes_written);
  return HL_EXPLORE_DONE;
}

static HlExploreResult run_info(HlExplore *e) {
  if (e->n_words != 2) {
    hl_buf_puts(e->out, "info NAME\n");
    return HL_EXPLORE_WRONG;
  }
  const HlInst *inst = find_inst(e, e->word[1]);
  const HlComp *comp = find_comp(e, e->word[1]);
  if (!inst && !comp)
    return unknown(e, "instruction or computation", e->word[1]);
  return inst ? info_inst(e, inst) : info_comp(e, comp);
}

// --- Extracts -------------------------------------------------------------------------------------

static HlExploreResult write_extract(HlExplore *e, const HlExtract *extract, const char *name) {
  const HlTextOptions how = {.preset = HL_TEXT_SHORT,
                             .backend_config = hl_switch(e->backend_config)};
  HlBuf text = {0};
  hl_text_print(e->cx, extract->m, &how, &text);
  const char *path = hl_arena_printf(e->arena, "%s/%s-extracted.hlo", e->folder, name);
  const bool ok = hl_write_file(e->cx, path, text.at, text.n);
  if (ok && text.n < 4096)
    hl_buf_add(e->out, text.at, text.n);
  if (ok)
    hl_buf_printf(e->out, "written: %s\n", path);
  hl_buf_free(&text);
  return ok ? HL_EXPLORE_DONE : HL_EXPLORE_FAILED;
}

// extract NAME [height]: an instruction with what it is computed from, or a computation.
static HlExploreResult run_extract(HlExplore *e) {
  int height = -1;
  if (e->n_words < 2 || e->n_words > 3 || (e->n_words == 3 && !read_number(e->word[2], &height))) {
    hl_buf_puts(e->out, "extract NAME [height]\n");
    return HL_EXPLORE_WRONG;
  }
  const HlInst *inst = find_inst(e, e->word[1]);
  const HlComp *comp = find_comp(e, e->word[1]);
  if (!inst && !comp)
    return unknown(e, "instruction or computation", e->word[1]);
  HlExtract extract;
  const bool ok = inst ? hl_extract(e->cx, 1, &inst, height < 0 ? HL_WHOLE_CONE : height, &extract)
                       : hl_extract_comp(e->cx, comp, &extract);
  const HlExploreResult result =
      ok ? write_extract(e, &extract, inst ? inst->name->text : comp->name->text)
         : HL_EXPLORE_FAILED;
  hl_extract_free(&extract);
  return result;
}

// --- Switches, help ---------------------------------------------------------------------------------

static HlExploreResult run_switch(HlExplore *e, bool *what) {
  if (e->n_words == 2 && same_word(e->word[1], "on"))
    *what = true;
  else if (e->n_words == 2 && same_word(e->word[1], "off"))
    *what = false;
  else if (e->n_words > 1) {
    hl_buf_printf(e->out, "%s [on|off]\n", e->word[0]);
    return HL_EXPLORE_WRONG;
  }
  hl_buf_printf(e->out, "%s is %s\n", e->word[0], *what ? "on" : "off");
  return HL_EXPLORE_DONE;
}

static const char *const forms[] = {"html", "svg", "dot", "none"};

static HlExploreResult run_format(HlExplore *e) {
  for (int k = 0; e->n_words == 2 && k < HL_COUNT_OF(forms); k++)
    if (same_word(e->word[1], forms[k])) {
      base_free(e->form);
      e->form = base_strdup(forms[k]);
      hl_buf_printf(e->out, "drawings are %s%s\n", k == 3 ? "not made" : forms[k], "");
      return HL_EXPLORE_DONE;
    }
  if (e->n_words > 1) {
    hl_buf_puts(e->out, "format [html|svg|dot|none]\n");
    return HL_EXPLORE_WRONG;
  }
  hl_buf_printf(e->out, "drawings are %s\n", strcmp(e->form, "none") == 0 ? "not made" : e->form);
  return HL_EXPLORE_DONE;
}

static HlExploreResult do_serve(HlExplore *e) {
  if (e->serve)
    return e->serve(e->user, e->out) ? HL_EXPLORE_DONE : HL_EXPLORE_FAILED;
  hl_buf_puts(e->out, "no page is served from here\n");
  return HL_EXPLORE_WRONG;
}

static HlExploreResult do_users(HlExplore *e) {
  return run_edges(e, true);
}
static HlExploreResult do_operands(HlExplore *e) {
  return run_edges(e, false);
}
static HlExploreResult do_config(HlExplore *e) {
  return run_switch(e, &e->backend_config);
}
static HlExploreResult do_fusions(HlExplore *e) {
  return run_switch(e, &e->open_fusions);
}
static HlExploreResult do_quit(HlExplore *e) {
  return HL_EXPLORE_QUIT;
}
static HlExploreResult do_help(HlExplore *e);

static const struct {
  const char *word, *usage, *help;
  bool names;         // its words are names
  const char *words;  // else what they are, each followed by a blank
  HlExploreResult (*run)(HlExplore *e);
} commands[] = {
    {"allpaths", "allpaths A B [n]",
     "up to n (100) paths between two instructions, in either direction", true, "", run_allpaths},
    {"list", "list [name|op_name|op_type] PATTERN",
     "instructions in which the pattern occurs; also: list computations", false,
     "name op_name op_type computations ", run_list},
    {"info", "info NAME", "an instruction or computation: all there is to say", true, "", run_info},
    {"users", "users NAME", "every use of an instruction", true, "", do_users},
    {"operands", "operands NAME", "every operand of an instruction", true, "", do_operands},
    {"extract", "extract NAME [height]",
     "with what it is computed from, as a module NAME-extracted.hlo", true, "", run_extract},
    {"backend_config", "backend_config [on|off]", "whether backend configs are shown", false,
     "on off ", do_config},
    {"show_fusion_subcomputations", "show_fusion_subcomputations [on|off]",
     "whether fusions are drawn open", false, "on off ", do_fusions},
    {"format", "format [html|svg|dot|none]", "what drawings are", false, "html svg dot none ",
     run_format},
    {"help", "help", "this", false, "", do_help},
    {"serve", "serve", "a page in a browser that takes these commands and shows drawings", false, "", do_serve},
    {"quit", "quit, exit", "end (also Ctrl-D)", false, "", do_quit},
    {"exit", NULL, NULL, false, "", do_quit},
};

static HlExploreResult do_help(HlExplore *e) {
  hl_buf_printf(e->out, "%-38s %s\n", "NAME [width] [/ stop...]",
                "what is near an instruction: width (2) steps, not beyond the stops");
  hl_buf_printf(e->out, "%-38s %s\n", "COMPUTATION", "all of a computation");
  for (int k = 0; k < HL_COUNT_OF(commands); k++)
    if (commands[k].usage)
      hl_buf_printf(e->out, "%-38s %s\n", commands[k].usage, commands[k].help);
  hl_buf_puts(e->out, "Names match without regard to case, with or without %. In lists, * is the "
                      "instruction itself,\n"
                      "^ what was reached over an operand, v over a user, two blanks a step.\n");
  return HL_EXPLORE_DONE;
}

// --- A line ---------------------------------------------------------------------------------------

static bool split(HlExplore *e) {
  char *s = e->line;
  e->n_words = 0;
  for (;;) {
    while (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n')
      *s++ = 0;
    if (!*s)
      return true;
    if (e->n_words == MAX_WORDS)
      return false;
    e->word[e->n_words++] = s;
    s += strcspn(s, " \t\r\n");
  }
}

// The commands go before names; what is called like a command is shown by `info`.
static HlExploreResult run_words(HlExplore *e) {
  for (int k = 0; k < HL_COUNT_OF(commands); k++)
    if (same_word(e->word[0], commands[k].word))
      return commands[k].run(e);
  const HlInst *inst = find_inst(e, e->word[0]);
  if (inst)
    return run_near(e, inst);
  const HlComp *comp = find_comp(e, e->word[0]);
  if (comp && e->n_words > 1) {
    hl_buf_puts(e->out, "a computation is drawn whole: nothing follows its name\n");
    return HL_EXPLORE_WRONG;
  }
  return comp ? run_comp(e, comp) : unknown(e, "command, instruction or computation", e->word[0]);
}

HlExploreResult hl_explore_run(HlExplore *e, const char *line, HlBuf *out) {
  e->out = out;
  e->arena = hl_arena_new();
  e->line = hl_arena_strndup(e->arena, line, strlen(line));
  HlExploreResult result = HL_EXPLORE_DONE;
  if (!split(e)) {
    hl_buf_puts(out, "too many words\n");
    result = HL_EXPLORE_WRONG;
  } else if (e->n_words == 0) {
    hl_buf_puts(out, "enter 'help' for help; Ctrl-D, 'quit' or 'exit' to end\n");
  } else {
    result = run_words(e);
  }
  hl_arena_free(e->arena);
  e->arena = NULL;
  return result;
}

// --- Completion -----------------------------------------------------------------------------------

typedef struct Found {
  HlArena *arena;
  const char **at;
  int n, most;
  const char *prefix;
  size_t n_prefix;
} Found;

static void offer(Found *found, const char *word, size_t n) {
  if (found->n < found->most && n >= found->n_prefix &&
      same_letters(word, found->prefix, found->n_prefix))
    found->at[found->n++] = hl_arena_strndup(found->arena, word, n);
}

static void offer_names(Found *found, const HlModule *m) {
  for (const HlComp *comp = m->first; comp && found->n < found->most; comp = comp->next) {
    offer(found, comp->name->text, comp->name->n);
    for (const HlInst *inst = comp->first; inst && found->n < found->most; inst = inst->next)
      offer(found, inst->name->text, inst->name->n);
  }
}

static void offer_words(Found *found, const char *words) {
  for (const char *s = words; *s; s += strcspn(s, " ") + 1)
    offer(found, s, strcspn(s, " "));
}

const char **hl_explore_complete(const HlExplore *e, HlArena *arena, const char *line, int most,
                                 size_t *start, int *n) {
  size_t at = strlen(line);
  while (at > 0 && line[at - 1] != ' ' && line[at - 1] != '\t')
    at--;
  *start = at;
  const char *first = line + strspn(line, " \t");
  Found found = {arena, HL_ARRAY(arena, const char *, most + 1), 0, most, bare(line + at), 0};
  found.n_prefix = strlen(found.prefix);
  *start += (size_t)(found.prefix - (line + at));
  int command = -1;
  const size_t n_first = strcspn(first, " \t");
  for (int k = 0; k < HL_COUNT_OF(commands); k++)
    if (first < line + at && strlen(commands[k].word) == n_first &&
        same_letters(commands[k].word, first, n_first))
      command = k;
  if (first >= line + at)
    for (int k = 0; k < HL_COUNT_OF(commands); k++)
      offer(&found, commands[k].word, strlen(commands[k].word));
  if (command >= 0)
    offer_words(&found, commands[command].words);
  if (command < 0 || commands[command].names)
    offer_names(&found, e->m);
  *n = found.n;
  return found.at;
}
