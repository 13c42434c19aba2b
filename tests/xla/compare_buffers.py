"""Compares the buffer assignment that hilo writes into a dump's HloProto with XLA's, value by value.

  compare_buffers.py [--files GLOB] [--verbose]

XLA compiles the corpus' JAX programs and dumps protos; hilo reads the optimised module of each dump and dumps it again.
Values, which of them share memory, allocations and the trace of the heap must agree, instructions by name. Two fields
may differ: the number of the traced allocation, which in XLA is the one before temporaries were gathered, and the
values at the peak, where XLA takes shared memory to be free once the value is that came first: there hilo's must hold
no less.
"""
import collections
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import oracle

VALUES, ALIASES, ALLOCATIONS, TRACES, PEAKS = range(1, 6)
Location = collections.namedtuple("Location", "name index")


def varint(raw, at):
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(raw):
    """(number, value) of a message: integers, and bytes of what has a length."""
    at, out = 0, []
    while at < len(raw):
        key, at = varint(raw, at)
        if key & 7 == 0:
            value, at = varint(raw, at)
        elif key & 7 == 2:
            n, at = varint(raw, at)
            value, at = raw[at:at + n], at + n
        else:
            n = 8 if key & 7 == 1 else 4
            value, at = raw[at:at + n], at + n
        out.append((key >> 3, value))
    return out


def packed(raw):
    at, out = 0, []
    while at < len(raw):
        value, at = varint(raw, at)
        out.append(value)
    return out


def instruction_names(module):
    """{id: name} of an HloModuleProto."""
    names = {}
    for number, computation in fields(module):
        for k, instruction in fields(computation) if number == 3 else ():
            if k == 2:
                of = dict(f for f in fields(instruction) if f[0] in (1, 35))
                names[of.get(35, 0)] = of[1].decode()
    return names


def location(raw, names):
    of = dict(fields(raw))
    return Location(names[of.get(4, 0)], tuple(packed(of.get(3, b""))))


class Assignment:
    def __init__(self, path):
        with open(path, "rb") as f:
            parts = dict(fields(f.read()))
        names = instruction_names(parts[1])
        self.rows = collections.defaultdict(list)
        self.sizes, self.peaks = {}, {}
        for number, message in fields(parts[3]):
            getattr(self, "add_%d" % number)(fields(message), names)

    def add_1(self, message, names):
        self.rows[VALUES].append([(k, location(v, names) if k == 3 else v) for k, v in message])

    def add_2(self, message, names):
        self.rows[ALIASES].append([(k, location(v, names) if k == 2 else v) for k, v in message])

    def add_3(self, message, names):
        row = []
        for k, v in message:
            if k == 9:
                v = fields(v)
                of = dict(v)
                self.sizes[of.get(1, 0)] = of.get(3, 0)
            row.append((k, v))
        self.rows[ALLOCATIONS].append(row)

    def add_4(self, message, names):
        self.rows[TRACES].append([fields(v) if k == 1 else v for k, v in message if k != 3])

    def add_5(self, message, names):
        of = dict(message)
        self.peaks[of.get(1, 0)] = packed(of.get(2, b""))

    def peak_bytes(self, allocation):
        return sum(self.sizes[v] for v in self.peaks[allocation])


def compare(t, label, theirs, ours):
    for kind, what in ((VALUES, "values"), (ALIASES, "aliases"), (ALLOCATIONS, "allocations"), (TRACES, "trace")):
        a, b = theirs.rows[kind], ours.rows[kind]
        at = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        if a == b:
            t.ok(f"{label} {what}")
        else:
            t.fail(label, f"{what}: {len(a)} in XLA, {len(b)} here; number {at}: {a[at:at + 1]} and {b[at:at + 1]}")
    for number in sorted(theirs.peaks):
        if theirs.peaks[number] == ours.peaks.get(number):
            t.ok(f"{label} peak {number}")
        elif theirs.peak_bytes(number) < ours.peak_bytes(number):
            t.ok(f"{label} peak {number}, more than XLA's")
        else:
            t.fail(label, f"peak of allocation {number}: {theirs.peaks[number]} and {ours.peaks.get(number)}")


def dumped(folder):
    found = sorted(glob.glob(folder + "/*after_optimizations.hlo.pb"))
    return found[-1] if found else None


def main():
    p = oracle.options(__doc__)
    p.add_argument("--timeout", type=float, default=300, help="seconds a program")
    a = p.parse_args()
    oracle.need_jax()
    tool = os.path.join(oracle.corpus(), "..", "tools", "xla_oracle.py")
    if not os.path.exists(tool):
        oracle.skip("no xla_oracle.py beside the corpus")
    t = oracle.Tally(a.verbose)
    programs = sorted(glob.glob(os.path.join(oracle.corpus(), "jax", "*", "before.hlo")))
    for path in oracle.spread(oracle.choose(programs, oracle.corpus(), a.files), a.limit):
        label = os.path.basename(os.path.dirname(path))
        folder = tempfile.mkdtemp()
        env = dict(os.environ, XLA_FLAGS="--xla_dump_hlo_as_proto --xla_dump_to=" + folder + "/xla")
        subprocess.run([sys.executable, tool, "compile", path], env=env, timeout=a.timeout, capture_output=True)
        theirs = dumped(folder + "/xla")
        if not theirs:
            t.skip(label, "XLA does not compile it")
            continue
        rc, _, err = oracle.run_hilo(["opt", theirs, "--passes=", "--xla_dump_to=" + folder + "/hilo",
                                      "--xla_dump_hlo_as_proto", "-o", os.devnull], a.timeout)
        if rc != 0:
            t.fail(label, oracle.status_text(rc, err))
        else:
            compare(t, label, Assignment(theirs), Assignment(dumped(folder + "/hilo")))
        shutil.rmtree(folder, ignore_errors=True)
    t.end(30, a)


main()
