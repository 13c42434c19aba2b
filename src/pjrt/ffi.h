// pjrt/ffi.h: custom calls that come from outside: handlers and Python's callbacks.
#ifndef HILO_PJRT_FFI_H
#define HILO_PJRT_FFI_H

#include "hilo/custom_calls.h"
#include "pjrt/plugin.h"

// A handler of XLA's FFI: takes a call frame, returns an error or NULL.
typedef void *FfiHandler(void *call_frame);
typedef struct FfiStages {
  FfiHandler *instantiate, *prepare, *initialize, *execute;
} FfiStages;

typedef struct FfiTarget {
  FfiStages stages;
  int api_version;             // 0: the untyped call of old, void(void *out, const void **in)
  uint64_t number;             // from 1
  struct FfiTarget *next;
  char name[];
} FfiTarget;
bool ffi_add(const char *name, size_t n, FfiStages stages, int api_version);

// What a kernel of Hilo's is called with.
typedef struct FfiBinding {
  const FfiTarget *target;     // NULL: a callback
  const Context *context;
} FfiBinding;
HlCustomCall ffi_kernel, callback_kernel;

// --- What the library exports for its Python package ----------------------------------------------------

#define HILO_PJRT_EXPORT __attribute__((visibility("default")))

// Handlers by their stages, or NULL. 0: done.
HILO_PJRT_EXPORT int hilo_pjrt_register_ffi(const char *name, void *instantiate, void *prepare,
                                            void *initialize, void *execute, int api_version,
                                            unsigned traits);
HILO_PJRT_EXPORT int hilo_pjrt_register_type(const char *name, long long type_id,
                                             void *const *functions);

// An array of a callback, row-major, dense; elements below a byte take one each.
typedef struct HiloCallbackArray {
  const void *data;            // NULL: a token
  int dtype;                   // xla.PrimitiveType
  int rank;
  const long long *dims;
} HiloCallbackArray;
// Calls a Python object. 0: done, and the results' data are filled; else what went wrong is in `error`, ended by NUL.
typedef int (*HiloCallback)(void *callable, int n_operands, const HiloCallbackArray *operands,
                            int n_results, HiloCallbackArray *results, char *error,
                            size_t error_size);
HILO_PJRT_EXPORT void hilo_pjrt_set_callback(HiloCallback callback);

#endif
