"""Compares the protos hilo writes and reads with XLA's.

  compare_proto.py [--files GLOB] [--dir DIR] [--cache DIR]

For each module of the corpus (or text in DIR):
  write: text -> `hilo convert --to proto` -> XLA reads and prints   = XLA's own text -> proto -> text
  read:  XLA's proto -> `hilo convert --to hlo`                      = the same
"""
import os
import tempfile

import oracle


def told(want_path, got):
    with open(want_path, "rb") as f:
        return oracle.difference(f.read(), got)


def write(o, fresh, t, name, path, want, tmp):
    pb = os.path.join(tmp, name.replace("/", "__") + ".pb")
    rc, _, err = oracle.run_hilo(["convert", "--no-verify", "--to", "proto", "-o", pb, path])
    if rc != 0:
        return t.fail(f"{name} [write]", oracle.status_text(rc, err))
    r = fresh.ask(pb, "proto", ["print"])
    os.remove(pb)
    if not r["ok"]:
        return t.fail(f"{name} [write]", "XLA does not read hilo's proto: " + r["error"].replace("\n", " ")[:300])
    with open(r["print"], "rb") as f:
        d = told(want, f.read())
    t.ok(f"{name} [write]") if d is None else t.fail(f"{name} [write]", d)


def read(t, name, pb, want):
    rc, out, err = oracle.run_hilo(["convert", "--no-verify", "--to", "hlo", pb])
    if rc != 0:
        return t.fail(f"{name} [read]", oracle.status_text(rc, err))
    d = told(want, out)
    t.ok(f"{name} [read]") if d is None else t.fail(f"{name} [read]", d)


def main():
    p = oracle.options(__doc__)
    p.add_argument("--dir", metavar="DIR", help="this folder of HLO texts instead of the corpus")
    p.add_argument("--cache", metavar="DIR", help="keep XLA's answers here, by the hash of the file")
    a = p.parse_args()
    oracle.need_jax()
    root = os.path.realpath(a.dir) if a.dir else oracle.corpus()
    oracle.hilo()
    if a.dir:
        files = oracle.choose(sorted(os.path.join(d, n) for d, _, ns in os.walk(root) for n in ns
                                     if n.endswith((".hlo", ".hlotxt", ".txt"))), root, a.files)
    else:
        files = oracle.corpus_modules(root, a.files)
    files = oracle.spread(files, a.limit)
    o, t, fresh = oracle.Oracle(a.jobs, a.cache, 60), oracle.Tally(a.verbose), oracle.Oracle(a.jobs, None, 60)
    tmp = tempfile.TemporaryDirectory(prefix="hilo-proto-")

    def one(path):
        name = os.path.relpath(path, root)
        if path.endswith(".pb"):
            r = o.ask(path, "proto", ["print"])
            pb, want = path, r["print"]
        else:
            r = o.ask(path, "text", ["proto", "roundtrip"])
            pb, want = r["proto"], r["roundtrip"]
        if not r["ok"]:
            return t.skip(name, "XLA itself: " + r["error"].replace("\n", " ")[:120])
        write(o, fresh, t, name, path, want, tmp.name)
        read(t, name, pb, want)

    for _ in oracle.each(one, files, a.jobs):
        pass
    o.close()
    fresh.close()
    t.end(200, a)


if __name__ == "__main__":
    main()
