"""Compares how Hilo and XLA read and print what was found in the wild (corpus wild/): HLO and MLIR of all years and makers.

  compare_wild.py [--files GLOB] [--cache DIR]

What XLA reads, Hilo prints as it does, byte for byte. Of HLO, what XLA writes as a proto Hilo reads to the same text, and of what
Hilo writes as a proto XLA prints the same. What XLA refuses, Hilo may read (old spellings, which it takes on purpose), or refuses
with an error and exit status 3. Both releases of XLA are asked where HILO_NEWEST_PYTHON names a
Python with the newest.
"""
import os
import re
import tempfile

import oracle


def releases(jobs, cache):
    """(release, oracle) of this Python's XLA, and of the newest one's."""
    found = [(oracle.release(), oracle.Oracle(jobs, cache and os.path.join(cache, oracle.release()), 60))]
    newest = os.environ.get("HILO_NEWEST_PYTHON")
    if newest:
        release = oracle.release_of(newest)
        if release and release != oracle.release():
            found.append((release, oracle.Oracle(jobs, cache and os.path.join(cache, release), 60, newest)))
    return found


def kind_of(path):
    if path.endswith(".pb"):
        return "proto"
    return "text" if path.endswith(".hlo") else "mlir" if path.endswith(".mlir") else None


def dialect_of(path):
    """The dialect that MLIR stays in; None: neither StableHLO nor MHLO, such as LLVM's."""
    with open(path, "rb") as f:
        text = f.read()
    if b"stablehlo." in text or text[:4] == b"ML\xefR":
        return "stablehlo"
    return "mhlo" if b"mhlo." in text else None


def told(t, label, want_file, out):
    with open(want_file, "rb") as f:
        d = oracle.difference(f.read(), out)
    t.ok(label) if d is None else t.fail(label, d)


def converted(t, label, want_file, path, release, form="hlo"):
    args = ["convert", "--no-verify", "--to", form, path] + ([] if form == "hlo" else ["--large-constants"])
    rc, out, err = oracle.run_hilo(args, xla=release)
    t.fail(label, oracle.status_text(rc, err)) if rc != 0 else told(t, label, want_file, out)


def refused(t, label, path, error):
    """XLA refuses the file: Hilo reads it or says why not."""
    rc, _, err = oracle.run_hilo(["check", path])
    why = " ".join(re.findall(r"error: (.*)", error)[:1] or error.split())[:100]
    if rc == 0:
        t.skip(label, "XLA refuses, hilo reads: " + why)
    elif rc == 3 and "error: " in err:
        t.ok(label)
    else:
        t.fail(label, f"XLA refuses ({why}); hilo: " + oracle.status_text(rc, err))


def compare_mlir(o, t, release, label, path):
    r, form = o.ask(path, "mlir", ["print"]), dialect_of(path)
    if not r["ok"]:
        refused(t, label, path, r["error"])
    elif not form:
        t.skip(label, "neither StableHLO nor MHLO")
    else:
        converted(t, label, r["print"], path, release, form)


def compare(o, t, release, name, path, folder):
    label = f"{name} [{release}"
    kind = kind_of(path)
    if kind == "mlir":
        return compare_mlir(o, t, release, label + "]", path)
    r = o.ask(path, kind, ["print", "roundtrip", "proto"])
    if not r["print"]:
        return refused(t, label + "]", path, r["error"])
    converted(t, label + "]", r["print"], path, release)
    if not r["proto"] or not r["roundtrip"]:
        return t.skip(label + " proto]", "XLA itself: " + r["error"][:100])
    converted(t, label + " from proto]", r["roundtrip"], r["proto"], release)
    ours = os.path.join(folder, f"{release}-{name}.pb")
    rc, _, err = oracle.run_hilo(["convert", "--no-verify", "--to", "proto", "-o", ours, path], xla=release)
    if rc != 0:
        return t.fail(label + " to proto]", oracle.status_text(rc, err))
    back = o.ask(ours, "proto", ["print"])
    if not back["ok"]:
        return t.fail(label + " to proto]", back["error"][:200])
    with open(back["print"], "rb") as f:
        told(t, label + " to proto]", r["roundtrip"], f.read())


def main():
    p = oracle.options(__doc__)
    p.add_argument("--cache", metavar="DIR", help="keep XLA's answers here, by release and the hash of the file")
    a = p.parse_args()
    oracle.need_jax()
    root = os.path.join(oracle.corpus(), "wild")
    oracle.hilo()
    files = [os.path.join(root, n) for n in sorted(os.listdir(root)) if kind_of(n)]
    files = oracle.spread(oracle.choose(files, root, a.files), a.limit)
    t = oracle.Tally(a.verbose)
    with tempfile.TemporaryDirectory(prefix="hilo-wild-") as folder:
        for release, o in releases(a.jobs, a.cache):
            for _ in oracle.each(lambda f: compare(o, t, release, os.path.basename(f), f, folder), files, a.jobs):
                pass
            o.close()
    t.end(100, a)


if __name__ == "__main__":
    main()
