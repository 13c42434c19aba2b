// Damaged inputs: files of the corpus and of the fixtures, up to 64 KB, with bits flipped, cut short and
// spliced together. Reading, verifying and printing each must end with success or with located
// errors, within ten seconds and, in a build without sanitizers, within 256 MiB + 20x the input.
//
//   damage [ITERATIONS [SEED [KIND]]]  default 4000 (or HILO_ITERATIONS) from seed 1
//                                      KIND: text, proto, mlir, bytecode or jaxpr only
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hilo/text.h"
#include "hilo/tool.h"
#include "hilo/verify.h"
#include "support/corpus.h"

enum { MAX_BYTES = 65536, BATCH = 200, SECONDS = 10, LEAST = 4 };

typedef enum Kind { TEXT, PROTO, MLIR, BYTECODE, JAXPR, KINDS } Kind;
static const char *const kind_names[KINDS] = {"text", "proto", "mlir", "bytecode", "jaxpr"};

typedef struct Seeds {
  HlSource **at;
  Kind *kind;
  int n, capacity;
  int only;  // a kind; KINDS: all
} Seeds;

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

static Kind kind_of(const char *path, const HlSource *source) {
  HlStr bytes = hl_source_bytes(source);
  if (bytes.n > 4 && memcmp(bytes.at, "ML\xefR", 4) == 0)
    return BYTECODE;
  if (ends_with(path, ".mlir"))
    return MLIR;
  if (ends_with(path, ".jaxpr"))
    return JAXPR;
  return hl_source_is_binary(source) ? PROTO : TEXT;
}

