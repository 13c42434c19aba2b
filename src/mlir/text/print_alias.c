// Prints locations, and names what MLIR's printer gives names: #loc3, !tuple, #map.
//
// A first run of the printer, whose text is thrown away, notes everything that can have an alias in the order in which
// it is met, outer ones before what they are made of. Then they are numbered: innermost ones first, else in that order.
// A location that only ops end with is defined after the program, all others before it.
#include "mlir/text/print.h"

#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"

// What a location is, with the numbers of its parts in place of them: equal locations have equal keys.
typedef struct Entry {
  const HlMlLocation *location;  // or
  const HlMlType *type;          // or
  const HlSym *map;              // the text of an affine map
  uint64_t hash;
  uint32_t *part;  // entries of the children
  int n_parts;
  bool is_met, is_late;  // is_late: only at the ends of ops so far
  int depth;
  uint32_t number;
} Entry;

struct PrAliases {
  VEC(Entry) entries;
  Map by_hash;        // 1 + place of entries
  Map seen;           // by location in memory: 1 + which entry it is
  VEC(uint32_t) met;  // in order; later sorted
};

PrAliases *mlp_aliases_new(void) {
  return base_alloc(sizeof(PrAliases));
}

void mlp_aliases_free(PrAliases *a) {
  if (!a)
    return;
  for (int k = 0; k < a->entries.n; k++)
    base_free(a->entries.at[k].part);
  vec_free(&a->entries);
  map_free(&a->by_hash);
  map_free(&a->seen);
  vec_free(&a->met);
  base_free(a);
}

// --- Which entry a location is --------------------------------------------------------------------------

static uint64_t hash_pointer(const void *at) {
  return hl_hash_mix((uintptr_t)at, 0x9e3779b97f4a7c15u);
}

static bool same_entry(const Entry *x, const Entry *y) {
  if (x->hash != y->hash || x->type != y->type || x->map != y->map || x->n_parts != y->n_parts ||
      !x->location != !y->location)
    return false;
  if (!x->location)
    return true;
  const HlMlLocation *l = x->location, *m = y->location;
  if (l->kind != m->kind || l->line != m->line || l->column != m->column ||
      l->end_line != m->end_line || l->end_column != m->end_column ||
      !ml_same_sym(l->sym, m->sym) || !l->metadata != !m->metadata ||
      (l->metadata && !hl_ml_attr_equal(l->metadata, m->metadata)))
    return false;
  return x->n_parts == 0 || memcmp(x->part, y->part, (size_t)x->n_parts * sizeof *x->part) == 0;
}

// The entry equal to the given one, which is taken over.
static uint32_t intern(PrAliases *a, Entry entry, bool may_add) {
  MapWalk walk = map_walk(&a->by_hash, entry.hash);
  for (uint64_t place; (place = map_next(&walk));)
    if (same_entry(&a->entries.at[place - 1], &entry)) {
      base_free(entry.part);
      return (uint32_t)place - 1;
    }
  if (!may_add)
    return UINT32_MAX;
  vec_push(&a->entries, entry);
  map_add(&a->by_hash, entry.hash, (uint64_t)a->entries.n);
  return (uint32_t)a->entries.n - 1;
}

static uint64_t seen_of(const PrAliases *a, const HlMlLocation *location) {
  return map_get(&a->seen, map_key(location));
}

static uint32_t intern_location(PrAliases *a, const HlMlLocation *l) {
  Entry entry = {.location = l, .n_parts = l->n};
  entry.hash = hl_hash_mix(l->kind, (uint64_t)(unsigned)l->line << 32 | (unsigned)l->column);
  entry.hash =
      hl_hash_mix(entry.hash, (uint64_t)(unsigned)l->end_line << 32 | (unsigned)l->end_column);
  if (l->sym)
    entry.hash = hl_hash_mix(entry.hash, l->sym->hash);
  if (l->n)
    entry.part = base_alloc((size_t)l->n * sizeof *entry.part);
  for (int k = 0; k < l->n; k++) {
    entry.part[k] = (uint32_t)seen_of(a, l->child[k]) - 1;
    entry.hash = hl_hash_mix(entry.hash, entry.part[k]);
  }
  return intern(a, entry, true);
}

