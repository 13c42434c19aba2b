// support/folder.c: a folder or a file of a test's own.
#include "support/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_path(char path[FOLDER_ROOM], const char *what, const char *ending) {
  const char *where = getenv("TMPDIR");
  snprintf(path, FOLDER_ROOM, "%s/hilo-%s-XXXXXX%s", where && *where ? where : "/tmp", what, ending);
}

bool folder_make(char path[FOLDER_ROOM], const char *what) {
  set_path(path, what, "");
  return mkdtemp(path) != NULL;
}

int folder_file(char path[FOLDER_ROOM], const char *what, const char *ending) {
  set_path(path, what, ending);
  return mkstemps(path, (int)strlen(ending));
}

bool folder_remove(const char *path) {
  char command[FOLDER_ROOM + 16];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  return system(command) == 0;
}
