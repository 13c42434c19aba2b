// hilo index: what is in the directory of a dump, program by program.
#include <inttypes.h>
#include <string.h>

#include "cli/dumps/dump_index.h"
#include "cli/json.h"
#include "cli/table.h"

// --- Text ---------------------------------------------------------------------------------------

static const HlIndexedModule *module_at(const HlIndexList *list, const HlIndexedProgram *p,
                                        HlDumpStage stage) {
  const HlIndexedFile *file = hl_indexed_stage(list, p, stage);
  return file ? &file->modules[0] : NULL;
}

// The state whose costs stand for the program: optimised, or else as it came, or any that there is.
static const HlIndexedModule *module_of(const HlIndexList *list, const HlIndexedProgram *p) {
  static const HlDumpStage order[] = {HL_STAGE_AFTER,    HL_STAGE_BEFORE,    HL_STAGE_OTHER,
                                  HL_STAGE_SNAPSHOT, HL_STAGE_STABLEHLO, HL_STAGE_JAXPR,
                                  HL_STAGE_STEP};
  for (int k = 0; k < HL_COUNT_OF(order); k++) {
    const HlIndexedModule *m = module_at(list, p, order[k]);
    if (m)
      return m;
  }
  return NULL;
}

static void put_stages(Table *t, const HlIndexList *list, const HlIndexedProgram *p) {
  HlBuf out = {0};
  int count[HL_STAGE_COUNT] = {0};
  for (int k = p->first; k < p->first + p->n; k++)
    count[list->files[k].stage]++;
  for (int stage = 1; stage <= HL_STAGE_COUNT; stage++) {
    const int n = count[stage % HL_STAGE_COUNT];  // those that say nothing last
    if (n == 0)
      continue;
    hl_buf_printf(&out, "%s%s", out.n ? " " : "", hl_dump_stage_text((HlDumpStage)(stage % HL_STAGE_COUNT)));
    if (n > 1)
      hl_buf_printf(&out, "*%d", n);
  }
  table_text(t, "%s", out.at ? out.at : "");
  hl_buf_free(&out);
}

static void put_instructions(Table *t, const HlIndexedModule *m) {
  if (m)
    table_text(t, "%" PRId64, m->instructions);
  else
    table_text(t, "-");
}

static void put_program(Table *t, const HlIndexList *list, const HlIndexedProgram *p) {
  const HlIndexedModule *m = module_of(list, p);
  const HlIndexedModule *before = module_at(list, p, HL_STAGE_BEFORE),
                        *after = module_at(list, p, HL_STAGE_AFTER);
  table_row(t);
  if (p->number >= 0)
    table_text(t, "%" PRId64, p->number);
  else
    table_text(t, "%s", "");
  table_text(t, "%s", p->name);
  put_instructions(t, before || after ? before : m);
  put_instructions(t, after);
  if (m) {
    table_number(t, m->flops);
    table_bytes(t, m->bytes_read + m->bytes_written);
    table_bytes(t, m->peak_memory);
  } else {
    for (int k = 0; k < 3; k++)
      table_text(t, "-");
  }
  table_text(t, p->ms >= 0 ? "%.1f" : "-", p->ms);
  put_stages(t, list, p);
}

static void print_programs(const HlIndexList *list, HlBuf *out) {
  static const char *const heads[] = {">number", "program", ">before", ">after", ">flops",
                                      ">bytes",  ">peak",   ">ms",     "forms"};
  const char *folder = NULL;
  Table t = {0};
  for (int k = 0; k < list->n_programs; k++) {
    const HlIndexedProgram *p = &list->programs[k];
    if (!folder || strcmp(folder, p->folder) != 0) {
      if (folder)
        table_print(&t, out);
      hl_buf_printf(out, "%s%s%s\n", folder ? "\n" : "", *p->folder ? p->folder : ".",
                    *p->folder ? "/" : "");
      table_begin(&t, heads, HL_COUNT_OF(heads));
    }
    folder = p->folder;
    put_program(&t, list, p);
  }
  if (folder)
    table_print(&t, out);
  for (int k = 0; k < list->n_programs; k++)
    if (*list->programs[k].note)
      hl_buf_printf(out, "note: %s%s%s: %s\n", list->programs[k].folder,
                    *list->programs[k].folder ? "/" : "", list->programs[k].name,
                    list->programs[k].note);
}

