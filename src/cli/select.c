// Picks the module of a file that an option --module=N|NAME asks for.
#include "cli/select.h"

#include <stdlib.h>
#include <string.h>

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
