// Which sizes follow from the size of one dimension (tool/shrink/sizes.h): op by op, through loops, and back.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilo/text.h"
#include "tool/shrink/sizes.h"

typedef struct World {
  HlCx *cx;
  HlModule *m;
  HlArena *arena;
  Sizes sizes;
} World;

static void open_world(World *w, const char *text) {
  w->cx = hl_cx_new();
  w->m = hl_text_parse(w->cx, text);
  assert_non_null(w->m);
  w->arena = hl_arena_new();
  sizes_start(&w->sizes, w->arena, w->m);
}

static void close_world(World *w) {
  sizes_free(&w->sizes);
  hl_arena_free(w->arena);
  hl_module_free(w->m);
  hl_cx_free(w->cx);
}

static const HlInst *inst_named(const World *w, const char *name) {
  for (const HlComp *comp = w->m->first; comp; comp = comp->next)
    for (const HlInst *inst = comp->first; inst; inst = inst->next)
      if (strcmp(inst->name->text, name) == 0)
        return inst;
  fail_msg("no '%s'", name);
  return NULL;
}

static void wish(World *w, const char *name, int d, int64_t size) {
  sizes_wish(&w->sizes, w->sizes.base[inst_named(w, name)->serial] + d, size);
}

static void assert_shape(World *w, const char *name, const char *text) {
  HlBuf out = {0};
  hl_shape_print(&out, sizes_shape(&w->sizes, inst_named(w, name)), false);
  if (strcmp(out.at, text) != 0)
    fail_msg("%s is %s, not %s", name, out.at, text);
  hl_buf_free(&out);
}

static void through_a_reshape(void **state) {
  World w;
  open_world(&w, "HloModule m\nENTRY e {\n"
                 "  x = f32[64] parameter(0)\n"
                 "  q = f32[8,8] reshape(x)\n"
                 "  t = f32[8,8] transpose(q), dimensions={1,0}\n"
                 "  y = f32[64] reshape(t)\n"
                 "  ROOT z = f32[64] tanh(y)\n}\n");
  wish(&w, "x", 0, 32);
  assert_int_equal(w.sizes.n_broken, 0);
  assert_shape(&w, "q", "f32[4,8]");
  assert_shape(&w, "t", "f32[8,4]");
  assert_shape(&w, "z", "f32[32]");
  sizes_forget(&w.sizes);
  assert_shape(&w, "q", "f32[8,8]");
  wish(&w, "z", 0, 1);
  assert_int_equal(w.sizes.n_broken, 0);
  assert_shape(&w, "x", "f32[1]");
  sizes_forget(&w.sizes);
  wish(&w, "x", 0, 63);  // no factor of it gives that
  assert_int_equal(w.sizes.n_broken, 1);
  assert_true(w.sizes.broken[inst_named(&w, "q")->serial]);
  assert_shape(&w, "q", "f32[8,8]");
  close_world(&w);
}

static void through_slices_and_paddings(void **state) {
  World w;
  open_world(&w, "HloModule m\nENTRY e {\n"
                 "  x = f32[10] parameter(0)\n"
                 "  s = f32[6] slice(x), slice={[2:8]}\n"
                 "  zero = f32[] constant(0)\n"
                 "  p = f32[9] pad(s, zero), padding=1_2\n"
                 "  ROOT c = f32[19] concatenate(x, p), dimensions={0}\n}\n");
  wish(&w, "x", 0, 4);
  assert_int_equal(w.sizes.n_broken, 0);
  assert_shape(&w, "s", "f32[4]");
  assert_shape(&w, "p", "f32[7]");
  assert_shape(&w, "c", "f32[11]");
  sizes_forget(&w.sizes);
  wish(&w, "p", 0, 2);
  assert_shape(&w, "s", "f32[1]");
  assert_shape(&w, "x", "f32[10]");
  const Local *pad = w.sizes.local[inst_named(&w, "p")->serial];
  assert_int_equal(pad->ints[0], 1);
  assert_int_equal(pad->ints[1], 0);
  close_world(&w);
}

static void through_windows(void **state) {
  World w;
  open_world(
      &w,
      "HloModule m\n"
      "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n"
      "ENTRY e {\n"
      "  x = f32[1,28,28,8] parameter(0)\n"
      "  k = f32[3,3,2,16] parameter(1)\n"
      "  c = f32[1,28,26,16] convolution(x, k), window={size=3x3 pad=1_1x0_0}, "
      "dim_labels=b01f_01io->b01f, feature_group_count=4\n"
      "  zero = f32[] constant(0)\n"
      "  ROOT p = f32[1,14,13,16] reduce-window(c, zero), "
      "window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add\n}\n");
  wish(&w, "x", 1, 14);
  assert_shape(&w, "c", "f32[1,14,26,16]");
  assert_shape(&w, "p", "f32[1,7,13,16]");
  sizes_forget(&w.sizes);
  wish(&w, "x", 2, 1);  // smaller than the window
  assert_int_equal(w.sizes.n_broken, 0);
  assert_shape(&w, "k", "f32[3,1,2,16]");
  assert_shape(&w, "c", "f32[1,28,1,16]");
  assert_shape(&w, "p", "f32[1,14,1,16]");
  sizes_forget(&w.sizes);
  wish(&w, "x", 3, 2);  // one group of two
  assert_int_equal(w.sizes.n_broken, 0);
  assert_shape(&w, "c", "f32[1,28,26,4]");
  assert_int_equal(w.sizes.local[inst_named(&w, "c")->serial]->now[0], 1);
  close_world(&w);
}

static const char loop[] = "HloModule m\n"
                           "body {\n"
                           "  s = (s32[], f32[8,5]) parameter(0)\n"
                           "  i = s32[] get-tuple-element(s), index=0\n"
                           "  x = f32[8,5] get-tuple-element(s), index=1\n"
                           "  y = f32[8,5] custom-call(x), custom_call_target=\"f\"\n"
                           "  ROOT r = (s32[], f32[8,5]) tuple(i, y)\n}\n"
                           "cond {\n"
                           "  given = (s32[], f32[8,5]) parameter(0)\n"
                           "  ROOT go = pred[] constant(false)\n}\n"
                           "ENTRY e {\n"
                           "  a = f32[8,5] parameter(0)\n"
                           "  zero = s32[] constant(0)\n"
                           "  t = (s32[], f32[8,5]) tuple(zero, a)\n"
                           "  w = (s32[], f32[8,5]) while(t), condition=cond, body=body\n"
                           "  ROOT o = f32[8,5] get-tuple-element(w), index=1\n}\n";

static void through_loops(void **state) {
  World w;
  open_world(&w, loop);
  wish(&w, "o", 0, 3);
  assert_int_equal(w.sizes.n_broken, 0);
  assert_shape(&w, "a", "f32[3,5]");
  assert_shape(&w, "given", "(s32[], f32[3,5])");
  assert_shape(&w, "y", "f32[3,5]");
  close_world(&w);
}

static void an_op_without_a_rule_is_cut_out(void **state) {
  World w;
  open_world(&w, loop);
  w.sizes.strict = true;
  wish(&w, "o", 0, 3);
  assert_int_equal(w.sizes.n_broken, 1);
  assert_true(w.sizes.broken[inst_named(&w, "y")->serial]);
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(through_a_reshape),
      cmocka_unit_test(through_slices_and_paddings),
      cmocka_unit_test(through_windows),
      cmocka_unit_test(through_loops),
      cmocka_unit_test(an_op_without_a_rule_is_cut_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
