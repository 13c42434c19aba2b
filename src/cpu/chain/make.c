// cpu/chain/make.c: finds chains of two dots, and decides how they are computed.

#include <string.h>

#include "cpu/chain/plan.h"
#include "cpu/vec/vec.h"
#include "hilo/op.h"

// Of the first dot's result in a box; of what one turn's boxes share of an operand, at most.
enum { BOX_ELEMENTS = 1 << 15, FEWEST_ROWS = 24, MOST_ROWS = 128, KEPT_BYTES = 2 << 20 };

typedef struct Make {
  CpuMaker *maker;
  HlArena *arena;  // the maker's
  Chain *chain;
  const HlInst *call, *dot;  // the second dot, in `call` or (NULL) in the computation
  int rows_side;             // which operand of the first dot has the rows
  int side;                  // which of its operands the chain goes through
  const HlInst *value;  // that operand: of `call`, or of the computation where in_call is false
  bool in_call;
  int n_sources;
  TileSource source[CHAIN_MAX_SOURCES];
  ChainKernel *kernel;
} Make;

// --- Dots -----------------------------------------------------------------------------------------

// Algorithms that are computed as if they were not there.
static bool is_plain(const HlInst *dot) {
  return dot_is_plain(dot) && hl_shape_is_array(dot->shape) && !hl_shape_is_dynamic(dot->shape) &&
         hl_is_float(dot->shape->dtype);
}

static HlI64s batch_dims(const HlInst *dot, int side) {
  return hl_attr_ints(dot, side ? HL_A_RHS_BATCH_DIMS : HL_A_LHS_BATCH_DIMS);
}

static HlI64s contracting_dims(const HlInst *dot, int side) {
  return hl_attr_ints(dot, side ? HL_A_RHS_CONTRACTING_DIMS : HL_A_LHS_CONTRACTING_DIMS);
}

static bool is_free(const HlInst *dot, int side, int d) {
  return hl_i64s_find(batch_dims(dot, side), d) < 0 &&
         hl_i64s_find(contracting_dims(dot, side), d) < 0;
}

// The dimension of the result that dimension d of an operand is; -1: it is summed up.
static int result_dim(const HlInst *dot, int side, int d) {
  const int batch = (int)hl_i64s_find(batch_dims(dot, side), d);
  if (batch >= 0)
    return batch;
  if (!is_free(dot, side, d))
    return -1;
  int at = (int)batch_dims(dot, 0).n;
  for (int k = 0; side == 1 && k < dot->operands[0]->shape->rank; k++)
    at += is_free(dot, 0, k);
  for (int k = 0; k < d; k++)
    at += is_free(dot, side, k);
  return at;
}

// --- Members --------------------------------------------------------------------------------------

static bool is_member(const Chain *chain, const HlInst *inst) {
  for (int k = 0; k < chain->n_members; k++)
    if (chain->member[k] == inst)
      return true;
  return false;
}

static bool has_dot(const HlInst *inst) {
  return inst->op == HL_OP_DOT ||
         (inst->op == HL_OP_FUSION && hl_comp_may_have(hl_called(inst, 0), HL_OP_DOT));
}

// Only arrays that nobody else wants; steps of their own are worth more than a chain where control goes elsewhere.
static bool may_be_member(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_PARAMETER:
  case HL_OP_CONSTANT:
  case HL_OP_WHILE:
  case HL_OP_CONDITIONAL:
  case HL_OP_CALL:
  case HL_OP_CUSTOM_CALL: return false;
  default: return hl_shape_is_array(inst->shape) && !hl_has_side_effect(inst);
  }
}

// Adds what leads to a dot; false: nothing does.
static bool add_members(Chain *chain, const HlInst *inst) {
  if (is_member(chain, inst))
    return true;
  if (!may_be_member(inst) || chain->n_members == CHAIN_MAX_MEMBERS)
    return false;
  const int before = chain->n_members;
  bool leads = has_dot(inst);
  chain->member[chain->n_members++] = inst;
  for (uint32_t k = 0; k < inst->n_operands && !has_dot(inst); k++)
    leads = add_members(chain, inst->operands[k]) || leads;
  if (!leads)
    chain->n_members = before;
  return leads;
}

