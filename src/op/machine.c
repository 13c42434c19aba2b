// op/machine.c: compiling scalar computations to steps, running them, and the keys of comparators.

#include "op/machine.h"

#include "op/fold.h"

typedef enum What {
  STEP_BLOCK,   // the block of an op, on cells that hold what it computes in
  STEP_WIDEN,   // from what is stored to what blocks compute in
  STEP_NARROW,  // and back
  STEP_TOTAL,   // a comparison, of keys in the total order
  STEP_SELECT,
  STEP_CONVERT,
  STEP_RECAST  // the same bits as another type of the same width
} What;

// --- Compiling -----------------------------------------------------------------------------------

// The ops of a block that machines take, on floats and on integers. What they do not take goes through the interpreter,
// which combines neighbours first: a row more would change the order of sums.
static const struct {
  uint16_t op;
  bool on_float, on_int;
  const Elementwise *meaning;
} blocks[] = {
    {HL_OP_ADD, true, true, &ew_add},
    {HL_OP_SUBTRACT, true, true, &ew_subtract},
    {HL_OP_MULTIPLY, true, true, &ew_multiply},
    {HL_OP_DIVIDE, true, true, &ew_divide},
    {HL_OP_REMAINDER, false, true, &ew_remainder},
    {HL_OP_MAXIMUM, true, true, &ew_maximum},
    {HL_OP_MINIMUM, true, true, &ew_minimum},
    {HL_OP_NEGATE, true, true, &ew_negate},
    {HL_OP_ABS, true, true, &ew_abs},
    {HL_OP_AND, false, true, &ew_and},
    {HL_OP_OR, false, true, &ew_or},
    {HL_OP_XOR, false, true, &ew_xor},
    {HL_OP_NOT, false, true, &ew_not},
    {HL_OP_CLAMP, true, false, &ew_clamp},
    {HL_OP_IS_FINITE, true, false, &ew_is_finite},
    {HL_OP_SHIFT_LEFT, false, true, &ew_shift_left},
    {HL_OP_SHIFT_RIGHT_LOGICAL, false, true, &ew_shift_right_logical},
};

static const Elementwise *block_of(const HlInst *inst, HlDtype from) {
  if (inst->op == HL_OP_COMPARE)
    return ew_comparison(hl_attr_int(inst, HL_A_DIRECTION));
  for (int k = 0; k < HL_COUNT_OF(blocks); k++)
    if (blocks[k].op == inst->op)
      return (hl_is_float(from) ? blocks[k].on_float : blocks[k].on_int) ? blocks[k].meaning : NULL;
  return NULL;
}

static Step *add_step(Machine *m, What what) {
  Step *step = &m->step[m->n_steps++];
  step->what = (uint8_t)what;
  return step;
}

// The cell where a value stands as the class has it; all who ask get the same.
static int widened(Machine *m, int cell, HlDtype dtype, EwClass class) {
  if (ew_is_direct(dtype, class))
    return cell;
  if (!m->wide[cell]) {
    Step *step = add_step(m, STEP_WIDEN);
    step->n = 1;
    step->from[0] = (uint8_t)dtype;
    step->in[0] = cell;
    step->out = m->wide[cell] = m->n_cells++;
  }
  return m->wide[cell];
}

// A step over tiles of one element, which are cells.
static bool compile_block(Machine *m, Step *step, const HlInst *inst, const Elementwise *op) {
  const HlDtype from = (HlDtype)step->from[0];
  const EwClass class = ew_class(op, from), to = ew_result_class(op->result, class);
  const HlDtype dtype = (HlDtype)step->dtype;
  step->what = STEP_BLOCK;
  step->fn = op->fn[class];
  if (!step->fn || !ew_fits(dtype, to))
    return false;
  step->tile = (EwTile){.n = 1, .inst = inst, .bits = hl_dtype_info[from].bits};
  for (int k = 0; k < step->n; k++) {
    if (!ew_fits((HlDtype)step->from[k], class))
      return false;
    step->tile.in[k] = &m->cell[widened(m, step->in[k], (HlDtype)step->from[k], class)];
  }
  const int result = step->out;
  if (!ew_is_direct(dtype, to))
    step->out = m->n_cells++;
  step->tile.out = &m->cell[step->out];
  if (step->out == result)
    return true;
  m->step[m->n_steps++] = *step;
  *step = (Step){
      .what = STEP_NARROW, .n = 1, .dtype = (uint8_t)dtype, .in = {step->out}, .out = result};
  return true;
}

