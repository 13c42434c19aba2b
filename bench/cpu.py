"""Programs of Hilo's CPU backend beside XLA:CPU, in alternating rounds of one run.

  cpu.py [--hilo PROGRAM] [--threads N] [--only TEXT] [--seconds S] [--rounds N] [--cases DIR] [--json] [TABLE...]

Tables, by default all:
  steady      a run of each benchmark program: wall time on N threads, and processor time on one
  models      the same of models, on inputs made up here
  linear      the same of factorisations and triangular systems
  compile     from the bytes of a file to a program that can run, one thread: benchmarks, jax/ programs, models
  memory      bytes of a run of a model: arguments, results, temporaries, as both compilers tell
  process     from the start of a process to the end, with the first result of jax/mlp
  million     a million runs of a small program: time of one, growth of memory
  competitor  programs on all cores, one of which another process keeps busy, beside one core alone

XLA gets processes of its own (xla_worker.py), with as many cores as threads are asked for. Ratios are XLA's time to Hilo's. Benchmark
programs are those of gen_corpus.py, written to --cases (build/bench-cpu) when they are not there; DIR may hold any folders with a
before.hlo and an args.npz.
"""
import argparse
import glob
import json
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
CORPUS = os.environ.get("HILO_CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
MODELS = ["vit.1gpu.jit_predict_step", "resnet50.1gpu.jit_predict_step", "mobilenet_v2", "clip.1gpu.jit_predict_step",
          "resnet50.train.jit_train_step", "vit.train.jit_train_step", "clip.train.jit_train_step"]
TABLES = {}


def table(f):
    TABLES[f.__name__] = f
    return f


# --- The two sides -----------------------------------------------------------------------------------

def cores(n):
    """A function that leaves a new process so many of the cores, the last."""
    usable = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, usable[-n:])


class Xla:
    """XLA in a process of its own, started again after a crash."""

    def __init__(self, threads):
        self.threads, self.process = threads, None

    def ask(self, **request):
        if not self.process or self.process.poll() is not None:
            self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "xla_worker.py")], stdin=subprocess.PIPE, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=cores(self.threads))
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("answer "):
                answer = json.loads(line[7:])
                if "error" in answer:
                    raise RuntimeError("XLA: " + answer["error"])
                return answer
        raise RuntimeError("XLA: crash")

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


class Hilo:
    def __init__(self, program, threads):
        self.program, self.threads = program, threads

    def bench(self, stage, path, *options):
        done = subprocess.run([self.program, "bench", stage, path, "--json", f"--threads={self.threads}", *options],
                              capture_output=True, text=True, preexec_fn=cores(self.threads))
        try:
            row = json.loads(done.stdout)[0]
        except ValueError:
            raise RuntimeError(f"Hilo: exit status {done.returncode}") from None
        if done.returncode:
            raise RuntimeError("Hilo: " + "; ".join(d["text"] for d in row["diagnostics"] if d["severity"] == "error")[:200])
        return row

    def run(self, case, seconds):
        return self.bench("run", case.hlo, "--args", case.args, f"--seconds={seconds}")


# --- Programs ----------------------------------------------------------------------------------------

class Case:
    def __init__(self, name, hlo, args=None):
        self.name, self.hlo, self.args = name, hlo, args


GENERATE = """
import os, sys
sys.path.insert(0, sys.argv[1])
out = sys.argv[2]
sys.argv = ["gen_corpus.py", out, "bench"]
import gen_corpus as g, jax, numpy as np
def attention(q, k, v):
    scores = jax.numpy.einsum("bhtd,bhsd->bhts", q, k) / np.float32(8)
    return jax.numpy.einsum("bhts,bhsd->bhtd", jax.nn.softmax(scores), v)
g.case("bench", "attention_8x8x512x64")(lambda: (attention, tuple(g.f32(8, 8, 512, 64) for _ in range(3))))
for (group, name), (make, _) in g.CASES.items():
    if group != "bench":
        continue
    f, args = make()
    os.makedirs(f"{out}/{name}", exist_ok=True)
    with jax.default_matmul_precision("float32"):
        text = jax.jit(f, keep_unused=True).lower(*args).as_text("hlo")
    np.savez(f"{out}/{name}/args.npz", **{f"a{k}": a for k, a in enumerate(jax.tree_util.tree_leaves(args))})
    with open(f"{out}/{name}/before.hlo", "w") as file:
        file.write(text)
"""


