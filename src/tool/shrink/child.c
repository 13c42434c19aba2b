// tool/shrink/child.c: work in child processes, under limits of time and memory.

#include "tool/shrink/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

static const double look_every = 0.2;  // seconds between two looks at how much memory is used

// --- Memory -----------------------------------------------------------------------------------------

static bool read_small(const char *path, char *room, size_t n) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file >= 0 ? read(file, room, n - 1) : -1;
  if (file >= 0)
    close(file);
  room[got > 0 ? got : 0] = 0;
  return got > 0;
}

// Resident bytes of one process if it is of the group. The name, in brackets, may hold anything.
static int64_t bytes_if_of(const char *pid, pid_t group) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  if (!read_small(path, text, sizeof text))
    return 0;
  const char *behind = strrchr(text, ')');
  char state;
  long parent, own_group, pages = 0;
  if (!behind || sscanf(behind + 1, " %c %ld %ld", &state, &parent, &own_group) != 3 ||
      own_group != group)
    return 0;
  snprintf(path, sizeof path, "/proc/%.20s/statm", pid);
  if (!read_small(path, text, sizeof text) || sscanf(text, "%*s %ld", &pages) != 1)
    return 0;
  return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

// Of all processes of a group; 0 where there is no /proc.
static int64_t bytes_of_group(pid_t group) {
  DIR *dir = opendir("/proc");
  int64_t sum = 0;
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
      sum += bytes_if_of(entry->d_name, group);
  if (dir)
    closedir(dir);
  return sum;
}

// --- Starting -----------------------------------------------------------------------------------------

static void be_child(const Child *child, const ChildJob *job) {
  setpgid(0, 0);
  const int in = open("/dev/null", O_RDONLY);
  const int out = open(child->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (in > STDERR_FILENO)
    close(in);
  if (out > STDERR_FILENO)
    close(out);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  const int status = job->work ? job->work(job->user) : 0;
  fflush(NULL);
  if (status != 0 || !job->argv)
    _exit(status);
  for (int k = 0; job->env && job->env[k]; k++)
    putenv(job->env[k]);
  execvp(job->argv[0], job->argv);
  dprintf(STDERR_FILENO, "cannot run '%s': %s\n", job->argv[0], strerror(errno));
  _exit(CHILD_NO_COMMAND);
}

static void let_go(void *thing) {
  Child *child = thing;
  if (child->owner == getpid())
    child_kill(child);
}

bool child_start(HlCx *cx, Child *child, const ChildJob *job) {
  fflush(NULL);  // what is not written yet would be written twice
  child->owner = getpid();
  child->started = child->looked = hl_now();
  child->end = CHILD_RUNS;
  child->pid = fork();
  if (child->pid < 0)
    return hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot start a process: %s", strerror(errno));
  if (child->pid == 0)
    be_child(child, job);
  setpgid(child->pid, child->pid);  // whoever of the two is first
  base_hold(child, let_go);
  return true;
}

// --- Ending -------------------------------------------------------------------------------------------

static void note_end(Child *child, int status) {
  child->seconds = hl_now() - child->started;
  kill(-child->pid, SIGKILL);  // what it may have left behind
  if (child->end == CHILD_RUNS) {
    child->end = WIFSIGNALED(status) ? CHILD_SIGNALLED : CHILD_EXITED;
    child->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  child->pid = 0;
  base_drop(child);
}

static void end_by_force(Child *child, ChildEnd why) {
  int status = 0;
  child->end = why;
  kill(-child->pid, SIGKILL);
  kill(child->pid, SIGKILL);
  while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
    continue;
  note_end(child, status);
}

void child_kill(Child *child) {
  if (child->pid > 0)
    end_by_force(child, CHILD_SIGNALLED);
}

bool child_ended(Child *child) {
  if (child->pid == 0)
    return true;
  int status = 0;
  const pid_t got = waitpid(child->pid, &status, WNOHANG);
  const double now = hl_now();
  if (got == child->pid)
    note_end(child, status);
  else if (child->time_limit > 0 && now - child->started > child->time_limit)
    end_by_force(child, CHILD_TIMED_OUT);
  else if (child->memory_limit > 0 && now - child->looked > look_every) {
    child->looked = now;
    if (bytes_of_group(child->pid) > child->memory_limit)
      end_by_force(child, CHILD_TOO_BIG);
  }
  return child->pid == 0;
}

void child_nap(const Child *child) {
  const double age = hl_now() - child->started;
  const double nap = age < 0.01 ? 0.0003 : age < 0.2 ? 0.002 : 0.01;
  nanosleep(&(struct timespec){.tv_nsec = (long)(nap * 1e9)}, NULL);
}

bool child_wait(HlCx *cx, Child *child) {
  while (!child_ended(child)) {
    base_look();
    if (hl_cx_is_cancelled(cx)) {
      child_kill(child);
      return false;
    }
    child_nap(child);
  }
  return true;
}

// --- Directories --------------------------------------------------------------------------------------

// Removes it with what is in it, three levels deep: dumps have folders.
static void remove_tree(const char *path, int depth) {
  DIR *dir = opendir(path);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char name[1024];
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name) >= (int)sizeof name)
      continue;
    if (unlink(name) != 0 && depth < 3)
      remove_tree(name, depth + 1);
  }
  if (dir)
    closedir(dir);
  rmdir(path);
}

static void let_dir_go(void *thing) {
  TempDir *dir = thing;
  if (dir->owner == getpid())
    remove_tree(dir->path, 0);
}

bool temp_dir_open(HlCx *cx, TempDir *dir) {
  const char *base = getenv("TMPDIR");
  dir->owner = getpid();
  snprintf(dir->path, sizeof dir->path, "%s/hilo.XXXXXX",
           base && *base && strlen(base) < 200 ? base : "/tmp");
  if (!mkdtemp(dir->path))
    return hl_error_kind(cx, HL_FAILED, (HlPos){0}, "cannot make a directory in %s: %s",
                         base && *base ? base : "/tmp", strerror(errno));
  base_hold(dir, let_dir_go);
  return true;
}

void temp_dir_close(TempDir *dir) {
  base_drop(dir);
  let_dir_go(dir);
}
