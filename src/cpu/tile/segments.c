// cpu/tile/segments.c: runs of simple ops become segments of machine code (cpu/emit/segment.h).
//
//   v5 = multiply v1, v2            v1, v2 direct in memory          segment of v1, v2: one loop, v5 and v6 in registers
//   v6 = add v5, #3f800000                                             v7 = maximum(v1 v2 + 1, 0)
//   v7 = maximum v6, #0
//   v8 = exponential v7                                              v8 = exponential v7
//
// A run is of ops in one scope that stand one behind the other, on tiles or on single elements; what only finds an address goes before it. Narrow floats are
// loaded and stored on the way where their elements lie side by side. What a run computes is written to its tile only if
// something outside of the run reads it. Tiles may share a place, but then element by element: what is written there is written
// after the last that reads it, of the same element, has been read.

#include "cpu/emit/segment.h"
#include "cpu/tile/tile.h"

#include "base/vec.h"  // behind those: cpu/vec/vec.h has a VEC of its own

enum { MOST_OPS = 200, FEWEST_OPS = 2 };
#define FUNCTION_COST 0.3  // of an op that is several instructions

typedef struct Segments {
  CpuMaker *maker;
  TileNest *nest;
  HlArena *scratch;
  int *reads;    // by value: how many ops and accumulators read it
  int *emitted;  // by value: which op of the run at hand; -1
  int *
      ahead;  // by value: of a load, how many bytes further the next unit's lies; 0: not to be fetched
  bool one_row;  // tiles of the list at hand are rows
  bool row;      // the list at hand is of tiles, not of single elements
} Segments;

typedef struct Run {
  int from, to;  // ops of a list
  int scope, n_ops;
  bool pays;  // alone, too
  int n_choices;
  EmitOp op[MOST_OPS];
  int n;
  TilePointer pointer[MOST_OPS];
  int n_pointers;
} Run;

// --- Who reads what ----------------------------------------------------------------------------------

static void count_block(Segments *s, const TileBlock *b);

static void count_list(Segments *s, const TileOps *list) {
  for (int i = 0; i < list->n; i++) {
    const TileOp *op = &list->at[i];
    for (int k = 0; k < op->n_in; k++)
      if (op->in[k] >= 0)
        s->reads[op->in[k]]++;
    for (int k = 0; k < op->access.n_index; k++)
      s->reads[op->access.index[k].value]++;
    for (int k = 0; k < op->n_checks; k++)
      s->reads[op->check[k].value]++;
    if (op->kind == TILE_REDUCE)
      count_block(s, op->block);
  }
}

static void count_block(Segments *s, const TileBlock *b) {
  for (int k = 0; k <= b->n_loops; k++)
    count_list(s, &b->level[k]);
  count_list(s, &b->head);
  count_list(s, &b->tile);
  count_list(s, &b->step);
  for (int k = 0; k < b->n_acc; k++) {
    const int parts[] = {b->acc[k].init, b->acc[k].x, b->acc[k].acc, b->acc[k].next,
                         b->acc[k].result};
    for (int j = 0; j < HL_COUNT_OF(parts); j++)
      if (parts[j] >= 0)
        s->reads[parts[j]]++;
  }
}

// --- What a run may hold -------------------------------------------------------------------------------

static bool is_narrow(HlDtype dtype) {
  return dtype == HL_BF16 || dtype == HL_F16;
}

// Elements side by side, one row: the others are direct already.
static bool is_side_by_side(const Segments *s, const TileOp *op) {
  const TileAccess *a = &op->access;
  if (s->row && op->kind == TILE_STORE && a->direct && op->n_in == 1)
    return true;
  return s->row && s->one_row && is_narrow(a->dtype) && a->column_step == 1 && a->n_index == 0 &&
         op->im < 0;
}

static EmitOp emit_op(const TileOp *op) {
  if (op->vec != VEC_OP_COUNT)
    return (EmitOp){.kind = EMIT_VEC, .vec = op->vec, .dtype = op->from};
  if (op->rounds)
    return (EmitOp){.kind = EMIT_ROUND, .dtype = op->dtype};
  return (EmitOp){.kind = EMIT_CONVERT, .dtype = op->from, .to = op->dtype};
}

static bool takes_vec(const Segments *s, const TileOp *op) {
  int is_const = 0;
  if (op->kind != TILE_VEC || s->nest->value[op->out].is_row != s->row)
    return false;
  for (int k = 0; k < op->n_in; k++)
    is_const |= s->nest->value[op->in[k]].is_const << k;
  const EmitOp emit = emit_op(op);
  const HlMark mark = hl_arena_mark(s->scratch);
  const bool has = emit_has(s->scratch, s->maker->level, &emit, is_const);
  hl_arena_release(s->scratch, mark);
  return has;
}

