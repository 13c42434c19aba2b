// cli/sim/mesh.c: hilo sim --search-mesh: which mesh a program runs on the fastest.
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cli/json.h"
#include "cli/sim/cluster.h"
#include "cli/table.h"

typedef struct Found {
  HlDeviceMesh mesh;
  double seconds, exposed;  // seconds < 0: it cannot be done
  int64_t peak;
  const char *why;
} Found;

static bool try_mesh(Cli *cli, const SimCluster *c, const HlModule *m, const HlDeviceMesh *mesh,
                     Found *out) {
  HlArena *arena = hl_arena_new();
  HlModule *copy = hl_clone(cli->cx, m);
  const HlSystem *s = hl_system_resize(cli->cx, arena, c->system, c->devices);
  HlClusterRun run;
  bool ok = copy && s && hl_mesh_shard(cli->cx, copy, mesh, cli_value(cli, "--shard")) &&
            hl_mesh_partition(cli->cx, copy, c->system->device);
  const HlClusterProgram *p = ok ? sim_program(cli, c, arena, copy, c->devices) : NULL;
  ok = p && hl_cluster_run(cli->cx, arena, p, s, &c->options, &run);
  *out = (Found){.mesh = *mesh, .seconds = -1};
  if (ok) {
    out->seconds = run.seconds;
    out->exposed = run.exposed;
    out->peak = run.peak;
  }
  hl_module_free(copy);
  hl_arena_free(arena);
  return ok;
}

static int faster(const void *a, const void *b) {
  const Found *x = a, *y = b;
  if ((x->seconds < 0) != (y->seconds < 0))
    return x->seconds < 0 ? 1 : -1;
  if (x->seconds != y->seconds)
    return x->seconds < y->seconds ? -1 : 1;
  return memcmp(x->mesh.size, y->mesh.size, sizeof x->mesh.size);
}

static void put_row(Table *t, HlArena *arena, const Found *f) {
  HlBuf mesh = {0};
  for (int k = 0; k < f->mesh.n; k++)
    hl_buf_printf(&mesh, "%s%s=%lld", k ? "," : "", f->mesh.name[k], (long long)f->mesh.size[k]);
  table_row(t);
  table_text(t, "%s", mesh.at);
  hl_buf_free(&mesh);
  if (f->seconds < 0) {
    table_text(t, "%s", "not possible");
    return;
  }
  table_text(t, "%s", sim_seconds(arena, f->seconds));
  table_text(t, "%s", sim_seconds(arena, f->exposed));
  table_bytes(t, (double)f->peak);
}

static void put_json(HlBuf *out, const Found *f) {
  json_open(out, NULL, '{');
  json_open(out, "mesh", '{');
  for (int k = 0; k < f->mesh.n; k++)
    json_int(out, f->mesh.name[k], f->mesh.size[k]);
  json_close(out, '}');
  if (f->seconds >= 0) {
    json_number(out, "seconds", f->seconds);
    json_number(out, "exposed", f->exposed);
    json_int(out, "peak_bytes", f->peak);
  }
  json_close(out, '}');
}

bool sim_search_mesh(Cli *cli, const SimCluster *c, const char *path, const HlModule *m) {
  static const char *const heads[] = {"mesh", ">time", ">exposed", ">peak memory"};
  HlArena *arena = hl_arena_new();
  HlDeviceMesh mesh = c->mesh;
  VEC(Found) found = {0};
  int possible = 0;
  for (int k = 0; k < mesh.n; k++)
    mesh.size[k] = 0;
  while (hl_mesh_next(&mesh, c->devices)) {
    Found one;
    cli_progress(cli, "%d meshes", found.n);
    const int before = hl_cx_n_diags(cli->cx);
    const bool ok = try_mesh(cli, c, m, &mesh, &one);
    possible += ok;
    // What is wrong with one is wrong with others, too: it is told if none is possible.
    if (!ok && possible > 0)
      hl_cx_forget(cli->cx, before);
    vec_push(&found, one);
  }
  cli_progress(cli, NULL);
  if (found.n > 0)
    qsort(found.at, (size_t)found.n, sizeof *found.at, faster);
  Table t;
  HlBuf out = {0};
  table_begin(&t, heads, 4);
  if (cli->json)
    json_open(&cli->report, "meshes", '[');
  for (int k = 0; k < found.n; k++)
    if (cli->json)
      put_json(&cli->report, &found.at[k]);
    else
      put_row(&t, arena, &found.at[k]);
  if (cli->json)
    json_close(&cli->report, ']');
  hl_buf_printf(&out, "%s: %s on %lld devices of %s\n", path, m->name->text, (long long)c->devices,
                c->system->name);
  table_print(&t, &out);
  if (!cli->json && possible > 0)
    cli_print(&out);
  if (possible > 0 && hl_cx_n_errors(cli->cx) > 0)
    hl_cx_clear(cli->cx);
  hl_buf_free(&out);
  vec_free(&found);
  hl_arena_free(arena);
  return possible > 0;
}
