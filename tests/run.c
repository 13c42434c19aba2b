// The golden-test runner: input, command and expected output in one file.
//
//   run [--hilo PROGRAM] [--update] [--filter TEXT] [--jobs N] [--timeout SECONDS] [FILE | DIR]...
//
// A case is any text file that has a RUN line (tests/golden/**, by default):
//
//   // RUN: hilo opt --passes=dce %s      the commands, run by sh in the file's folder, in order
//   HloModule m ...                       the input
//   // EXIT: 1                            the status, the largest of the commands'; else 0
//   // ERR: 6:3: error: no such dim       each diagnostic on stderr, without the file's name
//   // OUT:                               all of stdout
//   // HloModule m ...
//
// In a command %s is the file's name and %t a path for temporary files (in output, too, %t stands
// for it); `hilo` and the names of other projects' tools that it answers to are the program under test. `bad-` starts the
// name of a case that must fail. `#` may stand for `//`. A diagnostic on stderr that no ERR line
// contains is a failure, as is an ERR line that no diagnostic fits; notes and progress are ignored.
//
// --update runs the commands and writes what they gave as the expected part, at the file's end.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct Lines {
  char **at;
  int n;
  int capacity;
} Lines;

typedef struct Case {
  const char *path;
  const char *leader;  // "//" or "#"
  Lines body;          // the file without its expected part
  Lines run, err, out;
  int status;  // expected; -1 when not given
} Case;

typedef struct Options {
  const char *hilo;
  const char *filter;
  bool update;
  int jobs;
  int timeout;
  char tmp[PATH_MAX];
} Options;

static const char *const program_names[] = {"hilo",           "hlo-opt",         "run_hlo_module",
                                            "hlo_bridge",     "graph_converter", "graph_data_parallel_extender",
                                            "graph_translator", "simulator",      "allreduce", "stencil"};
enum { N_NAMES = sizeof program_names / sizeof program_names[0] };

// --- text ----------------------------------------------------------------------------------------

static void *need(void *p) {
  if (!p) {
    perror("run");
    exit(2);
  }
  return p;
}

static void push(Lines *lines, const char *text, size_t n) {
  if (lines->n == lines->capacity) {
    lines->capacity = lines->capacity ? 2 * lines->capacity : 16;
    lines->at = need(realloc(lines->at, (size_t)lines->capacity * sizeof(char *)));
  }
  lines->at[lines->n++] = need(strndup(text, n));
}

static void clear(Lines *lines) {
  for (int i = 0; i < lines->n; i++)
    free(lines->at[i]);
  free(lines->at);
  *lines = (Lines){0};
}

// Splits text into lines, without what is white at their ends, and without empty lines at the end.
static Lines split(const char *text) {
  Lines lines = {0};
  while (*text) {
    size_t n = strcspn(text, "\n"), kept = n;
    while (kept > 0 && strchr(" \t\r", text[kept - 1]))
      kept--;
    push(&lines, text, kept);
    text += text[n] ? n + 1 : n;
  }
  while (lines.n > 0 && !*lines.at[lines.n - 1])
    free(lines.at[--lines.n]);
  return lines;
}

static char *read_file(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  if (!f)
    return NULL;
  char *text = NULL;
  size_t n = 0, capacity = 0, got;
  do {
    capacity = capacity ? 2 * capacity : 1 << 14;
    text = need(realloc(text, capacity + 1));
    got = fread(text + n, 1, capacity - n, f);
    n += got;
  } while (got > 0);
  fclose(f);
  text[n] = 0;
  *size = n;
  return text;
}

// Replaces each `from` in text; the result is new, text is freed.
static char *replace(char *text, const char *from, const char *to) {
  char *result = NULL;
  size_t size = 0;
  FILE *f = need(open_memstream(&result, &size));
  const char *rest = text;
  for (const char *hit; *from && (hit = strstr(rest, from)); rest = hit + strlen(from))
    fprintf(f, "%.*s%s", (int)(hit - rest), rest, to);
  fputs(rest, f);
  fclose(f);
  free(text);
  return result;
}

// --- reading a case ------------------------------------------------------------------------------

