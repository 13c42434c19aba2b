"""Runs the corpus' programs with hilo and compares the results with the ones XLA:CPU gave.

  compare_run.py [--files GLOB] [--on=OPTIONS]... [--no-snapshots] [--only-snapshots] [--timeout S]

jax/*, newest/jax/*: the program in each of its forms (FORMS) on args.npz; the results saved must be those of results.npz (compared
here, with NumPy) and hilo itself must say so (exit status 0). jax_tests/*: each snapshot brings its arguments and
result; hilo must exit 0. All of it on the interpreter, compiled, and compiled without machine code, or with --on=OPTIONS of
hilo run. The rule: |a - e| <= T*max(1, max|e|) + 10*T*|e|, nan equals nan, T from meta.json.
"""
import json
import os
import re
import tempfile

import oracle

PLATFORMS = ("--platform=reference", "--platform=cpu", "--platform=cpu --no-emit")
FORMS = ("before.hlo", "after.hlo", "module.hlo.pb", "program.mlir", "program.mlirbc", "program.jaxpr")

# Snapshots whose recorded result rests on what XLA:CPU does beside HLO's meaning.
DIFFERENT = {
    "jax_tests/lax_numpy_test/0382.jit__interp.snapshot.pb":
        "XLA:CPU flushes denormals, so that its search finds a denormal equal to zero; the indices differ, the values do not",
}


def differs(got, want, tol):
    """None, or how the arrays differ."""
    import numpy as np
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    if want.dtype.kind in "biu" or got.dtype.kind in "biu":
        bad = got != want if got.dtype.kind != "b" else got != want.astype(bool)
    else:
        wide = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
        a, e = got.astype(wide), want.astype(wide)
        size = np.abs(e)
        top = size[np.isfinite(size)].max(initial=1.0)
        with np.errstate(all="ignore"):
            near = np.abs(a - e) <= tol * top + 10 * tol * size
        near &= np.isfinite(e)                    # an infinity has no neighbours
        bad = ~(near | (a == e) | (np.isnan(a) & np.isnan(e)))
    if not bad.any():
        return None
    i = tuple(int(x) for x in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size} elements differ, first {list(i)}: {got[i]}, expected {want[i]}"


def jax_case(t, root, path, on, a, tmp):
    import numpy as np
    name, d = os.path.relpath(path, root), os.path.dirname(path)
    with open(os.path.join(d, "meta.json")) as f:
        tol = json.load(f)["tolerance"]
    save = os.path.join(tmp, re.sub(r"[/ =]", "_", name + on) + ".npz")
    rc, out, err = oracle.run_hilo(
        ["run", path, *on.split(), "--args", os.path.join(d, "args.npz"), "--expect",
         os.path.join(d, "results.npz"), "--tolerance", str(tol), "--save", save], a.timeout)
    why = [] if rc == 0 else [oracle.status_text(rc, err or out.decode(errors="replace"))]
    want = np.load(os.path.join(d, "results.npz"))
    if os.path.exists(save):
        got = np.load(save)
        for k in want.files:
            w = differs(got[k], want[k], tol) if k in got.files else "not saved"
            if w:
                why.append(f"{k}: {w}")
        os.remove(save)
    elif rc == 0:
        why.append("nothing saved")
    t.ok(f"{name} [{on}]") if not why else t.fail(f"{name} [{on}]", "; ".join(why))


def snapshot(t, root, path, on, a):
    name = os.path.relpath(path, root)
    rc, out, err = oracle.run_hilo(["run", path, *on.split()], a.timeout)
    if rc == 1 and name in DIFFERENT:
        return t.skip(name, DIFFERENT[name])
    name = f"{name} [{on}]"
    t.ok(name) if rc == 0 else t.fail(name, oracle.status_text(rc, err or out.decode(errors="replace")))


def main():
    p = oracle.options(__doc__)
    p.add_argument("--on", action="append", metavar="OPTIONS", help="of hilo run, instead of: " + "; ".join(PLATFORMS))
    p.add_argument("--no-snapshots", action="store_true")
    p.add_argument("--only-snapshots", action="store_true")
    p.add_argument("--timeout", type=float, default=10, help="seconds a program")
    a = p.parse_args()
    root = oracle.corpus()
    try:
        import numpy                              # noqa: F401
    except ImportError:
        oracle.skip("no numpy")
    oracle.hilo()
    cases, snaps = [], []
    if not a.only_snapshots:
        tops = [os.path.join(root, d) for d in ("jax", "newest/jax")]
        cases = [os.path.join(top, d, f) for top in tops if os.path.isdir(top) for d in sorted(os.listdir(top)) for f in FORMS]
        cases = oracle.choose([f for f in cases if os.path.exists(f)], root, a.files)
    if not a.no_snapshots:
        top = os.path.join(root, "jax_tests")
        snaps = sorted(os.path.join(d, n) for d, _, ns in os.walk(top) for n in ns if n.endswith(".snapshot.pb"))
        snaps = oracle.choose(snaps, root, a.files)
    t = oracle.Tally(a.verbose)
    with tempfile.TemporaryDirectory(prefix="hilo-run-") as tmp:
        def one(what):
            path, on = what
            snapshot(t, root, path, on, a) if "snapshot" in path else jax_case(t, root, path, on, a, tmp)

        chosen = oracle.spread(cases, a.limit) + oracle.spread(snaps, a.limit)
        for _ in oracle.each(one, [(path, on) for path in chosen for on in a.on or PLATFORMS], a.jobs):
            pass
    t.end(4500, a)


if __name__ == "__main__":
    main()
