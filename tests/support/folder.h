// support/folder.h: a folder of a test's own, with all that it puts there.
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include <stdbool.h>

enum { FOLDER_ROOM = 256 };

// Makes one, named after what it is for, where temporary files go (TMPDIR). False: it cannot be made.
bool folder_make(char path[FOLDER_ROOM], const char *what);
// Removes it. False: it is still there.
bool folder_remove(const char *path);

#endif