// Adds what leads to a dot among the operands of a fusion that `value` in it is computed from.
static bool add_members_of(Chain *chain, HlArena *scratch, const HlInst *call,
                           const HlInst *value) {
  const HlComp *comp = hl_called(call, 0);
  const HlMark mark = hl_arena_mark(scratch);
  bool *needed = HL_ARRAY(scratch, bool, comp->next_id + 1), leads = false;
  needed[value->id] = true;
  for (const HlInst *inst = comp->last; inst; inst = inst->prev) {
    if (!needed[inst->id])
      continue;
    leads = leads || inst->op == HL_OP_DOT;
    for (uint32_t k = 0; k < inst->n_operands && inst->op != HL_OP_DOT; k++)
      needed[inst->operands[k]->id] = true;
  }
  for (int k = 0; k < comp->n_params && !leads; k++)
    if (needed[comp->params[k]->id])
      leads = add_members(chain, call->operands[k]);
  hl_arena_release(scratch, mark);
  return leads;
}

static bool used_by_members_alone(const Chain *chain) {
  for (int k = 0; k < chain->n_members; k++) {
    const HlInst *inst = chain->member[k];
    if (inst == chain->last)
      continue;
    if (inst == inst->comp->root)
      return false;
    for (const HlUse *use = inst->first_use; use; use = use->next)
      if (!is_member(chain, use->user))
        return false;
  }
  return true;
}

// --- Sources --------------------------------------------------------------------------------------

static int add_source(Make *m, TileSource source) {
  for (int k = 0; k < m->n_sources; k++)
    if (m->source[k].inst == source.inst && m->source[k].leaf == source.leaf)
      return k;
  if (m->n_sources == CHAIN_MAX_SOURCES)
    return -1;
  m->source[m->n_sources] = source;
  return m->n_sources++;
}

// The array that an operand of a dot is; -1: it is computed.
static int operand_source(Make *m, const HlInst *call, const HlInst *operand) {
  if (call) {
    if (operand->op != HL_OP_PARAMETER)
      return -1;
    operand = call->operands[hl_parameter_number(operand)];
  }
  if (is_member(m->chain, operand) || !hl_shape_is_array(operand->shape) ||
      hl_shape_is_dynamic(operand->shape))
    return -1;
  return add_source(m, (TileSource){operand, 0});
}

// --- Parts ----------------------------------------------------------------------------------------

typedef struct Loops {
  DotLoop at[4][CHAIN_MAX_RANK];
  int n[4];
} Loops;

static void add_loop(Loops *loops, DotIndex index, int64_t size, int64_t a, int64_t b, int64_t c) {
  loops->at[index][loops->n[index]++] = (DotLoop){size, {a, b, c}};
}

static const DotPlan *plan_of(Make *m, Loops *loops, HlDtype a, HlDtype b, HlDtype c) {
  DotProduct product = {.dtype = {a, b, c}};
  for (int k = 0; k < 4; k++)
    product.index[k] = (DotLoops){loops->n[k], loops->at[k]};
  return dot_plan(m->arena, m->maker->level, &product, (const void *const[]){NULL, NULL});
}

static ChainPlace new_place(Make *m, int buffer, int64_t **k) {
  *k = HL_ARRAY(m->arena, int64_t, m->kernel->rank + 1);
  return (ChainPlace){buffer, 0, *k};
}

static int64_t free_elements(const TileBox *box, int side) {
  int64_t n = 1;
  for (int d = 0; d < box->dot->operands[side]->shape->rank; d++)
    if (is_free(box->dot, side, d))
      n *= box->dot_size[result_dim(box->dot, side, d)];
  return n;
}

