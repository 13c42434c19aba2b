// tool/dumps/index_record.c: what the index keeps of a module: its numbers, and its instructions as columns.
//
//   strings   n, then n numbers of the index's strings
//   comps     n, then of each: name, flags, instructions, 1 + the instruction that calls it
//   frames    n, then of each: file, function, line, lines more, parent
//   columns   n, then one column after the other, n numbers each
//
// All numbers are LEB128: seven bits a byte, the lowest first. A blob comes from a file that anybody may have damaged: every
// number is checked where it is read.

#include <string.h>

#include "base/memory.h"
#include "hilo/cost.h"
#include "tool/stats.h"
#include "tool/dumps/index.h"

// --- Numbers ------------------------------------------------------------------------------------

static void put(HlBuf *out, uint32_t value) {
  char bytes[5];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7)
    bytes[n++] = (char)(value | 0x80);
  bytes[n++] = (char)value;
  hl_buf_add(out, bytes, n);
}

typedef struct Reader {
  const unsigned char *at, *end;
  bool bad;
} Reader;

static uint32_t get(Reader *r) {
  uint64_t value = 0;
  for (int shift = 0; shift < 35 && r->at < r->end; shift += 7) {
    const unsigned char byte = *r->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      r->bad |= value > UINT32_MAX;
      return (uint32_t)value;
    }
  }
  r->bad = true;
  return 0;
}

static uint32_t get_below(Reader *r, uint32_t n) {
  const uint32_t value = get(r);
  if (value < n)
    return value;
  r->bad = true;
  return 0;
}

// How many things follow, of at least one byte each.
static uint32_t get_count(Reader *r) {
  const uint32_t n = get(r);
  if (n <= (uint64_t)(r->end - r->at))
    return n;
  r->bad = true;
  return 0;
}

static uint32_t zigzag(int64_t x) {
  return (uint32_t)((uint64_t)x << 1 ^ (uint64_t)(x >> 63));
}

static int64_t unzigzag(uint32_t x) {
  return (int64_t)(x >> 1) ^ -(int64_t)(x & 1);
}

// --- Strings of a record ------------------------------------------------------------------------

static uint32_t local_string(IndexRecord *record, HlStr text) {
  if (text.n == 0)
    return 0;
  const uint64_t hash = hl_hash_bytes(text.at, text.n, 1) | 1;
  MapWalk walk = map_walk(&record->local, hash);
  for (uint64_t k; (k = map_next(&walk));)
    if (hl_str_equal(record->strings.at[k - 1], text))
      return (uint32_t)(k - 1);
  vec_push(&record->strings, text);
  map_add(&record->local, hash, (uint64_t)record->strings.n);
  return (uint32_t)record->strings.n - 1;
}

static uint32_t local_sym(IndexRecord *record, const HlSym *sym) {
  return sym ? local_string(record, (HlStr){sym->text, sym->n}) : 0;
}

