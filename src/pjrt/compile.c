// pjrt/compile.c: a program and its options become a core: what all handles of one executable share.
//
// Compiling itself is the session's (hilo/session.h): here is told what the client asked for, and noted what it will ask about
// the result. Sessions are kept by the flags they were made with, cores by all they were made of: a program that is compiled
// again, in this process or from a cache on disk, is there.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "hilo/cost.h"
#include "hilo/custom_calls.h"
#include "hilo/op.h"
#include "pjrt/client.h"

// --- Sessions ----------------------------------------------------------------------------------------

typedef struct SessionRow {
  HlBuf flags;  // as text: the message has them in another order each time
  HlSession *session;
  struct SessionRow *next;
} SessionRow;

void sessions_free(PJRT_Client *client) {
  for (SessionRow *row = client->sessions, *next; row; row = next) {
    next = row->next;
    hl_session_free(row->session);
    hl_buf_free(&row->flags);
    free(row);
  }
}

static bool read_flags(HlCx *cx, const HlAsked *asked, HlFlags *out) {
  if (!hl_flags_debug_options_binary(cx, out, asked->debug_options))
    return false;
  for (int k = 0; k < asked->n_overrides; k++)
    if (!hl_flags_override(cx, out, &asked->overrides[k]))
      return false;
  return true;
}

static bool buf_equal(const HlBuf *a, const HlBuf *b) {
  return a->n == b->n && (a->n == 0 || memcmp(a->at, b->at, a->n) == 0);
}

static HlSession *find_session(PJRT_Client *client, const HlBuf *flags) {
  for (SessionRow *row = client->sessions; row; row = row->next)
    if (buf_equal(&row->flags, flags))
      return row->session;
  return NULL;
}

// Keeps it as long as the client; another thread may have been faster.
static HlSession *keep_session(PJRT_Client *client, const HlBuf *flags, HlSession *session) {
  SessionRow *row = calloc(1, sizeof *row);
  pthread_mutex_lock(&client->lock);
  HlSession *first = find_session(client, flags);
  if (!first && row) {
    hl_buf_add(&row->flags, flags->at, flags->n);
    row->session = session;
    row->next = client->sessions;
    client->sessions = row;
    row = NULL;
    first = session;
  }
  pthread_mutex_unlock(&client->lock);
  free(row);
  if (first != session)
    hl_session_free(session);
  return first;
}

typedef struct Opening {
  const HlFlags *flags;
  HlSession *session;
} Opening;

static bool open_session(HlCx *cx, void *user) {
  Opening *opening = user;
  opening->session =
      hl_session_new(cx, &(HlSessionOptions){.platform = "cpu", .flags = opening->flags});
  return opening->session;
}

// `text`: of the flags.
static HlSession *session_for(HlCx *cx, PJRT_Client *client, const HlFlags *flags,
                              const HlBuf *text) {
  pthread_mutex_lock(&client->lock);
  HlSession *session = find_session(client, text);
  pthread_mutex_unlock(&client->lock);
  if (session)
    return session;
  Opening opening = {.flags = flags};
  return hl_try(cx, open_session, &opening) ? keep_session(client, text, opening.session) : NULL;
}

// --- What is known of parameters and results ---------------------------------------------------------

static MemoryKind kind_of(const HlShape *shape) {
  const int64_t space = hl_is_array_dtype(shape->dtype) ? hl_memory_space(shape) : HL_SPACE_DEVICE;
  return space == HL_SPACE_HOST            ? MEMORY_PINNED_HOST
         : space == HL_SPACE_UNPINNED_HOST ? MEMORY_UNPINNED_HOST
                                           : MEMORY_DEVICE;
}

// In which memories the arrays of a parameter or of the result are: the entry's layout says so.
static void note_kinds(const HlShape *shape, Slot *slot) {
  for (int64_t leaf = 0; leaf < hl_shape_leaves(shape); leaf++)
    slot[leaf].kind = kind_of(hl_leaf_shape(shape, leaf));
}