LINEAR = """
import os, sys
import jax, jax.numpy as jnp, numpy as np
from jax.scipy.linalg import solve_triangular
rng = np.random.default_rng(0)
def noise(*shape):
    return rng.standard_normal(shape).astype(np.float32)
def definite(*shape):
    a = noise(*shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1], dtype=np.float32)
def triangle(*shape):
    return np.tril(noise(*shape)) / np.float32(shape[-1]) + np.eye(shape[-1], dtype=np.float32)
def cholesky(a):
    return jnp.linalg.cholesky(a, symmetrize_input=False)
def lu(a):
    return jax.lax.linalg.lu(a)[:2]
def solve(a, b):
    return jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
for size, shape in (("512", (512, 512)), ("1000x8", (1000, 8, 8))):
    for name, f, args in (("cholesky", cholesky, [definite(*shape)]), ("lu", lu, [noise(*shape)]), ("qr", jnp.linalg.qr, [noise(*shape)]),
                          ("solve", solve, [triangle(*shape), noise(*shape)])):
        folder = f"{sys.argv[1]}/{name}_{size}"
        os.makedirs(folder, exist_ok=True)
        np.savez(folder + "/args.npz", **{f"a{k}": a for k, a in enumerate(args)})
        with open(folder + "/before.hlo", "w") as file:
            file.write(jax.jit(f).lower(*args).as_text("hlo"))
"""


def folders(path):
    return [Case(os.path.basename(d), os.path.join(d, "before.hlo"), os.path.join(d, "args.npz"))
            for d in sorted(glob.glob(path + "/*")) if os.path.exists(os.path.join(d, "args.npz"))]


def bench_cases(a):
    if not folders(a.cases):
        tools = os.path.join(CORPUS, "..", "tools")
        subprocess.run([sys.executable, "-c", GENERATE, tools, a.cases], check=True, env=dict(os.environ, JAX_PLATFORMS="cpu"))
    return [c for c in folders(a.cases) if a.only in c.name]


def model_cases(a):
    paths = [os.path.join(CORPUS, "models", name + ".hlo") for name in MODELS]
    return [Case(os.path.basename(p)[:-4], p) for p in paths if os.path.exists(p) and a.only in p]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def problem_row(a, case, problem):
    if not a.json:
        print(f"{case.name:40} {problem}", flush=True)
    return {"program": case.name, "problem": str(problem)}


def summary(a, what, ratios):
    if ratios and not a.json:
        capped = geometric_mean([min(r, 3) for r in ratios])
        print(f"{what}: geometric mean of {len(ratios)} {geometric_mean(ratios):.2f}x, gains capped at 3x {capped:.2f}x, "
              f"the least {min(ratios):.2f}x")


# --- Tables ------------------------------------------------------------------------------------------

def shares(stats):
    """Which kinds of steps take most of a run: "tile 60% dot 40%"."""
    if stats["interpreted_whole"]:
        return "interpreted: " + stats["interpreted_whole"]
    kinds = sorted(stats["kinds"], key=lambda k: -k["ms"])
    whole = sum(k["ms"] for k in kinds) or 1
    return " ".join(f"{k['kind']}{' ' + k['op'] if 'op' in k else ''} {100 * k['ms'] / whole:.0f}%" for k in kinds[:4]
                    if k["ms"] > .03 * whole)


def side_by_side(a, case, threads):
    """Least milliseconds of both: {"xla_ms", "hilo_ms", "xla_cpu_ms", "hilo_cpu_ms", "stats"}."""
    xla, hilo, row = a.xla[threads], Hilo(a.hilo, threads), {}
    xla.ask(load=case.hlo, args=case.args)
    for _ in range(a.rounds):
        theirs, ours = xla.ask(run=a.seconds), hilo.run(case, a.seconds)
        for key, value in (("xla_ms", theirs["wall_s"] * 1e3), ("xla_cpu_ms", theirs["cpu_s"] * 1e3), ("hilo_ms", ours["run_ms"]),
                           ("hilo_cpu_ms", ours["cpu_ms"])):
            row[key] = min(value, row.get(key, math.inf))
        row["stats"] = ours["stats"]
    return row


