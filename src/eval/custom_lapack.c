// eval/custom_lapack.c: custom calls into LAPACK: their names, operands and results in all spellings.
//
// JAX calls LAPACK in three ways: typed ("lapack_sgetrf_ffi", parameters in backend_config), untyped
// ("lapack_sgetrf", parameters as leading scalar operands, workspaces among the results), and through
// libraries of GPUs ("cusolver_getrf"), which compute the same.

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "eval/lapack.h"
#include "hilo/custom_calls.h"

typedef struct Routine {
  LapackRun *run;
  int n_args, n_results;  // of the typed form; n_results of the complex one is less by `lost`
  int lost;
  // The untyped form: a letter per leading scalar (see set_scalar), and which results are those of
  // the typed form, for real and complex types.
  const char *scalars, *real_results, *complex_results;
} Routine;

static const Routine routines[HL_ROUTINE_COUNT] = {
    [HL_ROUTINE_POTRF] = {lapack_potrf, 1, 2, 0, "l", "01", "01"},
    [HL_ROUTINE_GETRF] = {lapack_getrf, 1, 3, 0, "", "012", "012"},
    [HL_ROUTINE_GEQRF] = {lapack_geqrf, 1, 2, 0, "", "01", "01"},
    [HL_ROUTINE_GEQP3] = {lapack_geqp3, 2, 3, 0, "", "012", "012"},
    [HL_ROUTINE_ORGQR] = {lapack_orgqr, 2, 1, 0, "", "0", "0"},
    [HL_ROUTINE_ORMQR] = {lapack_ormqr, 3, 1, 0, "", "0", "0"},
    [HL_ROUTINE_TRSM] = {lapack_trsm, 2, 1, 0, "sltd", "0", "0"},
    [HL_ROUTINE_GTSV] = {lapack_gtsv, 4, 5, 0, "", "01234", "01234"},
    [HL_ROUTINE_SYEVD] = {lapack_syevd, 1, 3, 0, "l", "012", "012"},
    [HL_ROUTINE_GEEV] = {lapack_geev, 1, 5, 1, "..LR", "34567", "2345"},
    [HL_ROUTINE_GEES] = {lapack_gees, 1, 6, 1, "..J", "031245", "03245"},
    [HL_ROUTINE_GEHRD] = {lapack_gehrd, 1, 3, 0, ".<>", "012", "012"},
    [HL_ROUTINE_SYTRD] = {lapack_sytrd, 1, 5, 0, ".l", "01234", "01234"},
    [HL_ROUTINE_GESDD] = {lapack_gesdd, 1, 5, 0, "FU", "01234", "01234"},
    [HL_ROUTINE_GESVD] = {lapack_gesvd, 1, 5, 0, "FU", "01234", "01234"},
};

// --- Names ---------------------------------------------------------------------------------------

// The routine by which a call is computed; .routine HL_ROUTINE_NONE: it is not one of ours.
static HlRoutineCall call_of(const char *target) {
  switch (hl_call_named(target)) {  // XLA's own names for factorisations that a backend expands
  case HL_CALL_QR: return (HlRoutineCall){HL_ROUTINE_GEQRF, .on_host = true, .typed = true};
  case HL_CALL_HOUSEHOLDER_PRODUCT:
    return (HlRoutineCall){HL_ROUTINE_ORGQR, .on_host = true, .typed = true};
  case HL_CALL_EIGH: return (HlRoutineCall){HL_ROUTINE_SYEVD, .on_host = true, .typed = true};
  default: break;
  }
  HlRoutineCall call = hl_routine_call(target);
  // On GPUs they take matrices turned, in sizes of their own.
  const bool is_svd = call.routine == HL_ROUTINE_GESDD || call.routine == HL_ROUTINE_GESVD;
  if (!call.on_host && is_svd)
    call.routine = HL_ROUTINE_NONE;
  if (!call.on_host && call.routine == HL_ROUTINE_SYEVJ)
    call.routine = HL_ROUTINE_SYEVD;
  if (!call.on_host && call.typed && call.routine == HL_ROUTINE_GESVDJ)
    call.routine = HL_ROUTINE_GESDD;
  if (!routines[call.routine].run)
    call.routine = HL_ROUTINE_NONE;
  return call;
}

