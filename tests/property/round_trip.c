// What a module goes through unchanged: print and parse, proto and back, cloning; the verifier agrees.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/proto.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "support/property.h"

static void print(HlCx *cx, const HlModule *m, bool large, HlBuf *out) {
  HlTextOptions options = {0};
  options.large_constants = hl_switch(large);
  hl_text_print(cx, m, &options, out);
}

// Says which line of two texts differs first.
static bool same_text(const HlBuf *a, const HlBuf *b, char *why, size_t room) {
  if (a->n == b->n && memcmp(a->at, b->at, a->n) == 0)
    return true;
  size_t k = 0, line = 0;
  while (k < a->n && k < b->n && a->at[k] == b->at[k]) {
    if (a->at[k] == '\n')
      line = k + 1;
    k++;
  }
  snprintf(why, room, "texts differ:\n  %.*s\n  %.*s", (int)strcspn(a->at + line, "\n"),
           a->at + line, (int)strcspn(b->at + line, "\n"), b->at + line);
  return false;
}

// A module's text parses to an equal module, whose text stays as it is from then on: the first print
// may list instructions in another order than they were made in, and the order of computations
// follows from that.
static bool text_identity(HlCx *cx, const HlModule *m, bool large, char *why, size_t room) {
  HlBuf text[3] = {{0}, {0}, {0}};
  HlModule *back[2] = {NULL, NULL};
  bool good = true;
  print(cx, m, large, &text[0]);
  for (int k = 0; good && k < 2; k++) {
    back[k] = hl_text_parse(cx, text[k].at);
    good = back[k] != NULL;
    if (good)
      print(cx, back[k], large, &text[k + 1]);
    else
      snprintf(why, room, "what is printed (large constants %d) does not parse", large);
  }
  good = good && same_text(&text[1], &text[2], why, room);
  if (good && large && hl_graph_hash(m) != hl_graph_hash(back[0])) {
    snprintf(why, room, "the graph hash changes through text");
    good = false;
  }
  if (good && large && !hl_graph_equal(cx, m, back[0])) {
    snprintf(why, room, "the graph is not equal to itself through text");
    good = false;
  }
  for (int k = 0; k < 3; k++)
    hl_buf_free(&text[k]);
  for (int k = 0; k < 2; k++)
    hl_module_free(back[k]);
  return good;
}

static bool same_module(HlCx *cx, const HlModule *m, const HlModule *back, const char *what,
                        char *why, size_t room) {
  HlBuf first = {0}, second = {0};
  print(cx, m, true, &first);
  print(cx, back, true, &second);
  bool good = same_text(&first, &second, why, room);
  if (good && hl_graph_hash(m) != hl_graph_hash(back)) {
    snprintf(why, room, "the graph hash changes through %s", what);
    good = false;
  }
  hl_buf_free(&first);
  hl_buf_free(&second);
  return good;
}

static bool proto_identity(HlCx *cx, const HlModule *m, HlProtoForm form, bool as_text, char *why,
                           size_t room) {
  HlBuf bytes = {0};
  const char *what = as_text ? "a text proto" : "a proto";
  if (!hl_proto_write(cx, m, form, as_text, NULL, &bytes)) {
    hl_buf_free(&bytes);
    snprintf(why, room, "cannot be written as %s", what);
    return false;
  }
  HlSource *source = hl_source_take("module", &bytes, !as_text);
  HlModule *back = hl_proto_read(cx, source, NULL);
  hl_source_unref(source);
  if (!back)
    snprintf(why, room, "%s is not read back", what);
  if (back && form != HL_PROTO_WITH_CONFIG) {  // these are the configuration's
    back->replica_count = m->replica_count;
    back->num_partitions = m->num_partitions;
    back->spmd_to_output = m->spmd_to_output;
  }
  bool good = back && same_module(cx, m, back, what, why, room);
  hl_module_free(back);
  return good;
}

static bool clone_identity(HlCx *cx, const HlModule *m, char *why, size_t room) {
  HlModule *clone = hl_clone(cx, m);
  bool good =
      clone && same_module(cx, m, clone, "a clone", why, room) && hl_verify(cx, clone, NULL);
  hl_module_free(clone);
  return good;
}

static bool holds_text(HlCx *cx, const HlModule *m, char *why, size_t room) {
  return text_identity(cx, m, true, why, room) && text_identity(cx, m, false, why, room);
}

static bool holds_proto(HlCx *cx, const HlModule *m, char *why, size_t room) {
  return proto_identity(cx, m, HL_PROTO_MODULE, false, why, room) &&
         proto_identity(cx, m, HL_PROTO_HLO, true, why, room) &&
         proto_identity(cx, m, HL_PROTO_WITH_CONFIG, false, why, room);
}

static void text_round_trip(void **state) {
  assert_int_equal(property_check("text", 8000, false, holds_text), 0);
}
static void proto_round_trip(void **state) {
  assert_int_equal(property_check("proto", 6000, false, holds_proto), 0);
}
static void clones(void **state) {
  assert_int_equal(property_check("clone", 5000, false, clone_identity), 0);
}

static bool is_valid(HlCx *cx, const HlModule *m, char *why, size_t room) {
  snprintf(why, room, "the verifier refuses it");
  return hl_verify(cx, m, NULL);
}

static void validity(void **state) {
  assert_int_equal(property_check("verify", 10000, false, is_valid), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(validity), cmocka_unit_test(text_round_trip),
                                     cmocka_unit_test(proto_round_trip), cmocka_unit_test(clones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
