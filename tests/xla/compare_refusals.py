"""Whatever `hilo check` accepts, XLA accepts: small random modules with one instruction damaged (property_refusals).

  compare_refusals.py [--number N] [--seed S] [--limit M] [-v]

For each kind of instruction N modules are damaged: a number, a list, a type, a layout, an attribute. Those that hilo accepts XLA
must read, give back as a proto and read from that; and compile, where it compiles the whole module.
"""
import os
import re
import subprocess
import tempfile

import oracle

# What XLA says of a module that is valid, but not for this platform or machine, or that StableHLO has no word for.
NOT_HERE = re.compile(r"UNIMPLEMENTED|not implemented|Unsupported|not supported|RESOURCE_EXHAUSTED|Out of memory|timeout|"
                      r"non-empty replica groups", re.I)


def modules(folder, number, seed):
    program = os.path.join(os.path.dirname(oracle.hilo()), "tests", "property_refusals")
    if not os.access(program, os.X_OK):
        oracle.skip(f"no program at {program}")
    p = subprocess.run([program, "--keep", folder, str(number), str(seed)], capture_output=True, text=True)
    print(p.stdout.strip())
    return sorted(os.path.join(folder, f) for f in os.listdir(folder) if not f.endswith(".whole.hlo"))


def compare(xla, path):
    """None where XLA accepts, else its words and how far it came."""
    for want in ("roundtrip", "compile"):
        r = xla.ask(path, want=(want,))
        if r["ok"]:
            continue
        whole = xla.ask(path.replace(".hlo", ".whole.hlo"), want=(want,))
        if not whole["ok"] or (want == "compile" and NOT_HERE.search(r["error"])):
            return None
        return f"{want}: {r['error']}"
    return None


def main():
    p = oracle.options(__doc__)
    p.add_argument("--number", type=int, default=8)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    oracle.need_jax()
    t = oracle.Tally(a.verbose)
    xla = oracle.Oracle(a.jobs, timeout=60)
    with tempfile.TemporaryDirectory(prefix="hilo-refusals-") as folder:
        files = oracle.spread(modules(folder, a.number, a.seed), a.limit)
        for path, why in oracle.each(lambda f: compare(xla, f), files, a.jobs):
            t.ok(path) if why is None else t.fail(os.path.basename(path), why.replace("\n", " ")[:300])
    xla.close()
    t.end(100, a)


if __name__ == "__main__":
    main()
