// tool/shrink/extract.c: makes modules of parts of a module.
//
// A part is a set of instructions of one computation. It is copied in list order into a new entry; operands outside the set
// become parameters, each once, in the order of the list, after those parameters of the computation that the set has itself.
// Computations that are called are copied whole, however deep.

#include "hilo/extract.h"

#include <string.h>

#include "base/vec.h"
#include "hilo/edit.h"
#include "tool/shrink/extract.h"

// --- Copying computations -----------------------------------------------------------------------

typedef struct Copy {
  HlCx *cx;
  HlArena *arena;
  const HlModule *from;
  HlModule *to;
  HlComp **comp;  // by id of the computation in `from`; NULL: not called
  VEC(const HlComp *) called;
} Copy;

static const HlSym *sym_of(HlModule *to, const HlSym *sym) {
  return sym ? hl_syms_add(to->syms, sym->text, sym->n) : NULL;
}

static void call_too(Copy *c, const HlInst *inst) {
  for (int k = 0; k < inst->n_calls; k++) {
    const HlComp *callee = hl_called(inst, k);
    if (c->comp[callee->id])
      continue;
    HlComp *made = hl_comp_new(c->to, callee->name->text, callee->name->n);
    c->comp[callee->id] = made;
    if (callee->is_fusion)
      hl_comp_set_fusion(made);
    hl_comp_set_thread(made, sym_of(c->to, callee->execution_thread));
    hl_comp_set_loc(made, callee->loc);
    vec_push(&c->called, callee);
  }
}

// The instruction in another module; what it calls is there, or will be.
static HlInst *copy_inst(Copy *c, HlComp *to, const HlInst *inst, HlInst *const *operands) {
  HlInst *copy = hl_inst_new(to, (HlOp)inst->op, hl_shape_intern(c->to->shapes, inst->shape),
                             sym_of(c->to, inst->name), (int)inst->n_operands, operands);
  hl_copy_attrs(copy, inst);
  hl_set_loc(copy, inst->loc);
  call_too(c, inst);
  if (inst->n_calls > 0) {
    HlComp **calls = HL_ARRAY(c->arena, HlComp *, inst->n_calls);
    for (int k = 0; k < inst->n_calls; k++)
      calls[k] = c->comp[hl_called(inst, k)->id];
    hl_set_calls(copy, inst->n_calls, calls);
  }
  return copy;
}

static void copy_control(const HlInst *inst, HlInst *const *map) {
  for (int k = 0; inst->control && k < inst->control->n_preds; k++) {
    HlInst *pred = map[inst->control->preds[k]->id];
    if (pred && map[inst->id])
      hl_add_control(pred, map[inst->id]);
  }
}

static void copy_body(Copy *c, const HlComp *from) {
  HlComp *to = c->comp[from->id];
  HlInst **map = HL_ARRAY(c->arena, HlInst *, from->next_id + 1);
  VEC(HlInst *) operands = {0};
  for (const HlInst *inst = from->first; inst; inst = inst->next) {
    operands.n = 0;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      vec_push(&operands, map[inst->operands[k]->id]);
    map[inst->id] = copy_inst(c, to, inst, operands.at);
  }
  vec_free(&operands);
  for (const HlInst *inst = from->first; inst; inst = inst->next)
    copy_control(inst, map);
  if (from->root)
    hl_set_root(to, map[from->root->id]);
  if (!from->schedule)
    return;
  HlInst **schedule = HL_ARRAY(c->arena, HlInst *, from->n_insts);
  for (uint32_t k = 0; k < from->n_insts; k++)
    schedule[k] = map[from->schedule[k]->id];
  hl_set_schedule(to, schedule);
}

// --- The module around them ---------------------------------------------------------------------