// Nothing is computed, and where things will be is known before the run. The bits of a pred differ in registers.
static bool only_finds_address(const Segments *s, const TileOp *op) {
  if (op->kind == TILE_SCOPE)
    return true;
  if (op->kind == TILE_SAME)
    return s->nest->value[op->out].dtype != HL_PRED && s->nest->value[op->in[0]].dtype != HL_PRED;
  return op->kind == TILE_LINE || (op->kind == TILE_LOAD && op->access.direct && s->row);
}

// --- A run as a segment --------------------------------------------------------------------------------

static int add(Run *run, EmitOp op) {
  run->op[run->n] = op;
  return run->n++;
}

static int add_pointer(const Segments *s, Run *run, TilePointer pointer) {
  const TileValue *value = pointer.value >= 0 ? &s->nest->value[pointer.value] : NULL;
  if (pointer.access)
    pointer.size = hl_dtype_bytes(pointer.access->dtype);
  else if (value && value->is_row)
    pointer.size = value->size;
  run->pointer[run->n_pointers] = pointer;
  return run->n_pointers++;
}

// The op of the run that has a value, which may come from outside.
static int emitted(Segments *s, Run *run, int value) {
  const TileValue *v = &s->nest->value[value];
  if (s->emitted[value] >= 0)
    return s->emitted[value];
  EmitOp op = {.kind = v->is_const ? EMIT_CONST
                       : v->is_row ? EMIT_LOAD
                                   : EMIT_UNIFORM,
               .dtype = v->dtype,
               .ahead = v->is_row ? s->ahead[value] : 0,
               .bits = v->bits};
  if (!v->is_const)
    op.slot = add_pointer(s, run, (TilePointer){.value = value});
  return s->emitted[value] = add(run, op);
}

static void add_to_run(Segments *s, Run *run, const TileOp *op) {
  EmitOp emit = emit_op(op);
  if (op->kind == TILE_LOAD) {
    emit = (EmitOp){.kind = EMIT_LOAD,
                    .dtype = op->access.dtype,
                    .slot = add_pointer(s, run, (TilePointer){.value = -1, .access = &op->access})};
  } else if (op->kind == TILE_STORE) {
    emit =
        (EmitOp){.kind = EMIT_STORE, .dtype = op->access.dtype, .in = {emitted(s, run, op->in[0])}};
    emit.slot = add_pointer(s, run, (TilePointer){.value = -1, .access = &op->access});
  } else {
    for (int k = 0; k < op->n_in; k++)
      emit.in[k] = emitted(s, run, op->in[k]);
  }
  const int at = add(run, emit);
  if (op->out >= 0)
    s->emitted[op->out] = at;
  run->n_ops++;
}

// What is chosen by place is loaded from one tile or another: the run is done in pieces, in each of which it is one.
static bool takes_choice(const Segments *s, const Run *run, const TileOp *op) {
  enum { MOST_CHOICES = 8 };
  bool takes = op->kind == TILE_CHOOSE && s->row && run->n_choices < MOST_CHOICES;
  for (int k = 0; takes && k < op->n_in; k++)
    takes = s->nest->value[op->in[k]].is_row && s->emitted[op->in[k]] < 0;
  return takes;
}

static void add_choice(Segments *s, Run *run, const TileOp *op) {
  EmitOp load = {.kind = EMIT_LOAD, .dtype = s->nest->value[op->out].dtype};
  load.slot = add_pointer(s, run, (TilePointer){.value = op->out, .choose = op});
  s->emitted[op->out] = add(run, load);
  run->n_choices++;
}

// Whether the op may be the run's next, and then is.
static bool extend(Segments *s, Run *run, const TileOp *op) {
  const bool moves = (op->kind == TILE_LOAD && is_side_by_side(s, op)) ||
                     (op->kind == TILE_STORE && !op->aimed && is_side_by_side(s, op) &&
                      s->emitted[op->in[0]] >= 0);
  if (run->n > MOST_OPS - 8 || run->n_pointers > TILE_MAX_POINTERS - 8)
    return false;
  if (op->kind == TILE_SAME && only_finds_address(s, op))
    s->emitted[op->out] = emitted(s, run, op->in[0]);
  if (only_finds_address(s, op))
    return true;
  const bool choice = takes_choice(s, run, op);
  if ((run->n_ops + run->n_choices > 0 && op->scope != run->scope) ||
      !(moves || choice || takes_vec(s, op)))
    return false;
  run->scope = op->scope;
  if (choice) {
    add_choice(s, run, op);
    return true;
  }
  run->pays = run->pays || (op->kind == TILE_VEC && op->vec != VEC_OP_COUNT &&
                            vec_info[op->vec].cost >= FUNCTION_COST);
  add_to_run(s, run, op);
  return true;
}

