"""Compares the kernels that hilo's gpu pipeline makes of a program with those of XLA:GPU, by kind.

  compare_kernels.py [--files GLOB] [--verbose]

The programs are corpus newest/gpu (33, compiled and tuned on an H100) and newest/gpu_models (models/, not tuned, for
one device), the target is the one they were compiled for. A kernel's kind is its opcode; of a custom call also the target, of
an asynchronous start what it begins, of a fusion its kind and what its roots are ("kLoop transpose", "kInput reduce"), or its backend's name.
Which of the native and the block-level emitter runs a fusion was measured on the H100 and is written nowhere but in the
result: a fusion that was native before XLA assigned configurations counts as what it was then.

Prints hilo's kernels / XLA's a program, what kinds differ, the geometric mean and how many have the same kinds.
"""
import collections
import glob
import math
import os
import re
import subprocess
import tempfile

import hlo_count
import oracle

CALLS = re.compile(r"\bcalls=%?([\w.\-]+)")
KIND = re.compile(r"\bkind=(k\w+)")
BACKEND = re.compile(r'"kind":"([^"]+)"')
TARGET = re.compile(r'\bcustom_call_target="([^"]*)"')
OPERAND = re.compile(r"%([\w.\-]+)")
NAME = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = ")
HEROES = ("reduce", "transpose", "scatter", "concatenate", "dynamic-update-slice", "sort", "reduce-window")
PARTITIONS = re.compile(r", num_partitions=\d+")
LEAST_SAME = 30                            # programs of newest/gpu with the same kinds
MOST_MEAN = 1.010                          # geometric mean of their kernels / XLA's; the goal is 1.0


def operands(line, op):
    """The names of an instruction's operands."""
    rest = hlo_count.after_type(hlo_count.INSTRUCTION.match(line).group(2))
    depth, out = 0, rest[len(op):]
    for k, c in enumerate(out):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return OPERAND.findall(out[:k])
    return []


def heroes(comp):
    """What the roots of a fused computation are: heroes reached by way of instructions with one operand, else nothing."""
    by_name = {NAME.match(line).group(1): (op, line) for op, _, line in comp}
    root = next((op, line) for op, _, line in comp if line.lstrip().startswith("ROOT"))
    roots = [by_name[n] for n in operands(root[1], root[0])] if root[0] == "tuple" else [root]
    found = set()
    for op, line in roots:
        while op not in HEROES:
            below = operands(line, op)
            if len(below) != 1 or below[0] not in by_name:
                break
            op, line = by_name[below[0]]
        if op in HEROES:
            found.add(op)
    return found


def fusion_kind(comps, line):
    kind, backend = KIND.search(line).group(1), BACKEND.search(line)
    if kind == "kCustom" and backend:
        return "fusion " + re.sub("__triton_.*gemm.*", "__triton_gemm", backend.group(1))
    return " ".join(["fusion", kind, *sorted(heroes(comps[CALLS.search(line).group(1)]))])


def kind_of(comps, op, line):
    if op == "fusion":
        return fusion_kind(comps, line)
    if op == "custom-call":
        return "custom-call " + TARGET.search(line).group(1)
    if op == "fusion-start":
        return "async " + fusion_kind(comps, line)
    if op == "async-start":
        return "async " + " ".join(kind_of(comps, o, x) for o, _, x in comps[CALLS.search(line).group(1)]
                                   if o not in hlo_count.FREE)
    return op


def kernels(text, before=""):
    """{kind: how many}; emitters are those of `before`, where an instruction of that name stands there."""
    comps, entry = hlo_count.computations(text)
    comps_before = hlo_count.computations(before)[0]
    native = {NAME.match(line).group(1): (op, line) for c in comps_before.values() for op, _, line in c
              if op == "fusion" and not BACKEND.search(line)}
    seen, todo, out = set(), [entry], collections.Counter()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for op, called, line in comps[name]:
            todo += called
            if op in hlo_count.FREE or op.endswith("-done"):
                continue
            mine = NAME.match(line).group(1)
            out[kind_of(comps_before, *native[mine]) if op == "fusion" and mine in native else kind_of(comps, op, line)] += 1
    return out


