// Tile programs beside the interpreter: every op that only moves or computes elements, alone and fused, over all element types,
// layouts, odd and empty sizes. What moves or computes exactly has the same bits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "support/cpu_check.h"

enum { TEXT = 8192 };

// `comps` and the entry's lines, by all levels that this machine has.
static void check_as(const char *comps, const char *entry, double tolerance) {
  char text[TEXT];
  snprintf(text, sizeof text, "HloModule m\n%s\nENTRY e {\n%s\n}\n", comps, entry);
  for (int how = 0; how < 2 * CPU_LEVELS; how++) {  // without machine code and with it
    const int level = how / 2;
    if (!cpu_runs((CpuLevel)level) || (level == CPU_V2 && how % 2))
      continue;
    const CpuCheck options = {.kind = "tile",
                              .tolerance = tolerance,
                              .level = (CpuLevel)level,
                              .has_level = true,
                              .no_emit = how % 2 == 0,
                              .seed = (uint64_t)level};
    char *wrong = cpu_check(text, &options);
    if (wrong)
      print_error("%s\n%s%s: %s\n", text, cpu_level_name((CpuLevel)level),
                  how % 2 ? " with machine code" : "", wrong);
    assert_null(wrong);
  }
}

static void same(const char *entry) {
  check_as("", entry, -1);
}

// A fusion of these parameters: "f32[4] s32[]".
static void fused_as(const char *params, const char *body, double tolerance) {
  char comps[TEXT], entry[TEXT], shape[TEXT] = "", list[TEXT] = "", copy[TEXT];
  size_t c = (size_t)snprintf(comps, sizeof comps, "f {\n"), e = 0;
  snprintf(copy, sizeof copy, "%s", params);
  int k = 0;
  for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "), k++) {
    c += (size_t)snprintf(comps + c, sizeof comps - c, "  p%d = %s parameter(%d)\n", k, at, k);
    e += (size_t)snprintf(entry + e, sizeof entry - e, "  p%d = %s parameter(%d)\n", k, at, k);
    snprintf(list + strlen(list), sizeof list - strlen(list), "%sp%d", k ? ", " : "", k);
  }
  const char *root = strstr(body, "ROOT ") + 5;
  root = strstr(root, "= ") + 2;
  const char *end = root;
  for (int depth = 0; *end && (*end != ' ' || depth > 0); end++)
    depth += (*end == '(') - (*end == ')');
  snprintf(shape, sizeof shape, "%.*s", (int)(end - root), root);
  snprintf(comps + c, sizeof comps - c, "%s\n}\n", body);
  snprintf(entry + e, sizeof entry - e, "  ROOT r = %s fusion(%s), kind=kLoop, calls=f", shape,
           list);
  check_as(comps, entry, tolerance);
}

static void fused(const char *params, const char *body) {
  fused_as(params, body, -1);
}

static const char *const TYPES[] = {"pred",
                                    "s1",
                                    "s2",
                                    "s4",
                                    "s8",
                                    "s16",
                                    "s32",
                                    "s64",
                                    "u1",
                                    "u2",
                                    "u4",
                                    "u8",
                                    "u16",
                                    "u32",
                                    "u64",
                                    "f4e2m1fn",
                                    "f6e2m3fn",
                                    "f6e3m2fn",
                                    "f8e3m4",
                                    "f8e4m3",
                                    "f8e4m3fn",
                                    "f8e4m3fnuz",
                                    "f8e4m3b11fnuz",
                                    "f8e5m2",
                                    "f8e5m2fnuz",
                                    "f8e8m0fnu",
                                    "f16",
                                    "bf16",
                                    "f32",
                                    "f64",
                                    "c64",
                                    "c128"};

// The text with each $ replaced by a type.
static const char *of_type(const char *text, const char *type, char *out) {
  size_t n = 0;
  for (; *text; text++) {
    const char plain[] = {*text, 0};
    n += (size_t)snprintf(out + n, TEXT - n, "%s", *text == '$' ? type : plain);
  }
  return out;
}

// --- Moving elements ----------------------------------------------------------------------------

static void moves_every_type(void **state) {
  static const char *const forms[] = {
      "x = $[3,5] parameter(0)\n ROOT t = $[5,3] transpose(x), dimensions={1,0}",
      "x = $[7]{0} parameter(0)\n ROOT b = $[2,7,3] broadcast(x), dimensions={1}",
      "x = $[9,4] parameter(0)\n ROOT s = $[3,2] slice(x), slice={[1:9:3],[1:3]}",
      "x = $[6,5] parameter(0)\n ROOT r = $[6,5] reverse(x), dimensions={0,1}",
      "x = $[4,3] parameter(0)\n y = $[] parameter(1)\n ROOT p = $[8,8] pad(x, y), "
      "padding=1_0_1x-1_6_0",
      "x = $[4,3] parameter(0)\n y = $[4,2] parameter(1)\n z = $[4,1] parameter(2)\n"
      " ROOT c = $[4,6] concatenate(x, y, z), dimensions={1}",
      "x = $[2,6] parameter(0)\n ROOT r = $[3,4] reshape(x)",
      "p = pred[33] parameter(0)\n x = $[33] parameter(1)\n y = $[33] parameter(2)\n ROOT s = "
      "$[33] select(p, x, y)",
      "x = $[3,1500]{1,0} parameter(0)\n ROOT c = $[3,1500]{0,1} copy(x)"};
  char text[TEXT];
  for (int t = 0; t < HL_COUNT_OF(TYPES); t++)
    for (int k = 0; k < HL_COUNT_OF(forms); k++)
      same(of_type(forms[k], TYPES[t], text));
}

static void layouts(void **state) {
  same("x = f32[5,7,3]{0,2,1} parameter(0)\n ROOT c = f32[5,7,3]{1,0,2} copy(x)");
  same("x = f32[5,7,3]{0,2,1} parameter(0)\n y = f32[5,7,3]{2,1,0} parameter(1)\n"
       " ROOT a = f32[5,7,3]{1,2,0} add(x, y)");
  same("x = f32[40,70]{0,1} parameter(0)\n ROOT r = f32[70,40]{0,1} reshape(x)");
  same("x = f32[40,70]{0,1} parameter(0)\n ROOT r = f32[70,40]{1,0} bitcast(x)");
  same("x = f32[300,70]{0,1} parameter(0)\n ROOT r = f32[300,70]{1,0} copy(x)");
  same("x = u8[300,70]{0,1} parameter(0)\n ROOT r = u8[300,70]{1,0} copy(x)");
  same("x = bf16[300,70]{0,1} parameter(0)\n ROOT r = bf16[300,70]{1,0} negate(x)");
  same("x = c64[30,70]{0,1} parameter(0)\n ROOT r = c64[30,70]{1,0} negate(x)");
  same("x = f64[2,1,3,1,2,2,1,3]{0,2,4,6,1,3,5,7} parameter(0)\n"
       " ROOT r = f64[2,1,3,1,2,2,1,3]{7,6,5,4,3,2,1,0} copy(x)");
}

