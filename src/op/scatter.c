// op/scatter.c: scatter: combines boxes of updates into run-time places of the operands.
//
// Positions are visited one after the other in row-major order. A box that does not fit wholly is
// skipped. Within a box all places differ, so that what machines cannot combine goes to the
// interpreter box by box.

#include <string.h>

#include "op/fold.h"
#include "op/machine.h"

typedef struct Scatter {
  HlEval *ev;
  const HlInst *inst;
  int n;  // operands
  const HlLiteral *const *update;
  HlLiteral **result;
  Machine *machine;          // NULL: assigns, or goes through the interpreter
  bool assigns;              // the combiner returns the updates
  int rank;                  // of the box
  int64_t *box, *to, *from;  // sizes; strides into results and updates
  int64_t n_box;
} Scatter;

static void combine_on_machine(const Scatter *s, int64_t to, int64_t from) {
  Machine *m = s->machine;
  for (int k = 0; k < s->n; k++) {
    m->cell[k] = cell_load(m->param_dtype[k], s->result[k]->data, to);
    m->cell[s->n + k] = cell_load(m->param_dtype[s->n + k], s->update[k]->data, from);
  }
  machine_run(m);
  for (int k = 0; k < s->n; k++)
    cell_store(m->result_dtype[k], s->result[k]->data, to, machine_result(m, k));
}

static Side side_of(const HlLiteral *literal, int64_t at, const int64_t *stride) {
  return (Side){(char *)literal->data + at * hl_dtype_bytes(literal->shape->dtype), stride};
}

// One box through the interpreter: current values and updates as vectors.
static bool combine_by_call(const Scatter *s, int64_t to, int64_t from) {
  HlCx *cx = s->ev->cx;
  HlArena *arena = hl_cx_scratch(cx);
  HlLiteral **acc = HL_ARRAY(arena, HlLiteral *, 2 * s->n), **x = acc + s->n;
  int64_t *dense = HL_ARRAY(arena, int64_t, s->rank + 1);
  hl_strides(s->rank, s->box, dense);
  bool ok = true;
  for (int k = 0; k < s->n && ok; k++) {
    const HlDtype dtype = s->result[k]->shape->dtype;
    acc[k] = kernel_vector(s->ev, dtype, s->n_box);
    x[k] = acc[k] ? kernel_vector(s->ev, dtype, s->n_box) : NULL;
    ok = x[k] != NULL;
    if (!ok)
      break;
    move_box(cx, hl_dtype_bytes(dtype), s->rank, s->box, (Side){acc[k]->data, dense},
             side_of(s->result[k], to, s->to));
    move_box(cx, hl_dtype_bytes(dtype), s->rank, s->box, (Side){x[k]->data, dense},
             side_of(s->update[k], from, s->from));
  }
  ok = ok && fold_call(s->ev, hl_to_apply(s->inst), acc, s->n, x, s->n);
  for (int k = 0; k < s->n; k++) {
    if (ok)
      move_box(cx, hl_dtype_bytes(s->result[k]->shape->dtype), s->rank, s->box,
               side_of(s->result[k], to, s->to), (Side){acc[k]->data, dense});
    hl_literal_unref(acc[k]);
    hl_literal_unref(x[k]);
  }
  return ok;
}

static bool scatter_box(const Scatter *s, int64_t to, int64_t from) {
  HlArena *arena = hl_cx_scratch(s->ev->cx);
  if (s->assigns) {
    for (int k = 0; k < s->n; k++)
      move_box(s->ev->cx, hl_dtype_bytes(s->result[k]->shape->dtype), s->rank, s->box,
               side_of(s->result[k], to, s->to), side_of(s->update[k], from, s->from));
    return true;
  }
  if (!s->machine)
    return combine_by_call(s, to, from);
  HlWalk walk;
  const int64_t *const strides[] = {s->to, s->from};
  hl_walk_start(&walk, arena, s->rank, s->box, 2, strides);
  for (; !walk.done; hl_walk_next(&walk))
    combine_on_machine(s, to + walk.offset[0], from + walk.offset[1]);
  return true;
}

// Whether result k of the computation is parameter n + k, for all k.
static bool is_assignment(const HlComp *comp, int n) {
  const HlInst *root = comp->root;
  if (n > 1 && (root->op != HL_OP_TUPLE || (int)root->n_operands != n))
    return false;
  for (int k = 0; k < n; k++) {
    const HlInst *result = n > 1 ? root->operands[k] : root;
    if (result->op != HL_OP_PARAMETER || hl_parameter_number(result) != n + k)
      return false;
  }
  return true;
}

