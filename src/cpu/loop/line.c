// cpu/loop/line.c: a straight line of instructions, made as small loops are but for turns.

#include "cpu/loop/line.h"

#include "cpu/loop/ops.h"
#include "hilo/op.h"

enum { MAX_SOURCES = 64, MAX_RESULTS = 64, MAX_INSTS = 200 };

typedef struct Line {
  CpuKernel base;
  EmitLoopFn *fn;
  int n_constants;
  const void *const *constant;  // behind the buffers
  int n_ops;
  const char *text;  // of its machine code; NULL: it is not kept
} Line;

typedef struct Result {
  const HlShape *shape;
  bool row;
  bool updates;
  Ask update;
  Val value;
  Affine to;
} Result;

typedef struct Make {
  LoopOps ops;
  Frame *frame;
  const HlInst *const *member;
  int n_members;
  TileSource source[MAX_SOURCES];
  int n_sources;
  Result result[MAX_RESULTS];
  TileSource over[MAX_RESULTS];
  int n_results;
} Make;

static bool run(const CpuKernel *kernel, CpuTeam *team, void *const *buffer, const char **why) {
  const Line *line = (const Line *)(const void *)kernel;
  void *pointer[MAX_SOURCES + MAX_RESULTS + TILE_MAX_BUFFERS];
  if (line->n_constants == 0) {
    line->fn(1, buffer);
    return true;
  }
  for (int k = 0; k < kernel->n_buffers; k++)
    pointer[k] = buffer[k];
  for (int k = 0; k < line->n_constants; k++)
    pointer[kernel->n_buffers + k] = (void *)(uintptr_t)line->constant[k];
  line->fn(1, pointer);
  return true;
}

static void print(HlBuf *out, const CpuKernel *kernel) {
  const Line *line = (const Line *)(const void *)kernel;
  hl_buf_printf(out, "  %d ops, in registers\n", line->n_ops);
  if (line->text)
    hl_buf_puts(out, line->text);
}

static const CpuKernelKind kind_line = {"line", NULL, run, print};

// --- What is read ----------------------------------------------------------------------------------------

static bool is_member(const Make *m, const HlInst *inst) {
  for (int k = 0; k < m->n_members; k++)
    if (m->member[k] == inst)
      return true;
  return false;
}

// Whether it only shows what a member makes.
static bool shows_member(const Make *m, const HlInst *inst) {
  while (inst->op == HL_OP_BITCAST || inst->op == HL_OP_GET_TUPLE_ELEMENT) {
    inst = inst->operands[0];
    if (is_member(m, inst))
      return true;
  }
  return false;
}

static bool given(Lower *l, const Ask *ask, Val *out) {
  Make *m = l->giver;
  const HlInst *inst = ask->inst;
  *out = NO_VAL;
  if (ask->frame != m->frame || is_member(m, inst) || inst->op == HL_OP_CONSTANT ||
      shows_member(m, inst))
    return loop_given(l, ask, out);
  const HlShape *shape = cpu_leaf(inst->shape, ask->leaf);
  int k = 0;
  while (k < m->n_sources && (m->source[k].inst != inst || m->source[k].leaf != ask->leaf))
    k++;
  if (k == MAX_SOURCES || !hl_shape_is_array(shape) || hl_shape_is_dynamic(shape) ||
      hl_shape_elements(shape) == 0) {
    tile_fail(l, "an operand that is no array");
    return true;
  }
  if (k == m->n_sources)
    m->source[m->n_sources++] = (TileSource){inst, ask->leaf};
  const Affine at = affine_dot(shape->rank, ask->map, cpu_strides(l->arena, shape));
  *out = tile_load(l, k, ask->raw ? tile_raw_dtype(shape->dtype) : shape->dtype, &at, ask->scope);
  return true;
}

// --- What is made ----------------------------------------------------------------------------------------

static bool add_result(Make *m, const HlInst *inst, int leaf) {
  if (m->n_results == MAX_RESULTS)
    return false;
  Result *r = &m->result[m->n_results];
  *r = (Result){.shape = cpu_leaf(inst->shape, leaf)};
  if (!hl_shape_is_array(r->shape) || hl_shape_is_dynamic(r->shape) ||
      hl_shape_elements(r->shape) == 0)
    return false;
  const HlShape *made = r->shape;
  r->update = loop_maker_of(m->ops.l, (Ask){.frame = m->frame, .inst = inst, .leaf = leaf});
  r->updates = hl_shape_elements(made) > 1 && r->update.inst->op == HL_OP_DYNAMIC_UPDATE_SLICE;
  if (r->updates) {
    const Ask over = loop_maker_of(m->ops.l, (Ask){.frame = r->update.frame,
                                                   .inst = r->update.inst->operands[0],
                                                   .leaf = r->update.leaf});
    if (over.frame != m->frame || is_member(m, over.inst))
      return false;
    m->over[m->n_results] = (TileSource){over.inst, over.leaf};
    made = r->update.inst->operands[1]->shape;
  }
  m->n_results++;
  r->row = hl_shape_elements(made) > 1;
  return loop_take_length(&m->ops, made);
}

