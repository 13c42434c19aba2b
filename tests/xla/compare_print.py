"""Compares `hilo convert --to hlo` with what XLA prints, byte for byte.

  compare_print.py [--files GLOB] [--presets all|small|none] [--cache DIR]     the corpus
  compare_print.py --xla-tests DIR                                             any folder of HLO texts, bad ones too

For a folder of texts, accepting and refusing must agree too: what XLA's parser takes hilo must convert, and what it
refuses, `hilo check` and `hilo convert` must refuse with exit status 3. What hilo reads by design and XLA does not
(spellings of old dumps) counts as skipped. HILO and HILO_CORPUS say where the program and the corpus are.
"""
import os
import re

import oracle

SMALL = 60_000
# Refused by XLA's parser, read by hilo on purpose.
OLD = re.compile(r'unexpected attribute "(outer_dimension_partitions|conv_kind|async_group_id|all_reduce_id|original_value)"')


def compare(o, t, name, path, kind, want, xla_may_refuse):
    """One file in the printings of `want`; the first is the default one."""
    r = {w: o.ask(path, kind, [w]) for w in want}
    first = r[want[0]]
    if not first["ok"] and not first["crash"]:
        return refused(t, name, path, first["error"], xla_may_refuse)
    with open(path, "rb") as f:
        elided = b"{...}" in f.read()
    for w in want:
        label = f"{name} [{w}]"
        args = ["convert", "--no-verify", "--to", "hlo"] + ([f"--print={w}"] if w != "print" else []) + [path]
        if not r[w]["ok"]:
            rc, _, err = oracle.run_hilo(args)
            if rc is None or rc < 0:
                t.fail(label, f"XLA itself: {r[w]['error'][:80]}; hilo: {oracle.status_text(rc, err)}")
            else:
                t.skip(label, "XLA itself: " + r[w]["error"][:80])
            continue
        if elided and w in ("short", "fingerprint"):
            t.skip(label, "XLA fills elided constants from a counter and prints them here")
            continue
        rc, out, err = oracle.run_hilo(args)
        if rc != 0:
            t.fail(label, oracle.status_text(rc, err))
            continue
        with open(r[w][w], "rb") as f:
            d = oracle.difference(f.read(), out)
        t.ok(label) if d is None else t.fail(label, d)


def refused(t, name, path, error, xla_may_refuse):
    reason = " ".join(re.findall(r"error: (.*)", error)[:1])[:120]
    bad = []
    for args in (["check", path], ["convert", "--to", "hlo", path]):
        rc, _, err = oracle.run_hilo(args)
        if rc is None or rc < 0:
            return t.fail(name, f"hilo {args[0]}: {oracle.status_text(rc, err)}")
        if rc != 3:
            bad.append(f"hilo {args[0]} exits {rc}")
    if not bad:
        t.ok(name)
    elif not xla_may_refuse or OLD.search(error):
        t.skip(name, "XLA refuses, hilo reads: " + reason)
    else:
        t.fail(name, f"XLA refuses ({reason}), " + ", ".join(bad))


def main():
    p = oracle.options(__doc__)
    p.add_argument("--xla-tests", metavar="DIR", help="compare over this folder instead of the corpus")
    p.add_argument("--presets", choices=("all", "small", "none"), default="small",
                   help=f"also --print=short, canonical, fingerprint: of all files, of those under {SMALL} bytes, of none")
    p.add_argument("--cache", metavar="DIR", help="keep XLA's answers here, by the hash of the file")
    a = p.parse_args()
    oracle.need_jax()
    root = os.path.realpath(a.xla_tests) if a.xla_tests else oracle.corpus()
    oracle.hilo()
    if a.xla_tests:
        files = [os.path.join(d, n) for d, _, ns in os.walk(root) for n in ns if n.endswith((".hlo", ".hlotxt", ".txt"))]
        files = oracle.choose(sorted(files), root, a.files)
    else:
        files = oracle.corpus_modules(root, a.files)
    files = oracle.spread(files, a.limit)
    o, t = oracle.Oracle(a.jobs, a.cache, 60), oracle.Tally(a.verbose)

    def one(path):
        presets = a.presets == "all" or a.presets == "small" and os.path.getsize(path) < SMALL
        compare(o, t, os.path.relpath(path, root), path, "proto" if path.endswith(".pb") else "text",
                ("print",) + (oracle.PRESETS if presets else ()), bool(a.xla_tests))

    for _ in oracle.each(one, files, a.jobs):
        pass
    o.close()
    t.end(200, a)


if __name__ == "__main__":
    main()