static bool compile_what(Machine *m, Step *step, const HlInst *inst) {
  const HlDtype from = (HlDtype)step->from[0], to = (HlDtype)step->dtype;
  switch (inst->op) {
  case HL_OP_SELECT:
    step->what = STEP_SELECT;
    return from == HL_PRED && step->from[1] == to && step->from[2] == to;
  case HL_OP_CONVERT: step->what = STEP_CONVERT; return true;
  case HL_OP_BITCAST_CONVERT:
    step->what = STEP_RECAST;
    return hl_dtype_info[from].bits == hl_dtype_info[to].bits;
  case HL_OP_COMPARE:
    step->compares = true;
    step->direction = (uint8_t)hl_attr_int(inst, HL_A_DIRECTION);
    if (hl_is_float(from) && hl_comparison_type(inst) == HL_WORD_comparison_type_TOTALORDER) {
      step->what = STEP_TOTAL;
      const Elementwise *comparison = ew_comparison(hl_attr_int(inst, HL_A_DIRECTION));
      step->fn = comparison ? comparison->fn[EW_S] : NULL;
      return step->fn && step->from[1] == from && to == HL_PRED;
    }
    break;
  default: break;
  }
  const Elementwise *op = block_of(inst, from);
  // Quotients of u64 go through the interpreter, as those of pred do, which has none.
  if (!op || (from == HL_U64 && (inst->op == HL_OP_DIVIDE || inst->op == HL_OP_REMAINDER)))
    return false;
  return compile_block(m, step, inst, op);
}

// Marks what the root needs, users before operands.
static bool *find_needed(HlArena *arena, const HlComp *comp) {
  bool *needed = HL_ARRAY(arena, bool, comp->next_id + 1);
  needed[comp->root->id] = true;
  for (const HlInst *inst = comp->last; inst; inst = inst->prev)
    for (uint32_t k = 0; needed[inst->id] && k < inst->n_operands; k++)
      needed[inst->operands[k]->id] = true;
  return needed;
}

static bool is_real_scalar(const HlShape *shape) {
  return hl_shape_is_scalar(shape) && !hl_is_complex(shape->dtype);
}

// The last of the steps that an instruction takes is added here.
static bool compile_step(Machine *m, const HlInst *inst, int *cell_of) {
  if (inst->n_operands < 1 || inst->n_operands > EW_MAX_OPERANDS)
    return false;
  Step step = {.n = (uint8_t)inst->n_operands, .dtype = (uint8_t)inst->shape->dtype};
  for (int k = 0; k < step.n; k++) {
    if (!is_real_scalar(inst->operands[k]->shape))
      return false;
    step.from[k] = (uint8_t)inst->operands[k]->shape->dtype;
    step.in[k] = cell_of[inst->operands[k]->id];
  }
  step.out = cell_of[inst->id] = m->n_cells++;
  if (!compile_what(m, &step, inst))
    return false;
  m->step[m->n_steps++] = step;
  return true;
}

// Gives an instruction its cell: of a parameter, a constant, its operand, or a new step.
static bool compile(Machine *m, const HlInst *inst, int *cell_of) {
  if (!is_real_scalar(inst->shape))
    return false;
  switch (inst->op) {
  case HL_OP_PARAMETER:
    if (hl_parameter_number(inst) < 0 || hl_parameter_number(inst) >= m->n_params)
      return false;
    cell_of[inst->id] = (int)hl_parameter_number(inst);
    m->uses[cell_of[inst->id]] = true;
    return true;
  case HL_OP_CONSTANT: {
    const HlLiteral *value = hl_constant(inst);
    if (!value || !value->data)
      return false;
    cell_of[inst->id] = m->n_cells++;
    m->cell[cell_of[inst->id]] = cell_load(inst->shape->dtype, value->data, 0);
    return true;
  }
  case HL_OP_COPY:
  case HL_OP_RESHAPE:
  case HL_OP_BROADCAST:
  case HL_OP_OPT_BARRIER:
    if (!is_real_scalar(inst->operands[0]->shape) ||
        inst->operands[0]->shape->dtype != inst->shape->dtype)
      return false;
    cell_of[inst->id] = cell_of[inst->operands[0]->id];
    return true;
  default: return compile_step(m, inst, cell_of);
  }
}

