// tool/shrink/reduce_values.c: on which values a module that shrinks is tried.
//
// What is cut off a module becomes a parameter, and has to have the value that it had: a wrong result may be wrong for
// these numbers only. So the module that came is run once by the interpreter, in a child, which leaves the values of its
// instructions in a file, by name. A parameter takes the value of the instruction whose name it has; where sizes have
// shrunk, the leading part of it.

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "hilo/npy.h"
#include "hilo/op.h"
#include "hilo/replay.h"
#include "tool/shrink/reduce.h"

enum { MOST_BYTES = 4 << 20 };  // of one value
static const int64_t most_in_all = 512 << 20;

// --- By name ------------------------------------------------------------------------------------------

static uint64_t hash_of(const char *name) {
  return hl_hash_bytes(name, strlen(name), 7);
}

const HlLiteral *values_find(const Values *values, const char *name) {
  MapWalk walk = map_walk(&values->by_name, hash_of(name));
  for (uint64_t at; (at = map_next(&walk));)
    if (strcmp(values->name[at - 1], name) == 0)
      return values->value[at - 1];
  return NULL;
}

static void add(Values *v, const char *name, const HlLiteral *value) {
  if (v->n == v->capacity) {
    const int room = 2 * v->capacity + 64;
    const char **names = HL_ARRAY(v->arena, const char *, room);
    HlLiteral **values = HL_ARRAY(v->arena, HlLiteral *, room);
    for (int k = 0; k < v->n; k++) {
      names[k] = v->name[k];
      values[k] = v->value[k];
    }
    v->name = names;
    v->value = values;
    v->capacity = room;
  }
  v->name[v->n] = hl_arena_printf(v->arena, "%s", name);
  v->value[v->n++] = hl_literal_ref(value);
  map_add(&v->by_name, hash_of(name), (uint64_t)v->n);
}

void values_alias(Reducer *r, const char *name, const char *as) {
  const HlLiteral *value = r->args ? values_find(&r->values, as) : NULL;
  if (value)
    add(&r->values, name, value);
}

void values_free(Values *values) {
  for (int k = 0; k < values->n; k++)
    hl_literal_unref(values->value[k]);
  if (values->arena)
    hl_arena_free(values->arena);
  *values = (Values){0};
}

// --- Recording, in the child --------------------------------------------------------------------------

typedef struct Recorder {
  Reducer *r;
  const char *path;
  Values values;
  int64_t bytes;
  bool **seen;  // [computation's id][id]
} Recorder;

static void see(void *user, int device, const HlInst *inst, const HlLiteral *value) {
  Recorder *rec = user;
  if (device != 0 || rec->seen[inst->comp->id][inst->id])
    return;
  rec->seen[inst->comp->id][inst->id] = true;
  const int64_t bytes = hl_literal_bytes(value);
  if (bytes > MOST_BYTES || rec->bytes + bytes > most_in_all || inst->op == HL_OP_CONSTANT)
    return;
  rec->bytes += bytes;
  HlArena *arena = hl_arena_new();
  int n;
  const HlLiteral **leaf = hl_flatten(arena, value, &n);
  for (int k = 0; k < n; k++)
    add(&rec->values,
        value->element ? hl_arena_printf(arena, "%s#%d", inst->name->text, k) : inst->name->text,
        leaf[k]);
  hl_arena_free(arena);
}

static int record(void *user) {
  Recorder *rec = user;
  Reducer *r = rec->r;
  HlArena *arena = hl_arena_new();
  rec->values.arena = arena;
  rec->seen = HL_ARRAY(arena, bool *, r->m->next_comp_id + 1);
  for (const HlComp *comp = r->m->first; comp; comp = comp->next)
    rec->seen[comp->id] = HL_ARRAY(arena, bool, comp->next_id + 1);
  const HlEvalOptions how = {.seed = r->test->seed, .no_checks = true, .trace = see, .user = rec};
  const int devices = hl_eval_devices(r->m, &how);
  const HlLiteral *const **args = HL_ARRAY(arena, const HlLiteral *const *, devices);
  for (int d = 0; d < devices; d++)
    args[d] = (const HlLiteral *const *)r->args;
  HlLiteral **results = HL_ARRAY(arena, HlLiteral *, devices);
  hl_eval(r->cx, r->m, &how, args, results);  // where it fails, what came before is there
  return hl_npz_write(r->cx, rec->path, rec->values.n, rec->values.name, rec->values.value) ? 0 : 1;
}

bool values_record(Reducer *r) {
  char path[320], log[320];
  snprintf(path, sizeof path, "%s/values.npz", r->oracle.dir.path);
  snprintf(log, sizeof log, "%s/values.log", r->oracle.dir.path);
  Recorder rec = {.r = r, .path = path};
  Child child = {.log = log,
                 .time_limit = r->test->time_limit > 0 ? 10 * r->test->time_limit : 600,
                 .memory_limit = r->test->memory_limit};
  const ChildJob job = {.work = record, .user = &rec};
  r->values.arena = hl_arena_new();
  r->values.by_name.arena = r->values.arena;
  if (!child_start(r->cx, &child, &job) || !child_wait(r->cx, &child))
    return false;
  HlNpz npz = {0};
  const int before = hl_cx_n_diags(r->cx);
  if (access(path, R_OK) == 0 && hl_npz_load(r->cx, path, &npz))
    for (int k = 0; k < npz.n; k++)
      add(&r->values, npz.names[k], npz.arrays[k]);
  hl_cx_forget(r->cx, before);
  hl_npz_free(&npz);
  unlink(path);
  unlink(log);
  return true;
}