static void sizes(void **state) {
  same("x = f32[] parameter(0)\n ROOT n = f32[] negate(x)");
  same("x = f32[0] parameter(0)\n ROOT n = f32[0] negate(x)");
  same("x = f32[0,3] parameter(0)\n y = f32[] parameter(1)\n ROOT p = f32[2,3] pad(x, y), "
       "padding=1_1x0_0");
  same("x = f32[3,0] parameter(0)\n y = f32[3,2] parameter(1)\n"
       " ROOT p = f32[3,2] concatenate(x, y), dimensions={1}");
  same("x = f32[100001] parameter(0)\n y = f32[100001] parameter(1)\n ROOT p = f32[100001] "
       "subtract(x, y)");
  same("x = f32[1,1,1,1,1,1,1,1] parameter(0)\n ROOT n = f32[1,1,1,1,1,1,1,1] abs(x)");
  same("ROOT i = s32[3,1000] iota(), iota_dimension=1");
  same("ROOT i = bf16[600,3] iota(), iota_dimension=0");
  same("ROOT i = s4[40] iota(), iota_dimension=0");
  same("ROOT i = c64[40] iota(), iota_dimension=0");
  same("ROOT i = f8e5m2[40] iota(), iota_dimension=0");
  same("x = f32[1000,3] parameter(0)\n y = f32[1000,3] parameter(1)\n ROOT p = f32[1000,3] add(x, "
       "y)");
}

// Neighbours of padding, holes and crops along every axis.
static void pads(void **state) {
  same("x = f32[5,6] parameter(0)\n y = f32[] parameter(1)\n ROOT p = f32[10,3] pad(x, y), "
       "padding=2_-1_1x-2_-1_0");
  same("x = f32[50,2100] parameter(0)\n y = f32[] parameter(1)\n ROOT p = f32[50,4203] pad(x, y), "
       "padding=0_0x3_1_1");
  same("x = f32[4] parameter(0)\n y = f32[] parameter(1)\n ROOT p = f32[13] pad(x, y), "
       "padding=-3_12_0");
  same("x = f32[4] parameter(0)\n y = f32[] parameter(1)\n ROOT p = f32[3] pad(x, y), "
       "padding=-5_4_0");
  fused("f32[6] f32[]",
        "n = f32[6] negate(p0)\n q = f32[10] pad(n, p1), padding=2_2\n ROOT r = f32[10] negate(q)");
  fused("f32[6,40] f32[]",
        "a = f32[8,44] pad(p0, p1), padding=1_1x2_2\n b = f32[12,50] pad(a, p1), padding=2_2x3_3\n"
        " ROOT r = f32[12,50] multiply(b, b)");
}

// --- Fusions that move ----------------------------------------------------------------------------

static void compositions(void **state) {
  fused("f32[4,6]", "t = f32[6,4] transpose(p0), dimensions={1,0}\n r = f32[3,8] reshape(t)\n"
                    " v = f32[3,8] reverse(r), dimensions={1}\n ROOT s = f32[3,3] slice(v), "
                    "slice={[0:3],[1:7:2]}");
  fused("f32[24]",
        "a = f32[2,3,4] reshape(p0)\n n = f32[2,3,4] negate(a)\n b = f32[6,4] reshape(n)\n"
        " c = f32[4,6] transpose(b), dimensions={1,0}\n d = f32[8,3] reshape(c)\n ROOT e = "
        "f32[8,3] abs(d)");
  fused("f32[7,1] f32[5]",
        "a = f32[7] reshape(p0)\n x = f32[7,5] broadcast(a), dimensions={0}\n"
        " y = f32[7,5] broadcast(p1), dimensions={1}\n ROOT r = f32[7,5] multiply(x, y)");
  fused("f32[8] f32[8]",
        "a = f32[7] slice(p0), slice={[1:8]}\n b = f32[7] slice(p1), slice={[0:7]}\n"
        " s = f32[7] add(a, b)\n t = f32[7] reverse(s), dimensions={0}\n"
        " ROOT c = f32[14] concatenate(s, t), dimensions={0}");
  fused(
      "f32[3000] f32[2000]",
      "a = f32[5000] concatenate(p0, p1), dimensions={0}\n i = f32[5000] iota(), iota_dimension=0\n"
      " ROOT r = f32[5000] add(a, i)");
  fused("f32[16,9] f32[16,3]",
        "c = f32[16,12] concatenate(p0, p1), dimensions={1}\n r = f32[192] reshape(c)\n"
        " ROOT n = f32[192] negate(r)");
  fused("bf16[70,90]",
        "t = bf16[90,70] transpose(p0), dimensions={1,0}\n ROOT a = bf16[90,70] add(t, t)");
  fused("f32[128,64] f32[64]",
        "b = f32[128,64] broadcast(p1), dimensions={1}\n ROOT a = f32[128,64] add(p0, b)");
  fused("f32[6] s32[6]", "ROOT t = (f32[6], s32[6]) tuple(p0, p1)");
}

static void several_results(void **state) {
  fused("f32[60] f32[60]",
        "a = f32[60] add(p0, p1)\n b = f32[60] multiply(a, p1)\n c = f32[10,6] reshape(b)\n"
        " d = pred[60] compare(a, b), direction=LT\n"
        " u = (f32[10,6], pred[60]) tuple(c, d)\n ROOT t = (f32[60], (f32[10,6], pred[60]), "
        "f32[60]) tuple(a, u, b)");
}

// --- Computing ------------------------------------------------------------------------------------

// All operations that have one right result, of every type that has them.
static void exact_ops(void **state) {
  static const struct {
    const char *name;
    int operands;
    const char *types;  // i integers, s those with a sign, p pred, f floats, c complex numbers
  } ops[] = {{"abs", 1, "sf"},
             {"negate", 1, "ifc"},
             {"sign", 1, "sf"},
             {"not", 1, "ip"},
             {"ceil", 1, "f"},
             {"floor", 1, "f"},
             {"round-nearest-afz", 1, "f"},
             {"round-nearest-even", 1, "f"},
             {"sqrt", 1, "f"},
             {"is-finite", 1, "f"},
             {"count-leading-zeros", 1, "i"},
             {"popcnt", 1, "i"},
             {"add", 2, "ipfc"},
             {"subtract", 2, "ifc"},
             {"multiply", 2, "ipfc"},
             {"mulhi", 2, "i"},
             {"divide", 2, "if"},
             {"remainder", 2, "if"},
             {"maximum", 2, "ipf"},
             {"minimum", 2, "ipf"},
             {"and", 2, "ip"},
             {"or", 2, "ip"},
             {"xor", 2, "ip"},
             {"shift-left", 2, "i"},
             {"shift-right-logical", 2, "i"},
             {"shift-right-arithmetic", 2, "i"},
             {"clamp", 3, "if"}};
  char text[TEXT];
  for (int t = 0; t < HL_COUNT_OF(TYPES); t++) {
    const char *type = TYPES[t];
    const char kind = *type == 's' || *type == 'u' ? 'i' : *type == 'b' ? 'f' : *type;
    for (int k = 0; k < HL_COUNT_OF(ops); k++) {
      if ((!strchr(ops[k].types, kind) && !strchr(ops[k].types, *type)) ||
          (!strcmp(type, "f8e8m0fnu") && !strcmp(ops[k].name, "negate")))
        continue;
      const bool is = !strcmp(ops[k].name, "is-finite");
      size_t n = 0;
      for (int j = 0; j < ops[k].operands; j++)
        n +=
            (size_t)snprintf(text + n, sizeof text - n, "p%d = %s[77] parameter(%d)\n", j, type, j);
      snprintf(text + n, sizeof text - n, "ROOT r = %s[77] %s(%s)", is ? "pred" : type, ops[k].name,
               ops[k].operands == 1   ? "p0"
               : ops[k].operands == 2 ? "p0, p1"
                                      : "p0, p1, p2");
      same(text);
    }
  }
}