def steady_row(a, case):
    try:
        alone = side_by_side(a, case, 1)
        shared = side_by_side(a, case, a.threads) if a.threads > 1 else alone
    except RuntimeError as problem:
        return problem_row(a, case, problem)
    row = {"program": case.name, "threads": a.threads, "ratio": shared["xla_ms"] / shared["hilo_ms"],
           "cpu_ratio_1t": alone["xla_cpu_ms"] / alone["hilo_cpu_ms"], "alone": alone, "shared": shared}
    if not a.json:
        print(f"{case.name:40} {shared['xla_ms']:10.3f} {shared['hilo_ms']:10.3f} {row['ratio']:7.2f}x   "
              f"{alone['xla_cpu_ms']:10.3f} {alone['hilo_cpu_ms']:10.3f} {row['cpu_ratio_1t']:7.2f}x  {shares(alone['stats'])}", flush=True)
    return row


def steady_table(a, cases):
    if not a.json:
        print(f"{'':40} {f'{a.threads}T: XLA':>10} {'Hilo ms':>10} {'ratio':>8}   {'1T CPU: XLA':>10} {'Hilo':>9} {'ratio':>8}  steps of one thread")
    rows = [steady_row(a, case) for case in cases]
    for what, key in ((f"{a.threads} threads", "ratio"), ("processor time of one", "cpu_ratio_1t")):
        summary(a, what, [r[key] for r in rows if key in r])
    return rows


@table
def steady(a):
    return steady_table(a, bench_cases(a))


@table
def models(a):
    cases = model_cases(a)
    for case in cases:
        case.args = os.path.join(a.cases, "..", "bench-models", case.name + ".npz")
        if os.path.exists(case.args):
            continue
        os.makedirs(os.path.dirname(case.args), exist_ok=True)
        try:
            a.xla[1].ask(load=case.hlo, args=None)
            a.xla[1].ask(inputs=case.args)
        except RuntimeError as problem:
            problem_row(a, case, problem)
    return steady_table(a, [case for case in cases if os.path.exists(case.args)])


@table
def linear(a):
    path = os.path.join(a.cases, "..", "bench-linear")
    if not folders(path):
        subprocess.run([sys.executable, "-c", LINEAR, path], check=True, env=dict(os.environ, JAX_PLATFORMS="cpu"))
    return steady_table(a, [c for c in folders(path) if a.only in c.name])


def compile_row(a, case):
    row = {"program": case.name}
    try:
        for _ in range(a.rounds):
            theirs = a.xla[1].ask(load=case.hlo, args=None)
            ours = Hilo(a.hilo, 1).bench("compile", case.hlo, f"--seconds={a.seconds}")
            for key, value in (("xla_ms", theirs["compile_s"] * 1e3), ("xla_cpu_ms", theirs["compile_cpu_s"] * 1e3),
                               ("hilo_ms", ours["compile_ms"]), ("hilo_cpu_ms", ours["cpu_ms"])):
                row[key] = min(value, row.get(key, math.inf))
            if row["xla_cpu_ms"] > 3000:
                break
    except RuntimeError as problem:
        return problem_row(a, case, problem)
    row |= {"ratio": row["xla_ms"] / row["hilo_ms"], "cpu_ratio": row["xla_cpu_ms"] / row["hilo_cpu_ms"]}
    if not a.json:
        print(f"{case.name:40} {row['xla_ms']:10.2f} {row['hilo_ms']:10.3f} {row['ratio']:7.1f}x   "
              f"{row['xla_cpu_ms']:10.2f} {row['hilo_cpu_ms']:10.3f} {row['cpu_ratio']:7.1f}x", flush=True)
    return row


@table
def compile(a):
    if not a.json:
        print(f"{'compile':40} {'XLA ms':>10} {'Hilo ms':>10} {'ratio':>8}   {'CPU: XLA':>10} {'Hilo':>10} {'ratio':>8}")
    cases = bench_cases(a) + [c for c in folders(os.path.join(CORPUS, "jax")) if a.only in c.name] + model_cases(a)
    rows = [compile_row(a, case) for case in cases]
    for what, key in (("compile", "ratio"), ("processor time", "cpu_ratio")):
        summary(a, what, [r[key] for r in rows if key in r])
    return rows


