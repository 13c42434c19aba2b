// cli/equations.h: a jaxpr and the HLO made from it, side by side.
#ifndef CLI_EQUATIONS_H
#define CLI_EQUATIONS_H

#include "cli/cli.h"

// Appends a row per equation of the jaxpr that the module was read from: its line, the equation, and the
// instructions that it became. False after reporting.
bool cli_equations(Cli *cli, const HlModule *m, HlBuf *out);
// The same as `, "equations": [...]`.
bool cli_equations_json(Cli *cli, const HlModule *m, HlBuf *out);

#endif
