// opt/gpu/dynamic_slice_fusion.c
//
// dynamic-slice-fusion-rewriter: for GPUs: what a library reads or writes of a larger array needs
// no copy, since a part that lies in one piece is an address. Slices of operands and updates of
// slices by results join calls of cuBLAS and reduce-scatters in a fusion.
//
//   s = f32[1,8,32] slice(x), slice={[1:2],...}     f = fusion(x, y), kind=kCustom, calls={
//   b = f32[8,32] bitcast(s)                   =>     s = slice(x), b = bitcast(s),
//   g = (f32[8,32], s8[..]) custom-call(b, y)         ROOT g = custom-call(b, y) }
//
// Where a part begins must be known before the kernel runs: by constants or from a loop's counter.
// It must begin where the library wants arrays to begin. Parts are reached through bitcasts.
//
// dynamic-slice-fusion-rewriter-v2: the same as XLA does it since 0.11. What depends on a loop's counter has been noted
// (dynamic-slice-annotator); parts are of as many bytes as arrays are aligned to; an update is a result of its computation;
// sums and products that say where a part begins go along into the fusion.

#include <stdlib.h>
#include <string.h>

#include "hilo/cost.h"
#include "hilo/custom_calls.h"
#include "ir/backend_config.h"
#include "ir/vecs.h"
#include "opt/ask/layouts.h"
#include "opt/ask/loops.h"
#include "opt/fusion/custom_fusion.h"
#include "opt/passes.h"

enum {
  ALIGNMENT = 128,
  MAX_INIT = 64,   // instructions that make a counter's first value
  MAX_OFFSET = 64  // nested operations that say where a part begins
};

typedef struct Rewriter {
  HlPass *p;
  bool noted;  // v2
  HlComp *comp;
  CustomFusion custom;
  FusionReach reach;
  bool asked_counter;
  bool *from_counter;  // by id: computed from the counter and constants alone; NULL: no counter
  uint32_t n_ids;
  InstVec before;   // slices and bitcasts of operands
  InstVec after;    // ways from results to updates
  InstVec offsets;  // what says where parts begin, operands first
} Rewriter;

// One way from a result to the array that it updates: places in `after`.
typedef struct Way {
  int first, end;  // none: first == end
} Way;

// --- Parts in one piece -------------------------------------------------------------------------

// The k-th dimension from the innermost one; -1: the layout is broken.
static int64_t inner_dim(const HlShape *shape, int k) {
  if (!shape->layout)
    return shape->rank - 1 - k;
  HlI64s order = shape->layout->minor_to_major;
  const int64_t dim = k < order.n ? order.at[k] : -1;
  return dim < shape->rank ? dim : -1;
}

static bool is_plain(const HlShape *shape) {
  return hl_shape_is_array(shape) && !hl_shape_is_dynamic(shape) &&
         !(shape->layout && shape->layout->extra) && hl_dtype_info[shape->dtype].bits >= 8 &&
         hl_shape_elements(shape) < INT64_MAX / 64;
}

// Outside of the outermost dimension that is taken whole, all but one are of size 1.
static bool is_one_piece(const HlShape *whole, const HlShape *part) {
  bool cut = false;
  for (int k = 0; k < part->rank; k++) {
    const int64_t dim = inner_dim(part, k);
    if (dim < 0 || (cut && part->dim[dim] != 1))
      return false;
    cut |= part->dim[dim] < whole->dim[dim];
  }
  return true;
}

// In one piece of as many bytes as arrays are aligned to.
static bool is_even_piece(const HlShape *whole, const HlShape *part) {
  return is_plain(whole) && is_plain(part) && hl_shape_same_order(whole, part) &&
         is_one_piece(whole, part) && hl_leaf_bytes(part) % ALIGNMENT == 0;
}

// `range`: start, limit and stride of a slice by dimension; NULL: not known.
static bool is_aligned(const HlShape *whole, const HlShape *part, const int64_t *range) {
  if (!is_plain(whole) || !is_plain(part) || !hl_shape_same_order(whole, part) ||
      !is_one_piece(whole, part))
    return false;
  int64_t stride = hl_dtype_info[part->dtype].bits / 8;
  for (int k = 0; k < part->rank; k++) {
    const int64_t dim = inner_dim(part, k);
    if (stride % ALIGNMENT == 0)
      return true;
    if (part->dim[dim] < whole->dim[dim])
      return range && stride * range[3 * dim] % ALIGNMENT == 0;
    stride *= part->dim[dim];
  }
  return true;
}