static void converts(void **state) {
  char text[TEXT];
  for (int a = 0; a < HL_COUNT_OF(TYPES); a++)
    for (int b = 0; b < HL_COUNT_OF(TYPES); b++) {
      const bool from_wide = strstr(TYPES[a], "64") && (TYPES[a][0] == 's' || TYPES[a][0] == 'u');
      const bool to_narrow = (TYPES[b][0] == 'f' && strlen(TYPES[b]) > 3) ||
                             !strcmp(TYPES[b], "f16") || *TYPES[b] == 'b';
      if ((from_wide && to_narrow) || (*TYPES[a] == 'c' && !strcmp(TYPES[b], "pred")))
        continue;
      snprintf(text, sizeof text, "x = %s[67] parameter(0)\n ROOT c = %s[67] convert(x)", TYPES[a],
               TYPES[b]);
      same(text);
    }
}

static void comparisons(void **state) {
  static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  char text[TEXT];
  for (int t = 0; t < HL_COUNT_OF(TYPES); t++)
    for (int k = 0; k < (TYPES[t][0] == 'c' ? 2 : 6); k++) {
      snprintf(text, sizeof text,
               "x = %s[67] parameter(0)\n y = %s[67] parameter(1)\n ROOT c = pred[67] compare(x, "
               "y), direction=%s",
               TYPES[t], TYPES[t], directions[k]);
      same(text);
    }
  for (int k = 0; k < 6; k++) {
    snprintf(text, sizeof text,
             "x = bf16[67] parameter(0)\n y = bf16[67] parameter(1)\n ROOT c = pred[67] compare(x, "
             "y), direction=%s, type=TOTALORDER",
             directions[k]);
    same(text);
  }
}

static void bits(void **state) {
  same("x = f32[50] parameter(0)\n ROOT b = s32[50] bitcast-convert(x)");
  same("x = u16[50] parameter(0)\n ROOT b = bf16[50] bitcast-convert(x)");
  same("x = f16[50] parameter(0)\n ROOT b = s16[50] bitcast-convert(x)");
  same("x = f16[50] parameter(0)\n ROOT b = bf16[50] bitcast-convert(x)");
  same("x = s4[50] parameter(0)\n ROOT b = u4[50] bitcast-convert(x)");
  same("x = f64[50] parameter(0)\n ROOT b = f64[50] reduce-precision(x), exponent_bits=8, "
       "mantissa_bits=7");
  same("x = f32[500] parameter(0)\n ROOT b = f32[500] reduce-precision(x), exponent_bits=5, "
       "mantissa_bits=10");
  same("x = f32[500] parameter(0)\n ROOT b = f32[500] reduce-precision(x), exponent_bits=8, "
       "mantissa_bits=0");
  same("x = bf16[500] parameter(0)\n ROOT b = bf16[500] reduce-precision(x), exponent_bits=3, "
       "mantissa_bits=3");
  same("x = c64[50] parameter(0)\n ROOT b = f32[50] real(x)");
  same("x = c64[50] parameter(0)\n ROOT b = f32[50] imag(x)");
  same("x = f32[50] parameter(0)\n y = f32[50] parameter(1)\n ROOT b = c64[50] complex(x, y)");
}

// Functions: within XLA's tolerance.
static void functions(void **state) {
  fused_as("f32[1000] f32[1000]",
           "a = f32[1000] multiply(p0, p1)\n b = f32[1000] tanh(a)\n c = f32[1000] "
           "exponential(b)\n d = f32[1000] add(c, p0)\n"
           " e = f32[1000] logistic(d)\n ROOT g = f32[1000] sine(e)",
           0);
}

// --- Reductions ---------------------------------------------------------------------------------

static const char SUM[] =
    "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }";
static const char MAX[] =
    "m { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] maximum(a, b) }";
// The larger value and where it is; of equal ones the first.
static const char ARGMAX[] = "a { x = f32[] parameter(0)\n i = s32[] parameter(1)\n y = f32[] "
                             "parameter(2)\n j = s32[] parameter(3)\n"
                             " g = pred[] compare(x, y), direction=GT\n e = pred[] compare(x, y), "
                             "direction=EQ\n l = pred[] compare(i, j), direction=LT\n"
                             " k = pred[] and(e, l)\n t = pred[] or(g, k)\n v = f32[] select(t, x, "
                             "y)\n n = s32[] select(t, i, j)\n"
                             " ROOT r = (f32[], s32[]) tuple(v, n) }";

static void reductions(void **state) {
  static const struct {
    const char *from, *dims, *to;
  } forms[] = {{"[1000]", "0", "[]"},         {"[7]", "0", "[]"},
               {"[5,3000]", "1", "[5]"},      {"[3000,5]", "0", "[5]"},
               {"[40,50]", "0,1", "[]"},      {"[40,50]{0,1}", "1", "[40]"},
               {"[40,50]{0,1}", "0", "[50]"}, {"[6,7,8]", "1", "[6,8]"},
               {"[6,7,8]", "0,2", "[7]"},     {"[600,7,8]{1,0,2}", "1,2", "[600]"},
               {"[3,1,4]", "1", "[3,4]"},     {"[2,3,4,5,6]", "1,3", "[2,4,6]"},
               {"[70000,3]", "1", "[70000]"}, {"[200000]", "0", "[]"},
               {"[3,0]", "1", "[3]"},         {"[1,1]", "0,1", "[]"},
               {"[4,5]", "", "[4,5]"}};
  char entry[TEXT];
  for (int k = 0; k < HL_COUNT_OF(forms); k++) {
    snprintf(entry, sizeof entry,
             " x = f32%s parameter(0)\n i = f32[] parameter(1)\n ROOT r = f32%s reduce(x, i), "
             "dimensions={%s}, to_apply=s",
             forms[k].from, forms[k].to, forms[k].dims);
    check_as(SUM, entry, 1e-5);
    entry[strlen(entry) - 1] = 'm';
    check_as(MAX, entry, -1);
    snprintf(entry, sizeof entry,
             " x = f32%s parameter(0)\n n = s32%s parameter(1)\n i = f32[] constant(-inf)\n j = "
             "s32[] constant(2147483647)\n"
             " ROOT r = (f32%s, s32%s) reduce(x, n, i, j), dimensions={%s}, to_apply=a",
             forms[k].from, forms[k].from, forms[k].to, forms[k].to, forms[k].dims);
    check_as(ARGMAX, entry, -1);
  }
}

