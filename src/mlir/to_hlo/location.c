// Locations as metadata: names, op types, source lines, stack frames (mlir.md 1.7).
//
// A name around a file position is a frame of the call stack; a call site is a callee's frames above its caller's.
// Other names, from the outside in until one is found, are the op's name; those that end in `:` its type.
#include <string.h>

#include "mlir/to_hlo/to_hlo.h"

enum { MAX_LOCATION_DEPTH = 1000 };

typedef struct FrameKey {
  const HlSym *function, *file;  // the module's
  int32_t line, column, end_line, end_column, parent;
} FrameKey;

typedef struct Known {  // a location met before
  const HlMlLocation *location;
  const HlMetadata *metadata;
  const char *name;
} Known;

struct MlFrames {
  FrameKey *frame;  // frame k has id k + 1
  int n, capacity;
  int *slot;  // of the table of frames: id, or 0
  uint32_t n_slots;
  Known *known;  // a table by address
  uint32_t n_known, known_slots;
};

static MlFrames *frames_of(MlLower *l) {
  if (!l->frames)
    l->frames = HL_NEW(l->arena, MlFrames);
  return l->frames;
}

// --- Frames ------------------------------------------------------------------------------------------

static uint64_t hash_frame(const FrameKey *key) {
  uint64_t hash = hl_hash_mix(key->function->index, key->file->index);
  hash = hl_hash_mix(hash, (uint64_t)key->line << 32 | (uint32_t)key->column);
  return hl_hash_mix(hash, (uint64_t)key->parent);
}

// Where a range ends does not part frames.
static bool same_frame(const FrameKey *a, const FrameKey *b) {
  return a->function == b->function && a->file == b->file && a->line == b->line &&
         a->column == b->column && a->parent == b->parent;
}

static void grow_frames(MlLower *l, MlFrames *f) {
  int capacity = f->capacity ? 2 * f->capacity : 64;
  FrameKey *frame = HL_ARRAY(l->arena, FrameKey, capacity);
  if (f->n > 0)
    memcpy(frame, f->frame, sizeof *frame * (size_t)f->n);
  f->frame = frame;
  f->capacity = capacity;
  f->n_slots = 2 * (uint32_t)capacity;
  f->slot = HL_ARRAY(l->arena, int, f->n_slots);
  for (int k = 0; k < f->n; k++) {
    uint64_t at = hash_frame(&frame[k]) % f->n_slots;
    while (f->slot[at])
      at = (at + 1) % f->n_slots;
    f->slot[at] = k + 1;
  }
}

static int frame_id(MlLower *l, const FrameKey *key) {
  MlFrames *f = frames_of(l);
  if (f->n == f->capacity)
    grow_frames(l, f);
  uint64_t at = hash_frame(key) % f->n_slots;
  for (; f->slot[at]; at = (at + 1) % f->n_slots)
    if (same_frame(&f->frame[f->slot[at] - 1], key))
      return f->slot[at];
  f->frame[f->n++] = *key;
  return f->slot[at] = f->n;
}

static bool is_frame(const HlMlLocation *loc) {
  return loc->kind == HL_ML_LOC_NAME && loc->n == 1 && loc->child[0]->kind == HL_ML_LOC_FILE;
}

static FrameKey file_position(MlLower *l, const HlMlLocation *file) {
  return (FrameKey){.file = ml_sym(l, file->sym),
                    .line = file->line,
                    .column = file->column,
                    .end_line = file->is_range ? file->end_line : file->line,
                    .end_column = file->is_range ? file->end_column : file->column};
}

// The id of the innermost frame of a location, on top of `parent`.
static int stack_of(MlLower *l, const HlMlLocation *loc, int parent, int depth) {
  while (loc->kind == HL_ML_LOC_NAME && loc->n == 1 && !is_frame(loc))
    loc = loc->child[0];
  if (is_frame(loc)) {
    FrameKey key = file_position(l, loc->child[0]);
    key.function = ml_sym(l, loc->sym);
    key.parent = parent;
    return frame_id(l, &key);
  }
  if (loc->kind != HL_ML_LOC_CALLSITE || depth > MAX_LOCATION_DEPTH)
    return parent;
  return stack_of(l, loc->child[0], stack_of(l, loc->child[1], parent, depth + 1), depth + 1);
}

