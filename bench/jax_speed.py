"""JAX on Hilo beside JAX on XLA:CPU: whole processes in alternating pairs, and loops inside processes.

  jax_speed.py [--pairs N] [--python PYTHON] [--library libpjrt_hilo.so] [--quick] [TASK...]

    start     a process: import jax, first result of a small jit              ms
    dispatch  jnp.add of small arrays, op by op                               us a call
    call      a small jitted function                                         us a call
    first     the first call of a fresh small jit: trace, lower, compile, run ms
    compile   compiling alone of the same                                     ms
    mlp, cnn, lm   a process that trains 200 steps                            s
    calls     memory that 10^5 calls of a jitted function add                 MiB
    compiles  memory that the second half of 10^4 distinct compilations adds  MiB

Each line has the median of each backend, the processor's time beside the wall's for processes, and the median of the pairs'
ratios: above 1 Hilo is faster. The package is imported from the source tree, unless it is installed.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITS = {"start": "ms", "dispatch": "us", "call": "us", "first": "ms", "compile": "ms", "mlp": "s", "cnn": "s", "lm": "s",
         "calls": "MiB", "compiles": "MiB"}
PROCESSES = {"start": 1e3, "mlp": 1, "cnn": 1, "lm": 1}  # whole processes: a second in their unit


# --- In the process that is measured --------------------------------------------------------------


def rss():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / 2**20


def best(f, n, rounds):
    """Microseconds a call: the least of the rounds', which other work disturbs least."""
    least = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(n):
            out = f()
        out.block_until_ready()
        least = min(least, time.perf_counter() - begin)
    return least / n * 1e6


def start(quick):
    import jax
    import jax.numpy as jnp
    import numpy as np
    jax.jit(lambda x: jnp.tanh(x) * 2)(np.ones(8, np.float32)).block_until_ready()


def dispatch(quick):
    import jax.numpy as jnp
    x, y = jnp.ones((8, 8)), jnp.ones((8, 8))
    return best(lambda: jnp.add(x, y), 200, 10 if quick else 50)


def call(quick):
    import jax
    import jax.numpy as jnp
    f, x = jax.jit(lambda x: jnp.tanh(x @ x) + 1), jnp.ones((8, 8))
    return best(lambda: f(x), 200, 10 if quick else 50)


def fresh(k):
    """A function of its own each time, so that no cache has it."""
    import jax.numpy as jnp
    return lambda x, w: jnp.sum(jnp.tanh(x @ w + k) ** 2, axis=0) / (k + 1.5)


def first(quick):
    import jax
    import jax.numpy as jnp
    x, w = jnp.ones((16, 8)), jnp.ones((8, 4))
    times = []
    for k in range(10 if quick else 40):
        begin = time.perf_counter()
        jax.jit(fresh(k))(x, w).block_until_ready()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:]) * 1e3


def compile(quick):  # pylint: disable=redefined-builtin
    import jax
    import jax.numpy as jnp
    x, w = jnp.ones((16, 8)), jnp.ones((8, 4))
    times = []
    for k in range(10 if quick else 40):
        lowered = jax.jit(fresh(k)).lower(x, w)
        begin = time.perf_counter()
        lowered.compile()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:]) * 1e3


def mlp(quick):
    import jax
    import jax.numpy as jnp
    import numpy as np
    random = np.random.default_rng(0)
    sizes = (64, 256, 256, 10)
    params = [(random.normal(size=(n, m)).astype(np.float32) / n**0.5, np.zeros(m, np.float32))
              for n, m in zip(sizes, sizes[1:])]
    x, label = random.normal(size=(128, 64)).astype(np.float32), random.integers(0, 10, 128)

    def loss(params):
        h = x
        for w, b in params[:-1]:
            h = jax.nn.relu(h @ w + b)
        w, b = params[-1]
        return -jnp.take_along_axis(jax.nn.log_softmax(h @ w + b), label[:, None], axis=1).mean()

    @jax.jit
    def step(params):
        value, grads = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), value

    for _ in range(200):
        params, value = step(params)
    print(f"loss {value:.4f}", file=sys.stderr)


def cnn(quick):
    sys.path.insert(0, str(ROOT / "examples"))
    import cnn_flax
    cnn_flax.STEPS = 200
    sys.stdout = sys.stderr
    cnn_flax.main()


def lm(quick):
    sys.path.insert(0, str(ROOT / "examples"))
    import lm_train
    sys.argv, sys.stdout = ["lm_train.py"], sys.stderr
    lm_train.main()


def calls(quick):
    import jax
    import jax.numpy as jnp
    f, x = jax.jit(lambda x: x * 0.5 + 1), jnp.ones((8, 8))
    for _ in range(2000):
        x = f(x)
    before = rss()
    for _ in range(10**4 if quick else 10**5):
        x = f(x)
    x.block_until_ready()
    return rss() - before


def compiles(quick):
    import jax
    import numpy as np
    x, n, half = np.ones(8, np.float32), 10**3 if quick else 10**4, 0.0
    for k in range(n):
        jax.jit(lambda x, k=k: x * np.float32(k) + 1)(x)
        if k % 100 == 99:
            jax.clear_caches()
        if k == n // 2:
            half = rss()
    return rss() - half


# --- Outside --------------------------------------------------------------------------------------


def environment(args, backend):
    env = dict(os.environ, JAX_PLATFORMS=backend, PYTHONPATH=str(ROOT / "python"))
    if backend == "hilo":
        env["HILO_PJRT_LIBRARY"] = args.library
    return env


def measure(args, task, backend):
    """The figure of a task, and the processor's time."""
    words = [args.python, __file__, "--in-process", task] + ["--quick"] * args.quick
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(words, env=environment(args, backend), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    wall = time.perf_counter() - begin
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{task} on {backend}: {done.stderr[-2000:]}")
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    unit = PROCESSES.get(task)
    return (wall * unit, cpu * unit) if unit else (float(done.stdout), None)


def report(args, task):
    pairs = [[measure(args, task, backend) for backend in ("hilo", "cpu")] for _ in range(args.pairs)]
    (h, hc), (x, xc) = ([[row[k][j] for row in pairs] for j in (0, 1)] for k in (0, 1))
    line = f"{task:9} hilo {statistics.median(h):9.2f} {UNITS[task]:3}  XLA:CPU {statistics.median(x):9.2f} {UNITS[task]:3}"
    if task not in ("calls", "compiles"):
        line += f"  {statistics.median(b / a for a, b in zip(h, x)):6.2f}x"
    if hc[0] is not None:
        ratio = statistics.median(b / a for a, b in zip(hc, xc))
        line += f"   processor {statistics.median(hc):9.2f} {statistics.median(xc):9.2f}  {ratio:6.2f}x"
    print(line, flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--library", default=os.environ.get("HILO_PJRT_LIBRARY", str(ROOT / "build" / "libpjrt_hilo.so")))
    p.add_argument("--quick", action="store_true")
    p.add_argument("--in-process", help=argparse.SUPPRESS)
    p.add_argument("tasks", nargs="*", metavar="TASK", help=", ".join(UNITS))
    args = p.parse_args()
    if args.in_process:
        value = globals()[args.in_process](args.quick)
        print(0 if value is None else value)
        return
    unknown = set(args.tasks) - set(UNITS)
    if unknown:
        p.error(f"no task {', '.join(unknown)}")
    for task in args.tasks or UNITS:
        report(args, task)


if __name__ == "__main__":
    main()