// The first dot, of what `between` wants of it. Its rows are on the side that the number of the row moves; of one box, on that
// which has as many.
static bool make_first(Make *m, ChainPart *part, const TileBoxAsk *ask) {
  const TileBox *box = part->between;
  const HlInst *dot = box->dot;
  if (!is_plain(dot) || dot->shape->rank > CHAIN_MAX_RANK ||
      dot->operands[0]->shape->rank > CHAIN_MAX_RANK ||
      dot->operands[1]->shape->rank > CHAIN_MAX_RANK)
    return false;
  int64_t local[CHAIN_MAX_RANK + 1], *k[2];
  hl_strides(dot->shape->rank, box->dot_size, local);
  ChainPlace place[2];
  const int64_t *stride[2];
  for (int side = 0; side < 2; side++) {
    const int buffer = operand_source(m, box->dot_call, dot->operands[side]);
    const HlShape *shape = dot->operands[side]->shape;
    if (buffer < 0)
      return false;
    stride[side] = cpu_strides(m->arena, shape);
    place[side] = new_place(m, buffer, &k[side]);
    for (int d = 0; d < shape->rank; d++) {
      const int e = result_dim(dot, side, d);
      const int64_t by = stride[side][d] * hl_dtype_bytes(shape->dtype);
      place[side].c += e < 0 ? 0 : box->dot_base[e].c * by;
      for (int j = 0; e >= 0 && j < box->rank; j++)
        k[side][j] += box->dot_base[e].k[j] * by;
    }
  }
  const ChainPart *main = &m->kernel->part[0];
  const int row = m->kernel->row;
  if (part == main)
    m->rows_side =
        k[0][row] || k[1][row] ? k[0][row] == 0 : free_elements(box, 0) != ask->size[row];
  const int rows = m->rows_side;
  if (k[!rows][row] != 0 || (part != main && (place[!rows].c != main->b[0].c ||
                                              place[!rows].buffer != main->b[0].buffer)))
    return false;
  Loops loops = {.n = {0}};
  for (int side = 0; side < 2; side++)
    for (int d = 0; d < dot->operands[side]->shape->rank; d++) {
      const int e = result_dim(dot, side, d);
      const int64_t by = stride[side][d];
      if (e < 0 && side == rows) {
        const int64_t other =
            contracting_dims(dot, !side).at[hl_i64s_find(contracting_dims(dot, side), d)];
        add_loop(&loops, DOT_K, dot->operands[side]->shape->dim[d], by, stride[!side][other], 0);
      } else if (e >= 0 && !is_free(dot, side, d)) {
        if (box->dot_size[e] != 1)
          return false;
      } else if (e >= 0) {
        add_loop(&loops, side == rows ? DOT_M : DOT_N, box->dot_size[e], side == rows ? by : 0,
                 side == rows ? 0 : by, local[e]);
      }
    }
  part->a[0] = place[rows];
  part->b[0] = place[!rows];
  part->dot[0] = plan_of(m, &loops, dot->operands[rows]->shape->dtype,
                         dot->operands[!rows]->shape->dtype, vec_carrier(dot->shape->dtype));
  return part->dot[0] != NULL;
}

