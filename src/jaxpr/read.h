// read.h: the reader of jaxpr text: where it stands, and what its files call of each other.
#ifndef HILO_JAXPR_READ_H
#define HILO_JAXPR_READ_H

#include "jaxpr/tree.h"

typedef struct Reader {
  HlCx *cx;
  HlJaxpr *out;
  HlArena *arena;
  const char *start, *at, *end;  // *end is NUL
  int nesting;                   // of brackets and jaxprs
  int depth;                     // of the jaxpr being read
  bool has_free;                 // as printed until early 2020: { lambda consts ; free ; inputs. let .. in [a, b] }
  Scope *scope;
  const char *line_start;  // where the last line counted begins
  int line;
  Jaxpr **closed_link;  // where the next jaxpr with constants is linked
} Reader;

HlLoc jx_reader_loc(const Reader *r, const char *at);
bool jx_reader_error(Reader *r, const char *at, const char *format, ...) HL_PRINTF(3, 4);
bool jx_enter(Reader *r);  // one level deeper; false: reported
static inline void jx_leave(Reader *r) {
  r->nesting--;
}
void jx_skip_space(Reader *r);
const char *jx_skip_blanks_at(const char *at);  // within the line
const char *jx_skip_space_at(const char *at);
// The word that starts at `at` (letters, digits and _), perhaps empty.
HlStr jx_peek_word(const Reader *r, const char *at);
bool jx_at_word(const Reader *r, const char *at, const char *word);
// Over one balanced group whose opening bracket stands at `at`: just behind it, or NULL if it is not closed.
const char *jx_skip_group(const Reader *r, const char *at);

bool jx_read_params(Reader *r, Eqn *eqn);                          // at `[`
bool jx_at_jaxpr(const Reader *r);                                 // `{ lambda` or `let NAME = {`
bool jx_read_jaxpr(Reader *r, Jaxpr **out);                        // with its `let`s
bool jx_expect(Reader *r, const char *what);                       // blanks, then these letters
bool jx_unsupported(Reader *r, const char *at, const char *what);  // reports; false
HlStr jx_peek_name(const Reader *r);                               // of a variable, perhaps empty
bool jx_read_aval(Reader *r, const Aval **out);
bool jx_read_binder(Reader *r, Jaxpr *jaxpr, Binder *b);
bool jx_read_binders(Reader *r, Jaxpr *jaxpr, char end, Binder **list, int *n);  // `end` included
bool jx_is_literal_word(HlStr word);  // nan, inf, True, False
bool jx_at_literal(const Reader *r, const Jaxpr *jaxpr);
// An operand; `dropped`: which of the variables `_` the name `_` stands for.
bool jx_read_atom(Reader *r, const Jaxpr *jaxpr, int dropped, Atom *atom);
bool jx_read_operand(Reader *r, Jaxpr *jaxpr, Eqn *eqn);  // one more of the equation's
bool jx_read_get(Reader *r, Jaxpr *jaxpr, Eqn *eqn);  // whole equations
bool jx_read_set(Reader *r, Jaxpr *jaxpr, Eqn *eqn);
bool jx_read_swap(Reader *r, Jaxpr *jaxpr, Eqn *eqn);

#endif