// The text after "// WORD:" on a line, or NULL.
static const char *directive(const char *line, const char *leader, const char *word) {
  size_t n = strlen(leader), k = strlen(word);
  if (strncmp(line, leader, n) != 0)
    return NULL;
  line += n + strspn(line + n, " ");
  if (strncmp(line, word, k) != 0 || line[k] != ':')
    return NULL;
  line += k + 1;
  return line + strspn(line, " ");
}

// Reads a case; false when the file is none (binary, or without a RUN line).
static bool read_case(const char *path, Case *c) {
  size_t size = 0;
  char *text = read_file(path, &size);
  *c = (Case){.path = path, .leader = "//", .status = -1};
  if (!text || strlen(text) != size || !strstr(text, "RUN:")) {
    free(text);
    return false;
  }
  Lines lines = split(text);
  free(text);
  for (int i = 0; i < lines.n; i++)
    if (directive(lines.at[i], "#", "RUN"))
      c->leader = "#";
  size_t n = strlen(c->leader);
  bool in_out = false;
  for (int i = 0; i < lines.n; i++) {
    const char *line = lines.at[i], *rest;
    if ((rest = directive(line, c->leader, "EXIT")) != NULL) {
      c->status = atoi(rest);
    } else if ((rest = directive(line, c->leader, "ERR")) != NULL) {
      push(&c->err, rest, strlen(rest));
    } else if (directive(line, c->leader, "OUT")) {
      in_out = true;
      continue;
    } else if (in_out && strncmp(line, c->leader, n) == 0) {
      rest = line + n + (line[n] == ' ');
      push(&c->out, rest, strlen(rest));
      continue;
    } else {
      if ((rest = directive(line, c->leader, "RUN")) != NULL)
        push(&c->run, rest, strlen(rest));
      push(&c->body, line, strlen(line));
    }
    in_out = false;
  }
  clear(&lines);
  return c->run.n > 0;
}

static void free_case(Case *c) {
  clear(&c->body);
  clear(&c->run);
  clear(&c->err);
  clear(&c->out);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// --- running it ----------------------------------------------------------------------------------

// Runs a shell command in the file's folder, output into files. Its exit status; 124 on timeout.
static int shell(const char *command, const Case *c, const Options *o, const char *out,
                 const char *err) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, NULL);
  pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    sigprocmask(SIG_UNBLOCK, &child, NULL);
    int fds[3] = {open("/dev/null", O_RDONLY), open(out, O_WRONLY | O_CREAT | O_APPEND, 0600),
                  open(err, O_WRONLY | O_CREAT | O_APPEND, 0600)};
    for (int i = 0; i < 3; i++)
      if (fds[i] < 0 || dup2(fds[i], i) < 0)
        _exit(125);
    const char *name = base_name(c->path);
    char *dir = strndup(c->path, (size_t)(name - c->path));
    if (dir && *dir && chdir(dir) != 0)
      _exit(125);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  setpgid(pid, pid);
  struct timespec limit = {.tv_sec = o->timeout};
  bool late = false;
  int status = 0;
  pid_t ended = 0;
  while (pid > 0 && !late && (ended = waitpid(pid, &status, WNOHANG)) == 0)
    late = sigtimedwait(&child, NULL, &limit) < 0 && errno == EAGAIN;
  if (late) {
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return 124;
  }
  if (ended != pid)
    return 125;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A diagnostic without the name of the file or program before it, or NULL when the line is none.
static const char *diagnostic(const char *line, const Case *c) {
  const char *word = strstr(line, "error: ");
  if (!word)
    word = strstr(line, "warning: ");
  if (!word || (word > line && word[-1] != ' '))
    return NULL;
  for (int i = -1; i < N_NAMES; i++) {
    const char *before = i < 0 ? base_name(c->path) : program_names[i];
    size_t n = strlen(before);
    if (strncmp(line, before, n) == 0 && line[n] == ':')
      return line + n + 1 + strspn(line + n + 1, " ");
  }
  return line;
}

typedef struct Result {
  int status;
  Lines out, err;  // err: the diagnostics only
  char *raw_err;
} Result;

