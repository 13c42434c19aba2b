"""Profiles as jax.profiler writes them: an op's time is the same from *.xplane.pb and from *.trace.json.gz, and is what a run took.

A sort on XLA:CPU is two kernels of one name: both are in its time. A loop's time is what its body does not take.
"""
import glob, gzip, json, os, subprocess, sys, tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp

HILO = os.environ.get("HILO", "build/hilo")


@jax.jit
def step(x, w):
    x = jnp.tanh(jnp.sort(x, axis=0) @ w)
    x = jax.lax.fori_loop(0, 5, lambda k, y: jnp.sin(y @ w) + k, x)
    return jnp.sort(x, axis=1)


def simulate(program, profile):
    done = subprocess.run([HILO, "sim", "--system=ethernet-2", "--json", f"--profile={profile}", program],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0]


def main():
    x, w = jnp.ones((300, 300)), jnp.ones((300, 300)) / 300
    compiled = step.lower(x, w).compile()
    compiled(x, w)[0].block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/step.hlo"
        with open(program, "w") as f:
            f.write(compiled.as_text())
        with jax.profiler.trace(folder):
            for _ in range(5):
                compiled(x, w).block_until_ready()
        (space,), (trace,) = (glob.glob(f"{folder}/**/*{end}", recursive=True) for end in (".xplane.pb", ".trace.json.gz"))
        a, b = simulate(program, space), simulate(program, trace)
        steps = {p["step"]: p["seconds"] for p in a["critical_path"]}
        others = {p["step"]: p["seconds"] for p in b["critical_path"]}
        assert a["steps"] == b["steps"] and len(steps) > 3, (a["steps"], len(steps))
        for name, seconds in steps.items():  # JSON has whole nanoseconds
            assert abs(others[name] - seconds) <= 1e-8, (name, seconds, others[name])
        sorts = [p for p in a["critical_path"] if p["what"] == "sort"]
        events = [e for e in json.load(gzip.open(trace))["traceEvents"] if "hlo_op" in e.get("args", {})]
        kernels = 0
        for p in sorts:
            of = [e for e in events if e["args"]["hlo_op"] == p["step"]]
            per_run = {}
            kernels = max(kernels, len(of) // 5)
            for e in of:
                per_run[e["args"]["run_id"]] = per_run.get(e["args"]["run_id"], 0) + e["dur"]
            middle = sorted(per_run.values())[len(per_run) // 2]
            assert len(per_run) == 5 and abs(1e6 * p["seconds"] - middle) <= 0.01, (p, per_run)
        assert len(sorts) == 2 and kernels == 2, a["critical_path"]
        print(f"profile: {len(steps)} steps, {len(sorts)} sorts of up to {kernels} kernels, {1e3 * a['seconds']:.2f} ms in both")


if __name__ == "__main__":
    sys.exit(main())
