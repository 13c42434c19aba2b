// pjrt/serialize.c: executables as bytes: what they were made of, from which they are made again, in less time than it takes
// to read code.
//
//   "hilo-executable 1\n", bytes of the options (8, little-endian), options, program

#include <stdlib.h>
#include <string.h>

#include "pjrt/plugin.h"

static const char magic[] = "hilo-executable 1\n";
enum { MAGIC = sizeof magic - 1, HEAD = MAGIC + 8 };

struct PJRT_SerializedExecutable {
  HlBuf bytes;
};

static void delete_bytes(PJRT_SerializedExecutable *serialized) {
  hl_buf_free(&serialized->bytes);
  free(serialized);
}

PJRT_Error *PJRT_Executable_Serialize(PJRT_Executable_Serialize_Args *args) {
  const Core *core = args->executable->core;
  if (core->asked_client)
    return pjrt_fail(PJRT_UNIMPLEMENTED,
                     "%s: how it is partitioned was asked of this process, and another cannot ask it",
                     core->name);
  PJRT_SerializedExecutable *out = calloc(1, sizeof *out);
  if (!out)
    return pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
  hl_buf_add(&out->bytes, magic, MAGIC);
  for (int k = 0; k < 8; k++)
    hl_buf_putc(&out->bytes, (char)(core->options.n >> 8 * k));
  hl_buf_add(&out->bytes, core->options.at, core->options.n);
  hl_buf_add(&out->bytes, core->source.at, core->source.n);
  args->serialized_bytes = out->bytes.at;
  args->serialized_bytes_size = out->bytes.n;
  args->serialized_executable = out;
  args->serialized_executable_deleter = delete_bytes;
  return NULL;
}

static bool take_apart(HlStr bytes, HlStr *options, HlStr *program) {
  uint64_t n = 0;
  if (bytes.n < HEAD || memcmp(bytes.at, magic, MAGIC) != 0)
    return false;
  for (int k = 0; k < 8; k++)
    n |= (uint64_t)(unsigned char)bytes.at[MAGIC + k] << 8 * k;
  if (n > bytes.n - HEAD)
    return false;
  *options = (HlStr){bytes.at + HEAD, n};
  *program = (HlStr){bytes.at + HEAD + n, bytes.n - HEAD - n};
  return true;
}

PJRT_Error *PJRT_Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args *args) {
  HlStr options, program;
  if (!take_apart((HlStr){args->serialized_executable, args->serialized_executable_size}, &options,
                  &program))
    return pjrt_fail(PJRT_INVALID_ARGUMENT, "these %zu bytes are no executable of this Hilo",
                     args->serialized_executable_size);
  if (PJRT_HAS(args, overridden_serialized_compile_options_size) &&
      args->overridden_serialized_compile_options)
    options = (HlStr){args->overridden_serialized_compile_options,
                      args->overridden_serialized_compile_options_size};
  PJRT_Error *error;
  Core *core = core_compile(args->client, program, options, &error);
  args->loaded_executable = core ? loaded_new(args->client, core, &error) : NULL;
  return error;
}

// What was compiled for a topology, or by another client, is compiled anew.
PJRT_Error *PJRT_Client_Load(PJRT_Client_Load_Args *args) {
  Core *core = args->executable->core;
  PJRT_Error *error = NULL;
  core = core->client == args->client
             ? core_ref(core)
             : core_compile(args->client, core->source, core->options, &error);
  args->loaded_executable = core ? loaded_new(args->client, core, &error) : NULL;
  return error;
}

PJRT_Error *PJRT_Compile(PJRT_Compile_Args *args) {
  PJRT_Client *client = args->client ? args->client : topology_client(args->topology);
  PJRT_Error *error;
  Core *core = core_compile(client, (HlStr){args->program->code, args->program->code_size},
                            (HlStr){args->compile_options, args->compile_options_size}, &error);
  if (!core)
    return error;
  args->executable = malloc(sizeof *args->executable);
  if (args->executable)
    *args->executable = (PJRT_Executable){core};
  else
    core_unref(core);
  return args->executable ? NULL : pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "out of memory");
}
