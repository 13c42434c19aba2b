"""Compares hilo's dumps with XLA's of the same programs: names and kinds of files, texts, and whether XLA reads them.

  compare_dumps.py [--files GLOB] [--verbose]

dumps/all_formats, dumps/every_pass and dumps/spmd of the corpus were dumped by XLA. hilo starts from their
before_optimizations and dumps with the same flags. Run ids, kernels, LLVM and object files, jax_ir and shardy stay out
of the comparison; module numbers count from 0 in a run. Every text and proto hilo writes is given to XLA's reader.
"""
import glob
import os
import re
import shutil
import sys
import tempfile

import oracle

# What only a code generator or JAX writes.
ELSEWHERE = re.compile(r"\.(ll|o|mlir|pbtxt|textproto)$|^jax_|_kernel_module|snapshot|^compile_options|^topology"
                       r"|memory-usage-report\.pb$|\.history$|^hilo-index")
STEP = re.compile(r"^(.*?)\.(\d{4})\.(.*)\.after_(.*)\.before_(.*)\.txt$")


def plain(name):
    """A file's name without what differs between runs."""
    return re.sub(r"^module_\d{4}", "module_NNNN", re.sub(r"\.\d{4}\.", ".SSSS.", name))


def names(folder):
    """Names of files at a folder's top, those that are compared."""
    found = [n for n in os.listdir(folder) if os.path.isfile(os.path.join(folder, n))]
    return {plain(n) for n in found if not ELSEWHERE.search(n)}


def dump(start, flags, folder, timeout):
    rc, _, err = oracle.run_hilo(["opt", start, "--pipeline=cpu", "--xla_dump_to=" + folder, "-o", os.devnull] + flags,
                                 timeout)
    return None if rc == 0 else oracle.status_text(rc, err)


def starts_of(folder):
    for pattern in ("*.before_optimizations.txt", "*.before_optimizations.hlo.pb"):
        found = sorted(glob.glob(os.path.join(folder, pattern)))
        if found:
            return found
    return []


def steps(folder):
    """{(pipeline, pass, next)} of a folder's per-pass dumps."""
    return {m.groups()[2:] for m in map(STEP.match, os.listdir(folder)) if m}


def check_names(t, label, theirs, ours):
    for n in sorted(theirs - ours):
        t.fail(label, "XLA writes " + n)
    for n in sorted(ours - theirs):
        t.fail(label, "only hilo writes " + n)
    if theirs == ours:
        t.ok(label + " names")


def check_text(t, label, theirs, ours):
    """The texts before optimisations, which both print from the same modules."""
    ours = {plain(os.path.basename(f)): f for f in glob.glob(os.path.join(ours, "*.before_optimizations.txt"))}
    for a in sorted(glob.glob(os.path.join(theirs, "*.before_optimizations.txt"))):
        b = ours.get(plain(os.path.basename(a)))
        if b and open(a).read() == open(b).read():
            t.ok(os.path.basename(a) + " text")
        else:
            t.fail(label, "the text before optimisations differs: " + os.path.basename(a))


def check_reads(t, label, folder, xla):
    for path in sorted(glob.glob(folder + "/*.txt") + glob.glob(folder + "/*.hlo.pb")):
        head = open(path, "rb").read(10)
        if not path.endswith(".pb") and head != b"HloModule ":
            continue
        answer = xla.ask(path, "proto" if path.endswith(".pb") else "text")
        if answer.get("ok"):
            t.ok(os.path.basename(path))
        else:
            t.fail(label, f"XLA does not read {os.path.basename(path)}: {answer.get('error')}")


# Where the passes that change something differ from XLA's, and why.
EXPLAINED = {
    ("HLO_passes_after_layout_assignment", "copy-insertion", "small-while-loop-hoisting"):
        "XLA's copy-insertion always reports a change",
    ("HLO_passes_through_layout_assignment", "shape-canonicalizer", "literal-canonicalizer"):
        "shapes are shared from the start",
}


def check_steps(t, label, theirs, ours):
    """The steps of both; each difference must be explained."""
    for who, only in (("XLA", theirs - ours), ("hilo", ours - theirs)):
        for s in sorted(only):
            text = f"only {who} has {s[0]}: after {s[1]}, before {s[2]}"
            if s in EXPLAINED:
                print(f"{label}: {text}: {EXPLAINED[s]}")
            else:
                t.fail(label, text)
    t.ok(label + " steps")


FORMATS = ["--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto", "--xla_dump_hlo_as_dot", "--xla_dump_hlo_as_url",
           "--xla_dump_hlo_as_html", "--xla_dump_hlo_snapshots", "--xla_cpu_enable_fast_min_max=false"]
CASES = [("all_formats", FORMATS), ("every_pass", ["--xla_dump_hlo_pass_re=.*"]),
         ("spmd", ["--xla_dump_hlo_pass_re=.*spmd.*|.*propagation.*|.*shard.*"])]


def main():
    p = oracle.options(__doc__)
    p.add_argument("--timeout", type=float, default=120, help="seconds a dump")
    a = p.parse_args()
    oracle.need_jax()
    top = os.path.join(oracle.corpus(), "dumps")
    t = oracle.Tally(a.verbose)
    xla = oracle.Oracle()
    for case, flags in CASES:
        theirs = os.path.join(top, case)
        ours = tempfile.mkdtemp()
        why = None
        for start in starts_of(theirs):
            why = why or dump(start, flags, ours, a.timeout)
        if why:
            t.fail(case, why)
            continue
        if case == "every_pass":
            check_steps(t, case, steps(theirs), steps(ours))
        else:
            check_names(t, case, names(theirs), names(ours))
        check_text(t, case, theirs, ours)
        check_reads(t, case, ours, xla)
        shutil.rmtree(ours, ignore_errors=True)
    xla.close()
    t.end(6, a)


main()
