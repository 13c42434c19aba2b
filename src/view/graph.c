// view/graph.c: chooses what to draw of a computation and how: tools.md 13 has the rules.
//
// Small constants and elements of tuples are not nodes: they are words of the nodes that use them.

#include "view/graph.h"

#include <string.h>

#include "hilo/text.h"

enum {
  SMALL_ARRAY = 4096,  // elements; below, arrows are hollow and parameters light
  SHOWN_ELEMENTS = 8,  // of a constant that is a word
  MAX_WORD = 64,       // characters of a line
  MAX_INLINED = 32,    // operand lines of a node
  MAX_DEPTH = 8        // of boxes in boxes
};

// --- Colours ------------------------------------------------------------------------------------

static const ViewColours white = {"white", "#9e9e9e", "black"};
static const ViewColours yellow = {"#fff9c4", "#cbc693", "black"};
static const ViewColours green = {"#c8e6c9", "#97b498", "black"};
static const ViewColours dark_blue = {"#1565c0", "#003c8f", "white"};
static const ViewColours orange = {"#ffe0b2", "#cbae82", "black"};
static const ViewColours dark_orange = {"#ffb74d", "#c88719", "black"};
static const ViewColours purple = {"#e1bee7", "#af8eb5", "black"};
static const ViewColours grey = {"#cfd8dc", "#9ea7aa", "black"};
static const ViewColours brown = {"#bcaaa4", "#8c7b75", "black"};
static const ViewColours dark_red = {"#b71c1c", "#7f0000", "white"};
static const ViewColours dark_green = {"#2e7d32", "#005005", "white"};

static bool is_small(const HlShape *shape) {
  return !hl_shape_is_array(shape) || hl_shape_elements(shape) < SMALL_ARRAY;
}

// Of ops whose family does not say their colour.
static const ViewColours *const colours_by_op[HL_OP_COUNT] = {
    [HL_OP_BROADCAST] = &yellow,
    [HL_OP_DYNAMIC_UPDATE_SLICE] = &yellow,
    [HL_OP_BITCAST] = &white,
    [HL_OP_PAD] = &white,
    [HL_OP_SLICE] = &white,
    [HL_OP_DYNAMIC_RESHAPE] = &green,
    [HL_OP_COPY] = &green,
    [HL_OP_PARAMETER] = &dark_orange,
    [HL_OP_BATCH_NORM_TRAINING] = &purple,
    [HL_OP_BATCH_NORM_INFERENCE] = &purple,
    [HL_OP_BATCH_NORM_GRAD] = &purple,
    [HL_OP_SCAN] = &purple,
    [HL_OP_GATHER] = &purple,
    [HL_OP_DOMAIN] = &grey,
    [HL_OP_FUSION] = &grey,
    [HL_OP_MAP] = &grey,
    [HL_OP_GET_DIMENSION_SIZE] = &grey,
    [HL_OP_SET_DIMENSION_SIZE] = &grey,
    [HL_OP_INFEED] = &brown,
    [HL_OP_OUTFEED] = &brown,
    [HL_OP_SEND] = &brown,
    [HL_OP_RECV] = &brown,
    [HL_OP_CUSTOM_CALL] = &dark_green,
};

static const ViewColours *colours_of(const HlInst *inst) {
  const HlOp op = (HlOp)inst->op;
  if (op == HL_OP_BITCAST && inst->comp->is_fusion)
    return &green;
  if (op == HL_OP_PARAMETER && is_small(inst->shape))
    return &orange;
  const ViewColours *own = colours_by_op[hl_op_plain(op)];
  return own                                           ? own
         : hl_op_is(op, HL_T_COLLECTIVE | HL_T_DEVICE) ? &brown
         : hl_op_is(op, HL_T_REARRANGES)               ? &green
         : hl_op_is(op, HL_T_FOLDS)                    ? &purple
         : hl_op_is(op, HL_T_MATRIX)                   ? &dark_blue
         : hl_op_is(op, HL_T_CONTROL)                  ? &dark_green
                                                       : &white;
}

int view_colour_class(const HlInst *inst) {
  static const ViewColours *const classes[] = {&white,  &yellow,      &green,  &dark_blue,
                                               &orange, &dark_orange, &purple, &grey,
                                               &brown,  &dark_green};
  const ViewColours *mine = colours_of(inst);
  for (int k = 0; k < HL_COUNT_OF(classes); k++)
    if (classes[k] == mine)
      return k;
  return 0;
}