static void copy_frames(Copy *c) {
  const HlFrames *from = &c->from->frames;
  HlModule *to = c->to;
  if (from->n_frames == 0)
    return;
  HlFrames frames = *from;
  const HlSym **files = HL_ARRAY(to->arena, const HlSym *, from->n_file_names + 1);
  const HlSym **functions = HL_ARRAY(to->arena, const HlSym *, from->n_function_names + 1);
  for (int k = 0; k < from->n_file_names; k++)
    files[k] = sym_of(to, from->file_names[k]);
  for (int k = 0; k < from->n_function_names; k++)
    functions[k] = sym_of(to, from->function_names[k]);
  frames.file_names = files;
  frames.function_names = functions;
#define COPY(list, n) hl_arena_copy(to->arena, from->list, sizeof *from->list *(size_t)from->n)
  frames.locations = COPY(locations, n_locations);
  frames.frames = COPY(frames, n_frames);
#undef COPY
  hl_set_frames(to, &frames);
  hl_intern_frames(to);
}

static void copy_header(Copy *c, const char *name) {
  const HlDict *dict = &c->from->frontend_attributes;
  HlModule *to = c->to;
  const HlSym **key = HL_ARRAY(to->arena, const HlSym *, dict->n + 1);
  const HlSym **value = HL_ARRAY(to->arena, const HlSym *, dict->n + 1);
  for (int k = 0; k < dict->n; k++) {
    key[k] = sym_of(to, dict->key[k]);
    value[k] = sym_of(to, dict->value[k]);
  }
  if (dict->n > 0)
    hl_set_module_attributes(to, (HlDict){key, value, dict->n});
  hl_module_set_name(to, hl_sym(to, name));
  hl_module_set_loc(to, c->from->loc);
  hl_set_devices(to, c->from->replica_count, c->from->num_partitions);
  hl_set_dialect(to, c->from->dialect);
  hl_set_tuple_elements(to, c->from->tuple_elements);
  hl_set_dynamic(to, c->from->is_dynamic);
  copy_frames(c);
}

static Copy start_copy(HlCx *cx, const HlModule *from) {
  Copy c = {.cx = cx, .arena = hl_arena_new(), .from = from};
  c.to = hl_module_new("", from->source);
  c.comp = HL_ARRAY(c.arena, HlComp *, from->next_comp_id + 1);
  return c;
}

// Copies what is called, and puts the module round it. False after reporting.
static bool finish_copy(Copy *c, HlComp *entry, const char *name) {
  for (int k = 0; k < c->called.n; k++)
    copy_body(c, c->called.at[k]);
  hl_comp_set_entry(entry);
  copy_header(c, name);
  hl_unique_names(c->to);
  hl_complete_entry_layout(c->to);
  if (entry->schedule)
    hl_set_scheduled(c->to, true);
  vec_free(&c->called);
  hl_arena_free(c->arena);
  return hl_sort_comps(c->cx, c->to);
}

// --- A part ---------------------------------------------------------------------------------------

static bool is_token(const HlInst *inst) {
  return inst->shape->dtype == HL_TOKEN;
}

static bool has_token(const HlShape *shape) {
  if (shape->dtype == HL_TOKEN)
    return true;
  for (int k = 0; shape->dtype == HL_TUPLE && k < shape->rank; k++)
    if (has_token(shape->element[k]))
      return true;
  return false;
}

// Whether a value can come from outside: not what waits for asynchronous work, nor what does not say its size.
static bool can_be_given(const HlInst *inst) {
  return !hl_is_async((HlOp)inst->op) && !hl_shape_is_dynamic(inst->shape) &&
         (is_token(inst) || !has_token(inst->shape));
}

// Adds to the set what its members need from inside, and puts tuples together there. The list is topological, so one walk up
// does.
static void close_set(const HlComp *comp, bool *in) {
  for (const HlInst *inst = comp->last; inst; inst = inst->prev)
    for (uint32_t k = 0; in[inst->id] && k < inst->n_operands; k++) {
      const HlInst *x = inst->operands[k];
      const bool starts = hl_awaits((HlOp)inst->op) && k == 0;
      if (x->op != HL_OP_PARAMETER &&
          (x->op == HL_OP_CONSTANT || x->op == HL_OP_TUPLE || starts || !can_be_given(x)))
        in[x->id] = true;
    }
}

// Asynchronous work whose start is in the set is awaited in it.
static void await_all(const HlComp *comp, bool *in) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (hl_awaits((HlOp)inst->op) && inst->n_operands > 0 &&
        hl_is_async((HlOp)inst->operands[0]->op) && in[inst->operands[0]->id])
      in[inst->id] = true;
}

