// The files that a command's operands stand for: a directory means the modules in it.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "tool/dumps/listing.h"

static void push(CliFiles *files, const char *name, int operand, bool listed) {
  if ((files->n & (files->n - 1)) == 0) {
    size_t room = files->n ? 2 * (size_t)files->n : 1;
    files->at = base_realloc(files->at, room * sizeof *files->at);
  }
  files->at[files->n++] = (CliPath){base_strdup(name), operand, listed};
}

static bool is_directory(const char *path) {
  struct stat st;
  return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const CliPath *)a)->at, ((const CliPath *)b)->at);
}

static void close_directory(void *dir) {
  closedir(dir);
}

static bool list_directory(Cli *cli, const char *path, int operand, int depth, CliFiles *out) {
  DIR *dir = opendir(path);
  if (!dir)
    return hl_error(cli->cx, (HlPos){0}, "cannot open the directory '%s'", path);
  base_hold(dir, close_directory);
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.')
      continue;
    char name[4096];
    if (snprintf(name, sizeof name, "%s/%s", path, entry->d_name) >= (int)sizeof name)
      continue;
    if (!is_directory(name))
      push(out, name, operand, true);
    else if (depth < 32)
      list_directory(cli, name, operand, depth + 1, out);
  }
  base_drop(dir);
  closedir(dir);
  return true;
}

static bool expand(Cli *cli, CliFiles *out) {
  for (int k = 0; k < cli->n_files; k++) {
    const int first = out->n;
    if (!is_directory(cli->files[k]))
      push(out, cli->files[k], k, false);
    else if (!list_directory(cli, cli->files[k], k, 0, out))
      return false;
    else if (out->n > first)
      qsort(out->at + first, (size_t)(out->n - first), sizeof *out->at, by_name);
  }
  return true;
}

int cli_take_files(Cli *cli, CliFiles *out) {
  *out = (CliFiles){0};
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  out->modules = base_alloc((size_t)cli->n_files * sizeof *out->modules);
  if (expand(cli, out))
    return CLI_OK;
  cli_files_free(out);
  return cli_flush(cli);
}

void cli_files_free(CliFiles *files) {
  for (int k = 0; k < files->n; k++)
    base_free(files->at[k].at);
  base_free(files->at);
  base_free(files->modules);
  *files = (CliFiles){0};
}

int cli_end_files(Cli *cli, CliFiles *files) {
  for (int operand = 0; operand < cli->n_files; operand++) {
    int others = 0;
    for (int k = 0; k < files->n; k++)
      others += files->at[k].operand == operand;
    if (files->modules[operand] == 0 && is_directory(cli->files[operand]))
      hl_error(cli->cx, (HlPos){0}, "no module in the directory '%s' (%d other file%s)",
               cli->files[operand], others, others == 1 ? "" : "s");
  }
  cli_files_free(files);
  return cli_flush(cli);
}

// --- Loading ------------------------------------------------------------------------------------

static void skip(Cli *cli, CliFiles *files, const char *path) {
  files->skipped++;
  if (!cli->verbose)
    return;
  cli_progress(cli, NULL);
  fflush(stdout);
  fprintf(stderr, "%s: skipped: no module\n", path);
}

bool cli_load(Cli *cli, CliFiles *files, int k, const HlLoadOptions *options, HlFile *out,
              bool *skipped) {
  const CliPath *path = &files->at[k];
  const ListingLook look = path->listed ? listing_look(path->at) : LISTING_IS_MODULE;
  *skipped = look == LISTING_IS_NO_MODULE ||
             (look == LISTING_MAY_BE_MODULE && !listing_looks_inside(path->at));
  const bool ok = !*skipped && hl_load(cli->cx, path->at, options, out);
  if (!*skipped && !ok && look == LISTING_MAY_BE_MODULE && !hl_format_is_program(out->format)) {
    hl_cx_clear(cli->cx);
    *skipped = true;
  }
  if (*skipped)
    skip(cli, files, path->at);
  else
    files->modules[path->operand]++;
  return ok;
}
