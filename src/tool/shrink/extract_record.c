// tool/shrink/extract_record.c: what the parameters and results of extracts are when the whole module runs.
//
// The interpreter tells of every value it makes. A computation's instructions run in the order of its list, each once a
// time, so the n-th values of all of them belong together. A value is kept for the extracts that want it and are not
// complete, and for nobody else.

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/vec.h"
#include "hilo/extract.h"

// An instruction whose value somebody wants.
typedef struct Wanted {
  int64_t times;     // it has run so far
  HlLiteral *value;  // a reference, at the time that counts; NULL: not yet, or let go
  int n_waiting;     // extracts that want it and are not told of yet
  VEC(int) by;       // which
} Wanted;

typedef struct Device {
  Wanted ***wanted;  // [computation's id][id]; NULL: nobody wants it
  int *missing;      // of each extract: values that are not there yet
} Device;

typedef struct Recording {
  HlArena *arena;
  const HlModule *m;
  int64_t time;
  const HlExtract *extracts;
  int n;
  Device *device;
  int n_devices;
  pthread_mutex_t lock;
  void (*told)(void *user, const HlExtractValues *values);
  void *user;
} Recording;

static Wanted **place_of(const Device *d, const HlInst *inst) {
  return &d->wanted[inst->comp->id][inst->id];
}

static void want(Recording *r, Device *d, const HlInst *inst, int which) {
  Wanted **place = place_of(d, inst);
  if (!*place)
    *place = HL_NEW(r->arena, Wanted);
  Wanted *w = *place;
  if (w->by.n > 0 && vec_last(&w->by) == which)
    return;
  vec_push_in(r->arena, &w->by, which);
  w->n_waiting++;
  d->missing[which]++;
}

static void prepare(Recording *r, Device *d) {
  d->wanted = HL_ARRAY(r->arena, Wanted **, r->m->next_comp_id + 1);
  d->missing = HL_ARRAY(r->arena, int, r->n + 1);
  for (const HlComp *comp = r->m->first; comp; comp = comp->next)
    d->wanted[comp->id] = HL_ARRAY(r->arena, Wanted *, comp->next_id + 1);
  for (int k = 0; k < r->n; k++) {
    for (int i = 0; i < r->extracts[k].n_params; i++)
      want(r, d, r->extracts[k].param[i], k);
    for (int i = 0; i < r->extracts[k].n_results; i++)
      want(r, d, r->extracts[k].result[i], k);
  }
}

static void let_go(Wanted *w) {
  if (--w->n_waiting == 0) {
    hl_literal_unref(w->value);
    w->value = NULL;
  }
}

static const HlLiteral **values_of(Recording *r, const Device *d, const HlInst *const *inst,
                                   int n) {
  const HlLiteral **list = HL_ARRAY(r->arena, const HlLiteral *, n + 1);
  for (int k = 0; k < n; k++)
    list[k] = (*place_of(d, inst[k]))->value;
  return list;
}

static void tell(Recording *r, int device, int which) {
  const HlExtract *e = &r->extracts[which];
  Device *d = &r->device[device];
  pthread_mutex_lock(&r->lock);
  const HlMark mark = hl_arena_mark(r->arena);
  const HlExtractValues values = {which, device, values_of(r, d, e->param, e->n_params),
                                  values_of(r, d, e->result, e->n_results)};
  r->told(r->user, &values);
  hl_arena_release(r->arena, mark);
  pthread_mutex_unlock(&r->lock);
}

// An extract's values, each once, though it may be parameter and result.
static void forget(Recording *r, Device *d, int which) {
  const HlExtract *e = &r->extracts[which];
  for (int k = 0; k < e->n_params + e->n_results; k++) {
    Wanted *w = *place_of(d, k < e->n_params ? e->param[k] : e->result[k - e->n_params]);
    for (int i = 0; i < w->by.n; i++)
      if (w->by.at[i] == which) {
        w->by.at[i] = -1;
        let_go(w);
      }
  }
}

static void see(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Recording *r = user;
  Device *d = &r->device[device];
  Wanted *w = *place_of(d, inst);
  if (!w || w->times++ != r->time)
    return;
  w->value = hl_literal_ref(value);
  for (int k = 0; k < w->by.n; k++) {
    const int which = w->by.at[k];
    if (which >= 0 && --d->missing[which] == 0) {
      tell(r, device, which);
      forget(r, d, which);
    }
  }
}

static void drop_rest(Recording *r) {
  for (int d = 0; d < r->n_devices; d++)
    for (const HlComp *comp = r->m->first; comp; comp = comp->next)
      for (uint32_t id = 0; id < comp->next_id; id++) {
        Wanted *w = r->device[d].wanted[comp->id][id];
        if (w)
          hl_literal_unref(w->value);
      }
}

bool hl_extract_record(HlCx *cx, const HlModule *m, const HlEvalOptions *eval,
                       const HlLiteral *const *const *args, int64_t time, const HlExtract *extracts,
                       int n, void (*told)(void *user, const HlExtractValues *values), void *user) {
  Recording r = {.arena = hl_arena_new(),
                 .m = m,
                 .time = time,
                 .extracts = extracts,
                 .n = n,
                 .told = told,
                 .user = user};
  r.n_devices = hl_eval_devices(m, eval);
  r.device = HL_ARRAY(r.arena, Device, r.n_devices);
  for (int d = 0; d < r.n_devices; d++)
    prepare(&r, &r.device[d]);
  pthread_mutex_init(&r.lock, NULL);
  HlEvalOptions options = eval ? *eval : (HlEvalOptions){0};
  options.trace = see;
  options.user = &r;
  HlLiteral **results = HL_ARRAY(r.arena, HlLiteral *, r.n_devices + 1);
  const bool ok = hl_eval(cx, m, &options, args, results);
  for (int d = 0; d < r.n_devices; d++)
    hl_literal_unref(results[d]);
  drop_rest(&r);
  pthread_mutex_destroy(&r.lock);
  hl_arena_free(r.arena);
  return ok;
}
