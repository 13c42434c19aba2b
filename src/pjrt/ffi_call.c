// pjrt/ffi_call.c: calls handlers of custom calls: those of XLA's FFI, stage by stage, and the untyped calls of old.
//
// Each place in a program that calls a handler is a site: its attributes are read, and its handler is instantiated, when the
// program is compiled. Kernels get literals, which are row-major; a call may ask for operands and promise results in another
// order of dimensions (operand_layout_constraints, and the layout of its own shape), into which and out of which arrays are
// carried here. Where a result is said to be an operand's memory, the operand's elements are copied there, and both arguments
// point to it.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/ffi.h"
#include "pjrt/strides.h"

// --- Handlers ----------------------------------------------------------------------------------------

static Fault *wait_for(FfiFuture *future) {
  if (!future)
    return NULL;
  PJRT_Event *event = (PJRT_Event *)future;
  Fault *fault = fault_ref(event_wait(event));
  event_unref(event);
  return fault;
}

static Fault *run_stage(const FfiTarget *target, FfiStage stage, FfiFrame frame) {
  if (!target->stage[stage])
    return NULL;
  frame.struct_size = FFI_SIZE_TO(FfiFrame, attrs);
  frame.api = ffi_api(target->minor, target->is_clients);
  frame.stage = stage;
  Fault *fault = ffi_fault(target->stage[stage](&frame));
  if (!fault)
    return wait_for(frame.future);
  fault_unref(wait_for(frame.future));
  return fault;
}

bool ffi_failed(HlCx *cx, const Context *context, const HlInst *inst, Fault *fault) {
  const UserData *user = context->user;
  hl_error_kind(cx, HL_FAILED, hl_pos(inst), "%s: %s", inst->name->text, fault->text);
  Fault *none = NULL;
  if (!user || !atomic_compare_exchange_strong(user->fault, &none, fault))
    fault_unref(fault);
  return false;
}

// --- Sites -------------------------------------------------------------------------------------------

typedef struct FfiSite {
  const HlInst *inst;
  const FfiTarget *target;
  FfiAttrs attrs;
  FfiKept kept;
} FfiSite;

static Fault *instantiate(HlCx *cx, HlArena *arena, const UserData *user, FfiSite *site) {
  Fault *fault = ffi_attrs(cx, arena, site->inst, &site->attrs);
  FfiContext context = {.user = user, .kept = {[FFI_INSTANTIATE] = &site->kept}};
  const FfiFrame frame = {.context = &context,
                          .args.struct_size = FFI_SIZE_TO(FfiBuffers, at),
                          .rets.struct_size = FFI_SIZE_TO(FfiBuffers, at),
                          .attrs = site->attrs};
  return fault ? fault : run_stage(site->target, FFI_INSTANTIATE, frame);
}

static bool is_typed(const HlInst *inst) {
  return hl_attr_int(inst, HL_A_API_VERSION) == HL_WORD_api_version_TYPED_FFI;
}

static Fault *unknown_target(const char *name) {
  char text[512];
  const int n = snprintf(
      text, sizeof text,
      "No registered implementation for custom call to \"%.400s\" for platform Host", name);
  return fault_new(PJRT_UNIMPLEMENTED, text, (size_t)n);
}

// Sites are few: they are kept in a list that grows by doubling in the core's arena.
static FfiSite *new_site(Core *core) {
  const int n = core->n_sites;
  if ((n & (n - 1)) == 0) {
    FfiSite *more = HL_ARRAY(core->arena, FfiSite, n > 0 ? 2 * n : 1);
    if (n > 0)
      memcpy(more, core->site, (size_t)n * sizeof *more);
    core->site = more;
  }
  return &core->site[core->n_sites++];
}

static Fault *add_site(Context *context, Core *core, const HlInst *inst) {
  const char *name = hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET);
  const FfiTarget *target = ffi_find(name);
  if (!hl_knows_custom_call(context->cx, name))
    return unknown_target(name);
  if (!target || target->untyped || !is_typed(inst))
    return NULL;
  FfiSite *site = new_site(core);
  *site = (FfiSite){.inst = inst, .target = target};
  return instantiate(context->cx, core->arena, NULL, site);
}

static int by_inst(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const FfiSite *)a)->inst,
                  y = (uintptr_t)((const FfiSite *)b)->inst;
  return (x > y) - (x < y);
}

