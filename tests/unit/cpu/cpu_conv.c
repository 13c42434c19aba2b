// Convolutions on the CPU beside the interpreter: random windows, labels, layouts, groups and types; networks' layers and
// their gradients as JAX writes them; by every level of vector instructions that this machine has.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/conv/conv.h"
#include "hilo/text.h"
#include "support/cpu_check.h"

enum { TEXT = 4096, SPATIAL = 3 };

static void check(const char *text, const CpuCheck *options) {
  char *wrong = cpu_check(text, options);
  if (wrong)
    print_error("%s\n%s\n", text, wrong);
  assert_null(wrong);
  free(wrong);
}

// --- Random ones --------------------------------------------------------------------------------

static void shuffle(HlRng *rng, int *at, int n) {
  for (int k = 0; k < n; k++)
    at[k] = k;
  for (int k = n - 1; k > 0; k--) {
    const int j = (int)hl_rng_below(rng, k + 1), t = at[k];
    at[k] = at[j];
    at[j] = t;
  }
}

// The shape of dimensions [first, second, spatial...] in a random order and layout; its labels go to `labels`.
static void put_shape(HlRng *rng, HlBuf *out, HlBuf *labels, const char *dtype, const char *names,
                      int64_t first, int64_t second, const int64_t *size, int spatial) {
  const int rank = spatial + 2;
  int order[SPATIAL + 2], layout[SPATIAL + 2];
  shuffle(rng, order, rank);
  shuffle(rng, layout, rank);
  hl_buf_printf(out, "%s[", dtype);
  for (int k = 0; k < rank; k++) {
    const int d = order[k];
    hl_buf_printf(out, "%s%" PRId64, k ? "," : "", d == 0 ? first : d == 1 ? second : size[d - 2]);
    hl_buf_printf(labels, "%c", d < 2 ? names[d] : (char)('0' + d - 2));
  }
  hl_buf_puts(out, "]{");
  for (int k = 0; k < rank; k++)
    hl_buf_printf(out, "%s%d", k ? "," : "", layout[k]);
  hl_buf_puts(out, "}");
}

static int64_t some(HlRng *rng, int64_t least, int64_t most) {
  return least + hl_rng_below(rng, most - least + 1);
}

typedef struct Sizes {
  int64_t in[SPATIAL], window[SPATIAL], out[SPATIAL];
} Sizes;

// A window="..." of its own for each dimension, and the sizes that go with it.
static void put_window(HlRng *rng, HlBuf *out, Sizes *s, int spatial) {
  HlBuf part[6] = {0};
  for (int d = 0; d < spatial; d++) {
    int64_t low, high, whole, seen, stride = some(rng, 1, 3), lhs, rhs;
    do {
      s->in[d] = some(rng, 1, 8);
      s->window[d] = some(rng, 1, 4);
      low = some(rng, -2, 4);
      high = some(rng, -2, 4);
      lhs = hl_rng_below(rng, 3) ? 1 : some(rng, 2, 4);
      rhs = hl_rng_below(rng, 3) ? 1 : some(rng, 2, 3);
      whole = (s->in[d] - 1) * lhs + 1 + low + high;
      seen = (s->window[d] - 1) * rhs + 1;
    } while (whole < seen);
    s->out[d] = (whole - seen) / stride + 1;
    const char *x = d ? "x" : "";
    hl_buf_printf(&part[0], "%s%" PRId64, x, s->window[d]);
    hl_buf_printf(&part[1], "%s%" PRId64, x, stride);
    hl_buf_printf(&part[2], "%s%" PRId64 "_%" PRId64, x, low, high);
    hl_buf_printf(&part[3], "%s%" PRId64, x, lhs);
    hl_buf_printf(&part[4], "%s%" PRId64, x, rhs);
    hl_buf_printf(&part[5], "%s%d", x, (int)hl_rng_below(rng, 4) == 0);
  }
  static const char *const name[] = {"size",       "stride",     "pad",
                                     "lhs_dilate", "rhs_dilate", "rhs_reversal"};
  if (spatial > 0) {
    hl_buf_puts(out, ", window={");
    for (int k = 0; k < 6; k++)
      hl_buf_printf(out, "%s%s=%s", k ? " " : "", name[k], part[k].at);
    hl_buf_puts(out, "}");
  }
  for (int k = 0; k < 6; k++)
    hl_buf_free(&part[k]);
}

