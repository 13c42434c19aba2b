// hilo extract: an instruction with what it is computed from, a computation, or each instruction alone, as modules.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/map.h"
#include "cli/extract.h"
#include "cli/json.h"
#include "hilo/isolate.h"
#include "tool/regex.h"

// --- Which instructions ---------------------------------------------------------------------------

typedef struct Choice {
  const char *op, *file;
  int64_t line;  // 0: any
  Regex *scope;
  bool any;  // something is asked for
} Choice;

static bool read_choice(Cli *cli, Choice *out) {
  const char *source = cli_value(cli, "--source"), *scope = cli_value(cli, "--scope");
  *out = (Choice){.op = cli_value(cli, "--op"), .any = cli_value(cli, "--op") || source || scope};
  if (out->op && hl_op_by_text(hl_str(out->op)) == HL_OP_COUNT)
    return cli_usage(cli, "unknown --op '%s'", out->op) == CLI_OK;
  if (source) {
    const char *colon = strrchr(source, ':');
    char *end = NULL;
    const long long line = colon ? strtoll(colon + 1, &end, 10) : 0;
    const bool has_line = colon && end && !*end && end != colon + 1;
    out->line = has_line ? line : 0;
    out->file = hl_arena_strndup(hl_cx_scratch(cli->cx), source,
                                 has_line ? (size_t)(colon - source) : strlen(source));
  }
  if (scope && !(out->scope = regex_new(cli->cx, "--scope", scope)))
    return cli_flush(cli) == CLI_OK;
  return true;
}

// The file and line of an instruction: by its metadata, or the frame that it names.
static bool source_of(const HlInst *inst, const char **file, int64_t *line) {
  const HlMetadata *d = hl_metadata(inst);
  const HlFrames *frames = &inst->comp->module->frames;
  if (!d)
    return false;
  *file = d->source_file ? d->source_file->text : "";
  *line = d->source_line;
  const int frame = d->stack_frame_id;
  if (**file || frame <= 0 || frame > frames->n_frames)
    return **file != 0;
  const int at = frames->frames[frame - 1].file_location_id;
  if (at <= 0 || at > frames->n_locations)
    return false;
  const HlFileLocation *location = &frames->locations[at - 1];
  if (location->file_name_id <= 0 || location->file_name_id > frames->n_file_names)
    return false;
  *file = frames->file_names[location->file_name_id - 1]->text;
  *line = location->line;
  return true;
}

static bool ends_as_path(const char *path, const char *end) {
  const size_t n = strlen(path), m = strlen(end);
  return n >= m && strcmp(path + n - m, end) == 0 && (n == m || path[n - m - 1] == '/');
}

static bool is_chosen(const Choice *c, const HlInst *inst) {
  const HlMetadata *d = hl_metadata(inst);
  if (c->op && strcmp(hl_op_text((HlOp)inst->op), c->op) != 0)
    return false;
  if (c->scope && !(d && d->op_name && regex_matches(c->scope, d->op_name->text)))
    return false;
  if (!c->file)
    return true;
  const char *file;
  int64_t line;
  return source_of(inst, &file, &line) && ends_as_path(file, c->file) &&
         (c->line == 0 || line == c->line);
}

// --- One module of them -------------------------------------------------------------------------

static CliPart *only_part(CliParts *parts, const char *name, const char *path) {
  parts->at = HL_ARRAY(parts->arena, CliPart, 1);
  parts->n = 1;
  *parts->at = (CliPart){.name = name, .path = path && strcmp(path, "-") != 0 ? path : NULL};
  return parts->at;
}

static bool extract_set(Cli *cli, CliParts *parts, int n, const HlInst *const *insts) {
  int64_t depth = HL_WHOLE_CONE;
  for (int k = 1; k < n; k++)
    if (insts[k]->comp != insts[0]->comp)
      return hl_error(
          cli->cx, hl_pos(insts[k]),
          "'%s' is in computation %s, '%s' in %s: a module can be made of instructions of one",
          insts[k]->name->text, insts[k]->comp->name->text, insts[0]->name->text,
          insts[0]->comp->name->text);
  cli_integer(cli, "--depth", 0, INT32_MAX, &depth);
  CliPart *part = only_part(parts, insts[0]->name->text, cli_value(cli, "-o"));
  return hl_extract(cli->cx, n, insts, depth, &part->extract);
}

static bool extract_comp(Cli *cli, CliParts *parts, const HlComp *comp) {
  CliPart *part = only_part(parts, comp->name->text, cli_value(cli, "-o"));
  return hl_extract_comp(cli->cx, comp, &part->extract);
}

