"""Makes tests/fuzz/seeds/compile_options/: what JAX asks of a compilation (CompileOptionsProto), by the release of JAX that
runs this.

  make_options.py        (needs jax)
"""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
from jax._src import compiler
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS = os.path.join(HERE, "..", "tests", "fuzz", "seeds", "compile_options")


def write(name, devices, output=None, parameters=None, plain=False, **how):
    devices = np.array(devices)
    options = compiler.get_compile_options(num_replicas=devices.shape[0], num_partitions=devices.shape[1],
                                           device_assignment=devices, **how)
    build = options.executable_build_options
    if plain:
        build.use_spmd_partitioning = build.use_shardy_partitioner = False
    if output is not None:
        build.allow_spmd_sharding_propagation_to_output = output
    if parameters is not None:
        build.allow_spmd_sharding_propagation_to_parameters = parameters
    release = ".".join(jax.__version__.split(".")[:2])
    with open(os.path.join(SEEDS, f"{name}.{release}.pb"), "wb") as out:
        out.write(options.SerializeAsString())


def main():
    os.makedirs(SEEDS, exist_ok=True)
    write("one", [[0]])
    write("four", [[3, 0, 2, 1]], output=[True, False], parameters=[False, False, True])
    write("replicas", [[4, 5, 6], [1, 2, 3]], plain=True)
    write("overrides", [[0]], env_options_overrides={
        "xla_dump_to": "somewhere", "xla_cpu_enable_fast_math": True, "xla_force_host_platform_device_count": 3,
        "xla_gpu_auto_spmd_partitioning_memory_budget_ratio": 0.5})


main()