// A body that computes something of what it folds alone; and one operand folded twice.
static void bodies(void **state) {
  check_as("c { a = c64[] parameter(0)\n b = c64[] parameter(1)\n ROOT r = c64[] multiply(a, b) }",
           " x = c64[3,50] parameter(0)\n i = c64[] constant((1, 0))\n ROOT r = c64[3] reduce(x, "
           "i), dimensions={1}, to_apply=c",
           1e-4);
  check_as("c { a = f32[] parameter(0)\n b = f32[] parameter(1)\n n = f32[] abs(b)\n o = f32[] "
           "abs(a)\n ROOT r = f32[] maximum(o, n) }",
           " x = f32[3,5000] parameter(0)\n i = f32[] constant(0)\n ROOT r = f32[3] reduce(x, i), "
           "dimensions={1}, to_apply=c",
           -1);
  check_as(ARGMAX,
           " v = f32[] parameter(0)\n n = s32[3,700] parameter(1)\n i = f32[] constant(-inf)\n j = "
           "s32[] constant(2147483647)\n"
           " x = f32[3,700] parameter(2)\n ROOT r = (f32[3], s32[3]) reduce(x, n, i, j), "
           "dimensions={1}, to_apply=a",
           -1);
  check_as(
      "c { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n d = f32[] "
      "parameter(3)\n"
      " m = f32[] maximum(a, c)\n n = f32[] minimum(b, d)\n ROOT r = (f32[], f32[]) tuple(m, n) }",
      " x = f32[3,700] parameter(0)\n i = f32[] constant(0)\n ROOT r = (f32[3], f32[3]) reduce(x, "
      "x, i, i), dimensions={1}, to_apply=c",
      -1);
}

static void reductions_of_every_type(void **state) {
  char text[TEXT], comps[TEXT], entry[TEXT];
  for (int t = 0; t < HL_COUNT_OF(TYPES); t++)
    for (int by = 0; by < 2; by++) {
      of_type("s { a = $[] parameter(0)\n b = $[] parameter(1)\n ROOT r = $[] add(a, b) }",
              TYPES[t], comps);
      of_type(" x = $[30,33] parameter(0)\n i = $[] parameter(1)\n ROOT r = $[3!] reduce(x, i), "
              "dimensions={?}, to_apply=s",
              TYPES[t], text);
      *strchr(text, '!') = by ? '0' : '3';
      *strchr(text, '?') = by ? '1' : '0';
      snprintf(entry, sizeof entry, "%s", text);
      check_as(comps, entry, *TYPES[t] == 's' || *TYPES[t] == 'u' || *TYPES[t] == 'p' ? -1 : 0);
    }
}

static void fused_reductions(void **state) {
  char comps[TEXT];
  const char *entry =
      " x = f32[70,900] parameter(0)\n ROOT r = f32[70,900] fusion(x), kind=kLoop, calls=f";
  snprintf(comps, sizeof comps,
           "%s\n%s\nf {\n x = f32[70,900] parameter(0)\n i = f32[] constant(-inf)\n z = f32[] "
           "constant(0)\n"
           " m = f32[70] reduce(x, i), dimensions={1}, to_apply=m\n b = f32[70,900] broadcast(m), "
           "dimensions={0}\n"
           " d = f32[70,900] subtract(x, b)\n e = f32[70,900] exponential(d)\n"
           " s = f32[70] reduce(e, z), dimensions={1}, to_apply=s\n c = f32[70,900] broadcast(s), "
           "dimensions={0}\n"
           " ROOT r = f32[70,900] divide(e, c)\n}",
           SUM, MAX);
  check_as(comps, entry, 1e-5);                         // softmax of rows
  for (char *at = comps; (at = strstr(at, "70,900"));)  // of several tiles
    memcpy(at, "9,3000", 6);
  for (char *at = comps; (at = strstr(at, "f32[70]"));)
    memcpy(at, "f32[09]", 7);
  check_as(comps,
           " x = f32[9,3000] parameter(0)\n ROOT r = f32[9,3000] fusion(x), kind=kLoop, calls=f",
           1e-5);
  snprintf(
      comps, sizeof comps,
      "%s\nf {\n x = f32[70,900] parameter(0)\n z = f32[] constant(0)\n n = f32[] constant(70)\n"
      " s = f32[900] reduce(x, z), dimensions={0}, to_apply=s\n v = f32[900] broadcast(n), "
      "dimensions={}\n"
      " q = f32[900] divide(s, v)\n b = f32[70,900] broadcast(q), dimensions={1}\n d = f32[70,900] "
      "subtract(x, b)\n"
      " p = f32[70,900] multiply(d, d)\n w = f32[900] reduce(p, z), dimensions={0}, to_apply=s\n"
      " u = f32[900] rsqrt(w)\n c = f32[70,900] broadcast(u), dimensions={1}\n ROOT r = "
      "f32[70,900] multiply(d, c)\n}",
      SUM);
  check_as(comps, entry, 1e-5);  // columns normalised
  snprintf(
      comps, sizeof comps,
      "%s\nf {\n x = f32[70,900] parameter(0)\n z = f32[] constant(0)\n e = f32[70,900] abs(x)\n"
      " s = f32[70] reduce(e, z), dimensions={1}, to_apply=s\n t = f32[] reduce(s, z), "
      "dimensions={0}, to_apply=s\n"
      " b = f32[70,900] broadcast(t), dimensions={}\n ROOT r = f32[70,900] subtract(x, b)\n}",
      SUM);
  check_as(comps, entry, 1e-5);  // a reduction of a reduction
  snprintf(
      comps, sizeof comps,
      "%s\nf {\n x = f32[70,900] parameter(0)\n z = f32[] constant(0)\n e = f32[70,900] abs(x)\n"
      " s = f32[70] reduce(e, z), dimensions={1}, to_apply=s\n t = f32[900] reduce(e, z), "
      "dimensions={0}, to_apply=s\n"
      " ROOT r = (f32[70,900], f32[70], f32[900]) tuple(e, s, t)\n}",
      SUM);
  check_as(comps,
           " x = f32[70,900] parameter(0)\n ROOT r = (f32[70,900], f32[70], f32[900]) fusion(x), "
           "kind=kLoop, calls=f",
           1e-5);
}

