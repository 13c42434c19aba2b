// opt/table.c: the tables of passes and pipelines, from passes.def and pipelines.def.
#include "hilo/opt.h"

#include "opt/passes.h"

bool pass_nothing(HlPass *p) {
  return true;
}

static const HlPassInfo passes[] = {
#define HAS(id) ((uint32_t)1 << HL_HAS_##id)
#define PASS(function, name, ...) {name, function, __VA_ARGS__, .rules = NULL},
#define PLACE(name, why) \
  {name, pass_nothing, "", "nothing: " why, .keeps = HAS(SCHEDULED) | HAS(LIVE) | HAS(LAYOUTS)},
#define RULES(table, name, ...) {name, NULL, __VA_ARGS__, .rules = table},
#define PASS_RULES(function, table, name, ...) {name, function, __VA_ARGS__, .rules = table},
#include "opt/passes.def"
};

static const HlPassOrder orders[] = {
#define ORDER(before, after, why) {before, after, why},
#include "opt/order.def"
};

// Names of earlier releases, which HloEnv's pipelines are written with.
static const HlPassAlias aliases[] = {
    {"bf16-normalization", "float-normalization-bf16"},
    {"gpu-conv-rewriter", "conv-rewriter"},
    {"gpu-conv-padding-legalization", "conv-padding-legalization"},
    {"gpu-sanitize-constant-names", "sanitize-constant-names"},
    {"gpu-tree-reduction-rewriter", "tree-reduction-rewriter"},
    {"host-offloading-prepare", "host-offloading-prepare-elide-move-to-host"},
    {"subcomputation-unification", "computation-deduplicator"},
};

const HlPassTable hl_passes = {passes, HL_COUNT_OF(passes), aliases, HL_COUNT_OF(aliases),
                               orders, HL_COUNT_OF(orders)};

// A pipeline is longer than the 4,095 characters that ISO C promises of a string.
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const HlPipelineInfo pipelines[] = {
#define PIPELINE(name, meaning, text) {name, text, meaning},
#include "opt/pipelines.def"
};
const HlPipelineTable hl_pipelines = {pipelines, HL_COUNT_OF(pipelines)};
