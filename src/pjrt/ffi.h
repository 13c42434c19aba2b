// pjrt/ffi.h: custom calls that come from outside: handlers and Python's callbacks.
#ifndef HILO_PJRT_FFI_H
#define HILO_PJRT_FFI_H

#include "hilo/custom_calls.h"
#include "pjrt/ffi_api.h"
#include "pjrt/plugin.h"

// --- ffi.c: targets ----------------------------------------------------------------------------------

typedef struct FfiTarget {
  FfiHandler *stage[FFI_EXECUTE + 1];  // by FfiStage; NULL: there is none
  void *untyped;                       // the call of old, where there are no stages
  int minor;                           // of the interface that the handler was compiled for
  bool is_clients;                     // jaxlib's own, which takes errors apart by its own means
  uint64_t number;                     // from 1
  atomic_bool replaced;                // by a newer one of the name
  struct FfiTarget *next;
  char name[];
} FfiTarget;
// The newest of a name is called. NULL: done; it may be one that cannot be called here.
Fault *ffi_add(const char *name, size_t n, FfiHandler *const *stage, void *untyped);
const FfiTarget *ffi_find(const char *name);  // NULL: none

// Types of what handlers keep between stages.
typedef void FfiDeleter(void *object);
// 0: is to be chosen. Of a type that was registered before the same number comes, or is expected.
Fault *ffi_add_type(const char *name, size_t n, int64_t *id, FfiDeleter *deleter);
bool ffi_find_type(int64_t id, FfiDeleter **deleter);

// What a kernel of Hilo's is called with.
typedef struct FfiBinding {
  const FfiTarget *target;     // NULL: a callback
  const Context *context;
} FfiBinding;
HlCustomCall ffi_kernel, callback_kernel;
// Reports what went wrong, in words and by a code that the execution ends with; takes the reference. Always false.
bool ffi_failed(HlCx *cx, const Context *context, const HlInst *inst, Fault *fault);

// --- ffi_context.c: what handlers ask for --------------------------------------------------------------

// What a handler keeps from one stage to a later one.
typedef struct FfiKept {
  int64_t type;                // 0: nothing
  void *object;
  FfiDeleter *deleter;
} FfiKept;
void ffi_let_go(FfiKept *kept);

struct FfiContext {
  const UserData *user;        // NULL: no execution
  int device;                  // logical
  FfiKept *kept[FFI_EXECUTE];  // by the stage that has set it
};
// By which handlers of a minor version are called, and those of the client itself.
const FfiApi *ffi_api(int minor, bool is_clients);
static inline Fault *ffi_fault(FfiError *error) { return (Fault *)error; }

// --- ffi_attrs.c ---------------------------------------------------------------------------------------

// The attributes of a call's backend_config, in the arena. NULL: done.
Fault *ffi_attrs(HlCx *cx, HlArena *arena, const HlInst *inst, FfiAttrs *out);

// --- What the library exports for its Python package ----------------------------------------------------

#define HILO_PJRT_EXPORT __attribute__((visibility("default")))

// Names the release of StableHLO that programs shall come as, if it is not newer than what is read here (api.c). Before the
// first client is made.
HILO_PJRT_EXPORT void hilo_pjrt_name_stablehlo(int major, int minor, int patch);
// Handlers by their stages, or NULL; api_version 0: `execute` is an untyped call. 0: done.
HILO_PJRT_EXPORT int hilo_pjrt_register_ffi(const char *name, void *instantiate, void *prepare,
                                            void *initialize, void *execute, int api_version,
                                            unsigned traits);
// A handler to be registered with the client, before any is registered here: it learns how the client makes errors.
HILO_PJRT_EXPORT FfiError *hilo_pjrt_meet_client(FfiFrame *frame);
// A type of what handlers keep, by its number, and what is known of it (an XLA_FFI_TypeInfo; may be NULL). 0: done.
HILO_PJRT_EXPORT int hilo_pjrt_register_type(const char *name, long long type_id,
                                             const void *type_info);

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