static bool is_dense_slice(const HlInst *slice) {
  HlI64s range = hl_attr_ints(slice, HL_A_SLICE);
  for (int k = 2; k < range.n; k += 3)
    if (range.at[k] != 1)
      return false;
  return true;
}

// --- Where parts begin --------------------------------------------------------------------------

static bool is_made_of_constants(const HlInst *init) {
  const HlInst *stack[MAX_INIT] = {init};
  int n = 1;
  for (int met = 0; n > 0; met++) {
    const HlInst *inst = stack[--n];
    if (inst->op == HL_OP_CONSTANT)
      continue;
    if (inst->n_operands == 0 || inst->n_operands > (uint32_t)(MAX_INIT - n) || met > MAX_INIT)
      return false;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      stack[n++] = inst->operands[k];
  }
  return true;
}

// The loop whose body this is; NULL: there is none, or somebody else calls it, too.
static HlInst *loop_of(const HlComp *comp) {
  if (!comp->first_call || comp->first_call != comp->last_call)
    return NULL;
  HlInst *loop = comp->first_call->caller;
  return loop->op == HL_OP_WHILE && hl_while_body(loop) == comp && comp->n_params == 1 ? loop
                                                                                       : NULL;
}

// The only element of the body's parameter of this number, or NULL.
static const HlInst *only_element(const HlInst *param, int slot) {
  const HlInst *found = NULL;
  for (const HlUse *use = param->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT || hl_attr_int(use->user, HL_A_INDEX) != slot)
      continue;
    if (found)
      return NULL;
    found = use->user;
  }
  return found;
}

// Operands stand before users: one walk.
static void mark_from_counter(Rewriter *r, const HlInst *counter) {
  r->n_ids = r->comp->next_id;
  r->from_counter = HL_ARRAY(r->p->arena, bool, r->n_ids);
  for (const HlInst *inst = r->comp->first; inst; inst = inst->next) {
    bool good = inst == counter || inst->op == HL_OP_CONSTANT || inst->n_operands > 0;
    for (uint32_t k = 0; good && inst != counter && k < inst->n_operands; k++)
      good = r->from_counter[inst->operands[k]->id];
    r->from_counter[inst->id] = good;
  }
}

static void find_counter(Rewriter *r) {
  r->asked_counter = true;
  const HlInst *loop = loop_of(r->comp);
  const int slot = loop ? loop_induction_slot(r->p, loop) : -1;
  const HlInst *next = r->comp->root;
  if (slot < 0 || loop->operands[0]->op != HL_OP_TUPLE || next->op != HL_OP_TUPLE ||
      !is_made_of_constants(loop->operands[0]->operands[slot]))
    return;
  const HlInst *counter = only_element(r->comp->params[0], slot);
  if (!counter)
    return;
  mark_from_counter(r, counter);
  if (!r->from_counter[next->operands[slot]->id])
    r->from_counter = NULL;
}

static bool is_known_start(Rewriter *r, const HlInst *start) {
  if (start->op == HL_OP_CONSTANT) {
    const HlDtype dtype = start->shape->dtype;
    return dtype == HL_S32 || dtype == HL_S64 || dtype == HL_U32 || dtype == HL_U64;
  }
  if (!r->asked_counter)
    find_counter(r);
  return r->from_counter && start->id < r->n_ids && r->from_counter[start->id];
}

static bool has_known_starts(Rewriter *r, const HlInst *inst, uint32_t first) {
  for (uint32_t k = first; k < inst->n_operands; k++)
    if (!is_known_start(r, inst->operands[k]))
      return false;
  return true;
}

// --- What goes in -------------------------------------------------------------------------------

// The part of what an operation reads or writes that is read or written.
static bool is_good_part(Rewriter *r, const HlInst *inst, const HlShape *part, uint32_t first) {
  const HlShape *whole = inst->operands[0]->shape;
  if (r->noted)
    return is_even_piece(whole, part) && hl_slice_config(r->p->arena, inst).known;
  return is_aligned(whole, part, NULL) && has_known_starts(r, inst, first);
}

