"""Compares the order of passes and nested pipelines with XLA's.

  compare_order.py [--files GLOB] [--jobs N]
  compare_order.py --note DUMPS NAME      writes order/NAME.txt from a folder of XLA's dumps (--xla_dump_hlo_pass_re=.+)

order/PLATFORM-RELEASE[-spmd].txt is what a release of XLA runs, a line for each stretch in one pipeline. Hilo's own dumps of
every pass must show the same stretches in the same order; how often a pipeline that runs to a fixed point goes round is not
compared. Where the corpus has XLA's dumps of whole programs (newest/cpu_passes, newest/gpu), each state they show must be
one that hilo goes through, too: pipeline, pass before, pass after.
"""
import glob
import os
import re
import shutil
import sys
import tempfile

import oracle

FOLDER = os.path.join(oracle.HERE, "order")
STATE = re.compile(r"\.(\d{4})\.([^.]+)\.after_([^.]+)\.before_([^.]+)\.txt$")
ONE = """HloModule one, entry_computation_layout={(f32[16,32]{1,0})->f32[16]{0}}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[16,32] parameter(0)%s
  zero = f32[] constant(0)
  t = f32[16,32] tanh(x)
  ROOT r = f32[16] reduce(t, zero), dimensions={1}, to_apply=add
}
"""
PROGRAMS = {"": ONE % "", "-spmd": ONE.replace("HloModule one,", "HloModule one, num_partitions=8,")
            % ", sharding={devices=[1,8]<=[8]}"}
# Names that hold a number of the process.
COUNTED = re.compile(r"^(apply-xla-transforms)-\d+$")
# What XLA's dumps name and hilo's do not, and why.
EXPLAINED = {
    "HLO_passes_through_layout_assignment: after shape-canonicalizer, before literal-canonicalizer":
        "shapes are shared from the start",
}


def plain(name):
    return COUNTED.sub(r"\1", name)


def states(folder):
    """[(pipeline, after, before)] in order."""
    found = ((STATE.search(name), name) for name in os.listdir(folder))
    return [(p, plain(a), plain(b)) for _, p, a, b in sorted(m.groups() for m, _ in found if m)]


def stretches(found):
    """A line for each stretch in a pipeline, the same one after the other once."""
    lines = []
    for pipeline, after, _ in found:
        if after == "pipeline-start" or not lines or lines[-1][0] != pipeline:
            lines.append([pipeline])
        lines[-1].append(after)
    text = [f"{line[0]}: {' '.join(line[1:])}" for line in lines]
    return [t for k, t in enumerate(text) if k == 0 or t != text[k - 1]]


def dump(path, platform, release, folder):
    args = ["opt", path, "--pipeline=" + platform, "--xla_dump_to=" + folder, "--xla_dump_hlo_pass_re=.+", "-o", os.devnull]
    rc, _, err = oracle.run_hilo(args, 300, release)
    return None if rc == 0 else oracle.status_text(rc, err)


def compare_release(t, name):
    platform, release, spmd = re.match(r"(cpu|gpu)-([\d.]+?)(-spmd)?\.txt$", name).groups("")
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "in.hlo")
    open(path, "w").write(PROGRAMS[spmd])
    why = dump(path, platform, release, folder)
    want = open(os.path.join(FOLDER, name)).read().splitlines()
    got = stretches(states(folder))
    shutil.rmtree(folder)
    if why:
        t.fail(name, why)
        return
    for k in range(max(len(want), len(got))):
        w, g = (lines[k] if k < len(lines) else "the end" for lines in (want, got))
        if w != g:
            t.fail(name, f"stretch {k + 1}\n  XLA:  {w}\n  hilo: {g}")
            return
    t.ok(name)


def compare_program(t, folder, platform):
    start = glob.glob(os.path.join(folder, "*.before_optimizations.txt"))
    if not start:
        return
    mine = tempfile.mkdtemp()
    why = dump(start[0], platform, "", mine)
    lacking = set(states(folder)) - set(states(mine))
    shutil.rmtree(mine)
    label = f"{platform} {os.path.basename(folder)}"
    if why:
        t.fail(label, why)
    for state in sorted(lacking):
        text = "%s: after %s, before %s" % state
        if text in EXPLAINED:
            t.skip(label, f"{text}: {EXPLAINED[text]}")
        else:
            t.fail(label, "only XLA has " + text)
    if not lacking and not why:
        t.ok(label)


def note(dumps, name):
    with open(os.path.join(FOLDER, name + ".txt"), "w") as out:
        out.write("\n".join(stretches(states(dumps))) + "\n")


def main():
    if sys.argv[1:2] == ["--note"]:
        note(*sys.argv[2:])
        return
    a = oracle.options(__doc__).parse_args()
    t = oracle.Tally(a.verbose)
    for name in sorted(os.listdir(FOLDER)):
        compare_release(t, name)
    least = len(os.listdir(FOLDER))
    if t.failed:
        t.end(least, a)
    top = os.path.join(oracle.corpus(), "newest")
    folders = [(os.path.join(top, d, c), platform) for d, platform in (("cpu_passes", "cpu"), ("gpu", "gpu"))
               for c in (sorted(os.listdir(os.path.join(top, d))) if os.path.isdir(os.path.join(top, d)) else [])]
    if a.files:
        folders = [f for f in folders if a.files in f[0]]
    for _ in oracle.each(lambda f: compare_program(t, *f), oracle.spread(folders, a.limit), a.jobs):
        pass
    t.end(least + len(folders) // 2, a)


if __name__ == "__main__":
    main()