// --- Names -------------------------------------------------------------------------------------------------

static void add_names(HlBuf *out, const HlMlLocation *loc, int depth) {
  if (depth > MAX_LOCATION_DEPTH)
    return;
  if (loc->kind == HL_ML_LOC_NAME) {
    const HlSym *name = loc->sym;
    if (name->n > 0 && name->text[name->n - 1] == ':') {
      if (loc->n == 1)
        add_names(out, loc->child[0], depth + 1);
      return;
    }
    const char *at = memchr(name->text, '@', name->n);
    size_t n = at ? (size_t)(at - name->text) : name->n;
    if (n > 0 && out->n > 0)
      hl_buf_putc(out, ';');
    hl_buf_add(out, name->text, n);
  } else if (loc->kind == HL_ML_LOC_CALLSITE) {
    add_names(out, loc->child[0], depth + 1);
  } else if (loc->kind == HL_ML_LOC_FUSED) {
    for (int k = 0; k < loc->n; k++)
      add_names(out, loc->child[k], depth + 1);
  }
}

static const HlSym *find_type(MlLower *l, const HlMlLocation *loc, int depth) {
  if (depth > MAX_LOCATION_DEPTH)
    return NULL;
  if (loc->kind == HL_ML_LOC_NAME) {
    const HlSym *name = loc->sym;
    if (name->n > 1 && name->text[name->n - 1] == ':')
      return hl_syms_add(l->m->syms, name->text, name->n - 1);
    return loc->n == 1 ? find_type(l, loc->child[0], depth + 1) : NULL;
  }
  if (loc->kind == HL_ML_LOC_CALLSITE)
    return find_type(l, loc->child[0], depth + 1);
  if (loc->kind == HL_ML_LOC_FUSED)
    for (int k = 0; k < loc->n; k++) {
      const HlSym *type = find_type(l, loc->child[k], depth + 1);
      if (type)
        return type;
    }
  return NULL;
}

// The file position of a location without names; of fused ones the last.
static const HlMlLocation *plain_file(const HlMlLocation *loc) {
  if (loc->kind == HL_ML_LOC_FILE)
    return loc;
  if (loc->kind == HL_ML_LOC_FUSED)
    for (int k = loc->n - 1; k >= 0; k--)
      if (loc->child[k]->kind == HL_ML_LOC_FILE)
        return loc->child[k];
  return NULL;
}

// An instruction's name: the last part of the path, with what names cannot have replaced.
static const char *short_name(MlLower *l, const HlBuf *path) {
  const char *slash = path->n > 0 ? memrchr(path->at, '/', path->n) : NULL;
  const char *start = slash ? slash + 1 : path->at;
  size_t n = path->n - (size_t)(start - path->at);
  if (n == 0)
    return NULL;
  char *name = hl_arena_strndup(l->arena, start, n);
  for (char *c = name; *c; c++)
    if (*c == '.')
      *c = '_';
  HlStr legal = hl_sanitise_name(l->arena, hl_str(name));
  return hl_arena_strndup(l->arena, legal.at, legal.n);
}

static Known read_location(MlLower *l, const HlMlLocation *loc) {
  HlMetadata metadata = {0};
  HlBuf names = {0};
  Known known = {.location = loc};
  add_names(&names, loc, 0);
  if (names.n > 0) {
    metadata.op_name = hl_syms_add(l->m->syms, names.at, names.n);
    known.name = short_name(l, &names);
  }
  hl_buf_free(&names);
  metadata.op_type = find_type(l, loc, 0);
  metadata.stack_frame_id = stack_of(l, loc, 0, 0);
  const HlMlLocation *file = plain_file(loc);
  if (file) {
    FrameKey at = file_position(l, file);
    metadata.source_file = at.file;
    metadata.source_line = at.line;
    metadata.source_column = at.column;
    metadata.source_end_line = at.end_line;
    metadata.source_end_column = at.end_column;
  }
  if (metadata.op_name || metadata.op_type || metadata.stack_frame_id || file)
    known.metadata = hl_intern_metadata(l->m, &metadata);
  return known;
}

