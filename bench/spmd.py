"""What hilo's partitioner has devices exchange, beside XLA's: collectives and the bytes that a device receives.

  spmd.py [--hilo PROGRAM] [--random N] [--seed N] [--no-tests] [--check] [--keep DIR] [-v] [FILE.hlo...]

The programs are those of tests/xla/compare_spmd.py, FILEs for 8 devices (HLO as JAX hands it to XLA), and N programs of
HILO_CORPUS/jax, each with a random mesh of 8 devices and random shardings of its arguments. jaxlib compiles them on 8 virtual
devices; hilo partitions what XLA's partitioner got. --check runs both results in the interpreter, with equal results.

A device receives, of n that take part: n - 1 parts of an all-gather, 2 (n-1)/n of an all-reduce, (n-1)/n of an all-to-all or of
what a reduce-scatter reads, all of a permute. What a loop does counts as often as it goes round, where a constant says that.
"""
import argparse
import glob
import os
import random
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "xla"))
import compare_spmd  # noqa: E402
import oracle        # noqa: E402

DEVICES = 8
MESHES = ((8,), (4, 2), (2, 4), (2, 2, 2))


# --- What is exchanged ---------------------------------------------------------------------------------------

COLLECTIVE = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = (.*?) "
                        r"(all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter|collective-broadcast)\(")
CALL = re.compile(r"(?:to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)|branch_computations=\{([^}]*)\}")
LOOP = re.compile(r" while\(.*condition=%?([\w.\-]+), body=%?([\w.\-]+)")
BYTES = dict(pred=1, s4=1, u4=1, s8=1, u8=1, s16=2, u16=2, f16=2, bf16=2, s32=4, u32=4, f32=4, s64=8, u64=8, f64=8, c64=8, c128=16)


def bytes_of(shape):
    total = 0
    for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", shape):
        size = BYTES.get(dtype, 1)
        for dim in filter(None, dims.split(",")):
            size *= int(dim)
        total += size
    return total


def group_size(line):
    """Of how many devices a collective's groups are."""
    if lists := re.search(r"replica_groups=\{\{([\d,]*)\}", line):
        return lists[1].count(",") + 1
    if iota := re.search(r"replica_groups=\[\d+,(\d+)\]", line):
        return int(iota[1])
    if mesh := re.search(r"replica_groups=mesh\[([^\]]*)\].*?\{('[^}]*)\}", line):
        size = {name: int(n) for name, n in re.findall(r"'([^']*)'=(\d+)", mesh[1])}
        product = 1
        for name, part in re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", mesh[2]):
            product *= int(part) if part else size[name]
        return product
    return DEVICES


def received(op, shape, line):
    size, n = bytes_of(shape), group_size(line)
    if op == "collective-permute":
        return size
    return size * {"all-reduce": 2 * (n - 1) / n, "all-gather": (n - 1) / n, "all-to-all": (n - 1) / n, "reduce-scatter": n - 1,
                   "collective-broadcast": 1}[op]


def exchanged(path):
    """(collectives, bytes that a device receives in a run) of a partitioned program."""
    comps, entry, lines = {}, None, None
    with open(path) as f:
        for line in f:
            if head := re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line):
                lines = comps.setdefault(head[2], [])
                entry = head[2] if head[1] else entry
            elif lines is not None:
                lines.append(line)

    def goes_round(condition):
        sizes = [int(n) for line in comps.get(condition, ()) for n in re.findall(r"[su]\d+\[\]\S* constant\((\d+)\)", line)]
        return max(sizes, default=1) or 1

    done = {}

    def count(comp):
        if comp not in done:
            done[comp] = (0, 0.0)
            n, size = 0, 0.0
            for line in comps.get(comp, ()):
                called = [(name.strip().lstrip("%"), 1) for a, b in CALL.findall(line) for name in (a or b).split(",")]
                if loop := LOOP.search(line):
                    called += [(loop[1], 1), (loop[2], goes_round(loop[1]))]
                if found := COLLECTIVE.match(line):
                    n, size = n + 1, size + received(found[2], found[1], line)
                for name, times in called:
                    more = count(name)
                    n, size = n + more[0], size + times * more[1]
            done[comp] = (n, size)
        return done[comp]

    return count(entry)