typedef struct Types {
  const char *x, *w, *y;
} Types;

static char *random_text(HlRng *rng, Types types) {
  const int spatial = (int)hl_rng_below(rng, SPATIAL + 1);
  Sizes s;
  HlBuf window = {0}, x = {0}, w = {0}, y = {0}, labels = {0}, text = {0};
  put_window(rng, &window, &s, spatial);
  const int64_t groups = hl_rng_below(rng, 2) ? 1 : some(rng, 2, 20);
  const bool of_batch = hl_rng_below(rng, 2);
  const int64_t batches = some(rng, 1, 3), features = hl_rng_below(rng, 3) ? some(rng, 1, 9) : 1;
  const int64_t outputs = groups > 1 ? some(rng, 1, 3) : some(rng, 1, 40);
  put_shape(rng, &x, &labels, types.x, "bf", of_batch ? batches * groups : batches,
            of_batch ? features : features * groups, s.in, spatial);
  hl_buf_puts(&labels, "_");
  put_shape(rng, &w, &labels, types.w, "io", features, outputs * groups, s.window, spatial);
  hl_buf_puts(&labels, "->");
  put_shape(rng, &y, &labels, types.y, "bf", batches, outputs * groups, s.out, spatial);
  hl_buf_printf(&text,
                "HloModule m\nENTRY e {\n  x = %s parameter(0)\n  w = %s parameter(1)\n"
                "  ROOT y = %s convolution(x, w)%s, dim_labels=%s",
                x.at, w.at, y.at, window.at ? window.at : "", labels.at);
  if (groups > 1)
    hl_buf_printf(&text, ", %s_group_count=%" PRId64, of_batch ? "batch" : "feature", groups);
  hl_buf_puts(&text, "\n}\n");
  hl_buf_free(&window);
  hl_buf_free(&x);
  hl_buf_free(&w);
  hl_buf_free(&y);
  hl_buf_free(&labels);
  return text.at;
}

static void random_ones(const Types *types, int n_types, int n) {
  HlRng rng = {7};
  int n_levels[CPU_LEVELS] = {0};
  for (int k = 0; k < n; k++) {
    char *text = random_text(&rng, types[k % n_types]);
    const CpuLevel level = (CpuLevel)(k / n_types % CPU_LEVELS);
    if (cpu_runs(level)) {
      n_levels[level]++;
      check(text, &(CpuCheck){.kind = "conv",
                              .has_level = true,
                              .level = level,
                              .seed = (uint64_t)k,
                              .threads = 1 + k % 3});
    }
    free(text);
  }
  for (int level = 0; level < CPU_LEVELS; level++)
    assert_true(n_levels[level] >= n / CPU_LEVELS || !cpu_runs((CpuLevel)level));
}

static void test_random_floats(void **state) {
  random_ones(&(Types){"f32", "f32", "f32"}, 1, 300);
}

static void test_random_types(void **state) {
  static const Types types[] = {
      {"f64", "f64", "f64"}, {"s32", "s32", "s32"}, {"u32", "u32", "u32"},    {"s64", "s64", "s64"},
      {"u64", "u64", "u64"}, {"c64", "c64", "c64"}, {"c128", "c128", "c128"},
  };
  random_ones(types, (int)(sizeof types / sizeof *types), 42 * 7);
}

// --- Layers of networks, and their gradients ----------------------------------------------------

typedef struct Layer {
  int64_t n, size, in, out, window, stride, low, high, groups;
} Layer;