static void print_files(const HlIndexList *list, HlBuf *out) {
  static const char *const heads[] = {"module", "stage", ">instr", ">fusions", ">flops",
                                      ">bytes", ">peak", ">size",  "file"};
  Table t = {0};
  table_begin(&t, heads, HL_COUNT_OF(heads));
  for (int k = 0; k < list->n_files; k++) {
    const HlIndexedFile *f = &list->files[k];
    for (int j = 0; j < f->n_modules; j++) {
      const HlIndexedModule *m = &f->modules[j];
      table_row(&t);
      table_text(&t, "%s", m->name);
      table_text(&t, "%s", hl_dump_stage_text(f->stage));
      table_text(&t, "%" PRId64, m->instructions);
      table_text(&t, "%" PRId64, m->fusions);
      table_number(&t, m->flops);
      table_bytes(&t, m->bytes_read + m->bytes_written);
      table_bytes(&t, m->peak_memory);
      table_bytes(&t, (double)f->size);
      table_text(&t, "%s", f->path);
    }
  }
  table_print(&t, out);
}

// What was not read, each kind with its number, and each file that should have been.
static void print_rest(const Cli *cli, const HlIndexList *list, HlBuf *out) {
  static const char *const kinds[] = {"a report or side file of a dump", "no program",
                                      "the times of passes"};
  static const char *const words[] = {"of a report or beside a dump", "without a program",
                                      "with times of passes"};
  int n[HL_COUNT_OF(kinds) + 1] = {0}, all = 0;
  for (int k = 0; k < list->n_files; k++) {
    const HlIndexedFile *f = &list->files[k];
    if (f->state != HL_INDEXED_NO_MODULE)
      continue;
    int kind = 0;
    while (kind < HL_COUNT_OF(kinds) && strcmp(f->why, kinds[kind]) != 0)
      kind++;
    n[kind]++;
    all++;
    if (cli->verbose)
      fprintf(stderr, "%s: skipped: %s\n", f->path, f->why);
  }
  if (all == 0)
    return;
  hl_buf_printf(out, "%d other file%s not read as programs:", all, all == 1 ? "" : "s");
  for (int kind = 0, some = 0; kind <= HL_COUNT_OF(kinds); kind++)
    if (n[kind])
      hl_buf_printf(out, "%s %d %s", some++ ? "," : "", n[kind],
                    kind < HL_COUNT_OF(kinds) ? words[kind] : "of other kinds");
  hl_buf_putc(out, '\n');
}

static void print_head(const HlIndexList *list, const HlIndexCounts *counts, const HlIndex *index,
                       HlBuf *out) {
  int files = 0;
  int64_t modules = 0, instructions = 0;
  for (int k = 0; k < list->n_files; k++) {
    files += list->files[k].n_modules > 0;
    modules += list->files[k].n_modules;
    for (int j = 0; j < list->files[k].n_modules; j++)
      instructions += list->files[k].modules[j].instructions;
  }
  hl_buf_printf(out,
                "\n%d program%s, %" PRId64 " module%s in %d file%s, %" PRId64
                " instructions; %" PRId64 " file%s read now, %" PRId64 " gone\n",
                list->n_programs, list->n_programs == 1 ? "" : "s", modules,
                modules == 1 ? "" : "s", files, files == 1 ? "" : "s", instructions, counts->read,
                counts->read == 1 ? "" : "s", counts->gone);
  if (*hl_index_path(index))
    hl_buf_printf(out, "index: %s\n", hl_index_path(index));
}

// --- JSON ---------------------------------------------------------------------------------------

static void module_json(HlBuf *out, const HlIndexedModule *m) {
  char hash[24];
  snprintf(hash, sizeof hash, "%016" PRIx64, m->graph_hash);
  json_open(out, NULL, '{');
  json_text(out, "module", m->name);
  json_int(out, "instructions", m->instructions);
  json_int(out, "computations", m->computations);
  json_int(out, "fusions", m->fusions);
  json_count(out, "flops", m->flops);
  json_count(out, "transcendentals", m->transcendentals);
  json_count(out, "bytes_read", m->bytes_read);
  json_count(out, "bytes_written", m->bytes_written);
  json_count(out, "collective_bytes", m->collective_bytes);
  json_count(out, "peak_memory", m->peak_memory);
  json_int(out, "partitions", m->partitions);
  json_int(out, "replicas", m->replicas);
  json_bool(out, "scheduled", m->is_scheduled);
  json_text(out, "graph_hash", hash);
  json_close(out, '}');
}

static void file_json(HlBuf *out, const HlIndexedFile *f) {
  static const char *const states[] = {"read", "no module", "unreadable"};
  json_open(out, NULL, '{');
  json_text(out, "file", f->path);
  json_int(out, "size", f->size);
  json_text(out, "state", states[f->state]);
  json_text(out, "why", f->why);
  json_text(out, "stage", hl_dump_stage_text(f->stage));
  json_text(out, "platform", f->dump.platform);
  json_int(out, "step", f->dump.step);
  json_text(out, "pipeline", f->dump.pipeline);
  json_text(out, "after", f->dump.after);
  json_text(out, "before", f->dump.before);
  json_open(out, "modules", '[');
  for (int k = 0; k < f->n_modules; k++)
    module_json(out, &f->modules[k]);
  json_close(out, ']');
  json_close(out, '}');
}