# --- Programs --------------------------------------------------------------------------------------------------


def arguments(line):
    """Places and dimensions of the arguments in the first line of an MLIR function."""
    for found in re.finditer(r"%arg\d+: tensor<((?:\d+x)*)\w+(?:<\w+>)?>", line.partition("->")[0]):
        yield found, [int(n) for n in found[1].split("x") if n]


def random_sharding(rng, dims, mesh):
    """One of Shardy's: each axis of the mesh cuts at most one dimension, which it divides."""
    axes = [[] for _ in dims]
    left = list(dims)
    for k in rng.sample(range(len(mesh)), len(mesh)):
        fits = [d for d in range(len(dims)) if left[d] % mesh[k] == 0 and left[d] > 0]
        if fits and rng.random() < 0.7:
            d = rng.choice(fits)
            axes[d].append(k)
            left[d] //= mesh[k]
    return "<@mesh, [" + ", ".join("{" + ", ".join(f'"a{k}"' for k in cut) + "}" for cut in axes) + "]>"


def random_program(rng, source, name, out):
    """The program with another name, a mesh and shardings, written to `out`."""
    text = open(source).read()
    mesh = rng.choice(MESHES)
    text = re.sub(r"^module @\S+ attributes \{[^}]*\}", f"module @{name} attributes {{mhlo.num_partitions = {DEVICES} : i32, "
                  "mhlo.num_replicas = 1 : i32}", text, count=1, flags=re.M)
    head = re.search(r"^.*func\.func public @main.*$", text, re.M)
    line, at, new = head[0], 0, ""
    for place, dims in arguments(line):
        comma = line[place.end():].startswith(" {")
        attribute = f"sdy.sharding = #sdy.sharding{random_sharding(rng, dims, mesh)}"
        new += line[at:place.end()] + (f" {{{attribute}, " if comma else f" {{{attribute}}}")
        at = place.end() + (2 if comma else 0)
    axes = ", ".join(f'"a{k}"={size}' for k, size in enumerate(mesh))
    text = text[:head.start()] + f"  sdy.mesh @mesh = <[{axes}]>\n" + new + line[at:] + text[head.end():]
    with open(out, "w") as f:
        f.write(text)


def random_programs(n, seed, folder):
    sources = sorted(glob.glob(oracle.corpus() + "/jax/*/program.mlir"))
    rng = random.Random(seed)
    paths = []
    for k in range(n):
        source = sources[k % len(sources)]
        name = f"{os.path.basename(os.path.dirname(source))}_{seed + k}"
        paths.append(os.path.join(folder, name + ".mlir"))
        random_program(rng, source, name, paths[-1])
    return paths


# --- XLA ---------------------------------------------------------------------------------------------------------


def compile_files(folder, paths):
    """Has jaxlib compile them and dump what stands around its partitioner; says which one it is at."""
    os.environ["XLA_FLAGS"] = (f"--xla_force_host_platform_device_count={DEVICES} --xla_dump_hlo_pass_re=spmd-partitioning"
                               " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
                               f" --xla_dump_to={folder}")
    import jax
    import numpy as np
    from jax._src.lib import xla_client as xc
    from jaxlib import _hlo, _jax

    for path in paths:
        print(path, flush=True)
        text = open(path).read()
        if path.endswith(".mlir"):
            from jax._src.interpreters import mlir
            from jax._src.lib.mlir import ir
            with mlir.make_ir_context():
                module = mlir.module_to_bytecode(ir.Module.parse(text))
        else:
            proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
            module = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))
        options = xc.CompileOptions()
        options.num_partitions, options.num_replicas = DEVICES, 1
        build = options.executable_build_options
        build.num_partitions, build.num_replicas = DEVICES, 1
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = "sdy" in text
        build.allow_spmd_sharding_propagation_to_output = [True]
        options.device_assignment = xc.DeviceAssignment.create(np.arange(DEVICES, dtype=np.int32).reshape(1, DEVICES))
        try:
            jax.devices()[0].client.compile_and_load(module, _jax.DeviceList(tuple(jax.devices())), options)
        except Exception as e:
            print(f"{path}: {str(e).splitlines()[0][:200]}", file=sys.stderr, flush=True)


