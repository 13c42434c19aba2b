// pjrt/ffi_api.h: XLA's interface for handlers of custom calls (typed FFI 0.1 to 0.4), as handlers see it in memory.
//
// A handler gets one call frame: arguments, results, attributes, and a table of functions by which it asks for more. Structs begin
// with their size, which is that up to the last field a release knows (SIZE_TO), not what the compiler makes of it.
#ifndef HILO_PJRT_FFI_API_H
#define HILO_PJRT_FFI_API_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FFI_SIZE_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

typedef struct FfiExtension {
  size_t struct_size;
  int type;
  struct FfiExtension *next;
} FfiExtension;
enum { FFI_EXTENSION_METADATA = 1 };

#define FFI_HEAD       \
  size_t struct_size;  \
  FfiExtension *extension_start;

typedef struct FfiVersion {
  FFI_HEAD
  int major, minor;
} FfiVersion;
enum { FFI_MAJOR = 0, FFI_MINOR = 4 };

typedef struct FfiError FfiError;      // a Fault
typedef struct FfiFuture FfiFuture;    // a PJRT_Event
typedef struct FfiContext FfiContext;  // of a call: ffi_call.h
typedef struct FfiApi FfiApi;

typedef enum FfiStage {
  FFI_INSTANTIATE,             // once for each place in a program
  FFI_PREPARE, FFI_INITIALIZE, // before each execution
  FFI_EXECUTE
} FfiStage;

typedef struct FfiSpan {
  const char *at;
  size_t n;
} FfiSpan;

typedef struct FfiTypeId {
  int64_t id;
} FfiTypeId;
typedef struct FfiTypeInfo {
  FFI_HEAD
  void (*deleter)(void *object);
} FfiTypeInfo;

// --- Arguments, results, attributes ------------------------------------------------------------------

typedef struct FfiBuffer {
  FFI_HEAD
  int dtype;                   // xla.PrimitiveType
  void *data;                  // dense, in the order that the call's layouts say; NULL: a token
  int64_t rank;
  const int64_t *dims;
} FfiBuffer;

enum { FFI_BUFFER = 1 };       // the only type of an argument or a result

typedef struct FfiBuffers {    // arguments or results
  FFI_HEAD
  int64_t size;
  const int *types;
  FfiBuffer *const *at;
} FfiBuffers;

typedef enum FfiAttrType { FFI_ARRAY = 1, FFI_DICTIONARY, FFI_SCALAR, FFI_STRING } FfiAttrType;
typedef struct FfiScalar {
  int dtype;
  const void *value;
} FfiScalar;
typedef struct FfiArray {
  int dtype;
  size_t size;
  const void *data;
} FfiArray;
typedef struct FfiAttrs {      // also of a dictionary
  FFI_HEAD
  int64_t size;
  const FfiAttrType *types;
  const FfiSpan *const *names; // sorted
  const void *const *attrs;    // FfiArray, FfiAttrs, FfiScalar, FfiSpan
} FfiAttrs;

typedef struct FfiFrame {
  FFI_HEAD
  const FfiApi *api;
  FfiContext *context;
  FfiStage stage;
  FfiBuffers args, rets;
  FfiAttrs attrs;
  FfiFuture *future;           // out: what tells that the work has been done; NULL: it has
} FfiFrame;

// A handler of one stage.
typedef FfiError *FfiHandler(FfiFrame *frame);

// Asked for by an extension of a frame: what a handler is.
typedef struct FfiMetadata {
  size_t struct_size;
  FfiVersion version;          // out: of the header it was compiled with
  uint32_t traits;             // out
  FfiTypeId state;             // out: of what it keeps, in releases that tell; 0: nothing
} FfiMetadata;
typedef struct FfiMetadataExtension {
  FfiExtension base;
  FfiMetadata *metadata;
} FfiMetadataExtension;

// --- Functions ---------------------------------------------------------------------------------------

typedef struct FfiError_Create {
  FFI_HEAD
  const char *message;
  int code;                    // as PJRT_Error_Code
} FfiError_Create;
typedef struct FfiError_Details {
  FFI_HEAD
  FfiError *error;
  const char *message;         // out
  int code;                    // out; since 0.4
} FfiError_Details;
typedef struct FfiError_Destroy {
  FFI_HEAD
  FfiError *error;
} FfiError_Destroy;

typedef struct FfiHandler_Register {
  FFI_HEAD
  FfiSpan name, platform;
  FfiHandler *stage[4];        // by FfiStage
} FfiHandler_Register;         // more follows: another handler since 0.4, traits

typedef struct FfiStream_Get {
  FFI_HEAD
  FfiContext *context;
  void *stream;                // out
} FfiStream_Get;

