// cpu/loop/make.c: from a while loop to the ops of a machine code loop.
//
// Condition and body are lowered as tile programs are, to a graph of nodes (cpu/tile/build.h): the leaves of the state are its
// buffers, and what the body makes of them is asked for at the indices of a row. What comes out is looked over: only loads
// and ops on elements may be there.
//
//   leaf of the state      the body's root has there                                is
//   any array              the same leaf                                            memory that is read
//   any array              dynamic-update-slice of that leaf                        memory that is written at the end of a turn
//   an element, a row      what is computed                                         in registers

#include "cpu/loop/loop.h"

#include "cpu/loop/ops.h"
#include "hilo/op.h"

enum { MAX_LEAVES = 64, MAX_INSTS = 600 };

struct CpuLoop {
  EmitLoopFn *fn;
  int64_t turns;
  int n_leaves, n_constants;
  const void *const *constant;  // behind the leaves
  int n_ops;
  const char *text;  // of its machine code; NULL: it is not kept
};

typedef struct Leaf {
  const HlShape *shape;
  bool row;
  Ask update;  // WRITTEN: the dynamic-update-slice
  Val next;    // STATE: what is next; WRITTEN: what is put ...
  Affine to;   // ... there
} Leaf;

typedef struct Make {
  LoopOps ops;  // its arrays are the leaves
  const HlInst *loop;
  Frame *condition, *body;
  Leaf leaf[MAX_LEAVES];
  LoopArray array[MAX_LEAVES];
  int n_leaves;
  int test;  // node
} Make;

// --- The leaves ----------------------------------------------------------------------------------------

static bool is_leaf(const Make *m, const Ask *at, int k) {
  return at->frame == m->body && at->inst->op == HL_OP_PARAMETER && at->leaf == k;
}

static bool sort_leaf(Make *m, int k) {
  Lower *l = m->ops.l;
  Leaf *leaf = &m->leaf[k];
  LoopArray *array = &m->array[k];
  *leaf = (Leaf){.shape = cpu_leaf(m->loop->shape, k)};
  *array = (LoopArray){.dtype = leaf->shape->dtype, .use = LOOP_USE_STATE, .op = -1};
  if (!hl_shape_is_array(leaf->shape) || hl_shape_is_dynamic(leaf->shape) ||
      hl_shape_elements(leaf->shape) == 0)
    return false;
  const Ask root = {.frame = m->body, .inst = m->body->comp->root, .leaf = k};
  const Ask maker = loop_maker_of(l, root);
  if (is_leaf(m, &maker, k)) {
    array->use = LOOP_USE_READ;
    return true;
  }
  if (hl_shape_elements(leaf->shape) > 1 && maker.inst->op == HL_OP_DYNAMIC_UPDATE_SLICE) {
    const Ask over = loop_maker_of(
        l, (Ask){.frame = maker.frame, .inst = maker.inst->operands[0], .leaf = maker.leaf});
    array->use = is_leaf(m, &over, k) ? LOOP_USE_WRITTEN : LOOP_USE_STATE;
    leaf->update = maker;
  }
  const HlShape *made =
      array->use == LOOP_USE_WRITTEN ? maker.inst->operands[1]->shape : leaf->shape;
  leaf->row = array->row = hl_shape_elements(made) > 1;
  return loop_take_length(&m->ops, made);
}

// --- Asking ----------------------------------------------------------------------------------------------

static bool ask_all(Make *m) {
  Lower *l = m->ops.l;
  const Ask root = {.frame = m->condition, .inst = m->condition->comp->root};
  m->test = tile_ask(l, &root).re;
  for (int k = 0; !l->why && k < m->n_leaves; k++) {
    Leaf *leaf = &m->leaf[k];
    const Ask ask = {m->body, m->body->comp->root, k, loop_row_map(&m->ops, leaf->shape), 0, false};
    if (m->array[k].use == LOOP_USE_WRITTEN &&
        !loop_ask_update(&m->ops, &leaf->update, leaf->shape, &leaf->next, &leaf->to))
      return false;
    if (m->array[k].use == LOOP_USE_STATE)
      leaf->next = tile_ask(l, &ask);
    if (m->array[k].use != LOOP_USE_READ && (leaf->next.re < 0 || leaf->next.im >= 0))
      return false;
  }
  return !l->why && !l->again && l->block.n == 1;
}

// --- Ops ---------------------------------------------------------------------------------------------------

static bool next_op(Make *m, int k) {
  const Leaf *leaf = &m->leaf[k];
  const int value = loop_op_of(&m->ops, leaf->next.re),
            state = loop_state_op(&m->ops, k, leaf->row, 0, -1);
  if (m->ops.ops.at[value].row && !leaf->row)
    return false;
  loop_add(&m->ops, (EmitLoopOp){.kind = LOOP_NEXT,
                                 .op = {.dtype = leaf->shape->dtype, .in = {value, state}},
                                 .row = leaf->row,
                                 .index = -1});
  return true;
}

