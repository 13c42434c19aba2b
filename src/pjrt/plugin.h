// pjrt/plugin.h: what the files of the plugin share.
//
// Objects are counted: a handle that the client holds is one reference, work under way holds others, so that a client may let
// go of anything at any time, from any thread and inside callbacks. No lock is held while something of the client's is called.
#ifndef HILO_PJRT_PLUGIN_H
#define HILO_PJRT_PLUGIN_H

#include <pthread.h>
#include <stdatomic.h>

#include "cpu/pool/alloc.h"
#include "hilo/session.h"
#include "pjrt/c_extensions.h"
#include "pjrt/dispatch.h"

#define PJRT_FUNCTION(name, size) PJRT_Error *PJRT_##name(PJRT_##name##_Args *args);
#define PJRT_PROCEDURE(name, size) void PJRT_##name(PJRT_##name##_Args *args);
#include "pjrt/c_api.def"
#undef PJRT_FUNCTION
#undef PJRT_PROCEDURE

// --- error.c: what went wrong, told as often as it is asked for --------------------------------------

typedef struct Fault {
  atomic_int refs;
  PJRT_Error_Code code;
  size_t n;
  const char *text;
} Fault;
Fault *fault_new(PJRT_Error_Code code, const char *text, size_t n);
Fault *fault_of_run(HlCx *cx, const HlModule *m);  // the same, with the lines of the user's that m knows
Fault *fault_of_cx(HlCx *cx);                    // what a context reported, which forgets it
Fault *fault_ref(Fault *fault);                  // NULL is fine, as everywhere
void fault_unref(Fault *fault);
PJRT_Error *pjrt_error(Fault *fault);            // takes the reference; NULL: NULL
PJRT_Error *pjrt_fail(PJRT_Error_Code code, const char *format, ...) HL_PRINTF(2, 3);
PJRT_Error *pjrt_fail_cx(HlCx *cx);
PJRT_Error *pjrt_unsupported(const char *function);

// --- event.c -----------------------------------------------------------------------------------------

// What is told when an event happens; `fault` is borrowed.
typedef void EventTold(void *user, Fault *fault);
PJRT_Event *event_new(void);                     // NULL: no memory
PJRT_Event *event_done(Fault *fault);            // that has happened; takes the reference. Without a fault there is only one
PJRT_Event *event_ref(PJRT_Event *event);
void event_unref(PJRT_Event *event);
void event_set(PJRT_Event *event, Fault *fault); // it happens; takes the reference to the fault
bool event_is_ready(PJRT_Event *event);
Fault *event_wait(PJRT_Event *event);            // borrowed, as long as the event
void event_tell(PJRT_Event *event, EventTold *told, void *user);  // at once, if it has happened

// --- client.c, device.c ------------------------------------------------------------------------------

typedef enum MemoryKind { MEMORY_DEVICE, MEMORY_PINNED_HOST, MEMORY_UNPINNED_HOST, N_MEMORY_KINDS } MemoryKind;
extern const char *const memory_kind_name[N_MEMORY_KINDS];
int memory_kind_named(const char *text, size_t n);  // -1: none

typedef struct MemoryNote {
  void *key, *data;
  void (*destructor)(void *data);
  struct MemoryNote *next;
} MemoryNote;

struct PJRT_Memory {
  const PJRT_Memory_FunctionTable *functions;
  PJRT_Device *device;
  MemoryKind kind;
  int id;
  char text[32];                                 // "CPU_DEVICE_0"
  pthread_mutex_t lock;                          // of the notes
  MemoryNote *notes;
};

struct PJRT_DeviceDescription {
  int id, process;
  char text[48], debug[32];                      // "CpuDevice(id=0)", "cpu:0"
};

struct PJRT_Device {
  PJRT_DeviceDescription description;
  PJRT_Client *client;
  int local;                                     // number among those of this process; -1: another's
  PJRT_Memory memory[N_MEMORY_KINDS];
  PJRT_Memory *memories[N_MEMORY_KINDS];
};

struct PJRT_TopologyDescription {
  int n;
  PJRT_DeviceDescription **description;
};
PJRT_Client *topology_client(const PJRT_TopologyDescription *topology);  // whose devices it describes

typedef struct Core Core;
typedef struct Remote Remote;                    // remote.h

// What one execution lends to its custom calls.
typedef struct UserData {
  const PJRT_FFI_UserData *data;
  int n;
  Core *core;
  const int64_t *device;                         // ids of the logical devices
  int64_t run;                                   // number of the execution
  _Atomic(Fault *) *fault;                       // out: the first one's
} UserData;

