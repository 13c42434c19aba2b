// tool/dumps/index.h: what the files of the index share: its tables, and a module as it is kept there.
//
// Tables (index.c). A file points to its content, by hash, so that files of the same bytes (states that a pass left alone) are read
// and kept once. What is known of the instructions of a module is one blob, its record: columns of small numbers, where a
// string is a number local to the module, and at its start the list of the module's strings by their numbers in the whole index.
// So who looks for something looks at each string once, at each module's list next, and at the columns of the
// few modules that are left.
#ifndef TOOL_DUMPS_INDEX_H
#define TOOL_DUMPS_INDEX_H

#include "base/map.h"
#include "base/vec.h"
#include "hilo/index.h"
#include "tool/dumps/sql.h"

enum { INDEX_APPLICATION = 0x48694c4f, INDEX_VERSION = 1 };

// --- Strings of the whole index: numbered from 1; 0 is "" ---------------------------------------------

typedef struct IndexStrings {
  HlArena *arena;
  Map by_hash;    // to numbers
  VEC(HlStr) at;  // [number]; at[0] is ""
  int n_kept;     // that are in the database: at[1] .. at[n_kept - 1]
} IndexStrings;
void index_strings_free(IndexStrings *strings);
uint32_t index_string(IndexStrings *strings, HlStr text);
// Takes what others have added to the database since; adds to it what is new here.
bool index_strings_sync(HlCx *cx, Sql *db, IndexStrings *strings);
bool index_strings_keep(HlCx *cx, Sql *db, IndexStrings *strings);

struct HlIndex {
  HlArena *arena;
  Sql *db;
  const char *directory, *real;  // as given; resolved
  const char *path, *shown;      // of the file, "" in memory; as it is told
  IndexStrings strings;
  bool is_beside;  // the file lies in the directory
  bool is_still;   // it can only be read: the disk is full
};

// A stage as the database has it, which anybody may have written.
static inline HlDumpStage index_stage(int64_t value) {
  return value >= 0 && value < HL_STAGE_COUNT ? (HlDumpStage)value : HL_STAGE_OTHER;
}

// --- Records (index_record.c) ------------------------------------------------------------------------

// The columns of instructions, in the order of a record.
typedef enum IndexColumn {
  INDEX_NAME,
  INDEX_OP,
  INDEX_SHAPE,
  INDEX_SCOPE,
  INDEX_SOURCE,
  INDEX_DETAIL,  // strings, local; detail: target or kind
  INDEX_LINE,    // of the source, and how many more
  INDEX_LINES,
  INDEX_FRAME,  // of the module's; 0: none
  INDEX_PLACE,  // line of the file, as zigzag difference from the one before
  INDEX_COLUMNS
} IndexColumn;
enum { INDEX_STRINGS = INDEX_DETAIL + 1 };  // columns that are strings

// A module that is to be kept: its strings are borrowed from it.
typedef struct IndexRecord {
  HlIndexedModule module;
  uint64_t signature;  // of parameters and results, layouts aside
  VEC(HlStr) strings;  // [0] is ""
  Map local;           // of strings, by hash: 1 + number
  HlBuf body;          // what follows the list of strings
} IndexRecord;
void index_record_make(HlCx *cx, const HlModule *m, IndexRecord *out);
void index_record_free(IndexRecord *record);
// The blob: the list of strings in the index's numbers, then the body.
void index_record_blob(const IndexRecord *record, IndexStrings *strings, HlBuf *out);

typedef struct IndexComp {
  uint32_t name, flags, n, caller;  // caller: 1 + instruction; 0: none, or several
} IndexComp;
enum { INDEX_COMP_ENTRY = 1, INDEX_COMP_FUSION = 2 };
typedef struct IndexFrame {
  uint32_t file, function, line, lines, parent;
} IndexFrame;
typedef struct IndexView {
  uint32_t *strings, n_strings;  // the index's numbers
  IndexComp *comps;
  uint32_t n_comps;
  IndexFrame *frames;  // from 1
  uint32_t n_frames;
  uint32_t n;                       // instructions
  uint32_t *column[INDEX_COLUMNS];  // INDEX_PLACE: lines
} IndexView;
// The list of strings alone; then all of it. False: the blob is damaged.
bool index_view_strings(HlArena *arena, HlStr blob, IndexView *out, size_t *body);
bool index_view_body(HlArena *arena, HlStr blob, size_t body, IndexView *out);

// --- Programs (index_programs.c) ---------------------------------------------------------------------

// Puts files together into programs, anew.
bool index_group(HlCx *cx, HlIndex *index);

#endif
