// op/select_and_scatter.c: select-and-scatter: sends values to the places windows select.
//
// A window is scanned in row-major order; the selected place gives way to the current one when
// select(selected, current) is false. Scatter gets the source value first and what stands there
// second.

#include <string.h>

#include "op/fold.h"
#include "op/machine.h"

// Calls a scalar computation of two values of one type; `out` gets the bytes of the result.
static bool call_two(HlEval *ev, const HlComp *comp, HlDtype dtype, const void *a, const void *b,
                     void *out) {
  HlLiteral *args[2] = {kernel_vector(ev, dtype, 1), kernel_vector(ev, dtype, 1)};
  HlLiteral *result = NULL;
  const size_t size = (size_t)hl_dtype_bytes(dtype);
  bool ok = args[0] && args[1];
  if (ok) {
    memcpy(args[0]->data, a, size);
    memcpy(args[1]->data, b, size);
    ok = ev->call_scalar(ev, comp, (const HlLiteral *const *)args, 2, &result, 1);
  }
  if (ok)
    memcpy(out, result->data, (size_t)hl_dtype_bytes(result->shape->dtype));
  hl_literal_unref(result);
  hl_literal_unref(args[0]);
  hl_literal_unref(args[1]);
  return ok;
}

typedef struct Job {
  HlEval *ev;
  const HlInst *inst;
  Machine *select, *scatter;  // NULL: through the interpreter
  const HlLiteral *x, *source;
  HlLiteral *out;
  HlWindow window;
  const int64_t *stride;  // of the operand
  const int64_t *size;    // of the window
} Job;

static bool keeps(Job *j, int64_t selected, int64_t current, bool *out) {
  const HlDtype dtype = j->x->shape->dtype;
  if (j->select) {
    j->select->cell[0] = cell_load(dtype, j->x->data, selected);
    j->select->cell[1] = cell_load(dtype, j->x->data, current);
    machine_run(j->select);
    *out = machine_result(j->select, 0) != 0;
    return true;
  }
  const int bytes = hl_dtype_bytes(dtype);
  const char *data = j->x->data;
  uint8_t keep = 0;
  if (!call_two(j->ev, hl_called(j->inst, 0), dtype, data + selected * bytes,
                data + current * bytes, &keep))
    return false;
  *out = keep != 0;
  return true;
}

// The place that the window at `place` selects, or -1 where it sees no element.
static bool select_place(Job *j, const int64_t *place, int64_t *out) {
  HlArena *arena = hl_cx_scratch(j->ev->cx);
  HlWalk walk;
  bool ok = true;
  *out = -1;
  hl_walk_start(&walk, arena, j->window.n, j->size, 0, NULL);
  for (; ok && !walk.done; hl_walk_next(&walk)) {
    int64_t at = 0;
    bool inside = true;
    for (int d = 0; d < j->window.n && inside; d++) {
      const HlWindowDim *w = &j->window.at[d];
      const int64_t p = place[d] * w->stride + walk.index[d] * w->rhs_dilate - w->pad_low;
      inside = p >= 0 && p % w->lhs_dilate == 0 && p / w->lhs_dilate < j->x->shape->dim[d];
      at += inside ? p / w->lhs_dilate * j->stride[d] : 0;
    }
    bool keep = false;
    if (!inside)
      continue;
    if (*out >= 0)
      ok = keeps(j, *out, at, &keep);
    if (!keep)
      *out = at;
  }
  return ok;
}

static bool scatter_value(Job *j, int64_t source, int64_t to) {
  const HlDtype dtype = j->source->shape->dtype;
  if (j->scatter) {
    j->scatter->cell[0] = cell_load(dtype, j->source->data, source);
    j->scatter->cell[1] = cell_load(dtype, j->out->data, to);
    machine_run(j->scatter);
    cell_store(dtype, j->out->data, to, machine_result(j->scatter, 0));
    return true;
  }
  const int bytes = hl_dtype_bytes(dtype);
  char *at = (char *)j->out->data + to * bytes;
  return call_two(j->ev, hl_called(j->inst, 1), dtype,
                  (const char *)j->source->data + source * bytes, at, at);
}

bool eval_select_and_scatter(HlEval *ev, const HlInst *inst, const HlLiteral *const *in,
                             HlLiteral *out) {
  HlArena *arena = hl_cx_scratch(ev->cx);
  const HlMark mark = hl_arena_mark(arena);
  const int rank = in[0]->shape->rank;
  int64_t *stride = HL_ARRAY(arena, int64_t, rank + 1), *size = HL_ARRAY(arena, int64_t, rank + 1);
  Job j = {.ev = ev,
           .inst = inst,
           .x = in[0],
           .source = in[1],
           .out = out,
           .window = hl_window(inst),
           .stride = stride,
           .size = size};
  if (inst->n_calls != 2 || hl_called(inst, 0)->n_params != 2 || hl_called(inst, 1)->n_params != 2)
    return hl_inst_error(ev->cx, inst,
                         "select-and-scatter needs two computations of two parameters");
  if (j.window.n != rank)
    return hl_inst_error(ev->cx, inst, "the window has %d dimensions, the operand %d", j.window.n,
                         rank);
  j.select = machine_new(arena, hl_called(inst, 0));
  j.scatter = machine_new(arena, hl_called(inst, 1));
  hl_strides(rank, in[0]->shape->dim, stride);
  for (int d = 0; d < rank; d++)
    size[d] = j.window.at[d].size;
  fill_elements(out->data, out->n, in[2]->data, hl_dtype_bytes(out->shape->dtype));
  HlWalk walk;
  hl_walk_start(&walk, arena, rank, in[1]->shape->dim, 0, NULL);
  bool ok = true;
  for (int64_t source = 0; ok && !walk.done; hl_walk_next(&walk), source++) {
    const HlMark inner = hl_arena_mark(arena);
    int64_t to;
    ok = select_place(&j, walk.index, &to) && (to < 0 || scatter_value(&j, source, to));
    hl_arena_release(arena, inner);
  }
  hl_arena_release(arena, mark);
  return ok;
}