// A context of Hilo's that knows all custom calls of the process. One thread at a time has it.
typedef struct Context {
  HlCx *cx;
  uint64_t known;                                // custom calls that it has been told of
  uint64_t partitioners_known;                   // the same of partitioners
  bool asked_client;                             // how a custom call is partitioned, since this was false
  const UserData *user;                          // of the execution under way; NULL: none
  struct Context *next;
} Context;

// --- tasks.c: threads for what handlers hand over -----------------------------------------------------

typedef struct Tasks Tasks;
Tasks *tasks_new(int most);                      // NULL: no memory
void tasks_free(Tasks *tasks);                   // does first what was handed over
int tasks_threads(const Tasks *tasks);
// Runs it on a thread, now or later; where there is none (NULL), at once.
void tasks_add(Tasks *tasks, void (*run)(void *data), void *data);

struct PJRT_Client {
  PJRT_Device *device;
  PJRT_Device **devices;                         // all, by id
  PJRT_Device **local;                           // of this process
  PJRT_Memory **memories;                        // of those
  int n_devices, n_local, process;
  PJRT_TopologyDescription topology;
  CpuAlloc *alloc;
  HlCpuThreads *threads;                         // of all programs
  Dispatcher *dispatcher;
  Remote *remote;                                // NULL: there is one process
  Tasks *tasks;
  atomic_llong runs;                             // executions so far
  pthread_mutex_t lock;                          // of what follows
  Context *contexts;                             // that nobody uses
  struct SessionRow *sessions;                   // by their options
  struct CacheRow *cache;                        // cores by what they were made of
};
extern const char platform_name[];
const char *platform_version(void);              // with that of Hilo and the build, which keys of caches hold
uint64_t build_hash(void);                       // of that
PJRT_Memory *default_memory(PJRT_Device *device);
// Names and values that live as long as the plugin: named_int("n", 1).
PJRT_NamedValue named_int(const char *name, int64_t value);
PJRT_NamedValue named_ints(const char *name, const int64_t *value, size_t n);
PJRT_NamedValue named_text(const char *name, const char *text);
PJRT_NamedValue named_float(const char *name, float value);

// A context, to be given back. NULL: no memory.
Context *context_take(PJRT_Client *client);
void context_put(PJRT_Client *client, Context *context);

// --- types -------------------------------------------------------------------------------------------

PJRT_Buffer_Type pjrt_type(HlDtype dtype);
HlDtype pjrt_dtype(PJRT_Buffer_Type type);       // HL_NO_DTYPE: none of Hilo's

// --- buffer.c ----------------------------------------------------------------------------------------

// Memory that buffers show.
typedef struct Storage {
  atomic_int refs;
  atomic_int makers;                             // of the references, those of the run that computes what is in it
  void *data;
  size_t bytes;
  CpuAlloc *alloc;                               // to which it goes back; NULL: it is borrowed
  void (*let_go)(void *user);                    // of borrowed memory: tells that it is not needed any more; may be NULL
  void *user;
  bool fixed;                                    // must not be written
} Storage;
Storage *storage_new(PJRT_Client *client, size_t bytes);  // NULL: no memory
Storage *storage_borrow(void *data, size_t bytes, bool fixed, void (*let_go)(void *user), void *user);
Storage *storage_ref(Storage *storage);
void storage_unref(Storage *storage);

// An array's type, as buffers and executables have it.
typedef struct Array {
  HlDtype dtype;
  int rank;
  size_t bytes;
  const int64_t *dim, *minor_to_major;           // rank of each
} Array;

struct PJRT_Buffer {
  atomic_int refs;
  PJRT_Memory *memory;
  Array array;
  PJRT_Event *ready;                             // its elements are there
  pthread_mutex_t lock;                          // of what follows
  Storage *storage;                              // NULL: deleted
  Storage *external;                             // what others hold on to
  int n_external;
  int64_t numbers[];                             // of the array
};
// A new buffer; takes the references. NULL: no memory, and they are given back.
PJRT_Buffer *buffer_new(PJRT_Memory *memory, const Array *array, Storage *storage, PJRT_Event *ready);
Storage *buffer_storage(PJRT_Buffer *buffer);    // a new reference; NULL: it was deleted
// The same, and the buffer is deleted; *alone: nobody else shows the memory, which may be written once the buffer is ready.
Storage *buffer_donate(PJRT_Buffer *buffer, bool *alone);
void buffer_unref(PJRT_Buffer *buffer);
PJRT_Error *buffer_deleted(const PJRT_Buffer *buffer);
// Row-major where minor_to_major is NULL. False: the type, the rank or the size is out of bounds.
bool array_make(Array *out, int64_t *numbers, HlDtype dtype, int rank, const int64_t *dim, const int64_t *minor_to_major);
enum { MAX_RANK = 64 };

