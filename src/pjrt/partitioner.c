// pjrt/partitioner.c: the extension by which a client says how its custom calls are partitioned, and "InspectSharding".
//
// The partitioner asks while it works (spmd/custom.h); the client answers with a program, which is read as others are. No lock
// is held meanwhile: the answer may be Python's, and compile programs of its own. What was made with such answers is good for
// this one compilation: the call's backend_config is a key, or an address, that may mean something else later.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/custom_calls.h"
#include "hilo/proto.h"
#include "hilo/tool.h"
#include "pjrt/plugin.h"
#include "spmd/custom.h"

typedef JAX_CustomCallPartitioner_string Text;
typedef JAX_CustomCallPartitioner_Partition_Args Question;

// --- Who registered ------------------------------------------------------------------------------------

typedef struct Partitioner {
  JAX_CustomCallPartitioner_Callbacks *callbacks;
  uint64_t number;  // from 1
  struct Partitioner *next;
  char name[];
} Partitioner;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Partitioner *partitioners;  // newest first; they stay as long as the process
static uint64_t n_partitioners;

static PJRT_Error *register_partitioner(PJRT_Register_Custom_Partitioner_Args *args) {
  if (!args->callbacks || args->callbacks->version != 0)
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "a custom partitioner of version %lld, this knows 0",
                     args->callbacks ? (long long)args->callbacks->version : -1ll);
  Partitioner *row = calloc(1, sizeof *row + args->name_size + 1);
  if (!row)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  row->callbacks = args->callbacks;
  memcpy(row->name, args->name, args->name_size);
  pthread_mutex_lock(&lock);
  row->number = ++n_partitioners;
  row->next = partitioners;
  partitioners = row;
  pthread_mutex_unlock(&lock);
  return NULL;
}

// How many dimensions of a call are a batch's stands in the call itself, which is all that Hilo asks.
static PJRT_Error *register_batch(PJRT_Register_Batch_Partitionable_Args *args) {
  (void)args;
  return NULL;
}

PJRT_Custom_Partitioner_Extension partitioner_extension = {
    .base = {.struct_size = sizeof partitioner_extension, .type = PJRT_EXTENSION_CUSTOM_PARTITIONER},
    .register_custom_partitioner = register_partitioner,
    .register_batch_partitionable = register_batch};

// --- The question ----------------------------------------------------------------------------------------

// Appends a message's bytes, and notes where they begin; they move until all are there.
static size_t put_shape(const HlModule *m, const HlShape *shape, HlBuf *bytes) {
  const size_t before = bytes->n;
  hl_proto_write_shape(m, shape, bytes);
  return bytes->n - before;
}

static size_t put_sharding(const HlModule *m, const HlSharding *sharding, HlBuf *bytes) {
  const size_t before = bytes->n;
  hl_proto_write_sharding(m, sharding, bytes);
  return bytes->n - before;
}

static const char *point(JAX_CustomCallPartitioner_aval *value, const char *at) {
  value->shape.data = at;
  value->sharding.data = at + value->shape.size;
  return value->sharding.data + value->sharding.size;
}

static void fill(JAX_CustomCallPartitioner_aval *value, const HlModule *m, const HlShape *shape,
                 const HlSharding *sharding, HlBuf *bytes) {
  value->shape.size = put_shape(m, shape, bytes);
  value->has_sharding = true;
  value->sharding.size = put_sharding(m, sharding, bytes);
}

static void pose(const SpCall *call, Question *question, HlBuf *bytes) {
  const HlModule *m = call->inst->comp->module;
  const HlSym *config = hl_attr_ptr(call->inst, HL_A_BACKEND_CONFIG);
  for (size_t k = 0; k < question->num_args; k++)
    fill(&question->op_args[k], m, call->inst->operands[k]->shape, call->operand[k], bytes);
  fill(&question->op_result, m, call->inst->shape, call->result, bytes);
  const char *at = bytes->at;
  for (size_t k = 0; k < question->num_args; k++)
    at = point(&question->op_args[k], at);
  point(&question->op_result, at);
  question->backend_config = config ? (Text){config->text, config->n} : (Text){"", 0};
}

// --- The answer ------------------------------------------------------------------------------------------

