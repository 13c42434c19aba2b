"""Runs each pass on states that XLA makes for it: compare_states.py on more programs, for one device and for eight.

  compare_made_states.py [--pipeline cpu|gpu] [--devices 1|8] [--kind bench|models|sharded] [--files GLOB] [--keep DIR]
                         [--pass NAME] [--diff] [--all]

The programs: those of the benchmarks (gen_corpus.py beside the corpus), the corpus' models up to 1 MB, each for the devices it
was made for, and the corpus' programs with random meshes of 8 devices and random shardings of their arguments (sharded; the
same on each run). Without --all every sixth. HILO_NEWEST_PYTHON names a Python with jaxlib 0.11, which compiles them and dumps
the state after each pass, as text and as a proto; for gpu it needs XLA's CUDA plugin, too, but no GPU: the device's description is
the corpus'.
--keep DIR keeps the states, DIR/PLATFORM-DEVICES, and makes no program's again.
"""
import argparse
import fnmatch
import glob
import os
import re
import subprocess
import sys
import tempfile

import compare_states
import oracle

sys.path.insert(0, os.path.join(oracle.ROOT, "bench"))
import spmd     # noqa: E402

RELEASE, PLUGIN = "0.11", "jax_plugins/xla_cuda13/xla_cuda_plugin.so"
MOST_BYTES = 1 << 20
SHARDED, SEED = 33, 1000                # programs with random shardings: one of each of the corpus'
EVERY = 6
# Per cent of the states that must be equal, by platform and devices.
LEAST = {("cpu", 1): 84, ("cpu", 8): 88, ("gpu", 1): 85, ("gpu", 8): 92}


# ---- in the Python with the newest release: what a program is lowered to, and its dumps

def lower(generator, platform, folder):
    """The programs of the benchmarks as StableHLO, each a file."""
    sys.argv = [generator, os.devnull, "none"]
    sys.path.insert(0, os.path.dirname(generator))
    import gen_corpus
    import jax
    for (group, name), (make, _) in gen_corpus.CASES.items():
        if group == "bench":
            f, values = make()
            shapes = jax.tree_util.tree_map(lambda v: jax.ShapeDtypeStruct(jax.numpy.shape(v), jax.numpy.result_type(v)), values)
            with jax.default_matmul_precision("float32"):
                lowered = jax.jit(f).trace(*shapes).lower(lowering_platforms=({"gpu": "cuda"}.get(platform, platform),))
            with open(os.path.join(folder, name + ".mlir"), "w") as out:
                out.write(lowered.as_text())