typedef struct FfiType_Register {
  FFI_HEAD
  FfiSpan name;
  FfiTypeId *type;             // in and out; 0: is to be chosen
  const FfiTypeInfo *info;     // since 0.2
} FfiType_Register;

typedef struct FfiContext_Get {
  FFI_HEAD
  FfiContext *context;
  const FfiTypeId *type;
  void *data;                  // out
} FfiContext_Get;

typedef struct FfiState {
  FFI_HEAD
  FfiContext *context;
  FfiStage stage;
  const FfiTypeId *type;
  void *state;                 // in of Set, out of Get
} FfiState;
typedef struct FfiState_Before {  // before 0.3: of the stage FFI_INSTANTIATE
  FFI_HEAD
  FfiContext *context;
  const FfiTypeId *type;
  void *state;
  void (*deleter)(void *state);   // 0.1, of Set
} FfiState_Before;

typedef struct FfiMemory_Allocate {
  FFI_HEAD
  FfiContext *context;
  size_t size, alignment;
  void *data;                  // out
} FfiMemory_Allocate;
typedef struct FfiMemory_Free {
  FFI_HEAD
  FfiContext *context;
  size_t size;
  void *data;
} FfiMemory_Free;

typedef void FfiTask(void *data);
typedef struct FfiThreads_Schedule {
  FFI_HEAD
  FfiContext *context;
  FfiTask *task;
  void *data;
} FfiThreads_Schedule;
typedef struct FfiThreads_Count {
  FFI_HEAD
  FfiContext *context;
  int64_t *n;                  // out
} FfiThreads_Count;

typedef struct FfiFuture_Args {  // out of Create, in of SetAvailable
  FFI_HEAD
  FfiFuture *future;
} FfiFuture_Args;
typedef struct FfiFuture_SetError {
  FFI_HEAD
  FfiFuture *future;
  FfiError *error;             // taken
} FfiFuture_SetError;

typedef struct FfiRun_Get {
  FFI_HEAD
  FfiContext *context;
  int64_t run;                 // out
} FfiRun_Get;
typedef struct FfiDevice_Get {
  FFI_HEAD
  FfiContext *context;
  int32_t device;              // out
} FfiDevice_Get;
typedef struct FfiExtension_Find {
  FFI_HEAD
  FfiContext *context;
  int64_t type;
  const void *extension;       // out
} FfiExtension_Find;

struct FfiApi {
  FFI_HEAD
  FfiVersion version;
  const void *internal;        // of XLA's own handlers: nothing here
  FfiError *(*error_create)(FfiError_Create *args);
  void (*error_details)(FfiError_Details *args);
  void (*error_destroy)(FfiError_Destroy *args);
  FfiError *(*handler_register)(FfiHandler_Register *args);
  FfiError *(*stream_get)(FfiStream_Get *args);
  FfiError *(*type_register)(FfiType_Register *args);
  FfiError *(*context_get)(FfiContext_Get *args);
  FfiError *(*state_set)(FfiState *args);
  FfiError *(*state_get)(FfiState *args);
  FfiError *(*memory_allocate)(FfiMemory_Allocate *args);
  FfiError *(*memory_free)(FfiMemory_Free *args);
  FfiError *(*threads_schedule)(FfiThreads_Schedule *args);
  FfiError *(*threads_count)(FfiThreads_Count *args);
  FfiError *(*future_create)(FfiFuture_Args *args);
  FfiError *(*future_set_available)(FfiFuture_Args *args);
  FfiError *(*future_set_error)(FfiFuture_SetError *args);
  FfiError *(*run_get)(FfiRun_Get *args);
  FfiError *(*device_get)(FfiDevice_Get *args);
  FfiError *(*extension_find)(FfiExtension_Find *args);  // since 0.4
};

static_assert(FFI_SIZE_TO(FfiVersion, minor) == 24, "as handlers lay it out");
static_assert(FFI_SIZE_TO(FfiBuffer, dims) == 48, "as handlers lay it out");
static_assert(FFI_SIZE_TO(FfiBuffers, at) == 40, "as handlers lay it out");
static_assert(FFI_SIZE_TO(FfiAttrs, attrs) == 48, "as handlers lay it out");
static_assert(FFI_SIZE_TO(FfiFrame, attrs) == 168, "as handlers lay it out");
static_assert(FFI_SIZE_TO(FfiMetadata, traits) == 36, "as handlers lay it out");
static_assert(FFI_SIZE_TO(FfiMetadataExtension, metadata) == 32, "as handlers lay it out");
static_assert(sizeof(FfiApi) == 200, "as handlers lay it out");

#endif
