// proto/packed.c: unoptimised snapshots whose arguments stand behind the message, and the values of runs.
//
//   varint: length of the message | HloUnoptimizedSnapshot, with the arguments' sizes in their place
//   argument 0 of device 0 | argument 1 of device 0 | ...      each as proto_put_raw writes it
#include <stdlib.h>
#include <string.h>

#include "hilo/proto.h"
#include "proto/message.h"

// --- Packed snapshots ---------------------------------------------------------------------------

static int count_arguments(HlStr partition) {
  WireField f;
  int n = 0;
  while (wire_next(&partition, &f))
    n += f.number == 2 && f.type == WIRE_BYTES;
  return n;
}

bool packed_read(ProtoReader *r, HlStr message, HlStr arguments, HlRecorded *out) {
  WireField f;
  while (wire_next(&message, &f)) {
    if (f.number != 2 || f.type != WIRE_BYTES)
      continue;
    int n = count_arguments(f.bytes);
    HlLiteral **list = recorded_add_device(r->cx, wire_pos(r->source, f.start), n, out);
    if (!list)
      return false;
    for (int k = 0; k < n; k++)
      if (!(list[k] = proto_read_raw(r, &arguments)))
        return false;
  }
  return true;
}

static void put_descriptors(const HlRecorded *recorded, const size_t *size, HlBuf *message) {
  for (int d = 0; d < recorded->devices; d++) {
    HlBuf set = {0};
    for (int k = 0; k < recorded->n_arguments; k++) {
      Xla__ArgumentDescriptor descriptor = XLA__ARGUMENT_DESCRIPTOR__INIT;
      descriptor.argument_size_bytes = size[d * recorded->n_arguments + k];
      wire_put_message(&set, 2, &descriptor.base);
    }
    wire_put_bytes(message, 2, set.at, set.n);
    hl_buf_free(&set);
  }
}

bool hl_proto_write_packed(HlCx *cx, const HlModule *m, const HlRecorded *recorded, HlBuf *out) {
  HlArena *arena = hl_arena_new();
  size_t *size = HL_ARRAY(arena, size_t, recorded->devices * recorded->n_arguments + 1);
  HlBuf raw = {0}, module = {0}, message = {0};
  for (int d = 0; d < recorded->devices; d++)
    for (int k = 0; k < recorded->n_arguments; k++) {
      size_t before = raw.n;
      proto_put_raw(cx, recorded->arguments[d][k], &raw);
      size[d * recorded->n_arguments + k] = raw.n - before;
    }
  bool ok = proto_put_module(cx, m, false, &module);
  if (ok) {
    wire_put_bytes(&message, 1, module.at, module.n);
    put_descriptors(recorded, size, &message);
    wire_put_varint(out, message.n);
    hl_buf_add(out, message.at, message.n);
    hl_buf_add(out, raw.at, raw.n);
  }
  hl_buf_free(&raw);
  hl_buf_free(&module);
  hl_buf_free(&message);
  hl_arena_free(arena);
  return ok;
}

// --- Values -------------------------------------------------------------------------------------

bool hl_proto_write_literal(HlCx *cx, const HlLiteral *literal, bool as_text, HlBuf *out) {
  ProtoWriter w = {.cx = cx, .arena = hl_arena_new()};
  HlBuf wire = {0};
  wire_put_packed(&wire, &proto_literal(&w, literal, literal->shape)->base);
  if (as_text)
    wire_to_pbtxt((HlStr){wire.at ? wire.at : "", wire.n}, &xla__literal_proto__descriptor, out);
  else
    hl_buf_add(out, wire.at, wire.n);
  hl_buf_free(&wire);
  hl_arena_free(w.arena);
  return true;
}

bool hl_runs_write(HlCx *cx, const HlRuns *runs, bool as_text, HlBuf *out) {
  HlBuf wire = {0};
  for (int k = 0; k < runs->n; k++) {
    const HlRun *run = &runs->at[k];
    HlBuf one = {0};
    for (int j = 0; j < run->n_arguments; j++)
      proto_put_literal(cx, run->arguments[j], 2, &one);
    if (run->result)
      proto_put_literal(cx, run->result, 3, &one);
    if (run->reference)
      proto_put_literal(cx, run->reference, 4, &one);
    wire_put_bytes(&wire, 1, one.at, one.n);
    hl_buf_free(&one);
  }
  if (as_text)
    wire_to_pbtxt((HlStr){wire.at ? wire.at : "", wire.n},
                  &xla__run_hlo_module_literals__descriptor, out);
  else
    hl_buf_add(out, wire.at, wire.n);
  hl_buf_free(&wire);
  return true;
}