static bool is_slice(Rewriter *r, const HlInst *inst) {
  if (inst->op != HL_OP_SLICE)
    return inst->op == HL_OP_DYNAMIC_SLICE && is_good_part(r, inst, inst->shape, 1);
  const HlShape *whole = inst->operands[0]->shape;
  if (!is_dense_slice(inst))
    return false;
  return r->noted ? is_even_piece(whole, inst->shape)
                  : is_aligned(whole, inst->shape, hl_attr_ints(inst, HL_A_SLICE).at);
}

// The slice that an operand is, with the bitcasts behind it, in the order of the list.
static void find_slice(Rewriter *r, HlInst *operand) {
  int n = 1;
  HlInst *slice = operand;
  for (; slice->op == HL_OP_BITCAST; n++) {
    if (hl_has_control(slice))
      return;
    slice = slice->operands[0];
  }
  if (hl_has_control(slice) || !is_slice(r, slice))
    return;
  const int at = r->before.n;
  vec_room(&r->before, n);
  r->before.n += n;
  for (int k = n - 1; k >= 0; k--) {
    r->before.at[at + k] = operand;
    operand = k > 0 ? operand->operands[0] : NULL;
  }
}

// What is written over must be there on its own.
static bool is_overwritten(const HlInst *hero, int operand) {
  const HlAttr *attr = hl_attr(hero, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  for (int k = 0; attr && k < attr->aliases.n; k++)
    if (attr->aliases.at[k].number == operand)
      return true;
  return false;
}

static void find_slices(Rewriter *r, const HlInst *hero) {
  r->before.n = 0;
  for (uint32_t k = 0; k < hero->n_operands; k++)
    if (!is_overwritten(hero, (int)k))
      find_slice(r, hero->operands[k]);
}

static bool is_result(const HlInst *inst) {
  const HlInst *root = inst->comp->root;
  if (inst == root)
    return true;
  for (const HlUse *use = root->op == HL_OP_TUPLE ? inst->first_use : NULL; use; use = use->next)
    if (use->user == root)
      return true;
  return false;
}

// Puts part of a result into an array that does not depend on the result itself.
static bool is_update(Rewriter *r, const HlInst *hero, const HlInst *inst, const HlInst *by) {
  if (inst->op != HL_OP_DYNAMIC_UPDATE_SLICE || inst->operands[1] != by || hl_has_control(inst) ||
      !is_good_part(r, inst, by->shape, 2) || (r->noted && !is_result(inst)))
    return false;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (k != 1 &&
        (inst->operands[k] == by || fusion_reaches(&r->reach, hero, inst->operands[k], false)))
      return false;
  return true;
}

// The way from a result, or from the element of several that it begins with.
static Way find_update(Rewriter *r, const HlInst *hero, HlInst *element) {
  const int before = r->after.n;
  const HlInst *by = hero;
  HlInst *at = element ? element : hl_one_user(hero) ? hero->first_use->user : NULL;
  for (; at; at = by->first_use->user) {
    vec_push(&r->after, at);
    if (at != element && is_update(r, hero, at, by))
      return (Way){before, r->after.n};
    if ((at != element && at->op != HL_OP_BITCAST) || !hl_one_user(at) || hl_has_control(at))
      break;
    by = at;
  }
  r->after.n = before;
  return (Way){0};
}

// By number of the result. An element that is taken several times is left alone.
static Way *find_updates(Rewriter *r, HlInst *hero) {
  r->after.n = 0;
  const bool is_tuple = hl_shape_is_tuple(hero->shape);
  const int n = is_tuple ? hero->shape->rank : 1;
  Way *ways = HL_ARRAY(r->p->arena, Way, n);
  if (!is_tuple) {
    ways[0] = find_update(r, hero, NULL);
    return ways;
  }
  HlInst **element = HL_ARRAY(r->p->arena, HlInst *, n);
  bool *again = HL_ARRAY(r->p->arena, bool, n);
  if (hero == r->comp->root)
    return ways;
  for (const HlUse *use = hero->first_use; use; use = use->next) {
    if (use->user->op != HL_OP_GET_TUPLE_ELEMENT)
      return ways;
    const int64_t k = hl_attr_int(use->user, HL_A_INDEX);
    again[k] |= element[k] != NULL;
    element[k] = use->user;
  }
  for (int k = 0; k < n; k++)
    if (element[k] && !again[k])
      ways[k] = find_update(r, hero, element[k]);
  return ways;
}

// --- The fusion ---------------------------------------------------------------------------------

static bool is_dynamic(const InstVec *list) {
  for (int k = 0; k < list->n; k++)
    if (list->at[k]->op == HL_OP_DYNAMIC_SLICE || list->at[k]->op == HL_OP_DYNAMIC_UPDATE_SLICE)
      return true;
  return false;
}

static HlInst *element_of(HlInst *tuple, int k) {
  const HlShape *shape = tuple->shape->element[k];
  HlInst *made = hl_inst_new(tuple->comp, HL_OP_GET_TUPLE_ELEMENT, shape, NULL, 1, &tuple);
  hl_set_int(made, HL_A_INDEX, k);
  return made;
}

static bool is_offset(const HlInst *inst) {
  const HlShape *shape = inst->op == HL_OP_COMPARE ? inst->operands[0]->shape : inst->shape;
  if (!hl_shape_is_array(shape) || shape->rank != 0)
    return false;
  switch (inst->op) {
  case HL_OP_ADD:
  case HL_OP_SUBTRACT:
  case HL_OP_MULTIPLY:
  case HL_OP_COMPARE: return hl_is_integral(shape->dtype);
  case HL_OP_SELECT:
  case HL_OP_CONSTANT: return hl_is_integral(shape->dtype) || shape->dtype == HL_PRED;
  default: return false;
  }
}

// What says where a part begins, as far as it is sums and products of integers; the rest comes in as parameters.
static void add_offset(Rewriter *r, HlInst *inst, int depth) {
  if (custom_fusion_inner(&r->custom, inst) || !is_offset(inst) || depth > MAX_OFFSET)
    return;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    add_offset(r, inst->operands[k], depth + 1);
  custom_fusion_add(&r->custom, inst);
  vec_push(&r->offsets, inst);
}

// An instruction of a way; arrays are parameters before what says where their parts begin.
static HlInst *add(Rewriter *r, HlInst *inst) {
  const uint32_t first = inst->op == HL_OP_DYNAMIC_SLICE          ? 1
                         : inst->op == HL_OP_DYNAMIC_UPDATE_SLICE ? 2
                                                                  : inst->n_operands;
  for (uint32_t k = 0; r->noted && first < inst->n_operands && k < inst->n_operands; k++) {
    if (k < first)
      custom_fusion_operand(&r->custom, inst->operands[k]);
    else
      add_offset(r, inst->operands[k], 0);
  }
  return custom_fusion_add(&r->custom, inst);
}

static HlInst *add_way(Rewriter *r, Way way) {
  HlInst *last = NULL;
  for (int k = way.first; k < way.end; k++)
    last = add(r, r->after.at[k]);
  return last;
}

static HlInst *build(Rewriter *r, HlInst *hero, const Way *ways) {
  CustomFusion *f = &r->custom;
  r->offsets.n = 0;
  custom_fusion_begin(f, "dynamic-slice-fusion");
  for (int k = 0; k < r->before.n; k++)
    if (!custom_fusion_inner(f, r->before.at[k]))
      add(r, r->before.at[k]);
  HlInst *root = custom_fusion_add(f, hero);
  if (hl_shape_is_tuple(hero->shape)) {
    const int n = hero->shape->rank;
    HlInst **results = HL_ARRAY(r->p->arena, HlInst *, n);
    const HlShape **shapes = HL_ARRAY(r->p->arena, const HlShape *, n);
    for (int k = 0; k < n; k++) {
      results[k] = ways[k].end ? add_way(r, ways[k]) : element_of(root, k);
      shapes[k] = results[k]->shape;
    }
    const HlShape *shape = hl_shape_tuple(r->p->m->shapes, n, shapes);
    root = hl_inst_new(f->body, HL_OP_TUPLE, shape, NULL, n, results);
  } else if (ways[0].end) {
    root = add_way(r, ways[0]);
  }
  if (r->noted)
    return custom_fusion_end(f, root, hl_text_of_KERNEL(HL_KERNEL_PARTS), HL_KERNEL_PARTS);
  const HlOwnKernel kernel =
      is_dynamic(&r->before) || is_dynamic(&r->after) ? HL_KERNEL_DYNAMIC_SLICES : HL_KERNEL_SLICES;
  HlInst *fusion = custom_fusion_end(f, root, hl_text_of_KERNEL(HL_KERNEL_SLICES), kernel);
  hl_inherit(fusion, hero);
  if (r->after.n > 0) {
    hl_remove_attr(fusion, HL_A_SHARDING);
    hl_remove_attr(fusion, HL_A_ORIGIN);
  }
  return fusion;
}

static HlInst *last_of(const Rewriter *r, Way way) {
  return r->after.at[way.end - 1];
}

static void fuse(Rewriter *r, HlInst *hero, const Way *ways) {
  HlInst *fusion = build(r, hero, ways);
  if (hl_shape_is_tuple(hero->shape)) {
    for (int k = 0; k < hero->shape->rank; k++)
      if (ways[k].end)
        hl_replace_uses(last_of(r, ways[k]), element_of(fusion, k));
    custom_fusion_clean(r->after.at, r->after.n);
    hl_replace_uses(hero, fusion);
  } else {
    hl_replace_uses(ways[0].end ? last_of(r, ways[0]) : hero, fusion);
    custom_fusion_clean(r->after.at, r->after.n);
  }
  hl_erase(hero);
  custom_fusion_clean(r->before.at, r->before.n);
  custom_fusion_clean(r->offsets.at, r->offsets.n);
}

// --- The pass -----------------------------------------------------------------------------------

// Flat, and more than one result if any are listed at all.
static bool has_good_shape(const HlShape *shape) {
  if (!hl_shape_is_tuple(shape))
    return hl_shape_is_array(shape);
  for (int k = 0; k < shape->rank; k++)
    if (!hl_shape_is_array(shape->element[k]))
      return false;
  return shape->rank > 1;
}

// What a library does with arrays; exchanges only before v2.
static bool is_hero(const Rewriter *r, const HlInst *inst) {
  if (!has_good_shape(inst->shape) || hl_has_control(inst))
    return false;
  if (inst->op != HL_OP_CUSTOM_CALL)
    return inst->op == HL_OP_REDUCE_SCATTER && !r->noted;
  return hl_is_call(inst, HL_CALL_CUBLAS_GEMM) ||
         (r->noted && hl_call_info[hl_call_target(inst)].library == HL_LIBRARY_CUBLASLT);
}

static void visit(Rewriter *r, HlInst *hero) {
  find_slices(r, hero);
  const Way *ways = find_updates(r, hero);
  const int n_after = r->after.n;
  HlInst *with = n_after > 0 ? r->after.at[n_after - 1] : r->before.n > 0 ? r->before.at[0] : NULL;
  if (!with || !hl_change(r->p, "slice", hero, with))
    return;
  fuse(r, hero, ways);
  hl_changed(r->p);
}

static bool rewrite(HlPass *p, bool noted) {
  int n_comps;
  HlComp **comps = hl_pass_comps(p, HL_COMPS_NO_FUSION, &n_comps);
  for (int c = 0; c < n_comps; c++) {
    const HlMark mark = hl_arena_mark(p->arena);
    Rewriter r = {.p = p, .noted = noted, .comp = comps[c], .reach.arena = p->arena};
    r.custom = custom_fusion_of(p->arena, comps[c]);
    int n;
    HlInst **insts = hl_pass_insts(p, comps[c], &n);
    for (int k = 0; k < n; k++)
      if (hl_alive(insts[k]) && is_hero(&r, insts[k]))
        visit(&r, insts[k]);
    vec_free(&r.custom.operands);
    vec_free(&r.reach.stack);
    vec_free(&r.before);
    vec_free(&r.after);
    vec_free(&r.offsets);
    hl_arena_release(p->arena, mark);
  }
  return true;
}

bool pass_dynamic_slice_fusion(HlPass *p) {
  return !hl_pass_flag(p, "enable") || rewrite(p, false);
}

bool pass_dynamic_slice_fusion_v2(HlPass *p) {
  return rewrite(p, true);
}
