// tests/fuzz/lib/words.c: the words of each language that is fuzzed, from our tables.
#include "fuzz/lib/words.h"

#include <string.h>

#include "hilo/ir.h"
#include "hilo/sim_graph.h"
#include "jaxpr/lower.h"

// clang-format off
static const char *const ops[] = {
#define OP(id, text, ...) text,
#include "hilo/ops.def"
#undef OP
};
static const char *const attrs[] = {
#define ATTR(id, text, ...) text,
#include "hilo/attrs.def"
};
static const char *const dtypes[] = {
#define DTYPE(id, text, ...) text,
#include "hilo/dtypes.def"
};
static const char *const enum_words[] = {
#define WORD(name, id, value, text) text,
#include "hilo/enums.def"
};
static const char *const ml_ops[] = {
#define ML_OP(id, name, ...) name,
#include "mlir/tree/ops.def"
};
static const char *const ml_names[] = {
#define ML_NAME(id, text) text,
#include "mlir/tree/names.def"
};
static const char *const ml_words[] = {
#define ML_WORD(id, word, value) #word,
#include "mlir/tree/attrs.def"
};
static const char *const ml_kinds[] = {
#define ML_ENUM(id, name) name,
#define ML_STRUCT(id, name, ...) name,
#include "mlir/tree/attrs.def"
};
// Ours beside the tables: what holds a program together.
static const char *const text_frame[] = {
    "HloModule", "ENTRY", "ROOT", "entry_computation_layout", "is_scheduled", "input_output_alias", "buffer_donor",
    "replica_count", "num_partitions", "frontend_attributes", "replicated", "maximal", "manual", "last_tile_dims",
    "devices", "metadata", "control-predecessors", "parameter", "to_apply", "calls", "body", "condition"};
static const char *const ml_types[] = {
    "i1", "i2", "i4", "i8", "i16", "i32", "i64", "ui1", "ui2", "ui4", "ui8", "ui16", "ui32", "ui64", "si8", "si32",
    "index", "none", "bf16", "f16", "f32", "f64", "tf32", "f80", "f128", "f4E2M1FN", "f6E2M3FN", "f6E3M2FN", "f8E3M4",
    "f8E4M3", "f8E4M3FN", "f8E4M3FNUZ", "f8E4M3B11FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU"};
static const char *const ml_frame[] = {
    "module", "func.func", "public", "private", "nested", "return", "call", "attributes", "dense", "array", "dense_resource",
    "tensor", "tuple", "complex", "memref", "vector", "loc", "unit", "true", "false", "affine_map", "strided", "opaque",
    "reducer", "across", "dimensions", "applies", "cond", "do", "starting_at", "dialect_resources"};
static const char *const numbers[] = {"nan", "-nan", "inf", "-inf", "nan(0x1)", "true", "false", "-0", "-0.0", "1e400", "1e-400",
                                      "0x7fc00000", "9223372036854775808", "{...}", "(1, -2.5)"};