// So long that threads share them: sums whose parts do not come out even, from an initial value that counts once. And such as
// fold short pieces of rows, at both ends of what is taken so.
static void reductions_in_parts(void **state) {
  static const char *const forms[][3] = {{"[1100003]", "0", "[]"},
                                         {"[7,200001]", "0,1", "[]"},
                                         {"[2,600000]", "1", "[2]"},
                                         {"[3,2,200000]", "0,2", "[2]"},
                                         {"[800,3,700]", "2,0", "[3]"},
                                         {"[1000,1300]{0,1}", "0,1", "[]"},
                                         {"[3,70,17,5]", "1,3", "[3,17]"},
                                         {"[32,90,8]{2,0,1}", "1,2", "[32]"},
                                         {"[2,5,9,6,11,2]", "1,2,5", "[2,6,11]"},
                                         {"[70,3,64]", "0,2", "[3]"},
                                         {"[70,3,65]", "0,2", "[3]"}};
  static const struct {
    const char *dtype, *op;
  } folds[] = {{"f32", "add"},     {"s32", "add"},     {"bf16", "add"},
               {"f32", "maximum"}, {"u8", "multiply"}, {"pred", "and"}};
  char comps[TEXT], entry[TEXT], text[TEXT];
  for (int k = 0; k < HL_COUNT_OF(folds); k++) {
    const char *dtype = folds[k].dtype;
    snprintf(text, sizeof text,
             "s { a = $[] parameter(0)\n b = $[] parameter(1)\n ROOT r = $[] %s(a, b) }",
             folds[k].op);
    of_type(text, dtype, comps);
    for (int f = 0; f < HL_COUNT_OF(forms); f++) {
      snprintf(entry, sizeof entry,
               " x = %s%s parameter(0)\n i = %s[] parameter(1)\n ROOT r = %s%s reduce(x, i), "
               "dimensions={%s}, to_apply=s",
               dtype, forms[f][0], dtype, dtype, forms[f][2], forms[f][1]);
      check_as(comps, entry, k == 0 ? 1e-3 : k == 2 ? 0 : -1);
    }
  }
  snprintf(comps, sizeof comps,
           "%s\nf {\n x = f32[700,1001] parameter(0)\n y = f32[700,1001] parameter(1)\n z = f32[] "
           "constant(3)\n d = f32[700,1001] subtract(x, y)\n p = f32[700,1001] multiply(d, d)\n"
           " s = f32[] reduce(p, z), dimensions={0,1}, to_apply=s\n t = f32[] reduce(x, z), "
           "dimensions={0,1}, to_apply=s\n n = f32[] constant(0.01)\n m = f32[] multiply(s, n)\n"
           " v = f32[1001] reduce(d, z), dimensions={0}, to_apply=s\n u = f32[] reduce(v, z), "
           "dimensions={0}, to_apply=s\n ROOT r = (f32[], f32[], f32[]) tuple(m, t, u)\n}",
           SUM);
  check_as(comps,
           " x = f32[700,1001] parameter(0)\n y = f32[700,1001] parameter(1)\n ROOT r = (f32[], "
           "f32[], f32[]) fusion(x, y), kind=kLoop, calls=f",
           1e-3);
}

// A normalisation of groups of features: the mean and the variance around it, in one fusion and by itself.
static void normalised_groups(void **state) {
  static const char *const dtypes[] = {"f32", "f64", "bf16"};
  char comps[TEXT], text[TEXT];
  for (int k = 0; k < HL_COUNT_OF(dtypes); k++) {
    of_type("s { a = $[] parameter(0)\n b = $[] parameter(1)\n ROOT r = $[] add(a, b) }\n"
            "f {\n x = $[3,90,16,4] parameter(0)\n m = $[3,16] parameter(1)\n z = $[] constant(1)\n"
            " b = $[3,90,16,4] broadcast(m), dimensions={0,2}\n d = $[3,90,16,4] subtract(x, b)\n"
            " q = $[3,90,16,4] multiply(d, d)\n v = $[3,16] reduce(q, z), dimensions={1,3}, "
            "to_apply=s\n w = $[3,16] reduce(d, z), dimensions={1,3}, to_apply=s\n"
            " ROOT r = ($[3,16], $[3,16]) tuple(v, w)\n}",
            dtypes[k], comps);
    of_type(" x = $[3,90,16,4] parameter(0)\n m = $[3,16] parameter(1)\n ROOT r = ($[3,16], "
            "$[3,16]) fusion(x, m), kind=kLoop, calls=f",
            dtypes[k], text);
    check_as(comps, text, k == 2 ? 2e-2 : 1e-3);
  }
}

// What is the same for pieces of a row, and for every turn of the loop around, beside what is not: of sizes that fill one tile,
// less, and more.
static void pieces_of_rows(void **state) {
  static const char *const dtypes[] = {"f32", "bf16", "c64", "s8"};
  static const char *const dims[][3] = {{"[3,90,16,4]", "[3,16]", "[16,4]"},
                                        {"[2,30,70,20]", "[2,70]", "[70,20]"},
                                        {"[4,50,32,2]", "[4,32]", "[32,2]"},
                                        {"[2,9,4,700]", "[2,4]", "[4,700]"}};
  char comps[TEXT], entry[TEXT], text[TEXT];
  for (int k = 0; k < HL_COUNT_OF(dtypes); k++)
    for (int d = 0; d < HL_COUNT_OF(dims); d++) {
      const char *x = dims[d][0], *m = dims[d][1], *g = dims[d][2];
      snprintf(
          text, sizeof text,
          "f {\n x = $%s parameter(0)\n m = $%s parameter(1)\n v = $%s parameter(2)\n g = $%s "
          "parameter(3)\n mb = $%s broadcast(m), dimensions={0,2}\n vb = $%s broadcast(v), "
          "dimensions={0,2}\n gb = $%s broadcast(g), dimensions={2,3}\n s = $%s subtract(x, mb)\n"
          " t = $%s multiply(s, vb)\n u = $%s multiply(t, gb)\n ROOT r = $%s add(u, gb)\n}",
          x, m, m, g, x, x, x, x, x, x, x);
      of_type(text, dtypes[k], comps);
      snprintf(text, sizeof text,
               " x = $%s parameter(0)\n m = $%s parameter(1)\n v = $%s parameter(2)\n g = $%s "
               "parameter(3)\n ROOT r = $%s fusion(x, m, v, g), kind=kLoop, calls=f",
               x, m, m, g, x);
      of_type(text, dtypes[k], entry);
      check_as(comps, entry, -1);
    }
}

// --- Computed indices ---------------------------------------------------------------------------

