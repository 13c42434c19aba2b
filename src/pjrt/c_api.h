// pjrt/c_api.h: PJRT, the C interface through which a framework meets a compiler, as it lies in memory.
//
// The client calls `GetPjrtApi` and gets a table of functions. Each takes one struct, which begins with
// its own size as the client knows it: a field is there if the size reaches behind it. So one plugin
// serves clients older and newer than itself (PJRT_HAS). Names, order and sizes are the interface's;
// what each function does stands where it is written.
#ifndef HILO_PJRT_C_API_H
#define HILO_PJRT_C_API_H

#include "pjrt/c_added.h"

// --- The table ------------------------------------------------------------------------------------

typedef struct PJRT_Api {
  PJRT_HEAD
  PJRT_Api_Version pjrt_api_version;
#define PJRT_FUNCTION(name, size) PJRT_Error *(*name)(PJRT_##name##_Args *args);
#define PJRT_PROCEDURE(name, size) void (*name)(PJRT_##name##_Args *args);
#include "pjrt/c_api.def"
} PJRT_Api;

// The first word of every PJRT_Error and PJRT_Memory points to one of these.
typedef struct PJRT_Error_FunctionTable {
  size_t struct_size, instance_size;
  PJRT_Extension_Base *extension_start;
  void (*destroy)(PJRT_Error *error);
  void (*message)(const PJRT_Error *error, const char **message, size_t *message_size);
  PJRT_Error_Code (*get_code)(const PJRT_Error *error);
  void (*for_each_payload)(const PJRT_Error *error, PJRT_Error_PayloadVisitor visitor, void *user_arg);
} PJRT_Error_FunctionTable;
typedef struct PJRT_Memory_FunctionTable {
  size_t struct_size;
  PJRT_Extension_Base *extension_start;
  size_t instance_struct_size;
  void *(*get_user_data)(PJRT_Memory *memory, void *key);
  void (*set_user_data)(PJRT_Memory *memory, void *key, void *data, void (*destructor)(void *data));
} PJRT_Memory_FunctionTable;

#endif