static uint32_t positive(int64_t value) {
  return value <= 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

// --- Making -------------------------------------------------------------------------------------

typedef struct Maker {
  HlCx *cx;
  const HlModule *m;
  IndexRecord *out;
  HlArena *arena;
  Map shapes;  // 1 + local string
  HlBuf column[INDEX_COLUMNS];
  uint32_t **number;  // of instructions, by the ids of computation and instruction
  HlStr text;         // of the source; empty where it has no lines
  const uint32_t *line_starts;
  uint32_t n_lines;
  int64_t place;
} Maker;

static uint32_t shape_string(Maker *k, const HlShape *shape) {
  uint64_t *known = map_at(&k->shapes, map_key(shape));
  if (*known)
    return (uint32_t)*known - 1;
  *known = 1;
  HlBuf text = {0};
  hl_shape_print(&text, shape, true);
  const uint32_t id =
      local_string(k->out, (HlStr){hl_arena_strndup(k->arena, text.at, text.n), text.n});
  hl_buf_free(&text);
  *map_at(&k->shapes, map_key(shape)) = 1 + (uint64_t)id;
  return id;
}

static void find_lines(Maker *k) {
  if (!k->m->source || hl_source_is_binary(k->m->source))
    return;
  k->text = hl_source_bytes(k->m->source);
  uint32_t n = 1;
  for (const char *at = k->text.at, *end = at + k->text.n;
       (at = memchr(at, '\n', (size_t)(end - at))); at++)
    n++;
  uint32_t *starts = HL_ARRAY(k->arena, uint32_t, n);
  uint32_t j = 1;
  for (const char *at = k->text.at, *end = at + k->text.n;
       (at = memchr(at, '\n', (size_t)(end - at))); at++)
    starts[j++] = (uint32_t)(at + 1 - k->text.at);
  k->line_starts = starts;
  k->n_lines = n;
}

// The line of a place, from 1; 0: none.
static int64_t line_of(const Maker *k, HlLoc loc) {
  if (!k->n_lines || !loc)
    return 0;
  uint32_t low = 0, high = k->n_lines;
  while (high - low > 1) {
    const uint32_t mid = low + (high - low) / 2;
    if (k->line_starts[mid] <= loc - 1)
      low = mid;
    else
      high = mid;
  }
  return low + 1;
}

static uint32_t detail_of(Maker *k, const HlInst *inst) {
  if (inst->op == HL_OP_CUSTOM_CALL)
    return local_string(k->out, hl_str(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET)));
  if (inst->op != HL_OP_FUSION)
    return 0;
  const char *kind = hl_enum_text(&hl_enums[HL_ENUM_fusion_kind], hl_attr_int(inst, HL_A_KIND));
  return kind ? local_string(k->out, hl_str(kind)) : 0;
}

static void add_inst(Maker *k, const HlInst *inst) {
  const HlMetadata *md = hl_metadata(inst);
  const int64_t line = line_of(k, inst->loc);
  const int64_t frame = md && md->stack_frame_id <= k->m->frames.n_frames ? md->stack_frame_id : 0;
  put(&k->column[INDEX_NAME], local_sym(k->out, inst->name));
  put(&k->column[INDEX_OP], local_string(k->out, hl_str(hl_op_text((HlOp)inst->op))));
  put(&k->column[INDEX_SHAPE], shape_string(k, inst->shape));
  put(&k->column[INDEX_SCOPE], md ? local_sym(k->out, md->op_name) : 0);
  put(&k->column[INDEX_SOURCE], md ? local_sym(k->out, md->source_file) : 0);
  put(&k->column[INDEX_DETAIL], detail_of(k, inst));
  put(&k->column[INDEX_LINE], md ? positive(md->source_line) : 0);
  put(&k->column[INDEX_LINES], md ? positive((int64_t)md->source_end_line - md->source_line) : 0);
  put(&k->column[INDEX_FRAME], positive(frame));
  put(&k->column[INDEX_PLACE], zigzag(line - k->place));
  k->place = line;
}

// The instruction that calls a computation, where one alone does: 1 + its number.
static uint32_t caller_of(const Maker *k, const HlComp *comp) {
  const HlCall *call = comp->first_call;
  return call && !call->next ? 1 + k->number[call->caller->comp->id][call->caller->id] : 0;
}

static void number_all(Maker *k) {
  uint32_t n = 0;
  k->number = HL_ARRAY(k->arena, uint32_t *, k->m->next_comp_id + 1);
  for (const HlComp *comp = k->m->first; comp; comp = comp->next) {
    uint32_t *number = k->number[comp->id] = HL_ARRAY(k->arena, uint32_t, comp->next_id + 1);
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      number[inst->id] = n++;
  }
}

