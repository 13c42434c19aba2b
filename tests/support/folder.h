// support/folder.h: a folder of a test's own, with all that it puts there, or a file.
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include <stdbool.h>

enum { FOLDER_ROOM = 256 };

// Makes one, named after what it is for, where temporary files go (TMPDIR). False: it cannot be made.
bool folder_make(char path[FOLDER_ROOM], const char *what);
// Removes it. False: it is still there.
bool folder_remove(const char *path);
// A file alone, empty, whose name ends so; the caller unlinks it. A descriptor; -1: it cannot be made.
int folder_file(char path[FOLDER_ROOM], const char *what, const char *ending);

#endif
