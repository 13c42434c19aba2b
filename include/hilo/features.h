// hilo/features.h: a module as arrays for programs that learn, and a hash of it.
//
// The arrays are those of HloEnv's HloGraph, type by type and in its order (docs/env.md): nodes are instructions, in- and
// out-edges are lists in the compressed form of sparse matrices. All of them lie in one block of memory, so that they can be
// viewed, copied or handed on without looking at any:
//
//   HlFeatures f = {0};
//   for (...) {
//     hl_features_fill(cx, m, NULL, &f);                  // the block is used again
//     for (int k = 0; k < HL_FEATURE_COUNT; k++)
//       use(hl_feature_info[k].name, hl_feature_data(&f, k), hl_feature_length(&f, k));
//   }
//   hl_features_free(&f);
//
// Nodes: computations callers first, the entry being the first of all; inside each, instructions operands first.
#ifndef HILO_FEATURES_H
#define HILO_FEATURES_H

#include "hilo/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

// What an array has an entry for.
typedef enum HlFeaturePer {
  HL_PER_NODE,
  HL_PER_NODE_AND_ONE,                 // offsets of lists, one of each node, and their end
  HL_PER_OUT_EDGE,
  HL_PER_IN_EDGE,
  HL_PER_ALTERNATIVES,                 // nodes of the op `alternatives`
  HL_PER_ATTRIBUTE,                    // numbers that attributes consist of, node by node
  HL_PER_NAME_BYTE,
  HL_PER_COUNT
} HlFeaturePer;

enum {
  HL_FEATURE_DIMS = 8,                 // entries of dims, layouts and lehmercodes of an edge
  HL_FEATURE_OPCODES = 118             // of HloEnv; what is newer counts on from there
};

// FEATURE(group, name, type, NumPy's name of the type, per, width): groups are members of HloEnv's objects.
#define HL_FEATURES(FEATURE) \
  FEATURE(graph, out_edge_offsets, uint64_t, "u8", NODE_AND_ONE, 1) \
  FEATURE(graph, out_edge_indices, uint64_t, "u8", OUT_EDGE, 1)     /* nodes that an edge leads to */ \
  FEATURE(graph, in_edge_offsets, uint64_t, "u8", NODE_AND_ONE, 1) \
  FEATURE(graph, in_edge_indices, uint64_t, "u8", IN_EDGE, 1)       /* nodes that an edge comes from */ \
  FEATURE(graph, alternative_indices, int32_t, "i4", ALTERNATIVES, 1) \
  FEATURE(node, uids, int32_t, "i4", NODE, 1)                       /* hl_uid */ \
  FEATURE(node, gids, uint64_t, "u8", NODE, 1)                      /* of the computation: 0 is the entry */ \
  FEATURE(node, fused_comp_ids, uint64_t, "u8", NODE, 1)            /* of the first computation called; 0: none */ \
  FEATURE(node, num_users, int32_t, "i4", NODE, 1)                  /* out-edges */ \
  FEATURE(node, num_operands, int32_t, "i4", NODE, 1)               /* in-edges: different operands */ \
  FEATURE(node, opcodes, int32_t, "i4", NODE, 1)                    /* hl_feature_opcode */ \
  FEATURE(node, opcode_attrs, int32_t, "i4", ATTRIBUTE, 1) \
  FEATURE(node, num_opcode_attrs, int32_t, "i4", NODE, 2)           /* numbers, slots of words */ \
  FEATURE(node, is_alternative, uint8_t, "u1", NODE, 1) \
  FEATURE(node, is_in_fusion, uint8_t, "u1", NODE, 1) \
  FEATURE(node, in_tensor_sizes, int64_t, "i8", NODE, 1)            /* elements of all in-edges */ \
  FEATURE(node, out_tensor_sizes, int64_t, "i8", NODE, 1)           /* own elements, times out-edges */ \
  FEATURE(node, has_max_in_tensor, uint8_t, "u1", NODE, 1) \
  FEATURE(node, has_max_out_tensor, uint8_t, "u1", NODE, 1) \
  FEATURE(node, normalized_num_group_inst, float, "f4", NODE, 1)    /* 1 / instructions of the computation; entry: 0 */ \
  FEATURE(in_edge, uids, int64_t, "i8", IN_EDGE, 1)                 /* source << 32 | destination */ \
  FEATURE(in_edge, srcs, int32_t, "i4", IN_EDGE, 1) \
  FEATURE(in_edge, dsts, int32_t, "i4", IN_EDGE, 1) \
  FEATURE(in_edge, dims, int64_t, "i8", IN_EDGE, HL_FEATURE_DIMS)   /* of the value; -1: no such dimension */ \
  FEATURE(in_edge, layouts, int64_t, "i8", IN_EDGE, HL_FEATURE_DIMS)      /* minor to major */ \
  FEATURE(in_edge, lehmercodes, int64_t, "i8", IN_EDGE, HL_FEATURE_DIMS)  /* of the layout */ \
  FEATURE(in_edge, types, uint8_t, "u1", IN_EDGE, 1)                /* 0 in the entry, 1 in another, 2 between two */ \
  FEATURE(in_edge, dtypes, int32_t, "i4", IN_EDGE, 1)               /* xla.PrimitiveType's number of 2022 */ \
  FEATURE(out_edge, uids, int64_t, "i8", OUT_EDGE, 1) \
  FEATURE(out_edge, srcs, int32_t, "i4", OUT_EDGE, 1) \
  FEATURE(out_edge, dsts, int32_t, "i4", OUT_EDGE, 1) \
  FEATURE(out_edge, dims, int64_t, "i8", OUT_EDGE, HL_FEATURE_DIMS) \
  FEATURE(out_edge, layouts, int64_t, "i8", OUT_EDGE, HL_FEATURE_DIMS) \
  FEATURE(out_edge, lehmercodes, int64_t, "i8", OUT_EDGE, HL_FEATURE_DIMS) \
  FEATURE(out_edge, types, uint8_t, "u1", OUT_EDGE, 1) \
  FEATURE(out_edge, dtypes, int32_t, "i4", OUT_EDGE, 1) \
  FEATURE(node, name_offsets, uint32_t, "u4", NODE_AND_ONE, 1)      /* of each name in name_bytes */ \
  FEATURE(node, name_bytes, char, "S1", NAME_BYTE, 1)

