// hilo slice: what a value has influence on, what it is computed from, or what lies between two, as a module.
#include <string.h>

#include "cli/extract.h"
#include "cli/json.h"

static CliPart *only_part(CliParts *parts, const HlInst *inst, const char *path) {
  parts->at = HL_ARRAY(parts->arena, CliPart, 1);
  parts->n = 1;
  *parts->at =
      (CliPart){.name = inst->name->text, .path = path && strcmp(path, "-") != 0 ? path : NULL};
  return parts->at;
}

// The instruction that a name means; with --across that of the entry through which it runs.
static const HlInst *find(Cli *cli, CliParts *parts, const HlModule *m, const char *name) {
  const HlInst *inst = cli_find_inst(m, name);
  if (!inst) {
    if (cli_find_comp(m, name))
      hl_error(cli->cx, hl_comp_pos(cli_find_comp(m, name)),
               "'%s' is a computation: a slice starts at an instruction", name);
    else
      cli_no_such_name(cli, m, name);
    return NULL;
  }
  if (!cli_flag(cli, "--across"))
    return inst;
  int n;
  const HlInst **callers = hl_extract_callers(parts->arena, inst, &n);
  if (n == 1)
    return callers[0];
  hl_error(cli->cx, hl_pos(inst), "'%s' runs through %d instructions of the entry computation%s",
           name, n, n == 0 ? "" : ": name one of them");
  if (n > 1)
    hl_hint(cli->cx, "'%s' or '%s'", callers[0]->name->text, callers[1]->name->text);
  return NULL;
}

static bool make_slice(Cli *cli, CliParts *parts, const HlModule *m) {
  const char *end = cli_value(cli, "--until");
  const HlInst *inst = find(cli, parts, m, cli->files[1]);
  const HlInst *to = end && inst ? find(cli, parts, m, end) : NULL;
  if (!inst || (end && !to))
    return false;
  if (to && to->comp != inst->comp)
    return hl_error(cli->cx, hl_pos(to), "'%s' is in computation %s, '%s' in %s", end,
                    to->comp->name->text, cli->files[1], inst->comp->name->text);
  const HlSlice direction = cli_flag(cli, "--backward") ? HL_SLICE_BACKWARD : HL_SLICE_FORWARD;
  CliPart *part = only_part(parts, inst, cli_value(cli, "-o"));
  return hl_extract_slice(cli->cx, inst, direction, to, &part->extract);
}

static int run_module(Cli *cli, CliParts *parts, const HlFile *file) {
  HlModule *m = cli_select(cli, file, cli->files[0]);
  if (!m)
    return CLI_USAGE;
  cli_set_partitions(cli, m);
  if (cli->json)
    json_text(&cli->report, "module", m->name->text);
  bool ok = make_slice(cli, parts, m);
  if (cli->json)
    json_open(&cli->report, "extracts", '[');
  ok = ok && cli_write_parts(cli, parts, file, m);
  if (cli->json)
    json_close(&cli->report, ']');
  return CLI_OK;
}

static int run_file(Cli *cli, CliParts *parts) {
  HlFile file;
  HlLoadOptions how = cli_load_options(cli);
  how.fill_hidden = true;
  cli_begin_file(cli, cli->files[0]);
  int status = CLI_OK;
  const bool loaded = hl_load(cli->cx, cli->files[0], &how, &file);
  if (loaded)
    status = run_module(cli, parts, &file);
  cli_parts_free(parts);
  if (loaded)
    hl_file_free(&file);
  status = cli_worse(status, cli_end_file(cli));
  cli_end_report(cli);
  return status;
}

static int run(Cli *cli) {
  const bool forward = cli_flag(cli, "--forward"), backward = cli_flag(cli, "--backward");
  if (cli->n_files < 2)
    return cli_usage(cli, cli->n_files == 0 ? "no file given" : "say which instruction");
  if (cli->n_files > 2)
    return cli_usage(cli, "a slice starts at one instruction");
  if (forward == backward)
    return cli_usage(cli, "say --forward or --backward");
  CliParts parts;
  if (cli_read_parts(cli, &parts))
    return run_file(cli, &parts);
  cli_parts_free(&parts);
  return CLI_USAGE;
}

static const CliOption options[] = {
    {"--forward", NULL,
     "what the value has influence on: its users, theirs, and so on to the root"},
    {"--backward", NULL,
     "what it is computed from: its operands, theirs, and so on to the parameters"},
    {"--until", "NAME", "only what lies on a way to this instruction (--backward: from it)"},
    {"--across", NULL,
     "of an instruction inside a loop, branch or fusion: the slice of what calls it in the entry "
     "computation (default: within its own computation)"},
    {"-o", "OUT", "where to write (default: standard output); a form's ending asks for the form"},
    CLI_EXTRACT_OPTIONS,
    CLI_INPUT_OPTIONS,
    CLI_PARTITIONS_OPTION,
    CLI_MODULE_OPTION,
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_slice = {
    .name = "slice",
    .usage = "FILE NAME --forward|--backward [-o OUT]",
    .summary = "what a value influences, or comes from, as a module",
    .about =
        "Writes the slice of a program at an instruction as a module that runs: forward, all that "
        "its value has\n"
        "influence on, with the other values that needs as parameters and, of a tuple that is the "
        "root, the elements\n"
        "concerned as results; backward, all that it is computed from. With --until what lies "
        "between two instructions.",
    .examples =
        "  hilo slice m.hlo dot.7 --forward            what dot.7 has influence on\n"
        "  hilo slice m.hlo dot.7 --backward --record -o s.hlo   where it comes from, with inputs\n"
        "  hilo slice m.hlo dot.7 --forward --until=add.9      the way from one to the other\n",
    .options = options,
    .reports = true,
    .run = run,
};
