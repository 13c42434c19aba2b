// hilo clean: a data set of programs, each graph once.
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/json.h"
#include "cli/load.h"
#include "hilo/clean.h"
#include "tool/dumps/clean_journal.h"

typedef struct Report {
  Cli *cli;
  int64_t listed, not_listed;  // duplicates
} Report;

enum { LISTED = 20 };  // duplicates that are named without --verbose

static void add_json(HlBuf *out, const HlCleaned *one) {
  json_open(out, NULL, '{');
  clean_json(out, one);
  json_bool(out, "earlier", one->is_old);
  json_close(out, '}');
}

static void say(Report *r, const HlCleaned *one) {
  Cli *cli = r->cli;
  if (one->state == HL_CLEAN_DUPLICATE && !cli->verbose && r->listed == LISTED) {
    r->not_listed++;
    return;
  }
  r->listed += one->state == HL_CLEAN_DUPLICATE;
  if (one->state == HL_CLEAN_KEPT && !cli->verbose)
    return;
  if (one->state == HL_CLEAN_NO_MODULE && !cli->verbose)
    return;
  cli_progress(cli, NULL);
  cli_say(cli, "%s: ", one->file);
  if (one->state == HL_CLEAN_KEPT)
    cli_say(cli, "kept as %s\n", one->out);
  else if (one->state == HL_CLEAN_DUPLICATE)
    cli_say(cli, "equals %s%s\n", one->of,
            one->elided ? ", as far as its constants are there" : "");
  else
    cli_say(cli, "skipped: %s\n", one->why);
}

static void show(void *user, const HlCleaned *one, int64_t k, int64_t n) {
  Report *r = user;
  Cli *cli = r->cli;
  cli_progress(cli, "cleaning %" PRId64 " of %" PRId64 ": %s", k + 1, n, one->file);
  if (cli->json)
    add_json(&cli->report, one);
  if (one->state == HL_CLEAN_UNREADABLE && !cli->json) {
    cli_progress(cli, NULL);
    fflush(stdout);
    fprintf(stderr, "%s: error: %s\n", one->file, one->why);
  } else if (!cli->json) {
    say(r, one);
  }
}

static void print_counts(const Report *r, const HlCleanCounts *n, const char *folder) {
  const Cli *cli = r->cli;
  if (r->not_listed)
    cli_say(cli, "and %" PRId64 " more duplicates\n", r->not_listed);
  cli_say(cli,
          "%" PRId64 " module%s in %" PRId64 " file%s: %" PRId64 " kept, %" PRId64 " duplicate%s",
          n->modules, n->modules == 1 ? "" : "s", n->files, n->files == 1 ? "" : "s", n->kept,
          n->duplicates, n->duplicates == 1 ? "" : "s");
  if (n->no_module)
    cli_say(cli, "; %" PRId64 " file%s without a program", n->no_module,
            n->no_module == 1 ? "" : "s");
  if (n->unreadable)
    cli_say(cli, "; %" PRId64 " not read", n->unreadable);
  if (n->old)
    cli_say(cli, "; %" PRId64 " done earlier", n->old);
  cli_say(cli, "\nreport: %s/hilo-clean.jsonl\n", folder);
}

static void counts_json(HlBuf *out, const HlCleanCounts *n) {
  json_close(out, ']');
  json_int(out, "files", n->files);
  json_int(out, "modules", n->modules);
  json_int(out, "kept", n->kept);
  json_int(out, "duplicates", n->duplicates);
  json_int(out, "no_module", n->no_module);
  json_int(out, "unreadable", n->unreadable);
  json_int(out, "earlier", n->old);
}

// What lies in the output folder is never cleaned: given as input it would be nothing.
static bool is_output(const char *path, const char *folder) {
  char a[PATH_MAX], b[PATH_MAX];
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && realpath(path, a) && realpath(folder, b) && strcmp(a, b) == 0;
}

static int run(Cli *cli) {
  const HlCleanOptions options = {.folder = cli_value(cli, "-o"),
                                  .load = cli_load_options(cli),
                                  .keep_names = cli_flag(cli, "--keep-names"),
                                  .keep_metadata = cli_flag(cli, "--keep-metadata"),
                                  .keep_duplicates = cli_flag(cli, "--keep-duplicates")};
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  if (!options.folder || !*options.folder)
    return cli_usage(cli, "where to? give -o DIR");
  for (int k = 0; k < cli->n_files; k++)
    if (strcmp(cli->files[k], "-") == 0)
      return cli_usage(cli, "standard input is no file that can be cleaned again: give its name");
  for (int k = 0; k < cli->n_files; k++)
    if (is_output(cli->files[k], options.folder))
      return cli_usage(cli, "'%s' is where the modules go: give another -o", cli->files[k]);
  Report report = {.cli = cli};
  HlCleanCounts counts;
  cli_begin_file(cli, options.folder);
  if (cli->json)
    json_open(&cli->report, "cleaned", '[');
  const bool ok = hl_clean(cli->cx, cli->n_files, cli->files, &options, show, &report, &counts);
  cli_progress(cli, NULL);
  if (cli->json)
    counts_json(&cli->report, &counts);
  else if (ok)
    print_counts(&report, &counts, options.folder);
  if (ok && counts.modules + counts.unreadable == 0)
    hl_error(cli->cx, (HlPos){0}, "no module in what was given (%lld other file%s)",
             (long long)counts.no_module, counts.no_module == 1 ? "" : "s");
  if (!ok && hl_cx_n_errors(cli->cx) > 0 && counts.files > 0)
    hl_hint(cli->cx, "what was done until then is kept; the same command goes on from there");
  const int status = cli_end_file(cli);
  cli_end_report(cli);
  return cli_worse(status, counts.unreadable ? HL_INVALID : CLI_OK);
}

static const CliOption options[] = {
    {"-o", "DIR", "the folder to write to; made where it is not there"},
    {"--keep-names", NULL, "names of modules, computations and instructions stay"},
    {"--keep-metadata", NULL, "op names, source lines, stack frames stay"},
    {"--keep-duplicates", NULL, "equal graphs are kept, too"},
    CLI_LOAD_OPTIONS,
    {NULL, NULL, NULL},
};

const CliCommand cli_clean = {
    .name = "clean",
    .usage = "FILE... -o DIR",
    .summary = "make a data set: no metadata, no duplicates",
    .about =
        "Writes each module of the files, and of the files under directories, into a folder as HLO\n"
        "text: without metadata, stack frames and origins, all constants whole, names by op and\n"
        "number. Of modules that compute the same (names, metadata, layouts of intermediate values\n"
        "and the order of independent instructions apart) the first is kept; where constants were\n"
        "elided in the dump, equal shapes count as equal, and the report says so. The folder's\n"
        "hilo-clean.jsonl has a line for each module: what became of it, and what a duplicate equals.\n"
        "A run that ended early goes on where it was; files that have changed are done again. Files\n"
        "that cannot be read are named, and the exit status is 3.",
    .examples = "  hilo clean dump/ -o data/          one file a program\n"
                "  hilo clean -v *.hlo -o data/       what became of each\n",
    .options = options,
    .reports = true,
    .run = run,
};
