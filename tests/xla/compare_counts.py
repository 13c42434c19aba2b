"""Compares how many instructions hilo makes of a JAX program with how many XLA makes.

  compare_counts.py [--files GLOB] [--verbose]

Each jax/* case of the corpus is read from program.mlir, program.mlirbc and program.jaxpr, and the instructions of the
module are counted against those of before.hlo, parameters and constants among them. MLIR must be within 10%; a jaxpr,
in which JAX's own lowering is not visible, is reported, and those beyond 25% are listed with what they have more of.
"""
import json
import os

import oracle

FORMS = (("program.mlir", 10, True), ("program.mlirbc", 10, True), ("program.jaxpr", 25, False))


def counts(path, timeout):
    rc, out, err = oracle.run_hilo(["stats", "--json", path], timeout)
    if rc != 0:
        return None, oracle.status_text(rc, err)
    return json.loads(out)[0]["modules"][0], None


def difference(got, want):
    """The opcodes whose counts differ most."""
    a, b = got["ops"], want["ops"]
    delta = {k: a.get(k, 0) - b.get(k, 0) for k in set(a) | set(b)}
    worst = sorted(delta, key=lambda k: (-abs(delta[k]), k))[:6]
    return ", ".join(f"{k} {delta[k]:+d}" for k in worst if delta[k])


def main():
    p = oracle.options(__doc__)
    p.add_argument("--timeout", type=float, default=20, help="seconds a program")
    a = p.parse_args()
    top = os.path.join(oracle.corpus(), "jax")
    oracle.hilo()
    t = oracle.Tally(a.verbose)
    for case in sorted(os.listdir(top)):
        want, why = counts(os.path.join(top, case, "before.hlo"), a.timeout)
        for form, percent, is_bound in FORMS:
            path = os.path.join(top, case, form)
            if not os.path.exists(path):
                continue
            got, why = counts(path, a.timeout)
            if why:
                t.fail(f"{case}/{form}", why)
                continue
            n, m = got["instructions"], want["instructions"]
            text = f"{n} instructions, XLA {m} ({100 * (n - m) / m:+.0f}%): {difference(got, want)}"
            if abs(n - m) <= m * percent / 100:
                t.ok(f"{case}/{form}")
            elif is_bound:
                t.fail(f"{case}/{form}", text)
            else:
                print(f"{case}/{form}: {text}")
                t.ok(f"{case}/{form}")
    t.end(99, a)


if __name__ == "__main__":
    main()
