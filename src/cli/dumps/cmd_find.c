// hilo find: where something stands in the programs of a dump.
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "cli/dumps/dump_index.h"
#include "cli/json.h"
#include "cli/table.h"

// --- Text ---------------------------------------------------------------------------------------

typedef struct Shown {
  Cli *cli;
  HlBuf out;
  int64_t shown, most;  // most 0: all
  bool only_files;
  char *last_path;  // of the file that was shown last
} Shown;

// What an instruction is, on a line.
static void put_instruction(HlBuf *out, const HlFound *f) {
  hl_buf_printf(out, "%s = %s %s", f->name, f->shape, f->op);
  if (*f->target)
    hl_buf_printf(out, " %s", f->target);
}

static void put_origin(HlBuf *out, const HlFound *f) {
  if (*f->scope)
    hl_buf_printf(out, "  \"%s\"", f->scope);
  if (*f->source)
    hl_buf_printf(out, "  %s:%" PRId64, f->source, f->source_line);
}

static void put_where(HlBuf *out, const HlFound *f) {
  if (f->is_fused && *f->caller)
    hl_buf_printf(out, "  in %s", f->caller);
  else if (!f->is_entry)
    hl_buf_printf(out, "  in %s", f->computation);
}

// The path as whoever asked can open it.
static void put_path(const char *directory, HlBuf *out, const char *path) {
  size_t n = strlen(directory);
  while (n > 1 && directory[n - 1] == '/')
    n--;
  hl_buf_printf(out, "%.*s%s%s", (int)n, directory, directory[n - 1] == '/' ? "" : "/", path);
}

static void put_place(const char *directory, HlBuf *out, const HlFound *f) {
  put_path(directory, out, f->path);
  if (f->line > 0)
    hl_buf_printf(out, ":%" PRId64, f->line);
  hl_buf_puts(out, ": ");
}

static void put_counterpart(const char *directory, HlBuf *out, const HlFound *f) {
  hl_buf_printf(out, "    %-9s ", hl_dump_stage_text(f->stage));
  put_place(directory, out, f);
  put_instruction(out, f);
  put_where(out, f);
  hl_buf_putc(out, '\n');
}

static void put_trace(const char *directory, HlBuf *out, const HlFound *f) {
  for (int k = 0; k < f->n_stack; k++)
    hl_buf_printf(out, "    %s %s:%" PRId64 "%s%s\n", k ? "  from   " : "source   ",
                  f->stack[k].file, f->stack[k].line, *f->stack[k].function ? " " : "",
                  f->stack[k].function);
  for (int k = 0; k < f->n_sources; k++)
    hl_buf_printf(out, "    inside    %s:%" PRId64 ", %" PRId64 " instruction%s\n",
                  f->sources[k].file, f->sources[k].line, f->sources[k].instructions,
                  f->sources[k].instructions == 1 ? "" : "s");
  for (int k = 0; k < f->n_counterparts; k++)
    put_counterpart(directory, out, &f->counterparts[k]);
  if (f->more_counterparts)
    hl_buf_printf(out, "    and %" PRId64 " more\n", f->more_counterparts);
}

static void put_found(const char *directory, HlBuf *out, const HlFound *f) {
  put_place(directory, out, f);
  switch (f->kind) {
  case HL_FOUND_MODULE:
    hl_buf_printf(out, "module %s, %" PRId64 " instruction%s", f->name, f->instructions,
                  f->instructions == 1 ? "" : "s");
    break;
  case HL_FOUND_COMPUTATION:
    hl_buf_printf(out, "%s %s, %" PRId64 " instruction%s",
                  f->is_entry   ? "entry"
                  : f->is_fused ? "fused computation"
                                : "computation",
                  f->name, f->instructions, f->instructions == 1 ? "" : "s");
    break;
  case HL_FOUND_INSTRUCTION:
    put_instruction(out, f);
    put_origin(out, f);
    put_where(out, f);
  }
  hl_buf_putc(out, '\n');
  put_trace(directory, out, f);
}

// --- JSON ---------------------------------------------------------------------------------------

static const char *const kinds[] = {"module", "computation", "instruction"};

