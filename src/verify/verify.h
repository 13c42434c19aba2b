// verify/verify.h: what the files of the verifier share. Every function returns false exactly when
// it
// has reported an error; checks of one instruction go on after errors where that makes sense.
#ifndef HILO_VERIFY_VERIFY_H
#define HILO_VERIFY_VERIFY_H

#include "base/map.h"
#include "hilo/op.h"
#include "hilo/verify.h"

typedef struct Verify {
  HlCx *cx;
  HlArena *scratch;  // cut back at the end of hl_verify
  const HlModule *m;
  HlVerifyOptions options;
  const HlSym **thread;  // execution thread in force, by computation id; NULL: main
  // Which kinds of op the module has at all, so that later checks can pass at once.
  bool has_async, has_channels, has_all_reduce, has_buffers;
  // interpreter.run_parallel: its programs run on grids of devices of their own, of which the
  // header says nothing, and each is a module to the others.
  bool has_grids;
  // A schedule or a bitcast: the layouts that stand there are those of the memory, not the reader's defaults.
  bool is_laid_out;
  bool is_tiled;  // tiled layouts: made for a machine that mixes precisions and pads elements
  Map sound;  // shapes that are well formed
  HlAsyncLately async;
} Verify;

// structure.c: that the graph is one: edges, parameters, roots, names, callers, schedules.
bool verify_structure(Verify *v);
// That what an instruction calls has as many parameters as it gives arguments; shape inference says the same, and more.
bool verify_params(Verify *v, const HlInst *inst);
// layout.c: that every layout is one, and every shape can be counted.
bool verify_layouts(Verify *v, const HlInst *inst);
// shape.c: the written shape against the rule of the op, and the types of the operands.
bool verify_shape(Verify *v, const HlInst *inst);
// What a comparison of layouts passes over.
enum {
  VERIFY_ORDER_ONLY = 1,  // everything but minor_to_major
  VERIFY_NO_TILES = 2,
  VERIFY_NO_MEMORY_SPACE = 4,
  VERIFY_NO_SPLITS = 8,
  VERIFY_NO_PADDING = 16  // L(n)
};
// Compatible; with the option layout_sensitive equal but for what `flags` pass over.
bool verify_same_shape(const Verify *v, const HlShape *a, const HlShape *b, int flags);
// The same of two layouts, whatever the options.
bool verify_same_layout(const HlLayout *a, const HlLayout *b, int flags);
// Sees whether `written` stands for `wanted`; reports otherwise.
bool verify_expect(Verify *v, const HlInst *inst, const HlShape *wanted);
const char *verify_text(const Verify *v, const HlShape *shape);  // with layouts if they matter
const char *verify_index(Verify *v, HlI64s index);               // "{0,1}", for messages
bool verify_token(Verify *v, const HlInst *inst, int operand);
// inst.c: rules of particular ops.
bool verify_inst(Verify *v, const HlInst *inst);
// attrs.c: attributes that any op can carry: shardings, accuracy, origins.
bool verify_attrs(Verify *v, const HlInst *inst);
bool verify_consistent_sharding(Verify *v, const HlInst *parent, int n, const HlInst *const *insts);
// fusion.c: fusions, calls of computations, aliasing of results with operands.
bool verify_fusion(Verify *v, const HlInst *fusion);
bool verify_call(Verify *v, const HlInst *call);
bool verify_aliasing(Verify *v, const HlInst *inst, bool ignore_buffers);
bool verify_thread(Verify *v, const HlInst *caller);
// collective.c: replica groups, source-target pairs.
bool verify_collective(Verify *v, const HlInst *inst);
// async.c: chains of start, update and done; channels.
bool verify_threads(Verify *v);
bool verify_async(Verify *v, const HlInst *inst);
bool verify_async_comp(Verify *v, const HlComp *comp);
bool verify_async_ends(Verify *v);
bool verify_channels(Verify *v);
// module.c: entry layout, aliases, donors, and what all instructions together must obey.
bool verify_module(Verify *v);
// buffer.c: values of type b(..).
bool verify_buffers(Verify *v);
bool verify_has_buffer(const HlShape *shape);

static inline bool verify_is_token(const HlShape *shape) {
  return shape->dtype == HL_TOKEN;
}

#endif