// --- Words --------------------------------------------------------------------------------------

typedef struct Words {
  HlCx *cx;
  HlArena *arena;
  const char *line[MAX_INLINED + 16];
  int n;
} Words;

static void say(Words *w, const char *text) {
  size_t n = strlen(text);
  if (w->n == HL_COUNT_OF(w->line) || n == 0)
    return;
  w->line[w->n++] = n <= MAX_WORD ? hl_arena_strndup(w->arena, text, n)
                                  : hl_arena_printf(w->arena, "%.*s...", MAX_WORD, text);
}

static bool is_word(const HlInst *inst) {
  if (inst == inst->comp->root)
    return false;
  if (inst->op == HL_OP_CONSTANT)
    return true;
  return inst->op == HL_OP_BROADCAST && inst->comp->is_fusion &&
         inst->operands[0]->op == HL_OP_CONSTANT && hl_shape_is_scalar(inst->operands[0]->shape);
}

static const char *text_of_constant(Words *w, const HlInst *inst) {
  const HlLiteral *value = hl_constant(inst);
  bool shown = value && hl_shape_is_array(inst->shape) && value->n <= SHOWN_ELEMENTS &&
               !hl_literal_is_elided(value);
  HlBuf out = {0};
  hl_shape_print(&out, inst->shape, false);
  hl_buf_putc(&out, ' ');
  if (shown)
    hl_literal_print(&out, value);
  else
    hl_buf_puts(&out, inst->name->text);
  const char *text = hl_arena_strndup(w->arena, out.at, out.n);
  hl_buf_free(&out);
  return text;
}

static void say_inlined(Words *w, const HlInst *inst) {
  int n = 0;
  for (uint32_t k = 0; k < inst->n_operands && n < MAX_INLINED; k++) {
    const HlInst *operand = inst->operands[k];
    if (!is_word(operand))
      continue;
    const HlInst *value = operand->op == HL_OP_BROADCAST ? operand->operands[0] : operand;
    say(w, hl_arena_printf(w->arena, "operand %u = %s", k, text_of_constant(w, value)));
    n++;
  }
}

// The op of a computation that does one thing with its parameters, or NULL.
static const char *trivial_op(const HlComp *comp) {
  const HlInst *root = comp->root;
  if (!root || root->n_operands != 2 || comp->n_insts != 3 || comp->n_params != 2)
    return NULL;
  return hl_op_text((HlOp)root->op);
}

// What stands after the operands in the instruction's text, up to its called computations and metadata.
static void say_attributes(Words *w, const HlInst *inst) {
  static const HlAttrKey shown[] = {HL_A_DIMENSIONS,          HL_A_REPLICA_GROUPS,
                                    HL_A_SOURCE_TARGET_PAIRS, HL_A_CUSTOM_CALL_TARGET,
                                    HL_A_FEATURE_GROUP_COUNT, HL_A_DIRECTION};
  HlTextOptions options = {.preset = HL_TEXT_SHORT};
  options.metadata = options.backend_config = options.frames = HL_OFF;
  for (int k = 0; k < HL_COUNT_OF(shown); k++) {
    if (!hl_has_attr(inst, shown[k]))
      continue;
    HlBuf out = {0};
    hl_text_print_inst(w->cx, inst, &options, &out);
    const char *wanted = hl_arena_printf(w->arena, ", %s=", hl_attr_info[shown[k]].text);
    const char *at = strstr(out.at, wanted), *end = at ? strstr(at + 2, "=") : NULL;
    const char *next = end ? strstr(end, ", ") : NULL;
    while (next && !strchr("abcdefghijklmnopqrstuvwxyz", next[2]))
      next = strstr(next + 2, ", ");
    if (at)
      say(w, hl_arena_strndup(w->arena, at + 2, next ? (size_t)(next - at - 2) : strlen(at + 2)));
    hl_buf_free(&out);
  }
}

static void say_shape(Words *w, const HlInst *inst) {
  bool layout = hl_shape_is_array(inst->shape) && inst->shape->rank > 1;
  HlBuf out = {0};
  hl_shape_print(&out, inst->shape, layout);
  say(w, out.at);
  hl_buf_free(&out);
}