Fault *ffi_instantiate(Context *context, Core *core) {
  const HlModule *m = hl_cpu_module(core->program);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = hl_comp_may_have(comp, HL_OP_CUSTOM_CALL) ? comp->first : NULL; inst;
         inst = inst->next) {
      Fault *fault = inst->op == HL_OP_CUSTOM_CALL ? add_site(context, core, inst) : NULL;
      if (fault)
        return fault;
    }
  if (core->n_sites > 0)
    qsort(core->site, (size_t)core->n_sites, sizeof *core->site, by_inst);
  return NULL;
}

void ffi_end_sites(Core *core) {
  for (int k = 0; k < core->n_sites; k++)
    ffi_let_go(&core->site[k].kept);
}

// NULL: the handler came, or was replaced, after the program had been compiled.
static FfiSite *find_site(const Context *context, const HlInst *inst, const FfiTarget *target) {
  const Core *core = context->user ? context->user->core : NULL;
  const FfiSite key = {.inst = inst};
  FfiSite *site = core && core->n_sites > 0
                      ? bsearch(&key, core->site, (size_t)core->n_sites, sizeof key, by_inst)
                      : NULL;
  return site && site->target == target ? site : NULL;
}

// --- Arguments and results -----------------------------------------------------------------------------

typedef struct Leaf {
  const HlLiteral *value;  // of the caller, row-major
  HlLiteral *carried;      // in the order that is asked for; NULL: that is row-major
  Array array;             // in that order
  FfiBuffer buffer;
} Leaf;

typedef struct Call {
  HlCx *cx;
  HlArena *scratch;
  const HlInst *inst;
  Leaf *arg, *ret;
  int n_args, n_rets;
} Call;

static void carry(const Leaf *leaf, bool back) {
  int64_t own[MAX_RANK], usual[MAX_RANK];
  strides_of(&leaf->array, own);
  strides_row_major(&leaf->array, usual);
  void *to = back ? leaf->value->data : leaf->carried->data;
  const void *from = back ? leaf->carried->data : leaf->value->data;
  if (leaf->value->n > 0)
    strides_copy(to, back ? usual : own, from, back ? own : usual, leaf->array.dim,
                 leaf->array.rank, hl_dtype_bytes(leaf->array.dtype));
}

static bool add_array(Call *call, const HlLiteral *value, const HlShape *wish, Leaf *leaf) {
  const HlShape *shape = value->shape;
  const HlLayout *layout = wish ? wish->layout : NULL;
  int64_t *numbers = HL_ARRAY(call->scratch, int64_t, 2 * shape->rank + 1);
  if (!array_make(&leaf->array, numbers, shape->dtype, shape->rank, shape->dim,
                  layout && layout->minor_to_major.n == shape->rank ? layout->minor_to_major.at
                                                                    : NULL))
    return hl_error_kind(call->cx, HL_UNSUPPORTED, hl_pos(call->inst),
                         "%s: a handler cannot be given an array of shape %s",
                         call->inst->name->text, hl_shape_text(call->cx, shape));
  int64_t own[MAX_RANK], usual[MAX_RANK];
  strides_of(&leaf->array, own);
  strides_row_major(&leaf->array, usual);
  if (!strides_equal(&leaf->array, own, usual) &&
      !(leaf->carried = hl_literal_new(call->cx, shape)))
    return false;
  leaf->buffer.data = leaf->carried ? leaf->carried->data : value->data;
  leaf->buffer.rank = shape->rank;
  leaf->buffer.dims = shape->dim;
  return true;
}

// Tuples are handed over as their elements; how deep they nest has been checked.
static bool add(Call *call, const HlLiteral *value, const HlShape *wish, Leaf *leaf, int *n) {
  if (value->element) {
    for (int k = 0; k < value->shape->rank; k++)
      if (!add(call, value->element[k], wish ? wish->element[k] : NULL, leaf, n))
        return false;
    return true;
  }
  Leaf *out = &leaf[(*n)++];
  *out = (Leaf){.value = value,
                .buffer = {.struct_size = FFI_SIZE_TO(FfiBuffer, dims),
                           .dtype = hl_dtype_info[value->shape->dtype].proto}};
  return !hl_is_array_dtype(value->shape->dtype) || add_array(call, value, wish, out);
}

static Leaf *leaves(const Call *call, int64_t n) {
  return HL_ARRAY(call->scratch, Leaf, n + 1);
}

