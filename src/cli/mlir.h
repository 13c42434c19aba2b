// cli/mlir.h: writing StableHLO, MHLO and portable artifacts.
#ifndef CLI_MLIR_H
#define CLI_MLIR_H

#include "cli/cli.h"

// The sections or modules of a file as MLIR text, parted by lines `// -----`; the exit status of the usage.
int cli_write_mlir(Cli *cli, const HlFile *file, bool mhlo, HlBuf *out);
// One module, behind a line `// -----` where something stands before it. False after reporting.
bool cli_write_mlir_module(Cli *cli, const HlModule *m, bool mhlo, HlBuf *out);
// The tree of a file as a portable artifact, at the version of --to mlirbc=VERSION, else one that all in JAX's window of
// compatibility read.
int cli_write_artifact_of_tree(Cli *cli, HlFile *file, HlBuf *out);
// The version of --to mlirbc=VERSION; hl_ml_portable_version without one. False after a usage message; `out` may be NULL.
bool cli_mlir_version(const Cli *cli, HlMlVersion *out);

#endif