// Whether a value that op i of the run made is read outside of it, by another name perhaps.
static bool read_outside(const Segments *s, const Run *run, const TileOps *list, int i) {
  const int value = list->at[i].out;
  int own = 0;
  for (int j = i + 1; j < run->to; j++)
    for (int k = 0; k < list->at[j].n_in; k++)
      own += list->at[j].in[k] == value &&
             (list->at[j].kind != TILE_SAME || !read_outside(s, run, list, j));
  return own < s->reads[value];
}

// False: there is no room for them.
static bool add_stores(Segments *s, Run *run, const TileOps *list) {
  for (int i = run->from; i < run->to; i++) {
    const TileOp *op = &list->at[i];
    if (op->out < 0 || only_finds_address(s, op) || (!op->aim && !read_outside(s, run, list, i)))
      continue;
    if (run->n == MOST_OPS || run->n_pointers == TILE_MAX_POINTERS)
      return false;
    EmitOp store = {
        .kind = EMIT_STORE, .dtype = s->nest->value[op->out].dtype, .in = {s->emitted[op->out]}};
    store.slot = add_pointer(s, run, (TilePointer){.value = op->out, .access = op->aim});
    add(run, store);
  }
  return true;
}

static const TileSegment *make_segment(Segments *s, Run *run, const TileOps *list) {
  if (!add_stores(s, run, list))
    return NULL;
  const HlMark mark = hl_arena_mark(s->scratch);
  EmitFn *fn =
      emit_segment(s->maker->code, s->scratch, s->maker->level, run->n, run->op, s->maker->name);
  hl_arena_release(s->scratch, mark);
  if (!fn)
    return NULL;
  TileSegment *segment = HL_NEW(s->maker->arena, TileSegment);
  int *choice = HL_ARRAY(s->maker->arena, int, run->n_choices + 1);
  for (int k = 0, n = 0; k < run->n_pointers; k++)
    if (run->pointer[k].choose)
      choice[n++] = k;
  *segment = (TileSegment){
      fn,
      run->scope,
      run->n_choices,
      choice,
      run->n_pointers,
      hl_arena_copy(s->maker->arena, run->pointer, sizeof(TilePointer) * (size_t)run->n_pointers),
      run->to - run->from,
      &list->at[run->from],
      emit_segment_text(s->maker->code, fn)};
  return segment;
}

// --- What is wanted soon -----------------------------------------------------------------------------------

// Bytes from a place to that of the next unit, where units are rows of memory side by side: what fetches lines by itself begins anew
// with each. 0: else.
static int next_unit(const TileNest *nest, const TileAccess *a) {
  enum { FARTHEST = 1 << 16 };
  const TileBlock *g = &nest->grid;
  if (g->n_loops == 0 || g->row_var >= 0 || g->column_var < 0 || a->sum.den != 1)
    return 0;
  int64_t step = 0;
  for (int k = 0; k < a->sum.n; k++)
    step += a->sum.term[k].var == g->loop[g->n_loops - 1] ? a->sum.term[k].k : 0;
  const int64_t bytes = step * hl_dtype_bytes(a->dtype);
  return step >= nest->extent[g->column_var] && bytes <= FARTHEST ? (int)bytes : 0;
}

static bool loads_too(const TileOps *list, const TileAccess *a) {
  for (int i = 0; i < list->n; i++)
    if (list->at[i].kind == TILE_LOAD && list->at[i].access.direct &&
        list->at[i].access.buffer == a->buffer)
      return true;
  return false;
}

// By the last who reads it, when there is most to do beside.
static void find_ahead(Segments *s, const TileOps *list) {
  const TileOps *last = &s->nest->grid.tile;
  for (int i = 0; i < list->n; i++) {
    const TileOp *op = &list->at[i];
    if (op->kind == TILE_LOAD && op->access.direct && op->im < 0 &&
        (list == last || !loads_too(last, &op->access)))
      s->ahead[op->out] = next_unit(s->nest, &op->access);
  }
}

// --- Lists -----------------------------------------------------------------------------------------------