static void add_cone(const HlComp *comp, bool *in, int64_t height) {
  HlArena *arena = hl_arena_new();
  int64_t *left = HL_ARRAY(arena, int64_t, comp->next_id + 1);  // steps still to go up, + 1
  for (const HlInst *inst = comp->last; inst; inst = inst->prev) {
    if (in[inst->id] && left[inst->id] == 0)
      left[inst->id] = height + 1;
    for (uint32_t k = 0; left[inst->id] > 1 && k < inst->n_operands; k++) {
      const uint32_t id = inst->operands[k]->id;
      in[id] = true;
      if (left[id] < left[inst->id] - 1)
        left[id] = left[inst->id] - 1;
    }
  }
  hl_arena_free(arena);
}

typedef struct Part {
  Copy copy;
  const HlComp *from;
  const bool *in;  // by id
  HlComp *entry;
  HlInst **map;  // by id
  HlExtract *out;
} Part;

static void add_parameter(Part *p, const HlInst *inst) {
  HlModule *to = p->copy.to;
  HlInst *param = hl_parameter_new(
      p->entry, p->out->n_params, hl_shape_intern(to->shapes, inst->shape), sym_of(to, inst->name));
  hl_inherit(param, inst);
  hl_set_loc(param, inst->loc);
  p->map[inst->id] = param;
  p->out->param[p->out->n_params++] = inst;
}

static void add_parameters(Part *p) {
  const HlComp *from = p->from;
  bool *cut = HL_ARRAY(p->copy.arena, bool, from->next_id + 1);
  for (const HlInst *inst = from->first; inst; inst = inst->next)
    for (uint32_t k = 0; p->in[inst->id] && k < inst->n_operands; k++)
      cut[inst->operands[k]->id] |= !p->in[inst->operands[k]->id];
  for (int k = 0; k < from->n_params; k++)
    if (from->params[k] && (p->in[from->params[k]->id] || cut[from->params[k]->id]))
      add_parameter(p, from->params[k]);
  for (const HlInst *inst = from->first; inst; inst = inst->next)
    if (!cut[inst->id] || inst->op == HL_OP_PARAMETER)
      continue;
    else if (is_token(inst))
      p->map[inst->id] = hl_inst_new(p->entry, HL_OP_AFTER_ALL, hl_shape_token(p->copy.to->shapes),
                                     sym_of(p->copy.to, inst->name), 0, NULL);
    else
      add_parameter(p, inst);
}

static void copy_part(Part *p) {
  VEC(HlInst *) operands = {0};
  for (const HlInst *inst = p->from->first; inst; inst = inst->next) {
    if (!p->in[inst->id] || p->map[inst->id])
      continue;
    operands.n = 0;
    for (uint32_t k = 0; k < inst->n_operands; k++)
      vec_push(&operands, p->map[inst->operands[k]->id]);
    p->map[inst->id] = copy_inst(&p->copy, p->entry, inst, operands.at);
  }
  vec_free(&operands);
  for (const HlInst *inst = p->from->first; inst; inst = inst->next)
    copy_control(inst, p->map);
}

static void set_results(Part *p) {
  HlExtract *out = p->out;
  HlModule *to = p->copy.to;
  HlInst **value = HL_ARRAY(p->copy.arena, HlInst *, out->n_results + 1);
  const HlShape **shape = HL_ARRAY(p->copy.arena, const HlShape *, out->n_results + 1);
  for (int k = 0; k < out->n_results; k++) {
    value[k] = p->map[out->result[k]->id];
    shape[k] = value[k]->shape;
  }
  HlInst *root = value[0];
  if (out->n_results != 1)
    root = hl_inst_new(p->entry, HL_OP_TUPLE, hl_shape_tuple(to->shapes, out->n_results, shape),
                       hl_fresh_name(to, "results"), out->n_results, value);
  hl_set_root(p->entry, root);
}

