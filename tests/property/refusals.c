// What the verifier accepts, no pass crashes on: small random modules, one for each kind of instruction, with a number, a
// list, a type, a layout, an attribute, an operand, a called computation or the opcode of that instruction damaged. Most are refused, which must come with a
// located error; on each of the others every pass and pipeline runs, for both targets, in a process of its own.
//
//   property_refusals [N [SEED [OP]]]     N damages a kind (default 4, or HILO_ITERATIONS), from seed 1; of one kind only
//   property_refusals --keep FOLDER ...   no passes: writes what is accepted, KIND-SEED.hlo, and whole, KIND-SEED.whole.hlo,
//                                         for tests/xla/compare_refusals.py, which asks XLA
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hilo/opt.h"
#include "hilo/text.h"
#include "hilo/verify.h"
#include "support/passes.h"
#include "support/property.h"

enum { USUAL = 4, SECONDS = 60, GIGABYTES = 4 };

typedef struct Count {
  int64_t damaged, unread, refused, accepted, crashed;
} Count;

// --- Damage -----------------------------------------------------------------------------------------

typedef struct Line {
  size_t from, to;
} Line;

// A line of the text that holds an instruction of the kind; any line if there is none.
static Line pick_line(HlRng *rng, const HlBuf *text, HlOp op) {
  char call[64];
  snprintf(call, sizeof call, " %s(", hl_op_text(op));
  Line picked = {0, text->n};
  int n = 0;
  for (size_t at = 0; at < text->n;) {
    const char *end = memchr(text->at + at, '\n', text->n - at);
    const size_t to = end ? (size_t)(end - text->at) : text->n;
    if (memmem(text->at + at, to - at, call, strlen(call)) && hl_rng_below(rng, ++n) == 0)
      picked = (Line){at, to};
    at = to + 1;
  }
  return picked;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void splice(HlBuf *text, size_t from, size_t to, const char *by) {
  HlBuf out = {0};
  hl_buf_add(&out, text->at, from);
  hl_buf_puts(&out, by);
  hl_buf_add(&out, text->at + to, text->n - to);
  hl_buf_free(text);
  *text = out;
}

typedef bool Find(const HlBuf *text, Line line, size_t at, size_t *to);

// Where in the line something begins, at random; false: nowhere.
static bool pick_place(HlRng *rng, const HlBuf *text, Line line, Find *find, Line *out) {
  int n = 0;
  size_t to;
  for (size_t at = line.from; at < line.to; at++)
    if (find(text, line, at, &to) && hl_rng_below(rng, ++n) == 0)
      *out = (Line){at, to};
  return n > 0;
}

static bool is_number(const HlBuf *text, Line line, size_t at, size_t *to) {
  if (!is_digit(text->at[at]) || at == line.from || is_word(text->at[at - 1]) ||
      text->at[at - 1] == '.' || text->at[at - 1] == '%')
    return false;
  for (*to = at; *to < line.to && is_digit(text->at[*to]); ++*to) {
  }
  return true;
}

static bool is_type(const HlBuf *text, Line line, size_t at, size_t *to) {
  if (at == line.from || is_word(text->at[at - 1]) || !is_word(text->at[at]))
    return false;
  for (*to = at; *to < line.to && is_word(text->at[*to]); ++*to) {
  }
  return *to < line.to && text->at[*to] == '[';
}

static bool is_list(const HlBuf *text, Line line, size_t at, size_t *to) {
  if (text->at[at] != '{')
    return false;
  for (*to = at + 1; *to < line.to && strchr("0123456789,-", text->at[*to]); ++*to) {
  }
  return *to<line.to && * to> at + 1 && strchr("}:", text->at[*to]);
}

// ", name=value" with whatever brackets the value has.
static bool is_attribute(const HlBuf *text, Line line, size_t at, size_t *to) {
  if (text->at[at] != ',' || at + 2 >= line.to || text->at[at + 1] != ' ')
    return false;
  size_t k = at + 2;
  while (k < line.to && is_word(text->at[k]))
    k++;
  if (k == at + 2 || text->at[k] != '=')
    return false;
  int depth = 0;
  for (; k < line.to && (depth > 0 || text->at[k] != ','); k++)
    depth += (strchr("{[(", text->at[k]) != NULL) - (strchr("}])", text->at[k]) != NULL);
  *to = k;
  return true;
}

static bool is_name_char(char c) {
  return is_word(c) || c == '.' || c == '-';
}

// "%name" of something else: an operand, a computation.
static bool is_name(const HlBuf *text, Line line, size_t at, size_t *to) {
  if (text->at[at] != '%')
    return false;
  for (*to = at + 1; *to < line.to && is_name_char(text->at[*to]); ++*to) {
  }
  return *to + 2 >= line.to || memcmp(text->at + *to, " = ", 3) != 0;
}

// The opcode, behind the type.
static bool is_opcode(const HlBuf *text, Line line, size_t at, size_t *to) {
  if (at < line.from + 2 || text->at[at - 1] != ' ' || !strchr("]})", text->at[at - 2]))
    return false;
  for (*to = at; *to < line.to && is_name_char(text->at[*to]); ++*to) {
  }
  return *to > at && *to < line.to && text->at[*to] == '(';
}

static void damage_number(HlRng *rng, HlBuf *text, Line at) {
  static const char *const numbers[] = {"0",
                                        "1",
                                        "2",
                                        "3",
                                        "5",
                                        "8",
                                        "-1",
                                        "-2",
                                        "2147483648",
                                        "4611686018427387904",
                                        "9223372036854775807"};
  splice(text, at.from, at.to, numbers[hl_rng_below(rng, HL_COUNT_OF(numbers))]);
}

static void damage_type(HlRng *rng, HlBuf *text, Line at) {
  HlDtype type = HL_NO_DTYPE;
  while (!hl_is_array_dtype(type))
    type = (HlDtype)hl_rng_below(rng, HL_DTYPE_COUNT);
  splice(text, at.from, at.to, hl_dtype_text(type));
}

// A list loses an element, gets one twice, or a few others.
static void damage_list(HlRng *rng, HlBuf *text, Line at) {
  static const char *const lists[] = {"{}",    "{0}",     "{1}",     "{0,0}",   "{1,0}",
                                      "{0,1}", "{2,1,0}", "{0,2,1}", "{1,1,0}", "{3,2,1,0}"};
  const size_t comma = at.from + strcspn(text->at + at.from, ",}:");
  if (hl_rng_below(rng, 2) && text->at[comma] == ',')
    splice(text, at.from + 1, comma + 1, "");
  else if (text->at[at.to] == '}')
    splice(text, at.from, at.to + 1, lists[hl_rng_below(rng, HL_COUNT_OF(lists))]);
  else
    splice(text, at.from + 1, at.from + 1, "0,");
}

static void damage_layout(HlRng *rng, HlBuf *text, Line at) {
  static const char *const ends[] = {":T(2,2)", ":T(0)",   ":T(8,8)(2,1)", ":S(1)",    ":S(-1)",
                                     ":L(2)",   ":L(0)",   ":E(4)",        ":SC(0:1)", ":SC(7:1)",
                                     ":M(8)",   ":#(u32)", ":S(5)"};
  splice(text, at.to, at.to, ends[hl_rng_below(rng, HL_COUNT_OF(ends))]);
}

// It goes, with a comma beside it, or comes twice, or is another one of the module.
static void damage_name(HlRng *rng, HlBuf *text, Line at) {
  const int64_t way = hl_rng_below(rng, 3);
  const bool comma_before = at.from >= 2 && memcmp(text->at + at.from - 2, ", ", 2) == 0,
             comma_behind = memcmp(text->at + at.to, ", ", 2) == 0;
  Line other = at;
  if (way == 0) {
    splice(text, at.from - (comma_before ? 2 : 0), at.to + (!comma_before && comma_behind ? 2 : 0),
           "");
  } else if (way == 1 || pick_place(rng, text, (Line){0, text->n}, is_name, &other)) {
    const Line from = way == 1 ? at : other;
    HlBuf name = {0};
    hl_buf_puts(&name, way == 1 ? ", " : "");
    hl_buf_add(&name, text->at + from.from, from.to - from.from);
    splice(text, way == 1 ? at.to : at.from, at.to, name.at);
    hl_buf_free(&name);
  }
}

static void damage_opcode(HlRng *rng, HlBuf *text, Line at) {
  splice(text, at.from, at.to, hl_op_text((HlOp)hl_rng_below(rng, HL_OP_COUNT)));
}

static void damage(HlRng *rng, HlBuf *text, HlOp op) {
  static const struct {
    Find *find;
    void (*damage)(HlRng *, HlBuf *, Line);
  } ways[] = {{is_number, damage_number}, {is_number, damage_number}, {is_list, damage_list},
              {is_type, damage_type},     {is_list, damage_layout},   {is_attribute, NULL},
              {is_name, damage_name},     {is_name, damage_name},     {is_opcode, damage_opcode}};
  for (int tries = 0; tries < 8; tries++) {
    const Line line = pick_line(rng, text, op);
    const int64_t way = hl_rng_below(rng, HL_COUNT_OF(ways));
    Line at;
    if (!pick_place(rng, text, line, ways[way].find, &at))
      continue;
    if (ways[way].damage)
      ways[way].damage(rng, text, at);
    else
      splice(text, at.from, at.to, "");
    return;
  }
}

// --- Passes -------------------------------------------------------------------------------------------

static void run_one(HlCx *cx, const HlModule *m, const char *passes, const char *target) {
  HlEngineOptions options = passes_options(passes, target);
  options.verify_each = false;
  HlModule *copy = hl_clone(cx, m);
  HlEngine *engine = hl_engine_new(cx, &options);
  fprintf(stderr, "%s for %s", passes, target);
  hl_engine_run(engine, copy, passes);
  fprintf(stderr, "\n");
  hl_engine_free(engine);
  hl_module_free(copy);
  hl_cx_clear(cx);
}

static void run_all(HlCx *cx, const HlModule *m) {
  static const char *const targets[] = {"cpu", "gpu"};
  for (int t = 0; t < HL_COUNT_OF(targets); t++)
    for (int k = 0; k < hl_passes.n; k++)
      run_one(cx, m, hl_passes.at[k].name, targets[t]);
  for (int k = 0; k < hl_pipelines.n; k++)
    run_one(cx, m, hl_pipelines.at[k].name, k % 2 ? "gpu" : "cpu");
}

// In a process of its own, whose last line says which pass it was.
static bool survives(HlCx *cx, const HlModule *m) {
  FILE *notes = tmpfile();
  const pid_t child = notes ? fork() : -1;
  if (child == 0) {
    const struct rlimit limit = {.rlim_cur = (rlim_t)GIGABYTES << 30, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    alarm(SECONDS);
    dup2(fileno(notes), 2);
    run_all(cx, m);
    _exit(0);
  }
  int status = 1;
  if (child > 0)
    waitpid(child, &status, 0);
  char line[512], last[512] = "";
  for (rewind(notes); fgets(line, sizeof line, notes);)
    snprintf(last, sizeof last, "%s", line);
  fclose(notes);
  if (status)
    fprintf(stderr, "wait status %#x in %s\n", (unsigned)status, last);
  return status == 0;
}

// --- The modules --------------------------------------------------------------------------------------

static void keep(const char *folder, HlOp op, uint64_t seed, const char *end, const HlBuf *text) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s-%llu%s", folder, hl_op_text(op), (unsigned long long)seed,
           end);
  FILE *f = fopen(path, "wb");
  if (f) {
    fwrite(text->at, 1, text->n, f);
    fclose(f);
  }
}