// The second dot: its rows are the box.
static bool make_second(Make *m, ChainPart *part, const TileBoxAsk *ask) {
  const HlInst *dot = m->dot, *last = m->chain->last;
  const HlShape *p = dot->operands[m->side]->shape, *v = dot->operands[!m->side]->shape;
  const int buffer = operand_source(m, m->call, dot->operands[!m->side]);
  int64_t local[CHAIN_MAX_RANK + 1], *to, *from;
  if (buffer < 0)
    return false;
  hl_strides(p->rank, ask->size, local);
  const int64_t *v_stride = cpu_strides(m->arena, v), *stride = cpu_strides(m->arena, last->shape);
  const int64_t v_bytes = hl_dtype_bytes(v->dtype), bytes = hl_dtype_bytes(last->shape->dtype);
  part->a[1] = new_place(m, -1, &to);
  part->b[1] = new_place(m, buffer, &from);
  Loops loops = {.n = {0}};
  for (int d = 0; d < p->rank; d++) {
    const int e = result_dim(dot, m->side, d);
    if (e < 0) {
      const int64_t other =
          contracting_dims(dot, !m->side).at[hl_i64s_find(contracting_dims(dot, m->side), d)];
      add_loop(&loops, DOT_K, p->dim[d], local[d], v_stride[other], 0);
      continue;
    }
    to[d] = ask->size[d] * stride[e] * bytes;
    part->a[1].c += ask->first[d] * stride[e] * bytes;
    if (is_free(dot, m->side, d)) {
      add_loop(&loops, DOT_M, ask->size[d], local[d], 0, stride[e]);
    } else {
      const int64_t other = batch_dims(dot, !m->side).at[e];
      from[d] = v_stride[other] * v_bytes;
    }
  }
  for (int d = 0; d < v->rank; d++)
    if (is_free(dot, !m->side, d))
      add_loop(&loops, DOT_N, v->dim[d], 0, v_stride[d], stride[result_dim(dot, !m->side, d)]);
  part->dot[1] = plan_of(m, &loops, p->dtype, v->dtype, last->shape->dtype);
  return part->dot[1] != NULL;
}

static bool make_part(Make *m, ChainPart *part, const TileBoxAsk *ask) {
  part->between = tile_box(m->maker, ask);
  if (!part->between || !make_first(m, part, ask) || !make_second(m, part, ask))
    return false;
  int *source = HL_ARRAY(m->arena, int, part->between->n_sources + 1);
  for (int k = 0; k < part->between->n_sources; k++)
    if ((source[k] = add_source(m, part->between->source[k])) < 0)
      return false;
  part->source = source;
  return dot_kept_bytes(part->dot[0]) <= KEPT_BYTES && dot_kept_bytes(part->dot[1]) <= KEPT_BYTES;
}

// --- The cut --------------------------------------------------------------------------------------

// Rows of a box: as many as let it stay in the second cache, and divide all of them if some number near that does.
static int64_t rows_of_box(int64_t rows, int64_t columns) {
  int64_t most = BOX_ELEMENTS / columns;
  most = most < FEWEST_ROWS ? FEWEST_ROWS : most > MOST_ROWS ? MOST_ROWS : most;
  if (rows <= most)
    return rows;
  for (int64_t n = most; 2 * n > most; n--)
    if (rows % n == 0)
      return n;
  return most;
}

static size_t bytes_of_box(const TileBox *box) {
  int64_t n = hl_dtype_bytes(vec_carrier(box->dot->shape->dtype));
  for (int e = 0; e < box->dot->shape->rank; e++)
    n *= box->dot_size[e];
  return (size_t)n;
}

// Chunks of 30 us at least, and of so many rows that packing what they share is little.
static void cut(ChainKernel *c, int64_t row, double seconds) {
  enum { SHARING_ROWS = 512 };
  const double box = seconds / (double)(c->outer * c->rows);
  c->rows_together = (SHARING_ROWS + row - 1) / row;
  if (c->rows_together > c->rows || 2 * c->rows_together > c->rows)
    c->rows_together = c->rows;
  const double turn = box * (double)c->rows_together;
  c->together = turn > 30e-6 || c->rows_together < c->rows ? 1 : (int64_t)(30e-6 / turn) + 1;
  c->together = c->together > c->outer ? c->outer : c->together;
  c->kernel.seconds = seconds;
}

