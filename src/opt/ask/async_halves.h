// opt/ask/async_halves.h: what passes share that take an instruction apart into its start and its end.
#ifndef HILO_OPT_ASYNC_HALVES_H
#define HILO_OPT_ASYNC_HALVES_H

#include "hilo/pass.h"

// Bodies of asynchronous operations hold what is started.
bool async_is_body(const HlComp *comp);
// What is said of the whole is said of a half: metadata, frontend attributes, configuration; not the sharding, whose
// shape a half does not have.
void async_inherit(HlInst *half, const HlInst *whole);
// The shapes of all operands, as a tuple; in the module.
const HlShape *async_operand_shapes(HlPass *p, const HlInst *inst);
// While a rewrite is built: the async-start of a computation that holds a copy of the instruction alone, on the same operands.
// Its shape has an element for what it keeps meanwhile if `context` is not NULL. Nothing is inherited.
HlInst *async_start(HlPass *p, HlBuild *b, const HlInst *inst, const HlShape *context);
// Of an end that may come as late as it can, whatever its start must do.
void async_wait_late(HlPass *p, HlInst *done);
// Commits the rewrite at hand: what the whole waited for the start waits for, and what waited for it waits for the end.
bool async_commit(HlPass *p, const HlInst *whole, HlInst *start, HlInst *done);
// `from` waits for nothing any more, and what waited for it waits for `to`.
void async_hand_on(HlInst *from, HlInst *to);
// All that follows a start by a call: its end, which may come late; both inherit; commits.
bool async_finish(HlPass *p, HlBuild *b, const HlInst *whole, HlInst *start);

#endif
