// support/folder.c: a folder of a test's own.
#include "support/folder.h"

#include <stdio.h>
#include <stdlib.h>

bool folder_make(char path[FOLDER_ROOM], const char *what) {
  const char *where = getenv("TMPDIR");
  snprintf(path, FOLDER_ROOM, "%s/hilo-%s-XXXXXX", where && *where ? where : "/tmp", what);
  return mkdtemp(path) != NULL;
}

bool folder_remove(const char *path) {
  char command[FOLDER_ROOM + 16];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  return system(command) == 0;
}