typedef struct Numbers {  // the dimension numbers
  HlI64s window, inserted, to_operand, batching, indices_batching;
  HlI64s scatter_dims;  // of the updates: those not in window
  HlI64s window_dims;   // of the operand: neither inserted nor batching
  int64_t index_dim;
} Numbers;

static bool read_numbers(HlEval *ev, const HlInst *inst, const HlShape *operand,
                         const HlShape *indices, const HlShape *updates, Numbers *s) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  *s = (Numbers){.window = hl_attr_ints(inst, HL_A_UPDATE_WINDOW_DIMS),
                 .inserted = hl_attr_ints(inst, HL_A_INSERTED_WINDOW_DIMS),
                 .to_operand = hl_attr_ints(inst, HL_A_SCATTER_DIMS_TO_OPERAND_DIMS),
                 .batching = hl_attr_ints(inst, HL_A_INPUT_BATCHING_DIMS),
                 .indices_batching = hl_attr_ints(inst, HL_A_SCATTER_INDICES_BATCHING_DIMS),
                 .index_dim = hl_attr_int(inst, HL_A_INDEX_VECTOR_DIM)};
  if (!kernel_check_dims(ev, inst, s->window, updates->rank) ||
      !kernel_check_dims(ev, inst, s->inserted, operand->rank) ||
      !kernel_check_dims(ev, inst, s->to_operand, operand->rank) ||
      !kernel_check_dims(ev, inst, s->batching, operand->rank) ||
      !kernel_check_dims(ev, inst, s->indices_batching, indices->rank))
    return false;
  s->scatter_dims = kernel_other_dims(arena, updates->rank, s->window, (HlI64s){0});
  s->window_dims = kernel_other_dims(arena, operand->rank, s->inserted, s->batching);
  const int64_t index_size = s->index_dim == indices->rank ? 1
                             : s->index_dim >= 0 && s->index_dim < indices->rank
                                 ? indices->dim[s->index_dim]
                                 : -1;
  if (s->window_dims.n != s->window.n || index_size != s->to_operand.n ||
      s->batching.n != s->indices_batching.n ||
      s->scatter_dims.n != indices->rank - (s->index_dim < indices->rank ? 1 : 0))
    return hl_inst_error(ev->cx, inst, "the dimension numbers of scatter do not fit its operands");
  return true;
}

// Everything about the walk over scatter positions.
typedef struct Positions {
  HlWalk walk;        // streams: updates, indices
  int64_t *start;     // of the box, per operand dimension
  int64_t *extent;    // of the box, per operand dimension
  int64_t *batch_of;  // indices dimension -> walk dimension
  int64_t *operand_stride;
  int64_t vector_step;
} Positions;

static void set_up(const Numbers *numbers, const HlShape *operand, const HlShape *indices,
                   const HlShape *updates, Scatter *s, Positions *p) {
  HlArena *arena = hl_cx_scratch(s->ev->cx);
  const int most = operand->rank + indices->rank + updates->rank + 1;
  int64_t *update_stride = HL_ARRAY(arena, int64_t, most),
          *indices_stride = HL_ARRAY(arena, int64_t, most);
  p->operand_stride = HL_ARRAY(arena, int64_t, most);
  hl_strides(operand->rank, operand->dim, p->operand_stride);
  hl_strides(updates->rank, updates->dim, update_stride);
  hl_strides(indices->rank, indices->dim, indices_stride);
  p->start = HL_ARRAY(arena, int64_t, most);
  p->extent = HL_ARRAY(arena, int64_t, most);
  p->batch_of = HL_ARRAY(arena, int64_t, most);
  p->vector_step = numbers->index_dim < indices->rank ? indices_stride[numbers->index_dim] : 0;
  for (int d = 0; d < operand->rank; d++)
    p->extent[d] = 1;
  s->rank = numbers->window.n;
  s->box = HL_ARRAY(arena, int64_t, most);
  s->to = HL_ARRAY(arena, int64_t, most);
  s->from = HL_ARRAY(arena, int64_t, most);
  s->n_box = 1;
  for (int k = 0; k < s->rank; k++) {
    s->box[k] = updates->dim[numbers->window.at[k]];
    s->from[k] = update_stride[numbers->window.at[k]];
    s->to[k] = p->operand_stride[numbers->window_dims.at[k]];
    s->n_box *= s->box[k];
    p->extent[numbers->window_dims.at[k]] = s->box[k];
  }
  int64_t *dim = HL_ARRAY(arena, int64_t, most), *from = HL_ARRAY(arena, int64_t, most);
  int64_t *index = HL_ARRAY(arena, int64_t, most);
  for (int k = 0, d = 0; k < numbers->scatter_dims.n; k++, d++) {
    if (d == numbers->index_dim)
      d++;
    dim[k] = updates->dim[numbers->scatter_dims.at[k]];
    from[k] = update_stride[numbers->scatter_dims.at[k]];
    index[k] = indices_stride[d];
    p->batch_of[d] = k;
  }
  const int64_t *const strides[] = {from, index};
  hl_walk_start(&p->walk, arena, numbers->scatter_dims.n, dim, 2, strides);
}

