// tool/regex.h: partial, case-sensitive matches, as XLA's flags mean them.
#ifndef TOOL_REGEX_H
#define TOOL_REGEX_H

#include "hilo/base.h"

typedef struct Regex Regex;
// NULL after reporting; `what` names the flag in the message.
Regex *regex_new(HlCx *cx, const char *what, const char *pattern);
void regex_free(Regex *regex);  // NULL is fine
// An absent expression (NULL) matches nothing.
bool regex_matches(const Regex *regex, const char *text);

#endif