static bool gather(Call *call, const HlLiteral *const *in, HlLiteral *out) {
  const HlInst *inst = call->inst;
  const HlAttr *wish = hl_attr(inst, HL_A_OPERAND_LAYOUT_CONSTRAINTS);
  int64_t n = 0;
  for (uint32_t k = 0; k < inst->n_operands; k++)
    n += hl_shape_leaves(in[k]->shape);
  call->arg = leaves(call, n);
  for (uint32_t k = 0; k < inst->n_operands; k++)
    if (!add(call, in[k], wish && (int)k < wish->shapes.n ? wish->shapes.at[k] : NULL, call->arg,
             &call->n_args))
      return false;
  for (int k = 0; k < call->n_args; k++)
    if (call->arg[k].carried)
      carry(&call->arg[k], false);
  call->ret = leaves(call, hl_shape_leaves(out->shape));
  return add(call, out, wish ? inst->shape : NULL, call->ret, &call->n_rets);
}

static void drop(Call *call) {
  for (int k = 0; k < call->n_args; k++)
    hl_literal_unref(call->arg[k].carried);
  for (int k = 0; k < call->n_rets; k++)
    hl_literal_unref(call->ret[k].carried);
}

// Which leaf of a shape an index names, where it names one; -1.
static int64_t leaf_at(const HlShape *shape, HlI64s index) {
  int64_t n = 0;
  for (int k = 0; k < index.n; k++) {
    if (!hl_shape_is_tuple(shape) || index.at[k] < 0 || index.at[k] >= shape->rank)
      return -1;
    for (int64_t i = 0; i < index.at[k]; i++)
      n += hl_shape_leaves(shape->element[i]);
    shape = shape->element[index.at[k]];
  }
  return hl_shape_is_tuple(shape) ? -1 : n;
}

static void share(Leaf *arg, Leaf *ret) {
  const Array *a = &arg->array, *b = &ret->array;
  if (a->bytes != b->bytes || a->rank != b->rank ||
      (a->rank > 0 &&
       memcmp(a->minor_to_major, b->minor_to_major, sizeof(int64_t) * (size_t)a->rank)))
    return;
  if (arg->array.bytes > 0)
    memcpy(ret->buffer.data, arg->buffer.data, arg->array.bytes);
  arg->buffer.data = ret->buffer.data;
}

static void share_memory(Call *call) {
  const HlInst *inst = call->inst;
  const HlAttr *attr = hl_attr(inst, HL_A_OUTPUT_TO_OPERAND_ALIASING);
  for (int k = 0; attr && k < attr->aliases.n; k++) {
    const HlAlias *alias = &attr->aliases.at[k];
    if (alias->number < 0 || alias->number >= inst->n_operands)
      continue;
    int64_t arg = leaf_at(inst->operands[alias->number]->shape, alias->index);
    const int64_t ret = leaf_at(inst->shape, alias->output);
    for (int64_t i = 0; i < alias->number && arg >= 0; i++)
      arg += hl_shape_leaves(inst->operands[i]->shape);
    if (arg >= 0 && arg < call->n_args && ret >= 0 && ret < call->n_rets)
      share(&call->arg[arg], &call->ret[ret]);
  }
}

static FfiBuffers buffers_of(const Call *call, Leaf *leaf, int n) {
  int *types = HL_ARRAY(call->scratch, int, n + 1);
  FfiBuffer **at = HL_ARRAY(call->scratch, FfiBuffer *, n + 1);
  for (int k = 0; k < n; k++) {
    types[k] = FFI_BUFFER;
    at[k] = &leaf[k].buffer;
  }
  return (FfiBuffers){
      .struct_size = FFI_SIZE_TO(FfiBuffers, at), .size = n, .types = types, .at = at};
}

// --- Typed calls ---------------------------------------------------------------------------------------

static Fault *run_site(Call *call, const Context *context, FfiSite *site) {
  FfiKept prepared = {0}, initialized = {0};
  FfiContext own = {.user = context->user,
                    .device = hl_eval_device(call->cx),
                    .kept = {&site->kept, &prepared, &initialized}};
  const FfiFrame frame = {.context = &own,
                          .args = buffers_of(call, call->arg, call->n_args),
                          .rets = buffers_of(call, call->ret, call->n_rets),
                          .attrs = site->attrs};
  Fault *fault = NULL;
  for (FfiStage stage = FFI_PREPARE; !fault && stage <= FFI_EXECUTE; stage++)
    fault = run_stage(site->target, stage, frame);
  ffi_let_go(&prepared);
  ffi_let_go(&initialized);
  return fault;
}