static void try_damaged(HlCx *cx, HlOp op, uint64_t seed, const HlBuf *text, const HlBuf *whole,
                        const char *folder, Count *n) {
  HlModule *m = hl_text_parse(cx, text->at);
  const bool valid = m && hl_verify(cx, m, NULL);
  n->damaged++;
  n->unread += !m;
  n->refused += m && !valid;
  n->accepted += valid;
  hl_cx_clear(cx);
  if (valid && folder) {
    keep(folder, op, seed, ".hlo", text);
    keep(folder, op, seed, ".whole.hlo", whole);
  } else if (valid && !survives(cx, m)) {
    n->crashed++;
    fprintf(stderr, "%s, seed %llu:\n%s\n", hl_op_text(op), (unsigned long long)seed, text->at);
  }
  hl_module_free(m);
}

static void try_seed(HlOp op, uint64_t seed, const char *folder, Count *n) {
  HlCx *cx = hl_cx_new();
  const GenOptions options = {.seed = seed, .wishes = 1, .first = op};
  HlModule *m = gen_module(cx, &options);
  if (m) {
    HlRng rng = {(seed * HL_OP_COUNT + op) * 0x9e3779b97f4a7c15u};
    HlBuf whole = {0}, text = {0};
    hl_text_print(cx, m, &(HlTextOptions){.large_constants = HL_ON}, &whole);
    hl_buf_puts(&text, whole.at);
    for (int64_t times = 1 + hl_rng_below(&rng, 2); times > 0; times--)
      damage(&rng, &text, op);
    if (strcmp(whole.at, text.at) != 0)
      try_damaged(cx, op, seed, &text, &whole, folder, n);
    hl_buf_free(&text);
    hl_buf_free(&whole);
  }
  hl_module_free(m);
  hl_cx_free(cx);
}

int main(int argc, char **argv) {
  const char *folder = NULL, *wish = getenv("HILO_ITERATIONS");
  if (argc > 2 && strcmp(argv[1], "--keep") == 0) {
    folder = argv[2];
    argc -= 2;
    argv += 2;
  }
  wish = argc > 1 ? argv[1] : wish;
  const int64_t iterations = wish ? atoll(wish) : USUAL;
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  Count n = {0};
  for (int op = 0; op < HL_OP_COUNT; op++)
    for (int64_t k = 0; k < iterations && (argc <= 3 || strcmp(argv[3], hl_op_text((HlOp)op)) == 0);
         k++)
      try_seed((HlOp)op, first + (uint64_t)k, folder, &n);
  printf("%lld damaged modules of %d kinds: %lld not read, %lld refused, %lld accepted, of which "
         "%lld crash a pass\n",
         (long long)n.damaged, HL_OP_COUNT, (long long)n.unread, (long long)n.refused,
         (long long)n.accepted, (long long)n.crashed);
  return n.crashed > 0 || n.damaged < iterations || n.accepted == 0;
}
