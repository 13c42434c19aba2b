// hilo/diff.h: what differs between two modules: paired by structure first, by names last.
//
//   HlDiff *diff = hl_diff(cx, a, b, NULL);
//   if (!diff->equal)
//     hl_diff_text(diff, NULL, &out);
//   hl_diff_free(diff);
#ifndef HILO_DIFF_H
#define HILO_DIFF_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// What became of an instruction.
typedef enum HlVerdict {
  HL_DIFF_SAME,                // it has a partner that is no different
  HL_DIFF_CHANGED,             // it has one that differs: HlDiffRow.what
  HL_DIFF_MOVED,               // its partner stands in another computation, or elsewhere in the schedule
  HL_DIFF_FUSED,               // its partner stands in a fusion (`into`)
  HL_DIFF_FOLDED,              // its value is a constant now, or part of what another instruction (`into`) computes
  HL_DIFF_INLINED,             // its partner stands where its computation was called
  HL_DIFF_REMOVED,             // nothing of it is left
  HL_DIFF_ADDED,               // there was nothing of it
  HL_DIFF_VERDICTS
} HlVerdict;
const char *hl_verdict_text(HlVerdict verdict);

// In what partners differ, and what can be ignored; bits.
typedef enum HlDiffWhat {
  HL_DIFF_OP = 1, HL_DIFF_SHAPE = 1 << 1, HL_DIFF_LAYOUT = 1 << 2, HL_DIFF_OPERANDS = 1 << 3, HL_DIFF_ATTRIBUTES = 1 << 4,
  HL_DIFF_CONSTANTS = 1 << 5, HL_DIFF_SHARDING = 1 << 6, HL_DIFF_METADATA = 1 << 7, HL_DIFF_CONFIG = 1 << 8,
  HL_DIFF_FRONTEND = 1 << 9, HL_DIFF_CONTROL = 1 << 10, HL_DIFF_CHANNELS = 1 << 11, HL_DIFF_ORDER = 1 << 12,
  HL_DIFF_NAMES = 1 << 13, HL_DIFF_HEADER = 1 << 14
} HlDiffWhat;
enum { HL_DIFF_WHATS = 15 };
const char *hl_diff_what_text(HlDiffWhat what);  // "shape"; of one bit
// The bits of a list of words, "metadata,layout"; false after reporting an unknown word.
bool hl_diff_what_by_text(HlCx *cx, HlStr words, uint32_t *out);

// By what a partner was found.
typedef enum HlDiffBy {
  HL_BY_NOTHING, HL_BY_STRUCTURE, HL_BY_PLACE, HL_BY_NEIGHBOURS, HL_BY_METADATA, HL_BY_USERS, HL_BY_COUNT
} HlDiffBy;
const char *hl_diff_by_text(HlDiffBy by);

// An instruction of the first module and its partner, or one alone. Where a computation is called several times, each
// of its instructions has one row for each partner.
typedef struct HlDiffRow {
  const HlInst *a, *b;         // NULL: none on that side
  HlVerdict verdict;
  uint32_t what;               // HlDiffWhat
  HlDiffBy by;
  const HlInst *into;          // of the second module; NULL
  int times;                   // in how many calls of its computation
  int group;                   // in `groups`; -1: none
  const char *detail;          // "shape f32[2] -> f32[4]"; "" where there is nothing to say
} HlDiffRow;

// Rows that hang together, and the other places where the same happened.
typedef struct HlDiffGroup {
  const int *row;              // of the first place, operands before users
  int n;
  int times;                   // in how many places
  const int *first;            // the first row of each place
} HlDiffGroup;

// The stages of one program, unoptimised and optimised, or two versions of a program: what an optimiser does (merging,
// folding, fusing) is looked for between stages alone.
typedef enum HlDiffMode { HL_DIFF_TELL, HL_DIFF_VERSIONS, HL_DIFF_STAGES } HlDiffMode;

typedef struct HlDiffOptions {
  uint32_t ignore;             // HlDiffWhat
  HlDiffMode mode;             // usually told by the modules: one is scheduled or has fusions, the other not
} HlDiffOptions;

typedef struct HlDiff {
  HlArena *arena;
  const HlModule *a, *b;       // borrowed
  HlDiffOptions options;
  bool stages;
  bool equal;                  // nothing differs but what is ignored, names, and the order where there is no schedule
  bool same_program;           // the graphs are equal: what differs, if anything, is none of what they compute
  HlDiffRow *row;              // in the print order of the first module, then what was added in that of the second
  int n_rows;
  HlDiffGroup *group;
  int n_groups;
  int64_t count[HL_DIFF_VERDICTS];   // of rows
  int64_t what[HL_DIFF_WHATS];       // of rows, by bit
  int64_t n_a, n_b;            // instructions
  int64_t n_elided;            // pairs of constants that are elided on either side, {...}: whether their values are equal nobody knows
  const char *const *header;   // differences of the headers, a line each
  int n_header;
  // Names that differ between partners.
  bool module_renamed;
  int64_t comps_renamed, insts_renamed, insts_reordered;
  uint64_t fingerprint_a, fingerprint_b;   // of XLA's module fingerprint text; 0: it would be too long
  const char *fingerprint_why; // where these texts first differ; "" where they do not
} HlDiff;

// Both modules must live as long as the result; NULL after reporting. Options may be NULL.
HlDiff *hl_diff(HlCx *cx, const HlModule *a, const HlModule *b, const HlDiffOptions *options);
void hl_diff_free(HlDiff *diff);                      // NULL is fine
// "equal", "renaming only", "metadata only" or "different".
const char *hl_diff_headline(const HlDiff *diff);

typedef struct HlDiffShow {
  const char *name_a, *name_b; // of the files; NULL: of the modules
  bool color;                  // of text
  bool all;                    // rows of every group, and those that are the same
  int lines;                   // of a group that are shown; 0: 12
} HlDiffShow;
// Append to `out`; `show` may be NULL.
void hl_diff_text(const HlDiff *diff, const HlDiffShow *show, HlBuf *out);
// One page that needs nothing else: both modules side by side.
void hl_diff_html(HlCx *cx, const HlDiff *diff, const HlDiffShow *show, HlBuf *out);

// The module with its names, order and computations in one form whatever they were, metadata dropped: equal programs
// print as equal text. The caller's; NULL after reporting.
HlModule *hl_normalize(HlCx *cx, const HlModule *m);

#ifdef __cplusplus
}
#endif
#endif