static void list_json(HlBuf *out, const HlIndexList *list, const HlIndexCounts *counts,
                      const HlIndex *index) {
  json_text(out, "index", index ? hl_index_path(index) : "");
  json_int(out, "files", counts->files);
  json_int(out, "read_now", counts->read);
  json_int(out, "gone", counts->gone);
  json_open(out, "programs", '[');
  int rest = 0;
  for (int k = 0; k < list->n_programs; k++) {
    const HlIndexedProgram *p = &list->programs[k];
    json_open(out, NULL, '{');
    json_text(out, "name", p->name);
    json_text(out, "folder", p->folder);
    json_int(out, "number", p->number);
    json_int(out, "timestamp", p->stamp);
    json_number(out, "ms", p->ms);
    json_text(out, "note", p->note);
    json_open(out, "files", '[');
    for (int j = p->first; j < p->first + p->n; j++)
      file_json(out, &list->files[j]);
    json_close(out, ']');
    json_close(out, '}');
    rest = p->n > 0 ? p->first + p->n : rest;
  }
  json_close(out, ']');
  json_open(out, "other_files", '[');
  for (int k = rest; k < list->n_files; k++)
    file_json(out, &list->files[k]);
  json_close(out, ']');
}

// --- The command ------------------------------------------------------------------------------------

static void report_unreadable(Cli *cli, const HlIndexList *list) {
  for (int k = 0; k < list->n_files; k++)
    if (list->files[k].state == HL_INDEXED_UNREADABLE)
      hl_error(cli->cx, (HlPos){0}, "%s/%s: %s", cli->files[0], list->files[k].path,
               list->files[k].why);
}

static void report(Cli *cli, HlIndex *index, const HlIndexCounts *counts) {
  HlArena *arena = hl_arena_new();
  HlIndexList list;
  HlBuf out = {0};
  if (hl_index_list(cli->cx, index, arena, &list)) {
    if (cli->json) {
      list_json(&cli->report, &list, counts, index);
    } else if (!cli->quiet) {
      if (cli_flag(cli, "--files"))
        print_files(&list, &out);
      else
        print_programs(&list, &out);
      print_head(&list, counts, index, &out);
      print_rest(cli, &list, &out);
    }
    cli_print(&out);
    report_unreadable(cli, &list);
  }
  hl_buf_free(&out);
  hl_arena_free(arena);
}

static int run(Cli *cli) {
  if (cli->n_files != 1)
    return cli_usage(cli,
                     cli->n_files == 0 ? "no directory given" : "more than one directory given");
  cli_begin_file(cli, cli->files[0]);
  HlIndexCounts counts;
  HlIndex *index = cli_open_index(cli, cli->files[0], cli_flag(cli, "--anew"), true, &counts);
  if (index)
    report(cli, index, &counts);
  else if (cli->json)
    list_json(&cli->report, &(HlIndexList){0}, &(HlIndexCounts){0}, NULL);
  hl_index_free(index);
  const int status = cli_end_file(cli);
  cli_end_report(cli);
  return status;
}

static const CliOption options[] = {
    {"--files", NULL, "a row for each module of each file, not for each program"},
    {"--anew", NULL, "forget the index there is and make it again"},
    CLI_INDEX_OPTION,
    {NULL, NULL, NULL},
};

const CliCommand cli_index = {
    .name = "index",
    .usage = "DIR [--files]",
    .summary = "index a dump; a table of its programs",
    .about =
        "Reads what is new or has changed under a directory and keeps in an index (hilo-index.db\n"
        "there, or in the user's cache where nothing can be written) what 'hilo find' looks for.\n"
        "Prints a row for each program: number and name, instructions before and after "
        "optimisation,\n"
        "flops, bytes and peak memory of its last state, milliseconds that compiling took where "
        "the\n"
        "dump says so, and the forms of it there are: jaxpr, StableHLO, HLO before, between and "
        "after\n"
        "passes, snapshots. Dumps of XLA of any age, of JAX_DUMP_IR_TO and of hilo itself are "
        "known\n"
        "by their names. Nothing is verified; what could not be read is an error, what is no "
        "program\n"
        "is counted, and named with --verbose.",
    .examples = "  hilo index dump/                   its programs\n"
                "  hilo index dump/ --files           every state of every one\n"
                "  hilo index --json dump/            all that is known of them\n",
    .options = options,
    .reports = true,
    .run = run,
};