static void say_all(Words *w, const HlInst *inst, const HlViewOptions *options) {
  const char *op = hl_op_text((HlOp)inst->op);
  if (inst->op == HL_OP_PARAMETER)
    say(w, hl_arena_printf(w->arena, "Parameter %lld", (long long)hl_parameter_number(inst)));
  else
    say(w, inst->name->text);
  if (inst->op == HL_OP_PARAMETER)
    say(w, inst->name->text);
  else if (inst->op == HL_OP_FUSION)
    say(w,
        hl_arena_printf(w->arena, "fusion:%s",
                        hl_enum_text(hl_attr_info[HL_A_KIND].words, hl_attr_int(inst, HL_A_KIND))));
  else if (strncmp(inst->name->text, op, strlen(op)) != 0)
    say(w, op);
  if (options->names_only)
    return;
  for (int k = 0; inst->op != HL_OP_FUSION && k < inst->n_calls; k++)
    if (trivial_op(hl_called(inst, k)))
      say(w, hl_arena_printf(w->arena, "Subcomputation: %s", trivial_op(hl_called(inst, k))));
  say_attributes(w, inst);
  say_shape(w, inst);
  say_inlined(w, inst);
}

// --- Nodes and edges ----------------------------------------------------------------------------

typedef struct Builder {
  HlCx *cx;
  HlArena *arena;
  const HlViewOptions *options;
  int depth;
} Builder;

static ViewGraph *build(Builder *b, const HlComp *comp, const char *title);

static ViewGraph *inside_of(Builder *b, const HlInst *inst) {
  if (inst->op != HL_OP_FUSION || b->options->closed_fusions || b->depth >= MAX_DEPTH)
    return NULL;
  b->depth++;
  ViewGraph *inside = build(
      b, hl_to_apply(inst),
      hl_arena_printf(b->arena, "Fused expression for %s\nkind=%s", inst->name->text,
                      hl_enum_text(hl_attr_info[HL_A_KIND].words, hl_attr_int(inst, HL_A_KIND))));
  b->depth--;
  return inside;
}

static const char *hint_of(HlArena *arena, const HlInst *inst) {
  const HlMetadata *d = hl_metadata(inst);
  if (!d)
    return "";
  return hl_arena_printf(arena, "%s%s%s%s", d->op_name ? d->op_name->text : "",
                         d->source_file ? "\n" : "", d->source_file ? d->source_file->text : "",
                         d->source_line ? hl_arena_printf(arena, ":%d", (int)d->source_line) : "");
}

static ViewNode make_node(Builder *b, const HlInst *inst) {
  Words words = {.cx = b->cx, .arena = b->arena};
  say_all(&words, inst, b->options);
  return (ViewNode){.inst = inst,
                    .line =
                        hl_arena_copy(b->arena, words.line, sizeof *words.line * (size_t)words.n),
                    .n_lines = words.n,
                    .colours = inst == b->options->marked ? &dark_red : colours_of(inst),
                    .ellipse = inst->op == HL_OP_WHILE,
                    .is_root = inst == inst->comp->root,
                    .hint = hint_of(b->arena, inst),
                    .inside = inside_of(b, inst)};
}

static bool is_hidden(const HlInst *inst) {
  return is_word(inst) || (inst->op == HL_OP_GET_TUPLE_ELEMENT && inst != inst->comp->root);
}

// The node that an operand's edge comes from: elements of tuples are looked through; -1: a word.
static int source_of(const int *node, const HlInst *operand) {
  while (operand->op == HL_OP_GET_TUPLE_ELEMENT && node[operand->id] < 0)
    operand = operand->operands[0];
  return node[operand->id];
}

static void add_edges(ViewGraph *g, const int *node, int to) {
  const HlInst *inst = g->nodes[to].inst;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    int from = source_of(node, inst->operands[k]);
    if (from >= 0)
      g->edges[g->n_edges++] = (ViewEdge){.from = from,
                                          .to = to,
                                          .operand = (int)k,
                                          .small = is_small(inst->operands[k]->shape),
                                          .several = inst->n_operands > 1};
  }
  for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
    int from = source_of(node, inst->control->preds[k]);
    if (from >= 0 && from != to)
      g->edges[g->n_edges++] = (ViewEdge){.from = from, .to = to, .operand = -1};
  }
}

