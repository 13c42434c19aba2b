// opt/fusion/gpu_cost.c: what a kernel costs on a GPU: operations, bytes, code, and the time for them, by XLA's model.
//
// Inside a fusion every value is computed as often as its users ask for it. An elementwise user asks for the elements that it is
// asked for itself; another one asks for its operands' elements anew, and how often by how much it reads of them. So to each value
// belong the values from which on elements were asked for anew, its origins, and it is computed as often as all these together.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "opt/fusion/gpu_fusible.h"

// --- One instruction ----------------------------------------------------------------------------

static int64_t elements(const HlShape *shape) {
  if (hl_shape_is_array(shape))
    return hl_shape_elements(shape);
  int64_t n = 0;
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    n += elements(shape->element[k]);
  return n;
}

int64_t gpu_bytes(const HlShape *shape) {
  if (hl_shape_is_array(shape)) {
    const int bits = shape->dtype == HL_PRED ? 8 : hl_dtype_info[shape->dtype].bits;
    return (hl_shape_elements(shape) * bits + 7) / 8;
  }
  int64_t n = 0;
  for (int k = 0; hl_shape_is_tuple(shape) && k < shape->rank; k++)
    n += gpu_bytes(shape->element[k]);
  return n;
}

enum { GPU_WORK_USUAL = 3 };