static void indices(void **state) {
  static const char *const types[] = {"s32", "s8", "u32", "u64", "s64", "u8"};
  char entry[TEXT], body[TEXT];
  for (int t = 0; t < HL_COUNT_OF(types); t++) {
    of_type(" x = f32[7,9] parameter(0)\n i = $[] parameter(1)\n j = $[] parameter(2)\n"
            " ROOT d = f32[3,9] dynamic-slice(x, i, j), dynamic_slice_sizes={3,9}",
            types[t], entry);
    same(entry);
    of_type(" x = bf16[7,9] parameter(0)\n u = bf16[3,2] parameter(1)\n i = $[] parameter(2)\n j = "
            "$[] parameter(3)\n"
            " ROOT d = bf16[7,9] dynamic-update-slice(x, u, i, j)",
            types[t], entry);
    same(entry);
    of_type(" x = f32[7,9] parameter(0)\n i = $[4,2] parameter(1)\n"
            " ROOT d = f32[4,3,2] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, "
            "start_index_map={1,0},"
            " index_vector_dim=1, slice_sizes={3,2}",
            types[t], entry);
    same(entry);
    of_type(" x = c64[50,3] parameter(0)\n i = $[600] parameter(1)\n"
            " ROOT d = c64[600,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
            "start_index_map={0},"
            " index_vector_dim=1, slice_sizes={1,3}",
            types[t], entry);
    same(entry);
    of_type("n = f32[50] negate(p0)\n g = f32[2000] gather(n, p1), offset_dims={}, "
            "collapsed_slice_dims={0},"
            " start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n ROOT m = f32[2000] "
            "multiply(g, p2)",
            types[t], body);
    char params[TEXT];
    of_type("f32[50] $[2000] f32[2000]", types[t], params);
    fused(params, body);
  }
  same(" x = f32[2,5,4] parameter(0)\n i = s32[3,2,1] parameter(1)\n"
       " ROOT d = f32[3,2,4] gather(x, i), offset_dims={2}, collapsed_slice_dims={1}, "
       "start_index_map={1},"
       " operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=2, "
       "slice_sizes={1,1,4}");
  fused(
      "f32[20,30] s32[]",
      "z = s32[] constant(0)\n d = f32[5,30] dynamic-slice(p0, p1, z), dynamic_slice_sizes={5,30}\n"
      " r = f32[150] reshape(d)\n ROOT n = f32[150] negate(r)");
}

#define ROWS_OF(shape)                                                          \
  " three = s32[] constant(3)\n k = s32[200] broadcast(three), dimensions={}\n" \
  " ten = s32[] constant(10)\n t = s32[200] broadcast(ten), dimensions={}\n"    \
  " n = s32[200] multiply(p1, k)\n i = s32[200] subtract(n, t)\n"               \
  " g = " shape " gather(p0, i), offset_dims={1}, collapsed_slice_dims={0},"    \
  " start_index_map={0}, index_vector_dim=1, slice_sizes={1,12}\n"

// Rows of computed places, most of them outside; by layouts, as they are and computed with, and with their own indices.
static void rows(void **state) {
  static const char *const types[] = {"f32", "u8", "f64", "bf16", "c64", "pred"};
  char params[TEXT], body[TEXT];
  for (int t = 0; t < HL_COUNT_OF(types); t++) {
    of_type("$[40,12] s32[200]", types[t], params);
    of_type(ROWS_OF("$[200,12]") " ROOT c = $[200,12] copy(g)", types[t], body);
    fused(params, body);
    of_type(ROWS_OF("$[200,12]") " ROOT c = $[200,12]{0,1} copy(g)", types[t], body);
    fused(params, body);
    of_type("$[40,12]{0,1} s32[200]", types[t], params);
    fused(params, body);
  }
  fused("f32[40,12] s32[200]",
        ROWS_OF("f32[200,12]") " v = f32[200] convert(i)\n b = f32[200,12] broadcast(v), "
                               "dimensions={0}\n ROOT a = f32[200,12] add(g, b)");
  fused("bf16[40,12] s32[200] bf16[12]",
        ROWS_OF("bf16[200,12]") " b = bf16[200,12] broadcast(p2), dimensions={1}\n"
                                " ROOT a = bf16[200,12] add(g, b)");
  fused("f32[40,12] s32[40]",  // indices that are looked up themselves
        "i = s32[200] iota(), iota_dimension=0\n j = s32[200] gather(p1, i), offset_dims={},"
        " collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n"
        " g = f32[200,12] gather(p0, j), offset_dims={1}, collapsed_slice_dims={0},"
        " start_index_map={0}, index_vector_dim=1, slice_sizes={1,12}\n"
        " ROOT r = f32[200,12] reverse(g), dimensions={0,1}");
}

static void updates(void **state) {
  fused("f32[20,30] f32[5,30] s32[]", "z = s32[] constant(0)\n n = f32[5,30] negate(p1)\n ROOT d = "
                                      "f32[20,30] dynamic-update-slice(p0, n, p2, z)");
  fused(
      "f32[20,30] s32[]",  // what is there, changed in place
      "z = s32[] constant(0)\n s = f32[5,30] dynamic-slice(p0, p1, z), dynamic_slice_sizes={5,30}\n"
      " n = f32[5,30] negate(s)\n ROOT d = f32[20,30] dynamic-update-slice(p0, n, p1, z)");
  fused("f32[20] s32[]",  // what is elsewhere
        "s = f32[5] slice(p0), slice={[3:8]}\n n = f32[5] reverse(s), dimensions={0}\n"
        " ROOT d = f32[20] dynamic-update-slice(p0, n, p1)");
  fused(
      "f32[20] f32[5] s32[] s32[]",  // two, that may lie over each other; the second reads the first
      "a = f32[20] dynamic-update-slice(p0, p1, p2)\n s = f32[7] slice(a), slice={[4:11]}\n"
      " ROOT d = f32[20] dynamic-update-slice(a, s, p3)");
  fused("f32[20] f32[5] s32[]",  // in the middle
        "n = f32[20] negate(p0)\n a = f32[20] dynamic-update-slice(n, p1, p2)\n ROOT d = f32[20] "
        "abs(a)");
  fused("f32[4,5] f32[2,5] s32[]", "z = s32[] constant(0)\n a = f32[4,5] dynamic-update-slice(p0, "
                                   "p1, p2, z)\n n = f32[4,5] add(a, p0)\n"
                                   " ROOT t = (f32[4,5], f32[4,5]) tuple(a, n)");
  same(" x = f32[4] parameter(0)\n u = f32[0] parameter(1)\n i = s32[] parameter(2)\n"
       " ROOT d = f32[4] dynamic-update-slice(x, u, i)");
}

static void windows(void **state) {
  static const struct {
    const char *from, *to, *window;
  } forms[] = {{"[20]", "[18]", "size=3"},
               {"[2,9,8,5]", "[2,4,4,5]", "size=1x3x2x1 stride=1x2x2x1"},
               {"[9,8]", "[9,8]", "size=3x3 pad=1_1x1_1"},
               {"[6]", "[11]", "size=2 lhs_dilate=2 pad=1_0"},
               {"[6,30]", "[4,31]", "size=2x3 rhs_dilate=2x1 lhs_dilate=1x1 pad=0_0x2_1"},
               {"[5,6]", "[7,8]", "size=3x2 pad=2_2x1_2 rhs_dilate=1x1 stride=1x1 lhs_dilate=1x1"},
               {"[3]", "[2]", "size=2 pad=-1_1"},
               {"[1500]", "[750]", "size=2 stride=2"}};
  char entry[TEXT];
  for (int k = 0; k < HL_COUNT_OF(forms); k++) {
    const char *form = " x = f32%s parameter(0)\n i = f32[] constant(0)\n ROOT r = f32%s "
                       "reduce-window(x, i), window={%s}, to_apply=%s";
    snprintf(entry, sizeof entry, form, forms[k].from, forms[k].to, forms[k].window, "s");
    check_as(SUM, entry, 1e-6);
    snprintf(entry, sizeof entry, form, forms[k].from, forms[k].to, forms[k].window, "m");
    check_as(MAX, entry, -1);
    snprintf(entry, sizeof entry,
             " x = f32%s parameter(0)\n n = s32%s parameter(1)\n i = f32[] constant(-inf)\n j = "
             "s32[] constant(2147483647)\n"
             " ROOT r = (f32%s, s32%s) reduce-window(x, n, i, j), window={%s}, to_apply=a",
             forms[k].from, forms[k].from, forms[k].to, forms[k].to, forms[k].window);
    check_as(ARGMAX, entry, -1);
  }
}