static char *slurp(const char *path, const char *temp) {
  size_t n;
  char *text = read_file(path, &n);
  unlink(path);
  return replace(text ? text : need(strdup("")), temp, "%t");
}

static Result run_case(const Case *c, const Options *o) {
  char temp[PATH_MAX + 32], out[PATH_MAX + 64], err[PATH_MAX + 64];
  snprintf(temp, sizeof temp, "%s/%d.t", o->tmp, (int)getpid());
  snprintf(out, sizeof out, "%s.stdout", temp);
  snprintf(err, sizeof err, "%s.stderr", temp);
  Result r = {0};
  for (int i = 0; i < c->run.n; i++) {
    char *command = replace(need(strdup(c->run.at[i])), "%s", base_name(c->path));
    command = replace(command, "%t", temp);
    int status = shell(command, c, o, out, err);
    if (status > r.status)
      r.status = status;
    free(command);
  }
  char *text = slurp(out, temp);
  r.out = split(text);
  free(text);
  r.raw_err = slurp(err, temp);
  Lines lines = split(r.raw_err);
  for (int i = 0; i < lines.n; i++) {
    const char *d = diagnostic(lines.at[i], c);
    if (d)
      push(&r.err, d, strlen(d));
  }
  clear(&lines);
  char sweep[PATH_MAX + 64];
  snprintf(sweep, sizeof sweep, "rm -rf '%s'*", temp);
  if (system(sweep) != 0)
    perror(sweep);
  return r;
}

// --- saying what differs -------------------------------------------------------------------------

// Prints want against got: lines of the longest common subsequence unmarked, the others - and +.
static void print_diff(const Lines *want, const Lines *got) {
  size_t w = (size_t)want->n + 1, g = (size_t)got->n + 1;
  if (w * g > 16u << 20) {
    printf("    (%d lines expected, %d found; too long to compare here)\n", want->n, got->n);
    return;
  }
  int *common = need(calloc(w * g, sizeof(int)));
#define AT(i, k) common[(size_t)(i)*g + (size_t)(k)]
  for (int i = want->n - 1; i >= 0; i--)
    for (int k = got->n - 1; k >= 0; k--) {
      if (strcmp(want->at[i], got->at[k]) == 0)
        AT(i, k) = AT(i + 1, k + 1) + 1;
      else
        AT(i, k) = AT(i + 1, k) > AT(i, k + 1) ? AT(i + 1, k) : AT(i, k + 1);
    }
  printf("    --- expected\n    +++ found\n");
  int i = 0, k = 0, shown = -1;
  while (i < want->n || k < got->n) {
    bool same = i < want->n && k < got->n && strcmp(want->at[i], got->at[k]) == 0;
    if (same) {
      i++, k++;
      continue;
    }
    if (shown != k)
      printf("    @@ line %d @@\n", k + 1);
    if (i < want->n && (k == got->n || AT(i + 1, k) >= AT(i, k + 1)))
      printf("    -%s\n", want->at[i++]);
    else
      printf("    +%s\n", got->at[k++]);
    shown = k;
  }
#undef AT
  free(common);
}

static bool same_lines(const Lines *a, const Lines *b) {
  bool same = a->n == b->n;
  for (int i = 0; same && i < a->n; i++)
    same = strcmp(a->at[i], b->at[i]) == 0;
  return same;
}

// Every ERR line is part of a diagnostic, and the other way round.
static bool errors_fit(const Lines *want, const Lines *got) {
  bool fit = true;
  for (int i = 0; i < want->n; i++) {
    bool found = false;
    for (int k = 0; k < got->n; k++)
      found = found || strstr(got->at[k], want->at[i]);
    fit = fit && found;
  }
  for (int k = 0; k < got->n; k++) {
    bool found = false;
    for (int i = 0; i < want->n; i++)
      found = found || strstr(got->at[k], want->at[i]);
    fit = fit && found;
  }
  return fit;
}

static bool must_fail(const Case *c) {
  return strncmp(base_name(c->path), "bad-", 4) == 0;
}