// --- transfer.c --------------------------------------------------------------------------------------

// The array of a type, sizes and a layout (NULL: row-major), as a client names them.
PJRT_Error *transfer_array(Array *out, int64_t *numbers, PJRT_Buffer_Type type, const int64_t *dims,
                           size_t n_dims, const PJRT_Buffer_MemoryLayout *layout);
PJRT_Error *transfer_no_memory(size_t bytes);

// --- compile.c, executable.c, execute.c --------------------------------------------------------------

typedef struct Slot {                            // a parameter or a result, flattened
  Array array;                                   // of a token: no bytes
  MemoryKind kind;
  int donor;                                     // of results: the parameter whose memory it may take; -1: none
  bool donated;                                  // of parameters
  char layout[16 + 4 * MAX_RANK];                // "{1,0}"
} Slot;

// What was compiled: shared by all handles.
struct Core {
  atomic_int refs;
  PJRT_Client *client;
  HlArena *arena;
  HlCompiled *compiled;
  HlCpuProgram *program;
  HlSession *session;
  const char *name;
  uint64_t fingerprint[2];                       // of the program, what was asked, and the build
  uint64_t spread_id[2];                         // of the program and its devices: the same in all processes
  int64_t replicas, partitions, n_devices;
  const int64_t *device;                         // ids: [replica * partitions + partition]
  int *process;                                  // of each of them
  int n_local;                                   // of this process
  bool is_short;                                 // so that to run it costs less than to hand it to a thread
  bool calls_python;
  bool snapshots;                                // are asked for, of every execution
  bool portable;                                 // runs on whichever device it is told
  bool asked_client;                             // how to partition it: nobody else may be given it, or make it again
  Slot *parameter, *result;
  int n_parameters, n_results;
  HlStr source, options;                         // what it was made of
  HlStr key;                                     // all that the options say, in one order
  struct FfiSite *site;                          // where it calls handlers, in an order of ffi_call.c
  int n_sites;
  // What is asked for once and then kept.
  pthread_mutex_t lock;
  HlBuf optimized, assignment;
  PJRT_NamedValue *cost;
  int n_cost;
  const char **kind_name[2];                     // memory kinds of parameters, results
  size_t *kind_size[2];
  struct PJRT_Layouts_MemoryLayout **layout[2];  // of parameters, results
  char **sharding[2];
  size_t *sharding_size[2];
  PJRT_Buffer_Type *types;
  int64_t *dims;
  size_t *ranks;
};
Core *core_ref(Core *core);
void core_unref(Core *core);

struct PJRT_Executable {
  Core *core;
};
struct PJRT_LoadedExecutable {
  atomic_int refs;
  Core *core;
  PJRT_Client *client;
  PJRT_Device **devices;                         // of this process, in the order of partitions
  PJRT_LogicalDeviceIds *ids;
  int n_devices;
  atomic_bool deleted;
};
// A new core; NULL, and *error says why.
Core *core_compile(PJRT_Client *client, HlStr program, HlStr options, PJRT_Error **error);
HlModule *core_read_program(HlCx *cx, const Core *core);  // as it came; NULL: reported
PJRT_LoadedExecutable *loaded_new(PJRT_Client *client, Core *core, PJRT_Error **error);

// --- layouts.c, shardings.c, ffi.c: extensions ---------------------------------------------------------

extern PJRT_Layouts_Extension layouts_extension;
extern PJRT_Shardings_Extension shardings_extension;
extern PJRT_FFI_Extension ffi_extension;
extern PJRT_Profiler_Extension profiler_extension;
extern PJRT_Custom_Partitioner_Extension partitioner_extension;
void partitioner_bind(Context *context);         // as ffi_bind, of partitioners

// A program is about to run: it takes part in the profile that is being taken, if any.
void profiler_watch(Core *core);

struct PJRT_ExecuteContext {
  PJRT_FFI_UserData *data;
  int n;
};
// Tells a context of the custom calls that it does not know yet.
void ffi_bind(Context *context);
// Makes ready the handlers that a program calls. NULL: done.
Fault *ffi_instantiate(Context *context, Core *core);
void ffi_end_sites(Core *core);

#endif