static void add_comps(Maker *k) {
  number_all(k);
  put(&k->out->body, k->m->n_comps);
  for (const HlComp *comp = k->m->first; comp; comp = comp->next) {
    put(&k->out->body, local_sym(k->out, comp->name));
    put(&k->out->body,
        (comp == k->m->entry ? INDEX_COMP_ENTRY : 0) | (comp->is_fusion ? INDEX_COMP_FUSION : 0));
    put(&k->out->body, comp->n_insts);
    put(&k->out->body, caller_of(k, comp));
  }
}

static const HlSym *listed(const HlSym *const *names, int n, int32_t id) {
  return id >= 1 && id <= n ? names[id - 1] : NULL;
}

static void add_frames(Maker *k) {
  const HlFrames *f = &k->m->frames;
  put(&k->out->body, (uint32_t)f->n_frames);
  for (int j = 0; j < f->n_frames; j++) {
    const HlStackFrame *frame = &f->frames[j];
    const bool known = frame->file_location_id >= 1 && frame->file_location_id <= f->n_locations;
    const HlFileLocation none = {0},
                         *at = known ? &f->locations[frame->file_location_id - 1] : &none;
    put(&k->out->body, local_sym(k->out, listed(f->file_names, f->n_file_names, at->file_name_id)));
    put(&k->out->body,
        local_sym(k->out, listed(f->function_names, f->n_function_names, at->function_name_id)));
    put(&k->out->body, positive(at->line));
    put(&k->out->body, positive((int64_t)at->end_line - at->line));
    // A parent stands before its frame, as XLA writes them; what does not is no parent.
    put(&k->out->body, frame->parent_frame_id <= j ? positive(frame->parent_frame_id) : 0);
  }
}

static void add_signature_of(HlBuf *out, const HlShape *shape) {
  if (!hl_shape_is_tuple(shape)) {
    hl_shape_print(out, shape, false);
    hl_buf_putc(out, ',');
    return;
  }
  for (int k = 0; k < shape->rank; k++)
    add_signature_of(out, shape->element[k]);
}

// Of the types that go in and out. Callers see one result alone or in a tuple as the same.
static uint64_t signature_of(const HlModule *m) {
  HlBuf text = {0};
  for (int k = 0; m->entry && k < m->entry->n_params; k++)
    if (m->entry->params[k])
      add_signature_of(&text, m->entry->params[k]->shape);
  hl_buf_puts(&text, "->");
  if (m->entry && m->entry->root)
    add_signature_of(&text, m->entry->root->shape);
  const uint64_t hash = hl_hash_bytes(text.at, text.n, 3);
  hl_buf_free(&text);
  return hash;
}

static HlIndexedModule numbers_of(HlCx *cx, const HlModule *m) {
  const HlCost cost = hl_cost_module(m);
  HlIndexedModule out = {.name = m->name->text,
                         .instructions = hl_count_instructions(m),
                         .computations = m->n_comps,
                         .flops = cost.flops,
                         .transcendentals = cost.transcendentals,
                         .bytes_read = cost.bytes_read,
                         .bytes_written = cost.bytes_written,
                         .collective_bytes = cost.collective_bytes,
                         .peak_memory = (double)stats_peak(cx, m),
                         .partitions = m->num_partitions,
                         .replicas = m->replica_count,
                         .is_scheduled = m->is_scheduled,
                         .graph_hash = hl_graph_hash(m)};
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    if (hl_comp_may_have(comp, HL_OP_FUSION))
      for (const HlInst *inst = comp->first; inst; inst = inst->next)
        out.fusions += inst->op == HL_OP_FUSION;
  return out;
}

void index_record_make(HlCx *cx, const HlModule *m, IndexRecord *out) {
  *out = (IndexRecord){.module = numbers_of(cx, m), .signature = signature_of(m)};
  const HlStr empty = {"", 0};
  vec_push(&out->strings, empty);
  Maker k = {.cx = cx, .m = m, .out = out, .arena = m->arena};
  k.shapes.arena = k.arena;
  find_lines(&k);
  add_comps(&k);
  add_frames(&k);
  uint32_t n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next, n++)
      add_inst(&k, inst);
  put(&out->body, n);
  for (int c = 0; c < INDEX_COLUMNS; c++) {
    hl_buf_add(&out->body, k.column[c].at, k.column[c].n);
    hl_buf_free(&k.column[c]);
  }
}

