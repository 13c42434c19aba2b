// opt/ask/async_halves.h: what passes share that take an instruction apart into its start and its end.
#ifndef HILO_OPT_ASYNC_HALVES_H
#define HILO_OPT_ASYNC_HALVES_H

#include "hilo/pass.h"

// Bodies of asynchronous operations hold what is started.
bool async_is_body(const HlComp *comp);
// What is said of the whole is said of a half: metadata, frontend attributes, configuration; not the sharding, whose
// shape a half does not have.
void async_inherit(HlInst *half, const HlInst *whole);
// Commits the rewrite at hand: what the whole waited for the start waits for, and what waited for it waits for the end.
bool async_commit(HlPass *p, const HlInst *whole, HlInst *start, HlInst *done);

#endif