enum {
  USUAL_WORK,
#define FLOAT_WORK(op, ...) WORK_OF_##op,
#define INTEGER_WORK(op, ...)
#include "opt/fusion/gpu_work.def"
  WORK_ROWS
};
static const uint8_t work_row[HL_OP_COUNT] = {
#define FLOAT_WORK(op, ...) [HL_OP_##op] = WORK_OF_##op,
#define INTEGER_WORK(op, ...)
#include "opt/fusion/gpu_work.def"
};
static const uint16_t work[WORK_ROWS][HL_DTYPE_COUNT] = {
#define FLOAT_WORK(op, f16, f32, f64, c64, c128)                                            \
  [WORK_OF_##op][HL_F16] = f16, [WORK_OF_##op][HL_F32] = f32, [WORK_OF_##op][HL_F64] = f64, \
  [WORK_OF_##op][HL_C64] = c64, [WORK_OF_##op][HL_C128] = c128,
#define INTEGER_WORK(op, s8, s16, s32, s64, u8, u16, u32, u64)                            \
  [WORK_OF_##op][HL_S8] = s8, [WORK_OF_##op][HL_S16] = s16, [WORK_OF_##op][HL_S32] = s32, \
  [WORK_OF_##op][HL_S64] = s64, [WORK_OF_##op][HL_U8] = u8, [WORK_OF_##op][HL_U16] = u16, \
  [WORK_OF_##op][HL_U32] = u32, [WORK_OF_##op][HL_U64] = u64,
#include "opt/fusion/gpu_work.def"
};

int64_t gpu_work_an_element(const HlInst *inst) {
  if (inst->op == HL_OP_COPY || inst->op == HL_OP_CONSTANT || !fusion_is_elementwise(inst) ||
      !hl_shape_is_array(inst->shape))
    return 0;
  const int64_t told = work[work_row[inst->op]][inst->shape->dtype];
  return told ? told : GPU_WORK_USUAL;
}

static int64_t flops_elementwise(const HlInst *inst) {
  return gpu_work_an_element(inst) * elements(inst->shape);
}

static int64_t flops_of_called(const HlInst *inst) {
  int64_t n = 0;
  for (const HlInst *inner = hl_to_apply(inst)->first; inner; inner = inner->next)
    n += flops_elementwise(inner);
  return n;
}

static int64_t window_size(const HlInst *inst) {
  HlWindow window = hl_window(inst);
  int64_t n = 1;
  for (int k = 0; k < window.n; k++)
    n *= window.at[k].size;
  return n;
}

static const HlShape *first_result(const HlInst *inst) {
  return hl_shape_is_tuple(inst->shape) ? inst->shape->element[0] : inst->shape;
}

// In a concatenation of ragged rows neighbouring threads do not do the same.
enum { CONCATENATE_WORK = 6, RAGGED_WORK = 400, RAGGED_BELOW = 32 };

static int64_t flops_of(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_CONCATENATE: {
    const int64_t dim = hl_dim(inst);
    const bool ragged = dim > 0 && inst->operands[0]->shape->dim[dim] % RAGGED_BELOW != 0;
    return (ragged ? RAGGED_WORK : CONCATENATE_WORK) * elements(inst->shape);
  }
  case HL_OP_REDUCE:
    return flops_of_called(inst) *
           (elements(inst->operands[0]->shape) - elements(first_result(inst)));
  case HL_OP_REDUCE_WINDOW:
    return flops_of_called(inst) * elements(first_result(inst)) * (window_size(inst) - 1);
  case HL_OP_SCATTER:
    return flops_of_called(inst) * elements(inst->operands[inst->n_operands - 1]->shape);
  default: return flops_elementwise(inst);
  }
}

// How often each element of an operand is read to compute the whole result.
static float reads_of(const HlInst *inst, int operand) {
  const float in = (float)elements(inst->operands[operand]->shape);
  const float out = (float)elements(first_result(inst));
  if (inst->op == HL_OP_REDUCE && operand >= (int)inst->n_operands / 2)
    return out;
  if (operand > 0 || in == 0)
    return 1;
  switch (inst->op) {
  case HL_OP_BROADCAST:
  case HL_OP_SLICE:
  case HL_OP_DYNAMIC_SLICE:
  case HL_OP_GATHER: return out / in;
  case HL_OP_DYNAMIC_UPDATE_SLICE: return (out - (float)elements(inst->operands[1]->shape)) / out;
  case HL_OP_REDUCE_WINDOW: return out * (float)window_size(inst) / in;
  default: return 1;
  }
}

static int64_t bytes_read(const HlInst *inst, int operand) {
  const HlShape *in = inst->operands[operand]->shape;
  switch (inst->op) {
  case HL_OP_BITCAST: return 0;
  case HL_OP_REDUCE:
    return operand < (int)inst->n_operands / 2 ? gpu_bytes(in)
                                               : gpu_bytes(in) * elements(first_result(inst));
  case HL_OP_BROADCAST:
  case HL_OP_SLICE: return gpu_bytes(inst->shape);
  case HL_OP_DYNAMIC_SLICE:
  case HL_OP_GATHER: return operand == 0 ? gpu_bytes(inst->shape) : gpu_bytes(in);
  case HL_OP_DYNAMIC_UPDATE_SLICE: return operand == 0 ? 0 : gpu_bytes(in);
  case HL_OP_REDUCE_WINDOW:
    return operand == 0
               ? elements(first_result(inst)) * window_size(inst) * hl_dtype_bytes(in->dtype)
               : gpu_bytes(in);
  case HL_OP_SCATTER: {
    const int n = (int)inst->n_operands / 2;
    return gpu_bytes(inst->operands[operand < n ? n + 1 + operand : operand]->shape);
  }
  default: return gpu_bytes(in);
  }
}

static int64_t bytes_written(const HlInst *inst) {
  switch (inst->op) {
  case HL_OP_BITCAST:
  case HL_OP_CONSTANT:
  case HL_OP_PARAMETER: return 0;
  case HL_OP_DYNAMIC_UPDATE_SLICE: return gpu_bytes(inst->operands[1]->shape);
  case HL_OP_SCATTER: return gpu_bytes(inst->operands[inst->n_operands - 1]->shape);
  default: return gpu_bytes(inst->shape);
  }
}

static int64_t fusion_writes(const HlInst *fusion) {
  const HlInst *root = fusion_body(fusion)->root;
  if (root->op == HL_OP_DYNAMIC_UPDATE_SLICE)
    return bytes_written(root);
  if (root->op != HL_OP_TUPLE)
    return gpu_bytes(fusion->shape);
  int64_t n = 0;
  for (uint32_t k = 0; k < root->n_operands; k++)
    n += root->operands[k]->op == HL_OP_DYNAMIC_UPDATE_SLICE ? bytes_written(root->operands[k])
                                                             : gpu_bytes(root->operands[k]->shape);
  return n;
}

static bool passes_origins_on(const HlInst *inst) {
  return (inst->n_operands > 0 && inst->op != HL_OP_FUSION && fusion_is_elementwise(inst)) ||
         inst->op == HL_OP_TUPLE || inst->op == HL_OP_GET_TUPLE_ELEMENT;
}

// --- Fusions ------------------------------------------------------------------------------------

typedef struct Walk {
  int n_words;
  uint32_t *place;    // by id: the bit of an instruction in sets of origins
  uint64_t *origins;  // by id, n_words each
  float *reads;       // by place: how often, of an origin
  float *emissions;
} Walk;

static uint64_t *origins_of(const Walk *w, const HlInst *inst) {
  return &w->origins[(size_t)inst->id * (size_t)w->n_words];
}

static void begin_at(Walk *w, const HlInst *inst, float reads, float emissions) {
  const uint32_t place = w->place[inst->id];
  origins_of(w, inst)[place / 64] |= (uint64_t)1 << (place % 64);
  w->reads[place] += reads;
  w->emissions[place] += emissions;
}

static float sum_over(const uint64_t *a, const uint64_t *b, int n_words, const float *of) {
  float sum = 0;
  for (int k = 0; k < n_words; k++)
    for (uint64_t bits = a[k] & b[k]; bits; bits &= bits - 1)
      sum += of[64 * k + __builtin_ctzll(bits)];
  return sum;
}

// What is read in part counts as whole elements.
static float whole(float reads, const HlShape *shape) {
  const float n = (float)elements(shape);
  return n == 0 ? 0 : ceilf(reads * n) / n;
}

// A result that is written into an array that was there: what stays of that is not read.
static bool is_update_in_place(const HlInst *inst) {
  if (inst->op != HL_OP_DYNAMIC_UPDATE_SLICE)
    return false;
  const HlInst *root = inst->comp->root;
  bool is_result = inst == root;
  for (uint32_t k = 0; root->op == HL_OP_TUPLE && k < root->n_operands; k++)
    is_result |= inst == root->operands[k];
  return is_result;
}

static void walk_inst(Walk *w, const HlInst *inst, GpuCost *cost) {
  const uint64_t *origins = origins_of(w, inst);
  const float reads = sum_over(origins, origins, w->n_words, w->reads);
  const float emissions = sum_over(origins, origins, w->n_words, w->emissions);
  const bool in_place = is_update_in_place(inst);
  cost->flops += (int64_t)(reads * (float)flops_of(inst));
  cost->code += (double)emissions;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    const HlInst *operand = inst->operands[k];
    if (passes_origins_on(inst))
      for (int i = 0; i < w->n_words; i++)
        origins_of(w, operand)[i] |= origins[i];
    else
      begin_at(w, operand,
               in_place && k == 0 ? 0 : whole(reads * reads_of(inst, (int)k), operand->shape),
               emissions);
  }
}

static void cost_of_body(HlArena *arena, const HlInst *fusion, GpuCost *cost) {
  const HlComp *body = fusion_body(fusion);
  Walk w = {.n_words = (int)((body->n_insts + 63) / 64)};
  cost->n_words = w.n_words;
  cost->origins = HL_ARRAY(arena, uint64_t, (fusion->n_operands + 1) * (size_t)w.n_words);
  w.reads = cost->origin_reads = HL_ARRAY(arena, float, body->n_insts);
  HlMark mark = hl_arena_mark(arena);
  w.place = HL_ARRAY(arena, uint32_t, body->next_id);
  w.origins = HL_ARRAY(arena, uint64_t, body->next_id * (size_t)w.n_words);
  w.emissions = HL_ARRAY(arena, float, body->n_insts);
  uint32_t n = 0;
  for (const HlInst *inst = body->first; inst; inst = inst->next)
    w.place[inst->id] = n++;
  begin_at(&w, body->root, 1, 1);
  memcpy(&cost->origins[fusion->n_operands * (size_t)w.n_words], origins_of(&w, body->root),
         (size_t)w.n_words * sizeof *w.origins);
  for (const HlInst *inst = body->last; inst; inst = inst->prev)
    if (inst->op != HL_OP_PARAMETER)
      walk_inst(&w, inst, cost);
  for (uint32_t k = 0; k < fusion->n_operands; k++) {
    const uint64_t *origins = origins_of(&w, body->params[k]);
    cost->reads[k] = sum_over(origins, origins, w.n_words, w.reads);
    cost->emissions[k] = (double)sum_over(origins, origins, w.n_words, w.emissions);
    cost->bytes[k] = (int64_t)((float)cost->size[k] * cost->reads[k]);
    memcpy(&cost->origins[k * (size_t)w.n_words], origins, (size_t)w.n_words * sizeof *origins);
  }
  hl_arena_release(arena, mark);
}

static GpuCost cost_apart_from_time(const HlTarget *t, HlArena *arena, const HlInst *inst) {
  const HlInst *hero = gpu_hero(t, inst);
  GpuCost cost = {.emitter = gpu_emitter_by(t, inst, hero),
                  .needs = gpu_needs(t, inst),
                  .reduces_many = gpu_reduces_many(inst),
                  .reads_apart = gpu_reads_apart(inst),
                  .bytes = HL_ARRAY(arena, int64_t, inst->n_operands + 1),
                  .size = HL_ARRAY(arena, int64_t, inst->n_operands + 1),
                  .reads = HL_ARRAY(arena, float, inst->n_operands + 1),
                  .emissions = HL_ARRAY(arena, double, inst->n_operands + 1)};
  cost.launch = gpu_launch(t, inst, hero, cost.emitter);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    cost.size[k] = gpu_bytes(inst->operands[k]->shape);
  if (inst->op == HL_OP_FUSION) {
    cost.bytes_out = fusion_writes(inst);
    cost_of_body(arena, inst, &cost);
    return cost;
  }
  cost.bytes_out = bytes_written(inst);
  cost.flops = flops_of(inst);
  cost.code = 1;
  for (uint32_t k = 0; k < inst->n_operands; k++) {
    cost.bytes[k] = bytes_read(inst, (int)k);
    cost.reads[k] = reads_of(inst, (int)k);
    cost.emissions[k] = 1;
  }
  return cost;
}

// --- Time ---------------------------------------------------------------------------------------

// To the nearest, halves up: llround of what is not negative, which is called often.
static int64_t rounded(double x) {
  if (!(x < 9e18))
    return INT64_MAX;
  const int64_t whole = (int64_t)x;
  return whole + (x - (double)whole >= 0.5);
}

static GpuTime quarters(double nanoseconds) {
  return rounded(4 * nanoseconds);
}

GpuTime gpu_time_to_launch(const HlTarget *t) {
  return quarters(1e9 * t->launch);
}

static int64_t flops_in_a_nanosecond(const HlTarget *t, GpuLaunch launch) {
  const int64_t lanes = launch.threads < t->lanes ? launch.threads : t->lanes;
  const int64_t cores = launch.blocks < t->cores ? launch.blocks : t->cores;
  return (int64_t)(t->clock / 1e9 * 2 * (double)(cores * lanes));
}

GpuTime gpu_compute_time(const HlTarget *t, int64_t flops, GpuLaunch launch) {
  const int64_t rate = flops_in_a_nanosecond(t, launch);
  return rate > 0 ? quarters((double)((float)flops / (float)rate)) : 0;
}

double gpu_work_within(const HlTarget *t, GpuTime time, GpuLaunch launch) {
  const int64_t rate = flops_in_a_nanosecond(t, launch);
  const double rounding = 1.001;
  return rate > 0 ? ((double)time / 4 + 1) * (double)rate * rounding : HUGE_VAL;
}

// Few blocks cannot ask for all that memory could give.
static double speed_of(const HlTarget *t, double speed, GpuLaunch launch) {
  const double most = t->clock * (double)t->core_bytes * (double)launch.blocks;
  return most > 0 && most < speed ? most : speed;
}

// Bytes of each processor that surely stay in the nearest cache, which shared memory takes from.
enum { STAY_NEAR = 2 << 10 };

// Bytes that are read again come from the nearest cache that holds them.
GpuTime gpu_read_time(const HlTarget *t, int64_t size, int64_t total, double used,
                      GpuLaunch launch) {
  const int64_t net = total < size ? total : size;
  const double first = t->memory_bandwidth * used;
  double again = first;
  if (net < t->l2_bytes) {
    again = t->memory_bandwidth * t->l2_speed;
    again *= net < STAY_NEAR * t->cores ? t->l1_speed : 1;
  }
  return quarters((double)net / speed_of(t, first, launch) * 1e9) +
         quarters((double)(total - net) / speed_of(t, again, launch) * 1e9);
}

GpuTime gpu_write_time(const HlTarget *t, int64_t n, double used) {
  return quarters((double)n / (t->memory_bandwidth * used) * 1e9);
}

GpuTime gpu_total_time(const HlTarget *t, GpuTime compute, GpuTime memory) {
  const GpuTime less = compute < memory ? compute : memory;
  return compute + memory - rounded(t->overlap * (double)less);
}

// How much of a line of memory is used; where neighbouring threads read far apart, one element.
static double line_used(const HlTarget *t, const HlShape *shape, bool apart) {
  return apart && t->memory_line > 0 && hl_shape_is_array(shape)
             ? (double)hl_dtype_bytes(shape->dtype) / (double)t->memory_line
             : 1;
}

static GpuTime time_alone(const HlTarget *t, const HlInst *inst, const GpuCost *cost) {
  const bool apart = cost->reads_apart && cost->emitter != GPU_TRANSPOSE;
  GpuTime memory = gpu_write_time(t, cost->bytes_out, 1);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    memory += gpu_read_time(t, cost->size[k], cost->bytes[k],
                            line_used(t, inst->operands[k]->shape, apart), cost->launch);
  return gpu_total_time(t, gpu_compute_time(t, cost->flops, cost->launch), memory);
}

GpuCost gpu_cost(const HlTarget *t, HlArena *arena, const HlInst *inst) {
  GpuCost cost = cost_apart_from_time(t, arena, inst);
  cost.alone = time_alone(t, inst, &cost);
  return cost;
}

static const uint64_t *origins_in(const GpuCost *cost, int operand) {
  return &cost->origins[(size_t)operand * (size_t)cost->n_words];
}

// What both read element by element is at hand the second time: how often that is.
static float reads_shared(const HlInst *producer, const GpuCost *of_producer, int operand,
                          const HlInst *consumer, const GpuCost *of_consumer, int other, int at) {
  if (other < 0)
    return 0;
  const bool alike = producer->op == HL_OP_FUSION
                         ? sum_over(origins_in(of_producer, operand),
                                    origins_in(of_producer, (int)producer->n_operands),
                                    of_producer->n_words, of_producer->origin_reads) == 1
                         : fusion_is_elementwise(producer);
  if (!alike)
    return 0;
  if (consumer->op != HL_OP_FUSION)
    return fusion_is_elementwise(consumer) ? 1 : 0;
  return sum_over(origins_in(of_consumer, other), origins_in(of_consumer, at), of_consumer->n_words,
                  of_consumer->origin_reads);
}

// Bytes that both read of what the k-th operand of the producer is.
static int64_t bytes_of_both(const HlInst *producer, const GpuCost *of_producer, int k,
                             const HlInst *consumer, const GpuCost *of_consumer, int at) {
  const HlInst *operand = producer->operands[k];
  const int other = fusion_operand_index(consumer, operand);
  const float shared = reads_shared(producer, of_producer, k, consumer, of_consumer, other, at);
  return rounded((float)of_producer->bytes[k] * of_consumer->reads[at]) +
         (other < 0 ? 0 : of_consumer->bytes[other]) -
         rounded((float)of_producer->size[k] * shared);
}

// XLA counts what the consumer names several times, as a constant index, as often; what only the producer does, once.
static int times_named(const HlInst *consumer, const HlInst *operand) {
  int n = 0;
  for (uint32_t k = 0; k < consumer->n_operands; k++)
    n += consumer->operands[k] == operand;
  return n > 0 ? n : 1;
}

// A sum of columns takes as many at once as the narrowest array allows that is read then.
static GpuLaunch launch_of_both(const HlTarget *t, const HlInst *producer,
                                const GpuCost *of_producer, const HlInst *consumer,
                                const GpuCost *of_consumer, GpuEmitter emitter) {
  const bool as_consumer = emitter == of_consumer->emitter;
  if (emitter != GPU_REDUCTION)
    return as_consumer ? of_consumer->launch : of_producer->launch;
  const int bits = gpu_least_bits(consumer, producer), before = gpu_least_bits(producer, NULL);
  return gpu_reduction_launch(t, gpu_hero(t, as_consumer ? consumer : producer),
                              bits < before ? bits : before);
}

GpuTime gpu_time_fused(const HlTarget *t, const HlInst *producer, const GpuCost *of_producer,
                       const HlInst *consumer, const GpuCost *of_consumer, bool gives_both) {
  const GpuEmitter emitter =
      gpu_emitter_of_both(producer, of_producer->emitter, consumer, of_consumer->emitter);
  const GpuLaunch launch = launch_of_both(t, producer, of_producer, consumer, of_consumer, emitter);
  const bool both_reduce = emitter == GPU_REDUCTION && of_producer->emitter == GPU_REDUCTION &&
                           of_consumer->emitter == GPU_REDUCTION;
  const bool moves = of_producer->reads_apart || of_consumer->reads_apart;
  const bool apart = both_reduce || (moves && emitter != GPU_TRANSPOSE);
  const int at = fusion_operand_index(consumer, producer);
  GpuTime memory = gpu_write_time(t, of_consumer->bytes_out, 1);
  memory += gives_both ? gpu_write_time(t, of_producer->bytes_out, 1) : 0;
  float times = 0;
  for (uint32_t k = 0; k < consumer->n_operands; k++) {
    const HlInst *operand = consumer->operands[k];
    if (operand == producer)
      times += of_consumer->reads[k];
    else if (fusion_operand_index(producer, operand) < 0)
      memory += gpu_read_time(t, of_consumer->size[k], of_consumer->bytes[k],
                              line_used(t, operand->shape, apart), launch);
  }
  for (uint32_t k = 0; k < producer->n_operands; k++) {
    const HlInst *operand = producer->operands[k];
    if (fusion_operand_index(producer, operand) == (int)k)
      memory +=
          times_named(consumer, operand) *
          gpu_read_time(t, of_producer->size[k],
                        bytes_of_both(producer, of_producer, (int)k, consumer, of_consumer, at),
                        line_used(t, operand->shape, apart), launch);
  }
  const int64_t flops = (int64_t)((float)of_producer->flops * times + (float)of_consumer->flops);
  return gpu_total_time(t, gpu_compute_time(t, flops, launch), memory);
}

double gpu_code_fused(const HlInst *producer, const GpuCost *of_producer, const HlInst *consumer,
                      const GpuCost *of_consumer) {
  double emissions = 0;
  for (uint32_t k = 0; k < consumer->n_operands; k++)
    if (consumer->operands[k] == producer)
      emissions += of_consumer->emissions[k];
  return of_consumer->code + emissions * of_producer->code;
}
