// cli/tour/program.c: runs a Python program with dumps on, to see what it compiles.
#include "cli/tour/program.h"

#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ascii.h"
#include "hilo/dump_names.h"

extern char **environ;

bool program_is_python(const char *path) {
  const size_t n = strlen(path);
  return n > 3 && strcmp(path + n - 3, ".py") == 0;
}

// XLA_FLAGS as they are, and dumps as text into the folder; JAX's beside them, unless it writes them elsewhere already.
static bool set_flags(Cli *cli, const char *folder) {
  const char *old = getenv("XLA_FLAGS");
  HlBuf flags = {0};
  hl_buf_printf(&flags, "%s%s--xla_dump_to=%s --xla_dump_hlo_as_text", old ? old : "",
                old ? " " : "", folder);
  const bool ok = setenv("XLA_FLAGS", flags.at, 1) == 0 &&
                  (getenv("JAX_DUMP_IR_TO") || (setenv("JAX_DUMP_IR_TO", folder, 1) == 0 &&
                                                setenv("JAX_DUMP_IR_MODES", "jaxpr", 1) == 0));
  hl_buf_free(&flags);
  return ok || hl_error(cli->cx, (HlPos){0}, "no memory for XLA_FLAGS");
}

// Its standard output goes to standard error: ours is the tour.
static bool spawn(Cli *cli, const char *python, const char *path) {
  char *const words[] = {(char *)python, (char *)path, NULL};
  posix_spawn_file_actions_t actions;
  pid_t child;
  int status = 0;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  const int failed = posix_spawnp(&child, python, &actions, NULL, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed)
    return hl_error_kind(cli->cx, HL_FAILED, (HlPos){0}, "cannot run %s: %s", python,
                         strerror(failed));
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return true;
  return hl_error_kind(cli->cx, HL_FAILED, (HlPos){0}, "%s %s ended with %s %d", python, path,
                       WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static char *joined(const char *folder, const char *name) {
  HlBuf path = {0};
  hl_buf_printf(&path, "%s/%s", folder, name);
  char *out = strdup(path.at);
  hl_buf_free(&path);
  return out;
}

// Of a name what is left of it in both, JAX's and XLA's: "<lambda>" is "jit__lambda".
static bool same_function(const char *jax, const char *module) {
  if (strncmp(module, "jit_", 4) == 0 || strncmp(module, "pjit_", 5) == 0)
    module = strchr(module, '_') + 1;
  for (;;) {
    while (*jax && !is_alnum(*jax))
      jax++;
    while (*module && !is_alnum(*module))
      module++;
    if (!*jax || !*module || *jax != *module)
      return *jax == *module;
    jax++;
    module++;
  }
}

// Which files are looked for: a stage's, of a program by its name or number (NULL: any), or by JAX's name of it.
typedef struct Wanted {
  HlDumpStage stage;
  const char *module, *function;
} Wanted;

static bool is_wanted(const Wanted *w, const char *file) {
  HlArena *arena = hl_arena_new();
  const HlDumpName name = hl_dump_name_read(arena, file);
  char number[24];
  snprintf(number, sizeof number, "%lld", (long long)name.number);
  const bool found =
      name.stage == w->stage && !name.is_report && strstr(file, ".txt") &&
      (!w->module || strcmp(w->module, name.name) == 0 || strcmp(w->module, number) == 0) &&
      (!w->function || same_function(name.name, w->function));
  hl_arena_free(arena);
  return found;
}

// The largest text stands for the most instructions.
static char *largest(const char *folder, const Wanted *wanted) {
  DIR *dir = opendir(folder);
  off_t most = -1;
  char *best = NULL;
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char *path = is_wanted(wanted, e->d_name) ? joined(folder, e->d_name) : NULL;
    struct stat st;
    if (path && stat(path, &st) == 0 && st.st_size > most) {
      most = st.st_size;
      free(best);
      best = path;
      path = NULL;
    }
    free(path);
  }
  if (dir)
    closedir(dir);
  return best;
}

static char *jaxpr_of(const Program *program) {
  HlArena *arena = hl_arena_new();
  const HlDumpName name = hl_dump_name_read(arena, program->module);
  char *path = *name.name ? largest(program->folder,
                                    &(Wanted){.stage = HL_STAGE_JAXPR, .function = name.name})
                          : NULL;
  hl_arena_free(arena);
  return path;
}

bool program_run(Cli *cli, const char *path, Program *out) {
  const char *temp = getenv("TMPDIR"), *python = cli_value(cli, "--python");
  out->folder = joined(temp && *temp ? temp : "/tmp", "hilo-tour-XXXXXX");
  if (!out->folder || !mkdtemp(out->folder)) {
    free(out->folder);
    out->folder = NULL;
    return hl_error_kind(cli->cx, HL_FAILED, (HlPos){0}, "cannot make a folder for dumps: %s",
                         strerror(errno));
  }
  if (!set_flags(cli, out->folder) || !spawn(cli, python ? python : "python3", path))
    return false;
  const char *module = cli_value(cli, "--module");
  out->module = largest(out->folder, &(Wanted){.stage = HL_STAGE_BEFORE, .module = module});
  if (out->module) {
    out->jaxpr = jaxpr_of(out);
    return true;
  }
  return module ? hl_error(cli->cx, (HlPos){0}, "%s compiled no module of the name or number %s",
                           path, module)
                : hl_error(cli->cx, (HlPos){0},
                           "%s compiled nothing that XLA dumps: no module is in %s", path,
                           out->folder);
}

static void remove_all(const char *folder) {
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
      continue;
    char *path = joined(folder, e->d_name);
    if (path && unlink(path) != 0 && errno == EISDIR)
      remove_all(path);
    free(path);
  }
  if (dir)
    closedir(dir);
  rmdir(folder);
}

void program_free(Program *program) {
  if (program->folder)
    remove_all(program->folder);
  free(program->folder);
  free(program->module);
  free(program->jaxpr);
}