static bool judge(const Case *c, const Result *r) {
  bool status_fits = c->status >= 0 ? r->status == c->status
                     : must_fail(c) ? r->status != 0
                                    : r->status == 0;
  if (must_fail(c) && (r->status == 0 || r->status >= 124))
    status_fits = false;
  bool out_fits = same_lines(&c->out, &r->out), err_fits = errors_fit(&c->err, &r->err);
  if (status_fits && out_fits && err_fits)
    return true;
  printf("FAIL %s\n", c->path);
  for (int i = 0; i < c->run.n; i++)
    printf("    $ %s\n", c->run.at[i]);
  if (!status_fits)
    printf("    exit status %d%s\n", r->status,
           r->status == 124  ? " (too slow)"
           : r->status > 128 ? " (a signal)"
                             : "");
  if (!out_fits)
    print_diff(&c->out, &r->out);
  if (!err_fits) {
    printf("    on stderr:\n");
    print_diff(&c->err, &r->err);
  }
  if ((!status_fits || !err_fits) && *r->raw_err)
    printf("    stderr:\n%.4000s\n", r->raw_err);
  return false;
}

// --- --update ------------------------------------------------------------------------------------

static bool write_case(const Case *c, const Result *r) {
  FILE *f = fopen(c->path, "w");
  if (!f) {
    perror(c->path);
    return false;
  }
  int n = c->body.n;
  while (n > 0 && !*c->body.at[n - 1])
    n--;
  for (int i = 0; i < n; i++)
    fprintf(f, "%s\n", c->body.at[i]);
  if (r && r->status != 0)
    fprintf(f, "%s EXIT: %d\n", c->leader, r->status);
  for (int i = 0; r && i < r->err.n; i++)
    fprintf(f, "%s ERR: %s\n", c->leader, r->err.at[i]);
  if (r && r->out.n > 0)
    fprintf(f, "%s OUT:\n", c->leader);
  for (int i = 0; r && i < r->out.n; i++)
    fprintf(f, "%s%s%s\n", c->leader, *r->out.at[i] ? " " : "", r->out.at[i]);
  return fclose(f) == 0;
}

// Runs a case; with --update a case that fails is written anew. The expected part is taken out
// first, so that it does not shift the lines of the input.
static bool try_case(const char *path, const Options *o) {
  Case c;
  bool passed = true;
  if (read_case(path, &c)) {
    if (o->update)
      write_case(&c, NULL);
    Result r = run_case(&c, o);
    bool sound = r.status < 124 && (r.status != 0) >= must_fail(&c);
    if (o->update)
      passed = write_case(&c, &r) && sound;
    else
      passed = judge(&c, &r);
    if (o->update && !sound)
      printf("FAIL %s: exit status %d\n", path, r.status);
    clear(&r.out);
    clear(&r.err);
    free(r.raw_err);
  }
  free_case(&c);
  return passed;
}

// --- finding cases, and the main loop ------------------------------------------------------------

static void find_cases(const char *path, const Options *o, Lines *found) {
  struct stat s;
  if (stat(path, &s) != 0) {
    perror(path);
    exit(2);
  }
  if (!S_ISDIR(s.st_mode)) {
    Case c;
    bool wanted = !o->filter || strstr(path, o->filter);
    if (wanted && read_case(path, &c))
      push(found, path, strlen(path));
    if (wanted)
      free_case(&c);
    return;
  }
  struct dirent **names;
  int n = scandir(path, &names, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    char below[PATH_MAX];
    int length = snprintf(below, sizeof below, "%s/%s", path, names[i]->d_name);
    if (names[i]->d_name[0] != '.' && length < (int)sizeof below)
      find_cases(below, o, found);
    free(names[i]);
  }
  if (n >= 0)
    free(names);
}

// Every o->jobs-th case from `first`; the number that failed.
static int run_share(const Lines *cases, int first, const Options *o) {
  int failed = 0;
  for (int i = first; i < cases->n; i += o->jobs)
    failed += !try_case(cases->at[i], o);
  fflush(stdout);
  return failed;
}

