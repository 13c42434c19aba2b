// Picks the module of a file that an option --module=N|NAME asks for.
#include "cli/select.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hilo/edit.h"

static const char *nearest_module(const HlFile *file, const char *wish) {
  const char *names[64];
  int n = 0;
  for (; n < file->n && n < HL_COUNT_OF(names); n++)
    names[n] = file->modules[n]->name->text;
  return hl_nearest(hl_str(wish), names, n);
}

HlModule *cli_select(const Cli *cli, const HlFile *file, const char *path) {
  const char *wish = cli_value(cli, "--module");
  if (!wish) {
    if (file->n == 1)
      return file->modules[0];
    cli_usage(cli, "%s holds %d modules; say which with --module=N or --module=NAME", path,
              file->n);
    return NULL;
  }
  for (int k = 0; k < file->n; k++)
    if (strcmp(file->modules[k]->name->text, wish) == 0)
      return file->modules[k];
  char *end;
  long number = strtol(wish, &end, 10);
  if (*wish && !*end && number >= 0 && number < file->n)
    return file->modules[number];
  const char *near = nearest_module(file, wish);
  if (near)
    cli_usage(cli, "%s has no module '%s'; did you mean '%s'?", path, wish, near);
  else
    cli_usage(cli, "%s has no module '%s': it holds %d, numbered from 0", path, wish, file->n);
  return NULL;
}

bool cli_has_partitions(const Cli *cli) {
  int64_t n;
  return cli_integer(cli, "--partitions", 1, 65536, &n);
}

void cli_set_partitions(const Cli *cli, HlModule *m) {
  const char *wish = cli_value(cli, "--partitions");
  if (wish)
    hl_set_devices(m, m->replica_count, strtoll(wish, NULL, 10));
  const int64_t named = hl_named_partitions(m);
  if (named <= m->num_partitions || named <= 1)
    return;
  hl_warn(cli->cx, hl_module_pos(m),
          "the shardings of module %s are for %" PRId64
          " partitions, but it is compiled for %" PRId64,
          m->name->text, named, m->num_partitions > 0 ? m->num_partitions : 1);
  hl_hint(cli->cx, "--partitions=%" PRId64, named);
}