static bool fill_slot(HlCx *cx, Core *core, const HlShape *shape, Slot *slot) {
  const bool is_array = hl_is_array_dtype(shape->dtype);
  const int rank = is_array ? shape->rank : 0;
  int64_t *numbers = HL_ARRAY(core->arena, int64_t, 2 * rank + 1);
  const bool has_order = is_array && shape->layout && shape->layout->minor_to_major.n == rank;
  slot->donor = -1;
  slot->kind = MEMORY_DEVICE;
  if (!array_make(&slot->array, numbers, shape->dtype, rank, shape->dim,
                  has_order ? shape->layout->minor_to_major.at : NULL))
    return hl_error_kind(cx, HL_UNSUPPORTED, (HlPos){0}, "an array of shape %s cannot be handed over",
                         hl_shape_text(cx, shape));
  char *at = slot->layout, *end = at + sizeof slot->layout;
  *at++ = '{';
  for (int k = 0; k < rank; k++)
    at += snprintf(at, (size_t)(end - at), k ? ",%d" : "%d", (int)slot->array.minor_to_major[k]);
  *at++ = '}';
  *at = '\0';
  return true;
}

static bool fill_slots(HlCx *cx, Core *core) {
  core->n_parameters = hl_cpu_arguments(core->program);
  core->n_results = hl_cpu_results(core->program);
  core->parameter = HL_ARRAY(core->arena, Slot, core->n_parameters + 1);
  core->result = HL_ARRAY(core->arena, Slot, core->n_results + 1);
  for (int k = 0; k < core->n_parameters; k++)
    if (!fill_slot(cx, core, hl_cpu_argument(core->program, k), &core->parameter[k]))
      return false;
  for (int k = 0; k < core->n_results; k++) {
    if (!fill_slot(cx, core, hl_cpu_result(core->program, k), &core->result[k]))
      return false;
    core->result[k].donor = hl_cpu_donor(core->program, k);
  }
  return true;
}

// What is given away is what a result takes the memory of: a donor that nobody could use stays the caller's, as with XLA.
static void note_donated(Core *core, const HlModule *m) {
  for (int a = 0; a < m->input_output_alias.n; a++)
    for (int p = 0, k = 0; p < m->entry->n_params; p++) {
      const int64_t leaves = hl_shape_leaves(m->entry->params[p]->shape);
      for (int64_t leaf = 0; leaf < leaves; leaf++, k++)
        if (m->input_output_alias.at[a].number == p)
          core->parameter[k].donated = true;
    }
}

// --- Compiling ---------------------------------------------------------------------------------------

static HlModule *read_program(HlCx *cx, HlStr program) {
  HlSource *source = hl_source_new("program", program.at, program.n, true);
  HlFile file;
  const bool ok = hl_load_source(cx, source, &(HlLoadOptions){.entry_modes = true, .verify = true}, &file);
  hl_source_unref(source);
  HlModule *m = NULL;
  if (ok && file.n == 1) {
    m = file.modules[0];
    file.modules[0] = NULL;
  } else if (ok) {
    hl_error(cx, (HlPos){0}, "expected a program with one entry, found %d", file.n);
  }
  hl_file_free(&file);
  return m;
}

HlModule *core_read_program(HlCx *cx, const Core *core) {
  return read_program(cx, core->source);
}

static bool set_devices(HlCx *cx, Core *core, const HlAsked *asked) {
  core->replicas = asked->replicas > 0 ? asked->replicas : 1;
  core->partitions = asked->partitions > 0 ? asked->partitions : 1;
  const int64_t n = core->replicas * core->partitions;
  if (core->replicas > core->client->n_devices || n > core->client->n_devices)
    return hl_error(cx, (HlPos){0},
                    "the program is compiled for %lld replicas of %lld partitions, but there are %d "
                    "devices",
                    (long long)core->replicas, (long long)core->partitions,
                    core->client->n_devices);
  int64_t *device = HL_ARRAY(core->arena, int64_t, n + 1);
  for (int64_t k = 0; k < n; k++) {
    device[k] = asked->devices ? asked->devices[k] : k;
    if (device[k] < 0 || device[k] >= core->client->n_devices)
      return hl_error(cx, (HlPos){0}, "the program is to run on device %lld, but there are %d",
                      (long long)device[k], core->client->n_devices);
  }
  core->process = HL_ARRAY(core->arena, int, n + 1);
  for (int64_t k = 0; k < n; k++) {
    core->process[k] = core->client->devices[device[k]]->description.process;
    core->n_local += core->process[k] == core->client->process;
  }
  core->device = device;
  core->n_devices = n;
  core->portable = asked->portable;
  return true;
}

