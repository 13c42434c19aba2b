// cli/explore/serve.h: the commands of 'hilo explore' in a page.
#ifndef CLI_EXPLORE_SERVE_H
#define CLI_EXPLORE_SERVE_H

#include "cli/cli.h"
#include "hilo/ir.h"

// Serves the page of a module until it is interrupted: the exit status. `port` 0: any that is free; `browser` opens it, or NULL.
int explore_serve(Cli *cli, const HlModule *m, int64_t port, const char *browser);
// Does so in a child process, which ends with this one; its address, in the arena, or NULL after reporting.
const char *explore_serve_beside(Cli *cli, HlArena *arena, const HlModule *m, int64_t port);
// Opens an address or file and does not wait.
void explore_open(Cli *cli, const char *browser, const char *what);

#endif
