// eval/custom.c: which kernel computes which custom call.

#include "eval/custom.h"
#include "base/number.h"

#include <stdlib.h>
#include <string.h>

#include "hilo/custom_calls.h"

// Of the rows of custom_calls.def.
#define custom_none NULL
static CustomKernel *const kernels[HL_CALL_COUNT] = {
#define CUSTOM_CALL(id, name, library, traits, kernel, meaning) [HL_CALL_##id] = custom_##kernel,
#include "hilo/custom_calls.def"
};
#undef custom_none

// --- Callers' own kernels ------------------------------------------------------------------------

typedef struct OwnKernel {
  HlCustomCall *kernel;
  void *user;
} OwnKernel;

static char *key_of(HlArena *arena, const char *target) {
  return hl_arena_printf(arena, "custom_call:%s", target);
}

void hl_register_custom_call(HlCx *cx, const char *target, HlCustomCall *kernel, void *user) {
  const OwnKernel own = {kernel, user};
  HlArena *scratch = hl_cx_scratch(cx);
  const HlMark mark = hl_arena_mark(scratch);
  const char *key = key_of(scratch, target);
  const OwnKernel *before = hl_cx_lookup(cx, key);
  if (!before || before->kernel != kernel || before->user != user)
    hl_cx_register_copy(cx, key, &own, sizeof own);
  hl_arena_release(scratch, mark);
}

static const OwnKernel *registered(Interp *in, const char *target) {
  const HlMark mark = hl_arena_mark(in->frames);
  const OwnKernel *own =
      in->registry ? hl_cx_lookup(in->registry, key_of(in->frames, target)) : NULL;
  hl_arena_release(in->frames, mark);
  return own;
}

bool hl_knows_custom_call(const HlCx *cx, const char *target) {
  HlArena *arena = hl_arena_new();
  const bool is_registered = hl_cx_lookup(cx, key_of(arena, target)) != NULL;
  hl_arena_free(arena);
  return is_registered || hl_call_named(target) != HL_CALL_OTHER || custom_is_lapack(target);
}

// --- Finding a kernel ----------------------------------------------------------------------------

static CustomKernel *built_in(const char *target) {
  CustomKernel *kernel = kernels[hl_call_named(target)];
  if (kernel)
    return kernel;
  return custom_is_lapack(target) ? custom_lapack : NULL;
}

// "all-reduce-start": so a frontend asks for halves of a collective, which a pass makes of it.
static bool is_half_of_collective(const char *target) {
  static const char *const half[] = {"-start", "-done"};
  const size_t n = strlen(target);
  for (int k = 0; k < HL_COUNT_OF(half); k++) {
    const size_t tail = strlen(half[k]);
    if (n > tail && strcmp(target + n - tail, half[k]) == 0) {
      const HlOp op = hl_op_by_text((HlStr){target, n - tail});
      return op != HL_OP_COUNT && hl_op_is_all(op, HL_T_COLLECTIVE);
    }
  }
  return false;
}

static bool unknown_target(Interp *in, const HlInst *inst, const char *target) {
  const HlMark mark = hl_arena_mark(in->frames);
  int n = 0;
  const char **lapack = custom_lapack_names(in->frames, &n);
  const char **names = HL_ARRAY(in->frames, const char *, n + HL_CALL_COUNT);
  for (int k = 0; k < n; k++)
    names[k] = lapack[k];
  for (int k = 0; k < HL_CALL_COUNT; k++)
    if (kernels[k])
      names[n++] = hl_call_info[k].name;
  const char *near = hl_nearest(hl_str(target), names, n);
  hl_error_kind(in->ev.cx, HL_UNSUPPORTED, hl_pos(inst), "%s: no kernel for the custom call \"%s\"",
                inst->name->text, target);
  if (is_half_of_collective(target))
    hl_hint(in->ev.cx,
            "hilo opt --passes=async-collective-custom-call-rewriter makes a collective of it");
  else if (near)
    hl_hint(in->ev.cx, "did you mean '%s'?", near);
  hl_arena_release(in->frames, mark);
  return false;
}

bool eval_custom_call(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                      HlLiteral *out) {
  const char *target = hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET);
  const OwnKernel *own = registered(in, target);
  if (own)
    return own->kernel(in->ev.cx, own->user, inst, operand, out);
  CustomKernel *kernel = built_in(target);
  return kernel ? kernel(in, inst, operand, out) : unknown_target(in, inst, target);
}

// --- What kernels share --------------------------------------------------------------------------

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

// What follows `key =` (or `"key":`) in the configuration; NULL: nothing.
static const char *value_of(const HlInst *inst, const char *key) {
  const char *text = hl_attr_text(inst, HL_A_BACKEND_CONFIG);
  const size_t n = strlen(key);
  for (const char *at = strstr(text, key); at; at = strstr(at + n, key)) {
    const char *after = at + n;
    if ((at > text && is_word(at[-1])) || is_word(*after))
      continue;
    after += strspn(after, " \"");
    if (*after == '=' || *after == ':')
      return after + 1 + strspn(after + 1, " ");
  }
  return NULL;
}

int64_t custom_int(const HlInst *inst, const char *key, int64_t absent) {
  const char *text = value_of(inst, key);
  if (!text)
    return absent;
  if (strncmp(text, "true", 4) == 0)
    return 1;
  if (strncmp(text, "false", 5) == 0)
    return 0;
  char *end = NULL;
  const long long value = strtoll(text, &end, 10);
  return end == text ? absent : value;
}

double custom_float(const HlInst *inst, const char *key, double absent) {
  const char *text = value_of(inst, key);
  char *end = NULL;
  const double value = text ? base_read_double(text, &end) : 0;
  return end == text ? absent : value;
}

bool custom_counts(Interp *in, const HlInst *inst, int n_operands, const HlLiteral *out,
                   int n_results) {
  const int have = custom_result_count(out);
  if ((int)inst->n_operands == n_operands && have == n_results)
    return true;
  return hl_inst_error(
      in->ev.cx, inst, "\"%s\" takes %d operands and gives %d results, but here are %u and %d",
      hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET), n_operands, n_results, inst->n_operands, have);
}

int custom_result_count(const HlLiteral *out) {
  return hl_shape_is_tuple(out->shape) ? out->shape->rank : 1;
}

HlLiteral *custom_result(HlLiteral *out, int k) {
  if (!out->element)
    return k == 0 ? out : NULL;
  return k < out->shape->rank ? out->element[k] : NULL;
}

bool custom_copy(Interp *in, const HlInst *inst, const HlLiteral *from, HlLiteral *to) {
  if (from->element && to->element && from->shape->rank == to->shape->rank) {
    for (int k = 0; k < from->shape->rank; k++)
      if (!custom_copy(in, inst, from->element[k], to->element[k]))
        return false;
    return true;
  }
  if (from->element || to->element || from->shape->dtype != to->shape->dtype || from->n != to->n ||
      !hl_shape_same_dims(from->shape, to->shape) || hl_literal_is_elided(from))
    return hl_inst_error(in->ev.cx, inst, "\"%s\" cannot turn %s into %s on one device",
                         hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET),
                         hl_shape_text(in->ev.cx, from->shape),
                         hl_shape_text(in->ev.cx, to->shape));
  if (from->n)
    memcpy(to->data, from->data, (size_t)from->n * (size_t)hl_dtype_bytes(from->shape->dtype));
  if (from->extent && to->extent)
    memcpy(to->extent, from->extent, (size_t)from->shape->rank * sizeof *to->extent);
  return true;
}