// What takes some tens of microseconds at most, by its operations and bytes; nobody knows how long a loop takes, or Python.
static bool is_short(const HlModule *m) {
  const HlCost cost = hl_cost_module(m);
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if ((inst->op == HL_OP_WHILE && hl_trip_count(inst) < 0) || inst->op == HL_OP_CUSTOM_CALL)
        return false;
  return cost.flops < 4e5 && cost.transcendentals < 2e4 && cost.bytes_read + cost.bytes_written < 4e5;
}

static bool calls_python(const HlModule *m) {
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = hl_comp_may_have(comp, HL_OP_CUSTOM_CALL) ? comp->first : NULL; inst;
         inst = inst->next)
      if (hl_is_call(inst, HL_CALL_PYTHON) || hl_is_call(inst, HL_CALL_PYTHON_PARTS) ||
          hl_is_call(inst, HL_CALL_PYTHON_BUFFERS))
        return true;
  return false;
}

static bool compile(HlCx *cx, Core *core, const HlAsked *asked) {
  HlModule *m = read_program(cx, core->source);
  if (!m)
    return false;
  const HlCompileOptions options = {.replicas = core->replicas,
                                    .partitions = core->partitions,
                                    .devices = core->device,
                                    .spmd_to_parameters = asked->spmd_to_parameters,
                                    .spmd_to_output = asked->spmd_to_output};
  core->compiled = hl_compile(cx, core->session, &(HlProgram){.take = m}, &options);
  if (!core->compiled)
    return false;
  core->program = 
      hl_compiled_program(cx, core->compiled, &(HlCpuOptions){.shared = core->client->threads});
  if (!core->program || !fill_slots(cx, core))
    return false;
  m = (HlModule *)(uintptr_t)hl_compiled_module(core->compiled);
  core->name = hl_arena_strndup(core->arena, m->name->text, m->name->n);
  note_donated(core, m);
  for (int p = 0, k = 0; p < m->n_entry_params; k += (int)hl_shape_leaves(m->entry_params[p++]))
    note_kinds(m->entry_params[p], &core->parameter[k]);
  note_kinds(m->entry_result, core->result);
  core->is_short = core->n_devices == 1 && is_short(m);
  core->calls_python = calls_python(m);
  return true;
}

static HlStr keep(HlArena *arena, HlStr bytes) {
  return (HlStr){hl_arena_copy(arena, bytes.at, bytes.n), bytes.n};
}

// All that the options say, in one order.
static void put_key(HlBuf *key, const HlAsked *asked, const HlBuf *flags) {
  hl_buf_printf(key, "%lld %lld %d%d%d%d%d;", (long long)asked->replicas,
                (long long)asked->partitions, asked->spmd, asked->auto_spmd, asked->shardy,
                asked->portable, asked->alias_passthrough);
  for (int64_t k = 0; asked->devices && k < asked->replicas * asked->partitions; k++)
    hl_buf_printf(key, " %lld", (long long)asked->devices[k]);
  const HlI64s lists[] = {asked->spmd_to_parameters, asked->spmd_to_output};
  for (int l = 0; l < HL_COUNT_OF(lists); l++) {
    hl_buf_putc(key, ';');
    for (int k = 0; k < lists[l].n; k++)
      hl_buf_printf(key, "%d", lists[l].at[k] != 0);
  }
  hl_buf_add(key, flags->at, flags->n);
}

static HlFingerprint fingerprint(HlStr program, HlStr key) {
  const HlFingerprint a = base_fingerprint128(program), b = base_fingerprint128(key);
  return (HlFingerprint){hl_hash_mix(a.low, b.low), hl_hash_mix(a.high, b.high)};
}

// What a client wants, and what becomes of it: `asked` is in the arena.
typedef struct Wish {
  PJRT_Client *client;
  HlArena *arena;
  HlStr program, options;
  HlAsked asked;
  HlFlags flags;
  HlBuf flags_text, key;
  HlSession *session;
  Core *core;
} Wish;

