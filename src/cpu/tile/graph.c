// cpu/tile/graph.c: nodes of a nest: made once each, rounded and brought into range as HLO's types have it.

#include "cpu/tile/build.h"

#include <string.h>

#include "base/compiler.h"

enum { MAX_NODES = 4000 };

// --- Types ----------------------------------------------------------------------------------------

bool tile_is_narrow(HlDtype dtype) {
  return hl_is_float(dtype) && dtype != HL_F32 && dtype != HL_F64;
}

bool tile_is_sub_byte(HlDtype dtype) {
  return hl_is_integral(dtype) && hl_dtype_info[dtype].bits < 8;
}

bool tile_is_plain(HlDtype dtype) {
  return !tile_is_narrow(dtype) && !hl_is_complex(dtype);
}

HlDtype tile_raw_dtype(HlDtype dtype) {
  switch (hl_dtype_bytes(dtype)) {
  case 1: return HL_U8;
  case 2: return HL_U16;
  case 4: return HL_U32;
  case 8: return HL_U64;
  default: return dtype;  // c128
  }
}

// --- Nodes ----------------------------------------------------------------------------------------

static uint64_t mix(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

static uint64_t mix_affine(uint64_t hash, const Affine *a) {
  hash = mix(mix(hash, (uint64_t)a->c), (uint64_t)a->den);
  for (int v = 0; v < TILE_MAX_VARS; v++)
    if (a->k[v] != 0)
      hash = mix(mix(hash, (uint64_t)v), (uint64_t)a->k[v]);
  return hash;
}

static uint64_t hash_of(const Node *n) {
  uint64_t hash = mix((uint64_t)n->kind, (uint64_t)n->op);
  hash = mix(mix(hash, (uint64_t)n->dtype), (uint64_t)n->from);
  hash = mix(mix(hash, (uint64_t)n->scope), (uint64_t)n->buffer);
  hash = mix(mix(hash, n->bits), (uint64_t)(n->block * 64 + n->k));
  for (int k = 0; k < n->n; k++)
    hash = mix(hash, (uint64_t)n->arg[k]);
  if (n->at)
    hash = mix_affine(hash, n->at);
  return hash;
}

static bool same_node(const Node *a, const Node *b) {
  return a->kind == b->kind && a->op == b->op && a->dtype == b->dtype && a->from == b->from &&
         a->n == b->n && a->scope == b->scope && a->buffer == b->buffer && a->bits == b->bits &&
         a->block == b->block && a->k == b->k && !a->at == !b->at &&
         (!a->at || memcmp(a->at, b->at, sizeof *a->at) == 0) && !a->scopes == !b->scopes &&
         (a->n == 0 || memcmp(a->arg, b->arg, sizeof *a->arg * (size_t)a->n) == 0) &&
         (!a->scopes || memcmp(a->scopes, b->scopes, sizeof *a->scopes * (size_t)a->n) == 0);
}

static uint32_t deps_of(const Lower *l, const Node *node) {
  uint32_t deps = node->deps;
  for (int k = 0; k < node->n; k++)
    deps |= l->node.at[node->arg[k]].deps;
  for (int k = 0; node->scopes && k < node->n; k++)
    deps |= l->scope.at[node->scopes[k]].deps;
  if (node->at)
    deps |= affine_deps(l, node->at);
  if (node->kind == NODE_LOAD)
    deps |= l->scope.at[node->scope].deps;
  return deps;
}

int tile_node(Lower *l, const Node *node) {
  for (int k = 0; k < node->n; k++)
    if (node->arg[k] < 0)
      return -1;
  const uint64_t hash = hash_of(node);
  MapWalk walk = map_walk(&l->known, hash);
  for (uint64_t at; (at = map_next(&walk)) != 0;)
    if (same_node(&l->node.at[at - 1], node))
      return (int)at - 1;
  if (l->node.n >= MAX_NODES) {
    tile_fail(l, "too many values");
    return -1;
  }
  Node made = *node;
  int *arg = HL_ARRAY(l->arena, int, node->n + 1), *scopes = NULL;
  if (node->n > 0)
    memcpy(arg, node->arg, sizeof *arg * (size_t)node->n);
  made.arg = arg;
  if (node->scopes) {
    scopes = HL_ARRAY(l->arena, int, node->n);
    memcpy(scopes, node->scopes, sizeof *scopes * (size_t)node->n);
    made.scopes = scopes;
  }
  if (node->at) {
    Affine *at = HL_NEW(l->arena, Affine);
    *at = *node->at;
    made.at = at;
  }
  made.deps = deps_of(l, node);
  vec_push_in(l->arena, &l->node, made);
  map_add(&l->known, hash, (uint64_t)l->node.n);
  return l->node.n - 1;
}

// --- Constants ------------------------------------------------------------------------------------

int tile_const(Lower *l, HlDtype dtype, uint64_t bits) {
  return tile_node(l, &(Node){.kind = NODE_CONST, .dtype = dtype, .bits = bits});
}

int tile_const_f64(Lower *l, HlDtype dtype, double value) {
  uint64_t bits = 0;
  const float single = (float)value;
  if (dtype == HL_F64)
    memcpy(&bits, &value, sizeof value);
  else
    memcpy(&bits, &single, sizeof single);
  return tile_const(l, dtype, bits);
}

int tile_const_i64(Lower *l, HlDtype dtype, int64_t value) {
  const int bytes = hl_dtype_bytes(dtype);
  return tile_const(
      l, dtype, bytes == 8 ? (uint64_t)value : (uint64_t)value & ((UINT64_C(1) << 8 * bytes) - 1));
}

Val tile_const_of(Lower *l, const HlLiteral *literal, int64_t k, HlDtype raw) {
  const HlDtype dtype = literal->shape->dtype;
  if (hl_is_complex(dtype) && raw != HL_U64) {
    const HlDtype part = dtype == HL_C64 ? HL_F32 : HL_F64;
    return (Val){tile_const_f64(l, part, hl_literal_f64(literal, k)),
                 tile_const_f64(l, part, hl_literal_imag(literal, k))};
  }
  if (tile_is_narrow(dtype) && raw == HL_NO_DTYPE)
    return (Val){tile_const_f64(l, dtype, hl_literal_f64(literal, k)), -1};
  uint64_t bits = 0;
  const size_t size = (size_t)hl_dtype_bytes(dtype);
  memcpy(&bits, (const char *)literal->data + (size_t)k * size, size);
  return (Val){tile_const(l, raw != HL_NO_DTYPE ? raw : dtype, bits), -1};
}

// --- Ops ------------------------------------------------------------------------------------------

int tile_vec_plain(Lower *l, VecOp op, HlDtype from, HlDtype dtype, int scope, int a, int b,
                   int c) {
  const int arg[] = {a, b, c}, n = vec_info[op].operands;
  if (!vec_fn(l->maker->level, op, tile_is_sub_byte(from) ? from : vec_carrier(from), 0)) {
    tile_fail(l, "an op that has no vector function");
    return -1;
  }
  return tile_node(l, &(Node){.kind = NODE_VEC,
                              .op = op,
                              .dtype = dtype,
                              .from = tile_is_sub_byte(from) ? from : vec_carrier(from),
                              .n = n,
                              .arg = arg,
                              .scope = scope});
}

int tile_unary_node(Lower *l, NodeKind kind, HlDtype from, HlDtype dtype, int scope, int a) {
  return tile_node(l, &(Node){.kind = kind,
                              .op = VEC_OP_COUNT,
                              .dtype = dtype,
                              .from = from,
                              .n = 1,
                              .arg = &a,
                              .scope = scope});
}

// Whether the op's results on a narrow float, or an integer of less than a byte, need no more.
static bool stays(VecOp op, HlDtype dtype) {
  switch (op) {
  case VEC_MAXIMUM:
  case VEC_MINIMUM:
  case VEC_CLAMP:
  case VEC_SELECT:
  case VEC_COPY:
  case VEC_AND:
  case VEC_OR:
  case VEC_XOR: return true;  // integers with their signs extended
  case VEC_ABS:
  case VEC_NEGATE: return dtype == HL_BF16 || dtype == HL_F16;
  default: return false;
  }
}

int tile_vec(Lower *l, VecOp op, HlDtype from, HlDtype dtype, int scope, int a, int b, int c) {
  const int made = tile_vec_plain(l, op, from, dtype, scope, a, b, c);
  if (made < 0 || stays(op, dtype))
    return made;
  if (tile_is_narrow(dtype))
    return tile_unary_node(l, NODE_ROUND, HL_F32, dtype, scope, made);
  if (tile_is_sub_byte(dtype))
    return tile_vec_plain(l, VEC_WRAP, dtype, dtype, scope, made, -1, -1);
  return made;
}

// The f32 next to x of the two around it whose last bit is 1, if x is none: rounding it again, to less, is rounding x.
static int odd_f32(Lower *l, int scope, int x) {
#define OP(op, from, to, ...) tile_vec_plain(l, VEC_##op, from, to, scope, __VA_ARGS__)
  const int near = tile_unary_node(l, NODE_CONVERT, HL_F64, HL_F32, scope, x);
  const int back = tile_unary_node(l, NODE_CONVERT, HL_F32, HL_F64, scope, near);
  const int bits = tile_unary_node(l, NODE_SAME, HL_F32, HL_U32, scope, near);
  const int one = tile_const_i64(l, HL_U32, 1), less = tile_const_i64(l, HL_U32, -1);
  const int size = OP(ABS, HL_F64, HL_F64, x, -1, -1);
  const int reached = OP(ABS, HL_F64, HL_F64, back, -1, -1);
  const int beyond = OP(GT, HL_F64, HL_PRED, size, reached, -1);
  const int step = OP(SELECT, HL_U32, HL_U32, beyond, one, less);
  const int other = OP(ADD, HL_U32, HL_U32, bits, step, -1);
  const int differs = OP(NE, HL_F64, HL_PRED, x, back, -1);
  const int last = OP(AND, HL_U32, HL_U32, bits, one, -1);
  const int odd = OP(EQ, HL_U32, HL_PRED, last, one, -1);
  const int even = OP(NOT, HL_PRED, HL_PRED, odd, -1, -1);
  const int moves = OP(AND, HL_PRED, HL_PRED, differs, even, -1);
  const int result = OP(SELECT, HL_U32, HL_U32, moves, other, bits);
  return tile_unary_node(l, NODE_SAME, HL_U32, HL_F32, scope, result);
#undef OP
}

int tile_convert_node(Lower *l, HlDtype from, HlDtype to, int scope, int a) {
  if (from == to)
    return a;
  if (!tile_is_narrow(to)) {
    const bool same = tile_is_narrow(from) && to == HL_F32;
    return same ? tile_unary_node(l, NODE_SAME, HL_F32, HL_F32, scope, a)
                : tile_unary_node(l, NODE_CONVERT, vec_carrier(from) == HL_F32 ? HL_F32 : from, to,
                                  scope, a);
  }
  const bool wide = hl_is_integral(from) && hl_dtype_info[from].bits > 16;
  if (wide && hl_dtype_info[from].bits > 32) {
    tile_fail(l, "64 bits rounded to few");
    return -1;
  }
  int single = a;
  if (wide)
    single = odd_f32(l, scope, tile_unary_node(l, NODE_CONVERT, from, HL_F64, scope, a));
  else if (from == HL_F64)
    single = odd_f32(l, scope, a);
  else if (!hl_is_float(from))
    single = tile_unary_node(l, NODE_CONVERT, from, HL_F32, scope, a);
  return tile_unary_node(l, NODE_ROUND, HL_F32, to, scope, single);
}

// --- Scopes and blocks ----------------------------------------------------------------------------

bool tile_scope_within(const Lower *l, int scope, int outer) {
  while (scope > outer)
    scope = l->scope.at[scope].parent;
  return scope == outer;
}

int tile_scope(Lower *l, int scope, const Affine *at, int64_t n) {
  int64_t least, most;
  affine_range(l, at, &least, &most);
  if (most < 0 || least >= n || n <= 0)
    return -1;
  if (least >= 0 && most < n && at->den == 1)
    return scope;
  bool computed = l->scope.at[scope].computed;
  for (int v = 0; v < l->n_vars; v++)
    computed = computed || (at->k[v] != 0 && l->var[v].node >= 0);
  for (int s = scope; s < l->scope.n; s++) {
    const Scope *known = &l->scope.at[s];
    if (s > 0 && (s == scope || known->parent == scope) && known->bound->n == n &&
        memcmp(&known->bound->at, at, sizeof *at) == 0)
      return s;
  }
  Bound *bound = HL_NEW(l->arena, Bound);
  *bound = (Bound){*at, n};
  vec_push_in(l->arena, &l->scope,
              ((Scope){.parent = scope,
                       .n = 1,
                       .bound = bound,
                       .deps = l->scope.at[scope].deps | affine_deps(l, at),
                       .computed = computed}));
  return l->scope.n - 1;
}

int tile_block(Lower *l) {
  vec_push_in(l->arena, &l->block, ((Block){.fold = VEC_OP_COUNT, .first_node = l->node.n}));
  return l->block.n - 1;
}
