// hilo clean
#include "cli/cli.h"
static int run(Cli *cli) { return 0; }
static const CliOption options[] = {{NULL, NULL, NULL}};
const CliCommand cli_clean = {.name = "clean", .usage = "FILE... -o DIR", .summary = "make a dataset", .about = "", .options = options, .run = run};