static HlLiteral *read_value(ProtoReader *r, HlStr bytes) {
  HlMark mark = hl_arena_mark(r->arena);
  LiteralMsg *msg =
      (LiteralMsg *)wire_unpack(r->cx, r->source, r->arena, bytes, &xla__literal_proto__descriptor);
  HlLiteral *out = msg ? proto_read_literal(r, wire_pos(r->source, bytes.at), msg) : NULL;
  hl_arena_release(r->arena, mark);
  return out;
}

static bool read_run(ProtoReader *r, HlArena *arena, HlStr bytes, HlRun *run) {
  run->arguments = HL_ARRAY(arena, HlLiteral *, count_arguments(bytes) + 1);
  WireField f;
  for (HlStr rest = bytes; wire_next(&rest, &f);) {
    if (f.number < 2 || f.number > 4 || f.type != WIRE_BYTES)
      continue;
    HlLiteral *value = read_value(r, f.bytes);
    if (!value)
      return false;
    HlLiteral **place = f.number == 2   ? &run->arguments[run->n_arguments++]
                        : f.number == 3 ? &run->result
                                        : &run->reference;
    hl_literal_unref(*place);
    *place = value;
  }
  return true;
}

static bool read_runs(ProtoReader *r, HlStr bytes, bool single, HlRuns *out) {
  WireField f;
  int n = single;
  for (HlStr rest = bytes; wire_next(&rest, &f);)
    n += f.number == 1 && f.type == WIRE_BYTES;
  out->at = HL_ARRAY(out->arena, HlRun, n + 1);
  if (single)
    return read_run(r, out->arena, bytes, &out->at[out->n++]);
  for (HlStr rest = bytes; wire_next(&rest, &f);)
    if (f.number == 1 && f.type == WIRE_BYTES &&
        !read_run(r, out->arena, f.bytes, &out->at[out->n++]))
      return false;
  return true;
}

// Text starts with a field's name, or a comment.
static bool looks_like_text(HlStr bytes) {
  while (bytes.n > 0 && strchr(" \t\r\n", *bytes.at))
    bytes = (HlStr){bytes.at + 1, bytes.n - 1};
  static const char *const starts[] = {"#", "iterations", "arguments", "result",
                                       "reference_result"};
  for (int k = 0; k < HL_COUNT_OF(starts); k++)
    if (bytes.n >= strlen(starts[k]) && memcmp(bytes.at, starts[k], strlen(starts[k])) == 0)
      return true;
  return false;
}

// Whether a text's first field is one of a single run's.
static bool is_single_text(HlStr bytes) {
  return !memmem(bytes.at, bytes.n, "iterations", strlen("iterations"));
}

bool hl_runs_read(HlCx *cx, HlSource *source, HlRuns *out) {
  HlStr bytes = hl_source_bytes(source);
  bool is_text = looks_like_text(bytes);
  WireField f;
  bool single = is_text ? is_single_text(bytes) : !wire_find(bytes, 1, WIRE_BYTES, &f);
  const ProtobufCMessageDescriptor *type = single
                                               ? &xla__run_hlo_module_iteration_literals__descriptor
                                               : &xla__run_hlo_module_literals__descriptor;
  HlBuf wire = {0};
  *out = (HlRuns){.arena = hl_arena_new()};
  ProtoReader r = {
      .cx = cx, .source = source, .arena = hl_arena_new(), .m = hl_module_new("literals", source)};
  bool ok = !is_text || pbtxt_to_wire(cx, source, type, &wire);
  if (is_text)
    bytes = (HlStr){wire.at ? wire.at : "", wire.n};
  ok = ok && wire_check(cx, source, bytes, type) && read_runs(&r, bytes, single, out);
  hl_module_free(r.m);
  hl_arena_free(r.arena);
  hl_buf_free(&wire);
  if (!ok)
    hl_runs_free(out);
  return ok;
}

void hl_runs_free(HlRuns *runs) {
  for (int k = 0; k < runs->n; k++) {
    for (int j = 0; j < runs->at[k].n_arguments; j++)
      hl_literal_unref(runs->at[k].arguments[j]);
    hl_literal_unref(runs->at[k].result);
    hl_literal_unref(runs->at[k].reference);
  }
  if (runs->arena)
    hl_arena_free(runs->arena);
  *runs = (HlRuns){0};
}