typedef struct Frame {
  const HlMlLocation *location;
  uint32_t entry;
  int next;  // child to look at
} Frame;

typedef VEC(Frame) Frames;

// Children before parents; a stack of frames, for a location may be deep.
static uint32_t entry_of(PrAliases *a, const HlMlLocation *location) {
  const uint64_t seen = seen_of(a, location);
  if (seen)
    return (uint32_t)seen - 1;
  Frames frames = {0};
  vec_push(&frames, ((Frame){location, 0, 0}));
  while (frames.n) {
    Frame *top = &vec_last(&frames);
    if (top->next < top->location->n) {
      const HlMlLocation *child = top->location->child[top->next++];
      if (!seen_of(a, child))
        vec_push(&frames, ((Frame){child, 0, 0}));
      continue;
    }
    const HlMlLocation *done = vec_pop(&frames).location;
    if (!seen_of(a, done)) {
      const uint64_t place = 1 + (uint64_t)intern_location(a, done);
      *map_at(&a->seen, map_key(done)) = place;
    }
  }
  vec_free(&frames);
  return (uint32_t)seen_of(a, location) - 1;
}

// --- Collecting -------------------------------------------------------------------------------------------

static void meet(PrAliases *a, uint32_t entry, bool late) {
  a->entries.at[entry].is_met = true;
  a->entries.at[entry].is_late = late;
  a->entries.at[entry].depth = 1;
  vec_push(&a->met, entry);
}

// The child of a name is not spelt when it is unknown.
static bool is_spelt(const Entry *entry, int k) {
  const HlMlLocation *l = entry->location;
  return l->kind != HL_ML_LOC_NAME || l->child[k]->kind != HL_ML_LOC_UNKNOWN;
}

// What was to come after the program but is needed before it, with all it is made of.
static void make_early(PrAliases *a, uint32_t entry) {
  VEC(uint32_t) stack = {0};
  vec_push(&stack, entry);
  while (stack.n) {
    Entry *e = &a->entries.at[vec_pop(&stack)];
    if (!e->is_met || !e->is_late)
      continue;
    e->is_late = false;
    vec_append(&stack, e->part, e->n_parts);
  }
  vec_free(&stack);
}

static void raise_depth(Entry *parent, const Entry *child) {
  if (child->depth >= parent->depth)
    parent->depth = child->depth + 1;
}

static void visit(Printer *p, const HlMlLocation *location, bool late) {
  PrAliases *a = p->aliases;
  uint32_t first = entry_of(a, location);
  if (a->entries.at[first].is_met) {
    if (!late)
      make_early(a, first);
    return;
  }
  Frames frames = {0};
  meet(a, first, late);
  vec_push(&frames, ((Frame){location, first, 0}));
  while (frames.n) {
    Frame *top = &vec_last(&frames);
    Entry *entry = &a->entries.at[top->entry];
    if (top->next == 0 && entry->location->metadata)
      mlp_attr(p, entry->location->metadata, PR_TYPE);
    entry = &a->entries.at[top->entry];
    if (top->next == entry->n_parts) {
      uint32_t done = top->entry;
      frames.n--;
      if (frames.n)
        raise_depth(&a->entries.at[vec_last(&frames).entry], &a->entries.at[done]);
      continue;
    }
    int k = top->next++;
    if (!is_spelt(entry, k))
      continue;
    uint32_t part = entry->part[k];
    if (a->entries.at[part].is_met) {
      if (!late)
        make_early(a, part);
      raise_depth(entry, &a->entries.at[part]);
      continue;
    }
    meet(a, part, late);
    vec_push(&frames, ((Frame){a->entries.at[part].location, part, 0}));
  }
  vec_free(&frames);
}

// --- Types -------------------------------------------------------------------------------------------------

enum { LONG_TUPLE = 17 };

static uint32_t type_entry(PrAliases *a, const HlMlType *type, bool may_add) {
  return intern(a, (Entry){.type = type, .hash = hash_pointer(type)}, may_add);
}

static int type_depth(PrAliases *a, const HlMlType *type) {
  if (type->kind == HL_ML_TUPLE && type->n >= LONG_TUPLE) {
    uint32_t entry = type_entry(a, type, false);
    return entry == UINT32_MAX ? 0 : a->entries.at[entry].depth;
  }
  int depth = 0;
  for (int k = 0; k < type->n; k++) {
    int inner = type_depth(a, type->element[k]);
    depth = inner > depth ? inner : depth;
  }
  return depth;
}

