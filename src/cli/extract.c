// cli/extract.c: writes parts of a module, with the values that went in and out.
#include "cli/extract.h"

#include <inttypes.h>
#include <string.h>

#include "cli/json.h"
#include "hilo/npy.h"
#include "hilo/verify.h"

// --- Names ------------------------------------------------------------------------------------------

static const char *without_percent(const char *name) {
  return *name == '%' ? name + 1 : name;
}

const HlInst *cli_find_inst(const HlModule *m, const char *name) {
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    const HlInst *inst = hl_find_inst(comp, hl_str(without_percent(name)));
    if (inst)
      return inst;
  }
  return NULL;
}

const HlComp *cli_find_comp(const HlModule *m, const char *name) {
  return hl_find_comp(m, hl_str(without_percent(name)));
}

bool cli_no_such_name(Cli *cli, const HlModule *m, const char *name) {
  HlArena *arena = hl_arena_new();
  const char **names = HL_ARRAY(arena, const char *, hl_count_instructions(m) + m->n_comps + 1);
  int n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next) {
    names[n++] = comp->name->text;
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      names[n++] = inst->name->text;
  }
  hl_error(cli->cx, hl_module_pos(m), "module %s has neither instruction nor computation '%s'",
           m->name->text, name);
  const char *near = hl_nearest(hl_str(without_percent(name)), names, n);
  if (near)
    hl_hint(cli->cx, "did you mean '%s'?", near);
  hl_arena_free(arena);
  return false;
}

const char *cli_beside(HlArena *arena, const char *path, const char *ending) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *dot = strchr(*name ? name + 1 : name, '.');
  static const char *const last[] = {".gz", ".zst", ".pb", ".txt", ".hlo", ".mlir", ".json"};
  size_t n = strlen(path);
  for (bool cut = dot != NULL; cut;) {
    cut = false;
    for (int k = 0; k < HL_COUNT_OF(last); k++)
      if (n > strlen(last[k]) &&
          memcmp(path + n - strlen(last[k]), last[k], strlen(last[k])) == 0) {
        n -= strlen(last[k]);
        cut = true;
      }
  }
  return hl_arena_printf(arena, "%.*s%s", (int)n, path, ending);
}

// --- Options ------------------------------------------------------------------------------------------

bool cli_read_parts(Cli *cli, CliParts *out) {
  *out = (CliParts){.arena = hl_arena_new()};
  out->records = cli_flag(cli, "--record") || cli_value(cli, "--args") ||
                 cli_value(cli, "--seed") || cli_value(cli, "--elided") || cli_value(cli, "--time");
  const char *path = cli_value(cli, "-o");
  const bool each = cli->command == cli_find_command("extract") && cli_flag(cli, "--each");
  if (out->records && (!path || strcmp(path, "-") == 0))
    return cli_usage(cli, "--record writes beside OUT: give -o OUT") == CLI_OK;
  out->form = NULL;
  if (each && !cli_value(cli, "--to"))
    out->form = form_at(0);
  else if (!cli_find_form(cli, NULL, &out->form))
    return false;
  return cli_read_inputs(cli, &out->inputs) &&
         cli_integer(cli, "--time", 0, INT64_MAX, &out->time) && cli_has_partitions(cli);
}

static void drop_values(CliPart *part) {
  for (int d = 0; d < part->devices; d++) {
    for (int k = 0; part->param[d] && k < part->extract.n_params; k++)
      hl_literal_unref(part->param[d][k]);
    for (int k = 0; part->result[d] && k < part->extract.n_results; k++)
      hl_literal_unref(part->result[d][k]);
  }
  part->devices = 0;
}

void cli_parts_free(CliParts *parts) {
  for (int k = 0; k < parts->n; k++) {
    drop_values(&parts->at[k]);
    hl_extract_free(&parts->at[k].extract);
  }
  hl_arena_free(parts->arena);
  *parts = (CliParts){0};
}

// --- Values -------------------------------------------------------------------------------------------