static bool set_results(HlArena *arena, Machine *m, const HlComp *comp, const int *cell_of) {
  const HlInst *root = comp->root;
  const bool is_tuple = root->op == HL_OP_TUPLE;
  m->n_results = is_tuple ? (int)root->n_operands : 1;
  m->result = HL_ARRAY(arena, int, m->n_results + 1);
  m->result_dtype = HL_ARRAY(arena, HlDtype, m->n_results + 1);
  for (int k = 0; k < m->n_results; k++) {
    const HlInst *inst = is_tuple ? root->operands[k] : root;
    m->result[k] = cell_of[inst->id];
    m->result_dtype[k] = inst->shape->dtype;
  }
  return true;
}

Machine *machine_new(HlArena *arena, const HlComp *comp) {
  if (!comp->root || comp->n_params > 1000 || comp->n_insts > 10000)
    return NULL;
  Machine *m = HL_NEW(arena, Machine);
  m->n_params = comp->n_params;
  // A value may be widened, and a result stand there before it is narrowed.
  const uint32_t n = comp->n_insts + (uint32_t)comp->n_params + 1;
  m->cell = HL_ARRAY(arena, Cell, 3 * n);
  m->wide = HL_ARRAY(arena, int, 3 * n);
  m->step = HL_ARRAY(arena, Step, 3 * n);
  m->uses = HL_ARRAY(arena, bool, comp->n_params + 1);
  m->param_dtype = HL_ARRAY(arena, HlDtype, comp->n_params + 1);
  m->n_cells = comp->n_params;
  for (int k = 0; k < comp->n_params; k++) {
    if (!comp->params[k] || !is_real_scalar(comp->params[k]->shape))
      return NULL;
    m->param_dtype[k] = comp->params[k]->shape->dtype;
  }
  const bool *needed = find_needed(arena, comp);
  int *cell_of = HL_ARRAY(arena, int, comp->next_id + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next) {
    if (!needed[inst->id] || (inst == comp->root && inst->op == HL_OP_TUPLE))
      continue;
    if (!compile(m, inst, cell_of))
      return NULL;
  }
  return set_results(arena, m, comp, cell_of) ? m : NULL;
}

// --- Running -------------------------------------------------------------------------------------

// One element of a type that is computed on in another; bf16, the high half of an f32, at once.
static inline Cell widened_cell(HlDtype dtype, const Cell *cell) {
  if (dtype == HL_BF16)
    return (uint32_t)*cell << 16;
  Cell wide = 0;
  ew_widen(dtype, cell, &wide, 1);
  return wide;
}

static Cell narrowed(HlDtype dtype, const Cell *wide) {
  Cell cell = 0;
  ew_narrow(dtype, wide, &cell, 1);
  return cell;
}

static Cell compare_total(const Machine *m, const Step *s) {
  const int64_t x = ew_total_order_key((HlDtype)s->from[0], m->cell[s->in[0]]),
                y = ew_total_order_key((HlDtype)s->from[0], m->cell[s->in[1]]);
  uint8_t out = 0;
  s->fn(&(EwTile){.n = 1, .out = &out, .in = {&x, &y}});
  return out;
}

// A cell is read as wide as a block has written it: a wider load would wait until the store has left for the cache.
static inline bool is_set(const Cell *pred) {
  return *(const uint8_t *)pred != 0;
}

static Cell converted(const Step *s, const Cell *from) {
  Cell to = 0;
  hl_convert_elements((HlDtype)s->dtype, &to, (HlDtype)s->from[0], from, 1);
  return to;
}

static Cell recast(const Step *s, Cell cell) {
  const uint8_t from = (uint8_t)cell;
  uint8_t to;
  if (hl_dtype_info[s->dtype].bits >= 8 || s->dtype == HL_PRED)
    return cell;
  ew_recast_sub_byte((HlDtype)s->dtype, &from, &to, 1);
  return to;
}