static bool make_kernel(Make *m) {
  const HlShape *p = m->value->shape;
  if (p->rank > CHAIN_MAX_RANK)
    return false;
  int64_t *dims = HL_ARRAY(m->arena, int64_t, 4 * p->rank + 1);
  int64_t *size = dims, *first = size + p->rank, *count = first + p->rank, *one = count + p->rank;
  int64_t columns = 1;
  int row = -1;
  for (int d = 0; d < p->rank; d++) {
    const bool summed = result_dim(m->dot, m->side, d) < 0;
    size[d] = summed ? p->dim[d] : 1;
    count[d] = summed ? 1 : p->dim[d];
    one[d] = 1;
    columns *= size[d];
    if (!summed && is_free(m->dot, m->side, d) && p->dim[d] > 1)
      row = d;
  }
  if (row < 0 || hl_shape_elements(p) == 0 || columns > INT32_MAX)
    return false;
  size[row] = rows_of_box(p->dim[row], columns);
  count[row] = p->dim[row] / size[row];
  ChainKernel *c = m->kernel = HL_NEW(m->arena, ChainKernel);
  *c = (ChainKernel){.kernel = {.kind = &cpu_kind_chain},
                     .rank = p->rank,
                     .row = row,
                     .count = count,
                     .has_rest = p->dim[row] % size[row] != 0};
  TileBoxAsk ask = {.comp = m->chain->last->comp,
                    .member = m->chain->member,
                    .n_members = m->chain->n_members,
                    .call = m->in_call ? m->call : NULL,
                    .value = m->value,
                    .rank = p->rank,
                    .dim = p->dim,
                    .first = first,
                    .size = size,
                    .count = count,
                    .is_local = true};
  if (!make_part(m, &c->part[0], &ask))
    return false;
  c->scores = bytes_of_box(c->part[0].between);
  c->between = (size_t)(size[row] * columns * hl_dtype_bytes(p->dtype));
  const int64_t row_size = size[row];
  c->rows = count[row] + c->has_rest;
  if (c->has_rest) {
    int64_t *rest = hl_arena_copy(m->arena, size, sizeof *size * (size_t)p->rank);
    int64_t *rest_first = HL_ARRAY(m->arena, int64_t, p->rank + 1);
    int64_t *rest_count = hl_arena_copy(m->arena, count, sizeof *count * (size_t)p->rank);
    rest[row] = p->dim[row] % row_size;
    rest_first[row] = p->dim[row] - rest[row];
    rest_count[row] = 1;
    ask.size = rest;
    ask.first = rest_first;
    ask.count = rest_count;
    if (!make_part(m, &c->part[1], &ask))
      return false;
  }
  c->outer = hl_shape_elements(p) / columns / p->dim[row];
  const double boxes = (double)c->outer * (double)p->dim[row] / (double)row_size;
  cut(c, row_size,
      boxes * (dot_seconds(c->part[0].dot[0]) + dot_seconds(c->part[0].dot[1]) +
               1.5e-9 * (double)(row_size * columns)));
  return true;
}

// --- The chain ------------------------------------------------------------------------------------

static const HlInst *second_dot(const HlInst *last, const HlInst **call) {
  *call = NULL;
  if (last->op == HL_OP_DOT)
    return last;
  if (last->op != HL_OP_FUSION || hl_called(last, 0)->root->op != HL_OP_DOT)
    return NULL;
  *call = last;
  return hl_called(last, 0)->root;
}

// The kernel of one instruction has all its operands' leaves as buffers, in their order.
static bool begin_sources(Make *m, bool alone) {
  const HlInst *last = m->chain->last;
  m->n_sources = 0;
  for (uint32_t k = 0; alone && k < last->n_operands; k++)
    for (int leaf = 0; leaf < cpu_leaf_count(last->operands[k]->shape); leaf++) {
      if (m->n_sources == CHAIN_MAX_SOURCES)
        return false;
      m->source[m->n_sources++] = (TileSource){last->operands[k], leaf};
    }
  return true;
}