static uint64_t hash_address(const void *at) {
  return hl_hash_mix((uint64_t)(uintptr_t)at, 0x9e3779b97f4a7c15u);
}

static Known *find_slot(Known *table, uint32_t n, const HlMlLocation *loc) {
  uint64_t at = hash_address(loc) % n;
  while (table[at].location && table[at].location != loc)
    at = (at + 1) % n;
  return &table[at];
}

static void grow_known(MlLower *l, MlFrames *f) {
  uint32_t n = f->known_slots ? 2 * f->known_slots : 256;
  Known *table = HL_ARRAY(l->arena, Known, n);
  for (uint32_t k = 0; k < f->known_slots; k++)
    if (f->known[k].location)
      *find_slot(table, n, f->known[k].location) = f->known[k];
  f->known = table;
  f->known_slots = n;
}

const HlMetadata *ml_metadata(MlLower *l, const HlMlLocation *location, const char **name) {
  *name = NULL;
  if (!location || location->kind == HL_ML_LOC_UNKNOWN)
    return NULL;
  MlFrames *f = frames_of(l);
  if (2 * (f->n_known + 1) > f->known_slots)
    grow_known(l, f);
  Known *slot = find_slot(f->known, f->known_slots, location);
  if (!slot->location) {
    *slot = read_location(l, location);
    f->n_known++;
  }
  *name = slot->name;
  return slot->metadata;
}

const HlMetadata *ml_name_metadata(MlLower *l, const HlMlLocation *location, const char **name) {
  const HlMetadata *metadata = ml_metadata(l, location, name);
  if (!metadata || !metadata->op_name)
    return NULL;
  HlMetadata named = {.op_name = metadata->op_name};
  return hl_intern_metadata(l->m, &named);
}

// --- The module's tables ---------------------------------------------------------------------------------------

// The place of a symbol in a list, appended when it is new; `place` by the symbol's index holds it + 1.
static int32_t place_of(const HlSym **list, int *n, int32_t *place, const HlSym *sym) {
  if (!place[sym->index]) {
    list[(*n)++] = sym;
    place[sym->index] = *n;
  }
  return place[sym->index];
}

void ml_frames_done(MlLower *l) {
  const MlFrames *f = l->frames;
  if (!f || f->n == 0)
    return;
  HlArena *arena = l->m->arena;
  uint32_t n_syms = hl_syms_count(l->m->syms) + 1;
  int32_t *files = HL_ARRAY(l->arena, int32_t, n_syms),
          *functions = HL_ARRAY(l->arena, int32_t, n_syms);
  const HlSym **file_names = HL_ARRAY(arena, const HlSym *, f->n);
  const HlSym **function_names = HL_ARRAY(arena, const HlSym *, f->n);
  HlFileLocation *locations = HL_ARRAY(arena, HlFileLocation, f->n);
  HlStackFrame *frames = HL_ARRAY(arena, HlStackFrame, f->n);
  HlFrames out = {file_names, function_names, locations, frames, 0, 0, f->n, f->n};
  for (int k = 0; k < f->n; k++) {
    const FrameKey *key = &f->frame[k];
    locations[k] =
        (HlFileLocation){place_of(file_names, &out.n_file_names, files, key->file),
                         place_of(function_names, &out.n_function_names, functions, key->function),
                         key->line,
                         key->column,
                         key->end_line,
                         key->end_column};
    frames[k] = (HlStackFrame){k + 1, key->parent};
  }
  hl_set_frames(l->m, &out);
  hl_intern_frames(l->m);
}
