// pjrt/error.c: errors: a code and a text.
//
// An error that is asked for several times (of an event, of a poisoned buffer) is one Fault, which each PJRT_Error counts.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernel/source.h"
#include "base/number.h"
#include "pjrt/plugin.h"

struct PJRT_Error {
  const PJRT_Error_FunctionTable *functions;  // clients of API 107 and later look here
  Fault *fault;
};

// What is told when there is no memory to tell it: never freed.
static Fault no_memory = {1, PJRT_RESOURCE_EXHAUSTED, 13, "out of memory"};

Fault *fault_new(PJRT_Error_Code code, const char *text, size_t n) {
  Fault *fault = malloc(sizeof *fault + n + 1);
  if (!fault)
    return fault_ref(&no_memory);
  char *own = (char *)(fault + 1);
  memcpy(own, text, n);
  own[n] = '\0';
  *fault = (Fault){1, code, n, own};
  return fault;
}

Fault *fault_ref(Fault *fault) {
  if (fault)
    atomic_fetch_add(&fault->refs, 1);
  return fault;
}

void fault_unref(Fault *fault) {
  if (fault && fault != &no_memory && atomic_fetch_sub(&fault->refs, 1) == 1)
    free(fault);
}

static PJRT_Error_Code code_of(HlErrorKind kind) {
  switch (kind) {
  case HL_INVALID: return PJRT_INVALID_ARGUMENT;
  case HL_UNSUPPORTED: return PJRT_UNIMPLEMENTED;
  case HL_LIMIT: return PJRT_RESOURCE_EXHAUSTED;
  case HL_CANCELLED: return PJRT_CANCELLED;
  case HL_DIFFERS:
  case HL_FAILED: break;
  }
  return PJRT_INTERNAL;
}

static const HlInst *inst_at(const HlModule *m, HlLoc loc) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (inst->loc == loc)
        return inst;
  return NULL;
}

// A byte of the program's tells its user nothing, the line that he wrote does.
static void put_place(HlBuf *text, const HlModule *m, const HlDiag *diag) {
  const HlInst *inst =
      diag->loc && diag->source == m->source ? inst_at(m, diag->loc) : NULL;
  if (!inst)
    return;
  const CpuSource at = cpu_source(inst);
  hl_buf_printf(text, "  in %s", m->name->text);
  if (at.op_name)
    hl_buf_printf(text, ", op_name \"%s\"", at.op_name);
  if (at.file)
    hl_buf_printf(text, ", %s:%d", at.file, at.line);
  hl_buf_putc(text, '\n');
}

Fault *fault_of_cx(HlCx *cx) {
  return fault_of_run(cx, NULL);
}

typedef struct Telling {
  const HlModule *m;  // or NULL
  Fault *fault;
} Telling;

static bool tell(HlCx *cx, void *user) {
  Telling *telling = user;
  HlBuf text = {0};
  for (int k = 0; k < hl_cx_n_diags(cx); k++) {
    const HlDiag *diag = hl_cx_diag(cx, k);
    if (diag->severity != HL_ERROR)
      continue;
    hl_diag_render(diag, false, &text);
    if (telling->m)
      put_place(&text, telling->m, diag);
  }
  while (text.n > 0 && text.at[text.n - 1] == '\n')
    text.n--;
  telling->fault = fault_new(code_of(hl_cx_error_kind(cx)), text.at ? text.at : "failed",
                             text.at ? text.n : 6);
  hl_buf_free(&text);
  return true;
}

Fault *fault_of_run(HlCx *cx, const HlModule *m) {
  Telling telling = {.m = m};
  const bool told = hl_try(cx, tell, &telling);
  hl_cx_clear(cx);
  return told ? telling.fault : fault_ref(&no_memory);
}

// --- Errors ----------------------------------------------------------------------------------------

// What is returned when there is no memory for an error: never freed.
static PJRT_Error no_memory_for_error;

static void destroy(PJRT_Error *error) {
  if (!error || error == &no_memory_for_error)
    return;
  fault_unref(error->fault);
  free(error);
}

static void message(const PJRT_Error *error, const char **text, size_t *n) {
  *text = error->fault->text;
  *n = error->fault->n;
}

static PJRT_Error_Code get_code(const PJRT_Error *error) {
  return error->fault->code;
}

// We attach none.
static void for_each_payload(const PJRT_Error *error, PJRT_Error_PayloadVisitor visitor,
                             void *user) {
  (void)error, (void)visitor, (void)user;
}

static const PJRT_Error_FunctionTable functions = {.struct_size = sizeof functions,
                                                   .instance_size = sizeof(PJRT_Error_FunctionTable *),
                                                   .destroy = destroy,
                                                   .message = message,
                                                   .get_code = get_code,
                                                   .for_each_payload = for_each_payload};

static PJRT_Error no_memory_for_error = {&functions, &no_memory};

PJRT_Error *pjrt_error(Fault *fault) {
  if (!fault)
    return NULL;
  PJRT_Error *error = malloc(sizeof *error);
  if (!error) {
    fault_unref(fault);
    return &no_memory_for_error;
  }
  *error = (PJRT_Error){&functions, fault};
  return error;
}

PJRT_Error *pjrt_fail(PJRT_Error_Code code, const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  const int n = base_vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const size_t size = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
  return pjrt_error(fault_new(code, text, size));
}

PJRT_Error *pjrt_fail_cx(HlCx *cx) {
  return pjrt_error(fault_of_cx(cx));
}

PJRT_Error *pjrt_unsupported(const char *function) {
  return pjrt_fail(PJRT_UNIMPLEMENTED, "%s is not implemented by the hilo plugin", function);
}

void PJRT_Error_Destroy(PJRT_Error_Destroy_Args *args) {
  destroy(args->error);
}

void PJRT_Error_Message(PJRT_Error_Message_Args *args) {
  message(args->error, &args->message, &args->message_size);
}

PJRT_Error *PJRT_Error_GetCode(PJRT_Error_GetCode_Args *args) {
  args->code = get_code(args->error);
  return NULL;
}

PJRT_Error *PJRT_Error_ForEachPayload(PJRT_Error_ForEachPayload_Args *args) {
  for_each_payload(args->error, args->visitor, args->user_arg);
  return NULL;
}
