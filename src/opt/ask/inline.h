// opt/ask/inline.h: puts the body of a computation where it is called.
#ifndef OPT_INLINE_H
#define OPT_INLINE_H

#include "hilo/pass.h"

// Between hl_begin and hl_commit: copies of the callee's instructions in inst's computation, its
// parameters being `operands`; what its root becomes. Names of operations are prefixed by inst's,
// and inst's control predecessors come before every copy. `*map`, in p->arena, has copies by id.
HlInst *inline_body(HlPass *p, HlInst *inst, HlComp *callee, int n, HlInst *const *operands,
                    HlInst ***map);
// After a successful hl_commit: prefixes names in the bodies of loops and conditionals among the
// copies.
void inline_finish(HlPass *p, const HlMetadata *of, const HlComp *callee, HlInst *const *map);
// All of it: inst replaced by the body of the callee. What stands in its place, NULL if it stayed.
HlInst *inline_call(HlPass *p, const char *rule, HlInst *inst, HlComp *callee, int n,
                    HlInst *const *operands);
// The same; copies by the callee's ids as of inline_body.
HlInst *inline_call_mapped(HlPass *p, const char *rule, HlInst *inst, HlComp *callee, int n,
                           HlInst *const *operands, HlInst ***map);

// Puts a prefix before the instruction's op_name, "PREFIX/NAME", unless it begins with it or gets
// too long. True if it changed.
bool inline_prefix(HlInst *inst, const HlSym *prefix);
// Whether that would change it.
bool inline_needs_prefix(const HlInst *inst, const HlSym *prefix);

#endif