static bool extract_body(Cli *cli, CliParts *parts, const HlInst *inst) {
  if (inst->n_calls == 0)
    return hl_error(cli->cx, hl_pos(inst), "'%s' calls no computation that --inside could be of",
                    inst->name->text);
  return extract_comp(cli, parts, hl_called(inst, 0));
}

static bool extract_names(Cli *cli, CliParts *parts, const HlModule *m) {
  const int n = cli->n_files - 1;
  const HlInst **insts = HL_ARRAY(parts->arena, const HlInst *, n + 1);
  for (int k = 0; k < n; k++) {
    const char *name = cli->files[k + 1];
    insts[k] = cli_find_inst(m, name);
    if (!insts[k] && n == 1 && cli_find_comp(m, name))
      return extract_comp(cli, parts, cli_find_comp(m, name));
    if (!insts[k] && cli_find_comp(m, name))
      return hl_error(cli->cx, hl_comp_pos(cli_find_comp(m, name)),
                      "'%s' is a computation, which is cut out alone: name it without others", name);
    if (!insts[k])
      return cli_no_such_name(cli, m, name);
  }
  if (cli_flag(cli, "--inside"))
    return extract_body(cli, parts, insts[0]);
  return extract_set(cli, parts, n, insts);
}

static bool extract_chosen(Cli *cli, CliParts *parts, const HlModule *m, const Choice *choice) {
  const HlInst **insts = HL_ARRAY(parts->arena, const HlInst *, hl_count_instructions(m) + 1);
  int n = 0;
  for (const HlComp *comp = m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (is_chosen(choice, inst))
        insts[n++] = inst;
  if (n == 0)
    return hl_error(cli->cx, hl_module_pos(m), "no instruction of module %s is as asked for",
                    m->name->text);
  return extract_set(cli, parts, n, insts);
}

// --- Each alone ---------------------------------------------------------------------------------

static const char *file_name(HlArena *arena, const char *folder, const char *name) {
  char *path = hl_arena_printf(arena, "%s/%s.hlo", folder, name);
  for (char *c = path + strlen(folder) + 1; *c; c++)
    if (*c == '/')
      *c = '_';
  return path;
}

// Instructions that differ in names only are written once.
static bool add_alone(Cli *cli, CliParts *parts, Map *seen, const HlInst *inst, int64_t depth) {
  CliPart *part = &parts->at[parts->n];
  *part = (CliPart){.name = inst->name->text,
                    .path = file_name(parts->arena, cli_value(cli, "-o"), inst->name->text)};
  parts->n++;
  if (!hl_extract(cli->cx, 1, &inst, depth, &part->extract))
    return false;
  const uint64_t hash = hl_graph_hash(part->extract.m);
  if (*map_at(seen, hash) && !cli_flag(cli, "--all")) {
    hl_extract_free(&part->extract);
    parts->n--;
  } else {
    *map_at(seen, hash) = true;
  }
  return true;
}

static bool make_folder(Cli *cli, const char *path) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST)
    return true;
  return hl_error(cli->cx, (HlPos){0}, "cannot make the directory '%s': %s", path, strerror(errno));
}

static bool extract_each(Cli *cli, CliParts *parts, const HlModule *m, const Choice *choice) {
  int n_comps;
  HlComp **comps = hl_control_flow_comps(parts->arena, m, &n_comps);
  Map seen = {.arena = parts->arena};
  int64_t depth = 0, asked = 0;
  cli_integer(cli, "--depth", 0, INT32_MAX, &depth);
  parts->at = HL_ARRAY(parts->arena, CliPart, hl_count_instructions(m) + 1);
  bool ok = make_folder(cli, cli_value(cli, "-o"));
  for (int k = 0; ok && k < n_comps; k++)
    for (const HlInst *inst = comps[k]->first; ok && inst; inst = inst->next)
      if (hl_is_worth_isolating(inst) && is_chosen(choice, inst)) {
        ok = add_alone(cli, parts, &seen, inst, depth);
        if (++asked % 64 == 0)
          cli_progress(cli, "%lld instructions cut out", (long long)asked);
      }
  if (cli->json && ok)
    json_int(&cli->report, "duplicates", asked - parts->n);
  else if (ok)
    cli_say(cli, "%d instruction%s, %lld of them unlike the others\n", (int)asked,
            asked == 1 ? "" : "s", (long long)parts->n);
  return ok;
}

// --- The command --------------------------------------------------------------------------------

static bool make_parts(Cli *cli, CliParts *parts, const HlModule *m, const Choice *choice) {
  if (cli_flag(cli, "--each"))
    return extract_each(cli, parts, m, choice);
  return choice->any ? extract_chosen(cli, parts, m, choice) : extract_names(cli, parts, m);
}