// Where the box at the walk's position starts in the operand; false when it does not fit.
static bool find_box(const Numbers *numbers, const HlShape *operand, const HlLiteral *indices,
                     Positions *p, int64_t *out) {
  memset(p->start, 0, sizeof *p->start * (size_t)operand->rank);
  for (int k = 0; k < numbers->to_operand.n; k++) {
    const int64_t at = p->walk.offset[1] + k * p->vector_step;
    const int64_t value = slot_load(indices->shape->dtype, indices->data, at).i;
    if (value < 0)
      return false;  // also a u64 beyond any size
    p->start[numbers->to_operand.at[k]] = value;
  }
  for (int k = 0; k < numbers->batching.n; k++)
    p->start[numbers->batching.at[k]] = p->walk.index[p->batch_of[numbers->indices_batching.at[k]]];
  *out = 0;
  for (int d = 0; d < operand->rank; d++) {
    if (p->start[d] > operand->dim[d] - p->extent[d])
      return false;
    *out += p->start[d] * p->operand_stride[d];
  }
  return true;
}

// Whether the machine's parameters and results have the types of the arrays.
static bool fits_machine(const Scatter *s) {
  const Machine *m = s->machine;
  for (int k = 0; k < s->n; k++) {
    const HlDtype dtype = s->result[k]->shape->dtype;
    if (m->n_results != s->n || m->param_dtype[k] != dtype || m->param_dtype[s->n + k] != dtype ||
        m->result_dtype[k] != dtype)
      return false;
  }
  return true;
}

bool eval_scatter(HlEval *ev, const HlInst *inst, const HlLiteral *const *in, HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlMark mark = hl_arena_mark(arena);
  const int n = (int)inst->n_operands / 2;
  const HlComp *comp = hl_to_apply(inst);
  if (n < 1 || inst->n_operands != 2 * (uint32_t)n + 1 || comp->n_params != 2 * n)
    return hl_inst_error(ev->cx, inst, "scatter needs a computation of two parameters per operand");
  const HlShape *operand = in[0]->shape, *indices = in[n]->shape, *updates = in[n + 1]->shape;
  Numbers numbers;
  if (!read_numbers(ev, inst, operand, indices, updates, &numbers))
    return false;
  for (int k = 0; k < n; k++)
    if (in[n + 1 + k]->shape->dtype != in[k]->shape->dtype)
      return hl_inst_error(ev->cx, inst, "operand %d and its updates differ in type", k);
  Scatter s = {
      .ev = ev, .inst = inst, .n = n, .update = in + n + 1, .assigns = is_assignment(comp, n)};
  s.result = HL_ARRAY(arena, HlLiteral *, n);
  for (int k = 0; k < n; k++) {
    s.result[k] = kernel_result(out, k);
    if (in[k]->n > 0)
      memcpy(s.result[k]->data, in[k]->data,
             (size_t)(in[k]->n * hl_dtype_bytes(in[k]->shape->dtype)));
  }
  if (!s.assigns) {
    s.machine = machine_new(arena, comp);
    if (s.machine && !fits_machine(&s))
      s.machine = NULL;
  }
  Positions p;
  set_up(&numbers, operand, indices, updates, &s, &p);
  bool ok = true;
  if (updates->rank > 0 && in[n + 1]->n == 0)
    p.walk.done = true;
  for (; ok && !p.walk.done; hl_walk_next(&p.walk)) {
    int64_t to;
    const HlMark inner = hl_arena_mark(arena);
    if (find_box(&numbers, operand, in[n], &p, &to))
      ok = scatter_box(&s, to, p.walk.offset[0]);
    hl_arena_release(arena, inner);
  }
  hl_arena_release(arena, mark);
  return ok;
}
