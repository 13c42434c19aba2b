// tool/dumps/clean_journal.h: what became of each file that was cleaned, as lines of JSON that are added as the work goes on.
#ifndef TOOL_DUMPS_CLEAN_JOURNAL_H
#define TOOL_DUMPS_CLEAN_JOURNAL_H

#include "base/map.h"
#include "base/vec.h"
#include "hilo/clean.h"

typedef struct CleanEntry {
  HlCleaned what;
  int64_t size, mtime;  // of the file
  int64_t bytes;        // of what was written; 0: nothing
  int n;                // entries of the file: each says how many
} CleanEntry;

typedef struct CleanJournal {
  HlArena *arena;  // of the entries' texts
  int fd;          // -1: not open
  int64_t end;     // bytes that are whole
  const char *path;
  VEC(CleanEntry) old;  // of earlier runs
  Map by_file;          // hash of a file's name: 1 + its first entry in `old`
} CleanJournal;

// Opens a folder's journal, made where it is not there, for this process alone, and reads what is in it; a line that was not
// finished is cut off. `how` says how it is worked: other words than those in the journal are an error.
bool clean_journal_open(HlCx *cx, const char *folder, const char *how, CleanJournal *out);
void clean_journal_close(CleanJournal *journal);
// The entries of a file as an earlier run left them: the first of n; NULL: none, or the file has changed since.
const CleanEntry *clean_journal_find(const CleanJournal *journal, const char *file, int64_t size,
                                     int64_t mtime);
// Adds all entries of one file, or none of them.
bool clean_journal_add(HlCx *cx, CleanJournal *journal, const CleanEntry *entries, int n);
// What became of one, as members of a JSON object: of the journal's lines and of the command's report.
void clean_json(HlBuf *out, const HlCleaned *one);

#endif
