"""Whatever `hilo check` accepts, XLA accepts: small random modules with one instruction damaged (property_refusals).

  compare_refusals.py [--number N] [--seed S] [--limit M] [--verifier] [-v]

For each kind of instruction N modules are damaged: a number, a list, a type, a layout, an attribute, an operand, a called computation,
the opcode. Those that hilo accepts XLA must read, give back as a proto and read from that; and compile, where it compiles the
whole module. Where HILO_NEWEST_PYTHON has XLA's CUDA plugin, the newest verifier must accept them, too (verifier.py); with --verifier
only that is asked: 1,000 a kind are some 20,000 questions, an hour of one core.
"""
import os
import queue
import re
import subprocess
import tempfile

import oracle
import verifier

# What XLA says of a module that is valid, but not for this platform or machine, or that StableHLO has no word for.
NOT_HERE = re.compile(r"UNIMPLEMENTED|not implemented|Unsupported|not supported|RESOURCE_EXHAUSTED|Out of memory|timeout|"
                      r"non-empty replica groups", re.I)
# What XLA 0.10 says of chains, and of convolutions of more than two operands, that its next release takes.
LATER = re.compile(r"Async(Start|Update|Done) expects|more than one async op|async shape at index|requires one consumer|"
                   r"expects 2 operands, but has \d+ operands.* convolution\(", re.S)
# What no XLA of today has, though those of other years had: some ops, sends and recvs without a token.
NOT_NOW = re.compile(r"Unknown opcode|expects \d operands, but has \d operands.* (send|recv)\(", re.S)
# What the verifiers for machines with tiled memory allow, of which there is none to ask: floats of several types at once, and
# elements of more bits than their type has.
TILED = re.compile(r"Expected instruction to have shape equal|SameElementType|different precisions|"
                   r"XLA CPU/GPU backend does not support custom element sizes")


def is_tiled(path):
    with open(path) as f:
        return ":T(" in f.read()


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
        if not whole["ok"] or LATER.search(r["error"]) or NOT_NOW.search(r["error"]) or (
                want == "compile" and NOT_HERE.search(r["error"])):
            return None
        return f"{want}: {r['error']}"
    return None


class Verifiers:
    """Some of them, one a thread; none where there is no plugin."""

    def __init__(self, jobs):
        self.free = queue.Queue()
        for _ in range(jobs if verifier.find() else 0):
            self.free.put(verifier.find())
        self.some = not self.free.empty()

    def compare(self, path):
        """As compare."""
        v = self.free.get()
        try:
            error = v.ask(path)
            if error is None or NOT_NOW.search(error) or (TILED.search(error) and is_tiled(path)):
                return None
            if v.ask(path.replace(".hlo", ".whole.hlo")) is not None:
                return None
            return "verifier: " + error
        finally:
            self.free.put(v)

    def close(self):
        while not self.free.empty():
            self.free.get().stop()


def main():
    p = oracle.options(__doc__)
    p.add_argument("--number", type=int, default=8)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--verifier", action="store_true", help="ask the newest verifier only")
    a = p.parse_args()
    oracle.need_jax()
    t = oracle.Tally(a.verbose)
    xla, newest = oracle.Oracle(a.jobs, timeout=60), Verifiers(a.jobs)
    if a.verifier and not newest.some:
        oracle.skip("no Python with XLA's CUDA plugin: HILO_NEWEST_PYTHON names it")

    def ask(path):
        why = None if a.verifier else compare(xla, path)
        return newest.compare(path) if why is None and newest.some else why

    with tempfile.TemporaryDirectory(prefix="hilo-refusals-") as folder:
        files = oracle.spread(modules(folder, a.number, a.seed), a.limit)
        for path, why in oracle.each(ask, files, a.jobs):
            t.ok(path) if why is None else t.fail(os.path.basename(path), why.replace("\n", " ")[:300])
    xla.close()
    newest.close()
    t.end(100, a)


if __name__ == "__main__":
    main()