static const Layer layers[] = {
    {2, 12, 16, 32, 3, 1, 1, 1, 1},   // resnet's blocks
    {2, 11, 24, 40, 3, 2, 0, 1, 1},   //
    {1, 7, 70, 50, 3, 1, 1, 1, 1},    // a long sum
    {1, 23, 3, 16, 7, 2, 3, 3, 1},    // its first layer
    {2, 9, 33, 31, 1, 1, 0, 0, 1},    // 1x1
    {2, 9, 16, 20, 1, 2, 0, 0, 1},    // 1x1, stride 2
    {1, 14, 48, 48, 3, 1, 1, 1, 48},  // depthwise
    {2, 13, 24, 48, 5, 2, 2, 2, 24},  // depthwise, two outputs each
    {1, 10, 32, 32, 3, 1, 1, 1, 8},   // groups
    {1, 16, 4, 70, 16, 16, 0, 0, 1},  // patches
    {4, 40, 8, 16, 3, 1, 1, 1, 1},    // by the weights: a sum that is dealt out
    {2, 20, 90, 40, 3, 1, 1, 1, 1},   // several boxes of places and of the sum
    {1, 26, 72, 24, 3, 1, 1, 1, 2},   // of several groups
};

// The layer; its gradient by the input; its gradient by the weights.
static char *layer_text(const Layer *l, int gradient) {
  const int64_t out = (l->size + l->low + l->high - l->window) / l->stride + 1;
  const int64_t seen = (out - 1) * l->stride + 1, low = l->window - 1 - l->low;
  char *text = malloc(TEXT), x[100], w[100], y[100];
  snprintf(x, sizeof x, "f32[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", l->n, l->size,
           l->size, l->in);
  snprintf(w, sizeof w, "f32[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", l->window,
           l->window, l->in / l->groups, l->out);
  snprintf(y, sizeof y, "f32[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", l->n, out, out,
           l->out);
  const char *head = "HloModule m\nENTRY e {\n  a = %s parameter(0)\n  b = %s parameter(1)\n"
                     "  ROOT c = %s convolution(a, b), window={";
  const int at = gradient == 0   ? snprintf(text, TEXT, head, x, w, y)
                 : gradient == 1 ? snprintf(text, TEXT, head, y, w, x)
                                 : snprintf(text, TEXT, head, x, y, w);
#define TWICE(format) format "x" format
#define I "%" PRId64
  if (gradient == 0)
    snprintf(text + at, (size_t)(TEXT - at),
             "size=" TWICE(I) " stride=" TWICE(I) " pad=" TWICE(
                 I "_" I) "}, dim_labels=b01f_01io->b01f, feature_group_count=" I "\n}\n",
             l->window, l->window, l->stride, l->stride, l->low, l->high, l->low, l->high,
             l->groups);
  else if (gradient == 1)
    snprintf(text + at, (size_t)(TEXT - at),
             "size=" TWICE(I) " pad=" TWICE(I "_" I) " lhs_dilate=" TWICE(
                 I) " rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f\n}\n",
             l->window, l->window, low, l->size + l->window - 1 - seen - low, low,
             l->size + l->window - 1 - seen - low, l->stride, l->stride);
  else
    snprintf(text + at, (size_t)(TEXT - at),
             "size=" TWICE(I) " pad=" TWICE(I "_" I) " rhs_dilate=" TWICE(
                 I) "}, dim_labels=f01b_i01o->01bf, batch_group_count=" I "\n}\n",
             out, out, l->low, l->window - 1 + seen - l->size - l->low, l->low,
             l->window - 1 + seen - l->size - l->low, l->stride, l->stride, l->groups);
#undef TWICE
#undef I
  return text;
}

static void test_layers(void **state) {
  int n = 0;
  for (size_t k = 0; k < sizeof layers / sizeof *layers; k++)
    for (int gradient = 0; gradient < 3; gradient++) {
      if (gradient == 1 && layers[k].groups > 1)
        continue;  // JAX rearranges the weights first: a layer like others
      char *text = layer_text(&layers[k], gradient);
      check(text, &(CpuCheck){.kind = "conv", .seed = k});
      free(text);
      n++;
    }
  assert_int_equal(n, 35);
}

