// hilo/index.h: an index of all programs in a directory, kept in a file, and what can be found by it.
//
//   HlIndex *index = hl_index_open(cx, "dump", NULL);
//   HlIndexCounts counts;
//   if (index && hl_index_update(cx, index, NULL, NULL, &counts) && hl_find(cx, index, &query, show, user, &result)) ...
//   hl_index_free(index);
//
// The file is an SQLite database: hilo-index.db in the directory or, where nothing can be written there, in the user's cache
// ($XDG_CACHE_HOME/hilo, ~/.cache/hilo), or else in memory. It follows the files: what has another size, time or content is read
// again, by hl_index_update alone. Several processes may update and ask at a time; who asks sees one state of it. A file that is damaged or of
// another version is made anew. Without SQLite in the build hl_index_open says so (HL_UNSUPPORTED).
//
// Modules are not verified. A file that cannot be read, or is none, is kept with the reason.
#ifndef HILO_INDEX_H
#define HILO_INDEX_H

#include "hilo/dump_names.h"
#include "hilo/tool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HlIndex HlIndex;

typedef struct HlIndexOptions {
  const char *path;            // of the index's file; NULL: as above
  bool anew;                   // forget what was indexed before
} HlIndexOptions;
// An index of a directory, opened or made; nothing is read yet. NULL after reporting.
HlIndex *hl_index_open(HlCx *cx, const char *directory, const HlIndexOptions *options);
void hl_index_free(HlIndex *index);          // NULL is fine
const char *hl_index_path(const HlIndex *index);       // of its file; "" in memory
const char *hl_index_directory(const HlIndex *index);  // as it was given

typedef struct HlIndexCounts {
  int64_t files, read, same, gone;   // seen; read now; with other times but the same content; no longer there
  int64_t unread_folders;            // could not be opened, and are warned of
  double seconds;
} HlIndexCounts;
// Told before each file that is read: the k-th of n.
typedef void HlIndexProgress(void *user, int64_t k, int64_t n, const char *path);
// Makes the index say what is in the directory now. Ended early it keeps what it has, and goes on from there next time.
bool hl_index_update(HlCx *cx, HlIndex *index, HlIndexProgress *progress, void *user, HlIndexCounts *out);

// --- What is in it ------------------------------------------------------------------------------

typedef struct HlIndexedModule {
  const char *name;
  int64_t instructions, computations, fusions;
  double flops, transcendentals, bytes_read, bytes_written, collective_bytes, peak_memory;  // cost.h
  int64_t partitions, replicas;
  bool is_scheduled;
  uint64_t graph_hash;         // hl_graph_hash
} HlIndexedModule;
typedef enum HlIndexedState { HL_INDEXED, HL_INDEXED_NO_MODULE, HL_INDEXED_UNREADABLE } HlIndexedState;
typedef struct HlIndexedFile {
  const char *path;            // from the directory on
  int64_t size;
  int program;                 // of HlIndexList.programs; -1: of none
  HlDumpStage stage;
  HlDumpName dump;             // what its name says
  HlIndexedState state;
  const char *why;             // that there is nothing of it: one line; "" where there is
  const HlIndexedModule *modules;
  int n_modules;
} HlIndexedFile;
// A program: what belongs together of jaxpr, StableHLO, HLO before, between and after passes.
typedef struct HlIndexedProgram {
  const char *name, *folder;
  int64_t number, stamp;       // of the dump; -1 and 0: none
  double ms;                   // that compiling took, by the dump's own record; < 0: it does not say
  const char *note;            // why it is apart from another of its name; "": nothing to say
  int first, n;                // its files in HlIndexList.files, by stage, step and name
} HlIndexedProgram;
typedef struct HlIndexList {
  const HlIndexedProgram *programs;
  const HlIndexedFile *files;  // those of programs first, then others, by name
  int n_programs, n_files;
} HlIndexList;
// All of it as it is in the index, in the arena.
bool hl_index_list(HlCx *cx, HlIndex *index, HlArena *arena, HlIndexList *out);
// The file of a program at a stage, the last one where there are several; NULL: none.
const HlIndexedFile *hl_indexed_stage(const HlIndexList *list, const HlIndexedProgram *program, HlDumpStage stage);

