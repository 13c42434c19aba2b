"""Hilo beside XLA, on the same files in the same run.

  bench.py [--hilo PROGRAM] [--json] [--only TEXT] [--repeats N] [FILE...]

Reading and printing: `hilo bench print FILE --json` against jaxlib's hlo_module_from_text and to_string,
best of N, both from and to memory. Then what a whole process costs (start to end, peak memory): `hilo check` of
a model, `hilo run` of a small program against the same through JAX. Files: by default every model in
HILO_CORPUS/models (../shared/corpus), else the fixtures.
"""
import argparse
import glob
import json
import math
import os
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
CORPUS = os.environ.get("HILO_CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")


def default_files():
    models = sorted(glob.glob(os.path.join(CORPUS, "models", "*.hlo")))
    return models or sorted(glob.glob(os.path.join(ROOT, "tests", "fixtures", "*", "before.hlo")))


def best_ms(fn, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = fn()
        del result
        times.append((time.perf_counter() - start) * 1e3)
    return min(times)


def xla_times(path, repeats):
    from jaxlib import _hlo

    with open(path) as f:
        text = f.read()
    module = _hlo.hlo_module_from_text(text)
    return {
        "parse_ms": best_ms(lambda: _hlo.hlo_module_from_text(text), repeats),
        "print_ms": best_ms(module.to_string, repeats),
    }


def hilo_times(hilo, path):
    done = subprocess.run([hilo, "bench", "print", path, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")
    return json.loads(done.stdout)[0]


def process(command, repeats=5):
    """Best wall time in ms and peak memory in MiB of a whole process (bench/cost.c)."""
    cost = os.path.join(ROOT, "build", "bench", "cost")
    rows = [json.loads(subprocess.run([cost, *command], capture_output=True, check=True).stdout) for _ in range(repeats)]
    return min(rows, key=lambda row: row["wall_ms"]) | {"peak_mib": max(row["peak_mib"] for row in rows)}


def process_rows(hilo):
    rows = {"hilo --version": process([hilo, "--version"])}
    mobilenet = os.path.join(CORPUS, "models", "mobilenet_v2.hlo")
    if os.path.exists(mobilenet):
        rows["hilo check mobilenet_v2.hlo"] = process([hilo, "check", mobilenet])
    sigmoid = os.path.join(CORPUS, "jax", "sigmoid")
    if os.path.exists(sigmoid):
        replay = [os.path.join(sigmoid, "before.hlo"), "--args", os.path.join(sigmoid, "args.npz"),
                  "--expect", os.path.join(sigmoid, "results.npz")]
        rows["hilo run sigmoid"] = process([hilo, "run", "--reference=none", *replay])
        jax = "import jax, jax.numpy as jnp; print(jax.jit(lambda x: 1 / (1 + jnp.exp(-x)))(jnp.float32(0.5)))"
        rows["jax: the same function"] = process([sys.executable, "-c", jax], repeats=3)
    return rows


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def measure(args):
    rows = []
    for path in args.files or default_files():
        if args.only and args.only not in path:
            continue
        row = {"file": os.path.relpath(path, CORPUS if path.startswith(CORPUS) else ROOT), "bytes": os.path.getsize(path)}
        try:
            row["xla"] = xla_times(path, args.repeats)
            row["hilo"] = hilo_times(args.hilo, path)
            for what in ("parse", "print"):
                row[f"{what}_ratio"] = row["xla"][f"{what}_ms"] / row["hilo"][f"{what}_ms"]
        except Exception as problem:  # a file that one of the two cannot read is a row, not the end
            row["problem"] = str(problem).splitlines()[0][:100]
        rows.append(row)
        if not args.json:
            show(row)
    return rows


def show(row):
    name = os.path.basename(row["file"])[:48]
    if "problem" in row:
        print(f"{name:48} {row['bytes'] / 1024:8.0f}  {row['problem']}", flush=True)
        return
    xla, hilo = row["xla"], row["hilo"]
    print(f"{name:48} {row['bytes'] / 1024:8.0f} {xla['parse_ms']:9.2f} {hilo['parse_ms']:9.3f} {row['parse_ratio']:7.1f}x"
          f" {xla['print_ms']:9.2f} {hilo['print_ms']:9.3f} {row['print_ratio']:7.1f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hilo", default=os.path.join(ROOT, "build", "hilo"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", help="files whose path holds this text")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    if not args.json:
        print(f"{'file':48} {'KiB':>8} {'XLA parse':>9} {'Hilo':>9} {'ratio':>8} {'XLA print':>9} {'Hilo':>9} {'ratio':>8}   (ms)")
    rows = measure(args)
    means = {what: geometric_mean([r[f"{what}_ratio"] for r in rows if f"{what}_ratio" in r]) for what in ("parse", "print")}
    processes = process_rows(args.hilo)
    if args.json:
        json.dump({"files": rows, "geometric_mean": means, "processes": processes}, sys.stdout, indent=1)
        print()
        return
    print(f"geometric mean: parse {means['parse']:.1f}x, print {means['print']:.1f}x")
    for name, row in processes.items():
        print(f"{name:34} {row['wall_ms']:10.1f} ms {row['peak_mib']:8.1f} MiB" + (f"  exit {row['status']}" if row["status"] else ""))


if __name__ == "__main__":
    main()
