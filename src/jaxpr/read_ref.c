// Reads jaxpr text: equations that read and write references.
//
// y <- x[i]            get
// x[i] <- v            swap, without what was there
// y, x[i] <- x[i], v   swap
// x[i] += v            addupdate
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "jaxpr/read.h"

static bool read_count(Reader *r, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(r->at, &end, 10);
  if (end == r->at || errno || *out < 0 || !is_digit(*r->at))
    return jx_unsupported(r, r->at,
                          "indices other than variables, numbers and ranges are not supported");
  r->at = end;
  return true;
}

// ... : 1 1: :3 1:3 i i:i+2
static bool read_index(Reader *r, Jaxpr *jaxpr, Eqn *eqn, Index *out) {
  *out = (Index){.operand = -1, .kind = INDEX_POINT, .size = -1};
  if (!strncmp(r->at, "...", 3)) {
    r->at += 3;
    out->kind = INDEX_REST;
    return true;
  }
  const HlStr name = jx_peek_name(r);
  if (name.n > 0) {
    out->operand = eqn->in.n;
    if (!jx_read_operand(r, jaxpr, eqn))
      return false;
  } else if (*r->at != ':' && !read_count(r, &out->start)) {
    return false;
  }
  if (*r->at != ':')
    return true;
  r->at++;
  out->kind = INDEX_RANGE;
  if (*r->at == ',' || *r->at == ']')
    return true;
  if (name.n > 0) {  // i:i+2
    r->at += jx_peek_word(r, r->at).n;
    return jx_expect(r, "+") && read_count(r, &out->size);
  }
  if (!read_count(r, &out->size))
    return false;
  if (out->size < out->start)
    return jx_reader_error(r, r->at, "the range ends before it begins");
  out->size -= out->start;
  return true;
}

// x[i, 0:2]
static bool read_place(Reader *r, Jaxpr *jaxpr, Eqn *eqn) {
  jx_skip_space(r);
  if (!jx_read_operand(r, jaxpr, eqn) || !jx_expect(r, "["))
    return false;
  for (;;) {
    jx_skip_space(r);
    if (*r->at == ']')
      break;
    Index index;
    if (!read_index(r, jaxpr, eqn, &index))
      return false;
    vec_push_in(r->arena, &eqn->index, index);
    jx_skip_space(r);
    if (*r->at == ',')
      r->at++;
    else if (*r->at != ']')
      return jx_reader_error(r, r->at, "expected ',' or ']' after an index");
  }
  r->at++;
  return true;
}

static bool read_written(Reader *r, Jaxpr *jaxpr, Eqn *eqn) {
  jx_skip_space(r);
  return jx_read_operand(r, jaxpr, eqn);
}

// y <- x[i]
bool jx_read_get(Reader *r, Jaxpr *jaxpr, Eqn *eqn) {
  eqn->prim = hl_str("get");
  const char *binders = r->at;
  r->at = strstr(r->at, "<-") + 2;
  if (!read_place(r, jaxpr, eqn))
    return false;
  const char *end = r->at;
  eqn->end = jx_reader_loc(r, end);
  r->at = binders;
  bool ok = jx_read_binders(r, jaxpr, '<', &eqn->out, &eqn->n_out);
  r->at = end;
  return ok;
}

// x[i] <- v, x[i] += v
bool jx_read_set(Reader *r, Jaxpr *jaxpr, Eqn *eqn) {
  if (!read_place(r, jaxpr, eqn))
    return false;
  jx_skip_space(r);
  eqn->prim = hl_str(*r->at == '+' ? "addupdate" : "swap");
  bool ok = jx_expect(r, *r->at == '+' ? "+=" : "<-") && read_written(r, jaxpr, eqn);
  eqn->end = jx_reader_loc(r, r->at);
  return ok;
}

// y, x[i] <- x[i], v
bool jx_read_swap(Reader *r, Jaxpr *jaxpr, Eqn *eqn) {
  Eqn ignored = {0};
  eqn->prim = hl_str("swap");
  eqn->out = HL_NEW(r->arena, Binder);
  const char *binder = r->at;
  HlStr name = jx_peek_name(r);
  const Aval *aval;
  r->at += name.n + 1;
  if (!jx_read_aval(r, &aval) || !jx_expect(r, ",") || !read_place(r, jaxpr, &ignored) ||
      !jx_expect(r, "<-"))
    return false;
  if (!read_place(r, jaxpr, eqn) || !jx_expect(r, ",") || !read_written(r, jaxpr, eqn))
    return false;
  const char *end = r->at;
  eqn->end = jx_reader_loc(r, end);
  r->at = binder;
  bool ok = jx_read_binder(r, jaxpr, &eqn->out[eqn->n_out++]);
  r->at = end;
  return ok;
}
