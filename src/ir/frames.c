// ir/frames.c: the canonical order of stack frames (hlo.md 1.4): what instructions reach, oldest
// ancestor first, each thing once.

#include <string.h>

#include "base/map.h"
#include "ir/state.h"

// A list of fixed-size items without duplicates, numbered from 1 in order of arrival.
typedef struct Table {
  HlArena *arena;
  size_t size;  // of an item
  char *item;
  int32_t n, capacity;
  Map number;  // by the hash of an item
} Table;

static char *table_item(const Table *table, size_t number) {
  return table->item + table->size * (number - 1);
}

static int32_t table_find(const Table *table, uint64_t hash, const void *item) {
  MapWalk walk = map_walk(&table->number, hash);
  for (uint64_t number; (number = map_next(&walk));)
    if (memcmp(table_item(table, number), item, table->size) == 0)
      return (int32_t)number;
  return 0;
}

static void table_grow(Table *table) {
  const int32_t capacity = table->capacity ? table->capacity * 2 : 16;
  char *item = hl_arena_alloc(table->arena, table->size * (size_t)capacity);
  if (table->n > 0)
    memcpy(item, table->item, table->size * (size_t)table->n);
  table->item = item;
  table->capacity = capacity;
}

static int32_t table_add(Table *table, const void *item) {
  const uint64_t hash = hl_hash_bytes(item, table->size, 0);
  const int32_t found = table_find(table, hash, item);
  if (found)
    return found;
  if (table->n == table->capacity)
    table_grow(table);
  memcpy(table_item(table, (size_t)++table->n), item, table->size);
  map_add(&table->number, hash, (uint64_t)table->n);
  return table->n;
}

typedef struct Interning {
  const HlFrames *old;
  Table files, functions, locations, frames;
  int32_t *id;     // new id of each old frame (1-based); -1: not seen yet, 0: bad
  int32_t *chain;  // scratch: a frame and its ancestors
} Interning;

static bool is_id(int32_t id, int n) {
  return id >= 1 && id <= n;
}

// Adds a frame whose ancestors are in; 0 when its location or a name of that is not there.
static int32_t intern_frame(Interning *in, int32_t frame, int32_t new_parent) {
  const HlFrames *old = in->old;
  int32_t location = old->frames[frame - 1].file_location_id;
  if (!is_id(location, old->n_locations))
    return 0;
  HlFileLocation at = old->locations[location - 1];
  if (!is_id(at.file_name_id, old->n_file_names) ||
      !is_id(at.function_name_id, old->n_function_names))
    return 0;
  at.file_name_id = table_add(&in->files, &old->file_names[at.file_name_id - 1]);
  at.function_name_id = table_add(&in->functions, &old->function_names[at.function_name_id - 1]);
  HlStackFrame added = {table_add(&in->locations, &at), new_parent};
  return table_add(&in->frames, &added);
}

// Marks what is left of the chain as leading nowhere.
static int32_t bad_chain(Interning *in, int32_t n) {
  for (int32_t k = 0; k < n; k++)
    in->id[in->chain[k]] = 0;
  return 0;
}

// The new id of an old frame. A chain that leaves the table or goes round is none at all.
static int32_t intern_chain(Interning *in, int32_t frame) {
  int32_t n = 0, parent = 0;
  for (int32_t at = frame; at != 0; at = in->old->frames[at - 1].parent_frame_id) {
    if (!is_id(at, in->old->n_frames) || n > in->old->n_frames)
      return bad_chain(in, n);
    if (in->id[at] >= 0) {
      parent = in->id[at];
      if (parent == 0)
        return bad_chain(in, n);
      break;
    }
    in->chain[n++] = at;
  }
  for (; n > 0; n--) {
    parent = intern_frame(in, in->chain[n - 1], parent);
    if (parent == 0)
      return bad_chain(in, n);
    in->id[in->chain[n - 1]] = parent;
  }
  return parent;
}

// Gives the metadata of an instruction its frame's new id.
static void rewrite(Interning *in, HlInst *inst) {
  const HlMetadata *metadata = hl_metadata(inst);
  if (!metadata || metadata->stack_frame_id == 0)
    return;
  int32_t id = intern_chain(in, metadata->stack_frame_id);
  if (id == metadata->stack_frame_id)
    return;
  HlMetadata changed = *metadata;
  changed.stack_frame_id = id;
  HlAttr attr = {.key = HL_A_METADATA, .ptr = hl_intern_metadata(inst->comp->module, &changed)};
  hl_set_attr(inst, &attr);
}

static void take_tables(HlModule *m, const Interning *in) {
  HlFrames *to = &m->frames;
  to->n_file_names = in->files.n;
  to->n_function_names = in->functions.n;
  to->n_locations = in->locations.n;
  to->n_frames = in->frames.n;
  to->file_names = hl_arena_copy(m->arena, in->files.item, in->files.size * (size_t)in->files.n);
  to->function_names =
      hl_arena_copy(m->arena, in->functions.item, in->functions.size * (size_t)in->functions.n);
  to->locations =
      hl_arena_copy(m->arena, in->locations.item, in->locations.size * (size_t)in->locations.n);
  to->frames = hl_arena_copy(m->arena, in->frames.item, in->frames.size * (size_t)in->frames.n);
}

void hl_intern_frames(HlModule *m) {
  HlArena *scratch = hl_arena_new();
  HlFrames old = m->frames;
  Interning in = {
      .old = &old,
      .files = {.arena = scratch, .size = sizeof(HlSym *), .number = {.arena = scratch}},
      .functions = {.arena = scratch, .size = sizeof(HlSym *), .number = {.arena = scratch}},
      .locations = {.arena = scratch, .size = sizeof(HlFileLocation), .number = {.arena = scratch}},
      .frames = {.arena = scratch, .size = sizeof(HlStackFrame), .number = {.arena = scratch}}};
  in.id = HL_ARRAY(scratch, int32_t, (size_t)old.n_frames + 1);
  in.chain = HL_ARRAY(scratch, int32_t, (size_t)old.n_frames + 1);
  for (int k = 0; k <= old.n_frames; k++)
    in.id[k] = -1;
  for (HlComp *comp = m->first; comp; comp = comp->next)
    for (uint32_t id = 0; id < comp->next_id; id++)
      if (comp->by_id[id])
        rewrite(&in, comp->by_id[id]);
  take_tables(m, &in);
  hl_arena_free(scratch);
}
