// opt/ask/frontend.h: single entries of frontend_attributes.
#ifndef HILO_OPT_FRONTEND_H
#define HILO_OPT_FRONTEND_H

#include "hilo/edit.h"

bool frontend_has(const HlInst *inst, const char *name);
// The text under a name; "" if there is none.
const char *frontend_get(const HlInst *inst, const char *name);
// Gives `to` the frontend attributes of `from` (which may be `to`) and one more.
void frontend_set(HlInst *to, const HlInst *from, const char *name, const char *value);
// Gives `to` all that `from` has, if it has any.
void frontend_keep(HlInst *to, const HlInst *from);
// Gives `to`, in place of its own, what any of several has; different values of a name are joined, sorted: "a,b".
void frontend_merge(HlInst *to, int n, HlInst *const *from);
// Takes one away; false: there was none.
bool frontend_remove(HlInst *inst, const char *name);

#endif
