// cli/extract.h: what 'extract' and 'slice' share: writing parts of a module, with the values that went in and out.
#ifndef CLI_EXTRACT_H
#define CLI_EXTRACT_H

#include "cli/form.h"
#include "cli/inputs.h"
#include "cli/load.h"
#include "cli/select.h"
#include "hilo/extract.h"

#define CLI_EXTRACT_OPTIONS                                                                      \
  {"--to", "FORM",                                                                               \
   "the form of the module, as of 'hilo convert' (default: text, constants in full)"},           \
      {"--record", NULL,                                                                         \
       "run the whole module and write beside OUT what went into the extract and came out, as "  \
       "OUT's name with .npz: a0, a1, ... and r0, r1, ...; --args, --seed and --elided ask for " \
       "that, too"},                                                                             \
  {                                                                                              \
    "--time", "N", "of --record, in loops: the values of which time, from 0 (default)"           \
  }

// One part to be written.
typedef struct CliPart {
  HlExtract extract;
  const char *name;
  const char *path;               // NULL: to standard output, or into the report
  const char *inputs;             // the path of the array file; NULL: none was written
  HlLiteral ***param, ***result;  // [device][k]: new references, until they are written
  int devices;                    // that have told of it
} CliPart;

typedef struct CliParts {
  HlArena *arena;
  const Form *form;
  CliPart *at;  // n of them; the caller fills extract, name and path
  int n;
  bool records;
  int64_t time;
  HlReplayOptions inputs;
  HlLiteral ***args;  // [device][parameter] on which the module runs; NULL: as `inputs` says
} CliParts;

// What the options say. False after a usage message.
bool cli_read_parts(Cli *cli, CliParts *out);
void cli_parts_free(CliParts *parts);
// Verifies, writes and reports all of them, which are parts of this module of the file.
bool cli_write_parts(Cli *cli, CliParts *parts, const HlFile *file, const HlModule *m);
// OUT's name with another ending, in the arena.
const char *cli_beside(HlArena *arena, const char *path, const char *ending);
// The instruction of a name, in whatever computation; the computation; NULL: no such.
const HlInst *cli_find_inst(const HlModule *m, const char *name);
const HlComp *cli_find_comp(const HlModule *m, const char *name);
// Reports that a module has neither; with the nearest name.
bool cli_no_such_name(Cli *cli, const HlModule *m, const char *name);

#endif