// --- Finding ------------------------------------------------------------------------------------

// Where a term is looked for.
typedef enum HlFindField {
  HL_FIND_ANYWHERE,            // all that follow; an op as a whole word
  HL_FIND_NAME,                // of an instruction or computation: a part of it, '%' left out
  HL_FIND_OP,                  // opcodes, separated by commas: whole
  HL_FIND_SHAPE,               // of the result or an element of it: f32[8,16], f32[8,*], f32[*], bf16; with {1,0} the layout, too
  HL_FIND_SCOPE,               // metadata's op_name: a part of it
  HL_FIND_SOURCE,              // FILE, FILE:LINE, FILE:FIRST-LAST or :LINE, of an instruction or any frame of its stack; FILE may
                               // leave out folders from the left
  HL_FIND_TARGET,              // of a custom call: a part of it
  HL_FIND_MODULE,              // name: a part of it
  HL_FIND_FILE,                // the path of the file: a part of it
  HL_FIND_FIELD_COUNT
} HlFindField;
typedef struct HlFindTerm {
  HlFindField field;
  const char *text;
} HlFindTerm;
typedef struct HlFindQuery {
  const HlFindTerm *terms;     // all must hold
  int n_terms;
  bool is_regex;               // every text is a regular expression (PCRE2), found anywhere in the field
  bool ignore_case;
  uint32_t stages;             // 1 << HlDumpStage, or'ed; 0: all
  const char *after_pass;      // only states after passes of this name; NULL: all
  bool trace;                  // say of each instruction its stack and counterparts
} HlFindQuery;

typedef enum HlFoundKind { HL_FOUND_MODULE, HL_FOUND_COMPUTATION, HL_FOUND_INSTRUCTION } HlFoundKind;
typedef struct HlFoundPlace {
  const char *function;        // "" : not said
  const char *file;
  int64_t line;
} HlFoundPlace;
typedef struct HlFoundSource {
  const char *file;
  int64_t line, instructions;
} HlFoundSource;
typedef struct HlFound {
  HlFoundKind kind;
  const char *path;            // of the file, from the directory on
  HlDumpStage stage;
  int64_t line;                // in it, from 1; 0: the file has no lines
  const char *module, *computation, *name;
  bool is_entry, is_fused;     // the computation
  const char *caller;          // what calls the computation, if one instruction does: the fusion that an instruction is in; ""
  const char *op, *shape, *scope, *source;  // "": it has none
  int64_t source_line;
  const char *target;          // of a custom call; the kind of a fusion
  int64_t instructions;        // of a module or computation
  const HlFoundPlace *stack;   // with trace, innermost first
  int n_stack;
  const HlFoundSource *sources;  // with trace, of a fusion: the lines that what is in it came from, the most frequent first
  int n_sources;
  const struct HlFound *counterparts;  // with trace: the same scope and source line in other forms of the program
  int n_counterparts;
  int64_t more_counterparts;   // left out
} HlFound;
// Called for each; borrowed until it returns. False: no more of them (which are counted all the same).
typedef bool HlFindShow(void *user, const HlFound *found);
typedef struct HlFindResult {
  int64_t found, modules, files, programs;  // that hold some
  int64_t searched_modules, searched_files;
  int64_t unreadable;          // files of which nothing is known
} HlFindResult;
// Looks in the index as it is. False after reporting: a term that cannot be read (HL_UNSUPPORTED for an unknown op), or the index.
bool hl_find(HlCx *cx, HlIndex *index, const HlFindQuery *query, HlFindShow *show, void *user, HlFindResult *out);

#ifdef __cplusplus
}
#endif
#endif
