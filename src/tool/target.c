// tool/target.c: finds the target that a word or a file names.
#include <string.h>
#include <unistd.h>

#include "hilo/custom_calls.h"
#include "hilo/proto.h"
#include "hilo/target.h"
#include "hilo/tool.h"
#include "ir/backend_config.h"

enum { MANY = 64 };

static bool unknown(HlCx *cx, const char *word) {
  const char *names[MANY] = {"native", "cpu", "gpu"};
  int n = 3;
  const HlTarget *t;
  for (int k = 0; n < MANY && (t = hl_target_at(k)); k++)
    names[n++] = t->name;
  hl_error_kind(cx, HL_INVALID, (HlPos){0},
                "unknown target '%s': neither a name that 'hilo targets' lists nor a file", word);
  const char *near = hl_nearest(hl_str(word), names, n);
  if (near)
    hl_hint(cx, "did you mean '%s'?", near);
  return false;
}

const HlTarget *hl_target_load(HlCx *cx, HlArena *arena, const char *word) {
  const HlTarget *t = hl_target_find(word);
  if (t)
    return t;
  if (strcmp(word, "native") == 0)
    return hl_target_native(arena);
  if (strcmp(word, "-") != 0 && access(word, F_OK) != 0) {
    unknown(cx, word);
    return NULL;
  }
  HlSource *source = hl_read_file(cx, word);
  t = source ? hl_proto_read_target(cx, arena, source) : NULL;
  hl_source_unref(source);
  return t;
}

// A queue of kernels, or a library that only GPUs have.
static bool is_of_gpu(const HlInst *inst) {
  if (hl_call_info[hl_call_target(inst)].library >= HL_LIBRARY_CUBLAS)
    return true;
  return hl_has_attr(inst, HL_A_BACKEND_CONFIG) && hl_queue_config(NULL, inst).queue.given;
}

const HlTarget *hl_target_of_module(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->is_fusion ? NULL : comp->first; inst; inst = inst->next)
      if (is_of_gpu(inst))
        return hl_target_find("gpu");
  return hl_target_find("cpu");
}