// The order that is left of the old one: parameters first, the tuple of results last.
static void keep_schedule(Part *p) {
  if (!p->from->schedule)
    return;
  HlInst **order = HL_ARRAY(p->copy.arena, HlInst *, p->entry->n_insts + 1);
  bool *placed = HL_ARRAY(p->copy.arena, bool, p->entry->next_id + 1);
  uint32_t n = 0;
  for (int k = 0; k < p->entry->n_params; k++)
    placed[(order[n++] = p->entry->params[k])->id] = true;
  for (uint32_t k = 0; k < p->from->n_insts; k++) {
    HlInst *inst = p->map[p->from->schedule[k]->id];
    if (inst && !placed[inst->id])
      placed[(order[n++] = inst)->id] = true;
  }
  if (!placed[p->entry->root->id])
    order[n++] = p->entry->root;
  hl_set_schedule(p->entry, order);
}

// `in` is the set; results are in `out`. Takes what the set needs along.
static bool cut_part(HlCx *cx, const HlComp *from, const bool *in, const char *name,
                     HlExtract *out) {
  Part p = {.copy = start_copy(cx, from->module), .from = from, .in = in, .out = out};
  p.entry = hl_comp_new(p.copy.to, from->name->text, from->name->n);
  p.map = HL_ARRAY(p.copy.arena, HlInst *, from->next_id + 1);
  out->m = p.copy.to;
  out->param = HL_ARRAY(out->arena, const HlInst *, from->n_insts + 1);
  add_parameters(&p);
  copy_part(&p);
  set_results(&p);
  keep_schedule(&p);
  return finish_copy(&p.copy, p.entry, name);
}

static bool is_used_in(const HlInst *inst, const bool *in) {
  for (const HlUse *use = inst->first_use; use; use = use->next)
    if (in[use->user->id])
      return true;
  return false;
}