// Updates that fall on each other and outside; of rows, of elements, of boxes.
static void scatters(void **state) {
  static const char *const types[] = {"f32", "s32", "bf16", "f64", "u8", "pred"};
  static const char *const forms[] = {
      " x = $[7,9] parameter(0)\n i = s32[5,1] parameter(1)\n u = $[5,9] parameter(2)\n"
      " ROOT s = $[7,9] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0},"
      " index_vector_dim=1, to_apply=?",
      " x = $[40] parameter(0)\n i = s8[1500] parameter(1)\n u = $[1500] parameter(2)\n"
      " ROOT s = $[40] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0},"
      " index_vector_dim=1, to_apply=?",
      " x = $[7,9]{0,1} parameter(0)\n i = s64[3,2,2] parameter(1)\n u = $[3,4,2,3] parameter(2)\n"
      " ROOT s = $[7,9]{0,1} scatter(x, i, u), update_window_dims={1,3}, inserted_window_dims={},"
      " scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=?",
      " x = $[40,20] parameter(0)\n i = s32[300,2] parameter(1)\n u = $[300,12] parameter(2)\n"
      " ROOT s = $[40,20] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=?",
      " x = $[40,12]{0,1} parameter(0)\n i = s32[300] parameter(1)\n u = $[300,12]{0,1} "
      "parameter(2)\n"
      " ROOT s = $[40,12]{0,1} scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=?",
      " x = $[2,9] parameter(0)\n i = u32[2,4,1] parameter(1)\n u = $[2,4,3] parameter(2)\n"
      " ROOT s = $[2,9] scatter(x, i, u), update_window_dims={2}, inserted_window_dims={}, "
      "scatter_dims_to_operand_dims={1},"
      " input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, "
      "to_apply=?"};
  char comps[TEXT], entry[TEXT];
  for (int t = 0; t < HL_COUNT_OF(types); t++) {
    of_type("s { a = $[] parameter(0)\n b = $[] parameter(1)\n ROOT r = $[] add(a, b) }\n"
            "p { a = $[] parameter(0)\n ROOT b = $[] parameter(1) }",
            types[t], comps);
    for (int k = 0; k < HL_COUNT_OF(forms); k++)
      for (int put = 0; put < 2; put++) {
        of_type(forms[k], types[t], entry);
        *strchr(entry, '?') = put ? 'p' : 's';
        check_as(comps, entry, -1);
      }
  }
  snprintf(
      comps, sizeof comps,
      "%s\nf { i = s32[50,1] parameter(0)\n u = f32[50,30] parameter(1)\n z = f32[] constant(0)\n"
      " b = f32[7,30] broadcast(z), dimensions={}\n n = f32[50,30] abs(u)\n"
      " ROOT s = f32[7,30] scatter(b, i, n), update_window_dims={1}, inserted_window_dims={0},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=s }",
      SUM);
  check_as(comps,
           " i = s32[50,1] parameter(0)\n u = f32[50,30] parameter(1)\n ROOT r = f32[7,30] "
           "fusion(i, u), kind=kLoop, calls=f",
           -1);
}

static void selects(void **state) {
  static const struct {
    const char *from, *source, *window;
  } forms[] = {{"[4,6]", "[2,3]", "size=2x2 stride=2x2"},
               {"[2,9,8,5]", "[2,4,4,5]", "size=1x3x2x1 stride=1x2x2x1"},
               {"[7,7]", "[4,4]", "size=3x3 stride=2x2 pad=1_1x1_1"},
               {"[9]", "[7]", "size=3"}};
  char entry[TEXT], comps[TEXT];
  for (int k = 0; k < HL_COUNT_OF(forms); k++) {
    snprintf(comps, sizeof comps,
             "%s\ng { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, "
             "b), direction=GE }",
             SUM);
    snprintf(entry, sizeof entry,
             " x = f32%s parameter(0)\n y = f32%s parameter(1)\n z = f32[] constant(0)\n"
             " ROOT r = f32%s select-and-scatter(x, y, z), window={%s}, select=g, scatter=s",
             forms[k].from, forms[k].source, forms[k].from, forms[k].window);
    check_as(comps, entry, -1);
  }
}

// Where a reshape does not cut dimensions evenly, an iota behind it is of places that are computed.
static void iota_of_computed_places(void **state) {
  static const char *const types[] = {"s32", "u64", "f32", "bf16", "s4", "c64"};
  for (int k = 0; k < HL_COUNT_OF(types); k++) {
    char body[400];
    snprintf(body, sizeof body,
             "i = %s[54] iota(), iota_dimension=0\n r = %s[6,9] reshape(i)\n"
             "t = %s[9,6] transpose(r), dimensions={1,0}\n ROOT b = %s[6,9] reshape(t)",
             types[k], types[k], types[k], types[k]);
    fused("", body);
  }
}

// A reshape behind a pad or a concatenate is asked for places that its operand has only in part.
static void reshapes_in_part(void **state) {
  fused("", "i = u32[6] iota(), iota_dimension=0\n b = u32[1,1,6] reshape(i)\n"
            "s = u32[1,1,1] slice(b), slice={[0:1], [0:1], [3:4]}\n z = u32[] constant(7)\n"
            "ROOT r = u32[3,3,3] pad(s, z), padding=1_1x1_1x2_0");
  fused("f32[3]",
        "z = f32[] constant(0)\n p = f32[4] pad(p0, z), padding=0_1\n b = f32[1,1,4] reshape(p)\n"
        "s = f32[1,1,1] slice(b), slice={[0:1], [0:1], [2:3]}\n"
        "ROOT r = f32[3,1,1] concatenate(s, s, s), dimensions={0}");
  fused("f32[5,6]", "a = f32[6,5] transpose(p0), dimensions={1,0}\n b = f32[2,3,5] reshape(a)\n"
                    "z = f32[] constant(7)\n c = f32[6,8,4] pad(b, z), padding=1_3x2_3x-1_0\n"
                    "v = f32[6,8,4] reverse(c), dimensions={0,2}\n ROOT r = f32[8,24] reshape(v)");
}

