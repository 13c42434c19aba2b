// cpu/kernel/source.c: from metadata to file and line: there, or by way of the module's table of stack frames.

#include "cpu/kernel/source.h"

static bool is_id(int id, int n) {
  return id >= 1 && id <= n;
}

static void set_place(const HlFrames *frames, int frame, CpuSource *out) {
  const int at = is_id(frame, frames->n_frames) ? frames->frames[frame - 1].file_location_id : 0;
  if (!is_id(at, frames->n_locations))
    return;
  const HlFileLocation *place = &frames->locations[at - 1];
  if (!is_id(place->file_name_id, frames->n_file_names))
    return;
  out->file = frames->file_names[place->file_name_id - 1]->text;
  out->line = place->line;
}

static CpuSource own(const HlInst *inst) {
  const HlMetadata *from = hl_metadata(inst);
  CpuSource out = {0};
  if (!from)
    return out;
  out.op_name = from->op_name ? from->op_name->text : NULL;
  if (from->source_file) {
    out.file = from->source_file->text;
    out.line = from->source_line;
  } else {
    set_place(&inst->comp->module->frames, from->stack_frame_id, &out);
  }
  return out;
}

CpuSource cpu_source(const HlInst *inst) {
  CpuSource out = own(inst);
  const HlComp *fused = inst->op == HL_OP_FUSION ? hl_called(inst, 0) : NULL;
  if (!fused || out.op_name || out.file)
    return out;
  out = own(fused->root);
  for (const HlInst *at = fused->last; at && !out.op_name && !out.file; at = at->prev)
    out = own(at);
  return out;
}
