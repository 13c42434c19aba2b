// verify/verify.c: is a module valid HLO? Runs all checks and reports every broken rule.
//
// The graph's structure comes first: where it is broken nothing else can be asked. Then each
// instruction by itself, in list order, so that diagnostics come in the order of the text; then what
// needs the whole module.

#include "verify/verify.h"

static bool verify_comp(Verify *v, const HlComp *comp) {
  bool ok = true;
  for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next) {
    HlMark mark = hl_arena_mark(v->scratch);
    // Where the shape is wrong, the op's own rules would mostly repeat it.
    bool good = verify_layouts(v, inst) && verify_shape(v, inst);
    good = good && verify_inst(v, inst);
    ok &= verify_attrs(v, inst) && good;
    hl_arena_release(v->scratch, mark);
  }
  return ok & verify_async_comp(v, comp);
}

static bool verify_callers(Verify *v) {
  bool ok = true;
  for (const HlComp *comp = v->m->first; comp != NULL; comp = comp->next)
    for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next)
      ok &= verify_params(v, inst);
  return ok;
}

static bool verify_all(Verify *v) {
  if (!verify_structure(v))
    return false;
  if (v->options.structure_only)
    return verify_callers(v);
  if (!verify_threads(v))
    return false;
  bool ok = true;
  for (const HlComp *comp = v->m->first; comp != NULL; comp = comp->next)
    ok &= verify_comp(v, comp);
  ok = ok && verify_async_ends(v);  // chains that are none have been reported
  ok &= verify_channels(v);
  ok &= verify_buffers(v);
  return ok & verify_module(v);
}

// Whether a module was laid out for a machine with tiled memory. Those machines (TPUs) compute on
// bf16 and f32 operands at once, and their compilers verify with mixed precision allowed; and they
// may keep elements in more bits than the type has.
static bool is_tiled(const HlModule *m) {
  for (const HlComp *comp = m->first; comp != NULL; comp = comp->next)
    for (const HlInst *inst = comp->first; inst != NULL; inst = inst->next) {
      const HlLayout *layout = hl_shape_is_array(inst->shape) ? inst->shape->layout : NULL;
      if (layout != NULL && layout->extra != NULL && layout->extra->n_tiles > 0)
        return true;
    }
  return false;
}

static bool try_verifying(HlCx *cx, void *v) {
  return verify_all(v);
}

bool hl_verify(HlCx *cx, const HlModule *m, const HlVerifyOptions *options) {
  Verify v = {.cx = cx,
              .scratch = hl_cx_scratch(cx),
              .m = m,
              .is_laid_out = m->is_scheduled,
              .is_tiled = is_tiled(m)};
  if (options != NULL)
    v.options = *options;
  if (v.options.allow_mixed_precision == HL_USUAL)
    v.options.allow_mixed_precision = hl_switch(v.is_tiled);
  HlMark mark = hl_arena_mark(v.scratch);
  bool ok = hl_try(cx, try_verifying, &v);
  map_free(&v.sound);
  hl_arena_release(v.scratch, mark);
  return ok;
}
