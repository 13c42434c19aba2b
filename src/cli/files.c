// The files that a command's operands stand for: a directory means the modules in it.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "cli/cli.h"

static void push(CliFiles *files, const char *name, bool listed) {
  if ((files->n & (files->n - 1)) == 0) {
    size_t room = files->n ? 2 * (size_t)files->n : 1;
    files->at = base_realloc(files->at, room * sizeof *files->at);
    files->listed = base_realloc(files->listed, room * sizeof *files->listed);
  }
  files->listed[files->n] = listed;
  files->at[files->n++] = base_strdup(name);
}

static bool is_directory(const char *path) {
  struct stat st;
  return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

// Whether a file of a directory is worth opening as a module, by its name; reports and side files of
// a dump also end in .txt.
static bool looks_like_module(const char *name) {
  static const char *const no[] = {"-buffer-assignment.txt",
                                   "-buffer-assignment-values.txt",
                                   "-live-range.txt",
                                   "-memory-usage-report.txt",
                                   "thunk_sequence.txt",
                                   ".config.pbtxt",
                                   "execution_options.txt",
                                   ".debug_options",
                                   "-allocation-info.txt",
                                   "gpu_target_config.pbtxt",
                                   "README.txt"};
  static const char *const yes[] = {".hlo",  ".txt",    ".pb",      ".pbtxt", ".hlotxt",
                                    ".mlir", ".mlirbc", ".mlir.bc", ".jaxpr"};
  char stem[4096];
  snprintf(stem, sizeof stem, "%s", name);
  if (ends_with(stem, ".gz"))
    stem[strlen(stem) - 3] = 0;
  else if (ends_with(stem, ".zst"))
    stem[strlen(stem) - 4] = 0;
  for (int k = 0; k < HL_COUNT_OF(no); k++)
    if (ends_with(stem, no[k]))
      return false;
  for (int k = 0; k < HL_COUNT_OF(yes); k++)
    if (ends_with(stem, yes[k]))
      return true;
  return false;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void close_directory(void *dir) {
  closedir(dir);
}

static bool list_directory(Cli *cli, const char *path, int depth, CliFiles *out) {
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
    if (!is_directory(name) && looks_like_module(entry->d_name))
      push(out, name, true);
    else if (!is_directory(name))
      out->skipped++;
    else if (depth < 32)
      list_directory(cli, name, depth + 1, out);
  }
  base_drop(dir);
  closedir(dir);
  return true;
}

bool cli_expand(Cli *cli, CliFiles *out) {
  *out = (CliFiles){0};
  for (int k = 0; k < cli->n_files; k++) {
    int first = out->n;
    if (!is_directory(cli->files[k])) {
      push(out, cli->files[k], false);
      continue;
    }
    if (!list_directory(cli, cli->files[k], 0, out))
      return false;
    if (out->n > first)
      qsort(out->at + first, (size_t)(out->n - first), sizeof(char *), by_name);
    else
      return hl_error(cli->cx, (HlPos){0}, "no module in the directory '%s' (%d other files)",
                      cli->files[k], out->skipped);
  }
  return true;
}

int cli_take_files(Cli *cli, CliFiles *out) {
  if (cli->n_files == 0)
    return cli_usage(cli, "no file given");
  if (cli_expand(cli, out))
    return CLI_OK;
  cli_files_free(out);
  return cli_flush(cli);
}

void cli_files_free(CliFiles *files) {
  for (int k = 0; k < files->n; k++)
    base_free(files->at[k]);
  base_free(files->at);
  base_free(files->listed);
  *files = (CliFiles){0};
}

bool cli_load(Cli *cli, CliFiles *files, int k, const HlLoadOptions *options, HlFile *out,
              bool *skipped) {
  *skipped = false;
  if (hl_load(cli->cx, files->at[k], options, out))
    return true;
  bool is_module = out->format != HL_FORMAT_UNKNOWN && out->format != HL_FORMAT_NPZ;
  if (!files->listed[k] || is_module)
    return false;
  hl_cx_clear(cli->cx);
  files->skipped++;
  *skipped = true;
  return false;
}
