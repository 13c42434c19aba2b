// Writes HLO as StableHLO or MHLO: locations, from metadata and stack frames.
#include "mlir/from_hlo/from_hlo.h"

static const HlMlLocation *new_location(Fh *f, HlMlLocation location, const HlMlLocation *a,
                                        const HlMlLocation *b) {
  HlMlLocation *made = HL_NEW(f->tree->arena, HlMlLocation);
  *made = location;
  const HlMlLocation *const list[2] = {a, b};
  made->n = (a != NULL) + (b != NULL);
  if (made->n)
    made->child = hl_arena_copy(f->tree->arena, list, sizeof list);
  return made;
}

static const HlSym *own_sym(Fh *f, const HlSym *sym) {
  return hl_syms_add(f->tree->syms, sym->text, sym->n);
}

static const HlMlLocation *file_location(Fh *f, const HlSym *file, int line, int column,
                                         int end_line, int end_column) {
  HlMlLocation at = {
      .kind = HL_ML_LOC_FILE, .sym = own_sym(f, file), .line = line, .column = column};
  at.is_range = end_line > 0 && (end_line != line || end_column != column);
  at.end_line = at.is_range ? end_line : 0;
  at.end_column = at.is_range ? end_column : 0;
  return new_location(f, at, NULL, NULL);
}

static const HlMlLocation *named_location(Fh *f, const HlSym *name, const HlMlLocation *child) {
  return new_location(f, (HlMlLocation){.kind = HL_ML_LOC_NAME, .sym = own_sym(f, name)}, child,
                      NULL);
}

// The place of one frame, without its callers; NULL when the tables do not say.
static const HlMlLocation *frame_place(Fh *f, const HlStackFrame *frame) {
  const HlFrames *frames = &f->m->frames;
  int id = frame->file_location_id;
  if (id < 1 || id > frames->n_locations)
    return NULL;
  const HlFileLocation *at = &frames->locations[id - 1];
  if (at->file_name_id < 1 || at->file_name_id > frames->n_file_names)
    return NULL;
  const HlMlLocation *place = file_location(f, frames->file_names[at->file_name_id - 1], at->line,
                                            at->column, at->end_line, at->end_column);
  if (at->function_name_id < 1 || at->function_name_id > frames->n_function_names)
    return place;
  return named_location(f, frames->function_names[at->function_name_id - 1], place);
}

// A frame called by a frame called by ...: from the outermost that is not made yet inwards.
static const HlMlLocation *frame_location(Fh *f, int id) {
  const HlFrames *frames = &f->m->frames;
  int limit = hl_cx_limits(f->cx)->nesting, n = 0;
  HlMark mark = hl_arena_mark(f->arena);
  int *chain = HL_ARRAY(f->arena, int, limit + 1);
  for (; id >= 1 && id <= frames->n_frames && n < limit;
       id = frames->frames[id - 1].parent_frame_id)
    chain[n++] = id;
  const HlMlLocation *caller = NULL;
  while (n-- > 0) {
    const HlMlLocation **made = &f->frame[chain[n] - 1];
    if (!*made) {
      const HlMlLocation *place = frame_place(f, &frames->frames[chain[n] - 1]);
      *made = !place ? caller
              : !caller
                  ? place
                  : new_location(f, (HlMlLocation){.kind = HL_ML_LOC_CALLSITE}, place, caller);
    }
    caller = *made;
  }
  hl_arena_release(f->arena, mark);
  return caller;
}

static const HlMlLocation *metadata_location(Fh *f, const HlMetadata *metadata) {
  const HlMlLocation *place = frame_location(f, metadata->stack_frame_id);
  if (!place && metadata->source_file)
    place = file_location(f, metadata->source_file, metadata->source_line, metadata->source_column,
                          metadata->source_end_line, metadata->source_end_column);
  return metadata->op_name ? named_location(f, metadata->op_name, place) : place;
}

// Instructions without metadata keep their names.
const HlMlLocation *fh_location(Fh *f, const HlInst *inst) {
  const HlMetadata *metadata = hl_metadata(inst);
  if (metadata && metadata != f->located) {
    f->located = metadata;
    f->located_at = metadata_location(f, metadata);
  }
  return metadata && f->located_at ? f->located_at : named_location(f, inst->name, NULL);
}