typedef enum HlFeatureId {
#define FEATURE(group, name, ...) HL_FEATURE_##group##_##name,
  HL_FEATURES(FEATURE)
#undef FEATURE
  HL_FEATURE_COUNT
} HlFeatureId;

typedef struct HlFeatureInfo {
  const char *group, *name, *dtype;
  HlFeaturePer per;
  int width, bytes;                    // entries each; bytes of an entry
} HlFeatureInfo;
extern const HlFeatureInfo hl_feature_info[HL_FEATURE_COUNT];

typedef struct HlFeatures {
  int64_t n[HL_PER_COUNT];             // entries of arrays of each kind, of width 1
#define FEATURE(group, name, type, ...) type *group##_##name;
  HL_FEATURES(FEATURE)
#undef FEATURE
  const HlInst **inst;                 // [node]: until the next edit
  char *block;                         // where all of them lie; nothing else is to be freed
  size_t bytes, capacity;
  size_t offset[HL_FEATURE_COUNT];     // in the block
} HlFeatures;

typedef struct HlFeatureOptions {
  bool inline_fused_comp;              // edges from operands to parameters of what is called, and from its root to the caller
} HlFeatureOptions;

// Writes the features of a module; `out` is zero, or was filled before. False after reporting: memory or a limit.
bool hl_features_fill(HlCx *cx, const HlModule *m, const HlFeatureOptions *options, HlFeatures *out);
void hl_features_free(HlFeatures *features);
static inline int64_t hl_feature_length(const HlFeatures *f, int k) {
  return f->n[hl_feature_info[k].per] * hl_feature_info[k].width;
}
static inline const void *hl_feature_data(const HlFeatures *f, int k) { return f->block + f->offset[k]; }

// HloEnv's number of an opcode; from HL_FEATURE_OPCODES on those it does not have.
int hl_feature_opcode(HlOp op);
// How many numbers and slots of words HloEnv gives an opcode of its own: 2 * HL_FEATURE_OPCODES entries.
extern const int32_t hl_feature_opcode_attrs[2 * HL_FEATURE_OPCODES];
// The number by which an instruction is known while its module lives: serials, which are never used again. Those of
// `alternatives` start at HL_UID_ALTERNATIVES, so that no index of a node is one.
enum { HL_UID_ALTERNATIVES = 1 << 24 };
int64_t hl_uid(const HlInst *inst);

// A hash of what a module computes, the same in every process, on every machine and in every version (docs/env.md has its
// definition, a test its values). What counts is the entry's interface and what its root needs or has side effects: of each instruction
// the op, the shape with its layout, all attributes but those that only tell (metadata, origins, statistics), what it calls, its
// operands in order (those of `alternatives` from the second on as a set), what it waits for. Names, ids, the numbers of fusions'
// parameters and what is dead do not.
uint64_t hl_dag_hash(const HlModule *m);

// Arguments of the entry as HloEnv makes them up: floats of 16 to 64 bits and bf16 are drawn from the normal distribution, by the C++
// library's minstd_rand0 and normal_distribution<double> as GCC has them; all else is 0. The caller's references, n_params of them. False after reporting.
bool hl_normal_args(HlCx *cx, const HlModule *m, uint32_t seed, HlLiteral **out);

#ifdef __cplusplus
}
#endif
#endif
