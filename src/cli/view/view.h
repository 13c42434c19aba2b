// cli/view/view.h: pages of `hilo view`, written or served.
#ifndef CLI_VIEW_VIEW_H
#define CLI_VIEW_VIEW_H

#include "cli/cli.h"
#include "hilo/target.h"
#include "hilo/view.h"

// A state of the program that a page shows.
typedef struct ViewInput {
  const char *path, *title;
} ViewInput;
typedef struct ViewInputs {
  HlArena *arena;
  ViewInput *at;
  int n;
} ViewInputs;

// The states that files stand for: each itself; of a dump all states of its module, which --module names where there are
// several. False after a usage message or a report.
bool view_inputs(Cli *cli, ViewInputs *out);
void view_inputs_free(ViewInputs *inputs);
// Appends the page of some states. False after reporting.
bool view_page(Cli *cli, const ViewInput *inputs, int n, HlBuf *out);
// The target of --target, or h100; in the arena. NULL after reporting.
const HlTarget *view_target(Cli *cli, HlArena *arena);

// --serve: pages of a folder's modules over HTTP, until it is interrupted. The exit status.
int view_serve(Cli *cli, const char *folder);

#endif