// Places of which computed ones are a part, where there are gaps: a whole part of each, or not.
static void computed_places_in_gaps(void **state) {
  fused("f32[10,7,5] s32[] s32[] s32[]",
        "d = f32[3,2,4] dynamic-slice(p0, p1, p2, p3), dynamic_slice_sizes={3,2,4}\n"
        "n = f32[3,2,4] negate(d)\n z = f32[] constant(0)\n"
        "ROOT r = f32[4,2,9] pad(n, z), padding=0_1x0_0x2_0_1");
  fused("f32[9] s32[]",
        "z = f32[] constant(0)\n q = f32[17] pad(p0, z), padding=0_0_1\n"
        "d = f32[6] dynamic-slice(q, p1), dynamic_slice_sizes={6}\n n = f32[6] negate(d)\n"
        "ROOT r = f32[14] pad(n, z), padding=1_2_1");
}

// What is written at once where it belongs is read there by a second result.
static void results_twice(void **state) {
  fused_as("f32[1,19]",
           "x = f32[1,19] abs(p0)\n o = f32[1,19] add(x, p0)\n d = f32[1,19] multiply(o, x)\n"
           "c = f32[1,19] copy(d)\n ROOT t = (f32[1,19], f32[1,19]) tuple(d, c)",
           0);
}

// A sum that is stored keeps its place while others are computed from it.
static void sums_are_kept(void **state) {
  check_as("a { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y)\n}\n"
           "f { p = f32[4,6] parameter(0)\n z = f32[] constant(0)\n"
           "  s = f32[4] reduce(p, z), dimensions={1}, to_apply=a\n  b = f32[4] abs(s)\n"
           "  q = f32[4] negate(b)\n  w = f32[4] add(q, q)\n"
           "  ROOT t = (f32[4], f32[4], f32[4]) tuple(w, q, s)\n}",
           "x = f32[4,6] parameter(0)\n"
           "ROOT r = (f32[4], f32[4], f32[4]) fusion(x), kind=kLoop, calls=f",
           0);
}

// What a window sees of padding alone is the initial value, rounded like the others.
static void windows_of_padding(void **state) {
  char text[TEXT];
  for (int t = 0; t < 2; t++) {
    snprintf(text, sizeof text,
             "a { x = %s[] parameter(0)\n y = %s[] parameter(1)\n"
             "  ROOT r = %s[] multiply(x, y)\n}",
             t ? "bf16" : "f16", t ? "bf16" : "f16", t ? "bf16" : "f16");
    check_as(text,
             t ? "x = bf16[1,4,2] parameter(0)\n i = bf16[] constant(3.5)\n"
                 "ROOT r = bf16[2,5,3] reduce-window(x, i), window={size=1x1x2 pad=1_0x0_1x1_0 "
                 "lhs_dilate=1x1x2 rhs_dilate=1x2x1}, to_apply=a"
               : "x = f16[1,4,2] parameter(0)\n i = f16[] constant(3.5)\n"
                 "ROOT r = f16[2,5,3] reduce-window(x, i), window={size=1x1x2 pad=1_0x0_1x1_0 "
                 "lhs_dilate=1x1x2 rhs_dilate=1x2x1}, to_apply=a",
             0);
  }
}

// A window's body that looks at nothing but the values takes the first of equal ones, in row-major order.
static void windows_in_order(void **state) {
  static const char comps[] =
      "le { a = s32[] parameter(0)\n i = s32[] parameter(1)\n b = s32[] parameter(2)\n"
      "  j = s32[] parameter(3)\n m = s32[] constant(-1)\n g = pred[] compare(a, b), direction=GE\n"
      "  s = pred[] compare(i, m), direction=NE\n o = pred[] and(g, s)\n"
      "  x = s32[] select(o, a, b)\n y = s32[] select(o, i, j)\n"
      "  ROOT t = (s32[], s32[]) tuple(x, y)\n}\n"
      "f { p = s32[6,9] parameter(0)\n two = s32[] constant(2)\n w = s32[6,9] broadcast(two), "
      "dimensions={}\n v = s32[6,9] remainder(p, w)\n q = s32[6,9]{0,1} copy(v)\n"
      "  k = s32[54] iota(), iota_dimension=0\n i = s32[6,9] reshape(k)\n z = s32[] constant(-9)\n"
      "  n = s32[] constant(-1)\n  ROOT r = (s32[3,8], s32[3,8]) reduce-window(q, i, z, n), "
      "window={size=4x2}, to_apply=le\n}";
  check_as(comps,
           "x = s32[6,9] parameter(0)\n"
           "ROOT r = (s32[3,8], s32[3,8]) fusion(x), kind=kLoop, calls=f",
           -1);
}

// A body's first result, which is read as another type, stays where it is until its second one is there.
static void results_under_other_names(void **state) {
  static const char comps[] =
      "fold { a = f32[] parameter(0)\n b = f32[] parameter(1)\n x = f32[] parameter(2)\n"
      "  y = f32[] parameter(3)\n c = bf16[] convert(a)\n d = bf16[] convert(b)\n"
      "  e = bf16[] convert(x)\n f = bf16[] convert(y)\n ce = bf16[] multiply(c, e)\n"
      "  df = bf16[] add(d, f)\n g = f32[] convert(ce)\n h = f32[] convert(df)\n"
      "  ROOT t = (f32[], f32[]) tuple(g, h)\n}";
  check_as(comps,
           "p = f32[2,2,4] parameter(0)\n i = f32[] constant(0.25)\n"
           "ROOT r = (f32[3,2,6], f32[3,2,6]) reduce-window(p, p, i, i), "
           "window={size=2x1x1 stride=1x2x1 pad=1_1x1_1x1_1}, to_apply=fold",
           -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(moves_every_type),
                                     cmocka_unit_test(iota_of_computed_places),
                                     cmocka_unit_test(reshapes_in_part),
                                     cmocka_unit_test(computed_places_in_gaps),
                                     cmocka_unit_test(results_twice),
                                     cmocka_unit_test(windows_of_padding),
                                     cmocka_unit_test(sums_are_kept),
                                     cmocka_unit_test(windows_in_order),
                                     cmocka_unit_test(results_under_other_names),
                                     cmocka_unit_test(layouts),
                                     cmocka_unit_test(sizes),
                                     cmocka_unit_test(pads),
                                     cmocka_unit_test(compositions),
                                     cmocka_unit_test(several_results),
                                     cmocka_unit_test(exact_ops),
                                     cmocka_unit_test(converts),
                                     cmocka_unit_test(comparisons),
                                     cmocka_unit_test(bits),
                                     cmocka_unit_test(functions),
                                     cmocka_unit_test(reductions),
                                     cmocka_unit_test(bodies),
                                     cmocka_unit_test(reductions_of_every_type),
                                     cmocka_unit_test(fused_reductions),
                                     cmocka_unit_test(reductions_in_parts),
                                     cmocka_unit_test(normalised_groups),
                                     cmocka_unit_test(pieces_of_rows),
                                     cmocka_unit_test(indices),
                                     cmocka_unit_test(rows),
                                     cmocka_unit_test(updates),
                                     cmocka_unit_test(windows),
                                     cmocka_unit_test(scatters),
                                     cmocka_unit_test(selects)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
