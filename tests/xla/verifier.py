"""Asks XLA's own verifier about HLO modules: that of XLA:GPU in the newest release, which needs no GPU for it.

  verifier.py FILE...      prints what the verifier says of each

The CUDA plugin compiles for a device that it is only told of. With every pass switched off, a module goes through the verifier
and on to a code generator that was promised other modules: it may fail there, or die, which says nothing of the module.
HILO_NEWEST_PYTHON names a Python with jaxlib and jax-cuda13-plugin of that release; the device's description is taken from
corpus newest/.
"""
import ctypes
import glob
import json
import os
import re
import struct
import sys

import oracle

PLUGIN = "jax_plugins/xla_cuda13/xla_cuda_plugin.so"
# Where the functions stand in the PJRT API's table, and the sizes of their arguments.
ERROR_DESTROY, ERROR_MESSAGE, PLUGIN_INITIALIZE = (40, 24), (48, 40), (64, 16)
EXECUTABLE_DESTROY, TOPOLOGY_CREATE, COMPILE = (360, 24), (696, 56), (752, 64)
STRING = 0                                       # a kind of named value
MOST_DEVICES = 64


# ---- the worker: it runs in the Python with the plugin

class Api:
    """The plugin's C API; arguments are given as {byte: value}, all eight bytes long."""

    def __init__(self):
        lib = ctypes.CDLL(next(filter(os.path.exists, (os.path.join(p, PLUGIN) for p in sys.path))))
        lib.GetPjrtApi.restype = ctypes.c_void_p
        self.table = lib.GetPjrtApi()
        self.topologies = {}
        self.call(PLUGIN_INITIALIZE, {})

    def raw(self, function, fields, returns=ctypes.c_void_p):
        byte, size = function
        args = ctypes.create_string_buffer(size)
        struct.pack_into("<Q", args, 0, size)
        for at, value in fields.items():
            struct.pack_into("<Q", args, at, value)
        pointer = ctypes.c_void_p.from_address(self.table + byte).value
        return ctypes.CFUNCTYPE(returns, ctypes.c_void_p)(pointer)(ctypes.addressof(args)), args

    def call(self, function, fields):
        error, args = self.raw(function, fields)
        if error:
            _, told = self.raw(ERROR_MESSAGE, {16: error}, None)
            text = ctypes.string_at(*struct.unpack_from("<QQ", told, 24)).decode(errors="replace")
            self.raw(ERROR_DESTROY, {16: error}, None)
            raise RuntimeError(text)
        return args

    def topology(self, devices):
        if devices not in self.topologies:
            with open(os.environ["HILO_GPU_TARGET"], "rb") as f:
                options = {b"target_config": f.read(), b"topology": b"1x1x%d" % devices}
            kept = [(ctypes.create_string_buffer(k), ctypes.create_string_buffer(v)) for k, v in options.items()]
            values = b"".join(struct.pack("<7Q", 56, 0, ctypes.addressof(k), len(k) - 1, STRING, ctypes.addressof(v),
                                          len(v) - 1) for k, v in kept)
            buffer = ctypes.create_string_buffer(values)
            args = self.call(TOPOLOGY_CREATE, {32: ctypes.addressof(buffer), 40: len(kept)})
            self.topologies[devices] = struct.unpack_from("<Q", args, 48)[0]
        return self.topologies[devices]

    def compile(self, proto, replicas, partitions):
        import numpy
        from jaxlib import xla_client
        options = xla_client.CompileOptions()
        options.num_replicas, options.num_partitions = replicas, partitions
        options.executable_build_options.num_replicas = replicas
        options.executable_build_options.num_partitions = partitions
        grid = numpy.arange(replicas * partitions).reshape(replicas, partitions)
        options.device_assignment = xla_client.DeviceAssignment.create(grid)
        given = options.SerializeAsString()
        code, form = ctypes.create_string_buffer(proto), ctypes.create_string_buffer(b"hlo")
        program = ctypes.create_string_buffer(struct.pack("<6Q", 48, 0, ctypes.addressof(code), len(proto),
                                                          ctypes.addressof(form), 3))
        options = ctypes.create_string_buffer(given)
        args = self.call(COMPILE, {16: self.topology(replicas * partitions), 24: ctypes.addressof(program),
                                   32: ctypes.addressof(options), 40: len(given)})
        self.raw(EXECUTABLE_DESTROY, {16: struct.unpack_from("<Q", args, 56)[0]})


def verdict(api, path):
    """None: accepted; else the verifier's or the reader's words."""
    from jaxlib import _hlo
    with open(path, "rb") as f:
        raw = f.read()
    read = _hlo.HloModule.from_serialized_hlo_module_proto
    if path.endswith(".pb"):
        module = read(raw)
    else:
        module = _hlo.hlo_module_from_text(raw.decode("utf-8", "surrogateescape"))
        raw = module.as_serialized_hlo_module_proto()
        read(raw)
    head = module.to_string().partition("\n")[0]        # of the text: a proto does not say how many replicas there are
    count = {w: int((re.search(w + r"=(\d+)", head) or [0, 1])[1]) for w in ("replica_count", "num_partitions")}
    if not 0 < count["replica_count"] * count["num_partitions"] <= MOST_DEVICES:
        return None
    try:
        api.compile(raw, count["replica_count"], count["num_partitions"])
    except RuntimeError as e:
        if re.search("hlo verifier|Failed after pipeline-start", str(e)):
            return str(e)
    return None


def worker():
    api = Api()
    for line in sys.stdin:
        try:
            r = dict(error=verdict(api, json.loads(line)["file"]))
        except Exception as e:
            r = dict(error=f"{type(e).__name__}: {e}")
        print(json.dumps(r), flush=True)


# ---- the caller's side

class Verifier(oracle.Worker):
    """ask(path): None where XLA's verifier accepts the file, or does not get as far as to say."""

    def __init__(self, python, target):
        super().__init__(python, os.path.abspath(__file__))
        self.env = dict(os.environ, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3", HILO_GPU_TARGET=target,
                        XLA_FLAGS="--xla_enable_hlo_passes_only=none")

    def ask(self, path, timeout=60):
        r = super().ask(dict(file=os.path.abspath(path)), timeout)
        return None if r.get("crash") else r["error"]


def find():
    """The verifier, or None where there is no Python with the plugin, or no description of a device."""
    python = os.environ.get("HILO_NEWEST_PYTHON")
    targets = glob.glob(os.path.join(oracle.corpus(), "newest", "gpu", "*", "*gpu_target_config.pbtxt"))
    if not python or not targets or not oracle.has_file(python, PLUGIN):
        return None
    return Verifier(python, sorted(targets)[0])


def main():
    v = find() or oracle.skip("no Python with XLA's CUDA plugin: HILO_NEWEST_PYTHON names it")
    bad = 0
    for path in sys.argv[1:]:
        error = v.ask(path)
        bad += error is not None
        print(f"{path}: {error or 'accepted'}")
    v.stop()
    sys.exit(bad > 0)


if __name__ == "__main__":
    worker() if sys.argv[1:] == ["--worker"] else main()