static void found_json(HlBuf *out, const HlFound *f, bool is_whole) {
  json_open(out, NULL, '{');
  json_text(out, "kind", kinds[f->kind]);
  json_text(out, "path", f->path);
  json_text(out, "stage", hl_dump_stage_text(f->stage));
  json_int(out, "line", f->line);
  json_text(out, "module", f->module);
  json_text(out, "computation", f->computation);
  json_text(out, "name", f->name);
  if (f->kind != HL_FOUND_MODULE) {
    json_bool(out, "entry", f->is_entry);
    json_text(out, "caller", f->caller);
  }
  if (f->kind == HL_FOUND_INSTRUCTION) {
    json_text(out, "op", f->op);
    json_text(out, "shape", f->shape);
    json_text(out, "scope", f->scope);
    json_text(out, "source", f->source);
    json_int(out, "source_line", f->source_line);
    json_text(out, "target", f->target);
  } else {
    json_int(out, "instructions", f->instructions);
  }
  if (is_whole && f->stack) {
    json_open(out, "stack", '[');
    for (int k = 0; k < f->n_stack; k++) {
      json_open(out, NULL, '{');
      json_text(out, "function", f->stack[k].function);
      json_text(out, "file", f->stack[k].file);
      json_int(out, "line", f->stack[k].line);
      json_close(out, '}');
    }
    json_close(out, ']');
    json_open(out, "sources", '[');
    for (int k = 0; k < f->n_sources; k++) {
      json_open(out, NULL, '{');
      json_text(out, "file", f->sources[k].file);
      json_int(out, "line", f->sources[k].line);
      json_int(out, "instructions", f->sources[k].instructions);
      json_close(out, '}');
    }
    json_close(out, ']');
    json_open(out, "counterparts", '[');
    for (int k = 0; k < f->n_counterparts; k++)
      found_json(out, &f->counterparts[k], false);
    json_close(out, ']');
    json_int(out, "more_counterparts", f->more_counterparts);
  }
  json_close(out, '}');
}

// --- The command ------------------------------------------------------------------------------------

static bool show(void *user, const HlFound *found) {
  Shown *s = user;
  if (s->only_files) {
    if (s->last_path && strcmp(s->last_path, found->path) == 0)
      return true;
    base_free(s->last_path);
    s->last_path = base_strdup(found->path);
  }
  if (s->most > 0 && s->shown == s->most)
    return false;
  s->shown++;
  if (s->only_files && s->cli->json) {
    json_text(&s->cli->report, NULL, found->path);
  } else if (s->only_files) {
    put_path(s->cli->files[0], &s->out, found->path);
    hl_buf_putc(&s->out, '\n');
  } else if (s->cli->json) {
    found_json(&s->cli->report, found, true);
  } else {
    put_found(s->cli->files[0], &s->out, found);
  }
  if (s->out.n > 65536) {
    cli_print(&s->out);
    s->out.n = 0;
  }
  return true;
}

static void put_result(Shown *s, const HlFindResult *r) {
  Cli *cli = s->cli;
  const int64_t all = s->only_files ? r->files : r->found;
  if (cli->json) {
    json_close(&cli->report, ']');
    json_int(&cli->report, "matches", r->found);
    json_int(&cli->report, "shown", s->shown);
    json_int(&cli->report, "modules", r->modules);
    json_int(&cli->report, "matching_files", r->files);
    json_int(&cli->report, "programs", r->programs);
    json_int(&cli->report, "searched_modules", r->searched_modules);
    json_int(&cli->report, "searched_files", r->searched_files);
    json_int(&cli->report, "unreadable_files", r->unreadable);
    return;
  }
  cli_print(&s->out);
  if (cli->quiet)
    return;
  if (s->shown < all)
    printf("and %" PRId64 " more; --most=0 shows all\n", all - s->shown);
  printf("%" PRId64 " found in %" PRId64 " of %" PRId64 " file%s (%" PRId64 " program%s)", r->found,
         r->files, r->searched_files, r->searched_files == 1 ? "" : "s", r->programs,
         r->programs == 1 ? "" : "s");
  if (r->unreadable)
    printf("; %" PRId64 " file%s could not be read: 'hilo index' says why", r->unreadable,
           r->unreadable == 1 ? "" : "s");
  printf("\n");
}

static const struct {
  const char *option;
  HlFindField field;
} fields[] = {
    {"--name", HL_FIND_NAME},     {"--op", HL_FIND_OP},         {"--shape", HL_FIND_SHAPE},
    {"--scope", HL_FIND_SCOPE},   {"--source", HL_FIND_SOURCE}, {"--custom-call", HL_FIND_TARGET},
    {"--module", HL_FIND_MODULE}, {"--file", HL_FIND_FILE},
};

// All terms of the command line. False after a usage message.
static bool take_terms(Cli *cli, HlFindTerm *terms, int *n) {
  for (int k = 1; k < cli->n_files; k++)
    terms[(*n)++] = (HlFindTerm){HL_FIND_ANYWHERE, cli->files[k]};
  for (int k = 0; k < HL_COUNT_OF(fields); k++)
    if (cli_value(cli, fields[k].option))
      terms[(*n)++] = (HlFindTerm){fields[k].field, cli_value(cli, fields[k].option)};
  for (int k = 0; k < *n; k++)
    if (!*terms[k].text) {
      cli_usage(cli, "an empty pattern stands everywhere");
      return false;
    }
  if (*n > 0 || cli_value(cli, "--stage") || cli_value(cli, "--after"))
    return true;
  cli_usage(cli, "nothing to look for: give a pattern, or what it is of (--op=dot)");
  return false;
}

static bool take_stages(Cli *cli, uint32_t *out) {
  const char *words = cli_value(cli, "--stage");
  for (const char *at = words ? words : ""; *at;) {
    const size_t n = strcspn(at, ",");
    HlDumpStage stage;
    if (!hl_dump_stage_by_text((HlStr){at, n}, &stage)) {
      cli_usage(cli,
                "unknown stage '%.*s': jaxpr, stablehlo, before, step, after, snapshot or other",
                (int)n, at);
      return false;
    }
    *out |= 1u << stage;
    at += n + (at[n] == ',');
  }
  return true;
}