bool custom_is_lapack(const char *target) {
  return call_of(target).routine != HL_ROUTINE_NONE;
}

const char **custom_lapack_names(HlArena *arena, int *n) {
  static const HlDtype dtypes[] = {HL_F32, HL_F64, HL_C64, HL_C128};
  const char **names = HL_ARRAY(arena, const char *, HL_ROUTINE_COUNT *HL_COUNT_OF(dtypes));
  *n = 0;
  for (int k = 0; k < HL_ROUTINE_COUNT; k++)
    for (int t = 0; routines[k].run && t < HL_COUNT_OF(dtypes); t++)
      names[(*n)++] = hl_routine_target(arena, (HlRoutine)k, dtypes[t]);
  return names;
}

// --- Parameters ----------------------------------------------------------------------------------

static char letter_of(int64_t value) {
  return value > 0 && value < 128 ? (char)value : 'N';
}

static void set_typed(Lapack *l) {
  const HlInst *inst = l->inst;
  l->uplo = letter_of(custom_int(inst, "uplo", custom_int(inst, "lower", 1) ? 'L' : 'U'));
  l->side = letter_of(custom_int(inst, "side", 'L'));
  l->trans = letter_of(custom_int(inst, "trans_x", 'N'));
  l->diag = letter_of(custom_int(inst, "diag", 'N'));
  l->job = letter_of(custom_int(inst, "mode", 'V'));
  l->gives_v =
      hl_routine_call(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET)).routine == HL_ROUTINE_GESVDJ;
  if (l->gives_v)
    l->job = !custom_int(inst, "compute_uv", 1)     ? 'N'
             : custom_int(inst, "full_matrices", 1) ? 'A'
                                                    : 'S';
  l->left = letter_of(custom_int(inst, "compute_left", 'V'));
  l->right = letter_of(custom_int(inst, "compute_right", 'V'));
  l->is_left = custom_int(inst, "left", 1) != 0;
  l->is_transposed = custom_int(inst, "transpose", 0) != 0;
  const int64_t low = custom_int(inst, "low", 1), high = custom_int(inst, "high", 0);
  l->low = low > 0 && low < INT_MAX ? (int)low : 1;
  l->high = high > 0 && high < INT_MAX ? (int)high : 0;
}

// A leading scalar operand: l lower, s side, t transpose, d unit diagonal, F full matrices, U compute
// vectors, L R J letters of jobs, < > first and last row.
static void set_scalar(Lapack *l, char what, int64_t value) {
  switch (what) {
  case 'l': l->uplo = value ? 'L' : 'U'; break;
  case 's': l->side = value ? 'L' : 'R'; break;
  case 't': l->trans = value == 0 ? 'N' : value == 1 ? 'T' : 'C'; break;
  case 'd': l->diag = value ? 'U' : 'N'; break;
  case 'F': l->job = value ? 'A' : 'S'; break;
  case 'U': l->job = value ? l->job : 'N'; break;
  case 'L': l->left = letter_of(value); break;
  case 'R': l->right = letter_of(value); break;
  case 'J': l->job = letter_of(value); break;
  case '<': l->low = value > 0 && value < INT_MAX ? (int)value : 1; break;
  case '>': l->high = value > 0 && value < INT_MAX ? (int)value : 0; break;
  default: break;
  }
}

static void set_untyped(Lapack *l, const Routine *routine, const HlLiteral *const *operand,
                        int n_scalars) {
  for (int k = 0; k < n_scalars && routine->scalars[k]; k++)
    if (operand[k]->n == 1 && hl_is_integral(operand[k]->shape->dtype))
      set_scalar(l, routine->scalars[k], hl_literal_i64(operand[k], 0));
}