static void visit_type(Printer *p, const HlMlType *type) {
  PrAliases *a = p->aliases;
  uint32_t entry = type_entry(a, type, true);
  if (a->entries.at[entry].is_met)
    return;
  meet(a, entry, false);
  int depth = 0;
  for (int k = 0; k < type->n; k++) {
    mlp_type(p, type->element[k]);
    int inner = type_depth(a, type->element[k]);
    depth = inner > depth ? inner : depth;
  }
  a->entries.at[entry].depth = depth + 1;
}

static void print_alias_name(HlBuf *out, const Entry *entry) {
  put_text(out, entry->type ? "!tuple" : entry->map ? "#map" : "#loc");
  if (entry->number)
    put_u64(out, entry->number);
}

bool mlp_type_alias(Printer *p, const HlMlType *type) {
  if (type->kind != HL_ML_TUPLE || type->n < LONG_TUPLE)
    return false;
  if (p->is_collecting) {
    visit_type(p, type);
    return true;
  }
  uint32_t entry = type_entry(p->aliases, type, false);
  if (entry == UINT32_MAX)
    return false;
  print_alias_name(p->out, &p->aliases->entries.at[entry]);
  return true;
}

bool mlp_is_map(const HlSym *text) {
  return strncmp(text->text, "affine_map<", 11) == 0;
}

void mlp_map(Printer *p, const HlSym *text) {
  if (!p->aliases) {
    put_sym(p->out, text);
    return;
  }
  uint32_t entry = intern(p->aliases, (Entry){.map = text, .hash = text->hash}, true);
  if (!p->aliases->entries.at[entry].is_met)
    meet(p->aliases, entry, false);
  if (!p->is_collecting)
    print_alias_name(p->out, &p->aliases->entries.at[entry]);
}

// --- Numbering ----------------------------------------------------------------------------------------------

static size_t sort_key(const Entry *entry) {
  return 3 * (size_t)entry->depth + (entry->type ? 0 : entry->location ? 1 : 2);
}

// By depth, types first, then by name, else in the order met: counts per depth, for locations may be many.
void mlp_aliases_number(PrAliases *a) {
  int deepest = 0;
  for (uint32_t k = 0; k < (uint32_t)a->met.n; k++)
    if (a->entries.at[a->met.at[k]].depth > deepest)
      deepest = a->entries.at[a->met.at[k]].depth;
  size_t n_keys = 3 * (size_t)deepest + 4;
  uint32_t *start = base_alloc(n_keys * sizeof *start),
           *sorted = base_alloc(((size_t)a->met.n + 1) * sizeof *sorted);
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t k = 0; k < (uint32_t)a->met.n; k++) {
      const Entry *entry = &a->entries.at[a->met.at[k]];
      if (pass)
        sorted[start[sort_key(entry)]++] = a->met.at[k];
      else
        start[sort_key(entry) + 1]++;
    }
    for (size_t k = 1; !pass && k < n_keys; k++)
      start[k] += start[k - 1];
  }
  uint32_t n_types = 0, n_locations = 0, n_maps = 0;
  for (uint32_t k = 0; k < (uint32_t)a->met.n; k++) {
    Entry *entry = &a->entries.at[sorted[k]];
    entry->number = entry->type ? n_types++ : entry->map ? n_maps++ : n_locations++;
  }
  base_free(start);
  if (a->met.n > 0)
    memcpy(a->met.at, sorted, sizeof *sorted * (size_t)a->met.n);
  base_free(sorted);
}

// --- Printing -----------------------------------------------------------------------------------------------

enum { MAX_NESTING = 1000 };

static void print_body(Printer *p, const HlMlLocation *location, int depth);

static void print_part(Printer *p, const HlMlLocation *location, int depth) {
  if (p->aliases)
    print_alias_name(p->out, &p->aliases->entries.at[entry_of(p->aliases, location)]);
  else if (depth < MAX_NESTING)
    print_body(p, location, depth + 1);
  else
    PUT(p->out, "unknown");
}

