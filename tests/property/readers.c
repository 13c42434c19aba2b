// Damaged histories, flags and lists of decisions: their readers end with success or with errors, and what was read
// can be used: every state of a history shown, flags printed and read again.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/decisions.h"
#include "hilo/dump.h"
#include "hilo/flags.h"

enum { ROUNDS = 4000 };

static const char *const histories[] = {
    "hilo-history 1\n@ 0000.a\n+3\none\ntwo\nthree\n@ 0001.b\n=1\n-1\n+2\nx\ny\n=1\n@ 0002.c\n-4\n",
    "hilo-history 1\n@ first\n+1\n@ not a step\n@ second\n=1\n",
};
static const char *const flag_lists[] = {
    "--xla_dump_to=/tmp/x --xla_dump_hlo_as_text --xla_fuel='a=1,b=2' "
    "--xla_dump_hlo_pass_re=\"a\\\"b.*\"",
    "--xla_dump_max_hlo_modules=-3 --xla_enable_dumping=FALSE --no_such_flag=1 stop "
    "--xla_dump_hlo_as_dot",
};
static const char *const option_lists[] = {
    "xla_dump_to: \"a\\\\b\\n\\303\\251\"\nxla_dump_hlo_as_text: true\n# "
    "c\nxla_dump_max_hlo_modules: 12\n",
    "xla_fuel: \"dce=1\"\nunknown_one: 7\n  xla_disable_all_hlo_passes: 1\n",
};
static const char *const decision_lists[] = {
    "[{\"pass\": \"algsimp\", \"rule\": \"A1\", \"computation\": \"main\", \"instruction\": \"a\", "
    "\"with\": \"\"}, {}]",
    "[{\"pass\": 1}, null, [], \"text\", {\"rule\": \"\\u0041\"}]",
};

// A seed with some bytes changed, doubled, cut or swapped for another seed's.
static HlSource *damage(HlRng *rng, const char *const *seeds, int n_seeds) {
  const char *seed = seeds[hl_rng_below(rng, n_seeds)];
  HlBuf out = {0};
  hl_buf_puts(&out, seed);
  for (int64_t k = hl_rng_below(rng, 6); k > 0 && out.n > 1; k--) {
    size_t at = (size_t)hl_rng_below(rng, (int64_t)out.n);
    size_t length = 1 + (size_t)hl_rng_below(rng, 8);
    if (length > out.n - at)
      length = out.n - at;
    switch (hl_rng_below(rng, 4)) {
    case 0: out.at[at] = (char)hl_rng_below(rng, 256); break;
    case 1: out.at[at] = "0123456789\n\"'\\=-+@ "[hl_rng_below(rng, 19)]; break;
    case 2:
      memmove(out.at + at, out.at + at + length, out.n - at - length);
      out.n -= length;
      break;
    default: {
      char copy[8];
      memcpy(copy, out.at + at, length);
      hl_buf_add(&out, copy, length);
    }
    }
  }
  return hl_source_take("damaged", &out, false);
}

static void history_survives(void **state) {
  (void)state;
  HlRng rng = {1};
  for (int k = 0; k < ROUNDS; k++) {
    HlCx *cx = hl_cx_new();
    HlSource *source = damage(&rng, histories, HL_COUNT_OF(histories));
    HlHistory *h = hl_history_read_source(cx, source);
    assert_int_equal(h == NULL, hl_cx_n_errors(cx) > 0);
    for (int step = 0; h && step < hl_history_steps(h); step++) {
      HlBuf text = {0};
      int gone, come;
      assert_non_null(hl_history_name(h, step, &gone, &come));
      hl_history_state(h, step, &text);
      hl_buf_free(&text);
    }
    hl_history_free(h);
    hl_source_unref(source);
    hl_cx_free(cx);
  }
}

// What is printed reads back as the same.
static void check_printed(HlCx *cx, const HlFlags *flags) {
  HlFlags again = {0};
  HlBuf text = {0}, second = {0};
  hl_flags_print(flags, &text);
  hl_cx_clear(cx);
  HlSource *printed = hl_source_new("printed", text.at ? text.at : "", text.n, false);
  assert_true(hl_flags_debug_options_source(cx, &again, printed));
  hl_flags_print(&again, &second);
  assert_int_equal(text.n, second.n);
  if (text.n > 0)
    assert_memory_equal(text.at, second.at, text.n);
  hl_source_unref(printed);
  hl_buf_free(&text);
  hl_buf_free(&second);
  hl_flags_free(&again);
}

static void flags_survive(void **state) {
  (void)state;
  HlRng rng = {2};
  for (int k = 0; k < ROUNDS; k++) {
    HlCx *cx = hl_cx_new();
    HlFlags flags = {0};
    bool is_list = k % 2 == 0, ok = true;
    HlSource *source = is_list ? damage(&rng, flag_lists, HL_COUNT_OF(flag_lists))
                               : damage(&rng, option_lists, HL_COUNT_OF(option_lists));
    HlStr bytes = hl_source_bytes(source);
    size_t blanks = strspn(bytes.at, " \t\r\n");
    if (!is_list)
      ok = hl_flags_debug_options_source(cx, &flags, source);
    else if (bytes.at[blanks] == '-')  // else it is a file's name
      ok = hl_flags_text(cx, &flags, bytes.at);
    assert_int_equal(ok, hl_cx_n_errors(cx) == 0);
    check_printed(cx, &flags);
    hl_flags_free(&flags);
    hl_source_unref(source);
    hl_cx_free(cx);
  }
}

static void decisions_survive(void **state) {
  (void)state;
  HlRng rng = {3};
  for (int k = 0; k < ROUNDS; k++) {
    HlCx *cx = hl_cx_new();
    HlArena *arena = hl_arena_new();
    HlSource *source = damage(&rng, decision_lists, HL_COUNT_OF(decision_lists));
    HlDecision *list;
    int n;
    bool ok = hl_decisions_read(cx, source, arena, &list, &n);
    assert_int_equal(ok, hl_cx_n_errors(cx) == 0);
    for (int j = 0; ok && j < n; j++)
      assert_true(list[j].pass && list[j].rule && list[j].comp && list[j].inst && list[j].with);
    hl_source_unref(source);
    hl_arena_free(arena);
    hl_cx_free(cx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(history_survives),
      cmocka_unit_test(flags_survive),
      cmocka_unit_test(decisions_survive),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