// Number k of the little-endian 32-bit numbers in backend_config.
static int32_t packed_number(const HlInst *inst, int k) {
  const HlAttr *attr = hl_attr(inst, HL_A_BACKEND_CONFIG);
  int32_t value = 0;
  if (attr && attr->sym && attr->sym->n >= (uint32_t)(4 * k + 4))
    memcpy(&value, attr->sym->text + 4 * k, 4);
  return value;
}

static void set_packed(Lapack *l) {
  if (l->routine == HL_ROUTINE_TRSM) {
    set_scalar(l, 's', packed_number(l->inst, 4) == 0);
    set_scalar(l, 'l', packed_number(l->inst, 5) == 0);
    set_scalar(l, 't', packed_number(l->inst, 6));
    set_scalar(l, 'd', packed_number(l->inst, 7));
  } else {
    set_scalar(l, 'l', packed_number(l->inst, 1) == 0);
  }
}

// --- Operands and results ------------------------------------------------------------------------

// `letter`: that of the name, or 0.
static bool set_type(Lapack *l, char letter) {
  const HlDtype dtype = l->arg[0]->shape->dtype;
  l->letter = hl_routine_letter(dtype);
  if (!l->letter || (letter && letter != l->letter))
    return hl_inst_error(l->in->ev.cx, l->inst, "\"%s\" does not take elements of type %s",
                         hl_attr_text(l->inst, HL_A_CUSTOM_CALL_TARGET), hl_dtype_text(dtype));
  l->complex = hl_is_complex(dtype);
  l->dtype = dtype;
  l->real = dtype == HL_F32 || dtype == HL_C64 ? HL_F32 : HL_F64;
  l->size = (size_t)hl_dtype_bytes(dtype);
  l->real_size = (size_t)hl_dtype_bytes(l->real);
  return true;
}

static bool set_values(Lapack *l, HlRoutineCall call, const HlLiteral *const *operand,
                       HlLiteral *out) {
  const Routine *r = &routines[call.routine];
  const int n = (int)l->inst->n_operands;
  const bool untyped = call.on_host && !call.typed;
  const int first = untyped ? n - r->n_args : 0;
  if (first < 0 || n < r->n_args)
    return hl_inst_error(l->in->ev.cx, l->inst, "\"%s\" takes %d arrays, but there are %d operands",
                         hl_attr_text(l->inst, HL_A_CUSTOM_CALL_TARGET), r->n_args, n);
  for (int k = 0; k < r->n_args; k++)
    l->arg[k] = operand[first + k];
  if (!set_type(l, call.letter))
    return false;
  const char *which = l->complex ? r->complex_results : r->real_results;
  for (int k = 0; k < r->n_results - (l->complex ? r->lost : 0); k++)
    l->result[k] = custom_result(out, untyped ? which[k] - '0' : k);
  const int alpha = untyped ? first - 1 : r->n_args;
  if (r->run == lapack_trsm && alpha >= 0 && alpha < n && operand[alpha]->shape->dtype == l->dtype)
    l->alpha = operand[alpha]->n == 1 ? operand[alpha] : NULL;
  if (untyped)
    set_untyped(l, r, operand, first);
  return true;
}

// --- The library ---------------------------------------------------------------------------------

static const char *const libraries[] = {"liblapack.so.3",   "libopenblas.so.0", "libflexiblas.so.3",
                                        "libmkl_rt.so.2",   "liblapack.so",     "libopenblas.so",
                                        "liblapack.3.dylib"};
// What stands in front of a routine's name: SciPy's wheels bring their own library, under names of its own.
static const char *const prefixes[] = {"", "scipy_"};

// The library stays mapped when it is closed: opening it again for the next call costs nothing.
static void *open_named(const char *name) {
  return dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
}