static Run *find_run(Segments *s, const TileOps *list, int from) {
  Run *run = HL_NEW(s->scratch, Run);
  run->from = run->to = from;
  for (int v = 0; v < s->nest->n_values; v++)
    s->emitted[v] = -1;
  while (run->to < list->n && extend(s, run, &list->at[run->to]))
    run->to++;
  while (run->to > from && only_finds_address(s, &list->at[run->to - 1]))
    run->to--;
  return run;
}

// What a run that ends the list computes to be folded by vectors is folded by it.
static bool add_fold(Segments *s, Run *run, const TileOps *list, const TileBlock *b) {
  const int x = b ? b->acc[0].x : -1;
  if (!b || !b->vec_fold || run->to < list->n || run->n_ops == 0 || run->n_choices > 0 ||
      run->scope != 0 || b->acc[0].scope != 0 || s->emitted[x] < 0 ||
      run->op[s->emitted[x]].kind != EMIT_VEC)
    return false;
  EmitOp fold = {
      .kind = EMIT_FOLD, .vec = b->vec, .dtype = s->nest->value[x].dtype, .in = {s->emitted[x]}};
  fold.slot = add_pointer(s, run, (TilePointer){.value = -1, .offset = b->lanes});
  add(run, fold);
  s->reads[x]--;
  return true;
}

// `b`: whose list it is, if it folds by vectors what the list makes.
static const TileSegment *segment_of(Segments *s, const TileOps *list, int from, TileBlock *b) {
  const int fewest = s->row ? FEWEST_OPS : 1;  // of one element a function is mostly its call
  Run *run = find_run(s, list, from);
  const TileSegment *segment = NULL;
  if (add_fold(s, run, list, b)) {
    segment = make_segment(s, run, list);
    if (segment)
      b->join_lanes = vec_lanes(s->maker->level, b->vec, s->nest->value[b->acc[0].acc].dtype);
    else
      s->reads[b->acc[0].x]++;
    run = segment ? run : find_run(s, list, from);
  }
  return segment ? segment : run->n_ops >= fewest || run->pays ? make_segment(s, run, list) : NULL;
}

static void segment_list(Segments *s, TileOps *list, TileBlock *b) {
  HlArena *arena = s->maker->arena;
  TileOps out = {0};
  for (int i = 0; i < list->n;) {
    const HlMark mark = hl_arena_mark(s->scratch);
    const TileSegment *segment = segment_of(s, list, i, b);
    const int end = i + (segment ? segment->n_ops : 1);
    for (; i < end; i++)
      if (!segment || only_finds_address(s, &list->at[i]))
        vec_push_in(arena, &out, list->at[i]);
    if (segment) {
      const TileOp op = {
          .kind = TILE_SEGMENT, .scope = segment->scope, .out = -1, .im = -1, .segment = segment};
      vec_push_in(arena, &out, op);
    }
    hl_arena_release(s->scratch, mark);
  }
  *list = out;
}

static void segment_block(Segments *s, TileBlock *b);

static void inner_blocks(Segments *s, const TileOps *list) {
  for (int i = 0; i < list->n; i++)
    if (list->at[i].kind == TILE_REDUCE)
      segment_block(s, list->at[i].block);
}

static void segment_block(Segments *s, TileBlock *b) {
  const bool outer = s->one_row, row = s->row;
  s->row = false;
  for (int k = 0; k <= b->n_loops; k++) {
    inner_blocks(s, &b->level[k]);
    segment_list(s, &b->level[k], NULL);
  }
  s->row = s->one_row = true;
  segment_list(s, &b->head, NULL);
  s->one_row = b->column_var >= 0 ? b->row_var < 0 : outer;
  inner_blocks(s, &b->tile);
  s->row = b == &s->nest->grid || b->is_row || b->fold != TILE_FOLD_TILES;
  find_ahead(s, &b->tile);
  segment_list(s, &b->tile, b->fold == TILE_FOLD_VEC ? b : NULL);
  segment_list(s, &b->step, NULL);
  s->row = row;
  s->one_row = outer;
}

void tile_segments(CpuMaker *maker, TileNest *nest) {
  if (!maker->code || maker->no_emit || !nest->grid.level)  // without lists it only copies
    return;
  HlArena *scratch = hl_cx_scratch(maker->cx);
  const HlMark mark = hl_arena_mark(scratch);
  Segments s = {.maker = maker, .nest = nest, .scratch = scratch};
  s.reads = HL_ARRAY(scratch, int, nest->n_values + 1);
  s.emitted = HL_ARRAY(scratch, int, nest->n_values + 1);
  s.ahead = HL_ARRAY(scratch, int, nest->n_values + 1);
  count_block(&s, &nest->grid);
  segment_block(&s, &nest->grid);
  hl_arena_release(scratch, mark);
}