typedef struct Recorder {
  Cli *cli;
  CliParts *parts;
  HlArena *arena;
  int n_devices;
  int written;
  double last;
} Recorder;

typedef struct Arrays {
  HlArena *arena;
  const char **name;
  HlLiteral **array;
  int n, capacity;
} Arrays;

static void add_leaves(Arrays *a, int device, char letter, int n, HlLiteral *const *values) {
  int number = 0;
  for (int k = 0; k < n; k++) {
    int n_leaves;
    const HlLiteral **leaf = hl_flatten(a->arena, values[k], &n_leaves);
    for (int i = 0; i < n_leaves; i++, number++) {
      if (a->n == a->capacity) {
        const int room = 2 * a->capacity + 8;
        const char **name = HL_ARRAY(a->arena, const char *, room);
        HlLiteral **array = HL_ARRAY(a->arena, HlLiteral *, room);
        if (a->n > 0) {
          memcpy(name, a->name, sizeof *name * (size_t)a->n);
          memcpy(array, a->array, sizeof *array * (size_t)a->n);
        }
        a->name = name;
        a->array = array;
        a->capacity = room;
      }
      a->name[a->n] = device ? hl_arena_printf(a->arena, "d%d.%c%d", device, letter, number)
                             : hl_arena_printf(a->arena, "%c%d", letter, number);
      a->array[a->n++] = (HlLiteral *)leaf[i];
    }
  }
}

static void write_values(Recorder *r, CliPart *part) {
  Arrays a = {.arena = hl_arena_new()};
  for (int d = 0; d < r->n_devices; d++) {
    add_leaves(&a, d, 'a', part->extract.n_params, part->param[d]);
    add_leaves(&a, d, 'r', part->extract.n_results, part->result[d]);
  }
  const char *path = cli_beside(r->parts->arena, part->path, ".npz");
  if (hl_npz_write(r->cli->cx, path, a.n, a.name, a.array))
    part->inputs = path;
  hl_arena_free(a.arena);
  drop_values(part);
}

static HlLiteral **keep(HlArena *arena, int n, const HlLiteral *const *values) {
  HlLiteral **list = HL_ARRAY(arena, HlLiteral *, n + 1);
  for (int k = 0; k < n; k++)
    list[k] = hl_literal_ref(values[k]);
  return list;
}

static void take_values(void *user, const HlExtractValues *values) {
  Recorder *r = user;
  CliPart *part = &r->parts->at[values->which];
  if (!part->param) {
    part->param = HL_ARRAY(r->arena, HlLiteral **, r->n_devices);
    part->result = HL_ARRAY(r->arena, HlLiteral **, r->n_devices);
  }
  part->param[values->device] = keep(r->arena, part->extract.n_params, values->param);
  part->result[values->device] = keep(r->arena, part->extract.n_results, values->result);
  if (++part->devices < r->n_devices)
    return;
  write_values(r, part);
  if (++r->written % 16 == 0)
    cli_progress(r->cli, "running, values of %d of %d parts written", r->written, r->parts->n);
}

// What did not run has no values; those of an earlier call are none of it.
static bool say_missing(Cli *cli, CliParts *parts, const HlModule *m, bool ok) {
  int missing = 0;
  const char *first = NULL;
  for (int k = 0; ok && k < parts->n; k++)
    if (!parts->at[k].inputs) {
      remove(cli_beside(parts->arena, parts->at[k].path, ".npz"));
      first = missing++ == 0 ? parts->at[k].name : first;
    }
  if (missing == 0)
    return ok;
  HlBuf why = {0};
  hl_buf_printf(&why,
                "%d extract%s no values: '%s'%s did not run at time %" PRId64
                ", or inside a reducer, whose steps are not recorded",
                missing, missing == 1 ? " has" : "s have", first, missing == 1 ? "" : " and others",
                parts->time);
  if (missing == parts->n)
    hl_error_kind(cli->cx, HL_FAILED, hl_module_pos(m), "%s", why.at);
  else
    hl_warn(cli->cx, hl_module_pos(m), "%s", why.at);
  hl_buf_free(&why);
  return missing < parts->n;
}

