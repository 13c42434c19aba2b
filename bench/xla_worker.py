"""XLA:CPU in a process of its own, with as many threads as it may use cores: reads requests, answers a line of JSON each.

  {"load": FILE.hlo, "args": A.npz or null}    compiles: {"compile_s": ..., "compile_cpu_s": ..., "memory": {...}}
  {"inputs": A.npz}                            makes up arguments of what is loaded and saves them
  {"run": SECONDS}                             the least of the runs: {"wall_s": ..., "cpu_s": ..., "runs": ...}

What cannot be done is answered by {"error": ...}. bench/cpu.py starts it.
"""
import json
import os
import sys
import time

if len(os.sched_getaffinity(0)) == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import numpy as np
from jax._src.lib import xla_client
from jaxlib import _hlo, _jax, lapack

lapack._lapack.initialize()
jax.config.update("jax_enable_x64", True)  # arguments of 64 bits are put there as they are


class Worker:
    def load(self, path, args):
        self.shapes = self.buffers = self.executable = None
        with open(path) as f:
            module = _hlo.hlo_module_from_text(f.read())
        computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
        self.shapes = []
        for shape in computation.program_shape().parameter_shapes():
            self.add_leaves(shape)
        mlir = _jax.mlir.xla_computation_to_mlir_module(computation)
        devices = jax.local_devices()[:1]
        start, cpu = time.perf_counter(), time.process_time()
        self.executable = devices[0].client.compile_and_load(mlir, _jax.DeviceList(tuple(devices)), xla_client.CompileOptions())
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
        memory = self.executable.get_compiled_memory_stats()
        if args:
            self.take(args)
        return {"compile_s": took, "compile_cpu_s": cpu,
                "memory": {what: getattr(memory, f"{what}_size_in_bytes") for what in ("argument", "output", "alias", "temp")}}

    def add_leaves(self, shape):
        if shape.is_tuple():
            for element in shape.tuple_shapes():
                self.add_leaves(element)
        else:
            self.shapes.append(shape)

    def take(self, path):
        with np.load(path) as arrays:
            self.buffers = [jax.device_put(arrays[f"a{k}"].astype(s.numpy_dtype()).reshape(s.dimensions()))
                            for k, s in enumerate(self.shapes)]

    def inputs(self, path):
        """Floats of a network's size; whole numbers that are good as indices."""
        rng = np.random.default_rng(0)
        arrays = {}
        for k, shape in enumerate(self.shapes):
            kind = np.dtype(shape.numpy_dtype()).kind
            dims = shape.dimensions()
            arrays[f"a{k}"] = (rng.integers(0, 2, dims).astype(shape.numpy_dtype()) if kind in "iub"
                               else (rng.random(dims, np.float32) - .5) * .1)
        np.savez(path, **arrays)
        self.take(path)
        return {}

    def once(self):
        for array in self.executable.execute_sharded(self.buffers).disassemble_into_single_device_arrays():
            jax.block_until_ready(array)

    def run(self, seconds):
        self.once()
        start = time.perf_counter()
        self.once()
        batch = int(2e-3 / (time.perf_counter() - start)) + 1  # so that the clocks' own time does not matter
        walls, cpus = [], []
        end = time.perf_counter() + seconds
        while len(walls) < 3 or time.perf_counter() < end:
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(batch):
                self.once()
            walls.append((time.perf_counter() - wall) / batch)
            cpus.append((time.process_time() - cpu) / batch)
        return {"wall_s": min(walls), "cpu_s": min(cpus), "runs": batch * len(walls)}


def main():
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "load" in request:
                answer = worker.load(request["load"], request["args"])
            elif "inputs" in request:
                answer = worker.inputs(request["inputs"])
            else:
                answer = worker.run(request["run"])
        except Exception as problem:  # the next request may be another program
            answer = {"error": str(problem).splitlines()[0][:200]}
        print("answer", json.dumps(answer), flush=True)


main()