static void print_file(Printer *p, const HlMlLocation *l) {
  mlp_string(p, l->sym->text, l->sym->n);
  hl_buf_printf(p->out, ":%d:%d", l->line, l->column);
  if (!l->is_range || (l->line == l->end_line && l->column == l->end_column))
    return;
  if (l->line == l->end_line)
    hl_buf_printf(p->out, " to :%d", l->end_column);
  else
    hl_buf_printf(p->out, " to %d:%d", l->end_line, l->end_column);
}

static void print_fused(Printer *p, const HlMlLocation *l, int depth) {
  PUT(p->out, "fused");
  if (l->metadata) {
    put_char(p->out, '<');
    mlp_attr(p, l->metadata, PR_TYPE);
    put_char(p->out, '>');
  }
  put_char(p->out, '[');
  for (int k = 0; k < l->n; k++) {
    if (k)
      PUT(p->out, ", ");
    print_part(p, l->child[k], depth);
  }
  put_char(p->out, ']');
}

static void print_body(Printer *p, const HlMlLocation *l, int depth) {
  switch ((HlMlLocationKind)l->kind) {
  case HL_ML_LOC_UNKNOWN: PUT(p->out, "unknown"); return;
  case HL_ML_LOC_FILE: print_file(p, l); return;
  case HL_ML_LOC_FUSED: print_fused(p, l, depth); return;
  case HL_ML_LOC_NAME:
    mlp_string(p, l->sym->text, l->sym->n);
    if (l->n && l->child[0]->kind != HL_ML_LOC_UNKNOWN) {
      put_char(p->out, '(');
      print_part(p, l->child[0], depth);
      put_char(p->out, ')');
    }
    return;
  case HL_ML_LOC_CALLSITE:
    PUT(p->out, "callsite(");
    print_part(p, l->child[0], depth);
    PUT(p->out, " at ");
    print_part(p, l->child[1], depth);
    put_char(p->out, ')');
    return;
  }
}

static const HlMlLocation *or_unknown(const Printer *p, const HlMlLocation *location) {
  static const HlMlLocation unknown = {.kind = HL_ML_LOC_UNKNOWN};
  return location || !p->tree ? location : &unknown;
}

void mlp_location(Printer *p, const HlMlLocation *location) {
  if (p->is_collecting) {
    visit(p, location, false);
  } else if (p->aliases) {
    print_part(p, location, 0);
  } else {
    PUT(p->out, "loc(");
    print_body(p, location, 0);
    put_char(p->out, ')');
  }
}

void mlp_op_location(Printer *p, const HlMlOp *op) {
  if (p->options.locations && p->aliases)
    visit(p, or_unknown(p, op->location), true);
}

void mlp_trailing_location(Printer *p, const HlMlLocation *location) {
  if (!p->options.locations || !p->aliases)
    return;
  PUT(p->out, " loc(");
  print_part(p, or_unknown(p, location), 0);
  put_char(p->out, ')');
}

// MLIR defines aliases for these, but does not use them.
void mlp_arg_location(Printer *p, const HlMlLocation *location) {
  if (!p->options.locations || !p->aliases)
    return;
  if (p->is_collecting) {
    visit(p, or_unknown(p, location), false);
    return;
  }
  PUT(p->out, " loc(");
  print_body(p, or_unknown(p, location), 0);
  put_char(p->out, ')');
}

void mlp_aliases_list(Printer *p, bool at_end) {
  PrAliases *a = p->aliases;
  for (uint32_t k = 0; a && k < (uint32_t)a->met.n; k++) {
    const Entry *entry = &a->entries.at[a->met.at[k]];
    if (entry->is_late != at_end)
      continue;
    print_alias_name(p->out, entry);
    PUT(p->out, " = ");
    if (entry->location) {
      PUT(p->out, "loc(");
      print_body(p, entry->location, 0);
      put_char(p->out, ')');
    } else if (entry->map) {
      put_sym(p->out, entry->map);
    } else {
      PUT(p->out, "tuple<");
      for (int i = 0; i < entry->type->n; i++) {
        if (i)
          PUT(p->out, ", ");
        mlp_type(p, entry->type->element[i]);
      }
      put_char(p->out, '>');
    }
    put_char(p->out, '\n');
  }
}