static bool record(Cli *cli, CliParts *parts, const HlFile *file, const HlModule *m) {
  HlReplay inputs = {0};
  parts->inputs.exported = file->exported;
  bool ok = parts->args ||
            hl_replay_inputs(cli->cx, m, &file->recorded, &parts->inputs, &inputs);
  HlLiteral ***args = parts->args ? parts->args : inputs.args;
  HlExtract *extracts = HL_ARRAY(parts->arena, HlExtract, parts->n + 1);
  for (int k = 0; k < parts->n; k++)
    extracts[k] = parts->at[k].extract;
  Recorder r = {cli, parts, parts->arena, hl_eval_devices(m, &parts->inputs.eval), 0, 0};
  parts->inputs.eval.no_checks = true;
  ok = ok && hl_extract_record(cli->cx, m, &parts->inputs.eval,
                               (const HlLiteral *const *const *)args, parts->time, extracts,
                               parts->n, take_values, &r);
  cli_progress(cli, NULL);
  hl_replay_free(&inputs);
  return say_missing(cli, parts, m, ok);
}

// --- Writing ------------------------------------------------------------------------------------------

static void names_json(HlBuf *out, const char *key, const HlInst *const *list, int n) {
  HlBuf shape = {0};
  json_open(out, key, '[');
  for (int k = 0; k < n; k++) {
    shape.n = 0;
    hl_shape_print(&shape, list[k]->shape, false);
    json_open(out, NULL, '{');
    json_text(out, "name", list[k]->name->text);
    json_text(out, "shape", shape.at);
    json_close(out, '}');
  }
  json_close(out, ']');
  hl_buf_free(&shape);
}

static void part_json(HlBuf *out, const CliPart *part, const HlBuf *text) {
  const HlExtract *e = &part->extract;
  json_open(out, NULL, '{');
  json_text(out, "name", part->name);
  json_int(out, "instructions", hl_count_instructions(e->m));
  names_json(out, "parameters", e->param, e->n_params);
  names_json(out, "results", e->result, e->n_results);
  if (part->path)
    json_text(out, "path", part->path);
  else
    json_bytes(out, "text", text->at, text->n);
  if (part->inputs)
    json_text(out, "values", part->inputs);
  json_close(out, '}');
}

static void part_text(const Cli *cli, const CliPart *part) {
  const HlExtract *e = &part->extract;
  const int64_t n = hl_count_instructions(e->m);
  if (cli->quiet)
    return;
  printf("%s: %" PRId64 " instruction%s", part->path, n, n == 1 ? "" : "s");
  for (int k = 0; k < e->n_params && k < 6; k++)
    printf("%s%s", k == 0 ? " of " : ", ", e->param[k]->name->text);
  if (e->n_params > 6)
    printf(" and %d more", e->n_params - 6);
  if (part->inputs)
    printf("; values in %s", part->inputs);
  putchar('\n');
}

static bool write_part(Cli *cli, const CliParts *parts, const CliPart *part) {
  const HlTextOptions options = {.large_constants = HL_ON};
  HlBuf text = {0};
  bool ok = hl_verify(cli->cx, part->extract.m, NULL) &&
            cli_write_module(cli, parts->form, part->extract.m, NULL, &options, &text);
  const bool shown = !part->path && cli->json;
  if (ok && !shown)
    ok = hl_write_file(cli->cx, part->path ? part->path : "-", text.at, text.n);
  if (ok && cli->json)
    part_json(&cli->report, part, &text);
  else if (ok && part->path)
    part_text(cli, part);
  hl_buf_free(&text);
  return ok;
}

bool cli_write_parts(Cli *cli, CliParts *parts, const HlFile *file, const HlModule *m) {
  bool ok = !parts->records || record(cli, parts, file, m);
  for (int k = 0; ok && k < parts->n; k++) {
    ok = write_part(cli, parts, &parts->at[k]);
    cli_progress(cli, "%d of %d written", k + 1, parts->n);
  }
  cli_progress(cli, NULL);
  return ok;
}
