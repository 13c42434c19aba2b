// tool/dump_execution.c: snapshots: a module with what went into an execution and what came out.
//
//   module_0000.NAME.execution_0000.hlo_snapshot.pb                the module that ran, device 0
//   module_0000.NAME.execution_0000.device_0001.hlo_snapshot.pb    the same, device 1
//   module_0000.NAME.execution_0000.hlo_unoptimized_snapshot.pb    the module as it came, all devices
//
// The last one is a packed snapshot (proto/packed.c) where protos are asked for, and has a .txt beside it where
// text is.

#include "hilo/proto.h"
#include "tool/dump.h"

static bool put_proto(HlDumper *d, const HlModule *m, HlProtoForm form, bool as_text,
                      const HlRecorded *recorded, const char *suffix) {
  HlBuf out = {0};
  bool ok = hl_proto_write(d->cx, m, form, as_text, recorded, &out) &&
            dump_put(d, hl_arena_printf(d->arena, "%s.%s", suffix, as_text ? "txt" : "pb"), as_text,
                     out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

static bool put_packed(HlDumper *d, const HlModule *m, const HlRecorded *recorded,
                       const char *suffix) {
  HlBuf out = {0};
  bool ok = hl_proto_write_packed(d->cx, m, recorded, &out) &&
            dump_put(d, hl_arena_printf(d->arena, "%s.pb", suffix), false, out.at, out.n);
  hl_buf_free(&out);
  return ok;
}

static HlRecorded record(HlArena *arena, const HlExecution *e) {
  HlRecorded all = {.devices = e->devices,
                    .n_arguments = e->n_arguments,
                    .arguments = HL_ARRAY(arena, HlLiteral **, e->devices + 1),
                    .platform = (char *)e->platform};
  for (int d = 0; d < e->devices; d++)
    all.arguments[d] = (HlLiteral **)e->arguments[d];
  return all;
}

static bool put_snapshots(HlDumper *d, const HlExecution *e, const HlRecorded *all,
                          const char *execution) {
  bool ok = true;
  for (int k = 0; ok && k < e->devices; k++) {
    HlRecorded one = *all;
    one.devices = 1;
    one.arguments = &all->arguments[k];
    one.result = e->results ? (HlLiteral *)e->results[k] : NULL;
    const char *device = k > 0 ? hl_arena_printf(d->arena, ".device_%04d", k) : "";
    ok = put_proto(d, e->ran, HL_PROTO_SNAPSHOT, false, &one,
                   hl_arena_printf(d->arena, "%s%s.hlo_snapshot", execution, device));
  }
  return ok;
}

static bool put_unoptimized(HlDumper *d, const HlExecution *e, const HlRecorded *all,
                            const char *execution) {
  const char *suffix = hl_arena_printf(d->arena, "%s.hlo_unoptimized_snapshot", execution);
  const HlFlags *flags = d->flags;
  if (flags->xla_dump_hlo_as_text &&
      !put_proto(d, e->came, HL_PROTO_UNOPTIMIZED_SNAPSHOT, true, all, suffix))
    return false;
  if (flags->xla_dump_hlo_as_proto && !flags->xla_dump_hlo_as_text)
    return put_packed(d, e->came, all, suffix);
  return put_proto(d, e->came, HL_PROTO_UNOPTIMIZED_SNAPSHOT, false, all, suffix);
}

bool hl_dumper_execution(HlDumper *d, const HlExecution *e) {
  const HlFlags *flags = d->flags;
  if (!d->on || !(flags->xla_dump_hlo_snapshots || flags->xla_dump_hlo_unoptimized_snapshots))
    return true;
  HlArena *arena = hl_arena_new();
  HlRecorded all = record(arena, e);
  const char *execution = hl_arena_printf(d->arena, "execution_%04d", d->executions++);
  bool ok =
      (!flags->xla_dump_hlo_snapshots || !e->results || put_snapshots(d, e, &all, execution)) &&
      (!flags->xla_dump_hlo_unoptimized_snapshots || put_unoptimized(d, e, &all, execution));
  hl_arena_free(arena);
  return ok;
}
