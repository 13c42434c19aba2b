// Runs a command and says what the whole process cost: wall time in ms, peak memory in MiB, exit
// status.
//
//   cost COMMAND [ARGUMENT...]          {"wall_ms": 1.25, "peak_mib": 3.1, "status": 0}
//
// A program of its own, because a process's peak counts what its parent held when it was started:
// measured from Python, everything would seem to need Python's memory.

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: cost COMMAND [ARGUMENT...]\n");
    return 2;
  }
  double start = now_ms();
  pid_t pid = fork();
  if (pid == 0) {
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
      dup2(null, fd);
    execvp(argv[1], argv + 1);
    _exit(127);
  }
  int status;
  struct rusage usage;
  if (pid < 0 || wait4(pid, &status, 0, &usage) < 0) {
    perror(argv[1]);
    return 2;
  }
  printf("{\"wall_ms\": %.3f, \"peak_mib\": %.2f, \"status\": %d}\n", now_ms() - start,
         (double)usage.ru_maxrss / 1024,
         WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return 0;
}