// The one that HILO_LAPACK names, else the first of the system's.
static void *open_library(Lapack *l) {
  const char *wish = getenv("HILO_LAPACK"), *missing = "which is missing";
  void *library = NULL;
  if (wish && *wish) {
    library = open_named(wish);
    missing = library
                  ? NULL
                  : hl_arena_printf(l->arena, "and HILO_LAPACK cannot be opened: %s", dlerror());
  }
  for (int k = 0; !(wish && *wish) && !library && k < HL_COUNT_OF(libraries); k++)
    library = open_named(libraries[k]);
  if (library)
    return library;
  hl_error_kind(l->in->ev.cx, HL_UNSUPPORTED, hl_pos(l->inst),
                "%s: \"%s\" needs the LAPACK library, %s", l->inst->name->text,
                hl_attr_text(l->inst, HL_A_CUSTOM_CALL_TARGET), missing);
  hl_hint(l->in->ev.cx, "install it: apt-get install liblapack3, or name it: HILO_LAPACK=FILE");
  return NULL;
}

static bool find_symbol(Lapack *l) {
  const char *symbol =
      hl_arena_printf(l->arena, "%c%s_", l->letter, hl_routine_name(l->routine, l->complex));
  void *library = open_library(l);
  if (!library)
    return false;
  void *found = NULL;
  for (int k = 0; !found && k < HL_COUNT_OF(prefixes); k++)
    found = dlsym(library, hl_arena_printf(l->arena, "%s%s", prefixes[k], symbol));
  dlclose(library);
  memcpy(&l->call, &found, sizeof l->call);
  if (found)
    return true;
  return hl_error_kind(l->in->ev.cx, HL_UNSUPPORTED, hl_pos(l->inst),
                       "%s: the LAPACK library has no %s", l->inst->name->text, symbol);
}

bool custom_lapack(Interp *in, const HlInst *inst, const HlLiteral *const *operand,
                   HlLiteral *out) {
  const HlRoutineCall call = call_of(hl_attr_text(inst, HL_A_CUSTOM_CALL_TARGET));
  HlArena *arena = hl_cx_scratch(in->ev.cx);
  const HlMark mark = hl_arena_mark(arena);
  Lapack l = {.in = in, .inst = inst, .routine = call.routine, .arena = arena};
  set_typed(&l);
  if (!call.on_host && !call.typed)
    set_packed(&l);
  const bool good =
      set_values(&l, call, operand, out) && find_symbol(&l) && routines[call.routine].run(&l);
  hl_arena_release(arena, mark);
  return good;
}

// --- What routines share -------------------------------------------------------------------------

bool lapack_begin(Lapack *l, int tail) {
  const HlShape *shape = l->arg[0]->shape;
  if (!hl_shape_is_array(shape) || shape->rank < tail)
    return hl_inst_error(l->in->ev.cx, l->inst, "operand 0 has too few dimensions");
  l->batch_dim = shape->dim;
  l->batch_rank = shape->rank - tail;
  l->batch = 1;
  for (int k = 0; k < l->batch_rank; k++)
    l->batch *= shape->dim[k];
  const int64_t n = shape->dim[shape->rank - 1], m = tail == 2 ? shape->dim[shape->rank - 2] : n;
  if (m > INT_MAX / 16 || n > INT_MAX / 16)
    return hl_error_kind(l->in->ev.cx, HL_LIMIT, hl_pos(l->inst),
                         "%s: matrices of %lld by %lld are too large for LAPACK",
                         l->inst->name->text, (long long)m, (long long)n);
  l->m = (int)m;
  l->n = (int)n;
  return lapack_check(l, l->arg[0], l->dtype, tail, tail == 2 ? m : n, n);
}