static void finish(Make *m) {
  ChainKernel *c = m->kernel;
  int64_t *bytes = HL_ARRAY(m->arena, int64_t, m->n_sources + 1);
  for (int k = 0; k < m->n_sources; k++)
    bytes[k] = cpu_bytes(cpu_leaf(m->source[k].inst->shape, m->source[k].leaf));
  bytes[m->n_sources] = cpu_bytes(m->chain->last->shape);
  c->n_sources = m->n_sources;
  c->bytes = bytes;
  c->kernel.n_buffers = m->n_sources + 1;
  for (int k = 0; k < 2; k++)
    c->part[k].a[1].buffer = m->n_sources;
  m->chain->n_sources = m->n_sources;
  m->chain->source = hl_arena_copy(m->arena, m->source, sizeof *m->source * (size_t)m->n_sources);
  m->chain->kernel = &c->kernel;
}

// The chain through an operand of the second dot.
static bool try_side(Make *m, int side, bool alone) {
  Chain *chain = m->chain;
  m->side = side;
  m->value = m->dot->operands[side];
  m->in_call = m->call && m->value->op != HL_OP_PARAMETER;
  chain->n_members = 1;
  chain->member[0] = chain->last;
  if (m->in_call) {
    if (!add_members_of(chain, hl_cx_scratch(m->maker->cx), m->call, m->value))
      return false;
  } else {
    if (m->call)
      m->value = m->call->operands[hl_parameter_number(m->value)];
    if (has_dot(m->value) || !add_members(chain, m->value))
      return false;
  }
  if (alone != (chain->n_members == 1) || !used_by_members_alone(chain) ||
      !begin_sources(m, alone) || !make_kernel(m))
    return false;
  finish(m);
  return true;
}

static bool find(CpuMaker *maker, const HlInst *last, bool alone, Chain *out) {
  *out = (Chain){.last = last};
  Make m = {.maker = maker, .arena = maker->arena, .chain = out};
  m.dot = second_dot(last, &m.call);
  return m.dot && is_plain(m.dot) && (try_side(&m, 0, alone) || try_side(&m, 1, alone));
}

// A dot that nobody looks at but a copy.
static bool find_copied(CpuMaker *maker, const HlInst *last, Chain *out) {
  const HlInst *dot = last->op == HL_OP_COPY ? last->operands[0] : NULL;
  *out = (Chain){.last = last, .n_members = 2, .member = {last, dot}, .apart = true};
  if (!dot || !has_dot(dot) || !may_be_member(dot) || !used_by_members_alone(out) ||
      dot->n_operands > CHAIN_MAX_SOURCES)
    return false;
  out->n_sources = (int)dot->n_operands;
  TileSource *source = HL_ARRAY(maker->arena, TileSource, out->n_sources + 1);
  out->source = source;
  for (int k = 0; k < out->n_sources; k++) {
    if (!hl_shape_is_array(dot->operands[k]->shape))
      return false;
    source[k] = (TileSource){dot->operands[k], 0};
  }
  out->kernel = dot_kernel(maker, dot, last->shape);
  return out->kernel != NULL;
}

bool chain_find(CpuMaker *maker, const HlInst *last, Chain *out) {
  return find(maker, last, false, out) || find_copied(maker, last, out) ||
         epilogue_find(maker, last, out);
}

static CpuKernel *make(CpuMaker *maker, const HlInst *inst) {
  Chain chain;
  return find(maker, inst, true, &chain) ? (CpuKernel *)(uintptr_t)chain.kernel : NULL;
}

static void print(HlBuf *out, const CpuKernel *kernel) {
  const ChainKernel *c = (const ChainKernel *)(const void *)kernel;
  hl_buf_printf(out, "%lld times %lld boxes\n", (long long)c->outer, (long long)c->rows);
  dot_print(out, c->part[0].dot[0]);
  tile_box_print(out, c->part[0].between);
  dot_print(out, c->part[0].dot[1]);
}

const CpuKernelKind cpu_kind_chain = {"chain", make, chain_run, print};