// --- What is near -------------------------------------------------------------------------------

enum { MANY_USERS = 16 };  // nobody looks at what so many use for its users' sake

// A step over these is no step.
static bool is_free_step(const HlInst *inst) {
  return inst->op == HL_OP_BITCAST || inst->op == HL_OP_GET_TUPLE_ELEMENT;
}

typedef struct Near {
  const HlInst **at;  // those found, nearest first
  int *steps;
  int n;
  bool *found;  // by id
} Near;

static void reach(Near *near, const HlInst *inst, int steps, int radius) {
  if (near->found[inst->id] || steps > radius)
    return;
  near->found[inst->id] = true;
  near->steps[near->n] = steps;
  near->at[near->n++] = inst;
}

static int count_users(const HlInst *inst) {
  int n = 0;
  for (const HlUse *use = inst->first_use; use && n <= MANY_USERS; use = use->next)
    n++;
  return n;
}

static void look_around(Near *near, const HlInst *inst, int steps, bool is_start, int radius) {
  int next = steps + (is_free_step(inst) && !is_start ? 0 : 1);
  for (uint32_t k = 0; (inst->op != HL_OP_TUPLE || is_start) && k < inst->n_operands; k++)
    reach(near, inst->operands[k], next - (next > steps && is_free_step(inst->operands[k])),
          radius);
  if (inst->op == HL_OP_CONSTANT || count_users(inst) > MANY_USERS)
    return;
  for (const HlUse *use = inst->first_use; use; use = use->next)
    reach(near, use->user, next - (next > steps && is_free_step(use->user)), radius);
}

// Which instructions, by id, are at most so many steps away.
static bool *find_near(HlArena *arena, const HlInst *centre, int radius, int *n) {
  const HlComp *comp = centre->comp;
  Near near = {HL_ARRAY(arena, const HlInst *, comp->n_insts + 1),
               HL_ARRAY(arena, int, comp->n_insts + 1), 0,
               HL_ARRAY(arena, bool, comp->next_id + 1)};
  reach(&near, centre, 0, radius);
  for (int k = 0; k < near.n; k++)
    look_around(&near, near.at[k], near.steps[k], k == 0, radius);
  *n = near.n;
  return near.found;
}

// NULL: all of the computation is drawn.
static const bool *chosen(Builder *b, const HlComp *comp) {
  const HlViewOptions *options = b->options;
  if (!options->centre || options->centre->comp != comp)
    return NULL;
  if (options->only)
    return options->only;
  int n, radius = options->radius;
  const bool *near = find_near(b->arena, options->centre, radius, &n);
  while (options->max_nodes > 0 && n > options->max_nodes && radius > 1)
    near = find_near(b->arena, options->centre, --radius, &n);
  return near;
}

static ViewGraph *build(Builder *b, const HlComp *comp, const char *title) {
  const bool *near = chosen(b, comp);
  ViewGraph *g = HL_NEW(b->arena, ViewGraph);
  int *node = HL_ARRAY(b->arena, int, comp->next_id + 1);
  size_t edges = 0;
  g->comp = comp;
  g->title = title;
  g->nodes = HL_ARRAY(b->arena, ViewNode, comp->n_insts + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    edges += inst->n_operands + (inst->control ? (size_t)inst->control->n_preds : 0);
    bool hidden = (near && !near[inst->id]) || (is_hidden(inst) && inst != b->options->centre);
    node[inst->id] = hidden ? -1 : g->n_nodes;
    if (!hidden)
      g->nodes[g->n_nodes++] = make_node(b, inst);
  }
  g->edges = HL_ARRAY(b->arena, ViewEdge, edges + 1);
  for (int k = 0; k < g->n_nodes; k++)
    add_edges(g, node, k);
  return g;
}

ViewGraph *view_graph(HlCx *cx, HlArena *arena, const HlComp *comp, const HlViewOptions *options) {
  Builder b = {cx, arena, options, 0};
  const HlModule *m = comp->module;
  const char *role = comp == m->entry   ? "ENTRY computation"
                     : comp->first_call ? hl_arena_printf(arena, "called by %s",
                                                          comp->first_call->caller->name->text)
                                        : "";
  return build(
      &b, comp,
      hl_arena_printf(arena, "%s\nComputation %s\n%s", m->name->text, comp->name->text, role));
}