static Fault *call_typed(Call *call, const Context *context, const FfiTarget *target) {
  FfiSite *site = find_site(context, call->inst, target);
  if (site)
    return run_site(call, context, site);
  FfiSite once = {.inst = call->inst, .target = target};
  Fault *fault = instantiate(call->cx, call->scratch, context->user, &once);
  if (!fault)
    fault = run_site(call, context, &once);
  ffi_let_go(&once.kept);
  return fault;
}

// --- Untyped calls -------------------------------------------------------------------------------------

// What a call that returns a status writes it to: a std::optional<std::string> as libstdc++ lays it out, empty when it
// is zero.
typedef struct Status {
  char *text;
  size_t n;
  char own[16];  // of short texts
  bool is_set;
  char more[31];
} Status;

static Fault *fault_of_status(Status *status) {
  if (!status->is_set)
    return NULL;
  Fault *fault = fault_new(PJRT_INTERNAL, status->text, status->n);
  if (status->text != status->own)
    free(status->text);
  return fault;
}

typedef void Original(void *out, const void **in);
typedef void StatusReturning(void *out, const void **in, Status *status);
typedef void Unified(void *out, const void **in, const char *opaque, size_t n, Status *status);

static Fault *call_untyped(const Call *call, void *untyped) {
  const HlAttr *config = hl_attr(call->inst, HL_A_BACKEND_CONFIG);
  const void **in = HL_ARRAY(call->scratch, const void *, call->n_args + 1);
  void **rets = HL_ARRAY(call->scratch, void *, call->n_rets + 1);
  for (int k = 0; k < call->n_args; k++)
    in[k] = call->arg[k].buffer.data;
  for (int k = 0; k < call->n_rets; k++)
    rets[k] = call->ret[k].buffer.data;
  void *out = hl_shape_is_tuple(call->inst->shape) ? (void *)rets : rets[0];
  Status status = {0};
  switch (hl_attr_int(call->inst, HL_A_API_VERSION)) {
  case HL_WORD_api_version_STATUS_RETURNING:
    ((StatusReturning *)(uintptr_t)untyped)(out, in, &status);
    break;
  case HL_WORD_api_version_STATUS_RETURNING_UNIFIED:
    ((Unified *)(uintptr_t)untyped)(out, in, config ? config->sym->text : "",
                                    config ? config->sym->n : 0, &status);
    break;
  default: ((Original *)(uintptr_t)untyped)(out, in);
  }
  return fault_of_status(&status);
}

// --- The kernel ----------------------------------------------------------------------------------------

static bool run(Call *call, const FfiBinding *binding, const HlLiteral *const *in, HlLiteral *out) {
  const FfiTarget *target = binding->target;
  if (!gather(call, in, out))
    return false;
  share_memory(call);
  if (target->is_clients)  // it calls Python, which may wait for programs of its own
    dispatch_blocks(true);
  Fault *fault = target->untyped ? call_untyped(call, target->untyped)
                                 : call_typed(call, binding->context, target);
  if (target->is_clients)
    dispatch_blocks(false);
  if (fault)
    return ffi_failed(call->cx, binding->context, call->inst, fault);
  for (int k = 0; k < call->n_rets; k++) {
    const Leaf *ret = &call->ret[k];
    if (ret->carried)
      carry(ret, true);
    if (hl_is_array_dtype(ret->value->shape->dtype))
      elements_take(ret->value->shape->dtype, ret->value->data, ret->array.bytes);
  }
  return true;
}

bool ffi_kernel(HlCx *cx, void *user, const HlInst *inst, const HlLiteral *const *in,
                HlLiteral *out) {
  const FfiBinding *binding = user;
  if (is_typed(inst) == (binding->target->untyped != NULL))
    return hl_error_kind(cx, HL_UNSUPPORTED, hl_pos(inst),
                         "%s: \"%s\" is registered as %s handler, but called as %s",
                         inst->name->text, binding->target->name,
                         is_typed(inst) ? "an untyped" : "a typed",
                         is_typed(inst) ? "a typed one" : "an untyped one");
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  Call call = {.cx = cx, .scratch = scratch, .inst = inst};
  const bool good = run(&call, binding, in, out);
  drop(&call);
  hl_arena_release(scratch, mark);
  return good;
}