static bool is_known(Make *m, int k) {
  const Leaf *leaf = &m->leaf[k];
  if (m->array[k].use == LOOP_USE_READ)
    return true;
  return loop_op_of(&m->ops, leaf->next.re) >= 0 &&
         (m->array[k].use == LOOP_USE_STATE ? loop_state_op(&m->ops, k, leaf->row, 0, -1) >= 0
                                            : loop_knows_place(&m->ops, &leaf->to));
}

// In the order in which it has to happen: all that is computed, the test, what is stored, what is next.
static bool list_ops(Make *m) {
  const int test = loop_op_of(&m->ops, m->test);
  bool good = test >= 0 && !loop_depends_on_row(&m->ops, m->test);
  for (int k = 0; good && k < m->n_leaves; k++)
    good = is_known(m, k);
  if (!good)
    return false;
  loop_add(&m->ops,
           (EmitLoopOp){.kind = LOOP_WHILE, .op = {.dtype = HL_PRED, .in = {test}}, .index = -1});
  for (int k = 0; good && k < m->n_leaves; k++)
    if (m->array[k].use == LOOP_USE_WRITTEN)
      good = loop_store(&m->ops, k, m->array[k].dtype, &m->leaf[k].to, m->leaf[k].next.re,
                        m->leaf[k].row);
  for (int k = 0; good && k < m->n_leaves; k++)
    good = m->array[k].use != LOOP_USE_STATE || next_op(m, k);
  return good;
}

// --- The whole ---------------------------------------------------------------------------------------------

static Frame *frame_of(Lower *l, const HlComp *comp) {
  Frame *frame = tile_frame(l, comp);
  frame->first_buffer = HL_ARRAY(l->arena, int, 1);  // the state is all buffers
  return frame;
}

static const CpuLoop *finish(const Make *m) {
  enum { SLICE_NS = 200000 };
  const Lower *l = m->ops.l;
  CpuMaker *maker = l->maker;
  EmitLoopFn *fn = emit_loop(maker->code, l->arena, maker->level, (int)m->ops.n, m->ops.ops.n,
                             m->ops.ops.at, maker->name);
  if (!fn)
    return NULL;
  CpuLoop *out = HL_NEW(maker->arena, CpuLoop);
  *out = (CpuLoop){.fn = fn,
                   .turns = (int64_t)(SLICE_NS / loop_cost(&m->ops)) + 1,
                   .n_leaves = m->n_leaves,
                   .n_constants = l->literal.n,
                   .constant = loop_constants(&m->ops),
                   .n_ops = m->ops.ops.n,
                   .text = emit_loop_text(maker->code, fn)};
  return out;
}

static const CpuLoop *make(CpuMaker *maker, HlArena *arena, const HlInst *loop) {
  Lower *l = HL_NEW(arena, Lower);
  l->maker = maker;
  l->arena = arena;
  l->given = loop_given;
  tile_nest_start(l);
  Make *m = HL_NEW(arena, Make);
  m->loop = loop;
  m->n_leaves = cpu_leaf_count(loop->shape);
  m->ops = (LoopOps){.l = l, .array = m->array, .n_arrays = m->n_leaves, .n = 1};
  m->condition = frame_of(l, hl_while_condition(loop));
  m->body = frame_of(l, hl_while_body(loop));
  for (int k = 0; k < m->n_leaves; k++)
    if (!sort_leaf(m, k))
      return NULL;
  m->ops.row = affine_axis(l, m->ops.n, 0);
  if (!ask_all(m))
    return NULL;
  loop_ops_start(&m->ops);
  return list_ops(m) ? finish(m) : NULL;
}

const CpuLoop *cpu_loop_make(CpuMaker *maker, const HlInst *loop) {
  int left = MAX_INSTS;
  if (!maker->code || maker->no_emit || cpu_leaf_count(loop->shape) > MAX_LEAVES ||
      !loop_may_compute(hl_while_condition(loop), &left) ||
      !loop_may_compute(hl_while_body(loop), &left))
    return NULL;
  HlArena *arena = hl_cx_scratch(maker->cx);
  const HlMark mark = hl_arena_mark(arena);
  const CpuLoop *out = make(maker, arena, loop);
  hl_arena_release(arena, mark);
  return out;
}

// --- Running ------------------------------------------------------------------------------------------------

int64_t cpu_loop_turns(const CpuLoop *loop) {
  return loop->turns;
}

bool cpu_loop_run(const CpuLoop *loop, void *const *buffer, int64_t *turns) {
  void *pointer[MAX_LEAVES + TILE_MAX_BUFFERS];
  for (int k = 0; k < loop->n_leaves; k++)
    pointer[k] = buffer[k];
  for (int k = 0; k < loop->n_constants; k++)
    pointer[loop->n_leaves + k] = (void *)(uintptr_t)loop->constant[k];
  const int64_t left = loop->fn(*turns, pointer);
  *turns -= left;
  return left > 0;
}

void cpu_loop_print(HlBuf *out, const CpuLoop *loop) {
  hl_buf_printf(out, "  %d ops on %d arrays, turn after turn in registers\n", loop->n_ops,
                loop->n_leaves);
  if (loop->text)
    hl_buf_puts(out, loop->text);
}