def module_of(path):
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from jaxlib import _hlo, _jax
    with open(path) as f:
        text = f.read()
    if not path.endswith(".mlir"):
        text = _jax.mlir.hlo_to_stablehlo(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    mlir.make_ir_context().__enter__()
    return ir.Module.parse(text), "sdy." in str(text)


def compile_only_devices(target, n):
    import jax
    from jaxlib import _jax
    jax.devices()                                       # finds and loads the plugin
    _jax.initialize_pjrt_plugin("cuda")
    with open(target) as f:
        options = {"target_config": f.read(), "topology": f"1x1x{n}"}
    return _jax.get_default_c_api_topology("cuda", "", options)._make_compile_only_devices()


def compile_one(path, platform, n, folder, target):
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_as_proto --xla_dump_hlo_pass_re=.*"
    if platform == "cpu":                               # the code it makes is not asked for
        flags += (f" --xla_force_host_platform_device_count={n} --xla_backend_optimization_level=0"
                  " --xla_llvm_disable_expensive_passes=true")
    os.environ["XLA_FLAGS"] = flags
    import jax
    import numpy
    from jax._src.lib import xla_client
    from jaxlib import _jax
    module, is_shardy = module_of(path)
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = 1
    options.num_partitions = build.num_partitions = n
    build.use_spmd_partitioning, build.use_shardy_partitioner = n > 1, is_shardy
    build.allow_spmd_sharding_propagation_to_output = [True]
    devices = jax.devices() if platform == "cpu" else compile_only_devices(target, n)
    options.device_assignment = xla_client.DeviceAssignment.create(numpy.array([[d.id for d in devices[:n]]]))
    client, chosen = devices[0].client, _jax.DeviceList(tuple(devices[:n]))
    (client.compile_and_load if platform == "cpu" else client.compile)(module, chosen, options)


# ---- the caller's side

def needed(platforms):
    """The Python that compiles, and the description of the device."""
    python = os.environ.get("HILO_NEWEST_PYTHON")
    if not python or oracle.release_of(python) != RELEASE:
        oracle.skip(f"no jaxlib {RELEASE}: HILO_NEWEST_PYTHON says which Python has it")
    targets = sorted(glob.glob(os.path.join(oracle.corpus(), "newest", "gpu", "*", "*gpu_target_config.pbtxt")))
    if "gpu" in platforms and not (targets and oracle.has_file(python, PLUGIN)):
        if platforms == ["gpu"]:
            oracle.skip("no CUDA plugin in HILO_NEWEST_PYTHON, or no description of a device")
        print("skipped: gpu: no CUDA plugin in HILO_NEWEST_PYTHON, or no description of a device")
        platforms.remove("gpu")
    return python, (targets or [None])[0]


def run(python, *args, timeout=300):
    env = dict(os.environ, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3")
    try:
        r = subprocess.run([python, os.path.abspath(__file__), *map(str, args)], env=env, timeout=timeout, capture_output=True)
        return None if r.returncode == 0 else (r.stderr.decode(errors="replace").strip() or f"status {r.returncode}")[-200:]
    except subprocess.TimeoutExpired:
        return f"more than {timeout} s"


def partitions(path):
    with open(path) as f:
        found = re.search(r"num_partitions=(\d+)", f.readline())
    return int(found[1]) if found else 1


def programs(a, python, platform, folder):
    """[path] of what there is for so many devices."""
    out = []
    if a.kind in (None, "bench") and a.devices == 1:
        generator = os.path.join(oracle.corpus(), "..", "tools", "gen_corpus.py")
        if os.path.exists(generator):
            why = run(python, "--lower", generator, platform, folder)
            if why:
                sys.exit("gen_corpus.py: " + why)
        else:
            print("skipped: the benchmarks' programs: no gen_corpus.py beside the corpus")
        out += sorted(glob.glob(folder + "/*.mlir"))
    if a.kind in (None, "models"):
        models = sorted(glob.glob(os.path.join(oracle.corpus(), "models", "*.hlo")))
        out += [p for p in models if os.path.getsize(p) <= MOST_BYTES and partitions(p) == a.devices]
    if a.kind in (None, "sharded") and a.devices == spmd.DEVICES:
        out += spmd.random_programs(SHARDED, SEED, folder)
    return [p for k, p in enumerate(out)
            if (fnmatch.fnmatch(os.path.basename(p), a.files) if a.files else a.all or k % EVERY == 0)]


def make(a, python, target, platform, folder):
    """A folder of states for each program, in `folder`."""
    with tempfile.TemporaryDirectory() as sources:
        def one(path):
            out = os.path.join(folder, os.path.splitext(os.path.basename(path))[0])
            if not os.path.isdir(out):
                os.makedirs(out)
                return run(python, "--compile", path, platform, a.devices, out, target or "")

        for path, why in oracle.each(one, programs(a, python, platform, sources), a.jobs):
            if why:
                print(f"  {platform} {os.path.basename(path)}: XLA ends with {why}")


def main():
    if sys.argv[1:2] == ["--lower"]:
        return lower(*sys.argv[2:])
    if sys.argv[1:2] == ["--compile"]:
        path, platform, n, folder, target = sys.argv[2:]
        return compile_one(path, platform, int(n), folder, target)
    p = compare_states.options(__doc__)
    p.add_argument("--devices", type=int, choices=(1, spmd.DEVICES), action="append")
    p.add_argument("--kind", choices=("bench", "models", "sharded"))
    p.add_argument("--keep", metavar="DIR")
    p.add_argument("--all", action="store_true", help="every program, not every sixth")
    a = p.parse_args()
    platforms = a.pipeline or ["cpu", "gpu"]
    python, target = needed(platforms)
    a.cores = os.cpu_count()
    good = True
    for devices in a.devices or (1, spmd.DEVICES):
        for platform in platforms:
            with tempfile.TemporaryDirectory() as temp:
                folder = os.path.join(a.keep or temp, f"{platform}-{devices}")
                os.makedirs(folder, exist_ok=True)
                one = argparse.Namespace(**{**vars(a), "devices": devices})
                make(one, python, target, platform, folder)
                share, strange = compare_states.compare(one, {platform: folder})
                equal = share[platform]
            print(f"{platform}, {devices} devices: {equal:.1f}%", flush=True)
            good = good and equal >= LEAST[platform, devices] and not strange
    if not (a.files or a.only or a.kind or a.all):
        sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