static void forget_flags(Wish *wish) {
  hl_flags_free(&wish->flags);
  hl_buf_free(&wish->flags_text);
  hl_buf_free(&wish->key);
}

static bool read_wish(HlCx *cx, void *user) {
  Wish *wish = user;
  if (!hl_proto_read_asked(cx, wish->arena, wish->options, &wish->asked) ||
      !read_flags(cx, &wish->asked, &wish->flags)) {
    forget_flags(wish);
    return false;
  }
  hl_flags_print(&wish->flags, &wish->flags_text);
  put_key(&wish->key, &wish->asked, &wish->flags_text);
  return true;
}

static bool wants_snapshots(const HlFlags *flags) {
  return *hl_flag_text(flags->xla_dump_to) &&
         (flags->xla_dump_hlo_snapshots || flags->xla_dump_hlo_unoptimized_snapshots);
}

static bool make(HlCx *cx, void *user) {
  Wish *wish = user;
  HlArena *arena = hl_arena_new();
  Core *core = HL_NEW(arena, Core);
  const HlStr key = {wish->key.at, wish->key.n};
  const HlFingerprint id = fingerprint(wish->program, key);
  *core = (Core){.refs = 1,
                 .client = wish->client,
                 .arena = arena,
                 .session = wish->session,
                 .fingerprint = {hl_hash_mix(id.low, build_hash()), id.high},
                 .source = keep(arena, wish->program),
                 .options = keep(arena, wish->options),
                 .key = keep(arena, key),
                 .snapshots = wants_snapshots(&wish->flags)};
  pthread_mutex_init(&core->lock, NULL);
  const int64_t n_devices = wish->asked.devices ? wish->asked.replicas * wish->asked.partitions : 0;
  const HlFingerprint spread =
      fingerprint(wish->program, (HlStr){(const char *)wish->asked.devices,
                                         (size_t)n_devices * sizeof *wish->asked.devices});
  core->spread_id[0] = spread.low;
  core->spread_id[1] = spread.high;
  if (set_devices(cx, core, &wish->asked) && compile(cx, core, &wish->asked))
    wish->core = core;
  else
    core_unref(core);
  return wish->core;
}

Core *core_ref(Core *core) {
  atomic_fetch_add(&core->refs, 1);
  return core;
}

void core_unref(Core *core) {
  if (!core || atomic_fetch_sub(&core->refs, 1) > 1)
    return;
  ffi_end_sites(core);
  hl_cpu_unref(core->program);
  hl_compiled_unref(core->compiled);
  hl_buf_free(&core->optimized);
  hl_buf_free(&core->assignment);
  pthread_mutex_destroy(&core->lock);
  hl_arena_free(core->arena);
}

// --- What was compiled before ------------------------------------------------------------------------

// The last few, newest first.
enum { CACHED = 64 };

typedef struct CacheRow {
  Core *core;
  struct CacheRow *next;
} CacheRow;

void cache_free(PJRT_Client *client) {
  for (CacheRow *row = client->cache, *next; row; row = next) {
    next = row->next;
    core_unref(row->core);
    free(row);
  }
}