void index_record_free(IndexRecord *record) {
  vec_free(&record->strings);
  map_free(&record->local);
  hl_buf_free(&record->body);
  *record = (IndexRecord){0};
}

void index_record_blob(const IndexRecord *record, IndexStrings *strings, HlBuf *out) {
  put(out, (uint32_t)record->strings.n);
  for (int k = 0; k < record->strings.n; k++)
    put(out, index_string(strings, record->strings.at[k]));
  hl_buf_add(out, record->body.at, record->body.n);
}

// --- Reading ------------------------------------------------------------------------------------

bool index_view_strings(HlArena *arena, HlStr blob, IndexView *out, size_t *body) {
  Reader r = {(const unsigned char *)blob.at, (const unsigned char *)blob.at + blob.n, false};
  *out = (IndexView){.n_strings = get_count(&r)};
  out->strings = HL_ARRAY(arena, uint32_t, out->n_strings + 1);
  for (uint32_t k = 0; k < out->n_strings && !r.bad; k++)
    out->strings[k] = get(&r);
  *body = (size_t)(r.at - (const unsigned char *)blob.at);
  return !r.bad && out->n_strings > 0;
}

static void read_comps(HlArena *arena, Reader *r, IndexView *out) {
  out->n_comps = get_count(r);
  out->comps = HL_ARRAY(arena, IndexComp, out->n_comps + 1);
  for (uint32_t k = 0; k < out->n_comps && !r->bad; k++) {
    IndexComp *comp = &out->comps[k];
    comp->name = get_below(r, out->n_strings);
    comp->flags = get(r);
    comp->n = get(r);
    comp->caller = get(r);
  }
}

static void read_frames(HlArena *arena, Reader *r, IndexView *out) {
  out->n_frames = get_count(r);
  out->frames = HL_ARRAY(arena, IndexFrame, out->n_frames + 1);
  for (uint32_t k = 1; k <= out->n_frames && !r->bad; k++) {
    IndexFrame *frame = &out->frames[k];
    frame->file = get_below(r, out->n_strings);
    frame->function = get_below(r, out->n_strings);
    frame->line = get(r);
    frame->lines = get(r);
    frame->parent = get_below(r, k);
  }
}

// Callers stand behind what they call, so that whoever follows them comes to an end.
static bool counts_agree(const IndexView *view) {
  uint64_t n = 0;
  for (uint32_t k = 0; k < view->n_comps; k++) {
    const uint32_t caller = view->comps[k].caller;
    n += view->comps[k].n;
    if (caller > view->n || (caller && caller <= n))
      return false;
  }
  return n == view->n;
}

bool index_view_body(HlArena *arena, HlStr blob, size_t body, IndexView *out) {
  Reader r = {(const unsigned char *)blob.at + body, (const unsigned char *)blob.at + blob.n,
              false};
  read_comps(arena, &r, out);
  read_frames(arena, &r, out);
  out->n = get_count(&r);
  for (int c = 0; c < INDEX_COLUMNS; c++) {
    uint32_t *column = out->column[c] = HL_ARRAY(arena, uint32_t, out->n + 1);
    for (uint32_t k = 0; k < out->n && !r.bad; k++)
      column[k] = c < INDEX_STRINGS  ? get_below(&r, out->n_strings)
                  : c == INDEX_FRAME ? get_below(&r, out->n_frames + 1)
                                     : get(&r);
  }
  int64_t place = 0;
  for (uint32_t k = 0; k < out->n; k++) {
    place += unzigzag(out->column[INDEX_PLACE][k]);
    out->column[INDEX_PLACE][k] = positive(place);
  }
  return !r.bad && counts_agree(out);
}