void machine_run(Machine *m) {
  Cell *cell = m->cell;
  for (int k = 0; k < m->n_steps; k++) {
    const Step *s = &m->step[k];
    switch ((What)s->what) {
    case STEP_BLOCK: s->fn(&s->tile); break;
    case STEP_WIDEN: cell[s->out] = widened_cell((HlDtype)s->from[0], &cell[s->in[0]]); break;
    case STEP_NARROW: cell[s->out] = narrowed((HlDtype)s->dtype, &cell[s->in[0]]); break;
    case STEP_TOTAL: cell[s->out] = compare_total(m, s); break;
    case STEP_SELECT: cell[s->out] = cell[s->in[is_set(&cell[s->in[0]]) ? 1 : 2]]; break;
    case STEP_CONVERT: cell[s->out] = converted(s, &cell[s->in[0]]); break;
    case STEP_RECAST: cell[s->out] = recast(s, cell[s->in[0]]); break;
    }
  }
}

// --- Copies -------------------------------------------------------------------------------------

size_t machine_copy_bytes(const Machine *m) {
  return sizeof *m + sizeof(Cell) * (size_t)m->n_cells + sizeof(Step) * (size_t)m->n_steps;
}

// Tiles of blocks point to cells.
Machine *machine_copy(const Machine *m, void *memory) {
  Machine *copy = memory;
  *copy = *m;
  copy->cell = (Cell *)(copy + 1);
  copy->step = (Step *)(copy->cell + m->n_cells);
  memcpy(copy->cell, m->cell, sizeof(Cell) * (size_t)m->n_cells);
  memcpy(copy->step, m->step, sizeof(Step) * (size_t)m->n_steps);
  for (int k = 0; k < m->n_steps; k++) {
    Step *s = &copy->step[k];
    if (s->what != STEP_BLOCK)
      continue;
    s->tile.out = copy->cell + ((Cell *)s->tile.out - m->cell);
    for (int i = 0; i < s->n; i++)
      s->tile.in[i] = copy->cell + ((const Cell *)s->tile.in[i] - m->cell);
  }
  return copy;
}

// --- Keys of comparators -------------------------------------------------------------------------

// Which parameters each cell depends on, as bits.
static uint64_t *find_sources(HlArena *arena, const Machine *m) {
  uint64_t *from = HL_ARRAY(arena, uint64_t, m->n_cells + 1);
  for (int k = 0; k < m->n_params; k++)
    from[k] = (uint64_t)1 << k;
  for (int k = 0; k < m->n_steps; k++)
    for (int i = 0; i < m->step[k].n; i++)
      from[m->step[k].out] |= from[m->step[k].in[i]];
  return from;
}

bool machine_find_key(HlArena *arena, const Machine *m, MachineKey *out) {
  if (m->n_steps == 0 || m->n_results != 1 || m->n_params > 64)
    return false;
  const Step *last = &m->step[m->n_steps - 1];
  if (last->out != m->result[0] || !last->compares || last->from[0] != last->from[1] ||
      (last->direction != HL_WORD_direction_LT && last->direction != HL_WORD_direction_GT))
    return false;
  const uint64_t *from = find_sources(arena, m);
  const HlDtype dtype = (HlDtype)last->from[0];
  *out = (MachineKey){.a = last->in[0],
                      .b = last->in[1],
                      .dtype = dtype,
                      .is_float = hl_is_float(dtype) && last->what != STEP_TOTAL,
                      .is_total = last->what == STEP_TOTAL,
                      .up = last->direction == HL_WORD_direction_LT};
  for (int k = 0; 2 * k + 1 < m->n_params; k++)
    if (from[out->a] == (uint64_t)1 << (2 * k) && from[out->b] == (uint64_t)1 << (2 * k + 1)) {
      out->operand = k;
      return true;
    }
  return false;
}

KeyValue machine_key_value(const MachineKey *key, Cell cell) {
  if (key->is_total)
    return (KeyValue){.i = ew_total_order_key(key->dtype, cell)};
  const Slot value = slot_load(key->dtype, &cell, 0);
  if (key->is_float)
    return (KeyValue){.f = value.f};
  return (KeyValue){.i = key->dtype == HL_U64 ? (int64_t)((uint64_t)value.i ^ (uint64_t)1 << 63)
                                              : value.i};
}

bool machine_folds(const Machine *m, int n, const HlLiteral *const *in, HlLiteral *out) {
  if (m->n_params != 2 * n || m->n_results != n)
    return false;
  for (int k = 0; k < n; k++) {
    const HlDtype dtype = kernel_result(out, k)->shape->dtype;
    if (m->result_dtype[k] != dtype || m->param_dtype[k] != dtype ||
        in[n + k]->shape->dtype != dtype || m->param_dtype[n + k] != in[k]->shape->dtype)
      return false;
  }
  return true;
}