// --- Arguments ----------------------------------------------------------------------------------------

// For each dimension of a shape the one of an array that it is the leading part of, in their order; as many dimensions as the
// array has more are left out, where it must or they have size 1. False: it is too small.
static bool match_dims(const HlShape *have, const HlShape *shape, int *of) {
  int n = 0, more = have->rank - shape->rank;
  for (int d = 0; d < have->rank; d++) {
    const bool fits = n < shape->rank && have->dim[d] >= shape->dim[n];
    if (more > 0 && (!fits || have->dim[d] == 1))
      more--;
    else if (fits)
      of[n++] = d;
    else
      return false;
  }
  return n == shape->rank;
}

// The leading part of an array, of another shape, of not more dimensions; NULL: it has none.
static HlLiteral *leading(HlCx *cx, const HlLiteral *from, const HlShape *shape) {
  enum { MOST_RANK = 64 };
  const HlShape *have = from->shape;
  int of[MOST_RANK];
  int64_t step[MOST_RANK];
  if (!hl_shape_is_array(have) || have->rank > MOST_RANK || from->extent ||
      !match_dims(have, shape, of))
    return NULL;
  if (hl_shape_same_dims(have, shape))
    return hl_literal_convert(cx, from, shape->dtype);
  for (int64_t d = have->rank - 1, n = 1; d >= 0; n *= have->dim[d--])
    step[d] = n;
  HlShape part = *shape;
  part.dtype = have->dtype;
  part.layout = NULL;
  HlLiteral *out = hl_literal_new(cx, &part);
  const size_t size = (size_t)hl_dtype_bytes(have->dtype);
  for (int64_t k = 0; out && k < out->n; k++) {
    int64_t rest = k, at = 0;
    for (int d = shape->rank - 1; d >= 0; rest /= shape->dim[d--])
      at += rest % shape->dim[d] * step[of[d]];
    memcpy((char *)out->data + (size_t)k * size, (const char *)from->data + (size_t)at * size,
           size);
  }
  HlLiteral *converted = out ? hl_literal_convert(cx, out, shape->dtype) : NULL;
  hl_literal_unref(out);
  return converted;
}

// What was recorded under a name, as a value of this shape; NULL: nothing that fits.
static HlLiteral *recorded(Reducer *r, const char *name, const HlShape *shape) {
  if (hl_shape_is_array(shape)) {
    const HlLiteral *value = values_find(&r->values, name);
    return value ? leading(r->cx, value, shape) : NULL;
  }
  if (!hl_shape_is_tuple(shape))
    return NULL;
  const int n = (int)hl_shape_leaves(shape);
  HlArena *arena = hl_arena_new();
  HlLiteral **leaf = HL_ARRAY(arena, HlLiteral *, n + 1), *out = NULL;
  bool all = true;
  for (int k = 0; all && k < n; k++) {
    const HlLiteral *value = values_find(&r->values, hl_arena_printf(arena, "%s#%d", name, k));
    const HlShape *want = hl_leaf_shape(shape, k);
    leaf[k] = value && want && hl_shape_is_array(want) ? leading(r->cx, value, want) : NULL;
    all = leaf[k] != NULL;
  }
  int next = 0;
  if (all)
    out = hl_unflatten(r->cx, shape, "a", n, leaf, &next);
  for (int k = 0; k < n; k++)
    hl_literal_unref(leaf[k]);
  hl_arena_free(arena);
  return out;
}

static HlLiteral *of_best(Reducer *r, const HlInst *param) {
  for (int k = 0; k < r->m->entry->n_params; k++) {
    const HlInst *old = r->m->entry->params[k];
    if (strcmp(old->name->text, param->name->text) == 0 && r->args[k])
      return hl_shape_compatible(old->shape, param->shape)
                 ? hl_literal_ref(r->args[k])
                 : leading(r->cx, r->args[k], param->shape);
  }
  return NULL;
}

HlLiteral **values_args(Reducer *r, const HlModule *m) {
  const int n = m->entry->n_params;
  HlLiteral **args = base_alloc((size_t)(n + 1) * sizeof *args);
  bool missing = false;
  for (int k = 0; k < n; k++) {
    const HlInst *param = m->entry->params[k];
    args[k] = of_best(r, param);
    if (!args[k])
      args[k] = recorded(r, param->name->text, param->shape);
    missing |= !args[k];
  }
  if (!missing)
    return args;
  HlLiteral **fake = base_alloc((size_t)(n + 1) * sizeof *fake);
  const bool ok = hl_fake_args(r->cx, m, r->test->seed, fake);
  for (int k = 0; ok && k < n; k++)
    if (args[k])
      hl_literal_unref(fake[k]);
    else
      args[k] = fake[k];
  base_free(fake);
  if (ok)
    return args;
  values_drop_args(args, n);
  return NULL;
}

void values_drop_args(HlLiteral **args, int n) {
  for (int k = 0; args && k < n; k++)
    hl_literal_unref(args[k]);
  base_free(args);
}