def programs(corpus, a, folder):
    """(name, input, target, XLA's result, its state before configurations were assigned)"""
    top = os.path.join(corpus, "newest", "gpu")
    read = lambda p: open(p).read()
    for case in sorted(os.listdir(top)):
        one = lambda end: glob.glob(os.path.join(top, case, "*" + end))[0]
        target = one("gpu_target_config.pbtxt")
        yield (f"gpu/{case}", one(".before_optimizations.txt"), target, read(one("gpu_after_optimizations.txt")),
               read(one("before_config_assignment.txt")))
    for path in sorted(glob.glob(os.path.join(corpus, "newest", "gpu_models", "*.zst"))):
        name = os.path.basename(path).replace(".gpu_after.hlo.zst", "")
        model = os.path.join(corpus, "models", name + ".hlo")
        alone = os.path.join(folder, name + ".hlo")
        with open(alone, "w") as f:
            f.write(PARTITIONS.sub("", read(model), count=1))
        text = subprocess.run(["zstd", "-dqc", path], capture_output=True, check=True, text=True).stdout
        yield f"gpu_models/{name}", alone, target, text, ""


def differences(ours, theirs):
    return ", ".join(f"{k} {ours[k] - theirs[k]:+d}" for k in sorted(set(ours) | set(theirs)) if ours[k] != theirs[k])


def compare(t, todo, a):
    """({name: hilo's kernels / XLA's}, [name with the same kinds])"""
    ratios, same = {}, []

    def run(program):
        rc, out, err = oracle.run_hilo(["opt", "--pipeline=gpu", "--target=" + program[2], program[1]], a.timeout, xla="0.11")
        return rc, err, out.decode()

    for (name, _, _, after, unassigned), (rc, err, out) in oracle.each(run, todo, a.jobs):
        if rc != 0:
            t.fail(name, oracle.status_text(rc, err))
            continue
        if a.keep:
            with open(os.path.join(a.keep, os.path.basename(name) + ".hlo"), "w") as f:
                f.write(out)
        ours, theirs = kernels(out), kernels(after, unassigned)
        n, m = sum(ours.values()), sum(theirs.values())
        ratios[name] = n / max(m, 1)
        same += [name] if ours == theirs else []
        print(f"{name}: {n} kernels, XLA {m} ({ratios[name]:.2f}x): {differences(ours, theirs) or 'the same kinds'}", flush=True)
        t.ok(name)
    return ratios, same


def main():
    p = oracle.options(__doc__)
    p.add_argument("--timeout", type=float, default=240, help="seconds a program")
    p.add_argument("--keep", metavar="DIR", help="leave hilo's results there")
    a = p.parse_args()
    oracle.hilo()
    corpus = oracle.corpus()
    if not os.path.isdir(os.path.join(corpus, "newest", "gpu")):
        oracle.skip("no newest/gpu in the corpus")
    t = oracle.Tally(a.verbose)
    with tempfile.TemporaryDirectory(prefix="hilo-kernels-") as folder:
        todo = [x for x in programs(corpus, a, folder) if not a.files or re.search(a.files.replace("*", ".*"), x[0])]
        ratios, same = compare(t, oracle.spread(todo, a.limit), a)
    for kind in sorted({n.split("/")[0] for n in ratios}):
        of = [r for n, r in ratios.items() if n.startswith(kind + "/")]
        mean = math.exp(sum(map(math.log, of)) / len(of))
        n_same = sum(n.startswith(kind + "/") for n in same)
        print(f"{kind}: geometric mean {mean:.3f}x, worst {max(of):.2f}x, above 1.1x: {sum(r > 1.1 for r in of)}, "
              f"the same kinds: {n_same} of {len(of)}")
        if kind == "gpu" and not a.files and not a.limit and (n_same < LEAST_SAME or mean > MOST_MEAN):
            t.fail("gpu", f"{LEAST_SAME} with the same kinds are expected, and a mean of {MOST_MEAN}x at most")
    t.end(40, a)


if __name__ == "__main__":
    main()
