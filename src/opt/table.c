// opt/table.c: the tables of passes and pipelines, from passes.def and pipelines.def.
#include "hilo/opt.h"

#define PASS(function, name, options, meaning) bool function(HlPass *p);
#define RULES(table, name, options, meaning) extern const HlRule table[];
#define PASS_RULES(function, table, name, options, meaning) \
  PASS(function, name, options, meaning) RULES(table, name, options, meaning)
#include "opt/passes.def"

static const HlPassInfo passes[] = {
#define PASS(function, name, options, meaning) {name, function, options, meaning, NULL},
#define RULES(table, name, options, meaning) {name, NULL, options, meaning, table},
#define PASS_RULES(function, table, name, options, meaning) {name, function, options, meaning, table},
#include "opt/passes.def"
};
const HlPassTable hl_passes = {passes, HL_COUNT_OF(passes)};

static const HlPipelineInfo pipelines[] = {
#define PIPELINE(name, meaning, text) {name, text, meaning},
#include "opt/pipelines.def"
};
const HlPipelineTable hl_pipelines = {pipelines, HL_COUNT_OF(pipelines)};