static bool str_equal(HlStr a, HlStr b) {
  return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

// Under the lock. What is found becomes the newest.
static Core *find_core(PJRT_Client *client, HlStr program, HlStr key) {
  for (CacheRow **at = &client->cache; *at; at = &(*at)->next) {
    CacheRow *row = *at;
    if (!str_equal(row->core->source, program) || !str_equal(row->core->key, key))
      continue;
    *at = row->next;
    row->next = client->cache;
    client->cache = row;
    return core_ref(row->core);
  }
  return NULL;
}

// Under the lock: what is beyond the limit, to be given back outside.
static CacheRow *cut_cache(PJRT_Client *client) {
  CacheRow **at = &client->cache;
  for (int n = 0; *at && n < CACHED; n++)
    at = &(*at)->next;
  CacheRow *rest = *at;
  *at = NULL;
  return rest;
}

static void put_core(PJRT_Client *client, Core *core) {
  CacheRow *row = malloc(sizeof *row);
  if (!row)
    return;
  *row = (CacheRow){core_ref(core), NULL};
  pthread_mutex_lock(&client->lock);
  row->next = client->cache;
  client->cache = row;
  CacheRow *rest = cut_cache(client);
  pthread_mutex_unlock(&client->lock);
  for (CacheRow *next; rest; rest = next) {
    next = rest->next;
    core_unref(rest->core);
    free(rest);
  }
}

// What handlers of custom calls prepare belongs to making one; it is no part of a try, which may not leave their code.
static void make_whole(Context *context, Wish *wish, Fault **fault) {
  HlCx *cx = context->cx;
  wish->session = session_for(cx, wish->client, &wish->flags, &wish->flags_text);
  if (!wish->session || !hl_try(cx, make, wish)) {
    wish->core = NULL;
    return;
  }
  *fault = ffi_instantiate(context, wish->core);
  if (!*fault)
    return;
  core_unref(wish->core);
  wish->core = NULL;
}

// Who asks for dumps gets them each time.
static void find_or_make(Context *context, Wish *wish, Fault **fault) {
  PJRT_Client *client = wish->client;
  if (!*hl_flag_text(wish->flags.xla_dump_to)) {
    pthread_mutex_lock(&client->lock);
    wish->core = find_core(client, wish->program, (HlStr){wish->key.at, wish->key.n});
    pthread_mutex_unlock(&client->lock);
  }
  if (wish->core)
    return;
  make_whole(context, wish, fault);
  if (!wish->core)
    return;
  wish->core->asked_client = context->asked_client;
  if (!wish->core->asked_client)
    put_core(client, wish->core);
}

Core *core_compile(PJRT_Client *client, HlStr program, HlStr options, PJRT_Error **error) {
  *error = NULL;
  Context *context = context_take(client);
  if (!context) {
    *error = pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
    return NULL;
  }
  Wish wish = {
      .client = client, .arena = hl_arena_new(), .program = program, .options = options};
  Fault *fault = NULL;
  if (hl_try(context->cx, read_wish, &wish)) {
    find_or_make(context, &wish, &fault);
    forget_flags(&wish);
  }
  if (!wish.core)
    *error = fault ? pjrt_error(fault) : pjrt_fail_cx(context->cx);
  hl_arena_free(wish.arena);
  context_put(client, context);
  return wish.core;
}

// --- Handles -----------------------------------------------------------------------------------------

static void loaded_unref(PJRT_LoadedExecutable *loaded) {
  if (atomic_fetch_sub(&loaded->refs, 1) > 1)
    return;
  core_unref(loaded->core);
  free(loaded->devices);
  free(loaded->ids);
  free(loaded);
}

PJRT_LoadedExecutable *loaded_new(PJRT_Client *client, Core *core, PJRT_Error **error) {
  *error = NULL;
  PJRT_LoadedExecutable *loaded = calloc(1, sizeof *loaded);
  const size_t n = (size_t)core->n_devices;
  if (loaded) {
    *loaded = (PJRT_LoadedExecutable){.refs = 1,
                                      .core = core,
                                      .client = client,
                                      .devices = calloc(n, sizeof *loaded->devices),
                                      .ids = calloc(n, sizeof *loaded->ids)};
  }
  if (!loaded || !loaded->devices || !loaded->ids) {
    *error = pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
    if (loaded)
      loaded_unref(loaded);
    else
      core_unref(core);
    return NULL;
  }
  for (int64_t k = 0; k < core->n_devices; k++) {
    PJRT_Device *device = client->devices[core->device[k]];
    if (device->local < 0)
      continue;
    loaded->devices[loaded->n_devices] = device;
    loaded->ids[loaded->n_devices++] = (PJRT_LogicalDeviceIds){
        (int)(k / core->partitions), (int)(k % core->partitions)};
  }
  return loaded;
}

PJRT_Error *PJRT_Client_Compile(PJRT_Client_Compile_Args *args) {
  PJRT_Error *error;
  Core *core = core_compile(args->client, (HlStr){args->program->code, args->program->code_size},
                            (HlStr){args->compile_options, args->compile_options_size}, &error);
  args->executable = core ? loaded_new(args->client, core, &error) : NULL;
  return error;
}

PJRT_Error *PJRT_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args *args) {
  loaded_unref(args->executable);
  return NULL;
}
