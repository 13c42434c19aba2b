// tool/regex.h: partial, case-sensitive matches, as XLA's flags mean them.
#ifndef TOOL_REGEX_H
#define TOOL_REGEX_H

#include "hilo/base.h"

typedef struct Regex Regex;
// NULL after reporting; `what` names the flag in the message.
Regex *regex_new(HlCx *cx, const char *what, const char *pattern);
// The same without regard to case.
Regex *regex_new_folded(HlCx *cx, const char *what, const char *pattern);
void regex_free(Regex *regex);  // NULL is fine
// An absent expression (NULL) matches nothing.
bool regex_matches(const Regex *regex, const char *text);
// Of text that need not end in NUL. Where the expression takes too long to tell, false, and *gave_up is set.
bool regex_finds(const Regex *regex, HlStr text, bool *gave_up);

#endif