static int run_module(Cli *cli, CliParts *parts, const HlFile *file, const Choice *choice) {
  HlModule *m = cli_select(cli, file, cli->files[0]);
  if (!m)
    return CLI_USAGE;
  cli_set_partitions(cli, m);
  if (cli->json)
    json_text(&cli->report, "module", m->name->text);
  bool ok = make_parts(cli, parts, m, choice);
  if (cli->json)
    json_open(&cli->report, "extracts", '[');
  ok = ok && cli_write_parts(cli, parts, file, m);
  if (cli->json)
    json_close(&cli->report, ']');
  return CLI_OK;
}

static int check_call(Cli *cli, const Choice *choice) {
  const bool each = cli_flag(cli, "--each");
  int64_t depth = 0;
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  if (!cli_integer(cli, "--depth", 0, INT32_MAX, &depth))
    return CLI_USAGE;
  if (each && (!cli_value(cli, "-o") || strcmp(cli_value(cli, "-o"), "-") == 0))
    return cli_usage(cli, "--each writes a file for each instruction: give -o DIR");
  if ((each || choice->any) && cli->n_files > 1)
    return cli_usage(cli, "give names, or say by --each, --op, --scope and --source which");
  if (!each && !choice->any && cli->n_files == 1)
    return cli_usage(cli, "say which instruction or computation");
  if (cli_flag(cli, "--inside") && cli->n_files != 2)
    return cli_usage(cli, "--inside is of one instruction");
  return CLI_OK;
}

static int run_file(Cli *cli, const Choice *choice) {
  CliParts parts;
  if (!cli_read_parts(cli, &parts)) {
    cli_parts_free(&parts);
    return CLI_USAGE;
  }
  HlFile file;
  HlLoadOptions how = cli_load_options(cli);
  how.fill_hidden = true;
  cli_begin_file(cli, cli->files[0]);
  int status = CLI_OK;
  if (hl_load(cli->cx, cli->files[0], &how, &file)) {
    status = run_module(cli, &parts, &file, choice);
    cli_parts_free(&parts);
    hl_file_free(&file);
  } else {
    cli_parts_free(&parts);
  }
  status = cli_worse(status, cli_end_file(cli));
  cli_end_report(cli);
  return status;
}

static int run(Cli *cli) {
  Choice choice;
  if (!read_choice(cli, &choice))
    return CLI_USAGE;
  int status = check_call(cli, &choice);
  if (!status)
    status = run_file(cli, &choice);
  regex_free(choice.scope);
  return status;
}

static const CliOption options[] = {
    {"--depth", "N",
     "take operands of operands so far up; 0: the instruction alone (default: all; of --each 0)"},
    {"--inside", NULL, "of a loop, fusion or call: its body (the first computation that it calls)"},
    {"--op", "OPCODE", "all instructions of this op, of one computation (or with --each)"},
    {"--scope", "RE", "those whose op_name matches"},
    {"--source", "FILE[:LINE]", "those that come from there"},
    {"--each", NULL, "each instruction alone, as a module of its own in the directory -o"},
    {"--all", NULL, "of --each: those, too, that differ from others in names only"},
    {"-o", "OUT",
     "where to write (default: standard output); a form's ending asks for the form; of --each a "
     "directory"},
    CLI_EXTRACT_OPTIONS,
    CLI_INPUT_OPTIONS,
    CLI_PARTITIONS_OPTION,
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_extract = {
    .name = "extract",
    .usage = "FILE NAME... [--depth=N] [-o OUT]",
    .summary = "cut a part out, as a module that runs",
    .about =
        "Writes an instruction with all that it is computed from, or with --depth so much of it; "
        "several of one\n"
        "computation; a computation by its name; or with --each every instruction by itself, "
        "those once that differ in\n"
        "names only. What is cut off becomes parameters; constants and called computations come "
        "along, so does what\n"
        "cannot be handed in (tokens, asynchronous work, sizes known only while running). With "
        "--record the whole\n"
        "module runs on its inputs, and the values of those parameters and of the result are "
        "written beside the extract.",
    .examples =
        "  hilo extract m.hlo fusion.3 -o f.hlo                 all that leads to it\n"
        "  hilo extract m.hlo dot.7 --depth=0 --record -o d.hlo   it alone, with its inputs\n"
        "  hilo run d.hlo --args d.npz --expect d.npz           does it give what it gave there\n"
        "  hilo extract m.hlo while.2 --inside -o body.hlo      a loop's body\n"
        "  hilo extract m.hlo --each -o parts --record          every instruction alone\n",
    .options = options,
    .reports = true,
    .run = run,
};