static int run_all(const Lines *cases, const Options *o) {
  if (o->jobs == 1)
    return run_share(cases, 0, o);
  int fds[2], failed = 0;
  if (pipe(fds) != 0)
    exit(2);
  fflush(stdout);
  for (int job = 0; job < o->jobs; job++)
    if (fork() == 0) {
      int count = run_share(cases, job, o);
      _exit(write(fds[1], &count, sizeof count) == sizeof count ? 0 : 1);
    }
  close(fds[1]);
  int reports = 0;
  for (int count; read(fds[0], &count, sizeof count) == sizeof count; reports++)
    failed += count;
  while (wait(NULL) > 0)
    continue;
  return failed + (reports < o->jobs);
}

// A folder of our own, named by our process' number in capital letters: commands filter lines that hold the name, and one
// of any letters, as mkdtemp makes it, holds what they look for once in many runs.
static void make_folder(Options *o) {
  const char *tmp = getenv("TMPDIR");
  char name[64] = "";
  size_t n = 0;
  bool made;
  for (long rest = getpid(); rest > 0; rest /= 10)
    name[n++] = (char)('A' + rest % 10);
  do {
    snprintf(o->tmp, sizeof o->tmp, "%s/hilo-run-%s", tmp && *tmp ? tmp : "/tmp", name);
    made = mkdir(o->tmp, 0700) == 0;
    name[n++] = 'X';
  } while (!made && errno == EEXIST && n + 1 < sizeof name);
  if (!made) {
    perror(o->tmp);
    exit(2);
  }
}

// The program under its names, first in PATH, so that commands find it.
static void make_bin(Options *o) {
  make_folder(o);
  char program[PATH_MAX], link[PATH_MAX + 32], path[3 * PATH_MAX];
  if (!realpath(o->hilo, program)) {
    perror(o->hilo);
    rmdir(o->tmp);
    exit(2);
  }
  for (int i = 0; i < N_NAMES; i++) {
    snprintf(link, sizeof link, "%s/%s", o->tmp, program_names[i]);
    if (symlink(program, link) != 0)
      perror(link);
  }
  snprintf(path, sizeof path, "%s:%s", o->tmp, getenv("PATH"));
  setenv("PATH", path, 1);
  setenv("NO_COLOR", "1", 1);
  unsetenv("XLA_FLAGS");
}

static const char *option(int argc, char **argv, int *i, const char *name) {
  size_t n = strlen(name);
  if (strncmp(argv[*i], name, n) != 0)
    return NULL;
  if (argv[*i][n] == '=')
    return argv[*i] + n + 1;
  return argv[*i][n] == 0 && *i + 1 < argc ? argv[++*i] : NULL;
}

int main(int argc, char **argv) {
  Options o = {.hilo = "build/hilo", .jobs = 1, .timeout = 10};
  Lines roots = {0}, cases = {0};
  const char *value;
  for (int i = 1; i < argc; i++) {
    if ((value = option(argc, argv, &i, "--hilo")) != NULL)
      o.hilo = value;
    else if ((value = option(argc, argv, &i, "--filter")) != NULL)
      o.filter = value;
    else if ((value = option(argc, argv, &i, "--jobs")) != NULL && atoi(value) > 0)
      o.jobs = atoi(value);
    else if ((value = option(argc, argv, &i, "--timeout")) != NULL && atoi(value) > 0)
      o.timeout = atoi(value);
    else if (strcmp(argv[i], "--update") == 0)
      o.update = true;
    else if (argv[i][0] != '-')
      push(&roots, argv[i], strlen(argv[i]));
    else {
      fprintf(stderr, "usage: run [--hilo PROGRAM] [--update] [--filter TEXT] [--jobs N] "
                      "[--timeout SECONDS] [FILE | DIR]...\n");
      return 2;
    }
  }
  if (roots.n == 0)
    push(&roots, "tests/golden", strlen("tests/golden"));
  make_bin(&o);
  for (int i = 0; i < roots.n; i++)
    find_cases(roots.at[i], &o, &cases);
  const int n = cases.n, failed = run_all(&cases, &o);
  printf("%d passed, %d failed\n", n - failed, failed);
  char sweep[PATH_MAX + 16];
  snprintf(sweep, sizeof sweep, "rm -rf '%s'", o.tmp);
  if (system(sweep) != 0)
    perror(sweep);
  clear(&cases);
  clear(&roots);
  return failed > 0 || n == 0;
}
