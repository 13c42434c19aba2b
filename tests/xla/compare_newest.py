"""Compares Hilo with the newest XLA on what that XLA has written (corpus newest/), byte for byte.

  compare_newest.py [--files GLOB] [--every N] [--cache DIR]

Each text of newest/ goes through jaxlib's parser and printer, and through `hilo convert`: the same text, told by what stands
in it to be of that release. Text that names elements of tuples (`%t#1`) comes back as it was, where XLA has no frames to
renumber. Then text to proto, read by XLA, and XLA's proto to text. And in the spelling of the release before it reads
back the same.

HILO_NEWEST_PYTHON names a Python with that jaxlib (0.11.2); where it is not set, this one must have it.
"""
import os
import re
import subprocess
import sys
import tempfile

import oracle

RELEASE, BEFORE = "0.11", "0.10"
INSIDE = re.compile(rb"%[^ ,()]+#[0-9]")


def python():
    exe = os.environ.get("HILO_NEWEST_PYTHON", sys.executable)
    if oracle.release_of(exe) != RELEASE:
        oracle.skip(f"no jaxlib {RELEASE}: HILO_NEWEST_PYTHON says which Python has it")
    return exe


def unpacked(path, folder):
    """The file, or what a .zst holds, as a file that XLA's side can read."""
    if not path.endswith(".zst"):
        return path
    out = os.path.join(folder, re.sub(r"\W", "_", path))
    if not os.path.exists(out):
        subprocess.run(["zstd", "-dqc", path], stdout=open(out, "wb"), check=True)
    return out


def same(t, label, want, args, xla=""):
    rc, out, err = oracle.run_hilo(args, xla=xla)
    if rc != 0:
        return t.fail(label, oracle.status_text(rc, err))
    d = oracle.difference(want, out)
    t.ok(label) if d is None else t.fail(label, d)


def compare(o, t, name, path, folder):
    with open(path, "rb") as f:
        text = f.read()
    if not text.startswith(b"HloModule"):
        return
    r = o.ask(path, "text", ["print", "proto", "roundtrip"])
    if not r["ok"]:
        return t.fail(name, "XLA: " + r["error"][:200])
    with open(r["print"], "rb") as f:
        printed = f.read()
    with open(r["roundtrip"], "rb") as f:
        by_proto = f.read()
    if not INSIDE.search(text):
        same(t, name + " [text]", printed, ["convert", "--to", "hlo", path])
    elif b"stack_frame_id" not in text:
        same(t, name + " [as it was]", text.rstrip(b"\n") + b"\n\n\n", ["convert", "--to", "hlo", path])
    same(t, name + " [from proto]", by_proto, ["convert", "--to", "hlo", r["proto"]])
    base = os.path.join(folder, re.sub(r"\W", "_", name))
    oracle.run_hilo(["convert", "--to", "proto", "-o", base + ".pb", path], xla="")
    ours = o.ask(base + ".pb", "proto", ["print"])
    if not ours["ok"]:
        t.fail(name + " [to proto]", ours["error"][:200])
    else:
        with open(ours["print"], "rb") as f:
            d = oracle.difference(by_proto, f.read())
        t.ok(name + " [to proto]") if d is None else t.fail(name + " [to proto]", d)
    os.remove(base + ".pb")
    oracle.run_hilo(["convert", "--large-constants", "-o", base + ".hlo", path], xla=BEFORE)
    rc, want, err = oracle.run_hilo(["convert", "--to", "hlo", "--large-constants", r["print"]], xla=RELEASE)
    same(t, name + f" [as {BEFORE}]", want, ["convert", "--to", "hlo", "--large-constants", base + ".hlo"], RELEASE)
    os.remove(base + ".hlo")


def main():
    p = oracle.options(__doc__)
    p.add_argument("--every", type=int, default=10, help="only every N-th state between passes")
    p.add_argument("--cache", metavar="DIR", help="keep XLA's answers here, by the hash of the file")
    a = p.parse_args()
    exe = python()
    root = os.path.join(oracle.corpus(), "newest")
    oracle.hilo()
    files = sorted(os.path.join(d, n) for d, _, ns in os.walk(root) for n in ns
                   if n.endswith((".txt", ".hlo", ".hlo.zst")))
    files = oracle.choose(files, root, a.files)
    passes = [f for f in files if re.search(r"/(cpu_passes|gpu)/", f)]
    kept = set(passes[::a.every])
    files = oracle.spread([f for f in files if f in kept or f not in set(passes)], a.limit)
    with tempfile.TemporaryDirectory(prefix="hilo-newest-") as folder:
        o, t = oracle.Oracle(a.jobs, a.cache, 60, exe), oracle.Tally(a.verbose)

        def one(path):
            compare(o, t, os.path.relpath(path, root), unpacked(path, folder), folder)

        for _ in oracle.each(one, files, a.jobs):
            pass
        o.close()
        t.end(400, a)


if __name__ == "__main__":
    main()
