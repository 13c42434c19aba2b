// tool/shrink/xla.c: XLA as a platform, by a small Python program that is handed to the interpreter as it stands here.

#include "tool/shrink/xla.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hilo/npy.h"
#include "hilo/text.h"

// MODULE ARGUMENTS RESULTS TYPES: compiles, runs, saves; exit status 4: there is no jaxlib, 5: it failed. Element types that NumPy has not travel as f32 or int8.
static const char driver[] =
    "import os, sys\n"
    "os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')\n"
    "os.environ.setdefault('JAX_PLATFORMS', 'cpu')\n"
    "path, args_path, out_path, types = sys.argv[1:5]\n"
    "try:\n"
    "    import jax, ml_dtypes, numpy as np\n"
    "    from jax._src.lib import xla_client as xc\n"
    "    from jaxlib import _hlo, _jax\n"
    "except ImportError as e:\n"
    "    print(f'no jaxlib that this can use: {e}')\n"
    "    sys.exit(4)\n"
    "def fail(kind, e, trace):\n"
    "    print(f'{kind.__name__}: {e}', flush=True)\n"
    "    os._exit(5)\n"
    "sys.excepthook = fail\n"
    "jax.config.update('jax_enable_x64', True)\n"
    "words = {'pred': 'bool', 'bf16': 'bfloat16', 'c64': 'complex64', 'c128': 'complex128'}\n"
    "def dtype(t):\n"
    "    n = words.get(t)\n"
    "    if not n and t[0] in 'su' and t[1:].isdigit():\n"
    "        n = ('int' if t[0] == 's' else 'uint') + t[1:]\n"
    "    if not n and t in ('f16', 'f32', 'f64'):\n"
    "        n = 'float' + t[1:]\n"
    "    if not n:\n"
    "        n = 'float' + t[1] + '_' + t[2:]\n"
    "    return np.dtype(getattr(ml_dtypes, n)) if hasattr(ml_dtypes, n) else np.dtype(n)\n"
    "def plain(x):\n"
    "    x = np.asarray(x)\n"
    "    if x.dtype.name.startswith(('int4', 'int2', 'uint4', 'uint2')):\n"
    "        return x.astype(np.int8 if x.dtype.name[0] == 'i' else np.uint8)\n"
    "    return x if x.dtype.isbuiltin == 1 else x.astype(np.float32)\n"
    "with open(path) as f:\n"
    "    m = _hlo.hlo_module_from_text(f.read())\n"
    "proto = m.as_serialized_hlo_module_proto()\n"
    "module = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))\n"
    "device = jax.local_devices()[0]\n"
    "exe = device.client.compile_and_load(module, _jax.DeviceList((device,)), "
    "xc.CompileOptions())\n"
    "arrays = np.load(args_path)\n"
    "types = types.split(',') if types else []\n"
    "args = [jax.device_put(arrays[f'a{k}'].astype(dtype(t)), device) for k, t in "
    "enumerate(types)]\n"
    "out = exe.execute_sharded(args).disassemble_into_single_device_arrays()\n"
    "np.savez(out_path, **{f'r{k}': plain(x[0]) for k, x in enumerate(out)})\n";

static const char *path_of(HlArena *arena, const XlaRun *run, const char *ending) {
  return hl_arena_printf(arena, "%s/%s%s", run->folder, run->name, ending);
}

const char *xla_results(HlArena *arena, const XlaRun *run) {
  return path_of(arena, run, ".out.npz");
}

static bool write_args(HlCx *cx, HlArena *arena, const HlModule *m, HlLiteral *const *args,
                       const char *path) {
  const int n = m->entry->n_params;
  const char **names = HL_ARRAY(arena, const char *, n + 1);
  for (int k = 0; k < n; k++)
    names[k] = hl_arena_printf(arena, "a%d", k);
  return hl_npz_write(cx, path, n, names, args);
}

bool xla_prepare(HlCx *cx, const HlModule *m, HlLiteral *const *args, const XlaRun *run) {
  if (m->replica_count > 1 || m->num_partitions > 1)
    return hl_error_kind(cx, HL_UNSUPPORTED, hl_module_pos(m),
                         "XLA is asked about programs of one device only");
  for (int k = 0; k < m->entry->n_params; k++)
    if (!hl_shape_is_array(m->entry->params[k]->shape))
      return hl_error_kind(
          cx, HL_UNSUPPORTED, hl_pos(m->entry->params[k]),
          "XLA is asked about programs whose parameters are arrays only: %s is none",
          m->entry->params[k]->name->text);
  const HlTextOptions full = {.large_constants = HL_ON};
  HlArena *arena = hl_arena_new();
  HlBuf text = {0};
  hl_text_print(cx, m, &full, &text);
  const bool ok = hl_write_file(cx, path_of(arena, run, ".hlo"), text.at, text.n) &&
                  write_args(cx, arena, m, args, path_of(arena, run, ".npz"));
  hl_buf_free(&text);
  hl_arena_free(arena);
  return ok;
}

char **xla_command(HlArena *arena, const HlModule *m, const XlaRun *run, char ***env) {
  HlBuf types = {0};
  for (int k = 0; k < m->entry->n_params; k++)
    hl_buf_printf(&types, "%s%s", k > 0 ? "," : "",
                  hl_dtype_text(m->entry->params[k]->shape->dtype));
  const char *words[] = {run->python ? run->python : "python3",
                         "-c",
                         driver,
                         path_of(arena, run, ".hlo"),
                         path_of(arena, run, ".npz"),
                         xla_results(arena, run),
                         types.at ? types.at : ""};
  char **argv = HL_ARRAY(arena, char *, HL_COUNT_OF(words) + 1);
  for (int k = 0; k < HL_COUNT_OF(words); k++)
    argv[k] = hl_arena_printf(arena, "%s", words[k]);
  hl_buf_free(&types);
  const char *given = getenv("XLA_FLAGS");
  *env = HL_ARRAY(arena, char *, 2);
  if (run->flags)
    (*env)[0] = hl_arena_printf(arena, "XLA_FLAGS=%s%s%s", given ? given : "", given ? " " : "",
                                run->flags);
  return argv;
}

int xla_run(HlCx *cx, const HlModule *m, HlLiteral *const *args, const XlaRun *run) {
  if (!xla_prepare(cx, m, args, run))
    return hl_cx_error_kind(cx);
  HlArena *arena = hl_arena_new();
  char **env, **argv = xla_command(arena, m, run, &env);
  const pid_t pid = fork();
  if (pid == 0) {
    if (env[0])
      putenv(env[0]);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "cannot run '%s': %s\n", argv[0], strerror(errno));
    _exit(127);
  }
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
    continue;
  hl_arena_free(arena);
  if (pid < 0)
    return HL_FAILED;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