static const char *const npy_words[] = {
    "\x93NUMPY", "\x93NUMPY\x01", "descr", "fortran_order", "shape", "True", "False", "<f4", "<f8", ">f4", "|b1", "|V2",
    "<c8", "<c16", "|i1", "|u1", "<i8", "<u8", ".npy", "PK\x03\x04", "PK\x01\x02", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07"};
static const char *const flags[] = {
#define FLAG(field, ...) #field,
#define ASIDE FLAG
#define OTHER FLAG
#define PAST FLAG
#define GONE(field) #field,
#include "tool/flags.def"
};
static const char *const history_words[] = {"hilo-history 1\n", "@ 0000.", "\n+1\n", "\n-1\n", "\n=1\n", "@ "};
static const char *const decision_words[] = {"\"pass\":", "\"rule\":", "\"computation\":", "\"instruction\":", "\"with\":",
                                             "null", "true", "\\u0000", "\\ud800", "1e999"};
static const char *const overlay_words[] = {"\"overlay\": 1", "\"before\":", "\"after\":", "\"instruction\":", "\"computation\":",
                                            "\"change\":", "\"partner\":", "\"note\":", "\"fused\"", "\"new\"", "null", "\\u0000", "1e999"};
static const char *const exported_words[] = {"ML\xefR", "cpu", "cuda", "b", "b + 1", "x", "device", "\xff\xff\xff\xff",
                                             "\x04", "\xfc\xff\xff\xff"};
static const char *const sim_ops[] = {
#define OP(id, text, kind) text,
    HL_SIM_OPS(OP)
#undef OP
};
static const char *const sim_words[] = {"name: ", "processor_id: ", "entry_subroutine { ", "subroutine_root_id: ", "execution_probability: ",
                                        "execution_count: ", "instructions { ", "opcode: ", "instruction_id: ", "ops: ", "bytes_in: ", "bytes_out: ",
                                        "seconds: ", "bonded_instruction_id: ", "communication_tag: ", "communication_groups { ", "group_ids: ",
                                        "operand_ids: ", "inner_subroutines { "};
// clang-format on

enum { MOST_PRIMITIVES = 1024 };

static FuzzClass primitives(void) {
  static const Row *const families[] = {jx_elementwise_rows, jx_shape_rows,      jx_reduce_rows,
                                        jx_window_rows,      jx_sort_rows,       jx_control_rows,
                                        jx_gather_rows,      jx_dot_rows,        jx_random_rows,
                                        jx_linalg_rows,      jx_collective_rows, jx_reference_rows};
  static const char *word[MOST_PRIMITIVES];
  int n = 0;
  for (int f = 0; f < HL_COUNT_OF(families); f++)
    for (const Row *row = families[f]; row->name && n < MOST_PRIMITIVES; row++)
      word[n++] = row->name;
  return (FuzzClass){word, n};
}

static const char *const system_words[] = {
    "system ",  "about ",    "device h100\n", "start ",   "efficiency ", "reduce ",     "slowdown ",
    "share ",   "ring ",     "line ",         "torus ",   "mesh ",       "switch ",     "full ",
    "fat-tree ", "dragonfly ", " shared",      " bandwidth ", " latency ",  " far-bandwidth ",
    " far-latency ", " down ", " up ",         " hosts ", " routers ",   "GB/s",        "Gbit/s",
    "us",       "4x8",       "topology: [ ",  "npus_count: [ ", "bandwidth: [ ", "latency: [ "};
static const char *const profile_words[] = {
    "\"traceEvents\":[", "{\"ph\":\"X\"", "\"dur\":", "\"name\":", "\"args\":{", "\"hlo_op\":",
    "\"hlo_category\":", "\"flops\":", "\"bytes_accessed\":", "\"step\":", "\"op\":", "Rank,Category,HLO",
    "\"run_id\":", "\"runs\":", "\"chunks\":", "\"ts\":", "hlo_op", "hlo_category", "run_id", "chunks",
    "unknown", "%"};

static const char *const chakra_words[] = {
    "is_cpu_op", "num_ops", "tensor_size", "seconds", "comm_type", "comm_size", "comm_dst", "comm_src",
    "comm_tag", "pg_name", "0.0.4"};

#define CLASS(list) \
  { list, HL_COUNT_OF(list) }
static const FuzzClass of_text[] = {CLASS(ops),        CLASS(dtypes),     CLASS(attrs),
                                    CLASS(enum_words), CLASS(text_frame), CLASS(numbers)};
static const FuzzClass of_proto[] = {CLASS(ops), CLASS(attrs), CLASS(enum_words)};
static const FuzzClass of_mlir[] = {CLASS(ml_ops),   CLASS(ml_types), CLASS(ml_names),
                                    CLASS(ml_words), CLASS(ml_kinds), CLASS(ml_frame),
                                    CLASS(numbers)};
static const FuzzClass of_lsp[] = {CLASS(ops),        CLASS(dtypes), CLASS(attrs),    CLASS(text_frame),
                                   CLASS(enum_words), CLASS(ml_ops), CLASS(ml_types), CLASS(ml_frame)};
static const FuzzClass of_bytecode[] = {CLASS(ml_ops), CLASS(ml_names), CLASS(ml_types)};
static const FuzzClass of_literal[] = {CLASS(numbers)};
static const FuzzClass of_npy[] = {CLASS(npy_words)};
static const FuzzClass of_flags[] = {CLASS(flags)};
static const FuzzClass of_history[] = {CLASS(history_words)};
static const FuzzClass of_exported[] = {CLASS(exported_words)};
static const FuzzClass of_decisions[] = {CLASS(decision_words)};
static const FuzzClass of_overlay[] = {CLASS(overlay_words)};
static const FuzzClass of_system[] = {CLASS(system_words), CLASS(numbers)};
static const FuzzClass of_sim_profile[] = {CLASS(profile_words), CLASS(ops), CLASS(numbers)};
static const FuzzClass of_chakra[] = {CLASS(chakra_words)};
static const FuzzClass of_sim_graph[] = {CLASS(sim_ops), CLASS(sim_words)};
#undef CLASS

FuzzWords fuzz_words(const char *target) {
  static const struct {
    const char *target;
    FuzzWords words;
  } rows[] = {
#define ROW(target, classes)        \
  {                                 \
    target, {                       \
      classes, HL_COUNT_OF(classes) \
    }                               \
  }
      ROW("text", of_text),
      ROW("proto", of_proto),
      ROW("mlir", of_mlir),
      ROW("mlirbc", of_bytecode),
      ROW("lsp", of_lsp),
      ROW("npy", of_npy),
      ROW("literal", of_literal),
      ROW("flags", of_flags),
      ROW("history", of_history),
      ROW("exported", of_exported),
      ROW("decisions", of_decisions),
      ROW("overlay", of_overlay),
      ROW("compile_options", of_flags),
      ROW("system", of_system),
      ROW("sim_profile", of_sim_profile),
      ROW("chakra", of_chakra),
      ROW("sim_graph", of_sim_graph)
#undef ROW
  };
  for (int k = 0; k < HL_COUNT_OF(rows); k++)
    if (strcmp(rows[k].target, target) == 0)
      return rows[k].words;
  static FuzzClass of_jaxpr[3];
  if (strcmp(target, "jaxpr") != 0)
    return (FuzzWords){NULL, 0};
  of_jaxpr[0] = primitives();
  of_jaxpr[1] = of_text[1];
  of_jaxpr[2] = (FuzzClass){numbers, HL_COUNT_OF(numbers)};
  return (FuzzWords){of_jaxpr, HL_COUNT_OF(of_jaxpr)};
}