static bool find(Cli *cli, const HlFindQuery *query, Shown *s, HlFindResult *result) {
  HlIndexCounts counts;
  HlIndex *index =
      cli_open_index(cli, cli->files[0], false, !cli_flag(cli, "--no-update"), &counts);
  const bool ok = index && hl_find(cli->cx, index, query, show, s, result);
  hl_index_free(index);
  return ok;
}

static int run(Cli *cli) {
  if (cli->n_files == 0)
    return cli_usage(cli, "no directory given");
  HlArena *arena = hl_arena_new();
  HlFindTerm *terms = HL_ARRAY(arena, HlFindTerm, cli->n_files + HL_COUNT_OF(fields));
  HlFindQuery query = {.terms = terms,
                       .is_regex = cli_flag(cli, "--regex"),
                       .ignore_case = cli_flag(cli, "--ignore-case"),
                       .after_pass = cli_value(cli, "--after"),
                       .trace = cli_flag(cli, "--trace")};
  Shown shown = {.cli = cli, .most = 1000, .only_files = cli_flag(cli, "--files")};
  if (!take_terms(cli, terms, &query.n_terms) || !take_stages(cli, &query.stages) ||
      !cli_integer(cli, "--most", 0, INT64_MAX, &shown.most)) {
    hl_arena_free(arena);
    return CLI_USAGE;
  }
  cli_begin_file(cli, cli->files[0]);
  if (cli->json)
    json_open(&cli->report, "found", '[');
  HlFindResult result = {0};
  const bool ok = find(cli, &query, &shown, &result);
  if (ok || cli->json)
    put_result(&shown, &result);
  base_free(shown.last_path);
  hl_buf_free(&shown.out);
  hl_arena_free(arena);
  const int status = cli_end_file(cli);
  cli_end_report(cli);
  return ok && status == CLI_OK && result.found == 0 ? CLI_DIFFERENT : status;
}

static const CliOption options[] = {
    {"--name", "TEXT", "a part of the name of an instruction or computation"},
    {"--op", "OPS", "opcodes, separated by commas: dot,convolution"},
    {"--shape", "SHAPE", "of a result or an element of it: f32[8,16], f32[8,*], f32[*], bf16"},
    {"--scope", "TEXT", "a part of op_name: jit(f)/transpose"},
    {"--source", "FILE:LINE",
     "of an instruction or any frame of its stack; also FILE, FILE:FIRST-LAST, :LINE"},
    {"--custom-call", "TEXT", "a part of a custom call's target"},
    {"--module", "TEXT", "a part of the module's name"},
    {"--file", "TEXT", "a part of the file's path"},
    {"--stage", "STAGES", "only there: jaxpr, stablehlo, before, step, after, snapshot, other"},
    {"--after", "PASS", "only states that this pass left"},
    {"--regex", NULL, "all texts are regular expressions, found anywhere in what they are of"},
    {"--ignore-case", NULL, "letters are the same in either case"},
    {"--trace", NULL, "of each instruction its stack, and what it is in the program's other forms"},
    {"--files", NULL, "only the names of files that hold some"},
    {"--most", "N", "show so many (default: 1000; 0: all)"},
    {"--no-update", NULL, "look in the index as it is, without asking whether files have changed"},
    CLI_INDEX_OPTION,
    {NULL, NULL, NULL},
};

const CliCommand cli_find = {
    .name = "find",
    .usage = "DIR [PATTERN...] [--op=OPS] [--source=FILE:LINE] ...",
    .summary = "find ops, names, source lines in a dump",
    .about =
        "Looks through all programs under a directory, by an index that it brings up to date "
        "first\n"
        "(see 'hilo index'). All conditions must hold together. A PATTERN is a part of a name, "
        "scope,\n"
        "shape, source file, custom-call target or module name, a whole op, or FILE:LINE. Each\n"
        "instruction is shown with the file and line where it stands, its shape, op, scope and "
        "source\n"
        "line, and the fusion or computation it is in. With --trace the whole stack follows, and "
        "the\n"
        "instructions of the same scope and line in the jaxpr, StableHLO and HLO before and after\n"
        "optimisation: of a fusion, those of all that is in it. The exit status is 1 where nothing "
        "is\n"
        "found.",
    .examples =
        "  hilo find dump/ fusion.33 --stage=after --trace     which source lines went into it\n"
        "  hilo find dump/ --source=model.py:42 --stage=after  what has become of a line\n"
        "  hilo find dump/ --op=dot --shape='f32[4096,*]'\n"
        "  hilo find dump/ --custom-call=__cublas --files\n"
        "  hilo find dump/ --regex 'all-(reduce|gather)' --after=spmd-partitioning\n",
    .options = options,
    .reports = true,
    .run = run,
};
