// pjrt/tasks.c: threads for work that handlers of custom calls hand over. Started when there is work for them.

#include <stdlib.h>

#include "pjrt/plugin.h"

typedef struct Task {
  void (*run)(void *data);
  void *data;
  struct Task *next;
} Task;

struct Tasks {
  pthread_mutex_t lock;
  pthread_cond_t more;
  Task *first, **last;
  int n_waiting;  // tasks
  int n_idle;     // threads
  int n, most;
  bool ends;
  pthread_t thread[];
};

Tasks *tasks_new(int most) {
  Tasks *tasks = calloc(1, sizeof *tasks + (size_t)most * sizeof *tasks->thread);
  if (!tasks)
    return NULL;
  pthread_mutex_init(&tasks->lock, NULL);
  pthread_cond_init(&tasks->more, NULL);
  tasks->last = &tasks->first;
  tasks->most = most;
  return tasks;
}

int tasks_threads(const Tasks *tasks) {
  return tasks->most;
}

// Under the lock.
static Task *take(Tasks *tasks) {
  Task *task = tasks->first;
  tasks->first = task->next;
  tasks->n_waiting--;
  if (!tasks->first)
    tasks->last = &tasks->first;
  return task;
}

static void *work(void *user) {
  Tasks *tasks = user;
  pthread_mutex_lock(&tasks->lock);
  for (;;) {
    tasks->n_idle++;
    while (!tasks->first && !tasks->ends)
      pthread_cond_wait(&tasks->more, &tasks->lock);
    tasks->n_idle--;
    if (!tasks->first)
      break;
    Task *task = take(tasks);
    pthread_mutex_unlock(&tasks->lock);
    task->run(task->data);
    free(task);
    pthread_mutex_lock(&tasks->lock);
  }
  pthread_mutex_unlock(&tasks->lock);
  return NULL;
}

// Under the lock. False: nobody will do it.
static bool put(Tasks *tasks, Task *task) {
  if (tasks->n_waiting >= tasks->n_idle && tasks->n < tasks->most &&
      pthread_create(&tasks->thread[tasks->n], NULL, work, tasks) == 0)
    tasks->n++;
  if (tasks->n == 0)
    return false;
  *tasks->last = task;
  tasks->last = &task->next;
  tasks->n_waiting++;
  pthread_cond_signal(&tasks->more);
  return true;
}

void tasks_add(Tasks *tasks, void (*run)(void *data), void *data) {
  Task *task = tasks ? malloc(sizeof *task) : NULL;
  bool good = false;
  if (task) {
    *task = (Task){run, data, NULL};
    pthread_mutex_lock(&tasks->lock);
    good = put(tasks, task);
    pthread_mutex_unlock(&tasks->lock);
  }
  if (!good) {
    free(task);
    run(data);
  }
}

void tasks_free(Tasks *tasks) {
  if (!tasks)
    return;
  pthread_mutex_lock(&tasks->lock);
  tasks->ends = true;
  pthread_cond_broadcast(&tasks->more);
  pthread_mutex_unlock(&tasks->lock);
  for (int k = 0; k < tasks->n; k++)
    pthread_join(tasks->thread[k], NULL);
  pthread_mutex_destroy(&tasks->lock);
  pthread_cond_destroy(&tasks->more);
  free(tasks);
}