@table
def memory(a):
    rows = []
    if not a.json:
        print(f"{'memory':40} {'XLA bytes':>14} {'Hilo bytes':>14} {'of XLA':>7}   temporaries")
    for case in model_cases(a):
        try:
            x = a.xla[1].ask(load=case.hlo, args=None)["memory"]
            h = Hilo(a.hilo, 1).bench("compile", case.hlo, "--repeats=1")["stats"]
        except RuntimeError as problem:
            rows.append(problem_row(a, case, problem))
            continue
        theirs = x["argument"] + x["output"] - x["alias"] + x["temp"]
        ours = h["argument_bytes"] + h["result_bytes"] - h["aliased_bytes"] + h["temporary_bytes"]
        rows.append({"program": case.name, "xla_bytes": theirs, "hilo_bytes": ours, "ratio": ours / theirs, "xla": x, "hilo": h})
        if not a.json:
            print(f"{case.name:40} {theirs:14} {ours:14} {ours / theirs:7.4f}   {x['temp']}, {h['temporary_bytes']}", flush=True)
    return rows


def mlp():
    folder = os.path.join(CORPUS, "jax", "mlp")
    return Case("mlp", os.path.join(folder, "before.hlo"), os.path.join(folder, "args.npz"))


@table
def process(a):
    cost = os.path.join(os.path.dirname(os.path.abspath(a.hilo)), "bench", "cost")
    command = [cost, a.hilo, "run", "--platform=cpu", "--reference=none", mlp().hlo, "--args", mlp().args, "--print"]
    rows = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(20)]
    best = {"wall_ms": min(r["wall_ms"] for r in rows), "peak_mib": max(r["peak_mib"] for r in rows), "status": rows[0]["status"]}
    if not a.json:
        print(f"a process that compiles and runs jax/mlp: {best['wall_ms']:.2f} ms, {best['peak_mib']:.1f} MiB, exit {best['status']}")
    return [best]


@table
def million(a):
    row = Hilo(a.hilo, 1).bench("run", mlp().hlo, "--args", mlp().args, "--repeats=1000000")
    small = Hilo(a.hilo, 1).bench("run", os.path.join(CORPUS, "jax", "sigmoid", "before.hlo"), "--repeats=1000000")
    for name, r in (("jax/mlp", row), ("jax/sigmoid", small)):
        if not a.json:
            print(f"10^6 runs of {name}: {r['run_median_ms'] * 1e3:.2f} us a run, {r['growth_bytes']} bytes more")
    return [{"program": name, "us": r["run_median_ms"] * 1e3, "growth_bytes": r["growth_bytes"]}
            for name, r in (("mlp", row), ("sigmoid", small))]


@table
def competitor(a):
    rows, all_cores = [], len(os.sched_getaffinity(0))
    for case in [c for c in bench_cases(a) if a.only or c.name in ("matmul_2048", "softmax_4096x1024", "transformer_block_8x128x512",
                                                                     "saxpy_16m", "lstm_scan_64x64x256")]:
        alone = beside = math.inf
        for _ in range(a.rounds):
            alone = min(alone, Hilo(a.hilo, 1).run(case, a.seconds)["run_median_ms"])
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=cores(1))
            try:
                beside = min(beside, Hilo(a.hilo, all_cores).run(case, a.seconds)["run_median_ms"])
            finally:
                busy.kill()
                busy.wait()
        rows.append({"program": case.name, "alone_ms": alone, "beside_ms": beside, "ratio": beside / alone})
        if not a.json:
            print(f"{case.name:40} one core alone {alone:9.3f} ms, {all_cores} with one of them busy {beside:9.3f} ms: {beside / alone:.2f}x",
                  flush=True)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hilo", default=os.environ.get("HILO", os.path.join(ROOT, "build", "hilo")))
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--only", default="", help="programs whose name holds this text")
    p.add_argument("--seconds", type=float, default=0.4, help="of each side in a round")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--cases", default=os.path.join(ROOT, "build", "bench-cpu"))
    p.add_argument("--json", action="store_true")
    p.add_argument("tables", nargs="*", metavar="TABLE", choices=[[], *TABLES])
    a = p.parse_args()
    a.xla = {n: Xla(n) for n in {1, a.threads}}
    rows = {name: TABLES[name](a) for name in a.tables or TABLES}
    for xla in a.xla.values():
        xla.end()
    if a.json:
        json.dump(rows, sys.stdout, indent=1)
        print()


main()