bool lapack_check(Lapack *l, const HlLiteral *value, HlDtype dtype, int tail, int64_t rows,
                  int64_t columns) {
  bool good = value && value->shape->dtype == dtype && value->shape->rank == l->batch_rank + tail &&
              !hl_literal_is_elided(value);
  for (int k = 0; good && k < l->batch_rank; k++)
    good = value->shape->dim[k] == l->batch_dim[k];
  const int64_t sizes[] = {rows, columns};
  for (int k = 0; good && k < tail; k++)
    good = value->shape->dim[l->batch_rank + k] == sizes[k];
  if (good)
    return true;
  return hl_inst_error(l->in->ev.cx, l->inst,
                       "\"%s\": an operand or result is %s instead of %s with %d dimensions",
                       hl_attr_text(l->inst, HL_A_CUSTOM_CALL_TARGET),
                       value ? hl_shape_text(l->in->ev.cx, value->shape) : "missing",
                       hl_dtype_text(dtype), l->batch_rank + tail);
}

bool lapack_is_square(Lapack *l) {
  return l->m == l->n ||
         hl_inst_error(l->in->ev.cx, l->inst, "the matrix of %d by %d is not square", l->m, l->n);
}

void *lapack_new(Lapack *l, int64_t rows, int64_t columns, size_t size) {
  return hl_arena_alloc(l->arena, (size_t)rows * (size_t)columns * size + 16);
}

// Every matrix on its way into a routine and back comes along here.
static void transpose(const char *from, char *to, int64_t rows, int64_t columns, size_t size) {
  base_look();
  uint32_t steps = 0;
  for (int64_t r = 0; r < rows; r++) {
    base_look_often(&steps);
    for (int64_t c = 0; c < columns; c++)
      memcpy(to + (size_t)(c * rows + r) * size, from + (size_t)(r * columns + c) * size, size);
  }
}

void lapack_load(const HlLiteral *from, int64_t b, int rows, int columns, void *to) {
  const size_t size = (size_t)hl_dtype_bytes(from->shape->dtype);
  const size_t skip = (size_t)b * (size_t)rows * (size_t)columns * size;
  if (from->n)
    transpose((const char *)from->data + skip, to, rows, columns, size);
}

void lapack_store(const void *from, int64_t b, int rows, int columns, HlLiteral *to) {
  const size_t size = (size_t)hl_dtype_bytes(to->shape->dtype);
  const size_t skip = (size_t)b * (size_t)rows * (size_t)columns * size;
  if (to->n)
    transpose(from, (char *)to->data + skip, columns, rows, size);
}

void *lapack_at(Lapack *l, HlLiteral *value, int64_t b, int64_t n) {
  if (!value || value->n == 0)
    return l->none;
  return (char *)value->data + (size_t)(b * n) * (size_t)hl_dtype_bytes(value->shape->dtype);
}

void lapack_copy(const HlLiteral *from, HlLiteral *to, int64_t b, int64_t n) {
  const size_t size = (size_t)hl_dtype_bytes(from->shape->dtype), bytes = (size_t)n * size;
  if (bytes && from->n && to->n)
    memcpy((char *)to->data + (size_t)b * bytes, (const char *)from->data + (size_t)b * bytes,
           bytes);
}

// Answers in f32 may have been rounded down.
int lapack_answer(const Lapack *l, const void *work) {
  float single = 0;
  double size = 0;
  if (l->real == HL_F32) {
    memcpy(&single, work, sizeof single);
    size = (double)nextafterf(single, INFINITY);
  } else {
    memcpy(&size, work, sizeof size);
  }
  return size < 1 ? 1 : size > INT_MAX / 2 ? INT_MAX / 2 : (int)ceil(size);
}

bool lapack_all_finite(const Lapack *l, const void *a, int64_t n) {
  const int64_t parts = l->complex ? 2 * n : n;
  for (int64_t k = 0; k < parts; k++)
    if (l->real == HL_F32 ? !isfinite(((const float *)a)[k]) : !isfinite(((const double *)a)[k]))
      return false;
  return true;
}

void lapack_info(HlLiteral *result, int64_t b, int info) {
  if (result && b < result->n && result->shape->dtype == HL_S32)
    ((int32_t *)result->data)[b] = info;
}