// Results: of `among` (by id) what nobody in the set uses, in list order. What was started is given when it is done.
static void find_results(const HlComp *comp, const bool *in, const bool *among, HlExtract *out) {
  out->result = HL_ARRAY(out->arena, const HlInst *, comp->n_insts + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (in[inst->id] && among[inst->id] && !is_used_in(inst, in))
      out->result[out->n_results++] = inst;
}

void hl_extract_free(HlExtract *extract) {
  hl_module_free(extract->m);
  if (extract->arena)
    hl_arena_free(extract->arena);
  *extract = (HlExtract){0};
}

bool extract_keep(HlCx *cx, const HlComp *comp, bool *in, const bool *results, const char *name,
                  HlExtract *out) {
  *out = (HlExtract){.arena = hl_arena_new()};
  out->result = HL_ARRAY(out->arena, const HlInst *, comp->n_insts + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    if (results[inst->id])
      out->result[out->n_results++] = inst;
  await_all(comp, in);
  close_set(comp, in);
  return cut_part(cx, comp, in, name, out);
}

bool hl_extract(HlCx *cx, int n, const HlInst *const *insts, int64_t height, HlExtract *out) {
  *out = (HlExtract){.arena = hl_arena_new()};
  const HlComp *comp = insts[0]->comp;
  HlArena *arena = hl_arena_new();
  bool *in = HL_ARRAY(arena, bool, comp->next_id + 1),
       *among = HL_ARRAY(arena, bool, comp->next_id + 1);
  for (int k = 0; k < n; k++)
    in[insts[k]->id] = true;
  await_all(comp, in);
  memcpy(among, in, comp->next_id);
  add_cone(comp, in, height < 0 ? INT32_MAX : height);
  close_set(comp, in);
  find_results(comp, in, among, out);
  const bool ok = cut_part(cx, comp, in, insts[0]->name->text, out);
  hl_arena_free(arena);
  return ok;
}

bool hl_extract_comp(HlCx *cx, const HlComp *comp, HlExtract *out) {
  *out = (HlExtract){.arena = hl_arena_new()};
  HlArena *arena = hl_arena_new();
  bool *in = HL_ARRAY(arena, bool, comp->next_id + 1);
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    in[inst->id] = true;
  out->result = HL_ARRAY(out->arena, const HlInst *, 1);
  out->result[out->n_results++] = comp->root;
  const bool ok = cut_part(cx, comp, in, comp->name->text, out);
  hl_arena_free(arena);
  return ok;
}

// --- Slices -----------------------------------------------------------------------------------------

static void add_users(const HlComp *comp, bool *in) {
  for (const HlInst *inst = comp->first; inst; inst = inst->next)
    for (uint32_t k = 0; !in[inst->id] && k < inst->n_operands; k++)
      in[inst->id] = in[inst->operands[k]->id];
}

// What a forward slice comes to: of a tuple that is the root the elements in it.
static void forward_results(const HlComp *comp, bool *in, HlExtract *out) {
  const HlInst *root = comp->root;
  if (!in[root->id]) {
    find_results(comp, in, in, out);
    return;
  }
  out->result = HL_ARRAY(out->arena, const HlInst *, root->n_operands + 1);
  if (root->op != HL_OP_TUPLE || root->first_use) {
    out->result[out->n_results++] = root;
    return;
  }
  in[root->id] = false;
  for (uint32_t k = 0; k < root->n_operands; k++)
    if (in[root->operands[k]->id])
      out->result[out->n_results++] = root->operands[k];
  if (out->n_results == 0) {  // the root itself was asked for
    in[root->id] = true;
    out->result[out->n_results++] = root;
  }
}

static bool slice_forward(HlCx *cx, const HlInst *inst, const HlInst *to, bool *in,
                          HlExtract *out) {
  const HlComp *comp = inst->comp;
  in[inst->id] = true;
  add_users(comp, in);
  if (!to) {
    forward_results(comp, in, out);
    return true;
  }
  if (to->comp != comp || !in[to->id])
    return hl_error(cx, hl_pos(inst), "no way leads from '%s' to '%s'", inst->name->text,
                    to->name->text);
  HlArena *arena = hl_arena_new();
  bool *above = HL_ARRAY(arena, bool, comp->next_id + 1);
  above[to->id] = true;
  add_cone(comp, above, INT32_MAX);
  for (uint32_t id = 0; id < comp->next_id; id++)
    in[id] &= above[id];
  hl_arena_free(arena);
  out->result = HL_ARRAY(out->arena, const HlInst *, 1);
  out->result[out->n_results++] = to;
  return true;
}

bool hl_extract_slice(HlCx *cx, const HlInst *inst, HlSlice direction, const HlInst *to,
                      HlExtract *out) {
  if (direction == HL_SLICE_BACKWARD && !to)
    return hl_extract(cx, 1, &inst, HL_WHOLE_CONE, out);
  if (direction == HL_SLICE_BACKWARD) {
    const HlInst *from = to;
    to = inst;
    inst = from;
  }
  *out = (HlExtract){.arena = hl_arena_new()};
  const HlComp *comp = inst->comp;
  HlArena *arena = hl_arena_new();
  bool *in = HL_ARRAY(arena, bool, comp->next_id + 1);
  bool ok = slice_forward(cx, inst, to, in, out);
  if (ok) {
    await_all(comp, in);
    close_set(comp, in);
    ok = cut_part(cx, comp, in, inst->name->text, out);
  }
  hl_arena_free(arena);
  return ok;
}

const HlInst **hl_extract_callers(HlArena *arena, const HlInst *inst, int *n) {
  const HlModule *m = inst->comp->module;
  const HlInst **list = HL_ARRAY(arena, const HlInst *, m->entry->n_insts + 1);
  bool *reaches = HL_ARRAY(arena, bool, m->next_comp_id + 1);
  reaches[inst->comp->id] = true;
  for (const HlComp *comp = m->first; comp; comp = comp->next)  // callees come first
    for (const HlInst *i = comp->first; i; i = i->next)
      for (int k = 0; k < i->n_calls; k++)
        reaches[comp->id] |= reaches[hl_called(i, k)->id];
  *n = 0;
  if (inst->comp == m->entry)
    list[(*n)++] = inst;
  for (const HlInst *i = m->entry->first; i && inst->comp != m->entry; i = i->next) {
    bool calls = false;
    for (int k = 0; k < i->n_calls; k++)
      calls |= reaches[hl_called(i, k)->id];
    if (calls)
      list[(*n)++] = i;
  }
  return list;
}