static void add_seed(Seeds *seeds, HlCx *cx, const char *path) {
  HlSource *source = hl_read_file(cx, path);
  hl_cx_clear(cx);
  if (!source || hl_source_bytes(source).n == 0 || hl_source_bytes(source).n > MAX_BYTES) {
    hl_source_unref(source);
    return;
  }
  if (seeds->n == seeds->capacity) {
    seeds->capacity = seeds->capacity ? 2 * seeds->capacity : 64;
    seeds->at = realloc(seeds->at, (size_t)seeds->capacity * sizeof *seeds->at);
    seeds->kind = realloc(seeds->kind, (size_t)seeds->capacity * sizeof *seeds->kind);
    if (!seeds->at || !seeds->kind)
      exit(2);
  }
  seeds->kind[seeds->n] = kind_of(path, source);
  seeds->at[seeds->n++] = source;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_folder(Seeds *seeds, HlCx *cx, const char *path, int depth) {
  struct dirent **entries = NULL;
  int n = scandir(path, &entries, NULL, by_name);
  for (int k = 0; k < n; k++) {
    char name[4096];
    struct stat st;
    if (entries[k]->d_name[0] != '.' &&
        snprintf(name, sizeof name, "%s/%s", path, entries[k]->d_name) < (int)sizeof name &&
        stat(name, &st) == 0) {
      if (S_ISDIR(st.st_mode) && depth < 4)
        add_folder(seeds, cx, name, depth + 1);
      else if (S_ISREG(st.st_mode) && st.st_size <= MAX_BYTES && !strstr(name, ".npz"))
        add_seed(seeds, cx, name);
    }
    free(entries[k]);
  }
  free(entries);
}

static size_t flip(HlRng *rng, char *bytes, size_t n) {
  int64_t times = 1 + hl_rng_below(rng, 8);
  for (int64_t k = 0; k < times && n > 0; k++) {
    int64_t at = hl_rng_below(rng, (int64_t)n);
    bytes[at] = (char)(hl_rng_below(rng, 2) ? bytes[at] ^ (1 << hl_rng_below(rng, 8))
                                            : hl_rng_below(rng, 256));
  }
  return n;
}

// The head of one file and the tail of another.
static size_t splice(HlRng *rng, char *bytes, size_t n, HlStr other) {
  size_t head = (size_t)hl_rng_below(rng, (int64_t)n + 1),
         from = (size_t)hl_rng_below(rng, (int64_t)other.n);
  size_t tail = other.n - from;
  if (head + tail > MAX_BYTES)
    tail = MAX_BYTES - head;
  memcpy(bytes + head, other.at + from, tail);
  return head + tail;
}

// A file, of each kind as often as of the others: the first of a kind from a random place on.
static HlStr pick(HlRng *rng, const Seeds *seeds) {
  const int kind = seeds->only < KINDS ? seeds->only : (int)hl_rng_below(rng, KINDS);
  int64_t at = hl_rng_below(rng, seeds->n);
  for (int k = 0; k < seeds->n && (int)seeds->kind[at] != kind; k++)
    at = (at + 1) % seeds->n;
  return hl_source_bytes(seeds->at[at]);
}

static size_t damage(HlRng *rng, const Seeds *seeds, char *bytes) {
  HlStr a = pick(rng, seeds), b = pick(rng, seeds);
  memcpy(bytes, a.at, a.n);
  switch (hl_rng_below(rng, 4)) {
  case 0: return (size_t)hl_rng_below(rng, (int64_t)a.n + 1);
  case 1: return splice(rng, bytes, a.n, b);
  case 2: return flip(rng, bytes, splice(rng, bytes, a.n, b));
  default: return flip(rng, bytes, a.n);
  }
}

static bool errors_are_located(const HlCx *cx) {
  for (int k = 0; k < hl_cx_n_diags(cx); k++) {
    const HlDiag *d = hl_cx_diag(cx, k);
    if (d->severity == HL_ERROR && (!d->source || !d->text || !d->text[0]))
      return false;
  }
  return true;
}

static void try_module(HlCx *cx, const HlModule *m) {
  HlTextOptions options = {0};
  HlBuf text = {0};
  bool valid = hl_verify(cx, m, NULL);
  hl_text_print(cx, m, &options, &text);
  hl_buf_free(&text);
  if (valid && hl_proto_write(cx, m, HL_PROTO_MODULE, false, NULL, &text))
    hl_buf_free(&text);
}

// Checks, prints and writes a tree; what is valid is on its way to HLO afterwards.
static void try_tree(HlCx *cx, const HlMlTree *tree) {
  HlBuf text = {0};
  for (int generic = 0; generic < 2; generic++) {
    HlMlTextOptions options = {.generic = generic, .locations = true, .large_constants = true};
    hl_ml_text_print(tree, &options, &text);
  }
  hl_buf_free(&text);
  HlBuf bytes = {0};
  if (hl_ml_verify(cx, tree))
    hl_ml_artifact_write(cx, tree, HL_ML_NEWEST, &bytes);
  hl_buf_free(&bytes);
}

static bool try_one(HlCx *cx, const char *bytes, size_t n) {
  static const HlLoadOptions how = {.trees_only = true, .consts_as_parameters = true};
  HlFile file = {0};
  HlBuf copy = {0}, out = {0};
  hl_buf_add(&copy, bytes, n);
  bool was;
  HlSource *source = hl_source_take("damaged", &copy, false);
  bool ok = hl_decompress(cx, (HlPos){source, 1}, hl_source_bytes(source), &out, &was);
  if (ok && was) {
    hl_source_unref(source);
    source = hl_source_take("damaged", &out, true);
  }
  ok = ok && hl_load_source(cx, source, &how, &file);
  bool fine = ok == (hl_cx_n_errors(cx) == 0);
  for (int k = 0; k < file.n_trees; k++)
    try_tree(cx, file.trees[k]);
  fine = fine && errors_are_located(cx);
  hl_cx_clear(cx);
  if (file.n_trees > 0)
    hl_load_lower(cx, NULL, &file);
  for (int k = 0; k < file.n; k++)
    try_module(cx, file.modules[k]);
  fine = fine && errors_are_located(cx);
  hl_file_free(&file);
  hl_source_unref(source);
  hl_buf_free(&out);
  hl_cx_clear(cx);
  return fine;
}

static void keep(const char *bytes, size_t n, uint64_t seed) {
  const char *folder = getenv("HILO_BUILD");
  char name[4096];
  snprintf(name, sizeof name, "%s/damaged-%llu", folder ? folder : ".", (unsigned long long)seed);
  FILE *f = fopen(name, "wb");
  if (!f)
    return;
  fwrite(bytes, 1, n, f);
  fclose(f);
  fprintf(stderr, "kept as %s\n", name);
}

// Runs a batch in this process; dies of a signal where an input does.
static int run_batch(const Seeds *seeds, uint64_t first, int n, bool single) {
  static char bytes[2 * MAX_BYTES];
  HlCx *cx = hl_cx_new();
  for (int k = 0; k < n; k++) {
    HlRng rng = {(first + (uint64_t)k) * 0x9e3779b97f4a7c15u};
    size_t size = damage(&rng, seeds, bytes);
    alarm(SECONDS);
    if (single)
      keep(bytes, size, first);
    if (!try_one(cx, bytes, size)) {
      fprintf(stderr, "input %llu: an error without a place, or none where one was due\n",
              (unsigned long long)(first + (uint64_t)k));
      keep(bytes, size, first + (uint64_t)k);
      return 1;
    }
  }
  hl_cx_free(cx);
  return 0;
}

static bool sanitized(void) {
#if defined(__SANITIZE_ADDRESS__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return true;
#endif
#endif
  return false;
}

static int in_child(const Seeds *seeds, uint64_t first, int n, bool single) {
  pid_t child = fork();
  if (child == 0) {
    if (!sanitized()) {
      struct rlimit limit = {.rlim_cur = (256u << 20) + 20 * MAX_BYTES + (64u << 20),
                             .rlim_max = RLIM_INFINITY};
      setrlimit(RLIMIT_AS, &limit);
    }
    int status = run_batch(seeds, first, n, single);
    fflush(stderr);
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// Finds the one input of a batch that fails by running each alone.
static void find_culprit(const Seeds *seeds, uint64_t first, int n) {
  for (int k = 0; k < n; k++) {
    int status = in_child(seeds, first + (uint64_t)k, 1, false);
    if (!status)
      continue;
    fprintf(stderr, "input %llu: wait status %#x\n", (unsigned long long)(first + (uint64_t)k),
            (unsigned)status);
    in_child(seeds, first + (uint64_t)k, 1, true);
    return;
  }
}

int main(int argc, char **argv) {
  const char *corpus = test_corpus(), *wish = argc > 1 ? argv[1] : getenv("HILO_ITERATIONS");
  int n = wish ? atoi(wish) : 4000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  Seeds seeds = {.only = KINDS};
  for (int k = 0; argc > 3 && k < KINDS; k++)
    if (strcmp(argv[3], kind_names[k]) == 0)
      seeds.only = k;
  HlCx *cx = hl_cx_new();
  add_folder(&seeds, cx, "tests/fixtures", 0);
  add_folder(&seeds, cx, "tests/golden", 0);
  bool complete = true;  // without a corpus, too
  for (int kind = 0; kind < KINDS; kind++) {
    int n_of_kind = 0;
    for (int k = 0; k < seeds.n; k++)
      n_of_kind += (int)seeds.kind[k] == kind;
    complete = complete && n_of_kind >= LEAST;
  }
  if (corpus)
    add_folder(&seeds, cx, corpus, 0);
  int failed = 0;
  for (int done = 0; done < n && complete; done += BATCH) {
    int count = n - done < BATCH ? n - done : BATCH;
    int status = in_child(&seeds, seed + (uint64_t)done, count, false);
    if (status) {
      failed++;
      find_culprit(&seeds, seed + (uint64_t)done, count);
    }
  }
  printf("%d damaged inputs from %d files, %d batches failed\n", n, seeds.n, failed);
  for (int k = 0; k < seeds.n; k++)
    hl_source_unref(seeds.at[k]);
  free(seeds.at);
  free(seeds.kind);
  hl_cx_free(cx);
  return failed || !complete || n <= 0;
}