static bool ask_all(Make *m) {
  Lower *l = m->ops.l;
  int at = 0;
  for (int k = 0; k < m->n_members; k++)
    for (int leaf = 0; !l->why && leaf < cpu_leaf_count(m->member[k]->shape); leaf++) {
      Result *r = &m->result[at++];
      if (r->updates) {
        if (!loop_ask_update(&m->ops, &r->update, r->shape, &r->value, &r->to))
          return false;
        continue;
      }
      const Affine *map = loop_row_map(&m->ops, r->shape);
      r->value = tile_ask(l, &(Ask){m->frame, m->member[k], leaf, map, 0, false});
      r->to = affine_dot(r->shape->rank, map, cpu_strides(l->arena, r->shape));
      if (r->value.re < 0 || r->value.im >= 0)
        return false;
    }
  return !l->why && !l->again && l->block.n == 1;
}

static bool list_ops(Make *m) {
  bool good = true;
  for (int k = 0; good && k < m->n_results; k++)
    good = loop_op_of(&m->ops, m->result[k].value.re) >= 0 &&
           loop_knows_place(&m->ops, &m->result[k].to);
  for (int k = 0; good && k < m->n_results; k++)
    good = loop_store(&m->ops, m->n_sources + k, m->result[k].shape->dtype, &m->result[k].to,
                      m->result[k].value.re, m->result[k].row);
  return good;
}

// --- The whole -------------------------------------------------------------------------------------------

static bool finish(const Make *m, CpuLine *out) {
  const Lower *l = m->ops.l;
  CpuMaker *maker = l->maker;
  HlArena *arena = maker->arena;
  EmitLoopFn *fn = emit_loop(maker->code, l->arena, maker->level, (int)m->ops.n, m->ops.ops.n,
                             m->ops.ops.at, maker->name);
  if (!fn)
    return false;
  Line *line = HL_NEW(arena, Line);
  *line = (Line){.base = {&kind_line, m->n_sources + m->n_results, loop_cost(&m->ops) * 1e-9},
                 .fn = fn,
                 .n_constants = l->literal.n,
                 .constant = loop_constants(&m->ops),
                 .n_ops = m->ops.ops.n,
                 .text = emit_loop_text(maker->code, fn)};
  *out = (CpuLine){&line->base, m->n_sources,
                   hl_arena_copy(arena, m->source, sizeof *m->source * (size_t)m->n_sources),
                   hl_arena_copy(arena, m->over, sizeof *m->over * (size_t)m->n_results)};
  return true;
}

static bool make(CpuMaker *maker, HlArena *arena, const HlComp *comp, const HlInst *const *member,
                 int n_members, CpuLine *out) {
  Lower *l = HL_NEW(arena, Lower);
  Make *m = HL_NEW(arena, Make);
  l->maker = maker;
  l->arena = arena;
  l->given = given;
  l->giver = m;
  tile_nest_start(l);
  m->ops = (LoopOps){.l = l, .array = HL_ARRAY(arena, LoopArray, MAX_SOURCES), .n = 1};
  m->frame = tile_frame(l, comp);
  m->member = member;
  m->n_members = n_members;
  for (int k = 0; k < n_members; k++)
    for (int leaf = 0; leaf < cpu_leaf_count(member[k]->shape); leaf++)
      if (!add_result(m, member[k], leaf))
        return false;
  m->ops.row = affine_axis(l, m->ops.n, 0);
  if (!ask_all(m))
    return false;
  m->ops.n_arrays = m->n_sources + m->n_results;
  loop_ops_start(&m->ops);
  return list_ops(m) && finish(m, out);
}

bool cpu_line_may(const HlInst *inst) {
  int left = MAX_INSTS;
  return inst->op != HL_OP_CONDITIONAL && loop_may_compute_inst(inst, &left);
}

bool cpu_line_make(CpuMaker *maker, const HlComp *comp, const HlInst *const *member, int n_members,
                   CpuLine *out) {
  if (!maker->code || maker->no_emit || n_members > CPU_LINE_MEMBERS)
    return false;
  HlArena *arena = hl_cx_scratch(maker->cx);
  const HlMark mark = hl_arena_mark(arena);
  const bool good = make(maker, arena, comp, member, n_members, out);
  hl_arena_release(arena, mark);
  return good;
}