static HlModule *read_module(HlCx *cx, Text text) {
  HlSource *source = hl_source_new("partitioned", text.data, text.size, true);
  HlFile file;
  HlModule *m = NULL;
  if (hl_load_source(cx, source, &(HlLoadOptions){.verify = true}, &file) && file.n == 1) {
    m = file.modules[0];
    file.modules[0] = NULL;
  }
  hl_source_unref(source);
  hl_file_free(&file);
  return m;
}

static bool read_answer(HlCx *cx, const SpCall *call, const Question *question, SpAnswer *answer) {
  HlModule *m = call->inst->comp->module;
  for (size_t k = 0; k < question->num_args; k++) {
    const Text text = question->args_sharding[k];
    if (!(answer->operand[k] = hl_proto_read_sharding(cx, m, (HlStr){text.data, text.size})))
      return false;
  }
  const Text text = question->result_sharding;
  answer->result = hl_proto_read_sharding(cx, m, (HlStr){text.data, text.size});
  return answer->result && (answer->module = read_module(cx, question->mlir_module));
}

static bool ask(HlCx *cx, const Partitioner *who, const SpCall *call, Question *question,
                SpAnswer *answer) {
  who->callbacks->partition(who->callbacks, question);
  const Text text = question->header.error_msg;
  const bool done =
      question->header.has_error
          ? hl_inst_error(cx, call->inst, "%.*s", (int)text.size, text.data)
          : read_answer(cx, call, question, answer);
  if (question->header.cleanup_fn)
    question->header.cleanup_fn(question->header.data);
  return done;
}

typedef struct Binding {
  const Partitioner *who;
  Context *context;
} Binding;

static bool partition(HlCx *cx, void *user, const SpCall *call, SpAnswer *answer) {
  const Binding *binding = user;
  HlArena *arena = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(arena);
  HlBuf bytes = {0};
  Question question = {.num_args = call->inst->n_operands};
  question.op_args = HL_ARRAY(arena, JAX_CustomCallPartitioner_aval, (int64_t)question.num_args + 1);
  pose(call, &question, &bytes);
  binding->context->asked_client = true;
  const bool done = ask(cx, binding->who, call, &question, answer);
  hl_buf_free(&bytes);
  hl_arena_release(arena, mark);
  return done;
}

// --- InspectSharding ----------------------------------------------------------------------------------

static bool inspect(HlCx *cx, void *user, const SpCall *call, SpAnswer *answer) {
  const Binding *binding = user;
  const HlModule *m = call->inst->comp->module;
  const HlSym *config = hl_attr_ptr(call->inst, HL_A_BACKEND_CONFIG);
  JAX_InspectSharding_Callback callback;
  (void)answer;
  if (!config || config->n != sizeof callback || call->inst->n_operands != 1)
    return hl_inst_error(cx, call->inst, "InspectSharding without what is to be called");
  memcpy(&callback, config->text, sizeof callback);
  HlBuf bytes = {0};
  hl_proto_write_sharding(m, call->operand[0], &bytes);
  JAX_InspectSharding_Callback_Args args = {.sharding_spec = bytes.at, .sharding_spec_size = bytes.n};
  binding->context->asked_client = true;
  callback.call(callback.data, &args);
  hl_buf_free(&bytes);
  if (!args.error_txt)
    return true;
  hl_inst_error(cx, call->inst, "Error calling inspect_sharding: %s", args.error_txt);
  args.free_error(&args);
  return false;
}

// --- What contexts know of them ------------------------------------------------------------------------

static void bind(Context *context, const char *name, const Partitioner *who,
                 SpPartitioner *partitioner) {
  const Binding binding = {who, context};
  char key[48];
  snprintf(key, sizeof key, "pjrt:partitioner:%llu", who ? (unsigned long long)who->number : 0);
  hl_cx_register_copy(context->cx, key, &binding, sizeof binding);
  sp_register_partitioner(context->cx, name, partitioner, hl_cx_lookup(context->cx, key));
}

void partitioner_bind(Context *context) {
  pthread_mutex_lock(&lock);
  const Partitioner *newest = partitioners;
  const uint64_t n = n_partitioners;
  pthread_mutex_unlock(&lock);
  if (context->partitioners_known == 0)
    bind(context, hl_call_info[HL_CALL_INSPECT_SHARDING].name, NULL, inspect);
  for (uint64_t number = context->partitioners_known; number <= n; number++)  // the newest of a name last
    for (const Partitioner *row = newest; number > 0 && row; row = row->next)
      if (row->number == number)
        bind(context, row->name, row, partition);
  context->partitioners_known = n + 1;
}