def compile_all(folder, paths):
    """The same in processes that may die: the next one goes on behind the program that killed the last."""
    while paths:
        p = subprocess.run([sys.executable, os.path.abspath(__file__), "--compile", folder, *paths], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
        sys.stderr.writelines(line + "\n" for line in p.stderr.splitlines() if line.startswith(folder))
        at = p.stdout.split()
        if p.returncode == 0 or not at:
            return
        print(f"{at[-1]}: XLA ended with {p.returncode}", file=sys.stderr)
        paths = paths[paths.index(at[-1]) + 1:]


# --- Comparison ----------------------------------------------------------------------------------------------------


def states(folder):
    """(name, before, after) of each program that XLA partitioned."""
    for before in sorted(glob.glob(folder + "/*before_spmd-partitioning*")):
        module, name = re.match(r"(module_\d+\.(?:jit_)?(.*?))\.\d{4}\.", os.path.basename(before)).groups()
        after = glob.glob(f"{folder}/{module}.*after_spmd-partitioning*")
        if after:
            yield name, before, after[0]


def compare(a, name, before, after, folder):
    """(ours, theirs), each collectives and bytes; None where hilo fails."""
    mine = os.path.join(folder, name + ".ours.hlo")
    p = subprocess.run([a.hilo, "opt", "--passes=spmd-partitioning", before, "-o", mine], capture_output=True, text=True)
    if p.returncode:
        print(f"FAIL {name}: {p.stderr.splitlines()[:2]}")
        return None
    if a.check and name not in compare_spmd.WRONG and not name.startswith("einsum"):
        why = compare_spmd.same_results(after, mine, folder, 60)
        if why:
            print(f"DIFFERENT {name}: {why}")
    return exchanged(mine), exchanged(after)


def report(a, folder):
    rows = []
    for name, before, after in states(folder):
        if both := compare(a, name, before, after, folder):
            rows.append((name, *both))
    no_more_bytes = no_more = 0
    total = [0.0, 0.0]
    for name, ours, theirs in sorted(rows, key=lambda row: row[2][1] - row[1][1]):
        less = ours[1] <= theirs[1] + 0.5
        fewer = ours[0] <= theirs[0]
        no_more_bytes += less
        no_more += fewer
        total = [total[0] + ours[1], total[1] + theirs[1]]
        if a.verbose or not less or not fewer:
            print(f"{name:36} collectives {ours[0]:4} XLA {theirs[0]:4}   bytes {ours[1]:14.0f} XLA {theirs[1]:14.0f}"
                  f"{'' if less else '  MORE BYTES'}{'' if fewer else '  more collectives'}")
    n = len(rows) or 1
    print(f"{len(rows)} programs: no more bytes in {no_more_bytes} ({100 * no_more_bytes / n:.1f}%), "
          f"no more collectives in {no_more} ({100 * no_more / n:.1f}%); {total[0]:.6g} bytes in all, XLA {total[1]:.6g}")


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "--compile":
        compile_files(sys.argv[2], sys.argv[3:])
        return
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="*", metavar="FILE.hlo")
    p.add_argument("--hilo", default=oracle.hilo())
    p.add_argument("--random", type=int, default=0, metavar="N", help="random meshes and shardings of the corpus' programs")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--no-tests", action="store_true", help="not the programs of compare_spmd.py")
    p.add_argument("--check", action="store_true", help="run what both made of each, too")
    p.add_argument("--keep", metavar="DIR", help="keep XLA's dumps there; those of an earlier run are not made again")
    p.add_argument("-v", "--verbose", action="store_true", help="all programs, not only those in which hilo sends more")
    a = p.parse_args()
    oracle.need_jax()
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.abspath(a.keep) if a.keep else scratch
        os.makedirs(folder, exist_ok=True)
        if not glob.glob(folder + "/*before_spmd-partitioning*"):
            if not a.no_tests:
                subprocess.run([sys.executable, compare_spmd.__file__, "--compile", folder], check=True, stderr=subprocess.DEVNULL)
            compile_all(folder, [os.path.abspath(f) for f in a.files] + random_programs(a.random, a.seed, folder))
        report(a, folder)


if __name__ == "__main__":
    main()