// Of the innermost dimension one element is seen, not the first, by a box that is copied.
static void test_one_inside(void **state) {
  check("HloModule m\nENTRY e {\n  x = f32[1,6,7,2,1] parameter(0)\n"
        "  w = f32[4,7,2,1,2] parameter(1)\n"
        "  ROOT y = f32[1,1,2,2,2] convolution(x, w), window={size=4x7x2 pad=1_0x0_1x0_0 "
        "lhs_dilate=1x1x2 rhs_dilate=2x1x1}, dim_labels=b012f_012io->b012f\n}\n",
        &(CpuCheck){.kind = "conv"});
}

// --- Fusions ------------------------------------------------------------------------------------

// As XLA wraps convolutions: operands in any order, with others that are not looked at.
static void test_fusion(void **state) {
  check("HloModule m\n"
        "f {\n  w = f32[3,3,5,20] parameter(0)\n  other = f32[] parameter(1)\n"
        "  x = f32[2,6,7,5] parameter(2)\n"
        "  ROOT y = f32[2,6,7,20] convolution(x, w), window={size=3x3 pad=1_1x1_1},"
        " dim_labels=b01f_01io->b01f\n}\n"
        "ENTRY e {\n  w = f32[3,3,5,20] parameter(0)\n  o = f32[] parameter(1)\n"
        "  x = f32[2,6,7,5] parameter(2)\n"
        "  ROOT y = f32[2,6,7,20] fusion(w, o, x), kind=kCustom, calls=f\n}\n",
        &(CpuCheck){.kind = "conv"});
}

// --- Winograd -----------------------------------------------------------------------------------

static bool is_winograd(const char *text, CpuLevel level) {
  HlCx *cx = hl_cx_new();
  HlArena *arena = hl_arena_new();
  HlModule *m = hl_text_parse(cx, text);
  CpuMaker maker = {.cx = cx, .arena = arena, .level = level};
  const CpuKernel *kernel = m ? conv_make(&maker, m->entry->root) : NULL;
  const bool is = kernel && ((const ConvKernel *)kernel)->winograd;
  hl_module_free(m);
  hl_arena_free(arena);
  hl_cx_free(cx);
  return is;
}

// Odd sizes, padding of all kinds and none, boxes of features and columns that do not come out even; weights and the order of
// dimensions as gradients have them, turned windows. The bound is that of sums of f32 in another order.
static void test_winograd(void **state) {
  static const char *const convs[][4] = {
      // x, w, y, the rest
      {"f32[2,14,14,32]", "f32[3,3,32,64]", "f32[2,14,14,64]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
      {"f32[1,21,25,48]", "f32[3,3,48,32]", "f32[1,21,25,32]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
      {"f32[3,15,14,80]", "f32[3,3,80,32]", "f32[3,13,16,32]",
       "window={size=3x3 pad=0_0x0_4}, dim_labels=b01f_01io->b01f"},
      {"f32[1,19,22,32]", "f32[3,3,160,32]", "f32[1,20,21,160]",
       "window={size=3x3 pad=3_0x-1_2 rhs_reversal=1x0}, dim_labels=b01f_01oi->b01f"},
      {"f32[24,16,2,32]", "f32[32,3,64,3]", "f32[24,16,2,64]",
       "window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, dim_labels=1b0f_i0o1->1b0f"},
  };
  int n = 0;
  for (size_t k = 0; k < sizeof convs / sizeof *convs; k++)
    for (CpuLevel level = 0; level < CPU_LEVELS; level++) {
      char text[TEXT];
      snprintf(text, sizeof text,
               "HloModule m\nENTRY e {\n  x = %s parameter(0)\n  w = %s parameter(1)\n"
               "  ROOT y = %s convolution(x, w), %s\n}\n",
               convs[k][0], convs[k][1], convs[k][2], convs[k][3]);
      if (!cpu_runs(level))
        continue;
      assert_true(is_winograd(text, level));
      check(text, &(CpuCheck){.kind = "conv",
                              .has_level = true,
                              .level = level,
                              .tolerance = 1e-6,
                              .seed = k,
                              .threads = 1 + n % 3});
      n++;
    }
  assert_true(n >= 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_floats), cmocka_unit_test(test_random_types),
      cmocka_unit_test(test_layers),        cmocka_unit_test(test_one_inside),
      cmocka_unit_test(test_fusion),        cmocka_unit_test(test_winograd),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
